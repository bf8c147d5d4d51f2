"""Commands about runs: where they stand, what they cost, and words said to them with a policy."""

import json
import shutil
import time

from midstream.command.command import Command
from midstream.core.addressing import as_typed
from midstream.core.errors import UserMistake
from midstream.core.events import Usage
from midstream.core.names import Policy
from midstream.core.run import Run
from midstream.core.views.clock import time_of_day
from midstream.core.views.costs import Cost, costs, in_words
from midstream.core.views.drawing import drawing
from midstream.core.views.graph import graph_of
from midstream.core.views.marks import marks_of
from midstream.core.views.status import Lane, lanes, where
from midstream.ports import Operator

SHOWN_DATA = 4_000
"""Characters of common_data that `/state` shows."""

_WIDEST_GRAPH = 100


def run_line(run: Run) -> str:
    """Return where a run stands, on one line."""
    name = run.definition.workflow.workflow_name if run.definition else "?"
    state = f" [{run.state}]" if run.state and not run.is_over else ""
    stands = where(run)
    until = "" if stands.until is None else f" until {time_of_day(stands.until, now=time.time())}"
    return f"{run.id}  {name}{state}: {stands.doing}{until}"


def lane_line(lane: Lane) -> str:
    """Return where a branch stands, on one line."""
    about = f" {lane.about}" if lane.about else ""
    state = f" [{lane.state}]" if lane.state else ""
    until = "" if lane.until is None else f" until {time_of_day(lane.until, now=time.time())}"
    return f"{lane.path}{about}{state}: {lane.doing}{until}"


async def _state(operator: Operator, argument: str) -> None:
    machine = operator.active()
    if machine is None:
        operator.tell(f"Mode {operator.mode}. Nothing has been said yet.")
        return
    run = machine.run
    lines = [run_line(run)]
    lines += [f"  ▌ {lane_line(lane)}" for lane in lanes(run)]
    lines += [
        f"  #{q.number} {f'{q.branch}: ' if q.branch else ''}{q.text}" for q in where(run).questions
    ]
    waiting = [record for record in run.inbox.values() if record.disposition is None]
    lines += [f"  waiting: {as_typed(r.text, r.to)}" for r in waiting]
    visits = ", ".join(f"{state} {count}" for state, count in run.visits.items())
    if visits:
        lines.append(f"  visits: {visits}")
    data = json.dumps(run.common_data, indent=2, ensure_ascii=False)
    if len(data) > SHOWN_DATA:
        data = f"{data[:SHOWN_DATA]}\n... (+{len(data) - SHOWN_DATA} characters)"
    lines.append(f"  common_data: {data}")
    operator.tell("\n".join(lines))


async def _cost(operator: Operator, argument: str) -> None:
    rows: list[tuple[str, Cost]] = []
    usages: list[tuple[str, Usage]] = []
    for machine in operator.machines():
        run = machine.run
        usages.extend(run.usages)
        name = run.definition.workflow.workflow_name if run.definition else "?"
        for (agent, model), cost in costs(run.usages).rows.items():
            rows.append((f"{run.id} {name}  {agent}  {model}", cost))
    if not rows:
        operator.tell("No model has replied yet (a reply that was cut off is not counted).")
        return
    rows.append(("total", costs(usages).total))
    width = max(len(title) for title, _ in rows)
    operator.tell("\n".join(f"{title.ljust(width)}  {_cost_words(cost)}" for title, cost in rows))


def _cost_words(cost: Cost) -> str:
    requests = f"{cost.requests} request{'s' if cost.requests != 1 else ''}"
    return f"{requests}, {cost.input_tokens} in, {cost.output_tokens} out, {in_words(cost)}"


async def _queue(operator: Operator, argument: str) -> None:
    await _say(operator, argument, "queue")


async def _steer(operator: Operator, argument: str) -> None:
    await _say(operator, argument, "steer")


async def _interrupt(operator: Operator, argument: str) -> None:
    await _say(operator, argument, "interrupt")


async def _say(operator: Operator, words: str, policy: Policy) -> None:
    if not words:
        raise UserMistake(f"What should it be told? /{policy} TEXT")
    await operator.say(words, policy)


async def _stop(operator: Operator, argument: str) -> None:
    machine = operator.active()
    if machine is None or machine.run.is_over:
        raise UserMistake("Nothing is running.")
    await machine.halt()


async def _graph(operator: Operator, argument: str) -> None:
    # Two columns are the console's own, before each of its lines.
    width = min(shutil.get_terminal_size().columns, _WIDEST_GRAPH) - 2
    if argument:
        definition, _ = await operator.library.load(argument)
        operator.tell(drawing(graph_of(definition), width=width))
        return
    machine = operator.active()
    run = None if machine is None else machine.run
    if run is None or run.definition is None or run.definition.kind == "chat":
        hint = "/graph NAME draws one that does not run; /workflows lists them."
        raise UserMistake("No workflow is active.", hint=hint)
    graph = graph_of(run.definition)
    operator.tell(drawing(graph, width=width, marks=marks_of(run, graph)))


def _workflow_names(operator: Operator) -> list[tuple[str, str]]:
    return sorted(operator.library.workflows().items())


RUN_COMMANDS = (
    Command(name="state", summary="where the run stands, and its common_data", action=_state),
    Command(
        name="graph",
        arguments="[NAME]",
        summary="draw the active workflow, and where it is; or any other",
        action=_graph,
        complete=_workflow_names,
    ),
    Command(name="cost", summary="what was used, by run, agent and model", action=_cost),
    Command(
        name="queue",
        arguments="TEXT",
        summary="say it once the current state is done",
        action=_queue,
    ),
    Command(
        name="steer",
        arguments="TEXT",
        summary="let it join the next model request of the running turn",
        action=_steer,
    ),
    Command(
        name="interrupt",
        arguments="TEXT",
        summary="halt at once and act on it, whatever the state's policy",
        action=_interrupt,
    ),
    Command(name="stop", summary="stop the current turn and hold (Esc)", action=_stop),
)

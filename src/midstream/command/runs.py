"""Commands about runs: where they stand, what they cost, and words said to them with a policy."""

import json

from midstream.command.command import Command
from midstream.core.errors import UserMistake
from midstream.core.events import Usage
from midstream.core.names import Policy
from midstream.core.run import Run
from midstream.core.views.costs import Cost, costs, in_words
from midstream.core.views.status import where
from midstream.ports import Operator

SHOWN_DATA = 4_000
"""Characters of common_data that `/state` shows."""


def run_line(run: Run) -> str:
    """Return where a run stands, on one line."""
    name = run.definition.workflow.workflow_name if run.definition else "?"
    state = f" [{run.state}]" if run.state and not run.is_over else ""
    return f"{run.id}  {name}{state}: {where(run).doing}"


async def _state(operator: Operator, argument: str) -> None:
    machine = operator.active()
    if machine is None:
        operator.tell(f"Mode {operator.mode}. Nothing has been said yet.")
        return
    run = machine.run
    lines = [run_line(run)]
    lines += [f"  #{q.number} {q.text}" for q in where(run).questions]
    waiting = [record.text for record in run.inbox.values() if record.disposition is None]
    lines += [f"  waiting: {text}" for text in waiting]
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


RUN_COMMANDS = (
    Command(name="state", summary="where the run stands, and its common_data", action=_state),
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

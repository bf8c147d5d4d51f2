"""The graph of a workflow: drawn once, or above the prompt while the run goes on."""

from functools import partial
from typing import Final

from midstream.app.commands.command import Command
from midstream.app.run_sentences import run_line
from midstream.app.session import Session
from midstream.core.run import Run
from midstream.language.errors import UserMistake
from midstream.language.spec import Definition
from midstream.runtime.ports import Machine
from midstream.system.offloop import in_thread
from midstream.system.own_process import columns
from midstream.views.graph import graph_of
from midstream.views.graph_marks import NO_MARKS, marks_of
from midstream.views.graph_painters import drawing

_WIDEST: Final = 100

NONE_ACTIVE: Final = "No workflow is active; this is the last one:"
"""Said above what is shown of a workflow that has ended."""

_FOLLOW: Final = ("follow", "keep it above the prompt while the run goes on")
_OFF: Final = ("off", "stop following")


async def _graph(session: Session, argument: str) -> None:
    if argument == _OFF[0]:
        session.ui.follow(None)
        session.ui.say("No graph is followed now.")
        return
    active = workflow_of(session.active())
    if argument == _FOLLOW[0]:
        await _follow(session, active)
    elif argument:
        definition, _ = await session.equipment.library.load(argument)
        session.ui.say(await in_thread(partial(_drawn, definition, None)))
    elif active is not None:
        await _draw(session, active.run)
    elif (run := await workflow_before(session)) is not None:
        await _draw(session, run, f"{NONE_ACTIVE} {run_line(run)}")
    else:
        hint = "/graph NAME draws one that does not run; /workflows lists them."
        raise UserMistake("No workflow is active.", hint=hint)


async def _follow(session: Session, machine: Machine | None) -> None:
    if machine is None:
        hint = "/workflow NAME starts one; /graph NAME draws one that is not running."
        raise UserMistake("No workflow is active.", hint=hint)
    if session.ui.follow(session.switching.follow(machine)):
        session.ui.say(
            "The graph stays above the prompt until the run is over. /graph off takes it away."
        )
        return
    words = "Following a graph needs a terminal. The graph now:"
    await _draw(session, machine.run, words)


async def _draw(session: Session, run: Run, words: str = "") -> None:
    assert run.definition is not None, "a workflow that has begun has one"
    # Of a large workflow it takes longer than a key may wait.
    picture = await in_thread(partial(_drawn, run.definition, run))
    session.ui.say(f"{words}\n{picture}" if words else picture)


def _drawn(definition: Definition, run: Run | None) -> str:
    graph = graph_of(definition)
    marks = NO_MARKS if run is None else marks_of(run, graph)
    # Two columns are the console's own, before each of its lines.
    return drawing(graph, width=min(columns(), _WIDEST) - 2, marks=marks)


def workflow_of(machine: Machine | None) -> Machine | None:
    """Return a run if it is a workflow's that has begun: a chat has no states for a person."""
    definition = None if machine is None else machine.run.definition
    return None if definition is None or definition.kind == "chat" else machine


async def workflow_before(session: Session) -> Run | None:
    """Return the workflow that ended last: of this console, else of the workspace; None without one."""
    if (machine := session.switching.ended()) is not None:
        return machine.run
    own = (m.run for m in reversed(session.runs.all()) if workflow_of(m) and m.run.is_over)
    return next(own, None) or await session.background.ended()


def _words(session: Session) -> list[tuple[str, str]]:
    return [_FOLLOW, _OFF, *sorted(session.equipment.library.workflows().items())]


GRAPH_COMMAND: Final = Command(
    name="graph",
    arguments="[NAME | follow | off]",
    summary="draw the active workflow and where it is, or another; follow: keep it in sight",
    action=_graph,
    complete=_words,
)

"""Commands about runs: where they stand, what they cost, and words said to them with a policy."""

from midstream.app.commands.command import Command
from midstream.app.commands.cost_command import COST_COMMAND
from midstream.app.commands.graph_command import GRAPH_COMMAND
from midstream.app.session import Session
from midstream.language.errors import UserMistake
from midstream.language.names import Policy
from midstream.views.run_status import is_at_work


async def _queue(session: Session, argument: str) -> None:
    await _say(session, argument, "queue")


async def _steer(session: Session, argument: str) -> None:
    await _say(session, argument, "steer")


async def _interrupt(session: Session, argument: str) -> None:
    await _say(session, argument, "interrupt")


async def _say(session: Session, words: str, policy: Policy) -> None:
    if not words:
        raise UserMistake("The text is missing.", hint=f"/{policy} TEXT")
    await session.input.say(words, policy)


async def _stop(session: Session, argument: str) -> None:
    machine = session.active()
    if machine is None or not is_at_work(machine.run):
        raise UserMistake(
            "Nothing is running.", hint="/runs lists earlier runs and those in other processes."
        )
    await machine.halt()


RUN_COMMANDS = (
    GRAPH_COMMAND,
    COST_COMMAND,
    Command(
        name="queue",
        arguments="TEXT",
        summary="deliver TEXT when the current state is done",
        action=_queue,
    ),
    Command(
        name="steer",
        arguments="TEXT",
        summary="add TEXT to the running turn's next model request",
        action=_steer,
    ),
    Command(
        name="interrupt",
        arguments="TEXT",
        summary="interrupt at once with TEXT, whatever the state's policy",
        action=_interrupt,
    ),
    Command(name="stop", summary="stop the current turn and hold (Esc)", action=_stop),
)

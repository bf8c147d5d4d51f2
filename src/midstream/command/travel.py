"""Commands that go back in time: a copy of a run as it was, and taking back the last turn."""

from midstream.command.command import Command
from midstream.core.errors import UserMistake
from midstream.ports import Operator


async def _fork(operator: Operator, argument: str) -> None:
    if argument and not (argument.isascii() and argument.isdigit()):
        raise UserMistake(f"{argument!r} is no position.", hint="/fork SEQ, such as /fork 12.")
    await operator.runs.fork(int(argument) if argument else None)


async def _undo(operator: Operator, argument: str) -> None:
    await operator.runs.undo()


async def _put_back(operator: Operator, argument: str) -> None:
    await operator.runs.put_back()


TRAVEL_COMMANDS = (
    Command(
        name="fork",
        arguments="[SEQ]",
        summary="go on in a copy of the run, as it was after that event",
        action=_fork,
    ),
    Command(name="undo", summary="take back the last turn of the run", action=_undo),
    Command(
        name="putback",
        summary="put files back that were written after the point you went back to",
        action=_put_back,
    ),
)

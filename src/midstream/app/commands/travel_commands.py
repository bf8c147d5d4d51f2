"""Commands that go back in time: a copy of a run as it was, and taking back the last turn."""

from midstream.app.commands.command import Command
from midstream.app.session import Session
from midstream.language.errors import UserMistake
from midstream.system.own_process import columns
from midstream.views.cells import clipped, one_line


async def _fork(session: Session, argument: str) -> None:
    if argument and not (argument.isascii() and argument.isdigit()):
        raise UserMistake(
            f"{argument!r} is not an event number.", hint="/fork SEQ, such as /fork 12."
        )
    await session.history.fork(int(argument) if argument else None)


async def _undo(session: Session, argument: str) -> None:
    if argument not in ("", KEEP):
        raise UserMistake(f"/undo takes {KEEP} or nothing, not {argument!r}.", hint=_AGAIN)
    await session.history.undo(keeps_files=argument == KEEP)


async def _redo(session: Session, argument: str) -> None:
    if argument:
        raise UserMistake(f"/redo takes nothing, not {argument!r}.", hint=_AGAIN)
    await session.history.redo()


async def _back(session: Session, argument: str) -> None:
    turns = await session.history.turns()
    if not turns:
        raise UserMistake(
            "No turn of this run began with a line of yours.",
            hint="/undo still takes back the last turn.",
        )
    if not argument:
        width = columns() - 2
        lines = [
            clipped(f"{number:3}  {one_line(turn.words)}", width)
            for number, turn in enumerate(turns[:_SHOWN], 1)
        ]
        if len(turns) > _SHOWN:
            lines.append(f"     +{len(turns) - _SHOWN} older")
        session.ui.say("\n".join((*lines, "/back N goes back to before turn N, files too.")))
        return
    if not argument.isdecimal() or len(argument) > 9 or not 0 < int(argument) <= len(turns):
        raise UserMistake(
            f"/back takes a number from 1 (the last turn) to {len(turns)}, not {argument!r}.",
            hint="/back lists the turns.",
        )
    await session.history.back(turns[int(argument) - 1])


async def _export(session: Session, argument: str) -> None:
    session.ui.say(await session.history.export(argument))


_SHOWN = 20
KEEP = "--keep-files"
_AGAIN = "It goes one turn at a time; type it again for another."


async def _put_back(session: Session, argument: str) -> None:
    await session.history.put_back()


TRAVEL_COMMANDS = (
    Command(
        name="fork",
        arguments="[SEQ]",
        summary="continue in a copy of the run, as it was after event SEQ",
        action=_fork,
    ),
    Command(
        name="undo",
        arguments=f"[{KEEP}]",
        summary="take back the last turn of the run, and what it did to files",
        action=_undo,
        complete=lambda _session: [
            (KEEP, "files stay as they are now, only the conversation goes back")
        ],
    ),
    Command(
        name="back",
        arguments="[N]",
        summary="go back to before one of the last turns, files too; without N: list them",
        action=_back,
    ),
    Command(
        name="export",
        arguments="[FILE]",
        summary="write the run to one file: its events, or with NAME.md a text to read",
        action=_export,
    ),
    Command(
        name="redo",
        summary="redo what /undo took back, conversation and files",
        action=_redo,
    ),
    Command(
        name="putback",
        summary="put files back that were written after the point you went back to",
        action=_put_back,
    ),
)

"""Commands that go back in a run, and those that show what it has made of files."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from midstream.app.commands.command import command, room
from midstream.app.session import Session
from midstream.core.costs import counted
from midstream.language.errors import UserMistake, did_you_mean
from midstream.system.own_process import columns
from midstream.views.cells import clipped, one_line, padded, width_of
from midstream.views.side_effects import ChangedFile

_SHOWN = 20
KEEP = "--keep-files"
_AGAIN = "/undo takes back one turn; type it again for another."


@command("fork", "continue in a copy of the run, as it was after event SEQ", arguments="[SEQ]")
async def _fork(session: Session, argument: str) -> None:
    if argument and not (argument.isascii() and argument.isdigit()):
        raise UserMistake(
            f"{argument!r} is not an event number.", hint="/fork SEQ, such as /fork 12."
        )
    await session.history.fork(int(argument) if argument else None)


@command(
    "undo",
    "take back the last turn of the run, and what it did to files",
    arguments=f"[{KEEP}]",
    complete=lambda _session: [
        (KEEP, "files stay as they are now, only the conversation goes back")
    ],
)
async def _undo(session: Session, argument: str) -> None:
    if argument not in ("", KEEP):
        raise UserMistake(f"/undo takes {KEEP} or nothing, not {argument!r}.", hint=_AGAIN)
    await session.history.undo(keeps_files=argument == KEEP)


@command("redo", "redo what /undo took back, conversation and files")
async def _redo(session: Session, argument: str) -> None:
    if argument:
        raise UserMistake(f"/redo takes nothing, not {argument!r}.", hint=_AGAIN)
    await session.history.redo()


@command(
    "back",
    "go back to before one of the last turns, files too; without N: list them",
    arguments="[N]",
)
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


@command(
    "export",
    "write the run to one file: its events, or with NAME.md a text to read",
    arguments="[FILE]",
)
async def _export(session: Session, argument: str) -> None:
    session.ui.say(await session.history.export(argument))


@command("putback", "put files back that were written after the point you went back to")
async def _put_back(session: Session, argument: str) -> None:
    await session.history.put_back()


STAT: Final = "--stat"
MAX_LINES: Final = 200
"""Lines of differences that `/diff` shows of all files together."""

MAX_FILES: Final = 50
_BAR: Final = 20


def _files(session: Session) -> list[tuple[str, str]]:
    """Return what `/diff` may be of: the files the run wrote."""
    names = [name for name in session.history.written() if name == one_line(name)]
    return [*((name, "") for name in names), (STAT, "only how many lines")]


@command(
    "diff",
    "what this run changed in files, from before its first write to now",
    arguments=f"[FILE | {STAT}]",
    complete=_files,
)
async def _diff(session: Session, argument: str) -> None:
    changes = await session.history.changes()
    differing = [each for each in changes if not each.is_same]
    if not changes:
        session.ui.say("This run has written no file. What commands did is not recorded.")
    elif argument == STAT:
        session.ui.say("\n".join(stat_lines(differing, width=room())))
    elif argument:
        session.ui.show_changes([_named(argument, changes)])
    elif not differing:
        session.ui.say(
            f"{counted(len(changes), 'file')} written, but all the same as before the run."
        )
    else:
        session.ui.show_changes(capped(differing[:MAX_FILES]))
        say_remaining(session, changes, differing)


def say_remaining(
    session: Session, changes: Sequence[ChangedFile], differing: Sequence[ChangedFile]
) -> None:
    """Say which files are not shown."""
    left = len(differing) - MAX_FILES
    same = len(changes) - len(differing)
    parts = [f"+{left} more files: /diff {STAT} lists them" if left > 0 else ""]
    parts += [f"{counted(same, 'file')} written, but the same as before" if same else ""]
    if any(parts):
        session.ui.say("; ".join(part for part in parts if part) + ".")


def capped(changes: Sequence[ChangedFile], most: int = MAX_LINES) -> list[ChangedFile]:
    """Return the changes with so many lines of differences altogether; what is cut off is counted.

    Each file keeps a fair share at least, so that a large first one does not hide the others.
    """
    found: list[ChangedFile] = []
    left = most
    for number, each in enumerate(changes):
        lines = each.diff.diff.split("\n")
        room = max(left // (len(changes) - number), 3)
        if each.diff.diff and len(lines) > room:
            more = len(lines) - room + 1
            says = f"[+{more:,} more lines: /diff {each.diff.path}]"
            lines = [*lines[: room - 1], says]
        left = max(0, left - len(lines))
        found.append(replace(each, diff=replace(each.diff, diff="\n".join(lines))))
    return found


def stat_lines(changes: Sequence[ChangedFile], *, width: int) -> list[str]:
    """Return a line for each file: how many lines came and went, as figures and as a bar; a sum last."""
    names = [one_line(each.diff.path) for each in changes]
    notes = [f"  ({each.note})" if each.note else "" for each in changes]
    counts = [f"+{each.diff.added:,} -{each.diff.removed:,}" for each in changes]
    figures = max(map(len, counts), default=0)
    column = min(max(map(width_of, names), default=0), max(12, width - figures - 4))
    most = max((each.diff.added + each.diff.removed for each in changes), default=0)
    bar = max(0, min(_BAR, width - column - figures - 4))
    lines: list[str] = []
    for each, name, count, note in zip(changes, names, counts, notes, strict=True):
        row = f"{padded(_end(name, column), column)}  {count.rjust(figures)}  "
        row += _bar(each.diff.added, each.diff.removed, most, bar)
        row = row.rstrip()
        is_beside = width_of(row) + width_of(note) <= width
        lines += [f"{row}{note}"] if is_beside else [row, clipped(f"  {note.strip()}", width)]
    added = sum(each.diff.added for each in changes)
    removed = sum(each.diff.removed for each in changes)
    return [*lines, f"{counted(len(changes), 'file')}, +{added:,} -{removed:,}"]


def _end(name: str, width: int) -> str:
    """Return a path in so many cells; its end says most."""
    return name if width_of(name) <= width else f"…{name[len(name) - width + 1 :]}"


def _bar(added: int, removed: int, most: int, width: int) -> str:
    if not most or not width:
        return ""
    if most <= width:
        return "+" * added + "-" * removed
    plus, minus = (min(n, max(1, n * width // most)) if n else 0 for n in (added, removed))
    return ("+" * plus + "-" * minus)[:width]


def _named(name: str, changes: Sequence[ChangedFile]) -> ChangedFile:
    """Return the change of a file, by its path or an end of it.

    Raises:
        UserMistake: the run wrote no such file, or several.
    """
    wanted = name.removeprefix("@").removeprefix("./")
    by_path = {each.diff.path: each for each in changes}
    found = [path for path in by_path if path.endswith(f"/{wanted}")]
    if wanted in by_path:
        return by_path[wanted]
    if len(found) == 1:
        return by_path[found[0]]
    if found:
        raise UserMistake(f"Several files end in {name}.", hint=f"{', '.join(found[:5])}.")
    raise UserMistake(f"This run has not written {name}.", hint=did_you_mean(wanted, by_path))

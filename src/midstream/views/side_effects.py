"""What a run did to the world after a point of its past: what going back to there leaves behind.

A fork goes back in the run's own memory alone. Files can be put back, from the contents kept before
each write; a command or a message that was sent cannot, so it is named.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from midstream.core import events as e
from midstream.core.notices import Envelope
from midstream.language.names import OPEN_WORKTREE, Json, Outcome
from midstream.language.spec import ToolSpec

PUT_BACK: Final = "$putback"
"""The call of a `file_written` that no tool made: going back put the file back, in the fork it made."""

TREE: Final = "$tree"
"""The call of a `file_written` that keeps all files of a run of a repository; see `runtime.run_place`."""

SEEN: Final = "$seen"
"""The call of a `file_written` that was noticed after it had happened, while an external agent worked."""

_HARMLESS: tuple[Outcome | None, ...] = ("denied", "not_run")
_MAX_WORDS = 300


class MadeCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a `once` tool. `outcome` None: it had not ended by the run's last fact.

    `seq` is where it began. `command` is what it ran, for a tool that runs commands. `has_files`: the
    files it wrote are recorded, so that they tell what it did.
    """

    seq: int
    call_id: str
    name: str
    arguments: dict[str, Json]
    outcome: Outcome | None = None
    command: str = ""
    has_files: bool = False


class FileDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to a file, for a person: see the notice `FileChanged`."""

    path: str
    added: int
    removed: int
    diff: str


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has made of a file, from what it held first to what it holds now.

    `note` is what a person should know besides, such as "changed by others since" or why nothing can
    be compared. `is_same`: it holds what it held.
    """

    diff: FileDiff
    note: str = ""
    is_same: bool = False


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a file: SHA-256 in hex, None where there is no file.

    `before` is from before the first write after the point, `after` is what the last one left. `seq`
    is the first write, `times` how many there were. `is_mixed`: somebody else changed the file
    between two of them. `or_else` is what the file held before the last write, where the call that
    was to make it did not complete: then it may never have been made. `folders` are those that
    were made for it.
    """

    path: str
    before: str | None
    after: str | None
    seq: int
    times: int = 1
    is_mixed: bool = False
    or_else: tuple[str | None, ...] = ()
    folders: tuple[str, ...] = ()


class SideEffects(msgspec.Struct, frozen=True, kw_only=True):
    """What was done after a point, calls and files each in the order they began."""

    calls: tuple[MadeCall, ...] = ()
    files: tuple[FileChange, ...] = ()

    def __bool__(self) -> bool:
        """Return whether anything was done."""
        return bool(self.calls or self.files)


def side_effects(facts: Iterable[Envelope], after: int) -> SideEffects:
    """Return what a run did after fact `after`.

    A call that was under way at that point counts: nobody knows how far it had got.

    Args:
        facts: all facts of the run, from its first.
        after: the point, as a seq.
    """
    tools: Mapping[str, ToolSpec] = {}
    workspace = ""
    calls: dict[str, MadeCall] = {}
    theirs: set[str] = set()
    writes: dict[str, list[tuple[int, e.FileWritten]]] = {}
    completed: set[str] = {SEEN}
    for envelope in facts:
        seq = envelope.seq or 0
        match envelope.event:
            case e.RunStarted(definition=definition) | e.DefinitionChanged(definition=definition):
                tools = definition.tools
                if isinstance(envelope.event, e.RunStarted):
                    workspace = envelope.event.workspace
            case e.ToolCalled() as made:
                # A tool nobody declares any more may have done anything.
                effect = made.external or (
                    tools[made.name].effect if made.name in tools else "once"
                )
                if effect == "once":
                    calls[made.call_id] = _begun(seq, made)
                if made.external is not None and made.name in _ON_FILES:
                    theirs.add(made.call_id)
            case e.FileWritten(call_id=call_id) if call_id in (PUT_BACK, TREE) or (
                call_id == SEEN and seq <= after
            ):
                pass
            case e.FileWritten() as written:
                writes.setdefault(written.call_id, []).append((seq, written))
                if written.call_id in calls:
                    known = calls[written.call_id]
                    calls[written.call_id] = msgspec.structs.replace(known, has_files=True)
            case e.ToolReturned() as ended:
                if ended.outcome == "completed":
                    completed.add(ended.call_id)
                if seq <= after:
                    calls.pop(ended.call_id, None)
                    writes.pop(ended.call_id, None)
                elif ended.call_id in calls:
                    known = calls[ended.call_id]
                    calls[ended.call_id] = msgspec.structs.replace(known, outcome=ended.outcome)
            case _:
                pass
    seen = {written.path: seq for seq, written in writes.get(SEEN, ())}
    for id in theirs & calls.keys():
        # What an external agent did to a file itself is known by the look at the files after it.
        named = _paths_of(calls[id], workspace)
        is_seen = bool(named) and all(seen.get(path, 0) > calls[id].seq for path in named)
        calls[id] = msgspec.structs.replace(calls[id], has_files=calls[id].has_files or is_seen)
    done = tuple(call for call in calls.values() if call.outcome not in _HARMLESS)
    flat = sorted((item for items in writes.values() for item in items), key=lambda item: item[0])
    return SideEffects(calls=done, files=_by_file(flat, completed))


def _begun(seq: int, made: e.ToolCalled) -> MadeCall:
    command = made.arguments.get("command")
    return MadeCall(
        seq=seq,
        call_id=made.call_id,
        name=made.name,
        arguments=made.arguments,
        command=command if isinstance(command, str) else "",
    )


_ON_FILES = frozenset({"edit", "delete", "move"})
"""Kinds of calls of an external agent that do nothing but change the files they name."""


def _paths_of(call: MadeCall, workspace: str) -> list[str]:
    paths = call.arguments.get("paths")
    named = [each for each in paths if isinstance(each, str)] if isinstance(paths, list) else []
    return [each if each.startswith("/") else f"{workspace}/{each}" for each in named]


def _by_file(
    writes: Iterable[tuple[int, e.FileWritten]], completed: Collection[str]
) -> tuple[FileChange, ...]:
    found: dict[str, FileChange] = {}
    for seq, written in writes:
        known = found.get(written.path)
        or_else = () if written.call_id in completed else (written.before,)
        if known is None:
            found[written.path] = FileChange(
                path=written.path,
                before=written.before,
                after=written.after,
                seq=seq,
                or_else=or_else,
                folders=written.folders,
            )
        else:
            found[written.path] = msgspec.structs.replace(
                known,
                after=written.after,
                or_else=or_else,
                times=known.times + 1,
                is_mixed=known.is_mixed or known.after != written.before,
                folders=tuple(dict.fromkeys((*known.folders, *written.folders))),
            )
    return tuple(
        change
        for change in found.values()
        if any(left != change.before for left in (change.after, *change.or_else))
    )


def in_words(effects: SideEffects, *, workspace: str = "") -> tuple[str, ...]:
    """Return the side effects for a person, a line each, files last.

    Paths below `workspace` are shortened. Foreign text stands as it is, on one line: sanitize before
    drawing. Calls that a file tells are told by the file, unless they ended badly. A worktree that was
    opened is no change of a person's: it is midstream's own, and is left out.
    """
    calls = (
        _call_words(call)
        for call in effects.calls
        if not ((call.has_files or call.name == OPEN_WORKTREE) and call.outcome == "completed")
    )
    return (*calls, *(_file_words(change, workspace) for change in effects.files))


def _call_words(call: MadeCall) -> str:
    what = call.command or msgspec.json.encode(call.arguments).decode()
    ended = "not ended" if call.outcome is None else call.outcome
    return f"{call.name}: {_one_line(what)} ({ended})"


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    left = len(flat) - _MAX_WORDS
    return flat if left <= 0 else f"{flat[:_MAX_WORDS]} [+{left} characters]"


def _file_words(change: FileChange, workspace: str) -> str:
    path = short_path(change.path, workspace)
    if change.before is None:
        what = "created"
    elif change.after is None:
        what = "removed"
    else:
        what = "changed"
    times = f", {change.times} writes" if change.times > 1 else ""
    mixed = ", changed by others in between" if change.is_mixed else ""
    return f"{path}: {what}{times}{mixed}"


def short_path(path: str, workspace: str) -> str:
    """Return a path below the workspace as people read it; any other as it is."""
    head = f"{workspace.rstrip('/')}/"
    return path.removeprefix(head) if workspace else path

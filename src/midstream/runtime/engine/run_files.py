"""The files a run wrote: what it has made of them, and putting them back as they were.

Folders that a run made for its files go when undo empties them, and come again with redo. Only one that a
fact says was made is ever touched, only below the workspace and as long as no link leads there, and only
while nothing is in it: that is for the kernel to say, at the very moment.
"""

import hashlib
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import msgspec

from midstream.core.events import RunStarted
from midstream.core.notices import Envelope
from midstream.language.errors import MidstreamError, UserMistake
from midstream.runtime.ports import BlobStore
from midstream.safety.capability import forbids_secrets
from midstream.system.diff import file_diff
from midstream.system.offloop import in_thread
from midstream.system.put_in_place import (
    contents_of,
    put_in_place,
    require_plain,
    take_away,
    take_folder_away,
)
from midstream.system.workspace_paths import Place, locate, opened_folder, require_allowed
from midstream.views.side_effects import ChangedFile, FileChange, FileDiff, short_path, side_effects

T = TypeVar("T")

# --- putting back -----------------------------------------------------------------------------


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a file that was to be put back.

    `put_back`: it holds what it held before; `removed`: it had not been there, and is gone again;
    `already`: it held that anyway; `left`: it is as it was found, for `why`. A `path` that ends with a
    slash is a folder that was made for such files.
    """

    path: str
    result: Literal["put_back", "removed", "already", "left"]
    why: str = ""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A file that can be put back: what becomes of it, where it is, and the key of what it holds.

    `folders` are those that are there and go with it if they are empty then.
    """

    change: FileChange
    place: Place
    present: str | None
    folders: tuple[str, ...] = ()


Record: TypeAlias = Callable[[Sequence[Found]], Awaitable[None]]
"""Writes down what is about to be put back; where it raises nothing is."""


async def put_back(
    blobs: BlobStore,
    files: Iterable[FileChange],
    workspace: Path,
    *,
    record: Record | None = None,
) -> tuple[Returned, ...]:
    """Put files back to what they held before, and return what became of each.

    Only a file that still holds exactly what the run left is touched, and only inside the workspace;
    no link is followed. All are looked at before the first is changed. Each is changed at once or not
    at all, and what it held is in the blob store first: nobody's work is lost. Folders that were made for
    files which are gone again go last, unless something is in them.
    """
    files = tuple(files)
    looked = await looked_at(blobs, files, workspace)
    if record is not None:
        await record([found for found in looked if isinstance(found, Found)])
    back = [
        found if isinstance(found, Returned) else await _or_left(found.change, _back(blobs, found))
        for found in looked
    ]
    gone: list[FileChange] = []
    kept: list[FileChange] = []
    for change, one in zip(files, back, strict=True):
        (gone if change.before is None and one.result != "left" else kept).append(change)
    away = await in_thread(partial(folders_away, gone, kept, workspace))
    return (*back, *(_folder(path, why) for path, why in away))


def _folder(path: str, why: str) -> Returned:
    return Returned(path=f"{path}/", result="left" if why else "removed", why=why)


async def looked_at(
    blobs: BlobStore, files: Iterable[FileChange], workspace: Path
) -> list[Found | Returned]:
    """Return for each file where it is to be put back, or why it is not. No file is changed.

    What those hold that are to be put back is in the blob store then.
    """
    return [await _or_left(change, _looked_at(blobs, change, workspace)) for change in files]


async def _looked_at(blobs: BlobStore, change: FileChange, workspace: Path) -> Found | Returned:
    place = await in_thread(partial(place_of, change.path, workspace))
    held = await in_thread(partial(contents_of, place))
    folders = await in_thread(partial(standing, change))
    present = _hash(held)
    if present == change.before and not folders:
        return Returned(path=change.path, result="already")
    if present not in (change.before, change.after, *change.or_else):
        return _left(change, "it has been changed since" if present else "it is gone")
    if change.before is not None:
        await blobs.get(change.before)
    if held is not None:
        await blobs.put(held)
    return Found(change=change, place=place, present=present, folders=folders)


async def _back(blobs: BlobStore, found: Found) -> Returned:
    change, place = found.change, found.place
    held = await in_thread(partial(contents_of, place))
    if _hash(held) == change.before:
        return Returned(path=change.path, result="already")
    if _hash(held) != found.present:
        return _left(change, "it has just been changed")
    if change.before is None:
        assert held is not None, "it is not as it was before"
        await in_thread(partial(take_away, place, expected=held))
        return Returned(path=change.path, result="removed")
    data = await blobs.get(change.before)
    await in_thread(partial(put_in_place, place, data, expected=held))
    return Returned(path=change.path, result="put_back")


async def _or_left(change: FileChange, work: Awaitable[T]) -> T | Returned:
    """Return what becomes of a file by some work; where that fails it is left, and says why."""
    try:
        return await work
    except (MidstreamError, OSError) as error:
        return _left(change, _why(error))


def _why(error: MidstreamError | OSError) -> str:
    return error.what if isinstance(error, MidstreamError) else error.strerror or str(error)


def _hash(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _left(change: FileChange, why: str) -> Returned:
    return Returned(path=change.path, result="left", why=why)


# --- folders, and what became of files --------------------------------------------------------


def standing(change: FileChange) -> tuple[str, ...]:
    """Return the folders that were made for a file and are there; none if the file stays itself."""
    if change.before is not None:
        return ()
    there = (folder for folder in _above(change) if os.path.lexists(folder))
    return tuple(sorted(there, key=_depth))


def folders_away(
    gone: Iterable[FileChange], kept: Collection[FileChange], workspace: Path
) -> list[tuple[str, str]]:
    """Remove the empty folders that were made for files which are gone; return what became of which.

    Each comes with why it stays, "" if it was removed. Of those that went together the outermost is
    named, and none that stays because one of the files `kept` is in it.
    """
    made = {folder for change in gone for folder in _above(change)}
    # The innermost first: the outer ones are empty only then.
    away = [(folder, _away(folder, workspace)) for folder in sorted(made, key=_depth, reverse=True)]
    removed = {folder for folder, why in away if why == ""}
    return [
        (folder, why)
        for folder, why in reversed(away)
        if why is not None
        and (why or os.path.dirname(folder) not in removed)
        and not (why and any(_is_in(change.path, folder) for change in kept))
    ]


def folders_again(folders: Iterable[str], workspace: Path) -> None:
    """Make folders again that undo removed; what stands in their way stays, and so do they away."""
    for folder in folders:
        try:
            place = place_of(folder, workspace)
            with opened_folder(place, create=True):
                pass
        except (MidstreamError, OSError):
            continue  # a file that was in it says why it cannot come again


def _above(change: FileChange) -> Iterator[str]:
    return (folder for folder in change.folders if _is_in(change.path, folder))


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _depth(folder: str) -> int:
    return folder.count("/")


def _away(folder: str, workspace: Path) -> str | None:
    """Remove a folder; return "", why it stays, or None where there is none."""
    try:
        if not os.path.lexists(folder):
            return None
        is_gone = take_folder_away(place_of(folder, workspace))
    except (MidstreamError, OSError) as error:
        return _why(error)
    return "" if is_gone else "something else is in it"


def place_of(path: str, workspace: Path) -> Place:
    """Return the place of a file or folder that a run made.

    Raises:
        UserMistake: a link stands there now, or each change of it takes a yes.
    """
    if not os.path.isabs(path):
        raise UserMistake(
            "it is of a run of a repository: midstream fetch brings what that has made"
        )
    place = locate(workspace, path)
    if not place.parts or str(place.path) != path:
        raise UserMistake("a link leads elsewhere now")
    require_plain(place)
    return place


async def changed_files(blobs: BlobStore, facts: Sequence[Envelope]) -> tuple[ChangedFile, ...]:
    """Return the files a run wrote, in the order it first did, each as it differs from before.

    A file that holds again what it held before the run is in it, with a difference of nothing. What
    commands did to files is not known, so it shows only where the run wrote the same file itself.
    """
    started = facts[0].event if facts else None
    if not isinstance(started, RunStarted) or not started.workspace:
        return ()
    workspace = Path(started.workspace)
    if not workspace.is_absolute():
        raise UserMistake(
            "The files of a run of a repository are not on this machine, or not for long.",
            hint="midstream fetch RUN makes a git branch of what it has made of them.",
        )
    files = (await in_thread(partial(side_effects, facts, 0))).files
    return tuple([await _changed(blobs, change, workspace) for change in files])


async def _changed(blobs: BlobStore, change: FileChange, workspace: Path) -> ChangedFile:
    name = short_path(change.path, str(workspace))
    try:
        before = None if change.before is None else await blobs.get(change.before)
        return await in_thread(partial(_compared, name, before, change, workspace))
    except (MidstreamError, OSError) as error:
        same = FileDiff(path=name, added=0, removed=0, diff="")
        return ChangedFile(diff=same, note=_why(error))


def _compared(name: str, before: bytes | None, change: FileChange, workspace: Path) -> ChangedFile:
    place = locate(workspace, change.path)
    require_allowed(place, "read", forbids_secrets)
    now = contents_of(place)
    notes = []
    if before is None and now is not None:
        notes.append("new")
    if now is None:
        notes.append("no longer there" if change.after is not None else "removed")
    if change.is_mixed:
        notes.append("changed by others in between")
    if now is not None and _hash(now) not in (change.after, *change.or_else):
        notes.append("changed by others since")
    if now == before:
        same = FileDiff(path=name, added=0, removed=0, diff="")
        return ChangedFile(diff=same, note="as it was before", is_same=True)
    return ChangedFile(diff=file_diff(name, before, now or b""), note=", ".join(notes))

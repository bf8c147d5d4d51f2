"""Changing a file: what it is to hold, shown before, recorded, and put in place at once.

A write never goes into an existing file: the new one is written beside it, in the folder that was
opened without following a link, and takes the name. So a link that somebody has put there is
replaced and not followed, a hard link's other names keep the old bytes, and readers see all of the
old text or all of the new.
"""

import errno
import fcntl
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from midstream.config.places import user_state_dir
from midstream.core.errors import UserMistake, WorldTrouble
from midstream.core.safety.capability import Capability, forbids_secrets
from midstream.ports import ToolContext
from midstream.system.diff import file_diff, shown_change
from midstream.system.offloop import in_thread
from midstream.system.openat2 import rename_new
from midstream.system.workspace_paths import (
    Place,
    found_in,
    guarded,
    locate,
    opened_folder,
    parent_of,
    read_in,
    requests_for,
    require_allowed,
)
from midstream.tool.base import Planned, check_stop

MAX_KEPT_BYTES: Final = 100_000_000
"""The largest file that is replaced: what it held is kept, so that the change can be taken back."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A file, what it holds (None: there is none), and what it is to hold.

    `guards` says for each of the place's names why writing there takes a person's yes, "" where it
    does not: by what stood around it when the change was looked at.
    """

    place: Place
    before: bytes | None
    after: bytes
    guards: tuple[str, ...]

    @property
    def binds(self) -> str:
        """Return a digest of what is changed, from what and into what, and what guards it."""
        place = self.place
        whole = [
            str(place.root),
            place.parts,
            place.named,
            self.guards,
            *map(_digest, (self.before, self.after)),
        ]
        return hashlib.sha256(msgspec.json.encode(whole)).hexdigest()


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def writable(context: ToolContext, path: str) -> Place:
    """Return the place of a file that is to be written.

    Raises:
        UserMistake: it is a folder's name, or leads out of the workspace.
    """
    place = locate(context.workspace, path)
    if not place.parts or path.endswith(("/", "/.")):
        raise UserMistake(f"{path!r} is a folder, not a file.", hint="Name a file in it.")
    return place


def guards(place: Place) -> tuple[str, ...]:
    """Return for each name of a place why writing there always takes a yes, "" where it does not."""
    return tuple(guarded(place, name) for name in place.names)


def planned(change: Change, more: Sequence[Capability] = ()) -> Planned:
    """Return what making a change needs, beside `more`, and what it shows."""
    place = change.place
    if change.before == change.after:
        # Nothing is written. That it would be the same says what the file holds.
        reads = dict.fromkeys((*requests_for(place, "read"), *more))
        return Planned(requests=tuple(reads), binds=change.binds, is_done=True)
    reasons = dict.fromkeys(filter(None, change.guards))
    notes = [f"{reason[:1].upper()}{reason[1:]}." for reason in reasons]
    if place.named:
        notes.append(f"A link: {'/'.join(place.named)} is {place.name}.")
    names = _names_of(place)
    if names > 1:
        notes.append(f"The file has {names} names (hard links); the others keep what it held.")
    shows = shown_change(place.name, change.before, change.after)
    return Planned(
        requests=(*_writes(change), *more),
        shows="\n".join((*notes, shows)),
        binds=change.binds,
    )


def _writes(change: Change) -> tuple[Capability, ...]:
    """Return what writing needs by the same look that the change is bound to."""
    return tuple(
        Capability(kind="write_protected" if guard else "write", target="/".join(name))
        for name, guard in zip(change.place.names, change.guards, strict=True)
    )


def _names_of(place: Place) -> int:
    try:
        with opened_folder(parent_of(place)) as folder:
            found = found_in(folder, place)
    except UserMistake:
        return 0
    return 0 if found is None else found.st_nlink


async def make(change: Change, context: ToolContext) -> None:
    """Record a change and make it, if it is what the call was judged by; one of nothing is none.

    Raises:
        Stopped: nobody waits any more; nothing was changed.
        UserMistake: somebody has changed the file meanwhile; it is as they left it.
        WorldTrouble: the disk refused, or nothing can be recorded; the file is as it was.
    """
    place = change.place
    _require_judged(change, context)
    check_stop(context)
    if change.before == change.after:
        return
    folders = () if change.before is not None else await in_thread(partial(missing_above, place))
    await context.changing(place.root.joinpath(*place.parts), change.before, change.after, folders)
    last_look = partial(check_stop, context)
    await in_thread(
        partial(
            put_in_place,
            place,
            change.after,
            expected=change.before,
            judged=change.guards,
            last_look=last_look,
        ),
        name="midstream-tool-writing",
    )
    told = partial(file_diff, place.name, change.before, change.after)
    context.changed(await in_thread(told, name="midstream-tool-diff"))


def missing_above(place: Place) -> tuple[Path, ...]:
    """Return the folders above a file that are not there, outermost first."""
    above = (place.root.joinpath(*place.parts[:n]) for n in range(1, len(place.parts)))
    return tuple(folder for folder in above if not os.path.lexists(folder))


def _require_judged(change: Change, context: ToolContext) -> None:
    """Raise UserMistake for a change that is not the one policy or a person has said yes to.

    One that nobody was asked about may be of plain files only.
    """
    place = change.place
    if not context.binds:
        require_plain(place)
    elif context.binds != change.binds:
        raise UserMistake(
            f"{place.name} was not written: it has changed since the change was looked at.",
            hint="Read it, and make the change again.",
        )


def require_plain(place: Place) -> None:
    """Raise UserMistake for a secret file, or one that is written only where a person said yes to it."""
    require_allowed(place, "write", forbids_secrets)
    _require_guards(place, ("",) * len(place.names))


def _require_guards(place: Place, judged: tuple[str, ...]) -> None:
    """Raise UserMistake where something guards a place by now that nobody was asked about."""
    now = guards(place)
    if now != judged:
        why = next((reason for reason in now if reason not in judged), "it was judged as another")
        raise UserMistake(f"{place.name} was not written: {why}.", hint="It takes a person's yes.")


def contents_of(place: Place) -> bytes | None:
    """Return what a file holds, None where there is none.

    Raises:
        UserMistake: it is no regular file, or too large to be kept.
        WorldTrouble: it cannot be read.
    """
    try:
        os.lstat(place.root.joinpath(*place.parts))
    except (FileNotFoundError, NotADirectoryError):
        return None
    with opened_folder(parent_of(place)) as folder:
        return _held(folder, place)


def _held(folder: int, place: Place) -> bytes | None:
    if found_in(folder, place) is None:
        return None
    return read_in(folder, place, max_bytes=MAX_KEPT_BYTES)


def put_in_place(
    place: Place,
    data: bytes,
    *,
    expected: bytes | None,
    judged: tuple[str, ...] | None = None,
    last_look: Callable[[], None] | None = None,
) -> None:
    """Put `data` in a file's place at once, its permissions kept, if it still holds `expected`.

    Writes come one after the other (`_alone`), so that `judged`, the `guards` the write was judged
    by, are compared with what guards it now: files that are harmless each may be a repository
    together. `last_look` is called right before the file changes; what it raises leaves the file as
    it is.

    Raises:
        UserMistake: the file holds something else by now (None: it is there by now, or gone), its
            folder is no longer where it was, or something else guards it.
        WorldTrouble: the disk refused; the file is as it was.
    """
    with _alone():
        if judged is not None:
            # Before the folders are made, too: `objects` and `refs` of a repository are folders.
            _require_guards(place, judged)
        _put_in_place(place, data, expected, judged, last_look)


_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def _alone() -> Iterator[None]:
    """Hold what lets one write at a time happen: in this process and, where there is a folder of
    state, in this person's others.
    """
    with _ONE_AT_A_TIME, ExitStack() as held:
        with suppress(OSError):
            path = user_state_dir(os.environ) / "writing.lock"
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            held.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _put_in_place(
    place: Place,
    data: bytes,
    expected: bytes | None,
    judged: tuple[str, ...] | None,
    last_look: Callable[[], None] | None,
) -> None:
    try:
        with opened_folder(parent_of(place), create=True) as folder:
            found = found_in(folder, place)
            # The name must not grow past the limit of 255 bytes.
            beside = f".{os.urandom(6).hex()}.midstream-tmp"
            try:
                _write_new(folder, beside, data, found)
                # Somebody may have saved the file meanwhile: their work is not undone.
                if _held(folder, place) != expected:
                    raise _changed(place)
                _require_same_folder(folder, place)
                if judged is not None:
                    _require_guards(place, judged)
                if last_look is not None:
                    last_look()
                _take_name(folder, beside, place, is_new=expected is None)
            except BaseException:
                with suppress(OSError):
                    os.unlink(beside, dir_fd=folder)
                raise
            os.fsync(folder)
    except OSError as error:
        raise _refused(place, error) from error


def _take_name(folder: int, beside: str, place: Place, *, is_new: bool) -> None:
    if not is_new:
        os.rename(beside, place.parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
        return
    try:
        rename_new(folder, beside, place.parts[-1])
    except FileExistsError as error:
        raise _changed(place) from error


def take_away(place: Place, *, expected: bytes) -> None:
    """Remove a file if it still holds `expected`; raises as `put_in_place` does."""
    try:
        with _alone(), opened_folder(parent_of(place)) as folder:
            if _held(folder, place) != expected:
                raise _changed(place)
            _require_same_folder(folder, place)
            os.unlink(place.parts[-1], dir_fd=folder)
            os.fsync(folder)
    except OSError as error:
        raise _refused(place, error) from error


def take_folder_away(place: Place) -> bool:
    """Remove a folder if nothing is in it; return whether it is gone.

    Raises:
        UserMistake: it is no folder, or what it is in is no longer where it was.
        WorldTrouble: the disk refused.
    """
    try:
        with opened_folder(parent_of(place)) as folder:
            _require_same_folder(folder, place)
            os.rmdir(place.parts[-1], dir_fd=folder)
            os.fsync(folder)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _changed(place) from error
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        what = f"{place.name} cannot be removed: {error.strerror}."
        raise WorldTrouble(what, hint="It is as it was.") from error
    return True


def _require_same_folder(folder: int, place: Place) -> None:
    """Raise UserMistake where an opened folder has been moved away: its name means another by now."""
    with opened_folder(parent_of(place)) as again:
        if not os.path.samestat(os.fstat(folder), os.fstat(again)):
            raise _changed(place)


def _changed(place: Place) -> UserMistake:
    return UserMistake(f"{place.name} has just been changed by somebody else.", hint="Read it.")


def _refused(place: Place, error: OSError) -> WorldTrouble:
    return WorldTrouble(
        f"{place.name} cannot be written: {error.strerror}.", hint="The file is as it was."
    )


def _write_new(folder: int, name: str, data: bytes, like: os.stat_result | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # Nobody else reads what replaces a file that they could not read.
    handle = os.open(name, flags, 0o666 if like is None else 0o600, dir_fd=folder)
    with open(handle, "wb") as file:
        if like is not None:
            _keep_owner(handle, like)
            # Not the set-user-id bits: whoever runs it would run what a model wrote as its owner.
            os.fchmod(handle, stat.S_IMODE(like.st_mode) & 0o777)
        file.write(data)
        file.flush()
        os.fsync(handle)


def _keep_owner(handle: int, like: os.stat_result) -> None:
    found = os.fstat(handle)
    if (found.st_uid, found.st_gid) != (like.st_uid, like.st_gid):
        with suppress(OSError):
            os.fchown(handle, like.st_uid, like.st_gid)

"""A tool's change of a file: what it is to hold, shown before, recorded, and made.

How it is put in place: `midstream.system.put_in_place`.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from midstream.language.errors import UserMistake
from midstream.runtime.ports import ToolContext
from midstream.safety.capability import Capability
from midstream.system.diff import file_diff, shown_change
from midstream.system.offloop import in_thread
from midstream.system.put_in_place import (
    guards,
    missing_above,
    put_by_another,
    put_in_place,
    require_plain,
    take_away,
)
from midstream.system.workspace_paths import (
    Place,
    found_in,
    locate,
    opened_folder,
    parent_of,
    requests_for,
)
from midstream.tools.base import Planned, check_stop


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A file, what it holds (None: there is none), and what it is to hold (None: it is to go).

    `saved` is what the disk holds, where `before` is what stands unsaved in the person's editor: that is
    where it is written then.

    `guards` says for each of the place's names why writing there takes a person's yes, "" where it
    does not: by what stood around it when the change was looked at.
    """

    place: Place
    before: bytes | None
    after: bytes | None
    guards: tuple[str, ...]
    saved: bytes | None = None

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
            *(() if self.saved is None else (_digest(self.saved),)),
        ]
        return hashlib.sha256(msgspec.json.encode(whole)).hexdigest()


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def changed(place: Place, saved: bytes | None, unsaved: bytes | None, after: bytes) -> Change:
    """Return the change of a file that the disk holds as `saved`, and an editor, if any, as `unsaved`."""
    return Change(
        place=place,
        before=saved if unsaved is None else unsaved,
        after=after,
        guards=guards(place),
        saved=None if unsaved is None else saved,
    )


def as_it_stands(place: Place, saved: bytes, context: ToolContext) -> bytes | None:
    """Return what stands unsaved in a person's editor of a file that is about to be written, None where
    it is what the disk holds.

    Raises:
        UserMistake: it is not, and the editor cannot save it for us.
    """
    if context.open_files is None:
        return None
    unsaved = context.open_files.unsaved(place.path, saved)
    if unsaved is not None:
        context.open_files.require_saving(place.path)
    return unsaved


def writable(context: ToolContext, path: str) -> Place:
    """Return the place of a file that is to be written.

    Raises:
        UserMistake: it is a folder's name, or leads out of the workspace.
    """
    place = locate(context.workspace, path)
    if not place.parts or path.endswith(("/", "/.")):
        raise UserMistake(f"{path!r} is a folder, not a file.", hint="Name a file in it.")
    return place


def planned(change: Change, more: Sequence[Capability] = ()) -> Planned:
    """Return what making a change needs, beside `more`, and what it shows."""
    place = change.place
    if change.before == change.after:
        # Nothing is written. That it would be the same says what the file holds.
        reads = dict.fromkeys((*requests_for(place, "read"), *more))
        return Planned(requests=tuple(reads), binds=change.binds, is_done=True)
    reasons = dict.fromkeys(filter(None, change.guards))
    notes = [f"{reason[:1].upper()}{reason[1:]}." for reason in reasons]
    if change.saved is not None:
        notes.append("It stands unsaved in your editor: that is what is changed, and saved.")
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


def planned_together(changes: Sequence[Change]) -> Planned:
    """Return what making several changes needs, all at once, and what it shows."""
    plans = [planned(change) for change in changes]
    requests = dict.fromkeys(request for plan in plans for request in plan.requests)
    digest = hashlib.sha256(msgspec.json.encode([plan.binds for plan in plans])).hexdigest()
    return Planned(
        requests=tuple(requests),
        shows="\n".join(plan.shows for plan in plans if plan.shows),
        binds=digest,
        is_done=all(plan.is_done for plan in plans),
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
    await context.changing(place.path, change.before, change.after, folders)
    last_look = partial(check_stop, context)
    work = partial(_put, change, last_look, context)
    held = await in_thread(work, name="midstream-tool-writing")
    if held != change.after:
        # An editor may put a file in form as it saves it. That is undone with the change it was given.
        await context.changing(place.path, change.after, held)
    told = partial(file_diff, place.name, change.before, change.after)
    context.changed(await in_thread(told, name="midstream-tool-diff"))


def _put(change: Change, last_look: Callable[[], None], context: ToolContext) -> bytes | None:
    """Write a change; return what the file holds then."""
    place, before, judged = change.place, change.before, change.guards
    if change.after is not None and change.saved is not None and context.open_files is not None:
        save = partial(context.open_files.save, place.path, change.after)
        return put_by_another(
            place, save, expected=change.saved, judged=judged, last_look=last_look
        )
    if change.after is not None:
        put_in_place(place, change.after, expected=before, judged=judged, last_look=last_look)
    elif before is not None:
        take_away(place, expected=before, judged=judged, last_look=last_look)
    return change.after


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

"""What a run has made of the files of its workspace: what each held first against what it holds now."""

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from midstream.core.events import RunStarted
from midstream.core.notices import Envelope
from midstream.language.errors import MidstreamError
from midstream.runtime.ports import BlobStore
from midstream.safety.capability import forbids_secrets
from midstream.system.diff import file_diff
from midstream.system.offloop import in_thread
from midstream.system.put_in_place import contents_of
from midstream.system.workspace_paths import locate, require_allowed
from midstream.views.side_effects import ChangedFile, FileChange, FileDiff, short_path, side_effects


async def changed_files(blobs: BlobStore, facts: Sequence[Envelope]) -> tuple[ChangedFile, ...]:
    """Return the files a run wrote, in the order it first did, each as it differs from before.

    A file that holds again what it held before the run is in it, with a difference of nothing. What
    commands did to files is not known, so it shows only where the run wrote the same file itself.
    """
    started = facts[0].event if facts else None
    if not isinstance(started, RunStarted) or not started.workspace:
        return ()
    workspace = Path(started.workspace)
    files = (await in_thread(partial(side_effects, facts, 0))).files
    return tuple([await _changed(blobs, change, workspace) for change in files])


async def _changed(blobs: BlobStore, change: FileChange, workspace: Path) -> ChangedFile:
    name = short_path(change.path, str(workspace))
    try:
        before = None if change.before is None else await blobs.get(change.before)
        return await in_thread(partial(_compared, name, before, change, workspace))
    except MidstreamError as error:
        why = error.what
    except OSError as error:
        why = error.strerror or str(error)
    return ChangedFile(diff=FileDiff(path=name, added=0, removed=0, diff=""), note=why)


def _compared(name: str, before: bytes | None, change: FileChange, workspace: Path) -> ChangedFile:
    place = locate(workspace, change.path)
    require_allowed(place, "read", forbids_secrets)
    now = contents_of(place)
    key = None if now is None else hashlib.sha256(now).hexdigest()
    notes = []
    if before is None and now is not None:
        notes.append("new")
    if now is None:
        notes.append("no longer there" if change.after is not None else "removed")
    if change.is_mixed:
        notes.append("changed by others in between")
    if now is not None and key not in (change.after, *change.or_else):
        notes.append("changed by others since")
    if now == before:
        same = FileDiff(path=name, added=0, removed=0, diff="")
        return ChangedFile(diff=same, note="as it was before", is_same=True)
    return ChangedFile(diff=file_diff(name, before, now or b""), note=", ".join(notes))

"""Opening the folders of runs of repositories, from what the journal says of their files."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from midstream.core.events import FileWritten
from midstream.language.errors import UserMistake
from midstream.runtime.ports import BlobStore, Journal
from midstream.runtime.run_place import RunPlace
from midstream.runtime.storage import KeptRun, Placement
from midstream.system.offloop import in_thread
from midstream.system.repository import fetched, is_commit, is_of_file, require_url
from midstream.system.run_folder import RunFolder
from midstream.system.workspace_paths import places_folder
from midstream.views.side_effects import TREE

_AT_ONCE: Final = 1_000
NO_SECRETS: Final[Mapping[str, str]] = MappingProxyType({})


def name_of(placement: Placement) -> str:
    """Return what a run of a repository calls the folder it works in."""
    return f"{placement.repository}#{placement.commit}"


async def opened_place(
    journal: Journal,
    blobs: BlobStore,
    run: str,
    placement: Placement,
    state: Path,
    *,
    began_at: float = 0.0,
    secret: Mapping[str, str] = NO_SECRETS,
    allows_files: bool = False,
) -> RunPlace:
    """Return the place of a run that is ours, its files as the journal has them.

    Args:
        journal: what the run's facts are read from; it may have none yet.
        blobs: where what it kept is.
        run: its id.
        placement: where it belongs.
        state: the folder of our own state.
        began_at: when it began, in seconds since 1970: its result is dated so.
        secret: values that no kept file may hold, such as `secret_values` returns.
        allows_files: whether a repository may lie on this machine's own disk.

    Raises:
        UserMistake: the repository is none that may be fetched, or has no such commit.
        WorldTrouble: it cannot be reached, or what was kept is not there.
    """
    require_url(placement.repository)
    if is_of_file(placement.repository) and not allows_files:
        raise UserMistake(
            f"{placement.repository} lies on a machine's own disk, which was not allowed here.",
            hint="midstream worker --trust-repositories 'file:///FOLDER/*' allows it.",
        )
    kept = [await blobs.get(key) for key in await _kept_trees(journal, run)]

    def made() -> RunFolder:
        folder = folder_of(run, placement, state, secret)
        folder.open(kept)
        return folder

    folder = await in_thread(made)
    return place_of(folder, blobs, placement, began_at)


def place_of(
    folder: RunFolder, blobs: BlobStore, placement: Placement, began_at: float = 0.0
) -> RunPlace:
    """Return the place of a run in a folder that has been opened."""
    return RunPlace(folder, blobs.put, name_of(placement), placement.push, folder.tree, began_at)


def folder_of(
    run: str, placement: Placement, state: Path, secret: Mapping[str, str] = NO_SECRETS
) -> RunFolder:
    """Return the folder of a run, which is to be opened; the repository is fetched. Blocks.

    The arguments are those of `opened_place`, and what it raises.
    """
    hidden = tuple(value.encode() for value in secret)
    placed = (placement.repository, placement.commit)
    return RunFolder(
        *(places_folder(state) / run, fetched(state, *placed), *placed),
        may_keep=lambda data: not any(value in data for value in hidden),
    )


async def _kept_trees(journal: Journal, run: str) -> list[str]:
    """Return the keys of what a run has kept of its files, in order."""
    keys: list[str] = []
    at = 0
    while facts := await journal.read(run, at, at + _AT_ONCE):
        at += len(facts)
        keys += [
            fact.event.after
            for fact in facts
            if isinstance(fact.event, FileWritten)
            and fact.event.call_id == TREE
            and fact.event.after
        ]
    return keys


def placement_of(kept: KeptRun) -> Placement | None:
    """Return where a run of a repository belongs, None for one of a folder.

    Where the store does not say (a file, an archive) the run itself does.
    """
    placed = kept.placement or Placement()
    if placed.repository:
        return placed
    url, _, commit = kept.summary.workspace.rpartition("#")
    if not is_commit(commit) or not url or os.path.isabs(url):
        return None
    return msgspec.structs.replace(placed, repository=url, commit=commit)


async def last_keeps(journal: Journal, blobs: BlobStore, kept: KeptRun) -> list[bytes]:
    """Return all that a run has kept of its files, in order; none: they are what the commit has.

    Raises:
        WorldTrouble: some of it is not there.
    """
    return [await blobs.get(key) for key in await _kept_trees(journal, kept.id)]

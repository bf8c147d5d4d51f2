"""Folders that a run made for its files: they go when undo empties them, and come again with redo.

Only one that a fact says was made is ever touched, only below the workspace and as long as no link
leads there, and only while nothing is in it: that is for the kernel to say, at the very moment.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from midstream.language.errors import MidstreamError, UserMistake
from midstream.system.put_in_place import require_plain, take_folder_away
from midstream.system.workspace_paths import Place, locate, opened_folder
from midstream.views.side_effects import FileChange


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
    except MidstreamError as error:
        return error.what
    except OSError as error:
        return error.strerror or str(error)
    return "" if is_gone else "something else is in it"


def place_of(path: str, workspace: Path) -> Place:
    """Return the place of a file or folder that a run made.

    Raises:
        UserMistake: a link stands there now, or each change of it takes a yes.
    """
    place = locate(workspace, path)
    if not place.parts or str(place.root.joinpath(*place.parts)) != path:
        raise UserMistake("a link leads elsewhere now")
    require_plain(place)
    return place

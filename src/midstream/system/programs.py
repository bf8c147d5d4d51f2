"""Finding a program that midstream starts by itself, where no workspace can have put it."""

import os
from pathlib import Path


def found_program(name: str, workspace: Path) -> str | None:
    """Return the absolute path of a program on the PATH, None where there is none.

    Folders of the PATH that are relative or lie in the workspace do not count: what stands there is
    the workspace's, or whatever an agent has written.
    """
    for folder in path_outside(os.environ.get("PATH", os.defpath), workspace).split(os.pathsep):
        path = os.path.join(folder, name)
        is_file = bool(folder) and os.path.isfile(path) and os.access(path, os.X_OK)
        if is_file and not _is_inside(path, workspace):
            return path
    return None


def path_outside(path: str, workspace: Path) -> str:
    """Return a PATH without its folders that are relative or lie in the workspace."""
    places = (place for place in path.split(os.pathsep) if os.path.isabs(place))
    return os.pathsep.join(place for place in places if not _is_inside(place, workspace))


def _is_inside(path: str, workspace: Path) -> bool:
    root = os.path.realpath(workspace)
    return root != os.sep and Path(os.path.realpath(path)).is_relative_to(root)

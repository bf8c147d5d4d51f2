"""Finding a program that midstream starts by itself, where no workspace can have put it."""

import os
from pathlib import Path


def found_program(name: str, workspace: Path) -> str | None:
    """Return the absolute path of a program on the PATH, None where there is none.

    Folders of the PATH that are relative or lie in the workspace do not count: what stands there is
    the workspace's, or whatever an agent has written.
    """
    root = os.path.realpath(workspace)
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if not os.path.isabs(folder):
            continue
        path = os.path.join(folder, name)
        is_inside = Path(os.path.realpath(path)).is_relative_to(root) and root != os.sep
        if not is_inside and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None

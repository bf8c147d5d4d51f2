"""Commands that only look, started so that they can do nothing else: what is left to the edge.

`midstream.core.safety.harmless` says by the words of a command how to start it. Here the file system is
asked whether that holds: the program is the system's, each path is a plain file or folder inside, and a
repository's configuration names nothing that git would start.
"""

import os
import stat
from pathlib import Path
from typing import Final

import msgspec

from midstream.core.errors import MidstreamError
from midstream.core.safety import harmless, quiet_git
from midstream.core.safety.capability import Capability
from midstream.tool.git import git_output
from midstream.tool.paths import locate, requests_for
from midstream.tool.twins import is_another_name

_GIT_CHECK_S: Final = 5.0


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """How to start it, and what it reads."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    reads: tuple[Capability, ...]


def looking(argv: tuple[str, ...], workspace: Path) -> Start | None:
    """Return how to start a command that only looks, None where it may do more. Blocks: it may ask git."""
    known = harmless.prepared(argv)
    if known is None:
        return None
    program = _program(known.programs, workspace)
    if program is None:
        return None
    reads: list[Capability] = []
    for path in known.paths:
        if not _is_plain(path, workspace):
            return None
        reads += requests_for(locate(workspace, path), "read")
    environment = dict(known.environment)
    if known.needs_git_check and not _is_quiet_repository(program, workspace):
        return None
    return Start(
        argv=(program, *known.arguments),
        environment=environment,
        reads=tuple(dict.fromkeys(reads)),
    )


def _program(places: tuple[str, ...], workspace: Path) -> str | None:
    root = os.path.realpath(workspace)
    for place in places:
        real = os.path.realpath(place)
        if os.path.isfile(real) and os.access(real, os.X_OK):
            return None if real.startswith(f"{root}/") else place
    return None


def _is_plain(path: str, workspace: Path) -> bool:
    try:
        place = locate(workspace, path)
        mode = place.root.joinpath(*place.parts).lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (MidstreamError, OSError):
        return False
    if is_another_name(place.root, place.parts):
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _is_own_repository(folder: Path) -> bool:
    """Return whether a `.git` holds what git shows, instead of leading to a repository elsewhere."""
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return False
    except FileNotFoundError:
        return True
    except OSError:
        return False
    led_away = ("commondir", "objects/info/alternates", "objects/info/http-alternates")
    kept = ("HEAD", "config", "index", "objects", "objects/info", "objects/pack", "refs")
    return not any(os.path.lexists(folder / name) for name in led_away) and not any(
        (folder / name).is_symlink() for name in kept
    )


def _is_quiet_repository(program: str, workspace: Path) -> bool:
    """Return whether the repository is the workspace's own, and its settings start nothing."""
    if not _is_own_repository(workspace / ".git"):
        return False
    listed = git_output(workspace, *quiet_git.CHECK, program=program, timeout_s=_GIT_CHECK_S)
    return listed is not None and not quiet_git.unknown_keys(listed.decode("utf-8", "replace"))

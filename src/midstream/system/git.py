"""git, started by midstream itself: in whatever folder, it runs nothing that the folder names, and looks
into that folder's own repository alone.
"""

import os
import stat
from pathlib import Path
from typing import Final

from midstream.safety import quiet_git
from midstream.safety.read_only_commands import ENVIRONMENT
from midstream.system.programs import found_program
from midstream.system.supervisor import run_briefly

TIMEOUT_S: Final = 30.0
MAX_SAID: Final = 500_000_000
"""Bytes of what it may print."""
MAX_PARTS: Final = 200_000
"""More names a repository's folder is not looked through for links."""

_NOT_READ: Final = frozenset({"hooks", "modules", "lfs", "annex"})
"""What a `.git` may hold that no command reads that only looks."""
_ELSEWHERE: Final = ("commondir", "objects/info/alternates", "objects/info/http-alternates")


def not_own(root: Path) -> str:
    """Return why what git would show in a folder is not that folder's own repository, whole and below
    it, "" where it is. The words go on after "git was not started: ". Blocks.

    A `.git` can lead elsewhere as a whole (a link, a file that names another place), by what it says
    (`commondir`, alternates), or by any part of it that is a link.
    """
    folder = root / ".git"
    try:
        kind = folder.lstat().st_mode
    except FileNotFoundError:
        above = next((each for each in root.parents if (each / ".git").exists()), None)
        if above is None:
            return f"there is no git repository in {root}"
        return f"{root} is a folder of the repository in {above}, which git would show whole"
    except OSError as error:
        return f".git cannot be looked at ({error.strerror})"
    if not stat.S_ISDIR(kind):
        return ".git leads to a repository elsewhere"
    if away := leads_away(folder):
        return away
    for name, is_right in (
        ("HEAD", os.path.isfile),
        ("objects", os.path.isdir),
        ("refs", os.path.isdir),
    ):
        if not is_right(folder / name):
            return f"there is no git repository in {root}: .git has no {name}"
    return ""


def leads_away(folder: Path) -> str:
    """Return why not all of a repository is in its folder, a `.git`, "" where it is. Blocks."""
    for name in _ELSEWHERE:
        if os.path.lexists(folder / name):
            return f".git/{name} leads to another repository"
    try:
        return _led_away(folder)
    except OSError as error:
        return f"{error.filename} cannot be looked at ({error.strerror})"


def _led_away(folder: Path) -> str:
    """Return which part of a repository's folder is a link, "" where none is."""
    count = 0
    folders = [""]
    while folders:
        above = folders.pop()
        with os.scandir(folder / above) as entries:
            for entry in entries:
                count += 1
                if count > MAX_PARTS:
                    return f".git has more than {MAX_PARTS:,} files to be looked at for links"
                name = f"{above}/{entry.name}" if above else entry.name
                if name in _NOT_READ:
                    continue
                if entry.is_symlink():
                    return f".git/{name} is a link to elsewhere"
                if entry.is_dir():
                    folders.append(name)
    return ""


def ceiling(root: Path) -> dict[str, str]:
    """Return what keeps git from looking for a repository above a folder."""
    return {"GIT_CEILING_DIRECTORIES": os.path.dirname(os.path.realpath(root))}


_OWN: Final = ("HOME", "XDG_CONFIG_HOME")


def git_environment() -> dict[str, str]:
    """Return the environment of the person's git: what their own configuration says counts."""
    environment = {k: v for k, v in ENVIRONMENT.items() if k not in quiet_git.OWNERS}
    return environment | {name: os.environ[name] for name in _OWN if name in os.environ}


def git_program(root: Path) -> str | None:
    """Return the person's git, None if there is none; one that lies in `root` is not theirs."""
    return found_program("git", root)


def git_output(
    root: Path, *arguments: str, program: str | None = None, timeout_s: float = TIMEOUT_S
) -> bytes | None:
    """Return what a git command printed in `root`, None when it failed, is missing, took too long or
    printed more than `MAX_SAID`, and where the repository that `root` is in is not whole and its own.

    Without a `program` it is the person's git, and what their own configuration says of the files it
    ignores counts; with one, only what the repository's says. Blocks.
    """
    top = next((each for each in (root, *root.parents) if os.path.lexists(each / ".git")), root)
    if not_own(top):
        return None
    environment = {**ENVIRONMENT, **ceiling(top)}
    if program is None:
        program = git_program(root)
        environment = {**git_environment(), **ceiling(top)}
    if program is None:
        return None
    try:
        ended, said = run_briefly(
            (program, *quiet_git.OPTIONS, *arguments),
            folder=root,
            environment=environment,
            timeout_s=timeout_s,
            max_bytes=MAX_SAID,
        )
    except OSError:
        return None
    return said if ended.exit_code == 0 and not ended.cause else None

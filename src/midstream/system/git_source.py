"""The files of a repository elsewhere, without a work tree: nothing that it names is started.

git fetches its objects into a folder that is gone afterwards, and what a commit holds is read out of them
one by one. So no filter, hook, attribute or submodule has a say, and no file of it is written.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from midstream.language.errors import UserMistake, WorldTrouble
from midstream.safety import quiet_git
from midstream.safety.sanitize import sanitized
from midstream.system.git import git_environment, git_program
from midstream.system.supervisor import DROPPED, MERGED, run_briefly

SCHEMES: Final = ("https://", "ssh://", "file://", "git@")
"""How what can be fetched begins."""

MAX_FILE_BYTES: Final = 1_000_000
TIMEOUT_S: Final = 120.0
_SAID: Final = 64_000_000
_OF_NETWORK: Final = ("SSH_AUTH_SOCK", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY")
_FILES: Final = (b"100644", b"100755")


def is_url(text: str) -> bool:
    """Return whether a text names a repository elsewhere."""
    return text.startswith(SCHEMES)


def fetched(
    url: str, wanted: Callable[[str], bool], *, into: Path
) -> tuple[str, Iterator[tuple[str, bytes]]]:
    """Return a commit of a repository, and its files by their paths. Blocks.

    Args:
        url: where it is; `#BRANCH` or `#TAG` behind it says which commit, else the default branch does.
        wanted: whether a file is read, by its path with slashes.
        into: a folder for what is fetched.

    Raises:
        UserMistake: what is wanted is a link, or too large.
        WorldTrouble: it cannot be fetched.
    """
    place, _, ref = url.partition("#")
    branch = (f"--branch={ref}",) if ref else ()
    clone = ("clone", "--quiet", "--bare", "--depth=1", "--no-tags", "--template=", *branch)
    _git(*clone, "--", place, str(into), folder=into, about=place)
    inside = (f"--git-dir={into}",)
    commit = _git(*inside, "rev-parse", "HEAD", folder=into, about=place).decode().strip()
    tree = _git(*inside, "ls-tree", "-r", "-z", "-l", commit, folder=into, about=place)
    return commit, _files(tree, wanted, into, place)


def _files(
    tree: bytes, wanted: Callable[[str], bool], into: Path, about: str
) -> Iterator[tuple[str, bytes]]:
    for entry in filter(None, tree.split(b"\0")):
        head, _, path = entry.partition(b"\t")
        mode, _, digest, size = head.split()
        name = path.decode("utf-8", "replace")
        if not wanted(name):
            continue
        if mode not in _FILES or int(size) > MAX_FILE_BYTES:
            why = "a link or no file" if mode not in _FILES else "too large"
            raise UserMistake(
                f"{name!a} of {sanitized(about)} is {why}: nothing was taken.",
                hint="Ask its authors, or take a copy of yours.",
            )
        blob = ("cat-file", "blob", digest.decode())
        yield name, _git(f"--git-dir={into}", *blob, folder=into, about=about)


def _git(*arguments: str, folder: Path, about: str) -> bytes:
    program = git_program(folder)
    if program is None:
        raise WorldTrouble("git is not there.", hint="Install git.")
    kept = {name: os.environ[name] for name in _OF_NETWORK if name in os.environ}
    environment = git_environment() | kept
    environment |= {
        "GIT_ALLOW_PROTOCOL": "https:ssh:file",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    }
    try:
        ended, said = run_briefly(
            (program, *quiet_git.OPTIONS, *arguments),
            folder=folder,
            environment=environment,
            timeout_s=TIMEOUT_S,
            stderr=MERGED if "clone" in arguments else DROPPED,
            max_bytes=_SAID,
        )
    except OSError as error:
        raise WorldTrouble(f"git could not be started: {error}.", hint="Install git.") from error
    if ended.exit_code != 0 or ended.cause:
        words = sanitized(said.decode("utf-8", "replace")).strip()[-300:]
        raise WorldTrouble(
            f"{sanitized(about)} cannot be fetched: {words or 'git said nothing'}",
            hint="git clone says more.",
        )
    return said

"""The files of a repository elsewhere, without a work tree: nothing that it names is started.

git fetches its objects into a folder that is gone afterwards, and what a commit holds is read out of them
one by one. So no filter, hook, attribute or submodule has a say, and no file of it is written.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from midstream.language.errors import UserMistake, WorldTrouble
from midstream.safety.sanitize import sanitized
from midstream.system.repository import git, of_disk, of_network

SCHEMES: Final = ("https://", "ssh://", "file://", "git@")
"""How what can be fetched begins."""

MAX_FILE_BYTES: Final = 1_000_000
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
    try:
        git(*clone, "--", place, str(into), folder=into, environment=of_network(place))
    except WorldTrouble as error:
        raise WorldTrouble(
            f"{sanitized(place)} cannot be fetched: {error.what}", hint="git clone says more."
        ) from error
    inside = partial(git, folder=into, environment={**of_disk(), "GIT_DIR": str(into)})
    commit = inside("rev-parse", "HEAD").decode().strip()
    return commit, _files(inside, inside("ls-tree", "-r", "-z", "-l", commit), wanted, place)


def _files(
    inside: Callable[..., bytes], tree: bytes, wanted: Callable[[str], bool], about: str
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
        yield name, inside("cat-file", "blob", digest.decode())

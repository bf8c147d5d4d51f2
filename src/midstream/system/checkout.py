"""A person's own checkout of a repository: where it is from, and a branch in it with what a run has made.

Its work tree and index are never touched, and nothing its configuration names is started.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from midstream.language.errors import UserMistake, WorldTrouble
from midstream.safety.quiet_git import CHECK, without_filters
from midstream.system.git import git_environment
from midstream.system.repository import (
    Address,
    address,
    git,
    of_network,
    require_branch,
    require_url,
    resolved,
)
from midstream.system.run_folder import RunFolder

_NONE: Final = "0" * 40


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A work tree, and the repository that it and others may share."""

    top: Path
    repository: Path

    def said(self, *arguments: str, stdin: Path | None = None) -> str:
        """Return what a git command printed in it.

        Raises:
            WorldTrouble: it failed.
        """
        return os.fsdecode(self._said(*arguments, stdin=stdin)).strip()

    def _said(self, *arguments: str, stdin: Path | None = None) -> bytes:
        environment = git_environment()
        listed = os.fsdecode(git(*CHECK, folder=self.top, environment=environment))
        environment |= without_filters(listed)
        return git(*arguments, folder=self.top, environment=environment, stdin=stdin)

    def has(self, commit: str) -> bool:
        """Return whether a commit is there."""
        try:
            self._said("cat-file", "-e", f"{commit}^{{commit}}")
        except WorldTrouble:
            return False
        return True

    def urls(self) -> dict[str, str]:
        """Return where its remotes are, by their names."""
        listed = self._said("config", "--null", "--get-regexp", r"^remote\..*\.url$").split(b"\0")
        pairs = (os.fsdecode(each).partition("\n") for each in listed if each)
        return {key.removeprefix("remote.").removesuffix(".url"): url for key, _, url in pairs}


def checkout_in(folder: Path) -> Checkout:
    """Return the checkout that a folder is in. Blocks.

    Raises:
        UserMistake: it is in none.
    """
    asked = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
    try:
        said = os.fsdecode(git(*asked, folder=folder, environment=git_environment()))
    except WorldTrouble as error:
        raise UserMistake(
            f"{folder} is in no git checkout.", hint="Go to one, or name one with --workspace."
        ) from error
    top, repository = said.rstrip("\n").split("\n")
    return Checkout(top=Path(top), repository=Path(repository))


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What a run begins with: a repository's commit. `left_out`: so many files were changed since."""

    url: str
    commit: str
    left_out: int = 0


def source_named(text: str, folder: Path, state: Path) -> Source:
    """Return what `URL`, `URL@REF` or `.` (the checkout a folder is in, at its HEAD) names. Blocks.

    Raises:
        UserMistake: it names nothing that can be fetched, or HEAD has not been pushed.
        WorldTrouble: the repository cannot be reached.
    """
    if text != ".":
        where = address(text)
        return Source(url=where.url, commit=resolved(state, where))
    own = checkout_in(folder)
    url = _remote_of(own)
    try:
        head = own.said("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except WorldTrouble as error:
        raise UserMistake(f"{own.top} has no commit yet.", hint="Make one, and push it.") from error
    changed = own.said("ls-files", "-z", "--modified", "--others", "--exclude-standard", ":/")
    staged = own.said("diff-index", "-z", "--cached", "--name-only", "--no-renames", "HEAD")
    names = {name for name in (*changed.split("\0"), *staged.split("\0")) if name}
    try:
        resolved(state, Address(url=url, ref=head))
    except UserMistake as error:
        raise UserMistake(
            f"The commit {head[:12]} you are on is not on {url}.", hint="Push it first: git push."
        ) from error
    return Source(url=url, commit=head, left_out=len(names))


def _remote_of(own: Checkout) -> str:
    urls = own.urls() if _has_remotes(own) else {}
    try:
        branch = own.said("symbolic-ref", "--quiet", "--short", "HEAD")
        name = own.said("config", "--get", f"branch.{branch}.remote")
    except WorldTrouble:
        name = "origin"
    url = urls.get(name) or urls.get("origin") or next(iter(urls.values()), "")
    if not url:
        raise UserMistake(
            f"{own.top} has no remote: no other machine can get its files.",
            hint="Push it to a server, or name one with --repository URL.",
        )
    url = f"file://{url}" if url.startswith("/") else url
    require_url(url)
    return url


def _has_remotes(own: Checkout) -> bool:
    return bool(own.said("remote"))


def branch_with(
    own: Checkout,
    url: str,
    commit: str,
    kept: Sequence[bytes],
    *,
    branch: str,
    words: str,
    at: float,
) -> str:
    """Return the commit, on top of `commit`, of what a run has made; `branch` is at it then. Blocks.

    Args:
        own: the checkout.
        url: the repository that the run is of.
        commit: what it began with.
        kept: all that it kept of its files.
        branch: the branch; one that is there already is left as it is.
        words: what the commit says.
        at: when it was made, in seconds since 1970.

    Raises:
        UserMistake: it is no checkout of that repository, or has such a branch.
        WorldTrouble: git could not make it.
    """
    require_branch(branch)
    if not own.has(commit):
        _fetch(own, url, commit)
    with TemporaryDirectory(prefix="midstream-fetch-") as place:
        folder = RunFolder(Path(place), own.repository, url, commit)
        folder.gather(kept)
        made = folder.commit_of(folder.tree, words, at)
        there = own.said("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        if there == made:
            return made
        if there:
            raise UserMistake(
                f"There is a branch {branch} already.", hint="Name another with --branch NAME."
            )
        pack = Path(place) / "pack"
        pack.write_bytes(folder.pack_of(made))
        own.said("index-pack", "--stdin", "--fix-thin", stdin=pack)
    own.said("update-ref", f"refs/heads/{branch}", made, _NONE)
    return made


def _fetch(own: Checkout, url: str, commit: str) -> None:
    urls = {_bare(each) for each in own.urls().values()} if _has_remotes(own) else set()
    if _bare(url) not in urls:
        raise UserMistake(
            f"{own.top} is no checkout of {url}, which the run is of.",
            hint="Go to one: git clone makes one.",
        )
    require_url(url)
    fetch = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    git(*fetch, "--", url, commit, folder=own.top, environment=of_network(url))


def _bare(url: str) -> str:
    return url.removeprefix("file://").rstrip("/").removesuffix(".git")

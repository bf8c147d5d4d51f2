"""Repositories elsewhere that runs work in: how they are named, and the bare copy of each that we keep.
Plugins are read out of others.

The copy has what was fetched and nothing else; no file of it is ever checked out into it, and what runs
make is kept beside it. git is told where it is, each time. So nothing that a repository holds is read as
configuration: no hook, filter, attribute or submodule of it has a say. Credentials are those of the
person's, or the worker's, own git and environment; nobody is asked for one.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from midstream.config.portable import O_CLOEXEC, lock_file
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.safety import quiet_git
from midstream.safety.sanitize import sanitized
from midstream.system.git import git_environment, git_program
from midstream.system.own_process import ending
from midstream.system.supervisor import DROPPED, MERGED, run_briefly

NETWORK_S: Final = 600.0
"""Seconds that fetching, or pushing, may take."""
LOCAL_S: Final = 300.0
MAX_SAID: Final = 1_000_000_000

SETTINGS: Final = (
    *("core.autocrlf=false", "core.eol=lf", "core.safecrlf=false", "core.fileMode=true"),
    *("core.symlinks=true", "core.logAllRefUpdates=false", "gc.auto=0", "maintenance.auto=false"),
    *("fetch.recurseSubmodules=false", "push.recurseSubmodules=no", "advice.detachedHead=false"),
)
"""What is said before every command besides `quiet_git.OPTIONS`: files are taken byte for byte."""

_ATTRIBUTES: Final = "* -text -ident -filter -eol !working-tree-encoding\n"
"""Above whatever a repository's own .gitattributes say: nothing is converted, nothing is started."""

_OF_NETWORK: Final = (
    *("SSH_AUTH_SOCK", "GIT_ASKPASS", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "SSL_CERT_FILE"),
    *("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"),
)
_SCP: Final = re.compile(r"git@[A-Za-z0-9][A-Za-z0-9.-]*:[^-/:][^:]*")
_HOST: Final = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:\[\]-]*")
_REF: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_SCHEMES: Final = "It takes https://, ssh:// or git@HOST:PATH."


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a repository is, and what was named of it: a branch, a tag or a whole commit; "": its HEAD."""

    url: str
    ref: str = ""


def address(text: str) -> Address:
    """Return what `URL` or `URL@REF` names. Whether it is there is not looked at.

    Raises:
        UserMistake: it is none that is fetched from, or has a password in it.
    """
    begin = text.find("/", text.find("://") + 3) if "://" in text else text.find(":")
    url, at, ref = text[:begin], "", ""
    if begin >= 0:
        path, at, ref = text[begin:].partition("@")
        url += path
    else:
        url = text
    if at and (not _REF.fullmatch(ref) or ".." in ref or ref.endswith((".lock", "/", "."))):
        raise UserMistake(
            f"{ref!a:.100} names no commit.", hint="Write URL@BRANCH, @TAG or @COMMIT."
        )
    require_url(url)
    return Address(url=url, ref=ref)


def require_url(url: str) -> None:
    """Return if a repository may be fetched from there.

    Raises:
        UserMistake: it is no such URL, or has a password in it: it would stand in the journal.
    """
    shown = _without_password(url)
    if not url.isprintable() or " " in url or not url.isascii():
        raise UserMistake(f"{shown!a:.200} is no URL of a repository.", hint=_SCHEMES)
    if _SCP.fullmatch(url):
        return
    parts = urlsplit(url)
    if parts.scheme not in ("https", "ssh", "file") or not parts.path.strip("/"):
        raise UserMistake(f"{shown!a:.200} is no URL of a repository.", hint=_SCHEMES)
    if parts.password is not None or (parts.scheme == "https" and parts.username is not None):
        raise UserMistake(
            f"{shown!a:.200} has a password or token in it, which would be kept with the run.",
            hint="Leave it out. git's own credential helper, or GIT_ASKPASS in the environment, has it.",
        )
    has_host = bool(_HOST.fullmatch(parts.netloc.rpartition("@")[2]))
    has_name = not parts.username or bool(_HOST.fullmatch(parts.username))
    is_there = not parts.netloc if parts.scheme == "file" else has_host and has_name
    if parts.query or parts.fragment or not is_there:
        raise UserMistake(f"{shown!a:.200} is no URL of a repository.", hint=_SCHEMES)


def _without_password(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//...@", url)


def require_branch(name: str) -> None:
    """Return if a branch can be called so.

    Raises:
        UserMistake: it cannot, or git would read it as something else.
    """
    is_one = _REF.fullmatch(name) and ".." not in name and "//" not in name and "/." not in name
    if not is_one or name.endswith((".lock", "/", ".")) or ".lock/" in name or len(name) > 200:
        raise UserMistake(
            f"{name!a:.100} cannot name a branch.", hint="It takes letters, digits and -_./+."
        )


def is_of_file(url: str) -> bool:
    """Return whether a repository lies on this machine's own disk."""
    return url.startswith("file:")


def is_commit(text: str) -> bool:
    """Return whether a text is the whole name of a commit."""
    return _COMMIT.fullmatch(text) is not None


def name_of(url: str) -> str:
    """Return what a repository is called, as a name of a folder."""
    last = re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git")
    plain = "".join(char for char in last if char.isalnum() or char in "._-").strip(".-")
    return plain[:60] or "repository"


# --- git ------------------------------------------------------------------------------------------


def git(
    *arguments: str,
    folder: Path,
    environment: Mapping[str, str],
    stdin: Path | None = None,
    max_bytes: int = MAX_SAID,
    ends: tuple[int, ...] = (0,),
) -> bytes:
    """Return what a git command printed that was told by its environment which repository it is about.

    Args:
        arguments: the command.
        folder: where it is started.
        environment: besides what keeps git quiet.
        stdin: a file that it reads.
        max_bytes: how much it may print.
        ends: the exit codes that are no failure.

    Raises:
        WorldTrouble: it failed, or there is no git.
    """
    program = git_program(folder)
    if program is None:
        raise WorldTrouble("git is not there.", hint="Install git.")
    settings = (part for setting in SETTINGS for part in ("-c", setting))
    is_of_network = arguments[0] in _NETWORK
    opened = DROPPED if stdin is None else os.open(stdin, os.O_RDONLY | O_CLOEXEC)
    try:
        ended, said = run_briefly(
            (program, *quiet_git.OPTIONS, *settings, *arguments),
            folder=folder,
            environment=environment,
            timeout_s=NETWORK_S if is_of_network else LOCAL_S,
            stdin=opened,
            stderr=MERGED if is_of_network else DROPPED,
            max_bytes=max_bytes,
        )
    except OSError as error:
        raise WorldTrouble(f"git could not be started: {error}.", hint="Install git.") from error
    finally:
        if stdin is not None:
            os.close(opened)
    if ended.cause or ended.exit_code not in ends:
        words = sanitized(said.decode("utf-8", "replace")).strip() if is_of_network else ""
        words = ending(words, 500)
        how = (
            _CAUSES.get(ended.cause, "was ended") if ended.cause else f"failed ({ended.exit_code})"
        )
        raise WorldTrouble(
            f"git {arguments[0]} {how}{f': {words}' if words else ''}.",
            hint="The same command by hand says more.",
        )
    return said


_CAUSES: Final = {"timed_out": "took too long", "enough": "has more to say than can be kept"}
_NETWORK: Final = ("clone", "ls-remote", "fetch", "push")


def of_network(url: str) -> dict[str, str]:
    """Return the environment of commands that go to a repository elsewhere; nobody is asked anything."""
    kept = {name: os.environ[name] for name in _OF_NETWORK if name in os.environ}
    allowed = "file" if is_of_file(url) else "https:ssh"
    quiet = {"GIT_ALLOW_PROTOCOL": allowed, "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
    return git_environment() | quiet | kept


def of_disk() -> dict[str, str]:
    """Return the environment of commands on what we keep: nobody's configuration counts."""
    return dict(quiet_git.ENVIRONMENT)


# --- what was fetched -----------------------------------------------------------------------------


def clones_folder(state: Path) -> Path:
    """Return the folder of the copies of repositories, in the folder of our own state."""
    return state / "repositories"


def clone_of(state: Path, url: str) -> Path:
    """Return the place of the copy of a repository, whether it is there or not."""
    return clones_folder(state) / f"{hashlib.sha256(url.encode()).hexdigest()[:24]}.git"


@contextmanager
def at_rest(clone: Path) -> Iterator[None]:
    """Keep others from the copy of a repository meanwhile; it is there then. Blocks."""
    clone.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(clone.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | O_CLOEXEC, 0o600)
    try:
        lock_file(handle)
        # Again each time: it changes nothing that is whole, and makes whole what a crash left half done.
        git(
            *("init", "--quiet", "--bare", "--template=", str(clone)),
            folder=clone.parent,
            environment=of_disk(),
        )
        (clone / "info").mkdir(exist_ok=True)
        (clone / "info" / "attributes").write_text(_ATTRIBUTES)
        yield
    finally:
        os.close(handle)


def resolved(state: Path, where: Address) -> str:
    """Return the commit that is named, as it is there now; it is in the copy then. Blocks.

    Raises:
        UserMistake: there is no such branch, tag or commit.
        WorldTrouble: the repository cannot be reached.
    """
    clone = clone_of(state, where.url)
    commit = where.ref
    if not _COMMIT.fullmatch(commit):
        with at_rest(clone):
            said = git(
                *("ls-remote", "--quiet", where.url, *_patterns(where.ref)),
                folder=clone,
                environment={**of_network(where.url), "GIT_DIR": str(clone)},
            )
        commit = _named(said.decode("utf-8", "replace"), where)
    fetched(state, where.url, commit)
    return commit


def _patterns(ref: str) -> tuple[str, ...]:
    return (ref, f"{ref}^{{}}") if ref else ("HEAD",)


def _named(listed: str, where: Address) -> str:
    pairs = (line.split("\t", 1) for line in listed.splitlines() if "\t" in line)
    refs = {name: commit for commit, name in pairs}
    ref = where.ref
    names = (f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"{ref}^{{}}", ref)
    for name in names if ref else ("HEAD",):
        if _COMMIT.fullmatch(refs.get(name, "")):
            return refs[name]
    raise UserMistake(
        f"{where.url} has no branch or tag {ref!r}." if ref else f"{where.url} has no commit yet.",
        hint="Push it first, or name another; a commit is named by all of its 40 digits.",
    )


def fetched(state: Path, url: str, commit: str) -> Path:
    """Return the copy of a repository, which has this commit, all it holds and what it came from. Blocks.

    Raises:
        UserMistake: the commit is not there.
        WorldTrouble: the repository cannot be reached.
    """
    require_url(url)
    if not _COMMIT.fullmatch(commit):
        raise UserMistake(f"{commit!a:.100} is no commit.", hint="One has 40 digits.")
    clone = clone_of(state, url)
    with at_rest(clone):
        if not _has(clone, commit):
            _fetch(clone, url, commit)
    return clone


def _has(clone: Path, commit: str) -> bool:
    """Return whether a commit was fetched whole: git moves the ref when all of it is there."""
    try:
        return (clone / _ref(commit)).read_text().strip() == commit
    except OSError:
        return False


def _ref(commit: str) -> str:
    return f"refs/midstream/{commit}"


def _fetch(clone: Path, url: str, commit: str) -> None:
    fetch = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    network = {**of_network(url), "GIT_DIR": str(clone)}
    try:
        wanted = f"{commit}:{_ref(commit)}"
        git(*fetch, "--", url, wanted, folder=clone, environment=network)
        return
    except WorldTrouble as error:
        trouble = error
    # Some servers give out only what a branch or tag names.
    every = ("+refs/heads/*:refs/fetched/heads/*", "+refs/tags/*:refs/fetched/tags/*")
    git(*fetch, "--", url, *every, folder=clone, environment=network)
    try:
        environment = {**of_disk(), "GIT_DIR": str(clone)}
        git("cat-file", "-e", f"{commit}^{{commit}}", folder=clone, environment=environment)
        git("update-ref", _ref(commit), commit, folder=clone, environment=environment)
    except WorldTrouble:
        raise UserMistake(
            f"{url} has no commit {commit[:12]}: {trouble.what}", hint="Push it there first."
        ) from trouble


# --- what is taken once, and not kept -------------------------------------------------------------

URLS: Final = ("https://", "ssh://", "file://", "git@")
"""How what files can be taken of begins."""

_MAX_FILE_BYTES: Final = 1_000_000
_FILES: Final = (b"100644", b"100755")


def is_url(text: str) -> bool:
    """Return whether a text names a repository elsewhere."""
    return text.startswith(URLS)


def files_of(
    url: str, wanted: Callable[[str], bool], *, into: Path
) -> tuple[str, Iterator[tuple[str, bytes]]]:
    """Return a commit of a repository, and its files by their paths, without a work tree. Blocks.

    git fetches its objects into a folder that is gone afterwards, and what the commit holds is read out of
    them one by one: no file of it is written.

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
    return commit, _read_files(inside, inside("ls-tree", "-r", "-z", "-l", commit), wanted, place)


def _read_files(
    inside: Callable[..., bytes], tree: bytes, wanted: Callable[[str], bool], about: str
) -> Iterator[tuple[str, bytes]]:
    for entry in filter(None, tree.split(b"\0")):
        head, _, path = entry.partition(b"\t")
        mode, _, digest, size = head.split()
        name = path.decode("utf-8", "replace")
        if not wanted(name):
            continue
        if mode not in _FILES or int(size) > _MAX_FILE_BYTES:
            why = "a link or no file" if mode not in _FILES else "too large"
            raise UserMistake(
                f"{name!a} of {sanitized(about)} is {why}: nothing was taken.",
                hint="Ask its authors, or take a copy of yours.",
            )
        yield name, inside("cat-file", "blob", digest.decode())

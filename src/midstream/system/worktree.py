"""git worktrees: a folder and a branch for an agent that works beside others, and what it changed there.

A worktree lies in the folder of our own state, by run and name, so that after a crash the same one is
found again. It begins as its makers' work tree is: the HEAD commit and, in a commit of its own, what was
changed since and files git does not know yet. That commit is made with a copy of the index, so that
neither the person's index nor their files are touched. A note beside the folder says what it was made
of; it is written last, and a worktree without one was not made to its end: it is made anew.

What was changed is a commit, too, and is compared with the one it began with, file by file: `merges` says
what each file of the work tree would hold. Writing that is the affair of whoever asked.

git is told where the repository is, each time, and never looks for it: the file `.git` in a worktree is the
agent's to change. Nothing that a repository names is started: no hook, no filter, no fsmonitor.
"""

import os
import shutil
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NoReturn

import msgspec

from midstream.language.errors import UserMistake, WorldTrouble
from midstream.safety import quiet_git
from midstream.safety.protected import classify
from midstream.safety.quiet_git import CHECK, is_of_filter, unknown_keys, without_filters
from midstream.system.git import (
    TIMEOUT_S,
    git_environment,
    git_output,
    git_program,
    not_own,
)
from midstream.system.own_process import ending
from midstream.system.put_in_place import MAX_KEPT_BYTES, contents_of
from midstream.system.supervisor import DROPPED, MERGED, run_briefly
from midstream.system.workspace_paths import Place, locate, worktrees_folder

MAX_MERGED: Final = 1_000
"""More files are not merged at once: their branch is kept."""

_ARGUMENTS: Final = 100_000
"""Characters of file names that git is given at once."""
_SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_AUTHOR: Final = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "midstream"), ("EMAIL", "midstream@localhost"))
}
_UNDER_WAY: Final = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}
_FILES: Final = ("100644", "100755")
_NOTHING: Final = "000000"
_ONE_AT_A_TIME = threading.RLock()


class Worktree(msgspec.Struct, frozen=True, kw_only=True):
    """A worktree as its note has it: `base` is the commit it began with, `merged` the one all of which is
    in the work tree it was made from, "" before that; `kept` the last one, once it is being put away. `git`
    is its own part of the `repository`.
    """

    path: str
    repository: str
    git: str
    branch: str
    base: str
    merged: str = ""
    kept: str = ""


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was changed in a worktree: what it held at first and holds there now, what the work tree
    holds (`ours`) and is to hold (`merged`); None: no file. `why` says why it cannot be merged, "" where it
    can be; `sides` shows both, where they are text.
    """

    name: str
    base: bytes | None = None
    theirs: bytes | None = None
    place: Place | None = None
    ours: bytes | None = None
    merged: bytes | None = None
    why: str = ""
    sides: str = ""


def opened(workspace: Path, run: str, names: Sequence[str]) -> Path:
    """Return the folder of a worktree, the last of `names`; it is made if it is not there. Each is made
    from the one before it, the first from the workspace. Blocks.

    Raises:
        UserMistake: there is no git repository that could have one now.
        WorldTrouble: git could not make it.
    """
    root, git = workspace, workspace / ".git"
    for name in names:
        with _ONE_AT_A_TIME:
            made = found(run, name) or _made(workspace, root, git, run, name)
        root, git = Path(made.path), Path(made.git)
    return root


def found(run: str, name: str) -> Worktree | None:
    """Return a worktree that was made to its end, None if there is none."""
    folder = _folder_of(run, name)
    return _noted(folder) if folder.is_dir() else None


def merges(workspace: Path, of: Worktree, into: Path) -> tuple[tuple[Merge, ...], str]:
    """Return what merging a worktree into a folder comes to, file by file, and the commit that is merged.

    What was changed in the worktree is committed on its branch first. Nothing else is changed. Blocks.
    """
    with _ONE_AT_A_TIME:
        commit = _committed(workspace, of)
    git = _Git(workspace, into, Path(of.repository))
    listed = git.said("diff-tree", "-r", "-z", "--no-renames", "--raw", of.base, commit)
    parts = os.fsdecode(listed).split("\0")
    entries = list(zip(parts[0:-1:2], parts[1::2], strict=True))
    if len(entries) > MAX_MERGED:
        raise UserMistake(
            f"{len(entries):,} files were changed: at most {MAX_MERGED:,} are merged.",
            hint="Merge the git branch by hand.",
        )
    return tuple(_merge(git, entry, name, of, into) for entry, name in entries), commit


def set_merged(of: Worktree, run: str, name: str, commit: str) -> None:
    """Note that all of a commit is in the work tree: the branch is not needed any more."""
    _write_note(_folder_of(run, name), msgspec.structs.replace(of, merged=commit))


def put_away(workspace: Path, run: str, *, only: str = "", but: Collection[str] = ()) -> None:
    """Take the worktrees of a run away, all `but` those named or `only` one. Blocks.

    What was changed in one and not merged is committed first, and its branch stays. What git will not take
    away now stays for the next time.
    """
    with _ONE_AT_A_TIME:
        try:
            folder = worktrees_folder() / _plain(run)
            names = {entry.removesuffix(".json") for entry in os.listdir(folder)}
        except (OSError, UserMistake):
            return
        for name in sorted(names):
            if name not in but and only in ("", name):
                with suppress(UserMistake, WorldTrouble, OSError):
                    _put_away(workspace, run, name)
        with suppress(OSError):
            folder.rmdir()


# --- where they are -------------------------------------------------------------------------------


def _plain(name: str) -> str:
    if not 0 < len(name) <= 80 or not set(name) <= _SAFE:
        raise UserMistake(
            f"{name!a:.100} cannot name a worktree.", hint="It takes letters, digits, -."
        )
    return name


def _folder_of(run: str, name: str) -> Path:
    return worktrees_folder() / _plain(run) / _plain(name)


def _note_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def _noted(folder: Path) -> Worktree | None:
    try:
        return msgspec.json.decode(_note_of(folder).read_bytes(), type=Worktree)
    except (OSError, msgspec.DecodeError):
        return None


def _write_note(folder: Path, note: Worktree) -> None:
    beside = folder.with_name(f"{folder.name}.json-new")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(note))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(_note_of(folder))


# --- git ------------------------------------------------------------------------------------------


class _Git:
    """git in one repository and work tree, which both are named to it.

    Raises:
        UserMistake: the repository is not one it may be started in.
    """

    def __init__(self, workspace: Path, root: Path, git: Path) -> None:
        why = not_own(workspace)
        program = git_program(workspace)
        if why or program is None:
            _refuse(why or "there is no program git")
        own = git_output(workspace, *CHECK, program=program)
        listed = git_output(workspace, *CHECK)
        if own is None or listed is None:
            _refuse("its configuration cannot be read")
        strange = [each for each in unknown_keys(os.fsdecode(own)) if not is_of_filter(each)]
        if strange:
            _refuse(f"its configuration has {strange[0]}, which may make git start something")
        self.root, self._program = root, program
        self._environment = {
            **git_environment(),
            **without_filters(os.fsdecode(listed)),
            **_AUTHOR,
            "GIT_DIR": str(git),
            "GIT_WORK_TREE": str(root),
        }

    def ran(
        self, *arguments: str, index: Path | None = None, stderr: int = DROPPED
    ) -> tuple[int, bytes]:
        """Return how a command ended and what it printed."""
        more = {} if index is None else {"GIT_INDEX_FILE": str(index)}
        ended, said = run_briefly(
            (self._program, *quiet_git.OPTIONS, *arguments),
            folder=self.root,
            environment={**self._environment, **more},
            timeout_s=TIMEOUT_S * 10,
            stderr=stderr,
            max_bytes=MAX_KEPT_BYTES * 2,
        )
        return (255 if ended.cause else ended.exit_code), said

    def said(self, *arguments: str, index: Path | None = None) -> bytes:
        """Return what a command printed.

        Raises:
            WorldTrouble: it failed.
        """
        code, said = self.ran(*arguments, index=index)
        if code:
            why = os.fsdecode(self.ran(*arguments, index=index, stderr=MERGED)[1])
            why = ending(why, 300).strip()
            raise WorldTrouble(
                f"git {arguments[0]} failed in {self.root}: {why}", hint="Look with git status."
            )
        return said

    def word(self, *arguments: str, index: Path | None = None) -> str:
        """Return the one word a command printed."""
        return self.said(*arguments, index=index).decode().strip()


def _refuse(why: str) -> NoReturn:
    raise UserMistake(
        f"No git worktree can be made here: {why}.",
        hint="Do without: leave out worktree, and hand on only what does not change the same files.",
    )


def _is_there(git: _Git, *arguments: str) -> bool:
    return not git.ran(*arguments)[0]


def _require_ready(git: _Git, folder: Path) -> str:
    """Return the HEAD commit."""
    for name, what in _UNDER_WAY.items():
        if os.path.lexists(folder / name):
            _refuse(f"a {what} is under way; git status says how to end it")
    code, head = git.ran("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if code:
        _refuse("the repository has no commit yet; make a first one")
    if git.said("ls-files", "-z", "--unmerged"):
        _refuse("files of a merge are not resolved; git status names them")
    return head.decode().strip()


# --- made -----------------------------------------------------------------------------------------


def _made(workspace: Path, root: Path, folder: Path, run: str, name: str) -> Worktree:
    if not os.path.lexists(workspace / ".git") and (workspace / "objects").is_dir():
        _refuse("this is a bare repository, which has no work tree")
    git = _Git(workspace, root, folder)
    head = _require_ready(git, folder)
    path, repository = _folder_of(run, name), workspace / ".git"
    branch = f"midstream/{run}/{name}"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (before := _noted(path)) is not None:
        # Somebody has taken the folder away: what was committed on its branch is still there.
        _take_away(git, path)
        base, new = before.base, [str(path), branch]
    else:
        _clear(git, path, branch)
        base = _commit_of_all(git, folder, head, "The work tree as it was", is_strict=False)
        new = ["-b", branch, str(path), base]
    git.said("worktree", "add", "--quiet", "--no-checkout", *new)
    path.chmod(0o700)
    # Read at once: from the first command in it, this file is the agent's.
    own = (path / ".git").read_text("utf-8").removeprefix("gitdir:").strip()
    _Git(workspace, path, Path(own)).said("read-tree", "--reset", "-u", "HEAD")
    made = Worktree(path=str(path), repository=str(repository), git=own, branch=branch, base=base)
    _write_note(path, made)
    return made


def _clear(git: _Git, path: Path, branch: str) -> None:
    """Take away what is left of a worktree that was not made to its end: nobody has worked in it."""
    _take_away(git, path)
    if _is_there(git, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}"):
        git.said("update-ref", "-d", f"refs/heads/{branch}")


def _take_away(git: _Git, path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)
    listed = os.fsdecode(git.said("worktree", "list", "--porcelain", "-z")).split("\0")
    if f"worktree {path}" in listed:
        git.said("worktree", "remove", "--force", "--force", str(path))


@contextmanager
def _index_like(folder: Path) -> Iterator[Path]:
    """Give a copy of an index, so that the one it is of stays as it is."""
    with TemporaryDirectory(prefix="midstream-index-") as beside:
        copy = Path(beside) / "index"
        with suppress(FileNotFoundError):
            # Its time, too: git takes files for unchanged that are older than the index.
            shutil.copy2(folder / "index", copy)
        yield copy


def _commit_of_all(git: _Git, folder: Path, parent: str, words: str, *, is_strict: bool) -> str:
    """Return a commit of the work tree as it is, `parent` where nothing was changed since.

    Files that git ignores are not in it, nor those with secrets it does not know, nor what is no file.
    `is_strict`: one that is too large is an error, since it would be lost.
    """
    with _index_like(folder) as index:
        if not index.exists():
            git.said("read-tree", parent, index=index)
        gone = _listed(git, index, "--deleted")
        changed = [*_listed(git, index, "--modified"), *_new(git, index, is_strict=is_strict)]
        _update(git, index, "--force-remove", sorted(gone))
        _update(git, index, "--add", [name for name in changed if name not in gone])
        tree = git.word("write-tree", index=index)
    if tree == git.word("rev-parse", f"{parent}^{{tree}}"):
        return parent
    return git.word("commit-tree", tree, "-p", parent, "-m", words)


def _listed(git: _Git, index: Path, *arguments: str) -> set[str]:
    said = os.fsdecode(git.said("ls-files", "-z", *arguments, index=index)).split("\0")
    return {name for name in said if name and not _is_folder(git, name)}


def _is_folder(git: _Git, name: str) -> bool:
    """Return whether a name is that of a submodule, or of somebody's repository within this one."""
    path = git.root / name
    return name.endswith("/") or (path.is_dir() and not path.is_symlink())


def _new(git: _Git, index: Path, *, is_strict: bool) -> Iterator[str]:
    """Yield the files git does not know and does not ignore."""
    for name in sorted(_listed(git, index, "--others", "--exclude-standard")):
        try:
            found = (git.root / name).lstat()
        except OSError:
            continue
        if classify(tuple(name.split("/")), "read").standing == "secret":
            continue
        if found.st_size > MAX_KEPT_BYTES and is_strict:
            raise UserMistake(f"{name} is too large to be merged.", hint="Have git ignore it.")
        if found.st_size <= MAX_KEPT_BYTES and (
            stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)
        ):
            yield name


def _update(git: _Git, index: Path, how: str, names: Iterable[str]) -> None:
    some: list[str] = []
    for name in (*names, None):
        if name is None or sum(map(len, some)) > _ARGUMENTS:
            if some:
                git.said("update-index", how, "--replace", "--", *some, index=index)
            some = []
        if name is not None:
            some.append(name)


# --- merged ---------------------------------------------------------------------------------------


def _committed(workspace: Path, of: Worktree) -> str:
    """Return the commit of what a worktree holds now, made on its branch where it is new."""
    git = _Git(workspace, Path(of.path), Path(of.git))
    ref = f"refs/heads/{of.branch}"
    tip = git.word("rev-parse", "--verify", f"{ref}^{{commit}}")
    commit = _commit_of_all(git, Path(of.git), tip, f"What was done on {of.branch}", is_strict=True)
    if commit != tip:
        git.said("update-ref", ref, commit, tip)
    return commit


def _merge(git: _Git, entry: str, name: str, of: Worktree, into: Path) -> Merge:
    old_mode, new_mode, old, new, _ = entry.lstrip(":").split(" ")
    if {old_mode, new_mode} - {*_FILES, _NOTHING}:
        return Merge(name=name, why="it is, or was, a link or a submodule")
    base = _blob(git, old_mode, old, name)
    theirs = _blob(git, new_mode, new, name)
    merge = Merge(name=name, base=base, theirs=theirs)
    try:
        place = locate(into, name)
        if place.named:
            return _with(merge, why="a link is on the way to it")
        ours = contents_of(place)
    except (UserMistake, WorldTrouble) as error:
        return _with(merge, why=error.what)
    merge = _with(merge, place=place, ours=ours)
    if ours in (theirs, base):
        return _with(merge, merged=theirs)
    if base is None or ours is None or theirs is None:
        what = "made" if base is None else "removed"
        who = "in the work tree, too" if base is None else "on one side and changed on the other"
        return _with(merge, why=f"it was {what} {who}", sides=_both(ours, theirs, of))
    code, text = _three_way(git, ours, base, theirs, of)
    if code == 0:
        return _with(merge, merged=text)
    if code < 128:
        return _with(merge, why="both changed the same lines", sides=_marked(text))
    return _with(merge, why="both changed it, and it is no text")


def _with(merge: Merge, **changes: object) -> Merge:
    return msgspec.structs.replace(merge, **changes)


def _blob(git: _Git, mode: str, id: str, name: str) -> bytes | None:
    """Return a file as git would put it into a work tree: its line ends are those of the place."""
    return None if mode == _NOTHING else git.said("cat-file", "--filters", f"--path={name}", id)


def _three_way(
    git: _Git, ours: bytes, base: bytes, theirs: bytes, of: Worktree
) -> tuple[int, bytes]:
    with TemporaryDirectory(prefix="midstream-merge-") as folder:
        paths = [Path(folder) / name for name in ("ours", "base", "theirs")]
        for path, data in zip(paths, (ours, base, theirs), strict=True):
            path.write_bytes(data)
        labels = ("the work tree", "before", of.branch)
        marks = [part for label in labels for part in ("-L", label)]
        return git.ran("merge-file", "-p", "--quiet", *marks, *map(str, paths))


def _both(ours: bytes | None, theirs: bytes | None, of: Worktree) -> str:
    texts = (
        "(no file)\n" if each is None else each.decode("utf-8", "replace")
        for each in (ours, theirs)
    )
    return "<<<<<<< the work tree\n{}=======\n{}>>>>>>> {}\n".format(*texts, of.branch)


def _marked(text: bytes) -> str:
    """Return the lines both sides changed, with the marks git puts around them."""
    kept, is_inside = [], False
    for line in text.decode("utf-8", "replace").splitlines(keepends=True):
        is_inside = is_inside or line.startswith("<<<<<<< ")
        if is_inside:
            kept.append(line)
        is_inside = is_inside and not line.startswith(">>>>>>> ")
    return "".join(kept)


# --- put away -------------------------------------------------------------------------------------


def _put_away(workspace: Path, run: str, name: str) -> None:
    path = _folder_of(run, name)
    made = _noted(path)
    git = _Git(workspace, workspace, workspace / ".git")
    if made is None:
        _clear(git, path, f"midstream/{run}/{name}")
    else:
        if path.is_dir() and not made.kept:
            # Noted before a file of it goes: what is missing later was not removed by an agent.
            made = msgspec.structs.replace(made, kept=_committed(workspace, made))
            _write_note(path, made)
        _take_away(git, path)
        ref = f"refs/heads/{made.branch}"
        is_needed = not made.kept or made.kept not in (made.base, made.merged)
        if not is_needed and _is_there(git, "show-ref", "--verify", "--quiet", ref):
            git.said("update-ref", "-d", ref, made.kept)
    for note in (_note_of(path), path.with_name(f"{path.name}.json-new")):
        note.unlink(missing_ok=True)

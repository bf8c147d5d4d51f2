"""The folder that a run of a repository works in: made of a commit and of what the run has kept since.

Beside the folder lies what is ours: an index, and the objects of the trees that were kept. git is told to
use these, and the bare copy of the repository for the rest, so that nothing the run does to the `.git` in
its folder counts here. That one is whole and the folder's own, so that git works in it as in any clone.

What is kept is a tree: all files that git would add (new ones too, unless they are ignored), byte for byte,
with the executable bit, links as links; not what is no file, not what another repository inside holds, and
no file with a secret that git does not know. Each time only what is new since the last time is packed.

The folder is used again where whoever had it let go of it in order. After anything else it is made anew in
a place of its own: what still writes into the old one writes into nothing.
"""

import os
import secrets as chance
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from midstream.language.errors import WorldTrouble
from midstream.safety.protected import classify
from midstream.system.repository import at_rest, git, name_of, of_disk, of_network, require_branch

_IN_ORDER: Final = "in-order"
_HELD: Final = "held"
"""The file beside the folder that says whose it is, by a token; let go of, it has the other name."""
MAX_PACK_BYTES: Final = 250_000_000
"""More cannot be new at once: all of it passes through the journal."""
_SEARCHED_BYTES: Final = 10_000_000
"""A larger file is not looked through for secrets."""
_LINK: Final = "160000"


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """What the files are now: the tree, and a pack of what is in it and was not kept before.

    `left_out` are files that are not in it because they hold, or may hold, secrets.
    """

    tree: str
    pack: bytes
    left_out: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        """Return it as the bytes of a blob."""
        return self.tree.encode() + b"\n" + self.pack


def decoded(data: bytes) -> Keep:
    """Return what `Keep.encoded` made bytes of."""
    tree, _, pack = data.partition(b"\n")
    return Keep(tree=tree.decode("ascii", "replace"), pack=pack)


class RunFolder:
    """A run's folder; `opened` gives one. Its methods block and may be called from any thread.

    Args:
        root: where it lies, and beside it what is ours.
        clone: the bare copy of the repository.
        url: where that is from.
        commit: what the run began with.
        may_keep: whether what a file holds may be kept.
    """

    def __init__(
        self,
        root: Path,
        clone: Path,
        url: str,
        commit: str,
        may_keep: Callable[[bytes], bool] = lambda data: True,
    ) -> None:
        self.root, self.clone, self.url, self.commit = root, clone, url, commit
        self.path = root / name_of(url)
        self.tree = ""
        self._token = chance.token_hex(8)
        self._may_keep = may_keep
        self._one_at_a_time = threading.Lock()
        self._environment = {
            **of_disk(),
            "GIT_DIR": str(clone),
            "GIT_WORK_TREE": str(self.path),
            "GIT_INDEX_FILE": str(root / "index"),
            "GIT_OBJECT_DIRECTORY": str(root / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(clone / "objects"),
        }

    def _git(
        self, *arguments: str, stdin: Path | None = None, ends: tuple[int, ...] = (0,)
    ) -> bytes:
        return git(
            *arguments, folder=self.path, environment=self._environment, stdin=stdin, ends=ends
        )

    def _word(self, *arguments: str) -> str:
        return self._git(*arguments).decode().strip()

    @contextmanager
    def _file(self, data: bytes) -> Iterator[Path]:
        with TemporaryDirectory(prefix="given-", dir=self.root) as folder:
            path = Path(folder) / "data"
            path.write_bytes(data)
            yield path

    # --- made ---------------------------------------------------------------------------------

    def open(self, kept: Sequence[bytes] = ()) -> None:
        """Make the files what was kept last: all that was kept, in order; nothing is what the commit has.

        Raises:
            WorldTrouble: it cannot be made.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = self.root / _IN_ORDER
        is_in_order = mark.exists() and self.path.is_dir()
        mark.unlink(missing_ok=True)
        if is_in_order:
            (self.root / "index.lock").unlink(missing_ok=True)
        else:
            self._make()
        tree = self._tree_of(kept)
        if is_in_order:
            # What nobody kept is known to the index then, and goes.
            self._add()
        self._git("read-tree", "--reset", "-u", tree)
        (self.root / _HELD).write_text(self._token)
        if self._word("write-tree") != tree:
            raise WorldTrouble(
                f"The files in {self.path} are not what was kept.", hint="Is the disk full?"
            )
        self.tree = tree

    def _make(self) -> None:
        """Make the folder and its own repository, without files."""
        _take_away(self.root)
        self.root.mkdir(mode=0o700)
        self.path.mkdir(mode=0o700)
        (self.root / "objects").mkdir()
        own = self.path / ".git"
        environment = of_disk()
        init = ("init", "--quiet", "--template=", "--initial-branch=midstream", str(self.path))
        git(*init, folder=self.root, environment=environment)
        with at_rest(self.clone):
            _link_all(self.clone / "objects", own / "objects")
        environment = {**environment, "GIT_DIR": str(own)}
        git("config", "remote.origin.url", self.url, folder=self.path, environment=environment)
        # A branch, as a fresh clone has one. What is committed on it stays in this folder.
        git("update-ref", "HEAD", self.commit, folder=self.path, environment=environment)
        git("read-tree", self.commit, folder=self.path, environment=environment)

    def _tree_of(self, kept: Sequence[bytes]) -> str:
        """Return the tree that was kept last, with all that is in it."""
        keeps = [decoded(data) for data in kept]
        for keep in keeps:
            with self._file(keep.pack) as file:
                self._git("index-pack", "--stdin", "--fix-thin", stdin=file)
        return keeps[-1].tree if keeps else self._word("rev-parse", f"{self.commit}^{{tree}}")

    def gather(self, kept: Sequence[bytes]) -> None:
        """Have what was kept, without any files: for `commit_of`."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(exist_ok=True)
        (self.root / "objects").mkdir(exist_ok=True)
        self.tree = self._tree_of(kept)

    def let_go(self) -> None:
        """Say that nobody works in the folder any more, if it is ours still: it can be used again."""
        if self._is_ours():
            (self.root / _HELD).replace(self.root / _IN_ORDER)

    def _is_ours(self) -> bool:
        try:
            return (self.root / _HELD).read_text() == self._token
        except OSError:
            return False

    def remove(self) -> None:
        """Take the folder away, and all that is beside it. One that is not ours stays."""
        if self._is_ours() or (self.root / _IN_ORDER).exists():
            _take_away(self.root)

    # --- kept ---------------------------------------------------------------------------------

    def keep(self, since: str) -> Keep | None:
        """Return what the files are now, None where that is what was kept last, the tree `since`.

        Raises:
            WorldTrouble: it cannot be found out.
        """
        with self._one_at_a_time:
            if not self._is_ours():
                raise WorldTrouble(
                    f"{self.path} was made anew for the run by another process.",
                    hint="The run goes on there.",
                )
            self._add()
            tree = self._word("write-tree")
            if tree == since:
                return None
            left_out = self._leave_out(since)
            if left_out:
                tree = self._word("write-tree")
                if tree == since:
                    return None
            given = f"{tree}\n^{since}\n^{self.commit}\n".encode()
            with self._file(given) as file:
                pack = self._pack(file)
            return Keep(tree=tree, pack=pack, left_out=left_out)

    def _add(self) -> None:
        # 1: a file cannot be read, or is no file; all others are added.
        add = ("add", "--all", "--ignore-errors", "--", ".")
        try:
            self._git(*add, ends=(0, 1))
        except WorldTrouble:
            # A repository inside this one that has no commit yet ends it all: that is left out.
            others = os.fsdecode(self._git("ls-files", "-z", "--others", "--exclude-standard"))
            inner = [name for name in others.split("\0") if name.endswith("/")]
            self._git(*add, *(f":(exclude,literal){name}" for name in inner), ends=(0, 1))

    def _leave_out(self, since: str) -> tuple[str, ...]:
        """Put back in the index what is not kept as it is: secrets, and repositories inside this one."""
        listed = os.fsdecode(self._git("diff-index", "--cached", "-z", "--no-renames", since))
        parts = listed.split("\0")
        left_out: list[str] = []
        back: list[str] = []
        for entry, name in zip(parts[0:-1:2], parts[1::2], strict=True):
            old_mode, new_mode, old, _, _ = entry.lstrip(":").split(" ")
            is_link = new_mode == _LINK and old_mode != _LINK
            is_new = not old.strip("0")
            if is_link or self._is_secret(name, is_new=is_new):
                left_out.append(name)
                back.append(f"{'0' if is_new else old_mode} {old}\t{name}\0")
        if back:
            with self._file(os.fsencode("".join(back))) as file:
                self._git("update-index", "-z", "--index-info", stdin=file)
        return tuple(left_out)

    def _is_secret(self, name: str, *, is_new: bool) -> bool:
        if is_new and classify(tuple(name.split("/")), "read").standing == "secret":
            return True
        path = self.path / name
        with suppress(OSError):
            if not path.is_symlink() and path.stat().st_size <= _SEARCHED_BYTES:
                return not self._may_keep(path.read_bytes())
        return False

    # --- given back -----------------------------------------------------------------------------

    def commit_of(self, tree: str, words: str, at: float) -> str:
        """Return a commit of a tree that was kept, on top of what the run began with; always the same one.

        Args:
            tree: the tree.
            words: what it says.
            at: when it was made, in seconds since 1970.
        """
        environment = {**self._environment, **author(at)}
        commit = ("commit-tree", tree, "-p", self.commit, "-m", words)
        return git(*commit, folder=self.root, environment=environment).decode().strip()

    def pack_of(self, commit: str) -> bytes:
        """Return a pack of what a commit has that the one the run began with has not."""
        with self._file(f"{commit}\n^{self.commit}\n".encode()) as file:
            return self._pack(file)

    def _pack(self, wanted: Path) -> bytes:
        try:
            return git(
                *("pack-objects", "--quiet", "--stdout", "--revs"),
                folder=self.path,
                environment=self._environment,
                stdin=wanted,
                max_bytes=MAX_PACK_BYTES,
            )
        except WorldTrouble as error:
            raise WorldTrouble(
                f"What is new in {self.path} cannot be kept: {error.what}",
                hint=f"Remove what is large, or have git ignore it: {MAX_PACK_BYTES:,} bytes at once.",
            ) from error

    def push(self, commit: str, branch: str) -> None:
        """Push a commit to a branch of the repository: a new one, or one that it goes on with.

        Raises:
            UserMistake: it is no name of a branch.
            WorldTrouble: the repository does not take it.
        """
        require_branch(branch)
        environment = {**of_network(self.url), **self._environment}
        environment["GIT_ALLOW_PROTOCOL"] = of_network(self.url)["GIT_ALLOW_PROTOCOL"]
        for name in ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_ATTR_NOSYSTEM"):
            environment.pop(name, None)  # the credentials are said there
        push = ("push", "--quiet", "--no-verify", "--no-recurse-submodules", "--", self.url)
        git(*push, f"{commit}:refs/heads/{branch}", folder=self.root, environment=environment)


def author(at: float) -> dict[str, str]:
    """Return the variables that say who makes a commit, and when."""
    who = {"NAME": "midstream", "EMAIL": "midstream@localhost", "DATE": f"@{int(at)} +0000"}
    return {
        f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()
    }


def _take_away(root: Path) -> None:
    """Take a folder away at once, and then all that is in it; what cannot be removed is left lying."""
    if not root.exists():
        return
    aside = root.with_name(f"{root.name}.gone-{chance.token_hex(4)}")
    root.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _link_all(source: Path, target: Path) -> None:
    """Have the objects of a repository in another, too: as links where that can be, else copied."""
    for folder, _, names in os.walk(source):
        into = target / os.path.relpath(folder, source)
        into.mkdir(parents=True, exist_ok=True)
        for name in names:
            if name.startswith("tmp_"):
                continue
            try:
                os.link(Path(folder, name), into / name)
            except OSError:
                shutil.copy2(Path(folder, name), into / name)

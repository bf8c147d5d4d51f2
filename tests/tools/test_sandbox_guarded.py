"""What of a workspace is found to be locked and shut, within which bounds, and what is told after."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from deadline import wait_until
from tables import table

from midstream.tools.sandbox import guarded_files
from midstream.tools.sandbox.guarded_files import Lookout, told_changes

OBEYED = (
    *(".vscode/tasks.json", "pkg/.vscode/tasks.json", "pkg/AGENTS.md", "pkg/.npmrc"),
    *("a/b/c/d/.git/config", "a/b/c/.github/workflows/x.yml", "a/deep/CLAUDE.md"),
)


def write(folder: Path, *names: str, text: str = "x") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def another_moment(work: Path) -> None:
    """Return once what changes bears a later time than all that is there: its clock may be coarse."""
    newest = max(each.lstat().st_ctime_ns for each in (work, *work.rglob("*")))
    with NamedTemporaryFile(dir=work.parent) as probe:

        def touched() -> int:
            os.utime(probe.name)
            return os.stat(probe.name).st_ctime_ns

        wait_until(lambda: touched() > newest)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write(tmp_path, *OBEYED, "src/app.py", "pkg/readme.txt")
    return tmp_path


def test_what_is_obeyed_is_found_at_every_depth(work: Path) -> None:
    assert Lookout(work).look().locked == (
        ".vscode",
        *("pkg/.npmrc", "pkg/.vscode", "pkg/AGENTS.md"),
        *("a/deep/CLAUDE.md", "a/b/c/.github", "a/b/c/d/.git"),
    )


def test_a_repository_under_another_name_is_found(work: Path) -> None:
    write(work, "docs/HEAD", "docs/objects/k", "docs/refs/k", "docs/config", "x/HEAD", "x/config")
    write(work, "y/HEAD", "y/commondir")

    found = Lookout(work).look().locked

    assert [each for each in found if each.startswith(("docs/", "x/", "y/"))] == [
        *("docs/HEAD", "docs/config", "y/HEAD", "y/commondir"),
    ]


def test_a_link_is_neither_followed_nor_mounted_and_told_when_it_changes(work: Path) -> None:
    (work / "way").symlink_to("a")
    (work / "src/AGENTS.md").symlink_to("../pkg/readme.txt")
    lookout = Lookout(work)
    before = lookout.look()
    (work / "src/AGENTS.md").unlink()
    (work / "src/AGENTS.md").symlink_to("app.py")

    assert not [each for each in before.locked if each.startswith(("way", "src"))]
    assert told_changes(before, lookout.look()) == (("changed", ("src/AGENTS.md",)),)


def test_folders_of_installed_packages_are_not_walked(work: Path) -> None:
    write(work, "node_modules/p/.vscode/x", "node_modules/.bin/tool", "pkg/.venv/pyvenv.cfg")
    write(work, "pkg/.venv/lib/.vscode/x")

    found = Lookout(work).look()

    assert not [each for each in found.locked if "node_modules" in each or "lib" in each]
    assert [os.path.normpath(each) for each in found.installed] == [
        *("node_modules/.bin", "pkg/.venv"),
    ]


def test_nothing_obeyed_in_a_folder_that_its_tool_writes_into_is_locked_and_all_of_it_watched(
    work: Path,
) -> None:
    write(work, ".cargo/config.toml", ".cargo/registry/p/AGENTS.md")
    lookout = Lookout(work)
    before = lookout.look()
    write(work, ".cargo/config.toml", ".cargo/env", text="another")

    assert [each for each in before.locked if "cargo" in each] == [".cargo/registry/p/AGENTS.md"]
    assert told_changes(before, lookout.look()) == (
        ("made", (".cargo/env",)),
        ("changed", (".cargo/config.toml",)),
    )


def test_hidden_names_that_nobody_knows_are_watched(work: Path) -> None:
    write(work, ".notes_of_a_tool", ".odd/store/.hidden", ".odd/AGENTS.md")
    lookout = Lookout(work)
    before = lookout.look()
    write(work, ".notes_of_a_tool", ".odd/store/.hidden", ".another", text="new text")

    assert [each for each in before.locked if each.startswith((".notes", ".odd"))] == [
        ".odd/AGENTS.md"
    ]
    assert told_changes(before, lookout.look()) == (
        ("made", (".another",)),
        ("changed", (".notes_of_a_tool", ".odd/store/.hidden")),
    )


def remade(work: Path) -> None:
    (work / "pkg").rename(work / "gone")
    write(work, "pkg/AGENTS.md", text="mine")


def overwritten(work: Path) -> None:
    write(work, "pkg/AGENTS.md", text="mine")


def a_repository(work: Path) -> None:
    write(work, "docs/HEAD", "docs/objects/k", "docs/refs/k", "docs/config")


def removed(work: Path) -> None:
    (work / "pkg/AGENTS.md").unlink()


def new_below(work: Path) -> None:
    write(work, "a/b/c/d/e/f/.idea/workspace.xml")


CHANGES: list[tuple[Callable[[Path], None], str, str]] = [
    (remade, "changed", "pkg/AGENTS.md"),
    (remade, "made", "gone/AGENTS.md"),
    (overwritten, "changed", "pkg/AGENTS.md"),
    (a_repository, "made", "docs/config"),
    (removed, "removed", "pkg/AGENTS.md"),
    (new_below, "made", "a/b/c/d/e/f/.idea"),
]


@table(("change", "verb", "path"), CHANGES, ids=[f"{c.__name__}: {v}" for c, v, _ in CHANGES])
@table("settled", [True, False], ids=["names kept", "names not kept"])
def test_what_became_of_it_is_told(
    work: Path,
    change: Callable[[Path], None],
    verb: str,
    path: str,
    settled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if settled:
        # All that is there counts as old, so that its names are kept from one look to the next.
        monkeypatch.setattr(guarded_files, "_SETTLED_NS", -(10**12))
    lookout = Lookout(work)
    lookout.look()
    before = lookout.look()
    another_moment(work)
    change(work)

    assert path in dict(told_changes(before, lookout.look()))[verb]


def test_nothing_is_told_of_plain_files(work: Path) -> None:
    lookout = Lookout(work)
    before = lookout.look()
    write(work, "src/new.py", "src/app.py", "docs/HEAD", "objects/k", text="new")

    assert told_changes(before, lookout.look()) == ()


# --- bounds ---------------------------------------------------------------------------------------


def many_names(work: Path) -> Lookout:
    write(work, *(f"many/{number}" for number in range(60)))
    return Lookout(work, max_names=60)


def no_time(work: Path) -> Lookout:
    return Lookout(work, max_s=-1)


def a_deep_chain(work: Path) -> Lookout:
    write(work, "/".join(["d"] * (guarded_files.MAX_DEPTH + 2)) + "/x")
    return Lookout(work)


def a_chain_longer_than_a_path_can_be(work: Path) -> Lookout:
    here = os.open(work, os.O_RDONLY)
    for _ in range(guarded_files.MAX_DEPTH - 1):
        os.mkdir("n" * 200, dir_fd=here)
        below = os.open("n" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    return Lookout(work)


def many_to_lock(work: Path) -> Lookout:
    write(work, *(f"p{number}/AGENTS.md" for number in range(guarded_files.MAX_LOCKS + 1)))
    return Lookout(work)


def no_workspace(work: Path) -> Lookout:
    return Lookout(work / "missing")


BOUNDS = [
    (many_names, "more than 60 names"),
    (no_time, "it takes more than"),
    (a_deep_chain, "more than 64 deep"),
    (a_chain_longer_than_a_path_can_be, "cannot be read (File name too long)"),
    (many_to_lock, "more than 400 names in it have to be locked"),
    (no_workspace, "cannot be read"),
]


@table(("make", "said"), BOUNDS, ids=[make.__name__ for make, _ in BOUNDS])
def test_a_bound_that_is_met_is_said(
    work: Path, make: Callable[[Path], Lookout], said: str
) -> None:
    lookout = make(work)
    for _ in range(2):
        found = lookout.look()
        assert said in found.shortfall
        assert len(found.locked) <= guarded_files.MAX_LOCKS


def test_a_tree_made_to_slow_the_look_is_read_once(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_files, "_SETTLED_NS", -(10**12))
    write(work, *(f"t/{folder}/{number}" for folder in range(40) for number in range(50)))
    lookout = Lookout(work)
    first = lookout.look()
    another_moment(work)
    read: list[str] = []
    scandir = os.scandir

    @contextmanager
    def counted(handle: int) -> Iterator[object]:
        read.append(os.readlink(f"/proc/self/fd/{handle}"))
        with scandir(handle) as entries:
            yield entries

    monkeypatch.setattr(os, "scandir", counted)
    write(work, "t/7/AGENTS.md")
    second = lookout.look()

    # Only folders that have changed are read again.
    assert read == [str(work / "t/7")]
    assert {*second.locked} - {*first.locked} == {"t/7/AGENTS.md"}


def test_a_folder_that_has_just_changed_is_read_again(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its time may not tell a second change of the same moment.
    lookout = Lookout(work)
    lookout.look()
    about = os.stat
    now = {path: about(path) for path in (str(work), str(work / "src"))}
    write(work, "src/AGENTS.md")
    changed = about(work / "src")
    assert changed.st_ino == now[str(work / "src")].st_ino

    assert "src/AGENTS.md" in lookout.look().locked


# --- sockets and pipes ----------------------------------------------------------------------------


KINDS = [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET]


@table("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_socket_counts_as_long_as_somebody_has_it(
    work: Path, kind: socket.SocketKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work / "pkg")
    lookout = Lookout(work)
    with socket.socket(socket.AF_UNIX, kind) as service:
        service.bind("s")
        bound = lookout.look()
        if kind != socket.SOCK_DGRAM:
            service.listen()
            service.setblocking(False)
        listening = lookout.look()
        if kind != socket.SOCK_DGRAM:
            # Nobody has called there.
            with pytest.raises(BlockingIOError):
                service.accept()
    left = lookout.look()

    assert (bound.sockets, listening.sockets, left.sockets) == (("pkg/s",), ("pkg/s",), ())
    assert told_changes(left, listening) == (("could reach", ("pkg/s",)),)


def test_a_pipe_counts(work: Path) -> None:
    os.mkfifo(work / "pkg/p")

    assert Lookout(work).look().pipes == ("pkg/p",)

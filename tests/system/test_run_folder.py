"""What a run makes of a repository's files is kept, and made anew elsewhere, byte for byte."""

import os
import random
import shutil
from pathlib import Path

import pytest
from support.repositories import checkout, contents, git, head_of, url_of

from midstream.language.errors import UserMistake, WorldTrouble
from midstream.system.repository import Address, address, fetched, resolved
from midstream.system.run_folder import RunFolder

NOT_HERE = "a folder of a run is made with the links and modes of Linux and macOS"
pytestmark = pytest.mark.skipif(os.name == "nt", reason=NOT_HERE)


def folder_on(machine: Path, work: Path, *secrets: bytes) -> RunFolder:
    """Return the folder of a run on a machine, which keeps its state there. It is not opened yet."""
    url, commit = url_of(work), head_of(work)
    clone = fetched(machine, url, commit)
    return RunFolder(
        *(machine / "places" / "run1", clone, url, commit),
        may_keep=lambda data: not any(secret in data for secret in secrets),
    )


def kept(folder: RunFolder, since: str) -> tuple[str, list[bytes]]:
    keep = folder.keep(since)
    return (since, []) if keep is None else (keep.tree, [keep.encoded()])


def test_the_folder_has_what_the_commit_has_byte_for_byte(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    folder = folder_on(tmp_path / "a", work)
    folder.open()

    assert contents(folder.path) == contents(work)
    assert folder.keep(folder.tree) is None
    assert git(folder.path, "rev-parse", "HEAD") == head_of(work)
    assert git(folder.path, "remote", "get-url", "origin") == url_of(work)


def test_all_that_was_done_to_files_is_there_on_another_machine(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    here, there = folder_on(tmp_path / "a", work), folder_on(tmp_path / "b", work)
    here.open()
    path = here.path
    (path / "README.md").unlink()
    (path / "src/parse.py").rename(path / "src/parser.py")
    (path / "new").mkdir()
    (path / "new" / "bytes.bin").write_bytes(bytes(range(256)) * 100)
    (path / "new" / "name with \n and ü").write_text("x")
    (path / "windows.txt").chmod(0o755)
    (path / "link").symlink_to("nowhere")
    (path / "build").mkdir()
    (path / "build" / "out").write_text("what git ignores")
    tree, packs = kept(here, here.tree)
    shutil.rmtree(path / "src")
    (path / "src").symlink_to("new")
    _, more = kept(here, tree)
    there.open([*packs, *more])

    assert contents(there.path) == contents(path)
    assert (path / "build" / "out").exists()
    assert not (there.path / "build").exists()


def test_what_was_not_kept_is_gone_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    folder = folder_on(tmp_path / "a", work)
    folder.open()
    (folder.path / "kept").write_text("1")
    (folder.path / "build").mkdir()
    (folder.path / "build" / "cache").write_text("2")
    _, packs = kept(folder, folder.tree)
    then = contents(folder.path)
    (folder.path / "kept").write_text("3")
    (folder.path / "half done").write_text("4")
    folder.let_go()
    folder.open(packs)

    assert contents(folder.path) == then
    assert (folder.path / "build" / "cache").exists()  # of the same folder


def test_a_folder_that_nobody_let_go_of_is_left_to_whatever_still_writes_there(
    tmp_path: Path,
) -> None:
    work = checkout(tmp_path)
    folder = folder_on(tmp_path / "a", work)
    folder.open()
    old = os.open(folder.path, os.O_RDONLY)
    try:
        folder.open()
        with pytest.raises(FileNotFoundError):
            os.open("late", os.O_WRONLY | os.O_CREAT, dir_fd=old)
    finally:
        os.close(old)

    assert contents(folder.path) == contents(work)


def test_who_comes_late_neither_keeps_nor_marks_what_is_another_ones_by_now(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    late, now = folder_on(tmp_path / "a", work), folder_on(tmp_path / "a", work)
    late.open()
    now.open()
    (now.path / "made").write_text("1")
    with pytest.raises(WorldTrouble, match="by another process"):
        late.keep(late.tree)
    late.let_go()
    late.remove()

    assert (now.path / "made").exists()
    assert now.keep(now.tree) is not None


def test_more_than_can_be_kept_at_once_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midstream.system.run_folder.MAX_PACK_BYTES", 100_000)
    folder = folder_on(tmp_path / "a", checkout(tmp_path))
    folder.open()
    (folder.path / "large").write_bytes(random.Random(1).randbytes(200_000))
    with pytest.raises(WorldTrouble, match="have git ignore it"):
        folder.keep(folder.tree)
    (folder.path / "large").unlink()

    assert folder.keep(folder.tree) is None


def test_secrets_and_repositories_inside_are_left_out_and_named(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    folder = folder_on(tmp_path / "a", work, b"hush-hush-hush")
    folder.open()
    (folder.path / ".env").write_text("TOKEN=1")
    (folder.path / "README.md").write_text("the key is hush-hush-hush")
    (folder.path / "fine").write_text("fine")
    for name in ("inner", "unborn"):
        (folder.path / name).mkdir()
        git(folder.path / name, "init", "--quiet")
        (folder.path / name / "file").write_text(name)
    git(folder.path / "inner", "add", "--all")
    git(folder.path / "inner", "commit", "--quiet", "--message", "x")
    keep = folder.keep(folder.tree)
    there = folder_on(tmp_path / "b", work)

    assert keep is not None
    assert {".env", "README.md", "inner"} <= set(keep.left_out)
    there.open([keep.encoded()])
    assert contents(there.path) == {**contents(work), "fine": contents(folder.path)["fine"]}


def test_nothing_the_run_writes_into_its_git_folder_counts(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    folder = folder_on(tmp_path / "a", work)
    folder.open()
    traces = tmp_path / "started"
    hook = folder.path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    for name in ("pre-commit", "post-checkout", "reference-transaction", "pre-push"):
        (hook.parent / name).write_text(f"#!/bin/sh\ntouch {traces}\n")
        (hook.parent / name).chmod(0o755)
    git(folder.path, "config", "filter.evil.clean", f"touch {traces}; cat")
    git(folder.path, "config", "core.fsmonitor", f"touch {traces}")
    (folder.path / ".git" / "info").mkdir(exist_ok=True)
    (folder.path / ".git" / "info" / "exclude").write_text("*\n")
    (folder.path / "src" / "more.py").write_text("more\n")
    keep = folder.keep(folder.tree)

    assert keep is not None
    folder.push(folder.commit_of(keep.tree, "More", 1_000_000_000.0), "result")
    assert git(work, "ls-remote", "origin", "result")
    assert not traces.exists()


def test_a_result_is_one_commit_and_a_branch_that_went_elsewhere_is_left_alone(
    tmp_path: Path,
) -> None:
    work = checkout(tmp_path)
    folder = folder_on(tmp_path / "a", work)
    folder.open()
    (folder.path / "more").write_text("more\n")
    keep = folder.keep(folder.tree)
    assert keep is not None
    commit = folder.commit_of(keep.tree, "More\n\nOf it.", 1_000_000_000.0)

    assert commit == folder.commit_of(keep.tree, "More\n\nOf it.", 1_000_000_000.0)
    folder.push(commit, "result")
    folder.push(commit, "result")  # again after a crash
    git(work, "fetch", "--quiet", "origin")
    assert git(work, "rev-list", "origin/main..origin/result") == commit
    git(work, "commit", "--quiet", "--allow-empty", "--message", "Another")
    git(work, "push", "--quiet", "--force", "origin", "main:result")
    with pytest.raises(WorldTrouble, match="push"):
        folder.push(commit, "result")
    assert git(work, "ls-remote", "origin", "result").split()[0] == head_of(work)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_done_to_files_is_made_anew(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # not for secrets
    work = checkout(tmp_path)
    here = folder_on(tmp_path / "a", work)
    here.open()
    tree, packs = here.tree, list[bytes]()
    for step in range(6):
        for _ in range(chance.randrange(1, 8)):
            change_something(here.path, chance)
        tree, more = kept(here, tree)
        packs += more
        if step in (2, 5):
            there = folder_on(tmp_path / f"machine{step}", work)
            there.open(packs)
            assert contents(there.path) == contents(here.path)
            assert there.tree == tree


NAMES = (
    "a",
    "b",
    "src",
    "src/x",
    "src/deep/y",
    "README.md",
    "ä ö",
    "build/z",
    "d/e/f",
    "windows.txt",
)


def change_something(folder: Path, chance: random.Random) -> None:
    path = folder / chance.choice(NAMES)
    what = chance.choice(("write", "write", "remove", "link", "mode", "move", "append"))
    for above in [*path.relative_to(folder).parents][-2::-1]:
        if (folder / above).is_symlink() or (folder / above).is_file():
            (folder / above).unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    if what in ("write", "link", "remove"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    is_file = path.is_file() and not path.is_symlink()
    if what == "write":
        path.write_bytes(chance.randbytes(chance.choice((0, 3, 5_000))))
    elif what == "link":
        path.symlink_to(chance.choice(("a", "nowhere", "src", "/etc/hostname", "..")))
    elif what == "mode" and is_file:
        path.chmod(chance.choice((0o644, 0o755, 0o700, 0o600)))
    elif what == "append" and is_file:
        path.write_bytes(path.read_bytes() + b"\r\n$Id$\n")
    elif what == "move" and is_file:
        path.rename(folder / f"moved{chance.randrange(3)}")


# --- where they are from --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "url", "ref"),
    [
        ("https://host/a/b.git", "https://host/a/b.git", ""),
        ("https://host:8443/a/b@feature/x", "https://host:8443/a/b", "feature/x"),
        ("ssh://git@host/a.git@v1.2", "ssh://git@host/a.git", "v1.2"),
        ("git@host:a/b.git", "git@host:a/b.git", ""),
        ("git@host:a/b.git@main", "git@host:a/b.git", "main"),
        ("file:///a/b@main", "file:///a/b", "main"),
    ],
)
def test_a_repository_is_named_with_a_branch_or_without(text: str, url: str, ref: str) -> None:
    assert address(text) == Address(url=url, ref=ref)


@pytest.mark.parametrize(
    "text",
    [
        "ext::sh -c date",
        "http://host/a",
        "git://host/a",
        "--upload-pack=date",
        "https://-oProxyCommand=date/a",
        "ssh://-oProxyCommand=date/a",
        "git@-oProxyCommand=date:a",
        "git@host:-a",
        "https://host",
        "https://host/a b",
        "https://host/a\n",
        "https://host/a@--upload-pack=date",
        "https://host/a@x..y",
        "https://host/a#b",
        "https://host/a?b",
        "file://host/a",
        "fd::17/foo",
        "/some/folder",
        "",
    ],
)
def test_what_is_no_repository_is_refused(text: str) -> None:
    with pytest.raises(UserMistake):
        address(text)


@pytest.mark.parametrize(
    "text",
    ["https://ann:hush-hush@host/a", "https://hush-hush@host/a", "ssh://git:hush-hush@host/a"],
)
def test_a_password_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UserMistake, match="password or token") as caught:
        address(text)
    assert "hush" not in str(caught.value)


def test_branches_tags_and_commits_are_found(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    first, url = head_of(work), url_of(work)
    git(work, "tag", "--annotate", "v1", "--message", "One")
    git(work, "commit", "--quiet", "--allow-empty", "--message", "Second")
    git(work, "push", "--quiet", "origin", "main:feature/x", "v1")
    state = tmp_path / "a"

    assert resolved(state, Address(url=url)) == first
    assert resolved(state, Address(url=url, ref="v1")) == first
    assert resolved(state, Address(url=url, ref="feature/x")) == head_of(work)
    assert resolved(state, Address(url=url, ref=first)) == first
    with pytest.raises(UserMistake, match="no branch or tag 'x'"):
        resolved(state, Address(url=url, ref="x"))
    with pytest.raises(UserMistake, match="has no commit 0000"):
        resolved(state, Address(url=url, ref="0" * 40))
    with pytest.raises(WorldTrouble, match="ls-remote"):
        resolved(state, Address(url=f"{url}-not", ref="main"))

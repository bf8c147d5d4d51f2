"""A person's checkout: what a run of it begins with, and the branch with what the run has made."""

import os
from pathlib import Path

import pytest
from support.repositories import checkout, contents, git, head_of, url_of

from midstream.language.errors import UserMistake
from midstream.system.checkout import branch_with, checkout_in, source_named
from midstream.system.repository import fetched
from midstream.system.run_folder import RunFolder

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="a run's folder is made with links and modes"
)


def made_elsewhere(state: Path, work: Path) -> tuple[RunFolder, list[bytes]]:
    """Return the folder of a run on some machine, which has made a file and removed one."""
    url, commit = url_of(work), head_of(work)
    folder = RunFolder(state / "places" / "r1", fetched(state, url, commit), url, commit)
    folder.open()
    (folder.path / "made").write_bytes(b"\r\n\0")
    (folder.path / "made").chmod(0o755)
    (folder.path / "README.md").unlink()
    keep = folder.keep(folder.tree)
    assert keep is not None
    return folder, [keep.encoded()]


def branch_here(work: Path, folder: RunFolder, packs: list[bytes], branch: str = "result") -> str:
    return branch_with(
        checkout_in(work),
        *(folder.url, folder.commit, packs),
        branch=branch,
        words="Tidy the parser",
        at=1_000_000_000.0,
    )


def state_of(work: Path) -> tuple[object, ...]:
    index = (work / ".git" / "index").read_bytes()
    return contents(work), index, git(work, "rev-parse", "HEAD", "--symbolic-full-name", "HEAD")


def test_the_dot_is_the_commit_one_is_on_and_its_remote(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    source = source_named(".", work / "src", tmp_path / "state")

    assert (source.url, source.commit, source.left_out) == (url_of(work), head_of(work), 0)


def test_changes_that_are_not_committed_are_counted(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    (work / "README.md").write_text("more\n")
    (work / "new").write_text("new\n")
    (work / "build").mkdir()
    (work / "build" / "ignored").write_text("x")
    (work / "staged").write_text("s")
    git(work, "add", "staged")

    assert source_named(".", work, tmp_path / "state").left_out == 3


def test_a_commit_that_was_not_pushed_is_refused(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    git(work, "commit", "--quiet", "--allow-empty", "--message", "Mine alone")

    with pytest.raises(UserMistake, match=r"is not on file://.*\n?.*git push"):
        source_named(".", work, tmp_path / "state")


def test_without_a_remote_or_a_checkout_there_is_nothing_to_begin_with(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    git(work, "remote", "remove", "origin")
    with pytest.raises(UserMistake, match="has no remote"):
        source_named(".", work, tmp_path / "state")
    with pytest.raises(UserMistake, match="in no git checkout"):
        source_named(".", tmp_path, tmp_path / "state")


def test_a_password_in_the_remote_is_refused(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    git(work, "remote", "set-url", "origin", "https://ann:hush-hush@host/a")
    with pytest.raises(UserMistake, match="password or token"):
        source_named(".", work, tmp_path / "state")


def test_a_result_is_a_branch_and_nothing_else_changes(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    folder, packs = made_elsewhere(tmp_path / "a", work)
    (work / "mine").write_text("not committed")
    before = state_of(work)
    commit = branch_here(work, folder, packs)

    assert state_of(work) == before
    assert git(work, "rev-parse", "result") == commit
    assert git(work, "rev-list", "HEAD..result") == commit
    assert git(work, "log", "-1", "--format=%s", "result") == "Tidy the parser"
    assert branch_here(work, folder, packs) == commit  # again
    git(work, "stash", "--quiet", "--include-untracked")
    git(work, "checkout", "--quiet", "result")
    assert contents(work) == contents(folder.path)


def test_a_branch_of_somebodys_is_left_alone(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    folder, packs = made_elsewhere(tmp_path / "a", work)
    git(work, "branch", "result")

    with pytest.raises(UserMistake, match="a branch result already"):
        branch_here(work, folder, packs)
    assert git(work, "rev-parse", "result") == head_of(work)
    for name in ("--upload-pack=date", "a..b", "x y", ""):
        with pytest.raises(UserMistake, match="cannot name a branch"):
            branch_here(work, folder, packs, name)


def test_another_checkout_gets_the_commit_it_lacks(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", url_of(work), str(clone))
    git(work, "commit", "--quiet", "--allow-empty", "--message", "Later")
    git(work, "push", "--quiet", "origin", "main")
    folder, packs = made_elsewhere(tmp_path / "a", work)
    commit = branch_here(clone, folder, packs)

    assert git(clone, "rev-parse", "result") == commit
    other = checkout(tmp_path / "other", {"something": "else"})
    with pytest.raises(UserMistake, match="is no checkout of file://"):
        branch_here(other, folder, packs)


def test_nothing_a_checkout_names_is_started(tmp_path: Path) -> None:
    work = checkout(tmp_path)
    folder, packs = made_elsewhere(tmp_path / "a", work)
    traces = tmp_path / "started"
    for name in ("reference-transaction", "post-checkout", "pre-push"):
        (work / ".git" / "hooks").mkdir(exist_ok=True)
        (work / ".git" / "hooks" / name).write_text(f"#!/bin/sh\ntouch {traces}\n")
        (work / ".git" / "hooks" / name).chmod(0o755)
    (work / "src" / "parse.py").write_text("changed\n")
    for key in ("filter.evil.clean", "filter.evil.smudge", "core.fsmonitor"):
        git(work, "config", key, f"touch {traces}; cat")
    traces.unlink(missing_ok=True)
    branch_here(work, folder, packs)
    source_named(".", work, tmp_path / "state")

    assert not traces.exists()

"""Repositories, names and agents that would have a worktree start something or lead elsewhere."""

import os
import stat
from pathlib import Path

import pytest
from worktree_kit import CALC, git, repository

from midstream.language.errors import UserMistake
from midstream.system import worktree
from midstream.system.workspace_paths import locate, worktrees_folder

HOOKS = ("post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change")


def program(folder: Path, marker: Path) -> Path:
    """Return a program that leaves a mark where it was started."""
    path = folder / "evil"
    path.write_text(f"#!/bin/sh\necho started >> {marker}\ncat\n")
    path.chmod(0o755)
    return path


def whole_life(work: Path, run: str) -> Path:
    """Make a worktree, change a file in it, look at what merging comes to, and put it away."""
    path = worktree.opened(work, run, ["coder-1"])
    (path / "calc.py").write_text(CALC.replace("a + b", "b + a"))
    made = worktree.found(run, "coder-1")
    assert made is not None
    merges, _ = worktree.merges(work, made, work)
    assert [(each.name, each.why) for each in merges] == [("calc.py", "")]
    worktree.put_away(work, run)
    return path


def _hooks(work: Path, evil: Path) -> None:
    for name in HOOKS:
        (work / ".git/hooks" / name).write_bytes(evil.read_bytes())
        (work / ".git/hooks" / name).chmod(0o755)


def _hooks_path(work: Path, evil: Path) -> None:
    folder = work.parent / "hooks"
    folder.mkdir()
    for name in HOOKS:
        (folder / name).symlink_to(evil)
    git(work, "config", "core.hooksPath", str(folder))


def _filters(work: Path, evil: Path) -> None:
    for key in ("clean", "smudge", "process"):
        git(work, "config", f"filter.very.evil.{key}", str(evil))
    git(work, "config", "filter.very.evil.required", "true")
    (work / ".git/info/attributes").write_text("* filter=very.evil\n")
    (work / ".gitattributes").write_text("* filter=very.evil merge=evil diff=evil\n")


def _fsmonitor(work: Path, evil: Path) -> None:
    git(work, "config", "core.fsmonitor", str(evil))


def _drivers(work: Path, evil: Path) -> None:
    git(work, "config", "merge.evil.driver", str(evil))
    (work / ".gitattributes").write_text("* merge=evil\n")


def _nested(work: Path, evil: Path) -> None:
    inner = repository(work / "inner")
    git(inner, "config", "core.fsmonitor", str(evil))
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},inner")
    _hooks(inner, evil)


@pytest.mark.parametrize("armed", [_hooks, _hooks_path, _filters, _fsmonitor, _drivers, _nested])
def test_nothing_that_a_repository_names_is_started(tmp_path: Path, armed: object) -> None:
    work, marker = repository(tmp_path / "work"), tmp_path / "marker"
    armed(work, program(tmp_path, marker))  # type: ignore[operator]

    whole_life(work, f"a{armed.__name__.strip('_').replace('_', '')}")  # type: ignore[attr-defined]

    assert not marker.exists()


def test_a_configuration_that_may_start_something_else_is_refused_by_name(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    git(work, "config", "extensions.partialClone", "origin")

    with pytest.raises(UserMistake, match=r"extensions\.partialclone"):
        worktree.opened(work, "strange", ["coder-1"])


@pytest.mark.parametrize("part", ["hooks-link", ".git/worktrees", ".git/refs/heads/midstream"])
def test_a_repository_that_leads_elsewhere_is_refused(tmp_path: Path, part: str) -> None:
    work, outside = repository(tmp_path / "work"), tmp_path / "outside"
    outside.mkdir()
    if part == "hooks-link":
        (work / ".git").rename(tmp_path / "elsewhere")
        (work / ".git").symlink_to(tmp_path / "elsewhere")
    else:
        (work / part).symlink_to(outside)

    with pytest.raises(UserMistake, match="No git worktree can be made here"):
        worktree.opened(work, "elsewhere", ["coder-1"])
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "../../x",
        "/etc/x",
        "a/../b",
        "-rf",
        "x.lock",
        "@{-1}",
        "..",
        "",
        "a" * 90,
        "ä\u202eb",
        "a\0b",
    ],
)
@pytest.mark.parametrize("is_run", [True, False])
def test_names_with_escapes_name_no_worktree(tmp_path: Path, name: str, is_run: bool) -> None:
    work = repository(tmp_path / "work")
    if name == "-rf":
        name = "-rf/."  # a dash alone does no harm behind the folder and the branch it stands in
    with pytest.raises(UserMistake, match="cannot name a worktree"):
        worktree.opened(work, *((name, ["x"]) if is_run else ("r1", [name])))


def test_the_file_git_of_a_worktree_leads_nobody_to_another_repository(tmp_path: Path) -> None:
    work, other, marker = (
        repository(tmp_path / "work"),
        repository(tmp_path / "other"),
        tmp_path / "m",
    )
    git(other, "config", "core.fsmonitor", str(program(tmp_path, marker)))
    path = worktree.opened(work, "led", ["coder-1"])
    (path / ".git").write_text(f"gitdir: {other}/.git\n")
    (path / "calc.py").write_text("led\n")
    before = git(other, "rev-parse", "HEAD")
    made = worktree.found("led", "coder-1")
    assert made is not None

    merges, commit = worktree.merges(work, made, work)
    worktree.put_away(work, "led")

    assert [each.merged for each in merges] == [b"led\n"]
    assert git(work, "cat-file", "-t", commit) == "commit\n"
    assert git(other, "rev-parse", "HEAD") == before
    assert not marker.exists()


def test_links_are_neither_merged_nor_written_through(tmp_path: Path) -> None:
    work, outside = repository(tmp_path / "work"), tmp_path / "outside"
    outside.mkdir()
    (work / "folder").mkdir()
    (work / "folder/a.py").write_text("a\n")
    path = worktree.opened(work, "links", ["coder-1"])
    (path / "folder/a.py").write_text("b\n")
    (path / "out").symlink_to(outside)
    (work / "folder/a.py").unlink()
    (work / "folder").rmdir()
    (work / "folder").symlink_to(outside)
    made = worktree.found("links", "coder-1")
    assert made is not None

    merges, _ = worktree.merges(work, made, work)

    assert {each.name: bool(each.why) for each in merges} == {"folder/a.py": True, "out": True}
    with pytest.raises(UserMistake, match="leads out of the workspace"):
        locate(path, "out/x")
    assert list(outside.iterdir()) == []
    worktree.put_away(work, "links")


def test_worktrees_are_private_and_no_way_to_the_rest_of_our_state(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    one, two = (worktree.opened(work, "private", [name]) for name in ("one-1", "two-2"))
    (worktrees_folder().parent / "trust.json").write_text("{}")

    assert stat.S_IMODE(one.stat().st_mode) == stat.S_IMODE(one.parent.stat().st_mode) == 0o700
    assert locate(one, "calc.py").root == one
    for path in (
        two / "calc.py",
        one.parent / "one-1.json",
        worktrees_folder().parent / "trust.json",
    ):
        with pytest.raises(UserMistake, match="leads out of the workspace"):
            locate(one, str(path))
        with pytest.raises(UserMistake, match="midstream's own"):
            locate(Path(os.path.commonpath([one, worktrees_folder().parent])), str(path))
    worktree.put_away(work, "private")


def test_secrets_git_does_not_know_are_not_taken_along(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    (work / ".env").write_text("KEY=1\n")
    (work / "notes.txt").write_text("notes\n")

    path = worktree.opened(work, "secrets", ["coder-1"])

    assert sorted(each.name for each in path.iterdir()) == [".git", "calc.py", "notes.txt"]
    worktree.put_away(work, "secrets")


def test_line_ends_are_those_of_the_place(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    git(work, "config", "core.autocrlf", "true")
    (work / "calc.py").unlink()
    git(work, "checkout", "-q", "calc.py")
    assert b"\r\n" in (work / "calc.py").read_bytes()
    path = worktree.opened(work, "ends", ["coder-1"])
    text = (path / "calc.py").read_bytes()
    (path / "calc.py").write_bytes(text.replace(b"a + b", b"b + a"))
    made = worktree.found("ends", "coder-1")
    assert made is not None

    ((merge,), _) = worktree.merges(work, made, work)

    assert text == (work / "calc.py").read_bytes()
    assert merge.merged == text.replace(b"a + b", b"b + a")
    worktree.put_away(work, "ends")

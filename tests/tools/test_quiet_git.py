"""git as midstream starts it by itself: what it is given, what it is not, and that there is one way."""

import ast
import subprocess
from pathlib import Path

import pytest

from midstream.safety import quiet_git
from midstream.safety.read_only_commands import prepared
from midstream.system.git import git_output

HOUSE = Path(__file__).parents[2] / "src" / "midstream"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True, capture_output=True)
    return folder


def test_git_that_fails_says_nothing(tmp_path: Path) -> None:
    assert git_output(tmp_path, "no-such-command") is None
    assert git_output(tmp_path / "nowhere", "status") is None


def test_what_the_person_ignores_everywhere_counts_where_it_is_their_git(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f"[core]\n excludesFile = {home}/ignored\n")
    (home / "ignored").write_text("*.mine\n")
    (repository / "a.mine").write_text("")
    monkeypatch.setenv("HOME", str(home))
    asked = ("ls-files", "--others", "--exclude-standard")

    theirs = git_output(repository, *asked)
    ours = git_output(repository, *asked, program=_git())

    assert theirs == b""
    assert ours == b"a.mine\n"


def _git() -> str:
    found = prepared(("git", "status"))
    assert found is not None
    return next(place for place in found.programs if Path(place).is_file())


def test_a_repositorys_filters_do_not_run_where_files_are_listed(repository: Path) -> None:
    sprung = repository / "sprung"
    (repository / ".gitattributes").write_text("* filter=evil\n")
    for name in ("clean", "smudge", "process"):
        command = ("git", "config", f"filter.evil.{name}", f"touch {sprung}")
        subprocess.run(command, cwd=repository, check=True)
    (repository / "a.txt").write_text("x")

    git_output(repository, "ls-files", "-z", "--cached", "--others", "--exclude-standard")

    assert not sprung.exists()


def test_no_variable_of_ours_reaches_git(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_TRACE", "GIT_TRACE2", "GIT_TRACE2_EVENT"):
        monkeypatch.setenv(name, str(tmp_path / "traced"))

    assert git_output(repository, "status", "--short") == b""
    assert not (tmp_path / "traced").exists()


def test_git_is_started_in_one_way() -> None:
    started = {
        path.relative_to(HOUSE).as_posix()
        for path in HOUSE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and any(isinstance(each, ast.Constant) and each.value == "git" for each in node.args)
    }
    known = prepared(("git", "diff"))

    assert started <= {"system/git.py"}
    assert known is not None
    assert known.arguments[: len(quiet_git.OPTIONS)] == quiet_git.OPTIONS
    assert quiet_git.ENVIRONMENT.items() <= known.environment.items()

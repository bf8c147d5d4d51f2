"""Commands that only look by their words, in workspaces made to lead them elsewhere.

Here the file system is asked, as it is right before a command runs. What it does not bear out is no
harmless command any more: it is asked about like every line for a shell.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from midstream.core.safety.commands import read_command
from midstream.core.safety.policy import Policy, judged
from midstream.tool.looking import Start, looking


class Field:
    """A workspace and what lies outside of it."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.outside = folder / "outside"
        for each in (self.work, self.outside):
            each.mkdir()
        (self.work / "a.py").write_text("x = 1\n")
        (self.work / ".env").write_text("KEY=1\n")
        (self.outside / "secret").write_text("s\n")

    def git(self, folder: Path, *arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
        subprocess.run(
            ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, timeout=60
        )

    def look(self, line: str) -> Start | None:
        """Return how a line is started unasked where there is no sandbox, None where it is not."""
        command = read_command(line)
        start = looking(command.argv, self.work)
        if start is None:
            return None
        verdict = judged((command, *start.reads), Policy(mode="auto"))
        return start if verdict.kind == "allow" else None


@pytest.fixture
def field(tmp_path: Path) -> Field:
    return Field(tmp_path)


def link_to_a_file_outside(it: Field) -> None:
    (it.work / "b").symlink_to(it.outside / "secret")


def link_to_a_folder_outside(it: Field) -> None:
    (it.work / "b").symlink_to(it.outside)


def link_to_a_secret(it: Field) -> None:
    (it.work / "b").symlink_to(".env")


def twin_of_a_secret(it: Field) -> None:
    (it.work / "b").hardlink_to(it.work / ".env")


def link_upwards(it: Field) -> None:
    (it.work / "b").symlink_to("..")


def link_to_the_processes(it: Field) -> None:
    (it.work / "b").symlink_to("/proc/self/environ")


def link_to_a_link(it: Field) -> None:
    (it.work / "c").symlink_to(it.outside / "secret")
    (it.work / "b").symlink_to("c")


def link_that_circles(it: Field) -> None:
    (it.work / "b").symlink_to("b")


def pipe(it: Field) -> None:
    os.mkfifo(it.work / "b")


PLACES: dict[Callable[[Field], None], str] = {
    link_to_a_file_outside: "a link to a file outside",
    link_to_a_folder_outside: "a link to a folder outside",
    link_to_a_secret: "a link to a secret file inside",
    twin_of_a_secret: "a secret file's other name",
    link_upwards: "a link to the folder above",
    link_to_the_processes: "a link into /proc",
    link_to_a_link: "a link to a link that leads out",
    link_that_circles: "a link to itself",
    pipe: "a pipe that would be read for ever",
}


@pytest.mark.parametrize("line", ["cat b", "ls b", "rg x b", "grep x a.py b", "head -5 b", "wc b"])
@pytest.mark.parametrize("make", PLACES, ids=lambda make: PLACES[make])
def test_a_path_that_leads_elsewhere_is_not_looked_at(
    field: Field, make: Callable[[Field], None], line: str
) -> None:
    make(field)

    assert field.look(line) is None


@pytest.mark.parametrize("line", ["cat b/secret", "ls b/x", "git diff -- b/secret"])
def test_a_folder_that_leads_out_leads_nowhere(field: Field, line: str) -> None:
    link_to_a_folder_outside(field)

    assert field.look(line) is None


def git_file_elsewhere(it: Field) -> None:
    it.git(it.outside, "init", "-q")
    (it.work / ".git").write_text(f"gitdir: {it.outside}/.git\n")


def git_link_elsewhere(it: Field) -> None:
    it.git(it.outside, "init", "-q")
    (it.work / ".git").symlink_to(it.outside / ".git")


def borrowed_objects(it: Field) -> None:
    it.git(it.work, "init", "-q")
    (it.work / ".git/objects/info/alternates").write_text(f"{it.outside}/.git/objects\n")


def common_folder_elsewhere(it: Field) -> None:
    it.git(it.work, "init", "-q")
    (it.work / ".git/commondir").write_text(f"{it.outside}/.git\n")


def objects_elsewhere(it: Field) -> None:
    it.git(it.work, "init", "-q")
    (it.work / ".git/objects").rename(it.outside / "objects")
    (it.work / ".git/objects").symlink_to(it.outside / "objects")


def settings_elsewhere(it: Field) -> None:
    it.git(it.work, "init", "-q")
    (it.work / ".git/config").rename(it.outside / "config")
    (it.work / ".git/config").symlink_to(it.outside / "config")


def a_filter(it: Field) -> None:
    it.git(it.work, "init", "-q")
    it.git(it.work, "config", "filter.x.clean", "./evil")


def a_work_tree_outside(it: Field) -> None:
    it.git(it.work, "init", "-q")
    it.git(it.work, "config", "core.worktree", str(it.outside))


def broken_settings(it: Field) -> None:
    it.git(it.work, "init", "-q")
    (it.work / ".git/config").write_text("[core\n")


REPOSITORIES: dict[Callable[[Field], None], str] = {
    git_file_elsewhere: "a .git file that names a repository outside",
    git_link_elsewhere: "a .git that is a link to one",
    borrowed_objects: "objects borrowed from a repository outside",
    common_folder_elsewhere: "a common folder outside",
    objects_elsewhere: "objects behind a link",
    settings_elsewhere: "settings behind a link",
    a_filter: "a filter in the settings",
    a_work_tree_outside: "a work tree outside",
    broken_settings: "settings that cannot be read",
}


@pytest.mark.parametrize("line", ["git status", "git log -p -3", "git diff"])
@pytest.mark.parametrize("make", REPOSITORIES, ids=lambda make: REPOSITORIES[make])
def test_a_repository_that_is_not_the_workspaces_own_is_not_looked_at(
    field: Field, make: Callable[[Field], None], line: str
) -> None:
    make(field)

    assert field.look(line) is None


def test_a_plain_file_and_repository_are(field: Field) -> None:
    field.git(field.work, "init", "-q")

    for line in ("cat a.py", "git status", "ls", "git log -3", "rg x ."):
        start = field.look(line)
        assert start is not None, line
        assert start.argv[0].startswith(("/usr/", "/bin/", "/opt/")), line

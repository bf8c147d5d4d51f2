"""Commands that only look by their words, in workspaces made to lead them elsewhere.

Here the file system is asked, as it is right before a command runs. What it does not bear out is no
harmless command any more: it is asked about like every line for a shell.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from deadline import DEADLINE_S
from tables import table
from toolbench import Bench

from midstream.language.errors import UserMistake
from midstream.safety.command_line import read_command
from midstream.safety.policy import Policy, judged
from midstream.safety.read_only_commands import FOLDERS
from midstream.tools.read_only_launch import Start, looking
from midstream.tools.shell import terminal_tool


class Field:
    """A workspace and what lies outside of it."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.outside = folder / "outside"
        self.said = ""
        for each in (self.work, self.outside):
            each.mkdir()
        (self.work / "a.py").write_text("x = 1\n")
        (self.work / ".env").write_text("KEY=1\n")
        (self.outside / "secret").write_text("s\n")

    def git(self, folder: Path, *arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
        subprocess.run(
            ["git", *who, *arguments],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=DEADLINE_S,
        )

    def look(self, line: str, *, is_boxed: bool = False) -> Start | None:
        """Return how a line is started unasked, None where it is not."""
        command = read_command(line)
        try:
            start = looking(command.argv, self.work, is_boxed=is_boxed)
        except UserMistake as error:
            self.said = error.what
            return None
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


@table("line", ["cat b", "ls b", "rg x b", "grep x a.py b", "head -5 b", "wc b"])
@table("make", PLACES, ids=lambda make: PLACES[make])
def test_a_path_that_leads_elsewhere_is_not_looked_at(
    field: Field, make: Callable[[Field], None], line: str
) -> None:
    make(field)

    assert field.look(line) is None


@table("line", ["cat b/secret", "ls b/x", "git diff -- b/secret"])
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


def repository_above(it: Field) -> None:
    it.git(it.work.parent, "init", "-q")


def git_file_above(it: Field) -> None:
    it.git(it.outside, "init", "-q")
    (it.work.parent / ".git").write_text(f"gitdir: {it.outside}/.git\n")


def nothing_but_its_name(it: Field) -> None:
    repository_above(it)
    (it.work / ".git").mkdir()


def led_away(*names: str, folder: bool = True) -> Callable[[Field], None]:
    """Return how to make a repository with a part of it behind a link."""

    def make(it: Field) -> None:
        it.git(it.work, "init", "-q")
        it.git(it.work, "commit", "-q", "--allow-empty", "-m", "x")
        it.git(it.work, "pack-refs", "--all")
        for name in names:
            part = it.work / ".git" / name
            part.parent.mkdir(parents=True, exist_ok=True)
            target = it.outside / name.replace("/", "-")
            if part.exists():
                part.rename(target)
            elif folder:
                target.mkdir()
            else:
                target.touch()
            part.symlink_to(target)

    return make


def a_worktree(it: Field) -> None:
    it.git(it.outside, "init", "-q", "main")
    it.git(it.outside / "main", "commit", "-q", "--allow-empty", "-m", "x")
    it.work.joinpath("a.py").unlink()
    it.work.joinpath(".env").unlink()
    it.git(it.outside / "main", "worktree", "add", "-q", str(it.work))
    (it.work / "a.py").write_text("x = 1\n")


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
    repository_above: "a repository that the workspace is a folder of",
    git_file_above: "a .git file above",
    nothing_but_its_name: "a .git that is none, and a repository above",
    a_worktree: "a work tree of a repository elsewhere",
    led_away("objects/00", "objects/a5", "objects/ff"): "objects, some of them behind links",
    led_away("objects/pack"): "packs behind a link",
    led_away("objects/pack/pack-1.pack", folder=False): "a pack that is a link",
    led_away("objects/e6/9de29bb2d1d6434b8b29ae775ad8c2e48c5391", folder=False): "a linked object",
    led_away("refs/heads"): "branches behind a link",
    led_away("refs/heads/x", folder=False): "a branch that is a link",
    led_away("refs/remotes/origin"): "remote branches behind a link",
    led_away("packed-refs"): "packed branches behind a link",
    led_away("HEAD"): "a HEAD that is a link",
    led_away("index", folder=False): "an index that is a link",
    led_away("logs"): "logs behind a link",
    led_away("info"): "what git is told of files behind a link",
    led_away("worktrees/w"): "a work tree's part behind a link",
    led_away("reftable"): "tables of branches behind a link",
}


START_SOMETHING = {a_filter, a_work_tree_outside, broken_settings}
"""What is wrong there are settings: such a command is judged like every other."""


@table("line", ["git status", "git log -p -3", "git diff --cached"])
@table("is_boxed", [False, True], ids=["no sandbox", "in the sandbox"])
@table("make", REPOSITORIES, ids=lambda make: REPOSITORIES[make])
def test_a_repository_that_is_not_the_workspaces_own_is_not_looked_at(
    field: Field, make: Callable[[Field], None], is_boxed: bool, line: str
) -> None:
    make(field)

    assert field.look(line, is_boxed=is_boxed) is None
    assert ("git was not started: " in field.said) == (make not in START_SOMETHING), field.said


def test_a_workspace_within_a_repository_is_told_where_to_start(field: Field) -> None:
    repository_above(field)
    field.look("git status")
    assert f"a folder of the repository in {field.work.parent}" in field.said

    (field.work.parent / ".git").rename(field.work.parent / "gone")
    field.look("git status")
    assert f"there is no git repository in {field.work}" in field.said


def test_a_plain_file_and_repository_are(field: Field) -> None:
    field.git(field.work, "init", "-q")

    for line in ("cat a.py", "git status", "ls", "git log -3", "git diff --cached"):
        start = field.look(line)
        assert start is not None, line
        assert start.argv[0].startswith(("/usr/", "/bin/", "/opt/")), line


def test_hooks_that_are_links_and_submodules_make_it_no_other(field: Field) -> None:
    field.git(field.work, "init", "-q")
    (field.work / ".git/hooks/pre-commit").symlink_to("../../hook")
    (field.work / ".git/modules/sub/objects").mkdir(parents=True)
    (field.work / ".git/modules/sub/objects/info").symlink_to(field.outside)

    assert field.look("git status") is not None


ALONE = ["rg x .", "rg x", "rg --files", "ls -R", "ls --recursive", "git diff", "git diff HEAD"]


@table("line", ALONE)
def test_what_finds_its_own_way_only_looks_in_the_sandbox(field: Field, line: str) -> None:
    field.git(field.work, "init", "-q")

    assert field.look(line) is None
    if not line.startswith("rg") or shutil.which("rg", path=os.pathsep.join(FOLDERS)):
        assert field.look(line, is_boxed=True) is not None


@table("line", ["git diff --cached", "git diff HEAD~1 HEAD", "git diff a..b", "ls", "cat a.py"])
def test_what_is_told_its_way_looks_without_one(field: Field, line: str) -> None:
    field.git(field.work, "init", "-q")

    assert field.look(line) is not None


async def test_a_line_is_not_run_as_something_else_than_it_was_judged_as(field: Field) -> None:
    tool = terminal_tool()
    assert tool.plan is not None
    (field.work / "b").write_text("plain\n")
    context = Bench(field.work).context
    planned = tool.plan({"command": "cat b"}, context)
    assert judged(planned.requests, Policy(mode="plan")).kind == "allow"

    (field.work / "b").unlink()
    link_to_a_file_outside(field)
    bound = msgspec.structs.replace(context, binds=planned.binds)
    ended = await tool.function({"command": "cat b"}, bound)  # type: ignore[misc]

    assert (ended.outcome, "Call it again" in ended.text) == ("not_run", True)

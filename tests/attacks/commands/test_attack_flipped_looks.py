"""Commands that only look, while another process keeps turning what they look at into a link.

Each is called as a model calls it, in `plan`, over and over: nothing from outside may show up, in the
sandbox or without one, and what is there must still be seen.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deadline import DEADLINE_S
from hypothesis import settings
from tables import table
from toolbench import Bench

from midstream.safety.policy import Policy
from midstream.tools.manager import ToolManager
from midstream.tools.sandbox.sandbox import Sandbox
from midstream.tools.shell import terminal_tool

pytestmark = pytest.mark.raced
CANARY = "canary-77a1"
TURNS = settings().max_examples // 10
FLIPPER = """
import os, sys
inside, outside, turn = sys.argv[1:]
print("up", flush=True)
while True:
    for target in (outside, inside):
        try:
            if os.path.islink(inside) or os.path.isfile(inside):
                (os.link if target == inside else os.symlink)(target, turn + ".new")
                os.replace(turn + ".new", turn)
            elif target == inside:
                os.unlink(turn); os.rename(turn + ".kept", turn)
            else:
                os.rename(turn, turn + ".kept"); os.symlink(target, turn)
        except OSError:
            pass
"""
FILES = ["cat turn", "head -3 turn", "tail -1 turn", "grep -n . turn", "wc turn a.py", "rg . turn"]
FOLDERS = ["ls turn", "ls -la turn", "cat turn/note.txt", "ls -R", "ls -R turn", "rg ."]
GIT = ["git status", "git log -p", "git show", "git diff", "git diff -- turn"]


@contextmanager
def flipping(inside: Path, outside: Path, turn: Path) -> Iterator[None]:
    argv = [sys.executable, "-I", "-S", "-c", FLIPPER, str(inside), str(outside), str(turn)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as flipper:
        assert flipper.stdout is not None
        assert flipper.stdout.readline() == b"up\n"
        try:
            yield
        finally:
            flipper.kill()


@pytest.fixture(params=["in the sandbox", "without one"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    sandbox = Sandbox(tmp_path / "state") if request.param == "in the sandbox" else None
    if sandbox is not None and sandbox.measure().level != "full":
        sandbox = None
    work = tmp_path / "work"
    for folder in (work, tmp_path / "outside"):
        folder.mkdir()
        (folder / "a.py").write_text("x = 1\n")
    (tmp_path / "outside/note.txt").write_text(CANARY)
    (tmp_path / "outside" / CANARY).touch()
    level = "none" if sandbox is None else sandbox.level
    manager = ToolManager(
        [terminal_tool(sandbox)],
        built_in=(),
        policy=lambda: Policy(mode="plan", sandbox=level),
    )
    return Bench(work, manager)


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, timeout=DEADLINE_S)


async def shown(bench: Bench, line: str) -> tuple[str, int]:
    """Return all that a line has shown, and how often it was run to its end."""
    texts, count = [], 0
    for _ in range(TURNS):
        told = await bench.call("execute_terminal", command=line)
        texts.append(told.text)
        count += told.outcome == "completed"
    return "\n".join(texts), count


@table("line", FILES)
async def test_a_file_that_keeps_turning_into_a_link_shows_nothing_of_outside(
    bench: Bench, line: str
) -> None:
    work = bench.context.workspace
    (work / "turn").write_text("inside")
    (work / "kept").write_text("inside")

    with flipping(work / "kept", work.parent / "outside/note.txt", work / "turn"):
        text, _ = await shown(bench, line)

    assert CANARY not in text


@table("line", FOLDERS)
async def test_a_folder_that_keeps_turning_into_a_link_shows_nothing_of_outside(
    bench: Bench, line: str
) -> None:
    work = bench.context.workspace
    (work / "turn").mkdir()
    (work / "turn/note.txt").write_text("inside")

    with flipping(work / "turn", work.parent / "outside", work / "turn"):
        text, _ = await shown(bench, line)

    assert CANARY not in text


@table("line", GIT)
@table("part", [".git", "turn"])
async def test_a_repository_with_a_part_that_keeps_turning_into_a_link_shows_no_other(
    bench: Bench, part: str, line: str
) -> None:
    work = bench.context.workspace
    outside = work.parent / "outside"
    (work / "turn").write_text("inside")
    for folder, text in ((work, "own"), (outside, CANARY)):
        for arguments in (
            ("init", "-q", "-b", "main"),
            ("add", "-A"),
            ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", text),
        ):
            git(folder, *arguments)
    (work / "turn").write_text("changed")
    (work / "kept").write_text("changed")
    led = (work / ".git", outside / ".git", work / ".git")
    if part == "turn":
        led = (work / "kept", outside / "note.txt", work / "turn")

    with flipping(*led):
        text, _ = await shown(bench, line)

    assert CANARY not in text


async def test_what_looks_sees_what_is_there(bench: Bench) -> None:
    work = bench.context.workspace
    (work / "sub").mkdir()
    (work / "sub/b.txt").write_text("one\ntwo\n")
    for name in ("kept", "turn"):
        (work / name).symlink_to("sub/b.txt")
    told = {
        "cat a.py sub/b.txt": "x = 1\none\ntwo\n",
        "cat sub/../a.py": None,
        "head -n 1 sub/b.txt": "one\n",
        "wc -l a.py sub/b.txt": " 1 a.py\n 2 sub/b.txt\n 3 total\n",
        "grep -n two a.py sub/b.txt": "sub/b.txt:2:two\n",
        "cat missing": None,
        "ls sub": "b.txt\n",
        "ls": "a.py\nkept\nsub\nturn\n",
        "pwd": f"{work}\n",
        "cat kept": "one\ntwo\n",
    }
    for line, text in told.items():
        ended = await bench.call("execute_terminal", command=line)
        if text is None:
            assert ended.outcome != "completed", line
        else:
            assert ended.text == f"Exit code: 0\n\n{text}", line
    assert "regular file" in (await bench.call("execute_terminal", command="stat a.py")).text
    assert " a.py" in (await bench.call("execute_terminal", command="ls -l a.py")).text
    missing = await bench.call("execute_terminal", command="cat missing")
    assert "missing: No such file" in missing.text
    assert sorted(os.listdir(work)) == ["a.py", "kept", "sub", "turn"]


async def test_what_looks_changes_nothing(bench: Bench) -> None:
    work = bench.context.workspace
    git(work, "init", "-q")
    before = {path: path.lstat().st_mtime_ns for path in work.rglob("*")}

    for line in ("git status", "git log", "ls", "cat a.py"):
        await bench.call("execute_terminal", command=line)

    assert {path: path.lstat().st_mtime_ns for path in work.rglob("*")} == before

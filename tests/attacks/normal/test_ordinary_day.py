"""An ordinary day with the tools as they are shipped: it passes unasked, or with one ask, and works.

In `auto`, with the sandbox as it was measured on this machine. Where it is not full, every command
that does more than look is asked about once, and the same is true of it then.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tables import table

from midstream.language.names import Json
from midstream.runtime.ports import Review, ToolContext, ToolOutcome
from midstream.safety.capability import SHOWN, PermissionMode
from midstream.safety.policy import Policy
from midstream.tools.manager import ToolManager, built_in_tools
from midstream.tools.sandbox.sandbox import Sandbox

FILES = {
    "src/app.py": "def add(a, b):\n    return a + b\n",
    "tests/test_app.py": "import sys\n\nsys.path.insert(0, 'src')\n\nfrom app import add\n\n\n"
    "def test_add():\n    assert add(1, 2) == 3\n",
    "Makefile": "all:\n\t@echo built > built.txt\n\t@echo made\n",
    "README.md": "# App\n\nAdds.\n",
    "pyproject.toml": "[project]\nname = 'app'\nversion = '1'\n",
    ".gitignore": "build/\n__pycache__/\n",
    "build/out.o": "x",
    "data/größe.txt": "äöü\n",
    "run.sh": "#!/bin/sh\necho ran\n",
}
# Ours is installed here by its source folder, which no sandbox shows.
PYTEST = "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python3 -m pytest -q"
Look = Callable[[Path], bool]


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work: what it says when it went well, and what is true of the folder then.

    `asks`: how often it is asked about in `auto` with a full sandbox; `asks_in_ask`: in `ask`.
    """

    tool: str = "execute_terminal"
    given: dict[str, Json]
    says: str = ""
    holds: Look = lambda _work: True
    asks: int = 0
    asks_in_ask: int = 1


def run(command: str, says: str = "", holds: Look = lambda _work: True) -> Work:
    return Work(given={"command": command}, says=says, holds=holds)


def look(command: str, says: str) -> Work:
    return Work(given={"command": command}, says=says, asks_in_ask=0)


def outside(command: str, says: str) -> Work:
    return Work(given={"command": command, "sandbox": False}, says=says, asks=1)


def read(tool: str, says: str, **given: Json) -> Work:
    return Work(tool=tool, given=given, says=says, asks_in_ask=0)


def write(tool: str, holds: Look, asks: int = 0, **given: Json) -> Work:
    return Work(tool=tool, given=given, holds=holds, asks=asks)


def has(name: str, text: str = "") -> Look:
    return lambda work: text in (work / name).read_text()


def gone(name: str) -> Look:
    return lambda work: not (work / name).exists()


DAY: dict[str, Work] = {
    "see what is there": read("list_directory", "README.md", path="."),
    "read a file": read("read_files", "return a + b", paths=["src/app.py"]),
    "read several, one by lines": read(
        "read_files", "Adds.", paths=["README.md:1-3", "src/app.py"]
    ),
    "search": read("exact_search", "src/app.py", text="def add"),
    "list files": look("ls", "Makefile"),
    "list them at length": look("ls -la src", "app.py"),
    "count lines": look("wc -l src/app.py", "2 src/app.py"),
    "see a file": look("cat README.md", "# App"),
    "find words": look("grep -n add src/app.py", "1:def add"),
    "git status": look("git status", "On branch"),
    "git diff": look("git diff", "+Adds."),
    "git log": look("git log --oneline", "first"),
    "make": run("make", "made", has("built.txt", "built")),
    "run the tests": run(f"{PYTEST} tests", "1 passed"),
    "run one test, the end of its output": run(
        f"{PYTEST} tests/test_app.py -k add 2>&1 | tail -3", "1 passed"
    ),
    "run a line of Python": run("python3 -c 'print(6 * 7)'", "42"),
    "what pip is there": run("python3 -m pip --version", "pip "),
    "compile the code": run("python3 -m compileall -q src && echo fine", "fine"),
    "search with a pipe": run("grep -rn add . --include=*.py | wc -l", ""),
    "find files": run("find . -name '*.py' | sort", "./src/app.py"),
    "run a script": run("sh run.sh", "ran"),
    "make a folder and a file": run(
        "mkdir -p src/new && touch src/new/a.py", "", has("src/new/a.py")
    ),
    "change a file with sed": run("sed -i s/Adds/Sums/ README.md", "", has("README.md", "Sums.")),
    "delete a build folder": run("rm -rf build", "", gone("build")),
    "move a file": run("mv data/größe.txt data/size.txt", "", has("data/size.txt", "ä")),
    "several commands": run("cd src && python3 -c 'import app; print(app.add(2, 3))'", "5"),
    "an archive": run("tar czf /tmp/x.tgz src && tar tzf /tmp/x.tgz", "src/app.py"),
    "keep output in a file": run("python3 -V > version.txt; cat version.txt", "Python 3"),
    "node, where it is": run("node -e 'console.log(1+1)' || echo 2", "2"),
    "work in the background, and wait": run("(sleep 0.05; echo later) & wait", "later"),
    "write a new file": write(
        "write_file", has("docs/new.md", "# New"), path="docs/new.md", content="# New\n"
    ),
    "write a file anew": write(
        "write_file", has("README.md", "# Other"), path="README.md", content="# Other\n"
    ),
    "edit a file": write(
        "edit_file",
        has("src/app.py", "b + a"),
        path="src/app.py",
        edits=[{"old_text": "a + b", "new_text": "b + a"}],
    ),
    "edit the build's settings": write(
        "edit_file",
        has("pyproject.toml", "'2'"),
        path="pyproject.toml",
        edits=[{"old_text": "'1'", "new_text": "'2'"}],
    ),
    "add to what git leaves out": write(
        "write_file", has(".gitignore", "dist/"), path=".gitignore", content="build/\ndist/\n"
    ),
    "a file with a name that is not ASCII": write(
        "write_file", has("data/naïve.txt", "é"), path="data/naïve.txt", content="é\n"
    ),
    "the files that decide what runs in CI": write(
        "write_file",
        has(".github/workflows/ci.yml", "on: push"),
        asks=1,
        path=".github/workflows/ci.yml",
        content="on: push\n",
    ),
    "a commit": outside("git add -A && git commit -q -m second && git log --oneline", "second"),
    "a branch": outside("git checkout -b feature", "feature"),
    "work put aside": outside("git stash && git stash pop", "README.md"),
}


class Day:
    """A project to work in, and the tools."""

    def __init__(self, folder: Path, sandbox: Sandbox, mode: PermissionMode) -> None:
        self.folder = folder
        policy = Policy(mode=mode, sandbox=sandbox.measure().level)
        self.is_full = policy.sandbox == "full"
        self.manager = ToolManager(built_in=built_in_tools(sandbox), policy=lambda: policy)
        self.context = ToolContext(
            workspace=folder, run="r", agent="coder", stop=asyncio.Event(), progress=_unheard
        )

    async def review(self, work: Work) -> Review:
        return await self.manager.review(work.tool, work.given, self.context)

    async def done(self, work: Work, granted: tuple[str, ...] = ()) -> ToolOutcome:
        context = msgspec.structs.replace(self.context, granted=granted)
        return await self.manager.call(work.tool, work.given, context)


def _unheard(_text: str) -> None:
    """Hear nothing."""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return Sandbox(tmp_path_factory.mktemp("own") / "state")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "README.md").write_text("# App\n")
    for words in (
        ("init", "-q", "-b", "main"),
        ("config", "user.email", "ada@example.org"),
        ("config", "user.name", "Ada"),
        ("add", "-A"),
        ("commit", "-q", "-m", "first"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    (folder / "README.md").write_text(FILES["README.md"])
    return folder


@pytest.fixture
def folder(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return shutil.copytree(project, tmp_path / "project")


def test_there_are_many() -> None:
    assert len(DAY) >= 30


@table("what", DAY)
async def test_it_passes_with_at_most_one_ask_and_works(
    sandbox: Sandbox, folder: Path, what: str
) -> None:
    work, day = DAY[what], Day(folder, sandbox, "auto")
    review = await day.review(work)

    asks = len([ask for ask in review.asks if not ask.startswith(SHOWN)])
    if day.is_full or work.tool != "execute_terminal":
        assert (review.kind, min(asks, 1)) == (("allow", 0), ("ask", 1))[work.asks], review.reason
    assert review.kind != "deny", review.reason
    ended = await day.done(work, review.asks)
    assert ended.outcome == "completed", ended.text
    assert work.says in ended.text
    assert work.holds(folder)


@table("what", DAY)
async def test_in_the_mode_ask_looking_is_unasked_and_the_rest_asked_once(
    sandbox: Sandbox, folder: Path, what: str
) -> None:
    work = DAY[what]
    review = await Day(folder, sandbox, "ask").review(work)

    assert review.kind == ("ask" if work.asks_in_ask else "allow"), review.reason

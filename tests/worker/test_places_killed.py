"""A worker is killed in the middle of a run of a repository; one on another machine goes on with its files.
A program that left a run to workers follows it.

The programs, git, PostgreSQL and SIGKILL are real; the machines are folders of state.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from console_kit import changed
from deadline import DEADLINE_S, wait_until
from support.repositories import FILES, checkout, contents, git, head_of

import midstream

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are killed with SIGKILL")

FLOW = {
    "workflow_name": "make",
    "description": "Makes files with tools and commands",
    "states": [
        {
            "name": "start",
            "tool": "write_file",
            "arguments": {"path": "src/new.py", "content": "a\r\nb\n"},
            "next": "more",
        },
        {
            "name": "more",
            "tool": "execute_terminal",
            "arguments": {
                "command": "printf '\\001\\r\\n' > made && chmod +x made && rm README.md && mv windows.txt "
                "moved.txt && ln -s made link && mkdir -p build && touch build/ignored"
            },
            "next": "long",
        },
        {
            "name": "long",
            "tool": "execute_terminal",
            "arguments": {"command": "touch half && sleep 600"},
            "next": "last",
        },
        {
            "name": "last",
            "tool": "write_file",
            "arguments": {"path": "last", "content": "last\n"},
            "next": "stop",
        },
        {"name": "stop"},
    ],
}


LASTING = changed("from midstream.store.postgres import tables", "tables.TTL_S = 30.0")
"""A worker that is not ended where the computer stands still for some seconds."""


class Machines:
    """Machines that share a journal: each keeps its state in a folder of its own."""

    def __init__(self, folder: Path, journal: str) -> None:
        self.folder = folder
        self._journal = journal

    def _environment(self, name: str) -> dict[str, str]:
        home = self.folder / name
        home.mkdir(exist_ok=True)
        kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
        return kept | {
            "HOME": str(home),
            "MIDSTREAM_CONFIG_HOME": str(home / "config"),
            "MIDSTREAM_STATE_HOME": str(home / "state"),
            "MIDSTREAM_JOURNAL": self._journal,
            "MIDSTREAM_HOST": name,
            "MIDSTREAM_MODEL": "offline",
        }

    def said(self, name: str, *arguments: str, at: Path | None = None) -> str:
        """Return what a command said on a machine."""
        ended = subprocess.run(
            [sys.executable, "-m", "midstream", *arguments],
            cwd=at or self.folder,
            env=self._environment(name),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert ended.returncode == 0, ended.stderr + ended.stdout
        return ended.stdout.strip()

    def shown(self, run: str) -> dict[str, Any]:
        """Return what `midstream show` says of a run."""
        shown: dict[str, Any] = json.loads(self.said("client", "show", run, "--json"))
        return shown

    @contextmanager
    def worker(self, name: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Give a worker of a machine."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*LASTING, "worker", "--trust-repositories", "file://*"],
                cwd=self.folder,
                env=self._environment(name),
                stdout=log,
                stderr=log,
            )
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                process.wait(DEADLINE_S)

    def log(self, name: str) -> str:
        """Return what the worker of a machine has said."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    def place(self, name: str, run: str) -> Path:
        """Return the folder of a run on a machine."""
        return self.folder / name / "state" / "places" / run / "project"


@pytest.mark.parametrize("other", ["b", "a"])
def test_a_killed_workers_run_goes_on_with_the_same_bytes(
    tmp_path: Path, database: Callable[[], str], other: str
) -> None:
    flow = {".midstream/workflows/make.json": json.dumps(FLOW)}
    work = checkout(tmp_path, {**FILES, **flow})
    machines = Machines(tmp_path, database())
    with ExitStack() as ending:
        one = ending.enter_context(machines.worker("a"))
        make = ("run", "make", "--repository", ".", "--push", "result", "--trust-workspace")
        allowed = ("--allow", "write_file", "--allow", "execute_terminal")
        run = machines.said("client", *make, *allowed, at=work)
        here = machines.place("a", run)
        wait_until(
            lambda: (here / "half").exists(),
            lambda: f"the long call has begun; {machines.shown(run)}, {machines.log('a')}",
        )
        one.kill()
        one.wait(DEADLINE_S)
        then = contents(here)
        del then["half"]

        ending.enter_context(machines.worker(other))
        there = machines.place(other, run)
        wait_until(lambda: machines.shown(run)["asking"], "it asks what became of the call")
        assert contents(there) == then
        assert not (there / "build").exists()
        branch = machines.said("client", "fetch", run, "--branch", "so-far", at=work)
        assert "so-far" in branch
        git(work, "checkout", "--quiet", "so-far")
        assert contents(work) == then

        machines.said("client", "send", run, "It happened")
        wait_until(lambda: machines.shown(run)["status"] == "finished", "the run ends")
        git(work, "fetch", "--quiet", "origin", "result")
        assert git(work, "rev-list", "main..FETCH_HEAD") == git(work, "rev-parse", "FETCH_HEAD")
        git(work, "checkout", "--quiet", "FETCH_HEAD")
        assert contents(work).keys() == {*then, "last"}
        # The same commit, whoever makes it.
        machines.said("client", "fetch", run, "--branch", "whole", at=work)
        assert git(work, "rev-parse", "whole") == head_of(work)
        assert not there.exists()
        called = machines.said("client", "events", run, "--json").splitlines()
        assert sum('"tool_called"' in line for line in called) == 4


MAKE_AND_ASK = {
    "workflow_name": "make",
    "description": "Makes a file and asks",
    "states": [
        {
            "name": "start",
            "tool": "write_file",
            "arguments": {"path": "made", "content": "made\n"},
            "next": "asks",
        },
        {"name": "asks", "ask": "Is it good?", "next": "stop"},
        {"name": "stop"},
    ],
}


async def test_a_program_leaves_a_run_of_a_repository_to_a_worker_and_follows_it(
    tmp_path: Path, database: Callable[[], str]
) -> None:
    work = checkout(tmp_path, {".midstream/workflows/make.json": json.dumps(MAKE_AND_ASK)})
    journal = database()
    machines = Machines(tmp_path, journal)
    with machines.worker("a"):
        async with midstream.open(work, model="offline", journal=journal, trust=True) as engine:
            run = await engine.start("make", repository=".", allowed=("write_file",))
            await run.settled()
            assert [question.text for question in run.questions] == ["Is it good?"]
            assert (machines.place("a", run.id) / "made").exists()
            await run.say("yes")
            await run.wait()
            assert (run.status, run.is_here) == ("finished", False)
    assert not (work / "made").exists()
    machines.said("client", "fetch", run.id, "--branch", "whole", at=work)
    assert git(work, "show", "whole:made") == "made"

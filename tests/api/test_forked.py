"""A process that was forked from one with an engine, as multiprocessing does on Linux, is not that one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deadline import DEADLINE_S

import midstream
from midstream.testing import ScriptedModel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows forks nothing")

_BEGIN = """
import asyncio, os, signal, sys, traceback
import midstream
from midstream.testing import ScriptedModel, asks, call

folder = sys.argv[1]

def opened(*script, journal=folder + "/journal.db"):
    model = ScriptedModel(*script)
    return midstream.open(folder, model=model, journal=journal, permissions="full")

def forked(work):
    if pid := os.fork():
        return pid
    try:
        work()
    except midstream.MidstreamError as error:
        print(error.what, flush=True)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
"""

_KILLED = """
def paused():
    os.closerange(0, 3)  # who waits for the output of the killed one is not to wait for this
    signal.pause()

async def main():
    async with opened(asks("What is your name?")) as engine:
        run = await engine.start("role:dude", "Hello!", key="chat")
        await run.settled()
        with open(folder + "/left", "w") as file:
            file.write(str(forked(paused)))
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""

_OPENED_TWICE = """
async def use(engine):
    await engine.runs()

async def open_it():
    async with opened():
        pass

with midstream.open_sync(folder, model=ScriptedModel(), journal=":memory:") as sync:
    async def main():
        async with opened() as engine:
            os.waitpid(forked(lambda: asyncio.run(use(engine))), 0)
            os.waitpid(forked(lambda: asyncio.run(open_it())), 0)
            os.waitpid(forked(sync.runs), 0)
        os.waitpid(forked(lambda: asyncio.run(open_it())), 0)

    asyncio.run(main())
"""

_COMMANDS = """
from midstream.system.guard import own_guard

def command(words):
    return call("execute_terminal", command=words)

async def run(*script, told=lambda: None):
    async with opened(*script, journal=":memory:") as engine:
        run = await engine.start("role:dude", "Go!")
        async for event in run.events():
            match event:
                case midstream.ToolProgress() if "begun" in event.text:
                    await asyncio.to_thread(told)
                case midstream.ToolReturned():
                    return print(event.outcome, flush=True)

def will(name):
    own_guard().bequeath(name, ("os", "mkdir", f"{folder}/{name}"))

def in_fork():
    asyncio.run(run(command("echo said")))
    will("its")

waits = "echo begun; until [ -e its ]; do sleep 0.05; done"
will("ours")
asyncio.run(run(command(waits), told=lambda: os.waitpid(forked(in_fork), 0)))
print(os.path.exists(f"{folder}/ours"))
"""


def _done(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _BEGIN + script, str(folder)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


async def test_the_runs_of_one_that_was_killed_go_on_though_what_it_forked_lives(
    tmp_path: Path,
) -> None:
    killed = _done(_KILLED, tmp_path)
    assert killed.returncode == -9, killed.stderr
    left = int((tmp_path / "left").read_text())
    try:
        async with midstream.open(
            tmp_path, model=ScriptedModel("Welcome, Ada."), journal=tmp_path / "journal.db"
        ) as engine:
            run = await engine.take(engine.run_id("chat"))
            await run.say("Ada")
            await run.settled()
            assert run.reply == "Welcome, Ada."
    finally:
        os.kill(left, signal.SIGKILL)


def test_one_that_uses_the_engine_or_opens_its_journal_hears_why_it_cannot(tmp_path: Path) -> None:
    done = _done(_OPENED_TWICE, tmp_path)

    assert done.stdout.splitlines() == [
        "The journal is closed.",
        f"The journal {tmp_path}/journal.db was open in the process that this one was forked from.",
        "The engine is in the process that this one was forked from.",
    ], done.stderr
    assert done.returncode == 0, done.stderr


def test_the_end_of_one_that_ran_a_command_ends_no_command_of_the_other_nor_carries_out_its_wills(
    tmp_path: Path,
) -> None:
    done = _done(_COMMANDS, tmp_path)

    assert done.stdout.splitlines() == ["completed", "completed", "False"], done.stderr

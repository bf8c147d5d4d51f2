"""Who comes late: processes that are stopped, or cut off, for longer than they may live, and then go on.

* A process that nothing watches over has runs; it is stopped, or cut off, others take them, and then it
  tries all it could do as their owner: every try is refused, and no fact is there twice.
* A worker runs tools that write down the time again and again, one in a thread and one a program; it is
  stopped, or cut off: each has written its last before the next worker's begins.

A process is cut off by iptables, in a network namespace of this program's own; where there can be none, by
a proxy that carries nothing. Both servers and workers have this machine's clock.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any, Final, Literal

from deadline import wait_until
from support.model_server import Body, Call, Reply
from support.postgres import PostgresServer
from support.proxy import Proxy
from support.store_contracts import started

from midstream.language.errors import MidstreamError
from midstream.runtime.storage import Mail
from midstream.store.postgres.store import PostgresStore
from midstream.testing.contracts import fact
from torture.machines import HANGS_S, Machines
from torture.report import Broken, Report

How = Literal["stopped", "cut off"]
GROUP: Final = 4242
"""The group of whoever is cut off."""

_IS_ALONE: Final = "MIDSTREAM_TORTURE_ALONE"
_PULSE: Final = '''
import os
import subprocess
import time
from pathlib import Path

import midstream

BEATS = Path({path!r})

@midstream.tool(effect="idempotent", needs_approval=False)
def pulse(job: str) -> str:
    """Write down the time again and again, until there is a file that says stop."""
    BEATS.mkdir(exist_ok=True)
    file, stop = BEATS / job, BEATS / "stop"
    if job.startswith("program"):
        beat = f"while [ ! -e {{stop}} ]; do echo $$ $(date +%s.%N) >> {{file}}; sleep 0.05; done"
        subprocess.run(["/bin/sh", "-c", beat], check=True)
        return "stopped"
    with file.open("a") as beats:
        while not stop.exists():
            beats.write(f"{{os.getpid()}} {{time.time()}}\\n")
            beats.flush()
            time.sleep(0.05)
    return "stopped"
'''


def late_owners(trials: int) -> Report:
    """Return what broke with so many runs of processes that come late, and so many tools of workers."""
    half = trials // 2
    wrong: list[tuple[str, str]] = []
    for how, count in (("stopped", half), ("cut off", trials - half)):
        wrong += _late(how, count)  # type: ignore[arg-type]
        wrong += _tools(how, count)  # type: ignore[arg-type]
    again = f"python -m torture late --trials {trials}"
    by = "iptables" if _is_alone() else "a proxy"
    broken = tuple(Broken(point=point, what=what, again=again) for point, what in wrong)
    note = (
        f"{trials} runs and {trials} tools, cut off by {by}, {len(TRIED)} tries a run;"
        f" {min(GAPS):.1f} to {max(GAPS):.1f} s between a tool and the next one"
    )
    return Report(name="late owners", tried=2 * trials, broken=broken, note=note)


# --- a network of our own ------------------------------------------------------------------------


def move_into_a_network() -> None:
    """Begin anew in a network namespace, if there can be one, where processes can be cut off."""
    if _is_alone() or os.geteuid() != 0 or shutil.which("iptables") is None:
        return
    tried = f"ip link set lo up && {_RULE % '-A'}"
    done = subprocess.run(["unshare", "-n", "sh", "-c", tried], capture_output=True, check=False)
    if done.returncode == 0:
        os.environ[_IS_ALONE] = "1"
        mark = f"iptables -A OUTPUT -m owner --gid-owner {GROUP} -j CONNMARK --set-mark 7"
        script = f'ip link set lo up; {mark}; exec "$@"'
        again = [sys.executable, "-m", "torture", *sys.argv[1:]]
        os.execvp("unshare", ["unshare", "-n", "sh", "-c", script, "sh", *again])


_RULE: Final = "iptables %s OUTPUT -m connmark --mark 7 -j DROP"


def _is_alone() -> bool:
    return _IS_ALONE in os.environ


class Victim:
    """A process that is stopped or cut off, and let go on."""

    def __init__(self, process: "subprocess.Popen[Any]", how: How, proxies: list[Proxy]) -> None:
        self._process = process
        self._how = how
        self._proxies = proxies

    def suffer(self) -> None:
        """Stop it, or cut it off."""
        if self._how == "stopped":
            self._process.send_signal(SIGSTOP)
        elif _is_alone():
            subprocess.run((_RULE % "-A").split(), check=True)
        for proxy in self._proxies if self._how == "cut off" else ():
            proxy.cut()

    def recover(self) -> None:
        """Let it go on."""
        if self._how == "stopped":
            self._process.send_signal(SIGCONT)
        elif _is_alone():
            subprocess.run((_RULE % "-D").split(), check=True)
        for proxy in self._proxies if self._how == "cut off" else ():
            proxy.mend()


# --- what a late process tries ---------------------------------------------------------------------


TRIED: Final[dict[str, Callable[[PostgresStore, str], Coroutine[Any, Any, object]]]] = {
    "an append where it was": lambda store, run: store.append(run, 1, [fact(run, 2, "late")]),
    "an append where it is": lambda store, run: store.append(run, 2, [fact(run, 3, "late")]),
    "an acknowledgement": lambda store, run: store.delivered(run, "m"),
    "a release": lambda store, run: store.release(run, 0.0),
    "a claim": lambda store, run: store.claim(run),
}


async def _be_late(address: str, count: int) -> None:
    """Be the process: have runs, say so, wait for a line, and try everything with each."""
    store = await asyncio.to_thread(PostgresStore.opened, address)
    runs = [f"r{number}" for number in range(count)]
    for run in runs:
        await store.claim(run)
        await store.append(run, 0, started(run))
    print("ready", flush=True)
    sys.stdin.readline()
    for run in runs:
        came: dict[str, str] = {}
        for name, trying in TRIED.items():
            try:
                await trying(store, run)
                came[name] = ""
            except MidstreamError as error:
                came[name] = type(error).__name__
        print(json.dumps(came), flush=True)
    await store.aclose()


def _late(how: How, count: int) -> Iterator[tuple[str, str]]:
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer.made())
        proxy = stack.enter_context(Proxy(server.port))
        address = server.database()
        near = address if _is_alone() else address.replace(f":{server.port}/", f":{proxy.port}/")
        process = subprocess.Popen(
            [sys.executable, "-m", "torture.late_owners", near, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **_in_group(),
        )
        stack.callback(process.kill)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        victim = Victim(process, how, [] if _is_alone() else [proxy])
        victim.suffer()
        asyncio.run(_take_over(address, count))
        victim.recover()
        process.stdin.write("go\n")
        process.stdin.flush()
        came = [json.loads(process.stdout.readline()) for _ in range(count)]
        process.wait()
        yield from asyncio.run(_judged(address, came))


async def _take_over(address: str, count: int) -> None:
    """Go on with the runs once their process is taken for dead, and have a message wait for each."""
    store = await asyncio.to_thread(PostgresStore.opened, address)
    for number in range(count):
        run = f"r{number}"
        while not await _is_claimed(store, run):  # noqa: ASYNC110  # time is waited for
            await asyncio.sleep(0.1)
        await store.append(run, 1, [fact(run, 2)])
        await store.post(Mail(id="m", run=run, at=1.0))
    HOLDERS.append(store)


HOLDERS: Final[list[PostgresStore]] = []
"""Who has the runs by now, for as long as they are judged."""


async def _is_claimed(store: PostgresStore, run: str) -> bool:
    await store.renew()
    try:
        return bool(await store.claim(run))
    except MidstreamError:
        return False


async def _judged(address: str, came: list[dict[str, str]]) -> list[tuple[str, str]]:
    store = HOLDERS.pop()
    wrong: list[tuple[str, str]] = []
    for number, what in enumerate(came):
        run = f"r{number}"
        wrong += [
            (run, f"{name} was not refused: {said or 'done'}")
            for name, said in what.items()
            if (said not in ("JournalMoved", "RunOwned")) == ("append" in name or "claim" in name)
        ]
        if await store.read(run) != [*started(run), fact(run, 2)]:
            wrong.append((run, "its facts are others"))
        if [mail.id for mail in await store.undelivered(run)] != ["m"]:
            wrong.append((run, "its message is gone"))
        if await store.owner_of(run) != store.me:
            wrong.append((run, "it was let go of"))
    await store.aclose()
    return wrong


def _in_group() -> dict[str, Any]:
    return {"group": GROUP, "extra_groups": []} if _is_alone() else {}


# --- what its tools do ------------------------------------------------------------------------------


def _think(body: Body) -> Reply:
    if any(each["role"] == "tool" for each in body["messages"]):
        return Reply(text="Done.")
    first = next(str(each["content"]) for each in body["messages"] if each["role"] == "user")
    return Reply(calls=(Call(name="pulse", arguments={"job": first.split()[0]}),))


def _tools(how: How, count: int) -> Iterator[tuple[str, str]]:
    folder = Path(tempfile.mkdtemp())
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        machines = Machines(folder, stack, _think, tools=(("pulse",), _PULSE))
        first = machines.begin(is_cuttable=not _is_alone(), **_in_group())
        kinds = ("program", "thread")
        jobs = [f"{kinds[number % 2]}{number}" for number in range(count)]
        for job in jobs:
            machines.run(f"{job} go")

        def beats(job: str) -> dict[str, list[float]]:
            found: dict[str, list[float]] = defaultdict(list)
            file = machines.ledger / job
            for line in file.read_text("utf-8").splitlines() if file.exists() else ():
                who, _, at = line.partition(" ")
                found[who].append(float(at))
            return found

        wait_until(lambda: all(map(beats, jobs)), "every tool runs")
        victim = Victim(first, how, [] if _is_alone() else machines.proxies)
        victim.suffer()
        other = machines.begin()
        began = time.monotonic()
        while waiting := [job for job in jobs if len(beats(job)) < 2]:
            if time.monotonic() > began + HANGS_S:
                yield from ((job, f"{how}: it does not go on elsewhere") for job in waiting)
                return
            if other.poll() is not None:
                other = machines.begin()  # it could not say in time that it lives
            time.sleep(0.1)
        time.sleep(1.0)  # what was left behind would write beside the other
        if first.poll() is None:
            victim.recover()
            time.sleep(3.0)
        elif how == "cut off":
            victim.recover()
        for job in jobs:
            for before, after in pairwise(beats(job).values()):
                GAPS.append(min(after) - max(before))
                if GAPS[-1] <= 0:
                    yield job, f"{how}: it ran {-GAPS[-1]:.2f} s beside the next one"
        (machines.ledger / "stop").touch()


GAPS: Final[list[float]] = []
"""Seconds from the last that a tool wrote to the first that the next one wrote."""

if __name__ == "__main__":
    asyncio.run(_be_late(sys.argv[1], int(sys.argv[2])))

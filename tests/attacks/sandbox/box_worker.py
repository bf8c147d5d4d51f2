"""Runs commands in the sandbox as another user: started by the tests, one JSON object a line.

A command is out of time once it has said the word `late_at`; `grace_s` is how long it may take to end.
`box_worker.py UID FOLDER` gives up its rights first, once everything is imported and read: another user
may not be able to read where Python and this checkout live. In FOLDER it has a home, a state, a workspace
and an outside.
"""

import asyncio
import encodings.ascii
import encodings.idna
import encodings.latin_1
import json
import os
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from midstream.system import supervisor
from midstream.system.programs import command_environment
from midstream.system.supervisor import run_command
from midstream.tools.sandbox import bwrap, inside_probes, launch, rlimits
from midstream.tools.sandbox import probes as measuring
from midstream.tools.sandbox.launch import Inside
from midstream.tools.sandbox.proxy import proxy_to
from midstream.tools.sandbox.sandbox import Sandbox
from midstream.tools.shell import Output, as_told

IMPORTED = (
    inside_probes,
    launch,
    rlimits,
    measuring,
    encodings.ascii,
    encodings.idna,
    encodings.latin_1,
)


HANGS_S = 300.0
"""No command takes that long, on no machine."""


class Ahead:
    """The clock of the commands: put forward, it has them out of time."""

    by_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.by_s


async def ran(sandbox: Sandbox, asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return how one command ended."""
    ahead = Ahead()

    def hear(text: str) -> None:
        if asked.get("late_at", "\0") in text:
            ahead.by_s = HANGS_S

    output = Output(hear)
    vars(supervisor).update(time=ahead, GRACE_S=asked.get("grace_s", HANGS_S))
    workspace = folder / asked.get("workspace", "workspace")
    stop = asyncio.Event()

    hosts = asked.get("hosts", [])
    async with (
        asyncio.timeout(2 * HANGS_S),
        proxy_to(hosts) if hosts else nullcontext() as proxy,
    ):
        try:
            ended = await run_command(
                asked["argv"],
                folder=workspace,
                environment=command_environment(os.environ),
                timeout_s=HANGS_S,
                stop=stop,
                sink=output,
                box=partial(
                    sandbox.wrapped,
                    Inside(
                        workspace=workspace,
                        network=asked.get("network", False),
                        proxy=proxy,
                        guarded=sandbox.guarded(workspace).without(asked.get("changed", ())),
                    ),
                ),
            )
        except OSError as error:
            return {"error": str(error)}
    ended = as_told(ended)
    return {
        "exit_code": ended.exit_code,
        "cause": ended.cause,
        "survivors": len(ended.survivors),
        "text": output.text(),
        "refused": {} if proxy is None else proxy.refused,
    }


def main() -> None:
    """Answer each line with one."""
    uid, folder = int(sys.argv[1]), Path(sys.argv[2])
    if uid != os.getuid():
        probes = measuring._inside_source()
        measuring._inside_source = lambda: probes
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    os.environ["HOME"] = str(folder / "home")
    vars(measuring).update(_PROBE_S=HANGS_S, _ENDING_S=HANGS_S)
    vars(launch).update(BEGIN_S=HANGS_S)
    sandbox = Sandbox(folder / "state")
    result = sandbox.measure(again=True)
    said = partial(print, flush=True)
    said(json.dumps({"level": result.level, "why": result.why, "python": bwrap.interpreter()}))
    for line in sys.stdin:
        said(json.dumps(asyncio.run(ran(sandbox, json.loads(line), folder))))


if __name__ == "__main__":
    main()

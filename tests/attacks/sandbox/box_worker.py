"""Runs commands in the sandbox as another user: started by the tests, one JSON object a line.

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
from functools import partial
from pathlib import Path
from typing import Any

from midstream.tool.process import run_command
from midstream.tool.sandbox import inside, launch, limits, measuring
from midstream.tool.sandbox.sandbox import Sandbox
from midstream.tool.shell import Output, as_told, command_environment

IMPORTED = (inside, launch, limits, measuring, encodings.ascii, encodings.idna, encodings.latin_1)


def quiet(text: str) -> None:
    """Take progress and drop it."""


async def ran(sandbox: Sandbox, asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return how one command ended."""
    output = Output(quiet)
    workspace = folder / asked.get("workspace", "workspace")
    stop = asyncio.Event()

    async with asyncio.timeout(asked.get("timeout_s", 20) + 20):
        try:
            ended = await run_command(
                asked["argv"],
                folder=workspace,
                environment=command_environment(os.environ),
                timeout_s=asked.get("timeout_s", 20),
                stop=stop,
                sink=output,
                box=lambda argv, environment, tag: sandbox.wrapped(
                    argv,
                    workspace=workspace,
                    environment=environment,
                    tag=tag,
                    network=asked.get("network", False),
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
    sandbox = Sandbox(folder / "state")
    result = sandbox.measure(again=True)
    said = partial(print, flush=True)
    said(json.dumps({"level": result.level, "why": result.why, "python": measuring.interpreter()}))
    for line in sys.stdin:
        said(json.dumps(asyncio.run(ran(sandbox, json.loads(line), folder))))


if __name__ == "__main__":
    main()

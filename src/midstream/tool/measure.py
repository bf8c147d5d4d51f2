"""measure_code: the figures of the workspace's code, measured in a child process."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec

from midstream.core.errors import WorldTrouble
from midstream.core.names import Json
from midstream.core.spec import ToolSpec
from midstream.ports import ToolContext
from midstream.tool.base import Tool, parameters_of, typed
from midstream.tool.process import run_command

TIMEOUT_S = 120.0
MAX_ERROR = 300
MAX_OUTPUT_BYTES = 1_000_000


class MeasureCode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of measure_code."""

    commits: Annotated[
        int, msgspec.Meta(ge=1, le=2_000, description="How many commits of history to look at.")
    ] = 200
    top: Annotated[
        int, msgspec.Meta(ge=1, le=50, description="How many entries each list holds.")
    ] = 10


_INHERITED = (
    *("PATH", "HOME", "USER", "LANG", "TMPDIR", "XDG_CONFIG_HOME"),
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH"),
)
"""What the measuring gets of our environment: no keys, since git is started from there."""


async def measured(
    root: Path, *, commits: int = 200, top: int = 10, stop: asyncio.Event | None = None
) -> str:
    """Return the figures of a folder as JSON text (the fields of `measurement.Measurement`).

    Setting `stop`, or cancelling, ends the measuring and everything it started.

    Raises:
        WorldTrouble: the measuring process could not be started, was ended or failed.
    """
    out = _Output()
    # -P: a module of the folder midstream was started in is never what runs.
    command = [sys.executable, "-P", "-W", "ignore", "-m", "midstream.tool.measurement"]
    try:
        ended = await run_command(
            [*command, str(root), str(commits), str(top)],
            folder=root,
            environment={name: os.environ[name] for name in _INHERITED if name in os.environ},
            timeout_s=TIMEOUT_S,
            stop=stop or asyncio.Event(),
            sink=out,
        )
    except OSError as error:
        raise WorldTrouble(f"Measuring could not be started: {error}.") from error
    text = out.data.decode(errors="replace")
    if ended.exit_code != 0 or ended.cause:
        last = text.strip().rpartition("\n")[2][:MAX_ERROR]
        raise WorldTrouble(f"Measuring ended with code {ended.exit_code}: {last}")
    return text


class _Output:
    """What the measuring prints, kept whole up to a limit it never reaches by itself."""

    def __init__(self) -> None:
        self.data = b""

    def feed(self, data: bytes) -> bool:
        self.data += data
        return len(self.data) <= MAX_OUTPUT_BYTES

    def tick(self) -> float | None:
        return None


async def _measure_code(arguments: dict[str, Json], context: ToolContext) -> str:
    wanted = typed(arguments, MeasureCode)
    return await measured(
        context.workspace, commits=wanted.commits, top=wanted.top, stop=context.stop
    )


TOOLS: tuple[Tool, ...] = (
    Tool(
        spec=ToolSpec(
            name="measure_code",
            description=(
                "Measure the code of the workspace. Returns JSON: totals, languages, largest files, "
                "most complex functions, Python imports and cycles, and from git history the most "
                "changed files and the ranking of changes times complexity. Reads only."
            ),
            parameters=parameters_of(MeasureCode),
            effect="read",
            timeout_s=TIMEOUT_S,
        ),
        function=_measure_code,
    ),
)

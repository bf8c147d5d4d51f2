"""A person's own command for their status line: a JSON object in, a line out, sandboxed, not for long."""

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from midstream.language.errors import WorldTrouble
from midstream.language.names import Json
from midstream.safety.decoding import clean
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import in_thread
from midstream.system.programs import command_environment
from midstream.system.supervisor import Kept, run_command
from midstream.tools.hooks import as_file

if TYPE_CHECKING:
    from midstream.tools.sandbox.sandbox import Sandbox

TIMEOUT_S: Final = 2.0
_MAX_BYTES: Final = 10_000
_HINT: Final = "/config statusLine.command changes it."


class StatusCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command. `sandbox` None: it runs outside of it, as its person's own settings say.

    `readable` are folders it may read there besides the workspace.
    """

    command: str
    workspace: Path
    sandbox: "Sandbox | None"
    timeout_s: float = TIMEOUT_S
    readable: tuple[Path, ...] = ()

    async def run(self, told: Mapping[str, Json]) -> str:
        """Return the first line it prints, sanitized. It reads `told`; one that is slow is killed.

        Raises:
            WorldTrouble: it could not be started, took too long, or failed.
        """
        given = await in_thread(partial(as_file, told))
        output = Kept(_MAX_BYTES)
        from midstream.tools.sandbox.launch import Inside  # not before the first prompt

        inside = Inside(workspace=self.workspace, stdin=given.fileno(), readable=self.readable)
        try:
            ended = await run_command(
                ["/bin/sh", "-c", self.command],
                folder=self.workspace,
                environment=command_environment(os.environ),
                timeout_s=self.timeout_s,
                stop=asyncio.Event(),
                sink=output,
                box=None if self.sandbox is None else partial(self.sandbox.wrapped, inside),
                stdin=given.fileno(),
            )
        except OSError as error:
            raise WorldTrouble(f"it could not be started: {error}.", hint=_HINT) from None
        finally:
            given.close()
        if ended.cause == "timed_out":
            raise WorldTrouble(f"it said nothing within {self.timeout_s:g} s.", hint=_HINT)
        text = clean(bytes(output.data).decode("utf-8", "replace")).strip()
        if ended.exit_code != 0:
            raise WorldTrouble(f"it ended with exit code {ended.exit_code}.", hint=_HINT)
        return sanitized(text.partition("\n")[0])

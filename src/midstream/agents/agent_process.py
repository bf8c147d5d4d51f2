"""The program of an external agent: how much it may say, and its end, whatever it does."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from midstream.system.offloop import Timeout, in_thread
from midstream.system.piped_child import PipedChild
from midstream.system.supervisor import PIPED, Child

MAX_TURN_BYTES: Final = 64_000_000
MAX_TURN_MESSAGES: Final = 1_000_000
"""Of one turn, whatever they mean."""
MAX_UNREAD_BYTES: Final = 16_000_000
"""Of what we have said and the agent has not read."""
_GENTLE_S: Final = 2.5
"""How long a program may take to end once nobody speaks to it: those measured took 0.02 to 2.03 s."""


class AgentProcess(PipedChild):
    """A running program: what `json_rpc.Peer` reads from and writes to. Use `start`, and always `end`."""

    _turn_bytes = _turn_messages = 0
    broke = ""
    """How it went beyond a limit, "" where it did not."""

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, folder: Path, environment: Mapping[str, str]
    ) -> "AgentProcess":
        """Return the started program.

        Raises:
            OSError, ValueError: it could not be started.
        """
        return await cls.connected(
            partial(
                Child,
                argv,
                folder=folder,
                environment=environment,
                stdin=PIPED,
                stderr=PIPED,
            )
        )

    # --- its messages -----------------------------------------------------------------------------

    def begin_turn(self) -> None:
        """Count what it says anew."""
        self._turn_bytes = self._turn_messages = 0

    async def read(self, n: int = -1, /) -> bytes:
        """Return the next bytes of its stdout, none when it has closed it, or has said too much."""
        data = await self._out.read(n)
        self._turn_bytes += len(data)
        self._turn_messages += data.count(b"\n")
        if self._turn_bytes > MAX_TURN_BYTES:
            self.broke = f"it sent over {MAX_TURN_BYTES:,} bytes in one turn"
        elif self._turn_messages > MAX_TURN_MESSAGES:
            self.broke = f"it sent over {MAX_TURN_MESSAGES:,} messages in one turn"
        return b"" if self.broke else data

    def write(self, data: bytes, /) -> None:
        """Take bytes for its stdin.

        Raises:
            OSError: it does not read what it is told.
        """
        if self._in.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            self.broke = "it does not read what it is told"
            raise BrokenPipeError(self.broke)
        if self._in.transport.is_closing():
            raise BrokenPipeError
        self._in.write(data)

    async def drain(self) -> None:
        """Return when there is room for more.

        Raises:
            OSError: it does not take any more.
        """
        await self._in.drain()

    # --- its end ----------------------------------------------------------------------------------

    @property
    def exit_code(self) -> int:
        """Return how it ended, once it was ended: negative when a signal did it."""
        return self.child.exit_code

    async def end(self, *, at_once: bool = True) -> None:
        """End it and everything it started: killed, or first given a while to end by itself.

        Cancelled, it is ended all the same.
        """
        self.hang_up()
        try:
            if not at_once:
                await in_thread(self._given_a_while, name="midstream-end")
        finally:
            await self._end()

    def _given_a_while(self) -> None:
        timeout = Timeout(_GENTLE_S)
        while not self.child.has_exited and (wait_s := timeout.wait_s()):
            self.child.wait(wait_s)

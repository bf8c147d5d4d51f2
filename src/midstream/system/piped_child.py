"""A child process that is conversed with: its pipes as streams of the loop, heard with limits.

What it writes to stderr is kept for the last few lines alone, and read no faster than a person could
use it: who floods it waits.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import IO, Final, TypeVar

from midstream.safety.redaction import MARGIN, ending
from midstream.system.offloop import in_thread
from midstream.system.supervisor import Child, start_child

KEPT_WORDS: Final = 4_000
"""Characters of stderr that are told."""

CHUNK: Final = 65_536
_SLOW_S: Final = 0.05

P = TypeVar("P", bound="PipedChild")


class PipedChild:
    """A running program, all of whose streams are pipes. Use `connected`, and always `end`."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self._stderr = bytearray()
        self._heard: list[asyncio.ReadTransport] = []
        self._into: asyncio.WriteTransport | None = None

    @classmethod
    async def connected(cls: type[P], start: Callable[[], Child]) -> P:
        """Return the program that `start` starts, in a thread. Raises whatever that raises."""
        started = cls(await start_child(start))
        try:
            await started._connect()
        except BaseException:
            await started._end()
            raise
        return started

    async def _connect(self) -> None:
        loop, process = asyncio.get_running_loop(), self.child.process
        self._out = await self._reader(process.stdout)
        self._err = await self._reader(process.stderr)
        self._into, flow = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), process.stdin
        )
        self._in = asyncio.StreamWriter(self._into, flow, None, loop)

    async def _reader(self, pipe: IO[bytes] | None) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=CHUNK)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._heard.append(transport)
        return reader

    async def keep_last_words(self) -> None:
        """Read its stderr until it closes it, at a person's speed, and keep the end of it."""
        while data := await self._err.read(CHUNK):
            self._stderr += data
            del self._stderr[: -4 * (KEPT_WORDS + MARGIN)]  # no character has more bytes
            await asyncio.sleep(_SLOW_S)

    def last_words(self, redacted: Callable[[str], str]) -> str:
        """Return the end of what it wrote to stderr, its secrets redacted before it is cut."""
        return ending(self._stderr.decode(errors="replace"), KEPT_WORDS, redacted).strip()

    def hang_up(self) -> None:
        """Close its stdin, whatever waits to be written there."""
        if self._into is not None and not self._into.is_closing():
            self._into.abort()

    async def _end(self, *, in_s: float = 0.0, grace_s: float = 0.0) -> None:
        """End it and everything it started; the times are those of `Child.end`."""
        self.hang_up()
        for transport in self._heard:
            transport.close()
        end = partial(self.child.end, in_s=in_s, grace_s=grace_s)
        await in_thread(end, name="midstream-end")

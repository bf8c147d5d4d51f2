"""A TCP proxy between a program and a server, which can be cut: it stays connected and carries nothing."""

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """Carries bytes to a port of 127.0.0.1, in a thread of its own. `cut` and `mend` from any thread."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._is_ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._carries: asyncio.Event
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def cut(self) -> None:
        """Carry nothing from now on: neither side hears that the other is gone."""
        self._loop.call_soon_threadsafe(self._carries.clear)

    def mend(self) -> None:
        """Carry again, and what was held back first."""
        self._loop.call_soon_threadsafe(self._carries.set)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._loop.close()

    async def _listen(self) -> None:
        self._carries, self._ended = asyncio.Event(), asyncio.Event()
        self._carries.set()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        await self._ended.wait()
        server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        both = (self._carry(reader, there[1]), self._carry(there[0], writer))
        tasks = [asyncio.ensure_future(each) for each in both]
        self._tasks.update(tasks)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for end in (writer, there[1]):
            end.close()
        self._tasks.difference_update(tasks)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                await self._carries.wait()
                writer.write(data)
                await writer.drain()

"""How a worker is, for whoever operates it: `/healthz`, `/readyz` and `/metrics` on an address of its own.

Nothing of a run is told here but numbers. An answer alone says that the loop turns.
"""

import asyncio
import contextlib
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import h11

from midstream.core.notices import Envelope
from midstream.language.errors import UserMistake
from midstream.runtime.ports import Journal
from midstream.system.offloop import cancel_all

Answer: TypeAlias = tuple[int, str]

BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""The upper bounds of the buckets of the histogram, in seconds."""

_MAX_HEAD: Final = 8_192
_PATIENCE_S: Final = 5.0
_CONNECTIONS: Final = 64


def address_of(text: str) -> tuple[str, int]:
    """Return the host and port of `HOST:PORT`; the host may be left out, and is then this machine.

    Raises:
        UserMistake: it is none.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise UserMistake(f"{text!r} is no address.", hint="Write one such as 127.0.0.1:8378.")
    return host.strip("[]") or "127.0.0.1", int(port)


@contextlib.asynccontextmanager
async def answering(
    host: str, port: int, pages: Mapping[str, Callable[[], Answer]]
) -> AsyncIterator[str]:
    """Answer GET requests for some pages while the block runs; give the address.

    Raises:
        UserMistake: nothing can listen there.
    """
    open_now: set[asyncio.Task[None]] = set()

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(open_now) < _CONNECTIONS:
            open_now.add(task)
            with contextlib.suppress(OSError, TimeoutError, h11.RemoteProtocolError):
                async with asyncio.timeout(_PATIENCE_S):
                    await _answered(reader, writer, pages)
            open_now.discard(task)
        writer.transport.abort()

    try:
        server = await asyncio.start_server(attend, host, port)
    except OSError as error:
        raise UserMistake(
            f"Nothing can listen at {host}:{port}: {error.strerror or error}.",
            hint="Name another address with --health.",
        ) from None
    try:
        yield f"{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await cancel_all(*open_now)


async def _answered(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    pages: Mapping[str, Callable[[], Answer]],
) -> None:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(4096))
    if not isinstance(event, h11.Request):
        return
    page = pages.get(event.target.decode("ascii", "replace").partition("?")[0])
    if event.method not in (b"GET", b"HEAD"):
        status, text = 405, "Only GET is answered here.\n"
    elif page is None:
        status, text = 404, f"There are {', '.join(pages)}.\n"
    else:
        status, text = page()
    body = text.encode()
    head = h11.Response(
        status_code=status,
        headers=[
            ("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ],
    )
    for each in (head, h11.Data(data=body), h11.EndOfMessage()):
        if data := connection.send(each):
            writer.write(data)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


# --- what is counted, as Prometheus reads it ----------------------------------------------------


class TimedJournal:
    """A journal whose appends are timed. See the port `Journal`."""

    def __init__(self, journal: Journal, times: "Histogram") -> None:
        self._journal = journal
        self._times = times

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Append, and count how long it took."""
        began = time.monotonic()
        await self._journal.append(run, expected, facts)
        self._times.add(time.monotonic() - began)

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        """Read."""
        return await self._journal.read(run, after, upto)


class Histogram:
    """How often something took how long."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str) -> Iterator[str]:
        """Yield it as text."""
        yield f"# TYPE {name} histogram"
        total = 0
        for bound, count in zip((*BOUNDS_S, None), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{"+Inf" if bound is None else bound}"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"

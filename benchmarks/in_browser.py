"""The console in a browser: from Enter on a page to a run of another process; and fifty pages that watch.

The words go by HTTP to a server that follows the run, and from there as from any other process: the floor
is that way alone, from this process. Fifty pages watch twenty runs that stream, each of them four; the
floor of what that costs is the same server with nobody watching.
"""

import asyncio
import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

import midstream
from benchmarks.durable_transitions import stores
from benchmarks.measuring import Figure, percentile
from benchmarks.send_latency import WORDS, Owner, owner, sent
from midstream.server.access import Access
from midstream.server.host import Door, served
from midstream.testing import ScriptedModel
from midstream.web.routes import Web

ROOT = Path(__file__).parents[1]
PAGES, RUNS, EACH = 50, 20, 4


async def typed(other: Owner, count: int) -> list[float]:
    """Return milliseconds from a page's request to the handler of the run, at times of their own."""
    samples: list[float] = []
    folder = other.journal.parent
    async with midstream.open(folder, model=ScriptedModel(), journal=other.journal) as engine:
        web, access = Web(engine), Access()
        async with (
            served([Door(routes=web.routes(), life=web.life())], access, port=0) as address,
            httpx.AsyncClient(base_url=address, headers={"origin": address}, timeout=None) as page,
        ):
            await page.get(access.invitation())
            for number in range(count + 5):
                await asyncio.sleep(random.random() * 0.03)
                began = time.monotonic_ns()
                body = {"text": WORDS, "id": f"{began}"}
                found = await page.post(f"/api/runs/{other.run}/say", json=body)
                assert found.status_code == 200, found.text
                heard = int(await asyncio.to_thread(other.line))
                if number >= 5:
                    samples.append((heard - began) / 1e6)
    return samples


@contextlib.contextmanager
def _server() -> "Iterator[subprocess.Popen[str]]":
    with tempfile.TemporaryDirectory(dir=stores()) as folder:
        work = Path(folder) / "work"
        work.mkdir()
        words = (f"{folder}/journal.db", str(work), str(RUNS))
        with subprocess.Popen(
            [sys.executable, "-m", "benchmarks.programs.web_server", *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as server:
            yield server


async def _read(address: str, cookie: str, run: str) -> None:
    """Read a run's events as a page does, until its second reply was told."""
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"GET /api/runs/{run}/events HTTP/1.1\r\nhost: {host}:{port}\r\ncookie: {cookie}\r\n\r\n"
    writer.write(head.encode())
    replies = 0
    while replies < 2:
        replies += (await reader.readuntil(b"\n\n")).count(b'"kind":"agent"')
    writer.close()


async def watched(pages: int) -> tuple[float, float]:
    """Return the server's seconds of CPU while all runs stream, and its memory in megabytes."""
    with _server() as server:
        assert server.stdout is not None
        assert server.stdin is not None
        invitation, *runs = (await asyncio.to_thread(server.stdout.readline)).split()
        address = invitation.partition("/?")[0]
        async with httpx.AsyncClient(timeout=None) as page:
            await page.get(invitation)
            cookie = "; ".join(f"{name}={value}" for name, value in page.cookies.items())
        reading = [
            asyncio.create_task(_read(address, cookie, runs[(number + step * 5) % RUNS]))
            for number in range(pages)
            for step in range(EACH)
        ]
        await asyncio.sleep(1.0)  # they have joined: what is measured is streaming
        print(file=server.stdin, flush=True)
        await asyncio.to_thread(server.stdout.readline)
        await asyncio.gather(*reading)
        print(file=server.stdin, flush=True)
        used, size = (await asyncio.to_thread(server.stdout.readline)).split()
        return float(used), float(size)


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds to the handler, and what fifty pages cost the server."""
    count, rounds = (20, 1) if is_quick else (200, 3)
    ours: list[list[float]] = []
    floors: list[list[float]] = []
    crowd: list[tuple[float, float]] = []
    nobody: list[tuple[float, float]] = []
    for _ in range(rounds):
        with owner() as other:
            floors.append(asyncio.run(sent(other, count)))
        with owner() as other:
            ours.append(asyncio.run(typed(other, count)))
        nobody.append(asyncio.run(watched(0)))
        crowd.append(asyncio.run(watched(PAGES)))
    return [
        *(
            Figure(
                name=f"from Enter on a page to the handler in another process, p{percent}",
                unit="ms",
                values=tuple(percentile(samples, percent) for samples in ours),
                floor="words from this process",
                floors=tuple(percentile(samples, percent) for samples in floors),
            )
            for percent in (50, 99)
        ),
        *(
            Figure(
                name=f"{what} of a server, {PAGES} pages that watch {EACH} of {RUNS} runs each",
                unit=unit,
                values=tuple(each[at] for each in crowd),
                floor="nobody watches",
                floors=tuple(each[at] for each in nobody),
            )
            for at, (what, unit) in enumerate((("CPU", "s"), ("memory", "MB")))
        ),
    ]

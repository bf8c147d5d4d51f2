"""Fifty pages that watch twenty runs, some of them slow or away for a while."""

import asyncio
import re

import pytest
from api_kit import Place, here
from browser_kit import Page, is_end, items, let_in, serving
from deadline import PROGRAM_S

from midstream.testing import says

__all__ = ["here"]

PAGES, RUNS, EACH, WORDS = 50, 20, 4, 3
_NUMBERED = re.compile(rb"^id: (\d+)$", re.MULTILINE)


class Crowd:
    """What pages tell the test: that all of them watch; what it tells the slow ones: that all is over."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.all_watch = asyncio.Event()
        self.all_over = asyncio.Event()

    def watches(self) -> None:
        self._left -= 1
        if not self._left:
            self.all_watch.set()


async def watch(page: Page, run: str, crowd: Crowd, *, number: int) -> list[int]:
    """Return the numbers of the facts a page was told, over as many connections as it took.

    Every seventh reads nothing more until all is over; all but every fifth go away after a few facts.
    """
    host, _, port = page.address.removeprefix("http://").partition(":")
    cookie = "; ".join(f"{name}={value}" for name, value in page.client.cookies.items())
    is_slow, leaves_after = number % 7 == 0, number % 5
    found: list[int] = []
    is_new = True
    while True:
        # A line of its own: hundreds of clients of a library would be most of the test.
        reader, writer = await asyncio.open_connection(host, int(port))
        last = found[-1] if found else 0
        writer.write(
            f"GET /api/runs/{run}/events HTTP/1.1\r\nhost: {host}:{port}\r\ncookie: {cookie}\r\n"
            f"last-event-id: {last}\r\n\r\n".encode()
        )
        try:
            while True:
                event = await reader.readuntil(b"\n\n")
                found += map(int, _NUMBERED.findall(event))
                if b"event: end\n" in event:
                    return found
                if is_new and b"event: status\n" in event:
                    is_new = False
                    crowd.watches()
                    if is_slow:
                        await crowd.all_over.wait()
                if leaves_after and len(found) >= leaves_after:
                    leaves_after = 0
                    break
        finally:
            writer.close()


@pytest.mark.slow
async def test_each_of_many_pages_is_told_every_fact_once(here: Place) -> None:
    async with asyncio.timeout(PROGRAM_S):
        replies = [says(*["more "] * 50) for _ in range(RUNS * (WORDS + 1))]
        owner = await here.engine(*replies)
        chats = [await owner.start("role:dude", f"task {n}") for n in range(RUNS)]
        engine, crowd = await here.engine(), Crowd(PAGES * EACH)
        async with serving(engine) as (address, access), let_in(address, access) as page:
            watching = {
                (number, step): asyncio.ensure_future(
                    watch(page, chats[(number + step * 5) % RUNS].id, crowd, number=number)
                )
                for number in range(PAGES)
                for step in range(EACH)
            }
            await crowd.all_watch.wait()
            for chat in chats:
                for words in range(WORDS):
                    await chat.say(f"and {words}")
                    await chat.settled()
                await chat.stop()
            crowd.all_over.set()
            told = {key: await each for key, each in watching.items()}
            # What one page is told of a run from the beginning is what there is to tell.
            whole = {
                chat.id: [item["seq"] for item in await items(page, chat.id, until=is_end)]
                for chat in chats
            }
        for (number, step), facts in told.items():
            assert facts == whole[chats[(number + step * 5) % RUNS].id]
        assert all(len(facts) > 4 * WORDS for facts in whole.values())

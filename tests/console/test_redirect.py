"""What handlers, tools and libraries print is told through the face, from whatever thread."""

import asyncio
import sys
import threading
from typing import Any

from midstream.console.redirect import MAX_LINE, redirected


class Heard:
    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def say(self, text: str, *, kind: str = "info") -> None:
        self.said.append((kind, text))


async def test_lines_printed_are_told_whole_and_in_order() -> None:
    face: Any = Heard()
    before = sys.stdout
    async with asyncio.timeout(10):
        with redirected(face):
            print("one")
            print("two", end="")
            print(" halves\nand a rest", end="")
            print("trouble", file=sys.stderr)
            await asyncio.sleep(0)
    assert face.said == [
        ("info", "one"),
        ("info", "two halves"),
        ("note", "trouble"),
        ("info", "and a rest"),
    ]
    assert sys.stdout is before


async def test_a_thread_may_print() -> None:
    face: Any = Heard()
    async with asyncio.timeout(10):
        with redirected(face):
            thread = threading.Thread(target=lambda: print("from afar"))
            thread.start()
            await asyncio.to_thread(thread.join)
            await asyncio.sleep(0)
    assert face.said == [("info", "from afar")]


async def test_a_line_without_an_end_is_told_all_the_same() -> None:
    face: Any = Heard()
    async with asyncio.timeout(10):
        with redirected(face):
            print("x" * (MAX_LINE + 1), end="")
            await asyncio.sleep(0)
            assert face.said == [("info", "x" * (MAX_LINE + 1))]

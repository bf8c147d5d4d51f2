"""What handlers, tools and libraries print is told through the UI, from whatever thread."""

import asyncio
import os
import sys
import threading
import time
from typing import Any

import pytest
from deadline import DEADLINE_S

from midstream.tui import stdio_capture
from midstream.tui.stdio_capture import MAX_LINE, capture_stdio


class Heard:
    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def say(self, text: str, *, kind: str = "info") -> None:
        self.said.append((kind, text))


async def test_lines_printed_are_told_whole_and_in_order() -> None:
    ui: Any = Heard()
    before = sys.stdout
    async with asyncio.timeout(DEADLINE_S):
        with capture_stdio(ui):
            print("one")
            print("two", end="")
            print(" halves\nand a rest", end="")
            print("trouble", file=sys.stderr)
            await asyncio.sleep(0)
    assert ui.said == [
        ("info", "one"),
        ("info", "two halves"),
        ("note", "trouble"),
        ("info", "and a rest"),
    ]
    assert sys.stdout is before


async def test_a_thread_may_print() -> None:
    ui: Any = Heard()
    async with asyncio.timeout(DEADLINE_S):
        with capture_stdio(ui):
            thread = threading.Thread(target=lambda: print("from afar"))
            thread.start()
            await asyncio.to_thread(thread.join)
            await asyncio.sleep(0)
    assert ui.said == [("info", "from afar")]


async def test_a_line_without_an_end_is_told_all_the_same() -> None:
    ui: Any = Heard()
    async with asyncio.timeout(DEADLINE_S):
        with capture_stdio(ui):
            print("x" * (MAX_LINE + 1), end="")
            await asyncio.sleep(0)
            assert ui.said == [("info", "x" * (MAX_LINE + 1))]


async def test_last_words_are_told_however_long_that_takes_and_nothing_holds_it_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow:
        def sliding(self) -> "Slow":
            return self

        def fed(self, text: str) -> str:
            time.sleep(0.3)
            return text

        def rest(self) -> str:
            return ""

    ui: Any = Heard()
    monkeypatch.setattr(stdio_capture, "own_redactor", Slow)
    async with asyncio.timeout(DEADLINE_S):
        with capture_stdio(ui):
            left_behind = await asyncio.create_subprocess_exec("sleep", "3600")
            os.write(1, b"the last words\n")
            os.write(2, b"and a rest")
        await asyncio.sleep(0)
        left_behind.kill()
        await left_behind.wait()
    assert ui.said == [("info", "the last words"), ("info", "and a rest")]

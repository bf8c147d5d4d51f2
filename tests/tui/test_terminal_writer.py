"""A terminal that is slow, stopped or gone never holds up whoever writes to it."""

import asyncio
import os
import select
import tty
from types import SimpleNamespace
from typing import Any

import pytest
from deadline import DEADLINE_S, Ahead

from midstream.system import offloop
from midstream.tui import terminal
from midstream.tui.terminal import TerminalWriter


async def test_a_terminal_that_does_not_read_gets_it_later() -> None:
    master, slave = os.openpty()
    tty.setraw(slave)
    writer = TerminalWriter(slave)
    drained = asyncio.Event()
    writer.on_drained = drained.set
    data = b"x" * 300_000

    writer.write(data)
    assert writer.is_congested

    got = b""
    async with asyncio.timeout(DEADLINE_S):
        while len(got) < len(data):
            got += await asyncio.to_thread(os.read, master, 65536)
        await drained.wait()
    assert got == data
    assert not writer.is_congested
    assert os.get_blocking(slave)
    writer.close()
    os.close(slave)
    os.close(master)


async def test_the_end_is_written_although_the_machine_stood_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    master, slave = os.openpty()
    tty.setraw(slave)
    ahead, data = Ahead(), b"x" * 300_000
    monkeypatch.setattr(offloop, "time", ahead)
    monkeypatch.setattr(terminal, "_DRAIN_S", DEADLINE_S)

    def stands(*asked: Any) -> object:
        ahead.by_s = DEADLINE_S
        return select.select(*asked)

    def read() -> bytes:
        got = b""
        while len(got) < len(data):
            got += os.read(master, 65536)
        return got

    monkeypatch.setattr(terminal, "select", SimpleNamespace(select=stands))
    writer = TerminalWriter(slave)
    writer.write(data)
    reading = asyncio.create_task(asyncio.to_thread(read))
    await asyncio.to_thread(writer.close)

    assert await reading == data
    os.close(slave)
    os.close(master)


async def test_a_terminal_that_is_gone_is_told_once_and_swallows_the_rest() -> None:
    master, slave = os.openpty()
    writer = TerminalWriter(slave)
    gone: list[bool] = []
    writer.on_gone = lambda: gone.append(True)
    os.close(master)

    writer.write(b"one")
    writer.write(b"two")

    assert gone == [True]
    assert writer.is_gone
    writer.close()
    os.close(slave)


def test_without_a_loop_it_writes_all_the_same() -> None:
    read, write = os.pipe()
    writer = TerminalWriter(write)
    writer.write(b"plain")
    writer.close()

    assert os.read(read, 10) == b"plain"
    os.close(read)
    os.close(write)

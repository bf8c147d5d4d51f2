"""What streams in a run reaches who watches from elsewhere: in order, each piece once, never slowing it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from deadline import until
from two_processes import Place

from midstream.core.events import AgentResponded, Interrupted
from midstream.core.notices import Envelope, TextDelta
from midstream.runtime.engine import live
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.remote import RemoteMachine
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.testing.fakes import (
    Chronicle,
    Gate,
    JumpingClock,
    ScriptedModel,
    define,
    fake_world,
    says,
)

TALK: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}, {"name": "resume", "agent": "dude"}],
}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Place]:
    """Give one machine, where who watches finds the owner's socket."""
    made = Place(tmp_path, "sqlite")
    yield made
    await made.close()


@pytest.fixture(params=["here", "far"])
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    """Give one machine, or two that share a store."""
    made = Place(tmp_path, "sqlite" if request.param == "here" else "memory")
    if request.param == "far":
        made.sockets, made.far_sockets = tmp_path / "one", tmp_path / "two"
        made.sockets.mkdir()
        made.far_sockets.mkdir()
        monkeypatch.setattr(live, "STAY_S", 0.05)
        monkeypatch.setattr(live, "FORGOTTEN_S", 0.5)
    yield made
    await made.close()


class Streaming:
    """A process with a run whose reply stands before a gate."""

    def __init__(self, place: Place, *script: Any) -> None:
        self.store = place.open()
        world = fake_world(ScriptedModel(*script), journal=self.store)
        self.engine = LocalEngine(world, self.store, sockets=place.sockets)

    async def start(self) -> WorkflowStateMachine:
        return await self.engine.start(define(TALK))


@contextlib.asynccontextmanager
async def watching(place: Place, id: str) -> AsyncIterator[tuple[RemoteMachine, Chronicle]]:
    """Give another process's view of a run, and what it hears."""
    heard = Chronicle()
    machine = await RemoteMachine.attached(
        place.open(), id, sockets=place.far_sockets, clock=JumpingClock(), tap=heard
    )
    try:
        yield machine, heard
    finally:
        await machine.aclose()


def words_of(heard: Chronicle) -> str:
    return "".join(event.text for event in heard.of(TextDelta))


async def said(heard: Chronicle, words: str) -> None:
    """Return once a watcher has heard just these words."""

    async def holds() -> bool:
        assert words.startswith(words_of(heard))
        return words_of(heard) == words

    await until(holds)


async def hears_once_more(watcher: RemoteMachine, heard: Chronicle, gate: Gate) -> None:
    """Hear what was shown, open the gate, and hear the rest, once."""
    await said(heard, "Once ")
    gate.open()
    await watcher.wait()
    assert words_of(heard) == "Once more"


async def test_a_watcher_gets_what_was_shown_and_then_each_piece_once(place: Place) -> None:
    gate = Gate()
    owner = Streaming(place, says("Once ", "upon ", "a time.", gate=gate, after=2))
    machine = await owner.start()
    await gate.reached()

    async with watching(place, machine.id) as (first, one):
        await said(one, "Once upon ")
        async with watching(place, machine.id) as (second, other):
            await said(other, "Once upon ")
            gate.open()
            for watcher, heard in ((first, one), (second, other)):
                await watcher.wait()
                assert words_of(heard) == "Once upon a time."
                kinds = [type(each.event) for each in heard.events]
                last_piece = max(n for n, kind in enumerate(kinds) if kind is TextDelta)
                assert last_piece < kinds.index(AgentResponded)
    await owner.engine.close()


async def test_after_a_halt_the_next_reply_begins_anew(place: Place) -> None:
    gate, again = Gate(), Gate()
    anew = says("Snow.", gate=again, after=1)
    owner = Streaming(place, says("Once upon ", "a time", gate=gate, after=1), anew)
    machine = await owner.start()
    await gate.reached()

    async with watching(place, machine.id) as (watcher, heard):
        await said(heard, "Once upon ")
        await watcher.say("shorter")
        await said(heard, "Once upon Snow.")
        again.open()
        await watcher.wait()

        pieces = [each.event for each in heard.events]
        cut = next(n for n, each in enumerate(pieces) if isinstance(each, Interrupted))
        after = [each.text for each in pieces[cut:] if isinstance(each, TextDelta)]
        assert "".join(after) == "Snow."
    await owner.engine.close()


async def test_a_watcher_goes_on_with_the_next_owner(place: Place) -> None:
    gate, again = Gate(), Gate()
    owner = Streaming(place, says("Once ", "upon", gate=gate, after=1))
    machine = await owner.start()
    await gate.reached()
    async with watching(place, machine.id) as (watcher, heard):
        await said(heard, "Once ")
        await owner.engine.close()
        other = Streaming(place, says("There ", "was.", gate=again, after=1))
        await other.engine.resume(machine.id)
        await again.reached()
        await said(heard, "Once There ")
        again.open()
        await watcher.wait()
        assert words_of(heard) == "Once There was."
    await other.engine.close()


async def test_without_a_watcher_nothing_is_kept_or_scheduled(place: Place) -> None:
    gate = Gate()
    owner = Streaming(place, says("Once ", "more", gate=gate, after=1))
    machine = await owner.start()
    await gate.reached()
    server = owner.engine._owner._live
    assert server is not None

    assert (server._waiting, server._flush, server._watchers) == ({}, None, {})
    async with watching(place, machine.id) as (_, heard):
        await said(heard, "Once ")
    await until(lambda: _is_empty(server))
    gate.open()
    await machine.wait()
    assert server._waiting == {}
    await owner.engine.close()


async def _is_empty(server: live.LiveServer) -> bool:
    return server._watchers == {}


async def test_a_watcher_that_does_not_read_is_cut_off_and_then_told_the_latest(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_WAITING", 64 * 1024)
    piece, gate = "x" * 4_000, Gate()
    script = says(*[piece] * 400, "END", gate=gate, after=400)
    owner = Streaming(here, script)
    before = Gate()
    owner.engine.world.model._script.insert(0, says("Wait", gate=before))  # type: ignore[attr-defined]
    machine = await owner.start()
    await before.reached()
    assert here.sockets is not None
    with live._short(str(here.sockets / f"{owner.store.me}.live")) as address:
        reader, writer = await asyncio.open_unix_connection(address, limit=8_000_000)
    writer.write(b'{"run": "%s"}\n' % machine.id.encode())
    line = json.loads(await reader.readline())
    assert line["seq"] == machine.run.seq
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    await machine.say("go on")
    await gate.reached()  # 1.6 MB were streamed, and nobody waited for the watcher

    server = owner.engine._owner._live
    assert server is not None
    (watcher,) = server._watchers[machine.id]
    assert isinstance(watcher, live._Watcher)
    waiting = watcher._writer.transport.get_write_buffer_size()
    assert watcher.is_behind
    assert waiting < 400 * len(piece) / 2
    reader._transport.resume_reading()  # type: ignore[attr-defined]
    whole = piece * 400
    while True:
        told = json.loads(await reader.readline())
        if told.get("event", {}).get("text") == whole:
            break
    assert not watcher.is_behind
    writer.close()
    gate.open()
    await machine.wait()
    await owner.engine.close()


@pytest.mark.parametrize("greeting", [b"GET / HTTP/1.1\n", b"\xff\x00\n", b'{"run": 7}\n', b""])
async def test_who_is_no_watcher_is_hung_up_on_and_disturbs_nobody(
    here: Place, greeting: bytes
) -> None:
    gate = Gate()
    owner = Streaming(here, says("Once ", "more", gate=gate, after=1))
    machine = await owner.start()
    await gate.reached()
    assert here.sockets is not None
    with live._short(str(here.sockets / f"{owner.store.me}.live")) as address:
        reader, writer = await asyncio.open_unix_connection(address)
    writer.write(greeting)
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()

    async with watching(here, machine.id) as (watcher, heard):
        await hears_once_more(watcher, heard, gate)
    await owner.engine.close()


async def test_a_path_too_long_for_a_socket_is_reached_by_its_folder(tmp_path: Path) -> None:
    deep = tmp_path / ("a" * 60) / ("b" * 60)
    deep.mkdir(parents=True)
    place = Place(deep, "sqlite")
    gate = Gate()
    owner = Streaming(place, says("Once ", "more", gate=gate, after=1))
    machine = await owner.start()
    await gate.reached()
    async with watching(place, machine.id) as (watcher, heard):
        await hears_once_more(watcher, heard, gate)
    await owner.engine.close()
    await place.close()


async def test_the_socket_is_ours_alone_and_goes_with_its_process(here: Place) -> None:
    owner = Streaming(here, "Done.")
    await (await owner.start()).wait()
    assert here.sockets is not None
    address = here.sockets / f"{owner.store.me}.live"
    assert address.stat().st_mode & 0o777 == 0o600

    await owner.engine.close()

    assert not address.exists()


async def test_events_of_another_process_are_facts_and_pieces_in_one_order(place: Place) -> None:
    gate = Gate()
    owner = Streaming(place, says("Once ", "more", gate=gate, after=1))
    machine = await owner.start()
    await gate.reached()
    async with watching(place, machine.id) as (watcher, heard):
        await said(heard, "Once ")
        reading = asyncio.create_task(_all_of(watcher))
        await asyncio.sleep(0)
        gate.open()
        told = await reading
        numbers = [each.seq for each in told if each.seq is not None]
        assert numbers == list(range(1, machine.run.seq + 1))
        texts = [each.event.text for each in told if isinstance(each.event, TextDelta)]
        assert "Once more".endswith("".join(texts))
        assert "more" in "".join(texts)
    await owner.engine.close()


async def _all_of(machine: RemoteMachine) -> list[Envelope]:
    return [each async for each in machine.events()]


def words_in(heard: Chronicle, branch: str) -> str:
    return "".join(each.text for each in heard.of(TextDelta) if each.branch == branch)


async def _has_words(heard: Chronicle, branch: str, words: str) -> bool:
    return words in words_in(heard, branch)


SIDES: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [
        {"name": "start", "parallel": ["a", "ab"], "join": "any"},
        {"name": "a", "agent": "dude", "prompt": "a"},
        {"name": "ab", "agent": "dude", "prompt": "ab"},
        {"name": "stop"},
    ],
}


async def test_words_for_one_branch_leave_what_streams_in_another_as_it_is(place: Place) -> None:
    gates = [Gate(), Gate(), Gate()]
    lines = {
        "a": [says("Left", gate=gates[0]), says("New", gate=gates[2])],
        "ab": [says("Right ", "side", gate=gates[1], after=1)],
    }
    owner = Streaming(place, lambda request: lines[request.state].pop(0))
    machine = await owner.engine.start(define(SIDES))
    await gates[0].reached()
    await gates[1].reached()

    async with watching(place, machine.id) as (watcher, heard):
        await until(lambda: _has_words(heard, "ab", "Right"))
        await watcher.say("@a only this")
        await until(lambda: _has_words(heard, "a", "New"))
        gates[1].open()
        await watcher.wait()
        assert words_in(heard, "ab") == "Right side"
    await owner.engine.close()

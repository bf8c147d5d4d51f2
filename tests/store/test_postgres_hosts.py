"""A run of a folder goes on where the folder is, though another machine has one of that name."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from deadline import DEADLINE_S

import midstream
from midstream.config.directories import STATE_HOME
from midstream.core.notices import TextDelta
from midstream.language.errors import UserMistake
from midstream.runtime.engine.owner import Owner
from midstream.runtime.engine.resume import cut_runs
from midstream.runtime.storage import WorkerInfo
from midstream.store.postgres.store import PostgresStore
from midstream.testing import ScriptedModel
from midstream.testing.fakes import Gate, says


async def test_only_the_machine_of_its_folder_goes_on_with_it(
    database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = await asyncio.to_thread(database)
    monkeypatch.setenv("MIDSTREAM_HOST", "one")
    async with midstream.open(tmp_path, model=ScriptedModel(), journal=address) as engine:
        run = await engine.start("role:dude")
    monkeypatch.setenv("MIDSTREAM_HOST", "two")
    async with midstream.open(tmp_path, model=ScriptedModel(), journal=address) as engine:
        with pytest.raises(UserMistake, match="of one, which is another machine"):
            await engine.resume(run.id)
        assert await cut_runs(engine.local.store, tmp_path) == []
        assert (await engine.get(run.id)).run.id == run.id
        assert not (await engine.take(run.id)).is_here  # it is talked to from here
    monkeypatch.setenv("MIDSTREAM_HOST", "one")
    async with midstream.open(tmp_path, model=ScriptedModel(), journal=address) as engine:
        assert (await engine.resume(run.id)).id == run.id


async def test_what_streams_on_one_machine_is_heard_on_another(
    database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = await asyncio.to_thread(database)
    gate, again, long = Gate(), Gate(), "so very long ago " * 1_000
    script = [says("Once ", long, gate=gate, after=2), says("Then ", "snow.", gate=again, after=1)]
    async with contextlib.AsyncExitStack() as machines, asyncio.timeout(DEADLINE_S):
        monkeypatch.setenv(STATE_HOME, str(tmp_path / "one"))
        one = await machines.enter_async_context(
            midstream.open(tmp_path, model=ScriptedModel(*script), journal=address)
        )
        monkeypatch.setenv(STATE_HOME, str(tmp_path / "two"))
        two = await machines.enter_async_context(
            midstream.open(tmp_path, model=ScriptedModel(), journal=address)
        )
        run = await one.start("role:dude", "tell a tale")
        await gate.reached()
        watched = await two.get(run.id)
        events = aiter(watched.events())

        async def heard(words: str) -> str:
            text = ""
            while len(text) < len(words):
                event = await anext(events)
                text += event.text if isinstance(event, TextDelta) else ""
            return text

        assert await heard(f"Once {long}") == f"Once {long}"
        saying = asyncio.create_task(watched.say("shorter"))
        assert await heard("Then ") == "Then "
        assert (await saying).handling == "interrupt"
        again.open()
        assert await heard("snow.") == "snow."


async def test_a_run_that_a_worker_goes_on_with_is_taken_here_only_if_that_is_said(
    database: Callable[[], str], tmp_path: Path
) -> None:
    address = await asyncio.to_thread(database)
    async with midstream.open(tmp_path, model=ScriptedModel(), journal=address) as engine:
        run = await engine.start("role:dude")
    worker = await asyncio.to_thread(PostgresStore.opened, address, host=socket.gethostname())
    info = WorkerInfo(owner=worker.me, host=worker.host, pid=1, version="1", since=1.0, max_runs=1)
    await worker.announce(info)
    lives = Owner(worker)
    lives.begin()
    async with midstream.open(tmp_path, model=ScriptedModel(), journal=address) as engine:
        assert not (await engine.take(run.id)).is_here
        assert (await engine.take(run.id, here=True)).is_here
    await lives.close()
    await worker.aclose()

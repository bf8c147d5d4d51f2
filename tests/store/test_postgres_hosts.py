"""A run of a folder goes on where the folder is, though another machine has one of that name."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import midstream
from midstream.language.errors import UserMistake
from midstream.runtime.engine.resume import cut_runs
from midstream.testing import ScriptedModel


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
    monkeypatch.setenv("MIDSTREAM_HOST", "one")
    async with midstream.open(tmp_path, model=ScriptedModel(), journal=address) as engine:
        assert (await engine.resume(run.id)).id == run.id

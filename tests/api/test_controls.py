"""What a person changes while an engine is open."""

from pathlib import Path

import pytest
from api_kit import Place, here, write

from midstream.core.events import Usage
from midstream.language.errors import UserMistake
from midstream.testing import Scripted, call, calls

__all__ = ["here"]


async def test_the_permission_mode_goes_where_a_command_may_lead_it(here: Place) -> None:
    engine = await here.engine(permissions="ask")
    engine.controls.use_permission_mode("plan")

    assert engine.controls.permission_mode == "plan"
    with pytest.raises(UserMistake, match="cannot switch to full"):
        engine.controls.use_permission_mode("full")


async def test_a_model_is_chosen_as_in_the_console(here: Place) -> None:
    engine = await here.engine()
    await engine.controls.use_model("offline")

    assert engine.controls.model == "offline"
    assert "offline" in engine.controls.models()
    with pytest.raises(UserMistake):
        await engine.controls.use_model("nobody:knows")


async def test_a_turn_is_taken_back_with_its_files(here: Place) -> None:
    engine = await here.engine(
        calls(call("write_file", path="a.txt", content="new\n")), "Written.", permissions="auto"
    )
    file = write(here.workspace, "a.txt", "old\n")
    run = await engine.start("role:coder", "change it")
    await run.settled()
    assert file.read_text() == "new\n"

    id, told = await engine.controls.undo(run.id)

    assert file.read_text() == "old\n"
    assert id != run.id
    assert told


async def test_what_a_run_used_is_told(here: Place) -> None:
    engine = await here.engine(Scripted(pieces=("Hello.",), usage=Usage(model="m:m")))
    run = await engine.start("role:dude", "hello")
    await run.settled()

    assert [each.run for each in await engine.controls.spent(run.id)] == [run.id]


async def test_the_id_of_a_run_is_known_by_its_key(here: Place) -> None:
    engine = await here.engine("Hello.")
    run = await engine.start("role:dude", "hello you", key="mine")
    (listed,) = await engine.runs()

    assert run.id == engine.run_id("mine") == listed.id
    assert (listed.first, listed.workspace) == ("hello you", str(here.workspace))


async def test_commands_of_a_persons_own_are_named_and_filled_in(
    here: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDSTREAM_CONFIG_HOME", str(tmp_path / "config"))
    write(tmp_path / "config", "commands/look.md", "---\ndescription: looks\n---\nLook at $1.\n")
    engine = await here.engine()

    assert (await engine.controls.commands())["look"] == ("looks", "")
    assert await engine.controls.text_of("/look a.py") == "Look at a.py."
    assert await engine.controls.text_of("/nothing") is None

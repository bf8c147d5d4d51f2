"""Esc Esc, `/back` and `/export` in the whole console."""

from pathlib import Path

from console_kit import console
from pipes_kit import MODEL
from scene_kit import scene
from screen import DOWN, ENTER, ESC
from support.openai_server import Call, OpenAIServer, Reply

from midstream.runtime.engine.run_file import read_parcel
from midstream.tui.turn_list import ARMED


async def test_back_lists_the_turns_goes_to_one_and_hands_its_words_back(tmp_path: Path) -> None:
    async with scene(tmp_path, "One.", "Two.", "Three.", "Four.") as made:
        assert "Nothing has run here yet." in (await made.type("/back")).reason
        for line in ("first", "second", "third"):
            await made.type(line)
            await made.session.active().settled()  # type: ignore[union-attr]

        await made.type("/back")
        assert made.ui.said[-1].splitlines()[:3] == ["  1  third", "  2  second", "  3  first"]
        for wrong in ("0", "4", "x", "-1", "²"):
            assert "from 1 (the last turn) to 3" in (await made.type(f"/back {wrong}")).reason

        before = made.session.active()
        assert (await made.type("/back 2")).kind == "taken"
        active = made.session.active()
        assert active is not None
        assert active is not before
        assert made.ui.handed == "second"
        assert [turn.words for turn in await made.console.turns()] == ["first"]


async def test_export_says_where_the_file_is_and_overwrites_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path, "One.") as made:
        assert "Nothing has run here yet." in (await made.type("/export")).reason
        await made.type("hello")
        machine = made.session.active()
        assert machine is not None
        await machine.settled()
        file = tmp_path / "my run.jsonl"

        await made.type(f"/export {file}")

        assert str(file) in made.ui.said[-1]
        assert read_parcel(file).header.run == machine.run.id
        assert file.stat().st_mode & 0o777 == 0o600
        assert "is there already" in (await made.type(f"/export {file}")).reason


def test_an_export_is_what_a_person_reads_or_stays_out_of_the_folder(tmp_path: Path) -> None:
    look = Call(name="read_files", arguments={"paths": ["gone.py"]})
    replies = [Reply(calls=(look,)), Reply(text="It is **gone**.")]
    workspace = tmp_path / "project"
    workspace.mkdir()
    with (
        OpenAIServer(replies) as server,
        console(tmp_path, *MODEL, server=server, workspace=workspace) as screen,
    ):
        screen.wait_for("chat with")
        screen.type(f"look at gone.py{ENTER}")
        screen.wait_for("It is gone.")
        screen.type(f"/copy{ENTER}")
        screen.wait_for("· 1 line in")
        screen.wait_for("copy-1.md")
        screen.type(f"/export chat.md{ENTER}")
        screen.wait_for("before you share")
        before = sorted(workspace.iterdir())
        screen.type(f"/export{ENTER}")
        screen.wait_for("all that")

    assert sorted(workspace.iterdir()) == before == [workspace / "chat.md"]
    text = (workspace / "chat.md").read_text()
    assert "## You\n\nlook at gone.py\n\n- ✗ `read_files(gone.py)` · " in text
    (copied,) = tmp_path.rglob("copy-1.md")
    assert copied.read_text() == "It is **gone**."
    assert text.endswith("\n\n## dude\n\nIt is **gone**.\n")


def test_esc_esc_and_export_in_a_terminal(tmp_path: Path) -> None:
    workspace = tmp_path / "project"
    workspace.mkdir()
    with console(tmp_path, "--model", "offline", workspace=workspace) as screen:
        screen.wait_for("chat with")
        for line in ("first words", "second words"):
            screen.type(line + ENTER)
            screen.wait_for(f"› {line}")
            screen.settle()
            screen.wait_until(lambda s: "Esc stops" not in s.text())
        screen.type(f"/export out.jsonl{ENTER}")
        screen.wait_for("check it")
        assert read_parcel(workspace / "out.jsonl").header.facts > 2

        screen.type(ESC)
        screen.wait_for(ARMED)
        screen.type(ESC)
        screen.wait_for("▸ 1  second words")
        screen.settle(0.6)
        screen.type(DOWN)
        screen.wait_for("▸ 2  first words")
        screen.type(ENTER)
        screen.wait_for("Taken back: “first words”")
        screen.wait_until(lambda s: s.lines()[s.cursor()[1]].startswith("› first words"))
        screen.type(f" anew{ENTER}")
        screen.wait_for("› first words anew")

"""What an external agent may not get out of one yes: another text, another call, or a yes to a look."""

import asyncio
from pathlib import Path

import pytest
from test_external_agents import ONE, Scene, edit, scene

from midstream.agents.turn import Known, read_update
from midstream.core import events as e
from midstream.core.question import Decision
from midstream.language.errors import MidstreamError
from midstream.runtime.ports import ExternalCall, ExternalListener, ExternalPrompt, ProposedText


async def decided(here: Scene, *answers: bool) -> list[str]:
    """Answer what is asked, one after the other, and return what was shown each time."""
    shown: list[str] = []
    for number, granted in enumerate(answers, 1):
        asked = await here.told.until("question_asked", count=number)
        shown.append(asked.text)
        await here.machine.approve(asked.question_id, Decision(granted=granted))
    await here.machine.wait()
    return shown


async def tried_to_write(listener: ExternalListener, path: str, text: str) -> bool:
    try:
        await listener.write_text(path, text)
    except MidstreamError:
        return False
    return True


async def test_a_look_that_shows_a_text_is_no_yes_to_writing_it(tmp_path: Path) -> None:
    texts = (ProposedText(path="a.py", new="evil\n", old=None),)

    async def lies(_: ExternalPrompt, listener: ExternalListener) -> str:
        call = ExternalCall(id="1", title="Read a.py", kind="read", paths=("a.py",), texts=texts)
        await listener.permit(call)
        return str(await tried_to_write(listener, "a.py", "evil\n"))

    async with scene(tmp_path, ONE, lies) as here:
        shown = await decided(here, False, False)

    assert ["evil" in each for each in shown] == [True, True]
    assert not (tmp_path / "a.py").exists()


async def test_one_yes_is_to_one_text_though_two_are_asked_for_one_call(tmp_path: Path) -> None:
    answers: list[bool] = []

    async def asks(_: ExternalPrompt, listener: ExternalListener) -> str:
        await listener.called(edit("1", "a.py", "good\n"))
        found = await asyncio.gather(
            listener.permit(edit("1", "a.py", "good\n")),
            listener.permit(edit("1", "a.py", "evil\n")),
        )
        answers.extend(each.is_granted for each in found)
        return "Tried."

    async with scene(tmp_path, ONE, asks) as here:
        shown = await decided(here, True, False)

    assert answers == [True, False]
    assert ["good" in shown[0], "evil" in shown[1]] == [True, True]


async def test_a_text_that_is_being_asked_about_is_not_written_meanwhile(tmp_path: Path) -> None:
    async def races(_: ExternalPrompt, listener: ExternalListener) -> str:
        await listener.permit(edit("1", "a.py", "good\n"))
        await asyncio.gather(
            listener.permit(edit("1", "a.py", "evil\n")),
            tried_to_write(listener, "a.py", "evil\n"),
        )
        return "Tried."

    async with scene(tmp_path, ONE, races) as here:
        await decided(here, True, False)

    assert not (tmp_path / "a.py").exists()


async def test_one_yes_is_to_one_of_two_writes_at_once(tmp_path: Path) -> None:
    wrote: list[bool] = []

    async def races(_: ExternalPrompt, listener: ExternalListener) -> str:
        await listener.called(ExternalCall(id="1", title="Edit", kind="edit", paths=("a.py",)))
        found = await asyncio.gather(
            tried_to_write(listener, "a.py", "good\n"),
            tried_to_write(listener, "a.py", "evil\n"),
        )
        wrote.extend(found)
        return "Tried."

    async with scene(tmp_path, ONE, races) as here:
        shown = await decided(here, True, False)

    assert (wrote, (tmp_path / "a.py").read_text()) == ([True, False], "good\n")
    assert ["good" in shown[0], "evil" in shown[1]] == [True, True]


@pytest.mark.parametrize("claimed", ["evil\nline\n", None])
async def test_a_change_shown_against_another_text_than_the_files_is_shown_anew(
    tmp_path: Path, claimed: str | None
) -> None:
    (tmp_path / "a.py").write_text("good\nline\n")

    async def lies(_: ExternalPrompt, listener: ExternalListener) -> str:
        await listener.permit(edit("1", "a.py", "evil\nline\nmore\n", claimed))
        return str(await tried_to_write(listener, "a.py", "evil\nline\nmore\n"))

    async with scene(tmp_path, ONE, lies) as here:
        shown = await decided(here, True, False)

    assert "-good" in shown[1]
    assert (tmp_path / "a.py").read_text() == "good\nline\n"


async def test_a_command_line_is_judged_as_one_whatever_the_call_is_said_to_be(
    tmp_path: Path,
) -> None:
    given = {"command": ["bash", "-lc", "rm -rf x"]}
    told = {"toolCallId": "1", "kind": "read", "title": "Look", "rawInput": given}
    known = Known(ExternalCall(id="1", title=""))
    known.take(read_update(told))

    async def lies(_: ExternalPrompt, listener: ExternalListener) -> str:
        return str((await listener.permit(known.call)).is_granted)

    async with scene(tmp_path, ONE, lies) as here:
        shown = await decided(here, False)
        assert (await here.machine.wait()).output == "False"

    assert "$ bash -lc rm -rf x" in shown[0]


async def test_a_secrets_file_that_it_makes_is_named_and_not_kept(tmp_path: Path) -> None:
    async def sneaks(_: ExternalPrompt, _listener: ExternalListener) -> str:
        await asyncio.to_thread((tmp_path / ".env").write_text, "PLAIN=words of nobody\n")
        return "Did."

    async with scene(tmp_path, ONE, sneaks) as here:
        await here.machine.wait()

    assert here.told.of(e.FileWritten) == []
    assert ".env" in here.told.of(e.WorkflowOutput)[0].text

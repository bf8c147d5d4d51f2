"""fix_tests, played whole: the tests decide, a person says yes before anything is written."""

from pathlib import Path
from typing import Any

import pytest
from playing import Gate, Play, answer_to, play, said_by

from midstream.core.events import ToolCalled
from midstream.core.run import Run

NAME = "fix_tests"
COMMAND = "test -e mended"
ALL = ("execute_terminal", "outside: *", "write_file")
MENDS: dict[str, Any] = {
    "coder": {
        "fix": [
            {
                "request": 1,
                "calls": [{"name": "write_file", "arguments": {"path": "mended", "content": "1"}}],
            },
            {"text": "Mended."},
        ]
    }
}


async def asked(work: Play, command: str = COMMAND, allowed: tuple[str, ...] = ALL) -> Run:
    """Return the run once it asks, or is over."""
    await work.machine.start(command, allowed=allowed)
    return await work.machine.settled()


async def test_it_runs_the_tests_asks_mends_and_runs_them_again(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path, also=MENDS)
    run = await asked(work)
    assert not (tmp_path / "mended").exists(), "nothing is written before somebody says yes"
    await work.machine.say("make it", question=answer_to(run))
    run = await work.machine.wait()

    assert run.status == "finished", run.error
    assert work.states() == ["start", "diagnose", "approve", "fix", "start", "finish", "stop"]
    assert run.output == f"`{COMMAND}` passes now.\n\n[offline] Mended."


async def test_tests_that_pass_are_left_alone(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path)
    run = await asked(work, "true")

    assert work.states() == ["start", "finish", "stop"]
    assert run.output == "`true` passes: there is nothing to mend."


async def test_a_no_ends_it_and_says_what_was_found(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path, also=MENDS)
    run = await asked(work)
    await work.machine.say("2", question=answer_to(run))
    run = await work.machine.wait()

    assert work.states()[-2:] == ["finish", "stop"]
    assert run.output.startswith(f"`{COMMAND}` fails, and was left so.")
    assert not (tmp_path / "mended").exists()


async def test_after_five_changes_it_gives_up_and_says_so(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path)
    run = await asked(work, "false")
    for _ in range(5):
        await work.machine.say("1", question=answer_to(run))
        run = await work.machine.settled()

    assert run.output.startswith("`false` still fails after 5 changes.")
    assert work.states().count("start") == 6
    assert work.states()[-3:] == ["start", "finish", "stop"]


async def test_a_command_nobody_allows_is_not_run(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path)
    await work.machine.start("touch made", approvals="deny")
    run = await work.machine.wait()

    assert run.status == "failed"
    assert "--allow 'exec: touch made'" in run.error
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("state", ["diagnose", "fix"])
async def test_words_lead_back_to_the_finder_and_the_tests_are_not_run_for_them(
    tmp_path: Path, state: str
) -> None:
    gate = Gate()
    work = await play(NAME, tmp_path, sleep=gate)

    speaking = work.speaking(gate, state=state)
    await work.machine.start("false", allowed=ALL)
    if state == "fix":
        run = await work.machine.settled()
        await work.machine.say("1", question=answer_to(run))
    await speaking
    await work.machine.say("It is the config.")
    gate.open()
    run = await work.machine.settled()
    await work.machine.say("2", question=answer_to(run))
    run = await work.machine.wait()

    at = work.states().index(state)
    assert work.states()[at : at + 2] == [state, "diagnose"]
    commands = [e.event for e in work.events if isinstance(e.event, ToolCalled)]
    assert [call.name for call in commands].count("execute_terminal") == 1
    assert "It is the config." in [m.text for m in run.contexts["work"]]


async def test_the_output_of_the_tests_is_what_the_finder_reads(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path)
    run = await asked(work, "echo 3 failed; exit 1")
    await work.machine.stop()

    prompt = run.contexts["work"][0].text
    assert "3 failed" in prompt
    assert "Exit code: 1" in prompt
    assert said_by(run, "finder")[-1].startswith("[offline]")

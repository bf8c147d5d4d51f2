"""coder_reviewer, played whole: the verdict decides, rounds are bounded, words restart the work."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playing import Gate, Play, play

from midstream.core.conversation import USER
from midstream.core.events import QuestionAsked, WorkflowOutput
from midstream.core.notices import Envelope, TextDelta
from midstream.core.run import Run

NAME = "coder_reviewer"


def verdicts(*approved: bool) -> dict[str, Any]:
    """Return an offline part whose reviewer decides so, visit by visit."""
    return {
        "reviewer": {
            "review": [
                {
                    "visit": visit,
                    "text": "Read.",
                    "calls": [
                        {"name": "verdict", "arguments": {"approved": yes, "comments": f"C{visit}"}}
                    ],
                }
                for visit, yes in enumerate(approved, 1)
            ]
        }
    }


async def finished(work: Play, task: str = "Rename it", **variables: Any) -> Run:
    await work.machine.start(task, variables=variables)
    return await work.machine.wait()


async def test_it_goes_on_until_the_reviewer_approves(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path)
    run = await finished(work)

    assert run.status == "finished"
    assert work.states() == ["start", "review", "revise", "review", "finish", "stop"]
    assert run.common_data["verdict"]["approved"] is True
    assert run.output.startswith("[offline] Taken up: Say how the change is checked.")
    assert run.output.endswith("Approved after 2 rounds: Place, change and check are named")


async def test_work_that_is_approved_at_once_is_not_revised(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path, also=verdicts(True))
    run = await finished(work)

    assert work.states() == ["start", "review", "finish", "stop"]
    assert run.output.endswith("Approved after 1 round: C1")


@pytest.mark.parametrize("max_rounds", [1, 2, 4])
async def test_it_stops_after_so_many_rounds_and_says_it_was_not_approved(
    tmp_path: Path, max_rounds: int
) -> None:
    work = await play(NAME, tmp_path, also=verdicts(*[False] * 9))
    run = await finished(work, max_rounds=max_rounds)

    assert work.states().count("review") == max_rounds
    assert run.status == "finished"
    assert f"Not approved after {max_rounds} round" in run.output


async def test_the_coder_hears_the_comments_and_the_reviewer_sees_the_work(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path, also=verdicts(False, True))
    run = await finished(work)

    said = [(m.role, m.text) for m in run.contexts["work"] if m.text]
    assert said[0] == ("system", "The task: Rename it")
    assert ("user", "Not yet. C1") in said
    assert said[-1][1].startswith("[offline] Taken up: C1.")
    logged = [e.event.text for e in work.events if isinstance(e.event, WorkflowOutput)]
    assert logged[:2] == ["Round 1: Not yet. C1", "Round 2: Approved. C2"]


async def test_without_a_task_it_asks_for_one_and_the_first_line_is_it(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path)
    await work.machine.start()
    await work.machine.settled()
    await work.machine.say("Rename it")
    run = await work.machine.wait()

    (question,) = [e.event for e in work.events if isinstance(e.event, QuestionAsked)]
    assert question.text == "What should the coder do?"
    assert run.input == "Rename it"
    assert run.contexts["work"][0].text == "The task: Rename it"


@pytest.mark.parametrize("state", ["start", "review", "revise"])
async def test_words_typed_while_it_works_restart_it_with_everything_kept(
    tmp_path: Path, state: str
) -> None:
    gate = Gate()
    work = await play(NAME, tmp_path, sleep=gate)

    speaking = work.speaking(gate, state=state)
    await work.machine.start("Rename it")
    await speaking
    await work.machine.say("Keep the old name as an alias.")
    gate.open()
    run = await work.machine.wait()

    entered = work.states()
    assert "resume" not in entered
    restart = entered.index("start", 1)
    assert entered[restart - 1] == state
    assert run.status == "finished"
    assert run.common_data["guidance"] == ["Keep the old name as an alias."]
    assert "You said while it ran:\n- Keep the old name as an alias." in run.output
    said = [m.text for m in run.contexts["work"]]
    assert said.count("The task: Rename it") == 1
    assert said.count("Keep the old name as an alias.") == 1
    (words,) = [m for m in run.contexts["work"] if m.text == "Keep the old name as an alias."]
    assert words.author == USER


async def test_new_words_get_all_rounds_anew(tmp_path: Path) -> None:
    gate = Gate()
    work = await play(NAME, tmp_path, sleep=gate, also=verdicts(*[False] * 9))

    def is_second_review(envelope: Envelope) -> bool:
        run = work.machine.run
        is_it = isinstance(envelope.event, TextDelta) and run.visits.get("review") == 2
        if is_it and not run.inbox.lines:
            gate.close()
        return is_it

    reviewing = asyncio.ensure_future(work.until(is_second_review))
    await work.machine.start("Rename it", variables={"max_rounds": 2})
    await reviewing
    await work.machine.say("Go on.")
    gate.open()
    run = await work.machine.wait()

    assert work.states().count("review") == 4
    assert "Not approved after 2 rounds" in run.output

"""triage_issue, played whole: a guess, a form that is checked, a reply."""

import json
from pathlib import Path

import pytest
from playing import Play, answer_to, play

from midstream.core.events import AnswerRefused
from midstream.core.run import Run

NAME = "triage_issue"


async def asked(work: Play) -> Run:
    await work.machine.start("It crashes")
    return await work.machine.settled()


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        ("bug", ["start", "confirm", "locate", "reply", "stop"]),
        ("feature", ["start", "confirm", "reply", "stop"]),
        ("question", ["start", "confirm", "reply", "stop"]),
    ],
)
async def test_the_form_decides_what_comes_next(
    tmp_path: Path, kind: str, states: list[str]
) -> None:
    form = {"kind": kind, "severity": "high", "note": "Since Monday."}
    work = await play(NAME, tmp_path)
    run = await asked(work)
    await work.machine.say(json.dumps(form), question=answer_to(run))
    run = await work.machine.wait()

    assert run.status == "finished", run.error
    assert work.states() == states
    assert run.common_data["form"] == form
    assert f"We take it for a {kind} of high severity. Since Monday." in run.output


async def test_the_question_shows_the_guess_ready_to_be_sent_back(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path)
    run = await asked(work)
    (question,) = run.inbox.open_questions
    suggested = question.text.splitlines()[-1]
    await work.machine.say(suggested, question=question.id)
    run = await work.machine.wait()

    assert suggested == "kind=bug severity=normal"
    assert run.common_data["form"] == {"kind": "bug", "severity": "normal"}


@pytest.mark.parametrize("answer", ["a bug", '{"kind": "bug"}', '{"kind": "x", "severity": "low"}'])
async def test_an_answer_that_does_not_fit_the_form_is_refused(tmp_path: Path, answer: str) -> None:
    work = await play(NAME, tmp_path)
    run = await asked(work)
    await work.machine.say(answer, question=answer_to(run))
    run = await work.machine.settled()
    await work.machine.stop()

    (refused,) = (e.event for e in work.events if isinstance(e.event, AnswerRefused))
    assert ("write kind=... severity=..., or JSON" in refused.reason) is (answer == "a bug")
    assert len(run.inbox.open_questions) == 1


async def test_words_beside_the_form_begin_the_triage_again(tmp_path: Path) -> None:
    work = await play(NAME, tmp_path)
    await asked(work)
    await work.machine.say("Only on Windows.", unasked=True)
    run = await work.machine.settled()
    await work.machine.stop()

    assert work.states() == ["start", "confirm", "start", "confirm"]
    assert "Only on Windows." in [m.text for m in run.contexts["desk"]]

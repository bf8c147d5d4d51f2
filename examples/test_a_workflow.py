"""Tests of a workflow: no model, no network and no waiting, and each meets the run where it wants to.

    pip install pytest pytest-asyncio
    pytest examples/test_a_workflow.py

The workflow stands here to be read. One of a workspace is started by its name, one that is written in
Python as it is.
"""

import contextlib
from pathlib import Path

import pytest

import midstream
from midstream.testing import Gate, JumpingClock, Scripted, ScriptedModel, says

pytestmark = pytest.mark.asyncio

RELEASE = {
    "workflow_name": "release",
    "contexts": [{"name": "notes"}],
    "agents": [{"agent_role": "writer", "context": "notes"}],
    "states": [
        {"name": "start", "agent": "writer", "save_as": "common_data.notes", "next": "ask"},
        {"name": "resume", "agent": "writer", "save_as": "common_data.notes", "next": "ask"},
        {
            "name": "ask",
            "ask": {
                "question": "Publish this?\n${common_data.notes}",
                "choices": ["yes", "no"],
                "deadline_s": 3600,
                "on_timeout": "default",
                "default": "no",
            },
            "save_as": "common_data.answer",
            "transitions": [
                {"when": "common_data.answer == 'yes'", "to": "publish"},
                {"to": "stop"},
            ],
        },
        {"name": "publish", "tool": "publish", "arguments": {"notes": "${common_data.notes}"}},
        {"name": "stop", "input": "common_data.answer"},
    ],
}


class Place:
    """A folder with a journal, and what was published from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.published: list[str] = []

    def open(
        self, *replies: str | Scripted, clock: JumpingClock | None = None
    ) -> contextlib.AbstractAsyncContextManager[midstream.Engine]:
        """Open an engine whose model gives these replies, as a new process would."""

        def publish(notes: str) -> str:
            """Publish the notes."""
            self.published.append(notes)
            return "published"

        return midstream.open(
            self.folder,
            model=ScriptedModel(*replies),
            journal=self.folder / "runs.db",
            tools=[publish],
            clock=clock,
        )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a place where nobody's own settings count."""
    for each in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"MIDSTREAM_{each}_HOME", str(tmp_path / each))
    return Place(tmp_path)


async def test_a_yes_publishes_the_notes(place: Place) -> None:
    """The simplest one: a scripted reply, and the answer."""
    async with place.open("It is faster.") as engine:
        run = await engine.start(RELEASE, "1.1", allowed=["publish"])
        assert await run.wait(["yes"]) == "yes"
    assert place.published == ["It is faster."]


async def test_words_in_mid_sentence_change_what_is_asked(place: Place) -> None:
    """The gate holds the reply after its first piece: that is where the words come."""
    gate = Gate()
    async with place.open(says("It is ", "faster.", gate=gate, after=1), "It is safer.") as engine:
        run = await engine.start(RELEASE, "1.1")
        await gate.reached()
        await run.say("it is about safety")
        assert await run.wait(["no"]) == "no"
        assert run.data["interrupted_text"] == "It is "
        assert run.data["notes"] == "It is safer."
    assert place.published == []


async def test_nothing_is_published_when_nobody_answers_for_an_hour(place: Place) -> None:
    """The clock stands still until the test moves it."""
    clock = JumpingClock()
    async with place.open("It is faster.", clock=clock) as engine:
        run = await engine.start(RELEASE, "1.1", allowed=["publish"])
        async for event in run.events():
            if isinstance(event, midstream.TimerSet):
                clock.jump(3600)
        assert run.output == "no"
    assert place.published == []


async def test_a_question_outlives_the_process(place: Place) -> None:
    """Leaving the block lets go of the run, as the end of a process does."""
    async with place.open("It is faster.") as engine:
        run = await engine.start(RELEASE, "1.1", allowed=["publish"])
        await anext(e async for e in run.events() if isinstance(e, midstream.QuestionAsked))
    async with place.open() as engine:
        run = await engine.resume(run.id)
        await run.answer(run.questions[0], "yes")
        await run.wait()
    assert place.published == ["It is faster."]

"""AICoderConsole over real runs: lines with a policy of their own, and lines that wait."""

from pathlib import Path
from typing import Any

import pytest
from scene_kit import WORKFLOWS, WORKS, scene

from midstream.core.events import AgentResponded, InputDisposed, InputReceived, QuestionAnswered
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import Gate, asks, says

PARALLEL: dict[str, Any] = {
    **WORKS,
    "states": [
        {"name": "start", "parallel": ["left", "right"]},
        {"name": "left", "agent": "ada"},
        {"name": "right", "agent": "ada"},
        {"name": "stop"},
    ],
}


async def test_a_queued_line_waits_with_its_fate_and_is_delivered_when_the_turn_is_over(
    tmp_path: Path,
) -> None:
    gate = Gate()
    async with scene(tmp_path, says("Bu", "sy.", gate=gate, after=1), "The tests, too.") as made:
        await made.type("/workflow review")
        await gate.reached()
        status = made.console.status()
        assert (status.enter, status.tab) == ("interrupts ada", "queues")

        await made.send("and the tests?", policy="queue")
        [line] = made.console.waiting_inputs()
        assert (line.text, line.fate) == ("and the tests?", "waits until start is done")
        gate.open()
        await made.ui.until("run_finished")
        assert [fact.disposition for fact in made.ui.of(InputDisposed)] == ["queued"]
        assert made.ui.of(AgentResponded)[0].text == "Busy."


async def test_a_queued_line_answers_no_question_that_is_open(tmp_path: Path) -> None:
    async with scene(tmp_path, asks("Which?"), "Good.") as made:
        await made.type("/workflow review")
        await made.asked()
        await made.send("the docs, later", seen=made.in_view(), policy="queue")
        assert made.ui.of(QuestionAnswered) == []
        assert [fact.handling for fact in made.ui.of(InputReceived)] == ["queue"]
        assert made.console.status().enter == "answers #1"


async def test_a_queued_line_to_nobody_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WORKFLOWS, "parallel", PARALLEL)
    gates = [Gate(), Gate()]
    script = [says("Well, ", "yes.", gate=gate, after=1) for gate in gates]
    async with scene(tmp_path, *script) as made:
        await made.type("/workflow parallel")
        for gate in gates:
            await gate.reached()
        result = await made.send("@lefft shorter", policy="queue")
        assert result.reason == "No branch 'lefft' is at work. Did you mean @left?"
        await made.send("@left shorter", policy="queue")
        [line] = made.console.waiting_inputs()
        assert (line.text, line.fate) == ("@left shorter", "waits until left is done")


async def test_where_words_queue_anyway_tab_is_not_said_to_do_anything_else(
    tmp_path: Path,
) -> None:
    gate = Gate()
    async with scene(tmp_path, says("Bu", "sy.", gate=gate, after=1)) as made:
        assert made.console.status().tab == ""
        await made.type("/workflow patient")
        await gate.reached()
        status = made.console.status()
        assert (status.enter, status.tab) == ("waits until start is done", "")


async def test_a_line_kept_for_a_run_nobody_runs_is_listed_and_can_be_taken_back(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    dying = store.beside()
    async with (
        scene(tmp_path / "a", says("Busy", gate=Gate()), store=dying) as owner,
        scene(tmp_path / "b", store=store.beside()) as other,
    ):
        await owner.type("/workflow review")
        await owner.thinking()
        id = owner.engine.machines()[0].id
        await other.type(f"/attach {id[:4]}")
        dying.die()
        await other.ui.told("its process has ended")
        await other.type("and the tests?")
        [line] = other.console.waiting_inputs()
        assert (line.text, line.brief) == ("and the tests?", "kept")
        assert await other.console.take_back() == "and the tests?"
        assert other.console.waiting_inputs() == ()


async def test_words_to_the_one_agent_at_work_are_no_answer_to_what_it_asks(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, asks("Which?"), "All right.") as made:
        await made.type("/workflow review")
        await made.asked()
        assert made.console.status().addressees == {"ada": "interrupts ada"}
        assert [word for word, _ in made.console.completions("@a")] == ["@ada"]

        await made.type("@ada do it differently")
        await made.ui.until("run_finished")
        assert made.ui.of(QuestionAnswered) == []
        assert [fact.text for fact in made.ui.of(InputReceived)] == ["do it differently"]

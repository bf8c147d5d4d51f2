"""AICoderConsole over real runs: whom each line reaches, and what is said of runs out of sight."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from scene_kit import DEADLINE_S, Scene, scene

from midstream.core.events import AgentResponded, QuestionAnswered, RunStarted
from midstream.core.question import Decision
from midstream.testing.fakes import FakeTool, FakeTools, Gate, asks, call, calls, says

# --- lines sent together ----------------------------------------------------------------------


async def test_lines_sent_before_everything_is_loaded_reach_one_chat_in_order(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(DEADLINE_S):
        made = Scene(tmp_path, *(says("Well, ", "yes.") for _ in range(3)))
        async with asyncio.TaskGroup() as group:
            for line in ("one", "two", "three"):
                group.create_task(made.type(line))
            await made.equip()
        await made.engine.machines()[0].settled()
        assert len(made.engine.machines()) == 1
        inbox = made.engine.machines()[0].run.inbox.lines.values()
        assert [record.text for record in inbox] == ["one", "two", "three"]
        assert None not in [record.disposition for record in inbox]
        await made.console.close()


async def test_of_two_lines_typed_at_once_to_a_chat_that_waits_the_second_interrupts(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, "Hello.", says("Well", gate=Gate()), "Heard.") as made:
        await made.type("hi")
        machine = made.engine.machines()[0]
        await machine.settled()
        async with asyncio.TaskGroup() as group:
            group.create_task(made.type("one"))
            group.create_task(made.type("two"))
        handled = [record.handling for record in machine.run.inbox.lines.values()]
        assert handled == ["answer", "answer", "interrupt"]


async def test_a_mention_of_no_file_is_said_and_the_line_is_sent_all_the_same(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, "Which picture?", "Fine.") as made:
        await made.type("@nope.png what is this")
        assert "No such file here: nope.png. Your words went as they are." in made.ui.said
        [machine] = made.engine.machines()
        await machine.settled()
        assert made.model.requests[-1].messages[-1].text == "@nope.png what is this"
        said = len(made.ui.said)
        await made.type("@dataclass and @types/node")
        assert not any("No such file" in line for line in made.ui.said[said:])


async def test_a_line_right_behind_a_command_goes_where_the_command_led(tmp_path: Path) -> None:
    async with scene(tmp_path, says("Ada works", gate=Gate()), "Ada heard.") as made:
        async with asyncio.TaskGroup() as group:
            group.create_task(made.type("/workflow review"))
            group.create_task(made.type("look at the names"))
        names = [fact.workflow for fact in made.ui.of(RunStarted)]
        assert names == ["review"]
        assert "look at the names" in [
            record.text for record in made.engine.machines()[0].run.inbox.lines.values()
        ]


# --- runs in the background -------------------------------------------------------------------


async def test_a_question_of_a_run_in_the_background_is_announced_and_counted(
    tmp_path: Path,
) -> None:
    later = Gate()
    question = replace(asks("Which one?"), gate=later)
    async with scene(tmp_path, says("Hm", gate=Gate()), question, says("Good.")) as made:
        await made.type("/workflow review")
        await made.type("/interrupt think again")
        await made.type("/role coder")
        short = made.engine.machines()[0].id[:4]
        words = f"review ({short}) goes on in the background: /workflow review returns to it."
        assert words in made.ui.said
        later.open()
        await made.asked()
        said = made.ui.said[-1]
        assert said == (
            f"review ({short}), in the background: #1 ada asks: Which one?  (/answer {short} TEXT)"
        )
        assert made.console.open_questions() == ()
        assert "1 waits for you in the background" in made.console.status().notes

        await made.type("/workflow review")
        await made.type("/role coder")
        assert f"review ({short}) waits in the background: /workflow review returns to it." in (
            made.ui.said
        )
        await made.type("/workflow review")
        assert made.console.status().enter == "answers #1"
        assert (await made.type("the first")).kind == "taken"
        await made.ui.until("question_answered")
        assert [fact.answer for fact in made.ui.of(QuestionAnswered)] == ["the first"]


async def test_a_workflow_that_ends_in_the_background_leaves_the_mode_and_is_named(
    tmp_path: Path,
) -> None:
    gate = Gate()
    async with scene(tmp_path, says("Do", "ne.", gate=gate, after=1)) as made:
        await made.type("/workflow review")
        await gate.reached()
        await made.type("/role coder")
        gate.open()
        await made.ui.until("run_finished")
        assert str(made.session.switching.mode) == "role:coder"
        short = made.engine.machines()[0].id[:4]
        assert made.ui.said[-1] == (
            f"review ({short}) finished in the background. /last shows what it did."
        )


async def test_the_name_of_a_workflow_again_turns_to_its_next_run(tmp_path: Path) -> None:
    async with scene(tmp_path, asks("First?"), asks("Second?")) as made:
        await made.type("/workflow review one")
        await made.asked()
        await made.type("/workflow review two")
        await made.asked(2)
        older, newer = made.engine.machines()
        assert made.session.active() is newer
        await made.type("/workflow review")
        assert made.session.active() is older
        await made.type("/workflow review")
        assert made.session.active() is newer


async def test_two_runs_questions_never_share_an_id_on_the_screen(tmp_path: Path) -> None:
    async with scene(tmp_path, asks("First?"), asks("Second?"), "Done.") as made:
        await made.type("/workflow review")
        await made.asked()
        first = made.in_view()
        await made.type("/workflow survey")
        await made.asked(2)
        second = made.in_view()
        assert not first & second

        # Begun under the first run's card, sent under the second's: that takes asking.
        result = await made.console.submit("yes", seen=first)
        assert result.kind == "unclear"
        assert result.question in second
        result = await made.send("yes", seen=first, answers=next(iter(first)))
        assert result.kind == "returned"
        assert made.ui.of(QuestionAnswered) == []


async def test_an_approval_counts_for_the_run_whose_card_was_shown(tmp_path: Path) -> None:
    write = FakeTool(name="write", effect="once", needs_approval=True)
    tools = FakeTools(write)
    script = (calls(call("write", path="a")), calls(call("write", path="b")), "A.", "B.")
    async with scene(tmp_path, *script, tools=tools) as made:
        await made.type("/workflow review")
        await made.asked()
        [shown] = made.in_view()
        await made.type("/workflow survey")
        await made.asked(2)
        await made.console.approve(shown, Decision(granted=True))
        await made.ui.until("tool_returned")
        review, survey = made.engine.machines()
        assert [called.arguments for called in tools.calls] == [{"path": "a"}]
        assert not review.run.inbox.open_questions
        assert survey.run.inbox.open_questions


# --- what Enter does --------------------------------------------------------------------------


async def test_a_state_that_takes_no_words_says_so_before_they_are_sent(tmp_path: Path) -> None:
    gate = Gate()
    async with scene(tmp_path, says("Busy", gate=gate)) as made:
        await made.type("/workflow deaf")
        await gate.reached()
        assert made.console.status().enter == "is not accepted now"
        result = await made.type("hello?")
        assert result.kind == "returned"
        assert "accepts no input" in result.reason


async def test_a_turn_that_waits_for_the_person_can_be_stopped(tmp_path: Path) -> None:
    async with scene(tmp_path, asks("Which?")) as made:
        await made.type("hello")
        await made.asked()
        status = made.console.status()
        assert (status.busy, status.thinking) == (True, "")
        await made.console.halt()
        assert made.console.open_questions() == ()
        assert made.console.status().enter == "resumes"


async def test_a_new_instruction_is_none_of_the_answers_it_could_be(tmp_path: Path) -> None:
    async with scene(tmp_path, asks("Which?"), "All right.") as made:
        await made.type("hello")
        await made.asked()
        await made.send("do it differently", seen=made.in_view())
        await made.ui.until("agent_responded", lambda event: event.text == "All right.")
        answers = [fact.answer for fact in made.ui.of(QuestionAnswered)]
        assert answers == ["hello"]


# --- lines that wait --------------------------------------------------------------------------


async def test_a_line_that_waits_can_be_taken_back(tmp_path: Path) -> None:
    gate = Gate()
    async with scene(tmp_path, says("Bu", "sy.", gate=gate, after=1)) as made:
        await made.type("/workflow patient")
        await gate.reached()
        for words in ("first", "second"):
            await made.type(words)
        assert [w.text for w in made.console.waiting_inputs()] == ["first", "second"]
        assert await made.console.take_back() == "second"
        assert [w.text for w in made.console.waiting_inputs()] == ["first"]
        assert await made.console.take_back() == "first"
        assert await made.console.take_back() is None
        gate.open()
        await made.ui.until("run_finished")
        assert [fact.text for fact in made.ui.of(AgentResponded)] == ["Busy."]


async def test_a_line_sent_as_its_run_ends_comes_back(tmp_path: Path) -> None:
    async with scene(tmp_path, says("Busy", gate=Gate())) as made:
        await made.type("/workflow patient")
        await made.thinking()
        [machine] = made.engine.machines()
        async with asyncio.TaskGroup() as group:
            group.create_task(machine.stop())
            sent = group.create_task(made.type("and the tests?"))
        assert sent.result().kind == "returned"


@pytest.mark.parametrize("chosen", [None, "role:coder"])
async def test_a_workflow_that_ended_leaves_the_file_the_mode_that_was_chosen(
    tmp_path: Path, chosen: str | None
) -> None:
    file = tmp_path / "application.json"
    if chosen is not None:
        file.write_text(f'{{"currentMode": "{chosen}"}}')
    async with scene(tmp_path, asks("Which one?"), "Done.") as made:
        await made.type("/workflow review")
        await made.asked()
        await made.type("the first")
        await made.ui.until("run_finished")
    assert json.loads(file.read_text()) == ({"currentMode": chosen} if chosen else {})


async def test_the_mode_of_the_command_line_is_of_this_session(tmp_path: Path) -> None:
    file = tmp_path / "application.json"
    async with scene(tmp_path, "Done.", "Hello.", mode="workflow:review") as made:
        await made.ui.until("run_finished")
        await made.type("hello")
        assert str(made.session.switching.mode) == "role:dude"
    assert not file.exists()
    async with scene(tmp_path, mode="role:coder") as made:
        await made.type("/role dude")
    assert json.loads(file.read_text()) == {"currentMode": "role:dude"}

"""Runs a console leaves, finds again, takes up, and shares with other consoles."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from scene_kit import WORKFLOWS, scene
from support.store_contracts import started, told

from midstream.core import events as e
from midstream.core.notices import JournalWorks
from midstream.language.errors import JournalFull
from midstream.language.names import Json
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import FakeTool, FakeTools, Gate, asks, call, says
from midstream.views.listing import HEADLESS


def settings(home: Path, text: str) -> None:
    (home / "application.json").write_text(text, encoding="utf-8")


async def left_at_a_question(home: Path, store: MemoryStore) -> str:
    """Return the id of a run that a console left at its question; the mode is saved."""
    async with scene(home, asks("Which one?"), store=store) as first:
        await first.type("/workflow review")
        await first.asked()
        return first.engine.machines()[0].id


# --- leaving ----------------------------------------------------------------------------------


async def test_leaving_says_which_runs_go_on_later_and_ends_none(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scene(tmp_path, asks("Which one?"), store=store.beside()) as made:
        await made.type("/workflow review")
        await made.asked()
        id = made.engine.machines()[0].id
    assert made.ui.said[-1] == (
        f"review ({id}) is kept: `midstream send {id[:4]} TEXT` answers it, and /resume {id[:4]} or "
        f"`midstream resume {id[:4]}` goes on."
    )
    assert made.ui.of(e.RunStopped) == []
    [kept] = await store.listing()
    assert (kept.summary.status, kept.summary.asking, kept.owner) == ("running", ("q1",), "")


async def test_a_chat_that_only_waits_is_left_without_a_word_and_found_without_one(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    async with scene(tmp_path, "Hello.", store=store.beside()) as made:
        await made.type("hello")
        await made.engine.machines()[0].settled()
    assert made.ui.said == []
    async with scene(tmp_path, store=store.beside()) as later:
        assert later.ui.said == []


async def test_a_once_tool_that_runs_is_stopped_softly_before_its_run_is_left(
    tmp_path: Path,
) -> None:
    tools = FakeTools(FakeTool(name="shell", effect="once", gate=Gate()))
    async with scene(tmp_path, call("shell"), tools=tools) as made:
        await made.type("/workflow review")
        await made.ui.until("tool_called")
    assert [called.ended for called in tools.calls] == ["stopped"]
    assert made.ui.kinds()[-1] == "tool_returned"


# --- starting ---------------------------------------------------------------------------------


async def test_a_run_that_was_left_is_announced_and_not_started_again(tmp_path: Path) -> None:
    store = MemoryStore()
    id = await left_at_a_question(tmp_path, store.beside())
    async with scene(tmp_path, store=store.beside()) as made:
        assert made.ui.said[0] == (
            f"{id}  review [start]: was left, waits for your answer: /resume {id[:4]} goes on."
        )
        assert "The mode is role:dude: review is not started again" in made.ui.said[1]
        assert made.ui.of(e.RunStarted) == []
        assert str(made.session.switching.mode) == "role:dude"


async def test_a_run_of_another_console_is_not_started_a_second_time(tmp_path: Path) -> None:
    settings(tmp_path, '{"currentMode": "workflow:review"}')
    store = MemoryStore()
    async with scene(tmp_path / "a", asks("Which one?"), store=store.beside()) as owner:
        await owner.type("/workflow review")
        await owner.asked()
        id = owner.engine.machines()[0].id
        async with scene(tmp_path, store=store.beside()) as other:
            assert other.ui.of(e.RunStarted) == []
            assert str(other.session.switching.mode) == "role:dude"
            assert f"/attach {id[:4]} sends your lines to it" in other.ui.said[0]


async def test_resume_opens_the_question_again_and_its_answer_counts(tmp_path: Path) -> None:
    store = MemoryStore()
    id = await left_at_a_question(tmp_path, store.beside())
    async with scene(tmp_path, "The first it is.", store=store.beside()) as made:
        assert (await made.type(f"/resume {id[:4].upper()}")).kind == "taken"
        assert "Which one?" in made.ui.said
        assert str(made.session.switching.mode) == "workflow:review"
        assert made.console.status().enter == "answers #1"
        await made.type("the first")
        await made.ui.until("run_finished")
        assert [fact.answer for fact in made.ui.of(e.QuestionAnswered)] == ["the first"]


async def test_with_auto_resume_a_run_that_was_cut_goes_on_at_once_and_has_the_lines(
    tmp_path: Path,
) -> None:
    settings(tmp_path, '{"autoResume": true}')
    store = MemoryStore()
    dying = store.beside()
    async with scene(tmp_path, says("Half a th", gate=Gate()), store=dying) as first:
        await first.type("/workflow review")
        await first.ui.until("text_delta")
        dying.die()
    async with scene(tmp_path, "All of it.", store=store.beside()) as made:
        await made.ui.until("run_finished")
        assert [fact.was_cut for fact in made.ui.of(e.RunRecovered)] == [True]
        assert [fact.text for fact in made.ui.of(e.AgentResponded)] == ["All of it."]


async def test_words_that_waited_when_the_process_died_are_delivered_once(tmp_path: Path) -> None:
    store = MemoryStore()
    dying = store.beside()
    async with scene(tmp_path, says("Busy", gate=Gate()), store=dying) as first:
        await first.type("/workflow patient")
        await first.thinking()
        await first.type("and the tests?")
        dying.die()
    async with scene(tmp_path, "Busy no more.", "The tests too.", store=store.beside()) as made:
        await made.type("/resume")
        assert [w.text for w in made.console.waiting_inputs()] == ["and the tests?"]
        await made.ui.until("run_finished")
        [machine] = made.engine.machines()
        assert [r.disposition for r in machine.run.inbox.lines.values()] == ["queued"]
        heard = [message.text for message in made.model.requests[-1].messages]
        assert heard.count("and the tests?") == 1


async def test_a_changed_workflow_is_told_and_three_ways_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    id = await left_at_a_question(tmp_path, store.beside())
    changed: dict[str, Json] = {**WORKFLOWS["review"], "description": "other"}
    monkeypatch.setitem(WORKFLOWS, "review", changed)
    async with scene(tmp_path, "Done.", store=store.beside()) as made:
        result = await made.type("/resume")
        assert result.kind == "returned"
        for words in ("description: changed", f"/resume {id[:4]} old", "new", "stop"):
            assert words in result.reason
        assert made.engine.machines() == ()
        assert (await made.type(f"/resume {id} new")).kind == "taken"
        assert "definition_changed" in made.ui.kinds()


async def test_a_changed_workflow_can_be_stopped_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    await left_at_a_question(tmp_path, store.beside())
    changed: dict[str, Json] = {**WORKFLOWS["review"], "description": "other"}
    monkeypatch.setitem(WORKFLOWS, "review", changed)
    async with scene(tmp_path, store=store.beside()) as made:
        await made.type("/resume stop")
        [kept] = await store.listing()
        assert kept.summary.status == "stopped"


# --- several consoles -------------------------------------------------------------------------


async def test_a_run_of_another_console_is_attached_answered_and_detached(tmp_path: Path) -> None:
    store = MemoryStore()
    async with (
        scene(tmp_path / "a", asks("Which one?"), "Good.", store=store.beside()) as owner,
        scene(tmp_path / "b", store=store.beside()) as other,
    ):
        await owner.type("/workflow review")
        await owner.asked()
        id = owner.engine.machines()[0].id
        assert any(
            id in line and "another process" in line
            for line in await other.session.background.lines()
        )
        assert (await other.type(f"/attach {id[:4]}")).kind == "taken"
        assert [q.text for q in other.console.open_questions()] == ["Which one?"]
        await other.type("/detach")
        assert other.console.open_questions() == ()
        await other.type(f"/attach {id[:5]}")
        assert (await other.type("the second")).kind == "taken"
        await owner.ui.until("run_finished")
        await other.ui.until("run_finished")
        assert str(other.session.switching.mode) == "role:dude"
        assert [fact.answer for fact in owner.ui.of(e.QuestionAnswered)] == ["the second"]


async def test_attaching_to_a_run_that_has_ended_says_where_to_read_what_it_did(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    async with scene(tmp_path / "a", "Good.", store=store.beside()) as owner:
        await owner.type("/workflow review")
        await owner.ui.until("run_finished")
        id = owner.engine.machines()[0].id
    async with scene(tmp_path / "b", store=store.beside()) as other:
        refused = await other.type(f"/attach {id[:4]}")
    assert refused.reason == (
        f"Run {id} has ended. `midstream show {id}` says how it ended, `midstream events {id}` what it "
        f"did, and `midstream fork {id}` goes on from an earlier point of it."
    )


async def test_a_run_whose_process_dies_while_it_is_watched_goes_on_here(tmp_path: Path) -> None:
    store = MemoryStore()
    dying = store.beside()
    async with (
        scene(tmp_path / "a", asks("Which one?"), store=dying) as owner,
        scene(tmp_path / "b", "Good.", store=store.beside()) as other,
    ):
        await owner.type("/workflow review")
        await owner.asked()
        id = owner.engine.machines()[0].id
        await other.type(f"/attach {id[:4]}")
        dying.die()
        asks_here = f"The run is kept: /resume {id[:4]} shows its question here."
        gone = f"review ({id[:4]}): its process has ended. {asks_here}"
        await other.ui.told(gone)
        assert (await other.type("the second")).kind == "taken"
        assert other.ui.said[-1].endswith(f"/resume {id[:4]} goes on with it here.")
        await other.type(f"/resume {id[:4]}")
        await other.ui.until("run_finished")
        assert [fact.answer for fact in other.ui.of(e.QuestionAnswered)] == ["the second"]


async def test_a_run_that_is_watched_is_at_work_no_more_once_its_process_has_died(
    tmp_path: Path,
) -> None:
    store, gate = MemoryStore(), Gate()
    dying = store.beside()
    async with (
        scene(tmp_path / "a", says("Half", " done.", gate=gate, after=1), store=dying) as owner,
        scene(tmp_path / "b", "All of it.", store=store.beside()) as other,
    ):
        await owner.type("/workflow review")
        await gate.reached()
        id = owner.engine.machines()[0].id
        await other.type(f"/attach {id[:4]}")
        status = other.console.status()
        assert (status.enter, status.busy) == ("interrupts ada", True)
        dying.die()
        await other.ui.told("its process has ended")
        status = other.console.status()
        assert [lane.doing for lane in status.lanes] == ["stands still: no process runs it"]
        assert (status.enter, status.tab) == ("is kept until the run goes on", "")
        assert not status.busy
        await other.type(f"/resume {id[:4]}")
        await other.ui.until("run_finished")


async def test_a_question_that_resuming_asks_is_not_announced_as_one_out_of_sight(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    dying = store.beside()
    tools = FakeTools(FakeTool(name="send", gate=Gate(), effect="once"))
    async with scene(tmp_path, call("send"), tools=tools, store=dying) as first:
        await first.type("/workflow review")
        await first.ui.until("tool_called")
        dying.die()
    async with scene(tmp_path, tools=tools, store=store.beside()) as made:
        await made.type("/resume")
        assert any("What became of it?" in line for line in made.ui.said)
        assert not any("in the background" in line for line in made.ui.said)


async def test_a_question_out_of_sight_is_answered_without_going_there(tmp_path: Path) -> None:
    async with scene(tmp_path, asks("Which one?"), "Good.") as made:
        await made.type("/workflow review")
        await made.asked()
        await made.type("/role coder")
        id = made.engine.machines()[0].id
        assert (await made.type(f"/answer {id[:4]} the third")).kind == "taken"
        await made.ui.until("run_finished")
        assert str(made.session.switching.mode) == "role:coder"
        assert [fact.answer for fact in made.ui.of(e.QuestionAnswered)] == ["the third"]


async def test_words_to_a_run_that_asks_nothing_are_no_answer(tmp_path: Path) -> None:
    async with scene(tmp_path, says("Busy", gate=Gate())) as made:
        await made.type("/workflow patient")
        await made.thinking()
        id = made.engine.machines()[0].id
        result = await made.type(f"/answer {id[:4]} yes")
        assert result.reason == f"It asks nothing now: /send {id[:4]} TEXT sends it a message."
        await made.type("/role coder")
        await made.type(f"/send {id[:4]} hurry up")
        told = f"patient ({id[:4]}): your line is delivered when its state is done"
        assert made.ui.said[-1] == told


async def test_words_for_a_run_nobody_runs_are_kept_for_whoever_takes_it_up(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    id = await left_at_a_question(tmp_path, store.beside())
    async with scene(tmp_path, "As you say.", store=store.beside()) as made:
        assert (await made.type(f"/answer {id[:4]} the fourth")).kind == "taken"
        assert made.ui.of(e.QuestionAnswered) == []
        await made.type("/resume")
        await made.ui.until("run_finished")
        assert [fact.answer for fact in made.ui.of(e.QuestionAnswered)] == ["the fourth"]


async def test_a_run_that_goes_on_elsewhere_cannot_be_resumed_here(tmp_path: Path) -> None:
    store = MemoryStore()
    async with (
        scene(tmp_path / "a", asks("Which one?"), store=store.beside()) as owner,
        scene(tmp_path / "b", store=store.beside()) as other,
    ):
        await owner.type("/workflow review")
        await owner.asked()
        id = owner.engine.machines()[0].id
        result = await other.type(f"/resume {id}")
        assert (
            result.reason
            == f"Another engine of this process runs {id}. /attach {id[:4]} goes to it."
        )


async def test_an_unknown_or_unclear_run_is_told(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        assert (
            "There is no run 'zzzz' in this workspace." in (await made.type("/attach zzzz")).reason
        )
        assert (await made.type("/resume")).reason == (
            "No run is waiting to be resumed. /runs lists all there are."
        )
        assert "Your lines go to the chat already." in (await made.type("/detach")).reason


async def test_run_ids_are_completed(tmp_path: Path) -> None:
    store = MemoryStore()
    id = await left_at_a_question(tmp_path, store.beside())
    async with scene(tmp_path, store=store.beside()) as made:
        [(word, words)] = made.console.completions(f"/resume {id[:2].upper()}")
        assert word == id
        assert words == "review [start]: was left, waits for your answer"


# --- a disk without room ------------------------------------------------------------------------


class _Full(MemoryStore):
    """A store that can be without room."""

    is_full = False

    async def append(self, *args: object) -> None:
        """Keep facts while there is room."""
        if self.is_full:
            raise JournalFull("The disk is full.", hint="Make room.")
        await super().append(*args)  # type: ignore[arg-type]


async def test_a_line_there_is_no_room_for_comes_back_and_is_taken_later(tmp_path: Path) -> None:
    store = _Full()
    async with scene(tmp_path, "Hello.", "Again.", store=store) as made:
        await made.type("hello")
        await made.engine.machines()[0].settled()
        store.is_full = True
        result = await made.type("are you there?")
        assert (result.kind, result.reason) == ("returned", "The disk is full. Make room.")
        assert made.ui.kinds().count("input_received") == 1
        store.is_full = False
        assert (await made.type("are you there?")).kind == "taken"
        await made.ui.until("agent_responded", lambda event: event.text == "Again.")


async def test_a_run_whose_reply_cannot_be_kept_waits_for_room_and_goes_on(tmp_path: Path) -> None:
    store = _Full()
    gate = Gate()
    async with scene(tmp_path, says("Hel", "lo.", gate=gate, after=1), store=store) as made:
        await made.type("/workflow review")
        await gate.reached()
        store.is_full = True
        gate.open()
        await made.ui.until("journal_stalled")
        assert (await made.type("are you there?")).kind == "returned"
        store.is_full = False
        while not made.ui.of(JournalWorks):
            made.clock.jump(1.0)
            await asyncio.sleep(0)
        await made.ui.until("run_finished")
        assert [fact.text for fact in made.ui.of(e.AgentResponded)] == ["Hello."]


async def test_a_run_that_took_its_process_down_too_often_waits_for_a_person(
    tmp_path: Path,
) -> None:
    settings(tmp_path, '{"autoResume": true}')
    store = MemoryStore()
    for number in range(6):
        dying = store.beside()
        async with scene(tmp_path, says("Half a th", gate=Gate()), store=dying) as made:
            if number == 0:
                await made.type("/workflow review")
            await (made.ui.until("text_delta") if number < 5 else made.console.settled())
            dying.die()
    assert made.ui.kinds().count("run_suspended") == 1
    async with scene(tmp_path, "All of it.", store=store.beside()) as later:
        [line] = [line for line in later.ui.said if "suspended, was cut off" in line]
        assert "/resume" in line
        assert later.engine.machines() == ()
        await later.type("/resume")
        await later.ui.until("run_finished")


# --- going back -------------------------------------------------------------------------------


async def test_undo_takes_back_the_last_turn_in_a_copy_that_has_the_lines(tmp_path: Path) -> None:
    async with scene(tmp_path, "One.", "Two.", "Other.") as made:
        for line in ("first", "second"):
            await made.type(line)
            await made.engine.machines()[0].settled()
        assert (await made.type("/undo")).kind == "taken"
        active = made.session.active()
        assert active is not None
        assert active is made.engine.machines()[1]
        assert [r.text for r in active.run.inbox.lines.values()] == ["first"]
        await made.type("another")
        await active.settled()
        heard = [m.text for m in made.model.requests[-1].messages if m.role == "user"]
        assert heard == ["first", "another"]


async def test_an_answer_in_a_workflow_is_undone_and_brought_forward(tmp_path: Path) -> None:
    script = (asks("Which colour?"), asks("And which size?"), "Done.")
    async with scene(tmp_path, *script) as made:

        def open_now() -> list[str]:
            return [question.text for question in made.console.open_questions()]

        await made.type("/workflow review")
        await made.asked()
        await made.type("red")
        await made.asked(2)
        for line, question in (
            ("/undo", "Which colour?"),
            ("/redo", "And which size?"),
            ("/undo", "Which colour?"),
            ("/redo", "And which size?"),
        ):
            assert (await made.type(line)).kind == "taken"
            assert open_now() == [question]
            assert str(made.session.switching.mode) == "workflow:review"
        await made.type("large")
        await made.ui.until("run_finished")
        assert len(made.model.requests) == 3


async def test_what_is_typed_while_it_goes_back_is_for_where_that_leads(tmp_path: Path) -> None:
    async with scene(tmp_path, "One.", "Two.", "Other.") as made:
        for line in ("first", "second"):
            await made.type(line)
            await made.engine.machines()[0].settled()

        lines = ("/undo", "/redo", "/undo", "another")
        done = await asyncio.gather(*(made.type(line) for line in lines))

        assert [each.kind for each in done] == ["taken"] * 4
        active = made.session.active()
        assert active is not None
        await active.settled()
        assert [r.text for r in active.run.inbox.lines.values()] == ["first", "another"]
        assert len(made.engine.machines()) == 4


async def test_fork_leaves_the_run_as_it_is(tmp_path: Path) -> None:
    async with scene(tmp_path, asks("Which one?"), "Good.") as made:
        await made.type("/workflow review")
        await made.asked()
        assert (await made.type("/fork")).kind == "taken"
        old, new = made.engine.machines()
        assert made.session.active() is new
        assert old.run.inbox.open_questions
        assert new.run.inbox.open_questions
        assert (
            await made.type("/fork x")
        ).reason == "'x' is not an event number. /fork SEQ, such as /fork 12."


async def test_chats_of_scripts_that_have_their_reply_hide_no_run(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scene(tmp_path, store=store.beside()) as made:
        workspace = str(made.engine.world.workspace)
    await store.append("left", 0, started("left", workspace=workspace))
    asked = e.QuestionAsked(question_id="q1", number=0, kind="input", text="")
    said = e.InputReceived(input_id="i1", text="hi", source=HEADLESS, handling="answer")
    for number in range(30):
        id = f"chat{number}"
        await store.append(id, 0, started(id, workspace=workspace, kind="chat"))
        await store.append(id, 1, told(id, said, asked, after=1))
    typed = msgspec.structs.replace(said, source="user")
    await store.append("chat7", 3, told("chat7", typed, after=3))
    async with scene(tmp_path, store=store.beside()) as made:
        lines = await made.session.background.lines()

    assert [line.split()[0] for line in lines[:-1]] == ["left", "chat7"]
    assert lines[-1] == "  Others are chats of scripts, answered: midstream runs lists them."


async def test_of_many_runs_the_last_ones_are_listed_and_any_is_found(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scene(tmp_path, store=store.beside()) as made:
        workspace = str(made.engine.world.workspace)
    for number in range(130):
        id = f"run{number:03}"
        (first,) = started(id, workspace=workspace)
        await store.append(id, 0, [msgspec.structs.replace(first, at=float(number))])
    await store.append("run005", 1, told("run005", e.RunFinished(), after=1))
    async with scene(tmp_path, store=store.beside()) as made:
        said = "\n".join(made.ui.said)
        lines = await made.session.background.lines()
        found = await made.session.runs.find_id("RUN000")
        short = made.session.runs.short("run129")

    assert "run110" in said
    assert "run109" not in said
    assert lines[0] == "  There are older ones: midstream runs lists them."
    assert [line.split()[0] for line in lines[1:-1]] == [f"run{n:03}" for n in range(110, 130)]
    assert lines[-1] == "  Others have ended: midstream runs lists them."
    assert found == "run000"
    assert short == "run129"

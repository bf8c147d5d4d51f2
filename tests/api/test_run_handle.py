"""A run as a program holds it does the same wherever it lives: in memory, here, or in another engine."""

import asyncio
import contextlib
import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deadline
import pytest
from api_kit import TALK, Place, here, place, until

import midstream
from midstream.core.notices import Envelope
from midstream.runtime.emitter import Stream
from midstream.runtime.storage import Mail
from midstream.testing import FakeTool, Gate, asks, call, says
from midstream.tools.base import Tool

__all__ = ["here", "place"]


async def test_a_question_is_answered_and_the_output_comes(place: Place) -> None:
    engine = await place.engine(asks("What is your name?"), "Welcome, Ada.")
    run = await place.held(await engine.start(TALK, "greet"))
    asked = await until(run, lambda e: isinstance(e, midstream.QuestionAsked))

    assert await run.settled() == "waiting"
    assert [question.text for question in run.questions] == ["What is your name?"]
    receipt = await run.answer(asked.question_id, "Ada")

    assert receipt.handling == "answer"
    assert await run.wait() == "Welcome, Ada."
    assert (run.status, run.output, run.error) == ("finished", "Welcome, Ada.", "")


async def test_an_answer_to_a_closed_question_is_refused_with_the_reason(place: Place) -> None:
    engine = await place.engine(asks("Sure?"), asks("Really?"), "Done.")
    run = await place.held(await engine.start(TALK))
    first = await until(run, lambda e: isinstance(e, midstream.QuestionAsked))
    await run.answer(first.question_id, "yes")
    await until(run, lambda e: isinstance(e, midstream.QuestionAsked) and e.number == 2)

    receipt = await run.answer(first.question_id, "no")

    assert receipt.handling == "reject"
    assert "already answered" in receipt.reason


async def test_a_question_is_named_by_itself_or_its_id_not_by_its_number(place: Place) -> None:
    engine = await place.engine(asks("Sure?"), "Done.")
    run = await place.at_rest(engine)
    number: Any = run.questions[0].number

    with pytest.raises(midstream.AuthorMistake, match="1 is no question's id"):
        await run.answer(number, "yes")

    assert [question.number for question in run.questions] == [number]


async def test_words_that_are_unasked_answer_nothing_though_a_question_is_open(
    place: Place,
) -> None:
    engine = await place.engine(asks("Sure?"), "As you say.")
    run = await place.at_rest(engine)

    receipt = await run.say("do something else", unasked=True)

    assert receipt.handling == "interrupt"
    assert await run.wait() == "As you say."


async def test_unasked_words_halt_the_stream_and_lead_to_resume(place: Place) -> None:
    gate = Gate()
    engine = await place.engine(says("Once upon ", "a time", gate=gate, after=1), "As you say.")
    run = await place.held(await engine.start(TALK, "tell"))
    await gate.reached()

    receipt = await run.say("no, in one line")
    assert await run.wait() == "As you say."

    assert receipt.handling == "interrupt"
    cut = await until(run, lambda e: isinstance(e, midstream.Interrupted))
    assert (cut.text, cut.partial) == ("no, in one line", "Once upon ")
    assert "resume" in run.run.visits


async def test_a_bare_halt_holds_and_words_go_on(place: Place) -> None:
    gate = Gate()
    engine = await place.engine(says("Well, ", "then", gate=gate, after=1), "Gladly.")
    run = await place.held(await engine.start(TALK, "tell"))
    await gate.reached()

    await run.halt()
    assert await run.settled() == "waiting"

    await run.say("go on")
    assert await run.wait() == "Gladly."


async def test_a_stopped_run_has_no_output_and_says_why(place: Place) -> None:
    engine = await place.engine(asks("Sure?"))
    run = await place.at_rest(engine)

    await run.stop("enough of it")

    assert run.status == "stopped"
    with pytest.raises(midstream.UserMistake, match="was stopped: enough of it"):
        await run.wait()


async def test_a_failed_run_raises_by_whose_fault_it_was(place: Place) -> None:
    engine = await place.engine(midstream.WorldTrouble("The line is dead.", hint="Call again."))
    run = await place.held(await engine.start(TALK))

    with pytest.raises(midstream.WorldTrouble, match=r"The line is dead.*Call again"):
        await run.wait()
    assert run.status == "failed"
    assert "The line is dead." in run.error


async def test_an_approval_is_given_by_the_program(place: Place) -> None:
    done: list[str] = []

    def launch(what: str) -> str:
        """Launch something."""
        done.append(what)
        return "launched"

    engine = await place.engine(call("launch", what="it"), "Launched.", tools=[launch])
    run = await place.at_rest(engine)
    (question,) = run.questions
    assert (question.kind, done) == ("approval", [])

    await run.approve(question)

    assert await run.wait() == "Launched."
    assert done == ["it"]


async def test_a_refused_call_is_not_made_and_the_model_hears_why(place: Place) -> None:
    done: list[str] = []
    engine = await place.engine(call("launch"), "Then not.", tools=[_launching(done)])
    run = await place.at_rest(engine)

    await run.approve(run.questions[0], False, note="not today")

    assert await run.wait() == "Then not."
    returned = await until(run, lambda e: isinstance(e, midstream.ToolReturned))
    assert (returned.outcome, done) == ("denied", [])
    assert "not today" in returned.result


def _launching(done: list[str]) -> Tool:
    @midstream.tool(effect="once", name="launch")
    def launch() -> str:
        """Launch it."""
        done.append("launched")
        return "launched"

    from midstream.tools.base import tool_from

    return tool_from(launch)


async def test_events_are_the_journals_facts_from_any_number_on(place: Place) -> None:
    engine = await place.engine(asks("Sure?"), "Done.")
    run = await place.at_rest(engine)
    await run.say("yes")
    await run.wait()

    facts = await engine.facts(run.id)
    for since in (0, 3, len(facts)):
        heard = [each async for each in run.numbered(since, transient=False)]
        assert heard == facts[since:]
    assert [each async for each in run.events(transient=False)] == [f.event for f in facts]


async def test_a_reader_that_joins_late_misses_no_fact_and_hears_none_twice(place: Place) -> None:
    gate = Gate()
    engine = await place.engine(says("One.", gate=gate), "Two.")
    run = await place.held(await engine.start(TALK))
    await gate.reached()
    readers = [asyncio.create_task(_numbers(run, since)) for since in (0, 1, 2, run.run.seq)]
    gate.open()
    await run.wait()

    for since, reader in zip((0, 1, 2), readers, strict=False):
        assert await reader == list(range(since + 1, run.run.seq + 1))


@pytest.mark.parametrize("end", ["finished", "failed", "stopped"])
async def test_who_comes_after_the_end_gets_all_of_it_and_ends(place: Place, end: str) -> None:
    last = midstream.WorldTrouble("The line is dead.") if end == "failed" else "Done."
    engine = await place.engine(asks("Sure?"), last)
    run = await place.at_rest(engine)
    first = asyncio.create_task(_numbers(run, 0))
    await (run.stop() if end == "stopped" else run.say("yes"))
    waited = [await _outcome(run)]
    whole = await first

    assert whole == [*range(1, run.run.seq + 1)]
    left = run.events()
    await anext(left)  # a reader that stays in the middle holds up nobody
    again = [await engine.get(run.id), run]
    for held in again:
        assert await asyncio.gather(*(_numbers(held, 0) for _ in range(3))) == [whole] * 3
        assert await _numbers(held, whole[-1] or 0) == []
        waited += [await _outcome(held), await _outcome(held, [])]
        assert await held.settled() == run.status == end
        await held.close()
        assert await _numbers(held, 0) == whole
    await left.aclose()
    await place.close()
    assert {*waited, await _outcome(run)} == {waited[0]}, "closing the engine does not change it"


async def test_a_run_that_ends_between_two_looks_at_it_has_been_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place("elsewhere", tmp_path)
    run = await (await place.engine(asks("Sure?"))).start(TALK)
    held = await place.held(run)
    await held.settled()
    store = held._local.store
    undelivered = store.undelivered

    async def late(id: str) -> Sequence[Mail]:
        seen = await undelivered(id)
        await deadline.until(is_let_go)
        return seen

    async def is_let_go() -> bool:
        return not await store.owner_of(run.id)

    monkeypatch.setattr(store, "undelivered", late)
    await held.stop()

    assert held.status == "stopped"
    await place.close()


async def _outcome(run: midstream.RunHandle, answers: list[str] | None = None) -> str:
    """Return what waiting for a run comes to, in words."""
    try:
        return str(await run.wait(answers))
    except midstream.MidstreamError as error:
        return error.what.partition(": ")[0]


async def test_readers_that_begin_at_any_moment_around_the_end_get_every_fact(place: Place) -> None:
    gate = Gate()
    engine = await place.engine(says("One.", gate=gate))
    run = await place.held(await engine.start(TALK))
    await gate.reached()
    gate.open()
    readers = []
    while not run.run.is_over:
        readers.append(asyncio.create_task(_numbers(run, 0)))
        await asyncio.sleep(0.001)
    readers += [asyncio.create_task(_numbers(run, 0)) for _ in range(3)]

    for reader in readers:
        assert await reader == [*range(1, run.run.seq + 1)]


async def _numbers(run: midstream.RunHandle, since: int) -> list[int | None]:
    return [each.seq async for each in run.numbered(since, transient=False)]


async def test_a_fork_goes_on_by_itself_and_leaves_the_run_alone(place: Place) -> None:
    engine = await place.engine(asks("Left or right?"), "Left it is.", "Right it is.")
    run = await place.held(await engine.start(TALK), "Right it is.")
    await run.settled()
    at = run.run.seq
    fork = await run.fork(at)
    await run.say("left")
    assert await run.wait() == "Left it is."

    assert fork.id != run.id
    assert fork.is_here
    assert [question.text for question in fork.questions] == ["Left or right?"]
    await fork.say("right")
    assert await fork.wait() == "Right it is."


def streams() -> int:
    return sum(type(each) is Stream for each in gc.get_objects())


async def test_a_reader_that_leaves_is_forgotten_at_once(place: Place) -> None:
    gate = Gate()
    run = await (await place.engine(says("a ", "b", gate=gate, after=1))).start(TALK)
    held = await place.held(run)
    before = streams()
    async with contextlib.aclosing(held.events()) as events:
        await anext(events)
        assert streams() == before + 1
    assert streams() == before
    gate.open()


async def test_a_reader_in_the_past_ends_when_its_engine_closes(place: Place) -> None:
    gate = Gate()
    run = await (await place.engine(says("a ", "b", gate=gate, after=1))).start(TALK)
    held = await place.held(run)
    await gate.reached()
    events = held.events(transient=False)
    seen = [await anext(events)]
    await place.engines[-1].close()

    seen += [each async for each in events]
    assert isinstance(seen[0], midstream.RunStarted)
    with pytest.raises(midstream.MidstreamError):
        await held.stop()


async def test_cancelling_a_call_never_harms_the_run(place: Place) -> None:
    engine = await place.engine(asks("Sure?"), "Done.")
    run = await place.at_rest(engine)
    for call_of in (run.wait, lambda: run.say("yes", id="once")):
        waiting = asyncio.create_task(call_of())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    await run.say("yes", id="once")

    assert await run.wait() == "Done."


async def test_the_same_id_says_a_line_once(place: Place) -> None:
    engine = await place.engine(asks("Sure?"), asks("Really?"), "Done.")
    run = await place.at_rest(engine)

    first = await run.say("yes", id="key")
    await until(run, lambda e: isinstance(e, midstream.QuestionAsked) and e.number == 2)

    assert await run.say("yes", id="key") == first
    assert [question.text for question in run.questions] == ["Really?"]


async def test_given_answers_are_given_in_order_and_what_lacks_is_said(place: Place) -> None:
    engine = await place.engine(asks("One?"), asks("Two?"), "Done.", asks("One?"), asks("Two?"))

    assert await (await place.held(await engine.start(TALK))).wait(["1", "2"]) == "Done."
    with pytest.raises(midstream.UserMistake, match="waits for what was not given: Two"):
        await (await place.held(await engine.start(TALK))).wait(["1"])


async def test_who_waits_alone_for_the_end_of_a_chat_is_told_where_its_reply_is(
    place: Place,
) -> None:
    engine = await place.engine("Hello.")
    chat = await place.held(await engine.start("role:dude", "Hello!"))

    with pytest.raises(midstream.UserMistake) as caught:
        await chat.wait([])
    assert caught.value.hint == (
        "A chat has no end and no output: await settled(), then read the run's reply."
    )


async def test_the_reply_of_a_chat_is_the_last_that_came_whole(place: Place) -> None:
    gate = Gate()
    engine = await place.engine("Hello.", says("Fine, ", "thanks.", gate=gate, after=1))
    chat = await place.held(await engine.start("role:dude"))
    assert chat.reply == ""
    await chat.say("Hello!")
    await chat.settled()
    assert chat.reply == "Hello."

    await chat.say("How are you?")
    await gate.reached()
    assert chat.reply == "Hello."
    gate.open()
    await chat.settled()
    assert chat.reply == "Fine, thanks."


async def test_text_is_heard_as_it_streams(place: Place) -> None:
    gate = Gate()
    engine = await place.engine(says("Once ", "more", gate=gate, after=0))
    run = await place.held(await engine.start(TALK, "tell"))
    await gate.reached()
    events = run.events()
    heard = [await anext(events)]
    gate.open()
    heard += [each async for each in events]

    words = [each.text for each in heard if isinstance(each, midstream.TextDelta)]
    assert "".join(words) == "Once more"
    assert isinstance(heard[-1], midstream.RunFinished)


async def test_queued_words_wait_for_their_turn_unless_they_are_taken_back(place: Place) -> None:
    gate = Gate()
    engine = await place.engine(says("Once ", "more", gate=gate, after=1), "As you say.")
    run = await place.held(await engine.start("role:dude", "tell"))
    await gate.reached()

    queued = [await run.say(words, policy="queue") for words in ("shorter", "longer")]
    await run.withdraw(queued[1].input_id)
    gate.open()
    await until(run, lambda e: isinstance(e, midstream.AgentResponded) and e.text == "As you say.")
    await run.settled()

    assert [receipt.handling for receipt in queued] == ["queue", "queue"]
    words = [message.text for message in run.run.contexts["chat"]]
    assert words == ["tell", "Once more", "shorter", "As you say."]


async def test_rejected_words_change_nothing(place: Place) -> None:
    gate = Gate()
    engine = await place.engine(says("Once ", "more", gate=gate, after=1))
    run = await place.held(await engine.start(TALK, "tell"))
    await gate.reached()

    receipt = await run.say("stop it", policy="reject")
    gate.open()

    assert (receipt.handling, bool(receipt.reason)) == ("reject", True)
    assert await run.wait() == "Once more"


async def test_one_yes_counts_for_the_rest_of_the_run(place: Place) -> None:
    done: list[str] = []
    twice = (call("launch"), call("launch"), "Launched.")
    engine = await place.engine(*twice, tools=[_launching(done)])
    run = await place.at_rest(engine)

    await run.approve(run.questions[0], for_run=True)

    assert await run.wait() == "Launched."
    assert done == ["launched"] * 2


async def test_a_call_is_made_with_the_arguments_of_the_yes(place: Place) -> None:
    done: list[str] = []

    def launch(what: str, where: str) -> str:
        """Launch something."""
        done.append(f"{what} {where}")
        return "launched"

    wanted = call("launch", what="it", where="here")
    engine = await place.engine(wanted, "Launched.", tools=[launch])
    run = await place.at_rest(engine)

    await run.approve(run.questions[0].id, arguments={"where": "there"})

    assert await run.wait() == "Launched."
    assert done == ["it there"]


async def test_several_open_questions_are_answered_by_name_and_in_any_order(place: Place) -> None:
    schema = {"type": "integer"}
    flow = {
        "workflow_name": "survey",
        "states": [
            {"name": "start", "parallel": ["age", "name"], "save_as": "common_data.said"},
            {"name": "age", "ask": {"question": "Age?", "schema": schema}},
            {"name": "name", "ask": {"question": "Name?"}},
            {"name": "stop"},
        ],
    }
    engine = await place.engine()
    run = await place.held(await engine.start(flow))
    assert await run.settled() == "waiting"
    age, name = sorted(run.questions, key=lambda question: question.text)
    assert run.state == "start"

    with pytest.raises(midstream.UserMistake, match="questions"):
        await run.say("Ada")
    assert (await run.answer(name, "Ada")).handling == "answer"
    assert (await run.answer(age, "old")).handling == "reject"
    assert (await run.answer(age, 36)).handling == "answer"

    await run.settled()
    await run.wait()
    assert run.data["said"] == {"age": 36, "name": "Ada"}


async def test_a_run_is_found_by_the_name_it_was_given(place: Place) -> None:
    engine = await place.engine(asks("Sure?"))
    run = await place.held(await engine.start(TALK))
    assert run.name == ""

    await run.rename("the talk")
    await until(run, lambda e: isinstance(e, midstream.RunRenamed))

    found = await engine.get("the talk")
    assert (found.id, found.name, run.name) == (run.id, "the talk", "the talk")


async def test_a_run_that_is_followed_no_more_goes_on(tmp_path: Path) -> None:
    place = Place("elsewhere", tmp_path)
    engine = await place.engine(asks("Sure?"), "Done.")
    run = await engine.start(TALK)
    held = await place.held(run)
    await run.settled()
    waiting = asyncio.create_task(held.wait())
    await held.close()

    with pytest.raises(midstream.UserMistake, match="does not follow it any more"):
        await waiting
    await run.say("yes")
    assert await run.wait() == "Done."
    await place.close()


async def test_a_run_of_another_process_is_followed_as_long_as_somebody_has_its_handle(
    tmp_path: Path,
) -> None:
    place = Place("elsewhere", tmp_path)
    run = await (await place.engine(asks("Sure?"), "Done.")).start(TALK)
    beside = await place.engine()

    def followers() -> list[asyncio.Task[Any]]:
        return [task for task in asyncio.all_tasks() if task.get_name() == f"follow {run.id}"]

    for _ in range(3):
        assert (await beside.get(run.id)).id == run.id
    await asyncio.wait(followers())

    async with (await beside.get(run.id)).turn(0) as turn:
        gc.collect()
        asked = [each async for each in turn if isinstance(each.event, midstream.QuestionAsked)]
    assert len(asked) == 1
    del turn
    await asyncio.wait(followers())

    await run.say("yes")
    assert await run.wait() == "Done."
    await place.close()


def test_the_fakes_a_test_takes_are_importable_from_one_place() -> None:
    assert FakeTool(name="x").answer == "ok"


async def test_text_that_streams_while_the_past_is_read_comes_before_the_fact_that_ends_it(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, may_read = Gate(), asyncio.Event()
    engine = await here.engine(says("An old ", "pond", gate=gate, after=1), says("Snow"))
    run = await engine.start("role:dude")
    read = engine.local.store.read

    async def slowly(*which: Any) -> list[Envelope]:
        await may_read.wait()
        return await read(*which)

    monkeypatch.setattr(engine.local.store, "read", slowly)
    reading = run.events()
    first = asyncio.ensure_future(anext(reading))
    await asyncio.sleep(0)  # it has subscribed
    await run.say("a haiku")
    await gate.reached()
    await run.say("about snow")
    may_read.set()

    order = [type(await first)]
    while order[-1] is not midstream.Interrupted:
        order.append(type(await anext(reading)))
    await reading.aclose()
    assert midstream.TextDelta in order

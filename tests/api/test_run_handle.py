"""A run as a program holds it does the same wherever it lives: in memory, here, or in another engine."""

import asyncio
import contextlib
import gc

import pytest
from api_kit import TALK, Place, here, place, until
from deadline import DEADLINE_S

import midstream
from midstream.runtime.emitter import Stream
from midstream.testing import FakeTool, Gate, asks, call, says
from midstream.tools.base import Tool

__all__ = ["here", "place"]


async def test_a_question_is_answered_and_the_output_comes(place: Place) -> None:
    async with asyncio.timeout(DEADLINE_S):
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
    async with asyncio.timeout(DEADLINE_S):
        engine = await place.engine(asks("Sure?"), asks("Really?"), "Done.")
        run = await place.held(await engine.start(TALK))
        first = await until(run, lambda e: isinstance(e, midstream.QuestionAsked))
        await run.answer(first.question_id, "yes")
        await until(run, lambda e: isinstance(e, midstream.QuestionAsked) and e.number == 2)

        receipt = await run.answer(first.question_id, "no")

        assert receipt.handling == "reject"
        assert "already answered" in receipt.reason


async def test_unasked_words_halt_the_stream_and_lead_to_resume(place: Place) -> None:
    async with asyncio.timeout(DEADLINE_S):
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
    async with asyncio.timeout(DEADLINE_S):
        gate = Gate()
        engine = await place.engine(says("Well, ", "then", gate=gate, after=1), "Gladly.")
        run = await place.held(await engine.start(TALK, "tell"))
        await gate.reached()

        await run.halt()
        assert await run.settled() == "waiting"

        await run.say("go on")
        assert await run.wait() == "Gladly."


async def test_a_stopped_run_has_no_output_and_says_why(place: Place) -> None:
    async with asyncio.timeout(DEADLINE_S):
        engine = await place.engine(asks("Sure?"))
        run = await place.held(await engine.start(TALK))
        await run.settled()

        await run.stop("enough of it")

        assert run.status == "stopped"
        with pytest.raises(midstream.UserMistake, match="was stopped: enough of it"):
            await run.wait()


async def test_a_failed_run_raises_by_whose_fault_it_was(place: Place) -> None:
    async with asyncio.timeout(DEADLINE_S):
        engine = await place.engine(midstream.WorldTrouble("The line is dead.", hint="Call again."))
        run = await place.held(await engine.start(TALK))

        with pytest.raises(midstream.WorldTrouble, match=r"The line is dead.*Call again"):
            await run.wait()
        assert run.status == "failed"
        assert "The line is dead." in run.error


async def test_an_approval_is_given_by_the_program(place: Place) -> None:
    async with asyncio.timeout(DEADLINE_S):
        done: list[str] = []

        def launch(what: str) -> str:
            """Launch something."""
            done.append(what)
            return "launched"

        engine = await place.engine(call("launch", what="it"), "Launched.", tools=[launch])
        run = await place.held(await engine.start(TALK))
        await run.settled()
        (question,) = run.questions
        assert (question.kind, done) == ("approval", [])

        await run.approve(question)

        assert await run.wait() == "Launched."
        assert done == ["it"]


async def test_a_refused_call_is_not_made_and_the_model_hears_why(place: Place) -> None:
    async with asyncio.timeout(DEADLINE_S):
        done: list[str] = []
        engine = await place.engine(call("launch"), "Then not.", tools=[_launching(done)])
        run = await place.held(await engine.start(TALK))
        await run.settled()

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
    async with asyncio.timeout(DEADLINE_S):
        engine = await place.engine(asks("Sure?"), "Done.")
        run = await place.held(await engine.start(TALK))
        await run.settled()
        await run.say("yes")
        await run.wait()

        facts = await engine.facts(run.id)
        for since in (0, 3, len(facts)):
            heard = [each async for each in run.numbered(since, transient=False)]
            assert heard == facts[since:]
        assert [each async for each in run.events(transient=False)] == [f.event for f in facts]


async def test_a_reader_that_joins_late_misses_no_fact_and_hears_none_twice(place: Place) -> None:
    async with asyncio.timeout(DEADLINE_S):
        gate = Gate()
        engine = await place.engine(says("One.", gate=gate), "Two.")
        run = await place.held(await engine.start(TALK))
        await gate.reached()
        readers = [asyncio.create_task(_numbers(run, since)) for since in (0, 1, 2, run.run.seq)]
        gate.open()
        await run.wait()

        for since, reader in zip((0, 1, 2), readers, strict=False):
            assert await reader == list(range(since + 1, run.run.seq + 1))


async def _numbers(run: midstream.RunHandle, since: int) -> list[int | None]:
    return [each.seq async for each in run.numbered(since, transient=False)]


async def test_a_fork_goes_on_by_itself_and_leaves_the_run_alone(place: Place) -> None:
    async with asyncio.timeout(DEADLINE_S):
        engine = await place.engine(asks("Left or right?"), "Left it is.", "Right it is.")
        run = await engine.start(TALK)
        await run.settled()
        at = run.run.seq
        fork = await run.fork(at)
        await run.say("left")
        assert await run.wait() == "Left it is."

        assert fork.id != run.id
        assert [question.text for question in fork.questions] == ["Left or right?"]
        await fork.say("right")
        assert await fork.wait() == "Right it is."


def streams() -> int:
    return sum(type(each) is Stream for each in gc.get_objects())


async def test_a_reader_that_leaves_is_forgotten_at_once(place: Place) -> None:
    async with asyncio.timeout(DEADLINE_S):
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
    async with asyncio.timeout(DEADLINE_S):
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
    async with asyncio.timeout(DEADLINE_S):
        engine = await place.engine(asks("Sure?"), "Done.")
        run = await place.held(await engine.start(TALK))
        await run.settled()
        for call_of in (run.wait, lambda: run.say("yes", id="once")):
            waiting = asyncio.create_task(call_of())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

        await run.say("yes", id="once")

        assert await run.wait() == "Done."


async def test_the_same_id_says_a_line_once(place: Place) -> None:
    async with asyncio.timeout(DEADLINE_S):
        engine = await place.engine(asks("Sure?"), asks("Really?"), "Done.")
        run = await place.held(await engine.start(TALK))
        await run.settled()

        first = await run.say("yes", id="key")
        await until(run, lambda e: isinstance(e, midstream.QuestionAsked) and e.number == 2)

        assert await run.say("yes", id="key") == first
        assert [question.text for question in run.questions] == ["Really?"]


async def test_given_answers_are_given_in_order_and_what_lacks_is_said(here: Place) -> None:
    async with asyncio.timeout(DEADLINE_S):
        engine = await here.engine(asks("One?"), asks("Two?"), "Done.", asks("One?"), asks("Two?"))

        assert await (await engine.start(TALK)).wait(["1", "2"]) == "Done."
        with pytest.raises(midstream.UserMistake, match="waits for what was not given: Two"):
            await (await engine.start(TALK)).wait(["1"])


def test_the_fakes_a_test_takes_are_importable_from_one_place() -> None:
    assert FakeTool(name="x").answer == "ok"

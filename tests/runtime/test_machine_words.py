"""say() and its kin: whoever calls, whenever, however often, each line ends in exactly one way."""

import asyncio

import msgspec
import pytest
from machine_kit import PLAIN, RESUMING, START, at_rest, flow, rounds, running, scene

from midstream.core.events import InputReceived, Interrupted, Usage
from midstream.core.run import Run
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.language.names import REQUEST_USERS_INPUT as ASK
from midstream.testing.fakes import FakeJournal, Gate, asks, call, calls, says

WAITING = flow({**START, "awaits_input": True, "next": "start"})


async def test_the_same_id_changes_nothing_and_gets_the_same_receipt() -> None:
    gate = Gate()
    async with running(RESUMING, says("one", gate=gate), says("two", gate=gate), "Done.") as here:
        await gate.reached()
        first = await here.machine.say("no", id="line-1")
        again = await here.machine.say("no", id="line-1")

        assert first == again
        assert len(here.told.of(InputReceived)) == 1
        gate.open()


async def test_the_same_id_many_times_at_once_is_one_line() -> None:
    gate = Gate()
    async with running(RESUMING, says("one", gate=gate), says("two", gate=gate), "Done.") as here:
        await gate.reached()
        receipts = await asyncio.gather(*(here.machine.say("no", id="same") for _ in range(50)))

        assert len(set(map(repr, receipts))) == 1
        assert len(here.told.of(Interrupted)) == 1
        gate.open()


async def test_what_a_reply_used_counts_also_where_words_cut_it() -> None:
    gate, used = Gate(), Usage(model="m", input_tokens=40, output_tokens=2)
    cut = msgspec.structs.replace(says("one ", "two", gate=gate, after=1), usage=used)
    async with running(RESUMING, cut, "Done.") as here:
        await gate.reached()
        await here.machine.say("no")
        await here.machine.wait()

        assert here.run.usage.requests == (
            ("dude", msgspec.structs.replace(used, is_estimate=True)),
        )


async def test_a_hundred_lines_at_once_each_end_in_exactly_one_way() -> None:
    gate = Gate()
    async with running(RESUMING, lambda request: says("…", gate=gate)) as here:
        await gate.reached()
        lines = [f"line {n}" for n in range(100)]
        receipts = await asyncio.gather(*map(here.machine.say, lines))

        assert [here.run.inbox.lines[receipt.input_id].text for receipt in receipts] == lines
        assert len({receipt.input_id for receipt in receipts}) == 100
        gate.open()
        await here.machine.wait()
        # That each has one disposition is checked of every scene.


async def test_a_storm_of_words_queues_and_says_so() -> None:
    gate = Gate()
    async with running(RESUMING, lambda request: says("…", gate=gate)) as here:
        await gate.reached()
        receipts = [await here.machine.say(f"line {n}") for n in range(9)]

        assert [receipt.handling for receipt in receipts] == ["interrupt"] * 6 + ["queue"] * 3
        assert "this one waits" in receipts[-1].reason
        gate.open()
        await here.machine.wait()


async def test_words_after_the_end_are_rejected_and_say_why() -> None:
    async with running(PLAIN, "Done.") as here:
        await here.machine.wait()
        receipt = await here.machine.say("one more thing")

        assert (receipt.handling, receipt.reason) == ("reject", "the run has ended")


async def test_a_line_known_before_the_end_has_its_receipt_after_it() -> None:
    gate = Gate()
    async with running(PLAIN, says("one", gate=gate), "Done.") as here:
        await gate.reached()
        before = await here.machine.say("no", id="line-1")
        await here.machine.wait()

        assert await here.machine.say("no", id="line-1") == before


async def test_words_before_the_beginning_are_rejected() -> None:
    async with scene(PLAIN) as here:
        receipt = await here.machine.say("hello")

        assert (receipt.handling, receipt.reason) == ("reject", "the run has not begun")


async def test_waiting_for_a_run_that_has_not_begun_is_a_mistake() -> None:
    async with scene(PLAIN) as here:
        with pytest.raises(UserMistake, match="has not begun"):
            await here.machine.wait()
        with pytest.raises(UserMistake, match="has not begun"):
            await here.machine.settled()


async def test_a_run_begins_once() -> None:
    async with running(PLAIN, "Done.") as here:
        with pytest.raises(UserMistake, match="has begun already"):
            await here.machine.start()


async def test_a_first_line_beside_the_start_is_checked_like_any_other() -> None:
    workflow = flow(
        START, start_condition="on_user_input", input={"name": "count", "type": "integer"}
    )
    async with scene(workflow, "Done.") as here:
        _, receipt = await asyncio.gather(here.machine.start(), here.machine.say("5"))
        run = await here.machine.wait()

        assert receipt.handling == "answer"
        assert run.input == 5


async def test_the_first_line_is_checked_against_the_inputs_type() -> None:
    workflow = flow(
        START, start_condition="on_user_input", input={"name": "count", "type": "integer"}
    )
    async with running(workflow, "Done.") as here:
        wrong = await here.machine.say("five")
        assert here.run.visit.phase == "waiting"
        await here.machine.say("5")

        assert "not of type 'integer'" in wrong.reason
        assert (await here.machine.wait()).input == 5


@pytest.mark.parametrize("text", ["[" * 100_000, "1e999", "\ud800", "a\0b", "5" * 1_000_000])
async def test_no_line_is_too_odd_to_be_refused_politely(text: str) -> None:
    async with at_rest(
        PLAIN, asks("How many?", schema={"type": "integer", "maximum": 9}), "Fine."
    ) as here:
        receipt = await here.machine.say(text, question=here.question())

        assert receipt.reason
        assert here.run.is_parked


async def test_cancelling_who_speaks_takes_nothing_back() -> None:
    journal, gate, disk = FakeJournal(), Gate(), Gate()
    async with running(
        RESUMING, says("one", gate=gate), "Noted.", "Done.", journal=journal
    ) as here:
        await gate.reached()
        journal.gate = disk
        speaking = asyncio.ensure_future(here.machine.say("no"))
        await disk.reached()
        speaking.cancel()
        await asyncio.wait({speaking})
        disk.open()
        run = await here.machine.wait()

        assert speaking.cancelled()
        assert run.halt.resume_input == "no"


async def test_cancelling_who_waits_harms_nothing() -> None:
    gate = Gate()
    async with running(PLAIN, says("Done.", gate=gate)) as here:
        await gate.reached()
        waiting = [
            asyncio.ensure_future(here.machine.wait()),
            asyncio.ensure_future(here.machine.settled()),
        ]
        await rounds(2)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)

        assert all(task.cancelled() for task in waiting)
        gate.open()
        assert (await here.machine.wait()).is_over


async def test_everyone_who_waits_gets_the_run() -> None:
    gate = Gate()
    async with running(PLAIN, says("Done.", gate=gate)) as here:
        await gate.reached()
        waiting = [asyncio.ensure_future(here.machine.wait()) for _ in range(5)]
        waiting += [asyncio.ensure_future(here.machine.settled()) for _ in range(5)]
        await rounds()
        assert not any(task.done() for task in waiting)
        gate.open()

        runs: list[Run] = await asyncio.gather(*waiting)
        assert {run.status for run in runs} == {"finished"}


async def test_a_run_is_not_settled_while_a_line_is_being_journaled() -> None:
    journal, disk = FakeJournal(), Gate()
    async with at_rest(PLAIN, asks("Which?"), "Done.", journal=journal) as here:
        journal.gate = disk
        speaking = asyncio.ensure_future(here.machine.say("src", question=here.question()))
        await disk.reached()
        settling = asyncio.ensure_future(here.machine.settled())
        await rounds()
        assert not settling.done()
        disk.open()

        assert (await settling).is_over
        await speaking


async def test_nothing_streams_past_a_halt_that_is_being_journaled() -> None:
    journal, gate, disk = FakeJournal(), Gate(), Gate()
    reply = says("shown ", "not shown", gate=gate, after=1)
    async with running(PLAIN, reply, "Done.", journal=journal) as here:
        await gate.reached()
        journal.gate = disk
        speaking = asyncio.ensure_future(here.machine.say("no"))
        await disk.reached()
        gate.open()
        await rounds()
        assert here.told.shown() == "shown "
        disk.open()
        await speaking
        await here.machine.wait()

        assert here.told.of(Interrupted)[0].partial == "shown "
        assert here.told.shown() == "shown Done."


async def test_what_was_held_back_is_shown_when_the_line_halts_nothing() -> None:
    journal, gate, disk = FakeJournal(), Gate(), Gate()
    workflow = flow({**START, "on_input": "queue"}, {"name": "resume"})
    async with running(workflow, says("one ", "two", gate=gate, after=1), journal=journal) as here:
        await gate.reached()
        journal.gate = disk
        speaking = asyncio.ensure_future(here.machine.say("later"))
        await disk.reached()
        gate.open()
        await rounds()
        assert here.told.shown() == "one "
        disk.open()
        await speaking
        await here.machine.wait()

        assert here.told.shown() == "one two"


async def test_of_a_reply_that_fails_while_held_back_all_that_was_shown_is_kept() -> None:
    journal, gate, disk = FakeJournal(), Gate(), Gate()
    workflow = flow(
        {**START, "on_input": "queue", "on_failure": "after"},
        {"name": "after", "agent": "dude"},
        {"name": "resume", "next": "after"},
    )
    failing = says("one ", "two", gate=gate, after=1)
    failing = msgspec.structs.replace(failing, error=WorldTrouble("dead"))
    async with running(workflow, failing, "Better.", journal=journal, input="tidy") as here:
        await gate.reached()
        journal.gate = disk
        speaking = asyncio.ensure_future(here.machine.say("later"))
        await disk.reached()
        gate.open()
        await rounds()
        disk.open()
        await speaking
        await here.machine.wait()

        assert here.told.shown() == "one twoBetter."
        assert ("assistant", "one two") in here.model.asked[1].words()


async def test_words_while_a_chat_waits_are_its_next_line() -> None:
    async with running(WAITING, "Hello.", "Fine.") as here:
        for line in ("hi", "how are you"):
            await here.machine.say(line)
            await here.machine.settled()

        assert here.model.asked[1].words() == [
            ("user", "hi"),
            ("assistant", "Hello."),
            ("user", "how are you"),
        ]
        assert here.run.visit.phase == "waiting"


async def test_the_next_line_answers_the_only_question() -> None:
    async with at_rest(PLAIN, asks("Which colour?"), "Blue it is.") as here:
        receipt = await here.machine.say("blue")

        assert receipt.handling == "answer"
        assert (await here.machine.wait()).output == "Blue it is."


async def test_words_said_to_be_unasked_answer_nothing() -> None:
    async with at_rest(RESUMING, asks("Which colour?"), "Renamed.", "Done.") as here:
        receipt = await here.machine.say("rename it first", unasked=True)

        assert receipt.handling == "interrupt"
        assert (await here.machine.wait()).halt.resume_input == "rename it first"


async def test_of_several_questions_one_has_to_be_named() -> None:
    both = calls(*(call(ASK, question=f"Which {what}?") for what in ("colour", "size")))
    async with running(PLAIN, both, "Noted.") as here:
        run = await here.machine.settled()
        with pytest.raises(UserMistake, match="Several questions are open: q1, q2"):
            await here.machine.say("blue")
        assert here.run.inbox.lines == {}

        await here.machine.say("large", question=run.inbox.open_questions[1].id)
        await here.machine.say("blue")
        assert (await here.machine.wait()).output == "Noted."


@pytest.mark.parametrize(("given", "kept"), [("5", 5), (5, 5)])
async def test_the_input_is_read_as_the_type_the_workflow_names(given: object, kept: int) -> None:
    workflow = flow(START, {"name": "stop", "input": "input"}, input={"type": "integer"})
    async with scene(workflow, "Done.") as here:
        await here.machine.start(given)
        assert (await here.machine.wait()).output == kept


async def test_an_input_of_another_type_begins_nothing() -> None:
    workflow = flow(START, {"name": "stop"}, input={"type": "integer"})
    async with scene(workflow, "Done.", is_journaled=False) as here:
        with pytest.raises(UserMistake, match="'five' is not of type 'integer'"):
            await here.machine.start("five")
        await here.machine.start("5")
        await here.machine.wait()

"""A turn of a run: from words that are said to where only a person can move it on."""

import asyncio

from api_kit import TALK, Place, here, place
from support.pictures import png

import midstream
from midstream.core import events as e
from midstream.core.notices import TextDelta
from midstream.testing import Gate, asks, call, calls, says

__all__ = ["here", "place"]


async def text_of(turn: midstream.api.turn.Turn) -> str:
    return "".join([x.event.text async for x in turn if isinstance(x.event, TextDelta)])


async def test_a_turn_ends_where_a_person_has_the_word_and_tells_all_of_the_text(
    place: Place,
) -> None:
    engine = await place.engine(says("Hel", "lo."), says("Fine, ", "and you?"))
    run = await place.held(await engine.start("role:dude"))
    for words, reply in (("Hi", "Hello."), ("How are you?", "Fine, and you?")):
        async with run.turn() as turn:
            await run.say(words)
            assert await text_of(turn) == reply
    assert run.status == "waiting"


async def test_who_comes_in_the_middle_of_a_reply_hears_all_of_it(here: Place) -> None:
    gate = Gate()
    engine = await here.engine(says("An old ", "silent ", "pond", gate=gate, after=2))
    run = await engine.start("role:dude", "a haiku")
    await gate.reached()
    async with run.turn() as turn:
        gate.open()
        assert await text_of(turn) == "An old silent pond"


async def test_a_turn_that_is_over_is_heard_again_from_its_facts(here: Place) -> None:
    engine = await here.engine(says("One."), says("Two."))
    run = await engine.start("role:dude", "1")
    await run.settled()
    async with run.turn(since=0) as turn:
        assert await text_of(turn) == "One."


async def test_a_turn_ends_with_a_question_and_with_the_end_of_the_run(here: Place) -> None:
    engine = await here.engine(asks("Which pond?"), says("Snow"))
    run = await engine.start(TALK)
    async with run.turn(since=0) as turn:
        facts = [x.event async for x in turn]
    assert any(isinstance(fact, e.QuestionAsked) for fact in facts)
    async with run.turn() as turn:
        await run.say("the old one")
        facts = [x.event async for x in turn]
    assert isinstance(facts[-1], e.RunFinished)


async def test_words_in_mid_reply_keep_the_text_that_was_cut_in_the_same_stream(
    here: Place,
) -> None:
    gate = Gate()
    engine = await here.engine(says("An old ", "pond", gate=gate, after=1), says("Snow"))
    run = await engine.start("role:dude")
    async with run.turn() as turn:
        await run.say("a haiku")
        await gate.reached()
        await run.say("about snow")
        assert await text_of(turn) == "An old Snow"


async def test_a_turn_goes_through_an_approval_that_somebody_gives_elsewhere(here: Place) -> None:
    engine = await here.engine(calls(call("write_file", path="a.txt", content="a")), says("Done."))
    run = await engine.start("role:dude")
    async with run.turn(through_approvals=True) as turn:
        await run.say("write it")
        text = ""
        async for envelope in turn:
            if isinstance(envelope.event, e.QuestionAsked):
                await run.approve(envelope.event.question_id, False)
            elif isinstance(envelope.event, TextDelta):
                text += envelope.event.text
    assert text == "Done."


async def test_a_picture_of_a_program_stands_in_words_as_its_mark(here: Place) -> None:
    engine = await here.engine(lambda request: str(len(request.messages[-1].pictures)))
    mark = await engine.keep_picture(png(), "dot.png")
    run = await engine.start("role:dude", f"What is on {mark}?")
    await run.settled()
    assert run.reply == "1"
    info = await engine.info(run.id)
    assert info is not None
    assert info.kind == "chat"
    assert await engine.info("nosuchrun") is None


async def test_a_turn_that_is_cancelled_while_it_is_entered_listens_no_more(here: Place) -> None:
    engine = await here.engine("Hello.")
    run = await engine.start("role:dude", "hello")
    await run.settled()
    before = asyncio.all_tasks()

    entering = asyncio.ensure_future(run.turn().__aenter__())
    await asyncio.sleep(0)
    entering.cancel()
    await asyncio.wait((entering,))

    assert entering.cancelled()
    assert asyncio.all_tasks() == before

"""A picture goes where a person's words go: to a chat, a workflow, an answer, a fork."""

from typing import Any

from api_kit import TALK, Place, here, until
from support.pictures import png

import midstream
from midstream.core.conversation import Message
from midstream.runtime.ports import ModelRequest
from midstream.testing import Gate, Scripted, asks, says

__all__ = ["here"]

SHOT, OTHER = png(8, 6), png(9, 6, shade=3)

HANDLED: dict[str, Any] = {
    **TALK,
    "states": [
        {"name": "start", "agent": "dude"},
        {"name": "resume", "agent": "dude", "prompt": "They said: ${common_data.resume_input}"},
        {"name": "stop"},
    ],
}


def fill(place: Place) -> None:
    """Put two pictures into the workspace."""
    (place.workspace / "shot.png").write_bytes(SHOT)
    (place.workspace / "other.png").write_bytes(OTHER)


def seen(request: ModelRequest) -> list[bytes]:
    """Return the pictures a model was shown, in the order of the messages."""
    assert request.pictures is not None
    kept = request.pictures
    return [kept[each.key] for message in request.messages for each in message.all_pictures]


def last_shown(request: ModelRequest) -> Message:
    return next(message for message in reversed(request.messages) if message.all_pictures)


async def test_the_input_of_a_run_and_words_that_interrupt_it(here: Place) -> None:
    fill(here)
    held = Gate()
    engine = await here.engine(says("One ", "moment", gate=held), says("Both."))
    run = await engine.start(HANDLED, "like @shot.png?")
    await held.reached()
    await run.say("no, like @other.png")
    await run.wait()
    held.open()
    first, second = here.models[0].requests
    assert seen(first) == [SHOT]
    # They joined the conversation, and the template that had them in it has their picture, too.
    assert seen(second) == [SHOT, OTHER, OTHER]
    assert last_shown(second).text.startswith("They said: no, like [image ")


async def test_an_answer_shows_the_agent_that_asked(here: Place) -> None:
    fill(here)

    def script(request: ModelRequest) -> Scripted:
        return says("Thanks.") if len(request.messages) > 1 else asks("What does it look like?")

    engine = await here.engine(script)
    run = await engine.start(TALK, "help me")
    asked = await until(run, lambda event: isinstance(event, midstream.QuestionAsked))
    await run.answer(asked.question_id, "like @shot.png")
    await run.wait()
    *_, last = here.models[0].requests
    (result,) = last_shown(last).results
    assert seen(last) == [SHOT]
    assert result.text.startswith("like [image ")


async def test_a_fork_sends_what_the_run_sent(here: Place) -> None:
    fill(here)
    engine = await here.engine(*[says("A square.")] * 3)
    chat = await engine.start("role:dude", "@shot.png what is it?")
    await chat.settled()
    (here.workspace / "shot.png").unlink()
    again = await chat.fork()
    await again.say("and now?")
    await again.settled()
    first, second = here.models[0].requests
    assert seen(first) == seen(second) == [SHOT]
    assert first.messages[0] == second.messages[0]


async def test_what_only_looks_like_a_mark_is_words(here: Place) -> None:
    engine = await here.engine(says("Hm."))
    chat = await engine.start("role:dude", "[image 3fa9c1d2: shot.png 640x480] @none.png")
    await chat.settled()
    (request,) = here.models[0].requests
    assert seen(request) == []
    assert request.messages[0].text == "[image 3fa9c1d2: shot.png 640x480] @none.png"


async def test_a_mark_shows_a_picture_again_in_another_chat(here: Place) -> None:
    fill(here)
    engine = await here.engine(*[says("A square.")] * 2)
    chat = await engine.start("role:dude", "@shot.png what is it?")
    await chat.settled()
    mark, _, _ = chat.run.contexts["chat"][0].text.partition(" what")
    other = await engine.start("role:dude", f"{mark} once more")
    await other.settled()
    *_, last = here.models[0].requests
    assert seen(last) == [SHOT]

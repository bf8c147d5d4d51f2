"""Pictures as each provider takes them, judged by its own rules."""

import base64
import hashlib
from collections.abc import Mapping

import msgspec
import pytest
from ai_kit import Ears, ask, client_of
from support.dialects import DIALECTS, MODELS, body_of, problems_in
from support.openai_server import Fault, OpenAIServer, Reply
from support.pictures import gif, jpeg, png, webp

from midstream.core.conversation import Message, ToolCall, ToolResult
from midstream.core.pictures import Picture, about, mark_of, picture_of
from midstream.language.errors import UserMistake
from midstream.models.api_client import BLIND as BLIND_WORDS
from midstream.models.encoded_messages import NOT_KEPT, NOT_SEEN, NOT_TAKEN
from midstream.models.offline import OfflineModel
from midstream.runtime.ports import ModelRequest

DATA = (png(8, 6), jpeg(8, 6), gif(8, 6), webp(8, 6))
KEYS = [hashlib.sha256(data).hexdigest() for data in DATA]
PICTURES = tuple(
    picture_of(data, key, f"{number}.png")
    for number, (data, key) in enumerate(zip(DATA, KEYS, strict=True))
)
KEPT = dict(zip(KEYS, DATA, strict=True))


def request(kept: Mapping[str, bytes]) -> ModelRequest:
    """A person shows two pictures, and two calls of one reply look at the others."""
    first, second, third, fourth = PICTURES
    text = f"{mark_of(first)} and {mark_of(second)}: which is better?"
    calls = tuple(ToolCall(id=f"c{n}", name="read_image", arguments={"path": "x"}) for n in (1, 2))
    results = tuple(
        ToolResult(call_id=call.id, outcome="completed", text="a picture", pictures=(picture,))
        for call, picture in zip(calls, (third, fourth), strict=True)
    )
    return ModelRequest(
        agent="dude",
        system="You look at pictures.",
        messages=(
            Message(role="user", text=text, pictures=(first, second)),
            Message(role="assistant", text="Let me look.", calls=calls, results=results),
        ),
        pictures=kept,
    )


def sent_in(body: object) -> list[bytes]:
    """Return the pictures in a body, wherever they stand, in order."""
    found: list[bytes] = []
    if isinstance(body, list):
        for item in body:
            found += sent_in(item)
    elif isinstance(body, dict):
        source = body.get("source") or body.get("inlineData") or {}
        if "data" in source:
            found.append(base64.b64decode(source["data"].replace("-", "+").replace("_", "/")))
        elif "image_url" in body:
            found.append(base64.b64decode(body["image_url"]["url"].partition(",")[2]))
        else:
            for item in body.values():
                found += sent_in(item)
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_provider_takes_pictures_of_words_and_of_results(dialect: str) -> None:
    asked = request(KEPT)
    assert problems_in(asked, dialect) == []
    # Google takes no GIF: its models are told so.
    taken = [data for data in DATA if dialect != "google" or not data.startswith(b"GIF")]
    for model in MODELS[dialect]:
        body = body_of(asked, model)
        assert sent_in(body) == taken, model
        assert (NOT_TAKEN in msgspec.json.encode(body).decode()) == (dialect == "google")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_of_a_picture_that_is_gone_the_model_is_told(dialect: str) -> None:
    asked = request({KEYS[1]: DATA[1], KEYS[3]: DATA[3]})
    assert problems_in(asked, dialect) == []
    for model in MODELS[dialect]:
        body = body_of(asked, model)
        assert sent_in(body) == [DATA[1], DATA[3]], model
        told = msgspec.json.encode(body).decode()
        for picture in (PICTURES[0],):
            assert f"{mark_of(picture)} {NOT_KEPT}" in told


def test_a_mark_is_what_a_picture_is_called_by() -> None:
    shot = Picture(key="3fa9c1d2" + 56 * "0", media="image/png", size=1, width=640, height=480)
    assert mark_of(shot) == "[image 3fa9c1d2: 640x480]"
    named = msgspec.structs.replace(shot, name="shot.png")
    assert mark_of(named) == "[image 3fa9c1d2: shot.png 640x480]"


BLIND = (
    (400, "Invalid content type. image_url is only supported by certain models."),
    (400, "messages[1]: unknown variant `image_url`, expected `text` at line 1 column 90"),
    (404, "No endpoints found that support image input"),
    (400, "'messages.1' : for 'role:user' 'messages.1.content' must be a string"),
    (422, "Input should be 'text'"),
    (500, "image input is not supported - hint: you may need to provide the mmproj"),
)


@pytest.mark.parametrize(("status", "words"), BLIND)
async def test_a_model_that_takes_no_pictures_is_told_which_there_are(
    status: int, words: str
) -> None:
    ears = Ears()
    fault = Fault(status=status, message=words, times=1)
    with OpenAIServer([fault, Reply(text="I see nothing."), Reply(text="Yes.")]) as server:
        client = client_of(server)
        reply = await ask(client, request(KEPT), ears)
        again = await ask(client, request(KEPT), Ears())

    assert reply.text == f"I see nothing.{BLIND_WORDS.format(name='openai:gpt-5')}" == ears.words
    assert again.text.startswith("Yes.")
    first, second, third = server.requests
    assert sent_in(first) == list(DATA)
    assert sent_in(second) == sent_in(third) == []
    assert msgspec.json.encode(second).decode().count(NOT_SEEN) == len(DATA)
    assert second == third, "it is not asked to see again, and what is sent stays the same"


async def test_another_refusal_is_no_blindness() -> None:
    fault = Fault(status=400, message="Unknown parameter: 'nope'.")
    with OpenAIServer([fault]) as server, pytest.raises(UserMistake, match="refused the request"):
        await ask(client_of(server), request(KEPT))

    assert len(server.requests) == 1


async def test_the_offline_model_says_which_pictures_it_was_given() -> None:
    asked = msgspec.structs.replace(request({KEYS[0]: DATA[0]}), workflow="role:dude")
    reply = await OfflineModel(lambda name: None, pieces_per_s=None).request(asked, Ears())

    assert f"- {about(PICTURES[0])}\n" in reply.text
    assert f"- {about(PICTURES[1])}, not kept any more\n" in reply.text

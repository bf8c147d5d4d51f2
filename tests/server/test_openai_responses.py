"""OpenAI's own client asks for responses: items that name their run, streamed and whole."""

import base64
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from server_kit import client_of, engine_of, served
from support.pictures import png

from midstream.api.run_handle import RunHandle
from midstream.core import events as e
from midstream.language.errors import JournalFull
from midstream.server import conversations
from midstream.server.openai_chat import openai_routes
from midstream.testing import Gate, Scripted, asks, call, says

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

LISTED = (
    Scripted(
        pieces=("I ", "look."),
        thinking="Where?",
        calls=(call("list_directory", path="."),),
        usage=e.Usage(model="m", input_tokens=7, output_tokens=2, cached_tokens=5),
    ),
    "Nothing ",
)


def heard(request: Any) -> str:
    return "|".join(message.text for message in request.messages if message.role == "user")


async def test_a_response_is_the_same_streamed_and_whole(tmp_path: Path) -> None:
    async with (
        engine_of(tmp_path, *LISTED, *LISTED) as engine,
        served(openai_routes(engine)) as address,
        client_of(address) as client,
    ):
        stream = await client.responses.create(model="role:dude", input="list", stream=True)
        events = [EVENT.validate_python(event.model_dump()) async for event in stream]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        names = [event.type.removeprefix("response.") for event in events]
        assert names[:2] == ["created", "in_progress"]
        assert names[-1] == "completed"
        told = [event.delta for event in events if event.type == "response.output_text.delta"]
        streamed = events[-1].response
        assert "".join(told) == streamed.output_text == "I look.\n\nNothing "
        done = [event.item for event in events if event.type == "response.output_item.done"]
        assert done == streamed.output
        added = [event.item.id for event in events if event.type == "response.output_item.added"]
        assert added == [item.id for item in streamed.output]

        response = await client.responses.create(model="role:dude", input="list")
        whole = Response.model_validate(response.model_dump())
        assert [item.type for item in whole.output] == [item.type for item in streamed.output]
        assert whole.output_text == streamed.output_text
        assert whole.usage is not None
        assert whole.usage == streamed.usage
        assert (whole.usage.total_tokens, whole.usage.input_tokens_details.cached_tokens) == (9, 5)


async def test_a_conversation_goes_on_by_the_response_before_by_its_items_or_by_its_words(
    tmp_path: Path,
) -> None:
    async with (
        engine_of(tmp_path, *LISTED, heard, heard, heard, heard) as engine,
        served(openai_routes(engine)) as address,
        client_of(address) as client,
    ):
        first = await client.responses.create(model="role:dude", input="list")
        second = await client.responses.create(
            model="role:dude", input="again", previous_response_id=first.id
        )
        assert second.output_text == "list|again"
        # As the documentation of the SDK goes on with what it was given.
        items: list[Any] = [{"role": "user", "content": "list"}, *first.output]
        items += [{"role": "user", "content": "again"}, *second.output]
        items += [{"role": "user", "content": [{"type": "input_text", "text": "whole"}]}]
        third = await client.responses.create(model="role:dude", input=items)
        assert third.output_text == "list|again|whole"
        # As the AI SDK names what it takes for kept.
        reference = {"type": "item_reference", "id": third.output[0].id}
        items = [{"role": "user", "content": "list"}, reference, {"role": "user", "content": "so"}]
        fourth = await client.responses.create(model="role:dude", input=items)
        assert fourth.output_text == "list|again|whole|so"
        # Without ids.
        items = [{"role": "user", "content": "list"}]
        for item in first.output:
            if item.type == "message":
                texts = [part.model_dump(include={"type", "text"}) for part in item.content]
                items.append({"role": "assistant", "content": texts})
        items.append({"role": "user", "content": "and"})
        fifth = await client.responses.create(model="role:dude", input=items)
        assert "assistant: I look.\n\nNothing" in fifth.output_text
        assert len(await engine.runs()) == 2


async def test_words_alone_lead_to_the_run_in_which_they_were_said(tmp_path: Path) -> None:
    async with (
        engine_of(tmp_path, *LISTED, heard) as engine,
        served(openai_routes(engine)) as address,
        client_of(address) as client,
    ):
        first = await client.responses.create(model="role:dude", input="list")
        items: list[Any] = [{"role": "user", "content": "list"}]
        items += [
            {"role": "assistant", "content": item.content[0].model_dump()["text"]}
            for item in first.output
            if item.type == "message"
        ]
        items.append({"role": "user", "content": "again"})
        second = await client.responses.create(model="role:dude", input=items)
        assert second.output_text == "list|again"
        assert len(await engine.runs()) == 1


async def test_instructions_pictures_and_what_other_tools_said_are_told(tmp_path: Path) -> None:
    def seen(request: Any) -> str:
        message = request.messages[-1]
        return f"{len(message.pictures)} {message.text}"

    url = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    call: dict[str, Any] = {"type": "function_call", "name": "f", "call_id": "1", "arguments": "{}"}
    items: list[Any] = [
        {"role": "user", "content": "What day is it?"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        call,
        {"type": "function_call_output", "call_id": "1", "output": "Monday"},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": url, "detail": "auto"},
            ],
        },
    ]
    tool: Any = {"type": "function", "name": "f", "parameters": {}, "strict": False}
    async with (
        engine_of(tmp_path, seen) as engine,
        served(openai_routes(engine)) as address,
        client_of(address) as client,
    ):
        response = await client.responses.create(
            model="role:dude", input=items, instructions="Speak like a pirate.", tools=[tool]
        )
        assert response.output_text.startswith("1 ")
        assert "Speak like a pirate." in response.output_text
        assert "tool: Monday" in response.output_text
        assert response.model_extra["midstream"]["left_out"] == ["tools"]  # type: ignore[index]


async def test_a_question_is_answered_and_a_client_that_leaves_halts(tmp_path: Path) -> None:
    gate = Gate()
    script = asks("Which pond?"), says("An old ", "pond", gate=gate, after=1)
    async with (
        engine_of(tmp_path, *script) as engine,
        served(openai_routes(engine)) as address,
        client_of(address) as client,
    ):
        first = await client.responses.create(model="role:dude", input="a haiku", conversation="c")
        assert first.output_text == "Which pond?"
        stream = await client.responses.create(
            model="role:dude", input="old", conversation="c", stream=True
        )
        await gate.reached()
        await stream.close()
        (info,) = await engine.runs()
        run = await engine.get(info.id)
        await run.settled()
        cuts = [x.event for x in await engine.facts(run.id) if isinstance(x.event, e.Interrupted)]
        assert [cut.partial for cut in cuts] == ["An old "]


async def test_a_client_that_leaves_while_the_journal_is_away_halts_once_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, halt, tried = Gate(), RunHandle.halt, 0

    async def halted(run: RunHandle) -> None:
        nonlocal tried
        if (tried := tried + 1) < 3:
            raise JournalFull("It is away.")
        await halt(run)

    monkeypatch.setattr(RunHandle, "halt", halted)
    monkeypatch.setattr(conversations, "_AGAIN_S", 0.0)
    async with (
        engine_of(tmp_path, says("An old ", "pond", gate=gate, after=1)) as engine,
        served(openai_routes(engine)) as address,
        client_of(address) as client,
    ):
        stream = await client.responses.create(model="role:dude", input="Hi", stream=True)
        await gate.reached()
        await stream.close()
        (info,) = await engine.runs()
        run = await engine.get(info.id)
        await run.settled()
        cuts = [x.event for x in await engine.facts(run.id) if isinstance(x.event, e.Interrupted)]
        assert [cut.partial for cut in cuts] == ["An old "]
        assert tried == 3


async def test_what_goes_wrong_in_a_stream_is_a_response_that_failed(tmp_path: Path) -> None:
    async with (
        engine_of(tmp_path) as engine,  # a model without a script fails
        served(openai_routes(engine)) as address,
        client_of(address) as client,
    ):
        stream = await client.responses.create(model="role:dude", input="Hi", stream=True)
        events = [EVENT.validate_python(event.model_dump()) async for event in stream]
        assert events[-1].type == "response.failed"
        assert "script" in events[-1].response.error.message
        with pytest.raises(openai.APIStatusError, match="script") as caught:
            await client.responses.create(model="role:dude", input="Hi")
        assert caught.value.status_code == 502


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"previous_response_id": "resp_68af4030baa48193b0b43b4c2a176a1a"}, "There is no response"),
        ({"previous_response_id": "resp_abc_openai-1"}, "There is no run 'abc'"),
        ({"text": {"format": {"type": "json_object"}}}, "`text.format`"),
        ({"tool_choice": "required"}, "their own tools"),
        ({"background": True}, "`background`"),
        ({"input": []}, "`input` is missing"),
        ({"input": ["Hi"]}, r"`input\[0\]` is of no role"),
        ({"input": [{"role": "assistant", "content": "Hi"}]}, "has to be the user's"),
    ],
)
async def test_what_is_not_done_is_refused(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    async with (
        engine_of(tmp_path) as engine,
        served(openai_routes(engine)) as address,
        client_of(address) as client,
    ):
        asked: dict[str, Any] = {"model": "role:dude", "input": "Hi", **more}
        with pytest.raises(openai.BadRequestError, match=words):
            await client.responses.create(**asked)
        assert await engine.runs() == []

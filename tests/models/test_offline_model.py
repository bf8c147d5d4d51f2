"""The offline model plays the scene written for a moment, says what it is, and can be cut anywhere."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from midstream.core.conversation import Message, ToolCall, ToolResult
from midstream.core.events import Usage
from midstream.language.errors import AuthorMistake
from midstream.language.names import Json
from midstream.language.spec import ToolSpec
from midstream.models.offline import LABEL, OfflineModel, pieces, smallest
from midstream.runtime.ports import ModelReply, ModelRequest

VERDICT = ToolSpec(
    name="verdict",
    description="",
    parameters={
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "comments": {"type": "string"}},
        "required": ["approved", "comments"],
    },
)
LOOK = ToolSpec(name="look", description="", parameters={"type": "object"})


class Ear:
    """Hears a reply."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.called = 0

    def text(self, delta: str) -> None:
        self.heard.append(delta)

    def thinking(self, delta: str) -> None:
        raise AssertionError("the offline model does not think")

    def calling(self, name: str) -> None:
        self.called += 1

    def status(self, text: str) -> None:
        raise AssertionError("the offline model waits for nothing")

    def metered(self, used: Callable[[], Usage | None]) -> None:
        self.used = used


def request(**changes: Any) -> ModelRequest:
    said = (Message(role="user", text="Is it done?"),)
    standard: dict[str, Any] = {
        "agent": "coder",
        "system": "",
        "messages": said,
        "workflow": "shop",
        "state": "start",
    }
    return ModelRequest(**(standard | changes))


async def reply(part: Json, wanted: ModelRequest, ear: Ear | None = None) -> ModelReply:
    model = OfflineModel(lambda name: part, pieces_per_s=None)
    return await model.request(wanted, ear or Ear())


async def text(part: Json, wanted: ModelRequest) -> str:
    return (await reply(part, wanted)).text


# --- which scene ----------------------------------------------------------------------------------


async def test_the_scene_of_the_agent_and_state_is_played() -> None:
    part = {"coder": {"start": [{"text": "here"}], "end": [{"text": "there"}]}}

    assert await text(part, request()) == "[offline] here"
    assert await text(part, request(state="end")) == "[offline] there"


async def test_the_first_scene_that_fits_the_visit_and_request_is_played() -> None:
    part = {
        "coder": {
            "start": [
                {"visit": 1, "request": 2, "text": "one two"},
                {"visit": 2, "text": "two any"},
                {"text": "else"},
            ]
        }
    }

    said = [
        await text(part, request(visit=visit, request=number))
        for visit, number in ((1, 1), (1, 2), (2, 7), (3, 2))
    ]

    assert said == [f"[offline] {words}" for words in ("else", "one two", "two any", "else")]


async def test_defaults_stand_in_state_first_then_agent() -> None:
    part = {
        "coder": {"default": [{"text": "any state"}]},
        "default": {"start": [{"text": "any agent"}], "default": [{"text": "any"}]},
    }

    assert await text(part, request(state="end")) == "[offline] any state"
    assert await text(part, request(agent="other")) == "[offline] any agent"
    assert await text(part, request(agent="other", state="end")) == "[offline] any"


async def test_a_branch_knows_its_item_and_its_number() -> None:
    part = {"coder": {"start": [{"text": "${variables.index}: ${input.path}"}]}}

    said = await text(part, request(input={"path": "a.py"}, variables={"index": 0}))
    assert said == "[offline] 0: a.py"


async def test_a_moment_nobody_wrote_is_named() -> None:
    for part in (None, {}, {"coder": {"start": [{"visit": 9, "text": "later"}]}}):
        said = await text(part, request())

        assert said.startswith(f"{LABEL} I am the offline model: no LLM.")
        assert "coder" in said
        assert "start" in said
        assert "shop" in said


async def test_a_chat_is_told_how_to_get_a_model() -> None:
    said = await text(None, request(workflow="role:dude"))

    assert said.startswith(f"{LABEL} I am the offline model: no LLM")
    assert "> Is it done?" in said
    for word in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/workflow code_architecture_review"):
        assert word in said


@pytest.mark.parametrize(
    "part",
    [
        [],
        "words",
        {"coder": []},
        {"coder": {"start": {"text": "no list"}}},
        {"coder": {"start": [{"txt": "misspelt"}]}},
        {"coder": {"start": [{"visit": "1"}]}},
        {"coder": {"start": [{"calls": [{"arguments": {}}]}]}},
    ],
)
async def test_an_offline_part_of_another_shape_names_the_workflow(part: Json) -> None:
    with pytest.raises(AuthorMistake, match="'shop'") as caught:
        await reply(part, request())

    assert caught.value.hint


# --- words ----------------------------------------------------------------------------------------


async def test_the_streamed_pieces_are_the_reply() -> None:
    ear = Ear()
    part = {"coder": {"start": [{"text": "A few words,\n\n- and more   of them.\n"}]}}

    answer = await reply(part, request(), ear)

    assert "".join(ear.heard) == answer.text
    assert len(ear.heard) > 5
    assert answer.usage is not None
    assert (answer.usage.model, answer.usage.cost_usd) == ("offline", "0")
    assert answer.usage.output_tokens == len(answer.text) // 4


@pytest.mark.parametrize(
    "whole", ["", " ", "a", "  two  spaces \n", "x" * 50, "日本語 \u200b\n\n\n"]
)
def test_pieces_join_to_the_whole_and_are_small(whole: str) -> None:
    assert "".join(pieces(whole)) == whole
    assert all(len(piece.strip()) <= 8 for piece in pieces(whole))


async def test_words_come_at_the_pace_asked_for() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    ear = Ear()
    model = OfflineModel(lambda name: None, pieces_per_s=50, sleep=sleep)
    await model.request(request(), ear)

    assert waits == [0.02] * len(ear.heard)


async def test_a_reply_is_cut_between_two_pieces() -> None:
    reached = asyncio.Event()
    ear = Ear()

    async def sleep(seconds: float) -> None:
        if len(ear.heard) == 3:
            reached.set()
            await asyncio.Event().wait()

    model = OfflineModel(lambda name: None, sleep=sleep)
    replying = asyncio.create_task(model.request(request(), ear))
    await reached.wait()
    replying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await replying

    assert len(ear.heard) == 3


async def test_at_full_speed_others_still_get_their_turn() -> None:
    ear = Ear()
    model = OfflineModel(lambda name: None, pieces_per_s=None)
    replying = asyncio.create_task(model.request(request(), ear))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not replying.done()
    await replying


# --- calls ----------------------------------------------------------------------------------------


async def test_scripted_calls_are_made_with_their_templates_filled() -> None:
    ear = Ear()
    call = {"name": "look", "arguments": {"at": "the ${input}", "depth": "${common_data.depth}"}}
    part = {"coder": {"start": [{"text": "Looking.", "calls": [call]}]}}

    answer = await reply(part, request(input="shop", common_data={"depth": 3}, tools=(LOOK,)), ear)

    assert [(c.name, c.arguments) for c in answer.calls] == [
        ("look", {"at": "the shop", "depth": 3})
    ]
    assert ear.called == 1


async def test_a_reply_without_words_of_its_own_is_labelled_too() -> None:
    part = {"coder": {"start": [{"calls": [{"name": "look"}]}]}}

    assert await text(part, request()) == "[offline] (look)"


async def test_where_a_tool_must_be_called_the_smallest_fitting_call_is_made() -> None:
    answer = await reply({"coder": {"start": [{"text": "Hm."}]}}, must_call())

    (call,) = answer.calls
    assert (call.name, call.arguments) == ("verdict", {"approved": False, "comments": LABEL})


async def test_a_scripted_verdict_is_enough() -> None:
    scripted = {"name": "verdict", "arguments": {"approved": True, "comments": ""}}

    answer = await reply({"coder": {"start": [{"calls": [scripted]}]}}, must_call())

    assert [call.arguments["approved"] for call in answer.calls] == [True]


def must_call() -> ModelRequest:
    return request(tools=(LOOK, VERDICT), must_call=True)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, LABEL),
        ({"type": "object"}, {}),
        ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 0}),
        ({"type": "array", "items": {"type": "null"}, "minItems": 2}, [None, None]),
        ({"type": "array", "minItems": 10**9}, [LABEL] * 100),
        ({"type": "integer", "minimum": 5}, 5),
        ({"enum": ["b", "a"]}, "b"),
        ({"const": 7}, 7),
        ({"type": "boolean", "default": True}, True),
        ({"type": ["string", "null"]}, LABEL),
    ],
)
def test_the_smallest_value_fits_its_schema(schema: dict[str, Json], value: Json) -> None:
    assert smallest(schema) == value


async def test_the_last_tool_result_is_at_hand() -> None:
    asked = Message(
        role="assistant",
        text="",
        author="coder",
        calls=(ToolCall(id="1", name="look", arguments={}),),
        results=(ToolResult(call_id="1", outcome="completed", text='{"size": [4, 5]}'),),
    )
    part = {"coder": {"start": [{"text": "${last_tool_result.size.1}"}]}}

    assert await text(part, request(messages=(asked,))) == "[offline] 5"

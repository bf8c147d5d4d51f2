"""The fakes of a clock, a model and tools are what their ports ask for."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from midstream.core.conversation import Message
from midstream.language.errors import WorldTrouble
from midstream.language.names import Json
from midstream.runtime.ports import ModelRequest
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.testing.contracts import ClockContract, Heard, ModelContract, ToolsContract
from midstream.testing.fakes import (
    Chronicle,
    FakeTool,
    FakeTools,
    Gate,
    JumpingClock,
    ScriptedModel,
    call,
    define,
    fake_world,
    fits_type,
    says,
)

REQUEST = ModelRequest(agent="dude", system="", messages=(Message(role="user", text="hi"),))


class TestJumpingClock(ClockContract):
    @pytest.fixture
    def clock(self) -> JumpingClock:
        return JumpingClock()

    @pytest.fixture
    def pass_time(self, clock: JumpingClock) -> Callable[[float], Awaitable[None]]:
        async def jump(seconds: float) -> None:
            clock.jump(seconds)

        return jump

    async def test_sleepers_wake_in_the_order_of_their_times(self) -> None:
        clock, woken = JumpingClock(), list[int]()

        async def sleeper(seconds: int) -> None:
            await clock.sleep(seconds)
            woken.append(seconds)

        async with asyncio.TaskGroup() as group:
            for seconds in (3, 1, 2, 9):
                group.create_task(sleeper(seconds))
            await asyncio.sleep(0)
            assert clock.sleepers() == 4
            clock.jump(3)
            await asyncio.sleep(0)
            assert (woken, clock.sleepers()) == ([1, 2, 3], 1)
            clock.jump(6)

        assert woken == [1, 2, 3, 9]


class TestScriptedModel(ModelContract):
    @pytest.fixture
    def model(self) -> ScriptedModel:
        return ScriptedModel(says("Hello, ", "world."))

    @pytest.fixture
    def slow_model(self) -> ScriptedModel:
        return ScriptedModel(says("Hello", gate=Gate()))

    @pytest.fixture
    def model_request(self) -> ModelRequest:
        return REQUEST

    async def test_it_remembers_what_it_was_asked_and_how_that_ended(self) -> None:
        model = ScriptedModel("one", WorldTrouble("down"), says("cut", "off", gate=Gate(), after=1))
        await model.request(REQUEST, Heard())
        with pytest.raises(WorldTrouble):
            await model.request(REQUEST, Heard())
        heard = Heard()
        asking = asyncio.ensure_future(model.request(REQUEST, heard))
        await heard.spoke.wait()
        asking.cancel()
        await asyncio.wait({asking})

        assert [asked.ended for asked in model.asked] == ["replied", "failed", "cancelled"]
        assert model.asked[2].streamed == ["cut"]
        assert model.requests == [REQUEST] * 3
        assert model.asked[0].words() == [("user", "hi")]

    async def test_a_function_answers_every_request(self) -> None:
        model = ScriptedModel(lambda request: f"{request.agent} says hello")
        replies = [(await model.request(REQUEST, Heard())).text for _ in range(3)]

        assert replies == ["dude says hello"] * 3

    async def test_a_script_that_has_run_out_fails_the_request(self) -> None:
        with pytest.raises(WorldTrouble, match="no reply left for dude"):
            await ScriptedModel().request(REQUEST, Heard())

    async def test_a_tool_call_is_announced(self) -> None:
        heard = Heard()
        reply = await ScriptedModel(call("look", path="x")).request(REQUEST, heard)

        assert heard.is_calling
        assert reply.calls == (call("look", path="x"),)


class TestFakeTools(ToolsContract):
    @pytest.fixture
    def tools(self) -> FakeTools:
        return FakeTools(
            FakeTool(name="look", answer=lambda arguments: f"saw {arguments['path']}"),
            FakeTool(name="wait", gate=Gate()),
        )

    @pytest.fixture
    def good_call(self) -> tuple[str, dict[str, Json]]:
        return "look", {"path": "x"}

    @pytest.fixture
    def endless_call(self) -> tuple[str, dict[str, Json]]:
        return "wait", {}


@pytest.mark.parametrize(
    ("value", "schema", "fits"),
    [
        (5, {"type": "integer"}, True),
        (True, {"type": "integer"}, False),
        ("5", {"type": "integer"}, False),
        (True, {"type": "boolean"}, True),
        ("a", {"enum": ["a", "b"]}, True),
        ("c", {"enum": ["a", "b"]}, False),
        ({"any": 1}, {}, True),
    ],
)
def test_fits_type_knows_types_and_enums(value: Json, schema: dict[str, Json], fits: bool) -> None:
    assert (fits_type(value, schema) == "") == fits


HAIKU: dict[str, Json] = {
    "contexts": [{"name": "desk"}],
    "agents": [
        {"agent_role": "poet", "context": "desk"},
        {"agent_role": "critic", "context": "desk", "role": "user"},
    ],
    "states": [
        {"name": "start", "agent": "poet", "next": "criticise"},
        {"name": "criticise", "agent": "critic", "next": "rewrite"},
        {"name": "rewrite", "agent": "poet"},
    ],
}


async def test_a_users_own_test_takes_a_few_lines() -> None:
    model = ScriptedModel("An old silent pond", "Too old.", "A new silent pond")
    story = Chronicle()
    machine = WorkflowStateMachine(define(HAIKU), fake_world(model), tap=story)
    await machine.start("rain")
    await machine.wait()

    assert story.path() == ["start", "criticise", "rewrite", "stop"]
    assert story.shown("critic") == "Too old."

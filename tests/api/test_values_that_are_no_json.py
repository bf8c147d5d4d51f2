"""What a program gives and no journal can keep is refused in words, and the run is as it was."""

import dataclasses
from typing import Any

import pydantic
import pytest
from api_kit import TALK, Place, here, place

import midstream
from midstream import AuthorMistake, StateRun, Workflow, stop
from midstream.testing import asks, call

__all__ = ["here", "place"]


class Thing:
    """Says nothing of itself but where it stands in memory."""


class Model(pydantic.BaseModel):
    size: int = 1


@dataclasses.dataclass
class Data:
    size: int = 1


RING: list[Any] = []
RING.append(RING)

NO_JSON = [
    pytest.param(value, words, id=name)
    for name, value, words in (
        ("an object", {"deep": [Thing()]}, r"\.deep\[0\] is .*Thing.*no JSON value"),
        ("a set", {1}, r"is \{1\} \(set\), which is no JSON value"),
        ("not a number", float("nan"), r"is nan \(float\), which is no JSON value"),
        ("a ring", RING, r"nested more than 200 deep, or holds itself"),
        ("a long number", 10**5000, r"is a number of 16,610 bits"),
        ("a model", Model(), r"is Model\(size=1\) \(Model\), which is no JSON value"),
    )
]

FORM = {
    "workflow_name": "form",
    "variables": {"x": 1},
    "states": [
        {
            "name": "start",
            "ask": {"question": "What?", "schema": {"type": "object"}},
            "next": "stop",
        },
        {"name": "stop", "input": "last_response"},
    ],
}


@pytest.mark.parametrize(("value", "words"), NO_JSON)
async def test_nothing_begins_with_what_is_no_json(here: Place, value: Any, words: str) -> None:
    engine = await here.engine()
    with pytest.raises(AuthorMistake, match=f"The input.*{words}"):
        await engine.start(FORM, value)
    with pytest.raises(AuthorMistake, match=f"The input.*{words}"):
        await engine.start("role:dude", value)
    with pytest.raises(AuthorMistake, match=rf"variables\.x.*{words}"):
        await engine.start(FORM, variables={"x": value})
    with pytest.raises(AuthorMistake, match=rf"The workflow\.variables\.x.*{words}"):
        await engine.start({**FORM, "variables": {"x": value}})

    assert await engine.runs() == []


@pytest.mark.parametrize(("value", "words"), NO_JSON)
async def test_a_question_stays_open_over_an_answer_that_is_no_json(
    place: Place, value: Any, words: str
) -> None:
    run = await place.held(await (await place.engine()).start(FORM))
    await run.settled()
    (question,), before = run.questions, run.run
    with pytest.raises(AuthorMistake, match=f"The answer.*{words}"):
        await run.answer(question, value)
    with pytest.raises(AuthorMistake, match=rf"answers\[0\].*{words}"):
        await run.wait([value])
    with pytest.raises(AuthorMistake, match=f"no text, but of the type {type(value).__name__}"):
        await run.say(value)
    assert (run.questions, run.run) == ((question,), before)

    await run.answer(question, {"size": (1, 2)})
    assert await run.wait() == '{"size": [1, 2]}'


@pytest.mark.parametrize(("value", "words"), NO_JSON)
async def test_a_call_waits_on_over_arguments_that_are_no_json(
    place: Place, value: Any, words: str
) -> None:
    called = []

    @midstream.tool(effect="once")
    def launch(count: int) -> str:
        """Launch some."""
        called.append(count)
        return "launched"

    engine = await place.engine(call("launch", count=1), "Done.", tools=[launch])
    run = await place.at_rest(engine)
    (question,) = run.questions
    with pytest.raises(AuthorMistake, match=rf"arguments\.count.*{words}"):
        await run.approve(question, arguments={"count": value})
    assert run.questions == (question,)

    await run.approve(question, arguments={"count": 2})
    assert await run.wait() == "Done."
    assert called == [2]


@pytest.mark.parametrize(("value", "words"), NO_JSON)
async def test_a_function_that_leaves_what_is_no_json_has_failed_and_may_be_caught(
    here: Place, value: Any, words: str
) -> None:
    flow = Workflow("kept")
    catch: list[Any] = [{"on": ["handler"], "to": "mended", "save_as": "why"}]

    @flow.start(catch=catch)
    def begin(run: StateRun) -> Any:
        run.data["good"] = 1
        return spoil

    @flow.state(catch=catch)
    def spoil(run: StateRun) -> Any:
        run.data["bad"] = value
        return mended

    @flow.state
    def mended(run: StateRun) -> Any:
        assert "bad" not in run.data
        why: Any = run.data["why"]
        return stop([run.data["good"], why["error"]])

    engine = await here.engine()
    output: Any = await (await engine.start(flow)).wait()
    kept, why = output
    assert kept == 1
    with pytest.raises(AuthorMistake, match=rf"handler spoil left.*common_data\.bad.*{words}"):
        raise AuthorMistake(why)


async def test_what_ends_a_workflow_may_be_models_and_nothing_that_is_no_json(here: Place) -> None:
    def flow(value: Any) -> Workflow:
        made = Workflow("ended")

        @made.start
        def begin(run: StateRun) -> Any:
            return stop(value)

        return made

    engine = await here.engine()
    models = await engine.start(flow([Model(), Data()]))
    assert await models.wait() == [{"size": 1}, {"size": 1}]
    for value, words in (
        ([Thing()], r"What begin gives to stop\(...\) holds .*Thing.*no JSON value"),
        (RING, r"What begin gives to stop\(...\) is nested too deep, or holds itself"),
        (float("inf"), r"common_data\.output is inf \(float\), which is no JSON value"),
    ):
        with pytest.raises(AuthorMistake, match=words):
            await (await engine.start(flow(value))).wait()


async def test_a_function_that_returns_a_very_long_number_leads_nowhere(here: Place) -> None:
    flow = Workflow("long")
    flow.start(lambda run: 10**5000)
    with pytest.raises(AuthorMistake, match=r"returned .*a very long number"):
        await (await (await here.engine()).start(flow)).wait()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (Model(), '{"size":1}'),
        (Data(), '{"size":1}'),
        ([Thing()], "It has run, but what it returned holds a value of the type Thing"),
        (RING, "It has run, but what it returned cannot be told: it holds itself"),
    ],
)
async def test_an_agent_is_told_what_a_tool_returned_or_that_it_is_no_json(
    here: Place, value: Any, told: str
) -> None:
    @midstream.tool(effect="read")
    def look() -> Any:
        """Look."""
        return value

    engine = await here.engine(call("look"), asks("Seen. More?"), "Bye.", tools=[look])
    run = await engine.start(TALK)
    await run.settled()
    assert told in str(here.models[0].requests[1])

    await run.say("no")
    assert await run.wait() == "Bye."

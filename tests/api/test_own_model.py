"""A model object of a program's own: what it returns is checked, whatever it is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from api_kit import TALK

import midstream
from midstream.core.events import Usage
from midstream.core.inputs import RequestedCall
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener
from midstream.testing import ScriptedModel, call


@dataclass
class Verdict:
    is_good: bool


def judging() -> midstream.Workflow:
    flow = midstream.Workflow("judge")
    critic = flow.agent("critic", system="You judge.")

    @flow.start(ask=critic, prompt="Judge.", output=Verdict)
    def look(run: midstream.StateRun) -> object:
        return midstream.stop(run.result.is_good)

    return flow


async def test_an_answer_that_does_not_fit_its_schema_is_asked_for_again(tmp_path: Path) -> None:
    model = ScriptedModel(call("submit", is_good="yes, very"), call("submit", is_good=True))
    async with midstream.open(tmp_path, model=model, journal=":memory:") as engine:
        run = await engine.start(judging())
        assert await run.wait() is True
        replies = [e async for e in run.events() if isinstance(e, midstream.AgentResponded)]

    assert "do not fit its schema: at $.is_good" in replies[0].problem
    assert replies[0].problem in str(model.requests[1].messages[-1])


async def test_one_that_never_fits_fails_the_run_and_says_how(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: call("submit", is_good="yes"))
    async with midstream.open(tmp_path, model=model, journal=":memory:") as engine:
        run = await engine.start(judging())
        with pytest.raises(midstream.MidstreamError, match=r"unusable replies.*at \$\.is_good"):
            await run.wait()


async def test_a_tool_is_not_called_with_arguments_that_do_not_fit(tmp_path: Path) -> None:
    counted: list[int] = []

    @midstream.tool(effect="read")
    def count(number: int) -> int:
        """Count."""
        counted.append(number)
        return number

    model = ScriptedModel(call("count", number="three"), call("count", number=3), "Three.")
    async with midstream.open(tmp_path, model=model, journal=":memory:", tools=[count]) as engine:
        assert await (await engine.start(TALK)).wait() == "Three."

    assert counted == [3]


class Odd:
    """A model that returns, or raises, what it is given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        if isinstance(self.answer, Exception):
            raise self.answer
        reply: ModelReply = self.answer
        return reply


# What a program that is not checked by types may make of them.
_REPLY: Any = ModelReply
_CALL: Any = RequestedCall
_USAGE: Any = Usage


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Done.", "The model Odd returned str, no ModelReply"),
        (KeyError("key"), "The model Odd failed: KeyError: 'key'"),
        (midstream.WorldTrouble("It is down."), "It is down"),
        (_REPLY(text=None), "Odd returned a ModelReply whose text is None, no str"),
        (_REPLY(text="", calls=None), "whose calls are None, no tuple of RequestedCall"),
        (
            _REPLY(text="", calls=({"name": "a"},)),
            r"whose calls\[0\] is dict, no RequestedCall",
        ),
        (
            _REPLY(text="", calls=(_CALL(name="a", arguments="{}"),)),
            r"whose calls\[0\].arguments are str, no dict",
        ),
        (
            _REPLY(text="", calls=(_CALL(name=None, arguments={}),)),
            r"whose calls\[0\].name is None, no str",
        ),
        (_REPLY(text="", usage=7), "whose usage is int, no Usage"),
        (
            _REPLY(text="", usage=_USAGE(model="m", input_tokens="7")),
            "whose usage does not fit: .*got `str`.*input_tokens",
        ),
    ],
)
async def test_what_it_does_wrong_is_said_of_it(tmp_path: Path, answer: Any, said: str) -> None:
    async with midstream.open(tmp_path, model=Odd(answer), journal=":memory:") as engine:
        run = await engine.start(TALK)
        with pytest.raises(midstream.MidstreamError, match=said) as caught:
            await run.wait()

    assert "bug in midstream" not in caught.value.hint


def test_what_has_no_request_is_no_model(tmp_path: Path) -> None:
    with (
        pytest.raises(midstream.UserMistake, match="A dict is no model"),
        midstream.open_sync(tmp_path, model={}, journal=":memory:"),  # type: ignore[arg-type]
    ):
        pass

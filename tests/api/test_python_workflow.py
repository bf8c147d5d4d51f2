"""Workflows written in Python are the definition of a file: checked, drawn, pinned and run as one."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import msgspec
import pydantic
import pytest
from api_kit import Place, here

import midstream
from midstream import StateRun, Workflow, stop
from midstream.testing import Gate, ScriptedModel, asks, call, calls, says

__all__ = ["here"]


@dataclasses.dataclass
class Verdict:
    is_good: bool
    why: str = ""


class Judged(msgspec.Struct):
    is_good: bool
    why: str = ""


class Model(pydantic.BaseModel):
    is_good: bool
    why: str = ""


def verdict(is_good: bool, why: str = "") -> Any:
    return calls(call("submit", is_good=is_good, why=why))


def haiku(kind: Any = Verdict) -> Workflow:
    flow = Workflow("haiku", input=str)
    poet = flow.agent("poet", system="You write haiku.")
    critic = flow.agent("critic", system="You judge haiku.", sees="user", context="desk")

    @flow.start(ask=poet, prompt="A haiku about ${input}")
    def write(run: StateRun) -> Any:
        run.data["haiku"] = run.reply
        return look

    @flow.state(ask=critic, prompt="${common_data.haiku}", output=kind, max_visits=4)
    async def look(run: StateRun) -> Any:
        assert isinstance(run.result, kind)
        run.data["why"] = run.result.why
        return stop(run.data["haiku"]) if run.result.is_good else write

    @flow.resume(ask=poet)
    def resume(run: StateRun, words: str) -> Any:
        run.data["words"] = words
        run.data["haiku"] = run.reply
        return look

    return flow


@pytest.mark.parametrize("kind", [Verdict, Judged, Model])
async def test_a_loop_of_two_agents_with_a_typed_reply(here: Place, kind: Any) -> None:
    model = ("An old pond", verdict(False, "old"), "A new pond", verdict(True))
    engine = await here.engine(*model)
    run = await engine.start(haiku(kind), "rain")

    assert await run.wait() == "A new pond"
    assert run.run.visits["write"] == run.run.visits["look"] == 2
    asked = here.models[0].requests
    assert [each.agent for each in asked] == ["poet", "critic"] * 2
    assert "A haiku about rain" in asked[0].messages[-1].text
    assert asked[0].system == "You write haiku."


async def test_words_in_the_middle_reach_the_function_resume(here: Place) -> None:
    gate = Gate()
    engine = await here.engine(says("An old ", "pond", gate=gate, after=1), "Snow", verdict(True))
    run = await engine.start(haiku(), "rain")
    await gate.reached()

    await run.say("about snow")

    assert await run.wait() == "Snow"
    assert run.data["words"] == "about snow"


async def test_a_run_goes_on_after_its_process_with_the_workflow_given_again(here: Place) -> None:
    gate = Gate()
    first = await here.engine("An old pond", says("...", gate=gate))
    run = await first.start(haiku(), "rain")
    await gate.reached()
    await first.close()

    second = await here.engine(verdict(True))
    with pytest.raises(midstream.UserMistake, match="built in code"):
        await second.resume(run.id)
    again = await second.resume(run.id, haiku())
    assert await again.wait() == "An old pond"
    assert again.run.visits["write"] == 1, "what had been done is not done again"


async def test_the_same_key_again_goes_on_with_the_workflow_that_is_given_with_it(
    here: Place,
) -> None:
    gate = Gate()
    first = await here.engine("An old pond", says("...", gate=gate))
    run = await first.start(haiku(), "rain", key="k")
    await gate.reached()
    await first.close()

    second = await here.engine(verdict(True))
    with pytest.raises(midstream.UserMistake, match="built in code"):
        await second.take(run.id)
    again = await second.start(haiku(), "rain", key="k")
    assert again.id == run.id
    assert await again.wait() == "An old pond"
    assert again.run.visits["write"] == 1, "what had been done is not done again"


async def test_a_function_that_has_changed_is_told_before_anything_goes_on(here: Place) -> None:
    first = await here.engine(asks("Sure?"))

    def flow_of(function: Callable[..., Any]) -> Workflow:
        flow = Workflow("ask")
        flow.start(ask=flow.agent("dude"))(function)
        return flow

    def reply(run: StateRun) -> Any:
        return stop("old")

    old = flow_of(reply)

    def reply(run: StateRun) -> Any:  # type: ignore[no-redef]
        return stop("new")

    new = flow_of(reply)
    run = await first.start(old, "x")
    await run.settled()
    await first.close()

    second = await here.engine("Yes.")
    with pytest.raises(midstream.DefinitionDiffers, match='choice="new"'):
        await second.resume(run.id, new)
    again = await second.resume(run.id, new, choice="new")
    await again.say("yes")
    assert await again.wait() == "new"


async def test_questions_waits_tools_branches_items_and_workflows_are_states(here: Place) -> None:

    @midstream.tool(effect="read")
    def size(name: str) -> int:
        """Return how long a name is."""
        return len(name)

    inner = Workflow("inner", input=str)

    @inner.start
    def shout(run: StateRun) -> Any:
        return stop(str(run.input).upper())

    flow = Workflow("all", input=list, tools=[size])

    @flow.start(question="Which?", choices=["one", "two"])
    def ask(run: StateRun) -> Any:
        run.data["answer"] = run.result
        return pause

    @flow.state(wait=0.001)
    def pause(run: StateRun) -> Any:
        return measure

    @flow.state(call="size", arguments={"name": "${common_data.answer}"})
    def measure(run: StateRun) -> Any:
        run.data["size"] = run.result
        return each

    @flow.state(for_each="common_data.input", do="item")
    def each(run: StateRun) -> Any:
        run.data["items"] = run.result
        return both

    @flow.state
    def item(run: StateRun) -> Any:
        return stop(f"<{run.input}>")

    @flow.state(parallel=[item, "other"])
    def both(run: StateRun) -> Any:
        run.data["both"] = run.result
        return call_inner

    @flow.state
    def other(run: StateRun) -> Any:
        return "stop"

    @flow.state(workflow=inner, input="${common_data.answer}")
    def call_inner(run: StateRun) -> Any:
        run.data["inner"] = run.result
        return stop(run.data)

    engine = await here.engine()
    run = await engine.start(flow, ["a", "b"])
    await run.settled()
    await run.say("two")
    output: Any = await run.wait()

    assert output["answer"] == "two"
    assert output["size"] in (3, "3")
    assert output["inner"] == "TWO"
    assert output["items"] == ["<a>", "<b>"]
    assert set(output["both"]) == {"item", "other"}


def test_where_a_function_leads_is_checked_before_anything_runs() -> None:
    flow = Workflow("wrong")

    def helper(run: StateRun) -> None: ...

    @flow.start
    def begin(run: StateRun) -> Any:
        if run.input:
            return helper
        return "nowhere"

    with pytest.raises(midstream.AuthorMistake) as raised:
        flow.check()

    assert "begin returns helper" in str(raised.value)
    assert "begin returns nowhere" in str(raised.value)


async def test_the_files_own_checker_reads_it(here: Place) -> None:
    flow = Workflow("wrong")

    @flow.start(ask="nobody", prompt="${common_data.}")
    def begin(run: StateRun) -> Any:
        return stop()

    engine = await here.engine()
    with pytest.raises(midstream.AuthorMistake, match="nobody"):
        await engine.start(flow)


def test_it_is_drawn_with_every_way_its_functions_lead() -> None:
    picture = haiku().graph("mermaid")

    for edge in ("write", "look", "resume", "stop"):
        assert edge in picture
    assert haiku().graph().count("look") >= 1
    assert haiku().graph("svg").startswith("<svg")


def test_its_digest_follows_its_functions_and_nothing_else() -> None:
    assert haiku().digest == haiku().digest
    assert haiku(Judged).document == {**haiku(Judged).document}
    other = haiku()
    other.state(lambda run: None).name  # noqa: B018
    assert other.digest != haiku().digest


def test_the_digest_of_functions_without_a_text_follows_what_they_do() -> None:
    def digest(body: str) -> str:
        names: dict[str, Any] = {"stop": stop}
        exec(f"def begin(run):\n    return {body}", names)  # as at a prompt
        flow = Workflow("prompt")
        flow.start(names["begin"])
        return flow.digest

    assert digest("stop(1)") == digest("stop(1)")
    bodies = ("stop(1)", "stop(2)", "stop(run.state)", "run.state", "[x + 1 for x in run.data]")
    assert len(set(map(digest, bodies))) == len(bodies)


def test_what_cannot_be_a_workflow_is_said_where_it_is_written() -> None:
    flow = Workflow("twice")

    @flow.start
    def begin(run: StateRun) -> Any:
        return stop()

    with pytest.raises(midstream.AuthorMistake, match="two states for start"):

        @flow.start
        def other(run: StateRun) -> Any:
            return stop()

    with pytest.raises(midstream.AuthorMistake, match="state begin already"):
        flow.state(begin.function)
    with pytest.raises(midstream.AuthorMistake, match="cannot be"):
        Workflow("x", input=set)
    for thing in (functools.partial(begin.function, 1), len, begin):
        with pytest.raises(midstream.AuthorMistake, match="is no function"):
            flow.state(thing)
    assert begin(None) == stop()


async def test_functions_may_be_decorated_methods_or_name_what_is_not_set_yet(here: Place) -> None:
    def traced(function: Any) -> Any:
        @functools.wraps(function)
        def around(*given: Any) -> Any:
            return function(*given)

        return around

    class Steps:
        def third(self, run: StateRun) -> Any:
            return stop("done") if run.data["first"] else later

    steps, flow = Steps(), Workflow("decorated")

    @flow.start
    @traced
    def first(run: StateRun) -> Any:
        run.data["first"] = True
        return second

    @flow.state
    @traced
    async def second(run: StateRun) -> Any:
        return third

    third = flow.state(steps.third)
    run = await (await here.engine()).start(flow)
    assert await run.wait() == "done"
    later = None


def test_it_runs_without_a_loop_too(tmp_path: Any) -> None:
    model = ScriptedModel("An old pond", verdict(True))
    output = midstream.run(haiku(), "rain", model=model, journal=":memory:", workspace=tmp_path)
    assert output == "An old pond"

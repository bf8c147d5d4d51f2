"""States that need no script: prompts, transitions, tools, questions, waits, errors, budgets."""

from typing import Any

import pytest
from machine_kit import at_rest, end, flow, rounds, running, scene

from midstream.core import events as e
from midstream.language.names import Json
from midstream.runtime.effects import LONGEST_SLEEP_S
from midstream.runtime.ports import ToolOutcome
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.testing.fakes import FakeTool, Gate, Scripted, call, calls, says

LATE: Json = {"on": ["timeout"], "to": "then"}
STOP: dict[str, Json] = {"name": "stop", "input": "common_data.out"}


def state(name: str, **fields: Any) -> dict[str, Json]:
    return {"name": name, **fields}


async def test_a_prompt_is_filled_in_and_its_reply_saved() -> None:
    workflow = flow(
        state("start", agent="dude", prompt="Describe ${input}.", save_as="plan.text", next="more"),
        state("more", agent="dude", prompt="Shorten: ${common_data.plan.text}", save_as="out"),
        STOP,
    )
    async with running(workflow, says("A ${input} cat."), says("Cat."), input="cats") as here:
        run = await end(here)

        assert run.output == "Cat."
        assert run.common_data["plan"] == {"text": "A ${input} cat."}
        assert [p.text for p in here.told.of(e.Prompted)] == [
            "Describe cats.",
            "Shorten: A ${input} cat.",
        ]
        assert here.model.asked[0].words() == [("user", "Describe cats.")]


async def test_the_first_true_transition_is_taken() -> None:
    workflow = flow(
        state(
            "start",
            agent="dude",
            save_as="out",
            transitions=[
                {"when": "'bad' in last.text and visits.start < 3", "to": "start"},
                {"when": "visits.start >= 3", "to": "worse"},
                {"to": "stop"},
            ],
        ),
        state("worse", agent="dude", prompt="${visits.start} times!", save_as="out"),
        STOP,
    )
    async with running(
        workflow, says("bad"), says("bad"), says("bad"), says("oh"), input="tidy"
    ) as here:
        run = await end(here)

        assert run.output == "oh"
        assert here.told.path() == ["start", "start", "start", "worse", "stop"]
        assert here.told.of(e.StateTransition)[1].reason.startswith("when 'bad' in")


async def test_a_tool_is_called_without_a_model() -> None:
    tool = FakeTool(name="grep", effect="read", answer='{"hits": [1, 2]}')
    workflow = flow(
        state(
            "start",
            tool="grep",
            arguments={"for": "${input}", "in": ["${common_data?.}"]},
            save_as="found",
            next="say",
        ),
        state("say", agent="dude", prompt="${common_data.found.hits}", save_as="out"),
        STOP,
    )
    async with running(workflow, says("two"), tools=[tool], input="later") as here:
        run = await end(here)

        assert run.common_data["found"] == {"hits": [1, 2]}
        assert here.tools.calls[0].arguments == {"for": "later", "in": [{}]}
        assert here.told.of(e.Prompted)[0].text == "[1,2]"


async def test_a_state_asks_by_itself() -> None:
    workflow = flow(
        state(
            "start",
            ask={"question": "Which ${input}?", "choices": ["red", "blue"]},
            save_as="out",
        ),
        STOP,
    )
    async with at_rest(workflow, input="colour") as here:
        (question,) = here.run.inbox.open_questions
        assert (question.text, question.choices) == ("Which colour?", ("red", "blue"))
        refused = await here.machine.say("green")
        assert refused.handling == "answer"
        await here.machine.say("2")
        run = await end(here)

        assert run.output == "blue"


@pytest.mark.parametrize(
    ("extra", "path", "out"),
    [
        ({"on_timeout": "default", "default": "red"}, ["start", "stop"], "red"),
        ({"on_timeout": "goto", "to": "late"}, ["start", "late", "stop"], "late!"),
    ],
)
async def test_a_question_closes_when_its_time_is_over(
    extra: dict[str, Json], path: list[str], out: str
) -> None:
    workflow = flow(
        state("start", ask={"question": "Which?", "deadline_s": 60, **extra}, save_as="out"),
        state("late", agent="dude", save_as="out"),
        STOP,
    )
    async with running(workflow, says("late!"), input="tidy") as here:
        await rounds()
        here.clock.jump(59)
        await rounds()
        assert here.run.visit.state == "start"
        here.clock.jump(2)
        run = await end(here)

        assert run.output == out
        assert here.told.path() == path
        assert len(here.told.of(e.QuestionExpired)) == 1
        assert run.inbox.questions[0].status == "expired"


async def test_a_wait_is_over_in_time() -> None:
    workflow = flow(
        state("start", wait=3600, next="then"), state("then", wait={"until": "${input}"})
    )
    async with running(workflow, input="2023-11-14T23:20:00Z") as here:
        await rounds()
        here.clock.jump(3599)
        await rounds()
        assert here.run.visit.state == "start"
        here.clock.jump(2)
        await rounds()
        assert here.run.visit.state == "then"
        here.clock.jump(500)
        run = await end(here)

        assert run.status == "finished"


DAY_S = 86_400.0


@pytest.mark.parametrize("set_by", [-DAY_S, DAY_S], ids=["back", "on"])
@pytest.mark.parametrize(
    "start",
    [
        state("start", wait=100, next="then"),
        state(
            "start", ask={"question": "?", "deadline_s": 100, "on_timeout": "goto", "to": "then"}
        ),
        state("start", agent="dude", timeout_s=100, catch=[LATE], next="stop"),
    ],
    ids=["wait", "deadline", "timeout"],
)
async def test_a_wait_takes_its_time_however_the_clock_is_set(
    start: dict[str, Json], set_by: float
) -> None:
    async with running(flow(start, state("then")), says("late", gate=Gate()), input="tidy") as here:
        await rounds()
        here.clock.set(here.clock.now() + set_by)
        here.clock.jump(99)
        await rounds()
        assert here.run.visit.state == "start"
        here.clock.jump(1)
        assert (await end(here)).status == "finished"


async def test_after_a_crash_a_wait_takes_no_longer_than_it_was_to_take() -> None:
    async with running(flow(state("start", wait=100)), is_journaled=False, input="tidy") as here:
        await rounds()
        run = await here.machine.leave()
        here.clock.set(here.clock.now() - DAY_S)
        machine = WorkflowStateMachine(here.machine._definition, here.machine._world, id=run.id)
        await machine.resume(run, was_cut=True)
        await rounds()
        here.clock.jump(99)
        await rounds()
        assert machine.run.visit.state == "start"
        here.clock.jump(1)
        assert (await machine.wait()).status == "finished"


async def test_a_wait_for_a_time_of_day_follows_the_clock_as_it_is_set() -> None:
    async with running(
        flow(state("start", wait={"until": "${input}"})), input="2023-11-14T23:20:00Z"
    ) as here:
        await rounds()
        here.clock.set(1_700_005_000.0)
        here.clock.jump(LONGEST_SLEEP_S)
        assert (await end(here)).status == "finished"


async def test_a_tool_that_fails_is_tried_again_and_then_caught() -> None:
    tool = FakeTool(
        name="grep", effect="read", answer=ToolOutcome(outcome="failed", text="no luck")
    )
    workflow = flow(
        state(
            "start",
            tool="grep",
            retry={"max_attempts": 3, "backoff_s": 10},
            catch=[{"on": ["tool"], "to": "sorry", "save_as": "trouble"}],
        ),
        state("sorry", agent="dude", prompt="${common_data.trouble.error}", save_as="out"),
        STOP,
    )
    async with running(workflow, says("sorry"), tools=[tool], input="tidy") as here:
        for seconds in (10, 20):
            await rounds()
            here.clock.jump(seconds - 1)
            await rounds()
            here.clock.jump(1)
        run = await end(here)

        assert run.output == "sorry"
        assert len(here.tools.calls) == 3
        assert [(f.then, f.wait_s) for f in here.told.of(e.StateFailed)] == [
            ("retry", 10.0),
            ("retry", 20.0),
            ("catch", 0.0),
        ]
        assert "no luck" in run.common_data["trouble"]["error"]


async def test_a_state_that_takes_too_long_is_cut() -> None:
    gate = Gate()
    workflow = flow(
        state("start", agent="dude", timeout_s=30, catch=[{"on": ["timeout"], "to": "short"}]),
        state("short", agent="dude", prompt="Shorter.", save_as="out"),
        STOP,
    )
    async with running(
        workflow, says("Once upon", gate=gate, after=1), says("Hm."), input="tidy"
    ) as here:
        await gate.reached()
        await rounds()
        here.clock.jump(31)
        run = await end(here)

        assert run.output == "Hm."
        kept = [message for message in run.contexts["talk"] if message.interrupted]
        assert [message.text for message in kept] == ["Once upon"]
        assert not run.halt.cuts, "nobody interrupted: there is nothing to go back to"


async def test_a_state_is_visited_so_often_and_no_more() -> None:
    workflow = flow(
        state(
            "start",
            agent="dude",
            next="start",
            max_visits=2,
            catch=[{"on": ["max_visits"], "to": "stop"}],
        ),
    )
    async with running(workflow, says("a"), says("b"), input="tidy") as here:
        run = await end(here)

        assert run.status == "finished"
        assert here.told.path() == ["start", "start", "stop"]


async def test_a_budget_ends_the_work() -> None:
    workflow = flow(state("start", agent="dude", next="start"), budget={"tokens": 100})
    usage = e.Usage(model="m", input_tokens=30, output_tokens=30)
    reply = Scripted(pieces=("x",), usage=usage)
    async with scene(workflow, reply, reply, reply) as here:
        await here.machine.start(approvals="deny")
        run = await end(here)

        assert run.status == "failed"
        assert "100 tokens" in run.error
        assert len(here.model.requests) == 2


async def test_a_structured_reply_is_asked_for_until_it_fits() -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    workflow = flow(state("start", agent="dude", output_schema=schema, save_as="out"), STOP)
    async with running(
        workflow, says("a, b"), calls(call("submit", value=["a", "b"])), input="tidy"
    ) as here:
        run = await end(here)

        assert run.output == ["a", "b"]
        assert here.model.requests[0].must_call


async def test_words_lead_to_the_resume_of_the_state_and_back() -> None:
    gate = Gate()
    workflow = flow(
        state("start", agent="dude", prompt="Write.", resume="listen", save_as="out"),
        state("listen", agent="dude", next="$interrupted"),
        STOP,
    )
    async with running(
        workflow, says("Once", gate=gate), says("Yes."), says("Twice"), input="tidy"
    ) as here:
        await gate.reached()
        await here.machine.say("shorter!")
        run = await end(here)

        assert here.told.path() == ["start", "listen", "start", "stop"]
        assert run.output == "Twice"
        assert len(here.told.of(e.Prompted)) == 1, "the prompt stands in the conversation already"


async def test_a_once_call_of_a_state_that_was_cut_is_never_made_again_by_itself() -> None:
    gate = Gate()
    tool = FakeTool(name="deploy", effect="once", gate=gate)
    workflow = flow(
        state("start", tool="deploy", save_as="out"),
        state("resume", agent="dude", next="$interrupted"),
        STOP,
    )
    async with running(workflow, says("Going on."), tools=[tool], input="tidy") as here:
        await gate.reached()
        await here.machine.say("wait")
        await rounds()
        await here.machine.settled()

        assert len(here.told.of(e.ToolCalled)) == 1

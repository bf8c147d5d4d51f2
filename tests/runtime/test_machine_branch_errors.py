"""What disturbed runs within a run: answers and words to a branch, branches that begin again."""

from typing import Any

from machine_kit import at_rest, end, flow, rounds, running
from test_machine_branches import ALL, STOP, THREE, plays, reviewers, state

from midstream.core.decide.steering import NOT_KNOWN
from midstream.core.events import BranchStopped, InputDisposed, QuestionAsked, ToolCalled
from midstream.runtime.ports import ToolOutcome
from midstream.testing.fakes import FakeTool, Gate, Scripted, call, calls, says


async def test_the_answer_to_a_branch_that_asks_by_itself_lets_it_go_on() -> None:
    branch = {"name": "ask", "states": [state("sure", ask="Sure?", save_as="sure")]}
    async with at_rest(
        flow(state("start", parallel=[branch], save_as="out"), STOP), input="tidy"
    ) as here:
        await here.machine.say("yes", question=here.question())
        run = await end(here)

        assert run.output == {"ask": "yes"}
        assert run.common_data["sure"] == "yes"


async def test_words_to_a_branch_may_lead_to_a_state_without_an_agent() -> None:
    gate = Gate()
    branch = {
        "name": "b",
        "states": [
            state("talk", agent="dude", resume="sure"),
            state("sure", ask="Sure?", next="$interrupted"),
        ],
    }
    lines = {"talk": [says("Once", gate=gate), says("Twice")]}
    workflow = flow(state("start", parallel=[branch], save_as="out"), STOP)
    async with running(workflow, *plays(lines), input="tidy") as here:
        await gate.reached()
        await here.machine.say("@b wait")
        await here.machine.settled()
        await here.machine.say("yes", question=here.question())
        run = await end(here)

        assert run.output == {"b": "Twice"}


async def test_a_question_of_a_branch_that_begins_again_is_another_question() -> None:
    branch = {"name": "ask", "states": [state("sure", ask="Sure?", save_as="sure")]}
    workflow = flow(
        state(
            "start",
            parallel=[branch],
            transitions=[{"when": "visits.start < 2", "to": "start"}, {"to": "stop"}],
        ),
        STOP,
    )
    async with running(workflow, input="tidy") as here:
        for answer in ("yes", "no"):
            await here.machine.settled()
            await here.machine.say(answer, question=here.question())
        run = await end(here)

        assert run.status == "finished"
        ids = [fact.question_id for fact in here.told.of(QuestionAsked)]
        assert len(set(ids)) == 2, "an answer to the first is no answer to the second"
        assert [question.status for question in run.inbox.questions] == ["answered", "answered"]


async def test_words_to_a_branch_that_is_being_stopped_are_refused() -> None:
    gate = Gate()
    tool = FakeTool(name="dig", effect="once", gate=gate, when_stopped=None)
    lines = {**ALL, "spots": calls(call("dig", key="1"))}
    async with running(reviewers(join=2), *plays(lines), tools=[tool], input="tidy") as here:
        await gate.reached()
        await rounds()
        assert here.run.visit.branches["spots"].visit.phase == "halting"
        receipt = await here.machine.say("@spots go on")
        assert (receipt.handling, here.run.visit.branches["spots"].halt.leads_to) == (
            "reject",
            "stop",
        )
        gate.open()
        run = await end(here)

        assert run.common_data["found"] == {"structure": "layers", "tests": "few"}
        (refused,) = here.told.of(InputDisposed)
        assert refused.reason == "the branch is stopping"


async def test_branches_are_told_why_they_were_stopped() -> None:
    gates = {name: Gate() for name in THREE}
    lines: dict[str, Any] = {**ALL, **{n: says("x", gate=gates[n]) for n in THREE}}
    lines["spots"] = Scripted(error=OSError("down"), gate=gates["spots"])
    async with running(
        reviewers(catch=[{"to": "sum", "save_as": "found"}]), *plays(lines), input="tidy"
    ) as here:
        for gate in gates.values():
            await gate.reached()
        gates["spots"].open()
        await end(here)

        assert {f.reason for f in here.told.of(BranchStopped)} == {"another branch failed"}


async def test_a_once_call_that_took_too_long_is_not_tried_again() -> None:
    gate = Gate()
    tool = FakeTool(name="deploy", effect="once", gate=gate)
    workflow = flow(
        state(
            "start",
            tool="deploy",
            timeout_s=30,
            retry={"max_attempts": 3, "backoff_s": 0},
            catch=[{"on": ["timeout"], "to": "sorry"}],
        ),
        state("sorry", agent="dude", save_as="out"),
        STOP,
    )
    async with running(workflow, says("Sorry."), tools=[tool], input="tidy") as here:
        await gate.reached()
        await rounds()
        here.clock.jump(31)
        run = await end(here)

        assert len(here.told.of(ToolCalled)) == 1, "it may have had its effect"
        assert run.output == "Sorry."


async def test_a_once_call_of_unknown_outcome_is_not_tried_again() -> None:
    tool = FakeTool(
        name="deploy", effect="once", answer=ToolOutcome(outcome="unknown", text="Who knows?")
    )
    workflow = flow(
        state("start", tool="deploy", retry={"max_attempts": 3, "backoff_s": 0}),
        STOP,
    )
    async with at_rest(workflow, tools=[tool], input="tidy") as here:
        await here.machine.say(NOT_KNOWN, question=here.question())
        run = await end(here)

        assert len(here.told.of(ToolCalled)) == 1
        assert run.status == "failed"


async def test_a_once_call_of_a_branch_is_made_once_though_the_state_is_tried_again() -> None:
    gate = Gate()
    made = ToolOutcome(outcome="completed", text="made after all")
    tool = FakeTool(name="deploy", effect="once", gate=gate, when_stopped=made)
    lines = {"talk": [Scripted(error=OSError("down")), says("Talked.")], "tell": says("Told.")}
    branches = [
        {"name": "talk", "states": [state("talk", agent="dude")]},
        {"name": "make", "states": [state("d", tool="deploy", next="tell"), TELL]},
    ]
    retry = {"max_attempts": 2, "backoff_s": 5, "on": ["branch"]}
    workflow = flow(state("start", parallel=branches, retry=retry, save_as="out"), STOP)
    async with running(workflow, *plays(lines), tools=[tool], input="tidy") as here:
        await gate.reached()
        await rounds(50)
        here.clock.jump(6)
        run = await end(here)

        assert run.output == {"talk": "Talked.", "make": "Told."}
        assert [called.name for called in here.tools.calls] == ["deploy"]


TELL = state("tell", agent="dude")


async def test_an_agent_goes_on_with_the_words_where_it_was() -> None:
    gate = Gate()
    start = state("start", agent="dude", prompt="P", resume="$interrupted", save_as="out")
    async with running(
        flow(start, STOP), says("Once ", "upon", gate=gate), says("Once."), input="tidy"
    ) as here:
        await gate.reached()
        await here.machine.say("shorter")
        run = await end(here)

        assert run.output == "Once."
        heard = [message.text for message in here.model.requests[-1].messages]
        assert heard[-1] == "shorter"
        assert heard[0] == "P"
        assert heard.count("P") == 1

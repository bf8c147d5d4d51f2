"""Calls that are judged by what they would do: allowed, asked about, refused, changed, granted."""

from typing import Any

import pytest
from machine_kit import PLAIN, RESUMING, at_rest, flow, running, scene

from midstream.core import events as e
from midstream.core.question import Decision
from midstream.language.names import Json
from midstream.runtime.ports import Review, ToolContext
from midstream.safety.capability import SHOWN
from midstream.testing.fakes import FakeTool, Gate, Scripted, call, calls


def asking(arguments: dict[str, Json], context: ToolContext) -> Review:
    """Ask about the command of a call unless it was granted, as the real manager does."""
    asks = f"exec: {arguments['command']}"
    if asks in context.granted:
        return Review()
    return Review(
        kind="ask", asks=(asks, f"{SHOWN}{asks}"), shows=f"$ {asks}", reason="Commands ask."
    )


def terminal(**more: Any) -> FakeTool:
    return FakeTool(name="run", effect="once", review=asking, answer="ran", **more)


async def test_a_call_that_needs_nothing_is_made_unasked() -> None:
    tool = FakeTool(name="run", effect="once", review=Review(), answer="ran")
    async with running(PLAIN, call("run", command="ls"), "Done.", tools=[tool]) as here:
        await here.machine.wait()

        assert [called.ended for called in here.tools.calls] == ["completed"]
        assert here.told.of(e.QuestionAsked) == []


async def test_an_approval_shows_what_would_happen_and_why_it_is_asked() -> None:
    async with at_rest(PLAIN, call("run", command="make"), "Done.", tools=[terminal()]) as here:
        asked = here.run.inbox.open_questions[0]
        assert asked.text == "run\n$ exec: make"
        assert asked.why == "Commands ask."
        assert asked.asks == ("exec: make", f"{SHOWN}exec: make")
        assert here.told.of(e.ToolCalled) == []
        await here.machine.approve(asked.id, Decision(granted=True))
        await here.machine.wait()

        assert here.tools.calls[0].context.granted == ("exec: make", f"{SHOWN}exec: make")


async def test_a_refused_call_tells_the_model_which_rule_refused_it() -> None:
    no = Review(kind="deny", reason="exec: rm is denied by your rules.", hint="Remove the rule.")
    tool = FakeTool(name="run", effect="once", review=no)
    async with running(PLAIN, call("run"), "Fine.", tools=[tool]) as here:
        await here.machine.wait()

        assert here.tools.calls == []
        told = here.told.of(e.ToolReturned)[0]
        assert told.outcome == "denied"
        assert told.result == "Refused: exec: rm is denied by your rules. Remove the rule."


async def test_a_grant_for_the_run_is_the_capability_and_not_the_tool() -> None:
    two = calls(call("run", command="make"), call("run", command="make"))
    other = call("run", command="rm")
    script = (two, call("run", command="make"), other, "Done.")
    async with at_rest(PLAIN, *script, tools=[terminal()]) as here:
        await here.machine.approve(
            here.run.inbox.open_questions[0].id, Decision(granted=True, for_run=True)
        )
        await here.machine.settled()

        assert [c.arguments["command"] for c in here.tools.calls] == ["make"] * 3
        assert here.run.allowed == ("exec: make",)
        assert [q.asks[0] for q in here.run.inbox.open_questions] == ["exec: rm"]
        assert here.told.of(e.PermissionGranted)[0].capabilities == ("exec: make",)


async def test_what_was_granted_can_be_taken_back() -> None:
    gate = Gate()
    script = Scripted(calls=(call("run", command="make"),), gate=gate)
    async with scene(PLAIN, script, "Done.", tools=[terminal(gate=None)]) as here:
        await here.machine.start(allowed=["exec: make", "exec: ls"])
        await here.machine.revoke("exec: make")
        await here.machine.revoke("exec: nothing")
        gate.open()
        await here.machine.settled()

        assert here.run.allowed == ("exec: ls",)
        assert [fact.permission for fact in here.told.of(e.PermissionRevoked)] == ["exec: make"]
        assert len(here.run.inbox.open_questions) == 1


async def test_a_person_may_change_a_call_before_it_is_made() -> None:
    async with at_rest(PLAIN, call("run", command="rm -rf /"), "Ok.", tools=[terminal()]) as here:
        await here.machine.approve(
            here.question(), Decision(granted=True, edited={"command": "ls"})
        )
        await here.machine.wait()

        assert [called.arguments for called in here.tools.calls] == [{"command": "ls"}]
        result = here.model.requests[1].messages[-1].results[0].text
        assert result == 'The user changed the arguments before it ran, to {"command":"ls"}.\n\nran'
        # What the model had asked for stays what it had asked for.
        assert here.model.requests[1].messages[-1].calls[0].arguments == {"command": "rm -rf /"}


async def test_what_a_person_does_not_change_of_a_call_stays() -> None:
    asked = call("run", command="rm -rf /", timeout_s=5)
    async with at_rest(PLAIN, asked, "Ok.", tools=[terminal()]) as here:
        await here.machine.approve(
            here.question(), Decision(granted=True, edited={"command": "ls"})
        )
        await here.machine.wait()

        made = [called.arguments for called in here.tools.calls]
        assert made == [{"command": "ls", "timeout_s": 5}]


async def test_a_changed_call_for_a_closed_question_or_none_makes_no_call() -> None:
    async with scene(PLAIN, call("run", command="rm -rf /"), "Ok.", tools=[terminal()]) as here:
        changed = Decision(granted=True, edited={"command": "ls"})
        await here.machine.start()
        await here.machine.settled()
        await here.machine.approve("q0", changed)
        closed = here.question()
        await here.machine.approve(closed, Decision(granted=False))
        await here.machine.approve(closed, changed)
        await here.machine.wait()

        assert here.tools.calls == []
        assert [fact.outcome for fact in here.told.of(e.ToolReturned)] == ["denied"]


async def test_a_changed_call_that_is_denied_is_not_made() -> None:
    def review(arguments: dict[str, Json], context: ToolContext) -> Review:
        if arguments["command"] == "evil":
            return Review(kind="deny", reason="No.")
        return asking(arguments, context)

    tool = FakeTool(name="run", effect="once", review=review)
    async with at_rest(PLAIN, call("run", command="ls"), "Ok.", tools=[tool]) as here:
        await here.machine.approve(
            here.question(), Decision(granted=True, edited={"command": "evil"})
        )
        await here.machine.wait()

        assert here.tools.calls == []
        assert [fact.outcome for fact in here.told.of(e.ToolReturned)] == ["denied"]


async def test_where_nobody_can_say_yes_the_refusal_says_what_to_allow() -> None:
    async with scene(PLAIN, call("run", command="a b"), "Fine.", tools=[terminal()]) as here:
        await here.machine.start(approvals="deny")
        await here.machine.wait()

        assert here.tools.calls == []
        assert here.told.of(e.ToolReturned)[0].result == (
            "Refused: Commands ask. Nobody is there to give a yes. "
            "A person can allow it with --allow 'exec: a b'."
        )


async def test_words_during_a_review_stop_the_call_before_it_is_made() -> None:
    async with at_rest(
        RESUMING, call("run", command="make"), "Noted.", "Done.", tools=[terminal()]
    ) as here:
        question = here.question()
        await here.machine.say("stop that")
        await here.machine.approve(question, Decision(granted=True))
        await here.machine.wait()

        assert here.tools.calls == []
        assert [fact.outcome for fact in here.told.of(e.ToolReturned)] == ["not_run"]


async def test_a_tool_state_is_asked_about_like_an_agents_call() -> None:
    workflow = flow({"name": "start", "tool": "run", "arguments": {"command": "make"}})
    async with at_rest(workflow, tools=[terminal()]) as here:
        await here.machine.approve(here.question(), Decision(granted=True))
        await here.machine.wait()

        assert here.run.status == "finished"
        assert [called.arguments for called in here.tools.calls] == [{"command": "make"}]


async def test_reviewed_calls_of_one_reply_keep_to_the_budget() -> None:
    tool = FakeTool(name="run", effect="once", review=Review(), answer="ran")
    three = calls(*(call("run", command=str(n)) for n in range(3)))
    workflow = flow({"name": "start", "agent": "dude", "budget": {"tool_calls": 2}})
    async with scene(workflow, three, "Done.", tools=[tool]) as here:
        await here.machine.start(approvals="deny")
        await here.machine.wait()

        assert len(here.tools.calls) == 2
        assert "not_run" in [fact.outcome for fact in here.told.of(e.ToolReturned)]


@pytest.mark.parametrize("broken", [ValueError("boom"), None])
async def test_a_review_that_goes_wrong_allows_nothing(broken: Exception | None) -> None:
    def review(arguments: dict[str, Json], context: ToolContext) -> Review:
        if broken is None:
            return None  # type: ignore[return-value]
        raise broken

    tool = FakeTool(name="run", effect="once", review=review)
    async with running(PLAIN, call("run"), "Fine.", tools=[tool]) as here:
        await here.machine.wait()

        assert here.tools.calls == []
        assert [fact.outcome for fact in here.told.of(e.ToolReturned)] == ["denied"]

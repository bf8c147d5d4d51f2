"""Hooks in a run: what they refuse, change and add is true once, and whatever they say is judged."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from machine_kit import PLAIN, RESUMING, at_rest, flow, rounds, running, scene

from midstream.core import events as e
from midstream.core.notices import ListenerFailed
from midstream.core.question import Decision
from midstream.core.run import definition_of
from midstream.language.errors import UserMistake
from midstream.language.names import Json
from midstream.language.patterns import fits_whole
from midstream.rehearsal.comparison import replay
from midstream.rehearsal.format import decoded, encoded
from midstream.rehearsal.record import from_facts
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import Review, ToolContext
from midstream.safety.capability import SHOWN
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import FakeTool, Gate, call, calls

Answer = Callable[[dict[str, Json]], e.HookRan | None]


class FakeHooks:
    """One hook an event, with what it answers; what it was told is kept."""

    def __init__(self, gate: Gate | None = None, matcher: str = "", **answers: Answer) -> None:
        self.told: list[dict[str, Json]] = []
        self.killed = 0
        self._gate = gate
        self._matcher = matcher
        self._answers = answers

    @property
    def hooked(self) -> tuple[str, ...]:
        return (self._matcher,) if "PreToolUse" in self._answers else ()

    def has(self, event: str, name: str = "") -> bool:
        return event in self._answers and (not name or fits_whole(self._matcher, name))

    async def run(
        self,
        event: str,
        about: dict[str, Json],
        *,
        name: str = "",
        stop: asyncio.Event | None = None,
    ) -> tuple[e.HookRan, ...]:
        self.told.append({"event": event, **about})
        try:
            if self._gate is not None:
                await self._gate.passed()
        except asyncio.CancelledError:
            self.killed += 1
            raise
        ran = self._answers[event](about)
        return () if ran is None else (ran,)


def saying(event: str = "PreToolUse", **said: object) -> Answer:
    def answer(about: dict[str, Json]) -> e.HookRan:
        call_id = str(about.get("tool_use_id", ""))
        return e.HookRan(event=event, hook="guard", call_id=call_id, **said)  # type: ignore[arg-type]

    return answer


def nothing(about: dict[str, Json]) -> None:
    """Have nothing to say."""


def asking(arguments: dict[str, Json], context: ToolContext) -> Review:
    asks = f"exec: {arguments['command']}"
    if asks in context.granted:
        return Review()
    return Review(kind="ask", asks=(asks, f"{SHOWN}{asks}"), shows=f"$ {asks}", reason="It asks.")


def terminal() -> FakeTool:
    return FakeTool(name="run", effect="once", review=asking, answer="ran")


def results(model_request: object) -> Sequence[str]:
    return [result.text for result in model_request.messages[-1].results]  # type: ignore[attr-defined]


async def test_a_call_that_a_hook_refuses_is_not_made_and_the_model_hears_why() -> None:
    tool = FakeTool(name="run", effect="once", review=Review(), answer="ran")
    hooks = FakeHooks(PreToolUse=saying(refused="not on Fridays"))
    async with running(PLAIN, call("run", command="rm"), "Ok.", tools=[tool], hooks=hooks) as here:
        await here.machine.wait()

        assert here.tools.calls == []
        assert results(here.model.requests[1]) == ["Refused: the hook guard says: not on Fridays"]
        (ran,) = here.told.of(e.HookRan)
        assert (ran.hook, ran.refused, ran.call_id) == ("guard", "not on Fridays", "call_1")


async def test_a_hook_is_told_of_the_call_and_whose_it_is() -> None:
    tool = FakeTool(name="run", effect="once", review=Review(), answer="ran")
    hooks = FakeHooks(PreToolUse=nothing)
    async with running(PLAIN, call("run", command="ls"), "Ok.", tools=[tool], hooks=hooks) as here:
        await here.machine.wait()

        assert hooks.told == [
            {
                "event": "PreToolUse",
                "session_id": here.machine.id,
                "agent": "dude",
                "role": "dude",
                "branch": "",
                "cwd": "/nowhere",
                "tool_name": "run",
                "tool_input": {"command": "ls"},
                "tool_use_id": "call_1",
            }
        ]
        assert here.told.of(e.HookRan) == []


async def test_a_tool_that_nothing_reviews_is_guarded_all_the_same() -> None:
    tool = FakeTool(name="look", effect="read", answer="seen")
    hooks = FakeHooks(matcher="look", PreToolUse=saying(refused="no"))
    other = FakeTool(name="find", effect="read", answer="found")
    both = calls(call("look"), call("find"))
    async with running(PLAIN, both, "Ok.", tools=[tool, other], hooks=hooks) as here:
        await here.machine.wait()

        assert [made.name for made in here.tools.calls] == ["find"]


async def test_what_a_hook_changed_is_what_is_judged_asked_about_and_made() -> None:
    hooks = FakeHooks(PreToolUse=saying(arguments={"command": "ls -l"}, added="it is safer so"))
    async with at_rest(
        PLAIN, call("run", command="rm"), "Ok.", tools=[terminal()], hooks=hooks
    ) as here:
        assert here.run.inbox.open_questions[0].text == "run\n$ exec: ls -l"
        await here.machine.approve(here.question(), Decision(granted=True))
        await here.machine.wait()

        assert [made.arguments for made in here.tools.calls] == [{"command": "ls -l"}]
        assert here.told.of(e.ToolCalled)[0].arguments == {"command": "ls -l"}
        assert results(here.model.requests[1]) == [
            'A hook changed the arguments before it ran, to {"command":"ls -l"}.\n\nran'
            "\n\n[added by the hook guard]\nit is safer so"
        ]
        assert len(hooks.told) == 1


async def test_what_a_hook_makes_of_a_call_is_refused_where_policy_refuses_it() -> None:
    def judging(arguments: dict[str, Json], context: ToolContext) -> Review:
        kind = "deny" if arguments["command"] == "rm" else "allow"
        return Review(kind=kind, reason="rm is denied.")  # type: ignore[arg-type]

    tool = FakeTool(name="run", effect="once", review=judging, answer="ran")
    hooks = FakeHooks(PreToolUse=saying(arguments={"command": "rm"}))
    async with running(PLAIN, call("run", command="ls"), "Ok.", tools=[tool], hooks=hooks) as here:
        await here.machine.wait()

        assert here.tools.calls == []
        assert results(here.model.requests[1]) == ["Refused: rm is denied."]


async def test_a_call_that_a_person_wrote_is_guarded_and_asked_about_anew_if_a_hook_changes_it() -> (
    None
):
    def changes(about: dict[str, Json]) -> e.HookRan | None:
        is_make = about["tool_input"] == {"command": "make"}
        said = saying(arguments={"command": "make -n"})
        return said(about) if is_make else None

    hooks = FakeHooks(PreToolUse=changes)
    async with at_rest(
        PLAIN, call("run", command="ls"), "Ok.", tools=[terminal()], hooks=hooks
    ) as here:
        await here.machine.approve(
            here.question(), Decision(granted=True, edited={"command": "make"})
        )
        await here.machine.settled()
        assert here.tools.calls == []
        assert here.run.inbox.open_questions[0].text == "run\n$ exec: make -n"
        await here.machine.approve(here.question(), Decision(granted=True))
        await here.machine.wait()

        assert [made.arguments for made in here.tools.calls] == [{"command": "make -n"}]


async def test_words_halt_at_once_while_a_hook_runs_and_the_call_is_not_made() -> None:
    tool = FakeTool(name="run", effect="once", review=Review(), answer="ran")
    gate = Gate()
    hooks = FakeHooks(gate, PreToolUse=nothing)
    states = flow({"name": "start", "agent": "dude"}, {"name": "resume", "agent": "dude"})
    async with running(
        states, call("run", command="ls"), "Stopped.", tools=[tool], hooks=hooks
    ) as here:
        await gate.reached()
        await here.machine.say("no, wait")
        await here.machine.wait()

        assert hooks.killed == 1
        assert here.tools.calls == []
        assert here.told.of(e.ToolReturned)[0].outcome == "not_run"


async def test_a_hook_that_failed_and_may_be_passed_over_is_told_and_the_call_made() -> None:
    problem = "it did not answer within 10 s"
    tool = FakeTool(name="run", effect="once", review=Review(), answer="ran")
    hooks = FakeHooks(PreToolUse=saying(problem=problem))
    async with running(PLAIN, call("run", command="ls"), "Ok.", tools=[tool], hooks=hooks) as here:
        await here.machine.wait()

        assert [made.ended for made in here.tools.calls] == ["completed"]
        assert here.told.of(e.HookRan)[0].problem == problem


# --- after a call -----------------------------------------------------------------------------------


async def test_what_a_hook_adds_after_a_call_is_told_with_its_result() -> None:
    tool = FakeTool(name="write", effect="idempotent", answer="written")
    hooks = FakeHooks(PostToolUse=saying("PostToolUse", added="2 tests fail"))
    async with running(PLAIN, call("write", path="a"), "Ok.", tools=[tool], hooks=hooks) as here:
        await here.machine.wait()

        assert results(here.model.requests[1]) == [
            "written\n\n[added by the hook guard]\n2 tests fail"
        ]
        (told,) = hooks.told
        assert told["tool_response"] == {"outcome": "completed", "text": "written"}
        assert told["tool_input"] == {"path": "a"}
        kinds = here.told.kinds()
        at = kinds.index("tool_called")
        assert kinds[at : at + 4] == ["tool_called", "tool_ended", "hook_ran", "tool_returned"]


async def test_words_halt_at_once_while_a_hook_runs_after_a_call_and_its_result_is_known() -> None:
    for effect in ("read", "idempotent", "once"):
        tool = FakeTool(name="write", effect=effect, answer="written")
        gate = Gate()
        hooks = FakeHooks(gate, PostToolUse=saying("PostToolUse", added="late"))
        async with running(
            RESUMING, call("write"), "Stopped.", "Done.", tools=[tool], hooks=hooks
        ) as here:
            await gate.reached()
            await here.machine.say("no, wait")
            await here.machine.wait()

            assert hooks.killed == 1
            assert [(r.outcome, r.result) for r in here.told.of(e.ToolReturned)] == [
                ("completed", "written")
            ]


async def test_a_process_that_died_while_a_hook_ran_after_a_call_leaves_nothing_unknown() -> None:
    tool = FakeTool(name="send", effect="once", answer="sent")
    journal = MemoryStore()
    gate = Gate()
    hooks = FakeHooks(gate, PostToolUse=nothing)
    async with running(PLAIN, call("send"), "Ok.", tools=[tool], hooks=hooks) as here:
        await gate.reached()
        died_at = here.run
        await journal.append(died_at.id, 0, [each for each in here.told.events if each.seq])

        again = FakeHooks(PostToolUse=saying("PostToolUse", added="seen"))
        async with scene(
            PLAIN, "Ok.", tools=[tool], journal=journal, hooks=again, is_journaled=False
        ) as later:
            await later.machine.resume(died_at, was_cut=True)
            await later.machine.wait()

            assert later.tools.calls == []
            assert later.told.of(e.QuestionAsked) == []
            assert len(again.told) == 1
            assert results(later.model.requests[0]) == ["sent\n\n[added by the hook guard]\nseen"]


# --- words ------------------------------------------------------------------------------------------


async def test_words_that_a_hook_refuses_reach_nobody_and_say_why() -> None:
    def no_secrets(about: dict[str, Json]) -> e.HookRan | None:
        said = saying("UserPromptSubmit", refused="a secret")
        return said(about) if "secret" in str(about["prompt"]) else None

    states = flow({"name": "start", "agent": "dude"}, start_condition="on_user_input")
    hooks = FakeHooks(UserPromptSubmit=no_secrets)
    async with running(states, "Ok.", hooks=hooks) as here:
        refused = await here.machine.say("my secret")
        assert (refused.handling, refused.reason) == ("reject", "the hook guard says: a secret")
        assert here.model.requests == []
        assert (await here.machine.say("hello")).handling == "answer"
        await here.machine.wait()

        assert [m.text for m in here.model.requests[0].messages] == ["hello"]


async def test_what_a_hook_adds_to_words_is_marked_and_said_once() -> None:
    states = flow({"name": "start", "agent": "dude"}, start_condition="on_user_input")
    hooks = FakeHooks(UserPromptSubmit=saying("UserPromptSubmit", added="branch: main"))
    async with running(states, "Ok.", hooks=hooks) as here:
        await here.machine.say("hello", id="1")
        await here.machine.say("hello", id="1")
        await here.machine.wait()

        words = here.model.requests[0].messages[0].text
        assert words == "hello\n\n[added by the hook guard]\nbranch: main"
        assert len(hooks.told) == 1


async def test_the_turn_is_halted_before_a_hook_looks_at_the_words() -> None:
    gate = Gate()
    tool = FakeTool(name="look", effect="read", gate=Gate(), answer="seen")
    hooks = FakeHooks(gate, UserPromptSubmit=nothing)
    async with running(RESUMING, call("look"), "Ok.", "Done.", tools=[tool], hooks=hooks) as here:
        assert tool.gate is not None
        await tool.gate.reached()
        saying_so = asyncio.create_task(here.machine.say("no, wait"))
        await gate.reached()
        assert here.run.visit.phase == "held"
        gate.open()
        assert (await saying_so).handling == "interrupt"
        await here.machine.wait()

        assert here.run.common_data["resume_input"] == "no, wait"


# --- what is only heard of --------------------------------------------------------------------------


async def test_hooks_hear_of_questions_halts_and_ends() -> None:
    ask = call("request_users_input", question="Which?")
    hooks = FakeHooks(Notification=nothing, Halt=nothing, Stop=nothing, SessionEnd=nothing)
    async with at_rest(RESUMING, ask, "Resumed.", "Done.", hooks=hooks) as here:
        await here.machine.say("something else", unasked=True)
        await here.machine.wait()

        heard = [(told["event"], told.get("message") or told.get("reason")) for told in hooks.told]
        assert heard == [
            ("Notification", "Which?"),
            ("Halt", "words"),
            ("Stop", None),
            ("Stop", None),
            ("SessionEnd", "finished"),
        ]
        assert hooks.told[2]["last_assistant_message"] == "Resumed."


async def test_a_hook_that_only_hears_holds_nothing_up_and_its_failure_is_shown() -> None:
    gate = Gate()
    hooks = FakeHooks(gate, Stop=saying("Stop", problem="it ended with exit code 1"))
    async with running(RESUMING, "One.", hooks=hooks) as here:
        await gate.reached()
        while not here.run.is_over:
            await rounds(1)
        gate.open()
        await here.machine.wait()

        (failed,) = here.told.of(ListenerFailed)
        assert (failed.listener, failed.error) == ("hook guard (Stop)", "it ended with exit code 1")


async def test_the_input_a_run_begins_with_is_words_too() -> None:
    def no_secrets(about: dict[str, Json]) -> e.HookRan | None:
        is_secret = "secret" in str(about["prompt"])
        return saying("UserPromptSubmit", refused="no" if is_secret else "", added="on main")(about)

    hooks = FakeHooks(UserPromptSubmit=no_secrets)
    async with scene(PLAIN, "Ok.", hooks=hooks) as here:
        with pytest.raises(UserMistake, match="the hook guard says: no"):
            await here.machine.start("my secret")
        await here.machine.start("tidy")
        await here.machine.wait()

        assert here.run.input == "tidy\n\n[added by the hook guard]\non main"


async def test_an_answer_is_refused_and_nothing_is_added_to_it() -> None:
    def no_secrets(about: dict[str, Json]) -> e.HookRan | None:
        is_secret = "secret" in str(about["prompt"])
        return saying("UserPromptSubmit", refused="no" if is_secret else "", added="x")(about)

    ask = call("request_users_input", question="Which?")
    hooks = FakeHooks(UserPromptSubmit=no_secrets)
    async with at_rest(PLAIN, ask, "Ok.", hooks=hooks) as here:
        assert (await here.machine.say("secret")).handling == "reject"
        assert len(here.run.inbox.open_questions) == 1
        assert (await here.machine.say("this one")).handling == "answer"
        await here.machine.wait()

        assert results(here.model.requests[1]) == ["this one"]


# --- played again -----------------------------------------------------------------------------------


async def test_a_rehearsal_of_a_run_with_hooks_runs_none_and_does_the_same() -> None:
    def before(about: dict[str, Json]) -> e.HookRan | None:
        said = about["tool_input"]
        if said == {"command": "rm"}:
            return saying(refused="never")(about)
        return saying(arguments={"command": "ls -l"}, added="as a list")(about)

    states = flow({"name": "start", "agent": "dude"}, start_condition="on_user_input")
    tool = FakeTool(name="run", effect="once", review=Review(), answer="ran")
    hooks = FakeHooks(
        PreToolUse=before,
        PostToolUse=saying("PostToolUse", added="fine"),
        UserPromptSubmit=saying("UserPromptSubmit", added="on main"),
    )
    script = (call("run", command="rm"), call("run", command="ls"), "Done.")
    async with running(states, *script, tools=[tool], hooks=hooks) as here:
        await here.machine.say("tidy")
        await here.machine.wait()
        assert len(here.told.of(e.HookRan)) == 4
        rehearsal = from_facts([each for each in here.told.events if each.seq])
        again = await replay(
            decoded(encoded(rehearsal)), definition_of(here.run), ScriptHandlers({})
        )

        assert again.difference is None
        assert from_facts(again.facts) == rehearsal

"""The seed's sentences, each end to end: a run in the background that can be talked to."""

import asyncio

import msgspec
from machine_kit import PLAIN, RESUMING, START, at_rest, flow, rounds, running, scene

from midstream.core.events import AgentResponded, InputDisposed, Interrupted, ToolReturned
from midstream.core.question import Decision
from midstream.language.errors import WorldTrouble
from midstream.language.spec import ParsingTool, Role
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.ports import ToolOutcome
from midstream.testing.fakes import FakeJournal, FakeTool, Gate, Scripted, asks, call, calls, says


async def test_a_run_goes_through_its_states_to_its_output() -> None:
    workflow = flow(
        {"name": "start", "agent": "dude", "next": "criticise"},
        {"name": "criticise", "agent": "critic"},
    )
    async with running(workflow, "A pond.", "Too old.", input="a haiku") as here:
        run = await here.machine.wait()

        assert (run.status, run.output) == ("finished", "Too old.")
        assert here.told.path() == ["start", "criticise", "stop"]
        assert here.model.asked[0].words() == [("user", "a haiku")]


async def test_an_agent_on_the_users_side_sees_the_sides_swapped() -> None:
    workflow = flow(
        {"name": "start", "agent": "dude", "next": "criticise"},
        {"name": "criticise", "agent": "critic", "next": "again"},
        {"name": "again", "agent": "dude"},
        contexts=[{"name": "talk", "starting_messages": [{"role": "system", "content": "Be."}]}],
    )
    async with running(workflow, "A pond.", "Too old.", "A lake.", input="a haiku") as here:
        await here.machine.wait()

        assert here.model.asked[1].words() == [
            ("system", "Be."),
            ("user", "a haiku"),
            ("user", "A pond."),
        ]
        assert here.model.asked[2].words() == [
            ("system", "Be."),
            ("user", "a haiku"),
            ("assistant", "A pond."),
            ("user", "Too old."),
        ]


async def test_a_long_context_loses_its_oldest_messages_first() -> None:
    workflow = flow(
        {"name": "start", "agent": "dude", "next": "criticise"},
        {"name": "criticise", "agent": "critic"},
        contexts=[
            {
                "name": "talk",
                "max_length": 12,
                "starting_messages": [{"role": "system", "content": "Be."}],
            }
        ],
    )
    async with running(workflow, "123456", "ok", input="a haiku") as here:
        await here.machine.wait()

        assert here.model.asked[1].words() == [("system", "Be."), ("user", "123456")]


async def test_trimming_never_parts_a_call_from_its_result() -> None:
    workflow = flow(START, contexts=[{"name": "talk", "max_length": 30}])
    look = FakeTool(name="look", answer="x" * 20)
    async with running(
        workflow, *[call("look", n=n) for n in range(3)], "done", tools=[look], input="go"
    ) as here:
        run = await here.machine.wait()

        assert run.status == "finished"
        assert [len(m.calls) for m in here.model.requests[3].messages] == [1]


async def test_a_question_parks_its_call_and_the_answer_is_its_result() -> None:
    async with running(PLAIN, asks("Which folder?"), "Fine.", input="tidy") as here:
        parked = await here.machine.settled()

        assert parked.is_parked
        assert not parked.is_over
        receipt = await here.machine.say("src", question=here.question())
        run = await here.machine.wait()

        assert (receipt.handling, receipt.reason) == ("answer", "")
        assert run.status == "finished"
        assert here.told.of(ToolReturned)[0].result == "src"
        assert here.told.of(InputDisposed)[0].disposition == "answered"


async def test_a_question_parks_only_its_own_call() -> None:
    look = FakeTool(name="look", answer="seen")
    both = calls(call("look"), call("request_users_input", question="Which?"))
    async with running(PLAIN, both, "Fine.", tools=[look]) as here:
        await here.told.until("tool_returned", lambda event: event.name == "look")
        await here.machine.settled()
        await here.machine.say("that one", question=here.question())
        await here.machine.wait()

        results = [result.text for result in here.model.requests[1].messages[-1].results]
        assert results == ["seen", "that one"]


async def test_a_wrong_answer_leaves_the_question_open() -> None:
    question = asks("How many?", schema={"type": "integer", "minimum": 1})
    async with at_rest(PLAIN, question, "Fine.") as here:
        wrong = await here.machine.say("many", question=here.question())
        still = await here.machine.say("0", question=here.question())
        assert here.run.is_parked
        right = await here.machine.say("3", question=here.question())
        await here.machine.wait()

        assert "'many' is not of type 'integer'" in wrong.reason
        assert "0 is less than the minimum of 1" in still.reason
        assert right.reason == ""
        assert here.told.kinds().count("answer_refused") == 2
        assert here.told.kinds().count("question_answered") == 1


async def test_choices_are_answered_by_word_or_number() -> None:
    async with at_rest(PLAIN, asks("Which?", choices=["red", "blue"]), "Fine.") as here:
        refused = await here.machine.say("green", question=here.question())
        await here.machine.say("2", question=here.question())
        await here.machine.wait()

        assert "Choose by number or word: 1 red, 2 blue" in refused.reason
        assert here.told.of(ToolReturned)[0].result == "blue"


async def test_words_that_look_like_json_answer_a_question_for_words() -> None:
    question = asks("Which?", schema={"enum": ["1", "2"]})
    async with at_rest(PLAIN, question, "Fine.") as here:
        receipt = await here.machine.say("2", question=here.question())
        await here.machine.wait()

        assert receipt.reason == ""
        assert here.told.of(ToolReturned)[0].result == "2"


async def test_an_answer_to_a_closed_question_is_told_so() -> None:
    async with at_rest(PLAIN, asks("Which?"), asks("And?"), "Fine.") as here:
        first = here.question()
        await here.machine.say("one", question=first)
        await here.machine.settled()
        late = await here.machine.say("two", question=first)
        unknown = await here.machine.say("two", question="q99")

        assert late.reason == "already answered"
        assert "no question q99" in unknown.reason
        assert here.run.is_parked


async def test_unasked_words_halt_the_reply_and_enter_resume() -> None:
    gate = Gate()
    async with running(
        RESUMING, says("I will ", "do it", gate=gate, after=1), "Noted.", "Done.", input="tidy"
    ) as here:
        await gate.reached()
        await here.machine.say("no, rename")
        run = await here.machine.wait()

        assert here.told.path() == ["start", "resume", "start", "stop"]
        assert here.model.asked[0].ended == "cancelled"
        assert here.told.of(Interrupted)[0].partial == "I will "
        assert run.common_data["resume_input"] == "no, rename"
        assert run.common_data["interrupted_state"] == "start"
        assert run.common_data["interrupted_text"] == "I will "
        assert here.model.asked[1].words() == [
            ("user", "tidy"),
            ("assistant", "I will "),
            ("user", "no, rename"),
        ]
        assert [fact.text for fact in here.told.of(AgentResponded)] == ["Noted.", "Done."]


async def test_without_a_resume_state_the_run_restarts_with_its_contexts() -> None:
    gate = Gate()
    async with running(PLAIN, says("I will ", gate=gate), "Renamed.", input="tidy") as here:
        await gate.reached()
        await here.machine.say("no, rename")
        run = await here.machine.wait()

        assert here.told.path() == ["start", "start", "stop"]
        assert run.output == "Renamed."
        assert here.model.asked[1].words() == [
            ("user", "tidy"),
            ("assistant", "I will "),
            ("user", "no, rename"),
        ]


async def test_nothing_is_shown_of_a_reply_after_it_was_halted() -> None:
    gate = Gate()
    stubborn = says("one ", "two ", "three", gate=gate, after=1)
    async with running(PLAIN, _stubborn(stubborn), "Renamed.") as here:
        await gate.reached()
        await here.machine.say("no")
        gate.open()
        run = await here.machine.wait()
        await rounds()

        assert here.told.shown() == "one Renamed."
        assert here.model.asked[0].ended == "replied"
        assert run.output == "Renamed."


async def test_a_late_reply_changes_nothing() -> None:
    gate, after = Gate(), Gate()
    late = _stubborn(says("late", gate=gate, after=0))
    async with running(PLAIN, late, says("now", gate=after)) as here:
        await gate.reached()
        await here.machine.say("no")
        await after.reached()
        seq = here.run.seq
        gate.open()
        await rounds()

        assert here.model.asked[0].ended == "replied"
        assert here.run.seq == seq
        after.open()
        assert (await here.machine.wait()).output == "now"


async def test_reading_tools_stop_at_once() -> None:
    gate = Gate()
    slow = FakeTool(name="look", gate=gate)
    async with running(RESUMING, call("look"), "Noted.", "Done.", tools=[slow]) as here:
        await gate.reached()
        await here.machine.say("stop that")
        await here.machine.wait()

        assert [called.ended for called in here.tools.calls] == ["cancelled"]
        assert [fact.outcome for fact in here.told.of(ToolReturned)] == ["stopped"]
        results = [m.results[0].text for m in here.model.requests[1].messages if m.results]
        assert results == ["Stopped: the user interrupted."]


async def test_tools_that_act_once_stop_softly_and_say_what_came_of_it() -> None:
    gate = Gate()
    ended = ToolOutcome(outcome="unknown", text="killed half-way")
    shell = FakeTool(name="shell", effect="once", gate=gate, when_stopped=ended)
    async with running(RESUMING, call("shell"), "Noted.", "Done.", tools=[shell]) as here:
        await gate.reached()
        await here.machine.say("stop that")
        await here.machine.wait()

        assert here.tools.calls[0].context.stop.is_set()
        assert [fact.outcome for fact in here.told.of(ToolReturned)] == ["unknown"]
        kinds = here.told.kinds()
        assert kinds.index("interrupted") < kinds.index("tool_returned")
        results = [m.results[0].text for m in here.model.requests[1].messages if m.results]
        assert results == ["killed half-way"]


async def test_words_during_a_soft_stop_join_the_halt() -> None:
    stopping = Gate()

    async def answer(_arguments: object) -> str:
        await stopping.passed()
        return "finished after all"

    deaf = FakeTool(name="shell", effect="once", answer=answer, when_stopped=None)
    async with running(RESUMING, call("shell"), "Noted.", "Done.", tools=[deaf]) as here:
        await stopping.reached()
        await here.machine.say("no")
        await here.machine.say("rename")
        stopping.open()
        run = await here.machine.wait()

        assert run.common_data["resume_input"] == "no\nrename"
        assert [fact.disposition for fact in here.told.of(InputDisposed)] == ["interrupted"] * 2
        assert here.told.path().count("resume") == 1


async def test_a_tool_that_does_not_listen_is_cut_off_in_the_end() -> None:
    gate = Gate()
    deaf = FakeTool(name="shell", effect="once", gate=gate, when_stopped=None)
    async with running(RESUMING, call("shell"), "Noted.", "Done.", tools=[deaf]) as here:
        await gate.reached()
        await here.machine.say("stop that")
        await rounds()
        assert here.run.visit.phase == "halting"
        here.clock.jump(60)
        await here.machine.wait()

        assert [fact.outcome for fact in here.told.of(ToolReturned)] == ["unknown"]
        assert [called.ended for called in here.tools.calls] == ["cancelled"]


async def test_a_bare_stop_holds_until_the_next_words() -> None:
    gate = Gate()
    async with running(
        RESUMING, says("I will ", gate=gate), "Noted.", "Done.", input="tidy"
    ) as here:
        await gate.reached()
        await here.machine.halt()
        held = await here.machine.settled()

        assert held.visit.phase == "held"
        assert here.model.asked[0].ended == "cancelled"
        await here.machine.say("go on, but rename")
        await here.machine.wait()

        assert here.told.path() == ["start", "resume", "start", "stop"]
        assert here.told.of(Interrupted)[0].partial == "I will "


async def test_a_bare_stop_of_what_waits_changes_nothing() -> None:
    async with running(flow(START, start_condition="on_user_input"), "Done.") as here:
        await here.machine.halt()

        assert here.run.visit.phase == "waiting"
        await here.machine.say("tidy")
        assert (await here.machine.wait()).input == "tidy"


async def test_queued_words_wait_for_the_end_of_the_state() -> None:
    gate = Gate()
    async with running(RESUMING, says("Done", gate=gate), "Noted.", "ok") as here:
        await gate.reached()
        receipt = await here.machine.say("later", policy="queue")
        assert here.run.inbox.undelivered
        gate.open()
        await here.machine.wait()

        assert receipt.handling == "queue"
        assert [fact.disposition for fact in here.told.of(InputDisposed)] == ["queued"]
        assert here.model.asked[0].ended == "replied"


async def test_steering_words_cut_a_reply_in_words_and_join_the_next_request() -> None:
    gate = Gate()
    async with running(
        RESUMING, says("I wi", "ll", gate=gate, after=1), "Renamed.", input="tidy"
    ) as here:
        await gate.reached()
        await here.machine.say("rename", policy="steer")
        run = await here.machine.wait()

        assert here.told.path() == ["start", "stop"]
        assert run.output == "Renamed."
        assert here.model.asked[1].words()[-2:] == [("assistant", "I wi"), ("user", "rename")]
        assert [fact.disposition for fact in here.told.of(InputDisposed)] == ["steered"]


async def test_steering_words_wait_for_tools_and_cut_nothing() -> None:
    gate = Gate()
    look = FakeTool(name="look", gate=gate)
    async with running(RESUMING, call("look"), "Renamed.", tools=[look], input="tidy") as here:
        await gate.reached()
        await here.machine.say("rename", policy="steer")
        gate.open()
        await here.machine.wait()

        assert here.tools.calls[0].ended == "completed"
        assert here.model.asked[1].words()[-1] == ("user", "rename")


async def test_a_state_may_refuse_words() -> None:
    gate = Gate()
    async with running(flow({**START, "on_input": "reject"}), says("ok", gate=gate)) as here:
        await gate.reached()
        receipt = await here.machine.say("stop")

        assert receipt.handling == "reject"
        gate.open()
        assert (await here.machine.wait()).output == "ok"


async def test_withdrawn_words_have_no_effect() -> None:
    gate = Gate()
    async with running(RESUMING, says("Done", gate=gate)) as here:
        await gate.reached()
        receipt = await here.machine.say("later", policy="queue")
        await here.machine.withdraw(receipt.input_id)
        gate.open()
        await here.machine.wait()

        assert here.told.path() == ["start", "stop"]
        assert [fact.disposition for fact in here.told.of(InputDisposed)] == ["withdrawn"]


async def test_a_call_that_needs_approval_waits_for_it() -> None:
    write = FakeTool(name="write", effect="once", needs_approval=True, answer="written")
    async with at_rest(PLAIN, call("write", path="a"), "Done.", tools=[write]) as here:
        assert here.tools.calls == []
        words = await here.machine.say("yes", question=here.question())
        assert "words do not approve" in words.reason
        await here.machine.approve(here.question(), Decision(granted=True))
        await here.machine.wait()

        assert [called.arguments for called in here.tools.calls] == [{"path": "a"}]


async def test_a_refused_call_is_not_made_and_the_model_is_told() -> None:
    write = FakeTool(name="write", effect="once", needs_approval=True)
    async with at_rest(PLAIN, call("write"), "Fine.", tools=[write]) as here:
        await here.machine.approve(here.question(), Decision(granted=False, note="not there"))
        await here.machine.wait()

        assert here.tools.calls == []
        assert "not there" in here.model.requests[1].messages[-1].results[0].text


async def test_approval_for_the_run_is_asked_once() -> None:
    write = FakeTool(name="write", effect="once", needs_approval=True)
    two = calls(call("write", n=1), call("write", n=2))
    async with at_rest(PLAIN, two, call("write", n=3), "Done.", tools=[write]) as here:
        await here.machine.approve(
            here.run.inbox.open_questions[0].id, Decision(granted=True, for_run=True)
        )
        await here.machine.wait()

        assert [called.arguments["n"] for called in here.tools.calls] == [1, 2, 3]


async def test_where_nobody_can_approve_the_call_is_refused() -> None:
    write = FakeTool(name="write", effect="once", needs_approval=True)
    async with scene(PLAIN, call("write"), "Fine.", tools=[write]) as here:
        await here.machine.start(approvals="deny")
        await here.machine.wait()

        assert here.tools.calls == []
        assert [fact.outcome for fact in here.told.of(ToolReturned)] == ["denied"]


async def test_a_late_yes_starts_nothing_that_was_halted() -> None:
    write = FakeTool(name="write", effect="once", needs_approval=True)
    async with at_rest(RESUMING, call("write"), "Noted.", "Done.", tools=[write]) as here:
        question = here.question()
        await here.machine.say("no, leave it")
        await here.machine.approve(question, Decision(granted=True))
        await here.machine.wait()

        assert here.tools.calls == []


async def test_a_parsing_tool_hands_its_arguments_to_the_handler() -> None:
    def decide(run: HandlerRun) -> str:
        (verdict,) = run.last_response.tool_calls
        run.common_data["good"] = verdict.arguments["good"]
        return "stop"

    judge = Role(parsingTools=(ParsingTool(name="verdict"),))
    workflow = flow({"name": "start", "agent": "dude", "transition_handler": "decide"})
    async with running(
        workflow, call("verdict", good=True), handlers={"decide": decide}, roles={"dude": judge}
    ) as here:
        run = await here.machine.wait()

        assert run.common_data == {"good": True}
        assert here.model.requests[0].must_call


async def test_what_a_model_is_told_of_its_replies_stands_in_the_order_it_happened() -> None:
    roles = {"dude": Role(parsingTools=(ParsingTool(name="verdict"),))}
    script = (says("Fine."), call("look"), call("verdict"))
    async with running(
        PLAIN, *script, tools=[FakeTool(name="look")], roles=roles, input="judge"
    ) as here:
        await here.machine.wait()

        assert here.model.asked[2].words() == [
            ("user", "judge"),
            ("assistant", "Fine."),
            ("user", "Answer by calling one of these tools: verdict."),
            ("assistant", ""),
        ]


async def test_stop_ends_the_run_after_its_tools() -> None:
    gate = Gate()
    shell = FakeTool(name="shell", effect="once", gate=gate)
    async with running(RESUMING, call("shell"), tools=[shell]) as here:
        await gate.reached()
        await here.machine.stop("enough")

        assert here.run.status == "stopped"
        assert [fact.outcome for fact in here.told.of(ToolReturned)] == ["stopped"]
        assert here.told.kinds()[-1] == "run_stopped"


async def test_a_tool_told_to_stop_before_its_first_step_is_not_run() -> None:
    shell = FakeTool(name="shell", effect="once")
    journal, reply, disk = FakeJournal(), Gate(), Gate()
    line = Scripted(calls=(call("shell"),), gate=reply)
    async with running(RESUMING, line, tools=[shell], journal=journal) as here:
        await reply.reached()
        journal.gate = disk
        reply.open()
        await disk.reached()
        stopping = asyncio.ensure_future(here.machine.stop())
        await rounds()
        disk.open()
        await stopping

        assert here.tools.calls == []
        assert [fact.outcome for fact in here.told.of(ToolReturned)] == ["not_run"]


async def test_a_failed_reply_keeps_what_was_shown_and_goes_where_the_state_says() -> None:
    workflow = flow(
        {"name": "start", "agent": "dude", "on_failure": "after"},
        {"name": "after", "agent": "dude"},
    )
    async with running(
        workflow, _failing(says("Half a ", "reply")), "Better.", input="tidy"
    ) as here:
        run = await here.machine.wait()

        assert run.output == "Better."
        assert here.model.asked[1].words()[1] == ("assistant", "Half a reply")


def _stubborn(line: Scripted) -> Scripted:
    return msgspec.structs.replace(line, stubborn=True)


def _failing(line: Scripted) -> Scripted:
    return msgspec.structs.replace(line, error=WorldTrouble("the line is dead"))

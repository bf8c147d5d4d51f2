"""Whatever happens to a run, in whatever order: the rules that `check` holds, and the journal's.

Each example starts a workflow with something of everything and lets a random sequence of things
happen to it: what the run waits for, what comes too late, what was never asked for, and garbage.
"""

from collections.abc import Sequence

import msgspec
from decide_kit import (
    AGENTS,
    asks,
    call,
    check,
    define,
    dispositions,
    flow,
    go,
    of,
    replayed,
    state,
    tell,
)
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from search_kit import AnyPlayer, check_ended, once_under_way, reopened, to_the_end

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.conversation import Message, seen_by
from midstream.core.pending import CallTool, pending
from midstream.core.routing import spoken
from midstream.core.run import Run
from midstream.core.todo import parse_edit
from midstream.language.names import Json
from midstream.language.spec import Context, Definition, Input, Role, State, ToolSpec, Workflow

EDITS = ["add a dog", "done 1", "drop 1", "drop 9"]
RICH = flow(
    state("start", "dude", pre_handler="pre", post_handler="post", transition_handler="go"),
    state("chat", "dude", awaits_input=True, transition_handler="go", on_input="steer"),
    state("think", "critic", next="judge", on_input="queue", on_failure="chat"),
    state("judge", "judge", transition_handler="go", on_failure="$interrupted"),
    state("quiet", next="think"),
    state("deaf", "critic", on_input="reject", transition_handler="go"),
    State(name="stop", input="common_data.a"),
    contexts=(Context(name="talk", max_length=200), Context(name="court")),
    input=Input(name="wish"),
)
RESUMES = [
    state("resume", "dude", transition_handler="go"),
    state("resume", "critic", pre_handler="pre", next="$interrupted"),
    state("resume", transition_handler="go"),
    None,
]
TARGETS = ["start", "chat", "think", "judge", "quiet", "deaf", "$interrupted", "stop"]

SMALL = flow(
    state("start", "critic", pre_handler="pre", next="two"),
    State(name="two", parallel=("left", "right"), next="stop"),
    state("left", "critic"),
    State(name="right", tool="shell"),
    state("resume", "critic", next="$interrupted"),
)
HANDED_ON = {
    name: ToolSpec(name=name, description="", parameters={}, effect="read")
    for name in ("delegate", "run_workflow")
}


def whole(workflow: Workflow) -> Definition:
    """Return the workflow with agents that may hand tasks on, and run another workflow."""
    known = define(workflow)
    return msgspec.structs.replace(
        known,
        tools={**known.tools, **HANDED_ON},
        delegates={"coder": Role(), "judge": known.roles["judge"]},
        runnable={"small": ""},
    )


FOUND = msgspec.structs.replace(whole(SMALL), found_as="small")


names = st.sampled_from(
    ["look", "put", "shell", "write", "run", "verdict", "request_users_input", "no"]
)
problems = st.sampled_from(["", "", "", "bad arguments"])
calls = st.one_of(
    st.builds(inputs.RequestedCall, name=names, arguments=st.just({"a": "é"}), problem=problems),
    st.just(asks("Which?", choices=["Red", "Blue"])),
    st.just(asks("Free?")),
    st.just(call("shell")),
    st.just(call("write")),
    st.just(call("run")),
    st.just(call("delegate", role="coder", task="Mend it.")),
    st.just(call("delegate", role="judge", task="Judge it.", files=["a.py"])),
    st.just(call("delegate", role="nobody", task="Mend it.")),
    st.just(call("run_workflow", input="src")),
)
texts = st.sampled_from(
    ["", "ok", "no, rename", "red", "\x00\ud7ff", "x" * 90, "@coder be brief", "@small go on"]
)


class Player(AnyPlayer):
    texts = texts

    def next(self, run: Run) -> inputs.AnyInput:
        self.keys += [effect.key for effect in pending(run)]
        move = self.data.draw(st.integers(0, 19))
        if move < 11 and pending(run):
            return self.owed(run)
        if move < 17:
            return self.said(run)
        return self.other(run)

    def model(self, key: inputs.EffectKey) -> inputs.AnyInput:
        if self.data.draw(st.integers(0, 5)) == 0:
            return inputs.ModelFailed(key=key, error="500", shown=self.data.draw(texts))
        made = self.data.draw(st.lists(calls, max_size=4))
        return inputs.ModelReplied(key=key, text=self.data.draw(texts), calls=tuple(made))

    def tool(self, key: inputs.EffectKey) -> inputs.AnyInput:
        if self.data.draw(st.booleans()):
            # Of a call that runs no workflow it makes nothing true.
            return inputs.WorkflowFound(key=key, definition=FOUND)
        outcome = self.data.draw(st.sampled_from(["completed", "failed", "stopped", "unknown"]))
        return inputs.ToolFinished(key=key, outcome=outcome, text=self.data.draw(texts))  # type: ignore[arg-type]

    def handler(self, key: inputs.EffectKey) -> inputs.AnyInput:
        chosen = self.data.draw(st.sampled_from([*TARGETS, *TARGETS, None, "nowhere", 7]))
        change = self.data.draw(
            st.sampled_from(
                [
                    (),
                    (e.ContextChange(context="talk", action="add", text="by hand"),),
                    (e.ContextChange(context="talk", action="clear"),),
                ]
            )
        )
        changed: dict[str, Json] = self.data.draw(
            st.sampled_from([{}, {"a": [1, "é"]}, {"b": None}])
        )
        return inputs.HandlerReturned(
            key=key, chosen=chosen, contexts=change, changed=changed, removed=("b",)
        )

    def said(self, run: Run) -> inputs.AnyInput:
        self.at += self.data.draw(st.sampled_from([0.1, 5.0]))
        question_ids = [None, None, "q99", *(q.id for q in run.inbox.questions[-4:])]
        new_id = f"line{len(self.lines)}"
        input_id = self.data.draw(st.sampled_from([new_id, new_id, new_id, self.lines[-1]]))
        self.lines.append(input_id)
        return inputs.UserSaid(
            id=input_id,
            to=spoken(
                self.data.draw(texts),
                run,
                question=self.data.draw(st.sampled_from(question_ids)),
                is_unasked=True,
            ),
            at=self.at,
            problem=self.data.draw(st.sampled_from(["", "", "", "no integer"])),
            policy=self.data.draw(
                st.sampled_from([None, None, "interrupt", "steer", "queue", "reject"])
            ),
            shown=self.shown(),
        )

    def other(self, run: Run) -> inputs.AnyInput:
        key = self.data.draw(st.sampled_from(self.keys))
        question = self.data.draw(
            st.sampled_from(["q99", *(q.id for q in run.inbox.questions[-4:])])
        )
        granted, for_run = self.data.draw(st.booleans()), self.data.draw(st.booleans())
        options: list[inputs.AnyInput] = [
            self.model(key),
            self.tool(key),
            self.handler(key),
            inputs.HandlerLogged(key=key, text="half-way"),
            inputs.Halt(shown=self.shown()),
            inputs.Approve(question=question, granted=granted, for_run=for_run, note="hm"),
            inputs.Approve(question=question, granted=granted, for_run=for_run),
            inputs.Approve(question=question, granted=True, edited={"command": "ls"}),
            inputs.Revoke(permission=self.data.draw(st.sampled_from(["exec: ls", "write", "no"]))),
            inputs.Withdraw(input_id=self.data.draw(st.sampled_from(self.lines))),
            inputs.Recovered(),
            inputs.Recovered(was_cut=False),
            inputs.Resume(),
            inputs.Compact(note="the names"),
            inputs.EditTodo(edit=parse_edit(self.data.draw(st.sampled_from(EDITS)))),
            inputs.Rename(name=self.data.draw(st.sampled_from(["", "zoo"]))),
            inputs.FileChanging(key=key, path="/w/a", before=None, after="beef"),
            inputs.Start(definition=whole(RICH)),
        ]
        if self.data.draw(st.integers(0, 9)) == 0:
            options += [inputs.HandlerFailed(key=key, error="raised"), inputs.Stop(reason="bye")]
        return self.data.draw(st.sampled_from(options))


def a_request_is_valid(messages: Sequence[Message]) -> bool:
    """Return whether a provider takes the conversation: results right after their calls, all."""
    waiting: list[str] = []
    for message in messages:
        if waiting or (message.calls and message.role != "assistant"):
            return False
        waiting = [made.id for made in message.calls]
        for result in message.results:
            if not waiting or waiting.pop(0) != result.call_id:
                return False
    return not waiting


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_happens_the_rules_hold(data: st.DataObject) -> None:
    resume = data.draw(st.sampled_from(RESUMES))
    workflow = RICH if resume is None else with_state(RICH, resume)
    first = data.draw(st.sampled_from(["tidy", None, {"a": 1}]))
    run, facts = tell(
        whole(workflow), input=first, approvals=data.draw(st.sampled_from(["ask", "deny"]))
    )
    player = Player(data)

    for _ in range(data.draw(st.integers(1, 60))):
        if run.visit.phase == "ended" and data.draw(st.booleans()):
            break
        run, more = go(run, player.next(run))
        facts += more
        for agent in AGENTS:
            view = seen_by(run.contexts[agent.context], agent=agent.key, side=agent.role)
            assert a_request_is_valid(view)
    event(f"{run.visit.phase}, {len(facts) // 20 * 20}+ facts")

    assert replayed(facts) == run
    run, more = to_the_end(run)
    facts += more

    assert run.visit.phase == "ended"
    assert None not in dispositions(run)
    assert len(of(facts, e.InputDisposed)) == len(run.inbox.lines)
    check_ended(facts)
    check(run, run, [])


def with_state(workflow: Workflow, added: State) -> Workflow:
    return msgspec.structs.replace(workflow, states=(*workflow.states, added))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_crash_after_any_fact_leaves_a_run_that_goes_on(data: st.DataObject) -> None:
    run, facts = tell(whole(with_state(RICH, RESUMES[0] or state("resume"))))
    player = Player(data)
    for _ in range(data.draw(st.integers(1, 25))):
        run, more = go(run, player.next(run))
        facts += more

    run, _ = go(replayed(facts), inputs.Recovered())

    in_flight = [effect for effect in pending(run) if isinstance(effect, CallTool)]
    assert all(whole(RICH).tools[effect.call.name].effect != "once" for effect in in_flight)
    to_the_end(run)


def told(data: st.DataObject, resume: State | None, most: int = 30) -> tuple[Run, list[e.AnyFact]]:
    """Return a run to which up to so many random things happened, and its facts."""
    workflow = RICH if resume is None else with_state(RICH, resume)
    run, facts = tell(whole(workflow), input=data.draw(st.sampled_from(["tidy", None, {"a": 1}])))
    player = Player(data)
    for _ in range(data.draw(st.integers(1, most))):
        run, more = go(run, player.next(run))
        facts += more
    return run, facts


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_process_may_die_after_every_append_and_the_rules_hold(data: st.DataObject) -> None:
    resume = data.draw(st.sampled_from(RESUMES))
    run, facts = tell(whole(RICH if resume is None else with_state(RICH, resume)))
    player = Player(data)
    is_cut = st.booleans() if data.draw(st.booleans()) else st.just(True)
    for _ in range(data.draw(st.integers(1, 25))):
        run, more = go(run, player.next(run))
        facts += more
        if data.draw(is_cut):
            before = once_under_way(run)
            run, more = go(reopened(run, facts), inputs.Recovered(was_cut=data.draw(st.booleans())))
            facts += more
            assert not before & once_under_way(run), "no once call goes on in another process"

    run, more = to_the_end(run)
    facts += more
    assert replayed(facts) == run
    check_ended(facts)

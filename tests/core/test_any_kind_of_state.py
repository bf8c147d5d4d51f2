"""Whatever happens, in whatever order, to runs with every kind of state: the rules of every run hold.

As in `test_core_invariants`, with states that need no script, errors of every kind, waits, and runs
within runs within runs.
"""

from typing import Any

from decide_kit import OBJECT, ROLES, TOOLS, asks, call, check, flow, go, of, parts, replayed
from decide_kit import state as plain
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from search_kit import AnyPlayer, check_ended, once_under_way, reopened, to_the_end

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.pending import AskModel, AwaitTime, CallTool, RunHandler, pending
from midstream.core.routing import Destination, spoken
from midstream.core.run import Run, owner_of
from midstream.language import spec
from midstream.language.names import Policy

CAUGHT = (spec.Catch(on=("any",), to="talk", save_as="trouble"),)
AGAIN = spec.Retry(max_attempts=2, backoff_s=5, on=("any",))
SHORT: dict[str, Any] = {
    "max_visits": 6,
    "catch": (spec.Catch(on=("max_visits",), to="stop"), *CAUGHT),
}

DEEPEST = flow(
    plain("start", "dude", prompt="Deep: ${input?}", save_as="deep", next="ask"),
    spec.State(name="ask", ask="How deep?", save_as="how"),
    plain("resume", "critic", next="$interrupted"),
    spec.State(name="stop", input="common_data.how"),
    start_condition="on_user_input",
    input=spec.Input(name="depth"),
)
INNER = flow(
    spec.State(
        name="start",
        parallel=(
            spec.Branch(name="one", states=(plain("a", "dude", prompt="A", timeout_s=9),)),
            spec.Branch(
                name="two",
                states=(
                    spec.State(name="b", tool="shell", retry=AGAIN, save_as="b", next="c"),
                    spec.State(name="c", workflow="deepest", save_as="r.c"),
                ),
                shared=("talk",),
                output="common_data.b",
            ),
        ),
        save_as="r.found",
        resume="aside",
        next="more",
    ),
    plain("aside", "critic", prompt="Hm", next="$interrupted"),
    spec.State(
        name="more", tool="write", arguments={"text": "${common_data.r.found}"}, catch=CAUGHT
    ),
    plain("talk", "dude", output_schema=OBJECT, on_input="steer"),
    spec.State(name="stop", input="common_data.r.found"),
)
OUTER = flow(
    plain("start", "dude", prompt="${input?nothing}", save_as="plan", next="fan", retry=AGAIN),
    spec.State(
        name="fan",
        parallel=(
            "left",
            "right",
            spec.Branch(
                name="inner",
                states=(
                    spec.State(
                        name="sub",
                        workflow=spec.SubWorkflow(
                            name="inner",
                            input="${common_data.plan?}",
                            output={"sub.x": "output", "sub.y": "common_data.r"},
                        ),
                        catch=CAUGHT,
                    ),
                    plain("talk", "dude"),
                ),
            ),
        ),
        join=2,
        save_as="fanned",
        timeout_s=60,
        retry=AGAIN,
        next="items",
        **SHORT,
    ),
    plain(
        "left",
        "dude",
        prompt="L",
        save_as="both.left",
        budget=spec.Budget(tokens=20, tool_calls=3),
        resume="$interrupted",
    ),
    plain("right", "judge", save_as="both.right", next="rest", on_input="queue"),
    spec.State(name="rest", wait=3.0, next="stop"),
    spec.State(
        name="items",
        for_each=spec.ForEach(
            items="variables.items",
            states=(
                spec.State(
                    name="do",
                    tool="shell",
                    arguments={"n": "${variables.index}"},
                    save_as="done",
                    next="say",
                    timeout_s=4,
                    retry=AGAIN,
                ),
                plain("say", "dude", awaits_input=True, post_handler="post", save_as="said"),
            ),
            shared=("court",),
            max_concurrency=2,
        ),
        join="any",
        next="quiz",
        resume="$interrupted",
        catch=CAUGHT,
    ),
    spec.State(
        name="quiz",
        ask=spec.Ask(
            question="${common_data.trouble.error?All well}?",
            choices=("Red", "Blue"),
            default="Red",
            deadline_s=10,
            on_timeout="default",
        ),
        timeout_s=30,
        save_as="colour",
        retry=AGAIN,
        transitions=(
            spec.Transition(when="last.text == 'Red' and visits.quiz < 3", to="late"),
            spec.Transition(to="put"),
        ),
    ),
    spec.State(name="late", wait=spec.Wait(until="2026-01-01T00:00Z"), next="fan"),
    spec.State(name="put", tool="put", arguments={"c": "${common_data.nowhere?}"}, next="shell"),
    spec.State(
        name="shell",
        tool="shell",
        timeout_s=5,
        retry=AGAIN,
        catch=CAUGHT,
        resume="$interrupted",
        next="patient",
    ),
    spec.State(name="patient", ask=spec.Ask(question="Well?", deadline_s=7), next="broken"),
    plain("broken", "critic", prompt="${common_data.never}", **SHORT),
    plain("talk", "critic", pre_handler="pre", transitions=(spec.Transition(to="quiz"),), **SHORT),
    budget=spec.Budget(tokens=900, tool_calls=80),
    variables={"items": ["a", "b", "c"]},
    contexts=(spec.Context(name="talk", max_length=300), spec.Context(name="court")),
)
RESUMES = [
    None,
    plain("resume", "dude", next="$interrupted"),
    plain("resume", "critic", pre_handler="pre", next="$interrupted"),
    spec.State(name="resume", tool="shell", next="$interrupted", catch=CAUGHT),
    spec.State(name="resume", parallel=("left", "right"), next="$interrupted"),
]


def definition(resume: spec.State | None) -> spec.Definition:
    def of_workflow(workflow: spec.Workflow, **inner: spec.Definition) -> spec.Definition:
        return spec.Definition(workflow=workflow, roles=ROLES, tools=TOOLS, workflows=inner)

    states = OUTER.states if resume is None else (*OUTER.states, resume)
    outer = flow(
        *states,
        budget=OUTER.budget,
        variables=OUTER.variables,
        contexts=OUTER.contexts,
    )
    return of_workflow(outer, inner=of_workflow(INNER, deepest=of_workflow(DEEPEST)))


names = st.sampled_from(["look", "put", "shell", "shell", "write", "run", "verdict", "submit"])
calls = st.one_of(
    st.builds(inputs.RequestedCall, name=names, arguments=st.just({"a": "é"})),
    st.just(asks("Which?", choices=["Red", "Blue"])),
    st.just(call("shell")),
    st.just(call("write")),
    st.just(call("run")),
)
texts = st.sampled_from(["", "ok", "no, rename", "red", "x" * 90])
lines = st.sampled_from(["stop that", "red", "@left wait", "@inner/inner hm", "@two x", "@1 no"])
policies: st.SearchStrategy[Policy | None] = st.sampled_from(
    [None, None, None, "interrupt", "steer", "queue", "reject"]
)


class Player(AnyPlayer):
    texts = texts

    def next(self, run: Run) -> inputs.AnyInput:
        self.keys += [effect.key for effect in pending(run)]
        move = self.data.draw(st.integers(0, 29))
        if move < 17 and pending(run):
            return self.owed(run)
        if move < 22 and run.inbox.open_questions:
            return self.answer(run)
        if move < 26:
            return self.said(run)
        return self.other(run)

    def model(self, key: inputs.EffectKey) -> inputs.AnyInput:
        usage = e.Usage(model="m", input_tokens=1, output_tokens=2)
        luck = self.data.draw(st.integers(0, 9))
        if luck == 0:
            return inputs.ModelFailed(key=key, error="500", shown=self.data.draw(texts))
        if luck < 6:
            good = tuple(call(name) for name in ("verdict", "submit") if luck == 1)
            return inputs.ModelReplied(key=key, text="ok", calls=good, usage=usage)
        made = self.data.draw(st.lists(calls, max_size=3))
        return inputs.ModelReplied(
            key=key, text=self.data.draw(texts), calls=tuple(made), usage=usage
        )

    def tool(self, key: inputs.EffectKey) -> inputs.AnyInput:
        outcome = self.data.draw(
            st.sampled_from(["completed"] * 4 + ["failed", "stopped", "unknown"])
        )
        return inputs.ToolFinished(key=key, outcome=outcome, text=self.data.draw(texts))  # type: ignore[arg-type]

    def handler(self, key: inputs.EffectKey) -> inputs.AnyInput:
        if self.data.draw(st.integers(0, 5)) == 0:
            return inputs.HandlerFailed(key=key, error="raised")
        changed = self.data.draw(st.sampled_from([{}, {"a": {"b": 1}}, {"both": {"c": 2}}]))
        return inputs.HandlerReturned(key=key, changed=changed)

    def answer(self, run: Run) -> inputs.AnyInput:
        question = self.data.draw(st.sampled_from(run.inbox.open_questions))
        if question.kind == "approval":
            granted, for_run = self.data.draw(st.booleans()), self.data.draw(st.booleans())
            return inputs.Approve(question=question.id, granted=granted, for_run=for_run)
        text = "2" if question.choices else self.data.draw(texts)
        return self.line(run, text, question=question.id)

    def line(self, run: Run, text: str, question: str | None = None) -> inputs.UserSaid:
        self.at += self.data.draw(st.sampled_from([0.1, 5.0]))
        self.lines.append(f"line{len(self.lines)}")
        return inputs.UserSaid(
            id=self.lines[-1],
            to=spoken(text, run, question=question, is_unasked=True),
            at=self.at,
            shown=self.shown(),
            policy=None if question else self.data.draw(policies),
        )

    def said(self, run: Run) -> inputs.AnyInput:
        return self.line(run, self.data.draw(lines))

    def other(self, run: Run) -> inputs.AnyInput:
        key = self.data.draw(st.sampled_from(self.keys))
        options: list[inputs.AnyInput] = [
            self.model(key),
            self.tool(key),
            inputs.TimerRang(key=key),
            inputs.TimerStarted(key=key, until=self.at),
            inputs.HandlerReturned(key=key),
            inputs.Halt(shown=self.shown()),
            inputs.Halt(shown=self.shown()),
            inputs.Withdraw(input_id=self.data.draw(st.sampled_from(self.lines))),
            inputs.Recovered(),
            inputs.Recovered(was_cut=False),
        ]
        if self.data.draw(st.integers(0, 9)) == 0:
            options.append(inputs.Stop(reason="bye"))
        return self.data.draw(st.sampled_from(options))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_happens_to_any_kind_of_state_the_rules_hold(data: st.DataObject) -> None:
    what = definition(data.draw(st.sampled_from(RESUMES)))
    run, facts = go(Run(id="r"), inputs.Start(definition=what, input="tidy"))
    player = Player(data)
    for _ in range(data.draw(st.integers(1, 120))):
        if run.visit.phase == "ended":
            break
        before = once_under_way(run)
        input = player.next(run)
        run, more = go(run, input)
        facts += more
        if isinstance(input, inputs.Recovered):
            assert not before & once_under_way(run), "no once call goes on in another process"
        else:
            ended = {fact.call_id for fact in of(facts, e.ToolReturned)}
            assert before - ended <= once_under_way(run), "a once call is never lost sight of"
    deep = max(
        (part.branch.path.count("/") + 1 for part in parts(run) if part.branch.path), default=0
    )
    event(f"{run.visit.phase}, {deep} deep, {len(facts) // 20 * 20}+ facts")

    reopened(run, facts)
    run, more = to_the_end(run)
    facts += more
    assert run.visit.phase == "ended"
    check_ended(facts)
    assert replayed(facts) == run
    check(run, run, [])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_happened_a_run_comes_to_its_end_when_all_goes_well(data: st.DataObject) -> None:
    run, _ = go(Run(id="r"), inputs.Start(definition=definition(RESUMES[1]), input="tidy"))
    player = Player(data)
    for _ in range(data.draw(st.integers(1, 60))):
        input = player.next(run)
        run, _ = go(run, *([] if isinstance(input, inputs.Stop) else [input]))
    for step in range(1_000):
        if run.is_over:
            break
        run, _ = go(run, what_helps(run, step))

    assert run.is_over, f"nothing helps it out of {run.visit.state} ({run.visit.phase})"


def what_helps(run: Run, step: int) -> inputs.AnyInput:
    """Return what goes well next: replies, results and answers before any time is over."""
    owed = sorted(pending(run), key=lambda effect: isinstance(effect, AwaitTime))
    if owed and not (isinstance(owed[0], AwaitTime) and run.inbox.open_questions):
        match owed[0]:
            case AskModel(key=key):
                part = owner_of(run, key)
                calls = (call("verdict"),) if owed[0].agent == "judge" else ()
                if part.plan is not None and part.plan.states[part.visit.state].output_schema:
                    calls = (call("submit"),)
                return inputs.ModelReplied(key=key, text="ok", calls=calls)
            case CallTool(key=key):
                return inputs.ToolFinished(key=key, outcome="completed", text="ok")
            case RunHandler(key=key):
                return inputs.HandlerReturned(key=key)
            case AwaitTime(key=key, until=None):
                return inputs.TimerStarted(key=key, until=0.0)
            case AwaitTime(key=key):
                return inputs.TimerRang(key=key)
    question = run.inbox.open_questions[0] if run.inbox.open_questions else None
    if question is not None and question.kind == "approval":
        return inputs.Approve(question=question.id, granted=True)
    text = "1" if question is not None and question.choices else "go on"
    answers = None if question is None else question.id
    to = Destination(text=text, question=answers)
    return inputs.UserSaid(id=f"help{step}", to=to, at=1e6 + 60 * step)

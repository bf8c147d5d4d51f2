"""Stories: start a run, let things happen to it, look at the facts.

A step is an input, or a function from the run to one, so that `replies("hello")` can find the key of
the request the run is owed. Every step checks the rules that hold of every run (`check`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.conversation import Message
from midstream.core.decide.decide import judged
from midstream.core.fold.apply import apply
from midstream.core.pending import (
    AnyEffect,
    AskModel,
    call_key,
    handler_key,
    pending,
    request_key,
    review_key,
    set_key,
    timer_key,
)
from midstream.core.routing import spoken
from midstream.core.run import WITHIN, Run
from midstream.language.names import Json, Outcome, Policy
from midstream.language.spec import (
    Agent,
    Ask,
    Context,
    Definition,
    ParsingTool,
    Role,
    State,
    ToolSpec,
    Workflow,
)

Step = inputs.AnyInput | Callable[[Run], inputs.AnyInput]
T = TypeVar("T")


class After(NamedTuple):
    """A step that happens after the run was at work for so many seconds."""

    seconds: float
    step: Step


OBJECT: dict[str, Json] = {"type": "object"}
TOOLS = {
    spec.name: spec
    for spec in (
        ToolSpec(name="look", description="", parameters=OBJECT, effect="read"),
        ToolSpec(name="put", description="", parameters=OBJECT, effect="idempotent"),
        ToolSpec(name="shell", description="", parameters=OBJECT, effect="once"),
        ToolSpec(name="write", description="", parameters=OBJECT, needs_approval=True),
        ToolSpec(name="run", description="", parameters=OBJECT, reviewed=True),
        ToolSpec(name="tasks", description="", parameters=OBJECT, effect="read"),
        ToolSpec(name="execute_terminal", description="", parameters=OBJECT),
        ToolSpec(name="todo", description="", parameters=OBJECT, effect="read"),
        ToolSpec(name="request_users_input", description="", parameters=OBJECT, effect="read"),
    )
}
VERDICT = ParsingTool(name="verdict", parameters=OBJECT)
ROLES = {
    "dude": Role(),
    "critic": Role(),
    "judge": Role(parsingTools=(VERDICT,)),
}
AGENTS = (
    Agent(agent_role="dude", context="talk"),
    Agent(agent_role="critic", context="talk", role="user"),
    Agent(agent_role="judge", context="court"),
)
STOP_STATE = State(name="stop")


def flow(*states: State, **fields: Any) -> Workflow:
    """Return a workflow of these states (and a plain `stop`) with everybody on board."""
    has_stop = any(state.name == "stop" for state in states)
    settings: dict[str, Any] = {
        "workflow_name": "w",
        "states": states if has_stop else (*states, STOP_STATE),
        "contexts": (Context(name="talk"), Context(name="court")),
        "agents": AGENTS,
    }
    return Workflow(**(settings | fields))


def state(name: str, agent: str | None = None, **fields: Any) -> State:
    """Return a state."""
    return State(name=name, agent=agent, **fields)


def define(workflow: Workflow, **inner: Workflow) -> Definition:
    """Return the workflow with the roles and tools of these stories, and its sub-workflows."""
    workflows = {name: define(other) for name, other in inner.items()}
    return Definition(workflow=workflow, roles=ROLES, tools=TOOLS, workflows=workflows)


def tell(
    workflow: Workflow | Definition, *steps: Step | After, input: Json = "tidy", **start: Any
) -> tuple[Run, list[e.AnyFact]]:
    """Return a run of the workflow after the steps, and all its facts."""
    definition = define(workflow) if isinstance(workflow, Workflow) else workflow
    begin = inputs.Start(definition=definition, input=input, **start)
    return go(Run(id="r"), begin, *steps)


def go(run: Run, *steps: Step | After) -> tuple[Run, list[e.AnyFact]]:
    """Return the run after further steps, and the facts they made true."""
    facts: list[e.AnyFact] = []
    for step in steps:
        before, worked_s = run, 0.0
        if isinstance(step, After):
            worked_s, step = step
        story = judged(run, step(run) if callable(step) else step, worked_s)
        for fact in story.facts:
            if isinstance(fact, e.BranchStarted):
                around = at(run, fact.branch) if fact.branch else run
                assert fact.name not in around.visit.branches, "a branch begins once"
            run = apply(run, fact)
        assert run == story.run
        facts += story.facts
        check(before, run, story.facts)
    return run, facts


# --- what can happen --------------------------------------------------------------------------


def replies(text: str = "", *calls: inputs.RequestedCall, usage: e.Usage | None = None) -> Step:
    """The model answers the request the run is owed."""
    return lambda run: inputs.ModelReplied(
        key=request_key(run), text=text, calls=calls, usage=usage
    )


def fails(
    error: str = "the line is dead",
    shown: str = "",
    usage: e.Usage | None = None,
    *,
    is_broken: bool = False,
) -> Step:
    """The model request the run is owed fails."""
    return lambda run: inputs.ModelFailed(
        key=request_key(run), error=error, shown=shown, is_broken=is_broken, usage=usage
    )


def call(name: str, problem: str = "", **arguments: Json) -> inputs.RequestedCall:
    """Return a tool call as a model sends it."""
    return inputs.RequestedCall(name=name, arguments=arguments, problem=problem)


def asks(question: str, **arguments: Json) -> inputs.RequestedCall:
    """Return a call of the tool that asks the user."""
    return call("request_users_input", question=question, **arguments)


def done(call_id: str, text: str = "ok", outcome: Outcome = "completed") -> Step:
    """A tool call ends."""
    return lambda run: inputs.ToolFinished(key=call_key(run, call_id), outcome=outcome, text=text)


def comes(call_id: str, kind: Literal["allow", "ask", "deny"] = "allow", **fields: Any) -> Step:
    """The turn of a tool call comes: what it would do was looked at."""
    return lambda run: inputs.CallReviewed(key=review_key(run, call_id), kind=kind, **fields)


def handler(
    chosen: Json = None, *, contexts: Sequence[e.ContextChange] = (), **changed: Json
) -> Step:
    """The handler the run is owed returns, having set these keys of common_data."""
    return lambda run: inputs.HandlerReturned(
        key=handler_key(run), chosen=chosen, changed=changed, contexts=tuple(contexts)
    )


def says(
    text: str,
    question: str | None = None,
    *,
    id: str = "",
    at: float = 0.0,
    policy: Policy | None = None,
    shown: str = "",
    has_calls: bool = False,
    usage: e.Usage | None = None,
    **fields: Any,
) -> Step:
    """The user says something, having seen `shown` of the reply under way, which had used as much."""

    def step(run: Run) -> inputs.UserSaid:
        seen: tuple[inputs.Shown, ...] = ()
        if (shown or has_calls or usage) and run.visit.turn is not None:
            key = request_key(run)
            seen = (inputs.Shown(key=key, text=shown, has_calls=has_calls, usage=usage),)
        return inputs.UserSaid(
            id=id or f"in{run.seq}",
            to=spoken(text, run, question=question, is_unasked=True),
            at=at,
            policy=policy,
            shown=seen,
            **fields,
        )

    return step


def within(place: str, step: Step) -> Step:
    """Let something happen in the branch at a place such as `left` or `left/inner`."""

    def inner(run: Run) -> inputs.AnyInput:
        name, _, rest = place.partition("/")
        what = within(rest, step) if rest else step
        input = what(run.visit.branches[name]) if callable(what) else what
        key = (run.visit.step, WITHIN, name, *getattr(input, "key", ()))
        return msgspec.structs.replace(input, key=key)

    return inner


def begins(timer: str, until: float) -> Step:
    """The clock says when a wait is over."""
    return lambda run: inputs.TimerStarted(key=set_key(run, timer), until=until)


def rings(timer: str) -> Step:
    """The time a run waits for has come."""
    return lambda run: inputs.TimerRang(key=timer_key(run, timer))


def approves(question: str, granted: bool = True, *, for_run: bool = False, note: str = "") -> Step:
    """The user decides on a tool call."""
    return inputs.Approve(question=question, granted=granted, for_run=for_run, note=note)


def at(run: Run, place: str) -> Run:
    """Return the branch at a place."""
    for name in place.split("/"):
        run = run.visit.branches[name]
    return run


# --- looking ----------------------------------------------------------------------------------


def of(facts: Iterable[e.AnyFact], kind: type[T]) -> list[T]:
    """Return the facts of one kind."""
    return [fact for fact in facts if isinstance(fact, kind)]


def path(facts: Iterable[e.AnyFact], branch: str | None = None) -> list[str]:
    """Return the states entered, in order; by default in whatever branch."""
    entered = of(facts, e.StateTransition)
    return [fact.target for fact in entered if branch is None or fact.branch == branch]


def kinds(facts: Iterable[e.AnyFact]) -> list[str]:
    """Return the wire names of the facts."""
    return [str(type(fact).__struct_config__.tag) for fact in facts]


def words(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """Return who said what: (author or side, text)."""
    return [(message.author or message.role, message.text) for message in messages]


def keys(run: Run) -> list[inputs.EffectKey]:
    """Return the keys of what the run is owed."""
    return [effect.key for effect in pending(run)]


def dispositions(run: Run) -> list[str | None]:
    """Return what became of each line, in the order they came."""
    return [record.disposition for record in run.inbox.lines.values()]


# --- what is always true ----------------------------------------------------------------------


def check(before: Run, run: Run, facts: Sequence[e.AnyFact]) -> None:
    """Fail unless the rules of every run hold of a step from `before` to `run`."""
    assert before.visit.phase != "ended" or not facts, "nothing happens after the end"
    assert run.halt.epoch >= before.halt.epoch
    assert run.visit.step >= before.visit.step
    assert run.seq == before.seq + len(facts)
    assert run.visit.phase != "leaving", "a decision never stops half-way"

    owed = keys(run)
    assert len(set(owed)) == len(owed), "an effect is owed once"
    for messages in run.contexts.values():
        for message in messages:
            made = [made_call.id for made_call in message.calls]
            assert [result.call_id for result in message.results] == made

    assert run.inbox.open_questions == tuple(q for q in run.inbox.questions if q.is_open)
    ids = [question.id for question in run.inbox.questions]
    assert len(set(ids)) == len(ids)
    parked = {call_id for part in parts(run) for call_id in parked_in(part)}
    assert {q.call_id for q in run.inbox.open_questions if q.call_id} == parked
    for part in parts(run):
        check_order(part)
        theirs = [q.id for q in part.inbox.questions]
        assert theirs == [q.id for q in run.inbox.questions if q.id in theirs]
        assert all(q.branch.startswith(part.branch.path) for q in part.inbox.questions)
        check_shared(part)

    undisposed = tuple(record for record in run.inbox.lines.values() if record.disposition is None)
    assert run.inbox.undelivered == undisposed
    disposed = [fact.input_id for fact in of(facts, e.InputDisposed)]
    assert len(set(disposed)) == len(disposed), "a line ends once"
    for input_id in disposed:
        assert (
            input_id not in before.inbox.lines or before.inbox.lines[input_id].disposition is None
        )
    received = [fact.input_id for fact in of(facts, e.InputReceived)]
    assert not set(received) & set(before.inbox.lines), "a line is received once"
    if run.visit.phase == "ended":
        assert not undisposed
        assert not run.inbox.open_questions
        assert not owed
    moving = [
        effect
        for effect in pending(run)
        if not is_idle_wait(run, effect.key) and not asks_from_within(effect)
    ]
    assert run.is_parked == (not moving) or run.visit.phase in ("new", "ended")
    assert moving or run.is_parked or run.visit.phase in ("new", "ended"), (
        "nothing could move it on"
    )


def asks_from_within(effect: AnyEffect) -> bool:
    """Return whether an external agent at work waits for a person's yes."""
    made = effect.external if isinstance(effect, AskModel) else ()
    under_way = [each for each in made if each.status != "done"]
    return bool(under_way) and all(each.status == "parked" for each in under_way)


def check_order(run: Run) -> None:
    """Fail unless the calls of a reply are made in its order: side by side, all of them only read."""
    calls = () if run.visit.turn is None else run.visit.turn.calls
    under_way = [c for c in calls if c.status in ("parked", "running", "stopping")]
    assert len(under_way) < 2 or all(c.effect == "read" for c in under_way)
    begun = [c.status != "new" for c in calls if c.outcome != "failed"]
    assert run.visit.phase == "halting" or begun == sorted(begun, reverse=True), (
        "in the model's order"
    )
    if under_way and under_way[0].effect != "read":
        earlier = calls[: calls.index(under_way[0])]
        assert all(c.status == "done" for c in earlier), "what changes something comes last"


def parts(run: Run) -> list[Run]:
    """Return the run and all branches of it."""
    return [run, *(part for inner in run.visit.branches.values() for part in parts(inner))]


def parked_in(run: Run) -> set[str]:
    """Return the calls of the run itself, not of its branches, that wait for a person."""
    return (
        {
            c.call.id
            for c in (*run.visit.turn.calls, *run.visit.turn.external)
            if c.status == "parked"
        }
        if run.visit.turn
        else set()
    )


def check_shared(run: Run) -> None:
    """Fail unless what branches share with the run is the same for them all."""
    for branch in run.visit.branches.values():
        for context in branch.branch.shared:
            assert branch.is_over or branch.contexts[context] == run.contexts[context]


def is_idle_wait(run: Run, key: inputs.EffectKey) -> bool:
    """Return whether an effect only waits to tell that a question is still open."""
    while len(key) > 3 and key[1] == WITHIN:
        run, key = run.visit.branches[str(key[2])], key[3:]
    ask = run.plan.states[run.visit.state].ask
    is_deadline = str(key[-1]).startswith("deadline")
    return is_deadline and isinstance(ask, Ask) and ask.on_timeout == "wait"


def replayed(facts: Iterable[e.AnyFact]) -> Run:
    """Return the run folded from its facts as a journal would give them back."""
    run = Run(id="r")
    for fact in facts:
        run = apply(run, msgspec.json.decode(msgspec.json.encode(fact), type=e.AnyFact))
    return run

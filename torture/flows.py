"""The reference workflows that are killed: a definition, a model and a person each, without memory.

What any of them does follows from what it is given (a request, a run), so that a process that takes up a
run acts as the dead one would have. A `once` call's argument is unique to the point it is made at: the
same argument twice in the ledger is an effect that was repeated.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from midstream.core.conversation import USER
from midstream.core.errors import WorldTrouble
from midstream.core.inputs import RequestedCall
from midstream.core.names import REQUEST_USERS_INPUT, Effect, Json, Policy
from midstream.core.run import Run
from midstream.core.spec import Role, ToolSpec, chat_definition
from midstream.ports import ModelReply, ModelRequest, ReplyListener
from midstream.testing.fakes import FakeTools, define
from midstream.workflow.handlers import ScriptHandlers

Reply: TypeAlias = ModelReply | None
"""What a model says; None: it streams until it is cut."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What the person does once, as soon as `when` holds of the run; `fork` at the end of it."""

    when: Callable[[Run], bool]
    act: Literal["say", "approve", "deny", "halt"] = "say"
    text: str = ""
    policy: Policy | None = None


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow with everything around it. `forks`: a fork of the ended run is gone on with."""

    name: str
    definition: Any
    replies: Callable[[ModelRequest], Reply]
    steps: tuple[Step, ...] = ()
    handlers: Mapping[str, Callable[..., Any]] = {}
    forks: bool = False
    ends: Literal["finished", "stopped"] = "finished"
    passes: tuple[str, ...] = ()


EFFECTS: dict[str, Effect] = {"look": "read", "write": "idempotent", "send": "once", "slow": "once"}

_PARAMETERS: dict[str, Json] = {"type": "object", "properties": {"n": {"type": "string"}}}

SPECS = {
    name: ToolSpec(name=name, description=name, parameters=_PARAMETERS, effect=effect)
    for name, effect in EFFECTS.items()
} | {
    "guarded": ToolSpec(
        name="guarded", description="g", parameters=_PARAMETERS, needs_approval=True
    ),
    REQUEST_USERS_INPUT: FakeTools().specs()[REQUEST_USERS_INPUT],
}


class _Specs:
    def specs(self) -> dict[str, ToolSpec]:
        return SPECS

    async def call(self, *given: Any) -> Any:
        raise AssertionError("only for its specs")


def _flow(name: str, states: list[dict[str, Json]], replies: Any, **more: Any) -> Flow:
    names = sorted({state["agent"] for state in states if "agent" in state})
    definition = define(
        {
            "workflow_name": name,
            "contexts": [{"name": "talk"}],
            "agents": [{"agent_role": agent, "context": "talk"} for agent in names],
            "states": states,
            "start_condition": "immediate",
        },
        tools=_Specs(),
    )
    return Flow(name=name, definition=definition, replies=replies, **more)


def place(request: ModelRequest) -> str:
    """Return a name for the point a request is made at, the same when it is made again."""
    said = sum(len(message.text) + len(message.results) for message in request.messages)
    return f"{request.state}.{request.visit}.{request.request}.{len(request.messages)}.{said}"


def calls(request: ModelRequest, *tools: str) -> ModelReply:
    """Return a reply that calls the tools, each with an argument of its own."""
    asked = tuple(
        RequestedCall(name=tool, arguments={"n": f"{place(request)}.{number}"})
        for number, tool in enumerate(tools)
    )
    return ModelReply(text="", calls=asked)


def asks(*texts: str) -> ModelReply:
    """Return a reply that asks the user."""
    made = [RequestedCall(name=REQUEST_USERS_INPUT, arguments={"question": t}) for t in texts]
    return ModelReply(text="", calls=tuple(made))


def words(text: str = "Said and done.") -> ModelReply:
    """Return a reply in words."""
    return ModelReply(text=text)


def heard(request: ModelRequest) -> int:
    """Return how many messages of the person the request holds."""
    return sum(message.author == USER for message in request.messages)


def results(request: ModelRequest) -> int:
    """Return how many results of calls the request holds."""
    return sum(len(message.results) for message in request.messages)


def in_turn(state: str) -> Callable[[Run], bool]:
    """Return whether a run is in the turn of a state, nothing being called."""
    return lambda run: (
        run.state == state and run.phase == "turn" and run.turn is not None and not run.turn.calls
    )


def in_call(run: Run) -> bool:
    """Return whether a tool call is running."""
    if run.phase != "turn" or run.turn is None:
        return False
    return any(call.status == "running" for call in run.turn.calls)


def asked(run: Run) -> bool:
    """Return whether something is asked of the person."""
    return any(question.kind == "question" for question in run.open_questions)


def asked_approval(run: Run) -> bool:
    """Return whether a call waits for approval."""
    return any(question.kind == "approval" for question in run.open_questions)


def waits(run: Run) -> bool:
    """Return whether the run waits for words."""
    return run.phase == "waiting"


def _count(run: Any) -> str:
    run.common_data["rounds"] = run.common_data.get("rounds", 0) + 1
    return "stop" if run.common_data["rounds"] >= 3 else "start"


def _failing_once(request: ModelRequest) -> Reply:
    if request.state == "start" and not request.common_data.get("retried"):
        raise WorldTrouble("The model is out.")
    return words()


def _retried(run: Any) -> None:
    run.common_data["retried"] = True


_LINE = [
    {"name": "start", "agent": "a", "next": "second"},
    {"name": "second", "agent": "b", "next": "third"},
    {"name": "third", "agent": "a", "next": "stop"},
]
_ONE = [{"name": "start", "agent": "a", "next": "stop"}]
_RESUMING = [*_ONE, {"name": "resume", "agent": "a", "next": "stop"}]


def _once_then_words(request: ModelRequest) -> Reply:
    return calls(request, "send") if not results(request) else words()


def _chat() -> Flow:
    return Flow(
        name="chat",
        definition=chat_definition("dude", Role(), SPECS),
        replies=lambda r: calls(r, "send") if heard(r) == 1 and not results(r) else words(),
        steps=(
            Step(when=waits, text="first"),
            Step(when=waits, text="second"),
        ),
        ends="stopped",
    )


FLOWS: tuple[Flow, ...] = (
    _flow("line", _LINE, lambda r: _once_then_words(r) if r.state == "second" else words()),
    _flow(
        "loop",
        [{"name": "start", "agent": "a", "transition_handler": "count"}],
        lambda r: words(f"round {r.visit}"),
        handlers={"count": _count},
    ),
    _flow(
        "parallel_calls",
        _ONE,
        lambda r: words() if results(r) else calls(r, "look", "send", "write", "send"),
    ),
    _flow(
        "question",
        _ONE,
        lambda r: words() if results(r) else asks("Which?"),
        steps=(Step(when=asked, text="the first"),),
    ),
    _flow(
        "approval",
        _ONE,
        lambda r: words() if results(r) else calls(r, "guarded", "look"),
        steps=(Step(when=asked_approval, act="approve"),),
    ),
    _flow(
        "into_resume",
        _RESUMING,
        lambda r: words() if heard(r) else None,
        steps=(Step(when=in_turn("start"), text="no, otherwise"),),
        passes=("resume",),
    ),
    _flow(
        "into_start",
        _ONE,
        lambda r: words() if heard(r) else None,
        steps=(Step(when=in_turn("start"), text="no, otherwise"),),
    ),
    _flow(
        "late_reply",
        _RESUMING,
        lambda r: words() if heard(r) or results(r) else calls(r, "slow"),
        steps=(Step(when=in_call, text="stop that"),),
    ),
    _flow(
        "retry",
        [
            {"name": "start", "agent": "a", "next": "stop", "on_failure": "again"},
            {"name": "again", "pre_handler": "retried", "next": "start"},
        ],
        _failing_once,
        handlers={"retried": _retried},
        passes=("again",),
    ),
    _flow(
        "fork",
        _LINE,
        lambda r: _once_then_words(r) if r.state == "second" else words(),
        forks=True,
    ),
    _flow(
        "two_questions",
        _ONE,
        lambda r: words() if results(r) else asks("One?", "Two?"),
        steps=(Step(when=asked, text="to one"), Step(when=asked, text="to two")),
    ),
    _flow(
        "input_burst",
        _RESUMING,
        lambda r: words() if heard(r) else None,
        steps=(
            Step(when=in_turn("start"), text="wait", policy="queue"),
            Step(when=in_turn("start"), text="no"),
            Step(when=lambda run: True, text="nor that", policy="interrupt"),
            Step(when=lambda run: True, text="and this", policy="steer"),
        ),
    ),
    _chat(),
)


class PureModel:
    """The model of a flow: streams what `replies` says of each request."""

    def __init__(self, flow: Flow, see: Callable[[ModelRequest], None]) -> None:
        self._flow = flow
        self._see = see

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return the reply to one request."""
        self._see(request)
        reply = self._flow.replies(request)
        if reply is None:
            listener.text("On and on ")
            await asyncio.Event().wait()
        assert reply is not None
        for piece in reply.text.split():
            listener.text(f"{piece} ")
            await asyncio.sleep(0)
        return reply


def handlers_of(flow: Flow) -> ScriptHandlers:
    """Return the handlers of a flow."""
    return ScriptHandlers(dict(flow.handlers), where=f"the flow {flow.name}")

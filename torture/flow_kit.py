"""What a flow that is killed is made of: a definition, a model and a person, none with a memory.

What any of them does follows from what it is given (a request, a run), so that a process that takes up a
run acts as the dead one would have. A `once` call's argument is unique to the point it is made at: the
same argument twice in the ledger is an effect that was repeated.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from midstream.core.conversation import USER
from midstream.core.inputs import RequestedCall
from midstream.core.routing import branch_at, living
from midstream.core.run import Run
from midstream.core.todo import LIST_TOOL
from midstream.language.names import (
    DELEGATE,
    PROPOSE_PLAN,
    REQUEST_USERS_INPUT,
    RUN_WORKFLOW,
    Effect,
    Json,
    Policy,
)
from midstream.language.spec import Definition, ToolSpec
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener
from midstream.testing.fakes import FakeTools, define
from midstream.tools.small_tools import TOOLS

Reply: TypeAlias = ModelReply | None
"""What a model says; None: it streams until it is cut."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What the person does once, as soon as `when` holds of the run; `fork` at the end of it."""

    when: Callable[[Run], bool]
    act: Literal["say", "approve", "deny", "halt", "compact", "todo"] = "say"
    text: str = ""
    policy: Policy | None = None


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow with everything around it. `forks`: a fork of the ended run is gone on with.

    `inner` are the handlers of its sub-workflows, `found` the workflows its agents may run, by name.
    """

    name: str
    definition: Any
    replies: Callable[[ModelRequest], Reply]
    steps: tuple[Step, ...] = ()
    handlers: Mapping[str, Callable[..., Any]] = {}
    inner: Mapping[str, Mapping[str, Callable[..., Any]]] = {}
    found: Mapping[str, Definition] = {}
    forks: bool = False
    ends: Literal["finished", "stopped"] = "finished"
    passes: tuple[str, ...] = ()


BEGUN_BY_AGENTS = {DELEGATE, RUN_WORKFLOW, LIST_TOOL, PROPOSE_PLAN}
"""The tools by which an agent begins things, as they are."""

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
    **{tool.spec.name: tool.spec for tool in TOOLS if tool.spec.name in BEGUN_BY_AGENTS},
}


class _Specs:
    def specs(self) -> dict[str, ToolSpec]:
        return SPECS

    async def review(self, *given: Any) -> Any:
        raise AssertionError("only for its specs")

    async def call(self, *given: Any) -> Any:
        raise AssertionError("only for its specs")


def definition_of(name: str, states: list[dict[str, Json]]) -> Definition:
    """Return the definition of a flow: two agents who share a context, every tool."""
    return define(
        {
            "workflow_name": name,
            "contexts": [{"name": "talk"}],
            "agents": [{"agent_role": agent, "context": "talk"} for agent in ("a", "b")],
            "states": states,
            "start_condition": "immediate",
        },
        tools=_Specs(),
    )


def flow(
    name: str,
    states: list[dict[str, Json]],
    replies: Any,
    *,
    workflows: dict[str, Definition] | None = None,
    **more: Any,
) -> Flow:
    """Return a flow of these states; `more` is what else a `Flow` has."""
    definition = definition_of(name, states)
    if workflows:
        definition = msgspec.structs.replace(definition, workflows=workflows)
    return Flow(name=name, definition=definition, replies=replies, **more)


def place(request: ModelRequest) -> str:
    """Return a name for the point a request is made at, the same when it is made again."""
    said = sum(len(message.text) + len(message.results) for message in request.messages)
    at = f"{request.agent}.{request.state}.{request.visit}.{request.request}"
    return f"{at}.{len(request.messages)}.{said}"


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
        run.visit.state == state
        and run.visit.phase == "turn"
        and run.visit.turn is not None
        and not run.visit.turn.calls
    )


def in_call(run: Run) -> bool:
    """Return whether a tool call is running, in the run or one of its branches."""
    return any(
        call.status == "running"
        for part in (run, *living(run))
        if part.visit.phase in ("turn", "call") and part.visit.turn is not None
        for call in part.visit.turn.calls
    )


def at_work(branch: str) -> Callable[[Run], bool]:
    """Return whether a branch is in the turn of an agent, nothing being called."""

    def holds(run: Run) -> bool:
        part = branch_at(run, branch)
        return part is not None and in_turn(part.visit.state)(part)

    return holds


def asked(run: Run) -> bool:
    """Return whether something is asked of the person."""
    return any(question.kind == "question" for question in run.inbox.open_questions)


def asked_approval(run: Run) -> bool:
    """Return whether a call waits for approval."""
    return any(question.kind == "approval" for question in run.inbox.open_questions)


def waits(run: Run) -> bool:
    """Return whether the run waits for words."""
    return run.visit.phase == "waiting"


BACK = {"name": "resume", "agent": "a", "next": "$interrupted"}
VERIFY = {"name": "verify", "agent": "b", "prompt": "Verify.", "next": "stop"}


def tool_state(name: str, tool: str, n: str, **more: Json) -> dict[str, Json]:
    """Return a state that calls a tool; what became of a call may be unknown after a kill."""
    caught = [{"on": ["tool"], "to": "verify"}]
    return {"name": name, "tool": tool, "arguments": {"n": n}, "catch": caught, **more}


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
    inner = {name: ScriptHandlers(dict(functions)) for name, functions in flow.inner.items()}
    handlers = ScriptHandlers(dict(flow.handlers), where=f"the flow {flow.name}")
    return handlers.around(inner) if inner else handlers

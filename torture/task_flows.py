"""Flows in which the agent begins things itself: tasks in another role, a workflow, a plan, a todo list."""

from msgspec.structs import replace

from midstream.core.inputs import RequestedCall
from midstream.core.routing import branch_at
from midstream.core.run import Run
from midstream.language.names import Json
from midstream.language.plan import chat_definition
from midstream.language.spec import Definition, Role
from midstream.runtime.ports import ModelReply, ModelRequest
from torture.flow_kit import (
    BACK,
    SPECS,
    VERIFY,
    Flow,
    Reply,
    Step,
    asked,
    asked_approval,
    asks,
    calls,
    definition_of,
    heard,
    in_call,
    in_turn,
    results,
    tool_state,
    waits,
    words,
)

_CHAT = chat_definition(
    "dude",
    Role(),
    SPECS,
    roles={"coder": Role(description="Codes."), "reader": Role(description="Reads.")},
    workflows={"tidy": "Tidies."},
)
_TIDY = definition_of(
    "tidy",
    [
        tool_state("start", "send", "tidied", next="say"),
        {"name": "say", "agent": "a", "prompt": "Say ${input}.", "next": "sure"},
        {"name": "sure", "ask": "Sure?", "save_as": "sure", "next": "stop"},
        VERIFY,
        BACK,
    ],
)


def _called(request: ModelRequest, *own: RequestedCall, tools: tuple[str, ...] = ()) -> ModelReply:
    """Return a reply that makes these calls, and before them those of `calls`."""
    return ModelReply(text="", calls=(*calls(request, *tools).calls, *own))


def _hand_on(role: str) -> RequestedCall:
    return RequestedCall(
        name="delegate", arguments={"role": role, "task": f"Do what a {role} does."}
    )


def _keep(*statuses: str) -> RequestedCall:
    items: list[Json] = [{"text": f"Step {n}", "status": each} for n, each in enumerate(statuses)]
    return RequestedCall(name="todo", arguments={"items": items})


def _two_tasks(request: ModelRequest) -> Reply:
    """Return what each does: the one who hands on sends, the coder hands on itself, the reader asks."""
    if results(request):
        return words(f"{request.agent} is done.")
    match request.agent:
        case "dude":
            return _called(request, _hand_on("coder"), _hand_on("reader"), tools=("send",))
        case "coder":
            return _called(request, tools=("send", "look"))
        case _:
            return asks("Which?")


def _tasks_within(request: ModelRequest) -> Reply:
    if results(request):
        return words()
    if request.agent == "dude":
        return _called(request, _hand_on("coder"))
    if request.agent == "coder":
        return _called(request, _hand_on("reader"), tools=("send",))
    return _called(request, tools=("send",))


def _stopped_task(request: ModelRequest) -> Reply:
    """Return words that never end, from a coder: whoever handed on hears of it, and does it itself."""
    if request.agent == "coder":
        return None if results(request) else _called(request, tools=("send",))
    if heard(request) > 1:
        return words() if results(request) > 1 else _called(request, tools=("send",))
    return words() if results(request) else _called(request, _hand_on("coder"))


def _runs_tidy(request: ModelRequest) -> Reply:
    if request.agent != "dude" or results(request):
        return words()
    tidy: dict[str, Json] = {"name": "tidy", "input": "now"}
    return _called(request, RequestedCall(name="run_workflow", arguments=tidy))


def _keeps_a_list(request: ModelRequest) -> Reply:
    match results(request):
        case 0:
            return _called(request, _keep("doing", "pending"))
        case 1:
            return _called(request, _keep("done", "doing"), tools=("send",))
        case _:
            return words()


def _plans(request: ModelRequest) -> Reply:
    if results(request):
        return words() if results(request) > 1 else _called(request, tools=("send",))
    plan: dict[str, Json] = {"title": "Mend it", "steps": ["Read", "Write"]}
    return _called(request, RequestedCall(name="propose_plan", arguments=plan))


def _streams(run: Run) -> bool:
    """Return whether the coder knows what became of its call, and now says words that do not end."""
    part = branch_at(run, "coder")
    return part is not None and in_turn("start")(part) and _has_results(part)


def _can_begin(run: Run) -> bool:
    """Return whether the chat waits for its first words, or has them: whoever said them was killed."""
    return waits(run) or in_turn("start")(run) or in_call(run)


def _has_results(run: Run) -> bool:
    return any(message.results for message in run.contexts["task"])


def _talk(
    name: str, replies: object, *steps: Step, workflows: dict[str, Definition] | None = None
) -> Flow:
    """Return a chat that is begun with a line, and stopped when the steps are done and it rests."""
    assert callable(replies)
    return Flow(
        name=name,
        definition=_CHAT,
        replies=replies,
        steps=(Step(when=_can_begin, text="begin"), *steps),
        found=workflows or {},
        ends="stopped",
    )


OF_TASKS: tuple[Flow, ...] = (
    _talk("tasks_handed_on", _two_tasks, Step(when=asked, text="the first")),
    _talk("a_task_hands_on", _tasks_within),
    _talk("a_task_is_stopped", _stopped_task, Step(when=_streams, text="stop that")),
    _talk(
        "a_chat_runs_a_workflow",
        _runs_tidy,
        Step(when=asked_approval, act="approve"),
        Step(when=asked, text="yes"),
        workflows={"tidy": replace(_TIDY, found_as="tidy")},
    ),
    _talk("a_plan_is_approved", _plans, Step(when=asked_approval, act="approve")),
    _talk("a_list_is_kept", _keeps_a_list, Step(when=waits, act="todo", text="add More")),
)

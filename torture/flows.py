"""The reference workflows that are killed. What a flow is made of: see `torture.flow_kit`."""

from typing import Any

from midstream.core.run import Run
from midstream.core.summaries import SUMMARY_STATE
from midstream.language.errors import WorldTrouble
from midstream.language.plan import chat_definition
from midstream.language.spec import Role
from midstream.runtime.ports import ModelRequest
from torture.branch_flows import OF_BRANCHES
from torture.flow_kit import (
    SPECS,
    Flow,
    Reply,
    Step,
    asked,
    asked_approval,
    asks,
    calls,
    flow,
    heard,
    in_call,
    in_turn,
    results,
    waits,
    words,
)
from torture.state_flows import OF_STATES
from torture.task_flows import OF_TASKS


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


def _compacted() -> Flow:
    """Return a chat whose older turns give way to a summary."""

    def replies(request: ModelRequest) -> Reply:
        if request.state == SUMMARY_STATE:
            return words("They talked.")
        return words("It takes a while to tell. " * 20)

    def rests(run: Run) -> bool:
        return waits(run) and run.compacting is None

    return Flow(
        name="compacted",
        definition=chat_definition("dude", Role(), SPECS),
        replies=replies,
        steps=(
            *(Step(when=waits, text=text) for text in ("first", "second", "third")),
            Step(when=waits, act="compact"),
            Step(when=rests, text="fourth"),
        ),
        ends="stopped",
    )


FLOWS: tuple[Flow, ...] = (
    flow("line", _LINE, lambda r: _once_then_words(r) if r.state == "second" else words()),
    flow(
        "loop",
        [{"name": "start", "agent": "a", "transition_handler": "count"}],
        lambda r: words(f"round {r.visit}"),
        handlers={"count": _count},
    ),
    flow(
        "parallel_calls",
        _ONE,
        lambda r: words() if results(r) else calls(r, "look", "send", "write", "send"),
    ),
    flow(
        "calls_in_order",
        _ONE,
        lambda r: (
            words()
            if results(r)
            else calls(r, "send", "guarded", "look", "look", "guarded", "send", "look")
        ),
        steps=(
            Step(when=asked_approval, act="deny"),
            Step(when=asked_approval, act="approve"),
        ),
    ),
    flow(
        "question",
        _ONE,
        lambda r: words() if results(r) else asks("Which?"),
        steps=(Step(when=asked, text="the first"),),
    ),
    flow(
        "approval",
        _ONE,
        lambda r: words() if results(r) else calls(r, "guarded", "look"),
        steps=(Step(when=asked_approval, act="approve"),),
    ),
    flow(
        "into_resume",
        _RESUMING,
        lambda r: words() if heard(r) else None,
        steps=(Step(when=in_turn("start"), text="no, otherwise"),),
        passes=("resume",),
    ),
    flow(
        "into_start",
        _ONE,
        lambda r: words() if heard(r) else None,
        steps=(Step(when=in_turn("start"), text="no, otherwise"),),
    ),
    flow(
        "late_reply",
        _RESUMING,
        lambda r: words() if heard(r) or results(r) else calls(r, "slow"),
        steps=(Step(when=in_call, text="stop that"),),
    ),
    flow(
        "retry",
        [
            {"name": "start", "agent": "a", "next": "stop", "on_failure": "again"},
            {"name": "again", "pre_handler": "retried", "next": "start"},
        ],
        _failing_once,
        handlers={"retried": _retried},
        passes=("again",),
    ),
    flow(
        "fork",
        _LINE,
        lambda r: _once_then_words(r) if r.state == "second" else words(),
        forks=True,
    ),
    flow(
        "two_questions",
        _ONE,
        lambda r: words() if results(r) else asks("One?", "Two?"),
        steps=(Step(when=asked, text="to one"), Step(when=asked, text="to two")),
    ),
    flow(
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
    _compacted(),
    *OF_STATES,
    *OF_BRANCHES,
    *OF_TASKS,
)

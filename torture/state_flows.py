"""Flows of states that need no script: calls of their own, questions, times, errors."""

from midstream.language.errors import WorldTrouble
from midstream.runtime.ports import ModelRequest
from torture.flow_kit import (
    BACK,
    VERIFY,
    Flow,
    Reply,
    Step,
    asked,
    flow,
    in_call,
    tool_state,
    words,
)


def _failing(request: ModelRequest) -> Reply:
    if request.state == "start":
        raise WorldTrouble("The model is out.")
    return words()


def _endless_once(request: ModelRequest) -> Reply:
    return words() if request.state == "late" else None


OF_STATES: tuple[Flow, ...] = (
    flow(
        "tool_states",
        [
            tool_state("start", "look", "look-1", next="send"),
            tool_state("send", "send", "send-1", save_as="sent", next="write"),
            tool_state("write", "write", "write-1", next="stop"),
            VERIFY,
            BACK,
        ],
        lambda r: words(),
    ),
    flow(
        "tool_state_halted",
        [tool_state("start", "slow", "slow-1", next="stop"), VERIFY, BACK],
        lambda r: words(),
        steps=(Step(when=in_call, text="stop that"),),
    ),
    flow(
        "asking_state",
        [
            {"name": "start", "ask": {"question": "Which?"}, "save_as": "out", "next": "say"},
            {"name": "say", "agent": "a", "prompt": "${common_data.out}", "next": "stop"},
            BACK,
        ],
        lambda r: words(),
        steps=(Step(when=asked, text="the first"),),
    ),
    flow(
        "deadline_and_wait",
        [
            {
                "name": "start",
                "ask": {
                    "question": "Which?",
                    "deadline_s": 0.02,
                    "on_timeout": "goto",
                    "to": "pause",
                },
                "next": "stop",
            },
            {"name": "pause", "wait": 0.02, "next": "late"},
            {"name": "late", "agent": "a", "prompt": "Late.", "next": "stop"},
        ],
        lambda r: words(),
        passes=("pause", "late"),
    ),
    flow(
        "retry_and_catch",
        [
            {
                "name": "start",
                "agent": "a",
                "prompt": "Try.",
                "retry": {"max_attempts": 3, "backoff_s": 0.01},
                "catch": [{"on": ["model"], "to": "sorry"}],
            },
            {"name": "sorry", "agent": "a", "prompt": "Sorry.", "next": "stop"},
        ],
        _failing,
        passes=("sorry",),
    ),
    flow(
        "timeout",
        [
            {
                "name": "start",
                "agent": "a",
                "timeout_s": 0.05,
                "catch": [{"on": ["timeout"], "to": "late"}],
            },
            {"name": "late", "agent": "a", "prompt": "Late.", "next": "stop"},
        ],
        _endless_once,
        passes=("late",),
    ),
)

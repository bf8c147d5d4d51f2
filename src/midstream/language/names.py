"""The words every room shares: special state names, policies, outcomes and ids.

Each is a plain string on the wire; the `Literal` types below are the whole vocabulary.
"""

import re
from typing import Any, Final, Literal, TypeAlias

START: Final = "start"
STOP: Final = "stop"
RESUME: Final = "resume"
INTERRUPTED: Final = "$interrupted"
"""As a transition target: the state that was cut by the last unasked input."""

REQUEST_USERS_INPUT: Final = "request_users_input"
"""The one tool that is never executed: it parks its call until a person answers."""

TOOL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What every provider takes as the name of a tool. Some take more: dots, or a digit to begin with."""

TOOL_NAME_RULE: Final = "up to 64 of A-Z a-z 0-9 _ -, the first a letter or _"

UNTYPABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
"""What no name of a role, state, agent or context may have."""

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list or dict with string keys."""

Effect: TypeAlias = Literal["read", "idempotent", "once"]
"""What a repeated tool call would do: nothing, the same again, or harm."""

Policy: TypeAlias = Literal["interrupt", "steer", "queue", "reject"]
"""What unasked words do to a running state (`on_input` in a workflow file)."""

Disposition: TypeAlias = Literal[
    "answered", "interrupted", "steered", "queued", "rejected", "withdrawn"
]
"""What became of a line the user typed. Every line ends in exactly one."""

Outcome: TypeAlias = Literal["completed", "failed", "denied", "not_run", "stopped", "unknown"]
"""How a tool call ended. `unknown`: it may or may not have happened; nothing repeats it."""

Subject: TypeAlias = Literal["", "budget"]
"""What a question is about that no agent and no state asks: a budget that is used up."""

QuestionKind: TypeAlias = Literal["question", "approval", "input"]
"""An agent's question, a tool call to approve, or a state that waits for the user's words."""

Phase: TypeAlias = Literal[
    "new",
    "waiting",
    "pre",
    "turn",
    "call",
    "asking",
    "resting",
    "branches",
    "retrying",
    "post",
    "transition",
    "leaving",
    "halting",
    "held",
    "ended",
]
"""What a run is at in its state. See `midstream.core.run`."""

ErrorKind: TypeAlias = Literal[
    "model",
    "tool",
    "handler",
    "output",
    "template",
    "timeout",
    "deadline",
    "denied",
    "budget",
    "max_visits",
    "branch",
    "workflow",
    "any",
]
"""What may go wrong in a state, as `retry` and `catch` name it. `any` stands for each of them."""

Slot: TypeAlias = Literal["pre_handler", "post_handler", "transition_handler"]

Fault: TypeAlias = Literal["author", "user", "world", "bug"]
"""Whose move an error is. See `midstream.language.errors`."""

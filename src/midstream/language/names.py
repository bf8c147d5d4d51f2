"""The words all packages share: special state names, policies, outcomes, and the mode.

Each is a plain string on the wire; the `Literal` types below are the whole vocabulary.
"""

import re
from typing import Any, Final, Literal, TypeAlias

import msgspec

from midstream.language.errors import UserMistake, nearest

START: Final = "start"
STOP: Final = "stop"
RESUME: Final = "resume"
INTERRUPTED: Final = "$interrupted"
"""As a transition target: the state that was cut by the last unasked input."""

REQUEST_USERS_INPUT: Final = "request_users_input"
"""The tool by which an agent asks: it parks its call until a person answers."""

DELEGATE: Final = "delegate"
"""The tool by which an agent has a task done in another role: its call is a branch of the run."""

LOAD_SKILL: Final = "load_skill"

RUN_WORKFLOW: Final = "run_workflow"
"""The tool by which an agent runs a workflow: once that is found, its call is a branch of the run."""

OPEN_WORKTREE: Final = "open_worktree"
JOIN_WORKTREE: Final = "join_worktree"
"""The calls a branch with a git worktree of its own begins and ends with. No agent is offered them."""

IN_WORKTREE: Final = "$worktree"
"""The state such a branch begins in."""

CONFLICT: Final = "conflict"
"""The kind of error where what was changed in a worktree could not be merged, or was not to be."""

PROPOSE_PLAN: Final = "propose_plan"
"""The tool by which an agent proposes a plan: it parks its call until a person approves or rejects it."""

EXTERNAL_CALL: Final = "external_agent_call"
"""What calls that external agents make themselves are judged as. No agent is offered it."""

EXTERNAL_LOOKS: Final = ("read", "search", "fetch", "think")
EXTERNAL_KINDS: Final = (
    *EXTERNAL_LOOKS,
    *("edit", "delete", "move", "execute", "switch_mode", "other"),
)
"""What kinds of calls there are of those that external agents make themselves; the first change nothing."""

NEVER_RUN: Final = frozenset({REQUEST_USERS_INPUT, PROPOSE_PLAN, DELEGATE, RUN_WORKFLOW})
"""The tools whose calls are something else, a question or a branch, which is what is shown of them."""

TOOL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What every provider takes as the name of a tool. Some take more: dots, or a digit to begin with."""

TOOL_NAME_RULE: Final = "up to 64 of A-Z a-z 0-9 _ -, the first a letter or _"

UNTYPABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
"""What no name of a role, state, agent or context may have."""

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list or dict with string keys."""


def is_number(value: Json) -> bool:
    """Return whether a JSON value is a number: true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_same(one: Json, other: Json) -> bool:
    """Return whether two JSON values are the same: 1 and 1.0 are, 1 and true are not."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


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

Subject: TypeAlias = Literal["", "budget", "plan"]
"""What a question is about beside what was asked: a budget that is used up, or a plan to approve."""

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
    "agent",
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
    "conflict",
    "any",
]
"""What may go wrong in a state, as `retry` and `catch` name it. `any` stands for each of them."""

AGENT_PRESETS: Final = ("claude", "codex", "gemini", "opencode", "qwen")
"""External agents that are known by name, as `acp` of an agent gives it; any other is given by its argv."""

Effort: TypeAlias = Literal["low", "medium", "high"]
"""How hard a model is to think before it replies."""

EFFORTS: Final[tuple[Effort, ...]] = ("low", "medium", "high")

Slot: TypeAlias = Literal["pre_handler", "post_handler", "transition_handler"]

# --- a workflow in a Python file -----------------------------------------------------------------

_PYTHON_FILE: Final = re.compile(r"(.+\.py)(?::([^:]*))?")


def python_file(workflow: str) -> tuple[str, str] | None:
    """Return the file and the name in it, "" for none, that `FILE.py:NAME` or `FILE.py` stands for.

    None: it is the name of a workflow that is looked for.
    """
    found = _PYTHON_FILE.fullmatch(workflow)
    return None if found is None else (found[1], found[2] or "")


# --- the mode: whom a line without a slash speaks to, one value, written `type:name` ---------------

ModeKind: TypeAlias = Literal["role", "workflow"]

_KINDS: tuple[ModeKind, ...] = ("role", "workflow")
_MAX_SHOWN = 80
_BAD_IN_NAME = re.compile(r"[\x00-\x1f\x7f/\\]")
_MAX_PATH = 1000
_BAD_IN_PATH = re.compile(r"[\x00-\x1f\x7f]")
_EXAMPLES = "Write role:NAME or workflow:NAME, such as role:dude."


CHAT: Final = "role:"
"""How the mode of every chat begins."""


def mode_words(mode: str, *, beside: str = "") -> str:
    """Return a mode as a person calls it; a chat's role is left out `beside` words that name it."""
    role = mode.removeprefix(CHAT)
    if role == mode:
        return mode
    return "chat" if role in beside.split() else f"chat with {role}"


class Mode(msgspec.Struct, frozen=True):
    """A chat with a role, or an active workflow. `str(mode)` gives the form `Mode.parse` reads."""

    kind: ModeKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Mode":
        """Return the mode a text such as `role:dude` names. Whether it exists is not looked at.

        Raises:
            UserMistake: the text is not of the form `type:name`.
        """
        kind_text, colon, name = text.strip().partition(":")
        shown = repr(text[:_MAX_SHOWN])
        if not colon:
            raise UserMistake(f"{shown} is not a mode.", hint=_hint_without_type(kind_text))
        kind = next((known for known in _KINDS if known == kind_text), None)
        if kind is None:
            best = nearest(kind_text, _KINDS)
            meant = f"Did you mean {f'{best}:{name}'!r}?" if best and name else _EXAMPLES
            raise UserMistake(
                f"{shown} is not a mode: no type {kind_text[:_MAX_SHOWN]!r}.", hint=meant
            )
        is_file = kind == "workflow" and python_file(name) is not None
        longest, bad = (_MAX_PATH, _BAD_IN_PATH) if is_file else (_MAX_SHOWN, _BAD_IN_NAME)
        if not name or name != name.strip() or len(name) > longest or bad.search(name):
            raise UserMistake(
                f"{shown} is not a mode: {name[:_MAX_SHOWN]!r} cannot be a name.", hint=_EXAMPLES
            )
        return cls(kind, name)


def _hint_without_type(name: str) -> str:
    if not name or len(name) > _MAX_SHOWN or _BAD_IN_NAME.search(name):
        return _EXAMPLES
    return f"Did you mean 'role:{name}' or 'workflow:{name}'?"

"""A rehearsal as a file: what happened to a run from outside, in order, and what came of it.

A person can read and edit it. `steps` are what models, tools and people did; what the workflow itself
does (its handlers, its transitions) is not in it: that is what is being tested. `expected` is what
the run came to when it was recorded. What is left out of it, or of a step's `seen`, is not compared.
"""

import hashlib
import re
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.core.conversation import Message
from midstream.core.proposal import Onwards
from midstream.language.errors import AuthorMistake
from midstream.language.json_text import parse
from midstream.language.names import Json, Outcome, Policy
from midstream.language.spec import Budget

FORMAT: Final = 1
"""The format of the rehearsals written by this version."""


class Step(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="what",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """The base of every step. Never made itself.

    `after_handlers`: it happened while a handler was at work, so many after the step before; None: it
    happened when no handler was. `branch` is where in the run it happened: "" for the run itself, else
    a branch such as `tests`, or `tests/inner` for one within it. `after_s`: seconds since the run began,
    told of words, and of all where a budget counts minutes.
    """

    after_handlers: int | None = None
    branch: str = ""
    after_s: float = 0.0


class Called(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A tool call of a model's reply. `problem` says why its arguments could not be used."""

    name: str
    arguments: dict[str, Json] = {}
    problem: str = ""


class ModelReplied(Step, frozen=True, kw_only=True, omit_defaults=True, tag="model_replied"):
    """An agent's model replied. `seen` is the digest of the messages it was shown."""

    agent: str
    state: str
    text: str = ""
    calls: tuple[Called, ...] = ()
    seen: str = ""


class ModelFailed(Step, frozen=True, kw_only=True, omit_defaults=True, tag="model_failed"):
    """An agent's request failed for good, after the words in `shown` or in a call (`calling`, its name)."""

    agent: str
    state: str
    error: str
    hint: str = ""
    shown: str = ""
    calling: bool | str = False
    seen: str = ""


class ToolReturned(Step, frozen=True, kw_only=True, omit_defaults=True, tag="tool_returned"):
    """A tool call ended."""

    tool: str
    arguments: dict[str, Json] = {}
    outcome: Outcome = "completed"
    result: str = ""
    note: str = ""


class ToolEnded(Step, frozen=True, kw_only=True, omit_defaults=True, tag="tool_ended"):
    """A tool call had changed what it was to change, and began to look at what came of it."""

    tool: str
    arguments: dict[str, Json] = {}
    outcome: Outcome = "completed"
    result: str = ""


class UserSaid(Step, frozen=True, kw_only=True, omit_defaults=True, tag="user_said"):
    """A person said something nobody had asked, or what a state waited for.

    `shown` is what they had seen of a reply, `shown_in` of the replies in branches; with `calling` the
    model had begun to ask for a tool, of that name if it is known.
    `policy` is what they chose instead of the state's own.
    """

    text: str
    state: str = ""
    policy: Policy | None = None
    shown: str = ""
    shown_in: dict[str, str] = {}
    calling: bool | str = False
    source: str = "user"


class UserAnswered(Step, frozen=True, kw_only=True, omit_defaults=True, tag="user_answered"):
    """A person answered the open question of that text."""

    question: str
    text: str
    source: str = "user"


class UserDecided(Step, frozen=True, kw_only=True, omit_defaults=True, tag="user_decided"):
    """A person allowed or refused a tool call, or allowed it with other arguments (`edited`).

    `mode` is the one a plan is carried out in.
    `asks` are the capabilities it needed, `shows` what they saw of it and `why` they were asked.
    """

    tool: str
    arguments: dict[str, Json] = {}
    granted: bool
    for_run: bool = False
    note: str = ""
    edited: dict[str, Json] | None = None
    mode: Onwards = "ask"
    asks: tuple[str, ...] = ()
    shows: str = ""
    why: str = ""


class UserRevoked(Step, frozen=True, kw_only=True, omit_defaults=True, tag="user_revoked"):
    """A person took back what they had granted for the rest of the run."""

    permission: str


class UserHalted(Step, frozen=True, kw_only=True, omit_defaults=True, tag="user_halted"):
    """A person stopped the turn (Esc), having seen `shown` of a reply, `shown_in` of those in branches."""

    shown: str = ""
    shown_in: dict[str, str] = {}


class UserStopped(Step, frozen=True, kw_only=True, omit_defaults=True, tag="user_stopped"):
    """A person ended the run."""

    reason: str
    shown: str = ""
    shown_in: dict[str, str] = {}


class UserWithdrew(Step, frozen=True, kw_only=True, omit_defaults=True, tag="user_withdrew"):
    """A person took back words that had not been delivered."""

    text: str


class UserResumed(Step, frozen=True, kw_only=True, omit_defaults=True, tag="user_resumed"):
    """A person let a suspended run go on."""


class UserCompacted(Step, frozen=True, kw_only=True, omit_defaults=True, tag="user_compacted"):
    """A person had the older turns summarised. The summary is what the model says in `$summary`."""

    note: str = ""
    room: int = 0


class UserRenamed(Step, frozen=True, kw_only=True, omit_defaults=True, tag="user_renamed"):
    """A person gave the run a name."""

    name: str


class UserEditedTodo(Step, frozen=True, kw_only=True, omit_defaults=True, tag="user_edited_todo"):
    """A person changed the todo list, as in `edit`: `add WORDS`, `done N` or `drop N`."""

    edit: str


class TimeCame(Step, frozen=True, kw_only=True, omit_defaults=True, tag="time_came"):
    """A time came that a state waited for.

    `timer` says which: `wait` (its pause is over), `retry` (it is tried again), `deadline` (of its
    question) or `timeout` (of the state; `shown` is what had been seen of a reply then).
    """

    state: str
    timer: str
    shown: str = ""
    shown_in: dict[str, str] = {}


class ProcessChanged(Step, frozen=True, kw_only=True, omit_defaults=True, tag="process_changed"):
    """Another process went on with the run. `was_cut`: the one before had died.

    `shown` is what was kept of a reply that streamed then, `shown_in` of those in branches.
    """

    was_cut: bool = False
    shown: str = ""
    shown_in: dict[str, str] = {}


AnyStep: TypeAlias = (
    ModelReplied
    | ModelFailed
    | ToolReturned
    | ToolEnded
    | UserSaid
    | UserAnswered
    | UserDecided
    | UserRevoked
    | UserHalted
    | UserStopped
    | UserWithdrew
    | UserResumed
    | UserCompacted
    | UserRenamed
    | UserEditedTodo
    | TimeCame
    | ProcessChanged
)


class Expected(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What a run came to: the states it entered, every context's messages, its end and output.

    `branches` are the states that its branches entered, by their paths. What is not there is not
    compared; `contexts` may name some only. `is_midway`: the recording ends while a handler was at
    work, so only the states before are compared.
    """

    status: Literal["running", "finished", "failed", "stopped"] | None = None
    states: tuple[str, ...] | None = None
    branches: dict[str, tuple[str, ...]] = {}
    output: Json | msgspec.UnsetType = msgspec.UNSET
    error: str = ""
    contexts: dict[str, tuple[Message, ...]] = {}
    is_midway: bool = False


class Rehearsal(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A run to be played again: how it was started, what happened, what came of it."""

    rehearsal: int
    workflow: str
    input: Json = None
    variables: dict[str, Json] = {}
    allowed: tuple[str, ...] = ()
    approvals: Literal["ask", "deny"] = "ask"
    limits: Budget | None = None
    steps: tuple[AnyStep, ...]
    expected: Expected


class _Head(msgspec.Struct, frozen=True):
    rehearsal: int


_DECODER = msgspec.json.Decoder(Rehearsal, strict=True)


def encoded(rehearsal: Rehearsal) -> bytes:
    """Return the rehearsal as indented JSON, in UTF-8, with a line end."""
    return msgspec.json.format(msgspec.json.encode(rehearsal), indent=2) + b"\n"


def decoded(data: bytes, *, file: str = "the rehearsal") -> Rehearsal:
    """Return the rehearsal of a file's bytes.

    Raises:
        AuthorMistake: it is no rehearsal this version can read; the message says where it is wrong.
    """
    data = _plain(data)
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise AuthorMistake(
            f"{file} is no rehearsal: {error}.",
            hint='One is a JSON object that begins with {"rehearsal": 1, "workflow": "NAME", ...}.',
        ) from error
    if head.rehearsal != FORMAT:
        raise AuthorMistake(
            f"{file} has the format {head.rehearsal}; this midstream reads format {FORMAT}.",
            hint="Use the midstream that wrote it, or record it again.",
        )
    try:
        rehearsal: Rehearsal = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise AuthorMistake(
            f"{file} cannot be read: {error}.",
            hint="docs/rehearsals.md shows what each step holds; or record it again.",
        ) from error
    return rehearsal


def _plain(data: bytes) -> bytes:
    """Return a file's bytes without the comments and commas people leave in what they write."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # What is no UTF-8 is not read over here: the reader behind says where it stands.
        text = data.decode("utf-8", "ignore")
        parsed = parse(text, max_chars=len(text))
        if parsed.root is not None and not parsed.flaws and text.encode() == data:
            return msgspec.json.encode(parsed.root.value)
    return data


_PLACE = re.compile(r" ?\([^\s(]*\.py:\d+\)")


def without_places(error: str) -> str:
    """Return why a run failed without the places in files, which are others on every machine."""
    return _PLACE.sub("", error)


def digest(messages: tuple[Message, ...]) -> str:
    """Return a short digest of messages, for a step's `seen`."""
    return hashlib.sha256(msgspec.json.encode(messages)).hexdigest()[:12]

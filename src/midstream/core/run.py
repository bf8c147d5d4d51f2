"""A run as one value: all that is true of it after the facts so far.

A run moves through its states by phases. Which phases a state has is read off its spec
(`core.spec.flow_of`); which one stands now decides what the run is owed (`midstream.core.pending`):

    waiting   for the user's words (`awaits_input`, or the input of the workflow)
    pre       the pre_handler runs
    turn      the agent's turn: one model request, or its tool calls, at a time
    post      the post_handler runs
    transition  the transition_handler runs
    leaving   nothing is left to do here: `chosen` is where to go
    halting   unasked words or a stop came; `once` tools that run are being stopped
    held      a bare stop came; the next words of the user say what to do
    ended     finished, failed or stopped
"""

from typing import Literal, TypeAlias

import msgspec

from midstream.core.conversation import Message, ToolCall
from midstream.core.events import Usage
from midstream.core.names import Disposition, Effect, Json, Outcome, Phase, Policy
from midstream.core.question import Question
from midstream.core.spec import Definition, Plan

Status: TypeAlias = Literal["running", "finished", "failed", "stopped"]


class OpenCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call of the current reply. `parked` waits for a person; `stopping` for its tool."""

    call: ToolCall
    effect: Effect
    status: Literal["new", "parked", "running", "stopping", "done"] = "new"
    outcome: Outcome = "not_run"
    result: str = ""


class Correction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A reply in words that could not be used, and what the model was told of it.

    Nobody but the agent sees it, and only in this turn. `after` is the message its context ended
    with then (None: it was empty): what joins the context later stands behind the correction.
    """

    text: str
    problem: str
    after: Message | None = None


class Turn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An agent's turn under way: either request number `request` is owed, or `calls` are open.

    `misses` counts the unusable replies, those with unusable calls included.
    """

    agent: str
    request: int = 1
    text: str = ""
    calls: tuple[OpenCall, ...] = ()
    corrections: tuple[Correction, ...] = ()
    misses: int = 0


class Cut(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a halt cut the run: `$interrupted` goes on from there.

    `phase` None: the state had not been entered yet. `request` is the model request the turn goes on
    with: the tool calls of the ones before it have their results and are not made again.
    """

    state: str
    phase: Phase | None = None
    request: int = 1
    last_response: "Response | None" = None


class Response(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The last reply that ended a turn: what `run.last_response` shows a handler."""

    agent: str
    text: str
    calls: tuple[ToolCall, ...] = ()


class InputRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of the user in the run's inbox. `disposition` None: not yet delivered."""

    id: str
    text: str
    handling: Literal["answer"] | Policy
    reason: str = ""
    disposition: Disposition | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything that is true of a run. Made by `apply` alone; never changed in place.

    `step` grows with every transition and makes effect keys unique; `epoch` grows with every halt.
    `halting_for` is what a halt leads to once the running `once` tools have stopped.
    `cuts` are the halts nobody has gone back to (`$interrupted`), the last one last; a state stands in
    it once at most. `is_heard`: `resume_input` has reached a handler or a conversation.
    `open_questions` and `undelivered` are the parts of `questions` and `inbox` that still matter,
    kept apart so that a long chat costs no more a step than a short one. `last_number` is the
    highest number a question was given. `crashes` counts how often the process died since the run
    last made progress; `suspended` says why the run is owed nothing ("": it is not suspended).
    """

    id: str
    definition: Definition | None = None
    plan: Plan | None = None
    status: Status = "running"
    phase: Phase = "new"
    seq: int = 0
    epoch: int = 0
    step: int = 0
    calls_made: int = 0
    state: str = ""
    chosen: str | None = None
    chosen_by: str = ""
    visits: dict[str, int] = {}
    turn: Turn | None = None
    halting_for: Literal["", "words", "hold", "stop"] = ""
    stop_reason: str = ""
    contexts: dict[str, tuple[Message, ...]] = {}
    common_data: dict[str, Json] = {}
    variables: dict[str, Json] = {}
    input: Json = None
    last_response: Response | None = None
    resume_input: str | None = None
    is_heard: bool = True
    interrupted_state: str | None = None
    cuts: tuple[Cut, ...] = ()
    questions: tuple[Question, ...] = ()
    open_questions: tuple[Question, ...] = ()
    last_number: int = 0
    inbox: dict[str, InputRecord] = {}
    undelivered: tuple[InputRecord, ...] = ()
    interrupted_at: tuple[float, ...] = ()
    allowed: tuple[str, ...] = ()
    approvals: Literal["ask", "deny"] = "ask"
    usages: tuple[tuple[str, Usage], ...] = ()
    output: Json = None
    error: str = ""
    workspace: str = ""
    crashes: int = 0
    suspended: str = ""

    @property
    def is_over(self) -> bool:
        """Return whether the run has ended, in whatever way."""
        return self.phase == "ended"

    @property
    def is_parked(self) -> bool:
        """Return whether only a person can move the run on: nothing of it is in flight."""
        if self.phase in ("waiting", "held") or self.suspended:
            return True
        if self.phase != "turn" or self.turn is None or not self.turn.calls:
            return False
        return all(call.status in ("parked", "done") for call in self.turn.calls)


def definition_of(run: Run) -> Definition:
    """Return the definition the run is pinned to; only a run that has started has one."""
    assert run.definition is not None, "the run has not started"
    return run.definition


def plan_for(run: Run) -> Plan:
    """Return the run's definition with its names looked up."""
    assert run.plan is not None, "the run has not started"
    return run.plan

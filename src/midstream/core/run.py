"""A run as one value: all that is true of it after the facts so far.

A run moves through its states by phases. Which phases a state has is read off its spec
(`language.plan.flow_of`); which one stands now decides what the run is owed (`midstream.core.pending`):

    waiting   for the user's words (`awaits_input`, or the input of the workflow)
    pre       the pre_handler runs
    turn      the agent's turn: one model request, or its tool calls, at a time
    post      the post_handler runs
    transition  the transition_handler runs
    call      the state's tool is called, without a model
    asking    the state's question is open
    resting   the state waits for a time
    branches  runs within the run are under way
    retrying  something went wrong and is tried again after a while
    leaving   nothing is left to do here: `chosen` is where to go
    halting   unasked words or a stop came; `once` tools that run are being stopped
    held      a bare stop came; the next words of the user say what to do
    ended     finished, failed or stopped
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from midstream.core.conversation import Message, ToolCall
from midstream.core.events import ToolEnded, Usage
from midstream.core.pictures import Picture
from midstream.core.question import Question
from midstream.core.todo import Todo
from midstream.language.errors import Fault
from midstream.language.names import (
    IN_WORKTREE,
    START,
    Disposition,
    Effect,
    ErrorKind,
    Json,
    Outcome,
    Phase,
    Policy,
)
from midstream.language.plan import NO_PLAN, Plan
from midstream.language.spec import Ask, Budget, Definition

Status: TypeAlias = Literal["running", "finished", "failed", "stopped"]


FREE: Final[tuple[Phase, ...]] = ("pre", "post", "transition", "resting")
"""The phases that ask no model, call no tool and wait for nobody."""


AROUND: Final[tuple[Phase, ...]] = ("branches", "turn")
"""The phases in which branches of the run may be at work."""


class OpenCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call of the current reply. `parked` waits for a person; `stopping` for its tool.

    A `new` one waits for its turn (`Turn.due`), or is being reviewed. `granted` is what a person granted
    to it; `edited` are the arguments it runs with instead of its own, where the person changed them, and
    `hooked` those a hook changed them to after that. `added` is what hooks add to its result. `ended` is
    how it has ended where only hooks are yet to have their say.
    """

    call: ToolCall
    effect: Effect
    status: Literal["new", "parked", "running", "stopping", "done"] = "new"
    outcome: Outcome = "not_run"
    result: str = ""
    pictures: tuple[Picture, ...] = ()
    granted: tuple[str, ...] = ()
    edited: dict[str, Json] | None = None
    hooked: dict[str, Json] | None = None
    added: tuple[str, ...] = ()
    ended: ToolEnded | None = None

    @property
    def arguments(self) -> dict[str, Json]:
        """Return what it runs with."""
        return self.asked if self.hooked is None else self.hooked

    @property
    def asked(self) -> dict[str, Json]:
        """Return what it would run with if there were no hooks."""
        return self.call.arguments if self.edited is None else self.edited


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

    `misses` counts the unusable replies, those with unusable calls included. `agent` is "" where the
    state itself calls a tool. `is_prompted`: the state's prompt stands in the conversation. `shown` is
    what is known to have been seen of the reply that streams, `so_far` what its request had used by then,
    `calling` the tools it had begun to ask for, `breaks` how often one broke off by itself.

    Of an external agent `prompted` says that it is at work on a prompt, and `external` are the calls it
    has made itself since. While it is being halted, `text` is what had been shown of its reply.
    """

    agent: str
    request: int = 1
    text: str = ""
    calls: tuple[OpenCall, ...] = ()
    corrections: tuple[Correction, ...] = ()
    misses: int = 0
    is_prompted: bool = False
    shown: str = ""
    so_far: Usage | None = None
    calling: str = ""
    breaks: int = 0
    prompted: bool = False
    external: tuple[OpenCall, ...] = ()

    @property
    def due(self) -> tuple[OpenCall, ...]:
        """Return the calls whose turn has come and that have not ended, in the model's order.

        Neighbours that only read go side by side. One that changes or runs something waits until all
        before it have ended, and all after it wait for it: a model writes the calls of a reply as a
        list, and means the file it reads in the third to be the one it wrote in the first. A question
        to the person is one that reads: what changes something after it waits for the answer.
        """
        due: list[OpenCall] = []
        for call in self.calls:
            if call.status == "done":
                continue
            changes = call.effect != "read"
            if not (changes and due):
                due.append(call)
            if changes:
                break
        return tuple(due)

    @property
    def next_new(self) -> OpenCall | None:
        """Return the call that is to begin next, None if none is yet. One at a time: so are their cards."""
        return next((call for call in self.due if call.status == "new"), None)


class Span(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a visit to a state used before it was cut: the run's usages from `start` to `end`, how many
    tool calls, and seconds at work.
    """

    start: int
    end: int
    tool_calls: int
    active_s: float = 0.0


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing a branch changed of `common_data`: the value at a path in it, or that it is gone."""

    path: tuple[str, ...]
    value: Json = None
    is_gone: bool = False


class Trouble(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What went wrong in a state, of which kind, and whose move it is.

    `is_unsure`: the state's own `once` call was stopped over it, and may have had its effect.
    """

    kind: ErrorKind
    error: str
    hint: str = ""
    fault: Fault = "world"
    is_unsure: bool = False


class Response(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The last reply that ended a turn: what `run.last_response` shows a handler.

    `value` is what the work of a state without an agent came to, or a structured reply.
    """

    agent: str
    text: str
    calls: tuple[ToolCall, ...] = ()
    value: Json = None


class Visit(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One stay in a state, from its transition to the next one. A halt keeps it as it was: a cut.

    `step` grows with every transition and makes effect keys unique. `branches` are the runs within, by
    name, in their order. `timers` are the times (seconds since 1970) the state waits for, by name.
    `attempts` counts how often the state was tried again, `trouble` is what went wrong last;
    `retry_phase` is the phase it went wrong in. `budget_baseline` is where budgets of the state begin:
    model requests, tool calls and seconds before it; `usage` is what the visit used before it was cut.

    Of a cut, phase `new` means that the state had not been entered yet. Its `turn` holds what outlasts the
    halt and no more: which request the turn goes on with (the tool calls of the ones before it have their
    results and are not made again), or the state's own call that may have had its effect.
    """

    state: str = ""
    step: int = 0
    phase: Phase = "new"
    chosen: str | None = None
    chosen_by: str = ""
    turn: Turn | None = None
    attempts: int = 0
    trouble: Trouble | None = None
    retry_phase: Phase = "leaving"
    timers: dict[str, float] = {}
    branches: "dict[str, Run]" = {}
    budget_baseline: tuple[int, int, float] = (0, 0, 0.0)
    usage: tuple[Span, ...] = ()
    last_response: Response | None = None

    @property
    def replying(self) -> Turn | None:
        """Return the turn in which a reply of the model is owed, or streams; None if none is."""
        return self.turn if self.phase == "turn" and self.turn and not self.turn.calls else None

    @property
    def call_in_doubt(self) -> OpenCall | None:
        """Return, of a cut, the state's own call that may have had its effect, None if there is none."""
        if self.turn is None or self.turn.agent or not self.turn.calls:
            return None
        return self.turn.calls[0]


class Session(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The conversation that an external agent keeps itself, by the `id` it has there; `run` began it.

    `unheard` counts the messages at the end of its context that no whole reply of it has answered. Those
    are told (again) with the next prompt: an agent may forget what it was cut in. The first `told` of
    them are in the prompt under way.
    """

    id: str
    run: str
    unheard: int
    told: int = 0


class Halt(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """How a run was halted, and what for.

    `epoch` grows with every halt. `leads_to` is what follows once the running `once` tools have stopped,
    "" while nothing is halted. `cuts` are the visits nobody has gone back to (`$interrupted`), the last
    one last; a state stands in it once at most. `is_heard`: `resume_input` has reached a handler or a
    conversation.
    """

    epoch: int = 0
    leads_to: Literal["", "words", "hold", "stop", "trouble"] = ""
    reason: str = ""
    cuts: tuple[Visit, ...] = ()
    resume_input: str | None = None
    is_heard: bool = True
    interrupted_state: str | None = None


class InputRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A line of the user in the run's inbox. `disposition` None: not yet delivered.

    `to` is the branch it is meant for, "" for the run itself.
    """

    id: str
    text: str
    handling: Literal["answer"] | Policy
    reason: str = ""
    disposition: Disposition | None = None
    to: str = ""


class Compacting(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A summary that is being written: of which messages at the beginning of a context, by whom."""

    number: int
    agent: str
    context: str
    replaced: tuple[Message, ...]
    note: str = ""


class Inbox(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a person said to the run, and what it asked them.

    `undelivered` and `open_questions` are the parts of `lines` (by their ids) and `questions` that still
    matter, kept apart so that a long chat costs no more a step than a short one. What is open inside of
    branches stands in the inbox of the run around them, too. `last_number` is the highest number a
    question was given, `interrupted_at` when (seconds since 1970) the last words came that interrupted.
    """

    lines: Mapping[str, InputRecord] = {}
    undelivered: tuple[InputRecord, ...] = ()
    questions: Sequence[Question] = ()
    open_questions: tuple[Question, ...] = ()
    last_number: int = 0
    interrupted_at: tuple[float, ...] = ()


class RunUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a run used, its branches included, and what it may use.

    `requests` are its model requests: who made it, and what it used. `calls_made` counts the tool calls
    that were planned and gives them their ids, `tool_calls` those that were made. `active_s` are the
    seconds at work where a budget counts minutes (`core.decide.budgets`). `limits` is what it may use,
    whatever its workflow says; every budget counts `budget_times` (0: none counts); `is_over_budget`: it
    waits for one to be raised.
    """

    requests: Sequence[tuple[str, Usage]] = ()
    tool_calls: int = 0
    calls_made: int = 0
    active_s: float = 0.0
    limits: Budget | None = None
    budget_times: int = 1
    is_over_budget: bool = False


class BranchOf(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What makes a run a branch of the one around it; of the run itself it is empty.

    `path` is where in the whole it stands (`reviewers/tests`), "" for the run itself; `entry` is
    the state it begins at; `shared` names the contexts it has in common with the run around it;
    `flows` is the sub-workflow it belongs to (`inner`, `inner/deeper`), "" for the run's own;
    `has_resume`: words to it may lead to its own state `resume`. `base` is the `common_data` it began
    with (None: it began with none of the run around it), `changes` what it had changed of that when it
    finished; one that has ended keeps little else. One with a `call_id` is what that call of the agent
    `caller` is: a task in a `role`, or a workflow, where that is "". `worktrees` are the git worktrees it
    works in, the innermost last: its own, if its `entry` says so, and those of what is around it.
    `unjoined` says why what it changed in its own was not merged.
    """

    path: str = ""
    entry: str = START
    shared: tuple[str, ...] = ()
    flows: str = ""
    has_resume: bool = False
    base: dict[str, Json] | None = None
    changes: tuple[Change, ...] = ()
    call_id: str = ""
    role: str = ""
    caller: str = ""
    worktrees: tuple[str, ...] = ()
    unjoined: str = ""

    @property
    def has_worktree(self) -> bool:
        """Return whether it has a git worktree of its own."""
        return self.entry == IN_WORKTREE


class BackgroundCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A command that an agent's call began and that went on after it; see `core.background`.

    `is_lost`: another process ran it, so that how it ended is not known.
    """

    handle: str
    line: str
    agent: str = ""
    is_lost: bool = False


class Run(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Everything that is true of a run. Made by `apply` alone; never changed in place.

    `plan` is the definition with its names looked up, empty before the run has started.
    `visit` is where it is, `visits` how often it was in each state, `halt` how it was halted.
    What grows with every turn is a `Log` or a `Book` (`core.append_only`) once it has grown.
    `crashes` counts how often the process died since the run
    last made progress; `suspended` says why the run is owed nothing ("": it is not suspended).

    A branch is a run within a run, among the `branches` of a visit; `branch` is what makes it one.

    `name` is what a person calls the run, "" if nothing. `compacting` is the summary of older turns
    that is being written, `compactions` how many were begun. `todo` is the list its agents keep; a branch
    has its own. `modes` are the permission modes its agents were told of last, by context, while that
    matters; `below` the AGENTS.md of folders they were told, by context and path, with their lengths.
    `background` are the commands it began that go on, as far as its calls say. `pictures` are those a
    person has shown it, by what marks in words call them (`core.pictures`). `sessions` are those of its
    external agents, by their names; `manifest` is what the files held when one was last sent to work.
    """

    id: str
    definition: Definition | None = None
    plan: Plan = NO_PLAN
    status: Status = "running"
    seq: int = 0
    visit: Visit = Visit()
    visits: dict[str, int] = {}
    halt: Halt = Halt()
    contexts: dict[str, Sequence[Message]] = {}
    common_data: dict[str, Json] = {}
    variables: dict[str, Json] = {}
    input: Json = None
    inbox: Inbox = Inbox()
    usage: RunUsage = RunUsage()
    branch: BranchOf = BranchOf()
    allowed: tuple[str, ...] = ()
    hooked: tuple[str, ...] = ()
    approvals: Literal["ask", "deny"] = "ask"
    output: Json = None
    error: str = ""
    workspace: str = ""
    crashes: int = 0
    suspended: str = ""
    name: str = ""
    compacting: Compacting | None = None
    compactions: int = 0
    todo: Todo = Todo()
    modes: dict[str, str] = {}
    below: dict[str, dict[str, int]] = {}
    background: tuple[BackgroundCommand, ...] = ()
    pictures: dict[str, Picture] = {}
    sessions: dict[str, Session] = {}
    manifest: str = ""

    @property
    def is_over(self) -> bool:
        """Return whether the run has ended, in whatever way."""
        return self.visit.phase == "ended"

    @property
    def is_chat(self) -> bool:
        """Return whether the run is a chat with a role."""
        return self.definition is not None and self.definition.kind == "chat"

    @property
    def workflow_name(self) -> str:
        """Return the name of the run's workflow, `role:NAME` for a chat, "" before it has begun."""
        return "" if self.definition is None else self.definition.workflow.workflow_name

    @property
    def is_parked(self) -> bool:
        """Return whether only a person can move the run on: nothing of it is in flight."""
        if self.suspended:
            return True
        if self.compacting is not None:
            return False
        if self.visit.phase in ("waiting", "held"):
            return True
        if self.usage.is_over_budget and self.visit.phase in FREE:
            return True
        if (
            self.visit.phase in ("new", "ended", "leaving")
            or self.plan.states[self.visit.state].timeout_s is not None
        ):
            return False
        if self.visit.phase == "asking":
            return bool(self.inbox.open_questions) and not self._expires
        if self.visit.phase == "branches":
            living = [branch for branch in self.visit.branches.values() if not branch.is_over]
            is_begun = bool(living) or self.usage.is_over_budget
            return is_begun and all(branch.is_parked for branch in living)
        if self.usage.is_over_budget and self.visit.phase in ("turn", "call"):
            return True
        if (
            self.visit.phase not in ("turn", "call")
            or self.visit.turn is None
            or not self.visit.turn.calls
        ):
            return _is_asked_from_within(self.visit.turn)
        return all(
            call.status == "parked"
            or ((branch := branch_for(self, call)) is not None and branch.is_parked)
            for call in self.visit.turn.due
        )

    @property
    def _expires(self) -> bool:
        """Return whether the state's question closes by itself some time."""
        ask = self.plan.states[self.visit.state].ask
        return isinstance(ask, Ask) and ask.deadline_s is not None and ask.on_timeout != "wait"


def _is_asked_from_within(turn: Turn | None) -> bool:
    """Return whether an external agent at work does nothing before a person has allowed a call of it."""
    under_way = [] if turn is None else [call for call in turn.external if call.status != "done"]
    return bool(under_way) and all(call.status == "parked" for call in under_way)


_NEW: Final = Run(id="")


def new_run(id: str) -> Run:
    """Return a run that has not begun. What is empty in it is the same in all that are made so."""
    return replace(_NEW, id=id)


def definition_of(run: Run) -> Definition:
    """Return the definition the run is pinned to; only a run that has started has one."""
    assert run.definition is not None, "the run has not started"
    return run.definition


def branch_for(run: Run, call: OpenCall) -> Run | None:
    """Return the branch that an agent's call is, None where it is none."""
    for branch in run.visit.branches.values():
        if branch.branch.call_id == call.call.id:
            return branch
    return None


def question_of(inbox: Inbox, id: str) -> Question | None:
    """Return a question of the run or of a run within it, None if it asked none of that id.

    It is looked for from the end: those that matter were asked last.
    """
    return next((each for each in reversed(inbox.questions) if each.id == id), None)


def owner_of(run: Run, key: "tuple[int | str, ...]") -> Run:
    """Return the run or branch that is owed an effect."""
    while len(key) > 3 and key[1] == WITHIN:
        run, key = run.visit.branches[str(key[2])], key[3:]
    return run


def with_visit(run: Run, **changes: object) -> Run:
    """Return the run with something changed of its visit to the state."""
    return replace(run, visit=replace(run.visit, **changes))


def with_halt(run: Run, **changes: object) -> Run:
    """Return the run with something changed of how it was halted."""
    return replace(run, halt=replace(run.halt, **changes))


def with_inbox(run: Run, **changes: object) -> Run:
    """Return the run with something changed of its inbox."""
    return replace(run, inbox=replace(run.inbox, **changes))


def with_usage(run: Run, **changes: object) -> Run:
    """Return the run with something changed of what it used, or may use."""
    return replace(run, usage=replace(run.usage, **changes))


def git_branch(run: Run) -> str:
    """Return the git branch of the worktree a branch works in."""
    return f"midstream/{run.id}/{run.branch.worktrees[-1]}"


def kept_words(branch: Run) -> str:
    """Return where the work of a branch is that did not come to its end, "" where it has no worktree."""
    if not branch.branch.has_worktree:
        return ""
    return f"What it had changed, if anything, is kept on the git branch {git_branch(branch)}."


CALLED = "@"
"""What `BranchOf.flows` begins with in a workflow that a call runs: none of those its run is made of."""

WITHIN = "in"
"""In an effect's key: what follows the branch's name is the key within it."""


# --- the names of the timers a state may have --------------------------------------------

TIMEOUT = "timeout"
"""The state has taken too long."""

DEADLINE = "deadline"
"""The state's question is to be answered by then; below 0 it is over."""

WAITED = "wait"
"""The state's wait is over."""

RETRY = "retry"
"""The state is tried again."""

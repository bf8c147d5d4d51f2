"""Facts: what became true in a run, in order. The journal holds these and nothing else.

A fact is folded by `midstream.core.fold.apply` and says all that folding needs: replaying never runs user
code, a model or a tool. The wire name (`type`) is that of the class: both stay for ever. Times and sequence
numbers stand in the `Envelope` around a fact, not in it.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Literal, TypeAlias

import msgspec

from midstream.core.conversation import ToolCall
from midstream.core.data_edits import Edit
from midstream.core.pictures import Picture
from midstream.core.todo import TodoItem
from midstream.language.errors import Fault
from midstream.language.names import (
    Disposition,
    Effect,
    ErrorKind,
    Json,
    Outcome,
    Policy,
    QuestionKind,
    Slot,
    Subject,
)
from midstream.language.spec import Budget, Definition


def wire_name(name: str) -> str:
    """Return what a class of facts or notices is called on the wire: `state_transition`."""
    return re.sub(r"\B[A-Z]", r"_\g<0>", name).lower()


class Fact(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    tag_field="type",
    tag=wire_name,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """The base of every fact. Never made itself.

    `branch` is where in the run it happened: "" for the run itself, else a branch such as `tests`, or
    `tests/inner` for one within it.
    """

    branch: str = ""


class RunStarted(Fact, frozen=True, kw_only=True):
    """A run began with this definition; it is pinned to it.

    `allowed`: tools that need approval and have it. `approvals`: whether the rest is asked or refused.
    `limits`: what the run may use, whatever its workflow says.
    `workspace` is the folder it works in. `pictures` are those its input means. `hooked` names the tools
    whose calls hooks have a say in. `source`: who started it and said its input, where that was neither the
    person nor the program of its process.
    """

    workflow: str
    definition: Definition
    input: Json = None
    variables: dict[str, Json] = {}
    allowed: tuple[str, ...] = ()
    approvals: Literal["ask", "deny"] = "ask"
    limits: Budget | None = None
    workspace: str = ""
    pictures: tuple[Picture, ...] = ()
    hooked: tuple[str, ...] = ()
    source: str = ""


class RunRecovered(Fact, frozen=True, kw_only=True):
    """A new process goes on with the run. `was_cut`: the last one died without letting go of it.

    `was_idle`: it only waited for a person by then, so nothing of it was cut. `hooked` names the tools
    whose calls hooks have a say in from here on.
    """

    was_cut: bool = False
    was_idle: bool = False
    hooked: tuple[str, ...] = ()

    @property
    def cut_work(self) -> bool:
        """Return whether something that was under way was cut off."""
        return self.was_cut and not self.was_idle


class RunSuspended(Fact, frozen=True, kw_only=True):
    """The run is owed nothing until a person says so; `reason` such as `crash_loop`."""

    reason: str


class RunResumed(Fact, frozen=True, kw_only=True):
    """A person let a suspended run go on."""


class DefinitionChanged(Fact, frozen=True, kw_only=True):
    """From here on the run follows this definition; a person chose so."""

    definition: Definition


class FileWritten(Fact, frozen=True, kw_only=True):
    """A tool call is about to write a file. Journaled before it does.

    `path` is absolute. `before` and `after` are the SHA-256, in hex, of what the file held and will
    hold, None where it does not exist; the blob store has the contents under these keys (those of
    `after` not where they hold a secret, or an earlier version wrote the fact). Undo writes such facts
    into the fork it makes, for the files it puts back, with the call `$putback`. `folders`, absolute and
    outermost first, are those that are made for the file; in a fact of undo, those that go with it if
    nothing else is in them.

    In a run of a repository `path` begins with `URL#COMMIT`. With the call `$tree` it is that alone, and
    `after` keeps all files as they are then: a git tree, and a pack of what is new in it.
    """

    call_id: str
    path: str
    before: str | None
    after: str | None
    folders: tuple[str, ...] = ()


class StateTransition(Fact, frozen=True, kw_only=True):
    """The run left `source` (empty at the start) and entered `target`; `reason` says why.

    `resumes`: it goes on in `target` where the last halt cut it, so that nothing there runs twice.
    """

    source: str
    target: str
    reason: str
    resumes: bool = False


class ContextChange(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """One thing a handler did to a context: add a message, or clear it to its starting messages."""

    context: str
    action: Literal["add", "clear"]
    role: Literal["system", "user", "assistant"] = "user"
    text: str = ""


class Prompted(Fact, frozen=True, kw_only=True):
    """The state's prompt, filled in, was put to its agent."""

    agent: str
    text: str


class CallPlanned(Fact, frozen=True, kw_only=True):
    """A state is about to call its tool, with these arguments."""

    call: ToolCall


class WorkDone(Fact, frozen=True, kw_only=True):
    """What the work of a state without an agent came to: `text` for people and models.

    `changed` and `removed` are keys of `common_data`, as the branches left them.
    """

    state: str
    value: Json = None
    text: str = ""
    changed: dict[str, Json] = {}
    removed: tuple[str, ...] = ()


class StateFailed(Fact, frozen=True, kw_only=True):
    """Something went wrong in a state, and it is not the end.

    `then`: the state is tried again (for the `attempt`-th time, `of` tries in all) after `wait_s`
    seconds, or the error is caught: `save_as` is where in `common_data` it is kept.
    """

    state: str
    kind: ErrorKind
    error: str
    then: Literal["retry", "catch"]
    hint: str = ""
    attempt: int = 0
    of: int = 0
    wait_s: float = 0.0
    save_as: str = ""


class StateRetried(Fact, frozen=True, kw_only=True):
    """The work of a state that failed begins anew."""

    state: str


class TimerSet(Fact, frozen=True, kw_only=True):
    """The state waits for a time: `until`, in seconds since 1970. `timer` says what for."""

    timer: str
    until: float


class BranchStarted(Fact, frozen=True, kw_only=True):
    """A branch of the state begins: `name`, of its state's `parallel`, `for_each` or `workflow`.

    One with a `call_id` is what that call of `agent` is: `input` is its task, in the `role`, or that of the
    workflow of the `definition`, which has the tools of the run. `worktree` names the git worktree it has
    for itself, "" for none.
    """

    name: str
    input: Json = None
    variables: dict[str, Json] = {}
    call_id: str = ""
    role: str = ""
    agent: str = ""
    definition: Definition | None = None
    worktree: str = ""


class BranchFinished(Fact, frozen=True, kw_only=True):
    """The branch this happened in reached its end."""

    output: Json = None


class BranchFailed(Fact, frozen=True, kw_only=True):
    """The branch this happened in cannot go on."""

    error: str
    hint: str = ""
    fault: Fault = "bug"
    state: str = ""


class BranchStopped(Fact, frozen=True, kw_only=True):
    """The branch this happened in was stopped: what its state wanted of it, others did."""

    reason: str


class HandlerRan(Fact, frozen=True, kw_only=True):
    """A handler returned. `changed` and `removed` are keys of `common_data`; `edits` say what changed
    within the large values of others.

    `chosen` is the state a transition handler returned, else None.
    """

    state: str
    handler: str
    slot: Slot
    changed: dict[str, Json] = {}
    removed: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    variables: dict[str, Json] = {}
    contexts: tuple[ContextChange, ...] = ()
    chosen: str | None = None


class Usage(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """What one model request used. `cost_usd` is a decimal number as text, None when unknown.

    `cached_tokens` of `input_tokens` the provider had in its cache: they cost less. `is_estimate`: it was
    cut off before the provider had counted; the tokens are guessed by the length of what was sent and came.
    """

    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: str | None = None
    cached_tokens: int = 0
    is_estimate: bool = False

    @property
    def price(self) -> Decimal | None:
        """Return what it cost; None when that is unknown, or what a journal says is no price."""
        try:
            price = Decimal(self.cost_usd or "none")
        except InvalidOperation:
            return None
        return price if price.is_finite() and price >= 0 else None


def usage_in(fact: object) -> Usage | None:
    """Return what a request used whose end, or cut, a fact tells of; None where it tells of none."""
    return getattr(fact, "usage", None)


class AgentResponded(Fact, frozen=True, kw_only=True):
    """A model's reply arrived whole.

    `is_final` ends the agent's turn. Otherwise the tool calls are carried out, or, where `problem`
    is set, the model is asked again and told the problem.
    """

    agent: str
    text: str
    calls: tuple[ToolCall, ...] = ()
    is_final: bool = True
    problem: str = ""
    usage: Usage | None = None


class CompactionBegan(Fact, frozen=True, kw_only=True):
    """A summary of the first `count` messages of a context is being written, in the role of `agent`.

    `note` is what the person asked to keep in mind. Nothing is changed yet.
    """

    agent: str
    context: str
    count: int
    note: str = ""


class ConversationCompacted(Fact, frozen=True, kw_only=True):
    """A summary stands in the place of the first `count` messages of a context, system messages apart.

    The facts before this one still hold all of them. The tokens are of the whole context, guessed
    by its length.
    """

    agent: str
    context: str
    count: int
    summary: str
    tokens_before: int
    tokens_after: int
    usage: Usage | None = None


class ResultsTrimmed(Fact, frozen=True, kw_only=True):
    """In the first `count` messages of a context the results of tools from `least` characters on have
    given way to marks: as many as `results`, to free `room` tokens.

    The facts before this one still hold all of them. The tokens are of the whole context, guessed
    by its length.
    """

    agent: str
    context: str
    count: int
    least: int
    results: int
    room: int
    tokens_before: int
    tokens_after: int


class CompactionEnded(Fact, frozen=True, kw_only=True):
    """No summary came of it, for `reason`: the conversation is as it was.

    `is_error`: the request for it failed.
    """

    agent: str
    reason: str
    hint: str = ""
    is_error: bool = False
    usage: Usage | None = None


class AgentFailed(Fact, frozen=True, kw_only=True):
    """The agent's turn ended without a reply. What was shown of it is kept as interrupted words.

    `usage` is what the request had used by then, `calling` the tools it was asking for: no call was made.
    """

    agent: str
    error: str
    hint: str = ""
    partial: str = ""
    usage: Usage | None = None
    calling: str = ""


class ToolCalled(Fact, frozen=True, kw_only=True):
    """A tool call is about to be made. Journaled before it can have an effect.

    `granted` are the capabilities a person granted to this very call, see `Question.asks`. `external`, one
    of the effects, where an external agent makes it itself, in the middle of its reply: then the `name` is
    what kind of call it says it is, and it may have begun before it was heard of.
    """

    call_id: str
    name: str
    arguments: dict[str, Json]
    agent: str
    granted: tuple[str, ...] = ()
    external: Effect | None = None


class BudgetReached(Fact, frozen=True, kw_only=True):
    """A budget is used up: nothing more begins here until a person has raised it. `what` is in words."""

    state: str
    what: str


class LimitsSet(Fact, frozen=True, kw_only=True):
    """From here on the run may use so much, whatever it could before: its past came with an import.

    What budgets were raised to there counts no more.
    """

    limits: Budget | None = None


class TimeSpent(Fact, frozen=True, kw_only=True):
    """The run was at work for so many seconds more. Told only where a budget counts minutes.

    Counted is while a model, a tool or a handler is under way, however many at once; not while only a
    person, or a time that is waited for, can move the run on, nor while no process has it.
    """

    seconds: float


class CallEdited(Fact, frozen=True, kw_only=True):
    """A person changed what a call would do before allowing it; it is judged again."""

    call_id: str
    arguments: dict[str, Json]


class ToolEnded(Fact, frozen=True, kw_only=True):
    """A tool call has ended so; what it changed is yet to be checked, or hooks have their say, before its
    agent is told (`tool_returned`).
    """

    call_id: str
    outcome: Outcome
    result: str
    pictures: tuple[Picture, ...] = ()


class HookRan(Fact, frozen=True, kw_only=True):
    """A hook had a say in a tool call, or in words. It is true: nothing runs the hook again for that.

    `refused` is why it refused, `arguments` what the call runs with instead, `added` the words that it
    added to the call's result or to the words, `problem` how it failed. A hook that had nothing to say
    is no fact.
    """

    event: str
    hook: str
    call_id: str = ""
    refused: str = ""
    arguments: dict[str, Json] | None = None
    added: str = ""
    problem: str = ""


class ToolReturned(Fact, frozen=True, kw_only=True):
    """A tool call ended; `result` is what the model is told, `pictures` what it is shown.

    `note` is what a person is to hear of it beside that, in a line. `below` are the AGENTS.md of folders
    that the result ends with, each with its length in characters; 0: it was left out.
    """

    call_id: str
    name: str
    outcome: Outcome
    result: str
    pictures: tuple[Picture, ...] = ()
    note: str = ""
    below: dict[str, int] = {}


class QuestionAsked(Fact, frozen=True, kw_only=True):
    """A question is open. `number` is the `#2` a person answers by; `call_id` the parked tool call.

    Of an approval, `text` is exactly what would happen; the rest is as in `Question`.
    """

    question_id: str
    number: int
    kind: QuestionKind
    text: str
    agent: str = ""
    call_id: str = ""
    choices: tuple[str, ...] = ()
    schema: dict[str, Json] | None = None
    asks: tuple[str, ...] = ()
    why: str = ""
    about: Subject = ""
    command: str = ""


class QuestionAnswered(Fact, frozen=True, kw_only=True):
    """The question is closed by this answer. `input_id` is empty for a key press on an approval."""

    question_id: str
    answer: Json
    input_id: str = ""


class AnswerRefused(Fact, frozen=True, kw_only=True):
    """The answer did not fit; the question stays open and the words go back to the editor."""

    question_id: str
    input_id: str
    reason: str


class QuestionSuperseded(Fact, frozen=True, kw_only=True):
    """The question is closed unanswered, because the operation that asked it was halted."""

    question_id: str
    reason: str


class QuestionExpired(Fact, frozen=True, kw_only=True):
    """Nobody answered in time. `stays`: the question is open nevertheless; else it is closed."""

    question_id: str
    stays: bool = False


class PermissionGranted(Fact, frozen=True, kw_only=True):
    """For the rest of this run these capabilities, or all calls of this tool, need no further approval.

    With `capabilities` the tool is the one whose call was allowed, and has no more than them.
    """

    tool: str
    capabilities: tuple[str, ...] = ()


class PermissionRevoked(Fact, frozen=True, kw_only=True):
    """What was granted for the rest of the run is asked about again: a capability, or a tool."""

    permission: str


class InputReceived(Fact, frozen=True, kw_only=True):
    """The user's words arrived. `handling` says what they are about to do; `reason` why, if unusual.

    `at` (seconds since 1970) is kept of words that interrupt, to tell a storm from a conversation.
    `to` is the branch they were addressed to. `pictures` are those the words mean; the blob store has them.
    """

    input_id: str
    text: str
    source: str
    handling: Literal["answer"] | Policy
    reason: str = ""
    at: float | None = None
    to: str = ""
    pictures: tuple[Picture, ...] = ()


class InputDisposed(Fact, frozen=True, kw_only=True):
    """What became of the user's words, exactly once for each `input_received`."""

    input_id: str
    disposition: Disposition
    reason: str = ""


class WordsJoined(Fact, frozen=True, kw_only=True):
    """The user's words became a message of this context."""

    context: str
    text: str


class Interrupted(Fact, frozen=True, kw_only=True):
    """The current operation is halted: results of earlier epochs no longer count.

    `leads_to` says what comes once the running tools have stopped: the user's words are acted on,
    the run holds until the user says what to do (a bare Esc, `text` None), or it ends. A second one
    with the same epoch joined the halt; its `text` is the whole. `state` is where the run would have
    gone on; `partial` is what `agent` had already shown of its reply. `resumes`: it was about to go
    on in `state` where an earlier halt had cut it. `trouble`: nobody interrupted, an error of that
    kind ends the state's work (`reason` says which). `usage` is what the request that was cut had used,
    `calling` the tools it was asking for, by name: no call was made.
    """

    epoch: int
    text: str | None
    leads_to: Literal["words", "hold", "stop", "trouble"] = "words"
    state: str = ""
    agent: str = ""
    partial: str = ""
    reason: str = ""
    resumes: bool = False
    trouble: ErrorKind | None = None
    usage: Usage | None = None
    calling: str = ""


class ReplyCut(Fact, frozen=True, kw_only=True):
    """The agent's streaming words were cut, and it is asked on with its next request.

    New words of the user join that; or the process died: `recovered`, and it is the same request once
    more; or the stream broke off, for `reason`. `usage` is what the request had used by then, `calling`
    the tools it was asking for, by name: no call was made.
    """

    agent: str
    partial: str
    recovered: bool = False
    reason: str = ""
    usage: Usage | None = None
    calling: str = ""


class ReplyShown(Fact, frozen=True, kw_only=True):
    """More of an agent's streaming reply was shown: the words that came since the last such fact.

    It is told a fifth of a second behind at most: a reply whose process dies is kept as far as it was seen.
    `so_far` is what its request had used by then: it counts if nothing more is heard of it. `calling` are
    all tools that it has begun to ask for, "" where that is told already.
    """

    agent: str
    text: str
    so_far: Usage | None = None
    calling: str = ""


class AgentPrompted(Fact, frozen=True, kw_only=True):
    """An external agent is about to be sent a prompt, in the session it knows by that id.

    The prompt holds the last `told` messages of the context; of a session that `is_new` all there are.
    `run` is the run that began the session: a fork of it begins one of its own.
    """

    agent: str
    session: str
    run: str
    told: int
    is_new: bool = False


class AgentStopped(Fact, frozen=True, kw_only=True):
    """An external agent that was halted does nothing more of its prompt."""

    agent: str


class WorkspaceSeen(Fact, frozen=True, kw_only=True):
    """What the files of the workspace hold was looked at, before an external agent may change them.

    `manifest` is the key of it in the blob store; "": it was compared with what they hold now, and the
    facts before this one say what had changed (`file_written`).
    """

    manifest: str = ""


class RunRenamed(Fact, frozen=True, kw_only=True):
    """A person gave the run a name; "" takes it away."""

    name: str


class TodoEdited(Fact, frozen=True, kw_only=True):
    """A person changed the todo list, as in `edit` (`add WORDS`, `done N`, `drop N`); it is `items` now.

    `text` became a message of this context, by which the agent learns of it; "" where there is none.
    """

    edit: str
    items: tuple[TodoItem, ...] = ()
    context: str = ""
    text: str = ""


class ModeTold(Fact, frozen=True, kw_only=True):
    """Before a model request: the permission mode became `plan`, or is so no longer.

    `text` became a message of this context, by which the agent learns of it.
    """

    mode: str
    context: str
    text: str


class WorkflowOutput(Fact, frozen=True, kw_only=True):
    """Words of the workflow for the user: a line it logged, or its result."""

    text: str
    kind: Literal["log", "result"] = "log"


class RunFinished(Fact, frozen=True, kw_only=True):
    """The run reached `stop`."""

    output: Json = None


class RunFailed(Fact, frozen=True, kw_only=True):
    """The run cannot go on. `fault` says whose move it is."""

    error: str
    hint: str = ""
    fault: Fault = "bug"
    state: str = ""


class RunStopped(Fact, frozen=True, kw_only=True):
    """A person stopped the run."""

    reason: str


AnyFact: TypeAlias = (
    RunStarted
    | RunRecovered
    | RunSuspended
    | RunResumed
    | DefinitionChanged
    | FileWritten
    | StateTransition
    | Prompted
    | CallPlanned
    | WorkDone
    | StateFailed
    | StateRetried
    | TimerSet
    | BranchStarted
    | BranchFinished
    | BranchFailed
    | BranchStopped
    | QuestionExpired
    | HandlerRan
    | AgentResponded
    | AgentFailed
    | ToolCalled
    | ToolReturned
    | QuestionAsked
    | QuestionAnswered
    | AnswerRefused
    | QuestionSuperseded
    | PermissionGranted
    | PermissionRevoked
    | CallEdited
    | ToolEnded
    | HookRan
    | BudgetReached
    | TimeSpent
    | LimitsSet
    | InputReceived
    | InputDisposed
    | WordsJoined
    | Interrupted
    | ReplyCut
    | ReplyShown
    | AgentPrompted
    | AgentStopped
    | WorkspaceSeen
    | CompactionBegan
    | ConversationCompacted
    | CompactionEnded
    | ResultsTrimmed
    | RunRenamed
    | TodoEdited
    | ModeTold
    | WorkflowOutput
    | RunFinished
    | RunFailed
    | RunStopped
)

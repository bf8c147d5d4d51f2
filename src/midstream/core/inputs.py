"""Inputs: what can happen to a run from outside. Each is judged once, live, by `decide`.

Everything a decision needs from the world (times, ids, what was on the screen, whether an answer
fits its schema) arrives inside the input, so that deciding is pure.
"""

from typing import Literal, TypeAlias

import msgspec

from midstream.core.conversation import ToolCall
from midstream.core.data_edits import Edit
from midstream.core.events import ContextChange, FileWritten, HookRan, Usage
from midstream.core.events import ToolEnded as Ended
from midstream.core.pictures import Picture
from midstream.core.proposal import Onwards
from midstream.core.routing import Destination
from midstream.core.todo import TodoEdit
from midstream.language.errors import Fault
from midstream.language.names import Effect, Json, Outcome, Policy
from midstream.language.spec import Budget, Definition

EffectKey: TypeAlias = tuple[int | str, ...]
"""Which effect an input is the result of: the run's step, the kind, and a number or id within.

In a branch: the step of the run around it, `in`, the branch's name, and the key within it.
"""


class Input(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The base of every input. Never made itself."""


class Start(Input, frozen=True, kw_only=True):
    """Begin the run. `input` None with `start_condition: on_user_input` waits for the first line.

    `hooked` names the tools whose calls hooks have a say in. `source` is who starts it, for the record.
    """

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


class RequestedCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call as a model sent it. `problem` says why its arguments cannot be used, else empty."""

    name: str
    arguments: dict[str, Json]
    problem: str = ""


class CallReviewed(Input, frozen=True, kw_only=True):
    """A call was judged by what it would do; see `midstream.runtime.ports.Review`.

    `asks` are the capabilities still to be granted, `shows` exactly what would happen. `hooks` had their
    say first: it is the call as they left it that was judged.
    """

    key: EffectKey
    kind: Literal["allow", "ask", "deny"]
    asks: tuple[str, ...] = ()
    shows: str = ""
    reason: str = ""
    hint: str = ""
    hooks: tuple[HookRan, ...] = ()


class ModelReplied(Input, frozen=True, kw_only=True):
    """A model's reply arrived whole."""

    key: EffectKey
    text: str
    calls: tuple[RequestedCall, ...] = ()
    usage: Usage | None = None


class ModelFailed(Input, frozen=True, kw_only=True):
    """A model request failed for good. `shown` is what had been streamed of it, `usage` what it had used,
    `calling` the tools it had begun to ask for.

    `is_broken`: the world failed in the middle of the reply, so that it may be asked on from there.
    """

    key: EffectKey
    error: str
    hint: str = ""
    shown: str = ""
    is_broken: bool = False
    usage: Usage | None = None
    calling: str = ""


class HandlerReturned(Input, frozen=True, kw_only=True):
    """A handler returned, with the changes it made. `output` lines were logged on the way."""

    key: EffectKey
    changed: dict[str, Json] = {}
    removed: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    variables: dict[str, Json] = {}
    contexts: tuple[ContextChange, ...] = ()
    chosen: Json = None


class HandlerFailed(Input, frozen=True, kw_only=True):
    """A handler raised, took too long, or left something that is not JSON."""

    key: EffectKey
    error: str
    hint: str = ""
    fault: Fault = "author"


class HandlerLogged(Input, frozen=True, kw_only=True):
    """A running handler has a line for the user."""

    key: EffectKey
    text: str


class ToolEnded(Input, frozen=True, kw_only=True):
    """A tool call ended by itself; it is checked, or hooks have their say, before it is finished."""

    key: EffectKey
    ended: Ended


class ToolFinished(Input, frozen=True, kw_only=True):
    """A tool call ended, by itself or because it was told to stop. `hooks` had their say after it;
    `note` is for a person.

    `below` is what each AGENTS.md says, by its path, in the folders it worked in; "" for one not trusted.
    """

    key: EffectKey
    outcome: Outcome
    text: str
    pictures: tuple[Picture, ...] = ()
    hooks: tuple[HookRan, ...] = ()
    note: str = ""
    below: dict[str, str] = {}


class Shown(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the reader had seen of a streaming reply when the input was made, and what it had used by then.

    `has_calls`: the model had begun to ask for a tool, or several: `calling` names them.
    """

    key: EffectKey
    text: str
    has_calls: bool = False
    usage: Usage | None = None
    calling: str = ""


class ReplyCheckpoint(Input, frozen=True, kw_only=True):
    """A reply still streams; `text` was shown of it since the last checkpoint, and it has used `so_far`.

    `calling` are all tools it has begun to ask for, if there is one more than at the last.
    """

    key: EffectKey
    text: str = ""
    so_far: Usage | None = None
    calling: str = ""


class AgentOpened(Input, frozen=True, kw_only=True):
    """An external agent is about to be sent the last `told` messages of its context: see the fact
    `agent_prompted`.
    """

    key: EffectKey
    session: str
    run: str
    told: int
    is_new: bool = False


class AgentCalled(Input, frozen=True, kw_only=True):
    """An external agent makes a call itself, or is about to. The same call again changes nothing."""

    key: EffectKey
    call: ToolCall
    effect: Effect


class AgentReturned(Input, frozen=True, kw_only=True):
    """A call that an external agent made itself has ended."""

    key: EffectKey
    call_id: str
    outcome: Outcome
    text: str
    shown: "tuple[Shown, ...]" = ()


class AgentStopped(Input, frozen=True, kw_only=True):
    """An external agent that was halted does nothing more of its prompt."""

    key: EffectKey


class FilesSeen(Input, frozen=True, kw_only=True):
    """The workspace was looked at for an external agent of a branch; see `workspace_seen`.

    `files` are the changes since the last look: they have happened. `note` is a line for a person.
    `manifest` None: it was not for an external agent that it was looked at.
    """

    branch: str
    manifest: str | None = ""
    files: tuple[FileWritten, ...] = ()
    note: str = ""


class UserSaid(Input, frozen=True, kw_only=True):
    """The user's words. `id` is unique for each line; the same id again changes nothing.

    `to` is the words and whom they are for, as it was judged when they were sent. `answer` is the
    value to hand over where the question has a schema; `problem` says why it does not fit.
    `policy` overrides the state's own. `pictures` are those the words mean. `hooks` had their say first,
    and `refused` is why one refused.
    """

    id: str
    to: Destination
    at: float
    source: str = "user"
    answer: Json = None
    problem: str = ""
    policy: Policy | None = None
    shown: tuple[Shown, ...] = ()
    pictures: tuple[Picture, ...] = ()
    hooks: tuple[HookRan, ...] = ()
    refused: str = ""


class Halt(Input, frozen=True, kw_only=True):
    """Stop the current turn, keep everything shown, and hold until the user says what to do."""

    shown: tuple[Shown, ...] = ()


class Approve(Input, frozen=True, kw_only=True):
    """A person's decision on a tool call. `note` goes to the model when it is a no.

    `edited` are the arguments a person would have it run with instead; they say yes to those. Of a plan
    they are asked about next, and `mode` is the one an approved plan is carried out in.
    """

    question: str
    granted: bool
    for_run: bool = False
    note: str = ""
    edited: dict[str, Json] | None = None
    mode: Onwards = "ask"


class Revoke(Input, frozen=True, kw_only=True):
    """Take back what was granted for the rest of the run: a capability, or a tool's name."""

    permission: str


class Withdraw(Input, frozen=True, kw_only=True):
    """Take back words that have not had their effect yet."""

    input_id: str


class Stop(Input, frozen=True, kw_only=True):
    """End the run. Running tools are stopped by their effect class first."""

    reason: str
    shown: tuple[Shown, ...] = ()


class Recovered(Input, frozen=True, kw_only=True):
    """Another process held the run: nothing that was in flight is any more.

    `was_cut`: that process died without letting go of the run. `definition`: what to follow from here
    on, instead of what the run is pinned to; it has to fit where the run stands
    (`midstream.core.pinning.misfit_of`). `deaths`: so many processes in a row died with the run while it
    hardly went on, where that is counted. `is_foreign`: its past came with an import, and `limits` is what
    runs may use here; what the import says of that bounds it further, and raises nothing. `hooked` as in
    `Start`.
    """

    was_cut: bool = True
    deaths: int = 0
    definition: Definition | None = None
    is_foreign: bool = False
    limits: Budget | None = None
    hooked: tuple[str, ...] = ()


class Compact(Input, frozen=True, kw_only=True):
    """Let a summary take the place of the older turns. `note` is what it is to keep in mind.

    With `room` it is enough to have so many tokens more: where old results of tools hold as many, these
    give way instead.
    """

    note: str = ""
    room: int = 0


class Rename(Input, frozen=True, kw_only=True):
    """Give the run a name; "" takes it away."""

    name: str


class EditTodo(Input, frozen=True, kw_only=True):
    """Change the todo list; what cannot be made of the list as it stands by then changes nothing."""

    edit: TodoEdit


class Resume(Input, frozen=True, kw_only=True):
    """Let a suspended run go on, or one that was stopped without words where it was cut."""


class WorkflowFound(Input, frozen=True, kw_only=True):
    """The workflow was found that a call of `run_workflow` names."""

    key: EffectKey
    definition: Definition


class TimerStarted(Input, frozen=True, kw_only=True):
    """A wait began: it ends at `until`, in seconds since 1970."""

    key: EffectKey
    until: float


class TimerRang(Input, frozen=True, kw_only=True):
    """The time that was waited for has come."""

    key: EffectKey
    shown: tuple[Shown, ...] = ()


class FileChanging(Input, frozen=True, kw_only=True):
    """A running tool call is about to write a file; see the fact `file_written`."""

    key: EffectKey
    path: str
    before: str | None
    after: str | None
    folders: tuple[str, ...] = ()


AnyInput: TypeAlias = (
    Start
    | ModelReplied
    | ModelFailed
    | ReplyCheckpoint
    | HandlerReturned
    | HandlerFailed
    | HandlerLogged
    | ToolEnded
    | ToolFinished
    | AgentOpened
    | AgentCalled
    | AgentReturned
    | AgentStopped
    | FilesSeen
    | UserSaid
    | Halt
    | Approve
    | Revoke
    | CallReviewed
    | Withdraw
    | Stop
    | Recovered
    | Resume
    | Compact
    | Rename
    | EditTodo
    | FileChanging
    | WorkflowFound
    | TimerStarted
    | TimerRang
)

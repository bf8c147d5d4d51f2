"""What a run acts through, as small contracts others may fulfil: models, tools, storage, time; and the run.

An adapter is done when it passes its contract in `midstream.testing.contracts`. What keeps runs beyond
their process is in `storage`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from midstream.core.conversation import Message
from midstream.core.data_edits import Edit
from midstream.core.events import ContextChange, HookRan, Usage
from midstream.core.inputs import RequestedCall
from midstream.core.notices import Envelope
from midstream.core.question import Decision
from midstream.core.routing import Destination
from midstream.core.run import Run
from midstream.language.names import Effort, Json, Outcome, Policy
from midstream.language.spec import Definition, ToolSpec
from midstream.safety.capability import Capability, PermissionMode, forbids_secrets
from midstream.safety.redaction import Redactor, Vault
from midstream.views.side_effects import FileDiff

if TYPE_CHECKING:
    from midstream.runtime.background import Background, Command
    from midstream.runtime.run_place import RunPlace
    from midstream.safety.rules import Rule

# --- models ------------------------------------------------------------------------------------


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model.

    `agent` is whose turn it is, by its name in the workflow, and `system` its system message.
    `messages` are as the agent sees them: its own words as `assistant`, one result for each call.
    `tools` are those it may call, each with the JSON Schema of its arguments. `level` is base, smart or
    fast; `model` (such as `openai:gpt-5`) overrides what the level names. `effort` is how hard the role
    wants it to think, None: as the level's setting or the provider has it.
    With `must_call` the model has to call one of `tools`. `pictures` are the bytes of those in the
    messages, by their keys: one that is not there is kept no more, and the model is told so (None: it
    takes no pictures). `run` is whose request it is. What follows tells the offline model
    where in which workflow it is; `visit` counts
    entries into the state from 1, `request` the requests of this turn from 1; `common_data`, `variables`
    and `input` are those of the run. None of it is to be changed.
    """

    agent: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    level: str = "base"
    model: str | None = None
    effort: Effort | None = None
    must_call: bool = False
    pictures: Mapping[str, bytes] | None = {}
    run: str = ""
    workflow: str = ""
    state: str = ""
    visit: int = 1
    request: int = 1
    common_data: dict[str, Json] = {}
    variables: dict[str, Json] = {}
    input: Json = None


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A model's whole reply: all its words, not the last piece of them, and what it calls, in order.

    `calls` are checked against the tools' schemas (`problem`); `midstream.open` does so for a model it is
    given. `usage` is what the request used, None where nobody has counted: it costs nothing then.
    """

    text: str
    calls: tuple[RequestedCall, ...] = ()
    usage: Usage | None = None


class ReplyListener(Protocol):
    """Hears a reply as it streams. Every method returns at once."""

    def text(self, delta: str) -> None:
        """Hear the next piece of the reply's words."""

    def thinking(self, delta: str) -> None:
        """Hear the next piece of the model's reasoning."""

    def calling(self, name: str) -> None:
        """Hear that the model has begun to ask for a tool, by this name; "" while it has not said it."""

    def status(self, text: str) -> None:
        """Hear what the request is doing, such as waiting to retry."""

    def metered(self, used: Callable[[], Usage | None]) -> None:
        """Hear how to find out what the request has used so far, None while nothing was sent.

        Asked where it is cut off; one of which this is never heard costs nothing then. It returns at once.
        """


class Model(Protocol):
    """Models of all providers behind one method. Cancelling the call closes the stream."""

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return the reply to one request, its words told to `listener` as they come.

        Raises:
            WorldTrouble: the provider failed for good, or the stream was cut off.
            UserMistake: the model cannot be used as configured (no key, unknown name).
        """


# --- tools -------------------------------------------------------------------------------------


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended, what the model is told, and the pictures it is shown: their bytes, by name.

    `note` is a line for a person beside it.
    `touched` are the files and folders of the workspace that it read or wrote, as paths from its root.
    """

    outcome: Outcome
    text: str
    pictures: Mapping[str, bytes] = {}
    note: str = ""
    touched: tuple[str, ...] = ()


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become of a call before it is made.

    `asks` are the capabilities a person has to grant (`exec: make test`), none unless `kind` is
    "ask"; `shows` is exactly what would happen, as it is put before the person: an argv, a
    difference of a file. `reason` says which rule asks or refuses, `hint` how a person could allow it.
    """

    kind: Literal["allow", "ask", "deny"] = "allow"
    asks: tuple[str, ...] = ()
    shows: str = ""
    reason: str = ""
    hint: str = ""


class Changing(Protocol):
    """Records that a file is about to change; see `ToolContext`."""

    def __call__(
        self, path: Path, before: bytes | None, after: bytes | None, folders: Sequence[Path] = (), /
    ) -> Awaitable[None]:
        """Return once it is written down."""
        ...


class OpenFiles(Protocol):
    """The files a person has open in an editor. Called in threads; may wait for it, not for long."""

    def unsaved(self, path: Path, saved: bytes) -> bytes | None:
        """Return what the editor has of a file, None where that is what the disk holds (`saved`), or
        cannot be said.
        """

    def require_saving(self, path: Path) -> None:
        """Raise UserMistake where the editor cannot save a file for us."""

    def save(self, path: Path, data: bytes) -> None:
        """Have the editor hold and save this.

        Raises:
            UserMistake: it refused, or is gone.
        """


async def _untold(outcome: ToolOutcome, /) -> None:
    """Tell nobody that a call is done: no run stands behind it."""


async def _unrecorded(
    path: Path, before: bytes | None, after: bytes | None, folders: Sequence[Path] = (), /
) -> None:
    """Record nothing: what a context does that no run stands behind."""


def keeps_nothing(command: Capability) -> "tuple[Rule, ...]":
    """Keep a command from reading nothing: what a context does that no policy stands behind."""
    return ()


def names_nothing(request: Capability) -> bool:
    """Name nothing: what a context does that no policy stands behind."""
    return False


def _unseen(diff: FileDiff) -> None:
    """Tell nobody what was done to a file."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a running tool may use. `stop` is set when the call should end softly, soon.

    `progress` hears pieces of output while the tool runs; it may be called from any thread.
    `changing(path, before, after)` is to be awaited right before a file's contents are replaced (None:
    there is no such file before, or after): they are recorded so that the change can be taken back.
    Where it raises, the file must be left as it is. Folders above it that are not there yet and will be
    made for it come as a fourth argument, outermost first: undo takes those away again that are empty
    then. `granted` are the capabilities a person has granted to this call or to the run; what the call
    would do beyond them and the rules is refused.

    `binds` is the digest of the plan this call was judged by (`tools.base.Planned`), "" where nobody
    judged it: a tool that writes does so only if what it is about to do has the same. `forbids(request)`
    says why policy keeps the call from one thing, such as a file a search came upon, "" where it does
    not; it may be called from any thread. `kept_from(command)` are the rules on reading that hold for
    what a command reads without naming it. `is_named(request)` says whether a rule of the user's own allows
    that very thing by its name. `changed(diff)` hears what was done to a file once it is done, from any
    thread. `call` is the id of the call, `background` begins what goes on after it, None where nothing may.
    `epoch` grows with each change of the process that runs the run: a system that is told it, and refuses
    lower ones, is not changed by who comes too late.
    `worktrees` are the git worktrees the call is made in, the innermost last: mostly none. `touches` are
    the paths that the plan of the call reads or writes.

    `open_files` are those in a person's editor, None where there is none: what is not saved there yet is
    what a file holds for them.

    `done(outcome)` is to be awaited by a call that has changed what it was to change, and still looks at
    what came of it: from then on a halt or a crash ends it with that outcome. `is_last_change`: no later
    call of the same reply changes anything.
    """

    workspace: Path
    run: str
    agent: str
    stop: asyncio.Event
    progress: Callable[[str], None]
    changing: Changing = _unrecorded
    granted: tuple[str, ...] = ()
    binds: str = ""
    forbids: Callable[[Capability], str] = forbids_secrets
    kept_from: "Callable[[Capability], tuple[Rule, ...]]" = keeps_nothing
    is_named: Callable[[Capability], bool] = names_nothing
    changed: Callable[[FileDiff], None] = _unseen
    call: str = ""
    epoch: int = 0
    background: "Background | None" = None
    worktrees: tuple[str, ...] = ()
    done: Callable[[ToolOutcome], Awaitable[None]] = _untold
    is_last_change: bool = True
    touches: tuple[str, ...] = ()
    open_files: OpenFiles | None = None


class Tools(Protocol):
    """The tools a run may call, by name."""

    def specs(self) -> dict[str, ToolSpec]:
        """Return what each tool is, by name."""

    async def review(self, name: str, arguments: dict[str, Json], context: ToolContext) -> Review:
        """Return what is to become of a call of a tool whose spec is `reviewed`. Changes nothing.

        Never raises but `CancelledError`: a call that cannot be understood is asked about.
        """

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        """Return how the call ended. Never raises but `CancelledError`; cancelling kills the call
        and everything it started.
        """


class Validator(Protocol):
    """Checks a value against a JSON Schema."""

    def __call__(self, value: Json, schema: dict[str, Json]) -> str:
        """Return why the value does not fit, "" when it does."""


# --- other people's agents ------------------------------------------------------------------------


class ProposedText(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of an external agent would make of a file: its whole new text, or a part of it.

    `old` is the text that `new` takes the place of, None where the file is new. `path` as it was named.
    """

    path: str
    new: str
    old: str | None = None


class ExternalCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that an external agent makes itself, as it describes it.

    `id` is unique within one prompt. `kind` is the protocol's: read, edit, delete, move, search, execute,
    think, fetch, switch_mode, other; what is not understood is other. `paths` are the files it names,
    `command` the command line, `url` the address, "" where it names none; `arguments` is its raw input
    where that is an object. Nothing of it is believed: it is what the agent says.
    """

    id: str
    title: str
    kind: str = "other"
    paths: tuple[str, ...] = ()
    command: str = ""
    url: str = ""
    texts: tuple[ProposedText, ...] = ()
    arguments: dict[str, Json] = {}


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy, or a person, says to a call of an external agent. `reason` says why it may not."""

    is_granted: bool
    reason: str = ""


class ExternalPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of an external agent.

    `acp` is the name of a preset or the argv of a program that speaks the Agent Client Protocol on its
    standard streams. `owner` (`run`, or `run/branch`) and `agent` name the conversation: one process and
    one session each, kept between turns until `ExternalAgents.end`. `session` is the id under which the
    agent knows it, "" where there is none yet.

    `text` is what is new for an agent that goes on in that session; `whole` is all of the conversation,
    for one in a new session. Exactly one of them is sent. `pictures` are the bytes of those that are new,
    by kind (`image/png`), for an agent that takes them.
    """

    agent: str
    acp: str | tuple[str, ...]
    owner: str
    workspace: Path
    text: str
    whole: str
    session: str = ""
    pictures: tuple[tuple[str, bytes], ...] = ()


class ExternalListener(ReplyListener, Protocol):
    """Hears one turn of an external agent, in the order things happen.

    What is awaited returns once it is journaled; `WorldTrouble` from it means that the turn is over.
    """

    async def opened(self, session: str, *, is_new: bool) -> None:
        """Hear in which session the prompt is about to be sent. Awaited before it is sent."""

    async def called(self, call: ExternalCall) -> None:
        """Hear of a call when it is first seen. The same id again changes nothing."""

    async def permit(self, call: ExternalCall) -> Permission:
        """Return whether the agent may make a call that it asks about; waits for a person, if need be.

        A call that was not heard of before is heard of by this.
        """

    async def returned(self, id: str, outcome: Outcome, text: str) -> None:
        """Hear how a call ended: `completed`, `failed`, or `stopped`. An unknown id is left aside."""

    async def read_text(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """Return the text of a file of the workspace, by the file tools' rules; lines count from 1.

        Raises:
            MidstreamError: the policy or the file does not let it be read.
        """

    async def write_text(self, path: str, text: str) -> None:
        """Write a file of the workspace as the file tools do: judged, recorded before, undone by `/undo`.

        Raises:
            MidstreamError: the policy or a person does not allow it, or it cannot be written.
        """


class ExternalAgents(Protocol):
    """Other people's agents, driven as workers over the Agent Client Protocol."""

    async def prompt(self, prompt: ExternalPrompt, listener: ExternalListener) -> ModelReply:
        """Return the whole reply to one prompt: its words, and what the agent says it used.

        Starts the program where none of this `owner` and `agent` runs (`listener.status` says which command
        line), and takes the session up: the one that is open there, else loaded by its id, else a new one.
        What loading replays is not told to `listener`. Words that follow a call begin a new paragraph.

        The reply has no `calls`: the agent makes them itself, and `listener` hears of each. Its `usage`
        is that of this prompt, with the model `acp:NAME`; zeros where the agent reports nothing.

        Cancelled, it tells the agent so (`session/cancel`), answers open permission requests with
        cancelled, waits a bounded while for the prompt to end, kills the process tree of one that does not
        end, and only then raises `CancelledError`. `listener` may still hear `returned` meanwhile; it
        shows nothing. A second prompt for the same conversation waits for that.

        Raises:
            UserMistake: the program is not installed, wants a login, or refuses to work as configured.
            WorldTrouble: it failed, broke the protocol, or ended in mid-turn. The next prompt starts anew.
        """

    async def end(self, run: str) -> None:
        """End the programs of a run and of its branches; returns when they have ended."""


# --- hooks ---------------------------------------------------------------------------------------


class Hooks(Protocol):
    """A person's own commands that run when something happens in a run, and may have a say in it."""

    @property
    def hooked(self) -> tuple[str, ...]:
        """Return patterns of the names of tools whose calls hooks have a say in before they are made."""

    def has(self, event: str, name: str = "") -> bool:
        """Return whether a hook runs at an event, of the tool of that name where it is about one."""

    async def run(
        self,
        event: str,
        about: dict[str, Json],
        *,
        name: str = "",
        stop: asyncio.Event | None = None,
    ) -> tuple[HookRan, ...]:
        """Return what the hooks of an event had to say, in the order they ran; the first that refuses
        is the last. `about` is what they are told, besides where and when.

        Never raises but `CancelledError`; cancelling kills the hook that runs and all it started, and so
        does setting `stop`.
        """


# --- handlers ----------------------------------------------------------------------------------


class HandlerResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a handler did and, for a transition handler, the state it returned."""

    changed: dict[str, Json] = {}
    removed: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    variables: dict[str, Json] = {}
    contexts: tuple[ContextChange, ...] = ()
    chosen: Json = None


class Handlers(Protocol):
    """The functions of a workflow's script."""

    async def call(self, name: str, run: Run, log: Callable[[str], None]) -> HandlerResult:
        """Return what the handler of that name did. `log` hears its lines, on the loop.

        Raises:
            AuthorMistake: it raised, took too long, is missing, or left what is not JSON.
        """


class Workflows(Protocol):
    """The workflows that agents may run, by name."""

    async def called(self, name: str) -> Definition:
        """Return the workflow of a name, checked.

        Raises:
            MidstreamError: there is none, it has problems, or nobody has trusted it.
        """

    async def handlers_of(self, definition: Definition) -> Handlers:
        """Return the handlers of a workflow that was called, or of one it runs.

        Raises:
            MidstreamError: its files are not what they were then.
        """


# --- the journal, and contents too large for it ------------------------------------------------


class Journal(Protocol):
    """Facts of runs, in order, appended and never changed."""

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Keep the facts after position `expected` (how many the run has). All or none.

        Raises:
            JournalMoved: the run has more or fewer facts, or is another process's now.
            JournalFull: there is no room; it may be tried again.
            WorldTrouble: it cannot be written.

        Whatever is raised, nothing was kept.
        """

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        """Return the run's facts after position `after`, in order; none for an unknown run.

        `upto` is the last position to return, None: all there are.

        Raises:
            JournalDamaged: one of them is not what was written. Up to the one before, all is whole.
        """


class BlobStore(Protocol):
    """Large or old contents beside the journal, by what they are: put twice, kept once."""

    async def put(self, data: bytes) -> str:
        """Return the key (SHA-256, in hex) once the data is safe.

        Raises:
            JournalFull: there is no room.
        """

    async def get(self, key: str) -> bytes:
        """Return the data of a key, or of the one key that begins so: eight digits at least.

        Raises:
            WorldTrouble: it is missing, or not what was put there; or several keys begin so.
        """


def completed(beginning: str, keys: Iterable[str]) -> str:
    """Return the one key that begins so, else what was given."""
    found = [key for key in keys if key.startswith(beginning)] if len(beginning) >= 8 else []
    return found[0] if len(found) == 1 else beginning


# --- all of it ---------------------------------------------------------------------------------


class Clock(Protocol):
    """The time. Tests have one that jumps (`midstream.testing.fakes.JumpingClock`)."""

    def now(self) -> float:
        """Return the time in seconds since 1970 (UTC). Somebody may set it, on or back."""

    def monotonic(self) -> float:
        """Return seconds that only grow, from wherever: their differences are how long things took."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""


class Permits(Protocol):
    """How much happens unasked in this process. Only a person's act changes it."""

    @property
    def mode(self) -> PermissionMode:
        """Return the permission mode of the moment."""

    def switch(self, mode: str) -> None:
        """Let more, or less, happen unasked from now on.

        Raises:
            UserMistake: it is no mode one may go to.
        """


class World(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The adapters a machine acts through. Shared by all machines of a process.

    `workflows` are those agents may run, `hooks` a person's own commands; None where there are none.
    `words_below` returns what the AGENTS.md of folders say on the way to paths; it waits for the disk.
    `has_worktrees`: branches that are to have git worktrees get them, which fakes do not.
    `permits` has the permission mode, None where there is none that agents have to know of.
    `agents` drives external agents; None: the model stands in for them (a rehearsal, the offline model).
    `open_files` are those in a person's editor. `place` is where a run of a repository works, None where
    the workspace is a folder that stays where it is. `epochs` has, by run, that of this process's claim.
    `redactor` takes secrets out of what is journaled and shown; `vault` remembers, in memory alone, what
    stood in the calls that are yet to be made.
    """

    model: Model
    tools: Tools
    journal: Journal
    blobs: BlobStore
    clock: Clock
    validate: Validator
    workspace: Path
    workflows: Workflows | None = None
    has_worktrees: bool = True
    hooks: Hooks | None = None
    permits: Permits | None = None
    agents: ExternalAgents | None = None
    words_below: Callable[[Sequence[str]], dict[str, str]] | None = None
    open_files: OpenFiles | None = None
    place: "RunPlace | None" = None
    epochs: dict[str, int] = msgspec.field(default_factory=dict)
    redactor: Redactor = msgspec.field(default_factory=Redactor)
    vault: Vault = msgspec.field(default_factory=Vault)

    @property
    def here(self) -> str:
        """Return what runs that begin here call their workspace."""
        return str(self.workspace) if self.place is None else self.place.name


# --- a run under way ---------------------------------------------------------------------------


Listener: TypeAlias = Callable[[Envelope], None] | Callable[[Envelope], Awaitable[None]]
"""Hears events after they are journaled. One that raises or hangs never harms the run."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a line right after it was taken. The same id gives the same receipt.

    `handling` is `answer`, a policy, or `reject` with the `reason`.
    """

    input_id: str
    handling: str
    reason: str = ""


class Machine(Protocol):
    """A run under way, as UIs and commands use it."""

    @property
    def run(self) -> Run:
        """Return the run as it stands."""

    @property
    def is_closed(self) -> bool:
        """Return whether this machine does nothing more: its run has ended, or goes on elsewhere."""

    async def say(
        self,
        words: str | Destination,
        *,
        question: str | None = None,
        unasked: bool = False,
        policy: Policy | None = None,
        source: str = "user",
        id: str | None = None,
    ) -> Receipt:
        """Give the run a line of the user; see `WorkflowStateMachine.say`."""

    async def withdraw(self, input_id: str) -> None:
        """Take back words that have not been delivered yet."""

    async def halt(self) -> None:
        """Stop the current turn and hold."""

    async def approve(self, question: str, decision: Decision) -> None:
        """Decide on a tool call that waits for approval; see `WorkflowStateMachine.approve`."""

    async def revoke(self, permission: str) -> None:
        """Take back what was granted for the rest of the run."""

    async def compact(self, note: str = "", *, room: int = 0) -> None:
        """Have the older turns summarised; see `WorkflowStateMachine.compact`."""

    async def rename(self, name: str) -> None:
        """Give the run a name; "" takes it away."""

    def commands(self) -> "Sequence[Command]":
        """Return the run's commands in the background, none where another process runs them."""

    def stop_command(self, handle: str) -> None:
        """End a command in the background; see `WorkflowStateMachine.stop_command`."""

    async def edit_todo(self, line: str) -> None:
        """Change the todo list; see `WorkflowStateMachine.edit_todo`."""

    async def stop(self, reason: str = "stopped by the user") -> None:
        """End the run; returns when it has ended."""

    async def unsuspend(self) -> None:
        """Let a suspended run go on, or one that was halted, where it was cut."""

    async def wait(self) -> Run:
        """Return the run once it has ended."""

    def events(self, since: int = 0) -> AsyncGenerator[Envelope]:
        """Yield the facts after number `since`, then what happens; see `WorkflowStateMachine.events`."""

    async def settled(self) -> Run:
        """Return the run once it has ended or only a person can move it on."""

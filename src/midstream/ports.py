"""The world as small protocols: what the rooms above the core need, and adapters give.

An adapter is done when it passes the port's contract in `midstream.testing.contracts`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec

from midstream.core.conversation import Message
from midstream.core.events import ContextChange, Usage
from midstream.core.inputs import RequestedCall
from midstream.core.mode import Mode
from midstream.core.names import Json, Outcome, Policy
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.core.safety.capability import Capability, PermissionMode, SandboxLevel
from midstream.core.safety.protected import Purpose, classify_path
from midstream.core.safety.redaction import Redactor, Withheld
from midstream.core.spec import Definition, Role, ToolSpec
from midstream.core.views.status import Lane


class Clock(Protocol):
    """The time. Tests have one that jumps (`midstream.testing.fakes.JumpingClock`)."""

    def now(self) -> float:
        """Return the time in seconds since 1970 (UTC)."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""


# --- models -----------------------------------------------------------------------------------


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model.

    `messages` are as the agent sees them: its own words as `assistant`, one result for each call.
    `level` is base, smart or fast; `model` (such as `openai:gpt-5`) overrides what the level names.
    With `must_call` the model has to call one of `tools`. What follows `must_call` tells the offline
    model where in which workflow it is; `visit` counts entries into the state from 1, `request` the
    requests of this turn from 1.
    """

    agent: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    level: str = "base"
    model: str | None = None
    must_call: bool = False
    workflow: str = ""
    state: str = ""
    visit: int = 1
    request: int = 1
    common_data: dict[str, Json] = {}
    variables: dict[str, Json] = {}
    input: Json = None


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A model's whole reply. `calls` are checked against the tools' schemas (`problem`)."""

    text: str
    calls: tuple[RequestedCall, ...] = ()
    usage: Usage | None = None


class ReplyListener(Protocol):
    """Hears a reply as it streams. Every method returns at once."""

    def text(self, delta: str) -> None:
        """Hear the next piece of the reply's words."""

    def thinking(self, delta: str) -> None:
        """Hear the next piece of the model's reasoning."""

    def calling(self) -> None:
        """Hear that the model has begun to ask for a tool."""

    def status(self, text: str) -> None:
        """Hear what the request is doing, such as waiting to retry."""


class Model(Protocol):
    """Models of all providers behind one method. Cancelling the call closes the stream."""

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return the reply to one request, its words told to `listener` as they come.

        Raises:
            WorldTrouble: the provider failed for good, or the stream was cut off.
            UserMistake: the model cannot be used as configured (no key, unknown name).
        """


# --- tools ------------------------------------------------------------------------------------


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended, and what the model is told."""

    outcome: Outcome
    text: str


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


async def _unrecorded(path: Path, before: bytes | None, after: bytes | None) -> None:
    """Record nothing: what a context does that no run stands behind."""


def forbids_secrets(request: Capability) -> str:
    """Object to secret files and to nothing else: what a context does that no policy stands behind."""
    purposes: dict[str, Purpose] = {"read": "read", "write": "write", "write_protected": "write"}
    purpose = purposes.get(request.kind)
    if purpose is None:
        return ""
    standing, reason = classify_path(request.target, purpose)
    return f"{request.target}: {reason}" if standing == "secret" else ""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a running tool may use. `stop` is set when the call should end softly, soon.

    `progress` hears pieces of output while the tool runs; it may be called from any thread.
    `changing(path, before, after)` is to be awaited right before a file's contents are replaced (None:
    there is no such file before, or after): they are recorded so that the change can be taken back.
    Where it raises, the file must be left as it is. `granted` are the capabilities a person has
    granted to this call or to the run; what the call would do beyond them and the rules is refused.

    `binds` is the digest of the plan this call was judged by (`tool.base.Planned`), "" where nobody
    judged it: a tool that writes does so only if what it is about to do has the same. `forbids(request)`
    says why policy keeps the call from one thing, such as a file a search came upon, "" where it does
    not; it may be called from any thread.
    """

    workspace: Path
    run: str
    agent: str
    stop: asyncio.Event
    progress: Callable[[str], None]
    changing: Callable[[Path, bytes | None, bytes | None], Awaitable[None]] = _unrecorded
    granted: tuple[str, ...] = ()
    binds: str = ""
    forbids: Callable[[Capability], str] = forbids_secrets


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


# --- handlers ---------------------------------------------------------------------------------


class HandlerResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a handler did and, for a transition handler, the state it returned."""

    changed: dict[str, Json] = {}
    removed: tuple[str, ...] = ()
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


# --- journals ---------------------------------------------------------------------------------


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

    async def runs(self) -> list[str]:
        """Return the ids of all runs, the oldest first."""


class Shelf(Protocol):
    """Large or old contents beside the journal, by what they are: put twice, kept once."""

    async def put(self, data: bytes) -> str:
        """Return the key (SHA-256, in hex) once the data is safe on the disk.

        Raises:
            JournalFull: there is no room.
        """

    async def get(self, key: str) -> bytes:
        """Return the data of a key.

        Raises:
            WorldTrouble: it is missing, or not what was put there.
        """

    def where(self, key: str) -> str:
        """Return where a person finds the data of a key, such as a file's path."""


class World(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The adapters a machine acts through. Shared by all machines of a process.

    `redactor` takes secrets out of what is journaled and shown; `withheld` remembers, in memory alone,
    what stood in the calls that are yet to be made.
    """

    model: Model
    tools: Tools
    journal: Journal
    shelf: Shelf
    clock: Clock
    validate: Validator
    workspace: Path
    redactor: Redactor = msgspec.field(default_factory=Redactor)
    withheld: Withheld = msgspec.field(default_factory=Withheld)


# --- engines and faces ------------------------------------------------------------------------

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
    """A run under way, as faces and commands use it."""

    @property
    def run(self) -> Run:
        """Return the run as it stands."""

    @property
    def is_closed(self) -> bool:
        """Return whether this machine does nothing more: its run has ended, or goes on elsewhere."""

    async def say(
        self,
        text: str,
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

    async def approve(
        self,
        question: str,
        *,
        granted: bool,
        for_run: bool = False,
        note: str = "",
        edited: dict[str, Json] | None = None,
    ) -> None:
        """Decide on a tool call that waits for approval; see `WorkflowStateMachine.approve`."""

    async def revoke(self, permission: str) -> None:
        """Take back what was granted for the rest of the run."""

    async def stop(self, reason: str = "stopped by the user") -> None:
        """End the run; returns when it has ended."""

    async def unsuspend(self) -> None:
        """Let a suspended run go on."""

    async def wait(self) -> Run:
        """Return the run once it has ended."""

    async def settled(self) -> Run:
        """Return the run once it has ended or only a person can move it on."""


class Engine(Protocol):
    """Where runs live. Every event of every run goes to the engine's listeners."""

    async def start(
        self,
        definition: Definition,
        *,
        handlers: Handlers | None = None,
        input: Json = None,
        variables: dict[str, Json] | None = None,
        allowed: Sequence[str] = (),
        approvals: Literal["ask", "deny"] = "ask",
    ) -> Machine:
        """Return a run that has begun."""

    def machines(self) -> tuple[Machine, ...]:
        """Return the runs of this process, the oldest first, ended ones included."""

    def listen(self, listener: Callable[[Envelope], None]) -> None:
        """Let a trusted, quick listener hear every event of every run, on the loop."""

    async def close(self) -> None:
        """Let go of every run: those that have not ended go on in a later process."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What the bottom line says. `enter` is what Enter will do now, in words; empty parts are left out.

    `thinking` is what the active run is doing, such as "reviewer is thinking". `busy`: it is in a
    turn or a handler, be it one that waits for the person, so that Esc has something to stop.
    `notes` are further words for the right edge, such as waiting inputs or background runs. `lanes`
    are the branches at work, `addressees` what `@name words` would do, by the name, `gone` the
    names of branches that have ended, and `shared` those that mean several branches, with these.
    `permission` is how much happens unasked, in a word or two.
    """

    mode: str
    enter: str
    state: str = ""
    thinking: str = ""
    model: str = ""
    cost: str = ""
    busy: bool = False
    notes: tuple[str, ...] = ()
    lanes: tuple[Lane, ...] = ()
    addressees: dict[str, str] = {}
    gone: frozenset[str] = frozenset()
    permission: str = ""
    shared: dict[str, tuple[str, ...]] = {}


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a line a face handed over.

    `taken`: it is on its way. `unclear`: it was begun before the open question `question` was on the
    screen; ask with one key whether it is the answer or a new instruction, the text kept, and submit
    again. `returned`: it had no effect, for `reason`; put it back into the editor. `exit`: leave.
    """

    kind: Literal["taken", "unclear", "returned", "exit"]
    reason: str = ""
    question: str = ""


class Desk(Protocol):
    """The console as its faces use it: where lines go and what the screen should say."""

    def status(self) -> Status:
        """Return what the bottom line says now."""

    def open_questions(self) -> tuple[Question, ...]:
        """Return the active run's open questions a person sees as cards (approvals included)."""

    async def submit(
        self,
        line: str,
        *,
        seen: Collection[str],
        question: str | None = None,
        as_new: bool = False,
        policy: Policy | None = None,
    ) -> Submitted:
        """Take a line: a `/command`, an answer, or words for the active run or chat.

        `seen` are the ids of the questions on the screen before the line's first key. `question`
        says which one it answers, `as_new` that it answers none.
        """

    async def halt(self) -> None:
        """Stop the active run's current turn (Esc)."""

    async def approve(
        self,
        question: str,
        *,
        granted: bool,
        for_run: bool = False,
        note: str = "",
        command: str | None = None,
    ) -> None:
        """Decide on a tool call that waits for approval, after a fresh key press.

        `command` is what a person would have run instead of the command it shows.
        """

    def completions(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return how the word at the end of `before` may go on: (whole word, description) pairs."""

    def waiting_inputs(self) -> tuple[str, ...]:
        """Return the lines that were taken and not yet delivered, the oldest first."""

    async def take_back(self) -> str | None:
        """Withdraw the newest line that waits and return it, None if it is too late for that."""


class Face(Protocol):
    """Where the console shows things: a terminal, plain lines, JSON lines."""

    def show(self, envelope: Envelope) -> None:
        """Show an event of a run. Returns at once; drawing may come later."""

    def say(self, text: str, *, kind: Literal["info", "note", "warning", "error"] = "info") -> None:
        """Show the console's own words (they may hold foreign text: sanitize before drawing)."""

    def recall(self, run: Run) -> None:
        """Know how a run stands whose events begin in the middle. Nothing is shown of it."""

    def turned_to(self, questions: Sequence[Question]) -> None:
        """Show what a run had asked before the lines went to it, where nothing else shows it."""

    def refresh(self) -> None:
        """Draw the status anew: the mode, the state or the open questions changed."""

    async def run(self, desk: Desk) -> None:
        """Read lines and hand them to the desk until the person leaves or the input ends."""

    async def close(self) -> None:
        """Return once everything shown has been written."""


class Models(Protocol):
    """Which models are used, and for which level."""

    def describe(self) -> str:
        """Return what is used now, in a few words for the bottom line."""

    def use(self, name: str | None) -> None:
        """Use this model for every level from now on; None: what the settings name.

        Raises:
            UserMistake: no model can be meant by that name.
        """

    def known(self) -> tuple[tuple[str, str], ...]:
        """Return (level or name, model) pairs a person may choose from."""


class Library(Protocol):
    """Where roles and workflows are found, by name."""

    def roles(self) -> dict[str, Role]:
        """Return every role by name."""

    def workflows(self) -> dict[str, str]:
        """Return every workflow's description by name."""

    async def load(self, name: str) -> tuple[Definition, Handlers]:
        """Return a workflow ready to run.

        Raises:
            UserMistake: there is no workflow of that name.
            AuthorMistake: its files have problems; the message lists all of them.
        """

    async def pinned(self, definition: Definition) -> Handlers:
        """Return the handlers of the script a run is pinned to, whatever the files are now.

        Raises:
            AuthorMistake: the script cannot be imported any more.
        """


# --- commands ---------------------------------------------------------------------------------


Choice: TypeAlias = Literal["", "old", "new", "stop"]
"""What a kept run follows whose workflow has changed since: its old copy, the new one, neither (it
ends). "": nobody has chosen yet.
"""


class RunsOperator(Protocol):
    """The runs of a workspace as `/commands` use them, wherever they live.

    `run` is the beginning of an id, in any case. What cannot be done raises UserMistake, unchanged.
    """

    def names(self) -> list[tuple[str, str]]:
        """Return the (id, description) pairs of the runs known now, those of this console first."""

    async def lines(self) -> list[str]:
        """Return where every run stands, a line each, the active one marked."""

    async def resume(self, run: str, choice: Choice = "") -> None:
        """Go on with a run nobody runs, or that is suspended, and make it the active one.

        An empty `run` is the only one that can be meant.
        """

    async def attach(self, run: str) -> None:
        """Make a run the active one: one of this console, or of another process."""

    async def detach(self) -> None:
        """Let lines go to the role again; the active run goes on."""

    async def send(self, run: str, text: str) -> None:
        """Give any run a line: the answer to its only question, else unasked words."""

    async def answer(self, run: str, text: str) -> None:
        """Answer what a run asks, the active one if `run` is empty; `#2 TEXT` names the question."""

    async def fork(self, at: int | None) -> None:
        """Go on in a copy of the active run as it was after fact `at`; the run itself stays."""

    async def undo(self) -> None:
        """Take back the last turn of the active run."""

    async def put_back(self) -> None:
        """Put files back that the run wrote after the point last gone back to."""


class McpAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is asked to approve of an MCP server: `text` is all of it, `code` what a yes gives
    back. Without a code there is nothing to approve, and the text says why.
    """

    text: str
    code: str = ""


class McpOperator(Protocol):
    """What a person can do with MCP servers."""

    async def listing(self) -> str:
        """Return how each server stands, in lines."""

    async def ask(self, name: str) -> McpAsked:
        """Return what there is to approve of a server: first its command, then what it offers."""

    async def approve(self, name: str, code: str) -> str:
        """Approve exactly what was shown with a code; return what is true now."""

    async def forget(self, name: str) -> str:
        """Take an approval back and end the server; return what is true now."""


class Permits(Protocol):
    """What may happen unasked in this process."""

    @property
    def mode(self) -> PermissionMode:
        """Return how much happens unasked now."""

    @property
    def sandbox(self) -> SandboxLevel:
        """Return what commands run in."""

    @property
    def is_untrusted(self) -> bool:
        """Return whether only files are read, since nobody has trusted the workspace."""

    def switch(self, mode: str) -> None:
        """Let more, or less, happen unasked from now on.

        Raises:
            UserMistake: it is no mode a command may go to.
        """

    def rules(self) -> tuple[tuple[str, str, str], ...]:
        """Return the rules as (allow, ask or deny; the rule; whose it is), in the order they count."""


class Operator(Protocol):
    """The console as its `/commands` use it. What cannot be done raises UserMistake, unchanged."""

    @property
    def runs(self) -> RunsOperator:
        """Return what can be done with the runs of the workspace."""

    @property
    def mode(self) -> Mode:
        """Return the mode: which role is chatted with, or which workflow is active."""

    @property
    def library(self) -> Library:
        """Return where roles and workflows are found."""

    @property
    def models(self) -> Models:
        """Return which models are used."""

    @property
    def permits(self) -> Permits:
        """Return what may happen unasked."""

    @property
    def mcp(self) -> McpOperator | None:
        """Return what can be done with MCP servers, None where the settings name none."""

    def tools(self) -> dict[str, ToolSpec]:
        """Return the tools agents may use, by name."""

    def active(self) -> Machine | None:
        """Return the run that lines go to now, None in a chat nothing was said in yet."""

    def machines(self) -> tuple[Machine, ...]:
        """Return every run of this console, the oldest first."""

    def settings(self) -> tuple[tuple[str, str, str], ...]:
        """Return (key, value, where it comes from) for every setting."""

    async def enter(self, mode: str, input: Json = None) -> None:
        """Go to a mode such as `role:dude`, or to a workflow, which starts with `input`."""

    async def stop_workflow(self) -> None:
        """End the active workflow and go back to the role it was started from."""

    async def clear(self) -> None:
        """Forget the chat of the current role; the next line starts a new one."""

    async def say(self, text: str, policy: Policy) -> None:
        """Give the active run words with this policy instead of the state's own."""

    def tell(self, text: str) -> None:
        """Show words of the console."""

    def leave(self) -> None:
        """Leave the console once this command is done."""

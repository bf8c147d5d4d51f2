"""What agents may call: what is to become of a call, what a running tool may use, how it ended."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from midstream.language.names import Json, Outcome
from midstream.language.spec import ToolSpec
from midstream.safety.capability import Capability, forbids_secrets
from midstream.views.side_effects import FileDiff

if TYPE_CHECKING:
    from midstream.safety.rules import Rule


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


class Changing(Protocol):
    """Records that a file is about to change; see `ToolContext`."""

    def __call__(
        self, path: Path, before: bytes | None, after: bytes | None, folders: Sequence[Path] = (), /
    ) -> Awaitable[None]:
        """Return once it is written down."""
        ...


async def _unrecorded(
    path: Path, before: bytes | None, after: bytes | None, folders: Sequence[Path] = (), /
) -> None:
    """Record nothing: what a context does that no run stands behind."""


def keeps_nothing(command: Capability) -> "tuple[Rule, ...]":
    """Keep a command from reading nothing: what a context does that no policy stands behind."""
    return ()


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has made of a file, from what it held first to what it holds now.

    `note` is what a person should know besides, such as "changed by others since" or why nothing can
    be compared. `is_same`: it holds what it held.
    """

    diff: FileDiff
    note: str = ""
    is_same: bool = False


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
    what a command reads without naming it. `changed(diff)` hears what was done to a file once it is done,
    from any thread.
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
    changed: Callable[[FileDiff], None] = _unseen


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

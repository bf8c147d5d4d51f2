"""Notices: shown while something happens, never journaled, and free to be lost.

A notice changes nothing: fold the facts without them and the run is the same.
"""

from typing import TypeAlias

import msgspec

from midstream.core.events import AnyFact, wire_name
from midstream.language.names import Json


class Notice(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    tag_field="type",
    tag=wire_name,
    omit_defaults=True,
):
    """The base of every notice. Never made itself. `branch`: as of facts."""

    branch: str = ""


class AgentThinking(Notice, frozen=True, kw_only=True):
    """A model request began, or says what it is doing (`status`, such as waiting to retry).

    `calling`: it has begun to ask for the tool of that name, and still says with which arguments.
    """

    agent: str
    state: str
    status: str = ""
    calling: str = ""


class TextDelta(Notice, frozen=True, kw_only=True):
    """A piece of an agent's words, in order, as it streams."""

    agent: str
    text: str


class ThinkingDelta(Notice, frozen=True, kw_only=True):
    """A piece of a model's reasoning, where the provider shows it."""

    agent: str
    text: str


class ToolProgress(Notice, frozen=True, kw_only=True):
    """A piece of a running tool's output."""

    call_id: str
    name: str
    text: str


class FileChanged(Notice, frozen=True, kw_only=True):
    """A tool call has changed a file: how many lines it took out and put in, and a unified diff.

    The diff has no head, and ends with a line in brackets that says what is left out of it, if anything.
    """

    call_id: str
    path: str
    added: int
    removed: int
    diff: str


class BackgroundEnded(Notice, frozen=True, kw_only=True):
    """A command in the background has ended: `handle` and `line` say which, `how` in words."""

    handle: str
    line: str
    how: str


class ListenerFailed(Notice, frozen=True, kw_only=True):
    """A listener raised; the run went on without it."""

    listener: str
    error: str


class JournalStalled(Notice, frozen=True, kw_only=True):
    """What happened cannot be kept: the run waits until it can. Words are refused meanwhile.

    `is_lost`: the journal's files were removed, replaced or cut short; that seldom ends by itself.
    """

    error: str
    hint: str = ""
    is_lost: bool = False


class JournalWorks(Notice, frozen=True, kw_only=True):
    """There is room again: the run goes on where it waited."""


class RunTaken(Notice, frozen=True, kw_only=True):
    """Another process goes on with the run; this one has let go of it. Nothing of it has ended."""


AnyNotice: TypeAlias = (
    AgentThinking
    | TextDelta
    | ThinkingDelta
    | ToolProgress
    | FileChanged
    | BackgroundEnded
    | ListenerFailed
    | JournalStalled
    | JournalWorks
    | RunTaken
)


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A fact or a notice with where and when: what listeners get and journals keep.

    `at` is in seconds since 1970 (UTC). `seq` counts a run's facts from 1; None for a notice.
    """

    run: str
    at: float
    event: AnyFact | AnyNotice
    seq: int | None = None

    @property
    def type(self) -> str:
        """Return the event's wire name, such as `state_transition`."""
        return str(type(self.event).__struct_config__.tag)

    def to_dict(self) -> dict[str, Json]:
        """Return the flat JSON object of an event: `type`, `run`, `at`, `seq` (facts), its fields.

        Fields at their default are left out. A run's pinned definition is left to the journal.
        """
        head: dict[str, Json] = {"type": self.type, "run": self.run, "at": self.at}
        if self.seq is not None:
            head["seq"] = self.seq
        body: dict[str, Json] = msgspec.to_builtins(self.event)
        body.pop("definition", None)
        return head | body

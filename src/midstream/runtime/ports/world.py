"""The adapters a run acts through, the time among them."""

from pathlib import Path
from typing import Protocol

import msgspec

from midstream.runtime.ports.models import Model
from midstream.runtime.ports.store import Journal, Shelf
from midstream.runtime.ports.tools import Tools, Validator
from midstream.safety.redaction import Redactor, Withheld


class Clock(Protocol):
    """The time. Tests have one that jumps (`midstream.testing.fakes.JumpingClock`)."""

    def now(self) -> float:
        """Return the time in seconds since 1970 (UTC). Somebody may set it, on or back."""

    def monotonic(self) -> float:
        """Return seconds that only grow, from wherever: their differences are how long things took."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""


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

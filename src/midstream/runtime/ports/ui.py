"""Where the console shows things."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.runtime.ports.session import Desk
from midstream.runtime.ports.tools import ChangedFile

InFull: TypeAlias = Literal["on", "off", "last"]
"""Which tool results and reasoning are shown in full, which else have a line or nothing."""


class Face(Protocol):
    """Where the console shows things: a terminal, plain lines, JSON lines."""

    def show(self, envelope: Envelope, *, is_behind: bool = False) -> None:
        """Show an event of a run. Returns at once; drawing may come later.

        `is_behind`: lines do not go to that run. What it does is kept until they do (`turned_to`),
        or, once it has ended, until the last is asked for in full.
        """

    def say(self, text: str, *, kind: Literal["info", "note", "warning", "error"] = "info") -> None:
        """Show the console's own words (they may hold foreign text: sanitize before drawing)."""

    def recall(self, run: Run) -> None:
        """Know how a run stands whose events begin in the middle. Nothing is shown of it."""

    def past(self, run: Run) -> None:
        """Show the last turns of a chat that is gone on with, so that a person sees where they were."""

    def turned_to(self, run: str, questions: Sequence[Question]) -> None:
        """Show what a run did and asked before the lines went to it, where nothing else shows it."""

    def show_changes(self, changes: Sequence[ChangedFile]) -> None:
        """Show what became of files, each with its difference."""

    def hand(self, words: str) -> None:
        """Put words into the editor, to be changed and sent again; nothing typed there is lost."""

    def refresh(self) -> None:
        """Draw the status anew: the mode, the state or the open questions changed."""

    def show_in_full(self, what: InFull) -> None:
        """Show tool results and reasoning in full from now on (`on`) or not (`off`), or the `last`.

        The `last` again, with nothing new since, is the one before it.
        """

    def copy(self, text: str) -> bool:
        """Put a text into the person's clipboard; return False where that cannot be done for sure."""

    def follow(self, run: Callable[[], Run] | None) -> bool:
        """Keep the graph of a workflow's run above the prompt while it goes on; None: no more.

        Return whether there is a place for it. It goes by itself once the run is over or left.
        """

    async def run(self, desk: Desk) -> None:
        """Read lines and hand them to the desk until the person leaves or the input ends."""

    async def close(self) -> None:
        """Return once everything shown has been written."""

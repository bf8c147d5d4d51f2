"""PlainUI: lines in, plain lines out, for pipes, files, logs and terminals without any skill."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from midstream.app.ui import UI, Console, InFull, is_own
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.language.names import mode_words
from midstream.system.own_process import columns, is_terminal, own_redactor
from midstream.tui.changed_lines import changed_lines
from midstream.tui.event_lines import (
    Block,
    Kind,
    Words,
    own_words,
    plain_words,
    question_lines,
    typed,
)
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.pipes import STDIN, STDOUT, LineReader, QueueWriter
from midstream.tui.styled_lines import Line, rows, to_plain
from midstream.views.side_effects import ChangedFile


class PlainUI(UI):
    """Prints what happens as plain lines and reads stdin as it comes.

    Nothing here is drawn twice: streaming words come when they are whole, tools when they end.
    """

    def __init__(self, *, stdin: int = STDIN, stdout: int = STDOUT) -> None:
        """Make one over two file descriptors, which stay open."""
        self._renderer = EventRenderer(with_cards=False, is_own=is_own)
        self._reader = LineReader(
            stdin, taking=self._taking, warn=lambda text: self.say(text, kind="warning")
        )
        self._writer = QueueWriter(stdout, on_broken=self._reader.stop)
        self._settles = False
        self._is_terminal = is_terminal(stdout)
        self._is_typed = is_terminal(stdin)

    @property
    def lost(self) -> OSError | None:
        """Return why what was shown could not be written; None as long as it could."""
        return self._writer.lost

    def show(self, envelope: Envelope, *, is_behind: bool = False) -> None:
        """Show an event of a run; see `UI.show`."""
        self._print(self._renderer.render(envelope, is_behind=is_behind))
        self.stands(envelope)
        if not self._settles:
            self._settles = True
            # What an interruption ended is told in the same breath of the loop as the interruption.
            soon(self._settle)

    def stands(self, envelope: Envelope) -> None:
        """Take note that what an event says stands somewhere, here or on another stream."""
        self._renderer.live.forget(envelope.run, envelope.event)

    def left(self) -> None:
        """Print what came of replies nobody hears the end of; see `UI.left`."""
        self._settle()
        self._print(self._renderer.left())

    def say(self, text: str, *, kind: Kind = "info") -> None:
        """Show the console's own words; see `UI.say`."""
        # What is said comes after what was heard: an interruption is summed up first.
        self._print(self._renderer.settle())
        self._writer.write(self._laid(own_words(own_redactor().redacted(text), kind)))

    def recall(self, run: Run) -> None:
        """Know how a run stands; see `UI.recall`."""
        self._print(self._renderer.recall(run))

    def past(self, run: Run) -> None:
        """Print the last turns of a chat; see `UI.past`."""
        self._print(self._renderer.past(run))

    def turned_to(self, run: str, questions: Sequence[Question]) -> None:
        """Print what a run did meanwhile, and asks; see `UI.turned_to`."""
        self._print(self._renderer.kept(run))
        for question in questions:
            self._print([*question_lines(question)])

    def show_in_full(self, what: InFull) -> None:
        """Print results and reasoning in full; see `UI.show_in_full`."""
        if what == "last":
            self._print(self._renderer.last_in_full())
        else:
            self._renderer.manner.is_verbose = what == "on"

    def show_changes(self, changes: Sequence[ChangedFile]) -> None:
        """Print what became of files; see `UI.show_changes`."""
        self._print([*changed_lines(changes)])

    def hand(self, words: str) -> None:
        """Print words that may be sent again; see `UI.hand`."""
        self.say(f"They were: {words}", kind="note")

    async def run(self, session: Console) -> None:
        """Hand over lines until the input ends, the session says to leave, or the output is broken."""
        if self._is_terminal and self._is_typed:
            # Nothing is drawn here that could say it.
            keys = "Enter sends a line, /help lists the commands, Ctrl-D leaves."
            self.say(f"{mode_words(session.status().mode).capitalize()}. {keys}", kind="note")
        await self._reader.run(session)

    async def close(self) -> None:
        """Return when everything shown is written."""
        self._settle()
        await self._writer.aclose()

    def _settle(self) -> None:
        self._settles = False
        self._print(self._renderer.settle())

    def _taking(self, line: str) -> None:
        if not (self._is_terminal and self._is_typed):
            # A terminal has shown it as it was typed.
            self._print([*typed(line)])

    def _print(self, blocks: list[Block]) -> None:
        """Write blocks. Where plain lines go they may stay: nothing secret goes with them."""
        lines = [
            line
            for block in blocks
            for line in (plain_words(block) if isinstance(block, Words) else [block])
        ]
        if text := self._laid(lines):
            self._writer.write(own_redactor().redacted(text))

    def _laid(self, lines: list[Line]) -> str:
        """Return lines as text, broken between words where a terminal would break them anywhere."""
        if not self._is_terminal:
            return to_plain(lines)
        redacted = own_redactor().redacted
        # Broken in two, nobody would know a secret.
        clean = [
            msgspec.structs.replace(
                line, fragments=tuple((style, redacted(text)) for style, text in line.fragments)
            )
            for line in lines
        ]
        found = [row for line in clean for row in rows(line, columns())]
        return "".join("".join(text for _, text in row).rstrip() + "\n" for row in found)


def soon(action: Callable[[], None]) -> None:
    """Call something in this breath of the loop's; at once where there is none."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        action()
        return
    loop.call_soon(action)

"""JsonUI: every fact and notice as one ASCII JSON object a line, for programs that read along."""

import json
import os
from collections.abc import Callable, Sequence

import msgspec

from midstream.app.ui import UI, Console
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.language.names import Json
from midstream.safety.sanitize import scrubbed
from midstream.system.own_process import own_redactor
from midstream.tui.event_lines import Kind
from midstream.tui.pipes import STDIN, STDOUT, LineReader, QueueWriter
from midstream.tui.plain_lines import PlainUI
from midstream.views.side_effects import ChangedFile


class JsonUI(UI):
    """Prints events as they are (see `midstream.Envelope.to_dict`) and reads stdin as it comes.

    The console's own words are `{"type": "console", "kind": ..., "text": ...}`.
    """

    def __init__(self, *, stdin: int = STDIN, stdout: int = STDOUT) -> None:
        """Make one over two file descriptors, which stay open."""
        self._reader = LineReader(
            stdin, taking=lambda line: None, warn=lambda text: self.say(text, kind="warning")
        )
        self._writer = QueueWriter(stdout, on_broken=self._broken)
        self._tell_lost: Callable[[], None] = lambda: None

    @property
    def lost(self) -> OSError | None:
        """Return why what was shown could not be written; None as long as it could."""
        return self._writer.lost

    def when_lost(self, tell: Callable[[], None]) -> None:
        """Let `tell` be called, from any thread, when nothing can be written any more."""
        self._tell_lost = tell
        if self.lost is not None:
            tell()

    def show(self, envelope: Envelope, *, is_behind: bool = False) -> None:
        """Show an event of a run; see `UI.show`."""
        self._write(envelope.to_dict())

    def say(self, text: str, *, kind: Kind = "info") -> None:
        """Show the console's own words; see `UI.say`."""
        self._write({"type": "console", "kind": kind, "text": text})

    def show_changes(self, changes: Sequence[ChangedFile]) -> None:
        """Say what became of files; see `UI.show_changes`."""
        for each in changes:
            told: dict[str, Json] = {"type": "console", "kind": "diff"}
            held: dict[str, Json] = msgspec.to_builtins(each.diff)
            self._write(told | held | {"note": each.note})

    def hand(self, words: str) -> None:
        """Say words that may be sent again; see `UI.hand`."""
        self._write({"type": "console", "kind": "words", "text": words})

    def turned_to(self, run: str, questions: Sequence[Question]) -> None:
        """Say what is being asked; see `UI.turned_to`."""
        for question in questions:
            asked: dict[str, Json] = msgspec.to_builtins(question)
            self._write(
                {"type": "console", "kind": "info", "text": question.text, "question": asked}
            )

    async def run(self, session: Console) -> None:
        """Hand over lines until the input ends, the session says to leave, or the output is broken."""
        await self._reader.run(session)

    async def close(self) -> None:
        """Return when everything shown is written."""
        await self._writer.aclose()

    def _broken(self) -> None:
        self._reader.stop()
        self._tell_lost()

    def _write(self, value: dict[str, Json]) -> None:
        try:
            text = json_line(own_redactor().redacted_json(value))
        except ValueError as error:
            # Numbers JSON does not know (NaN): the line is lost, the stream stays readable.
            about = f"An event of type {value.get('type')} could not be written: {error}"
            text = json_line({"type": "console", "kind": "error", "text": about})
        self._writer.write(text)


def json_line(value: dict[str, Json]) -> str:
    r"""Return a JSON object on one line, in ASCII, with lone surrogates as U+FFFD.

    Raises:
        ValueError: a number in it is not finite.
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    if "\\ud" in text:
        clean = scrubbed(json.dumps(value, allow_nan=False, ensure_ascii=False))
        text = json.dumps(json.loads(clean), allow_nan=False, separators=(",", ":"))
    return text + "\n"


def line_ui(stdout: int, *, is_json: bool, is_read: bool = False) -> JsonUI | PlainUI:
    """Return the UI of lines: JSON always goes to stdout, plain lines to `stdout`.

    `is_read`: a terminal's, where a screen reader reads them.
    """
    if is_read:
        from midstream.tui.screen_reader import ScreenReaderUI  # Windows has no such terminal

        return ScreenReaderUI(stdout=os.dup(stdout))
    # A descriptor of its own: what others write to stdout meanwhile is told, not put between.
    return JsonUI(stdout=os.dup(STDOUT)) if is_json else PlainUI(stdout=os.dup(stdout))

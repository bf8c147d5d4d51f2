"""The line under the cursor: what was typed, when it was begun, and what came back of it.

A line belongs to the moment its first key was pressed: it can answer only a question that stood on
the screen then (`seen`). Whatever returns without effect is put back, or, when something newer is
being typed, kept for the Up key.
"""

import re
import time
from collections.abc import AsyncGenerator, Callable
from typing import Final

import msgspec
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, vi_insert_mode, vi_navigation_mode
from prompt_toolkit.history import History

from midstream.core.pictures import mark_before
from midstream.core.routing import is_command
from midstream.safety.sanitize import scrubbed
from midstream.tui.completion import Words, complete, mention_in
from midstream.tui.line_history import LineHistory

_HISTORY_CHARS = 20_000

ENTERED: Final = "\0"
"""Stands behind words that were entered, in what is kept of them with the line being typed."""

UNFOLDED_CHARS = 20_000
"""What is longer stays folded: the editor would not keep up with the keys."""


def in_vi(prompt: str) -> str:
    """Return the prompt; while keys are vi's commands, and not text, a colon says so."""
    return prompt.replace("›", ":") if vi_navigation_mode() else prompt


def esc_in_vi(what: str) -> str:
    """Return what Esc does; while vi's keys are text, the first one only ends that."""
    return f"Esc {what}" if what and vi_insert_mode() else what


class Typed(msgspec.Struct, frozen=True, kw_only=True):
    """A line as it was sent. `shown` is what the editor held (long pastes as labels)."""

    text: str
    shown: str
    seen: frozenset[str]


class Editor:
    """The editor's buffer with its pastes, history and the questions each line was begun under."""

    def __init__(
        self,
        history: History,
        *,
        on_screen: Callable[[], frozenset[str]],
        completions: Callable[[str], tuple[tuple[str, str], ...]],
        mentions: Callable[[str], AsyncGenerator[tuple[tuple[str, str], ...], None]] | None = None,
    ) -> None:
        """Make one. `on_screen` returns the ids of the questions drawn now.

        `completions` and `mentions` are those of the session (`app.ui.Console`).
        """
        self.returned: list[Typed] = []
        self.on_their_way: list[Typed] = []
        """Lines that were entered, until it is known what became of them."""
        self.entered_at = 0.0
        """Since when there are such lines, by `time.monotonic`."""
        self.is_away = False
        self.unsent_changed: Callable[[], None] = lambda: None
        self.seen: frozenset[str] = frozenset()
        self.came_back: Typed | None = None
        """The line in the editor where it came back by itself and nobody has touched it yet."""
        self._is_doubtful = False
        self._on_screen = on_screen
        self._pastes = Pastes()
        self._was_empty = True
        self._words = Words(
            completions,
            mentions,
            state=lambda: self.buffer.complete_state,
            changed=lambda: self.buffer.on_completions_changed.fire(),
        )
        self.buffer = Buffer(
            history=history,
            multiline=True,
            completer=self._words,
            complete_while_typing=Condition(lambda: self.completes),
            on_text_changed=self._changed,
            # Where prompt_toolkit's own keys hand a line over (Alt-#), it stays in the editor.
            accept_handler=lambda _: True,
        )

    @property
    def is_empty(self) -> bool:
        """Return whether nothing has been typed, so that single keys may have meanings."""
        return not self.buffer.text

    @property
    def completes(self) -> bool:
        """Return whether Tab completes here: in a command, and in a mention."""
        text, before = self.buffer.text, self.buffer.document.text_before_cursor
        return text.startswith(("/", "#")) or mention_in(before) is not None

    @property
    def has_returned(self) -> bool:
        """Return whether the line is one that came back by itself and that nobody has touched yet."""
        at_end = self.buffer.cursor_position == len(self.buffer.text)
        return self.came_back is not None and at_end and not vi_navigation_mode()

    def begin_anew(self, text: str) -> None:
        """Type what begins another line than the one that came back, which Up still knows."""
        shown, whole = self.buffer.text, self.unfolded()
        is_known = shown in self.buffer.history.get_strings()
        if not is_known:  # It is from an earlier session, and was never sent.
            self._remember(shown)
        if not is_known or shown != whole:  # Of a folded one the history has only its label.
            self.returned.append(Typed(text=whole, shown=shown, seen=self.seen))
        self.replace("")
        self.buffer.insert_text(text)

    def touched(self) -> None:
        """Take note that the line which came back is wanted."""
        self.came_back = None

    def _changed(self, buffer: Buffer) -> None:
        self.came_back, self._is_doubtful = None, False
        if self._was_empty and buffer.text:
            self.seen = self._on_screen()
        self._was_empty = not buffer.text

    def paste(self, text: str) -> None:
        """Insert pasted text, folded if it is long."""
        if self.has_returned and is_command(text):
            self.begin_anew("")
        self.buffer.insert_text(self._pastes.folded(scrubbed(text)))

    def paste_behind(self, before: str, text: str) -> None:
        """Insert text that was asked for when `before` stood before the cursor, and came later.

        It goes there, not into what was typed meanwhile; to the cursor where another line stands by now.
        """
        whole, cursor = self.buffer.text, self.buffer.cursor_position
        if not whole.startswith(before) or cursor <= len(before):
            self.paste(text)
            return
        shown = self._pastes.folded(scrubbed(text))
        after = before + shown + whole[len(before) :]
        self.buffer.document = Document(after, cursor + len(shown))

    def swap(self, text: str, mark: str) -> None:
        """Put a mark in the place of what was pasted last, if that still stands in the line."""
        whole, cursor = self.buffer.text, self.buffer.cursor_position
        start = whole.rfind(text)
        if not text or start < 0:
            return
        mark += "" if whole[start + len(text) : start + len(text) + 1].isspace() else " "
        shift = len(mark) - len(text)
        after = cursor + shift if cursor >= start + len(text) else min(cursor, start)
        seen = self.seen
        self.buffer.document = Document(whole[:start] + mark + whole[start + len(text) :], after)
        self.seen = seen

    def join(self, text: str, what: str) -> None:
        """Insert a text as a label that says what it is."""
        before = self.buffer.document.text_before_cursor
        gap = "" if not before or before[-1].isspace() else " "
        self.buffer.insert_text(f"{gap}{self._pastes.kept(scrubbed(text), what)} ")

    @property
    def is_folded(self) -> bool:
        """Return whether the line holds a label that stands for a longer text."""
        return self.unfolded() != self.buffer.text

    def unfolded(self) -> str:
        """Return the whole line, with every text where its label stands."""
        return self._pastes.unfolded(self.buffer.text)

    def unsent(self) -> str:
        """Return what nobody else may have: entered words, `ENTERED`, and the line being typed.

        With that stand the lines Up brings back, as far as the history has not all of them.
        """
        if self._is_doubtful:
            return f"{self.unfolded()}{ENTERED}"
        entered = "\n".join(line.text for line in self.on_their_way)
        long = (line.text for line in self.returned if not self.remembers(line))
        typed = "\n".join(filter(None, (*long, self.unfolded())))
        return f"{entered}{ENTERED}{typed}" if entered else typed

    def unfold(self) -> bool:
        """Put the text in the place of the label at the cursor; return False where it is too long."""
        text, cursor = self.buffer.text, self.buffer.cursor_position
        span = self._pastes.label_at(text, cursor)
        if span is None:
            return True
        whole = self._pastes.unfolded(text[span[0] : span[1]])
        if len(text) + len(whole) > UNFOLDED_CHARS:
            return False
        self.buffer.save_to_undo_stack()
        before = text[: span[0]] + whole
        self.buffer.document = Document(before + text[span[1] :], len(before))
        return True

    def replace(self, text: str) -> None:
        """Have another text in the line, as one change; a very long one folded."""
        text = scrubbed(text)
        shown = text if len(text) <= UNFOLDED_CHARS else self._pastes.folded(text)
        self.buffer.save_to_undo_stack()
        self.buffer.document = Document(shown, len(shown))

    def insert(self, text: str) -> None:
        """Type keys that turned out to mean nothing else; in vi's command mode nothing is typed."""
        if not vi_navigation_mode():
            self.buffer.insert_text(text)

    def new_line(self) -> None:
        """Insert a line break."""
        self.buffer.insert_text("\n")

    def continues(self) -> bool:
        """Turn a trailing backslash into a line break; return whether there was one."""
        before = self.buffer.document.text_before_cursor
        if not before.endswith("\\") or before.endswith("\\\\"):
            return False
        self.buffer.delete_before_cursor()
        self.new_line()
        return True

    def backspace(self) -> None:
        """Delete the character before the cursor, a folded paste or a picture's mark as a whole.

        Among vi's commands the key deletes nothing: it goes left.
        """
        if vi_navigation_mode():
            self.buffer.cursor_left()
            return
        before = self.buffer.document.text_before_cursor
        label = self._pastes.label_before(before) or mark_before(before)
        self.buffer.delete_before_cursor(len(label) or 1)

    def take(self) -> Typed:
        """Return the line and empty the editor; the line goes into the history."""
        line = self._line()
        self._remember_unsent()
        self._remember(line.shown)
        self._empty()
        return line

    def send(self) -> Typed:
        """Return the same of a line to deliver: words stay unsent until `arrived`.

        A command does not: nobody may be led to give it twice. One that is too long for the history does,
        too: it would be kept nowhere.
        """
        line = self._line()
        if not (is_command(line.text) and self.remembers(line)):
            if not self.on_their_way:
                self.entered_at = time.monotonic()
            self.on_their_way.append(line)
        return self.take()

    def arrived(self, line: Typed) -> None:
        """Take note that somebody else has a line by now, or that it came back."""
        found = next((each for each in self.on_their_way if each.text == line.text), None)
        if found is not None:
            self.on_their_way.remove(found)
            self.unsent_changed()

    def remembers(self, line: Typed) -> bool:
        """Return whether the history has all of a line, in later sessions, too."""
        return len(line.text) <= _HISTORY_CHARS

    def _line(self) -> Typed:
        shown = scrubbed(self.buffer.text)
        return Typed(text=self._pastes.unfolded(shown), shown=shown, seen=self.seen)

    def clear(self) -> None:
        """Empty the editor; the Up key brings the line back."""
        self._remember_unsent()
        self._remember(self.buffer.text)
        self._empty()

    def drop(self) -> None:
        """Empty the editor of a line that is not worth a place in the history."""
        self._remember_unsent()
        self._empty()

    def _remember_unsent(self) -> None:
        """Keep what was typed before the history was looked through, and what was changed in it."""
        buffer = self.buffer
        known = {*buffer.history.get_strings(), buffer.text}
        for text in [*buffer._working_lines]:
            if text not in known:
                self._remember(text)

    def _empty(self) -> None:
        self.buffer.reset()
        # Every line begins as text, also where vi's commands ended the last one.
        get_app().vi_state.reset()
        # Resetting a buffer does not count as a change of its text.
        self._was_empty = True
        self.came_back, self._is_doubtful = None, False
        self.seen = frozenset()
        self.unsent_changed()

    def _remember(self, text: str) -> None:
        history = self.buffer.history
        earlier = history.get_strings()
        if text.strip() and (not earlier or earlier[-1] != text):
            if isinstance(history, LineHistory):
                history.remember(text, later=self._pastes.told_later(text, most=_HISTORY_CHARS))
            else:
                history.append_string(text)

    def bring_back(self, line: Typed, *, unasked: bool = False) -> bool:
        """Put a line back; return False if newer text stands there (Up brings the line then).

        Where nobody asked for it a `/` typed next is not its end, but the beginning of a new line.
        """
        if self.is_away or not self.is_empty:
            self.returned.append(line)
            return False
        self.buffer.document = Document(line.shown, len(line.shown))
        self.seen = line.seen
        self.came_back = line if unasked else None
        return True

    def restore(self, text: str, *, is_doubtful: bool = False) -> bool:
        """Put a line of an earlier session back, folded if it is long; see `bring_back`.

        One that `is_doubtful` may have been sent, and is kept as such until it is changed.
        """
        shown = self._pastes.folded(scrubbed(text))
        line = Typed(text=text, shown=shown, seen=frozenset())
        is_back = self.bring_back(line, unasked=True)
        self._is_doubtful = is_doubtful and is_back
        return is_back

    def offer(self, text: str) -> None:
        """Keep words that had no effect for the Up key, where nothing is typed over them."""
        shown = self._pastes.folded(scrubbed(text))
        self.returned.append(Typed(text=text, shown=shown, seen=frozenset()))

    def complete(self) -> None:
        """Complete the word before the cursor as far as it is certain; show the choices, go on."""
        complete(self.buffer, self._words)

    def up(self) -> None:
        """Go up: within the text, to a line that came back undelivered, or into the history."""
        if self.is_empty and self.returned:
            self.bring_back(self.returned.pop())
        else:
            self.buffer.auto_up()


_FOLD_CHARS: Final = 2000
_FOLD_LINES: Final = 20
_LABEL: Final = re.compile(r"\[((?:pasted|output) \d+ (?:lines?|characters)) #\d+\]")


class Pastes:
    """What was pasted in this session and stands in the editor, or the history, as a label."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def folded(self, text: str) -> str:
        """Return the text itself, or a label for it when it is long."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = len(text.removesuffix("\n").split("\n"))
        if len(text) <= _FOLD_CHARS and lines <= _FOLD_LINES:
            return text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return self.kept(text, f"pasted {size}")

    def kept(self, text: str, what: str) -> str:
        """Return a label for a text: what it is, as `pasted 214 lines` or `output 3 lines`."""
        label = f"[{what} #{len(self._texts) + 1}]"
        self._texts[label] = text
        return label

    def unfolded(self, text: str) -> str:
        """Return the text with every label's own text in its place."""
        return _LABEL.sub(lambda found: self._texts.get(found[0], found[0]), text)

    def told_later(self, text: str, *, most: int) -> str:
        """Return the text as a later session may have it, where no label stands for anything.

        Whole, or, where it has more than `most` characters, with words that say what was there.
        """
        whole = self.unfolded(text)
        if len(whole) <= most:
            return whole
        return _LABEL.sub(
            lambda found: f"({found[1]}, not kept)" if found[0] in self._texts else found[0], text
        )

    def label_at(self, text: str, position: int) -> tuple[int, int] | None:
        """Return where the label at a position begins and ends, else the only one of the text."""
        found = [each.span() for each in _LABEL.finditer(text) if each[0] in self._texts]
        around = [span for span in found if span[0] <= position <= span[1]]
        return around[0] if around else found[0] if len(found) == 1 else None

    def label_before(self, text: str) -> str:
        """Return the label the text ends with, "" if none: one key deletes it whole."""
        return next((label for label in self._texts if text.endswith(label)), "")

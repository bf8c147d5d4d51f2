"""The line under the cursor: what was typed, when it was begun, and what came back of it.

A line belongs to the moment its first key was pressed: it can answer only a question that stood on
the screen then (`seen`). Whatever returns without effect is put back, or, when something newer is
being typed, kept for the Up key.
"""

from collections.abc import AsyncGenerator, Callable, Iterable

import msgspec
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History

from midstream.console.pasting import Pastes
from midstream.core.safety.sanitize import sanitized, scrubbed

_HISTORY_CHARS = 20_000


def is_command(text: str) -> bool:
    """Return whether a line is a command, which is no answer, no note and no words."""
    return text.startswith("/") and not text.startswith("//")


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
    ) -> None:
        """Make one. `on_screen` returns the ids of the questions drawn now."""
        self.returned: list[Typed] = []
        self.seen: frozenset[str] = frozenset()
        self._on_screen = on_screen
        self._pastes = Pastes()
        self._was_empty = True
        self._words = _Words(completions)
        self.buffer = Buffer(
            history=history,
            multiline=True,
            completer=self._words,
            complete_while_typing=Condition(lambda: self.buffer.text.startswith("/")),
            on_text_changed=self._changed,
        )

    @property
    def is_empty(self) -> bool:
        """Return whether nothing has been typed, so that single keys may have meanings."""
        return not self.buffer.text

    def _changed(self, buffer: Buffer) -> None:
        if self._was_empty and buffer.text:
            self.seen = self._on_screen()
        self._was_empty = not buffer.text

    def paste(self, text: str) -> None:
        """Insert pasted text, folded if it is long."""
        self.buffer.insert_text(self._pastes.folded(scrubbed(text)))

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
        """Delete the character before the cursor, a folded paste as a whole."""
        label = self._pastes.label_before(self.buffer.document.text_before_cursor)
        self.buffer.delete_before_cursor(len(label) or 1)

    def take(self) -> Typed:
        """Return the line and empty the editor; the line goes into the history."""
        shown = scrubbed(self.buffer.text)
        line = Typed(text=self._pastes.unfolded(shown), shown=shown, seen=self.seen)
        self._remember(line.text if len(line.text) <= _HISTORY_CHARS else shown)
        self._empty()
        return line

    def clear(self) -> None:
        """Empty the editor; the Up key brings the line back."""
        self._remember(self.buffer.text)
        self._empty()

    def _empty(self) -> None:
        self.buffer.reset()
        # Resetting a buffer does not count as a change of its text.
        self._was_empty = True
        self.seen = frozenset()

    def _remember(self, text: str) -> None:
        history = self.buffer.history
        earlier = history.get_strings()
        if text.strip() and (not earlier or earlier[-1] != text):
            history.append_string(text)

    def bring_back(self, line: Typed) -> bool:
        """Put a line back; return False if newer text stands there (Up brings the line then)."""
        if not self.is_empty:
            self.returned.append(line)
            return False
        self.buffer.document = Document(line.shown, len(line.shown))
        self.seen = line.seen
        return True

    def offer(self, text: str) -> None:
        """Keep words that had no effect for the Up key, where nothing is typed over them."""
        shown = self._pastes.folded(scrubbed(text))
        self.returned.append(Typed(text=text, shown=shown, seen=frozenset()))

    def complete(self) -> None:
        """Complete the word before the cursor as far as it is certain; show the choices, go on."""
        buffer = self.buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_next()
            return
        found = list(self._words.get_completions(buffer.document, CompleteEvent()))
        rests = [item.text[-item.start_position :] for item in found]
        common = _common_beginning(rests)
        if common:
            buffer.insert_text(common)
        elif len(found) > 1 and buffer.complete_state is not None:
            buffer.complete_next()
        elif len(found) > 1:
            buffer.start_completion()

    def up(self) -> None:
        """Go up: within the text, to a line that came back undelivered, or into the history."""
        if self.is_empty and self.returned:
            self.bring_back(self.returned.pop())
        else:
            self.buffer.auto_up()


def _common_beginning(texts: list[str]) -> str:
    if not texts:
        return ""
    first, last = min(texts), max(texts)
    length = next(
        (n for n, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]),
        len(first),
    )
    return first[:length]


class _Words(Completer):
    def __init__(self, completions: Callable[[str], tuple[tuple[str, str], ...]]) -> None:
        self._completions = completions

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        before = document.text_before_cursor
        word = before[max(before.rfind(" "), before.rfind("\n")) + 1 :]
        for whole, description in self._completions(before):
            yield Completion(
                whole, -len(word), display=sanitized(whole), display_meta=sanitized(description)
            )

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        for completion in self.get_completions(document, complete_event):
            yield completion

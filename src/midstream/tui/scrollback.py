"""Scrollback: events become lines above the prompt, many in one frame, none in a hurry.

Events come as fast as a run makes them; a screen needs about thirty frames a second and a person
none at the cost of a key's echo. So events wait in a queue, are told and laid out in slices of a
few milliseconds, and one frame prints what is ready. A terminal that has not taken the last frame
gets no further one. If it is slower than the output for long, the oldest lines are left out, and
counted: the journal has them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, TypeAlias

import msgspec

from midstream.core import events as e
from midstream.core.notices import Envelope, ToolProgress
from midstream.core.question import Question
from midstream.system.own_process import own_redactor
from midstream.tui import markdown
from midstream.tui.event_lines import Block, Kind, Words, own_words, plain_words
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.styled_lines import Line, broken_there, is_wider, rows, to_ansi, without_end
from midstream.tui.themes import Look

FRAME_S: Final = 1 / 30
_SLICE_S: Final = 0.002
_FRAME_CHARS: Final = 32_000
_MIN_FRAME_CHARS: Final = 2_000
_MAX_WAITING: Final = 20_000
_LONG_CHARS: Final = 20_000
_HURRY: Final = 300
"""With so many entries waiting, words are shown as written, not rendered."""


class Behind(msgspec.Struct, frozen=True):
    """An event of a run that is out of sight: it has its place in the queue, and no line for now."""

    envelope: Envelope


class LongQuestion(msgspec.Struct, eq=False):
    """A question its card does not hold, whole. `stands`: the terminal was given all of it."""

    run: str
    question: Question
    lines: Sequence[Line]
    stands: bool = False


Entry: TypeAlias = Envelope | Behind | LongQuestion | list[Block]


class Scrollback:
    """The queue from events to printed rows. All methods are for the loop's thread."""

    def __init__(
        self,
        renderer: EventRenderer,
        *,
        width: Callable[[], int],
        look: Look,
        draw: Callable[[str], bool],
    ) -> None:
        """Make one.

        `draw` prints text above the prompt and draws the prompt anew; with an empty text it does
        the latter alone. It returns False if the terminal cannot take a frame now.
        """
        self._renderer = renderer
        self._width = width
        self._look = look
        self._draw = draw
        self._waiting: deque[Entry] = deque()
        self._blocks: deque[Block | LongQuestion] = deque()
        self._rows: deque[str] = deque()
        self._after: Envelope | None = None
        self._ready: list[str] = []
        self._ready_chars = 0
        self._in_full: dict[str, LongQuestion] = {}
        self._ending: list[LongQuestion] = []
        """Those whose last row is ready."""
        self._frame_chars = _FRAME_CHARS
        self._left_out = 0
        self._is_dirty = False
        self._rendering: tuple[asyncio.Future[list[Line]], Words] | None = None
        self._is_over = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_frame = 0.0

    def open(self) -> None:
        """Begin to draw, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._schedule()

    def add(self, entry: Entry) -> None:
        """Queue an event, or blocks of our own. Returns at once."""
        self._waiting.append(entry)
        if isinstance(entry, Envelope) and isinstance(entry.event, e.Interrupted):
            self._hurry()
        if len(self._waiting) > _MAX_WAITING:
            self._leave_out()
        if self._is_over:
            self.finish()
        self._schedule()

    def say(self, text: str, *, kind: Kind = "info") -> None:
        """Queue the console's own words."""
        self.add([*own_words(own_redactor().redacted(text), kind)])

    # --- questions their cards do not hold ------------------------------------------------------

    def stand_in_full(self, run: str, wanted: Sequence[tuple[Question, Sequence[Line]]]) -> None:
        """Print of a run's questions what does not stand above yet; forget what is wanted no more.

        Of a card that is drawn anew somewhere else, or held its question meanwhile, it is printed again.
        """
        known, self._in_full = self._in_full, {}
        for question, lines in wanted:
            found = known.get(question.id)
            if found is None:
                found = LongQuestion(run, question, lines)
                self.add(found)
            self._in_full[question.id] = found

    def covered(self) -> None:
        """Take note that nobody may see any more what stands above: it is printed again."""
        self._in_full = {}
        self.redraw()

    def is_on_its_way(self, question: str) -> bool:
        """Return whether a question is to stand above in full and does not yet."""
        found = self._in_full.get(question)
        return found is not None and not found.stands

    # --- drawing --------------------------------------------------------------------------------

    def redraw(self) -> None:
        """Ask for the live region and the bottom line to be drawn anew, within a frame's time."""
        self._is_dirty = True
        self._schedule()

    def finish(self) -> None:
        """Print everything that waits, at once and unrendered; what comes later prints at once."""
        self._is_over = True
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._rendering is not None:
            future, words = self._rendering
            self._rendering = None
            future.cancel()
            self._blocks.extendleft(reversed(plain_words(words)))
        self._slice(float("inf"))
        text = self._take_ready()
        if text:
            self._draw(text)

    def _leave_out(self) -> None:
        # What is left out is told, but not printed; reading all that commands say would take too long.
        while len(self._waiting) > _MAX_WAITING // 2:
            entry = self._waiting.popleft()
            is_behind = isinstance(entry, Behind)
            if isinstance(entry, Behind):
                entry = entry.envelope
            if isinstance(entry, LongQuestion):
                self._in_full.pop(entry.question.id, None)  # and so printed by a later frame
            elif isinstance(entry, Envelope) and not isinstance(entry.event, ToolProgress):
                self._left_out += len(self._renderer.render(entry, is_behind=is_behind)) > 0
                self._renderer.live.forget(entry.run, entry.event)
            elif isinstance(entry, list):
                self._left_out += len(entry)

    def _hurry(self) -> None:
        """Draw the next frame at once: words that were halted stop on the screen now, not later."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._last_frame = 0.0
        self._schedule(0.0)

    def _schedule(self, delay: float | None = None) -> None:
        if self._loop is None or self._timer is not None:
            return
        if delay is None:
            delay = max(0.0, self._last_frame + FRAME_S - self._loop.time())
        self._timer = self._loop.call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        assert self._loop is not None
        if self._rendering is None:
            self._slice(perf_counter() + _SLICE_S)
        is_due = self._loop.time() - self._last_frame >= FRAME_S * 0.9
        if is_due and (self._ready or self._is_dirty):
            self._frame()
        if self._ready or self._is_dirty:
            self._schedule()
        elif (self._waiting or self._blocks or self._rows) and self._rendering is None:
            self._schedule(0.004)

    def _frame(self) -> None:
        assert self._loop is not None
        was_dirty, self._is_dirty = self._is_dirty, False
        self._last_frame = self._loop.time()
        ready, size = self._ready, self._ready_chars
        if self._draw(self._take_ready()):
            for whole in self._ending:
                whole.stands = True
            self._ending = []
            self._frame_chars = min(_FRAME_CHARS, self._frame_chars + 1_000)
        else:
            # What a slow terminal has still to take stands before the echo of the next key.
            self._frame_chars = max(_MIN_FRAME_CHARS, self._frame_chars // 2)
            self._ready, self._ready_chars, self._is_dirty = ready, size, was_dirty

    def _take_ready(self) -> str:
        text = "".join(f"{row}\r\n" for row in self._ready)
        self._ready, self._ready_chars = [], 0
        return text

    def _slice(self, until: float) -> None:
        """Tell and lay out what waits, until the time is up or a frame is full."""
        while self._is_over or (self._ready_chars < self._frame_chars and perf_counter() < until):
            if self._rows:
                text = self._rows.popleft()
                self._ready.append(text)
                self._ready_chars += len(text)
                continue
            if self._blocks:
                block = self._blocks.popleft()
                if isinstance(block, LongQuestion):
                    self._ending.append(block)
                    continue
                self._lay(block)
                if self._rendering is not None:
                    return
                continue
            self._finish_entry()
            if self._waiting:
                self._begin(self._waiting.popleft())
                continue
            self._blocks += self._renderer.settle()
            if not self._blocks:
                return

    def _begin(self, entry: Entry) -> None:
        if self._left_out:
            text = f"{self._left_out} lines left out: the output outran the terminal."
            self._blocks += own_words(text, "note")
            self._left_out = 0
        if isinstance(entry, LongQuestion):
            self._renderer.printed(entry.run, entry.question)
            self._blocks += [*self._renderer.settle(), *entry.lines, entry]
            return
        is_behind = isinstance(entry, Behind)
        if isinstance(entry, Behind):
            entry = entry.envelope
        if not isinstance(entry, Envelope):
            # What is said comes after what was heard: an interruption is summed up first.
            self._blocks += [*self._renderer.settle(), *entry]
            return
        self._blocks += self._renderer.render(entry, is_behind=is_behind)
        self._after = entry
        self._is_dirty = True

    def _finish_entry(self) -> None:
        # The live text goes when its scrollback is ready, not before: nothing vanishes in between.
        if self._after is not None:
            self._renderer.live.forget(self._after.run, self._after.event)
            self._after = None

    def _lay(self, block: Block) -> None:
        if isinstance(block, Line):
            width = self._width()
            for row in rows(block, width):
                text = to_ansi(without_end(row), self._look.table)
                is_wide = block.is_code and is_wider(row, width)
                self._rows.append(broken_there(text) if is_wide else text)
            return
        in_hurry = self._is_over or len(self._waiting) > _HURRY
        renders = not (in_hurry or block.is_verbatim) and markdown.has_markdown(block.text)
        if self._is_over or not (renders or len(block.text) > _LONG_CHARS):
            self._blocks.extendleft(reversed(plain_words(block)))
        else:
            self._lay_in_thread(block, renders=renders)

    def _lay_in_thread(self, words: Words, *, renders: bool) -> None:
        assert self._loop is not None
        width = self._width()

        def laid() -> list[Line]:
            if not renders:
                return plain_words(words)
            return markdown.rendered(words.text, width=width)

        future = self._loop.run_in_executor(None, laid)
        self._rendering = (future, words)
        future.add_done_callback(self._laid)

    def _laid(self, done: asyncio.Future[list[Line]]) -> None:
        if self._rendering is None or self._rendering[0] is not done:
            return
        words = self._rendering[1]
        self._rendering = None
        # A renderer that fails on somebody's markdown must not cost the words.
        failed = done.cancelled() or done.exception() is not None
        self._blocks.extendleft(reversed(plain_words(words) if failed else done.result()))
        self._schedule(0.0)

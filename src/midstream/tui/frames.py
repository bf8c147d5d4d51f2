"""Frames: what each drawing of the live region shows is looked up once, before it is drawn.

Nothing drawn after the first key of a line may use that line or that key: what was on the screen, and
since when, is told to the dialog after the drawing.
"""

import asyncio
from typing import Final

import msgspec
from prompt_toolkit.layout import Layout

from midstream.app.ui import Console
from midstream.core.question import Question
from midstream.tui.card_keys import CardKeys
from midstream.tui.dialog import Dialog
from midstream.tui.display import Display
from midstream.tui.editor import Editor, in_vi
from midstream.tui.event_renderer import Narrator
from midstream.tui.frame_rows import Screen, bottom_for, in_full, look, prompt_for
from midstream.tui.graph_panel import Following
from midstream.tui.layout import layout_of
from midstream.tui.live_region import LiveText
from midstream.tui.own_shell import OwnShell
from midstream.tui.scrollback import Scrollback
from midstream.tui.styled_lines import Line, Row
from midstream.tui.title import title_of

_TICK_S: Final = 1.0


class Frames:
    """What the last frame showed, and what the next one does.

    Args:
        desk: the console.
        dialog: what stands open over the editor.
        editor: holds the line.
        cards: leaves the form of a question that has closed.
        own: has rows of its own.
        following: has the graph that is followed, above all else.
        display: says how large a frame is, and has the title.
        scrollback: asks for the next frame. It knows what streams: `live` and `narrator` are its.
        folder: what the title names.
    """

    def __init__(
        self,
        desk: Console,
        dialog: Dialog,
        editor: Editor,
        *,
        cards: CardKeys,
        own: OwnShell,
        following: Following,
        display: Display,
        scrollback: Scrollback,
        live: LiveText,
        narrator: Narrator,
        folder: str,
    ) -> None:
        self.screen: Screen | None = None
        """What the last frame showed, None before the first."""
        self._desk = desk
        self._dialog = dialog
        self._editor = editor
        self._cards = cards
        self._own = own
        self._following = following
        self._display = display
        self._scrollback = scrollback
        self._live = live
        self._narrator = narrator
        self._folder = folder
        self._clock: asyncio.TimerHandle | None = None
        self._too_long: list[tuple[Question, list[Line]]] = []
        self._fitted: tuple[tuple[Question, ...], int, int] = ((), 0, 0)
        """The questions, and the size of the terminal, of which those were the ones no card holds."""

    def layout(self) -> Layout:
        """Return where the parts of a frame stand."""
        return layout_of(
            self._editor.buffer,
            above=lambda: [] if self.screen is None else self.screen.above,
            prompt=lambda: in_vi(prompt_for(self._dialog, width=self._display.width())),
            bottom=self._bottom,
            editor_height=lambda: max(1, self._display.height() // 3),
        )

    def before(self) -> None:
        """Look up what the next frame shows."""
        width, height = self._display.width(), self._display.height()
        now = asyncio.get_running_loop().time()
        self._dialog.keep_to(self._desk.open_questions())
        self._cards.leave_closed()
        self.screen = look(
            self._desk,
            self._dialog,
            live=self._live,
            narrator=self._narrator,
            text=self._editor.buffer.text,
            width=width,
            height=height,
            now=now,
            most=self._display.height_narrowed(),
            kept=self._following.least,
        )
        self._stand_in_full(self.screen, height)
        own = self._own.rows(width=width, now=now, takes=self.takes_offer())
        if own:
            self.screen = msgspec.structs.replace(
                self.screen,
                above=[*own, *self.screen.above],
                on_empty="adds the output to your words" if self.takes_offer() else "",
                own_runs=self._own.is_running,
            )
        room = self.screen.spare - len(own)
        graph = self._following.rows(self.screen.status.run, room=room, width=width)
        if graph:
            above = [*graph, *self.screen.above]
            self.screen = msgspec.structs.replace(self.screen, above=above)

    def _stand_in_full(self, screen: Screen, height: int) -> None:
        """See to it that the questions their cards do not hold stand in full above them."""
        if self._fitted != (fitted := (screen.questions, screen.width, height)):
            self._fitted = fitted
            found = ((each, in_full(each, width=screen.width, height=height)) for each in fitted[0])
            self._too_long = [(each, lines) for each, lines in found if lines]
        self._scrollback.stand_in_full(screen.status.run, self._too_long)

    def after(self) -> None:
        """Take note that the frame is made."""
        if self.screen is None:
            return
        loop = asyncio.get_running_loop()
        # Once it is written: until then nobody has seen it.
        loop.call_soon(self._seen, self.screen)
        self._own.was_drawn(now=loop.time())
        if self._clock is None and (self._own.is_running or self.screen.has_clock):
            self._clock = loop.call_later(_TICK_S, self._tick)
        title = title_of(self.screen.status, self.screen.questions, folder=self._folder)
        self._display.entitle(title)

    def _seen(self, screen: Screen) -> None:
        """Take note of the cards on the screen: they, and what they leave out, were given to the terminal.

        A frame it has not taken yet is followed by another once it has.
        """
        if screen is not self.screen or not self._display.has_taken_all:
            return
        drawn = frozenset(id for id in screen.drawn if not self._scrollback.is_on_its_way(id))
        now = asyncio.get_running_loop().time()
        self._dialog.was_drawn(self._desk.open_questions(), drawn=drawn, now=now)

    def stop(self) -> None:
        """Ask for no more frames."""
        if self._clock is not None:
            self._clock.cancel()

    def takes_offer(self) -> bool:
        """Return whether Enter on an empty line takes the output that is offered."""
        is_free = self._editor.is_empty and not self._dialog.is_open
        approval = self._dialog.approval(self._desk.open_questions())
        is_marked = self._cards.is_marked() or self._dialog.marked(approval)
        return self._own.has_offer and is_free and not is_marked

    @property
    def is_busy(self) -> bool:
        """Return whether Esc has a turn to stop."""
        return self.screen is not None and self.screen.status.busy

    @property
    def can_withdraw(self) -> bool:
        """Return whether some line that waits can be taken back."""
        return self.screen is not None and self.screen.can_withdraw

    def _bottom(self) -> Row:
        if self.screen is None:
            return []
        return bottom_for(
            self.screen, self._dialog, self._editor, is_searching=self._display.is_searching
        )

    def _tick(self) -> None:
        """Draw anew how long branches have been at it."""
        self._clock = None
        self._scrollback.redraw()

"""Frames: what each drawing of the live region shows is looked up once, before it is drawn.

Nothing drawn after the first key of a line may use that line or that key: what was on the screen, and
since when, is told to the dialog after the drawing.
"""

import asyncio
from typing import Final

import msgspec
from prompt_toolkit.layout import Layout

from midstream.core.question import Question
from midstream.tui import card_keys
from midstream.tui.desktop import title_of
from midstream.tui.editor import in_vi
from midstream.tui.frame_rows import Screen, bottom_for, in_full, look, prompt_for
from midstream.tui.layout import layout_of
from midstream.tui.prompt import Prompt, now
from midstream.tui.styled_lines import Line, Row

_TICK_S: Final = 1.0


class Frames:
    """What the next frame of a prompt shows. `folder` is what the title names."""

    def __init__(self, at: Prompt, *, folder: str) -> None:
        self._at = at
        self._folder = folder
        self._own: Row = []
        self._clock: asyncio.TimerHandle | None = None
        self._too_long: list[tuple[Question, list[Line]]] = []
        self._fitted: tuple[tuple[Question, ...], int, int] = ((), 0, 0)
        """The questions, and the size of the terminal, of which those were the ones no card holds."""

    def layout(self) -> Layout:
        """Return where the parts of a frame stand."""
        at = self._at
        return layout_of(
            at.editor.buffer,
            above=lambda: [] if at.screen is None else at.screen.above,
            prompt=lambda: in_vi(prompt_for(at.dialog, width=at.display.width())),
            bottom=self._bottom,
            own=lambda: self._own,
            editor_height=lambda: max(1, at.display.height() // 3),
        )

    def before(self) -> None:
        """Look up what the next frame shows."""
        at, time = self._at, now()
        width, height = at.display.width(), at.display.height()
        if at.own_status.is_there:
            fields = at.session.status_fields()
            self._own = at.own_status.row(fields, width=width, height=height, now=time)
        else:
            self._own = []
        at.dialog.keep_to(at.session.open_questions())
        card_keys.leave_closed(at)
        screen = look(
            at.session,
            at.dialog,
            renderer=at.renderer,
            text=at.editor.buffer.text,
            width=width,
            height=height,
            now=time,
            most=at.display.height_narrowed(),
            kept=at.graph_panel.least,
            late=at.editor.on_their_way if time - at.editor.entered_at >= _TICK_S else (),
        )
        self._stand_in_full(screen, height)
        takes_offer = card_keys.takes_offer(at)
        own = at.own.rows(width=width, now=time, takes=takes_offer)
        room = screen.spare - len(own)
        graph = at.graph_panel.rows(screen.status.run, room=room, width=width)
        at.screen = msgspec.structs.replace(
            screen,
            above=[*graph, *own, *screen.above],
            on_empty="adds the output to your words" if own and takes_offer else "",
            own_runs=bool(own) and at.own.is_running,
        )

    def _stand_in_full(self, screen: Screen, height: int) -> None:
        """See to it that the questions their cards do not hold stand in full above them."""
        if self._fitted != (fitted := (screen.questions, screen.width, height)):
            self._fitted = fitted
            found = ((each, in_full(each, width=screen.width, height=height)) for each in fitted[0])
            self._too_long = [(each, lines) for each, lines in found if lines]
        self._at.scrollback.stand_in_full(screen.status.run, self._too_long)

    def after(self) -> None:
        """Take note that the frame is made."""
        at = self._at
        if at.screen is None:
            return
        loop = asyncio.get_running_loop()
        # Once it is written: until then nobody has seen it.
        loop.call_soon(self._seen, at.screen)
        if self._clock is None and (
            at.own.is_running or at.screen.has_clock or at.editor.on_their_way
        ):
            self._clock = loop.call_later(_TICK_S, self._tick)
        title = title_of(at.screen.status, at.screen.questions, folder=self._folder)
        at.display.entitle(title)

    def _seen(self, screen: Screen) -> None:
        """Take note of the cards on the screen: they, and what they leave out, were given to the terminal.

        A frame it has not taken yet is followed by another once it has.
        """
        at = self._at
        if screen is not at.screen or not at.display.has_taken_all:
            return
        drawn = frozenset(id for id in screen.drawn if not at.scrollback.is_on_its_way(id))
        asked = at.session.open_questions()
        at.dialog.was_drawn(
            asked,
            drawn=drawn,
            now=now(),
            offer=at.own.offer,
            came_back=at.editor.came_back,
        )

    def stop(self) -> None:
        """Ask for no more frames."""
        self._at.own_status.stop()
        if self._clock is not None:
            self._clock.cancel()

    def _bottom(self) -> Row:
        at = self._at
        if at.screen is None:
            return []
        return bottom_for(at.screen, at.dialog, at.editor, is_searching=at.display.is_searching)

    def _tick(self) -> None:
        """Draw anew how long branches have been at it, and what is still on its way."""
        self._clock = None
        self._at.scrollback.redraw()

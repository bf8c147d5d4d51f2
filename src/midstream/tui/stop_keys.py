"""What Esc and Ctrl-C do: they close what is open, else stop what runs; Ctrl-C leaves in the end."""

import asyncio

from midstream.app.ui import Console
from midstream.tui.background_tasks import UnderWay
from midstream.tui.card_keys import CardKeys
from midstream.tui.delivery import Delivery
from midstream.tui.dialog import Dialog
from midstream.tui.editor import Editor
from midstream.tui.exit_keys import Leaving
from midstream.tui.frames import Frames
from midstream.tui.own_shell import OwnShell
from midstream.tui.scrollback import Scrollback
from midstream.tui.turn_keys import TurnKeys


class Stopping:
    """Esc and Ctrl-C. Each press does one thing, the nearest."""

    def __init__(
        self,
        desk: Console,
        dialog: Dialog,
        editor: Editor,
        *,
        frames: Frames,
        turns: TurnKeys,
        cards: CardKeys,
        own: OwnShell,
        delivery: Delivery,
        leaving: Leaving,
        scrollback: Scrollback,
        under_way: UnderWay,
    ) -> None:
        self._desk = desk
        self._dialog = dialog
        self._editor = editor
        self._frames = frames
        self._turns = turns
        self._cards = cards
        self._own = own
        self._delivery = delivery
        self._leaving = leaving
        self._scrollback = scrollback
        self._under_way = under_way

    def escape(self) -> None:
        """Close what is open over the editor, else stop the turn."""
        self._dialog.leave_offered = False
        if self._turns.escape():
            self._scrollback.redraw()
            return
        if self._dialog.editing:
            self._editor.clear()
        if self._dialog.recalled and self._dialog.recalled == self._editor.buffer.text:
            self._editor.clear()
            self._scrollback.say("Withdrawn. The history still has it.", kind="note")
        elif self._cards.escape() or self._dialog.unmark():
            self._scrollback.redraw()
        elif self._dialog.unclear is not None or self._dialog.noting or self._dialog.editing:
            self._dialog.close()
            self._scrollback.redraw()
        elif self._own.is_running:
            self._own.stop()
            self._scrollback.redraw()
        elif self._frames.is_busy:
            self._halt()
        elif self._own.drop():
            self._scrollback.redraw()
        elif self._editor.is_empty and self._frames.can_withdraw:
            self._delivery.withdraw()

    def interrupt(self) -> None:
        """Clear the line; on an empty one stop the turn and offer to leave; then leave."""
        if not self._editor.is_empty:
            self._dialog.close()
            self._editor.clear()
        elif self._own.is_running:
            self._own.stop()
        elif self._turns.escape() or self._leaves_form():
            self._scrollback.redraw()
        elif self._dialog.may_leave(now=asyncio.get_running_loop().time()):
            self._leaving.leave()
        else:
            self._dialog.noting = self._dialog.editing = ""
            self._leaving.offer()
            if self._frames.is_busy:
                self._halt()

    def _leaves_form(self) -> bool:
        return bool(self._dialog.answering.filling) and self._cards.escape()

    def _halt(self) -> None:
        self._under_way.begin_guarded(self._desk.halt())

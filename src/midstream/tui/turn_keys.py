"""What Esc Esc, Enter, the arrows and Esc do about the list of earlier turns."""

import asyncio
from typing import Final

from midstream.app.ui import Console
from midstream.tui.background_tasks import UnderWay
from midstream.tui.dialog import Dialog
from midstream.tui.editor import Editor
from midstream.tui.frames import Frames
from midstream.tui.own_shell import OwnShell
from midstream.tui.scrollback import Scrollback
from midstream.tui.turn_list import ARMED, TurnList

MINE: Final = True


class TurnKeys:
    """Keys on their way to the list of turns, and the two that open it."""

    def __init__(
        self,
        desk: Console,
        dialog: Dialog,
        editor: Editor,
        *,
        frames: Frames,
        own: OwnShell,
        scrollback: Scrollback,
        under_way: UnderWay,
        fresh_s: float,
    ) -> None:
        """Make one. The list must have been drawn for `fresh_s` seconds before a key counts."""
        self._desk = desk
        self._dialog = dialog
        self._editor = editor
        self._frames = frames
        self._own = own
        self._scrollback = scrollback
        self._under_way = under_way
        self._fresh_s = fresh_s
        self._armed_by = -2  # the press of an Esc that had nothing else to do

    def rests(self) -> bool:
        """Return whether Esc has nothing to stop and nothing to close."""
        screen = self._frames.screen
        return (
            screen is not None
            and self._editor.is_empty
            and self._editor.buffer.complete_state is None
            and self._dialog.turns is None
            and not self._dialog.is_open
            and not self._own.is_running
            and not self._own.has_offer
            and not (screen.status.busy or screen.questions or screen.can_withdraw)
        )

    def go_back(self) -> None:
        """Open the list of the last turns, if the key before was this one, too."""
        self._dialog.leave_offered = False
        if self._dialog.presses - self._armed_by > 1:
            self._armed_by, self._dialog.news = self._dialog.presses, ARMED
            self._scrollback.redraw()
        else:
            self._armed_by = -2
            self._under_way.begin_guarded(self._open())

    async def _open(self) -> None:
        turns = await self._desk.turns()
        if not turns:
            words = "There is nothing to go back to: no turn began with a line of yours."
            self._scrollback.say(words, kind="note")
        elif self.rests():
            self._dialog.turns = TurnList(turns=turns, fresh_s=self._fresh_s)

    def enter(self, *, alone: bool) -> bool:
        """Take Enter where the list is open: it goes back to before the marked turn.

        Only a key of its own, well after the list came, does.
        """
        shown = self._dialog.turns
        if shown is None:
            return not MINE
        now = asyncio.get_running_loop().time()
        if alone and shown.is_fresh(now) and self._dialog.has_paused(now):
            if shown.number:
                self._editor.replace("")
            self._dialog.turns = None
            self._under_way.begin_guarded(self._desk.go_back(shown.marked))
        return MINE

    def takes_arrows(self) -> bool:
        """Return whether arrows are for the list."""
        turns = self._dialog.turns
        return turns is not None and turns.is_fresh(asyncio.get_running_loop().time())

    def arrow(self, step: int) -> bool:
        """Take Up (-1) or Down (1) where the list is open."""
        turns = self._dialog.turns
        if turns is None:
            return not MINE
        if turns.number:
            self._editor.replace("")
        turns.move(step)
        return MINE

    def escape(self) -> bool:
        """Close the list where it is open."""
        if self._dialog.turns is None:
            return not MINE
        self._dialog.turns = None
        return MINE

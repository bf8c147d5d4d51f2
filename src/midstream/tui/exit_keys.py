"""Leaving: Ctrl-C twice, a signal, a terminal that is gone."""

import asyncio
import contextlib
import signal
from collections.abc import Callable

from midstream.system.own_process import HANGUPS
from midstream.tui.dialog import Dialog
from midstream.tui.display import Display
from midstream.tui.external_editor import Outside
from midstream.tui.scrollback import Scrollback


class Leaving:
    """The way out. A Ctrl-C that had nothing to clear offers to leave; the next one, soon, does."""

    def __init__(
        self,
        dialog: Dialog,
        display: Display,
        outside: Outside,
        scrollback: Scrollback,
        *,
        leave_s: float,
    ) -> None:
        """Make one. An offer holds for `leave_s` seconds, and for one key."""
        self.signal: int | None = None
        """The signal that ended the display, None if the person left."""
        self.is_left = False
        self._dialog = dialog
        self._display = display
        self._outside = outside
        self._scrollback = scrollback
        self._leave_s = leave_s
        self._offer_ends: asyncio.TimerHandle | None = None
        self._heeded: list[signal.Signals] = []

    def leave(self) -> None:
        """Leave the console."""
        if self._display.is_open:
            self.is_left = True
            # The application waits for who has its terminal.
            self._outside.close()
            self._display.exit()

    # --- Ctrl-C twice -----------------------------------------------------------------------

    def offer(self) -> None:
        """Let the next press leave, if it is the next key and comes soon."""
        loop = asyncio.get_running_loop()
        self._dialog.did, self._dialog.leave_offered = "offered to leave", True
        self.stop()
        self._offer_ends = loop.call_later(self._leave_s, self._offer_no_more)

    def after_key(self) -> None:
        """Take the offer back after any other key than the one that made it."""
        if self._dialog.did != "offered to leave":
            self._offer_no_more()

    def stop(self) -> None:
        """Let no time run out any more."""
        if self._offer_ends is not None:
            self._offer_ends.cancel()

    def _offer_no_more(self) -> None:
        if self._dialog.leave_offered:
            self._dialog.leave_offered = False
            self._scrollback.redraw()

    # --- signals ----------------------------------------------------------------------------

    def heed(self, *numbers: signal.Signals, interrupt: Callable[[], None]) -> None:
        """Hear signals on the loop, until `heed_no_more`; SIGINT is what `interrupt` makes of it."""
        loop = asyncio.get_running_loop()
        for number in numbers:
            # Only the main thread may; elsewhere whoever owns the process has its own.
            with contextlib.suppress(RuntimeError, ValueError):
                loop.add_signal_handler(number, self._signalled, number, interrupt)
                self._heeded.append(number)

    def heed_no_more(self) -> None:
        """Leave signals to whoever owns the process."""
        while self._heeded:
            asyncio.get_running_loop().remove_signal_handler(self._heeded.pop())

    def gone(self) -> None:
        """Hear that the terminal is gone."""
        if self.signal is None:
            self.signal = HANGUPS[-1]
        self.leave()

    def _signalled(self, number: int, interrupt: Callable[[], None]) -> None:
        if self.is_left:
            # The keys are the terminal's own again, so that an impatient Ctrl-C is a signal.
            self._scrollback.say("One moment: running work is being saved.", kind="note")
        elif number == signal.SIGINT and self._outside.is_open:
            pass  # The editor's, which has the terminal.
        elif number == signal.SIGINT:
            interrupt()
            self._scrollback.redraw()
        else:
            self.signal = number
            self.leave()

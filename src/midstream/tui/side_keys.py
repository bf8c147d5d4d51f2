"""The keys beside the line: they send nothing. They show something, or change how it is written."""

import asyncio
from collections.abc import Callable
from typing import Final

from midstream.app.ui import Console
from midstream.language.errors import MidstreamError
from midstream.tui.background_tasks import UnderWay
from midstream.tui.dialog import Dialog
from midstream.tui.display import Display
from midstream.tui.editor import Editor
from midstream.tui.event_renderer import Narrator
from midstream.tui.keymap import keys_text
from midstream.tui.outside_editor import Outside
from midstream.tui.scrollback import Scrollback

_STAYS: Final = (
    "Ctrl-Z would stop every run. Ctrl-D on an empty line leaves, `midstream --continue` "
    "comes back."
)


class Aside:
    """Shift-Tab, `?`, Ctrl-Z, Ctrl-L, Ctrl-O, Ctrl-T and Ctrl-G."""

    def __init__(
        self,
        desk: Console,
        dialog: Dialog,
        editor: Editor,
        *,
        display: Display,
        narrator: Narrator,
        outside: Outside,
        scrollback: Scrollback,
        under_way: UnderWay,
        covered: Callable[[], None],
    ) -> None:
        """Make one. `covered` hears that what was drawn is not on the screen any more."""
        self._desk = desk
        self._dialog = dialog
        self._editor = editor
        self._display = display
        self._narrator = narrator
        self._outside = outside
        self._scrollback = scrollback
        self._under_way = under_way
        self._covered = covered
        self._stayed_at = -2

    def next_mode(self, *, alone: bool) -> None:
        """Let the next permission mode say what happens unasked; a key among pasted ones does not."""
        if alone and self._dialog.has_paused(asyncio.get_running_loop().time()):
            try:
                self._dialog.news = self._desk.next_permission_mode()
            except MidstreamError as error:
                self._scrollback.say(str(error), kind="warning")
            self._scrollback.redraw()

    def show_keys(self) -> None:
        """Print the keys."""
        if self._dialog.is_open:
            self._editor.insert("?")
        else:
            self._scrollback.say(keys_text(self._display.width() - 2))

    def show_last(self) -> None:
        """Print the last tool result or reasoning in full; again: the one before."""
        self._scrollback.add(self._narrator.last_in_full())

    def stay(self) -> None:
        """Say why the console does not stop for a while; once of a key that is held down."""
        if self._dialog.presses != self._stayed_at + 1:
            self._scrollback.say(_STAYS, kind="note")
        self._stayed_at = self._dialog.presses

    def redraw(self) -> None:
        """Draw everything anew, on an empty screen."""
        self._display.clear()
        self._covered()

    def unfold(self) -> None:
        """Put the whole text in the place of the label at the cursor."""
        if not self._editor.unfold():
            words = "That is too long for the line: Ctrl-G opens it in your editor."
            self._scrollback.say(words, kind="note")

    def edit_outside(self) -> None:
        """Open the line in the person's own editor."""
        if self._under_way.tasks is not None:
            self._outside.open(self._under_way.tasks, terminal=self._display.fileno())

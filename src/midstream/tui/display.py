"""The terminal while it is ours: the application that draws its last rows, and what stands above.

Everything goes out through one writer. Rows for the scrollback are printed in the same write as the
next drawing of the live region, on the loop and without handing the terminal over, so that a key is
never caught between two modes. A terminal that has not taken the last frame gets no further one.
"""

import contextlib
import os
from collections.abc import Callable
from typing import Final, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.cursor_shapes import ModalCursorShapeConfig
from prompt_toolkit.data_structures import Point
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import DynamicKeyBindings, KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import DynamicStyle, Style

from midstream.config.settings import Editing
from midstream.tui.desktop import Title
from midstream.tui.reflow import TO_THE_BOTTOM, breakable, reflows
from midstream.tui.terminal import TerminalOutput
from midstream.tui.terminal_replies import hear_what_was_typed_ahead, without_replies
from midstream.tui.themes import Look, toolkit_rules
from midstream.tui.toolkit_keys import ASK, ASK_NO_MORE, is_able, know_modified_keys, mend_vi

_ESCAPE_S: Final = 0.05

_NARROW: Final = 40
_OTHER_ROWS: Final = 6
"""Of a narrow window, for the prompt and the bottom line."""


def _unwrapped(text: str) -> str:
    """Return rows for a terminal that is not to break them itself.

    What it takes for wider than we do would reach the first column, where only we may draw. Where the
    terminal may have become narrower meanwhile, it breaks rows whose width is certain: cut off, their
    ends would be lost for good.
    """
    if reflows(os.environ):
        text = breakable(text)
    return f"\x1b[?7l{text}\x1b[?7h"


class _Console(Application[None]):
    """An application that leaves out frames while the terminal has not taken the last one, and those
    another program has it for. Where the terminal breaks rows anew, each frame is drawn whole.
    """

    writer_is_congested = staticmethod(lambda: False)
    frame: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    is_reflowed = False

    def _on_resize(self) -> None:
        if self.is_reflowed:
            # What is drawn finds its rows by itself, and none is erased before others can be drawn.
            self.invalidate()
        elif not self._running_in_terminal:
            super()._on_resize()

    def _redraw(self, render_as_done: bool = False) -> None:
        if not render_as_done and self.writer_is_congested():
            return
        with self.frame():
            if self.is_reflowed and self._is_running and not self._running_in_terminal:
                self._go_to_first_row()
            super()._redraw(render_as_done)

    def _go_to_first_row(self) -> None:
        """Go where our rows begin, and draw all of them: a difference would be one to rows that the
        terminal may have broken by then.
        """
        renderer, output = self.renderer, self.output
        output.hide_cursor()
        output.cursor_backward(renderer._cursor_pos.x)
        output.cursor_up(renderer._cursor_pos.y)
        renderer._cursor_pos, renderer._last_screen = Point(x=0, y=0), None


class Display:
    """The one who draws. What is drawn before `open` and after `run` is printed as it comes."""

    def __init__(
        self,
        stdout: TextIO,
        *,
        look: Look,
        editing: Editing,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        """Make one for the terminal behind `stdout`; `input` and `output` are prompt_toolkit's."""
        self.app: _Console | None = None
        """The application, None before `open`."""
        self._stdout = stdout
        self._look = look
        self._editing = editing
        self._input = input
        self._output = output
        self._terminal: TerminalOutput | None = None
        self._styled = ("", Style([]))
        self._keys: KeyBindings | None = None
        self._title = Title(os.environ.get("TERM"))

    # --- holding it -------------------------------------------------------------------------

    def open(
        self,
        layout: Layout,
        keys: KeyBindings,
        *,
        before_frame: Callable[[], None],
        after_frame: Callable[[], None],
        before_key: Callable[[], None],
        after_key: Callable[[], None],
        gone: Callable[[], None],
    ) -> None:
        """Make the application that `run` runs. `gone` hears that the terminal takes nothing more."""
        is_vi = self._editing == "vi"
        self.bind(keys)
        app = self.app = _Console(
            layout=layout,
            key_bindings=DynamicKeyBindings(lambda: self._keys),
            style=DynamicStyle(self._style),
            include_default_pygments_style=False,
            erase_when_done=True,
            color_depth=self._depth,
            editing_mode=EditingMode.VI if is_vi else EditingMode.EMACS,
            cursor=ModalCursorShapeConfig() if is_vi else None,
            before_render=lambda _: before_frame(),
            after_render=lambda _: after_frame(),
            terminal_size_polling_interval=None,
            input=without_replies(self._input or create_input()),
            output=self._out(),
        )
        app.key_processor.before_key_press += lambda _: before_key()
        app.key_processor.after_key_press += lambda _: after_key()
        app.is_reflowed = reflows(os.environ)
        app.ttimeoutlen = _ESCAPE_S
        # After the input's own timeout nothing follows an Esc any more.
        app.timeoutlen = 0.01
        if self._terminal is not None:
            writer = self._terminal.writer
            app.writer_is_congested = lambda: writer.is_congested
            app.frame = self._terminal.frame
            writer.on_drained = app.invalidate
            writer.on_gone = gone
        know_modified_keys()
        if is_able(os.environ.get("TERM", "")):
            self.signal(ASK)

    def bind(self, keys: KeyBindings) -> None:
        """Let these be the console's own keys from now on."""
        # Colours pasted without brackets look like the report of a mouse, which is not asked for.
        keys.add(Keys.Vt100MouseEvent)(lambda _: None)
        if self._editing == "vi":
            mend_vi(keys)
        self._keys = keys

    async def run(self, may_send: Callable[[], bool]) -> None:
        """Draw and take keys until `exit`, or until the terminal is closed.

        `may_send`: whether lines that were typed ahead, before now, are sent as they were.
        """
        assert self.app is not None
        with contextlib.suppress(EOFError), self.app.input.raw_mode():
            hear_what_was_typed_ahead(self.app.input, may_send)
            await self.app.run_async(set_exception_handler=False, handle_sigint=False)

    def exit(self) -> None:
        """End `run`."""
        if self.is_open and self.app is not None:
            self.app.exit()

    def give_back(self) -> None:
        """Make the terminal what it was before `open`, with everything so far written."""
        self.signal(self._title.restore())
        if is_able(os.environ.get("TERM", "")):
            self.signal(ASK_NO_MORE)
        if self._terminal is not None:
            self._terminal.writer.drain()

    def close(self) -> None:
        """Let go of the terminal."""
        if self._terminal is not None:
            self._terminal.writer.close()

    @property
    def is_running(self) -> bool:
        """Return whether the live region is drawn."""
        return self.app is not None and self.app.is_running

    @property
    def is_open(self) -> bool:
        """Return whether keys are taken, and nobody has left yet."""
        return self.app is not None and self.app.is_running and not self.app.is_done

    @property
    def is_searching(self) -> bool:
        """Return whether the keys search the history."""
        return self.app is not None and self.app.layout.is_searching

    @property
    def is_congested(self) -> bool:
        """Return whether the terminal has not taken yet what it was sent."""
        return self._terminal is not None and self._terminal.writer.is_congested

    @property
    def has_taken_all(self) -> bool:
        """Return whether the last frame was made for the terminal as it is, and it has taken all of it."""
        if self.app is None or self._terminal is None:
            return not self.is_congested
        drawn = self.app.renderer._last_size
        return not self.is_congested and drawn in (None, self.app.output.get_size())

    def clear(self) -> None:
        """Empty the screen; the next frame begins at its top."""
        if self.app is not None:
            self.app.renderer.clear()

    def resume(self) -> None:
        """Have the terminal as it was before the process was stopped, and another had it."""
        if self.app is not None and self.is_open and not self.app._running_in_terminal:
            self.app.input.raw_mode().__enter__()  # what it was at first is put back at the end
            self.app.renderer.reset()

    # --- drawing ----------------------------------------------------------------------------

    def width(self) -> int:
        """Return how many columns there are."""
        return self._out().get_size().columns

    def height(self) -> int:
        """Return how many rows there are; before `open` those of a small terminal."""
        return 24 if self.app is None else self.app.output.get_size().rows

    def height_narrowed(self) -> int:
        """Return how many rows may be drawn so that a narrow window, too, has room for what becomes of
        them; `height` where the terminal does not break them anew.
        """
        if not reflows(os.environ):
            return self.height()
        return (self.height() - _OTHER_ROWS) // -(-self.width() // _NARROW)

    def fileno(self) -> int:
        """Return the descriptor of the terminal."""
        return self._stdout.fileno()

    def draw(self, text: str) -> bool:
        """Print text above the live region and draw that anew, or with an empty text only draw.

        Return False if the terminal cannot take a frame now.
        """
        app = self.app
        if app is None or not app.is_running:
            self._write(text)
            return True
        if app._running_in_terminal or app.writer_is_congested():
            return False
        if not text:
            # Now: what streams by the time of a later frame may belong below lines not printed yet.
            app._redraw()
            return True
        with app.frame():
            app.renderer.erase()
            app.output.write_raw(_unwrapped(text))
            app._redraw()
        return True

    def entitle(self, title: str) -> None:
        """Make this the terminal's title."""
        self.signal(self._title.show(title))

    def signal(self, sequence: str) -> None:
        """Send the terminal a sequence that draws nothing, "" for none."""
        if sequence and self._terminal is not None:
            self._terminal.write_raw(sequence)
            self._terminal.flush()

    def _style(self) -> Style:
        """Return how prompt_toolkit draws what has a class; the same object as long as nothing changes."""
        if self._styled[0] != self._look.theme:
            self._styled = (self._look.theme, Style(toolkit_rules(self._look)))
        return self._styled[1]

    def _depth(self) -> ColorDepth:
        if not self._look.has_colour:
            return ColorDepth.DEPTH_1_BIT
        return ColorDepth.DEPTH_8_BIT if self._look.is_fixed else ColorDepth.DEPTH_4_BIT

    def _write(self, text: str) -> None:
        output = self._out()
        output.write_raw(_unwrapped(text))
        output.flush()

    def _out(self) -> Output:
        """Return what everything is written to; made when it is first needed."""
        if self._output is not None:
            return self._output
        if self._terminal is None:
            self._terminal = TerminalOutput(
                self._stdout, depth=self._depth(), term=os.environ.get("TERM")
            )
            if reflows(os.environ):
                # Broken anew, our rows take more of them, and for each one tmux puts the first of the
                # screen into its history, also where there are empty ones below. That must be none of
                # those that are drawn again: nothing erases them there.
                self._terminal.write_raw(TO_THE_BOTTOM)
        return self._terminal

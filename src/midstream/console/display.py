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
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style

from midstream.config.editing import Editing
from midstream.console.modified_keys import ASK, ASK_NO_MORE, is_able, know_modified_keys
from midstream.console.reflow import Written, cursor_after, reflows
from midstream.console.replies import without_replies
from midstream.console.terminal import TerminalOutput
from midstream.console.title import Title
from midstream.console.vi import mend_vi

_ESCAPE_S: Final = 0.05


def _unwrapped(text: str) -> str:
    """Return rows for a terminal that is not to break them itself.

    What it takes for wider than we do would reach the first column, where only we may draw.
    """
    return f"\x1b[?7l{text}\x1b[?7h"


class _Console(Application[None]):
    """An application that leaves out frames while the terminal has not taken the last one, and those
    another program has it for.
    """

    writer_is_congested = staticmethod(lambda: False)
    frame: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext

    written: Written | None = None
    """What the terminal breaks our rows by, where it does."""
    _is_ragged = False

    def catch_up(self) -> None:
        """Know where our rows are, if the terminal has broken them anew since they were drawn.

        It has done so before anybody is told, so this comes before each drawing and erasing.
        """
        renderer, size = self.renderer, self.output.get_size()
        drawn = renderer._last_screen
        if drawn is None or self.written is None or renderer._last_size in (None, size):
            return
        columns = max(1, size.columns)
        renderer._cursor_pos = cursor_after(drawn, renderer._cursor_pos, columns)
        renderer._last_screen, renderer._last_size = None, size

    def _on_resize(self) -> None:
        if self._running_in_terminal:
            return
        self.catch_up()
        super()._on_resize()

    def _redraw(self, render_as_done: bool = False) -> None:
        if not render_as_done and self.writer_is_congested():
            return
        self.catch_up()
        renderer = self.renderer
        if self._is_ragged:
            renderer._last_screen = None
        is_anew = renderer._last_screen is None
        with self.frame():
            super()._redraw(render_as_done)
        drawn = renderer._last_screen
        if self.written is not None and drawn is not None:
            rows = renderer._cursor_pos.y
            self._is_ragged = self.written.drew(drawn, rows=rows, is_anew=is_anew)
            if self._is_ragged:
                self.invalidate()


class Display:
    """The one who draws. What is drawn before `open` and after `run` is printed as it comes."""

    def __init__(
        self,
        stdout: TextIO,
        *,
        colour: bool,
        editing: Editing,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        """Make one for the terminal behind `stdout`; `input` and `output` are prompt_toolkit's."""
        self.app: _Console | None = None
        """The application, None before `open`."""
        self._stdout = stdout
        self._colour = colour
        self._editing = editing
        self._input = input
        self._output = output
        self._terminal: TerminalOutput | None = None
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
        # Colours pasted without brackets look like the report of a mouse, which is not asked for.
        keys.add(Keys.Vt100MouseEvent)(lambda _: None)
        is_vi = self._editing == "vi"
        if is_vi:
            mend_vi(keys)
        app = self.app = _Console(
            layout=layout,
            key_bindings=keys,
            style=Style([]),
            include_default_pygments_style=False,
            erase_when_done=True,
            color_depth=ColorDepth.DEPTH_4_BIT if self._colour else ColorDepth.DEPTH_1_BIT,
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
        app.written = Written() if reflows(os.environ) else None
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

    async def run(self) -> None:
        """Draw and take keys until `exit`, or until the terminal is closed."""
        assert self.app is not None
        with contextlib.suppress(EOFError):
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

    # --- drawing ----------------------------------------------------------------------------

    def width(self) -> int:
        """Return how many columns there are."""
        return self._out().get_size().columns

    def height(self) -> int:
        """Return how many rows there are; before `open` those of a small terminal."""
        return 24 if self.app is None else self.app.output.get_size().rows

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
        frame = contextlib.nullcontext() if self._terminal is None else self._terminal.frame()
        with frame:
            app.catch_up()
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
                self._stdout, colour=self._colour, term=os.environ.get("TERM")
            )
        return self._terminal

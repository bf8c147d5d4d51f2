"""ConsoleInterface: the terminal a person types at while runs go on.

Everything finished is printed once, above, and belongs to the terminal's own scrollback. Only a
small region is drawn again and again: what streams, the open questions, the line being typed and
the bottom line. Printing happens in the same write as the next drawing of that region, on the loop
and without handing the terminal over, so that a key is never caught between two modes.

Nothing drawn after the first key of a line may use that line or that key: see `Editor.seen` and
`Dialog`. What a frame shows is looked up in `view`; here is what the keys do.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec
from prompt_toolkit.application import Application
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style

from midstream.console import cards
from midstream.console.dialog import Dialog, UnclearLine
from midstream.console.editor import Editor, Typed, is_command
from midstream.console.history import history_in
from midstream.console.keys import bindings
from midstream.console.layout import layout_of
from midstream.console.lines import Row
from midstream.console.live import LiveText
from midstream.console.narrator import Narrator
from midstream.console.painting import Block, Kind, own_words, typed
from midstream.console.scrollback import Scrollback
from midstream.console.terminal import TerminalOutput
from midstream.console.view import Screen, bottom_for, in_full, look, prompt_for
from midstream.core.addressing import address_of, as_typed
from midstream.core.errors import MidstreamError
from midstream.core.events import InputDisposed, InputReceived, QuestionAsked
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.core.safety.sanitize import scrubbed
from midstream.ports import Desk, Submitted
from midstream.process import own_redactor

FRESH_S: Final = 0.4
"""A key decides only on what has been on the screen for so long when it is pressed."""

_TICK_S: Final = 1.0
_LEAVING_S: Final = 2.0
_ESCAPE_S: Final = 0.05


def _unwrapped(text: str) -> str:
    """Return rows for a terminal that is not to break them itself.

    What it takes for wider than we do would reach the first column, where only we may draw.
    """
    return f"\x1b[?7l{text}\x1b[?7h"


class _Console(Application[None]):
    """An application that leaves out frames while the terminal has not taken the last one."""

    writer_is_congested = staticmethod(lambda: False)

    def _redraw(self, render_as_done: bool = False) -> None:
        if render_as_done or not self.writer_is_congested():
            super()._redraw(render_as_done)


class ConsoleInterface:
    """The interactive face. `show`, `say` and `refresh` may be called before, while and after
    `run`; what comes before is printed above the first prompt.
    """

    def __init__(
        self,
        *,
        history_folder: Path | None = None,
        colour: bool = True,
        fresh_s: float = FRESH_S,
        input: Input | None = None,
        output: Output | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        """Make one for the terminal at stdin and stdout.

        Args:
            history_folder: where typed lines are kept across sessions; None keeps them in memory.
            colour: whether to use colours (see NO_COLOR); bold and dim stay.
            fresh_s: how long an approval must have been drawn before a key counts, in seconds.
            input: prompt_toolkit's, for tests.
            output: prompt_toolkit's, for tests.
            stdout: the terminal, by default `sys.stdout`.
        """
        self.signal: int | None = None
        """The signal that ended `run`, None if the person left."""
        self._colour = colour
        self._fresh_s = fresh_s
        self._input = input
        self._output = output
        # Now, not when it is first drawn to: what is printed later may be told through this face.
        self._stdout = stdout or sys.stdout
        self._history_folder = history_folder
        self._desk: Desk | None = None
        self._app: _Console | None = None
        self._terminal: TerminalOutput | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._screen: Screen | None = None
        self._dialog = Dialog()
        self._last_trouble = ""
        self._taken: dict[tuple[str, str], str] = {}
        self._is_left = False
        self._clock: asyncio.TimerHandle | None = None
        self._heeded: list[signal.Signals] = []
        self._live = LiveText()
        self._narrator = Narrator(with_cards=True)
        self._scrollback = Scrollback(
            self._narrator,
            self._live,
            width=self._width,
            colour=colour,
            draw=self._draw,
            also=self._also,
        )
        history = history_in(history_folder, lambda text: self.say(text, kind="warning"))
        self.editor = Editor(
            history,
            on_screen=self._on_screen,
            completions=lambda before: () if self._desk is None else self._desk.completions(before),
        )
        self.editor.buffer.on_text_changed += lambda _: self._edited()

    def _edited(self) -> None:
        loop = asyncio.get_running_loop()
        self._dialog.edited(self.editor.buffer.text, now=loop.time())

    # --- the face ---------------------------------------------------------------------------

    def show(self, envelope: Envelope) -> None:
        """Show an event of a run; see `Face.show`."""
        self._scrollback.add(envelope)
        self._offer_again(envelope)

    def say(self, text: str, *, kind: Kind = "info") -> None:
        """Show the console's own words; see `Face.say`."""
        self._scrollback.add([*own_words(own_redactor().redacted(text), kind)])

    def recall(self, run: Run) -> None:
        """Know how a run stands; see `Face.recall`."""
        self._narrator.recall(run)

    def turned_to(self, questions: Sequence[Question]) -> None:
        """Print what no card can hold; see `Face.turned_to`."""
        for question in questions:
            lines = in_full(question, width=self._width(), height=self._height())
            if lines:
                self._scrollback.add([*lines])

    def refresh(self) -> None:
        """Draw the bottom line and the questions anew, within a frame's time."""
        self._scrollback.redraw()

    async def run(self, desk: Desk) -> None:
        """Read lines and hand them to the desk until the person leaves or the terminal is gone.

        SIGTERM, SIGHUP and a closed terminal end it like leaving does (`signal` tells); the
        terminal is then as it was before. Lines under way are waited for, up to two seconds. Until
        `close` no signal ends the process: what runs is put by first.
        """
        self._desk = desk
        app = self._app = self._application()
        self._scrollback.open()
        loop = asyncio.get_running_loop()
        handled_before = loop.get_exception_handler()
        loop.set_exception_handler(lambda _, context: self._trouble(context))
        try:
            async with asyncio.TaskGroup() as self._tasks:
                # A closed terminal ends the input; the run goes its way without a screen.
                self._heed(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
                with contextlib.suppress(EOFError):
                    await app.run_async(set_exception_handler=False, handle_sigint=False)
                self._is_left = True
                await self._wait_for_lines()
        finally:
            if self._clock is not None:
                self._clock.cancel()
            self._tasks = None
            loop.set_exception_handler(handled_before)
            self._scrollback.finish()
            if self._terminal is not None:
                self._terminal.writer.drain()

    async def close(self) -> None:
        """Let go of the terminal, with everything shown so far printed."""
        self._scrollback.finish()
        while self._heeded:
            asyncio.get_running_loop().remove_signal_handler(self._heeded.pop())
        if self._terminal is not None:
            self._terminal.writer.close()

    def _offer_again(self, envelope: Envelope) -> None:
        """Keep a line that its run ended without: the next run may be told it."""
        event, run = envelope.event, envelope.run
        if isinstance(event, InputReceived):
            if event.handling not in ("reject", "answer"):
                self._taken[run, event.input_id] = as_typed(event.text, event.to)
        elif isinstance(event, InputDisposed):
            text = self._taken.pop((run, event.input_id), None)
            if text is not None and event.disposition == "rejected":
                self.editor.offer(text)
                self.say("Up on an empty line brings it back.", kind="note")

    # --- drawing ----------------------------------------------------------------------------

    def _application(self) -> _Console:
        output = self._output
        if output is None:
            output = self._terminal = self._terminal or self._own_terminal()
        app = _Console(
            layout=layout_of(
                self.editor.buffer,
                above=lambda: [] if self._screen is None else self._screen.above,
                prompt=lambda: prompt_for(self._dialog, width=self._width()),
                bottom=self._bottom,
                editor_height=lambda: max(1, self._height() // 3),
            ),
            key_bindings=bindings(self),
            style=Style([]),
            include_default_pygments_style=False,
            erase_when_done=True,
            color_depth=ColorDepth.DEPTH_4_BIT if self._colour else ColorDepth.DEPTH_1_BIT,
            before_render=lambda _: self._look(),
            after_render=lambda _: self._was_drawn(),
            terminal_size_polling_interval=None,
            input=self._input or create_input(),
            output=output,
        )
        app.ttimeoutlen = _ESCAPE_S
        # After the input's own timeout nothing follows an Esc any more.
        app.timeoutlen = 0.01
        if self._terminal is not None:
            writer = self._terminal.writer
            app.writer_is_congested = lambda: writer.is_congested
            writer.on_drained = app.invalidate
            writer.on_gone = self._gone
        return app

    def _own_terminal(self) -> TerminalOutput:
        from os import environ

        return TerminalOutput(self._stdout, colour=self._colour, term=environ.get("TERM"))

    def _width(self) -> int:
        if self._app is not None:
            return self._app.output.get_size().columns
        self._terminal = self._terminal or self._own_terminal()
        return self._terminal.get_size().columns

    def _height(self) -> int:
        return 24 if self._app is None else self._app.output.get_size().rows

    def _draw(self, text: str) -> bool:
        app = self._app
        if app is None or not app.is_running:
            self._write(text)
            return True
        if app._running_in_terminal or app.writer_is_congested():
            return False
        if not text:
            app.invalidate()
            return True
        frame = contextlib.nullcontext() if self._terminal is None else self._terminal.frame()
        with frame:
            app.renderer.erase()
            app.output.write_raw(_unwrapped(text))
            app._redraw()
        return True

    def _write(self, text: str) -> None:
        if self._output is not None:
            self._output.write_raw(_unwrapped(text))
            self._output.flush()
            return
        self._terminal = self._terminal or self._own_terminal()
        self._terminal.write_raw(_unwrapped(text))
        self._terminal.flush()

    def _look(self) -> None:
        """Look up what the next frame shows."""
        assert self._desk is not None
        assert self._app is not None
        size = self._app.output.get_size()
        self._screen = look(
            self._desk,
            self._dialog,
            live=self._live,
            narrator=self._narrator,
            is_empty=self.editor.is_empty,
            width=size.columns,
            height=size.rows,
            now=asyncio.get_running_loop().time(),
        )

    def _bottom(self) -> Row:
        return [] if self._screen is None else bottom_for(self._screen, self._dialog, self.editor)

    def _on_screen(self) -> frozenset[str]:
        return frozenset() if self._screen is None else self._screen.drawn

    def _was_drawn(self) -> None:
        now = asyncio.get_running_loop().time()
        self._dialog.was_drawn(self._open_questions(), drawn=self._on_screen(), now=now)
        if self._screen is not None and self._screen.has_clock and self._clock is None:
            self._clock = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        """Draw anew how long branches have been at it."""
        self._clock = None
        self.refresh()

    def _also(self, envelope: Envelope) -> list[Block]:
        event = envelope.event
        if not isinstance(event, QuestionAsked):
            return []
        return [*in_full(event, width=self._width(), height=self._height())]

    # --- keys -------------------------------------------------------------------------------

    def send(self, *, alone: bool = True) -> None:
        """Send the line, or the note on a refusal; an empty line does nothing.

        A changed command is a yes, so only a key that came `alone` sends it: a paste never does.
        """
        editor = self.editor
        self._dialog.leave_offered = False
        if self._dialog.unclear is not None:
            return
        if self._dialog.editing:
            now = asyncio.get_running_loop().time()
            if alone and self._dialog.has_paused(now) and editor.buffer.text.strip():
                self._run_instead()
            return
        if self._dialog.noting and not is_command(editor.buffer.text):
            question, self._dialog.noting = self._dialog.noting, ""
            if any(open.id == question for open in self._open_questions()):
                self._approve(question, granted=False, note=editor.take().text)
            else:
                self.say("That call is closed already; your note stays in the line.", kind="note")
        elif editor.buffer.text.strip():
            line = editor.take()
            questions, names = self._open_questions(), self._addressees()
            self._deliver(line, question=self._dialog.answered_by(line, questions, names))
        else:
            editor.buffer.reset()

    def _run_instead(self) -> None:
        question, self._dialog.editing = self._dialog.editing, ""
        line = self.editor.take()
        if not any(open.id == question for open in self._open_questions()):
            self.editor.offer(line.text)
            self.say("That call is closed already; Up brings your command back.", kind="note")
        elif line.text != line.shown:
            self.editor.offer(line.text)
            self.say(
                "Part of the command is a folded paste that you have not seen: nothing was run. "
                "Type it, or paste it in smaller pieces.",
                kind="warning",
            )
        else:
            self._approve(question, granted=True, command=line.text)

    def escape(self) -> None:
        """Close what is open over the editor, else stop the turn."""
        self._dialog.leave_offered = False
        if self._dialog.editing:
            self.editor.clear()
        if self._dialog.unclear is not None or self._dialog.noting or self._dialog.editing:
            self._dialog.close()
            self.refresh()
        elif self._screen is not None and self._screen.status.busy:
            self._halt()

    def interrupt(self) -> None:
        """Clear the line; on an empty one stop the turn and offer to leave; then leave."""
        if not self.editor.is_empty:
            self._dialog.close()
            self.editor.clear()
        elif self._dialog.leave_offered:
            self.leave()
        else:
            self._dialog.noting = self._dialog.editing = ""
            self._dialog.leave_offered = True
            if self._screen is not None and self._screen.status.busy:
                self._halt()

    def leave(self) -> None:
        """Leave the console."""
        if self._app is not None and self._app.is_running and not self._app.is_done:
            self._is_left = True
            self._app.exit()

    def up(self) -> None:
        """Bring a line back: one that came back, one that still waits, or one of the history."""
        editor, desk = self.editor, self._desk
        if desk is not None and editor.is_empty and not editor.returned and desk.waiting_inputs():
            self._spawn(self._guarded(self._take_back(desk)))
        else:
            editor.up()

    async def _take_back(self, desk: Desk) -> None:
        text = await desk.take_back()
        if text is None:
            self.say("It is on its way already.", kind="note")
        else:
            self.editor.offer(text)
            if self.editor.is_empty:
                self.editor.up()

    def next_question(self) -> None:
        """Mark the next question."""
        if self._screen is not None:
            self._dialog.mark_next(self._screen.questions)

    def show_keys(self) -> None:
        """Print the keys."""
        self.say(cards.KEYS)

    def may_decide(self, *, alone: bool) -> bool:
        """Return whether a key pressed now decides on the marked approval.

        Only a single fresh key does: the line is empty, the card has been on the screen for
        `fresh_s`, and no other key came with it (a terminal without bracketed paste sends a
        pasted text as keys, all at once).
        """
        return (
            alone
            and self.editor.is_empty
            and self._dialog.may_decide(
                self._open_questions(),
                now=asyncio.get_running_loop().time(),
                fresh_s=self._fresh_s,
            )
        )

    def decide(self, decision: str) -> None:
        """Decide on the marked approval: y, r (for this run), n, w (no, with a note), e (change it)."""
        self._dialog.leave_offered = False
        question = self._dialog.decidable[0]
        if decision == "e":
            command = next((q.command for q in self._open_questions() if q.id == question), "")
            if command:
                self._dialog.editing = question
                self.editor.buffer.insert_text(scrubbed(command))
        elif decision == "w":
            self._dialog.noting = question
        else:
            self._approve(question, granted=decision in "yr", for_run=decision == "r")

    def may_choose(self, *, alone: bool) -> bool:
        """Return whether a key pressed now says what the unclear line is."""
        now = asyncio.get_running_loop().time()
        return alone and self._dialog.may_choose(now=now, fresh_s=self._fresh_s)

    def choose(self, choice: str) -> None:
        """Send the unclear line as an answer (a) or a new instruction (n), or keep it (e)."""
        unclear, self._dialog.unclear = self._dialog.unclear, None
        if unclear is None or choice == "e":
            self.refresh()
            return
        line = msgspec.structs.replace(self.editor.take(), seen=unclear.line.seen)
        is_answer = choice == "a"
        self._deliver(
            line,
            question=unclear.question if is_answer else None,
            as_new=not is_answer,
            is_echoed=unclear.is_echoed,
        )

    def _open_questions(self) -> tuple[Question, ...]:
        return () if self._desk is None else self._desk.open_questions()

    def _addressees(self) -> dict[str, str]:
        return {} if self._desk is None else self._desk.status().addressees

    # --- the desk ---------------------------------------------------------------------------

    def _deliver(
        self,
        line: Typed,
        *,
        question: str | None = None,
        as_new: bool = False,
        is_echoed: bool = False,
    ) -> None:
        assert self._desk is not None
        # A line that may turn out unclear is echoed when it is not: it may stay in the editor.
        is_addressed = address_of(line.text)[0] in self._addressees()
        is_unclear = not as_new and question is None and not is_addressed
        waits = is_unclear and any(
            q.kind != "approval" and q.id not in line.seen for q in self._open_questions()
        )
        if not waits and not is_echoed:
            self._echo(line)
            is_echoed = True
        self._spawn(self._submit(line, question=question, as_new=as_new, is_echoed=is_echoed))

    async def _submit(
        self, line: Typed, *, question: str | None, as_new: bool, is_echoed: bool
    ) -> None:
        assert self._desk is not None
        try:
            result = await self._desk.submit(
                line.text, seen=line.seen, question=question, as_new=as_new
            )
        except asyncio.CancelledError:
            self.say(f"Not delivered, you left first: {line.shown}", kind="warning")
            raise
        except Exception as error:
            result = Submitted(kind="returned", reason=f"{type(error).__name__}: {error}")
        if result.kind in ("taken", "exit") and not is_echoed:
            self._echo(line)
        match result.kind:
            case "taken":
                pass
            case "exit":
                self.leave()
            case "returned":
                is_back = self.editor.bring_back(line)
                where = "" if is_back else " (Up on an empty line brings it back)"
                self.say(f"{result.reason}{where}", kind="warning")
            case "unclear":
                if self.editor.bring_back(line):
                    self._dialog.unclear = UnclearLine(line, result.question, is_echoed)
                else:
                    text = "A question came before your last line was sent; Up on an empty line"
                    self.say(f"{text} brings it back.", kind="warning")
        self.refresh()

    def _echo(self, line: Typed) -> None:
        self._scrollback.add([*typed(line.shown)])

    def _halt(self) -> None:
        assert self._desk is not None
        self._spawn(self._guarded(self._desk.halt()))

    def _approve(
        self,
        question: str,
        *,
        granted: bool,
        for_run: bool = False,
        note: str = "",
        command: str | None = None,
    ) -> None:
        assert self._desk is not None
        deciding = self._desk.approve(
            question, granted=granted, for_run=for_run, note=note, command=command
        )
        self._spawn(self._guarded(deciding))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        if self._tasks is None:
            work.close()
            return
        task = self._tasks.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except MidstreamError as error:
            self.say(str(error), kind="warning")
        except Exception as error:
            self.say(f"{type(error).__name__}: {error}", kind="error")
        self.refresh()

    def _trouble(self, context: dict[str, Any]) -> None:
        """Show what went wrong on the loop, once: on stderr it would tear the screen."""
        error = context.get("exception")
        what = context.get("message", "") if error is None else f"{type(error).__name__}: {error}"
        if what != self._last_trouble:
            self._last_trouble = what
            self.say(f"Something went wrong inside midstream; it goes on. {what}", kind="error")

    # --- leaving ----------------------------------------------------------------------------

    async def _wait_for_lines(self) -> None:
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=_LEAVING_S)
            for task in late:
                task.cancel()

    def _heed(self, *numbers: signal.Signals) -> None:
        """Hear signals on the loop, until `close`."""
        loop = asyncio.get_running_loop()
        for number in numbers:
            # Only the main thread may; elsewhere whoever owns the process has its own.
            with contextlib.suppress(RuntimeError, ValueError):
                loop.add_signal_handler(number, self._signalled, number)
                self._heeded.append(number)

    def _signalled(self, number: int) -> None:
        if self._is_left:
            # The keys are the terminal's own again, so that an impatient Ctrl-C is a signal.
            self.say("One moment: what runs is being put by.", kind="note")
        elif number == signal.SIGINT:
            self.interrupt()
            self.refresh()
        else:
            self.signal = number
            self.leave()

    def _gone(self) -> None:
        if self.signal is None:
            self.signal = signal.SIGHUP
        self.leave()

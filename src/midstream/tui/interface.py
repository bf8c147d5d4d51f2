"""ConsoleInterface: the terminal a person types at while runs go on.

Everything finished is printed once, above, and belongs to the terminal's own scrollback. Only a
small region is drawn again and again: what streams, the open questions, the line being typed and
the bottom line.

Here the modules of the console meet. What a key does: `keymap` says which and when, `keys` does it, with
`enter_keys`, `approval_keys` and `card_keys`; all of them act on a `prompt`. How a line gets to the session
and back: `delivery`. What a frame shows: `frames` and `frame_rows`; how the terminal is held: `display`.
The way out: `exit_keys`.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Final, TextIO

from prompt_toolkit.input import Input
from prompt_toolkit.output import Output

from midstream.app.ui import Console, InFull, is_own
from midstream.config.manager import ConfigManager
from midstream.config.settings import OWN_KEYS, STATUS_LINE, THEME, Editing, Notifications
from midstream.core.events import RunFailed, RunFinished, RunStopped
from midstream.core.notices import Envelope, RunTaken
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.system.own_process import HANGUPS
from midstream.tui import keymap
from midstream.tui.answering import Answering
from midstream.tui.background_tasks import BackgroundTasks
from midstream.tui.changed_lines import changed_lines
from midstream.tui.delivery import Delivery, Undelivered
from midstream.tui.desktop import AWAY_S, Calls, copying, folder_name
from midstream.tui.dialog import Dialog
from midstream.tui.display import Display
from midstream.tui.editor import ENTERED, Editor
from midstream.tui.event_lines import Kind
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.exit_keys import Leaving
from midstream.tui.external_editor import Outside
from midstream.tui.frames import Frames
from midstream.tui.graph_panel import GraphPanel
from midstream.tui.keys import bindings, interrupt
from midstream.tui.line_history import Draft, history_in
from midstream.tui.on_screen import FRESH_S, OnScreen
from midstream.tui.own_shell import OwnShell
from midstream.tui.own_status import OwnStatus, Runner
from midstream.tui.prompt import Prompt, now
from midstream.tui.scrollback import Behind, Scrollback
from midstream.tui.themes import Look
from midstream.views.side_effects import ChangedFile

LEAVE_S: Final = 3.0
"""So long after a Ctrl-C that had nothing to clear another one leaves."""


class ConsoleInterface:
    """The interactive UI. `show`, `say` and `refresh` may be called before, while and after
    `run`; what comes before is printed above the first prompt.
    """

    def __init__(
        self,
        *,
        history_folder: Path | None = None,
        look: Look | None = None,
        fresh_s: float = FRESH_S,
        leave_s: float = LEAVE_S,
        editing: Editing = "emacs",
        input: Input | None = None,
        output: Output | None = None,
        stdout: TextIO | None = None,
        notifications: Notifications = "off",
        away_s: float = AWAY_S,
        folder: Path | None = None,
    ) -> None:
        """Make one for the terminal at stdin and stdout.

        Args:
            history_folder: where typed lines are kept across sessions; None keeps them in memory.
            look: how it is drawn, by default in the theme `auto`.
            fresh_s: how long an approval must have been drawn before a key counts, in seconds.
            leave_s: how long a second Ctrl-C leaves, in seconds.
            editing: whose keys the line is edited with, of Emacs or of vi.
            input: prompt_toolkit's, for tests.
            output: prompt_toolkit's, for tests.
            stdout: the terminal, by default `sys.stdout`.
            notifications: how a person who looks elsewhere is called.
            away_s: how long without a key a person is taken to look elsewhere, in seconds.
            folder: what the title names, by default the current folder.
        """
        self._look = look or Look()
        self._folder = folder_name(folder)
        self.status_runner: Callable[[str, bool], Runner] | None = None
        """Makes what runs a command of the status line, in the sandbox (True) or not; None: nothing can."""
        self._prompt: Prompt | None = None
        self._dialog = Dialog(answering=Answering(OnScreen(fresh_s=fresh_s)))
        self._calls = Calls(notifications, away_s=away_s)
        self._display = Display(
            # Now, not when it is first drawn to: what is printed later may be told through this UI.
            stdout or sys.stdout,
            look=self._look,
            editing=editing,
            input=input,
            output=output,
        )
        self._renderer = EventRenderer(with_cards=True, is_own=is_own)
        self._scrollback = Scrollback(
            self._renderer,
            width=self._display.width,
            look=self._look,
            draw=self._display.draw,
        )
        self._background = BackgroundTasks(self._scrollback)
        self._own_status = OwnStatus(
            self._background, self._scrollback.redraw, folder or Path.cwd()
        )
        self._graph_panel = GraphPanel(self._scrollback, self._background)
        self.editor = Editor(
            history_in(history_folder, lambda text: self.say(text, kind="warning")),
            on_screen=lambda: self._dialog.begun(now=now()),
            completions=lambda before: (
                () if self._prompt is None else self._prompt.session.completions(before)
            ),
            mentions=self._mentions,
        )
        self.editor.buffer.on_text_changed += lambda buffer: self._dialog.edited(
            buffer.text, now=now()
        )
        self._draft = Draft(
            history_folder,
            folder or Path(),
            text=self.editor.unsent,
            on_trouble=lambda text: self.say(text, kind="warning"),
        )
        self.editor.buffer.on_text_changed += lambda _: self._draft.edited(
            at_once=self.editor.is_empty
        )
        # Before the next frame: what is shown as sent is never nowhere.
        self.editor.unsent_changed = lambda: self._draft.edited(at_once=True)
        self._undelivered = Undelivered(self.editor, self._scrollback)
        self._own = OwnShell(self.editor, self._scrollback)
        self._outside = Outside(self.editor, self._display, self._background, covered=self._covered)
        self._leaving = Leaving(
            self._dialog, self._display, self._outside, self._scrollback, leave_s=leave_s
        )

    @property
    def signal(self) -> int | None:
        """The signal that ended `run`, None if the person left."""
        return self._leaving.signal

    # --- what is shown ----------------------------------------------------------------------

    def show(self, envelope: Envelope, *, is_behind: bool = False) -> None:
        """Show an event of a run; see `UI.show`."""
        self._scrollback.add(Behind(envelope) if is_behind else envelope)
        self._may_outlive(envelope)
        if self._display.is_running:
            idle_s = now() - self._dialog.pressed_at
            self._display.signal(self._calls.on_event(envelope, now=now(), idle_s=idle_s))
        self._undelivered.on_event(envelope)

    def say(self, text: str, *, kind: Kind = "info") -> None:
        """Show the console's own words; see `UI.say`."""
        self._scrollback.say(text, kind=kind)

    def recall(self, run: Run) -> None:
        """Know how a run stands; see `UI.recall`."""
        self._scrollback.add(self._renderer.recall(run))
        self._calls.recall(run)

    def left(self) -> None:
        """Show what came of replies nobody hears the end of; see `UI.left`."""
        self._scrollback.add(self._renderer.left())

    def past(self, run: Run) -> None:
        """Show the last turns of a chat; see `UI.past`."""
        self._scrollback.add(self._renderer.past(run))

    def turned_to(self, run: str, questions: Sequence[Question]) -> None:
        """Print what a run did meanwhile, and again what no card can hold; see `UI.turned_to`."""
        self._scrollback.add(self._renderer.kept(run))
        self._scrollback.covered()

    def show_in_full(self, what: InFull) -> None:
        """Show results and reasoning in full; see `UI.show_in_full`."""
        if what == "last":
            self._scrollback.add(self._renderer.last_in_full())
        else:
            self._renderer.manner.is_verbose = what == "on"

    def show_changes(self, changes: Sequence[ChangedFile]) -> None:
        """Show what became of files; see `UI.show_changes`."""
        self._scrollback.add([*changed_lines(changes)])

    def hand(self, words: str) -> None:
        """Put words into the editor; see `UI.hand`."""
        self.editor.offer(words)
        if self.editor.is_empty and not self._dialog.is_open and not self.editor.is_away:
            self.editor.up()
        else:
            self.say("Up on an empty line brings the words of that turn back.", kind="note")
        self.refresh()

    def copy(self, text: str) -> bool:
        """Put a text into the clipboard; see `UI.copy`."""
        sequence = copying(text, os.environ)
        self._display.signal(sequence)
        return bool(sequence)

    def follow(self, run: Callable[[], Run] | None) -> bool:
        """Keep the graph of a run above the prompt; see `UI.follow`."""
        self._graph_panel.follow(run)
        self.refresh()
        return True

    def apply(self, setting: str, config: ConfigManager) -> bool:
        """Draw in another theme, hear other keys or have another status line; see `UI.apply`."""
        if setting == THEME:
            self._look.theme = config.theme
        elif setting == OWN_KEYS and self._prompt is not None:
            keymap.use(config.keys)
            self._display.bind(bindings(self._prompt))
        elif setting == STATUS_LINE:
            parts = config.status_line
            command, runs = parts.get("command", ""), self.status_runner
            is_boxed = parts.get("sandbox") != "false"
            run = None if runs is None or not command else runs(command, is_boxed)
            self._own_status.use(parts.get("template", ""), run)
        else:
            return False
        self.refresh()
        return True

    def refresh(self) -> None:
        """Draw the bottom line and the questions anew, within a frame's time."""
        self._scrollback.redraw()

    # --- from the first key to the last -----------------------------------------------------

    async def run(self, session: Console) -> None:
        """Read lines and hand them to the session until the person leaves or the terminal is gone.

        SIGTERM, SIGHUP and a closed terminal end it like leaving does (`signal` tells); the
        terminal is then as it was before. Lines under way are waited for, up to two seconds. Until
        `close` no signal ends the process: what runs is put by first.
        """
        at = self._prompt = self._at(session)
        frames = Frames(at, folder=self._folder)
        self._display.open(
            frames.layout(),
            bindings(at),
            before_frame=frames.before,
            after_frame=frames.after,
            before_key=lambda: self._dialog.pressed(now=now()),
            after_key=self._leaving.after_key,
            gone=self._leaving.gone,
        )
        self._scrollback.open()
        self._take_draft()
        loop = asyncio.get_running_loop()
        handled_before = loop.get_exception_handler()
        loop.set_exception_handler(lambda _, context: self._background.trouble(context))
        heeded = (signal.SIGINT, *HANGUPS)
        try:
            async with asyncio.TaskGroup() as self._background.tasks:
                # A closed terminal ends the display; the run goes its way without a screen.
                self._leaving.heed(*heeded, interrupt=lambda: interrupt(at))
                if sys.platform != "win32":
                    with contextlib.suppress(RuntimeError, ValueError):
                        loop.add_signal_handler(signal.SIGCONT, self._continued)
                await self._display.run(
                    lambda: self.editor.is_empty and not session.open_questions()
                )
                self._leaving.is_left = True
                self._own.kill()
                await self._background.ended()
        finally:
            if sys.platform != "win32":
                with contextlib.suppress(RuntimeError, ValueError):
                    loop.remove_signal_handler(signal.SIGCONT)
            frames.stop()
            self._leaving.stop()
            self._background.tasks = None
            loop.set_exception_handler(handled_before)
            self._scrollback.finish()
            self._display.give_back()
            await self._draft.close()

    async def close(self) -> None:
        """Let go of the terminal, with everything shown so far printed."""
        self._scrollback.finish()
        self._leaving.heed_no_more()
        self._display.close()

    def _at(self, session: Console) -> Prompt:
        """Return what the keys act on at a session."""
        return Prompt(
            session=session,
            dialog=self._dialog,
            editor=self.editor,
            own=self._own,
            own_status=self._own_status,
            outside=self._outside,
            delivery=Delivery(
                session,
                self._dialog,
                self.editor,
                scrollback=self._scrollback,
                background=self._background,
                leave=self._leaving.leave,
            ),
            leaving=self._leaving,
            display=self._display,
            scrollback=self._scrollback,
            renderer=self._renderer,
            graph_panel=self._graph_panel,
            background=self._background,
            covered=self._covered,
        )

    async def _mentions(self, mention: str) -> AsyncGenerator[tuple[tuple[str, str], ...], None]:
        if self._prompt is not None:
            async for pairs in self._prompt.session.mentions(mention):
                yield pairs

    def _take_draft(self) -> None:
        """Put back what a console which is no more had not sent, or had no answer to the sending of."""
        entered, is_doubtful, typed = self._draft.open().rpartition(ENTERED)
        text = "\n".join(filter(None, (entered, typed)))
        words = "line you had entered" if is_doubtful else "line you had not sent"
        then = ": see first whether a run has it." if is_doubtful else "."
        if text and self.editor.restore(text, is_doubtful=bool(is_doubtful)):
            self.say(f"The {words} is back{then}", kind="note")
        elif text:
            self.say(f"Up brings back the {words}{then}", kind="note")

    def _may_outlive(self, envelope: Envelope) -> None:
        """Take note that a workflow ends by itself, and lines go elsewhere: the next one may be for it.

        One the person ends does not, and one that finishes here as nothing is being typed has said its
        last word: the line after it is for whom it is sent to.
        """
        event = envelope.event
        is_end = isinstance(event, RunFinished | RunFailed | RunStopped | RunTaken)
        if self._prompt is None or not is_end:
            return
        status = self._prompt.session.status()
        mode, _, name = status.mode.partition(":")
        is_expected = isinstance(event, RunFinished) and not status.is_watched
        if status.is_ending or (self.editor.is_empty and is_expected):
            return
        if mode == "workflow" and status.run == envelope.run:
            self._dialog.outlived = name

    def _continued(self) -> None:
        """Have the terminal again after the process was stopped: a shell had it meanwhile."""
        if not self._outside.is_open:
            self._display.resume()
            self._covered()

    def _covered(self) -> None:
        """Take note that the screen was another program's: what is drawn after it is drawn anew."""
        self._dialog.covered()
        self._scrollback.covered()

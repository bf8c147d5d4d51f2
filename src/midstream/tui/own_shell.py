"""Commands the person runs with `!`: what of one is shown, and its output, offered to be sent along.

Nothing of it is sent by itself. The offer stands above the prompt; taken, it is a label in the line,
like that of a long paste: it can be looked at, deleted and sent, or not.
"""

import asyncio
import re
from collections.abc import Coroutine
from typing import Any, Final

import msgspec

from midstream.app.ui import Console, OwnCommandEnded
from midstream.language.errors import MidstreamError
from midstream.safety.sanitize import sanitized
from midstream.tui.editor import Editor
from midstream.tui.event_lines import typed
from midstream.tui.keymap import called
from midstream.tui.scrollback import Scrollback
from midstream.tui.styled_lines import Line, Row, one_row, rows
from midstream.tui.themes import ACCENT, MUTED
from midstream.views.cells import clipped

MARK: Final = "┆ "
_SHOWN_COMMAND: Final = 40
_ONLY_CD: Final = re.compile(r"(?:cd|pushd|popd)(?:\s[^;&|\n]*)?\Z")


class Offer(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The output of a command, to be taken."""

    command: str
    ended: OwnCommandEnded

    @property
    def what(self) -> str:
        """Return what its label says."""
        return f"output {self.ended.lines:,} line{'' if self.ended.lines == 1 else 's'}"


class OwnShell:
    """The one command of the person's own that runs, and the output of the last one."""

    def __init__(self, editor: Editor, scrollback: Scrollback) -> None:
        self._editor = editor
        self._scrollback = scrollback
        self._command = ""
        self._open = ""
        self._began = 0.0
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.offer: Offer | None = None
        """What is offered now."""
        self._last: Offer | None = None

    # --- running ----------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Return whether a command runs now."""
        return self._running is not None

    def enter(self, session: Console | None, tasks: asyncio.TaskGroup | None) -> None:
        """Run what stands in the line behind the `!`; an `!` alone puts the last output into it."""
        command = self._editor.buffer.text[1:].strip()
        if not command:
            self._editor.drop()
            self.join()
        elif self._editor.is_folded:
            self._warn(
                f"Part of the command is folded away: nothing was run. {called('unfold')} shows it."
            )
        elif self.is_running:
            self._warn("A command of yours still runs: Esc ends it. This one stays in the line.")
        elif session is not None and tasks is not None:
            self._scrollback.add([*typed(self._editor.take().shown)])
            self._start(session, command, tasks)

    def _start(self, session: Console, command: str, tasks: asyncio.TaskGroup) -> None:
        self._command, self._open = command, ""
        self._began = asyncio.get_running_loop().time()
        self._stop = asyncio.Event()
        self.offer = None
        self._running = tasks.create_task(self._seen_to_its_end(self._run(session, command)))

    def stop(self) -> None:
        """End the command softly; asked again, at once."""
        if self._stop.is_set():
            self.kill()
        self._stop.set()

    def kill(self) -> None:
        """End the command, and everything it started, now."""
        if self._running is not None:
            self._running.cancel()

    async def _seen_to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            self._told("killed")
            raise
        except MidstreamError as error:
            self._told(str(error))
        except Exception as error:
            self._told(f"{type(error).__name__}: {error}")
        finally:
            self._running = None
            self._open = ""
            self._scrollback.redraw()

    async def _run(self, session: Console, command: str) -> None:
        ended = await session.own_command(command, stop=self._stop, hears=self._hear)
        self._last = Offer(command=command, ended=ended)
        # Nobody wants to say that nothing was printed, unless that is the trouble.
        self.offer = self._last if ended.lines or ended.words != "exit code 0" else None
        if ended.words != "exit code 0" or not ended.lines:
            self._told(ended.words)
        if _ONLY_CD.match(command):
            self._told("each !command has a shell of its own: the next one starts in the workspace")

    def _hear(self, lines: tuple[str, ...], open: str) -> None:
        self._open = open
        if lines:
            self._scrollback.add([Line((("", line),), MARK, MUTED, MARK) for line in lines])
        self._scrollback.redraw()

    def _warn(self, words: str) -> None:
        self._scrollback.say(words, kind="warning")

    def _told(self, words: str) -> None:
        self._scrollback.add([Line(((MUTED, f"[{sanitized(words)}]"),), MARK, MUTED, MARK)])

    # --- the offer --------------------------------------------------------------------------

    def join(self) -> None:
        """Put the output of the last command into the line, as a label."""
        self.offer = None
        if self._last is None:
            self._warn("No command of yours has run yet: !command runs one.")
        else:
            # What is typed behind it begins a line: it is no part of the output.
            self._editor.join(f"{self._last.ended.text}\n", self._last.what)

    def drop(self) -> bool:
        """Take the offer off the screen; return whether there was one. `join` still puts it in."""
        had, self.offer = self.offer is not None, None
        return had

    # --- the screen -------------------------------------------------------------------------

    def rows(self, *, width: int, now: float, takes: bool) -> list[Row]:
        """Return what stands above the prompt: the command that runs, or the offer.

        `takes`: Enter, as things stand, takes the offer.
        """
        if self._running is not None:
            name = _short(self._command)
            ends = "ending" if self._stop.is_set() else "Esc ends it"
            status = f"{name} · {max(0, int(now - self._began))} s · {ends}"
            found = [*rows(Line(((ACCENT, status),), "$ ", ACCENT), width)]
            if self._open.strip():
                found.insert(0, one_row([("", self._open)], width - 1, MARK, MUTED))
            return found
        if self.offer is None:
            return []
        how = f"{called('send')} adds it to your words" if takes else _adding()
        text = f"{how} · Esc leaves it · {self.offer.what} of {_short(self.offer.command)}"
        return [*rows(Line(((ACCENT, text),), MARK, ACCENT, MARK), width)[:2]]


def _short(command: str) -> str:
    return clipped(sanitized(" ".join(command.split())), _SHOWN_COMMAND)


def _adding() -> str:
    return f"{called('join_output') or '! and Enter'} adds it here"

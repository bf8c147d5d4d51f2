"""Commands that go on after the call that began them: a run's own, ended with its process.

Nothing that is said to the run ends them: they are no effects it is owed. Whoever runs the run ends them
when it lets go of it, with all they started.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from midstream.core.notices import AnyNotice, BackgroundEnded
from midstream.language.errors import UserMistake
from midstream.language.names import Outcome
from midstream.safety.decoding import clean
from midstream.safety.redaction import Redactor
from midstream.system.offloop import cancel_all, still_working

MAX_RUNNING: Final = 8
"""Commands of a run that go on at once."""

MAX_ENDED: Final = 16
"""Commands that have ended whose output is kept."""

SOFT_S: Final = 4.0
"""Seconds they have to end softly when their run is let go of; then they are killed."""

_SHOWN_CHARS: Final = 200
_HOW_CHARS: Final = 2_000
_NONE: Final[Mapping[str, "Command"]] = {}


class Printed(Protocol):
    """What a command has printed."""

    def text(self) -> str:
        """Return what is kept of it, from any thread."""


Work: TypeAlias = "Callable[[Command], Coroutine[Any, Any, tuple[Outcome, str]]]"
"""Runs a command to its end, and returns how it ended. Cancelled, it kills it."""


class Command:
    """One command. `stop` ends it softly when it is set; `changed` is set when it printed or ended."""

    def __init__(self, handle: str, line: str, output: Printed) -> None:
        self.handle = handle
        self.line = line
        self.output = output
        self.began_at = time.monotonic()
        self.stop = asyncio.Event()
        self.changed = asyncio.Event()
        self.ended: tuple[Outcome, str] | None = None
        """How it ended, the model's words for it; None while it runs."""
        self.task: asyncio.Task[None] | None = None

    @property
    def how(self) -> str:
        """Return how it ended, on one line."""
        return "" if self.ended is None else " ".join(self.ended[1].split())


class Background:
    """The commands of a run in the background.

    Args:
        notify: hears when one has ended.
        redactor: takes secrets out of what is told.
    """

    __slots__ = ("_commands", "_is_closing", "_notify", "_redactor")

    def __init__(self, notify: Callable[[AnyNotice], None], redactor: Redactor) -> None:
        self._notify = notify
        self._redactor = redactor
        self._commands = _NONE
        self._is_closing = False

    def commands(self) -> Sequence[Command]:
        """Return those that run and the last that have ended, in the order they began."""
        return tuple(self._commands.values())

    def begin(self, handle: str, line: str, work: Work, output: Printed) -> Command:
        """Begin one; it goes on until it ends, is stopped, or the run is let go of.

        Raises:
            UserMistake: too many run already.
        """
        running = self._running()
        if self._is_closing or len(running) >= MAX_RUNNING:
            raise UserMistake(
                f"{len(running)} commands run in the background already: {', '.join(running)}.",
                hint="Stop one with tasks(action=stop).",
            )
        shown = self._told(" ".join(line.split()), _SHOWN_CHARS)
        command = Command(handle, shown, output)
        self._commands = {**self._commands, handle: command}
        loop = asyncio.get_running_loop()
        command.task = loop.create_task(self._follow(command, work), name=handle)
        return command

    def _told(self, text: str, chars: int) -> str:
        """Return the first characters of a text as they may be told: without half of a secret."""
        return self._redactor.redacted(clean(text[:chars]), is_whole=len(text) <= chars)

    def _running(self) -> list[str]:
        return [each.handle for each in self._commands.values() if each.ended is None]

    async def _follow(self, command: Command, work: Work) -> None:
        try:
            command.ended = await work(command)
        except asyncio.CancelledError:
            command.ended = ("stopped", "Killed when its run was let go of.")
            raise
        except Exception as error:
            command.ended = ("failed", str(error))
        finally:
            command.changed.set()
            self._forget_oldest()
            how = self._told(command.how, _HOW_CHARS)
            self._notify(BackgroundEnded(handle=command.handle, line=command.line, how=how))

    def _forget_oldest(self) -> None:
        ended = [each.handle for each in self._commands.values() if each.ended is not None]
        old = ended[:-MAX_ENDED]
        self._commands = {h: each for h, each in self._commands.items() if h not in old}

    def stop(self, handle: str) -> None:
        """Have one end softly, with all it started; returns at once.

        Raises:
            UserMistake: none of that name runs.
        """
        command = self._commands.get(handle)
        if command is None or command.ended is not None:
            hint = f"Running: {', '.join(self._running()) or 'none'}."
            raise UserMistake(f"No command {handle} runs.", hint=hint)
        command.stop.set()

    async def close(self, soft_s: float = SOFT_S) -> None:
        """End all of them: softly, and after so many seconds by force. Nothing begins any more."""
        self._is_closing = True
        for command in self._commands.values():
            command.stop.set()
        tasks = [each.task for each in self._commands.values() if each.task is not None]
        await cancel_all(*await still_working(tasks, soft_s))

"""Work that a key began and that takes a while. What goes wrong with it is shown, never lost."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Final

from midstream.language.errors import MidstreamError
from midstream.system.offloop import still_working
from midstream.tui.scrollback import Scrollback

_LEAVING_S: Final = 2.0


class BackgroundTasks:
    """The tasks that keys began. Leaving waits for them, but not for long."""

    def __init__(self, scrollback: Scrollback) -> None:
        """Make one that tells troubles to the scrollback."""
        self.tasks: asyncio.TaskGroup | None = None
        """Where tasks are begun; None before and after: nothing is begun then."""
        self._scrollback = scrollback
        self._running: set[asyncio.Task[None]] = set()
        self._last_trouble = ""

    def begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None] | None:
        """Begin work that shows its own troubles; None where nothing is begun."""
        if self.tasks is None:
            work.close()
            return None
        task = self.tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def begin_guarded(self, work: Coroutine[None, None, None]) -> asyncio.Task[None] | None:
        """Begin work whose troubles become a line on the screen; None where nothing is begun."""
        if self.tasks is None:
            work.close()
            return None
        return self.begin(self._guarded(work))

    async def ended(self) -> None:
        """Return when all of it has ended; what takes longer than two seconds is cancelled."""
        for task in await still_working(self._running, _LEAVING_S):
            task.cancel()

    def trouble(self, context: dict[str, Any]) -> None:
        """Show what went wrong on the loop, once: on stderr it would tear the screen."""
        error = context.get("exception")
        what = context.get("message", "") if error is None else f"{type(error).__name__}: {error}"
        if what != self._last_trouble:
            self._last_trouble = what
            text = f"An internal error occurred; midstream goes on. {what}"
            self._scrollback.say(text, kind="error")

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except MidstreamError as error:
            self._scrollback.say(str(error), kind="warning")
        except Exception as error:
            self._scrollback.say(f"{type(error).__name__}: {error}", kind="error")
        self._scrollback.redraw()

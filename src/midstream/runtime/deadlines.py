"""Many deadlines of one length behind one timer of the loop: each costs next to nothing.

`asyncio.timeout` sets and cancels a timer for each use, which would be a good part of what a
transition costs. Here the timer stands at the earliest deadline only, and is set again when it rings.
"""

import asyncio

import msgspec


class Watched(msgspec.Struct, eq=False):
    """A task under a deadline, due at a time of its loop. `is_late` once it was cancelled for it.

    `cancelling` is how often somebody else had asked it to end before.
    """

    task: asyncio.Task[object]
    due: float
    cancelling: int
    is_late: bool = False

    def was_only_late(self) -> bool:
        """Return whether a cancellation caught just now was the deadline's alone; take it back."""
        return self.is_late and self.task.uncancel() <= self.cancelling


class Deadlines:
    """Deadlines `seconds` after their beginning. Belongs to the loop it is first used on."""

    __slots__ = ("_loop", "_seconds", "_timer", "_watched")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watched: dict[Watched, None] = {}

    def begin(self, loop: asyncio.AbstractEventLoop) -> Watched:
        """Put the current task under a deadline; give the result back with `end`."""
        task = asyncio.current_task(loop)
        assert task is not None
        if self._loop is not loop:
            self._loop, self._timer, self._watched = loop, None, {}
        watched = Watched(task, loop.time() + self._seconds, task.cancelling())
        self._watched[watched] = None
        if self._timer is None:
            self._timer = loop.call_at(watched.due, self._ring)
        return watched

    def end(self, watched: Watched) -> None:
        """Take the task from under its deadline."""
        self._watched.pop(watched, None)

    def _ring(self) -> None:
        assert self._loop is not None
        self._timer = None
        now = self._loop.time()
        # In the order of their beginnings, which is that of their deadlines.
        for watched in list(self._watched):
            if watched.due > now:
                self._timer = self._loop.call_at(watched.due, self._ring)
                return
            self.end(watched)
            watched.is_late = True
            watched.task.cancel()

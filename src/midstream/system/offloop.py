"""Work that can be left: off the event loop, in daemon threads, and on it, until nobody waits any more.

A thread pool will not do: it waits for its threads when the process ends, so one call that hangs
would hang the exit.
"""

import asyncio
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any, Final, TypeVar

from midstream.language.errors import in_words

T = TypeVar("T")
Work = TypeVar("Work", bound=asyncio.Future[Any])

_PARTS: Final = 20


async def in_thread(work: Callable[[], T], *, name: str = "midstream-worker") -> T:
    """Return what `work` returns, run in a daemon thread of its own.

    Cancelling leaves the thread to itself; what it returns later is dropped.

    Raises:
        Exception: whatever `work` raised; what is no `Exception` comes as a RuntimeError.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            call_soon(loop, settle, None, _carried(error))
        else:
            call_soon(loop, settle, result, None)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        return await done
    except asyncio.CancelledError:
        _LEFT.add(thread)
        raise


_LEFT: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


def is_something_left() -> bool:
    """Return whether a thread still works whose caller was cancelled: nothing can stop it."""
    return any(thread.is_alive() for thread in tuple(_LEFT))


def call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> None:
    """Call a function on the loop from any thread; nothing happens where the loop is gone."""
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        return


def call_all_soon(
    calls: Iterable[tuple[asyncio.AbstractEventLoop, Callable[[], object]]],
) -> None:
    """Call functions, each on its loop, from any thread: with one wake-up for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Callable[[], object]]] = {}
    for loop, function in calls:
        by_loop.setdefault(loop, []).append(function)
    for loop, functions in by_loop.items():
        call_soon(loop, _call_all, functions)


def _call_all(functions: Iterable[Callable[[], object]]) -> None:
    for function in functions:
        function()


def _carried(error: BaseException) -> BaseException:
    """Return an error a future can carry: StopIteration and exits would change the loop's mind."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(in_words(error)).with_traceback(error.__traceback__)


async def still_working(tasks: Collection[Work], within_s: float) -> set[Work]:
    """Return those of some tasks that have not ended in so many seconds, as soon as none is left.

    What a machine stands still for is hardly counted, whatever its clock says (a virtual machine that is
    paused, a container that is frozen): what is waited for does not run then, either. So the wait has
    parts, of which each counts as long as it was to be.
    """
    late = set(tasks)
    for _ in range(_PARTS):
        if late:
            _, late = await asyncio.wait(late, timeout=within_s / _PARTS)
    return late


class Timeout:
    """So many seconds for a thread that waits. What a machine stands still for hardly counts, either."""

    def __init__(self, seconds: float) -> None:
        self._left_s, self._part_s = seconds, seconds / _PARTS
        self._asked_at = time.monotonic()

    def wait_s(self) -> float:
        """Return how long to wait before this is asked again; 0 once the time is over."""
        now = time.monotonic()
        self._left_s -= min(now - self._asked_at, self._part_s)
        self._asked_at = now
        return max(0.0, min(self._left_s, self._part_s))


async def over(work: "asyncio.Future[Any]", within_s: float | None = None) -> None:
    """Return once some work has ended, or so many seconds are over. What cancels the wait is dropped.

    For one who has been cancelled and raises that afterwards: a scope of anyio cancels it at every step.
    """
    ends_at = None if within_s is None else time.monotonic() + within_s
    while not work.done():
        left_s = None if ends_at is None else ends_at - time.monotonic()
        if left_s is not None and left_s <= 0:
            return
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait((work,), timeout=left_s)


async def to_its_end(work: Coroutine[Any, Any, T], within_s: float | None = None) -> T:
    """Return what some work comes to. Cancelled, it goes on, for so many seconds, before that is raised.

    Raises:
        Exception: whatever `work` raised.
    """
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await over(doing, within_s)
        doing.cancel()
        raise


async def cancel_all(*tasks: "asyncio.Future[Any] | None") -> None:
    """Cancel tasks, and return once they have ended, however. None has ended.

    Those that ended on a loop which is closed by now are no more to be waited for.
    """
    there = [task for task in tasks if task is not None and not task.done()]
    for task in there:
        task.cancel()
    await asyncio.gather(*there, return_exceptions=True)


async def unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event) -> T | None:
    """Return what some work comes to; None, once it is cancelled, where `stop` is set before that.

    Raises:
        Exception: whatever `work` raised.
    """

    async def outcome() -> T | Exception:
        try:
            return await work
        except Exception as error:
            return error  # a task group would wrap it

    async with asyncio.TaskGroup() as group:
        task, halt = group.create_task(outcome()), group.create_task(stop.wait())
        try:
            await asyncio.wait({task, halt}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
            halt.cancel()
    ended = None if task.cancelled() else task.result()
    if isinstance(ended, Exception):
        raise ended
    return ended

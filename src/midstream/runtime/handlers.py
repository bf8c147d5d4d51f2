"""Handlers: the functions of a workflow's `script.py`, run as effects.

A handler gets a `HandlerRun`: copies of the run's data it may change freely. When it returns, the
difference is taken and becomes a fact. Plain functions run each in a daemon thread of their own, so
one that never returns holds up neither the prompt nor the end of the process; async ones are
awaited on the loop.
"""

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import msgspec

from midstream.core.run import Run
from midstream.language.errors import AuthorMistake, MidstreamError, did_you_mean, in_words
from midstream.language.names import Json
from midstream.runtime.effects import EDGE, is_for_us
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.ports import HandlerResult
from midstream.runtime.trusted_scripts import module_from
from midstream.system.offloop import in_thread

HANDLER_TIMEOUT_S = 600.0
"""Seconds a handler may take before the run fails with its name."""

Handler: TypeAlias = Callable[[HandlerRun], Any]
"""A handler: plain or async. What a transition handler returns is the next state's name."""


class ScriptHandlers:
    """The handlers of one script.

    Args:
        functions: the handlers by name, plain or async.
        where: what to call the script in errors, such as its file name.
        timeout_s: how long one call may take, in seconds.
        inner: the handlers of the sub-workflows, by name.
    """

    def __init__(
        self,
        functions: Mapping[str, Handler],
        *,
        where: str = "the script",
        timeout_s: float = HANDLER_TIMEOUT_S,
        inner: "Mapping[str, ScriptHandlers] | None" = None,
    ) -> None:
        self._inner = dict(inner or {})
        self._functions = dict(functions)
        self._async = {n for n, f in functions.items() if inspect.iscoroutinefunction(f)}
        self._where = where
        self._timeout_s = timeout_s
        self._deadlines = Deadlines(timeout_s)

    def call(
        self, name: str, run: Run, log: Callable[[str], None]
    ) -> Coroutine[Any, Any, HandlerResult]:
        """Return what the handler of that name did; see the port `Handlers`."""
        handlers = self
        for flow in run.branch.flows.split("/") if run.branch.flows else ():
            handlers = handlers._inner[flow]
        return handlers._call(name, run, log)

    def around(self, inner: "Mapping[str, ScriptHandlers]") -> "ScriptHandlers":
        """Return the same handlers with those of sub-workflows, by name."""
        return ScriptHandlers(
            self._functions, where=self._where, timeout_s=self._timeout_s, inner=inner
        )

    async def _call(self, name: str, run: Run, log: Callable[[str], None]) -> HandlerResult:
        function = self._functions.get(name)
        if function is None:
            raise AuthorMistake(
                f"{self._where} has no handler {name!r}.", hint=did_you_mean(name, self._functions)
            )
        loop = asyncio.get_running_loop()
        view = HandlerRun(run, log, loop)
        watched = self._deadlines.begin(loop)
        try:
            if name in self._async:
                return await self._awaited(name, function, view)
            return await self._in_thread(name, function, view)
        except (AuthorMistake, asyncio.CancelledError) as error:
            # A handler that swallows its cancellation and raises is late all the same.
            if not watched.is_late or not watched.was_only_late():
                raise
            raise AuthorMistake(
                f"The handler {name} of {self._where} has not returned "
                f"after {self._timeout_s:g} s.",
                hint="Look for a loop without an end, or do the slow part in a tool.",
            ) from error
        finally:
            self._deadlines.end(watched)

    async def _in_thread(self, name: str, function: Handler, view: HandlerRun) -> HandlerResult:
        """Call a plain function, and await what it returns where that is a coroutine after all."""

        def work() -> tuple[Json, HandlerResult | None]:
            try:
                chosen = function(view)
            except BaseException as error:
                raise _raised(name, error, self._where) from error
            is_waiting = inspect.isawaitable(chosen)
            return chosen, None if is_waiting else _result(name, view, chosen, self._where)

        chosen, result = await in_thread(work, name=f"handler {name}")
        if result is None:
            result = await self._awaited(name, partial(_itself, chosen), view)
        return result

    async def _awaited(
        self, name: str, function: Callable[[HandlerRun], Awaitable[Json]], view: HandlerRun
    ) -> HandlerResult:
        try:
            chosen = await function(view)
        except EDGE as error:
            if not (is_for_us(error) or isinstance(error, KeyboardInterrupt)):
                raise
            # An exit is the script's own doing here: let through, it would end the whole process.
            raise _raised(name, error, self._where) from error
        return _result(name, view, chosen, self._where)


def _itself(waiting: Awaitable[Json], _view: HandlerRun) -> Awaitable[Json]:
    return waiting


def _result(name: str, view: HandlerRun, chosen: Json, where: str) -> HandlerResult:
    """Return what a handler has changed.

    Raises:
        AuthorMistake: it left what cannot be kept, or has not run at all.
    """
    if inspect.isgenerator(chosen) or inspect.isasyncgen(chosen):
        raise AuthorMistake(
            f"The handler {name} ({where}) is a generator, nothing of which has run.",
            hint="Write it without `yield`.",
        )
    try:
        return view.result(chosen)
    except AuthorMistake as error:
        what = f"What the handler {name} left ({where}) cannot be kept: {error.what}"
        raise AuthorMistake(what, hint=error.hint) from error


def _raised(name: str, error: BaseException, where: str) -> MidstreamError:
    """Return what a handler's exception means. One of midstream's own is the script's last word."""
    if isinstance(error, MidstreamError):
        return error
    if isinstance(error.__cause__, StopIteration):
        error = error.__cause__  # a coroutine cannot raise it: Python has wrapped it
    frames = traceback.extract_tb(error.__traceback__)
    files = [f.filename for f in frames if f.filename == where or _is_script(f.filename)]
    # The handler's own line, not that of the library it called: the first file is the script's.
    script = where if where in files else next(iter(files), "")
    lines = [f.lineno for f in frames if f.filename == script]
    place = f"{script}:{lines[-1]}" if lines else where
    return AuthorMistake(
        f"The handler {name} raised {in_words(error)} ({place}).",
        hint="Mend the script and start the workflow again.",
    )


_HOUSE = str(Path(__file__).parent.parent)


def _is_script(filename: str) -> bool:
    """Return whether a traceback's file is the user's own: neither ours nor the library's."""
    ours = filename.startswith(_HOUSE) and "/defaults/" not in filename
    return not ours and Path(filename).name not in ("threading.py", "timeouts.py")


# --- deadlines ---------------------------------------------------------------------------------
#
# Many deadlines of one length behind one timer of the loop: each costs next to nothing. `asyncio.timeout`
# sets and cancels a timer for each use, which would be a good part of what a transition costs. Here the
# timer stands at the earliest deadline only, and is set again when it rings.


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


# --- loading ------------------------------------------------------------------------------------


async def load_script(
    path: Path, source: bytes | None = None, *, timeout_s: float = 30.0
) -> ScriptHandlers:
    """Return the functions of a script, imported off the loop; see `load_module`."""
    return script_functions(await load_module(path, source, timeout_s=timeout_s), path)


def script_functions(module: ModuleType, path: Path) -> ScriptHandlers:
    """Return the functions of a script that was imported."""
    functions = {
        name: value
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("__")
    }
    return ScriptHandlers(functions, where=str(path))


async def load_module(
    path: Path, source: bytes | None = None, *, timeout_s: float = 30.0
) -> ModuleType:
    """Return the module of a script, or of a workflow written in Python, imported off the loop.

    Args:
        path: its file, for errors and tracebacks.
        source: its text, where that has been read (and trusted) already; None reads the file.
        timeout_s: how long the import may take, in seconds.

    Raises:
        AuthorMistake: the import raised or took too long; the message has the file and line.
    """
    deadline = asyncio.timeout(timeout_s)
    try:
        async with deadline:
            return await in_thread(lambda: module_of(path, source), name=f"import {path.name}")
    except AuthorMistake:
        raise
    except Exception as error:
        if not deadline.expired():
            raise _import_failed(path, error) from error
        raise AuthorMistake(
            f"Importing {path} has not ended after {timeout_s:g} s.",
            hint="A script only defines functions; do slow things in them, not at import.",
        ) from error


def module_of(path: Path, source: bytes | None = None) -> ModuleType:
    """Return the same, imported in this thread, however long that takes.

    Raises:
        AuthorMistake: the import raised.
    """
    try:
        return module_from(path, path.read_bytes() if source is None else source)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # An exit is the file's own doing: let through, it would end the whole process.
        raise _import_failed(path, error) from error


def _import_failed(path: Path, error: BaseException) -> AuthorMistake:
    if isinstance(error, SyntaxError):
        # The script's own, or that of a module it imports; some (a NUL in the source) have no line.
        place = f"{error.filename or path}:{error.lineno or 1}"
        return AuthorMistake(f"{place}: {error.msg}.", hint="Mend the script's syntax.")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    place = f"{path}:{frames[-1].lineno}" if frames else str(path)
    if isinstance(error, MidstreamError):
        return AuthorMistake(f"{place}: {error.what}", hint=error.hint)
    hint = "The script has to import before its workflow can run."
    if isinstance(error, ModuleNotFoundError):
        hint = (
            "Only installed modules are found, not files beside it: install it, or set PYTHONPATH."
        )
    return AuthorMistake(f"{place}: importing the script raised {in_words(error)}.", hint=hint)

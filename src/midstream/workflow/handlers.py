"""Handlers: the functions of a workflow's `script.py`, run as effects.

A handler gets a `HandlerRun`: copies of the run's data it may change freely. When it returns, the
difference is taken and becomes a fact. Plain functions run each in a daemon thread of their own, so
one that never returns holds up neither the prompt nor the end of the process; async ones are
awaited on the loop.
"""

import asyncio
import inspect
import reprlib
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TypeAlias

import msgspec

from midstream.core.errors import AuthorMistake
from midstream.core.events import ContextChange
from midstream.core.names import Json
from midstream.core.nearest import did_you_mean
from midstream.core.run import Response, Run, plan_for
from midstream.offloop import call_soon, in_thread
from midstream.ports import HandlerResult
from midstream.scripts import module_from
from midstream.workflow.context import WorkflowContext

HANDLER_TIMEOUT_S = 600.0
"""Seconds a handler may take before the run fails with its name."""


class ResponseCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of the last response."""

    name: str
    arguments: dict[str, Json]


class LastResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The reply that ended the last agent's turn. Both parts are empty before the first."""

    agent: str = ""
    text: str = ""
    tool_calls: tuple[ResponseCall, ...] = ()


class HandlerRun:
    """The run, as a handler sees it. Changes take effect when the handler returns."""

    def __init__(self, run: Run, log: Callable[[str], None]) -> None:
        self._log = log
        self._changes: list[ContextChange] = []
        self.id = run.id
        self.state = run.state
        self.input: Json = copied(run.input)
        self.common_data: dict[str, Json] = copied(run.common_data)
        self.variables: dict[str, Json] = copied(run.variables)
        self.resume_input = run.resume_input
        self.interrupted_state = run.interrupted_state
        self.last_response = _last_response(run.last_response)
        self.contexts: Mapping[str, WorkflowContext] = _Contexts(
            {
                name: WorkflowContext(spec, run.contexts[name], self._changes)
                for name, spec in plan_for(run).contexts.items()
            }
        )

    def log(self, text: object) -> None:
        """Show a line to the user, at once. May be called from any thread."""
        self._log(str(text))

    def result(self, run: Run, chosen: Json) -> HandlerResult:
        """Return what has changed since `run`.

        Raises:
            AuthorMistake: common_data, variables or an added message hold what cannot be kept.
        """
        changed = _changed("common_data", run.common_data, self.common_data)
        return HandlerResult(
            changed=changed,
            removed=tuple(key for key in run.common_data if key not in self.common_data),
            variables=_changed("variables", run.variables, self.variables),
            contexts=tuple(self._changes),
            chosen=chosen,
        )


class _Contexts(dict[str, WorkflowContext]):
    def __missing__(self, name: str) -> WorkflowContext:
        raise KeyError(f"there is no context {name!r}. {did_you_mean(name, self)}")


def _last_response(response: Response | None) -> LastResponse:
    if response is None:
        return LastResponse()
    calls = tuple(
        ResponseCall(name=call.name, arguments=copied(call.arguments)) for call in response.calls
    )
    return LastResponse(agent=response.agent, text=response.text, tool_calls=calls)


# --- JSON values --------------------------------------------------------------------------------


def copied(value: Json) -> Json:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def _changed(name: str, before: Mapping[str, Json], after: Json) -> dict[str, Json]:
    """Return the keys of `after` that are new or hold something else, copied.

    The copy is made by way of JSON text: it is what a replay of the journal would read.
    """
    if not isinstance(after, dict):
        raise AuthorMistake(
            f"{name} is {_shown(after)}, no longer a dict.",
            hint=f"Change its keys instead: run.{name}['key'] = value.",
        )
    nothing = object()
    changed = {
        key: value for key, value in after.items() if not _is_same(before.get(key, nothing), value)
    }
    _require_json(name, changed)
    try:
        kept: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(changed, enc_hook=_plain))
    except UnicodeEncodeError as error:
        raise AuthorMistake(
            f"{name} holds text that is no Unicode: {error}.",
            hint="Read such text with errors='replace'.",
        ) from error
    return kept


def _is_same(one: Json, other: Json) -> bool:
    """Return whether two JSON values are the same; unlike `==`, 1, 1.0 and True are three."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


_JSON_TYPES = (str, int, float, bool, type(None))

MAX_DEPTH = 200
"""How deep lists and dicts may stand in each other; what holds itself is deeper than any."""


def _require_json(path: str, value: Json, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise AuthorMistake(
            f"{path[:60]}... is nested more than {MAX_DEPTH} deep, or holds itself.",
            hint="Keep plain data in it: nothing that holds itself.",
        )
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise AuthorMistake(
                    f"{path} has the key {key!r}, which is no text.",
                    hint="Keys of JSON objects are strings.",
                )
            _require_json(f"{path}.{key}", item, depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _require_json(f"{path}[{number}]", item, depth + 1)
    elif not isinstance(value, _JSON_TYPES) or value != value or value in (_INF, -_INF):
        raise AuthorMistake(
            f"{path} is {_shown(value)}, which is no JSON value.",
            hint="Keep text, numbers, true/false, None, lists and dicts in it.",
        )


_INF = float("inf")


def _plain(value: object) -> Json:
    """Return a value of a type derived from a JSON type (such as numpy's floats) as the plain one."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} is no JSON type")


def _shown(value: object) -> str:
    return f"{reprlib.repr(value)} ({type(value).__name__})"


# --- calling ------------------------------------------------------------------------------------

Handler: TypeAlias = Callable[[HandlerRun], Json]
"""A handler: plain or async. What a transition handler returns is the next state's name."""


class ScriptHandlers:
    """The handlers of one script.

    Args:
        functions: the handlers by name, plain or async.
        where: what to call the script in errors, such as its file name.
        timeout_s: how long one call may take, in seconds.
    """

    def __init__(
        self,
        functions: Mapping[str, Handler],
        *,
        where: str = "the script",
        timeout_s: float = HANDLER_TIMEOUT_S,
    ) -> None:
        self._functions = MappingProxyType(dict(functions))
        self._where = where
        self._timeout_s = timeout_s

    async def call(self, name: str, run: Run, log: Callable[[str], None]) -> HandlerResult:
        """Return what the handler of that name did; see the port `Handlers`."""
        function = self._functions.get(name)
        if function is None:
            raise AuthorMistake(
                f"{self._where} has no handler {name!r}.", hint=did_you_mean(name, self._functions)
            )
        log = _from_any_thread(log)
        deadline = asyncio.timeout(self._timeout_s)
        try:
            async with deadline:
                if inspect.iscoroutinefunction(function):
                    view = HandlerRun(run, log)
                    return await self._awaited(name, _called(function, view), view, run)
                return await self._in_thread(name, function, run, log)
        except (AuthorMistake, TimeoutError) as error:
            if not deadline.expired():
                raise
            raise AuthorMistake(
                f"The handler {name} of {self._where} has not returned "
                f"after {self._timeout_s:g} s.",
                hint="Look for a loop without an end, or do the slow part in a tool.",
            ) from error

    async def _in_thread(
        self, name: str, function: Handler, run: Run, log: Callable[[str], None]
    ) -> HandlerResult:
        """Call a plain function, and await what it returns where that is a coroutine after all."""

        def work() -> tuple[HandlerRun, Json, HandlerResult | None]:
            view = HandlerRun(run, log)
            try:
                chosen = function(view)
            except BaseException as error:
                raise _raised(name, error, self._where) from error
            is_waiting = inspect.isawaitable(chosen)
            return view, chosen, None if is_waiting else view.result(run, chosen)

        view, chosen, result = await in_thread(work, name=f"handler {name}")
        return await self._awaited(name, chosen, view, run) if result is None else result

    async def _awaited(
        self, name: str, waiting: Awaitable[Json], view: HandlerRun, run: Run
    ) -> HandlerResult:
        try:
            chosen = await waiting
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise _raised(name, error, self._where) from error
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            # An exit is the script's own doing here: let through, it would end the whole process.
            raise _raised(name, error, self._where) from error
        return view.result(run, chosen)


async def _called(function: Handler, view: HandlerRun) -> Json:
    return await function(view)


def _from_any_thread(log: Callable[[str], None]) -> Callable[[str], None]:
    """Return a `log` that may be called from any thread, and is heard at once on the loop's own."""
    loop, own = asyncio.get_running_loop(), threading.get_ident()

    def say(text: str) -> None:
        if threading.get_ident() == own:
            log(text)
        else:
            call_soon(loop, log, text)

    return say


def _raised(name: str, error: BaseException, where: str) -> AuthorMistake:
    if isinstance(error.__cause__, StopIteration):
        error = error.__cause__  # a coroutine cannot raise it: Python has wrapped it
    frames = traceback.extract_tb(error.__traceback__)
    files = [f.filename for f in frames if f.filename == where or _is_script(f.filename)]
    # The handler's own line, not that of the library it called: the first file is the script's.
    script = where if where in files else next(iter(files), "")
    lines = [f.lineno for f in frames if f.filename == script]
    place = f"{script}:{lines[-1]}" if lines else where
    words = str(error) or "no message"
    return AuthorMistake(
        f"The handler {name} raised {type(error).__name__}: {words} ({place}).",
        hint="Mend the script and start the workflow again.",
    )


_HOUSE = str(Path(__file__).parent.parent)


def _is_script(filename: str) -> bool:
    """Return whether a traceback's file is the user's own: neither ours nor the library's."""
    ours = filename.startswith(_HOUSE) and "/defaults/" not in filename
    return not ours and Path(filename).name not in ("threading.py", "timeouts.py")


# --- loading ------------------------------------------------------------------------------------


async def load_script(
    path: Path, source: bytes | None = None, *, timeout_s: float = 30.0
) -> ScriptHandlers:
    """Return the functions of a script, imported off the loop.

    Args:
        path: the script's file, for errors and tracebacks.
        source: its text, where that has been read (and trusted) already; None reads the file.
        timeout_s: how long the import may take, in seconds.

    Raises:
        AuthorMistake: the import raised or took too long; the message has the file and line.
    """
    deadline = asyncio.timeout(timeout_s)
    try:
        async with deadline:
            module = await in_thread(lambda: _imported(path, source), name=f"import {path.name}")
    except Exception as error:
        if deadline.expired():
            raise AuthorMistake(
                f"Importing {path} has not ended after {timeout_s:g} s.",
                hint="A script only defines handlers; do slow things in them, not at import.",
            ) from error
        raise _import_failed(path, error) from error
    functions = {
        name: value
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("__")
    }
    return ScriptHandlers(functions, where=str(path))


def _imported(path: Path, source: bytes | None) -> ModuleType:
    return module_from(path, path.read_bytes() if source is None else source)


def _import_failed(path: Path, error: Exception) -> AuthorMistake:
    if isinstance(error, SyntaxError):
        # The script's own, or that of a module it imports; some (a NUL in the source) have no line.
        place = f"{error.filename or path}:{error.lineno or 1}"
        return AuthorMistake(f"{place}: {error.msg}.", hint="Mend the script's syntax.")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    place = f"{path}:{frames[-1].lineno}" if frames else str(path)
    return AuthorMistake(
        f"{place}: importing the script raised {type(error).__name__}: {error}.",
        hint="The script has to import before its workflow can run.",
    )

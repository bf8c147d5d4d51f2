"""ToolManager: every tool call of every run goes through here, and ends in an outcome.

A tool may raise, hang, return megabytes or be told to stop at any moment. What comes out is always
one `ToolOutcome` with a text a model can act on; only a cancellation goes through as itself.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Final

import msgspec

from midstream.core.errors import MidstreamError
from midstream.core.names import Json, Outcome
from midstream.core.nearest import did_you_mean
from midstream.core.spec import ToolSpec
from midstream.offloop import in_thread
from midstream.ports import ToolContext, ToolOutcome
from midstream.tool.base import Result, Stopped, Tool
from midstream.tool.text import capped, cleaned
from midstream.tool.validation import validate

SOFT_STOP_S: Final = 6.0
"""How long a `once` tool may take to end softly: the shell's signals, and some time to be gone."""

_VERIFY = "verify before repeating it"


class ToolManager:
    """The tools runs may call, by name. Of two with one name the first counts.

    `tools` are the user's own; built-in ones (`midstream.tool.builtin`) come first unless
    `built_in` says otherwise.
    """

    def __init__(self, tools: Iterable[Tool] = (), *, built_in: Iterable[Tool] | None = None):
        if built_in is None:
            from midstream.tool.builtin import built_in_tools

            built_in = built_in_tools()
        self._tools: dict[str, Tool] = {}
        for tool in (*built_in, *tools):
            self._tools.setdefault(tool.spec.name, tool)

    def specs(self) -> dict[str, ToolSpec]:
        """Return what each tool is, by name, in the order of names."""
        return {name: self._tools[name].spec for name in sorted(self._tools)}

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        """Return how the call ended. Never raises but `CancelledError`.

        Arguments are checked first. A `read` or `idempotent` tool ends at once when `context.stop`
        is set; a `once` tool is given `SOFT_STOP_S` to end by itself and say how. The text has no
        NUL and no lone surrogate, and its middle is left out beyond `midstream.tool.text.MAX_CHARS`.
        """
        tool = self._tools.get(name)
        if tool is None:
            hint = did_you_mean(name, self._tools)
            return ToolOutcome(outcome="failed", text=cleaned(f"There is no tool {name!r}. {hint}"))
        if context.stop.is_set():
            return ToolOutcome(outcome="not_run", text="Not run: it was stopped before it began.")
        ended = await _supervised(tool, arguments, context)
        return ToolOutcome(outcome=ended.outcome, text=capped(cleaned(ended.text)))


async def _supervised(tool: Tool, arguments: dict[str, Json], context: ToolContext) -> ToolOutcome:
    """Run the call beside its deadline and the wish to stop it."""
    # The call's own event: it is set, too, when nobody waits any more, so that a thread that cannot
    # be killed changes nothing afterwards.
    stop = asyncio.Event()
    is_over = asyncio.Event()
    own = msgspec.structs.replace(context, stop=stop, progress=_until(is_over, context.progress))
    async with asyncio.TaskGroup() as group:
        work = group.create_task(_outcome(tool, arguments, own))
        halt = group.create_task(context.stop.wait())
        try:
            await asyncio.wait(
                {work, halt}, timeout=tool.spec.timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            was_told = halt.done()
            stop.set()
            if not work.done() and was_told and tool.spec.effect == "once":
                await asyncio.wait({work}, timeout=SOFT_STOP_S)
            was_cut = not work.done()
        finally:
            # The work first: a command that is cancelled is killed, not asked.
            work.cancel()
            halt.cancel()
            stop.set()
            is_over.set()
    if not work.cancelled():
        return work.result()
    if not was_cut:
        return ToolOutcome(outcome="failed", text=f"{tool.spec.name} cancelled itself.")
    return _cut(tool.spec) if was_told else _timed_out(tool.spec)


def _until(is_over: asyncio.Event, progress: Callable[[str], None]) -> Callable[[str], None]:
    """Return a progress function that a forgotten thread cannot use any more."""

    def tell(text: str) -> None:
        if not is_over.is_set():
            progress(cleaned(text))

    return tell


def _timed_out(spec: ToolSpec) -> ToolOutcome:
    words = f"Timed out after {spec.timeout_s:g} s"
    if spec.effect == "once":
        text = f"{words}: it may have done part of its work, {_VERIFY}."
        return ToolOutcome(outcome="unknown", text=text)
    return ToolOutcome(outcome="failed", text=f"{words}.")


def _cut(spec: ToolSpec) -> ToolOutcome:
    if spec.effect == "once":
        text = f"It was told to stop and did not end in time: {_VERIFY}."
        return ToolOutcome(outcome="unknown", text=text)
    more = "" if spec.effect == "read" else " It may have been done; doing it again does no harm."
    return ToolOutcome(outcome="stopped", text=f"Stopped before it finished.{more}")


async def _outcome(tool: Tool, arguments: dict[str, Json], context: ToolContext) -> ToolOutcome:
    """Do the call; whatever it raises becomes an outcome."""
    try:
        problem = await in_thread(partial(validate, arguments, tool.spec.parameters))
        if problem:
            return ToolOutcome(
                outcome="failed", text=f"Not run, the arguments do not fit: {problem}"
            )
        return _as_outcome(await _done(tool, msgspec.to_builtins(arguments), context))
    except Stopped:
        return ToolOutcome(outcome="stopped", text="Stopped before it changed anything.")
    except MidstreamError as error:
        return ToolOutcome(outcome="failed", text=str(error))
    except OSError as error:
        text = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        return ToolOutcome(outcome="failed", text=text)
    except (Exception, SystemExit) as error:
        return ToolOutcome(outcome="failed", text=_words_for(tool, error))


async def _done(tool: Tool, arguments: dict[str, Json], context: ToolContext) -> Result:
    result: Result | Awaitable[Result]
    if iscoroutinefunction(tool.function):
        result = tool.function(arguments, context)
    else:
        call = partial(tool.function, arguments, context)
        result = await in_thread(call, name=f"midstream-tool-{tool.spec.name}")
    return await result if isawaitable(result) else result


def _as_outcome(result: Result) -> ToolOutcome:
    if isinstance(result, ToolOutcome):
        return result
    return ToolOutcome(outcome=_COMPLETED, text=result if isinstance(result, str) else str(result))


_COMPLETED: Final[Outcome] = "completed"


def _words_for(tool: Tool, error: BaseException) -> str:
    where = ""
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        where = f" ({frames[-1].filename.rpartition('/')[2]}, line {frames[-1].lineno})"
    message = f": {error}" if str(error) else ""
    return f"{tool.spec.name} failed with {type(error).__name__}{message}{where}"

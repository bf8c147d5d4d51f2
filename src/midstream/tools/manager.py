"""ToolManager: every tool call of every run goes through here, and ends in an outcome.

A tool may raise, hang, return megabytes or be told to stop at any moment. What comes out is always
one `ToolOutcome` with a text a model can act on; only a cancellation goes through as itself.
"""

import asyncio
import hashlib
import json
import traceback
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Final

import msgspec

from midstream.core.background import TERMINAL
from midstream.core.call_notes import NOT_AS_SEEN
from midstream.language.errors import MidstreamError, did_you_mean, in_words
from midstream.language.names import EXTERNAL_CALL, JOIN_WORKTREE, OPEN_WORKTREE, Json
from midstream.language.spec import ToolSpec
from midstream.runtime.ports import Review, ToolContext, ToolOutcome
from midstream.safety.capability import SHOWN, Capability
from midstream.safety.policy import Policy, Verdict, is_named, judged, kept_from, may_ask_about
from midstream.safety.rules import covers, is_told_by_name
from midstream.system.offloop import in_thread, still_working
from midstream.tools.base import Planned, Result, Stopped, Tool
from midstream.tools.diagnostics import Diagnostics, Watch
from midstream.tools.tool_text import capped, cleaned
from midstream.tools.validation import validate

if TYPE_CHECKING:
    from midstream.tools.sandbox.sandbox import Sandbox

SOFT_STOP_S: Final = 6.0
"""How long a `once` tool may take to end softly: the shell's signals, and some time to be gone."""

PLAN_S: Final = 20.0
"""How long it may take to find out what a call would do, in seconds."""

_NOT_FOR_CHECKERS: Final = ("outside", "net", "write_protected")
"""What nothing may ask for that runs by itself after a change."""

_WOULD_ASK = "a person would have to be asked (/permissions auto, or a rule that allows it)"
_OF_FILES: Final = ("read", "write", "write_protected")

_UNFIT = "Not run, the arguments do not fit: "
_VERIFY = "verify before repeating it"
_GOES_ON = "may still be at work, for nothing can stop it"


class ToolManager:
    """The tools runs may call, by name. Of two with one name the first counts.

    `tools` are the user's own; built-in ones come first unless
    `built_in` says otherwise. Calls of tools with a plan are judged by the `policy` of the moment.
    What calls change is looked at by the checkers of `diagnostics`, if any.
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        built_in: Iterable[Tool] | None = None,
        policy: Callable[[], Policy] = Policy,
        diagnostics: Diagnostics | None = None,
    ) -> None:
        self._policy = policy
        self._diagnostics = diagnostics
        if built_in is None:
            built_in = built_in_tools()
        self._tools: dict[str, Tool] = {}
        for tool in (*built_in, *tools):
            self._tools.setdefault(tool.spec.name, tool)

    def specs(self) -> dict[str, ToolSpec]:
        """Return what each tool is, by name, in the order of names.

        Calls that only read are reviewed only where a rule asks about reading, or about tools by
        their names: mostly none does.
        """
        policy = self._policy()
        reads, names = may_ask_about("read", policy), may_ask_about("tool", policy)
        return {
            name: _spec(self._tools[name], reads=reads, names=names)
            for name in sorted(self._tools)
            if name not in (EXTERNAL_CALL, OPEN_WORKTREE, JOIN_WORKTREE)
        }

    def put(self, tools: Iterable[Tool], *, instead_of: Iterable[str] = ()) -> None:
        """Take in tools that came to be known later, in place of those of these names."""
        gone = set(instead_of)
        kept = {name: tool for name, tool in self._tools.items() if name not in gone}
        for tool in tools:
            kept.setdefault(tool.spec.name, tool)
        self._tools = kept  # at once: calls are looked up on the loop meanwhile

    async def review(self, name: str, arguments: dict[str, Json], context: ToolContext) -> Review:
        """Return what is to become of a call; see the port `Tools`.

        A call that will fail by itself (wrong arguments, a file that is not there) is let through to
        fail: the model is told why by the call.
        """
        tool = self._tools.get(name)
        if tool is None:
            return Review()
        own, problem = await in_thread(partial(_checked, tool, arguments))
        if problem:
            return _failing(tool, problem)
        planned = await _planned(tool, own, self._with_policy(context, is_review=True))
        if isinstance(planned, ToolOutcome):
            return _failing(tool, planned.text)
        verdict = self._verdict(tool, planned, context)
        return Review(
            kind=verdict.kind,
            asks=(*map(str, verdict.asked), _seen(planned)) if verdict.kind == "ask" else (),
            shows=planned.shows,
            reason=verdict.reason,
            hint=verdict.hint,
        )

    def _verdict(self, tool: Tool, planned: Planned, context: ToolContext) -> Verdict:
        policy = self._policy_for(tool)
        verdict = _stricter(judged(planned.requests, policy), _by_name(tool, policy))
        if verdict.kind != "ask":
            return verdict
        granted = context.granted
        is_known = tool.spec.name in granted
        left = [
            each
            for each in verdict.asked
            if not covers(granted, each) and not (is_known and is_told_by_name(str(each)))
        ]
        if verdict.asked and not left:
            return Verdict(kind="allow", reason="granted for this run")
        return verdict

    def _policy_for(self, tool: Tool) -> Policy:
        """Return what a tool is judged by. One that only reads, and does not say what, is not held up
        where nothing but reading is allowed.
        """
        policy = self._policy()
        if tool.plan is not None or tool.spec.effect != "read":
            return policy
        mode = "ask" if policy.mode == "plan" else policy.mode
        return msgspec.structs.replace(policy, mode=mode, is_untrusted=False)

    def _with_policy(self, context: ToolContext, *, is_review: bool = False) -> ToolContext:
        """Return a context that answers what else the call may do.

        In a review what has a person asked is no obstacle: what is planned is for their eyes.
        """
        policy, granted = self._policy(), context.granted

        def forbids(request: Capability) -> str:
            verdict = judged((request,), policy)
            if verdict.kind == "allow" or (is_review and verdict.kind == "ask"):
                return ""
            if verdict.kind == "ask" and all(covers(granted, each) for each in verdict.asked):
                return ""
            return f"{request.target}: {verdict.reason} {verdict.hint}".strip()

        return msgspec.structs.replace(
            context,
            forbids=forbids,
            kept_from=lambda command: kept_from(command, policy),
            is_named=lambda request: is_named(request, policy),
        )

    async def _refused(
        self, tool: Tool, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome | ToolContext:
        """Return why a call may not be made now, whatever was true when it was reviewed; otherwise
        the context that holds it to what was judged.
        """
        context = self._with_policy(context)
        if tool.plan is None:
            # Only what denies counts, such as the mode `plan`: its spec says whether a person is asked.
            verdict = judged((_named(tool),), self._policy_for(tool))
            return _denied(verdict) if verdict.kind == "deny" else context
        planned = await _planned(tool, arguments, context)
        if isinstance(planned, ToolOutcome):
            return planned
        verdict = self._verdict(tool, planned, context)
        if verdict.kind != "allow":
            return _denied(verdict)
        seen = [each for each in context.granted if each.startswith(SHOWN)]
        # Made again after a crash, a call may find that all it was allowed to do has happened.
        if seen and _seen(planned) not in seen and not planned.is_done:
            return ToolOutcome(outcome="failed", text=NOT_AS_SEEN)
        files = [each for each in planned.requests if each.kind in _OF_FILES]
        touches = tuple(dict.fromkeys(each.target for each in files))
        return msgspec.structs.replace(context, binds=planned.binds, touches=touches)

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        """Return how the call ended. Never raises but `CancelledError`.

        Arguments are checked first. A `read` or `idempotent` tool ends at once when `context.stop`
        is set; a `once` tool is given `SOFT_STOP_S` to end by itself and say how. The text has no
        NUL and no lone surrogate, and its middle is left out beyond `midstream.tools.tool_text.MAX_CHARS`.
        """
        changes = name in self._tools and self._tools[name].spec.effect != "read"
        if self._diagnostics is None or not changes:
            return await self._called(name, arguments, context)
        watch = Watch(self._diagnostics, context, self._run_checker)
        ended = await self._called(name, arguments, watch.context)
        return await watch.checked(ended)

    async def _run_checker(self, line: str, timeout_s: float, context: ToolContext) -> ToolOutcome:
        """Return how a command ended that looks at a change, run as a command of the agent would be.

        Where a person would have to be asked, or it would not be in the sandbox, it is not run.
        """
        tool = self._tools.get(TERMINAL)
        if tool is None:
            return _not_looking("there is nothing to run commands with")
        arguments: dict[str, Json] = {"command": line, "timeout_s": timeout_s}
        planned = await _planned(tool, arguments, self._with_policy(context))
        if isinstance(planned, ToolOutcome):
            return _not_looking(planned.text)
        if any(each.kind in _NOT_FOR_CHECKERS for each in planned.requests):
            return _not_looking("it would not run in a whole sandbox")
        verdict = self._verdict(tool, planned, context)
        if verdict.kind != "allow":
            return _not_looking(_WOULD_ASK if verdict.kind == "ask" else verdict.reason)
        return await self._called(TERMINAL, arguments, context)

    async def _called(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        """Return how the call ended, as `call` does; what it changed is not looked at."""
        tool = self._tools.get(name)
        if tool is None:
            hint = did_you_mean(name, self._tools)
            return ToolOutcome(outcome="failed", text=cleaned(f"There is no tool {name!r}. {hint}"))
        if context.stop.is_set():
            return ToolOutcome(outcome="not_run", text="Not run: it was stopped before it began.")
        # Again, though the review did: days may have gone by since, in another process, and a server
        # may say something else of its tool. From here on nobody checks: all work on copies of this.
        own, problem = await in_thread(partial(_checked, tool, arguments))
        if problem:
            return ToolOutcome(outcome="failed", text=capped(cleaned(f"{_UNFIT}{problem}")))
        held = await self._refused(tool, own, context)
        if isinstance(held, ToolOutcome):
            return ToolOutcome(outcome=held.outcome, text=capped(cleaned(held.text)))
        ended = await _supervised(tool, own, held)
        touched = held.touches if ended.outcome == "completed" else ()
        return msgspec.structs.replace(ended, text=capped(cleaned(ended.text)), touched=touched)


def built_in_tools(sandbox: "Sandbox | None" = None) -> tuple[Tool, ...]:
    """Return every tool midstream ships, in a stable order. Commands run in the sandbox, if any."""
    from midstream.tools import (
        background_tools,
        code_tools,
        external_calls,
        file_tools,
        search,
        shell,
        small_tools,
        web_fetch,
        worktree_tools,
    )

    looking = (*file_tools.TOOLS, *search.TOOLS, *code_tools.TOOLS, *web_fetch.TOOLS)
    running = (shell.terminal_tool(sandbox), *background_tools.TOOLS)
    unseen = (*worktree_tools.TOOLS, *external_calls.TOOLS)
    return (*looking, *running, *small_tools.TOOLS, *unseen)


def _spec(tool: Tool, *, reads: bool, names: bool) -> ToolSpec:
    """Return what a tool is, reviewed where something could refuse it or ask before it is called."""
    asks = tool.spec.needs_approval if tool.plan is None else reads
    if tool.spec.reviewed or not (asks or names):
        return tool.spec
    return msgspec.structs.replace(tool.spec, reviewed=True)


def _failing(tool: Tool, why: str) -> Review:
    """Return what becomes of a call that will fail by itself. One that is made elsewhere will not."""
    if tool.spec.name != EXTERNAL_CALL:
        return Review()
    return Review(kind="deny", reason=f"What it would do could not be found out: {why}")


def _not_looking(why: str) -> ToolOutcome:
    return ToolOutcome(outcome="denied", text=why)


def _denied(verdict: Verdict) -> ToolOutcome:
    return ToolOutcome(outcome="denied", text=f"Refused: {verdict.reason} {verdict.hint}")


def _named(tool: Tool) -> Capability:
    return Capability(kind="tool", target=tool.spec.name)


def _by_name(tool: Tool, policy: Policy) -> Verdict:
    """Return what the rules about tools by their names say; where none speaks, nothing is asked."""
    rules = msgspec.structs.replace(policy, mode="full", is_untrusted=False)
    return judged((_named(tool),), rules)


def _stricter(one: Verdict, other: Verdict) -> Verdict:
    """Return the verdict that lets less happen; of two that ask, one that asks about all of it."""
    order = ("allow", "ask", "deny")
    if one.kind == other.kind == "ask":
        asked = {str(each): each for each in (*one.asked, *other.asked)}
        return msgspec.structs.replace(one, asked=tuple(asked[text] for text in sorted(asked)))
    return max(one, other, key=lambda each: order.index(each.kind))


def _plan_by_name(tool: Tool, arguments: dict[str, Json]) -> Planned:
    """Return what is known of a call of a tool that does not say what it would do."""
    shown = json.dumps(arguments, indent=2, sort_keys=True)
    return Planned(requests=(_named(tool),) if tool.spec.needs_approval else (), shows=shown)


def _checked(tool: Tool, arguments: dict[str, Json]) -> tuple[dict[str, Json], str]:
    """Return arguments that nobody else holds, and why they do not fit the tool, "" where they do."""
    try:
        own = _copied(arguments)
    except (RecursionError, TypeError, ValueError):
        # What cannot be copied is no JSON of a size to be checked.
        return {}, validate(arguments, tool.spec.parameters) or "they are no JSON"
    return own, validate(own, tool.spec.parameters)


def _copied(arguments: dict[str, Json]) -> dict[str, Json]:
    """Return the same arguments: whoever gets these cannot change what the others were given."""
    copy: dict[str, Json] = msgspec.to_builtins(arguments)
    return copy


def _seen(planned: Planned) -> str:
    """Return the grant that binds a yes to what was shown."""
    whole = f"{planned.binds}\n{planned.shows}"
    return SHOWN + hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


async def _planned(
    tool: Tool, arguments: dict[str, Json], context: ToolContext
) -> Planned | ToolOutcome:
    """Return what a call with checked arguments would do, or how it fails before it does anything."""
    plan = tool.plan or (lambda found, _context: _plan_by_name(tool, found))

    def work() -> Planned:
        return plan(_copied(arguments), context)

    try:
        async with asyncio.timeout(PLAN_S):
            return await in_thread(work, name="midstream-plan")
    except (Exception, SystemExit) as error:
        return _failed(tool, error)


class _OwnStop(asyncio.Event):
    """A call's own event: set at once with the one around it, not turns of the loop later."""

    def __init__(self, around: asyncio.Event) -> None:
        super().__init__()
        self._around = around

    def is_set(self) -> bool:
        """Return whether the call is to end: a thread looks right before it writes."""
        return super().is_set() or self._around.is_set()


async def _supervised(tool: Tool, arguments: dict[str, Json], context: ToolContext) -> ToolOutcome:
    """Run the call beside its deadline and the wish to stop it."""
    # The call's own event: it is set, too, when nobody waits any more, so that a thread that cannot
    # be killed changes nothing afterwards.
    stop = _OwnStop(context.stop)
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
                await still_working({work}, SOFT_STOP_S)
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
        return _given_up(tool.spec, f"{tool.spec.name} cancelled itself")
    if was_told:
        return _cut(tool)
    goes_on = "" if tool.hears else f", and {_GOES_ON}"
    return _given_up(tool.spec, f"Timed out after {tool.spec.timeout_s:g} s{goes_on}")


def _until(is_over: asyncio.Event, progress: Callable[[str], None]) -> Callable[[str], None]:
    """Return a progress function that a forgotten thread cannot use any more."""

    def tell(text: str) -> None:
        if not is_over.is_set():
            progress(cleaned(text))

    return tell


def _given_up(spec: ToolSpec, words: str) -> ToolOutcome:
    if spec.effect == "once":
        text = f"{words}: it may have done part of its work, {_VERIFY}."
        return ToolOutcome(outcome="unknown", text=text)
    return ToolOutcome(outcome="failed", text=f"{words}.")


def _cut(tool: Tool) -> ToolOutcome:
    effect = tool.spec.effect
    if effect == "once":
        how = "did not end in time" if tool.hears else _GOES_ON
        return ToolOutcome(outcome="unknown", text=f"It was told to stop and {how}: {_VERIFY}.")
    text = "Stopped before it finished."
    if effect == "idempotent":
        text = text if tool.hears else f"It was told to stop and {_GOES_ON}."
        text += " It may have been done; doing it again does no harm."
    return ToolOutcome(outcome="stopped", text=text)


async def _outcome(tool: Tool, arguments: dict[str, Json], context: ToolContext) -> ToolOutcome:
    """Do the call with checked arguments; whatever it raises becomes an outcome."""
    try:
        result = await _done(tool, _copied(arguments), context)
        if isinstance(result, ToolOutcome):
            return result
        return ToolOutcome(outcome="completed", text=str(result))
    except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # let through, one that is no Exception would be nobody's
        return _failed(tool, error)


def _failed(tool: Tool, error: BaseException) -> ToolOutcome:
    """Return what an exception of a tool means for the model."""
    match error:
        case Stopped():
            return ToolOutcome(outcome="stopped", text="Stopped before it changed anything.")
        case MidstreamError():
            return ToolOutcome(outcome="failed", text=str(error))
        case TimeoutError():
            return _given_up(tool.spec, f"{tool.spec.name} took too long")
        case OSError():
            text = f"{error.strerror or in_words(error)}{f': {error.filename}' if error.filename else ''}"
            return ToolOutcome(outcome="failed", text=text)
        case _:
            return ToolOutcome(outcome="failed", text=_words_for(tool, error))


async def _done(tool: Tool, arguments: dict[str, Json], context: ToolContext) -> Result:
    result: Result | Awaitable[Result]
    if iscoroutinefunction(tool.function):
        result = tool.function(arguments, context)
    else:
        call = partial(tool.function, arguments, context)
        result = await in_thread(call, name=f"midstream-tool-{tool.spec.name}")
    return await result if isawaitable(result) else result


def _words_for(tool: Tool, error: BaseException) -> str:
    where = ""
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        where = f" ({frames[-1].filename.rpartition('/')[2]}, line {frames[-1].lineno})"
    return f"{tool.spec.name} failed with {in_words(error)}{where}"

"""Effects in flight: one model request, one tool call or one handler call each, as tasks.

Each ends by posting exactly one input, unless it is cancelled: then nobody is owed its result any
more. This is the edge where whatever an adapter or a handler raises becomes an input. That goes for
a `CancelledError` too where nobody cancelled the effect: a run must not wait for ever for an
adapter that lost a task of its own.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, get_args
from weakref import WeakSet

from msgspec.structs import replace

from midstream.core import inputs
from midstream.core.decide.steering import NOT_RUN, UNKNOWN
from midstream.core.events import HookRan, ToolEnded
from midstream.core.pending import AskModel, AwaitTime, CallTool, ReviewCall, RunHandler
from midstream.core.run import CALLED, Run, definition_of
from midstream.core.summaries import is_summary_key
from midstream.language.errors import (
    REPORT_BUG,
    JournalFull,
    MidstreamError,
    UserMistake,
    WorldTrouble,
    with_hint,
)
from midstream.language.names import JOIN_WORKTREE, RUN_WORKFLOW, Json, Outcome
from midstream.runtime.agent import WorkflowAgent, summarised
from midstream.runtime.background import Background
from midstream.runtime.effect_handle import StreamingEffect
from midstream.runtime.hooks import (
    AFTER_TOOL,
    after_call,
    arguments_of,
    before_call,
    hears_of,
    refusal_of,
)
from midstream.runtime.json_values import copied, kept_call, kept_choice, kept_usage
from midstream.runtime.pictures import kept_pictures, with_contents
from midstream.runtime.ports import Clock, Handlers, ToolContext, ToolOutcome
from midstream.runtime.ports import World as World
from midstream.runtime.redact_results import (
    WITHHELD,
    cleaned_call,
    cleaned_grants,
    cleaned_result,
    exact_arguments,
    exact_grants,
)
from midstream.runtime.text_limits import ends_redacted, kept, named, short
from midstream.runtime.user_words import readable
from midstream.safety.redaction import Redactor
from midstream.system.offloop import call_soon, in_thread

Post: TypeAlias = Callable[[inputs.AnyInput], None]
Put: TypeAlias = Callable[[inputs.AnyInput], Awaitable[None]]
Deliver: TypeAlias = Callable[[inputs.EffectKey, inputs.AnyInput], Awaitable[None]]


SOFT_STOP_S = 10.0
"""Seconds a tool told to stop gets before its call is cut off and its outcome is unknown. Longer than
the graces tools give themselves: this is for the ones that do not listen."""

EDGE = (BaseException,)
"""What an effect may raise; `is_for_us` tells apart what is not the run's affair."""


async def ask_model(
    effect: AskModel, run: Run, world: World, flight: StreamingEffect, post: Post
) -> None:
    """Make one model request and post its reply or failure."""
    answer: inputs.AnyInput
    try:
        if is_summary_key(effect.key):
            reply = await summarised(run, world.model, flight)
        else:
            agent = WorkflowAgent(run, effect.agent)
            # Of a run that was taken up, the conversation may have to be read first: not on the loop.
            request = agent.request() if agent.is_ready else await in_thread(agent.request)
            request = await with_contents(request, world.blobs)
            reply = await world.model.request(request, flight)
            flight.ended()
        calls = [await cleaned_call(kept_call(call), run, world) for call in reply.calls]
        answer = inputs.ModelReplied(
            key=effect.key,
            text=await kept(reply.text, world),
            calls=tuple(calls),
            usage=kept_usage(reply.usage),
        )
    except MidstreamError as error:
        what, hint = short(error.what, world.redactor), short(error.hint, world.redactor)
        is_broken = isinstance(error, WorldTrouble) and flight.has_begun
        answer = inputs.ModelFailed(
            key=effect.key, error=what, hint=hint, is_broken=is_broken, usage=flight.used()
        )
    except EDGE as error:
        if not is_for_us(error):
            raise
        words = f"The model request failed: {named(error, world.redactor)}"
        answer = inputs.ModelFailed(key=effect.key, error=words, hint=hint_of(error))
    post(answer)


CHECKPOINT_S = 0.2
"""Seconds that what is shown of a reply may be ahead of what the journal knows was shown."""


async def checkpoint(flight: StreamingEffect, clock: Clock, post: Post) -> None:
    """Have what is shown of a reply journaled, a while after it began to be."""
    await clock.sleep(CHECKPOINT_S)
    flight.checkpoint = None
    post(inputs.ReplyCheckpoint(key=flight.key))


async def review_call(
    effect: ReviewCall, run: Run, allowed: tuple[str, ...], world: World, post: Post
) -> None:
    """Look at what a call would do and post what is to become of it."""
    try:
        workspace, own = await place_of(run, effect.name, world)
        context = ToolContext(
            workspace=workspace,
            run=run.id,
            agent=effect.agent,
            stop=asyncio.Event(),
            progress=_unheard,
            granted=(*allowed, *own),
            worktrees=run.branch.worktrees,
            open_files=None if own else world.open_files,
        )
        ran = () if world.hooks is None else await before_call(effect, run, world, workspace)
        if refusal := refusal_of(ran):
            post(inputs.CallReviewed(key=effect.key, kind="deny", reason=refusal, hooks=ran))
            return
        arguments = exact_arguments(effect.name, arguments_of(ran, effect.arguments), run, world)
        if arguments is None:
            post(inputs.CallReviewed(key=effect.key, kind="deny", reason=WITHHELD, hooks=ran))
            return
        review = await world.tools.review(effect.name, copied(arguments), context)
        answer = inputs.CallReviewed(
            key=effect.key,
            kind=review.kind,
            asks=cleaned_grants(effect.name, tuple(map(readable, review.asks)), run, world),
            shows=await kept(review.shows, world),
            reason=short(review.reason, world.redactor),
            hint=short(review.hint, world.redactor),
            hooks=ran,
        )
    except MidstreamError as error:
        what, hint = short(error.what, world.redactor), short(error.hint, world.redactor)
        answer = inputs.CallReviewed(key=effect.key, kind="deny", reason=what, hint=hint)
    except EDGE as error:
        if not is_for_us(error):
            raise
        what = named(error, world.redactor)
        words = f"what the call would do could not be found out: {what}"
        answer = inputs.CallReviewed(key=effect.key, kind="deny", reason=words, hint=hint_of(error))
    post(answer)


async def place_of(run: Run, tool: str, world: World) -> tuple[Path, tuple[str, ...]]:
    """Return the folder a call is made in, and what it may do there that nobody is asked about.

    What is written in a git worktree changes nothing of the person's: they are asked when it is merged.
    That is done in what is around it.
    """
    names = run.branch.worktrees[:-1] if tool == JOIN_WORKTREE else run.branch.worktrees
    if not names or not world.has_worktrees:
        return world.workspace, ()
    if world.place is not None:
        raise UserMistake(
            "A run of a repository, which may go on anywhere, has no git worktrees beside its own folder.",
            hint="Do without: leave out worktree, and hand on only what does not change the same files.",
        )
    from midstream.system.worktree import opened  # few runs have one

    return await in_thread(partial(opened, world.workspace, run.id, names)), ("write: **",)


def _unheard(_text: str) -> None:
    """Tell nobody: a review makes no progress."""


async def call_tool(
    effect: CallTool,
    run: Run,
    allowed: tuple[str, ...],
    world: World,
    flight: StreamingEffect,
    post: Post,
    put: Put,
    background: Background | None = None,
) -> None:
    """Make one tool call and post its outcome."""
    call = effect.call
    loop = asyncio.get_running_loop()
    assert flight.stop is not None
    if flight.stop.is_set():
        # Told to stop before its first step. Begun anew while stopping, it had run in another life.
        if effect.ended is not None:
            post(_finished(effect, effect.ended))
        elif effect.stopping:
            post(inputs.ToolFinished(key=effect.key, outcome="unknown", text=UNKNOWN))
        else:
            post(inputs.ToolFinished(key=effect.key, outcome="not_run", text=NOT_RUN))
        return
    try:
        workspace, own = await place_of(run, call.name, world)
        if effect.ended is not None:
            await _hooked(effect, effect.ended, run, world, workspace, flight.stop, post)
            return
        context = ToolContext(
            workspace=workspace,
            run=run.id,
            agent=effect.agent,
            stop=flight.stop,
            progress=lambda text: call_soon(loop, flight.progress, call.id, call.name, text),
            changed=lambda diff: call_soon(loop, flight.changed, call.id, diff),
            call=call.id,
            epoch=world.epochs.get(run.id, 0),
            background=background,
            granted=(*exact_grants(call.name, effect.granted, run, world), *allowed, *own),
            worktrees=run.branch.worktrees,
            done=partial(_done, effect, run, world, put),
            is_last_change=_is_last_change(run, call.id),
            open_files=None if own else world.open_files,
        )
        if not own:
            # In a worktree its git branch is the record: nothing there is for undo to put back.
            changing = partial(record_change, effect.key, flight, world, put)
            context = replace(context, changing=changing)
        arguments = exact_arguments(call.name, effect.arguments, run, world)
        if arguments is None:
            post(inputs.ToolFinished(key=effect.key, outcome="not_run", text=WITHHELD))
            return
        if call.name == RUN_WORKFLOW and world.workflows is not None:
            found = await world.workflows.called(str(arguments.get("name", "")))
            post(inputs.WorkflowFound(key=effect.key, definition=found))
            return
        ended = await world.tools.call(call.name, copied(arguments), context)
        if ended.outcome not in get_args(Outcome):
            raise ValueError(f"{ended.outcome!r} is no outcome")
        await _keep_files(run, call.id, world, put)
        done = await _ended(effect, ended, world)
        note = short(ended.note, world.redactor)
        below = await _words_below(ended.touched, world)
        if hears_of(ended.outcome, call.name, world) and not flight.stop.is_set():
            # That it has ended is journaled first: a crash while a hook runs leaves nothing unknown. Where
            # there is no room for that, the end waits for room with all that hooks said.
            with suppress(JournalFull):
                await put(inputs.ToolEnded(key=effect.key, ended=done))
            await _hooked(effect, done, run, world, workspace, flight.stop, post, note, below)
            return
        answer = _finished(effect, done, note=note, below=below)
    except MidstreamError as error:
        words = short(with_hint(error.what, error.hint), world.redactor)
        answer = inputs.ToolFinished(key=effect.key, outcome="failed", text=words)
    except EDGE as error:
        if not is_for_us(error):
            raise
        words = f"The tool failed: {named(error, world.redactor)}"
        answer = inputs.ToolFinished(key=effect.key, outcome="failed", text=words)
    post(answer)


async def _words_below(touched: tuple[str, ...], world: World) -> dict[str, str]:
    """Return what the AGENTS.md of the folders say in which a call read or wrote, by their paths."""
    if world.words_below is None or not touched:
        return {}
    found = await in_thread(partial(world.words_below, touched))
    return {readable(path): await kept(text, world) for path, text in found.items()}


async def _keep_files(run: Run, call_id: str, world: World, put: Put) -> None:
    """Keep what a call has made of the files, where the run may go on without them.

    Before its end is journaled: what the journal says was done is there wherever the run goes on.
    """
    calls = () if run.visit.turn is None else run.visit.turn.calls
    is_read = any(call.call.id == call_id and call.effect == "read" for call in calls)
    if world.place is not None and not is_read:
        await world.place.keep(put)


def _finished(
    effect: CallTool,
    ended: ToolEnded,
    hooks: tuple[HookRan, ...] = (),
    note: str = "",
    below: dict[str, str] | None = None,
) -> inputs.ToolFinished:
    return inputs.ToolFinished(
        key=effect.key,
        outcome=ended.outcome,
        text=ended.result,
        pictures=ended.pictures,
        hooks=hooks,
        note=note,
        below=below or {},
    )


def _is_last_change(run: Run, call_id: str) -> bool:
    """Return whether no call after this one, in the same reply, is to change anything."""
    calls = () if run.visit.turn is None else run.visit.turn.calls
    after = [call.call.id for call in calls].index(call_id) + 1 if calls else 0
    return all(call.effect == "read" or call.status == "done" for call in calls[after:])


async def _ended(effect: CallTool, ended: ToolOutcome, world: World) -> ToolEnded:
    """Return how a call has ended as it may be journaled."""
    return ToolEnded(
        call_id=effect.call.id,
        outcome=ended.outcome,
        result=await kept(ended.text, world),
        pictures=await kept_pictures(ended.pictures, world.blobs),
    )


async def _done(effect: CallTool, run: Run, world: World, put: Put, ended: ToolOutcome, /) -> None:
    """Journal what a call has changed, before it looks at what came of that; see `ToolContext`."""
    await _keep_files(run, effect.call.id, world, put)
    await put(inputs.ToolEnded(key=effect.key, ended=await _ended(effect, ended, world)))


async def _hooked(
    effect: CallTool,
    ended: ToolEnded,
    run: Run,
    world: World,
    workspace: Path,
    stop: asyncio.Event,
    post: Post,
    note: str = "",
    below: dict[str, str] | None = None,
) -> None:
    """Let hooks have their say of a call that has ended, and post its end."""
    try:
        ran = await after_call(effect, ended, run, world, workspace, stop)
    except EDGE as error:
        if not is_for_us(error):
            raise
        ran = (HookRan(event=AFTER_TOOL, hook="?", problem=named(error, world.redactor)),)
    post(_finished(effect, ended, ran, note, below))


async def kept_unless_secret(data: bytes, world: World) -> str:
    """Return the key of what a file will hold, kept where no secret is in it."""
    text = data.decode("utf-8", "replace")
    if await in_thread(lambda: world.redactor.redacted(text) == text):
        return await world.blobs.put(data)
    return await in_thread(lambda: hashlib.sha256(data).hexdigest())


async def record_change(
    key: inputs.EffectKey,
    flight: StreamingEffect,
    world: World,
    put: Put,
    path: Path,
    before: bytes | None,
    after: bytes | None,
    folders: Sequence[Path] = (),
    /,
) -> None:
    """Keep what a file holds and will hold and journal that it is about to change; see `ToolContext`."""
    # The order is that of undoing it after a crash: what the file held is kept, then that it will change
    # is journaled, and only then may the tool write. With what it will hold a work tree is made anew
    # where the files are not; what holds a secret is known by its digest alone.
    name = readable(str(path))
    if name != str(path):
        raise WorldTrouble(
            f"{name} was left as it is: its name is no Unicode text.", hint="Rename it."
        )
    called = str if world.place is None else world.place.named
    held = None if before is None else await world.blobs.put(before)
    then = None if after is None else await kept_unless_secret(after, world)
    made = tuple(called(folder) for folder in folders if folder in path.parents)
    await put(
        inputs.FileChanging(key=key, path=called(path), before=held, after=then, folders=made)
    )
    if flight.is_closed:
        raise WorldTrouble(f"{name} was left as it is: the call was stopped.")


async def stop_for_good(flight: StreamingEffect, world: World, post: Post) -> None:
    """Cut off what was told to stop and has not, after `SOFT_STOP_S` seconds: a tool call, or an
    external agent.
    """
    await world.clock.sleep(SOFT_STOP_S)
    if flight.key[-2] == "model":
        post(inputs.AgentStopped(key=flight.key))
        return
    post(inputs.ToolFinished(key=flight.key, outcome="unknown", text=UNKNOWN))


async def run_handler(
    effect: RunHandler,
    run: Run,
    handlers: Handlers,
    world: World,
    post: Post,
    deliver: Deliver,
) -> None:
    """Call one handler and deliver what it did, its log lines posted on the way."""

    redactor = world.redactor

    def log(text: str) -> None:
        clean = ends_redacted(text, redactor)
        post(inputs.HandlerLogged(key=effect.key, text=clean))

    answer: inputs.AnyInput
    try:
        if run.branch.flows.startswith(CALLED) and world.workflows is not None:
            handlers = await world.workflows.handlers_of(definition_of(run))
            run = replace(run, branch=replace(run.branch, flows=""))
        result = await handlers.call(effect.handler, run, log)
        if result.changed or result.edits or result.variables or result.contexts:
            result = await cleaned_result(result, run.common_data, redactor)
        answer = inputs.HandlerReturned(
            key=effect.key,
            changed=result.changed,
            removed=result.removed,
            edits=result.edits,
            variables=result.variables,
            contexts=result.contexts,
            chosen=_clean_choice(result.chosen, run, redactor),
        )
    except MidstreamError as error:
        what, hint = short(error.what, redactor), short(error.hint, redactor)
        answer = inputs.HandlerFailed(key=effect.key, error=what, hint=hint, fault=error.fault)
    except EDGE as error:
        if not is_for_us(error):
            raise
        words = f"The handler {effect.handler} failed: {named(error, redactor)}"
        answer = inputs.HandlerFailed(key=effect.key, error=words, hint=hint_of(error), fault="bug")
    await deliver(effect.key, answer)


def _clean_choice(chosen: Json, run: Run, redactor: Redactor) -> Json:
    """Return what a transition handler chose as it may be journaled; the name of a state is known."""
    if isinstance(chosen, str) and chosen in run.plan.states:
        return chosen
    return redactor.redacted_json(kept_choice(chosen))


LONGEST_SLEEP_S = 60.0
"""Seconds between two looks at the clock, which may be set while something waits for a time."""


async def await_time(effect: AwaitTime, clock: Clock, post: Post) -> None:
    """Find out when a wait is over, or wait until it is.

    One that is to take so many seconds follows a clock nobody sets. After a crash there is only the one
    that may have been: then it ends early, but never waits longer than it was to take.
    """
    if effect.until is None:
        post(inputs.TimerStarted(key=effect.key, until=clock.now() + effect.seconds))
        return
    # A clock may be set while it is waited for: forward, and a wait of a minute would end at once.
    until, now = effect.until, clock.now
    if effect.seconds:
        left, now = min(until - now(), effect.seconds), clock.monotonic
        until = now() + left
    while (left := until - now()) > 0:
        await clock.sleep(min(left, LONGEST_SLEEP_S))
    post(inputs.TimerRang(key=effect.key))


_CUT: "WeakSet[asyncio.Task[Any]]" = WeakSet()


def cut_off(task: "asyncio.Task[Any]") -> None:
    """Cancel an effect that nobody is owed any more."""
    _CUT.add(task)
    task.cancel()


def is_cut_off() -> bool:
    """Return whether this is an effect that was cut off: whatever it still comes to is of no account."""
    return asyncio.current_task() in _CUT


def is_for_us(error: BaseException) -> bool:
    """Return whether an error says something of the effect, not that it, or the program, was cut off."""
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        return False
    return not (isinstance(error, asyncio.CancelledError) and is_cut_off())


def hint_of(error: BaseException) -> str:
    """Return what is to be done about an error that is none of midstream's own."""
    if isinstance(error, asyncio.CancelledError):
        return "Nobody had stopped it: only tasks of its own may be cancelled."
    return REPORT_BUG

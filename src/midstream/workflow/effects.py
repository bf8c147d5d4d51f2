"""Effects in flight: one model request, one tool call or one handler call each, as tasks.

Each ends by posting exactly one input, unless it is cancelled: then nobody is owed its result any
more. This is the edge where whatever an adapter or a handler raises becomes an input. That goes for
a `CancelledError` too where nobody cancelled the effect: a run must not wait for ever for an
adapter that lost a task of its own.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias, get_args

from midstream.core.errors import REPORT_BUG, MidstreamError, WorldTrouble
from midstream.core.inputs import (
    AnyInput,
    CallReviewed,
    EffectKey,
    FileChanging,
    HandlerFailed,
    HandlerLogged,
    HandlerReturned,
    ModelFailed,
    ModelReplied,
    Shown,
    TimerRang,
    TimerStarted,
    ToolFinished,
)
from midstream.core.names import Outcome
from midstream.core.notices import (
    AgentThinking,
    AnyNotice,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
)
from midstream.core.pending import AskModel, AwaitTime, CallTool, ReviewCall, RunHandler
from midstream.core.run import Run
from midstream.core.safety.redaction import Redactor
from midstream.core.steering import NOT_RUN, UNKNOWN
from midstream.offloop import call_soon, in_thread
from midstream.ports import Clock, Handlers, Shelf, ToolContext
from midstream.ports import World as World
from midstream.workflow.agent import WorkflowAgent
from midstream.workflow.json_values import copied, kept_call, kept_choice, kept_usage
from midstream.workflow.long_texts import PIECE, LongText, long_text
from midstream.workflow.redacting import (
    WITHHELD,
    cleaned_call,
    cleaned_grants,
    cleaned_result,
    exact_arguments,
    exact_grants,
    without_secrets,
)
from midstream.workflow.words import readable

Post: TypeAlias = Callable[[AnyInput], None]
Put: TypeAlias = Callable[[AnyInput], Awaitable[None]]
Deliver: TypeAlias = Callable[[EffectKey, AnyInput], Awaitable[None]]
Notify: TypeAlias = Callable[[AnyNotice], None]


MAX_TEXT = 1_000_000
"""Characters of a reply or a result that join a conversation. No model reads more."""

MAX_ERROR = 10_000
"""Characters of an error that are kept of it."""

SOFT_STOP_S = 10.0
"""Seconds a tool told to stop gets before its call is cut off and its outcome is unknown. Longer than
the graces tools give themselves: this is for the ones that do not listen."""

_EDGE = (Exception, SystemExit, asyncio.CancelledError)
"""What an effect may raise that is the run's affair; `_is_for_us` tells the cancelled ones apart."""


class Flight:
    """An effect under way: its task, and for a model request what was shown of the reply.

    While an input is being journaled, pieces that stream in are held back: should the input turn
    out to halt the reply, they were never shown and are not kept. So is the end of a text that may
    still become a secret.
    """

    __slots__ = (
        "_held",
        "_is_closed",
        "_is_holding",
        "_notify",
        "_output",
        "_redactor",
        "_shown",
        "_thoughts",
        "_words",
        "agent",
        "has_calls",
        "key",
        "state",
        "stop",
        "stopper",
        "task",
    )

    def __init__(
        self, key: EffectKey, agent: str, state: str, notify: Notify, redactor: Redactor
    ) -> None:
        self.key = key
        self.agent = agent
        self.state = state
        self.task: asyncio.Task[None] | None = None
        self.stop: asyncio.Event | None = None
        self.stopper: asyncio.Task[None] | None = None
        self.has_calls = False
        self._notify = notify
        self._redactor = redactor
        self._words = redactor.sliding()
        self._thoughts = redactor.sliding()
        self._output = redactor.sliding()
        self._shown: list[str] = []
        self._held: list[AnyNotice] = []
        self._is_holding = False
        self._is_closed = False

    def shown(self) -> Shown:
        """Return what a reader has seen of the reply, of an endless one its ends."""
        text = "".join(self._shown)
        if len(text) > MAX_TEXT:
            text = _cut(text, "the middle was left out")
        return Shown(key=self.key, text=text, has_calls=self.has_calls)

    def hold(self) -> None:
        """Hold back what streams in from now on."""
        self._is_holding = True

    def release(self) -> None:
        """Show what was held back, and go on showing."""
        self._is_holding = False
        if self._held:
            held, self._held = self._held, []
            for notice in held:
                self._show(notice)

    @property
    def is_closed(self) -> bool:
        """Return whether nobody is owed the effect any more."""
        return self._is_closed

    def close(self) -> None:
        """Show nothing any more, whatever still comes in."""
        self._is_closed = True
        self._held.clear()

    def _show(self, notice: AnyNotice) -> None:
        if self._is_closed:
            return
        if self._is_holding:
            self._held.append(notice)
            return
        if isinstance(notice, TextDelta):
            self._shown.append(notice.text)
        self._notify(notice)

    def progress(self, call_id: str, name: str, text: str) -> None:
        """Hear a piece of a tool's output."""
        if clean := self._output.fed(readable(text)):
            self._show(ToolProgress(call_id=call_id, name=name, text=clean))

    # The ReplyListener of a model request.

    def text(self, delta: str) -> None:
        """Hear the next piece of the reply's words."""
        if clean := self._words.fed(readable(delta)):
            self._show(TextDelta(agent=self.agent, text=clean))

    def thinking(self, delta: str) -> None:
        """Hear the next piece of the model's reasoning."""
        if clean := self._thoughts.fed(readable(delta)):
            self._show(ThinkingDelta(agent=self.agent, text=clean))

    def ended(self) -> None:
        """Hear that the reply has ended well: what waited to become a secret is none.

        The end of a reply that was cut off may be half of one, and is not shown.
        """
        if rest := self._words.rest():
            self._show(TextDelta(agent=self.agent, text=rest))
        if rest := self._thoughts.rest():
            self._show(ThinkingDelta(agent=self.agent, text=rest))

    def calling(self) -> None:
        """Hear that the model has begun to ask for a tool."""
        self.has_calls = True

    def status(self, text: str) -> None:
        """Hear what the request is doing."""
        status = self._redactor.redacted(readable(text))
        self._show(AgentThinking(agent=self.agent, state=self.state, status=status))


async def ask_model(effect: AskModel, run: Run, world: World, flight: Flight, post: Post) -> None:
    """Make one model request and post its reply or failure."""
    answer: AnyInput
    try:
        request = WorkflowAgent(run, effect.agent).request()
        reply = await world.model.request(request, flight)
        flight.ended()
        calls = [await cleaned_call(kept_call(call), run, world) for call in reply.calls]
        answer = ModelReplied(
            key=effect.key,
            text=await _kept(reply.text, world),
            calls=tuple(calls),
            usage=kept_usage(reply.usage),
        )
    except MidstreamError as error:
        what, hint = _short(error.what, world.redactor), _short(error.hint, world.redactor)
        answer = ModelFailed(key=effect.key, error=what, hint=hint)
    except _EDGE as error:
        if not _is_for_us(error):
            raise
        words = f"The model request failed: {_named(error, world.redactor)}"
        answer = ModelFailed(key=effect.key, error=words, hint=REPORT_BUG)
    post(answer)


async def review_call(
    effect: ReviewCall, run: Run, allowed: tuple[str, ...], world: World, post: Post
) -> None:
    """Look at what a call would do and post what is to become of it."""
    context = ToolContext(
        workspace=world.workspace,
        run=run.id,
        agent=effect.agent,
        stop=asyncio.Event(),
        progress=_unheard,
        granted=allowed,
    )
    try:
        arguments = exact_arguments(effect.name, effect.arguments, run, world)
        if arguments is None:
            post(CallReviewed(key=effect.key, kind="deny", reason=WITHHELD))
            return
        review = await world.tools.review(effect.name, copied(arguments), context)
        answer = CallReviewed(
            key=effect.key,
            kind=review.kind,
            asks=cleaned_grants(effect.name, tuple(map(readable, review.asks)), run, world),
            shows=await _kept(review.shows, world),
            reason=_short(review.reason, world.redactor),
            hint=_short(review.hint, world.redactor),
        )
    except _EDGE as error:
        if not _is_for_us(error):
            raise
        named = _named(error, world.redactor)
        words = f"what the call would do could not be found out: {named}"
        answer = CallReviewed(key=effect.key, kind="deny", reason=words, hint=REPORT_BUG)
    post(answer)


def _unheard(_text: str) -> None:
    """Tell nobody: a review makes no progress."""


async def call_tool(
    effect: CallTool,
    run: Run,
    allowed: tuple[str, ...],
    world: World,
    flight: Flight,
    post: Post,
    put: Put,
) -> None:
    """Make one tool call and post its outcome."""
    call = effect.call
    loop = asyncio.get_running_loop()
    assert flight.stop is not None
    if flight.stop.is_set():
        # Told to stop before its first step. Begun anew while stopping, it had run in another life.
        if effect.stopping:
            post(ToolFinished(key=effect.key, outcome="unknown", text=UNKNOWN))
        else:
            post(ToolFinished(key=effect.key, outcome="not_run", text=NOT_RUN))
        return
    context = ToolContext(
        workspace=world.workspace,
        run=run.id,
        agent=effect.agent,
        stop=flight.stop,
        progress=lambda text: call_soon(loop, flight.progress, call.id, call.name, text),
        changing=partial(_changing, flight, world.shelf, put),
        granted=(*exact_grants(call.name, effect.granted, run, world), *allowed),
    )
    try:
        arguments = exact_arguments(call.name, effect.arguments, run, world)
        if arguments is None:
            post(ToolFinished(key=effect.key, outcome="not_run", text=WITHHELD))
            return
        ended = await world.tools.call(call.name, copied(arguments), context)
        if ended.outcome not in get_args(Outcome):
            raise ValueError(f"{ended.outcome!r} is no outcome")
        text = await _kept(ended.text, world)
        answer = ToolFinished(key=effect.key, outcome=ended.outcome, text=text)
    except _EDGE as error:
        if not _is_for_us(error):
            raise
        words = f"The tool failed: {_named(error, world.redactor)}"
        answer = ToolFinished(key=effect.key, outcome="failed", text=words)
    post(answer)


async def _changing(
    flight: Flight,
    shelf: Shelf,
    put: Put,
    path: Path,
    before: bytes | None,
    after: bytes | None,
) -> None:
    """Keep what a file holds and journal that it is about to change; see `ToolContext`."""
    name = readable(str(path))
    if name != str(path):
        raise WorldTrouble(f"{name} was left as it is: its name is no Unicode text.")
    kept = None if before is None else await shelf.put(before)
    then = None if after is None else await in_thread(lambda: hashlib.sha256(after).hexdigest())
    await put(FileChanging(key=flight.key, path=name, before=kept, after=then))
    if flight.is_closed:
        raise WorldTrouble(f"{name} was left as it is: the call was stopped.")


async def capped(text: str, shelf: Shelf) -> str:
    """Return a readable text a conversation can hold; the whole of a larger one goes on the shelf.

    Raises:
        JournalFull: there is no room for it.
    """
    if len(text) <= min(PIECE, MAX_TEXT):
        return readable(text)
    long = await in_thread(lambda: long_text(text, MAX_TEXT))
    if long.length <= MAX_TEXT:
        return long.start
    return _between(long, f"the whole is in {shelf.where(await shelf.put(long.whole))}")


async def _kept(text: str, world: World) -> str:
    """Return the same of what models and tools say, their secrets redacted.

    The run cannot be asked again: without room the middle is lost.
    """
    clean = await without_secrets(text, world.redactor)
    try:
        return await capped(clean, world.shelf)
    except WorldTrouble as error:
        long = await in_thread(lambda: long_text(clean, MAX_TEXT))
        why = _short(error.what, world.redactor)
        return _between(long, f"the whole could not be kept: {why}")


def _between(long: LongText, where: str) -> str:
    head, tail = long.start[: MAX_TEXT // 2], long.end[-MAX_TEXT // 2 :]
    return _joined(head, tail, long.length, where)


def _cut(text: str, where: str) -> str:
    return _joined(text[: MAX_TEXT // 2], text[-MAX_TEXT // 2 :], len(text), where)


def _joined(head: str, tail: str, length: int, where: str) -> str:
    return f"{head}\n[cut: {length} characters, {where}]\n{tail}"


def _short(text: str, redactor: Redactor) -> str:
    """Return the words of an error, of which a person reads no more."""
    # What is redacted may be shorter; a secret that is cut in two here is beyond what is kept.
    text = redactor.redacted(readable(text[: 2 * MAX_ERROR]))
    return text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]}..."


async def stop_for_good(flight: Flight, world: World, post: Post) -> None:
    """Cut off a tool call that was told to stop and has not, after `SOFT_STOP_S` seconds."""
    await world.clock.sleep(SOFT_STOP_S)
    post(ToolFinished(key=flight.key, outcome="unknown", text=UNKNOWN))


async def run_handler(
    effect: RunHandler,
    run: Run,
    handlers: Handlers,
    redactor: Redactor,
    post: Post,
    deliver: Deliver,
) -> None:
    """Call one handler and deliver what it did, its log lines posted on the way."""

    def log(text: str) -> None:
        is_long = len(text) > MAX_TEXT
        words = _cut(text, "the middle was left out") if is_long else text
        post(HandlerLogged(key=effect.key, text=redactor.redacted(readable(words))))

    answer: AnyInput
    try:
        result = await cleaned_result(await handlers.call(effect.handler, run, log), redactor)
        answer = HandlerReturned(
            key=effect.key,
            changed=result.changed,
            removed=result.removed,
            variables=result.variables,
            contexts=result.contexts,
            chosen=redactor.redacted_json(kept_choice(result.chosen)),
        )
    except MidstreamError as error:
        what, hint = _short(error.what, redactor), _short(error.hint, redactor)
        answer = HandlerFailed(key=effect.key, error=what, hint=hint, fault=error.fault)
    except _EDGE as error:
        if not _is_for_us(error):
            raise
        words = f"The handler {effect.handler} failed: {_named(error, redactor)}"
        answer = HandlerFailed(key=effect.key, error=words, hint=REPORT_BUG, fault="bug")
    await deliver(effect.key, answer)


LONGEST_SLEEP_S = 60.0
"""Seconds between two looks at the clock, which may be set while something waits for a time."""


async def await_time(effect: AwaitTime, clock: Clock, post: Post) -> None:
    """Find out when a wait is over, or wait until it is."""
    if effect.until is None:
        post(TimerStarted(key=effect.key, until=clock.now() + effect.seconds))
        return
    while (left := effect.until - clock.now()) > 0:
        await clock.sleep(min(left, LONGEST_SLEEP_S))
    post(TimerRang(key=effect.key))


def _is_for_us(error: BaseException) -> bool:
    """Return whether an error says something of the effect, not that it was cancelled."""
    if not isinstance(error, asyncio.CancelledError):
        return True
    task = asyncio.current_task()
    return task is not None and not task.cancelling()


def _named(error: BaseException, redactor: Redactor) -> str:
    return _short(f"{type(error).__name__}: {error}", redactor)

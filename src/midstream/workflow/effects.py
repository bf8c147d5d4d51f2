"""Effects in flight: one model request, one tool call or one handler call each, as tasks.

Each ends by posting exactly one input, unless it is cancelled: then nobody is owed its result any
more. This is the edge where whatever an adapter or a handler raises becomes an input.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec

from midstream.core.errors import MidstreamError
from midstream.core.inputs import (
    AnyInput,
    EffectKey,
    HandlerFailed,
    HandlerLogged,
    HandlerReturned,
    ModelFailed,
    ModelReplied,
    Shown,
    ToolFinished,
)
from midstream.core.notices import (
    AgentThinking,
    AnyNotice,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
)
from midstream.core.pending import AskModel, CallTool, RunHandler
from midstream.core.run import Run
from midstream.offloop import call_soon
from midstream.ports import Clock, Handlers, Journal, Model, ToolContext, Tools, Validator
from midstream.workflow.agent import WorkflowAgent

Post: TypeAlias = Callable[[AnyInput], None]
Notify: TypeAlias = Callable[[AnyNotice], None]

REPORT_BUG = "This is a bug in midstream: please report it."


class World(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The adapters a machine acts through. Shared by all machines of a process."""

    model: Model
    tools: Tools
    journal: Journal
    clock: Clock
    validate: Validator
    workspace: Path


class Flight:
    """An effect under way: its task, and for a model request what was shown of the reply.

    While an input is being journaled, pieces that stream in are held back: should the input turn
    out to halt the reply, they were never shown and are not kept.
    """

    __slots__ = (
        "_held",
        "_is_holding",
        "_notify",
        "_shown",
        "agent",
        "has_calls",
        "key",
        "stop",
        "task",
    )

    def __init__(self, key: EffectKey, agent: str, notify: Notify) -> None:
        self.key = key
        self.agent = agent
        self.task: asyncio.Task[None] | None = None
        self.stop: asyncio.Event | None = None
        self.has_calls = False
        self._notify = notify
        self._shown: list[str] = []
        self._held: list[AnyNotice] = []
        self._is_holding = False

    def shown(self) -> Shown:
        """Return what a reader has seen of the reply."""
        return Shown(key=self.key, text="".join(self._shown), has_calls=self.has_calls)

    def hold(self) -> None:
        """Hold back what streams in from now on."""
        self._is_holding = True

    def release(self) -> None:
        """Show what was held back, and go on showing."""
        self._is_holding = False
        held, self._held = self._held, []
        for notice in held:
            self._show(notice)

    def close(self) -> None:
        """Show nothing any more, whatever still comes in."""
        self._is_holding = True
        self._held.clear()
        self._notify = _nobody

    def _show(self, notice: AnyNotice) -> None:
        if self._is_holding:
            self._held.append(notice)
            return
        if isinstance(notice, TextDelta):
            self._shown.append(notice.text)
        self._notify(notice)

    # The ReplyListener of a model request.

    def text(self, delta: str) -> None:
        """Hear the next piece of the reply's words."""
        if delta:
            self._show(TextDelta(agent=self.agent, text=delta))

    def thinking(self, delta: str) -> None:
        """Hear the next piece of the model's reasoning."""
        if delta:
            self._show(ThinkingDelta(agent=self.agent, text=delta))

    def calling(self) -> None:
        """Hear that the model has begun to ask for a tool."""
        self.has_calls = True

    def status(self, text: str) -> None:
        """Hear what the request is doing."""
        self._show(AgentThinking(agent=self.agent, state="", status=text))


def _nobody(_notice: AnyNotice) -> None:
    return


async def ask_model(effect: AskModel, run: Run, world: World, flight: Flight, post: Post) -> None:
    """Make one model request and post its reply or failure."""
    try:
        request = WorkflowAgent(run, effect.agent).request()
        reply = await world.model.request(request, flight)
    except MidstreamError as error:
        shown = flight.shown().text
        post(ModelFailed(key=effect.key, error=error.what, hint=error.hint, shown=shown))
    except Exception as error:
        words = f"The model request failed: {type(error).__name__}: {error}"
        shown = flight.shown().text
        post(ModelFailed(key=effect.key, error=words, hint=REPORT_BUG, shown=shown))
    else:
        post(ModelReplied(key=effect.key, text=reply.text, calls=reply.calls, usage=reply.usage))


async def call_tool(effect: CallTool, run: Run, world: World, flight: Flight, post: Post) -> None:
    """Make one tool call and post its outcome."""
    call = effect.call
    loop = asyncio.get_running_loop()

    def progress(text: str) -> None:
        flight._show(ToolProgress(call_id=call.id, name=call.name, text=text))

    assert flight.stop is not None
    context = ToolContext(
        workspace=world.workspace,
        run=run.id,
        agent=effect.agent,
        stop=flight.stop,
        progress=lambda text: call_soon(loop, progress, text),
    )
    try:
        outcome = await world.tools.call(call.name, call.arguments, context)
    except Exception as error:
        words = f"The tool failed: {type(error).__name__}: {error}"
        post(ToolFinished(key=effect.key, outcome="failed", text=words))
    else:
        post(ToolFinished(key=effect.key, outcome=outcome.outcome, text=outcome.text))


async def run_handler(effect: RunHandler, run: Run, handlers: Handlers, post: Post) -> None:
    """Call one handler and post what it did, its log lines on the way."""

    def log(text: str) -> None:
        post(HandlerLogged(key=effect.key, text=text))

    try:
        result = await handlers.call(effect.handler, run, log)
    except MidstreamError as error:
        post(HandlerFailed(key=effect.key, error=error.what, hint=error.hint, fault=error.fault))
    except Exception as error:
        words = f"The handler {effect.handler} failed: {type(error).__name__}: {error}"
        post(HandlerFailed(key=effect.key, error=words, hint=REPORT_BUG, fault="bug"))
    else:
        post(
            HandlerReturned(
                key=effect.key,
                changed=result.changed,
                removed=result.removed,
                variables=result.variables,
                contexts=result.contexts,
                chosen=result.chosen,
            )
        )

"""The engine for code without an event loop: scripts, notebooks, a debugger.

Nothing is implemented here twice: each call is made on a loop in a thread of its own and waited for.
So it works inside a running loop, too, which stands still meanwhile as for any other blocking call.
"""

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from midstream.api.controls import Controls
from midstream.api.engine import Begun, Engine, RunnableWorkflow, Tools, open
from midstream.api.run_handle import RunHandle
from midstream.api.turn import Turn
from midstream.language.errors import UserMistake
from midstream.language.names import Json
from midstream.runtime.handlers import Handler
from midstream.runtime.ports import Clock, Model, OpenFiles
from midstream.safety.capability import PermissionMode
from midstream.system.offloop import cancel_all

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="midstream-engine", daemon=True
        )
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what work on the loop came to. Ctrl-C cancels the wait and the work.

        Raises:
            UserMistake: the engine is closed, or in another process; or it is called on the engine's own
                loop, by an async tool or handler, which would wait for itself.
        """
        if self.is_closed or threading.current_thread() is self._thread:
            work.close()
            if self._loop.is_closed():
                raise UserMistake("The engine is closed.", hint="Use its runs within its block.")
            if self.is_closed:
                raise UserMistake(
                    "The engine is in the process that this one was forked from.",
                    hint="Open one here, in a process of multiprocessing.get_context('spawn').",
                )
            raise UserMistake(
                "An async function of the engine cannot wait for the engine.",
                hint="Make it a plain function: those run in a thread of their own.",
            )
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result()
        except BaseException:
            done.cancel()
            raise

    @property
    def is_closed(self) -> bool:
        """Return whether there is no loop any more, as in a process that was forked from its own."""
        return self._loop.is_closed() or not self._thread.is_alive()

    def close(self) -> None:
        """End the loop and its thread."""
        self.wait(self._cleaned_up())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cleaned_up(self) -> None:
        """Cancel what other threads still wait for, or what a Ctrl-C has left."""
        await cancel_all(*(asyncio.all_tasks() - {asyncio.current_task()}))
        await self._loop.shutdown_asyncgens()


class _Waited(Protocol[C]):
    """What has a loop, and what is called on it."""

    _loop: _Loop
    _waited: C


def _waiting(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Waited[C], P], T]:
    """Return an async method as one that waits for it."""

    @functools.wraps(method)
    def call(self: _Waited[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.wait(method(self._waited, *args, **kwargs))

    return call


def _calling(
    method: Callable[Concatenate[C, P], T],
) -> Callable[Concatenate[_Waited[C], P], T]:
    """Return a plain method as one that is called on the loop."""

    @functools.wraps(method)
    async def on_loop(waited: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(waited, *args, **kwargs)

    return _waiting(on_loop)


def _running(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, RunHandle] | Begun[RunHandle]],
) -> "Callable[Concatenate[_Waited[C], P], SyncRun]":
    """Return an async method that returns a run as one that waits for it."""

    @functools.wraps(method)
    def call(self: _Waited[C], /, *args: P.args, **kwargs: P.kwargs) -> "SyncRun":
        made = method(self._waited, *args, **kwargs)
        return SyncRun(
            self._loop, self._loop.wait(made.begun() if isinstance(made, Begun) else made)
        )

    shown = inspect.signature(method).replace(return_annotation="SyncRun")
    call.__dict__["__signature__"] = shown  # what `help` tells of it
    return call


def _yielding(
    method: Callable[Concatenate[C, P], AsyncGenerator[T]],
) -> Callable[Concatenate[_Waited[C], P], Iterator[T]]:
    """Return an async generator as a plain one, each of its items waited for."""

    @functools.wraps(method)
    def call(self: _Waited[C], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        items = method(self._waited, *args, **kwargs)
        try:
            while True:
                try:
                    yield self._loop.wait(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            if not self._loop.is_closed:
                self._loop.wait(items.aclose())

    return call


async def _next(items: AsyncGenerator[T]) -> T:
    return await anext(items)


class _Shown(Generic[C, T]):
    """A property of what is waited for, as it is there, with its docstring."""

    def __init__(self, of: type[C], read: Callable[[C], T]) -> None:
        self._of = of
        self._read = read

    def __set_name__(self, kind: type, name: str) -> None:
        self.__doc__ = getattr(self._of, name).__doc__

    def __set__(self, waited: _Waited[C], value: object) -> None:
        raise AttributeError("It is only read.")  # and so `help` tells of it as of a property

    def __get__(self, waited: _Waited[C], kind: type) -> T:
        return self._read(waited._waited)


class SyncTurn:
    """A turn for code without an event loop. Made by `SyncRun.turn`."""

    def __init__(self, loop: _Loop, turn: Turn) -> None:
        self._loop = loop
        self._waited = turn

    def __enter__(self) -> "SyncTurn":
        self._loop.wait(self._waited.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        if not self._loop.is_closed:
            self._loop.wait(self._waited.__aexit__())

    __iter__ = _yielding(Turn.__aiter__)


class SyncRun:
    """A run for code without an event loop; every method is that of `RunHandle`, waited for."""

    def __init__(self, loop: _Loop, run: RunHandle) -> None:
        self._loop = loop
        self._waited = run

    def __repr__(self) -> str:
        return f"<SyncRun {self.id} {self.status}>"

    say = _waiting(RunHandle.say)
    answer = _waiting(RunHandle.answer)
    approve = _waiting(RunHandle.approve)
    rename = _waiting(RunHandle.rename)
    compact = _waiting(RunHandle.compact)
    withdraw = _waiting(RunHandle.withdraw)
    halt = _waiting(RunHandle.halt)
    stop = _waiting(RunHandle.stop)
    wait = _waiting(RunHandle.wait)
    settled = _waiting(RunHandle.settled)
    close = _waiting(RunHandle.close)
    streaming = _calling(RunHandle.streaming)
    fork = _running(RunHandle.fork)
    events = _yielding(RunHandle.events)
    numbered = _yielding(RunHandle.numbered)

    def turn(self, since: int | None = None, *, through_approvals: bool = False) -> SyncTurn:
        """Return what happens from here to the end of a turn: enter it, say something, and read it.

            with run.turn() as turn:
                run.say("about snow, please")
                for envelope in turn:
                    ...

        All else is as of `RunHandle.turn`.
        """
        return SyncTurn(self._loop, self._waited.turn(since, through_approvals=through_approvals))

    id = _Shown(RunHandle, lambda run: run.id)
    name = _Shown(RunHandle, lambda run: run.name)
    is_here = _Shown(RunHandle, lambda run: run.is_here)
    run = _Shown(RunHandle, lambda run: run.run)
    status = _Shown(RunHandle, lambda run: run.status)
    state = _Shown(RunHandle, lambda run: run.state)
    data = _Shown(RunHandle, lambda run: run.data)
    reply = _Shown(RunHandle, lambda run: run.reply)
    output = _Shown(RunHandle, lambda run: run.output)
    error = _Shown(RunHandle, lambda run: run.error)
    questions = _Shown(RunHandle, lambda run: run.questions)


class SyncControls:
    """What a person changes meanwhile, for code without an event loop; every method is that of
    `Engine.controls`, waited for. Made by `SyncEngine.controls`.
    """

    def __init__(self, loop: _Loop, controls: Controls) -> None:
        self._loop = loop
        self._waited = controls

    use_permission_mode = _calling(Controls.use_permission_mode)
    models = _calling(Controls.models)
    look_for_models = _waiting(Controls.look_for_models)
    use_model = _waiting(Controls.use_model)
    window = _waiting(Controls.window)
    commands = _waiting(Controls.commands)
    text_of = _waiting(Controls.text_of)
    undo = _waiting(Controls.undo)
    left_by_undo = _waiting(Controls.left_by_undo)
    spent = _waiting(Controls.spent)
    contents = _waiting(Controls.contents)

    start_mode = _Shown(Controls, lambda controls: controls.start_mode)
    is_untrusted = _Shown(Controls, lambda controls: controls.is_untrusted)
    permission_mode = _Shown(Controls, lambda controls: controls.permission_mode)
    model = _Shown(Controls, lambda controls: controls.model)


class SyncEngine:
    """An engine for code without an event loop; every method is that of `Engine`, waited for.

    Made by `open_sync`. Its block closes it, or `close` does.
    """

    def __init__(self, loop: _Loop, engine: Engine) -> None:
        self._loop = loop
        self._waited = engine

    def __enter__(self) -> "SyncEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of every run, close every connection. May be called twice.

        Cancelled, it goes on to its end, and raises only then: half an engine would hold the journal.

        Raises:
            WorldTrouble: something has not closed within a minute, and is left as it is.
        """
        if self._loop.is_closed:
            return
        try:
            self._loop.wait(self._waited.close())
        finally:
            self._loop.close()

    start = _running(Engine.start)
    resume = _running(Engine.resume)
    get = _running(Engine.get)
    take = _running(Engine.take)
    fork = _running(Engine.fork)
    run_id = _calling(Engine.run_id)
    runs = _waiting(Engine.runs)
    info = _waiting(Engine.info)
    facts = _waiting(Engine.facts)
    changed = _waiting(Engine.changed)
    delete = _waiting(Engine.delete)
    keep_picture = _waiting(Engine.keep_picture)
    workflows = _waiting(Engine.workflows)
    roles = _waiting(Engine.roles)

    notices = _Shown(Engine, lambda engine: engine.notices)

    @property
    def controls(self) -> SyncControls:
        """Return what a person changes meanwhile: the permission mode, the models, commands of theirs."""
        return SyncControls(self._loop, self._waited.controls)


def open_sync(
    workspace: str | Path | None = None,
    *,
    model: str | Model | None = None,
    journal: str | Path | None = None,
    trust: bool | None = None,
    permissions: PermissionMode | None = None,
    tools: Tools = (),
    clock: Clock | None = None,
    open_files: OpenFiles | None = None,
) -> SyncEngine:
    """Open an engine for code without an event loop: enter it, or close it yourself.

    The arguments and errors are those of `open`.
    """
    loop = _Loop()
    opening = open(
        workspace,
        model=model,
        journal=journal,
        trust=trust,
        permissions=permissions,
        tools=tools,
        clock=clock,
        open_files=open_files,
    )
    try:
        return SyncEngine(loop, loop.wait(opening.begun()))
    except BaseException:
        loop.close()
        raise


def run(
    workflow: RunnableWorkflow,
    input: Json = None,
    *,
    answers: Sequence[str] = (),
    variables: Mapping[str, Json] | None = None,
    allowed: Sequence[str] = (),
    budget: Mapping[str, float] | None = None,
    handlers: Mapping[str, Handler] | None = None,
    workspace: str | Path | None = None,
    model: str | Model | None = None,
    journal: str | Path | None = None,
    trust: bool | None = None,
    permissions: PermissionMode | None = None,
    tools: Tools = (),
) -> Json:
    """Return a workflow's output: a whole run in one call, for scripts and notebooks.

    The run is kept in the journal like every other: `midstream runs` lists it, and one that was
    interrupted, or waits for an answer nobody gave, goes on with `midstream resume`. Nobody is there to
    approve: tool calls that need it are refused unless they are `allowed`.

    Args:
        workflow, input, variables, allowed, budget, handlers: see `Engine.start`.
        answers: answers to its questions, in the order in which they are asked.
        workspace, model, journal, trust, permissions, tools: see `open`.

    Raises:
        UserMistake: it asked a question no answer was given for; or as of `open` and `Engine.start`.
        AuthorMistake, WorldTrouble, OurBug: the run failed, by whose fault it was.
    """
    with open_sync(
        workspace,
        model=model,
        journal=journal,
        trust=trust,
        permissions=permissions,
        tools=tools,
    ) as engine:
        started = engine.start(
            workflow,
            input,
            variables=variables,
            allowed=allowed,
            approvals="deny",
            budget=budget,
            handlers=handlers,
        )
        return started.wait(answers)

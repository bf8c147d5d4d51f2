"""The engine for code without an event loop: scripts, notebooks, a debugger.

Nothing is implemented here twice: each call is made on a loop in a thread of its own and waited for.
So it works inside a running loop, too, which stands still meanwhile as for any other blocking call.
"""

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from midstream.api.engine import Begun, Engine, RunnableWorkflow, Tools, open
from midstream.api.run_handle import RunHandle
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
            UserMistake: the engine is closed; or it is called on the engine's own loop, by an async tool
                or handler, which would wait for itself.
        """
        if self.is_closed or threading.current_thread() is self._thread:
            work.close()
            if self.is_closed:
                raise UserMistake("The engine is closed.", hint="Use its runs within its block.")
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
        """Return whether there is no loop any more."""
        return self._loop.is_closed()

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


def _at_once(method: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[_Waited[C], P], T]:
    """Return a method that waits for nothing as one of what stands before it."""

    @functools.wraps(method)
    def call(self: _Waited[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self._waited, *args, **kwargs)

    return call


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

    return call


def _yielding(
    method: Callable[Concatenate[RunHandle, P], AsyncGenerator[T]],
) -> "Callable[Concatenate[SyncRun, P], Iterator[T]]":
    """Return an async generator of the handle as a plain one, each of its items waited for."""

    @functools.wraps(method)
    def call(self: "SyncRun", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
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


class _Shown(Generic[T]):
    """A property of the handle, as it is there, with its docstring."""

    def __init__(self, read: Callable[[RunHandle], T]) -> None:
        self._read = read

    def __set_name__(self, kind: type["SyncRun"], name: str) -> None:
        self.__doc__ = getattr(RunHandle, name).__doc__

    def __set__(self, run: "SyncRun", value: object) -> None:
        raise AttributeError("It is only read.")  # and so `help` tells of it as of a property

    def __get__(self, run: "SyncRun", kind: type["SyncRun"]) -> T:
        return self._read(run._waited)


class SyncRun:
    """A run for code without an event loop; every method is that of `RunHandle`, waited for."""

    def __init__(self, loop: _Loop, run: RunHandle) -> None:
        self._loop = loop
        self._waited = run

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
    fork = _running(RunHandle.fork)
    events = _yielding(RunHandle.events)
    numbered = _yielding(RunHandle.numbered)

    streaming = _at_once(RunHandle.streaming)

    id = _Shown(lambda run: run.id)
    name = _Shown(lambda run: run.name)
    run = _Shown(lambda run: run.run)
    status = _Shown(lambda run: run.status)
    state = _Shown(lambda run: run.state)
    data = _Shown(lambda run: run.data)
    reply = _Shown(lambda run: run.reply)
    output = _Shown(lambda run: run.output)
    error = _Shown(lambda run: run.error)
    questions = _Shown(lambda run: run.questions)
    is_here = _Shown(lambda run: run.is_here)


class SyncEngine:
    """An engine for code without an event loop; every method is that of `Engine`, waited for.

    Made by `open_sync`.
    """

    def __init__(self, loop: _Loop, engine: Engine) -> None:
        self._loop = loop
        self._waited = engine

    start = _running(Engine.start)
    resume = _running(Engine.resume)
    get = _running(Engine.get)
    take = _running(Engine.take)
    fork = _running(Engine.fork)
    delete = _waiting(Engine.delete)
    runs = _waiting(Engine.runs)
    info = _waiting(Engine.info)
    facts = _waiting(Engine.facts)
    changed = _waiting(Engine.changed)
    keep_picture = _waiting(Engine.keep_picture)
    workflows = _waiting(Engine.workflows)
    roles = _waiting(Engine.roles)
    run_id = _at_once(Engine.run_id)

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what a person should hear of the settings: what is wrong, or not trusted, in them."""
        return self._waited.notices


@contextlib.contextmanager
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
) -> Iterator[SyncEngine]:
    """Give an engine for code without an event loop; the arguments and errors are those of `open`."""
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
        engine = loop.wait(opening.begun())
        try:
            yield SyncEngine(loop, engine)
        finally:
            loop.wait(engine.close())
    finally:
        loop.close()


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

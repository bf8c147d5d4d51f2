"""The engine for code without an event loop: scripts, notebooks, a debugger.

Nothing is implemented here twice: each call is made on a loop in a thread of its own and waited for.
So it works inside a running loop, too, which stands still meanwhile as for any other blocking call.
"""

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from midstream.api.engine import Engine, RunInfo, RunnableWorkflow, Tools, open
from midstream.api.run_handle import PROGRAM, Event, RunHandle, Status
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.language.errors import UserMistake
from midstream.language.names import Json
from midstream.runtime.handlers import Handler
from midstream.runtime.ports import Model
from midstream.runtime.python_workflow import Workflow
from midstream.safety.capability import PermissionMode

P = ParamSpec("P")
T = TypeVar("T")


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
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await self._loop.shutdown_asyncgens()


def _waiting(
    method: Callable[Concatenate[RunHandle, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[SyncRun, P], T]":
    """Return a method of the handle as one that waits for it."""

    @functools.wraps(method)
    def call(self: "SyncRun", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.wait(method(self._run, *args, **kwargs))

    return call


class SyncRun:
    """A run for code without an event loop; every method is that of `RunHandle`, waited for."""

    def __init__(self, loop: _Loop, run: RunHandle) -> None:
        self._loop = loop
        self._run = run

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

    def fork(self, at: int | None = None) -> "SyncRun":
        """Return a copy of the run that goes on; see `RunHandle.fork`."""
        return SyncRun(self._loop, self._loop.wait(self._run.fork(at)))

    def events(self, since: int = 0, *, transient: bool = True) -> Iterator[Event]:
        """Yield what happens in the run until it has ended; see `RunHandle.events`."""
        return self._iterated(self._run.events(since, transient=transient))

    def numbered(self, since: int = 0, *, transient: bool = True) -> Iterator[Envelope]:
        """Yield the same with the number and time of each; see `RunHandle.numbered`."""
        return self._iterated(self._run.numbered(since, transient=transient))

    @property
    def id(self) -> str:
        """Return the run's id."""
        return self._run.id

    @property
    def name(self) -> str:
        """Return what people call the run, "" if nothing."""
        return self._run.name

    @property
    def run(self) -> Run:
        """Return all that is true of the run as one immutable value."""
        return self._run.run

    @property
    def status(self) -> Status:
        """Return how the run stands."""
        return self._run.status

    @property
    def state(self) -> str:
        """Return the name of the state the run is in."""
        return self._run.state

    @property
    def data(self) -> dict[str, Json]:
        """Return the run's `common_data`."""
        return self._run.data

    @property
    def reply(self) -> str:
        """Return the words of the last reply, "" before the first."""
        return self._run.reply

    @property
    def output(self) -> Json:
        """Return what the run came to, None until it has finished."""
        return self._run.output

    @property
    def error(self) -> str:
        """Return why the run failed, "" if it has not."""
        return self._run.error

    @property
    def questions(self) -> tuple[Question, ...]:
        """Return the open questions, the oldest first."""
        return self._run.questions

    def _iterated(self, items: AsyncIterator[T]) -> Iterator[T]:
        with contextlib.closing(_Iterated(self._loop, items)) as iterated:
            yield from iterated


class _Iterated(Iterator[T]):
    """An asynchronous iterator, one item waited for at a time."""

    def __init__(self, loop: _Loop, items: AsyncIterator[T]) -> None:
        self._loop = loop
        self._items = items

    def __next__(self) -> T:
        try:
            return self._loop.wait(_next(self._items))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        if hasattr(self._items, "aclose") and not self._loop.is_closed:
            self._loop.wait(self._items.aclose())


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


class SyncEngine:
    """An engine for code without an event loop. Made by `open_sync`; see `Engine`."""

    def __init__(self, loop: _Loop, engine: Engine) -> None:
        self._loop = loop
        self._engine = engine

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what a person should hear of the settings."""
        return self._engine.notices

    def start(
        self,
        workflow: RunnableWorkflow,
        input: Json = None,
        *,
        variables: Mapping[str, Json] | None = None,
        allowed: Sequence[str] = (),
        approvals: Literal["ask", "deny"] = "ask",
        budget: Mapping[str, float] | None = None,
        handlers: Mapping[str, Handler] | None = None,
        key: str | None = None,
        source: str = PROGRAM,
        queue: str | None = None,
    ) -> SyncRun:
        """Return a run that has begun; see `Engine.start`."""
        starting = self._engine.start(
            workflow,
            input,
            variables=variables,
            allowed=allowed,
            approvals=approvals,
            budget=budget,
            handlers=handlers,
            key=key,
            source=source,
            queue=queue,
        )
        return self._held(starting.begun())

    def resume(
        self,
        id: str,
        workflow: Workflow | None = None,
        *,
        choice: Literal["ask", "old", "new"] = "ask",
        handlers: Mapping[str, Handler] | None = None,
    ) -> SyncRun:
        """Return a run that goes on here; see `Engine.resume`."""
        return self._held(self._engine.resume(id, workflow, choice=choice, handlers=handlers))

    def get(self, id: str) -> SyncRun:
        """Return a run as it stands; see `Engine.get`."""
        return self._held(self._engine.get(id))

    def take(
        self, id: str, *, choice: Literal["ask", "old", "new"] = "ask", here: bool = False
    ) -> SyncRun:
        """Return a run that can be talked to; see `Engine.take`."""
        return self._held(self._engine.take(id, choice=choice, here=here))

    def fork(self, id: str, at: int | None = None) -> SyncRun:
        """Return a copy of a run that goes on; see `Engine.fork`."""
        return self._held(self._engine.fork(id, at))

    def runs(
        self,
        *,
        status: Status | None = None,
        workflow: str | None = None,
        everywhere: bool = False,
        limit: int | None = 100,
        after: str | None = None,
    ) -> list[RunInfo]:
        """Return runs, the newest first; see `Engine.runs`."""
        listing = self._engine.runs(
            status=status, workflow=workflow, everywhere=everywhere, limit=limit, after=after
        )
        return self._loop.wait(listing)

    def info(self, id: str) -> RunInfo | None:
        """Return what a list shows of a run; see `Engine.info`."""
        return self._loop.wait(self._engine.info(id))

    def changed(self, timeout_s: float) -> None:
        """Return once something may have been written to the journal, or in time; see `Engine.changed`."""
        self._loop.wait(self._engine.changed(timeout_s))

    def keep_picture(self, data: bytes, name: str = "") -> str:
        """Return the mark of a picture that is kept; see `Engine.keep_picture`."""
        return self._loop.wait(self._engine.keep_picture(data, name))

    def workflows(self) -> dict[str, str]:
        """Return the description of every workflow that can be started by name."""
        return self._loop.wait(self._engine.workflows())

    def roles(self) -> tuple[str, ...]:
        """Return the names of the roles a chat can be started with."""
        return self._loop.wait(self._engine.roles())

    def _held(self, run: Coroutine[Any, Any, RunHandle]) -> SyncRun:
        return SyncRun(self._loop, self._loop.wait(run))


@contextlib.contextmanager
def open_sync(
    workspace: str | Path | None = None,
    *,
    model: str | Model | None = None,
    journal: str | Path | None = None,
    trust: bool | None = None,
    permissions: PermissionMode | None = None,
    tools: Tools = (),
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

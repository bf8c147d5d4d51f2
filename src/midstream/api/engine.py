"""Opening midstream in a program: an engine with settings, models, tools, trust and journal as the
console has them, each replaceable by an argument.

    async with midstream.open() as engine:
        run = await engine.start("fix_tests", "the parser tests")
        print(await run.wait())

The engine belongs to the event loop it was opened on. Closing it lets go of its runs without ending
them: those that had not ended go on where another engine, or a console, resumes them.
"""

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar, get_args
from weakref import WeakValueDictionary

import msgspec

from midstream.api.controls import Controls
from midstream.api.run_handle import PROGRAM, RunHandle, Status
from midstream.app.assembly import Options, Parts, parts, placement_here, trusted
from midstream.config.manager import ConfigManager
from midstream.config.private_files import FileMissing
from midstream.core.notices import Envelope
from midstream.core.pictures import mark_of
from midstream.core.run import definition_of
from midstream.language.errors import JournalMoved, RunOwned, UserMistake
from midstream.language.names import Json, Mode, python_file
from midstream.language.spec import Budget, Definition
from midstream.runtime.engine.hand_over import hand_over, pool_of
from midstream.runtime.engine.open_run import found, opened
from midstream.runtime.engine.owner import ask_owner, held_elsewhere
from midstream.runtime.engine.remote import RemoteMachine
from midstream.runtime.engine.resume import Choice, is_of_host, mail_taken, take_up
from midstream.runtime.engine.time_travel import fork
from midstream.runtime.handlers import Handler, ScriptHandlers
from midstream.runtime.json_values import json_text
from midstream.runtime.pictures import kept_picture
from midstream.runtime.ports import Clock, Model, OpenFiles
from midstream.runtime.python_workflow import Workflow
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.runtime.storage import KeptRun, Place, Placement, is_served, walk
from midstream.safety.capability import PermissionMode
from midstream.system.offloop import in_thread, over, to_its_end
from midstream.views.listing import Standing

if TYPE_CHECKING:
    from midstream.tools.base import Tool

T = TypeVar("T")

IN_MEMORY = ":memory:"
"""The journal of runs nobody comes back to."""

Tools: TypeAlias = "Sequence[Tool | Callable[..., Any]]"
"""Tools of a program: functions marked with `midstream.tool`, or plain ones, which count as `once`."""

RunnableWorkflow: TypeAlias = str | Path | Mapping[str, Json] | Definition | Workflow
"""A workflow: a name, a path that ends in `.json`, what stands in such a file, or one written in Python:
itself, or `FILE.py:NAME`. `role:NAME` is a chat.
"""


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a list shows it. Times are in seconds since 1970 (UTC).

    `status` is `waiting` as soon as something is asked, whatever else may move the run on.
    `asking` are the ids of its open questions; `usd` is what it cost, as decimal text. `is_running`:
    some process runs it now, `is_here`: this engine does. `workspace` is the folder it works in, `first`
    is the words it began with, shortened: its input, else the first said to it.
    """

    id: str
    name: str
    workflow: str
    kind: Literal["workflow", "chat"]
    status: Status
    state: str
    started_at: float
    updated_at: float
    asking: tuple[str, ...]
    usd: str
    is_running: bool
    is_here: bool
    workspace: str = ""
    first: str = ""

    @property
    def title(self) -> str:
        """Return what a list calls it: its name, else its workflow and the words it began with.

        A chat is called by the words alone.
        """
        if self.name or self.kind == "chat":
            return self.name or self.first or self.workflow
        return ": ".join(filter(None, (self.workflow, self.first)))


class Begun(Generic[T]):
    """Something that can be awaited, or entered with `async with`, which ends it with the block."""

    def __init__(
        self,
        begin: Callable[[], Awaitable[T]],
        leave: Callable[[T, type[BaseException] | None], Coroutine[Any, Any, None]],
    ) -> None:
        self._begin = begin
        self._leave = leave
        self._made: list[T] = []

    async def begun(self) -> T:
        """Return it; the same as awaiting this."""
        _require_asyncio()
        return await self._begin()

    def __await__(self) -> Generator[Any, None, T]:
        return self.begun().__await__()

    async def __aenter__(self) -> T:
        _require_asyncio()
        made = await _held(
            self._begin(), lambda made: self._leave(made, asyncio.CancelledError), _ENDS_S
        )
        self._made.append(made)
        return made

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await to_its_end(self._leave(self._made.pop(), kind), _ENDS_S)


def _require_asyncio() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise UserMistake(
            "An engine runs on a loop of asyncio, and none runs here.",
            hint="Under trio, use midstream.open_sync() in a thread of trio.to_thread.",
        ) from None


async def _held(
    begin: Awaitable[T],
    leave: Callable[[T], Coroutine[Any, Any, None]],
    within_s: float | None = None,
) -> T:
    """Return what has begun. Cancelled meanwhile, it is left once it has: nobody else holds it.

    Each of the two may take so many seconds then; what a thread begins cannot be given up.
    """
    beginning = asyncio.ensure_future(begin)
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        await over(beginning, within_s)
        if not beginning.done():
            beginning.cancel()
        elif not beginning.cancelled() and beginning.exception() is None:
            await to_its_end(leave(beginning.result()), within_s)
        raise


def open(
    workspace: str | Path | None = None,
    *,
    model: str | Model | None = None,
    journal: str | Path | None = None,
    trust: bool | None = None,
    permissions: PermissionMode | None = None,
    tools: Tools = (),
    clock: Clock | None = None,
    open_files: OpenFiles | None = None,
) -> "Begun[Engine]":
    """Open an engine: `async with midstream.open(...) as engine`, or `await` it and close it yourself.

    Args:
        workspace: the folder to work in; None is the current one.
        model: `provider:name`, `offline`, or an object with the port `Model` (such as
            `midstream.testing.ScriptedModel`), which is asked in place of every model; its calls are
            checked against the schemas of their tools. None: what the settings and the environment
            name.
        journal: the file that keeps the runs, or the address of a PostgreSQL database that many machines
            share (`postgresql://...`); `":memory:"` keeps them in memory until the engine closes. None:
            where the console keeps its runs.
        trust: what becomes of the workspace's own `.midstream/`: True uses it as it is now, False
            leaves it alone, None uses it if a person has trusted it, and else raises.
        permissions: the permission mode `plan`, `ask`, `auto` or `full`; None: what the settings say.
        tools: more tools for agents.
        clock: the time, for tests (`midstream.testing.JumpingClock`); None: the machine's own.
        open_files: the files a person has open in an editor: tools read and write them as they stand
            there.

    Raises, once it is awaited or entered:
        NotTrusted: the workspace has files of its own that nobody has trusted, and `trust` is None.
        UserMistake: there is no such folder, model or permission mode, a tool has a name that is taken,
            or no loop of asyncio runs, as under trio.
        WorldTrouble: the journal cannot be opened.
    """
    options = Options(
        workspace=Path.cwd() if workspace is None else Path(workspace).absolute(),
        model=model if isinstance(model, str) else None,
        trusts_workspace=trust,
        permission_mode=permissions,
        journal="none" if journal == IN_MEMORY else "needed",
    )

    def made() -> Engine:
        from midstream.models.own_model import OwnModel
        from midstream.tools.validation import validate

        _require_known("permission mode", permissions, PermissionMode)
        if not options.workspace.is_dir():
            raise UserMistake(
                f"There is no folder {options.workspace}.", hint="Name the folder to work in."
            )
        config = trusted(options)
        if journal is not None and journal != IN_MEMORY:
            config.keep_runs_in(journal)
        more = _own_tools(tools)
        own = None
        if model is not None and not isinstance(model, str):
            own = OwnModel(model, validate)
        return Engine(
            config,
            parts(config, options, model=own, tools=more, clock=clock, open_files=open_files),
            options,
        )

    async def begin() -> Engine:
        # Cancelled, its thread goes on and opens the journal all the same: somebody has to close that.
        return await _held(in_thread(made), Engine.close)

    return Begun(begin, lambda engine, _: engine.close())


class Engine:
    """Runs of one workspace. Made by `open`.

    Any number of engines may be open in one process, each on a loop of its own or on one, and on one
    journal: a run belongs to one of them at a time.
    """

    def __init__(self, config: ConfigManager, made: Parts, options: Options) -> None:
        self._config = config
        self._parts = made
        self._options = options
        self.local = made.engine
        self._followed: set[RemoteMachine] = set()
        self._built: dict[str, tuple[Definition, ScriptHandlers]] = {}
        self._doors: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what a person should hear of the settings: what is wrong, or not trusted, in them."""
        return (*self._config.notices, *self._parts.notices)

    @property
    def controls(self) -> Controls:
        """Return what a person changes meanwhile: the permission mode, the models, commands of theirs."""
        return Controls(self._parts)

    async def workflows(self) -> dict[str, str]:
        """Return the description of every workflow that can be started by name."""
        return await in_thread(self._parts.library.workflows)

    async def roles(self) -> tuple[str, ...]:
        """Return the names of the roles a chat can be started with."""
        return tuple(await in_thread(self._parts.library.roles))

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
        repository: str | None = None,
    ) -> Begun[RunHandle]:
        """Start a run: `run = await engine.start(...)` returns it once its start is journaled.

        `async with engine.start(...) as run` binds its life to the block: a run that has not ended by
        the end of it is stopped.

        Args:
            workflow: a name, a path that ends in `.json`, what would stand in such a file, a
                `midstream.Workflow`, or `FILE.py:NAME` for the one in a file; `role:NAME` is a chat
                with that role.
            input: the workflow's input; of a chat, the first line.
            variables: values that override the workflow's `variables`.
            allowed: tools, or capabilities such as `exec: make test`, that need no approval.
            approvals: `deny` refuses tool calls that need an approval, where nobody could give one.
            budget: what the run may use at most, whatever its workflow says: `usd`, `tokens`,
                `tool_calls`, `transitions`, `minutes`. Used up, it asks for more; with `deny` it fails.
            handlers: the functions of a workflow that is no file, by name. It goes on in a later
                process only where they are given to `resume` again.
            key: makes the call repeatable: the same key again, in this folder, gives the run that was
                begun with it, as `take` does, whatever else is said. One that no process runs goes on
                with the `midstream.Workflow`, or the `handlers`, given this time.
            source: who starts it and says its input or first line, for the record.
            queue: it begins, and workers that serve the queue of this name (`default`) go on with it; the
                handle follows it. The journal has to be one that workers share.
            repository: it begins, and workers on any machine go on with it, in the files of a commit:
                `URL`, `URL@REF`, or `.`, the HEAD of the checkout that the workspace is in. What has
                changed there since is left out. Workflows, roles and tools are the commit's own and the
                user's, not those of this program.

        Raises, once awaited:
            UserMistake: there is no such workflow, the input does not fit it, workers cannot have it, or
                there is no such commit, or HEAD has not been pushed.
            NotTrusted: the commit has files of its own that are not those that a person has trusted in
                the workspace, and the engine was opened without `trust`.
            AuthorMistake: it has problems; the message lists all of them.
            WorldTrouble: the repository cannot be reached.
            DefinitionDiffers: the run that was begun with the key would go on, but its workflow has
                changed; see `resume`.
        """
        is_left = queue is not None or repository is not None

        async def given(engine: Engine) -> tuple[Definition, ScriptHandlers | None, dict[str, Any]]:
            """Return what an engine is to start, and how."""
            definition, found = await engine._definition(workflow, handlers)
            _line_of(definition, input)  # it is JSON, or nothing begins
            how: dict[str, Any] = {
                "input": None if definition.kind == "chat" else input,
                "variables": dict(variables or {}),
                "allowed": allowed,
                "approvals": approvals,
                "limits": _limits(budget),
                "source": "" if source == PROGRAM else source,
            }
            return definition, found, how

        async def leave(engine: Engine, placed: Placement, id: str | None) -> str:
            definition, _, how = await given(engine)
            return await hand_over(engine.local, definition, placed, id=id, **how)

        async def begin(id: str | None) -> RunHandle:
            if repository is not None:
                return await self.get(await self._elsewhere(repository, queue, id, leave))
            if queue is not None:
                return await self.get(await leave(self, placement_here(queue), id))
            definition, found, how = await given(self)
            machine = await self.local.start(definition, handlers=found, id=id, **how)
            if definition.kind == "workflow" and not definition.found_as:
                self._built[machine.id] = definition, found or _script({})
            return self._handle(machine)

        async def again(id: str) -> RunHandle:
            if is_left:
                return await self.get(id)
            flow = workflow if isinstance(workflow, Workflow) else None
            return await self.take(id, flow, handlers=handlers)

        starting = partial(
            self._started, begin, again, input, key=key, source=source, is_left=is_left
        )
        return Begun(starting, _stopped)

    def run_id(self, key: str) -> str:
        """Return the id that a run begun with `start(key=)` here has, or will have."""
        return _keyed_id(str(self.local.world.workspace), key)

    async def resume(
        self,
        id: str,
        workflow: Workflow | None = None,
        *,
        choice: Choice = "ask",
        handlers: Mapping[str, Handler] | None = None,
    ) -> RunHandle:
        """Return a run that no process runs, which goes on here. It hears first what it was sent meanwhile.

        Args:
            id: its id, the beginning of it, or its name.
            workflow: what it runs, where that was written in Python.
            choice: where its workflow has changed since: `old` goes on with the copy it is pinned to,
                `new` with what it is now, `ask` raises.
            handlers: as of `start`, for a workflow that is no file.

        Raises:
            DefinitionDiffers: its workflow has changed, and `choice` is `ask`.
            RunOwned: another process runs it: `get` talks to it there.
            UserMistake: there is no such run, it has ended, or it belongs to another folder.
        """
        kept = await found(self.local.store, id)
        built = self._built.get(kept.id)
        if workflow is not None:
            built = await self._parts.library.written(workflow)
        elif handlers is not None:
            run = await opened(self.local.store, kept.id)
            built = definition_of(run), _script(handlers)
        machine = await take_up(
            self.local, self._parts.library, kept.id, choice=choice, built=built
        )
        if built is not None:
            self._built[kept.id] = built
        await mail_taken(machine, self.local.store)
        return self._handle(machine)

    async def get(self, id: str) -> RunHandle:
        """Return a run as it stands, wherever it runs, or if it runs nowhere. Nothing of it begins.

        Args:
            id: its id, the beginning of it, or its name.

        Raises:
            UserMistake: there is no such run.
        """
        kept = await found(self.local.store, id)
        machine = self.local.machine(kept.id)
        if machine is not None and (machine.run.is_over or not machine.is_closed):
            return self._handle(machine)
        followed = await RemoteMachine.attached(
            self.local.store,
            kept.id,
            sockets=self.local.sockets,
            clock=self.local.world.clock,
        )
        # Those that have ended, or were closed by their handle, are kept by nobody but their handle.
        self._followed = {each for each in self._followed if not each.is_closed} | {followed}
        return self._handle(followed)

    async def take(
        self,
        id: str,
        workflow: Workflow | None = None,
        *,
        choice: Choice = "ask",
        handlers: Mapping[str, Handler] | None = None,
        here: bool = False,
    ) -> RunHandle:
        """Return a run that can be talked to: as `get` does; one that no process runs goes on here.

        One of a folder of another machine, or with which a worker goes on once something is sent to it,
        does so there.

        Args:
            id: its id, the beginning of it, or its name.
            workflow, choice, handlers: as of `resume`.
            here: whether it goes on here though a worker would go on with it.

        Raises:
            DefinitionDiffers: it would go on here, but its workflow has changed, and `choice` is `ask`.
            UserMistake: there is no such run, or it would go on here but belongs to another folder.
        """
        store = self.local.store
        kept = await found(store, id)
        is_left = not kept.summary.is_over and not await ask_owner(store, kept)
        if is_left and is_of_host(store, kept) and (here or not await is_served(store, kept.id)):
            try:
                return await self.resume(kept.id, workflow, choice=choice, handlers=handlers)
            except RunOwned:
                pass  # another process was faster
        return await self.get(kept.id)

    async def runs(
        self,
        *,
        status: Status | None = None,
        workflow: str | None = None,
        everywhere: bool = False,
        limit: int | None = 100,
        after: RunInfo | str | None = None,
    ) -> list[RunInfo]:
        """Return runs, the one that was written last first; other processes' and ended ones are in it.

        Args:
            status: only those that stand so.
            workflow: only those of a workflow of this name.
            everywhere: those of other folders, too, and those left to workers with a repository: each of
                them has a folder of its own wherever it is worked on.
            limit: how many at most; None: all.
            after: the last run of the page before. By its id alone the list goes on where the run is
                now: one that was written meanwhile has come to the front.

        Raises:
            UserMistake: there is no run of the id `after`, or no such status.
        """
        _require_known("status", status, Status)
        place = None if after is None else await self._place(after)
        here = None if everywhere else str(self.local.world.workspace)
        # What waits for a person has asked something, or waits for words without asking.
        ways: tuple[Standing, ...] | None = None if status is None else (status,)
        if status == "waiting":
            ways = ("waiting", "asking")
        listed: list[RunInfo] = []
        async for kept in walk(self.local.store, workspace=here, status=ways, after=place):
            if limit is not None and len(listed) >= limit:
                break
            if workflow in (None, kept.summary.workflow):
                listed.append(self._info(kept))
        return listed

    async def info(self, id: str) -> RunInfo | None:
        """Return what a list shows of the run of exactly this id, None where there is none."""
        kept = await self.local.store.run(id)
        return None if kept is None else self._info(kept)

    async def changed(self, timeout_s: float) -> None:
        """Return once something may have been written to the journal, by anybody, or in time."""
        await self.local.store.changed(timeout_s)

    async def keep_picture(self, data: bytes, name: str = "") -> str:
        """Return the mark that stands for a picture in words said to a run; the picture is kept by then.

        Raises:
            UserMistake: it is no picture that can be shown to a model.
            JournalFull: there is no room for it.
        """
        return mark_of(await kept_picture(data, name, self.local.world.blobs))

    async def _place(self, run: RunInfo | str) -> Place:
        if isinstance(run, RunInfo):
            return run.updated_at, run.id
        kept = await self.local.store.run(run)
        if kept is None:
            raise UserMistake(
                f"There is no run {run!r}.", hint="Pass the last one you got, or its id."
            )
        return kept.place

    async def fork(self, id: str, at: int | None = None) -> RunHandle:
        """Return a copy of a run as it was after its fact `at` (None: as it is), which goes on here.

        Nothing of the run itself changes. What its tools did after that point stays done.

        Raises:
            UserMistake: there is no such run, or it had no such fact.
        """
        kept = await found(self.local.store, id)
        made = await fork(self.local.store, kept.id, at)
        if kept.id in self._built:
            self._built[made.id] = self._built[kept.id]
        return await self.resume(made.id, choice="old")

    async def delete(self, id: str) -> None:
        """End a run, if it has not ended, and delete it with its words. There is no way back.

        What its tools did stays done. Contents that others may have, too, go with
        `midstream journal prune`.

        Raises:
            UserMistake: there is no such run, or runs that were forked from it are here.
            RunOwned: another process runs it; nothing changed.
        """
        kept = await found(self.local.store, id)
        run = await self.get(kept.id)
        if kept.owner and not run.is_here:
            raise held_elsewhere(kept.id, kept.owner, hint="End it there first.")
        if not run.run.is_over:
            await run.stop("deleted")
        await self.local.let_go(kept.id)  # else it may have ended so lately that it is still ours
        await run.close()
        await self.local.store.forget(kept.id)

    async def close(self) -> None:
        """Let go of every run, close every connection. May be called twice.

        Cancelled, it goes on to its end, and raises only then: half an engine would hold the journal.

        Raises:
            WorldTrouble: something has not closed within a minute, and is left as it is.
        """
        await to_its_end(self._closed())

    async def facts(self, id: str, since: int = 0, limit: int | None = None) -> list[Envelope]:
        """Return a run's facts after number `since`, in order, each with its number and time.

        With a `limit` at most that many: the page after them begins at the number of the last.
        """
        return await self.local.store.read(id, since, None if limit is None else since + limit)

    # --- inside -----------------------------------------------------------------------------

    async def _closed(self) -> None:
        for followed in tuple(self._followed):
            await followed.aclose()
        self._followed.clear()
        await self._parts.close()

    async def _started(
        self,
        begin: Callable[[str | None], Awaitable[RunHandle]],
        again: Callable[[str], Awaitable[RunHandle]],
        input: Json,
        *,
        key: str | None,
        source: str,
        is_left: bool,
    ) -> RunHandle:
        """Return a run that has begun, here or with this key before, and was told its first line."""
        said: str | None = None
        if key is None:
            run = await begin(None)
        else:
            id = self.run_id(key)
            said = f"{id}-first"
            # The claim is by process: two calls of ours would both get it.
            async with self._doors.setdefault(id, asyncio.Lock()):
                run = await self._begun_once(begin, again, id)
        line = _line_of(definition_of(run.run), input)
        if line is not None and said not in run.run.inbox.lines:
            if not is_left:
                await run.settled()
            await run.say(line, id=said, source=source)
        return run

    async def _elsewhere(
        self,
        repository: str,
        queue: str | None,
        id: str | None,
        leave: "Callable[[Engine, Placement, str | None], Awaitable[str]]",
    ) -> str:
        """Return the id of a run that an engine in the folder of a commit has left to workers."""
        from midstream.app.commit_folder import CommitFolder

        pool_of(self.local.store)
        placed = placement_here(queue)
        folder = await in_thread(partial(CommitFolder, repository, self._options, placed, id))

        def opened() -> Engine:
            options = folder.open()
            config = trusted(options)
            clock, owner = self.local.world.clock, self.local.owner
            made = parts(config, options, clock=clock, owner=owner)
            folder.place_in(made)
            return Engine(config, made, options)

        try:
            there = await _held(in_thread(opened), Engine.close)
            try:
                return await leave(there, folder.placement, folder.id)
            finally:
                await there.close()
        finally:
            await to_its_end(in_thread(folder.remove))

    async def _begun_once(
        self,
        begin: Callable[[str | None], Awaitable[RunHandle]],
        again: Callable[[str], Awaitable[RunHandle]],
        id: str,
    ) -> RunHandle:
        """Return the run of this id: one that has begun, here or in another process, else a new one."""
        while await self.local.store.run(id) is None:
            try:
                return await begin(id)
            except (RunOwned, JournalMoved):
                # Its first fact is on its way, or its process has died before it.
                await self.local.store.changed(_FIRST_FACT_S)
        return await again(id)

    def _handle(self, machine: WorkflowStateMachine | RemoteMachine) -> RunHandle:
        return RunHandle(machine, self.local, self.fork)

    async def _definition(
        self, workflow: RunnableWorkflow, handlers: Mapping[str, Handler] | None
    ) -> tuple[Definition, ScriptHandlers | None]:
        library = self._parts.library
        if isinstance(workflow, Workflow):
            return await library.written(workflow)
        if isinstance(workflow, Definition):
            return workflow, _script(handlers or {})
        if isinstance(workflow, Mapping):
            path = Path(f"{workflow.get('workflow_name') or 'workflow'}.json")
            source = json_text("The workflow", dict(workflow)).encode("utf-8", "backslashreplace")
            return await library.load_file(
                path, read=partial(_given, path, source), functions=handlers
            )
        if python_file(str(workflow)) is not None:
            return await library.load(str(workflow))
        if isinstance(workflow, Path) or workflow.endswith(".json"):
            path = Path(self.local.world.workspace, workflow)
            return await library.load_file(path, functions=handlers)
        mode = Mode.parse(workflow) if ":" in workflow else Mode(kind="workflow", name=workflow)
        if mode.kind == "workflow":
            return await library.load(mode.name)
        return library.chat(mode.name, self._parts.tools), None

    def _info(self, kept: KeptRun) -> RunInfo:
        summary = kept.summary
        status: Status = summary.status
        if status == "running" and (summary.asking or summary.awaits_input):
            status = "waiting"
        return RunInfo(
            id=kept.id,
            name=summary.name,
            workflow=summary.workflow,
            kind=summary.kind,
            status=status,
            state=summary.state,
            started_at=summary.started_at,
            updated_at=summary.updated_at,
            asking=summary.asking,
            usd=summary.usd,
            is_running=bool(kept.owner),
            is_here=kept.owner == self.local.store.me,
            workspace=summary.workspace,
            first=summary.first,
        )


async def _stopped(run: RunHandle, kind: type[BaseException] | None) -> None:
    """Stop a run whose block was left before it had ended."""
    if not run.run.is_over:
        await run.stop("its block was left" + ("" if kind is None else f" over {kind.__name__}"))


def _keyed_id(workspace: str, key: str) -> str:
    """Return the id of the run that a key begins in a folder, the same in every process."""
    digest = hashlib.sha256(f"{workspace}\0{key}".encode("utf-8", "backslashreplace")).digest()
    return base64.b32encode(digest).decode().lower()[:_KEYED]


def _line_of(definition: Definition, input: Json) -> str | None:
    """Return the first line of a chat, None where it has none.

    Raises:
        AuthorMistake: it is no JSON.
    """
    if definition.kind != "chat" or input is None:
        return None
    return input if isinstance(input, str) else json_text("The input", input)


_KEYED: Final = 16
"""Letters and digits of an id that a key made: more than others have, so that no two keys meet."""

_FIRST_FACT_S: Final = 0.25

_ENDS_S: Final = 5.0
"""Seconds that what a block begins or ends may still take once that was cancelled."""


def _script(handlers: Mapping[str, Handler]) -> ScriptHandlers:
    return ScriptHandlers(handlers, where="the program")


def _require_known(what: str, value: str | None, kind: Any) -> None:
    """Refuse a word that is none of those a `Literal` has; None stands for none.

    Raises:
        UserMistake: it is none of them.
    """
    known = get_args(kind)
    if value is not None and value not in known:
        raise UserMistake(
            f"There is no {what} {value!r}.", hint=f"It is one of {', '.join(known)}."
        )


def _limits(budget: Mapping[str, float] | None) -> Budget | None:
    try:
        given = dict(budget) if isinstance(budget, Mapping) else budget
        return None if given is None else msgspec.convert(given, Budget)
    except msgspec.ValidationError as error:
        raise UserMistake(
            f"The budget cannot be read: {error}.",
            hint=f"It has numbers for {', '.join(Budget.__struct_fields__)}.",
        ) from None


def _given(path: Path, source: bytes, wanted: Path) -> bytes:
    """Return what would stand in the file of a workflow that a program gave; it has no other file."""
    if wanted == path:
        return source
    raise FileMissing(f"There is no file {wanted}.", hint="Pass the functions as handlers=.")


def _own_tools(given: Tools) -> "tuple[Tool, ...]":
    """Return the tools a program gives.

    Raises:
        UserMistake: one has a name that is taken.
    """
    from midstream.tools.manager import built_in_tools
    from midstream.tools.user_tools import as_tool, require_free

    tools = tuple(map(as_tool, given))
    names = [tool.spec.name for tool in (*built_in_tools(), *tools)]
    require_free(name for number, name in enumerate(names) if name in names[:number])
    return tools

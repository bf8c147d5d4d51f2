"""The parts list: the one place that knows every adapter and puts them together."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from midstream.config.directories import JOURNAL_VARIABLE, host_name, user_name
from midstream.config.manager import ConfigManager
from midstream.config.open_settings import open_settings, require_trust
from midstream.config.private_files import make_private, require_private
from midstream.config.settings import TRACES, WEB_SEARCH
from midstream.config.trust import TrustStatus, TrustStore
from midstream.language.errors import UserMistake, WorldTrouble, did_you_mean
from midstream.language.spec import Guidance, ToolSpec
from midstream.safety.capability import PermissionMode
from midstream.system.offloop import cancel_all, still_working
from midstream.system.own_process import complain, own_redactor
from midstream.system.workspace_paths import keep_from_tools

if TYPE_CHECKING:
    from midstream.config.hooks import Hook
    from midstream.language.problem import Problem
    from midstream.models.api_client import AIAPIClient
    from midstream.models.model_choice import ModelChoice
    from midstream.runtime.engine.local import LocalEngine
    from midstream.runtime.engine.owner import Owner
    from midstream.runtime.ports import Clock, ExternalAgents, Model, OpenFiles
    from midstream.runtime.storage import Placement, Store
    from midstream.runtime.workflow_library import WorkflowLibrary
    from midstream.store.postgres.store import PostgresStore
    from midstream.store.sqlite import SqliteStore
    from midstream.telemetry.sending import Destination
    from midstream.tools.base import Tool
    from midstream.tools.hooks import CommandHooks
    from midstream.tools.manager import ToolManager
    from midstream.tools.mcp.approval import Approvals
    from midstream.tools.permissions import Permissions
    from midstream.tools.sandbox.sandbox import Sandbox


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What every way of starting takes from the command line.

    `journal`: `needed` refuses to start without one, `wanted` goes on in memory and says so, `none`
    never opens one.
    """

    workspace: Path
    model: str | None = None
    trusts_workspace: bool | None = None
    allowed: tuple[str, ...] = ()
    permission_mode: PermissionMode | None = None
    is_json: bool = False
    is_screen_reader: bool = False
    continues: bool = False
    resumes: str | None = None
    journal: Literal["needed", "wanted", "none"] = "wanted"


_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """The machine's own time. `now` says what time it is where that is not this machine's to say."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def now(self) -> float:
        """Return the time in seconds since 1970 (UTC)."""
        return self._now()

    def monotonic(self) -> float:
        """Return seconds that only grow; where it can, the system counts those it sleeps, too."""
        if sys.platform == "win32" or _BOOTTIME is None:
            return time.monotonic()
        return time.clock_gettime(_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await asyncio.sleep(seconds)


class Parts(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is loaded once the prompt is on the screen.

    `no_model` is the notice that no model is configured, "" where one is.
    """

    config: ConfigManager
    engine: "LocalEngine"
    store: "Store"
    library: "WorkflowLibrary"
    client: "AIAPIClient"
    models: "ModelChoice"
    tools: dict[str, ToolSpec]
    permissions: "Permissions"
    sandbox: "Sandbox"
    mcp: "Approvals | None"
    notices: tuple[str, ...] = ()
    no_model: str = ""

    async def close(self) -> None:
        """Let go of every run, and close every connection. May be called twice.

        Raises:
            WorldTrouble: something has not closed in `CLOSES_S` seconds; the rest has.
        """
        async with contextlib.AsyncExitStack() as closing:
            if self.mcp is not None:
                closing.push_async_callback(_in_time, "The MCP servers", self.mcp.servers.close)
            closing.push_async_callback(_in_time, "The models", self.client.aclose)
            closing.push_async_callback(_in_time, "The journal", self.engine.close)


CLOSES_S = 60.0
"""Seconds after which what is closed is left as it is: more than tools have for being stopped."""


async def _in_time(what: str, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    closing = asyncio.ensure_future(close())
    try:
        if await still_working({closing}, CLOSES_S):
            raise WorldTrouble(
                f"{what} did not close in {CLOSES_S:g} seconds.",
                hint="It is left as it is, and goes with this process. What was journaled is kept.",
            )
        closing.result()
    except asyncio.CancelledError:
        await cancel_all(closing)
        raise
    finally:
        closing.cancel()


def parts(
    config: ConfigManager,
    options: Options,
    *,
    is_paced: bool = False,
    model: "Model | None" = None,
    tools: "Sequence[Tool]" = (),
    clock: "Clock | None" = None,
    open_files: "OpenFiles | None" = None,
    owner: "Owner | None" = None,
) -> Parts:
    """Return the loaded parts. Imports much; call it off the loop.

    Args:
        config: the settings.
        options: the command line.
        is_paced: the offline model streams its words as slowly as a model does.
        model: what is asked in place of every model of the settings.
        tools: tools beside the built-in ones, in place of a person's own of the same names.
        clock: the time, by default the machine's own.
        open_files: those a person has open in an editor.
        owner: whose runs they are, in its store; None: an owner of their own, in the journal's.

    Raises:
        WorldTrouble: the journal is needed and cannot be opened.
    """
    from midstream.config.agents_file import words_below
    from midstream.config.environment import environment_here
    from midstream.models.api_client import AIAPIClient, Limits
    from midstream.models.endpoints import is_configured, no_model
    from midstream.models.model_choice import ModelChoice
    from midstream.models.offline import PIECES_PER_S, OfflineModel
    from midstream.models.provider_errors import Backoff
    from midstream.runtime.engine.local import LocalEngine
    from midstream.runtime.ports import World
    from midstream.runtime.workflow_library import WorkflowLibrary
    from midstream.tools.diagnostics import diagnostics_of
    from midstream.tools.manager import ToolManager, built_in_tools
    from midstream.tools.permissions import Permissions
    from midstream.tools.user_tools import WorkflowTools
    from midstream.tools.validation import validate
    from midstream.tools.web_search import search_tools

    own, problems = _own_tools(config)
    named = {tool.spec.name for tool in tools}
    own = (*tools, *(tool for tool in own if tool.spec.name not in named))
    rules = config.permissions
    if options.permission_mode is not None:
        rules = msgspec.structs.replace(rules, mode=options.permission_mode)
    rules = msgspec.structs.replace(rules, is_untrusted=config.is_untrusted)
    sandbox = sandbox_of(config)
    permissions = Permissions(rules, sandbox=lambda: sandbox.level_in(options.workspace))
    searches = search_tools(config.own(WEB_SEARCH))
    built_in = (*built_in_tools(sandbox), *_skill_tools(config), *searches)
    diagnostics = diagnostics_of(config.diagnostics)
    manager = ToolManager(
        own, built_in=built_in, policy=permissions.policy, diagnostics=diagnostics
    )
    mcp, mcp_notices = mcp_of(config)
    if mcp is not None:
        manager.put(mcp.servers.tools())
    specs = manager.specs()
    if mcp is not None:
        mcp.on_tools = lambda name, found: _offer(manager, specs, name, found)

    def environment() -> Guidance:
        level = sandbox.level_in(options.workspace)
        place = "" if engine.world.place is None else engine.world.place.name
        return environment_here(config, permissions.mode, level, place)

    library = WorkflowLibrary(config, specs, WorkflowTools(manager, specs).take_in, environment)
    kept, unkept = _store_or_memory(config, options) if owner is None else (owner.store, ())
    clock = clock or clock_of(kept)
    offline = OfflineModel(library.offline_part, pieces_per_s=PIECES_PER_S if is_paced else None)
    patience = config.patience
    client = AIAPIClient(
        config.models,
        clock=clock,
        validator=validate,
        offline=offline,
        limits=Limits(
            first_byte_s=patience["firstByteSeconds"],
            idle_s=patience["silenceSeconds"],
            total_s=patience["totalSeconds"],
        ),
        backoff=Backoff(attempts=int(patience["attempts"])),
        turn=_turns(config, kept, clock),
    )
    is_offline = model is None and not is_configured(os.environ, config.models)
    hooks, hook_notices = _hooks(config, options.workspace, sandbox)
    world = World(
        model=model or client,
        tools=manager,
        journal=kept,
        blobs=kept,
        clock=clock,
        validate=validate,
        workspace=options.workspace,
        workflows=library,
        hooks=hooks,
        permits=permissions,
        agents=_agents(config) if model is None else None,
        words_below=partial(words_below, config),
        open_files=open_files,
        redactor=own_redactor(),
    )
    engine = LocalEngine(
        world,
        kept,
        sockets=sockets_folder(config) if kept.is_lasting else None,
        limits=config.budget,
        owner=owner,
    )
    traces = _send_traces(config, engine)
    notices = (*unkept, *map(str, problems), *mcp_notices, *hook_notices, *traces)
    lacking = no_model(config.models) if is_offline else ""
    return Parts(
        config=config,
        engine=engine,
        store=kept,
        library=library,
        client=client,
        models=ModelChoice(client, config.models, is_offline=is_offline, remember=config.use_model),
        tools=specs,
        permissions=permissions,
        sandbox=sandbox,
        mcp=mcp,
        notices=(*notices, lacking) if lacking else notices,
        no_model=lacking,
    )


def clock_of(store: "Store") -> SystemClock:
    """Return the time of runs: the database's where machines share one, whatever their own clocks say."""
    from midstream.runtime.storage import Pool

    return SystemClock(store.now) if isinstance(store, Pool) else SystemClock()


def _turns(
    config: ConfigManager, store: "Store", clock: "Clock"
) -> Callable[[str, str, Callable[[str], None]], Awaitable[None]] | None:
    """Return what lets requests out at the rates of the settings, shared with all who share the store."""
    if not config.rates:
        return None
    from midstream.models.rate_limits import RateLimits
    from midstream.runtime.storage import Pool
    from midstream.store.memory import Supplies

    people: dict[str, str] = {}

    async def person(run: str) -> str:
        if run not in people:
            kept = await store.run(run) if isinstance(store, Pool) else None
            placed = None if kept is None else kept.placement
            people[run] = user_name(os.environ) if placed is None else placed.user
        return people[run]

    admit = store.admit if isinstance(store, Pool) else Supplies(clock.now).admit
    return RateLimits(config.rates, admit, person=person, clock=clock, environ=os.environ).turn


def _agents(config: ConfigManager) -> "ExternalAgents | None":
    """Return what drives other people's agents: they need no model of ours, but where the offline model
    was chosen, that stands in for them, too.
    """
    from midstream.agents.external_agents import AcpAgents
    from midstream.agents.presets import Patience
    from midstream.models.endpoints import is_offline

    if all(is_offline(name) for name in config.models.values()):
        return None
    return AcpAgents(
        environ=os.environ,
        redacted=own_redactor().redacted,
        # They may be as silent as a request to a model may take in all: that is what they wait for.
        patience=Patience(idle_s=config.patience["totalSeconds"]),
    )


def sandbox_of(config: ConfigManager) -> "Sandbox":
    """Return the sandbox commands run in; no command sees our journal, state and settings."""
    from midstream.tools.sandbox.sandbox import Sandbox

    kept = (config.journal.parent, config.blobs_folder)
    # A folder around the workspace cannot be hidden in it, and need not be: it is not seen there.
    around = Path(os.path.realpath(config.workspace)).parents
    hidden = (each for each in kept if each is not None and each not in around)
    return Sandbox(config.state_dir, hidden=(config.user_dir, *hidden))


def placement_here(queue: str | None = None) -> "Placement":
    """Return where a run of this machine's folders goes on: here, with workers that serve the queue."""
    from midstream.runtime.storage import Placement

    place = Placement(host=host_name(os.environ), user=user_name(os.environ))
    return place if queue is None else msgspec.structs.replace(place, queue=queue)


def sockets_folder(config: ConfigManager) -> Path:
    """Return the folder where the owners of runs can be woken."""
    return config.journal.with_name(f"{config.journal.name}.d")


def copy_mark(journal: Path) -> Path:
    """Return the file that is there as long as a new journal has not all that is copied into it."""
    return journal.with_name(f"{journal.name}.copying")


def opened_store(
    config: ConfigManager, *, is_copied_to: bool = False
) -> "SqliteStore | PostgresStore":
    """Return the store of the runs. Reads the disk, or asks a server; call it off the loop.

    Args:
        config: says which.
        is_copied_to: it may be one that has not all of its runs yet.

    Raises:
        WorldTrouble: it cannot be opened, is not complete, a newer midstream wrote it, or the disk is full.
        UserMistake: other users could exchange it, or what speaks to its database is not installed.
    """
    if config.database:
        return _opened_database(config)
    from midstream.store.sqlite import SqliteStore

    require_private(config.journal, JOURNAL_VARIABLE)
    keep_from_tools(config.journal)
    mark = copy_mark(config.journal)
    if not is_copied_to and mark.exists():
        raise WorldTrouble(
            f"The journal {config.journal} is not complete: a copy into it has not ended.",
            hint=f"Wait for that or begin it again; or use what is there: delete {mark}.",
        )
    return SqliteStore.opened(config.journal)


def _opened_database(config: ConfigManager) -> "PostgresStore":
    try:
        from midstream.store.postgres.store import PostgresStore
    except ImportError as error:
        raise UserMistake(
            f"The journal {config.journal_shown} needs psycopg, which is not installed: {error}.",
            hint='Install it with: pip install "midstream[postgres]"',
        ) from error
    # Without it other processes hear what streams from the database alone.
    with contextlib.suppress(OSError):
        make_private(sockets_folder(config))
    if config.blobs_folder is not None:
        keep_from_tools(config.blobs_folder)
    return PostgresStore.opened(
        config.database,
        host=host_name(os.environ),
        person=user_name(os.environ),
        blobs=config.blobs,
    )


def _store_or_memory(config: ConfigManager, options: Options) -> "tuple[Store, tuple[str, ...]]":
    """Return the store; or one in memory, and why where one on the disk was wanted."""
    from midstream.store.memory import MemoryStore

    if options.journal == "none":
        return MemoryStore(), ()
    try:
        return opened_store(config), ()
    except WorldTrouble as error:
        if options.journal == "needed":
            raise type(error)(error.what, hint=f"{error.hint} {_WITHOUT}") from error
        return MemoryStore(), (f"Runs are kept only in memory until midstream ends. {error}",)


_WITHOUT = "midstream run and chat go without one with --no-journal, but then nothing is kept."


def _send_traces(config: ConfigManager, engine: "LocalEngine") -> tuple[str, ...]:
    """Have the traces of all runs sent, where that is asked for; return what is wrong with that."""
    try:
        to = traces_go_to(config)
    except UserMistake as error:
        return (f"No traces are sent. {error}",)
    if to is None:
        return ()
    from midstream.telemetry.live import LiveTraces

    def tell(run: str, words: str) -> None:
        if not engine.complain(run, "of traces", words):
            complain(f"midstream: {words[:1].upper()}{words[1:]}")

    live = LiveTraces(engine.store, to, tell)
    engine.listen(live.hear, at_end=live.close)
    return ()


def traces_go_to(config: ConfigManager) -> "Destination | None":
    """Return where traces of runs are sent to, None where nobody asked for that.

    Raises:
        UserMistake: it is no address, or the environment asks for another protocol.
    """
    said = config.own(TRACES)
    if said.get("") == "false" or not (said or any(map(os.environ.get, _COLLECTORS))):
        return None
    from midstream.telemetry.sending import destination

    url, content = said.get("endpoint", ""), said.get("content") == "true"
    return destination(os.environ, url=url, content=content)


_COLLECTORS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
"""The variables of OpenTelemetry that name a collector: whoever sets one wants to be sent traces."""


def _own_tools(config: ConfigManager) -> "tuple[tuple[Tool, ...], tuple[Problem, ...]]":
    """Return the tools of the user's folder and of a trusted workspace, and what is wrong there."""
    from midstream.tools.user_tools import load_user_tools

    return load_user_tools(config.tool_files(), read=config.read)


def _skill_tools(config: ConfigManager) -> "tuple[Tool, ...]":
    """Return the tool that reads skills, where there are any."""
    from midstream.config.skills import skill_text, skills
    from midstream.tools.small_tools import skill_tool

    return (skill_tool(partial(skill_text, config)),) if skills(config) else ()


def _hooks(
    config: ConfigManager, workspace: Path, sandbox: "Sandbox"
) -> "tuple[CommandHooks | None, tuple[str, ...]]":
    """Return the hooks of the settings, None where there are none, and what is wrong with them."""
    from midstream.config.hooks import HOOKS, hooks_of

    hooks, problems = hooks_of(config)
    if not hooks:
        return None, tuple(map(str, problems))
    from midstream.tools.hooks import CommandHooks

    def require_trusted(hook: "Hook") -> None:
        of_plugins = (each for each in config.plugins().values() if str(each.folder) == hook.root)
        grant = next(of_plugins, None) if hook.root else config.grant
        if grant is not None:
            grant.require_whole(HOOKS)

    made = CommandHooks(
        hooks,
        workspace=workspace,
        sandbox=sandbox,
        readable=(config.user_dir / HOOKS,),
        require_trusted=require_trusted,
    )
    return made, tuple(map(str, problems))


def mcp_of(config: ConfigManager) -> "tuple[Approvals | None, tuple[str, ...]]":
    """Return the MCP servers of the settings, and what a person should hear of them.

    Nothing is started: what was approved is known.
    """
    from midstream.config.mcp_servers import mcp_servers

    servers, problems = mcp_servers(config)
    notices = tuple(map(str, problems))
    if not servers:
        return None, notices
    from midstream.tools.mcp.approval import Approvals
    from midstream.tools.mcp.pins import PinStore
    from midstream.tools.mcp.servers import McpServers

    made = McpServers(
        servers,
        PinStore(config.state_dir),
        workspace=config.workspace,
        folder=config.state_dir / "mcp",
    )
    return Approvals(made, workspace=config.workspace), (*notices, *made.unapproved())


def _offer(
    manager: "ToolManager", tools: dict[str, ToolSpec], server: str, found: "tuple[Tool, ...]"
) -> None:
    """Let new chats and runs have the tools a server has from now on."""
    gone = [name for name in tools if name.startswith(f"mcp__{server}__")]
    for name in gone:
        del tools[name]
    manager.put(found, instead_of=gone)
    tools |= {tool.spec.name: tool.spec for tool in found}


def configured(
    options: Options,
    *,
    mode: str | None = None,
    asks: Callable[[TrustStatus, TrustStore], bool] | None = None,
) -> ConfigManager:
    """Return the settings, those of the workspace only if it is trusted; see `open_settings`.

    Raises:
        UserMistake: the command line names a mode or model that none can be.
    """
    if options.model is not None:
        from midstream.models.endpoints import require_key, require_name

        require_key(require_name(options.model), os.environ)
    return open_settings(
        options.workspace,
        mode=mode,
        model=options.model,
        trusts_workspace=options.trusts_workspace,
        asks=asks,
    )


def trusted(options: Options, *, mode: str | None = None) -> ConfigManager:
    """Return the settings. Nobody is asked: the workspace is trusted, or the command line says what to do.

    Raises:
        NotTrusted: they are not, and the command line does not say what to do.
    """
    config = configured(options, mode=mode)
    if options.trusts_workspace is None:
        require_trust(config)
    return config


def unknown_tool(allowed: Iterable[str], tools: Iterable[str]) -> UserMistake | None:
    """Return what is wrong with `--allow`, None if every tool exists and every capability is one."""
    from midstream.safety.rules import BadRule, read_rule

    for name in allowed:
        if ":" in name:
            try:
                read_rule(name)
            except BadRule as error:
                return UserMistake(f"--allow {name!r}: {error.what}", hint=error.hint)
        elif name not in tools:
            return UserMistake(f"--allow {name}: no such tool.", hint=did_you_mean(name, tools))
    return None

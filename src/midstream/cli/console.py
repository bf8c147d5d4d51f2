"""Starting the console: in a terminal, or on lines where there is none."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING

from midstream.app.assembly import Options, Parts, configured, parts, trusted, unknown_tool
from midstream.app.ui import UI
from midstream.cli.output import FAILED, FINISHED
from midstream.config.manager import ConfigManager
from midstream.config.newcomer import is_new, remember_coder, remember_welcome
from midstream.config.settings import SCREEN_READER, STATUS_LINE, UPDATE_NOTICE
from midstream.config.trust import TrustStatus, TrustStore
from midstream.language.errors import MidstreamError, UserMistake
from midstream.language.names import Mode
from midstream.system.offloop import in_thread
from midstream.system.own_process import (
    HANGUPS,
    STDIN,
    STDOUT,
    OutputLost,
    Signalled,
    columns,
    is_terminal,
    load_without_collecting,
    run_until_signalled,
    settle_memory,
)

if TYPE_CHECKING:
    from midstream.app.ai_coder_console import AICoderConsole
    from midstream.app.chats import GoesOn
    from midstream.tui.own_status import Runner


def console(options: Options, *, mode: str | None) -> int:
    """Run the console in a terminal, or on lines where there is none; return the exit code."""
    load_without_collecting()
    has_skill = os.environ.get("TERM") != "dumb" or options.is_screen_reader
    can_draw = is_terminal(STDIN) and is_terminal(STDOUT) and has_skill
    if can_draw and not options.is_json:
        if sys.platform == "win32":
            raise UserMistake(
                "The console cannot draw on a terminal of Windows yet.",
                hint="Use it within WSL. `midstream run` works here, and so do lines from a pipe.",
            )
        config = configured(options, mode=mode, asks=_ask_trust)
        if options.is_screen_reader or config.is_on(SCREEN_READER):
            return run_until_signalled(_on_lines(config, options, is_read=True), signals=HANGUPS)
        return run_until_signalled(_in_terminal(config, options), signals=HANGUPS)
    config = trusted(options, mode=mode)
    if mode is not None:
        # Nobody would see that the lines go to somebody else.
        config.check_mode(Mode.parse(mode))
    return run_until_signalled(_on_lines(config, options), signals=(signal.SIGINT, *HANGUPS))


def _ask_trust(status: TrustStatus, store: TrustStore) -> bool:
    from midstream.cli.trust import ask_trust

    return ask_trust(status, store)


async def _in_terminal(config: ConfigManager, options: Options) -> int:
    from midstream.tui import keymap
    from midstream.tui.interface import ConsoleInterface
    from midstream.tui.themes import Look, has_256

    if config.keys:
        keymap.use(config.keys)
    # A descriptor of its own: what others write to stdout meanwhile is told, not drawn over it.
    own = os.fdopen(os.dup(STDOUT), "w", encoding="utf-8")
    ui = ConsoleInterface(
        history_folder=config.state_dir,
        look=Look(config.theme, colour=not os.environ.get("NO_COLOR"), many=has_256(os.environ)),
        stdout=own,
        notifications=config.notifications,
        editing=config.editing,
        folder=config.workspace,
    )
    ui.apply(STATUS_LINE, config)

    def equipped(made: Parts) -> None:
        from midstream.config.hooks import HOOKS
        from midstream.tools.hooks import StatusCommand

        def runner(command: str, is_boxed: bool) -> "Runner":
            box = made.sandbox if is_boxed else None
            return StatusCommand(
                command=command,
                workspace=config.workspace,
                sandbox=box,
                readable=(config.user_dir / HOOKS,),
            ).run

        ui.status_runner = runner
        if "command" in config.status_line:
            ui.apply(STATUS_LINE, config)

    async with _opened(config, options, ui, is_paced=True, equipped=equipped) as app:
        await ui.run(app)
    if ui.signal is not None:
        raise Signalled(ui.signal)
    return FINISHED


async def _on_lines(config: ConfigManager, options: Options, *, is_read: bool = False) -> int:
    """Take lines until they end and every run has come to rest; say where each stands."""
    from midstream.tui.jsonlines import line_ui

    ui = line_ui(STDOUT, is_json=options.is_json, is_read=is_read)
    async with _opened(config, options, ui) as app:
        await ui.run(app)
        if ui.lost is None and not app.session.is_leaving:
            await app.settled()
            for line in app.summary():
                ui.say(line)
        has_failed = app.failed()
    if ui.lost is not None:
        raise OutputLost(ui.lost)
    return FAILED if has_failed else FINISHED


@contextlib.asynccontextmanager
async def _opened(
    config: ConfigManager,
    options: Options,
    ui: UI,
    *,
    is_paced: bool = False,
    equipped: "Callable[[Parts], None]" = lambda made: None,
) -> "AsyncIterator[AICoderConsole]":
    """Give a console that loads its parts meanwhile; at the end it lets go of its runs."""
    from midstream.app.ai_coder_console import AICoderConsole
    from midstream.tui.stdio_capture import capture_stdio

    loaded: list[Parts] = []
    browser = _InBrowser(config, ui, loaded)
    app = AICoderConsole(
        config,
        ui,
        allowed=options.allowed,
        goes_on=_goes_on(options),
        is_attended=is_terminal(STDIN),
        doctor=partial(_examined, config),
        web=browser.shown,
        topics={"keys": _keys},
    )
    try:
        with capture_stdio(ui):
            async with asyncio.TaskGroup() as group:
                loading = group.create_task(
                    _equip(app, config, options, loaded, is_paced=is_paced, equipped=equipped)
                )
                loading.add_done_callback(lambda _: settle_memory())
                yield app
                loading.cancel()
    finally:
        try:
            await browser.close()
            await app.close()
        finally:
            await ui.close()
        for each in loaded:
            await each.close()


class _InBrowser:
    """The runs of this console in a browser, from the first `/web` on until the console ends."""

    def __init__(self, config: ConfigManager, ui: UI, loaded: list[Parts]) -> None:
        self._config = config
        self._ui = ui
        self._loaded = loaded
        self._life = contextlib.AsyncExitStack()
        self._invite: Callable[[], str] | None = None

    async def shown(self, width: int) -> str:
        """Return the address that lets one browser in, and its QR code where there is room."""
        # Its libraries are asked for by nobody else.
        from midstream.cli.serve import in_console, with_code

        if self._invite is None:
            serving = in_console(self._config, self._loaded[0], self._ui)
            self._invite = await self._life.enter_async_context(serving)
        return with_code(self._invite(), width=width)

    async def close(self) -> None:
        """Serve no more."""
        await self._life.aclose()


def _examined(config: ConfigManager, width: int) -> str:
    from midstream.cli.doctor import examined

    return examined(config, width=width)


def _keys() -> str:
    from midstream.tui.keymap import keys_text

    # Two columns are the console's own, before each of its lines.
    return keys_text(columns() - 2)


def _goes_on(options: Options) -> "GoesOn | None":
    """Return with which chat the console begins, None: with a new one."""
    if not options.continues and options.resumes is None:
        return None
    from midstream.app.chats import GoesOn

    return GoesOn(which=options.resumes or "", is_newest=options.continues)


async def _equip(
    app: "AICoderConsole",
    config: ConfigManager,
    options: Options,
    loaded: list[Parts],
    *,
    is_paced: bool,
    equipped: "Callable[[Parts], None]",
) -> None:
    from midstream.app.commands.permission_commands import without_sandbox
    from midstream.app.switching import HOME
    from midstream.models.endpoints import is_offline

    is_welcomed = is_paced and await _welcomed(app, config, options)

    def load() -> Parts:
        # Imported in the thread: on the loop the first keys would wait for it, and the first `/`.
        from midstream.app.commands import table
        from midstream.runtime.engine import run_repository

        assert table
        assert run_repository
        return parts(config, options, is_paced=is_paced)

    made = await in_thread(load)
    loaded.append(made)
    if made.mcp is not None:
        made.mcp.servers.notify = app.session.ui.say
    if is_paced and not is_welcomed and _goes_on(options) is None and str(config.mode) == HOME:
        from midstream.app.onboarding import coder_hint

        with contextlib.suppress(MidstreamError):
            if words := await coder_hint(
                config, await made.store.listing(workspace=str(config.workspace))
            ):
                app.session.ui.say(words)
    unknown = unknown_tool(options.allowed, made.tools)
    await app.equip(
        made,
        notices=(
            *_unsaid(made, is_welcomed, at_terminal=is_paced),
            *([] if unknown is None else [str(unknown)]),
        ),
    )
    await in_thread(lambda: made.sandbox.unfit(options.workspace))
    equipped(made)  # once it is known what the sandbox is
    app.session.ui.refresh()
    tells_of_newer = is_paced and config.is_on(UPDATE_NOTICE) and not os.environ.get("CI")
    if tells_of_newer and (words := await in_thread(partial(_newer, config))):
        app.session.ui.say(words)
    if words := without_sandbox(made.permissions):
        app.session.ui.say(words)
    if not all(map(is_offline, made.client.describe().values())):
        await made.client.warm_up()  # half of all the memory is for models that are asked
    if tells_of_newer:
        from midstream.tools.newer_version import look_up

        await look_up(config.state_dir, now=time.time())


def _newer(config: ConfigManager) -> str:
    from midstream.tools.newer_version import known_notice  # in a thread, as it takes a while

    return known_notice(config.state_dir)


async def _welcomed(app: "AICoderConsole", config: ConfigManager, options: Options) -> bool:
    """Show somebody new the first screen; return whether they are.

    Before the parts are loaded: that holds up everything else for a second, and who is new would
    look at an empty screen.
    """
    if options.continues or options.resumes is not None or not is_new(config):
        return False
    from midstream.app.onboarding import welcome_text
    from midstream.views.welcome_screen import CODER

    text = await welcome_text(config, "", width=columns() - 2)
    app.session.ui.say(text)
    await in_thread(lambda: remember_welcome(config))
    if CODER in text:
        await in_thread(lambda: remember_coder(config))
    return True


def _unsaid(made: Parts, is_welcomed: bool, *, at_terminal: bool) -> tuple[str, ...]:
    """Return the notices of the parts, without what the first screen has said better."""
    if not at_terminal or not made.no_model:
        return made.notices
    others = tuple(each for each in made.notices if each != made.no_model)
    return (
        others if is_welcomed else (*others, f"{made.no_model} /welcome shows what was found here.")
    )

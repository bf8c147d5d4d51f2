"""Starting the console: in a terminal, or on lines where there is none."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from midstream.assembly import Options, Parts, configured, line_face, parts, unknown_tool
from midstream.config.manager import ConfigManager
from midstream.config.opening import require_trust
from midstream.config.trust import TrustStatus, TrustStore
from midstream.core.mode import Mode
from midstream.headless.codes import FAILED, FINISHED
from midstream.offloop import in_thread
from midstream.ports import Face
from midstream.process import (
    HANGUPS,
    STDIN,
    STDOUT,
    OutputLost,
    Signalled,
    is_terminal,
    load_without_collecting,
    run_until_signalled,
    settle_memory,
)

if TYPE_CHECKING:
    from midstream.ai_coder_console import AICoderConsole


def console(
    options: Options, *, mode: str | None, asks: Callable[[TrustStatus, TrustStore], bool]
) -> int:
    """Run the console in a terminal, or on lines where there is none; return the exit code.

    `asks` asks a person at the terminal whether to trust the workspace's own files.
    """
    load_without_collecting()
    can_draw = is_terminal(STDIN) and is_terminal(STDOUT) and os.environ.get("TERM") != "dumb"
    if can_draw and not options.is_json:
        config = configured(options, mode=mode, asks=asks)
        return run_until_signalled(_in_terminal(config, options), signals=HANGUPS)
    config = configured(options, mode=mode)
    require_trust(config)
    if mode is not None:
        # Nobody would see that the lines go to somebody else.
        config.check_mode(Mode.parse(mode))
    return run_until_signalled(_on_lines(config, options), signals=(signal.SIGINT, *HANGUPS))


async def _in_terminal(config: ConfigManager, options: Options) -> int:
    from midstream.console.interface import ConsoleInterface

    # A descriptor of its own: what others write to stdout meanwhile is told, not drawn over it.
    own = os.fdopen(os.dup(STDOUT), "w", encoding="utf-8")
    face = ConsoleInterface(
        history_folder=config.state_dir, colour=not os.environ.get("NO_COLOR"), stdout=own
    )
    async with _opened(config, options, face, is_paced=True) as app:
        await face.run(app)
    if face.signal is not None:
        raise Signalled(face.signal)
    return FINISHED


async def _on_lines(config: ConfigManager, options: Options) -> int:
    """Take lines until they end and every run has come to rest; say where each stands."""
    face = line_face(options, STDOUT)
    async with _opened(config, options, face) as app:
        await face.run(app)
        if face.lost is None and not app.is_leaving:
            await app.settled()
            for line in app.standing():
                face.say(line)
        has_failed = app.failed()
    if face.lost is not None:
        raise OutputLost(face.lost)
    return FAILED if has_failed else FINISHED


@contextlib.asynccontextmanager
async def _opened(
    config: ConfigManager, options: Options, face: Face, *, is_paced: bool = False
) -> "AsyncIterator[AICoderConsole]":
    """Give a console that loads its parts meanwhile; at the end it lets go of its runs."""
    from midstream.ai_coder_console import AICoderConsole
    from midstream.console.redirect import redirected

    app = AICoderConsole(config, face, allowed=options.allowed)
    loaded: list[Parts] = []
    try:
        with redirected(face):
            async with asyncio.TaskGroup() as group:
                loading = group.create_task(_equip(app, config, options, loaded, is_paced=is_paced))
                yield app
                loading.cancel()
    finally:
        await app.close()
        await face.close()
        for each in loaded:
            await each.client.aclose()
            if each.mcp is not None:
                await each.mcp.close()


async def _equip(
    app: "AICoderConsole",
    config: ConfigManager,
    options: Options,
    loaded: list[Parts],
    *,
    is_paced: bool,
) -> None:
    try:
        await _loaded(app, config, options, loaded, is_paced=is_paced)
    finally:
        settle_memory()


async def _loaded(
    app: "AICoderConsole",
    config: ConfigManager,
    options: Options,
    loaded: list[Parts],
    *,
    is_paced: bool,
) -> None:
    from midstream.desk.addressing import Equipment
    from midstream.engine.keeping import WorkspaceRuns

    made = await in_thread(lambda: parts(config, options, is_paced=is_paced))
    loaded.append(made)
    if made.mcp is not None:
        made.mcp.servers.told = app.tell
    unknown = unknown_tool(options.allowed, made.tools)
    await app.equip(
        Equipment(
            engine=made.engine,
            keeping=WorkspaceRuns(made.engine, made.library, is_lasting=made.is_lasting),
            library=made.library,
            models=made.models,
            tools=made.tools,
            permits=made.permissions,
            mcp=made.mcp,
        ),
        notices=(*made.notices, *([] if unknown is None else [str(unknown)])),
    )
    await in_thread(lambda: made.sandbox.unfit(options.workspace))
    app.look_again()
    if not made.is_offline:
        await made.client.warm_up()

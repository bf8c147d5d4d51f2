"""One server for the doors that speak HTTP: `midstream serve --web --mcp --openai --agui`."""

import asyncio
import os
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from midstream.app.assembly import Options, trusted
from midstream.cli.options import SETTINGS, opening, takes
from midstream.cli.output import FINISHED, note, say
from midstream.cli.web import HOSTED, access_of, moved, require_extra, where_of
from midstream.config.private_files import FileMissing, read_capped, shown_path, write_whole
from midstream.language.errors import UserMistake
from midstream.system.offloop import in_thread
from midstream.system.own_process import (
    HANGUPS,
    load_without_collecting,
    run_until_signalled,
    settle_memory,
)

if TYPE_CHECKING:
    from midstream.api.engine import Engine
    from midstream.server.access import Access
    from midstream.server.host import Door

KEY: Final = "serve.key"
"""The file of the state folder with the key of programs."""

_LEAST_KEY: Final = 20


@click.command("serve")
@click.option("--web", is_flag=True, help="The console in a browser, as midstream web.")
@click.option("--mcp", is_flag=True, help="Other agents start and steer runs, by MCP over HTTP.")
@click.option(
    "--openai", is_flag=True, help="OpenAI's chat completions and responses: models are your runs."
)
@click.option("--agui", is_flag=True, help="AG-UI, as CopilotKit and others speak it.")
@takes(*HOSTED, *SETTINGS)
def serve(
    options: Options,
    web: bool,
    mcp: bool,
    openai: bool,
    agui: bool,
    port: int | None,
    listen: str | None,
    password_file: Path | None,
    behind_proxy: str | None,
    user_header: str | None,
) -> int:
    """Serve the doors that are named to browsers and programs; on this machine alone, unless told.

    Programs send the key it names. Approvals are given in the browser or the console, never by a program.
    Ctrl-C ends it; its runs are kept, and go on when they are spoken to again.
    """
    if not (web or mcp or openai or agui):
        raise UserMistake(
            "Nothing is to be served.", hint="Name what is: --web, --mcp, --openai, --agui."
        )
    require_extra("midstream serve")
    config = trusted(options)
    note(*config.notices)
    host, port = where_of(listen, port)
    has_programs = mcp or openai or agui
    file = config.state_dir / KEY
    access = access_of(
        config,
        host,
        password_file,
        behind_proxy,
        user_header,
        api_key=_key(file) if has_programs else "",
        has_pages=web,
    )
    load_without_collecting()

    async def work() -> None:
        from midstream.server.host import served

        async with opening(options) as engine:
            note(*engine.notices)
            doors = await in_thread(
                lambda: _doors(engine, web=web, mcp=mcp, openai=openai, agui=agui)
            )
            opened = served([*doors.values()], access, host=host, port=port, failed=note)
            async with opened as address:
                settle_memory()
                note(*await moved(port, access))
                say(*_opened(doors, access, host, address, options.workspace))
                if has_programs:
                    say(f"Programs send: Authorization: Bearer KEY, with the key in {file}")
                say("Ctrl-C ends it.")
                await asyncio.Event().wait()

    run_until_signalled(work(), signals=(signal.SIGINT, *HANGUPS))
    return FINISHED


def _key(file: Path) -> str:
    """Return the key of programs, which is made once, and is for nobody else's eyes (0600).

    Raises:
        UserMistake: what the file holds is none.
        WorldTrouble: it cannot be read or written.
    """
    try:
        key = read_capped(file).decode("utf-8", "replace").strip()
    except FileMissing:
        key = secrets.token_urlsafe(32)
        write_whole(file, f"{key}\n".encode())
        return key
    if len(key) < _LEAST_KEY:
        raise UserMistake(
            f"The key in {shown_path(file)} is too short.",
            hint=f"Write {_LEAST_KEY} characters or more, or delete the file: another one is made.",
        )
    if os.name == "posix" and file.stat().st_mode & 0o077:
        raise UserMistake(
            f"Others can read the key in {shown_path(file)}.",
            hint=f"Delete it, and another one is made; or: chmod 600 {file}",
        )
    return key


def _doors(
    engine: "Engine", *, web: bool, mcp: bool, openai: bool, agui: bool
) -> "dict[str, Door]":
    """Return the doors that are wanted, by their names. Blocking: each is imported here alone."""
    from midstream.server.access import Caller
    from midstream.server.host import Door

    programs: frozenset[Caller] = frozenset({"program"})
    doors: dict[str, Door] = {}
    if web:
        from midstream.web.routes import Web

        pages = Web(engine)
        doors["web"] = Door(routes=pages.routes(), life=pages.life())
    if mcp:
        try:
            from midstream.mcp_server.http import mcp_routes
        except ImportError as error:
            raise UserMistake(
                f"--mcp needs a library that is not installed ({error.name}).",
                hint="Run: pip install 'midstream[mcp]'",
            ) from None

        async def itself() -> "Engine":
            return engine

        routes, life = mcp_routes(itself)
        doors["mcp"] = Door(routes=tuple(routes), callers=programs, life=life)
    if openai:
        from midstream.server.openai_chat import openai_routes

        doors["openai"] = Door(routes=tuple(openai_routes(engine)), callers=programs)
    if agui:
        from midstream.server.agui import agui_routes

        doors["agui"] = Door(routes=tuple(agui_routes(engine)), callers=programs)
    return doors


def _opened(
    doors: "dict[str, Door]", access: "Access", host: str, address: str, workspace: Path
) -> list[str]:
    """Return what is served, where, and to whom, in plain words."""
    from midstream.server.access import is_loopback

    lines = [f"midstream serves {workspace} to this machine alone:"]
    if not is_loopback(host):
        ways = {"the key": doors.keys() != {"web"}, "the password": "web" in doors}
        who = " or ".join(name for name, counts in ways.items() if counts)
        lines = [
            f"midstream serves {workspace} to every machine that can reach {host}. Who has {who} has",
            "your runs, and may do what they may do here. Nothing is encrypted: use it in a network you",
            "trust, or put a reverse proxy with TLS in front (--behind-proxy).",
        ]
    where = {
        "web": lambda: f"{access.invitation()}   (lets one browser in, once)",
        "mcp": lambda: f"{address}/mcp",
        "openai": lambda: f"{address}/v1   (models: role:NAME, workflow:NAME)",
        "agui": lambda: f"{address}/agui/role:NAME   (or workflow:NAME)",
    }
    return [*lines, *(f"  {name:<7} {where[name]()}" for name in doors)]

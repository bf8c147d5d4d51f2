"""One server for the doors that speak HTTP: `midstream web` and `serve`, and `/web` of the console."""

import asyncio
import contextlib
import os
import secrets
import signal
import sys
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
import msgspec

from midstream.app.assembly import Options, trusted
from midstream.cli.options import SETTINGS, opening, takes
from midstream.cli.output import FINISHED, note, say
from midstream.config.directories import user_state_dir
from midstream.config.manager import ConfigManager
from midstream.config.private_files import FileMissing, read_capped, shown_path, write_whole
from midstream.language.errors import UserMistake
from midstream.system.offloop import in_thread
from midstream.system.own_process import (
    HANGUPS,
    STDERR,
    STDIN,
    STDOUT,
    columns,
    is_terminal,
    load_without_collecting,
    run_until_signalled,
    settle_memory,
)

if TYPE_CHECKING:
    from midstream.api.engine import Engine
    from midstream.app.assembly import Parts
    from midstream.app.ui import UI
    from midstream.server.access import Access, Caller
    from midstream.server.host import Door

PASSWORD: Final = "MIDSTREAM_WEB_PASSWORD"
"""The environment variable with the password of `--listen`, where no file has it."""

SESSIONS: Final = "web-sessions.json"
"""The file of the state folder with the digests of sessions."""

KEY: Final = "serve.key"
"""The file of the state folder with the key of programs."""

_LEAST_PASSWORD: Final = 10
_LEAST_KEY: Final = 20

HOSTED: Final = (
    click.option("--port", type=click.IntRange(0, 65535), help="The port on this machine; 0: any."),
    click.option(
        "--listen",
        metavar="HOST:PORT",
        help="Let other machines in, too: wants a password (asked, or MIDSTREAM_WEB_PASSWORD).",
    ),
    click.option(
        "--password-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The file with the password, for --listen.",
    ),
    click.option(
        "--behind-proxy",
        metavar="URL",
        help="The address people open, of a reverse proxy on this machine that ends TLS.",
    ),
    click.option(
        "--user-header",
        metavar="NAME",
        help="The header in which that proxy says who has logged in, in place of a password.",
    ),
)
"""The options of commands that serve: where, and who may come in (`Hosted`)."""


class Hosted(msgspec.Struct, frozen=True, kw_only=True):
    """What `HOSTED` was given."""

    port: int | None = None
    listen: str | None = None
    password_file: Path | None = None
    behind_proxy: str | None = None
    user_header: str | None = None


@click.command("web")
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the browser; by default where there is a desktop.",
)
@takes(*HOSTED, *SETTINGS)
def web(options: Options, opens: bool | None, **hosted: Any) -> int:
    """Show runs in a browser, talk to them and decide there; on this machine alone, unless told.

    The address it prints lets one browser in, once. Enter prints another, Ctrl-C ends it; runs it began are
    kept, and go on where they are resumed.
    """
    require_extra()
    return _serve(options, Hosted(**hosted), ["web"], partial(_show_page, opens))


async def _show_page(opens: bool | None, access: "Access", host: str, address: str) -> None:
    """Say where the page is, and let a browser in for each Enter."""
    from midstream.server.access import is_loopback

    first = access.invitation()
    open_to_all = (
        f"The console is open to every machine that can reach {host}. Who has the password, or the "
        "address below, has your runs, and may do what they may do here. Nothing is encrypted: use it in "
        "a network you trust, or put a reverse proxy with TLS in front (--behind-proxy)."
    )
    here = "The console is in the browser, on this machine alone:"
    say(here if is_loopback(host) else open_to_all, first)
    if host != "127.0.0.1" and is_terminal(STDOUT):
        say(*code_of(first, width=columns()))
    has_desktop = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    is_at_desk = is_terminal(STDOUT) and bool(has_desktop or sys.platform == "darwin")
    if is_at_desk if opens is None else opens:
        await in_thread(partial(webbrowser.open, first))
    if is_terminal(STDIN) and is_terminal(STDOUT):
        say("Enter prints another address, for another browser. Ctrl-C ends.")
        with _inviting_on_enter(access):
            await asyncio.Event().wait()


@contextlib.contextmanager
def _inviting_on_enter(access: "Access") -> Iterator[None]:
    """Print another address for each Enter while the block runs, until stdin ends."""
    loop = asyncio.get_running_loop()

    def entered() -> None:
        # Here, where it is known that a read does not wait: the loop would stand still with it.
        if os.read(STDIN, 4096):
            say(access.invitation())
        else:
            loop.remove_reader(STDIN)

    loop.add_reader(STDIN, entered)
    try:
        yield
    finally:
        loop.remove_reader(STDIN)


@click.command("serve")
@click.option("--web", is_flag=True, help="The console in a browser, as midstream web.")
@click.option("--mcp", is_flag=True, help="Other agents start and steer runs, by MCP over HTTP.")
@click.option(
    "--openai", is_flag=True, help="OpenAI's chat completions and responses: models are your runs."
)
@click.option("--agui", is_flag=True, help="AG-UI, as CopilotKit and others speak it.")
@takes(*HOSTED, *SETTINGS)
def serve(options: Options, web: bool, mcp: bool, openai: bool, agui: bool, **hosted: Any) -> int:
    """Serve the doors that are named to browsers and programs; on this machine alone, unless told.

    Programs send the key it names. Approvals are given in the browser or the console, never by a program.
    Ctrl-C ends it; its runs are kept, and go on when they are spoken to again.
    """
    named = {"web": web, "mcp": mcp, "openai": openai, "agui": agui}
    wanted = [name for name, is_wanted in named.items() if is_wanted]
    if not wanted:
        raise UserMistake(
            "Nothing is to be served.", hint="Name what is: --web, --mcp, --openai, --agui."
        )
    require_extra("midstream serve")
    return _serve(options, Hosted(**hosted), wanted, partial(_show_doors, options, wanted))


async def _show_doors(
    options: Options, wanted: Sequence[str], access: "Access", host: str, address: str
) -> None:
    """Say what is served, where, and to whom, in plain words."""
    from midstream.server.access import is_loopback

    workspace = options.workspace
    lines = [f"midstream serves {workspace} to this machine alone:"]
    if not is_loopback(host):
        ways = {"the key": wanted != ["web"], "the password": "web" in wanted}
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
    say(*lines, *(f"  {name:<7} {where[name]()}" for name in wanted))
    if wanted != ["web"]:
        key = user_state_dir(os.environ) / KEY
        say(f"Programs send: Authorization: Bearer KEY, with the key in {key}")
    say("Ctrl-C ends it.")


# --- serving ------------------------------------------------------------------------------------

_Told: TypeAlias = "Callable[[Access, str, str], Awaitable[None]]"
"""Says what is served: who may come in, the host it listens at, its address."""


def _serve(options: Options, hosted: Hosted, wanted: Sequence[str], told: _Told) -> int:
    """Serve doors until a signal comes; return the exit code."""
    config = trusted(options)
    note(*config.notices)
    host, port = where_of(hosted)
    key = "" if wanted == ["web"] else _key(config.state_dir / KEY)
    access = access_of(config, hosted, api_key=key, has_pages="web" in wanted)
    load_without_collecting()

    async def work() -> None:
        from midstream.server.host import served

        async with opening(options) as engine:
            note(*engine.notices)
            doors = await in_thread(lambda: [_door(name, engine) for name in wanted])
            async with served(doors, access, host=host, port=port, failed=note) as address:
                settle_memory()
                note(*await moved(port, access))
                await told(access, host, address)
                await asyncio.Event().wait()

    run_until_signalled(work(), signals=(signal.SIGINT, *HANGUPS))
    return FINISHED


def _door(name: str, engine: "Engine") -> "Door":
    """Return a door by its name. Blocking: what it needs is imported for it alone."""
    from midstream.server.host import Door

    programs: frozenset[Caller] = frozenset({"program"})
    match name:
        case "web":
            from midstream.web.routes import Web

            pages = Web(engine)
            return Door(routes=pages.routes(), life=pages.life())
        case "mcp":
            try:
                from midstream.mcp_server.server import mcp_routes
            except ImportError as error:
                raise UserMistake(
                    f"--mcp needs a library that is not installed ({error.name}).",
                    hint="Run: pip install 'midstream[mcp]'",
                ) from None
            routes, life = mcp_routes(engine)
            return Door(routes=routes, callers=programs, life=life)
        case "openai":
            from midstream.server.openai_chat import openai_routes

            return Door(routes=openai_routes(engine), callers=programs)
        case _:
            from midstream.server.agui import agui_routes

            return Door(routes=agui_routes(engine), callers=programs)


def require_extra(what: str = "The console in a browser") -> None:
    """Return if what serves is installed; `what` needs it.

    Raises:
        UserMistake: it is not.
    """
    try:
        import segno  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserMistake(
            f"{what} needs a library that is not installed ({error.name}).",
            hint="Run: pip install 'midstream[web]'",
        ) from None


async def moved(port: int | None, access: "Access") -> tuple[str, ...]:
    """Return what is said where the usual port was taken; `port` is the one that was asked for."""
    from midstream.server.host import PORT, who_listens

    if port is not None or access.port == PORT:
        return ()
    who = await in_thread(partial(who_listens, "127.0.0.1", PORT))
    return (f"The port {PORT} is taken: {who} listens there. This one has {access.port}.",)


# --- in the console -----------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def in_console(
    config: ConfigManager, made: "Parts", ui: "UI"
) -> "AsyncIterator[Callable[[], str]]":
    """Serve the runs of a console that is open, on this machine; give what makes an address for a browser.

    Raises:
        UserMistake: what serves is not installed.
    """
    await in_thread(require_extra)
    from midstream.api.engine import Engine
    from midstream.server.host import served

    access = await in_thread(partial(access_of, config, Hosted()))
    here = Options(workspace=config.workspace)
    engine = Engine(config, made, here)  # never closed: its runs are the console's
    door = await in_thread(partial(_door, "web", engine))
    async with served([door], access, failed=partial(ui.say, kind="error")):
        yield access.invitation


def with_code(address: str, *, width: int) -> str:
    """Return the address of a console's runs, and its QR code where there is room for it."""
    said = "The console is in the browser, on this machine. This address lets one browser in:"
    others = "Another device, such as a phone, gets in by midstream web --listen HOST:PORT."
    return "\n".join((said, address, *code_of(address, width=width), others))


def code_of(address: str, *, width: int) -> tuple[str, ...]:
    """Return the QR code of an address in half blocks, nothing where they do not fit."""
    import segno

    drawn = StringIO()
    segno.make(address, error="l").terminal(drawn, border=2, compact=True)
    rows = tuple(drawn.getvalue().splitlines())
    return rows if len(rows[0]) <= width else ()


# --- where, and who may come in -----------------------------------------------------------------


def where_of(hosted: Hosted) -> tuple[str, int | None]:
    """Return the host and the port to listen at.

    Raises:
        UserMistake: `--listen` is no address, or both are given.
    """
    listen, port = hosted.listen, hosted.port
    if listen is None:
        return "127.0.0.1", port
    host, colon, text = listen.rpartition(":")
    host = host.strip("[]")
    if port is not None:
        raise UserMistake("--listen names the port, too.", hint=f"Leave --port {port} out.")
    if not (colon and host and text.isdigit() and int(text) < 65536):
        raise UserMistake(
            f"--listen {listen} is no address.", hint="Write HOST:PORT, such as 0.0.0.0:8377."
        )
    return host, int(text)


def access_of(
    config: ConfigManager, hosted: Hosted, *, api_key: str = "", has_pages: bool = True
) -> "Access":
    """Return who may come in: persons to its pages, if it has any, and programs with the key.

    No person beside this machine does without a password, or a proxy's word.

    Raises:
        UserMistake: it would be open to whoever can reach it.
    """
    from midstream.server.access import Access, Password, is_loopback

    host, _ = where_of(hosted)
    proxy = hosted.behind_proxy
    is_open = not is_loopback(host)
    if proxy is not None and not proxy.startswith(("https://", "http://")):
        raise UserMistake(
            f"--behind-proxy {proxy} is no address.",
            hint="Write https://NAME as people open it.",
        )
    if hosted.user_header and (is_open or proxy is None):
        raise UserMistake(
            "--user-header believes whoever sends it.",
            hint="Give it with --behind-proxy, and without --listen: then only this machine can.",
        )
    password = None
    is_reached = is_open or (proxy and not hosted.user_header)
    if hosted.password_file is not None or (has_pages and is_reached):
        password = Password(_password(hosted.password_file))
    return Access(
        host=host,
        public=proxy or "",
        password=password,
        user_header=hosted.user_header or "",
        api_key=api_key,
        kept=config.state_dir / SESSIONS,
    )


def _password(file: Path | None) -> str:
    if file is not None:
        try:
            text = read_capped(file).decode("utf-8").strip("\r\n")
        except UnicodeDecodeError:
            raise UserMistake(
                f"{shown_path(file)} is not UTF-8.", hint="Save it as UTF-8."
            ) from None
    else:
        text = os.environ.get(PASSWORD, "")
    if not text and file is None:
        if not (is_terminal(STDIN) and is_terminal(STDERR)):
            raise UserMistake(
                "Others could reach this: it wants a password.",
                hint=f"Give --password-file FILE, or set {PASSWORD}.",
            )
        text = click.prompt("Password for the browser", hide_input=True, err=True)
    if len(text) < _LEAST_PASSWORD:
        raise UserMistake(
            "The password is too short.", hint=f"Take {_LEAST_PASSWORD} characters or more."
        )
    return text


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

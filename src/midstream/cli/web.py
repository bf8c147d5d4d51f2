"""The console in a browser: `midstream web`, and what `/web` of the console starts."""

import asyncio
import contextlib
import os
import signal
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from midstream.app.assembly import Options, trusted
from midstream.cli.options import SETTINGS, opening, takes
from midstream.cli.output import FINISHED, note, say
from midstream.config.manager import ConfigManager
from midstream.config.private_files import read_capped, shown_path
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
    from midstream.server.access import Access

PASSWORD: Final = "MIDSTREAM_WEB_PASSWORD"
"""The environment variable with the password of `--listen`, where no file has it."""

SESSIONS: Final = "web-sessions.json"

_LEAST_PASSWORD: Final = 10


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
"""The options of commands that serve: where, and who may come in."""


@click.command("web")
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the browser; by default where there is a desktop.",
)
@takes(*HOSTED, *SETTINGS)
def web(
    options: Options,
    port: int | None,
    listen: str | None,
    password_file: Path | None,
    behind_proxy: str | None,
    user_header: str | None,
    opens: bool | None,
) -> int:
    """Show runs in a browser, talk to them and decide there; on this machine alone, unless told.

    The address it prints lets one browser in, once. Enter prints another, Ctrl-C ends it; runs it began are
    kept, and go on where they are resumed.
    """
    require_extra()
    config = trusted(options)
    note(*config.notices)
    host, port = where_of(listen, port)
    access = access_of(config, host, password_file, behind_proxy, user_header)
    load_without_collecting()
    work = _serve(options, access, host, port, opens=opens)
    run_until_signalled(work, signals=(signal.SIGINT, *HANGUPS))
    return FINISHED


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


def where_of(listen: str | None, port: int | None) -> tuple[str, int | None]:
    """Return the host and the port to listen at.

    Raises:
        UserMistake: `--listen` is no address, or both are given.
    """
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
    config: ConfigManager,
    host: str,
    password_file: Path | None,
    behind_proxy: str | None,
    user_header: str | None,
    *,
    api_key: str = "",
    has_pages: bool = True,
) -> "Access":
    """Return who may come in: persons to its pages, if it has any, and programs with the key.

    No person beside this machine does without a password, or a proxy's word.

    Raises:
        UserMistake: it would be open to whoever can reach it.
    """
    from midstream.server.access import Access, Password, is_loopback

    is_open = not is_loopback(host)
    if behind_proxy is not None and not behind_proxy.startswith(("https://", "http://")):
        raise UserMistake(
            f"--behind-proxy {behind_proxy} is no address.",
            hint="Write https://NAME as people open it.",
        )
    if user_header and (is_open or behind_proxy is None):
        raise UserMistake(
            "--user-header believes whoever sends it.",
            hint="Give it with --behind-proxy, and without --listen: then only this machine can.",
        )
    password = None
    is_reached = is_open or (behind_proxy and not user_header)
    if password_file is not None or (has_pages and is_reached):
        password = Password(_password(password_file))
    return Access(
        host=host,
        public=behind_proxy or "",
        password=password,
        user_header=user_header or "",
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


async def _serve(
    options: Options, access: "Access", host: str, port: int | None, *, opens: bool | None
) -> None:
    async with opening(options) as engine:
        note(*engine.notices)
        async with pages(engine, access, host=host, port=port) as address:
            settle_memory()
            first = access.invitation()
            note(*await moved(port, access))
            say(*_opened_to(access, host, address), first)
            if host != "127.0.0.1" and is_terminal(STDOUT):
                say(*code_of(first, width=columns()))
            is_at_desk = is_terminal(STDOUT) and bool(
                os.environ.get("DISPLAY")
                or os.environ.get("WAYLAND_DISPLAY")
                or sys.platform == "darwin"
            )
            if is_at_desk if opens is None else opens:
                await in_thread(partial(webbrowser.open, first))
            if is_terminal(STDIN) and is_terminal(STDOUT):
                say("Enter prints another address, for another browser. Ctrl-C ends.")
                with _inviting_on_enter(access):
                    await asyncio.Event().wait()
            await asyncio.Event().wait()


async def moved(port: int | None, access: "Access") -> tuple[str, ...]:
    """Return what is said where the usual port was taken; `port` is the one that was asked for."""
    from midstream.server.host import PORT, who_listens

    if port is not None or access.port == PORT:
        return ()
    who = await in_thread(partial(who_listens, "127.0.0.1", PORT))
    return (f"The port {PORT} is taken: {who} listens there. This one has {access.port}.",)


@contextlib.asynccontextmanager
async def pages(
    engine: "Engine",
    access: "Access",
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    failed: Callable[[str], None] = note,
) -> AsyncIterator[str]:
    """Serve the page over an engine while the block runs; give its address."""
    from midstream.server.host import Door, served
    from midstream.web.routes import Web

    web = Web(engine)
    door = Door(routes=web.routes(), life=web.life())
    async with served([door], access, host=host, port=port, failed=failed) as address:
        yield address


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

    access = await in_thread(partial(access_of, config, "127.0.0.1", None, None, None))
    engine = Engine(config, made)  # never closed: its runs are the console's
    failed = partial(ui.say, kind="error")
    async with pages(engine, access, failed=failed):
        yield access.invitation


def with_code(address: str, *, width: int) -> str:
    """Return the address of a console's runs, and its QR code where there is room for it."""
    said = "The console is in the browser, on this machine. This address lets one browser in:"
    others = "Another device, such as a phone, gets in by midstream web --listen HOST:PORT."
    return "\n".join((said, address, *code_of(address, width=width), others))


def code_of(address: str, *, width: int) -> tuple[str, ...]:
    """Return the QR code of an address in half blocks, nothing where they do not fit."""
    import segno

    rows = list(segno.make(address, error="l").matrix)
    quiet = 2
    wide = len(rows) + 2 * quiet
    if wide > width:
        return ()
    # Light is what is drawn: as on paper, where the terminal is dark.
    light = [[True] * wide for _ in range(wide + wide % 2)]
    for y, row in enumerate(rows):
        for x, dark in enumerate(row):
            light[y + quiet][x + quiet] = not dark
    halves = {(True, True): "█", (True, False): "▀", (False, True): "▄", (False, False): " "}
    return tuple(
        "".join(halves[upper, lower] for upper, lower in zip(*light[y : y + 2], strict=True))
        for y in range(0, len(light), 2)
    )


def _opened_to(access: "Access", host: str, address: str) -> tuple[str, ...]:
    """Return who can reach it, in plain words."""
    from midstream.server.access import is_loopback

    if is_loopback(host):
        return ("The console is in the browser, on this machine alone:",)
    return (
        f"The console is open to every machine that can reach {host}. Who has the password, or the "
        "address below, has your runs, and may do what they may do here. Nothing is encrypted: use it in "
        "a network you trust, or put a reverse proxy with TLS in front (--behind-proxy).",
    )


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

"""The one HTTP server: an application made of the doors that are wanted, and its life.

    async with served([web.door()], Access(), host="127.0.0.1", port=0) as address:
        ...                                     it serves until the block is left

It runs on the loop of the engine it serves. At the end the doors let go first, so that no stream stays
open, then what is under way gets a moment, and then it is gone.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from midstream.config.private_files import reason
from midstream.language.errors import REPORT_BUG, MidstreamError, UserMistake, WorldTrouble
from midstream.server.access import CALLER, Access, Caller
from midstream.system.offloop import in_thread
from midstream.system.own_process import own_redactor

PORT: Final = 8377
"""Where it listens if nobody says otherwise; the next free one where that is taken."""

_PORTS_TRIED: Final = 20
_CONNECTIONS: Final = 1_000
_GRACE_S: Final = 2
_ASKED_S: Final = 0.5
_MAX_HEAD: Final = 32 * 1024


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """Routes that are served together, and who may use them. `life` is entered while they are served."""

    routes: Sequence[BaseRoute]
    callers: frozenset[Caller] = frozenset({"person"})
    life: "contextlib.AbstractAsyncContextManager[Any] | None" = None


def application(
    doors: Sequence[Door], access: Access, *, failed: Callable[[str], None] = lambda words: None
) -> ASGIApp:
    """Return the doors as one application behind the access. `failed` hears of bugs, in words."""

    async def bug(request: Request, error: Exception) -> Response:
        words = own_redactor().redacted(f"{type(error).__name__}: {error}")
        failed(f"{request.method} {request.url.path} failed: {words}. {REPORT_BUG}")
        return JSONResponse({"error": words, "hint": REPORT_BUG}, 500)

    for door in doors:
        for route in door.routes:
            route.app = _for(door.callers, route.app)  # type: ignore[attr-defined]
    handlers: Any = {HTTPException: _refused, MidstreamError: _mistake, Exception: bug}
    made = Starlette(
        routes=[route for door in doors for route in door.routes], exception_handlers=handlers
    )
    return access.guarded(made)


def _for(callers: frozenset[Caller], app: ASGIApp) -> ASGIApp:
    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get(CALLER) not in callers:
            who = "programs with a key" if "program" in callers else "a person's browser"
            raise HTTPException(403, f"This is for {who}.")
        await app(scope, receive, send)

    return checked


async def _refused(request: Request, error: HTTPException) -> Response:
    hint = "The page has all there is." if error.status_code == 404 else ""
    headers = error.headers
    return JSONResponse({"error": error.detail, "hint": hint}, error.status_code, headers)


async def _mistake(request: Request, error: MidstreamError) -> Response:
    status = 503 if isinstance(error, WorldTrouble) else 400 if error.fault != "bug" else 500
    return JSONResponse({"error": error.what, "hint": error.hint}, status)


# --- its life -------------------------------------------------------------------------------------------


class _Server(uvicorn.Server):
    """One that leaves the process's signals to whoever has them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def served(
    doors: Sequence[Door],
    access: Access,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    failed: Callable[[str], None] = lambda words: None,
) -> AsyncIterator[str]:
    """Serve the doors while the block runs; give the address.

    Args:
        doors: what is served.
        access: who may come in; it hears on which port it is.
        host: where to listen.
        port: the port, 0 for any that is free; None for the usual one, or one of the next.
        failed: hears of bugs, in words.

    Raises:
        UserMistake: nothing can listen there.
    """
    listener = await in_thread(partial(_bound, host, port))
    access.listening(listener.getsockname()[1])
    config = uvicorn.Config(
        application(doors, access, failed=failed),
        lifespan="off",
        ws="none",
        http="h11",
        log_config=None,  # an address may hold a token: nothing is logged
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=_MAX_HEAD,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = _Server(config)
    async with contextlib.AsyncExitStack() as lives:
        for door in doors:
            if door.life is not None:
                await lives.enter_async_context(door.life)
        serving = asyncio.create_task(server.serve([listener]), name="midstream-server")
        try:
            yield access.address
        finally:
            server.should_exit = True
            try:
                await lives.aclose()
            finally:
                await serving


def _bound(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens. Blocking.

    Raises:
        UserMistake: there can be none.
    """
    ports = range(PORT, PORT + _PORTS_TRIED) if port is None else (port,)
    trouble = OSError()
    for each in ports:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, each, type=socket.SOCK_STREAM)[0]
            made = socket.create_server(address[:2], family=family, backlog=256)
        except OSError as error:
            trouble = error
        else:
            made.setblocking(False)
            return made
    why = trouble.strerror if isinstance(trouble, socket.gaierror) else reason(trouble)
    where = f"{host}:{ports[0]}"
    if trouble.errno == errno.EADDRINUSE:
        why = f"{who_listens(host, ports[0])} does already"
    raise UserMistake(
        f"Nothing can listen at {where}: {why}.",
        hint="Choose another address or port; port 0 is any that is free.",
    )


def who_listens(host: str, port: int) -> str:
    """Return who has a port, in words, by what is answered there. Blocking, for a second at most."""
    ask = f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
    try:
        with socket.create_connection((host, port), timeout=_ASKED_S) as there:
            there.sendall(ask)
            answer = b""
            while len(answer) < _MAX_HEAD and (more := there.recv(_MAX_HEAD)):
                answer += more
    except OSError:
        return "another program"
    return "another midstream" if b"midstream" in answer else "another program"

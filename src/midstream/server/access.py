"""Who may come in: judged of every request before any door sees it.

Whoever can reach the port can ask, and on the own machine every page of every browser can. So a request has
to get through all of this:

    Host     names this server, or it is another name that was made to lead here (DNS rebinding)
    Origin   is this server's own wherever something is changed, or another page wrote the request (CSRF)
    caller   a person, by the cookie of a session; or a program, by the key, at the doors of programs

A session begins with an invitation, a token in an address that works once; with the password; or with each
request, where a proxy in front says in a header who has logged in. Approvals are for persons: no door of
programs leads to them. Invitations end with the process. Of a session the digest is kept in a file, so that
a page comes back after a crash. What is compared takes the same time whether it fits or not.
"""

import asyncio
import contextlib
import hashlib
import hmac
import html
import ipaddress
import secrets
import socket
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import parse_qs

import msgspec
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midstream.config.private_files import read_capped, write_whole
from midstream.language.errors import MidstreamError, WorldTrouble
from midstream.system.offloop import in_thread

Caller: TypeAlias = Literal["person", "program"]

CALLER: Final = "midstream.caller"
"""Where a request's scope says who asks, for the doors."""

HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""What every answer says to a browser: nothing from elsewhere, no frame around it, nothing kept."""

MAX_BODY: Final[dict[Caller, int]] = {"person": 1_000_000, "program": 20_000_000}
"""Bytes of a request. Those of programs hold whole conversations, with pictures."""

BODY_S: Final = 20.0
"""Seconds in which a request has to be there whole."""

_KNOWN_BY: Final = (
    "Programs send Authorization: Bearer KEY, with the key midstream serve names; a browser is let in by "
    "the address midstream web prints."
)
_SESSION_S: Final = 7 * 24 * 3600
_MAX_SESSIONS: Final = 200
_MAX_INVITATIONS: Final = 50
_MAX_LOGIN: Final = 4_000
_FREE_TRIES: Final = 5
_LONGEST_WAIT_S: Final = 300.0
_MAX_PEERS: Final = 1_000


class Tries:
    """How often an address may be wrong: a few times, and then after ever longer waits."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failed: dict[str, tuple[int, float]] = {}

    def wait_s(self, peer: str) -> float:
        """Return for how many seconds no try from there counts, 0 where one may be made."""
        count, at = self._failed.get(peer, (0, 0.0))
        if count < _FREE_TRIES:
            return 0.0
        wait: float = min(_LONGEST_WAIT_S, 2.0 ** min(count - _FREE_TRIES + 1, 16))
        return max(0.0, at + wait - self._now())

    def fail(self, peer: str) -> None:
        """Count one that was wrong."""
        count, _ = self._failed.pop(peer, (0, 0.0))
        self._failed[peer] = count + 1, self._now()
        if len(self._failed) > _MAX_PEERS:
            del self._failed[next(iter(self._failed))]

    def forget(self, peer: str) -> None:
        """Forget those of an address that was right."""
        self._failed.pop(peer, None)


class Password:
    """A password as it is kept: what scrypt makes of it."""

    def __init__(self, text: str) -> None:
        self._salt = secrets.token_bytes(16)
        self._hash = self._hashed(text)
        self.key = hashlib.sha256(b"sessions of " + text.encode("utf-8", "surrogatepass")).digest()
        """What sessions are told apart by: those of another password are none."""

    def _hashed(self, text: str) -> bytes:
        # A digest first: within scrypt a text and the same with a NUL behind it are one key.
        data = _digest(text)
        return hashlib.scrypt(data, salt=self._salt, n=2**14, r=8, p=1)

    async def fits(self, text: str) -> bool:
        """Return whether it is this one."""
        return hmac.compare_digest(await in_thread(partial(self._hashed, text)), self._hash)


class Access:
    """The door before the doors.

    Args:
        host: where it listens, an address or a name; its port comes with `listening`.
        public: the address people open, such as `https://mid.example.org`, where a proxy is in front.
        password: lets a person in who has no invitation.
        user_header: the header in which the proxy says who has logged in; it lets a person in. To be
            given only where nobody but the proxy can reach the server.
        api_key: lets programs in; "" for none.
        kept: the file of the digests of sessions; None: they end with the process.
        now: the time, in seconds since 1970.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        public: str = "",
        password: Password | None = None,
        user_header: str = "",
        api_key: str = "",
        kept: Path | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._host = host
        self._reached_as = _reached_as(host)
        self.port = 0
        """The port people's browsers know this process by, once it listens."""
        self._public = public.rstrip("/")
        self._password = password
        self._user_header = user_header
        self._api_key = _digest(api_key) if api_key else b""
        self._now = now
        self._tries = Tries(now)
        self._trying = asyncio.Lock()
        self._invited: dict[bytes, None] = {}
        self._key = b"" if password is None else password.key
        self._kept = kept
        self._sessions = _sessions_in(kept)

    # --- for whoever serves -------------------------------------------------------------------

    def listening(self, port: int) -> None:
        """Know the port once it is bound."""
        self.port = port

    @property
    def address(self) -> str:
        """Return what a person opens, without an invitation."""
        if self._public:
            return self._public
        host = self._reached_as
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def invitation(self) -> str:
        """Return the address with a new token, which lets one browser in, once."""
        token = secrets.token_urlsafe(24)
        self._invited[_digest(token)] = None
        if len(self._invited) > _MAX_INVITATIONS:
            del self._invited[next(iter(self._invited))]
        # Under a name such as `token` it would be taken for a secret where it is printed, and left out.
        return f"{self.address}/?invite={token}"

    # --- for every request ----------------------------------------------------------------------

    def guarded(self, app: ASGIApp) -> ASGIApp:
        """Return the application behind this."""

        async def guard(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                await self._judge(app, scope, receive, _secured(send))
            elif scope["type"] == "lifespan":
                await app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})

        return guard

    async def _judge(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        is_change = scope["method"] not in ("GET", "HEAD")
        refused = self._foreign(headers, is_change=is_change, is_page=scope["path"] == "/")
        if refused is not None:
            await _worded(refused, scope)(scope, receive, send)
            return
        if scope["path"] == "/" and scope["method"] == "GET":
            query = parse_qs(scope["query_string"].decode("latin-1"))
            if token := query.get("invite", [""])[0]:
                answer = await self._invited_in(token)
                await answer(scope, receive, send)
                return
        if scope["path"] == "/login" and scope["method"] == "POST":
            answer = await self._logged_in(scope, receive)
            await answer(scope, receive, send)
            return
        caller = self._caller(headers, _peer(scope))
        if isinstance(caller, Response):
            is_browser = "text/html" in _one(headers, "accept")
            if caller.status_code == 401 and not is_browser and not _one(headers, "authorization"):
                caller = _refusal(401, "Nobody is known to ask this.", _KNOWN_BY)
            await _worded(caller, scope)(scope, receive, send)
            return
        scope[CALLER] = caller
        await app(scope, _bounded(receive, MAX_BODY[caller]), send)

    def _foreign(self, headers: Headers, *, is_change: bool, is_page: bool) -> Response | None:
        """Return the refusal of a request that another name or another page has brought here."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            return _refusal(
                421,
                "This is not the name of this server.",
                f"Open {self.address} as it was printed.",
            )
        own = self._public or f"http://{hosts[0]}"
        origin, site = _one(headers, "origin"), _one(headers, "sec-fetch-site")
        is_ours = (not origin or origin == own) and (is_page or site in ("", "none", "same-origin"))
        # A browser always says where a change comes from; whoever has a key is no browser.
        is_program = _one(headers, "authorization").lower().startswith("bearer ")
        is_told = origin == own or site == "same-origin" or is_program
        if is_ours and (not is_change or is_told):
            return None
        return _refusal(403, "Another page sent this.", f"Use the page at {own} itself.")

    def _is_own(self, host: str) -> bool:
        if self._public:
            return host == self._public.partition("://")[2]
        name, _, port = host.rpartition(":")
        if port != str(self.port) and not (self.port == 80 and host == self._host):
            return False
        if name in ("localhost", "127.0.0.1", "[::1]", self._host, f"[{self._host}]"):
            return True
        if is_loopback(self._host):
            return False
        # Nobody else can make an address lead here, nor, in one's own network, the machine's name.
        own = socket.gethostname().lower()
        return _is_address(name.strip("[]")) or name.lower() in (own, f"{own}.local")

    def _caller(self, headers: Headers, peer: str) -> Caller | Response:
        """Return whose request it is, or what is answered to nobody's."""
        scheme, _, key = _one(headers, "authorization").partition(" ")
        if scheme.lower() == "bearer":
            if self._tries.wait_s(peer):
                return _refusal(429, "Too many wrong keys.", "Wait, and use the right one.")
            if self._api_key and hmac.compare_digest(_digest(key.strip()), self._api_key):
                self._tries.forget(peer)
                return "program"
            self._tries.fail(peer)
            return _refusal(401, "This is not the key.", "midstream serve says where it is set.")
        if self._user_header:
            names = headers.getlist(self._user_header)
            if len(names) == 1 and names[0].strip():  # some proxies name nobody with an empty one
                return "person"
        digest = self._digest_of(_cookie(headers.getlist("cookie"), self._cookie_name))
        if self._sessions.get(digest, 0.0) > self._now():
            return "person"
        return self._unknown()

    def _unknown(self, status: int = 401, wrong: str = "") -> Response:
        """Return the page for somebody who is not known."""
        if self._password is None:
            return _page(
                status,
                f"{wrong or 'This browser is not let in.'} An address with a token lets one in, once: "
                "midstream web prints it, and Enter there, or /web in the console, makes another.",
            )
        form = (
            '<form method="post" action="/login"><label>Password '
            '<input type="password" name="password" autocomplete="current-password" autofocus required>'
            "</label> <button>Log in</button></form>"
        )
        return _page(status, wrong or "Who is there?", form)

    async def _invited_in(self, token: str) -> Response:
        digest = _digest(token)
        if digest not in self._invited:
            return self._unknown(403, "This address has been used, or is of an earlier start.")
        del self._invited[digest]
        return await self._entered()

    async def _logged_in(self, scope: Scope, receive: Receive) -> Response:
        """Return what is answered to a password. One is looked at after the other."""
        peer = _peer(scope)
        if self._password is None:
            return self._unknown(404)
        async with self._trying:
            if wait := self._tries.wait_s(peer):
                found = self._unknown(429, f"Too many wrong passwords. Wait {wait:.0f} s.")
                found.headers["retry-after"] = f"{wait:.0f}"
                return found
            try:
                data = await Request(scope, _bounded(receive, _MAX_LOGIN)).body()
            except HTTPException as error:
                return _refusal(error.status_code, error.detail, "Send the form of this page.")
            given = parse_qs(data.decode("utf-8", "replace")).get("password", [""])[0]
            if not await self._password.fits(given):
                self._tries.fail(peer)
                return self._unknown(403, "This is not the password.")
        self._tries.forget(peer)
        return await self._entered()

    async def _entered(self) -> Response:
        """Return the page that hands over a session.

        It leads on by itself: a redirect would still count as coming from elsewhere, and a strict cookie
        stay behind.
        """
        session = secrets.token_urlsafe(32)
        self._sessions[self._digest_of(session)] = self._now() + _SESSION_S
        if len(self._sessions) > _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        if self._kept is not None:
            with contextlib.suppress(OSError, WorldTrouble):  # then it lives as long as the process
                await in_thread(partial(_keep, self._kept, dict(self._sessions), self._now()))
        found = _page(200, "Welcome.", '<p><a href="/">Go on</a></p>', refresh=True)
        found.set_cookie(
            self._cookie_name,
            session,
            max_age=_SESSION_S,
            httponly=True,
            samesite="strict",
            secure=self._public.startswith("https:"),
        )
        return found

    def _digest_of(self, session: str) -> bytes:
        return hmac.digest(self._key, session.encode("utf-8", "surrogatepass"), "sha256")

    @property
    def _cookie_name(self) -> str:
        # Browsers keep cookies by host alone: two servers of one machine would take each other's.
        return f"midstream-{self.port}"


def _sessions_in(kept: Path | None) -> dict[bytes, float]:
    """Return the sessions of a file, none where it cannot be read. Blocks for a moment."""
    if kept is None:
        return {}
    try:
        found = msgspec.json.decode(read_capped(kept), type=dict[str, float])
        return {bytes.fromhex(digest): until for digest, until in found.items()}
    except (MidstreamError, OSError, ValueError, msgspec.MsgspecError):
        return {}


def _keep(file: Path, sessions: dict[bytes, float], now: float) -> None:
    """Write sessions to a file, beside those that other servers keep there. Blocks for a moment."""
    every = _sessions_in(file) | sessions
    lasting = sorted((until, digest.hex()) for digest, until in every.items() if until > now)
    kept = {digest: until for until, digest in lasting[-_MAX_SESSIONS:]}
    write_whole(file, msgspec.json.encode(kept))


# --- the parts of a request ---------------------------------------------------------------------------


def _one(headers: Headers, name: str) -> str:
    """Return a header, "" where there is none; several are none of those that are looked for."""
    return ", ".join(headers.getlist(name))


def _cookie(headers: Iterable[str], name: str) -> str:
    for header in headers:
        for part in header.split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                return value
    return ""


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _reached_as(host: str) -> str:
    """Return what others call a host to listen at; of one that means all addresses the one they see."""
    # All addresses are opened only where a person asks for them.
    if host not in ("0.0.0.0", "::"):  # nosec B104
        return host
    # Nothing is sent: the system only says from where it would be.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ahead:
        try:
            ahead.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(ahead.getsockname()[0])


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach what listens there."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _bounded(receive: Receive, most: int) -> Receive:
    """Return what gives a request's body, as long as it is neither too long nor too slow."""
    began, size, is_whole = time.monotonic(), 0, False

    async def bounded() -> Message:
        nonlocal size, is_whole
        if is_whole:
            return await receive()
        try:
            async with asyncio.timeout(max(0.0, began + BODY_S - time.monotonic())):
                message = await receive()
        except TimeoutError:
            raise HTTPException(
                408, f"The request was not there whole within {BODY_S:.0f} s."
            ) from None
        size += len(message.get("body", b""))
        is_whole = not message.get("more_body")
        if size > most:
            raise HTTPException(413, f"The request is longer than {most:,} bytes.")
        return message

    return bounded


# --- answers ------------------------------------------------------------------------------------------


def _secured(send: Send) -> Send:
    """Return what sends answers with the headers that keep a browser to them."""
    more = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [pair for pair in message.get("headers", ()) if pair[0].decode() not in HEADERS]
            message = {**message, "headers": [*kept, *more]}
        await send(message)

    return secured


class _Refusal(JSONResponse):
    def __init__(self, status: int, error: str, hint: str) -> None:
        super().__init__({"error": error, "hint": hint}, status)
        self.words = f"{error} {hint}"


def _refusal(status: int, error: str, hint: str) -> Response:
    return _Refusal(status, error, hint)


def _worded(answer: Response, scope: Scope) -> Response:
    """Return a refusal in the form that is read where it is sent: below `/v1` it is OpenAI's."""
    if not isinstance(answer, _Refusal) or not scope["path"].startswith("/v1/"):
        return answer
    error = {"message": answer.words, "type": "authentication_error", "param": None, "code": None}
    return JSONResponse({"error": error}, answer.status_code)


def _page(status: int, words: str, more: str = "", *, refresh: bool = False) -> Response:
    head = '<meta http-equiv="refresh" content="0;url=/">' if refresh else ""
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"{head}<title>midstream</title><h1>midstream</h1><p>{html.escape(words)}</p>{more}</html>",
        status,
    )

"""Whoever can reach the server's port: pages of other sites, other names, programs, guesses.

A journal of a person stands behind it; nothing of it is told and nothing of it is done.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from browser_kit import Page, let_in, serving
from deadline import DEADLINE_S
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from tables import table

import midstream
from midstream.server import access as rules
from midstream.server.access import HEADERS, Access, Password, Tries
from midstream.testing import ScriptedModel

SECRET = "c4nary"


class Clock:
    """A time that moves when a test says so."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def __call__(self) -> float:
        return self.time


@asynccontextmanager
async def site(
    folder: Path, access: Access | None = None
) -> AsyncIterator[tuple[str, Access, str]]:
    """Give a server over a journal with one chat: its address, who may come in, and the chat's id."""
    async with asyncio.timeout(DEADLINE_S):
        opening = midstream.open(folder, model=ScriptedModel(SECRET, SECRET), journal=":memory:")
        async with opening as engine:
            chat = await engine.start("role:dude", f"keep {SECRET}")
            await chat.settled()
            async with serving(engine, access) as (address, made):
                yield address, made, chat.id
            assert len(chat.run.contexts["chat"]) == 2, "somebody's words came in"
            assert not chat.run.name


def as_other(page: Page, **headers: str) -> httpx.AsyncClient:
    """Return a client with the page's cookie, as another page of the same browser would have it."""
    return httpx.AsyncClient(
        base_url=page.address, cookies=page.client.cookies, headers=headers, timeout=None
    )


HOSTS = {
    "another name": "evil.example:{port}",
    "our name within another": "127.0.0.1.evil.example:{port}",
    "our name before another": "localhost.evil.example:{port}",
    "a user of another name": "127.0.0.1:{port}@evil.example",
    "another port": "127.0.0.1:1",
    "no port": "127.0.0.1",
    "another address": "10.0.0.1:{port}",
    "a name with a dot": "localhost.:{port}",
    "empty": "",
    "decimal": "2130706433:{port}",
    "a path": "127.0.0.1:{port}/x",
}


@table("host", HOSTS.values(), ids=HOSTS)
async def test_a_name_that_was_made_to_lead_here_is_told_nothing(tmp_path: Path, host: str) -> None:
    async with site(tmp_path) as (address, access, run), let_in(address, access) as page:
        port = address.rpartition(":")[2]
        for path in (f"/api/runs/{run}", "/", f"{access.invitation().removeprefix(address)}"):
            found = await page.client.get(path, headers={"host": host.format(port=port)})
            assert found.status_code in (400, 421)
            assert SECRET not in found.text
            assert "set-cookie" not in found.headers


async def test_in_a_network_it_is_called_by_its_address_or_its_own_name(tmp_path: Path) -> None:
    access = Access(host="0.0.0.0", password=Password("correct horse"))
    own = socket.gethostname()
    async with site(tmp_path, access), httpx.AsyncClient(trust_env=False, timeout=None) as other:
        codes = []
        for name in ("192.168.1.7", own, f"{own}.local", "evil.example", f"{own}.evil.example"):
            headers = {"host": f"{name}:{access.port}"}
            url = f"http://127.0.0.1:{access.port}/api/runs"
            codes.append((await other.get(url, headers=headers)).status_code)
        assert codes == [401, 401, 401, 421, 421]


FOREIGN: dict[str, dict[str, str]] = {
    "another site": {"origin": "https://evil.example"},
    "another port of this machine": {"origin": "http://127.0.0.1:1", "sec-fetch-site": "same-site"},
    "another name of this machine": {"origin": "http://localhost:1"},
    "a page without an origin": {"origin": "null"},
    "our name within another": {"origin": "{own}.evil.example"},
    "our name by https": {"origin": "https://{host}"},
    "nobody who says it": {},
    "a form of another site": {"sec-fetch-site": "cross-site"},
    "a sister site": {"sec-fetch-site": "same-site", "origin": "{own}"},
    "somebody with a password for a proxy": {"authorization": "Basic eDp5"},
    "somebody with a key that is none": {
        "authorization": "Bearer x",
        "origin": "https://evil.example",
    },
}
CHANGES: dict[str, dict[str, Any]] = {
    "say": {"text": "rm -rf", "id": "a1"},
    "answer": {"question": "x", "value": "y", "id": "a2"},
    "approve": {"question": "x", "granted": True, "digest": "0"},
    "stop": {},
    "rename": {"name": "mine"},
    "fork": {},
}


@table("change", CHANGES)
@table("headers", FOREIGN.values(), ids=FOREIGN)
async def test_another_page_of_the_same_browser_changes_nothing(
    tmp_path: Path, headers: Mapping[str, str], change: str
) -> None:
    async with site(tmp_path) as (address, access, run), let_in(address, access) as page:
        host = address.removeprefix("http://")
        sent = {name: value.format(own=address, host=host) for name, value in headers.items()}
        async with as_other(page, **sent) as other:
            found = await other.post(f"/api/runs/{run}/{change}", json=CHANGES[change])
            assert found.status_code in (401, 403)


READERS: dict[str, dict[str, str]] = {
    "another site's script": {"sec-fetch-site": "cross-site"},
    "a sister site's picture": {"sec-fetch-site": "same-site"},
    "another site's origin": {"origin": "https://evil.example"},
}


@table("headers", READERS.values(), ids=READERS)
async def test_another_page_of_the_same_browser_reads_nothing(
    tmp_path: Path, headers: Mapping[str, str]
) -> None:
    async with (
        site(tmp_path) as (address, access, run),
        let_in(address, access) as page,
        as_other(page, **headers) as other,
    ):
        for path in (f"/api/runs/{run}", f"/api/runs/{run}/events", "/api/runs"):
            found = await other.get(path)
            assert found.status_code == 403
            assert SECRET not in found.text


STRANGERS: dict[str, dict[str, str]] = {
    "nothing": {},
    "a made-up session": {"cookie": "midstream-{port}=abc"},
    "an empty session": {"cookie": "midstream-{port}="},
    "the session of another port": {"cookie": "midstream-1=abc"},
    "two sessions": {"cookie": "midstream-{port}=a; midstream-{port}=b"},
    "a key where there is none": {"authorization": "Bearer abc"},
    "an empty key": {"authorization": "Bearer"},
    "a name of a proxy that is none": {"x-forwarded-user": "ada"},
    "the address of a proxy": {"x-forwarded-for": "127.0.0.1", "forwarded": "for=127.0.0.1"},
}


@table("headers", STRANGERS.values(), ids=STRANGERS)
async def test_a_stranger_is_told_nothing(tmp_path: Path, headers: Mapping[str, str]) -> None:
    async with site(tmp_path) as (address, _, run):
        port = address.rpartition(":")[2]
        sent = {name: value.format(port=port) for name, value in headers.items()}
        async with httpx.AsyncClient(base_url=address, headers=sent, timeout=None) as stranger:
            for path in ("/", "/static/app.js", "/api/runs", f"/api/runs/{run}/events", "/nowhere"):
                found = await stranger.get(path)
                assert found.status_code in (401, 429)
                assert SECRET not in found.text
            origin = {"origin": address}
            said = await stranger.post(f"/api/runs/{run}/say", json=CHANGES["say"], headers=origin)
            assert said.status_code in (401, 403, 429)


TOKENS = ("", "a", "a" * 10_000, "%00", "../", "'--", "\u202e")


@table("token", TOKENS)
async def test_a_guessed_token_lets_nobody_in(tmp_path: Path, token: str) -> None:
    async with site(tmp_path) as (address, access, _):
        access.invitation()
        async with httpx.AsyncClient(base_url=address, timeout=None) as stranger:
            found = await stranger.get("/", params={"token": token})
            assert found.status_code in (401, 403)
            assert "set-cookie" not in found.headers


async def test_a_token_lets_one_browser_in_and_no_second(tmp_path: Path) -> None:
    async with site(tmp_path) as (address, access, _):
        invitation = access.invitation()
        async with httpx.AsyncClient(base_url=address, timeout=None) as person:
            assert (
                await person.head(invitation)
            ).status_code == 401  # a preview takes it from nobody
            entered = await person.get(invitation)
            cookie = entered.headers["set-cookie"].lower()
            assert "httponly" in cookie
            assert "samesite=strict" in cookie
            assert (await person.get("/api/runs")).status_code == 200
            assert (await person.get("/api/runs")).status_code == 200
        async with httpx.AsyncClient(base_url=address, timeout=None) as second:
            assert (await second.get(invitation)).status_code == 403
            assert (await second.get("/api/runs")).status_code == 401


async def test_a_session_outlives_the_server_and_ends_by_itself(tmp_path: Path) -> None:
    clock, kept = Clock(), tmp_path / "sessions.json"
    work = tmp_path / "work"
    work.mkdir()
    async with (
        site(work, Access(kept=kept, now=clock)) as (address, access, _),
        let_in(address, access) as page,
    ):
        session = next(iter(page.client.cookies.values()))
    assert session not in kept.read_text()  # what is kept lets nobody in
    assert kept.stat().st_mode & 0o077 == 0
    async with site(work, Access(kept=kept, now=clock)) as (address, access, _):
        port = address.rpartition(":")[2]
        cookie = {"cookie": f"midstream-{port}={session}"}
        async with httpx.AsyncClient(base_url=address, headers=cookie, timeout=None) as person:
            assert (await person.get("/api/runs")).status_code == 200
            clock.time += 8 * 24 * 3600
            assert (await person.get("/api/runs")).status_code == 401


async def test_a_new_password_ends_the_sessions_of_the_one_before(tmp_path: Path) -> None:
    kept = tmp_path / "sessions.json"
    session = ""
    for password, status in (("old", 200), ("old", 404), ("new", 401)):
        access = Access(kept=kept, password=Password(password))
        access.listening(8377)
        transport = httpx.ASGITransport(access.guarded(Response("", 404)))
        cookies = {"midstream-8377": session} if session else {}
        async with httpx.AsyncClient(transport=transport, cookies=cookies, timeout=None) as page:
            where = "http://127.0.0.1:8377/api" if session else access.invitation()
            found = await page.get(where)
            assert found.status_code == status
            session = session or found.cookies["midstream-8377"]


async def test_servers_side_by_side_keep_each_others_sessions(tmp_path: Path) -> None:
    kept = tmp_path / "sessions.json"
    first, second = (Access(kept=kept) for _ in range(2))
    for each in (first, second):
        each.listening(8377)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(each.guarded(_nothing)), timeout=None
        ) as page:
            assert (await page.get(each.invitation())).status_code == 200
    assert len(json.loads(kept.read_text())) == 2


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("an invitation is answered before any door")


async def test_every_answer_keeps_a_browser_to_this_page(tmp_path: Path) -> None:
    async with site(tmp_path) as (address, access, run), let_in(address, access) as page:
        answers = [
            await page.client.get("/api/runs"),
            await page.client.get("/nowhere"),
            await page.client.get("/", params={"token": "x"}),
            await page.client.get("/", headers={"host": "evil.example"}),
            await page.post(f"/api/runs/{run}/say", wrong=1),
        ]
        for found in answers:
            assert HEADERS.items() <= dict(found.headers).items()
            assert "server" not in found.headers
            assert "access-control-allow-origin" not in found.headers


# --- passwords and keys -------------------------------------------------------------------------------


async def test_passwords_are_guessed_a_few_times_and_then_slower_and_slower(tmp_path: Path) -> None:
    clock = Clock()
    access = Access(password=Password("correct horse"), now=clock)
    async with site(tmp_path, access) as (address, _, _):
        origin = {"origin": address}
        async with httpx.AsyncClient(base_url=address, headers=origin, timeout=None) as other:

            async def given(password: str) -> int:
                found = await other.post("/login", data={"password": password})
                return found.status_code

            assert [await given(f"guess {n}") for n in range(5)] == [403] * 5
            # The right one counts no more now, or the wait would say which it is.
            assert await given("correct horse") == 429
            clock.time += 2.1
            assert await given("guess") == 403
            clock.time += 2.1
            assert await given("correct horse") == 429
            clock.time += 2.1
            assert await given("correct horse") == 200
            assert (await other.get("/api/runs")).status_code == 200


GUESSES = (
    "",
    "correct hors",
    "correct horse ",
    "CORRECT HORSE",
    "correct horse\0",
    "x" * 1_000,
    "\ud83d",
)


@table("guess", GUESSES)
async def test_what_is_not_the_password_lets_nobody_in(tmp_path: Path, guess: str) -> None:
    access = Access(password=Password("correct horse"))
    async with site(tmp_path, access) as (address, _, _):
        body = "password=" + "".join(
            f"%{byte:02x}" for byte in guess.encode("utf-8", "surrogatepass")
        )
        headers = {"origin": address, "content-type": "application/x-www-form-urlencoded"}
        async with httpx.AsyncClient(base_url=address, timeout=None) as other:
            found = await other.post("/login", content=body, headers=headers)
            assert found.status_code == 403
            assert "set-cookie" not in found.headers


async def test_another_page_logs_nobody_in(tmp_path: Path) -> None:
    access = Access(password=Password("correct horse"))
    async with (
        site(tmp_path, access) as (address, _, _),
        httpx.AsyncClient(base_url=address, timeout=None) as other,
    ):
        sent = {"password": "correct horse"}
        for headers in ({"origin": "https://evil.example"}, {}):
            assert (await other.post("/login", data=sent, headers=headers)).status_code == 403


async def test_a_key_of_a_program_is_no_person(tmp_path: Path) -> None:
    async with site(tmp_path, Access(api_key="k" * 32)) as (address, _, run):
        key = {"authorization": f"Bearer {'k' * 32}"}
        async with httpx.AsyncClient(base_url=address, headers=key, timeout=None) as program:
            for path, change in CHANGES.items():
                found = await program.post(f"/api/runs/{run}/{path}", json=change)
                assert found.status_code == 403
            assert (await program.get("/api/runs")).status_code == 403


async def test_keys_are_guessed_a_few_times(tmp_path: Path) -> None:
    async with (
        site(tmp_path, Access(api_key="k" * 32, now=Clock())) as (address, _, _),
        httpx.AsyncClient(base_url=address, timeout=None) as program,
    ):
        codes = []
        for n in range(7):
            guess = {"authorization": f"Bearer {n}"}
            codes.append((await program.get("/api/runs", headers=guess)).status_code)
        assert codes == [401] * 5 + [429] * 2


def test_tries_are_counted_of_each_address_and_not_for_ever() -> None:
    clock = Clock()
    tries = Tries(clock)
    for _ in range(40):
        tries.fail("a")
    assert tries.wait_s("a") == 300.0
    assert tries.wait_s("b") == 0.0
    for n in range(5_000):
        tries.fail(str(n))
    assert tries.wait_s("a") == 0.0  # there is no room for all addresses


async def test_a_name_from_a_proxy_is_one_header(tmp_path: Path) -> None:
    public = "https://mid.example.org"
    access = Access(public=public, user_header="X-User")
    async with site(tmp_path, access) as (address, _, _):
        assert address == public
        base = f"http://127.0.0.1:{access.port}"
        own = ("host", "mid.example.org")
        async with httpx.AsyncClient(base_url=base, timeout=None) as proxy:
            both = [own, ("x-user", "ada"), ("x-user", "eve")]
            assert (await proxy.get("/api/runs", headers=[own])).status_code == 401
            assert (await proxy.get("/api/runs", headers=both)).status_code == 401
            nobody = [own, ("x-user", "")]
            assert (await proxy.get("/api/runs", headers=nobody)).status_code == 401
            assert (await proxy.get("/api/runs", headers=[own, both[1]])).status_code == 200
            assert (await proxy.get("/api/runs", headers=[both[1]])).status_code == 421


# --- what is sent -------------------------------------------------------------------------------------


PATHS = (
    *("/static/../routes.py", "/static/..%2froutes.py", "/static/%2e%2e/%2e%2e/routes.py"),
    *("/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/..\\routes.py", "/static/"),
    *("/static/index.html/../../routes.py", "/static/%00", "/static/app.js%00.html", "/static/."),
    *("/static/__init__.py", "/static/~root", "/static/C:%5cx", "/static/%c0%ae%c0%ae/routes.py"),
)


@table("path", PATHS)
async def test_no_path_leads_out_of_the_files_of_the_page(tmp_path: Path, path: str) -> None:
    async with site(tmp_path) as (address, access, _), let_in(address, access) as page:
        # As it is: other clients tidy a path up before they send it.
        answer, _ = await raw(page, f"GET {path} HTTP/1.1")
        assert answer[9:12] in (b"404", b"400")
        assert b"import" not in answer


RUNS = ("..", "%2e%2e%2fx", "a/b", "'; drop table facts", "%00", "a" * 5_000, "\u202e", "*", "keep")


@table("id", RUNS)
async def test_what_is_no_id_of_a_run_finds_none(tmp_path: Path, id: str) -> None:
    async with site(tmp_path) as (address, access, _), let_in(address, access) as page:
        for path in (f"/api/runs/{id}", f"/api/runs/{id}/events", f"/api/runs/{id}/at/1"):
            found = await page.client.get(path)
            assert found.status_code in (400, 404)


BODIES: dict[str, bytes] = {
    "no JSON": b"{",
    "a list": b"[]",
    "nothing": b"",
    "other keys": b'{"text":"x","id":"a","admin":true}',
    "a number for words": b'{"text":1,"id":"a"}',
    "no id": b'{"text":"x"}',
    "a strange id": b'{"text":"x","id":"../a"}',
    "endless depth": b"[" * 100_000,
    "no UTF-8": b'{"text":"\xff","id":"a"}',
    "a policy that is none": b'{"text":"x","id":"a","policy":"now"}',
    "only blanks": b'{"text":"  ","id":"a"}',
    "a command": b'{"text":"/exit","id":"a"}',
    "a question that is not open": b'{"text":"x","id":"a","as":"answer","question":"q9"}',
}


@table("body", BODIES.values(), ids=BODIES)
async def test_what_is_no_line_is_refused_in_words(tmp_path: Path, body: bytes) -> None:
    async with site(tmp_path) as (address, access, run), let_in(address, access) as page:
        found = await page.client.post(f"/api/runs/{run}/say", content=body)
        if body.startswith(b'{"text":"x","id":"a","as"'):
            assert found.json()["handling"] == "reject"
            return
        assert found.status_code in (400, 409)
        assert found.json()["error"]


async def raw(page: Page, head: str, body: bytes = b"", *, pieces: int = 1) -> tuple[bytes, int]:
    """Return what is answered to bytes as they are, and how many pieces of the body went through."""
    host, _, port = page.address.removeprefix("http://").partition(":")
    cookie = "; ".join(f"{name}={value}" for name, value in page.client.cookies.items())
    reader, writer = await asyncio.open_connection(host, int(port))
    own = f"host: {host}:{port}\r\norigin: {page.address}\r\ncookie: {cookie}\r\nconnection: close"
    writer.write(f"{head}\r\n{own}\r\n\r\n".encode("latin-1"))
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < pieces and not reader.at_eof():
            writer.write(body)
            await writer.drain()
            sent += 1
    answer = b""
    with contextlib.suppress(ConnectionError):
        answer = await reader.read()
    writer.close()
    return answer, sent


async def test_a_giant_body_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with site(tmp_path) as (address, access, run), let_in(address, access) as page:
        head = f"POST /api/runs/{run}/say HTTP/1.1\r\ncontent-length: 900000000"
        answer, sent = await raw(page, head, b" " * 65_536, pieces=10_000)
        assert answer[9:12] in (b"413", b"")
        assert sent < 1_000


async def test_a_body_that_never_ends_is_waited_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "BODY_S", 0.1)
    async with site(tmp_path) as (address, access, run), let_in(address, access) as page:
        head = f"POST /api/runs/{run}/say HTTP/1.1\r\ncontent-length: 90"
        answer, _ = await raw(page, head, b"{")
        assert answer[9:12] == b"408"


async def test_hostile_words_of_a_model_come_as_words(tmp_path: Path) -> None:
    hostile = "\x1b[2J\u202e<script>alert(1)</script>\u2028\x9b\U000e0041"
    async with midstream.open(tmp_path, model=ScriptedModel(hostile), journal=":memory:") as engine:
        chat = await engine.start("role:dude", "hi")
        await chat.settled()
        async with serving(engine) as (address, access), let_in(address, access) as page:
            async for name, value, _ in page.events(f"/api/runs/{chat.id}/events"):
                text = json.dumps(value, ensure_ascii=False)
                assert not set(text) & set("\x1b\u202e\u2028\x9b\U000e0041")
                if name == "item" and value["kind"] == "agent":
                    break
            assert "<script>" in value["text"]  # it stands there, as words

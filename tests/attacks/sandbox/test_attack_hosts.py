"""A command that named some hosts asks its proxy for others, and for these in every other way."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from tables import table

from midstream.tools.sandbox.proxy import MAX_CONNECTIONS, MAX_REFUSED, Proxy, proxy_to
from midstream.tools.web_addresses import is_public

SECRET = b"the page of the loopback"


class Web:
    """A server on this machine's loopback; `seen` are the requests it got."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tell the secret, and what was asked."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"POST"):
                head += await reader.readuntil(b"body")
            self.seen.append(head)
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + SECRET)
            writer.write_eof()
            while more := await reader.read(65_536):
                self.seen[-1] += more
        except asyncio.IncompleteReadError as error:
            self.seen += [error.partial] if error.partial else []
        except ConnectionError:
            pass
        finally:
            writer.close()


class Names:
    """A resolver: what it was told of names, and how often it was asked."""

    def __init__(self, **names: str) -> None:
        self._names = {name.replace("_", "."): address for name, address in names.items()}
        self.asked: list[str] = []

    async def __call__(self, name: str, port: int) -> Sequence[str]:
        """Return the addresses of a name."""
        self.asked.append(name)
        if name in self._names:
            return self._names[name].split()
        if name == "localhost" or name[0].isdigit() or ":" in name:
            return [{"localhost": "127.0.0.1"}.get(name, name)]
        raise socket.gaierror(f"{name}: unknown")


@asynccontextmanager
async def loopback() -> AsyncIterator[Web]:
    web = Web()
    async with await asyncio.start_server(web.answer, "127.0.0.1", 0) as server:
        web.port = server.sockets[0].getsockname()[1]
        yield web


@asynccontextmanager
async def way_to(hosts: Sequence[str], names: Names) -> AsyncIterator[tuple[Proxy, int]]:
    """Open a proxy to some hosts, and yield it with the port it listens on."""
    async with proxy_to(hosts, names) as proxy:
        with socket.create_server(("127.0.0.1", 0)) as door:
            socket.send_fds(proxy.theirs, [b"!"], [door.fileno()])
            port = door.getsockname()[1]
        yield proxy, port


async def said(port: int, request: bytes, *, is_all: bool = False) -> bytes:
    """Return all that the proxy answers to some bytes; it may wait for more unless that `is_all`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    try:
        writer.write(request)
        await writer.drain()
        if is_all:
            writer.write_eof()
        while data := await reader.read(65_536):
            answer += data
    except ConnectionError:
        pass
    finally:
        writer.close()
    return answer


def get(target: str, *lines: str) -> bytes:
    """Return a request for a whole address, with a right Host line."""
    head = [f"GET {target} HTTP/1.1", "Host: good.example", *lines]
    return "\r\n".join([*head, "", ""]).encode("utf-8", "surrogateescape")


def tunnel(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()


NAMED = ("good.example", "other.example:8080", "127.0.0.1:9", "xn--bcher-kva.example")
"""What the commands below have named. Each name leads to where the server is."""
NAMES = {
    **dict.fromkeys(("evil_example", "good_example", "other_example"), "127.0.0.1"),
    "mixed_example": "192.0.2.9 127.0.0.1",
}
PORT = "{port}"
ASKED = [
    ("a host nobody named", get(f"http://evil.example:{PORT}/")),
    ("a tunnel to a host nobody named", tunnel(f"evil.example:{PORT}")),
    ("a named name that leads to the loopback", get("http://good.example/")),
    ("a tunnel to a name that leads to the loopback", tunnel("good.example:443")),
    ("a named host's other port", get(f"http://good.example:{PORT}/")),
    ("a tunnel to its other port", tunnel(f"good.example:{PORT}")),
    ("a tunnel to mail", tunnel("good.example:25")),
    ("the port of the web where another was named", get("http://other.example/")),
    ("an address", get(f"http://127.0.0.1:{PORT}/")),
    ("a tunnel to an address", tunnel(f"127.0.0.1:{PORT}")),
    ("localhost", get(f"http://localhost:{PORT}/")),
    ("localhost in capitals with a dot", get(f"http://LOCALHOST.:{PORT}/")),
    ("below localhost", get(f"http://app.localhost:{PORT}/")),
    ("IPv6 loopback", tunnel(f"[::1]:{PORT}")),
    ("mapped", tunnel(f"[::ffff:127.0.0.1]:{PORT}")),
    ("mapped in hex", tunnel(f"[::ffff:7f00:1]:{PORT}")),
    ("compatible", tunnel(f"[::127.0.0.1]:{PORT}")),
    ("with a zone", tunnel(f"[::1%lo]:{PORT}")),
    ("without brackets", tunnel(f"::1:{PORT}")),
    ("short", tunnel(f"127.1:{PORT}")),
    ("one number", tunnel(f"2130706433:{PORT}")),
    ("hex", tunnel(f"0x7f000001:{PORT}")),
    ("hex parts", tunnel(f"0x7f.0.0.1:{PORT}")),
    ("octal", tunnel(f"0177.0.0.1:{PORT}")),
    ("unspecified", tunnel(f"0.0.0.0:{PORT}")),
    ("nothing", tunnel(f"0:{PORT}")),
    ("IPv6 unspecified", tunnel(f"[::]:{PORT}")),
    ("a user before the host", get(f"http://good.example@127.0.0.1:{PORT}/")),
    ("a user with a port", get(f"http://good.example:80@127.0.0.1:{PORT}/")),
    ("the host as a user", get(f"http://127.0.0.1:{PORT}@good.example/")),
    ("a backslash", get(f"http://good.example\\@127.0.0.1:{PORT}/")),
    ("a fragment", get(f"http://good.example#@127.0.0.1:{PORT}/")),
    ("a question mark", get(f"http://good.example?@127.0.0.1:{PORT}/")),
    ("a semicolon", get(f"http://good.example;@127.0.0.1:{PORT}/")),
    ("an encoded slash", get(f"http://127.0.0.1:{PORT}%2fgood.example/")),
    ("an encoded letter", get(f"http://%65vil.example:{PORT}/")),
    ("an encoded NUL", get(f"http://127.0.0.1:{PORT}%00.good.example/")),
    ("a longer name", get(f"http://good.example.evil.example:{PORT}/")),
    ("a longer name before", get(f"http://evilgood.example:{PORT}/")),
    ("below a named host", get(f"http://sub.good.example:{PORT}/")),
    ("above a named host", get(f"http://example:{PORT}/")),
    ("a wildcard", tunnel(f"*:{PORT}")),
    ("any host", tunnel("*")),
    ("two hosts", tunnel(f"good.example,127.0.0.1:{PORT}")),
    ("two ports", tunnel(f"127.0.0.1:9:{PORT}")),
    ("no port", tunnel("good.example")),
    ("port 0", tunnel("good.example:0")),
    ("a port too large", tunnel("good.example:65616")),
    ("a negative port", tunnel("good.example:-1")),
    ("a port with a sign", tunnel("good.example:+443")),
    ("a port in other digits", tunnel("good.example:４４３")),
    ("a wide dot", tunnel(f"127。0。0。1:{PORT}")),
    ("a letter like another", tunnel(f"gооd.example:{PORT}")),
    ("IDNA that is not ASCII", get("http://bücher.example/")),
    ("an empty host", get("http:///")),
    ("an empty tunnel", tunnel("")),
    ("a path alone", get("/", f"X-Host: 127.0.0.1:{PORT}")),
    ("a path with two slashes", get(f"//127.0.0.1:{PORT}/")),
    ("a whole https address", get(f"https://127.0.0.1:{PORT}/")),
    ("a file", get("file:///etc/passwd")),
    ("ftp", get(f"ftp://127.0.0.1:{PORT}/")),
    ("a star", b"OPTIONS * HTTP/1.1\r\nHost: good.example\r\n\r\n"),
    ("two lines of Host", get("http://good.example/", f"Host: 127.0.0.1:{PORT}")),
    ("a space in the target", get(f"http://good.example/ http://127.0.0.1:{PORT}/")),
    ("a tab in the target", get(f"http://127.0.0.1:{PORT}\t/")),
    ("a bare CR", get(f"http://good.example/\rHost: 127.0.0.1:{PORT}")),
    ("a folded line", get("http://good.example/", f" http://127.0.0.1:{PORT}/")),
    (
        "another protocol's first words",
        b"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50\r\n\r\n",
    ),
    ("a greeting of TLS", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n"),
    ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("two lengths", get("http://good.example/", "Content-Length: 4", "Transfer-Encoding: chunked")),
    ("a long target", get(f"http://127.0.0.1:{PORT}/{'a' * 200_000}")),
    ("a long host", tunnel(f"{'a.' * 20_000}example:443")),
    ("a header without an end", get("http://good.example/", "X: " + "a" * 400_000)[:-4]),
    ("a hundred thousand headers", get("http://good.example/", *["X: y"] * 100_000)),
]


@table(("what", "request"), ASKED, ids=[what for what, _ in ASKED])
async def test_a_host_that_was_not_named_is_not_reached(what: str, request: bytes) -> None:
    names = Names(**NAMES)
    async with loopback() as web, way_to(NAMED, names) as (_, port):
        answer = await said(port, request.replace(PORT.encode(), str(web.port).encode()))

        assert SECRET not in answer
        assert answer[:10] in (b"", b"HTTP/1.1 4", b"HTTP/1.1 5"), answer
        assert web.seen == [], what
        assert {*names.asked} <= {"good.example"}, "looking a name up tells its owner, too"


PRIVATE = [
    *("0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.0.9", "169.254.169.254"),
    *("172.16.0.1", "192.168.1.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255"),
    *("240.0.0.1", "::", "::1", "::127.0.0.1", "::ffff:10.0.0.1", "::ffff:7f00:1", "fe80::1"),
    *("fe80::1%2", "fc00::1", "fd00:ec2::254", "ff02::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
    *("64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001:db8::1", "2001::1", "100::1"),
]


@table("address", PRIVATE)
def test_an_address_of_this_machine_or_its_neighbours_is_not_public(address: str) -> None:
    assert not is_public(address)


@table("address", ["1.1.1.1", "151.101.0.223", "2606:4700:4700::1111", "64:ff9b::101:101"])
def test_an_address_of_the_world_is_public(address: str) -> None:
    assert is_public(address)


@table("address", [each for each in PRIVATE if "%" not in each])
async def test_a_named_name_leads_to_no_address_that_is_not_public(address: str) -> None:
    async with way_to(["good.example"], Names(good_example=address)) as (proxy, port):
        answer = await said(port, tunnel("good.example:443"))

    assert answer.startswith(b"HTTP/1.1 403 good.example is refused: it leads to "), answer
    assert list(proxy.refused) == ["good.example"]


async def test_one_address_that_is_not_public_among_others_is_enough() -> None:
    async with loopback() as web, way_to(["mixed.example"], Names(**NAMES)) as (_, port):
        answer = await said(port, get("http://mixed.example/"))

        assert answer.startswith(b"HTTP/1.1 403")
        assert web.seen == []


REACHED = [
    ("its address", "127.0.0.1:{port}", "127.0.0.1:{port}"),
    ("localhost", "localhost:{port}", "localhost:{port}"),
    ("another spelling of its name", "localhost:{port}", "LocalHost.:{port}"),
    ("another spelling of its address", "127.0.0.1:{port}", "[::ffff:7f00:1]:{port}"),
    (
        "a name, and the address it leads to",
        "good.example:{port} 127.0.0.1:{port}",
        "good.example:{port}",
    ),
]


@table(("what", "named", "asked"), REACHED, ids=[what for what, *_ in REACHED])
async def test_a_host_that_was_named_is_reached(what: str, named: str, asked: str) -> None:
    async with loopback() as web:
        hosts, host = named.format(port=web.port).split(), asked.format(port=web.port)
        names = Names(**NAMES)
        async with way_to(hosts, names) as (proxy, port):
            plain = await said(port, get(f"http://{host}/x?y#z", "Proxy-Authorization: secret"))
            tunnelled = await said(port, tunnel(host) + get("/tunnelled"))

        assert plain.endswith(SECRET), what
        assert tunnelled.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
        assert tunnelled.endswith(SECRET)
        assert [each.split(b" ")[1] for each in web.seen] == [b"/x?y", b"/tunnelled"]
        assert b"secret" not in web.seen[0]
        assert proxy.refused == {}
        assert len(names.asked) == 2, "the address that is dialled is the one that was looked at"


async def test_a_host_hears_what_it_was_asked_for_and_no_other_name() -> None:
    async with loopback() as web:
        here = f"127.0.0.1:{web.port}"
        async with way_to([here], Names()) as (_, port):
            await said(port, get(f"http://{here}/") + get("http://evil.example/"))
            await said(port, get(f"http://{here}/", "Connection: host, content-length"))

        assert len(web.seen) == 2
        for head in web.seen:
            assert head.count(b"\r\nHost:") == 1
            assert f"\r\nHost: {here}\r\n".encode() in head
            assert b"good.example" not in head
            assert b"evil" not in head


async def test_a_body_goes_out_as_it_is_and_ends_where_it_says() -> None:
    async with loopback() as web:
        here = f"127.0.0.1:{web.port}"
        async with way_to([here], Names()) as (_, port):
            whole = (
                get(f"http://{here}/", "Content-Length: 4")
                + b"bodyGET http://evil/ HTTP/1.1\r\n\r\n"
            )
            parts = (
                get(f"http://{here}/", "Transfer-Encoding: chunked") + b"4\r\nbody\r\n0\r\n\r\nGET"
            )
            for request in (whole, parts):
                assert (await said(port, request.replace(b"GET", b"POST", 1))).endswith(SECRET)

        assert not any(b"evil" in each for each in web.seen)
        assert b"".join(web.seen).count(b"body") == 2


async def test_the_command_that_ends_takes_what_went_through_with_it() -> None:
    async with loopback() as web:
        async with way_to([f"127.0.0.1:{web.port}"], Names()) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(tunnel(f"127.0.0.1:{web.port}"))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")

        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        try:
            await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return
        raise AssertionError("the proxy is still there")


async def test_refusals_are_remembered_up_to_a_bound() -> None:
    async with way_to(["good.example"], Names()) as (proxy, port):
        for number in range(MAX_REFUSED + 5):
            await said(port, tunnel(f"h{number}.example:443"))

    assert len(proxy.refused) == MAX_REFUSED


PIECES = st.sampled_from(
    [
        *(
            b"GET ",
            b"POST ",
            b"CONNECT ",
            b"http://",
            b"good.example",
            b"evil.example",
            b"127.0.0.1",
        ),
        *(b":{port}", b":443", b"/", b"@", b" HTTP/1.1", b" HTTP/1.0", b"\r\n", b"\n", b"\r\n\r\n"),
        *(b"Host: ", b"Content-Length: ", b"Transfer-Encoding: chunked", b"4", b"-1", b"0\r\n\r\n"),
        *(b"Connection: close, upgrade", b"Upgrade: h2c", b"Expect: 100-continue", b"[::1]", b"\0"),
    ]
)


@given(st.lists(st.lists(PIECES | st.binary(max_size=4), max_size=14), min_size=1, max_size=4))
@settings(max_examples=150)
def test_nothing_that_is_said_gets_round_the_proxy_or_ends_it(requests: list[list[bytes]]) -> None:
    async def tell() -> None:
        async with loopback() as web, way_to(NAMED, Names(**NAMES)) as (_, port):
            for pieces in requests:
                whole = b"".join(pieces).replace(PORT.encode(), str(web.port).encode())
                assert SECRET not in await said(port, whole, is_all=True)
            assert b"403" in await said(port, tunnel("evil.example:443")), "it is still there"
            assert web.seen == []

    asyncio.run(tell())


async def test_one_connection_too_many_waits_for_another_to_end() -> None:
    async with loopback() as web:
        here = f"127.0.0.1:{web.port}"
        async with way_to([here], Names()) as (_, port):
            ways = [
                await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS)
            ]
            waiting = asyncio.create_task(said(port, tunnel("evil.example:443")))
            for reader, writer in ways[:20]:
                writer.write(tunnel(here))
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert not waiting.done()

            ways[-1][1].close()

            assert (await waiting).startswith(b"HTTP/1.1 403")
            for _, writer in ways:
                writer.close()

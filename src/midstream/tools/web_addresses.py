"""One address of the web: read, judged as a `net` capability, asked for at an address that was looked at.

A name is resolved here, and the very address that was looked at is connected to, so it cannot come to mean
another in between. An address that is not public has to be named itself by whoever calls: no name, link
or redirect leads to this machine, to its neighbours or to a cloud's metadata.
"""

import ipaddress
import re
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

import msgspec

from midstream.language.errors import UserMistake, WorldTrouble, clip
from midstream.safety.capability import Capability
from midstream.safety.rules import WEB_PORTS, host_of
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import in_thread
from midstream.system.own_process import beginning

if TYPE_CHECKING:
    import httpx2

MAX_URL_CHARS: Final = 2_000
SILENCE_S: Final = 20.0
_MAX_ADDRESSES: Final = 4
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_ODD: Final = re.compile(r"[\s\\\x00-\x1f\x7f-\x9f]")


class WebAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An http or https address. `host` is spelled as rules compare it; `path` has the query in it."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def target(self) -> str:
        """Return the target of its `net` capability."""
        return self.host if str(self.port) in WEB_PORTS else f"{self.host}:{self.port}"

    @property
    def request(self) -> Capability:
        """Return what asking for it needs."""
        return Capability(kind="net", target=self.target)

    def __str__(self) -> str:
        """Return it as it is asked for."""
        return f"{self.scheme}://{self._place}{self.path}"

    @property
    def _place(self) -> str:
        is_default = self.port == (443 if self.scheme == "https" else 80)
        return self.host if is_default else f"{self.host}:{self.port}"

    def at(self, address: str) -> str:
        """Return it with its host replaced by one of the host's addresses."""
        literal = f"[{address}]" if ":" in address else address
        return f"{self.scheme}://{literal}:{self.port}{self.path}"


_LOOKED_AT: Final = 200


def shown(text: str) -> str:
    """Return foreign text as a part of a message, its secrets redacted before it is cut."""
    return clip(beginning(text, _LOOKED_AT))


def read_address(url: str) -> WebAddress:
    """Return the parts of an address.

    Raises:
        UserMistake: it is none of http or https, has a name or password in it, or is not written plainly.
    """
    if len(url) > MAX_URL_CHARS or _ODD.search(url):
        raise UserMistake(
            f"{shown(url)!r} is no address: it is too long, or has blanks, controls or backslashes.",
            hint="Write it as a browser copies it.",
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UserMistake(
            f"{shown(url)!r} is no address: {error}.", hint="Write it as a browser copies it."
        ) from error
    if parts.scheme not in ("http", "https"):
        raise UserMistake(
            f"{shown(url)!r} is not fetched: only http and https are.",
            hint="For files of the workspace there is read_files.",
        )
    if "@" in parts.netloc:
        raise UserMistake(
            "The address has a user name or password in it.", hint="Leave out what stands before @."
        )
    found = host_of(parts.netloc)
    if found is None:
        raise UserMistake(
            f"{shown(parts.netloc)!r} is no host.",
            hint="Write the name in ASCII (xn--...), or an address as 192.0.2.1 or [2001:db8::1].",
        )
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~?[]|")
    return WebAddress(
        scheme=parts.scheme,
        host=found[0],
        port=port or (443 if parts.scheme == "https" else 80),
        path=f"{path}?{query}" if query else path,
    )


@asynccontextmanager
async def asked(
    http: "httpx2.AsyncClient",
    address: WebAddress,
    *,
    named: str = "",
    is_own: bool = False,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
) -> AsyncIterator["httpx2.Response"]:
    """Send a request and give its answer, whose body is still to come. Redirects are not followed.

    Args:
        named: the target that was named by whoever calls; only that one need not be public.
        is_own: a person's own settings name it, so it may be anywhere.

    Raises:
        UserMistake: it leads to an address that is not public.
        WorldTrouble: it cannot be reached, or breaks off.
    """
    import httpx2

    said = {"host": str(address).split("/", 3)[2], "connection": "close", **(headers or {})}
    trouble = "it has no address"
    for found in await _addresses(address, is_named=address.target == named, is_own=is_own):
        request = http.build_request(
            method,
            address.at(found),
            headers=said,
            content=content,
            timeout=httpx2.Timeout(SILENCE_S),
            extensions={"sni_hostname": address.host.strip("[]")},
        )
        http.cookies.clear()
        try:
            response = await http.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            trouble = str(error) or "it does not answer"
            continue
        except httpx2.HTTPError as error:
            raise _broken(address, error) from error
        try:
            yield response
        except httpx2.HTTPError as error:
            raise _broken(address, error) from error
        finally:
            await response.aclose()
        return
    raise WorldTrouble(
        f"{address.target} cannot be reached: {shown(trouble)}.",
        hint="Try again later, or another address.",
    )


def _broken(address: WebAddress, error: Exception) -> WorldTrouble:
    words = sanitized(str(error)) or type(error).__name__
    return WorldTrouble(
        f"{address.target} gave no whole answer: {shown(words)}.",
        hint="Try again later, or another address.",
    )


async def _addresses(address: WebAddress, *, is_named: bool, is_own: bool) -> list[str]:
    """Return where to connect to; all of them are looked at first."""
    try:
        found = await resolved(address.host.strip("[]"), address.port)
    except (OSError, UnicodeError) as error:
        raise WorldTrouble(
            f"{address.host} has no address: {error}.", hint="Check the name."
        ) from error
    for each in found:
        is_free = is_own or (is_named and _is_itself(address.host, each))
        if not is_free and (not is_public(each) or await in_thread(partial(_is_ours, each))):
            raise UserMistake(
                f"{address.target} leads to {each}, which is not a public address.",
                hint="Only a rule of the user's own settings that names that very address allows it: "
                '"net: 127.0.0.1:8000".',
            )
    return list(dict.fromkeys(found))[:_MAX_ADDRESSES]


def _is_itself(host: str, address: str) -> bool:
    """Return whether a host is nothing but that address."""
    if host == "localhost":
        return ipaddress.ip_address(address).is_loopback
    found = host_of(f"[{address}]" if ":" in address else address)
    return found is not None and found[0] == host


def _is_ours(address: str) -> bool:
    """Return whether an address that looks public is one of this machine: nothing is sent to find out."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        return bool(probe.getsockname()[0] == address)
    return False


# --- where a name leads -----------------------------------------------------------------------------


def is_public(address: str) -> bool:
    """Return whether an address is one of the world's, rather than of this machine or its neighbours.

    What a gateway would take another address out of is judged as that one.
    """
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        within = found.ipv4_mapped or found.sixtofour
        if found in _NAT64:
            within = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
        if within is not None:
            return is_public(str(within))
    return found.is_global and not (found.is_multicast or found.is_reserved)


async def resolved(name: str, port: int) -> Sequence[str]:
    """Return the addresses of a name as the system knows them. Raises OSError where there are none."""
    found = await in_thread(partial(socket.getaddrinfo, name, port, type=socket.SOCK_STREAM))
    return [str(address[0]) for *_, address in found]

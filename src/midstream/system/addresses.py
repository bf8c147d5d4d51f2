"""Where a name leads, and whether that is the world or this machine and its neighbours."""

import ipaddress
import socket
from collections.abc import Sequence
from functools import partial
from typing import Final

from midstream.system.offloop import in_thread

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


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

"""Whether there is a newer midstream: looked up at most once a day, told at the next start in one line.

The console does so where a person's own settings say so (`updateNotice`), and CI is not set. The package
index is told the name and the version that asks. What it answers is a stranger's word: nothing but a
version of a strict form is taken of it, and nothing is downloaded.
"""

import asyncio
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from midstream._version import __version__
from midstream.config.private_files import read_capped, write_whole
from midstream.language.errors import MidstreamError
from midstream.system.offloop import in_thread
from midstream.tools.web_addresses import asked, read_address
from midstream.tools.web_fetch import web_client

INDEX: Final = "https://pypi.org/pypi/midstream/json"
FILE: Final = "newest-version.json"
"""What is kept in the folder of state."""

EVERY_S: Final = 86_400.0
DEADLINE_S: Final = 3.0
_MAX_BYTES: Final = 2_000_000
_MAX_KEPT_BYTES: Final = 1_000
_VERSION: Final = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,5}){1,3}")
"""A release. One that is meant for trying out is told of to nobody."""


class _Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When was last asked, in seconds since 1970, and what the newest version was, "" if not known."""

    asked_at: float
    version: str


class _Info(msgspec.Struct, frozen=True):
    version: str
    yanked: bool = False


class _Answer(msgspec.Struct, frozen=True):
    info: _Info


def known_notice(state: Path, *, own: str = __version__) -> str:
    """Return the line about a newer version that is known of, "" if none is. Reads one small file."""
    kept = _kept(state)
    if kept is None or not _is_newer(kept.version, own):
        return ""
    return (
        f"midstream {kept.version} is on the package index; this is {own}. "
        "To have it: pip install -U midstream"
    )


async def look_up(
    state: Path,
    *,
    now: float,
    url: str = INDEX,
    own: str = __version__,
    deadline_s: float = DEADLINE_S,
) -> None:
    """Keep for the next start what the newest version is, unless that was asked within a day.

    That it is asked is kept first: where nothing can be written nothing is asked, and an index that
    does not answer is asked again a day later. Never raises; says nothing.
    """
    with suppress(MidstreamError, OSError, ValueError, RecursionError):
        kept = await in_thread(partial(_kept, state))
        if kept is not None and 0 <= now - kept.asked_at < EVERY_S:
            return
        known = "" if kept is None else kept.version
        await in_thread(partial(_keep, state, _Kept(asked_at=now, version=known)))
        data = await _answer(url, own, deadline_s)
        info = (await in_thread(partial(msgspec.json.decode, data, type=_Answer))).info
        if _VERSION.fullmatch(info.version) and not info.yanked:
            found = _Kept(asked_at=now, version=info.version)
            await in_thread(partial(_keep, state, found))


async def _answer(url: str, own: str, deadline_s: float) -> bytes:
    """Return what the index says; nothing where that is an error or too long."""
    address = read_address(url)
    headers = {"accept": "application/json", "user-agent": f"midstream/{own}"}
    data = bytearray()
    async with (
        await in_thread(web_client) as http,
        asyncio.timeout(deadline_s),
        asked(http, address, named=address.target, headers=headers) as response,
    ):
        if response.status_code != 200:
            return b""
        async for chunk in response.aiter_raw():
            data += chunk
            if len(data) > _MAX_BYTES:
                return b""
    return bytes(data)


def _kept(state: Path) -> _Kept | None:
    """Return what is kept, None where there is nothing that can be read."""
    try:
        data = read_capped(state / FILE, max_bytes=_MAX_KEPT_BYTES)
        kept = msgspec.json.decode(data, type=_Kept)
    except (MidstreamError, ValueError, RecursionError):
        return None
    return kept if not kept.version or _VERSION.fullmatch(kept.version) else None


def _keep(state: Path, kept: _Kept) -> None:
    write_whole(state / FILE, msgspec.json.encode(kept))


def _is_newer(version: str, own: str) -> bool:
    """Return whether a version is above another; False where either is none of a release."""
    if not (_VERSION.fullmatch(version) and _VERSION.fullmatch(own)):
        return False
    return _numbers(version) > _numbers(own)


def _numbers(version: str) -> list[int]:
    numbers = [int(part) for part in version.split(".")]
    return numbers + [0] * (4 - len(numbers))

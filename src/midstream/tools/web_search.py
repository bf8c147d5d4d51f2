"""web_search: asks the search engine that a person's own settings name; without one it is not offered."""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec

from midstream.language.errors import UserMistake, WorldTrouble
from midstream.runtime.ports import ToolContext
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import in_thread
from midstream.system.own_process import beginning, own_redactor
from midstream.tools.base import Planned, Tool, tool, tool_from
from midstream.tools.web_addresses import WebAddress, asked, read_address
from midstream.tools.web_fetch import judged_tool, marked, web_client

MAX_ANSWER_BYTES: Final = 1_000_000
MAX_RESULTS: Final = 10
TOTAL_S: Final = 30.0
_MAX_SNIPPET: Final = 500


class _Hit(msgspec.Struct, frozen=True):
    title: str | None = None
    url: str | None = None
    content: str | None = None
    description: str | None = None


class _Web(msgspec.Struct, frozen=True):
    results: list[_Hit] = []


class _Answer(msgspec.Struct, frozen=True):
    results: list[_Hit] = []
    web: _Web = _Web()


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    parameters: dict[str, str] = {}
    headers: dict[str, str] = {}
    content: bytes | None = None


def _searxng(query: str, _key: str) -> _Request:
    return _Request(parameters={"q": query, "format": "json"})


def _brave(query: str, key: str) -> _Request:
    return _Request(
        parameters={"q": query, "count": str(MAX_RESULTS)}, headers={"x-subscription-token": key}
    )


def _tavily(query: str, key: str) -> _Request:
    said = {"query": query, "max_results": MAX_RESULTS}
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    return _Request(headers=headers, content=msgspec.json.encode(said))


_PROVIDERS: Final[Mapping[str, Callable[[str, str], _Request]]] = {
    "searxng": _searxng,
    "brave": _brave,
    "tavily": _tavily,
}


def search_tools(setting: Mapping[str, str]) -> tuple[Tool, ...]:
    """Return the tool for the setting `webSearch`; none where that is empty.

    `provider`, `url` and `keyVariable` are those of the setting, as it was checked when it was read.
    """
    if not setting:
        return ()
    request_for, variable = _PROVIDERS[setting["provider"]], setting["keyVariable"]

    @tool(effect="read", timeout_s=45)
    async def web_search(
        query: Annotated[str, msgspec.Meta(min_length=1, max_length=400)], context: ToolContext
    ) -> str:
        """Search the web: titles, addresses and a few words of each. web_fetch reads a page."""
        key = os.environ.get(variable, "") if variable else ""
        if variable and not key:
            raise UserMistake(
                f"The search needs a key, and {variable} is not set.",
                hint="Whoever set webSearch in application.json puts it into the environment.",
            )
        address = read_address(setting["url"])
        try:
            async with asyncio.timeout(TOTAL_S):
                data = await _answer(address, request_for(query, key))
        except TimeoutError as error:
            raise WorldTrouble(f"{address.target} took too long.", hint=_AGAIN) from error
        return await in_thread(partial(_shown, data, address))

    def plan(query: str, context: ToolContext) -> Planned:
        address = read_address(setting["url"])
        return Planned(requests=(address.request,), shows=f"{address.target}: {query}")

    return (judged_tool(tool_from(web_search, plan=plan)),)


_AGAIN: Final = "Try again later, or do without."


async def _answer(address: WebAddress, request: _Request) -> bytes:
    sign = "&" if "?" in address.path else "?"
    path = address.path + (sign + urlencode(request.parameters) if request.parameters else "")
    data = bytearray()
    async with (
        await in_thread(web_client) as http,
        asked(
            http,
            msgspec.structs.replace(address, path=path),
            is_own=True,
            method="GET" if request.content is None else "POST",
            headers={"accept": "application/json", "user-agent": "midstream", **request.headers},
            content=request.content,
        ) as response,
    ):
        if response.status_code != 200:
            raise WorldTrouble(f"{address.target} answered {response.status_code}.", hint=_AGAIN)
        async for chunk in response.aiter_raw():
            data += chunk
            if len(data) > MAX_ANSWER_BYTES:
                raise WorldTrouble(f"{address.target} answered too much.", hint=_AGAIN)
    return bytes(data)


def _shown(data: bytes, address: WebAddress) -> str:
    from midstream.tools.page_text import readable  # not before somebody searches

    try:
        answer = msgspec.json.decode(data, type=_Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WorldTrouble(
            f"{address.target} gave no list of results.", hint="Does webSearch name its provider?"
        ) from error
    found: list[str] = []
    for number, hit in enumerate([*answer.results, *answer.web.results][:MAX_RESULTS], 1):
        # Some mark the words that were searched for in HTML.
        words = " ".join(readable(hit.content or hit.description or "", "").split())
        title = " ".join((hit.title or "(no title)").split())
        found.append(
            f"{number}. {beginning(title, 200)}\n   {beginning(hit.url or '', 500)}\n"
            f"   {beginning(words, _MAX_SNIPPET)}"
        )
    if not found:
        return "Nothing was found."
    return marked(sanitized(own_redactor().redacted("\n".join(found))))

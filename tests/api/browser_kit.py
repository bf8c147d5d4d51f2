"""A server with the page's routes over an engine, and a page that talks to it as a browser does."""

import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import httpx

import midstream
from midstream.server.access import Access
from midstream.server.host import Door, served
from midstream.web.routes import Web


class Page:
    """A browser that was let in: its requests come from the page itself."""

    def __init__(self, address: str, client: httpx.AsyncClient) -> None:
        self.address = address
        self.client = client

    async def get(self, path: str) -> Any:
        found = await self.client.get(path)
        assert found.status_code == 200, found.text
        return found.json()

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.client.post(path, json=body)

    async def events(
        self, path: str, *, had: int | None = None
    ) -> AsyncGenerator[tuple[str, Any, int | None]]:
        """Yield (name, value, id) of each server-sent event until the stream ends."""
        headers = {} if had is None else {"last-event-id": str(had)}
        async with self.client.stream("GET", path, headers=headers, timeout=None) as stream:
            assert stream.status_code == 200
            name, id = "", None
            async for line in stream.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "id":
                    id = int(value)
                elif field == "data":
                    yield name, json.loads(value), id
                    name, id = "", None


@contextlib.asynccontextmanager
async def serving(
    engine: midstream.Engine, access: Access | None = None
) -> AsyncIterator[tuple[str, Access]]:
    """Give the address of a server over an engine, and who may come in."""
    access = Access() if access is None else access
    web = Web(engine)
    async with served([Door(routes=web.routes(), life=web.life())], access, port=0) as address:
        yield address, access


@contextlib.asynccontextmanager
async def let_in(address: str, access: Access) -> AsyncIterator[Page]:
    """Give a page that came by an invitation."""
    async with httpx.AsyncClient(
        base_url=address, headers={"origin": address}, timeout=None
    ) as client:
        assert (await client.get(access.invitation())).status_code == 200
        yield Page(address, client)


@contextlib.asynccontextmanager
async def page_of(engine: midstream.Engine) -> AsyncIterator[Page]:
    async with serving(engine) as (address, access), let_in(address, access) as page:
        yield page


async def items(
    page: Page, run: str, *, had: int | None = None, until: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """Return the items of a run until one fits."""
    found = []
    async with contextlib.aclosing(page.events(f"/api/runs/{run}/events", had=had)) as events:
        async for name, value, id in events:
            if name == "item":
                assert value["seq"] == id
                found.append(value)
                if until(value):
                    break
            if name == "end":
                break
    return found


def is_end(item: dict[str, Any]) -> bool:
    """Return whether an item is the last of a run."""
    return bool(item["kind"] == "end")

"""One connection to one server, from its start to its end, held by one task.

The library wants to be entered and left in the same task, so a connection is a task: it opens, says
that it is open, and closes when it is told to. Calls come from any task meanwhile.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from midstream._version import __version__
from midstream.config.mcp_servers import McpServer, secrets_of
from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.language.names import Json
from midstream.runtime.ports import ToolOutcome
from midstream.safety.redaction import Redactor
from midstream.system.offloop import in_thread, still_working
from midstream.system.own_process import own_redactor
from midstream.tools.mcp.mcp_tools import (
    MAX_TOOLS,
    MAY_HAVE_DONE,
    BadOffer,
    Offer,
    outcome_of,
    read_offers,
    visible,
)
from midstream.tools.mcp.transports import Traffic, transport

if TYPE_CHECKING:
    from mcp.client import Client

MAX_PAGES: Final = 32
CLOSE_S: Final = 6.0
"""How long closing may take: what a server started is killed within it."""


class Connection:
    """A server that runs, or is about to.

    Args:
        server: how it is reached.
        folder: where it runs.
        environ: the person's environment, of which it gets what its settings name.
        changed: hears that the server says its tools are others now.
    """

    def __init__(
        self,
        server: McpServer,
        *,
        folder: Path,
        environ: Mapping[str, str],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._server = server
        self._folder = folder
        self._environ = environ
        self._changed = changed
        self._secrets = Redactor(secrets_of(server))
        self._traffic = Traffic()
        self._leave = asyncio.Event()
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Return whether nothing more comes from the server."""
        return self._traffic.over.is_set() or self._task is None or self._task.done()

    async def open(self) -> None:
        """Start the server, or reach it, and agree on a version.

        Raises:
            UserMistake: it cannot be started as it is set up, or the library is missing.
            WorldTrouble: it failed, or took longer than its time for starting.
        """
        await in_thread(_load, name="midstream-mcp-load")
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Whoever waited may be gone when it fails.
        ready.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._task = asyncio.create_task(self._held(ready), name=f"mcp-{self._server.name}")
        try:
            async with asyncio.timeout(self._server.start_timeout_s):
                await asyncio.shield(ready)
        except TimeoutError:
            await self.close()
            raise WorldTrouble(
                f"The MCP server {self._server.name} did not answer within "
                f"{self._server.start_timeout_s:g} s.",
                hint="Give it longer: startTimeoutSeconds in application.json.",
            ) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection, and the server with everything it started."""
        self._leave.set()
        task = self._task
        if task is None:
            return
        if self._client is None:
            task.cancel()
        await still_working({task}, CLOSE_S)
        task.cancel()
        await still_working({task}, CLOSE_S)

    async def _held(self, ready: "asyncio.Future[None]") -> None:
        """Hold the connection open until it is told to leave."""
        try:
            async with self._unopened() as client:
                self._client = client
                if not ready.done():
                    ready.set_result(None)
                await self._leave.wait()
        # An edge: whatever a server makes the library raise ends this connection, not midstream.
        except Exception as error:
            trouble = self._trouble(error)
            self._traffic.end("failed")
            if not ready.done():
                ready.set_exception(trouble)
        finally:
            self._client = None
            self._traffic.end("was closed")
            if not ready.done():
                ready.cancel()

    def _unopened(self) -> "Client":
        from mcp.client import Client
        from mcp_types import Implementation

        over = transport(self._server, self._traffic, folder=self._folder, environ=self._environ)
        return Client(
            over,
            client_info=Implementation(name="midstream", version=__version__),
            message_handler=self._on_message,
            cache=None,
        )

    async def _on_message(self, message: Any) -> None:
        """Take what nobody asked for. What a server wants of us (words, roots, answers) is refused
        by the library, since we offer none of it.
        """
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._changed()

    async def offers(self) -> tuple[Offer, ...]:
        """Return the tools the server offers now.

        Raises:
            WorldTrouble: it does not say, or offers what is not taken.
        """
        from mcp_types import PaginatedRequestParams

        found: list[dict[str, Any]] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(self._server.start_timeout_s):
                for _ in range(MAX_PAGES):
                    self._traffic.messages = 0
                    page = await self._session().list_tools(
                        params=PaginatedRequestParams(cursor=cursor)
                    )
                    found += [
                        tool.model_dump(by_alias=True, exclude_none=True) for tool in page.tools
                    ]
                    cursor = page.next_cursor
                    if cursor is None or len(found) > MAX_TOOLS:
                        break
                else:
                    raise BadOffer(f"it lists its tools on more than {MAX_PAGES} pages")
            return await in_thread(lambda: read_offers(found))
        except BadOffer as error:
            raise WorldTrouble(
                f"The tools of the MCP server {self._server.name} are not accepted: {error}.",
                hint="Ask its authors, or remove it.",
            ) from None
        # An edge, as above.
        except Exception as error:
            raise self._trouble(error) from None

    async def call(
        self, tool: str, arguments: dict[str, Json], *, progress: Callable[[str], None]
    ) -> ToolOutcome:
        """Return how a call of a tool ended. Cancelling tells the server so.

        Where the server had the call and gave no answer, that is not known.

        Raises:
            WorldTrouble: it could not be called, or answered with an error.
        """
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult
        from mcp_types import InputRequiredResult as MoreWanted
        from pydantic import TypeAdapter

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            if message:
                progress(f"{visible(self._redacted(message)[:_PROGRESS])}\n")

        self._traffic.messages = 0
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
        # Not `call_tool`: that lets the server choose a schema to check its answer by, on the loop.
        wanted: TypeAdapter[Any] = TypeAdapter(CallToolResult | MoreWanted)
        is_sent, before = False, self._traffic.sent
        try:
            session = self._session()
            is_sent = True
            result = await session.send_request(request, wanted, progress_callback=on_progress)
        # An edge, as above.
        except Exception as error:
            trouble = self._trouble(error)
            if self._traffic.was_nothing_sent(before):
                text = f"{trouble.what}\nNo connection could be made: it was not called."
                return ToolOutcome(outcome="failed", text=text)
            if is_sent and not self._is_answer(error):
                text = f"{trouble.what}\n{MAY_HAVE_DONE}"
                return ToolOutcome(outcome="unknown", text=text)
            raise trouble from None
        if not isinstance(result, CallToolResult):
            return ToolOutcome(
                outcome="failed",
                text="The server asked for something before it would do this; it gets nothing.",
            )
        outcome = await in_thread(lambda: outcome_of(result.model_dump(by_alias=True)))
        return replace(outcome, text=self._redacted(outcome.text))

    def _redacted(self, text: str) -> str:
        """Return a server's words without its secrets and ours: they are cut before others see them."""
        return own_redactor().redacted(self._secrets.redacted(text))

    def _session(self) -> Any:
        if self._client is None or self.is_over:
            raise ConnectionError
        return self._client.session

    def _is_answer(self, error: BaseException) -> bool:
        """Return whether an error is what the server said, and not that nothing usable came from it."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, PARSE_ERROR, REQUEST_TIMEOUT

        # The library says these itself where a connection breaks, a proxy answers, or what comes is no
        # message; of a server they tell no more.
        own = (CONNECTION_CLOSED, INTERNAL_ERROR, PARSE_ERROR, REQUEST_TIMEOUT)
        is_over = self._traffic.over.is_set()
        return isinstance(error, MCPError) and error.code not in own and not is_over

    def _trouble(self, error: BaseException) -> MidstreamError:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, MidstreamError):
            return error
        named = f"The MCP server {self._server.name}"
        if self._traffic.over.is_set() and (self._traffic.ended or not str(error)):
            told = _short(self._redacted(self._traffic.why(self._redacted)))
            return WorldTrouble(f"{named} {told}", hint=_STANDING)
        if isinstance(error, TimeoutError):
            return WorldTrouble(f"{named} did not answer in time.", hint=_STANDING)
        words = _short(self._redacted(str(error) or type(error).__name__))
        if self._is_answer(error):
            what = f"{named} answered with an error: {words}"
            return WorldTrouble(what, hint="Change what it was asked.")
        return WorldTrouble(f"{named} gave no answer that can be used: {words}", hint=_STANDING)


_STANDING = "midstream mcp shows its status."
_PROGRESS = 500
_WORDS = 600


def _short(words: str) -> str:
    words = " ".join(visible(words[: 4 * _WORDS]).split())
    return words if len(words) <= _WORDS else f"{words[:_WORDS]} ..."


def _load() -> None:
    try:
        import mcp.client
        import mcp.client.streamable_http  # noqa: F401
    except ImportError as error:
        raise UserMistake(
            f"MCP servers need a library that is not installed ({error.name}).",
            hint="Run: pip install 'midstream[mcp]'",
        ) from None

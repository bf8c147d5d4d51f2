"""The server: a call from the wire to its result, whichever way it came.

The library speaks the protocol and checks its messages. What a tool is given is decoded strictly here, and
every way in which a call can fail becomes words for the model that made it.
"""

import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from mcp_types import Tool as ToolOffer

from midstream._version import __version__
from midstream.api.engine import Engine
from midstream.language.errors import REPORT_BUG, MidstreamError, UserMistake
from midstream.language.names import Json
from midstream.mcp_server.told import RunTold, form_of, message_of, process_of, run_told
from midstream.mcp_server.tools import (
    TOOLS,
    Acted,
    Arguments,
    Client,
    ListRuns,
    RunStatus,
    Tool,
)
from midstream.mcp_server.waiting import InputRequired, State, Wait
from midstream.safety.decoding import BadValue, checked
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import in_thread
from midstream.system.own_process import own_redactor
from midstream.views.listing import MCP

if TYPE_CHECKING:
    from starlette.routing import Route

RUNS: Final = "midstream://runs/"
"""The address of a run as a resource begins so."""

INSTRUCTIONS: Final = (
    "midstream runs multi-agent workflows in the background. Start one with start_run, look at it with "
    "run_status (wait_s waits), steer it with say_to_run, answer its questions with answer_question. A run "
    "whose status is needs_a_person waits for a human being at midstream itself: tell your user so."
)

_log = logging.getLogger(__name__)


def server_of(
    engine: Callable[[], Awaitable[Engine]], *, approvals: Literal["ask", "deny"] = "ask"
) -> Server[Any]:
    """Return a server over an engine.

    Args:
        engine: gives it, once a call needs it. It stays the caller's.
        approvals: what becomes of calls that need a person's yes in runs that are started here: they
            wait for one, or are refused.
    """
    _be_quiet()
    handlers = _Handlers(engine, approvals)
    made: Server[Any] = Server(
        "midstream",
        title="midstream",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.tools,
        on_call_tool=handlers.call,
        on_list_resources=handlers.resources,
        on_list_resource_templates=handlers.templates,
        on_read_resource=handlers.read,
    )
    made.middleware.clear()  # traces are made of facts, elsewhere
    return made


def mcp_routes(
    engine: Engine,
) -> "tuple[list[Route], contextlib.AbstractAsyncContextManager[None]]":
    """Return the routes of a server over HTTP, and what has to be entered while they are served.

    Nothing is checked here: the host looks at Host, Origin and the caller's token before a request comes
    this far. A run goes on when its client has gone.

    Args:
        engine: the host's, and it stays so.
    """
    # On pipes none of it is needed.
    from mcp.server.streamable_http_manager import (
        StreamableHTTPASGIApp,
        StreamableHTTPSessionManager,
    )
    from starlette.routing import Route

    async def itself() -> Engine:
        return engine

    sessions = StreamableHTTPSessionManager(server_of(itself))
    return [Route("/mcp", StreamableHTTPASGIApp(sessions))], sessions.run()


class _Handlers:
    def __init__(
        self, engine: Callable[[], Awaitable[Engine]], approvals: Literal["ask", "deny"]
    ) -> None:
        self._engine = engine
        self._approvals: Literal["ask", "deny"] = approvals

    # --- tools ------------------------------------------------------------------------------

    async def tools(self, _: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        """Return every tool."""
        return ListToolsResult(tools=[_offer(tool) for tool in TOOLS.values()])

    async def call(
        self, context: Any, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Return what a call came to. What failed is told to the model that called."""
        tool = TOOLS.get(params.name)
        if tool is None:
            named = ", ".join(TOOLS)
            raise MCPError(
                code=INVALID_PARAMS, message=f"There is no tool {params.name[:60]!r}: {named}."
            )
        try:
            given = params.arguments or {}
            arguments = await in_thread(lambda: _decoded(tool, given))  # they may be a lot
            async with self._client(context) as client:
                return _result(await self._done(client, context, params, tool, arguments))
        except InputRequired as wanted:
            return _asked(wanted)
        except MidstreamError as error:
            return _failed(str(error))
        # An edge: whatever else goes wrong costs this call and is told, too.
        except Exception as error:
            _log.exception("the tool %s", tool.name)
            return _failed(f"{type(error).__name__}: {error}. {REPORT_BUG}")

    async def _done(
        self,
        client: Client,
        context: Any,
        params: CallToolRequestParams,
        tool: Tool,
        arguments: Arguments,
    ) -> msgspec.Struct:
        if tool.gives is not RunTold:
            found: msgspec.Struct = await tool.call(client, arguments)
            return found
        state = _state_in(params.request_state)
        wait = Wait(context, client.source, state)
        if state is None:
            acted: Acted = await tool.call(client, arguments)
        else:  # what the call was to do is done: its client comes back with answers
            acted = Acted(run=await client.run(state.run, goes_on=True))
            given = params.input_responses or {}
            await wait.answer(
                acted.run, {id: r for id, r in given.items() if isinstance(r, ElicitResult)}
            )
        seconds = getattr(arguments, "wait_s", 0)
        await wait.until(acted.run, seconds, only_looks=acted.only_looks)
        return await _told(client, acted, wait)

    # --- resources --------------------------------------------------------------------------

    async def resources(
        self, context: Any, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Return the newest runs."""
        cursor = (params.cursor if params is not None else None) or ""
        async with self._client(context) as client:
            page = await _or_refused(client.runs(ListRuns(after=cursor, limit=100)))
        return ListResourcesResult(
            resources=[
                Resource(
                    uri=f"{RUNS}{row.run}",
                    name=sanitized(row.name or f"{row.workflow} {row.run}"),
                    mime_type="application/json",
                )
                for row in page.runs
            ],
            next_cursor=page.next or None,
        )

    async def templates(
        self, _: Any, __: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Return how any run is named."""
        template = ResourceTemplate(
            uri_template=f"{RUNS}{{run}}", name="run", mime_type="application/json"
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read(self, context: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Return how a run stands."""
        if not params.uri.startswith(RUNS):
            message = f"There is no resource {params.uri[:100]!r}: {RUNS}ID."
            raise MCPError(code=INVALID_PARAMS, message=message)
        wanted = RunStatus(run=params.uri.removeprefix(RUNS)[:200])
        async with self._client(context) as client:
            told = await _told(client, await _or_refused(client.status(wanted)))
        content = TextResourceContents(
            uri=params.uri, text=_as_text(msgspec.to_builtins(told)), mime_type="application/json"
        )
        return ReadResourceResult(contents=[content])

    @contextlib.asynccontextmanager
    async def _client(self, context: Any) -> AsyncIterator[Client]:
        client = Client(await self._engine(), source_of(context), self._approvals)
        try:
            yield client
        finally:
            await client.close()


# --- from the wire --------------------------------------------------------------------------------


def source_of(context: Any) -> str:
    """Return whose words a client's words are: `mcp:` and the name it gives itself, made plain."""
    params = context.session.client_params
    name = "" if params is None else params.client_info.name
    plain = re.sub("[^A-Za-z0-9._-]+", "-", name[:200]).strip("-")[:40]
    return f"{MCP}{plain or 'client'}"


def _decoded(tool: Tool, arguments: Mapping[str, Any]) -> Arguments:
    """Return a tool's arguments.

    Raises:
        UserMistake: they are not what it takes.
    """
    try:
        decoded: Arguments = msgspec.convert(_said(checked(dict(arguments))), tool.takes)
    except BadValue as error:
        raise UserMistake(
            f"The arguments of {tool.name} are not taken: {error}.", hint=_LOOK
        ) from None
    except msgspec.ValidationError as error:
        words = str(error).replace("`$.", "`").replace(" - at ", ", at ")
        raise UserMistake(f"{tool.name} does not take that: {words}.", hint=_LOOK) from None
    return decoded


def _said(arguments: dict[str, Json]) -> dict[str, Json]:
    """Return what was said: models write null for what they leave out. An answer may be null."""
    said = {name: each for name, each in arguments.items() if each is not None or name == "answer"}
    if isinstance(budget := said.get("budget"), dict):
        said["budget"] = {name: limit for name, limit in budget.items() if limit is not None}
    return said


_LOOK: Final = "Its inputSchema says what it takes."


def _state_in(text: str | None) -> State | None:
    try:
        return None if text is None else msgspec.json.decode(text[:10_000], type=State)
    except msgspec.DecodeError:
        raise UserMistake(
            "The requestState of the call is none of this server.", hint="Call without it."
        ) from None


async def _or_refused(work: Awaitable[Any]) -> Any:
    """Return what came of work; what is refused is an error of the protocol: it was no tool's."""
    try:
        return await work
    except MidstreamError as error:
        raise MCPError(code=INVALID_PARAMS, message=_clean(str(error))) from None


# --- to the wire ------------------------------------------------------------------------------------


async def _told(client: Client, acted: Acted, wait: Wait | None = None) -> RunTold:
    process = process_of(await client.engine.info(acted.run.id))
    receipt = acted.receipt if wait is None or wait.receipt is None else wait.receipt
    return msgspec.structs.replace(run_told(acted.run, process, receipt), notices=acted.notices)


def _offer(tool: Tool) -> ToolOffer:
    return ToolOffer(
        name=tool.name,
        description=tool.words,
        input_schema=_schema(tool.takes),
        output_schema=_schema(tool.gives),
        annotations=ToolAnnotations(
            read_only_hint=tool.reads, destructive_hint=tool.ends, open_world_hint=not tool.reads
        ),
    )


def _schema(kind: Any) -> dict[str, Json]:
    """Return the JSON Schema of a type, an object at its root as the protocol wants it.

    Nothing is referred to, and what is one of some words is text: not every client follows, or infers.
    """
    _, named = msgspec.json.schema_components([kind], ref_template="{name}")

    def whole(schema: Any) -> Any:
        if isinstance(schema, list):
            return [whole(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            schema = named[schema["$ref"]] | {k: v for k, v in schema.items() if k != "$ref"}
        if "enum" in schema:
            schema = {"type": "string", **schema}
        return {key: whole(each) for key, each in schema.items()}

    found: dict[str, Json] = whole(named[kind.__name__])
    return found


def _result(value: msgspec.Struct) -> CallToolResult:
    structured = msgspec.to_builtins(value)
    return CallToolResult(
        content=[TextContent(text=_as_text(structured))], structured_content=structured
    )


def _failed(words: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=_clean(words))], is_error=True)


def _asked(wanted: InputRequired) -> InputRequiredResult:
    form = ElicitRequestFormParams(
        message=message_of(wanted.question), requested_schema=form_of(wanted.question)
    )
    return InputRequiredResult(
        input_requests={wanted.question.id: ElicitRequest(params=form)},
        request_state=msgspec.json.encode(wanted.state).decode(),
    )


def _as_text(value: Json) -> str:
    """Return a value as JSON for a model, which a client may show on a terminal."""
    return _clean(json.dumps(value, ensure_ascii=False))


def _clean(text: str) -> str:
    return sanitized(own_redactor().redacted(text))


def _be_quiet() -> None:
    """Keep the library's log, which quotes clients, off the screen."""
    log = logging.getLogger("mcp")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
        log.propagate = False

"""What an editor may ask of midstream, method by method: the agent of one connection.

`initialize` is answered by what is loaded already. A session opens an engine of its own for its folder.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from midstream._version import __version__
from midstream.agents import acp_messages as m
from midstream.agents.json_rpc import (
    BAD_PARAMS,
    NO_METHOD,
    NOT_FOUND,
    Params,
    Peer,
    Reader,
    RpcError,
    Writer,
    params_of,
)
from midstream.language.errors import NotTrusted, UserMistake, clip
from midstream.system.offloop import in_thread

if TYPE_CHECKING:
    from midstream.acp.open_files import EditorFiles
    from midstream.acp.session import Session
    from midstream.api.engine import Engine
    from midstream.app.assembly import Options

PAGE: Final = 50
"""Sessions on a page of a list."""


class Door:
    """The agent's side of one connection.

    Args:
        reader: what the editor sends.
        writer: what it hears.
        options: the command line: what every engine is opened with.
        warn: hears what went wrong that no answer tells of.
    """

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        *,
        options: "Options",
        warn: Callable[[str], None],
    ) -> None:
        self._options = options
        self._warn = warn
        self._client = m.ClientCapabilities()
        self._version = 1
        self._sessions: dict[str, Session] = {}
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._peer = Peer(
            reader,
            writer,
            on_request=self._requested,
            on_notification=self._notified,
            name="the editor",
            warn=warn,
        )

    async def run(self) -> None:
        """Serve until the editor is gone; then let go of every run, as its journal keeps it."""
        try:
            await self._peer.run()
        finally:
            for task in [*self._tasks]:
                task.cancel()
            sessions, self._sessions = [*self._sessions.values()], {}
            await asyncio.gather(*(each.close() for each in sessions), return_exceptions=True)

    async def _requested(self, method: str, params: Params) -> object:
        if self._version == 2:
            return await self._requested_2(method, params)
        if method == "initialize" and params.get("protocolVersion") == 2:
            from midstream.acp import version_2

            self._version, self._client = 2, version_2.client_of(params)
            self._do(_load())
            return version_2.initialized()
        return await self._answered(method, params)

    async def _answered(self, method: str, params: Params) -> object:
        taken = _METHODS.get(method)
        if taken is None:
            raise RpcError(NO_METHOD, f"There is no method {clip(method)}.")
        kind, answer = taken
        return await answer(self, params_of(kind, params))

    async def _requested_2(self, method: str, params: Params) -> object:
        """Answer a request of version 2 by what version 1 answers."""
        from midstream.acp import version_2

        if method not in version_2.METHODS:
            raise RpcError(NO_METHOD, f"There is no method {clip(method)}.")
        if method == "session/prompt":
            asked = params_of(m.PromptRequest, params)
            return {"messageId": await self._of(asked.session_id).begin_prompt(asked.prompt)}
        return version_2.answered(await self._answered(*version_2.asked(method, params)))

    def _notified(self, method: str, params: Params) -> None:
        if method == "session/cancel":
            session = self._sessions.get(params_of(m.SessionRequest, params).session_id)
            if session is not None:
                session.cancel()

    # --- the beginning ----------------------------------------------------------------------

    async def _initialize(self, asked: m.InitializeRequest) -> m.InitializeResponse:
        self._client = asked.client_capabilities
        self._do(_load())  # while the editor draws
        offered = m.Offered()
        return m.InitializeResponse(
            protocol_version=m.PROTOCOL_VERSION,
            agent_info=m.Implementation(name="midstream", title="midstream", version=__version__),
            agent_capabilities=m.AgentCapabilities(
                load_session=True,
                prompt_capabilities=m.PromptCapabilities(image=True, embedded_context=True),
                session_capabilities=m.SessionCapabilities(
                    list=offered, delete=offered, fork=offered, resume=offered, close=offered
                ),
            ),
            meta=m.STEERS,
        )

    async def _authenticate(self, asked: m.AuthenticateRequest) -> object:
        raise RpcError(BAD_PARAMS, "midstream has no login: keys are environment variables.")

    # --- sessions ---------------------------------------------------------------------------

    async def _new(self, asked: m.NewSessionRequest) -> m.NewSessionResponse:
        session, told = await self._opened(asked.cwd, asked.mcp_servers)
        return await self._begun(session, told)

    async def _load(self, asked: m.LoadSessionRequest) -> m.LoadSessionResponse:
        return await self._taken(asked, tells_all=True)

    async def _resume(self, asked: m.ResumeSessionRequest) -> m.LoadSessionResponse:
        return await self._taken(asked, tells_all=False)

    async def _taken(
        self, asked: m.LoadSessionRequest | m.ResumeSessionRequest, *, tells_all: bool
    ) -> m.LoadSessionResponse:
        async with self._opening:
            open_now = self._sessions.get(asked.session_id)
            if open_now is not None and open_now.run is None:
                # Nothing was said that could be told.
                return _loaded(await self._described(open_now))
            if open_now is not None:
                del self._sessions[asked.session_id]
                await open_now.close()
            session, told = await self._opened(asked.cwd, asked.mcp_servers, id=asked.session_id)
            try:
                await _require_run(session.engine, asked.session_id)
                id = await session.controls.left_by_undo(asked.session_id)
                run = await session.engine.take(id, here=True)
                await session.take(run, tells_all=tells_all)
            except BaseException:
                self._sessions.pop(session.id, None)
                await session.close()
                raise
        return _loaded(await self._begun(session, told))

    async def _fork(self, asked: m.ResumeSessionRequest) -> m.NewSessionResponse:
        session, told = await self._opened(asked.cwd, asked.mcp_servers)
        try:
            await _require_run(session.engine, asked.session_id)
            run = await session.engine.fork(asked.session_id)
            self._sessions[run.id] = session
            session.is_now(run.id)
            await session.take(run, tells_all=False)
        except BaseException:
            self._sessions.pop(session.id, None)
            await session.close()
            raise
        return await self._begun(session, told)

    async def _close(self, asked: m.SessionRequest) -> None:
        session = self._of(asked.session_id)
        del self._sessions[session.id]
        await session.halt()
        await session.close()

    async def _delete(self, asked: m.SessionRequest) -> None:
        """Delete a session with its run, which one that nothing was said in does not have."""
        import midstream

        if asked.session_id in self._sessions:
            await self._close(asked)
        async with midstream.open(Path.home(), trust=False) as engine:
            if await engine.info(asked.session_id) is not None:
                await engine.delete(asked.session_id)

    async def _list(self, asked: m.ListSessionsRequest) -> m.ListSessionsResponse:
        import midstream

        folder = Path(asked.cwd) if asked.cwd else Path.home()
        if not folder.is_dir():
            return m.ListSessionsResponse(sessions=())
        async with midstream.open(folder, trust=False) as engine:
            found = await engine.runs(
                everywhere=not asked.cwd, limit=PAGE + 1, after=asked.cursor or None
            )
        shown = found[:PAGE]
        sessions = tuple(
            m.SessionInfo(
                session_id=each.id,
                cwd=each.workspace,
                title=each.title,
                updated_at=datetime.fromtimestamp(each.updated_at, UTC).isoformat(),
            )
            for each in shown
        )
        more = shown[-1].id if len(found) > PAGE else None
        return m.ListSessionsResponse(sessions=sessions, next_cursor=more)

    async def _opened(
        self, cwd: str, servers: tuple[m.McpServer, ...], *, id: str = ""
    ) -> "tuple[Session, list[str]]":
        """Return a session with its engine, and what the person should hear of it."""
        from midstream.acp.open_files import EditorFiles
        from midstream.acp.session import Activity, Session
        from midstream.acp.version_2 import Activity2, Peer2

        folder = Path(cwd)
        if not folder.is_absolute():
            raise UserMistake(f"The folder {clip(cwd)} is not absolute.", hint="Send a whole path.")
        files = EditorFiles(self._peer, self._client.fs)
        engine, told = await self._engine(folder, files)
        if servers:
            names = ", ".join(clip(server.name) for server in servers)
            told.append(
                f"*The editor offers MCP servers ({names}). midstream starts only those of its own "
                "settings that you have approved: name them under `mcpServers` in application.json, then "
                "`midstream mcp approve NAME`.*"
            )
        activity = Activity() if self._version == 1 else Activity2(self._peer)
        key = "" if id else f"acp-{secrets.token_hex(12)}"
        session = Session(
            id or engine.run_id(key),
            engine,
            key=key,
            cwd=folder,
            peer=self._peer if self._version == 1 else Peer2(self._peer),
            client=self._client,
            warn=self._warn,
            files=files,
            activity=activity,
            allowed=self._options.allowed,
        )
        self._sessions[session.id] = session
        return session, told

    async def _engine(self, folder: Path, files: "EditorFiles") -> "tuple[Engine, list[str]]":
        import midstream

        opened = partial(
            midstream.open,
            folder,
            model=self._options.model,
            permissions=self._options.permission_mode,
            open_files=files if self._client.fs.read_text_file else None,
        )
        try:
            engine = await opened(trust=self._options.trusts_workspace)
        except NotTrusted as error:
            engine = await opened(trust=False)
            return engine, [
                f"*{error.what} It is left alone, and agents only read here. Look at it and trust it with "
                "`midstream trust` in a terminal, then begin a new session.*"
            ]
        return engine, [f"*{notice}*" for notice in engine.notices]

    async def _begun(self, session: "Session", told: list[str]) -> m.NewSessionResponse:
        answer = await self._described(session)
        # Behind the answer: before it the editor knows of no such session.
        self._do(session.begin(told=told))
        return answer

    async def _described(self, session: "Session") -> m.NewSessionResponse:
        from midstream.acp.options import modes_of

        return m.NewSessionResponse(
            session_id=session.id,
            modes=modes_of(session.controls),
            config_options=await session.options(),
        )

    def _of(self, id: str) -> "Session":
        session = self._sessions.get(id)
        if session is None:
            raise RpcError(
                NOT_FOUND,
                f"The session {clip(id)} is not open here.",
                {"hint": "session/load takes it up."},
            )
        return session

    # --- in a session -----------------------------------------------------------------------

    async def _prompt(self, asked: m.PromptRequest) -> m.PromptResponse:
        return m.PromptResponse(stop_reason=await self._of(asked.session_id).prompt(asked.prompt))

    async def _steer(self, asked: m.SteeringRequest) -> m.SteeringResponse:
        how = (asked.meta or {}).get("steering")
        begins = not (isinstance(how, dict) and how.get("idleBehavior") == "promptRequired")
        return await self._of(asked.session_id).steer(asked.prompt, begins=begins)

    async def _set_mode(self, asked: m.SetSessionModeRequest) -> None:
        await self._of(asked.session_id).choose("mode", asked.mode_id)

    async def _set_option(
        self, asked: m.SetSessionConfigOptionRequest
    ) -> m.SetSessionConfigOptionResponse:
        session = self._of(asked.session_id)
        if not isinstance(asked.value, str):
            raise RpcError(BAD_PARAMS, f"The option {clip(asked.config_id)} takes a name.")
        await session.choose(asked.config_id, asked.value)
        return m.SetSessionConfigOptionResponse(config_options=await session.options())

    def _do(self, work: Awaitable[None]) -> None:
        async def done() -> None:
            try:
                await work
            # An edge: nobody waits for it.
            except Exception as error:
                self._warn(f"{type(error).__name__}: {error}")

        task = asyncio.create_task(done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _loaded(made: m.NewSessionResponse) -> m.LoadSessionResponse:
    return m.LoadSessionResponse(modes=made.modes, config_options=made.config_options)


async def _require_run(engine: "Engine", id: str) -> None:
    if await engine.info(id) is None:
        raise RpcError(
            NOT_FOUND, f"There is no run {clip(id)}.", {"hint": "midstream runs --all lists them."}
        )


async def _load() -> None:
    def load() -> None:
        from midstream.acp import session
        from midstream.app import assembly

        assert session
        assert assembly

    await in_thread(load, name="midstream-acp-load")


_METHODS: Final[dict[str, tuple[Any, Callable[[Door, Any], Awaitable[object]]]]] = {
    "initialize": (m.InitializeRequest, Door._initialize),
    "authenticate": (m.AuthenticateRequest, Door._authenticate),
    "session/new": (m.NewSessionRequest, Door._new),
    "session/load": (m.LoadSessionRequest, Door._load),
    "session/resume": (m.ResumeSessionRequest, Door._resume),
    "session/fork": (m.ResumeSessionRequest, Door._fork),
    "session/list": (m.ListSessionsRequest, Door._list),
    "session/close": (m.SessionRequest, Door._close),
    "session/delete": (m.SessionRequest, Door._delete),
    "session/prompt": (m.PromptRequest, Door._prompt),
    m.STEERING: (m.SteeringRequest, Door._steer),
    "session/set_mode": (m.SetSessionModeRequest, Door._set_mode),
    "session/set_config_option": (m.SetSessionConfigOptionRequest, Door._set_option),
}

"""An editor that talks to midstream over the Agent Client Protocol, in this process or to the program."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.openai_server import OpenAIServer, Step
from support.wires import Wire

from midstream.acp.door import Door
from midstream.agents.json_rpc import Params, Peer, no_method
from midstream.app.assembly import Options

ASKS: dict[str, Any] = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "elicitation": {"form": {}},
}
"""What an editor can that shows forms."""

Answer = Callable[[Params], Awaitable[object] | object]


class Editor:
    """An editor: what it was told, and what it answers."""

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.asked: list[tuple[str, Any]] = []
        self.answers: dict[str, Answer] = {}
        self.warnings: list[str] = []
        self.version = 1
        self._news = asyncio.Event()
        self.peer: Peer

    def connect(self, reader: Any, writer: Any) -> None:
        self.peer = Peer(reader, writer, on_request=self._answer, on_notification=self._hear)

    def _hear(self, method: str, params: Params) -> None:
        assert method == "session/update", method
        self.updates.append(params)
        self._news.set()

    async def _answer(self, method: str, params: Params) -> object:
        self.asked.append((method, params))
        self._news.set()
        answer = self.answers.get(method)
        if answer is None:
            return await no_method(method, params)
        made = answer(params)
        return await made if isinstance(made, Awaitable) else made

    async def call(self, method: str, **params: Any) -> Any:
        return await self.peer.request(method, params)

    async def initialize(self, **capabilities: Any) -> Any:
        return await self.call(
            "initialize", protocolVersion=1, clientCapabilities=capabilities or {}
        )

    async def opened(self, work: Path, **capabilities: Any) -> str:
        """Say what it can, and begin a session in a folder; return its id."""
        await self.initialize(**capabilities)
        return await self.new(work)

    async def new(self, cwd: Path, **more: Any) -> str:
        made = await self.call("session/new", cwd=str(cwd), mcpServers=[], **more)
        return str(made["sessionId"])

    def begin(self, session: str, text: str) -> "asyncio.Task[Any]":
        """Return a prompt that was sent."""
        return asyncio.create_task(self.prompt(session, text))

    async def prompt(self, session: str, text: str) -> str:
        blocks = [{"type": "text", "text": text}]
        answer = await self.call("session/prompt", sessionId=session, prompt=blocks)
        return str(answer["stopReason"])

    async def cancel(self, session: str) -> None:
        await self.peer.notify("session/cancel", {"sessionId": session})

    async def until(self, fits: Callable[["Editor"], object]) -> None:
        """Return once something holds of what the editor was told."""
        while not fits(self):
            self._news.clear()
            await self._news.wait()

    def told(self, kind: str, session: str = "") -> list[dict[str, Any]]:
        """Return the updates of a kind."""
        return [
            each["update"]
            for each in self.updates
            if each["update"]["sessionUpdate"] == kind and session in ("", each["sessionId"])
        ]

    def text(self, session: str = "") -> str:
        """Return the agent's words so far."""
        return "".join(
            each["content"]["text"] for each in self.told("agent_message_chunk", session)
        )

    def require_schema(self) -> None:
        """Raise where something midstream sent does not fit the protocol's schema, if that is here."""
        name = "SessionNotification" if self.version == 1 else "UpdateSessionNotification"
        for update in self.updates:
            fits(self.version, name, update)
        for method, params in self.asked:
            fits(self.version, _ASKED[method], params)

    def users(self) -> list[str]:
        return [each["content"]["text"] for each in self.told("user_message_chunk")]


SCHEMAS = Path(__file__).parents[1] / "npm/node_modules/@agentclientprotocol/sdk/schema"
_ASKED = {
    "session/request_permission": "RequestPermissionRequest",
    "elicitation/create": "CreateElicitationRequest",
    "fs/read_text_file": "ReadTextFileRequest",
    "fs/write_text_file": "WriteTextFileRequest",
}


@cache
def _validator(version: int, name: str) -> Any:
    text = (SCHEMAS / f"v{version}" / "schema.json").read_text(encoding="utf-8")
    defs = json.loads(text)["$defs"]
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": defs})


def fits(version: int, name: str, value: Any) -> None:
    """Raise where a value is not such a message of the protocol."""
    if not SCHEMAS.exists():
        return
    for error in _validator(version, name).iter_errors(value):
        raise AssertionError(f"{name}: {error.message} in {value}")


@pytest.fixture
def home(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings, a journal and a workspace of its own."""
    monkeypatch.setenv("MIDSTREAM_MODEL", "openai:gpt-4o-mini")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-not-a-key")
    (own_folder / "work").mkdir()
    return own_folder


@pytest.fixture
def work(home: Path) -> Path:
    return home / "work"


@asynccontextmanager
async def talking(*script: Step) -> AsyncIterator[tuple[Editor, OpenAIServer]]:
    """Give an editor that talks to a door of this process, over a model that says the script."""
    with OpenAIServer(script) as server, pytest.MonkeyPatch.context() as patched:
        patched.setenv("OPENAI_BASE_URL", server.base_url)
        async with connected() as editor:
            yield editor, server


@asynccontextmanager
async def connected() -> AsyncIterator[Editor]:
    """Give an editor that talks to a door of this process."""
    there, back = Wire(), Wire()
    editor = Editor()
    editor.connect(back, there)
    door = Door(there, back, options=Options(workspace=Path()), warn=editor.warnings.append)
    serving = asyncio.create_task(door.run())
    reading = asyncio.create_task(editor.peer.run())
    try:
        yield editor
    finally:
        there.feed_eof()
        await serving
        back.feed_eof()
        await reading
    assert not editor.warnings
    editor.require_schema()


@asynccontextmanager
async def program(*arguments: str, cwd: Path) -> AsyncIterator[tuple[Editor, Any]]:
    """Give an editor that talks to the real program, and its process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "midstream", "acp", *arguments),
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    editor = Editor()
    editor.connect(process.stdout, process.stdin)
    reading = asyncio.create_task(editor.peer.run())
    try:
        yield editor, process
    finally:
        process.stdin.close()
        await process.wait()
        with suppress(asyncio.CancelledError):
            await reading


def options(answer: Any, id: str) -> Sequence[str]:
    """Return the values of an option of a session."""
    (found,) = [each for each in answer["configOptions"] if each["id"] == id]
    return [each["value"] for each in found["options"]]

"""What the tests of the model side share: a listener that remembers, a clock that jumps."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from deadline import jump
from support.openai_server import Gate, OpenAIServer

from midstream.core.conversation import Message, ToolCall, ToolResult
from midstream.core.events import Usage
from midstream.language.names import Json
from midstream.language.spec import ToolSpec
from midstream.models.api_client import AIAPIClient, Limits
from midstream.models.provider_errors import Backoff
from midstream.runtime.ports import ModelReply, ModelRequest

KEY = "sk-very-secret-0123456789"
LEVELS = {"base": "openai:gpt-5", "smart": "openai:gpt-5-pro", "fast": "openai:gpt-5-mini"}
PATIENT = Limits(max_reply_bytes=200_000)

ADD = ToolSpec(
    name="add",
    description="Adds two numbers.",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)


class JumpingTime:
    """A clock whose sleeps pass at once and are remembered."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return 1_700_000_000.0 + sum(self.slept)

    def monotonic(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


class Ears:
    """A listener that remembers all it hears, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.first_words = asyncio.Event()
        self.used: Callable[[], Usage | None] = lambda: None

    def text(self, delta: str) -> None:
        self.events.append(("text", delta))
        self.first_words.set()

    def thinking(self, delta: str) -> None:
        self.events.append(("thinking", delta))

    def calling(self, name: str) -> None:
        self.events.append(("calling", name))

    def status(self, text: str) -> None:
        self.events.append(("status", text))

    def metered(self, used: Callable[[], Usage | None]) -> None:
        self.used = used

    def heard(self, kind: str) -> list[str]:
        return [words for what, words in self.events if what == kind]

    @property
    def words(self) -> str:
        return "".join(self.heard("text"))


class JumpingEars(Ears):
    """Ears that let so many seconds pass after each piece of the words, and then open a gate."""

    def __init__(self, seconds: float, gate: Gate | None = None) -> None:
        super().__init__()
        self._seconds = seconds
        self._gate = gate

    def text(self, delta: str) -> None:
        super().text(delta)
        jump(self._seconds)
        if self._gate is not None:
            self._gate.open()


def needs_integers(value: Json, schema: dict[str, Json]) -> str:
    """A validator that knows of `required` and of integers, and nothing else."""
    for name in schema.get("required", ()):
        if name not in value:
            return f"{name!r} is required"
        if not isinstance(value[name], int):
            return f"{value[name]!r} is not of type 'integer'"
    return ""


def client_of(
    address: OpenAIServer | str, environ: Mapping[str, str] | None = None, **options: Any
) -> AIAPIClient:
    base_url = address if isinstance(address, str) else address.base_url
    chosen: dict[str, Any] = {
        "clock": JumpingTime(),
        "validator": needs_integers,
        "limits": PATIENT,
        "backoff": Backoff(),
        "jitter": lambda: 0.0,
        "environ": {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": base_url, **(environ or {})},
    }
    return AIAPIClient(options.pop("levels", LEVELS), **(chosen | options))


def said(text: str = "Hello", *more: Message, **fields: Any) -> ModelRequest:
    messages = (Message(role="user", text=text), *more)
    return ModelRequest(**({"agent": "dude", "system": "Be brief.", "messages": messages} | fields))


def called(*results: str, text: str = "") -> Message:
    """An assistant's message with as many calls of `add` as there are results."""
    numbered = list(enumerate(results, 1))
    return Message(
        role="assistant",
        text=text,
        author="dude",
        calls=tuple(
            ToolCall(id=f"call_{n}", name="add", arguments={"a": n, "b": n}) for n, _ in numbered
        ),
        results=tuple(
            ToolResult(call_id=f"call_{n}", outcome="completed", text=result)
            for n, result in numbered
        ),
    )


async def ask(client: AIAPIClient, request: ModelRequest, ears: Ears | None = None) -> ModelReply:
    """One request, the client closed after it."""
    try:
        return await client.request(request, ears or Ears())
    finally:
        await client.aclose()

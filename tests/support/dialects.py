"""Whether every provider would take a request: sent as `AIAPIClient` sends it, judged by strict rules.

Nothing leaves the process: a transport that is no network keeps the bodies the provider's own
library made. So what is judged is what would have gone over the wire, whoever mapped it.
"""

import asyncio
import functools
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

import msgspec

from midstream.core.events import Usage
from midstream.language.errors import MidstreamError
from midstream.language.names import Json
from midstream.models.api_client import AIAPIClient
from midstream.models.provider_errors import Backoff
from midstream.runtime.ports import ModelRequest
from midstream.testing.fakes import JumpingClock
from support import anthropic_rules, google_rules, openai_rules

if TYPE_CHECKING:
    import httpx2

MODELS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("openai:gpt-5",),
    "anthropic": ("anthropic:claude-haiku-4-5", "anthropic:claude-opus-5"),
    "google": ("google:gemini-2.5-pro", "google:gemini-3-pro-preview"),
}
"""The models whose requests are judged: where an API asks newer ones for more, an older and a newer."""

DIALECTS: Final = tuple(MODELS)

_SENT: ContextVar[list[Json]] = ContextVar("midstream_sent_bodies")


def problems_in(request: ModelRequest, dialect: str) -> list[str]:
    """Return why a provider would refuse a request, [] when it would take it.

    Takes a few milliseconds, the first time the seconds in which its library loads. May be called
    from anywhere, a running event loop included, which it blocks.

    Args:
        request: as a run makes it. The model it names is replaced by those of `MODELS`.
        dialect: openai, anthropic or google.

    Raises:
        KeyError: there is no such dialect.
        MidstreamError: the client did not come to send the request.
    """
    found: list[str] = []
    for model in MODELS[dialect]:
        body = body_of(request, model)
        found += [f"{model}: {problem}" for problem in _RULES[dialect](body, model)]
    return found


def body_of(request: ModelRequest, model: str) -> Json:
    """Return the JSON body `AIAPIClient` sends for a request to a model, such as `openai:gpt-5`.

    Raises:
        MidstreamError: the client did not come to send the request.
    """
    sent: list[Json] = []
    troubles: list[MidstreamError] = []

    def ask() -> None:
        _SENT.set(sent)
        try:
            asyncio.run(_ask(msgspec.structs.replace(request, model=model)))
        except MidstreamError as trouble:
            # The answer to every request is a refusal; it matters only where nothing was sent.
            troubles.append(trouble)

    # A thread has no running loop, whatever the caller has.
    thread = threading.Thread(target=ask, name="midstream-dialects")
    thread.start()
    thread.join()
    if not sent:
        raise troubles[0]
    return sent[-1]


async def _ask(request: ModelRequest) -> None:
    await _client().request(request, _Deaf())


@functools.cache
def _client() -> AIAPIClient:
    import httpx2

    return AIAPIClient(
        {},
        clock=JumpingClock(),
        validator=lambda value, schema: "",
        backoff=Backoff(attempts=1),
        environ={
            "OPENAI_API_KEY": "sk-none",
            "ANTHROPIC_API_KEY": "sk-none",
            "GOOGLE_API_KEY": "sk-none",
        },
        transport=httpx2.MockTransport(_keep),
    )


async def _keep(request: "httpx2.Request") -> "httpx2.Response":
    import httpx2

    _SENT.get().append(msgspec.json.decode(await request.aread()))
    return httpx2.Response(400, json={"error": {"message": "kept"}})


class _Deaf:
    """A listener nobody listens through."""

    def text(self, delta: str) -> None:
        """Hear nothing."""

    def thinking(self, delta: str) -> None:
        """Hear nothing."""

    def calling(self, name: str) -> None:
        """Hear nothing."""

    def status(self, text: str) -> None:
        """Hear nothing."""

    def metered(self, used: Callable[[], Usage | None]) -> None:
        """Hear nothing."""


def _of_openai(body: Json, model: str) -> list[str]:
    refused = openai_rules.refusal(body)
    return [] if refused is None else [refused.message]


def _of_google(body: Json, model: str) -> list[str]:
    return google_rules.problems(body, model=model.partition(":")[2])


_RULES: Final[Mapping[str, Callable[[Json, str], list[str]]]] = {
    "openai": _of_openai,
    "anthropic": lambda body, model: anthropic_rules.problems(body),
    "google": _of_google,
}

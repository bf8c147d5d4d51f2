"""Providers' models by name, over one HTTP client that is kept from request to request.

The client follows no redirects (a key goes to the host it is meant for), retries nothing, and lets a
`Watch` see every byte of an answer: the SDKs buffer a line without limit, so a cap further up would
come too late.
"""

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from midstream.ai.naming import KEYS, is_offline, provider_of
from midstream.core.errors import UserMistake
from midstream.core.nearest import did_you_mean, nearest

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model as TheirModel
    from pydantic_ai.providers import Provider

Watch: TypeAlias = Callable[[bytes], None]
"""Hears the bytes of an answer as they come. What it raises ends the answer."""

WATCH: ContextVar[Watch | None] = ContextVar("midstream_reply_watch", default=None)
"""The watch over the answer to the request being made in this task."""

CONNECT_S: Final = 10.0

_SPARSE: Final = 16
"""Bytes a line has at least, on average, in an answer that means well."""
_SLICE: Final = 1_024

NO_KEY: Final = "not-set"
"""Sent where an own endpoint is set and no key: most local servers want any, and check none."""

OLLAMA_ADDRESS: Final = "OLLAMA_BASE_URL"
OLLAMA_HERE: Final = "http://127.0.0.1:11434/v1"

_CHAT: Final = ("openai", "openai-chat")
_OPENAI: Final = (*_CHAT, "openai-responses")
_TAKES_OUR_CLIENT: Final = ("openrouter", "deepseek")


class _Endpoint(msgspec.Struct, frozen=True):
    """Where a provider is asked, and the environment variables that say otherwise."""

    title: str
    keys: tuple[str, ...]
    address: str
    default: str


_ENDPOINTS: Final = {
    "openai": _Endpoint(
        "OpenAI", ("OPENAI_API_KEY",), "OPENAI_BASE_URL", "https://api.openai.com/v1"
    ),
    "anthropic": _Endpoint(
        "Anthropic", ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL", "https://api.anthropic.com"
    ),
    "google": _Endpoint(
        "Google",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        "GOOGLE_GEMINI_BASE_URL",
        "https://generativelanguage.googleapis.com",
    ),
}
"""The providers whose endpoint the official libraries read from the environment, as they do."""


def address_of(name: str, environ: Mapping[str, str]) -> str:
    """Return the address a model's provider is asked at, "" where only its library knows it.

    Raises:
        UserMistake: the environment names one that is none.
    """
    known = _ENDPOINTS.get(provider_of(name))
    if known is None:
        return _ollama(environ) if provider_of(name) == "ollama" else ""
    address = environ.get(known.address, "").strip()
    if address:
        _check_address(known.address, address)
    return address or known.default


def doubts_about(name: str, environ: Mapping[str, str]) -> str:
    """Return what speaks against a model's name that has the right form, "" where nothing does.

    A provider may have models that the library does not name; where an endpoint of one's own is set
    any name may be right. Blocks (it imports the library): call it off the loop.

    Raises:
        UserMistake: there is no such provider.
    """
    from typing import get_args

    from pydantic_ai.models import KnownModelName
    from pydantic_ai.providers import infer_provider_class

    provider, _, model = name.partition(":")
    if is_offline(name):
        return ""
    try:
        infer_provider_class(provider)
    except (ValueError, ImportError) as error:
        if isinstance(error, ImportError):
            return f"{name} needs a package that is not installed."
        raise UserMistake(
            f"There is no provider {provider!r} of models.", hint=did_you_mean(provider, KEYS)
        ) from None
    endpoint = _ENDPOINTS.get(provider)
    if endpoint is not None and environ.get(endpoint.address, "").strip():
        return ""
    own = [
        known.partition(":")[2]
        for known in get_args(KnownModelName.__value__)
        if known.startswith(f"{provider}:")
    ]
    if not own or model in own:
        return ""
    best = nearest(model, own)
    meant = f" Did you mean {provider}:{best}?" if best else ""
    return f"{model} is no name of {provider} that is known here; it is tried all the same.{meant}"


class Providers:
    """Makes models and keeps them.

    Args:
        environ: where keys and endpoints stand.
        transport: what carries requests instead of the network.
    """

    def __init__(
        self, environ: Mapping[str, str], *, transport: "httpx2.AsyncBaseTransport | None" = None
    ) -> None:
        self._environ = environ
        self._transport = transport
        self._client: httpx2.AsyncClient | None = None
        self._models: dict[str, TheirModel] = {}
        self._lock = threading.Lock()

    def known(self, name: str) -> "TheirModel | None":
        """Return the model of that name if it was made before."""
        return self._models.get(name)

    def make(self, name: str) -> "TheirModel":
        """Return the model of that name. Blocks (imports, certificates): call it off the loop.

        Raises:
            UserMistake: the key or the endpoint is missing or malformed.
            Exception: what the provider's library raises for a name it does not know.
        """
        with self._lock:
            if name not in self._models:
                self._models[name] = self._made(name)
            return self._models[name]

    async def aclose(self) -> None:
        """Close every connection; models made before cannot be used any more."""
        models, self._models = self._models, {}
        client, self._client = self._client, None
        for model in models.values():
            # Entering and leaving is the public way to close a client the provider made itself.
            async with model:
                pass
        if client is not None:
            await client.aclose()

    def _made(self, name: str) -> "TheirModel":
        from pydantic_ai.models import infer_model
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.profiles.openai import OpenAIModelProfile

        provider, _, model = name.partition(":")
        if provider in _CHAT:
            # Without a finish reason nobody can tell a complete reply from one cut off.
            profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
            return OpenAIChatModel(model, provider=self._openai(), profile=profile)
        return infer_model(name, provider_factory=self._provider)

    def _provider(self, provider: str) -> "Provider[Any]":
        from pydantic_ai.providers import infer_provider, infer_provider_class

        if provider in _OPENAI:
            return self._openai()
        if provider == "anthropic":
            return self._anthropic()
        if provider == "google":
            return self._google()
        if provider == "ollama":
            from pydantic_ai.providers.ollama import OllamaProvider

            return OllamaProvider(base_url=_ollama(self._environ), http_client=self._http())
        try:
            infer_provider_class(provider)
        except ValueError:
            raise UserMistake(
                f"There is no provider {provider!r} of models.", hint=did_you_mean(provider, KEYS)
            ) from None
        if provider not in _TAKES_OUR_CLIENT:
            return infer_provider(provider)
        kind: Callable[..., Provider[Any]] = infer_provider_class(provider)
        takes_client = "http_client" in inspect.signature(kind).parameters
        return kind(http_client=self._http()) if takes_client else kind()

    def _openai(self) -> "Provider[Any]":
        from pydantic_ai.providers.openai import OpenAIProvider

        address, key = self._endpoint("openai")
        return OpenAIProvider(base_url=address, api_key=key, http_client=self._http())

    def _anthropic(self) -> "Provider[Any]":
        from pydantic_ai.providers.anthropic import AnthropicProvider

        address, key = self._endpoint("anthropic")
        return AnthropicProvider(base_url=address, api_key=key, http_client=self._http())

    def _google(self) -> "Provider[Any]":
        from pydantic_ai.providers.google import GoogleProvider

        address, key = self._endpoint("google")
        return GoogleProvider(base_url=address, api_key=key, http_client=self._http())

    def _endpoint(self, provider: str) -> tuple[str, str]:
        """Return the address and the key of a provider, both whole.

        Raises:
            UserMistake: there is neither key nor address, or one of them is malformed.
        """
        known = _ENDPOINTS[provider]
        address = self._environ.get(known.address, "").strip()
        keys = {name: self._environ.get(name, "").strip() for name in known.keys}
        name, key = next(((n, key) for n, key in keys.items() if key), ("", ""))
        if not key and not address:
            raise UserMistake(
                f"No key for {known.title} is set.",
                hint=f"Set {' or '.join(known.keys)}, or {known.address} for an endpoint of your own.",
            )
        if address:
            _check_address(known.address, address)
        if not key.isascii() or not key.isprintable() or " " in key:
            raise UserMistake(
                f"{name} holds characters that no key has.",
                hint="Copy the key again, without quotes or line breaks.",
            )
        return address or known.default, key or NO_KEY

    def _http(self) -> "httpx2.AsyncClient":
        import httpx2

        if self._client is None:
            self._client = httpx2.AsyncClient(
                timeout=httpx2.Timeout(None, connect=CONNECT_S),
                limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
                follow_redirects=False,
                # What comes packed grows after it was counted.
                headers={"accept-encoding": "identity"},
                transport=self._transport,
                event_hooks={"response": [_let_be_watched]},
            )
        return self._client


def _ollama(environ: Mapping[str, str]) -> str:
    """Return where Ollama is asked: on this machine, at its own port, unless a variable says where."""
    address = environ.get(OLLAMA_ADDRESS, "").strip()
    if address:
        _check_address(OLLAMA_ADDRESS, address)
    return address or OLLAMA_HERE


def _check_address(variable: str, address: str) -> None:
    try:
        parts = urlsplit(address)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_whole = False
    if not is_whole:
        raise UserMistake(
            f"{variable} is {address!r:.100}, which is no address of an endpoint.",
            hint="Write it whole, such as http://127.0.0.1:11434/v1.",
        )


class PackedAnswer(Exception):
    """A provider packed its answer, which nobody had asked for."""

    def __init__(self) -> None:
        super().__init__("the answer is compressed, which was not asked for")


async def _let_be_watched(response: "httpx2.Response") -> None:
    if response.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
        raise PackedAnswer
    watch = WATCH.get()
    if watch is not None:
        response.stream = _watched_stream()(response.stream, watch)


@functools.cache
def _watched_stream() -> Any:
    from httpx2 import AsyncByteStream

    class Watched(AsyncByteStream):
        """A stream whose bytes a watch sees before anybody else does."""

        def __init__(self, stream: AsyncByteStream, watch: Watch) -> None:
            self._stream = stream
            self._watch = watch

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for content in self._stream:
                self._watch(content)
                if content.count(b"\n") * _SPARSE <= len(content):
                    yield content
                    continue
                # So many lines that reading them would hold the loop.
                for start in range(0, len(content), _SLICE):
                    await asyncio.sleep(0)
                    yield content[start : start + _SLICE]

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Watched

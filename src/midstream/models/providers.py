"""Models by name: asked in a dialect spoken here, or through the library for all others.

What a request becomes is made in a thread; on the loop it is only sent. Connections are kept from
request to request.
"""

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from midstream.models.anthropic_messages import AnthropicModel
from midstream.models.endpoints import ENDPOINTS, address_and_key
from midstream.models.http_stream import Watch, http_client
from midstream.models.openai_chat import OpenAIModel
from midstream.models.reply_stream import Answer, Heard
from midstream.runtime.ports import ModelRequest

if TYPE_CHECKING:
    import httpx2

    from midstream.models.pydantic_ai import Library


class Speaker(Protocol):
    """A model that can be asked."""

    async def ask(self, request: ModelRequest, heard: Heard, watch: Watch) -> Answer:
        """Return the answer to a request, its words heard as they come.

        Raises:
            Exception: what `provider_errors.trouble_of` makes words of.
        """


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
        self._library: Library | None = None
        self._speakers: dict[str, Speaker] = {}
        self._lock = threading.Lock()

    def known(self, name: str) -> Speaker | None:
        """Return the model of that name if it was made before."""
        return self._speakers.get(name)

    def make(self, name: str) -> Speaker:
        """Return the model of that name. Blocks (imports, certificates): call it off the loop.

        Raises:
            UserMistake: the key or the endpoint is missing or malformed.
            Exception: what the library raises for a name it does not know.
        """
        with self._lock:
            if name not in self._speakers:
                self._speakers[name] = self._made(name)
            return self._speakers[name]

    async def aclose(self) -> None:
        """Close every connection; models made before cannot be used any more."""
        speakers, self._speakers = self._speakers, {}
        client, self._client = self._client, None
        library, self._library = self._library, None
        if library is not None:
            from midstream.models.pydantic_ai import LibraryModel

            for speaker in speakers.values():
                if isinstance(speaker, LibraryModel):
                    await speaker.aclose()
            await library.aclose()
        if client is not None:
            await client.aclose()

    def _made(self, name: str) -> Speaker:
        provider = name.partition(":")[0]
        known = ENDPOINTS.get(provider)
        if known is None or known.dialect == "library":
            return self._of_library(name)
        address, key = address_and_key(provider, self._environ)
        if self._client is None:
            self._client = http_client(self._transport)
        kind = AnthropicModel if known.dialect == "anthropic" else OpenAIModel
        return kind(self._client, address.rstrip("/"), key, name)

    def _of_library(self, name: str) -> Speaker:
        from midstream.models.pydantic_ai import Library

        if self._library is None:
            self._library = Library(self._environ, self._transport)
        return self._library.model(name)

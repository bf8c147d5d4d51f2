"""What answers an agent, and which models a person may choose from."""

from typing import Protocol

import msgspec

from midstream.core.conversation import Message
from midstream.core.events import Usage
from midstream.core.inputs import RequestedCall
from midstream.language.names import Json
from midstream.language.spec import ToolSpec


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model.

    `messages` are as the agent sees them: its own words as `assistant`, one result for each call.
    `level` is base, smart or fast; `model` (such as `openai:gpt-5`) overrides what the level names.
    With `must_call` the model has to call one of `tools`. What follows `must_call` tells the offline
    model where in which workflow it is; `visit` counts entries into the state from 1, `request` the
    requests of this turn from 1.
    """

    agent: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    level: str = "base"
    model: str | None = None
    must_call: bool = False
    workflow: str = ""
    state: str = ""
    visit: int = 1
    request: int = 1
    common_data: dict[str, Json] = {}
    variables: dict[str, Json] = {}
    input: Json = None


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A model's whole reply. `calls` are checked against the tools' schemas (`problem`)."""

    text: str
    calls: tuple[RequestedCall, ...] = ()
    usage: Usage | None = None


class ReplyListener(Protocol):
    """Hears a reply as it streams. Every method returns at once."""

    def text(self, delta: str) -> None:
        """Hear the next piece of the reply's words."""

    def thinking(self, delta: str) -> None:
        """Hear the next piece of the model's reasoning."""

    def calling(self) -> None:
        """Hear that the model has begun to ask for a tool."""

    def status(self, text: str) -> None:
        """Hear what the request is doing, such as waiting to retry."""


class Model(Protocol):
    """Models of all providers behind one method. Cancelling the call closes the stream."""

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return the reply to one request, its words told to `listener` as they come.

        Raises:
            WorldTrouble: the provider failed for good, or the stream was cut off.
            UserMistake: the model cannot be used as configured (no key, unknown name).
        """


class Models(Protocol):
    """Which models are used, and for which level."""

    def describe(self) -> str:
        """Return what is used now, in a few words for the bottom line."""

    def use(self, name: str | None, level: str | None = None) -> None:
        """Use this model for every level from now on, or for one; None: what the settings name.

        Raises:
            UserMistake: no model can be meant by that name, or there is no such level.
        """

    def levels(self) -> tuple[tuple[str, str, str], ...]:
        """Return (level, the model that answers it now, the model the settings name) for each."""

    async def doubts(self, name: str) -> str:
        """Return what speaks against a name that may be right all the same, "" where nothing does.

        Raises:
            UserMistake: no model can be meant by that name, or its provider is not set up.
        """

    def known(self) -> tuple[tuple[str, str], ...]:
        """Return (level or name, model) pairs a person may choose from."""

    def names(self) -> tuple[str, ...]:
        """Return the names of further models that are known now, of providers that are set up."""

    async def look_here(self) -> None:
        """Look for `names`: ask servers on this machine what they have, and load the list of the others."""

    async def window(self, level: str) -> tuple[str, int | None]:
        """Return the model that answers a level now, and how many tokens it takes, None: unknown."""

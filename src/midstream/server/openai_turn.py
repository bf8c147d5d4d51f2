"""A turn told in one of OpenAI's protocols, whole or as it streams; a `Form` is how one of them says it."""

import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Protocol, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from midstream.core import events as e
from midstream.core.events import Usage
from midstream.language.errors import MidstreamError, WorldTrouble
from midstream.language.names import Json
from midstream.server.answering import EventStream, while_there
from midstream.server.conversations import Asked, Conversations, Spoken
from midstream.server.openai_asked import failure
from midstream.server.words import Piece, Words


class Told:
    """What the answer to a request is made of, beside its pieces."""

    def __init__(self, asked: Asked, spoken: Spoken) -> None:
        self.asked = asked
        self.spoken = spoken
        self.created = int(time.time())
        self.usages: list[Usage] = []

    @property
    def usage(self) -> tuple[int, int, int]:
        """Return the tokens that were given and made, and how many of the given came from a cache."""
        return (
            sum(each.input_tokens for each in self.usages),
            sum(each.output_tokens for each in self.usages),
            sum(each.cached_tokens for each in self.usages),
        )

    def stands(self) -> dict[str, Json]:
        """Return what only we can say: which run it is, how it stands, and what it came to."""
        run = self.spoken.run
        found: dict[str, Json] = {"run": run.id, "status": run.status}
        if run.output is not None:
            found["output"] = run.output
        if self.spoken.is_overtaken:
            found["overtaken"] = True
        if self.asked.left_out:
            found["left_out"] = [*self.asked.left_out]
        return found


class Form(Protocol):
    """How a protocol tells a turn: events, as bytes to send, of a stream; or all of it at its end."""

    def begin(self) -> Iterator[bytes]:
        """Yield what a stream begins with."""

    def piece(self, piece: Piece) -> Iterator[bytes]:
        """Yield the events of some words. To be iterated for a whole answer, too."""

    def end(self) -> Iterator[bytes]:
        """Yield what a stream ends with."""

    def fail(self, error: MidstreamError) -> Iterator[bytes]:
        """Yield what a stream ends with that went wrong."""

    def whole(self) -> dict[str, Any]:
        """Return the whole answer."""


FormOf: TypeAlias = Callable[[Told], Form]


class Answer:
    """The answer to a request: an ASGI application."""

    def __init__(
        self,
        chats: Conversations,
        request: Request,
        asked: Asked,
        *,
        form: FormOf,
        is_stream: bool,
    ) -> None:
        self._chats = chats
        self._request = request
        self._asked = asked
        self._form_of = form
        self._is_stream = is_stream
        self._error: MidstreamError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say the words, and answer; see ASGI."""
        # Only who streams can be told, while it waits, that a person is waited for.
        speaking = self._chats.speak(self._asked, through_approvals=self._is_stream)
        try:
            spoken = await speaking.__aenter__()
        except MidstreamError as error:
            await failure(error)(scope, receive, send)
            return
        told = Told(self._asked, spoken)
        form = self._form_of(told)
        headers = {"x-midstream-run": spoken.run.id}
        try:
            if self._is_stream:
                stream = self._stream(told, form)
                events = EventStream(self._request, stream, spoken.halt, headers)
                await events(scope, receive, send)
            else:
                answer = self._whole(told, form, headers, scope, receive, send)
                await while_there(self._request, answer, spoken.halt)
        finally:
            await speaking.__aexit__(None, None, None)

    async def _pieces(self, told: Told) -> AsyncGenerator[Piece]:
        """Yield what is told of the turn; what went wrong in it is kept for its end."""
        spoken = told.spoken
        receipt = spoken.receipt
        if receipt is not None and receipt.handling == "reject":
            yield Piece("content", f"Not taken: {receipt.reason or 'the run does not listen now'}")
            return
        words = Words(spoken.run)
        async for envelope in spoken.events():
            event = envelope.event
            if (usage := e.usage_in(event)) is not None:
                told.usages.append(usage)
            match event:
                case e.AgentFailed(branch="", error=error, hint=hint):
                    self._error = WorldTrouble(error, hint=hint)
                case e.RunFailed(error=error, hint=hint):
                    self._error = WorldTrouble(f"Run {spoken.run.id} failed: {error}", hint=hint)
                case e.RunStopped(reason=reason):
                    self._error = WorldTrouble(
                        f"Run {spoken.run.id} was stopped: {reason}.", hint="Begin another one."
                    )
                case e.AgentResponded(branch=""):
                    self._error = None  # a retry of the state went well
                case e.AnswerRefused(input_id=id, reason=reason) if id == spoken.id:
                    yield Piece("content", f"This does not answer it: {reason}")
            for piece in words.of(event):
                yield piece

    async def _whole(
        self,
        told: Told,
        form: Form,
        headers: dict[str, str],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        try:
            async for piece in self._pieces(told):
                for _ in form.piece(piece):
                    pass
        except MidstreamError as error:
            self._error = error
        if self._error is not None:
            await failure(self._error, status=502, headers=headers)(scope, receive, send)
            return
        await JSONResponse(form.whole(), headers=headers)(scope, receive, send)

    async def _stream(self, told: Told, form: Form) -> AsyncGenerator[bytes]:
        for event in form.begin():
            yield event
        try:
            async for piece in self._pieces(told):
                for event in form.piece(piece):
                    yield event
        except MidstreamError as error:
            self._error = error
        for event in form.end() if self._error is None else form.fail(self._error):
            yield event

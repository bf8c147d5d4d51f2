"""A turn told in one of OpenAI's protocols, whole or as it streams; a `Form` is how one of them says it."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, Protocol

from starlette.responses import JSONResponse, Response

from midstream.api.run_handle import Event
from midstream.core import events as e
from midstream.core.events import Usage
from midstream.language.errors import MidstreamError, WorldTrouble
from midstream.language.names import Json
from midstream.server.answering import Answer
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
        self.error: MidstreamError | None = None

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

    async def pieces(self) -> AsyncGenerator[Piece]:
        """Yield what is told of the turn; what went wrong in it is `error` at its end."""
        spoken = self.spoken
        receipt = spoken.receipt
        if receipt is not None and receipt.handling == "reject":
            yield Piece("content", f"Not taken: {receipt.reason or 'the run does not listen now'}")
            return
        words = Words(spoken.run)
        try:
            async for envelope in spoken.events():
                for piece in self._note(envelope.event):
                    yield piece
                for piece in words.of(envelope.event):
                    yield piece
        except MidstreamError as error:
            self.error = error

    def _note(self, event: Event) -> Iterator[Piece]:
        """Keep what an event says beside its words; yield why it was no answer."""
        if (usage := e.usage_in(event)) is not None:
            self.usages.append(usage)
        run = self.spoken.run.id
        match event:
            case e.AgentFailed(branch="", error=error, hint=hint):
                self.error = WorldTrouble(error, hint=hint)
            case e.RunFailed(error=error, hint=hint):
                self.error = WorldTrouble(f"Run {run} failed: {error}", hint=hint)
            case e.RunStopped(reason=reason):
                self.error = WorldTrouble(
                    f"Run {run} was stopped: {reason}.", hint="Begin another one."
                )
            case e.AgentResponded(branch=""):
                self.error = None  # a retry of the state went well
            case e.AnswerRefused(input_id=id, reason=reason) if id == self.spoken.id:
                yield Piece("content", f"This does not answer it: {reason}")


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


def answer(
    chats: Conversations, asked: Asked, form_of: Callable[[Told], Form], *, is_stream: bool
) -> Answer:
    """Return the answer to a request, in a form."""

    def tell(spoken: Spoken) -> AsyncGenerator[bytes] | Awaitable[Response]:
        told = Told(asked, spoken)
        form = form_of(told)
        return _events(told, form) if is_stream else _whole(told, form)

    # Only who streams can be told, while it waits, that a person is waited for.
    return Answer(chats.speak(asked, through_approvals=is_stream), tell, failure)


async def _events(told: Told, form: Form) -> AsyncGenerator[bytes]:
    for event in form.begin():
        yield event
    async for piece in told.pieces():
        for event in form.piece(piece):
            yield event
    for event in form.end() if told.error is None else form.fail(told.error):
        yield event


async def _whole(told: Told, form: Form) -> Response:
    async for piece in told.pieces():
        for _ in form.piece(piece):
            pass
    return JSONResponse(form.whole()) if told.error is None else failure(told.error, status=502)

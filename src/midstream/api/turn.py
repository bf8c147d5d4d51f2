"""One turn of a run, as somebody hears it who has just said something: `RunHandle.turn`.

It ends once only a person can move the run on, the run has ended, or something new is asked. Its pieces
of text are whole. As notices they may come late or be lost, and of a run of another process some may
never come. The facts say what a reply was (`reply_shown` as it goes, and the fact that ends it), so what is
missing is told before that fact.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Final

from midstream.core import events as e
from midstream.core.notices import Envelope, TextDelta
from midstream.core.question import is_for_people, is_for_programs
from midstream.runtime.engine.remote import RemoteMachine
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.system.offloop import cancel_all

REPLY_ENDS: Final = (e.AgentResponded, e.AgentFailed, e.ReplyCut, e.Interrupted)
"""The facts that end what an agent said: with all of it, or with what had come by then."""


class Turn:
    """What happens in a run from here to the end of its turn. Made by `RunHandle.turn`."""

    def __init__(
        self,
        handle: object | None,
        machine: WorkflowStateMachine | RemoteMachine,
        since: int | None,
        *,
        through_approvals: bool,
    ) -> None:
        self._handle = handle  # without one a run of another process is followed no more
        self._through_approvals = through_approvals
        self._since = machine.run.seq if since is None else since
        self._machine = machine
        self._queue: asyncio.Queue[Envelope | None] = asyncio.Queue()
        self._reading: asyncio.Task[None] | None = None
        self._replies: dict[str, _Reply] = {}

    async def __aenter__(self) -> "Turn":
        self._reading = asyncio.create_task(self._read(), name=f"turn of {self._machine.id}")
        try:
            await asyncio.sleep(0)  # by then it has subscribed: nothing that is said now is missed
        except asyncio.CancelledError:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancel_all(self._reading)
        self._handle = None

    async def __aiter__(self) -> AsyncGenerator[Envelope]:
        """Yield the facts since, in order, and the notices as they come.

        Raises:
            MidstreamError: the journal cannot be read any more.
        """
        last = self._since
        is_over = self._is_at_rest(last)
        while not is_over:
            envelope = await self._queue.get()
            if envelope is None:
                await self._ended()
                return
            for each in self._whole(envelope):
                yield each
            if envelope.seq is not None:
                last = envelope.seq
                is_over = self._is_at_rest(last) or self._is_asked(envelope)

    async def _read(self) -> None:
        """Read everything as it comes, however slowly the turn itself is read."""
        try:
            async with aclosing(self._machine.events(self._since)) as events:
                async for envelope in events:
                    self._queue.put_nowait(envelope)
        finally:
            self._queue.put_nowait(None)

    async def _ended(self) -> None:
        assert self._reading is not None
        await self._reading

    def _is_at_rest(self, last: int) -> bool:
        run = self._machine.run
        if last < run.seq:
            return False
        if run.is_over or not run.is_parked:
            return run.is_over
        asked = run.inbox.open_questions
        is_held = bool(asked) and all(map(is_for_people, asked))
        return not (self._through_approvals and is_held)

    def _is_asked(self, envelope: Envelope) -> bool:
        """Return whether this asks something a program may answer, and that is still open."""
        match envelope.event:
            case e.QuestionAsked(question_id=id):
                asked = self._machine.run.inbox.open_questions
                return any(each.id == id and is_for_programs(each) for each in asked)
        return False

    def _whole(self, envelope: Envelope) -> Iterator[Envelope]:
        """Yield an event, behind the text that should have come before it."""
        event = envelope.event
        reply = self._replies.setdefault(event.branch, _Reply())
        if isinstance(event, TextDelta):
            if not reply.has_gap:
                reply.told += event.text
                yield envelope
            return
        if isinstance(event, e.ReplyShown):
            reply.shown += event.text
            missing = reply.rest_of(reply.shown)
            # What comes next as a notice is beyond what is known: from here on the facts tell.
            reply.has_gap |= bool(missing)
            yield from self._piece(event.branch, event.agent, missing, envelope.at)
        elif isinstance(event, REPLY_ENDS):
            text = event.text if isinstance(event, e.AgentResponded) else event.partial
            yield from self._piece(event.branch, event.agent, reply.rest_of(text), envelope.at)
            del self._replies[event.branch]
        yield envelope

    def _piece(self, branch: str, agent: str, text: str, at: float = 0.0) -> Iterator[Envelope]:
        if text:
            self._replies[branch].told += text
            delta = TextDelta(branch=branch, agent=agent, text=text)
            yield Envelope(run=self._machine.id, at=at, event=delta)


class _Reply:
    """A reply under way: what was told of it, what facts say was shown, and whether pieces are missing."""

    def __init__(self) -> None:
        self.told = ""
        self.shown = ""
        self.has_gap = False

    def rest_of(self, words: str) -> str:
        """Return what of the words was not told yet; "" where what was told is something else."""
        return words[len(self.told) :] if words.startswith(self.told) else ""

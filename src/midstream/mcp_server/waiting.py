"""A call that waits for a run: until it has ended, asks something, or the time of the call is over.

Cancelling the call, or a client that goes away, ends the wait and nothing else. While it waits the client
is told what happens, where it gave a progress token. A question of an agent goes to the client's user as a
form (elicitation) where the client has forms; who declines leaves it open. The time of the call stands
still meanwhile: people take as long as they take.

Clients of the protocol from 2026-07-28 on are not asked, they ask again: the result is `InputRequired`, and
they repeat the call with the answers and with the `State` they were given.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from midstream.api.run_handle import RunHandle
from midstream.core.question import Question
from midstream.mcp_server.told import form_of, message_of, open_to_callers, open_to_people
from midstream.runtime.ports import Receipt
from midstream.safety.sanitize import sanitized
from midstream.views.answer_forms import answer_in
from midstream.views.cells import one_line, shortened
from midstream.views.event_words import event_words
from midstream.views.run_status import doing_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import ElicitResult

T = TypeVar("T")

ALIVE_S: Final = 10.0
"""Seconds after which a client hears that the run is still at work: some give up on a silent call."""

MOST_ROUNDS: Final = 8
"""How often one call of a client that asks again is given questions: clients count, too."""

PROGRESS_CHARS: Final = 300


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client that asks again brings back: of which run, and what its user was asked."""

    run: str
    asked: tuple[str, ...] = ()
    rounds: int = 0


class InputRequired(Exception):
    """The client is to ask its user, and to make the call again with the answer."""

    def __init__(self, question: Question, state: State) -> None:
        super().__init__(question.id)
        self.question = question
        self.state = state


class News:
    """What a run says while a call waits for it."""

    def __init__(self, run: RunHandle) -> None:
        self.run = run
        self._since = run.run.seq
        self.words = ""
        self.is_over = False
        self.came = asyncio.Event()

    async def follow(self) -> None:
        """Take in what happens, until the run has ended or is followed no more."""
        try:
            facts = self.run.numbered(self._since, transient=False)
            async with contextlib.aclosing(facts):
                async for envelope in facts:
                    self.words = event_words(envelope) or self.words
                    self.came.set()
        finally:
            self.is_over = True
            self.came.set()


class Wait:
    """The wait of one call.

    Args:
        context: the call, as the library has it.
        source: whose answers those of its user are.
        state: what a client that asks again has brought back.
    """

    def __init__(
        self, context: "ServerRequestContext[Any, Any]", source: str, state: State | None
    ) -> None:
        self._context = context
        self._source = source
        self._state = state
        self._asked = set(state.asked) if state is not None else set[str]()
        self._steps = 0
        self.receipt: Receipt | None = None
        """What became of the last answer of the client's user."""

    @property
    def _has_forms(self) -> bool:
        session = self._context.session
        found = session.client_capabilities
        wanted = None if found is None else found.elicitation
        if wanted is None or (wanted.form is None and wanted.url is not None):
            return False  # before there were two kinds, `{}` meant forms
        return self._asks_again or session.can_send_request

    @property
    def _asks_again(self) -> bool:
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        return self._context.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def until(self, run: RunHandle, seconds: float, *, only_looks: bool = False) -> None:
        """Return once the run has ended, waits for somebody this call cannot reach, or in time.

        What a person was to decide before a call that `only_looks` is known to its client: it waits for
        them.

        Raises:
            InputRequired: the client is to ask its user.
        """
        if seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        known = open_to_people(run) if only_looks else ()
        async with _following(run) as news:
            while not run.run.is_over:
                question = self._next_question(run)
                if question is not None and self._has_forms:
                    began = loop.time()
                    await self._ask(run, question, news)
                    deadline += loop.time() - began
                    continue
                is_at_rest = question is not None or run.status in ("waiting", "suspended")
                if question is None and known and open_to_people(run) == known:
                    is_at_rest = False
                left = deadline - loop.time()
                if is_at_rest or left <= 0 or news.is_over:
                    return
                await self._news(news, min(left, ALIVE_S))

    async def answer(self, run: RunHandle, given: "dict[str, ElicitResult]") -> None:
        """Give the run the answers that a client brings which was asked to ask."""
        for id, result in given.items():
            question = next((q for q in open_to_callers(run) if q.id == id), None)
            if question is not None:
                await self._take(run, question, result)

    def _next_question(self, run: RunHandle) -> Question | None:
        return next((q for q in open_to_callers(run) if q.id not in self._asked), None)

    async def _ask(self, run: RunHandle, question: Question, news: News) -> None:
        """Ask the client's user; whoever answers first elsewhere ends that."""
        if self._asks_again:
            state = self._state or State(run=run.id)
            if state.rounds >= MOST_ROUNDS:
                self._asked.add(question.id)
                return
            asked_so_far = tuple(sorted(self._asked))
            raise InputRequired(
                question, State(run=run.id, asked=asked_so_far, rounds=state.rounds + 1)
            )
        asked = self._context.session.elicit_form(
            message_of(question), form_of(question), related_request_id=self._context.request_id
        )
        async with _beside(asked) as asking:
            while not (asking.done() or news.is_over or question not in run.questions):
                await self._news(news, ALIVE_S, asking)
            if not asking.done():
                return
            if asking.exception() is not None:  # it has forms, and yet it could not ask
                self._asked.add(question.id)
                return
            await self._take(run, question, asking.result())

    async def _take(self, run: RunHandle, question: Question, result: "ElicitResult") -> None:
        """Give the run what the client's user said. What does not fit leaves the question open."""
        self._asked.add(question.id)  # once a call, whatever comes of it
        answer = answer_in(question, result.content) if result.action == "accept" else None
        if answer is not None:
            self.receipt = await run.answer(question, answer, source=self._source)

    async def _news(
        self, news: News, seconds: float, beside: "asyncio.Task[Any] | None" = None
    ) -> None:
        """Return when something has happened, or in time; the client hears what."""
        async with _beside(news.came.wait()) as heard:
            tasks = [heard] if beside is None else [heard, beside]
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        words = news.words if news.came.is_set() and news.words else doing_of(news.run.run)
        news.came.clear()
        self._steps += 1
        await self._context.session.report_progress(
            self._steps, message=shortened(one_line(sanitized(words)), PROGRESS_CHARS)
        )


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, T]) -> "AsyncIterator[asyncio.Task[T]]":
    """Give work that goes on beside the block, and no longer."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # whoever wants to know has asked


@contextlib.asynccontextmanager
async def _following(run: RunHandle) -> AsyncIterator[News]:
    news = News(run)
    async with _beside(news.follow()):
        yield news

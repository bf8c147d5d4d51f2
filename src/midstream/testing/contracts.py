"""What every adapter of a port keeps, as tests: subclass one, and give it a fixture.

    class TestMyJournal(JournalContract):
        @pytest.fixture
        def journal(self, tmp_path):
            return MyJournal(tmp_path / "journal.db")

The tests are async: with pytest-asyncio they need `asyncio_mode = "auto"`. Each has a deadline.
"""
# ruff: noqa: D102 - a test's name says what it checks

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ParamSpec

from midstream.core.events import AnyFact, RunStarted, RunStopped, Usage, WorkflowOutput
from midstream.core.notices import Envelope
from midstream.language.errors import JournalMoved
from midstream.language.spec import Definition, State, Workflow
from midstream.runtime.ports import (
    Clock,
    Journal,
    Model,
    ModelReply,
    ModelRequest,
    ToolContext,
    ToolOutcome,
    Tools,
)

P = ParamSpec("P")

DEADLINE_S = 120.0


class Contract:
    """What an adapter keeps: the async tests of a class below it have a deadline."""

    def __init_subclass__(cls, **how: Any) -> None:
        super().__init_subclass__(**how)
        for name, test in vars(cls).copy().items():
            if name.startswith("test_") and inspect.iscoroutinefunction(test):
                setattr(cls, name, _soon(test))


def _soon(test: Callable[P, Awaitable[None]]) -> Callable[P, Awaitable[None]]:
    """Return the test with a deadline."""

    @functools.wraps(test)
    async def within(*args: P.args, **kwargs: P.kwargs) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test(*args, **kwargs)

    return within


def fact(run: str, seq: int, text: str = "") -> Envelope:
    """Return a small fact at a position, as journals keep them."""
    return Envelope(run=run, at=float(seq), event=WorkflowOutput(text=text or str(seq)), seq=seq)


def facts(run: str, first: int, last: int) -> list[Envelope]:
    """Return the facts at positions `first` to `last`, both included."""
    return [fact(run, seq) for seq in range(first, last + 1)]


async def _is_refused(append: Awaitable[None]) -> bool:
    try:
        await append
    except JournalMoved:
        return True
    return False


class JournalContract(Contract):
    """The port `Journal`. Fixture `journal`: an empty one; it closes what it opens."""

    async def test_an_unknown_run_has_no_facts(self, journal: Journal) -> None:
        assert await journal.read("nobody") == []

    async def test_reading_gives_back_what_was_appended(self, journal: Journal) -> None:
        await journal.append("r", 0, facts("r", 1, 3))

        assert await journal.read("r") == facts("r", 1, 3)

    async def test_facts_stay_in_the_order_of_their_appends(self, journal: Journal) -> None:
        for seq in range(1, 21):
            await journal.append("r", seq - 1, [fact("r", seq)])

        assert [envelope.seq for envelope in await journal.read("r")] == list(range(1, 21))

    async def test_reading_may_begin_after_a_position(self, journal: Journal) -> None:
        await journal.append("r", 0, facts("r", 1, 5))

        assert await journal.read("r", 3) == facts("r", 4, 5)
        assert await journal.read("r", 0) == facts("r", 1, 5)

    async def test_after_the_last_fact_there_is_nothing(self, journal: Journal) -> None:
        await journal.append("r", 0, facts("r", 1, 2))

        assert await journal.read("r", 2) == []
        assert await journal.read("r", 99) == []

    async def test_an_append_behind_is_refused(self, journal: Journal) -> None:
        await journal.append("r", 0, facts("r", 1, 3))

        assert await _is_refused(journal.append("r", 2, [fact("r", 3, "other")]))

    async def test_an_append_ahead_is_refused(self, journal: Journal) -> None:
        await journal.append("r", 0, facts("r", 1, 3))

        assert await _is_refused(journal.append("r", 4, [fact("r", 5)]))

    async def test_a_refused_append_keeps_nothing(self, journal: Journal) -> None:
        await journal.append("r", 0, facts("r", 1, 3))
        await _is_refused(journal.append("r", 1, [fact("r", 2, "other"), fact("r", 3, "other")]))
        await _is_refused(journal.append("r", 9, [fact("r", 10)]))

        assert await journal.read("r") == facts("r", 1, 3)

    async def test_a_refused_first_append_makes_no_run(self, journal: Journal) -> None:
        assert await _is_refused(journal.append("r", 1, [fact("r", 2)]))

        assert await journal.read("r") == []

    async def test_after_a_refusal_the_right_position_is_taken(self, journal: Journal) -> None:
        await journal.append("r", 0, facts("r", 1, 2))
        await _is_refused(journal.append("r", 0, [fact("r", 1, "other")]))
        await journal.append("r", 2, [fact("r", 3)])

        assert await journal.read("r") == facts("r", 1, 3)

    async def test_an_append_of_nothing_changes_nothing(self, journal: Journal) -> None:
        await journal.append("r", 0, [])

        assert await journal.read("r") == []
        await journal.append("r", 0, [fact("r", 1)])
        assert await journal.read("r") == [fact("r", 1)]

    async def test_runs_do_not_mix(self, journal: Journal) -> None:
        await journal.append("a", 0, facts("a", 1, 2))
        await journal.append("b", 0, facts("b", 1, 1))
        await journal.append("a", 2, facts("a", 3, 3))

        assert await journal.read("a") == facts("a", 1, 3)
        assert await journal.read("b") == facts("b", 1, 1)

    async def test_of_many_writers_at_one_position_one_wins(self, journal: Journal) -> None:
        await journal.append("r", 0, [fact("r", 1)])
        refused = await asyncio.gather(
            *(_is_refused(journal.append("r", 1, [fact("r", 2, f"w{n}")])) for n in range(10))
        )

        assert refused.count(False) == 1
        assert len(await journal.read("r")) == 2

    async def test_many_runs_are_written_at_once(self, journal: Journal) -> None:
        async def write(run: str) -> None:
            for seq in range(1, 6):
                await journal.append(run, seq - 1, [fact(run, seq)])

        names = [f"run{n}" for n in range(20)]
        await asyncio.gather(*map(write, names))

        for name in names:
            assert await journal.read(name) == facts(name, 1, 5)

    async def test_readers_never_see_half_an_append(self, journal: Journal) -> None:
        seen: list[int] = []

        async def write() -> None:
            for batch in range(10):
                await journal.append("r", batch * 7, facts("r", batch * 7 + 1, batch * 7 + 7))

        async def read() -> None:
            while (len(seen) == 0) or seen[-1] < 70:
                seen.append(len(await journal.read("r")))
                await asyncio.sleep(0)

        await asyncio.gather(write(), read(), read())

        assert {length % 7 for length in seen} == {0}

    async def test_what_was_read_is_the_readers_own(self, journal: Journal) -> None:
        await journal.append("r", 0, facts("r", 1, 2))
        (await journal.read("r")).clear()

        assert len(await journal.read("r")) == 2

    async def test_what_was_appended_may_be_changed_afterwards(self, journal: Journal) -> None:
        batch = facts("r", 1, 2)
        await journal.append("r", 0, batch)
        batch.clear()

        assert len(await journal.read("r")) == 2

    async def test_facts_of_every_shape_come_back_whole(self, journal: Journal) -> None:
        state = State(name="start", next="stop")
        definition = Definition(
            workflow=Workflow(workflow_name="w", states=(state, State(name="stop"))), roles={}
        )
        shapes: list[AnyFact] = [
            RunStarted(workflow="w", definition=definition, input={"größe": [1, 2.5, None, True]}),
            WorkflowOutput(text='a "quoted"\nline \u2028 \U0001f30a', kind="result"),
            RunStopped(reason=""),
        ]
        told = [Envelope(run="r", at=0.1, event=e, seq=n) for n, e in enumerate(shapes, 1)]
        await journal.append("r", 0, told)

        assert await journal.read("r") == told

    async def test_a_large_append_is_kept_whole(self, journal: Journal) -> None:
        long = [fact("r", seq, "x" * 10_000) for seq in range(1, 101)]
        await journal.append("r", 0, long)

        assert await journal.read("r") == long


class ClockContract(Contract):
    """The port `Clock`. Fixtures `clock`, and `pass_time`: lets so many seconds pass for it."""

    async def test_time_never_runs_backwards(self, clock: Clock) -> None:
        first = clock.now()
        await clock.sleep(0)

        assert clock.now() >= first

    async def test_monotonic_time_grows_by_what_passes(
        self, clock: Clock, pass_time: Callable[[float], Awaitable[None]]
    ) -> None:
        before = clock.monotonic()
        await pass_time(0.01)

        assert clock.monotonic() >= before + 0.009

    async def test_a_sleep_of_no_time_returns(self, clock: Clock) -> None:
        await clock.sleep(0)

    async def test_a_sleeper_wakes_when_its_time_has_come(
        self, clock: Clock, pass_time: Callable[[float], Awaitable[None]]
    ) -> None:
        before = clock.now()
        async with asyncio.TaskGroup() as group:
            group.create_task(clock.sleep(0.01))
            await asyncio.sleep(0)
            await pass_time(0.01)

        assert clock.now() >= before + 0.009

    async def test_a_cancelled_sleeper_is_gone(self, clock: Clock) -> None:
        sleeper = asyncio.ensure_future(clock.sleep(3600))
        await asyncio.sleep(0)
        sleeper.cancel()
        await asyncio.wait({sleeper})

        assert sleeper.cancelled()


class Heard:
    """A `ReplyListener` that remembers."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.spoke = asyncio.Event()
        self.is_calling = False

    def text(self, delta: str) -> None:
        """Hear the next piece of the reply's words."""
        self.pieces.append(delta)
        self.spoke.set()

    def thinking(self, delta: str) -> None:
        """Hear the next piece of the model's reasoning."""

    def calling(self, name: str) -> None:
        """Hear that the model has begun to ask for a tool."""
        self.is_calling = True

    def status(self, text: str) -> None:
        """Hear what the request is doing."""

    def metered(self, used: Callable[[], Usage | None]) -> None:
        """Hear how to find out what the request has used so far."""


class ModelContract(Contract):
    """The port `Model`. Fixtures `model`: answers in words; `model_request`: something to ask it;
    `slow_model`: streams a piece and then nothing more.
    """

    async def test_the_reply_is_what_was_streamed(
        self, model: Model, model_request: ModelRequest
    ) -> None:
        heard = Heard()
        reply = await model.request(model_request, heard)

        assert isinstance(reply, ModelReply)
        assert reply.text
        assert "".join(heard.pieces) == reply.text

    async def test_cancelling_closes_the_stream(
        self, slow_model: Model, model_request: ModelRequest
    ) -> None:
        heard = Heard()
        asking = asyncio.ensure_future(slow_model.request(model_request, heard))
        await heard.spoke.wait()
        asking.cancel()
        await asyncio.wait({asking})
        seen = list(heard.pieces)
        await asyncio.sleep(0.01)

        assert asking.cancelled()
        assert heard.pieces == seen


class ToolsContract(Contract):
    """The port `Tools`. Fixtures `tools`; `good_call`: a (name, arguments) that completes;
    `endless_call`: one that runs until it is stopped.
    """

    @staticmethod
    def context(workspace: Path) -> ToolContext:
        """Return what a running tool may use."""
        stop, said = asyncio.Event(), list[str]()
        return ToolContext(workspace=workspace, run="r", agent="a", stop=stop, progress=said.append)

    async def test_every_tool_is_listed_by_its_name(self, tools: Tools) -> None:
        for name, spec in tools.specs().items():
            assert spec.name == name
            assert spec.parameters.get("type") == "object"

    async def test_a_call_has_an_outcome(
        self, tools: Tools, good_call: tuple[str, dict[str, Any]], tmp_path: Path
    ) -> None:
        ended = await tools.call(*good_call, self.context(tmp_path))

        assert isinstance(ended, ToolOutcome)
        assert ended.outcome == "completed"

    async def test_an_unknown_tool_fails_without_raising(
        self, tools: Tools, tmp_path: Path
    ) -> None:
        ended = await tools.call("no_such_tool", {}, self.context(tmp_path))

        assert ended.outcome == "failed"

    async def test_a_call_told_to_stop_ends(
        self, tools: Tools, endless_call: tuple[str, dict[str, Any]], tmp_path: Path
    ) -> None:
        context = self.context(tmp_path)
        calling = asyncio.ensure_future(tools.call(*endless_call, context))
        await asyncio.sleep(0.01)
        context.stop.set()

        assert (await calling).outcome in ("stopped", "completed", "failed", "unknown")

    async def test_a_cancelled_call_is_gone(
        self, tools: Tools, endless_call: tuple[str, dict[str, Any]], tmp_path: Path
    ) -> None:
        calling = asyncio.ensure_future(tools.call(*endless_call, self.context(tmp_path)))
        await asyncio.sleep(0.01)
        calling.cancel()
        await asyncio.wait({calling})

        assert calling.cancelled()

"""What every store keeps (`runtime.storage.Store`), as tests: subclass it and give it fixtures.

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def store(self, tmp_path):
            store = await MyStore.opened(tmp_path)
            yield store
            await store.aclose()

        @pytest.fixture
        def journal(self, store):
            return store

`store` is an open, empty store. `journal` is the same one: a store keeps `JournalContract` too.
`another` is an async function: it opens a further store on the same contents, which has an owner of
its own as a second process has; after `store.aclose()` that is opening it again. `cut` is an async
function: it ends a store as `kill -9` would, without letting go of anything. The fixtures close what
they opened. A store that workers of many machines share keeps `PoolContract` as well, with the same
fixtures.
"""

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, cast

import msgspec
import pytest

from midstream.core import events as e
from midstream.core.notices import Envelope, TextDelta
from midstream.language.errors import (
    AuthorMistake,
    JournalMoved,
    MidstreamError,
    RunOwned,
    UserMistake,
    WorldTrouble,
)
from midstream.language.spec import Definition, State, Workflow
from midstream.runtime.storage import (
    GOES_ON,
    NOTE_BYTES,
    SUSPECT,
    KeptRun,
    Mail,
    Placement,
    Pool,
    Rate,
    RunKind,
    Store,
    WorkerInfo,
)
from midstream.testing.contracts import Contract, JournalContract, fact, facts
from midstream.views.listing import ACTIVE, ENDED, Standing

_ALIKE_S = 600.0
"""Clocks of stores are less apart than this, on a machine that stands still for minutes."""

Another: TypeAlias = Callable[[], Awaitable[Store]]
Cut: TypeAlias = Callable[[Store], Awaitable[None]]


def told(run: str, *events: e.AnyFact, after: int = 0) -> list[Envelope]:
    """Return facts of a run at the positions after `after`."""
    return [
        Envelope(run=run, at=float(seq), event=event, seq=seq)
        for seq, event in enumerate(events, after + 1)
    ]


def started(run: str, *, workspace: str = "/home/me", kind: RunKind = "workflow") -> list[Envelope]:
    """Return the first fact of a run of the workflow `tidy`, or of a chat of that name."""
    states = (State(name="start", next="stop"), State(name="stop"))
    workflow = Workflow(workflow_name="tidy", states=states)
    definition = Definition(workflow=workflow, roles={}, kind=kind)
    return told(run, e.RunStarted(workflow="tidy", definition=definition, workspace=workspace))


async def error_of(doing: Awaitable[object]) -> MidstreamError | None:
    """Return the error something ends with, None if it ends well."""
    try:
        await doing
    except MidstreamError as error:
        return error
    return None


async def listed(store: Store, id: str) -> KeptRun:
    """Return a run as the store lists it."""
    found = await store.run(id)
    assert found is not None
    return found


async def _ids(store: Store, **wanted: Any) -> list[str]:
    return [kept.id for kept in await store.listing(**wanted)]


async def _in_pages(store: Store, limit: int, workspace: str | None) -> list[str]:
    found: list[KeptRun] = []
    while page := await store.listing(
        workspace=workspace, after=found[-1].place if found else None, limit=limit
    ):
        assert len(page) <= limit
        found += page
    return [kept.id for kept in found]


async def _reopened(store: Store, another: Another) -> Store:
    await store.aclose()
    return await another()


def _hostile() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return [
        float("nan"),
        float("-inf"),
        "half \ud800 pair",
        {"\udfff": 1},
        {1},
        {2: 1},
        b"x",
        circle,
        object(),
    ]


class _BesideAnother(Contract):
    @pytest.fixture
    async def other(self, another: Another) -> Store:
        """Return a further store on the same contents."""
        return await another()


class StoreContract(JournalContract, _BesideAnother):
    """The port `Store`. Fixtures: see the module."""

    # --- reading a part -------------------------------------------------------------------------

    async def test_reading_may_end_at_a_position(self, store: Store) -> None:
        await store.append("r", 0, facts("r", 1, 5))

        assert await store.read("r", upto=3) == facts("r", 1, 3)
        assert await store.read("r", 1, 3) == facts("r", 2, 3)

    async def test_reading_up_to_nothing_or_beyond_the_end(self, store: Store) -> None:
        await store.append("r", 0, facts("r", 1, 2))

        assert await store.read("r", upto=0) == []
        assert await store.read("r", 2, 1) == []
        assert await store.read("r", upto=99) == facts("r", 1, 2)

    async def test_every_part_of_a_run_reads_alike(self, store: Store) -> None:
        for first in (1, 3, 4):
            await store.append("r", first - 1, facts("r", first, {1: 2, 3: 3, 4: 6}[first]))

        for after in range(7):
            for upto in range(after, 7):
                assert await store.read("r", after, upto) == facts("r", after + 1, upto)

    # --- what is refused ------------------------------------------------------------------------

    async def test_facts_that_leave_a_gap_among_them_are_refused(self, store: Store) -> None:
        with_gap = [fact("r", 1), fact("r", 3)]

        assert await error_of(store.append("r", 0, with_gap)) is not None
        assert await _ids(store) == []

    async def test_facts_numbered_for_another_place_are_refused(self, store: Store) -> None:
        await store.append("r", 0, [fact("r", 1)])

        assert await error_of(store.append("r", 1, [fact("r", 5)])) is not None
        assert await store.read("r") == [fact("r", 1)]

    async def test_facts_of_another_run_are_refused(self, store: Store) -> None:
        assert await error_of(store.append("r", 0, [fact("other", 1)])) is not None
        assert await _ids(store) == []

    async def test_notices_are_refused(self, store: Store) -> None:
        notice = Envelope(run="r", at=1.0, event=TextDelta(agent="a", text="hi"), seq=1)

        assert await error_of(store.append("r", 0, [notice])) is not None
        assert await _ids(store) == []

    async def test_a_fact_without_a_time_is_refused(self, store: Store) -> None:
        timeless = Envelope(run="r", at=float("nan"), event=e.RunStopped(reason=""), seq=1)

        assert await error_of(store.append("r", 0, [timeless])) is not None
        assert await _ids(store) == []

    async def test_what_is_no_json_is_refused_and_nothing_of_it_kept(self, store: Store) -> None:
        await store.append("r", 0, [fact("r", 1)])
        for value in _hostile():
            bad = e.HandlerRan(state="s", handler="h", slot="pre_handler", changed={"k": value})
            error = await error_of(store.append("r", 1, [fact("r", 2), *told("r", bad, after=2)]))

            assert isinstance(error, AuthorMistake)
            assert "handler_ran" in error.what
            assert "run r" in error.what
        await store.append("r", 1, [fact("r", 2)])
        assert await store.read("r") == facts("r", 1, 2)

    async def test_a_fact_of_a_wrong_shape_is_refused(self, store: Store) -> None:
        wrong = told("r", e.WorkflowOutput(text=5))  # type: ignore[arg-type]

        assert isinstance(await error_of(store.append("r", 0, wrong)), AuthorMistake)
        assert await _ids(store) == []

    async def test_a_fact_that_is_far_too_large_is_refused(self, store: Store) -> None:
        huge = told(
            "r", e.ToolReturned(call_id="c", name="t", outcome="completed", result="x" * 65 * 2**20)
        )

        assert isinstance(await error_of(store.append("r", 0, huge)), AuthorMistake)
        await store.append("r", 0, [fact("r", 1)])
        assert await store.read("r") == [fact("r", 1)]

    # --- values ---------------------------------------------------------------------------------

    async def test_strange_values_come_back_whole(self, store: Store) -> None:
        values: dict[str, Any] = {
            "nul": "a\0b",
            "large": [2**63, 2**64, -(2**63), 10**30],
            "floats": [0.1, 1e308, -0.0, 5e-324],
            "signs": "\x1b[31m \u202e \u2028 \ufeff \U0001f30a",
            "": {"": {}},
            "none": None,
            "key with \0": [[], {}, "", False],
        }
        odd = told("r", e.HandlerRan(state="s", handler="h", slot="pre_handler", changed=values))
        await store.append("r", 0, odd)

        assert await store.read("r") == odd

    async def test_deep_values_come_back_or_are_refused(self, store: Store) -> None:
        for depth in (10, 100, 400, 2000, 100_000):
            value: Any = []
            for _ in range(depth):
                value = [value]
            run = f"r{depth}"
            deep = told(run, e.RunFinished(output=value))
            if await error_of(store.append(run, 0, deep)) is None:
                assert msgspec.json.encode(await store.read(run)) == msgspec.json.encode(deep)
            else:
                assert depth > 100

    async def test_a_large_fact_comes_back_whole(self, store: Store) -> None:
        large = told("r", e.WorkflowOutput(text="ü" * 3_000_000), e.WorkflowOutput(text="after"))
        await store.append("r", 0, large)

        assert await store.read("r") == large

    async def test_runs_of_any_name_are_kept_apart(self, store: Store) -> None:
        names = ["r", "R", "r ", "r\0", "r\0x", "", "%", "_", "r'; drop table runs", "ü", "u\u0308"]
        for name in names:
            await store.append(name, 0, [fact(name, 1, f"of {name}")])

        assert sorted(await _ids(store)) == sorted(names)
        for name in names:
            assert await store.read(name) == [fact(name, 1, f"of {name}")]

    async def test_a_name_that_is_no_text_is_refused_or_kept(self, store: Store) -> None:
        name = "half \ud800"
        if await error_of(store.append(name, 0, [fact(name, 1)])) is None:
            assert await store.read(name) == [fact(name, 1)]
        await store.append("r", 0, [fact("r", 1)])

        assert await store.read("r") == [fact("r", 1)]

    async def test_the_time_of_a_fact_comes_back_exactly(self, store: Store) -> None:
        times = [0.0, 1.0, 0.1 + 0.2, 1_763_700_000.123456, 1e15, -1.5]
        kept = [
            Envelope(run="r", at=at, event=e.RunStopped(reason=""), seq=seq)
            for seq, at in enumerate(times, 1)
        ]
        await store.append("r", 0, kept)

        assert [envelope.at for envelope in await store.read("r")] == times

    # --- at once --------------------------------------------------------------------------------

    async def test_a_reader_never_sees_a_fact_before_the_one_before_it(
        self, store: Store, other: Store
    ) -> None:
        seen: list[list[int | None]] = []

        async def write() -> None:
            for seq in range(1, 31):
                await store.append("r", seq - 1, [fact("r", seq)])

        async def read(reader: Store) -> None:
            while not seen or len(seen[-1]) < 30:
                seen.append([envelope.seq for envelope in await reader.read("r")])
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            group.create_task(read(store))
            group.create_task(read(other))

        assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in seen)

    async def test_what_was_appended_is_seen_by_all_at_once(
        self, store: Store, other: Store
    ) -> None:
        for seq in range(1, 11):
            await store.append("r", seq - 1, [fact("r", seq)])

            assert len(await other.read("r")) == seq
            assert len(await store.read("r")) == seq

    async def test_of_two_stores_at_one_position_one_wins(self, store: Store, other: Store) -> None:
        for seq in range(1, 11):
            errors = await asyncio.gather(
                error_of(store.append("r", seq - 1, [fact("r", seq, "ours")])),
                error_of(other.append("r", seq - 1, [fact("r", seq, "theirs")])),
            )

            assert [type(error) for error in errors if error] == [JournalMoved]
        assert len(await store.read("r")) == 10

    async def test_two_stores_write_their_runs_at_once(self, store: Store, other: Store) -> None:

        async def write(writer: Store, run: str) -> None:
            for seq in range(1, 11):
                await writer.append(run, seq - 1, [fact(run, seq)])

        await asyncio.gather(
            *(
                write(writer, f"{n}-{run}")
                for run in range(5)
                for n, writer in enumerate((store, other))
            )
        )

        assert len(await _ids(store)) == 10
        for run in await _ids(other):
            assert await other.read(run) == facts(run, 1, 10)

    async def test_a_refusal_harms_none_of_the_others(self, store: Store) -> None:
        good = [store.append(f"r{n}", 0, [fact(f"r{n}", 1)]) for n in range(20)]
        bad = [store.append(f"b{n}", 7, [fact(f"b{n}", 8)]) for n in range(20)]
        both = [doing for pair in zip(good, bad, strict=True) for doing in pair]
        errors = await asyncio.gather(*map(error_of, both))

        assert [type(error) for error in errors] == [type(None), JournalMoved] * 20
        assert len(await _ids(store)) == 20

    async def test_appends_of_one_run_are_taken_in_the_order_they_were_made(
        self, store: Store
    ) -> None:
        await asyncio.gather(
            *(store.append("r", seq - 1, [fact("r", seq)]) for seq in range(1, 21))
        )

        assert await store.read("r") == facts("r", 1, 20)

    async def test_a_cancelled_append_is_kept_whole_or_not_at_all(self, store: Store) -> None:
        for run in map(str, range(10)):
            appending = asyncio.ensure_future(store.append(run, 0, facts(run, 1, 3)))
            await asyncio.sleep(0)
            appending.cancel()
            await asyncio.wait({appending})
            # What was asked for later is done later: by then it is clear.
            await store.append(f"after {run}", 0, [fact(f"after {run}", 1)])

            kept = await store.read(run)
            assert kept in ([], facts(run, 1, 3))
            await store.append(run, len(kept), [fact(run, len(kept) + 1)])

    async def test_cancelling_one_of_many_harms_none_of_the_others(self, store: Store) -> None:
        names = [f"r{n}" for n in range(20)]
        doing = [asyncio.ensure_future(store.append(n, 0, [fact(n, 1)])) for n in names]
        await asyncio.sleep(0)
        doing[7].cancel()
        await asyncio.wait(doing)

        assert {task.exception() for task in doing if not task.cancelled()} == {None}
        assert set(names) - {"r7"} <= set(await _ids(store))

    # --- opening again --------------------------------------------------------------------------

    async def test_facts_are_there_when_it_is_opened_again(
        self, store: Store, another: Another
    ) -> None:
        await store.append("a", 0, facts("a", 1, 3))
        await store.append("b", 0, started("b"))
        again = await _reopened(store, another)

        assert sorted(await _ids(again)) == ["a", "b"]
        assert await again.read("a") == facts("a", 1, 3)
        assert await again.read("b") == started("b")

    async def test_a_run_goes_on_when_it_is_opened_again(
        self, store: Store, another: Another
    ) -> None:
        await store.append("r", 0, facts("r", 1, 3))
        again = await _reopened(store, another)

        assert isinstance(await error_of(again.append("r", 0, [fact("r", 1)])), JournalMoved)
        await again.append("r", 3, [fact("r", 4)])
        assert await again.read("r") == facts("r", 1, 4)

    async def test_facts_are_there_after_a_kill(
        self, store: Store, another: Another, cut: Cut
    ) -> None:
        other = await another()
        await other.append("r", 0, facts("r", 1, 3))
        await cut(other)

        assert await store.read("r") == facts("r", 1, 3)
        assert await (await another()).read("r") == facts("r", 1, 3)

    async def test_a_closed_store_refuses_everything(self, store: Store) -> None:
        await store.aclose()
        await store.aclose()

        assert isinstance(await error_of(store.append("r", 0, [fact("r", 1)])), WorldTrouble)
        assert isinstance(await error_of(store.read("r")), WorldTrouble)
        assert isinstance(await error_of(store.listing()), WorldTrouble)
        assert isinstance(await error_of(store.post(Mail(id="1", run="r", at=1.0))), WorldTrouble)

    # --- the listing ----------------------------------------------------------------------------

    async def test_an_empty_store_lists_nothing(self, store: Store) -> None:
        assert await store.listing() == []

    async def test_a_run_is_listed_with_how_it_stands(self, store: Store) -> None:
        await store.append("r", 0, started("r"))
        asked = e.QuestionAsked(question_id="q", number=1, kind="question", text="which?")
        moving = e.StateTransition(source="", target="start", reason="begin")
        await store.append("r", 1, told("r", moving, asked, after=1))
        run = await listed(store, "r")

        assert (run.seq, run.parent, run.owner) == (3, "", "")
        assert (run.is_foreign, run.was_cut, run.damaged) == (False, False, "")
        assert (run.summary.workflow, run.summary.workspace) == ("tidy", "/home/me")
        assert (run.summary.state, run.summary.asking) == ("start", ("q",))
        assert (run.summary.started_at, run.summary.updated_at) == (1.0, 3.0)

        answered = e.QuestionAnswered(question_id="q", answer="that")
        await store.append("r", 3, told("r", answered, e.RunFinished(), after=3))
        run = await listed(store, "r")

        assert (run.seq, run.summary.status, run.summary.asking) == (5, "finished", ())

    async def test_a_run_is_found_by_its_id(self, store: Store, another: Another) -> None:
        await store.append("r", 0, started("r"))
        await store.append("rr", 0, started("rr"))
        await store.fork("r", 1, "f")
        await store.claim("r")
        run = await (await another()).run("r")

        assert run is not None
        assert (run.id, run.seq, run.owner) == ("r", 1, store.me)
        assert await store.run("f") == (await store.lineage("f"))[0]
        assert await store.run("") is None
        assert await store.run("R") is None

    async def test_a_page_has_the_run_written_last_first(self, store: Store) -> None:
        for run in ("b", "c", "a"):
            await store.append(run, 0, [fact(run, 1)])
        await store.append("b", 1, [fact("b", 2)])

        assert await _ids(store) == ["b", "c", "a"]
        assert await _ids(store, limit=2) == ["b", "c"]
        assert await _ids(store, limit=0) == []
        assert await store.listing() == [await listed(store, id) for id in "bca"]

    async def test_pages_have_every_run_once(self, store: Store, another: Another) -> None:
        at = 1_763_700_000.123456
        for number in range(23):
            id = f"r{number:02}"
            when = at + number // 4 * 0.1
            await store.append(
                id, 0, [Envelope(run=id, at=when, event=e.RunStopped(reason=""), seq=1)]
            )
        for number in range(0, 23, 5):
            id = f"s{number:02}"
            await store.append(id, 0, started(id))
        every = await _ids(store)

        assert len(every) == 28
        assert every[:3] == ["r22", "r21", "r20"]
        for limit in (1, 3, 5, 27, 28):
            for workspace in (None, "/home/me"):
                assert await _in_pages(await another(), limit, workspace=workspace) == every

    async def test_a_run_written_between_pages_comes_to_the_front(self, store: Store) -> None:
        for run in "abcd":
            await store.append(run, 0, [fact(run, 1)])
        first = await store.listing(limit=2)
        await store.append(first[-1].id, 1, [fact(first[-1].id, 2)])

        assert await _ids(store, after=first[-1].place) == ["b", "a"]
        assert await _ids(store, limit=2) == ["c", "d"]

    async def test_a_page_is_narrowed_to_a_folder(self, store: Store) -> None:
        await store.append("r", 0, started("r"))
        await store.append("nowhere", 0, [fact("nowhere", 1)])
        await store.append("away", 0, started("away", workspace="/elsewhere"))

        assert await _ids(store) == ["r", "nowhere", "away"]
        assert await _ids(store, workspace="/home/me") == ["r", "nowhere"]
        assert await _ids(store, workspace="/home") == ["nowhere"]
        assert await _ids(store, workspace="") == ["nowhere"]

    async def test_a_page_is_narrowed_to_how_runs_stand(
        self, store: Store, another: Another
    ) -> None:
        asks = e.QuestionAsked(question_id="q", number=1, kind="question", text="which?")
        waits = e.QuestionAsked(question_id="w", number=1, kind="input", text="")
        ways: dict[Standing, tuple[e.AnyFact, ...]] = {
            "running": (),
            "asking": (waits, asks),
            "waiting": (waits,),
            "suspended": (asks, e.RunSuspended(reason="")),
            "finished": (waits, e.RunFinished()),
            "failed": (e.RunFailed(error=""),),
            "stopped": (e.RunStopped(reason=""),),
        }
        for way, events in ways.items():
            await store.append(way, 0, started(way))
            await store.append(way, 1, told(way, *events, after=1))
        other = await another()

        for way in ways:
            (run,) = await other.listing(workspace="/home/me", status=(way,))
            assert (run.id, run.summary.standing) == (way, way)
        assert sorted(await _ids(other, status=ENDED)) == ["failed", "finished", "stopped"]
        assert await _ids(other, status=()) == []

    async def test_a_run_moves_between_the_ways_to_stand(self, store: Store) -> None:
        await store.append("r", 0, started("r"))
        asks = e.QuestionAsked(question_id="q", number=1, kind="question", text="which?")
        answered = e.QuestionAnswered(question_id="q", answer="that")
        events: list[e.AnyFact] = [asks, answered, e.RunFinished()]
        stood = []
        for seq, event in enumerate(events, 1):
            await store.append("r", seq, told("r", event, after=seq))
            stood.append([way for way in (*ACTIVE, *ENDED) if await _ids(store, status=(way,))])

        assert stood == [["asking"], ["running"], ["finished"]]

    async def test_a_page_is_narrowed_to_chats(self, store: Store) -> None:
        await store.append("w", 0, started("w"))
        await store.append("c", 0, started("c", kind="chat"))

        assert await _ids(store, kind="chat") == ["c"]
        assert await _ids(store, workspace="/home/me", kind="workflow") == ["w"]

    async def test_runs_are_matched_by_id_and_by_name(self, store: Store) -> None:
        for id, name in (("aa", ""), ("ab", "Fix it"), ("b", "aaa"), ("c", "fixed"), ("d", "aa")):
            await store.append(id, 0, started(id))
            if name:
                await store.append(id, 1, told(id, e.RunRenamed(name=name), after=1))
        await store.append("nowhere", 0, told("nowhere", e.RunRenamed(name="nowhere else")))

        async def ids(text: str, **wanted: Any) -> list[str]:
            return [kept.id for kept in await store.matching(text, **wanted)]

        assert await ids("a") == ["aa", "ab", "b", "d"]
        assert await ids("aa") == ["aa", "d"]
        assert await ids("fix") == ["ab", "c"]
        assert await ids("FIX  IT") == ["ab"]
        assert await ids("%") == []
        assert await ids("A") == ["b", "d"]
        assert await ids("") == ["aa", "ab", "b", "c", "d", "nowhere"]
        assert await ids("", limit=2) == ["aa", "ab"]
        assert await ids("a", limit=1) == ["aa", "b"]
        assert await ids("fix", workspace="/elsewhere") == []
        assert await ids("nowhere e", workspace="/elsewhere") == ["nowhere"]
        await store.append("ab", 2, told("ab", e.RunRenamed(name=""), after=2))
        assert await ids("fix") == ["c"]

    async def test_a_lineage_begins_with_the_run_itself(self, store: Store) -> None:
        await store.append("r", 0, started("r"))
        await store.append("other", 0, started("other"))
        await store.fork("r", 1, "f")
        await store.fork("f", 1, "g")
        every = {kept.id: kept for kept in await store.listing()}

        assert await store.lineage("g") == [every["g"], every["f"], every["r"]]
        assert await store.lineage("other") == [every["other"]]
        assert await store.lineage("nobody") == []

    async def test_the_listing_is_the_same_when_opened_again(
        self, store: Store, another: Another
    ) -> None:
        await store.append("r", 0, started("r"))
        await store.fork("r", 1, "f")
        before = await store.listing()

        assert await (await _reopened(store, another)).listing() == before

    # --- forks ----------------------------------------------------------------------------------

    async def test_a_fork_begins_with_the_facts_of_its_source(self, store: Store) -> None:
        for seq in range(1, 6):
            await store.append("r", seq - 1, [fact("r", seq)])

        assert await store.fork("r", 3, "f") == 3
        assert await store.read("f") == facts("f", 1, 3)
        run = await listed(store, "f")
        assert (run.seq, run.parent, run.parent_seq) == (3, "r", 3)

    async def test_a_fork_and_its_source_go_on_apart(self, store: Store) -> None:
        for seq in range(1, 4):
            await store.append("r", seq - 1, [fact("r", seq)])
        await store.fork("r", 2, "f")
        await store.append("f", 2, [fact("f", 3, "other"), fact("f", 4, "other")])
        await store.append("r", 3, [fact("r", 4)])

        assert await store.read("r") == facts("r", 1, 4)
        assert await store.read("f") == [
            *facts("f", 1, 2),
            fact("f", 3, "other"),
            fact("f", 4, "other"),
        ]
        assert await store.read("f", 1, 3) == [fact("f", 2), fact("f", 3, "other")]

    async def test_a_fork_takes_no_part_of_an_append(self, store: Store) -> None:
        await store.append("r", 0, facts("r", 1, 2))
        await store.append("r", 2, facts("r", 3, 6))

        assert await store.fork("r", 5, "f") == 2
        assert await store.read("f") == facts("f", 1, 2)
        assert await store.fork("r", 6, "g") == 6

    async def test_a_fork_beyond_the_end_takes_all(self, store: Store) -> None:
        await store.append("r", 0, facts("r", 1, 2))

        assert await store.fork("r", 99, "f") == 2
        assert await store.read("f") == facts("f", 1, 2)

    async def test_a_fork_of_a_fork_of_a_fork(self, store: Store) -> None:
        await store.append("r0", 0, [fact("r0", 1)])
        for level in range(1, 6):
            assert await store.fork(f"r{level - 1}", level, f"r{level}") == level
            await store.append(f"r{level}", level, [fact(f"r{level}", level + 1)])

        assert await store.read("r5") == facts("r5", 1, 6)
        assert await store.fork("r5", 2, "early") == 2
        assert await store.read("early") == facts("early", 1, 2)
        assert (await listed(store, "early")).parent == "r5"
        await store.append("early", 2, [fact("early", 3, "new")])
        assert await store.read("early", 1) == [fact("early", 2), fact("early", 3, "new")]

    async def test_a_fork_is_listed_as_its_source_was_then(self, store: Store) -> None:
        await store.append("r", 0, started("r"))
        await store.append("r", 1, told("r", e.RunFinished(), after=1))
        await store.fork("r", 1, "f")

        assert (await listed(store, "f")).summary.status == "running"
        assert (await listed(store, "f")).summary.workflow == "tidy"
        assert (await listed(store, "r")).summary.status == "finished"

    async def test_a_fork_of_nothing_is_refused(self, store: Store) -> None:
        await store.append("r", 0, facts("r", 1, 3))
        refused = [
            await error_of(store.fork("nobody", 1, "f")),
            await error_of(store.fork("r", 0, "f")),
            await error_of(store.fork("r", -5, "f")),
            await error_of(store.fork("r", 2, "f")),
        ]

        assert [type(error) for error in refused] == [UserMistake] * 4
        assert await _ids(store) == ["r"]

    async def test_a_fork_with_a_name_in_use_is_refused(self, store: Store) -> None:
        for run in ("r", "s"):
            await store.append(run, 0, [fact(run, 1)])

        assert isinstance(await error_of(store.fork("r", 1, "s")), UserMistake)
        assert isinstance(await error_of(store.fork("r", 1, "r")), UserMistake)
        assert await store.read("s") == [fact("s", 1)]

    async def test_a_fork_is_there_when_opened_again(self, store: Store, another: Another) -> None:
        await store.append("r", 0, [fact("r", 1)])
        await store.fork("r", 1, "f")
        again = await _reopened(store, another)
        await again.append("f", 1, [fact("f", 2)])

        assert await again.read("f") == facts("f", 1, 2)

    # --- imports --------------------------------------------------------------------------------

    async def test_an_imported_run_is_foreign_for_ever(
        self, store: Store, another: Another
    ) -> None:
        await store.adopt("r", [*started("r"), fact("r", 2)])
        await store.append("r", 2, [fact("r", 3)])
        again = await _reopened(store, another)
        run = await listed(again, "r")

        assert run.is_foreign
        assert (run.seq, run.summary.workflow) == (3, "tidy")
        assert await again.read("r") == [*started("r"), *facts("r", 2, 3)]

    async def test_an_imported_run_may_be_forked_anywhere(self, store: Store) -> None:
        await store.adopt("r", facts("r", 1, 4))

        assert await store.fork("r", 3, "f") == 3

    async def test_an_import_with_a_name_in_use_is_refused(self, store: Store) -> None:
        await store.append("r", 0, [fact("r", 1)])

        assert isinstance(await error_of(store.adopt("r", facts("r", 1, 4))), UserMistake)
        assert await store.read("r") == [fact("r", 1)]

    async def test_a_bad_import_keeps_nothing(self, store: Store) -> None:
        bad = told("r", e.WorkflowOutput(text="fine"), e.WorkflowOutput(text="\ud800"))

        assert await error_of(store.adopt("r", bad)) is not None
        assert await error_of(store.adopt("r", [fact("r", 2)])) is not None
        assert await error_of(store.adopt("r", [])) is not None
        assert await _ids(store) == []

    # --- the inbox ------------------------------------------------------------------------------

    async def test_a_message_is_handed_out_until_it_is_delivered(self, store: Store) -> None:
        mail = Mail(id="1", run="r", at=1.5, text="hi")

        assert await store.post(mail) == mail
        assert await store.undelivered("r") == [mail]
        assert await store.undelivered("r") == [mail]
        await store.delivered("r", "1")
        assert await store.undelivered("r") == []
        assert await store.mail("") == []

    async def test_messages_come_back_whole(self, store: Store, another: Another) -> None:
        posted = [
            Mail(id="1", run="r", at=0.1, text="a\0b \U0001f30a", question="q", source="cli"),
            Mail(id="2", run="r", at=2.0, unasked=True, policy="queue"),
            Mail(id="3", run="r", at=3.0, kind="approve", question="q", granted=True, for_run=True),
            Mail(id="4", run="r", at=4.0, kind="stop", text="enough"),
        ]
        for mail in posted:
            await store.post(mail)

        assert await (await another()).undelivered("r") == posted

    async def test_the_same_id_again_is_the_same_message(self, store: Store, other: Store) -> None:
        first = Mail(id="1", run="r", at=1.0, text="first")
        second = Mail(id="1", run="r", at=2.0, text="second")
        await store.post(first)

        assert await store.post(second) == first
        assert await other.post(second) == first
        assert await store.mail("") == [first]

    async def test_a_delivered_message_is_remembered(self, store: Store, another: Another) -> None:
        first = Mail(id="1", run="r", at=1.0, text="first")
        await store.post(first)
        await store.delivered("r", "1")
        again = await _reopened(store, another)

        assert await again.post(Mail(id="1", run="r", at=2.0, text="second")) == first
        assert await again.mail("") == []

    async def test_of_one_id_posted_at_once_one_is_kept(self, store: Store, other: Store) -> None:
        posting = [
            writer.post(Mail(id="1", run="r", at=float(n), text=str(n)))
            for n, writer in enumerate([store, other] * 5)
        ]
        receipts = await asyncio.gather(*posting)

        assert len(set(receipts)) == 1
        assert await store.mail("") == [receipts[0]]

    async def test_messages_are_the_oldest_first_and_of_their_run(self, store: Store) -> None:
        posted = [Mail(id=str(n), run="ab"[n % 2], at=float(9 - n)) for n in range(6)]
        for mail in posted:
            await store.post(mail)

        assert await store.mail("") == posted
        assert await store.undelivered("b") == posted[1::2]
        assert await store.undelivered("nobody") == []

    async def test_an_id_is_unique_for_its_run_only(self, store: Store) -> None:
        await store.post(Mail(id="1", run="a", at=1.0))
        await store.post(Mail(id="1", run="b", at=2.0))
        await store.delivered("a", "1")

        assert [mail.run for mail in await store.mail("")] == ["b"]

    async def test_an_unknown_message_is_left_unknown(self, store: Store) -> None:
        await store.delivered("r", "1")
        mail = Mail(id="1", run="r", at=1.0)
        await store.post(mail)

        assert await store.mail("") == [mail]

    async def test_messages_delivered_out_of_order(self, store: Store) -> None:
        posted = [Mail(id=str(n), run="r", at=float(n)) for n in range(5)]
        for mail in posted:
            await store.post(mail)
        for id in ("3", "0", "1"):
            await store.delivered("r", id)
            await store.undelivered("r")

        assert await store.undelivered("r") == [posted[2], posted[4]]
        await store.post(late := Mail(id="late", run="r", at=9.0))
        assert await store.undelivered("r") == [posted[2], posted[4], late]

    async def test_messages_are_there_after_a_kill(
        self, store: Store, other: Store, cut: Cut
    ) -> None:
        mail = Mail(id="1", run="r", at=1.0, text="still here")
        await other.post(mail)
        await cut(other)

        assert await store.undelivered("r") == [mail]

    async def test_a_message_that_is_no_text_is_refused(self, store: Store) -> None:
        bad = Mail(id="1", run="r", at=1.0, text="half \ud800")

        assert isinstance(await error_of(store.post(bad)), AuthorMistake)
        assert isinstance(
            await error_of(store.post(Mail(id="2", run="r", at=float("nan")))), AuthorMistake
        )
        assert await store.mail("") == []

    async def test_messages_are_asked_for_by_who_runs_their_run(
        self, store: Store, another: Another, cut: Cut
    ) -> None:
        other, dead = await another(), await another()
        for run, owner in (("ours", store), ("theirs", other), ("cut", dead), ("left", other)):
            await store.append(run, 0, started(run))
            await owner.claim(run)
        await other.release("left")
        mails = {
            run: await other.post(Mail(id="1", run=run, at=1.0))
            for run in ("ours", "theirs", "cut", "left", "unknown")
        }
        late = await other.post(Mail(id="2", run="ours", at=2.0))
        gone = dead.me
        await cut(dead)

        assert await store.mail(store.me) == [mails["ours"], late]
        assert await store.mail(other.me) == [mails["theirs"]]
        assert await store.mail(gone) == []
        assert await store.mail("") == [mails["cut"], mails["left"], mails["unknown"]]
        assert await store.mail("nobody") == []
        await store.delivered("ours", "1")
        assert await other.mail(store.me) == [late]
        await store.claim("cut")
        assert await store.mail(store.me) == [mails["cut"], late]

    # --- who has which run ----------------------------------------------------------------------

    async def test_what_was_posted_is_remembered_delivered_or_not(self, store: Store) -> None:
        first, other, second = (
            Mail(id=id, run=run, at=1.0, text=id)
            for id, run in (("2", "r"), ("1", "s"), ("1", "r"))
        )
        for mail in (first, other, second):
            await store.post(mail)
        await store.delivered("r", "2")

        assert await store.posted("r") == [first, second]
        assert await store.posted("s") == [other]
        assert await store.posted("nobody") == []

    async def test_a_run_is_claimed_and_let_go(self, store: Store) -> None:
        assert await store.owner_of("r") == ""
        assert not (await store.claim("r")).was_cut
        assert await store.owner_of("r") == store.me
        await store.release("r")
        assert await store.owner_of("r") == ""

    async def test_what_is_ours_stays_ours(self, store: Store) -> None:
        await store.claim("r")

        assert not (await store.claim("r")).was_cut
        assert await store.owner_of("r") == store.me

    async def test_another_owner_is_refused(self, store: Store, other: Store) -> None:
        await store.claim("r")
        error = await error_of(other.claim("r"))

        assert other.me != store.me
        assert isinstance(error, RunOwned)
        assert error.owner == store.me
        assert await other.owner_of("r") == store.me

    async def test_a_run_let_go_may_be_claimed_and_was_not_cut(
        self, store: Store, other: Store
    ) -> None:
        await store.claim("r")
        await store.release("r")

        assert not (await other.claim("r")).was_cut
        assert await store.owner_of("r") == other.me

    async def test_letting_go_of_anothers_run_changes_nothing(
        self, store: Store, other: Store
    ) -> None:
        await store.claim("r")
        await other.release("r")
        await other.release("unknown")

        assert await other.owner_of("r") == store.me

    async def test_a_closed_store_has_let_go(self, store: Store, other: Store) -> None:
        await store.append("r", 0, [fact("r", 1)])
        await store.claim("r")
        await store.aclose()

        assert await other.owner_of("r") == ""
        assert not (await listed(other, "r")).was_cut
        assert not (await other.claim("r")).was_cut

    async def test_the_run_of_a_dead_owner_is_listed_as_cut_and_may_be_claimed(
        self, store: Store, other: Store, cut: Cut
    ) -> None:
        await other.append("r", 0, [fact("r", 1)])
        await other.claim("r")
        assert (await listed(store, "r")).owner == other.me
        await cut(other)

        assert await store.owner_of("r") == ""
        run = await listed(store, "r")
        assert (run.owner, run.was_cut) == ("", True)
        assert (await store.claim("r")).was_cut
        run = await listed(store, "r")
        assert (run.owner, run.was_cut) == (store.me, False)

    async def test_a_run_that_was_cut_stays_so_until_something_is_appended(
        self, store: Store, another: Another, cut: Cut
    ) -> None:
        dead, closing, other = await another(), await another(), await another()
        await dead.append("r", 0, [fact("r", 1)])
        await dead.claim("r")
        await cut(dead)
        for _ in range(2):
            assert (await store.claim("r")).was_cut
            assert (await store.claim("r")).was_cut
            await store.release("r")
            await store.release("r")
            assert await store.owner_of("r") == ""
            assert (await listed(store, "r")).was_cut
        assert (await closing.claim("r")).was_cut
        await closing.aclose()
        assert (await other.claim("r")).was_cut
        await other.append("r", 1, [fact("r", 2)])

        assert not (await other.claim("r")).was_cut
        await other.release("r")
        assert not (await store.claim("r")).was_cut
        await store.release("r")
        assert not (await listed(store, "r")).was_cut

    async def test_of_many_that_claim_a_dead_owners_run_one_gets_it(
        self, store: Store, another: Another, cut: Cut
    ) -> None:
        dead = await another()
        await dead.claim("r")
        others = [store, await another(), await another()]
        await cut(dead)
        errors = await asyncio.gather(*(error_of(other.claim("r")) for other in others))

        assert sorted(str(type(error).__name__) for error in errors) == [
            "NoneType",
            "RunOwned",
            "RunOwned",
        ]

    async def test_nobody_appends_to_the_run_of_another_living_owner(
        self, store: Store, other: Store, cut: Cut
    ) -> None:
        await other.claim("r")
        await other.append("r", 0, [fact("r", 1)])

        assert isinstance(await error_of(store.append("r", 1, [fact("r", 2)])), JournalMoved)
        await cut(other)
        await store.append("r", 1, [fact("r", 2)])
        assert await store.read("r") == facts("r", 1, 2)

    async def test_a_claim_is_of_one_run_only(self, store: Store, other: Store) -> None:
        await store.claim("a")
        await other.claim("b")

        assert await store.owner_of("a") == store.me
        assert await store.owner_of("b") == other.me

    # --- snapshots ------------------------------------------------------------------------------

    async def test_the_newest_snapshot_is_kept(self, store: Store, another: Another) -> None:
        assert await store.snapshot("r") is None
        await store.keep_snapshot("r", 10, b"ten")
        await store.keep_snapshot("r", 20, b"twenty\0\xff")
        await store.keep_snapshot("s", 1, b"")

        assert await store.snapshot("r") == (20, b"twenty\0\xff", {})
        again = await _reopened(store, another)
        assert await again.snapshot("r") == (20, b"twenty\0\xff", {})
        assert await again.snapshot("s") == (1, b"", {})

    async def test_pages_of_a_snapshot_are_asked_for_once(
        self, store: Store, another: Another
    ) -> None:
        asked: list[str] = []

        class Pages(dict[str, bytes]):
            def __getitem__(self, name: str) -> bytes:
                asked.append(name)
                return super().__getitem__(name)

        await store.keep_snapshot("r", 1, b"one", Pages(a=b"A\0", b=b""))
        await store.keep_snapshot("other", 1, b"one", Pages(a=b"A\0"))
        assert sorted(asked) == ["a", "a", "b"]
        await store.keep_snapshot("r", 2, b"two", Pages(b=b"", c=b"C"))

        assert sorted(asked) == ["a", "a", "b", "c"]
        assert await store.snapshot("r") == (2, b"two", {"b": b"", "c": b"C"})
        again = await _reopened(store, another)
        assert await again.snapshot("r") == (2, b"two", {"b": b"", "c": b"C"})
        assert await again.snapshot("other") == (1, b"one", {"a": b"A\0"})
        await again.keep_snapshot("r", 3, b"three")
        assert await again.snapshot("r") == (3, b"three", {})

    async def test_snapshots_can_be_forgotten(self, store: Store) -> None:
        for run in ("a", "b", "c"):
            await store.append(run, 0, [fact(run, 1)])
            await store.keep_snapshot(run, 1, b"x", {"p": b"P"})
        await store.forget_snapshots("a")

        assert await store.snapshot("a") is None
        assert await store.snapshot("b") == (1, b"x", {"p": b"P"})
        await store.forget_snapshots()
        assert await store.snapshot("c") is None
        assert await store.read("a") == [fact("a", 1)]

    # --- the blob store ---------------------------------------------------------------------------

    async def test_what_is_put_in_the_blob_store_is_there(
        self, store: Store, another: Another
    ) -> None:
        for data in (b"", b"hello", bytes(range(256)) * 5000):
            key = await store.put(data)

            assert key == hashlib.sha256(data).hexdigest()
            assert await store.get(key) == data
        assert await (await _reopened(store, another)).get(key) == data

    async def test_what_is_put_twice_has_one_key(self, store: Store, other: Store) -> None:
        keys = await asyncio.gather(*(place.put(b"same" * 1000) for place in [store, other] * 4))

        assert len(set(keys)) == 1
        assert await store.get(keys[0]) == b"same" * 1000

    async def test_a_key_is_known_by_its_beginning(self, store: Store) -> None:
        keys = [await store.put(str(number).encode()) for number in range(9)]

        assert [await store.get(key[:8]) for key in keys] == [b"%d" % n for n in range(9)]
        assert await store.get(keys[0][:63]) == b"0"
        for key in (keys[0][:7], f"{keys[0][:8]}*", "0" * 8):
            assert isinstance(await error_of(store.get(key)), WorldTrouble)

    async def test_what_is_not_in_the_blob_store_is_trouble(self, store: Store) -> None:
        for key in ("0" * 64, "", "../../etc/passwd", "0" * 63 + "\n", "Z" * 64):
            assert isinstance(await error_of(store.get(key)), WorldTrouble)

    # --- hearing of changes ---------------------------------------------------------------------

    async def test_who_waits_hears_of_an_append(self, store: Store) -> None:
        await store.changed(0)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(store.changed(60))
            await asyncio.sleep(0)
            await store.append("r", 0, [fact("r", 1)])

        assert waiting.done()

    async def test_who_waits_hears_of_another_owners_message(
        self, store: Store, other: Store
    ) -> None:
        mail = Mail(id="1", run="r", at=1.0)

        async def watch() -> None:
            while not await store.mail(""):
                await store.changed(60)

        async with asyncio.TaskGroup() as group:
            group.create_task(watch())
            await asyncio.sleep(0.03)
            await other.post(mail)

        assert await store.mail("") == [mail]

    async def test_an_owner_that_is_called_hears_it(self, store: Store, other: Store) -> None:
        async with contextlib.aclosing(store.rings()) as rings:
            hearing = asyncio.ensure_future(anext(rings))
            while not hearing.done():
                await other.ring(store.me)
                await asyncio.sleep(0)
            await hearing

    async def test_who_runs_a_run_is_called_for_what_is_sent_to_it(
        self, store: Store, another: Another
    ) -> None:
        other, sent = await another(), list[Mail]()
        await store.append("r", 0, started("r"))
        await store.claim("r")
        async with contextlib.aclosing(store.rings()) as rings:
            hearing = asyncio.ensure_future(anext(rings))
            while not hearing.done():
                sent.append(await other.post(Mail(id=secrets.token_hex(4), run="r", at=1.0)))
                await asyncio.sleep(0)
            await hearing
            assert (await store.mail(store.me))[0] == sent[0]

    async def test_a_call_that_nobody_hears_is_lost(self, store: Store, other: Store) -> None:
        for owner in (other.me, store.me, "nobody", ""):
            await store.ring(owner)

    async def test_an_owner_lives_for_some_time_longer(
        self, store: Store, another: Another
    ) -> None:
        await store.append("r", 0, started("r"))
        await store.claim("r")

        assert await store.renew() > 0
        assert await (await another()).owner_of("r") == store.me

    async def test_who_waits_for_a_run_hears_of_it(self, store: Store, other: Store) -> None:
        await store.changed(0)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(store.changed(60, ("r",)))
            while not waiting.done():
                await other.post(Mail(id=secrets.token_hex(4), run="r", at=1.0))
                await asyncio.sleep(0)

    async def test_a_change_between_two_waits_is_not_missed(
        self, store: Store, other: Store
    ) -> None:
        await store.changed(0)
        await other.post(Mail(id="1", run="r", at=1.0))
        await store.changed(60)

        assert len(await store.mail("")) == 1

    async def test_waiting_ends_in_time(self, store: Store) -> None:
        for _ in range(3):
            await store.changed(0.001)

    async def test_a_cancelled_wait_is_gone(self, store: Store) -> None:
        await store.changed(0)
        waiting = asyncio.ensure_future(store.changed(3600))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})

        assert waiting.cancelled()
        await store.append("r", 0, [fact("r", 1)])


class SharedStore(Store, Pool, Protocol):
    """A store that workers of many machines share."""


def worker_at(store: Store, *, host: str = "", **how: Any) -> WorkerInfo:
    """Return what the worker that has a store says of itself."""
    return WorkerInfo(owner=store.me, host=host, pid=1, version="1", since=0.0, max_runs=9, **how)


async def _taken(store: SharedStore, limit: int = 9, **how: Any) -> list[str]:
    return [each.kept.id for each in await store.take(worker_at(store, **how), limit)]


class PoolContract(_BesideAnother):
    """The port `Pool`, of a store. Fixtures: see the module."""

    @staticmethod
    async def _owed(store: SharedStore, run: str, place: Placement | None = None) -> None:
        """Begin a run that has something to do and that nobody has."""
        await store.assign(run, place or Placement())
        await store.claim(run)
        await store.append(run, 0, started(run, workspace=f"/home/{run}"))
        await store.release(run, 0.0)

    async def test_a_run_is_where_it_was_assigned(self, store: SharedStore) -> None:
        place = Placement(host="here", queue="slow", user="ann", repository="", commit="")
        await store.assign("r", place)
        assert await store.run("r") is None
        await store.append("r", 0, started("r"))
        assert (await listed(store, "r")).placement == place

        await store.fork("r", 1, "f")
        assert (await listed(store, "f")).placement == place
        away = Placement(repository="https://example.org/r.git", commit="abc", push="result")
        await store.assign("r", away)
        assert (await listed(store, "r")).placement == away
        assert (await listed(store, "f")).placement == place

    async def test_a_run_that_nobody_placed_has_a_place_once_it_is_claimed(
        self, store: SharedStore
    ) -> None:
        await store.append("r", 0, started("r"))
        assert (await listed(store, "r")).placement is None
        await store.claim("r")
        assert (await listed(store, "r")).placement is not None

    async def test_what_is_owed_is_taken_once(self, store: SharedStore, other: SharedStore) -> None:
        await self._owed(store, "r")
        (taken,) = await other.take(worker_at(other), 9)

        assert (taken.kept.id, taken.kept.seq, taken.kept.owner) == ("r", 1, other.me)
        assert (taken.claim.was_cut, taken.claim.deaths) == (False, 0)
        assert taken.claim.epoch == (await other.claim("r")).epoch > 1
        assert await _taken(store) == []
        assert await _taken(other) == []
        assert await store.owner_of("r") == other.me

    async def test_nothing_is_owed_to_what_waits_for_a_person_has_ended_or_is_foreign(
        self, store: SharedStore
    ) -> None:
        for run in ("waiting", "ended", "forked"):
            await store.append(run, 0, started(run))
        await store.append("ended", 1, told("ended", e.RunFinished(), after=1))
        await store.fork("forked", 1, "fork")
        await store.adopt("foreign", started("foreign"))
        for run in ("waiting", "ended", "foreign", "new"):
            await store.claim(run)
            await store.release(run, None if run == "waiting" else 0.0)
        for run in ("ended", "foreign", "new", "unknown"):
            await store.post(Mail(id="1", run=run, at=1.0))

        assert await _taken(store) == []

    async def test_what_was_sent_something_is_owed_it(self, store: SharedStore) -> None:
        await store.append("r", 0, started("r"))
        await store.post(Mail(id="1", run="r", at=1.0))
        assert await _taken(store) == ["r"]

        await store.release("r")
        assert await _taken(store) == ["r"]
        await store.delivered("r", "1")
        await store.release("r")
        assert await _taken(store) == []

    async def test_what_is_due_later_is_owed_later(self, store: SharedStore) -> None:
        await store.append("r", 0, started("r"))
        for due_at, found in ((store.now() + 3600, []), (store.now() - 1, ["r"])):
            await store.claim("r")
            await store.release("r", due_at)
            assert await _taken(store) == found

    async def test_the_runs_of_a_dead_owner_are_owed(
        self, store: SharedStore, another: Another, cut: Cut
    ) -> None:
        dead = await another()
        await dead.append("r", 0, started("r"))
        await dead.claim("r")
        assert await _taken(store) == []
        await cut(dead)
        (taken,) = await store.take(worker_at(store), 9)

        assert (taken.kept.id, taken.kept.was_cut, taken.claim.was_cut) == ("r", False, True)
        assert taken.claim.deaths == 1
        await store.release("r")
        assert await _taken(store) == ["r"]

    async def test_a_closed_store_leaves_its_runs_to_others(
        self, store: SharedStore, other: Store
    ) -> None:
        await other.append("r", 0, started("r"))
        await other.claim("r")
        await other.aclose()

        assert await _taken(store) == ["r"]

    async def test_an_epoch_grows_with_each_change_of_owner(
        self, store: SharedStore, another: Another, cut: Cut
    ) -> None:
        await store.append("r", 0, started("r"))
        epochs = [(await store.claim("r")).epoch, (await store.claim("r")).epoch]
        await store.release("r")
        for _ in range(2):
            other = await another()
            epochs.append((await other.claim("r")).epoch)
            await cut(other)

        assert epochs[0] == epochs[1] < epochs[2] < epochs[3]

    async def test_an_owner_hears_what_it_is_told(
        self, store: SharedStore, other: SharedStore
    ) -> None:
        longest = "é" * (NOTE_BYTES // 2)
        with store.told() as told:
            assert await told.get() == ""  # from now on it hears
            await other.tell(other.me, "not for it")
            for note in ("one", longest, "three"):
                await other.tell(store.me, note)
            heard = [await told.get() for _ in range(3)]

        assert heard == ["one", longest, "three"]
        await other.tell(store.me, "nobody has to hear this")
        await other.tell("nobody", "lost")

    async def test_deaths_in_a_row_are_counted_until_it_is_let_go_or_goes_on(
        self, store: SharedStore, another: Another, cut: Cut
    ) -> None:
        await store.append("r", 0, started("r"))
        seq = 1

        async def dies(facts_more: int = 1) -> int:
            nonlocal seq
            other = await another()
            claim = await other.claim("r")
            more = facts("r", seq + 1, seq + facts_more)
            await other.append("r", seq, more)
            seq += facts_more
            await cut(other)
            return claim.deaths

        assert [await dies() for _ in range(3)] == [0, 1, 2]
        assert await dies(GOES_ON) == 3
        assert await dies() == 1
        claim = await store.claim("r")
        assert claim.deaths == 2
        await store.append("r", seq, [fact("r", seq + 1)])
        await store.release("r")
        assert (await store.claim("r")).deaths == 0

    async def test_a_run_goes_to_workers_that_it_fits(self, store: SharedStore) -> None:
        clone = {"cloned": "no git"}
        where = {
            "here": Placement(host="here"),
            "there": Placement(host="there"),
            "slow": Placement(queue="slow"),
            "cloned": Placement(host="there", repository="https://example.org/r.git"),
        }
        ways: dict[str, dict[str, Any]] = {
            "cloned here slow": {"host": "here"},
            "cloned slow there": {"host": "there"},
            "slow": {"host": "here", "queues": ("slow",)},
            "cloned slow": {"host": "here", "refuses": {"here": "damaged"}},
            "cloned there": {"host": "there", "refuses": {"/home/slow": "untrusted"}},
            "here": {
                "host": "here",
                "workspaces": ("/nowhere/*", "/home/[!s]?r[a-e]"),
                "refuses": clone,
            },
            "": {"host": "here", "workspaces": ("/home/HERE", "*/her"), "refuses": clone},
        }
        for run, place in where.items():
            await self._owed(store, run, place)
        for expected, how in ways.items():
            taken = await _taken(store, **how)
            for run in taken:
                await store.release(run, 0.0)
            assert " ".join(sorted(taken)) == expected
        assert await _taken(store, host="here", is_leaving=True) == []

    async def test_no_more_are_taken_than_asked_for_the_longest_waiting_first(
        self, store: SharedStore
    ) -> None:
        for seq, run in enumerate("cab"):
            await self._owed(store, run)
            await store.append(run, 1, told(run, *[e.WorkflowOutput(text="")] * seq, after=1))

        assert await _taken(store, 0) == []
        assert await _taken(store, 2) == ["c", "a"]
        assert await _taken(store) == ["b"]

    async def test_people_share_the_workers_fairly(
        self, store: SharedStore, other: SharedStore
    ) -> None:
        for person, count in (("ann", 5), ("bob", 2), ("cid", 1)):
            for number in range(count):
                await self._owed(store, f"{person}{number}", Placement(user=person))

        assert await _taken(store, 1) == ["ann0"]
        assert await _taken(other, 4) == ["bob0", "cid0", "ann1", "bob1"]
        assert await _taken(other) == ["ann2", "ann3", "ann4"]

    async def test_of_the_runs_that_may_kill_a_worker_it_has_one(
        self, store: SharedStore, another: Another, cut: Cut
    ) -> None:
        other = cast(SharedStore, await another())
        for run in ("a", "b", "good"):
            await store.append(run, 0, started(run))
        for _ in range(SUSPECT):
            dead = await another()
            await dead.claim("a")
            await dead.claim("b")
            await cut(dead)
        await store.claim("good")
        await store.release("good", 0.0)

        assert sorted(await _taken(store)) == ["a", "good"]
        assert await _taken(store) == []
        assert await _taken(other) == ["b"]
        await store.append("a", 1, [fact("a", 2)])
        await store.release("a")
        await other.release("b")
        assert await _taken(store) == ["b"]

    async def test_many_that_take_at_once_take_each_run_once(
        self, store: SharedStore, another: Another
    ) -> None:
        others = [store, *[cast(SharedStore, await another()) for _ in range(2)]]
        for number in range(20):
            await self._owed(store, f"r{number}")
        found: list[str] = []
        while len(found) < 20:
            for some in await asyncio.gather(*(_taken(other, 3) for other in others)):
                found += some

        assert len(set(found)) == 20

    async def test_who_waits_for_work_hears_of_it(self, store: SharedStore, other: Store) -> None:
        await store.append("r", 0, started("r"))
        await store.offered(0)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(store.offered(60))
            await asyncio.sleep(0.03)
            await other.post(Mail(id="1", run="r", at=1.0))

        assert waiting.done()
        assert await _taken(store) == ["r"]

    async def test_who_waits_for_work_hears_of_what_is_let_go(
        self, store: SharedStore, other: Store
    ) -> None:
        await other.append("r", 0, started("r"))
        await other.claim("r")
        await store.offered(0)
        async with asyncio.TaskGroup() as group:
            group.create_task(store.offered(60))
            await asyncio.sleep(0.03)
            await other.release("r", 0.0)

        assert await _taken(store) == ["r"]

    async def test_workers_that_live_are_known(
        self, store: SharedStore, other: SharedStore, cut: Cut
    ) -> None:
        await store.append("r", 0, started("r"))
        assert await store.workers() == []
        await store.announce(worker_at(store, host="here", queues=("a", "b")))
        await other.announce(worker_at(other, host="there", refuses={"/x": "untrusted"}))
        await other.announce(leaving := worker_at(other, host="there", is_leaving=True))
        await other.claim("r")
        found = await store.workers()

        assert [(each.owner, each.host, each.runs) for each in found] == [
            (store.me, "here", ()),
            (other.me, "there", ("r",)),
        ]
        assert msgspec.structs.replace(found[1], runs=(), seen_s=0.0) == leaving
        await cut(other)
        assert [each.owner for each in await store.workers()] == [store.me]

    async def test_supplies_are_shared(self, store: SharedStore, other: SharedStore) -> None:
        slow = {"a": Rate(per_minute=0.001, burst=3.0)}
        assert [await pool.admit(slow) for pool in (store, other, store)] == [0.0] * 3
        assert 0 < await other.admit(slow) <= 60_000
        assert await store.admit({"b": Rate(per_minute=0.001, burst=1.0)}) == 0.0

    async def test_of_several_supplies_all_or_none_is_taken(self, store: SharedStore) -> None:
        full, empty = Rate(per_minute=0.001, burst=2.0), Rate(per_minute=0.001, burst=1.0)
        assert await store.admit({"a": full, "b": empty}) == 0.0
        assert await store.admit({"a": full, "b": empty}) > 0
        assert await store.admit({"a": full}) == 0.0
        assert await store.admit({"a": full}) > 0
        assert await store.admit({}) == 0.0

    async def test_a_supply_fills_again(self, store: SharedStore) -> None:
        fast = {"a": Rate(per_minute=60_000.0, burst=2.0)}
        assert await store.admit(fast, 2.0) == 0.0
        for _ in range(1000):
            if (wait := await store.admit(fast, 2.0)) == 0:
                return
            await asyncio.sleep(wait)
        raise AssertionError("it stays empty")

    async def test_the_time_goes_on(self, store: SharedStore, other: SharedStore) -> None:
        first = store.now()
        assert first <= store.now()
        assert abs(other.now() - first) < _ALIKE_S

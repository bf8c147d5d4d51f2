"""Replay: folding again and comparing; what is wrong is named by seq and field."""

import msgspec
import pytest
from time_travel_kit import chatted

from midstream.core.codec import encode_run
from midstream.core.notices import Envelope
from midstream.language.errors import JournalDamaged, UserMistake
from midstream.runtime.engine import open_run as replaying
from midstream.runtime.engine.open_run import keep, opened, replay
from midstream.runtime.engine.time_travel import fork
from midstream.store.memory import MemoryStore


class DamagedStore(MemoryStore):
    """A store in which a fact is not what was written."""

    damaged = 0

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        facts = await super().read(run, after, upto)
        if any(fact.seq == self.damaged for fact in facts):
            raise JournalDamaged(
                f"Fact {self.damaged} of run {run} is damaged.", run=run, seq=self.damaged
            )
        return facts


async def test_a_run_folds_to_what_its_process_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "AT_ONCE", 4)
    store = MemoryStore()
    id = await chatted(store, "one", "two")
    run = await opened(store, id)
    await keep(store, run)

    came = await replay(store, id)

    assert came.is_same
    assert (came.facts, came.snapshot, came.run) == (run.seq, run.seq, run)


async def test_a_difference_names_the_fact_and_the_field() -> None:
    store = MemoryStore()
    id = await chatted(store, "one", "two")
    was = await opened(store, id, upto=8)
    other = msgspec.structs.replace(was, common_data={"depth": 2})
    await store.keep_snapshot(id, 8, *encode_run(other))

    came = await replay(store, id)

    assert not came.is_same
    assert (came.snapshot, str(came.difference)) == (8, "common_data.depth: 2 -> nothing")
    assert came.facts > 8


async def test_with_nothing_kept_there_is_nothing_to_compare() -> None:
    store = MemoryStore()
    id = await chatted(store, "one")
    await store.forget_snapshots()

    came = await replay(store, id)

    assert (came.is_same, came.snapshot) == (True, None)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"id": 1}', b"\xff"])
async def test_a_snapshot_that_is_none_is_not_compared(data: bytes) -> None:
    store = MemoryStore()
    id = await chatted(store, "one")
    await store.keep_snapshot(id, 3, data)

    came = await replay(store, id)

    assert (came.is_same, came.snapshot) == (True, None)


async def test_a_fork_is_folded_with_what_it_began_with() -> None:
    store = MemoryStore()
    forked = await fork(store, await chatted(store, "one", "two"), 9)

    came = await replay(store, forked.id)

    assert (came.facts, came.run.id, came.is_same) == (forked.seq, forked.id, True)


@pytest.mark.parametrize("seq", [1, 5, 11])
async def test_damage_is_named_and_what_is_before_it_folded(
    seq: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "AT_ONCE", 4)
    store = DamagedStore()
    id = await chatted(store, "one", "two")
    await store.forget_snapshots()
    store.damaged = seq

    came = await replay(store, id)

    assert came.damage is not None
    assert (came.damage.run, came.damage.seq, came.facts) == (id, seq, seq - 1)
    assert not came.is_same


async def test_a_fact_that_does_not_follow_ends_the_folding() -> None:
    store = MemoryStore()
    facts = await store.read(await chatted(store, "one"))
    await store.adopt(
        "odd",
        [
            msgspec.structs.replace(facts[0], run="odd"),
            msgspec.structs.replace(facts[7], run="odd", seq=2),
        ],
    )

    came = await replay(store, "odd")

    assert (came.facts, came.is_same) == (1, False)
    assert came.unfoldable


async def test_a_run_that_never_was_is_no_success() -> None:
    with pytest.raises(UserMistake, match="no run nosuch"):
        await replay(MemoryStore(), "nosuch")

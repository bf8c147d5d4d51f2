"""A run as the store has it: its newest snapshot and the facts since, folded; and folded again, to compare.

`replay` folds all facts anew and compares with what the process that ran the run had. No model, tool or
handler is called: a run is what its facts say. A difference means that a fact does not mean today what it
meant when the run was folded first, or that the disk changed what it holds.
"""

import asyncio

import msgspec

from midstream.core.codec import Undecodable, decode_run, encode_run
from midstream.core.events import Fact
from midstream.core.fold.apply import apply
from midstream.core.run import Run
from midstream.language.errors import JournalDamaged, UserMistake, nearest
from midstream.runtime.storage import KeptRun, Snapshots, Store
from midstream.system.offloop import in_thread
from midstream.views.difference import Difference, first_difference

SNAPSHOT_EVERY = 1_000
"""Facts after which the folded run is kept anew, so that opening it never folds many more."""

SNAPSHOT_SHARE = 200
"""Of a very long run it is kept anew after that share of its facts: the names of its pages grow with it."""

_FOLDED_IN_A_ROW = 500
"""Facts folded before the rest of the program has a turn."""


async def opened(
    store: Store, id: str, *, upto: int | None = None, known: Run | None = None
) -> Run:
    """Return the run as it stands in the store, or as it stood after fact `upto`.

    `known` is the run as it stood some time ago: only what came since is read and folded.

    Raises:
        UserMistake: there is no such run.
        JournalDamaged: a fact is not what was written; opening up to the one before works.
    """
    run = known or Run(id=id)
    kept = await store.snapshot(id) if known is None else None
    if kept is not None and (upto is None or kept[0] <= upto):
        try:
            run = await in_thread(lambda: decode_run(*kept[1:]))
        except Undecodable:
            run = Run(id=id)
    for count, envelope in enumerate(await store.read(id, run.seq, upto), 1):
        assert isinstance(envelope.event, Fact)
        run = apply(run, envelope.event)
        if count % _FOLDED_IN_A_ROW == 0:
            await asyncio.sleep(0)
    if run.definition is None:
        raise UserMistake(f"There is no run {id}.", hint="midstream runs lists them.")
    return msgspec.structs.replace(run, id=id)


async def keep(store: Store, run: Run) -> None:
    """Keep a snapshot of the run as it stands."""
    head, pages = await in_thread(lambda: encode_run(run))
    await store.keep_snapshot(run.id, run.seq, head, pages)


async def found(store: Store, prefix: str) -> KeptRun:
    """Return the run whose id begins so, or whose name does.

    Raises:
        UserMistake: none does, or several do.
    """
    if (exactly := await store.run(prefix)) is not None:
        return exactly
    matching = await store.matching(prefix)
    # What begins so by its id is meant before what is called so.
    meant = [kept for kept in matching if kept.id.startswith(prefix)] or matching
    if len(meant) == 1:
        return meant[0]
    if meant and prefix:
        ids = ", ".join(kept.id for kept in meant[:5])
        raise UserMistake(f"Several runs begin with {prefix}: {ids}.", hint="Type more of the id.")
    best = nearest(prefix, [kept.id for kept in await store.listing()])
    hint = "midstream runs --all lists them." if best is None else f"Did you mean {best!r}?"
    raise UserMistake(f"There is no run {prefix!r}.", hint=hint)


AT_ONCE = 1_000
"""Facts that are read together, so that a long run is never in memory as a whole."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What folding again came to.

    `facts` were folded; `run` is the run after them. `snapshot` is the fact after which the process
    that ran it kept how it stood, None if it kept nothing that can be read today. `difference` is
    the first one at that fact. `damage` is what ended the folding early; `unfoldable` says why the
    fact after the last folded one makes no sense.
    """

    run: Run
    facts: int
    snapshot: int | None = None
    difference: Difference | None = None
    damage: JournalDamaged | None = None
    unfoldable: str = ""

    @property
    def is_same(self) -> bool:
        """Return whether everything was folded and nothing was different."""
        return self.difference is None and self.damage is None and not self.unfoldable


async def replay(store: Store, id: str) -> Replayed:
    """Return what folding all facts of a run again comes to. Every checksum is verified.

    Raises:
        UserMistake: there is no such run.
    """
    kept = await _kept(store, id)
    run, damage, unfoldable = Run(id=id), None, ""
    difference: Difference | None = None
    while damage is None and not unfoldable:
        try:
            facts = await store.read(id, run.seq, run.seq + AT_ONCE)
        except JournalDamaged as error:
            damage = error
            facts = await store.read(id, run.seq, error.seq - 1)
        if not facts:
            break
        for envelope in facts:
            assert isinstance(envelope.event, Fact)
            try:
                run = apply(run, envelope.event)
            except Exception as error:  # a fact that does not fit may break folding anywhere
                unfoldable = f"{type(error).__name__}: {error}"
                break
            if kept is not None and run.seq == kept.seq:
                difference = first_difference(kept, run)
            if run.seq % _FOLDED_IN_A_ROW == 0:
                await asyncio.sleep(0)
    if run.seq == 0 and damage is None and not unfoldable:
        raise UserMistake(f"There is no run {id}.", hint="midstream runs lists them.")
    return Replayed(
        run=run,
        facts=run.seq,
        snapshot=kept.seq if kept is not None and kept.seq <= run.seq else None,
        difference=difference,
        damage=damage,
        unfoldable=unfoldable,
    )


async def _kept(store: Snapshots, id: str) -> Run | None:
    """Return the run as the process that ran it kept it, None where nothing readable is kept."""
    kept = await store.snapshot(id)
    if kept is None:
        return None
    try:
        run = await in_thread(lambda: decode_run(*kept[1:]))
    except Undecodable:
        return None
    return msgspec.structs.replace(run, id=id)

"""A run as the store has it: its newest snapshot and the facts since, folded."""

import asyncio

import msgspec

from midstream.core.codec import Undecodable, decode_run, encode_run
from midstream.core.events import Fact
from midstream.core.fold.apply import apply
from midstream.core.run import Run
from midstream.language.errors import UserMistake, nearest
from midstream.runtime.storage import KeptRun, Store
from midstream.system.offloop import in_thread
from midstream.views.listing import named_like

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
    if exactly := await store.lineage(prefix):
        return exactly[0]
    matching = listing = await store.listing(begins=prefix)
    if not matching:
        listing = await store.listing()
        named = named_like(prefix, [(kept.id, kept.summary.name) for kept in listing])
        matching = [kept for kept in listing if kept.id in named]
    if len(matching) == 1:
        return matching[0]
    if matching and prefix:
        ids = ", ".join(kept.id for kept in matching[:5])
        raise UserMistake(f"Several runs begin with {prefix}: {ids}.", hint="Type more of the id.")
    best = nearest(prefix, [kept.id for kept in listing])
    hint = "midstream runs --all lists them." if best is None else f"Did you mean {best!r}?"
    raise UserMistake(f"There is no run {prefix!r}.", hint=hint)

"""Runs of one journal carried over into another, and old ones put away.

A run comes whole or not at all, with its id, times, forks, words and the contents it names. Facts are read
along the chain of checksums, and read back once they are written. Killed and begun again, a copy goes
on: what is there is compared, and only what is missing is added.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from midstream.core.codec import encode_fact
from midstream.core.events import Fact
from midstream.core.notices import Envelope
from midstream.language.errors import ContentsMissing, MidstreamError, WorldTrouble
from midstream.runtime.storage import KeptRun, Placement, Pool, Store, keys_in, named_by, walk
from midstream.system.offloop import in_thread
from midstream.views.listing import ENDED

Outcome: TypeAlias = Literal["copied", "added", "same", "left", "deleted"]
"""What became of a run: it is new there, it got what was missing, nothing was missing; it was left as it
is; it was deleted.
"""


class Copied(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a run: so many `facts` (and contents) came or went. `why`: it was left."""

    run: str
    outcome: Outcome
    facts: int = 0
    blobs: int = 0
    why: str = ""


_COMING = Placement(host="(being copied)", queue="(being copied)")


class _Left(Exception):
    """A run cannot be copied."""


async def copied(source: Store, target: Store, here: Placement) -> AsyncIterator[Copied]:
    """Copy runs that no process runs, and yield what became of each; parents come before their forks.

    Args:
        source: nothing of it is changed.
        target: another journal.
        here: where the runs of a journal on one machine belong, should the target ask that.
    """
    done: set[str] = set()
    async for kept in walk(source):
        for each in await _with_parents(source, kept):
            if each.id not in done:
                done.add(each.id)
                yield await _outcome(source, target, each, here)


async def put_away(
    store: Store,
    archive: Store | None,
    before: float,
    here: Placement,
    *,
    is_dry: bool = False,
) -> AsyncIterator[Copied]:
    """Delete the runs that had ended before a time, in seconds since 1970, and yield what became of each.

    Args:
        store: what they are deleted from.
        archive: a journal they are copied to first; one that could not be is left where it is.
        before: only those whose last fact is older.
        here: as in `copied`.
        is_dry: only say which.
    """
    archived: set[str] = set()
    later: list[KeptRun] = []
    async for kept in walk(store, status=ENDED, after=(before, "")):
        if archive is not None:
            line = await _with_parents(store, kept)
            done = [
                await _outcome(store, archive, each, here)
                for each in line
                if each is line[-1] or each.id not in archived
            ]
            archived.update(each.id for each in line)
            if done[-1].outcome == "left":
                yield done[-1]
                continue
        gone = await _deleted(store, kept, is_dry=is_dry)
        if gone.outcome == "left":
            later.append(kept)
        else:
            yield gone
    # Of a run that others begin with nothing can go before them, and they may have been listed behind it.
    while later:
        tried = [(kept, await _deleted(store, kept, is_dry=is_dry)) for kept in later]
        left = [kept for kept, each in tried if each.outcome == "left"]
        for _, each in tried:
            if each.outcome != "left" or len(left) == len(later):
                yield each
        later = left if len(left) < len(later) else []


async def _deleted(store: Store, kept: KeptRun, *, is_dry: bool) -> Copied:
    try:
        if not is_dry:
            await store.forget(kept.id)
    except MidstreamError as error:
        return Copied(run=kept.id, outcome="left", why=str(error))
    return Copied(run=kept.id, outcome="deleted", facts=kept.seq - kept.parent_seq)


async def _with_parents(store: Store, kept: KeptRun) -> Sequence[KeptRun]:
    """Return what a run was forked from, the first of that first, and the run itself."""
    line = await store.lineage(kept.id) if kept.parent else []
    return [*reversed(line[1:]), kept]


async def _outcome(source: Store, target: Store, kept: KeptRun, here: Placement) -> Copied:
    try:
        return await _copied(source, target, kept, here)
    except (_Left, MidstreamError) as error:
        return Copied(run=kept.id, outcome="left", why=str(error))


async def _copied(source: Store, target: Store, kept: KeptRun, here: Placement) -> Copied:
    id = kept.id
    if kept.owner:
        raise _Left("A process runs it. Close that, and copy once more.")
    facts = await source.read(id)
    there = await target.run(id)
    if there is not None and there.owner:
        raise _Left("A process runs it there already.")
    new = await _new_of(target, kept, facts, there)
    blobs = await _contents(source, target, new)
    await target.claim(id)
    if await source.owner_of(id) == target.me:
        await target.release(id)
        raise _Left("It is the same journal, by whatever name.")
    if isinstance(target, Pool):
        # Killed from here on it is nobody's to go on with, until it is whole.
        await target.assign(id, _COMING)
    try:
        if there is None:
            await _adopt(source, target, kept, facts)
        else:
            await _grow(source, target, id, new)
        if await target.read(id) != facts:
            raise WorldTrouble(
                f"What was written of run {id} reads otherwise.", hint="Copy it once more."
            )
        said = await _words(source, target, id)
        if isinstance(target, Pool):
            placed = kept.placement if there is None else there.placement
            await target.assign(id, here if placed in (None, _COMING) else placed)
    finally:
        await target.release(id)
    if there is None:
        return Copied(run=id, outcome="copied", facts=len(new), blobs=blobs)
    outcome: Outcome = "added" if new or said else "same"
    return Copied(run=id, outcome=outcome, facts=len(new), blobs=blobs)


async def _new_of(
    target: Store, kept: KeptRun, facts: Sequence[Envelope], there: KeptRun | None
) -> Sequence[Envelope]:
    """Return the facts that are not there yet, of a fork without those it shares."""
    if there is None:
        if kept.parent and await target.run(kept.parent) is None:
            raise _Left(f"It is a fork of {kept.parent}, which is not there.")
        return facts[kept.parent_seq :]
    if await target.read(kept.id) != list(facts[: there.seq]):
        raise _Left("Another run of this id is there, or it went on there.")
    return facts[there.seq :]


async def _adopt(source: Store, target: Store, kept: KeptRun, facts: Sequence[Envelope]) -> None:
    appends = None if kept.is_foreign else await source.appends(kept.id, kept.parent_seq)
    parent = (kept.parent, kept.parent_seq) if kept.parent else None
    await target.adopt(kept.id, facts[kept.parent_seq :], appends=appends, parent=parent)


async def _grow(source: Store, target: Store, id: str, new: Sequence[Envelope]) -> None:
    """Append what is new, as it was appended."""
    if not new:
        return
    begun = (new[0].seq or 1) - 1
    last = begun
    for end in await source.appends(id, begun):
        await target.append(id, last, new[last - begun : end - begun])
        last = end


async def _words(source: Store, target: Store, id: str) -> int:
    """Bring over the messages to a run; those that were delivered are so there, too. Return how many."""
    waiting = {mail.id for mail in await source.undelivered(id)}
    there = {mail.id for mail in await target.posted(id)}
    open_there = {mail.id for mail in await target.undelivered(id)}
    count = 0
    for mail in await source.posted(id):
        is_new = mail.id not in there
        if is_new:
            await target.post(mail)
        if mail.id not in waiting and (is_new or mail.id in open_there):
            await target.delivered(id, mail.id)
        count += is_new
    return count


async def _contents(source: Store, target: Store, facts: Sequence[Envelope]) -> int:
    """Bring over what the facts name of the blob store, and what a list among that names.

    Return how many came. What is gone here is gone there.
    """
    todo = sorted(await in_thread(lambda: _named(facts)))
    seen, count = {*todo}, 0
    while todo:
        key = todo.pop()
        try:
            data = await source.get(key)
        except ContentsMissing:
            continue  # it is gone, or is no key: a checksum that somebody wrote
        await target.put(data)
        count += 1
        more = named_by(data) - seen
        seen |= more
        todo += more
    return count


def _named(facts: Sequence[Envelope]) -> set[str]:
    bodies = (encode_fact(fact.event) for fact in facts if isinstance(fact.event, Fact))
    return {key for body in bodies for key in keys_in(body)}

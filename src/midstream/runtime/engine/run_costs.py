"""What the runs of a workspace spent, each request once: a fork does not count what it began with."""

from collections.abc import Collection
from functools import partial
from pathlib import Path

from midstream.language.errors import JournalDamaged
from midstream.runtime.storage import KeptRun, Store, walk
from midstream.system.offloop import in_thread
from midstream.views.spending import Spent, spent_in


async def spent_here(
    store: Store, workspace: Path, *, since: float, whole: Collection[str] = ()
) -> list[Spent]:
    """Return the requests of all runs of a workspace since a time, of the runs `whole` all of them.

    Imported runs spent elsewhere. Of a damaged run counts what stands before the damage.
    """
    found: list[Spent] = []
    here: list[KeptRun] = []
    async for kept in walk(store, workspace=str(workspace)):
        if kept.summary.updated_at < since:
            break  # and so are all that follow
        here.append(kept)
    for id in set(whole) - {kept.id for kept in here}:
        here += filter(None, [await store.run(id)])
    for kept in reversed(here):  # the oldest first
        if kept.is_foreign or kept.summary.workspace != str(workspace):
            continue
        own = await _spent(store, kept)
        found += [each for each in own if each.at >= since or kept.id in whole]
    return found


async def _spent(store: Store, kept: KeptRun) -> list[Spent]:
    after = kept.parent_seq if kept.parent else 0
    try:
        facts = await store.read(kept.id, after)
    except JournalDamaged as error:
        facts = await store.read(kept.id, after, error.seq - 1) if error.seq > after + 1 else []
    name = kept.summary.found_as or kept.summary.workflow
    return await in_thread(partial(spent_in, facts, name=name))

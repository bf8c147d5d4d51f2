"""Runs that are begun here and go on with workers: their start is journaled, and nobody has them then."""

from typing import Any

from midstream.language.errors import UserMistake, WorldTrouble
from midstream.language.spec import Definition
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.resume import require_no_code
from midstream.runtime.state_machine import new_run_id
from midstream.runtime.storage import Placement, Pool, Store


def pool_of(store: Store) -> Pool:
    """Return a store as one that workers share.

    Raises:
        UserMistake: it is of one machine.
    """
    if isinstance(store, Pool):
        return store
    raise UserMistake(
        "Workers share a journal in PostgreSQL, and this one is of this machine alone.",
        hint="Set MIDSTREAM_JOURNAL=postgresql://..., as docs/many_machines.md says.",
    )


async def hand_over(
    engine: LocalEngine,
    definition: Definition,
    placement: Placement,
    *,
    id: str | None = None,
    **how: Any,
) -> str:
    """Return the id of a run that has begun, and that a worker which fits its placement goes on with.

    Nothing of it is done here but its start, which is journaled. Killed before that there is no run.
    `how` is as of `LocalEngine.start`.

    Raises:
        UserMistake: no workers share the store, or the workflow's functions are in this program alone.
        RunOwned, JournalMoved: another process has begun a run of this `id`.
        WorldTrouble: the start could not be journaled.
    """
    pool = pool_of(engine.store)
    if definition.kind == "workflow" and not definition.found_as:
        require_no_code(definition)
    id = id or new_run_id()
    # First, so that no worker of another place can take it.
    await pool.assign(id, placement)
    machine = await engine.start(definition, id=id, is_held=True, **how)
    await engine.let_go(id)
    if await engine.store.run(id) is None:
        raise WorldTrouble(
            f"The run could not be begun: {machine.run.error}",
            hint="Nothing of it was done. Look at the journal, then begin it again.",
        )
    return id

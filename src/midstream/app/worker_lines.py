"""The workers of a journal that machines share, as a person and a program see them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from midstream.runtime.engine.hand_over import pool_of
from midstream.runtime.storage import Store, WorkerInfo
from midstream.views.amounts import time_of_day
from midstream.views.cells import one_line

NOBODY = "No worker lives. midstream worker starts one, on any machine that reaches the journal."


async def workers_of(store: Store) -> list[WorkerInfo]:
    """Return the workers that live, the oldest first.

    Raises:
        UserMistake: the journal is a file: no workers share it.
    """
    return await pool_of(store).workers()


def worker_lines(workers: Sequence[WorkerInfo], *, now: float) -> list[str]:
    """Return who runs what: a line for each worker, and below it its runs and what it cannot take up."""
    if not workers:
        return [NOBODY]
    lines: list[str] = []
    for each in workers:
        queues = ", ".join(each.queues) or "any queue"
        stands = "leaving" if each.is_leaving else f"since {time_of_day(each.since, now=now)}"
        has = f"{len(each.runs)} of {each.max_runs} runs"
        seen = f"seen {each.seen_s:.0f} s ago"
        where = f"{each.host} {each.pid}"
        lines.append(one_line(" · ".join((where, has, queues, stands, seen))))
        if each.workspaces:
            lines.append(f"  folders: {one_line(', '.join(each.workspaces))}")
        if each.runs:
            lines.append(f"  runs: {' '.join(each.runs)}")
        lines += [f"  refuses {one_line(f'{what}: {why}')}" for what, why in each.refuses.items()]
    return lines


def worker_object(worker: WorkerInfo) -> dict[str, Any]:
    """Return a worker for a program; times in seconds since 1970."""
    return {"type": "worker"} | msgspec.structs.asdict(worker)

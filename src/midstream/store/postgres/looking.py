"""Seeing that others have written: one look for all who wait, and none while nobody does.

A snapshot of the server is another one as soon as any transaction that wrote has ended, and costs nothing
to ask for. Only then the rows of the runs that somebody waits for are looked at.
"""

from collections.abc import Collection, Mapping
from typing import Final

import psycopg

from midstream.store.postgres.link import Link, text_in, texts

_SNAPSHOT: Final = "select pg_current_snapshot()::text"

_RUNS: Final = """
select watched, seq, owner, epoch, (
    select array_agg(i.number order by i.number) from midstream.inbox i
    where i.run = watched and not i.is_delivered)
from unnest(%(ids)s::text[]) watched left join midstream.runs on runs.id = watched
"""


class Looking:
    """How the runs stand that somebody waits for; see `midstream.store.commit_watch.Look`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._snapshot = ""
        self._known: set[str | None] = set()

    def __call__(self, wanted: Collection[str | None]) -> Mapping[str | None, object]:
        """Return how these runs stand; nothing where nobody wrote since, or it cannot be seen."""
        try:
            ((snapshot,),) = self._link.rows(_SNAPSHOT)
            if snapshot == self._snapshot and self._known.issuperset(wanted):
                return {}
            ids = [texts(run) for run in wanted if run is not None]
            rows = self._link.rows(_RUNS, {"ids": ids}) if ids else []
        except psycopg.Error:
            return {}
        self._snapshot, self._known = snapshot, set(wanted)
        return {None: snapshot} | {text_in(id): tuple(map(str, how)) for id, *how in rows}

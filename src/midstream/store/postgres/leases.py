"""Who has which run: in the run's own row, so that the fence of an append is where its place is.

`owner` is "" for nobody, and `NOBODY` where a dead one's run was taken up and let go of before anything
was appended. `cut_at` is how many facts a run had when it was taken from a dead owner: as many, it is
cut still.
"""

from typing import Final

from midstream.runtime.storage import GOES_ON, Claim
from midstream.store.postgres.life import OFFERED
from midstream.store.postgres.link import Link, texts
from midstream.store.refusals import owned

COUNTED: Final = """
    r.owner not in ('', '-') and exists(
        select from midstream.owners o where o.name = r.owner and o.server = midstream.server())
"""
"""Whether the death of a run's owner is counted: one that came of the server's own end says nothing."""

_EPOCH: Final = "(extract(epoch from clock_timestamp()) * 1000)::bigint"
"""Milliseconds since 1970: also where a backup was restored meanwhile it is higher than those before it."""

TAKEN: Final = f"""
    owner = %(me)s, epoch = greatest(r.epoch + 1, {_EPOCH}), due_at = null,
    cut_at = case when r.owner <> '' then r.seq end,
    deaths = case when not ({COUNTED}) then r.deaths
        when r.deaths > 0 and r.seq - r.died_at >= {GOES_ON} then 1 else r.deaths + 1 end,
    died_at = case when {COUNTED} then r.seq else r.died_at end
"""
"""What becomes of the row `r` of a run that is taken over."""

_CLAIM: Final = f"""
insert into midstream.runs as r (id, owner, epoch, host, person)
values (%(id)s, %(me)s, {_EPOCH}, %(host)s, %(person)s)
on conflict (id) do update set {TAKEN}, host = coalesce(r.host, excluded.host),
    person = case when r.host is null then excluded.person else r.person end
where r.owner in ('', '-') or (r.owner <> %(me)s and not midstream.lives(r.owner))
returning cut_at is not null, epoch, deaths
"""  # nosec B608  # columns of ours

_OURS: Final = """
select owner, coalesce(cut_at = seq, false), epoch, deaths from midstream.runs where id = %(id)s
"""

_RELEASE: Final = """
update midstream.runs set
    owner = case when cut_at = seq then '-' else '' end,
    deaths = case when cut_at = seq then deaths else 0 end,
    died_at = case when cut_at = seq then died_at else 0 end,
    cut_at = null, due_at = %(due_at)s
where owner = %(me)s
"""


def claim(link: Link, run: str, me: str, host: str, person: str) -> Claim:
    """Make the run ours."""
    values = {"id": texts(run), "me": me, "host": host, "person": person}
    while True:
        if rows := link.rows(_CLAIM, values):
            was_cut, epoch, deaths = rows[0]
            return Claim(was_cut=was_cut, epoch=epoch, deaths=deaths)
        for owner, was_cut, epoch, deaths in link.rows(_OURS, values):
            if owner == me:
                return Claim(was_cut=was_cut, epoch=epoch, deaths=deaths)
            if living_owner(link, run)[0] == owner:
                raise owned(run, owner)
        # It was let go of between the two: once more.


def release(link: Link, run: str | None, me: str, due_at: float | None) -> None:
    """Let go of a run, or of all, that are ours; wake a worker where something is owed to it at once."""
    values = {"me": me, "due_at": due_at, "id": texts(run or "")}
    link.rows(_RELEASE if run is None else f"{_RELEASE} and id = %(id)s", values)
    if due_at is not None:
        link.rows(
            "select pg_notify(%(channel)s, '') where %(due_at)s <= extract(epoch from clock_timestamp())",
            {"channel": OFFERED, "due_at": due_at},
        )


def living_owner(link: Link, run: str) -> tuple[str, float]:
    """Return who has a run and lives, "" for nobody, and what it said last until when, since 1970."""
    rows = link.rows(
        "select r.owner, extract(epoch from o.expires_at)::double precision"
        " from midstream.runs r join midstream.owners o on o.name = r.owner"
        " where r.id = %(id)s and midstream.lives(r.owner)",
        {"id": texts(run)},
    )
    return rows[0] if rows else ("", 0.0)

"""What workers of many machines share: runs that are owed something, who they are, and supplies."""

import math
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from midstream.core.codec import FORMAT
from midstream.runtime.storage import SUSPECT, Claim, Placement, Rate, Taken, WorkerInfo
from midstream.store.postgres.catalogue import COLUMNS, kept_runs
from midstream.store.postgres.leases import COUNTED, TAKEN
from midstream.store.postgres.life import channel_of
from midstream.store.postgres.link import Link, texts

_ASSIGN: Final = """
insert into midstream.runs as r (id, host, queue, person, repository, revision, push)
values (%(id)s, %(host)s, %(queue)s, %(user)s, %(repository)s, %(commit)s, %(push)s)
on conflict (id) do update set host = excluded.host, queue = excluded.queue, person = excluded.person,
    repository = excluded.repository, revision = excluded.revision, push = excluded.push
"""


def assign(link: Link, run: str, placement: Placement) -> None:
    """Say where a run belongs."""
    link.rows(_ASSIGN, {"id": texts(run), **msgspec.structs.asdict(placement)})


_DEAD: Final = """
select owner from (select distinct owner from midstream.runs where owner not in ('', '-')) held
where not midstream.lives(owner)
"""

_NOW: Final = "extract(epoch from clock_timestamp())"
_GOES_ON: Final = "seq > 0 and not is_foreign and standing not in ('finished', 'failed', 'stopped')"

_CUT: Final = f"""
select r.* from (select '-' as owner union all select owner from dead) gone
join midstream.runs r on r.owner = gone.owner and r.owner <> '' where {_GOES_ON}
"""  # nosec B608  # columns of ours
_DUE: Final = (
    f"select r.* from midstream.runs r where owner = '' and due_at <= {_NOW} and {_GOES_ON}"  # nosec B608
)
_SENT: Final = f"""
select r.* from (select distinct run from midstream.inbox where not is_delivered) sent
join midstream.runs r on r.id = sent.run where owner = '' and coalesce(due_at > {_NOW}, true) and {_GOES_ON}
"""  # nosec B608  # columns of ours
"""The runs that something is owed to and nobody runs, given the owners that are `dead`: each is in one."""

_TAKE: Final = f"""
with dead as materialized ({_DEAD}),
under_way as (
    select person, count(*) as runs from midstream.runs
    where owner not in ('', '-') and owner not in (select owner from dead) group by person),
fitting as materialized (
    select r.number, r.owner, r.epoch, r.person, r.written_at, r.id,
        r.deaths + ({COUNTED})::int >= {SUSPECT} as is_suspect
    from ({_CUT} union all {_DUE} union all {_SENT}) r
    where r.format <= {FORMAT}
        and (%(queues)s::text[] = '{{}}' or r.queue = any(%(queues)s::text[]))
        and r.workspace <> all(%(refuses)s::text[]) and r.id <> all(%(refuses)s::text[])
        and (r.repository <> '' or (coalesce(r.host, '') in ('', %(host)s)
            and (%(folders)s::text is null or r.workspace ~ %(folders)s::text)))),
allowed as (
    select f.*, coalesce(u.runs, 0)
        + row_number() over (partition by f.person order by f.written_at, f.id) as place
    from fitting f left join under_way u using (person)
    where not is_suspect or (
        f.number = (select number from fitting where is_suspect order by written_at, id limit 1)
        and not exists(select from midstream.runs where owner = %(me)s and deaths >= {SUSPECT}))),
first as materialized (
    -- More than are wanted: others may be taking some of them right now.
    select * from allowed order by place, written_at, id limit %(limit)s * 4 + 64),
picked as materialized (
    select r.number, f.owner, f.epoch, f.place from first f join midstream.runs r using (number)
    order by f.place, f.written_at, f.id limit %(limit)s for update of r skip locked)
update midstream.runs as r set {TAKEN}
from picked where r.number = picked.number and r.owner = picked.owner and r.epoch = picked.epoch
returning r.id, picked.place, r.written_at
"""  # nosec B608  # columns of ours

_MINE: Final = f"""
select r.cut_at is not null, r.epoch, r.deaths, {COLUMNS}
from midstream.runs r left join midstream.runs p on p.number = r.parent
where r.owner = %(me)s and r.id <> all(%(known)s::text[]) and r.seq > 0
order by r.id
"""  # nosec B608  # columns of ours


def take(
    link: Link, me: str, worker: WorkerInfo, limit: int, known: Collection[str]
) -> list[Taken]:
    """Claim and return runs that are owed something; `known` are those this owner has."""
    if worker.is_leaving or limit <= 0:
        return []
    values = {
        "me": me,
        "queues": list(worker.queues),
        "refuses": [texts(each) for each in worker.refuses],
        "host": worker.host,
        "folders": "|".join(map(matcher, worker.workspaces)) or None,
        "limit": limit,
    }
    # What an earlier try took, of which no answer came, is ours and not known here: it is handed out, too.
    taken = link.rows(_TAKE, values)
    places = {id: place for id, *place in taken}
    rows = link.rows(_MINE, {"me": me, "known": [texts(run) for run in known]})
    rows.sort(key=lambda row: places.get(row[3], [math.inf]))
    runs = kept_runs(link, [row[3:] for row in rows])
    return [
        Taken(kept=kept, claim=Claim(was_cut=was_cut, epoch=epoch, deaths=deaths))
        for kept, (was_cut, epoch, deaths, *_) in zip(runs, rows, strict=True)
    ]


def matcher(pattern: str) -> str:
    """Return a glob pattern, as `fnmatchcase` reads it, as a regular expression of PostgreSQL."""
    found, place = "", 0
    while place < len(pattern):
        char, place = pattern[place], place + 1
        end = pattern.find("]", place + 1 + (pattern[place : place + 1] == "!"))
        if char == "*":
            found += ".*"
        elif char == "?":
            found += "."
        elif char == "[" and end >= 0:
            chars, place = pattern[place:end], end + 1
            chars = chars.replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^")
            found += f"[^{chars[1:]}]" if chars.startswith("!") else f"[{chars}]"
        else:
            found += char if char.isalnum() or ord(char) > 127 or char in "/_ " else f"\\{char}"
    return f"^{found}$"


def workers(link: Link) -> list[WorkerInfo]:
    """Return the workers that live, the oldest first."""
    rows = link.rows("""
        select worker, extract(epoch from clock_timestamp() - seen_at)::double precision,
            array(select id from midstream.runs where owner = name and seq > 0 order by number)
        from midstream.owners where worker is not null and midstream.lives(name) order by number
    """)
    return [
        msgspec.structs.replace(
            msgspec.json.decode(worker, type=WorkerInfo), seen_s=seen_s, runs=tuple(runs)
        )
        for worker, seen_s, runs in rows
    ]


def admit(link: Link, wanted: Mapping[str, Rate], amount: float) -> float:
    """Take from all of the supplies, or from none."""
    names = sorted(wanted)
    values = {
        "names": [texts(name) for name in names],
        "per_minute": [float(wanted[name].per_minute) for name in names],
        "bursts": [float(wanted[name].burst) for name in names],
        "amount": float(amount),
    }
    ((wait,),) = link.rows(
        "select midstream.admit(%(names)s::text[], %(per_minute)s::float8[], %(bursts)s::float8[],"
        " %(amount)s::float8)",
        values,
    )
    return float(wait)


_OUTLOOK: Final = f"""
with dead as materialized ({_DEAD})
select exists({_CUT}) or exists({_DUE}) or exists({_SENT}), (
    select (min(due_at) - {_NOW})::double precision from midstream.runs
    where owner = '' and due_at > {_NOW})
"""  # nosec B608  # columns of ours


def outlook(link: Link) -> tuple[bool, float]:
    """Return whether something is owed to a run nobody runs, and the seconds until another one is due."""
    ((is_owed, due_in_s),) = link.rows(_OUTLOOK)
    return is_owed, math.inf if due_in_s is None else due_in_s


def ring(link: Link, owner: str) -> None:
    """Wake an owner. On its own: in a transaction that writes it would end the group commit of all."""
    link.rows("select pg_notify(%(channel)s, '')", {"channel": texts(channel_of(owner))})


def tell(link: Link, owner: str, note: str) -> None:
    """Tell an owner something. It is kept nowhere: no disk is waited for."""
    link.rows(
        "select set_config('synchronous_commit', 'off', true), pg_notify(%(channel)s, %(note)s)",
        {"channel": texts(channel_of(owner)), "note": note},
    )

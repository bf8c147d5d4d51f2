"""The tables, in a schema of their own, and how they grow: numbered steps, forwards only.

    runs       one row a run: how far it is, the checksum of its last fact, its line in a listing, who has
               it, where it belongs. One that was claimed or assigned before its first fact has `seq` 0
    facts      the append-only truth: one row a fact, the checksums chained over the run
    inbox      messages to runs
    owners     the processes that have runs or would take some, and until when each lives
    servers    when each start of the server was first seen: whoever lived then has time to come back
    blobs      contents by their SHA-256: the small ones; of those kept elsewhere, which others they name
    snapshots, pages, supplies
    journal    one row: what this journal is called where contents of several are kept in one place
    versions   the steps that were made

A step leaves everything in place that the version before uses, or says in `least` from which one on a
midstream may still use the tables. Ids and names are text with the two characters escaped that PostgreSQL
or we have another use for (`texts`); sorted by their bytes they are in the order of their code points.
"""

from typing import Any, Final

import psycopg

from midstream.language.errors import JournalTooNew, WorldTrouble

TTL_S: Final = 6.0
"""How long an owner lives after it last said so, where nothing else shows its death."""

LEAST_SERVER: Final = 140_000
"""As libpq has it."""

LOCKS: Final = 0x6D696473
"""The first key of our advisory lock on the tables; the second is 0."""

LISTED_S: Final = 16
"""Runs are found for the listing by the span of so many seconds they were last written in."""

LOCK_S: Final = 1.0
"""How long a step waits for whoever reads a table, a backup perhaps: as long, nobody else can write."""

_FIRST: Final = f"""
create table midstream.versions(
    version integer primary key, least integer not null, made_at timestamptz not null default now());
create table midstream.servers(
    name text primary key, seen_at timestamptz not null default clock_timestamp());
create table midstream.owners(
    number integer generated always as identity primary key, name text not null unique,
    host text not null, pid integer not null, server text not null, lock integer not null,
    seen_at timestamptz not null, expires_at timestamptz not null, worker text);
create table midstream.runs(
    number bigint generated always as identity primary key,
    id text collate "C" not null unique,
    seq integer not null default 0, head bytea not null default '', format smallint not null default 0,
    summary text not null default '{{}}',
    workspace text collate "C" not null default '', kind text not null default 'workflow',
    standing text not null default 'running', named text collate "C" not null default '',
    written_at double precision not null default 0,
    parent bigint, parent_seq integer not null default 0, is_foreign boolean not null default false,
    owner text not null default '', epoch bigint not null default 0, cut_at integer,
    deaths integer not null default 0, died_at integer not null default 0, due_at double precision,
    host text, queue text not null default 'default', person text not null default '',
    repository text not null default '', revision text not null default '',
    push text not null default '');
create index runs_here on midstream.runs(workspace, kind, standing, written_at, id) where seq > 0;
create index runs_anywhere on midstream.runs(kind, standing, written_at, id) where seq > 0;
create index runs_named on midstream.runs(named, id) where named <> '';
create index runs_owned on midstream.runs(owner) where owner <> '';
create index runs_due on midstream.runs(due_at) where due_at is not null and owner = '';
create table midstream.facts(
    run bigint not null, seq integer not null, at double precision not null, body bytea not null,
    checksum bytea not null, ends boolean not null, format smallint not null, primary key(run, seq));
create table midstream.inbox(
    number bigint generated always as identity primary key, run text collate "C" not null,
    id text collate "C" not null, body bytea not null, is_delivered boolean not null default false,
    unique(run, id));
create index inbox_waiting on midstream.inbox(run, number) where not is_delivered;
create table midstream.snapshots(
    run text collate "C" primary key, seq integer not null, data bytea not null, seal bytea not null);
create table midstream.pages(
    run text collate "C" not null, name text not null, data bytea not null, checksum bigint not null,
    primary key(run, name));
create table midstream.blobs(key text collate "C" primary key, data bytea not null);
create table midstream.supplies(
    name text primary key, rest double precision not null, at timestamptz not null);

create function midstream.server() returns text language sql volatile as $$
    select extract(epoch from pg_postmaster_start_time())::text || '/'
        || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
$$;
comment on function midstream.server() is
    'this start of the server: another after a restart, and after a replica took over';

create function midstream.lives(who text) returns boolean language plpgsql volatile as $$
declare
    found_owner record;
begin
    select lock, server, expires_at into found_owner from midstream.owners where name = who;
    if not found then
        return false;
    end if;
    if found_owner.server = midstream.server() then
        return found_owner.expires_at > clock_timestamp() and exists(
            select from pg_locks where locktype = 'advisory' and granted and objsubid = 2
            and classid::bigint = {LOCKS} and objid::bigint = found_owner.lock
            and database = (select oid from pg_database where datname = current_database()));
    end if;
    return clock_timestamp() < greatest(found_owner.expires_at, (
        select seen_at + interval '{TTL_S} s' from midstream.servers where name = midstream.server()));
end
$$;
comment on function midstream.lives(text) is
    'a lock that is gone shows a death at once, unless the server itself was started since: then time does';

create function midstream.admit(
    names text[], per_minute double precision[], bursts double precision[], amount double precision
) returns double precision language plpgsql volatile as $$
declare
    wait double precision := 0;
    moment timestamptz;
begin
    -- What is taken may be given back by a crash of the server; no request waits for the disk.
    perform set_config('synchronous_commit', 'off', true);
    insert into midstream.supplies
        select name, burst, clock_timestamp() from unnest(names, bursts) as wanted(name, burst)
        order by name on conflict (name) do nothing;
    perform from midstream.supplies where name = any(names) order by name for update;
    moment := clock_timestamp();
    select coalesce(max((amount - least(burst, rest
            + extract(epoch from moment - at)::double precision * rate / 60)) / rate * 60), 0)
        into wait
        from unnest(names, per_minute, bursts) as wanted(name, rate, burst)
        join midstream.supplies using (name);
    if wait > 0 then
        return wait;
    end if;
    update midstream.supplies as kept set at = moment, rest = least(burst, rest
            + extract(epoch from moment - at)::double precision * rate / 60) - amount
        from unnest(names, per_minute, bursts) as wanted(name, rate, burst)
        where kept.name = wanted.name;
    return 0;
end
$$;
"""  # nosec B608  # numbers of ours

_SECOND: Final = """
create table midstream.journal(id text not null, home text);
insert into midstream.journal(id) select gen_random_uuid()::text;
alter table midstream.blobs add column put_at timestamptz not null default now(), add column names text;
comment on column midstream.journal.home is
    'the database whose contents kept elsewhere may be deleted: not one that a backup was restored to';
comment on column midstream.blobs.put_at is
    'not long before it was put last, or later: whoever puts it again need not write each time';
comment on column midstream.blobs.names is
    'null where the contents are here; else they are elsewhere, and name these keys';
"""

_LISTED: Final = f"""
set local lock_timeout = '{LOCK_S:g} s';
drop index midstream.runs_here, midstream.runs_anywhere;
alter table midstream.runs set (fillfactor = 70), add column listed_in double precision
    generated always as (case when seq > 0 then floor(written_at / {LISTED_S}) end) stored;
create index runs_here on midstream.runs(workspace, kind, standing, listed_in) where listed_in is not null;
create index runs_anywhere on midstream.runs(kind, standing, listed_in) where listed_in is not null;
"""
"""An append changes nothing that is indexed, but once in `LISTED_S`: so the row stays in its page (HOT),
and no index grows. The table is written anew, and everybody waits for it.
"""

_EXPIRING: Final = f"""
comment on column midstream.owners.lock is 'of a session that showed that it lives, once';
create or replace function midstream.lives(who text) returns boolean language sql volatile as $$
    select coalesce((select clock_timestamp() < case when server = midstream.server() then expires_at
        else greatest(expires_at, (select seen_at + interval '{TTL_S} s' from midstream.servers
            where name = midstream.server())) end from midstream.owners where name = who), false)
$$;
comment on function midstream.lives(text) is
    'time shows a death, or a watchdog''s word; where its server was started since, it may come back';
"""  # nosec B608  # numbers of ours
"""That a session has ended shows no death any more: its process may go on."""

_STEPS: Final = ((1, _FIRST), (1, _SECOND), (1, _LISTED), (1, _EXPIRING))
"""For each version the least one whose midstream may use the tables after it, and what makes it."""

VERSION: Final = len(_STEPS)


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Make the tables, or what they lack, beside whoever uses them meanwhile.

    Raises:
        JournalTooNew: a newer midstream made them, and this one cannot use them.
        WorldTrouble: a schema of this name is something else.
    """
    if connection.info.server_version < LEAST_SERVER:
        raise WorldTrouble(
            f"The database is a PostgreSQL {connection.info.server_version // 10_000}; midstream needs"
            f" {LEAST_SERVER // 10_000} or later.",
            hint="Upgrade the server, or name another one in MIDSTREAM_JOURNAL.",
        )
    if _version(connection) >= VERSION:
        return
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s, 0)", (LOCKS,))
        made = _version(connection)
        if made == 0:
            connection.execute("create schema if not exists midstream")
        for version, (least, step) in enumerate(_STEPS[made:], made + 1):
            connection.execute(step)
            connection.execute(
                "insert into midstream.versions(version, least) values (%s, %s)", (version, least)
            )


def _version(connection: psycopg.Connection[Any]) -> int:
    """Return how many steps were made; refuse those this midstream cannot use."""
    rows = connection.execute(
        "select to_regclass('midstream.versions') is not null, to_regclass('midstream.runs') is not null"
    ).fetchall()
    has_versions, has_runs = rows[0]
    if not has_versions and has_runs:
        raise WorldTrouble(
            "The schema midstream of this database is something else.",
            hint="Name another database in MIDSTREAM_JOURNAL.",
        )
    if not has_versions:
        return 0
    ((made, least),) = connection.execute(
        "select coalesce(max(version), 0), coalesce(max(least), 0) from midstream.versions"
    ).fetchall()
    if least > VERSION:
        raise JournalTooNew(
            f"The journal's tables are those of a newer midstream (version {made}; this one knows"
            f" {VERSION}).",
            hint="Use the newer midstream, or name another database in MIDSTREAM_JOURNAL.",
        )
    return int(made)

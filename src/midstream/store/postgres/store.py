"""A store in PostgreSQL, shared by the processes of many machines.

    store = await in_thread(lambda: PostgresStore.opened("postgresql://me@host/midstream"))
    try:
        ...
    finally:
        await store.aclose()

All work is done in threads with a connection each, which is made when it is first needed: one writes, with
group commit, one reads, one keeps caches and large contents, one says that this process lives, one hears
who calls, one watches. What an append has returned from is on the server's disk. A connection that is cut
is made again; a database that is away is waited for, some time. A store may be used from any event loop.
"""

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any, TypeVar

from midstream.core.notices import Envelope
from midstream.language.errors import RunOwned, WorldTrouble
from midstream.runtime.storage import (
    MATCHES,
    NO_PAGES,
    PAGE,
    Claim,
    KeptRun,
    Mail,
    Place,
    Placement,
    Rate,
    RunKind,
    Taken,
    WorkerInfo,
)
from midstream.store.chains import Append
from midstream.store.commit_watch import ANY, Watch
from midstream.store.owners import new_name
from midstream.store.postgres import blobs as contents
from midstream.store.postgres import cache, catalogue, inbox, leases, pool, reading, tables
from midstream.store.postgres.appends import Writing, adopt_fork
from midstream.store.postgres.blobs import LARGE, Blobs, opened_blobs
from midstream.store.postgres.catalogue import Looking
from midstream.store.postgres.life import (
    ANSWER_S,
    LIFE,
    OFFERED,
    PROVE,
    Call,
    Ear,
    Life,
    ServerTime,
    require_session,
    see_server,
)
from midstream.store.postgres.link import Address, Connection, Link, explained
from midstream.store.postgres.sweep import sweep
from midstream.store.refusals import closed, forgotten
from midstream.store.threads import Calls, Job, Notes, Worker
from midstream.system.guard import own_guard
from midstream.system.offloop import in_thread
from midstream.system.own_process import complain
from midstream.views.listing import Standing

T = TypeVar("T")

WORD_AFTER_S = 2.0
"""Seconds that a database has for its first answer before a person hears what is waited for."""

LOOK_PATIENCE_S = 1.0
CLOSING_PATIENCE_S = 5.0
"""How long a store that is closed tries to let go of its runs where the database is away."""

PROOF_S = 0.05
"""Seconds between two looks whether an owner that was asked has said that it lives."""


class PostgresStore:
    """See `midstream.runtime.storage.Store` and `Pool`. Made by `opened`."""

    is_lasting = True

    def __init__(
        self,
        me: str,
        address: Address,
        clock: ServerTime,
        *,
        host: str,
        person: str,
        blobs: Blobs | None = None,
    ) -> None:
        self._address = address
        self._clock = clock
        self.me = me
        self.host, self._person = host, person
        self._blobs = blobs
        self._is_closed = False
        self._closing = threading.Lock()
        self._mine: set[str] = set()
        self._may_have_mail = True
        # What the ear has read, and since when: with each delivery and claim it is something else.
        self._brought: tuple[object, list[Mail]] | None = None
        self._since = object()
        self._life = Life(self.me, host, self._clock)
        self._living = Link(address, begin=see_server, answer_s=ANSWER_S, more=LIFE)
        self._is_alive = self._has_lost_all = False
        self._links = [Link(address, begin=begin) for begin in (see_server, None, None)]
        watching = Link(address, patience_s=LOOK_PATIENCE_S)
        self._watch = Watch(Looking(watching), watching.close)
        writing = Writing(self.me, self._watch.note)
        performing = partial(_one_by_one, is_writing=True)
        self._writer = Worker("midstream-journal", self._links[0], writing)
        self._reader = Worker("midstream-reading", self._links[1], _one_by_one)
        self._keeper = Worker("midstream-caches", self._links[2], performing)
        self._heart = Worker("midstream-life", self._living, performing)
        self._ear: Ear | None = None
        self._calls, self._offers = Calls(is_news=False), Calls()
        self._notes = Notes()
        self._due_in_s = math.inf

    @classmethod
    def opened(
        cls, url: str, *, host: str = "", person: str = "", blobs: str = ""
    ) -> "PostgresStore":
        """Return the store in a database; its tables are made where there are none. Blocking: use a thread.

        Args:
            url: the address, postgresql://user@host/database as libpq has it.
            host: what this machine is called, for runs that nobody has placed.
            person: for whom runs of this process are, likewise.
            blobs: where large contents are kept: a folder that is there, on all machines, or
                s3://bucket/folder; "": in the database.

        Raises:
            JournalTooNew: a newer midstream has changed the tables; they were not touched.
            WorldTrouble: it cannot be reached or used, or the folder of contents is not there.
            UserMistake: it is no address, or no place for contents, or what that needs is not installed.
        """
        me, address, clock = new_name(), Address(url), ServerTime()
        link = Link(address, patience_s=0.0)
        slow = threading.Timer(WORD_AFTER_S, lambda: complain(_waited_for(address)))
        slow.daemon = True
        slow.start()
        try:
            link.do(tables.prepare)
            link.do(clock.ask)
            kept = opened_blobs(blobs, link, me) if blobs else None
        except Exception as error:
            raise explained(error, address) from error
        finally:
            slow.cancel()
            link.close()
        return cls(me, address, clock, host=host, person=person, blobs=kept)

    # --- the journal ----------------------------------------------------------------------------

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Keep the facts after position `expected`. See `midstream.runtime.ports.Journal`."""
        await self._append(Append(run, facts, expected=expected))

    async def _append(self, appending: Append) -> None:
        await self._writer.submit(appending, prepare=appending.prepare)

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        """Return the run's facts after position `after`."""
        return await self._reader.submit(partial(reading.read, run=run, after=after, upto=upto))

    # --- the catalogue --------------------------------------------------------------------------

    async def run(self, id: str) -> KeptRun | None:
        """Return a run, None where there is none of that id."""
        return await self._reader.submit(partial(catalogue.run, id=id))

    async def listing(
        self,
        *,
        workspace: str | None = None,
        kind: RunKind | None = None,
        status: Collection[Standing] | None = None,
        after: Place | None = None,
        limit: int = PAGE,
    ) -> list[KeptRun]:
        """Return some runs, the one that was written last first."""
        wanted = partial(catalogue.listing, workspace=workspace, kind=kind, status=status)
        return await self._reader.submit(partial(wanted, after=after, limit=limit))

    async def matching(
        self, text: str, *, workspace: str | None = None, limit: int = MATCHES
    ) -> list[KeptRun]:
        """Return the runs whose id begins so, and behind them those that are called so."""
        wanted = partial(catalogue.matching, text=text, workspace=workspace, limit=limit)
        return await self._reader.submit(wanted)

    async def lineage(self, id: str) -> list[KeptRun]:
        """Return a run and the runs it was forked from, the run itself first."""
        return await self._reader.submit(partial(catalogue.lineage, id=id))

    async def fork(self, source: str, at: int, id: str) -> int:
        """Make the run `id` of the first facts of `source`, by reference."""
        # What was read stays as it is: facts are never changed. So no write waits for it.
        begun = await self._reader.submit(partial(reading.prefix, source=source, at=at))
        return await self._wrote(id, partial(reading.begin_fork, id=id, begun=begun))

    async def adopt(
        self,
        id: str,
        facts: Collection[Envelope],
        *,
        appends: Collection[int] | None = None,
        parent: tuple[str, int] | None = None,
    ) -> None:
        """Keep a run that comes from elsewhere."""
        if parent is None:
            await self._append(Append(id, facts, is_new=True, ends=appends))
            return
        read = partial(reading.prefix, source=parent[0], at=parent[1])
        begun = await self._reader.submit(read)
        adopting = Append(id, facts, expected=begun.tip.seq, is_new=True, ends=appends)
        await self._wrote(id, partial(adopt_fork, me=self.me, append=adopting, begun=begun))

    async def appends(self, run: str, after: int = 0) -> list[int]:
        """Return the positions of a run behind `after` at which an append ended."""
        return await self._reader.submit(partial(reading.append_ends, run=run, after=after))

    async def forget(self, run: str) -> None:
        """Delete a run that has ended."""
        await self._wrote(run, partial(catalogue.forget, id=run))

    # --- the inbox ------------------------------------------------------------------------------

    async def post(self, mail: Mail) -> Mail:
        """Keep a message, call who runs the run, and return the kept one."""
        # Nobody here is woken for it before it could have come to its run: the next look sees it.
        return await self._writer.submit(partial(inbox.post, mail=mail))

    async def mail(self, owner: str) -> list[Mail]:
        """Return the undelivered messages to the runs of an owner, the oldest first.

        Of its own an owner that listens is not asked in vain: whoever sends rings, and renewing looks, too.
        """
        if owner != self.me:
            return await self._reader.submit(partial(inbox.mail, owner=owner))
        if self._ear is not None and not self._may_have_mail:
            return []
        self._may_have_mail = False
        brought, self._brought = self._brought, None
        if brought is not None and brought[0] is self._since:
            found = brought[1]
        else:
            try:
                found = await self._reader.submit(partial(inbox.mail, owner=owner))
            except BaseException:
                self._may_have_mail = True
                raise
        if found:
            self._may_have_mail = True
        return found

    async def undelivered(self, run: str) -> list[Mail]:
        """Return the undelivered messages to one run, the oldest first."""
        return await self._reader.submit(partial(inbox.undelivered, run=run))

    async def posted(self, run: str) -> list[Mail]:
        """Return every message there ever was to a run, the oldest first."""
        return await self._reader.submit(partial(inbox.posted, run=run))

    async def delivered(self, run: str, id: str) -> None:
        """Hand a message out no more."""
        me = self.me if run in self._mine else None
        try:
            await self._wrote(run, partial(inbox.deliver, run=run, id=id, me=me))
        finally:
            self._since = object()

    # --- who has which run ----------------------------------------------------------------------

    async def claim(self, run: str) -> Claim:
        """Make the run ours. Whoever has it is asked whether it lives, and waited for if it is silent."""
        await self._live()
        while True:
            try:
                return await self._wrote(run, partial(self._claimed, run=run))
            except RunOwned as error:
                if await self.ask_owner(run) == error.owner:
                    raise

    def _claimed(self, link: Link, run: str) -> Claim:
        claim = leases.claim(link, run, self.me, self.host, self._person)
        # Known in the thread that takes runs, before it takes any more.
        self._mine.add(run)
        self._since = object()
        self._may_have_mail = True
        return claim

    async def release(self, run: str, due_at: float | None = None) -> None:
        """Let go of a run that is ours."""
        await self._wrote(run, partial(self._released, run=run, due_at=due_at))

    def _released(self, link: Link, run: str, due_at: float | None) -> None:
        leases.release(link, run, self.me, due_at)
        self._mine.discard(run)

    async def owner_of(self, run: str) -> str:
        """Return the living owner of a run, "" if there is none."""
        return (await self._reader.submit(partial(leases.living_owner, run=run)))[0]

    async def renew(self) -> float:
        """Say that this owner lives; return the seconds within which that has to be said again."""
        await self._live()
        if self._has_lost_all:
            # Whoever was told has let go of what it had; the rest it does not know of.
            await self._writer.submit(self._released_all)
            self._has_lost_all = False
        seconds = await self._heart.submit(self._renewed)
        if self._life.is_forgotten:
            self._life.is_forgotten, self._has_lost_all = False, True
            raise forgotten(self._address.shown)
        return seconds

    def _released_all(self, link: Link) -> None:
        leases.release(link, None, self.me, 0.0)
        self._mine.clear()

    def _renewed(self, link: Link) -> float:
        # It is said again anyway, and who stands still over it wants to know why.
        seconds = self._life.renew(link, patience_s=LOOK_PATIENCE_S)
        # In the same breath it is noticed what somebody sent who died before he rang,
        self._may_have_mail |= inbox.has_mail(link, self.me)
        if self._offers.is_used:
            # and that an owner died, or that a run is due.
            is_owed, self._due_in_s = pool.outlook(link)
            if is_owed:
                self._offers.ring()
        return seconds

    async def _live(self) -> None:
        """Be alive and heard, from now on: claims and calls need it, and sessions of their own."""
        if not self._is_alive:
            await self._heart.submit(self._begin_life)
            self._begin_hearing()

    def _begin_life(self, link: Link) -> None:
        if self._is_alive:
            return
        other = Link(self._address, patience_s=0.0)
        try:
            link.do(
                lambda mine: other.do(lambda theirs: require_session(mine, theirs, self._address))
            )
        except WorldTrouble:
            link.drop()
            raise
        finally:
            other.close()
        self._life.renew(link)
        self._life.sweep(link)
        # Without a watchdog (Windows) a death shows in time.
        with contextlib.suppress(OSError):
            own_guard().bequeath(self.me, self._life.will(self._address))
        self._is_alive = True

    async def ring(self, owner: str) -> None:
        """Wake an owner."""
        await self._keeper.submit(partial(pool.ring, owner=owner))

    async def rings(self) -> AsyncGenerator[None, None]:
        """Yield whenever this owner was called."""
        await self._hear()
        async with contextlib.aclosing(self._calls.rings()) as rings:
            async for _ in rings:
                yield

    async def _hear(self) -> None:
        await self._live()
        self._begin_hearing()

    def _begin_hearing(self) -> None:
        with self._closing:
            if self._is_closed:
                raise closed()
            if self._ear is None:
                self._ear = Ear(self._address, self.me, self._heard)

    def _heard(self, calls: Collection[Call], connection: Connection) -> None:
        notes = [""] if not calls else [note for _, note in calls if note]
        if PROVE in notes or (not calls and self._is_alive):
            # Where the connection was made anew it may not have heard who asked.
            self._heart.post(self._life.renew)
        for note in notes:
            if note != PROVE:
                self._notes.tell(note)
        rung = {channel for channel, note in calls if not note}
        if not calls or rung - {OFFERED}:
            self._bring(connection)
            self._calls.ring()
        if not calls or OFFERED in rung:
            self._offers.ring()

    def _bring(self, connection: Connection) -> None:
        """Read what was sent right here, where the call was heard: it waits for no other thread."""
        since = self._since
        try:
            found = inbox.mail_of(connection, self.me)
            self._brought = (since, found) if found else None
        finally:
            self._may_have_mail = True

    # --- workers ----------------------------------------------------------------------------------

    async def ask_owner(self, run: str) -> str:
        """Return the owner of a run that says, asked now, that it lives, "" if there is none."""
        whom, asked = "", 0.0
        while True:
            owner, expires_at = await self._reader.submit(partial(leases.living_owner, run=run))
            if owner in ("", self.me):
                return owner
            if owner != whom:
                whom, asked = owner, expires_at
                await self.tell(owner, PROVE)
            elif expires_at > asked:
                return owner
            await asyncio.sleep(PROOF_S)

    async def assign(self, run: str, placement: Placement) -> None:
        """Say where a run belongs."""
        await self._wrote(run, partial(pool.assign, run=run, placement=placement))

    async def take(self, worker: WorkerInfo, limit: int) -> list[Taken]:
        """Claim and return runs that are owed something and that this worker may take."""
        await self._live()
        return await self._writer.submit(partial(self._taken, worker=worker, limit=limit))

    def _taken(self, link: Link, worker: WorkerInfo, limit: int) -> list[Taken]:
        taken = pool.take(link, self.me, worker, limit, frozenset(self._mine))
        self._mine |= {each.kept.id for each in taken}
        self._since = object()
        self._may_have_mail = True
        self._watch.note([each.kept.id for each in taken])
        return taken

    async def offered(self, timeout_s: float) -> None:
        """Return once there may be something to take that was not there at the last call, or in time."""
        await self._hear()
        due_in_s, self._due_in_s = self._due_in_s, math.inf
        await self._offers.rung(min(timeout_s, due_in_s))

    async def announce(self, worker: WorkerInfo) -> None:
        """Say that this owner is a worker, and what it takes."""
        await self._live()
        await self._heart.submit(partial(self._life.announce, worker=worker))

    async def workers(self) -> list[WorkerInfo]:
        """Return the workers that live, the oldest first."""
        return await self._reader.submit(pool.workers)

    async def admit(self, wanted: Mapping[str, Rate], amount: float = 1.0) -> float:
        """Take from all of the supplies, or from none."""
        return await self._keeper.submit(partial(pool.admit, wanted=wanted, amount=amount))

    async def tell(self, owner: str, note: str) -> None:
        """Tell an owner something that is kept nowhere."""
        await self._keeper.submit(partial(pool.tell, owner=owner, note=note))

    @contextlib.contextmanager
    def told(self) -> Iterator[asyncio.Queue[str]]:
        """Give what this owner is told."""
        with self._notes.heard() as notes:
            if self._ear is not None:
                notes.put_nowait("")  # it hears already
            self._begin_hearing()
            yield notes

    def now(self) -> float:
        """Return the time of the database."""
        return self._clock.now()

    # --- snapshots and the blob store -------------------------------------------------------------

    async def keep_snapshot(
        self, run: str, seq: int, data: bytes, pages: Mapping[str, bytes] = NO_PAGES
    ) -> None:
        """Keep how the run stood after fact `seq`: of its pages only those are written that are new."""
        kept = await self._keeper.submit(partial(cache.kept_pages, run=run)) if pages else set()
        new = await in_thread(lambda: {name: pages[name] for name in pages.keys() - kept})
        keep = partial(cache.keep_snapshot, run=run, seq=seq, data=data)
        await self._keeper.submit(partial(keep, names=pages.keys(), new=new))

    async def snapshot(self, run: str) -> tuple[int, bytes, Mapping[str, bytes]] | None:
        """Return the newest snapshot. A damaged one is deleted: its pages would else be taken for kept."""
        return await self._keeper.submit(partial(cache.newest_snapshot, run=run))

    async def forget_snapshots(self, run: str | None = None) -> None:
        """Delete the snapshots of one run, or all."""
        await self._keeper.submit(partial(cache.forget_snapshots, run=run))

    async def put(self, data: bytes) -> str:
        """Return the key once the data is safe."""
        about = partial(contents.about, data)
        key, names = about() if len(data) < LARGE else await in_thread(about)
        if self._blobs is None or len(data) < LARGE:
            await self._keeper.submit(partial(contents.put, key=key, data=data, names=names))
        elif await self._keeper.submit(partial(contents.announce, key=key, names=names)):
            await in_thread(partial(self._blobs.put, key, data), name="midstream-blobs")
        return key

    async def get(self, key: str) -> bytes:
        """Return the data of a key."""
        whole, data = await self._keeper.submit(partial(contents.get, key=key))
        if data is not None:
            return data
        if self._blobs is None:
            raise contents.unnamed_place(whole)
        return await in_thread(partial(self._blobs.get, whole), name="midstream-blobs")

    async def sweep(self) -> int:
        """Delete contents that nothing names any more; return how many."""
        return await in_thread(self._swept, name="midstream-sweep")

    def _swept(self) -> int:
        link = Link(self._address)
        try:
            return sweep(link, self._blobs)
        except Exception as error:
            raise explained(error, self._address, is_writing=True) from error
        finally:
            link.close()

    async def try_blobs(self) -> None:
        """Write something where large contents are kept beside the database, read it and delete it.

        Raises:
            WorldTrouble: that cannot be done.
        """
        if self._blobs is not None:
            await in_thread(partial(contents.attempt, self._blobs), name="midstream-blobs")

    # --- the whole ------------------------------------------------------------------------------

    async def changed(self, timeout_s: float, runs: Collection[str] | None = None) -> None:
        """Return once something of these runs, or of any, may have changed since the last call."""
        await self._watch.changed(timeout_s, (ANY,) if runs is None else runs)

    async def _wrote(self, run: str, work: Callable[[Link], T]) -> T:
        try:
            return await self._writer.submit(work)
        finally:
            self._watch.note((run,))

    async def aclose(self) -> None:
        """Let go of every run and close."""
        await in_thread(self.close, name="midstream-closing")

    def close(self, *, is_cut: bool = False) -> None:
        """Close, without a loop. Blocking. `is_cut`: leave everything as a killed process would."""
        with self._closing:
            self._is_closed = True
            for link in (*self._links, self._living):
                link.ends_at = time.monotonic() + (0.0 if is_cut else CLOSING_PATIENCE_S)
            if self._ear is not None:
                self._ear.close()
                self._ear = None
            self._watch.close()
            self._reader.close()
            self._keeper.close()
            is_leaving = self._is_alive and not is_cut
            letting_go = partial(leases.release, run=None, me=self.me, due_at=0.0)
            self._writer.close(last=letting_go if is_leaving else None)
            ending = self._life.end if is_leaving else self._life.expire
            self._heart.close(last=ending if self._is_alive else None)
            own_guard().withdraw(self.me)


def _waited_for(address: Address) -> str:
    return (
        f"The journal {address.shown} gives no answer yet; midstream waits up to {address.connect_s} s"
        " for it (connect_timeout in its address)."
    )


def _one_by_one(link: Link, group: list[Job[Link, Any]], *, is_writing: bool = False) -> None:
    """Perform jobs one after the other."""
    for job in group:
        try:
            if job.prepare():
                job.run(link)
        except Exception as error:
            job.fail(explained(error, link.address, is_writing=is_writing))

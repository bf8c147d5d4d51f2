"""A store in one SQLite file, shared by the processes of one machine.

    store = await in_thread(lambda: SqliteStore.opened(path))
    try:
        ...
    finally:
        await store.aclose()

Beside the file stands a folder `<file>.d` with the locks of the owners and the blob store. All work is
done in threads: one writes, with group commit, one reads, one watches. What an append has returned
from is on the disk (`synchronous=FULL`). A store may be used from any event loop of its process.
"""

import asyncio
import contextlib
import hashlib
import math
import threading
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import apsw

from midstream.core.notices import Envelope
from midstream.language.errors import MidstreamError, WorldTrouble
from midstream.runtime.storage import (
    MATCHES,
    NO_PAGES,
    PAGE,
    Claim,
    KeptRun,
    Mail,
    Place,
    RunKind,
    still_named,
)
from midstream.store import facts as journal
from midstream.store import rows
from midstream.store.blob_store import FileBlobStore
from midstream.store.chains import Append, Begun
from midstream.store.commit_watch import ANY, Watch
from midstream.store.file_guard import Guard
from midstream.store.owners import Owners, WakeUpSocket, is_inherited, wake
from midstream.store.refusals import inherited
from midstream.store.schema import data_version, prepared, reading, trouble
from midstream.store.threads import Worker
from midstream.store.writer import Committing, Reading
from midstream.system.offloop import in_thread
from midstream.views.listing import Standing

LOOK_EVERY_S = 1.0
"""Seconds between two looks of who has no socket."""

TOGETHER_S = 0.005
"""Seconds in which changes are gathered where there is no socket, and looked into once."""


class SqliteStore:
    """See `midstream.runtime.storage.Store`. Made by `opened`."""

    def __init__(
        self,
        path: Path,
        guard: Guard,
        owners: Owners,
        writing: apsw.Connection,
        reading: apsw.Connection,
        watching: apsw.Connection,
    ) -> None:
        self._owners = owners
        self._folder = Path(f"{path}.d")
        self._blobs = FileBlobStore(self._folder / "shelf", owners.me)  # as older ones named it
        self._guard = guard
        self._is_closed = self._was_lost = False
        self._closing = threading.Lock()
        self._own: dict[str, list[Envelope]] = {}
        self._watch = Watch(partial(data_version, watching), watching.close)
        committing = Committing(path, guard, self._watch.note)
        self._writer = Worker("midstream-journal", writing, committing)
        self._reader = Worker("midstream-reading", reading, Reading(path))
        self._blobs.sweep(owners.is_alive)

    @classmethod
    def opened(cls, path: Path, vfs: str | None = None) -> "SqliteStore":
        """Return the store in a file, which is made where there is none. Blocking: use a thread.

        `vfs` names an SQLite file system that was registered, for tests of what disks do.

        Raises:
            JournalTooNew: a newer midstream wrote it; it was not touched.
            WorldTrouble: it is no journal, is damaged, or cannot be opened; the hint says how to
                move it aside. Or the process that this one was forked from has it open.
        """
        path = path.absolute()
        if is_inherited(Path(f"{path}.d")):
            raise inherited(path)
        connections: list[apsw.Connection] = []
        try:
            connections.append(prepared(path, vfs))
            connections += [reading(path, vfs), reading(path, vfs)]
            guard = Guard(path, vfs, connections[0])
            owners = Owners(Path(f"{path}.d"))
        except BaseException as error:
            for connection in connections:
                connection.close()
            if isinstance(error, apsw.Error):
                raise trouble(error, path) from error
            if isinstance(error, OSError):
                raise WorldTrouble(
                    f"The folder {path}.d cannot be used: {error.strerror or error}.",
                    hint="It belongs to the journal beside it: move aside what is in its place.",
                ) from error
            raise
        owners.sweep()
        return cls(path, guard, owners, *connections)

    @property
    def is_lasting(self) -> bool:
        """Return whether the journal's files are still in their place."""
        return not (self._was_lost if self._is_closed else self._guard.is_lost())

    # --- the journal ----------------------------------------------------------------------------

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Keep the facts after position `expected`. See `midstream.runtime.ports.Journal`."""
        appending = Append(run, facts, expected=expected)
        append = partial(journal.append, append=appending, owners=self._owners)
        await self._writer.submit(append, prepare=appending.prepare)
        self._own.setdefault(run, []).extend(facts)

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        """Return the run's facts after position `after`.

        Where the journal was lost meanwhile, those kept through this store are still there.
        """
        own = self._own.get(run)
        if not own or not self._guard.is_lost():
            return await self._read(run, after, upto)
        before = (own[0].seq or 1) - 1
        early: list[Envelope] = []
        if after < before:
            early = await self._read(run, after, before if upto is None else min(before, upto))
        end = None if upto is None else max(upto - before, 0)
        return early + own[max(after - before, 0) : end]

    async def _read(self, run: str, after: int, upto: int | None) -> list[Envelope]:
        return await self._reader.submit(partial(journal.read, run=run, after=after, upto=upto))

    # --- the catalogue --------------------------------------------------------------------------

    async def run(self, id: str) -> KeptRun | None:
        """Return a run, None where there is none of that id."""
        return await self._reader.submit(partial(rows.run, id=id, owners=self._owners))

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
        wanted = partial(rows.listing, workspace=workspace, kind=kind, status=status)
        read = partial(wanted, after=after, limit=limit, owners=self._owners)
        return await self._reader.submit(read)

    async def matching(
        self, text: str, *, workspace: str | None = None, limit: int = MATCHES
    ) -> list[KeptRun]:
        """Return the runs whose id begins so, and behind them those that are called so."""
        wanted = partial(rows.matching, text=text, workspace=workspace, limit=limit)
        return await self._reader.submit(partial(wanted, owners=self._owners))

    async def lineage(self, id: str) -> list[KeptRun]:
        """Return a run and the runs it was forked from, the run itself first."""
        return await self._reader.submit(partial(rows.lineage, run=id, owners=self._owners))

    async def fork(self, source: str, at: int, id: str) -> int:
        """Make the run `id` of the first facts of `source`, by reference."""
        # What was read stays as it is: facts are never changed. So no write waits for it.
        begun = await self._reader.submit(partial(journal.prefix, source=source, at=at))
        return await self._writer.submit(partial(journal.begin_fork, id=id, begun=begun))

    async def adopt(
        self,
        id: str,
        facts: Collection[Envelope],
        *,
        appends: Collection[int] | None = None,
        parent: tuple[str, int] | None = None,
    ) -> None:
        """Keep a run that comes from elsewhere."""
        begun: Begun | None = None
        if parent is not None:
            read = partial(journal.prefix, source=parent[0], at=parent[1])
            begun = await self._reader.submit(read)
        expected = 0 if begun is None else begun.tip.seq
        adopting = Append(id, facts, expected=expected, is_new=True, ends=appends)
        adopt = partial(journal.adopt, append=adopting, begun=begun)
        await self._writer.submit(adopt, prepare=adopting.prepare)

    async def forget(self, run: str) -> None:
        """Delete a run that has ended."""
        self._own.pop(run, None)
        await self._writer.submit(partial(rows.forget, run=run, owners=self._owners))

    async def appends(self, run: str, after: int = 0) -> list[int]:
        """Return the positions of a run behind `after` at which an append ended."""
        return await self._reader.submit(partial(journal.append_ends, run=run, after=after))

    # --- the inbox ------------------------------------------------------------------------------

    async def post(self, mail: Mail) -> Mail:
        """Keep a message, call who runs the run, and return the kept one."""
        kept = await self._writer.submit(partial(rows.post, mail=mail))
        await self.ring(await self.owner_of(mail.run))
        return kept

    async def mail(self, owner: str) -> list[Mail]:
        """Return the undelivered messages to the runs of an owner, the oldest first."""
        return await self._reader.submit(partial(rows.mail, owner=owner, owners=self._owners))

    async def undelivered(self, run: str) -> list[Mail]:
        """Return the undelivered messages to one run, the oldest first."""
        return await self._reader.submit(partial(rows.undelivered, run=run))

    async def posted(self, run: str) -> list[Mail]:
        """Return every message there ever was to a run, the oldest first."""
        return await self._reader.submit(partial(rows.posted, run=run))

    async def delivered(self, run: str, id: str) -> None:
        """Hand a message out no more."""
        await self._writer.submit(partial(rows.deliver, run=run, id=id))

    # --- who has which run ----------------------------------------------------------------------

    @property
    def me(self) -> str:
        """Return the name of this owner."""
        return self._owners.me

    async def claim(self, run: str) -> Claim:
        """Make the run ours."""
        return await self._writer.submit(partial(rows.claim, run=run, owners=self._owners))

    async def release(self, run: str, due_at: float | None = None) -> None:
        """Let go of a run that is ours. When it is due is forgotten: no worker shares a file."""
        self._own.pop(run, None)
        await self._writer.submit(partial(rows.release, run=run, owners=self._owners))

    async def owner_of(self, run: str) -> str:
        """Return the living owner of a run, "" if there is none."""
        return await self._reader.submit(partial(rows.living_owner, run=run, owners=self._owners))

    async def renew(self) -> float:
        """Return infinity: the kernel lets go of a dead owner's lock at once."""
        return math.inf

    async def ring(self, owner: str) -> None:
        """Wake an owner at its socket."""
        wake(self._folder, owner)

    async def rings(self) -> AsyncGenerator[None, None]:
        """Yield whenever this owner was called; where it can have no socket, whenever anybody wrote."""
        wake_up = WakeUpSocket(self._folder, self.me)
        try:
            while True:
                if wake_up.is_open:
                    await wake_up.woken()
                else:
                    await self.changed(LOOK_EVERY_S)
                    # What comes meanwhile is seen too: whoever looks does so after it.
                    await asyncio.sleep(TOGETHER_S)
                yield
        finally:
            wake_up.close()

    # --- snapshots and the blob store -------------------------------------------------------------

    async def keep_snapshot(
        self, run: str, seq: int, data: bytes, pages: Mapping[str, bytes] = NO_PAGES
    ) -> None:
        """Keep how the run stood after fact `seq`: of its pages only those are written that are new."""
        kept = await self._reader.submit(partial(rows.kept_pages, run=run)) if pages else set()
        new = await in_thread(lambda: {name: pages[name] for name in pages.keys() - kept})
        keep = partial(rows.keep_snapshot, run=run, seq=seq, data=data)
        await self._writer.submit(partial(keep, names=pages.keys(), new=new))

    async def snapshot(self, run: str) -> tuple[int, bytes, Mapping[str, bytes]] | None:
        """Return the newest snapshot. A damaged one is deleted: its pages would else be taken for kept."""
        kept = await self._reader.submit(partial(rows.newest_snapshot, run=run))
        if not isinstance(kept, rows.Damaged):
            return kept
        with contextlib.suppress(MidstreamError):
            await self.forget_snapshots(run)
        return None

    async def forget_snapshots(self, run: str | None = None) -> None:
        """Delete the snapshots of one run, or all."""
        await self._writer.submit(partial(rows.forget_snapshots, run=run))

    async def put(self, data: bytes) -> str:
        """Return the key once the data is safe on the disk."""

        def put() -> str:
            key = hashlib.sha256(data).hexdigest()
            self._blobs.put(key, data)
            return key

        return await in_thread(put, name="midstream-blobs")

    async def get(self, key: str) -> bytes:
        """Return the data of a key."""
        return await in_thread(partial(self._blobs.get, key), name="midstream-blobs")

    async def sweep(self) -> int:
        """Delete contents that nothing names any more; return how many."""
        old = await in_thread(self._blobs.old, name="midstream-sweep")
        if not old:
            return 0
        naming = await in_thread(lambda: [*self._blobs.naming()], name="midstream-sweep")
        named = still_named(naming, await self._reader.submit(rows.named))
        # What was read is the journal's, not that of a file which has taken its place.
        await self._writer.submit(lambda _: None)
        return await in_thread(lambda: self._blobs.delete_old(old - named), name="midstream-sweep")

    # --- the whole ------------------------------------------------------------------------------

    async def changed(self, timeout_s: float, runs: Collection[str] | None = None) -> None:
        """Return once anything may have been written by anybody since the last call, or in time."""
        await self._watch.changed(timeout_s, (ANY,))

    async def aclose(self) -> None:
        """Let go of every run and close."""
        await in_thread(self.close, name="midstream-closing")

    def close(self, *, is_cut: bool = False) -> None:
        """Close, without a loop. Blocking. `is_cut`: leave everything as a killed process would."""
        with self._closing:  # two tasks may close at once, each in a thread
            if not self._is_closed:
                self._was_lost = self._guard.is_lost()
                self._is_closed = True
            self._watch.close()
            self._reader.close()
            letting_go = partial(rows.release, run=None, owners=self._owners)
            self._writer.close(last=None if is_cut else letting_go)
            self._owners.close(is_cut=is_cut)

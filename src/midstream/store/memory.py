"""A store in memory: what lives as long as its process.

`beside` gives another owner of the same contents, as a second process is to a file: tests of two
consoles, of a crash (`die`) and of what comes after it need no disk.
"""

import contextlib
import hashlib
import math
from array import array
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from heapq import nlargest

from midstream.core.events import AnyFact
from midstream.core.notices import AnyNotice, Envelope
from midstream.language.errors import ContentsMissing
from midstream.runtime.ports import completed
from midstream.runtime.storage import (
    MATCHES,
    NO_PAGES,
    PAGE,
    Claim,
    KeptRun,
    Mail,
    Place,
    Rate,
    RunKind,
)
from midstream.store.encoding import bodies_of, mail_body
from midstream.store.refusals import (
    closed,
    elsewhere,
    has_forks,
    moved,
    no_such_run,
    not_ended,
    nothing_by_then,
    nothing_to_adopt,
    owned,
    taken,
)
from midstream.store.threads import Calls
from midstream.views.listing import Standing, Summary, named_like, summarised


class _Run:
    """A run's facts, and the time of each. A fork shares nothing: the values are the same and never change.

    `ends` are the positions at which an append ended, in their order: there a run can be forked.
    """

    __slots__ = (
        "_summarised",
        "_summary",
        "ends",
        "facts",
        "is_foreign",
        "parent",
        "parent_seq",
        "times",
    )

    def __init__(self, facts: Iterable[Envelope] = (), ends: Iterable[int] = ()) -> None:
        self.facts: list[AnyFact | AnyNotice] = []
        self.times = array("d")
        self.add(facts)
        self.ends = list(ends)
        self._summary = _NO_SUMMARY
        self._summarised = 0
        self.parent = ""
        self.parent_seq = 0
        self.is_foreign = False

    def add(self, facts: Iterable[Envelope]) -> None:
        """Keep facts after those there are: an envelope says of each what all of them say, too."""
        for envelope in facts:
            self.facts.append(envelope.event)
            self.times.append(envelope.at)

    def part(self, id: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        """Return the facts after position `after` as those of the run `id`."""
        found = zip(self.facts[after:upto], self.times[after:upto], strict=True)
        return [
            Envelope(run=id, at=at, event=fact, seq=seq)
            for seq, (fact, at) in enumerate(found, after + 1)
        ]

    def summary(self) -> Summary:
        """Return the run's line in a listing, made when it is looked at: runs are listed seldom."""
        for envelope in self.part("", self._summarised):
            self._summary = summarised(self._summary, envelope)
        self._summarised = len(self.facts)
        return self._summary


_NO_SUMMARY = Summary()


class _Contents:
    """What all owners share."""

    def __init__(self) -> None:
        self.runs: dict[str, _Run] = {}
        self.mails: dict[tuple[str, str], Mail] = {}
        self.delivered: set[tuple[str, str]] = set()
        self.leases: dict[str, str] = {}
        self.snapshots: dict[str, tuple[int, bytes, dict[str, bytes]]] = {}
        self.blobs: dict[str, bytes] = {}
        self.owners: dict[str, MemoryStore] = {}
        self.owners_made = 0

    def living(self, run: str) -> str:
        """Return the living owner of a run, "" for nobody."""
        owner = self.leases.get(run, "")
        return owner if owner in self.owners else ""


NOBODY = "nobody"
"""As an owner: a dead one's run was taken up and let go of again before anything was appended."""


def _place(kept: KeptRun) -> Place:
    return kept.place


def _id(kept: KeptRun) -> str:
    return kept.id


class MemoryStore:
    """See `midstream.runtime.storage.Store`."""

    def __init__(self) -> None:
        self.is_lasting = False
        self._open(_Contents())

    def beside(self) -> "MemoryStore":
        """Return another owner of the same contents."""
        other = MemoryStore()
        other._open(self._contents)
        return other

    def die(self) -> None:
        """Close as a killed process would: without letting go of anything."""
        self._is_closed = True
        self._contents.owners.pop(self.me, None)
        self._note()

    def _open(self, contents: _Contents) -> None:
        self._contents = contents
        self._is_closed = False
        self._calls, self._written = Calls(is_news=False), Calls()
        contents.owners_made += 1
        self.me = f"memory{contents.owners_made}"
        self._cut: dict[str, int] = {}
        contents.owners[self.me] = self

    # --- the journal ----------------------------------------------------------------------------

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Keep the facts after position `expected`. See `midstream.runtime.ports.Journal`."""
        self._refuse_closed()
        kept = self._contents.runs.get(run)
        seq = 0 if kept is None else len(kept.facts)
        if seq != expected:
            raise moved(run, seq, expected)
        if self._contents.living(run) not in ("", self.me):
            raise elsewhere(run)
        bodies_of(run, expected, facts)
        if not facts:
            return
        if kept is None:
            kept = self._contents.runs[run] = _Run()
        kept.add(facts)
        kept.ends.append(len(kept.facts))
        self._changed()

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        """Return the run's facts after position `after`."""
        self._refuse_closed()
        kept = self._contents.runs.get(run)
        if kept is None:
            return []
        return kept.part(run, max(after, 0), None if upto is None else max(upto, 0))

    # --- the catalogue --------------------------------------------------------------------------

    async def run(self, id: str) -> KeptRun | None:
        """Return a run, None where there is none of that id."""
        self._refuse_closed()
        run = self._contents.runs.get(id)
        return None if run is None else self._kept(id, run)

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
        self._refuse_closed()
        found = (
            kept
            for kept in self._all(workspace)
            if kind in (None, kept.summary.kind)
            and (status is None or kept.summary.standing in status)
            and (after is None or kept.place < after)
        )
        return nlargest(limit, found, key=_place)

    async def matching(
        self, text: str, *, workspace: str | None = None, limit: int = MATCHES
    ) -> list[KeptRun]:
        """Return the runs whose id begins so, and behind them those that are called so."""
        self._refuse_closed()
        every = sorted(self._all(workspace), key=_id)
        begun = [kept for kept in every if kept.id.startswith(text)][:limit]
        names = [(kept.id, kept.summary.name) for kept in every if kept not in begun]
        named = named_like(text, names)[:limit]
        return begun + [kept for kept in every if kept.id in named]

    def _all(self, workspace: str | None) -> Iterator[KeptRun]:
        for id, run in self._contents.runs.items():
            if workspace is None or run.summary().workspace in (workspace, ""):
                yield self._kept(id, run)

    async def lineage(self, id: str) -> list[KeptRun]:
        """Return a run and the runs it was forked from, the run itself first."""
        self._refuse_closed()
        found: list[KeptRun] = []
        while (run := self._contents.runs.get(id)) is not None:
            found.append(self._kept(id, run))
            id = run.parent
        return found

    def _kept(self, id: str, run: _Run) -> KeptRun:
        return KeptRun(
            id=id,
            seq=len(run.facts),
            summary=run.summary(),
            parent=run.parent,
            parent_seq=run.parent_seq,
            is_foreign=run.is_foreign,
            owner=self._contents.living(id),
            was_cut=id in self._contents.leases and not self._contents.living(id),
        )

    async def fork(self, source: str, at: int, id: str) -> int:
        """Make the run `id` of the first facts of `source`."""
        self._refuse_closed()
        facts, ends = self._beginning(id, source, at)
        seq = len(facts)
        self._add(id, _Run(facts, ends))
        self._contents.runs[id].parent = source
        self._contents.runs[id].parent_seq = seq
        return seq

    async def adopt(
        self,
        id: str,
        facts: Collection[Envelope],
        *,
        appends: Collection[int] | None = None,
        parent: tuple[str, int] | None = None,
    ) -> None:
        """Keep a run that comes from elsewhere."""
        self._refuse_closed()
        new = list(facts)
        if not new and parent is None:
            raise nothing_to_adopt(id)
        begun, ends = self._beginning(id, *parent) if parent is not None else ([], [])
        bodies_of(id, len(begun), new)
        last = len(begun) + len(new)
        own = range(len(begun) + 1, last + 1) if appends is None else {*appends, last}
        run = _Run([*begun, *new], sorted({*ends, *own}))
        run.is_foreign = appends is None
        if parent is not None:
            run.parent, run.parent_seq = parent[0], len(begun)
        self._add(id, run)

    async def forget(self, run: str) -> None:
        """Delete a run that has ended."""
        self._refuse_closed()
        contents = self._contents
        if run not in contents.runs:
            raise no_such_run(run)
        if owner := contents.living(run):
            raise owned(run, owner)
        if not contents.runs[run].summary().is_over:
            raise not_ended(run)
        if any(other.parent == run for other in contents.runs.values()):
            raise has_forks(run)
        for key in [key for key in contents.mails if key[0] == run]:
            del contents.mails[key]
            contents.delivered.discard(key)
        del contents.runs[run]
        contents.leases.pop(run, None)
        contents.snapshots.pop(run, None)
        self._changed()

    async def appends(self, run: str, after: int = 0) -> list[int]:
        """Return the positions of a run behind `after` at which an append ended."""
        self._refuse_closed()
        kept = self._contents.runs.get(run)
        return [] if kept is None else [end for end in kept.ends if end > after]

    def _beginning(self, id: str, source: str, at: int) -> tuple[list[Envelope], list[int]]:
        """Return the first facts of a run as those of another, and where their appends ended."""
        kept = self._contents.runs.get(source)
        if kept is None:
            raise no_such_run(source)
        seq = max((end for end in kept.ends if end <= at), default=0)
        if not seq:
            raise nothing_by_then(source, at)
        return kept.part(id, upto=seq), [end for end in kept.ends if end <= seq]

    def _add(self, id: str, run: _Run) -> None:
        if id in self._contents.runs:
            raise taken(id)
        self._contents.runs[id] = run
        self._changed()

    # --- the inbox ------------------------------------------------------------------------------

    async def post(self, mail: Mail) -> Mail:
        """Keep a message, call who runs the run, and return the kept one."""
        self._refuse_closed()
        mail_body(mail)
        kept = self._contents.mails.setdefault((mail.run, mail.id), mail)
        self._changed()
        await self.ring(self._contents.living(mail.run))
        return kept

    async def mail(self, owner: str) -> list[Mail]:
        """Return the undelivered messages to the runs of an owner, the oldest first."""
        self._refuse_closed()
        return [mail for mail in self._undelivered() if self._contents.living(mail.run) == owner]

    async def undelivered(self, run: str) -> list[Mail]:
        """Return the undelivered messages to one run, the oldest first."""
        self._refuse_closed()
        return [mail for mail in self._undelivered() if mail.run == run]

    def _undelivered(self) -> Iterator[Mail]:
        contents = self._contents
        return (mail for key, mail in contents.mails.items() if key not in contents.delivered)

    async def posted(self, run: str) -> list[Mail]:
        """Return every message there ever was to a run, the oldest first."""
        self._refuse_closed()
        return [mail for key, mail in self._contents.mails.items() if key[0] == run]

    async def delivered(self, run: str, id: str) -> None:
        """Hand a message out no more."""
        self._refuse_closed()
        if (run, id) in self._contents.mails:
            self._contents.delivered.add((run, id))
            self._changed()

    # --- who has which run ----------------------------------------------------------------------

    async def claim(self, run: str) -> Claim:
        """Make the run ours."""
        self._refuse_closed()
        contents = self._contents
        owner = contents.leases.get(run, "")
        if owner == self.me:
            return Claim(was_cut=self._is_cut(run))
        if contents.living(run):
            raise owned(run, owner)
        contents.leases[run] = self.me
        self._cut.pop(run, None)
        if owner:
            self._cut[run] = self._length(run)
        self._changed()
        return Claim(was_cut=bool(owner))

    async def release(self, run: str, due_at: float | None = None) -> None:
        """Let go of a run that is ours. When it is due is forgotten: no worker shares this store."""
        self._refuse_closed()
        if self._contents.leases.get(run) == self.me:
            self._let_go(run)
            self._changed()

    def _let_go(self, run: str) -> None:
        if self._is_cut(run):
            self._contents.leases[run] = NOBODY
        else:
            del self._contents.leases[run]

    def _is_cut(self, run: str) -> bool:
        """Return whether a run of ours was cut and nothing was appended to it since."""
        return self._cut.get(run) == self._length(run)

    def _length(self, run: str) -> int:
        kept = self._contents.runs.get(run)
        return 0 if kept is None else len(kept.facts)

    async def owner_of(self, run: str) -> str:
        """Return the living owner of a run, "" if there is none."""
        self._refuse_closed()
        return self._contents.living(run)

    async def renew(self) -> float:
        """Return infinity: who shares this process lives for as long as its store is open."""
        self._refuse_closed()
        return math.inf

    async def ring(self, owner: str) -> None:
        """Wake an owner."""
        self._refuse_closed()
        if owner in self._contents.owners:
            self._contents.owners[owner]._calls.ring()

    async def rings(self) -> AsyncGenerator[None, None]:
        """Yield whenever this owner was called."""
        async with contextlib.aclosing(self._calls.rings()) as rings:
            async for _ in rings:
                yield

    # --- snapshots and the blob store -------------------------------------------------------------

    async def keep_snapshot(
        self, run: str, seq: int, data: bytes, pages: Mapping[str, bytes] = NO_PAGES
    ) -> None:
        """Keep how the run stood after fact `seq`."""
        self._refuse_closed()
        kept = self._contents.snapshots.get(run, (0, b"", {}))[2]
        whole = {name: kept[name] if name in kept else pages[name] for name in pages}
        self._contents.snapshots[run] = (seq, data, whole)

    async def snapshot(self, run: str) -> tuple[int, bytes, Mapping[str, bytes]] | None:
        """Return the newest snapshot."""
        self._refuse_closed()
        return self._contents.snapshots.get(run)

    async def forget_snapshots(self, run: str | None = None) -> None:
        """Delete the snapshots of one run, or all."""
        self._refuse_closed()
        if run is None:
            self._contents.snapshots.clear()
        else:
            self._contents.snapshots.pop(run, None)

    async def put(self, data: bytes) -> str:
        """Return the key of the data."""
        self._refuse_closed()
        key = hashlib.sha256(data).hexdigest()
        self._contents.blobs[key] = data
        return key

    async def get(self, key: str) -> bytes:
        """Return the data of a key."""
        self._refuse_closed()
        key = completed(key, self._contents.blobs)
        if key not in self._contents.blobs:
            raise ContentsMissing(f"The contents {key[:16]} are missing.", hint="Nothing is lost.")
        return self._contents.blobs[key]

    async def sweep(self) -> int:
        """Return 0: nothing of it is a week old."""
        return 0

    # --- the whole ------------------------------------------------------------------------------

    async def changed(self, timeout_s: float, runs: Collection[str] | None = None) -> None:
        """Return once anything may have been written by anybody since the last call, or in time."""
        await self._written.rung(0.0 if self._is_closed else timeout_s)

    async def aclose(self) -> None:
        """Let go of every run and close."""
        if self._is_closed:
            return
        leases = self._contents.leases
        for run in [run for run, owner in leases.items() if owner == self.me]:
            self._let_go(run)
        self.die()
        self._changed()

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise closed()

    def _changed(self) -> None:
        for owner in self._contents.owners.values():
            owner._note()

    def _note(self) -> None:
        self._written.ring()


class Supplies:
    """How much is left of what is given out at a rate, in this process; see `storage.Pool.admit`."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._left: dict[str, tuple[float, float]] = {}

    async def admit(self, wanted: Mapping[str, Rate], amount: float = 1.0) -> float:
        """Take from all of the supplies and return 0, or from none and return when to ask again."""
        now, left = self._now(), dict[str, float]()
        for name, rate in wanted.items():
            kept, at = self._left.get(name, (rate.burst, now))
            left[name] = min(rate.burst, kept + (now - at) * rate.per_minute / 60) - amount
        lacking = [-left[name] / rate.per_minute * 60 for name, rate in wanted.items()]
        if (wait := max(lacking, default=0.0)) > 0:
            return wait
        self._left.update({name: (rest, now) for name, rest in left.items()})
        return 0.0

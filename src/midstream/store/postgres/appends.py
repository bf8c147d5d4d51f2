"""Writing facts: all appends that wait are one statement, with the fence in it (`keeping.py`).

Where the connection is cut before an answer came, nobody knows what was kept: it is looked up by the
checksum of the last fact, and tried again. Whatever else is done meanwhile, a row moves from a place once.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec
import psycopg

from midstream.core.codec import FIRST
from midstream.language.errors import JournalFull, MidstreamError
from midstream.store.chains import Append, Begun, FactRow, Tip
from midstream.store.postgres import link as links
from midstream.store.postgres.keeping import Move, keep
from midstream.store.postgres.link import Connection, Link, explained, is_away, is_in_the_way, texts
from midstream.store.postgres.reading import FORK, fork_values, read
from midstream.store.refusals import elsewhere, moved, parted, taken
from midstream.store.threads import Job
from midstream.views.listing import Summary

NOBODY: Final = "-"
"""As an owner: a dead one's run was taken up and let go of again before anything was appended."""

MAX_BYTES: Final = 32 * 1024 * 1024
"""How many bytes of facts go into one statement, unless one append has more."""

TIPS: Final = 4096
"""Of how many runs is remembered how far they are."""

_PAUSE_S = 0.05
_SUMMARY = msgspec.json.Decoder(Summary)


class _Chain:
    """Appends of one run that follow each other, and what comes of them on a tip."""

    def __init__(self, jobs: list[Job[Link, Any]]) -> None:
        self.jobs = jobs
        self.appends: list[Append] = [job.work for job in jobs]  # type: ignore[misc]
        self.run = self.appends[0].run
        self.expected = self.appends[0].expected
        self.is_in_doubt = False

    @property
    def size(self) -> int:
        return sum(len(body) for append in self.appends for body in append.bodies)

    def on(self, tip: Tip) -> tuple[list[FactRow], Tip]:
        """Return the rows of the facts, and the tip after them."""
        rows: list[FactRow] = []
        for append in self.appends:
            more, tip = append.on(tip)
            rows += more
        return rows, tip


_TIPS = "select id, seq, head, summary from midstream.runs where id = any(%(ids)s)"

_WHY = """
select seq, head, owner not in ('', '-', %(me)s) and midstream.lives(owner) from midstream.runs
where id = %(id)s
"""

_KEPT = """
update midstream.runs r set seq = r.seq from midstream.facts f
where r.id = %(id)s and f.run = r.number and f.seq = %(seq)s and f.checksum = %(checksum)s
returning true
"""
"""It writes: what it finds may not have come to a synchronous replica yet, and has once this has."""


class Writing:
    """How the writing thread performs: waiting appends in one statement, anything else one by one.

    Args:
        me: the name of this owner.
        written: is called in the thread with the runs that something was written of.
    """

    def __init__(self, me: str, written: Callable[[Collection[str]], None]) -> None:
        self._me = me
        self._written = written
        self._tips: OrderedDict[str, Tip] = OrderedDict()
        # What was given up without knowing whether it was kept: where the run was before it, and the
        # checksums at the ends of its appends.
        self._doubts: dict[str, tuple[Tip, Collection[bytes]]] = {}

    def __call__(self, link: Link, group: list[Job[Link, Any]]) -> None:
        """Do the jobs in their order, or let each end with what went wrong."""
        appends: list[Job[Link, Any]] = []
        for job in group:
            if not job.prepare():
                continue
            if isinstance(job.work, Append):
                appends.append(job)
                continue
            self._append(link, appends)
            appends = []
            try:
                job.run(link)
            except Exception as error:
                job.fail(explained(error, link.address, is_writing=True))
        self._append(link, appends)

    def _append(self, link: Link, jobs: list[Job[Link, Any]]) -> None:
        while jobs:
            chains, jobs = _batch(jobs)
            self._keep_all(link, chains)

    def _keep_all(self, link: Link, chains: list[_Chain]) -> None:
        try:
            self._keep(link, chains)
        except Exception as error:
            if len(chains) > 1 and not (isinstance(error, psycopg.Error) and is_away(error)):
                for chain in chains:
                    self._keep_all(link, [chain])
                return
            for chain in chains:
                for job in chain.jobs:
                    job.fail(explained(error, link.address, is_writing=True))

    def _keep(self, link: Link, chains: list[_Chain]) -> None:
        """Write what can be written, and say of the rest why not."""
        since = time.monotonic()
        while chains:
            if time.monotonic() > since + 2 * links.PATIENCE_S:
                raise JournalFull("Others keep writing to the same runs.", hint="Try again.")
            tips = self._tips_of(link, chains)
            for chain in chains:
                before, _ = self._doubts.get(chain.run, (None, ()))
                if before is not None and before.seq == chain.expected:
                    tips[chain.run] = before
            made = {
                chain.run: chain.on(tip)
                for chain in chains
                if chain.appends[-1].last > chain.expected
                and (tip := tips.get(chain.run, Tip())).seq == chain.expected
            }
            for chain in chains:
                if chain.run in made:
                    _, doubtful = self._doubts.get(chain.run, (None, ()))
                    chain.is_in_doubt |= made[chain.run][1].checksum in doubtful
            ready = [chain for chain in chains if chain.run in made]
            try:
                kept = self._kept(link, ready, tips, made)
            except psycopg.Error as error:
                if (
                    is_in_the_way(error)
                    and len(chains) == 1
                    and time.monotonic() < link.until(since)
                ):
                    time.sleep(_PAUSE_S)
                    continue
                if not is_away(error):
                    raise
                for chain in ready:
                    chain.is_in_doubt = True
                    ends = [checksum for *_, checksum, is_end, _ in made[chain.run][0] if is_end]
                    self._doubts[chain.run] = tips.get(chain.run, Tip()), ends
                link.drop()
                if time.monotonic() > link.until(since):
                    raise
                time.sleep(_PAUSE_S)
                kept = self._found(link, ready, made)
            for chain in ready:
                if chain.run in kept:
                    self._remember(chain.run, made[chain.run][1])
                    self._doubts.pop(chain.run, None)
            self._written(kept)
            chains = [
                again
                for chain in chains
                if chain.run not in kept
                for again in self._refused(link, chain, tips, made)
            ]

    def _kept(
        self,
        link: Link,
        ready: list[_Chain],
        tips: dict[str, Tip],
        made: dict[str, tuple[list[FactRow], Tip]],
    ) -> set[str]:
        """Write chains at their tips; return the runs whose facts were kept."""
        if not ready:
            return set()
        return keep(link.connected(), self._me, _moves(ready, tips, made))

    def _found(
        self, link: Link, chains: list[_Chain], made: dict[str, tuple[list[FactRow], Tip]]
    ) -> set[str]:
        """Return those of the runs whose facts were kept by a statement of which no answer came."""
        return {chain.run for chain in chains if _is_there(link, chain.run, made[chain.run][1])}

    def _tips_of(self, link: Link, chains: list[_Chain]) -> dict[str, Tip]:
        """Return how far runs are, as far as is remembered, else as it is kept.

        Raises:
            JournalDamaged: one does not end with the fact that its row says.
        """
        unknown = {
            chain.run: chain.expected
            for chain in chains
            if chain.expected
            and ((tip := self._tips.get(chain.run)) is None or tip.seq != chain.expected)
        }
        tips = {chain.run: self._tips.get(chain.run, Tip()) for chain in chains}
        tips |= {chain.run: Tip() for chain in chains if not chain.expected}
        if unknown:
            rows = link.rows(_TIPS, {"ids": [texts(run) for run in unknown]})
            tips |= {
                links.text_in(id): Tip(seq, checksum, _summary(said))
                for id, seq, checksum, said in rows
            }
        for run, expected in unknown.items():
            if tips[run].seq == expected:
                read(link, run, expected - 1, None)
        return tips

    def _remember(self, run: str, tip: Tip) -> None:
        self._tips[run] = tip
        self._tips.move_to_end(run)
        if len(self._tips) > TIPS:
            self._tips.popitem(last=False)

    def _refused(
        self,
        link: Link,
        chain: _Chain,
        tips: dict[str, Tip],
        made: dict[str, tuple[list[FactRow], Tip]],
    ) -> list[_Chain]:
        """Let the jobs of a chain end with why they were refused; return what is to be tried again."""
        if (
            chain.is_in_doubt
            and chain.run in made
            and _is_there(link, chain.run, made[chain.run][1])
        ):
            self._remember(chain.run, made[chain.run][1])
            self._doubts.pop(chain.run, None)
            self._written({chain.run})
            return []
        self._tips.pop(chain.run, None)
        self._doubts.pop(chain.run, None)
        rows = link.rows(_WHY, {"id": texts(chain.run), "me": self._me})
        seq, head, is_elsewhere = rows[0] if rows else (0, FIRST, False)
        is_parted = (
            chain.run in made and seq == chain.expected > 0 and head != tips[chain.run].checksum
        )
        for place, (job, append) in enumerate(zip(chain.jobs, chain.appends, strict=True)):
            if (why := _why(append, seq, is_elsewhere=is_elsewhere)) is not None:
                job.fail(why)
            elif is_parted:
                job.fail(parted(append.run, seq))
            elif append.facts:
                rest = _Chain(chain.jobs[place:])
                rest.is_in_doubt = chain.is_in_doubt
                return [rest]
        return []


def _why(append: Append, seq: int, *, is_elsewhere: bool) -> MidstreamError | None:
    if append.is_new and seq:
        return taken(append.run)
    if seq != append.expected:
        return moved(append.run, seq, append.expected)
    return elsewhere(append.run) if is_elsewhere else None


def _is_there(link: Link, run: str, tip: Tip) -> bool:
    place = {"id": texts(run), "seq": tip.seq, "checksum": tip.checksum}
    return bool(link.rows(_KEPT, place))


def _moves(
    ready: list[_Chain],
    tips: Mapping[str, Tip],
    made: Mapping[str, tuple[list[FactRow], Tip]],
) -> list[Move]:
    """Return what is to be kept to write chains at their tips."""
    return [
        Move(
            chain.run,
            tips.get(chain.run, Tip()),
            *made[chain.run][::-1],
            chain.appends[0].is_foreign,
        )
        for chain in ready
    ]


def adopt_fork(link: Link, me: str, append: Append, begun: Begun) -> None:
    """Make a run from elsewhere that begins with a prefix of one that is here. All or nothing.

    Raises:
        UserMistake: its id is taken.
    """
    append.prepare()
    chain = _Chain([Job(append)])
    tip = begun.tip
    made = {append.run: chain.on(tip)}

    def work(connection: Connection) -> bool:
        with connection.transaction():
            if not connection.execute(FORK.encode(), fork_values(append.run, begun)).fetchall():
                return False
            if append.facts:
                keep(connection, me, _moves([chain], {append.run: tip}, made))
            return True

    if not link.do(work) and not _is_there(link, append.run, made[append.run][1]):
        raise taken(append.run)


def _summary(said: str) -> Summary:
    try:
        return _SUMMARY.decode(said)
    except msgspec.MsgspecError:
        return Summary()


def _batch(jobs: list[Job[Link, Any]]) -> tuple[list[_Chain], list[Job[Link, Any]]]:
    """Return appends that can be written together, at most one chain a run, and those that come after."""
    chains: dict[str, list[Job[Link, Any]]] = {}
    later: list[Job[Link, Any]] = []
    waiting: set[str] = set()
    size = 0
    for job in jobs:
        append: Append = job.work  # type: ignore[assignment]
        size += sum(map(len, append.bodies))
        chain = chains.get(append.run)
        before: Append | None = chain[-1].work if chain else None  # type: ignore[assignment]
        follows = before is None or (
            before.last == append.expected and not before.is_new and not append.is_new
        )
        if append.run in waiting or not follows or (size > MAX_BYTES and chains):
            waiting.add(append.run)
            later.append(job)
        else:
            chains.setdefault(append.run, []).append(job)
    return [_Chain(jobs) for jobs in chains.values()], later

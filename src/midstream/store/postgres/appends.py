"""Writing facts: all appends that wait are one statement, with the fence in it.

The statement moves each run's row on from the position and the checksum it expects, unless another owner
that lives has the run, and keeps the facts of those it moved. Where the connection is cut before an answer
came, nobody knows what was kept: it is looked up by the checksum of the last fact, and tried again.
Whatever
else is done meanwhile, the row moves from a place once.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
import psycopg

from midstream.core.codec import FIRST, FORMAT, chained
from midstream.core.notices import Envelope
from midstream.language.errors import JournalFull, MidstreamError
from midstream.store.encoding import body_of, checked, marked
from midstream.store.postgres import link as links
from midstream.store.postgres.link import Connection, Link, explained, is_away, texts
from midstream.store.postgres.reading import FORK, Begun, fork_values
from midstream.store.refusals import elsewhere, moved, nothing_to_adopt, parted, taken
from midstream.store.threads import Job
from midstream.views.listing import Summary, summarised

NOBODY: Final = "-"
"""As an owner: a dead one's run was taken up and let go of again before anything was appended."""

MAX_BYTES: Final = 32 * 1024 * 1024
"""How many bytes of facts go into one statement, unless one append has more."""

TIPS: Final = 4096
"""Of how many runs is remembered how far they are."""

_PAUSE_S = 0.05
_ENCODER = msgspec.json.Encoder()
_SUMMARY = msgspec.json.Decoder(Summary)


class Tip(msgspec.Struct, frozen=True):
    """How far a run is: what the next fact is chained to."""

    seq: int = 0
    checksum: bytes = FIRST
    summary: Summary = Summary()


class Append:
    """Facts on their way into the journal.

    Args:
        run: the run's id.
        facts: what is appended.
        expected: how many facts the run has before.
        is_new: they are a run from elsewhere.
        ends: of such a run, the positions at which its appends ended; None: it is foreign for ever.
    """

    def __init__(
        self,
        run: str,
        facts: Iterable[Envelope],
        *,
        expected: int = 0,
        is_new: bool = False,
        ends: Collection[int] | None = None,
    ) -> None:
        self.run = run
        self.facts = tuple(facts)
        self.expected = expected
        self.is_new = is_new
        self.is_foreign = is_new and ends is None
        self.ends = frozenset(ends or ())
        self.bodies: list[bytes] = []

    def prepare(self) -> None:
        """Turn the facts into bytes."""
        if self.is_new and not self.facts and not self.expected:
            raise nothing_to_adopt(self.run)
        checked(self.run, self.expected, self.facts)
        self.bodies = [body_of(envelope) for envelope in self.facts]

    def __call__(self, link: Link) -> None:
        """Do nothing: appends are written together, by `Writing`."""

    @property
    def last(self) -> int:
        """Return how many facts the run has after it."""
        return self.expected + len(self.facts)


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

    def on(self, tip: Tip) -> tuple[list[tuple[Any, ...]], Tip]:
        """Return the rows of the facts (seq, at, body, checksum, ends, format), and the tip after them."""
        seq, checksum, summary = tip.seq, tip.checksum, tip.summary
        rows: list[tuple[Any, ...]] = []
        for append in self.appends:
            for envelope, body in zip(append.facts, append.bodies, strict=True):
                seq += 1
                # Foreign facts may be cut anywhere: each ends an append.
                at, is_end = float(envelope.at), seq == append.last or seq in append.ends
                ends = append.is_foreign or is_end
                checksum = chained(checksum, seq, at, marked(body, ends=ends, format=FORMAT))
                rows.append((seq, at, body, checksum, ends, FORMAT))
                summary = summarised(summary, envelope)
        return rows, Tip(seq, checksum, summary)


_APPEND = """
with heads as materialized (
    select * from unnest(
        %(n)b::int[], %(id)b::text[], %(expected)b::int[], %(tip)b::bytea[], %(seq)b::int[],
        %(head)b::bytea[], %(summary)b::text[], %(workspace)b::text[], %(kind)b::text[],
        %(standing)b::text[], %(named)b::text[], %(written_at)b::float8[], %(is_foreign)b::bool[])
    as h(n, id, expected, tip, seq, head, summary, workspace, kind, standing, named, written_at,
        is_foreign)),
known as (
    update midstream.runs r set seq = h.seq, head = h.head, format = greatest(r.format, %(format)s),
        summary = h.summary,
        workspace = h.workspace, kind = h.kind, standing = h.standing, named = h.named,
        written_at = h.written_at, is_foreign = r.is_foreign or h.is_foreign
    from heads h
    where r.id = h.id and r.seq = h.expected and r.head = h.tip
        and (r.owner in ('', '-', %(me)s) or not midstream.lives(r.owner))
    returning h.n, r.number),
begun as (
    insert into midstream.runs(id, seq, head, format, summary, workspace, kind, standing, named, written_at,
        is_foreign)
    select id, seq, head, %(format)s, summary, workspace, kind, standing, named, written_at, is_foreign
    from heads h
    where expected = 0 and not exists(select from midstream.runs r where r.id = h.id)
    on conflict (id) do nothing returning id, number),
kept as (select n, number from known union all select h.n, b.number from begun b join heads h using (id)),
written as (
    insert into midstream.facts(run, seq, at, body, checksum, ends, format)
    select k.number, f.seq, f.at, f.body, f.checksum, f.ends, f.format
    from unnest(%(of)b::int[], %(fact)b::int[], %(at)b::float8[], %(body)b::bytea[], %(checksum)b::bytea[],
        %(ends)b::bool[], %(formats)b::int[]) as f(n, seq, at, body, checksum, ends, format)
    join kept k using (n))
select n from kept
"""

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
        made: dict[str, tuple[list[tuple[Any, ...]], Tip]],
    ) -> set[str]:
        """Write chains at their tips; return the runs whose facts were kept."""
        if not ready:
            return set()
        values = _values(self._me, ready, tips, made)
        found = link.connected().execute(_APPEND.encode(), values, prepare=True).fetchall()
        return {ready[n].run for (n,) in found}

    def _found(
        self, link: Link, chains: list[_Chain], made: dict[str, tuple[list[tuple[Any, ...]], Tip]]
    ) -> set[str]:
        """Return those of the runs whose facts were kept by a statement of which no answer came."""
        return {chain.run for chain in chains if _is_there(link, chain.run, made[chain.run][1])}

    def _tips_of(self, link: Link, chains: list[_Chain]) -> dict[str, Tip]:
        """Return how far runs are, as far as is remembered, else as it is kept."""
        unknown = [
            chain.run
            for chain in chains
            if chain.expected
            and ((tip := self._tips.get(chain.run)) is None or tip.seq != chain.expected)
        ]
        tips = {chain.run: self._tips.get(chain.run, Tip()) for chain in chains}
        tips |= {chain.run: Tip() for chain in chains if not chain.expected}
        if unknown:
            rows = link.rows(_TIPS, {"ids": [texts(run) for run in unknown]})
            tips |= {
                links.text_in(id): Tip(seq, checksum, _summary(said))
                for id, seq, checksum, said in rows
            }
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
        made: dict[str, tuple[list[tuple[Any, ...]], Tip]],
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


def _values(
    me: str,
    ready: list[_Chain],
    tips: Mapping[str, Tip],
    made: Mapping[str, tuple[list[tuple[Any, ...]], Tip]],
) -> dict[str, object]:
    """Return what the statement is given to write chains at their tips."""
    heads: list[tuple[Any, ...]] = []
    facts: list[tuple[Any, ...]] = []
    for n, chain in enumerate(ready):
        rows, after = made[chain.run]
        before, summary = tips.get(chain.run, Tip()), after.summary
        heads.append(
            (
                *(n, texts(chain.run), before.seq, before.checksum, after.seq, after.checksum),
                _ENCODER.encode(summary).decode(),
                *(texts(summary.workspace), summary.kind, summary.standing),
                *(texts(summary.name.casefold()), summary.updated_at),
                chain.appends[0].is_foreign,
            )
        )
        facts += ((n, *row) for row in rows)
    values: dict[str, object] = {"me": me, "format": FORMAT}
    values |= zip(_HEADS, map(list, zip(*heads, strict=True)), strict=True)
    values |= zip(_FACTS, map(list, zip(*facts, strict=True)), strict=True)
    return values


def adopt_fork(link: Link, me: str, append: Append, begun: Begun) -> None:
    """Make a run from elsewhere that begins with a prefix of one that is here. All or nothing.

    Raises:
        UserMistake: its id is taken.
    """
    append.expected = begun.seq
    append.prepare()
    chain = _Chain([Job(append)])
    tip = Tip(begun.seq, begun.checksum, begun.summary)
    made = {append.run: chain.on(tip)}

    def work(connection: Connection) -> bool:
        with connection.transaction():
            if not connection.execute(FORK.encode(), fork_values(append.run, begun)).fetchall():
                return False
            if append.facts:
                values = _values(me, [chain], {append.run: tip}, made)
                connection.execute(_APPEND.encode(), values)
            return True

    if not link.do(work) and not _is_there(link, append.run, made[append.run][1]):
        raise taken(append.run)


_HEADS = (
    *("n", "id", "expected", "tip", "seq", "head", "summary", "workspace", "kind", "standing"),
    *("named", "written_at", "is_foreign"),
)
_FACTS = ("of", "fact", "at", "body", "checksum", "ends", "formats")


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

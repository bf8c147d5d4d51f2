"""What keeps runs beyond their process, as small protocols. A store is all of them.

`Journal` (the facts) is the first; a machine needs no other. An engine uses the rest to live through
crashes and to share a run between processes, on one machine or on many. Nothing here says where things
are kept or how one process reaches another, and no method returns every run or every message. Those
of `midstream.store` are all of it; what each keeps is in `tests/support/store_contracts.py`.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from midstream.core.notices import Envelope
from midstream.core.proposal import Onwards
from midstream.language.names import Json, Policy
from midstream.runtime.ports import BlobStore, Journal
from midstream.views.listing import Standing, Summary

Place: TypeAlias = tuple[float, str]
"""When a run was written last, in seconds since 1970, and its id."""


class KeptRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as the store lists it.

    `seq` is how many facts it has. A fork has the first `parent_seq` facts of `parent`. `is_foreign`:
    it was imported, and never goes on by itself. `owner` is the process that runs it, "" if none
    lives; `was_cut`: its last owner died without letting go of it. `damaged` says what of it is not
    what was written ("": nothing that a listing sees); its summary is not to be trusted then.
    `placement` is where it may go on, None where all its processes share one machine.
    """

    id: str
    seq: int
    summary: Summary
    parent: str = ""
    parent_seq: int = 0
    is_foreign: bool = False
    owner: str = ""
    was_cut: bool = False
    damaged: str = ""
    placement: "Placement | None" = None

    @property
    def cut_work(self) -> bool:
        """Return whether its process died with something of it under way, as far as a listing sees."""
        return self.was_cut and not (self.summary.asking or self.summary.awaits_input)

    @property
    def is_answered(self) -> bool:
        """Return whether it is a chat of a script or program, which has its reply: nobody waits for it."""
        is_at_rest = self.summary.standing == "waiting" and not (self.owner or self.damaged)
        return is_at_rest and self.summary.kind == "chat" and self.summary.is_unattended

    @property
    def place(self) -> Place:
        """Return the run's place in a listing: the next page begins behind it."""
        return self.summary.updated_at, self.id


RunKind: TypeAlias = Literal["workflow", "chat"]
KINDS: Final[tuple[RunKind, ...]] = ("workflow", "chat")

PAGE: Final = 100
"""Runs of a page, where nobody asks for fewer or more."""

MATCHES: Final = 20
"""Runs found by the beginning of an id or name: whoever finds more types more of it."""

Choice: TypeAlias = Literal["", "old", "new", "stop"]
"""What a kept run follows whose workflow has changed since: its old copy, the new one, neither (it
ends). "": nobody has chosen yet.
"""


class Catalogue(Protocol):
    """Which runs there are, and making new ones out of old ones."""

    async def run(self, id: str) -> KeptRun | None:
        """Return a run, None where there is none of that id."""

    async def listing(
        self,
        *,
        workspace: str | None = None,
        kind: RunKind | None = None,
        status: Collection[Standing] | None = None,
        after: Place | None = None,
        limit: int = PAGE,
    ) -> list[KeptRun]:
        """Return some runs, the one that was written last first; a page costs what it returns.

        Runs of the same time are in the order of their ids, the last one first. A run that is written
        between two pages comes to the front: it may be missing from the later ones.

        Args:
            workspace: only those of this folder, and those of which it is not known.
            kind: only chats, or only workflows.
            status: only those that stand in one of these ways.
            after: the place of the last run of the page before, as it was in it.
            limit: how many at most.
        """

    async def matching(
        self, text: str, *, workspace: str | None = None, limit: int = MATCHES
    ) -> list[KeptRun]:
        """Return the runs whose id begins so, and behind them those that are called so.

        Where none has just that name, those whose name begins so. Names count in any case; of each
        group there are `limit` at most. "" matches every id, and no name.
        """

    async def lineage(self, id: str) -> list[KeptRun]:
        """Return a run and the runs it was forked from, the run itself first; none where it is not.

        However many runs there are, it costs what these cost.
        """

    async def fork(self, source: str, at: int, id: str) -> int:
        """Make the run `id` of the first facts of `source`, by reference; return how many.

        Facts appended together stay together: of an append that `at` cuts nothing is taken.

        Raises:
            UserMistake: there is no such source, or it had no facts by then, or `id` is taken.
        """

    async def adopt(
        self,
        id: str,
        facts: Collection[Envelope],
        *,
        appends: Collection[int] | None = None,
        parent: tuple[str, int] | None = None,
    ) -> None:
        """Keep a run that comes from elsewhere. All or nothing.

        Args:
            id: what it is called here.
            facts: all there are; of a fork, those behind the ones it shares.
            appends: the positions at which its appends ended: it is the same run, from another
                journal. None: it is an import, foreign for ever.
            parent: the run it was forked from, which is here, and how many facts it shares.

        Raises:
            UserMistake: `id` is taken, or the parent has no such beginning.
        """

    async def forget(self, run: str) -> None:
        """Delete a run that has ended, with its words and snapshots. All or nothing; there is no way back.

        Contents in the blob store stay: others may name them. See `Store.sweep`.

        Raises:
            UserMistake: there is no such run, it has not ended, or runs that were forked from it are here.
            RunOwned: a process has it.
        """

    async def appends(self, run: str, after: int = 0) -> list[int]:
        """Return the positions of a run behind `after` at which an append ended, in order."""


async def walk(
    catalogue: Catalogue,
    *,
    workspace: str | None = None,
    kind: RunKind | None = None,
    status: Collection[Standing] | None = None,
    after: Place | None = None,
) -> AsyncIterator[KeptRun]:
    """Yield runs, the one that was written last first, a page at a time: whoever has enough stops."""
    while True:
        page = await catalogue.listing(workspace=workspace, kind=kind, status=status, after=after)
        # A page may be short of a run that is damaged. One whose id is may stand behind itself.
        if not page or page[-1].place == after:
            return
        for kept in page:
            yield kept
        after = page[-1].place


MailKind: TypeAlias = Literal[
    "say",
    "halt",
    "stop",
    "approve",
    "revoke",
    "withdraw",
    "unsuspend",
    "compact",
    "rename",
    "todo",
]


class Mail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something a person did to a run from any process, kept until the run's owner has taken it.

    `id` is unique for the run: the same id again is the same message. For `say`: `text`, `question`
    (the id of the question it answers), `unasked` and `policy` as in `Machine.say`. For `approve`:
    `question`, `granted`, `for_run`, `edited`, `mode`, and `text` as the note; for `revoke`: `text` is the
    permission. For `stop`: `text` is the reason. For `withdraw`: `text` is the id of the words. For
    `compact`: `text` is what to keep in mind, `room` as there; for `rename`: the name.
    `at` is in seconds since 1970.
    """

    id: str
    run: str
    at: float
    kind: MailKind = "say"
    text: str = ""
    source: str = "user"
    question: str | None = None
    unasked: bool = False
    policy: Policy | None = None
    granted: bool = False
    for_run: bool = False
    edited: dict[str, Json] | None = None
    room: int = 0
    mode: Onwards = "ask"


KEPT: Final = "it is kept until the run can take it"
"""Why words wait in the inbox that were said to a run and that it could not journal yet."""


class Inbox(Protocol):
    """Messages to runs. Posting is durable; a message is handed out until it is said to be delivered."""

    async def post(self, mail: Mail) -> Mail:
        """Keep a message, call who runs the run, and return the kept one.

        That is an earlier one where the id was used for this run: a delivered message is remembered by its
        id for as long as the run is. A call may be lost.
        """

    async def mail(self, owner: str) -> list[Mail]:
        """Return the undelivered messages to the runs of a living owner, the oldest first.

        "" is nobody: those to runs that no process runs now.
        """

    async def undelivered(self, run: str) -> list[Mail]:
        """Return the undelivered messages to one run, the oldest first."""

    async def posted(self, run: str) -> list[Mail]:
        """Return every message there ever was to a run, delivered or not, the oldest first."""

    async def delivered(self, run: str, id: str) -> None:
        """Hand a message out no more. An unknown one is left unknown."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """That the run is ours now. `was_cut`: its last owner died without letting go of it.

    It stays cut until something is appended to it, whoever claims it and lets go of it meanwhile:
    who could not journal that it goes on has not gone on with it. `epoch` grows with each change of
    owner: whoever acts with a lower one comes too late. `deaths`: so many owners in a row died with the run
    while it hardly went on.
    """

    was_cut: bool
    epoch: int = 0
    deaths: int = 0


class Ownership(Protocol):
    """Who runs a run: one process at most. A dead owner's runs may be claimed at once."""

    @property
    def me(self) -> str:
        """Return the name of this owner, unique among all that live."""

    async def claim(self, run: str) -> Claim:
        """Make the run ours. One that is ours already stays ours.

        Raises:
            RunOwned: another owner that lives has it.
        """

    async def release(self, run: str, due_at: float | None = None) -> None:
        """Let go of a run that is ours; of any other nothing changes.

        `due_at`: when it goes on by itself though nothing is sent to it, in seconds since 1970: 0 where it
        has something to do now; None: only what is sent to it moves it on. Where no worker takes up runs
        it may be forgotten.
        """

    async def owner_of(self, run: str) -> str:
        """Return the living owner of a run, "" if there is none."""

    async def renew(self) -> float:
        """Say that this owner lives; return the seconds within which that has to be said again.

        Where the death of a process shows by itself that is infinity. Whoever is late has lost its runs:
        another owner may claim them.

        Raises:
            JournalMoved: what is kept was restored from a backup meanwhile: none of its runs is this
                owner's any more. Once it has let go of them it may be said again.
            WorldTrouble: it cannot be said now.
        """

    async def ring(self, owner: str) -> None:
        """Wake an owner, so that it looks for messages at once. A call may be lost."""

    def rings(self) -> AsyncGenerator[None, None]:
        """Yield whenever this owner was called, and perhaps now and then. Closed, it hears no more."""


NO_PAGES: Final[Mapping[str, bytes]] = MappingProxyType({})


class Snapshots(Protocol):
    """The newest folded state of each run, as bytes: a cache, and nothing but that."""

    async def keep_snapshot(
        self, run: str, seq: int, data: bytes, pages: Mapping[str, bytes] = NO_PAGES
    ) -> None:
        """Keep how the run stood after fact `seq`, instead of what was kept before.

        A page of a name that was kept for the run with its last snapshot is what it was: it is not
        asked for. Asking for one may take a while.
        """

    async def snapshot(self, run: str) -> tuple[int, bytes, Mapping[str, bytes]] | None:
        """Return the newest snapshot: its seq, its data and pages; None where none is whole."""

    async def forget_snapshots(self, run: str | None = None) -> None:
        """Delete the snapshots of one run, or all."""


class Placement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a run may go on, and whose it is.

    A run of a folder goes on with the workers of its `host` alone. One of a git `repository` (its URL)
    at a `commit` goes on anywhere; what it has made of that is pushed to the branch `push` when it has
    finished, "" where nobody asked for that. `queue`: only with workers that serve it. `user`: for whom, so
    that people share the workers fairly.
    """

    host: str = ""
    queue: str = "default"
    user: str = ""
    repository: str = ""
    commit: str = ""
    push: str = ""


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker, as it announces itself and as others see it.

    It takes up to `max_runs` runs at once: of `queues` (none: of any), of a repository or of folders of
    its `host` that match one of `workspaces` (glob patterns; none: of any folder). `since` is in seconds
    since 1970. `is_leaving`: it takes none any more. `refuses` are folders and ids of runs that it cannot
    take up for now, each with the reason. As others see it: `runs` are those it has, `seen_s` the seconds
    since it last said that it lives.
    """

    owner: str
    host: str
    pid: int
    version: str
    since: float
    max_runs: int
    queues: tuple[str, ...] = ()
    workspaces: tuple[str, ...] = ()
    is_leaving: bool = False
    refuses: dict[str, str] = {}
    runs: tuple[str, ...] = ()
    seen_s: float = 0.0


SUSPECT: Final = 3
"""With so many owners in a row a run has died that may be what kills them."""

GOES_ON: Final = 50
"""A run that has got so many facts since the last death did not die of the same thing again."""


def fits(worker: WorkerInfo, placement: Placement, workspace: str, run: str) -> bool:
    """Return whether a worker may take a run of this placement, folder and id."""
    if worker.is_leaving or (worker.queues and placement.queue not in worker.queues):
        return False
    if workspace in worker.refuses or run in worker.refuses:
        return False
    if placement.repository:
        return True
    is_there = not placement.host or placement.host == worker.host
    patterns = worker.workspaces
    return is_there and (not patterns or any(fnmatchcase(workspace, each) for each in patterns))


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a worker has taken: it is the worker's now."""

    kept: KeptRun
    claim: Claim


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """How much of something all workers have together: `burst` at once, `per_minute` in the long run."""

    per_minute: float
    burst: float


NOTE_BYTES: Final = 7_000
"""Of a note (`Pool.tell`), in UTF-8."""


@runtime_checkable
class Pool(Protocol):
    """What a store has besides where workers of many machines share it.

    Something is owed to a run that nobody runs if it has begun, is no import and has not ended, and: its
    owner died with it, whatever it waited for; or the time has come that its owner let go of it with
    (`release`); or it was sent something. A fork that nobody has run is owed nothing before that.
    """

    @property
    def host(self) -> str:
        """Return what this machine is called, for runs of its folders; "" where there is only one."""

    async def ask_owner(self, run: str) -> str:
        """Return the owner of a run that says, asked now, that it lives, "" if there is none.

        One that is silent is waited for until its time is over.
        """

    async def assign(self, run: str, placement: Placement) -> None:
        """Say where a run belongs; where it is new, before its first fact.

        A run nobody has said that of belongs to the host and the user that claimed it first.
        """

    async def take(self, worker: WorkerInfo, limit: int) -> list[Taken]:
        """Claim and return runs that are owed something and that this worker may take.

        Users with the fewest runs under way come first, then the runs that have waited the longest.
        Of the runs that died with three owners and more one worker has one at a time.
        """

    async def offered(self, timeout_s: float) -> None:
        """Return once there may be something to take that was not there at the last call, or in time."""

    async def announce(self, worker: WorkerInfo) -> None:
        """Say that this owner is a worker, and what it takes. It is forgotten when the owner dies."""

    async def workers(self) -> list[WorkerInfo]:
        """Return the workers that live, the oldest first."""

    async def admit(self, wanted: Mapping[str, Rate], amount: float = 1.0) -> float:
        """Take an amount from each of the named supplies and return 0, or take none and return the seconds
        after which to ask again.
        """

    async def tell(self, owner: str, note: str) -> None:
        """Tell an owner something that is kept nowhere: one that does not hear it now never does.

        A note has at most `NOTE_BYTES`, and no NUL.
        """

    def told(self) -> AbstractContextManager[asyncio.Queue[str]]:
        """Give what this owner is told. First, and whenever something may have been missed, ""."""

    def now(self) -> float:
        """Return the time all workers agree on, in seconds since 1970, whatever a machine's clock says."""


async def is_served(store: "Store", id: str) -> bool:
    """Return whether a worker lives that may take up a run once something is sent to it."""
    kept = await store.run(id) if isinstance(store, Pool) else None
    if kept is None or not isinstance(store, Pool):
        return False
    placement = kept.placement or Placement()
    workers = await store.workers()
    return any(fits(each, placement, kept.summary.workspace, id) for each in workers)


_KEY: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


def keys_in(data: bytes) -> set[str]:
    """Return what may be keys of the blob store in the JSON of a fact, or of words."""
    return {key.decode() for key in _KEY.findall(data)}


LISTS: Final = (b"{", b"[")
"""What contents begin with that may name others: lists and mappings of JSON."""


def named_by(contents: bytes) -> set[str]:
    """Return the keys that contents name."""
    return keys_in(contents) if contents[:1] in LISTS else set()


SWEPT_DAYS: Final = 7
"""Days for which contents stay that nobody has put meanwhile and nothing names."""


def still_named(
    contents: Iterable[tuple[str, bool, Collection[str]]], named: Iterable[str]
) -> set[str]:
    """Return the keys that facts and words name, or young contents, or contents that are named themselves.

    Args:
        contents: of each that may name others its key, whether it is old, and the keys it names.
        named: the keys in all facts and words, which are looked at after the contents.
    """
    names: dict[str, Collection[str]] = {}
    todo: set[str] = set()
    for key, is_old, keys in contents:
        names[key] = keys
        if not is_old:
            todo.update(keys)
    todo.update(named)
    seen: set[str] = set()
    while todo:
        key = todo.pop()
        seen.add(key)
        todo.update(each for each in names.get(key, ()) if each not in seen)
    return seen


class Store(Journal, Catalogue, Inbox, Ownership, Snapshots, BlobStore, Protocol):
    """Everything that keeps runs, in one place."""

    @property
    def is_lasting(self) -> bool:
        """Return whether what is kept outlives this process, as far as is known."""

    async def changed(self, timeout_s: float, runs: Collection[str] | None = None) -> None:
        """Return once something may have been written by anybody since the last call, or in time.

        Args:
            timeout_s: how long to wait at most.
            runs: wait for what is written of these runs, sent to them, or who runs them; None: of
                any. A store may return for others, too.
        """

    async def sweep(self) -> int:
        """Delete contents of the blob store that nothing kept names any more; return how many.

        What somebody has put within a week stays: it may be about to be named.

        Raises:
            WorldTrouble: some may be left.
        """

    async def aclose(self) -> None:
        """Let go of every run and close. What was appended is safe; may be called twice."""

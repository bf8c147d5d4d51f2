"""Watchers and senders around a run whose process is killed again and again while its replies stream.

An owner streams replies of a chat and is killed with SIGKILL at random moments; the next process resumes
the run. Meanwhile five processes watch it (two of them leave and come back all the time), and three send
it lines, some of them twice, some of them given up in the middle and sent again. Afterwards:

* each line that was sent is in the journal once, with exactly one disposition, unless it was rejected;
* each watcher saw every fact once, in order, to the end;
* the text a watcher put together of a reply is the reply's, from its beginning on, and agrees with what
  the journal kept of it: one of them is the beginning of the other.

What streamed is known without the journal: a reply's first word says how all of it reads.
"""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import midstream
from midstream.core.events import (
    AgentFailed,
    AgentResponded,
    AnyFact,
    Interrupted,
    ReplyCut,
    RunRecovered,
)
from midstream.core.notices import TextDelta
from midstream.language.names import Policy
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener
from torture.kill_matrix import MEMORY, opened
from torture.report import Broken, Report

WATCHERS: Final = 5
LEAVING: Final = 2
"""So many of them leave and come back."""

SENDERS: Final = 3
HANGS_S: Final = 300.0
"""No step takes that long, on no machine: who does hangs."""

_POLICIES: Final[tuple[Policy | None, ...]] = (None, None, "interrupt", "queue", "steer")
_ENDS: Final = (AgentFailed, AgentResponded, Interrupted, ReplyCut, RunRecovered)
"""The facts at which the text of a reply begins anew."""

_MIXED: Final = 2_654_435_761

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


def words_of(first: str, count: int) -> list[str]:
    """Return the pieces of the reply that begins with this word: no two replies go on alike."""
    number = int(first, 16)
    return [f"{first}/{count}", *(f" {(number * (n + 7) * _MIXED) % 99_991}" for n in range(count))]


class Talker:
    """A model whose replies come slowly, in pieces, and never twice the same."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return the next reply, streamed."""
        pieces = words_of(f"{self._chance.getrandbits(40):x}", self._chance.randint(1, 60))
        pause_s = self._chance.choice((0, 0, 0.002, 0.01))
        for piece in pieces:
            listener.text(piece)
            await asyncio.sleep(pause_s)
        return ModelReply(text="".join(pieces))


# --- the processes ----------------------------------------------------------------------------


class Place:
    """The folder all of them share: the journal, signs (`sign`, `has`), and what each writes down."""

    def __init__(self, folder: Path, database: str = "") -> None:
        self.folder = folder
        self.journal = database or str(folder / "journal.db")
        (folder / "work").mkdir(exist_ok=True)

    def open(self, chance: random.Random) -> Any:
        """Return an engine to be entered."""
        return midstream.open(
            self.folder / "work", model=Talker(chance), journal=self.journal, trust=False
        )

    def sign(self, name: str, text: str = "") -> None:
        """Put up a sign, whole at once."""
        draft = self.folder / f"{name}.draft"
        draft.write_text(text, "utf-8")
        draft.rename(self.folder / name)

    def has(self, name: str) -> bool:
        """Return whether a sign is up."""
        return (self.folder / name).exists()

    @property
    def run(self) -> str:
        """Return the id of the run."""
        return (self.folder / "run").read_text("utf-8")

    def write(self, name: str, entries: Iterable[Any]) -> None:
        """Append to what a process writes down."""
        with open(self.folder / f"{name}.log", "a", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)

    def written(self, name: str) -> list[Any]:
        """Return what a process wrote down."""
        path = self.folder / f"{name}.log"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]


async def until(holds: Callable[[], bool]) -> None:
    """Return once something holds that nobody tells of."""
    while not holds():  # noqa: ASYNC110 - other processes put up signs
        await asyncio.sleep(0.01)


async def taken_up(engine: midstream.Engine, run: str) -> midstream.RunHandle:
    """Go on with a run, once a server has seen the end of the process that was killed."""
    while True:
        try:
            return await engine.resume(run)
        except midstream.RunOwned:
            await asyncio.sleep(0.005)


async def own(place: Place, chance: random.Random, life: int) -> None:
    """Start or resume the run and stream until the kill; in the last life end it when all is said."""
    async with place.open(chance) as engine:
        if place.has("run"):
            run = await taken_up(engine, place.run)
        else:
            run = await engine.start("role:dude")
            place.sign("run", run.id)
        place.sign(f"owned-{life}")
        await until(lambda: place.has("said"))
        await until(lambda: all(each.disposition for each in run.run.inbox.lines.values()))
        await run.settled()
        await run.stop("all is said")


async def watch(place: Place, chance: random.Random, number: int) -> None:
    """Write down each fact's number, and before the fact that ends a reply what was seen of it."""
    last, is_leaving = 0, number < LEAVING
    async with place.open(chance) as engine:
        run = await engine.get(place.run)
        while True:
            texts: dict[tuple[str, str], str] = {}
            stays_for = chance.randint(1, 60) if is_leaving else sys.maxsize
            async for envelope in run.numbered(last):
                event = envelope.event
                if isinstance(event, TextDelta):
                    key = (event.branch, event.agent)
                    texts[key] = texts.get(key, "") + event.text
                if envelope.seq is not None:
                    seen = [["text", key[1], text] for key, text in texts.items()]
                    ends = isinstance(event, _ENDS)
                    place.write(
                        f"watcher-{number}",
                        [*(seen if ends else []), ["fact", envelope.seq]],
                    )
                    last = envelope.seq
                    if ends:
                        texts.clear()
                stays_for -= 1
                if stays_for < 0:
                    break
            if run.run.is_over and stays_for >= 0:
                return
            if is_leaving:
                await run.close()
                run = await engine.get(place.run)


async def send(place: Place, chance: random.Random, number: int) -> None:
    """Send lines until told that it is enough; write down what became of each."""
    async with place.open(chance) as engine:
        run = await engine.get(place.run)
        count = 0
        while not place.has("enough"):
            count += 1
            id = f"s{number}-{count}"
            policy = chance.choice(_POLICIES)
            place.write(f"sender-{number}", [["tried", id]])
            if chance.random() < 0.2:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(chance.random() * 0.02):
                        await run.say(f"line {id}", policy=policy, id=id)
            times = 2 if chance.random() < 0.2 else 1
            said = (run.say(f"line {id}", policy=policy, id=id) for _ in range(times))
            receipts = await asyncio.gather(*said)
            handlings = sorted({receipt.handling for receipt in receipts})
            place.write(f"sender-{number}", [["said", id, handlings]])
            await asyncio.sleep(chance.random() * 0.4)


class Children:
    """The processes of one torture, by their names."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._pids: dict[str, int] = {}

    def begin(self, name: str, work: Work) -> None:
        """Begin a process. What it raises is written down as a trouble."""
        pid = os.fork()
        if pid:
            self._pids[name] = pid
            return
        try:
            asyncio.run(work())
        except BaseException:
            self._place.write("troubles", [[name, traceback.format_exc()]])
        finally:
            os._exit(0)

    def living(self, kind: str = "") -> list[str]:
        """Return those that have not ended whose name begins so."""
        for name, pid in tuple(self._pids.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._pids[name]
        return [name for name in self._pids if name.startswith(kind)]

    def kill(self, kind: str = "") -> None:
        """Kill those that have not ended whose name begins so."""
        for name in self.living(kind):
            pid = self._pids.pop(name)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


# --- all of it ----------------------------------------------------------------------------------


def watched_kills(count: int, seed: int, *, database: str = "") -> Report:
    """Return what broke for senders and watchers while the owner was killed so many times.

    `database`: the address of the journal, "": it is a file.
    """
    place = Place(Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.exists() else None)), database)
    children = Children(place)
    try:
        wrong = [f"{name} hangs" for name in _played(place, children, count, seed)]
        wrong += [f"{name} raised:\n{what}" for name, what in place.written("troubles")]
        found, note = asyncio.run(_judged(place)) if place.has("run") else ([], "")
    finally:
        children.kill()
        shutil.rmtree(place.folder)
    where = " --journal postgresql" if database else ""
    again = f"python -m torture watchers --kills {count} --seed {seed}{where}"
    broken = tuple(
        Broken(point=f"watched {n}", what=what, again=again)
        for n, what in enumerate((*wrong, *found), start=1)
    )
    return Report(name="watched kills", tried=max(count, len(broken)), broken=broken, note=note)


def _played(place: Place, children: Children, count: int, seed: int) -> list[str]:
    """Let everyone do his part until the run has ended; return the processes that hang."""
    chance = random.Random(seed)

    def luck(name: str) -> random.Random:
        return random.Random(f"{seed}/{name}")

    for life in range(count + 1):
        owner = f"owner {life}"
        children.begin(owner, partial(own, place, luck(owner), life))
        # One in ten dies while it takes the run up. The first one lives until there is a run.
        is_early = life > 0 and chance.random() < 0.1
        if not is_early and not _soon(partial(_is_owned, place, children, life)):
            return [owner]
        if life == 0:
            for number in range(WATCHERS):
                name = f"watcher {number}"
                children.begin(name, partial(watch, place, luck(name), number))
            for number in range(SENDERS):
                name = f"sender {number}"
                children.begin(name, partial(send, place, luck(name), number))
        if life < count:
            time.sleep(chance.random() * 0.7)
            children.kill(owner)
    place.sign("enough")
    if not _soon(lambda: not children.living("sender")):
        return children.living("sender")
    place.sign("said")
    if not _soon(lambda: not children.living()):
        return children.living()
    return []


def _is_owned(place: Place, children: Children, life: int) -> bool:
    """Return whether the owner has the run, or has ended before it had it."""
    return place.has(f"owned-{life}") or not children.living(f"owner {life}")


def _soon(holds: Callable[[], bool]) -> bool:
    """Return once something holds; False: it never does."""
    ends_at = time.monotonic() + HANGS_S
    while time.monotonic() < ends_at:
        if holds():
            return True
        time.sleep(0.005)
    return False


async def _judged(place: Place) -> tuple[list[str], str]:
    """Return what is not as promised, and figures."""
    store = opened(place.journal)
    try:
        facts = [envelope.event for envelope in await store.read(place.run)]
    finally:
        await store.aclose()
    lost, doubled, sent = _lines(place, facts)
    wrong = [f"lost: {id}" for id in lost] + [f"doubled: {id}" for id in doubled]
    texts = whole = 0
    for number in range(WATCHERS):
        seen = place.written(f"watcher-{number}")
        numbers = [entry[1] for entry in seen if entry[0] == "fact"]
        if numbers != list(range(1, len(facts) + 1)):
            wrong.append(f"watcher {number} saw {_odd(numbers, len(facts))}")
        waiting: list[tuple[str, str]] = []
        for entry in seen:
            if entry[0] == "text":
                waiting.append((entry[1], entry[2]))
                continue
            for agent, text in waiting:
                texts += 1
                kept = _kept(facts[entry[1] - 1], agent)
                whole += text == kept
                if not _agree(text, kept):
                    wrong.append(f"watcher {number} before {entry[1]}: {text!r} is not {kept!r}")
            waiting.clear()
    note = (
        f"{WATCHERS} watchers, {sent} lines, {len(lost)} lost, "
        f"{len(doubled)} doubled, {texts} texts, {whole} whole"
    )
    return wrong, note


def _lines(place: Place, facts: list[Any]) -> tuple[list[str], list[str], int]:
    """Return which lines were lost, which counted twice, and how many were sent."""
    received = Counter(f.input_id for f in facts if isinstance(f, midstream.InputReceived))
    disposed = Counter(f.input_id for f in facts if isinstance(f, midstream.InputDisposed))
    lost, doubled, sent = [], [], 0
    for number in range(SENDERS):
        written = place.written(f"sender-{number}")
        said = {entry[1]: entry[2] for entry in written if entry[0] == "said"}
        tried = [entry[1] for entry in written if entry[0] == "tried"]
        sent += len(tried)
        lost += [id for id in tried if said.get(id) != ["reject"] and disposed[id] < 1]
        doubled += [id for id in tried if max(received[id], disposed[id]) > 1]
    return lost, doubled, sent


def _odd(numbers: list[int], count: int) -> str:
    twice = [number for number, times in Counter(numbers).items() if times > 1]
    missing = sorted({*range(1, count + 1)} - {*numbers})
    return f"{len(numbers)} of {count} facts; twice {twice[:5]}, never {missing[:5]}"


def _kept(fact: AnyFact, agent: str) -> str | None:
    """Return what a fact says of the agent's reply it ended; None where nothing was kept of it."""
    match fact:
        case AgentResponded() if fact.agent == agent:
            return fact.text
        case AgentFailed() | Interrupted() | ReplyCut() if fact.agent == agent:
            return fact.partial
        case _:
            return None


def _agree(text: str, kept: str | None) -> bool:
    """Return whether a text is the beginning of its reply, and goes with what the journal has of it."""
    first, _, rest = text.partition("/")
    count = rest.partition(" ")[0]
    if not (count.isdigit() and "".join(words_of(first, int(count))).startswith(text)):
        return False
    return kept is None or text.startswith(kept) or kept.startswith(text)

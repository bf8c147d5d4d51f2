"""What a long run costs, and one among many: taking it up, and a turn of it at its beginning and end.

The floor reads and decodes the same facts, or the row of the same run, with bare `apsw` and `msgspec`.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import process_time

import apsw
import msgspec

from benchmarks.measuring import Figure
from midstream.core.decide.decide import judged
from midstream.core.events import AnyFact, Usage
from midstream.core.inputs import AnyInput, ModelReplied, Start, UserSaid
from midstream.core.notices import Envelope
from midstream.core.pending import pending
from midstream.core.routing import Destination
from midstream.core.run import Run
from midstream.language.plan import chat_definition
from midstream.language.spec import Role
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.open_run import found, keep, opened
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener
from midstream.store.sqlite import SqliteStore
from midstream.testing.fakes import FakeTools, fake_world

TOGETHER = 1_000
MORE = 1_000
"""Facts between two snapshots."""
PIECE = "Once upon a time. "


class Chat:
    """A chat that grows by turns, in memory."""

    def __init__(self, *, workspace: str = "/here") -> None:
        definition = chat_definition("dude", Role(systemMessage="Be brief."), FakeTools().specs())
        self.run = Run(id="long")
        self.facts: list[AnyFact] = []
        self._turns = 0
        self._give(Start(definition=definition, workspace=workspace))

    def turn(self) -> None:
        """Say something and reply."""
        self._turns += 1
        self._give(
            UserSaid(id=f"i{self._turns}", to=Destination(text="and then?"), at=float(self._turns))
        )
        (owed,) = pending(self.run)
        usage = Usage(model="m", input_tokens=10, output_tokens=10)
        told = f"Part {self._turns}. {PIECE * 10}"
        self._give(ModelReplied(key=owed.key, text=told, usage=usage))

    def _give(self, input: AnyInput) -> None:
        story = judged(self.run, input)
        self.facts += story.facts
        self.run = story.run


def turn_costs(turns: int, part: int) -> tuple[float, float, float]:
    """Return the microseconds of CPU of a turn in the heart: the first, middle and last ones."""
    chat, costs = Chat(), []
    for _ in range(turns):
        began = process_time()
        chat.turn()
        costs.append((process_time() - began) * 1e6)
    return along(costs, part)


def along(costs: list[float], part: int) -> tuple[float, float, float]:
    """Return the medians of the first, middle and last costs."""
    middle = (len(costs) - part) // 2
    parts = (costs[:part], costs[middle : middle + part], costs[-part:])
    first, between, last = (sorted(each)[len(each) // 2] for each in parts)
    return first, between, last


class Storyteller:
    """Streams the same reply each time. See the port `Model`."""

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Reply at once."""
        for _ in range(10):
            listener.text(PIECE)
        usage = Usage(model="m", input_tokens=10, output_tokens=10)
        return ModelReply(text=PIECE * 10, usage=usage)


async def engine_costs(turns: int, part: int, path: Path) -> tuple[float, float, float]:
    """Return the same of a turn through the whole engine, its journal on the disk."""
    store = SqliteStore.opened(path)
    engine = LocalEngine(fake_world(Storyteller(), journal=store), store)
    machine = await engine.start(
        chat_definition("dude", Role(systemMessage="Be brief."), FakeTools().specs())
    )
    costs = []
    for _ in range(turns):
        began = process_time()
        await machine.say("and then?")
        await machine.settled()
        costs.append((process_time() - began) * 1e6)
    await engine.close()
    return along(costs, part)


async def take_up(facts: int, path: Path, processes: int) -> Iterator[float]:
    """Return the milliseconds of CPU to open a run without a snapshot, to keep one, and another after
    some more facts, and to take it up with that; and the floor's.
    """
    chat = Chat()
    while len(chat.facts) < facts:
        chat.turn()
    store = SqliteStore.opened(path)
    await told(store, chat, 0)
    began = process_time()
    run = await opened(store, "long")
    without = (process_time() - began) * 1e3
    assert run.seq == len(chat.facts)
    began = process_time()
    await keep(store, run)
    first = (process_time() - began) * 1e3
    while len(chat.facts) < run.seq + MORE:
        chat.turn()
    await told(store, chat, run.seq)
    run = await opened(store, "long", known=run)
    began = process_time()
    await keep(store, run)
    another = (process_time() - began) * 1e3
    await store.aclose()
    with_one = min(fresh(path) for _ in range(processes))
    began = process_time()
    with closing(apsw.Connection(str(path))) as bare:
        for (body,) in bare.execute("select body from facts where run=1 order by seq"):
            msgspec.json.decode(body)
    return iter((without, first, another, with_one, (process_time() - began) * 1e3))


async def told(store: SqliteStore, chat: Chat, after: int) -> None:
    """Keep the facts of a chat after a place."""
    for start in range(after, len(chat.facts), TOGETHER):
        facts = enumerate(chat.facts[start : start + TOGETHER], start + 1)
        block = [Envelope(run="long", at=1.0, event=fact, seq=seq) for seq, fact in facts]
        await store.append("long", start, block)


def fresh(path: Path) -> float:
    """Return what a process of its own measures; it is its first run, as it is for a person."""
    command = [sys.executable, "-m", "benchmarks.programs.taking_up", str(path)]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


async def fill(store: SqliteStore, runs: int, *, workspace: str = "/here") -> None:
    """Keep so many chats that wait for their first words."""
    facts = Chat(workspace=workspace).facts
    for start in range(0, runs, TOGETHER):
        async with asyncio.TaskGroup() as group:
            for number in range(start, min(start + TOGETHER, runs)):
                id = f"r{number}"
                told = enumerate(facts, 1)
                block = [Envelope(run=id, at=1.0, event=fact, seq=seq) for seq, fact in told]
                group.create_task(store.append(id, 0, block))


async def among(runs: int, path: Path) -> float:
    """Return the milliseconds of CPU to open one of many runs."""
    store = SqliteStore.opened(path)
    await fill(store, runs)
    one = f"r{runs // 2}"
    began = process_time()
    await opened(store, (await found(store, one)).id)
    opening = (process_time() - began) * 1e3
    await store.aclose()
    return opening


def measure(is_quick: bool) -> list[Figure]:
    """Return what long runs and many runs cost."""
    rounds, turns, facts, runs = (1, 60, 500, 40) if is_quick else (3, 2_000, 200_000, 10_000)

    def once() -> tuple[float, ...]:
        with tempfile.TemporaryDirectory() as folder:
            long = asyncio.run(take_up(facts, Path(folder) / "long.db", 1 if is_quick else 7))
            many = asyncio.run(among(runs, Path(folder) / "many.db"))
            part = max(turns // 20, 3)
            whole = asyncio.run(engine_costs(turns, part, Path(folder) / "turns.db"))
            return (*turn_costs(turns, part), *whole, *long, many)

    every = [once() for _ in range(rounds)]
    (
        first,
        middle,
        last,
        early,
        between,
        late,
        without,
        kept,
        kept_again,
        with_one,
        bare,
        opening,
    ) = zip(*every, strict=True)
    begin = "a turn at the beginning"
    read = "read and decode the same facts"
    chat = f"the heart's CPU for a turn of a chat of {turns:,}"
    whole = f"all CPU for a turn of a chat of {turns:,}, journaled"
    return [
        Figure(name=f"{chat}, in the middle", unit="µs", values=middle, floor=begin, floors=first),
        Figure(
            name=f"{chat}, at the end", unit="µs", values=last, floor=begin, floors=first, aim=1.5
        ),
        Figure(
            name=f"{whole}, in the middle", unit="µs", values=between, floor=begin, floors=early
        ),
        Figure(
            name=f"{whole}, at the end", unit="µs", values=late, floor=begin, floors=early, aim=1.5
        ),
        Figure(
            name=f"taking up {facts:,} facts without a snapshot, CPU",
            unit="ms",
            values=without,
            floor=read,
            floors=bare,
        ),
        Figure(name=f"keeping a snapshot of {facts:,} facts, CPU", unit="ms", values=kept),
        Figure(
            name=f"keeping another after {MORE:,} more, CPU",
            unit="ms",
            values=kept_again,
            floor="the first snapshot",
            floors=kept,
        ),
        Figure(
            name=f"taking up {facts:,} facts in a fresh process, CPU",
            unit="ms",
            values=with_one,
            aim=50,
            aim_on="value",
        ),
        Figure(name=f"opening one of {runs:,} runs, CPU", unit="ms", values=opening),
    ]


def explain() -> None:
    """Print the turns' costs of longer and longer chats."""
    for turns in (500, 1_000, 2_000, 4_000):
        print(turns, *(f"{cost:.0f} µs" for cost in turn_costs(turns, 50)))

"""From a key to its echo while a request of a long conversation goes out, through a real pty.

The console takes up a chat; a line is sent, and right behind its Enter letters are typed, each as soon
as the one before it stands there. A server in a process of its own replies at once. The floor is the same
with a chat that has just begun.
"""

import asyncio
from pathlib import Path

from benchmarks.echo_latency import Typist
from benchmarks.halt_in_terminal import serving
from benchmarks.long_runs import Chat
from benchmarks.measuring import Figure, percentile
from benchmarks.terminal import Terminal, fresh_home, midstream
from midstream.core.notices import Envelope
from midstream.store.sqlite import SqliteStore

MESSAGES = 2_000
KEYS = 8
"""Letters behind each Enter: the request goes out while the first of them are typed."""


async def prepared(home: Path, messages: int) -> None:
    """Keep a chat of so many messages in the journal of that home."""
    chat = Chat(workspace=str(home))
    for _ in range(max(messages // 2, 1)):
        chat.turn()
    path = home / ".local/state/midstream/journal.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    store = SqliteStore.opened(path)
    told = enumerate(chat.facts, 1)
    await store.append(
        "long", 0, [Envelope(run="long", at=1.0, event=fact, seq=seq) for seq, fact in told]
    )
    await store.aclose()


async def turns(home: Path) -> int:
    """Return how many turns the chat has by now."""
    store = SqliteStore.opened(home / ".local/state/midstream/journal.db")
    (kept,) = await store.lineage("long")
    await store.aclose()
    return kept.summary.turns


def typed(messages: int, times: int) -> list[float]:
    """Return the milliseconds of each key behind so many Enters."""
    with fresh_home() as folder, serving(1_000, tokens=1) as server:
        home, found = Path(folder), list[float]()
        asyncio.run(prepared(home.resolve(), messages))
        with Terminal(midstream(), home, server) as terminal:
            terminal.until_text("›")
            typist = Typist(terminal)
            typist.wait(2)
            # The role of this console has tools the chat was not begun with.
            terminal.type("/resume long old\r")
            typist.wait(2)
            for _ in range(times):
                terminal.type("\r")
                found += [typist.now() for _ in range(KEYS)]
                typist.wait(0.5)
        assert asyncio.run(turns(home)) > max(messages // 2, 1), "another chat was measured"
        return found


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds."""
    times, messages, rounds = (2, 20, 1) if is_quick else (15, MESSAGES, 3)
    both = [(typed(messages, times), typed(0, times)) for _ in range(rounds)]
    return [
        Figure(
            name=f"key to echo as a request of {messages:,} messages goes out, p{percent}",
            unit="ms",
            values=tuple(percentile(long, percent) for long, _ in both),
            floor="the same in a chat that has just begun",
            floors=tuple(percentile(short, percent) for _, short in both),
            aim=30 if percent == 99 else None,
            aim_on="value",
        )
        for percent in (50, 99)
    ]

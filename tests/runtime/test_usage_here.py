"""What the runs of a workspace spent: each request once, whatever was forked, undone or damaged."""

from pathlib import Path

from time_travel_kit import CHAT

from midstream.core.events import AgentResponded, AnyFact, RunStarted, StateTransition, Usage
from midstream.core.notices import Envelope
from midstream.runtime.engine.run_costs import spent_here
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import define

HERE = Path("/here")


async def ran(store: MemoryStore, id: str, *at: float, folder: Path = HERE) -> None:
    """Keep a run that asked its model at these times."""
    facts: list[AnyFact] = [
        RunStarted(workflow="test", definition=define(CHAT), workspace=str(folder)),
        StateTransition(source="", target="start", reason="started"),
    ]
    facts += [
        AgentResponded(agent="ada", text=f"{id} {when}", usage=Usage(model="m", cost_usd="0.5"))
        for when in at
    ]
    times = [min(at), min(at), *at]
    await store.claim(id)
    for seq, (when, fact) in enumerate(zip(times, facts, strict=True), 1):
        await store.append(id, seq - 1, [Envelope(run=id, at=when, event=fact, seq=seq)])
    await store.release(id)


async def test_a_fork_counts_only_what_it_asked_itself() -> None:
    store = MemoryStore()
    await ran(store, "one", 10.0, 20.0)
    seq = await store.fork("one", 3, "two")
    reply = AgentResponded(agent="ada", text="again", usage=Usage(model="m"))
    await store.append("two", seq, [Envelope(run="two", at=30.0, event=reply, seq=seq + 1)])

    found = await spent_here(store, HERE, since=0.0)

    assert sorted((each.run, each.at) for each in found) == [
        ("one", 10.0),
        ("one", 20.0),
        ("two", 30.0),
    ]


async def test_only_this_folder_and_only_since_then_but_for_runs_wanted_whole() -> None:
    store = MemoryStore()
    await ran(store, "old", 10.0)
    await ran(store, "mine", 10.0, 60.0)
    await ran(store, "today", 10.0, 60.0)
    await ran(store, "elsewhere", 60.0, folder=Path("/there"))

    found = await spent_here(store, HERE, since=50.0, whole={"mine"})

    assert sorted((each.run, each.at) for each in found) == [
        ("mine", 10.0),
        ("mine", 60.0),
        ("today", 60.0),
    ]

"""A chat that was compacted: gone back in, copied, continued elsewhere, and told to from elsewhere."""

import pytest
from time_travel_kit import undo
from two_processes import Place, place

from midstream.core.conversation import SUMMARY
from midstream.core.run import Run
from midstream.core.summaries import SUMMARY_STATE
from midstream.language.errors import UserMistake
from midstream.language.plan import chat_definition
from midstream.language.spec import Role
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.open_run import opened
from midstream.runtime.engine.remote import RemoteMachine
from midstream.runtime.engine.time_travel import fork
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import (
    FakeTool,
    FakeTools,
    JumpingClock,
    ScriptedModel,
    call,
    calls,
    fake_world,
)

__all__ = ["place"]

LONG = "word " * 100
CHAT = chat_definition("dude", Role(), {})


async def talked(engine: LocalEngine, *lines: str) -> WorkflowStateMachine:
    """Return a chat in which these lines were said and answered."""
    machine = await engine.start(CHAT)
    await said(machine, *lines)
    return machine


async def said(machine: WorkflowStateMachine, *lines: str) -> None:
    for line in lines:
        await machine.say(line)
        await machine.settled()


def words(run: Run) -> list[str]:
    """Return the beginning of each message, `SUMMARY` for the summary."""
    return [SUMMARY if m.author == SUMMARY else m.text.split(" ")[0] for m in run.contexts["chat"]]


def engine_over(store: MemoryStore, *more: str) -> LocalEngine:
    replies = [*(f"reply-{n} {LONG}" for n in range(1, 5)), *more]
    return LocalEngine(fake_world(ScriptedModel(*replies), journal=store, blobs=store), store)


async def test_going_back_before_a_summary_gives_the_whole_conversation_again() -> None:
    store = MemoryStore()
    engine = engine_over(store, "They talked.")
    machine = await talked(engine, "a", "b", "c", "d")
    whole = words(machine.run)
    before = machine.run.seq
    await machine.compact()
    await machine.settled()
    assert words(machine.run)[0] == SUMMARY

    assert words(await opened(store, (await fork(store, machine.id, before)).id)) == whole
    copy = await opened(store, (await fork(store, machine.id, None)).id)
    assert words(copy) == words(machine.run)
    undone = await opened(store, (await undo(store, machine.id)).id)
    assert words(undone) == whole[:-2]
    await engine.close()


async def test_a_turn_after_a_summary_is_undone_to_the_summary() -> None:
    store = MemoryStore()
    engine = engine_over(store, "They talked.", "More.")
    machine = await talked(engine, "a", "b", "c", "d")
    await machine.compact()
    await machine.settled()
    compact = words(machine.run)
    await said(machine, "e")
    undone = await opened(store, (await undo(store, machine.id)).id)
    assert words(undone) == compact
    await engine.close()


async def test_a_compact_chat_goes_on_in_the_next_process_and_keeps_its_name() -> None:
    store = MemoryStore()
    engine = engine_over(store.beside(), "They talked.")
    machine = await talked(engine, "a", "b", "c", "d")
    await machine.compact()
    await machine.rename("zoo")
    await machine.settled()
    compact = words(machine.run)
    await engine.close()

    own = store.beside()
    world = fake_world(ScriptedModel("More."), journal=own, blobs=own)
    later = LocalEngine(world, own)
    again = await later.resume(machine.id)
    assert (again.run.name, words(again.run)) == ("zoo", compact)
    await said(again, "e")
    assert words(again.run) == [*compact, "e", "More."]
    await later.close()


# --- old results that gave way --------------------------------------------------------------------

READS = FakeTools(FakeTool(name="look", answer="== big.py ==\n" + "x" * 40_000))
READING = chat_definition("dude", Role(), READS.specs())


def reading_engine(store: MemoryStore) -> LocalEngine:
    model = ScriptedModel(calls(call("look")), "One.", "Two.", "Three.", "Four.", "Five.")
    world = fake_world(model, tools=READS, journal=store, blobs=store)
    return LocalEngine(world, store)


def is_whole(run: Run) -> bool:
    """Return whether the old result is there, and not a mark."""
    (result,) = run.contexts["chat"][1].results
    assert bool(result.trimmed) == (len(result.text) < 1_000)
    return not result.trimmed


async def test_results_that_gave_way_are_back_before_that_and_gone_after_it() -> None:
    store = MemoryStore()
    engine = reading_engine(store)
    machine = await engine.start(READING)
    await said(machine, "a", "b", "c")
    before = machine.run.seq
    await machine.compact(room=5_000)
    assert not is_whole(machine.run)
    assert machine.run.compacting is None

    assert is_whole(await opened(store, (await fork(store, machine.id, before)).id))
    copy = await opened(store, (await fork(store, machine.id, None)).id)
    assert [*copy.contexts["chat"]] == [*machine.run.contexts["chat"]]
    await said(machine, "d")
    after = await opened(store, (await undo(store, machine.id)).id)
    assert not is_whole(after)
    assert is_whole(await opened(store, (await undo(store, after.id)).id))
    await engine.close()


async def test_the_next_process_sends_the_same_messages_after_a_trimming() -> None:
    store = MemoryStore()
    engine = reading_engine(store.beside())
    machine = await engine.start(READING)
    await said(machine, "a", "b", "c")
    await machine.compact(room=5_000)
    sent = [*machine.run.contexts["chat"]]
    await engine.close()

    own, model = store.beside(), ScriptedModel("More.")
    later = LocalEngine(fake_world(model, tools=READS, journal=own, blobs=own), own)
    again = await later.resume(machine.id)
    await said(again, "d")
    (request,) = model.requests
    assert [m.results for m in request.messages[:-1]] == [m.results for m in sent]
    assert [m.text for m in request.messages[:-1]] == [m.text for m in sent]
    await later.close()


async def test_too_little_to_trim_and_nothing_to_summarise_is_said() -> None:
    store = MemoryStore()
    engine = reading_engine(store)
    machine = await engine.start(READING)
    await said(machine, "a")
    with pytest.raises(UserMistake, match="nothing is older"):
        await machine.compact(room=5_000)
    await engine.close()


async def test_another_process_has_a_chat_compacted_and_renamed(place: Place) -> None:
    owner = place.open()
    replies = [*(f"reply-{n} {LONG}" for n in range(1, 5)), "They talked."]
    world = fake_world(ScriptedModel(*replies), journal=owner, blobs=owner)
    engine = LocalEngine(world, owner, sockets=place.sockets)
    machine = await talked(engine, "a", "b", "c", "d")
    other = await RemoteMachine.attached(
        place.open(), machine.id, sockets=place.sockets, clock=JumpingClock()
    )
    await other.rename("zoo")
    await other.compact("the messages")
    await other.settled()
    await machine.settled()
    assert machine.run.name == "zoo"
    assert words(machine.run)[0] == SUMMARY
    await other.aclose()
    await engine.close()


async def test_a_model_that_cannot_take_all_of_it_is_shown_the_newer_part() -> None:
    store = MemoryStore()
    sizes: list[int] = []

    class Small:
        """A model that reads fifty thousand characters at most."""

        async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
            """Return a reply, unless the request is too long."""
            if request.state == SUMMARY_STATE:
                sizes.append(len(request.messages[0].text))
                if sizes[-1] > 50_000:
                    raise UserMistake("The conversation is longer than it can read.")
                return ModelReply(text="They talked.")
            return ModelReply(text=f"reply {'word ' * 3_000}")

    engine = LocalEngine(fake_world(Small(), journal=store, blobs=store), store)
    machine = await talked(engine, *"abcdefghijkl")
    await machine.compact()
    await machine.settled()
    assert words(machine.run)[0] == SUMMARY
    assert [size > 50_000 for size in sizes] == [True, True, False]
    await engine.close()


async def test_nobody_compacts_a_chat_that_nobody_runs(place: Place) -> None:
    owner = place.open()
    replies = [f"reply-{n} {LONG}" for n in range(1, 5)]
    world = fake_world(ScriptedModel(*replies), journal=owner, blobs=owner)
    engine = LocalEngine(world, owner, sockets=place.sockets)
    machine = await talked(engine, "a", "b", "c", "d")
    await engine.close()
    other = await RemoteMachine.attached(
        place.open(), machine.id, sockets=place.sockets, clock=JumpingClock()
    )
    with pytest.raises(UserMistake, match="No process runs"):
        await other.compact()
    await other.aclose()

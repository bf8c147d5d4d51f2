"""Words that a hook looks at are kept from the moment they are said, whatever dies meanwhile."""

import asyncio

import pytest
from test_machine_hooks import FakeHooks, nothing, saying
from two_processes import Place, place

from midstream.core import events as e
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.storage import KEPT, Mail, Store
from midstream.testing.fakes import (
    FakeTool,
    FakeTools,
    Gate,
    ScriptedModel,
    call,
    define,
    fake_world,
)

__all__ = ["place"]

FLOW = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [
        {"name": "start", "agent": "dude"},
        {"name": "resume", "agent": "dude", "next": "$interrupted"},
    ],
}


class Life:
    """A process with one engine, whose agent looks at something until it is halted."""

    def __init__(self, store: Store, hooks: FakeHooks, *replies: str) -> None:
        self.look = FakeTool(name="look", effect="read", gate=Gate())
        self.model = ScriptedModel(*(replies or (call("look"), "Ok.", "Done.")))
        tools = FakeTools(self.look)
        world = fake_world(self.model, tools=tools, journal=store, blobs=store, hooks=hooks)
        self.engine = LocalEngine(world, store)
        self.definition = define(FLOW, tools=tools)


async def renamed(life: Life, store: Store, run: str) -> None:
    """Return once a run has taken a message that another process has left for it."""
    taken = asyncio.Event()
    life.engine.listen(
        lambda envelope: taken.set() if isinstance(envelope.event, e.RunRenamed) else None
    )
    await store.post(Mail(id="1", run=run, at=0.0, kind="rename", text="tidied"))
    life.engine.look()
    await taken.wait()


async def test_words_that_a_hook_looked_at_as_the_process_died_are_heard_once_in_the_next(
    place: Place,
) -> None:
    gate, store = Gate(), place.open()
    first = Life(store, FakeHooks(gate, UserPromptSubmit=nothing))
    machine = await first.engine.start(first.definition)
    assert first.look.gate is not None
    await first.look.gate.reached()
    saying_so = asyncio.create_task(machine.say("no, wait", id="words"))
    await gate.reached()
    place.kill(store)

    again, other = FakeHooks(UserPromptSubmit=nothing), place.open()
    later = Life(other, again, "Ok.", "Done.")
    taken_up = await later.engine.resume(machine.id)
    run = await taken_up.wait()

    assert run.inbox.lines["words"].disposition == "interrupted"
    assert run.common_data["resume_input"] == "no, wait"
    assert [told["prompt"] for told in again.told] == ["no, wait"]
    facts = [each.event for each in await other.read(run.id)]
    assert sum(isinstance(fact, e.InputReceived) for fact in facts) == 1
    assert await other.undelivered(run.id) == []
    await later.engine.close()
    saying_so.cancel()
    await asyncio.gather(saying_so, first.engine.close(), return_exceptions=True)


async def test_words_that_a_hook_looks_at_hold_no_message_up_and_are_heard_once(
    place: Place,
) -> None:
    gate, store = Gate(), place.open()
    life = Life(store, FakeHooks(gate, UserPromptSubmit=saying("UserPromptSubmit", added="x")))
    machine = await life.engine.start(life.definition)
    saying_so = asyncio.create_task(machine.say("no, wait", id="words"))
    await gate.reached()
    await renamed(life, store, machine.id)
    assert "words" in {mail.id for mail in await store.undelivered(machine.id)}
    gate.open()
    assert (await saying_so).handling == "interrupt"
    run = await machine.wait()

    assert list(run.inbox.lines) == ["words"]
    assert await store.undelivered(run.id) == []
    await life.engine.close()


async def test_who_looks_right_after_such_words_were_kept_leaves_them_to_whoever_says_them(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, store = Gate(), place.open()
    life = Life(store, FakeHooks(gate, UserPromptSubmit=nothing))
    machine = await life.engine.start(life.definition)
    post, mail = store.post, store.mail
    looked = asyncio.Event()
    posted: list[str] = []

    async def looked_at(each: Mail) -> None:
        await post(each)
        posted.append(each.id)
        if posted == ["words"]:
            looked.clear()
            life.engine.look()
            await looked.wait()

    async def seen(owner: str) -> list[Mail]:
        found = [*await mail(owner)]
        looked.set()
        return found

    monkeypatch.setattr(store, "post", looked_at)
    monkeypatch.setattr(store, "mail", seen)
    saying_so = asyncio.create_task(machine.say("no, wait", id="words"))
    await gate.reached()
    await renamed(life, store, machine.id)
    gate.open()
    await saying_so
    await life.engine.close()

    assert posted == ["words", "1"]


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_words_that_a_hook_looked_at_as_the_program_was_closed_are_kept(
    place: Place, is_cancelled: bool
) -> None:
    gate, store = Gate(), place.open()
    life = Life(store, FakeHooks(gate, UserPromptSubmit=nothing))
    machine = await life.engine.start(life.definition)
    saying_so = asyncio.create_task(machine.say("no, wait", id="words"))
    await gate.reached()
    other = place.open()
    if is_cancelled:
        saying_so.cancel()
        await asyncio.wait((saying_so,))
    await life.engine.close()
    gate.open()
    if not is_cancelled:
        receipt = await saying_so
        assert (receipt.handling, receipt.reason) == ("queue", KEPT)

    assert [mail.text for mail in await other.undelivered(machine.id)] == ["no, wait"]

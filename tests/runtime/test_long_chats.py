"""A turn of a long chat costs what is new in it: counted in calls of functions, never in time."""

import sys
from types import FrameType

from midstream.app.status_line import StatusModel
from midstream.core.costs import costs
from midstream.core.events import Usage
from midstream.language.plan import chat_definition
from midstream.language.spec import Budget, Role
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import FakeTools, fake_world

TURNS = 400
SPAN = 32
"""Turns that are counted together: some do what is put off by others."""


class _Storyteller:
    """Tells the same each time."""

    def __init__(self) -> None:
        self.last: ModelRequest | None = None

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        self.last = request
        usage = Usage(model="m", input_tokens=10, output_tokens=10)
        return ModelReply(text="Once upon a time.", usage=usage)


async def test_a_turn_of_a_chat_calls_no_more_functions_than_one_at_its_beginning() -> None:
    model, outlook, store = _Storyteller(), StatusModel(), MemoryStore()
    engine = LocalEngine(fake_world(model, journal=store), store, limits=Budget(tokens=10**9))
    machine = await engine.start(
        chat_definition("dude", Role(systemMessage="Be brief."), FakeTools().specs())
    )
    turns: list[int] = []

    def count(_frame: FrameType, _event: str, _arg: object) -> None:
        turns[-1] += 1

    for _ in range(TURNS):
        turns.append(0)
        sys.setprofile(count)
        try:
            await machine.say("and then?")
            await machine.settled()
            outlook.cost([machine])
        finally:
            sys.setprofile(None)
    await engine.close()

    assert model.last is not None
    assert len(model.last.messages) == 2 * TURNS - 1
    assert costs(machine.run.usage.requests).total.requests == TURNS
    # The snapshot of the whole comes once in a thousand facts.
    early, late = sorted(turns[SPAN : 2 * SPAN]), sorted(turns[-SPAN:])
    assert sum(late[:-2]) < 1.2 * sum(early[:-2])

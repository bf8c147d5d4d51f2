"""A process dies at any point while pictures are shown: the next one sends the same bytes."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.dialects import DIALECTS, MODELS, body_of, problems_in
from support.pictures import jpeg, png

from midstream.core.codec import decode_run, encode_run
from midstream.core.events import InputReceived, ToolReturned
from midstream.core.fold.apply import apply
from midstream.core.notices import Envelope
from midstream.core.run import Run
from midstream.models.encoded_messages import NOT_KEPT
from midstream.runtime.ports import ModelRequest, World
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.safety.policy import Policy
from midstream.testing.fakes import (
    FakeBlobStore,
    FakeJournal,
    Line,
    ScriptedModel,
    call,
    define,
    fake_world,
    says,
)
from midstream.tools.manager import ToolManager

LOOKING: dict[str, Any] = {
    "start_condition": "on_user_input",
    "input": {"name": "task", "type": "string"},
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}, {"name": "stop"}],
}
LINE = "@shot.png is it like the other one?"


class Fuse:
    """Lets a process die at its n-th point: nothing of it goes on from there."""

    def __init__(self, at: int = 0) -> None:
        self._at = at
        self.passed = 0
        self.died = asyncio.Event()

    async def point(self) -> None:
        """Pass a point, or never return."""
        self.passed += 1
        if self.passed == self._at or self.died.is_set():
            self.died.set()
            await asyncio.Event().wait()


class Kept:
    """What outlives a process: the journal and the blob store."""

    def __init__(self) -> None:
        self.journal = FakeJournal()
        self.blobs = FakeBlobStore()


class Journal:
    """A journal whose process dies around its writes."""

    def __init__(self, kept: Kept, fuse: Fuse) -> None:
        self._kept, self._fuse = kept.journal, fuse

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        await self._fuse.point()
        await self._kept.append(run, expected, facts)
        await self._fuse.point()

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        return await self._kept.read(run, after, upto)


class Blobs:
    """A blob store whose process dies around its writes."""

    def __init__(self, kept: Kept, fuse: Fuse) -> None:
        self._kept, self._fuse = kept.blobs, fuse

    async def put(self, data: bytes) -> str:
        await self._fuse.point()
        key = await self._kept.put(data)
        await self._fuse.point()
        return key

    async def get(self, key: str) -> bytes:
        return await self._kept.get(key)


def reply(request: ModelRequest) -> Line:
    """Look at the other picture first."""
    looked = any(message.results for message in request.messages)
    return says("They are alike.") if looked else call("read_image", path="other.jpg")


def workspace(base: Path) -> Path:
    """A folder with two pictures."""
    (base / "shot.png").write_bytes(png(8, 6))
    (base / "other.jpg").write_bytes(jpeg(8, 6))
    return base


def folded(facts: Sequence[Envelope]) -> Run:
    """The run after its facts, as the next process takes it up: through a snapshot, too."""
    run = Run(id="r")
    for envelope in facts:
        run = apply(run, envelope.event)  # type: ignore[arg-type]  # the journal holds facts alone
    return decode_run(*encode_run(run))


async def life(kept: Kept, folder: Path, fuse: Fuse) -> list[ModelRequest]:
    """Let one process go as far as it comes; return what it asked of the model."""
    policy = Policy(mode="full")
    tools = ToolManager(policy=lambda: policy)
    model = ScriptedModel(*[reply] * 5)
    world: World = fake_world(
        model,
        tools=tools,
        journal=Journal(kept, fuse),
        blobs=Blobs(kept, fuse),
        workspace=folder,
    )
    facts = await kept.journal.read("r")
    definition = define(LOOKING, tools=tools)
    machine = WorkflowStateMachine(definition, world, id="r")

    async def work() -> None:
        if facts:
            await machine.resume(folded(facts), was_cut=True)
        else:
            await machine.start()
        await machine.say(LINE, id="line")
        await machine.wait()

    before = asyncio.all_tasks()
    working, dying = (asyncio.ensure_future(each) for each in (work(), fuse.died.wait()))
    await asyncio.wait({working, dying}, return_when=asyncio.FIRST_COMPLETED)
    if not fuse.died.is_set():
        await working
    left = asyncio.all_tasks() - before
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    return model.requests


def sent(request: ModelRequest) -> list[bytes]:
    """The request as every provider gets it."""
    return [
        msgspec.json.encode(body_of(request, model)) for each in DIALECTS for model in MODELS[each]
    ]


async def test_wherever_a_process_dies_the_same_pictures_are_sent(tmp_path: Path) -> None:
    folder, whole, fuse = workspace(tmp_path), Kept(), Fuse()
    first, last = await life(whole, folder, fuse)
    expected = sent(last)
    assert {*(last.pictures or ())} == {*whole.blobs.kept}
    assert len(whole.blobs.kept) == 2
    for at in range(1, fuse.passed + 1):
        kept = Kept()
        asked = await life(kept, folder, Fuse(at))
        asked += await life(kept, folder, Fuse())
        assert sent(asked[-1]) == expected, f"killed at point {at}"
        assert sent(next(each for each in asked if len(each.messages) == 1)) == sent(first)
        facts = [envelope.event for envelope in await kept.journal.read("r")]
        shown = [
            picture
            for fact in facts
            if isinstance(fact, InputReceived | ToolReturned)
            for picture in fact.pictures
        ]
        assert {picture.key for picture in shown} == {*kept.blobs.kept}
    assert fuse.passed > 8
    assert all(problems_in(last, dialect) == [] for dialect in DIALECTS)


async def test_the_files_may_be_gone_by_then(tmp_path: Path) -> None:
    folder, kept, fuse = workspace(tmp_path), Kept(), Fuse()
    *_, last = await life(kept, folder, fuse)
    expected = sent(last)
    # Killed before its last reply was journaled, in a workspace that has changed since.
    again = Kept()
    await life(again, folder, Fuse(fuse.passed - 1))
    for name in ("shot.png", "other.jpg"):
        (folder / name).write_bytes(png(2, 2))
    *_, anew = await life(again, folder, Fuse())
    assert sent(anew) == expected


@pytest.mark.parametrize("left", [b"", b"#!/bin/sh\n"], ids=["nothing", "something else"])
async def test_of_contents_that_are_gone_the_model_is_told(tmp_path: Path, left: bytes) -> None:
    folder, kept, fuse = workspace(tmp_path), Kept(), Fuse()
    await life(kept, folder, fuse)
    again = Kept()
    await life(again, folder, Fuse(fuse.passed - 1))
    for key in [*again.blobs.kept]:
        if left:
            again.blobs.kept[key] = left
        else:
            del again.blobs.kept[key]
    *_, anew = await life(again, folder, Fuse())
    assert not anew.pictures
    assert all(problems_in(anew, dialect) == [] for dialect in DIALECTS)
    assert all(body.count(NOT_KEPT.encode()) == 2 for body in sent(anew))

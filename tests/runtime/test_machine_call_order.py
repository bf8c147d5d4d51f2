"""A reply with twenty edits and some reads ends as if they had been made one after the other.

The tools are the real ones, on real files. The process dies at each place where something is journaled,
before or after it is kept, and another goes on; a person says truly what became of a call that was cut.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from deadline import DEADLINE_S as DEADLINE_S
from machine_kit import PLAIN, replayed

from midstream.core.conversation import ToolResult
from midstream.core.decide.steering import OUTCOMES
from midstream.core.events import FileWritten, QuestionAsked
from midstream.core.inputs import RequestedCall
from midstream.core.notices import Envelope
from midstream.core.question import DID_NOT_HAPPEN, HAPPENED, Decision, Question
from midstream.core.run import Run
from midstream.language.errors import JournalMoved
from midstream.language.names import Json
from midstream.runtime.ports import ModelReply, ModelRequest, ReplyListener
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.safety.policy import Policy
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import FakeJournal, call, define, fake_world
from midstream.tools.manager import ToolManager

FILES = ("a.txt", "b.txt", "c.txt", "d.txt", "e.txt")
PERSON = {"ask": Policy(mode="ask"), "full": Policy(mode="full")}


def edit(number: int) -> RequestedCall:
    """Return the edit with that number: each counts a file up by one; every sixth does not fit."""
    before = number // len(FILES) if number % 6 != 4 else 99
    edits: list[Json] = [{"old_text": f"count {before}.", "new_text": f"count {before + 1}."}]
    return call("edit_file", path=FILES[number % len(FILES)], edits=edits)


BATCH = (
    *map(edit, range(7)),
    call("read_files", paths=["a.txt"]),
    call("read_files", paths=["b.txt"]),
    *map(edit, range(7, 14)),
    call("write_file", path="d.txt", content="It is count 2.\n"),
    *map(edit, range(14, 20)),
    call("read_files", paths=["d.txt"]),
)


def says_yes(number: int) -> bool:
    return number % 7 != 3


class Ended(NamedTuple):
    """How a call ended, or is to end: completed or not, and what it has to say if it reads."""

    outcome: str
    shows: str = ""


def one_by_one(batch: Sequence[RequestedCall], is_made: Callable[[int], bool]) -> list[Ended]:
    """Return how the calls end that are made, one after the other, the files last."""
    files = dict.fromkeys(FILES, "It is count 0.\n")
    ended = []
    for number, made in enumerate(batch):
        arguments: dict[str, Any] = made.arguments
        if made.name == "read_files":
            ended.append(Ended("completed", files[arguments["paths"][0]]))
            continue
        path = arguments["path"]
        if made.name == "write_file":
            old, new = files[path], arguments["content"]
        else:
            (one,) = arguments["edits"]
            old, new = one["old_text"], one["new_text"]
        if old not in files[path]:
            ended.append(Ended("failed"))
        elif not is_made(number):
            ended.append(Ended("not made"))
        else:
            files[path] = files[path].replace(old, new)
            ended.append(Ended("completed"))
    return [*ended, *(Ended("completed", files[name]) for name in FILES)]


class Batch:
    """A model without a memory: it makes the batch, and is done when it has the results."""

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        is_made = any(message.results for message in request.messages)
        return ModelReply(text="Done." if is_made else "", calls=() if is_made else BATCH)


class Mortal(FakeJournal):
    """A journal whose process dies at its n-th append, before or after it is kept; 0: never."""

    def __init__(self, dies_at: int = 0, *, is_kept: bool = False) -> None:
        super().__init__()
        self.appends = 0
        self._dies_at = dies_at
        self._is_kept = is_kept

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        self.appends += 1
        is_last = self.appends == self._dies_at
        if not is_last or self._is_kept:
            await super().append(run, expected, facts)
        if is_last:
            raise JournalMoved("The process dies here.")


class Lived(NamedTuple):
    """What is left in the end: the run, its results, its facts, how many files hold what."""

    run: Run
    results: tuple[ToolResult, ...]
    facts: list[Envelope]
    files: tuple[str, ...]


async def lived(folder: Path, journal: Mortal, mode: str) -> Lived:
    """Return what comes of the batch in a fresh workspace, however often its process dies."""
    for name in FILES:
        (folder / name).write_text("It is count 0.\n", encoding="utf-8")
    tools = ToolManager(policy=lambda: PERSON[mode])
    world = fake_world(Batch(), tools=tools, journal=journal, blobs=MemoryStore(), workspace=folder)
    definition = define(PLAIN, tools=tools)
    async with asyncio.timeout(DEADLINE_S):
        machine = WorkflowStateMachine(definition, world, id="r")
        await machine.start("tidy")
        await accompany(machine, journal)
        while not machine.run.is_over:
            kept = await journal.read("r")
            if kept:
                machine = WorkflowStateMachine(definition, world, id="r")
                await machine.resume(replayed("r", kept), was_cut=True)
            else:
                machine = WorkflowStateMachine(definition, world, id="r")
                await machine.start("tidy")
            await accompany(machine, journal)
    results = [r for m in machine.run.contexts["talk"] for r in m.results]
    files = tuple((folder / name).read_text(encoding="utf-8") for name in FILES)
    return Lived(machine.run, tuple(results), await journal.read("r"), files)


async def accompany(machine: WorkflowStateMachine, journal: FakeJournal) -> None:
    """Be the person until the run is over, or its process dead."""
    while not (machine.is_closed or machine.run.is_over):
        run = await machine.settled()
        for question in () if machine.is_closed else run.inbox.open_questions:
            if question.kind == "approval":
                number = int(question.call_id.removeprefix("call_")) - 1
                await machine.approve(question.id, Decision(granted=says_yes(number)))
            else:
                assert question.choices == tuple(OUTCOMES)
                truth = await _truth(question, journal)
                await machine.say(truth, question=question.id)


async def _truth(question: Question, journal: FakeJournal) -> str:
    """Return whether the call a question is about has changed its file."""
    facts = [envelope.event for envelope in await journal.read("r")]
    written = [f for f in facts if isinstance(f, FileWritten) and f.call_id == question.call_id]
    if not written:
        return DID_NOT_HAPPEN
    now = Path(written[-1].path).read_bytes()
    is_there = hashlib.sha256(now).hexdigest() == written[-1].after
    return HAPPENED if is_there else DID_NOT_HAPPEN


def agrees(left: Lived) -> None:
    """Fail unless the batch ended as it would have, made one by one without the calls not made."""
    made = [result.outcome not in ("denied", "not_run") for result in left.results]
    *calls, a, b, c, d, e = one_by_one(BATCH, made.__getitem__)
    assert left.files == tuple(file.shows for file in (a, b, c, d, e))
    assert len(left.results) == len(BATCH)
    for result, wanted in zip(left.results, calls, strict=True):
        if wanted.outcome == "not made":
            assert result.outcome in ("denied", "not_run")
        elif result.outcome != "not_run":  # it would have failed, had the process not died in it
            assert result.outcome == wanted.outcome, result
            assert wanted.shows.strip() in result.text
    asked = [e.event for e in left.facts if isinstance(e.event, QuestionAsked)]
    cards = [int(q.call_id.removeprefix("call_")) for q in asked if q.kind == "approval"]
    assert cards == sorted(cards), "cards come in the model's order"


@pytest.mark.parametrize("mode", ["full", "ask"])
async def test_a_batch_of_edits_ends_as_if_made_one_by_one(tmp_path: Path, mode: str) -> None:
    left = await lived(tmp_path, Mortal(), mode)

    agrees(left)
    denied = [n for n, result in enumerate(left.results) if result.outcome == "denied"]
    expected = one_by_one(BATCH, says_yes if mode == "ask" else lambda _: True)
    assert denied == [n for n, ended in enumerate(expected) if ended.outcome == "not made"]
    outcomes = {result.outcome for result in left.results}
    assert outcomes == {"completed", "failed"} | ({"denied"} if mode == "ask" else set())


PLACES = [
    # the mode, what of the last append is kept, and at which of the places the process dies: every n-th
    ("full", "every other", 9),
    ("ask", "every other", 11),
    pytest.param("full", "every other", 1, marks=pytest.mark.slow),
    pytest.param("ask", "always", 1, marks=pytest.mark.slow),
    pytest.param("ask", "never", 1, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("mode", "kept", "every"), PLACES)
async def test_so_it_ends_wherever_the_process_dies(
    tmp_path: Path, mode: str, kept: str, every: int
) -> None:
    whole = Mortal()
    (tmp_path / "whole").mkdir()
    await lived(tmp_path / "whole", whole, mode)
    assert whole.appends > 3 * 20

    for at in range(1, whole.appends + 1, every):
        folder = tmp_path / str(at)
        folder.mkdir()
        is_kept = kept == "always" or (kept == "every other" and at % 2 == 0)
        left = await lived(folder, Mortal(at, is_kept=is_kept), mode)

        agrees(left)
        lost = [result for result in left.results if result.outcome == "not_run"]
        assert len(lost) <= 1, "at most the call the process died in"
        assert replayed("r", left.facts) == left.run

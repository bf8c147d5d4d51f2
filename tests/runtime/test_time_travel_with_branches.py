"""Forks, undo, export and replay of runs within runs: they stand where the whole stood."""

from pathlib import Path
from typing import Any

import pytest
from time_travel_kit import store_engine, undo

from midstream.core.events import BranchFinished, ToolCalled
from midstream.core.run import Run
from midstream.language.errors import UserMistake
from midstream.language.spec import Definition
from midstream.runtime.engine.open_run import opened
from midstream.runtime.engine.run_file import exported, imported
from midstream.runtime.engine.time_travel import fork
from midstream.runtime.ports import ModelRequest, ToolOutcome
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import FakeTool, FakeTools, Gate, Line, ScriptedModel, define, says

TALK: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
}
INNER: dict[str, Any] = {
    **TALK,
    "states": [
        {"name": "start", "ask": "How deep?", "save_as": "how"},
        {"name": "stop", "input": "common_data.how"},
    ],
}
OUTER: dict[str, Any] = {
    **TALK,
    "states": [
        {
            "name": "start",
            "parallel": [
                "say",
                {"name": "two", "states": [{"name": "sub", "workflow": "inner"}]},
                {"name": "make", "states": [{"name": "shell", "tool": "shell"}]},
            ],
            "save_as": "found",
            "next": "each",
        },
        {"name": "say", "agent": "dude", "prompt": "Say."},
        {
            "name": "each",
            "for_each": {
                "items": "variables.items",
                "max_concurrency": 2,
                "states": [{"name": "do", "tool": "shell", "arguments": {"n": "${input}"}}],
            },
            "save_as": "made",
        },
        {"name": "stop", "input": "common_data.found"},
    ],
    "variables": {"items": ["a", "b", "c"]},
}
FOUND = {"say": "Said.", "two": "first", "make": "ok"}


def definition(shell: FakeTools) -> Definition:
    outer, inner = define(OUTER, tools=shell), define(INNER, tools=shell)
    return Definition(
        workflow=outer.workflow, roles=outer.roles, tools=outer.tools, workflows={"inner": inner}
    )


def shells(gate: Gate | None = None) -> FakeTools:
    stopped = ToolOutcome(outcome="stopped", text="stopped softly")
    return FakeTools(FakeTool(name="shell", effect="once", gate=gate, when_stopped=stopped))


def model() -> ScriptedModel:
    def reply(request: ModelRequest) -> Line:
        return "Said."

    return ScriptedModel(reply)


async def answered(machine: Any) -> Run:
    """Return the run at its end, its question answered and doubts about calls called true."""
    while not (await machine.settled()).is_over:
        question = machine.run.inbox.open_questions[0]
        answer = question.choices[0] if question.choices else "first"
        await machine.say(answer, question=question.id)
    run: Run = machine.run
    return run


async def finished(store: MemoryStore) -> Run:
    tools = shells()
    engine = store_engine(store, model(), tools=tools)
    run = await answered(await engine.start(definition(tools)))
    assert (run.status, run.output) == ("finished", FOUND)
    return run


async def test_a_fork_of_every_point_comes_to_the_same_end_and_repeats_no_call() -> None:
    store = MemoryStore()
    source = (await finished(store)).id
    facts = await store.read(source)
    forks: dict[int, str] = {}
    for at in range(1, len(facts) + 1):
        try:
            forked = await fork(store, source, at)
        except UserMistake:
            continue
        if not (await opened(store, forked.id)).is_over:
            forks.setdefault(forked.seq, forked.id)
    for seq, id in forks.items():
        tools = shells()
        run = await answered(await store_engine(store, model(), tools=tools).resume(id))

        assert run.status == "finished", seq
        assert {**run.output, "make": "ok"} == FOUND, seq
        before = [f.event for f in facts[:seq] if isinstance(f.event, ToolCalled)]
        made = [*(event.name for event in before), *(each.name for each in tools.calls)]
        assert made == ["shell"] * 4, seq
        assert await opened(store, id) == run
    assert len(forks) >= 5


async def test_words_for_one_branch_are_undone_alone() -> None:
    store, gate = MemoryStore(), Gate()
    tools = shells()
    script = iter((says("I ", gate=gate), "Shorter."))
    engine = store_engine(store, ScriptedModel(lambda request: next(script)), tools=tools)
    machine = await engine.start(definition(tools))
    await gate.reached()
    await machine.say("@say shorter", unasked=True)
    await machine.settled()
    assert machine.run.visit.branches["say"].status == "finished"

    forked = await undo(store, machine.id)

    was = await opened(store, forked.id)
    assert was.visit.branches["say"].visit.phase == "turn"
    assert [m.text for m in was.visit.branches["say"].contexts["talk"]] == ["Say."]
    assert was.visit.branches["two"].inbox.open_questions == was.inbox.open_questions
    await machine.leave()
    run = await answered(await store_engine(store, model(), tools=shells()).resume(forked.id))
    assert run.output == FOUND


async def test_an_exported_run_is_the_same_elsewhere(tmp_path: Path) -> None:
    here, there = MemoryStore(), MemoryStore()
    run = await finished(here)
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join((await exported(here, run.id, made_by="midstream test")).lines))

    await imported(there, path)

    assert await opened(there, run.id) == run
    ends = [f.event for f in await there.read(run.id) if isinstance(f.event, BranchFinished)]
    assert {fact.branch for fact in ends} >= {"say", "two", "two/inner", "make", "1", "2", "3"}


@pytest.mark.parametrize("answer", ["It happened", "It did not happen"])
async def test_a_call_in_a_branch_cut_by_a_crash_is_made_at_most_once(answer: str) -> None:
    store, gate = MemoryStore(), Gate()
    engine = store_engine(store, model(), tools=shells(gate))
    machine = await engine.start(definition(shells(gate)))
    await gate.reached()
    at = len(await store.read(machine.id))
    forked = await fork(store, machine.id, at)
    tools = shells()
    again = await store_engine(store, model(), tools=tools).resume(forked.id)
    asked = next(q for q in (await again.settled()).inbox.open_questions if q.choices)
    assert asked.branch == "make"
    await again.say(answer, question=asked.id)
    run = await answered(again)

    assert run.status == "finished"
    assert len(tools.calls) == (3 if answer == "It happened" else 4)
    await machine.leave()

"""Killed at every point: a worktree is found again, and what was merged is merged once and told."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from machine_kit import DEADLINE_S
from worktree_kit import CALC, Here, git, own_state, repository

from midstream.core import events as e
from midstream.core.fold.apply import apply
from midstream.core.notices import Envelope
from midstream.core.question import Decision
from midstream.core.run import Run
from midstream.runtime.ports import ModelRequest
from midstream.store.memory import MemoryStore
from midstream.system import worktree
from midstream.testing.fakes import ScriptedModel, call, calls

__all__ = ["own_state"]


class Killed(MemoryStore):
    """A store before or after whose append of that number the process dies: it never returns."""

    def __init__(self, at: int, *, is_kept: bool) -> None:
        super().__init__()
        self.at, self.is_kept, self.count = at, is_kept, 0
        self.is_dead = asyncio.Event()

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        self.count += 1
        is_last = self.count == self.at
        if self.count > self.at or (is_last and not self.is_kept):
            self.is_dead.set()
            await asyncio.Event().wait()
        await super().append(run, expected, facts)
        if is_last:
            self.is_dead.set()
            await asyncio.Event().wait()


def speaks(request: ModelRequest) -> Any:
    texts = [message.text for message in request.messages]
    results = [message for message in request.messages if message.results]
    if "Mend it." in texts:
        mend = call("write_file", path="calc.py", content=CALC.replace("a + b", "b + a"))
        return "Mended." if results else calls(mend, call("write_file", path="b.py", content="b\n"))
    return "Done." if results else call("delegate", role="coder", task="Mend it.", worktree=True)


async def life(work: Path, store: MemoryStore, mode: str, facts: Sequence[Envelope] = ()) -> Here:
    """Begin a run, or go on with one of which there are facts, up to its end or its death."""
    made = Here(work, ScriptedModel(speaks), mode, _CHAT)
    made.store = store
    if facts:
        made.machine = made.made(facts[0].run)
        run = Run(id=facts[0].run)
        for envelope in facts:
            run = apply(run, envelope.event)  # type: ignore[arg-type]
        await made.machine.resume(run, was_cut=True)
    else:
        made.machine = made.made()
        starting = asyncio.create_task(made.machine.start("go"))
    dead = getattr(store, "is_dead", asyncio.Event())
    dying = asyncio.create_task(dead.wait())
    ending = asyncio.create_task(_to_its_end(made))
    await asyncio.wait((dying, ending), return_when=asyncio.FIRST_COMPLETED)
    tasks = [dying, ending, *([] if facts else [starting])]
    if dead.is_set():
        # As if it were gone: nothing of it is told or journaled any more.
        tasks += [
            task for task in (made.machine._task, *made.machine._in_flight._tasks.values()) if task
        ]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return made


async def _to_its_end(made: Here) -> None:
    if made.run.visit.phase == "new":
        await made.told.until("run_started")
    while not (await made.machine.settled()).is_over:
        for asked in made.run.inbox.open_questions:
            await made.machine.approve(asked.id, Decision(granted=True))


_CHAT = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}],
}


@pytest.mark.parametrize("mode", ["auto", "ask"])
@pytest.mark.parametrize("is_kept", [False, True])
async def test_killed_at_any_append_it_is_merged_once_and_told(
    tmp_path: Path, mode: str, is_kept: bool
) -> None:
    at, has_ended = 1, False
    while not has_ended:
        at += 1
        async with asyncio.timeout(DEADLINE_S):
            work = repository(tmp_path / f"work-{at}")
            store = Killed(at, is_kept=is_kept)
            first = await life(work, store, mode)
            has_ended = not store.is_dead.is_set()
            facts = await store.read(first.machine.id)
            ended = first
            if not any(isinstance(fact.event, e.RunFinished) for fact in facts):
                again = MemoryStore()
                await again.append(first.machine.id, 0, facts)
                ended = await life(work, again, mode, facts)
            await _settle(ended, work)


async def _settle(ended: Here, work: Path) -> None:
    facts = [fact.event for fact in await ended.store.read(ended.machine.id)]
    assert isinstance(facts[-1], e.RunFinished), facts[-3:]
    assert (work / "calc.py").read_text() == CALC.replace("a + b", "b + a")
    assert (work / "b.py").read_text() == "b\n"
    told = [f for f in facts if isinstance(f, e.ToolReturned) and f.name == "delegate"]
    assert [f.result for f in told] == ["Mended.\n\nMerged 2 files +2 -1: b.py, calc.py."]
    made = {f.worktree for f in facts if isinstance(f, e.BranchStarted)}
    assert len(made) == 1
    # Where the end itself was the last that was kept, nobody has taken the run up since.
    worktree.put_away(work, ended.machine.id)
    assert (ended.branches(), ended.standing()) == (
        [],
        [],
    )
    assert git(work, "worktree", "list").count("\n") == 1


class Death(BaseException):
    """The process is gone."""


def _dying(monkeypatch: pytest.MonkeyPatch, at: int) -> list[str]:
    """Let the process die right before its git command of that number; return those it gave."""
    given: list[str] = []
    ran = worktree._Git.ran

    def counted(self: Any, *arguments: str, **more: Any) -> tuple[int, bytes]:
        given.append(arguments[0])
        if len(given) == at:
            raise Death
        return ran(self, *arguments, **more)

    monkeypatch.setattr(worktree._Git, "ran", counted)
    return given


def test_killed_between_any_two_commands_it_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, has_died = 0, True
    while has_died:
        at, has_died = at + 1, False
        work = repository(tmp_path / f"work-{at}")
        (work / "new.py").write_text("new\n")
        with monkeypatch.context() as patch:
            _dying(patch, at)
            with contextlib.suppress(Death):
                has_died = True
                worktree.opened(work, f"run{at}", ["coder-1"])
                has_died = False
        path = worktree.opened(work, f"run{at}", ["coder-1"])

        assert path == worktree.opened(work, f"run{at}", ["coder-1"])
        assert sorted(each.name for each in path.iterdir()) == [".git", "calc.py", "new.py"]
        assert git(work, "worktree", "list").count("\n") == 2
        assert git(work, "branch", "--list", "midstream/*").count("\n") == 1
    assert at > 8


def test_killed_between_any_two_commands_it_is_put_away_with_nothing_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, has_died = 0, True
    while has_died:
        at, has_died = at + 1, False
        work = repository(tmp_path / f"work-{at}")
        path = worktree.opened(work, f"away{at}", ["coder-1"])
        (path / "calc.py").write_text("mended\n")
        with monkeypatch.context() as patch:
            _dying(patch, at)
            with contextlib.suppress(Death):
                has_died = True
                worktree.put_away(work, f"away{at}")
                has_died = False
        worktree.put_away(work, f"away{at}")

        assert not path.exists()
        assert git(work, "worktree", "list").count("\n") == 1
        assert git(work, "show", f"midstream/away{at}/coder-1:calc.py") == "mended\n"
    assert at > 8

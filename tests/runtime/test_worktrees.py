"""Agents that work in git worktrees of their own: what they see, what is merged, what is kept."""

from pathlib import Path

from worktree_kit import CALC, git, here, repository

from midstream.core import events as e
from midstream.core.inputs import RequestedCall
from midstream.testing.fakes import call


def hand_on(task: str = "Mend it.") -> RequestedCall:
    return call("delegate", role="coder", task=task, worktree=True)


async def test_what_a_task_changes_in_its_worktree_is_merged_when_it_ends(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    during: list[str] = []

    def look(_request: object) -> str:
        during.append((work / "calc.py").read_text())
        return "Mended."

    edit = call("edit_file", path="calc.py", edits=[{"old_text": "a + b", "new_text": "b + a"}])
    new = call("write_file", path="new/test.py", content="print(1)\n")
    async with here(work, hand_on(), edit, new, look, "Done.") as run:
        await run.machine.start("go")
        await run.machine.wait()

        assert during == [CALC]
        assert (work / "calc.py").read_text() == CALC.replace("a + b", "b + a")
        assert (work / "new/test.py").read_text() == "print(1)\n"
        (told,) = run.results("delegate")
        assert told == "Mended.\n\nMerged 2 files +2 -1: calc.py, new/test.py."
        assert (run.branches(), run.standing()) == ([], [])
        assert git(work, "status", "--porcelain") == " M calc.py\n?? new/\n"
        assert git(work, "worktree", "list").count("\n") == 1
        written = {fact.path for fact in run.told.of(e.FileWritten)}
        assert written == {str(work / "calc.py"), str(work / "new/test.py")}

"""A task in a git worktree, in the real program: one card, one merge, `/diff`, `/undo`; a conflict."""

from pathlib import Path
from typing import Any

from console_kit import chatting
from screen import CTRL_D
from support.openai_server import Body, Call, Reply
from worktree_kit import CALC, git, repository

from midstream.tui.on_screen import FRESH_S

MODEL = ("--model", "openai:gpt-4o-mini")
EDIT = {"path": "calc.py", "edits": [{"old_text": "a + b", "new_text": "b + a"}]}
TASK = {"role": "coder", "task": "Mend it.", "worktree": True}


class Brain:
    """A model that hands a task on; before its last words somebody else may change the file."""

    def __init__(self, work: Path, meanwhile: str = "") -> None:
        self.work, self.meanwhile = work, meanwhile
        self.results: list[str] = []

    def __call__(self, body: Body) -> Reply:
        """Return what is said next."""
        messages: list[dict[str, Any]] = body["messages"]
        results = [str(m["content"]) for m in messages if m["role"] == "tool"]
        if str(messages[1]["content"]).startswith("Mend it."):
            if not results:
                return Reply(calls=(Call(name="edit_file", arguments=EDIT),))
            if self.meanwhile:
                (self.work / "calc.py").write_text(self.meanwhile)
            return Reply(text="Mended it.")
        self.results = results
        return (
            Reply(text="All done.")
            if results
            else Reply(calls=(Call(name="delegate", arguments=TASK),))
        )


def test_one_card_for_the_merge_then_diff_and_undo(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    brain = Brain(work)
    with chatting([brain] * 9, tmp_path, *MODEL, workspace=work) as (screen, _):
        screen.type("mend it\r")
        screen.wait_for("coder ▌ Works in a git worktree, on the branch midstream/")
        screen.wait_for("coder wants to merge 1 file +1 -1 from midstream/")
        screen.wait_for("y once")
        assert (work / "calc.py").read_text() == CALC
        screen.rest(FRESH_S * 2)
        screen.type("y")
        screen.wait_for("coder ▌ Merged 1 file +1 -1: calc.py.")
        screen.wait_for("All done.")
        assert (work / "calc.py").read_text() == CALC.replace("a + b", "b + a")
        screen.type("/diff\r")
        screen.wait_for("  calc.py  +1 -1")
        screen.type("/undo\r")
        screen.wait_for("calc.py put back")
        assert (work / "calc.py").read_text() == CALC
        assert git(work, "branch", "--list", "midstream/*") == ""
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_a_conflict_stands_on_one_line_with_the_branch_that_has_the_work(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    mine = CALC.replace("a + b", "sum((a, b))")
    brain = Brain(work, meanwhile=mine)
    with chatting([brain] * 9, tmp_path, *MODEL, "--permission-mode", "auto", workspace=work) as (
        screen,
        _,
    ):
        screen.type("mend it\r")
        screen.wait_for("coder ▌ 1 conflict in calc.py: kept on midstream/")
        screen.wait_for("All done.")
        assert (work / "calc.py").read_text() == mine
        assert "return b + a" in brain.results[-1]
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0

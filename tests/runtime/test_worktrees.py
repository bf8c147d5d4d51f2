"""Agents that work in git worktrees of their own: what they see, what is merged, what is kept."""

from pathlib import Path

import pytest
from machine_kit import running
from worktree_kit import CALC, ROLES, git, here, own_state, repository

from midstream.core import events as e
from midstream.core.inputs import RequestedCall
from midstream.core.question import Decision
from midstream.language.names import Json
from midstream.runtime.engine.run_files import put_back
from midstream.testing.fakes import Gate, call, calls, says
from midstream.views.side_effects import side_effects

__all__ = ["own_state"]

SWAP = ("a + b", "b + a")


def hand_on(task: str = "Mend it.") -> RequestedCall:
    return call("delegate", role="coder", task=task, worktree=True)


def edit(old: str, new: str, path: str = "calc.py") -> RequestedCall:
    return call("edit_file", path=path, edits=[{"old_text": old, "new_text": new}])


def write(path: str, content: str) -> RequestedCall:
    return call("write_file", path=path, content=content)


async def test_what_a_task_changes_in_its_worktree_is_merged_when_it_ends(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    during: list[str] = []

    def look(_request: object) -> str:
        during.append((work / "calc.py").read_text())
        return "Mended."

    new = write("new/test.py", "print(1)\n")
    async with here(work, hand_on(), edit(*SWAP), new, look, "Done.") as run:
        await run.machine.start("go")
        await run.machine.wait()

        assert during == [CALC]
        assert (work / "calc.py").read_text() == CALC.replace(*SWAP)
        assert (work / "new/test.py").read_text() == "print(1)\n"
        (told,) = run.results("delegate")
        assert told == "Mended.\n\nMerged 2 files +2 -1: calc.py, new/test.py."
        assert (run.branches(), run.standing()) == ([], [])
        assert git(work, "status", "--porcelain") == " M calc.py\n?? new/\n"
        assert git(work, "worktree", "list").count("\n") == 1
        written = {fact.path for fact in run.told.of(e.FileWritten)}
        assert written == {str(work / "calc.py"), str(work / "new/test.py")}


async def test_it_sees_what_is_there_uncommitted_and_leaves_the_index_as_it_is(
    tmp_path: Path,
) -> None:
    work = repository(tmp_path / "work")
    (work / ".gitignore").write_text("*.log\n")
    (work / "staged.py").write_text("one\n")
    git(work, "add", "staged.py")
    (work / "staged.py").write_text("two\n")
    (work / "new.py").write_text("new\n")
    (work / "noise.log").write_text("noise\n")
    (work / "calc.py").write_text(CALC.replace(*SWAP))
    before = git(work, "status", "--porcelain=v2")
    read = call("read_files", paths=["staged.py", "new.py", "calc.py"])
    listing = call("list_directory", path=".")
    script = (hand_on(), read, listing, write("own.py", "own\n"), "Read.", "Done.")
    async with here(work, *script) as run:
        await run.machine.start("go")
        await run.machine.wait()

        (seen,) = run.results("read_files")
        assert all(text in seen for text in ("two", "new", "b + a"))
        assert "noise.log" not in run.results("list_directory")[0]
        assert git(work, "status", "--porcelain=v2") == before.replace(
            "? new.py\n", "? new.py\n? own.py\n"
        )
        assert git(work, "show", ":staged.py") == "one\n"


async def test_what_the_person_changed_meanwhile_is_merged_and_not_replaced(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")

    def meanwhile(_request: object) -> str:
        (work / "calc.py").write_text(CALC.replace("a - b", "-b + a"))
        return "Mended."

    async with here(work, hand_on(), edit(*SWAP), meanwhile, "Done.") as run:
        await run.machine.start("go")
        await run.machine.wait()

        both = CALC.replace(*SWAP).replace("a - b", "-b + a")
        assert (work / "calc.py").read_text() == both
        assert "Merged 1 file +1 -1: calc.py." in run.results("delegate")[0]


async def test_a_conflict_leaves_the_file_and_tells_both_sides_and_keeps_the_branch(
    tmp_path: Path,
) -> None:
    work = repository(tmp_path / "work")

    def meanwhile(_request: object) -> str:
        (work / "calc.py").write_text(CALC.replace("a + b", "sum((a, b))"))
        return "Mended."

    script = (hand_on(), edit(*SWAP), write("new.py", "new\n"), meanwhile, "Done.")
    async with here(work, *script) as run:
        await run.machine.start("go")
        await run.machine.wait()

        assert (work / "calc.py").read_text() == CALC.replace("a + b", "sum((a, b))")
        assert (work / "new.py").read_text() == "new\n"
        (told,) = run.results("delegate")
        (kept,) = run.branches()
        head = f"1 conflict in calc.py: kept on {kept}.\nMerged 1 file +1 -0: new.py.\n"
        assert told.startswith(f"Mended.\n\n{head}")
        assert "    return sum((a, b))\n=======\n    return b + a\n>>>>>>>" in told
        assert told.endswith(f"kept on the git branch {kept}.")
        assert git(work, "show", f"{kept}:calc.py") == CALC.replace(*SWAP)
        assert run.standing() == []


async def test_files_that_one_side_removed_are_removed_or_a_conflict(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    for name in ("gone.py", "changed.py"):
        (work / name).write_text("x\n")
    remove = call("execute_terminal", command="rm gone.py changed.py")

    def meanwhile(_request: object) -> str:
        (work / "changed.py").write_text("y\n")
        return "Removed."

    async with here(work, hand_on(), remove, meanwhile, "Done.") as run:
        await run.machine.start("go")
        await run.machine.settled()
        if not run.run.is_over:  # no sandbox here: a person is asked about the command
            await run.machine.approve(run.run.inbox.open_questions[0].id, Decision(granted=True))
        await run.machine.wait()

        assert not (work / "gone.py").exists()
        assert (work / "changed.py").read_text() == "y\n"
        assert "1 conflict in changed.py: kept on" in run.results("delegate")[0]


async def test_undo_takes_a_merge_back(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    script = (hand_on(), edit(*SWAP), write("new/a.py", "new\n"), "Mended.", "Done.")
    async with here(work, *script) as run:
        await run.machine.start("go")
        await run.machine.wait()
        files = side_effects([told for told in run.told.events if told.seq], after=0).files
        await put_back(run.store, files, work)

        assert (work / "calc.py").read_text() == CALC
        assert not (work / "new").exists()


async def test_two_tasks_at_once_change_the_same_file(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    gate = Gate()

    def speaks(request: object) -> object:
        texts = [message.text for message in request.messages]  # type: ignore[attr-defined]
        results = [m for m in request.messages if m.results]  # type: ignore[attr-defined]
        if "One." in texts:
            return says("First.", gate=gate) if results else edit(*SWAP)
        if "Two." in texts:
            gate.open()
            return "Second." if results else edit("a - b", "-b + a")
        return "Done." if results else calls(hand_on("One."), hand_on("Two."))

    async with here(work, speaks) as run:  # type: ignore[arg-type]
        await run.machine.start("go")
        await run.machine.wait()

        both = CALC.replace(*SWAP).replace("a - b", "-b + a")
        assert (work / "calc.py").read_text() == both
        assert sorted(told.partition("\n")[0] for told in run.results("delegate")) == [
            "First.",
            "Second.",
        ]
        assert (run.branches(), run.standing()) == ([], [])


# --- who is asked -----------------------------------------------------------------------------------


async def test_a_person_is_asked_once_for_the_whole_merge(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    script = (hand_on(), edit(*SWAP), write("new.py", "new\n"), "Mended.", "Done.")
    async with here(work, *script, mode="ask") as run:
        await run.machine.start("go")
        await run.machine.settled()
        (asked,) = run.run.inbox.open_questions
        assert "+    return b + a" in asked.text
        assert "+++ new.py" in asked.text
        assert (work / "calc.py").read_text() == CALC
        await run.machine.approve(asked.id, Decision(granted=True))
        await run.machine.wait()

        assert (work / "calc.py").read_text() == CALC.replace(*SWAP)
        assert len(run.told.of(e.QuestionAsked)) == 1


async def test_what_has_changed_since_the_card_was_shown_is_shown_again(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    async with here(work, hand_on(), edit(*SWAP), "Mended.", "Done.", mode="ask") as run:
        await run.machine.start("go")
        await run.machine.settled()
        (first,) = run.run.inbox.open_questions
        (work / "calc.py").write_text(CALC.replace("a - b", "-b + a"))
        await run.machine.approve(first.id, Decision(granted=True))
        await run.machine.settled()
        (second,) = run.run.inbox.open_questions
        assert second.id != first.id
        await run.machine.approve(second.id, Decision(granted=True))
        await run.machine.wait()

        both = CALC.replace(*SWAP).replace("a - b", "-b + a")
        assert (work / "calc.py").read_text() == both


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_merge_that_is_refused_is_kept_and_told(tmp_path: Path, is_there: bool) -> None:
    work = repository(tmp_path / "work")
    async with here(work, hand_on(), edit(*SWAP), "Mended.", "Done.", mode="ask") as run:
        await run.machine.start("go", approvals="ask" if is_there else "deny")
        await run.machine.settled()
        for asked in run.run.inbox.open_questions:
            await run.machine.approve(asked.id, Decision(granted=False))
        await run.machine.wait()

        assert (work / "calc.py").read_text() == CALC
        (kept,) = run.branches()
        assert run.results("delegate")[0].endswith(f"kept on the git branch {kept}.")
        assert git(work, "show", f"{kept}:calc.py") == CALC.replace(*SWAP)


async def test_files_that_agents_and_editors_obey_are_asked_about_in_the_worktree_and_after(
    tmp_path: Path,
) -> None:
    work = repository(tmp_path / "work")
    script = (hand_on(), write("AGENTS.md", "Obey.\n"), "Written.", "Done.")
    async with here(work, *script) as run:
        await run.machine.start("go")
        for _ in range(2):
            await run.machine.settled()
            (asked,) = run.run.inbox.open_questions
            assert "write_protected: AGENTS.md" in asked.asks
            await run.machine.approve(asked.id, Decision(granted=True))
        await run.machine.wait()

        assert (work / "AGENTS.md").read_text() == "Obey.\n"


# --- where there can be none ------------------------------------------------------------------------


def _no_repository(work: Path) -> None:
    work.mkdir()


def _no_commit(work: Path) -> None:
    work.mkdir()
    git(work, "init", "-q")


def _bare(work: Path) -> None:
    work.mkdir()
    git(work, "init", "-q", "--bare")


def _merging(work: Path) -> None:
    repository(work)
    (work / ".git/MERGE_HEAD").write_text(git(work, "rev-parse", "HEAD"))


def _rebasing(work: Path) -> None:
    repository(work)
    (work / ".git/rebase-merge").mkdir()


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (_no_repository, "there is no git repository in"),
        (_no_commit, "the repository has no commit yet"),
        (_bare, "this is a bare repository"),
        (_merging, "a merge is under way"),
        (_rebasing, "a rebase is under way"),
    ],
)
async def test_where_there_can_be_no_worktree_the_call_says_why_and_what_to_do(
    tmp_path: Path, made: object, why: str
) -> None:
    work = tmp_path / "work"
    made(work)  # type: ignore[operator]
    async with here(work, hand_on(), "Done.") as run:
        await run.machine.start("go")
        await run.machine.wait()

        (told,) = [fact for fact in run.told.of(e.ToolReturned) if fact.name == "delegate"]
        assert told.outcome == "failed"
        assert f"No git worktree can be made here: {why}" in told.result
        assert "leave out worktree" in told.result
        assert run.standing() == []


# --- halted, failed, stopped ------------------------------------------------------------------------


async def test_the_work_of_a_task_that_failed_is_kept_on_its_branch(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    async with here(work, hand_on(), edit(*SWAP), ValueError("broken"), "Done.") as run:
        await run.machine.start("go")
        await run.machine.wait()

        (kept,) = run.branches()
        assert f"is kept on the git branch {kept}." in run.results("delegate")[0]
        assert git(work, "show", f"{kept}:calc.py") == CALC.replace(*SWAP)
        assert (work / "calc.py").read_text() == CALC
        assert run.standing() == []


async def test_a_task_that_is_stopped_keeps_its_work_and_one_without_any_leaves_nothing(
    tmp_path: Path,
) -> None:
    work = repository(tmp_path / "work")
    gate = Gate()
    script = (hand_on(), edit(*SWAP), says("Hm.", gate=gate), hand_on(), says("Hm.", gate=gate))
    async with here(work, *script) as run:
        await run.machine.start("go")
        await gate.reached()
        await run.machine.stop()

        (kept,) = run.branches()
        assert git(work, "show", f"{kept}:calc.py") == CALC.replace(*SWAP)
        assert run.standing() == []


async def test_words_to_a_task_halt_it_and_it_goes_on_in_its_worktree(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    gate = Gate()
    script = (
        hand_on(),
        edit(*SWAP),
        says("Hm.", gate=gate),
        write("b.py", "b\n"),
        "Both.",
        "Done.",
    )
    async with here(work, *script) as run:
        await run.machine.start("go")
        await gate.reached()
        await run.machine.say("@coder and b.py")
        await run.machine.wait()

        assert (work / "calc.py").read_text() == CALC.replace(*SWAP)
        assert (work / "b.py").read_text() == "b\n"


# --- branches of a workflow -------------------------------------------------------------------------


def flow(state: dict[str, Json], *more: dict[str, Json]) -> dict[str, Json]:
    return {
        "contexts": [{"name": "talk"}],
        "agents": [{"agent_role": role, "context": "talk"} for role in ROLES],
        "states": [{"name": "start", **state}, *more],
    }


def branch(name: str) -> dict[str, Json]:
    states = [{"name": "work", "agent": "coder", "prompt": f"Be {name}."}]
    return {"name": name, "worktree": True, "states": states}


def by_prompt(**replies: list[object]) -> object:
    """Return a model that gives each branch its own replies, in order."""

    def speaks(request: object) -> object:
        texts = " ".join(message.text for message in request.messages)  # type: ignore[attr-defined]
        name = next((name for name in replies if f"Be {name}." in texts), "else")
        return replies[name].pop(0)

    return speaks


async def test_branches_of_a_workflow_are_merged_one_after_the_other(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    model = by_prompt(
        one=[edit(*SWAP), "First."], two=[edit("a - b", "-b + a"), "Second."], rest=[]
    )
    parallel = flow({"parallel": [branch("one"), branch("two")], "save_as": "common_data.all"})
    async with here(work, model, workflow=parallel) as run:  # type: ignore[arg-type]
        await run.machine.start("go")
        ended = await run.machine.wait()

        assert ended.status == "finished"
        assert ended.common_data["all"] == {"one": "First.", "two": "Second."}
        both = CALC.replace(*SWAP).replace("a - b", "-b + a")
        assert (work / "calc.py").read_text() == both
        assert (run.branches(), run.standing()) == ([], [])


async def test_a_conflict_of_a_branch_is_caught_once_all_have_joined(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    model = by_prompt(
        one=[edit("a + b", "one"), "First."],
        two=[edit("a + b", "two"), "Second."],
        solver=["Solved."],
    )
    start = {
        "parallel": [branch("one"), branch("two")],
        "save_as": "common_data.all",
        "catch": [{"on": ["conflict"], "to": "solve", "save_as": "common_data.trouble"}],
    }
    solve = {"name": "solve", "agent": "dude", "prompt": "Be solver. ${common_data.trouble.error}"}
    async with here(work, model, workflow=flow(start, solve)) as run:  # type: ignore[arg-type]
        await run.machine.start("go")
        ended = await run.machine.wait()

        assert ended.status == "finished"
        assert ended.common_data["all"] == {"one": "First.", "two": "Second."}
        trouble = ended.common_data["trouble"]
        assert trouble["kind"] == "conflict"
        assert "1 conflict in calc.py: kept on" in trouble["error"]
        (kept,) = run.branches()
        assert kept in trouble["error"]
        merged, other = ("one", "two") if "two" in kept else ("two", "one")
        assert (work / "calc.py").read_text() == CALC.replace("a + b", merged)
        assert git(work, "show", f"{kept}:calc.py") == CALC.replace("a + b", other)


async def test_a_conflict_nobody_catches_fails_the_run_and_says_where_the_work_is(
    tmp_path: Path,
) -> None:
    work = repository(tmp_path / "work")
    model = by_prompt(one=[edit("a + b", "one"), "1"], two=[edit("a + b", "two"), "2"])
    parallel = flow({"parallel": [branch("one"), branch("two")]})
    async with here(work, model, workflow=parallel) as run:  # type: ignore[arg-type]
        await run.machine.start("go")
        ended = await run.machine.wait()

        (kept,) = run.branches()
        assert ended.status == "failed"
        assert kept in ended.error


async def test_each_item_has_a_worktree(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    each = {"items": "input", "worktree": True, "states": [{"name": "w", "tool": "write_file"}]}
    each["states"][0]["arguments"] = {"path": "${input}.py", "content": "${input}\n"}  # type: ignore[index]
    async with here(work, workflow=flow({"for_each": each})) as run:
        await run.machine.start(["a", "b", "c"])
        ended = await run.machine.wait()

        assert ended.status == "finished"
        assert [(work / f"{name}.py").read_text() for name in "abc"] == ["a\n", "b\n", "c\n"]
        assert (run.branches(), run.standing()) == ([], [])


async def test_a_worktree_within_a_worktree_is_merged_into_that(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    inner = {"name": "deep", "parallel": [branch("inner")], "next": "stop"}
    outer = {"name": "outer", "worktree": True, "states": [inner]}
    seen: list[bool] = []

    def look(_request: object) -> str:
        seen.append((work / "in.py").exists())
        return "Seen."

    inner["next"] = "after"
    outer["states"] = [inner, {"name": "after", "agent": "dude", "prompt": "Be after."}]
    model = by_prompt(inner=[write("in.py", "in\n"), "In."], after=[look])

    def speaks(request: object) -> object:
        said = model(request)  # type: ignore[operator]
        return said(request) if callable(said) else said

    async with here(work, speaks, workflow=flow({"parallel": [outer]})) as run:  # type: ignore[arg-type]
        await run.machine.start("go")
        ended = await run.machine.wait()

        assert ended.status == "finished"
        assert seen == [False]
        assert (work / "in.py").read_text() == "in\n"
        assert (run.branches(), run.standing()) == ([], [])


# --- where nothing is real --------------------------------------------------------------------------


async def test_among_fakes_a_branch_that_is_to_have_a_worktree_does_without() -> None:
    parallel = flow({"parallel": [branch("one")], "save_as": "common_data.all"})
    async with running(parallel, "First.", input="go") as there:
        ended = await there.machine.wait()

        assert ended.common_data["all"] == {"one": "First."}

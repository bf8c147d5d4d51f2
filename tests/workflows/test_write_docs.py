"""write_docs, played whole: a page for each module, a few at once, none written without a yes."""

from pathlib import Path

import pytest
from playing import Gate, Play, play, small_project

from midstream.core.events import BranchFinished, BranchStarted, Prompted, QuestionAsked
from midstream.core.question import Decision
from midstream.core.run import Run

NAME = "write_docs"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return small_project(tmp_path / "shop")


async def finished(work: Play, **start: object) -> Run:
    await work.machine.start(**start)  # type: ignore[arg-type]
    return await work.machine.wait()


def pages(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.md"))


async def test_each_module_gets_its_page_and_all_of_them_an_overview(workspace: Path) -> None:
    work = await play(NAME, workspace)
    run = await finished(work, allowed=("write_file",))

    assert run.status == "finished", run.error
    assert work.states() == ["start", "pages", "overview", "stop"]
    assert pages(workspace / "docs" / "modules") == [
        *("src/shop/__init__.py.md", "src/shop/cart.py.md", "src/shop/prices.py.md")
    ]
    text = (workspace / "docs" / "modules" / "src" / "shop" / "cart.py.md").read_text()
    assert text.startswith("[offline] # src/shop/cart.py\n\nLines: 29.")
    assert run.common_data["pages"][0] == text
    assert run.output.startswith("[offline] The largest modules of shop")


async def test_so_many_modules_and_that_folder(workspace: Path) -> None:
    work = await play(NAME, workspace)
    variables = {"modules": 1, "folder": "handbook"}
    await finished(work, variables=variables, allowed=("write_file",))

    assert pages(workspace / "handbook") == ["src/shop/cart.py.md"]


async def test_pages_nobody_allows_are_not_written_and_stand_in_the_overview(
    workspace: Path,
) -> None:
    work = await play(NAME, workspace)
    run = await finished(work, approvals="deny")

    assert run.status == "finished"
    assert not (workspace / "docs").exists()
    assert len(run.common_data["pages"]) == 3
    assert all("[offline] # src/shop/" in page for page in run.common_data["pages"])


async def test_a_fourth_page_waits_for_one_of_three_to_be_done(workspace: Path) -> None:
    for name in ("tax", "ship"):
        (workspace / "src" / "shop" / f"{name}.py").write_text("def f():\n    return 1\n")
    work = await play(NAME, workspace)
    await finished(work, approvals="deny")

    kinds = [
        type(e.event) for e in work.events if isinstance(e.event, BranchStarted | BranchFinished)
    ]
    assert kinds[:4] == [BranchStarted] * 3 + [BranchFinished]
    assert kinds.count(BranchStarted) == 5


async def test_words_typed_while_pages_are_written_count_for_all_of_them(workspace: Path) -> None:
    gate = Gate()
    work = await play(NAME, workspace, sleep=gate)

    speaking = work.speaking(gate)
    await work.machine.start(approvals="deny")
    await speaking
    await work.machine.say("For beginners.")
    gate.open()
    run = await work.machine.wait()

    assert run.status == "finished", run.error
    assert work.states() == ["start", "pages", "pages", "overview", "stop"]
    told = [e.event.text for e in work.events if isinstance(e.event, Prompted) and e.event.branch]
    assert sum("The user said meanwhile: For beginners." in text for text in told) == 3


async def test_a_folder_without_modules_has_no_pages(tmp_path: Path) -> None:
    run = await finished(await play(NAME, tmp_path))

    assert run.status == "finished"
    assert run.common_data["pages"] == []


async def test_a_yes_for_the_run_is_for_one_page_and_each_page_is_asked_about(
    workspace: Path,
) -> None:
    for name in ("tax", "ship"):
        (workspace / "src" / "shop" / f"{name}.py").write_text("def f():\n    return 1\n")
    work = await play(NAME, workspace)
    await work.machine.start()
    run = await work.machine.settled()
    assert [question.kind for question in run.inbox.open_questions] == ["approval"] * 3
    while run.inbox.open_questions:
        await work.machine.approve(
            run.inbox.open_questions[0].id, Decision(granted=True, for_run=True)
        )
        run = await work.machine.settled()

    asked = [e.event for e in work.events if isinstance(e.event, QuestionAsked)]
    assert len({event.asks[0] for event in asked}) == 5
    assert len(pages(workspace / "docs")) == 5


async def test_in_auto_all_pages_are_written_and_nobody_is_asked(workspace: Path) -> None:
    run = await finished(work := await play(NAME, workspace, mode="auto"))

    assert run.status == "finished", run.error
    assert len(pages(workspace / "docs")) == 3
    assert not any(isinstance(e.event, QuestionAsked) for e in work.events)

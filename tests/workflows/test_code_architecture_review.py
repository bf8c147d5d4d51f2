"""code_architecture_review, played whole: its figures are measured, and what is typed is heard."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from playing import Gate, Play, answer_to, play, said_by, small_project

from midstream.codemap.code_figures import Measurement, measure
from midstream.core.events import BranchFinished, Interrupted, QuestionAsked, ToolCalled
from midstream.core.notices import TextDelta
from midstream.core.run import Run
from midstream.runtime.ports import ToolOutcome
from midstream.tools.manager import ToolManager

NAME = "code_architecture_review"
SIDES = ["structure", "hot_spots", "tests"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return small_project(tmp_path / "shop")


async def asked(review: Play) -> Run:
    """Return the run once it has asked its question."""
    await review.machine.start()
    return await review.machine.settled()


async def finished(review: Play, answer: str = "complexity") -> Run:
    run = await asked(review)
    await review.machine.say(answer, question=answer_to(run))
    return await review.machine.wait()


def rows(report: str, title: str) -> list[list[str]]:
    """Return the cells of the table under a heading, without its head."""
    section = report.split(f"## {title}", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[2:]]


async def test_it_measures_asks_finds_challenges_and_reports(workspace: Path) -> None:
    review = await play(NAME, workspace)
    run = await finished(review)

    assert run.status == "finished"
    assert review.states() == [*("start", "findings", "challenge", "defence", "report", "stop")]
    assert run.output.startswith(
        "# Architecture review: shop\n\nWhat matters most: **complexity**."
    )
    assert run.output.count("> [offline]") == 5


async def test_every_figure_of_the_report_is_the_measured_one(workspace: Path) -> None:
    figures = measure(workspace)
    report = (await finished(await play(NAME, workspace))).output

    totals = msgspec.to_builtins(figures.totals)
    assert rows(report, "Figures") == [
        [name.replace("_", " "), str(value)] for name, value in totals.items()
    ]
    assert rows(report, "Languages") == [
        [one.name, str(one.files), str(one.lines)] for one in figures.languages
    ]
    assert rows(report, "Where change meets complexity") == [
        [f.path, str(f.changes), str(f.complexity), str(f.score)] for f in figures.ranking
    ]
    assert rows(report, "Most complex functions") == [
        [f.name, f.path, str(f.line), str(f.lines), str(f.complexity)] for f in figures.most_complex
    ]
    assert rows(report, "Largest files") == [
        [f.path, str(f.lines), str(f.functions), str(f.complexity)] for f in figures.largest
    ]
    assert rows(report, "Most imported modules") == [
        [one.module, str(one.by)] for one in figures.imports.most_imported
    ]
    assert rows(report, "Import cycles (1)") == [["shop.cart`, `shop.prices"]]


async def test_the_question_has_choices_and_the_answer_steers_the_findings(
    workspace: Path,
) -> None:
    review = await play(NAME, workspace)
    run = await asked(review)
    (question,) = run.inbox.open_questions
    await review.machine.say("3", question=question.id)
    run = await review.machine.wait()

    assert question.choices == ("complexity", "change", "coupling", "size")
    assert run.common_data["focus"] == "coupling"
    assert run.common_data["spotlight"][0] == "`shop.cart` (importers: 1)"
    assert "- `shop.cart` (importers: 1)" in run.output


async def test_three_architects_speak_at_once_and_none_hears_another(workspace: Path) -> None:
    review = await play(NAME, workspace)
    run = await finished(review)

    told = [e.event for e in review.events if e.event.branch in SIDES]
    first_done = next(n for n, event in enumerate(told) if isinstance(event, BranchFinished))
    speaking = {event.branch for event in told[:first_done] if isinstance(event, TextDelta)}
    assert speaking == set(SIDES)
    assert list(run.common_data["findings"]) == SIDES
    said = said_by(run, "architect")
    assert said == [run.common_data["defence"]], "each branch had a copy of its own"
    for title in ("Structure", "Hot spots", "Tests"):
        assert f"\n## {title}\n\n> [offline] " in run.output


async def test_words_for_one_branch_leave_the_others_at_work(workspace: Path) -> None:
    gate = Gate()

    review = await play(NAME, workspace, sleep=gate)
    run = await asked(review)
    speaking = review.speaking(gate, branch="tests")
    await review.machine.say("size", question=answer_to(run))
    await speaking
    await review.machine.say("@tests Mind the cart.")
    gate.open()
    run = await review.machine.wait()

    assert [e.event.branch for e in review.events if isinstance(e.event, Interrupted)] == ["tests"]
    assert "resume" not in review.states()
    assert run.status == "finished"


@pytest.mark.parametrize("state", ["findings", "challenge", "defence"])
async def test_words_typed_while_an_agent_speaks_lead_back_to_the_findings(
    workspace: Path, state: str
) -> None:
    gate = Gate()
    review = await play(NAME, workspace, sleep=gate)

    run = await asked(review)
    speaking = review.speaking(gate, state=state)
    await review.machine.say("size", question=answer_to(run))
    await speaking
    receipt = await review.machine.say("Look at the\ncart first.")
    gate.open()
    run = await review.machine.wait()

    assert receipt.handling == "interrupt"
    assert run.status == "finished"
    at = review.states().index("resume")
    assert review.states()[at - 1 : at + 2] == [state, "resume", "findings"]
    assert review.states().count("start") == 1
    assert run.common_data["guidance"] == ["Look at the\ncart first."]
    assert "## What you said while it ran\n\n> Look at the\n> cart first.\n" in run.output
    assert "You added: Look at the" in run.output


async def test_words_typed_while_it_measures_wait_and_throw_nothing_away(workspace: Path) -> None:
    gate = Gate()
    gate.close()
    review = await play(NAME, workspace, sleep=gate)
    await review.machine.start()
    receipts = [
        await review.machine.say(words, unasked=True) for words in ("Only the shop.", "And soon.")
    ]
    gate.open()
    run = await review.machine.settled()
    await review.machine.say("size", question=answer_to(run))
    run = await review.machine.wait()

    assert [receipt.handling for receipt in receipts] == ["queue", "queue"]
    assert review.states()[:3] == ["start", "resume", "findings"]
    assert sum(isinstance(e.event, QuestionAsked) for e in review.events) == 1
    assert (
        sum(isinstance(e.event, ToolCalled) for e in review.events if e.event.branch == "measure")
        == 1
    )
    assert "> Only the shop.\n> And soon." in run.output


async def test_an_interruption_keeps_what_is_measured_and_asks_again(workspace: Path) -> None:
    review = await play(NAME, workspace)
    measured = asyncio.ensure_future(
        review.until(lambda e: isinstance(e.event, BranchFinished) and e.event.branch == "measure")
    )
    await asked(review)
    await measured
    await review.machine.say("First this.", policy="interrupt")
    run = await review.machine.settled()
    await review.machine.say("size", question=answer_to(run))
    run = await review.machine.wait()

    assert review.states()[:4] == ["start", "resume", "start", "findings"]
    assert sum(isinstance(e.event, QuestionAsked) for e in review.events) == 2
    assert (
        sum(isinstance(e.event, ToolCalled) for e in review.events if e.event.branch == "measure")
        == 1
    )
    assert "> First this." in run.output


async def test_a_folder_without_files_is_reported(tmp_path: Path) -> None:
    review = await play(NAME, tmp_path)
    run = await finished(review)

    assert review.states() == ["start", "report", "stop"]
    assert "There are no files here to review." in run.output
    assert rows(run.output, "Figures")[0] == ["files", "0"]


async def test_a_measurement_that_fails_fails_the_run_and_says_why(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: ToolManager, *call: object) -> ToolOutcome:
        return ToolOutcome(outcome="failed", text="disk on fire")

    monkeypatch.setattr(ToolManager, "call", broken)
    review = await play(NAME, workspace)
    await review.machine.start()
    run = await review.machine.wait()

    assert run.status == "failed"
    assert "measure_code" in run.error
    assert "disk on fire" in run.error


async def test_numbers_nobody_measured_are_masked_in_an_agents_words(
    workspace: Path,
) -> None:
    lie = "1. It has 98,765 lines, 99% of them bad, see `cart.py:98765` and `98765`.\n2. Over 90k."
    part = {"architect": {"structure": [{"text": lie}]}}
    review = await play(NAME, workspace, also=part)
    run = await finished(review)

    said = run.output.split("## Structure\n\n", 1)[1].split("\n\n## ", 1)[0]
    assert said == (
        "> [offline] 1. It has [?] lines, [?]% of them bad, see `cart.py:98765` and `[?]`.\n"
        "> 2. Over [?]."
    )


async def test_the_tools_own_result_is_what_the_run_keeps(workspace: Path) -> None:
    run = await finished(await play(NAME, workspace))

    assert msgspec.convert(run.common_data["measurement"], Measurement) == measure(workspace)
    assert json.loads(json.dumps(run.common_data)) == run.common_data

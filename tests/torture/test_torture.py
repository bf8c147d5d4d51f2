"""A bounded part of `make torture`, in processes of its own: what is killed is never this one."""

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deadline import PROGRAM_S
from support.postgres import LACKING
from support.store_contracts import told

from midstream.core.events import (
    AnyFact,
    InputDisposed,
    InputReceived,
    QuestionAnswered,
    RunStopped,
    ToolReturned,
)
from midstream.core.run import InputRecord
from midstream.runtime.engine.remote import NOBODY
from torture.histories import Done, wrong_in_history
from torture.machines import wrong_in

PROJECT = Path(__file__).parents[2]


def tortured(*arguments: str) -> str:
    """Return the report of one torture; it has held at every point."""
    done = subprocess.run(
        [sys.executable, "-m", "torture", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_is_lost_or_repeated_wherever_a_process_is_killed() -> None:
    report = tortured("kills", "--points", "60", "--pairs", "12")

    assert "kill points                          60       60        0" in report
    assert "pairs: killed recovering             12       12        0" in report


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_nothing_is_lost_or_repeated_where_the_journal_is_a_database() -> None:
    flows = ("--flow", "question", "--flow", "calls_in_order", "--flow", "halted_branches")
    journal = ("--journal", "postgresql")
    report = tortured("kills", "--points", "8", "--pairs", "3", *flows, *journal)
    watched = tortured("watchers", "--kills", "2", *journal)

    assert "kill points                           8        8        0" in report
    assert "pairs: killed recovering              3        3        0" in report
    assert ", 0 lost, 0 doubled, " in watched


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_each_run_ends_whole_whatever_becomes_of_workers_and_their_database() -> None:
    report = tortured("machines", "--faults", "4", "--runs", "4", "--lines", "8")

    assert "machines at random                    4        4        0" in report


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_nothing_acknowledged_is_lost_when_a_replica_takes_over() -> None:
    options = ("--only", "failover,split", "--faults", "2", "--runs", "3", "--lines", "10")
    report = tortured("machines", *options, "--seed", "2", "--clients", "0")

    assert (
        "machines at random                    2        2        0  1 failover, 1 split" in report
    )


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_who_comes_late_is_refused_and_its_tools_have_ended() -> None:
    assert "late owners                           8        8        0" in tortured(
        "late", "--trials", "4"
    )


def test_the_judge_of_machines_sees_what_is_wrong() -> None:
    heard = InputReceived(input_id="w", text="words", handling="queue", source="user")
    ended = InputDisposed(input_id="w", disposition="interrupted")
    wrote = ToolReturned(call_id="c", name="note", outcome="completed", result="wrote x")

    def judged(*events: AnyFact, late: str = "") -> list[str]:
        return [*wrong_in(told("r", *events), {"w": "words"}, {late}, {"y"})]

    assert judged(heard, ended) == judged(wrote, late="w")[1:] == []
    assert judged(heard, ended, heard) == ["w (words) was heard 2 times"]
    assert judged(heard) == ["w (words) was heard and has no end"]
    assert judged() == ["w (words) is lost"]
    assert judged(heard, ended, wrote) == ["wrote x is not in the ledger"]
    [doubled, *_] = wrong_in([*told("r", heard), *told("r", ended)], {}, set(), set())
    assert doubled == "its facts are not dense"


def test_the_judge_of_histories_sees_what_a_client_was_told_in_vain() -> None:
    def heard(id: str) -> InputReceived:
        return InputReceived(input_id=id, text=id, handling="queue", source="user")

    def done(id: str, **more: Any) -> Done:
        more = {"deed": "say", "outcome": "done", "handling": "queue"} | more
        return Done(id=id, client="c", run="r", **more)

    def judged(*history: Done, events: Sequence[AnyFact] = ()) -> list[str]:
        ids = [event.input_id for event in events if isinstance(event, InputReceived)]
        lines = {id: InputRecord(id=id, text=id, handling="queue") for id in ids}
        return [*wrong_in_history(history, told("r", *events, RunStopped(reason="")), lines)]

    answered = QuestionAnswered(question_id="q", answer="yes")
    both = [heard("a"), heard("b")]
    assert judged(done("a"), done("b"), done("x", outcome="unknown"), events=both) == []
    assert judged(done("b"), done("a"), events=both) == ["a was heard before b"]
    assert judged(done("a"), events=[heard("a"), heard("a")]) == ["a was heard 2 times"]
    assert judged(done("a", outcome="failed"), events=both) == ["a failed and was heard"]
    assert judged(done("a")) == ["a is lost"]
    assert judged(done("a", reason=NOBODY)) == []
    assert judged(done("a", handling="steer"), events=both) == ["a is queue, and was called steer"]
    assert judged(events=[answered, answered]) == ["q was answered 2 times"]
    assert judged(events=[RunStopped(reason="")]) == ["it has ended 2 times"]
    answers = [done(id, deed="answer", question="q", handling="answer") for id in "ab"]
    assert judged(*answers, events=both)[-1] == "q has 2 answers by receipts"


def test_nothing_is_lost_or_seen_twice_where_a_watched_owner_is_killed() -> None:
    report = tortured("watchers", "--kills", "6")

    assert "watched kills                         6        6        0" in report
    assert ", 0 lost, 0 doubled, " in report


@pytest.mark.needs("npm")
def test_editors_lose_nothing_whatever_they_do_and_whenever_the_agent_is_killed() -> None:
    report = tortured("editors", "--conversations", "6")

    assert "editors at random                     6        6        0" in report


def test_what_was_acknowledged_survives_a_power_loss_at_any_write() -> None:
    assert "power loss                          400      400        0" in tortured(
        "power", "--images", "400"
    )


def test_no_flipped_bit_is_used_silently() -> None:
    assert "bit flips                           500      500        0" in tortured(
        "flips", "--flips", "500"
    )


def test_no_path_leads_a_tool_out_of_the_workspace_whatever_swaps_meanwhile() -> None:
    report = tortured("paths", "--trees", "25")

    assert "paths by walk                        25       25        0" in report


def test_no_text_does_anything_to_a_terminal_but_stand_on_it() -> None:
    assert "sanitizer                           600      600        0" in tortured(
        "sanitizer", "--screens", "600"
    )


def test_a_round_of_the_storm_on_safety_holds() -> None:
    report = tortured("safety", "--rounds", "1")

    assert "command lines                      1000     1000        0" in report
    assert "properties                            1        1        0" in report


def test_no_secret_comes_out_wherever_its_text_is_cut() -> None:
    assert "  300      300        0" in tortured("redaction", "--texts", "300")


def test_a_console_keeps_what_is_typed_whatever_keys_output_and_sizes_come() -> None:
    assert "console                               1        1        0" in tortured(
        "console", "--consoles", "1"
    )


def test_a_short_part_of_every_torture_is_done_by_these_tests() -> None:
    source = (PROJECT / "torture" / "__init__.py").read_text(encoding="utf-8")
    table = source.partition("TORTURES: Final = ")[2].partition("\n}\n")[0] + "}"
    tests = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("torture", "language")
        for path in (PROJECT / "tests" / folder).glob("*.py")
    )

    names = set(ast.literal_eval(table))
    assert len(names) >= 8
    assert {name for name in names if f'"{name}", "--' not in tests} == set()


@pytest.mark.parametrize("flow", ["parallel_calls", "input_burst", "halted_branches"])
def test_one_point_can_be_tried_again(flow: str) -> None:
    assert f"kill {flow}:9" in tortured("kills", "--only", f"{flow}:9")

"""Trimming: the largest old results of tools give way to marks, much at once, or nothing does."""

from typing import Any

import msgspec
import pytest
from decide_kit import TOOLS, call, done, go, kinds, of, replayed, replies, says, tell

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.codec import decode_run, encode_run
from midstream.core.conversation import ToolResult
from midstream.core.run import Run
from midstream.core.summaries import tokens_of
from midstream.language.plan import chat_definition
from midstream.language.spec import Definition, Role
from midstream.rehearsal.inputs_from_facts import inputs_of
from midstream.views.context_window import filling_lines, filling_of


def chat() -> Definition:
    return chat_definition("dude", Role(systemMessage="Be kind."), TOOLS)


def talked(*sizes: int, tool: str = "look") -> tuple[Run, list[e.AnyFact]]:
    """Return a chat with a turn, and a call with a result of so many characters in it, for each size."""
    steps: list[Any] = []
    for number, size in enumerate(sizes, 1):
        result = f"== file {number} ==\n" + "x" * size
        steps += [
            says(f"question {number}", id=f"q{number}"),
            replies("", call(tool, n=number)),
            done(f"call_{number}", result),
            replies(f"answer {number}"),
        ]
    return tell(chat(), *steps, input=None)


def results(run: Run) -> list[ToolResult]:
    return [result for message in run.contexts["chat"] for result in message.results]


def trimmed(run: Run) -> list[bool]:
    return [bool(result.trimmed) for result in results(run)]


def frees(tokens: int) -> inputs.Compact:
    return inputs.Compact(room=tokens)


def test_the_largest_old_results_give_way_as_many_as_it_takes() -> None:
    run, _ = talked(8_000, 40_000, 20_000, 90_000, 90_000)
    run, facts = go(run, frees(12_000))

    (fact,) = of(facts, e.ResultsTrimmed)
    assert kinds(facts) == ["results_trimmed"]
    assert (fact.results, fact.room) == (2, 12_000)
    assert trimmed(run) == [False, True, True, False, False]
    assert fact.tokens_before - fact.tokens_after >= 12_000
    assert fact.tokens_after == tokens_of(run.contexts["chat"])
    assert run.compacting is None


def test_the_last_two_turns_stay_whole_however_large() -> None:
    run, _ = talked(2_000, 90_000, 90_000)
    run, facts = go(run, frees(10_000))

    assert kinds(facts) == ["compaction_began"]
    assert trimmed(run) == [False, False, False]


def test_where_old_results_do_not_hold_as_much_a_summary_is_made() -> None:
    run, _ = talked(3_000, 3_000, 3_000, 100, 100)

    assert kinds(go(run, frees(50_000))[1]) == ["compaction_began"]
    assert kinds(go(run, inputs.Compact())[1]) == ["compaction_began"]


def test_short_results_are_left_alone() -> None:
    run, _ = talked(*[600] * 20)

    assert kinds(go(run, frees(1_000))[1]) == ["compaction_began"]


@pytest.mark.parametrize(
    ("tool", "how"),
    [
        ("look", "Call look again to see it as it is now."),
        ("shell", "The user has it in the journal; call shell again only if that does no harm."),
    ],
)
def test_the_mark_says_how_much_is_missing_and_how_it_is_had_again(tool: str, how: str) -> None:
    run, _ = talked(40_000, 10, 10, tool=tool)
    run, _ = go(run, frees(5_000))

    assert results(run)[0] == ToolResult(
        call_id="call_1",
        outcome="completed",
        text=f"== file 1 ==\n[40,001 characters of this result were taken out to make room. {how}]",
        trimmed=40_001,
    )


def test_what_has_given_way_gives_way_once() -> None:
    run, _ = talked(40_000, 10, 10)
    run, _ = go(run, frees(5_000))

    assert kinds(go(run, frees(5_000))[1]) == ["compaction_began"]


def test_the_next_process_a_fork_and_a_replay_have_the_very_same_bytes() -> None:
    run, before = talked(40_000, 30_000, 10, 10)
    run, facts = go(run, frees(15_000))
    told = [*before, *facts]
    recovered, _ = go(replayed(told), inputs.Recovered(was_cut=True))
    head, pages = encode_run(run)

    sent = msgspec.json.encode([*run.contexts["chat"]])
    assert msgspec.json.encode([*recovered.contexts["chat"]]) == sent
    assert msgspec.json.encode([*decode_run(head, pages).contexts["chat"]]) == sent
    # Before the fact everything is there: who goes back to it has it again.
    assert trimmed(replayed(before)) == [False] * 4


def test_a_rehearsal_finds_the_trimming_again() -> None:
    run, before = talked(40_000, 30_000, 30_000, 20_000, 10, 10)
    _, facts = go(run, frees(16_000))
    told = [*before, *facts]

    heard = inputs_of(told, [0.0] * len(told))

    assert heard[-1].input == frees(16_000)
    assert [fact for each in heard for fact in each.facts] == told


def test_nothing_is_trimmed_while_a_summary_is_written() -> None:
    run, _ = talked(40_000, 10, 10)
    run, _ = go(run, inputs.Compact())

    assert go(run, frees(5_000)) == (run, [])


def test_context_says_what_is_no_longer_sent() -> None:
    run, _ = talked(40_000, 10, 10)
    run, _ = go(run, frees(5_000))
    lines = filling_lines(filling_of(run, "dude"), model="m", window=None, width=110)

    assert any("3 results, 1 trimmed by 10k" in line for line in lines)

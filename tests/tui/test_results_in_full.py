"""Results and reasoning: a line each, and in full when asked for."""

import msgspec
import pytest

from midstream.core.events import AgentResponded, AnyFact, Interrupted, ToolCalled, ToolReturned
from midstream.core.notices import Envelope, ThinkingDelta
from midstream.language.names import Outcome
from midstream.tui.event_lines import Block, Words, plain_words
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.output_tail import last_words
from midstream.tui.run_memory import MAX_CHARS, Recent
from midstream.tui.styled_lines import rows, to_plain
from midstream.views.cells import width_of

CALLED = ToolCalled(call_id="c1", name="execute_terminal", arguments={"command": "make"}, agent="a")
RETURNED = ToolReturned(
    call_id="c1", name="execute_terminal", outcome="failed", result="Exit code: 2\n\none\ntwo\n"
)


def plain(blocks: list[Block]) -> str:
    return "".join(
        to_plain(plain_words(block) if isinstance(block, Words) else [block]) for block in blocks
    )


def told(renderer: EventRenderer, *facts: AnyFact, every_s: float = 0.0) -> str:
    found = ""
    for number, fact in enumerate(facts):
        envelope = Envelope(run="r", at=100 + number * every_s, event=fact, seq=number + 1)
        found += plain(renderer.render(envelope))
    return found


def ran(result: str, outcome: Outcome = "completed", *, is_verbose: bool = False) -> list[str]:
    """Return what is told below the line of a command that printed this."""
    renderer = EventRenderer(with_cards=True)
    renderer.manner.is_verbose = is_verbose
    end = ToolReturned(call_id="c1", name="execute_terminal", outcome=outcome, result=result)
    first, *below = told(renderer, CALLED, end).splitlines()
    assert first[2:].startswith("execute_terminal(make)")
    return below


def test_a_call_is_one_line_with_its_end_and_how_long_it_took() -> None:
    call = msgspec.structs.replace(CALLED, name="look")
    end = msgspec.structs.replace(RETURNED, name="look", outcome="completed", result="all\nfine")

    story = told(EventRenderer(with_cards=True), call, end, every_s=3.2)
    assert story == "✓ look(make) · all (+1 more lines) · 3.2 s\n"


def test_below_a_command_stands_the_last_line_it_printed() -> None:
    story = told(
        EventRenderer(with_cards=True),
        CALLED,
        msgspec.structs.replace(
            RETURNED, outcome="completed", result="Exit code: 0\n\n..\n\n2 passed in 0.02s\n \n"
        ),
        every_s=1.3,
    )

    assert story == ("✓ execute_terminal(make) · exit 0 · 4 lines · 1.3 s\n  ┊ 2 passed in 0.02s\n")


def test_below_one_that_failed_stand_up_to_five_lines() -> None:
    lines = "".join(f"{number}\n" for number in range(9))

    assert ran(f"Exit code: 2\n[it ran in a box]\n\n{lines}", "failed") == [
        f"  ┊ {number}" for number in range(4, 9)
    ]
    assert ran("Ended by SIGKILL. Timed out after 3 s: verify it.\n\na\n\nb", "unknown") == [
        "  ┊ a",
        "  ┊ b",
    ]


def test_below_one_that_printed_nothing_and_what_is_no_command_stands_nothing() -> None:
    assert ran("Exit code: 0\n\n(no output)") == []
    assert ran("Exit code: 1\n\n\n \n\x1b[0m\n", "failed") == []
    assert ran("The command could not be started: no room.\n\nHint: look", "failed") == []


def test_a_commands_last_line_is_as_a_terminal_shows_it() -> None:
    assert ran("Exit code: 0\n\n10%\r 50%\r\x1b[32m100%\x1b[0m done\r\n") == ["  ┊ 100% done"]
    assert ran("Exit code: 0\n\n› /exit\x1b[2\x00\u202eJ") == ["  ┊ › /exit[2␀\\u202eJ"]


def test_no_secret_stands_below_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-" + "a1B2c3D4" * 4
    monkeypatch.setenv("OPENAI_API_KEY", secret)

    below = ran(f"Exit code: 0\n\nkey {secret[:9]}x\b{secret[9:]} end")
    assert len(below) == 1
    assert secret not in below[0]
    assert below[0].endswith(" end")


def test_what_verbose_tells_in_full_is_not_told_twice() -> None:
    below = ran("Exit code: 0\n\nyes", is_verbose=True)

    assert below == ["  ┊ Exit code: 0", "  ┊ ", "  ┊ yes"]


def test_much_output_is_told_by_its_end() -> None:
    assert ran(f"Exit code: 0\n\n{'x' * 900_000}\nthe end") == ["  ┊ the end"]


def test_a_commands_last_line_is_cut_to_the_width() -> None:
    end = msgspec.structs.replace(RETURNED, result=f"Exit code: 1\n\n{'日本語 ' * 60}")

    (line,) = last_words(end)
    (row,) = rows(line, 40)
    text = "".join(part for _, part in row)
    assert text.startswith("  ┊ 日本語")
    assert text.endswith("…")
    assert width_of(text) <= 40


def test_the_last_result_can_be_had_in_full() -> None:
    renderer = EventRenderer(with_cards=True)
    told(renderer, CALLED, RETURNED)

    assert plain(renderer.last_in_full()) == (
        "┊ execute_terminal(make) · exit 2 · 2 lines\n  ┊ Exit code: 2\n  ┊ \n  ┊ one\n  ┊ two\n"
    )


def test_asked_again_it_is_the_one_before_then_none_then_the_last() -> None:
    renderer = EventRenderer(with_cards=True)
    renderer.live.hears("r", ThinkingDelta(agent="ada", text="Hm, let me see."))
    told(renderer, AgentResponded(agent="ada", text="Well."), CALLED, RETURNED)

    first = plain(renderer.last_in_full())
    second = plain(renderer.last_in_full())
    assert second == "┊ ada: reasoning  (the one before)\n  ┊ Hm, let me see.\n"
    assert "no earlier" in plain(renderer.last_in_full())
    assert plain(renderer.last_in_full()) == first


def test_what_was_thought_before_a_reply_that_was_cut_is_no_part_of_the_next() -> None:
    renderer = EventRenderer(with_cards=True)
    for thought, end in (
        ("First.", Interrupted(epoch=1, text="no", agent="ada")),
        ("Then.", AgentResponded(agent="ada", text="Well.")),
    ):
        renderer.live.hears("r", ThinkingDelta(agent="ada", text=thought))
        told(renderer, end)
        renderer.live.forget("r", end)

    assert plain(renderer.last_in_full()) == "┊ ada: reasoning\n  ┊ Then.\n"
    assert "┊ First.\n" in plain(renderer.last_in_full())


def test_a_new_result_is_the_last_one_again() -> None:
    renderer = EventRenderer(with_cards=True)
    told(renderer, CALLED, RETURNED)
    renderer.last_in_full()
    told(renderer, CALLED, RETURNED)

    assert "exit 2" in plain(renderer.last_in_full())


def test_what_a_halt_cut_can_be_had_too() -> None:
    renderer = EventRenderer(with_cards=True)
    told(renderer, CALLED, Interrupted(epoch=1, text="no", agent=""), RETURNED)

    assert "  ┊ two\n" in plain(renderer.last_in_full())


def test_verbose_tells_results_and_reasoning_as_they_come() -> None:
    renderer = EventRenderer(with_cards=True)
    renderer.manner.is_verbose = True
    renderer.live.hears("r", ThinkingDelta(agent="ada", text="Hm.\nWell."))

    story = told(renderer, AgentResponded(agent="ada", text="Yes."), CALLED, RETURNED)
    assert story == (
        "┊ ada: reasoning\n  ┊ Hm.\n  ┊ Well.\n▌ ada\nYes.\n"
        "✗ execute_terminal(make) · exit 2 · 2 lines\n"
        "  ┊ Exit code: 2\n  ┊ \n  ┊ one\n  ┊ two\n"
    )


def test_foreign_results_stay_behind_their_bar() -> None:
    renderer = EventRenderer(with_cards=True)
    told(
        renderer,
        CALLED,
        ToolReturned(call_id="c1", name="x", outcome="completed", result="a\n› /exit\x1b[2J"),
    )

    assert "  ┊ › /exit␛[2J\n" in plain(renderer.last_in_full())


def test_little_is_kept_of_much() -> None:
    recent = Recent()
    recent.add("huge", "x" * (MAX_CHARS + 5))
    for number in range(50):
        recent.add(str(number), "x" * 100_000)

    found = []
    while (shown := recent.next()) is not None:
        found.append(shown[0].title)
    assert found[0] == "49"
    assert len(found) == 20


def test_what_is_not_kept_is_counted() -> None:
    recent = Recent()
    recent.add("huge", "x" * (MAX_CHARS + 5))

    shown = recent.next()
    assert shown is not None
    assert shown[0].left_out == 5

"""The live end of a command's output: the last lines as they stand, however the pieces are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.decide.steering import UNKNOWN
from midstream.core.events import AnyFact, Interrupted, ToolCalled, ToolReturned
from midstream.core.notices import Envelope
from midstream.tui.event_lines import Block
from midstream.tui.event_renderer import EventRenderer
from midstream.tui.live_region import LiveText
from midstream.tui.output_tail import MAX_CHARS, MAX_LINES, OutputTail
from midstream.tui.styled_lines import Line, to_plain


def tail(*pieces: str, count: int = 9) -> list[str]:
    found = OutputTail()
    for piece in pieces:
        found.feed(piece)
    return found.last(count)


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("one\ntwo\n\nthree", ["one", "two", "three"]),
        ("0%\r10%\r20%", ["20%"]),
        ("0%\r10%\r", ["10%"]),
        ("windows\r\nlines\r\n", ["windows", "lines"]),
        ("99% done\r\x1b[Kok", ["ok"]),
        ("99% done\x1b[2K\x1b[1Gok", ["ok"]),
        ("\x1b[32mgreen\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x07", ["green link"]),
        ("wait -\b\\\b|", ["wait |"]),
        ("a 1\nb 1\n\x1b[2Aa 2\nb 2\n", ["a 2", "b 2"]),
        ("old\n\x1b[2J\x1b[Hnew", ["new"]),
        ("\x1b(Bplain\x1b7\x1b8", ["plain"]),
    ],
)
def test_lines_are_as_a_terminal_would_leave_them(output: str, lines: list[str]) -> None:
    assert tail(output) == lines


@given(st.lists(st.sampled_from([*"ab\n\r\x08\x1b[](2KA;m\x07\\", "12%", "\x1b[K", "\x1b[1A"])))
def test_where_the_output_is_cut_changes_nothing(parts: list[str]) -> None:
    assert tail(*parts) == tail("".join(parts))


@given(st.text(max_size=300))
def test_no_control_but_what_the_sanitizer_knows_is_needed(text: str) -> None:
    lines = tail(text)

    assert all("\x1b" not in line and "\n" not in line and "\r" not in line for line in lines)


def test_endless_output_keeps_only_its_end() -> None:
    lines = tail(*(f"line {number}\n" for number in range(5_000)), "x" * 10_000, count=10**6)

    assert len(lines) == MAX_LINES
    assert lines[-1] == "x" * MAX_CHARS
    assert lines[-2] == "line 4999"


def test_only_as_many_lines_as_there_is_room_for() -> None:
    assert tail("one\ntwo\nthree\n", count=2) == ["two", "three"]
    assert tail("one\n", count=0) == []


# --- in the live region -------------------------------------------------------------------------


def region(*pieces: str, height: int = 8, width: int = 60) -> list[str]:
    call = ToolCalled(
        call_id="c1", name="execute_terminal", arguments={"command": "make"}, agent="ada"
    )
    live = LiveText()
    for piece in pieces:
        live.outputs.add("r", "c1", piece)
    shown = live.shown([("r", call)], height=height, width=width)
    return ["".join(text for _, text in row) for row in shown]


def test_a_command_that_says_much_has_rows_for_its_last_lines() -> None:
    assert region("one\ntwo\nthr", "ee\n40%\r50%") == [
        "┊ one",
        "┊ two",
        "┊ three",
        "┊ 50%",
        "⋯ execute_terminal(make)",
    ]


def test_a_progress_bar_stands_beside_its_command_as_it_is_now() -> None:
    assert region("building\n10%\r", "20%\r", "30%") == ["⋯ execute_terminal(make) 30%"]


@pytest.mark.parametrize("height", range(1, 8))
@pytest.mark.parametrize("width", [20, 40, 80])
def test_output_never_takes_more_rows_than_there_are(height: int, width: int) -> None:
    rows = region("word \u202e\x9b31m 宽 " * 30 + "\n" + "x\n" * 20, height=height, width=width)

    assert len(rows) <= height
    assert rows[-1].startswith("⋯ ")
    assert all(len(row) <= width for row in rows)
    assert not any("\x9b" in row or "\u202e" in row for row in rows)


# --- what stays of it -----------------------------------------------------------------------------


def halted(
    *outputs: str, branches: tuple[str, ...] = (), result: str = UNKNOWN
) -> tuple[EventRenderer, list[str]]:
    """Return what is told of commands that said something and were then halted together."""
    renderer = EventRenderer(with_cards=True)
    places = branches or ("",) * len(outputs)
    blocks: list[Block] = []

    def tell(event: AnyFact) -> None:
        blocks.extend(renderer.render(Envelope(run="r", at=0.0, event=event, seq=1)))

    for number, (text, place) in enumerate(zip(outputs, places, strict=True)):
        call = f"c{number}"
        arguments = {"command": "make"}
        tell(ToolCalled(call_id=call, name="make", arguments=arguments, agent="ada", branch=place))
        renderer.live.outputs.add("r", call, text)
    tell(Interrupted(epoch=1, text=None, leads_to="hold", agent="ada"))
    for number, place in enumerate(places):
        call = f"c{number}"
        tell(
            ToolReturned(call_id=call, name="make", outcome="unknown", result=result, branch=place)
        )
        renderer.live.outputs.drop_call("r", call)
    blocks += renderer.settle()
    assert all(isinstance(block, Line) for block in blocks)
    return renderer, to_plain(block for block in blocks if isinstance(block, Line)).splitlines()


def test_a_halted_command_leaves_its_last_lines_on_the_screen() -> None:
    _, told = halted("one\ntwo  \n10%\r20%")

    assert told[0].startswith("⏹ interrupted · outcome unknown: make")
    assert told[1:] == ["  ┊ one", "  ┊ two", "  ┊ 20%"]


def test_where_there_is_more_it_says_which_key_shows_it() -> None:
    renderer, told = halted("".join(f"line {number}\n" for number in range(9)))

    assert told[1:] == [*(f"  ┊ line {n}" for n in range(3, 9)), "· Ctrl-O shows its output"]
    assert "line 0\nline 1\n" in str(renderer.last_in_full()[1].text)  # type: ignore[union-attr]


def test_the_result_that_has_the_output_is_shown_as_it_is() -> None:
    result = "Ended by SIGTERM.\n\none\ntwo\n"
    renderer, _ = halted("one\ntwo\n", result=result)

    assert renderer.last_in_full()[1].text == result.rstrip()  # type: ignore[union-attr]


def test_several_halted_commands_share_the_rows() -> None:
    text = "one\ntwo\nthree\nfour\n"
    _, told = halted(text, text, branches=("left", "right"))

    assert told[1:] == [
        *(f"  ┊ left ▌ {word}" for word in ("two", "three", "four")),
        *(f"  ┊ right ▌ {word}" for word in ("two", "three", "four")),
        "· Ctrl-O shows their output",
    ]


def test_a_halted_command_that_said_nothing_leaves_one_line() -> None:
    _, told = halted("")

    assert len(told) == 1

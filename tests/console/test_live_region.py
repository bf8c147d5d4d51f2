"""The live region: the tail of what is on its way."""

from collections.abc import Sequence
from typing import Any

import pytest

from midstream.console.layout import toolkit_text
from midstream.console.lines import width_of
from midstream.console.live import LiveText
from midstream.core.events import ToolCalled
from midstream.core.safety.sanitize import masked
from midstream.core.views.status import Lane


def test_a_running_tool_shows_what_it_says_however_long_its_command_is() -> None:
    call = ToolCalled(
        call_id="c1", name="execute_terminal", arguments={"command": "make " * 40}, agent="ada"
    )
    live = LiveText()
    live.add_progress("run", "c1", "compiling\n120 tests passed\n")

    [row] = live.shown([("run", call)], height=4, width=60)

    text = "".join(part for _, part in row)
    assert text.startswith("⋯ execute_terminal(command=make")
    assert text.endswith("120 tests passed")
    assert len(text) < 60


def test_a_silent_tool_has_the_row_for_its_command() -> None:
    call = ToolCalled(call_id="c1", name="get", arguments={"path": "x" * 40}, agent="ada")

    [row] = LiveText().shown([("run", call)], height=4, width=60)

    assert "".join(part for _, part in row) == f"⋯ get(path={'x' * 40})"


def as_drawn(live: LiveText) -> str:
    """Return the live region as the terminal's output writes it, where nothing suspect passes."""
    rows = live.shown([], height=4, width=40)
    return "".join(masked(fragment[1]) for fragment in toolkit_text(rows))


def test_joined_emoji_show_no_replacement_characters_while_they_stream() -> None:
    live = LiveText()
    for piece in ("family \U0001f469\u200d", "\U0001f467 and \u2764\ufe0f"):
        live.add_words("run", "ada", piece)

    assert as_drawn(live).endswith("family \U0001f469\U0001f467 and \u2764")


def test_an_emoji_whose_other_half_is_still_to_come_shows_no_escape() -> None:
    live = LiveText()
    live.add_words("run", "ada", "family \U0001f469\u200d")

    assert as_drawn(live).endswith("family \U0001f469")


def test_a_joiner_that_hides_in_a_word_is_still_seen_in_the_live_region() -> None:
    live = LiveText()
    live.add_words("run", "ada", "pay\u200dpal now")

    assert as_drawn(live).endswith("pay\\u200dpal now")


# --- branches ---------------------------------------------------------------------------------


def lane(path: str, **fields: Any) -> Lane:
    """Return a branch at work."""
    state = path.rpartition("/")[2]
    found = {"doing": "dude is thinking", "agent": "dude", "state": state}
    return Lane(run="r", path=path, **(found | fields))


def drawn(
    live: LiveText,
    *lanes: Lane,
    calls: Sequence[ToolCalled] = (),
    height: int = 8,
    width: int = 80,
    now: float = 0.0,
) -> list[str]:
    """Return the rows of the region as text."""
    shown = live.shown(
        [("r", call) for call in calls], height=height, width=width, lanes=lanes, now=now
    )
    return ["".join(text for _, text in row) for row in shown]


LEFT, RIGHT = lane("left"), lane("right")


def test_one_branch_streams_and_each_has_a_line() -> None:
    live = LiveText()
    live.add_words("r", "dude", "left words", branch="left")
    live.add_words("r", "dude", "right words", branch="right")
    live.add_words("r", "dude", " go on", branch="left")

    assert drawn(live, LEFT, RIGHT) == [
        "▌ left ▌ dude",
        "▌ left words go on",
        "⋯ left ▌ dude is writing",
        "⋯ right ▌ dude is writing",
    ]


def test_the_next_branch_streams_once_the_first_is_scrollback() -> None:
    live = LiveText()
    live.add_words("r", "dude", "left words", branch="left")
    live.add_words("r", "dude", "right words", branch="right")
    live.drop_agent("r", "dude", branch="left")
    live.add_words("r", "dude", "left again", branch="left")

    assert drawn(live, LEFT, RIGHT)[:2] == ["▌ right ▌ dude", "▌ right words"]
    live.drop_branch("r", "right")
    assert drawn(live, LEFT)[:2] == ["▌ left ▌ dude", "▌ left again"]


def test_a_branchs_line_says_for_how_long_it_does_what_it_does() -> None:
    live = LiveText()
    assert drawn(live, LEFT, now=100.0) == ["⋯ left ▌ dude is thinking"]
    assert drawn(live, LEFT, now=165.5) == ["⋯ left ▌ dude is thinking · 1 min 5 s"]

    using = lane("left", doing="dude is using shell")
    assert drawn(live, using, now=166.0) == ["⋯ left ▌ dude is using shell"]


def test_a_branchs_line_shows_its_tool_and_what_that_says_last() -> None:
    live = LiveText()
    call = ToolCalled(call_id="c1", name="get", arguments={"at": "a"}, agent="dude", branch="left")
    live.add_progress("r", "c1", "10 %\n20 %\n")

    assert drawn(live, LEFT, RIGHT, calls=[call]) == [
        "⋯ left ▌ get(at=a) 20 %",
        "⋯ right ▌ dude is thinking",
    ]


def test_a_branchs_line_says_its_item_and_its_state_where_there_is_room() -> None:
    one = lane("3", about="core.py", state="look", doing="dude is thinking")

    assert drawn(LiveText(), one) == ["⋯ 3 ▌ core.py · look · dude is thinking"]
    assert drawn(LiveText(), one, width=36) == ["⋯ 3 ▌ core.py · dude is thinking"]
    assert drawn(LiveText(), one, width=24) == ["⋯ 3 ▌ dude is thinking"]


def test_what_a_branch_waits_for_is_on_its_line() -> None:
    live = LiveText()
    parked = lane("left", doing="waits for #2", is_parked=True)
    naps = lane("right", doing="nap waits", state="nap", until=0.0)

    found = drawn(live, parked, naps)

    assert found[0] == "? left ▌ waits for #2"
    assert found[1].startswith("⋯ right ▌ nap waits until ")


def test_branches_without_room_are_counted() -> None:
    live = LiveText()
    live.add_words("r", "dude", "words", branch="b0")

    found = drawn(live, *(lane(f"b{number}") for number in range(10)), height=8)

    assert len(found) <= 8
    assert found[0] == "▌ b0 ▌ dude"
    assert found[-1] == "  +7 more at work"


@pytest.mark.parametrize("height", [0, 1, 2, 5])
def test_no_line_of_a_branch_is_wider_than_the_screen(height: int) -> None:
    for width in range(1, 60):
        check_width(width, height)


def check_width(width: int, height: int) -> None:
    live = LiveText()
    live.add_words("r", "dude", "words and words", branch="a/very/long/way")
    lanes = (lane("a/very/long/way", about="an item"), lane("双", doing="宽 宽 宽"), RIGHT)
    live.shown([], height=height, width=width, lanes=lanes, now=0.0)

    found = drawn(live, *lanes, height=height, width=width, now=3600.0)

    assert len(found) <= height
    assert all(width_of(row) <= max(width, 2) for row in found), found

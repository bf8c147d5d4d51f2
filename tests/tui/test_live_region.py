"""The live region: the tail of what is on its way."""

from collections.abc import Sequence
from typing import Any

import pytest

from midstream.core.events import AgentResponded, BranchFinished, ToolCalled
from midstream.core.notices import AgentThinking, TextDelta, ThinkingDelta
from midstream.safety.sanitize import masked
from midstream.tui.layout import toolkit_text
from midstream.tui.live_region import LiveText
from midstream.views.cells import width_of
from midstream.views.lanes import Lane


def test_a_running_tool_shows_what_it_says_however_long_its_command_is() -> None:
    call = ToolCalled(
        call_id="c1", name="execute_terminal", arguments={"command": "make " * 40}, agent="ada"
    )
    live = LiveText()
    live.outputs.add("run", "c1", "compiling\n120 tests passed\n")

    [row] = live.shown([("run", call)], height=4, width=60)

    text = "".join(part for _, part in row)
    assert text.startswith("⋯ execute_terminal(make")
    assert text.endswith("120 tests passed")
    assert len(text) < 60


def test_a_silent_tool_has_the_row_for_its_command() -> None:
    call = ToolCalled(call_id="c1", name="get", arguments={"path": "x" * 40}, agent="ada")

    [row] = LiveText().shown([("run", call)], height=4, width=60)

    assert "".join(part for _, part in row) == f"⋯ get({'x' * 40})"


def as_drawn(live: LiveText) -> str:
    """Return the live region as the terminal's output writes it, where nothing suspect passes."""
    rows = live.shown([], height=4, width=40)
    return "".join(masked(fragment[1]) for fragment in toolkit_text(rows))


def test_joined_emoji_show_no_replacement_characters_while_they_stream() -> None:
    live = LiveText()
    for piece in ("family \U0001f469\u200d", "\U0001f467 and \u2764\ufe0f"):
        live.hears("run", TextDelta(agent="ada", text=piece))

    assert as_drawn(live).endswith("family \U0001f469\U0001f467 and \u2764")


def test_an_emoji_whose_other_half_is_still_to_come_shows_no_escape() -> None:
    live = LiveText()
    live.hears("run", TextDelta(agent="ada", text="family \U0001f469\u200d"))

    assert as_drawn(live).endswith("family \U0001f469")


def test_a_joiner_that_hides_in_a_word_is_still_seen_in_the_live_region() -> None:
    live = LiveText()
    live.hears("run", TextDelta(agent="ada", text="pay\u200dpal now"))

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
    live.hears("r", TextDelta(agent="dude", text="left words", branch="left"))
    live.hears("r", TextDelta(agent="dude", text="right words", branch="right"))
    live.hears("r", TextDelta(agent="dude", text=" go on", branch="left"))

    assert drawn(live, LEFT, RIGHT) == [
        "▌ left ▌ dude",
        "left words go on",
        "⋯ left ▌ dude is writing",
        "⋯ right ▌ dude is writing",
    ]


def test_of_several_branches_the_first_that_spoke_streams_whichever_thought_first() -> None:
    live = LiveText()
    live.hears("r", ThinkingDelta(agent="dude", text="hm", branch="left"))
    live.hears("r", TextDelta(agent="dude", text="right words", branch="right"))
    live.hears("r", TextDelta(agent="dude", text="left words", branch="left"))

    assert drawn(live, LEFT, RIGHT)[:2] == ["▌ right ▌ dude", "right words"]


def test_the_next_branch_streams_once_the_first_is_scrollback() -> None:
    live = LiveText()
    live.hears("r", TextDelta(agent="dude", text="left words", branch="left"))
    live.hears("r", TextDelta(agent="dude", text="right words", branch="right"))
    live.forget("r", AgentResponded(agent="dude", text="", branch="left"))
    live.hears("r", TextDelta(agent="dude", text="left again", branch="left"))

    assert drawn(live, LEFT, RIGHT)[:2] == ["▌ right ▌ dude", "right words"]
    live.forget("r", BranchFinished(branch="right"))
    assert drawn(live, LEFT)[:2] == ["▌ left ▌ dude", "left again"]


def test_a_branchs_line_says_for_how_long_it_does_what_it_does() -> None:
    live = LiveText()
    assert drawn(live, LEFT, now=100.0) == ["⋯ left ▌ dude is thinking"]
    assert drawn(live, LEFT, now=165.5) == ["⋯ left ▌ dude is thinking · 1 min 5 s"]

    using = lane("left", doing="dude is using shell")
    assert drawn(live, using, now=166.0) == ["⋯ left ▌ dude is using shell"]

    # Words that interrupted it have it begin anew, however fast: no frame was drawn in between.
    anew = lane("left", doing="dude is using shell", step=2)
    assert drawn(live, anew, now=176.0) == ["⋯ left ▌ dude is using shell"]
    assert drawn(live, anew, now=178.0) == ["⋯ left ▌ dude is using shell · 2 s"]


def test_a_branchs_line_shows_its_tool_and_what_that_says_last() -> None:
    live = LiveText()
    call = ToolCalled(call_id="c1", name="get", arguments={"at": "a"}, agent="dude", branch="left")
    live.outputs.add("r", "c1", "10 %\n20 %\n")

    assert drawn(live, LEFT, RIGHT, calls=[call]) == [
        "⋯ left ▌ get(a) 20 %",
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
    live.hears("r", TextDelta(agent="dude", text="words", branch="b0"))

    found = drawn(live, *(lane(f"b{number}") for number in range(10)), height=8)

    assert len(found) <= 8
    assert found[0] == "▌ b0 ▌ dude"
    assert found[-1] == "  +7 more at work"


def test_without_room_those_at_work_stand_before_those_who_wait_for_a_person() -> None:
    parked = [lane(f"p{n}", doing=f"waits for #{n}", is_parked=True) for n in range(3)]

    found = drawn(LiveText(), *parked, LEFT, RIGHT, height=4)

    assert [row.split(" ▌")[0] for row in found] == [
        "⋯ left",
        "⋯ right",
        "? p0",
        "  +2 more at work",
    ]


@pytest.mark.parametrize("height", [0, 1, 2, 5])
def test_no_line_of_a_branch_is_wider_than_the_screen(height: int) -> None:
    for width in range(1, 60):
        check_width(width, height)


def check_width(width: int, height: int) -> None:
    live = LiveText()
    live.hears("r", TextDelta(agent="dude", text="words and words", branch="a/very/long/way"))
    lanes = (lane("a/very/long/way", about="an item"), lane("双", doing="宽 宽 宽"), RIGHT)
    live.shown([], height=height, width=width, lanes=lanes, now=0.0)

    found = drawn(live, *lanes, height=height, width=width, now=3600.0)

    assert len(found) <= height
    assert all(width_of(row) <= max(width, 2) for row in found), found


# --- who is at work outside of branches, and other runs ---------------------------------------


OWN = Lane(run="r", path="", state="", doing="dude is thinking", agent="dude")
OTHER = Lane(run="o", path="", state="look", doing="ada is thinking", label="review (ab12)")


def test_an_agent_outside_of_branches_has_a_line_with_time_and_tokens() -> None:
    live = LiveText()
    lane = Lane(run="r", path="", state="", doing="dude is thinking", agent="dude", tokens=1200)

    assert drawn(live, lane, now=5.0) == ["⋯ dude is thinking · 1.2k tokens"]
    assert drawn(live, lane, now=19.0) == ["⋯ dude is thinking · 14 s · 1.2k tokens"]
    assert drawn(live, lane, width=30, now=19.0) == ["⋯ dude is thinking · 14 s"]


def test_tokens_that_stream_are_an_estimate() -> None:
    live = LiveText()
    live.hears("r", TextDelta(agent="dude", text="word " * 200))

    assert drawn(live, OWN)[-1] == "⋯ dude is writing · ~250 tokens"
    live.forget("r", AgentResponded(agent="dude", text=""))
    assert drawn(live, OWN) == ["⋯ dude is thinking"]


def test_a_call_that_is_being_written_is_told_until_it_is_made_or_words_follow_it() -> None:
    live = LiveText()
    live.hears("r", TextDelta(agent="dude", text="I make it."))
    live.hears("r", AgentThinking(agent="dude", state="", calling="write_file"))

    assert drawn(live, OWN)[-1] == "⋯ dude is writing a call of write_file"
    live.hears("r", TextDelta(agent="dude", text="And so on."))
    assert drawn(live, OWN)[-1] == "⋯ dude is writing"
    live.hears("r", AgentThinking(agent="dude", state="", calling="write_file"))
    live.forget("r", AgentResponded(agent="dude", text=""))
    assert drawn(live, OWN) == ["⋯ dude is thinking"]


def test_a_running_tool_is_on_its_agents_line_and_several_have_their_own() -> None:
    live = LiveText()
    calls = [
        ToolCalled(call_id=name, name=name, arguments={}, agent="dude") for name in ("one", "two")
    ]

    assert drawn(live, OWN, calls=calls[:1]) == ["⋯ one()"]
    assert drawn(live, OWN, calls=calls) == ["⋯ one()", "⋯ two()", "⋯ dude is thinking"]


def test_of_other_runs_nothing_streams_and_each_has_a_line() -> None:
    live = LiveText()
    live.hears("o", TextDelta(agent="ada", text="words in the background"))
    live.hears("r", TextDelta(agent="dude", text="words in front"))
    call = ToolCalled(call_id="c", name="look", arguments={}, agent="ada")

    shown = live.shown([("o", call)], height=8, width=80, lanes=(OWN, OTHER), run="r")
    assert ["".join(text for _, text in row) for row in shown] == [
        "▌ dude",
        "words in front",
        "⋯ dude is writing",
        "⋯ review (ab12) ▌ look · look()",
    ]
    # In a chat that has not begun, too: nobody is in front there.
    shown = live.shown([("o", call)], height=8, width=80, lanes=(OTHER,))
    assert not any("background" in text for row in shown for _, text in row)


def test_how_far_a_run_is_stands_above_those_at_work() -> None:
    live = LiveText()
    live.hears("r", TextDelta(agent="dude", text="words"))

    def shown(height: int) -> list[str]:
        found = live.shown(
            [], height=height, width=40, lanes=(OWN,), run="r", progress="review · step 2 of 5"
        )
        return ["".join(text for _, text in row) for row in found]

    assert shown(8) == ["▌ dude", "words", "▶ review · step 2 of 5", "⋯ dude is writing"]
    assert len(shown(3)) == 3
    assert shown(2) == ["▌ words", "⋯ dude is writing"]


@pytest.mark.parametrize("height", range(1, 12))
@pytest.mark.parametrize("width", [10, 40, 80, 200])
def test_the_region_never_grows_beyond_its_height_or_width(height: int, width: int) -> None:
    live = LiveText()
    for name in ("dude", "ada"):
        live.hears("r", TextDelta(agent=name, text="many words 中文 " * 300))
    lanes = [lane(str(number)) for number in range(30)]

    shown = live.shown(
        [], height=height, width=width, lanes=lanes, run="r", progress="far · step 1 of 9"
    )
    assert len(shown) <= height
    assert all(sum(width_of(text) for _, text in row) <= width for row in shown)


@pytest.mark.parametrize(
    ("lanes", "is_told", "named"), [(3, True, 3), (4, False, 4), (10, True, 2)]
)
def test_how_far_a_run_is_takes_no_row_from_who_is_at_work(
    lanes: int, is_told: bool, named: int
) -> None:
    live = LiveText()
    live.hears("r", TextDelta(agent="dude", text="left\nwords\nof\nmany\nlines", branch="1"))

    shown = live.shown(
        [],
        height=8,
        width=80,
        lanes=[lane(str(number)) for number in range(lanes)],
        run="r",
        progress="far · step 1 of 9",
    )
    told = ["".join(text for _, text in row) for row in shown]
    assert ("▶ far · step 1 of 9" in told) is is_told
    assert sum(row.startswith("⋯ ") for row in told) == named

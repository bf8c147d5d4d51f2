"""The live region: the tail of what is on its way."""

from midstream.console.layout import toolkit_text
from midstream.console.live import LiveText
from midstream.console.sanitize import masked
from midstream.core.events import ToolCalled


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

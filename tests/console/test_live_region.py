"""The live region: the tail of what is on its way."""

from midstream.console.live import LiveText
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

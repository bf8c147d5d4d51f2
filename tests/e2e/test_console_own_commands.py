"""`!command` in the real console: floods, controls, input, and commands that will not end."""

from pathlib import Path

import pytest
from console_kit import chatting
from screen import ENTER, ESC, Screen, is_running

from midstream.tui.on_screen import FRESH_S

MODEL = ("--model", "openai:gpt-4o-mini")
HOSTILE = r"""
printf '\033[31mred\033[0m \033[2J\033[H\033]0;evil\007\033[?1049h\033[5Aup\n'
printf 'N\bNA\bAM\bME\bE\n10%%\r100%%\n'
"""


def line_typed(screen: Screen) -> str:
    """The row the cursor stands on."""
    return screen.lines()[screen.cursor()[1]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def test_a_flood_is_cut_and_counted_and_what_is_typed_meanwhile_stays(
    tmp_path: Path, workspace: Path
) -> None:
    with chatting([], tmp_path, *MODEL, workspace=workspace) as (screen, _):
        screen.type("!seq 1 1400000" + ENTER + "typed meanwhile")
        screen.wait_for("[more than 2,000 lines: of the rest only the end is shown]")
        screen.wait_for("output 1,400,000 lines of seq 1 1400000")
        screen.wait_for("┆ 1400000")

        assert line_typed(screen) == "› typed meanwhile"
        assert "┆ 2000" in screen.scrollback()
        assert "┆ 2001" not in screen.scrollback()
        assert "┆ 1399980" not in screen.scrollback()
        assert "┆ 1399981" in screen.scrollback()


def test_what_a_terminal_would_obey_is_shown_and_colours_are_not(
    tmp_path: Path, workspace: Path
) -> None:
    (workspace / "hostile.sh").write_text(HOSTILE)
    with chatting([], tmp_path, *MODEL, workspace=workspace) as (screen, _):
        screen.type("!sh hostile.sh" + ENTER)
        screen.wait_for("output 3 lines")
        screen.wait_for("┆ 100%")
        rows = screen.scrollback()

        assert "┆ red ␛[2J␛[H␛]0;evil␇␛[?1049h␛[5Aup" in rows
        assert [row for row in rows if row in ("┆ NAME", "┆ 100%")] == ["┆ NAME", "┆ 100%"]
        assert b"\x1b]0;evil" not in screen.raw
        assert b"\x1b[?1049h" not in screen.raw


def test_a_command_that_reads_is_given_nothing_and_ends(tmp_path: Path, workspace: Path) -> None:
    with chatting([], tmp_path, *MODEL, workspace=workspace) as (screen, _):
        screen.type("!cat; read x; echo got:[$x]" + ENTER + "mine")
        screen.wait_for("┆ got:[]")
        screen.wait_for("adds it here")

        assert line_typed(screen) == "› mine"


def test_esc_ends_a_command_that_will_not_and_leaves_the_line(
    tmp_path: Path, workspace: Path
) -> None:
    with chatting([], tmp_path, *MODEL, workspace=workspace) as (screen, _):
        screen.type("!trap '' INT TERM; echo at $$; while :; do sleep 0.05; done" + ENTER)
        screen.wait_for("┆ at ")
        pid = int(next(row for row in screen.scrollback() if row.startswith("┆ at ")).split()[-1])
        screen.press("mine" + ESC, quiet_s=FRESH_S + 0.2)
        screen.wait_for("[stopped, ended by SIGKILL]")

        assert line_typed(screen) == "› mine"
        assert not is_running(pid)


def test_what_a_command_left_behind_is_ended_and_said(tmp_path: Path, workspace: Path) -> None:
    with chatting([], tmp_path, *MODEL, workspace=workspace) as (screen, _):
        screen.type("!setsid sleep 1000 >/dev/null 2>&1 & echo left $!" + ENTER)
        screen.wait_for("1 process it had left behind was ended")
        pid = int(next(row for row in screen.scrollback() if row.startswith("┆ left ")).split()[-1])

        assert not is_running(pid)

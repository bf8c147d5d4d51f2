"""Writing in a real pty: mentions, own commands, folded pastes, the editor, vi keys, the history."""

import os
from pathlib import Path

import pytest
from screen import (
    ALT_ENTER,
    BACKSPACE,
    CTRL_C,
    CTRL_D,
    CTRL_J,
    CTRL_R,
    DOWN,
    ENTER,
    ESC,
    TAB,
    UP,
    Screen,
    Spawn,
    editor_line,
    is_running,
)

from midstream.views.key_table import KEYMAP

CTRL_G, CTRL_T, CTRL_Z, ALT_BANG = "\x07", "\x14", "\x1a", "\x1b!"


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_a_question_mark_shows_every_key_whole(spawn: Spawn, cols: int) -> None:
    screen = spawn(cols=cols, rows=40)
    screen.type("?")
    screen.wait_for("!!text")
    screen.settle()

    shown = " ".join(" ".join(screen.scrollback()).split())
    for row in KEYMAP:
        assert " ".join(row.does.replace("`", "").split()) in shown


def test_ctrl_z_types_nothing_and_says_once_what_to_do_instead(screen: Screen) -> None:
    screen.type("ab" + CTRL_Z + CTRL_Z + "c")
    screen.wait_until(lambda s: editor_line(s) == "› abc")
    screen.settle()

    told = " ".join(" ".join(screen.scrollback()).split())
    assert told.count("Ctrl-Z would stop every run.") == 1
    assert "Ctrl-D on an empty line leaves, `midstream --continue` comes back" in told

    screen.type(CTRL_R + "x" + CTRL_Z)
    screen.settle()
    assert "␚" not in screen.text()
    assert "^Z" not in screen.text()


# --- mentions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_an_at_sign_offers_files_and_tab_takes_one(spawn: Spawn, cols: int) -> None:
    screen = spawn(cols=cols)
    screen.type("look at @app")
    screen.wait_for("file")
    screen.type(TAB)
    screen.wait_until(lambda s: editor_line(s) == "› look at @src/app.py")
    screen.type(" closely" + ENTER)

    screen.wait_until(
        lambda s: "got 'look at @src/app.py closely'" in "".join(s.text().split("· "))
    )


def test_tab_goes_through_the_files_and_esc_closes_the_choices(screen: Screen) -> None:
    screen.type("@src")
    screen.wait_for("@src/other.py")
    screen.type(TAB)
    screen.wait_until(lambda s: editor_line(s) == "› @src/")
    screen.type(TAB)
    screen.wait_until(lambda s: editor_line(s) == "› @src/app.py")
    screen.type(ESC)

    screen.wait_gone("@src/other.py")
    assert "halted" not in screen.text()


def test_no_file_is_offered_in_an_address_of_mail(screen: Screen) -> None:
    screen.type("mail me@src")
    screen.settle()

    assert "file" not in screen.text()


# --- the person's own commands ----------------------------------------------------------------


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_a_command_of_the_persons_own_runs_and_its_output_is_offered(
    spawn: Spawn, cols: int
) -> None:
    screen = spawn(cols=cols)
    screen.type("!echo one; echo two")
    screen.wait_for("⏎ runs it in your shell")
    screen.type(ENTER)
    screen.wait_for("⏎ adds it to your words")

    assert "› !echo one; echo two" in screen.scrollback()
    assert [line for line in screen.scrollback() if line in ("┆ one", "┆ two")] == [
        "┆ one",
        "┆ two",
    ]
    assert "got" not in screen.text()

    screen.type(ENTER)
    screen.wait_until(lambda s: editor_line(s) == "› [output 2 lines #1]")
    assert "got" not in screen.text()
    screen.type("what is that?" + ENTER)
    screen.wait_for("characters'" if cols > 40 else "characters")
    assert "⏎ adds" not in screen.text()


def test_tab_completes_a_path_in_a_command_and_never_by_itself(screen: Screen) -> None:
    screen.type("!cat app")
    screen.settle()
    assert "file" not in screen.text()
    screen.type(TAB)

    screen.wait_until(lambda s: editor_line(s) == "› !cat src/app.py")


def test_a_command_that_fails_says_so(screen: Screen) -> None:
    screen.type("!exit 3" + ENTER)

    screen.wait_for("[exit code 3]")


def test_a_command_that_went_well_and_printed_nothing_offers_nothing(screen: Screen) -> None:
    screen.type("!true" + ENTER)
    screen.wait_for("[exit code 0]")
    screen.settle()

    assert "adds it" not in screen.text()
    assert editor_line(screen) == "›"


def test_a_change_of_folder_says_that_it_does_not_last(screen: Screen) -> None:
    screen.type("!cd / && true" + ENTER)
    screen.wait_for("[exit code 0]")
    screen.settle()
    assert "shell of its own" not in screen.text()
    screen.type("!cd /" + ENTER)

    screen.wait_for(
        "┆ [each !command has a shell of its own: the next one starts in the workspace]"
    )


def test_output_comes_as_it_is_made_and_esc_ends_the_command(screen: Screen) -> None:
    screen.type("/busy" + ENTER)
    screen.type("!echo first; printf half; exec sleep 1000" + ENTER)
    screen.wait_for("┆ first")
    screen.wait_for("┆ half")
    screen.wait_for("Esc ends it")
    screen.type("typed meanwhile" + ESC)

    screen.wait_for("[stopped, ended by SIGINT]")
    assert "halted" not in screen.text()
    assert editor_line(screen) == "› typed meanwhile"
    screen.type(ESC)
    screen.wait_for("halted")


def test_ctrl_c_ends_the_command_and_leaves_nothing(screen: Screen) -> None:
    screen.type("!exec sleep 1000" + ENTER)
    screen.wait_for("Esc ends it")
    screen.type(CTRL_C)

    screen.wait_for("[stopped, ended by SIGINT]")
    assert "Ctrl-C again leaves" not in screen.text()


def test_leaving_kills_the_command(screen: Screen) -> None:
    screen.type("!trap '' INT TERM; echo pid $$; sleep 1000; sleep 1000" + ENTER)
    screen.wait_for("┆ pid ")
    pid = next(int(line.split()[-1]) for line in screen.scrollback() if line.startswith("┆ pid "))
    screen.type(CTRL_D)

    assert screen.wait_exit() == 0
    assert not is_running(pid)


def test_one_command_at_a_time_the_other_stays_in_the_line(screen: Screen) -> None:
    screen.type("!exec sleep 1000" + ENTER)
    screen.wait_for("Esc ends it")
    screen.type("!echo two" + ENTER)

    screen.wait_for("A command of yours still runs")
    assert editor_line(screen) == "› !echo two"


def test_an_exclamation_mark_alone_adds_the_last_output(screen: Screen) -> None:
    screen.type("!" + ENTER)
    screen.wait_for("No command of yours has run yet")
    screen.type("!echo one" + ENTER)
    screen.wait_for("⏎ adds it to your words")
    screen.type(ESC)
    screen.wait_gone("⏎ adds it to your words")
    screen.type("!" + ENTER)

    screen.wait_until(lambda s: editor_line(s) == "› [output 1 line #1]")


def test_an_exclamation_mark_alone_keeps_what_was_changed_in_the_history(screen: Screen) -> None:
    screen.type("one" + ENTER)
    screen.wait_for("got 'one'")
    screen.type(UP)
    screen.wait_until(lambda s: editor_line(s) == "› one")
    screen.type(" two" + DOWN)
    screen.wait_until(lambda s: editor_line(s) == "›")
    screen.type("!" + ENTER)
    screen.wait_for("No command of yours has run yet")
    screen.type(UP)

    screen.wait_until(lambda s: editor_line(s) == "› one two")


def test_alt_and_exclamation_mark_adds_it_to_what_is_typed_already(screen: Screen) -> None:
    screen.type("!echo one" + ENTER)
    screen.wait_for("⏎ adds it to your words")
    screen.type("explain")
    screen.wait_for("Alt-! adds it here")
    screen.type(ALT_BANG)

    screen.wait_until(lambda s: editor_line(s) == "› explain [output 1 line #1]")


def test_a_key_pressed_before_the_offer_was_read_does_not_take_it(spawn: Spawn) -> None:
    screen = spawn(fresh_s=1000.0)
    screen.type("!echo one" + ENTER)
    screen.wait_for("⏎ adds it to your words")
    screen.type(ENTER)
    screen.settle()
    assert editor_line(screen) == "›"
    screen.type("words" + ENTER)

    screen.wait_for("got 'words'")


def test_two_exclamation_marks_begin_a_text(screen: Screen) -> None:
    screen.type("!!important" + ENTER)

    screen.wait_for("got '!important'")


def test_a_command_with_a_folded_paste_in_it_does_not_run_unseen(screen: Screen) -> None:
    screen.type("!cat <<X ")
    screen.paste("x\n" * 100)
    screen.wait_for("[pasted 100 lines #1]")
    screen.type(ENTER)

    screen.wait_for("nothing was run")
    assert editor_line(screen) == "› !cat <<X [pasted 100 lines #1]"


# --- pastes -----------------------------------------------------------------------------------


def test_a_folded_paste_is_shown_in_full_by_a_key(spawn: Spawn) -> None:
    screen = spawn(rows=40)
    screen.type("see ")
    screen.paste("\n".join(f"line {number}" for number in range(30)))
    screen.wait_for("[pasted 30 lines #1]")
    screen.type(CTRL_T)
    screen.wait_for("line 29")
    screen.wait_gone("[pasted")
    screen.type(BACKSPACE + ENTER)

    screen.wait_for("got")
    assert f"{len('see ') + sum(len(f'line {n}') + 1 for n in range(30)) - 2} characters" in (
        screen.text()
    )


def test_a_paste_too_long_for_the_line_stays_folded(screen: Screen) -> None:
    screen.paste("x" * 30_000)
    screen.wait_for("[pasted 30000 characters #1]")
    screen.type(CTRL_T)

    screen.wait_for("too long for the line")
    assert editor_line(screen) == "› [pasted 30000 characters #1]"


# --- the person's editor ----------------------------------------------------------------------


def editor_program(folder: Path, body: str) -> str:
    path = folder / "editor.sh"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
    return str(path)


def test_ctrl_g_opens_the_line_in_the_editor(spawn: Spawn, tmp_path: Path) -> None:
    body = (
        f'ls -l "$1" > {tmp_path}/seen; cat "$1" >> {tmp_path}/seen; printf "one\\ntwo\\n" > "$1"'
    )
    screen = spawn(EDITOR=editor_program(tmp_path, body), VISUAL="")
    screen.type("half a thought" + CTRL_G)
    screen.wait_until(lambda s: editor_line(s).strip() == "two")
    screen.type(ENTER)

    screen.wait_for(r"got 'one\ntwo'")
    seen = (tmp_path / "seen").read_text()
    assert seen.startswith("-rw-------")
    assert seen.endswith("half a thought\n")
    assert not Path(seen.split()[8]).exists()


def test_what_goes_on_meanwhile_waits_and_is_shown_afterwards(spawn: Spawn, tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    os.mkfifo(done)
    drawn = "the editor has the terminal\\n\\nbelow\\n\\033[2A"
    body = f'printf "{drawn}"; touch {go}; cat {done} > /dev/null'
    screen = spawn(VISUAL=editor_program(tmp_path, body))
    screen.type(f"/later {go}" + ENTER)
    screen.wait_until(lambda s: editor_line(s) == "›")
    screen.type("my words" + CTRL_G)
    screen.wait_for("the editor has the terminal")
    screen.resize(30, 100)
    screen.settle()
    assert "Which colour?" not in screen.text()
    shown = screen.text().split("the editor has the terminal")[1]
    assert "⏎" not in shown
    assert "below" in shown

    done.write_text("over")
    screen.wait_for("Which colour?")
    assert editor_line(screen) == "› my words"


def test_an_editor_that_fails_leaves_the_line_as_it_was(spawn: Spawn, tmp_path: Path) -> None:
    screen = spawn(EDITOR=editor_program(tmp_path, 'echo gone > "$1"; exit 1'), VISUAL="")
    screen.type("keep this" + CTRL_G)

    screen.wait_for("your line is as it was")
    assert editor_line(screen) == "› keep this"


def test_a_missing_editor_is_told(spawn: Spawn) -> None:
    screen = spawn(EDITOR="/nowhere/to/be/found", VISUAL="")
    screen.type("keep this" + CTRL_G)

    screen.wait_for("could not be started")
    screen.type(" all" + ENTER)
    screen.wait_for("got 'keep this all'")


def test_the_editor_ends_with_the_terminal(spawn: Spawn, tmp_path: Path) -> None:
    body = f"echo $$ > {tmp_path}/pid; echo begun; exec sleep 1000"
    screen = spawn(EDITOR=editor_program(tmp_path, body), VISUAL="")
    screen.type("words" + CTRL_G)
    screen.wait_for("begun")
    pid = int((tmp_path / "pid").read_text())
    screen.hang_up()

    assert not is_running(pid)


# --- vi ---------------------------------------------------------------------------------------


def test_vi_keys_by_setting(spawn: Spawn) -> None:
    screen = spawn(EDITING="vi")
    screen.type("/busy" + ENTER)
    screen.wait_for("Esc stops")
    screen.type("one two" + ESC)
    screen.wait_until(lambda s: editor_line(s) == ": one two")
    assert "halted" not in screen.text()
    screen.type("bcw")
    screen.wait_until(lambda s: editor_line(s) == "› one")
    screen.type("three" + ESC)
    screen.wait_until(lambda s: editor_line(s) == ": one three")
    screen.type(ENTER)
    screen.wait_for("got 'one three'")
    screen.type("x")
    screen.wait_until(lambda s: editor_line(s) == "› x")


def test_in_vi_esc_stops_the_turn_once_nothing_is_being_typed(spawn: Spawn) -> None:
    screen = spawn(EDITING="vi")
    screen.type("/busy" + ENTER)
    screen.wait_for("Esc Esc stops")
    screen.type(ESC)
    screen.wait_until(lambda s: editor_line(s) == ":")
    screen.wait_gone("Esc Esc stops")
    screen.wait_for("Esc stops")
    screen.type(ESC)

    screen.wait_for("halted")


def test_in_vi_a_word_is_changed_without_the_blank_behind_it(spawn: Spawn) -> None:
    screen = spawn(EDITING="vi")
    screen.type("one two three four" + ESC)
    screen.wait_until(lambda s: editor_line(s) == ": one two three four")
    screen.type("0cwONE" + ESC)
    screen.wait_until(lambda s: editor_line(s) == ": ONE two three four")
    screen.type("w2cwboth" + ESC)
    screen.wait_until(lambda s: editor_line(s) == ": ONE both four")


def test_in_vi_backspace_goes_left_among_commands_and_deletes_nothing(spawn: Spawn) -> None:
    screen = spawn(EDITING="vi")
    screen.type("one two" + ESC)
    screen.wait_until(lambda s: editor_line(s) == ": one two")
    column, row = screen.cursor()
    screen.type(BACKSPACE)
    screen.wait_until(lambda s: s.cursor() == (column - 1, row))
    assert editor_line(screen) == ": one two"


def test_in_vi_a_key_decides_in_either_mode_and_is_no_text_among_commands(spawn: Spawn) -> None:
    screen = spawn(EDITING="vi")
    screen.type("/approve" + ENTER)
    screen.wait_for("y once")
    screen.type(ESC)
    screen.wait_until(lambda s: editor_line(s) == ":")
    screen.type("y")
    screen.wait_for("decided q9 granted=True")

    screen.type("n")
    screen.settle()
    assert editor_line(screen) == ":"


def test_a_line_made_a_comment_stays_in_the_line(screen: Screen) -> None:
    screen.type("some words\x1b#")
    screen.wait_until(lambda s: editor_line(s) == "› #some words")
    screen.type(ENTER)
    screen.wait_for("got '#some words'")


def test_colours_among_the_keys_are_no_mouse(screen: Screen) -> None:
    screen.type("red \x1b[31mand\x1b[0m plain")
    screen.wait_until(lambda s: editor_line(s) == "› red and plain")
    screen.settle()
    assert "went wrong" not in screen.text()


# --- the history ------------------------------------------------------------------------------


def test_ctrl_r_finds_a_line_of_several_rows_of_an_earlier_session(
    spawn: Spawn, tmp_path: Path
) -> None:
    first = spawn(folder=str(tmp_path / "state"))
    first.type(f"alpha{ALT_ENTER}beta{CTRL_J}gamma" + ENTER)
    first.wait_for(r"got 'alpha\nbeta\ngamma'")
    first.type("!echo other" + ENTER)
    first.wait_for("┆ other")
    first.type(CTRL_D)
    assert first.wait_exit() == 0

    second = spawn(folder=str(tmp_path / "state"))
    second.type(CTRL_R + "bet")
    second.wait_until(lambda s: "› alpha" in s.text() and "  gamma" in s.text())
    second.type(ENTER)
    second.wait_for("⏎ sends to dude")
    second.type(ENTER)
    second.wait_for(r"got 'alpha\nbeta\ngamma'")


def test_up_brings_a_command_of_an_earlier_session_back(spawn: Spawn, tmp_path: Path) -> None:
    first = spawn(folder=str(tmp_path / "state"))
    first.type("!echo again" + ENTER)
    first.wait_for("┆ again")
    first.type(CTRL_D)
    assert first.wait_exit() == 0

    second = spawn(folder=str(tmp_path / "state"))
    second.type(UP)
    second.wait_until(lambda s: editor_line(s) == "› !echo again")

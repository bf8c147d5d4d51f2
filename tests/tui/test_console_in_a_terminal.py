"""ConsoleInterface in a real pty, read as a person reads it."""

import os
import signal
import time
from pathlib import Path

import pytest
from screen import (
    ALT_ENTER,
    BACKSPACE,
    CTRL_C,
    CTRL_D,
    CTRL_J,
    CTRL_L,
    CTRL_R,
    DOWN,
    ENTER,
    ESC,
    LEFT,
    RIGHT,
    TAB,
    UP,
    Screen,
    Spawn,
    editor_line,
)

from midstream.views.cells import width_of

# --- typing -----------------------------------------------------------------------------------


def test_a_sent_line_is_echoed_above_and_reaches_the_desk(screen: Screen) -> None:
    screen.type("tidy the code" + ENTER)

    screen.wait_for("got 'tidy the code'")
    assert "› tidy the code" in screen.scrollback()
    assert editor_line(screen) == "›"


def test_half_typed_text_and_cursor_survive_a_flood_of_output(screen: Screen) -> None:
    screen.type("/flood 3000" + ENTER)
    screen.wait_for("line 10 of the flood")
    screen.type("half a tought\x1b[D\x1b[D\x1b[D\x1b[D\x1b[Dh")

    screen.wait_for("flood over")
    screen.settle()
    assert editor_line(screen) == "› half a thought"
    assert screen.cursor()[0] == len("› half a th")
    told = [line for line in screen.scrollback() if "of the flood" in line]
    assert told == [f"· line {number} of the flood" for number in range(3000)]


def test_new_lines_by_alt_enter_ctrl_j_and_backslash(screen: Screen) -> None:
    screen.type(f"one{ALT_ENTER}two{CTRL_J}three\\{ENTER}four")
    screen.wait_for("four")
    screen.type(ENTER)

    screen.wait_for(r"got 'one\ntwo\nthree\nfour'")


def test_a_paste_never_sends(screen: Screen) -> None:
    screen.paste("first line\nsecond line\n")
    screen.wait_for("second line")
    assert "got" not in screen.text()
    screen.type("third" + ENTER)

    screen.wait_for(r"got 'first line\nsecond line\nthird'")


def test_a_megabyte_pasted_is_folded_and_sent_whole(screen: Screen) -> None:
    text = "\n".join(["x" * 99] * 10_000)
    screen.paste(text)
    screen.wait_for("[pasted 10000 lines #1]")
    screen.type(" and more" + ENTER)

    screen.wait_for(f"got '{len(text) + len(' and more')} characters'")


def test_one_backspace_deletes_a_folded_paste(screen: Screen) -> None:
    screen.paste("x\n" * 100)
    screen.wait_for("[pasted 100 lines #1]")
    screen.type(BACKSPACE)

    screen.wait_gone("[pasted")


def test_history_is_kept_across_sessions(spawn: Spawn, tmp_path: Path) -> None:
    first = spawn(folder=str(tmp_path / "state"))
    first.type("remember me" + ENTER)
    first.wait_for("got 'remember me'")
    first.type(CTRL_D)
    assert first.wait_exit() == 0
    assert (tmp_path / "state" / "history").stat().st_mode & 0o777 == 0o600

    second = spawn(folder=str(tmp_path / "state"))
    second.type(UP)
    second.wait_until(lambda s: editor_line(s) == "› remember me")


def test_an_unwritable_history_folder_is_said_and_does_no_harm(
    spawn: Spawn, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    screen = spawn(folder=str(blocked / "state"))

    screen.wait_for("The input history is not saved")
    screen.type("still works" + ENTER)
    screen.wait_for("got 'still works'")
    screen.type(UP)
    screen.wait_until(lambda s: editor_line(s) == "› still works")


def test_ctrl_r_searches_the_history(screen: Screen) -> None:
    for line in ("alpha one", "beta two"):
        screen.type(line + ENTER)
        screen.wait_for(f"got '{line}'")
    screen.type(CTRL_R + "alp")
    screen.wait_until(lambda s: s.lines().count("› alpha one") == 2)
    screen.wait_for("⏎ takes the line · Ctrl-R further back · Ctrl-C leaves")
    screen.type(ENTER)
    screen.wait_for("⏎ sends to dude")
    screen.type(ENTER)

    screen.wait_until(lambda s: s.text().count("got 'alpha one'") == 2)


def test_ctrl_c_leaves_the_search_and_not_the_console(screen: Screen) -> None:
    screen.type("alpha one" + ENTER)
    screen.wait_for("got 'alpha one'")
    screen.type("half")
    screen.type(CTRL_R + "alp")
    screen.wait_for("Ctrl-C leaves")
    screen.type(CTRL_C)

    screen.wait_gone("Ctrl-C leaves")
    screen.wait_until(lambda s: editor_line(s) == "› half")


def test_tab_completes_a_command_and_shows_the_choices(screen: Screen) -> None:
    screen.type("/w" + TAB)
    screen.wait_until(lambda s: "/workflow" in editor_line(s))
    screen.type(CTRL_C)
    screen.type("/he")
    screen.wait_for("what there is")
    assert "greet" in screen.text()


def test_question_mark_shows_the_keys_only_on_an_empty_line(screen: Screen) -> None:
    screen.type("why?" + ENTER)
    screen.wait_for("got 'why?'")
    assert "Alt-Enter" not in screen.text()

    screen.type("?")
    screen.wait_for("Alt-Enter")
    assert editor_line(screen) == "›"


def test_ctrl_l_clears_the_screen_and_keeps_the_line(screen: Screen) -> None:
    screen.type("keep this")
    screen.wait_for("keep this")
    screen.type(CTRL_L)

    screen.wait_until(lambda s: "welcome" not in s.text() and editor_line(s) == "› keep this")


# --- stopping and leaving ---------------------------------------------------------------------


def test_esc_stops_the_turn_and_keeps_the_line(screen: Screen) -> None:
    screen.type("/busy" + ENTER)
    screen.wait_for("Esc stops")
    screen.type("half typed" + ESC)

    screen.wait_for("halted")
    assert editor_line(screen) == "› half typed"


@pytest.mark.parametrize(
    "reply", ["\x1b]11;rgb:ffff/ffff/ffff\x07", "\x1bP>|XTerm(367)\x1b\\", "\x1b[I", "\x1b[?997;1n"]
)
def test_what_the_terminal_itself_says_is_no_key(spawn: Spawn, tmp_path: Path, reply: str) -> None:
    opened = tmp_path / "opened"
    screen = spawn(EDITOR=f"touch {opened} --", VISUAL="")
    screen.type("/busy" + ENTER)
    screen.wait_for("Esc stops")
    screen.type("half ")
    screen.type(reply)
    screen.settle(0.3)
    screen.type("typed")

    screen.wait_until(lambda s: editor_line(s) == "› half typed")
    assert "halted" not in screen.text()
    assert not opened.exists()


def test_ctrl_c_clears_then_stops_then_leaves(screen: Screen) -> None:
    screen.type("/busy" + ENTER)
    screen.wait_for("Esc stops")
    screen.type("words")
    screen.wait_for("› words")
    screen.type(CTRL_C)
    screen.wait_until(lambda s: editor_line(s) == "›")
    assert "halted" not in screen.text()

    screen.type(CTRL_C)
    screen.wait_for("halted")
    screen.wait_for("Ctrl-C again leaves")
    screen.type(CTRL_C)
    assert screen.wait_exit() == 0


def test_a_cleared_line_comes_back_with_up(screen: Screen) -> None:
    screen.type("long thought")
    screen.wait_for("long thought")
    screen.type(CTRL_C)
    screen.wait_until(lambda s: editor_line(s) == "›")
    screen.type(UP)

    screen.wait_until(lambda s: editor_line(s) == "› long thought")


@pytest.mark.parametrize("way", [CTRL_D, "/exit" + ENTER, CTRL_C + CTRL_C])
def test_leaving_restores_the_terminal(screen: Screen, way: str) -> None:
    screen.type(way)

    assert screen.wait_exit() == 0
    assert screen.modes() == screen.modes_before
    assert screen.raw.rfind(b"\x1b[?2004l") > screen.raw.rfind(b"\x1b[?2004h")
    assert screen.raw.rfind(b"\x1b[?25h") > screen.raw.rfind(b"\x1b[?25l")
    assert b"\x1b[?1049h" not in screen.raw
    assert screen.text().endswith("left signal=None")


def test_sigterm_leaves_the_terminal_sane(screen: Screen) -> None:
    screen.type("half a line")
    screen.wait_for("half a line")
    screen.kill(signal.SIGTERM)

    assert screen.wait_exit() == 128 + signal.SIGTERM
    assert screen.modes() == screen.modes_before
    assert screen.raw.rfind(b"\x1b[?25h") > screen.raw.rfind(b"\x1b[?25l")


def test_sigint_from_outside_is_like_the_key(screen: Screen) -> None:
    screen.type("words")
    screen.wait_for("› words")
    screen.kill(signal.SIGINT)

    screen.wait_until(lambda s: editor_line(s) == "›")
    assert screen.process.isalive()


def test_a_closed_terminal_ends_the_console(screen: Screen) -> None:

    assert screen.hang_up() in (0, 128 + signal.SIGHUP)


def test_an_error_of_the_session_is_shown_and_the_line_comes_back(screen: Screen) -> None:
    screen.type("/boom" + ENTER)

    screen.wait_for("ValueError: boom in the session")
    screen.wait_until(lambda s: editor_line(s) == "› /boom")


def test_a_bug_under_a_key_is_shown_and_the_console_goes_on(screen: Screen) -> None:
    screen.type("/crash" + TAB)
    screen.wait_for("ValueError: a bug in")
    screen.type(CTRL_C)
    screen.type("next" + ENTER)

    screen.wait_for("got 'next'")


# --- output -----------------------------------------------------------------------------------


def test_streaming_words_are_live_and_an_interrupted_partial_stays(screen: Screen) -> None:
    screen.type("/stream" + ENTER)
    screen.wait_for("Once upon a time")
    screen.type("/cut" + ENTER)

    screen.wait_for("▌ [interrupted]")
    screen.settle()
    assert screen.text().count("Once upon a time") == 1


def test_a_reply_becomes_scrollback_as_rendered_markdown(screen: Screen) -> None:
    screen.type("/stream" + ENTER)
    screen.wait_for("Once upon a time")
    screen.type("/md" + ENTER)

    screen.wait_for("Some bold words and code.")
    screen.wait_gone("Once upon a time")
    assert " • first" in screen.scrollback()


def test_escape_sequences_of_a_model_are_shown_not_obeyed(screen: Screen) -> None:
    screen.type("/hostile" + ENTER)

    screen.wait_for("before␛[2J␛[31m␛]0;title␇\\x9b5Aafter \\u202egnp.exe")
    assert "  › /exit" in screen.scrollback()
    assert "· welcome" in screen.scrollback()
    assert b"\x1b]0;" not in screen.raw


def test_a_tool_call_is_one_line(screen: Screen) -> None:
    screen.type("/tool" + ENTER)

    screen.wait_for("✓ read_files(a.py) · 3 lines")


def test_without_colour_none_is_sent(spawn: Spawn) -> None:
    screen = spawn(NO_COLOR="1")
    screen.type("/md" + ENTER)
    screen.wait_for("• second")

    for code in (b"\x1b[31m", b"\x1b[32m", b"\x1b[33m", b"\x1b[35m", b"\x1b[36m", b";36m"):
        assert code not in screen.raw


# --- questions --------------------------------------------------------------------------------


def test_a_line_begun_under_a_question_answers_it(screen: Screen) -> None:
    screen.type("/ask" + ENTER)
    screen.wait_for("▸ #1 ada asks")
    screen.wait_for("│ 2 blue")
    screen.type("red" + ENTER)

    screen.wait_for("got 'red' question=q1 new=False seen=['q1']")
    screen.wait_for("✓ #1 Which colour?  red")
    screen.wait_gone("▸ #1")


@pytest.fixture
def overtaken(spawn: Spawn, tmp_path: Path) -> Screen:
    """A console where a question came while a line was being typed, and the line was sent."""
    flag = tmp_path / "flag"
    screen = spawn()
    screen.type(f"/later {flag}" + ENTER)
    screen.wait_for("› /later")
    screen.type("use tabs")
    screen.wait_for("› use tabs")
    flag.touch()
    screen.wait_for("Which colour?")
    screen.type(ENTER)
    screen.wait_for("You began this line before it was asked")
    screen.settle()
    return screen


def test_a_line_begun_before_the_question_is_kept_and_asked_about(overtaken: Screen) -> None:
    assert "got 'use tabs'" not in overtaken.text()
    assert "› use tabs" in overtaken.lines()
    assert overtaken.text().count("› use tabs") == 1


def test_a_makes_it_the_answer(overtaken: Screen) -> None:
    overtaken.type("a")

    overtaken.wait_for("got 'use tabs' question=q1 new=False")
    overtaken.wait_gone("You began this line")


def test_n_makes_it_a_new_instruction(overtaken: Screen) -> None:
    overtaken.type("n")

    overtaken.wait_for("got 'use tabs' question=None new=True")


@pytest.mark.parametrize("key", ["e", ESC])
def test_e_and_esc_keep_it_for_editing(overtaken: Screen, key: str) -> None:
    overtaken.type(key)

    overtaken.wait_gone("You began this line")
    assert "› use tabs" in overtaken.lines()
    assert "got 'use tabs'" not in overtaken.text()


def test_typing_on_keeps_it_for_editing(overtaken: Screen) -> None:
    overtaken.type("!")

    overtaken.wait_gone("You began this line")
    overtaken.wait_for("› use tabs!")


def test_the_marked_question_of_several_is_answered(screen: Screen) -> None:
    screen.type("/two" + ENTER)
    screen.wait_for("▸ #1 ada asks")
    screen.type(TAB)
    screen.wait_for("▸ #2 ada asks")
    screen.type("second" + ENTER)

    screen.wait_for("got 'second' question=q2")


def test_a_refused_line_comes_back_with_the_reason(screen: Screen) -> None:
    screen.type("/refuse" + ENTER)
    screen.wait_for("› /refuse")
    screen.type("green" + ENTER)

    screen.wait_for("! that is not one of the choices")
    screen.wait_until(lambda s: editor_line(s) == "› green")


# --- approvals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "decided"),
    [
        ("y", "granted=True for_run=False"),
        ("r", "granted=True for_run=True"),
        ("n", "granted=False"),
    ],
)
def test_one_key_decides_on_an_approval(screen: Screen, key: str, decided: str) -> None:
    screen.type("/approve" + ENTER)
    screen.wait_for("y once")
    assert '│ execute_terminal {"command":"rm -rf build"}' in screen.lines()
    screen.type(key)

    screen.wait_for(f"decided q9 {decided}")
    assert editor_line(screen) == "›"


@pytest.mark.parametrize(
    ("arrows", "says", "decided"),
    [
        ((DOWN,), "⏎ says yes, once", "granted=True for_run=False"),
        ((DOWN, RIGHT), "⏎ says yes, for this run", "granted=True for_run=True"),
        ((UP, LEFT), "⏎ says no · ", "granted=False"),
        ((DOWN, UP, UP), "⏎ says yes, once", "granted=True for_run=False"),
    ],
)
def test_enter_takes_the_choice_that_arrows_marked(
    screen: Screen, arrows: tuple[str, ...], says: str, decided: str
) -> None:
    screen.type("/approve" + ENTER)
    screen.wait_for("arrows mark one")
    assert "▸ y" not in screen.text()
    for arrow in arrows:
        screen.type(arrow)
        screen.settle()
    screen.wait_for(says)
    screen.type(ENTER)

    screen.wait_for(f"decided q9 {decided}")
    assert editor_line(screen) == "›"


def test_escape_unmarks_a_choice(screen: Screen) -> None:
    screen.type("/approve" + ENTER)
    screen.wait_for("y once")
    screen.type(DOWN)
    screen.wait_for("▸ y once")
    screen.wait_for("Esc unmarks")
    screen.type("\x1b")
    screen.wait_until(lambda s: "▸ y once" not in s.text())
    screen.type(ENTER)
    screen.settle()

    assert "decided" not in screen.text()


OWN = '{"allow": ["k", "Ctrl-Y"], "deny": ["y"]}'


@pytest.mark.parametrize("key", ["k", "\x19"])
def test_keys_of_ones_own_decide_and_stand_on_the_card(spawn: Spawn, key: str) -> None:
    screen = spawn(KEYS=OWN)
    screen.type("/approve" + ENTER)
    screen.wait_for("k once · r for this run · y no")
    screen.wait_for("k yes, y no")
    screen.type(key)

    screen.wait_for("decided q9 granted=True")
    assert editor_line(screen) == "›"


def test_a_key_that_denies_now_allows_nothing_any_more(spawn: Spawn) -> None:
    screen = spawn(KEYS=OWN)
    screen.type("/approve" + ENTER)
    screen.wait_for("k once")
    screen.type("y")

    screen.wait_for("decided q9 granted=False")


@pytest.mark.parametrize(("key", "left"), [("k", "› k"), ("\x19", "›")])
def test_a_key_of_ones_own_decides_only_as_a_fresh_one(spawn: Spawn, key: str, left: str) -> None:
    screen = spawn(fresh_s=1000.0, KEYS=OWN)
    screen.type("/approve" + ENTER)
    screen.wait_for("k once")
    screen.type(key)
    screen.settle()

    assert "decided" not in screen.text()
    assert editor_line(screen) == left


@pytest.mark.parametrize("keys", ["\x1b[200~k\x1b[201~", "kk", "\x19\x19"])
def test_keys_of_ones_own_that_come_together_never_approve(spawn: Spawn, keys: str) -> None:
    screen = spawn(KEYS=OWN)
    screen.type("/approve" + ENTER)
    screen.wait_for("k once")
    screen.type(keys)
    screen.settle()

    assert "decided" not in screen.text()


def test_w_refuses_with_a_note(screen: Screen) -> None:
    screen.type("/approve" + ENTER)
    screen.wait_for("y once")
    screen.type("w")
    screen.wait_for("why not? ›")
    screen.type("use git clean" + ENTER)

    screen.wait_for("decided q9 granted=False for_run=False note='use git clean'")


def test_a_key_too_soon_after_the_card_is_text(spawn: Spawn) -> None:
    screen = spawn(fresh_s=1000.0)
    screen.type("/approve" + ENTER)
    screen.wait_for("y once")
    screen.type("y")

    screen.wait_until(lambda s: editor_line(s) == "› y")
    screen.settle()
    assert "decided" not in screen.text()


def test_a_key_behind_other_text_is_text(screen: Screen) -> None:
    screen.type("/approve" + ENTER)
    screen.wait_for("y once")
    screen.type("m")
    screen.wait_for("empty the line to decide")
    screen.type("y")

    screen.wait_until(lambda s: editor_line(s) == "› my")
    assert "decided" not in screen.text()


@pytest.mark.parametrize("keys", ["\x1b[200~y\x1b[201~", "yes\r", "y\r"])
def test_pasted_keys_never_approve(screen: Screen, keys: str) -> None:
    screen.type("/approve" + ENTER)
    screen.wait_for("y once")
    screen.type(keys)

    screen.wait_until(lambda s: "got 'y" in s.text() or editor_line(s) == "› y")
    assert "decided" not in screen.text()


def test_a_command_can_be_changed_before_it_is_allowed(screen: Screen) -> None:
    screen.type("/command make tset" + ENTER)
    screen.wait_for("y once · r for this run (exec: make tset)")
    assert "│ $ make tset" in screen.lines()
    assert "│ Commands ask without a sandbox." in screen.lines()
    screen.type("e")
    screen.wait_for("run instead › make tset")
    screen.type("\b" * 4 + "test")
    screen.wait_for("run instead › make test")
    screen.settle()
    assert "decided" not in screen.text()
    screen.type(ENTER)

    screen.wait_for("decided q9 granted=True for_run=False note='' command='make test'")
    assert editor_line(screen) == "›"


def test_escape_leaves_a_command_as_it_was(screen: Screen) -> None:
    screen.type("/command make" + ENTER)
    screen.wait_for("e edit")
    screen.type("e")
    screen.wait_for("run instead › make")
    screen.type("\x1b")
    screen.wait_until(lambda s: editor_line(s) == "›")
    screen.type("n")

    screen.wait_for("decided q9 granted=False for_run=False note=''")


@pytest.mark.parametrize("keys", ["; rm -rf /\r", "\x1b[200~; rm -rf /\r\x1b[201~"])
def test_a_pasted_command_is_never_a_yes(screen: Screen, keys: str) -> None:
    screen.type("/command make" + ENTER)
    screen.wait_for("e edit")
    screen.type("e")
    screen.wait_for("run instead › make")
    screen.type(keys)

    screen.wait_for("make; rm -rf /")
    screen.settle()
    assert "decided" not in screen.text()


def test_an_approval_too_long_for_its_card_stands_in_full_above(spawn: Spawn) -> None:
    screen = spawn(rows=12)
    command = " ".join(f"word{number}" for number in range(120))
    screen.paste(f"/approve {command}")
    screen.type(ENTER)
    screen.wait_for("more lines, in full above")
    screen.settle()

    assert any("word119" in line for line in screen.scrollback())


@pytest.mark.parametrize(("cols", "rows"), [(80, 10), (30, 24)])
def test_an_approval_its_card_holds_no_more_stands_in_full_above(
    spawn: Spawn, cols: int, rows: int
) -> None:
    screen = spawn(cols=80, rows=24)
    command = " ".join(f"word{number}" for number in range(40))
    screen.type(f"/approve {command}{ENTER}")
    screen.wait_until(lambda s: "word39" in s.text().partition("▸ #9")[2])
    screen.settle()
    screen.resize(cols, rows)
    screen.wait_for("more lines, in full above")

    def stands_above(screen: Screen) -> bool:
        above = "\n".join(screen.scrollback()).rpartition("▸ #9")[0]
        return "word39" in above.rpartition("\n? #9")[2].partition("\n? #9")[0] and "? #9" in above

    screen.wait_until(stands_above)


def test_no_key_approves_what_the_terminal_has_not_taken_in_full(screen: Screen) -> None:
    screen.type(f"/tall 3000{ENTER}")
    while not screen.is_at_rest():  # unread, the terminal takes only the beginning
        time.sleep(0.01)
    os.write(screen.process.fd, b"y")
    screen.wait_until(lambda s: editor_line(s) == "› y")
    screen.wait_for("row 2999 of many")
    screen.settle()
    assert "decided" not in "\n".join(screen.scrollback())
    screen.type(BACKSPACE)
    # Two keys read as one decide nothing, nor does one before it is known that this frame was taken.
    screen.wait_until(lambda s: editor_line(s).strip() == "›")
    screen.settle()
    screen.type("y")
    screen.wait_for("decided q9 granted=True")


@pytest.mark.parametrize("covering", ["Ctrl-L", "search", "editor", "stopped", "turned to"])
def test_an_approval_stands_in_full_again_where_what_stood_is_out_of_sight(
    spawn: Spawn, covering: str
) -> None:
    screen = spawn(EDITOR="true", VISUAL="")
    screen.type(f"/tall 40{ENTER}")
    screen.wait_for("row 39 of many")
    screen.settle()
    assert screen.raw.count(b"row 39 of many") == 1
    match covering:
        case "Ctrl-L":
            screen.type(CTRL_L)
        case "search":
            screen.type(CTRL_R)
            screen.type(CTRL_L)
        case "editor":
            screen.type("\x07")
        case "stopped":
            screen.kill(signal.SIGSTOP)
            screen.kill(signal.SIGCONT)
        case _:
            screen.type(f"/turn{ENTER}")
    screen.wait_until(lambda s: s.raw.count(b"row 39 of many") == 2)
    screen.wait_for("more lines, in full above")
    screen.settle()
    assert screen.raw.count(b"row 39 of many") == 2


# --- sizes ------------------------------------------------------------------------------------


def test_it_works_on_twenty_columns(spawn: Spawn) -> None:
    screen = spawn(cols=20, rows=12)
    screen.type("/ask" + ENTER)
    screen.wait_for("│ 1 red")
    screen.type("a rather long answer for this" + ENTER)

    screen.wait_for("· got 'a rather")
    screen.wait_until(lambda s: editor_line(s) == "›")


def test_a_resize_redraws_and_keeps_the_line(screen: Screen) -> None:
    screen.type("half typed")
    screen.wait_for("› half typed")
    screen.resize(50, 20)
    screen.settle()
    screen.type(" more" + ENTER)

    screen.wait_for("got 'half typed more'")


@pytest.mark.parametrize("word", ["❤️", "👩\u200d👧", "می\u200cخواهم", "क्\u200dष"])
def test_joiners_of_scripts_and_emoji_are_no_garbage_under_the_cursor(
    screen: Screen, word: str
) -> None:
    screen.type(f"{word} x")
    screen.wait_until(lambda s: editor_line(s).endswith("x"))
    assert "\ufffd" not in editor_line(screen)
    assert screen.cursor()[0] == width_of(editor_line(screen))

    screen.type(BACKSPACE * (len(word) + 1) + "y")
    screen.wait_until(lambda s: editor_line(s) in (f"› {word[0]}y", f"› {word[:2]}y"))


def test_a_tiny_terminal_does_not_break_it(screen: Screen) -> None:
    screen.type("/stream" + ENTER)
    screen.wait_for("Once upon")
    screen.resize(3, 2)
    screen.settle()
    screen.resize(80, 24)
    screen.type("still here" + ENTER)

    screen.wait_for("got 'still here'")


def test_control_keys_in_pasted_text_do_nothing_on_the_screen(screen: Screen) -> None:
    screen.paste("a\x1b[2Jb\u202ec")
    screen.type("!")

    screen.wait_until(lambda s: editor_line(s).endswith("!"))
    assert "welcome" in screen.text()
    assert b"\x1b[2J" not in screen.raw

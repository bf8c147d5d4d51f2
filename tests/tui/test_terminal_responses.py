"""What a terminal says among the keys is none of them."""

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from midstream.tui.terminal_replies import KeyParser, without_replies

OSC_BEL = "\x1b]11;rgb:ffff/ffff/ffff\x07"
REPLIES = (
    OSC_BEL,
    "\x1b]10;rgb:0000/0000/0000\x1b\\",
    "\x1b]52;c;aGVsbG8=\x07",
    "\x1bP>|tmux 3.3a\x1b\\",
    "\x1bP1$r0m\x1b\\",
    "\x1b_Gi=31;OK\x1b\\",
    "\x1b[?62;1;4c",
    "\x1b[>84;0;0c",
    "\x1b[?2026;2$y",
    "\x1b[?997;1n",
    "\x1b[0n",
    "\x1b[I",
    "\x1b[O",
    "\x1b[8;24;80t",
    "\x1b[?1u",
)


def keys(*pieces: str) -> list[str]:
    """Return the keys that pieces of input are, "|" standing for no more input for a while."""
    found: list[KeyPress] = []
    parser = KeyParser(found.append)
    for piece in pieces:
        if piece == "|":
            parser.flush()
        else:
            parser.feed(piece)
    parser.flush()
    return [press.key.value if isinstance(press.key, Keys) else press.key for press in found]


@pytest.mark.parametrize("reply", REPLIES, ids=repr)
def test_a_reply_is_no_key(reply: str) -> None:
    assert keys(reply) == []
    assert keys(f"ab{reply}cd{reply}\r") == ["a", "b", "c", "d", "c-m"]


@pytest.mark.parametrize("reply", REPLIES, ids=repr)
def test_a_reply_that_comes_in_two_pieces_is_no_key(reply: str) -> None:
    for cut in range(1, len(reply)):
        assert keys(reply[:cut], f"{reply[cut:]}x") == ["x"], cut


@pytest.mark.parametrize("reply", [r for r in REPLIES if r[1] != "["], ids=repr)
def test_a_reply_whose_end_comes_late_is_no_key(reply: str) -> None:
    for cut in range(3, len(reply) - 2):
        assert keys(reply[:cut], "|", reply[cut:], "x") == ["x"], cut


def test_what_is_typed_is_never_taken_for_the_rest_of_a_reply() -> None:
    assert keys("\x1b]11;rgb:ff", "|", "h", "i") == ["h", "i"]
    assert keys("\x1b]11;rgb:ff", "|", "hello") == [*"hello"]
    assert keys("\x1b]11;rgb:ff", "|", "\x07") == ["c-g"]
    assert keys("\x1b]11;rgb:ff\rhi") == ["escape", *"]11;rgb:ff", "c-m", "h", "i"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("\x1b", ["escape"]),
        ("\x1b\x1b", ["escape", "escape"]),
        ("\x1b[", ["escape", "["]),
        ("\x1b]", ["escape", "]"]),
        ("\x1bP", ["escape", "P"]),
        ("\x1b_", ["escape", "_"]),
        ("\x1bb", ["escape", "b"]),
        ("\x1b\r", ["escape", "c-m"]),
        ("\x1b]x", ["escape", "]", "x"]),
        ("\x07", ["c-g"]),
        ("\x1b[A\x1b[B", ["up", "down"]),
        ("\x1bOA", ["up"]),
        ("\x1b[Z", ["s-tab"]),
        ("\x1b[1;5A", ["c-up"]),
        ("\x1b[[A", ["f1"]),
        ("\x1b[24;80R", ["<cursor-position-response>"]),
        ("\x1b[<0;1;1M", ["<vt100-mouse-event>"]),
        ("\x1b[M !!", ["<vt100-mouse-event>"]),
        ("日本", ["日", "本"]),
    ],
    ids=repr,
)
def test_keys_are_what_they_were(typed: str, meant: list[str]) -> None:
    assert keys(typed) == meant
    if len(typed) > 2:
        assert keys(*typed) == meant


def test_an_esc_that_was_pressed_before_a_reply_came_stays_one() -> None:
    assert keys("\x1b", "|", OSC_BEL) == ["escape"]
    assert keys(f"\x1b{OSC_BEL}") == ["escape"]


def test_a_paste_is_whole_whatever_it_holds() -> None:
    text = f"one {OSC_BEL} two \x1b[I three"
    found: list[KeyPress] = []
    parser = KeyParser(found.append)
    parser.feed(f"a\x1b[200~{text}\x1b[201~b{OSC_BEL}c")
    for piece in ("\x1b[20", "0~", text[:6], text[6:], "\x1b[2", "01~d"):
        parser.feed(piece)
    assert [press.data for press in found] == ["a", text, "b", "c", text, "d"]


def test_a_paste_that_ends_itself_leaves_no_key_alone() -> None:
    assert keys("\x1b[200~\x1b[201~y\x1b[201~") == ["<bracketed-paste>", "y", "<ignore>"]
    assert keys("\x1b[200~\x1b[201~y\x1b[2", "01~") == ["<bracketed-paste>", "y", "<ignore>"]


def test_any_input_is_read_so() -> None:
    with create_pipe_input() as pipe:
        quiet = without_replies(pipe)
        pipe.send_text(f"a{OSC_BEL}b")
        assert [press.key for press in quiet.read_keys()] == ["a", "b"]

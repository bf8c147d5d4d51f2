"""Ctrl-Enter as terminals send it, and whatever else they send once they tell it from Enter."""

import pytest
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from midstream.tui.toolkit_keys import is_able, know_modified_keys


def keys(data: str) -> list[Keys | str]:
    know_modified_keys()
    pressed: list[KeyPress] = []
    parser = Vt100Parser(pressed.append)
    parser.feed_and_flush(data)
    return [press.key for press in pressed]


@pytest.mark.parametrize("data", ["\x1b[13;5u", "\x1b[27;5;13~", "\x1b[13;6u"])
def test_enter_with_ctrl_is_a_key_of_its_own(data: str) -> None:
    assert keys(data) == [Keys.ControlF24]


@pytest.mark.parametrize("data", ["\x1b[13;2u", "\x1b[27;2;13~", "\x1b[27;3;13~", "\x1b\r"])
def test_enter_with_shift_or_alt_is_a_new_line(data: str) -> None:
    assert keys(data) == [Keys.Escape, Keys.ControlM]


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ("\r", Keys.ControlM),
        ("\x1b", Keys.Escape),
        ("\x03", Keys.ControlC),
        ("\x1b[A", Keys.Up),
        ("\x1b[Z", Keys.BackTab),
        ("\x1b[27;2;9~", Keys.BackTab),
        ("\x1b[27;5;99~", Keys.ControlC),
        ("\x1b[27;5;47~", Keys.ControlUnderscore),
        ("\x1b[47;5u", Keys.ControlUnderscore),
    ],
)
def test_other_keys_are_what_they_were(data: str, key: Keys) -> None:
    assert keys(data) == [key]


@pytest.mark.parametrize("code", [*range(32, 127)])
def test_no_key_is_read_as_esc_and_some_text(code: int) -> None:
    for modifier in range(2, 9):
        for data in (f"\x1b[27;{modifier};{code}~", f"\x1b[{code};{modifier}u"):
            found = keys(data)
            assert len(found) == (2 if found[0] == Keys.Escape else 1)


@pytest.mark.parametrize(
    ("term", "able"), [("xterm-256color", True), ("tmux-256color", True), ("linux", False)]
)
def test_only_terminals_that_understand_it_are_asked(term: str, able: bool) -> None:
    assert is_able(term) is able

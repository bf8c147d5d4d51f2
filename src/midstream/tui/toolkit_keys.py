"""What prompt_toolkit does not know of keys: Enter with Ctrl held, and what vi does otherwise.

Of Enter with and without Ctrl a terminal tells the two apart only if it was asked to (xterm's
`modifyOtherKeys`), or is set up to (kitty and others, by a mapping of the key to `ESC [ 13 ; 5 u`).
Asked for is the first level alone: it leaves every key with a meaning of its own as it is, Esc and
Ctrl-C among them, so that a program that dies leaves a terminal behind in which a shell works. Whatever
else such a terminal sends then is known here, too: an unknown sequence would be read as Esc and some
text.
"""

from collections.abc import Callable
from typing import Final, cast

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition, vi_navigation_mode
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys

from midstream.views.key_table import CTRL_ENTER

_CTRL_ENTER: Final = Keys(CTRL_ENTER)
"""What prompt_toolkit is told the key is: it has no name for it, and no keyboard has this one."""

ASK: Final = "\x1b[>4;1m\x1b[0m"
"""Asks for it. The reset is for terminals that take the first part for a change of colours."""

ASK_NO_MORE: Final = "\x1b[>4;0m\x1b[0m"

_ENTER: Final = 13
_CTRL: Final = 4
_SHIFT: Final = 1
_ALT: Final = 2


def know_modified_keys() -> None:
    """Let prompt_toolkit know what terminals send for keys with Ctrl, Alt or Shift held."""
    for held in range(1, 8):
        modifier = held + 1
        for code in (8, 9, _ENTER, 27, *range(32, 128)):
            meant = _meant(code, held)
            # As xterm writes it, and as tmux and others do.
            ANSI_SEQUENCES[f"\x1b[27;{modifier};{code}~"] = meant
            ANSI_SEQUENCES[f"\x1b[{code};{modifier}u"] = meant


def is_able(term: str) -> bool:
    """Return whether terminals of this kind may be asked."""
    return term.startswith(("xterm", "tmux", "foot", "mintty", "alacritty", "wezterm"))


def _meant(code: int, held: int) -> Keys | tuple[Keys, ...]:
    if code == _ENTER:
        return _CTRL_ENTER if held & _CTRL else (Keys.Escape, Keys.ControlM)
    if code == 9:
        return Keys.BackTab if held == _SHIFT else Keys.Ignore
    if code in (8, 127):
        return (Keys.Escape, Keys.ControlH) if held & _ALT else Keys.ControlH
    if code == 27:
        return Keys.Escape
    letter = chr(code).lower()
    if held & _CTRL and letter.isascii() and letter.isalpha():
        key = Keys(f"c-{letter}")
        return Keys.Ignore if held & _ALT else key
    if held & _CTRL and letter == "/":
        return Keys.ControlUnderscore
    if held & _CTRL and letter == " ":
        return Keys.ControlAt
    if held == _ALT and letter.isascii() and letter.isalnum():
        return cast("tuple[Keys, ...]", (Keys.Escape, chr(code)))
    return Keys.Ignore


# --- vi's own keys --------------------------------------------------------------------------------


@Condition
def _on_a_word() -> bool:
    return not get_app().current_buffer.document.current_char.isspace()


def mend_vi(keys: KeyBindings) -> None:
    """Let `cw` on a word change the word alone, and not the blank behind it; `cW` likewise."""
    for motion, meant in (("w", "e"), ("W", "E")):
        keys.add("c", motion, filter=vi_navigation_mode & _on_a_word)(_changing_to(meant))


def _changing_to(motion: str) -> Callable[[KeyPressEvent], None]:
    def change(event: KeyPressEvent) -> None:
        count = str(event.arg) if event.arg_present else ""
        pressed = [KeyPress(key) for key in f"{count}c{motion}"]
        event.key_processor.feed_multiple(pressed, first=True)

    return change

"""Where prompt_toolkit's vi keys do otherwise than vi's own."""

from collections.abc import Callable

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition, vi_navigation_mode
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPress, KeyPressEvent


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

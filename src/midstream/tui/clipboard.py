"""The clipboard, by the sequence OSC 52, where the terminal is known to take it.

A terminal that does not know the sequence drops it without a word, and tmux and screen keep it to
themselves unless they are told otherwise: what was copied would be said to be where it is not.
"""

import base64
from collections.abc import Mapping
from typing import Final

from midstream.safety.sanitize import sanitized

_KNOWN_BY: Final = (
    *("KITTY_WINDOW_ID", "WEZTERM_PANE", "GHOSTTY_RESOURCES_DIR", "ALACRITTY_WINDOW_ID"),
    "WT_SESSION",
)
_MOST: Final = 74_000
"""Bytes that all of them take; some drop more than that."""


def copying(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that puts a text into the clipboard, "" where it may not get there.

    What is pasted is read by a shell, too: controls in it are made visible.
    """
    is_known = any(environ.get(name) for name in _KNOWN_BY) or "foot" in environ.get("TERM", "")
    if not is_known or environ.get("TMUX") or environ.get("STY"):
        return ""
    data = base64.b64encode(sanitized(text).encode("utf-8", "replace")).decode("ascii")
    return f"\x1b]52;c;{data}\x07" if len(data) <= _MOST else ""

"""Mistakes that are made in the text of an edit again and again, each known by what mends it.

Each looks whether the text would be there without the mistake, and says so: which, and at what line.
"""

import html
import re
from typing import Final

_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\'": "'"}
_FENCE: Final = re.compile(r"\A\s*```[^\n`]{0,40}\n(.*?)\n?```\s*\Z", re.DOTALL)
_ELIDED: Final = re.compile(r"(?:#|//|/\*|--|<!--|;|%)?\s{0,4}(?:\.\.\.|…)")
_MAX_WORDS: Final = 200
_MAX_CHARS: Final = 200_000
"""Of an old text and of a file, to look for the same words with other line breaks."""


def known_mistake(text: str, old: str) -> str:
    """Return words on the mistake that keeps `old` from being in `text`; "": it is none of these."""
    for known in (_escaped, _line_ends, _ends, _fenced, _encoded):
        words = known(text, old)
        if words:
            return words
    return ""


def line_of(text: str, piece: str) -> int:
    """Return the first line at which a text holds a piece."""
    return 1 + text.count("\n", 0, text.find(piece))


def _ends(text: str, old: str) -> str:
    """Know a line break after the end of a file that has none there, and one before its beginning."""
    core = old.strip("\r\n")
    if not core.strip():
        return ""
    if old.endswith("\n") and text.endswith(old.rstrip("\r\n")):
        line = 1 + text.count("\n", 0, len(text) - len(old.rstrip("\r\n")))
        return f"It is at line {line}, but the file does not end with a line break: leave the last out."
    if old.startswith(("\r", "\n")) and text.startswith(old.lstrip("\r\n")):
        return "It is at line 1, where no line break comes before it: leave the first out."
    return ""


def _escaped(text: str, old: str) -> str:
    clean = old
    for escape, char in _ESCAPES.items():
        clean = clean.replace(escape, char)
    if clean == old or clean not in text:
        return ""
    held = ", ".join(escape for escape in _ESCAPES if escape in old)
    return (
        f"old_text holds {held} as two characters each, a backslash and a letter or quote; the file "
        f"has the character itself, at line {line_of(text, clean)}. Escape it once, not twice."
    )


def _line_ends(text: str, old: str) -> str:
    if "\r" not in text and "\r" not in old:
        return ""
    clean, wanted = text.replace("\r\n", "\n"), old.replace("\r\n", "\n")
    if wanted not in clean:
        return ""
    line = line_of(clean, wanted)
    if "\r" in old and "\r\n" not in text:
        return f"It is at line {line}, but for the line ends: the file has \\n, old_text \\r\\n."
    return (
        f"It is at line {line}, but for the line ends: the file has both \\n and \\r\\n, and there "
        "others than old_text. Write \\r\\n where the file does, or edit line by line."
    )


def _fenced(text: str, old: str) -> str:
    found = _FENCE.match(old)
    if found is None or not found[1].strip() or found[1] not in text:
        return ""
    line = line_of(text, found[1])
    return f"Without the ``` lines around it it is at line {line}: leave them out."


def _encoded(text: str, old: str) -> str:
    clean = html.unescape(old)
    if clean == old or clean not in text:
        return ""
    return (
        "old_text is written for HTML (such as &lt; for <); the file has the characters themselves, "
        f"at line {line_of(text, clean)}."
    )


def broken_elsewhere(text: str, old: str) -> tuple[int, int] | None:
    """Return the first and last line of the same words with other line breaks, None: there are none."""
    words = old.split()
    if not 1 < len(words) <= _MAX_WORDS or len(text) > _MAX_CHARS:
        return None
    # No word holds a blank, so nothing is tried twice.
    found = re.search(r"\s*".join(map(re.escape, words)), text)
    if found is None:
        return None
    first = 1 + text.count("\n", 0, found.start())
    return first, first + found[0].count("\n")


def left_out(text: str, old: str) -> str:
    """Return words on a line of `old` that stands for lines of the file; "": there is none."""
    for line in old.split("\n"):
        if _ELIDED.match(line.strip()) and line.strip() not in text:
            return (
                f"old_text has the line {line.strip()[:80]!r}: nothing can stand for lines of the file. "
                "Write them all, or make one edit before and one after them."
            )
    return ""

r"""The one sanitizer: what may reach a terminal of text we did not write ourselves.

A terminal obeys what it prints. Foreign text (a model's, a tool's, a file's) may hold control
sequences that move the cursor, rewrite what was shown, reach the clipboard or answer as the
keyboard; and characters nobody sees that reorder or hide words. None of them passes: each becomes a
visible escape, so that a person also sees that it was there.

    C0 and DEL              their control picture, one cell: ESC is `␛` (newline and tab pass)
    C1, bidi controls, tags, invisible fillers, line separators    `\x9b`, `\u202e`, `\U000e0041`
    joiners, variation selectors    pass where scripts and emoji need them, else `\u200d`
    combining marks         pass in words; behind a gap and beyond 8 in a row `\u0301`
    lone surrogates         U+FFFD

Sanitizing twice changes nothing. Text without suspects (nearly all) costs one regex search.
"""

import re
from functools import cache
from typing import Final

_COMBINING: Final = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_JOINED_SCRIPTS: Final = "\u0600-\u08ff\u0900-\u0dff\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff"
_EMOJI: Final = "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"

_NEVER: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e"
    "\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_SOMETIMES: Final = "\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"

# One character class and nothing else: the search for it runs at several hundred MB/s where it is
# small, which it is for text in ASCII.
_ASCII_SUSPECT: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_SUSPECT: Final = re.compile(f"[{_NEVER}{_SOMETIMES}{_COMBINING}]")
_OBEYED: Final = re.compile(f"[{_NEVER}\n\t]")
_BAD: Final = re.compile(f"[{_NEVER}{_SOMETIMES}]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PASSES: Final = frozenset({"joined", "emoji", "variant", "ideograph"})


@cache
def _found() -> re.Pattern[str]:
    """Return the pattern of all suspects by what they are. Few programs ever meet one: made when it is."""
    return re.compile(
        f"(?P<joined>(?<=[{_JOINED_SCRIPTS}])[\u200c\u200d](?=[{_JOINED_SCRIPTS}]))"
        f"|(?P<emoji>(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}]))"
        f"|(?P<variant>(?<=[{_EMOJI}0-9#*])[\ufe0e\ufe0f])"
        "|(?P<ideograph>(?<=[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef])"
        # Where a line is broken, they would stand at the start of a row.
        f"|(?P<marks>(?:^|(?<=[ \t]))[{_COMBINING}]+)"
        f"|(?P<some>[{_COMBINING}]{{8}})(?P<more>[{_COMBINING}]+)"
        f"|(?P<bad>[{_NEVER}{_SOMETIMES}])",
        re.MULTILINE,
    )


def sanitized(text: str) -> str:
    """Return the text with everything a terminal would obey, or a reader not see, made visible.

    The result holds no control but newline and tab and can be encoded as UTF-8.
    """
    suspect = _ASCII_SUSPECT if text.isascii() else _SUSPECT
    if suspect.search(text) is None:
        return text
    return _found().sub(_shown, text.replace("\r\n", "\n"))


def on_one_line(text: str) -> str:
    """Return the text sanitized, with single blanks for its line breaks and all other space."""
    return " ".join(sanitized(text).split())


def scrubbed(text: str) -> str:
    """Return the text with each lone surrogate as U+FFFD, so that it can be encoded and stored."""
    return _SURROGATE.sub("\ufffd", text)


def controlled(text: str) -> str:
    """Return sanitized text of the same length, whatever has been done to it since.

    Cut at another place, a sanitized text may hold what would be written longer now, such as half of a
    joined emoji. It stays as it is here: rows have been measured. Only what a terminal would obey does
    not, each as one visible cell.
    """
    if text.isascii() and text.isprintable():
        return text
    return _OBEYED.sub(lambda found: _picture(found[0]), text)


def masked(text: str) -> str:
    """Return text of the same length with each suspect as one visible cell.

    For text under a cursor, where positions must not move: the line a person edits.
    """
    return _BAD.sub(lambda found: _picture(found[0]), text)


def joiners(text: str) -> list[int]:
    """Return where in a text joiners and selectors stand that scripts and emoji need, in order.

    They take no cell, and nobody is misled where they are left out of what is drawn.
    """
    if text.isascii() or _BAD.search(text) is None:
        return []
    return [found.start() for found in _found().finditer(text) if found.lastgroup in _PASSES]


def _picture(char: str) -> str:
    if char == "\t":
        return " "
    if char < " ":
        return chr(0x2400 + ord(char))
    return "␡" if char == "\x7f" else "�"


def _shown(found: re.Match[str]) -> str:
    if found.lastgroup in _PASSES:
        return found[0]
    if found["some"] is not None:
        return found["some"] + "".join(map(_escape, found["more"]))
    return "".join(map(_escape, found[0]))


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return _picture(char)
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

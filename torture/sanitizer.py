"""A storm of foreign text on a terminal that obeys everything, behind our sanitizer.

The terminal is `pyte`'s. Texts are random bytes, random characters and control sequences people
attack terminals with, laid out as the console lays out an agent's words, above a prompt. Whatever
comes: the cursor is where our own lines leave it, every row begins with our gutter, no cell has a
colour we did not choose, and neither modes, margins, tab stops, character sets nor the title change.
"""

import random

import pyte

from midstream.safety.sanitize import masked, sanitized
from midstream.tui.styled_lines import Line, rows, to_ansi, to_plain
from torture.report import Broken, Report

ATTACKS = (
    *("\x1b[2J", "\x1b[H", "\x1b[3J", "\x1b[1A", "\x1b[99D", "\x1b[10;10H", "\x1b[s", "\x1b[u"),
    *("\x1b7", "\x1b8", "\x1bc", "\x1b[!p", "\x1b#8", "\x1b[?1049h", "\x1b[?25l", "\x1b[?7l"),
    *(
        "\x1b[?1000h",
        "\x1b[?2004l",
        "\x1b[20h",
        "\x1b[4h",
        "\x1b[2;5r",
        "\x1b[3g",
        "\x1bH",
        "\x1bD",
    ),
    *("\x1bM", "\x1bE", "\x1b[L", "\x1b[M", "\x1b[P", "\x1b[@", "\x1b[X", "\x1b[K", "\x1b[1;31m"),
    *("\x1b[38;2;1;2;3m", "\x1b[7m", "\x1b[8m", "\x1b(0", "\x1b)0", "\x0e", "\x0f", "\x1b%G"),
    *(
        "\x1b]0;title\x07",
        "\x1b]2;title\x1b\\",
        "\x1b]52;c;aGk=\x07",
        "\x1b]8;;http://e\x07x\x1b]8;;\x07",
    ),
    *(
        "\x1b]1337;File=:AA==\x07",
        "\x1b]50;?\x07",
        "\x1bP$qm\x1b\\",
        "\x1b_G\x1b\\",
        "\x1b^x\x1b\\",
    ),
    *(
        "\x1b[6n",
        "\x1b[c",
        "\x1b[5n",
        "\x1b[21t",
        "\x05",
        "\x9b2J",
        "\x9d0;t\x9c",
        "\x90q\x9c",
        "\x84",
    ),
    *(
        "\x85",
        "\x8d",
        "\r",
        "\x08" * 9,
        "\x0b",
        "\x0c",
        "\x07",
        "\x7f",
        "\x00",
        "\x18",
        "\x1a",
        "\x1b",
    ),
    *("\u202e", "\u2066", "\u2069", "\u200f", "\u200b", "\u200d", "\ufeff", "\u2028", "\u2029"),
    *("\U000e0041", "\U000e0001", "\u0301" * 40, "\ufe0f", "\u115f", "\u3164", "\ud800", "\udfff"),
)
_CRUMBS = (
    *ATTACKS,
    *ATTACKS,
    "[",
    "]",
    ";",
    "1",
    "m",
    "h",
    "l",
    "?",
    "\\",
    "\n",
    "\t",
    " ",
    "word ",
)
_COLOURS = frozenset({"default", "cyan", "red"})


def sanitizer_storm(count: int, seed: int) -> Report:
    """Return which of so many texts did something to a terminal but stand on it."""
    chance = random.Random(seed)
    broken: list[Broken] = []
    for number in range(count):
        text = _text(chance)
        what = _wrong(text, chance.choice((4, 8, 20, 41, 80)))
        if what:
            again = f"python -m torture sanitizer --seed {seed} --screens {number + 1}"
            broken.append(Broken(point=f"screen {number}", what=f"{what}: {text!r}", again=again))
    return Report(name="sanitizer", tried=count, broken=tuple(broken), note="on pyte's screen")


def _text(chance: random.Random) -> str:
    kind = chance.randrange(3)
    if kind == 0:
        return chance.randbytes(chance.randrange(120)).decode("latin-1")
    if kind == 1:
        return "".join(chr(chance.randrange(0x110000)) for _ in range(chance.randrange(60)))
    return "".join(chance.choice(_CRUMBS) for _ in range(chance.randrange(40)))


def _wrong(text: str, width: int) -> str:
    clean = sanitized(text)
    if sanitized(clean) != clean:
        return "sanitizing it again changes it"
    if any(_is_control(char) for char in clean):
        return "a control is left in it"
    clean.encode("utf-8")
    if len(masked(text)) != len(text) or any(_is_control(char) for char in masked(text)):
        return "masked it has another length, or a control"
    return _on_screen(text, width) or _as_plain_line(text)


def _is_control(char: str) -> bool:
    return (char < " " and char not in "\n\t") or "\x7f" <= char <= "\x9f"


def _on_screen(text: str, width: int) -> str:
    laid = rows(Line((("31", text),), "▌ ", "36", "▌ "), width)
    screen = pyte.Screen(width, len(laid) + 8)
    stream = pyte.Stream(screen)
    stream.feed("\x1b[36mprompt\x1b[0m\r\n\x1b[?7l")  # rows are not broken by the terminal
    before = _state(screen)
    for row in laid:
        stream.feed(to_ansi(row) + "\r\n")
    top = 1 + max(0, len("prompt") - 1) // width
    if _state(screen) != before:
        return "a mode, a margin, a tab stop, a character set or the title changed"
    if (screen.cursor.x, screen.cursor.y) != (0, top + len(laid)):
        return f"the cursor is at {screen.cursor.x}, {screen.cursor.y}"
    if screen.cursor.attrs.fg != "default" or screen.cursor.attrs.reverse:
        return "a colour goes on"
    for number in range(len(laid)):
        line = screen.buffer[top + number]
        if line[0].data != "▌":
            return f"row {number} begins with {line[0].data!r}"
        if any(line[x].fg not in _COLOURS or line[x].bg != "default" for x in range(width)):
            return f"row {number} has a colour that is not ours"
    if any(line.strip() for line in screen.display[top + len(laid) :]):
        return "something stands below"
    return ""


def _state(screen: pyte.Screen) -> tuple[object, ...]:
    return (
        frozenset(screen.mode),
        screen.margins,
        frozenset(screen.tabstops),
        screen.charset,
        screen.title,
        screen.icon_name,
        screen.cursor.hidden,
        len(screen.savepoints),
    )


def _as_plain_line(text: str) -> str:
    written = to_plain([Line((("", text),), "  ")])
    if written.count("\n") != 1 or any(_is_control(char) for char in written):
        return "as a plain line it is more than one, or has a control"
    return ""

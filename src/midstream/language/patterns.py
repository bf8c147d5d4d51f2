r"""Regular expressions that cannot run away: the part of Python's that a finite automaton can do.

Python's own engine goes back and tries again: `(a+)+b` may keep it busy for years, and even `.*x.*y`
takes the cube of the text's length, so no rule about which patterns are harmless is both safe and of
use. Here Rust's engine looks, by way of pydantic-core: an automaton that takes time by the length of the
text, whatever the pattern. It is told in its own words what Python means by a pattern. The cost is
counted, not timed, so that a search too long for its budget is refused alike on every machine and in
every replay.

Kept: characters, `.`, `[...]`, `\d \w \s \b` and their opposites, `^ $ \A \Z`, groups, `|`, `* + ?`
and `{m,n}`, the lazy forms (they find the same), and the flags `(?imsa)` at the beginning. Left out:
backreferences and looking around, which no automaton can do, and possessive and atomic forms. A `$`
may stand before a newline that ends the text; nothing behind it in the pattern finds that newline again.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NoReturn

import msgspec

from midstream.language.errors import BadText, clip

MAX_CHARS: Final = 300
"""Characters of a pattern."""

_HEAVY: Final = 8
"""Classes, groups and counted repetitions of a pattern that make a search as dear again."""


class BadPattern(BadText):
    """A text is no pattern, or one that is left out here."""


class Pattern(msgspec.Struct, frozen=True):
    """A pattern, ready to be looked for: `is_in` says whether some part of a text fits."""

    is_in: Callable[[str], bool]
    weight: int

    def cost(self, text: str) -> int:
        """Return how many steps a search is counted as: one for every four characters, or more."""
        return 1 + len(text) // 4 * self.weight


_FLAGS = re.compile(r"\(\?([a-zA-Z]+)\)")
_ESCAPE = r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[0-7]{1,3}|.)"
_COUNT = r"\{(?!\})([0-9]*)(?:(,)([0-9]*))?\}"
_PIECE = re.compile(
    rf"(?P<escape>{_ESCAPE})|(?P<set>\[\^?+\]?+(?:[^\]\\]|\\.)*+\])|(?P<group>\(\?(?!:|P<[A-Za-z_]))"
    rf"|(?P<times>(?:[*+?]|{_COUNT})\+?)|.",
    re.DOTALL,
)
_IN_SET = re.compile(rf"({_ESCAPE}|.)(?:-({_ESCAPE}|.))?", re.DOTALL)
_AMBIGUOUS = re.compile(r"^\[|--|&&|~~|\|\|")
_CLASSES = {"d": r"\p{Nd}", "w": r"\p{L}\p{N}_", "s": r"\s\x1c-\x1f"}
_ASCII_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r" \t\n\r\f\v"}

_TOLD = {
    "missing ), unterminated subpattern": ('a "(" is not closed.', ""),
    "unbalanced parenthesis": ('there is a ")" without "(".', 'Or write "\\)".'),
    "nothing to repeat": ("there is nothing to repeat.", 'Such as "*" itself is "\\*".'),
    "multiple repeat": ("one repetition follows another.", "Put the first one into a group."),
    "min repeat greater than max repeat": ("the first number of a count is larger.", ""),
    "bad escape (end of pattern)": ('"\\" means nothing.', 'A backslash itself is "\\\\".'),
}
"""What `re` finds wrong, in our words, and the way out."""


class _Writer:
    """Writes a pattern of Python's as Rust's engine reads it.

    `breadth` is how many places in the pattern a search may be at, at once: its classes, groups and
    repetitions, counted so that what is dear is never held for cheap.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        flags = _FLAGS.match(text)
        self.flags = flags[1] if flags else ""
        self.start = flags.end() if flags else 0
        self.breadth = 0
        if set(self.flags) - set("imsa"):
            self.refuse(
                f'the flags "{self.flags}" are not supported.', "Supported flags: i m s a.", 0
            )

    def refuse(self, message: str, hint: str, at: int) -> NoReturn:
        raise BadPattern(f"The pattern is wrong: {message}", hint, 1 + at)

    def written(self) -> str:
        """Return the whole of it. What is no pattern of Python's may come out as anything."""
        flags = "".join(sorted(set(self.flags) - {"a"}))
        pieces = _PIECE.finditer(self.text, self.start)
        return "".join((f"(?{flags})" if flags else "", *map(self.piece, pieces)))

    def piece(self, found: re.Match[str]) -> str:
        piece, at = found.group(), found.start()
        match found.lastgroup:
            case "escape":
                return self.escape(piece, at)
            case "set":
                return self.one_of(piece, at)
            case "group":
                hint = "Groups are ( ), (?: ) and (?P<name> ); no looking around, no flags inside."
                form = clip(self.text[at : at + 4])
                self.refuse(f'the group "{form}" is not kept.', hint, at)
            case "times":
                return self.times(found)
        self.breadth += piece in (".", ")")
        if piece == "[":
            self.refuse('a "[" is not closed.', "", at)
        if piece == "$" and "m" not in self.flags:
            return r"(?:\n?\z)"
        return rf"\{piece}" if piece in "{}]" else piece

    def escape(self, piece: str, at: int) -> str:
        sign = piece[1]
        if sign.isdigit():
            what = f'"\\{sign}" looks back at a group, which is not supported.'
            self.refuse(what, "", at)
        if sign in "bB":
            if sign == "B" and "a" in self.flags:
                self.refuse(r'"\B" does not go with the flag a.', "", at)
            return f"(?-u:{piece})" if "a" in self.flags else piece
        return r"\z" if sign == "Z" else piece if sign == "A" else self.character(piece, at)

    def character(self, piece: str, at: int) -> str:
        """Return what a character, or a class of them, is in a set and outside."""
        sign = piece[-1]
        if piece[0] != "\\":
            return f"\\x{{{ord(sign):x}}}"
        if len(piece) == 2 and sign.lower() in _CLASSES:
            self.breadth += 1
            known = _ASCII_CLASSES if "a" in self.flags else _CLASSES
            return f"[{'^' if sign.isupper() else ''}{known[sign.lower()]}]"
        if piece[1].isdigit():
            return f"\\x{{{int(piece[1:], 8):x}}}"
        if len(piece) > 2 or sign in "ntrfva":
            return piece
        if sign.isascii() and sign.isalnum():
            self.refuse(f'"\\{sign}" means nothing.', 'A backslash itself is "\\\\".', at)
        return f"\\x{{{ord(sign):x}}}"

    def one_of(self, piece: str, at: int) -> str:
        self.breadth += 1
        inside = piece[1:-1]
        lead = "^" if inside.startswith("^") else ""
        inside = inside.removeprefix("^")
        # Python means to give these a meaning of their own one day, and warns.
        if _AMBIGUOUS.search(inside):
            message = '"[" first or one of -- && ~~ || in a set is ambiguous.'
            self.refuse(message, "Write \\[ or \\-.", at)
        return f"[{lead}{''.join(self.item(found, at) for found in _IN_SET.finditer(inside))}]"

    def item(self, found: re.Match[str], at: int) -> str:
        ends = [
            r"\x08" if end == r"\b" else self.character(end, at) for end in found.groups() if end
        ]
        return "-".join(ends)

    def times(self, found: re.Match[str]) -> str:
        sign, low, comma, high = found.group("times"), *found.groups()[4:7]
        if sign[-1] == "+" and len(sign) > 1:
            hint = 'Leave out the second "+".'
            self.refuse("a possessive repetition is not supported.", hint, found.start())
        if sign[0] != "{":
            return sign
        most = int(high or low or 0)
        is_of_group = self.text[found.start() - 1] == ")"
        # As if all that came before stood in the group.
        self.breadth = max(self.breadth, 1) * most if is_of_group else self.breadth + most
        return f"{{{low or 0}{comma or ''}{high or ''}}}"


@lru_cache(maxsize=256)
def compiled(text: str) -> Pattern:
    """Return the text as a pattern; remembered.

    Raises:
        BadPattern: it is none, is too large, or needs what is left out.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema  # not before there is one

    if len(text) > MAX_CHARS:
        raise BadPattern(f"A pattern may have {MAX_CHARS} characters, not {len(text):,}.")
    writer = _Writer(text)
    written = writer.written()
    try:
        re.compile(text)
        schema = core_schema.str_schema(pattern=written, regex_engine="rust-regex")
        fits = SchemaValidator(schema).isinstance_python
    except re.error as error:
        message, hint = _TOLD.get(error.msg, (f"{error.msg}.", ""))
        writer.refuse(message, hint, error.pos or 0)
    except (SchemaError, OverflowError) as error:
        raise BadPattern("The pattern is too large.", "Use a smaller count, or + or *.") from error
    return Pattern(fits, 1 + writer.breadth // _HEAVY)


def fits_whole(pattern: str, name: str) -> bool:
    """Return whether a pattern fits the whole of a name, not just a part of it; "" and "*" fit any.

    Raises:
        BadPattern: it is none.
    """
    if pattern in ("", "*"):
        return True
    if not re.search(r"[^\w|-]", pattern):
        return name in pattern.split("|")  # as most are: no engine need be loaded
    return compiled(rf"\A(?:{pattern})\Z").is_in(name)

"""What `exact_search` looks for in a line: a literal text, or a regular expression.

Expressions are RE2's, an automaton: a search takes time by the length of the text, whatever the
expression, and one that would grow too large is refused. Whether ripgrep helps or not, RE2 alone says
which lines fit: ripgrep gets no expression, only a literal text that each line must hold, where the
expression has one. So the answers are the same with it and without it.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from midstream.language.errors import UserMistake, clip

_TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*+\]|\{[^{}]*\}|.", re.DOTALL)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_ ,;:=<>@%&~'\"!#/-]")
_UNUSUAL: Final = re.compile(r"\\(?![dswbDSWB]|[^A-Za-z0-9])|\(\?(?!:)|\[:")
"""Ends of the text, flags, names, codes: what only RE2 itself reads here."""


class LinePattern(msgspec.Struct, frozen=True, kw_only=True):
    """`find` returns where in a line it begins, -1 where it does not fit; `may_be_in` is False only of
    texts none of whose lines fit. `literal` is in every line that fits, "" where none is known.
    """

    find: Callable[[str], int]
    may_be_in: Callable[[str], bool]
    literal: str


def literal_text(text: str, *, ignore_case: bool) -> LinePattern:
    """Return what finds exactly this text."""
    if not ignore_case:
        return LinePattern(
            find=lambda line: line.find(text), may_be_in=lambda whole: text in whole, literal=text
        )
    needle = text.casefold()
    return LinePattern(
        find=lambda line: line.casefold().find(needle),
        may_be_in=lambda whole: needle in whole.casefold(),
        literal=text,
    )


def regular_expression(text: str, *, ignore_case: bool) -> LinePattern:
    """Return what finds where an expression fits. A line has no end of its own in it, nor a CR before it.

    Raises:
        UserMistake: it is none, is too large, or needs what RE2 leaves out.
    """
    import re2  # type: ignore[import-untyped]  # not before somebody searches

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    # Of a text of many lines it finds at least what it finds of each; the empty one is in every text.
    many = "" if _UNUSUAL.search(text) else f"(?m:{text})"
    try:
        search = re2.compile(text.encode("utf-8", "replace"), options).search
        anywhere = re2.compile(many.encode("utf-8", "replace"), options).search
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if error.args else "it is none"
        raise UserMistake(
            f"The regular expression cannot be used: {clip(why)}.",
            hint="It is RE2's syntax: no looking around, no backreferences, counts up to 1,000.",
        ) from error

    def find(line: str) -> int:
        data = line.encode()
        found = search(data)
        return -1 if found is None else len(data[: found.start()].decode("utf-8", "replace"))

    def may_be_in(whole: str) -> bool:
        return anywhere(whole.encode()) is not None

    return LinePattern(find=find, may_be_in=may_be_in, literal=required_text(text))


def required_text(expression: str) -> str:
    """Return the longest text known to be in whatever an expression fits, "" where none is.

    Careful rather than clever: only characters outside groups and sets that nothing makes optional.
    """
    if _UNUSUAL.search(expression) or not expression.isascii():
        return ""
    runs, depth = [""], 0
    for piece in _TOKEN.findall(expression):
        if piece == "|" and not depth:
            return ""
        depth += (piece == "(") - (piece == ")")
        if piece[0] in "*?{":
            runs[-1:] = [runs[-1][:-1], ""]
        elif not depth and _PLAIN.fullmatch(piece):
            runs[-1] += piece
        else:
            runs.append("")
    return max(runs, key=len)

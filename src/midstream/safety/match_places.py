r"""Where in a text a pattern may fit, found by an engine that reads each character once.

Python's `re` tries at each place anew, and what stands there may be made to have it try for long. RE2
runs all patterns at once as one automaton, whatever the text. What it cannot say is left out of them
(`loosened`): what stands before and after, and that nothing is given back. So it finds too many places
and never too few; at those `re` has the last word.

RE2 reads bytes, and its places are counted in them. So it is given an outline of the text (`outline`),
in which each character has one byte: a place there is the same place in the text.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Final

Finder = Callable[[bytes, int], int]
"""Returns where the first fit in an outline begins, from a place on; -1 if there is none."""

_BEHIND: Final = re.compile(r"([^|()]+)\(\?<!\\w\1\)")
_AROUND: Final = re.compile(r"\(\?<?[=!](?:[^()]|\([^()]*\))*\)")
_COUNT: Final = re.compile(r"\{(\d+),\d*\}\+")
_GROUP: Final = re.compile(r"\(\?P<\w+>")
_WRITTEN: Final = (
    ("*+", "*?"),
    ("?+", "??"),
    ("}+", "}"),
    ("(?>", "(?:"),
    (r"\Z", r"\z"),
    ("(?ai:", "(?i:"),
    # What ASCII has not is a question mark in an outline, and a question mark may be any of it.
    (r"[\s]", r"[\s\v\x1c-\x1f?]"),
    ("@?#", "@#"),
)


_MOST: Final = 12
"""Characters counted at the most: each more, from each place anew, is a state more to be in."""


def outline(text: str) -> bytes:
    """Return a text with a question mark for each character that ASCII has not."""
    return text.encode("ascii", "replace")


def loosened(pattern: str) -> str:
    """Return a pattern for RE2 that fits, in an outline, wherever one of `re` fits in a text.

    Where it fits it ends as early as it can. Counts have no upper end in it, and a low one.
    """
    looser = _AROUND.sub("", _BEHIND.sub(r"\\b\1", pattern))
    looser = _GROUP.sub("(?:", _COUNT.sub(_counted, looser))
    for ours, theirs in _WRITTEN:
        looser = looser.replace(ours, theirs)
    return looser


def _counted(found: re.Match[str]) -> str:
    return f"{{{min(int(found[1]), _MOST)},}}?"


@cache
def finder(*patterns: str) -> Finder:
    """Return what finds where one of some patterns for RE2 fits; remembered."""
    # Not before a text is looked through: the first prompt does without.
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    search = re2.compile("|".join(patterns).encode("ascii"), options).search

    def find(text: bytes, at: int) -> int:
        found = search(text, at)
        return -1 if found is None else found.start()

    return find

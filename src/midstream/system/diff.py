"""A change of a file as a person reads it: a unified diff that leaves nothing out unsaid.

Foreign text comes as it is; whoever shows it escapes what is no text. Comparing is bounded: where
too much differs, the whole stretch is shown as taken out and put in, which is just as true.
"""

import hashlib
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from typing import Final

import msgspec

from midstream.system.own_process import beginning
from midstream.views.side_effects import FileDiff

MAX_SHOWN_CHARS: Final = 60_000
MAX_SHOWN_LINES: Final = 1_500
MAX_COMPARED: Final = 500
"""Lines on either side between the first and the last that differ; beyond it they are not compared."""

MAX_TOLD_LINES: Final = 400
MAX_TOLD_CHARS: Final = 16_000
MAX_TOLD_WIDTH: Final = 400
"""What is told of a change once it is made: for a look, where the shown one is for a decision."""

_AROUND: Final = 3
_MOST_LINES: Final = MAX_SHOWN_LINES + 10
_NO_NEWLINE: Final = "\\ No newline at end of file"


def shown_change(name: str, before: bytes | None, after: bytes | None) -> str:
    """Return a change as a unified diff; of what is no text, sizes and SHA-256.

    `before` is None for a new file, `after` for one that goes. What does not fit ends in "+N more lines"
    with the SHA-256 of the file before and after.
    """
    sides = ("/dev/null" if each is None else name for each in (before, after))
    head = "--- {}\n+++ {}".format(*sides)
    if before == after:
        return f"{head}\n(nothing changes)"
    old, new = _text_of(before or b""), _text_of(after or b"")
    if old is None or new is None:
        sizes = f"Before: {_sized(before)}. After: {_sized(after)}."
        return f"{head}\nNot text, so no lines to compare. {sizes}"
    if before is None and not after:
        return f"{head}\n(a new, empty file)"
    if after is None and not before:
        return f"{head}\n(an empty file is removed)"
    lines, count, _ = _hunks(old, new)
    digests = f"SHA-256 before: {_digest(before)}, after: {_digest(after)}"
    return f"{head}\n{_capped(lines, count, digests)}{_unseen(lines)}"


def _unseen(lines: list[str]) -> str:
    """Return a line that tells of lines that look as they did: nobody sees the blanks at their ends."""
    gone = {line[1:] for line in lines if line.startswith("-")}
    come = {line[1:] for line in lines if line.startswith("+")}
    if not {_seen(line) for line in gone - come} & {_seen(line) for line in come - gone}:
        return ""
    return "\n[Lines that look the same differ in the blanks at their ends.]"


def _seen(line: str) -> str:
    # A UI shows a carriage return as a sign, and so where blanks before it end.
    return line if line.endswith("\r") else line.rstrip()


def file_diff(name: str, before: bytes | None, after: bytes | None) -> FileDiff:
    """Return what was done to a file, its secrets redacted; of what is no text only its sizes."""
    old, new = _text_of(before or b""), _text_of(after or b"")
    if old is None or new is None:
        sizes = ("no file" if each is None else f"{len(each):,} bytes" for each in (before, after))
        said = "[not text: {} before, {} after]".format(*sizes)
        return FileDiff(path=name, added=0, removed=0, diff=said)
    lines, count, (removed, added) = _hunks(old, new)
    clean = beginning("\n".join(lines), MAX_SHOWN_CHARS).split("\n")
    shown: list[str] = []
    room = MAX_TOLD_CHARS
    for line in clean[:MAX_TOLD_LINES]:
        shown.append(line if len(line) <= MAX_TOLD_WIDTH else f"{line[:MAX_TOLD_WIDTH]}…")
        room -= len(shown[-1]) + 1
        if room < 0:
            break
    if (left := count - len(shown)) > 0:
        shown.append(f"[+{left:,} more line{'s'[: left != 1]}]")
    return FileDiff(path=name, added=added, removed=removed, diff="\n".join(shown))


def _text_of(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _sized(data: bytes | None) -> str:
    return "no file" if data is None else f"{len(data):,} bytes, SHA-256 {_digest(data)}"


def _digest(data: bytes | None) -> str:
    return "no file" if data is None else hashlib.sha256(data).hexdigest()


class _Stretch(msgspec.Struct, frozen=True, gc=False):
    """The lines of a text between those that both texts begin and end with, and some around.

    `lines` are the first of them; `count` says how many there are.
    """

    lines: list[str]
    count: int

    @property
    def is_whole(self) -> bool:
        return len(self.lines) == self.count


def _stretch(text: str, start: int, end: int) -> _Stretch:
    """Return the lines from `start` to `end`; a last one without its newline says so."""
    count = text.count("\n", start, end) + (end > start and text[end - 1] != "\n")
    lines: list[str] = []
    while start < end and len(lines) < _MOST_LINES:
        stop = text.find("\n", start, end)
        if stop < 0:
            lines.append(f"{text[start:end]}\n{_NO_NEWLINE}")
            break
        lines.append(text[start:stop])
        start = stop + 1
    return _Stretch(lines, count)


def _hunks(old: str, new: str) -> tuple[list[str], int, tuple[int, int]]:
    """Return the first lines of the difference of two texts, how many it has, and how many lines are
    taken out and put in.
    """
    start, tail = _alike(old, new)
    first = old.count("\n", 0, start)
    a, b = _stretch(old, start, len(old) - tail), _stretch(new, start, len(new) - tail)
    if max(a.count, b.count) > MAX_COMPARED:
        return _replaced(a, b, first)
    removed = added = 0
    lines: list[str] = []
    matcher = SequenceMatcher(None, a.lines, b.lines, autojunk=False)
    for group in matcher.get_grouped_opcodes(_AROUND):
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        lines.append(_head(first, a1, a2, b1, b2))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in a.lines[i1:i2]]
            else:
                lines += [f"-{line}" for line in a.lines[i1:i2]]
                lines += [f"+{line}" for line in b.lines[j1:j2]]
                removed, added = removed + i2 - i1, added + j2 - j1
    return lines, len(lines), (removed, added)


def _replaced(a: _Stretch, b: _Stretch, first: int) -> tuple[list[str], int, tuple[int, int]]:
    """Return the difference of stretches that are not compared, but for the few lines around them."""
    lead = _same(zip(a.lines[:_AROUND], b.lines[:_AROUND], strict=False))
    trail = 0
    if a.is_whole and b.is_whole:
        ends = zip(reversed(a.lines[lead:]), reversed(b.lines[lead:]), strict=False)
        trail = min(_same(ends), _AROUND + 1)
    lines = [_head(first, 0, a.count, 0, b.count)]
    lines += [f" {line}" for line in a.lines[:lead]]
    lines += [f"-{line}" for line in a.lines[lead : len(a.lines) - trail]]
    if a.is_whole:
        lines += [f"+{line}" for line in b.lines[lead : len(b.lines) - trail]]
    if trail:
        lines += [f" {line}" for line in a.lines[-trail:]]
    same = lead + trail
    return lines, 1 + a.count + b.count - same, (a.count - same, b.count - same)


def _same(pairs: Iterable[tuple[str, str]]) -> int:
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


def _alike(old: str, new: str) -> tuple[int, int]:
    """Return how many characters both texts begin with and end with, in whole lines, a few lines less."""
    shorter = min(len(old), len(new))
    start = _common(shorter, lambda at, end: old[at:end] == new[at:end])
    start = old.rfind("\n", 0, start) + 1
    for _ in range(_AROUND):
        start = old.rfind("\n", 0, max(start - 1, 0)) + 1
    n, m = len(old), len(new)
    tail = _common(shorter - start, lambda at, end: old[n - end : n - at] == new[m - end : m - at])
    begins = n - tail
    for _ in range(_AROUND + 1):
        stop = old.find("\n", begins)
        begins = n if stop < 0 else stop + 1
    return start, n - begins


def _common(most: int, is_same: Callable[[int, int], bool]) -> int:
    """Return up to where two texts are the same, by comparing ever smaller pieces."""
    at = 0
    for size in (65_536, 1_024, 32, 1):
        while at + size <= most and is_same(at, at + size):
            at += size
    return at


def _head(first: int, a1: int, a2: int, b1: int, b2: int) -> str:
    return f"@@ -{_span(first + a1, a2 - a1)} +{_span(first + b1, b2 - b1)} @@"


def _span(start: int, count: int) -> str:
    # As diff writes it: an empty stretch is named by the line before it.
    return f"{start + 1 if count else start},{count}"


def _capped(lines: list[str], count: int, digests: str) -> str:
    """Return the lines, or as many as fit and what the rest is."""
    shown: list[str] = []
    room = MAX_SHOWN_CHARS
    for line in lines[:MAX_SHOWN_LINES]:
        if len(line) > room:
            if room > 200:
                more = f"[+{len(line) - room:,} more characters of this line]"
                shown.append(f"{line[:room]} {more}")
            break
        shown.append(line)
        room -= len(line) + 1
    left = count - len(shown)
    if len(shown) == len(lines) == count and shown[-1] == lines[-1]:
        return "\n".join(shown)
    more = f"+{left:,} more line{'s'[: left != 1]}; " if left else ""
    # No line of a diff begins with a bracket: no file can hold this one.
    return "\n".join((*shown, f"[{more}{digests}]"))

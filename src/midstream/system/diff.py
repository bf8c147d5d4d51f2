"""A change of a file as a person reads it: a unified diff that leaves nothing out unsaid.

Foreign text comes as it is; whoever shows it escapes what is no text. Comparing is bounded: where
too much differs, the whole stretch is shown as taken out and put in, which is just as true.
"""

import hashlib
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Final

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


def _lines_of(text: str) -> list[str]:
    """Return the lines of a text; a last one without its newline says so."""
    *lines, last = text.split("\n")
    return [*lines, f"{last}\n{_NO_NEWLINE}"] if last else lines


def _hunks(old: str, new: str) -> tuple[list[str], int, tuple[int, int]]:
    """Return the first lines of the difference of two texts, how many it has, and how many lines are
    taken out and put in.
    """
    a, b = _lines_of(old), _lines_of(new)
    lead = _same(zip(a, b, strict=False))
    trail = _same(zip(reversed(a[lead:]), reversed(b[lead:]), strict=False))
    # What both begin and end with is not compared, but for the lines that are shown around.
    first, after = max(0, lead - _AROUND), max(0, trail - _AROUND)
    lead, trail = lead - first, trail - after
    a, b = a[first : len(a) - after], b[first : len(b) - after]
    if max(len(a), len(b)) > MAX_COMPARED:
        ends = len(a) - trail, len(b) - trail
        groups: Iterable[Sequence[tuple[str, int, int, int, int]]] = [
            [
                ("equal", 0, lead, 0, lead),
                ("replace", lead, ends[0], lead, ends[1]),
                ("equal", ends[0], len(a), ends[1], len(b)),
            ]
        ]
    else:
        groups = SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(_AROUND)
    removed = added = 0
    lines: list[str] = []
    for group in groups:
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        lines.append(_head(first, a1, a2, b1, b2))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in a[i1:i2]]
            else:
                lines += [f"-{line}" for line in a[i1:i2]]
                lines += [f"+{line}" for line in b[j1:j2]]
                removed, added = removed + i2 - i1, added + j2 - j1
    return lines[:_MOST_LINES], len(lines), (removed, added)


def _same(pairs: Iterable[tuple[str, str]]) -> int:
    """Return how many pairs, from the first on, are of the same."""
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


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

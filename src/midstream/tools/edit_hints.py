"""What is said of an edit that does not fit: the lines it may have meant, and in what they differ.

Nothing here changes a text, and nothing that nearly fits is ever taken for what fits: whoever made
the edit is told, and makes it again.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from midstream.system.own_process import beginning
from midstream.tools.tool_text import shortened

SEARCHED_LINES: Final = 20_000
SHOWN_LINES: Final = 12
SHOWN_CHARS: Final = 200
_MAX_COMPARED: Final = 200
_MAX_LOOKED_AT: Final = 800_000
"""Characters of a file, in lines of which only the beginning counts."""

_MAX_WANTED: Final = 2_000
_MAX_ANCHORS: Final = 20
_MIN_LIKENESS: Final = 0.6
_SHOWN_DIFFERENCES: Final = 5
_SHOWN_PLACES: Final = 3
_SHOWN_SIGNS: Final = 3
_MORE_LINES: Final = 2

_MAX_WORDS: Final = 200
_MAX_CHARS: Final = 200_000
"""Of an old text and of a file, to look for the same words with other line breaks."""

_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\'": "'"}
_FENCE: Final = re.compile(r"\A\s*```[^\n`]{0,40}\n(.*?)\n?```\s*\Z", re.DOTALL)
_ELIDED: Final = re.compile(r"(?:#|//|/\*|--|<!--|;|%)?\s{0,4}(?:\.\.\.|…)")
_NUMBERED: Final = re.compile(r"[ ]{0,10}(\d{1,9})(?:\t|[ ]?[|:→][ ]?)")
_QUOTES: Final = str.maketrans(dict.fromkeys("'`´‘’‚‛“”„‟«»′″", '"'))
_ALIKE: Final = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\xad", ""),
        # Letters of the Greek and Cyrillic alphabets that nobody tells from Latin ones.
        **dict(
            zip(
                "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u0501\u04bb\u03bf\u03bd"
                "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0405\u0406\u0408"
                "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7",
                "aeopcyxsijdhovABEKMHOPCTXSIJABEZHIKMNOPTYX",
                strict=True,
            )
        ),
    }
)


def near_miss(text: str, old: str) -> str:
    """Return words on what in `text` is most like `old`, which is not in it, and how it differs.

    Lines of the text are quoted with their numbers. Some work, but never more than a second or two,
    whatever the two are.
    """
    if not old.strip():
        return "old_text holds nothing but blanks. Put the lines around it into it."
    return _copied_numbers(text, old) or _nearly(text, old)


def _copied_numbers(text: str, old: str) -> str:
    lines = old.split("\n")
    bare = [
        line[found.end() :] if (found := _NUMBERED.match(line)) else line if not line else None
        for line in lines
    ]
    if any(line is None for line in bare):
        return ""
    clean = "\n".join(line for line in bare if line is not None)
    if clean == old:
        return ""
    fits = bool(clean) and clean in text
    if not fits and not all("\t" in line[:11] for line in lines if line):
        return ""  # They may well be what it says.
    words = "old_text begins its lines with numbers, as read_files shows them: leave them out."
    if fits:
        return f"{words} Without them it is at line {_line_of(text, clean)}."
    if not clean.strip():
        return words
    return f"{words} Without them it does not fit either. {_nearly(text, clean)}"


def _nearly(text: str, old: str) -> str:
    for known in (_escaped, _line_ends, _ends, _fenced, _encoded):
        if words := known(text, old):
            return words
    wanted = [line.removesuffix("\r") for line in old.split("\n", _MAX_WANTED)[:_MAX_WANTED]]
    part = _searched(text, wanted)
    words = _alike(part, wanted) or _broken_elsewhere(text, old) or _nearest(part, wanted)
    if part.note:
        words += f"\n{part.note}"
    return f"{words}\n{elided}" if (elided := _elided(text, old)) else words


class _Part(msgspec.Struct, frozen=True):
    """The lines of a file that are compared, how many stand before them, and what to say of that."""

    lines: list[str]
    before: int = 0
    note: str = ""


def _searched(text: str, wanted: Sequence[str]) -> _Part:
    """Return all lines of a text; of a long one those around a line that is there to the letter."""
    count = text.count("\n") + 1
    if count <= SEARCHED_LINES:
        return _Part([line.removesuffix("\r") for line in text.split("\n")])
    anchors = sorted({line.strip() for line in wanted if line.strip()}, key=len, reverse=True)
    at = next((at for line in anchors[:_MAX_ANCHORS] if (at := text.find(line)) >= 0), -1)
    before, start = 0, 0
    if at >= 0:
        before = max(text.count("\n", 0, at) - SEARCHED_LINES // 2, 0)
        for _ in range(SEARCHED_LINES // 2 if before else 0):
            at = text.rfind("\n", 0, at)
        start = text.rfind("\n", 0, at) + 1 if before else 0
    lines = text[start:].split("\n", SEARCHED_LINES)[:SEARCHED_LINES]
    return _Part(
        [line.removesuffix("\r") for line in lines],
        before,
        f"(Only lines {before + 1}-{before + len(lines)} of {count} were compared.)",
    )


# --- mistakes that are made again and again -----------------------------------------------------
#
# Each looks whether the text would be there without the mistake, and says so: which, and at what line.


def _line_of(text: str, piece: str) -> int:
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
        f"has the character itself, at line {_line_of(text, clean)}. Escape it once, not twice."
    )


def _line_ends(text: str, old: str) -> str:
    if "\r" not in text and "\r" not in old:
        return ""
    clean, wanted = text.replace("\r\n", "\n"), old.replace("\r\n", "\n")
    if wanted not in clean:
        return ""
    line = _line_of(clean, wanted)
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
    line = _line_of(text, found[1])
    return f"Without the ``` lines around it it is at line {line}: leave them out."


def _encoded(text: str, old: str) -> str:
    clean = html.unescape(old)
    if clean == old or clean not in text:
        return ""
    return (
        "old_text is written for HTML (such as &lt; for <); the file has the characters themselves, "
        f"at line {_line_of(text, clean)}."
    )


def _elided(text: str, old: str) -> str:
    """Return words on a line of `old` that stands for lines of the file; "": there is none."""
    for line in old.split("\n"):
        if _ELIDED.match(line.strip()) and line.strip() not in text:
            return (
                f"old_text has the line {beginning(line.strip(), 80)!r}: nothing can stand for lines "
                "of the file. Write them all, or make one edit before and one after them."
            )
    return ""


# --- the same but for how it is written ----------------------------------------------------------


class _Relaxed(msgspec.Struct, frozen=True):
    """A way not to see a difference, and its name."""

    name: str
    apply: Callable[[str], str]


def _lead(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _trail(line: str) -> str:
    return line[len(line.rstrip()) :]


def _with_gaps(line: str, gap: str) -> str:
    return _lead(line) + gap.join(line.split()) + _trail(line)


def _look_alike(line: str) -> str:
    return line if line.isascii() else unicodedata.normalize("NFKC", line).translate(_ALIKE)


_RELAXED: Final = (
    _Relaxed("trailing blanks", str.rstrip),
    _Relaxed("indentation", str.lstrip),
    _Relaxed("characters that look alike", _look_alike),
    _Relaxed("blanks", lambda line: _with_gaps(line, " ")),
    _Relaxed("blanks", lambda line: _with_gaps(line, "")),
    _Relaxed("quotes", lambda line: line.translate(_QUOTES)),
    _Relaxed("upper and lower case", str.casefold),
)


def _canonical(line: str) -> str:
    return "".join(_look_alike(line).translate(_QUOTES).casefold().split())


def _fits(line: str, wanted: str, *, is_first: bool, is_last: bool) -> bool:
    """Return whether a line fits: a first one may begin, and a last one end, within a line."""
    if is_first and is_last:
        return wanted in line
    if is_first:
        return line.endswith(wanted)
    return line.startswith(wanted) if is_last else line == wanted


def _differences(line: str, wanted: str, *, is_first: bool, is_last: bool) -> tuple[str, ...]:
    """Return the names of the fewest differences that must not be seen for a line to fit."""

    def fits(ways: Sequence[_Relaxed]) -> bool:
        one, other = line, wanted
        for way in ways:
            one, other = way.apply(one), way.apply(other)
        return _fits(one, other, is_first=is_first, is_last=is_last)

    if fits(()):
        return ()
    for way in _RELAXED:
        if fits((way,)):
            return (way.name,)
    left = list(_RELAXED)
    for way in _RELAXED:
        without = [each for each in left if each is not way]
        if fits(without):
            left = without
    return tuple(dict.fromkeys(way.name for way in left))


def _filled(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return the lines that are not blank in their canonical form, each with its index."""
    return [(at, clean) for at, line in enumerate(lines) if (clean := _canonical(line))]


def _alike(part: _Part, wanted: list[str]) -> str:
    """Return words on lines that are the same but for blanks, quotes and the like; "": there are none."""
    lines = part.lines
    file, old = _filled(lines), _filled(wanted)
    places = list(_windows([line for _, line in file], [line for _, line in old]))
    if not old or not places:
        return ""
    start = places[0]
    pairs = [(file[start + index][0], at) for index, (at, _) in enumerate(old)]
    first, last = pairs[0][0], pairs[-1][0]
    told: dict[str, list[int]] = {}
    names: dict[str, None] = {}
    for line, at in pairs:
        ends = {
            "is_first": line == first and at == 0,
            "is_last": line == last and at == len(wanted) - 1,
        }
        found = _differences(lines[line], wanted[at], **ends)
        names.update(dict.fromkeys(found))
        if found:
            details = ", ".join(_detail(name, lines[line], wanted[at]) for name in found)
            told.setdefault(details, []).append(part.before + line + 1)
    if not names:
        names["blank lines"] = None
    words = [f"The nearest lines differ only in {_listed(list(names))}:"]
    words += quoted(lines, first, last, before=part.before)
    words += [
        f"Line{'s'[: len(at) > 1]} {', '.join(map(str, at[:SHOWN_LINES]))}: {details}."
        for details, at in list(told.items())[:_SHOWN_DIFFERENCES]
    ]
    if len(places) > 1:
        more = ", ".join(str(part.before + file[place][0] + 1) for place in places[1:_SHOWN_PLACES])
        words.append(f"So do those from line {more} on.")
    return "\n".join(words)


def _windows(file: list[str], old: list[str]) -> Iterator[int]:
    """Give where in a file's canonical lines those of an old text stand."""
    if not old:
        return
    count, body = len(old), old[1:-1]
    for start in range(len(file) - count + 1):
        if count == 1:
            if old[0] in file[start]:
                yield start
        elif (
            file[start].endswith(old[0])
            and file[start + count - 1].startswith(old[-1])
            and file[start + 1 : start + count - 1] == body
        ):
            yield start


def _detail(name: str, line: str, wanted: str) -> str:
    if name == "indentation":
        ends = _lead(line), _lead(wanted)
    elif name == "trailing blanks":
        ends = _trail(line), _trail(wanted)
    elif name == "characters that look alike":
        return f"{name} ({_signs(line, wanted)} in the file, {_signs(wanted, line)} in old_text)"
    else:
        return name
    return f"{name} ({_blanks(ends[0])} in the file, {_blanks(ends[1])} in old_text)"


def _signs(line: str, other: str) -> str:
    """Return the characters beyond ASCII that a line has and another has not, by their names."""
    signs = [char for char in dict.fromkeys(line) if char not in other and not char.isascii()]
    names = [
        f"U+{ord(char):04X} {unicodedata.name(char, '')}".strip() for char in signs[:_SHOWN_SIGNS]
    ]
    return ", ".join(names) or "plain ones"


def _blanks(text: str) -> str:
    tabs, spaces = text.count("\t"), text.count(" ")
    parts = [
        f"{count} {name}{'s'[: count != 1]}"
        for count, name in (
            (tabs, "tab"),
            (spaces, "space"),
            (len(text) - tabs - spaces, "other blank"),
        )
        if count
    ]
    return " and ".join(parts) or "none"


def _listed(names: list[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def _broken_elsewhere(text: str, old: str) -> str:
    """Return words on the lines that have the same words with other line breaks; "": there are none."""
    words = old.split()
    if not 1 < len(words) <= _MAX_WORDS or len(text) > _MAX_CHARS:
        return ""
    # No word holds a blank, so nothing is tried twice.
    found = re.search(r"\s*".join(map(re.escape, words)), text)
    if found is None:
        return ""
    first = 1 + text.count("\n", 0, found.start())
    last = first + found[0].count("\n")
    span = f"line {first}" if first == last else f"lines {first}-{last}"
    shown = quoted(text.split("\n"), first - 1, last - 1)
    return "\n".join((f"The same words are at {span}, with other line breaks:", *shown))


# --- the most like it ---------------------------------------------------------------------------


def _nearest(part: _Part, wanted: list[str]) -> str:
    """Return words on the lines that share most with an old text."""
    lines = part.lines
    file, old = _filled(lines), _filled(wanted)
    # What holds nothing but signs that take no room is like no line.
    start = _most_shared(file, old) if old else None
    if start is None:
        return "No line of it is much like a line of the file. Read the file again."
    pairs = [
        (file[start + index][0], at)
        for index, (at, _) in enumerate(old)
        if 0 <= start + index < len(file)
    ]
    first, last = pairs[0][0], pairs[-1][0]
    # A line or two more: it may be that one in between was forgotten.
    shown = quoted(lines, first, min(last + _MORE_LINES, len(lines) - 1), before=part.before)
    words = ["The nearest lines are:", *shown]
    for line, at in pairs:
        if not _fits(lines[line], wanted[at], is_first=at == 0, is_last=at == len(wanted) - 1):
            number = part.before + line + 1
            words.append(f"What differs first, at line {number} (line {at + 1} of old_text):")
            words += [f"  file:     {_exact(lines[line])}", f"  old_text: {_exact(wanted[at])}"]
            break
    return "\n".join(words)


def _exact(line: str) -> str:
    """Return a line with its blanks to be seen."""
    return msgspec.json.encode(shortened(line, SHOWN_CHARS).replace("\0", "")).decode(
        errors="replace"
    )


def quoted(lines: Sequence[str], first: int, last: int, *, before: int = 0) -> list[str]:
    """Return lines with their numbers, as read_files shows them; of many the first.

    `before` counts the lines of the file that come before these.
    """
    shown = [
        f"{before + at + 1:>6}\t{shortened(lines[at], SHOWN_CHARS)}"
        for at in range(first, min(last + 1, first + SHOWN_LINES))
    ]
    left = last + 1 - first - len(shown)
    return [*shown, f"[... {left} more lines ...]"] if left > 0 else shown


def _most_shared(file: list[tuple[int, str]], old: list[tuple[int, str]]) -> int | None:
    """Return at which of a file's filled lines the old text's would begin to share most with them."""
    where: dict[str, list[int]] = {}
    for index, (_, line) in enumerate(old):
        where.setdefault(line, []).append(index)
    shares: dict[int, int] = {}
    for index, (_, line) in enumerate(file):
        for other in where.get(line, ())[:20]:
            shares[index - other] = shares.get(index - other, 0) + len(line)
    if shares and (best := max(shares.items(), key=lambda item: (item[1], -item[0])))[1] > 2:
        return best[0]
    anchor = max(range(len(old)), key=lambda index: len(old[index][1]))
    at = _most_like([line for _, line in file], old[anchor][1])
    return None if at is None else at - anchor


def _most_like(lines: list[str], wanted: str) -> int | None:
    from difflib import SequenceMatcher

    target = wanted[:300]
    matcher = SequenceMatcher(autojunk=False, b=target)
    best, at, compared, looked_at = _MIN_LIKENESS, None, 0, 0
    for index, line in enumerate(lines):
        looked_at += min(len(line), 300)
        if looked_at > _MAX_LOOKED_AT:
            break
        matcher.set_seq1(line[:300])
        # The two quick ratios are upper bounds of the dear one, which is worked out so many times.
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            compared += 1
            likeness = matcher.ratio()
            if likeness > best:
                best, at = likeness, index
            if compared == _MAX_COMPARED:
                break
    return at

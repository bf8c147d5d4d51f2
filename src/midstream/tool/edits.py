"""Exact edits of a text, and help for one that does not fit: where it nearly would have."""

from typing import Annotated, Final

import msgspec

from midstream.core.errors import UserMistake

MAX_CHARS: Final = 10_000_000
SHOWN_PLACES: Final = 10
SHOWN_LINES: Final = 12
SEARCHED_LINES: Final = 20_000
MIN_LIKENESS: Final = 0.6


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One replacement."""

    old_text: Annotated[
        str, msgspec.Meta(description="The text to replace, exactly as it stands in the file.")
    ]
    new_text: Annotated[str, msgspec.Meta(description="What to put there.")]
    replace_all: Annotated[
        bool, msgspec.Meta(description="Replace every place instead of the only one.")
    ] = False


def edited(text: str, edits: list[Edit]) -> tuple[str, str]:
    """Return the text with all edits made, one after the other, and a line on what was done.

    A file with Windows line ends keeps them: an edit written with plain ones is fitted to it.

    Raises:
        UserMistake: an edit does not fit; it says which, why, and what is nearest.
    """
    done: list[str] = []
    has_crlf = "\r\n" in text and "\n" not in text.replace("\r\n", "")
    for number, edit in enumerate(edits, 1):
        label = f"edit {number} of {len(edits)}" if len(edits) > 1 else "the edit"
        old, new = edit.old_text, edit.new_text
        if has_crlf:
            old, new = _with_crlf(old), _with_crlf(new)
        found = text.count(old) if old else 0
        if not old or old == new:
            raise UserMistake(
                f"Nothing was changed: {label} has "
                + ("no old_text." if not old else "the same old_text and new_text.")
            )
        if not found:
            raise UserMistake(
                f"Nothing was changed: {label} did not fit, its old_text is not in the file.",
                hint=near_miss(text, old),
            )
        lines = _lines_of(text, old)
        if found > 1 and not edit.replace_all:
            raise UserMistake(
                f"Nothing was changed: {label} fits {found} places, at lines {lines}.",
                hint="Add lines around it until it fits one, or set replace_all.",
            )
        if len(text) + found * (len(new) - len(old)) > MAX_CHARS:
            raise UserMistake(f"Nothing was changed: {label} makes the file too large.")
        text = text.replace(old, new)
        done.append(f"replaced at line{'s' if found > 1 else ''} {lines}")
    return text, "; ".join(done)


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines_of(text: str, piece: str) -> str:
    numbers: list[int] = []
    start, line = 0, 1
    while len(numbers) <= SHOWN_PLACES and (at := text.find(piece, start)) >= 0:
        line += text.count("\n", start, at)
        numbers.append(line)
        line += piece.count("\n")
        start = at + len(piece)
    shown = ", ".join(map(str, numbers[:SHOWN_PLACES]))
    return f"{shown} and more" if len(numbers) > SHOWN_PLACES else shown


def near_miss(text: str, old: str) -> str:
    """Return words about the lines of `text` most like `old`, quoted with their numbers."""
    lines, wanted = text.split("\n")[:SEARCHED_LINES], old.strip("\n").split("\n")
    anchor = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    at = _most_like(lines, wanted[anchor])
    if at is None:
        return "No line of it is much like a line of the file. Read the file again."
    first = max(at - anchor, 0)
    window = lines[first : first + len(wanted)]
    if [_squeezed(line) for line in window] == [_squeezed(line) for line in wanted]:
        lead = "The nearest lines differ only in blanks:"
    else:
        lead = "The nearest lines are:"
    quoted = [f"{first + 1 + index:>6}\t{line[:200]}" for index, line in enumerate(window)]
    if len(quoted) > SHOWN_LINES:
        quoted = [*quoted[:SHOWN_LINES], f"[... {len(quoted) - SHOWN_LINES} more lines ...]"]
    return "\n".join((lead, *quoted))


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _most_like(lines: list[str], wanted: str) -> int | None:
    from difflib import SequenceMatcher

    target = _squeezed(wanted)[:300]
    matcher = SequenceMatcher(autojunk=False, b=target)
    best, at = MIN_LIKENESS, None
    for index, line in enumerate(lines):
        squeezed = _squeezed(line[:1_000])[:300]
        if squeezed == target:
            return index
        matcher.set_seq1(squeezed)
        # The two quick ratios are upper bounds of the dear one.
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            likeness = matcher.ratio()
            if likeness > best:
                best, at = likeness, index
    return at

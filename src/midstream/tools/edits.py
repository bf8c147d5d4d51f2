"""Exact edits of a text: all of them, or none. What does not fit to the letter is never made."""

from typing import Annotated, Final

import msgspec

from midstream.language.errors import UserMistake
from midstream.tools.edit_hints import near_miss

MAX_CHARS: Final = 10_000_000
SHOWN_PLACES: Final = 10


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
    whole = text
    has_crlf = "\r\n" in text and "\n" not in text.replace("\r\n", "")
    for number, edit in enumerate(edits, 1):
        label = f"edit {number} of {len(edits)}" if len(edits) > 1 else "the edit"
        old, new = edit.old_text, edit.new_text
        if has_crlf:
            old, new = _with_crlf(old), _with_crlf(new)
        _require_change(label, old, new)
        found = text.count(old)
        if not found:
            raise UserMistake(
                f"Nothing was changed: {label} did not fit, its old_text is not in the file.",
                hint=_why_not(_Tried(whole, text, edits, number), old, new),
            )
        lines = _lines_of(text, old)
        if not edit.replace_all:
            _require_one_place(label, _Tried(whole, text, edits, number), old, found, lines)
        if len(text) + found * (len(new) - len(old)) > MAX_CHARS:
            raise UserMistake(
                f"Nothing was changed: {label} makes the file too large.", hint="Split the file."
            )
        text = text.replace(old, new)
        done.append(f"replaced at line{'s' if found > 1 else ''} {lines}")
    if text == whole:
        raise UserMistake(
            "Nothing was changed: the edits undo each other.", hint="Leave one of them out."
        )
    return text, "; ".join(done)


def _require_change(label: str, old: str, new: str) -> None:
    if not old:
        raise UserMistake(
            f"Nothing was changed: {label} has no old_text.",
            hint="Use write_file for a new file; to add to one, replace a line by itself and more.",
        )
    if old == new:
        raise UserMistake(
            f"Nothing was changed: {label} has the same old_text and new_text.",
            hint="Say what should be there instead.",
        )


class _Tried(msgspec.Struct, frozen=True, gc=False):
    """The edit that does not fit, by its number, with the text before all edits and as it finds it."""

    whole: str
    text: str
    edits: list[Edit]
    number: int

    def others_like_it(self) -> list[int]:
        """Return the numbers of the other edits with the same old_text."""
        old = self.edits[self.number - 1].old_text
        same = (n for n, edit in enumerate(self.edits, 1) if edit.old_text == old)
        return [n for n in same if n != self.number]


def _require_one_place(label: str, tried: _Tried, old: str, found: int, lines: str) -> None:
    if not _is_more_than_once(tried.text, old):
        return
    places = f"{found} places, at lines {lines}"
    if found == 1:
        places = f"places that overlap, from line {lines} on"
    hint = "Add lines around it until it fits one, or set replace_all."
    if tried.text != tried.whole:
        places += " of the file as the edits above it leave it"
        if old in tried.whole and not _is_more_than_once(tried.whole, old):
            hint = f"One of them was there before: make this edit first. {hint}"
    if others := tried.others_like_it():
        hint += f" {_edits(others)} the same old_text: each needs the lines around its own place."
    raise UserMistake(f"Nothing was changed: {label} fits {places}.", hint=hint)


def _is_more_than_once(text: str, piece: str) -> bool:
    """Return whether a piece is there a second time, which may overlap with the first."""
    return text.find(piece, text.find(piece) + 1) >= 0


def _why_not(tried: _Tried, old: str, new: str) -> str:
    """Return what is known of an old text that is not there (any more)."""
    near = near_miss(tried.text, old)
    if old in tried.whole:
        return f"It was in the file before the edits above it, which are made first.{_gone(tried, near)}"
    if new.strip() and len(new) > 3 and new in tried.text:
        return f"Its new_text is there already, at line {_lines_of(tried.text, new)}.\n{near}"
    return near


def _gone(tried: _Tried, near: str) -> str:
    """Return what to do about an old text that an edit above has taken away."""
    before = [number for number in tried.others_like_it() if number < tried.number]
    if before:
        return (
            f" {_edits(before)} the same old_text: leave one out, or where they mean several places, "
            "give each the lines around its own."
        )
    return (
        f" Make one edit of those that change the same lines, or write it as they leave it.\n{near}"
    )


def _edits(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN_PLACES]))
    return f"Edit {shown} has" if len(numbers) == 1 else f"Edits {shown} have"


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

"""Setting one value in the text of an application.json, with everything else as it was.

The text is a person's: their comments, order and blanks stay. So nothing is parsed and written anew; the
place of the value is found and only that is replaced. What comes out is read again before it is used.
"""

import json
from collections.abc import Sequence
from typing import Final

from midstream.language.json_text import Member, Node, parse
from midstream.language.names import Json

_INDENT: Final = "  "


def with_value(text: str, path: Sequence[str], value: Json, *, older: str = "") -> str | None:
    """Return the text with the value at a path of keys, objects on the way to it made.

    `older` is what the key was called once: it makes way for it. None: the text is no object of
    settings, and cannot be edited without losing something.
    """
    if not text.strip("\ufeff \t\r\n"):
        return f"{{\n{_INDENT}{_entry(path, value)}\n}}\n"
    root = _object(text)
    if root is None:
        return None
    place, left = root, list(path)
    while len(left) > 1:
        member = place.members.get(left[0])
        if member is None:
            break
        if member.node.kind != "object":
            return _checked(_replaced(text, member, left, value), path, value)
        place = member.node
        left = left[1:]
    member = place.members.get(left[0]) or place.members.get(older)
    if member is not None:
        return _checked(_replaced(text, member, left, value), path, value)
    return _checked(_inserted(text, place, len(path) - len(left), left, value), path, value)


def without_value(text: str, path: Sequence[str]) -> str | None:
    """Return the text without the value at a path; unchanged where there is none.

    None: as in `with_value`. Comments around it stay, and so does an object that is empty now.
    """
    if not text.strip("\ufeff \t\r\n"):
        return text
    place = _object(text)
    if place is None:
        return None
    for key in path[:-1]:
        inner = place.get(key)
        if inner is None:
            return text
        place = inner
    member = place.members.get(path[-1])
    if member is None:
        return text
    end = member.node.end
    after = text[end:]
    comma = _comma(after)
    if comma is not None:
        after = after[:comma] + after[comma + 1 :]
    edited = _without_blank_line(text[: member.start], after)
    return edited if _object(edited) is not None else None


def _object(text: str) -> Node | None:
    parsed = parse(text)
    if parsed.root is None or parsed.flaws or parsed.root.kind != "object":
        return None
    return parsed.root


def _entry(path: Sequence[str], value: Json) -> str:
    written = json.dumps(value, ensure_ascii=False)
    for key in reversed(path[1:]):
        written = f"{{{json.dumps(key)}: {written}}}"
    return f"{json.dumps(path[0])}: {written}"


def _replaced(text: str, member: Member, left: Sequence[str], value: Json) -> str:
    return f"{text[: member.start]}{_entry(left, value)}{text[member.node.end :]}"


def _inserted(text: str, place: Node, depth: int, left: Sequence[str], value: Json) -> str:
    """Return the text with a new key at the beginning of an object, on a line of its own if it has lines.

    At the beginning, since a comment belongs to the key that follows it.
    """
    inside = place.start + 1
    before, rest = text[:inside], text[inside:]
    entry = _entry(left, value)
    comma = "," if place.members else ""
    if "\n" not in text[place.start : place.end] and depth:
        return f"{before}{entry}{f'{comma} ' if comma else ''}{rest}"
    newline = "\r\n" if "\r\n" in text else "\n"
    end = "" if "\n" in text[place.start : place.end] else newline
    return f"{before}{newline}{_INDENT * (depth + 1)}{entry}{comma}{end}{rest}"


def _comma(after: str) -> int | None:
    """Return where the comma behind a value is, comments before it passed over."""
    at = 0
    while at < len(after):
        if after[at] in " \t\r\n":
            at += 1
        elif after.startswith("//", at):
            at = after.find("\n", at) + 1 or len(after)
        elif after.startswith("/*", at):
            at = after.find("*/", at) + 2
        else:
            return at if after[at] == "," else None
    return None


def _without_blank_line(before: str, after: str) -> str:
    """Return both parts, without the line between them where nothing is left of it."""
    line_start = before.rpartition("\n")[2]
    line_end, newline, rest = after.partition("\n")
    if newline and not line_start.strip() and not line_end.strip():
        return f"{before[: len(before) - len(line_start)]}{rest}"
    if not line_start.strip():
        return before + after.lstrip(" \t")
    # In the middle of a line: one blank is enough.
    return before + (after[1:] if before.endswith((" ", "{")) and after.startswith(" ") else after)


def _checked(edited: str, path: Sequence[str], value: Json) -> str | None:
    node: Node | None = _object(edited)
    for key in path:
        node = None if node is None else node.get(key)
    return edited if node is not None and node.value == value else None

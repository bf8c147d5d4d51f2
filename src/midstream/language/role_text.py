"""A role as Markdown: what it may do between two lines of `---`, below them its system message. Pure.

    ---
    description: Reads, never writes.
    level: smart
    includedTools: [read_files, exact_search]
    ---
    You look for what is wrong ...

The name of the file is the role's. A value is JSON, or words as they stand; a list needs no quotes.
"""

import json
import re
from typing import Final

SUFFIXES: Final = (".json", ".md")
"""How the name of a role file ends."""
_EDGE: Final = "---"
_FOLDED: Final = ("|", "|-", ">", ">-")
_LINE: Final = re.compile(r"\s*([A-Za-z][\w-]*)\s*:\s*(.*?)\s*")


def is_role(name: str, text: str) -> bool:
    """Return whether a file of a folder of roles is one: Markdown without a head is a page for people."""
    return not name.endswith(".md") or text.split("\n", 1)[0].strip() == _EDGE


def head_of(text: str) -> tuple[dict[str, str], str]:
    """Return the values of a head by their keys, as words, and the text below it.

    Without a head all is text. A line set in goes on with the value above it; what is neither is left out.
    """
    text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    end = _end_of_head(lines)
    if lines[0].strip() != _EDGE or end == len(lines):
        return {}, text
    head: dict[str, str] = {}
    key = ""
    for line in lines[1:end]:
        found = _LINE.fullmatch(line)
        if line[:1].isspace() and key:
            head[key] = f"{head[key]} {line.strip()}".strip()
        elif found is not None:
            key = found[1]
            head[key] = "" if found[2] in _FOLDED else found[2]
    return {key: _unquoted(value) for key, value in head.items()}, "\n".join(lines[end + 1 :])


def _end_of_head(lines: list[str]) -> int:
    """Return which line ends a head, the number of lines where none does."""
    ends = (at for at, line in enumerate(lines[1:], 1) if line.strip() == _EDGE)
    return next(ends, len(lines))


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def as_json(name: str, text: str) -> str:
    """Return a role file as JSON text, every value on the line where it stood.

    What is no line of a head stays as it is, so that the reader of JSON says what is wrong, and where.
    """
    if not name.endswith(".md"):
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    role = json.dumps(name.rpartition("/")[2].removesuffix(".md"), ensure_ascii=False)
    end = _end_of_head(lines)
    message = json.dumps("\n".join(lines[end + 1 :]).strip(), ensure_ascii=False)
    members = (f"{{{role}: {{", *map(_member, lines[1:end]), f'"systemMessage": {message}}}}}')
    return "\n".join(members)


def _member(line: str) -> str:
    found = _LINE.fullmatch(line)
    if found is None:
        # A remark or an empty line is nothing; anything else is for the reader of JSON to refuse.
        return "" if not line.strip() or line.lstrip().startswith("#") else line
    key, value = found.groups()
    return f'"{key}": {_value(value)},'


def _value(text: str) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        if text.startswith("[") and text.endswith("]"):
            words = [word.strip().strip("'\"") for word in text[1:-1].split(",")]
            return json.dumps([word for word in words if word], ensure_ascii=False)
        return json.dumps(text, ensure_ascii=False)
    return text

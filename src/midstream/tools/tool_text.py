"""Tool text as a model may get it: no NUL, no half surrogate pairs, never endless."""

from typing import Final

from midstream.system.own_process import own_redactor

MAX_CHARS: Final = 50_000

MARGIN: Final = 8_000
"""Characters beyond a cut that are looked at for secrets: of one that is cut in two, neither half would
be known for what it is.
"""


def cleaned(text: str) -> str:
    """Return text every JSON encoder takes: NUL left out, lone surrogates as U+FFFD."""
    text = text.replace("\0", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def capped(text: str, max_chars: int = MAX_CHARS) -> str:
    """Return the text, its middle left out (and that said) where it is too long."""
    if len(text) <= max_chars:
        return text
    head, tail = (max_chars + 1) // 2, max_chars // 2
    return joined(beginning(text, head), len(text) - head - tail, ending(text, tail))


def beginning(text: str, chars: int) -> str:
    """Return about the first characters of a text, its secrets redacted before it is cut."""
    is_cut = len(text) >= chars + MARGIN
    clean = own_redactor().redacted(text[: chars + MARGIN])
    return clean[: max(len(clean) - MARGIN, 0) if is_cut else chars]


def ending(text: str, chars: int) -> str:
    """Return about the last characters of a text, its secrets redacted before it is cut."""
    is_cut = len(text) >= chars + MARGIN
    clean = own_redactor().redacted(text[max(len(text) - chars - MARGIN, 0) :])
    return clean[MARGIN if is_cut else max(len(clean) - chars, 0) :]


def joined(head: str, left_out: int, tail: str) -> str:
    """Return head and tail with the line between them that says how much is missing."""
    if not left_out:
        return head + tail
    return f"{head}\n[... {left_out:,} characters left out ...]\n{tail}"


def shortened(line: str, max_chars: int) -> str:
    """Return one line, its end left out where it is too long."""
    if len(line) <= max_chars:
        return line
    return f"{beginning(line, max_chars)} [... {len(line) - max_chars:,} characters left out]"


def in_one_line(name: str) -> str:
    """Return a file's name as one line that nothing in it can leave: controls and newlines escaped."""
    if name.isprintable():
        return name
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)

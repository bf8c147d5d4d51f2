"""Tool text as a model may get it: no NUL, no half surrogate pairs, never endless."""

from typing import Final

MAX_CHARS: Final = 50_000


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
    return joined(text[:head], len(text) - head - tail, text[len(text) - tail :])


def joined(head: str, left_out: int, tail: str) -> str:
    """Return head and tail with the line between them that says how much is missing."""
    if not left_out:
        return head + tail
    return f"{head}\n[... {left_out:,} characters left out ...]\n{tail}"


def shortened(line: str, max_chars: int) -> str:
    """Return one line, its end left out where it is too long."""
    if len(line) <= max_chars:
        return line
    return f"{line[:max_chars]} [... {len(line) - max_chars:,} characters left out]"

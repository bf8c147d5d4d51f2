"""Text as a model may get it: no NUL, no half surrogate pairs, never endless; a file's lines numbered."""

import codecs
from collections.abc import Callable
from typing import Final

import msgspec

from midstream.language.errors import UserMistake
from midstream.safety.decoding import clean
from midstream.system.own_process import beginning, ending

MAX_CHARS: Final = 50_000


def cleaned(text: str) -> str:
    """Return text every JSON encoder takes: NUL left out, lone surrogates as U+FFFD."""
    return clean(text.replace("\0", ""))


def capped(text: str, max_chars: int = MAX_CHARS) -> str:
    """Return the text, its middle left out (and that said) where it is too long."""
    if len(text) <= max_chars:
        return text
    head, tail = (max_chars + 1) // 2, max_chars // 2
    return joined(beginning(text, head), len(text) - head - tail, ending(text, tail))


def joined(head: str, left_out: int, tail: str) -> str:
    """Return head and tail with the line between them that says how much is missing."""
    if not left_out:
        return head + tail
    above = f"{head}\n" if head else ""
    return f"{above}[... {left_out:,} characters left out ...]\n{tail}"


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


# --- a file's lines -----------------------------------------------------------------------------
#
# On the bytes, and decoding only what is shown, in steps: a file of a hundred megabytes costs a moment of
# this thread, and nobody else any.

MAX_LINES: Final = 2_000
MAX_LINE_CHARS: Final = 1_000
_SNIFFED_BYTES: Final = 8_192
_STEP: Final = 1 << 20
_MAX_LINE_BYTES: Final = 1_000_000
"""Bytes of one line that are decoded: what is shown of it, and what is looked at for secrets."""

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with a byte order mark, which is kept"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16, which edit_file cannot change"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16, which edit_file cannot change"),
)


class _Text(msgspec.Struct, frozen=True):
    """What a file holds as UTF-8, where its text begins, and what is to be said of how it is written.

    Never copied as a whole: that would hold up the loop for as long.
    """

    data: bytes | bytearray
    about: str = ""
    start: int = 0


def shown_lines(
    name: str,
    data: bytes | bytearray,
    first: int,
    last: int | None,
    *,
    room: int,
    check: Callable[[], None] = lambda: None,
) -> str:
    """Return the lines `first` to `last` (None: to the end) of a file, under a line about it.

    At most `room` characters of lines, and `MAX_LINES`: then the last line says how to read on.
    `check` is called again and again; it ends the work by raising.

    Raises:
        UserMistake: the file has fewer lines than `first`.
    """
    text = _decoded(data)
    if text is None:
        return f"== {name}: binary file, {len(data):,} bytes, not shown =="
    if len(text.data) == text.start:
        return f"== {name}: empty file =="
    total = _line_count(text.data, check)
    if first > total:
        raise UserMistake(
            f"{name} has only {total} lines.", hint=f"Read the last ones with {name}:{total}-."
        )
    last = min(last or total, total)
    out, is_shortened, has_strange = _numbered(text, first, last, room, check)
    about = [f"{total} line{'s'[: total != 1]}"]
    about += [text.about] if text.about else []
    if b"\r\n" in text.data[:_STEP]:
        about.append("Windows line ends")
    if has_strange:
        about.append("not all of it UTF-8: \ufffd stands for what is none")
    reached = first + len(out) - 1
    if is_shortened:
        out.append(
            "[... long lines are shortened: exact_search shows what is around a text in them ...]"
        )
    if reached < last:
        out.append(
            f"[... lines {reached + 1}-{last} left out; read them with {name}:{reached + 1}-{last} ...]"
        )
    return "\n".join((f"== {name} ({'; '.join(about)}) ==", *out))


def _decoded(data: bytes | bytearray) -> _Text | None:
    """Return a file's text, None for what is none."""
    for mark, encoding, about in _MARKS:
        if not data.startswith(mark):
            continue
        if encoding == "utf-8":
            return None if b"\0" in data[:_SNIFFED_BYTES] else _Text(data, about, len(mark))
        return _Text(_as_utf8(memoryview(data)[len(mark) :], encoding), about)
    return None if b"\0" in data[:_SNIFFED_BYTES] else _Text(data)


def _as_utf8(body: memoryview, encoding: str) -> bytearray:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    text = bytearray()
    for at in range(0, len(body), _STEP):
        text += decoder.decode(body[at : at + _STEP]).encode("utf-8", "replace")
    text += decoder.decode(b"", final=True).encode("utf-8", "replace")
    return text


def _line_count(data: bytes | bytearray, check: Callable[[], None]) -> int:
    # Only a newline: a form feed or U+2028 starts no line for editors, grep and exact_search.
    count = 0
    for at in range(0, len(data), _STEP):
        check()
        count += data.count(b"\n", at, at + _STEP)
    return count + (not data.endswith(b"\n"))


def _start_of(data: bytes | bytearray, line: int, check: Callable[[], None]) -> int:
    """Return where a line begins, the first being 1."""
    at, left = 0, line - 1
    while left:
        check()
        here = data.count(b"\n", at, at + _STEP)
        if here < left:
            left -= here
            at += _STEP
            continue
        for _ in range(left):
            at = data.index(b"\n", at) + 1
        left = 0
    return at


def _end_of(data: bytes | bytearray, at: int, check: Callable[[], None]) -> int:
    """Return where the line that begins at `at` ends."""
    while at < len(data):
        if (end := data.find(b"\n", at, at + _STEP)) >= 0:
            return end
        at += _STEP
        check()
    return len(data)


def _numbered(
    text: _Text, first: int, last: int, room: int, check: Callable[[], None]
) -> tuple[list[str], bool, bool]:
    """Return lines with their numbers, whether one was shortened, and whether one is not UTF-8."""
    out: list[str] = []
    is_shortened = has_strange = False
    data = text.data
    at = max(_start_of(data, first, check), text.start)
    for number in range(first, min(last, first + MAX_LINES - 1) + 1):
        end = _end_of(data, at, check)
        raw = data[at : min(end, at + _MAX_LINE_BYTES)]
        line = raw.decode(errors="ignore" if len(raw) < end - at else "replace").removesuffix("\r")
        has_strange = has_strange or ("\ufffd" in line and b"\xef\xbf\xbd" not in raw)
        if len(raw) == end - at:
            shown = shortened(line, MAX_LINE_CHARS)
        else:
            shown = f"{beginning(line, MAX_LINE_CHARS)} [... a line of {end - at:,} bytes]"
        is_shortened = is_shortened or shown != line
        shown = f"{number:>6}\t{shown}"
        room -= len(shown) + 1
        if room < 0:
            break
        out.append(shown)
        at = end + 1
    return out, is_shortened, has_strange

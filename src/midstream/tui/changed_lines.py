"""What a tool did to a file, as styled lines: how many lines, and the difference with its words marked.

Pure. A line of a difference begins with its own `+` or `-`, so that nothing hangs on its colour; what
changed within a line is bold and underlined.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from midstream.core.conversation import ToolCall
from midstream.core.events import ToolCalled, ToolReturned
from midstream.core.notices import FileChanged
from midstream.tui.event_lines import RESULT_MARK
from midstream.tui.keymap import called
from midstream.tui.styled_lines import Fragment, Line
from midstream.tui.themes import ACCENT, ADDED, ATTENTION, BOLD, MUTED, REMOVED
from midstream.views.side_effects import ChangedFile

MAX_ROWS: Final = 20
_MARKED: Final = "4;"
_MAX_PAIRED: Final = 60
_MIN_SHARED: Final = 0.3


def count_words(added: int, removed: int) -> str:
    """Return a change in figures, such as `+12 -3`; of what is no text nothing."""
    return f"+{added:,} -{removed:,}" if added or removed else ""


def in_figures(
    fact: ToolReturned, call: ToolCalled | ToolCall | None, changes: Sequence[FileChanged]
) -> tuple[ToolReturned, ToolCalled | ToolCall | None]:
    """Return a call and its end with the changes it made as figures in place of all their words."""
    if not changes or fact.outcome != "completed":
        return fact, call
    counts = count_words(sum(each.added for each in changes), sum(each.removed for each in changes))
    is_new = fact.result.startswith("Created ")
    words = ", ".join(filter(None, ("created" if is_new else "", counts)))
    path = call.arguments.get("path") if call is not None else None
    if call is not None and isinstance(path, str):
        call = msgspec.structs.replace(call, arguments={"path": path})
    return msgspec.structs.replace(fact, result=words or fact.result), call


def with_changes(result: str, changes: Sequence[FileChanged]) -> str:
    """Return a result with the differences of the files it was about behind it."""
    return "\n".join((result, *(f"--- {each.path}\n{each.diff}" for each in changes)))


def differences(changes: Sequence[FileChanged], *, is_whole: bool) -> list[Line]:
    """Return the differences of files that have just been changed; unless `is_whole`, capped."""
    most = None if is_whole else MAX_ROWS
    made = [each for each in changes if each.diff]
    if len(made) == 1:
        return diff_lines(made[0].diff, max_lines=most)
    return [line for each in made for line in change_lines(each, max_lines=most)]


def change_lines(change: FileChanged, *, max_lines: int | None = MAX_ROWS) -> list[Line]:
    """Return the difference of a file, under its name; at most so many lines, the rest counted."""
    counts = count_words(change.added, change.removed)
    heading: tuple[Fragment, ...] = ((BOLD, change.path), (MUTED, f"  {counts}"))
    return [
        Line(heading, RESULT_MARK, MUTED, RESULT_MARK),
        *diff_lines(change.diff, max_lines=max_lines),
    ]


def changed_lines(changes: Sequence[ChangedFile]) -> list[Line]:
    """Return what became of files: the name, the figures, what else is known, and the difference."""
    found: list[Line] = []
    for each in changes:
        counts = count_words(each.diff.added, each.diff.removed)
        note = f"  ({each.note})" if each.note else ""
        parts = (
            (BOLD, each.diff.path),
            (MUTED, f"  {counts}" if counts else ""),
            (ATTENTION, note),
        )
        found.append(Line(tuple(part for part in parts if part[1]), "  ", "", "    "))
        if each.diff.diff:
            found += diff_lines(each.diff.diff)
    return found


def diff_lines(diff: str, *, max_lines: int | None = None) -> list[Line]:
    """Return the lines of a unified diff without its head, at most so many, the rest counted."""
    lines = [line.replace("\r", "\u240d") for line in diff.split("\n")]
    left = 0 if max_lines is None else len(lines) - max_lines
    if left > 0 and max_lines is not None:
        # The last line may say that there is more than we were told.
        more = lines[-1] if lines[-1].startswith("[+") else ""
        lines = lines[: max_lines - 1]
        word = f"+{left + 1:,} more lines" + (f" and {more.strip('[]+')}" if more else "")
        lines.append(f"[{word}: {called('show_last') or '/last'}]")
    return [Line(fragments, RESULT_MARK, MUTED, RESULT_MARK) for fragments in _painted(lines)]


def _painted(lines: Sequence[str]) -> Iterator[tuple[Fragment, ...]]:
    at = 0
    while at < len(lines):
        removed = _run(lines, at, "-")
        added = _run(lines, at + removed, "+")
        if removed and removed == added <= _MAX_PAIRED:
            pairs = [
                _marked(lines[at + index], lines[at + removed + index]) for index in range(removed)
            ]
            yield from (old for old, _ in pairs)
            yield from (new for _, new in pairs)
            at += removed + added
        elif removed or added:
            for line in lines[at : at + removed + added]:
                yield ((REMOVED if line.startswith("-") else ADDED, line),)
            at += removed + added
        else:
            yield ((_style_of(lines[at]), lines[at]),)
            at += 1


def _style_of(line: str) -> str:
    if line.startswith("@@ "):
        return ACCENT
    return MUTED if line.startswith(("[", "\\")) else ""


def _run(lines: Sequence[str], at: int, sign: str) -> int:
    count = 0
    while at + count < len(lines) and lines[at + count].startswith(sign):
        count += 1
    return count


def _marked(old: str, new: str) -> tuple[tuple[Fragment, ...], tuple[Fragment, ...]]:
    """Return two lines with what differs between them marked, unless they have too little in common."""
    start = 1 + _shared(old[1:], new[1:])
    # Whole words, as far as the line has any.
    while start > 1 and old[start - 1 : start].isalnum():
        start -= 1
    end = _shared(old[start:][::-1], new[start:][::-1])
    while end > 0 and old[len(old) - end].isalnum():
        end -= 1
    same = len(old[1:start].strip()) + len(old[len(old) - end :].strip())
    if same < _MIN_SHARED * max(len(old.strip()), len(new.strip())):
        return ((REMOVED, old),), ((ADDED, new),)
    return _parts(old, start, end, REMOVED), _parts(new, start, end, ADDED)


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _parts(line: str, start: int, end: int, style: str) -> tuple[Fragment, ...]:
    stop = len(line) - end
    parts = ((style, line[:start]), (_MARKED + style, line[start:stop]), (style, line[stop:]))
    return tuple(part for part in parts if part[1])

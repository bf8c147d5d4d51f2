"""What stands around the prompt: question cards, the bottom line, the keys. Pure."""

from collections.abc import Sequence
from typing import Final

from midstream.console.lines import (
    BOLD,
    CYAN,
    DIM,
    YELLOW,
    Fragment,
    Line,
    Row,
    clipped,
    rows,
    width_of,
)
from midstream.console.painting import question_heading, question_lines
from midstream.core.question import Question
from midstream.core.safety.capability import SHOWN
from midstream.core.safety.rules import in_words
from midstream.core.safety.sanitize import sanitized
from midstream.ports import Status

APPROVAL_WAITS: Final = "empty the line to decide: y · r · n · w"
UNCLEAR_KEYS: Final = "a answer · n new instruction · e keep editing"

KEYS: Final = """\
Enter            send; the bottom line says what that does now
Alt-Enter        new line (also Ctrl-J, or \\ and Enter)
Esc              stop the current turn
Ctrl-C           clear the line; on an empty line stop the turn; twice: leave
Ctrl-D           leave (empty line)
Up, Down         history, first what waits or came back undelivered
Ctrl-R           search the history
Tab              complete; on an empty line: the next question
Ctrl-L           redraw
y r n w e        decide on the marked approval (empty line): once, for this run,
                 no, no and say why, change the command first
/help            commands;  //text sends a text that starts with a slash"""

_NAMED: Final = 4
"""Capabilities a yes for the run would grant that stand behind its key."""

_NAMED_CELLS: Final = 60

_SHORTEST_ENTER: Final = 16
_SHORTEST_MODE: Final = 8
"""Cells they keep in the bottom line where what happens unasked needs the room."""


def card_rows(question: Question, *, is_focused: bool, height: int, width: int) -> list[Row]:
    """Return a card of at most `height` rows. What does not fit is counted, never just missing."""
    lines = question_lines(question)
    all_rows = [row for line in lines for row in rows(line, width)]
    style = YELLOW if question.kind == "approval" else CYAN
    if is_focused and all_rows:
        mark: list[Fragment] = [(f"1;{style}", "▸ ")]
        all_rows[0] = [*mark, *all_rows[0][1:]] if width > 5 else all_rows[0]
    if len(all_rows) <= height:
        return all_rows
    kept = all_rows[: max(1, height - 1)]
    where = "in full above" if is_focused else "Tab"
    text = f"+{len(all_rows) - len(kept)} more lines, {where}"
    more = Line(((DIM, text),), "│ ", style)
    return [*kept, rows(more, width)[0]] if height > 1 else kept


def approval_keys(question: Question) -> str:
    """Return the keys that decide on an approval, and what a yes for the run would grant."""
    granted = [ask for ask in question.asks if not ask.startswith(SHOWN)]
    # The shortest first: a long command stands above anyway, a host beside it might be overlooked.
    named = [
        clipped(sanitized(in_words(ask)), _NAMED_CELLS) for ask in sorted(granted, key=len)[:_NAMED]
    ]
    more = [f"{len(granted) - _NAMED} more"] if len(granted) > _NAMED else []
    what = f" ({'; '.join(named + more)})" if named else ""
    change = " · e edit" if question.command else ""
    return f"y once · r for this run{what} · n no · w no, and say why{change}"


def summary_of(question: Question) -> str:
    """Return a question in few words, for a dialog about it."""
    return f"{question_heading(question)}: {clipped(' '.join(question.text.split()), 60)}"


def bottom_line(status: Status, *, width: int, hint: str = "") -> Row:
    """Return the bottom line, exactly one row: what Enter does first, then the rest as it fits.

    The mode, and what Enter does, are cut before what happens unasked is.
    `hint` takes the place of all but the mode for a moment, such as "Ctrl-C again to leave".
    """
    room = max(1, width - 1)
    if hint:
        return [("7", f" {clipped(sanitized(hint), max(1, room - 2))} ")]
    wanted: list[tuple[str, str]] = [
        ("", f"⏎ {status.enter}"),
        (BOLD, status.mode),
        ("", status.permission),
        ("", status.state),
        (CYAN, status.thinking),
        *(("", note) for note in status.notes),
        ("", "Esc stops" if status.busy else ""),
        ("", status.cost),
        (DIM, status.model),
    ]
    parts = [(style, " ".join(sanitized(text).split())) for style, text in wanted]
    if parts[2][1]:
        parts[:3] = _with_permission(parts[0], parts[1], parts[2], room)
    return _fitted([(style, text) for style, text in parts if text], room)


def _with_permission(
    enter: Fragment, mode: Fragment, permission: Fragment, room: int
) -> list[Fragment]:
    """Return the three as they all fit: the mode is cut, or left out, and then what Enter does."""
    left = room - width_of(enter[1]) - 3 - width_of(permission[1])
    shown = left - 3
    mode = (mode[0], clipped(mode[1], shown) if shown >= _SHORTEST_MODE else "")
    if left < 0:
        kept = max(_SHORTEST_ENTER, width_of(enter[1]) + left)
        enter = (enter[0], clipped(enter[1], kept))
    return [enter, mode, permission]


def _fitted(parts: Sequence[Fragment], room: int) -> list[Fragment]:
    found: list[Fragment] = []
    used = 0
    for style, text in parts:
        gap = 3 if found else 0
        left = room - used - gap
        if found and left < min(width_of(text), 6):
            continue
        shown = clipped(text, left)
        if found:
            found.append((DIM, " · "))
        found.append((style, shown))
        used += gap + width_of(shown)
    return found

"""What stands around the prompt: question cards, the bottom line. Pure."""

from collections.abc import Collection, Sequence
from typing import Final

from midstream.app.ui import Status
from midstream.core.question import Question
from midstream.safety.capability import SHOWN
from midstream.safety.sanitize import sanitized
from midstream.tui.event_lines import question_lines
from midstream.tui.styled_lines import (
    BOLD,
    CYAN,
    DIM,
    MAGENTA,
    Fragment,
    Line,
    Row,
    clipped,
    rows,
    width_of,
)
from midstream.views.calls_in_words import question_heading

APPROVAL_WAITS: Final = "empty the line to decide: y · r · n · w"
ESC_STOPS: Final = "Esc stops"
UNCLEAR_KEYS: Final = "a answer · n new instruction · e keep editing"

_NAMED: Final = 4
"""Capabilities a yes for the run would grant that stand behind its key."""

_NAMED_CELLS: Final = 60

_LEAST_ENTER: Final = 20
"""Cells that what Enter does has to itself before what Tab does is said, too."""

_BETWEEN: Final = " · "
_MARK: Final = "▸"

_SHORTEST_ENTER: Final = 16
_SHORTEST_MODE: Final = 8
_LEAST_MODE_BESIDE_ESC: Final = 16
"""Cells they keep in the bottom line where what happens unasked needs the room."""


def card_rows(question: Question, *, is_focused: bool, height: int, width: int) -> list[Row]:
    """Return a card of at most `height` rows. What does not fit is counted, never just missing."""
    lines = question_lines(question)
    all_rows = [row for line in lines for row in rows(line, width)]
    style = MAGENTA if question.kind == "approval" else CYAN
    if is_focused and all_rows:
        mark: list[Fragment] = [(style, "▸ ")]
        all_rows[0] = [*mark, *all_rows[0][1:]] if width > 5 else all_rows[0]
    if len(all_rows) <= height:
        return all_rows
    kept = all_rows[: max(1, height - 1)]
    left_out = len(all_rows) - len(kept)
    if not is_focused and height <= 2:
        # What it is about matters more than who asks.
        summary = clipped(sanitized(summary_of(question, width)), max(4, width - 2))
        kept = rows(Line((("", summary),), "? ", style), width)[:1]
        left_out -= 1
    where = "in full above" if is_focused else "Tab"
    text = f"+{left_out} more line{'' if left_out == 1 else 's'}, {where}"
    more = Line(((DIM, text),), "│ ", style)
    return [*kept, rows(more, width)[0]] if height > 1 else kept


def approval_choices(question: Question) -> str:
    """Return the letters of an approval's choices, in their order."""
    return "yrnwe" if question.command else "yrnw"


def approval_keys(question: Question, marked: str = "") -> str:
    """Return the keys that decide on an approval, and what a yes for the run would grant.

    Before the `marked` choice stands a mark, which nothing foreign may show.
    """
    from midstream.safety.rules import in_words  # no rule matters before the first prompt

    granted = [ask for ask in question.asks if not ask.startswith(SHOWN)]
    # The shortest first: a long command stands above anyway, a host beside it might be overlooked.
    named = [
        clipped(sanitized(in_words(ask)).replace(_MARK, "?"), _NAMED_CELLS)
        for ask in sorted(granted, key=len)[:_NAMED]
    ]
    more = [f"{len(granted) - _NAMED} more"] if len(granted) > _NAMED else []
    what = f" ({'; '.join(named + more)})" if named else ""
    says = {
        "y": "y once",
        "r": f"r for this run{what}",
        "n": "n no",
        "w": "w no, and say why",
        "e": "e edit",
    }
    keys = (
        f"{f'{_MARK} ' if choice == marked else ''}{says[choice]}"
        for choice in approval_choices(question)
    )
    return _BETWEEN.join((*keys, "arrows mark one"))


ENTER_TAKES: Final = {
    "y": "says yes, once",
    "r": "says yes, for this run",
    "n": "says no",
    "w": "says no, and asks why",
    "e": "changes the command first",
}
"""What Enter does, by the marked choice of an approval."""


def key_rows(keys: str, width: int) -> list[Row]:
    """Return an approval's keys on as many rows as they need; a row ends between two of them."""
    found: list[str] = []
    for key in keys.split(_BETWEEN):
        longer = f"{found[-1]}{_BETWEEN}{key}" if found else key
        if found and width_of(f"│ {longer}") > width:
            found.append(key)
        else:
            found[-1:] = [longer]
    lines = [Line(((MAGENTA, text),), "│ ", MAGENTA, "│ ") for text in found]
    return [row for line in lines for row in rows(line, width)]


def summary_of(question: Question, cells: int = 60) -> str:
    """Return a question in few words, for a dialog about it."""
    return f"{question_heading(question)}: {clipped(' '.join(question.text.split()), cells)}"


def bottom_line(status: Status, *, width: int, hint: str = "", esc: str = ESC_STOPS) -> Row:
    """Return the bottom line, exactly one row: what Enter does first, then the rest as it fits.

    What Tab and Esc do instead comes next, if Esc does not just stop the turn, and is shown whole or
    not at all. They, the mode, and what Enter does, are cut before what happens unasked is.
    `hint` takes the place of all of it for a moment, such as "Ctrl-C again leaves".
    """
    room = max(1, width - 1)
    if hint:
        return [("7", f" {_keys_that_fit(sanitized(hint), max(1, room - 2))} ")]
    enter, mode, permission, *others = _first_parts(status, esc, room)
    stops = ("", esc if status.busy and esc.endswith(ESC_STOPS) else "")
    first = [enter, *others, mode, permission]
    words: list[Fragment] = [
        ("", status.state),
        (CYAN, status.thinking),
        *(("", note) for note in status.notes),
    ]
    return _fitted(
        [*first, *words, stops, ("", status.cost), (DIM, status.model)],
        room,
        # What a key does has room before words about the run do, though it stands behind them.
        claims=[*first, stops, *words],
        whole=(stops[1], status.cost, *(note for note in status.notes if note.startswith("@"))),
    )


def _keys_that_fit(hint: str, room: int) -> str:
    """Return a hint with as many of its keys as there is room for, each whole; the way out goes first."""
    first, *others = hint.split(_BETWEEN)
    first = clipped(first, room)
    left = room - width_of(first)
    kept: set[str] = set()
    for key in sorted(others, key=lambda key: not key.startswith("Esc")):
        if width_of(key) + 3 <= left:
            kept.add(key)
            left -= width_of(key) + 3
    return _BETWEEN.join([first, *(key for key in others if key in kept)])


def _first_parts(status: Status, esc: str, room: int) -> list[Fragment]:
    """Return what Enter does, the mode and what happens unasked, and then what other keys do.

    The last of the three is whole. The others get what room it leaves; a key that finds none is left out.
    """
    permission = _one_line(status.permission)
    left = room - (width_of(permission) + 3 if permission else 0)
    keys: list[Fragment] = []
    unusual = "" if not status.busy or esc.endswith(ESC_STOPS) else esc
    for key in (unusual, f"Tab {_one_line(status.tab)}" if status.tab else ""):
        if key and left - width_of(key) - 3 >= _LEAST_ENTER:
            keys.append(("", key))
            left -= width_of(key) + 3
    enter = clipped(_one_line(status.enter), max(_SHORTEST_ENTER, left))
    shown = left - width_of(enter) - 3
    stops = width_of(esc) + 3 if status.busy and esc.endswith(ESC_STOPS) else 0
    if shown - stops >= _LEAST_MODE_BESIDE_ESC:
        shown -= stops  # The end of a long name gives way to the key that stops.
    mode = clipped(_one_line(status.mode), shown) if shown >= _SHORTEST_MODE else ""
    return [("", enter), (BOLD, mode), ("", permission), *keys]


def _one_line(text: str) -> str:
    return " ".join(sanitized(text).split())


def _fitted(
    parts: Sequence[Fragment],
    room: int,
    *,
    claims: Sequence[Fragment],
    whole: Collection[str],
) -> list[Fragment]:
    """Return the parts there is room for, which those in `claims` take before the others.

    A part that is `whole` is left out where it does not fit; of another the beginning is shown.
    """
    shown: dict[Fragment, str] = {}
    used = 0
    for part in (*claims, *parts):
        text = _one_line(part[1])
        gap = 3 if shown else 0
        left = room - used - gap
        least = width_of(text) if part[1] in whole else min(width_of(text), 6)
        if not text or part in shown or (shown and left < least):
            continue
        shown[part] = clipped(text, left)
        used += gap + width_of(shown[part])
    found: list[Fragment] = []
    for part in dict.fromkeys(parts):
        if part in shown:
            found += (
                [(DIM, _BETWEEN), (part[0], shown[part])] if found else [(part[0], shown[part])]
            )
    return found

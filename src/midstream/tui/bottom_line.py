"""The bottom line: what the keys do now, where lines go, how the run stands and what it costs. Pure.

What does not fit is left out by what matters least: a key's words are whole or not there, and what happens
unasked is never cut.
"""

from collections.abc import Collection, Sequence
from typing import Final

from midstream.app.ui import Status
from midstream.safety.sanitize import on_one_line, sanitized
from midstream.tui.keymap import called
from midstream.tui.styled_lines import Fragment, Row
from midstream.tui.themes import ACCENT, BOLD, MUTED
from midstream.views.cells import clipped, width_of

ESC_STOPS: Final = "Esc stops"

_LEAST_ENTER: Final = 20
"""Cells that what Enter does has to itself before what Tab does is said, too."""

_SHORTEST_ENTER: Final = 16
_SHORTEST_MODE: Final = 8
_LEAST_MODE_BESIDE_ESC: Final = 16
"""Cells they keep where what happens unasked needs the room."""

_BETWEEN: Final = " · "


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
        (ACCENT, status.thinking),
        *(("", note) for note in status.notes),
    ]
    return _fitted(
        [*first, *words, stops, ("", status.cost), (MUTED, status.model)],
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
    permission = on_one_line(status.permission)
    left = room - (width_of(permission) + 3 if permission else 0)
    keys: list[Fragment] = []
    unusual = "" if not status.busy or esc.endswith(ESC_STOPS) else esc
    for key in (
        unusual,
        f"{called('queue') or '/queue'} {on_one_line(status.tab)}" if status.tab else "",
    ):
        if key and left - width_of(key) - 3 >= _LEAST_ENTER:
            keys.append(("", key))
            left -= width_of(key) + 3
    enter = clipped(on_one_line(status.enter), max(_SHORTEST_ENTER, left))
    shown = left - width_of(enter) - 3
    stops = width_of(esc) + 3 if status.busy and esc.endswith(ESC_STOPS) else 0
    if shown - stops >= _LEAST_MODE_BESIDE_ESC:
        shown -= stops  # The end of a long name gives way to the key that stops.
    mode = clipped(on_one_line(status.mode), shown) if shown >= _SHORTEST_MODE else ""
    return [("", enter), (BOLD, mode), ("", permission), *keys]


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
        text = on_one_line(part[1])
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
                [(MUTED, _BETWEEN), (part[0], shown[part])] if found else [(part[0], shown[part])]
            )
    return found

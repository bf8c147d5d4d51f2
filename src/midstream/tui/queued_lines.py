"""The lines that wait to be delivered, above the prompt: what each says, and what becomes of it. Pure."""

from collections.abc import Sequence
from typing import Final

from midstream.safety.sanitize import sanitized
from midstream.tui.styled_lines import DIM, Fragment, Line, Row, clipped, rows, width_of
from midstream.views.undelivered import Waiting

SHOWN: Final = 3
_WORDS_CELLS: Final = 16
"""So many cells of a line's own words stand before its fate is shortened."""


def waiting_rows(waiting: Sequence[Waiting], width: int) -> list[Row]:
    """Return a row for each line that waits, the newest ones where there are many.

    Behind the newest that can be taken back stands how, where there is room.
    """
    left_out = len(waiting) - SHOWN if len(waiting) > SHOWN else 0
    found: list[Row] = []
    if left_out:
        found.append([(DIM, clipped(f"   +{left_out} more waiting", max(1, width)))])
    back = next((line.id for line in reversed(waiting) if line.can_be_withdrawn), "")
    for line in waiting[left_out:]:
        found.append(_row(line, width, hint="Up takes it back" if line.id == back else ""))
    return found


def _row(line: Waiting, width: int, *, hint: str) -> Row:
    room = max(1, width - 3)
    words = " ".join(sanitized(line.text).split())
    wanted = min(width_of(words), _WORDS_CELLS)
    fate = next(
        (
            each
            for each in (
                f" · {line.fate} · {hint}" if hint else "",
                f" · {line.fate}",
                f" · {line.brief}",
            )
            if each and width_of(sanitized(each)) + wanted <= room
        ),
        "",
    )
    fate = fate or clipped(f" · {line.brief}", max(0, room - 4))
    said: list[Fragment] = [("", clipped(words, max(0, room - width_of(fate)))), (DIM, fate)]
    return rows(Line(tuple(said), "⏳ ", DIM), width)[0]

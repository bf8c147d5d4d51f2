"""The chats of a folder as a person finds one again: by its name, its words, its cost, its day. Pure."""

from collections.abc import Sequence
from decimal import Decimal

from midstream.core.costs import Cost, in_words
from midstream.views.amounts import counted
from midstream.views.cells import clipped, one_line, padded
from midstream.views.clock import time_of_day
from midstream.views.listing import Summary

_NARROW = 72
_LEAST_TITLE = 24

MAX_NAME = 60


def title_of(summary: Summary) -> str:
    """Return what a chat is called: its name, else the first words said in it."""
    return one_line(summary.name or summary.first) or "(no words kept of its beginning)"


def chat_rows(
    number: int,
    id: str,
    summary: Summary,
    *,
    is_active: bool,
    where: str,
    now: float,
    width: int,
) -> list[str]:
    """Return a chat in one row, or more where there is little room. `where` is "" for a plain one."""
    mark = "›" if is_active else " "
    head = f"{mark}{number:>2} "
    role = summary.workflow.removeprefix("role:")
    turns = counted(summary.turns, "turn")
    cost = price_of(summary)
    when = ago(now - summary.updated_at) or time_of_day(summary.updated_at, now=now)
    parts = [part for part in (role, turns, cost, when, id, where) if part]
    about = " · ".join(parts)
    room = width - len(head) - len(about) - 2
    if width < _NARROW or room < _LEAST_TITLE:
        return [
            f"{head}{clipped(title_of(summary), max(width - len(head), 8))}",
            *_below(parts, width),
        ]
    return [f"{head}{padded(clipped(title_of(summary), room), room)}  {about}"]


def _below(parts: list[str], width: int) -> list[str]:
    """Return what is told of a chat under its title, each part whole, in as many rows as it takes."""
    found = [f"    {parts[0]}"]
    for part in parts[1:]:
        if len(found[-1]) + 3 + len(part) <= width:
            found[-1] += f" · {part}"
        else:
            found.append(f"    {part}")
    return found


def price_of(summary: Summary) -> str:
    """Return what a chat cost, "" where nothing is known to have cost anything."""
    cost = Cost(
        requests=max(summary.turns, summary.unpriced),
        usd=Decimal(summary.usd),
        unpriced=summary.unpriced,
    )
    return in_words(cost) if cost.usd or cost.unpriced else ""


def ago(seconds: float) -> str:
    """Return how long ago something was, "" where its day says more."""
    if seconds < 0 or seconds >= 86_400:
        return ""
    if seconds < 90:
        return "just now"
    if seconds < 5_400:
        return f"{round(seconds / 60)} min ago"
    return f"{round(seconds / 3600)} h ago"


def named_like(wanted: str, names: Sequence[tuple[str, str]]) -> list[str]:
    """Return the ids whose name is meant: those of just that name, else those that begin with it."""
    key = " ".join(wanted.split()).casefold()
    if not key:
        return []
    exact = [id for id, name in names if name.casefold() == key]
    return exact or [id for id, name in names if name and name.casefold().startswith(key)]

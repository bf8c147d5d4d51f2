"""`/cost`: what was spent, by run, agent, model and day, and what is left of the budget."""

import time
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Final

from midstream.app.commands.command import command, room
from midstream.app.session import Session
from midstream.core.costs import Cost, counted, in_words
from midstream.language.errors import UserMistake
from midstream.views.spending import (
    Spent,
    budget_lines,
    estimated_words,
    grouped,
    table,
    total_of,
    unpriced_words,
)

DAYS: Final = "days"
SHOWN_DAYS: Final = 30
_DAY_S: Final = 86_400.0


@command(
    "cost",
    "what was spent, by run, agent, model and day, and the budget left",
    arguments=f"[{DAYS}]",
    complete=lambda _session: [(DAYS, "by day")],
)
async def _cost(session: Session, argument: str) -> None:
    if argument not in ("", DAYS):
        raise UserMistake(
            f"/cost takes {DAYS} or nothing, not {argument!r}.", hint=f"/cost, or /cost {DAYS}."
        )
    width = room()
    now = time.time()
    today = _midnight(now)
    since = today - (SHOWN_DAYS - 1) * _DAY_S if argument else today
    spent = await session.background.spent(since=since)
    if argument:
        lines = days_lines([each for each in spent if each.at >= since], width=width)
    else:
        own = {machine.run.id for machine in session.runs.all()}
        lines = cost_lines(spent, own=own, today=today, width=width)
        active = session.active()
        budgets = [] if active is None else budget_lines(active.run)
        lines += ["", *_wrapped(budgets or [_NO_BUDGET], width)]
        beside = session.side_questions.cost
        if beside.requests:
            asked = counted(beside.requests, "question")
            lines += _wrapped([f"And {asked} beside them (/btw): {in_words(beside)}."], width)
    session.ui.say("\n".join(lines))


_ALL_TODAY: Final = "All of this was spent today; no other run of this folder cost anything."
_NO_BUDGET: Final = "No budget is set; /config budget.usd 5 sets one for each run."


def cost_lines(spent: Sequence[Spent], *, own: set[str], today: float, width: int) -> list[str]:
    """Return what the runs `own` spent, by run, agent and model, and what all runs spent today."""
    here = [each for each in spent if each.run in own]
    lines = ["No model has replied yet."]
    if here:
        rows = grouped(here, lambda s: (f"{s.run} {s.name}", s.agent, s.usage.model))
        total = total_of(here) if len(rows) > 1 else None
        lines = table(("run", "agent", "model"), rows, width=width, total=total)
        lines += _summed("agent", here, lambda s: (s.agent,), len(rows), width)
        lines += _summed("model", here, lambda s: (s.usage.model,), len(rows), width)
    day = [each for each in spent if each.at >= today]
    if day and day == here:
        lines += ["", *_wrapped([_ALL_TODAY], width)]
    elif day:
        rows = grouped(day, lambda s: (s.usage.model,))
        total = total_of(day) if len(rows) > 1 else None
        runs = len({each.run for each in day})
        title = f"today, {counted(runs, 'run')} of this folder"
        lines += ["", title, *table(("model",), rows, width=width, total=total)]
    return [*lines, *_notes(total_of(here or day), width)]


def days_lines(spent: Sequence[Spent], *, width: int) -> list[str]:
    """Return what all runs of the folder spent on each day."""
    if not spent:
        return [f"No model has replied here in the last {SHOWN_DAYS} days."]
    ordered = sorted(spent, key=lambda each: each.at)
    rows = grouped(ordered, lambda s: (_date(s.at), s.usage.model))
    total = total_of(spent)
    lines = table(("day", "model"), rows, width=width, total=total if len(rows) > 1 else None)
    return [*lines, *_notes(total, width)]


def _notes(total: Cost, width: int) -> list[str]:
    """Return what a sum lacks, and what of it is a guess."""
    return _wrapped([unpriced_words(total), estimated_words(total)], width)


def _summed(
    head: str,
    spent: Sequence[Spent],
    by: Callable[[Spent], tuple[str, ...]],
    rows_above: int,
    width: int,
) -> list[str]:
    """Return the sums by something, where they say more than the rows above."""
    rows = grouped(spent, by)
    return ["", *table((head,), rows, width=width)] if 1 < len(rows) < rows_above else []


def _midnight(now: float) -> float:
    local = time.localtime(now)
    return time.mktime((*local[:3], 0, 0, 0, *local[6:8], -1))


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))


def _wrapped(lines: Sequence[str], width: int) -> list[str]:
    return [part for line in lines for part in wrap(line, max(20, width))]

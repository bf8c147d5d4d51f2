"""What was spent: by run, agent, model and day, as a table that fits, and what is left of a budget."""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from midstream.core.costs import Cost, costs, counted, dollars, is_unknown, mark_of
from midstream.core.events import Usage, usage_in
from midstream.core.notices import Envelope
from midstream.core.run import Run
from midstream.language.spec import Budget
from midstream.views.amounts import in_short
from midstream.views.cells import clipped, row_of, width_of, wrapped


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What one request to a model used. `at` is in seconds since 1970, `name` the run's workflow."""

    run: str
    name: str
    agent: str
    at: float
    usage: Usage


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that belong together, and what they have in common."""

    labels: tuple[str, ...]
    cost: Cost


_MOST_STACKED: Final = 3


def spent_in(facts: Iterable[Envelope], *, name: str) -> list[Spent]:
    """Return every request of these facts whose use was told."""
    found: list[Spent] = []
    for envelope in facts:
        usage = usage_in(envelope.event)
        if usage is not None:
            agent = getattr(envelope.event, "agent", "")
            spent = Spent(run=envelope.run, name=name, agent=agent, at=envelope.at, usage=usage)
            found.append(spent)
    return found


def grouped(spent: Iterable[Spent], by: Callable[[Spent], tuple[str, ...]]) -> list[Row]:
    """Return the requests summed up by what `by` names them, in the order of their first."""
    found: dict[tuple[str, ...], Cost] = {}
    for each in spent:
        labels = by(each)
        found[labels] = found.get(labels, Cost()).and_also(each.usage)
    return [Row(labels=labels, cost=cost) for labels, cost in found.items()]


def total_of(spent: Iterable[Spent]) -> Cost:
    """Return the sum of some requests."""
    total = Cost()
    for each in spent:
        total = total.and_also(each.usage)
    return total


def table(
    heads: Sequence[str], rows: Sequence[Row], *, width: int, total: Cost | None = None
) -> list[str]:
    """Return rows under their headings in lines of at most so many cells.

    Where they do not fit beside each other, the figures of each row stand below its names.
    """
    all_rows = list(rows)
    if total is not None:
        all_rows.append(Row(labels=("total", *[""] * (len(heads) - 1)), cost=total))
    figures = [_figures(row.cost) for row in all_rows]
    labels = [(*heads,), *(row.labels for row in _once(all_rows))]
    numbers = [_HEADS, *figures]
    if not any(row.cost.cached_tokens for row in all_rows):
        # A column of nothing says nothing.
        numbers = [(*row[:_CACHED], *row[_CACHED + 1 :]) for row in numbers]
    wide = [max(width_of(row[at]) for row in labels) for at in range(len(heads))]
    slim = [max(width_of(row[at]) for row in numbers) for at in range(len(numbers[0]))]
    if sum(wide) + sum(slim) + 2 * (len(wide) + len(slim) - 1) > width:
        return [line for row in all_rows for line in _stacked(row, width)]
    widths = (*wide, *slim)
    return [
        row_of((*names, *map(str.rjust, figure, slim)), widths)
        for names, figure in zip(labels, numbers, strict=True)
    ]


def price(cost: Cost) -> str:
    """Return what requests cost: `$0.0123`, `~$0.0123`, `<$0.0001`, `at least $0.0123`, or `unknown`."""
    if is_unknown(cost):
        return "unknown"
    known = mark_of(cost) + dollars(cost.usd)
    return f"at least {known}" if cost.unpriced else known


def unpriced_words(cost: Cost) -> str:
    """Return what is missing in a sum, "" for nothing."""
    if not cost.unpriced:
        return ""
    what = counted(cost.unpriced, "request has", "requests have")
    return f"{what} no known price and {'is' if cost.unpriced == 1 else 'are'} not included."


def estimated_words(cost: Cost) -> str:
    """Return what `~` means in a sum, "" where nothing in it is an estimate."""
    if not cost.estimated:
        return ""
    one = cost.estimated == 1
    what = counted(cost.estimated, "request was", "requests were")
    return f"~ {what} cut off: what {'it' if one else 'they'} used is an estimate."


def budget_lines(run: Run) -> list[str]:
    """Return what is left of the budgets of a run and of its workflow; none where there is none."""
    workflow = None if run.definition is None else run.definition.workflow.budget
    found: list[str] = []
    for whose, budget in (("this run", run.usage.limits), ("its workflow", workflow)):
        if budget is None or not run.usage.budget_times:
            continue
        left = _left(run, budget)
        if left:
            found.append(f"budget of {whose}: {', '.join(left)}")
    if run.usage.limits is not None and not run.usage.budget_times:
        found.append("You have lifted the budget of this run: nothing limits it.")
    return found


def _left(run: Run, budget: Budget) -> list[str]:
    times = run.usage.budget_times
    total = costs(run.usage.requests).total
    parts: list[str] = []
    if budget.usd is not None:
        limit = Decimal(str(budget.usd)) * times
        rest = max(Decimal(0), limit - total.usd)
        parts.append(f"{dollars(rest)} of {dollars(limit)} left")
    tokens = total.input_tokens + total.output_tokens
    entered = sum(run.visits.values())
    for limit_of, used, thing in (
        (budget.tokens, tokens, "tokens"),
        (budget.tool_calls, run.usage.tool_calls, "tool calls"),
        (budget.transitions, entered, "transitions"),
    ):
        if limit_of is not None:
            most = limit_of * times
            parts.append(f"{in_short(max(0, most - used))} of {in_short(most)} {thing} left")
    return parts


_HEADS: Final[tuple[str, ...]] = ("requests", "in", "from cache", "out", "cost")
_CACHED: Final = 2


def _figures(cost: Cost) -> tuple[str, ...]:
    sent, cached, made = map(in_short, (cost.input_tokens, cost.cached_tokens, cost.output_tokens))
    mark = mark_of(cost)
    return (f"{cost.requests:,}", f"{mark}{sent}", cached, f"{mark}{made}", price(cost))


def _once(rows: Sequence[Row]) -> list[Row]:
    """Return the rows without the first name where it is that of the row before."""
    found: list[Row] = []
    last = ""
    for row in rows:
        first, *others = row.labels
        is_same = first == last and bool(others)
        found.append(Row(labels=("" if is_same else first, *others), cost=row.cost))
        last = first
    return found


def _stacked(row: Row, width: int) -> list[str]:
    requests, put_in, cached, out, cost = _figures(row.cost)
    of_which = f" ({cached} from cache)" if row.cost.cached_tokens else ""
    names = " · ".join(label for label in row.labels if label)
    figures = f"{requests} req  {put_in} in{of_which}  {out} out  {cost}"
    below = wrapped(figures, width - 2, most=_MOST_STACKED)
    if width_of(figures) <= width - 2:
        below = [figures]
    return [clipped(names, width), *(f"  {line}" for line in below)]

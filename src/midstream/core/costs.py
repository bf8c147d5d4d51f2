"""What a run has used and what it cost, by agent and model.

Each request carries the price it was bought at, so a later change of prices does not rewrite the
past. A request without a known price is counted as such and never as free.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal

import msgspec

from midstream.core.append_only import gathered
from midstream.core.events import Usage


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a number of requests used. `usd` sums the known prices; `unpriced` requests had none.

    `cached_tokens` of `input_tokens` came from a provider's cache. Of `estimated` requests, which were cut
    off, the figures are guessed.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: Decimal = Decimal(0)
    unpriced: int = 0
    cached_tokens: int = 0
    estimated: int = 0

    def and_also(self, usage: Usage) -> "Cost":
        """Return this with one request more. Nobody gives tokens back, whatever a provider says."""
        price = usage.price
        return Cost(
            requests=self.requests + 1,
            input_tokens=self.input_tokens + max(usage.input_tokens, 0),
            output_tokens=self.output_tokens + max(usage.output_tokens, 0),
            usd=self.usd + (price or 0),
            unpriced=self.unpriced + (price is None),
            cached_tokens=self.cached_tokens + max(usage.cached_tokens, 0),
            estimated=self.estimated + usage.is_estimate,
        )

    def plus(self, other: "Cost", times: int = 1) -> "Cost":
        """Return this with what another used; `times` -1: without it, which is a part of this."""
        return Cost(
            requests=self.requests + times * other.requests,
            input_tokens=self.input_tokens + times * other.input_tokens,
            output_tokens=self.output_tokens + times * other.output_tokens,
            usd=self.usd + times * other.usd,
            unpriced=self.unpriced + times * other.unpriced,
            cached_tokens=self.cached_tokens + times * other.cached_tokens,
            estimated=self.estimated + times * other.estimated,
        )


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Costs by (agent, model), in the order of their first request, and their total."""

    rows: dict[tuple[str, str], Cost]
    total: Cost


def costs(usages: Iterable[tuple[str, Usage]]) -> Costs:
    """Return what the requests (`run.usage.requests`, or those of several runs chained) used and cost."""
    return gathered(usages, costs, _with, Costs(rows={}, total=Cost()))


def _with(known: Costs, usages: Sequence[tuple[str, Usage]]) -> Costs:
    rows, total = dict(known.rows), known.total
    for agent, usage in usages:
        row = (agent, usage.model)
        rows[row] = rows.get(row, Cost()).and_also(usage)
        total = total.and_also(usage)
    return Costs(rows=rows, total=total)


def is_unknown(cost: Cost) -> bool:
    """Return whether nothing of it has a price: what is said of that once is known."""
    return bool(cost.unpriced) and cost.unpriced == cost.requests


def in_words(cost: Cost) -> str:
    """Return a price for a person: `$0.0123`, `~$0.0123` where some of it is an estimate, `<$0.0001`,
    `at least $0.0123`, or `cost unknown`.
    """
    if is_unknown(cost):
        return "cost unknown"
    price = mark_of(cost) + dollars(cost.usd)
    return f"at least {price} ({cost.unpriced} unpriced)" if cost.unpriced else price


def mark_of(cost: Cost) -> str:
    """Return what stands before figures: `~` where some of them are estimates."""
    return "~" if cost.estimated else ""


def dollars(usd: Decimal) -> str:
    """Return an amount: cents where it is a dollar or more, else four places."""
    if 0 < usd < Decimal("0.0001"):
        return "<$0.0001"
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}"


def counted(number: float, thing: str, things: str = "") -> str:
    """Return so many things: `1 tool call`, `2,000 tokens`; `things` where there is no plain `s`."""
    amount = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{amount} {thing if number == 1 else things or f'{thing}s'}"

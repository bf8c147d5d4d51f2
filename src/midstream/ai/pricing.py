"""What a reply used, and what that costs at the price known on the day it was made."""

from decimal import Decimal
from typing import TYPE_CHECKING

from midstream.core.events import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


def usage_of(response: "ModelResponse", *, model: str) -> Usage:
    """Return the tokens and the cost of a reply of the model configured as `model`.

    The cost is None where the provider told no usage or nobody knows the price; then it is
    unknown, not nothing.
    """
    used = response.usage
    return Usage(
        model=model,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost_usd=None if used.unmeasured_requests else _cost(response),
    )


def _cost(response: "ModelResponse") -> str | None:
    try:
        price = response.cost().total_price
    except (LookupError, ValueError, AssertionError):
        return None
    return _plain(price)


def _plain(amount: Decimal) -> str:
    """Return a decimal without exponent or trailing zeros, such as 0.00012."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

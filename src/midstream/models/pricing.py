"""What a reply used, and what that costs at the price known on the day it was made."""

import threading
from decimal import Decimal

from midstream.core.events import Usage
from midstream.models.price_list import LISTED, load
from midstream.models.reply_stream import Tokens

_load_once = threading.Lock()


def load_soon() -> None:
    """Begin to load the list of prices in a thread, once: that takes as long as a quick answer."""
    if _load_once.acquire(blocking=False):
        threading.Thread(target=load, name="midstream-prices", daemon=True).start()


def usage_of(tokens: Tokens | None, *, model: str, answered_as: str = "") -> Usage:
    """Return the tokens and the cost of a reply of the model configured as `model`.

    The cost is None where the provider told no usage or nobody knows the price; then it is
    unknown, not nothing. Blocks while the prices are loaded: call it off the loop.
    """
    if tokens is None:
        return Usage(model=model, cost_usd=None)
    return Usage(
        model=model,
        input_tokens=tokens.sent,
        output_tokens=tokens.made,
        cost_usd=_cost(tokens, model, answered_as),
    )


def _cost(tokens: Tokens, model: str, answered_as: str) -> str | None:
    from genai_prices import Usage as Counted
    from genai_prices import calc_price

    provider, _, name = model.partition(":")
    counted = Counted(
        input_tokens=tokens.sent,
        output_tokens=tokens.made,
        cache_read_tokens=tokens.read or None,
        cache_write_tokens=tokens.written or None,
    )
    try:
        price = calc_price(
            counted, answered_as or name, provider_id=LISTED.get(provider, provider)
        ).total_price
    except (LookupError, ValueError, AssertionError):
        return None
    return _plain(price)


def _plain(amount: Decimal) -> str:
    """Return a decimal without exponent or trailing zeros, such as 0.00012."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

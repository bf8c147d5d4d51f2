"""The list of prices: what a reply cost when it was made, which models there are, how much they take."""

import re
import sys
import threading
from collections.abc import Iterator, Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from midstream.core.events import Usage
from midstream.language.errors import UserMistake, did_you_mean, nearest
from midstream.models.endpoints import ENDPOINTS, address_variable, has_key, is_offline, key_names
from midstream.models.reply_stream import Tokens
from midstream.system.own_process import loading_for_good

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

LISTED: Final = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "google-gla": "google",
    "xai": "x-ai",
}
"""Providers the list has under another name."""

_NO_TALK: Final = re.compile(
    r"embed|whisper|tts|image|audio|realtime|live|transcribe|moderation|davinci|curie|babbage"
    r"|\bada\b|computer-use|\bft:"
)
"""What is in the names of models that are for something else than talking, or one's own by another name."""

_MODULE: Final = "genai_prices.data"


def load() -> None:
    """Load the list; again costs nothing. Blocks: call it off the loop."""
    if _MODULE not in sys.modules:
        with loading_for_good():
            _snapshot()


def window_of(name: str) -> int | None:
    """Return how many tokens a model such as `openai:gpt-5` takes; None where nobody has said.

    Blocks for a moment: the first look reads the whole list. Call it off the loop.
    """
    found = None if is_offline(name) else _found(name)
    return None if found is None else found.context_window


def known_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of models to talk to in the list, of providers with a key or endpoint set.

    Each once: a provider's other protocols have the same ones. None before the list is loaded: that takes
    a moment, see `load`.
    """
    if _MODULE not in sys.modules:
        return ()
    return tuple(
        f"{provider}:{model}"
        for provider in ENDPOINTS
        if key_names(provider) and has_key(environ, f"{provider}:")
        if LISTED.get(provider) not in ENDPOINTS
        for model in _names(provider)
        if not _NO_TALK.search(model)
    )


def doubts_about(name: str, environ: Mapping[str, str]) -> str:
    """Return what speaks against a model's name that has the right form, "" where nothing does.

    A provider may have models that the list does not have; where an endpoint of one's own is set any
    name may be right. Blocks (it reads the list): call it off the loop.

    Raises:
        UserMistake: there is no such provider.
    """
    provider, _, model = name.partition(":")
    if is_offline(name):
        return ""
    if provider not in ENDPOINTS:
        return _doubts_about_provider(name)
    if environ.get(address_variable(provider), "").strip() or _found(name) is not None:
        return ""
    names = list(_names(provider))
    if not names:
        return ""
    meant = nearest(model, names)
    hint = f" Did you mean {provider}:{meant}?" if meant else ""
    return f"{model} is no name of {provider} that is known here; it is tried all the same.{hint}"


def meant_by(name: str) -> str:
    """Return the name in the list that is most like one that is not in it, "" for none."""
    provider, _, model = name.partition(":")
    best = "" if _found(name) else nearest(model, _names(provider))
    return f"{provider}:{best}" if best else ""


def no_such_provider(provider: str) -> UserMistake:
    """Return the error for a provider that neither we nor the library know."""
    return UserMistake(
        f"No provider of models is called {provider!r}.", hint=did_you_mean(provider, ENDPOINTS)
    )


def is_misspelt(provider: str) -> bool:
    """Return whether a provider is so like one of ours that the library need not be asked for it."""
    return bool(get_close_matches(provider, ENDPOINTS, n=1, cutoff=0.85))


def _doubts_about_provider(name: str) -> str:
    provider = name.partition(":")[0]
    try:
        from pydantic_ai.providers import infer_provider_class

        infer_provider_class(provider)
    except ImportError:
        if is_misspelt(provider):
            raise no_such_provider(provider) from None
        return f"{name} needs a package that is not installed: pip install 'midstream[providers]'"
    except ValueError:
        raise no_such_provider(provider) from None
    return ""


def _snapshot() -> Any:
    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot()


def _found(name: str) -> "ModelInfo | None":
    provider, _, model = name.partition(":")
    try:
        _, found = _snapshot().find_provider_model(
            model, None, LISTED.get(provider, provider), None
        )
    except (LookupError, ValueError):
        return None
    known: ModelInfo = found
    return known


def _names(provider: str) -> Iterator[str]:
    listed = LISTED.get(provider, provider)
    for each in _snapshot().providers:
        if each.id == listed:
            yield from (model.id for model in each.models)


_load_once = threading.Lock()


def load_soon() -> None:
    """Begin to load the list of prices in a thread, once.

    Called when a request is out: one that is cut off before its answer begins has a price, too.
    """
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
        cached_tokens=tokens.read,
    )


def usage_now(tokens: Tokens, *, model: str) -> Usage:
    """Return the same at once, without a cost before the prices are loaded."""
    if _MODULE in sys.modules:
        return usage_of(tokens, model=model)
    return Usage(
        model=model,
        input_tokens=tokens.sent,
        output_tokens=tokens.made,
        cached_tokens=tokens.read,
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

"""How much a model takes at once, by the list of prices, which knows that of many models."""

from midstream.ai.naming import is_offline


def window_of(name: str) -> int | None:
    """Return how many tokens a model such as `openai:gpt-5` takes; None where nobody has said.

    Blocks for a moment: the first look reads the whole list. Call it off the loop.
    """
    if is_offline(name):
        return None
    from genai_prices.data_snapshot import get_snapshot

    provider, _, model = name.partition(":")
    try:
        _, found = get_snapshot().find_provider_model(
            model, None, _LISTED.get(provider, provider), None
        )
    except (LookupError, ValueError):
        return None
    return found.context_window


_LISTED = {"openai-chat": "openai", "openai-responses": "openai", "google-gla": "google"}
"""Providers the list has under another name."""

"""Budgets in words, and what a person may answer when one is used up."""

from typing import Final

AGAIN: Final = "as much again"
NO_LIMIT: Final = "no limit"
STOP_THERE: Final = "stop the run"
ANSWERS: Final = (AGAIN, NO_LIMIT, STOP_THERE)


def counted(count: float, what: str) -> str:
    """Return so many of something in words: `1 tool call`, `2,000 tokens`."""
    number = f"{count:,}" if isinstance(count, int) else f"{count:g}"
    return f"{number} {what}{'' if count == 1 else 's'}"

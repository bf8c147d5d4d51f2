"""Amounts as a person reads them: tokens, spans of time, counted things."""


def token_words(tokens: int) -> str:
    """Return a number of tokens, such as `340 tokens`, `1.2k tokens`, `3.4M tokens`."""
    return f"{in_short(tokens)} token{'' if tokens == 1 else 's'}"


def in_short(number: int) -> str:
    """Return a number in few characters: `340`, `1.2k`, `34k`, `3.4M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        # What would be rounded up to a thousand of a unit is one of the next.
        if number >= size * 0.9995:
            share = number / size
            return f"{share:.1f}{unit}" if share < 9.95 else f"{share:.0f}{unit}"
    return str(number)


def counted(number: int, thing: str, things: str = "") -> str:
    """Return so many things: `1 line`, `12 lines`."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def span_words(seconds: float) -> str:
    """Return how long something took: `3.2 s`, `14 s`, `2 min 5 s`, `3 h 20 min`."""
    return f"{max(0.0, seconds):.1f} s" if seconds < 9.95 else duration(seconds)


def duration(seconds: float) -> str:
    """Return a span of time in whole seconds: `8 s`, `2 min 5 s`, `3 h 20 min`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min{f' {whole % 60} s' if whole % 60 else ''}"
    return f"{whole // 3600} h{f' {whole % 3600 // 60} min' if whole % 3600 // 60 else ''}"

"""Amounts and times as a person reads them: tokens, spans, times of day."""

from datetime import datetime


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


def seconds_words(seconds: float) -> str:
    """Return a duration in words, such as `40 s` or `3 min`."""
    if 0 < seconds < 0.95:
        return f"{round(seconds * 1000)} ms"
    if seconds < 60:
        return f"{round(seconds, 1):g} s"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            count = seconds / size
            return f"{round(count, 1):g} {unit}"
    return ""


def ago(seconds: float) -> str:
    """Return how long ago something was, "" where its day says more."""
    if seconds < 0 or seconds >= 86_400:
        return ""
    if seconds < 90:
        return "just now"
    if seconds < 5_400:
        return f"{round(seconds / 60)} min ago"
    return f"{round(seconds / 3600)} h ago"


def time_of_day(at: float, *, now: float | None = None) -> str:
    """Return a time (seconds since 1970) in the zone of this machine, such as `18:00`.

    With seconds where it is no whole minute, with its day where that is another one than `now`'s.
    """
    when = datetime.fromtimestamp(at)
    day = "" if now is None or datetime.fromtimestamp(now).date() == when.date() else "%Y-%m-%d "
    return when.strftime(f"{day}%H:%M:%S" if int(at) % 60 else f"{day}%H:%M")

"""Times of day, as a person reads them on the wall."""

from datetime import datetime


def time_of_day(at: float, *, now: float | None = None) -> str:
    """Return a time (seconds since 1970) in the zone of this machine, such as `18:00`.

    With seconds where it is no whole minute, with its day where that is another one than `now`'s.
    """
    when = datetime.fromtimestamp(at)
    day = "" if now is None or datetime.fromtimestamp(now).date() == when.date() else "%Y-%m-%d "
    return when.strftime(f"{day}%H:%M:%S" if int(at) % 60 else f"{day}%H:%M")

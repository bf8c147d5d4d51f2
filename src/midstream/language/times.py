"""Times as people write them (RFC 3339)."""

import re
from datetime import UTC, datetime

from midstream.language.names import Json

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d.*", re.ASCII)


def time_of(value: Json) -> float | None:
    """Return a time (RFC 3339, or seconds since 1970) in seconds since 1970; without a zone: UTC.

    None: it is no time, such as the 30th of February.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, str) or not _TIME.fullmatch(value):
            return None
        at = datetime.fromisoformat(value.upper())
    except (ValueError, OverflowError):
        return None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()

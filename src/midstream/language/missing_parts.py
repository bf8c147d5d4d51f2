"""Why a path stops leading anywhere, in a hint: what there is where the missing part was looked for."""

from midstream.language.names import Json
from midstream.language.nearest import nearest

_MAX_KEYS = 200
_MAX_LISTED = 8
_MAX_KEY_CHARS = 60


def hint_for(part: str, *, of: Json, at: str) -> str:
    """Return what the value `of`, which stands at the path `at`, has instead of `part`."""
    if isinstance(of, list):
        return f"{at} is a list of {len(of)}, numbered from 0."
    if not isinstance(of, dict):
        kind = "null" if of is None else "text" if isinstance(of, str) else "one value"
        return f"{at} is {kind}, without parts."
    known = [key for key, _ in zip(of, range(_MAX_KEYS), strict=False)]
    known = [key for key in known if isinstance(key, str) and len(key) <= _MAX_KEY_CHARS]
    known = [key for key in known if key.isprintable()]
    if not known:
        return f"{at} is empty." if not of else ""
    best = nearest(part[:_MAX_KEY_CHARS], known)
    if best is not None:
        return f"Did you mean {best!r}?"
    listed = ", ".join(sorted(known)[:_MAX_LISTED])
    more = len(of) - min(len(known), _MAX_LISTED)
    return f"{at} has: {listed}{f' and {more} more' if more > 0 else ''}."

"""The nearest existing name to a wrong one, for errors that help."""

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`, None when none is much like it.

    The only one that has it for a part is like it, as `workflow_name` is like `name`.
    """
    from difflib import get_close_matches  # what goes well never needs it

    by_fold = {word.casefold(): word for word in known}
    found = get_close_matches(name.casefold(), by_fold, n=1, cutoff=0.6)
    if not found:
        found = [word for word in by_fold if name.casefold() in word.split("_")]
    return by_fold[found[0]] if len(found) == 1 else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint: the nearest name, else the list of those there are."""
    known = list(known)
    best = nearest(name, known)
    if best is not None:
        return f"Did you mean {best!r}?"
    return f"There are: {', '.join(sorted(known))}." if known else "There are none."

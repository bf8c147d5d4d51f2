"""Files named in a line: `@src/app.py`, or `@"two words.txt"`.

A mention stays the words it is. Whoever reads the line sees which file is meant, and opens it with
the tools and permissions it has; nothing is pasted in. At the beginning of a line the name of a
branch or agent counts before a file's: `@./tests` is the file even then.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import Final
from unicodedata import normalize

_AT_THE_END: Final = re.compile(r'(?:^|(?<=[\s(\[{,;]))@(?:"[^"\n]*|[^\s"]*)\Z')
_MENTIONED: Final = re.compile(r'(?:^|(?<=[\s(\[{,;]))@(?:"([^"\n]+)"|([^\s"]+))', re.MULTILINE)
_AROUND: Final = ".,;:!?)]}'"
_PLAIN: Final = re.compile(r'[^\s"\'`,;:()\[\]{}<>|]+\Z')


def mention_before(before: str) -> str | None:
    """Return the mention that is being typed at the end of a text, its `@` included; None if none."""
    found = _AT_THE_END.search(before)
    return None if found is None else found[0]


def asked_for(mention: str) -> str:
    """Return what is looked for: the mention without its `@` and quote."""
    return mention[1:].removeprefix('"').removeprefix("./")


def mention_of(path: str) -> str:
    """Return how a path is mentioned."""
    return f"@{path}" if _PLAIN.match(path) else f'@"{path}"'


def mentioned(text: str) -> Iterator[tuple[int, int, str]]:
    """Give the paths a text mentions, each with where its mention begins and ends.

    The stop of a sentence, or a bracket, behind an unquoted one is none of it.
    """
    for found in _MENTIONED.finditer(text):
        path = found[1] or found[2].rstrip(_AROUND)
        if path:
            yield found.start(), found.end() if found[1] else found.start() + 1 + len(path), path


def best(paths: Sequence[str], query: str, *, limit: int) -> list[str]:
    """Return the paths that fit a query, the best first.

    A query's letters stand in a path in their order, with or without others between; upper case is
    told from lower only where the query has some, and it is all one whether an accent is part of its
    letter, as keyboards write it, or follows it, as some file systems do. Names that begin with it
    come first, then names and paths that hold it, then the rest; of equals the shortest.
    """
    if not query:
        top = [path for path in paths if "/" not in path[:-1]]
        if len(top) >= limit:  # Where it is, and mostly it is, the many others need no sorting.
            paths = top
        return nsmallest(limit, paths, key=lambda path: (_depth(path), path.startswith("."), path))
    query = normalize("NFC", query)
    has_upper = query != query.lower()
    wanted = query if has_upper else query.lower()
    whole: list[tuple[tuple[int, int, str], str]] = []
    for path in paths:
        text = _compared(path, has_upper=has_upper)
        at = text.rfind(wanted)
        if at >= 0:
            whole.append(((_tier(text, wanted, at), len(path), path), path))
    found = [path for _, path in nsmallest(limit, whole)]
    if len(found) < limit:
        others = nsmallest(limit - len(found), _loose(paths, wanted, has_upper=has_upper))
        found += [path for _, path in others]
    return found


def _compared(path: str, *, has_upper: bool) -> str:
    text = path if path.isascii() else normalize("NFC", path)
    return text if has_upper else text.lower()


def _depth(path: str) -> int:
    return path.count("/") - path.endswith("/")


def _tier(text: str, wanted: str, at: int) -> int:
    """Return 0 where a name is what is wanted, 1 where one begins so, 2 and 3 where one or the
    path holds it.
    """
    name = text.rstrip("/").rpartition("/")[2]
    if name in (wanted, wanted.rstrip("/")) or name.partition(".")[0] == wanted:
        return 0
    if name.startswith(wanted):
        return 1
    return 2 if wanted in name else 3


def _loose(
    paths: Iterable[str], wanted: str, *, has_upper: bool
) -> Iterator[tuple[tuple[int, int, str], str]]:
    """Give the paths that hold the letters only with others between, the tightest first."""
    # Each letter's search ends at the letter: nothing to go back to, however long the path.
    holds = re.compile("".join(f"[^{each}]*{each}" for each in map(re.escape, wanted))).match
    for path in paths:
        text = _compared(path, has_upper=has_upper)
        if not holds(text) or wanted in text:
            continue
        span = _span(text, wanted, text.rstrip("/").rfind("/") + 1)
        if span is None:
            span = _span(text, wanted, 0)
            span = None if span is None else span + 1000
        if span is not None:
            yield (span, len(path), path), path


def _span(text: str, wanted: str, start: int) -> int | None:
    """Return over how many letters those wanted are spread, None if they are not all there."""
    first = at = text.find(wanted[0], start)
    for letter in wanted[1:]:
        if at < 0:
            return None
        at = text.find(letter, at + 1)
    return None if at < 0 else at - first

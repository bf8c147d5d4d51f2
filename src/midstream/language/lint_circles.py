"""Circles in where states lead: strongly connected components, after Tarjan (1972), no recursion."""

from collections.abc import Iterator, Mapping, Sequence


def circles(ahead: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the sets of states that all lead to each other; `ahead` says what follows each.

    A state alone is one only if it leads to itself.
    """
    found: list[list[str]] = []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in ahead:
        if root in number:
            continue
        walk: list[tuple[str, Iterator[str]]] = []
        _enter(root, ahead, number, low, path, on_path, walk)
        while walk:
            name, following = walk[-1]
            target = next(following, None)
            if target is None:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[name])
                if low[name] == number[name]:
                    at = path.index(name)
                    found.append(path[at:])
                    on_path.difference_update(path[at:])
                    del path[at:]
            elif target in ahead and target not in number:
                _enter(target, ahead, number, low, path, on_path, walk)
            elif target in on_path:
                low[name] = min(low[name], number[target])
    return [group for group in found if len(group) > 1 or group[0] in ahead[group[0]]]


def _enter(
    name: str,
    ahead: Mapping[str, Sequence[str]],
    number: dict[str, int],
    low: dict[str, int],
    path: list[str],
    on_path: set[str],
    walk: list[tuple[str, Iterator[str]]],
) -> None:
    number[name] = low[name] = len(number)
    path.append(name)
    on_path.add(name)
    walk.append((name, iter(ahead[name])))

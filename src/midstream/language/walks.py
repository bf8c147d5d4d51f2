"""Walks over what leads where: what can be reached from some names, and which come back to themselves."""

from collections.abc import Callable, Iterable, Mapping


def reached(starts: Iterable[str], ahead: Callable[[str], Iterable[str]]) -> dict[str, None]:
    """Return the names that can be reached from some, these first; `ahead` says what follows a name."""
    found = dict.fromkeys(starts)
    todo = list(found)
    while todo:
        for name in ahead(todo.pop()):
            if name not in found:
                found[name] = None
                todo.append(name)
    return found


def circles(ahead: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the sets of names that all lead to each other; `ahead` says what follows each.

    A name alone is one only if it leads to itself. Each set ends with the name that was come to first,
    and stands in the order of the way where each name leads to one other alone. These are the strongly
    connected parts (Kosaraju's two walks, without recursion: a chain of names may be longer than
    Python's stack).
    """
    behind: dict[str, list[str]] = {}
    for name, targets in ahead.items():
        for target in targets:
            behind.setdefault(target, []).append(name)
    seen: set[str] = set()
    finished = [name for start in ahead for name in _walk(start, ahead, seen)]
    seen = set()
    groups = [_walk(start, behind, seen) for start in reversed(finished)]
    return [
        group for group in groups if group and (group[1:] or group[0] in ahead.get(group[0], ()))
    ]


def _walk(start: str, ahead: Mapping[str, Iterable[str]], seen: set[str]) -> list[str]:
    """Return the unseen names reachable from `start`, each after all that it leads to."""
    if start in seen:
        return []
    seen.add(start)
    finished: list[str] = []
    stack = [(start, iter(ahead.get(start, ())))]
    while stack:
        name, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(ahead.get(target, ()))))
                break
        else:
            stack.pop()
            finished.append(name)
    return finished

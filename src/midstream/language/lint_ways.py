"""The ways out of a state: what is written, what of it can ever be taken, where it ends in `stop`."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from midstream.language.expressions import BadExpression, ExpressionFailed, compiled
from midstream.language.json_text import Node
from midstream.language.lint_names import branches_of, items_of, object_of, text_of, texts_of
from midstream.language.names import STOP


class Way(NamedTuple):
    """A way to the state that the text `node` names. `key` is the key of the state it belongs to."""

    key: str
    node: Node

    @property
    def target(self) -> str:
        """Return the name of the state it leads to."""
        name: str = self.node.value
        return name


@lru_cache(maxsize=1024)
def constant(when: str) -> bool | None:
    """Return what an expression always is; None when that depends, or it is no expression."""
    try:
        expression = compiled(when)
        return None if expression.names else bool(expression.evaluate({}))
    except (BadExpression, ExpressionFailed):
        return None


def condition(transition: Node) -> bool | None:
    """Return whether a transition is always (True) or never (False) taken; None when it depends."""
    when = transition.get("when")
    if when is None or when.kind == "null":
        return True
    return constant(when.value) if when.kind == "string" else None


def always_taken(state: Node) -> Node | None:
    """Return the first transition that is always taken: what follows it has no say."""
    transitions = items_of(state, "transitions")
    return next((each for each in transitions if condition(each) is True), None)


def written_ways(state: Node) -> Iterator[Way]:
    """Yield every way a state has written down, taken or not."""
    for each in items_of(state, "transitions"):
        yield from _way("transitions", each, "to")
    yield from _way("next", state, "next")
    yield from _way("on_failure", state, "on_failure")
    for each in items_of(state, "catch"):
        yield from _way("catch", each, "to")
    asked = object_of(state, "ask")
    if asked is not None:
        yield from _way("ask", asked, "to")
    yield from _way("resume", state, "resume")


def branch_ways(state: Node) -> Iterator[Way]:
    """Yield the ways into branches that begin at a state of the same scope."""
    yield from (Way("branch", name) for name in texts_of(state, "parallel"))
    for branch in branches_of(state):
        yield from _way("branch", branch, "state")


class Ways:
    """The ways out of the states of one scope that can be taken, each looked up once."""

    def __init__(self, states: Mapping[str, Node]) -> None:
        self.states = states
        self._taken: dict[str, tuple[Way, ...]] = {}
        self._branches: dict[str, tuple[Way, ...]] = {}

    def out_of(self, name: str) -> tuple[Way, ...]:
        """Return the ways out of a state that can be taken, those into branches left out."""
        if name not in self._taken:
            self._taken[name] = () if name == STOP else tuple(_taken(self.states[name]))
        return self._taken[name]

    def into_branches(self, name: str) -> tuple[Way, ...]:
        """Return the ways into the branches of a state."""
        if name not in self._branches:
            self._branches[name] = tuple(branch_ways(self.states[name]))
        return self._branches[name]

    def targets(self, name: str, *, has_branches: bool = True, has_words: bool = True) -> list[str]:
        """Return the names of what may come after a state, `stop` included.

        Without `has_words` it is left out where words of the user lead.
        """
        if name == STOP:
            return []
        found = [way.target for way in self.out_of(name) if has_words or way.key != "resume"]
        if has_branches:
            found += [way.target for way in self.into_branches(name)]
        return [*found, STOP] if stops(self.states[name]) else found

    def reached(
        self, roots: Iterable[str], *, has_branches: bool = True, has_words: bool = True
    ) -> dict[str, None]:
        """Return the names of the states that can be reached from some, these included."""
        todo = [name for name in roots if name in self.states]
        found = dict.fromkeys(todo)
        while todo:
            name = todo.pop()
            for target in self.targets(name, has_branches=has_branches, has_words=has_words):
                if target in self.states and target not in found:
                    found[target] = None
                    todo.append(target)
        return found


def stops(state: Node) -> bool:
    """Return whether the run ends behind a state that says nothing of where to go."""
    return text_of(state, "next") is None and always_taken(state) is None


def _taken(state: Node) -> Iterator[Way]:
    certain = always_taken(state)
    dead = {
        id(each.get("to"))
        for each in items_of(state, "transitions")
        if condition(each) is False or (certain is not None and each.start > certain.start)
    }
    for way in written_ways(state):
        is_passed = way.key == "next" and certain is not None
        is_idle = way.key == "on_failure" and text_of(state, "agent") is None
        if id(way.node) not in dead and not is_passed and not is_idle:
            yield way


def _way(key: str, holder: Node, name: str) -> Iterator[Way]:
    target = text_of(holder, name)
    if target is not None:
        yield Way(key, target)

"""What a run has been through, to mark in a picture: where it is, how often and how long it was where.

A state is named by a key: its name, behind the state and group it stands in, such as
`("review", "tests", "look")` for `look` in the branch `tests` of `review`.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from midstream.core import events as e
from midstream.core.notices import Envelope
from midstream.core.run import Run
from midstream.language.names import Json
from midstream.views.graph import Graph

Key: TypeAlias = tuple[str, ...]


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run is, and the visits and seconds of each state. `is_over`: it is there no more."""

    current: frozenset[Key] = frozenset()
    visits: Mapping[Key, int] = {}
    seconds: Mapping[Key, float] = {}
    is_over: bool = False


NO_MARKS = Marks()


class _Place(msgspec.Struct):
    """Where a branch is: its machine, how states of it are named, its state and since when."""

    graph: Graph
    prefix: Key = ()
    state: str = ""
    since: float = 0.0

    @property
    def key(self) -> Key:
        return (*self.prefix, self.state)

    def inner(self, branch: str) -> "_Place":
        """Return where a branch of the state begins; one without its own machine is in this one."""
        node = self.graph.node(self.state)
        for group in node.groups if node is not None else ():
            if group.kind != "branch" or group.name == branch:
                return _Place(group.graph, (*self.key, group.name))
        return _Place(self.graph, self.prefix)


def marks_from(facts: Iterable[Envelope], graph: Graph, *, now: float) -> Marks:
    """Return what a run's facts say. Time in which no process had the run is not counted.

    `now` (seconds since 1970) is how far the time in the current state goes.
    """
    places: dict[str, _Place] = {"": _Place(graph)}
    visits: dict[Key, int] = {}
    seconds: dict[Key, float] = {}
    is_over = False
    last = now
    tasks: tuple[str, ...] = ()  # what was handed on stands in no state of the graph

    def leave(path: str, at: float) -> None:
        place = places.pop(path, None)
        if place is not None and place.state:
            seconds[place.key] = seconds.get(place.key, 0.0) + max(0.0, at - place.since)

    for fact in facts:
        event = fact.event
        if isinstance(event, e.BranchStarted) and event.call_id:
            tasks = (*tasks, f"{event.branch}/{event.name}/".lstrip("/"))
        if f"{event.branch}/".startswith(tasks):
            last = fact.at
            continue
        match event:
            case e.StateTransition(target=target):
                place = places.get(event.branch) or _Place(graph)
                leave(event.branch, fact.at)
                entered = _Place(place.graph, place.prefix, target, fact.at)
                places[event.branch] = entered
                if not event.resumes:
                    visits[entered.key] = visits.get(entered.key, 0) + 1
            case e.BranchStarted(name=name, call_id=""):
                around = places.get(event.branch) or _Place(graph)
                places[f"{event.branch}/{name}".lstrip("/")] = around.inner(name)
            case e.BranchFinished() | e.BranchFailed() | e.BranchStopped():
                leave(event.branch, fact.at)
            case e.RunRecovered():
                for place in places.values():
                    place.since += max(0.0, fact.at - last)
            case e.RunFinished() | e.RunFailed() | e.RunStopped():
                is_over = True
                now = fact.at
        last = fact.at
    current = frozenset(place.key for place in places.values() if place.state)
    for path in list(places):
        leave(path, now)
    return Marks(current=current, visits=visits, seconds=seconds, is_over=is_over)


def marks_of(run: Run, graph: Graph) -> Marks:
    """Return what a run knows of itself: where it is and how often it was where, no times."""
    visits: dict[Key, int] = {}
    current: set[Key] = set()
    _gather(run, _Place(graph, (), run.visit.state), visits, current)
    return Marks(current=frozenset(current), visits=visits, is_over=run.is_over)


def _gather(run: Run, place: _Place, visits: dict[Key, int], current: set[Key]) -> None:
    for state, count in run.visits.items():
        key = (*place.prefix, state)
        visits[key] = visits.get(key, 0) + count
    if run.visit.state and not (run.is_over and place.prefix):
        current.add(place.key)
    for name, branch in run.visit.branches.items():
        if branch.branch.call_id:
            continue
        inner = place.inner(name)
        _gather(branch, _Place(inner.graph, inner.prefix, branch.visit.state), visits, current)


def marks_object(marks: Marks) -> dict[str, Json]:
    """Return marks as JSON: the states that were visited, each by the path it stands at."""
    return {
        "is_over": marks.is_over,
        "current": [list(key) for key in sorted(marks.current)],
        "visited": [
            {
                "state": list(key),
                "visits": visits,
                "seconds": round(marks.seconds.get(key, 0.0), 3),
            }
            for key, visits in marks.visits.items()
        ],
    }

"""What flows through `common_data`: what states write into it, and is what they read written by then?

A state writes by itself and in its branches, whose copies are merged when they join: of two branches
that write one path the later one wins.

Only a script knows what its handlers write, so with one handler in a workflow nothing is said of
readings. Two questions are asked of each: does anything write that path at all, and, where the state
would fail without it, is it written on every way that leads there? Sets of paths are whole numbers,
a bit for each path, so that the second question stays cheap in a file of thousands of states.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from midstream.language.errors import clip
from midstream.language.json_text import Node
from midstream.language.lint_scopes import Names, Scope, branch_name, has_handler, stops
from midstream.language.lint_text import Reading, readings
from midstream.language.names import RESUME, START, STOP
from midstream.language.problem import Report
from midstream.language.spec import Input
from midstream.language.templates import ROOTS

_Path: TypeAlias = tuple[str, ...]
"""Where below `common_data` something stands."""

ROOT: Final = "common_data"
ALWAYS_THERE = ("resume_input", "interrupted_state", "interrupted_text")
"""What an interruption writes: see `docs/workflows.md`."""

_MAX_PARTS = 32


def check_data(names: Names, report: Report) -> None:
    """Report where nothing can be saved, what two branches write, and readings of what is not there."""
    for state in names.every_state:
        for writing in _written_by(state):
            _check_path(writing.where, writing.said, report)
    for scope in names.scopes:
        for state in scope.nodes:
            if state.object("for_each") is None and state.get("parallel") is not None:
                _check_collisions(state, scope, report)
    if not any(map(has_handler, names.every_state)):
        flow = _Flow(names, report)
        flow.check(names.scope, before=flow.given, ever=flow.given)


# --- what is written ----------------------------------------------------------------------------


class _Writing(NamedTuple):
    """A path that something is written to, as it is `said` in the file, and where."""

    where: Node
    said: str

    @property
    def path(self) -> _Path:
        return _path_of(self.said)


def _path_of(said: str) -> _Path:
    """Return where below `common_data` a path leads; only its first parts, if it has very many."""
    if said.startswith("${") and said.endswith("}"):
        said = said[2:-1]  # a slip that is reported; what is meant is plain
    return tuple(said.removeprefix(f"{ROOT}.").split(".")[:_MAX_PARTS])


def _saved(holder: Node) -> Iterator[_Writing]:
    where = holder.text("save_as")
    if where is not None:
        yield _Writing(where, where.value)


def _results(state: Node) -> Iterator[_Writing]:
    """Yield where a state keeps what its work came to."""
    yield from _saved(state)
    output = state.object("workflow", "output")
    for key, member in () if output is None else output.members.items():
        yield _Writing(member.node, key)


def _caught(state: Node) -> Iterator[_Writing]:
    """Yield where a state keeps its errors."""
    return chain.from_iterable(map(_saved, state.objects("catch")))


def _written_by(state: Node) -> Iterator[_Writing]:
    return chain(_results(state), _caught(state))


def _by_branch(state: Node, scope: Scope) -> Iterator[tuple[str, list[_Writing]]]:
    """Yield each branch of a state by name, with what it writes."""
    listed, each = state.get("parallel"), state.object("for_each")
    branches = (*(() if listed is None else listed.items), *(() if each is None else (each,)))
    for number, branch in enumerate(branches, 1):
        inner = scope.of_branch(branch)
        if inner is not None and inner.nodes:
            nodes = [node for within in inner.walk() for node in within.nodes]
        else:
            first = branch if branch.kind == "string" else branch.text("state")
            names = () if first is None else scope.ways.reached((first.value,))
            nodes = [scope.states[name] for name in names if scope.states[name] is not state]
        yield branch_name(branch, number), [each for node in nodes for each in _written_by(node)]


class _Index:
    """Paths, each a bit of whole numbers that stand for sets of them."""

    def __init__(self) -> None:
        self.paths: list[_Path] = []
        self._bits: dict[_Path, int] = {}
        self._under: dict[_Path, int] = {}

    def add(self, path: _Path) -> int:
        """Return the bit of a path."""
        if path not in self._bits:
            bit = self._bits[path] = 1 << len(self.paths)
            self.paths.append(path)
            for length in range(1, len(path) + 1):
                self._under[path[:length]] = self._under.get(path[:length], 0) | bit
        return self._bits[path]

    def of(self, writings: Iterable[_Writing]) -> int:
        """Return the set of the paths of writings."""
        found = 0
        for writing in writings:
            found |= self.add(writing.path)
        return found

    def touching(self, path: _Path) -> int:
        """Return the paths that hold a path, or a part of what stands there."""
        found = self._under.get(path, 0)
        for length in range(1, len(path)):
            found |= self._bits.get(path[:length], 0)
        return found


def _check_path(where: Node, path: str, report: Report) -> None:
    parts = path.removeprefix(f"{ROOT}.").split(".")
    if not all(part.strip() for part in parts) or "${" in path or path == ROOT:
        message = f'expected a path such as "common_data.report", found "{clip(path)}".'
        is_template = path.startswith("${") and path.endswith("}")
        report.error(where, message, f'Did you mean "{clip(path[2:-1])}"?' if is_template else "")
    elif parts[0] in ROOTS and parts[0] != ROOT:
        message = f'results are kept in common_data, not in "{clip(parts[0])}".'
        report.error(where, message, f'Did you mean "common_data.{clip(path)}"?')


def _check_collisions(state: Node, scope: Scope, report: Report) -> None:
    """Report the paths that two branches of a state write, each once a branch."""
    index, owners = _Index(), list[str]()
    for name, writings in _by_branch(state, scope):
        first = {writing.path: writing.where for writing in reversed(writings)}
        for path, where in first.items():
            others = index.touching(path)
            if others:
                other = owners[
                    (others & -others).bit_length() - 1
                ]  # the lowest bit: who wrote first
                said = clip(".".join((ROOT, *path)))
                message = f'the branches "{clip(other)}" and "{clip(name)}" both write {said}'
                report.warning(
                    where,
                    f"{message}: the later one of them wins.",
                    'Give each branch an "output", or a path of its own.',
                )
        # Only now: within one branch a state may well overwrite what another one wrote.
        for path in first:
            index.add(path)
        owners += [name] * (len(index.paths) - len(owners))


# --- is it written when it is read? -------------------------------------------------------------


class _Flow:
    def __init__(self, names: Names, report: Report) -> None:
        self.report = report
        self.index = _Index()
        for state in names.every_state:
            self.index.of(_written_by(state))
        self.given = 0
        if names.root.object("input") is not None:
            named = names.root.text("input", "name")
            self.given = self.index.add((Input().name if named is None else named.value,))
        self.shown = [".".join((ROOT, *path)) for path in self.index.paths]

    def check(self, scope: Scope, *, before: int, ever: int) -> None:
        """Check a scope. `before` is surely written when it begins, `ever` perhaps."""
        written = {name: self.written(node, scope) for name, node in scope.states.items()}
        surely = self.surely(scope, written, before)
        everything = ever
        for name, paths in written.items():
            everything |= paths | self.index.of(_caught(scope.states[name]))
        for name, state in scope.states.items():
            for reading in readings(state):
                self.check_reading(reading, everything, surely.get(name, everything))
            for inner in scope.of_state(state):
                if inner.nodes:
                    self.check(inner, before=surely.get(name, before), ever=everything)
                    self.check_output(inner, everything)

    def written(self, state: Node, scope: Scope) -> int:
        """Return what a state has written when its work is done, in its branches, too."""
        found = self.index.of(_results(state))
        for _, writings in _by_branch(state, scope):
            found |= self.index.of(writings)
        return found

    def surely(self, scope: Scope, written: dict[str, int], before: int) -> dict[str, int]:
        """Return, for each state that can be reached, what is written whichever way led there.

        The greatest solution: every way into a state takes away what was not written on it. Words of
        the user may come at once, so `resume` can count on nothing but what was there before.
        """
        first = START if scope.outer is None else next(iter(scope.states), "")
        found = {name: before for name in (first, RESUME) if name in scope.states}
        todo = list(found)
        while todo:
            name = todo.pop()
            if name == STOP:
                continue
            for target, paths in self.behind(name, scope, written[name], found[name]):
                known = found.get(target)
                fewer = paths if known is None else known & paths
                if target in scope.states and fewer != known:
                    found[target] = fewer
                    todo.append(target)
        return found

    def behind(
        self, name: str, scope: Scope, written: int, before: int
    ) -> Iterator[tuple[str, int]]:
        """Yield each way out of a state with what is written when it is taken."""
        state, ways, done = scope.states[name], scope.ways, before | written
        caught = {id(catch.get("to")): catch for catch in state.objects("catch")}
        for way in (*ways.out[name], *ways.into_branches[name]):
            # Work that failed has left nothing but its error; over words of the user it was cut.
            if way.key == "catch":
                yield way.target, before | self.index.of(_saved(caught[id(way.node)]))
            else:
                yield way.target, done if way.key in ("transitions", "next") else before
        if stops(state):
            yield STOP, done

    # --- what is said ---

    def check_reading(self, reading: Reading, everything: int, surely: int) -> None:
        path = _below(reading.path)
        if path is None:
            return
        touching = self.index.touching(path)
        if not touching & everything:
            self.report_unwritten(reading, everything)
        elif reading.fails and not touching & surely:
            shown = clip(reading.path)
            message = f"{shown} may not be written yet when this state reads it."
            self.report.warning(reading.where, message, f"A default helps: ${{{shown}?none}}.")

    def check_output(self, scope: Scope, everything: int) -> None:
        output = None if scope.holder is None else scope.holder.text("output")
        if output is not None:
            nodes = (node for within in scope.walk() for node in within.nodes)
            inside = self.index.of(chain.from_iterable(map(_written_by, nodes)))
            self.check_reading(Reading(output, output.value), everything | inside, 0)

    def report_unwritten(self, reading: Reading, everything: int) -> None:
        is_all = everything == (1 << len(self.shown)) - 1
        known = [
            name for number, name in enumerate(self.shown) if is_all or everything >> number & 1
        ]
        best = self.report.nearest(reading.path, known)
        if reading.has_default and best is None:
            return
        hint = f'Did you mean "{clip(best)}"?' if best else 'A state writes it with "save_as".'
        self.report.warning(reading.where, f"nothing writes {clip(reading.path)}.", hint)


def _below(path: str) -> _Path | None:
    """Return where below `common_data` a path leads that a state may have written, else None."""
    first, *rest = path.split(".")
    is_ours = first == ROOT and bool(rest) and all(rest) and rest[0] not in ALWAYS_THERE
    return _path_of(path) if is_ours else None

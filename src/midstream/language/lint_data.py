"""What flows through `common_data`: is what a state reads written by then?

Only a script knows what its handlers write, so with one handler in a workflow nothing is said here.
Two questions are asked of each reading: does anything write that path at all, and, where the state
would fail without it, is it written on every way that leads there? Sets of paths are whole numbers,
a bit for each path, so that the second question stays cheap in a file of thousands of states.
"""

from collections.abc import Iterator

from midstream.language.json_text import Node
from midstream.language.lint_names import HANDLERS, Names, Scope, is_given, items_of, text_of
from midstream.language.lint_text import Reading, readings
from midstream.language.lint_ways import Ways, stops
from midstream.language.lint_writing import ROOT, Index, Path, by_branch, own_writings, path_of
from midstream.language.names import RESUME, START, STOP
from midstream.language.shape import Report, clip
from midstream.language.spec import Input

ALWAYS_THERE = ("resume_input", "interrupted_state", "interrupted_text")
"""What an interruption writes: see `docs/workflows.md`."""


def check_readings(names: Names, report: Report) -> None:
    """Report readings of what nothing writes, or nothing has surely written by then."""
    has_handler = any(is_given(s.members.get(key)) for s in names.every_state for key in HANDLERS)
    if not has_handler:
        flow = _Flow(names, report)
        flow.check(names.scope, before=flow.given, ever=flow.given)


class _Flow:
    def __init__(self, names: Names, report: Report) -> None:
        self.report = report
        self.index = Index()
        for state in names.every_state:
            for writing in own_writings(state):
                self.index.add(writing.path)
        self.given = 0
        wanted = names.root.get("input")
        if wanted is not None and wanted.kind == "object":
            named = text_of(wanted, "name")
            self.given = self.index.add((Input().name if named is None else named.value,))
        self.shown = [".".join((ROOT, *path)) for path in self.index.paths]

    def check(self, scope: Scope, *, before: int, ever: int) -> None:
        """Check a scope. `before` is surely written when it begins, `ever` perhaps."""
        ways = Ways(scope.states)
        written = {name: self.written(node, scope, ways) for name, node in scope.states.items()}
        surely = self.surely(scope, ways, written, before)
        everything = ever
        for name, paths in written.items():
            everything |= paths | self.caught(scope.states[name])
        for name, state in scope.states.items():
            for reading in readings(state):
                self.check_reading(reading, everything, surely.get(name, everything))
            for inner in scope.of_state(state):
                if inner.nodes:
                    self.check(inner, before=surely.get(name, before), ever=everything)
                    self.check_output(inner, everything)

    def written(self, state: Node, scope: Scope, ways: Ways) -> int:
        """Return what a state has written when its work is done, in its branches, too."""
        errors = {id(text_of(catch, "save_as")) for catch in items_of(state, "catch")}
        found = 0
        for writing in own_writings(state):
            found |= 0 if id(writing.where) in errors else self.index.add(writing.path)
        for _, writings in by_branch(state, scope, ways):
            for writing in writings:
                found |= self.index.add(writing.path)
        return found

    def caught(self, state: Node) -> int:
        """Return what a state writes of its errors."""
        found = 0
        for catch in items_of(state, "catch"):
            where = text_of(catch, "save_as")
            found |= 0 if where is None else self.index.add(path_of(where.value))
        return found

    def surely(
        self, scope: Scope, ways: Ways, written: dict[str, int], before: int
    ) -> dict[str, int]:
        """Return, for each state that can be reached, what is written whichever way led there.

        The greatest solution: every way into a state takes away what was not written on it. Words of
        the user may come at once, so `resume` can count on nothing but what was there before.
        """
        first = START if scope.outer is None else next(iter(scope.states), "")
        states = scope.states
        found = {name: before for name in (first, RESUME) if name in states}
        todo = list(found)
        while todo:
            name = todo.pop()
            if name == STOP:
                continue
            for target, paths in self.behind(name, ways, written[name], found[name]):
                known = found.get(target)
                fewer = paths if known is None else known & paths
                if target in states and fewer != known:
                    found[target] = fewer
                    todo.append(target)
        return found

    def behind(self, name: str, ways: Ways, written: int, before: int) -> Iterator[tuple[str, int]]:
        """Yield each way out of a state with what is written when it is taken."""
        state = ways.states[name]
        errors = {
            id(catch.get("to")): text_of(catch, "save_as") for catch in items_of(state, "catch")
        }
        done = before | written
        for way in (*ways.out_of(name), *ways.into_branches(name)):
            if way.key == "catch":
                where = errors.get(id(way.node))
                extra = 0 if where is None else self.index.add(path_of(where.value))
                yield way.target, before | extra
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
        output = None if scope.holder is None else text_of(scope.holder, "output")
        if output is not None:
            inside = 0
            for within in scope.walk():
                for state in within.nodes:
                    for writing in own_writings(state):
                        inside |= self.index.add(writing.path)
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


def _below(path: str) -> Path | None:
    """Return where below `common_data` a path leads that a state may have written, else None."""
    first, *rest = path.split(".")
    is_ours = first == ROOT and bool(rest) and all(rest) and rest[0] not in ALWAYS_THERE
    return path_of(path) if is_ours else None

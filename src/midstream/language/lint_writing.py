"""What states write into `common_data`: by themselves, and in their branches, whose copies are merged
when they join. Of two branches that write one path the later one wins.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from midstream.language.json_text import Node
from midstream.language.lint_names import Names, Scope, items_of, object_of, text_of
from midstream.language.lint_ways import Ways
from midstream.language.shape import Report, clip

Path: TypeAlias = tuple[str, ...]

ROOT: Final = "common_data"
_ELSEWHERE = ("variables", "input", "resume_input", "last_response", "last", "visits")
_MAX_PARTS = 32


class Writing(NamedTuple):
    """A path below `common_data` that something is written to, and where the file says so."""

    path: Path
    where: Node


class Index:
    """Paths, each a bit of whole numbers that stand for sets of them."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self._bits: dict[Path, int] = {}
        self._under: dict[Path, int] = {}

    def add(self, path: Path) -> int:
        """Return the bit of a path."""
        if path not in self._bits:
            bit = self._bits[path] = 1 << len(self.paths)
            self.paths.append(path)
            for length in range(1, len(path) + 1):
                self._under[path[:length]] = self._under.get(path[:length], 0) | bit
        return self._bits[path]

    def touching(self, path: Path) -> int:
        """Return the paths that hold a path, or a part of what stands there."""
        found = self._under.get(path, 0)
        for length in range(1, len(path)):
            found |= self._bits.get(path[:length], 0)
        return found


def path_of(saved: str) -> Path:
    """Return where below `common_data` a path leads; only its first parts, if it has very many."""
    if saved.startswith("${") and saved.endswith("}"):
        saved = saved[2:-1]  # a slip that is reported; what is meant is plain
    return tuple(saved.removeprefix(f"{ROOT}.").split(".")[:_MAX_PARTS])


def saved_in(state: Node) -> Iterator[tuple[Node, str]]:
    """Yield where a state says it saves something, with the path as it is written."""
    for holder in (state, *items_of(state, "catch")):
        where = text_of(holder, "save_as")
        if where is not None:
            yield where, where.value
    sub = object_of(state, "workflow")
    output = None if sub is None else object_of(sub, "output")
    for key, member in () if output is None else output.members.items():
        yield member.node, key


def own_writings(state: Node) -> list[Writing]:
    """Return what a state itself writes."""
    return [Writing(path_of(path), where) for where, path in saved_in(state)]


def by_branch(state: Node, scope: Scope, ways: Ways) -> Iterator[tuple[str, list[Writing]]]:
    """Yield each branch of a state by name, with what it writes."""
    listed, each = state.get("parallel"), object_of(state, "for_each")
    branches = (*(() if listed is None else listed.items), *(() if each is None else (each,)))
    for number, branch in enumerate(branches, 1):
        inner = scope.of_branch(branch)
        if inner is not None and inner.nodes:
            nodes = [node for within in inner.walk() for node in within.nodes]
        else:
            first = branch if branch.kind == "string" else text_of(branch, "state")
            names = () if first is None else ways.reached((first.value,))
            nodes = [scope.states[name] for name in names if scope.states[name] is not state]
        yield branch_name(branch, number), [each for node in nodes for each in own_writings(node)]


def branch_name(branch: Node, number: int) -> str:
    """Return what a branch of a `parallel` state is called: see `midstream.language.branch_spec`."""
    if branch.kind == "string":
        return str(branch.value)
    for key in ("name", "state"):
        name = text_of(branch, key)
        if name is not None and name.value:
            return str(name.value)
    return f"branch{number}"


def check_writings(names: Names, report: Report) -> None:
    """Report paths nothing can be saved at, and branches that write the same one."""
    for state in names.every_state:
        for where, path in saved_in(state):
            _check_path(where, path, report)
    for scope in names.scopes:
        ways = Ways(scope.states)
        for state in scope.nodes:
            if object_of(state, "for_each") is None and state.get("parallel") is not None:
                _check_collisions(state, scope, ways, report)


def _check_path(where: Node, path: str, report: Report) -> None:
    parts = path.removeprefix(f"{ROOT}.").split(".")
    if not all(part.strip() for part in parts) or "${" in path or path == ROOT:
        message = f'expected a path such as "common_data.report", found "{clip(path)}".'
        is_template = path.startswith("${") and path.endswith("}")
        report.error(where, message, f'Did you mean "{clip(path[2:-1])}"?' if is_template else "")
    elif parts[0] in _ELSEWHERE:
        message = f'results are kept in common_data, not in "{clip(parts[0])}".'
        report.error(where, message, f'Did you mean "common_data.{clip(path)}"?')


def _check_collisions(state: Node, scope: Scope, ways: Ways, report: Report) -> None:
    """Report the paths that two branches of a state write, each once a branch."""
    index, owners = Index(), list[str]()
    for name, writings in by_branch(state, scope, ways):
        first = {writing.path: writing.where for writing in reversed(writings)}
        for path, where in first.items():
            others = index.touching(path)
            if others:
                other = owners[(others & -others).bit_length() - 1]
                said = clip(".".join((ROOT, *path)))
                message = f'the branches "{clip(other)}" and "{clip(name)}" both write {said}'
                report.warning(
                    where,
                    f"{message}: the later one of them wins.",
                    'Give each branch an "output", or a path of its own.',
                )
        for path in first:
            index.add(path)
        owners += [name] * (len(index.paths) - len(owners))

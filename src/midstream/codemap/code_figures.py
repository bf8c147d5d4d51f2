"""The figures of a folder of code: size, complexity, imports, and where change meets complexity.

The same folder and history give the same figures, in the same order. A file is a stranger's and so are
its parsers' limits: what takes too long or makes them fail costs its functions, never the measuring.

`score` is complexity times changes: a complex file nobody touches costs nothing, a simple one that
changes daily little (A. Tornhill, "Your Code as a Crime Scene", 2015).
"""

import posixpath
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import msgspec

from midstream.codemap.file_imports import (
    EXACT,
    find_go_modules,
    name_modules,
    python_imports,
    read_imports,
    resolve_imports,
)
from midstream.codemap.languages import NOT_CODE
from midstream.codemap.source_files import (
    count_changes,
    is_generated,
    list_files,
    read_source,
)
from midstream.language.walks import circles

MAX_FILES = 5_000
DEADLINE_S = 80.0
COMPLEX_FROM = 11
"""Cyclomatic complexity from which a function counts as complex (McCabe, 1976: above 10)."""

MAX_CYCLE_SHOWN = 12
MAX_CHARS = 40_000

Guard: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Makes what is held while a file's functions are looked for; it may raise to end that."""


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """One function: where it begins, its lines, its cyclomatic complexity (1 is a straight line)."""

    name: str
    path: str
    line: int
    lines: int
    complexity: int


class ReadFile(msgspec.Struct, frozen=True, kw_only=True):
    """What was read off one file. `functions` is None where they could not be.

    `imports` are the known modules a Python file imports; of other languages, what is written there.
    """

    path: str
    language: str
    lines: int
    functions: tuple[Function, ...] | None
    imports: tuple[str, ...]


def read_file(
    root: Path,
    path: str,
    module: str,
    known: frozenset[str],
    guard: Guard,
) -> ReadFile | None:
    """Return a file's figures; None where it is not text, too large, or no regular file.

    `module` is the name the file has in Python, "" for none; `known` are all such names.
    """
    source = read_source(root, path)
    if source is None:
        return None
    functions: tuple[Function, ...] | None = ()
    imports: tuple[str, ...] = ()
    if not is_generated(source.size, source.lines):
        if source.language not in NOT_CODE:
            functions = _functions(path, source.text, guard)
        if module:
            imports = _known_imports(path, source.text, module, known)
        elif source.language in EXACT:
            imports = read_imports(source.text, source.language, path)
    return ReadFile(
        path=path,
        language=source.language,
        lines=source.lines,
        functions=functions,
        imports=imports,
    )


def _functions(path: str, source: str, guard: Guard) -> tuple[Function, ...] | None:
    """Return a file's functions; none in a language that lizard does not know, None where it fails."""
    import lizard  # type: ignore[import-untyped]

    if lizard.get_reader_for(path) is None:
        return ()
    try:
        with guard():
            found = lizard.FileAnalyzer(lizard.get_extensions([])).analyze_source_code(path, source)
    except Exception:
        # Foreign text through a foreign parser: whatever it raises says only that it cannot read it.
        return None
    return tuple(
        Function(
            name=function.name,
            path=path,
            line=function.start_line,
            lines=function.end_line - function.start_line + 1,
            complexity=function.cyclomatic_complexity,
        )
        for function in found.function_list
    )


def _known_imports(path: str, source: str, module: str, known: frozenset[str]) -> tuple[str, ...]:
    is_package = path == "__init__.py" or path.endswith("/__init__.py")
    try:
        found = python_imports(source, module=module, is_package=is_package, known=known)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(sorted(found))


class Language(msgspec.Struct, frozen=True, kw_only=True):
    """The text files of one language."""

    name: str
    files: int
    lines: int


class File(msgspec.Struct, frozen=True, kw_only=True):
    """One file. `complexity` is the sum over its functions; `changes` the commits that touched it."""

    path: str
    lines: int
    functions: int
    complexity: int
    changes: int
    score: int


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over all measured files. `skipped` files are binary, too large, links or unreadable."""

    files: int
    lines: int
    functions: int
    complexity: int
    complex_functions: int
    mean_function_lines: float
    mean_complexity: float
    skipped: int


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """A module (see `Imports`) and how many others import it."""

    module: str
    by: int


class Imports(msgspec.Struct, frozen=True, kw_only=True):
    """Which modules of the folder import which. A cycle's modules all reach each other.

    A module is, by language, one of Python by its dotted name, a package of Go by its folder, a file of
    another language by its path. `languages` are those whose imports were measured. Where there is none,
    `cycle_count` is None: nobody looked.
    """

    languages: tuple[str, ...] = ()
    modules: int
    edges: int
    cycle_count: int | None
    cycles: tuple[tuple[str, ...], ...]
    most_imported: tuple[Imported, ...]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """How far back the changes were counted. Without history every file has 0 changes."""

    available: bool
    commits: int


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a folder. Lists hold the first few, the heaviest first; `totals` hold all.

    `ranking` holds only files with a score. `notes` say what is not in the figures, and why.
    """

    folder: str
    totals: Totals
    languages: tuple[Language, ...]
    largest: tuple[File, ...]
    most_complex: tuple[Function, ...]
    most_changed: tuple[File, ...]
    ranking: tuple[File, ...]
    imports: Imports
    history: History
    notes: tuple[str, ...] = ()


def measure(
    root: Path,
    *,
    commits: int = 200,
    top: int = 10,
    clock: Callable[[], float] = time.monotonic,
    guard: Guard = nullcontext,
    without: Collection[str] = (),
) -> Measurement:
    """Return the figures of a folder; an empty one has figures too.

    Args:
        root: the folder. Only regular files in it are read, links are not followed.
        commits: how far back the history is read.
        top: how many entries each list holds.
        clock: the time in seconds; after `DEADLINE_S` of it the rest of the files is left out, and `notes`
            says so.
        guard: held while the functions of one file are looked for; it may raise to end that.
        without: files that are not looked at, by their paths below the folder.
    """
    ends_at = clock() + DEADLINE_S
    # The folder itself may be named by a link; below it none is followed.
    root = root.resolve()
    left_out = frozenset(without)
    everything = [path for path in list_files(root) if path not in left_out]
    # A name that is not text cannot stand in JSON, and one with a line break in no report.
    paths = [path for path in everything if path.isprintable()]
    names = name_modules(paths)
    known = frozenset(names.values())
    read: list[ReadFile] = []
    skipped, looked_at = len(everything) - len(paths), 0
    for path in paths[:MAX_FILES]:
        if clock() > ends_at:
            break
        looked_at += 1
        found = read_file(root, path, names.get(path, ""), known, guard)
        if found is None:
            skipped += 1
        else:
            read.append(found)
    history = count_changes(root, commits=commits)
    unread = sum(one.functions is None for one in read)
    notes = []
    if looked_at < len(paths):
        notes.append(f"{looked_at} of {len(paths)} files were looked at; the rest is not in here.")
    if unread:
        notes.append(f"Files whose functions could not be read, only their lines: {unread}.")
    unmeasured = sorted({one.language for one in read if one.functions} - EXACT - {"Python"})
    if unmeasured:
        notes.append(f"Imports were not measured in: {', '.join(unmeasured)}.")
    if history is None:
        notes.append("No git history here: changes are not counted.")
    return _measured(root, read, names, history, top=top, skipped=skipped, notes=notes)


def _measured(
    root: Path,
    read: list[ReadFile],
    names: dict[str, str],
    history: tuple[int, dict[str, int]] | None,
    *,
    top: int,
    skipped: int,
    notes: list[str],
) -> Measurement:
    seen, touched = history or (0, {})
    files = [_file(one, touched.get(one.path, 0)) for one in read]
    code = [_file(one, touched.get(one.path, 0)) for one in read if one.language not in NOT_CODE]
    functions = [function for one in read for function in one.functions or ()]
    return Measurement(
        folder=root.resolve().name,
        totals=_totals(files, functions, skipped),
        languages=_languages(read)[:top],
        largest=tuple(sorted(code, key=lambda f: (-f.lines, f.path))[:top]),
        most_complex=tuple(
            sorted(functions, key=lambda f: (-f.complexity, -f.lines, f.path, f.line))[:top]
        ),
        most_changed=_heaviest(files, lambda f: f.changes, top),
        ranking=_heaviest(files, lambda f: f.score, top),
        imports=_imports(read, names, find_go_modules(root, (one.path for one in read)), top),
        history=History(available=history is not None, commits=seen),
        notes=tuple(notes),
    )


def _heaviest(files: Iterable[File], weight: Callable[[File], int], top: int) -> tuple[File, ...]:
    weighed = (file for file in files if weight(file))
    return tuple(sorted(weighed, key=lambda file: (-weight(file), file.path))[:top])


def _file(one: ReadFile, touched: int) -> File:
    functions = one.functions or ()
    complexity = sum(function.complexity for function in functions)
    return File(
        path=one.path,
        lines=one.lines,
        functions=len(functions),
        complexity=complexity,
        changes=touched,
        score=complexity * touched,
    )


def _totals(files: list[File], functions: list[Function], skipped: int) -> Totals:
    complexity = sum(function.complexity for function in functions)
    count = len(functions) or 1
    return Totals(
        files=len(files),
        lines=sum(file.lines for file in files),
        functions=len(functions),
        complexity=complexity,
        complex_functions=sum(f.complexity >= COMPLEX_FROM for f in functions),
        mean_function_lines=round(sum(f.lines for f in functions) / count, 1),
        mean_complexity=round(complexity / count, 1),
        skipped=skipped,
    )


def _languages(read: Iterable[ReadFile]) -> tuple[Language, ...]:
    sums: dict[str, tuple[int, int]] = {}
    for one in read:
        files, lines = sums.get(one.language, (0, 0))
        sums[one.language] = (files + 1, lines + one.lines)
    named = [Language(name=name, files=f, lines=n) for name, (f, n) in sums.items()]
    return tuple(sorted(named, key=lambda one: (-one.lines, one.name)))


def _imports(
    read: Sequence[ReadFile], names: Mapping[str, str], go: Mapping[str, str], top: int
) -> Imports:
    written = {
        # That a module has another below it is no import of Rust's.
        one.path: (one.language, [name for name in one.imports if not name.startswith("mod ")])
        for one in read
        if one.language in EXACT
    }
    modules = {
        path: posixpath.dirname(path) or "." if language == "Go" else path
        for path, (language, _) in written.items()
    }
    found: dict[str, set[str]] = {
        names[one.path]: set(one.imports) for one in read if one.path in names
    }
    for path, targets in resolve_imports(written, go=go).items():
        reached = {modules[target] for target in targets} - {modules[path]}
        found.setdefault(modules[path], set()).update(reached)
    graph = {
        module: tuple(sorted(name for name in targets if name in found))
        for module, targets in sorted(found.items())
    }
    languages = {one.language for one in read if one.path in names or one.path in written}
    by = sorted(Counter(chain(*graph.values())).items(), key=lambda item: (-item[1], item[0]))
    rings = sorted(map(sorted, circles(graph)), key=lambda ring: (-len(ring), ring))
    return Imports(
        languages=tuple(sorted(languages)),
        modules=len(graph),
        edges=sum(map(len, graph.values())),
        cycle_count=len(rings) if graph else None,
        cycles=tuple(tuple(ring[:MAX_CYCLE_SHOWN]) for ring in rings[:top]),
        most_imported=tuple(Imported(module=module, by=count) for module, count in by[:top]),
    )


# --- as text --------------------------------------------------------------------------------------


def as_json(figures: Measurement, *, max_chars: int = MAX_CHARS) -> str:
    """Return the figures as compact JSON, their lists shortened until it is short enough.

    A tool's result is cut in the middle when it is too long, and JSON would not survive that.
    """
    top = max(len(figures.largest), len(figures.most_complex), len(figures.most_changed), 1)
    while True:
        text = msgspec.json.encode(figures).decode()
        if len(text) <= max_chars or top == 0:
            return text
        top //= 2
        figures = _shortened(figures, top)


def _shortened(figures: Measurement, top: int) -> Measurement:
    imports = msgspec.structs.replace(
        figures.imports,
        cycles=figures.imports.cycles[:top],
        most_imported=figures.imports.most_imported[:top],
    )
    return msgspec.structs.replace(
        figures,
        largest=figures.largest[:top],
        most_complex=figures.most_complex[:top],
        most_changed=figures.most_changed[:top],
        ranking=figures.ranking[:top],
        imports=imports,
    )

"""The figures of one file of code: its language, lines, functions and imports.

The file is a stranger's and so are its parsers' limits: what takes too long or makes them fail costs
its functions, never the measuring.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

import msgspec

from midstream.codemap.file_imports import EXACT, read_imports
from midstream.codemap.import_graph import python_imports
from midstream.codemap.source_files import read_regular

MAX_FILE_BYTES = 1_000_000
MAX_LINE_BYTES = 400
"""Mean bytes a line above which a file counts as generated: nothing is looked for in it."""

FILE_S = 5.0
"""Seconds of processor time for the functions of one file. A megabyte takes half of one; a file made to
be slow would take hours."""

Guard: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Makes what is held while a file's functions are looked for; it may raise to end that."""

_LANGUAGES = {
    "Python": ".py .pyi",
    "JavaScript": ".js .mjs .cjs .jsx",
    "TypeScript": ".ts .tsx",
    "C": ".c .h",
    "C++": ".cpp .cc .cxx .hpp .hh",
    "C#": ".cs",
    "Java": ".java",
    "Kotlin": ".kt .kts",
    "Scala": ".scala",
    "Go": ".go",
    "Rust": ".rs",
    "Swift": ".swift",
    "Objective-C": ".m .mm",
    "Ruby": ".rb",
    "PHP": ".php",
    "Perl": ".pl .pm",
    "Lua": ".lua",
    "R": ".r",
    "Erlang": ".erl .hrl",
    "Zig": ".zig",
    "Fortran": ".f .f90 .f95 .f03 .f08",
    "Solidity": ".sol",
    "Vue": ".vue",
    "GDScript": ".gd",
    "Shell": ".sh .bash .zsh",
    "SQL": ".sql",
    "HTML": ".html .htm",
    "CSS": ".css .scss .less",
    "Markdown": ".md .markdown",
    "reStructuredText": ".rst",
    "JSON": ".json .jsonl",
    "YAML": ".yml .yaml",
    "TOML": ".toml",
    "XML": ".xml",
}
_BY_SUFFIX = {suffix: name for name, all_ in _LANGUAGES.items() for suffix in all_.split()}
OTHER = "Other"

NOT_CODE = {"HTML", "CSS", "Markdown", "reStructuredText", "JSON", "YAML", "TOML", "XML", OTHER}


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


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a file, before anything is looked for in it; `size` is in bytes."""

    size: int
    lines: int
    language: str
    text: str


def read_source(root: Path, path: str) -> Source | None:
    """Return a file's text; None where it is none, too large, no regular file or holds secrets."""
    data = read_regular(root, path, max_bytes=MAX_FILE_BYTES)
    if data is None or b"\0" in data[:8_192]:
        return None
    return Source(
        size=len(data),
        lines=data.count(b"\n") + (not data.endswith(b"\n") and bool(data)),
        language=language_of(path),
        text=data.decode(errors="replace"),
    )


def is_generated(size: int, lines: int) -> bool:
    """Return whether a program seems to have written a file of so many bytes and lines."""
    return size > MAX_LINE_BYTES * (lines + 10)


def language_of(path: str) -> str:
    """Return the language a file's name says it is in, `OTHER` for none we know."""
    return _BY_SUFFIX.get(Path(path).suffix.lower(), OTHER)


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


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in what is done meanwhile once it has used so much of the processor's time.

    For the main thread only.
    """

    if sys.platform == "win32":  # It has no such clock: whoever waits for the result has one.
        yield
        return

    def ring(_signal: int, _frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)

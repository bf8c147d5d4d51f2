"""Which files of a folder lean on which others, read off their imports.

Python goes through `import_graph`, on the import statements alone: a file's whole syntax tree takes a
hundred times as long. Of other languages the imports that name files of the folder are looked up.
"""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from midstream.tool.import_graph import imports_of, module_names

MAX_IMPORTS: Final = 500

_PYTHON: Final = re.compile(
    r"^[ \t]*(from[ \t]+[.\w]{1,200}[ \t]+import[ \t]+(?:\([^)]{0,4000}\)|[^\n#;(]{1,400})"
    r"|import[ \t]+[\w., \t]{1,400})",
    re.MULTILINE,
)
_SCRIPT: Final = re.compile(
    r"(?:\bfrom|\bimport|\brequire|\bimport\()[ (]{0,2}['\"](\.[^'\"\n]{0,200})['\"]"
)
_INCLUDE: Final = re.compile(r"^[ \t]*#[ \t]*include[ \t]*\"([^\"\n]{1,200})\"", re.MULTILINE)
_JAVA: Final = re.compile(r"^import[ \t]+(?:static[ \t]+)?([\w.]{1,200})", re.MULTILINE)
_RUST: Final = re.compile(r"\b(?:use[ \t]+(?:crate|super|self)::|mod[ \t]+)([\w:]{1,200})")
_RUBY: Final = re.compile(
    r"^[ \t]*require_relative[ \t(]+['\"]([^'\"\n]{1,200})['\"]", re.MULTILINE
)
_GO: Final = re.compile(
    r"^[ \t]*(?:import[ \t]+)?(?:\w+[ \t]+)?\"([\w./-]{1,200}/[\w.-]+)\"", re.MULTILINE
)

_PATTERNS: Final = {
    "Python": _PYTHON,
    **dict.fromkeys(("JavaScript", "TypeScript", "Vue"), _SCRIPT),
    **dict.fromkeys(("C", "C++", "Objective-C"), _INCLUDE),
    **dict.fromkeys(("Java", "Kotlin", "Scala"), _JAVA),
    "Rust": _RUST,
    "Ruby": _RUBY,
    "Go": _GO,
}
_ENDINGS: Final = ("", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".vue", ".rb", ".d.ts")
_INDEXES: Final = ("/index.ts", "/index.tsx", "/index.js", "/index.jsx")


def imports_in(source: str, language: str) -> tuple[str, ...]:
    """Return what a source imports, as it is written there: statements of Python, names of others."""
    pattern = _PATTERNS.get(language)
    if pattern is None:
        return ()
    found: dict[str, None] = {}
    for match in pattern.finditer(source):
        found[match[1].strip()] = None
        if len(found) == MAX_IMPORTS:
            break
    return tuple(found)


def leaning(files: Mapping[str, tuple[str, Sequence[str]]]) -> dict[str, set[str]]:
    """Return the files each file leans on, itself left out.

    Args:
        files: by path, each file's language and what it imports (`imports_in`).
    """
    places = _Places(files)
    return {
        path: set(places.of(path, language, imports)) - {path}
        for path, (language, imports) in files.items()
    }


class _Places:
    """Where the files of a folder are, by all that an import may call them."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        names = module_names(self._paths)
        self._modules = {module: path for path, module in names.items()}
        self._names = names
        self._by_base: dict[str, list[str]] = {}
        self._by_folder: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            self._by_base.setdefault(posixpath.basename(path), []).append(path)
            if path.endswith(".go") and not path.endswith("_test.go"):
                self._by_folder.setdefault(posixpath.dirname(path), []).append(path)

    def of(self, path: str, language: str, imports: Sequence[str]) -> list[str]:
        """Return the files that imports of a file lead to."""
        if language == "Python":
            return self._of_python(path, imports)
        folder = posixpath.dirname(path)
        found: list[str] = []
        for name in imports:
            match language:
                case "JavaScript" | "TypeScript" | "Vue" | "Ruby":
                    found += self._beside(folder, name)
                case "C" | "C++" | "Objective-C":
                    found += self._beside(folder, name) or self._ending(name)
                case "Java" | "Kotlin" | "Scala":
                    ways = name.replace(".", "/")
                    found += self._ending(f"{ways}.java") or self._ending(f"{ways}.kt")
                case "Rust":
                    found += self._of_rust(folder, name)
                case "Go":
                    found += self._of_go(name)
        return found

    def _of_python(self, path: str, imports: Sequence[str]) -> list[str]:
        module = self._names.get(path, "")
        is_package = posixpath.basename(path) == "__init__.py"
        known = self._modules.keys()

        def leads_to(source: str) -> set[str]:
            return imports_of(source, module=module, is_package=is_package, known=known)

        try:
            found = leads_to("\n".join(imports))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            # Prose of a docstring that begins like an import.
            found = set()
            for statement in imports:
                try:
                    found |= leads_to(statement)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    continue
        return [self._modules[name] for name in found]

    def _beside(self, folder: str, name: str) -> list[str]:
        here = posixpath.normpath(posixpath.join(folder, name))
        ways = [f"{here}{end}" for end in (*_ENDINGS, *_INDEXES)]
        if here.endswith(".js"):
            ways += [f"{here[:-3]}.ts", f"{here[:-3]}.tsx"]
        return [next(way for way in ways if way in self._paths)] if {*ways} & self._paths else []

    def _ending(self, name: str) -> list[str]:
        """Return the only file whose path ends like that."""
        name = posixpath.normpath(name)
        same = self._by_base.get(posixpath.basename(name), [])
        found = [path for path in same if path == name or path.endswith(f"/{name}")]
        return found if len(found) == 1 else []

    def _of_rust(self, folder: str, name: str) -> list[str]:
        parts = [part for part in name.split("::") if part]
        while parts:
            ways = "/".join(parts)
            found = self._ending(f"{ways}.rs") or self._ending(f"{ways}/mod.rs")
            near = [f"{folder}/{ways}.rs", f"{folder}/{ways}/mod.rs"]
            found = found or [way for way in near if way in self._paths]
            if found:
                return found
            parts.pop()
        return []

    def _of_go(self, name: str) -> list[str]:
        parts = name.split("/")
        for at in range(len(parts)):
            found = self._by_folder.get("/".join(parts[at:]))
            if found:
                return found
        return []

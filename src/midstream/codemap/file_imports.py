"""Which files of a folder import which others, read off their text: nothing is imported or run.

Python is read by its syntax tree, for a map on the import statements alone: a file's whole tree takes a
hundred times as long. Each import of it counts, also one inside a function or under `TYPE_CHECKING`: that
hides a dependency, it does not remove it. JavaScript, TypeScript, Go, Rust and Java are parsed by
tree-sitter, so that what stands in a string or a comment is no import. Of other languages the imports
that name files of the folder are looked up by patterns: good enough to say what matters most, not to be
counted (`EXACT`).
"""

import ast
import posixpath
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from midstream.codemap.source_files import read_regular

if TYPE_CHECKING:
    import tree_sitter

MAX_IMPORTS: Final = 500
_MAX_GO_MOD: Final = 100_000

EXACT: Final = frozenset({"JavaScript", "TypeScript", "Go", "Rust", "Java"})
"""The languages, besides Python, whose imports are read off their syntax."""

_PYTHON: Final = re.compile(
    r"^[ \t]*(from[ \t]+[.\w]{1,200}[ \t]+import[ \t]+(?:\([^)]{0,4000}\)|[^\n#;(]{1,400})"
    r"|import[ \t]+[\w., \t]{1,400})",
    re.MULTILINE,
)
_SCRIPT: Final = re.compile(
    r"(?:\bfrom|\bimport|\brequire|\bimport\()[ (]{0,2}['\"](\.[^'\"\n]{0,200})['\"]"
)
_INCLUDE: Final = re.compile(r"^[ \t]*#[ \t]*include[ \t]*\"([^\"\n]{1,200})\"", re.MULTILINE)
_JVM: Final = re.compile(r"^import[ \t]+([\w.]{1,200})", re.MULTILINE)
_RUBY: Final = re.compile(
    r"^[ \t]*require_relative[ \t(]+['\"]([^'\"\n]{1,200})['\"]", re.MULTILINE
)

_PATTERNS: Final = {
    "Python": _PYTHON,
    "Vue": _SCRIPT,
    **dict.fromkeys(("C", "C++", "Objective-C"), _INCLUDE),
    **dict.fromkeys(("Kotlin", "Scala"), _JVM),
    "Ruby": _RUBY,
}

_SCRIPT_QUERY: Final = """[
  (import_statement source: (string (string_fragment) @import))
  (export_statement source: (string (string_fragment) @import))
  (call_expression function: (import) arguments: (arguments . (string (string_fragment) @import)))
  (call_expression function: (identifier) @called (#eq? @called "require")
    arguments: (arguments . (string (string_fragment) @import)))
]"""
_QUERIES: Final = {
    ".js": _SCRIPT_QUERY,
    ".ts": f"{_SCRIPT_QUERY} (import_require_clause source: (string (string_fragment) @import))",
    ".tsx": f"{_SCRIPT_QUERY} (import_require_clause source: (string (string_fragment) @import))",
    ".go": "(import_spec path: (_) @import)",
    ".java": "(import_declaration) @import",
    ".rs": "[(use_declaration argument: (_) @import) (mod_item !body) @import]",
}
_GRAMMARS: Final = {
    "JavaScript": ".js",
    "TypeScript": ".ts",
    "Go": ".go",
    "Java": ".java",
    "Rust": ".rs",
}
_ENDINGS: Final = ("", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".vue", ".rb", ".d.ts")
_INDEXES: Final = ("/index.ts", "/index.tsx", "/index.js", "/index.jsx")


@cache
def _grammar(ending: str) -> "tuple[tree_sitter.Parser, tree_sitter.Query]":
    """Return the parser of a language, by the ending of its files, and the query for its imports."""
    import tree_sitter

    match ending:
        case ".js":
            from tree_sitter_javascript import language
        case ".ts":
            from tree_sitter_typescript import language_typescript as language
        case ".tsx":
            from tree_sitter_typescript import language_tsx as language
        case ".go":
            from tree_sitter_go import language
        case ".java":
            from tree_sitter_java import language
        case _:
            from tree_sitter_rust import language
    known = tree_sitter.Language(language())
    return tree_sitter.Parser(known), tree_sitter.Query(known, _QUERIES[ending])


def read_imports(source: str, language: str, path: str = "") -> tuple[str, ...]:
    """Return what a source imports, as it is written there: statements of Python, names of others.

    Of Rust each name of a `use` tree is a path of its own, and `mod x;` is told as that. `path` tells
    TSX from TypeScript.
    """
    found: dict[str, None] = {}
    if language in EXACT:
        written: Iterator[str] = _parsed(source, language, path)
    elif pattern := _PATTERNS.get(language):
        written = (match[1].strip() for match in pattern.finditer(source))
    else:
        return ()
    for name in written:
        found[name] = None
        if len(found) == MAX_IMPORTS:
            break
    return tuple(found)


def _parsed(source: str, language: str, path: str) -> Iterator[str]:
    import tree_sitter

    parser, query = _grammar(".tsx" if path.endswith(".tsx") else _GRAMMARS[language])
    tree = parser.parse(source.encode(errors="replace"))
    matches = tree_sitter.QueryCursor(query).matches(tree.root_node)
    for node in chain.from_iterable(found["import"] for _, found in matches):
        text = (node.text or b"").decode(errors="replace")
        match language:
            case "Go":
                yield text.strip('"`')
            case "Java":
                yield " ".join(text.removeprefix("import").removesuffix(";").split())
            case "Rust" if text.rstrip(";").split()[-2:-1] == ["mod"]:
                yield f"mod {text.rstrip(';').split()[-1]}"
            case "Rust":
                yield from _used("".join(text.split()), _inline_depth(node))
            case _:
                yield text


def _inline_depth(node: "tree_sitter.Node") -> int:
    """Return in how many modules of its own file a node of Rust stands."""
    depth, above = 0, node.parent
    while above is not None:
        depth += above.type == "mod_item"
        above = above.parent
    return depth


def _used(tree: str, depth: int) -> Iterator[str]:
    """Return the paths of a `use` tree without blanks, as seen from the file.

    What stands `depth` modules deep in the file climbs so many before it leaves it.
    """
    open_ = [""]
    name = ""
    for char in tree + ",":
        if char == "{":
            open_.append(open_[-1] + name)
            name = ""
        elif char in ",}":
            if name:
                path = open_[-1] + name
                for _ in range(depth):
                    path = path.removeprefix("super::")
                yield path
            name = ""
            if char == "}" and len(open_) > 1:
                open_.pop()
        else:
            name += char


def find_go_modules(root: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return the folders ("": the root itself) of the Go modules of a folder, by their names."""
    found: dict[str, str] = {}
    for path in paths:
        if posixpath.basename(path) != "go.mod":
            continue
        text = (read_regular(root, path, max_bytes=_MAX_GO_MOD) or b"").decode(errors="replace")
        if named := re.search(r'^module[ \t]+"?([^\s"]+)', text, re.MULTILINE):
            found.setdefault(named[1], posixpath.dirname(path))
    return found


def resolve_imports(
    files: Mapping[str, tuple[str, Sequence[str]]], *, go: Mapping[str, str] | None = None
) -> dict[str, set[str]]:
    """Return the files each file imports, itself left out.

    Args:
        files: by path, each file's language and what it imports (`read_imports`).
        go: the folders of Go modules by their names (`find_go_modules`).
    """
    places = _Places(files, go or {})
    return {
        path: set(places.of(path, language, imports)) - {path}
        for path, (language, imports) in files.items()
    }


class _Places:
    """Where the files of a folder are, by all that an import may call them."""

    def __init__(self, paths: Iterable[str], go: Mapping[str, str]) -> None:
        self._paths = frozenset(paths)
        self._go = go
        names = name_modules(self._paths)
        self._modules = {module: path for path, module in names.items()}
        self._names = names
        self._by_base: dict[str, list[str]] = {}
        self._by_folder: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            self._by_base.setdefault(posixpath.basename(path), []).append(path)
            if path.endswith((".go", ".java")) and not path.endswith("_test.go"):
                self._by_folder.setdefault(posixpath.dirname(path), []).append(path)
        roots = {
            posixpath.dirname(path)
            for path in self._paths
            if posixpath.basename(path) in ("lib.rs", "main.rs")
        }
        self._crates = {_crate_name(root): root for root in sorted(roots, reverse=True)}
        self._crate_roots = roots

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
                    found += self._of_jvm(name)
                case "Rust":
                    found += self._of_rust(path, name)
                case "Go":
                    found += self._of_go(name)
        return found

    def _of_python(self, path: str, imports: Sequence[str]) -> list[str]:
        module = self._names.get(path, "")
        is_package = posixpath.basename(path) == "__init__.py"
        known = self._modules.keys()

        def leads_to(source: str) -> set[str]:
            return python_imports(source, module=module, is_package=is_package, known=known)

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

    def _of_jvm(self, name: str) -> list[str]:
        """Return the file of a class, of the class a member belongs to, or all of a package."""
        ways = name.removeprefix("static ").replace(".", "/")
        if ways.endswith("/*"):
            inside = ways.removesuffix("/*")
            for folder, files in self._by_folder.items():
                if f"/{folder}".endswith(f"/{inside}"):
                    return [path for path in files if path.endswith(".java")]
            ways = inside
        while "/" in ways:
            found = self._ending(f"{ways}.java") or self._ending(f"{ways}.kt")
            if found:
                return found
            ways = ways.rpartition("/")[0]
        return []

    def _of_rust(self, path: str, name: str) -> list[str]:
        """Return the file a path leads to: the module named last in it that has one."""
        folder, base = posixpath.split(path)
        # A crate begins where its lib.rs or main.rs lies; without one, where the file does.
        root = folder
        while root and root not in self._crate_roots:
            root = posixpath.dirname(root)
        if root not in self._crate_roots:
            root = folder[: folder.find("src") + 3] if "src" in folder.split("/") else folder
        own = [part for part in folder[len(root) :].split("/") if part]
        if base not in ("mod.rs", "lib.rs", "main.rs") or (base != "mod.rs" and folder != root):
            own.append(base.removesuffix(".rs"))
        parts = [part for part in name.removeprefix("mod ").split("::") if part]
        if name.startswith("mod ") or parts[:1] == ["self"]:
            return self._rust_module(
                root, own, parts[parts[:1] == ["self"] :], is_own_left_out=True
            )
        if parts[:1] == ["crate"]:
            return self._rust_module(root, [], parts[1:])
        if parts[:1] == ["super"]:
            while parts[:1] == ["super"]:
                own, parts = own[:-1], parts[1:]
            return self._rust_module(root, own, parts)
        if parts and parts[0] in self._crates and self._crates[parts[0]] != root:
            return self._rust_module(self._crates[parts[0]], [], parts[1:])
        return self._rust_module(root, own, parts, is_own_left_out=True)

    def _rust_module(
        self, root: str, base: Sequence[str], parts: Sequence[str], *, is_own_left_out: bool = False
    ) -> list[str]:
        for end in range(len(parts), -1 + is_own_left_out, -1):
            way = "/".join([root, *base, *parts[:end]] if root else [*base, *parts[:end]])
            files = [f"{way}.rs", f"{way}/mod.rs"]
            if not base and not end:
                files = [f"{root}/{name}".lstrip("/") for name in ("lib.rs", "main.rs")]
            if found := [file for file in files if file in self._paths]:
                return found[:1]
        return []

    def _of_go(self, name: str) -> list[str]:
        """Return the files of a package of one of the folder's modules."""
        for module, folder in self._go.items():
            if name == module or name.startswith(f"{module}/"):
                below = name[len(module) :].strip("/")
                return self._by_folder.get(posixpath.join(folder, below).strip("/"), [])
        return []


def _crate_name(root: str) -> str:
    """Return what other crates call the one that begins in a folder: its folder's name."""
    folder = posixpath.dirname(root) if posixpath.basename(root) == "src" else root
    return posixpath.basename(folder).replace("-", "_")


# --- Python ---------------------------------------------------------------------------------------


def name_modules(paths: Iterable[str]) -> dict[str, str]:
    """Return the module name of each `.py` path, by path.

    A package is the longest chain of folders with an `__init__.py`; a file outside any is named
    after itself. Of two files with one name the first in sorted order has it.
    """
    known = sorted(path for path in paths if path.endswith(".py"))
    packages = {str(PurePosixPath(path).parent) for path in known if path.endswith("/__init__.py")}
    names: dict[str, str] = {}
    taken: set[str] = set()
    for path in known:
        name = _module_name(PurePosixPath(path), packages)
        if name and name not in taken:
            taken.add(name)
            names[path] = name
    return names


def _module_name(path: PurePosixPath, packages: Collection[str]) -> str:
    parts = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while str(folder) in packages:
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


def python_imports(
    source: str, *, module: str, is_package: bool, known: Collection[str]
) -> set[str]:
    """Return the known modules that a module's source imports, itself left out.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: the source is not this Python's.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted: Iterator[str] = (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, module, is_package)
            wanted = (f"{base}.{alias.name}" for alias in node.names)
        else:
            continue
        found.update(nearest for name in wanted if (nearest := _known_prefix(name, known)))
    return found - {module}


def _base(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """Return the package a `from ... import` starts at; leading dots climb from the module's own.

    Climbing above the top package leads nowhere: "".
    """
    if not node.level:
        return node.module or ""
    package = module.split(".") if is_package else module.split(".")[:-1]
    if node.level > len(package):
        return ""
    climbed = package[: len(package) - (node.level - 1)]
    return ".".join([*climbed, *([node.module] if node.module else [])])


def _known_prefix(name: str, known: Collection[str]) -> str:
    """Return the longest leading part of a dotted name that is a module, "" for none."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name

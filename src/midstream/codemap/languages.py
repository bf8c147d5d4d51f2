"""The language of a file, by the end of its name. Needs nothing else: the first screen asks it."""

from pathlib import PurePath
from typing import Final

_LANGUAGES: Final = {
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
    "Elixir": ".ex .exs",
    "Haskell": ".hs",
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
_BY_SUFFIX: Final = {suffix: name for name, all_ in _LANGUAGES.items() for suffix in all_.split()}
OTHER: Final = "Other"

NOT_CODE: Final = {
    "HTML",
    "CSS",
    "Markdown",
    "reStructuredText",
    "JSON",
    "YAML",
    "TOML",
    "XML",
    OTHER,
}


def language_of(path: str) -> str:
    """Return the language a file's name says it is in, `OTHER` for none we know."""
    return _BY_SUFFIX.get(PurePath(path).suffix.lower(), OTHER)

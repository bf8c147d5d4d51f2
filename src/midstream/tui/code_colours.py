"""Code in colours, for a block whose language is named. Slow to import and to run: in a thread only.

Colours are few and from the basic sixteen, those that can be read on a light and on a dark
background alike: no black, white, blue, yellow or bright ones. What they say the text says, too.
Highlighting never changes a text: what comes out is what went in, or the block stays plain. It is
bounded in characters, in the length of a line, and in time (of the processor: other work beside us
takes no colours away).
"""

from collections.abc import Iterable, Iterator
from time import thread_time
from typing import Any, Final

from midstream.tui.styled_lines import BOLD, CYAN, DIM, GREEN, MAGENTA, PLAIN, RED, Fragment

MAX_CHARS: Final = 20_000
"""Longer blocks stay plain."""

_MAX_LINE: Final = 500
MAX_S: Final = 0.3
"""All blocks of a text together may take so much of the processor; the rest stays plain."""

_EACH: Final = 64

_STYLES: Final = (
    ("Comment.Preproc", MAGENTA),
    ("Comment", DIM),
    ("Keyword", MAGENTA),
    ("Operator.Word", MAGENTA),
    ("Literal.String.Doc", DIM),
    ("Literal.String", GREEN),
    ("Literal.Number", CYAN),
    ("Keyword.Constant", CYAN),
    ("Name.Function", BOLD),
    ("Name.Class", BOLD),
    ("Name.Tag", MAGENTA),
    ("Name.Decorator", CYAN),
    ("Generic.Inserted", GREEN),
    ("Generic.Deleted", RED),
    ("Generic.Heading", BOLD),
    ("Generic.Subheading", CYAN),
)
"""By kind of token; what is in none of them is plain. The longest name that fits counts."""

_ALIASES: Final = {
    "py": "python",
    "js": "javascript",
    "ts": "typescript",
    "sh": "bash",
    "shell": "bash",
    "zsh": "bash",
    "yml": "yaml",
    "rs": "rust",
    "golang": "go",
    "c++": "cpp",
    "patch": "diff",
    "md": "markdown",
    "jsonc": "json",
}
_KNOWN: Final = frozenset(
    {
        *("python", "pycon", "javascript", "typescript", "jsx", "tsx", "json", "yaml", "toml"),
        *("bash", "console", "fish", "powershell", "make", "makefile", "dockerfile", "docker"),
        *("c", "cpp", "csharp", "java", "kotlin", "scala", "swift", "go", "rust", "zig", "ruby"),
        *("php", "perl", "lua", "r", "julia", "haskell", "elixir", "erlang", "clojure", "ocaml"),
        *("sql", "html", "xml", "css", "scss", "graphql", "protobuf", "ini", "diff", "hcl", "nix"),
    }
)
"""Languages whose lexers are tried. Some of the many hundred others take very long for some texts."""


def highlighted(code: str, language: str, *, until: float | None = None) -> list[Fragment]:
    """Return the code as fragments that hold newlines; one plain one where it stays as it is.

    `until` is when to give up, by `thread_time`; by default after `MAX_S`.
    """
    plain = [(PLAIN, code)]
    until = thread_time() + MAX_S if until is None else until
    if len(code) > MAX_CHARS or any(len(line) > _MAX_LINE for line in code.split("\n")):
        return plain
    lexer = _lexer(language)
    if lexer is None:
        return plain
    try:
        # Some lexers know a line by its end alone.
        found = list(_merged(_in_time(lexer.get_tokens(f"{code}\n"), until)))
    except _TooLong:
        return plain
    if "".join(text for _, text in found) != f"{code}\n":
        return plain
    style, last = found[-1]
    return [*found[:-1], (style, last[:-1])] if last.endswith("\n") else plain


class _TooLong(Exception):
    """It takes longer than it is worth."""


def _lexer(language: str) -> Any:
    """Return pygments' lexer for a language, None where it is not one of those tried."""
    named = language.strip().casefold()
    named = _ALIASES.get(named, named)
    if named not in _KNOWN:
        return None
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        return get_lexer_by_name(named, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _in_time(tokens: Iterable[tuple[object, str]], until: float) -> Iterator[Fragment]:
    for number, (kind, text) in enumerate(tokens):
        if number % _EACH == 0 and thread_time() > until:
            raise _TooLong
        yield _style(str(kind)), text


def _merged(fragments: Iterable[Fragment]) -> Iterator[Fragment]:
    """Join neighbours of one style: a screen is drawn by fragments."""
    last, texts = "", [""]
    for style, text in fragments:
        if style == last:
            texts.append(text)
        else:
            yield last, "".join(texts)
            last, texts = style, [text]
    yield last, "".join(texts)


def _style(kind: str) -> str:
    named = kind.removeprefix("Token.")
    found = [
        (len(name), style)
        for name, style in _STYLES
        if named == name or named.startswith(f"{name}.")
    ]
    return max(found)[1] if found else PLAIN

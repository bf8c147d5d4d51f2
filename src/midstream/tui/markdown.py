"""Markdown as styled lines, through rich. Slow to import and to run: use it in a worker thread.

What a model wrote must all be seen. So the parts of markdown that hide text are off: HTML, link
definitions, image addresses and terminal hyperlinks (an address stands beside its link's words). Rich's
own markup, emoji codes and syntax colours (a background of their own) are off as well; code whose
language is named has ours. These are few, and those of the theme. What they say the text
says, too. Highlighting never changes a text: what comes out is what went in, or the block stays plain.
It is bounded in characters, in the length of a line, and in time (of the processor: other work beside
us takes no colours away).

Code is to be copied: it stands in the first column, a line of it is one line, and rich only says
where. In what it is given a sign stands for each block of code, one that the text itself does not have.
"""

import re
from collections.abc import Iterable, Iterator
from io import StringIO
from time import thread_time
from typing import TYPE_CHECKING, Any, ClassVar, Final

from midstream.safety.sanitize import sanitized
from midstream.tui.styled_lines import Fragment, Line
from midstream.tui.themes import (
    ACCENT,
    ADDED,
    BOLD,
    CODE,
    FAILED,
    KEYWORD,
    MUTED,
    PLAIN,
    REMOVED,
    STRING,
)

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.style import Style

MAX_CHARS: Final = 200_000
"""Longer texts are shown as they were written."""

_TAB_SIZE: Final = 4

_MARKS: Final = re.compile(r"[*_`#>|~\[]|^[^\S\n]*+(?:(?:[-+]|\d++[.)])\s|---|===)", re.MULTILINE)


_RICHS: Final = {1: FAILED, 2: STRING, 5: KEYWORD, 6: CODE}
"""Our names for rich's colours, those of the basic sixteen that have one."""


def has_markdown(text: str) -> bool:
    """Return whether rendering could make a difference; when not, a text shows as it is."""
    return len(text) <= MAX_CHARS and _MARKS.search(text) is not None


def rendered(text: str, *, width: int) -> list[Line]:
    """Return the text rendered for so many columns."""
    from rich.console import Console

    console = Console(
        file=StringIO(),
        force_terminal=True,
        color_system="standard",
        width=max(8, width - 3),  # What could pass for a mark of ours moves in by two columns.
        height=25,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},
    )
    clean = sanitized(text)
    sign = next(char for char in map(chr, range(0xE000, 0xF8FF)) if char not in clean)
    code: list[list[Line]] = []
    found: list[Line] = []
    for segments in console.render_lines(_markdown(clean, sign, code), pad=False):
        fragments = _trimmed([(_sgr(part.style), part.text) for part in segments])
        _, is_code, number = "".join(part for _, part in fragments).partition(sign)
        if is_code:
            found += code[int(number.removesuffix(sign))]
        elif fragments or (found and found[-1].fragments):
            found.append(Line(tuple(fragments)))
    while found and not found[-1].fragments:
        found.pop()
    return found


def _code_lines(text: str, language: str, *, until: float) -> list[Line]:
    code = sanitized(text).rstrip().expandtabs(_TAB_SIZE)
    fragments = highlighted(code, language, until=until)
    if len(fragments) < 2:
        fragments = [(CODE, code)]
    lines: list[list[Fragment]] = [[]]
    for style, part in fragments:
        first, *others = part.split("\n")
        lines[-1].append((style, first))
        lines += [[(style, other)] for other in others]
    return [Line(tuple(line), is_code=True) for line in lines]


def _trimmed(fragments: list[Fragment]) -> list[Fragment]:
    while fragments and not fragments[-1][1].strip():
        fragments.pop()
    if fragments:
        style, text = fragments[-1]
        fragments[-1] = (style, text.rstrip())
    return fragments


def _markdown(text: str, sign: str, code: list[list[Line]]) -> "RenderableType":
    """Return what rich renders. A `sign` and a number stand where a block of `code` belongs."""
    from markdown_it import MarkdownIt
    from rich.markdown import BlockQuote, CodeBlock, Heading, HorizontalRule, Markdown
    from rich.segment import Segment
    from rich.text import Text

    until = thread_time() + MAX_S

    class OurCode(CodeBlock):
        def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
            code.append(_code_lines(str(self.text), self.lexer_name, until=until))
            yield Text(f"{sign}{len(code) - 1}{sign}", no_wrap=True)

    class OurQuote(BlockQuote):
        def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
            inner = options.update(width=options.max_width - 2)
            for line in console.render_lines(self.elements, inner, pad=False):
                yield Segment("> ")
                yield from line
                yield Segment.line()

    class OurRule(HorizontalRule):
        def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
            yield Text("---")

    class LeftHeading(Heading):
        def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
            self.text.justify = "left"
            yield self.text

    class Faithful(Markdown):
        elements: ClassVar = {
            **Markdown.elements,
            "fence": OurCode,
            "code_block": OurCode,
            "heading_open": LeftHeading,
            "blockquote_open": OurQuote,
            "hr": OurRule,
        }

    document = Faithful("", hyperlinks=False)
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    document.parsed = parser.disable(["image", "reference"]).parse(text)
    for token in document.parsed:
        # A line break somebody wrote stays one: lists of files and poems keep their shape.
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return document


def _sgr(style: "Style | None") -> str:
    if style is None:
        return ""
    codes: list[str] = []
    flags = ((style.bold, BOLD), (style.dim, MUTED), (style.italic, "3"), (style.underline, "4"))
    codes += [code for is_on, code in flags if is_on]
    if style.strike:
        codes.append("9")
    if style.color is not None and style.color.number is not None and style.color.number < 16:
        # Bright ones vanish on some background or other, and bold is drawn bright by many.
        colour = _RICHS.get(style.color.number % 8, PLAIN)
        codes += [colour] if colour and not style.bold else []
    return ";".join(codes)


# --- code in colours ------------------------------------------------------------------------------

MAX_CODE_CHARS: Final = 20_000
"""Longer blocks stay plain."""

_MAX_LINE: Final = 500
MAX_S: Final = 0.3
"""All blocks of a text together may take so much of the processor; the rest stays plain."""

_EACH: Final = 64

_STYLES: Final = (
    ("Comment.Preproc", KEYWORD),
    ("Comment", MUTED),
    ("Keyword", KEYWORD),
    ("Operator.Word", KEYWORD),
    ("Literal.String.Doc", MUTED),
    ("Literal.String", STRING),
    ("Literal.Number", CODE),
    ("Keyword.Constant", CODE),
    ("Name.Function", BOLD),
    ("Name.Class", BOLD),
    ("Name.Tag", KEYWORD),
    ("Name.Decorator", CODE),
    ("Generic.Inserted", ADDED),
    ("Generic.Deleted", REMOVED),
    ("Generic.Heading", BOLD),
    ("Generic.Subheading", ACCENT),
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
    if len(code) > MAX_CODE_CHARS or any(len(line) > _MAX_LINE for line in code.split("\n")):
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

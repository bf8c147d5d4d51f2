"""A page of the web as text to read: headings, links, lists, tables and code stay, scripts go.

Whoever wrote the page may have made it to be slow, so nothing here looks at a character more than a few
times: a tag is found by hand, since patterns for quoted attributes start again at each of them.
"""

import html
import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import urljoin

_TAG_NAME: Final = re.compile(r"(/?)([A-Za-z][A-Za-z0-9:-]{0,30})")
_TAG_STOP: Final = re.compile(r"[>\"']")
_ATTRIBUTE: Final = re.compile(r"([a-z-]{1,30})=(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.I)
_MAX_TAG: Final = 4_000
_MAX_URL: Final = 500
_MAX_DEPTH: Final = 8
_MAX_MARK: Final = 40
_NUMBER: Final = re.compile(r"(&#)0*([0-9]{1,8})[0-9]*|(&#[xX])0*([0-9a-fA-F]{1,8})[0-9a-fA-F]*")
"""A character by its number. Python refuses to read one of thousands of digits; none has so many."""

_RAW: Final = frozenset(
    {"script", "style", "template", "svg", "math", "iframe", "object", "textarea", "title"}
)
"""What holds no text to be read up to its own end, or another kind of it."""
_BLOCKS: Final = frozenset(
    {
        *("p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "figure"),
        *("table", "ul", "ol", "dl", "form", "fieldset", "address", "details", "blockquote", "hr"),
    }
)
_LINES: Final = frozenset({"br", "tr", "li", "dt", "dd", "option", "summary", "figcaption"})
_HEADING: Final = re.compile(r"h([1-6])")


class _Token(NamedTuple):
    """A tag by its name, with a slash where it ends something, and its attributes; "" is text."""

    tag: str
    text: str


def readable(page: str, url: str) -> str:
    """Return the text of an HTML page. `url` is what its links are relative to; they become whole ones."""
    writer = _Writer(url)
    for token in _tokens(page):
        if token.tag:
            writer.obey(token.tag, token.text)
        else:
            writer.say(_unescaped(token.text))
    return "".join(writer.parts).strip()


def _tokens(page: str) -> Iterator[_Token]:
    at = 0
    while (start := page.find("<", at)) >= 0:
        if start > at:
            yield _Token("", page[at:start])
        if page.startswith("<!--", start):
            at = _behind(page, "-->", start + 4)
        elif found := _TAG_NAME.match(page, start + 1):
            at = _tag_end(page, found.end())
            name = found[2].lower()
            if found[1] or name not in _RAW:
                yield _Token(found[1] + name, page[found.end() : min(at, found.end() + _MAX_TAG)])
                continue
            close = re.compile(f"</{name}", re.I).search(page, at)
            end = close.start() if close else len(page)
            if name == "title":
                yield _Token("title", page[at : min(end, at + _MAX_TAG)])
            at = end
        elif page[start + 1 : start + 2] in ("!", "?", "/"):
            at = _behind(page, ">", start)
        else:
            yield _Token("", "<")
            at = start + 1
    yield _Token("", page[at:])


def _behind(page: str, sign: str, at: int) -> int:
    found = page.find(sign, at)
    return len(page) if found < 0 else found + len(sign)


def _tag_end(page: str, at: int) -> int:
    """Return the offset behind the tag; a quote hides a `>` if it is closed."""
    while found := _TAG_STOP.search(page, at):
        at = found.end()
        if found[0] == ">":
            return at
        closed = page.find(found[0], at)
        at = at if closed < 0 else closed + 1
    return len(page)


class _Writer:
    """Takes the tokens of a page; `parts` is the text so far."""

    def __init__(self, url: str) -> None:
        self.parts: list[str] = []
        self._url = url
        self._mark = ""  # stands before the next words
        self._lines = 0  # line ends before the next words
        self._is_apart = False
        self._is_pre = False
        self._row = -1  # cells of the row so far; -1 is outside
        self._lists: list[int] = []  # the number of the last item of each; -1 is without
        self._link = ""

    def say(self, text: str) -> None:
        """Take text between tags."""
        if self._is_pre:
            self._put(text)
            return
        words = " ".join(text.split())
        if words:
            self._is_apart |= text[0].isspace()
            self._put(words)
        self._is_apart = self._is_apart if not text else text[-1].isspace() or not words

    def _put(self, words: str) -> None:
        if self.parts and self._lines:
            self.parts.append("\n" * self._lines)
        elif self.parts and self._is_apart:
            self.parts.append(" ")
        self.parts.append(self._mark + words)
        self._mark, self._lines, self._is_apart = "", 0, False

    def _begin(self, sign: str) -> None:
        """Mark the next words. A page may begin any number of things before it has any words."""
        if len(self._mark) < _MAX_MARK:
            self._mark += sign

    def _end(self, sign: str, beginning: str) -> None:
        """Close what a mark has begun; where no words came, it never was."""
        if self._mark.endswith(beginning):
            self._mark = self._mark.removesuffix(beginning)
        else:
            self.parts.append(sign)

    def _break(self, lines: int) -> None:
        self._lines = max(self._lines, lines)

    def obey(self, tag: str, attributes: str) -> None:
        """Take a tag."""
        name, is_end = tag.removeprefix("/"), tag.startswith("/")
        if name == "pre":
            self._pre(is_end=is_end)
        elif self._is_pre:
            if name in _LINES:
                self._put("\n")
        elif name == "title":
            if not is_end and (words := " ".join(_unescaped(attributes).split())):
                self._put(f"Title: {words}")
                self._break(2)
        elif found := _HEADING.fullmatch(name):
            self._break(2)
            if is_end:
                self._mark = ""
            else:
                self._begin(f"{'#' * int(found[1])} ")
        elif name == "a":
            self._anchor(attributes, is_end=is_end)
        elif name == "code":
            self._code(is_end=is_end)
        elif name == "img":
            words = " ".join(_attribute(attributes, "alt").split())
            if words:
                self.say(f" [image: {words}] ")
        elif name in ("td", "th"):
            self._cell(is_end=is_end)
        elif name in _LINES or name in _BLOCKS:
            self._block(name, is_end=is_end)

    def _pre(self, *, is_end: bool) -> None:
        if self._is_pre and is_end:
            self.parts.append("" if self.parts[-1].endswith("\n") else "\n")
            self.parts.append("```")
        elif not self._is_pre and not is_end:
            self._break(2)
            self._put("```\n")
        self._is_pre = not is_end
        self._break(2 if is_end else 0)

    def _anchor(self, attributes: str, *, is_end: bool) -> None:
        if self._link:
            self._end(f"]({self._link})", "[")
            self._link = ""
        if not is_end:
            self._link = _whole(self._url, _unescaped(_attribute(attributes, "href")))
            if self._link:
                self._begin("[")

    def _code(self, *, is_end: bool) -> None:
        if is_end:
            self._end("`", "`")
        else:
            self._begin("`")

    def _cell(self, *, is_end: bool) -> None:
        if not is_end and self._row >= 0:
            if self._row:
                self.parts.append(" |")
                self._is_apart = True
            self._row += 1

    def _block(self, name: str, *, is_end: bool) -> None:
        if name == "tr":
            self._row = -1 if is_end else 0
        elif name == "table":
            self._row = -1
        elif self._row > 0 and name in ("p", "div", "br"):
            self._is_apart = True
            return
        if name in ("ul", "ol"):
            if is_end:
                del self._lists[-1:]
            elif len(self._lists) < _MAX_DEPTH:
                self._lists.append(0 if name == "ol" else -1)
            self._break(1 if self._lists else 2)
            return
        self._break(1 if name in _LINES or (name in ("p", "div") and self._lists) else 2)
        if name == "li" and not is_end:
            self._mark = self._item()
        elif name == "blockquote" and not is_end:
            self._mark = "> "

    def _item(self) -> str:
        depth, number = len(self._lists), self._lists[-1] if self._lists else -1
        if number >= 0:
            self._lists[-1] = number = number + 1
        return f"{'  ' * (depth - 1)}{f'{number}.' if number > 0 else '-'} "


def _attribute(attributes: str, name: str) -> str:
    for found in _ATTRIBUTE.finditer(attributes):
        if found[1].lower() == name:
            return found[2] or found[3] or found[4] or ""
    return ""


def _whole(url: str, href: str) -> str:
    """Return a link as a whole address, "" for one that leads nowhere else or to no page."""
    if not href.strip() or href.startswith("#") or len(href) > _MAX_URL:
        return ""
    try:
        whole = urljoin(url, href.strip())
    except ValueError:
        return ""
    # Its own address may be long, and the page full of links.
    return whole if len(whole) <= _MAX_URL and re.match(r"https?://\S+\Z", whole) else ""


def _unescaped(text: str) -> str:
    return html.unescape(_NUMBER.sub(r"\1\2\3\4", text)) if "&" in text else text

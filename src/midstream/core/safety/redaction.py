"""Redaction: taking secrets out of texts, whole or as they stream, before anybody keeps them.

A secret is what has the shape of one (`shapes`), or is one of the exact values we were given: those
of our own environment's keys, in the ways they are written. Each becomes `[redacted: openai key]`.

What is taken out of a text is the union of all that could be a secret anywhere in it; where two
overlap they become one. So it does not depend on where one begins to look, and a stream can be looked
through as it comes: **in whatever pieces a text arrives, what comes out is the same.** Only what may
still become a secret waits for the next piece: half a key, a word such as `password` at the very
end, the beginning of one of our own values. That is bounded by the longest secret.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from midstream.core.names import Json
from midstream.core.safety.shapes import SHAPES, Shape

LEAST_CHARS: Final = 8
"""Characters from which on a value of the environment counts as a secret."""

PIECE: Final = 16_384
"""Characters that are looked through at once, which takes about a millisecond."""

_LONGEST_VALUE: Final = 10_000
_PLACEHOLDER: Final = re.compile(r"\[redacted: [$\w ]{1,80}\]")
_STARTS: Final = frozenset(s for shape in SHAPES for s in shape.begins if not shape.any_case)
_WORD_STARTS: Final = frozenset(s for shape in SHAPES for s in shape.begins if shape.any_case)
_PREFIXES: Final = frozenset(start[:size] for start in _STARTS for size in range(1, len(start)))
_WORD_PREFIXES: Final = frozenset(
    start[:size] for start in _WORD_STARTS for size in range(1, len(start))
)
_MOST_START: Final = max(map(len, _STARTS | _WORD_STARTS))


class _Found(NamedTuple):
    """A secret at `start` to `end`, of which what has to be seen to know it begins at `at`."""

    at: int
    start: int
    end: int
    name: str


class Redactor:
    """Takes secrets out of texts. Values never change; one serves a whole process."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        """Make one.

        Args:
            values: exact values that are secret, such as `secret_values` returns: what each is
                called, by the value.
        """
        given = {} if values is None else values
        self._values = {
            value: name
            for value, name in given.items()
            if LEAST_CHARS <= len(value) <= _LONGEST_VALUE and value not in "[redacted: ]"
        }

    def redacted(self, text: str) -> str:
        """Return the text with every secret as `[redacted: ...]`; itself if there is none."""
        if not text or not self._may_hold(text):
            return text
        if len(text) <= PIECE:
            return self._cleaned(text, 0, is_whole=True)[0]
        sliding = self.sliding()
        pieces = [sliding.fed(text[at : at + PIECE]) for at in range(0, len(text), PIECE)]
        return "".join((*pieces, sliding.rest()))

    def redacted_json(self, value: Json) -> Json:
        """Return a JSON value with every secret in its texts and keys redacted."""
        if isinstance(value, str):
            return self.redacted(value)
        if isinstance(value, dict):
            # A key says what its value is: the two are looked at together.
            return {self.redacted(key): self._field(key, item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.redacted_json(item) for item in value]
        return value

    def sliding(self) -> "Sliding":
        """Return a fresh look at a text that comes in pieces."""
        return Sliding(self)

    def _field(self, key: str, value: Json) -> Json:
        if isinstance(value, str) and len(value) <= PIECE and '"' not in value and '"' not in key:
            before = f'"{key}": "'
            both = f'{before}{value}"'
            if self._may_hold(both):
                cleaned = self._cleaned(both, 0, is_whole=True)[0]
                if cleaned.startswith(before) and cleaned.endswith('"'):
                    return self.redacted(cleaned[len(before) : -1])
        return self.redacted_json(value)

    def _may_hold(self, text: str) -> bool:
        """Return False where there is no secret for certain; quick."""
        return (
            _start(_STARTS).search(text) is not None
            or _start(_WORD_STARTS).search(text.lower()) is not None
            or any(value in text for value in self._values)
        )

    def _cleaned(self, text: str, begin: int, *, is_whole: bool) -> tuple[str, int]:
        """Return the text from `begin`, clean, and up to where: the rest has to wait.

        What stands before `begin` is only looked back at.
        """
        hold = len(text)
        found: list[_Found] = []
        for value, name in self._values.items():
            at = begin - 1
            while (at := text.find(value, at + 1)) >= 0:
                found.append(_Found(at, at, at + len(value), name))
        for at in _starts(text, begin):
            for shape in SHAPES:
                if not _begins_at(shape, text, at):
                    continue
                if not is_whole and shape.is_open(text, at):
                    hold = min(hold, at)
                elif (span := shape.find(text, at)) is not None:
                    found.append(_Found(at, *span, shape.name))
            if hold < len(text):
                break
        if not is_whole:
            hold = min(hold, self._tail(text, begin))
            # What could not be known without what stands before it waits together with that.
            for each in sorted(found, key=lambda each: -each.at):
                if each.at < hold < each.end:
                    hold = each.at
            while any(each.at < hold < each.end for each in found):
                hold = min(each.at for each in found if each.at < hold < each.end)
        return _without(text, begin, hold, [each for each in found if each.end <= hold]), hold

    def _tail(self, text: str, begin: int) -> int:
        """Return where the end of a text begins that may be the beginning of a secret."""
        end = len(text)
        hold = end
        for at in range(max(begin, end - _MOST_START), end):
            rest = text[at:]
            is_start = rest in _PREFIXES or rest.lower() in _WORD_PREFIXES
            if is_start and any(
                shape.may_follow(text, at) for shape in SHAPES if _may_begin(shape, rest)
            ):
                hold = at
                break
        for value in self._values:
            at = max(begin, end - len(value) + 1) - 1
            while 0 <= (at := text.find(value[0], at + 1)) < hold:
                if value.startswith(text[at:]):
                    hold = at
                    break
        return hold


class Sliding:
    """A text that comes in pieces, on its way through a redactor."""

    __slots__ = ("_begin", "_redactor", "_text")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._text = ""
        self._begin = 0

    def fed(self, piece: str) -> str:
        """Return what can be said now: all but an end that may still become a secret."""
        text = self._text + piece
        begin = self._begin
        clean, hold = self._redactor._cleaned(text, begin, is_whole=False)
        self._begin = min(1, hold)
        self._text = text[hold - self._begin :]
        return clean

    def rest(self) -> str:
        """Return what has waited: there is no more. The next piece begins a new text."""
        clean, _ = self._redactor._cleaned(self._text, self._begin, is_whole=True)
        self._text, self._begin = "", 0
        return clean


def _without(text: str, begin: int, end: int, found: list[_Found]) -> str:
    if not found:
        return text[begin:end]
    parts: list[str] = []
    at = begin
    name, upto = "", -1
    for each in sorted(found, key=lambda each: (each.start, -each.end)):
        if each.start < upto:
            upto = max(upto, each.end)
            continue
        if upto >= 0:
            parts.append(_placeholder(name))
            at = upto
        parts.append(text[at : each.start])
        name, upto = each.name, each.end
    parts += [_placeholder(name), text[upto:end]]
    return "".join(parts)


def _placeholder(name: str) -> str:
    return f"[redacted: {name}]"


def holds_placeholder(value: Json) -> bool:
    """Return whether something in a JSON value stands for a secret that was taken out."""
    if isinstance(value, str):
        return _PLACEHOLDER.search(value) is not None
    if isinstance(value, dict):
        return any(holds_placeholder(key) or holds_placeholder(item) for key, item in value.items())
    return isinstance(value, list) and any(map(holds_placeholder, value))


# --- where to look ------------------------------------------------------------------------------


@cache
def _start(starts: frozenset[str]) -> re.Pattern[str]:
    """Return a pattern of texts as a tree: a search for a few first characters alone is fast."""
    tree: dict[str, Any] = {}
    for start in sorted(starts):
        node = tree
        for char in start:
            if "" in node:
                break  # a shorter one begins at the same place
            node = node.setdefault(char, {})
        node[""] = {}
    return re.compile("|".join(re.escape(char) + _branches(tree[char]) for char in sorted(tree)))


def _branches(node: dict[str, Any]) -> str:
    if "" in node:
        return ""
    return f"(?:{'|'.join(re.escape(char) + _branches(node[char]) for char in sorted(node))})"


def _lowered(text: str) -> str:
    """Return the text in lower case, character by character."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower()[0] for c in text)


def _starts(text: str, begin: int) -> list[int]:
    """Return where something may begin, in order."""
    found: list[int] = []
    for pattern, searched in (
        (_start(_STARTS), text),
        (_start(_WORD_STARTS), _lowered(text)),
    ):
        at = begin
        while (start := pattern.search(searched, at)) is not None:
            at = start.start() + 1
            found.append(at - 1)
    return sorted(found)


def _begins_at(shape: Shape, text: str, at: int) -> bool:
    if shape.any_case:
        head = text[at : at + _MOST_START].lower()
        return head.startswith(shape.begins) and shape.may_follow(text, at)
    return text.startswith(shape.begins, at) and shape.may_follow(text, at)


def _may_begin(shape: Shape, rest: str) -> bool:
    text = rest.lower() if shape.any_case else rest
    return any(start.startswith(text) for start in shape.begins)


# --- the exact calls behind redacted ones -------------------------------------------------------


class Withheld:
    """The arguments of calls as a model sent them, where the journal has them redacted.

    They live in memory alone: a call that has to be made by another process cannot be made exactly
    as it was meant, and is not made at all.
    """

    __slots__ = ("_calls", "_is_verbatim")

    def __init__(self, *, is_verbatim: bool = False) -> None:
        """Make one. `is_verbatim`: placeholders stand for themselves, such as in a rehearsal."""
        self._is_verbatim = is_verbatim
        self._calls: dict[tuple[str, str, str], Json] = {}

    def keep(self, run: str, name: str, exact: Json, redacted: Json) -> None:
        """Remember what a call's redacted arguments stand for, if any of them are."""
        key = (run, name, _canonical(redacted))
        if self._calls.get(key, exact) != exact:
            exact = (
                None  # two calls that differ in their secrets alone: nobody could tell them apart
            )
        self._calls[key] = exact

    def exact(self, run: str, name: str, redacted: Json) -> Json:
        """Return what redacted arguments stand for, None if that is not known."""
        if self._is_verbatim:
            return redacted
        return self._calls.get((run, name, _canonical(redacted)))

    def forget(self, run: str) -> None:
        """Forget the calls of a run that has ended here."""
        for key in [key for key in self._calls if key[0] == run]:
            del self._calls[key]


def _canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


# --- our own ------------------------------------------------------------------------------------

_SECRET_NAME: Final = re.compile(
    r"(?:^|_)(?:[A-Z]*KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASS|PASSPHRASE|CREDENTIALS?|AUTH"
    r"|PAT|COOKIE|DSN|CONNECTION_STRING)(?:_ID|_BASE64|_B64|_[0-9]+)?$"
)
_PATH: Final = re.compile(r"(?:/|~/|\./|\.\./|[A-Za-z]:\\)")
_CREDENTIALS: Final = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")


def secret_values(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the secret values of an environment in the ways they are written, with their names.

    Secret is the value of a variable whose name says so (`..._API_KEY`, `..._TOKEN`, `PASSWORD`),
    if it has 8 characters or more and is no path, and the password in a URL of any variable. Each
    stands there as it is, percent-encoded, escaped as in JSON, in Base64 wherever it may begin in it,
    and in hexadecimal digits.
    """
    found: dict[str, str] = {}
    for name, whole in sorted(environ.items()):
        values = _CREDENTIALS.findall(whole)
        if _SECRET_NAME.search(name.upper()) is not None and not _is_no_secret(whole.strip()):
            values.append(whole.strip())
        for value in values:
            if len(value) >= LEAST_CHARS:
                for written in (value, *_written(value)):
                    found.setdefault(written, f"${name}")
    return found


def _is_no_secret(value: str) -> bool:
    return (
        _PATH.match(value) is not None
        or value.lower() in ("disabled", "required", "optional", "redacted", "password")
        or (value.startswith(("http://", "https://")) and "@" not in value and "?" not in value)
    )


def _written(value: str) -> Iterable[str]:
    """Yield the other ways in which a value may be written somewhere."""
    data = value.encode("utf-8", "surrogateescape")
    yield "".join(chr(b) if chr(b) in _UNRESERVED else f"%{b:02X}" for b in data)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    encodings: tuple[Callable[[bytes], bytes], ...] = (b64encode, urlsafe_b64encode)
    for encoded in encodings:
        for before in range(3):
            text = encoded(b"\0" * before + data).decode("ascii").rstrip("=")
            # The characters at both ends are made of bits of the neighbours, too.
            after = -1 if (before + len(data)) % 3 else None
            core = text[(0, 2, 3)[before] : after]
            if len(core) >= LEAST_CHARS + 2:
                yield core
    yield data.hex()


_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

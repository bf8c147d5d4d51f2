"""Redaction: taking secrets out of texts, whole or as they stream, before anybody keeps them.

A secret is what has the shape of one (`shapes`), or is one of the exact values we were given: those
of our own environment's keys, in the ways they are written. Each becomes `[redacted: openai key]`.

What is taken out of a text is the union of all that could be a secret anywhere in it; where two
overlap they become one. So it does not depend on where one begins to look, and a stream can be looked
through as it comes: **in whatever pieces a text arrives, what comes out is the same.** Only what may
still become a secret waits for the next piece: half a key, a word such as `password` at the very
end, the beginning of one of our own values. That is bounded; of a secret that is known to be one and
has no end yet, only that is kept in mind.

The time it takes grows with the length of a text, whoever wrote it: see `shapes`.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

from midstream.language.names import Json
from midstream.safety.match_places import Finder, finder, outline
from midstream.safety.secret_shapes import SHAPES, Shape

LEAST_CHARS: Final = 8
"""Characters from which on a value of the environment counts as a secret."""

MARGIN: Final = 10_000
"""Characters before the end of a text that are looked at for secrets, too: of one that begins there,
its second half would not be known for what it is.
"""

PIECE: Final = 16_384
"""Characters from which on a text is better looked through off the loop."""

_LONGEST_VALUE: Final = 10_000
_PLACEHOLDER: Final = re.compile(r"\[redacted: [$\w ]{1,80}\]")
_SHORT: Final = 2_000
"""Characters up to which a look whether there is anything at all is worth its time."""

_REACH: Final = max(shape.reach for shape in SHAPES)
_FEW: Final = 8
"""Places found in a text of 1,000 characters that are still few."""

# Whose name stands for secrets that begin at the same place: first what was named before.
_GOING_ON: Final = -2
_EXACT: Final = -1


class _Found(NamedTuple):
    """A secret at `start` to `end`, of which what has to be seen to know it begins at `at`."""

    start: int
    at: int
    rank: int
    end: int
    name: str
    shape: int = -1
    """The shape of it, if what follows may belong to it."""


class _State(NamedTuple):
    """How far a text that comes in pieces was looked through, as places in what is still there."""

    begin: int = 0
    """Where to begin; what stands before is only looked back at."""
    froms: Mapping[int, int] = {}
    """Where each shape is looked for from, if not from the beginning."""
    inside: frozenset[int] = frozenset()
    """The shapes of the secrets in which the text begins."""


_FRESH: Final = _State()


class Redactor:
    """Takes secrets out of texts. Values never change; one serves a whole process."""

    __slots__ = ("_firsts", "_pairs", "_values")

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
        # A text may only end in the beginning of a value if it ends in one of these.
        self._firsts = frozenset(value[0] for value in self._values)
        self._pairs = frozenset(
            value[at : at + 2] for value in self._values for at in range(len(value) - 1)
        )

    def redacted(self, text: str, *, is_whole: bool = True) -> str:
        """Return the text with every secret as `[redacted: ...]`; itself if there is none.

        Of one that is not whole, since it was cut, an end that may be half of a secret is left out.
        """
        return self._cleaned(text, _FRESH, is_whole=is_whole)[0]

    def beginning(self, text: str, chars: int) -> str:
        """Return the first characters of a text, without half of a secret that goes on there."""
        return self.redacted(text[:chars], is_whole=len(text) <= chars)

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
            cleaned = self.redacted(both)
            if cleaned != both and cleaned.startswith(before) and cleaned.endswith('"'):
                return self.redacted(cleaned[len(before) : -1])
        return self.redacted_json(value)

    def _cleaned(self, text: str, state: _State, *, is_whole: bool) -> tuple[str, int, _State]:
        """Return what can be said of a text, up to where, and how to go on from there."""
        begin, froms, inside = state
        hold = len(text)
        found: list[_Found] = []
        looked: list[tuple[int, int, int]] = []
        for value, name in self._values.items():
            at = begin - 1
            while (at := text.find(value, at + 1)) >= 0:
                found.append(_Found(at, at, _EXACT, at + len(value), name))
        sketch = outline(text)
        opens = len(text) if is_whole else _opening(sketch)
        may_open = opens < len(text)
        places = None
        if inside or froms or len(text) > _SHORT or _any_shape()(sketch, begin) >= 0:
            places = _Places(text, sketch, begin, is_whole=is_whole)
        for number, shape in enumerate(SHAPES if places is not None or may_open else ()):
            may_be = number in inside or number in froms or (places and places.may_hold(number))
            if not (may_be or may_open):
                continue
            at = froms.get(number, begin)
            if number in inside:
                at, upto = _went_on(shape, text, begin, is_whole=is_whole)
                hold = min(hold, upto)
                found.append(_Found(begin, begin, _GOING_ON, at, "", number))
            looked.append((number, begin - 1, at))
            if places is not None:
                at, hold = _look(shape, number, places, at, hold, found, looked)
            if may_open:
                opening = shape.opening.search(text, max(at, opens, len(text) - shape.reach))
                if opening is not None:
                    hold = min(hold, opening.start())
        if not is_whole:
            hold = min(hold, self._tail(text, begin))
            # What could not be known without what stands before it waits together with that.
            while (before := _context(found, hold)) < hold:
                hold = before
        if not (found or looked):
            return text[begin:hold] if begin or hold < len(text) else text, hold, _State(hold)
        return (
            _without(text, begin, hold, found, is_inside=bool(inside)),
            hold,
            _State(
                hold,
                {number: upto for number, at, upto in looked if at < hold < upto},
                frozenset(
                    each.shape
                    for each in found
                    if each.shape >= 0
                    and hold <= each.end
                    and (each.start < hold or each.rank == _GOING_ON)
                ),
            ),
        )

    def _tail(self, text: str, begin: int) -> int:
        """Return where the end of a text begins that may be the beginning of a value."""
        end = hold = len(text)
        if text[-2:] not in self._pairs and text[-1:] not in self._firsts:
            return end
        for value in self._values:
            at = max(begin, end - len(value) + 1) - 1
            while 0 <= (at := text.find(value[0], at + 1)) < hold:
                if value.startswith(text[at:]):
                    hold = at
                    break
        return hold


class Sliding:
    """A text that comes in pieces, on its way through a redactor."""

    __slots__ = ("_redactor", "_state", "_text")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._text = ""
        self._state = _FRESH

    def fed(self, piece: str) -> str:
        """Return what can be said now: all but an end that may still become a secret."""
        clean, hold, state = self._redactor._cleaned(
            self._text + piece, self._state, is_whole=False
        )
        cut = max(hold - 1, 0)
        self._text = (self._text + piece)[cut:]
        self._state = _State(
            hold - cut, {shape: at - cut for shape, at in state.froms.items()}, state.inside
        )
        return clean

    def rest(self) -> str:
        """Return what has waited: there is no more. The next piece begins a new text."""
        clean = self._redactor._cleaned(self._text, self._state, is_whole=True)[0]
        self._text, self._state = "", _FRESH
        return clean


def _opening(sketch: bytes) -> int:
    """Return where the end begins that may be the beginning of a secret."""
    at = _any_opening()(sketch, max(len(sketch) - _REACH, 0))
    return at if at >= 0 else len(sketch)


class _Places:
    """Where in a text, from `begin` on, each shape may begin.

    Most are looked for together as long as there are few such places, as in ordinary texts. What there
    is more of is looked for by itself: then what was found to be one, or none, is leapt over.
    """

    __slots__ = ("_firsts", "_listed", "_outline", "_upto", "is_whole", "text")

    def __init__(self, text: str, sketch: bytes, begin: int, *, is_whole: bool) -> None:
        self.text = text
        self.is_whole = is_whole
        self._outline = sketch
        self._listed: dict[int, list[int]] = {}
        self._upto = begin
        find = _any_of_them()
        for _ in range(_FEW + len(text) * _FEW // 1_000):
            at = find(self._outline, self._upto)
            if at < 0:
                self._upto = len(text)
                break
            for number in _BY_FIRST[text[at]]:
                self._listed.setdefault(number, []).append(at)
            self._upto = at + 1
        # Of each of the others the first is looked for here.
        self._firsts = {
            number: (begin, SHAPES[number].next(self._outline, begin, is_whole=is_whole))
            for number in _ALONE
        }

    def may_hold(self, number: int) -> bool:
        """Return whether a shape may be there at all."""
        if number in _ALONE:
            return self._firsts[number][1] >= 0
        return number in self._listed or self._upto < len(self._outline)

    def next(self, number: int, at: int) -> int:
        """Return where a shape may begin next, from a place on; -1 if nowhere."""
        if number in _TOGETHER:
            listed = self._listed.get(number, ())
            first = bisect_left(listed, at)
            if first < len(listed):
                return listed[first]
            at = max(at, self._upto)
        else:
            since, known = self._firsts[number]
            if since <= at <= known or known < 0:
                return known
        if at >= len(self._outline):
            return -1
        return SHAPES[number].next(self._outline, at, is_whole=self.is_whole)


@cache
def _any_of_them() -> Finder:
    return finder(*(SHAPES[number].loose for number in _TOGETHER))


@cache
def _any_shape() -> Finder:
    return finder(*(shape.loose for shape in SHAPES))


@cache
def _any_opening() -> Finder:
    return finder(*(shape.loose_opening for shape in SHAPES))


_TOGETHER: Final = range(len(SHAPES) - 2)
_ALONE: Final = range(len(SHAPES) - 2, len(SHAPES))
"""Passwords in URLs and behind their names: what there may be many of in an ordinary text."""

_BY_FIRST: Final = {
    sign: tuple(
        number
        for number in _TOGETHER
        if any(each.startswith(sign.lower()) for each in SHAPES[number].holds)
    )
    for sign in {
        sign for shape in SHAPES for each in shape.holds for sign in (each[0], each[0].upper())
    }
}
"""Which of them may begin with a character, by it."""


def _look(
    shape: Shape,
    number: int,
    places: _Places,
    at: int,
    hold: int,
    found: list[_Found],
    looked: list[tuple[int, int, int]],
) -> tuple[int, int]:
    """Look for a shape from a place; return from where it may still begin, and what has to wait."""
    text, is_whole = places.text, places.is_whole
    begin = at - 1
    while (begin := places.next(number, max(at, begin + 1))) >= 0:
        one = shape.full.match(text, begin)
        if one is None:
            continue
        end = one.end()
        name = shape.name(one)
        if not is_whole and end == len(text) and not (name and shape.grows):
            return at, min(hold, begin)
        if name is None:
            at = max(shape.again(one), begin + 1)
        else:
            before = at
            start, at = one.span("secret")
            shape_of = -1
            if shape.goes_on is not None:
                shape_of = number
                at, upto = _went_on(shape, text, at, is_whole=is_whole)
                hold = min(hold, upto)
            found.append(_Found(start, begin, number, at, name, shape_of))
            at = max(at, end)
            if not is_whole and at == len(text):
                return before, hold
        if not is_whole:
            looked.append((number, begin, at))
    return at, hold


def _went_on(shape: Shape, text: str, at: int, *, is_whole: bool) -> tuple[int, int]:
    """Return how far a secret reaches, and from where on what follows may still belong to it."""
    assert shape.goes_on is not None, "only what goes on is asked"
    full, part = shape.goes_on
    match = full.match(text, at)
    end = at if match is None else match.end()
    is_open = not is_whole and part.match(text, at) is not None
    return end, end if is_open else len(text)


def _context(found: list[_Found], hold: int) -> int:
    """Return where the text has to be cut, if not at `hold`, for what was found to be found again."""
    return min(
        (
            each.at
            for each in found
            if each.at < hold and (hold <= each.start if each.shape >= 0 else hold < each.end)
        ),
        default=hold,
    )


def _without(text: str, begin: int, end: int, found: list[_Found], *, is_inside: bool) -> str:
    """Return a text without what was found; `is_inside`: what it begins in was said before."""
    if not found:
        return text[begin:end] if begin or end < len(text) else text
    parts: list[str] = []
    at, upto = begin, begin if is_inside else -1
    for each in sorted(found):
        if each.start >= end:
            break
        if each.start < upto or each.rank == _GOING_ON:
            upto = max(upto, each.end)
            continue
        parts += [text[max(at, upto) : each.start], f"[redacted: {each.name}]"]
        upto = each.end
    parts.append(text[max(at, upto) : end])
    return "".join(parts)


def ending(text: str, chars: int, redacted: Callable[[str], str]) -> str:
    """Return about the last characters of a text, its secrets `redacted` before it is cut.

    Of a text that was cut before, `chars` and `MARGIN` have to be there.
    """
    is_cut = len(text) >= chars + MARGIN
    clean = redacted(text[max(len(text) - chars - MARGIN, 0) :])
    return clean[MARGIN if is_cut else max(len(clean) - chars, 0) :]


def holds_placeholder(value: Json) -> bool:
    """Return whether something in a JSON value stands for a secret that was taken out."""
    if isinstance(value, str):
        return _PLACEHOLDER.search(value) is not None
    if isinstance(value, dict):
        return any(holds_placeholder(key) or holds_placeholder(item) for key, item in value.items())
    return isinstance(value, list) and any(map(holds_placeholder, value))


# --- the exact calls behind redacted ones -------------------------------------------------------


class Vault:
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

    def unredacted(self, run: str, name: str, redacted: Json) -> Json:
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

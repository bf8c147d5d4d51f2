r"""Regular expressions that cannot run away: the part of Python's that a finite automaton can do.

Python's own engine goes back and tries again: `(a+)+b` may keep it busy for years, and even `.*x.*y`
takes the cube of the text's length, so no rule about which patterns are harmless is both safe and of
use. Here a pattern is built into an automaton (Thompson, 1968) that is run on all its paths at once:
each character is looked at once, and what followed which is remembered while it runs, so that most
characters cost one step. The cost is counted, not timed, so that a search too long for its budget
ends at the same step on every machine and in every replay.

Kept: characters, `.`, `[...]`, `\d \w \s \b` and their opposites, `^ $ \A \Z`, groups, `|`, `* + ?`
and `{m,n}`, the lazy forms (they find the same), and the flags `(?imsa)` at the beginning. Left out:
backreferences and looking around, which no automaton can do, and possessive and atomic forms. What a
class fits is asked of Python's `re`, one character at a time, so that the answers are its own.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain
from typing import Final, NoReturn, TypeAlias

import msgspec

from midstream.language.errors import BadText, clip

MAX_CHARS: Final = 300
"""Characters of a pattern."""

MAX_STEPS: Final = 1_000
"""States a pattern may be built into: `\\w{50}` has fifty."""

MAX_DEPTH: Final = 16
"""How deep groups may stand in each other."""

Spend: TypeAlias = Callable[[int], None]
"""Is told of so many steps of work before they are done; may raise to end it."""


class BadPattern(BadText):
    """A text is no pattern, or one that is left out here."""


# --- what a pattern says ------------------------------------------------------------------------


class _One(msgspec.Struct, frozen=True):
    """One character that fits the test of that number; or, `is_not`, one that does not."""

    test: int
    is_not: bool = False


class _At(msgspec.Struct, frozen=True):
    """A place between characters."""

    place: str


class _Row(msgspec.Struct, frozen=True):
    """One after the other."""

    items: "tuple[_Part, ...]"


class _Either(msgspec.Struct, frozen=True):
    """One of several."""

    options: "tuple[_Part, ...]"


class _Times(msgspec.Struct, frozen=True):
    """The same `low` to `high` times; None: no end."""

    item: "_Part"
    low: int
    high: int | None


_Part: TypeAlias = _One | _At | _Row | _Either | _Times

_FLAGS = re.compile(r"\(\?([a-zA-Z]+)\)")
_COUNT = re.compile(r"\{([0-9]*)(?:(,)([0-9]*))?\}")
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[dDwWsSntrfva]|[^a-zA-Z0-9])", re.S)
_SET = re.compile(r"\[\^?+\]?+(?:[^\]\\]|\\.)*+\]", re.S)
_AMBIGUOUS = re.compile(r"^\[|--|&&|~~|\|\|")
_NAME = re.compile(r"\?P<[A-Za-z_]\w*>", re.ASCII)
_NO_END = 1_000_000


class _Reader:
    """Reads a pattern into parts. `at` is the offset of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tests: dict[str, _Test] = {}
        flags = _FLAGS.match(text)
        self.flags = flags[1] if flags else ""
        self.at = flags.end() if flags else 0
        if set(self.flags) - set("imsa"):
            self.refuse(
                f'the flags "{self.flags}" are not supported.', "Supported flags: i m s a.", 0
            )

    def refuse(self, message: str, hint: str = "", at: int | None = None) -> NoReturn:
        raise BadPattern(
            f"The pattern is wrong: {message}", hint, 1 + (self.at if at is None else at)
        )

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def either(self, depth: int) -> _Part:
        if depth > MAX_DEPTH:
            self.refuse(f"groups are nested more than {MAX_DEPTH} deep.")
        options = [self.row(depth)]
        while self.peek() == "|":
            self.at += 1
            options.append(self.row(depth))
        return options[0] if len(options) == 1 else _Either(tuple(options))

    def row(self, depth: int) -> _Part:
        items: list[_Part] = []
        while self.peek() not in ("", "|", ")"):
            start = self.at
            item = self.item(depth)
            items.append(self.repeated(item, start))
        return items[0] if len(items) == 1 else _Row(tuple(items))

    def item(self, depth: int) -> _Part:
        sign = self.peek()
        if sign == "(":
            return self.group(depth)
        if sign in "*+?" or self.count():
            self.refuse(f'there is nothing to repeat before "{sign}".', f'Or write "\\{sign}".')
        if sign == "[":
            return self.one_of_a_set()
        if sign == "\\":
            return self.escape()
        self.at += 1
        if sign in "^$":
            return _At(sign + "m" if "m" in self.flags else sign)
        if sign == ".":
            return self.one("" if "s" in self.flags else "\n", is_not=True)
        return self.one(sign)

    def group(self, depth: int) -> _Part:
        start = self.at
        self.at += 1
        if self.peek() == "?":
            name = _NAME.match(self.text, self.at)
            if name is not None:
                self.at = name.end()
            elif self.text.startswith("?:", self.at):
                self.at += 2
            else:
                form = self.text[start : start + 4]
                hint = "Groups are ( ), (?: ) and (?P<name> ); no looking around, no flags inside."
                self.refuse(f'the group "{clip(form)}" is not kept.', hint, start)
        inner = self.either(depth + 1)
        if self.peek() != ")":
            self.refuse('a "(" is not closed.', at=start)
        self.at += 1
        return inner

    def one_of_a_set(self) -> _Part:
        found = _SET.match(self.text, self.at)
        if found is None:
            self.refuse('a "[" is not closed.')
        inside = found.group()[1:-1]
        is_not = inside.startswith("^")
        inside = inside.removeprefix("^")
        # Python means to give these a meaning of their own one day, and warns.
        if _AMBIGUOUS.search(inside):
            self.refuse(
                '"[" first or one of -- && ~~ || in a set is ambiguous.', "Write \\[ or \\-."
            )
        # Asked without the "^": of a letter in both cases none may be in the set.
        inside = f"\\{inside}" if inside.startswith("^") else inside
        return self.one_of(f"[{inside}]", found.end(), is_not=is_not)

    def escape(self) -> _Part:
        sign = self.text[self.at + 1 : self.at + 2]
        if sign and sign in "bBAZ":
            self.at += 2
            return _At(sign)
        found = _ESCAPE.match(self.text, self.at)
        if found is None and sign.isdigit():
            self.refuse(f'"\\{sign}" looks back at a group, which is not supported.')
        if found is None:
            self.refuse(f'"\\{clip(sign)}" means nothing.', 'A backslash itself is "\\\\".')
        return self.one_of(found.group(), found.end())

    def one(self, sign: str, *, is_not: bool = False) -> _One:
        return self.numbered(f"'{sign}", sign.__eq__, is_not)

    def one_of(self, source: str, end: int, *, is_not: bool = False) -> _One:
        """Return what fits a class, which ends at the offset `end`."""
        try:
            fits = re.compile(source, re.ASCII if "a" in self.flags else 0).fullmatch
        except re.error as error:
            self.refuse(f"{error.msg}.", at=self.at + (error.pos or 0))
        self.at = end
        return self.numbered(source, fits, is_not)

    def numbered(self, name: str, fits: "_Test", is_not: bool) -> _One:
        self.tests.setdefault(name, fits)
        return _One(list(self.tests).index(name), is_not)

    def count(self) -> re.Match[str] | None:
        """Return the `{m,n}` that stands here; "{}" and other braces are characters."""
        found = _COUNT.match(self.text, self.at)
        return found if found is not None and found.group() != "{}" else None

    def repeated(self, item: _Part, start: int) -> _Part:
        sign, counted = self.peek(), self.count()
        if not sign or (sign not in "*+?" and counted is None):
            return item
        if isinstance(item, _At):
            self.refuse("a place between characters cannot be repeated.", at=start)
        if counted is None:
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
            self.at += 1
        else:
            low = min(int(counted[1] or 0), _NO_END)
            upper = counted[3] if counted[2] else counted[1]
            high = min(int(upper), _NO_END) if upper else None
            if high is not None and high < low:
                self.refuse(f'in "{counted.group()}" the first number is larger.')
            self.at = counted.end()
        if self.peek() == "+":
            self.refuse("a possessive repetition is not supported.", 'Leave out the second "+".')
        if self.peek() == "?":
            self.at += 1
        if self.peek() and (self.peek() in "*+?" or self.count()):
            self.refuse("one repetition follows another.", "Put the first one into a group.")
        return _Times(item, low, high)


_Test: TypeAlias = Callable[[str], object]


# --- the automaton ------------------------------------------------------------------------------


class _State:
    """A state of the automaton: what must come (`part`), and the states after it."""

    __slots__ = ("after", "part")

    def __init__(self, part: _One | _At | None, *after: "_State") -> None:
        self.part = part
        self.after = list(after)


class _Builder:
    """Builds parts into states, the last one first."""

    def __init__(self) -> None:
        self.built = 0

    def build(self, part: _Part, then: _State) -> _State:
        """Return the state that begins the part and goes on to `then`."""
        self.built += 1
        if self.built > MAX_STEPS:
            raise BadPattern(
                f"The pattern is too large: more than {MAX_STEPS} steps.",
                "Use a smaller count, or + or *.",
            )
        match part:
            case _One() | _At():
                return _State(part, then)
            case _Row():
                for item in reversed(part.items):
                    then = self.build(item, then)
                return then
            case _Either():
                return _State(None, *(self.build(option, then) for option in part.options))
            case _Times():
                return self.times(part, then)

    def times(self, part: _Times, then: _State) -> _State:
        if part.high is None:
            loop = _State(None, then)
            loop.after.append(self.build(part.item, loop))
            first = loop
        else:
            first = then
            for _ in range(part.high - part.low):
                first = _State(None, then, self.build(part.item, first))
        for _ in range(part.low):
            first = self.build(part.item, first)
        return first


# What a character is to a pattern, in bits: these, and one for each test it passes. Characters with
# the same bits lead to the same place, so that a text in Chinese costs little more than one in English.
_WORD, _LINE, _START, _END, _LAST_LINE, _TESTS = 1, 2, 4, 8, 16, 5
_LAST = "\n$"
"""Stands for a newline that ends the text, before which a `$` fits as well."""


class _Seen:
    """Where the automaton is after a character, of which `before` has the bits; what followed so far."""

    __slots__ = ("before", "by_bits", "by_sign", "states")

    def __init__(self, states: tuple[_State, ...], before: int) -> None:
        self.states = states
        self.before = before
        self.by_sign: dict[str, _Seen] = {}
        self.by_bits: dict[int, _Seen] = {}


_FOUND = _Seen((), 0)


class Pattern:
    """A pattern, ready to be looked for. It never changes."""

    __slots__ = ("_end", "_first", "_flags", "_tests")

    def __init__(self, first: _State, end: _State, tests: tuple[_Test, ...], flags: str) -> None:
        self._first = first
        self._end = end
        self._tests = tests
        self._flags = flags

    def is_in(self, text: str, spend: Spend) -> bool:
        """Return whether some part of the text fits, as `re.search` would find it.

        `spend` is told of a step for every four characters, and of more where the pattern meets what
        it has not met in this text: a character, or a character in another place.
        """
        spend(len(text) // 4 + 1)
        search = _Search(self._first, self._end, spend)
        now = _Seen((), _START)
        bits: dict[str, int] = {}
        signs: Iterable[str] = text
        if text.endswith("\n"):
            signs = chain(text[:-1], (_LAST,))
        for sign in signs:
            after = now.by_sign.get(sign)
            if after is None:
                spend(1)
                if sign not in bits:
                    spend(2 + len(self._tests))
                    bits[sign] = self._bits(sign)
                after = now.by_sign[sign] = search.after(now, bits[sign])
            if after is _FOUND:
                return True
            now = after
        return search.after(now, _END) is _FOUND

    def _bits(self, sign: str) -> int:
        if sign == _LAST:
            return self._bits("\n") | _LAST_LINE
        is_word = (sign.isalnum() or sign == "_") and (sign.isascii() or "a" not in self._flags)
        bits = _WORD if is_word else _LINE if sign == "\n" else 0
        forms = {sign}
        if "i" in self._flags:
            upper = sign.upper()
            forms |= {sign.lower(), upper, upper.lower()}
        for number, fits in enumerate(self._tests, _TESTS):
            if any(map(fits, forms)):
                bits |= 1 << number
        return bits


class _Search:
    """The automaton at work on one text. What it learns is not kept for another one: a search costs
    the same whatever was searched before."""

    def __init__(self, first: _State, end: _State, spend: Spend) -> None:
        self.first = first
        self.end = end
        self.spend = spend
        self.known: dict[tuple[frozenset[_State], int], _Seen] = {}

    def after(self, now: _Seen, bits: int) -> _Seen:
        """Return where the automaton is after a character of these bits."""
        after = now.by_bits.get(bits)
        if after is None:
            after = now.by_bits[bits] = self.moved(now, bits)
        return after

    def moved(self, now: _Seen, bits: int) -> _Seen:
        met = {self.first, *now.states}
        todo = list(met)
        moved: set[_State] = set()
        while todo:
            state = todo.pop()
            part = state.part
            if state is self.end:
                return _FOUND
            if isinstance(part, _One):
                if not bits & _END and (bits >> _TESTS + part.test & 1) != part.is_not:
                    moved.add(state.after[0])
            elif part is None or _is_at(part.place, now.before, bits):
                fresh = [each for each in state.after if each not in met]
                met.update(fresh)
                todo += fresh
        self.spend(4 + 2 * len(met) + len(moved))
        key = frozenset(moved), bits & (_WORD | _LINE)
        if key not in self.known:
            self.known[key] = _Seen(tuple(moved), key[1])
        return self.known[key]


def _is_at(place: str, before: int, bits: int) -> bool:
    match place:
        case "A" | "^":
            return bool(before & _START)
        case "^m":
            return bool(before & (_START | _LINE))
        case "Z":
            return bool(bits & _END)
        case "$":
            return bool(bits & (_END | _LAST_LINE))
        case "$m":
            return bool(bits & (_END | _LINE))
    return bool((before ^ bits) & _WORD) is (place == "b")


@lru_cache(maxsize=256)
def compiled(text: str) -> Pattern:
    """Return the text as a pattern; remembered.

    Raises:
        BadPattern: it is none, is too large, or needs what is left out.
    """
    if len(text) > MAX_CHARS:
        raise BadPattern(f"A pattern may have {MAX_CHARS} characters, not {len(text):,}.")
    reader = _Reader(text)
    whole = reader.either(0)
    if reader.peek() == ")":
        reader.refuse('there is a ")" without "(".', 'Or write "\\)".')
    end = _State(None)
    first = _Builder().build(whole, end)
    return Pattern(first, end, tuple(reader.tests.values()), reader.flags)


def fits_whole(pattern: str, name: str) -> bool:
    """Return whether a pattern fits the whole of a name, not just a part of it; "" and "*" fit any.

    Raises:
        BadPattern: it is none.
    """
    if pattern in ("", "*"):
        return True
    return compiled(rf"\A(?:{pattern})\Z").is_in(name, lambda _: None)

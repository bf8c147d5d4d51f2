"""Values that grow at the end without being copied: a long run costs no more a fact than a short one.

A `Log` of ten thousand messages and the one with a message more share all but the last few. Each is a
value: what it holds never changes, though another has gone on from it. The shared list only ever
grows, and only by whoever stands at its end; anyone else who goes on begins a list of his own.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Generic, TypeVar, cast, overload

T = TypeVar("T")
S = TypeVar("S")

RECENT = 32
"""How many of the last values, or up to twice as many, are replaced without a copy of all."""


PAGE = 256
"""How many values stand on a page: they are written, and read again, together."""


class Page(Generic[T]):
    """`PAGE` values that were written somewhere, under a name that says what they are.

    They are read when they are first asked for. Whoever takes up a long run asks for the last few.
    """

    __slots__ = ("_read", "_values", "name")

    def __init__(self, name: str, read: Callable[[], tuple[T, ...]]) -> None:
        self.name = name
        self._values: tuple[T, ...] = ()
        self._read: Callable[[], tuple[T, ...]] | None = read

    @property
    def is_read(self) -> bool:
        """Return whether the values are at hand."""
        return self._read is None

    @property
    def values(self) -> tuple[T, ...]:
        """Return the values."""
        read = self._read
        if read is not None:  # two threads that both read them read the same
            self._values = read()
            self._read = None
        return self._values


class _Shared(Generic[T]):
    """What logs have in common: their values, and what was `gathered` of how many of them.

    The first of them stand on pages, if they were read from somewhere; the others in a list that only
    ever grows. `names` are those of its pages that were written since, by their numbers.
    """

    __slots__ = ("gathered", "late", "names", "pages")

    def __init__(self, values: Iterable[T] = (), pages: tuple[Page[T], ...] = ()) -> None:
        self.pages = pages
        self.late = [*values]
        self.names: dict[int, str] = {}
        self.gathered: dict[Hashable, tuple[int, object]] | None = None

    def __len__(self) -> int:
        return len(self.pages) * PAGE + len(self.late)

    def at(self, place: int) -> T:
        """Return the value at a place."""
        number, late = place // PAGE, place - len(self.pages) * PAGE
        return self.late[late] if late >= 0 else self.pages[number].values[place % PAGE]

    def part(self, start: int, stop: int) -> Sequence[T]:
        """Return the values from one place to before another."""
        early = len(self.pages) * PAGE
        if start >= early:
            return self.late[start - early : max(stop - early, 0)]
        found: list[T] = []
        for number in range(start // PAGE, min(-(-stop // PAGE), len(self.pages))):
            first = number * PAGE
            found += self.pages[number].values[max(start - first, 0) : max(stop - first, 0)]
        return [*found, *self.late[: max(stop - early, 0)]]

    def but(self, place: int, value: T, count: int) -> "_Shared[T]":
        """Return a copy of so many, with another value at a place; of the pages one alone is read."""
        number, early = place // PAGE, len(self.pages) * PAGE
        copy = _Shared(islice(self.late, count - early), self.pages)
        if place >= early:
            copy.late[place - early] = value
        else:
            old = self.pages[number].values
            new = (*old[: place % PAGE], value, *old[place % PAGE + 1 :])
            page = Page("", lambda: new)
            copy.pages = (*self.pages[:number], page, *self.pages[number + 1 :])
        whole = count // PAGE
        copy.names = {n: name for n, name in self.names.items() if n != number and n < whole}
        return copy


class Log(Sequence[T]):
    """A sequence that is never changed. It equals every sequence of the same values."""

    __slots__ = ("_count", "_recent", "_shared")

    def __init__(self, values: Iterable[T] = ()) -> None:
        self._shared: _Shared[T] = _Shared(values)
        self._count = len(self._shared)
        self._recent: tuple[T, ...] = ()

    @staticmethod
    def of_pages(
        pages: Iterable[Page[T]],
        rest: Iterable[T],
        known: Mapping[Hashable, object] | None = None,
    ) -> "Log[T]":
        """Return a log of what was written: whole pages, and what comes after them.

        `known` is what was gathered of all of it; see `gathered`.
        """
        shared = _Shared(rest, tuple(pages))
        count = len(shared)
        shared.gathered = {key: (count, found) for key, found in (known or {}).items()}
        return Log._with(shared, count, ())

    @property
    def is_read(self) -> bool:
        """Return whether all values are at hand; else asking for them takes a while."""
        return all(page.is_read for page in self._shared.pages)

    def on_pages(
        self, name_of: Callable[[tuple[T, ...]], str]
    ) -> tuple[tuple[str, ...], tuple[T, ...]]:
        """Return the names of the pages its first values stand on, and the values after them.

        Only of pages that have no name yet `name_of` is asked with what stands on them.
        """
        full = len(self) // PAGE
        names = tuple(self._name(number, name_of) for number in range(full))
        return names, self[full * PAGE :]

    def page(self, number: int) -> tuple[T, ...]:
        """Return what stands on a page."""
        return self[number * PAGE : (number + 1) * PAGE]

    def _name(self, number: int, name_of: Callable[[tuple[T, ...]], str]) -> str:
        shared, start = self._shared, number * PAGE
        if number < len(shared.pages):
            page = shared.pages[number]
            page.name = page.name or name_of(page.values)
            return page.name
        known = shared.names.get(number)
        if known is None or start + PAGE > self._count:
            known = name_of(self.page(number))
            if start + PAGE <= self._count:
                shared.names[number] = known
        return known

    def and_also(self, value: T) -> "Log[T]":
        """Return the log with one more value at its end."""
        recent = (*self._recent, value)
        if len(recent) <= 2 * RECENT:
            return self._with(self._shared, self._count, recent)
        block, shared = recent[:RECENT], self._shared
        if len(shared) == self._count:
            shared.late.extend(block)
        here = shared.part(self._count, self._count + RECENT)
        if len(here) < RECENT or any(a is not b for a, b in zip(here, block, strict=True)):
            # Another has gone on from here before, or just now in another thread.
            early = len(shared.pages) * PAGE
            shared = _Shared(chain(islice(shared.late, self._count - early), block), shared.pages)
        return self._with(shared, self._count + RECENT, recent[RECENT:])

    def but(self, place: int, value: T) -> "Log[T]":
        """Return the log with another value at a place: cheap near the end, a copy elsewhere."""
        late = place - self._count
        if late < 0:
            return self._with(
                self._shared.but(place, value, self._count), self._count, self._recent
            )
        recent = (*self._recent[:late], value, *self._recent[late + 1 :])
        return self._with(self._shared, self._count, recent)

    @staticmethod
    def _with(shared: _Shared[T], count: int, recent: tuple[T, ...]) -> "Log[T]":
        made: Log[T] = Log.__new__(Log)
        made._shared, made._count, made._recent = shared, count, recent
        return made

    def gathered(self, key: Hashable, more: Callable[[S, Sequence[T]], S], nothing: S) -> S:
        """Return what comes of all values, in order, looking again at the last few alone.

        Args:
            key: tells what is gathered; whoever asks with it again gives the same `more`.
            more: returns what was gathered of some values (which it leaves as it is) with the next ones.
            nothing: what is gathered of none.
        """
        shared, count = self._shared, self._count
        known = None if shared.gathered is None else shared.gathered.get(key)
        if known is None or known[0] > count:  # what another has gone on with is none of ours
            known = 0, nothing
        seen, found = known[0], cast(S, known[1])
        if seen < count:
            found = more(found, shared.part(seen, count))
            if shared.gathered is None:
                shared.gathered = {}
            shared.gathered[key] = count, found
        return more(found, self._recent) if self._recent else found

    def __len__(self) -> int:
        return self._count + len(self._recent)

    def __iter__(self) -> Iterator[T]:
        pages = self._shared.pages
        early = chain.from_iterable(page.values for page in pages)
        return chain(
            early, islice(self._shared.late, self._count - len(pages) * PAGE), self._recent
        )

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                return (*self,)[place]
            early = self._shared.part(start, min(stop, self._count))
            end = self._recent[max(start - self._count, 0) : max(stop - self._count, 0)]
            return (*early, *end) if early else end
        if place < 0:
            place += len(self)
        if not 0 <= place < len(self):
            raise IndexError(place)
        late = place - self._count
        return self._shared.at(place) if late < 0 else self._recent[late]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(
            a is b or a == b for a, b in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # like the tuples of dicts it stands for

    def __repr__(self) -> str:
        return repr((*self,))


def is_read(values: Sequence[object]) -> bool:
    """Return whether all values of a sequence of any kind are at hand; see `Log.is_read`."""
    return type(values) is not Log or values.is_read


def logged(values: Sequence[T], value: T) -> Sequence[T]:
    """Return a sequence of any kind with one more value: a tuple, and a log once it is long.

    Most runs are short: a tuple is a fraction of a log's memory, and copied as fast.
    """
    if type(values) is Log:
        return values.and_also(value)
    early = len(values) - 2 * RECENT
    if early < 0:
        return (*values, value)
    # The last ones stand apart in a log, as they would if it had been one from the beginning.
    shared = _Shared(values[:early])
    return Log._with(shared, early, (*values[early:],)).and_also(value)


def gathered(
    values: Iterable[T], key: Hashable, more: Callable[[S, Sequence[T]], S], nothing: S
) -> S:
    """Return what comes of all values of any kind; of a log see `Log.gathered`."""
    if type(values) is Log:
        return values.gathered(key, more, nothing)
    return more(nothing, values if isinstance(values, Sequence) else tuple(values))


def relogged(values: Sequence[T], place: int, value: T) -> Sequence[T]:
    """Return a sequence of any kind with another value at a place; see `logged`."""
    if type(values) is Log:
        return values.but(place, value)
    return (*values[:place], value, *values[place + 1 :])


class Book(Mapping[str, T], Generic[T]):
    """A mapping that is never changed, in the order its keys came. It equals every such mapping."""

    __slots__ = ("_pages", "_places")

    def __init__(self, values: Mapping[str, T] | None = None) -> None:
        self._pages: Log[tuple[str, T]] = Log((values or {}).items())
        # Shared, too: a place is right where that page is of that key, whoever noted it.
        self._places = {key: place for place, (key, _) in enumerate(self._pages)}

    @staticmethod
    def of_pages(pages: Log[tuple[str, T]], keys: Iterable[str]) -> "Book[T]":
        """Return a book of what was written: its keys are known before it is read."""
        return Book._with(pages, dict(zip(keys, range(len(pages)), strict=True)))

    @property
    def log(self) -> Log[tuple[str, T]]:
        """Return it as its keys with their values."""
        return self._pages

    @staticmethod
    def _with(pages: Log[tuple[str, T]], places: dict[str, int]) -> "Book[T]":
        made: Book[T] = Book.__new__(Book)
        made._pages, made._places = pages, places
        return made

    def and_also(self, key: str, value: T) -> "Book[T]":
        """Return the book with a value for a key, new or not."""
        place = self._place(key)
        places = self._places
        if place is not None:
            pages = self._pages.but(place, (key, value))
        else:
            pages = self._pages.and_also((key, value))
            if places.setdefault(key, len(self._pages)) != len(self._pages):
                places = {each: at for at, (each, _) in enumerate(pages)}
        return self._with(pages, places)

    def _place(self, key: str) -> int | None:
        place = self._places.get(key)
        if place is None or place >= len(self._pages) or self._pages[place][0] != key:
            return None
        return place

    def __getitem__(self, key: str) -> T:
        place = self._place(key)
        if place is None:
            raise KeyError(key)
        return self._pages[place][1]

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self._pages)

    def __len__(self) -> int:
        return len(self._pages)

    def __repr__(self) -> str:
        return repr(dict(self))


def booked(values: Mapping[str, T], key: str, value: T) -> Mapping[str, T]:
    """Return a mapping of any kind with a value for a key: a dict, and a book once it is long."""
    if type(values) is Book:
        return values.and_also(key, value)
    if len(values) < 2 * RECENT:
        return {**values, key: value}
    return Book(values).and_also(key, value)


def latest(values: Mapping[str, T]) -> Iterator[T]:
    """Return the values of a mapping of any kind, the last one first."""
    pairs = values.log if type(values) is Book else tuple(values.items())
    return (value for _, value in reversed(pairs))


def plainly(value: object) -> object:
    """Return a log or a book as what JSON knows: for encoders.

    Raises:
        TypeError: it is neither.
    """
    match value:
        case Log():
            return [*value]
        case Book():
            return dict(value)
        case _:
            raise TypeError(f"no JSON for {type(value).__name__}")

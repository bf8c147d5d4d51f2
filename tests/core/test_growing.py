"""Values that grow without being copied: what each holds never changes, whoever goes on from it."""

from collections.abc import Sequence
from functools import partial
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core import append_only
from midstream.core.append_only import (
    PAGE,
    RECENT,
    Book,
    Log,
    Page,
    booked,
    gathered,
    latest,
    logged,
    plainly,
    relogged,
)
from midstream.core.decide.decide import judged
from midstream.core.events import Usage
from midstream.core.inputs import ModelReplied, Start, UserSaid
from midstream.core.pending import pending
from midstream.core.routing import Destination
from midstream.core.run import Run
from midstream.language.plan import chat_definition
from midstream.language.spec import Role
from midstream.testing.fakes import FakeTools

STEPS = st.lists(st.tuples(st.integers(0, 300), st.integers(-1, 300)), max_size=300)
"""From which value made before, and what: a value more (-1), or another one at a place."""


@given(STEPS)
def test_a_log_is_the_tuple_it_stands_for_whoever_goes_on_from_where(
    steps: list[tuple[int, int]],
) -> None:
    made: list[tuple[Log[int], tuple[int, ...]]] = [(Log(), ())]
    for number, (base, place) in enumerate(steps):
        log, plain = made[-1 - base % min(len(made), 5)]
        if place >= 0 and plain:
            place %= len(plain)
            made.append((log.but(place, number), (*plain[:place], number, *plain[place + 1 :])))
        else:
            made.append((log.and_also(number), (*plain, number)))

    for log, plain in made:
        assert (*log,) == plain
        assert log == plain
        assert plain == log
        assert len(log) == len(plain)


@given(st.integers(0, 200), st.slices(200))
def test_parts_of_a_log_are_parts_of_the_tuple(size: int, part: slice) -> None:
    log: Log[int] = Log()
    for number in range(size):
        log = log.and_also(number)

    assert log[part] == tuple(range(size))[part]
    assert [log[place] for place in range(-size, size)] == [*range(size), *range(size)]
    with pytest.raises(IndexError):
        log[size]


@given(STEPS)
def test_a_book_is_the_mapping_it_stands_for_whoever_goes_on_from_where(
    steps: list[tuple[int, int]],
) -> None:
    made: list[tuple[Book[int], dict[str, int]]] = [(Book(), {})]
    for number, (base, key) in enumerate(steps):
        book, plain = made[-1 - base % min(len(made), 5)]
        made.append((book.and_also(str(key % 150), number), {**plain, str(key % 150): number}))

    for book, plain in made:
        assert book == plain
        assert [*book.items()] == [*plain.items()]
        assert "300" not in book


def test_a_value_more_copies_nothing_of_what_is_long_ago() -> None:
    old = Log(range(1000))
    new = old
    for number in range(1000):
        new = new.and_also(number)
        new = new.but(len(new) - 1, number)

    assert new._shared is old._shared
    assert len(new._recent) <= 2 * RECENT


def test_where_two_go_on_from_one_each_has_its_own() -> None:
    old = Log(range(RECENT))
    one, two = old, old
    for number in range(3 * RECENT):
        one, two = one.and_also(number), two.and_also(-number)

    assert one == (*range(RECENT), *range(3 * RECENT))
    assert two == (*range(RECENT), *(-number for number in range(3 * RECENT)))
    assert old == (*range(RECENT),)


def on_pages(log: Log[int], asked: list[tuple[int, ...]]) -> Log[int]:
    """Return a log as it is read again: each page when it is asked for, which is noted."""

    def read(number: int) -> tuple[int, ...]:
        asked.append((number,))
        return pages[number]

    names, rest = log.on_pages(str)
    pages = [log.page(number) for number in range(len(names))]
    return Log.of_pages([Page(name, partial(read, n)) for n, name in enumerate(names)], rest)


@given(STEPS, st.integers(1, 5), st.data())
def test_a_log_that_is_read_again_is_the_tuple_it_stands_for_whoever_goes_on(
    steps: list[tuple[int, int]], size: int, data: st.DataObject
) -> None:
    with patch.object(append_only, "PAGE", size), patch.object(append_only, "RECENT", 2):
        made: list[tuple[Log[int], tuple[int, ...]]] = [(Log(), ())]
        for number, (base, place) in enumerate(steps):
            log, plain = made[-1 - base % min(len(made), 5)]
            if number % 7 == 0:
                log = on_pages(log, [])
            if place >= 0 and plain:
                place %= len(plain)
                made.append((log.but(place, number), (*plain[:place], number, *plain[place + 1 :])))
            else:
                made.append((log.and_also(number), (*plain, number)))
            names, rest = made[-1][0].on_pages(str)
            whole = [str(made[-1][1][at : at + size]) for at in range(0, len(names) * size, size)]
            assert ([*names], rest) == (whole, made[-1][1][len(names) * size :])

        for log, plain in made:
            part = data.draw(st.slices(len(plain)))
            assert log[part] == plain[part]
            assert log == plain


def test_of_a_log_that_is_read_again_only_what_is_asked_for_is_read() -> None:
    asked: list[tuple[int, ...]] = []
    log = on_pages(Log(range(10 * PAGE + 5)), asked)
    grown = log
    for number in range(3 * RECENT):
        grown = grown.and_also(number)

    assert len(grown) == 10 * PAGE + 5 + 3 * RECENT
    assert asked == []
    assert not grown.is_read
    assert grown[2 * PAGE + 1] == 2 * PAGE + 1
    assert grown.but(4 * PAGE, -1)[4 * PAGE - 1 : 4 * PAGE + 2] == (4 * PAGE - 1, -1, 4 * PAGE + 1)
    assert [*map(sum, asked)] == [2, 4, 3]
    assert log == range(10 * PAGE + 5)
    assert log.is_read


def test_a_page_is_named_once_for_all_that_share_it() -> None:
    asked: list[int] = []

    def name(page: tuple[int, ...]) -> str:
        asked.append(page[0])
        return str(page)

    log = Log(range(4 * PAGE))
    names, rest = log.on_pages(name)
    grown = log
    for number in range(PAGE):
        grown = grown.and_also(number)
    more, _ = grown.on_pages(name)
    changed, _ = grown.but(PAGE, -1).on_pages(name)

    assert (len(names), rest) == (4, ())
    assert more[:4] == names
    assert [each == also for each, also in zip(more, changed, strict=True)].count(False) == 1
    assert asked[:4] == [0, PAGE, 2 * PAGE, 3 * PAGE]
    assert sorted({*asked[4:]}) == [-1, 0]


def test_a_book_that_is_read_again_knows_its_keys_before() -> None:
    pairs = tuple((str(n), n) for n in range(3 * PAGE))
    asked: list[int] = []

    def read(number: int) -> tuple[tuple[str, int], ...]:
        asked.append(number)
        return pairs[number * PAGE : (number + 1) * PAGE]

    pages = [Page(str(n), partial(read, n)) for n in range(3)]
    book = Book.of_pages(Log.of_pages(pages, ()), [key for key, _ in pairs])

    assert "-1" not in book
    assert len(book.and_also("new", 1)) == 3 * PAGE + 1
    assert asked == []
    assert book[str(PAGE)] == PAGE
    assert asked == [1]
    assert next(latest(book)) == 3 * PAGE - 1
    assert book == dict(pairs)


def test_other_kinds_of_values_grow_into_these_and_json_knows_them() -> None:
    told = [logged((1,), 2), relogged([1, 2], 0, 3), booked({"a": 1}, "b", 2)]

    assert msgspec.json.encode(told, enc_hook=plainly) == b'[[1,2],[3,2],{"a":1,"b":2}]'
    with pytest.raises(TypeError):
        plainly(object())


def test_folding_a_long_chat_copies_its_past_at_no_fact() -> None:
    role = Role(systemMessage="Be brief.")
    definition = chat_definition("dude", role, FakeTools().specs())
    run = judged(Run(id="r"), Start(definition=definition)).run
    held: list[object] = []
    for turn in range(5 * RECENT):
        run = judged(run, UserSaid(id=f"i{turn}", to=Destination(text="Well?"), at=float(turn))).run
        (owed,) = pending(run)
        usage = Usage(model="m", input_tokens=1, output_tokens=1)
        run = judged(run, ModelReplied(key=owed.key, text="Yes.", usage=usage)).run
        (talk,) = run.contexts.values()
        grown = (talk, run.usage.requests, run.inbox.questions)
        held += [log._shared for log in grown if isinstance(log, Log)]
        held += [run.inbox.lines._places] if isinstance(run.inbox.lines, Book) else []

    assert len(talk) > 9 * RECENT
    assert len(held) > 4 * 2 * RECENT, "what is short is a tuple, and a dict"
    assert len({id(each) for each in held}) == 4


@given(STEPS, st.data())
def test_what_is_gathered_is_of_all_values_whoever_asks_when(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    made: list[Log[int]] = [Log()]
    for number, (base, place) in enumerate(steps):
        log = made[-1 - base % min(len(made), 5)]
        is_new = place < 0 or not log
        made.append(log.and_also(number) if is_new else log.but(place % len(log), number))
        nothing: tuple[int, ...] = ()
        asked = made[data.draw(st.integers(0, len(made) - 1))] if number % 20 == 0 else made[-1]

        assert gathered(asked, "all", lambda known, more: (*known, *more), nothing) == (*asked,)


def test_what_is_gathered_looks_again_at_the_last_values_alone() -> None:
    looked: list[int] = []

    def more(known: int, values: Sequence[int]) -> int:
        looked.append(len(values))
        return known + sum(values)

    log: Log[int] = Log()
    for number in range(1_000):
        log = log.and_also(number)
        looked.clear()

        assert gathered(log, "sum", more, 0) == sum(range(number + 1))
        assert sum(looked) <= 3 * RECENT

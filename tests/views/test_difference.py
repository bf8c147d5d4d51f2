"""The first difference between two values, named by its place."""

from typing import Any

import pytest

from midstream.core.conversation import Message
from midstream.core.run import Halt, Run, Visit
from midstream.views.difference import MAX_SHOWN, Difference, first_difference

TALK = tuple(Message(role="user", text=f"line {n}") for n in range(5))


def test_equal_runs_have_none() -> None:
    assert (
        first_difference(Run(id="r", common_data={"a": [1]}), Run(id="r", common_data={"a": [1]}))
        is None
    )


def test_a_difference_deep_inside_is_named_by_its_path() -> None:
    other = (*TALK[:3], Message(role="user", text="line three"), TALK[4])

    assert first_difference(
        Run(id="r", contexts={"talk": TALK}), Run(id="r", contexts={"talk": other})
    ) == Difference(field="contexts.talk[3].text", expected='"line 3"', found='"line three"')


def test_the_first_of_several_is_named_in_the_order_of_the_fields() -> None:
    found = first_difference(
        Run(id="r", visit=Visit(phase="pre", state="a")),
        Run(id="r", visit=Visit(phase="post", state="b")),
    )

    assert found is not None
    assert found.field == "visit.state"


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ({"a": 1}, {}, "common_data.a: 1 -> nothing"),
        ({}, {"a": None}, "common_data.a: nothing -> null"),
        ({"a": [1]}, {"a": [1, 2]}, "common_data.a[1]: nothing -> 2"),
        ({"a": {"b": 1}}, {"a": [1]}, 'common_data.a: {"b":1} -> [1]'),
        ({"a": True}, {"a": 1}, "common_data.a: true -> 1"),
        ({"a": 0}, {"a": False}, "common_data.a: 0 -> false"),
        ({"a": "1"}, {"a": 1}, 'common_data.a: "1" -> 1'),
    ],
)
def test_json_values_are_compared_as_json(left: Any, right: Any, words: str) -> None:
    found = first_difference(Run(id="r", common_data=left), Run(id="r", common_data=right))

    assert str(found) == words


@pytest.mark.parametrize(("left", "right"), [(1, 1.0), ([1, 2], (1, 2))])
def test_what_json_does_not_tell_apart_is_the_same(left: Any, right: Any) -> None:
    assert first_difference(left, right) is None


def test_something_where_nothing_is_is_a_difference() -> None:
    assert str(
        first_difference(Run(id="r"), Run(id="r", halt=Halt(cuts=(Visit(state="s" * 150),))))
    ) == (f'halt.cuts[0]: nothing -> {{"state":"{"s" * 110} [+42 characters]')


def test_values_are_shown_short() -> None:
    found = first_difference("x" * 1_000, "y")

    assert found is not None
    assert found.expected == f'"{"x" * (MAX_SHOWN - 1)} [+882 characters]'
    assert str(found).startswith("the whole: ")


def test_depth_is_no_trouble() -> None:
    left: Any = 1
    right: Any = 2
    for _ in range(3_000):
        left, right = [left], [right]

    found = first_difference(left, right)

    assert found is not None
    assert found.field == "[0]" * 3_000

"""What changed within large values: found once, made true again anywhere, never more than the change."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from midstream.core.data_edits import (
    Assign,
    Edit,
    Remove,
    Splice,
    edited,
    edits_between,
    is_large,
    is_same,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0])
    | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=5)
    ),
    max_leaves=25,
)
TALK = [{"role": "user", "text": f"{number:03} ".ljust(200, "x")} for number in range(50)]
CODEC = msgspec.json.Decoder(tuple[Edit, ...])


def kept(edits: list[Edit]) -> tuple[Edit, ...]:
    """What a journal gives back."""
    return CODEC.decode(msgspec.json.encode(edits))


@given(before=JSON, after=JSON)
def test_edits_lead_from_any_value_to_any_other(before: Any, after: Any) -> None:
    held = copy.deepcopy(before)
    edits = edits_between(("key",), before, after)

    assert (edits == []) == is_same(before, after)
    if edits is not None:
        assert is_same(edited({"key": before}, kept(edits)), {"key": after})
    assert is_same(before, held)


@given(before=JSON, changes=st.lists(st.tuples(st.integers(0, 20), JSON), max_size=3))
def test_a_few_changes_in_a_list_are_edits_of_it(
    before: Any, changes: list[tuple[int, Any]]
) -> None:
    items = [before, *map(str, range(20))]
    after = copy.deepcopy(items)
    for place, value in changes:
        after[place : place + 1] = [value]

    edits = edits_between(("key",), items, after)
    made = edited({"key": items, "other": 1}, kept(edits or []))
    assert edits is None or is_same(made, {"key": after, "other": 1})


def grown(talk: list[Any]) -> None:
    talk.append({"role": "user", "text": "new"})


def moved_on(talk: list[Any]) -> None:
    grown(talk)
    del talk[0]


def corrected(talk: list[Any]) -> None:
    talk[7]["text"] = "other"


def named(talk: list[Any]) -> None:
    talk[7]["name"] = "ada"


def unnamed(talk: list[Any]) -> None:
    del talk[7]["role"]


def written_on(talk: list[Any]) -> None:
    talk[7]["text"] += " and more"


def thinned(talk: list[Any]) -> None:
    del talk[10:20]


def put_between(talk: list[Any]) -> None:
    talk[10:10] = ["x", "y"]


NEW = {"role": "user", "text": "new"}
CHANGES: dict[str, tuple[Any, list[Edit]]] = {
    "appended": (grown, [Splice(path=("talk",), at=50, drop=0, put=[NEW])]),
    "appended, and the first dropped": (
        moved_on,
        [
            Splice(path=("talk",), at=0, drop=1, put=[]),
            Splice(path=("talk",), at=49, drop=0, put=[NEW]),
        ],
    ),
    "a text within": (corrected, [Assign(path=("talk", 7, "text"), value="other")]),
    "a key within": (named, [Assign(path=("talk", 7, "name"), value="ada")]),
    "a key gone": (unnamed, [Remove(path=("talk", 7, "role"))]),
    "a text that goes on": (
        written_on,
        [Splice(path=("talk", 7, "text"), at=200, drop=0, put=" and more")],
    ),
    "items gone": (thinned, [Splice(path=("talk",), at=10, drop=10, put=[])]),
    "items between": (put_between, [Splice(path=("talk",), at=10, drop=0, put=["x", "y"])]),
    "all gone": (list.clear, [Splice(path=("talk",), at=0, drop=50, put=[])]),
}


@table("what", CHANGES)
def test_an_edit_is_no_larger_than_the_change(what: str) -> None:
    change, expected = CHANGES[what]
    after = copy.deepcopy(TALK)
    change(after)

    edits = edits_between(("talk",), TALK, after)
    assert edits == expected
    assert edited({"talk": TALK}, kept(edits)) == {"talk": after}


@pytest.mark.parametrize("after", [["x"] * 60, {}, "text", None, list(range(50)), {7: TALK}])
def test_what_is_new_or_of_another_kind_is_said_whole(after: Any) -> None:
    assert edits_between(("talk",), TALK, after) is None


def test_what_is_not_touched_is_shared() -> None:
    data = {"talk": TALK, "rest": {"a": [1]}}
    made = edited(data, [Assign(path=("talk", 7, "text"), value="other")])

    assert made["talk"][8] is TALK[8]
    assert made["rest"] is data["rest"]
    assert TALK[7]["text"] != "other"


@pytest.mark.parametrize("value", ["x" * 512, ["x"] * 80, {"a": {"b": ["y" * 600]}}])
def test_large_is_what_has_many_characters_or_things(value: Any) -> None:
    assert is_large(value)


@pytest.mark.parametrize("value", [None, 1, "x" * 500, ["x"] * 10, {"a": {"b": "y" * 100}}])
def test_small_values_are_said_whole(value: Any) -> None:
    assert not is_large(value)

"""The strict decoder: hostile arguments become words, everything else its value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.safety.decoding import BadValue, clean, decode_arguments


def test_an_object_is_its_value() -> None:
    sent = '{"path": "a.py", "lines": [1, 2.5], "deep": {"on": true, "of": null}}'

    assert decode_arguments(sent) == {
        "path": "a.py",
        "lines": [1, 2.5],
        "deep": {"on": True, "of": None},
    }


@pytest.mark.parametrize("sent", ["", "  \n"])
def test_nothing_is_no_arguments(sent: str) -> None:
    assert decode_arguments(sent) == {}


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ("{", "not JSON"),
        ("{} {}", "not JSON"),
        ("null", "null, not an object"),
        ('"text"', "string, not an object"),
        ('{"a": Infinity}', "Infinity is not"),
        ('{"a": 1e999}', "too large"),
        ('{"a": 18446744073709551616}', "64 bits"),
        ('{"a": ' + "9" * 5000 + "}", "64 bits"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ('{"a": {"b": 1, "b": 1}}', "'b' stands twice"),
        ('{"a": "x\\u0000y"}', "NUL"),
        ('{"a\\u0000": 1}', "NUL"),
        ('{"a":' * 65 + "1" + "}" * 65, "deeper than 64"),
        ('{"a":' + "[" * 100_000, "deeper than 64"),
        ('{"a": "' + "x" * 1_000_000 + '"}', "at most 1,000,000"),
    ],
    ids=lambda value: value[:20],
)
def test_what_must_not_come_in_is_refused_in_words(sent: str, why: str) -> None:
    with pytest.raises(BadValue, match=why):
        decode_arguments(sent)


def test_half_a_surrogate_pair_is_replaced_in_values_and_keys() -> None:
    assert decode_arguments('{"\\ud800": ["\\udfff", "\\ud83d\\ude00"]}') == {
        "\ufffd": ["\ufffd", "\U0001f600"]
    }


def test_the_halves_of_a_pair_become_their_sign() -> None:
    assert clean("a \ud83d\ude00 b") == "a \U0001f600 b"


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=50))
def test_cleaned_text_can_be_written_anywhere(text: str) -> None:
    cleaned = clean(text)

    assert "\x00" not in cleaned
    assert clean(cleaned) == cleaned
    cleaned.encode()

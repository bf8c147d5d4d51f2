"""Templates are filled once, from facts; a path that leads nowhere is shown, never an error."""

import pytest

from midstream.language.names import Json
from midstream.models.offline import MAX_VALUE, filled

FACTS: dict[str, Json] = {
    "input": "tidy",
    "common_data": {"list": [{"path": "a.py"}], "none": None, "empty": "", "zero": 0, "no": False},
}


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("plain $ {x} $x", "plain $ {x} $x"),
        ("${input}, ${ input }", "tidy, tidy"),
        ("${common_data.list.0.path}", "a.py"),
        ("${common_data.list}", '[{"path":"a.py"}]'),
        ("${common_data.zero} ${common_data.no}", "0 false"),
        ("${common_data.gone}", "(no common_data.gone)"),
        ("${common_data.list.7.path}", "(no common_data.list.7.path)"),
        ("${input.deeper}", "(no input.deeper)"),
        ("${common_data.gone?nothing yet}", "nothing yet"),
        ("[${common_data.none?}${common_data.empty?-}]", "[-]"),
        ("${", "${"),
    ],
)
def test_a_path_is_replaced_by_its_value(template: str, words: str) -> None:
    assert filled(template, FACTS) == words


def test_a_value_is_never_a_template() -> None:
    facts: dict[str, Json] = {"input": "${common_data.secret}", "common_data": {"secret": "s"}}

    assert filled("${input}", facts) == "${common_data.secret}"


def test_a_long_value_is_named_not_poured_out() -> None:
    words = filled("${input}", {"input": "x" * (MAX_VALUE + 2_000)})

    assert words == "x" * MAX_VALUE + " ... (+2,000 characters)"

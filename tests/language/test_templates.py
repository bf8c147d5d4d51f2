"""Templates: one pass, paths that lead nowhere, and what is refused before anything is filled."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.language.data_paths import Missing
from midstream.language.names import Json
from midstream.language.templates import BadTemplate, TemplateFailed, compiled, filled

VALUES: dict[str, Any] = {
    "common_data": {
        "name": "Ada",
        "files": ["a.py", "b.py"],
        "user": {"first name": "Ada"},
        "hostile": "${common_data.secret} $${x} ${",
        "secret": "hunter2",
        "nothing": None,
        "empty": "",
        "number": 1.5,
        "nan": float("nan"),
        "long": "x" * 1_500_000,
        "half": "\ud800",
        "halves": ["\ud800"],
        "big": 2**70,
    },
    "input": {"task": "tidy"},
    "last_response": None,
    "visits": {"start": 1},
}


def look_up(path: str) -> Json | Missing:
    value: Json = VALUES
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return Missing()
    return value


def text_of(template: str) -> str:
    return compiled(template).text(look_up)


def refusal(template: str) -> str:
    with pytest.raises(BadTemplate) as caught:
        compiled(template)
    return f"{caught.value.column}: {caught.value}"


def failure(template: str) -> str:
    with pytest.raises(TemplateFailed) as caught:
        text_of(template)
    return str(caught.value)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("no places", "no places"),
        ("Hello ${common_data.name}!", "Hello Ada!"),
        ("${common_data.name}${common_data.name}", "AdaAda"),
        ("${ common_data.name }", "Ada"),
        ("${common_data.files}", '["a.py","b.py"]'),
        ("${common_data.files.1}", "b.py"),
        ("${common_data.user.first name}", "Ada"),
        ("${input} ${visits.start} ${common_data.number}", '{"task":"tidy"} 1 1.5'),
        ("${common_data.nothing}", "null"),
        ("${common_data.nothing?none}", "none"),
        ("${common_data.empty?none}", ""),
        ("${common_data.x?}", ""),
        (
            "${common_data.x?any text, also ? and $ and ünicode}",
            "any text, also ? and $ and ünicode",
        ),
        ('${common_data.x?{"a": {"b": 1}}} after', '{"a": {"b": 1}} after'),
        ("${last_response?nothing yet}", "nothing yet"),
        ("$${common_data.name}", "${common_data.name}"),
        ("$$${common_data.name}", "$${common_data.name}"),
        ("costs $5 {or so} } $", "costs $5 {or so} } $"),
        ("${common_data.hostile}", "${common_data.secret} $${x} ${"),
        ("${common_data.hostile}}", "${common_data.secret} $${x} ${}"),
        ("$${${common_data.name}}", "${Ada}"),
        ("${common_data.nan} ${common_data.big}", f"null {2**70}"),
    ],
)
def test_what_a_template_comes_to(template: str, text: str) -> None:
    assert text_of(template) == text


def test_one_lone_place_keeps_its_type() -> None:
    assert compiled("${common_data.files}").is_value
    assert compiled("${common_data.files}").fill(look_up) == ["a.py", "b.py"]
    assert compiled("${common_data.nothing}").fill(look_up) is None
    assert compiled("${common_data.x?3}").fill(look_up) == "3"
    assert compiled(" ${common_data.files}").fill(look_up) == ' ["a.py","b.py"]'
    assert not compiled("$${common_data.files}").is_value


def test_json_is_filled_in_depth_but_for_its_keys() -> None:
    value = {
        "${input}": ["${common_data.files}", "of ${common_data.name}", 1, None, {"a": "${input}"}]
    }

    assert filled(value, look_up) == {
        "${input}": [["a.py", "b.py"], "of Ada", 1, None, {"a": {"task": "tidy"}}]
    }
    assert value["${input}"][1] == "of ${common_data.name}"


def test_the_paths_and_their_places_are_known() -> None:
    template = compiled("${input} and\n${common_data.a.b?x}, $${no}")

    assert [place.path for place in template.places] == ["input", "common_data.a.b"]
    assert [(place.default, place.column) for place in template.places] == [(None, 1), ("x", 14)]


@pytest.mark.parametrize(
    ("template", "told"),
    [
        (
            "${common_data.nmae}",
            "There is no value at ${common_data.nmae}. Did you mean 'name'? "
            "A default helps where it may be missing: ${common_data.nmae?none}.",
        ),
        (
            "${common_data.files.7}",
            "There is no value at ${common_data.files.7}. "
            "common_data.files is a list of 2, numbered from 0. "
            "A default helps where it may be missing: ${common_data.files.7?none}.",
        ),
        (
            "${common_data.name.first.letter}",
            "There is no value at ${common_data.name.first.letter}. "
            "common_data.name is text, without parts. "
            "A default helps where it may be missing: ${common_data.name.first.letter?none}.",
        ),
        (
            "${variables.x}",
            "There is no value at ${variables.x}. "
            "A default helps where it may be missing: ${variables.x?none}.",
        ),
        (
            "${common_data.long}${common_data.long}",
            "The filled text is longer than 2,000,000 characters. "
            "Put in less: a path to a part of the value.",
        ),
        ("${common_data.half}", "${common_data.half} holds half a surrogate pair: no character."),
        ("${common_data.halves}", "${common_data.halves} cannot be written as JSON."),
    ],
)
def test_what_cannot_be_filled_says_why(template: str, told: str) -> None:
    assert failure(template) == told


@pytest.mark.parametrize(
    ("template", "told"),
    [
        (
            "ab ${input",
            '4: A "${" is not closed. Close it with "}", or write "$${" for the characters.',
        ),
        (
            "ab ${common_data.x?{}",
            '4: A "${" is not closed. Close it with "}", or write "$${" for the characters.',
        ),
        (
            "ab ${}",
            '4: A "${}" is empty. Name what to put in, such as ${input}, or write "$${" for the '
            "characters. "
            "There are: common_data, input, last, last_response, resume_input, variables, visits.",
        ),
        ("${inptu}", "1: ${inptu} does not begin with a name that is known. Did you mean 'input'?"),
        (
            "${name}",
            "1: ${name} does not begin with a name that is known. "
            "There are: common_data, input, last, last_response, resume_input, variables, visits.",
        ),
        (
            "${common_data[0]}",
            "1: ${common_data[0]} does not begin with a name that is known. Write .0 instead of [0]. "
            "There are: common_data, input, last, last_response, resume_input, variables, visits.",
        ),
        (
            "${common_data..a}",
            "1: ${common_data..a} is no path. "
            "Separate parts with dots, and give list items by number: ${common_data.files.0}.",
        ),
        (
            "${common_data.files[0]}",
            "1: ${common_data.files[0]} is no path. "
            "Separate parts with dots, and give list items by number: ${common_data.files.0}.",
        ),
        (
            "x${input?${input}}",
            "2: The default of ${input} contains a variable itself. A default is plain text.",
        ),
        ("x\ud800", "2: Half a surrogate pair is no character."),
        ("x" * 200_001, "1: A template may have 200,000 characters, not 200,001."),
    ],
)
def test_what_is_no_template_says_where(template: str, told: str) -> None:
    assert refusal(template) == told


def test_a_value_nested_too_deep_is_refused() -> None:
    value: Json = "${input}"
    for _ in range(5_000):
        value = [value]

    with pytest.raises(TemplateFailed, match="more than 64 deep"):
        filled(value, look_up)


def test_the_same_text_is_read_once() -> None:
    assert compiled("once ${input}") is compiled("once ${input}")


PIECES = st.lists(
    st.sampled_from(
        ["${", "$${", "$", "{", "}", "?", "input", "common_data", ".name", ".", " ", "é"]
    )
    | st.sampled_from(["${input}", "${common_data.hostile}", "${common_data.x?d}", "$${input}"])
    | st.text(max_size=3),
    max_size=12,
).map("".join)


@given(PIECES)
def test_no_text_does_anything_but_fill_or_say_why(text: str) -> None:
    try:
        template = compiled(text)
    except BadTemplate as error:
        assert 1 <= error.column <= len(text)  # noqa: PT017
        return
    try:
        template.text(look_up)
    except TemplateFailed as error:
        assert "There is no value at" in error.what  # noqa: PT017


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_what_is_put_in_is_never_read(value: str, around: str) -> None:
    around = around.replace("$", "")
    template = compiled(f"{around}${{input}}{around}")

    assert template.text(lambda path: value) == f"{around}{value}{around}"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_doubled_dollars_write_any_text(text: str) -> None:
    written = compiled(text.replace("${", "$${"))

    assert written.places == ()
    assert written.text(look_up) == text


def test_a_template_of_a_thousand_places_is_filled_in_order() -> None:
    template = compiled("".join(f"{number}${{common_data.name}}" for number in range(1_000)))

    assert len(template.places) == 1_000
    assert template.text(look_up) == "".join(f"{number}Ada" for number in range(1_000))

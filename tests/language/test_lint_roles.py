"""Every problem of a role file at once; the right roles of it stay."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.language.lint_roles import FREE_FORM, lint_roles
from midstream.language.spec import ParsingTool, Role


def said(text: str, tools: tuple[str, ...] | None = None) -> list[str]:
    return [str(problem) for problem in lint_roles(text, file="r.json", tools=tools)[1]]


def test_right_roles_are_read_with_parsing_tools_of_either_form() -> None:
    roles, problems = lint_roles(
        """{
        // the one who decides
        "judge": {
            "level": "smart",
            "parsingTools": ["approve", {"name": "reject", "description": "No."}],
        },
        "dude": {}}""",
        file="r.json",
    )

    assert problems == ()
    assert roles == {
        "judge": Role(
            level="smart",
            parsingTools=(
                ParsingTool(name="approve", parameters=FREE_FORM),
                ParsingTool(name="reject", description="No.", parameters=FREE_FORM),
            ),
        ),
        "dude": Role(),
    }


@pytest.mark.parametrize("name", ["2fast", "-x", "a.b", "", "x" * 65, "größe"])
def test_a_name_that_some_provider_refuses_names_no_tool(name: str) -> None:
    text = json.dumps({"dude": {"parsingTools": [name]}})

    roles, problems = lint_roles(text, file="r.json")

    assert roles == {}
    assert "cannot name a tool" in str(problems[0])


def test_every_problem_is_told_and_only_wrong_roles_are_left_out() -> None:
    roles, problems = lint_roles(
        """{
"a": {"level": "smrt", "systemMesage": "x"},
"b": {"parsingTools": ["no blanks", "twice", {"name": "twice"}, 3]},
"c": {"parsingTools": [{"name": "t", "parameters": {"type": "array", "properties": {"x": 1}}}]},
"": {},
"d": [],
"fine": {"includedTools": ["reed"]}
}""",
        file="r.json",
        tools=("read", "write"),
    )

    assert list(roles) == ["fine"]
    assert [str(problem) for problem in problems] == [
        'r.json:2:16 $.a.level: expected one of "base", "smart", "fast", found "smrt". '
        'Did you mean "smart"?',
        'r.json:2:24 $.a.systemMesage: unknown key "systemMesage". Did you mean "systemMessage"?',
        'r.json:3:24 $.b.parsingTools[0]: "no blanks" cannot name a tool: '
        "expected up to 64 of A-Z a-z 0-9 _ -, the first a letter or _.",
        'r.json:3:55 $.b.parsingTools[2].name: a second parsing tool "twice", '
        "the first is on line 3.",
        "r.json:3:65 $.b.parsingTools[3]: expected an object {...}, found 3. "
        "Its keys: name, description, parameters.",
        "r.json:4:61 $.c.parsingTools[0].parameters.type: the parameters of a tool are an object: "
        'expected "type": "object".',
        "r.json:4:90 $.c.parsingTools[0].parameters.properties.x: "
        "expected an object {...}, found 1.",
        'r.json:5:1 $[""]: "" cannot name a role: expected a plain name.',
        "r.json:6:6 $.d: expected an object {...}, found a list [...]. Its keys: level, systemMessage, "
        "includedTools, excludedTools, parsingTools, reminder, description, agentsFile, effort.",
        'r.json:7:28 $.fine.includedTools[0]: warning: there is no tool "reed". '
        'Did you mean "read"?',
    ]


def test_a_file_that_is_no_object_or_no_json_has_no_roles() -> None:
    assert said("[]") == ['r.json:1:1 $: expected an object {"NAME": {...}} of roles.']
    assert said('{"a": {}, "a": {}}') == [
        'r.json:1:11 $.a: the key "a" stands here twice, first on line 1. Keep one of them.'
    ]
    assert lint_roles('{"a": {}, "a": {}}', file="r.json")[0] == {}


KEYS = st.sampled_from(
    ["dude", "level", "parsingTools", "includedTools", "name", "parameters", "type"]
)
ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | KEYS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=30,
)


@given(ANY_JSON)
def test_no_json_makes_it_raise(value: Any) -> None:
    roles, problems = lint_roles(json.dumps(value), file="r.json", tools=("read",))

    assert roles or problems or value == {}


@given(st.text())
def test_no_text_makes_it_raise(text: str) -> None:
    lint_roles(text, file="r.json")


# --- as Markdown ----------------------------------------------------------------------------------

JUDGE = """---
description: Judges: fairly
level: smart
effort: low
includedTools: [read_files, "exact_search"]
agentsFile: true
---
You judge.

--- and "quote" \\ it.
"""


def test_a_role_may_be_markdown() -> None:
    roles, problems = lint_roles(JUDGE, file="roles/judge.md")
    assert problems == ()
    assert roles == {
        "judge": Role(
            description="Judges: fairly",
            level="smart",
            effort="low",
            includedTools=("read_files", "exact_search"),
            agentsFile=True,
            systemMessage='You judge.\n\n--- and "quote" \\ it.',
        )
    }


@pytest.mark.parametrize(
    ("head", "where"),
    [
        ("levl: smart", "roles/judge.md:2:1"),
        ("level: smart\neffort: hard", "roles/judge.md:3:"),
        ("level: smart\nagentsFile: perhaps", "roles/judge.md:3:"),
        ("level: smart\nno colon here", "roles/judge.md:3:"),
        ("level: smart\nlevel: fast", "roles/judge.md:3:1"),
    ],
)
def test_what_is_wrong_with_its_head_is_said_where_it_stands(head: str, where: str) -> None:
    roles, problems = lint_roles(f"---\n{head}\n---\nYou judge.\n", file="roles/judge.md")
    assert roles == {}
    assert str(problems[0]).startswith(where)


def test_a_head_without_an_end_is_wrong_and_a_page_without_a_head_is_no_role() -> None:
    assert lint_roles("---\nlevel: smart\nYou judge.\n", file="roles/judge.md")[1]
    assert lint_roles("# Our roles\n", file="roles/README.md") == ({}, ())

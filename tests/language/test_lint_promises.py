"""What the validator passes does not go wrong later for a reason it promises to find."""

import json
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from midstream.language.json_text import parse
from midstream.language.lint import lint_workflow
from midstream.language.lint_schema import KEYWORDS, check_schema, check_value
from midstream.language.lint_scopes import Known
from midstream.language.problem import Problem, Report
from midstream.language.spec import Role
from midstream.language.walks import circles
from midstream.tools.validation import validate

# --- schemas ------------------------------------------------------------------------------------

KEYS = st.sampled_from(sorted(KEYWORDS - {"$schema", "$id", "$anchor", "dependentRequired"}))
SMALL: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.floats(-1, 2),
    st.sampled_from(["string", "object", "integer", "array", "a", "[", "^a", "#", "#/$defs/a", ""]),
)
SCHEMAS: st.SearchStrategy[Any] = st.dictionaries(
    KEYS,
    st.recursive(
        SMALL,
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(KEYS | st.sampled_from(["a", "b"]), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=4,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SMALL,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=5,
)


def errors_of_schema(schema: Any) -> list[Problem]:
    root = parse(json.dumps(schema)).root
    assert root is not None
    report = Report("s.json")
    check_schema(root, report)
    return [problem for problem in report.problems if problem.severity == "error"]


def test_examples_of_a_schema_are_values_and_required_are_names() -> None:
    said = [
        errors_of_schema({key: value})[0].message
        for key, value in (("examples", 3), ("required", [3]), ("required", ["a", "a"]))
    ]

    assert said == [
        "expected a list of values, found 3.",
        "expected a list of names, found a list [...].",
        "expected a list of different names, found a list [...].",
    ]


PASSING = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
"""Most schemas drawn like this do not pass, and say nothing here."""


@PASSING
@given(SCHEMAS, VALUES)
def test_a_schema_that_passes_can_be_used(schema: Any, value: Any) -> None:
    assume(not errors_of_schema(schema))
    refused = validate(value, schema)

    assert "no JSON Schema" not in refused
    assert "cannot be" not in refused


@PASSING
@given(SCHEMAS, VALUES)
def test_a_value_said_not_to_fit_does_not_fit(schema: Any, value: Any) -> None:
    assume(not errors_of_schema(schema))
    root = parse(json.dumps(value)).root
    assert root is not None
    report = Report("v.json")
    check_value(root, schema, report, what="it", has_templates=False)

    if report.problems:
        assert validate(value, schema) != ""


# --- circles ------------------------------------------------------------------------------------

NAMES = ("start", "a", "b", "c", "d")
GRAPHS = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from(NAMES), max_size=3) for name in NAMES}
)


@given(GRAPHS)
def test_circles_are_the_states_that_come_back_to_themselves(ahead: dict[str, list[str]]) -> None:
    def behind(name: str) -> set[str]:
        found: set[str] = set()
        todo = list(ahead[name])
        while todo:
            if (each := todo.pop()) not in found:
                found.add(each)
                todo += ahead[each]
        return found

    expected = {
        frozenset(other for other in behind(name) if name in behind(other))
        for name in NAMES
        if name in behind(name)
    }
    assert {frozenset(circle) for circle in circles(ahead)} == expected


def test_a_circle_of_one_way_alone_stands_in_its_order() -> None:
    assert circles({"s": ["b"], "a": ["b"], "b": ["c"], "c": ["a"]}) == [["c", "a", "b"]]


def test_a_circle_may_be_longer_than_pythons_stack() -> None:
    long = {f"s{n}": [f"s{n + 1}"] for n in range(20_000)} | {"s20000": ["s0"]}

    assert [len(circle) for circle in circles(long)] == [20_001]


# --- data ---------------------------------------------------------------------------------------

PATHS = ("common_data.x", "common_data.y", "common_data.y.z")
TARGETS = st.sampled_from([*NAMES, "stop"])


@st.composite
def workflows(draw: st.DrawFn) -> dict[str, Any]:
    states: list[dict[str, Any]] = []
    for name in NAMES:
        state: dict[str, Any] = {"name": name, "agent": "coder", "max_visits": 9}
        if draw(st.booleans()):
            state["prompt"] = f"${{{draw(st.sampled_from(PATHS))}}}"
        if draw(st.booleans()):
            state["save_as"] = draw(st.sampled_from(PATHS[:2]))
        branches = draw(st.lists(TARGETS, max_size=2))
        state["transitions"] = [{"when": "last.text", "to": target} for target in branches[:1]]
        state["next"] = draw(TARGETS)
        if draw(st.booleans()):
            state["catch"] = [{"to": draw(TARGETS), "save_as": draw(st.sampled_from(PATHS[:2]))}]
        states.append(state)
    return {
        "workflow_name": "w",
        "contexts": [{"name": "desk"}],
        "agents": [{"agent_role": "coder", "context": "desk"}],
        "states": [*states, {"name": "stop"}],
    }


def walked(workflow: dict[str, Any], choices: list[int]) -> str | None:
    """Return the state in which a run fails over what was never written, going as it is told."""
    states = {state["name"]: state for state in workflow["states"]}
    name, there = "start", set[str]()
    for choice in choices:
        state = states[name]
        if name == "stop":
            return None
        wanted = state.get("prompt", "")[2:-1]
        if wanted and wanted not in there and not any(wanted.startswith(f"{p}.") for p in there):
            return name
        ways = [(each["to"], state.get("save_as")) for each in state["transitions"]]
        ways += [(state["next"], state.get("save_as"))]
        ways += [(each["to"], each["save_as"]) for each in state.get("catch", ())]
        name, saved = ways[choice % len(ways)]
        there |= {saved} if saved else set()
    return None


@settings(max_examples=300, deadline=None)
@given(workflows(), st.lists(st.integers(0, 2), min_size=12, max_size=12))
def test_what_is_read_without_a_word_of_warning_was_written(
    workflow: dict[str, Any], choices: list[int]
) -> None:
    known = Known(roles={"coder": Role()}, handlers=None, script_file="w/script.py")
    _, problems = lint_workflow(json.dumps(workflow), known, file="w.json")
    failed = walked(workflow, choices)

    if failed is not None:
        place = f"$.states[{NAMES.index(failed)}].prompt"
        assert place in [problem.path for problem in problems]

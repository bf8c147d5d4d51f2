"""Whatever is in a file, the validator says what is wrong with it and never falls over."""

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.language.json_text import parse
from midstream.language.lint import lint_workflow
from midstream.language.lint_scopes import Known
from midstream.language.plan import plan_of
from midstream.language.problem import Problem
from midstream.language.spec import Role, ToolSpec, Workflow

CORPUS = Path(__file__).parents[1] / "workflows" / "corpus"
ROLES = {"coder": Role(), "judge": Role(), "idler": Role(includedTools=("x",))}
TOOLS = {
    "run_tests": ToolSpec(
        name="run_tests",
        description="",
        parameters={"type": "object", "properties": {"command": {"type": "string"}}},
    )
}


def values() -> list[Any]:
    """Return what the files of the corpus hold, those that can be read."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(CORPUS.rglob("*.json"))]
    roots = [parse(text).root for text in texts]
    return [root.value for root in roots if root is not None and root.kind == "object"]


FILES = values()


def lint(text: str) -> tuple[Workflow | None, tuple[Problem, ...]]:
    known = Known(
        roles=ROLES,
        handlers={"brief": 1, "decide": 5},
        tools=TOOLS,
        script_file="w/script.py",
        workflows=("review",),
        own_name="w",
    )
    return lint_workflow(text, known, file="w.json")


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) in a value."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        item = todo.pop()
        keys = item.keys() if isinstance(item, dict) else range(len(item))
        found += [(item, key) for key in keys]
        todo += [item[key] for key in keys if isinstance(item[key], dict | list)]
    return found


SCRAPS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(-2, 2),
    st.text(max_size=6),
    st.sampled_from(
        [
            *("start", "stop", "resume", "a", "one", "$interrupted", "coder", "review", "any"),
            *("${input}", "${", "common_data.x", "common_data.x.y", "variables.files", "last.text"),
            *("visits.start < 2", "True", "default", "goto", "#", "#/$defs/a"),
        ]
    ),
    st.sampled_from([[], {}, [[]], [{}], {"": {}}, [None], {"name": "start"}, {"to": "start"}]),
)


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A file of the corpus with some of its parts dropped, replaced, doubled or swapped."""
    value = copy.deepcopy(draw(st.sampled_from(FILES)))
    for _ in range(draw(st.integers(1, 6))):
        there = places(value)
        if not there:
            break
        holder, key = draw(st.sampled_from(there))
        match draw(st.sampled_from(["drop", "replace", "double", "move"])):
            case "drop":
                del holder[key]
            case "replace":
                holder[key] = copy.deepcopy(draw(SCRAPS))
            case "double" if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case _:
                other, place = draw(st.sampled_from(there))
                other[place] = copy.deepcopy(holder[key])
    return value


@settings(max_examples=400, deadline=None)
@given(mutated())
def test_a_file_changed_at_random_never_makes_it_raise(value: Any) -> None:
    text = json.dumps(value)
    found, problems = lint(text)

    assert (found is None) == any(problem.severity == "error" for problem in problems)
    assert all(problem.line >= 1 and problem.column >= 1 for problem in problems)
    assert all(problem.path.startswith("$") and problem.message for problem in problems)
    assert "\n" not in "".join(map(str, problems))
    if found is not None:
        value.pop("$schema", None)
        assert found == msgspec.convert(value, Workflow)
        assert {"start", "stop"} <= plan_of(found).states.keys()


def large(*states: dict[str, Any], **parts: Any) -> str:
    """Return the text of a workflow of very many states."""
    whole = {
        "workflow_name": "w",
        "contexts": [{"name": "desk"}],
        "agents": [{"agent_role": "coder", "context": "desk"}],
        **parts,
        "states": [*states, {"name": "stop"}],
    }
    return json.dumps(whole)


def test_very_many_states_that_all_lead_to_each_other_are_still_checked() -> None:
    names = ["start", *(f"s{number}" for number in range(149))]
    states = [
        {
            "name": name,
            "agent": "coder",
            "save_as": name,
            "transitions": [
                *(
                    {"when": f"common_data.{other} == {at}", "to": other}
                    for at, other in enumerate(names)
                ),
                {"to": "stop"},
            ],
        }
        for name in names
    ]

    assert lint(large(*states))[0] is not None


def test_a_chain_of_very_many_states_is_still_checked() -> None:
    states = [
        {
            "name": f"s{number}" if number else "start",
            "agent": "coder",
            "prompt": f"${{common_data.s{number + 7}}}",
            "save_as": f"s{number}",
            "next": f"s{number + 1}" if number < 2999 else "stop",
        }
        for number in range(3000)
    ]
    problems = lint(large(*states))[1]

    assert len(problems) == 3000
    assert {problem.severity for problem in problems} == {"warning"}


def test_branches_within_branches_are_checked_all_the_way_down() -> None:
    inner: dict[str, Any] = {"name": "one", "agent": "codre"}
    for _ in range(14):
        inner = {"name": "one", "parallel": [{"name": "b", "states": [inner]}]}
    inner["name"] = "start"

    assert [problem.message for problem in lint(large(inner))[1]] == ['there is no agent "codre".']

"""Validating a workflow of 200 states: every check, with nothing remembered from the time before.

The floor is what any JSON reader takes that tells no places: the same text through `json.loads` and
msgspec. The aim is in milliseconds: a person saves a file and sees what is wrong with it at once.
"""

import json
from time import process_time
from typing import Any

import msgspec

from benchmarks.measuring import Figure, profiled
from midstream.language import expressions, lint_scopes, templates
from midstream.language.lint import lint_workflow
from midstream.language.spec import Role, ToolSpec, Workflow

STATES = 200
AIM_MS = 100
FLOOR = "json.loads and msgspec.convert of the same text"

TOOLS = {
    "run_tests": ToolSpec(
        name="run_tests",
        description="",
        parameters={
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
            "additionalProperties": False,
        },
    )
}


def workflow_text() -> str:
    """Return a workflow of many states of every kind, as a person would lay it out."""
    states: list[dict[str, Any]] = [{"name": "start", "next": "work0"}]
    while len(states) < STATES - 1:
        number = len(states) - 1
        following = f"work{number + 1}" if len(states) < STATES - 2 else "stop"
        states.append(state(number, following))
    states.append({"name": "stop", "input": "common_data.result0"})
    return json.dumps(
        {
            "workflow_name": "large",
            "variables": {"goal": "x", "files": ["a"]},
            "contexts": [{"name": "desk"}],
            "agents": [{"agent_role": "coder", "context": "desk"}],
            "states": states,
        },
        indent=2,
    )


def state(number: int, following: str) -> dict[str, Any]:
    """Return one state; what it is alternates."""
    name, result = f"work{number}", f"common_data.result{number}"
    common: dict[str, Any] = {"name": name, "save_as": result}
    match number % 5:
        case 0:
            return common | {
                "agent": "coder",
                "prompt": f"Step {number}: ${{variables.goal}} after ${{last_response?nothing}}",
                "max_visits": 5,
                "retry": {"max_attempts": 3, "on": ["model"]},
                "transitions": [
                    {"when": f"'again' in last.text and visits.{name} < 3", "to": name},
                    {"to": following},
                ],
            }
        case 1:
            return common | {
                "tool": "run_tests",
                "arguments": {"command": f"make {number} ${{common_data.result{number - 1}}}"},
                "catch": [{"on": ["tool"], "to": "stop", "save_as": "trouble"}],
                "next": following,
            }
        case 2:
            return common | {
                "ask": {"question": f"Go on with {number}?", "choices": ["yes", "no"]},
                "transitions": [
                    {"when": f"{result} == 'yes'", "to": following},
                    {"to": "stop"},
                ],
            }
        case 3:
            inner = [{"name": "one", "agent": "coder", "prompt": "${input}", "save_as": "said"}]
            return common | {
                "for_each": {"items": "variables.files", "states": inner},
                "next": following,
            }
        case _:
            return {"name": name, "wait": 1, "next": following}


def ours(text: str) -> float:
    """Return the seconds one whole check takes, in a process that knows none of the texts."""
    for remembered in (templates.compiled, expressions.compiled, lint_scopes.constant):
        remembered.cache_clear()
    began = process_time()
    known = lint_scopes.Known(
        roles={"coder": Role()},
        handlers=None,
        tools=TOOLS,
        script_file="large/script.py",
        workflows=(),
    )
    workflow, problems = lint_workflow(text, known, file="large.json")
    took = process_time() - began
    assert workflow is not None, problems
    assert len(workflow.states) == STATES
    return took


def floor(text: str) -> float:
    """Return the seconds it takes to read the text without checking anything."""
    began = process_time()
    msgspec.convert(json.loads(text), Workflow)
    return process_time() - began


def measure(quick: bool) -> list[Figure]:
    """Return how long validating takes."""
    text = workflow_text()
    rounds = 3 if quick else 15
    ours(text), floor(text)
    own, bare = [], []
    for _ in range(rounds):
        own.append(ours(text) * 1000)
        bare.append(floor(text) * 1000)
    return [
        Figure(
            name=f"validating a workflow of {STATES} states",
            unit="ms",
            values=tuple(own),
            floor=FLOOR,
            floors=tuple(bare),
            aim=AIM_MS,
            aim_on="value",
        )
    ]


def explain() -> None:
    """Print where the time goes."""
    text = workflow_text()
    ours(text)
    profiled(lambda: ours(text))

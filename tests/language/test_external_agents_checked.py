"""An agent that is another program: what its file may say, and what it is in words."""

import json

from midstream.language.lint import lint_workflow
from midstream.language.lint_scopes import Known
from midstream.language.names import Json
from midstream.language.spec import ParsingTool, Role
from midstream.runtime.python_workflow import Workflow
from midstream.testing.fakes import define
from midstream.views.workflow_in_words import explained

ROLES = {"dude": Role(), "judge": Role(parsingTools=(ParsingTool(name="verdict"),))}


def problems(**agent: Json) -> list[str]:
    data = {
        "workflow_name": "w",
        "contexts": [{"name": "talk"}],
        "agents": [{"context": "talk", **agent}],
        "states": [
            {"name": "start", "agent": agent.get("name") or agent.get("agent_role") or "x"},
            {"name": "stop"},
        ],
    }
    known = Known(roles=ROLES, handlers=None, script_file="s.py")
    _, found = lint_workflow(json.dumps(data), known, file="w.json")
    return [problem.message for problem in found]


def test_a_preset_or_a_command_is_an_agent_without_a_role() -> None:
    assert problems(name="claude", acp="claude") == []
    assert problems(name="mine", acp=["my-agent", "--acp"]) == []
    assert problems(name="mine", acp=["my-agent"], agent_role="dude") == []


def test_what_is_wrong_is_said() -> None:
    [unknown] = problems(name="claude", acp="cluade")
    assert '"cluade" is no external agent that is known' in unknown
    assert any("the command is empty" in each for each in problems(name="x", acp=[]))
    assert any('has no "agent_role"' in each for each in problems(name="x"))
    [parsing] = problems(name="x", acp="codex", agent_role="judge")
    assert "parsing tools" in parsing


def test_it_is_explained_by_the_program_it_is() -> None:
    definition = define(
        {
            "contexts": [{"name": "talk"}],
            "agents": [{"name": "mine", "context": "talk", "acp": ["my agent", "--acp"]}],
            "states": [{"name": "start", "agent": "mine"}],
        }
    )

    assert explained(definition).agents == (
        "mine: another program ('my agent' --acp) in the conversation talk.",
    )


def test_in_python_it_is_an_agent_too() -> None:
    flow = Workflow("w")
    flow.agent("claude", acp="claude")
    flow.agent("mine", acp=["my-agent"], role="dude")

    assert flow.document["agents"] == [
        {"name": "claude", "context": "main", "role": "assistant", "acp": "claude"},
        {
            "name": "mine",
            "context": "main",
            "role": "assistant",
            "agent_role": "dude",
            "acp": ["my-agent"],
        },
    ]

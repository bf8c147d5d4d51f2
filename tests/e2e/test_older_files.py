"""A workflow and a role as the older program wrote them: they load, are explained and run as they are."""

import json
from pathlib import Path
from typing import Any

from console_kit import run, write_workflow

TOOL = {
    "type": "function",
    "function": {
        "name": "verdict",
        "description": "Says whether the text is good.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"good": {"type": "boolean"}},
            "required": ["good"],
            "additionalProperties": False,
        },
    },
    "parsingOnly": True,
}
ROLES = {
    "writer": {
        "level": "smart",
        "systemMessage": "You write.",
        "excludedTools": ["execute_terminal"],
        "reminder": "Be short.",
    },
    "critic": {
        "level": "fast",
        "systemMessage": "You judge.",
        "includedTools": [],
        "parsingTools": [TOOL],
    },
}
WORKFLOW: dict[str, Any] = {
    "workflow_name": "essay",
    "description": "Writes a text and has it judged.",
    "start_condition": "on_user_input",
    "input": {"name": "topic", "type": "string", "description": "What it is about."},
    "output": {"name": "summary", "type": "string", "description": "What came of it."},
    "variables": {"rounds": 2},
    "contexts": [
        {
            "name": "desk",
            "starting_messages": [{"role": "system", "content": "An essay is written here."}],
            "max_length": 50000,
        }
    ],
    "agents": [
        {"agent_role": "writer", "context": "desk", "role": "assistant"},
        {"agent_role": "critic", "context": "desk", "role": "user"},
    ],
    "states": [
        {
            "name": "start",
            "agent": "writer",
            "pre_handler": "set_topic",
            "transition_handler": "on",
        },
        {
            "name": "look",
            "agent": "critic",
            "post_handler": "keep_verdict",
            "transition_handler": "again",
        },
        {"name": "resume", "pre_handler": "hear", "transition_handler": "back"},
        {"name": "stop", "input": "common_data.summary"},
    ],
}
SCRIPT = """
def set_topic(run):
    run.contexts["desk"].add_message("user", "About: " + run.common_data["topic"])


def on(run):
    return "look"


def keep_verdict(run):
    run.common_data.setdefault("verdicts", []).append(run.last_response.tool_calls[0].arguments)


def again(run):
    if len(run.common_data["verdicts"]) < run.variables["rounds"]:
        return "start"
    run.common_data["summary"] = f"{run.common_data['topic']}: {run.common_data['verdicts']}"
    return "stop"


def hear(run):
    run.contexts["desk"].add_message("user", run.resume_input)


def back(run):
    return "start"
"""


def test_files_of_the_older_program_load_as_they_are(tmp_path: Path) -> None:
    config = tmp_path / "config"
    write_workflow(config, "essay", WORKFLOW, SCRIPT)
    (config / "roles").mkdir()
    (config / "roles" / "own.json").write_text(json.dumps(ROLES), encoding="utf-8")

    explained = run(tmp_path, "explain", "essay")
    assert "topic (string): What it is about." in explained.stdout
    assert explained.stderr == ""
    ended = run(tmp_path, "run", "essay", "the sea", "--model", "offline")

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("the sea: [{'good': ")

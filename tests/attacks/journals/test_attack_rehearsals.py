"""A stranger's rehearsal in a workspace that is trusted: it is played, and nothing it says is done.

Playing one makes no call, asks no model, grants nothing and writes nothing; what it says reaches the
terminal escaped. In a workspace that is not trusted none is read.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tables import table

from midstream.cli.main import exit_code

CANARY = "c4nary-was-here"
WORKFLOW = {
    "workflow_name": "shout",
    "contexts": [{"name": "desk"}],
    "agents": [{"agent_role": "dude", "context": "desk"}],
    "states": [
        {"name": "start", "agent": "dude", "prompt": "${input}", "save_as": "said"},
        {"name": "stop", "input": "common_data.said"},
    ],
}
DRAWS = "\x1b[2J\x1b]52;c;eA==\x07\x9b31m\u202eevil"


def replied(text: str = "", *calls: dict[str, Any]) -> dict[str, Any]:
    step = {"what": "model_replied", "agent": "dude", "state": "start", "text": text}
    return step | ({"calls": list(calls)} if calls else {})


def wants(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


SHELL = wants("execute_terminal", command=f"touch {CANARY}")
WRITE = wants("write_file", path=CANARY, content="x")
RETURNED = {"what": "tool_returned", "call": "c1", "text": "ok"}
YES = {"what": "user_decided", "question": "q1", "granted": True, "for_run": True}

REHEARSALS: dict[str, dict[str, Any]] = {
    "a command a model would run": {"steps": [replied("", SHELL)]},
    "a command it says was run": {"steps": [replied("", SHELL), RETURNED, replied("done")]},
    "a command it says was allowed": {"steps": [replied("", SHELL), YES, RETURNED, replied("x")]},
    "every tool allowed from the start": {
        "allowed": ["execute_terminal", "write_file", "shell: *", "write: **", "outside: *"],
        "steps": [replied("", SHELL, WRITE)],
    },
    "a protected file written": {
        "allowed": ["write_protected: **"],
        "steps": [replied("", wants("write_file", path=".git/hooks/pre-commit", content="x"))],
    },
    "a server asked": {"steps": [replied("", wants("fetch_url", url="http://127.0.0.1:9/x"))]},
    "a question nobody asked, answered": {
        "steps": [{"what": "user_answered", "question": "q9", "text": "y"}]
    },
    "no budget at all": {"limits": {"usd": 1e308}, "steps": [replied("", SHELL)]},
    "a workflow elsewhere": {"workflow": "../../../../etc/passwd", "steps": []},
    "a workflow by its whole path": {"workflow": "/etc/passwd", "steps": []},
    "a workflow with a name that draws": {"workflow": DRAWS, "steps": []},
    "words that draw": {"input": DRAWS, "steps": [replied(DRAWS)], "expected": {"output": DRAWS}},
    "an input that is a template": {"input": "${common_data}", "steps": [replied("${input}")]},
    "fields nobody knows": {"trusted": True, "script": "import os", "steps": []},
    "an environment of its own": {"env": {"PATH": "."}, "steps": []},
    "steps without an end": {"steps": [replied("x")] * 5_000},
    "lists without an end": {"input": None, "deep": 100_000, "steps": []},
    "another format": {"rehearsal": 99, "steps": []},
}


@pytest.fixture
def workspace(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = own_folder / "work"
    (folder / ".midstream" / "workflows" / "shout" / "rehearsals").mkdir(parents=True)
    (folder / ".midstream" / "workflows" / "shout.json").write_text(json.dumps(WORKFLOW))
    (folder / ".git" / "hooks").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def written(folder: Path, tries: str) -> Path:
    """Write a rehearsal into its place in the workspace."""
    given = {"rehearsal": 1, "workflow": "shout", "input": "hi", "expected": {}}
    given |= REHEARSALS[tries]
    deep = int(str(given.pop("deep", 0)))
    text = json.dumps(given)
    if deep:
        text = text.replace('"input": null', f'"input": {"[" * deep}{"]" * deep}')
    file = folder / ".midstream" / "workflows" / "shout" / "rehearsals" / "evil.json"
    file.write_text(text)
    return file


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@table("tries", REHEARSALS)
def test_nothing_it_says_is_done(
    workspace: Path, tries: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = written(workspace, tries)
    before, environ = everything(workspace), dict(os.environ)
    codes = [
        exit_code(["rehearse", str(file), "--trust-workspace"]),
        exit_code(["test", "--trust-workspace"]),
    ]
    out, err = capfd.readouterr()

    assert set(codes) <= {0, 1, 2, 5}, codes
    assert everything(workspace) == before
    assert dict(os.environ) == environ
    assert not any(char in out + err for char in "\x1b\x9b\x07\u202e")
    assert "Traceback" not in err


@table("tries", list(REHEARSALS)[:3])
def test_untrusted_none_is_read(workspace: Path, tries: str) -> None:
    file = written(workspace, tries)

    assert exit_code(["rehearse", str(file)]) == 3
    assert exit_code(["test"]) == 3

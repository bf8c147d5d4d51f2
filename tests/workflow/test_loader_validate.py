"""`midstream validate`: files known by place or content, every problem of each."""

import os
from pathlib import Path

import pytest

from midstream.core.spec import Role
from midstream.workflow.validate import validate_files

WORKFLOW = """{"workflow_name": "w", "contexts": [{"name": "main"}],
"agents": [{"agent_role": "judge", "context": "main"}],
"states": [{"name": "start", "agent": "judge"}, {"name": "stop"}]}"""


def validated(*paths: Path, roles: dict[str, Role] | None = None) -> list[str]:
    return [str(problem) for problem in validate_files(paths, roles=roles or {})]


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str | bytes) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_role_file_named_beside_a_workflow_gives_it_its_roles() -> None:
    workflow = write("w.json", WORKFLOW)
    roles = write("r.json", '{"judge": {"level": "smart"}}')

    assert validated(workflow, roles) == []
    assert validated(workflow) == [
        'w.json:2:27 $.agents[0].agent_role: there is no role "judge". There is no role at all.'
    ]


def test_a_workflow_may_use_the_roles_of_the_folder_it_lies_in() -> None:
    write(".midstream/roles/r.json", '{"judge": {"level": "smart"}}')
    workflow = write(".midstream/workflows/w.json", WORKFLOW)
    script = write(".midstream/workflows/w/script.py", "def go(run): ...")

    assert validated(workflow) == []
    assert validated(script) == []


def test_a_folder_stands_for_all_its_files() -> None:
    write(".midstream/application.json", '{"currentMode": "dude", "models": {}}')
    write(".midstream/roles/r.json", '{"judge": {"levl": 1}}')
    write(".midstream/workflows/w.json", WORKFLOW)

    assert validated(Path(".midstream"), roles={"judge": Role()}) == [
        ".midstream/application.json:1:17 $.currentMode: 'dude' is not a mode. "
        "Did you mean 'role:dude' or 'workflow:dude'?",
        ".midstream/application.json:1:35 $.models: a workspace may not choose models; ignored. "
        "They decide where code is sent and what it costs: set them in your own application.json.",
        '.midstream/roles/r.json:1:12 $.judge.levl: unknown key "levl". Did you mean "level"?',
    ]


def test_a_script_is_checked_with_its_workflow() -> None:
    write("workflows/w.json", WORKFLOW.replace('"agent": "judge"', '"pre_handler": "go"'))
    script = write("workflows/w/script.py", "def goo(run): ...")

    assert validated(script, roles={"judge": Role()}) == [
        'workflows/w.json:2:12 $.agents[0]: warning: no state uses the agent "judge".',
        'workflows/w.json:3:45 $.states[0].pre_handler: workflows/w/script.py has no function "go". '
        'Did you mean "goo" (line 1)?',
    ]


def test_a_script_alone_is_checked_for_its_language() -> None:
    script = write("script.py", "def")

    assert validated(script) == ["script.py:1:4: this is not Python: invalid syntax."]


def test_what_cannot_be_read_or_known_is_said() -> None:
    pipe = Path("pipe.json")
    os.mkfifo(pipe)
    assert validated(
        Path("gone.json"),
        pipe,
        write("x.json", '{"a": 1}'),
        write("y.json", "[1"),
        write("workflows/z.json", b"\xff"),
    ) == [
        "gone.json: There is no file gone.json.",
        "pipe.json: pipe.json is not a regular file.",
        "x.json:1:1 $: this is no workflow, no role file and no application.json. "
        'A workflow has "states", a role file is {"NAME": {"systemMessage": ...}}.',
        'y.json:1:3 $: expected "," or "]", found the end of the file. '
        'The "[" is on line 1, column 1.',
        "workflows/z.json:1:1: the byte 0xff is not UTF-8 text. Save the file as UTF-8.",
    ]


def test_what_ships_with_midstream_is_without_an_error() -> None:
    from midstream.config.places import BUILT_IN

    problems = validate_files([BUILT_IN], roles={})

    assert [str(problem) for problem in problems] == []

"""`midstream validate`: files known by place or content, every problem of each."""

import os
from pathlib import Path

import pytest

from midstream.language.spec import Role
from midstream.runtime.validate import validate_files

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
        "gone.json: There is no file gone.json. Check the name.",
        "pipe.json: this file is not a regular file. Put a plain file in its place.",
        "x.json:1:1 $: this is no workflow, no role file and no application.json. "
        'A workflow has "states", a role file is {"NAME": {"systemMessage": ...}}.',
        'y.json:1:3 $: expected "," or "]", found the end of the file. '
        'The "[" is on line 1, column 1.',
        "workflows/z.json:1:1: the byte 0xff is not UTF-8 text. Save the file as UTF-8.",
    ]


def test_a_sub_workflow_is_one_that_is_known_or_stands_beside(tmp_path: Path) -> None:
    text = WORKFLOW.replace('"agent": "judge"', '"workflow": "reviw"')
    text = text.replace('"agents": [{"agent_role": "judge", "context": "main"}],', "")
    text = text.replace('"contexts": [{"name": "main"}],', "")
    workflow = write(".midstream/workflows/w.json", text)

    assert validated(workflow) == []
    other = write("other.json", "{}")
    assert validate_files([workflow], roles={}, workflows={"reviw": other}) == ()
    problems = validate_files([workflow], roles={}, workflows={"review": workflow})
    assert [problem.message for problem in problems] == ['there is no workflow "reviw".']
    write(".midstream/workflows/reviw.json", text.replace('"reviw"', '"other"'))
    assert validate_files([workflow], roles={}, workflows={}) == ()


def test_workflows_that_run_each_other_are_told_with_the_circle() -> None:
    text = (
        '{"workflow_name": "w", "states": [{"name": "start", "workflow": "%s"}, {"name": "stop"}]}'
    )
    first = write("one/first.json", text % "second")
    second = write("two/second.json", text % "third")
    third = write(".midstream/workflows/third.json", text % "fourth")
    write(".midstream/workflows/fourth.json", text % "third")
    place = "1:65 $.states[0].workflow: these workflows would run each other without end:"

    assert [str(p) for p in validate_files([first], roles={}, workflows={"second": second})] == []
    assert validated(third) == [
        f".midstream/workflows/third.json:{place} third -> fourth -> third.",
    ]
    assert validated(first, second, third)[:2] == [
        f"one/first.json:{place} third -> fourth -> third.",
        f"two/second.json:{place} third -> fourth -> third.",
    ]


def test_an_offline_part_is_checked_with_its_workflow() -> None:
    write("workflows/w.json", WORKFLOW)
    part = write(
        "workflows/w/offline.json",
        """{"judge": {"start": [{"txt": "Hm."}], "strat": [{"text": "Never."}]},
        "juge": {"default": [{"calls": [{"name": "get_time"}]}]}, "default": {"default": []}}""",
    )
    alone = write("offline.json", '{"anyone": {"anywhere": [{"text": 3}]}}')

    assert validated(part) == [
        'workflows/w/offline.json:1:23 $.judge.start[0].txt: unknown key "txt". '
        'Did you mean "text"?',
        'workflows/w/offline.json:1:39 $.judge.strat: warning: the workflow has no state "strat": '
        'this is never played. Did you mean "start"?',
        'workflows/w/offline.json:2:9 $.juge: warning: the workflow has no agent "juge": '
        'this is never played. Did you mean "judge"?',
    ]
    assert validated(alone) == [
        "offline.json:1:35 $.anyone.anywhere[0].text: expected text, found 3."
    ]
    assert len(validated(Path("."), roles={"judge": Role()})) == 3


def test_what_is_something_else_is_told_what_it_is() -> None:
    Path("empty").mkdir()

    assert validated(
        write("r.json", '{"rehearsal": 1, "workflow": "w", "steps": []}'),
        write("s.json", '{"$schema": "x", "$defs": {}}'),
        Path("empty"),
    ) == [
        "r.json:1:1 $: this is a rehearsal: it is played, not validated. "
        "`midstream rehearse r.json` plays it.",
        "s.json:1:1 $: this is a JSON Schema, which files are checked by. "
        'A file names it with "$schema", for its editor; name such a file here.',
        "empty: there is no file to check in this folder. "
        "Name a file, or a folder laid out like .midstream.",
    ]


def test_a_folder_with_a_workspace_in_it_stands_for_that() -> None:
    write("package.json", "{}")
    write(".midstream/workflows/w.json", WORKFLOW.replace("judge", "dude"))

    assert len(validated(Path("."))) == len(validated(Path(".midstream"))) == 1


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'{"a":\r\n\t"\xe6\xbc\xa2", "states": \xff}', "2:17"),
        (b'\xef\xbb\xbf{"\xc3\xa9": \xe9}', "1:7"),
    ],
)
def test_a_byte_that_is_no_text_is_placed_by_characters(text: bytes, place: str) -> None:
    (problem,) = validated(write("workflows/w.json", text))

    assert problem.startswith(f"workflows/w.json:{place}: the byte 0x")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\r\n  "name": 1}', "2:3"),
        ('{\t\t"name": 1}', "1:4"),
        ('{/* \u6f22\n\U0001f389 */ "name": 1}', "2:6"),
        ('{"$schema": "\u6f22\U0001f389e\u0301", "name": 1}', "1:21"),
        ('\ufeff{"name": 1}', "1:2"),
        ('\ufeff// x\n{"name": 1,}', "2:2"),
        ('{"$schema": "' + "x" * 100_000 + '", "name": 1}', "1:100017"),
        ('{"$schema": "\u2028\u0085",\n"name": 1}', "2:1"),
    ],
)
def test_a_problem_stands_where_an_editor_shows_it(text: str, place: str) -> None:
    said = validated(write("workflows/w.json", text))

    assert [line.split(" $.")[0] for line in said if "unknown key" in line] == [
        f"workflows/w.json:{place}"
    ]


def test_what_ships_with_midstream_is_without_an_error() -> None:
    from midstream.config.directories import BUILT_IN

    problems = validate_files([BUILT_IN], roles={})

    assert [str(problem) for problem in problems] == []

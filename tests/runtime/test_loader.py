"""From files to a definition: what is pinned, what is refused, and that nothing runs meanwhile."""

import hashlib
from pathlib import Path

import pytest

from midstream.config.private_files import read_capped
from midstream.language.errors import AuthorMistake, UserMistake
from midstream.language.spec import Role, ToolSpec
from midstream.runtime.loader import LoadedWorkflow, digest, load_workflow
from midstream.runtime.script_outline import Script

ROLES = {
    "dude": Role(excludedTools=("shell",)),
    "judge": Role(includedTools=("read", "reed")),
    "idle": Role(),
}
TOOLS = {
    name: ToolSpec(name=name, description="", parameters={"type": "object"})
    for name in ("read", "write", "shell")
}
GOOD = """{
  "workflow_name": "w",
  "contexts": [{"name": "main"}],
  "agents": [{"agent_role": "dude", "context": "main"}],
  "states": [
    {"name": "start", "agent": "dude", "post_handler": "note"},
    {"name": "stop"}
  ]
}"""


def written(
    folder: Path, workflow: str = GOOD, script: str | bytes | None = "def note(run): ..."
) -> Path:
    path = folder / "workflows" / "w.json"
    (folder / "workflows" / "w").mkdir(parents=True)
    path.write_text(workflow, encoding="utf-8")
    if script is not None:
        source = script if isinstance(script, bytes) else script.encode()
        (folder / "workflows" / "w" / "script.py").write_bytes(source)
    return path


def load(path: Path) -> LoadedWorkflow:
    return load_workflow(path, roles=ROLES, tools=TOOLS)


def refusal(path: Path) -> str:
    with pytest.raises(AuthorMistake) as mistake:
        load(path)
    return str(mistake.value)


def test_a_definition_holds_what_its_agents_need_and_no_more(tmp_path: Path) -> None:
    loaded = load(written(tmp_path))

    assert loaded.definition.workflow.workflow_name == "w"
    assert loaded.definition.roles == {"dude": ROLES["dude"]}
    assert sorted(loaded.definition.tools) == ["read", "write"]
    assert loaded.script == tmp_path / "workflows" / "w" / "script.py"
    assert loaded.script_source == b"def note(run): ..."
    assert loaded.warnings == ()


def test_the_digest_pins_every_byte_of_both_files(tmp_path: Path) -> None:
    first = load(written(tmp_path / "a")).definition.digest
    same = load(written(tmp_path / "b")).definition.digest
    comment = load(written(tmp_path / "c", GOOD + "\n")).definition.digest
    script = load(written(tmp_path / "d", script="def note(run): pass")).definition.digest

    assert first == same
    assert len({first, comment, script}) == 3


def test_the_digest_keeps_the_two_files_apart() -> None:
    assert digest(b"ab", b"c") != digest(b"a", b"bc")
    assert digest(b"ab", b"") != digest(b"ab", None)


def test_without_a_script_the_digest_is_the_files_own(tmp_path: Path) -> None:
    text = GOOD.replace(', "post_handler": "note"', "")
    loaded = load(written(tmp_path, text, script=None))

    assert loaded.definition.digest == hashlib.sha256(text.encode()).hexdigest()
    assert (loaded.script, loaded.script_source) == (None, None)


def test_all_problems_of_both_files_are_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(
        tmp_path,
        GOOD.replace('"dude", "context"', '"duude", "context"').replace('"stop"', '"halt"'),
        script="def noted(run): ...",
    )

    assert refusal(path) == "\n".join(
        [
            "workflows/w.json has 4 problems:",
            'workflows/w.json:4:29 $.agents[0].agent_role: there is no role "duude". '
            'Did you mean "dude"?',
            'workflows/w.json:5:13 $.states: the state "stop" is missing: expected it where it ends. '
            'Add {"name": "stop"}.',
            'workflows/w.json:6:32 $.states[0].agent: there is no agent "dude". Did you mean "duude"?',
            "workflows/w.json:6:56 $.states[0].post_handler: workflows/w/script.py has no function "
            '"note". Did you mean "noted" (line 1)?',
        ]
    )


def test_a_script_that_is_no_python_is_one_problem_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert refusal(written(tmp_path, script="x = 1\ndef note(run:\n")) == (
        "workflows/w.json has a problem:\n"
        "workflows/w/script.py:2:9: this is not Python: '(' was never closed."
    )


@pytest.mark.parametrize(
    "script", [b"\0", b"\xff\xfe", b"(" * 5000, b"-" * 100_000 + b"1", b"# coding: x"]
)
def test_no_script_makes_the_loader_fall_over(tmp_path: Path, script: bytes) -> None:
    assert "this is not Python" in refusal(written(tmp_path, script=script))


def test_the_script_is_never_run(tmp_path: Path) -> None:
    load(written(tmp_path, script="def note(run): ...\nraise SystemExit('ran')"))


@pytest.mark.parametrize(
    "script",
    [
        "async def note(run): ...",
        "from helpers import remember as note",
        "note = lambda run: None",
        "note: object = print",
        "a, (note, b) = 1, (2, 3)",
        "try:\n    from x import note\nexcept ImportError:\n    def note(run): ...",
        "if True:\n    def note(run, *, loud=False): ...",
        "def note(run, *rest): ...",
        "@decorated\ndef note(): ...",
        "def note(): ...\ndef note(run): ...",
        "x = '\\d'\ndef note(run): ...",
    ],
)
def test_handlers_are_found_however_they_are_bound(tmp_path: Path, script: str) -> None:
    assert load(written(tmp_path, script=script)).warnings == ()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("\ndef note(): ...", ":2:1: the handler note takes no argument"),
        ("def note(run, other): ...", ":1:1: the handler note asks for more than the run (other)"),
        ("def note(run, *, x): ...", ":1:1: the handler note asks for more than the run (x)"),
        ("class note: ...", ":1:1: the handler note is a class"),
        ("def outer():\n    def note(run): ...", 'has no function "note"'),
        ("from x import *", 'has no function "note"'),
        ("import note.that as other", 'has no function "note"'),
    ],
)
def test_what_is_no_handler_is_told_with_its_line(tmp_path: Path, script: str, said: str) -> None:
    assert said in refusal(written(tmp_path, script=script))


def test_a_line_of_each_name_is_known() -> None:
    script = Script.read(b"import os\n\nasync def b(run): ...\na = b\n", "script.py")

    assert script.lines == {"os": 1, "b": 3, "a": 4}


def test_an_unknown_tool_of_a_role_is_a_warning_only(tmp_path: Path) -> None:
    loaded = load(written(tmp_path, GOOD.replace('"dude"', '"judge"')))

    assert [str(p).split(": ", 1)[1] for p in loaded.warnings] == [
        'warning: the role "judge" names an unknown tool "reed" in includedTools. '
        'Did you mean "read"?'
    ]
    assert sorted(loaded.definition.tools) == ["read"]


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(b'{\n "\xe9": 1}')

    assert "w.json:2:3: the byte 0xe9 is not UTF-8 text. Save the file as UTF-8." in refusal(path)


def test_a_missing_workflow_file_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match=r"There is no file .*w\.json"):
        load(tmp_path / "w.json")


def test_what_is_checked_is_read_once(tmp_path: Path) -> None:
    path = written(tmp_path)
    reads: list[str] = []

    def read(file: Path) -> bytes:
        reads.append(file.name)
        return read_capped(file)

    load_workflow(path, roles=ROLES, tools=TOOLS, read=read)

    assert reads == ["w.json", "script.py"]


def test_a_definition_keeps_the_tools_its_states_call(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    states = (
        '[{"name": "start", "for_each": {"items": "input", "states": [{"name": "a", "tool": "shell"}]}},'
        ' {"name": "stop"}]'
    )
    path.write_text(f'{{"workflow_name": "w", "states": {states}}}', encoding="utf-8")

    assert set(load(path).definition.tools) == {"shell"}

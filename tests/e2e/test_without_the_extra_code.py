"""Without `midstream[code]` all works but the map and the measures of code, and these say why."""

import tomllib
from pathlib import Path

import pytest
from console_kit import changed, json_lines, run
from support.openai_server import Call, OpenAIServer, Reply

from midstream.tools.code_tools import LIBRARIES

WITHOUT = changed("import sys", f"sys.modules.update(dict.fromkeys({LIBRARIES}))")
"""The program as it is where these are not installed."""

INSTALL = "pip install 'midstream[code]'"
MISSING = "The map and the measures of code need a library that is not installed (lizard)."


def test_the_extra_installs_what_they_import() -> None:
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [line.partition(">=")[0] for line in project["optional-dependencies"]["code"]]

    assert sorted(name.replace("-", "_") for name in names) == sorted(LIBRARIES)


@pytest.mark.parametrize("tool", ["explain_codebase", "measure_code"])
def test_a_call_of_the_tool_fails_in_one_sentence_with_the_way_out(
    tool: str, tmp_path: Path
) -> None:
    with OpenAIServer([Reply(calls=(Call(name=tool),)), Reply(text="I see.")]) as server:
        done = run(
            *(tmp_path, "chat", "look", "--role", "architect", "--model", "openai:gpt-5"),
            server=server,
            program=WITHOUT,
        )
        assert len(server.exchanges) > 1, (done.stdout, done.stderr)
        told = str(server.exchanges[1].body["messages"])

    assert done.returncode == 0, done.stderr
    assert MISSING in told
    assert INSTALL in told.replace("\\'", "'")


def test_a_workflow_that_measures_fails_with_the_same_words(tmp_path: Path) -> None:
    done = run(
        *(tmp_path, "run", "code_architecture_review", "--model", "offline", "--answer", "1"),
        program=WITHOUT,
    )

    assert done.returncode == 1
    assert MISSING in " ".join(done.stderr.split())
    assert INSTALL in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("program", [WITHOUT, changed()])
def test_the_doctor_tells_whether_it_is_there(program: tuple[str, ...], tmp_path: Path) -> None:
    found = {
        each["about"]: each
        for each in json_lines(run(tmp_path, "doctor", "--json", program=program).stdout)
    }
    line = found["code map"]

    if program == WITHOUT:
        assert line["mark"] == "note"
        assert "not installed (lizard)" in line["words"]
        assert line["hint"] == INSTALL
    else:
        assert line["mark"] == "ok"


@pytest.mark.parametrize("command", [("tools",), ("explain", "code_architecture_review")])
def test_what_needs_none_of_it_works(command: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, *command, program=WITHOUT)

    assert done.returncode == 0, done.stderr

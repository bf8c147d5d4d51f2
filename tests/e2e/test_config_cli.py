"""`midstream config`: settings listed, changed and edited from the command line."""

import json
import sys
from pathlib import Path

import pytest
from console_kit import DEADLINE_S, MIDSTREAM, environment, json_lines, run
from screen import Screen

from midstream.tui.on_screen import FRESH_S


def editor(tmp_path: Path, *writes: str) -> dict[str, str]:
    """Return an environment whose editor writes these texts, one each time it is opened."""
    for number, text in enumerate(writes):
        (tmp_path / f"text{number}").write_text(text, encoding="utf-8")
    script = tmp_path / "editor.py"
    script.write_text(
        "import pathlib, sys\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "first = sorted(here.glob('text*'))[0]\n"
        "pathlib.Path(sys.argv[1]).write_text(first.read_text())\n"
        "first.unlink()\n",
        encoding="utf-8",
    )
    return {"EDITOR": f"{sys.executable} {script}", "VISUAL": ""}


def test_every_setting_is_listed_with_where_it_comes_from(tmp_path: Path) -> None:
    run(tmp_path, "config", "set", "editing", "vi")
    done = run(tmp_path, "config", environ={"COLUMNS": "200", "MIDSTREAM_MODEL": "offline"})

    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert f"editing vi (user: {tmp_path}/config/application.json)" in lines
    assert "models.base offline (environment: MIDSTREAM_MODEL)" in lines
    assert "autoResume false (built-in)" in lines


def test_a_setting_is_set_got_and_taken_out_again(tmp_path: Path) -> None:
    file = tmp_path / "config" / "application.json"
    done = run(tmp_path, "config", "set", "models.fast", "ollama:qwen3")
    assert done.returncode == 0
    assert "takes effect at the next start" in done.stdout
    assert json.loads(file.read_text()) == {"models": {"fast": "ollama:qwen3"}}

    [got] = json_lines(run(tmp_path, "config", "get", "models.fast", "--json").stdout)
    assert (got["value"], got["layer"]) == ("ollama:qwen3", "user")
    assert got["hidden"][0]["layer"] == "built-in"

    run(tmp_path, "config", "unset", "models.fast")
    assert json.loads(file.read_text()) == {"models": {}}


def test_what_is_wrong_is_said_and_the_exit_code_is_that_of_wrong_usage(tmp_path: Path) -> None:
    done = run(tmp_path, "config", "set", "currentMode", "role:codr")

    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no role 'codr'. Did you mean 'coder'?" in done.stderr
    assert not (tmp_path / "config" / "application.json").exists()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("budget.usd", "-3", "expected a number above 0, found -3."),
        ("models.smart", "opnai:gpt-4o", "No provider of models is called 'opnai'. Did you mean"),
    ],
)
def test_a_value_that_cannot_be_is_not_kept(
    tmp_path: Path, key: str, value: str, said: str
) -> None:
    done = run(tmp_path, "config", "set", key, value)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not (tmp_path / "config" / "application.json").exists()


def test_a_model_nobody_knows_is_kept_and_told(tmp_path: Path) -> None:
    done = run(tmp_path, "config", "set", "models.smart", "openai:gpt-99")

    assert done.returncode == 0
    assert "models.smart = openai:gpt-99" in done.stdout
    assert "gpt-99" in done.stdout.splitlines()[-1]


def test_a_workspaces_file_is_never_written(tmp_path: Path) -> None:
    own = tmp_path / "workspace" / ".midstream" / "application.json"
    own.parent.mkdir(parents=True)
    own.write_text("{}")

    assert run(tmp_path, "config", "set", "editing", "vi").returncode == 0
    assert own.read_text() == "{}"


def test_an_editor_gets_every_setting_in_comments_and_what_it_leaves_counts(tmp_path: Path) -> None:
    done = run(tmp_path, "config", "edit", environ=editor(tmp_path, '{"editing": "vi"} // mine'))

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "config" / "application.json").read_text() == '{"editing": "vi"} // mine'


def test_a_broken_file_is_not_put_in_place_and_the_draft_is_kept(tmp_path: Path) -> None:
    run(tmp_path, "config", "set", "editing", "vi")
    before = (tmp_path / "config" / "application.json").read_text()
    done = run(tmp_path, "config", "edit", environ=editor(tmp_path, '{"editing": "vim",'))

    assert done.returncode == 2
    assert "application.json:1:19" in done.stderr
    assert (tmp_path / "config" / "application.json").read_text() == before
    [draft] = [word for word in done.stderr.split() if "midstream-config-" in word]
    assert Path(draft.rstrip(";")).read_text() == '{"editing": "vim",'


@pytest.mark.parametrize(
    ("named", "said"), [("false", "ended with 1"), ("/no/such/editor", "could not be started")]
)
def test_an_editor_that_fails_changes_nothing(tmp_path: Path, named: str, said: str) -> None:
    done = run(tmp_path, "config", "edit", environ={"EDITOR": named, "VISUAL": ""})

    assert done.returncode == 1
    assert said in done.stderr
    assert not (tmp_path / "config" / "application.json").exists()


def test_a_person_is_asked_about_errors_and_may_mend_them(tmp_path: Path) -> None:
    env = environment(tmp_path) | editor(tmp_path, '{"editing": "vim"}', '{"editing": "vi"}')
    with Screen.spawn(
        [*MIDSTREAM, "config", "edit"], env=env, cols=200, rows=30, deadline_s=DEADLINE_S
    ) as screen:
        screen.wait_for("d drops it")
        assert 'expected emacs or vi, found "vim". Did you mean "vi"?' in screen.text()
        assert not (tmp_path / "config" / "application.json").exists()
        screen.rest(FRESH_S * 2)
        screen.type("e")
        screen.wait_for("[e]: e")
        screen.type("\r")
        screen.wait_for("is written")
    assert (tmp_path / "config" / "application.json").read_text() == '{"editing": "vi"}'

"""docs/workflows.md is true: its examples are sound and run, and no word of the language is missing."""

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from test_docs_examples import DOCS, examples

import midstream
from midstream.cli.main import exit_code
from midstream.language import spec
from midstream.language.expressions import FUNCTIONS
from midstream.language.names import ErrorKind, Json, Policy

PAGE = (DOCS / "workflows.md").read_text(encoding="utf-8")
NAMES = sorted(Path(path).stem for path in examples() if Path(path).parent.name == "workflows")
GIVEN: dict[str, Json] = {
    "haiku": "rain",
    "release_note": None,
    "short_plan": "a release",
    "anthology": ["rain", "snow", "sun"],
}
ANSWERS = {"release_note": ("cheerful",)}


@pytest.fixture
def workspace(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path, body in examples().items():
        file = own_folder / "work" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(body, encoding="utf-8")
    monkeypatch.chdir(own_folder / "work")
    return own_folder / "work"


def test_every_example_is_sound(workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["validate", "--strict", str(workspace / ".midstream")]) == 0
    assert capfd.readouterr().out.strip() == "No problems."


@pytest.mark.parametrize("name", NAMES)
def test_every_example_runs_offline_to_its_end(workspace: Path, name: str) -> None:
    output = midstream.run(
        name,
        GIVEN[name],
        answers=ANSWERS.get(name, ()),
        model="offline",
        workspace=workspace,
        trust=True,
    )

    assert "[offline]" in msgspec.json.encode(output).decode()


def test_the_anthology_has_a_poem_for_each_topic_and_two_parts(workspace: Path) -> None:
    book = midstream.run(
        "anthology",
        ["rain", "snow"],
        model="offline",
        workspace=workspace,
        trust=True,
    )

    assert list(book) == ["foreword", "title"]


@pytest.mark.parametrize(
    "shape",
    [
        spec.Workflow,
        spec.State,
        spec.Ask,
        spec.Wait,
        spec.Branch,
        spec.ForEach,
        spec.SubWorkflow,
        spec.Retry,
        spec.Catch,
        spec.Budget,
    ],
    ids=lambda shape: shape.__name__,
)
def test_every_key_is_on_the_page(shape: type[msgspec.Struct]) -> None:
    quoted = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`", PAGE))))

    assert set(shape.__struct_fields__) - quoted == set()


@pytest.mark.parametrize("words", [get_args(ErrorKind), get_args(Policy), tuple(FUNCTIONS)])
def test_every_word_is_on_the_page(words: tuple[str, ...]) -> None:
    assert [word for word in words if f"`{word}" not in PAGE] == []

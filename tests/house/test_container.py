"""What the container image and the example of several of them start exists, as they say it."""

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from midstream.cli.main import cli

ROOT = Path(__file__).parents[2]
IMAGE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SOURCES = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]


STARTS: list[str] = json.loads(re.findall(r"(?m)^CMD (\[.*\])$", IMAGE)[-1])


def commands() -> list[list[str]]:
    """Return the command lines of the image and of the services, without the program's name."""
    services = (each.get("command") for each in COMPOSE["services"].values())
    return [STARTS, *filter(None, services)]


@pytest.mark.parametrize("words", commands(), ids=lambda words: words[0])
def test_commands_are_what_the_program_takes(words: list[str]) -> None:
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    command.make_context(words[0], words[1:], parent=click.Context(cli, obj={}))


def test_variables_are_read_somewhere() -> None:
    said = {*re.findall(r"\b(MIDSTREAM_[A-Z_]+)", f"{IMAGE}{(ROOT / 'compose.yaml').read_text()}")}
    assert said >= {"MIDSTREAM_JOURNAL", "MIDSTREAM_HOST", "MIDSTREAM_STATE_HOME"}
    assert [name for name in said if not any(f'"{name}"' in text for text in SOURCES)] == []


def test_extras_and_files_of_the_image_are_there() -> None:
    extras = re.findall(r"'\.\[([a-z0-9,]+)\]'", IMAGE)[-1].split(",")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert [name for name in extras if not re.search(rf"(?m)^{name} = \[", project)] == []
    copied = " ".join(re.findall(r"(?m)^COPY (.*) \S+$", IMAGE)).split()
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert [name for name in copied if f"!{name.removeprefix('./')}" not in kept] == []


def test_it_looks_at_the_health_that_the_worker_tells() -> None:
    port = STARTS[-1].rpartition(":")[2]
    assert f"127.0.0.1:{port}/healthz" in IMAGE


def test_no_password_stands_in_the_example() -> None:
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    assert re.findall(r"(?mi)^ *\w*password: (?!\$\{POSTGRES_PASSWORD)(.+)$", text) == []
    assert {each["image"] for each in COMPOSE["services"].values()} == {"midstream", "postgres:17"}

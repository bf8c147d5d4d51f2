"""The examples, as programs that ask a model server on this machine and keep a journal in a folder."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.openai_server import OpenAIServer

EXAMPLES = Path(__file__).parents[2] / "examples"


def environment(folder: Path, models: OpenAIServer | None = None) -> dict[str, str]:
    """Return what a program gets: homes in the folder, no key of anybody's, the server as its model."""
    kept = {k: v for k, v in os.environ.items() if not k.endswith(("_API_KEY", "_BASE_URL"))}
    homes = {f"MIDSTREAM_{each}_HOME": str(folder / each) for each in ("CONFIG", "STATE")}
    if models is None:
        return kept | homes
    return kept | homes | {"OPENAI_BASE_URL": models.base_url, "OPENAI_API_KEY": "sk-x"}


def surround(patch: pytest.MonkeyPatch, folder: Path, models: OpenAIServer) -> None:
    """Give this process the environment of such a program."""
    wanted = environment(folder, models)
    for name in os.environ.keys() - wanted.keys():
        patch.delenv(name)
    for name, value in wanted.items():
        patch.setenv(name, value)


def started(
    folder: Path, *argv: str, models: OpenAIServer | None = None, **settings: Any
) -> "subprocess.Popen[str]":
    """Start Python with arguments, in the folder."""
    return subprocess.Popen(
        [sys.executable, *argv],
        cwd=folder,
        env=environment(folder, models),
        text=True,
        **settings,
    )


def loaded(name: str) -> Any:
    """Return an example as a module of its own."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

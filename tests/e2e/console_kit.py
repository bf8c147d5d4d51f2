"""The real program for tests: in a pty, or on pipes, with folders of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from deadline import DEADLINE_S as DEADLINE_S
from screen import Screen
from support.openai_server import OpenAIServer, Scripted

from midstream.config.directories import JOURNAL_VARIABLE
from midstream.config.newcomer import SHOWN

MIDSTREAM = (sys.executable, "-m", "midstream")


def changed(*lines: str) -> tuple[str, ...]:
    """Return the program with lines of Python before it: for what else a slow machine would decide."""
    return (sys.executable, "-c", "\n".join((*lines, _BEGIN)))


_BEGIN = "from midstream.__main__ import main\nmain()"


def environment(
    home: Path, server: OpenAIServer | None = None, *, is_new: bool = False
) -> dict[str, str]:
    """Return an environment without anybody's settings, keys or history.

    Unless `is_new`, its person has seen the first screen: it is not what most tests are about.
    """
    if not is_new and not (home / "state").is_file():
        (home / "state").mkdir(mode=0o700, parents=True, exist_ok=True)
        (home / "state" / SHOWN).touch(mode=0o600)
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.endswith(("_API_KEY", "_BASE_URL"))
        and (not key.startswith("MIDSTREAM") or key == JOURNAL_VARIABLE)
        and key != "TMUX"  # that of whoever runs the tests
    }
    own = {
        "MIDSTREAM_CONFIG_HOME": str(home / "config"),
        "MIDSTREAM_STATE_HOME": str(home / "state"),
        "TERM": "xterm-256color",
    }
    if server is not None:
        own |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-test-not-a-key"}
    return kept | own


def console(
    home: Path,
    *options: str,
    server: OpenAIServer | None = None,
    workspace: Path | None = None,
    cols: int = 100,
    rows: int = 30,
    is_new: bool = False,
    environ: Mapping[str, str] = MappingProxyType({}),
    program: Sequence[str] = MIDSTREAM,
) -> Screen:
    """Start the console in a terminal and return its screen."""
    return Screen.spawn(
        [*program, "--workspace", str(workspace or _workspace(home)), *options],
        env={**environment(home, server, is_new=is_new), **environ},
        cols=cols,
        rows=rows,
        deadline_s=DEADLINE_S,
    )


@contextlib.contextmanager
def chatting(
    replies: Sequence[Scripted], home: Path, *options: str, **more: Any
) -> Iterator[tuple[Screen, OpenAIServer]]:
    """Give a console that waits for words to `dude`, and the server of the model that answers."""
    with (
        OpenAIServer(replies) as server,
        console(home, *options, server=server, **more) as screen,
    ):
        screen.wait_for("chat with dude")
        yield screen, server


def run(
    home: Path,
    *arguments: str,
    lines: str = "",
    server: OpenAIServer | None = None,
    workspace: Path | None = None,
    environ: Mapping[str, str] | None = None,
    program: Sequence[str] = MIDSTREAM,
) -> "subprocess.CompletedProcess[str]":
    """Run the program on pipes to its end."""
    return subprocess.run(
        [*program, *arguments, "--workspace", str(workspace or _workspace(home))],
        env={**environment(home, server), **(environ or {})},
        input=lines,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def json_lines(text: str) -> list[dict[str, Any]]:
    """Return the events of `--json` output; every line is one ASCII object."""
    assert text.isascii()
    return [json.loads(line) for line in text.splitlines()]


def write_workflow(folder: Path, name: str, workflow: dict[str, Any], script: str = "") -> None:
    """Write a workflow into a `.midstream` or config folder."""
    place = folder / "workflows"
    (place / name).mkdir(parents=True, exist_ok=True)
    (place / f"{name}.json").write_text(json.dumps(workflow), encoding="utf-8")
    if script:
        (place / name / "script.py").write_text(script, encoding="utf-8")


def _workspace(home: Path) -> Path:
    folder = home / "workspace"
    folder.mkdir(exist_ok=True)
    return folder


def lines_left(screen: Screen, way: str | signal.Signals) -> list[str]:
    """Leave the console by a key or a signal; return the lines that stay, those without words left out."""
    if isinstance(way, signal.Signals):
        screen.kill(way)
    else:
        screen.type(way)
    screen.wait_exit()
    return [line for line in screen.scrollback() if line]

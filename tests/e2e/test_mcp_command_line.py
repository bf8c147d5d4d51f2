"""`midstream mcp` and `/mcp`: listed, approved by a person at a terminal, offered, forgotten."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from deadline import DEADLINE_S
from screen import Screen

from midstream.config.directories import CONFIG_HOME, STATE_HOME

SERVER = Path(__file__).parents[1] / "attacks" / "mcp" / "hostile_server.py"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "config").mkdir()
    servers = {"quick": {"command": sys.executable, "args": [str(SERVER)]}}
    settings = json.dumps({"mcpServers": servers})
    (tmp_path / "config" / "application.json").write_text(settings)
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        CONFIG_HOME: str(tmp_path / "config"),
        STATE_HOME: str(tmp_path / "state"),
    }


def midstream(
    home: Mapping[str, str], *words: str, lines: str = ""
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "midstream", *words],
        env=dict(home),
        cwd=home["HOME"],
        input=lines,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def answer(home: Mapping[str, str], key: str) -> tuple[str, int]:
    """Answer what `midstream mcp approve quick` asks; return what was shown, and the exit code."""
    with approving(home) as screen:
        return decided(screen, key)


def approving(home: Mapping[str, str]) -> Screen:
    """Start `midstream mcp approve quick` in a terminal."""
    words = [sys.executable, "-m", "midstream", "mcp", "approve", "quick"]
    return Screen.spawn(words, env=home, cwd=home["HOME"], cols=100, rows=40)


def decided(screen: Screen, key: str) -> tuple[str, int]:
    """Answer once it asks; return what was shown, and the exit code."""
    screen.wait_for("Approve exactly this")
    shown = "\n".join(screen.scrollback())
    screen.press(f"{key}\r")
    return shown, screen.wait_exit()


def test_a_server_is_listed_approved_offered_and_forgotten(home: dict[str, str]) -> None:
    listed = midstream(home, "mcp", "--json")
    assert json.loads(listed.stdout)[0]["state"] == "new"

    shown, code = answer(home, "y")

    assert (code, "offers 1 tool" in shown, "| A tool." in shown) == (0, True, True)
    assert "1 tool approved" in midstream(home, "mcp").stdout
    assert "mcp__quick__t" in midstream(home, "tools").stdout
    assert "is forgotten" in midstream(home, "mcp", "forget", "quick").stdout
    assert "mcp__quick__t" not in midstream(home, "tools").stdout


def test_a_no_approves_nothing(home: dict[str, str]) -> None:
    _, code = answer(home, "n")

    assert code == 1
    assert "not approved" in midstream(home, "mcp", "list").stdout


def test_a_server_that_takes_its_time_is_waited_for_aloud(home: dict[str, str]) -> None:
    go = Path(home["HOME"]) / "go"
    slow = Path(home["HOME"]) / "slow.py"
    slow.write_text(f"""
import os, runpy, time
while not os.path.exists({str(go)!r}):
    time.sleep(0.01)
runpy.run_path({str(SERVER)!r}, run_name="__main__")
""")
    server = {"command": sys.executable, "args": [str(slow)]}
    settings = Path(home[CONFIG_HOME]) / "application.json"
    settings.write_text(json.dumps({"mcpServers": {"quick": server}}))

    with approving(home) as screen:
        screen.wait_for("Waiting for quick ...")
        go.touch()
        shown, code = decided(screen, "n")
    go.unlink()
    said = list[str]()
    words = [sys.executable, "-m", "midstream", "--model", "offline"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, env=home, cwd=home["HOME"], stdin=pipe, stdout=pipe, text=True
    ) as console:
        assert console.stdin is not None
        assert console.stdout is not None
        console.stdin.write("/mcp approve quick\n")
        console.stdin.close()
        for line in console.stdout:
            said.append(line)
            if "Waiting for quick ..." in line:
                go.touch()

    assert code == 1
    assert shown.index("Waiting for quick ...") < shown.index("offers 1 tool")
    assert "offers 1 tool" in "".join(said)
    assert any("Waiting for quick ..." in line for line in said)


def test_nobody_at_a_terminal_approves_nothing(home: dict[str, str]) -> None:
    asked = midstream(home, "mcp", "approve", "quick", lines="y\n")

    assert (asked.returncode, "needs a person at a terminal" in asked.stderr) == (2, True)


def test_the_console_shows_and_asks_for_the_code_it_showed(home: dict[str, str]) -> None:
    lines = "/mcp\n/mcp approve quick\n/mcp approve quick 000000\n/mcp approve nobody\n"
    said = midstream(home, "--model", "offline", lines=lines).stdout

    assert "not approved: /mcp approve quick" in said
    assert "To approve exactly this: /mcp approve quick " in said
    assert "That code was not shown with this server" in said
    assert "There is no MCP server 'nobody'" in said
    assert "not approved" in midstream(home, "mcp").stdout

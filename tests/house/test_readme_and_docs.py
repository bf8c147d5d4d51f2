"""What README and docs show works as shown: commands run, code runs, JSON validates."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from deadline import DEADLINE_S

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    return [
        body for kind, body in FENCE.findall(page.read_text(encoding="utf-8")) if kind == language
    ]


def environment(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.endswith(("_API_KEY", "_BASE_URL"))}
    return kept | {
        "MIDSTREAM_CONFIG_HOME": str(home / "config"),
        "MIDSTREAM_STATE_HOME": str(home / "state"),
    }


def run(home: Path, argv: list[str], input: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        argv,
        cwd=home,
        env=environment(home),
        input=input,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


COMMANDS = [
    line
    for block in blocks(ROOT / "README.md", "sh")
    for line in block.splitlines()
    if re.match(r"(echo .*\| )?midstream (runs?|chat|validate|rehearse|--json)\b", line)
]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_readme_command_runs(line: str, tmp_path: Path) -> None:
    workflow = tmp_path / ".midstream" / "workflows" / "haiku.json"
    if "haiku" in line:
        workflow.parent.mkdir(parents=True)
        workflow.write_text(blocks(ROOT / "README.md", "json")[0], encoding="utf-8")
    for command in line.split(" && "):
        piped = re.match(r'echo "(.*)" \| (.*)', command)
        words = shlex.split((command if piped is None else piped[2]).split(" > ")[0], comments=True)
        assert words[0] == "midstream"
        done = run(
            tmp_path,
            [sys.executable, "-m", "midstream", *trusting(words[1:])],
            input=f"{piped[1]}\n" if piped else "",
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() or "--record" in words


def trusting(words: list[str]) -> list[str]:
    """Return a command with the yes that somebody gave who works here for longer."""
    is_new = "--trust-workspace" not in words and words[0] == "rehearse"
    return [*words, "--trust-workspace"] if is_new else words


def test_there_are_commands_in_the_readme() -> None:
    assert len(COMMANDS) == 7


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_a_page_runs(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "python"):
        if block.startswith("def "):
            compile(block, str(page), "exec")  # a script of a workflow, run by its own test
            continue
        done = run(tmp_path, [sys.executable, "-W", "error", "-c", block])
        assert done.returncode == 0, done.stderr


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_two_commands_stand_in_the_makefile() -> None:
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{command}:", targets, re.MULTILINE)

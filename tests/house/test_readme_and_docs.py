"""What README and docs show works as shown: commands run, code runs, JSON validates."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from deadline import DEADLINE_S

import midstream
from midstream.runtime import ports

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]
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


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return what of a page can be linked to, both on a forge and on the site."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    bare = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"\s", "-", b) for b in bare} & {re.sub(r"[-\s]+", "-", b) for b in bare}


def test_links_lead_somewhere() -> None:
    """As `make docs` checks them, which needs the site's builder."""
    broken = []
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", prose(page)):
            if target.startswith("http"):
                continue
            file = (page.parent / target).resolve() if target else page
            is_there = file.exists() and (page.parent != DOCS or file.parent == DOCS)
            if not is_there or (anchor and anchor not in anchors(file)):
                broken.append(f"{page.name}: {target}#{anchor}")
    assert not broken


def listed(nav: list[dict[str, Any]]) -> Iterator[str]:
    for entry in nav:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else listed(target)


def test_the_site_lists_every_page_once() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    assert sorted(listed(site["project"]["nav"])) == [
        page.name for page in sorted(DOCS.glob("*.md"))
    ]


OF_PORTS = ("runtime", "core", "language")


def referenced() -> list[str]:
    return re.findall(r"^::: midstream\.(\S+)$", (DOCS / "api.md").read_text(), re.MULTILINE)


def test_the_reference_names_every_port_that_a_part_of_ones_own_may_fulfil() -> None:
    given = " ".join(map(str, ports.World.__annotations__.values())) + " OpenFiles Model Clock"
    protocols = {
        name
        for name, each in vars(ports).items()
        if getattr(each, "_is_protocol", False) and re.search(rf"\b{name}\b", given)
    }
    assert len(protocols) > 8
    assert {f"runtime.ports.{name}" for name in protocols} <= {*referenced()}
    for each in referenced():
        module, _, name = each.rpartition(".")
        if each.split(".")[0] in OF_PORTS:
            assert getattr(import_module(f"midstream.{module}"), name).__doc__


def test_the_reference_names_all_that_is_public() -> None:
    named = [each for each in referenced() if each.split(".")[0] not in OF_PORTS]
    testing = (ROOT / "src" / "midstream" / "testing").glob("[!_]*.py")
    public = {*midstream.__all__} - {"__version__"}
    assert sorted(named) == sorted(
        [*public, "testing", *(f"testing.{file.stem}" for file in testing)]
    )


def test_the_two_commands_stand_in_the_makefile() -> None:
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{command}:", targets, re.MULTILINE)

"""The benchmarks work. What they measure is not judged here: a test asserts no time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path.stem
    for path in (ROOT / "benchmarks").glob("*.py")
    if "def measure(" in path.read_text(encoding="utf-8")
)


def run(*words: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_all_benchmarks_measure_something_beside_a_floor() -> None:
    figures = json.loads(run("benchmarks", "--quick", "--json"))

    assert {figure["name"] for figure in figures if figure.get("floors")}
    for figure in figures:
        assert figure["values"], figure["name"]
        assert all(value >= 0 for value in figure["values"]), figure["name"]
        assert len(figure["floors"]) in (0, len(figure["values"])), figure["name"]
    with_aim = {figure["name"].split(",")[0] for figure in figures if figure["aim"] is not None}
    assert with_aim >= {"first prompt", "one transition in memory", "a parked run"}


def test_every_benchmark_is_part_of_the_whole() -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("all_benchmarks", ROOT / "benchmarks" / "__main__.py")
    assert spec is not None
    text = (ROOT / "benchmarks" / "__main__.py").read_text(encoding="utf-8")
    assert [name for name in MODULES if f'"{name}"' not in text] == []
    del module_from_spec


@pytest.mark.parametrize("name", ["transitions", "parked_memory"])
def test_a_benchmark_runs_alone_and_prints_a_table(name: str) -> None:
    assert "| what | measured | floor |" in run(f"benchmarks.{name}", "--quick")

"""The benchmarks work. What they measure is not judged here: a test asserts no time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from deadline import PROGRAM_S

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path.stem
    for path in (ROOT / "benchmarks").glob("*.py")
    if "\ndef measure(" in path.read_text(encoding="utf-8")
)


def run(*words: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=PROGRAM_S
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_all_benchmarks_measure_something_beside_a_floor() -> None:
    figures = json.loads(run("benchmarks", "--quick", "--json"))

    for figure in figures:
        assert figure["values"], figure["name"]
        assert min(figure["values"]) >= 0, figure["name"]
        assert bool(figure.get("floors")) == bool(figure.get("floor")), figure["name"]
        if figure.get("aim_on", "ratio") == "ratio" and figure.get("aim") is not None:
            assert len(figure["ratios"]) == len(figure["values"]), figure["name"]
    # On a machine without /proc the CPU of a waiting console is not measured.
    assert sum(figure.get("aim") is not None for figure in figures) >= 12


def test_make_bench_runs_every_benchmark_there_is() -> None:
    text = (ROOT / "benchmarks" / "__main__.py").read_text(encoding="utf-8")

    assert len(MODULES) >= 8
    assert [name for name in MODULES if f'    "{name}",\n' not in text] == []


@pytest.mark.parametrize("name", ["transitions", "parked_memory"])
def test_a_benchmark_runs_alone_and_prints_a_table(name: str) -> None:
    assert "| what | measured | floor |" in run("benchmarks", name, "--quick")


def test_beside_the_others_a_tool_has_its_effect_once_and_a_halted_reply_is_kept() -> None:
    table = run("benchmarks", "side_by_side", "--quick")

    assert table.count("**effect 1×** (") == 3
    assert "its text | kept |" in table
    assert "asks: A call was cut off while it ran." in table

"""A bounded storm over expressions and templates; `python -m torture expressions` is the full one.

In a process of its own, since it holds values far larger than any run has. Its work is counted here,
its time is not: that is the full one's.
"""

import subprocess
import sys
from pathlib import Path

from deadline import PROGRAM_S

PROJECT = Path(__file__).parents[2]


def test_no_expression_crashes_or_does_more_work_than_it_may() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torture", "expressions", "--expressions", "8000", "--no-clock"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "expressions                        8000     8000        0" in done.stdout

"""Benchmarks: what is measured, each beside its raw floor in the same run. See docs/performance.md.

`python -m benchmarks` runs all of them, `python -m benchmarks transitions` one. `--quick` only shows
that they work: its figures mean nothing.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # for the package `support`

"""A bounded part of `make torture`: the storm over the decoder."""

import subprocess
import sys
from pathlib import Path

from deadline import DEADLINE_S

PROJECT = Path(__file__).parents[2]


def test_no_text_gets_past_the_decoder_that_must_not_come_in() -> None:
    storm = ("decoder", "--decodings", "3000", "--no-clock", "--seed", "7")
    done = subprocess.run(
        [sys.executable, "-m", "torture", *storm],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )

    assert (done.returncode, "strict decoder" in done.stdout) == (0, True), done.stdout

"""A bounded part of `make torture`, in processes of its own: what is killed is never this one."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


def tortured(*arguments: str) -> str:
    """Return the report of one torture; it has held at every point."""
    done = subprocess.run(
        [sys.executable, "-m", "torture", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_is_lost_or_repeated_wherever_a_process_is_killed() -> None:
    report = tortured("kills", "--points", "300", "--pairs", "40")

    assert "kill points                         300      300        0" in report
    assert "pairs: killed recovering             40       40        0" in report


def test_what_was_acknowledged_survives_a_power_loss_at_any_write() -> None:
    assert "power loss                          400      400        0" in tortured(
        "power", "--images", "400"
    )


def test_no_flipped_bit_is_used_silently() -> None:
    assert "bit flips                           500      500        0" in tortured(
        "flips", "--flips", "500"
    )


@pytest.mark.parametrize("flow", ["parallel_calls", "input_burst", "halted_branches"])
def test_one_point_can_be_tried_again(flow: str) -> None:
    assert f"kill {flow}:9" in tortured("kills", "--only", f"{flow}:9")

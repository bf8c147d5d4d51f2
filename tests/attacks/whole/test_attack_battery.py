"""The battery of `midstream doctor --attack`: held here, and able to see what does not hold."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pipes_kit import started

from midstream.safety.policy import Policy
from midstream.system.supervisor import Plain
from midstream.testing.attacks import Tried, battery, scratch_folder
from midstream.tools.sandbox.launch import Inside
from midstream.tools.sandbox.probes import Measured
from midstream.tools.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.slow


def breached(tried: list[Tried]) -> list[str]:
    return [f"{each.rule}: {each.tries}: {each.breach}" for each in tried if each.breach]


def test_every_attack_is_held_or_said_to_be_left_out() -> None:
    with scratch_folder() as scratch:
        tried = list(battery(scratch / "at", sandbox=Sandbox(scratch / "state")))

    assert len(tried) > 250
    assert breached(tried) == []
    assert not [each for each in tried if "prepared" in each.left_out]


def test_without_a_sandbox_what_wants_one_is_left_out() -> None:
    with scratch_folder() as scratch:
        left_out = {
            each.left_out for each in battery(scratch / "at") if "in the sandbox" in each.tries
        }

    assert left_out == {"there is no sandbox here"}


def test_where_the_sandbox_runs_nothing_nothing_is_said_to_hold_in_it() -> None:
    class Broken(NoWalls):
        def wrapped(self, *_given: Any) -> Any:
            raise OSError("it does not start")

    with scratch_folder() as scratch:
        tried = list(battery(scratch / "at", sandbox=Broken(scratch / "state")))

    in_box = [each for each in tried if "in the sandbox" in each.tries]
    assert in_box
    assert all("commands do not run" in each.left_out for each in in_box)


def test_it_sees_rules_that_let_everything_happen() -> None:
    def lax(policy: Policy) -> Policy:
        return Policy(mode="full", sandbox=policy.sandbox)

    with scratch_folder() as scratch:
        tried = list(battery(scratch / "at", policy=lax))

    assert {each.rule for each in tried if each.breach} >= {
        "looking stays in the workspace",
        "git sees the workspace's own repository",
        "git starts nothing a repository names",
        "a deny on reading holds for whatever reads",
        "a pattern covers data, not flags that write",
    }


class NoWalls(Sandbox):
    """Says that it is a sandbox."""

    level = property(lambda _self: "full")

    def measure(self, *, again: bool = False) -> Measured:
        return Measured(level="full")

    def unfit(self, workspace: Path) -> str:
        return ""

    def level_in(self, workspace: Path) -> Any:
        return "full"

    def wrapped(
        self,
        inside: Inside,
        argv: Sequence[str],
        environment: Mapping[str, str],
        tag: Mapping[str, str],
    ) -> Any:
        return Plain(argv, {**os.environ, **environment}, tag)


def test_it_sees_a_sandbox_without_walls() -> None:
    with scratch_folder() as scratch:
        tried = list(battery(scratch / "at", sandbox=NoWalls(scratch / "state")))

    seen = {each.rule for each in tried if each.breach and "in the sandbox" in each.tries}
    assert seen >= {
        "an allow rule means in the sandbox",
        "protected files are read-only at any depth",
        "nothing of the host is reached from the sandbox",
        "the network is given by host",
    }


def test_the_doctor_says_what_held_and_leaves_nothing(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    process = started(tmp_path, "doctor", "--attack", env={"TMPDIR": str(scratch)})
    before = sorted(tmp_path.rglob("*"))
    said, _ = process.communicate()

    assert b"no command line runs unasked" in said
    assert b"held" in said
    assert (b"BREACHED" in said) == (process.returncode == 1)
    assert sorted(tmp_path.rglob("*")) == before

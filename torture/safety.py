"""A storm on safety, for as long as one likes: rounds of every generator of attacks, each with its seed.

A round is the storms on paths, terminals, redaction and the decoder; command lines of the shipped battery,
written otherwise; and the properties that the tests state (rules, protected files, approvals among torn
replies of a terminal; commands that look while links turn), tried far more often than the tests do.
"""

import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from midstream.testing.attacks import COMMAND_LINES, unasked
from torture.decoder import decoder_storm
from torture.path_storm import path_storm
from torture.redaction import redaction_storm
from torture.report import Broken, Report
from torture.sanitizer import sanitizer_storm

PROJECT = Path(__file__).parents[1]
PROPERTIES = (
    *("tests/safety/test_safety_policy.py", "tests/safety/test_safety_rules.py"),
    *("tests/safety/test_safety_protected.py", "tests/safety/test_safety_commands.py"),
    *("tests/safety/test_safety_harmless.py", "tests/safety/test_redaction.py"),
    *("tests/attacks/approvals", "tests/attacks/terminal", "tests/tui/test_sanitizer.py"),
    "tests/attacks/commands/test_attack_flipped_looks.py",
)
BEFORE = ("git status; ", "ls && ", "cat a.py | ", "pwd\n", "true || ", "ls & ", "  ", "\t")
BEHIND = (" ", "; git status", " && ls", " | cat", "\n", " # a remark", " > out", " 2>&1")
_PLAIN = re.compile(r"[\w./-]+")


def safety_storm(minutes: float, seed: int, *, rounds: int = 0) -> list[Report]:
    """Return what so many minutes of attacks have shown, or so many rounds."""
    until = time.monotonic() + 60 * minutes
    found: dict[str, Report] = {}
    number = 0
    while number < rounds or (not rounds and time.monotonic() < until):
        # A short run that was asked for is short in everything.
        part = 20 if rounds else 1
        for report in _round(seed + number, part):
            before = found.get(report.name, Report(name=report.name, tried=0, note="in rounds"))
            found[report.name] = Report(
                name=report.name,
                tried=before.tried + report.tried,
                broken=(*before.broken, *report.broken),
                note=before.note,
            )
        number += 1
    return list(found.values())


def _round(seed: int, part: int) -> Iterable[Report]:
    print(f"safety: round with --seed {seed}", file=sys.stderr, flush=True)
    yield command_storm(20_000 // part, seed)
    yield redaction_storm(4_000 // part, seed)
    yield sanitizer_storm(2_000 // part, seed)
    yield decoder_storm(10_000 // part, seed, clock=False)
    yield from path_storm(100 // part, seed)
    yield _properties(seed, "brief" if part > 1 else "long")


def command_storm(count: int, seed: int) -> Report:
    """Return which lines would run unasked, of so many of the battery's that are written otherwise."""
    chance = random.Random(seed)
    lines = [line for line in COMMAND_LINES if line.strip()]
    broken: list[Broken] = []
    for number in range(count):
        line = _otherwise(chance, chance.choice(lines))
        if modes := unasked(line):
            again = f"python -m torture safety --seed {seed} --minutes 0.01"
            what = f"runs unasked in {', '.join(modes)}: {line!r}"
            broken.append(Broken(point=f"line {number} of seed {seed}", what=what, again=again))
    return Report(name="command lines", tried=count, broken=tuple(broken))


def _otherwise(chance: random.Random, line: str) -> str:
    """Return a line that does what another does, written otherwise or among others."""
    for _ in range(chance.randrange(4)):
        match chance.randrange(4):
            case 0:
                line = chance.choice(BEFORE) + line
            case 1:
                line += chance.choice(BEHIND)
            case 2:
                line = re.sub(" ", lambda _: " " * chance.randrange(1, 4), line, count=1)
            case _:
                words = line.split(" ")
                at = chance.randrange(len(words))
                if _PLAIN.fullmatch(words[at]):
                    words[at] = chance.choice(
                        (f"'{words[at]}'", f'"{words[at]}"', shlex.quote(words[at]))
                    )
                line = " ".join(words)
    return line


def _properties(seed: int, profile: str) -> Report:
    """Return whether the properties of the tests hold, searched from a seed."""
    asked = (
        "-q",
        "-m",
        "hypothesis or raced",
        "-p",
        "no:cacheprovider",
        f"--hypothesis-seed={seed}",
    )
    line = [sys.executable, "-m", "pytest", *asked, f"--hypothesis-profile={profile}", *PROPERTIES]
    done = subprocess.run(
        line, cwd=PROJECT, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    what = done.stdout[-2_000:] + done.stderr[-500:]
    again = shlex.join(("python", *line[1:]))
    broken = (Broken(point=f"seed {seed}", what=what, again=again),) if done.returncode else ()
    return Report(name="properties", tried=1, broken=broken)

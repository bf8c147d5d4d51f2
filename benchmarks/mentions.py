"""From `@` to the first names on the screen, in a folder of 50,000 files, through a real pty.

The first `@` of a console finds nothing looked up, a later one what the first has left. The floor is
what `rg --files` takes to name its first file, or a walk of Python's own its first hundred where there
is no ripgrep: no menu, nothing sorted, nothing drawn.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from time import perf_counter

from benchmarks.measuring import Figure, in_turn
from benchmarks.terminal import Terminal, fresh_home, midstream

FOLDERS, FILES = 500, 100
NAMED = "zz_"
"""What the names begin with, and nothing else on the screen."""

LOADED = "chat with"
CLEAR = "\x15"


def fill(root: Path, folders: int) -> None:
    """Make so many folders with a hundred files each, twenty-five folders in a folder."""
    for number in range(folders):
        folder = root / f"{NAMED}{number // 25:02}" / f"{NAMED}module_{number:03}"
        folder.mkdir(parents=True)
        for file in range(FILES):
            (folder / f"{NAMED}file_{number:03}_{file:02}.py").touch()


def first_named(home: Path) -> Callable[[], float]:
    """Return what measures the milliseconds until anything at all is named, without midstream."""
    program = shutil.which("rg")

    def listed() -> float:
        began = perf_counter()
        assert program is not None
        with subprocess.Popen([program, "--files"], cwd=home, stdout=subprocess.PIPE) as ripgrep:
            assert ripgrep.stdout is not None
            ripgrep.stdout.readline()
            took = perf_counter() - began
            ripgrep.kill()
        return took * 1e3

    def walked() -> float:
        began = perf_counter()
        files = (name for _, _, names in os.walk(home) for name in names)
        assert list(islice(files, 100))
        return (perf_counter() - began) * 1e3

    return listed if program is not None else walked


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds from the key to the first name on the screen."""
    rounds, folders = (1, 5) if is_quick else (12, FOLDERS)
    later: list[float] = []
    with fresh_home() as name:
        home = Path(name)
        fill(home, folders)

        def first() -> float:
            with Terminal([*midstream(), "--model", "offline"], home) as terminal:
                terminal.until_text(LOADED)
                terminal.rest()
                took = _named(terminal, "@")
                terminal.rest(0.5)
                terminal.type(CLEAR)
                terminal.rest()
                later.append(_named(terminal, "@file_4"))
            return took

        firsts, floors = in_turn(rounds, first, first_named(home))
    count = f"{FOLDERS * FILES:,}"
    has_ripgrep = shutil.which("rg") is not None
    floor = "the first line of a bare `rg --files`" if has_ripgrep else "100 names of `os.walk`"
    return [
        Figure(
            name=f"@ to the first names, {count} files",
            unit="ms",
            values=firsts,
            floor=floor,
            floors=floors,
            aim=50,
            aim_on="value",
        ),
        Figure(
            name="the same for @file_4, once they have been looked up",
            unit="ms",
            values=tuple(later),
            floor=floor,
            floors=floors,
            aim=50,
            aim_on="value",
        ),
    ]


def _named(terminal: Terminal, keys: str) -> float:
    typed = terminal.type(keys)
    return (terminal.until_text(NAMED) - typed) * 1e3

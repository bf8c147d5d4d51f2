"""Time to the first prompt: from starting the program to its prompt drawn in a real pty.

The floor is a bare prompt of prompt_toolkit with a history file and completion; below that is Python
itself. `--profile` prints what is imported until then, and what it costs.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import Figure, alone, in_turn
from benchmarks.terminal import Terminal, bare_prompt, fresh_home, midstream

GLYPH = "›"


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds until the prompt stands there."""
    rounds = 1 if is_quick else 15
    with fresh_home() as folder:
        home = Path(folder)

        def ours() -> float:
            with Terminal([*midstream(), "--model", "offline"], home) as terminal:
                return (terminal.until_text(GLYPH) - terminal.began) * 1e3

        def bare() -> float:
            with Terminal(bare_prompt(home), home) as terminal:
                return (terminal.until_text(GLYPH) - terminal.began) * 1e3

        def python() -> float:
            with Terminal([sys.executable, "-c", f"print({GLYPH!r})"], home) as terminal:
                return (terminal.until_text(GLYPH) - terminal.began) * 1e3

        if not is_quick:
            ours(), bare()  # once for the disk's sake
        own, floor, least = in_turn(rounds, ours, bare, python)
    floor_name = "a bare prompt_toolkit prompt with history and completion"
    return [
        Figure(name="first prompt", unit="ms", values=own, floor=floor_name, floors=floor, aim=1.5),
        Figure(
            name="context: Python alone",
            unit="ms",
            values=least,
            floor=floor_name,
            floors=floor,
        ),
    ]


def explain() -> None:
    """Print the modules imported before the first prompt, ours and the dearest of the others."""
    with fresh_home() as folder, tempfile.TemporaryFile() as told:
        # Our own stderr would be the terminal's; imports are told to a file instead.
        command = [sys.executable, "-X", "importtime", "-c", _UP_TO_THE_PROMPT]
        subprocess.run(command, stderr=told, check=True, cwd=folder)
        told.seek(0)
        lines = told.read().decode().splitlines()
    found = [
        (int(match[2]), int(match[1]), match[3])
        for line in lines
        if (match := re.match(r"import time:\s*(\d+) \|\s*(\d+) \|\s*(\S+)", line))
    ]
    total = sum(own for _, own, _ in found)
    print(f"{len(found)} modules, {total / 1000:.0f} ms of imports (slowed by the measuring)")
    for title, is_ours in (
        ("midstream's own, itself alone", True),
        ("others, itself alone", False),
    ):
        print(f"\n{title}:")
        ranked = sorted(
            ((own, name) for _, own, name in found if name.startswith("midstream") == is_ours),
            reverse=True,
        )
        for own, name in ranked[:12]:
            print(f"  {own / 1000:7.2f} ms  {name}")
    print("\nwith all they import:")
    for whole, _, name in sorted(found, reverse=True)[:20]:
        print(f"  {whole / 1000:7.2f} ms  {name}")


_UP_TO_THE_PROMPT = """
import midstream.cli, midstream.ai_coder_console, midstream.console.interface
from midstream.config.manager import ConfigManager
"""

if __name__ == "__main__":
    alone(measure, explain)

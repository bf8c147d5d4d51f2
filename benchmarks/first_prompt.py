"""Time to the first prompt: from starting the program to its prompt drawn in a real pty.

The floor is a bare prompt of prompt_toolkit with a history file and completion; below that is Python
itself. `--profile` prints what is imported until then, and what it costs.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.long_runs import fill
from benchmarks.measuring import Figure, in_turn
from benchmarks.terminal import Terminal, bare_prompt, fresh_home, midstream
from midstream.store.sqlite import SqliteStore

GLYPH = "›"


def measure(is_quick: bool) -> list[Figure]:
    """Return milliseconds until the prompt stands there."""
    rounds, runs = (1, 40) if is_quick else (15, 10_000)
    with fresh_home() as folder, fresh_home() as crowded:
        home = Path(folder)
        asyncio.run(_fill(Path(crowded).resolve(), runs))

        def ours(home: Path = home) -> float:
            with Terminal([*midstream(), "--model", "offline"], home) as terminal:
                return (terminal.until_text(GLYPH) - terminal.began) * 1e3

        def among() -> float:
            return ours(Path(crowded))

        def bare() -> float:
            with Terminal(bare_prompt(home), home) as terminal:
                return (terminal.until_text(GLYPH) - terminal.began) * 1e3

        def python() -> float:
            with Terminal([sys.executable, "-c", f"print({GLYPH!r})"], home) as terminal:
                return (terminal.until_text(GLYPH) - terminal.began) * 1e3

        if not is_quick:
            ours(), among(), bare()  # once for the disk's sake
        own, many, floor, least = in_turn(rounds, ours, among, bare, python)
    floor_name = "a bare prompt_toolkit prompt with history and completion"
    return [
        Figure(name="first prompt", unit="ms", values=own, floor=floor_name, floors=floor, aim=1.5),
        Figure(
            name=f"first prompt beside {runs:,} runs that wait",
            unit="ms",
            values=many,
            floor="the first prompt beside none",
            floors=own,
        ),
        Figure(
            name="context: Python alone",
            unit="ms",
            values=least,
            floor=floor_name,
            floors=floor,
        ),
    ]


async def _fill(home: Path, runs: int) -> None:
    path = home / ".local/state/midstream/journal.db"
    path.parent.mkdir(parents=True)
    store = SqliteStore.opened(path)
    await fill(store, runs, workspace=str(home))
    await store.aclose()


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
import midstream.cli.main, midstream.app.ai_coder_console, midstream.tui.interface
from midstream.config.manager import ConfigManager
"""

"""What the first prompt waits for: of what it does not need, nothing is imported before it is drawn."""

import json
import os
import pty
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic

from deadline import DEADLINE_S

# Imported in a process of its own: those of the tests have been imported long ago.
_TELL = """
import json, os, sys
sys.argv = ["midstream", "--model", "offline"]
from midstream.tui import display
from midstream.__main__ import main

def told(*_):
    with open("told", "w") as file:
        json.dump(sorted(sys.modules), file)
    os._exit(0)

display.Display.run = told
main()
"""

NOT_NEEDED = {
    *(
        "pydantic_ai",
        "openai",
        "genai_prices",
        "httpx2",
        "rich",
        "pygments",
        "pathspec",
        "apsw",
        "re2",
    ),
    *(
        "midstream.runtime.engine",
        "midstream.store",
        "midstream.runtime.state_machine",
        "midstream.rehearsal",
    ),
    *(
        "midstream.core.decide.decide",
        "midstream.core.decide.transaction",
        "midstream.language.expressions",
    ),
    *("midstream.safety.rules", "midstream.safety.policy", "midstream.language.patterns"),
    *(
        "midstream.app.commands.table",
        "midstream.app.commands.run_commands",
        "midstream.views.graph",
    ),
    *("midstream.app.headless", "midstream.cli.run", "midstream.cli.runs", "midstream.cli.doctor"),
}


def test_what_the_first_prompt_does_not_need_is_imported_after_it(tmp_path: Path) -> None:
    imported = imported_before_the_prompt(tmp_path)

    assert "midstream.tui.interface" in imported
    assert NOT_NEEDED & imported == set()


def imported_before_the_prompt(home: Path) -> set[str]:
    """Return the modules a console has imported by the time it begins to draw, in a terminal."""
    ours, theirs = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm-256color"}
    console = subprocess.Popen(
        [sys.executable, "-c", _TELL],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=home,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    until = monotonic() + DEADLINE_S
    try:
        # What it writes is read: a terminal that nobody reads holds the writer up.
        while console.poll() is None and monotonic() < until:
            with suppress(OSError):  # what Linux says once the program has ended
                if select.select([ours], [], [], 0.05)[0]:
                    os.read(ours, 65_536)
    finally:
        console.kill()
        console.wait()
        os.close(ours)
    return set(json.loads((home / "told").read_text(encoding="utf-8")))

"""git, started by midstream itself: in whatever folder, it runs nothing that the folder names."""

import os
import subprocess
from pathlib import Path
from typing import Final

from midstream.core.safety import quiet_git
from midstream.core.safety.harmless import ENVIRONMENT
from midstream.tool.programs import found_program

TIMEOUT_S: Final = 30.0

_OWN: Final = ("HOME", "XDG_CONFIG_HOME")


def git_output(
    root: Path, *arguments: str, program: str | None = None, timeout_s: float = TIMEOUT_S
) -> bytes | None:
    """Return what a git command printed in `root`, None when it failed, is missing or took too long.

    Without a `program` it is the person's git, and what their own configuration says of the files it
    ignores counts; with one, only what the repository's says. Blocks.
    """
    environment = dict(ENVIRONMENT)
    if program is None:
        program = found_program("git", root)
        for name in quiet_git.OWNERS:
            del environment[name]
        environment |= {name: os.environ[name] for name in _OWN if name in os.environ}
    if program is None:
        return None
    try:
        done = subprocess.run(
            (program, *quiet_git.OPTIONS, *arguments),
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None

"""Where a role works: folder, date, system, what commands run in, and what the project is made of."""

import os
import platform
import time
from pathlib import Path
from typing import Final

from midstream.config.manager import ConfigManager
from midstream.config.project_files import commands_of, languages_of
from midstream.language.spec import Guidance
from midstream.safety.capability import PermissionMode, SandboxLevel
from midstream.safety.sanitize import sanitized
from midstream.views.cells import clipped, one_line

MAX_COMMANDS: Final = 12
_HEAD_BYTES: Final = 1_000
_BEGUN: Final = "# Where you work\nAs it was when this began; look again where it matters.\n"
_SANDBOX: Final = {
    "full": "in a sandbox: they write in the folder only and reach no network, unless a person allows more",
    "partial": "in a sandbox that does not hold everywhere on this system, so more of them ask first",
    "none": "without a sandbox, so each asks a person first",
}
_MODES: Final = {
    "plan": "plan: you may look, not change; propose a plan with propose_plan",
    "ask": "ask: changes and commands ask a person first",
    "auto": "auto: changes in the folder and sandboxed commands run unasked",
    "full": "full: what no rule denies runs unasked",
}


def environment_here(
    config: ConfigManager, mode: PermissionMode, sandbox: SandboxLevel | None, place: str = ""
) -> Guidance:
    """Return where the work goes on, a line each. Waits for the disk, but starts no program.

    Of a workspace that is not trusted nothing is told but its path.

    Args:
        config: whose workspace it is.
        mode: what a person wants to be asked now; they may change it at any time.
        sandbox: what commands run in as it was measured, None where that is not known yet.
        place: what the folder is of, where it is another on each machine.
    """
    folder = config.workspace
    system = f"{platform.system()} {platform.release()} ({platform.machine()})"
    named = f"a checkout of {place}, on some machine: name files from its root" if place else folder
    lines = [f"Folder: {named}", time.strftime("Date: %A, %Y-%m-%d"), f"System: {system}"]
    if sandbox is not None:
        lines.append(f"Commands run {_SANDBOX[sandbox]}.")
    lines.append(f"Permission mode {_MODES[mode]}. The person may change it.")
    if not config.is_untrusted:
        lines += _project(folder)
    rows = (f"* {clipped(one_line(sanitized(line)), 500)}" for line in lines)
    return Guidance(source="environment", text=_BEGUN + "\n".join(rows))


def _project(folder: Path) -> list[str]:
    lines = [git] if (git := _git(folder)) else []
    if languages := languages_of(folder):
        lines.append(f"Languages: {', '.join(languages)}")
    commands = [f"`{clipped(one_line(command), 80)}`" for command in commands_of(folder)]
    if commands:
        left = len(commands) - MAX_COMMANDS
        more = f", and {left} more" if left > 0 else ""
        lines.append(f"Commands of the project: {', '.join(commands[:MAX_COMMANDS])}{more}")
    return lines


def _git(folder: Path) -> str:
    """Return which branch the folder's own repository is on, "" where it has none.

    What has changed in it is not told: git says that at the time when it counts.
    """
    head = folder / ".git" / "HEAD"
    try:
        if head.parent.is_symlink() or head.is_symlink() or not head.is_file():
            return ""
        with head.open("rb") as file:
            said = os.fsdecode(file.read(_HEAD_BYTES)).strip()
    except OSError:
        return ""
    branch = said.removeprefix("ref: refs/heads/")
    return f"Git branch: {branch}" if branch != said else "Git: no branch is checked out"

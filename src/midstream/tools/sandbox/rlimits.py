"""How much a sandboxed command may take: processes, the size of a file, no core dumps.

The limits are set from outside, on the sandbox's first process, before the command begins; what it
starts inherits them, and without capabilities none can be raised again. The number of processes is
counted by user namespace, so that a person's other programs do not count (Linux 5.14). To root that limit
means nothing; there a control group does it, where one can be made.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from midstream.config.portable import NotHere

if sys.platform != "win32":
    import resource

MAX_PROCESSES: Final = 1024
MAX_FILE_BYTES: Final = 4 << 30
MAX_OPEN_FILES: Final = 16_384

_CGROUPS = Path("/sys/fs/cgroup")
_NAME = "midstream"
_TRIES, _TRY_S = 50, 0.002


def limit(pid: int, *, max_processes: int = MAX_PROCESSES) -> None:
    """Set the limits on a process of ours that has not begun.

    Raises:
        OSError: it is gone, or not ours.
    """
    if sys.platform == "linux":
        wanted = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_FSIZE: MAX_FILE_BYTES,
            resource.RLIMIT_NOFILE: MAX_OPEN_FILES,
            resource.RLIMIT_NPROC: max_processes,
            resource.RLIMIT_MEMLOCK: 64 << 20,
            resource.RLIMIT_MSGQUEUE: 1 << 20,
        }
        for which, most in wanted.items():
            # Never above what we ourselves were given: raising takes a right we may not have.
            hard = resource.prlimit(pid, which)[1]
            value = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(pid, which, (value, value))
    else:
        raise NotHere


def begun_group(pid: int, max_processes: int = MAX_PROCESSES) -> Path | None:
    """Return a control group that bounds a process and all it starts, None where none can be made."""
    # The nearest is ours, and as it has processes, cgroup 2 allows none with limits below it: then one
    # further up is tried.
    for parent in _parents(Path("/proc/self/cgroup")):
        group = parent / f"{_NAME}-{os.getpid()}-{pid}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / "pids.max").write_text(str(max_processes))
            (group / "cgroup.procs").write_text(str(pid))
        except OSError:
            end_group(group)
            continue
        _sweep(parent)
        return group
    return None


def end_group(group: Path) -> None:
    """Remove a control group whose processes have ended. The last of them may not be reaped yet."""
    for _ in range(_TRIES):
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(_TRY_S)
        else:
            return


def _sweep(parent: Path) -> None:
    """Remove what processes of ours left that were killed."""
    for group in parent.glob(f"{_NAME}-*-*"):
        owner = group.name.split("-")[1]
        if not os.path.exists(f"/proc/{owner}"):
            with suppress(OSError):
                group.rmdir()


def _parents(about: Path) -> list[Path]:
    """Return where a group for processes may be made, the nearest first."""
    try:
        lines = about.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    found: list[Path] = []
    for line in lines:
        _, controllers, place = line.split(":", 2)
        below = place.strip("/")
        # Version 1 has a tree for each controller, version 2 one for all, with no controllers named.
        if "pids" in controllers.split(","):
            root = _CGROUPS / controllers
            found += _upwards(root if root.is_dir() else _CGROUPS / "pids", below)
        elif not controllers and (_CGROUPS / "cgroup.controllers").exists():
            found += _upwards(_CGROUPS, below)
    return [each for each in found if os.access(each, os.W_OK)]


def _upwards(root: Path, below: str) -> list[Path]:
    here = root / below if below else root
    return [here, *(each for each in here.parents if root == each or root in each.parents)]

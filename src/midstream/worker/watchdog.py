"""A small program beside a worker: it ends a worker that cannot say in time that it lives, with its tools.

A worker that is stopped, hangs or is cut off from the database loses its runs to others after a while. By
then nothing of them may be done here any more, and it may be unable to see to that itself. So it tells this
program after each beat until when it may go on. When that time is past, this program kills all that the
worker has started, and the worker. It does the same with what is left where the worker was killed.

    stdin: a line for each beat, with the time (`now`) until which the worker may live; `bye` dismisses it

Only Linux tells which processes there are. Elsewhere the worker itself is ended, and what it started is not
seen.
"""

import os
import select
import signal
import sys
import time
from contextlib import suppress

from midstream.config.portable import SIGKILL
from midstream.system import process_tree as tree

BYE = b"bye"
READY = b"ready\n"
_NOBODY = -1
_SWEEPS = 500
_SWEEP_S = 0.01


def now() -> float:
    """Return seconds that only grow, the same in every process of this machine; those it sleeps count."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def main(parent: int, tag: str) -> None:
    """Watch over the process that started this one, until it says goodbye or is gone."""
    deadline, rest = float("inf"), b""
    handle = None
    if sys.platform == "linux":
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(parent)
    if os.getppid() != parent:
        # It is gone, and its id, and the handle, may be another process's by now.
        _sweep(_NOBODY, tag)
        return
    os.write(1, READY)
    while (left := deadline - now()) > 0:
        ready, _, _ = select.select([0], [], [], min(left, 3600.0))
        if not ready:
            continue
        data = os.read(0, 4096)
        if not data:
            _sweep(_NOBODY, tag)
            return
        *lines, rest = (rest + data).split(b"\n")
        if BYE in lines:
            return
        if lines:
            deadline = float(lines[-1])
    _kill(parent, handle, tag)


def _kill(parent: int, handle: int | None, tag: str) -> None:
    """Kill the worker and all that it has started. Its id stays its own until we have seen it end."""
    if handle is None:
        with suppress(ProcessLookupError):
            if os.getppid() == parent:
                os.kill(parent, SIGKILL)
        return
    is_gone = bool(select.select([handle], [], [], 0)[0])
    # All in one look, the worker among them: once it has ended, only the tag tells what was its.
    if not is_gone:
        tree.send(SIGKILL, parent, tag, spared=(os.getpid(),))
        if sys.platform == "linux":
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, SIGKILL)
    _sweep(_NOBODY, tag)


def _sweep(leader: int, tag: str) -> None:
    """Kill what carries the tag until nothing does: what was just being started is seen next time."""
    me = os.getpid()
    for _ in range(_SWEEPS):
        found = tree.send(SIGKILL, leader, tag, spared=(me,))
        if all(process.pid == me for process in found):
            return
        time.sleep(_SWEEP_S)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

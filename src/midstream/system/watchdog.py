"""A small program beside each process of ours that starts others: when that ends, so does what it started.

However it ended, killed for instance, no time passes in which something of it is not looked after: the pipe
from it is held by whatever it has forked, too, until that is a program with a tag in its environment. So at
the end of the pipe all that was started can be seen.

A worker that is stopped, hangs or is cut off from the database loses its runs to others after a while. By
then nothing of them may be done here any more, and it may be unable to see to that itself. So it tells this
program after each beat until when it may go on. When that time is past, this program kills all that the
worker has started, and the worker.

    stdin: a line for each beat, with the time (`now`) until which the worker may live; `bye` dismisses it

Once nothing of a process is left, its last wills are carried out: a store that machines share hears of a
death at once. (That a connection has ended tells of none: it may have been cut, and then all goes on.)

    stdin: `!` and a JSON object: of the name of each will the module, the function and the text it takes,
           null where it is withdrawn

Only Linux tells which processes there are. Elsewhere `+7` and `-7` say which lead a group of their own, and
only those groups are ended.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from typing import TypeAlias

from midstream.config.portable import SIGKILL
from midstream.system import process_tree as tree

BYE = b"bye"
READY = b"ready\n"
EARLY_S = 2.0
"""Seconds before that time at which it looks what there is to kill: on an overloaded machine a look takes
long. A worker that beats in time is not looked at."""

Will: TypeAlias = tuple[str, str, str]
"""The module, the function and the text it takes."""

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
    leaders: set[int] = set()
    wills: dict[str, Will | None] = {}
    handle = None
    if sys.platform == "linux":
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(parent)
    if os.getppid() != parent:
        # It is gone, and its id, and the handle, may be another process's by now.
        handle = None
        _sweep(_NOBODY, tag)
    with suppress(BrokenPipeError):
        os.write(1, READY)
    heard = [0] if handle is None else [0, handle]
    seen: list[tree.Process] | None = None
    while (left := deadline - now()) > 0:
        if left <= EARLY_S and seen is None:
            seen = tree.members(parent, tag)
            continue
        wait_s = left if seen is not None else left - EARLY_S
        ready, _, _ = select.select(heard, [], [], min(wait_s, 3600.0))
        if handle is not None and handle in ready:
            # Something that it has forked, and that became no other program, may hold the pipe for long.
            heard.remove(handle)
            _sweep(_NOBODY, tag)
            _carry_out(wills)
        if 0 not in ready:
            continue
        data = os.read(0, 4096)
        if not data:
            _sweep(_NOBODY, tag)
            _end_groups(leaders)
            _carry_out(wills)
            return
        *lines, rest = (rest + data).split(b"\n")
        if BYE in lines:
            return
        for line in lines:
            if line[:1] == b"+":
                leaders.add(int(line))
            elif line[:1] == b"-":
                leaders.discard(-int(line))
            elif line[:1] == b"!":
                wills |= json.loads(line[1:])
            else:
                deadline, seen = float(line), None
    _end_groups(leaders)
    _kill(parent, handle, tag, seen or [])
    _carry_out(wills)


def _kill(parent: int, handle: int | None, tag: str, seen: list[tree.Process]) -> None:
    """Kill the worker and all that it has started. Its id stays its own until we have seen it end.

    What was `seen` is killed first, and the worker begins nothing more meanwhile.
    """
    if handle is None:
        with suppress(ProcessLookupError):
            if os.getppid() == parent:
                os.kill(parent, SIGKILL)
        return
    is_gone = bool(select.select([handle], [], [], 0)[0])
    # All in one look, the worker among them: once it has ended, only the tag tells what was its.
    if not is_gone:
        if sys.platform == "linux":
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGSTOP)
        for process in seen:
            if process.pid not in (parent, os.getpid()):
                tree.send_to(process, SIGKILL)
        tree.send(SIGKILL, parent, tag, spared=(os.getpid(),))
        if sys.platform == "linux":
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, SIGKILL)
    _sweep(_NOBODY, tag)


def _carry_out(wills: dict[str, Will | None]) -> None:
    for will in filter(None, wills.values()):
        with suppress(Exception):  # nobody is left who could be told
            module, function, said = will
            getattr(import_module(module), function)(said)
    wills.clear()


def _end_groups(leaders: set[int]) -> None:
    if sys.platform != "win32":
        for leader in leaders:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, SIGKILL)


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

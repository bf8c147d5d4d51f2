"""A command's processes, all of them, and how to end them.

Killing the process group is not enough: a grandchild that calls `setsid` leaves it, and one whose
parent has died belongs to init. So a command is started as the leader of a session of its own, with
a tag in its environment that every descendant inherits. What belongs to it is found in `/proc`: what
is in that session or group, what carries the tag, and whatever descends from those. Only a process
that leaves the session, clears its environment and loses its parent is missed.

Where there is no `/proc` (macOS), the process group has to do: what is left in it is killed unseen.

A sandboxed command has a process namespace of its own, and nothing in it can leave it: what has lost its
parent belongs to the namespace's first process, a child of the leader. So its tree is whole, and killing
that first process is killing all; the kernel reports it dead only when every other one is gone.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Final, NamedTuple

from midstream.config.portable import SIGKILL, NotHere

TAG: Final = "MIDSTREAM_CALL"
"""The environment variable that marks the descendants of one call, and of those around it."""
_TAGGED: Final = f"{TAG}=".encode()

_LISTS: Final = 3
"""How often it is listed what runs: what ends before it is asked may have started another meanwhile."""
_EXEC_LOOKS: Final = 250
_EXEC_S: Final = 0.002
"""How often, and after how long, a process is looked at again that is just becoming another program."""


class Process(NamedTuple):
    """A live process. `started`, in clock ticks since boot, tells it from a later one of its id."""

    pid: int
    parent: int
    group: int
    session: int
    started: int


def processes() -> list[Process]:
    """Return the processes that are running now, the oldest first; zombies are not.

    So what started another mostly gets a signal before it, and does not go on once that has ended. None
    where there is no /proc.
    """
    found: list[Process] = []
    asked: set[str] = set()
    try:
        for _ in range(_LISTS):
            names = set(filter(str.isdigit, os.listdir("/proc"))) - asked
            asked |= names
            found += filter(None, map(_process, map(int, names)))
    except OSError:
        return []
    return sorted(found, key=lambda process: (process.started, process.pid))


def are_seen() -> bool:
    """Return whether the system tells which processes there are."""
    return os.path.isdir("/proc/self")


def _process(pid: int) -> Process | None:
    fields = _stat(pid)
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def _started(pid: int) -> int:
    """Return when a process started, zombies included, in clock ticks since boot; 0: it is not there."""
    fields = _stat(pid)
    return int(fields[19]) if len(fields) >= 20 else 0


def _stat(pid: int) -> list[bytes]:
    try:
        # The name, in parentheses, may hold blanks and parentheses itself.
        return _read(pid, "stat").rpartition(b")")[2].split()
    except OSError:
        return []


def marked(tag: str) -> dict[str, str]:
    """Return the variable that marks what a call starts; within a call, as that one's, too."""
    around = os.environ.get(TAG)
    return {TAG: f"{around}/{tag}" if around else tag}


def members(leader: int, tag: str, known: set[tuple[int, int]] | None = None) -> list[Process]:
    """Return the live processes of the command led by `leader`; its id must not be reaped yet.

    What is found becomes `known`, by its id and start, and is a member until it is gone: one that is
    ending shows no environment any more.
    """
    everyone = processes()
    # What is older than the leader cannot descend from it: most of a busy machine is not even asked.
    since = _started(leader)
    mark = tag.encode()
    known = set() if known is None else known
    ours = {
        process.pid
        for process in everyone
        if leader in (process.pid, process.group, process.session)
        or (process.pid, process.started) in known
        or (process.started >= since and process.session and _carries(process.pid, mark))
    }
    grew = True
    while grew:
        below = {process.pid for process in everyone if process.parent in ours}
        grew = not below <= ours
        ours |= below
    found = [process for process in everyone if process.pid in ours]
    known.update((process.pid, process.started) for process in found)
    return found


def _carries(pid: int, mark: bytes) -> bool:
    for _ in range(_EXEC_LOOKS):
        before = _program(pid)
        try:
            held = _read(pid, "environ")
        except OSError:
            return False
        for each in held.split(b"\0") if mark in held else ():
            if each.startswith(_TAGGED) and mark in each[len(_TAGGED) :].split(b"/"):
                return True
        # While it becomes another program it has no environment, or a part: that of one program is whole.
        if before and before == _program(pid):
            return False
        time.sleep(_EXEC_S)
    return False


def _program(pid: int) -> bytes:
    """Return where the code and the stack of a process lie, which differ for each program that it becomes.

    Empty meanwhile: Linux writes down where the code ends once the environment is there.
    """
    fields = _stat(pid)
    is_whole = len(fields) >= 26 and (fields[24] != b"0" or fields[0] in (b"Z", b"X"))
    return b" ".join(fields[23:26]) if is_whole else b""


def _read(pid: int, what: str) -> bytes:
    with open(f"/proc/{pid}/{what}", "rb") as file:
        return file.read()


def send(
    which: signal.Signals,
    leader: int,
    tag: str,
    spared: Collection[int] = (),
    known: set[tuple[int, int]] | None = None,
) -> list[Process]:
    """Send a signal to the leader's group and to each member outside it; return all members.

    With some `spared`, each of the others gets it by itself.
    """
    if sys.platform == "win32":
        raise NotHere
    found = members(leader, tag, known)
    if not spared:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, which)
    for process in found:
        if process.pid not in spared and (spared or process.group != leader):
            send_to(process, which)
    return found


class First:
    """The first process of a sandbox's process namespace; with it ends whatever runs there."""

    def __init__(self, pid: int, leader: int) -> None:
        """Take hold of it. `leader`, its parent, must not be reaped yet."""
        self.pid = pid
        self._handle: int | None = None
        if sys.platform == "linux" and hasattr(os, "pidfd_open"):
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                # Until its parent is known, the id may have come to mean another process.
                now = _process(pid)
                if now is not None and now.parent == leader:
                    self._handle = handle
                else:
                    os.close(handle)

    def kill(self) -> None:
        """Kill it, and so everything in its namespace."""
        if sys.platform == "linux" and self._handle is not None:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._handle, SIGKILL)

    def is_gone(self) -> bool:
        """Return whether it has ended, and so everything in its namespace."""
        if sys.platform != "linux" or self._handle is None:
            return True
        waiting = select.poll()
        waiting.register(self._handle, select.POLLIN)
        return bool(waiting.poll(0))

    def close(self) -> None:
        """Let go of it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def send_to(process: Process, which: signal.Signals) -> None:
    """Signal a process unless its id has come to mean another one meanwhile."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
            os.kill(process.pid, which)
            return
        handle = os.pidfd_open(process.pid)
        try:
            now = _process(process.pid)
            if now is not None and now.started == process.started:
                signal.pidfd_send_signal(handle, which)
        finally:
            os.close(handle)

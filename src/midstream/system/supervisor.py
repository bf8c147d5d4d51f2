"""One command, run to its end in a daemon thread and never outlived by what it started.

The thread waits on three things at once: the command's output, its end, and a pipe through which the
loop tells its wish (stop softly, or kill). So nothing of it - the fork, the reading, the walk through
`/proc` - blocks the loop, and nothing polls while the command is silent.
"""

import asyncio
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from midstream.system import process_tree as tree
from midstream.system.offloop import in_thread

GRACE_S: Final = 2.0
"""From the first signal of a soft stop to the last: SIGINT, after half of it SIGTERM, SIGKILL."""
KILL_S: Final = 3.0
"""How long a killed process may take to be gone before it is reported as left over."""

_CHUNK: Final = 65_536
_TICK_S: Final = 0.02

Wish: TypeAlias = Literal["", "stop", "kill"]
Cause: TypeAlias = Literal["", "stopped", "timed_out", "enough"]


class Sink(Protocol):
    """Takes a command's output, in the command's thread."""

    def feed(self, data: bytes) -> bool:
        """Take the next piece; return False when no more is wanted and the command may end."""

    def tick(self) -> float | None:
        """Do what is due by now; return after how many seconds to be called again, if at all."""


class Starting(Protocol):
    """How a command is started, when that takes more than its argv: in a sandbox."""

    argv: list[str]
    environment: dict[str, str]
    stdin: int

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """Return the descriptors it gets."""

    def begin(self, pid: int) -> int | None:
        """Let what was started begin; return the first process of its process namespace."""

    def close(self) -> None:
        """Clear up, when nothing of it runs any more."""


Box: TypeAlias = Callable[[Sequence[str], Mapping[str, str], Mapping[str, str]], Starting]
"""Prepares an argv with its environment; the third is what its processes are known by outside. It is
called in the command's thread.
"""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. `exit_code` is negative when a signal did it, as in `subprocess`.

    `cause` is what made us end it, "" when it ended by itself; `ran_s` is how long it went on.
    `left_behind` counts processes that it had started, that outlived it and that were ended;
    `survivors` are the ids of those that could not be.
    """

    exit_code: int
    cause: Cause = ""
    ran_s: float = 0.0
    left_behind: int = 0
    survivors: tuple[int, ...] = ()


async def run_command(
    argv: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    stop: asyncio.Event,
    sink: Sink,
    box: Box | None = None,
) -> Ended:
    """Return how a command ended, once all it started has ended too. `box` makes it a sandboxed one.

    Setting `stop` ends it softly. Cancelling kills everything at once; the cancellation goes on
    when the processes are gone.

    Raises:
        OSError: the command could not be started.
    """
    command = _Command(argv, folder, environment, timeout_s, sink, box)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(in_thread(command.run_or_error, name="midstream-command"))
        soften = group.create_task(_when_set(stop, command))
        try:
            # Shielded: a cancelled command still has to be seen to its end.
            ended = await asyncio.shield(work)
        except asyncio.CancelledError:
            command.tell("kill")
            await asyncio.wait({work}, timeout=KILL_S)
            raise
        finally:
            soften.cancel()
            work.cancel()
    if isinstance(ended, Exception):
        raise ended
    return ended


async def _when_set(stop: asyncio.Event, command: "_Command") -> None:
    await stop.wait()
    command.tell("stop")


class _Command:
    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        timeout_s: float,
        sink: Sink,
        box: Box | None,
    ) -> None:
        self._argv = list(argv)
        self._folder = folder
        self._tag = os.urandom(8).hex()
        self._environment = environment
        self._box = _Plain if box is None else box
        self._timeout_s = timeout_s
        self._sink = sink
        self._wish: Wish = ""
        self._ears, self._mouth = os.pipe()
        os.set_blocking(self._mouth, False)
        self._is_over = False
        self._lock = threading.Lock()

    def tell(self, wish: Wish) -> None:
        """Say what is to become of the command. Returns at once; called on the loop."""
        # Locked: once the pipe is closed, its number may belong to somebody else's file.
        with self._lock:
            if self._wish != "kill" and not self._is_over:
                self._wish = wish
                with suppress(BlockingIOError):
                    os.write(self._mouth, b"!")

    def run_or_error(self) -> Ended | Exception:
        """Run it to the end, in a thread of its own. An error is returned: a task group would
        wrap it.
        """
        try:
            return self._run()
        except Exception as error:
            return error

    def _run(self) -> Ended:
        try:
            tag = {tree.TAG: self._tag}
            starting = self._box(self._argv, self._environment, tag)
            try:
                return self._started(starting)
            finally:
                starting.close()
        finally:
            with self._lock:
                self._is_over = True
                os.close(self._ears)
                os.close(self._mouth)

    def _started(self, starting: Starting) -> Ended:
        # Started in this thread, which stays: the sandbox ends with the thread that started it.
        child = subprocess.Popen(
            starting.argv,
            cwd=self._folder,
            env=starting.environment,
            stdin=starting.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=starting.pass_fds,
        )
        assert child.stdout is not None
        first: tree.First | None = None
        try:
            with child.stdout, _Watch(child) as watch:
                watch.listen(self._ears)
                inside = starting.begin(child.pid)
                if inside is not None:
                    first = tree.First(inside, child.pid)
                return self._followed(child, watch, first)
        except BaseException:
            child.kill()
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=KILL_S)
            raise
        finally:
            if first is not None:
                first.close()

    def _followed(
        self,
        child: "subprocess.Popen[bytes]",
        watch: "_Watch",
        first: tree.First | None,
    ) -> Ended:
        ending = _Ending(child.pid, self._tag, first)
        began = time.monotonic()
        deadline = began + self._timeout_s
        cause: Cause = ""
        while not watch.has_exited():
            waits = [deadline - time.monotonic(), ending.wait_s(), self._sink.tick()]
            watch.wait(max(0.0, min(wait for wait in waits if wait is not None)))
            if self._wish == "kill":
                cause = "stopped"
                break
            if not self._read(watch) and not cause:
                cause = "enough"
                break
            if not cause and self._wish == "stop":
                cause = "stopped"
                ending.begin()
            elif not cause and time.monotonic() >= deadline:
                cause = "timed_out"
                ending.begin()
            ending.go_on()
        left_behind, survivors = self._clear(child.pid, watch, ending, cause)
        self._drain(watch)
        return Ended(
            exit_code=_reaped(child),
            cause=cause,
            ran_s=time.monotonic() - began,
            left_behind=left_behind,
            survivors=survivors,
        )

    def _read(self, watch: "_Watch") -> bool:
        data = watch.read()
        return data is None or self._sink.feed(data)

    def _clear(
        self, leader: int, watch: "_Watch", ending: "_Ending", cause: Cause
    ) -> tuple[int, tuple[int, ...]]:
        """End what is left of the tree; return how many had outlived the command, and still do."""
        rest = _others(leader, self._tag)
        # A sandbox takes along what is left in it when it ends: how much of that is still to be seen
        # is chance.
        left_behind = 0 if cause or ending.is_boxed else len(rest)
        if not rest and watch.has_exited() and not ending.first_lives():
            return 0, ()
        is_soft = watch.has_exited() and cause != "enough" and self._wish != "kill"
        if rest and is_soft and not ending.is_boxed:
            ending.begin(signal.SIGTERM)
        else:
            ending.kill()
        alive, is_late = True, False
        while alive and not is_late:
            if self._wish == "kill":
                ending.kill()
            ending.go_on()
            watch.wait(_TICK_S)
            self._read(watch)
            self._sink.tick()
            # Before the look: what still lives then has had all its time, however long we stood still.
            is_late = ending.is_late()
            rest = _others(leader, self._tag)
            alive = bool(rest) or not watch.has_exited() or ending.first_lives()
        survivors = tuple(process.pid for process in rest)
        return left_behind, survivors or ending.first_survives()

    def _drain(self, watch: "_Watch") -> None:
        """Take what is still in the pipe, never waiting for more."""
        while data := watch.read():
            if not self._sink.feed(data):
                break


class _Plain:
    """A command that is started as it is."""

    pass_fds = ()
    stdin = subprocess.DEVNULL

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], tag: Mapping[str, str]
    ) -> None:
        self.argv = list(argv)
        self.environment = {**environment, **tag}

    def begin(self, pid: int) -> int | None:
        return None

    def close(self) -> None:
        return


def _others(leader: int, tag: str) -> list[tree.Process]:
    return [each for each in tree.members(leader, tag) if each.pid != leader]


def _reaped(child: "subprocess.Popen[bytes]") -> int:
    try:
        return child.wait(timeout=0.1)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL


class _Ending:
    """The signals of a soft stop, each at its time. SIGKILL is repeated: forks may race it."""

    def __init__(self, leader: int, tag: str, first: tree.First | None = None) -> None:
        self._leader = leader
        self._tag = tag
        self._first = first
        self._plan: list[tuple[float, signal.Signals]] = []
        self._killed_at: float | None = None
        self._has_begun = False

    @property
    def is_boxed(self) -> bool:
        """Return whether the command runs in a process namespace of its own."""
        return self._first is not None

    def first_lives(self) -> bool:
        """Return whether that namespace has not ended yet."""
        return self._first is not None and not self._first.is_gone()

    def first_survives(self) -> tuple[int, ...]:
        """Return the id of its first process where it cannot be ended."""
        return (self._first.pid,) if self._first is not None and self.first_lives() else ()

    def begin(self, first: signal.Signals = signal.SIGINT) -> None:
        """Plan the soft stop, the first signal at once; a second call changes nothing."""
        if self._has_begun:
            return
        self._has_begun = True
        now = time.monotonic()
        self._plan = [(now + GRACE_S / 2, signal.SIGTERM), (now + GRACE_S, signal.SIGKILL)]
        self._plan.insert(0, (now, first))

    def kill(self) -> None:
        """Plan to kill, now."""
        self._has_begun = True
        if self._killed_at is None:
            self._plan = [(time.monotonic(), signal.SIGKILL)]
            self.go_on()

    def wait_s(self) -> float | None:
        """Return the seconds until the next signal, None without one."""
        return self._plan[0][0] - time.monotonic() if self._plan else None

    def go_on(self) -> None:
        """Send what is due."""
        while self._plan and self._plan[0][0] <= time.monotonic():
            _, which = self._plan.pop(0)
            if which == signal.SIGKILL:
                self._killed_at = self._killed_at or time.monotonic()
            else:
                tree.send(which, self._leader, self._tag, self._spared())
        if self._killed_at is not None:
            if self._first is not None:
                self._first.kill()
            tree.send(signal.SIGKILL, self._leader, self._tag)

    def _spared(self) -> tuple[int, ...]:
        """Return who is not told softly: the sandbox's own two, whose end would kill the rest."""
        return () if self._first is None else (self._leader, self._first.pid)

    def is_late(self) -> bool:
        """Return whether what was killed has had its time to be gone."""
        return self._killed_at is not None and time.monotonic() - self._killed_at > KILL_S


class _Watch:
    """Waits for a child's output and end. The child stays unreaped, so that its id stays its own."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        assert child.stdout is not None
        self._child = child
        self._output: int | None = child.stdout.fileno()
        os.set_blocking(self._output, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)
        self._end: int | None = None
        self._has_exited = False
        if hasattr(os, "pidfd_open"):
            self._end = os.pidfd_open(child.pid)
            self._selector.register(self._end, selectors.EVENT_READ)

    def __enter__(self) -> "_Watch":
        return self

    def __exit__(self, *_error: object) -> None:
        self._selector.close()
        if self._end is not None:
            os.close(self._end)

    def listen(self, ears: int) -> None:
        """Wake up on this pipe, too."""
        self._selector.register(ears, selectors.EVENT_READ)
        self._ears = ears

    def wait(self, seconds: float) -> None:
        """Return when something has happened, or after that time."""
        # Without a descriptor for the end, it has to be looked for.
        limit = seconds if self._end is not None else min(seconds, _TICK_S)
        for key, _ in self._selector.select(limit):
            if key.fd == self._end:
                self._has_exited = True
                self._selector.unregister(key.fd)
            elif key.fd == self._ears:
                os.read(key.fd, 64)
        if self._end is None and not self._has_exited:
            self._has_exited = self._child.poll() is not None

    def has_exited(self) -> bool:
        """Return whether the command itself has ended (what it started may not have)."""
        return self._has_exited

    def read(self) -> bytes | None:
        """Return what there is to read now, None for nothing."""
        if self._output is None:
            return None
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return None
        if not data:
            self._selector.unregister(self._output)
            self._output = None
            return None
        return data

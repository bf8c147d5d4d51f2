"""Every child process of midstream: started here, heard with limits, ended with all that it started.

A child leads a session of its own, gets the environment it is given and no more, and carries a tag by
which all that it starts is known (see `process_tree`): so it ends with us, too, however we end (see
`watchdog`). It stays unreaped until everything of it is gone,
so that its id stays its own. `Child` is one of them; whoever converses with one (a server, ctags) holds
it. All others are heard to their end: by `run_command` from the loop, by `run_briefly` in the caller's
thread, by `run_in_terminal` where the person's own terminal is given to it.

Such a command has a daemon thread, which waits on three things at once: its output, its end, and a pipe
through which the loop tells its wish (stop softly, or kill). So nothing of it - the fork, the reading,
the walk through `/proc` - blocks the loop, and nothing polls while it is silent.
"""

import asyncio
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from midstream.config.portable import SIGKILL, NotHere
from midstream.system import process_tree as tree
from midstream.system.guard import own_guard
from midstream.system.offloop import in_thread

GRACE_S: Final = 2.0
"""From the first signal of a soft stop to the last: SIGINT, after half of it SIGTERM, SIGKILL."""
KILL_S: Final = 3.0
"""How long a killed process may take to be gone before it is reported as left over."""

PIPED: Final = subprocess.PIPE
MERGED: Final = subprocess.STDOUT
DROPPED: Final = subprocess.DEVNULL
INHERITED: Final = None
"""Where a stream of a child may lead, besides a descriptor. `MERGED` is for stderr: with the output."""

_CHUNK: Final = 65_536
_TICK_S: Final = 0.02
_LOOK_S: Final = 0.5
"""What a look at what is left takes at most, on a machine that does not stand still."""
_A_WEEK_S: Final = 7 * 86_400.0

Wish: TypeAlias = Literal["", "stop", "kill"]
Cause: TypeAlias = Literal["", "stopped", "timed_out", "enough"]


class Sink(Protocol):
    """Takes a command's output, in the command's thread."""

    def feed(self, data: bytes) -> bool:
        """Take the next piece; return False when no more is wanted and the command may end."""

    def tick(self) -> float | None:
        """Do what is due by now; return after how many seconds to be called again, if at all."""
        return None


class Kept(Sink):
    """Keeps an output whole, up to so many bytes; more than that ends the command."""

    def __init__(self, max_bytes: int) -> None:
        self.data = bytearray()
        self._max_bytes = max_bytes

    def feed(self, data: bytes) -> bool:
        """Keep the next piece."""
        self.data += data
        return len(self.data) <= self._max_bytes


class Starting(Protocol):
    """How a command is started, when that takes more than its argv: in a sandbox."""

    argv: list[str]
    environment: dict[str, str]
    stdin: int

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """Return the descriptors it gets."""
        return ()

    def begin(self, pid: int) -> int | None:
        """Let what was started begin; return the first process of its process namespace, if it has one."""
        return None

    def close(self) -> None:
        """Clear up, when nothing of it runs any more. A second call does nothing."""
        return


Box: TypeAlias = Callable[[Sequence[str], Mapping[str, str], Mapping[str, str]], Starting]
"""Prepares an argv with its environment; the third is what its processes are known by outside. It is
called in the command's thread.
"""


class Plain(Starting):
    """A command that is started as it is."""

    stdin = DROPPED

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], tag: Mapping[str, str]
    ) -> None:
        self.argv = list(argv)
        self.environment = {**environment, **tag}


class Child:
    """A started process, and the signals that are planned for it. Whoever starts one calls `end`.

    Starting, waiting and ending block, in one thread at a time: with a `box`, in the one that started
    it, which has to stay, since a sandbox ends with that thread.

    Args:
        argv: the program, by its path, and its arguments.
        folder: where it works; None is where we do.
        environment: all of its environment, besides the tag.
        stdin, stdout, stderr: where its streams lead. A `stdout` that is piped is read with `read`.
        box: makes it a sandboxed one, and gives it its `stdin`.
        is_apart: it leads a session of its own. One that is not has the terminal with us, and what it
            leaves behind on purpose, as an editor does with its server, is its own affair.
        wakes: a pipe; `wait` returns when there is something in it, too.

    Raises:
        OSError, ValueError: it could not be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        folder: Path | None,
        environment: Mapping[str, str],
        stdin: int | None = DROPPED,
        stdout: int | None = PIPED,
        stderr: int | None = MERGED,
        box: Box = Plain,
        is_apart: bool = True,
        wakes: int | None = None,
    ) -> None:
        if sys.platform == "win32":
            _refuse()
        self._tag = os.urandom(8).hex()
        self._is_apart = is_apart
        self._first: tree.First | None = None
        self._plan: list[tuple[float, signal.Signals]] = []
        self._known: set[tuple[int, int]] = set()
        self._has_begun = self._is_killed = self._is_over = False
        self.has_exited = False
        """Whether it has ended itself (what it started may not have), as of the last `wait`."""
        self._exit: int | None = None
        self._output: int | None = None
        self._wakes = wakes
        mark: Mapping[str, str] = {}
        if is_apart:
            # Where there can be none a child is started all the same, and ended as long as we live.
            with suppress(OSError):
                own_guard().begin()
            mark = tree.marked(f"{own_guard().tag}/{self._tag}")
        self._starting = box(argv, environment, mark)
        self._selector = selectors.DefaultSelector()
        try:
            self.process = subprocess.Popen(
                self._starting.argv,
                cwd=folder,
                env=self._starting.environment,
                stdin=stdin if box is Plain else self._starting.stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=is_apart,
                pass_fds=self._starting.pass_fds,
            )
        except BaseException:
            self._selector.close()
            self._starting.close()
            raise
        if is_apart:
            own_guard().add(self.process.pid)
        try:
            self._begin()
        except BaseException:
            self.end()
            raise

    def _begin(self) -> None:
        if sys.platform == "linux" and hasattr(os, "pidfd_open"):
            self._exit = os.pidfd_open(self.process.pid)
            self._selector.register(self._exit, selectors.EVENT_READ)
        if self._wakes is not None:
            self._selector.register(self._wakes, selectors.EVENT_READ)
        # Last: from here on the command runs and may end, and that is heard by now.
        inside = self._starting.begin(self.process.pid)
        if inside is not None:
            self._first = tree.First(inside, self.process.pid)

    # --- hearing it -------------------------------------------------------------------------------

    def listen(self) -> None:
        """Let `wait` wait for its output, and `read` read it."""
        if sys.platform == "win32":
            raise NotHere
        assert self.process.stdout is not None
        self._output = self.process.stdout.fileno()
        os.set_blocking(self._output, False)
        self._selector.register(self._output, selectors.EVENT_READ)

    def wait(self, seconds: float) -> None:
        """Return when something has happened, or after that time."""
        # Without a descriptor for the end (no Linux) it has to be looked for.
        limit = seconds if self._exit is not None else min(seconds, _TICK_S)
        for key, _ in self._selector.select(max(0.0, limit)):
            if key.fd == self._exit:
                self.has_exited = True
                self._selector.unregister(key.fd)
            elif key.fd == self._wakes:
                os.read(key.fd, 64)
        if self._exit is None and not self.has_exited:
            self.has_exited = self.process.poll() is not None

    def read(self) -> bytes:
        """Return what there is to read now, b"" for nothing."""
        if self._output is None:
            return b""
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return b""
        if not data:
            self._selector.unregister(self._output)
            self._output = None
        return data

    @property
    def is_silent(self) -> bool:
        """Return whether nothing more comes from it: all that could write has ended or closed it."""
        return self._output is None

    # --- ending it --------------------------------------------------------------------------------

    @property
    def is_boxed(self) -> bool:
        """Return whether it runs in a process namespace of its own."""
        return self._first is not None

    def left(self) -> tuple[int, ...]:
        """Return what lives of it: what it started, else itself, or its namespace's first process."""
        leader = self.process.pid
        # The leader may have ended, and waits to be reaped: it keeps the id, and counts for nothing.
        everyone = tree.members(leader, self._tag, self._known)
        found = tuple(each.pid for each in everyone if each.pid != leader)
        if found:
            return found
        if self._first is not None and not self._first.is_gone():
            return (self._first.pid,)
        return () if self.has_exited else (leader,)

    def stop_softly(self, first: signal.Signals | None = None) -> None:
        """Plan the signals of a soft stop, the first one at once; a second call changes nothing."""
        if not self._has_begun:
            # An editor would take SIGINT for a key.
            first = first or (signal.SIGINT if self._is_apart else signal.SIGTERM)
            now = time.monotonic()
            half = now + GRACE_S / 2
            self._intend((now, first), (half, signal.SIGTERM), (now + GRACE_S, SIGKILL))

    def kill(self) -> None:
        """Plan to kill it, now."""
        if not self._is_killed:
            self._intend((time.monotonic(), SIGKILL))
            self.send_due()

    def _intend(self, *plan: tuple[float, signal.Signals]) -> None:
        self._has_begun = True
        self._plan = list(plan)

    def next_signal_s(self) -> float | None:
        """Return the seconds until the next signal is due, None without one."""
        return self._plan[0][0] - time.monotonic() if self._plan else None

    def send_due(self) -> None:
        """Send what is due. SIGKILL is repeated: forks may race it."""
        leader = self.process.pid
        while self._plan and (late_s := time.monotonic() - self._plan[0][0]) >= 0:
            _, which = self._plan.pop(0)
            # Between two signals there is all their time, however long the machine stood still before.
            self._plan = [(at + late_s, each) for at, each in self._plan]
            if which == SIGKILL:
                self._is_killed = True
            else:
                # The sandbox's own two are not told softly: their end would kill the rest.
                spared = () if self._first is None else (leader, self._first.pid)
                tree.send(which, leader, self._tag, spared, self._known)
        if self._is_killed:
            if self._first is not None:
                self._first.kill()
            tree.send(SIGKILL, leader, self._tag, (), self._known)

    def see_off(
        self, left: tuple[int, ...], meanwhile: Callable[[], object] = lambda: None
    ) -> tuple[int, ...]:
        """Send what is planned until nothing is left of it, and reap it; return what cannot be ended.

        `left` is what lives now; `meanwhile` is called after every look.
        """
        spent_s, looked_at = 0.0, time.monotonic()
        while left and spent_s < KILL_S:
            self.send_due()
            self.wait(_TICK_S)
            meanwhile()
            left = self.left()
            # On a machine that stood still what was killed did not get to its end, either.
            spent_s += min(time.monotonic() - looked_at, _LOOK_S) if self._is_killed else 0.0
            looked_at = time.monotonic()
        self._is_over = True
        if not tree.are_seen():
            tree.send(SIGKILL, self.process.pid, self._tag)
        # Reaped only now: until here its id, and the group's, could not come to mean another process.
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=0.1)
        if self._is_apart:
            own_guard().forget(self.process.pid)
        return left

    @property
    def exit_code(self) -> int:
        """Return how it ended, once it was seen off: negative when a signal did it."""
        code = self.process.returncode
        return -SIGKILL if code is None else code

    def end(self, *, in_s: float = 0.0, grace_s: float = 0.0) -> None:
        """End it with all it started, and let go of it: at once, or after so many seconds and SIGTERM.

        `in_s` is how long it may take to end by itself, `grace_s` after SIGTERM. May be called again.
        """
        if not self._is_over:
            if in_s or grace_s:
                # That nobody speaks to it any more may be all it waits for.
                self._close_pipes()
                at = time.monotonic() + in_s
                self._intend((at, signal.SIGTERM), (at + grace_s, SIGKILL))
            else:
                self.kill()
            self.see_off(self.left())
        self._close_pipes()
        self._selector.close()
        if self._exit is not None:
            os.close(self._exit)
            self._exit = None
        if self._first is not None:
            self._first.close()
        self._starting.close()

    def _close_pipes(self) -> None:
        if self._output is not None:
            self._selector.unregister(self._output)
            self._output = None
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _refuse() -> None:
    """Raise OSError where children could be started, but not ended with all that they started.

    Not in its place: what is behind it would be no code for whoever checks types as on Windows.
    """
    raise OSError("midstream starts no programs on Windows yet; within WSL it does")


async def start_child(start: Callable[[], Child]) -> Child:
    """Return what `start` starts, in a thread. Cancelled, it leaves nothing running.

    Raises:
        Exception: whatever `start` raises.
    """
    begun: list[Child] = []
    is_wanted = True

    def started() -> None:
        begun.append(start())
        if not is_wanted:
            begun[0].end()

    try:
        await in_thread(started, name="midstream-start")
    except asyncio.CancelledError:
        # Whoever comes second ends it: the thread where it has not started yet, we where it has.
        is_wanted = False
        if begun:
            await in_thread(begun[0].end, name="midstream-end")
        raise
    return begun[0]


# --- commands, heard to their end -----------------------------------------------------------------


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
    stdin: int = DROPPED,
    stderr: int = MERGED,
) -> Ended:
    """Return how a command ended, once all it started has ended too. `box` makes it a sandboxed one.

    `stdin` is for one without a box, which has its own.

    Setting `stop` ends it softly. Cancelling kills everything at once; the cancellation goes on
    when the processes are gone.

    Raises:
        OSError: the command could not be started.
    """
    command = _Command(
        partial(
            Child,
            argv,
            folder=folder,
            environment=environment,
            stdin=stdin,
            stderr=stderr,
            box=box or Plain,
        ),
        timeout_s=timeout_s,
        sink=sink,
    )
    return await _seen_through(command, stop, "kill")


def run_briefly(
    argv: Sequence[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str],
    timeout_s: float,
    stdin: int = DROPPED,
    stderr: int = DROPPED,
    max_bytes: int,
) -> tuple[Ended, bytes]:
    """Return how a command ended, and what it printed. Blocks until all it started has ended too.

    Raises:
        OSError: the command could not be started.
    """
    kept = Kept(max_bytes)
    command = _Command(
        partial(Child, argv, folder=folder, environment=environment, stdin=stdin, stderr=stderr),
        timeout_s=timeout_s,
        sink=kept,
    )
    return command.run(), bytes(kept.data)


async def run_in_terminal(argv: Sequence[str], *, terminal: int | None = INHERITED) -> Ended:
    """Return how a program of the person's ended that has our terminal meanwhile, such as an editor.

    It writes to the descriptor `terminal`; INHERITED is where we do. Cancelling ends it softly.

    Raises:
        OSError, ValueError: it could not be started.
    """
    command = _Command(
        partial(
            Child,
            argv,
            folder=None,
            environment=os.environ,
            stdin=INHERITED,
            stdout=terminal,
            stderr=terminal,
            is_apart=False,
        ),
        timeout_s=_A_WEEK_S,
        sink=Kept(0),
    )
    return await _seen_through(command, asyncio.Event(), "stop")


async def _seen_through(command: "_Command", stop: asyncio.Event, when_cancelled: Wish) -> Ended:
    async with asyncio.TaskGroup() as group:
        work = group.create_task(in_thread(command.run_or_error, name="midstream-command"))
        soften = group.create_task(_when_set(stop, command))
        try:
            # Shielded: a cancelled command still has to be seen to its end.
            ended = await asyncio.shield(work)
        except asyncio.CancelledError:
            command.tell(when_cancelled)
            # A start may hang for ever. Once begun, it ends in its thread's own time: a clock here would
            # leave it running where the machine stood still before the thread had its turn.
            await asyncio.wait({work}, timeout=None if command.has_begun else KILL_S)
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
    """A command that is heard to its end. `start` is told the pipe that `wakes` its child."""

    def __init__(self, start: Callable[..., Child], *, timeout_s: float, sink: Sink) -> None:
        self._start = start
        self._timeout_s = timeout_s
        self._sink = sink
        self.has_begun = False
        self._wish: Wish = ""
        self._ears, self._mouth = os.pipe()
        if sys.platform != "win32":
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
            return self.run()
        except Exception as error:
            return error

    def run(self) -> Ended:
        """Run it to the end in this thread, which stays: a sandbox ends with the one that started it."""
        try:
            child = self._start(wakes=self._ears)
            self.has_begun = True
            try:
                return self._followed(child)
            finally:
                child.end()
        finally:
            with self._lock:
                self._is_over = True
                os.close(self._ears)
                os.close(self._mouth)

    def _followed(self, child: Child) -> Ended:
        if child.process.stdout is not None:
            child.listen()
        began = time.monotonic()
        deadline = began + self._timeout_s
        cause: Cause = ""
        while not child.has_exited:
            waits = [deadline - time.monotonic(), child.next_signal_s(), self._sink.tick()]
            child.wait(min(wait for wait in waits if wait is not None))
            if self._wish == "kill":
                cause = "stopped"
                break
            if not self._hears(child) and not cause:
                cause = "enough"
                break
            if not cause and self._wish == "stop":
                cause = "stopped"
                child.stop_softly()
            elif not cause and time.monotonic() >= deadline:
                cause = "timed_out"
                child.stop_softly()
            child.send_due()
        left = child.left()
        # A sandbox takes along what is left in it when it ends: how much of that is still to be seen
        # is chance.
        left_behind = 0 if cause or child.is_boxed else len(left)
        is_soft = child.has_exited and cause != "enough" and self._wish != "kill"
        if left and is_soft and not child.is_boxed:
            child.stop_softly(signal.SIGTERM)
        elif left:
            child.kill()
        survivors = child.see_off(left, lambda: self._meanwhile(child))
        # What is still in the pipe, never waiting for more.
        while (data := child.read()) and self._sink.feed(data):
            pass
        return Ended(
            exit_code=child.exit_code,
            cause=cause,
            ran_s=time.monotonic() - began,
            left_behind=left_behind,
            survivors=survivors,
        )

    def _hears(self, child: Child) -> bool:
        data = child.read()
        return not data or self._sink.feed(data)

    def _meanwhile(self, child: Child) -> None:
        """Go on listening to one that is ending, and to the loop."""
        self._hears(child)
        self._sink.tick()
        if self._wish == "kill":
            child.kill()

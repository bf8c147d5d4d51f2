"""Our side of our watchdog: it is started before the first child, and told of a worker's beats."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Final

from midstream.system import process_tree as tree
from midstream.system.offloop import in_thread
from midstream.system.watchdog import BYE, READY, Will, now

SHARE: Final = 0.8
"""The share of its lease after which a worker that did not renew it is killed; it lets go before."""


class _Beside(subprocess.Popen[bytes]):
    """A program that ends after us: that nobody has waited for it, or closed its pipes, is no mistake."""

    def __del__(self) -> None:
        """Say nothing of it."""
        for pipe in (self.stdin, self.stdout):
            if pipe is not None:
                pipe.close()


class Guard:
    """The watchdog of this process. A process has one: `own_guard`."""

    def __init__(self) -> None:
        self.tag: Final = os.urandom(8).hex()
        """What all children of this process are known by."""
        self._failed: Callable[[str], None] = lambda words: None
        self._process: _Beside | None = None
        self._wills: dict[str, Will] = {}
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Have one, if there is none or no more. What is started after that does not outlive us.

        Raises:
            OSError: it cannot be started.
        """
        # What is packed into one program is no interpreter: it would be started a second time.
        if sys.platform == "win32" or getattr(sys, "frozen", False) or not sys.executable:
            return
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()

    async def watch(self, failed: Callable[[str], None]) -> None:
        """Have one that hears of beats, and that knows what foreign code starts here, too.

        Args:
            failed: hears that there is none, or no more, in words.
        """
        self._failed = failed
        if sys.platform == "win32":
            failed("On Windows nothing watches over a worker that hangs: end it yourself.")
            return
        os.environ |= tree.marked(self.tag)
        if not tree.are_seen():
            failed(
                "This system does not tell which processes there are: a worker that hangs is ended, "
                "what it started is not."
            )
        try:
            await in_thread(self.begin)
            await in_thread(self._ready)
        except OSError as error:
            failed(f"There is no watchdog: {error}. End a worker that hangs yourself.")

    def bequeath(self, name: str, will: Will) -> None:
        """Have a function called once nothing of this process is left, however it ended, until `withdraw`.

        Raises:
            OSError: there is no watchdog.
        """
        self._wills[name] = will
        self.begin()
        self._tell(_told({name: will}))

    def withdraw(self, name: str) -> None:
        """Have it called no more."""
        if self._wills.pop(name, None) is not None:
            self._tell(_told({name: None}))

    def add(self, leader: int) -> None:
        """Tell it of a child, where it cannot see by itself which there are; until `forget`."""
        if not tree.are_seen():
            self._tell(f"+{leader}")

    def forget(self, leader: int) -> None:
        """Tell it that nothing of a child is left."""
        if not tree.are_seen():
            self._tell(f"-{leader}")

    def beat(self, said: float, within_s: float) -> None:
        """Tell it that it was said at a time of the loop's clock that this worker lives, for how long."""
        until = now() + said + within_s * SHARE - asyncio.get_running_loop().time()
        if sys.platform != "win32" and within_s != float("inf") and not self._tell(f"{until}"):
            self._failed("The watchdog has ended; another one is started.")
            self.close()
            self.begin()
            self._tell(f"{until}")

    def rest(self) -> None:
        """Tell it that nothing of any run is under way here: until the next beat it has nothing to do."""
        self._tell("inf")

    def close(self) -> None:
        """Say goodbye to it. May be called twice; waits for its end, which is soon."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            os.write(process.stdin.fileno(), BYE + b"\n")
        process.stdin.close()
        process.stdout.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)

    def _start(self) -> None:
        # -P: no module of the folder one stands in is taken for one of ours.
        program = [sys.executable, "-P", "-m", "midstream.system.watchdog"]
        self._process = _Beside(
            [*program, str(os.getpid()), self.tag],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        if sys.platform != "win32":
            os.set_blocking(self._process.stdin.fileno(), False)
        self._tell(_told(dict(self._wills)))

    def _ready(self) -> None:
        """Return once it watches."""
        if self._process is not None:
            assert self._process.stdout is not None
            if self._process.stdout.readline() != READY:
                raise OSError("it did not begin")

    def _tell(self, line: str) -> bool:
        if self._process is None:
            return True  # it never could be started
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), f"{line}\n".encode())
        except OSError:
            return False
        return True


def _told(wills: Mapping[str, Will | None]) -> str:
    return f"!{json.dumps(wills)}"


@cache
def own_guard() -> Guard:
    """Return the watchdog of this process; begun with the first child."""
    return Guard()


_OTHERS: Final[list[Guard]] = []
"""Those of the processes this one was forked from. Their pipes stay open, as `watchdog` says."""


def _forked() -> None:
    """Have none: what another process has started, and its wills, are not ours to end."""
    if own_guard.cache_info().currsize:
        _OTHERS.append(own_guard())
        own_guard.cache_clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forked)

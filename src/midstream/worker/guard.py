"""The worker's side of its watchdog: started before any run is taken, told of each beat, dismissed."""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from midstream.system import process_tree as tree
from midstream.system.offloop import in_thread
from midstream.system.supervisor import INHERITED, PIPED, Child
from midstream.worker.watchdog import BYE, READY, now

SHARE: Final = 0.8
"""The share of its lease after which a worker that did not renew it is killed; it lets go before."""


class Guard:
    """The watchdog of this process. Made and closed on the loop; `begin` before anything is started.

    Args:
        failed: hears that there is none, or no more, in words.
    """

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._tag = os.urandom(8).hex()
        self._child: Child | None = None

    async def begin(self) -> None:
        """Start it. All that this process starts from now on is known to it by a tag."""
        if sys.platform == "win32":
            self._failed("On Windows nothing watches over a worker that hangs: end it yourself.")
            return
        os.environ |= tree.marked(self._tag)
        if not tree.are_seen():
            self._failed(
                "This system does not tell which processes there are: a worker that hangs is ended, "
                "what it started is not."
            )
        try:
            await in_thread(self._start)
            await in_thread(self._ready)
        except OSError as error:
            self._failed(f"There is no watchdog: {error}. End a worker that hangs yourself.")

    def beat(self, said: float, within_s: float) -> None:
        """Tell it that it was said at a time of the loop's clock that this worker lives, for how long."""
        until = now() + said + within_s * SHARE - asyncio.get_running_loop().time()
        if sys.platform != "win32" and within_s != float("inf") and not self._tell(f"{until}"):
            self._failed("The watchdog has ended; another one is started.")
            self.close()
            self._start()
            self._tell(f"{until}")

    def rest(self) -> None:
        """Tell it that nothing of any run is under way here: until the next beat it has nothing to do."""
        self._tell("inf")

    def close(self) -> None:
        """Say goodbye to it. May be called twice; waits for its end, which is soon."""
        child, self._child = self._child, None
        if child is None:
            return
        assert child.process.stdin is not None
        with suppress(OSError):
            os.write(child.process.stdin.fileno(), BYE + b"\n")
        child.end(in_s=1.0, grace_s=1.0)

    def _start(self) -> None:
        if sys.platform == "win32":
            return
        # -P: no module of the folder one stands in is taken for one of ours.
        program = [sys.executable, "-P", "-m", "midstream.worker.watchdog"]
        self._child = Child(
            [*program, str(os.getpid()), self._tag],
            folder=None,
            environment=os.environ,
            stdin=PIPED,
            stdout=PIPED,
            stderr=INHERITED,
        )
        assert self._child.process.stdin is not None
        os.set_blocking(self._child.process.stdin.fileno(), False)

    def _ready(self) -> None:
        """Return once it watches: what is started before that could outlive us unseen."""
        if self._child is not None:
            assert self._child.process.stdout is not None
            if self._child.process.stdout.readline() != READY:
                raise OSError("it did not begin")

    def _tell(self, line: str) -> bool:
        if self._child is None:
            return True  # it never could be started
        assert self._child.process.stdin is not None
        try:
            os.write(self._child.process.stdin.fileno(), f"{line}\n".encode())
        except OSError:
            return False
        return True

"""The postman: takes letters of other processes to the runs of this one, in order and once each.

A letter is handed out until it is marked as delivered. It is marked after its effect is journaled,
and its id makes the effect repeatable: dying in between, or two postmen, deliver it once.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from midstream.core.errors import MidstreamError, UserMistake
from midstream.engine.doorbell import Doorbell
from midstream.ports import Machine
from midstream.storage import Letter, Store

LOOK_EVERY_S = 1.0
"""Seconds between two looks without a ring: rings may be lost."""

LOOK_EVERY_WITHOUT_BELL_S = 0.02


class Postman:
    """Looks for letters when the bell rings, and now and then.

    Args:
        store: where the letters are.
        machine: returns the run of this process with an id, None where its letters are not ours.
        bells: the folder of the doorbells.
    """

    def __init__(
        self, store: Store, machine: Callable[[str], Machine | None], bells: Path | None
    ) -> None:
        self._store = store
        self._machine = machine
        self._wake = asyncio.Event()
        self._bell = Doorbell(bells, store.me, self._wake.set)
        self._task = asyncio.create_task(self._rounds(), name="postman")
        self._busy: dict[str, asyncio.Task[None]] = {}

    def look(self) -> None:
        """Have a look, soon."""
        self._wake.set()

    async def close(self) -> None:
        """Deliver nothing more. What is not delivered waits for the next owner."""
        self._bell.close()
        tasks = (self._task, *self._busy.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _rounds(self) -> None:
        pause_s = LOOK_EVERY_S if self._bell.is_hung else LOOK_EVERY_WITHOUT_BELL_S
        while True:
            with contextlib.suppress(MidstreamError):
                # A store that cannot be read now keeps its letters safe.
                await self._round()
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()

    async def _round(self) -> None:
        # Read while a run's letters are being handed over, some of its may be delivered by now.
        busy = set(self._busy)
        by_run: dict[str, list[Letter]] = {}
        for letter in await self._store.letters():
            by_run.setdefault(letter.run, []).append(letter)
        for run, letters in by_run.items():
            machine = self._machine(run)
            # One task a run: a stop that takes its time holds up no other run's letters.
            if machine is not None and run not in busy:
                task = asyncio.create_task(self._deliver(machine, letters))
                self._busy[run] = task
                task.add_done_callback(partial(self._gone, run))

    def _gone(self, run: str, task: "asyncio.Task[None]") -> None:
        del self._busy[run]
        if not task.cancelled() and task.exception() is None:
            self._wake.set()  # more may have come meanwhile; after an error they have a pause

    async def _deliver(self, machine: Machine, letters: list[Letter]) -> None:
        """Hand letters over in order.

        Raises:
            MidstreamError: this one could not be taken now; it stays, and so do those behind it.
        """
        for letter in letters:
            with contextlib.suppress(UserMistake):
                # What cannot be done any more, such as an answer to nothing, is not tried again.
                await hand_over(machine, letter)
            if self._machine(letter.run) is not machine:
                return  # let go of meanwhile: the next owner has it
            await self._store.delivered(letter.run, letter.id)


async def hand_over(machine: Machine, letter: Letter) -> None:
    """Do to the run what the letter says; returns when that is journaled."""
    match letter.kind:
        case "say":
            await machine.say(
                letter.text,
                question=letter.question,
                unasked=letter.unasked,
                policy=letter.policy,
                source=letter.source,
                id=letter.id,
            )
        case "approve":
            assert letter.question is not None
            await machine.approve(
                letter.question,
                granted=letter.granted,
                for_run=letter.for_run,
                note=letter.text,
            )
        case "withdraw":
            await machine.withdraw(letter.text)
        case "halt":
            await machine.halt()
        case "unsuspend":
            await machine.unsuspend()
        case "stop":
            await machine.stop(letter.text or "stopped by the user")

"""The postman: takes letters of other processes to the runs of this one, in order and once each.

A letter is handed out until it is marked as delivered. It is marked after its effect is journaled,
and its id makes the effect repeatable: dying in between, or two postmen, deliver it once.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from midstream.core.question import Decision
from midstream.language.errors import MidstreamError, UserMistake
from midstream.runtime.engine.wakeup import Doorbell
from midstream.runtime.ports import Machine
from midstream.runtime.storage import Letter, Store

LOOK_EVERY_S = 1.0
"""Seconds between two looks without a ring: rings may be lost."""

SWEEP_EVERY_S = 10.0
"""Seconds between two looks at letters to runs that are not of this process."""

TOGETHER_S = 0.005
"""Seconds in which changes of the store are gathered where there is no bell, and looked into once."""


class Postman:
    """Looks for letters when the bell rings, and now and then; without one when the store changes.

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
        self._ear = None if self._bell.is_hung else asyncio.create_task(self._hear())
        self._judged: set[tuple[str, str]] = set()
        self._sweeps_at = 0.0
        self._busy: dict[str, asyncio.Task[None]] = {}

    def look(self) -> None:
        """Have a look, soon."""
        self._wake.set()

    async def close(self) -> None:
        """Deliver nothing more. What is not delivered waits for the next owner."""
        self._bell.close()
        tasks = [self._task, *self._busy.values()]
        if self._ear is not None:
            tasks.append(self._ear)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _hear(self) -> None:
        """Look whenever something was written, a moment later."""
        while True:
            await self._store.changed(LOOK_EVERY_S)
            # What comes meanwhile is seen too: we look after it, and by then listen again.
            await asyncio.sleep(TOGETHER_S)
            self._wake.set()

    async def _rounds(self) -> None:
        while True:
            with contextlib.suppress(MidstreamError):
                # A store that cannot be read now keeps its letters safe.
                await self._round()
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
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
        strange: list[Letter] = []
        for run, letters in by_run.items():
            machine = self._machine(run)
            if machine is None:
                strange += letters
            # One task a run: a stop that takes its time holds up no other run's letters.
            if machine is not None and run not in busy:
                task = asyncio.create_task(self._deliver(machine, letters))
                self._busy[run] = task
                task.add_done_callback(partial(self._gone, run))
        await self._put_away(strange)

    async def _put_away(self, letters: list[Letter]) -> None:
        """Hand out no more what came to a run that has ended and whose process is gone."""
        letters = [each for each in letters if (each.run, each.id) not in self._judged]
        now = asyncio.get_running_loop().time()
        if not letters or now < self._sweeps_at:
            return
        self._sweeps_at = now + SWEEP_EVERY_S
        kept = {id: await self._store.lineage(id) for id in {letter.run for letter in letters}}
        for letter in letters:
            run = next(iter(kept[letter.run]), None)
            if run is None or run.owner or run.damaged:
                continue  # its owner sees to it
            if run.summary.is_over:
                await self._store.delivered(letter.run, letter.id)
            else:
                # Whoever goes on with it or ends it sees to its letters.
                self._judged.add((letter.run, letter.id))

    def _gone(self, run: str, task: "asyncio.Task[None]") -> None:
        del self._busy[run]
        if not task.cancelled() and task.exception() is None:
            self._wake.set()  # more may have come meanwhile; after an error they have a pause

    async def _deliver(self, machine: Machine, letters: list[Letter]) -> None:
        await deliver(self._store, self._machine, machine, letters)


async def deliver(
    store: Store,
    addressee: Callable[[str], Machine | None],
    machine: Machine,
    letters: list[Letter],
) -> None:
    """Hand letters over to a run in order, as long as it is the addressee.

    Raises:
        MidstreamError: this one could not be taken now; it stays, and so do those behind it.
    """
    for letter in letters:
        with contextlib.suppress(UserMistake):
            # What cannot be done any more, such as an answer to nothing, is not tried again.
            await hand_over(machine, letter)
        if addressee(letter.run) is not machine:
            return  # let go of meanwhile: the next owner has it
        await store.delivered(letter.run, letter.id)


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
            decision = Decision(
                granted=letter.granted,
                for_run=letter.for_run,
                note=letter.text,
                edited=letter.edited,
            )
            await machine.approve(letter.question, decision)
        case "revoke":
            await machine.revoke(letter.text)
        case "compact":
            await machine.compact(letter.text)
        case "rename":
            await machine.rename(letter.text)
        case "withdraw":
            await machine.withdraw(letter.text)
        case "halt":
            await machine.halt()
        case "unsuspend":
            await machine.unsuspend()
        case "stop":
            await machine.stop(letter.text or "stopped by the user")

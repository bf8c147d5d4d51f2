"""The dispatcher: takes messages of other processes to the runs of this one, in order and once each.

A message is handed out until it is marked as delivered. It is marked after its effect is journaled,
and its id makes the effect repeatable: dying in between, or two postmen, deliver it once.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from midstream.core.question import Decision
from midstream.language.errors import MidstreamError, UserMistake
from midstream.runtime.engine.wakeup import WakeUpSocket
from midstream.runtime.ports import Machine
from midstream.runtime.storage import Mail, Store

LOOK_EVERY_S = 1.0
"""Seconds between two looks without a call: calls may be lost."""

SWEEP_EVERY_S = 10.0
"""Seconds between two looks at messages to runs that are not of this process."""

TOGETHER_S = 0.005
"""Seconds in which changes of the store are gathered where there is no socket, and looked into once."""


class MailDispatcher:
    """Looks for messages when it is woken, and now and then; without one when the store changes.

    Args:
        store: where the messages are.
        machine: returns the run of this process with an id, None where its messages are not ours.
        sockets: the folder of the wake-up sockets.
    """

    def __init__(
        self, store: Store, machine: Callable[[str], Machine | None], sockets: Path | None
    ) -> None:
        self._store = store
        self._machine = machine
        self._wake = asyncio.Event()
        self._socket = WakeUpSocket(sockets, store.me, self._wake.set)
        self._task = asyncio.create_task(self._rounds(), name="dispatcher")
        self._ear = None if self._socket.is_open else asyncio.create_task(self._hear())
        self._judged: set[tuple[str, str]] = set()
        self._sweeps_at = 0.0
        self._busy: dict[str, asyncio.Task[None]] = {}

    def look(self) -> None:
        """Have a look, soon."""
        self._wake.set()

    async def close(self) -> None:
        """Deliver nothing more. What is not delivered waits for the next owner."""
        self._socket.close()
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
                # A store that cannot be read now keeps its messages safe.
                await self._round()
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()

    async def _round(self) -> None:
        # Read while a run's messages are being handed over, some of its may be delivered by now.
        busy = set(self._busy)
        by_run: dict[str, list[Mail]] = {}
        for mail in await self._store.mail():
            by_run.setdefault(mail.run, []).append(mail)
        strange: list[Mail] = []
        for run, mails in by_run.items():
            machine = self._machine(run)
            if machine is None:
                strange += mails
            # One task a run: a stop that takes its time holds up no other run's messages.
            if machine is not None and run not in busy:
                task = asyncio.create_task(self._deliver(machine, mails))
                self._busy[run] = task
                task.add_done_callback(partial(self._gone, run))
        await self._put_away(strange)

    async def _put_away(self, mails: list[Mail]) -> None:
        """Hand out no more what came to a run that has ended and whose process is gone."""
        mails = [each for each in mails if (each.run, each.id) not in self._judged]
        now = asyncio.get_running_loop().time()
        if not mails or now < self._sweeps_at:
            return
        self._sweeps_at = now + SWEEP_EVERY_S
        kept = {id: await self._store.lineage(id) for id in {mail.run for mail in mails}}
        for mail in mails:
            run = next(iter(kept[mail.run]), None)
            if run is None or run.owner or run.damaged:
                continue  # its owner sees to it
            if run.summary.is_over:
                await self._store.delivered(mail.run, mail.id)
            else:
                # Whoever goes on with it or ends it sees to its messages.
                self._judged.add((mail.run, mail.id))

    def _gone(self, run: str, task: "asyncio.Task[None]") -> None:
        del self._busy[run]
        if not task.cancelled() and task.exception() is None:
            self._wake.set()  # more may have come meanwhile; after an error they have a pause

    async def _deliver(self, machine: Machine, mails: list[Mail]) -> None:
        await deliver(self._store, self._machine, machine, mails)


async def deliver(
    store: Store,
    addressee: Callable[[str], Machine | None],
    machine: Machine,
    mails: list[Mail],
) -> None:
    """Hand messages over to a run in order, as long as it is the addressee.

    Raises:
        MidstreamError: this one could not be taken now; it stays, and so do those behind it.
    """
    for mail in mails:
        with contextlib.suppress(UserMistake):
            # What cannot be done any more, such as an answer to nothing, is not tried again.
            await hand_over(machine, mail)
        if addressee(mail.run) is not machine:
            return  # let go of meanwhile: the next owner has it
        await store.delivered(mail.run, mail.id)


async def hand_over(machine: Machine, mail: Mail) -> None:
    """Do to the run what the message says; returns when that is journaled."""
    match mail.kind:
        case "say":
            await machine.say(
                mail.text,
                question=mail.question,
                unasked=mail.unasked,
                policy=mail.policy,
                source=mail.source,
                id=mail.id,
            )
        case "approve":
            assert mail.question is not None
            decision = Decision(
                granted=mail.granted,
                for_run=mail.for_run,
                note=mail.text,
                edited=mail.edited,
            )
            await machine.approve(mail.question, decision)
        case "revoke":
            await machine.revoke(mail.text)
        case "compact":
            await machine.compact(mail.text)
        case "rename":
            await machine.rename(mail.text)
        case "withdraw":
            await machine.withdraw(mail.text)
        case "halt":
            await machine.halt()
        case "unsuspend":
            await machine.unsuspend()
        case "stop":
            await machine.stop(mail.text or "stopped by the user")

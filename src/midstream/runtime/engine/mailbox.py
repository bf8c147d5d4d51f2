"""What other processes have for the runs of this one: mail, for which its owner is woken.

A message is handed out until it is marked as delivered. It is marked after its effect is journaled,
and its id makes the effect repeatable: dying in between, or two dispatchers, deliver it once.

A call that wakes may be lost: the message is in the store, and the owner looks there now and then anyway.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from midstream.core.question import Decision
from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.runtime.ports import Machine
from midstream.runtime.storage import KEPT, Mail, Store
from midstream.system.offloop import cancel_all

LOOK_EVERY_S = 1.0
"""Seconds between two looks without a call: calls may be lost."""

SWEEP_EVERY_S = 10.0
"""Seconds between two looks at messages to runs that are not of this process."""


class MailDispatcher:
    """Looks for messages when its store is called, and now and then.

    Args:
        store: where the messages are.
        machine: returns the run of this process with an id, None where its messages are not ours.
        is_heard: returns whether a message is being taken here already: what is behind it need not wait.
        has_runs: returns whether this process has runs at all: else nothing is looked for.
    """

    def __init__(
        self,
        store: Store,
        machine: Callable[[str], Machine | None],
        is_heard: Callable[[Mail], bool],
        has_runs: Callable[[], bool],
    ) -> None:
        self._store = store
        self._machine = machine
        self._is_heard = is_heard
        self._has_runs = has_runs
        self._wake = asyncio.Event()
        # First of all it can be called: what is sent after the first look is then not found late.
        self._ear = asyncio.create_task(self._hear(), name="hear calls")
        self._task = asyncio.create_task(self._rounds(), name="dispatcher")
        self._judged: set[tuple[str, str]] = set()
        self._sweeps_at = 0.0
        self._busy: dict[str, asyncio.Task[None]] = {}

    def look(self) -> None:
        """Have a look, soon."""
        self._wake.set()

    async def close(self) -> None:
        """Deliver nothing more. What is not delivered waits for the next owner."""
        await cancel_all(self._task, self._ear, *self._busy.values())

    async def _hear(self) -> None:
        async with contextlib.aclosing(self._store.rings()) as rings:
            async for _ in rings:
                self._wake.set()

    async def _rounds(self) -> None:
        while True:
            with contextlib.suppress(MidstreamError):
                # A store that cannot be read now keeps its messages safe.
                if self._has_runs():
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
        for mail in await self._store.mail(self._store.me):
            if not self._is_heard(mail):
                by_run.setdefault(mail.run, []).append(mail)
        for run, mails in by_run.items():
            machine = self._machine(run)
            # One task a run: a stop that takes its time holds up no other run's messages.
            if machine is not None and run not in busy:
                task = asyncio.create_task(deliver(self._store, self._machine, machine, mails))
                self._busy[run] = task
                task.add_done_callback(partial(self._gone, run))
        await self._put_away()

    async def _put_away(self) -> None:
        """Hand out no more what came to a run that has ended and whose process is gone."""
        now = asyncio.get_running_loop().time()
        if now < self._sweeps_at:
            return
        self._sweeps_at = now + SWEEP_EVERY_S
        every = await self._store.mail("")
        mails = [each for each in every if (each.run, each.id) not in self._judged]
        kept = {id: await self._store.run(id) for id in {mail.run for mail in mails}}
        for mail in mails:
            run = kept[mail.run]
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
        # Marked last, and only by whoever still owns the run: the effect on one that was let go of in
        # between is perhaps not journaled. Its next owner delivers again, and the id makes once of twice.
        if addressee(mail.run) is not machine:
            return
        await store.delivered(mail.run, mail.id)


async def hand_over(machine: Machine, mail: Mail) -> None:
    """Do to the run what the message says; returns when that is journaled."""
    match mail.kind:
        case "say":
            receipt = await machine.say(
                mail.text,
                question=mail.question,
                unasked=mail.unasked,
                policy=mail.policy,
                source=mail.source,
                id=mail.id,
            )
            if receipt.reason == KEPT:
                raise WorldTrouble(f"The run {mail.run} hears nothing now.", hint=KEPT)
        case "approve":
            assert mail.question is not None
            decision = Decision(
                granted=mail.granted,
                for_run=mail.for_run,
                note=mail.text,
                edited=mail.edited,
                mode=mail.mode,
            )
            await machine.approve(mail.question, decision)
        case "revoke":
            await machine.revoke(mail.text)
        case "compact":
            await machine.compact(mail.text, room=mail.room)
        case "rename":
            await machine.rename(mail.text)
        case "todo":
            await machine.edit_todo(mail.text)
        case "withdraw":
            await machine.withdraw(mail.text)
        case "halt":
            await machine.halt()
        case "unsuspend":
            await machine.unsuspend()
        case "stop":
            await machine.stop(mail.text or "stopped by the user")

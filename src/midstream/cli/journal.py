"""The journal for commands about runs of any process. They need no model, no settings and no trust."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from midstream.app.assembly import Options, SystemClock, clock_of, opened_store, sockets_folder
from midstream.config.manager import ConfigManager
from midstream.core.notices import Envelope
from midstream.runtime.engine.remote import RemoteMachine
from midstream.runtime.storage import Store
from midstream.system.offloop import in_thread
from midstream.system.own_process import HANGUPS, run_until_signalled

T = TypeVar("T")


class Journal(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The open store, where it is, for people, and the folder where the owners of runs can be woken."""

    store: Store
    shown: str
    sockets: Path

    @property
    def clock(self) -> SystemClock:
        """Return the time of its runs."""
        return clock_of(self.store)

    @asynccontextmanager
    async def attached(
        self, id: str, tap: Callable[[Envelope], None] | None = None
    ) -> AsyncIterator[RemoteMachine]:
        """Give a run of another process, or of none."""
        machine = await RemoteMachine.attached(
            self.store, id, sockets=self.sockets, clock=self.clock, tap=tap
        )
        try:
            yield machine
        finally:
            await machine.aclose()


def with_journal(options: Options, work: Callable[[Journal], Awaitable[T]]) -> T:
    """Return what some work with the journal of the settings returns; it is closed again.

    Raises:
        Signalled: a signal ended it.
        WorldTrouble: it cannot be opened.
    """

    async def worked() -> T:
        config = await in_thread(lambda: ConfigManager(options.workspace))
        store = await in_thread(lambda: opened_store(config))
        try:
            return await work(
                Journal(store=store, shown=config.journal_shown, sockets=sockets_folder(config))
            )
        finally:
            await store.aclose()

    return run_until_signalled(worked(), signals=(signal.SIGINT, *HANGUPS))

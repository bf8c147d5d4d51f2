"""Other processes of the journal that are slow or stopped: nobody's run fails, none has two owners."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import apsw
import pytest

from midstream.core.notices import Envelope, JournalStalled, JournalWorks
from midstream.language.errors import RunOwned
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.open_run import opened
from midstream.runtime.state_machine import STALL_RETRY_S
from midstream.store import schema
from midstream.store.sqlite import SqliteStore
from midstream.testing.contracts import fact
from midstream.testing.fakes import (
    Chronicle,
    Gate,
    JumpingClock,
    ScriptedModel,
    define,
    fake_world,
    says,
)

FLOW = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}],
}

OWNER = """
import asyncio, sys
from pathlib import Path
from midstream.store.sqlite import SqliteStore
from midstream.testing.contracts import fact

async def main():
    store = SqliteStore.opened(Path(sys.argv[1]))
    await store.append("r", 0, [fact("r", 1)])
    await store.claim("r")
    print("claimed", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


async def test_a_journal_another_process_holds_on_to_fails_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "BUSY_MS", 20)
    path, gate, told = tmp_path / "journal.db", Gate(), Chronicle()
    clock, stalled = JumpingClock(), asyncio.Event()

    def hear(envelope: Envelope) -> None:
        if isinstance(envelope.event, JournalStalled):
            stalled.set()

    store = SqliteStore.opened(path)
    model = ScriptedModel(says("Done.", gate=gate))
    world = fake_world(model, journal=store, blobs=store, clock=clock)
    engine = LocalEngine(world, store)
    engine.listen(told)
    engine.listen(hear)
    machine = await engine.start(define(FLOW))
    await gate.reached()
    holder = apsw.Connection(str(path))
    holder.execute("begin immediate")
    gate.open()
    await stalled.wait()
    holder.execute("rollback")
    holder.close()
    while not machine.is_closed:
        clock.jump(STALL_RETRY_S)
        await asyncio.sleep(0.001)
    run = await machine.wait()

    assert (run.status, run.output) == ("finished", "Done.")
    assert told.of(JournalWorks)
    assert await opened(store, machine.id) == run
    await engine.close()


async def test_the_run_of_a_process_that_is_stopped_is_not_taken_and_of_a_killed_one_is(
    journal_path: Path,
) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, str(journal_path), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    assert await owner.stdout.readline() == b"claimed\n"
    store = SqliteStore.opened(journal_path)
    os.kill(owner.pid, signal.SIGSTOP)
    with pytest.raises(RunOwned):
        await store.claim("r")
    owner.kill()
    await owner.wait()

    assert (await store.claim("r")).was_cut
    await store.append("r", 1, [fact("r", 2)])
    await store.aclose()

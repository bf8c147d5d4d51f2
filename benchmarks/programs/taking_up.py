"""A process that takes up the run `long` of a journal, once, and prints the milliseconds of CPU of it."""

import asyncio
import sys
from pathlib import Path
from time import process_time

from midstream.runtime.engine.local import LocalEngine
from midstream.store.sqlite import SqliteStore
from midstream.testing.fakes import ScriptedModel, fake_world


async def main(path: Path) -> None:
    """Take it up; it stays as it was but for that."""
    store = SqliteStore.opened(path)
    engine = LocalEngine(fake_world(ScriptedModel(), journal=store), store)
    began = process_time()
    await engine.resume("long")
    print((process_time() - began) * 1e3)
    await engine.close()


asyncio.run(main(Path(sys.argv[1])))

"""Two owners of one store: what two processes are, in memory and over SQLite, or PostgreSQL."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

import pytest
from deadline import DEADLINE_S as DEADLINE_S
from deadline import wait_until
from postgres_kit import lives
from support.memory_pool import MemoryPool

from midstream.runtime.storage import Store
from midstream.store.postgres.store import PostgresStore
from midstream.store.sqlite import SqliteStore

AnyStore: TypeAlias = MemoryPool | SqliteStore | PostgresStore


class Place:
    """Opens stores of the same contents: in memory, in a file, or at the address of a database."""

    def __init__(self, folder: Path, kind: str, address: str = "") -> None:
        self._address = address
        self._first = MemoryPool() if kind == "memory" else None
        self._path = folder / "journal.db"
        self._opened: list[AnyStore] = []
        self.sockets = None if kind == "memory" else Path(f"{self._path}.d")
        self.far_sockets = self.sockets
        """Those that who watches looks at: others, where it is on another machine."""

    def open(self) -> AnyStore:
        """Return one more owner."""
        if self._first is not None:
            self._opened.append(self._first.beside())
        elif self._address:
            self._opened.append(PostgresStore.opened(self._address))
        else:
            self._opened.append(SqliteStore.opened(self._path))
        return self._opened[-1]

    def kill(self, store: Store) -> None:
        """Let an owner die as a killed process does."""
        if isinstance(store, MemoryPool):
            store.die()
            return
        assert isinstance(store, SqliteStore | PostgresStore)
        store.close(is_cut=True)
        self._opened.remove(store)
        if self._address:
            wait_until(lambda: not lives(self._address, store.me), "the server sees a death")

    async def close(self) -> None:
        """Close all that live."""
        for store in self._opened:
            await store.aclose()


@pytest.fixture(params=["memory", "lasting"])
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, journal_address: str
) -> AsyncIterator[Place]:
    """Give a place that both owners know."""
    made = Place(tmp_path, request.param, journal_address)
    yield made
    await made.close()

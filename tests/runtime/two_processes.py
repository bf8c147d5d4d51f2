"""Two owners of one store: what two processes are, in memory and over SQLite."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from deadline import DEADLINE_S as DEADLINE_S

from midstream.runtime.storage import Store
from midstream.store.memory import MemoryStore
from midstream.store.sqlite import SqliteStore


class Place:
    """Opens stores of the same contents."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._first = MemoryStore() if kind == "memory" else None
        self._path = folder / "journal.db"
        self._opened: list[MemoryStore | SqliteStore] = []
        self.sockets = None if kind == "memory" else Path(f"{self._path}.d")
        self.far_sockets = self.sockets
        """Those that who watches looks at: others, where it is on another machine."""

    def open(self) -> MemoryStore | SqliteStore:
        """Return one more owner."""
        memory = self._first
        self._opened.append(memory.beside() if memory else SqliteStore.opened(self._path))
        return self._opened[-1]

    def kill(self, store: Store) -> None:
        """Let an owner die as a killed process does."""
        if isinstance(store, MemoryStore):
            store.die()
        else:
            assert isinstance(store, SqliteStore)
            store.close(is_cut=True)
            self._opened.remove(store)

    async def close(self) -> None:
        """Close all that live."""
        for store in self._opened:
            await store.aclose()


@pytest.fixture(params=["memory", "sqlite"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give a place that both owners know."""
    made = Place(tmp_path, request.param)
    yield made
    await made.close()

"""Both stores keep the whole contract of the port, and so does the pool that tests of workers use."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from support.memory_pool import MemoryPool
from support.store_contracts import Another, Cut, PoolContract, StoreContract

from midstream.runtime.storage import Store
from midstream.store.memory import MemoryStore
from midstream.store.sqlite import SqliteStore


class _InMemory:
    made: Callable[[], MemoryStore] = MemoryStore

    @pytest.fixture
    def store(self) -> MemoryStore:
        return type(self).made()

    @pytest.fixture
    def journal(self, store: MemoryStore) -> MemoryStore:
        return store

    @pytest.fixture
    def another(self, store: MemoryStore) -> Another:
        async def beside() -> Store:
            return store.beside()

        return beside

    @pytest.fixture
    def cut(self) -> Cut:
        async def die(store: Store) -> None:
            assert isinstance(store, MemoryStore)
            store.die()

        return die


class TestMemoryStore(_InMemory, StoreContract):
    pass


class TestMemoryPool(_InMemory, StoreContract, PoolContract):
    made = MemoryPool


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def opened(self, tmp_path: Path) -> AsyncIterator[list[SqliteStore]]:
        opened = [SqliteStore.opened(tmp_path / "journal.db")]
        yield opened
        for store in opened:
            await store.aclose()

    @pytest.fixture
    def store(self, opened: list[SqliteStore]) -> SqliteStore:
        return opened[0]

    @pytest.fixture
    def journal(self, store: SqliteStore) -> SqliteStore:
        return store

    @pytest.fixture
    def another(self, opened: list[SqliteStore], tmp_path: Path) -> Another:
        async def open_again() -> Store:
            opened.append(SqliteStore.opened(tmp_path / "journal.db"))
            return opened[-1]

        return open_again

    @pytest.fixture
    def cut(self) -> Cut:
        async def die(store: Store) -> None:
            assert isinstance(store, SqliteStore)
            store.close(is_cut=True)

        return die

"""The store in PostgreSQL keeps the whole contract of the port, and that of a pool."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from deadline import wait_until
from support.store_contracts import Another, Cut, PoolContract, StoreContract

from midstream.runtime.storage import Store

pytest.importorskip("psycopg")

from postgres_kit import lives

from midstream.store.postgres.store import PostgresStore


class TestPostgresStore(StoreContract, PoolContract):
    blobs = ""

    @pytest.fixture
    async def opened(self, emptied: Callable[[], str]) -> AsyncIterator[list[PostgresStore]]:
        self.url = await asyncio.to_thread(emptied)
        opened = [PostgresStore.opened(self.url, blobs=self.blobs)]
        yield opened
        for store in opened:
            await store.aclose()

    @pytest.fixture
    def store(self, opened: list[PostgresStore]) -> PostgresStore:
        return opened[0]

    @pytest.fixture
    def journal(self, store: PostgresStore) -> PostgresStore:
        return store

    @pytest.fixture
    def another(self, opened: list[PostgresStore]) -> Another:
        async def open_again() -> Store:
            opened.append(PostgresStore.opened(self.url, blobs=self.blobs))
            return opened[-1]

        return open_again

    @pytest.fixture
    def cut(self) -> Cut:
        async def die(store: Store) -> None:
            assert isinstance(store, PostgresStore)
            store.close(is_cut=True)
            # The kernel says at once that its connections are gone; the server hears it a moment later.
            await asyncio.to_thread(wait_until, lambda: not lives(self.url, store.me), "it is dead")

        return die

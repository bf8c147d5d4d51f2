"""The fixture of tests that need a database: a server of the process, started when first asked for."""

from collections.abc import Callable, Iterator

import pytest
from left_out import leave_out
from support.postgres import LACKING, PostgresServer


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what needs a server where there is none."""
    leave_out(items, lambda item: LACKING if _needs_one(item) and LACKING else None)


def _needs_one(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and "postgres" in item.fixturenames


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Give the PostgreSQL server that the tests of this process share. Do not stop it: make your own."""
    with PostgresServer.made() as server:
        yield server


@pytest.fixture(scope="module")
def emptied(postgres: PostgresServer) -> Callable[[], str]:
    """Return what empties a database that many tests use: to make a new one costs more."""
    address = postgres.database()

    def empty() -> str:
        postgres.sql("drop schema if exists midstream cascade", address.rpartition("/")[2])
        return address

    return empty


@pytest.fixture
def database(postgres: PostgresServer) -> Callable[[], str]:
    """Make a fresh database with each call, and return its address."""
    return postgres.database

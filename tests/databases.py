"""Where the runs of a test are kept: in a file of its own, or in a database of a server of the tests' own.

A test marked `both_journals` is done on either. `pytest --journal postgresql` does every test in a
database, but for those about the file, marked `journal_file`; `make torture` does so with all that
drive the program.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from left_out import leave_out
from support.postgres import LACKING, PostgresServer

from midstream.config.directories import JOURNAL_VARIABLE

JOURNALS = ("sqlite", "postgresql")
_FIXTURE = "journal_address"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Make the option known."""
    parser.addoption("--journal", choices=JOURNALS, help="keep the runs of every test there")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marks known."""
    config.addinivalue_line("markers", "both_journals: its runs are in a file, and in a database")
    config.addinivalue_line("markers", "journal_file: about the file that runs are kept in")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make two of a test that is done on either."""
    if metafunc.definition.get_closest_marker("both_journals"):
        asked = metafunc.config.getoption("journal")
        metafunc.parametrize(_FIXTURE, [asked] if asked else JOURNALS, indirect=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a server where there is none, or a file where there is to be none."""
    leave_out(items, lambda item: LACKING if needs_server(item) and LACKING else None)
    if config.getoption("journal") == "postgresql":
        why = "it is about the file that runs are kept in"
        leave_out(items, lambda item: why if item.get_closest_marker("journal_file") else None)


def needs_server(item: pytest.Item) -> bool:
    """Return whether a test needs PostgreSQL."""
    if not isinstance(item, pytest.Function):
        return False
    is_in_one = hasattr(item, "callspec") and item.callspec.params.get(_FIXTURE) == "postgresql"
    return is_in_one or "postgres" in item.fixturenames


@pytest.fixture
def journal_path(tmp_path: Path) -> Path:
    """Return where the journal of a test goes that is about the file: there is none yet."""
    return tmp_path / "journal.db"


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


@pytest.fixture(autouse=True)
def journal_address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Keep the runs of this test where they are to be; give the address of its database, "" for a file."""
    where = getattr(request, "param", None) or request.config.getoption("journal")
    if where != "postgresql":
        yield ""
        return
    address = request.getfixturevalue("postgres").database()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(JOURNAL_VARIABLE, address)
        yield address

"""What a person is told where the database cannot be used, and that no password is in it."""

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.postgres import PostgresServer

from midstream.app.assembly import opened_store
from midstream.config.directories import JOURNAL_VARIABLE, shown_address
from midstream.config.manager import ConfigManager
from midstream.language.errors import JournalTooNew, MidstreamError, UserMistake, WorldTrouble
from midstream.safety.redaction import Redactor, secret_values
from midstream.store.postgres import store
from midstream.store.postgres.link import Address

PASSWORD = "correct-horse-battery"


def config_with(journal: str, folder: Path) -> ConfigManager:
    """Return settings whose runs are kept there."""
    config = ConfigManager(folder, environ={JOURNAL_VARIABLE: journal, "HOME": str(folder)})
    assert config.database == journal
    return config


def refused(journal: str, folder: Path) -> MidstreamError:
    """Return the error that opening a journal ends with."""
    with pytest.raises(MidstreamError) as caught:
        opened_store(config_with(journal, folder)).close()
    error = caught.value
    assert PASSWORD not in f"{error} {error.__cause__} {error.__cause__!r}"
    assert error.hint
    return error


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:secret@db:5432/runs?password=secret", "postgresql://me@db:5432/runs"),
        ("postgres://me@db/runs", "postgres://me@db/runs"),
        ("postgresql://:secret@db", "postgresql://db"),
        ("postgresql://me:s/e@c:ret@db/runs", "postgresql://me@db/runs"),
        ("postgresql:///runs?host=/tmp&password=secret", "postgresql:///runs"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert shown_address(address) == shown


def test_the_password_of_the_journal_is_redacted_everywhere() -> None:
    redactor = Redactor(secret_values({JOURNAL_VARIABLE: f"postgresql://me:{PASSWORD}@db/runs"}))

    assert PASSWORD not in redactor.redacted(f"it is {PASSWORD}, they say")


def test_a_file_is_a_file(tmp_path: Path) -> None:
    config = ConfigManager(tmp_path, environ={JOURNAL_VARIABLE: str(tmp_path / "runs.db")})

    assert (config.database, config.journal) == ("", tmp_path / "runs.db")
    config.keep_runs_in(f"postgresql://me:{PASSWORD}@db/runs")
    assert config.journal_shown == "postgresql://me@db/runs"
    assert config.journal.parent == config.state_dir
    config.keep_runs_in(tmp_path / "others.db")
    assert config.journal_shown == str(tmp_path / "others.db")


def test_without_psycopg_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("midstream.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    error = refused(f"postgresql://me:{PASSWORD}@db/runs", tmp_path)

    assert isinstance(error, UserMistake)
    assert "postgresql://me@db/runs" in error.what
    assert 'pip install "midstream[postgres]"' in error.hint


def test_what_is_wrong_with_an_address_or_a_server_is_said(
    postgres: PostgresServer, database: Callable[[], str], tmp_path: Path
) -> None:
    here = f"127.0.0.1:{postgres.port}"
    there = database().rpartition("/")[2]
    wrong = {
        f"postgresql://me:{PASSWORD}@{here}/{there}?no=such": "is no address",
        f"mysql://me:{PASSWORD}@{here}/{there}": "is no address of a PostgreSQL database",
        f"postgresql+asyncpg://me:{PASSWORD}@{here}/{there}": "is no address",
        f"postgresql://midstream:{PASSWORD}@127.0.0.1:1/runs": "cannot be reached",
        f"postgresql://midstream:{PASSWORD}@{here}/nothing": "has no such database",
        f"postgresql://nobody:{PASSWORD}@{here}/{there}": "has no such user",
        f"postgresql://midstream:{PASSWORD}@{here}/{there}?sslmode=require": "TLS",
    }
    for address, what in wrong.items():
        assert what in refused(address, tmp_path).what


def test_what_is_waited_for_is_said_while_a_server_gives_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    server = socket.create_server(("127.0.0.1", 0))

    def hear(words: str) -> None:
        told.append(words)
        server.accept()[0].close()
        server.close()

    monkeypatch.setattr(store, "complain", hear)
    monkeypatch.setattr(store, "WORD_AFTER_S", 0.0)
    port = server.getsockname()[1]
    with server:
        error = refused(f"postgresql://me:secret@127.0.0.1:{port}/x", tmp_path)

    assert isinstance(error, WorldTrouble)
    assert told == [
        f"The journal postgresql://me@127.0.0.1:{port}/x gives no answer yet; midstream waits up to 10 s"
        " for it (connect_timeout in its address)."
    ]


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("h/x", 10), ("h/x?connect_timeout=4", 4), ("a,b/x", 6), ("a,b/x?connect_timeout=4", 8)],
)
def test_how_long_it_is_waited_for_is_what_the_address_says(said: str, seconds: int) -> None:
    assert Address(f"postgresql://{said}").connect_s == seconds


def test_a_wrong_password_is_said(
    postgres: PostgresServer, database: Callable[[], str], tmp_path: Path
) -> None:
    there = database().rpartition("/")[2]
    postgres.sql("create role guarded login password 'other'")
    rules = postgres.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{before}")
    postgres.sql("select pg_reload_conf()")
    try:
        address = f"postgresql://guarded:{PASSWORD}@127.0.0.1:{postgres.port}/{there}"
        error = refused(address, tmp_path)
    finally:
        rules.write_text(before)
        postgres.sql("select pg_reload_conf()")

    assert "lets nobody in that way" in error.what


def test_who_may_not_make_the_tables_is_told_which_rights_are_lacking(
    postgres: PostgresServer, database: Callable[[], str], tmp_path: Path
) -> None:
    there = database().rpartition("/")[2]
    postgres.sql("create role guest login")
    error = refused(f"postgresql://guest@127.0.0.1:{postgres.port}/{there}", tmp_path)

    assert isinstance(error, WorldTrouble)
    assert "does not let this user do that" in error.what
    assert "docs/many_machines.md" in error.hint


def test_tables_of_a_newer_midstream_are_used_if_it_says_so_and_else_left_alone(
    postgres: PostgresServer, database: Callable[[], str], tmp_path: Path
) -> None:
    address = database()
    there = address.rpartition("/")[2]
    opened_store(config_with(address, tmp_path)).close()
    postgres.sql("insert into midstream.versions(version, least) values (998, 1)", there)
    opened_store(config_with(address, tmp_path)).close()
    postgres.sql("insert into midstream.versions(version, least) values (999, 998)", there)
    error = refused(address, tmp_path)

    assert isinstance(error, JournalTooNew)
    assert "version 999" in error.what


def test_a_schema_of_the_same_name_is_not_touched(
    postgres: PostgresServer, database: Callable[[], str], tmp_path: Path
) -> None:
    address = database()
    there = address.rpartition("/")[2]
    postgres.sql("create schema midstream", there)
    postgres.sql("create table midstream.runs(id integer)", there)

    assert "something else" in refused(address, tmp_path).what

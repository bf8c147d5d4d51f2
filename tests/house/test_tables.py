"""A table tries every row, each by itself, and says of all that do not hold which they are."""

from pathlib import Path
from typing import Any

import pytest
from tables import table

TRIED: list[Any] = []


@table("n", [1, 2, 3], ids=lambda n: f"number {n}")
def odd(n: int) -> None:
    TRIED.append(n)
    assert n % 2


@table("n, word", [(1, "a"), pytest.param(2, "b", id="the second")])
@table("flag", [True, False])
def pairs(n: int, word: str, flag: bool) -> None:
    TRIED.append((n, word, flag))
    if flag:
        pytest.fail("a flag")


@table("n", range(7), parts=3)
def shared_out(n: int) -> None:
    TRIED.append(n)


def test_every_row_is_tried_and_each_that_fails_is_named() -> None:
    TRIED.clear()
    with pytest.raises(AssertionError, match="1 of 3 rows do not hold") as failed:
        odd(None)

    assert TRIED == [1, 2, 3]
    assert "* number 2\n  {'n': 2}\n  test_tables.py:" in str(failed.value)
    assert "number 1" not in str(failed.value)


def test_tables_on_top_of_each_other_try_every_pair() -> None:
    TRIED.clear()
    with pytest.raises(AssertionError, match="2 of 4 rows do not hold") as failed:
        pairs(None)

    assert sorted(TRIED) == [(n, w, f) for n, w in ((1, "a"), (2, "b")) for f in (False, True)]
    assert "the second, True" in str(failed.value)


def test_rows_are_shared_among_the_parts_of_a_table() -> None:
    TRIED.clear()
    for part in range(3):
        shared_out(None, part=part)

    assert sorted(TRIED) == [*range(7)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("A_FOLDER", str(tmp_path))
    return tmp_path


SEEN: list[Path] = []


@table("name", ["a", "b"])
def test_each_row_has_its_fixtures_for_itself(folder: Path, tmp_path: Path, name: str) -> None:
    assert folder == tmp_path
    assert [*tmp_path.iterdir()] == []
    (tmp_path / name).touch()
    SEEN.append(tmp_path)
    assert len(set(SEEN)) == len(SEEN)

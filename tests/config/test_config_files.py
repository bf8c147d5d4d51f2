"""Reading with a cap, writing whole or not at all."""

import os
import threading
from pathlib import Path

import pytest

from midstream.config.private_files import FileMissing, read_capped, write_whole
from midstream.language.errors import WorldTrouble


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    write_whole(tmp_path / "new" / "f", b"one")
    write_whole(tmp_path / "new" / "f", b"two")

    assert read_capped(tmp_path / "new" / "f") == b"two"
    assert os.listdir(tmp_path / "new") == ["f"]


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(tmp_path / "f", b"old")

    def full_disk(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("midstream.config.private_files.os.fsync", full_disk)
    with pytest.raises(WorldTrouble, match="cannot be written: No space left on device"):
        write_whole(tmp_path / "f", b"new")

    assert (tmp_path / "f").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_leftover_of_a_crash_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / f".f.{os.getpid()}-{threading.get_ident()}.tmp").write_bytes(b"half")
    write_whole(tmp_path / "f", b"whole")

    assert os.listdir(tmp_path) == ["f"]


def test_what_is_missing_too_large_or_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 11)
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(FileMissing):
        read_capped(tmp_path / "gone")
    with pytest.raises(WorldTrouble, match="larger than 10 bytes"):
        read_capped(tmp_path / "big", max_bytes=10)
    with pytest.raises(WorldTrouble, match="not a regular file"):
        read_capped(tmp_path / "pipe")
    with pytest.raises(WorldTrouble, match="not a regular file"):
        read_capped(tmp_path)
    with pytest.raises(WorldTrouble, match="cannot be read"):
        read_capped(tmp_path / "nul\0")

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from midstream.system import openat2
from midstream.system.openat2 import is_made_up, opened, rename_new, resolution

READING = os.O_RDONLY | os.O_CLOEXEC


@pytest.fixture(params=["measured", "walk"])
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[int]:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "note.txt").write_text("inside")
    (tmp_path / "out.txt").write_text("outside")
    (tmp_path / "in" / "up").symlink_to("..")
    (tmp_path / "in" / "link.txt").symlink_to("deep/note.txt")
    if request.param == "walk":
        monkeypatch.setattr(openat2, "_openat2", lambda: None)
    handle = os.open(tmp_path / "in", os.O_RDONLY)
    yield handle
    os.close(handle)


def held(folder: int, *parts: str) -> str:
    with open(opened(folder, parts, READING)) as file:
        return file.read()


def test_a_file_below_a_folder_is_opened(folder: int) -> None:
    assert held(folder, "deep", "note.txt") == "inside"


def test_no_parts_are_the_folder_itself(folder: int) -> None:
    again = opened(folder, (), READING | os.O_DIRECTORY)

    assert os.path.samestat(os.fstat(again), os.fstat(folder))
    os.close(again)


@pytest.mark.parametrize(
    "parts", [("link.txt",), ("up", "out.txt"), ("up", "in", "deep", "note.txt")]
)
def test_no_link_is_followed_wherever_it_leads(folder: int, parts: tuple[str, ...]) -> None:
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        opened(folder, parts, READING)


@pytest.mark.parametrize("part", ["..", ".", "", "/", "/etc", "deep/note.txt", "a\0b"])
def test_what_is_no_name_is_not_tried(folder: int, part: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        opened(folder, ("deep", part), READING)


@pytest.mark.parametrize("wrong", [errno.EPERM, errno.ENOSYS, errno.EINVAL, 0])
def test_a_call_that_is_missing_or_lies_is_not_used(
    monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    def call(folder: int, path: bytes, flags: int) -> int:
        if wrong:
            raise OSError(wrong, os.strerror(wrong))
        # One that follows everything.
        return os.open(path, flags & ~os.O_NOFOLLOW, dir_fd=folder)

    monkeypatch.setattr(openat2, "_call_of_openat2", lambda: call)
    openat2._openat2.cache_clear()
    try:
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        assert resolution() == "walk"
        after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    finally:
        openat2._openat2.cache_clear()
    assert after == before


@pytest.mark.parametrize("way", ["call", "link", "rename"])
def test_a_new_name_is_taken_only_while_nothing_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way != "call":
        monkeypatch.setattr(openat2, "_RENAMEAT2", {})
    (tmp_path / "new").write_text("new")
    (tmp_path / "taken").write_text("theirs")
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(FileExistsError):
            rename_new(handle, "new", "taken")
        if way == "rename":
            monkeypatch.setattr(os, "link", refuse)
        rename_new(handle, "new", "free")
    finally:
        os.close(handle)

    assert sorted(os.listdir(tmp_path)) == ["free", "taken"]
    assert (tmp_path / "free").read_text() == "new"
    assert (tmp_path / "taken").read_text() == "theirs"


def refuse(*_paths: str, **_how: int | bool) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_a_stored_file_is_not_made_up(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        assert not is_made_up(handle)
    finally:
        os.close(handle)

"""Swaps: what was looked at is something else by the time it is opened, written or approved."""

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deadline import DEADLINE_S
from pathfield import CANARY, Field
from tables import table

from midstream.language.errors import MidstreamError
from midstream.system.put_in_place import put_in_place, take_away
from midstream.system.workspace_paths import Place, locate, opened_folder, read_bytes
from midstream.tools import search as search_module

HOOK = ".git/hooks/post-checkout"
TURNS = 60


@pytest.fixture(params=["openat2", "walk"])
def field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Field:
    if request.param == "walk":
        monkeypatch.setattr("midstream.system.openat2._openat2", lambda: None)
    made = Field(tmp_path.resolve())
    monkeypatch.setenv("HOME", str(made.home))
    return made


@contextmanager
def flipping(*steps: Callable[[], object]) -> Iterator[None]:
    """Do the steps over and over in a thread, each as atomic as a rename is, until the block ends."""
    is_over = threading.Event()
    trouble: list[BaseException] = []

    def flip() -> None:
        try:
            while not is_over.is_set():
                for step in steps:
                    step()
        except BaseException as error:
            trouble.append(error)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(DEADLINE_S)
    assert not trouble, trouble


def relinked(path: Path, target: str | Path) -> Callable[[], None]:
    """Return a step that makes `path` a link to another target, at once."""

    def step() -> None:
        beside = path.with_name(f"{path.name}.new")
        beside.symlink_to(target)
        beside.rename(path)

    return step


# --- races ----------------------------------------------------------------------------------------


async def test_a_file_that_keeps_turning_into_a_link_outside_gives_nothing_away(
    field: Field,
) -> None:
    file, spare = field.work / "turn.txt", field.work / "spare.txt"
    spare.write_text("inside")

    def to_file() -> None:
        beside = field.work / "beside"
        os.link(spare, beside)
        # Renaming one name of a file onto another does nothing: the link goes first.
        os.replace(beside, file)
        beside.unlink(missing_ok=True)

    with flipping(relinked(file, field.outside / "note.txt"), to_file):
        texts = [(await field.call("read_files", paths=["turn.txt"])).text for _ in range(TURNS)]

    assert not any(CANARY in text for text in texts)


async def test_a_folder_that_keeps_turning_into_a_link_outside_gives_nothing_away(
    field: Field,
) -> None:
    here, made, gone = (field.work / name for name in ("here", "made", "gone"))

    # A write may make the folder first, so that a step may fail; the next one does not.
    def to_folder() -> None:
        made.mkdir(exist_ok=True)
        (made / "note.txt").write_text("inside")
        with suppress(OSError):
            here.unlink()
            made.rename(here)

    def to_link() -> None:
        with suppress(OSError):
            here.rename(gone)
            here.symlink_to(field.outside)
        shutil.rmtree(gone, ignore_errors=True)

    here.symlink_to(field.outside)
    before = field.outside.stat().st_mtime_ns
    with flipping(to_folder, to_link):
        for number in range(TURNS):
            read = await field.call("read_files", paths=["here/note.txt"])
            found = await field.call("exact_search", text="c4nary", path="here")
            await field.call("write_file", path="here/note.txt", content=f"mine {number}")
            await field.call("write_file", path=f"here/new/{number}.txt", content="mine")
            assert CANARY not in read.text + found.text

    assert (field.outside / "note.txt").read_text() == CANARY
    assert field.outside.stat().st_mtime_ns == before


async def test_a_link_that_keeps_turning_to_a_hook_never_leads_a_write_there(field: Field) -> None:
    link = field.work / "turn"
    link.symlink_to("src/app.py")

    with flipping(relinked(link, HOOK), relinked(link, "src/app.py")):
        for number in range(TURNS):
            await field.call("write_file", path="turn", content=f"print({number})\n")

    assert (field.work / HOOK).read_text() == CANARY


async def test_a_link_that_keeps_turning_to_a_secret_gives_nothing_away(field: Field) -> None:
    link = field.work / "turn"
    link.symlink_to("src/app.py")
    edits = [{"old_text": "c4nary-x", "new_text": "y"}]

    with flipping(relinked(link, ".env"), relinked(link, "src/app.py")):
        for _ in range(TURNS):
            read = await field.call("read_files", paths=["turn"])
            edit = await field.call("edit_file", path="turn", edits=edits)
            found = await field.call("exact_search", text="c4nary", path="turn")
            assert CANARY not in read.text + edit.text + found.text


async def test_a_file_that_keeps_turning_into_a_pipe_holds_nobody_up(field: Field) -> None:
    file = field.work / "turn"
    file.write_text("inside")

    def to_pipe() -> None:
        os.mkfifo(field.work / "pipe")
        os.rename(field.work / "pipe", file)

    def to_file() -> None:
        (field.work / "plain").write_text("inside")
        os.rename(field.work / "plain", file)

    with flipping(to_pipe, to_file):
        for _ in range(TURNS):
            await field.call("read_files", paths=["turn"])


async def test_a_workspace_that_keeps_turning_into_a_link_is_never_left(field: Field) -> None:
    alias, other = field.base / "alias", field.base / "other"
    alias.symlink_to(field.work)
    (other / "src").mkdir(parents=True)
    (other / "src" / "app.py").write_text("other")
    field.context = msgspec.structs.replace(field.context, workspace=alias)

    with flipping(relinked(alias, other), relinked(alias, field.work)):
        for _ in range(TURNS):
            await field.call("write_file", path="src/new.txt", content="new")

    # Each write was whole and in the one or the other, never half of a path in each.
    assert sorted(os.listdir(field.outside)) == ["app.py", "deep", "note.txt"]
    assert (field.work / HOOK).read_text() == CANARY


# --- one swap, at the worst moment ----------------------------------------------------------------


def moved_away(field: Field) -> None:
    (field.work / "src").rename(field.outside / "moved")
    (field.work / "src").mkdir()


def linked_outside(field: Field) -> None:
    (field.work / "src").rename(field.work / "old")
    (field.work / "src").symlink_to(field.outside)


def linked_to_git(field: Field) -> None:
    (field.work / "src").rename(field.work / "old")
    (field.work / "src").symlink_to(".git/hooks")


def file_linked(field: Field) -> None:
    (field.work / "src" / "app.py").unlink()
    (field.work / "src" / "app.py").symlink_to(field.outside / "app.py")


def file_linked_to_hook(field: Field) -> None:
    (field.work / "src" / "app.py").unlink()
    (field.work / "src" / "app.py").symlink_to(f"../{HOOK}")


def file_of_others(field: Field) -> None:
    (field.work / "src" / "app.py").write_text("theirs")


def file_gone(field: Field) -> None:
    (field.work / "src" / "app.py").unlink()


def file_a_folder(field: Field) -> None:
    (field.work / "src" / "app.py").unlink()
    (field.work / "src" / "app.py").mkdir()


def file_a_pipe(field: Field) -> None:
    (field.work / "src" / "app.py").unlink()
    os.mkfifo(field.work / "src" / "app.py")


def workspace_linked(field: Field) -> None:
    field.work.rename(field.base / "gone")
    (field.outside / "src").mkdir()
    (field.outside / "src" / "app.py").write_text(CANARY)
    field.work.symlink_to(field.outside)


SWAPS = [
    moved_away,
    linked_outside,
    linked_to_git,
    file_linked,
    file_linked_to_hook,
    file_of_others,
    file_gone,
    file_a_folder,
    file_a_pipe,
    workspace_linked,
]


@table("swap", SWAPS, ids=lambda swap: swap.__name__)
def test_a_swap_between_looking_and_reading_gives_nothing_away(
    field: Field, swap: Callable[[Field], None]
) -> None:
    place = locate(field.work, "src/app.py")
    swap(field)

    try:
        told = read_bytes(place).decode()
    except MidstreamError as error:
        told = str(error)
    assert CANARY not in told


@table("swap", SWAPS, ids=lambda swap: swap.__name__)
def test_a_swap_between_looking_and_writing_changes_nothing_else(
    field: Field, swap: Callable[[Field], None]
) -> None:
    place = locate(field.work, "src/app.py")
    swap(field)
    before = field.everything()

    with pytest.raises(MidstreamError):
        put_in_place(place, b"gotcha", expected=b"print('app')\n")
    with pytest.raises(MidstreamError):
        take_away(place, expected=b"print('app')\n")
    assert field.everything() == before


@table("swap", SWAPS, ids=lambda swap: swap.__name__)
def test_a_swap_between_opening_and_renaming_changes_nothing_else(
    field: Field, swap: Callable[[Field], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = locate(field.work, "src/app.py")
    synced = os.fsync
    told: list[dict[str, tuple[int, str]]] = []

    def fsync(handle: int) -> None:
        synced(handle)
        if not told:
            swap(field)
            told.append(field.everything())

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(MidstreamError):
        put_in_place(place, b"gotcha", expected=b"print('app')\n")

    # What was being written beside the file goes; nothing else is touched.
    meanwhile = {path: held for path, held in told[0].items() if ".midstream-tmp" not in path}
    assert field.everything() == meanwhile


def test_a_file_that_comes_up_at_the_last_moment_is_not_replaced(field: Field) -> None:
    place = locate(field.work, "src/new.txt")
    new = field.work / "src" / "new.txt"

    def write() -> None:
        new.write_text("theirs")

    def link() -> None:
        new.symlink_to(field.outside / "note.txt")

    for come_up in (write, link, new.mkdir):
        with pytest.raises(MidstreamError):
            put_in_place(place, b"ours", expected=None, last_look=come_up)
        assert new.is_symlink() or new.is_dir() or new.read_text() == "theirs"
        new.rmdir() if new.is_dir() and not new.is_symlink() else new.unlink()
    assert (field.outside / "note.txt").read_text() == CANARY


def test_folders_are_not_made_through_a_link(field: Field) -> None:
    field.link("out", field.outside)

    with (
        pytest.raises(MidstreamError),
        opened_folder(Place(root=field.work, parts=("out", "new")), create=True),
    ):
        pass
    assert not (field.outside / "new").exists()


async def test_a_finder_that_was_led_outside_is_not_believed(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = field.base / "rg"
    program.write_text("#!/bin/sh\nprintf './out/note.txt\\0./.env\\0../outside/note.txt\\0'\n")
    program.chmod(0o755)
    field.link("out", field.outside)
    monkeypatch.setattr(search_module, "found_program", lambda name, root: str(program))

    ended = await field.call("exact_search", text="c4nary", include_ignored=True)

    assert ended.text == "No matches."


# --- what was approved ----------------------------------------------------------------------------

WRITE = {"path": "src/app.py", "content": "print('new')\n"}


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Field:
    made = Field(tmp_path.resolve(), mode="ask")
    monkeypatch.setenv("HOME", str(made.home))
    return made


async def test_what_was_shown_and_allowed_is_done(asking: Field) -> None:
    review = await asking.review("write_file", **WRITE)

    ended = await asking.call("write_file", granted=review.asks, **WRITE)

    assert (review.kind, review.asks[0]) == ("ask", "write: src/app.py")
    assert "-print('app')\n+print('new')" in review.shows
    assert ended.outcome == "completed", ended.text


@table("swap", SWAPS, ids=lambda swap: swap.__name__)
async def test_a_yes_does_not_hold_for_a_file_that_was_swapped_since(
    asking: Field, swap: Callable[[Field], None]
) -> None:
    review = await asking.review("write_file", **WRITE)
    swap(asking)
    before = asking.everything()

    ended = await asking.call("write_file", granted=review.asks, **WRITE)

    assert ended.outcome in ("failed", "denied"), ended.text
    assert CANARY not in ended.text
    assert asking.everything() == before


@table(
    "other",
    [
        {"path": "src/app.py", "content": "print('worse')\n"},
        {"path": "README.md", "content": "print('new')\n"},
        {"path": "src/../README.md", "content": "print('new')\n"},
        {"path": "src/app.py ", "content": "print('new')\n"},
        {"path": "src/*.py", "content": "print('new')\n"},
        {"path": HOOK, "content": "print('new')\n"},
    ],
    ids=["content", "file", "dots", "blank", "star", "hook"],
)
async def test_a_yes_does_not_hold_for_another_call(asking: Field, other: dict[str, str]) -> None:
    review = await asking.review("write_file", **WRITE)
    before = asking.everything()

    ended = await asking.call("write_file", granted=review.asks, **other)

    assert ended.outcome in ("failed", "denied"), ended.text
    assert asking.everything() == before


async def test_a_change_beyond_the_lines_shown_ends_a_yes(asking: Field) -> None:
    long = asking.work / "long.txt"
    long.write_text("".join(f"line {number}\n" for number in range(100)))
    edit = {"path": "long.txt", "edits": [{"old_text": "line 5\n", "new_text": "line V\n"}]}
    review = await asking.review("edit_file", **edit)
    long.write_text(long.read_text().replace("line 90\n", "line XC\n"))

    assert "line 90" not in review.shows
    assert (await asking.call("edit_file", granted=review.asks, **edit)).outcome == "failed"


async def test_a_yes_to_the_whole_tool_is_none_to_what_runs_later(asking: Field) -> None:
    plain = await asking.call("write_file", granted=("write_file",), **WRITE)
    before = asking.everything()

    ended = await asking.call("write_file", granted=("write_file",), path=HOOK, content="x")

    assert plain.outcome == "completed"
    assert ended.outcome == "denied"
    assert asking.everything() == before


async def test_a_star_in_a_name_grants_no_other_file(asking: Field) -> None:
    review = await asking.review("write_file", path="**", content="x")
    before = asking.everything()
    grants = tuple(ask for ask in review.asks if not ask.startswith("shown: "))

    ended = await asking.call("write_file", granted=grants, **WRITE)

    assert ended.outcome == "denied"
    assert asking.everything() == before


@table("path", [".github/workflows/x.yml", HOOK, "AGENTS.md", ".vscode/tasks.json"])
async def test_a_person_can_allow_a_protected_file_and_sees_why_it_is_one(
    field: Field, path: str
) -> None:
    review = await field.review("write_file", path=path, content="on: push\n")

    ended = await field.call("write_file", path=path, content="on: push\n", granted=review.asks)

    assert (review.kind, review.asks[0]) == ("ask", f"write_protected: {path}")
    assert review.shows.partition("\n")[0].endswith(".")
    assert ended.outcome == "completed", ended.text
    assert (field.work / path).read_text() == "on: push\n"


async def test_a_link_is_asked_about_under_both_names(field: Field) -> None:
    field.link("vendor/.git", field.work / "src")

    review = await field.review("write_file", path="vendor/.git/app.py", content="x")

    assert review.kind == "ask"
    assert "A link: vendor/.git/app.py is src/app.py." in review.shows
    assert "write_protected: vendor/.git/app.py" in review.asks


async def test_a_call_that_nobody_judged_writes_plain_files_only(field: Field) -> None:
    from midstream.tools.file_tools import write_file

    for path in (HOOK, ".env", "AGENTS.md", ".midstream/x"):
        before = field.everything()
        with pytest.raises(MidstreamError):
            await write_file(path, "x", field.context)
        assert field.everything() == before


async def test_a_file_changed_after_the_last_judgement_is_left(field: Field) -> None:
    from midstream.tools.file_tools import write_file

    held = msgspec.structs.replace(field.context, binds="0" * 64)

    with pytest.raises(MidstreamError, match="has changed since"):
        await write_file(WRITE["path"], WRITE["content"], held)
    assert (field.work / "src" / "app.py").read_text() == "print('app')\n"


# --- files that are harmless each, and a repository together ---------------------------------------

HEAD_TEXT = "ref: refs/heads/main\n"
TOGETHER = [
    ("a bare repository", ("docs/HEAD", "docs/objects/k", "docs/refs/k", "docs/config")),
    ("one that shares the rest", ("docs/HEAD", "docs/commondir", "x/objects/k", "x/refs/k")),
    ("what others share", ("x/objects/k", "x/refs/k", "x/config")),
    ("one in the root", ("HEAD", "objects/k", "refs/k", "config")),
]


GIT_NAMES = ("HEAD", "objects", "refs", "commondir", "config")


@table(("what", "names"), TOGETHER, ids=[what for what, _ in TOGETHER])
@table("together", [True, False], ids=["at once", "one after the other"])
async def test_files_do_not_become_a_repository_unasked(
    field: Field, what: str, names: tuple[str, ...], together: bool
) -> None:
    async def write(name: str) -> None:
        review = await field.review("write_file", path=name, content=HEAD_TEXT)
        if together:
            # Every one of them is judged before the first is written.
            await gate.wait()
        if review.kind == "allow":
            await field.call("write_file", path=name, content=HEAD_TEXT)

    gate = asyncio.Barrier(len(names))
    if together:
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(write(name))
    else:
        for name in names:
            await write(name)

    for folder in ("", "docs", "x"):
        has = {each for each in GIT_NAMES if (field.work / folder / each).exists()}
        is_common = {"objects", "refs"} <= has
        assert not ("HEAD" in has and (is_common or "commondir" in has)), (folder, has)
        assert not (is_common and "config" in has), (folder, has)


@table("turn", range(8), ids=str)
async def test_writes_that_were_all_judged_make_no_repository(field: Field, turn: int) -> None:
    names = ("docs/HEAD", "docs/objects/k", "docs/refs/k", "docs/config")
    judged = asyncio.Barrier(len(names))
    plan_of = field.manager._refused

    async def held(*given: Any) -> Any:
        # The last judgement before a write: here all of them see that there is nothing yet.
        answer = await plan_of(*given)
        await judged.wait()
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(field.manager, "_refused", held)
        told = await asyncio.gather(
            *(field.call("write_file", path=name, content=HEAD_TEXT) for name in names)
        )

    made = {name for name in ("HEAD", "objects", "refs") if (field.work / "docs" / name).exists()}
    assert len(made) < 3
    refused = [each.text for each in told if each.outcome != "completed"]
    assert refused
    for text in refused:
        # Who looks at its file only after the others were written finds another change than was judged.
        assert "git repositor" in text or "it has changed since the change was looked at" in text


async def test_two_edits_of_one_file_at_once_lose_nothing_unsaid(field: Field) -> None:
    file = field.work / "many.txt"
    file.write_text("".join(f"line {number}\n" for number in range(16)))

    def edit(number: int) -> Any:
        change = [{"old_text": f"line {number}\n", "new_text": f"done {number}\n"}]
        return field.call("edit_file", path="many.txt", edits=change)

    told = await asyncio.gather(*map(edit, range(16)))

    text = file.read_text()
    for number, each in enumerate(told):
        assert (f"done {number}\n" in text) == (each.outcome == "completed"), each.text

"""Forks, undo and files that go back: the past is a place to begin again from."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
from time_travel_kit import (
    ASKING,
    CHAT,
    DEADLINE_S,
    LINE,
    begun,
    careful,
    chatted,
    lived,
    said,
    store_engine,
    tools,
    undo,
    worker,
)

from midstream.core.events import ToolCalled
from midstream.language.errors import UserMistake
from midstream.runtime.engine.open_run import opened
from midstream.runtime.engine.run_files import Returned, put_back
from midstream.runtime.engine.time_travel import Fork, before_last_turn, fork
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import Chronicle, FakeBlobStore, Gate, ScriptedModel, call, calls, says
from midstream.views.side_effects import FileChange

# --- forks ------------------------------------------------------------------------------------


async def finished_line(store: MemoryStore) -> str:
    engine = store_engine(store, ScriptedModel(worker), tools=tools())
    run = await lived(await begun(engine, LINE, tools=tools(), input="build"))
    assert run.status == "finished"
    return run.id


async def talked(store: MemoryStore, flow: dict[str, Any]) -> str:
    """Return a chat with approvals, parallel calls, an interruption and a hold."""
    gate = Gate()
    script = iter((calls(call("write"), call("look")), "Done.", says("one ", gate=gate), "Two."))
    model = ScriptedModel(lambda request: next(script))
    machine = await begun(store_engine(store, model, tools=tools()), flow, tools=tools())
    await lived(machine, "first")
    await machine.say("second")
    await gate.reached()
    await machine.halt()
    await machine.say("rather this")
    await machine.settled()
    await machine.leave()
    await store.release(machine.id)
    return machine.id


async def every_fork(store: MemoryStore, source: str) -> list[Fork]:
    """Return one fork for each point of a run from which it can go on."""
    facts = await store.read(source)
    found: dict[int, Fork] = {}
    for at in range(1, len(facts) + 1):
        try:
            forked = await fork(store, source, at)
        except UserMistake:
            assert not found, "only before the first append there is nothing to fork"
            continue
        assert forked.seq <= at
        if not (await opened(store, forked.id)).is_over:
            found.setdefault(forked.seq, forked)
    return list(found.values())


async def test_a_fork_of_every_point_goes_on_to_the_same_end() -> None:
    store = MemoryStore()
    source = await finished_line(store)
    facts = await store.read(source)
    forks = await every_fork(store, source)
    for forked in forks:
        called = tools()
        engine = store_engine(store, ScriptedModel(worker), tools=called)

        run = await lived(await engine.resume(forked.id))

        assert (run.status, run.output) == ("finished", "Second.")
        before = [f.event for f in facts[: forked.seq] if isinstance(f.event, ToolCalled)]
        made = [*(event.name for event in before), *(each.name for each in called.calls)]
        assert made.count("shell") == 1, "a once call is never repeated by a fork"
        assert await opened(store, forked.id) == run
    assert len(forks) >= 8


@pytest.mark.parametrize("flow", [CHAT, ASKING], ids=["into start", "into resume"])
async def test_a_talk_goes_on_from_every_point_and_no_line_of_it_hangs(
    flow: dict[str, Any],
) -> None:
    store = MemoryStore()
    source = await talked(store, flow)
    before = await store.read(source)
    forks = await every_fork(store, source)
    for forked in forks:
        model = ScriptedModel(careful)
        machine = await store_engine(store, model, tools=tools()).resume(forked.id)

        run = await lived(machine, "and now this", "and this")

        await machine.leave()
        assert run.error == ""
        assert run.is_over or run.inbox.undelivered == ()
        for request in model.requests:
            for message in request.messages:
                ids = [made.id for made in message.calls]
                assert [result.call_id for result in message.results] == ids
        assert await opened(store, forked.id) == run
    assert len(forks) >= 10
    assert await store.read(source) == before


async def test_a_fork_changes_nothing_of_the_old_run_and_begins_as_it_stood() -> None:
    store = MemoryStore()
    source = await finished_line(store)
    before = await store.read(source)

    forked = await fork(store, source, 9)

    assert await store.read(source) == before
    mine = [(fact.seq, fact.at, fact.event) for fact in await store.read(forked.id)]
    assert mine == [(fact.seq, fact.at, fact.event) for fact in before[: forked.seq]]
    (kept,) = [kept for kept in await store.listing() if kept.id == forked.id]
    assert (kept.parent, kept.parent_seq) == (source, forked.seq)


async def test_a_fork_lists_what_was_done_after_its_point() -> None:
    store = MemoryStore()
    source = await finished_line(store)
    facts = await store.read(source)
    shell = next(f.seq for f in facts if f.type == "tool_called" and "make" in str(f.event))
    assert shell is not None

    early = await fork(store, source, shell - 2)
    late = await fork(store, source, len(facts))

    assert [call.command for call in early.effects.calls] == ["make"]
    assert not late.effects
    assert early.workspace == "/nowhere"


async def test_without_a_point_a_fork_of_an_ended_run_begins_before_its_end() -> None:
    store = MemoryStore()
    source = await finished_line(store)

    forked = await fork(store, source)

    run = await opened(store, forked.id)
    assert not run.is_over
    assert run.visit.state == "second"


async def test_without_a_point_a_fork_of_a_stopped_run_is_not_about_to_stop() -> None:
    store, gate = MemoryStore(), Gate()
    engine = store_engine(store, ScriptedModel(says("one ", gate=gate)))
    machine = await begun(engine, LINE)
    await gate.reached()
    await machine.stop()

    forked = await fork(store, machine.id)

    other = store_engine(store, ScriptedModel("First.", "Second."))
    run = await (await other.resume(forked.id)).wait()
    assert (run.status, run.output) == ("finished", "Second.")


async def test_a_run_that_was_slow_to_stop_is_forked_before_it_was_told_to() -> None:
    store, gate = MemoryStore(), Gate()
    slow = tools(gate=gate, listens=False)
    engine = store_engine(store, ScriptedModel(call("shell")), tools=slow)
    told = Chronicle()
    engine.listen(told)
    machine = await begun(engine, LINE, tools=slow)
    await gate.reached()
    stopping = asyncio.create_task(machine.stop())
    await told.until("interrupted")
    gate.open()
    await stopping

    forked = await fork(store, machine.id)

    run = await opened(store, forked.id)
    assert (run.visit.phase, run.halt.leads_to) == ("turn", "")
    assert [made.outcome for made in forked.effects.calls] == ["completed"]


@pytest.mark.parametrize("at", [-1, 0, 1_000])
async def test_a_point_that_never_was_is_refused(at: int) -> None:
    store = MemoryStore()
    source = await chatted(store)

    with pytest.raises(UserMistake, match=f"there is no fact {at}"):
        await fork(store, source, at)


async def test_a_run_that_never_was_is_refused() -> None:
    with pytest.raises(UserMistake, match="There is no run nosuch"):
        await fork(MemoryStore(), "nosuch", 1)


async def test_a_fork_of_an_imported_run_is_told_and_cut_where_its_appends_ended() -> None:
    store, away = MemoryStore(), MemoryStore()
    source = await chatted(away, "one")
    facts = await away.read(source)
    await store.adopt(source, facts)

    with pytest.raises(UserMistake):
        # All of it has one time (the clock of the test stands): no append is known to end.
        await fork(store, source, len(facts) - 1)
    forked = await fork(store, source, len(facts))

    assert forked.is_foreign
    again = await fork(store, forked.id, len(facts))
    assert again.is_foreign


# --- undo -------------------------------------------------------------------------------------


async def test_undo_takes_back_the_last_line_and_what_came_of_it() -> None:
    store = MemoryStore()
    id = await chatted(store, "one", "two")

    once = await undo(store, id)
    twice = await undo(store, once.id)

    assert said(await opened(store, once.id)) == ["one"]
    assert said(await opened(store, twice.id)) == []
    assert (await opened(store, twice.id)).visit.phase == "waiting"
    with pytest.raises(UserMistake, match="nothing to undo"):
        await undo(store, twice.id)


async def test_a_fork_after_undo_goes_on() -> None:
    store = MemoryStore()
    forked = await undo(store, await chatted(store, "one", "two"))
    engine = store_engine(store, ScriptedModel(lambda request: "Hm."))
    machine = await engine.resume(forked.id)

    await machine.say("three")
    await machine.settled()

    assert said(machine.run) == ["one", "three"]
    await machine.leave()


async def test_lines_that_were_refused_or_taken_back_began_nothing() -> None:
    store, gate = MemoryStore(), Gate()
    engine = store_engine(store, ScriptedModel(says("one ", gate=gate), "Hm."))
    machine = await begun(engine, CHAT)
    await machine.say("first")
    await gate.reached()
    point = next(f.seq for f in await store.read(machine.id) if f.type == "input_received")
    assert point is not None
    queued = await machine.say("later", policy="queue")
    await machine.withdraw(queued.input_id)
    await machine.say("no", policy="reject")
    await machine.say("still waits", policy="queue")

    assert await before_last_turn(store, machine.id) == point - 1
    await machine.stop()


async def test_an_interruption_is_undone_to_the_moment_before_it() -> None:
    store, gate = MemoryStore(), Gate()
    engine = store_engine(store, ScriptedModel(says("one ", gate=gate), "Other."))
    machine = await begun(engine, CHAT)
    await machine.say("first")
    await gate.reached()
    await machine.say("no, second")
    await machine.settled()

    forked = await undo(store, machine.id)

    run = await opened(store, forked.id)
    assert (run.visit.phase, said(run)) == ("turn", ["first"])
    await machine.leave()


async def test_words_that_joined_one_halt_are_undone_together() -> None:
    store = MemoryStore()
    gate = Gate()
    slow = tools(gate=gate, listens=False)
    engine = store_engine(store, ScriptedModel(call("shell"), "Other.", "End."), tools=slow)
    machine = await begun(engine, CHAT, tools=slow)
    await machine.say("first")
    await gate.reached()
    await machine.say("no")
    await machine.say("not that")
    assert machine.run.visit.phase == "halting"
    gate.open()
    await machine.settled()

    forked = await undo(store, machine.id)

    assert said(await opened(store, forked.id)) == ["first"]
    assert (await opened(store, forked.id)).visit.phase == "turn"
    await machine.leave()


async def test_a_run_without_words_is_undone_to_its_start() -> None:
    store = MemoryStore()
    engine = store_engine(store, ScriptedModel("First.", "Second."))
    done = await (await begun(engine, LINE, input="go")).wait()

    forked = await undo(store, done.id)

    again = store_engine(store, ScriptedModel("1.", "2."))
    run = await (await again.resume(forked.id)).wait()
    assert (run.status, run.output) == ("finished", "2.")
    assert said(run) == ["go"]


# --- files ------------------------------------------------------------------------------------


def key(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Folder:
    """A workspace and a blob store; `wrote` writes a file as a run would have recorded it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.blobs = FakeBlobStore()

    def wrote(self, name: str, before: bytes | None, after: bytes | None) -> FileChange:
        file = self.path / name
        if before is not None:
            self.blobs.kept[key(before)] = before
        if after is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(after)
        return FileChange(
            path=str(file),
            before=None if before is None else key(before),
            after=None if after is None else key(after),
            seq=1,
        )

    async def back(self, *changes: FileChange) -> list[tuple[str, str]]:
        async with asyncio.timeout(DEADLINE_S):
            returned = await put_back(self.blobs, changes, self.path)
        return [(one.result, one.why) for one in returned]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    path = tmp_path.resolve() / "work"
    path.mkdir()
    return Folder(path)


async def test_files_go_back_to_what_they_held(folder: Folder) -> None:
    changes = (
        folder.wrote("changed.txt", b"old", b"new"),
        folder.wrote("deep/made.txt", None, b"new"),
        folder.wrote("removed.txt", b"old", None),
    )

    assert await folder.back(*changes) == [("put_back", ""), ("removed", ""), ("put_back", "")]
    held = {file.name: file.read_bytes() for file in folder.path.rglob("*") if file.is_file()}
    assert held == {"changed.txt": b"old", "removed.txt": b"old"}


async def test_what_is_replaced_is_kept_in_the_blob_store_first(folder: Folder) -> None:
    await folder.back(folder.wrote("a.txt", b"old", b"new"), folder.wrote("b.txt", None, b"b"))

    assert folder.blobs.kept[key(b"new")] == b"new"
    assert folder.blobs.kept[key(b"b")] == b"b"


async def test_permissions_stay(folder: Folder) -> None:
    change = folder.wrote("run.sh", b"old", b"new")
    (folder.path / "run.sh").chmod(0o750)

    await folder.back(change)

    assert (folder.path / "run.sh").stat().st_mode & 0o777 == 0o750


async def test_a_file_somebody_changed_since_is_left(folder: Folder) -> None:
    change = folder.wrote("a.txt", b"old", b"new")
    (folder.path / "a.txt").write_bytes(b"theirs")

    assert await folder.back(change) == [("left", "it has been changed since")]
    assert (folder.path / "a.txt").read_bytes() == b"theirs"


async def test_a_file_that_is_gone_or_back_already_is_left(folder: Folder) -> None:
    gone = folder.wrote("gone.txt", b"old", b"new")
    (folder.path / "gone.txt").unlink()
    back = folder.wrote("back.txt", b"old", b"old")
    back = FileChange(path=back.path, before=back.before, after=key(b"new"), seq=1)
    never = folder.wrote("never.txt", None, None)
    never = FileChange(path=never.path, before=None, after=key(b"new"), seq=1)

    assert await folder.back(gone, back, never) == [
        ("left", "it is gone"),
        ("already", ""),
        ("already", ""),
    ]
    assert not (folder.path / "gone.txt").exists()


async def test_a_write_that_was_never_made_does_not_keep_the_file_from_going_back(
    folder: Folder,
) -> None:
    written = folder.wrote("a.txt", b"old", b"first")
    change = FileChange(
        path=written.path,
        before=written.before,
        after=key(b"second"),
        seq=1,
        times=2,
        or_else=(key(b"first"),),
    )

    assert await folder.back(change) == [("put_back", "")]
    assert (folder.path / "a.txt").read_bytes() == b"old"


async def test_contents_that_are_not_kept_any_more_leave_the_file(folder: Folder) -> None:
    change = folder.wrote("a.txt", b"old", b"new")
    folder.blobs.kept.clear()

    ((result, why),) = await folder.back(change)

    assert result == "left"
    assert "nothing under" in why
    assert (folder.path / "a.txt").read_bytes() == b"new"


@pytest.mark.parametrize("where", ["file", "folder"])
async def test_a_link_put_in_the_way_is_not_followed(folder: Folder, where: str) -> None:
    change = folder.wrote("deep/a.txt", b"old", b"new")
    outside = folder.path.parent / "outside"
    outside.mkdir()
    (outside / "a.txt").write_bytes(b"new")
    if where == "file":
        (folder.path / "deep/a.txt").unlink()
        (folder.path / "deep/a.txt").symlink_to(outside / "a.txt")
    else:
        (folder.path / "deep").rename(folder.path / "elsewhere")
        (folder.path / "deep").symlink_to(outside)

    ((result, why),) = await folder.back(change)

    assert result == "left"
    assert "leads out of the workspace" in why
    assert (outside / "a.txt").read_bytes() == b"new"


async def test_a_link_within_the_workspace_is_not_followed_either(folder: Folder) -> None:
    change = folder.wrote("a.txt", b"old", b"new")
    (folder.path / "a.txt").rename(folder.path / "b.txt")
    (folder.path / "a.txt").symlink_to("b.txt")

    assert await folder.back(change) == [("left", "a link leads elsewhere now")]
    assert (folder.path / "b.txt").read_bytes() == b"new"


@pytest.mark.parametrize("path", ["/etc/hostname", "../outside.txt", ".git/config", ".env"])
async def test_what_no_tool_may_write_is_not_put_back(folder: Folder, path: str) -> None:
    target = str(folder.path / path)

    ((result, _),) = await folder.back(FileChange(path=target, before=None, after="x", seq=1))

    assert result == "left"


async def test_a_folder_in_a_files_place_is_left(folder: Folder) -> None:
    change = folder.wrote("a.txt", b"old", b"new")
    (folder.path / "a.txt").unlink()
    (folder.path / "a.txt").mkdir()

    ((result, _),) = await folder.back(change)

    assert result == "left"


async def test_all_are_looked_at_before_the_first_is_changed(folder: Folder) -> None:
    class Watched(FakeBlobStore):
        async def get(self, wanted: str) -> bytes:
            seen.append((folder.path / "a.txt").read_bytes())
            return await super().get(wanted)

    seen: list[bytes] = []
    folder.blobs = Watched()
    changes = (folder.wrote("a.txt", b"A", b"a"), folder.wrote("b.txt", b"B", b"b"))

    await folder.back(*changes)

    assert seen[:2] == [b"a", b"a"]
    assert seen[2:] == [b"a", b"A"]


async def test_a_file_somebody_saves_while_others_go_back_is_left(folder: Folder) -> None:
    class Busy(FakeBlobStore):
        async def put(self, data: bytes) -> str:
            if data == b"c":  # by now all others were looked at
                (folder.path / "b.txt").write_bytes(b"theirs")
            return await super().put(data)

        async def get(self, wanted: str) -> bytes:
            looked.append(wanted)
            if len(looked) == 5:
                (folder.path / "c.txt").write_bytes(b"theirs")
            return await super().get(wanted)

    looked: list[str] = []
    folder.blobs = Busy()
    changes = [folder.wrote(f"{name}.txt", name.upper().encode(), name.encode()) for name in "abc"]

    assert await folder.back(*changes) == [
        ("put_back", ""),
        ("left", "it has just been changed"),
        ("left", "c.txt has just been changed by somebody else."),
    ]
    assert (folder.path / "a.txt").read_bytes() == b"A"
    assert (folder.path / "b.txt").read_bytes() == b"theirs"
    assert (folder.path / "c.txt").read_bytes() == b"theirs"


async def test_the_report_names_each_file_in_order(folder: Folder) -> None:
    one, two = folder.wrote("1", b"x", b"y"), folder.wrote("2", None, b"y")

    returned = await put_back(folder.blobs, (two, one), folder.path)

    assert returned == (
        Returned(path=two.path, result="removed"),
        Returned(path=one.path, result="put_back"),
    )

"""Undo and redo: turns and their files go back and forward again, and nothing is lost on the way."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from time_travel_kit import CHAT, chatted, said, store_engine, undo

from midstream.core.events import FileWritten
from midstream.core.notices import Envelope
from midstream.language.errors import JournalFull, UserMistake
from midstream.language.names import Json
from midstream.language.spec import ToolSpec
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.open_run import opened
from midstream.runtime.engine.redo import REDONE, WayForward, way_forward
from midstream.runtime.engine.run_files import Returned, folders_away
from midstream.runtime.engine.run_repository import (
    Travelled,
    WorkspaceRuns,
    redone_words,
    undone_words,
)
from midstream.runtime.engine.time_travel import Fork, fork
from midstream.runtime.ports import ModelRequest, Review, ToolContext, ToolOutcome
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.store.memory import MemoryStore
from midstream.system.put_in_place import contents_of, guards
from midstream.system.workspace_paths import Place
from midstream.testing.fakes import Gate, Line, ScriptedModel, call, define, says
from midstream.tools import file_changes
from midstream.tools.file_changes import Change, make, writable
from midstream.views.side_effects import FileChange, SideEffects


class Writer:
    """A tool `write` that writes each of its arguments into the file of that name."""

    def specs(self) -> dict[str, ToolSpec]:
        return {"write": ToolSpec(name="write", description="", parameters={}, effect="once")}

    async def review(self, name: str, arguments: dict[str, Json], context: ToolContext) -> Review:
        return Review()

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        for file, text in arguments.items():
            path = context.workspace / file.replace("_", ".")
            before = path.read_bytes() if path.exists() else None
            after = str(text).encode()
            await context.changing(path, before, after)
            path.write_bytes(after)
        return ToolOutcome(outcome="completed", text="written")


def writes(request: ModelRequest) -> Line:
    """Write what the last words say, such as `a=1 b=2`, into `a.txt` and `b.txt`; then reply."""
    last = request.messages[-1]
    if last.calls or "=" not in last.text:
        return "Done."
    pairs = dict(pair.split("=") for pair in last.text.split())
    return call("write", **{f"{name}_txt": text for name, text in pairs.items()})


class Talk:
    """A chat whose turns write files, and what a console does with it."""

    def __init__(self, folder: Path, model: ScriptedModel | None = None) -> None:
        self.folder = folder
        self.store = MemoryStore()
        self.store.is_lasting = True
        self.tools = Writer()
        self.engine: LocalEngine = store_engine(
            self.store, model or ScriptedModel(writes), tools=self.tools, workspace=folder
        )
        self.runs = WorkspaceRuns(self.engine)
        self.machine: WorkflowStateMachine

    async def say(self, *lines: str) -> None:
        for line in lines:
            await self.machine.settled()
            await self.machine.say(line)
            await self.machine.settled()

    async def undo(self) -> Travelled:
        return await self._to(await self.runs.undo(self.machine))

    async def back(self, count: int) -> Travelled:
        turns = await self.runs.turns(self.machine.run.id)
        return await self._to(await self.runs.undo(self.machine, at=turns[-count].at))

    async def redo(self) -> Travelled:
        return await self._to(await self.runs.redo(self.machine))

    async def _to(self, travelled: Travelled) -> Travelled:
        self.machine = await self.engine.resume(travelled.id)
        await self.machine.settled()
        return travelled

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.folder.glob("*.txt"))}

    def stands(self) -> tuple[list[str], dict[str, str]]:
        return said(self.machine.run), self.files()


@pytest.fixture
async def talk(tmp_path: Path) -> Talk:
    made = Talk(tmp_path)
    made.machine = await made.engine.start(define(CHAT, tools=made.tools))
    return made


async def test_undo_takes_back_all_files_of_a_turn_and_redo_brings_them_forward(
    talk: Talk,
) -> None:
    await talk.say("a=1 b=1", "a=2 c=2")

    await talk.undo()
    assert talk.stands() == (["a=1 b=1"], {"a.txt": "1", "b.txt": "1"})

    await talk.redo()
    assert talk.stands() == (
        ["a=1 b=1", "a=2 c=2"],
        {"a.txt": "2", "b.txt": "1", "c.txt": "2"},
    )


async def test_several_turns_go_back_at_once_with_their_files_and_one_redo_brings_them_forward(
    talk: Talk,
) -> None:
    stood = [talk.stands()]
    for line in ("a=1", "a=2 b=2", "b=3 c=3", "a=4"):
        await talk.say(line)
        stood.append(talk.stands())
    turns = await talk.runs.turns(talk.machine.run.id)
    assert [turn.words for turn in turns] == ["a=1", "a=2 b=2", "b=3 c=3", "a=4"]

    for count in (1, 2, 3, 4):
        told = (await talk.back(count)).told
        assert talk.stands() == stood[4 - count]
        assert f"Taken back: “{turns[-count].words}”" in told
        left = await talk.runs.turns(talk.machine.run.id)
        assert [turn.at for turn in left] == [turn.at for turn in turns[:-count]]
        await talk.redo()
        assert talk.stands() == stood[4]


async def test_several_go_back_and_forward_one_by_one(talk: Talk) -> None:
    stood = [talk.stands()]
    for line in ("a=1", "a=2 b=2", "b=3 c=3", "c=4 a=4"):
        await talk.say(line)
        stood.append(talk.stands())

    for steps in (4, 2, 3):
        for at in range(steps):
            await talk.undo()
            assert talk.stands() == stood[3 - at]
        for at in range(steps):
            await talk.redo()
            assert talk.stands() == stood[5 - steps + at]
    with pytest.raises(UserMistake, match="nothing to redo"):
        await talk.redo()


async def test_one_goes_back_in_between_and_forward_again(talk: Talk) -> None:
    await talk.say("a=1", "a=2", "a=3")
    for step, holds in (
        ("undo", "2"),
        ("undo", "1"),
        ("redo", "2"),
        ("undo", "1"),
        ("redo", "2"),
        ("redo", "3"),
        ("undo", "2"),
    ):
        await (talk.undo() if step == "undo" else talk.redo())
        assert talk.files() == {"a.txt": holds}
    await talk.say("b=9")
    await talk.undo()
    await talk.redo()
    assert talk.stands() == (["a=1", "a=2", "b=9"], {"a.txt": "2", "b.txt": "9"})


async def test_a_chat_goes_on_after_redo_and_remembers(talk: Talk) -> None:
    await talk.say("a=1", "a=2")
    await talk.undo()
    await talk.redo()
    await talk.say("a=3")
    assert talk.stands() == (["a=1", "a=2", "a=3"], {"a.txt": "3"})
    await talk.undo()
    await talk.undo()
    assert talk.stands() == (["a=1"], {"a.txt": "1"})


async def test_a_turn_under_way_is_taken_back_and_goes_on_after_redo(tmp_path: Path) -> None:
    gate = Gate()
    script = (writes, writes, writes, lambda request: says("Half", " a word.", gate=gate), writes)
    talk = Talk(tmp_path, ScriptedModel(*script))
    talk.machine = await talk.engine.start(define(CHAT, tools=talk.tools))
    await talk.say("a=1")
    await talk.machine.say("a=2 b=2")
    await gate.reached()

    await talk.undo()
    assert talk.stands() == (["a=1"], {"a.txt": "1"})

    await talk.redo()
    assert talk.stands() == (["a=1", "a=2 b=2"], {"a.txt": "2", "b.txt": "2"})
    (messages,) = talk.machine.run.contexts.values()
    assert messages[-1].text == "Done."


async def test_a_file_that_cannot_be_recorded_is_not_put_back(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.say("a=1", "a=2")
    append = talk.store.append

    async def full(run: str, expected: int, facts: Sequence[Envelope]) -> None:
        if any(isinstance(each.event, FileWritten) for each in facts):
            raise JournalFull("There is no room.")
        await append(run, expected, facts)

    monkeypatch.setattr(talk.store, "append", full)
    made = await talk.runs.undo(talk.machine)

    assert made.told[0] == "The files stay: There is no room."
    assert talk.files() == {"a.txt": "2"}
    assert await talk.runs.put_back() == ("a.txt: put back",)


async def test_there_is_no_way_forward_once_something_was_said(talk: Talk) -> None:
    await talk.say("a=1", "a=2")
    await talk.undo()
    await talk.say("b=5")

    with pytest.raises(UserMistake, match="something was said since"):
        await talk.redo()

    assert not talk.machine.run.is_over
    assert talk.files() == {"a.txt": "1", "b.txt": "5"}


async def test_there_is_no_way_forward_over_a_file_changed_since(talk: Talk) -> None:
    await talk.say("a=1 b=1", "a=2 b=2")
    await talk.undo()
    (talk.folder / "b.txt").write_text("mine")

    with pytest.raises(UserMistake, match=r"lose changes: b\.txt: it has been changed"):
        await talk.redo()

    assert not talk.machine.run.is_over
    assert talk.files() == {"a.txt": "1", "b.txt": "mine"}
    (talk.folder / "b.txt").write_text("1")
    await talk.redo()
    assert talk.files() == {"a.txt": "2", "b.txt": "2"}


async def test_a_file_that_undo_left_is_left_by_redo_too(talk: Talk) -> None:
    await talk.say("a=1 b=1", "a=2 b=2")
    (talk.folder / "b.txt").write_text("mine")

    told = (await talk.undo()).told
    assert told[told.index("Not taken back:") + 1] == "  b.txt: left, it has been changed since"
    assert talk.files() == {"a.txt": "1", "b.txt": "mine"}

    await talk.redo()
    assert talk.files() == {"a.txt": "2", "b.txt": "mine"}


async def test_files_can_stay_and_then_neither_way_touches_them(talk: Talk) -> None:
    await talk.say("a=1", "a=2")
    made = await talk.runs.undo(talk.machine, keeps_files=True)
    assert "/putback puts the files back as they were then." in made.told
    talk.machine = await talk.engine.resume(made.id)
    assert talk.stands() == (["a=1"], {"a.txt": "2"})
    await talk.redo()
    assert talk.stands() == (["a=1", "a=2"], {"a.txt": "2"})


async def test_nothing_of_the_journal_is_lost_on_the_way(talk: Talk) -> None:
    await talk.say("a=1", "a=2")
    first = talk.machine.id
    before = await talk.store.read(first)
    await talk.undo()
    undone = talk.machine.id
    await talk.redo()
    assert (await talk.store.read(first))[: len(before)] == before
    stopped = (await opened(talk.store, first), await opened(talk.store, undone))
    assert [run.status for run in stopped] == ["stopped", "stopped"]
    own = await talk.store.read(undone)
    assert [e.event.path for e in own if isinstance(e.event, FileWritten)][-1].endswith("a.txt")
    assert (await talk.store.read(undone))[-1].event.reason == REDONE  # type: ignore[union-attr]


async def test_a_command_of_the_turn_is_named_as_not_taken_back(talk: Talk) -> None:
    await talk.say("a=1")
    told = (await talk.undo()).told
    assert "Taken back: “a=1”" in told
    assert "Not taken back:" not in told  # its one call is told by the file
    assert told[-1] == "/redo goes forward again."
    assert "Redone: “a=1”" in (await talk.redo()).told


async def test_a_run_that_was_only_forked_has_no_way_forward() -> None:
    store = MemoryStore()
    id = await chatted(store, "one", "two")
    for at in (None, 5):
        with pytest.raises(UserMistake, match="nothing to redo"):
            await way_forward(store, (await fork(store, id, at)).id)
    with pytest.raises(UserMistake, match="nothing to redo"):
        await way_forward(store, id)


async def test_a_run_that_had_ended_is_gone_forward_to_as_it_ended(talk: Talk) -> None:
    await talk.say("a=1", "a=2")
    await talk.machine.stop()
    made = await undo(talk.store, talk.machine.id)
    way = await way_forward(talk.store, made.id)
    assert (way.target, way.is_over) == (talk.machine.id, True)


# --- folders that were made for a file --------------------------------------------------------


class Maker(Writer):
    """The same with `pkg/sub/x.txt` for an argument, its folders made as the real tools make them."""

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        for file, text in arguments.items():
            place = writable(context, file)
            held = contents_of(place)
            after = str(text).encode()
            change = Change(place=place, before=held, after=after, guards=guards(place))
            await make(change, context)
        return ToolOutcome(outcome="completed", text="written")


def makes(request: ModelRequest) -> Line:
    """Write what the last words say, such as `pkg/a.txt=1`; then reply."""
    last = request.messages[-1]
    if last.calls or "=" not in last.text:
        return "Done."
    return call("write", **dict(pair.split("=") for pair in last.text.split()))


class MakerTalk(Talk):
    """A chat whose turns write files into folders that are not there yet."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ScriptedModel(makes))
        self.tools = Maker()
        self.engine = store_engine(
            self.store, ScriptedModel(makes), tools=self.tools, workspace=folder
        )
        self.runs._engine = self.engine

    def tree(self) -> list[str]:
        names = (path for path in self.folder.rglob("*") if "config" not in path.parts)
        return sorted(str(path.relative_to(self.folder)) for path in names)

    async def told(self) -> str:
        return " | ".join((await self.undo()).told)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "work"
    folder.mkdir()
    return folder


@pytest.fixture
async def maker(work: Path) -> MakerTalk:
    made = MakerTalk(work)
    made.machine = await made.engine.start(define(CHAT, tools=made.tools))
    return made


async def test_undo_takes_the_folders_of_a_new_file_with_it_and_redo_makes_them_again(
    maker: MakerTalk,
) -> None:
    (maker.folder / "there").mkdir()
    await maker.say("there/pkg/sub/a.txt=1 there/b.txt=2")
    whole = ["there", "there/b.txt", "there/pkg", "there/pkg/sub", "there/pkg/sub/a.txt"]
    assert maker.tree() == whole

    for _ in range(2):
        told = await maker.told()
        assert maker.tree() == ["there"], "what was there before stays, empty as it is"
        assert "there/pkg/: removed" in told
        assert "there/pkg/sub/:" not in told

        await maker.redo()
        assert maker.tree() == whole


async def test_the_folders_are_journaled_before_the_file_and_before_they_go(
    maker: MakerTalk,
) -> None:
    await maker.say("pkg/sub/a.txt=1")
    await maker.undo()

    facts = await maker.store.read(maker.machine.run.id)
    source = next(kept for kept in await maker.store.listing() if kept.id != facts[-1].run)
    both = [*await maker.store.read(source.id), *facts]
    written = [fact.event for fact in both if isinstance(fact.event, FileWritten)]
    folders = tuple(str(maker.folder / name) for name in ("pkg", "pkg/sub"))
    assert [event.folders for event in written] == [folders, folders]


async def test_folders_go_with_the_turn_that_made_them_over_several_undos_and_redos(
    maker: MakerTalk,
) -> None:
    stood = [maker.tree()]
    for line in ("pkg/a.txt=1", "pkg/sub/b.txt=1", "pkg/sub/b.txt=2 pkg/c.txt=1"):
        await maker.say(line)
        stood.append(maker.tree())

    for trees in (stood[:3], stood[:2], stood[:1]):
        await maker.undo()
        assert maker.tree() == trees[-1]
    for tree in stood[1:]:
        await maker.redo()
        assert maker.tree() == tree
    await maker.back(3)
    assert maker.tree() == stood[0]
    await maker.redo()
    assert maker.tree() == stood[-1]


async def test_a_folder_somebody_put_something_into_stays_and_the_words_say_so(
    maker: MakerTalk,
) -> None:
    await maker.say("pkg/sub/a.txt=1")
    (maker.folder / "pkg" / "mine.txt").write_text("mine")

    told = await maker.told()

    assert maker.tree() == ["pkg", "pkg/mine.txt"]
    assert "pkg/sub/: removed" in told
    assert "Not taken back: |   pkg/: left, something else is in it" in told


async def test_a_file_that_is_left_says_enough_of_its_folder(maker: MakerTalk) -> None:
    await maker.say("pkg/a.txt=1 pkg/b.txt=1")
    (maker.folder / "pkg" / "b.txt").write_text("mine")

    told = await maker.told()

    assert maker.tree() == ["pkg", "pkg/b.txt"]
    assert "pkg/b.txt: left, it has been changed since" in told
    assert "pkg/:" not in told


async def test_a_link_where_the_folder_was_is_not_followed(maker: MakerTalk, work: Path) -> None:
    elsewhere = work.parent / "elsewhere"
    await maker.say("pkg/sub/a.txt=1")
    (maker.folder / "pkg" / "sub" / "a.txt").unlink()
    (maker.folder / "pkg").rename(elsewhere)
    (maker.folder / "pkg").symlink_to(elsewhere)

    await maker.undo()

    assert (elsewhere / "sub").is_dir()
    assert maker.tree()[0] == "pkg"


def test_a_folder_is_not_reached_through_a_link_either(work: Path) -> None:
    (work / "other" / "sub").mkdir(parents=True)
    (work / "pkg").symlink_to("other")
    pkg = str(work / "pkg")
    change = FileChange(
        path=f"{pkg}/sub/a.txt", before=None, after="A", seq=1, folders=(pkg, f"{pkg}/sub")
    )

    told = folders_away([change], [], work)

    why = "a link leads elsewhere now"
    assert told == [(pkg, why), (f"{pkg}/sub", why)]
    assert (work / "other" / "sub").is_dir()


def test_a_folder_that_is_not_above_the_file_is_nobodys_to_remove(work: Path) -> None:
    for name in ("pkg", "theirs", "pkg-2"):
        (work / name).mkdir()
    named = (str(work), *(str(work / name) for name in ("pkg", "theirs", "pkg-2")))
    change = FileChange(
        path=str(work / "pkg" / "a.txt"), before=None, after="A", seq=1, folders=named
    )

    assert folders_away([change], [], work) == [
        (str(work), "a link leads elsewhere now"),
        (str(work / "pkg"), ""),
    ]
    assert sorted(path.name for path in work.iterdir()) == ["pkg-2", "theirs"]


async def test_of_a_file_that_was_removed_meanwhile_the_folder_goes_and_comes_again(
    maker: MakerTalk,
) -> None:
    await maker.say("pkg/sub/a.txt=1")
    (maker.folder / "pkg" / "sub" / "a.txt").unlink()

    await maker.undo()
    assert maker.tree() == []

    await maker.redo()
    assert maker.tree() == ["pkg", "pkg/sub"]


def test_a_chat_counts_the_files_alone_and_names_what_stays() -> None:
    gone = [Returned(path=f"/w/pkg/{n}.txt", result="removed") for n in range(4)]
    folder = Returned(path="/w/pkg/", result="removed")
    left = Returned(path="/w/pkg/", result="left", why="something else is in it")
    made = Fork(id="f", source="s", seq=1, effects=SideEffects(), workspace="/w", words="make it")

    assert undone_words(made, (*gone, folder), is_chat=True) == (
        "Taken back: “make it” · 4 files as they were · /redo goes forward",
    )
    assert undone_words(made, (*gone[:1], folder), is_chat=True) == (
        "Taken back: “make it” · pkg/0.txt removed · pkg/ removed · /redo goes forward",
    )
    assert undone_words(made, (*gone[:1], left), is_chat=True) == (
        "Taken back: “make it” · pkg/0.txt removed · /redo goes forward",
        "Not taken back: pkg/: left, something else is in it",
    )


def test_a_file_that_went_forward_is_told_as_the_turn_had_left_it() -> None:
    changes = [
        FileChange(path="/w/a.py", before="A2", after="A1", seq=1),
        FileChange(path="/w/new.py", before="N", after=None, seq=2),
        FileChange(path="/w/old.py", before=None, after="O", seq=3),
    ]
    way = WayForward(target="t", files=tuple(changes), workspace="/w", words="mend it")
    made = Fork(id="f", source="t", seq=1, effects=SideEffects(), workspace="/w")
    back = [
        Returned(path="/w/a.py", result="put_back"),
        Returned(path="/w/new.py", result="put_back"),
        Returned(path="/w/old.py", result="removed"),
    ]
    left = Returned(path="/w/b.py", result="left", why="it has just been changed")

    assert redone_words(way, made, (*back, left), is_chat=True) == (
        "Redone: “mend it” · a.py changed again · new.py created again · old.py removed again",
        "  b.py: left, it has just been changed",
    )
    assert redone_words(way, made, (*back[:2], left))[2:] == (
        "Files as they were before it was undone:",
        "  a.py: changed again",
        "  new.py: created again",
        "  b.py: left, it has just been changed",
    )
    many = [Returned(path=f"/w/{n}.py", result="put_back") for n in range(4)]
    assert redone_words(way, None, many, is_chat=True) == (
        "Redone: “mend it” · 4 files changed again · it had ended",
    )


async def test_putting_back_after_a_fork_takes_folders_too(maker: MakerTalk) -> None:
    await maker.say("a.txt=1", "pkg/sub/b.txt=1")
    turns = await maker.runs.turns(maker.machine.run.id)
    await maker.runs.undo(maker.machine, at=turns[-1].at, keeps_files=True)

    told = await maker.runs.put_back()

    assert maker.tree() == ["a.txt"]
    assert told == ("pkg/sub/b.txt: removed", "pkg/: removed")


@pytest.mark.parametrize("died", ["before the folders", "between them", "before the file", "after"])
async def test_wherever_a_write_was_cut_undo_leaves_nothing_of_it(
    maker: MakerTalk, died: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(place: Place, data: bytes, **_: object) -> None:
        for name in {"between them": ["pkg"], "before the file": ["pkg", "pkg/sub"]}.get(died, []):
            (place.root / name).mkdir()
        if died == "after":
            file = place.root.joinpath(*place.parts)
            file.parent.mkdir(parents=True)
            file.write_bytes(data)
        raise OSError("the process died")

    monkeypatch.setattr(file_changes, "put_in_place", cut)
    await maker.say("pkg/sub/a.txt=1")

    await maker.undo()

    assert maker.tree() == []

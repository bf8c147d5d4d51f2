"""Going back in the runs of a workspace and forward again, as a console and an editor do."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from midstream.config.directories import user_state_dir
from midstream.config.private_files import make_private
from midstream.core.costs import counted
from midstream.core.run import Run
from midstream.language.errors import UserMistake
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.redo import WayForward, again_words, redo, undo
from midstream.runtime.engine.run_file import Exported, exported, write_new
from midstream.runtime.engine.run_files import Returned, changed_files, put_back
from midstream.runtime.engine.time_travel import Fork, fork, whole_facts
from midstream.runtime.file_watch import written_so_far
from midstream.runtime.ports import Machine
from midstream.runtime.storage import Store
from midstream.system.offloop import in_thread
from midstream.system.own_process import own_redactor
from midstream.views.cells import clipped, one_line
from midstream.views.side_effects import ChangedFile, in_words, short_path
from midstream.views.transcript import markdown_of
from midstream.views.turns import Turn, turns_of

_MARKDOWN: Final = ".md"
"""How the name of a file ends to which a run is written for people."""


class Travelled(msgspec.Struct, frozen=True, kw_only=True):
    """What came of going back: the run that goes on, and what a person should hear."""

    id: str
    told: tuple[str, ...] = ()


async def write_run(store: Store, id: str, path: Path, *, with_files: bool = False) -> str:
    """Write a run to a new file, and return what is said of it.

    A name that ends in `.md` gets what a person reads, any other the facts; `with_files` adds the contents
    of files to these.

    Raises:
        UserMistake: the file is there already, or contents are wanted beside what a person reads.
        WorldTrouble: it cannot be written.
    """
    if path.suffix == _MARKDOWN:
        if with_files:
            raise UserMistake(
                "--with-files goes with the facts.",
                hint=f"Name a file that does not end in {_MARKDOWN}.",
            )
        return await _write_markdown(store, id, path)
    made = await exported(store, id, made_by=made_by(), with_files=with_files)
    await in_thread(partial(write_new, path, made.lines))
    return exported_words(id, made, f"is in {path}")


def exported_words(id: str, made: Exported, where: str) -> str:
    """Return what is said of a run whose facts are written; `where` is a sentence's middle."""
    some = f" The contents of {counted(made.missing, 'file')} are not kept any more."
    return (
        f"Run {id} {where}, all {counted(made.facts, 'fact')} of it.{some if made.missing else ''} "
        "It holds all that the run read and said: check it before you share it."
    )


def made_by() -> str:
    """Return who writes a file of a run, as it stands there."""
    from midstream._version import __version__

    return f"midstream {__version__}"


async def _write_markdown(store: Store, id: str, path: Path) -> str:
    facts = await store.read(id)
    differences = {
        f"{each.diff.path} +{each.diff.added} -{each.diff.removed}": each.diff.diff
        for each in await changed_files(store, facts)
    }
    text = own_redactor().redacted(markdown_of(facts, differences))
    await in_thread(partial(write_new, path, [text.encode("utf-8", "replace")]))
    return f"Run {id} is in {path}, to be read. Check it before you share it."


class WorkspaceRuns:
    """What the past of the runs of a workspace is good for. `engine` is where they go on."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._last_fork: Fork | None = None

    async def fork(self, id: str, at: int | None) -> Travelled:
        """Make a copy of a run as it was after fact `at`, None: as it is."""
        made = await fork(self._engine.store, id, at)
        # It takes no words back: the run they were said in is still there.
        return Travelled(id=made.id, told=self._left(msgspec.structs.replace(made, words="")))

    async def undo(
        self, machine: Machine, *, keeps_files: bool = False, at: int | None = None
    ) -> Travelled:
        """End a run of this process and make a copy of it as it was before its last turn.

        Or before a turn that began right after fact `at`. File changes since are taken back, too,
        unless `keeps_files`, or where nothing can be recorded.
        """
        is_chat = _is_chat(machine)
        store, now = self._engine.store, self._engine.world.clock.now()
        undone = await undo(
            store, machine.run.id, machine.stop, now=now, at=at, keeps_files=keeps_files
        )
        made = undone.made
        if undone.problem:
            stay = f"The files stay: {undone.problem}"
            told = (stay, *self._left(made, is_chat=is_chat))
        elif keeps_files and made.effects.files:
            told = self._left(made, is_chat=is_chat)
        else:
            self._last_fork = None
            told = undone_words(made, undone.returned, is_chat=is_chat)
        return Travelled(id=made.id, told=told if is_chat else (*told, "/redo goes forward again."))

    async def redo(self, machine: Machine) -> Travelled:
        """End a run of this process that came of an undo, and go on as it was before that."""
        ends = None if machine.run.is_over else machine.stop
        way, made, returned = await redo(self._engine.store, machine.run.id, ends)
        self._last_fork = None
        told = redone_words(way, made, returned, is_chat=_is_chat(machine))
        return Travelled(id="" if made is None else made.id, told=told)

    async def put_back(self) -> tuple[str, ...]:
        """Put files back that were written after the point last gone back to; say what became of each.

        Raises:
            UserMistake: there is nothing to put back.
        """
        last = self._last_fork
        if last is None or not last.effects.files:
            raise UserMistake(
                "There is no file to put back.", hint="/fork and /undo name such files."
            )
        self._last_fork = None
        workspace = self._engine.world.workspace
        done = await put_back(self._engine.store, last.effects.files, workspace)
        return returned_words(done, str(workspace))

    async def turns(self, id: str) -> tuple[Turn, ...]:
        """Return the turns of a run that words began, the oldest first."""
        facts, _ = await whole_facts(self._engine.store, id)
        return await in_thread(partial(turns_of, id, facts))

    async def export(self, id: str, file: str) -> str:
        """Write a run as one file; return where it is, in words.

        See `write_run`. "" is a file named by the run's id in the folder of state: nothing comes into
        a repository that nobody asked for.

        Raises:
            UserMistake: the file is there already.
            WorldTrouble: it cannot be written.
        """
        path = _named(self._engine.world.workspace, file)
        if not file:
            folder = user_state_dir(os.environ) / "exports"
            await in_thread(partial(make_private, folder))
            path = folder / f"{id}.jsonl"
        return await write_run(self._engine.store, id, path)

    async def changes(self, id: str, run: Run | None = None) -> tuple[ChangedFile, ...]:
        """Return what a run has made of files; see `changed_files`.

        With the `run` as it stands, what external agents at work have changed so far is in it.
        """
        facts = [*await self._engine.store.read(id)]
        if run is not None:
            facts += await written_so_far(run, facts, self._engine.world)
        return await changed_files(self._engine.store, facts)

    def _left(self, made: Fork, *, is_chat: bool = False) -> tuple[str, ...]:
        """Return what a person hears of a fork that leaves files as they are; `put_back` may follow."""
        self._last_fork = None if made.is_foreign else made
        stays = "What was done after that point stays done:"
        told = undone_words(made, (), is_chat=is_chat, stays=stays)
        if made.effects.files and not made.is_foreign:
            return (*told, "/putback puts the files back as they were then.")
        return told


def _is_chat(machine: Machine) -> bool:
    definition = machine.run.definition
    return definition is not None and definition.kind == "chat"


def _named(folder: Path, file: str) -> Path:
    """Return the path a person means by a name typed in a folder."""
    return folder / Path(file).expanduser()


# --- what a person hears of it ------------------------------------------------------------------

_IN_SHORT = {
    "put_back": "put back",
    "removed": "removed",
    "already": "as it was",
    "left": "left",
}
_FILES_BY_NAME = 3
SHOWN_EFFECTS = 20
_WORDS = 60
"""Cells of the words that were taken back that are shown."""


def undone_words(
    made: Fork,
    returned: Sequence[Returned],
    *,
    is_chat: bool = False,
    stays: str = "Not taken back:",
) -> tuple[str, ...]:
    """Return what a person hears of having gone back: what was not taken back, last of all.

    Of a chat it is a line or two: a person knows it by its words, not by an id.
    """
    back = [each for each in returned if each.result != "left"]
    taken_back = f"Taken back: {_quoted(made.words)}" if made.words else "Taken back"
    if is_chat:
        became = [(each.path, _IN_SHORT[each.result]) for each in back]
        files = _in_short(became, made.workspace, "as they were")
        told = [" · ".join((taken_back, *files, "/redo goes forward"))]
    else:
        told = [f"Run {made.id} goes on from event {made.seq} of run {made.source}."]
        told += [taken_back] if made.words else []
        told += _under("Files as they were then:", returned_words(back, made.workspace))
    others = msgspec.structs.replace(made.effects, files=() if returned else made.effects.files)
    left = [each for each in returned if each.result == "left"]
    rest = (*in_words(others, workspace=made.workspace), *returned_words(left, made.workspace))
    told += [f"{stays} {rest[0]}"] if is_chat and len(rest) == 1 else _under(stays, rest)
    if made.damaged is not None:
        told.append(
            f"What was done from event {made.damaged} on is not known: the journal is damaged there."
        )
    return tuple(told)


def redone_words(
    way: WayForward, made: Fork | None, returned: Sequence[Returned], *, is_chat: bool = False
) -> tuple[str, ...]:
    """Return what a person hears of having gone forward again; see `undone_words`."""
    if is_chat:
        what = f"Redone: {_quoted(way.words)}" if way.words else "As it was before /undo"
        back = [(each.path, again_words(way, each)) for each in returned if each.result != "left"]
        files = _in_short(back, way.workspace, "changed again")
        over = () if made is not None else ("it had ended",)
        left = [each for each in returned if each.result == "left"]
        return (" · ".join((what, *files, *over)), *_shown(returned_words(left, way.workspace)))
    if made is None:
        told = [f"Run {way.target} is as it was when it ended."]
    else:
        told = [f"Run {made.id} goes on from event {made.seq} of run {made.source}, as it was."]
    told += [f"Redone: {_quoted(way.words)}"] if way.words else []
    became = ((short_path(each.path, way.workspace), again_words(way, each)) for each in returned)
    lines = [f"{path}: {how}" for path, how in became]
    return (*told, *_under("Files as they were before it was undone:", lines))


def returned_words(returned: Sequence[Returned], workspace: str) -> tuple[str, ...]:
    """Return what became of files that were to be put back, a line each."""
    return tuple(
        f"{short_path(each.path, workspace)}: "
        f"{_IN_SHORT[each.result]}{f', {each.why}' if each.why else ''}"
        for each in returned
    )


def _in_short(became: Sequence[tuple[str, str]], workspace: str, all_are: str) -> tuple[str, ...]:
    """Return what became of files and folders, of more than a few files how many they are."""
    files = sum(not path.endswith("/") for path, _ in became)
    if files > _FILES_BY_NAME:
        return (f"{files} files {all_are}",)
    return tuple(f"{short_path(path, workspace)} {how}" for path, how in became)


def _quoted(words: str) -> str:
    return f"“{clipped(one_line(words), _WORDS)}”"


def _under(heading: str, lines: Sequence[str]) -> list[str]:
    return [heading, *_shown(lines)] if lines else []


def _shown(lines: Sequence[str]) -> list[str]:
    more = len(lines) - SHOWN_EFFECTS
    shown = [f"  {line}" for line in lines[:SHOWN_EFFECTS]]
    return [*shown, f"  +{more} more"] if more > 0 else shown

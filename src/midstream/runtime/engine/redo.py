"""Undo, and going forward again: what an undo took back, its words and its files, comes back.

An undo leaves the old run as it was, stopped, and a fork that goes on before its last turn. In the
fork's own facts stands what each file held that was put back, so any process can go forward later. The
way forward is a fork of the old run right before it was stopped. Of several undos each is gone back by
itself, in turn, for as long as nothing new was said or done: a fork that went forward stands for the
run it is a fork of.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from midstream.core import events as e
from midstream.core.notices import Envelope
from midstream.language.errors import MidstreamError, UserMistake
from midstream.runtime.engine.run_files import Found, Returned, folders_again, looked_at, put_back
from midstream.runtime.engine.time_travel import (
    UNDONE,
    Fork,
    before_last_turn,
    ended,
    fork,
    last_open_point,
    let_wait,
    turn_began,
    whole_facts,
)
from midstream.runtime.storage import KeptRun, Store
from midstream.system.offloop import in_thread
from midstream.views.side_effects import PUT_BACK, TREE, FileChange, short_path
from midstream.views.turns import turns_of

REDONE = "gone forward from"
"""Why a fork was stopped whose undo was taken back itself."""


class WayForward(msgspec.Struct, frozen=True, kw_only=True):
    """What going forward from a run leads to: run `target`, with `files` as they were.

    `folders` went with the files, outermost first, and come again. `is_over`: the target ended by itself
    and is there as it ended; else a fork of it goes on. `words` are the first of those that were taken
    back.
    """

    target: str
    files: tuple[FileChange, ...]
    workspace: str
    folders: tuple[str, ...] = ()
    is_over: bool = False
    words: str = ""


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an undo: the fork that goes on, and what became of each file.

    `problem` is why no file was touched that was to be put back, "" where that went well.
    """

    made: Fork
    returned: tuple[Returned, ...] = ()
    problem: str = ""


Ends: TypeAlias = Callable[[str], Awaitable[object]]
"""Ends the run that is left, for a reason: in the process it lives in, or where none runs it."""


async def undo(
    store: Store,
    id: str,
    ends: Ends | None,
    *,
    now: float,
    at: int | None = None,
    keeps_files: bool = False,
) -> Undone:
    """Make a copy of a run as it was before its last turn, in place of the run. The copy does not run yet.

    Or before a turn that began right after fact `at`. `ends` is None for a run that has ended.

    Raises:
        UserMistake: there is no such run, or no turn in it. Nothing has changed.
    """
    if at is None:
        at = await before_last_turn(store, id)
    if ends is not None:
        await ends(UNDONE)
    made = await fork(store, id, at)
    await let_wait(store, made.id, now=now)
    if keeps_files:
        return Undone(made=made)
    try:
        returned = await _files_undone(store, made, now=now)
    except MidstreamError as error:
        return Undone(made=made, problem=str(error))
    return Undone(made=made, returned=returned)


async def redo(
    store: Store, id: str, ends: Ends | None
) -> tuple[WayForward, Fork | None, tuple[Returned, ...]]:
    """Go forward from a run that came of an undo, and end it; `ends` as of `undo`.

    Return what that led to, the fork that goes on (None where the target is over), and what became of
    each file.

    Raises:
        UserMistake: as of `way_forward`. Nothing has changed.
    """
    way = await way_forward(store, id)
    if ends is not None:
        await ends(REDONE)
    workspace = Path(way.workspace)
    made = None if way.is_over else await fork(store, way.target)
    await in_thread(partial(folders_again, way.folders, workspace))
    return way, made, await put_back(store, way.files, workspace)


async def _files_undone(store: Store, made: Fork, *, now: float) -> tuple[Returned, ...]:
    """Put the files back that a run wrote after the point its fork begins at; say what became of each.

    What they held is written into the fork before the first is changed. The fork must not run yet.

    Raises:
        WorldTrouble: that cannot be written; no file was changed.
    """

    async def record(found: Sequence[Found]) -> None:
        kept = (await store.lineage(made.id))[0]
        facts = [
            Envelope(
                run=made.id,
                at=now,
                event=e.FileWritten(
                    call_id=PUT_BACK,
                    path=each.change.path,
                    before=each.present,
                    after=each.change.before,
                    folders=each.folders,
                ),
                seq=seq,
            )
            for seq, each in enumerate(found, kept.seq + 1)
        ]
        if facts:
            await store.append(made.id, kept.seq, facts)

    if made.is_foreign or not made.workspace:
        return ()
    return await put_back(store, made.effects.files, Path(made.workspace), record=record)


async def way_forward(store: Store, id: str) -> WayForward:
    """Return what a run's last undo took back. Nothing is changed.

    Raises:
        UserMistake: the run did not come of an undo, something was said or done in it since, or a
            file that was put back has been changed since.
    """
    runs = {kept.id: kept for kept in await store.lineage(id)}
    facts, _ = await whole_facts(store, id)
    while True:
        kept = runs.get(id)
        if kept is None or not kept.parent or kept.parent not in runs or kept.is_foreign:
            raise _nothing()
        own = await in_thread(partial(_own, id, facts, kept.parent_seq))
        if why := _gone_on(own):
            raise UserMistake(
                f"Redo is not possible: {why} since then.",
                hint="/undo takes that back; what was undone before it stays in the journal, and "
                f"midstream fork {kept.parent} goes on with it.",
            )
        before, _ = await whole_facts(store, kept.parent)
        how = await in_thread(partial(_led_here, kept, before))
        if how == "undo":
            break
        if how != "redo":
            raise _nothing()
        id, facts = kept.parent, before
    files = tuple(_files(own))
    workspace = runs[id].summary.workspace
    if files:
        await _require_unchanged(store, files, workspace)
    later = (each.event for each in before[kept.parent_seq :])
    return WayForward(
        target=kept.parent,
        files=files,
        workspace=workspace,
        folders=tuple(_folders(own)),
        is_over=not _was_undone(before),
        words=next((event.text for event in later if isinstance(event, e.InputReceived)), ""),
    )


def again_words(way: WayForward, one: Returned) -> str:
    """Return what became of a file that went forward: it is as the turns that were undone left it."""
    if one.result == "put_back":
        was_gone = any(each.path == one.path and each.after is None for each in way.files)
        return "created again" if was_gone else "changed again"
    return {"removed": "removed again", "already": "already so"}.get(one.result, f"left, {one.why}")


def _nothing() -> UserMistake:
    return UserMistake(
        "There is nothing to redo: no turn of this run was undone.",
        hint="/undo takes the last turn back.",
    )


def _was_undone(facts: Sequence[Envelope]) -> bool:
    last = facts[-1].event if facts else None
    return isinstance(last, e.RunStopped) and last.reason == UNDONE


def _led_here(kept: KeptRun, before: Sequence[Envelope]) -> str:
    """Return whether a fork came of an `undo` of the run it was made of, a `redo` of it, or neither."""
    if not ended(before):
        return ""
    if not _was_undone(before):
        points = {turn_began(before), *(turn.at for turn in turns_of(kept.parent, before))}
        return "undo" if kept.parent_seq in points else ""
    return "undo" if kept.parent_seq < last_open_point(kept.parent, before) else "redo"


def _own(id: str, facts: Sequence[Envelope], after: int) -> Sequence[Envelope]:
    """Return the facts of a fork itself, without those of its being stopped."""
    end = last_open_point(id, facts) if ended(facts) else len(facts)
    return facts[after:end]


def _gone_on(own: Iterable[Envelope]) -> str:
    """Return what a run has come to by itself, "" for nothing that going forward would lose."""
    waiting: set[str] = set()
    for envelope in own:
        match envelope.event:
            case e.InputReceived(input_id=id):
                waiting.add(id)
            case e.InputDisposed(input_id=id, disposition="rejected" | "withdrawn"):
                waiting.discard(id)
            case e.InputDisposed():
                return "something was said"
            case e.AgentResponded(agent=agent):
                return f"{agent} has replied"
            case e.ToolCalled(name=name):
                return f"{name} was called"
            case e.HandlerRan():
                return "its script has gone on"
            case e.ConversationCompacted():
                return "the conversation was summarised"
            case e.ResultsTrimmed():
                return "old results were trimmed"
            case e.FileWritten(call_id=call_id) if call_id not in (PUT_BACK, TREE):
                return "a file was written"
            case e.TodoEdited():
                return "the todo list was changed"
            case _:
                pass
    return "something was said" if waiting else ""


def _files(own: Iterable[Envelope]) -> Iterable[FileChange]:
    """Return how the files go forward that were put back: to what they had held."""
    found: Mapping[str, FileChange] = {
        event.path: FileChange(
            path=event.path, before=event.before, after=event.after, seq=envelope.seq or 0
        )
        for envelope in own
        for event in (envelope.event,)
        if isinstance(event, e.FileWritten) and event.call_id == PUT_BACK
    }
    # Of a file that was gone already, its folders alone went.
    return (change for change in found.values() if change.before != change.after)


def _folders(own: Iterable[Envelope]) -> Iterable[str]:
    return dict.fromkeys(
        folder
        for envelope in own
        for event in (envelope.event,)
        if isinstance(event, e.FileWritten) and event.call_id == PUT_BACK
        for folder in event.folders
    )


async def _require_unchanged(store: Store, files: Sequence[FileChange], workspace: str) -> None:
    looked = await looked_at(store, files, Path(workspace))
    left = [each for each in looked if isinstance(each, Returned) and each.result == "left"]
    if left:
        named = "; ".join(f"{short_path(each.path, workspace)}: {each.why}" for each in left[:5])
        more = f"; +{len(left) - 5} more" if len(left) > 5 else ""
        raise UserMistake(
            f"Redo would lose changes: {named}{more}.",
            hint="Nothing was changed. Move such a file away, or put it as it was, and try again.",
        )

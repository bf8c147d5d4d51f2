"""Taking up runs that no process runs: with what they are pinned to, or what a person chose.

A run is pinned to its workflow, roles, tools and script as they were when it began. Where they are
something else by now, nobody but a person can say which should go on: nothing is claimed and nothing
is changed before that is clear.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.core.decide.decide import judged
from midstream.core.inputs import AnyInput, Recovered, Stop
from midstream.core.notices import Envelope
from midstream.core.pinning import changes
from midstream.core.routing import living
from midstream.core.run import OpenCall, Run, definition_of
from midstream.language.errors import (
    DefinitionDiffers,
    MidstreamError,
    UserMistake,
)
from midstream.language.names import python_file
from midstream.language.spec import Definition
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.open_run import found, opened
from midstream.runtime.engine.owner import ask_owner, held_elsewhere
from midstream.runtime.places import placement_of
from midstream.runtime.ports import Clock, Handlers, Machine
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.runtime.storage import KeptRun, Mail, Pool, Store, walk
from midstream.runtime.workflow_library import WorkflowLibrary
from midstream.system.offloop import in_thread
from midstream.views.listing import Standing

Choice: TypeAlias = Literal["ask", "old", "new"]
"""What a run goes on with where its workflow has changed: ask, the pinned copy, or today's."""


TAKEN_WITHIN_S = 5.0
"""Seconds the messages of a run get to be taken when it goes on."""


class _Now(msgspec.Struct, frozen=True, kw_only=True):
    """What the workflow of a run is now. Without a definition `error` says why there is none."""

    definition: Definition | None = None
    handlers: Handlers | None = None
    error: MidstreamError | None = None


async def take_up(
    engine: LocalEngine,
    library: WorkflowLibrary,
    id: str,
    *,
    choice: Choice = "ask",
    built: tuple[Definition, Handlers] | None = None,
    silent: Callable[[], object] | None = None,
) -> WorkflowStateMachine:
    """Return a run of the store that goes on in this process.

    Args:
        engine: where it goes on.
        library: what its workflow, or its role, is now.
        id: the run's whole id.
        choice: what to do where that is not what the run is pinned to.
        built: of a workflow that a program built, what it is now, and its handlers.
        silent: as of `ask_owner`.

    Raises:
        DefinitionDiffers: it is not, and nobody has chosen; the run is as it was.
        UserMistake: there is no such run, it is over, an import, of another workspace, or what was
            chosen does not fit it.
        RunOwned: another process runs it.
        JournalDamaged: a fact is not what was written.
    """
    known = engine.machine(id)
    if known is not None and not known.is_closed:
        return known
    # Whose it is, and where it comes from: asked once, for this run alone, before anything of it is read.
    line = await engine.store.lineage(id)
    run = await _resumable(engine, id, line[0] if line else None, silent)
    pinned = definition_of(run)
    is_of_import = any(kept.is_foreign for kept in line)
    if is_of_import:
        _refuse_foreign_powers(run)
        is_named = bool(pinned.found_as) and python_file(pinned.found_as) is None
        if not is_named and pinned.kind != "chat":
            raise UserMistake(
                f"Run {id} is a fork of an import, of a workflow that no name here leads to.",
                hint="It can be looked at; start the workflow again, or stop the run.",
            )
    changed = ""
    if built is None and choice != "new":
        # A file in Python that has changed is not even imported before a person has chosen it.
        changed = await in_thread(lambda: library.changed_file(pinned))
    now = _Now() if changed else await _now(engine, library, pinned, built)
    differences = (changed,) if changed else _differences(pinned, now)
    if is_of_import and now.definition is not None and now.definition.delegates != pinned.delegates:
        # Else a run keeps those it began with; but these nobody here has written.
        differences = (*differences, "the roles it hands tasks on to are others here")
    if not differences:
        handlers = now.handlers or await library.pinned(pinned)
        return await engine.resume(id, handlers=handlers, known=run)
    if choice == "ask":
        raise DefinitionDiffers(
            f"The workflow or roles of run {id} have changed since it began: {'; '.join(differences)}.",
            run=id,
            changes=differences,
            hint=f"Go on with the old copy (midstream resume {id} --old) or with what it is now "
            f"(--new), or end it: midstream stop {id}."
            if built is None
            else 'Go on with what it is now: Engine.resume(id, workflow, choice="new"), or end it: '
            f"midstream stop {id}.",
        )
    if choice == "old":
        if is_of_import:
            raise UserMistake(
                f"Run {id} is a fork of an import, whose script and roles nobody here has read.",
                hint="Go on with what the workflow is now (--new), or stop it.",
            )
        if built is not None:
            require_no_code(pinned)
        return await engine.resume(id, handlers=await library.pinned(pinned), known=run)
    if now.definition is None:
        assert now.error is not None
        raise now.error
    return await engine.resume(id, handlers=now.handlers, definition=now.definition, known=run)


async def cut_runs(store: Store, workspace: Path, limit: int | None = None) -> list[KeptRun]:
    """Return the runs of a workspace that wait for a process to go on with them, at most the newest.

    A chat counts only where something is owed: a turn was cut, a question is open, or words that were
    sent to it were never heard. One that waits for its next line is simply over for now. The run that
    was written last comes last; of each of these groups there are no more than `limit`.
    """
    here = str(workspace)
    found = await _cut(store, walk(store, workspace=here, status=_OWED), limit)
    found += await _cut(store, walk(store, workspace=here, kind="workflow", status=_WAITING), limit)
    for id in {mail.run for mail in await store.mail("")} - {kept.id for kept in found}:
        kept = await store.run(id)
        if kept is not None and kept.summary.workspace in (here, "") and _is_cut(store, kept):
            found.append(kept)
    newest = sorted(found, key=lambda kept: kept.place)
    return newest if limit is None else newest[-limit:]


_OWED: Final[tuple[Standing, ...]] = ("running", "asking", "suspended")
_WAITING: Final[tuple[Standing, ...]] = ("waiting",)


async def _cut(store: Store, runs: AsyncIterator[KeptRun], limit: int | None) -> list[KeptRun]:
    found: list[KeptRun] = []
    async for kept in runs:
        if _is_cut(store, kept):
            found.append(kept)
        if len(found) == limit:
            break
    return found


def _is_cut(store: Store, kept: KeptRun) -> bool:
    is_nobodys = not (kept.owner or kept.is_foreign or kept.damaged or kept.summary.is_over)
    return is_nobodys and is_of_host(store, kept)


async def mail_taken(machine: Machine, store: Store) -> None:
    """Return once the messages a run had were taken, so that it does not only seem to wait.

    Those that cannot be taken now are waited for a few seconds at most; they stay where they are.
    """
    had = {mail.id for mail in await store.undelivered(machine.run.id)}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(TAKEN_WITHIN_S):
            while had and not machine.is_closed:
                await store.changed(0.05, (machine.run.id,))
                had &= {mail.id for mail in await store.undelivered(machine.run.id)}


async def stop_here(store: Store, clock: Clock, id: str, *, reason: str) -> Run:
    """End a run that no process runs, and return it. Nothing of it is begun again.

    Words that waited for it are kept for nobody any more; `refused` names them.

    Raises:
        UserMistake: there is no such run, or it is an import.
        RunOwned: a process runs it.
        JournalDamaged: a fact is not what was written.
    """
    if (await found(store, id)).is_foreign:
        raise _is_foreign(id)
    claim = await store.claim(id)
    try:
        # Recovered first: what was shown is kept and a call that was cut is named, as if it had gone on.
        run = await opened(store, id)
        for input in (Recovered(was_cut=claim.was_cut), Stop(reason=reason)):
            run = await _made_true(store, clock, run, input)
        for mail in await store.undelivered(id):
            await store.delivered(id, mail.id)
    finally:
        await store.release(id, 0.0)  # where that failed, it is owed what it was owed before
    return run


async def refused(store: Store, run: Run) -> list[Mail]:
    """Return the words sent to a run that came too late: it had ended, and never heard them."""
    if not run.is_over:
        return []
    posted = await store.posted(run.id)
    taken_back = {mail.text for mail in posted if mail.kind == "withdraw"}
    heard = run.inbox.lines.keys() | taken_back
    return [mail for mail in posted if mail.kind == "say" and mail.id not in heard]


async def _made_true(store: Store, clock: Clock, run: Run, input: AnyInput) -> Run:
    story = judged(run, input)
    at = clock.now()
    facts = [
        Envelope(run=run.id, at=at, event=fact, seq=seq)
        for seq, fact in enumerate(story.facts, run.seq + 1)
    ]
    if facts:
        await store.append(run.id, run.seq, facts)
    return story.run


# --- may it be resumed here ---------------------------------------------------------------------


async def _resumable(
    engine: LocalEngine, id: str, kept: KeptRun | None, silent: Callable[[], object] | None
) -> Run:
    if kept is None:
        raise UserMistake(f"There is no run {id}.", hint="midstream runs lists them.")
    owner = await ask_owner(engine.store, kept, silent)
    if owner not in ("", engine.store.me):
        raise held_elsewhere(
            id,
            owner,
            hint=f"Watch it with `midstream events {id} --follow`; talk to it with `midstream send`.",
        )
    run = await opened(engine.store, id)
    if run.is_over:
        fork = f"midstream fork {id} --at {max(kept.seq - 1, 1)}"
        raise UserMistake(
            f"Run {id} has ended.", hint=f"Fork it to go on from an earlier point: {fork}."
        )
    if kept.is_foreign:
        raise _is_foreign(id, kept.seq)
    here = engine.world.here
    if run.workspace != here and placement_of(kept) is not None:
        raise UserMistake(
            f"Run {id} is of a repository: workers go on with it, in a folder they make for it.",
            hint="Start one: midstream worker. What it has made so far: midstream fetch.",
        )
    if run.workspace and run.workspace != here:
        raise UserMistake(
            f"Run {id} belongs to another folder.",
            hint=f"Resume it there: midstream resume {id} --workspace {run.workspace}",
        )
    # One that a worker has taken is its own already.
    if not owner and not is_of_host(engine.store, kept):
        host = "" if kept.placement is None else kept.placement.host
        raise UserMistake(
            f"Run {id} belongs to the folder {run.workspace} of {host}, which is another machine.",
            hint=f"Talk to it from here: midstream send {id}. It goes on there, or with its workers.",
        )
    return run


def is_of_host(store: Store, kept: KeptRun) -> bool:
    """Return whether the folder of a run is on this machine, where machines share their runs."""
    if not isinstance(store, Pool) or kept.placement is None:
        return True
    return kept.placement.host in ("", store.host) or bool(kept.placement.repository)


def _is_foreign(id: str, seq: int | None = None) -> UserMistake:
    at = "SEQ" if seq is None else seq
    return UserMistake(
        f"Run {id} was imported: it never goes on by itself.",
        hint=f"Fork it and resume the fork: midstream fork {id} --at {at}",
    )


def _refuse_foreign_powers(run: Run) -> None:
    """Refuse a past that came with an import where it would act here before anybody is asked.

    Raises:
        UserMistake: it lets tools run without asking, stands in the middle of calling some, or asks
            for a yes to one: the words of that question came with it and need not be true of the call.
    """
    if run.allowed:
        raise UserMistake(
            f"Run {run.id} comes from an import that lets {', '.join(run.allowed)} run without "
            "asking.",
            hint="It can be looked at; start the workflow again to go on with it.",
        )
    is_asking = any(question.kind == "approval" for question in run.inbox.open_questions)
    is_calling = any(call.status not in ("parked", "done") for call in _calls_of(run))
    if is_asking or is_calling or any(branch.branch.call_id for branch in living(run)):
        raise UserMistake(
            f"Run {run.id} comes from an import and stopped in the middle of tool calls, which "
            "nobody here has approved.",
            hint="Fork the import at an earlier event.",
        )


def _calls_of(run: Run) -> Iterator[OpenCall]:
    """Yield the open calls of a run and of all runs within it, those that wait to go on included."""
    if run.visit.turn is not None:
        yield from run.visit.turn.calls
    for inner in run.visit.branches.values():
        yield from _calls_of(inner)
    for cut in run.halt.cuts:
        for inner in cut.branches.values():
            yield from _calls_of(inner)


# --- what has changed ---------------------------------------------------------------------------


async def _now(
    engine: LocalEngine,
    library: WorkflowLibrary,
    pinned: Definition,
    built: tuple[Definition, Handlers] | None,
) -> _Now:
    """Return what a run's workflow or role is now."""
    if built is not None:
        return _Now(definition=built[0], handlers=built[1])
    if pinned.kind != "chat" and not pinned.found_as:
        require_no_code(pinned)
        return _Now(definition=pinned)
    try:
        if pinned.kind == "chat":
            name, tools = next(iter(pinned.roles)), engine.world.tools.specs()
            return _Now(definition=await in_thread(lambda: library.chat(name, tools)))
        definition, handlers = await library.load(pinned.found_as)
    except MidstreamError as error:
        return _Now(error=error)
    return _Now(definition=definition, handlers=handlers)


def require_no_code(pinned: Definition) -> None:
    """Return where a definition of no file needs no functions: those are in the program that made it.

    Raises:
        UserMistake: it needs them.
    """
    states = pinned.workflow.states
    has_handlers = any(s.pre_handler or s.post_handler or s.transition_handler for s in states)
    if has_handlers and pinned.script is None:
        raise UserMistake(
            f"The workflow {pinned.workflow.workflow_name} was built in code, and so were its "
            "handlers.",
            hint="Resume it in that program: Engine.resume(id, workflow) or (id, handlers=...).",
        )


def _differences(pinned: Definition, now: _Now) -> tuple[str, ...]:
    if now.definition is None:
        assert now.error is not None
        what = "role" if pinned.kind == "chat" else "workflow"
        why = "is gone" if isinstance(now.error, UserMistake) else "cannot be loaded"
        return (f"the {what} {why}: {now.error.what.rstrip('.')}",)
    return changes(_as_kept(pinned), _as_kept(now.definition))


def _as_kept(definition: Definition) -> Definition:
    """Return a definition as the journal gives it back: what is a tuple in code is a list in JSON."""
    return msgspec.json.decode(msgspec.json.encode(definition), type=Definition)

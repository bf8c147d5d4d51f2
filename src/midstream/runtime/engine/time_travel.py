"""Going back in a run's past: forks, undo, and putting files back.

A fork is a new run that begins with the facts of another, by reference. Nothing of the old run
changes, and nothing is repeated: what was in flight at that point is taken up as after a crash, so a
`once` call that was under way is asked about. What the old run did to the world after that point
stays done; `Fork.effects` lists it, and `put_back` puts files back.

`/undo` and `midstream undo` are the fork to before the last turn, in place of the run:
`runtime/engine/redo.py` makes it, and goes forward again.
"""

from collections.abc import Sequence
from functools import partial

import msgspec

from midstream.core.costs import counted
from midstream.core.decide.decide import decide
from midstream.core.events import (
    Fact,
    FileWritten,
    InputReceived,
    LimitsSet,
    PermissionGranted,
    PermissionRevoked,
    QuestionAsked,
    RunFailed,
    RunFinished,
    RunRecovered,
    RunStarted,
    RunStopped,
    StateTransition,
    WordsJoined,
    WorkflowOutput,
)
from midstream.core.fold.apply import apply
from midstream.core.inputs import Halt, Shown
from midstream.core.notices import Envelope
from midstream.core.pending import request_key
from midstream.core.run import Run
from midstream.language.errors import JournalDamaged, UserMistake
from midstream.runtime.engine.open_run import opened
from midstream.runtime.state_machine import new_run_id
from midstream.runtime.storage import Store
from midstream.system.offloop import in_thread
from midstream.views.side_effects import PUT_BACK, TREE, SideEffects, side_effects
from midstream.views.turns import turns_of

UNDONE = "undone"
"""Why a run was stopped whose last turn was taken back."""

_ENDS = (RunFinished, RunFailed, RunStopped)
_FIRST = (RunStarted, StateTransition, WordsJoined, QuestionAsked, WorkflowOutput)
"""All that the start of a run can consist of; an effect's result or a person's words never do."""


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """A new run: the first `seq` facts of `source`, less the permissions taken back since.

    `effects` is what `source` did to the world after that point. `workspace` is the folder both work
    in. `is_foreign`: the past is that of an imported run, whose files are not ours to put back.
    `damaged`: the fact of `source` that is not what was written; what was done from there on is in
    no list. `words` are the first a person said after that point, "" for none.
    """

    id: str
    source: str
    seq: int
    effects: SideEffects
    workspace: str
    is_foreign: bool = False
    damaged: int | None = None
    words: str = ""


# --- forks ------------------------------------------------------------------------------------


async def fork(store: Store, source: str, at: int | None = None) -> Fork:
    """Return a new run that begins with the facts of `source` up to fact `at`, or a little before.

    Facts appended together stay together: of those that `at` cuts, none is taken. None: as late as
    the run can go on from, which for one that has ended is before what ended it.

    Raises:
        UserMistake: there is no such run, or it was not under way by then.
        JournalDamaged: a fact before that point is not what was written.
    """
    facts, damage = await whole_facts(store, source)
    if at is None:
        if damage is None and ended(facts):
            at = await in_thread(partial(last_open_point, source, facts))
        else:
            at = len(facts)
    if at > len(facts) and damage is not None:
        raise damage
    if at < 1 or at > len(facts):
        raise UserMistake(
            f"Run {source} has {counted(len(facts), 'fact')}; there is no fact {at}.",
            hint=f"midstream events {source} lists them.",
        )
    is_foreign = await has_foreign_past(store, source)
    id = new_run_id()
    seq = await store.fork(source, _whole_append(facts, at) if is_foreign else at, id)
    await _take_back(store, id, facts, seq)
    started = facts[0].event
    return Fork(
        id=id,
        source=source,
        seq=seq,
        effects=await in_thread(partial(side_effects, facts, seq)),
        workspace=started.workspace if isinstance(started, RunStarted) else "",
        is_foreign=is_foreign,
        damaged=None if damage is None else damage.seq,
        words=next((e.event.text for e in facts[seq:] if isinstance(e.event, InputReceived)), ""),
    )


async def let_wait(store: Store, id: str, *, now: float) -> None:
    """Have a chat that undo led back to, and that is about to reply, wait for its person as after Esc.

    Whoever takes words back wants to say others: the reply that they cut is not made anew, and paid for
    again, before that is asked for. The fork must not run yet.
    """
    run = await opened(store, id)
    turn = run.visit.replying
    if not run.is_chat or turn is None:
        return
    # What the request had used counts where it was made.
    halt = Halt(shown=(Shown(key=request_key(run), text=turn.shown),))
    facts = enumerate(decide(run, halt), run.seq + 1)
    told = [Envelope(run=id, at=now, event=fact, seq=seq) for seq, fact in facts]
    await store.append(id, run.seq, told)


async def _take_back(store: Store, id: str, facts: Sequence[Envelope], seq: int) -> None:
    """Take from a fork what a person has taken back since its point and not given again."""
    revoked: dict[str, None] = {}
    for envelope in facts[seq:]:
        match envelope.event:
            case PermissionRevoked(permission=permission):
                revoked[permission] = None
            case PermissionGranted(tool=tool, capabilities=capabilities):
                for permission in capabilities or (tool,):
                    revoked.pop(permission, None)
            case _:
                pass
    taken = [
        Envelope(run=id, at=facts[-1].at, event=PermissionRevoked(permission=each), seq=seq + n)
        for n, each in enumerate(revoked, 1)
    ]
    if taken:
        await store.append(id, seq, taken)


async def before_last_turn(store: Store, id: str) -> int:
    """Return the fact to go back to so that the last turn has not been: the one before its words.

    A turn is begun by words of the user that were answered, interrupted, steered or queued; words
    that were refused, taken back or still wait began none. Of words that took effect together, such
    as two that joined one halt, the first counts. A run without any begins with its start.

    Raises:
        UserMistake: there is no such run, or nothing to undo in it.
    """
    facts, _ = await whole_facts(store, id)
    point = await in_thread(partial(turn_began, facts))
    if point is None:
        raise UserMistake(
            f"There is nothing to undo in run {id}.",
            hint="It is at its beginning: no turn of it is left.",
        )
    return point


def turn_began(facts: Sequence[Envelope]) -> int | None:
    """Return the fact before the words of the last turn, None where nothing has happened yet."""
    turns = turns_of("", facts)
    if turns:
        return turns[-1].at
    later = (envelope.seq or 0 for envelope in facts if not _begins_nothing(envelope.event))
    first = next(later, None)
    if first is None or first < 2 or isinstance(facts[first - 1].event, _ENDS):
        return None
    return first - 1


def _begins_nothing(event: object) -> bool:
    """Return whether a fact may stand before anything has happened in a run, or in a fork."""
    if isinstance(event, FileWritten):
        return event.call_id in (PUT_BACK, TREE)
    return isinstance(event, (*_FIRST, RunRecovered, PermissionRevoked))


def ended(facts: Sequence[Envelope]) -> bool:
    """Return whether a run is over, going by all its facts."""
    return bool(facts) and isinstance(facts[-1].event, _ENDS)


async def whole_facts(store: Store, id: str) -> tuple[list[Envelope], JournalDamaged | None]:
    """Return the facts of a run up to the first damaged one, and the damage.

    Raises:
        UserMistake: there is no such run.
    """
    damage: JournalDamaged | None = None
    try:
        facts = await store.read(id)
    except JournalDamaged as error:
        damage = error
        facts = await store.read(id, 0, error.seq - 1)
    if not facts and damage is None:
        raise UserMistake(f"There is no run {id}.", hint="midstream runs lists them.")
    return facts, damage


async def has_foreign_past(store: Store, id: str) -> bool:
    """Return whether a run, or one it was forked from, was imported."""
    return any(kept.is_foreign for kept in await store.lineage(id))


async def is_unbound(store: Store, id: str) -> bool:
    """Return whether a run with the past of an import still has the limits that came with it.

    Only what was told here counts: the import itself could say so, too.
    """
    line = await store.lineage(id)
    foreign = next((n for n, kept in enumerate(line) if kept.is_foreign), None)
    if foreign is None:
        return False
    if foreign == 0:
        return True
    theirs = min(kept.parent_seq for kept in line[:foreign])
    own = await store.read(id, theirs)
    return not any(isinstance(envelope.event, LimitsSet) for envelope in own)


def _whole_append(facts: Sequence[Envelope], at: int) -> int:
    """Return the end of the last append before `at` of an imported run.

    Where its appends ended is not known any more, but facts appended together have one time.
    """
    while at < len(facts) and at > 0 and facts[at - 1].at == facts[at].at:
        at -= 1
    return at


def last_open_point(id: str, facts: Sequence[Envelope]) -> int:
    """Return the last fact after which the run was neither over nor about to be stopped."""
    run, point = Run(id=id), 0
    for seq, envelope in enumerate(facts, 1):
        assert isinstance(envelope.event, Fact)
        run = apply(run, envelope.event)
        if not run.is_over and run.halt.leads_to != "stop":
            point = seq
    return point

"""What the stores refuse, in the same words."""

from midstream.language.errors import (
    ContentsMissing,
    JournalDamaged,
    JournalMoved,
    RunOwned,
    UserMistake,
    WorldTrouble,
)


def moved(run: str, kept: int, expected: int) -> JournalMoved:
    """Return the refusal of an append at a place that is not the end."""
    return JournalMoved(
        f"Run {run} has {kept} facts where {expected} were expected.",
        hint="Another process goes on with this run.",
    )


def elsewhere(run: str) -> JournalMoved:
    """Return the refusal of an append to a run that another owner has."""
    return JournalMoved(
        f"Run {run} belongs to another process now.",
        hint="It goes on there; `midstream runs` shows which process runs what.",
    )


def forgotten(journal: str) -> JournalMoved:
    """Return the refusal of an owner of whom the journal knows less than it said before."""
    return JournalMoved(
        f"The journal {journal} is not what it was: it was restored, or its server was replaced.",
        hint="What had been written since is not in it; its runs go on from what is.",
    )


def contents_missing(key: str, place: object) -> ContentsMissing:
    """Return why contents cannot be read that are not in their place, or not what was put there."""
    return ContentsMissing(
        f"The contents {key[:16]} are missing from {place}, or damaged.",
        hint="They cannot be put back; everything else is as it was.",
    )


def parted(run: str, at: int) -> JournalMoved:
    """Return the refusal of an append to a run whose facts so far are others than it follows."""
    return JournalMoved(
        f"Run {run} has other facts up to {at} than this process knows.",
        hint="The journal was restored, and it went on otherwise there.",
    )


def owned(run: str, owner: str) -> RunOwned:
    """Return the refusal to claim a run that another owner has."""
    return RunOwned(
        f"Another process is running {run}.",
        owner=owner,
        hint=f"Watch it with `midstream events {run} --follow`; talk to it with `midstream send`.",
    )


def taken(id: str) -> UserMistake:
    """Return the refusal of an id that is in use."""
    return UserMistake(f"There is a run {id} already.", hint="Choose another name for the new one.")


def no_such_run(id: str) -> UserMistake:
    """Return the refusal of an unknown run."""
    return UserMistake(f"There is no run {id}.", hint="`midstream runs` lists them.")


def nothing_by_then(id: str, at: int) -> UserMistake:
    """Return the refusal to fork a run before its first append was done."""
    return UserMistake(
        f"Run {id} had not begun at {at}.", hint=f"Choose a later place: `midstream events {id}`."
    )


def not_ended(id: str) -> UserMistake:
    """Return the refusal to delete a run that may go on."""
    return UserMistake(f"Run {id} has not ended.", hint=f"End it first: midstream stop {id}.")


def has_forks(id: str) -> UserMistake:
    """Return the refusal to delete a run whose facts others begin with."""
    return UserMistake(
        f"Runs that were forked from {id} begin with its events.", hint="Delete those first."
    )


def nothing_to_adopt(id: str) -> UserMistake:
    """Return the refusal to keep an imported run without facts."""
    return UserMistake(f"There are no facts to make run {id} of.", hint="Export it once more.")


def damaged(run: str, seq: int, why: str) -> JournalDamaged:
    """Return the report of a fact that cannot be used."""
    before = (
        f"Everything before it is whole: midstream fork {run} --at {seq - 1} goes on from there."
    )
    return JournalDamaged(
        f"Fact {seq} of run {run} is damaged: {why}.",
        run=run,
        seq=seq,
        hint=before if seq > 1 else "Nothing of this run can be used; the others can.",
    )


def inherited(path: object) -> WorldTrouble:
    """Return the refusal of a journal in a process that was forked from one that has it open."""
    return WorldTrouble(
        f"The journal {path} was open in the process that this one was forked from.",
        hint='Start processes with multiprocessing.get_context("spawn"), or fork before it is opened.',
    )


def closed() -> WorldTrouble:
    """Return the refusal of anything after the end."""
    return WorldTrouble("The journal is closed.", hint="Open it, or the engine that had it, again.")

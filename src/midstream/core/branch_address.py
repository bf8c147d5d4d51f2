"""Who `@name words` speak to: one branch of a run instead of the whole.

A name is a branch's path (`reviewers/tests`), the last part of it (`tests`; `3` for the third item,
however many there are), or that of an agent at work. It has to mean exactly one branch; a branch's
own name counts before an agent's.
"""

import re
from collections.abc import Iterator, Mapping

from midstream.core.run import Run

_ADDRESSED = re.compile(r"@(\S+)\s+(\S.*)", re.DOTALL)


def living(run: Run) -> Iterator[Run]:
    """Yield the branches that have not ended, at every depth, the outer ones first."""
    for branch in run.visit.branches.values():
        if not branch.is_over:
            yield branch
            yield from living(branch)


def branch_at(run: Run, path: str) -> Run | None:
    """Return the branch at a path, the run itself at ""; None if there is none."""
    for name in path.split("/") if path else ():
        found = run.visit.branches.get(name)
        if found is None:
            return None
        run = found
    return run


def gone(run: Run) -> frozenset[str]:
    """Return the names of branches that have ended and mean no living one."""
    ended = {
        name
        for outer in (run, *living(run))
        for branch in outer.visit.branches.values()
        if branch.is_over
        for name in (branch.branch.path, branch.branch.path.rpartition("/")[2])
    }
    return frozenset(ended.difference(addressees(run)))


def addressees(run: Run) -> dict[str, Run]:
    """Return the branches words may be spoken to, by every name that means just one of them.

    While the run around them is being halted there are none: the next words are for all of it. Held,
    it goes on with words for one of them.
    """
    if run.visit.phase == "halting":
        return {}
    return {name: branches[0] for name, branches in _named(run).items() if len(branches) == 1}


def only_agent(run: Run) -> str:
    """Return the agent at work in a workflow none of whose branches is, "" for none.

    Words for it are words for the run.
    """
    is_chat = run.definition is None or run.definition.kind == "chat"
    if (
        is_chat
        or run.visit.phase != "turn"
        or run.visit.turn is None
        or next(living(run), None) is not None
    ):
        return ""
    return run.visit.turn.agent


def shared_names(run: Run) -> dict[str, tuple[str, ...]]:
    """Return the names that mean more than one branch, and the paths of those."""
    if run.visit.phase == "halting":
        return {}
    named = _named(run)
    return {
        name: tuple(b.branch.path for b in named[name]) for name in named if len(named[name]) > 1
    }


def _named(run: Run) -> dict[str, list[Run]]:
    by_agent: dict[str, list[Run]] = {}
    by_name: dict[str, list[Run]] = {}
    for branch in living(run):
        last = branch.branch.path.rpartition("/")[2]
        for name in {branch.branch.path, last, last.lstrip("0") or last}:
            by_name.setdefault(name, []).append(branch)
        if branch.visit.turn is not None and branch.visit.phase == "turn":
            by_agent.setdefault(branch.visit.turn.agent, []).append(branch)
    return {**by_agent, **by_name}


def address_of(text: str) -> tuple[str, str]:
    """Return the name a line begins with after an `@`, and the words behind it; "" if none."""
    found = _ADDRESSED.match(text)
    return ("", text) if found is None else (found[1], found[2].strip())


def addressed(run: Run, text: str) -> tuple[str, str]:
    """Return the path of the branch a line is for ("": the run itself), and the words for it."""
    name, words = address_of(text)
    branches: Mapping[str, Run] = addressees(run) if name else {}
    return (branches[name].branch.path, words) if name in branches else ("", text)


def as_typed(words: str, to: str) -> str:
    """Return words as a person writes them, with the branch they are for before them."""
    return f"@{to} {words}" if to else words

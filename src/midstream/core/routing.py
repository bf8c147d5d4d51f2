"""Where a line goes that is not a command: an answer, unasked words, or back to the editor.

Routing never guesses. A question takes a line only if a person can have meant it: it was on the
screen before the line's first key, and no other question was, or the line or the screen's focus
names it. A question that came up under somebody's fingers takes nothing: the face asks whether the
line was meant for it. Approvals are no questions here: only a key press decides on them.

`@name words` speak to one branch of a run instead of the whole. A name is a branch's path
(`reviewers/tests`), the last part of it (`tests`; `3` for the third item, however many there are), or
that of an agent at work. It has to mean exactly one branch; a branch's own name counts before an agent's.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from midstream.core.question import Question
from midstream.core.run import Run
from midstream.language.errors import nearest


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The line answers the question of this id; `text` is the line without a `#2` before it."""

    question: str
    text: str


class Unasked(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody asked: the state's `on_input` policy says what the words do."""

    text: str


class Unclear(msgspec.Struct, frozen=True, kw_only=True):
    """The line was begun before this question was on the screen: answer, or new instruction?"""

    question: str


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """The line goes back to the editor, for `reason`; it had no effect."""

    reason: str


Route: TypeAlias = Answer | Unasked | Unclear | Returned

_BY_NUMBER = re.compile(r"\s*#([0-9]{1,9})(?:\s+|$)")


def route(
    line: str,
    *,
    open_questions: Sequence[Question],
    seen: Collection[str],
    focused: str | None = None,
    addressees: Collection[str] = (),
    gone: Collection[str] = (),
    shared: Mapping[str, Sequence[str]] = {},
) -> Route:
    """Return where a line goes.

    Args:
        line: what was typed, as it is.
        open_questions: the run's open questions, oldest first; approvals among them take no words.
        seen: the ids of the questions on the screen before the line's first key.
        focused: the id of the question a person has picked on the screen, if any.
        addressees: the names of branches at work; `@name words` answer nothing.
        gone: the names of branches beside them that have ended.
        shared: the names that mean more than one branch, and what those are called.
    """
    name, _ = address_of(line) if addressees or shared else ("", line)
    if name:
        if name in addressees:
            return Unasked(text=line)
        if name in shared:
            ways = " or ".join(f"@{path}" for path in shared[name][:4])
            return Returned(reason=f"@{name} is at work in several branches: begin with {ways}.")
        if name in gone:
            return Returned(reason=f"The branch {name!r} is done.")
        # `@test.py` is a file, however near a branch is by name.
        if "." not in name and (meant := nearest(name, addressees)) is not None:
            return Returned(reason=f"No branch {name!r} is at work. Did you mean @{meant}?")
    if line.startswith("@") and line[1:].strip() in addressees:
        return Returned(reason=f"Write what {line.strip()} should hear after its name.")
    waiting = next((q for q in open_questions if q.kind == "input"), None)
    cards = [question for question in open_questions if question.kind == "question"]
    if waiting is not None and not cards:
        return Answer(question=waiting.id, text=line)
    if not cards:
        return Unasked(text=line)
    picked = _BY_NUMBER.match(line)
    if picked is not None:
        return _by_number(int(picked.group(1)), line[picked.end() :], cards)
    if waiting is not None:
        ways = f"{_numbers(cards)}, or with @{waiting.branch}"
        return Returned(reason=f"{waiting.branch} waits for words, too: begin with {ways}.")
    shown = [question for question in cards if question.id in seen]
    if len(shown) == 1:
        return Answer(question=shown[0].id, text=line)
    if any(question.id == focused for question in shown):
        return Answer(question=str(focused), text=line)
    if shown:
        return Returned(reason=f"Several questions are open: begin with {_numbers(shown)}.")
    return Unclear(question=cards[0].id)


def _by_number(number: int, text: str, cards: Sequence[Question]) -> Route:
    for question in cards:
        if question.number == number and not text.strip():
            return Returned(reason=f"Write the answer to #{number} after its number.")
        if question.number == number:
            return Answer(question=question.id, text=text)
    return Returned(reason=f"No open question has the number {number}. Open: {_numbers(cards)}.")


def _numbers(questions: Sequence[Question]) -> str:
    return " or ".join(f"#{question.number}" for question in questions)


def is_goodbye(line: str) -> bool:
    """Return whether a line says what leaves a shell; where a question is open it is an answer."""
    return line.strip().casefold() in ("exit", "quit")


# --- branches ---------------------------------------------------------------------------------

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

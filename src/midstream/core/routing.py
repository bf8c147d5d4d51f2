"""Whom a line is for that is not a command: a question, the run, one branch of it, or the editor again.

It is judged here and nowhere else, once, when Enter is pressed: from the run, what was on the screen and
the line (`route`); where there is no screen, from the run and the line (`spoken`). What comes of it, a
`Destination`, goes with the words as far as `decide`, which looks whether it still holds.

Routing never guesses. A question takes a line only if a person can have meant it: it was on the
screen before the line's first key, and no other question was, or the line or the screen's focus
names it. A question that came up under somebody's fingers takes nothing: the UI asks whether the
line was meant for it. Approvals are no questions here: only a key press decides on them.

`@name words` speak to one branch of a run instead of the whole. A name is a branch's path
(`reviewers/tests`), the last part of it (`tests`; `3` for the third item, however many there are), or
that of an agent at work. It has to mean exactly one branch; a branch's own name counts before an agent's.

On a screen the questions of several runs meet, so their ids there begin with the run's (`screen_id`): a
line begun under one run's question is never the answer to another's.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

import msgspec

from midstream.core.question import Question
from midstream.core.run import Run, definition_of
from midstream.language.errors import UserMistake, nearest
from midstream.language.names import Policy


class Destination(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Whom words are for: the question they answer, else the branch, else the run itself.

    `text` is what they hear: the line without a `#2` or `@name` before it. `run` is the id of the run it
    was judged by, "" for one that has not begun; `question` is the question's id there, and `branch` the
    path of the branch, "" for the run.
    """

    text: str
    run: str = ""
    question: str | None = None
    branch: str = ""

    @property
    def shown_question(self) -> str:
        """Return the id its question has on a screen, "" where the words answer none."""
        return "" if self.question is None else screen_id(self.run, self.question)

    @property
    def line(self) -> str:
        """Return the words as a person writes them, with the branch they are for before them."""
        return as_typed(self.text, self.branch)


class Unclear(msgspec.Struct, frozen=True, kw_only=True):
    """The line was begun before this question was on the screen: answer, or new instruction?

    `question` is the id it has there.
    """

    question: str


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """The line goes back to the editor, for `reason`; it had no effect."""

    reason: str


Route: TypeAlias = Destination | Unclear | Returned

_BY_NUMBER = re.compile(r"\s*#([0-9]{1,9})(?:\s+|$)")


def route(
    line: str,
    run: Run | None,
    *,
    seen: Collection[str],
    focused: str = "",
    answers: str = "",
    is_new: bool = False,
) -> Route:
    """Return whom a line is for that was typed at a screen.

    Args:
        line: what was typed, as it is.
        run: the run that lines go to, None for one that begins with this line.
        seen: the questions on the screen before the line's first key, by their ids there.
        focused: the id of the question a person has picked on the screen, "" for none.
        answers: the id of the question the line is known to answer, "" for none.
        is_new: it is known to answer none.
    """
    if answers:
        own = "" if run is None else screen_id(run.id, "")
        if run is None or not answers.startswith(own):
            return Returned(reason="That question is not open any more.")
        return Destination(text=line, run=run.id, question=answers.removeprefix(own))
    if run is None:
        return Destination(text=line)
    found = _to_branch(line, run)
    if found is None and not is_new:
        found = _to_question(line, run, seen, focused)
    return found or Destination(text=line, run=run.id)


def spoken(
    line: str, run: Run, *, question: str | None = None, is_unasked: bool = False
) -> Destination:
    """Return whom a line is for that comes without a screen, from a program or another process.

    It answers `question`; else, if not `is_unasked`, the one question there is.

    Raises:
        UserMistake: several are open, and nothing says which is meant.
    """
    if question is not None:
        return Destination(text=line, run=run.id, question=question)
    name, words = address_of(line)
    branch = addressees(run).get(name) if name else None
    if branch is not None:
        return Destination(text=words, run=run.id, branch=branch.branch.path)
    cards = [] if is_unasked else _cards(run)
    if len(cards) > 1:
        ids = ", ".join(card.id for card in cards)
        raise UserMistake(f"Several questions are open: {ids}.", hint="Say which: question=ID.")
    return Destination(text=line, run=run.id, question=cards[0].id if cards else None)


def answering(line: str, run: Run) -> Route | None:
    """Return which question a line answers whose sender has all of them in sight, None for none."""
    asked = [screen_id(run.id, question.id) for question in run.inbox.open_questions]
    return _to_question(line, run, asked, "")


def question_asked(run: Run, to: Destination) -> Question | None:
    """Return the open question words answer: the one they name, else the one that waits for words."""
    for question in run.inbox.open_questions:
        if question.id == to.question:
            return question
        if to.question is None and not to.branch and question.kind == "input":
            return question
    return None


def answered_next(run: Run) -> Question | None:
    """Return the question that an answer given beforehand is for, None where none is open.

    Words a branch waits for are such an answer: the others go on beside it. A chat that waits for its
    next line asks nothing.
    """
    for question in run.inbox.open_questions:
        is_input = question.kind == "input" and (not run.visit.state or bool(question.branch))
        if is_input or question.kind == "question":
            return question
    return None


def policy_of(run: Run) -> Policy:
    """Return what unasked words do in the state of a run or branch, going by its workflow alone."""
    state = run.plan.states.get(run.visit.state)
    return (state and state.on_input) or definition_of(run).workflow.on_input


def interrupts(to: Destination, run: Run) -> bool:
    """Return whether words cut off what is at work now, by the policy of the state it is in."""
    here = branch_at(run, to.branch)
    if to.question is not None or here is None or run.suspended:
        return False
    at_rest = ("new", "waiting", "halting", "held", "ended")
    return here.visit.phase not in at_rest and policy_of(here) == "interrupt"


def is_command(line: str) -> bool:
    """Return whether a line is a command. `//` starts a text that begins with a slash."""
    return line.startswith("/") and not line.startswith("//")


def is_goodbye(line: str) -> bool:
    """Return whether a line says what leaves a shell; where a question is open it is an answer."""
    return line.strip().casefold() in ("exit", "quit")


# --- questions --------------------------------------------------------------------------------


def screen_id(run: str, question: str) -> str:
    """Return the id of a question on a screen, which tells it from those of all other runs."""
    return f"{run}/{question}" if run else question


def run_and_question(screen_id: str) -> tuple[str, str]:
    """Return the run that asks, and the id the question has there."""
    run, _, question = screen_id.partition("/")
    return run, question


def _to_question(line: str, run: Run, seen: Collection[str], focused: str) -> Route | None:
    """Return which question takes a line, or why it cannot be told; None where none does.

    What the run itself waits for are words like any, so that the second of two lines typed fast is for
    the run, too, and no late answer.
    """
    waiting = next((q for q in run.inbox.open_questions if q.kind == "input" and q.branch), None)
    cards = _cards(run)
    if not cards:
        return None if waiting is None else _answer(line, run, waiting)
    picked = _BY_NUMBER.match(line)
    if picked is not None:
        return _by_number(int(picked.group(1)), line[picked.end() :], run, cards)
    shown = [question for question in cards if screen_id(run.id, question.id) in seen]
    if len(cards) > 1 and not line.startswith("#"):
        for question in shown:
            if screen_id(run.id, question.id) == focused:
                return _answer(line, run, question)
    if waiting is not None:
        ways = f"{_numbers(cards)}, or with @{waiting.branch}"
        return Returned(reason=f"{waiting.branch} waits for words, too: begin with {ways}.")
    if len(shown) == 1:
        return _answer(line, run, shown[0])
    if shown:
        return Returned(reason=f"Several questions are open: begin with {_numbers(shown)}.")
    return Unclear(question=screen_id(run.id, cards[0].id))


def _cards(run: Run) -> list[Question]:
    """Return the open questions that words answer, the oldest first."""
    return [question for question in run.inbox.open_questions if question.kind == "question"]


def _answer(text: str, run: Run, question: Question) -> Destination:
    return Destination(text=text, run=run.id, question=question.id)


def _by_number(number: int, text: str, run: Run, cards: Sequence[Question]) -> Route:
    for question in cards:
        if question.number == number and not text.strip():
            return Returned(reason=f"Write the answer to #{number} after its number.")
        if question.number == number:
            return _answer(text, run, question)
    return Returned(reason=f"No open question has the number {number}. Open: {_numbers(cards)}.")


def _numbers(questions: Sequence[Question]) -> str:
    return " or ".join(f"#{question.number}" for question in questions)


# --- branches ---------------------------------------------------------------------------------

_ADDRESSED = re.compile(r"@(\S+)\s+(\S.*)", re.DOTALL)


def _to_branch(line: str, run: Run) -> Route | None:
    """Return which branch a line speaks to, or why it cannot be told; None where it is for nobody alone."""
    name, words = address_of(line)
    if name and name == only_agent(run):
        return Destination(text=words, run=run.id)
    branches, shared = addressees(run), shared_names(run)
    if name and (branches or shared):
        if name in branches:
            return Destination(text=words, run=run.id, branch=branches[name].branch.path)
        if name in shared:
            ways = " or ".join(f"@{path}" for path in shared[name][:4])
            return Returned(reason=f"@{name} is at work in several branches: begin with {ways}.")
        if name in gone(run):
            return Returned(reason=f"The branch {name!r} is done.")
        # `@test.py` is a file, however near a branch is by name.
        if "." not in name and (meant := nearest(name, branches)) is not None:
            return Returned(reason=f"No branch {name!r} is at work. Did you mean @{meant}?")
    if line.startswith("@") and line[1:].strip() in branches:
        return Returned(reason=f"Write what {line.strip()} should hear after its name.")
    return None


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


def as_typed(words: str, to: str) -> str:
    """Return words as a person writes them, with the branch they are for before them."""
    return f"@{to} {words}" if to else words

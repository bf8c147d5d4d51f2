"""Where a line goes that is not a command: an answer, unasked words, or back to the editor.

Routing never guesses. A question takes a line only if a person can have meant it: it was on the
screen before the line's first key, and no other question was, or the line or the screen's focus
names it. A question that came up under somebody's fingers takes nothing: the face asks whether the
line was meant for it. Approvals are no questions here: only a key press decides on them.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import msgspec

from midstream.core.branch_address import address_of
from midstream.core.question import Question
from midstream.language.nearest import nearest


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

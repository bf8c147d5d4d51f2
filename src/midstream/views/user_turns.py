"""Turns that words of a person began: which words do, what each said, where to go back to. Pure.

What counts as a turn is said here alone (`begins_turn`): a listing, /history and the last turns of
--continue count the same.
"""

from collections.abc import Iterable, Sequence

import msgspec

from midstream.core import events as e
from midstream.core.branch_address import as_typed
from midstream.core.notices import Envelope
from midstream.language.names import Disposition


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of run `run`. `at` is the fact before its words; `words` are they as they were typed."""

    run: str
    at: int
    words: str


def is_heard(disposition: Disposition) -> bool:
    """Return whether words took effect at all."""
    return disposition not in ("rejected", "withdrawn")


def begins_turn(disposition: Disposition, *, answers: bool) -> bool:
    """Return whether words of a person began a turn.

    An answer to a question (`answers`) and words that joined a turn under way (steered) belong to
    the turn that was there. Of words that took effect together only the first begin one.
    """
    return is_heard(disposition) and disposition != "steered" and not answers


def began_by(facts: Iterable[Envelope]) -> frozenset[str]:
    """Return the ids of the inputs that began the turns, one for each turn."""
    asked: set[str] = set()
    answers: set[str] = set()
    began: set[str] = set()
    was_disposal = False
    for envelope in facts:
        match envelope.event:
            case e.InputDisposed(input_id=id, disposition=disposition):
                if not is_heard(disposition):
                    continue
                if begins_turn(disposition, answers=id in answers) and not was_disposal:
                    began.add(id)
                was_disposal = True
                continue
            case e.WordsJoined():
                continue
            case e.QuestionAsked(kind=kind, question_id=question) if kind != "input":
                asked.add(question)
            case e.QuestionAnswered(question_id=question, input_id=id) if question in asked:
                answers.add(id)
            case _:
                pass
        was_disposal = False
    return frozenset(began)


def turns_of(run: str, facts: Sequence[Envelope]) -> tuple[Turn, ...]:
    """Return the points to go back to, the oldest first: before any words that took effect.

    Answers and words that joined a turn under way can be gone back to, too.

    They were answered, interrupted, steered or queued; words that were refused, taken back or still
    wait began none. Words that took effect together, such as two that joined one halt, began one turn.
    """
    received: dict[str, tuple[int, e.InputReceived]] = {}
    began: list[list[str]] = []
    was_disposal = False
    for envelope in facts:
        match envelope.event:
            case e.InputReceived(input_id=id) as event:
                received[id] = (envelope.seq or 0, event)
            case e.InputDisposed(input_id=id, disposition=disposition):
                if not is_heard(disposition):
                    continue
                if was_disposal:
                    began[-1].append(id)
                else:
                    began.append([id])
                was_disposal = True
                continue
            case e.WordsJoined():
                continue
            case _:
                pass
        was_disposal = False
    found: list[Turn] = []
    for ids in began:
        inputs = sorted((received[id] for id in ids), key=lambda each: each[0])
        words = "\n".join(as_typed(event.text, event.to) for _, event in inputs)
        found.append(Turn(run=run, at=inputs[0][0] - 1, words=words))
    return tuple(found)

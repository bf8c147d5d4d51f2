"""The questions of the active run as the screen has them, and what a line may begin with to mean one.

Questions are numbered anew in every run. On the screen their ids must tell them apart: a key pressed
on one run's card never decides on another's.
"""

from collections.abc import Sequence

import msgspec

from midstream.core.question import Question
from midstream.core.routing import screen_id
from midstream.runtime.ports import Machine
from midstream.views.run_status import what_addressing_does, where


def questions_on_screen(machine: Machine | None) -> tuple[Question, ...]:
    """Return a run's open questions a person sees as cards, with the ids they have there."""
    if machine is None:
        return ()
    return tuple(
        msgspec.structs.replace(question, id=screen_id(machine.run.id, question.id))
        for question in where(machine.run).questions
    )


def numbers(questions: Sequence[Question], before: str) -> tuple[tuple[str, str], ...]:
    """Return the questions a line that begins with `#` may answer, as completions."""
    if " " in before:
        return ()
    cards = [question for question in questions if question.kind == "question"]
    numbered = ((f"#{card.number}", " ".join(card.text.split())[:60]) for card in cards)
    return tuple(pair for pair in numbered if pair[0].startswith(before))


def names(machine: Machine | None, before: str) -> tuple[tuple[str, str], ...]:
    """Return the branches a line that begins with `@` may be meant for, as completions."""
    if machine is None or " " in before:
        return ()
    named = what_addressing_does(machine.run)
    return tuple(
        (f"@{name}", f"to one: {does}")
        for name, does in named.items()
        if f"@{name}".startswith(before)
    )

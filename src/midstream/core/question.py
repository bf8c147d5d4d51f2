"""Questions as records: asked once, closed once, by exactly one of answer or supersession."""

from typing import Final, Literal

import msgspec

from midstream.core.proposal import Onwards
from midstream.language.names import Json, Outcome, QuestionKind, Subject


class Question(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An open or closed question. `number` is the `#2` a person answers by.

    `branch` is where in the run it was asked, "" for the run itself. Of an approval, `asks` are the
    capabilities a yes grants (none: the tool as a whole) `why` the rule that has a person asked, and
    `command` what a person may change before saying yes.
    """

    id: str
    number: int
    kind: QuestionKind
    text: str
    agent: str = ""
    call_id: str = ""
    choices: tuple[str, ...] = ()
    schema: dict[str, Json] | None = None
    status: Literal["open", "answered", "superseded", "expired"] = "open"
    branch: str = ""
    asks: tuple[str, ...] = ()
    why: str = ""
    about: Subject = ""
    command: str = ""

    @property
    def is_open(self) -> bool:
        """Return whether an answer would still count."""
        return self.status == "open"


def chosen(question: Question, text: str) -> str | None:
    """Return the choice meant by a line (its words in any case, or its number), None if none is.

    A question without choices takes every line as it is.
    """
    if not question.choices:
        return text
    wanted = text.strip()
    for choice in question.choices:
        if choice.casefold() == wanted.casefold():
            return choice
    if wanted.isascii() and wanted.isdigit() and 1 <= int(wanted) <= len(question.choices):
        return question.choices[int(wanted) - 1]
    return None


def misfit(question: Question, text: str) -> str:
    """Return why a line is no answer to a question with choices, in words for the person."""
    listed = ", ".join(f"{number} {choice}" for number, choice in enumerate(question.choices, 1))
    return f"{text.strip()[:60]!r} is not one of the choices. Choose by number or word: {listed}."


HAPPENED = "It happened"
DID_NOT_HAPPEN = "It did not happen"
NOT_KNOWN = "Not known: let the agent verify"
OUTCOMES: dict[str, tuple[Outcome, str]] = {
    HAPPENED: (
        "completed",
        "The process ended during this call and its output is lost. The user says: it happened.",
    ),
    DID_NOT_HAPPEN: (
        "not_run",
        "The process ended before this call had an effect. The user says: it did not happen.",
    ),
    NOT_KNOWN: ("unknown", "The process ended during this call. Outcome unknown: verify first."),
}
"""What a person may say of a call whose outcome is unknown, and what the model is told then."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A yes or a no to a tool call.

    `for_run`: with a yes, what it asked for needs no further approval in this run. `note` are words for
    the model, with a no. `edited` are arguments the call is made with in place of its own, those left
    out stay as they are: writing them was the yes to them. Of a plan (`about` is `plan`) they are shown
    and asked about next, and `mode` is the permission mode it is carried out in.
    """

    granted: bool
    for_run: bool = False
    note: str = ""
    edited: dict[str, Json] | None = None
    mode: Onwards = "ask"


AGAIN: Final = "as much again"
NO_LIMIT: Final = "no limit"
STOP_THERE: Final = "stop the run"
ANSWERS: Final = (AGAIN, NO_LIMIT, STOP_THERE)
"""What a person may answer where a budget is used up."""


def is_for_programs(question: Question) -> bool:
    """Return whether a program may answer: an agent or a state asks for what is known.

    Approvals, budgets and what became of a call that a crash cut are a person's to decide.
    """
    is_asked = question.kind == "question" and question.about == ""
    return is_asked and question.choices != tuple(OUTCOMES)


def is_for_people(question: Question) -> bool:
    """Return whether it is for a person to decide, by a key or in a browser, and never by words."""
    return question.kind != "input" and not is_for_programs(question)

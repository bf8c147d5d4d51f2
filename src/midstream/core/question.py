"""Questions as records: asked once, closed once, by exactly one of answer or supersession."""

from typing import Literal

import msgspec

from midstream.language.names import Json, QuestionKind, Subject


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

"""What is told of tool calls beside their own results: that a person changed one, or policy refused it.

Apart from `calls`, which begins them: who only shows calls needs no story.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from midstream.core.events import HookRan
from midstream.core.question import Question
from midstream.core.routing import branch_at
from midstream.core.run import OpenCall, Run
from midstream.language.names import Json

COMMAND: Final = "command"
"""The argument of a call that a person may change before allowing it."""

REFUSED: Final = "Refused: "
"""What the result of a call begins with that policy refused."""

NOT_AS_SEEN: Final = (
    "Not done: what it would do now is not what the user saw and allowed. "
    "Look at how things are, and call it again."
)
"""The result of a call that a person allowed, where the world has changed since they saw it."""

CUT_WHILE_JOINING: Final = "The process ended during this call: it is looked at anew."

MADE_ANEW: Final = frozenset({NOT_AS_SEEN, CUT_WHILE_JOINING})
"""Results with which a branch that joins its worktree looks again at what is to be merged."""

_CHANGED: Final = "The user changed the arguments before it ran, to "
_HOOKED: Final = "A hook changed the arguments before it ran, to "


def with_arguments(run: Run, question_id: str, edited: dict[str, Json]) -> dict[str, Json] | None:
    """Return what an open approval's call would be made with, had it these in place of its own.

    None: the question is closed, or asks about no call.
    """
    question = next((q for q in run.inbox.open_questions if q.id == question_id), None)
    here = None if question is None else branch_at(run, question.branch)
    if question is None or here is None or here.visit.turn is None:
        return None
    call = next((c for c in here.visit.turn.calls if c.call.id == question.call_id), None)
    return None if call is None else {**call.arguments, **edited}


def added_words(fact: HookRan) -> str:
    """Return what a hook added to a call's result, or to words, marked as what it is."""
    return f"\n\n[added by the hook {fact.hook}]\n{fact.added}"


def with_hooks(open_call: OpenCall, text: str, hooks: Iterable[HookRan] = ()) -> str:
    """Return a call's result with what hooks changed of it and added; `hooks` have just run."""
    more = (added_words(ran) for ran in hooks if ran.added)
    text = "".join((text, *open_call.added, *more))
    return text if open_call.hooked is None else f"{_HOOKED}{_json(open_call.hooked)}.\n\n{text}"


def with_change(open_call: OpenCall, text: str) -> str:
    """Return a call's result with what the model has to know of changed arguments and of hooks."""
    text = with_hooks(open_call, text)
    return text if open_call.edited is None else f"{_CHANGED}{_json(open_call.edited)}.\n\n{text}"


def _json(arguments: dict[str, Json]) -> str:
    return msgspec.json.encode(arguments).decode()


def without_change(text: str) -> str:
    """Return a call's result as its tool gave it and hooks added to it."""
    while text.startswith((_CHANGED, _HOOKED)):
        text = text.partition(".\n\n")[2]
    return text


def shown_of(question: Question) -> str:
    """Return what an approval shows of the call, without the tool's name before it."""
    return question.text.partition("\n")[2]

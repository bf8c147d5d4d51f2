"""Each fact of a run as the one thing a page shows of it, in the words of the console.

A page puts them below each other in order. What belongs together carries the same id (a call and its
result, words and their fate), so that it can draw them together.
"""

from typing import Any, Final, TypeAlias

import msgspec

from midstream.core import events as e
from midstream.core.call_notes import without_change
from midstream.core.fold.fold_questions import question_in
from midstream.core.notices import Envelope
from midstream.core.run_data import as_text
from midstream.language.errors import with_hint
from midstream.language.names import Json
from midstream.views.calls_in_words import call_words, fields_words, question_summary, result_words
from midstream.views.event_words import event_words
from midstream.views.side_effects import FileDiff
from midstream.web.shown import clean, question_shown

Item: TypeAlias = dict[str, Any]

MAX_DETAIL: Final = 20_000
"""Characters of a call or its result that a page is given whole."""


class Items:
    """Makes the items of one run, fact by fact from its first: later ones need what earlier ones said."""

    def __init__(self) -> None:
        self._is_chat = False
        self._asked: dict[str, e.QuestionAsked] = {}

    def of(self, envelope: Envelope, diff: FileDiff | None = None) -> Item | None:
        """Return what is shown of a fact, None for nothing. `diff` is what a `FileWritten` changes."""
        fact = envelope.event
        assert isinstance(fact, e.Fact)
        found = self._item(envelope, diff)
        if found is None:
            return None
        item: Item = clean(
            {
                "seq": envelope.seq,
                "at": envelope.at,
                "kind": "note",
                "who": getattr(fact, "agent", ""),
                "branch": fact.branch,
                "text": "",
                **found,
            }
        )
        return item

    def _item(self, envelope: Envelope, diff: FileDiff | None) -> Item | None:
        fact = envelope.event
        match fact:
            case e.RunStarted():
                self._is_chat = fact.definition.kind == "chat"
                return None if self._is_chat else {"text": f"{fact.workflow} started"}
            case e.InputReceived():
                return {
                    "kind": "user",
                    "who": fact.to,
                    "text": fact.text,
                    "input_id": fact.input_id,
                    "source": fact.source,
                    "handling": fact.handling,
                    "note": fact.reason,
                }
            case e.InputDisposed():
                return {
                    "kind": "fate",
                    "input_id": fact.input_id,
                    "disposition": fact.disposition,
                    "text": fact.reason,
                }
            case e.AgentResponded():
                final = fact.calls if fact.is_final else ()
                texts = [fact.text.strip(), *(fields_words(call.arguments) for call in final)]
                said = "\n\n".join(filter(None, texts))
                # Without words it ends what streamed: reasoning, and that a call is written.
                is_told = said or fact.calls
                return {"kind": "agent", "text": said, "note": fact.problem} if is_told else None
            case e.Interrupted():
                note = fact.reason or ("interrupted" if fact.text else "stopped here")
                return {"kind": "cut", "text": fact.partial, "note": _noted(note, fact.calling)}
            case e.ReplyCut():
                why = fact.reason or ("stopped here" if fact.recovered else "cut for new words")
                return {"kind": "cut", "text": fact.partial, "note": _noted(why, fact.calling)}
            case e.AgentFailed():
                failed = with_hint(_noted(f"failed: {fact.error}", fact.calling), fact.hint)
                return {"kind": "cut", "text": fact.partial, "note": failed}
            case e.ToolCalled():
                return {
                    "kind": "tool",
                    "call_id": fact.call_id,
                    "text": call_words(fact.name, fact.arguments),
                    "detail": capped(msgspec.json.format(_json(fact.arguments)).decode()),
                }
            case e.ToolReturned():
                result = without_change(fact.result)
                return {
                    "kind": "result",
                    "call_id": fact.call_id,
                    "outcome": fact.outcome,
                    "text": result_words(fact.name, fact.outcome, result),
                    "detail": capped(result),
                    "note": fact.note,
                }
            case e.FileWritten() if diff is not None:
                return {
                    "kind": "file",
                    "call_id": fact.call_id,
                    "text": diff.path,
                    "path": diff.path,
                    "added": diff.added,
                    "removed": diff.removed,
                    "diff": diff.diff,
                }
            case e.QuestionAsked():
                return self._question(envelope.run, fact)
            case e.QuestionAnswered() | e.QuestionSuperseded() | e.QuestionExpired():
                return self._closed(fact)
            case e.StateTransition() if not self._is_chat:
                way = f"{fact.source} → {fact.target}" if fact.source else fact.target
                text = f"{way}  {fact.reason}" if fact.reason else way
                return {"kind": "state", "text": text, "source": fact.source, "target": fact.target}
            case e.StateTransition():
                return None
            case e.TodoEdited():
                return {"kind": "todo", "text": fact.edit}
            case e.WorkflowOutput():
                return {"kind": "output", "text": fact.text}
            case e.RunFinished():
                return {"kind": "end", "text": "finished"}
            case e.RunFailed() | e.RunStopped():
                return {"kind": "end", "text": event_words(envelope)}
            case _:
                words = event_words(msgspec.structs.replace(envelope, event=_unbranched(fact)))
                return {"text": words} if words else None

    def _question(self, run: str, fact: e.QuestionAsked) -> Item | None:
        self._asked[fact.question_id] = fact
        if fact.kind == "input":
            return {"text": fact.text} if fact.text and not self._is_chat else None
        question = question_in(fact, branch=fact.branch)
        return {"kind": "question", "text": fact.text, "question": question_shown(run, question)}

    def _closed(
        self, fact: e.QuestionAnswered | e.QuestionSuperseded | e.QuestionExpired
    ) -> Item | None:
        asked = self._asked.get(fact.question_id)
        if asked is None or asked.kind == "input":
            return None
        match fact:
            case e.QuestionAnswered(answer=answer):
                text = as_text(answer)
            case e.QuestionSuperseded(reason=reason):
                text = f"closed unanswered: {reason}"
            case e.QuestionExpired(stays=stays):
                text = "nobody answered in time" + (", and it stays open" if stays else "")
        about = (
            f"#{asked.number} {question_summary(asked)}"
            if asked.number
            else question_summary(asked)
        )
        return {"kind": "answered", "question_id": fact.question_id, "text": text, "note": about}


def _unbranched(fact: Any) -> Any:
    """Return a fact without its branch, which the item names itself."""
    return msgspec.structs.replace(fact, branch="") if fact.branch else fact


def _noted(note: str, calling: str) -> str:
    """Return a note with the tools that were being asked for, if there are any."""
    return f"{note}; the call of {calling} was not made" if calling else note


def capped(text: str) -> str:
    """Return a long text's beginning; what is left out is counted."""
    more = len(text) - MAX_DETAIL
    return text if more <= 0 else f"{text[:MAX_DETAIL]}\n[+{more} more characters]"


def _json(value: Json) -> bytes:
    return msgspec.json.encode(value)

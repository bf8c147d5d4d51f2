"""A turn as one stream of words, for clients that know nothing but a reply and what was thought for it."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from midstream.api.run_handle import Event, RunHandle
from midstream.core import events as e
from midstream.core.notices import TextDelta, ThinkingDelta
from midstream.core.question import is_for_people
from midstream.core.run import question_of
from midstream.core.run_data import as_text
from midstream.views.calls_in_words import call_words, question_summary, result_words

DECIDED_ELSEWHERE = (
    "A person decides: in the console (midstream, then /resume {run}) or in the browser "
    "(midstream web), never by words here."
)


class Piece(msgspec.Struct, frozen=True):
    """Some words: `content` is the reply, `reasoning` what was thought and done for it."""

    kind: Literal["content", "reasoning"]
    text: str


class Words:
    """Turns the events of a turn into pieces, in order.

    The reply is what the agents of the run itself say as it streams, what the workflow logs and asks, and
    what it came to, unless that was said already. What is thought, the calls of tools, and what branches
    say are reasoning.
    """

    def __init__(self, run: RunHandle) -> None:
        self._run = run
        self._has_content = False
        self._is_inside = False
        self._last = ""

    def of(self, event: Event) -> Iterator[Piece]:
        """Yield the pieces of an event, where text is told as it streams (`RunHandle.turn`)."""
        match event:
            case TextDelta(branch="", text=text) if text:
                if not self._is_inside:
                    yield from self._paragraph()
                    self._is_inside, self._last = True, ""
                self._has_content = True
                self._last += text
                yield Piece("content", text)
            case ThinkingDelta(branch="", text=text):
                yield Piece("reasoning", text)
            case e.AgentResponded() | e.ReplyCut() | e.Interrupted() | e.AgentFailed():
                if event.branch == "":
                    self._is_inside = False
                elif isinstance(event, e.AgentResponded) and event.text:
                    yield Piece("reasoning", f"{event.branch}: {event.text}\n\n")
            case e.ToolCalled():
                yield Piece("reasoning", f"{call_words(event.name, event.arguments)}\n")
            case e.ToolReturned():
                what = result_words(event.name, event.outcome, event.result)
                yield Piece("reasoning", f"{event.name}: {what}\n")
            case e.WorkflowOutput(kind="log", text=text):
                yield from self._said(text)
            case e.QuestionAsked():
                yield from self._question(event)
            case e.RunFinished(output=output) if output is not None:
                text = as_text(output)
                if text.strip() != self._last.strip():
                    yield from self._said(text)

    def of_fact(self, event: Event) -> Iterator[Piece]:
        """Yield the same of a journaled fact by itself: what streamed is told by the fact that ends it."""
        if isinstance(event, e.AgentResponded | e.AgentFailed | e.ReplyCut | e.Interrupted):
            text = event.text if isinstance(event, e.AgentResponded) else event.partial
            yield from self.of(TextDelta(branch=event.branch, agent=event.agent, text=text))
        yield from self.of(event)

    def _question(self, asked: e.QuestionAsked) -> Iterator[Piece]:
        question = question_of(self._run.run.inbox, asked.question_id)
        if question is not None and is_for_people(question):
            yield from self._said(waits_for_a_yes(asked, self._run.id))
            return
        lines = [in_words(asked)]
        # The run's id makes the question one that no other conversation has.
        if not self._run.run.is_chat:
            number = f"#{asked.number} of run" if asked.number > 1 else "Run"
            lines.append(f"({number} {self._run.id}: the next message answers.)")
        yield from self._said("\n".join(line for line in lines if line))

    def _said(self, text: str) -> Iterator[Piece]:
        if text:
            self._is_inside = False
            yield from self._paragraph()
            self._has_content = True
            yield Piece("content", text)

    def _paragraph(self) -> Iterator[Piece]:
        if self._has_content:
            yield Piece("content", "\n\n")


def waits_for_a_yes(asked: e.QuestionAsked, run: str) -> str:
    """Return what a person is to decide of a run, and where."""
    return f"Waits for a yes: {question_summary(asked)}. {DECIDED_ELSEWHERE.format(run=run)}"


def in_words(asked: e.QuestionAsked) -> str:
    """Return a question with its choices and what the answer has to fit."""
    lines = [asked.text, *(f"* {choice}" for choice in asked.choices)]
    if asked.schema is not None:
        schema = msgspec.json.encode(asked.schema).decode()
        lines.append(f"The answer is JSON that fits {schema}")
    return "\n".join(lines)

"""The narrator: remembers what a later line needs of earlier events. No IO, no clock.

A tool call is shown with its result, an answer with its question, an interruption with what became
of everything it stopped; so something must be remembered between events, and this is all of it.
"""

from midstream.console.lines import DIM, Line
from midstream.console.painting import (
    GUTTER,
    Block,
    Words,
    answer_line,
    call_line,
    ending,
    interruption,
    own_words,
    question_lines,
    speech,
    taken_up,
    transition,
)
from midstream.core.events import (
    AgentFailed,
    AgentResponded,
    AnswerRefused,
    DefinitionChanged,
    FileWritten,
    HandlerRan,
    InputDisposed,
    InputReceived,
    Interrupted,
    PermissionGranted,
    QuestionAnswered,
    QuestionAsked,
    QuestionSuperseded,
    ReplyCut,
    RunFailed,
    RunFinished,
    RunRecovered,
    RunResumed,
    RunStarted,
    RunStopped,
    RunSuspended,
    StateTransition,
    ToolCalled,
    ToolReturned,
    WordsJoined,
    WorkflowOutput,
)
from midstream.core.names import REQUEST_USERS_INPUT, Outcome
from midstream.core.notices import (
    AgentThinking,
    AnyNotice,
    Envelope,
    JournalStalled,
    JournalWorks,
    ListenerFailed,
    Notice,
    RunTaken,
)
from midstream.core.question import Question
from midstream.core.run import Run

_BETWEEN = (ToolReturned, QuestionSuperseded, InputReceived, InputDisposed, Interrupted)
"""What may come between an interruption and the line that sums it up."""


class _Halt:
    """An interruption not yet told: what ended because of it, so far."""

    def __init__(self, agent: str, reason: str, *, had_words: bool) -> None:
        self.agent = agent
        self.had_words = had_words
        self.reason = reason
        self.ended: list[tuple[str, Outcome]] = []


class Narrator:
    """Turns events into blocks, in order. Call `settle` when no more events are there for now."""

    def __init__(self, *, with_cards: bool) -> None:
        """Make one. `with_cards`: open questions are drawn elsewhere, tell them when they close."""
        self._with_cards = with_cards
        self._calls: dict[tuple[str, str], ToolCalled] = {}
        self._questions: dict[tuple[str, str], QuestionAsked] = {}
        self._inputs: dict[tuple[str, str], InputReceived] = {}
        self._shown: dict[tuple[str, str], list[str]] = {}
        self._halts: dict[str, _Halt] = {}
        self._chats: set[str] = set()
        self._failures: dict[str, str] = {}

    def streamed(self, run: str, agent: str, text: str) -> None:
        """Remember words that were shown as they came, in case they are cut."""
        self._shown.setdefault((run, agent), []).append(text)

    def recall(self, run: Run) -> None:
        """Remember what the later lines of a run need that began where nobody listened."""
        if run.definition is not None and run.definition.kind == "chat":
            self._chats.add(run.id)
        for question in run.open_questions:
            self._questions.setdefault((run.id, question.id), _asked(question))
        for record in run.undelivered:
            received = InputReceived(
                input_id=record.id, text=record.text, source="user", handling=record.handling
            )
            self._inputs.setdefault((run.id, record.id), received)

    def open_calls(self) -> list[tuple[str, ToolCalled]]:
        """Return the tool calls that run, each with its run, the oldest first."""
        return [
            (run, call)
            for (run, _), call in self._calls.items()
            if call.name != REQUEST_USERS_INPUT
        ]

    def told(self, envelope: Envelope) -> list[Block]:
        """Return what an event adds to the story on the screen."""
        event, run = envelope.event, envelope.run
        if isinstance(event, Notice):
            return self._notice(run, event)
        found: list[Block] = []
        if run in self._halts and not isinstance(event, _BETWEEN):
            found += self._halted(run)
        found += self._fact(run, event)
        return found

    def settle(self) -> list[Block]:
        """Return the interruptions that wait for no running tool any more."""
        running = {run for run, _ in self._calls}
        found: list[Block] = []
        for run in [run for run in self._halts if run not in running]:
            found += self._halted(run)
        return found

    def _halted(self, run: str) -> list[Block]:
        halt = self._halts.pop(run)
        was_cut = halt.had_words or not halt.ended
        return [interruption(halt.agent if was_cut else "", halt.reason, halt.ended)]

    def _notice(self, run: str, event: AnyNotice) -> list[Block]:
        match event:
            case ListenerFailed():
                text = f"The listener {event.listener} failed: {event.error}"
                return [*own_words(text, "warning")]
            case AgentThinking(status=status) if status:
                return [*own_words(f"{event.agent}: {status}", "note")]
            case JournalStalled():
                text = f"Run {run} waits: {event.error} {event.hint}".rstrip()
                return [*own_words(f"{text} Until then no words are taken.", "warning")]
            case JournalWorks():
                return [*own_words(f"The journal works again: run {run} goes on.", "note")]
            case RunTaken():
                text = f"Run {run} goes on in another process: /attach {run[:4]} watches it."
                return [*own_words(text, "warning")]
            case _:
                return []

    def _fact(self, run: str, fact: object) -> list[Block]:
        match fact:
            case RunStarted():
                return self._started(run, fact)
            case StateTransition():
                return [] if run in self._chats else [transition(fact)]
            case AgentResponded():
                return self._responded(run, fact)
            case AgentFailed():
                text = f"{fact.agent} failed: {fact.error} {fact.hint}".rstrip()
                self._failures[run] = fact.error
                return [*self._cut(run, fact.agent, fact.partial), *own_words(text, "error")]
            case ToolCalled():
                self._calls[run, fact.call_id] = fact
                return []
            case ToolReturned():
                return self._returned(run, fact)
            case QuestionAsked():
                self._questions[run, fact.question_id] = fact
                # Waiting for input has no card: what the workflow wants to be told stands here.
                has_card = self._with_cards and fact.kind != "input"
                return [] if has_card or not fact.text else [*question_lines(fact)]
            case QuestionAnswered():
                return self._answered(run, fact)
            case QuestionSuperseded():
                return self._superseded(run, fact)
            case PermissionGranted():
                text = f"{fact.tool} needs no approval for the rest of this run."
                return [*own_words(text, "note")]
            case InputReceived():
                return self._received(run, fact)
            case InputDisposed():
                return self._disposed(run, fact)
            case Interrupted():
                return self._interrupted(run, fact)
            case ReplyCut():
                return self._cut(run, fact.agent, fact.partial)
            case WorkflowOutput():
                if fact.kind == "result":
                    heading = Line((("1", "result"),), GUTTER, "1", GUTTER)
                    return [heading, Words(fact.text, GUTTER, "1")]
                return [*own_words(fact.text, "note")]
            case RunFinished() | RunFailed() | RunStopped():
                return self._ended(run, fact)
            case RunRecovered() | RunSuspended() | RunResumed() | DefinitionChanged():
                return [*taken_up(run, fact)]
            case HandlerRan() | AnswerRefused() | WordsJoined() | FileWritten():
                return []
            case _:
                return []

    def _started(self, run: str, fact: RunStarted) -> list[Block]:
        if fact.definition.kind == "chat":
            self._chats.add(run)
            return []
        return [Line((("1", fact.workflow), (DIM, f"  started, run {run}")), "▶ ", "36")]

    def _responded(self, run: str, fact: AgentResponded) -> list[Block]:
        self._shown.pop((run, fact.agent), None)
        found: list[Block] = []
        if fact.text.strip():
            found += speech(fact.agent, fact.text)
        if fact.problem:
            found += own_words(f"{fact.agent} is asked again: {fact.problem}", "note")
        return found

    def _cut(self, run: str, agent: str, partial: str) -> list[Block]:
        shown = "".join(self._shown.pop((run, agent), ()))
        # What was on the screen stays in view, even if the run knew of less of it.
        kept = shown if len(shown) > len(partial) else partial
        return speech(agent, kept, is_interrupted=True) if kept.strip() else []

    def _returned(self, run: str, fact: ToolReturned) -> list[Block]:
        call = self._calls.pop((run, fact.call_id), None)
        halt = self._halts.get(run)
        if halt is not None:
            if fact.name != REQUEST_USERS_INPUT:
                halt.ended.append((fact.name, fact.outcome))
            return []
        if fact.name == REQUEST_USERS_INPUT and fact.outcome == "completed":
            return []
        return [call_line(fact, call)]

    def _answered(self, run: str, fact: QuestionAnswered) -> list[Block]:
        question = self._questions.pop((run, fact.question_id), None)
        if question is not None and question.kind == "input":
            return []
        return [answer_line(question, fact.question_id, fact.answer)]

    def _superseded(self, run: str, fact: QuestionSuperseded) -> list[Block]:
        question = self._questions.pop((run, fact.question_id), None)
        if question is None or question.kind == "input":
            return []
        number = f"#{question.number} " if question.number else ""
        return [*own_words(f"{number}{question.text}  closed unanswered: {fact.reason}", "note")]

    def _received(self, run: str, fact: InputReceived) -> list[Block]:
        self._inputs[run, fact.input_id] = fact
        found: list[Block] = []
        if fact.source != "user":
            found += own_words(f"{fact.source} says: {fact.text}", "note")
        if fact.handling in ("queue", "steer") or fact.reason:
            how = {"queue": "waits for the end of this state", "steer": "joins the next request"}
            text = how.get(fact.handling, fact.handling)
            found += own_words(f"{text}{f' ({fact.reason})' if fact.reason else ''}", "note")
        return found

    def _disposed(self, run: str, fact: InputDisposed) -> list[Block]:
        received = self._inputs.pop((run, fact.input_id), None)
        if fact.disposition != "rejected" or received is None:
            return []
        if received.handling in ("reject", "answer"):
            return []  # Whoever handed the line over is told so, and has it back.
        return [*own_words(f"Not delivered: {received.text} ({fact.reason})", "warning")]

    def _interrupted(self, run: str, fact: Interrupted) -> list[Block]:
        known = self._halts.get(run)
        if known is not None:
            return []
        if run in self._chats and fact.leads_to == "stop" and not fact.agent:
            return []  # A chat that only waited is let go: nothing was interrupted.
        found = self._cut(run, fact.agent, fact.partial) if fact.agent else []
        holds = "waiting for your words" if fact.leads_to == "hold" else ""
        reason = " · ".join(part for part in (fact.reason, holds) if part)
        self._halts[run] = _Halt(fact.agent, reason, had_words=bool(found))
        return found

    def _ended(self, run: str, fact: RunFinished | RunFailed | RunStopped) -> list[Block]:
        for memory in (self._calls, self._questions, self._inputs, self._shown):
            for key in [key for key in memory if key[0] == run]:
                del memory[key]
        told = self._failures.pop(run, None)
        if run in self._chats and not isinstance(fact, RunFailed):
            return []
        is_known = isinstance(fact, RunFailed) and fact.error == told
        return [*ending(fact, is_known=is_known)]


def _asked(question: Question) -> QuestionAsked:
    return QuestionAsked(
        question_id=question.id,
        number=question.number,
        kind=question.kind,
        text=question.text,
        agent=question.agent,
        call_id=question.call_id,
        choices=question.choices,
    )

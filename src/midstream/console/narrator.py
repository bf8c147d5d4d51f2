"""The narrator: remembers what a later line needs of earlier events. No IO, no clock.

A tool call is shown with its result, an answer with its question, an interruption with what became
of everything it stopped, branches that begin together on one line; so something must be remembered
between events, and this is all of it.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from midstream.console.branches import Branches
from midstream.console.halts import Halt, Halts
from midstream.console.lines import DIM, Line
from midstream.console.painting import (
    GUTTER,
    Block,
    Words,
    answer_line,
    branch_ending,
    call_line,
    ending,
    granted,
    labelled,
    own_words,
    question_lines,
    question_summary,
    result_summary,
    speech,
    taken_up,
    transition,
    trouble,
    waiting,
)
from midstream.core.addressing import as_typed
from midstream.core.conversation import ToolCall
from midstream.core.events import (
    AgentFailed,
    AgentResponded,
    BranchFailed,
    BranchFinished,
    BranchStarted,
    BranchStopped,
    DefinitionChanged,
    InputDisposed,
    InputReceived,
    Interrupted,
    PermissionGranted,
    QuestionAnswered,
    QuestionAsked,
    QuestionExpired,
    QuestionSuperseded,
    ReplyCut,
    RunFailed,
    RunFinished,
    RunRecovered,
    RunResumed,
    RunStarted,
    RunStopped,
    RunSuspended,
    StateFailed,
    StateTransition,
    TimerSet,
    ToolCalled,
    ToolReturned,
    WorkDone,
    WorkflowOutput,
)
from midstream.core.names import REQUEST_USERS_INPUT, STOP
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
from midstream.core.timer_names import WAITED

_BETWEEN = (
    ToolReturned,
    QuestionSuperseded,
    InputReceived,
    InputDisposed,
    Interrupted,
    BranchStopped,
)
"""What may come between an interruption and the line that sums it up."""

_GOING_ON = "going on"
"""Why a branch enters a state that was halted with the run around it."""


class Narrator:
    """Turns events into blocks, in order. Call `settle` when no more events are there for now."""

    def __init__(self, *, with_cards: bool) -> None:
        """Make one. `with_cards`: open questions are drawn elsewhere, tell them when they close."""
        self._with_cards = with_cards
        self._calls: dict[tuple[str, str], ToolCalled] = {}
        self._wished: dict[tuple[str, str], ToolCall] = {}
        self._questions: dict[tuple[str, str], QuestionAsked] = {}
        self._inputs: dict[tuple[str, str], InputReceived] = {}
        self._shown: dict[tuple[str, str, str], list[str]] = {}
        self._failures: dict[tuple[str, str], str] = {}
        self._broken: dict[tuple[str, str], str] = {}
        self._expired: dict[tuple[str, str], int] = {}
        self._epochs: dict[tuple[str, str], int] = {}
        self._halts = Halts()
        self._branches = Branches()
        self._chats: set[str] = set()

    def streamed(self, run: str, agent: str, text: str, *, branch: str = "") -> None:
        """Remember words that were shown as they came, in case they are cut."""
        self._shown.setdefault((run, branch, agent), []).append(text)

    def recall(self, run: Run) -> None:
        """Remember what the later lines of a run need that began where nobody listened."""
        if run.definition is not None and run.definition.kind == "chat":
            self._chats.add(run.id)
        self._branches.recall(run)
        for question in run.open_questions:
            self._questions.setdefault((run.id, question.id), _asked(question))
        for record in run.undelivered:
            received = InputReceived(
                input_id=record.id,
                text=record.text,
                source="user",
                handling=record.handling,
                to=record.to,
            )
            self._inputs.setdefault((run.id, record.id), received)

    def open_calls(self) -> list[tuple[str, ToolCalled]]:
        """Return the tool calls that run, each with its run, the oldest first."""
        return [
            (run, call)
            for (run, _), call in self._calls.items()
            if call.name != REQUEST_USERS_INPUT
        ]

    def begun(self) -> list[Block]:
        """Return the branches that began, or went on, and were not told of yet."""
        return [*self._branches.moved()]

    def told(self, envelope: Envelope) -> list[Block]:
        """Return what an event adds to the story on the screen."""
        event, run = envelope.event, envelope.run
        if isinstance(event, Notice):
            return self._notice(run, event)
        found: list[Block] = []
        if not isinstance(event, _BETWEEN):
            for halt in self._halts.over(run, event.branch):
                found += self._halted(run, halt)
        found += self._fact(run, event, envelope.at)
        return [*self.begun(), *found] if found else found

    def settle(self) -> list[Block]:
        """Return what waits for nothing any more: branches that began, interruptions."""
        running = [(run, call.branch) for (run, _), call in self._calls.items()]
        found = self.begun()
        for run, halt in self._halts.idle(running):
            found += self._halted(run, halt)
        return found

    def _halted(self, run: str, halt: Halt) -> list[Line]:
        return halt.lines(self._branches.label(run, halt.branch))

    def _in(self, run: str, branch: str, lines: list[Line]) -> list[Block]:
        """Return lines about something in a branch."""
        return [*labelled(self._branches.label(run, branch), lines)]

    def _notice(self, run: str, event: AnyNotice) -> list[Block]:
        match event:
            case ListenerFailed():
                text = f"The listener {event.listener} failed: {event.error}"
                return [*own_words(text, "warning")]
            case AgentThinking(status=status) if status:
                words = own_words(f"{event.agent}: {status}", "note")
                return self._in(run, event.branch, words)
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

    def _fact(self, run: str, fact: object, at: float) -> list[Block]:
        match fact:
            case RunStarted():
                return self._started(run, fact)
            case StateTransition():
                return self._moved(run, fact)
            case AgentResponded():
                return self._responded(run, fact)
            case AgentFailed():
                return self._agent_failed(run, fact)
            case ToolCalled():
                self._calls[run, fact.call_id] = fact
                return []
            case ToolReturned():
                return self._returned(run, fact)
            case QuestionAsked():
                self._questions[run, fact.question_id] = fact
                # What was asked about is shown with its question, and need not be named again.
                self._wished.pop((run, fact.call_id), None)
                # Waiting for input has no card: what the workflow wants to be told stands here.
                has_card = self._with_cards and fact.kind != "input"
                return [] if has_card or not fact.text else [*question_lines(fact)]
            case QuestionAnswered() | QuestionSuperseded() | QuestionExpired():
                return self._closed(run, fact)
            case PermissionGranted():
                return [*own_words(granted(fact), "note")]
            case InputReceived():
                return self._received(run, fact)
            case InputDisposed():
                return self._disposed(run, fact)
            case Interrupted():
                return self._interrupted(run, fact)
            case ReplyCut():
                return self._cut(run, fact.branch, fact.agent, fact.partial)
            case WorkflowOutput():
                if fact.kind == "result":
                    heading = Line((("1", "result"),), GUTTER, "1", GUTTER)
                    return [heading, Words(fact.text, GUTTER, "1")]
                return self._in(run, fact.branch, own_words(fact.text, "note"))
            case StateFailed():
                key = (run, fact.branch)
                told = self._failures.pop(key, "") or self._broken.pop(key, "")
                is_known = bool(told) and told in fact.error
                return self._in(run, fact.branch, trouble(fact, is_known=is_known))
            case TimerSet():
                return self._timed(run, fact, at)
            case WorkDone():
                return self._worked(run, fact)
            case BranchStarted():
                self._branches.begin(run, fact, at)
                return []
            case BranchFinished() | BranchFailed() | BranchStopped():
                return self._branch_ended(run, fact, at)
            case RunFinished() | RunFailed() | RunStopped():
                return self._ended(run, fact)
            case RunRecovered() | RunSuspended() | RunResumed() | DefinitionChanged():
                return [*taken_up(run, fact)]
            case _:
                return []

    # --- states and branches ------------------------------------------------------------------

    def _started(self, run: str, fact: RunStarted) -> list[Block]:
        if fact.definition.kind == "chat":
            self._chats.add(run)
            return []
        return [Line((("1", fact.workflow), (DIM, f"  started, run {run}")), "▶ ", "36")]

    def _moved(self, run: str, fact: StateTransition) -> list[Block]:
        self._branches.entered(run, fact.branch, fact.target)
        self._expired.pop((run, fact.branch), None)
        if run in self._chats:
            return []
        if fact.reason == _GOING_ON:
            if fact.branch:
                self._branches.goes_on(run, fact.branch)
            return []
        if fact.branch and (not fact.source or fact.target == STOP):
            return []  # That it began and that it ended have lines of their own.
        return self._in(run, fact.branch, [transition(fact)])

    def _timed(self, run: str, fact: TimerSet, at: float) -> list[Block]:
        if fact.timer != WAITED or fact.until - at < 1:
            return []
        words = waiting(self._branches.state(run, fact.branch), fact.until, now=at)
        return self._in(run, fact.branch, own_words(words, "note"))

    def _worked(self, run: str, fact: WorkDone) -> list[Block]:
        number = self._expired.pop((run, fact.branch), None)
        if number is not None:
            value = fact.text or msgspec.json.encode(fact.value).decode()
            words = f"#{number} takes its default: {result_summary(value)}"
            return self._in(run, fact.branch, own_words(words, "note"))
        return [*self._branches.join(run, fact.branch)]

    def _branch_ended(
        self, run: str, fact: BranchFinished | BranchFailed | BranchStopped, at: float
    ) -> list[Block]:
        is_done = isinstance(fact, BranchFinished)
        took_s = self._branches.end(run, fact.branch, at, is_done=is_done)
        told = self._failures.pop((run, fact.branch), "")
        details = ""
        if isinstance(fact, BranchStopped):
            halt = self._halts.covering(run, fact.branch)
            if halt is not None and halt.branch != fact.branch:
                return []  # It was stopped with what is around it, which says so.
            if halt is not None:
                self._halts.take(run, fact.branch)
                details = halt.words()
        if isinstance(fact, BranchFailed):
            # Its state fails over just this, and is tried again or left.
            self._broken[run, fact.branch.rpartition("/")[0]] = fact.error
        lines = branch_ending(
            fact, took_s=took_s, is_known=bool(told) and told == _error(fact), details=details
        )
        return self._in(run, fact.branch, lines)

    def _ended(self, run: str, fact: RunFinished | RunFailed | RunStopped) -> list[Block]:
        told = self._failures.get((run, ""), "")
        memories: tuple[dict[Any, Any], ...] = (
            self._calls,
            self._wished,
            self._questions,
            self._inputs,
            self._shown,
            self._failures,
            self._broken,
            self._expired,
            self._epochs,
        )
        for memory in memories:
            for key in [key for key in memory if key[0] == run]:
                del memory[key]
        self._branches.forget(run)
        if run in self._chats and not isinstance(fact, RunFailed):
            return []
        is_known = bool(told) and isinstance(fact, RunFailed) and fact.error == told
        return [*ending(fact, is_known=is_known)]

    # --- agents and tools ---------------------------------------------------------------------

    def _responded(self, run: str, fact: AgentResponded) -> list[Block]:
        self._shown.pop((run, fact.branch, fact.agent), None)
        self._wished.update(((run, call.id), call) for call in fact.calls)
        found: list[Block] = []
        if fact.text.strip():
            found += speech(fact.agent, fact.text, branch=self._branches.label(run, fact.branch))
        if fact.problem:
            words = own_words(f"{fact.agent} is asked again: {fact.problem}", "note")
            found += self._in(run, fact.branch, words)
        return found

    def _agent_failed(self, run: str, fact: AgentFailed) -> list[Block]:
        self._failures[run, fact.branch] = fact.error
        text = f"{fact.agent} failed: {fact.error} {fact.hint}".rstrip()
        said = self._cut(run, fact.branch, fact.agent, fact.partial)
        return [*said, *self._in(run, fact.branch, own_words(text, "error"))]

    def _cut(self, run: str, branch: str, agent: str, partial: str) -> list[Block]:
        shown = "".join(self._shown.pop((run, branch, agent), ()))
        # What was on the screen stays in view, even if the run knew of less of it.
        kept = shown if len(shown) > len(partial) else partial
        if not kept.strip():
            return []
        label = self._branches.label(run, branch)
        return speech(agent, kept, branch=label, is_interrupted=True)

    def _returned(self, run: str, fact: ToolReturned) -> list[Block]:
        call = self._calls.pop((run, fact.call_id), None)
        wished = self._wished.pop((run, fact.call_id), None)
        halt = self._halts.covering(run, fact.branch)
        if halt is not None:
            if fact.name != REQUEST_USERS_INPUT:
                halt.ended(fact.branch, fact.name, fact.outcome)
            return []
        if fact.name == REQUEST_USERS_INPUT and fact.outcome == "completed":
            return []
        if call is not None and not call.agent and fact.outcome != "completed":
            # A state's own call: what comes of it is told next, and need not say this again.
            self._failures[run, fact.branch] = fact.result
        return self._in(run, fact.branch, [call_line(fact, call or wished)])

    # --- questions ----------------------------------------------------------------------------

    def _closed(
        self, run: str, fact: QuestionAnswered | QuestionSuperseded | QuestionExpired
    ) -> list[Block]:
        if isinstance(fact, QuestionExpired) and fact.stays:
            return []
        question = self._questions.pop((run, fact.question_id), None)
        if question is not None and question.kind == "input":
            return []
        if isinstance(fact, QuestionAnswered):
            line = answer_line(question, fact.question_id, fact.answer)
            return self._in(run, fact.branch, [line])
        if question is None:
            return []
        number = f"#{question.number} " if question.number else ""
        if isinstance(fact, QuestionExpired):
            self._expired[run, fact.branch] = question.number
            words = own_words(
                f"{number}{question_summary(question)}  nobody answered in time", "warning"
            )
        else:
            text = f"{number}{question_summary(question)}  closed unanswered: {fact.reason}"
            words = own_words(text, "note")
        return self._in(run, fact.branch, words)

    # --- the user's words ---------------------------------------------------------------------

    def _received(self, run: str, fact: InputReceived) -> list[Block]:
        self._inputs[run, fact.input_id] = fact
        found: list[Block] = []
        if fact.source != "user":
            found += self._in(run, fact.to, own_words(f"{fact.source} says: {fact.text}", "note"))
        if fact.handling in ("queue", "steer") or fact.reason:
            how = {"queue": "waits for the end of this state", "steer": "joins the next request"}
            text = how.get(fact.handling, fact.handling)
            words = own_words(f"{text}{f' ({fact.reason})' if fact.reason else ''}", "note")
            found += self._in(run, fact.to, words)
        return found

    def _disposed(self, run: str, fact: InputDisposed) -> list[Block]:
        received = self._inputs.pop((run, fact.input_id), None)
        if fact.disposition != "rejected" or received is None:
            return []
        if received.handling in ("reject", "answer"):
            return []  # Whoever handed the line over is told so, and has it back.
        text = as_typed(received.text, received.to)
        return [*own_words(f"Not delivered: {text} ({fact.reason})", "warning")]

    def _interrupted(self, run: str, fact: Interrupted) -> list[Block]:
        if self._epochs.get((run, fact.branch)) == fact.epoch:
            return []  # Words that joined a halt told before: what they lead to comes next.
        self._epochs[run, fact.branch] = fact.epoch
        if run in self._chats and fact.leads_to == "stop" and not fact.agent:
            return []  # A chat that only waited is let go: nothing was interrupted.
        found: Sequence[Block] = ()
        if fact.agent:
            found = self._cut(run, fact.branch, fact.agent, fact.partial)
        halt = self._halts.begin(run, fact)
        halt.cut(fact.branch, fact.agent, had_words=bool(found))
        return [*found]


def _error(fact: BranchFinished | BranchFailed | BranchStopped) -> str:
    return fact.error if isinstance(fact, BranchFailed) else ""


def _asked(question: Question) -> QuestionAsked:
    return QuestionAsked(
        branch=question.branch,
        question_id=question.id,
        number=question.number,
        kind=question.kind,
        text=question.text,
        agent=question.agent,
        call_id=question.call_id,
        choices=question.choices,
        schema=question.schema,
    )

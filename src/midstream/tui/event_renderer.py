"""How events become lines: which is told by whom; of runs, states and branches it is told here. No IO.

A tool call is shown with its result (`agent_events`), an answer with its question (`talk_events`), an
interruption with what became of everything it stopped, branches that begin together on one line
(`run_memory`); so something must be remembered between events, and these modules are all of it.
"""

from collections import deque

import msgspec

from midstream.core import events as e
from midstream.core.call_notes import MADE_ANEW
from midstream.core.notices import (
    AgentThinking,
    AnyNotice,
    BackgroundEnded,
    Envelope,
    FileChanged,
    JournalStalled,
    JournalWorks,
    ListenerFailed,
    Notice,
    RunTaken,
    TextDelta,
)
from midstream.core.question import Question
from midstream.core.run import WAITED, Run
from midstream.language.errors import with_hint
from midstream.language.names import JOIN_WORKTREE, NEVER_RUN, OPEN_WORKTREE, STOP
from midstream.tui.agent_events import AgentEvents
from midstream.tui.event_lines import (
    SPEAKER,
    Block,
    Kind,
    Words,
    branch_ending,
    ending,
    granted,
    hook_words,
    own_words,
    speech,
    taken_up,
    transition,
    trouble,
    waiting,
)
from midstream.tui.output_tail import Outputs
from midstream.tui.run_memory import Branches, Halt, Halts, Tally, forget
from midstream.tui.styled_lines import Line
from midstream.tui.talk_events import TalkEvents, past_blocks, session_lines
from midstream.tui.themes import ACCENT, BOLD, MUTED
from midstream.views.calls_in_words import beginning

_BETWEEN = (
    e.ToolReturned,
    e.QuestionSuperseded,
    e.InputReceived,
    e.InputDisposed,
    e.Interrupted,
    e.BranchStopped,
)
"""What may come between an interruption and the line that sums it up."""

_GOING_ON = "going on"
"""Why a branch enters a state that was halted with the run around it."""

_OF_ITS_PROCESS = (e.RunRecovered, e.RunSuspended, e.RunResumed, e.DefinitionChanged)

_MAX_KEPT = 2_000
"""Blocks that are kept of a run out of sight; the journal has them all."""


class EventRenderer:
    """Turns events into blocks, in order. Call `settle` when no more events are there for now."""

    def __init__(self, *, with_cards: bool, outputs: Outputs | None = None) -> None:
        """Make one.

        `with_cards`: open questions are drawn elsewhere, tell them when they close. `outputs`: what
        of the running calls is on the screen, the end of which stays when they are halted.
        """
        self._with_cards = with_cards
        self._halts = Halts()
        self._branches = Branches()
        outputs = Outputs() if outputs is None else outputs
        self.agents = AgentEvents(self._branches, self._halts, outputs)
        """What is told of agents; it is told what streams, too."""
        self._talk = TalkEvents(
            self._branches, self._halts, with_cards=with_cards, cut=self.agents.cut
        )
        self._broken: dict[tuple[str, str], str] = {}
        self._tally = Tally()
        self._chats: set[str] = set()
        self._known: set[str] = set()
        self._arriving: dict[str, e.RunRecovered] = {}
        self._past: dict[str, int] = {}
        self._behind: dict[str, deque[Block]] = {}
        self._gone: dict[str, None] = {}

    def printed(self, run: str, asked: Question) -> None:
        """Hear that a question stands in full in the scrollback, with what its call would change."""
        self.agents.asked(run, asked, stays=True)

    def last_in_full(self) -> list[Block]:
        """Return what runs did that ended out of sight; asked again, the last tool result or
        reasoning in full; then the one before it.
        """
        ended = [block for run in [*self._gone] for block in self.kept(run)]
        return ended or self.agents.last_in_full()

    def kept(self, run: str) -> list[Block]:
        """Return what a run did while it was out of sight, to be shown now."""
        self._gone.pop(run, None)
        return [*self._behind.pop(run, ())]

    def recall(self, run: Run) -> list[Block]:
        """Remember what the later lines of a run need that began where nobody listened.

        Return what could not be told before it was known what it is.
        """
        self._known.add(run.id)
        if run.is_chat:
            self._chats.add(run.id)
        self._branches.recall(run)
        self._talk.recall(run)
        self._tally.recall(run)
        fact = self._arriving.pop(run.id, None)
        return [] if fact is None else [*taken_up(run.id, fact, is_chat=run.id in self._chats)]

    def past(self, run: Run) -> list[Block]:
        """Return the last turns of a chat. What of it is part of them is not told once more."""
        self._past[run.id] = run.seq
        return past_blocks(run)

    def streamed(self, run: str, delta: TextDelta, words: str) -> list[Block]:
        """Return a part of an agent's streaming words, under its name."""
        return [
            *self.begun(),
            *speech(delta.agent, words, branch=self._branches.label(run, delta.branch)),
        ]

    def open_calls(self) -> list[tuple[str, e.ToolCalled]]:
        """Return the tool calls that run, each with its run, the oldest first."""
        return [(run, call) for run, call in self.agents.calls() if call.name not in NEVER_RUN]

    def begun(self) -> list[Block]:
        """Return the branches that began, or went on, and were not told of yet."""
        return [*self._branches.moved()]

    def render(self, envelope: Envelope, *, is_behind: bool = False) -> list[Block]:
        """Return what an event adds to the story on the screen.

        Of a run out of sight (`is_behind`) that is nothing for now but what is wrong with it: a story
        of its own, kept until it is asked for.
        """
        event, run = envelope.event, envelope.run
        if envelope.seq is not None and envelope.seq <= self._past.get(run, 0):
            return []
        if isinstance(event, Notice) and not (is_behind and isinstance(event, AgentThinking)):
            return self._notice(run, event)
        if not is_behind or isinstance(event, _OF_ITS_PROCESS):
            return [*self.kept(run), *self._render(run, envelope)]
        before = self.begun()
        kept = self._behind.setdefault(run, deque(maxlen=_MAX_KEPT))
        kept += self._render(run, envelope)
        kept += self.begun()
        if kept and isinstance(event, e.RunFinished | e.RunFailed | e.RunStopped):
            self._gone[run] = None
        return before

    def _render(self, run: str, envelope: Envelope) -> list[Block]:
        event = envelope.event
        if isinstance(event, Notice):
            return self._notice(run, event)
        found: list[Block] = []
        if not isinstance(event, _BETWEEN):
            for halt in self._halts.over(run, event.branch):
                found += self._halted(run, halt)
        self._tally.count(run, event, envelope.at)
        found += self._fact(run, event, envelope.at)
        return [*self.begun(), *found] if found else found

    def settle(self) -> list[Block]:
        """Return what waits for nothing any more: branches that began, interruptions."""
        running = [(run, call.branch) for run, call in self.agents.calls()]
        found = self.begun()
        for run, halt in self._halts.idle(running):
            self._behind.get(run, found).extend(self._halted(run, halt))
        return found

    def _halted(self, run: str, halt: Halt) -> list[Line]:
        done = self._branches.finished(run, halt.branch)
        return halt.lines(self._branches.label(run, halt.branch), done=done)

    def _notice(self, run: str, event: AnyNotice) -> list[Block]:
        match event:
            case ListenerFailed():
                # A hook is one to the engine; to the person who wrote it, it is a hook.
                is_hook = event.listener.startswith("hook ")
                who = event.listener if is_hook else f"listener {event.listener}"
                text = f"The {who} failed: {event.error}"
                return [*own_words(text, "warning")]
            case FileChanged():
                self.agents.changed(run, event)
                return []
            case AgentThinking(status=status) if status:
                words = own_words(f"{event.agent}: {status}", "note")
                return self._branches.labelled(run, event.branch, words)
            case BackgroundEnded():
                return [*own_words(f"{event.handle} ({event.line}): {event.how}", "note")]
            case JournalStalled():
                text = with_hint(f"Run {run} waits: {event.error}", event.hint)
                return [*own_words(f"{text} Until then it accepts no input.", "warning")]
            case JournalWorks():
                return [*own_words(f"The journal works again: run {run} goes on.", "note")]
            case RunTaken():
                text = f"Run {run} goes on in another process: /attach {run[:4]} watches it."
                return [*own_words(text, "warning")]
            case _:
                return []

    def _fact(self, run: str, fact: object, at: float) -> list[Block]:
        match fact:
            case e.RunStarted():
                return self._started(run, fact)
            case e.StateTransition():
                return self._moved(run, fact)
            case e.AgentResponded():
                return self.agents.responded(run, fact)
            case e.AgentFailed():
                return self.agents.failed(run, fact)
            case e.ToolCalled():
                self.agents.called(run, fact, at)
                return []
            case e.ToolReturned():
                returned = self.agents.returned(run, fact, at)
                if fact.name not in (OPEN_WORKTREE, JOIN_WORKTREE) or not returned:
                    return returned
                if fact.result in MADE_ANEW:
                    return []
                # One line of what a branch did by itself; its changes were shown as they were made.
                kind: Kind = "note" if fact.outcome == "completed" else "warning"
                words = own_words(beginning(fact.result), kind)
                return self._branches.labelled(run, fact.branch, words)
            case e.QuestionAsked():
                # A card goes with its answer; without one what is changed after a yes stands here.
                self.agents.asked(run, fact, stays=not self._with_cards)
                return self._talk.asked(run, fact)
            case e.QuestionAnswered() | e.QuestionSuperseded() | e.QuestionExpired():
                return self._talk.closed(run, fact)
            case e.HookRan():
                return self._branches.labelled(run, fact.branch, hook_words(fact))
            case e.PermissionGranted():
                return [*own_words(granted(fact), "note")]
            case e.InputReceived():
                return self._talk.received(run, fact, is_chat=run in self._chats)
            case e.InputDisposed():
                return self._talk.disposed(run, fact)
            case e.Interrupted():
                return self._talk.interrupted(run, fact, is_chat=run in self._chats)
            case e.ReplyCut():
                said = self.agents.cut(run, fact.branch, fact.agent, fact.partial)
                if not fact.reason:
                    return said
                notice = own_words(f"{fact.reason} {fact.agent} is asked to go on.", "warning")
                return [*said, *self._branches.labelled(run, fact.branch, notice)]
            case e.WorkflowOutput():
                if fact.kind == "result":
                    return [Line(((BOLD, "result"),), SPEAKER, BOLD), Words(fact.text)]
                return self._branches.labelled(run, fact.branch, own_words(fact.text, "note"))
            case e.StateFailed():
                failed = self.agents.failure(run, fact.branch)
                told = failed or self._broken.pop((run, fact.branch), "")
                is_known = bool(told) and told in fact.error
                return self._branches.labelled(run, fact.branch, trouble(fact, is_known=is_known))
            case e.TimerSet():
                return self._timed(run, fact, at)
            case e.WorkDone():
                return self._worked(run, fact)
            case e.BranchStarted():
                self._branches.begin(run, fact, at)
                self.agents.handed_on(run, fact)
                return []
            case e.BranchFinished() | e.BranchFailed() | e.BranchStopped():
                return self._branch_ended(run, fact, at)
            case e.RunFinished() | e.RunFailed() | e.RunStopped():
                return self._ended(run, fact, at)
            case (
                e.ConversationCompacted()
                | e.ResultsTrimmed()
                | e.CompactionEnded()
                | e.RunRenamed()
                | e.TodoEdited()
            ):
                return [*session_lines(fact)]
            case e.RunRecovered() if run not in self._known:
                self._arriving[run] = fact
                return []
            case e.RunRecovered() | e.RunSuspended() | e.RunResumed() | e.DefinitionChanged():
                return [*taken_up(run, fact, is_chat=run in self._chats)]
            case _:
                return []

    # --- states and branches ------------------------------------------------------------------

    def _started(self, run: str, fact: e.RunStarted) -> list[Block]:
        self._known.add(run)
        if fact.definition.kind == "chat":
            self._chats.add(run)
            return []
        return [Line(((BOLD, fact.workflow), (MUTED, f"  started, run {run}")), "▶ ", ACCENT)]

    def _moved(self, run: str, fact: e.StateTransition) -> list[Block]:
        self._branches.entered(run, fact.branch, fact.target)
        self._talk.expired(run, fact.branch)
        if run in self._chats:
            return []
        if fact.reason == _GOING_ON:
            if fact.branch:
                self._branches.goes_on(run, fact.branch)
            return []
        if fact.branch and (not fact.source or fact.target == STOP):
            return []  # That it began and that it ended have lines of their own.
        if not self.agents.is_verbose:
            return []  # Where a run is stands in the bottom line; the way there is for its author.
        return self._branches.labelled(run, fact.branch, [transition(fact)])

    def _timed(self, run: str, fact: e.TimerSet, at: float) -> list[Block]:
        if fact.timer != WAITED or fact.until - at < 1:
            return []
        words = waiting(self._branches.state(run, fact.branch), fact.until, now=at)
        return self._branches.labelled(run, fact.branch, own_words(words, "note"))

    def _worked(self, run: str, fact: e.WorkDone) -> list[Block]:
        number = self._talk.expired(run, fact.branch)
        if number is not None:
            value = fact.text or msgspec.json.encode(fact.value).decode()
            words = f"#{number} is answered with its default: {beginning(value)}"
            return self._branches.labelled(run, fact.branch, own_words(words, "note"))
        return [*self._branches.join(run, fact.branch)]

    def _branch_ended(
        self, run: str, fact: e.BranchFinished | e.BranchFailed | e.BranchStopped, at: float
    ) -> list[Block]:
        is_done = isinstance(fact, e.BranchFinished)
        took_s = self._branches.end(run, fact.branch, at, is_done=is_done)
        told = self.agents.failure(run, fact.branch)
        details = ""
        said: list[Line] = []
        if isinstance(fact, e.BranchStopped):
            halt = self._halts.covering(run, fact.branch)
            if halt is not None and halt.branch != fact.branch:
                return []  # It was stopped with what is around it, which says so.
            if halt is not None:
                self._halts.take(run, fact.branch)
                details = halt.words()
                said = halt.output_lines()
        if isinstance(fact, e.BranchFailed):
            # Its state fails over just this, and is tried again or left.
            self._broken[run, fact.branch.rpartition("/")[0]] = fact.error
        lines = branch_ending(
            fact, took_s=took_s, is_known=bool(told) and told == _error(fact), details=details
        )
        return [*self._branches.labelled(run, fact.branch, lines), *said]

    def _ended(
        self, run: str, fact: e.RunFinished | e.RunFailed | e.RunStopped, at: float
    ) -> list[Block]:
        told = self.agents.failure(run, "")
        forget(run, self._broken)
        self.agents.forget(run)
        self._talk.forget(run)
        self._branches.forget(run)
        spent = self._tally.ended_words(run, at)
        if run in self._chats and not isinstance(fact, e.RunFailed):
            return []
        is_known = bool(told) and isinstance(fact, e.RunFailed) and fact.error == told
        return [*ending(fact, is_known=is_known, spent=spent)]


def _error(fact: e.BranchFinished | e.BranchFailed | e.BranchStopped) -> str:
    return fact.error if isinstance(fact, e.BranchFailed) else ""

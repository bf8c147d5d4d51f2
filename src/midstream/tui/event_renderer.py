"""How events become lines: which is told by whom; of runs, states and branches it is told here. No IO.

A tool call is shown with its result (`agent_events`), an answer with its question (`talk_events`), an
interruption with what became of everything it stopped, branches that begin together on one line; so
something must be remembered between events, a `RunMemory` for each run, and these modules are all of it.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from midstream.core import events as e
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
    ThinkingDelta,
)
from midstream.core.question import Question
from midstream.core.run import DEADLINE, WAITED, Run
from midstream.language.errors import with_hint
from midstream.language.names import NEVER_RUN, STOP
from midstream.tui import agent_events, talk_events
from midstream.tui.event_lines import SPEAKER, Block, Words, own_words, result_in_full, speech
from midstream.tui.live_region import LiveText
from midstream.tui.run_memory import Manner, Recent, RunMemory
from midstream.tui.styled_lines import Line, lines_of
from midstream.tui.themes import ACCENT, ATTENTION, BOLD, FAILED, MUTED, OK
from midstream.views.amounts import duration, time_of_day
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

    def __init__(
        self, *, with_cards: bool, is_own: Callable[[str], bool] = lambda input_id: True
    ) -> None:
        """Make one; see `Manner` for the two."""
        self.live = LiveText()
        """What streams; without cards, what is thought. Whoever prints has it forget what was printed."""
        self.manner = Manner(with_cards=with_cards, is_own=is_own, live=self.live, recent=Recent())
        self._runs: dict[str, RunMemory] = {}
        self._gone: dict[str, None] = {}

    def printed(self, run: str, asked: Question) -> None:
        """Hear that a question stands in full in the scrollback, with what its call would change."""
        agent_events.asked_about(self._of(run), asked, stays=True)

    def last_in_full(self) -> list[Block]:
        """Return what runs did that ended out of sight; asked again, the last tool result or
        reasoning in full; then the one before it.
        """
        if ended := [block for run in [*self._gone] for block in self.kept(run)]:
            return ended
        found = self.manner.recent.next()
        if found is None:
            return [*own_words("There is no earlier tool result or reasoning here.", "note")]
        shown, back = found
        which = "" if not back else "  (the one before)" if back == 1 else f"  ({back} before)"
        heading = Line(((BOLD, shown.title), (MUTED, which)), "┊ ", MUTED)
        more = f"+{shown.left_out:,} more characters, kept in the journal"
        end = own_words(more, "note") if shown.left_out else []
        return [heading, result_in_full(shown.text), *end]

    def kept(self, run: str) -> list[Block]:
        """Return what a run did while it was out of sight, to be shown now."""
        self._gone.pop(run, None)
        memory = self._of(run)
        found, memory.behind = memory.behind, None
        return [*(found or ())]

    def recall(self, run: Run) -> list[Block]:
        """Remember what the later lines of a run need that began where nobody listened.

        Return what could not be told before it was known what it is.
        """
        of = self._of(run.id)
        of.recall(run)
        fact, of.arriving = of.arriving, None
        return [] if fact is None else _recovered(of, fact)

    def past(self, run: Run) -> list[Block]:
        """Return the last turns of a chat. What of it is part of them is not told once more."""
        self._of(run.id).past = run.seq
        return talk_events.past_blocks(run)

    def streamed(self, run: str, delta: TextDelta, words: str) -> list[Block]:
        """Return a part of an agent's streaming words, under its name."""
        of = self._of(run)
        return [*of.begun(), *speech(delta.agent, words, branch=of.label(delta.branch))]

    def open_calls(self) -> list[tuple[str, e.ToolCalled]]:
        """Return the tool calls that run, each with its run, the oldest of a run first."""
        return [
            (of.run, call)
            for of in self._runs.values()
            for call in of.running()
            if call.name not in NEVER_RUN
        ]

    def render(self, envelope: Envelope, *, is_behind: bool = False) -> list[Block]:
        """Return what an event adds to the story on the screen.

        Of a run out of sight (`is_behind`) that is nothing for now but what is wrong with it: a story
        of its own, kept until it is asked for.
        """
        event, of = envelope.event, self._of(envelope.run)
        if envelope.seq is not None and envelope.seq <= of.past:
            return []
        is_heard = self.manner.with_cards or isinstance(event, TextDelta | ThinkingDelta)
        if is_heard and self.live.hears(of.run, event):
            return []
        if isinstance(event, Notice) and not (is_behind and isinstance(event, AgentThinking)):
            return _noticed(of, event)
        if not is_behind or isinstance(event, _OF_ITS_PROCESS):
            return [*self.kept(of.run), *_told(of, envelope)]
        if of.behind is None:
            of.behind = deque(maxlen=_MAX_KEPT)
        of.behind += [*_told(of, envelope), *of.begun()]
        if of.behind and isinstance(event, e.RunFinished | e.RunFailed | e.RunStopped):
            self._gone[of.run] = None
        return []

    def settle(self) -> list[Block]:
        """Return what waits for nothing any more: branches that began, interruptions."""
        found: list[Block] = []
        for of in self._runs.values():
            waited = [*of.begun(), *of.idle()]
            (found if of.behind is None else of.behind).extend(waited)
        return found

    def left(self) -> list[Block]:
        """Return what was shown of replies nobody hears the end of, as the console is left. Once."""
        found = [
            block
            for (run, branch, agent), said in self.live.streams.items()
            if (of := self._of(run)).behind is None
            for block in agent_events.cut(of, branch, agent, calling=said.calling)
        ]
        self.live.streams.clear()
        return found

    def _of(self, run: str) -> RunMemory:
        found = self._runs.get(run)
        if found is None:
            found = self._runs[run] = RunMemory(run=run, manner=self.manner)
        return found


def _told(of: RunMemory, envelope: Envelope) -> list[Block]:
    event, of.at = envelope.event, envelope.at
    if isinstance(event, Notice):
        return _noticed(of, event)
    found: list[Block] = []
    if not isinstance(event, _BETWEEN):
        found += of.over(event.branch)
    of.count(event)
    if (tell := TELLS.get(type(event))) is not None:
        found += tell(of, event)
    return [*of.begun(), *found] if found else found


def _noticed(of: RunMemory, event: AnyNotice) -> list[Block]:
    match event:
        case ListenerFailed():
            # A hook is one to the engine; to the person who wrote it, it is a hook.
            is_hook = event.listener.startswith("hook ")
            who = event.listener if is_hook else f"listener {event.listener}"
            return [*own_words(f"The {who} failed: {event.error}", "warning")]
        case FileChanged():
            of.call(event.call_id).changes.append(event)
            return []
        case AgentThinking(status=status) if status:
            return of.labelled(event.branch, own_words(f"{event.agent}: {status}", "note"))
        case BackgroundEnded():
            return [*own_words(f"{event.handle} ({event.line}): {event.how}", "note")]
        case JournalStalled():
            text = with_hint(f"Run {of.run} waits: {event.error}", event.hint)
            return [*own_words(f"{text} Until then it accepts no input.", "warning")]
        case JournalWorks():
            return [*own_words(f"The journal works again: run {of.run} goes on.", "note")]
        case RunTaken():
            text = f"Run {of.run} goes on in another process: /attach {of.run[:4]} watches it."
            return [*own_words(text, "warning")]
        case _:
            return []


# --- runs, states and branches ----------------------------------------------------------------------


def _started(of: RunMemory, fact: e.RunStarted) -> list[Block]:
    of.is_known = True
    if fact.definition.kind == "chat":
        of.is_chat = True
        return []
    return [Line(((BOLD, fact.workflow), (MUTED, f"  started, run {of.run}")), "▶ ", ACCENT)]


def _recovered(of: RunMemory, fact: e.RunRecovered) -> list[Block]:
    """Tell that the run goes on here; of a chat only that it was cut off is news to who opened it."""
    if not of.is_known:
        of.arriving = fact
        return []
    was = "It had been cut off." if fact.cut_work else ""
    told = was if of.is_chat else f"Run {of.run} goes on in this process. {was}".rstrip()
    return [*own_words(told, "note")] if told else []


def _suspended(of: RunMemory, fact: e.RunSuspended) -> list[Block]:
    why = fact.reason
    if why == "crash_loop":
        why = "its process died several times without progress"
    way = f"Type a line or /resume {of.run[:4]} to go on."
    return [*own_words(f"Run {of.run} is suspended: {why}. {way}", "warning")]


def _moved(of: RunMemory, fact: e.StateTransition) -> list[Block]:
    place = of.place(fact.branch)
    place.state, place.expired, place.is_held = fact.target, None, False
    if of.is_chat:
        return []
    if fact.reason == _GOING_ON:
        if fact.branch:
            of.goes_on(fact.branch)
        return []
    if fact.branch and (not fact.source or fact.target == STOP):
        return []  # That it began and that it ended have lines of their own.
    if not of.manner.is_verbose:
        return []  # Where a run is stands in the bottom line; the way there is for its author.
    way = f"{fact.source} → {fact.target}" if fact.source else fact.target
    told = Line(((BOLD, way), (MUTED, f"  {fact.reason}")), "→ ", ACCENT)
    return of.labelled(fact.branch, [told])


def _state_failed(of: RunMemory, fact: e.StateFailed) -> list[Block]:
    """Tell an error that is not the end, and what comes of it; one that has just been told needs no line
    where it is caught.
    """
    place = of.place(fact.branch)
    told = of.failure(fact.branch)
    if not told:
        told, place.broken = place.broken, ""
    again = ""
    if fact.then == "retry":
        when = "at once" if fact.wait_s < 1 else f"in {duration(round(fact.wait_s))}"
        again = f"again {when}{f' ({fact.attempt + 1} of {fact.of})' if fact.of else ''}"
    if told and told in fact.error:
        words = own_words(f"{fact.state}: {again}", "note") if again else []
    else:
        what = f"{fact.state}: {beginning(fact.error)}"
        words = own_words(f"{what}  {again}" if again else what, "warning")
    return of.labelled(fact.branch, words)


def _timed(of: RunMemory, fact: e.TimerSet) -> list[Block]:
    left = fact.until - of.at
    # Beside a card the row of who waits says until when.
    is_told = fact.timer == WAITED or (fact.timer == DEADLINE and not of.manner.with_cards)
    if not is_told or left < 1:
        return []
    until = f"{time_of_day(fact.until, now=of.at)} ({duration(left)})"
    what = "waits for an answer until" if fact.timer == DEADLINE else "waits until"
    words = own_words(f"{of.place(fact.branch).state} {what} {until}", "note")
    return of.labelled(fact.branch, words)


def _worked(of: RunMemory, fact: e.WorkDone) -> list[Block]:
    place = of.place(fact.branch)
    number, place.expired = place.expired, None
    if number is None:
        return [*of.join(fact.branch)]
    value = fact.text or msgspec.json.encode(fact.value).decode()
    words = f"#{number} is answered with its default: {beginning(value)}"
    return of.labelled(fact.branch, own_words(words, "note"))


def _said(of: RunMemory, fact: e.WorkflowOutput) -> list[Block]:
    if fact.kind == "result":
        return [Line(((BOLD, "result"),), SPEAKER, BOLD), Words(fact.text)]
    return of.labelled(fact.branch, own_words(fact.text, "note"))


def _granted(_: RunMemory, fact: e.PermissionGranted) -> list[Block]:
    """Tell what is not asked about again, in words that say no more than was granted."""
    from midstream.safety.rules import in_words  # no rule matters before the first prompt

    what = ", ".join(map(in_words, fact.capabilities)) or f"the tool {fact.tool}"
    return [*own_words(f"Allowed for this run: {what}. /permissions lists it.", "note")]


def _branch_began(of: RunMemory, fact: e.BranchStarted) -> list[Block]:
    of.begin(fact)
    if fact.call_id:
        of.call(fact.call_id).is_branch = True
    return []


def _branch_finished(of: RunMemory, fact: e.BranchFinished) -> list[Block]:
    of.failure(fact.branch)
    took_s = of.end(fact.branch, is_done=True)
    after = f"  after {duration(took_s)}" if took_s >= 1 else ""
    told = Line(((BOLD, "finished"), (MUTED, after)), "✓ ", OK)
    return of.labelled(fact.branch, [told])


def _branch_stopped(of: RunMemory, fact: e.BranchStopped) -> list[Block]:
    of.failure(fact.branch)
    of.end(fact.branch, is_done=False)
    why, said = f": {fact.reason}", list[Line]()
    if (halt := of.halt_around(fact.branch)) is not None:
        if halt.fact.branch != fact.branch:
            return []  # It was stopped with what is around it, which says so.
        del of.halts[fact.branch]
        why = " · ".join([why, *halt.cut(fact.branch).words()])
        said = halt.output_lines()
    told = Line(((BOLD, "stopped"), ("", why)), "■ ", ATTENTION)
    return [*of.labelled(fact.branch, [told]), *said]


def _branch_failed(of: RunMemory, fact: e.BranchFailed) -> list[Block]:
    told = of.failure(fact.branch)
    of.end(fact.branch, is_done=False)
    # Its state fails over just this, and is tried again or left.
    of.place(fact.branch.rpartition("/")[0]).broken = fact.error
    where = f"failed in {fact.state}" if fact.state else "failed"
    if told and told == fact.error:
        return of.labelled(fact.branch, [Line(((BOLD, where),), "✗ ", FAILED)])
    text = with_hint(f"{where}: {fact.error}", fact.hint)
    return of.labelled(fact.branch, lines_of(text, mark="✗ ", mark_style=FAILED))


def _ended(of: RunMemory, fact: e.RunFinished | e.RunFailed | e.RunStopped) -> list[Block]:
    """Tell how a run ended, what it took and cost and, if it failed, what to do."""
    told, spent = of.failure(""), of.spent()
    of.forget()
    used = (MUTED, f"  {spent}" if spent else "")
    match fact:
        case e.RunFailed():
            where = f"failed in {fact.state}" if fact.state else "failed"
            head = Line(((BOLD, where), used), "✗ ", FAILED)
            if told and told == fact.error:
                return [head]
            found = lines_of(f"{where}: {fact.error}", mark="✗ ", mark_style=FAILED)
            if spent:
                found = [head, *lines_of(fact.error, mark="  ")]
            return [*found, *(lines_of(fact.hint, mark="  ") if fact.hint else [])]
        case _ if of.is_chat:
            return []
        case e.RunFinished():
            return [Line(((BOLD, "finished"), used), "✓ ", OK)]
        case e.RunStopped():
            return [Line(((BOLD, "stopped"), ("", f": {fact.reason}"), used), "■ ", ATTENTION)]


TELLS: Final[dict[type[e.AnyFact], Callable[[RunMemory, Any], list[Block]]]] = {
    e.RunStarted: _started,
    e.RunRecovered: _recovered,
    e.RunSuspended: _suspended,
    e.RunResumed: lambda of, _: [*own_words(f"Run {of.run} goes on.", "note")],
    e.DefinitionChanged: lambda of, _: [
        *own_words(f"Run {of.run} follows the workflow as it is now.", "note")
    ],
    e.StateTransition: _moved,
    e.StateFailed: _state_failed,
    e.TimerSet: _timed,
    e.WorkDone: _worked,
    e.WorkflowOutput: _said,
    e.AgentResponded: agent_events.responded,
    e.AgentFailed: agent_events.failed,
    e.ReplyCut: agent_events.reply_cut,
    e.ToolCalled: agent_events.called,
    e.ToolReturned: agent_events.returned,
    e.QuestionAsked: talk_events.asked,
    e.QuestionAnswered: talk_events.closed,
    e.QuestionSuperseded: talk_events.closed,
    e.QuestionExpired: talk_events.closed,
    e.HookRan: agent_events.hook_ran,
    e.PermissionGranted: _granted,
    e.InputReceived: talk_events.received,
    e.InputDisposed: talk_events.disposed,
    e.Interrupted: talk_events.interrupted,
    e.ConversationCompacted: talk_events.in_session,
    e.ResultsTrimmed: talk_events.in_session,
    e.CompactionEnded: talk_events.in_session,
    e.RunRenamed: talk_events.in_session,
    e.TodoEdited: talk_events.in_session,
    e.BranchStarted: _branch_began,
    e.BranchFinished: _branch_finished,
    e.BranchFailed: _branch_failed,
    e.BranchStopped: _branch_stopped,
    e.RunFinished: _ended,
    e.RunFailed: _ended,
    e.RunStopped: _ended,
}
"""Who tells which fact; the others add nothing to the story on the screen."""

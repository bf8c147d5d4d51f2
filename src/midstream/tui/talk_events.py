"""What is told of the talk between a run and a person: questions, words, interruptions. No IO, no clock.

An answer is told with its question, a line when a run has heard it; an interruption waits for all
that it stopped.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from midstream.core import events as e
from midstream.core.costs import counted
from midstream.core.events import (
    CompactionEnded,
    ConversationCompacted,
    ResultsTrimmed,
    RunRenamed,
    TodoEdited,
)
from midstream.core.pictures import about
from midstream.core.proposal import mode_of
from midstream.core.question import Question
from midstream.core.routing import as_typed, living
from midstream.core.run import InputRecord, Run
from midstream.core.summaries import INTERRUPTED
from midstream.language.errors import with_hint
from midstream.tui.event_lines import (
    Block,
    answer_line,
    heard,
    own_words,
    question_lines,
    speech,
    typed,
)
from midstream.tui.run_memory import Branches, Halts, forget
from midstream.tui.styled_lines import Line
from midstream.tui.themes import BOLD, MUTED, OK
from midstream.views.amounts import token_words
from midstream.views.calls_in_words import beginning, question_summary
from midstream.views.listing import UNATTENDED
from midstream.views.todo_list import summary_of
from midstream.views.turns import past_of

Cut: TypeAlias = Callable[[str, str, str, str], Sequence[Block]]
"""Tells what an agent had said: of a run, a branch and an agent, with what the run knows of it."""


class TalkEvents:
    """The questions and the lines of all runs."""

    def __init__(self, branches: Branches, halts: Halts, *, with_cards: bool, cut: Cut) -> None:
        """Make one. `with_cards`: open questions are drawn elsewhere."""
        self._branches = branches
        self._halts = halts
        self._with_cards = with_cards
        self._cut = cut
        self._questions: dict[tuple[str, str], Question | e.QuestionAsked] = {}
        self._expired: dict[tuple[str, str], int] = {}
        self._inputs: dict[tuple[str, str], InputRecord | e.InputReceived] = {}
        self._epochs: dict[tuple[str, str], int] = {}

    def recall(self, run: Run) -> None:
        """Remember what is open in a run nobody listened to so far."""
        for question in run.inbox.open_questions:
            self._questions.setdefault((run.id, question.id), question)
        for record in run.inbox.undelivered:
            self._inputs.setdefault((run.id, record.id), record)
        for each in (run, *living(run)):
            self._epochs.setdefault((run.id, each.branch.path), each.halt.epoch)

    def forget(self, run: str) -> None:
        """Forget what a run that has ended will not need any more."""
        forget(run, self._questions, self._expired, self._inputs, self._epochs)

    # --- questions --------------------------------------------------------------------------

    def asked(self, run: str, fact: e.QuestionAsked) -> list[Block]:
        """Tell a question that nothing else shows."""
        self._questions[run, fact.question_id] = fact
        # Waiting for input has no card: what the workflow wants to be told stands here.
        has_card = self._with_cards and fact.kind != "input"
        return [] if has_card or not fact.text else [*question_lines(fact)]

    def closed(
        self, run: str, fact: e.QuestionAnswered | e.QuestionSuperseded | e.QuestionExpired
    ) -> list[Block]:
        """Tell how a question was closed."""
        if isinstance(fact, e.QuestionExpired) and fact.stays:
            return []
        question = self._questions.pop((run, fact.question_id), None)
        if question is not None and question.kind == "input":
            return []
        if isinstance(fact, e.QuestionAnswered):
            lines = [answer_line(question, fact.question_id, fact.answer)]
            if question is not None and question.about == "plan" and mode_of(fact.answer):
                # The card is gone: what was approved is to be read later, too.
                lines += [*question_lines(question)[1:]]
            return self._branches.labelled(run, fact.branch, lines)
        if question is None:
            return []
        number = f"#{question.number} " if question.number else ""
        if isinstance(fact, e.QuestionExpired):
            self._expired[run, fact.branch] = question.number
            words = own_words(
                f"{number}{question_summary(question)}  nobody answered in time", "warning"
            )
        else:
            text = f"{number}{question_summary(question)}  closed unanswered: {fact.reason}"
            words = own_words(text, "note")
        return self._branches.labelled(run, fact.branch, words)

    def expired(self, run: str, branch: str) -> int | None:
        """Return the number of the question of a place that nobody answered in time; asked once."""
        return self._expired.pop((run, branch), None)

    # --- words ------------------------------------------------------------------------------

    def received(self, run: str, fact: e.InputReceived, *, is_chat: bool) -> list[Block]:
        """Tell what becomes of a line that is not acted on at once."""
        self._inputs[run, fact.input_id] = fact
        found: list[Block] = []
        if fact.source not in ("user", *UNATTENDED):
            words = own_words(f"{fact.source} says: {fact.text}", "note")
            found += self._branches.labelled(run, fact.to, words)
        if fact.handling in ("queue", "steer") or fact.reason:
            what = "turn" if is_chat else "state"
            how = {"queue": f"waits for the end of this {what}", "steer": "joins the next request"}
            text = how.get(fact.handling, fact.handling)
            words = own_words(f"{text}{f' ({fact.reason})' if fact.reason else ''}", "note")
            found += self._branches.labelled(run, fact.to, words)
        if fact.pictures:
            words = own_words("\n".join(map(about, fact.pictures)), "note")
            found += self._branches.labelled(run, fact.to, words)
        return found

    def disposed(self, run: str, fact: e.InputDisposed) -> list[Block]:
        """Tell a line that waited and is heard now, or never will be."""
        received = self._inputs.pop((run, fact.input_id), None)
        if fact.disposition == "queued" and received is not None:
            halt = self._halts.covering(run, received.to)
            if halt is not None and halt.ends_nothing():
                self._halts.take(run, halt.branch)
        if fact.disposition in ("queued", "steered") and received is not None:
            return self._branches.labelled(run, received.to, [heard(received.text)])
        if fact.disposition != "rejected" or received is None:
            return []
        if received.handling in ("reject", "answer"):
            return []  # Whoever handed the line over is told so, and has it back.
        text = as_typed(received.text, received.to)
        return [*own_words(f"Not delivered: {text} ({fact.reason})", "warning")]

    def interrupted(self, run: str, fact: e.Interrupted, *, is_chat: bool) -> list[Block]:
        """Tell what was cut; the interruption itself waits until all that it stopped has ended."""
        if self._epochs.get((run, fact.branch)) == fact.epoch:
            return []  # Words that joined a halt told before: what they lead to comes next.
        self._epochs[run, fact.branch] = fact.epoch
        if is_chat and fact.leads_to == "stop" and not fact.agent:
            return []  # A chat that only waited is let go: nothing was interrupted.
        found: Sequence[Block] = ()
        if fact.agent:
            found = self._cut(run, fact.branch, fact.agent, fact.partial)
        halt = self._halts.begin(run, fact)
        halt.cut(fact.branch, fact.agent, had_words=bool(found))
        return [*found]


# --- what is said of a chat as a whole: its name, its summary, its last turns ---------------------


def session_lines(
    fact: ConversationCompacted | ResultsTrimmed | CompactionEnded | RunRenamed | TodoEdited,
) -> list[Line]:
    """Return what is said once something of it is true."""
    match fact:
        case ConversationCompacted():
            before, after = token_words(fact.tokens_before), token_words(fact.tokens_after)
            what = counted(fact.count, "message")
            words = f"  {what} replaced by a summary: about {before} before, {after} now"
            return [Line(((BOLD, "compacted"), (MUTED, words)), "✓ ", OK)]
        case ResultsTrimmed():
            before, after = token_words(fact.tokens_before), token_words(fact.tokens_after)
            what = counted(fact.results, "old tool result")
            words = (
                f"  {what} taken out, the journal keeps them: about {before} before, {after} now"
            )
            return [Line(((BOLD, "trimmed"), (MUTED, words)), "✓ ", OK)]
        case CompactionEnded(is_error=True):
            text = with_hint(f"Nothing was compacted: {fact.reason}", fact.hint)
            return own_words(text, "error")
        case CompactionEnded():
            how = "the summary was interrupted" if fact.reason == INTERRUPTED else fact.reason
            return own_words(f"Nothing was compacted: {how}.", "note")
        case TodoEdited():
            text = f"Todo list: {fact.edit}  ({summary_of(fact.items) if fact.items else 'empty'})"
            return own_words(text, "note")
        case RunRenamed():
            if not fact.name:
                return own_words("Its name was removed.", "note")
            text = f"It is called {fact.name!r} now: /resume {fact.name} comes back to it."
            return own_words(text, "note")


PAST_TURNS = 3
PAST_CHARS = 1_500
"""Characters of a reply that are shown of the past."""


def past_blocks(run: Run) -> list[Block]:
    """Return the last turns of a conversation, as they would stand on the screen."""
    past = past_of(run, most=PAST_TURNS)
    if not past.turns:
        return []
    words = f"Where you were: {'' if past.is_all else 'the last '}{counted(past.count, 'turn')}"
    if past.summary:
        words += ", after a summary of older ones"
    blocks: list[Block] = [*own_words(f"{words}.", "note")]
    for turn in past.turns:
        if turn.words:
            blocks += typed(_shortened_reply(turn.words))
        for said in turn.said:
            if said.calls:
                blocks += own_words(f"{said.agent} made {counted(said.calls, 'tool call')}", "note")
            if said.text.strip():
                blocks += speech(
                    said.agent, _shortened_reply(said.text), is_interrupted=said.interrupted
                )
            blocks += [answer_line(None, beginning(asked), words) for asked, words in said.answered]
    return blocks


def _shortened_reply(text: str) -> str:
    left = len(text) - PAST_CHARS
    return text if left <= 0 else f"{text[:PAST_CHARS].rstrip()}\n[+{left:,} characters: /history]"

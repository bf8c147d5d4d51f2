"""What is told of the talk between a run and a person: questions, words, interruptions. No IO, no clock.

An answer is told with its question, a line when a run has heard it; an interruption waits for all
that it stopped.
"""

from midstream.core import events as e
from midstream.core.costs import counted
from midstream.core.pictures import about
from midstream.core.proposal import mode_of
from midstream.core.routing import as_typed, living
from midstream.core.run import Run
from midstream.core.summaries import INTERRUPTED
from midstream.language.errors import with_hint
from midstream.tui.agent_events import asked_about, cut
from midstream.tui.event_lines import (
    Block,
    answer_line,
    own_words,
    question_lines,
    speech,
    typed,
)
from midstream.tui.run_memory import RunMemory
from midstream.tui.styled_lines import Line
from midstream.tui.themes import BOLD, MUTED, OK
from midstream.views.amounts import token_words
from midstream.views.calls_in_words import beginning, question_summary
from midstream.views.listing import UNATTENDED
from midstream.views.todo_list import summary_of
from midstream.views.turns import Said, past_of

# --- questions ------------------------------------------------------------------------------------


def asked(of: RunMemory, fact: e.QuestionAsked) -> list[Block]:
    """Tell a question that nothing else shows."""
    has_cards = of.manner.with_cards
    # A card goes with its answer; without one what is changed after a yes stands here.
    asked_about(of, fact, stays=not has_cards)
    of.questions[fact.question_id] = fact
    # Waiting for input has no card: what the workflow wants to be told stands here.
    has_card = has_cards and fact.kind != "input"
    return [] if has_card or not fact.text else [*question_lines(fact)]


def closed(
    of: RunMemory, fact: e.QuestionAnswered | e.QuestionSuperseded | e.QuestionExpired
) -> list[Block]:
    """Tell how a question was closed."""
    if isinstance(fact, e.QuestionExpired) and fact.stays:
        return []
    question = of.questions.pop(fact.question_id, None)
    if question is not None and question.kind == "input":
        return []
    if isinstance(fact, e.QuestionAnswered):
        lines = [answer_line(question, fact.question_id, fact.answer)]
        if question is not None and question.about == "plan" and mode_of(fact.answer):
            # The card is gone: what was approved is to be read later, too.
            lines += [*question_lines(question)[1:]]
        return of.labelled(fact.branch, lines)
    if question is None:
        return []
    what = f"#{question.number} " if question.number else ""
    what += question_summary(question)
    if isinstance(fact, e.QuestionExpired):
        of.place(fact.branch).expired = question.number
        words = own_words(f"{what}  nobody answered in time", "warning")
    else:
        words = own_words(f"{what}  closed unanswered: {fact.reason}", "note")
    return of.labelled(fact.branch, words)


# --- words ----------------------------------------------------------------------------------------


def received(of: RunMemory, fact: e.InputReceived) -> list[Block]:
    """Tell what becomes of a line that is not acted on at once."""
    of.inputs[fact.input_id] = fact
    notes: list[str] = []
    if fact.source == "user" and not of.manner.is_own(fact.input_id):
        notes.append(f"said elsewhere: {fact.text}")
    elif fact.source not in ("user", *UNATTENDED):
        notes.append(f"{fact.source} says: {fact.text}")
    if fact.handling in ("queue", "steer") or fact.reason:
        what = "turn" if of.is_chat else "state"
        how = {"queue": f"waits for the end of this {what}", "steer": "joins the next request"}
        why = f" ({fact.reason})" if fact.reason else ""
        notes.append(f"{how.get(fact.handling, fact.handling)}{why}")
    if fact.pictures:
        notes.append("\n".join(map(about, fact.pictures)))
    return [line for note in notes for line in of.labelled(fact.to, own_words(note, "note"))]


def disposed(of: RunMemory, fact: e.InputDisposed) -> list[Block]:
    """Tell a line that waited and is heard now, or never will be."""
    record = of.inputs.pop(fact.input_id, None)
    if record is None:
        return []
    if fact.disposition == "queued":
        halt = of.halt_around(record.to)
        if halt is not None and halt.ends_nothing():
            del of.halts[halt.fact.branch]
    if fact.disposition in ("queued", "steered"):
        words = beginning(record.text)
        told = Line(((MUTED, "sent now: "), (MUTED, words)), "· ", MUTED, shrinks=words)
        return of.labelled(record.to, [told])
    if fact.disposition != "rejected" or record.handling in ("reject", "answer"):
        return []  # Whoever handed over a line that a run does not take is told so, and has it back.
    text = as_typed(record.text, record.to)
    return [*own_words(f"Not delivered: {text} ({fact.reason})", "warning")]


def interrupted(of: RunMemory, fact: e.Interrupted) -> list[Block]:
    """Tell what was cut; the interruption itself waits until all that it stopped has ended."""
    place = of.place(fact.branch)
    was_held, place.is_held = place.is_held, fact.leads_to == "hold"
    if place.epoch == fact.epoch:
        return []  # Words that joined a halt told before: what they lead to comes next.
    place.epoch = fact.epoch
    if (of.is_chat or was_held) and fact.leads_to == "stop" and not fact.agent:
        return []  # A run that only waited is let go: nothing was interrupted.
    found = cut(of, fact.branch, fact.agent, fact.partial, fact.calling) if fact.agent else []
    here = of.halt(fact).cut(fact.branch)
    here.agent, here.had_words = here.agent or fact.agent, here.had_words or bool(found)
    return found


# --- what is said of a chat as a whole: its name, its summary, its last turns ---------------------


def in_session(
    _: RunMemory,
    fact: e.ConversationCompacted
    | e.ResultsTrimmed
    | e.CompactionEnded
    | e.RunRenamed
    | e.TodoEdited,
) -> list[Block]:
    """Tell what a person changed, or what gave way, once it is true."""
    match fact:
        case e.ConversationCompacted():
            what = f"{counted(fact.count, 'message')} replaced by a summary"
            return [_gave_way("compacted", what, fact)]
        case e.ResultsTrimmed():
            what = f"{counted(fact.results, 'old tool result')} taken out, the journal keeps them"
            return [_gave_way("trimmed", what, fact)]
        case e.CompactionEnded(is_error=True):
            text = with_hint(f"Nothing was compacted: {fact.reason}", fact.hint)
            return [*own_words(text, "error")]
        case e.CompactionEnded():
            how = "the summary was interrupted" if fact.reason == INTERRUPTED else fact.reason
            text = f"Nothing was compacted: {how}."
        case e.TodoEdited():
            text = f"Todo list: {fact.edit}  ({summary_of(fact.items) if fact.items else 'empty'})"
        case e.RunRenamed(name=name):
            text = f"It is called {name!r} now: /resume {name} comes back to it."
            text = text if name else "Its name was removed."
    return [*own_words(text, "note")]


def _gave_way(how: str, what: str, fact: e.ConversationCompacted | e.ResultsTrimmed) -> Line:
    before, after = token_words(fact.tokens_before), token_words(fact.tokens_after)
    words = f"  {what}: about {before} before, {after} now"
    return Line(((BOLD, how), (MUTED, words)), "✓ ", OK)


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
            if said.text.strip() or said.calling:
                blocks += _said(said)
            blocks += [answer_line(None, beginning(asked), words) for asked, words in said.answered]
    for task in living(run):
        turns = past_of(task, most=1).turns
        for said in turns[-1].said[-1:] if turns else ():
            if said.interrupted:
                blocks += _said(said, branch=task.branch.path)
    return blocks


def _said(said: Said, branch: str = "") -> list[Block]:
    text, is_cut = _shortened_reply(said.text), said.interrupted
    return speech(said.agent, text, branch=branch, is_interrupted=is_cut, calling=said.calling)


def _shortened_reply(text: str) -> str:
    left = len(text) - PAST_CHARS
    return text if left <= 0 else f"{text[:PAST_CHARS].rstrip()}\n[+{left:,} characters: /history]"

"""What is said of a chat as a whole: its name, its summary, and its last turns. Pure."""

from midstream.core.events import CompactionEnded, ConversationCompacted, RunRenamed
from midstream.core.run import Run
from midstream.core.summaries import INTERRUPTED
from midstream.language.errors import with_hint
from midstream.tui.event_lines import Block, own_words, speech, typed
from midstream.tui.styled_lines import BOLD, DIM, GREEN, Line
from midstream.views.amounts import counted, token_words
from midstream.views.turns import past_of


def session_lines(fact: ConversationCompacted | CompactionEnded | RunRenamed) -> list[Line]:
    """Return what is said once something of it is true."""
    match fact:
        case ConversationCompacted():
            before, after = token_words(fact.tokens_before), token_words(fact.tokens_after)
            what = counted(fact.count, "message")
            words = f"  {what} replaced by a summary: about {before} before, {after} now"
            return [Line(((BOLD, "compacted"), (DIM, words)), "✓ ", GREEN)]
        case CompactionEnded(is_error=True):
            text = with_hint(f"Nothing was compacted: {fact.reason}", fact.hint)
            return own_words(text, "error")
        case CompactionEnded():
            how = "the summary was interrupted" if fact.reason == INTERRUPTED else fact.reason
            return own_words(f"Nothing was compacted: {how}.", "note")
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
            blocks += typed(_cut(turn.words))
        for said in turn.said:
            if said.calls:
                blocks += own_words(f"{said.agent} made {counted(said.calls, 'tool call')}", "note")
            if said.text.strip():
                blocks += speech(said.agent, _cut(said.text), is_interrupted=said.interrupted)
    return blocks


def _cut(text: str) -> str:
    left = len(text) - PAST_CHARS
    return text if left <= 0 else f"{text[:PAST_CHARS].rstrip()}\n[+{left:,} characters: /history]"

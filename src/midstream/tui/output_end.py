"""The end of what an agent's command printed, below the line that says how it ended.

As a terminal would have shown it, see `output_tail`: how many passed, or what went wrong, is what a
person looks for first. All of it comes with the result in full.
"""

from typing import Final

from midstream.core.call_notes import without_change
from midstream.core.events import ToolReturned
from midstream.system.own_process import own_redactor
from midstream.tui.event_lines import RESULT_MARK
from midstream.tui.output_tail import OutputTail
from midstream.tui.styled_lines import DIM, Line
from midstream.views.calls_in_words import output_of

MAX_LINES: Final = 5
"""The last lines of a command that failed; of one that did not the last alone is shown."""

_LOOKED_AT: Final = 8_000


def last_words(fact: ToolReturned) -> list[Line]:
    """Return the last lines a command printed that hold anything, a row of a terminal each."""
    output = output_of(fact.name, without_change(fact.result))
    if not output.strip():
        return []
    redacted = own_redactor().redacted
    tail = OutputTail()
    # Before anything is cut, and again: what was written over may have parted a key.
    tail.feed(redacted(output[-2 * _LOOKED_AT :])[-_LOOKED_AT:])
    shown = tail.last(1 if fact.outcome == "completed" else MAX_LINES)
    texts = [redacted(line.rstrip()) for line in shown]
    return [Line(((DIM, text),), RESULT_MARK, DIM, RESULT_MARK, shrinks=text) for text in texts]

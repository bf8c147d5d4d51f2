"""Where a run stands, in a line."""

import time
from typing import Final

from midstream.core.conversation import USER
from midstream.core.run import Run
from midstream.views.cells import clipped, one_line
from midstream.views.run_status import standing_words

_FIRST: Final = 40
"""Characters of a chat's first words that are shown."""


def run_line(run: Run) -> str:
    """Return where a run stands, on one line. A chat has no states for a person."""
    return f"{run.id}  {_standing(run)}"


def listed_line(run: Run) -> str:
    """Return where a run stands, among others: a chat nobody named is known by its first words."""
    is_chat = run.definition is not None and run.definition.kind == "chat"
    said = (message for each in run.contexts.values() for message in each)
    first = next((message.text for message in said if message.author == USER), "")
    return f"{run.id}  {_standing(run, begun_with(first) if is_chat and not run.name else '')}"


def begun_with(first: str) -> str:
    """Return the words a chat began with, in a few words, as they stand behind its role."""
    words = clipped(one_line(first), _FIRST)
    return f" ({words})" if words else ""


def here_line(run: Run, *, was_cut: bool = False) -> str:
    """Return where lines go now; the id is for workflows alone. `was_cut`: work of it was, by a crash."""
    if run.definition is not None and run.definition.kind == "chat":
        name = _named(run).removeprefix("role:")
        if was_cut and run.visit.phase == "held":
            return f"{name} was cut off by a crash and waits for your words. Enter resumes."
        if was_cut:
            return f"{name} was cut off by a crash: {standing_words(run, now=time.time())}"
        return f"Chat with {name}: {standing_words(run, now=time.time())}"
    return f"Run {run_line(run)}"


def _standing(run: Run, begun: str = "") -> str:
    return f"{_named(run, begun)}: {standing_words(run, now=time.time())}"


def _named(run: Run, begun: str = "") -> str:
    name = run.definition.workflow.workflow_name if run.definition else "?"
    is_chat = run.definition is not None and run.definition.kind == "chat"
    state = f" [{run.visit.state}]" if run.visit.state and not (run.is_over or is_chat) else ""
    called = f" “{run.name}”" if run.name else begun
    return f"{name}{called}{state}"

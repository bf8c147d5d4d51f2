"""Words about runs: what a console says of them, wherever they live."""

import time
from collections.abc import Collection, Sequence
from typing import Final

from midstream.core.conversation import USER
from midstream.core.question import Question, chosen
from midstream.core.routing import Destination
from midstream.core.run import Run
from midstream.runtime.ports import Machine, Receipt
from midstream.runtime.storage import KeptRun
from midstream.views.cells import clipped, one_line
from midstream.views.listing import Summary, text_of
from midstream.views.run_status import DELIVERED, summary_words, way_on

_SHORT: Final = 4

_FIRST: Final = 40
"""Characters of a run's first words that are shown."""


def after_its_end(id: str) -> str:
    """Return what can be done with a run that has ended, as sentences."""
    return (
        f"`midstream show {id}` says how it ended, `midstream events {id}` what it did, and "
        f"`midstream fork {id}` goes on from an earlier point of it."
    )


def found_as(machine: Machine) -> str:
    """Return the name a run's workflow is started by, which its own may differ from."""
    definition = machine.run.definition
    return (definition.found_as if definition is not None else "") or machine.run.workflow_name


def is_done(machine: Machine) -> bool:
    """Return whether no line can go to a run any more, at least not through this machine."""
    return machine.run.is_over or machine.is_closed


def short_of(id: str, others: Collection[str]) -> str:
    """Return the shortest beginning of an id, of four characters at least, that no other has."""
    for length in range(_SHORT, len(id)):
        if not any(other != id and other.startswith(id[:length]) for other in others):
            return id[:length]
    return id


def left_words(run: Run, name: str, short: str, *, is_lasting: bool) -> str:
    """Return what is said of a run that is left, "" for one that needs no words.

    A chat that only waits is left silently: nothing of it is under way.
    """
    if run.is_over or (run.is_chat and run.visit.phase == "waiting"):
        return ""
    if not is_lasting:
        return f"{name} ({run.id}) ends here: it is not kept after this process."
    resume = f"/resume {short} or `midstream resume {short}`"
    return f"{name} ({run.id}) {way_on(run, short, resume=resume)}"


def way_on_here(run: Run, short: str) -> str:
    """Return how a run that no process runs any more is taken up in this console, as a sentence."""
    resume = f"/resume {short}"
    if any(question.kind != "input" for question in run.inbox.open_questions):
        return f"The run is kept: {resume} shows its question here."
    if run.visit.phase == "held" and not run.suspended:
        return f"The run is stopped: after {resume} your next line tells it what to do."
    return f"The run is kept: {resume} goes on with it here."


def kept_line(kept: KeptRun) -> str:
    """Return where a run stands that does not live in this console, on one line."""
    summary = kept.summary
    name = summary.found_as or summary.workflow or "?"
    has_state = summary.state and not summary.is_over and summary.kind != "chat"
    state = f" [{summary.state}]" if has_state else ""
    called = f" “{summary.name}”" if summary.name else begun_with(summary.first)
    return f"{kept.id}  {name}{called}{state}: {_how(kept, summary)}"


def _how(kept: KeptRun, summary: Summary) -> str:
    if kept.damaged:
        return f"damaged ({kept.damaged})"
    if summary.is_over:
        return summary.status
    parts = ["suspended"] if summary.status == "suspended" else []
    if kept.owner:
        parts.append("runs in another process")
    elif kept.is_foreign:
        parts.append("imported")
    else:
        parts.append("was cut off" if kept.cut_work else "was left")
    count = len(summary.asking)
    if count:
        parts.append(f"waits for your answer{f' to {count} questions' if count > 1 else ''}")
    elif summary.awaits_input:
        parts.append("waits for your words")
    return ", ".join(parts)


def nothing_to_answer(asked: Sequence[Question], short: str) -> str:
    """Return why a line answers nothing a run asks."""
    if asked:
        return f"Words do not approve a tool call: /attach {short} and press y or n."
    return f"It asks nothing now: /send {short} TEXT sends it a message."


def way_past(run: Run, to: Destination) -> str:
    """Return how words are said all the same that an open question does not take, "" where it does."""
    asked = next((each for each in run.inbox.open_questions if each.id == to.question), None)
    if asked is None or asked.kind != "question" or chosen(asked, to.text) is not None:
        return ""
    return "/interrupt TEXT sends a new instruction instead."


def receipt_words(receipt: Receipt) -> str:
    """Return what becomes of a line, as a run took it."""
    if receipt.reason:
        return receipt.reason
    return f"your line {DELIVERED.get(receipt.handling, 'is delivered when it goes on')}"


def why_not(machine: Machine, receipt: Receipt) -> str:
    """Return why a run took no words."""
    return receipt.reason or f"Run {machine.run.id} accepted no input."


def run_line(run: Run) -> str:
    """Return where a run stands, on one line. A chat has no states for a person."""
    return f"{run.id}  {_standing(run)}"


def listed_line(run: Run) -> str:
    """Return where a run stands, among others: one nobody named is known by the words it began with."""
    said = (message for each in run.contexts.values() for message in each if run.is_chat)
    first = next((message.text for message in said if message.author == USER), text_of(run.input))
    return f"{run.id}  {_standing(run, '' if run.name else begun_with(first))}"


def begun_with(first: str) -> str:
    """Return the words a run began with, in a few words, as they stand behind its role or workflow."""
    words = clipped(one_line(first), _FIRST)
    return f" ({words})" if words else ""


def here_line(run: Run, *, was_cut: bool = False) -> str:
    """Return where lines go now; the id is for workflows alone. `was_cut`: work of it was, by a crash."""
    if run.is_chat:
        name = _named(run).removeprefix("role:")
        if was_cut and run.visit.phase == "held":
            return f"{name} was cut off by a crash and waits for your words. Enter resumes."
        if was_cut:
            return f"{name} was cut off by a crash: {summary_words(run, now=time.time())}"
        return f"Chat with {name}: {summary_words(run, now=time.time())}"
    return f"Run {run_line(run)}"


def _standing(run: Run, begun: str = "") -> str:
    return f"{_named(run, begun)}: {summary_words(run, now=time.time())}"


def _named(run: Run, begun: str = "") -> str:
    state = f" [{run.visit.state}]" if run.visit.state and not (run.is_over or run.is_chat) else ""
    called = f" “{run.name}”" if run.name else begun
    return f"{run.workflow_name or '?'}{called}{state}"

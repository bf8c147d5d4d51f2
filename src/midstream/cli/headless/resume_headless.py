"""Going on with a run that was left or cut off, without a person at the keyboard."""

from collections.abc import Sequence

from midstream.cli.headless.run_headless import ANSWER, Asking, Given, is_wanted
from midstream.core.branch_address import branch_at
from midstream.core.question import Decision, Question
from midstream.core.run import Run
from midstream.runtime.ports import Machine
from midstream.safety.capability import SHOWN, quoted
from midstream.safety.rules import capability_of, covers, is_told_by_name


async def go_on(machine: Machine, given: Given, asking: Asking) -> Run:
    """Return a run taken up once it has ended, or waits for what was not given beforehand.

    A run that was suspended goes on: it was asked for by name. Tool calls wait for approval as they
    did where it began; those that are allowed now, by what they do or by the tool's name, are granted.
    """
    if machine.run.suspended:
        await machine.unsuspend()
    answers = list(given.answers)
    is_at_rest = False
    while not (machine.run.is_over or machine.is_closed):
        run = machine.run
        approval = next(
            (q for q in run.inbox.open_questions if _is_allowed(run, q, given.allowed)), None
        )
        asked = next((q for q in run.inbox.open_questions if is_wanted(run, q)), None)
        if approval is not None:
            await machine.approve(approval.id, Decision(granted=True, for_run=True))
        elif asked is not None and answers:
            await machine.say(answers.pop(0), question=asked.id, source=ANSWER)
        elif is_at_rest:
            return run
        else:
            is_at_rest = await asking.or_rest(machine)
            continue
        is_at_rest = False
    return await machine.settled()


def unapproved(run: Run) -> str | None:
    """Return what a run that waits for an approval is told to be missing, None if it does not."""
    if run.is_over:
        return None
    tools: dict[str, None] = {}
    needed: dict[str, None] = {}
    for question in run.inbox.open_questions:
        if name := _tool_of(run, question):
            tools[name] = None
            needed |= dict.fromkeys(_asked(question) or (name,))
    if not tools:
        return None
    names = " and ".join(tools)
    allowing = " ".join(f"--allow {quoted((each,))}" for each in needed)
    return (
        f"Run {run.id} waits for your approval of {names}. Decide in the console "
        f"(midstream, then /resume), or let it run: midstream resume {run.id} {allowing}"
    )


def _asked(question: Question) -> list[str]:
    return [ask for ask in question.asks if not ask.startswith(SHOWN)]


def _is_allowed(run: Run, question: Question, allowed: Sequence[str]) -> bool:
    """Return whether an approval is asked for that was given beforehand."""
    name = _tool_of(run, question)
    if not name:
        return False
    return all(
        _covers(allowed, ask) or (name in allowed and is_told_by_name(ask))
        for ask in _asked(question) or (name,)
    )


def _covers(allowed: Sequence[str], ask: str) -> bool:
    capability = capability_of(ask)
    return ask in allowed if capability is None else covers(allowed, capability)


def _tool_of(run: Run, question: Question) -> str:
    """Return the tool a question asks to approve, "" for any other question."""
    asking = branch_at(run, question.branch)
    if question.kind != "approval" or asking is None or asking.visit.turn is None:
        return ""
    calls = (each.call for each in asking.visit.turn.calls if each.call.id == question.call_id)
    return next((call.name for call in calls), "")

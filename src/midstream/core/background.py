"""Commands that go on after the call that began them, as far as the journal knows of them. Pure.

They end with the process that runs their run. So what a run has of them is what its calls said: one began
with a call, and ended where a later call says so. Another process that goes on with the run starts none
of them again; its agents, and the person, are told that how they ended is not known.
"""

import re
from typing import Final

import msgspec

from midstream.core.call_notes import COMMAND, without_change
from midstream.core.routing import living
from midstream.core.run import BackgroundCommand, OpenCall, Run

TERMINAL: Final = "execute_terminal"
TASKS: Final = "tasks"
"""The tools that begin such commands, and that tell of them."""

RUNS: Final = "runs in the background"
ENDED: Final = "ended"

_ENDED: Final = re.compile(rf"^(task-\d+) {ENDED}\b", re.MULTILINE)
_MAX_CHARS: Final = 200


def handle_of(call_id: str) -> str:
    """Return what the command of a call is called by, unique in the run."""
    return f"task-{call_id.rpartition('_')[2]}"


def after_call(
    known: tuple[BackgroundCommand, ...], call: OpenCall, agent: str, result: str
) -> tuple[BackgroundCommand, ...]:
    """Return the commands after a call that was completed: what it began, or says has ended."""
    told = without_change(result).partition("\n\n")[0]
    if call.call.name == TASKS:
        ended = set(_ENDED.findall(told))
        return tuple(each for each in known if each.handle not in ended) if ended else known
    handle = handle_of(call.call.id)
    if call.call.name != TERMINAL or not told.startswith(f"{handle} {RUNS}"):
        return known
    line = " ".join(str(call.arguments.get(COMMAND, "")).split())[:_MAX_CHARS]
    return (*known, BackgroundCommand(handle=handle, line=line, agent=agent))


def with_all_lost(known: tuple[BackgroundCommand, ...]) -> tuple[BackgroundCommand, ...]:
    """Return the commands after another process went on: those that ran are lost, older ones forgotten."""
    return tuple(msgspec.structs.replace(each, is_lost=True) for each in known if not each.is_lost)


def lost_commands(run: Run) -> tuple[BackgroundCommand, ...]:
    """Return the commands of a run, and of its branches, that another process ran."""
    return tuple(each for inner in (run, *living(run)) for each in inner.background if each.is_lost)


def lost_words(lost: tuple[BackgroundCommand, ...]) -> str:
    """Return what is told of commands that another process ran."""
    named = "; ".join(f"{each.handle} ({each.line})" for each in lost)
    return (
        f"Not this run's any more, and how it ended is not known: {named}. What runs in the background "
        "ends with the process that runs it, however that ends. None was started again."
    )

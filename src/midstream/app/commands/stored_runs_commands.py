"""Commands about runs wherever they live: here, in other processes, or kept where they stand."""

from typing import cast

from midstream.app.commands.command import Command
from midstream.language.errors import UserMistake
from midstream.language.nearest import did_you_mean
from midstream.runtime.ports import Choice, Operator

CHOICES = ("old", "new", "stop")


async def _runs(operator: Operator, argument: str) -> None:
    lines = await operator.runs.lines()
    operator.tell("\n".join(lines) or "Nothing has run yet.")


async def _resume(operator: Operator, argument: str) -> None:
    run, _, choice = argument.partition(" ")
    if run in CHOICES and not choice:
        run, choice = "", run
    choice = choice.strip().casefold()
    if choice and choice not in CHOICES:
        # A name may be of several words, with a choice behind it.
        name, _, last = argument.rpartition(" ")
        for called, behind in ((argument, ""), (name, last.casefold())):
            if behind in ("", *CHOICES) and await operator.sessions.is_name(called):
                await operator.runs.resume(called, cast(Choice, behind))
                return
        hint = did_you_mean(choice, CHOICES)
        raise UserMistake(f"{choice!r} is not old, new or stop.", hint=hint)
    await operator.runs.resume(run, cast(Choice, choice))


async def _attach(operator: Operator, argument: str) -> None:
    if not argument:
        raise UserMistake("Which run?", hint="/attach RUN; /runs lists them.")
    await operator.runs.attach(argument)


async def _detach(operator: Operator, argument: str) -> None:
    await operator.runs.detach()


async def _send(operator: Operator, argument: str) -> None:
    run, _, text = argument.partition(" ")
    if not text.strip():
        raise UserMistake("The run and the text are missing.", hint="/send RUN TEXT")
    await operator.runs.send(run, text.strip())


async def _answer(operator: Operator, argument: str) -> None:
    run, _, text = argument.partition(" ")
    if run.startswith("#"):
        run, text = "", argument
    if not text.strip():
        raise UserMistake("What is the answer?", hint="/answer RUN TEXT, or /answer #2 TEXT here.")
    await operator.runs.answer(run, text.strip())


def _names(operator: Operator) -> list[tuple[str, str]]:
    return operator.runs.names()


def _choices(_operator: Operator, before: str) -> list[tuple[str, str]]:
    if " " in before or before in CHOICES:
        return []
    words = ("its workflow as it was", "its workflow as it is now", "end it")
    return list(zip(CHOICES, words, strict=True))


KEPT_COMMANDS = (
    Command(name="runs", summary="list the runs of this workspace", action=_runs),
    Command(
        name="resume",
        arguments="[RUN] [old | new | stop]",
        summary="go on with a run that was left or cut off",
        action=_resume,
        complete=_names,
        then=_choices,
    ),
    Command(
        name="attach",
        arguments="RUN",
        summary="send your lines to a run, also to one in another process",
        action=_attach,
        complete=_names,
    ),
    Command(
        name="detach",
        summary="send your lines to the chat again; the run goes on",
        action=_detach,
    ),
    Command(
        name="send",
        arguments="RUN TEXT",
        summary="send a message to any run",
        action=_send,
        complete=_names,
    ),
    Command(
        name="answer",
        arguments="RUN TEXT",
        summary="answer a run's question without attaching to it",
        action=_answer,
        complete=_names,
    ),
)

"""Commands about runs wherever they live: here, in other processes, or kept where they stand."""

from typing import cast

from midstream.app.commands.command import Command
from midstream.app.session import Session
from midstream.language.errors import UserMistake, did_you_mean
from midstream.runtime.storage import Choice

CHOICES = ("old", "new", "stop")


async def _runs(session: Session, argument: str) -> None:
    lines = await session.background.lines()
    session.ui.say("\n".join(lines) or "Nothing has run yet.")


async def _resume(session: Session, argument: str) -> None:
    run, _, choice = argument.partition(" ")
    if run in CHOICES and not choice:
        run, choice = "", run
    choice = choice.strip().casefold()
    if choice and choice not in CHOICES:
        # A name may be of several words, with a choice behind it.
        name, _, last = argument.rpartition(" ")
        for called, behind in ((argument, ""), (name, last.casefold())):
            if behind in ("", *CHOICES) and await session.chats.is_name(called):
                await session.background.resume(called, cast(Choice, behind))
                return
        hint = did_you_mean(choice, CHOICES)
        raise UserMistake(f"{choice!r} is not old, new or stop.", hint=hint)
    await session.background.resume(run, cast(Choice, choice))


async def _attach(session: Session, argument: str) -> None:
    if not argument:
        raise UserMistake("Which run?", hint="/attach RUN; /runs lists them.")
    await session.background.attach(argument)


async def _detach(session: Session, argument: str) -> None:
    await session.background.detach()


async def _send(session: Session, argument: str) -> None:
    run, _, text = argument.partition(" ")
    if not text.strip():
        raise UserMistake("The run and the text are missing.", hint="/send RUN TEXT")
    await session.background.send(run, text.strip())


async def _answer(session: Session, argument: str) -> None:
    run, _, text = argument.partition(" ")
    if run.startswith("#"):
        run, text = "", argument
    if not text.strip():
        raise UserMistake("What is the answer?", hint="/answer RUN TEXT, or /answer #2 TEXT here.")
    await session.background.answer(run, text.strip())


def _names(session: Session) -> list[tuple[str, str]]:
    return session.background.names()


def _choices(_session: Session, before: str) -> list[tuple[str, str]]:
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

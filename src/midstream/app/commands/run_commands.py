"""Commands about runs and chats: words with a policy, the list of them, going on with one, their names."""

from functools import partial
from typing import cast

from midstream.app.agents_file_draft import write_agents_file
from midstream.app.commands.command import command
from midstream.app.session import Session
from midstream.app.worker_lines import worker_lines, workers_of
from midstream.config.agents_file import guidance_here, memory_file, remember
from midstream.config.private_files import shown_path
from midstream.core.background import lost_commands
from midstream.core.todo import USAGE
from midstream.language.errors import UserMistake, did_you_mean
from midstream.language.names import Policy
from midstream.runtime.storage import Choice
from midstream.system.offloop import in_thread
from midstream.views.run_status import is_at_work
from midstream.views.todo_list import shown_items, todo_lines


@command("queue", "deliver TEXT when the current state is done", arguments="TEXT")
async def _queue(session: Session, argument: str) -> None:
    await _say(session, argument, "queue")


@command("steer", "add TEXT to the running turn's next model request", arguments="TEXT")
async def _steer(session: Session, argument: str) -> None:
    await _say(session, argument, "steer")


@command("interrupt", "interrupt at once with TEXT, whatever the state's policy", arguments="TEXT")
async def _interrupt(session: Session, argument: str) -> None:
    await _say(session, argument, "interrupt")


async def _say(session: Session, words: str, policy: Policy) -> None:
    if not words:
        raise UserMistake("The text is missing.", hint=f"/{policy} TEXT")
    await session.input.say(words, policy)


@command(
    "btw",
    "ask beside the conversation, which hears nothing of it; alone: take it over",
    arguments="[QUESTION]",
)
async def _btw(session: Session, argument: str) -> None:
    if argument:
        await session.side_questions.ask(argument)
    else:
        session.side_questions.take_over()


@command("stop", "stop the current turn and hold (Esc)")
async def _stop(session: Session, argument: str) -> None:
    machine = session.active()
    if machine is not None and is_at_work(machine.run):
        await machine.halt()
    elif not session.side_questions.stop():
        runs = session.runs
        behind = [m for m in runs.own() if m is not machine and is_at_work(m.run)]
        if behind:
            raise UserMistake(
                f"Nothing is running in front; {', '.join(map(runs.named, behind))} goes on behind.",
                hint=f"/attach {runs.short(behind[0].run.id)} turns to it.",
            )
        raise UserMistake(
            "Nothing is running.", hint="/runs lists earlier runs and those in other processes."
        )


CHOICES = ("old", "new", "stop")


@command("workers", "list the workers of a journal that machines share, and their runs")
async def _workers(session: Session, argument: str) -> None:
    engine = session.parts.engine
    found = await workers_of(engine.store)
    session.ui.say("\n".join(worker_lines(found, now=engine.world.clock.now())))


@command("runs", "list the runs of this workspace")
async def _runs(session: Session, argument: str) -> None:
    lines = await session.background.lines()
    session.ui.say("\n".join(lines) or "Nothing has run yet.")


def _names(session: Session) -> list[tuple[str, str]]:
    return session.background.names()


def _choices(_session: Session, before: str) -> list[tuple[str, str]]:
    if " " in before or before in CHOICES:
        return []
    words = ("its workflow as it was", "its workflow as it is now", "end it")
    return list(zip(CHOICES, words, strict=True))


@command(
    "resume",
    "go on with a run that was left or cut off",
    arguments="[RUN] [old | new | stop]",
    complete=_names,
    then=_choices,
)
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


@command(
    "attach",
    "send your lines to a run, also to one in another process",
    arguments="RUN",
    complete=_names,
)
async def _attach(session: Session, argument: str) -> None:
    if not argument:
        raise UserMistake("Which run?", hint="/attach RUN; /runs lists them.")
    await session.background.attach(argument)


@command("detach", "send your lines to the chat again; the run goes on")
async def _detach(session: Session, argument: str) -> None:
    await session.background.detach()


@command("send", "send a message to any run", arguments="RUN TEXT", complete=_names)
async def _send(session: Session, argument: str) -> None:
    run, _, text = argument.partition(" ")
    if not text.strip():
        raise UserMistake("The run and the text are missing.", hint="/send RUN TEXT")
    await session.background.send(run, text.strip())


@command(
    "answer",
    "answer a run's question without attaching to it",
    arguments="RUN TEXT",
    complete=_names,
)
async def _answer(session: Session, argument: str) -> None:
    run, _, text = argument.partition(" ")
    if run.startswith("#"):
        run, text = "", argument
    if not text.strip():
        raise UserMistake("What is the answer?", hint="/answer RUN TEXT, or /answer #2 TEXT here.")
    await session.background.answer(run, text.strip())


@command(
    "sessions",
    "list the chats of this folder, or go on with one",
    arguments="[NUMBER | NAME]",
    complete=lambda session: session.chats.names(),
)
async def _sessions(session: Session, argument: str) -> None:
    if argument:
        await session.chats.go(argument)
    else:
        session.ui.say("\n".join(await session.chats.lines()))


@command("rename", "give this chat or run a name", arguments="[NAME | -]")
async def _rename(session: Session, argument: str) -> None:
    await session.chats.rename(argument)


@command(
    "todo",
    "show the todo list of the run, or change it",
    arguments="[add WORDS | done N | drop N]",
    complete=lambda _session: [
        ("add", "put words at its end"),
        ("done", "an item is done"),
        ("drop", "an item goes"),
    ],
)
async def _todo(session: Session, argument: str) -> None:
    machine = session.active()
    if machine is None or machine.run.definition is None:
        raise UserMistake("Nothing has been said yet.", hint="A run has a list once it has begun.")
    if argument:
        await machine.edit_todo(argument)
        return
    items = shown_items(machine.run)
    lines = todo_lines(items) or ["The todo list is empty."]
    session.ui.say("\n".join((*lines, f"Change it with {USAGE}")))


@command(
    "tasks",
    "list the run's commands in the background, or stop one",
    arguments="[stop N]",
    complete=lambda _session: [("stop", "end one with all it started")],
)
async def _tasks(session: Session, argument: str) -> None:
    machine = session.active()
    commands = () if machine is None else machine.commands()
    word, _, number = argument.partition(" ")
    if word == "stop" and machine is not None:
        handle = number.strip()
        machine.stop_command(f"task-{handle}" if handle.isdecimal() else handle)
        return
    if argument:
        raise UserMistake(
            f"/tasks takes stop N or nothing, not {argument!r}.", hint="/tasks stop 3"
        )
    lines = [
        f"{each.handle}  {'runs' if each.ended is None else each.how}  {each.line}"
        for each in commands
    ]
    lost = () if machine is None else lost_commands(machine.run)
    lines += [f"{each.handle}  how it ended is not known  {each.line}" for each in lost]
    session.ui.say("\n".join(lines) or "No command runs in the background.")


@command(
    "compact",
    "replace older turns by a summary; the journal keeps them",
    arguments="[WHAT TO KEEP IN MIND]",
)
async def _compact(session: Session, argument: str) -> None:
    await session.chats.compact(argument)


@command("init", "have an AGENTS.md written for this folder", arguments="[WHAT MATTERS]")
async def _init(session: Session, argument: str) -> None:
    await write_agents_file(session, argument)


@command(
    "remember",
    "have new chats in this folder told something; alone: show what is remembered",
    arguments="[WORDS]",
)
async def _remember(session: Session, argument: str) -> None:
    config = session.config
    if not argument:
        path = memory_file(config)
        known = await in_thread(partial(guidance_here, config))
        words = next((each.text for each in known if each.source == "memory"), "")
        words = words or "Nothing is remembered for this folder: /remember WORDS keeps some."
        session.ui.say(f"{words}\n\n{shown_path(path)}")
        return
    path = await in_thread(partial(remember, config, argument))
    session.ui.say(
        f"Remembered for this folder: new chats are told. Change it in {shown_path(path)}"
    )

"""Commands that work without a console: run, chat, resume. Output on stdout, progress on stderr."""

import asyncio
import json
import signal
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import click
import msgspec

from midstream.app.assembly import Options, Parts, placement_here, trusted
from midstream.cli.options import COMMON, JOURNALED, read_if_dash, takes, workflow_named
from midstream.cli.output import FAILED, FINISHED, PARKED, note
from midstream.cli.output import answer as tell
from midstream.config.manager import ConfigManager
from midstream.config.private_files import read_capped, shown_path
from midstream.core import events as e
from midstream.core.costs import counted
from midstream.core.notices import Envelope, JournalStalled
from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.language.names import Json
from midstream.system.offloop import call_soon, in_thread
from midstream.system.own_process import (
    HANGUPS,
    STDERR,
    OutputLost,
    complain,
    run_until_signalled,
    write_out,
)

if TYPE_CHECKING:
    from midstream.core.run import Run
    from midstream.runtime.storage import Placement
    from midstream.tui.jsonlines import JsonUI
    from midstream.tui.plain_lines import PlainUI


Work: TypeAlias = "Callable[[Parts], Awaitable[Run]]"
"""Does one headless piece of work."""


@click.command("run")
@click.argument("name", metavar="WORKFLOW")
@click.argument("input", required=False)
@click.option("--answer", multiple=True, metavar="TEXT", help="Answers, in the order asked.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@click.option("--detach", is_flag=True, help="Begin it, print its id, and leave it to workers.")
@click.option("--queue", metavar="NAME", help="Leave it to the workers that serve this queue.")
@click.option(
    "--repository",
    metavar="URL[@REF]",
    help="Leave it to workers on any machine, with the files of this commit; `.` is the HEAD here.",
)
@click.option("--push", metavar="BRANCH", help="Push what it has made to this branch at its end.")
@takes(*JOURNALED)
def run(
    options: Options,
    name: str,
    input: str | None,
    answer: tuple[str, ...],
    settings: tuple[str, ...],
    detach: bool,
    queue: str | None,
    repository: str | None,
    push: str | None,
) -> int:
    """Run a workflow without a console: its output on stdout, progress on stderr.

    WORKFLOW is a name, or FILE.py:NAME for one written in Python. The input `-` is read from stdin; one
    that is a /command you wrote is what that sends.
    """
    from midstream.app.headless import Given, hand_over_named, play, written

    given = Given(answers=answer, allowed=options.allowed)
    is_detached = detach or queue is not None or repository is not None
    if is_detached:
        _refuse_beside_detach(options, answer)
    if push is not None and repository is None:
        raise UserMistake(
            "--push is for a run of a repository.", hint="Name it: --repository URL, or ."
        )
    text = read_if_dash(input or "")
    said, workflow = (text if text.strip() else None), workflow_named(name)

    async def input_of(made: Parts) -> str | None:
        found = await written(made, said, given) if said and input != "-" else None
        return said if found is None else found[0]

    async def work(made: Parts) -> "Run":
        parts = (made.engine, made.library, workflow, given)
        return await play(*parts, input=await input_of(made), settings=settings)

    async def begin(made: Parts, place: "Placement", id: str | None) -> str:
        begun = (made, workflow, given, place)
        said = await input_of(made)
        return await hand_over_named(*begun, input=said, settings=settings, id=id)

    if repository is not None:
        return _detached_elsewhere(options, begin, repository, placement_here(queue), push or "")
    if is_detached:
        return _detached(options, lambda made: begin(made, placement_here(queue), None))
    return _headless(options, work)


def _refuse_beside_detach(options: Options, answers: Sequence[str]) -> None:
    """Refuse what is for a run that is watched, and what workers go by settings of their own in."""
    own = {"--model": options.model, "--permission-mode": options.permission_mode}
    for name in (name for name, value in own.items() if value is not None):
        raise UserMistake(
            f"{name} cannot be combined with --detach or --queue.",
            hint="The settings of the worker's machine count: set it there, with midstream config set.",
        )
    if answers or options.journal == "none":
        what = "--answer" if answers else "--no-journal"
        raise UserMistake(
            f"{what} cannot be combined with --detach or --queue.",
            hint="A run that workers go on with is answered with midstream send RUN TEXT."
            if answers
            else "Workers find their runs in the journal.",
        )


def _detached_elsewhere(
    options: Options,
    begin: "Callable[[Parts, Placement, str | None], Awaitable[str]]",
    repository: str,
    placement: "Placement",
    push: str,
) -> int:
    """Begin a run of a repository, with that commit's own workflows, and leave it to workers."""
    from midstream.app.commit_folder import CommitFolder

    placement = msgspec.structs.replace(placement, push=push)
    folder = CommitFolder(repository, options, placement)
    if folder.source.left_out:
        left_out = counted(folder.source.left_out, "file")
        at = folder.source.commit[:12]
        note(f"It begins with the commit {at}: {left_out} changed here since, left out.")

    async def there(made: Parts) -> str:
        folder.place_in(made)
        return await begin(made, folder.placement, folder.id)

    try:
        return _detached(folder.open(), there)
    finally:
        folder.remove()


def _detached(options: Options, begin: Callable[[Parts], Awaitable[str]]) -> int:
    """Begin a run and leave it to workers; its id on stdout.

    No model is asked here: the keys are the workers', and what is missing here says nothing of theirs.
    """
    from midstream.app.headless import loaded

    options = msgspec.structs.replace(options, journal="needed", model="offline")
    config = trusted(options)

    async def work() -> str:
        async with loaded(config, options) as made:
            note(*config.notices, *made.notices)
            return await begin(made)

    id = run_until_signalled(work(), signals=(signal.SIGINT, *HANGUPS))
    tell(options, {"type": "detached", "run": id}, id)
    return FINISHED


@click.command("chat")
@click.argument("prompt")
@click.option("--role", default="dude", show_default=True, help="The role to chat with.")
@click.option("--answer", multiple=True, metavar="TEXT", help="Answers, in the order asked.")
@click.option(
    "--output-schema",
    metavar="FILE",
    help="Reply with JSON that fits the schema in FILE (-: stdin), on one line.",
)
@takes(*JOURNALED)
def chat(
    options: Options, prompt: str, role: str, answer: tuple[str, ...], output_schema: str | None
) -> int:
    """Say one thing to a role and print the reply.

    `-` reads it from stdin. /NAME WORDS is a command you wrote: what it sends is said.
    """
    from midstream.app.headless import Given, chat_once, chat_words

    schema = None if output_schema is None else _schema(output_schema, prompt)

    # What is piped in may be anybody's words: it runs no command.
    is_typed, prompt = prompt != "-", read_if_dash(prompt)
    if not prompt.strip():
        raise UserMistake("The text is missing.", hint='Write midstream chat "YOUR WORDS".')
    given = Given(answers=answer, allowed=options.allowed)

    async def work(made: Parts) -> "Run":
        words, own = await chat_words(made, prompt, given) if is_typed else (prompt, "")
        return await chat_once(
            *(made.engine, made.library, made.tools, words, given), role=own or role, schema=schema
        )

    return _headless(options, work, is_json_line=schema is not None)


def _schema(named: str, prompt: str) -> dict[str, Json]:
    """Return the JSON Schema that is named on the command line: a file, stdin, or the schema itself."""
    from midstream.app.headless import schema_in

    if named == "-" and prompt == "-":
        raise UserMistake(
            "Both the text and --output-schema would be read from stdin.",
            hint="Put the schema into a file.",
        )
    if named == "-":
        return schema_in(read_if_dash(named), "stdin")
    if named.lstrip().startswith("{"):
        return schema_in(named, "--output-schema")
    path = Path(named)
    try:
        return schema_in(read_capped(path).decode("utf-8-sig"), shown_path(path))
    except UnicodeDecodeError as error:
        raise UserMistake(
            f"{shown_path(path)} is not UTF-8 text.", hint="Save it as UTF-8."
        ) from error


@click.command("resume")
@click.argument("run", metavar="RUN")
@click.option(
    "--old", "choice", flag_value="old", help="Use the copy of the workflow kept with the run."
)
@click.option("--new", "choice", flag_value="new", help="Use the workflow as it is now.")
@click.option("--answer", multiple=True, metavar="TEXT", help="Answers, in the order asked.")
@takes(*COMMON)
def resume(
    options: Options, run: str, choice: Literal["old", "new"] | None, answer: tuple[str, ...]
) -> int:
    """Go on with a run that is not running: its output on stdout, progress on stderr."""
    from midstream.app.headless import Given, go_on
    from midstream.runtime.engine.open_run import found
    from midstream.runtime.engine.resume import mail_taken, take_up
    from midstream.views.run_status import silent_words

    given = Given(answers=answer, allowed=options.allowed)

    async def work(made: Parts) -> "Run":
        kept = await found(made.store, run)
        silent = partial(complain, silent_words(kept.id))
        machine = await take_up(
            made.engine, made.library, kept.id, choice=choice or "ask", silent=silent
        )
        await mail_taken(machine, made.store)
        if machine.run.suspended:  # it was asked for by name
            await machine.unsuspend()
        return await go_on(machine, given)

    return _headless(options, work)


def _headless(options: Options, work: Work, *, is_json_line: bool = False) -> int:
    """Do one piece of work: its output on stdout, its progress on stderr; return the exit code.

    With `--json` the events stand on stdout instead, one a line. `is_json_line`: the output is JSON on
    one line whatever it is.
    """
    config = trusted(options)
    if options.journal == "wanted":
        options = msgspec.structs.replace(options, journal="needed")
    run = run_until_signalled(_worked(config, options, work), signals=(signal.SIGINT, *HANGUPS))
    code, output = _result_of(run)
    is_plan = code == PARKED and output is not None and not is_json_line
    is_result = code == FINISHED and (output is not None or is_json_line)
    if (is_plan or is_result) and not options.is_json:
        text = output if isinstance(output, str) else ""
        if is_json_line or not isinstance(output, str):
            indent = None if is_json_line else 2
            text = json.dumps(output, indent=indent, ensure_ascii=is_json_line)
        write_out(f"{text}\n", is_exact=True)
    return code


def _result_of(run: "Run") -> tuple[int, Json]:
    """Return the exit code of a run, and its output.

    A chat's output is its last reply: the arguments of its parsing tool where its role has one. A plan
    that was proposed is what its run came to so far.
    """
    from midstream.app.headless import open_plan

    if run.is_over:
        return (FINISHED, run.output) if run.status == "finished" else (FAILED, None)
    if run.visit.phase != "waiting" or not run.visit.state:
        return PARKED, open_plan(run)
    if run.error or run.visit.last_response is None:
        return FAILED, None
    response = run.visit.last_response
    if run.plan.states[run.visit.state].output_schema is not None:
        return FINISHED, response.value
    return FINISHED, response.calls[-1].arguments if response.calls else response.text


async def _worked(config: ConfigManager, options: Options, work: Work) -> "Run":
    """Return the run as it stood when nothing more could be done for it, everything closed."""
    from midstream.app.commands.permission_commands import without_sandbox
    from midstream.app.headless import loaded, unanswered, unapproved
    from midstream.tui.jsonlines import line_ui
    from midstream.tui.stdio_capture import capture_stdio

    ui = line_ui(STDERR, is_json=options.is_json)
    told: set[str] = set()
    made: Parts | None = None

    def say_notices(notices: Sequence[str]) -> None:
        """Say the notices not said before: reading workflows and roles brings more."""
        for notice in notices:
            if notice not in told:
                told.add(notice)
                ui.say(notice, kind="note")

    try:
        with capture_stdio(ui):
            async with loaded(config, options) as made:
                say_notices((*config.notices, *made.notices))
                if made.permissions.mode == "auto":
                    await in_thread(partial(made.sandbox.unfit, options.workspace))
                    say_notices(list(filter(None, [without_sandbox(made.permissions)])))
                made.engine.listen(
                    partial(_on_event, made, ui, lambda: say_notices(config.notices))
                )
                try:
                    run = await _shown(made, work, ui, options)
                finally:
                    say_notices(config.notices)
                if (words := unanswered(run) or unapproved(run)) is not None:
                    ui.say(words, kind="error")
    finally:
        ui.left()
        if made is not None and made.store.is_lasting:
            for words in filter(None, (_left_words(each.run) for each in made.engine.machines())):
                ui.say(words, kind="note")
        await ui.close()
    if options.is_json and ui.lost is not None:
        raise OutputLost(ui.lost)
    return run


def _on_event(
    made: Parts, ui: "JsonUI | PlainUI", say_notices: Callable[[], None], envelope: Envelope
) -> None:
    if isinstance(envelope.event, e.RunStarted):
        say_notices()
    elif isinstance(envelope.event, e.RunRecovered):
        taken_up = made.engine.machine(envelope.run)
        if taken_up is not None:
            ui.recall(taken_up.run)


async def _shown(made: Parts, work: Work, ui: "JsonUI | PlainUI", options: Options) -> "Run":
    """Return the run of the work, its events shown. It ends when nobody can read them any more.

    Raises:
        OutputLost: stdout takes no more events.
        WorldTrouble: the journal was lost meanwhile; the runs are in files of their own.
    """
    from midstream.tui.jsonlines import JsonUI
    from midstream.tui.plain_lines import PlainUI

    working = asyncio.ensure_future(work(made))
    lost: list[JournalStalled] = []

    def show(envelope: Envelope) -> None:
        if isinstance(envelope.event, JournalStalled) and envelope.event.is_lost:
            # Nobody is here to put it back, and what goes on now would be kept nowhere.
            lost.append(envelope.event)
            working.cancel()
        if options.is_json:
            ui.show(envelope)
        elif isinstance(ui, PlainUI) and _is_output(made, envelope):
            ui.stands(envelope)
        elif not lost:
            ui.show(envelope)
            if isinstance(envelope.event, e.AnswerRefused):
                ui.say(f"The answer was refused: {envelope.event.reason}", kind="warning")

    if isinstance(ui, JsonUI):
        ui.when_lost(partial(call_soon, asyncio.get_running_loop(), working.cancel))
    made.engine.listen(show)
    try:
        return await working
    except asyncio.CancelledError:
        if lost:
            raise WorldTrouble(lost[0].error, hint=await _rescued(made)) from None
        if options.is_json and ui.lost is not None:
            raise OutputLost(ui.lost) from None
        raise


def _is_output(made: Parts, envelope: Envelope) -> bool:
    """Return whether an event is what stands on stdout by itself: a workflow's result, or what a chat's
    role says at last.
    """
    machine = made.engine.machine(envelope.run)
    is_chat = machine is not None and machine.run.is_chat
    match envelope.event:
        case e.WorkflowOutput(kind="result"):
            return not is_chat
        case e.QuestionAsked(about="plan"):
            return True
        case e.AgentResponded(calls=(), problem="", branch=""):
            return is_chat
    return False


def _left_words(run: "Run") -> str:
    """Return how a run that was left goes on, "" for one that has ended or a chat that only waits."""
    from midstream.views.run_status import way_on

    if run.is_over or run.definition is None or (run.is_chat and run.visit.phase == "waiting"):
        return ""
    return f"Run {run.id} {way_on(run, run.id, resume=f'`midstream resume {run.id}`')}"


async def _rescued(made: Parts) -> str:
    """Write the runs that have not ended to files of their own; return what a person should hear."""
    from midstream.runtime.engine.run_file import exported, write_new

    words = []
    for machine in made.engine.machines():
        path = Path(tempfile.mkdtemp(prefix="midstream-")) / f"{machine.id}.jsonl"
        try:
            file = await exported(made.store, machine.id, made_by="midstream")
            await in_thread(partial(write_new, path, file.lines))
        except MidstreamError as error:
            words.append(f"Run {machine.id} is kept nowhere: {error}")
        else:
            words.append(f"Run {machine.id} is in {path} as far as it went.")
    return " ".join(words)

"""Rehearsals: record one, play one or all, disturb one everywhere. No model is needed to play."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from midstream.app.assembly import Options, configured
from midstream.cli.journal import Journal, with_journal
from midstream.cli.options import COMMON, takes, workflow_named
from midstream.cli.output import FAILED, FINISHED, answer, note, say, say_object
from midstream.config.manager import ConfigManager
from midstream.config.open_settings import require_trust
from midstream.config.private_files import FileMissing, shown_path, write_whole
from midstream.config.trust import TrustStatus, TrustStore
from midstream.core.codec import redacted_fact
from midstream.core.costs import counted
from midstream.core.events import Fact, RunStarted
from midstream.core.notices import Envelope
from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.language.names import Json, python_file
from midstream.system.own_process import HANGUPS, STDERR, own_redactor, run_until_signalled

if TYPE_CHECKING:
    from midstream.core.run import Run
    from midstream.rehearsal.comparison import Difference, Replay
    from midstream.rehearsal.format import Rehearsal
    from midstream.rehearsal.playback import Kind
    from midstream.runtime.workflow_library import WorkflowLibrary


@click.command("rehearse")
@click.argument("target", metavar="FILE|WORKFLOW", required=False)
@click.argument("input", required=False)
@click.option(
    "--record",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Run WORKFLOW for real, and write its rehearsal to this file.",
)
@click.option(
    "--from",
    "run",
    metavar="RUN",
    help="With --record: write the rehearsal of this kept run instead.",
)
@click.option("--answer", multiple=True, metavar="TEXT", help="Answers, in the order asked.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@click.option("--accept", is_flag=True, help="Update the file where the result differs.")
@click.option("--interrupt-everywhere", is_flag=True, help="Interrupt it at every point.")
@click.option("--kill-everywhere", is_flag=True, help="Kill its process at every point.")
@click.option(
    "--pairs",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="With either: also N random pairs of disturbances.",
)
@click.option("--point", metavar="POINT", help="Disturb it at one point, such as kill:17.")
@takes(*COMMON)
def rehearse(
    options: Options,
    target: str | None,
    input: str | None,
    file: Path | None,
    run: str | None,
    answer: tuple[str, ...],
    settings: tuple[str, ...],
    accept: bool,
    interrupt_everywhere: bool,
    kill_everywhere: bool,
    pairs: int,
    point: str | None,
) -> int:
    """Play a rehearsal against the workflow of today, or record one. No model is asked."""
    disturbs = interrupt_everywhere or kill_everywhere or point is not None
    if (file is None or run is not None) and (answer or settings or input is not None):
        raise click.UsageError("An input, --answer and --set go with WORKFLOW --record FILE.")
    if (file is not None) + accept + disturbs > 1:
        raise click.UsageError("--record, --accept and the disturbances exclude each other.")
    if pairs and (point is not None or not disturbs):
        raise click.UsageError("--pairs goes with --interrupt-everywhere or --kill-everywhere.")
    if file is not None and run is not None:
        return _record_kept(options, run, file, name=target)
    if run is not None:
        raise click.UsageError("--from needs --record FILE.")
    if target is None:
        raise click.UsageError("Name a rehearsal's FILE, or a WORKFLOW with --record FILE.")
    if file is not None:
        name = workflow_named(target)
        return _record(options, name, file, input=input, answers=answer, settings=settings)
    if disturbs:
        kinds: list[Kind] = ["interrupt", "aside"] if interrupt_everywhere else []
        kinds += ["kill"] if kill_everywhere else []
        kinds += ["both"] if interrupt_everywhere and kill_everywhere else []
        return _disturb(options, Path(target), kinds, pairs=pairs, point=point)
    return _play(options, Path(target), accept=accept)


# --- recording ----------------------------------------------------------------------------------


def _record(
    options: Options,
    name: str,
    file: Path,
    *,
    input: str | None,
    answers: Sequence[str],
    settings: Sequence[str],
) -> int:
    """Run a workflow for real and write its rehearsal; return the exit code."""
    from midstream.rehearsal.record import from_facts

    config = _trusted(options)
    _refuse_unwritable(file)
    before = TrustStore(config.state_dir).status(config.workspace)
    said = input if input and input.strip() else None
    work = _ran(config, options, name, said, answers, settings)
    facts, words = run_until_signalled(work, signals=(signal.SIGINT, *HANGUPS))
    if words is not None:
        note(words)
    _write(config, before, file, from_facts(_without_secrets(facts)))
    return FINISHED


async def _ran(
    config: ConfigManager,
    options: Options,
    name: str,
    input: Json,
    answers: Sequence[str],
    settings: Sequence[str],
) -> tuple[list[Envelope], str | None]:
    """Return the facts of a run of the workflow, and what is to be said of an answer it lacks."""
    from midstream.app.headless import Given, loaded, play, unanswered
    from midstream.tui.jsonlines import line_ui

    ui = line_ui(STDERR, is_json=options.is_json)
    facts: list[Envelope] = []

    def on_event(envelope: Envelope) -> None:
        ui.show(envelope)
        if envelope.seq is not None:
            facts.append(envelope)

    try:
        async with loaded(config, options) as made:
            for notice in made.notices:
                ui.say(notice, kind="note")
            made.engine.listen(on_event)
            given = Given(answers=tuple(answers), allowed=options.allowed)
            run: Run = await play(
                made.engine, made.library, name, given, input=input, settings=settings
            )
            words = unanswered(run)
    finally:
        await ui.close()
    return facts, words


def _record_kept(options: Options, prefix: str, file: Path, *, name: str | None = None) -> int:
    """Write the rehearsal of a run in the journal; return the exit code.

    Args:
        options: the command line.
        prefix: the first characters of the run's id.
        file: where to write it.
        name: the workflow it must be a run of, None for any.
    """
    from midstream.rehearsal.record import from_facts
    from midstream.runtime.engine.open_run import found
    from midstream.runtime.engine.time_travel import has_foreign_past

    config = configured(options)
    _refuse_unwritable(file)
    before = TrustStore(config.state_dir).status(config.workspace)

    async def facts(journal: Journal) -> tuple[list[Envelope], bool]:
        id = (await found(journal.store, prefix)).id
        return await journal.store.read(id), await has_foreign_past(journal.store, id)

    told, is_foreign = with_journal(options, facts)
    for each in told[:1]:
        if isinstance(each.event, RunStarted) and each.event.definition.kind == "chat":
            raise UserMistake(
                f"Run {prefix} is a chat, and rehearsals are of workflows.",
                hint="midstream runs lists the others.",
            )
    rehearsal = from_facts(_without_secrets(told))
    if name not in (None, rehearsal.workflow):
        raise UserMistake(
            f"Run {prefix} is one of {rehearsal.workflow}, not of {name}.",
            hint="Leave the name out, or name another run.",
        )
    # Nobody here has read what came with an import: it needs a yes like any file of a stranger.
    _write(config, None if is_foreign else before, file, rehearsal)
    return FINISHED


def _without_secrets(told: Iterable[Envelope]) -> list[Envelope]:
    """Return facts as they may be given away: what people typed is in them as they typed it."""
    return [
        msgspec.structs.replace(each, event=redacted_fact(each.event, own_redactor()))
        if isinstance(each.event, Fact)
        else each
        for each in told
    ]


def _refuse_unwritable(file: Path) -> None:
    """Raise before a run is made that could not be written down, or over something else."""
    from midstream.rehearsal.workspace import is_rehearsal

    folder = file.absolute().parent
    if folder.name == "rehearsals":
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
    if not folder.is_dir():
        raise UserMistake(f"There is no folder {shown_path(folder)}.", hint="Make it first.")
    if file.exists() and not is_rehearsal(file):
        raise UserMistake(
            f"{shown_path(file)} is there already, and is no rehearsal.", hint="Name another file."
        )


def _write(
    config: ConfigManager, before: TrustStatus | None, file: Path, rehearsal: "Rehearsal"
) -> None:
    """Write a rehearsal, and keep a workspace trusted that was; `before` None leaves trust alone."""
    from midstream.rehearsal.format import encoded

    data = encoded(rehearsal)
    write_whole(file, data)
    note(f"{shown_path(file)}: {_steps(rehearsal)} of {rehearsal.workflow}.")
    if before is not None:
        try:
            TrustStore(config.state_dir).add_rehearsal(before, file, data)
        except WorldTrouble as trouble:
            note(f"You will be asked to trust the workspace again: {trouble.what}")


# --- playing ------------------------------------------------------------------------------------


def _play(options: Options, file: Path, *, accept: bool) -> int:
    """Play one rehearsal and tell the first difference; return the exit code: 1 if there is one.

    With `accept` the file is written anew as things are now.
    """
    from midstream.rehearsal.record import from_facts
    from midstream.rehearsal.workspace import library_of

    config = _trusted(options)
    before = TrustStore(config.state_dir).status(config.workspace)
    rehearsal, library = _rehearsal_in(file, config), library_of(config)
    began = time.perf_counter()
    played = asyncio.run(_replayed(rehearsal, library, compares=not accept))
    took_s = time.perf_counter() - began
    if accept and played.difference is None:
        _write(config, before, file, from_facts(_without_secrets(played.facts)))
        return FINISHED
    _report(options, file, rehearsal, played.difference, took_s)
    return FINISHED if played.difference is None else FAILED


async def _replayed(
    rehearsal: "Rehearsal", library: "WorkflowLibrary", *, compares: bool = True
) -> "Replay":
    from midstream.rehearsal.comparison import replay
    from midstream.rehearsal.workspace import rehearsed
    from midstream.tools.validation import validate

    definition, handlers = await rehearsed(rehearsal, library)
    return await replay(rehearsal, definition, handlers, validate=validate, compares=compares)


def _disturb(
    options: Options, file: Path, kinds: "Sequence[Kind]", *, pairs: int, point: str | None
) -> int:
    """Disturb a rehearsal everywhere, or at one point; return the exit code: 1 if anything broke.

    So many `pairs` are two disturbances one after the other.

    One that differs undisturbed is not disturbed: what it differs in is told instead.
    """
    from midstream.rehearsal.comparison import Replay, replay
    from midstream.rehearsal.disturb_everywhere import Tried, everywhere, table
    from midstream.rehearsal.playback import point_named
    from midstream.rehearsal.workspace import library_of, rehearsed
    from midstream.tools.validation import validate

    only = None if point is None else point_named(point)
    config = _trusted(options)
    rehearsal, library = _rehearsal_in(file, config), library_of(config)

    async def work() -> tuple[Replay, list[Tried]]:
        definition, handlers = await rehearsed(rehearsal, library)
        undisturbed = await replay(rehearsal, definition, handlers, validate=validate)
        if undisturbed.difference is not None:
            return undisturbed, []
        return undisturbed, await everywhere(
            rehearsal, definition, handlers, kinds=kinds, pairs=pairs, validate=validate, only=only
        )

    undisturbed, tried = asyncio.run(work())
    if undisturbed.difference is not None:
        _report(options, file, rehearsal, undisturbed.difference, 0.0)
        return FAILED
    if options.is_json:
        for each in tried:
            say_object({"point": str(each.point), "broken": each.broken, "end": each.end})
    else:
        say(table(tried))
    return FAILED if any(each.broken for each in tried) else FINISHED


@click.command("test")
@click.argument(
    "folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--all", "everywhere", is_flag=True, help="Include built-in workflows and your own.")
@takes(*COMMON)
def test(options: Options, folder: Path | None, everywhere: bool) -> int:
    """Play all rehearsals of a workspace. No model is asked, no tool is called."""
    from midstream.rehearsal.comparison import Difference
    from midstream.rehearsal.workspace import library_of, rehearsal_in, rehearsals_of

    if folder is not None:
        options = msgspec.structs.replace(options, workspace=folder.resolve())
    config = _trusted(options)
    files = tuple(rehearsals_of(config, everywhere=everywhere))
    if not files:
        raise UserMistake(
            f"No workflow in {shown_path(options.workspace)} has a rehearsal.",
            hint="Record one: midstream rehearse NAME --record "
            ".midstream/workflows/NAME/rehearsals/FILE.json",
        )
    library = library_of(config)

    async def work() -> tuple[int, int]:
        failed = differs = 0
        for file in files:
            began = time.perf_counter()
            rehearsal: Rehearsal | None = None
            found: Difference | MidstreamError | None
            try:
                rehearsal = rehearsal_in(file)
                found = (await _replayed(rehearsal, library)).difference
            except MidstreamError as error:
                found = error
            failed += found is not None
            differs += isinstance(found, Difference)
            _report(options, file, rehearsal, found, time.perf_counter() - began)
        return failed, differs

    failed, differs = asyncio.run(work())
    if not options.is_json:
        say(f"{len(files) - failed} held, {failed} differed." if failed else "All held.")
        if differs:
            say("Is the change wanted? `midstream rehearse FILE --accept` records it.")
    return FAILED if failed else FINISHED


def _rehearsal_in(file: Path, config: ConfigManager) -> "Rehearsal":
    """Return the rehearsal of a file; somebody may well have named a workflow instead."""
    from midstream.rehearsal.workspace import rehearsal_in

    if python_file(str(file)) is None:
        try:
            return rehearsal_in(file)
        except FileMissing:
            if str(file) not in config.workflows():
                raise
    raise UserMistake(
        f"{file} is a workflow, not a rehearsal's file.",
        hint=f"Record one: midstream rehearse {file} --record FILE. midstream test plays all.",
    )


def _trusted(options: Options) -> ConfigManager:
    config = configured(options)
    require_trust(config, is_needed=True)
    return config


def _report(
    options: Options,
    file: Path,
    rehearsal: "Rehearsal | None",
    found: "Difference | MidstreamError | None",
    took_s: float,
) -> None:
    told: dict[str, Any] = {
        "file": str(file),
        "held": found is None,
        "steps": 0 if rehearsal is None else len(rehearsal.steps),
        "ms": round(took_s * 1000, 1),
    }
    if found is not None:
        told["difference"] = str(found)
    head = "held   " if found is None else "DIFFERS"
    answer(
        options,
        told,
        f"{head} {shown_path(file)} ({_steps(rehearsal)}, {took_s * 1000:.0f} ms)",
        *(f"  {line}" for line in told.get("difference", "").splitlines()),
    )


def _steps(rehearsal: "Rehearsal | None") -> str:
    return counted(0 if rehearsal is None else len(rehearsal.steps), "step")

"""Rehearsals from the command line: record one, play one or all, disturb one everywhere."""

import asyncio
import json
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from midstream.app.assembly import Options, configured, opened_store, parts, unknown_tool
from midstream.cli.headless.exit_codes import FAILED, FINISHED
from midstream.config.manager import ConfigManager
from midstream.config.open_settings import require_trust
from midstream.config.private_files import FileMissing, shown_path, write_whole
from midstream.config.trust import TrustStatus, TrustStore
from midstream.core.codec import redacted_fact
from midstream.core.events import Fact, RunStarted
from midstream.core.notices import Envelope
from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.language.names import Json
from midstream.system.offloop import in_thread
from midstream.system.own_process import (
    HANGUPS,
    STDERR,
    own_redactor,
    run_until_signalled,
    write_error,
    write_out,
)

if TYPE_CHECKING:
    from midstream.core.run import Run
    from midstream.rehearsal.comparison import Difference
    from midstream.rehearsal.disturbances import Kind
    from midstream.rehearsal.format import Rehearsal


# --- recording ----------------------------------------------------------------------------------


def record(
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

    config = configured(options)
    require_trust(config)
    _refuse_unwritable(file)
    before = TrustStore(config.state_dir).status(config.workspace)
    said = input if input and input.strip() else None
    work = _ran(config, options, name, said, answers, settings)
    facts, words = run_until_signalled(work, signals=(signal.SIGINT, *HANGUPS))
    if words is not None:
        _complain(words)
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
    from midstream.cli.headless.run_headless import Given, play, unanswered

    made = await in_thread(lambda: parts(config, options))
    from midstream.tui.jsonlines import line_face

    face = line_face(STDERR, is_json=options.is_json)
    facts: list[Envelope] = []

    def hear(envelope: Envelope) -> None:
        face.show(envelope)
        if envelope.seq is not None:
            facts.append(envelope)

    try:
        if (unknown := unknown_tool(options.allowed, made.tools)) is not None:
            raise unknown
        for notice in made.notices:
            face.say(notice, kind="note")
        made.engine.listen(hear)
        given = Given(answers=tuple(answers), allowed=options.allowed)
        run: Run = await play(
            made.engine, made.library, name, given, input=input, settings=settings
        )
        words = unanswered(run)
    finally:
        # Facts of letting go are no part of the rehearsal: it ends where the run stood.
        await made.engine.close()
        await made.client.aclose()
        if made.mcp is not None:
            await made.mcp.close()
        await face.close()
    return facts, words


def record_run(options: Options, prefix: str, file: Path, *, name: str | None = None) -> int:
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

    async def facts() -> tuple[list[Envelope], bool]:
        store = await in_thread(lambda: opened_store(config))
        try:
            id = (await found(store, prefix)).id
            return await store.read(id), await has_foreign_past(store, id)
        finally:
            await store.aclose()

    told, is_foreign = asyncio.run(facts())
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

    if not file.absolute().parent.is_dir():
        raise UserMistake(
            f"There is no folder {shown_path(file.absolute().parent)}.", hint="Make it first."
        )
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
    count = len(rehearsal.steps)
    steps = "1 step" if count == 1 else f"{count} steps"
    _complain(f"{shown_path(file)}: {steps} of {rehearsal.workflow}.")
    if before is not None:
        try:
            TrustStore(config.state_dir).add_rehearsal(before, file, data)
        except WorldTrouble as trouble:
            _complain(f"You will be asked to trust the workspace again: {trouble.what}")


# --- playing ------------------------------------------------------------------------------------


def rehearse(options: Options, file: Path, *, accept: bool = False) -> int:
    """Play one rehearsal and tell the first difference; return the exit code: 1 if there is one.

    With `accept` the file is written anew as things are now.
    """
    from midstream.rehearsal.comparison import Replay, replay
    from midstream.rehearsal.record import from_facts
    from midstream.rehearsal.workspace import library_of
    from midstream.tools.validation import validate

    config = _config(options)
    before = TrustStore(config.state_dir).status(config.workspace)
    rehearsal, library = _rehearsal_in(file, config), library_of(config)

    async def work() -> Replay:
        definition, handlers = await library.load(rehearsal.workflow)
        return await replay(rehearsal, definition, handlers, validate=validate, compares=not accept)

    began = time.perf_counter()
    played = asyncio.run(work())
    took_s = time.perf_counter() - began
    if accept and played.difference is None:
        _write(config, before, file, from_facts(_without_secrets(played.facts)))
        return FINISHED
    _tell(options, file, rehearsal, played.difference, took_s)
    return FINISHED if played.difference is None else FAILED


def disturb(
    options: Options,
    file: Path,
    kinds: "Sequence[Kind]",
    *,
    pairs: int = 0,
    point: str | None = None,
) -> int:
    """Disturb a rehearsal everywhere, or at one point; return the exit code: 1 if anything broke.

    So many `pairs` are two disturbances one after the other.

    One that differs undisturbed is not disturbed: what it differs in is told instead.
    """
    from midstream.rehearsal.comparison import Replay, replay
    from midstream.rehearsal.disturb_everywhere import Tried, everywhere, table
    from midstream.rehearsal.disturbances import point_named
    from midstream.rehearsal.workspace import library_of
    from midstream.tools.validation import validate

    only = None if point is None else point_named(point)
    config = _config(options)
    rehearsal, library = _rehearsal_in(file, config), library_of(config)

    async def work() -> tuple[Replay, list[Tried]]:
        definition, handlers = await library.load(rehearsal.workflow)
        undisturbed = await replay(rehearsal, definition, handlers, validate=validate)
        if undisturbed.difference is not None:
            return undisturbed, []
        return undisturbed, await everywhere(
            rehearsal, definition, handlers, kinds=kinds, pairs=pairs, validate=validate, only=only
        )

    undisturbed, tried = asyncio.run(work())
    if undisturbed.difference is not None:
        _tell(options, file, rehearsal, undisturbed.difference, 0.0)
        return FAILED
    if options.is_json:
        for each in tried:
            told = {"point": str(each.point), "broken": list(each.broken), "end": each.end}
            write_out(f"{json.dumps(told)}\n")
    else:
        _print(table(tried))
    return FAILED if any(each.broken for each in tried) else FINISHED


def rehearse_all(options: Options, *, everywhere: bool) -> int:
    """Play every rehearsal of the workspace; return the exit code: 1 if one differs or is none.

    Args:
        options: the command line.
        everywhere: those of the user's and the built-in workflows too.
    """
    from midstream.rehearsal.comparison import Difference, replay
    from midstream.rehearsal.workspace import library_of, rehearsal_in, rehearsals_of
    from midstream.tools.validation import validate

    config = configured(options)
    require_trust(config)
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
                definition, handlers = await library.load(rehearsal.workflow)
                played = await replay(rehearsal, definition, handlers, validate=validate)
                found = played.difference
            except MidstreamError as error:
                found = error
            failed += found is not None
            differs += isinstance(found, Difference)
            _tell(options, file, rehearsal, found, time.perf_counter() - began)
        return failed, differs

    failed, differs = asyncio.run(work())
    if not options.is_json:
        _print(f"{len(files) - failed} held, {failed} differed." if failed else "All held.")
    if differs and not options.is_json:
        _print("Is the change wanted? `midstream rehearse FILE --accept` records it.")
    return FAILED if failed else FINISHED


def _rehearsal_in(file: Path, config: ConfigManager) -> "Rehearsal":
    """Return the rehearsal of a file; somebody may well have named a workflow instead."""
    from midstream.rehearsal.workspace import rehearsal_in

    try:
        return rehearsal_in(file)
    except FileMissing as missing:
        if str(file) not in config.workflows():
            raise
        raise UserMistake(
            f"{file} is a workflow, not a rehearsal's file.",
            hint=f"Record one: midstream rehearse {file} --record FILE. midstream test plays all.",
        ) from missing


def _config(options: Options) -> ConfigManager:
    config = configured(options)
    require_trust(config)
    return config


def _tell(
    options: Options,
    file: Path,
    rehearsal: "Rehearsal | None",
    found: "Difference | MidstreamError | None",
    took_s: float,
) -> None:
    steps = 0 if rehearsal is None else len(rehearsal.steps)
    if options.is_json:
        told: dict[str, Json] = {
            "file": str(file),
            "held": found is None,
            "steps": steps,
            "ms": round(took_s * 1000, 1),
        }
        if found is not None:
            told["difference"] = str(found)
        write_out(f"{json.dumps(told)}\n")
        return
    head = "held   " if found is None else "DIFFERS"
    count = "1 step" if steps == 1 else f"{steps} steps"
    lines: Iterable[str] = () if found is None else str(found).splitlines()
    _print(
        "\n".join(
            [
                f"{head} {shown_path(file)} ({count}, {took_s * 1000:.0f} ms)",
                *(f"  {line}" for line in lines),
            ]
        )
    )


def _complain(text: str) -> None:
    write_error(f"{text}\n")


def _print(text: str) -> None:
    write_out(f"{text}\n")

"""Going to a run's past and carrying it elsewhere: fork, undo, redo, replay, export, import, fetch.

No model, tool or handler is needed for any of it, and none is loaded.
"""

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from midstream.app.assembly import Options
from midstream.cli.journal import Journal, with_journal
from midstream.cli.options import JSON, RUNS, takes
from midstream.cli.output import FAILED, FINISHED, answer, note, say, say_object
from midstream.core.costs import counted
from midstream.language.errors import UserMistake
from midstream.runtime.engine.open_run import found, opened
from midstream.runtime.engine.resume import stop_here
from midstream.system.offloop import in_thread
from midstream.system.own_process import STDIN, STDOUT, is_terminal, write_out
from midstream.tui.terminal_questions import is_yes

if TYPE_CHECKING:
    from midstream.core.run import Run
    from midstream.runtime.engine import redo as redoing
    from midstream.runtime.engine.open_run import Replayed
    from midstream.runtime.engine.time_travel import Fork
    from midstream.runtime.storage import KeptRun
from midstream.runtime.engine.run_files import Returned

# --- going back and forward ---------------------------------------------------------------------


@click.command("fork")
@click.argument("run")
@click.option(
    "--at", type=int, metavar="SEQ", help="The last event to keep; by default the last possible."
)
@click.option("--put-back", is_flag=True, help="Put files back as they were then.")
@takes(*JSON)
def fork(options: Options, run: str, at: int | None, put_back: bool) -> int:
    """Make a new run of a run's first events, and list what it did after them."""
    from midstream.runtime.engine import run_repository, time_travel

    async def work(journal: Journal) -> "tuple[Fork, Run]":
        made = await time_travel.fork(journal.store, (await found(journal.store, run)).id, at)
        return made, await opened(journal.store, made.id)

    made, stands = with_journal(options, work)
    files = () if made.is_foreign else made.effects.files
    is_asked = bool(files) and not put_back
    returned = _put_back(options, made) if files and put_back else ()
    if not options.is_json:
        # A fork alone takes no words back: the run they were said in is still there.
        told = msgspec.structs.replace(made, words="")
        say("\n".join(run_repository.undone_words(told, returned)))
    if made.effects.files and made.is_foreign:
        _note(options, "It was imported: its files are not those here, and are not put back.")
    elif is_asked and _wants_back(options, len(files)):
        returned = _put_back(options, made)
        say(*(f"  {line}" for line in run_repository.returned_words(returned, made.workspace)))
    elif is_asked:
        _note(options, "The files were left as they are; --put-back puts them back.")
    return _ended_at(options, made, stands, returned)


def _put_back(options: Options, made: "Fork") -> "Sequence[Returned]":
    from midstream.runtime.engine import run_files

    async def work(journal: Journal) -> "Sequence[Returned]":
        return await run_files.put_back(journal.store, made.effects.files, Path(made.workspace))

    return with_journal(options, work)


def _wants_back(options: Options, count: int) -> bool:
    """Return whether a person at a terminal wants the files back."""
    if options.is_json or not (is_terminal(STDIN) and is_terminal(STDOUT)):
        return False
    files = "this file" if count == 1 else f"these {count} files"
    return is_yes(f"Put {files} back as they were then?")


@click.command("undo")
@click.argument("run")
@click.option(
    "--put-back/--keep-files",
    default=True,
    help="Put files back as they were then (the default), or leave them.",
)
@takes(*JSON)
def undo(options: Options, run: str, put_back: bool) -> int:
    """Go back to before the last turn, its file changes included.

    The run ends, and its fork is there to go on with. `midstream redo` of the fork goes forward.
    """
    from midstream.runtime.engine import redo, run_repository

    async def work(journal: Journal) -> "tuple[redo.Undone, Run]":
        store = journal.store
        kept = await found(store, run)
        ends, now = _ends(journal, kept), journal.clock.now()
        undone = await redo.undo(store, kept.id, ends, now=now, keeps_files=not put_back)
        return undone, await opened(store, undone.made.id)

    undone, stands = with_journal(options, work)
    made, returned = undone.made, undone.returned
    if not options.is_json:
        say("\n".join(run_repository.undone_words(made, returned)))
    if made.effects.files and made.is_foreign:
        _note(options, "It was imported: its files are not those here, and are not put back.")
    elif made.effects.files and not returned:
        _note(options, "The files were left as they are.")
    code = _ended_at(options, made, stands, returned)
    if undone.problem:
        note(f"The files stay: {undone.problem}")
        return FAILED
    return code


@click.command("redo")
@click.argument("run")
@takes(*JSON)
def redo(options: Options, run: str) -> int:
    """Go forward again from a run that undo made: its words and its files as they were."""
    from midstream.runtime.engine import redo, run_repository

    async def work(
        journal: Journal,
    ) -> "tuple[redo.WayForward, Fork | None, Run | None, Sequence[Returned]]":
        kept = await found(journal.store, run)
        way, made, returned = await redo.redo(journal.store, kept.id, _ends(journal, kept))
        stands = None if made is None else await opened(journal.store, made.id)
        return way, made, stands, returned

    way, made, stands, returned = with_journal(options, work)
    told = {"type": "redone", "run": way.target, "returned": returned}
    words = "\n".join(run_repository.redone_words(way, made, returned))
    if made is None or stands is None:
        answer(options, told, words)
        return FINISHED
    if not options.is_json:
        say(words)
    return _ended_at(options, made, stands, returned)


def _ends(journal: Journal, kept: "KeptRun") -> "redoing.Ends | None":
    """Return what ends a run that no process runs; None where it has ended, or is an import."""
    if kept.is_foreign or kept.summary.is_over:
        return None
    return lambda reason: stop_here(journal.store, journal.clock, kept.id, reason=reason)


def _ended_at(options: Options, made: "Fork", stands: "Run", returned: "Sequence[Returned]") -> int:
    """Write the fork a run was left for: for a person, how it goes on; return the exit code."""
    from midstream.views.run_status import way_on

    head = {
        "type": "forked",
        "run": made.id,
        "source": made.source,
        "seq": made.seq,
        "damaged": made.damaged,
    }
    effects: dict[str, Any] = msgspec.to_builtins(made.effects)
    way = way_on(stands, made.id, resume=f"`midstream resume {made.id}`")
    answer(options, head | effects | {"returned": returned}, f"Run {made.id} {way}")
    return FINISHED


# --- looking again, and carrying elsewhere ------------------------------------------------------


@click.command("replay")
@click.argument("run")
@takes(*JSON)
def replay(options: Options, run: str) -> int:
    """Fold a run's facts again and compare; no model and no tool is called."""
    from midstream.runtime.engine import open_run

    async def work(journal: Journal) -> "Replayed":
        return await open_run.replay(journal.store, (await found(journal.store, run)).id)

    begun = time.perf_counter()
    came = with_journal(options, work)
    took_s = time.perf_counter() - begun
    answer(options, _replayed(came, took_s), _replay_words(came, took_s))
    return FINISHED if came.is_same else FAILED


def _replayed(came: "Replayed", took_s: float) -> dict[str, Any]:
    return {
        "type": "replayed",
        "run": came.run.id,
        "facts": came.facts,
        "seconds": round(took_s, 3),
        "snapshot": came.snapshot,
        "difference": came.difference,
        "damaged": None if came.damage is None else came.damage.seq,
        "problem": came.unfoldable or ("" if came.damage is None else str(came.damage)),
    }


def _replay_words(came: "Replayed", took_s: float) -> str:
    facts = f"Run {came.run.id}: {came.facts} facts replayed in {took_s:.2f} s"
    if came.damage is not None:
        return f"{facts}.\n{came.damage}"
    if came.unfoldable:
        return f"{facts}.\nFact {came.facts + 1} does not follow: {came.unfoldable}"
    if came.difference is not None:
        return f"{facts}.\nAfter fact {came.snapshot} it was different: {came.difference}"
    if came.snapshot is None:
        return f"{facts}; nothing was kept to compare it with."
    return f"{facts}; after fact {came.snapshot} it matches what its process kept."


@click.command("export")
@click.argument("run")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--with-files",
    is_flag=True,
    help="Include the files as they were before the run, and pictures.",
)
@click.option(
    "--otlp",
    metavar="URL",
    is_flag=False,
    flag_value="",
    help="Send its trace and metrics to an OpenTelemetry collector instead; without a URL to the one "
    "that OTEL_EXPORTER_OTLP_ENDPOINT names.",
)
@click.option("--content", is_flag=True, help="With --otlp: words, arguments and results, too.")
@takes(*JSON)
def export(
    options: Options,
    run: str,
    file: Path | None,
    with_files: bool,
    otlp: str | None,
    content: bool,
) -> int:
    """Write a run as one readable file, such as for a bug report; by default to stdout.

    NAME.md is for reading: who said what, a line for each call, differences. Any other has the facts.
    """
    if otlp is not None:
        if file is not None or with_files:
            raise UserMistake(
                "--otlp sends a trace: there is no file to write.",
                hint="Leave FILE and --with-files out, or --otlp.",
            )
        return _send(options, run, otlp, content)
    if content:
        raise UserMistake("--content goes with --otlp.", hint="A file holds all words anyway.")
    from midstream.runtime.engine.run_file import exported
    from midstream.runtime.engine.run_repository import exported_words, made_by, write_run

    async def work(journal: Journal) -> tuple[str, tuple[bytes, ...]]:
        store, id = journal.store, (await found(journal.store, run)).id
        if file is not None:
            return await write_run(store, id, file, with_files=with_files), ()
        made = await exported(store, id, made_by=made_by(), with_files=with_files)
        return exported_words(id, made, "is written"), made.lines

    words, lines = with_journal(options, work)
    for line in lines:
        write_out(line.decode(), is_exact=True)
    _note(options, words)
    return FINISHED


def _send(options: Options, run: str, url: str, content: bool) -> int:
    """Send the trace of a run to a collector, and say what was sent."""
    from midstream.telemetry.sending import Sent, destination, export_run, without_password

    to = destination(os.environ, url=url, content=content)
    if to is None:
        raise UserMistake(
            "The environment has OpenTelemetry off.", hint="Name the URL: --otlp URL."
        )

    async def work(journal: Journal) -> Sent:
        return await export_run(
            journal.store, (await found(journal.store, run)).id, to, journal.clock
        )

    sent = with_journal(options, work)
    spans, metrics = counted(sent.spans, "span"), counted(sent.metrics, "metric")
    rest = f" {counted(sent.open, 'span')} will end later: send it again then." if sent.open else ""
    where = without_password(to.traces or to.metrics)
    sums = f"{spans} and {metrics}" if sent.takes_metrics else spans
    alone = "" if sent.takes_metrics else " It takes no metrics."
    words = f"Sent {sums} of run {sent.run} to {where}.{alone}{rest}"
    if sent.open and not (sent.spans or sent.metrics):
        words = (
            f"Nothing of run {sent.run} has ended yet, so nothing was sent: export it again later."
        )
    answer(options, {"type": "sent", **msgspec.to_builtins(sent)}, words)
    return FINISHED


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@takes(*JSON)
def import_(options: Options, file: Path) -> int:
    """Keep the run of an exported file. It never goes on by itself."""
    from midstream.runtime.engine import run_file

    came = with_journal(options, lambda journal: run_file.imported(journal.store, file))
    if options.is_json:
        say_object({"type": "imported"} | msgspec.to_builtins(came))
    elif came.was_there:
        say(f"Run {came.id} is here already, with the same {came.facts} facts.")
    else:
        other = f" (a run {came.named} is here already, a different one)"
        as_named = "" if came.id == came.named else other
        say(f"Imported run {came.id}{as_named}: {came.facts} facts. It does not go on by itself.")
    return FINISHED


@click.command("fetch")
@click.argument("run")
@click.option("--branch", metavar="NAME", help="The branch to make; by default midstream/RUN.")
@takes(*RUNS)
def fetch(options: Options, run: str, branch: str | None) -> int:
    """Make a git branch of what a run of a repository has made, in the checkout you are in.

    One commit on top of the run's own. Your files, your index and the branch you are on stay as they are.
    """
    from midstream.runtime.places import last_keeps, placement_of
    from midstream.runtime.run_place import words_of
    from midstream.system.checkout import branch_with, checkout_in

    async def work(journal: Journal) -> tuple[str, str, str]:
        kept = await found(journal.store, run)
        placement = placement_of(kept)
        if placement is None:
            raise UserMistake(
                f"Run {kept.id} is of a folder, not of a repository: its files are there.",
                hint=f"They are in {kept.summary.workspace}.",
            )
        packs = await last_keeps(journal.store, journal.store, kept)
        words = words_of(await opened(journal.store, kept.id))
        name = branch or f"midstream/{kept.id}"
        made = partial(
            branch_with,
            checkout_in(options.workspace),
            placement.repository,
            placement.commit,
            packs,
            branch=name,
            words=words,
            at=kept.summary.started_at,
        )
        return kept.id, name, await in_thread(made)

    id, name, commit = with_journal(options, work)
    answer(
        options,
        {"type": "fetched", "run": id, "branch": name, "commit": commit},
        f"The branch {name} has it: {commit[:12]}. Look at it with: git diff ...{name}",
    )
    return FINISHED


def _note(options: Options, text: str) -> None:
    """Write a line to stderr, unless the output is for programs."""
    if not options.is_json:
        note(text)

"""Going to a run's past and carrying it elsewhere: fork, undo, redo, replay, export, import.

No model, tool or handler is needed for any of it, and none is loaded.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from midstream.app.assembly import Options, SystemClock, configured, opened_store
from midstream.cli.headless.exit_codes import FAILED, FINISHED
from midstream.language.names import Json
from midstream.system.offloop import in_thread
from midstream.system.own_process import (
    HANGUPS,
    STDIN,
    STDOUT,
    is_terminal,
    run_until_signalled,
    write_error,
    write_out,
)
from midstream.tui.terminal_questions import is_yes

if TYPE_CHECKING:
    from midstream.core.run import Run
    from midstream.runtime.engine.redo import WayForward
    from midstream.runtime.engine.replay import Replayed
    from midstream.runtime.engine.time_travel import Fork, Returned
    from midstream.runtime.ports.storage import Store

T = TypeVar("T")


def fork_run(options: Options, run: str, *, at: int | None, puts_back: bool) -> int:
    """Make a fork, say what was done after its point, put files back; return the exit code."""

    async def work() -> "Fork":
        from midstream.runtime.engine.open_run import found
        from midstream.runtime.engine.time_travel import fork

        async with _opened(options) as store:
            return await fork(store, (await found(store, run)).id, at)

    return _shown_fork(options, _done(work()), puts_back=puts_back)


def undo_run(options: Options, run: str, *, puts_back: bool) -> int:
    """Leave a run for its fork to before the last turn, files included; return the exit code.

    Raises:
        RunOwned: another process runs it.
    """

    async def work() -> "tuple[Fork, Sequence[Returned]]":
        from midstream.runtime.engine.open_run import found
        from midstream.runtime.engine.redo import files_undone
        from midstream.runtime.engine.resume import stop_here
        from midstream.runtime.engine.time_travel import UNDONE, before_last_turn, fork

        async with _opened(options) as store:
            kept = await found(store, run)
            point = await before_last_turn(store, kept.id)
            if not kept.is_foreign and not kept.summary.is_over:
                await stop_here(store, SystemClock(), kept.id, reason=UNDONE)
            made = await fork(store, kept.id, point)
            if not puts_back:
                return made, ()
            workspace = Path(made.workspace)
            return made, await files_undone(store, made, workspace, now=SystemClock().now())

    made, returned = _done(work())
    return _shown_fork(options, made, returned=returned, has_decided=True)


def redo_run(options: Options, run: str) -> int:
    """Leave a run that came of an undo for what was undone; return the exit code.

    Raises:
        UserMistake: it did not, or something was said or changed since.
        RunOwned: another process runs it.
    """

    async def work() -> "tuple[WayForward, Fork | None, Sequence[Returned]]":
        from midstream.runtime.engine.open_run import found
        from midstream.runtime.engine.redo import REDONE, gone_forward, way_forward
        from midstream.runtime.engine.resume import stop_here

        async with _opened(options) as store:
            kept = await found(store, run)
            way = await way_forward(store, kept.id)
            if not kept.summary.is_over:
                await stop_here(store, SystemClock(), kept.id, reason=REDONE)
            return way, *await gone_forward(store, way, Path(way.workspace))

    way, made, returned = _done(work())
    if options.is_json and made is not None:
        _forked(made, returned)
    elif options.is_json:
        listed = msgspec.to_builtins(returned)
        _object({"type": "redone", "run": way.target, "returned": listed})
    else:
        from midstream.runtime.engine.run_repository import redone_words

        _say("\n".join(redone_words(way, made, returned)))
        if made is not None:
            _go_on_with(options, made)
    return FINISHED


def _shown_fork(
    options: Options,
    made: "Fork",
    *,
    returned: "Sequence[Returned]" = (),
    puts_back: bool = False,
    has_decided: bool = False,
) -> int:
    """Say what the fork is, and what became of its files; offer to put them back.

    `returned` is what became of them already. `has_decided`: nothing is offered.
    """
    from midstream.runtime.engine.run_repository import returned_words, undone_words

    files = () if returned or made.is_foreign else made.effects.files
    if files and puts_back:
        files, returned = (), _done(_put_back(options, made))
    if not options.is_json:
        # A fork alone takes no words back: the run they were said in is still there.
        told = made if has_decided else msgspec.structs.replace(made, words="")
        _say("\n".join(undone_words(told, returned)))
    if made.effects.files and made.is_foreign:
        _note(options, "It was imported: its files are not those here, and are not put back.")
    elif files and not has_decided and _wants_back(options, len(files)):
        returned = _done(_put_back(options, made))
        for line in returned_words(returned, made.workspace):
            _say(f"  {line}")
    elif files:
        how = "" if has_decided else "; --put-back puts them back"
        _note(options, f"The files were left as they are{how}.")
    if options.is_json:
        _forked(made, returned)
    else:
        _go_on_with(options, made)
    return FINISHED


def _forked(made: "Fork", returned: "Sequence[Returned]") -> None:
    """Write a fork as one object."""
    effects: dict[str, Json] = msgspec.to_builtins(made.effects)
    head: dict[str, Json] = {
        "type": "forked",
        "run": made.id,
        "source": made.source,
        "seq": made.seq,
        "damaged": made.damaged,
    }
    _object(head | effects | {"returned": msgspec.to_builtins(returned)})


def _go_on_with(options: Options, made: "Fork") -> None:
    """Say how the fork goes on, by where it stands."""

    async def work() -> "Run":
        from midstream.runtime.engine.open_run import opened

        async with _opened(options) as store:
            return await opened(store, made.id)

    from midstream.views.run_status import way_on

    _say(f"Run {made.id} {way_on(_done(work()), made.id, resume=f'`midstream resume {made.id}`')}")


async def _put_back(options: Options, made: "Fork") -> "Sequence[Returned]":
    from midstream.runtime.engine.time_travel import put_back

    async with _opened(options) as store:
        return await put_back(store, made.effects.files, Path(made.workspace))


def _wants_back(options: Options, count: int) -> bool:
    """Return whether a person at a terminal wants the files back."""
    if options.is_json or not (is_terminal(STDIN) and is_terminal(STDOUT)):
        return False
    files = "this file" if count == 1 else f"these {count} files"
    return is_yes(f"Put {files} back as they were then?")


def replay_run(options: Options, run: str) -> int:
    """Fold a run again and say what came of it; return the exit code: 1 for any difference."""

    async def work() -> "Replayed":
        from midstream.runtime.engine.open_run import found
        from midstream.runtime.engine.replay import replay

        async with _opened(options) as store:
            return await replay(store, (await found(store, run)).id)

    begun = time.perf_counter()
    came = _done(work())
    took_s = time.perf_counter() - begun
    if options.is_json:
        _object(_replayed(came, took_s))
    else:
        _say(_replay_words(came, took_s))
    return FINISHED if came.is_same else FAILED


def _replayed(came: "Replayed", took_s: float) -> dict[str, Json]:
    return {
        "type": "replayed",
        "run": came.run.id,
        "facts": came.facts,
        "seconds": round(took_s, 3),
        "snapshot": came.snapshot,
        "difference": msgspec.to_builtins(came.difference),
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


def export_run(options: Options, run: str, file: Path | None, *, with_files: bool) -> int:
    """Write a run as one file, or to stdout; return the exit code.

    Raises:
        UserMistake: the file is there already.
    """
    from midstream import __version__

    async def work() -> "tuple[str, tuple[bytes, ...], int]":
        from midstream.runtime.engine.open_run import found
        from midstream.runtime.engine.run_file import exported

        async with _opened(options) as store:
            id = (await found(store, run)).id
            made_by = f"midstream {__version__}"
            made = await exported(store, id, made_by=made_by, with_files=with_files)
            return id, made.lines, made.missing

    id, lines, missing = _done(work())
    if file is None:
        for line in lines:
            write_out(line.decode(), is_exact=True)
    else:
        from midstream.runtime.engine.run_file import write_new

        write_new(file, lines)
    if missing:
        _note(options, f"The contents of {missing} files are not kept any more.")
    holds = "It holds all that the run read and said: check it before you share it."
    _note(options, f"Exported run {id}. {holds}")
    return FINISHED


def import_run(options: Options, file: Path) -> int:
    """Keep the run of a file; return the exit code."""
    from midstream.runtime.engine.run_file import imported

    async def work() -> Any:
        async with _opened(options) as store:
            return await imported(store, file)

    came = _done(work())
    if options.is_json:
        _object({"type": "imported"} | msgspec.to_builtins(came))
    elif came.was_there:
        _say(f"Run {came.id} is here already, with the same {came.facts} facts.")
    else:
        as_named = (
            ""
            if came.id == came.named
            else f" (a run {came.named} is here already, a different one)"
        )
        _say(f"Imported run {came.id}{as_named}: {came.facts} facts. It does not go on by itself.")
    return FINISHED


# --- small parts ------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _opened(options: Options) -> "AsyncIterator[Store]":
    """Give the store, and close it."""
    config = await in_thread(lambda: configured(options))
    store = await in_thread(lambda: opened_store(config))
    try:
        yield store
    finally:
        await store.aclose()


def _done(work: Coroutine[Any, Any, T]) -> T:
    return run_until_signalled(work, signals=HANGUPS)


def _object(value: dict[str, Json]) -> None:
    import json

    write_out(f"{json.dumps(value)}\n")


def _say(text: str) -> None:
    """Write a line to stdout."""
    write_out(f"{text}\n")


def _note(options: Options, text: str) -> None:
    """Write a line to stderr, unless the output is for programs."""
    if not options.is_json:
        write_error(f"{text}\n")

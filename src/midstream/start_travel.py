"""Going to a run's past and carrying it elsewhere: fork, undo, redo, replay, export, import.

No model, tool or handler is needed for any of it, and none is loaded.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from midstream.asking import is_yes
from midstream.assembly import Options, SystemClock, configured, opened_store
from midstream.core.names import Json
from midstream.headless.codes import FAILED, FINISHED
from midstream.offloop import in_thread
from midstream.process import (
    HANGUPS,
    STDIN,
    STDOUT,
    is_terminal,
    run_until_signalled,
    write_error,
    write_out,
)

if TYPE_CHECKING:
    from midstream.core.views.side_effects import SideEffects
    from midstream.engine.redoing import WayForward
    from midstream.engine.replaying import Replayed
    from midstream.engine.travel import Fork, Returned
    from midstream.storage import Store

T = TypeVar("T")


def fork_run(options: Options, run: str, *, at: int | None, puts_back: bool) -> int:
    """Make a fork, say what was done after its point, put files back; return the exit code."""

    async def work() -> "Fork":
        from midstream.engine.opening import found
        from midstream.engine.travel import fork

        async with _opened(options) as store:
            return await fork(store, (await found(store, run)).id, at)

    return _shown_fork(options, _done(work()), puts_back=puts_back)


def undo_run(options: Options, run: str, *, puts_back: bool) -> int:
    """Leave a run for its fork to before the last turn, files included; return the exit code.

    Raises:
        RunOwned: another process runs it.
    """

    async def work() -> "tuple[Fork, Sequence[Returned]]":
        from midstream.engine.opening import found
        from midstream.engine.redoing import files_undone
        from midstream.engine.resuming import stop_here
        from midstream.engine.travel import UNDONE, before_last_turn, fork

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
    return _shown_fork(options, made, returned=returned)


def redo_run(options: Options, run: str) -> int:
    """Leave a run that came of an undo for what was undone; return the exit code.

    Raises:
        UserMistake: it did not, or something was said or changed since.
        RunOwned: another process runs it.
    """

    async def work() -> "tuple[WayForward, Fork | None, Sequence[Returned]]":
        from midstream.engine.opening import found
        from midstream.engine.redoing import REDONE, gone_forward, way_forward
        from midstream.engine.resuming import stop_here

        async with _opened(options) as store:
            kept = await found(store, run)
            way = await way_forward(store, kept.id)
            if not kept.summary.is_over:
                await stop_here(store, SystemClock(), kept.id, reason=REDONE)
            return way, *await gone_forward(store, way, Path(way.workspace))

    way, made, returned = _done(work())
    if made is not None:
        return _shown_fork(options, made, returned=returned, way=way)
    if options.is_json:
        listed = msgspec.to_builtins(returned)
        _object({"type": "redone", "run": way.target, "returned": listed})
        return FINISHED
    _say(f"Run {way.target} stands as it had ended.")
    for one in returned:
        _say(f"  {_returned_words(one, way.workspace, way)}")
    return FINISHED


def _shown_fork(
    options: Options,
    made: "Fork",
    *,
    puts_back: bool | None = None,
    returned: "Sequence[Returned]" = (),
    way: "WayForward | None" = None,
) -> int:
    """Say what the fork is, offer to put files back, and say what became of them.

    With `puts_back` None nothing is offered: `returned` is what became of them already. `way` is how
    it went forward, if it did.
    """
    from midstream.core.views.side_effects import in_words

    # What was put back already is not offered again.
    files = () if returned else made.effects.files
    if not options.is_json:
        _say(f"{made.id} is run {made.source} as it stood after fact {made.seq}.")
        stays = _staying(made, returned)
        if stays:
            _say("Done after that, and still so:")
            for line in in_words(stays, workspace=made.workspace):
                _say(f"  {line}")
        if made.damaged is not None:
            _say(f"What was done from fact {made.damaged} on is not known: it is damaged.")
    if files and made.is_foreign:
        _note(options, "It was imported: its files are not those here, and are not put back.")
    elif files and puts_back is not None and (puts_back or _wants_back(options, len(files))):
        returned = _done(_put_back(options, made))
    elif files:
        how = "" if puts_back is None else "; --put-back puts them back"
        _note(options, f"The files were left as they are{how}.")
    if options.is_json:
        effects: dict[str, Json] = msgspec.to_builtins(made.effects)
        head: dict[str, Json] = {
            "type": "forked",
            "run": made.id,
            "source": made.source,
            "seq": made.seq,
            "damaged": made.damaged,
        }
        _object(head | effects | {"returned": msgspec.to_builtins(returned)})
    else:
        for one in returned:
            _say(f"  {_returned_words(one, made.workspace, way)}")
        _say(f"Go on with it: midstream resume {made.id}")
    return FINISHED


def _staying(made: "Fork", returned: "Sequence[Returned]") -> "SideEffects":
    """Return what was done after a fork's point, less the files that were put back."""
    back = {one.path for one in returned if one.result != "left"}
    files = tuple(change for change in made.effects.files if change.path not in back)
    return msgspec.structs.replace(made.effects, files=files)


async def _put_back(options: Options, made: "Fork") -> "Sequence[Returned]":
    from midstream.engine.travel import put_back

    async with _opened(options) as store:
        return await put_back(store, made.effects.files, Path(made.workspace))


def _returned_words(one: "Returned", workspace: str, way: "WayForward | None" = None) -> str:
    from midstream.core.views.side_effects import short_path

    if way is not None:
        from midstream.engine.redoing import again_words

        return f"{short_path(one.path, workspace)}: {again_words(way, one)}"
    words = {
        "put_back": "put back",
        "removed": "removed, as it was not there before",
        "already": "as it was before",
        "left": f"left as it is: {one.why}",
    }
    return f"{short_path(one.path, workspace)}: {words[one.result]}"


def _wants_back(options: Options, count: int) -> bool:
    """Return whether a person at a terminal wants the files back."""
    if options.is_json or not (is_terminal(STDIN) and is_terminal(STDOUT)):
        return False
    files = "this file" if count == 1 else f"these {count} files"
    return is_yes(f"Put {files} back as they were then?")


def replay_run(options: Options, run: str) -> int:
    """Fold a run again and say what came of it; return the exit code: 1 for any difference."""

    async def work() -> "Replayed":
        from midstream.engine.opening import found
        from midstream.engine.replaying import replay

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
    facts = f"Run {came.run.id}: {came.facts} facts folded in {took_s:.2f} s"
    if came.damage is not None:
        return f"{facts}.\n{came.damage}"
    if came.unfoldable:
        return f"{facts}.\nFact {came.facts + 1} does not follow: {came.unfoldable}"
    if came.difference is not None:
        return f"{facts}.\nAfter fact {came.snapshot} it was different: {came.difference}"
    if came.snapshot is None:
        return f"{facts}; nothing was kept to compare it with."
    return f"{facts}; after fact {came.snapshot} it is as the process that ran it kept it."


def export_run(options: Options, run: str, file: Path | None, *, with_files: bool) -> int:
    """Write a run as one file, or to stdout; return the exit code.

    Raises:
        UserMistake: the file is there already.
    """
    from midstream import __version__

    async def work() -> "tuple[str, tuple[bytes, ...], int]":
        from midstream.engine.exchange import exported
        from midstream.engine.opening import found

        async with _opened(options) as store:
            id = (await found(store, run)).id
            made_by = f"midstream {__version__}"
            made = await exported(store, id, made_by=made_by, with_files=with_files)
            return id, made.lines, made.missing

    id, lines, missing = _done(work())
    if file is None:
        for line in lines:
            write_out(line.decode())
    else:
        from midstream.engine.exchange import write_new

        write_new(file, lines)
    if missing:
        _note(options, f"The contents of {missing} files are not kept any more.")
    holds = "It holds all that the run read and said: look through it before you give it away."
    _note(options, f"Exported run {id}. {holds}")
    return FINISHED


def import_run(options: Options, file: Path) -> int:
    """Keep the run of a file; return the exit code."""
    from midstream.engine.exchange import imported

    async def work() -> Any:
        async with _opened(options) as store:
            return await imported(store, file)

    came = _done(work())
    if options.is_json:
        _object({"type": "imported"} | msgspec.to_builtins(came))
    elif came.was_there:
        _say(f"Run {came.id} is here already, with the same {came.facts} facts.")
    else:
        as_named = "" if came.id == came.named else f" (a run {came.named} is here, another one)"
        _say(f"Imported run {came.id}{as_named}: {came.facts} facts. It goes on only when told to.")
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

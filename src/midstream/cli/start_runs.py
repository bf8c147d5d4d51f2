"""Commands about the runs of any process. They need no model, no settings and no trust."""

import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from midstream.app.assembly import Options, SystemClock, bells, journal_path, opened_store
from midstream.cli.headless.exit_codes import FINISHED
from midstream.cli.headless.run_lines import (
    Shown,
    code_of,
    disposition_line,
    disposition_object,
    event_line,
    listed,
    question_line,
    receipt_line,
    receipt_object,
    run_object,
    shown_lines,
    shown_object,
)
from midstream.config.manager import ConfigManager
from midstream.core.branch_address import addressed
from midstream.core.notices import Envelope, to_dict
from midstream.core.run import Run, definition_of
from midstream.language.errors import UserMistake
from midstream.language.names import Json, Policy
from midstream.runtime.engine.open_run import found, opened
from midstream.runtime.engine.remote import RemoteMachine
from midstream.runtime.engine.resume import refused, stop_here
from midstream.runtime.ports.storage import KeptRun, Store
from midstream.system.offloop import in_thread
from midstream.system.own_process import (
    HANGUPS,
    STDOUT,
    is_terminal,
    run_until_signalled,
    write_out,
)

STOPPED_FROM_OUTSIDE = "stopped by midstream stop"

_READ_AT_ONCE = 1_000


class _Place(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An open store, and what belongs to it."""

    store: Store
    journal: Path
    bells: Path

    @asynccontextmanager
    async def attached(
        self, id: str, tap: Callable[[Envelope], None] | None = None
    ) -> AsyncIterator[RemoteMachine]:
        """Give a run of another process, or of none."""
        machine = await RemoteMachine.attached(
            self.store, id, bells=self.bells, clock=SystemClock(), tap=tap
        )
        try:
            yield machine
        finally:
            await machine.aclose()


def listing(options: Options, *, everywhere: bool) -> int:
    """Write the runs of the workspace, or of all, the newest first; return the exit code."""

    async def work(place: _Place) -> int:
        here = str(options.workspace)
        runs = await place.store.listing()
        kept = [each for each in runs if everywhere or each.summary.workspace in (here, "")]
        if options.is_json:
            _write_objects(run_object(each) for each in reversed(kept))
        elif kept:
            now = SystemClock().now()
            _write(listed(kept, now=now, with_folders=everywhere))
        else:
            others = f" {len(runs)} elsewhere: midstream runs --all" if runs else ""
            _write([f"No runs in {here}.{others}"])
        return FINISHED

    return _with_store(options, work)


def show(options: Options, prefix: str) -> int:
    """Write how one run stands; return the exit code."""

    async def work(place: _Place) -> int:
        kept = await found(place.store, prefix)
        stands = await opened(place.store, kept.id)
        shown = Shown(
            kept=kept,
            run=stands,
            facts=await place.store.read(kept.id),
            letters=() if stands.is_over else await place.store.letters(kept.id),
            refused=await refused(place.store, stands),
            journal=str(place.journal),
        )
        if options.is_json:
            _write_objects([shown_object(shown)])
        else:
            _write(shown_lines(shown, now=SystemClock().now()))
        return FINISHED

    return _with_store(options, work)


def show_graph(options: Options, prefix: str) -> int:
    """Draw the workflow of a run with the states it was in marked; return the exit code.

    With `--json` the machine, and for each state that was visited how often and for how long.
    """
    from midstream.views.graph import graph_of
    from midstream.views.graph_marks import marks_from, marks_object
    from midstream.views.graph_painters import drawing

    async def work(place: _Place) -> int:
        kept = await found(place.store, prefix)
        run = await opened(place.store, kept.id)
        graph = graph_of(definition_of(run))
        clock = SystemClock()
        # Of a run nobody runs, the time since its last fact is nobody's.
        now = clock.now() if kept.owner else kept.summary.updated_at
        marks = marks_from(await place.store.read(kept.id), graph, now=now)
        if options.is_json:
            told = {"type": "graph", "run": kept.id, "graph": msgspec.to_builtins(graph)}
            _write_objects([told | marks_object(marks)])
        else:
            width = min(shutil.get_terminal_size().columns, 100) if is_terminal(STDOUT) else 80
            _write(drawing(graph, width=width, marks=marks).splitlines())
        return FINISHED

    return _with_store(options, work)


def events(options: Options, prefix: str, *, after: int, follow: bool) -> int:
    """Write the facts of a run, with `follow` until it has ended; return the exit code."""

    def tell(envelope: Envelope) -> None:
        if options.is_json:
            _write_objects([to_dict(envelope)])
        else:
            _write([event_line(envelope)])

    async def work(place: _Place) -> int:
        id = (await found(place.store, prefix)).id
        if not follow:
            await _tell_facts(place.store, id, after, None, tell)
            return FINISHED
        unheard: list[Envelope] = []
        async with place.attached(id, unheard.append) as machine:
            upto = machine.run.seq
            await _tell_facts(place.store, id, after, upto, tell)
            while True:
                is_over = machine.is_closed
                while unheard:
                    envelope = unheard.pop(0)
                    if (envelope.seq or 0) > after:
                        tell(envelope)
                if is_over:
                    return FINISHED
                await machine.moved()

    return _with_store(options, work)


async def _tell_facts(
    store: Store, id: str, after: int, upto: int | None, tell: Callable[[Envelope], None]
) -> None:
    """Tell facts, some at a time: a run may be long."""
    while upto is None or after < upto:
        last = after + _READ_AT_ONCE
        facts = await store.read(id, after, last if upto is None else min(last, upto))
        for fact in facts:
            tell(fact)
        if not facts:
            return
        after = facts[-1].seq or last


def send(
    options: Options,
    prefix: str,
    text: str,
    *,
    question: str | None,
    key: str | None,
    policy: Policy | None,
    waits: bool,
) -> int:
    """Give a run a line, and write what is done with it; return the exit code."""
    words = sys.stdin.buffer.read().decode("utf-8", "replace") if text == "-" else text
    words = words.rstrip("\n") if text == "-" else words
    if not words.strip():
        raise UserMistake("There is nothing to send.", hint="midstream send RUN TEXT")
    if question is not None and policy is not None:
        raise UserMistake(
            "--question cannot be combined with --interrupt, --steer or --queue.",
            hint="Leave one of them out.",
        )

    async def work(place: _Place) -> int:
        kept = await found(place.store, prefix)
        id = kept.id
        if kept.is_foreign:
            raise UserMistake(
                f"Run {id} was imported: it would never read your line.",
                hint=f"Fork it and talk to the fork: midstream fork {id} --at {kept.seq}",
            )
        async with place.attached(id) as machine:
            if question is None and policy is None:
                _refuse_several(machine.run, words)
            receipt = await machine.say(
                words,
                question=None if question is None else _question_id(machine.run, question),
                policy=policy,
                source="send",
                id=key,
            )
            record = machine.run.inbox.lines.get(receipt.input_id)
            if options.is_json:
                _write_objects([receipt_object(id, receipt, record)])
            else:
                _write([receipt_line(id, receipt, record)])
            code = code_of(receipt, record, waited=False)
            if waits and code == FINISHED:
                record = await machine.disposed(receipt.input_id)
                if options.is_json:
                    _write_objects([disposition_object(id, receipt.input_id, record)])
                else:
                    _write([disposition_line(record)])
                code = code_of(receipt, record, waited=True)
            return code

    return _with_store(options, work)


def _refuse_several(run: Run, words: str) -> None:
    """Raise UserMistake where several questions are open and nothing says which is meant.

    A line to one branch (`@name words`) answers none.
    """
    if addressed(run, words)[0]:
        return
    asked = [question for question in run.inbox.open_questions if question.kind == "question"]
    if len(asked) > 1:
        listed = "; ".join(map(question_line, asked))
        raise UserMistake(
            f"Run {run.id} asks several questions: {listed}.",
            hint="Say which you answer: --question 2.",
        )


def _question_id(run: Run, named: str) -> str:
    """Return the id of the question a person names by its id or number, closed ones included.

    Raises:
        UserMistake: the run never asked it.
    """
    number = named.removeprefix("#")
    for question in reversed(run.inbox.questions):
        if number == str(question.number) or named == question.id:
            return question.id
    asked = "; ".join(map(question_line, run.inbox.open_questions))
    hint = f"It asks {asked}." if asked else f"It asks nothing now: midstream show {run.id}."
    raise UserMistake(f"Run {run.id} has no question {named!r}.", hint=hint)


def stop(options: Options, prefix: str) -> int:
    """End a run, whoever runs it; return the exit code once it has ended."""

    async def work(place: _Place) -> int:
        kept = await found(place.store, prefix)
        if kept.summary.is_over:
            _tell_stopped(options, kept, f"has ended already: {kept.summary.status}")
            return FINISHED
        if kept.owner:
            async with place.attached(kept.id) as machine:
                await machine.stop(STOPPED_FROM_OUTSIDE)
        else:
            clock = SystemClock()
            await stop_here(place.store, clock, kept.id, reason=STOPPED_FROM_OUTSIDE)
        ended = await opened(place.store, kept.id)
        unheard = [letter.text for letter in await refused(place.store, ended)]
        _tell_stopped(options, kept, "is stopped", unheard)
        return FINISHED

    return _with_store(options, work)


def _tell_stopped(options: Options, kept: KeptRun, how: str, unheard: Sequence[str] = ()) -> None:
    if options.is_json:
        told = {"type": "stopped", "run": kept.id, "text": how, "unheard": list(unheard)}
        _write_objects([told])
        return
    _write([f"Run {kept.id} {how}.", *(f"It did not get: {text}" for text in unheard)])


# --- the store and the screen -------------------------------------------------------------------


def _with_store(options: Options, work: Callable[[_Place], Awaitable[int]]) -> int:
    config = ConfigManager(options.workspace)

    async def worked() -> int:
        store = await in_thread(lambda: opened_store(config))
        try:
            place = _Place(store=store, journal=journal_path(config), bells=bells(config))
            return await work(place)
        finally:
            await store.aclose()

    return _run(worked())


def _run(work: Coroutine[Any, Any, int]) -> int:
    return run_until_signalled(work, signals=(signal.SIGINT, *HANGUPS))


def _write(lines: Sequence[str]) -> None:
    write_out("\n".join((*lines, "")))


def _write_objects(objects: Iterable[dict[str, Json]]) -> None:
    for each in objects:
        write_out(f"{json.dumps(each)}\n")

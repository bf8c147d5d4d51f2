"""Commands about the runs of any process: list, show, follow, send, stop."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial

import click

from midstream.app.assembly import Options
from midstream.cli.journal import Journal, with_journal
from midstream.cli.options import RUNS, read_if_dash, takes
from midstream.cli.output import FINISHED, answer, columns, say, say_object
from midstream.cli.run_lines import (
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
from midstream.core.notices import Envelope
from midstream.core.routing import spoken
from midstream.core.run import Run, definition_of
from midstream.language.errors import UserMistake
from midstream.language.names import Policy
from midstream.runtime.engine.open_run import found, opened
from midstream.runtime.engine.resume import refused, stop_here
from midstream.runtime.storage import PAGE, KeptRun, Store
from midstream.system.own_process import write_bytes

STOPPED_FROM_OUTSIDE = "stopped by midstream stop"

_READ_AT_ONCE = 1_000


@click.command("runs")
@click.option("--all", "everywhere", is_flag=True, help="List the runs of every folder.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=PAGE,
    show_default=True,
    metavar="N",
    help="So many at most.",
)
@click.option("--after", metavar="RUN", help="Go on behind the last run of a list.")
@takes(*RUNS)
def runs(options: Options, everywhere: bool, limit: int, after: str | None) -> int:
    """List the runs of this folder, the one that was written last first."""

    async def work(journal: Journal) -> int:
        here = str(options.workspace)
        begin = None if after is None else (await found(journal.store, after)).place
        wanted = partial(journal.store.listing, workspace=None if everywhere else here)
        kept = await wanted(after=begin, limit=limit + 1)
        shown = kept[:limit]
        if options.is_json:
            say_object(*map(run_object, shown))
        elif shown:
            say(*listed(shown, now=journal.clock.now(), with_folders=everywhere))
        elif begin is not None:
            say(f"No runs behind {after}.")
        else:
            has_others = bool(await journal.store.listing(limit=1))
            say(f"No runs in {here}.{' Others: midstream runs --all' * has_others}")
        if len(kept) > limit and not options.is_json:
            everywhere_too = "--all " * everywhere
            say(f"There are older ones: midstream runs {everywhere_too}--after {shown[-1].id}")
        return FINISHED

    return with_journal(options, work)


@click.command("show")
@click.argument("run", metavar="RUN")
@click.option("--graph", "drawn", is_flag=True, help="Draw where it was, how often and how long.")
@takes(*RUNS)
def show(options: Options, run: str, drawn: bool) -> int:
    """Show how a run stands: state, questions, cost, waiting words, its last events."""

    async def work(journal: Journal) -> int:
        kept = await found(journal.store, run)
        stands = await opened(journal.store, kept.id)
        facts = await journal.store.read(kept.id)
        if drawn:
            _draw(options, kept, stands, facts, now=journal.clock.now())
            return FINISHED
        shown = Shown(
            kept=kept,
            run=stands,
            facts=facts,
            mails=() if stands.is_over else await journal.store.undelivered(kept.id),
            refused=await refused(journal.store, stands),
            journal=journal.shown,
        )
        answer(options, shown_object(shown), *shown_lines(shown, now=journal.clock.now()))
        return FINISHED

    return with_journal(options, work)


def _draw(
    options: Options, kept: KeptRun, run: Run, facts: Sequence[Envelope], *, now: float
) -> None:
    """Draw the workflow of a run with the states it was in marked.

    For a program the machine, and for each state that was visited how often and for how long.
    """
    from midstream.views.graph import graph_of
    from midstream.views.graph_marks import marks_from, marks_object
    from midstream.views.graph_painters import drawing

    graph = graph_of(definition_of(run))
    # Of a run nobody runs, the time since its last fact is nobody's.
    until = now if kept.owner else kept.summary.updated_at
    marks = marks_from(facts, graph, now=until)
    if options.is_json:
        say_object({"type": "graph", "run": kept.id, "graph": graph} | marks_object(marks))
    else:
        say(*drawing(graph, width=columns(), marks=marks).splitlines())


@click.command("events")
@click.argument("run", metavar="RUN")
@click.option("--follow", is_flag=True, help="Wait for new events until the run has ended.")
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    metavar="SEQ",
    help="Only events after this number.",
)
@takes(*RUNS)
def events(options: Options, run: str, follow: bool, after: int) -> int:
    """Write what happened in a run, one event a line; followed, what streams in it, too."""

    def print_event(envelope: Envelope) -> None:
        if options.is_json:
            say_object(envelope.to_dict())
        else:
            say(event_line(envelope))

    async def work(journal: Journal) -> int:
        id = (await found(journal.store, run)).id
        if not follow:
            await _print_facts(journal.store, id, after, None, print_event)
            return FINISHED
        async with journal.attached(id) as machine:
            async for envelope in machine.events(after):
                print_event(envelope)
        return FINISHED

    return with_journal(options, work)


async def _print_facts(
    store: Store, id: str, after: int, upto: int | None, print_event: Callable[[Envelope], None]
) -> None:
    """Print facts, some at a time: a run may be long."""
    while upto is None or after < upto:
        last = after + _READ_AT_ONCE
        facts = await store.read(id, after, last if upto is None else min(last, upto))
        for fact in facts:
            print_event(fact)
        if not facts:
            return
        after = facts[-1].seq or last


@click.command("send")
@click.argument("run", metavar="RUN")
@click.argument("text", metavar="TEXT")
@click.option("--question", metavar="ID", help="The question it answers: its id or number.")
@click.option("--key", metavar="KEY", help="TEXT sent twice with the same key is delivered once.")
@click.option(
    "--interrupt", "policy", flag_value="interrupt", help="Deliver TEXT by halting the turn."
)
@click.option("--steer", "policy", flag_value="steer", help="Deliver TEXT with the next request.")
@click.option("--queue", "policy", flag_value="queue", help="Deliver TEXT when the state is done.")
@click.option(
    "--wait", "waits", is_flag=True, help="Wait until the run has accepted or refused it."
)
@takes(*RUNS)
def send(
    options: Options,
    run: str,
    text: str,
    question: str | None,
    key: str | None,
    policy: Policy | None,
    waits: bool,
) -> int:
    """Tell a run something: the answer to its only question, or unasked words. `-` reads stdin."""
    text = read_if_dash(text)
    if not text.strip():
        raise UserMistake("There is nothing to send.", hint="midstream send RUN TEXT")
    if question is not None and policy is not None:
        raise UserMistake(
            "--question cannot be combined with --interrupt, --steer or --queue.",
            hint="Leave one of them out.",
        )

    async def work(journal: Journal) -> int:
        kept = await found(journal.store, run)
        id = kept.id
        if kept.is_foreign:
            raise UserMistake(
                f"Run {id} was imported: it would never read your line.",
                hint=f"Fork it and talk to the fork: midstream fork {id} --at {kept.seq}",
            )
        async with journal.attached(id) as machine:
            if question is None and policy is None:
                _refuse_several(machine.run, text)
            receipt = await machine.say(
                text,
                question=None if question is None else _question_id(machine.run, question),
                policy=policy,
                source="send",
                id=key,
            )
            record = machine.run.inbox.lines.get(receipt.input_id)
            answer(options, receipt_object(id, receipt, record), receipt_line(id, receipt, record))
            code = code_of(receipt, record, waited=False)
            if not waits or code != FINISHED:
                return code
            record = await machine.disposed(receipt.input_id)
            told = disposition_object(id, receipt.input_id, record)
            answer(options, told, disposition_line(record))
            return code_of(receipt, record, waited=True)

    return with_journal(options, work)


def _refuse_several(run: Run, words: str) -> None:
    """Raise UserMistake where several questions are open and nothing says which is meant."""
    try:
        spoken(words, run)
    except UserMistake:
        asked = [question for question in run.inbox.open_questions if question.kind == "question"]
        listed = "; ".join(map(question_line, asked))
        raise UserMistake(
            f"Run {run.id} asks several questions: {listed}.",
            hint="Say which you answer: --question 2.",
        ) from None


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


@click.command("stop")
@click.argument("run", metavar="RUN")
@takes(*RUNS)
def stop(options: Options, run: str) -> int:
    """End a run, whoever runs it."""

    async def work(journal: Journal) -> int:
        kept = await found(journal.store, run)
        unheard: list[str] = []
        if kept.summary.is_over:
            how = f"has ended already: {kept.summary.status}"
        else:
            how = "is stopped"
            if kept.owner:
                async with journal.attached(kept.id) as machine:
                    await machine.stop(STOPPED_FROM_OUTSIDE)
            else:
                await stop_here(journal.store, journal.clock, kept.id, reason=STOPPED_FROM_OUTSIDE)
            ended = await opened(journal.store, kept.id)
            unheard += [mail.text for mail in await refused(journal.store, ended)]
        told = {"type": "stopped", "run": kept.id, "text": how, "unheard": unheard}
        lines = (f"Run {kept.id} {how}.", *(f"Not delivered: {text}" for text in unheard))
        answer(options, told, *lines)
        return FINISHED

    return with_journal(options, work)


@click.command("blob")
@click.argument("key", metavar="KEY")
@takes(*RUNS)
def blob(options: Options, key: str) -> int:
    """Write what the journal keeps under a key: what a file held, a picture, the whole of a long text."""
    if not re.fullmatch("[0-9a-f]{8,64}", key):
        raise UserMistake(
            f"{key} is no key: one has 64 digits, 0 to 9 and a to f; the first 8 are enough.",
            hint="`midstream events RUN --json` has those of files: before and after.",
        )
    data = with_journal(options, lambda journal: journal.store.get(key))
    if options.is_json:
        base64 = b64encode(data).decode()
        key = hashlib.sha256(data).hexdigest()
        say_object({"type": "blob", "key": key, "size": len(data), "base64": base64})
    else:
        write_bytes(data)
    return FINISHED

"""Journals from the command line: runs carried over into another one, and old ones put away."""

import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TypeAlias

import click
import msgspec

from midstream.app.assembly import Options, copy_mark, opened_store, placement_here
from midstream.cli.journal import Journal, with_journal
from midstream.cli.options import JSON, takes
from midstream.cli.output import FAILED, FINISHED, answer, say
from midstream.config.manager import ConfigManager
from midstream.config.private_files import make_private
from midstream.core.costs import counted
from midstream.language.errors import UserMistake
from midstream.runtime.engine.journal_copy import Copied, copied, put_away
from midstream.runtime.storage import Store
from midstream.system.offloop import in_thread
from midstream.system.own_process import HANGUPS, run_until_signalled

_DAY_S = 86_400.0


class Swept(msgspec.Struct, frozen=True):
    """How many contents were deleted that nothing names any more."""

    contents: int


@click.group("journal")
def journal() -> None:
    """Copy runs from one journal to another, or put old ones away."""


@journal.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@takes(*JSON)
def copy(options: Options, source: str, target: str) -> int:
    """Copy all runs of a journal into another. Each is a file, or postgresql://user@host/database.

    Nothing of FROM is changed. Begun again it goes on: only what is missing there is added.
    """
    here, there = _journal_at(source), _journal_at(target)
    _require_two(here, there)
    if not here.database and not here.journal.exists():
        raise UserMistake(f"There is no journal {here.journal}.", hint="Name a file that is there.")

    async def work() -> Counted:
        async with AsyncExitStack() as stack:
            source_store = await in_thread(partial(opened_store, here))
            stack.push_async_callback(source_store.aclose)
            if not (there.database or there.journal.exists()):
                make_private(there.journal.parent)
                copy_mark(there.journal).touch(0o600)
            target_store = await in_thread(partial(opened_store, there, is_copied_to=True))
            stack.push_async_callback(target_store.aclose)
            done = await _told(options, copied(source_store, target_store, placement_here()))
            if not there.database:
                copy_mark(there.journal).unlink(missing_ok=True)
            return done

    done = run_until_signalled(work(), signals=(signal.SIGINT, *HANGUPS))
    return _ended(options, done, f"in {there.journal_shown}")


@journal.command("prune")
@click.option(
    "--older-than",
    "days",
    type=click.FloatRange(min=0),
    required=True,
    metavar="DAYS",
    help="Only runs whose last event is older.",
)
@click.option("--archive", metavar="JOURNAL", help="Copy them there first: a file or a database.")
@click.option("--dry-run", is_flag=True, help="Say which, and change nothing.")
@takes(*JSON)
def prune(options: Options, days: float, archive: str | None, dry_run: bool) -> int:
    """Delete runs that ended long ago. Where an archive is named they are in it first."""
    before = time.time() - days * _DAY_S
    place = None if archive is None else _journal_at(archive)
    if place is not None:
        _require_two(ConfigManager(options.workspace), place)

    async def work(journal: Journal) -> Counted:
        async with AsyncExitStack() as stack:
            kept: Store | None = None
            if place is not None and not dry_run:
                opened = await in_thread(partial(opened_store, place))
                stack.push_async_callback(opened.aclose)
                kept = opened
            doing = put_away(journal.store, kept, before, placement_here(), is_dry=dry_run)
            done = await _told(options, doing)
            if not dry_run:
                swept = Swept(contents=await journal.store.sweep())
                words = f"Deleted: {counted(swept.contents, 'file')} that nothing names any more."
                answer(options, swept, *([words] if swept.contents else []))
            return done

    done = with_journal(options, work)
    return _ended(options, done, "would go" if dry_run else "gone")


def _journal_at(named: str) -> ConfigManager:
    """Return settings whose journal is the one of that name: a file, or the address of a database."""
    config = ConfigManager(Path.cwd())
    config.keep_runs_in(named)
    return config


def _require_two(here: ConfigManager, there: ConfigManager) -> None:
    """Refuse one journal in two places. (Two names of one database are noticed at its first run.)

    Raises:
        UserMistake: it is the same file, or the same address.
    """
    is_same = here.journal_shown == there.journal_shown
    if not is_same and not (here.database or there.database):
        with contextlib.suppress(OSError):
            is_same = os.path.samefile(here.journal, there.journal)
    if is_same:
        raise UserMistake(
            f"{there.journal_shown} is the journal itself.", hint="Name another one to copy to."
        )


Counted: TypeAlias = tuple[int, int]
"""How many runs there were, and how many of them were left alone."""


async def _told(options: Options, doing: AsyncIterator[Copied]) -> Counted:
    """Say what becomes of each run as it does."""
    done = left = 0
    async for each in doing:
        done += 1
        left += each.outcome == "left"
        if options.is_json:
            answer(options, each)
        elif each.outcome == "left":
            say(f"{each.run}: left as it is. {each.why}")
        elif each.outcome != "same":
            say(f"{each.run}: {counted(each.facts, 'event')} {each.outcome}")
    return done, left


def _ended(options: Options, counts: Counted, where: str) -> int:
    """Say how many it were; the exit code says whether all went well."""
    done, left = counts
    if not options.is_json:
        more = f", {left} left alone" if left else ""
        say(f"{counted(done - left, 'run')} {where}{more}.")
    return FAILED if left else FINISHED

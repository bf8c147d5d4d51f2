"""Commands of machines that share their runs: be a worker, and see who else is one."""

import asyncio
import contextlib
import os
import signal
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import click
import msgspec

from midstream._version import __version__
from midstream.app.assembly import Options, SystemClock, opened_store, sockets_folder
from midstream.app.worker_lines import worker_lines, worker_object, workers_of
from midstream.cli.journal import Journal, with_journal
from midstream.cli.options import JSON, RUNS, takes
from midstream.cli.output import FINISHED, note, say, say_object
from midstream.config.directories import host_name
from midstream.config.manager import ConfigManager
from midstream.language.errors import MidstreamError
from midstream.runtime.storage import Store, WorkerInfo
from midstream.system.offloop import in_thread
from midstream.system.own_process import (
    HANGUPS,
    load_without_collecting,
    run_until_signalled,
    settle_memory,
)
from midstream.views.cells import one_line

if TYPE_CHECKING:
    from midstream.worker.worker import Kind, Leaving, Worker

_AGAIN_S: Final = 2.0


@click.command("worker")
@click.option("--queues", multiple=True, metavar="NAMES", help="Serve these queues alone: a,b.")
@click.option(
    "--max-runs",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    metavar="N",
    help="Drive so many runs at once.",
)
@click.option(
    "--workspaces", multiple=True, metavar="GLOB", help="Take runs of these folders alone: /srv/*."
)
@click.option(
    "--trust-repositories",
    multiple=True,
    metavar="GLOB",
    help="Use the .midstream/ of repositories with such a URL: 'https://host/team/*'.",
)
@click.option("--host", metavar="NAME", help="This machine's name, by which its folders are known.")
@click.option("--health", metavar="HOST:PORT", help="Answer /healthz, /readyz and /metrics there.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Let what is under way end so long when told to leave.",
)
@takes(*JSON)
def worker(
    options: Options,
    queues: tuple[str, ...],
    max_runs: int,
    workspaces: tuple[str, ...],
    trust_repositories: tuple[str, ...],
    host: str | None,
    health: str | None,
    grace: float,
) -> int:
    """Take runs of a journal that machines share, and drive them until told to leave.

    The first SIGTERM or Ctrl-C gives its runs back, the second at once. The journal is the one of
    MIDSTREAM_JOURNAL=postgresql://...; the settings, models and keys are those of this machine and of
    each folder.
    """
    from midstream.worker.health import address_of

    info = WorkerInfo(
        owner="",
        host=host or host_name(os.environ),
        pid=os.getpid(),
        version=__version__,
        since=SystemClock().now(),
        max_runs=max_runs,
        queues=tuple(name for each in queues for name in each.split(",") if name),
        workspaces=workspaces,
    )
    address = None if health is None else address_of(health)
    load_without_collecting()
    run_until_signalled(_lives(options, info, address, grace, trust_repositories), signals=())
    return FINISHED


async def _lives(
    options: Options,
    info: WorkerInfo,
    health: tuple[str, int] | None,
    grace_s: float,
    trusts: tuple[str, ...],
) -> None:
    """Be a worker, and another one where the journal was lost for a while, until told to leave."""
    from midstream.runtime.engine.hand_over import pool_of
    from midstream.system.guard import own_guard
    from midstream.worker.health import answering
    from midstream.worker.worker import Leaving, Worker

    leaving = Leaving()
    loop = asyncio.get_running_loop()
    # Elsewhere (Windows) the loop knows no signals, and they end the process as ever.
    for number in (signal.SIGINT, *HANGUPS) if os.name == "posix" else ():
        loop.add_signal_handler(number, leaving.ask, grace_s)
    config = await in_thread(lambda: ConfigManager(options.workspace))
    first = await in_thread(lambda: opened_store(config))
    store: Store | None = first
    guard = own_guard()
    now: list[Worker] = []
    try:
        pool_of(first)
        await guard.watch(lambda words: note(f"midstream: {words}"))
        async with AsyncExitStack() as serving:
            if health is not None:
                pages = {"healthz": "health", "readyz": "readiness", "metrics": "metrics"}
                answers = {f"/{page}": partial(_answer, now, name) for page, name in pages.items()}
                at = await serving.enter_async_context(answering(*health, answers))
                _log(options, "began", f"health at http://{at}/healthz", address=at)
            while store is not None:
                one = Worker(
                    store,
                    msgspec.structs.replace(info, owner=store.me),
                    leaving,
                    partial(_log, options),
                    sockets=sockets_folder(config) if store.is_lasting else None,
                    lives=guard.beat,
                    lost=guard.rest,
                    trusts=trusts,
                )
                now[:] = [one]
                _log(
                    options,
                    "began",
                    f"worker {store.me} on {info.host}, up to {info.max_runs} runs",
                )
                settle_memory()
                await one.run()
                await store.aclose()
                store = await _opened_again(options, config, leaving)
            _log(options, "left", "left")
    finally:
        if store is not None:
            await store.aclose()
        await in_thread(guard.close)


def _answer(now: "list[Worker]", name: str) -> tuple[int, str]:
    answer: tuple[int, str] = getattr(now[0], name)() if now else (503, "it starts\n")
    return answer


async def _opened_again(
    options: Options, config: ConfigManager, leaving: "Leaving"
) -> Store | None:
    """Return the store, opened anew as soon as it can be; None once the worker is to leave."""
    is_told = False
    while not leaving.begun.is_set():
        try:
            return await in_thread(lambda: opened_store(config))
        except MidstreamError as error:
            if not is_told:
                _log(options, "trouble", f"the journal cannot be opened: {error}")
            is_told = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN_S):
                await leaving.begun.wait()
    return None


def _log(options: Options, kind: "Kind", text: str, /, **more: str | float | bool) -> None:
    """Write what a worker did: one event a line."""
    at = datetime.now(UTC)
    if options.is_json:
        say_object({"type": kind, "at": at.timestamp(), "text": text, **more})
    else:
        say(one_line(f"{at:%Y-%m-%dT%H:%M:%SZ} {text}"))


@click.command("workers")
@takes(*RUNS)
def workers(options: Options) -> int:
    """List the workers that live: where they are, and which runs they have."""

    async def work(journal: Journal) -> int:
        found = await workers_of(journal.store)
        if options.is_json:
            say_object(*map(worker_object, found))
        else:
            say(*worker_lines(found, now=SystemClock().now()))
        return FINISHED

    return with_journal(options, work)

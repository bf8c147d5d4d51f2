"""The folders a worker works in: an engine for each, with that folder's settings, tools and trust.

All of them are of one owner. A folder is opened as a command there would open it: what is not trusted
there is not used, and a run that would need it is refused. A run of a repository has one of its own (see
`runtime.run_place`), which is trusted if the worker was told to trust that repository.
"""

import asyncio
import os
import shlex
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from midstream.app.assembly import Options, Parts, configured, parts
from midstream.config.directories import user_state_dir
from midstream.config.open_settings import require_trust
from midstream.language.errors import NotTrusted, UserMistake
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.owner import Owner
from midstream.runtime.places import opened_place
from midstream.runtime.storage import KeptRun, Placement
from midstream.safety.redaction import secret_values
from midstream.system.offloop import in_thread
from midstream.system.workspace_paths import places_folder

IDLE_S = 30.0
"""Seconds that a folder without runs stays open: its settings are read anew after that."""


class Folders:
    """The open folders of an owner.

    Args:
        owner: whose runs they are.
        on_open: hears of each engine before a run of it begins.
        make: makes the parts of a folder's engine.
        trusts: patterns of the URLs of repositories whose own files are trusted.
    """

    def __init__(
        self,
        owner: Owner,
        on_open: Callable[[LocalEngine], None],
        make: Callable[..., Parts] = parts,
        trusts: Sequence[str] = (),
    ) -> None:
        self._owner = owner
        self._on_open = on_open
        self._make = make
        self._trusts = trusts
        self._open: dict[Path, Parts] = {}
        self._users: dict[Path, int] = {}
        self._doors: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        self._idle: dict[Path, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def opened(self, folder: Path) -> Parts:
        """Return the parts of a folder, in use until `left`.

        Raises:
            NotTrusted: it has files of its own that nobody has trusted.
            UserMistake: there is no such folder, or its settings cannot be read.
        """
        lock = self._doors.setdefault(folder, asyncio.Lock())
        async with lock:
            if (idle := self._idle.pop(folder, None)) is not None:
                idle.cancel()
            if folder not in self._open:
                made = await in_thread(lambda: self._made(folder))
                self._on_open(made.engine)
                self._open[folder] = made
            self._users[folder] = self._users.get(folder, 0) + 1
            return self._open[folder]

    @asynccontextmanager
    async def placed(self, run: KeptRun, placement: Placement) -> AsyncIterator[Parts]:
        """Give the parts of the folder of a run of a repository, its files as the run has kept them.

        The folder stays, for the next time, unless the run has ended.

        Raises:
            NotTrusted: the repository has files of its own that this worker was not told to trust.
            UserMistake: it is none that may be fetched, or has no such commit.
            WorldTrouble: it cannot be reached, or what the run has kept is not there.
        """
        is_trusted = any(fnmatchcase(placement.repository, each) for each in self._trusts)
        store = self._owner.store
        place = await opened_place(
            *(store, store, run.id, placement, user_state_dir(os.environ)),
            began_at=run.summary.started_at,
            secret=secret_values(os.environ),
            allows_files=is_trusted,
        )
        try:
            made = await in_thread(lambda: self._made(place.path, trusts=is_trusted))
            try:
                made.engine.world = msgspec.structs.replace(made.engine.world, place=place)
                self._on_open(made.engine)
                yield made
            finally:
                await made.close()
        finally:
            await place.let_go()
            kept = await store.run(run.id)
            if kept is not None and kept.summary.is_over:
                await place.remove()

    async def prune(self) -> None:
        """Take the folders away of runs of repositories that have ended, on whatever machine."""
        folder = places_folder(user_state_dir(os.environ))
        names = await in_thread(lambda: os.listdir(folder) if folder.is_dir() else [])
        for name in names:
            kept = await self._owner.store.run(name.partition(".")[0])
            if kept is not None and kept.summary.is_over:
                await in_thread(partial(shutil.rmtree, folder / name, ignore_errors=True))

    def left(self, folder: Path) -> None:
        """Use a folder no more: it is closed after a while in which no run of it comes."""
        self._users[folder] -= 1
        if not self._users[folder]:
            loop = asyncio.get_running_loop()
            self._idle[folder] = loop.call_later(IDLE_S, self._close, folder)

    async def close(self) -> None:
        """Close every folder. Nobody uses one any more."""
        for idle in self._idle.values():
            idle.cancel()
        for folder in tuple(self._open):
            self._close(folder)
        if self._closing:
            await asyncio.wait(tuple(self._closing))

    def _made(self, folder: Path, *, trusts: bool | None = None) -> Parts:
        if not folder.is_dir():
            raise UserMistake(
                f"There is no folder {folder} on this machine.",
                hint="Its runs go on where it is: name that machine's worker with --host.",
            )
        options = Options(workspace=folder, journal="needed", trusts_workspace=trusts or None)
        config = configured(options)
        try:
            require_trust(config)
        except NotTrusted as error:
            if trusts is None:
                raise NotTrusted(
                    error.what,
                    hint="Look at it and trust it on this machine, as the worker's user: "
                    f"midstream trust --workspace {shlex.quote(str(folder))}",
                ) from None
            raise NotTrusted(
                f"{error.what} It is that of a repository this worker was not told to trust.",
                hint="midstream worker --trust-repositories URL, or a pattern of several.",
            ) from None
        return self._make(config, options, owner=self._owner)

    def _close(self, folder: Path) -> None:
        self._idle.pop(folder, None)
        task = asyncio.create_task(self._open.pop(folder).close(), name=f"close {folder}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

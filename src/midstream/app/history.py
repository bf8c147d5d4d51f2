"""The history of the active run: going back in it and forward again, and what it did to files."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from midstream.app.background_runs import Background
from midstream.app.switching import Switching
from midstream.core.events import FileWritten, RunStarted
from midstream.core.notices import Envelope
from midstream.language.errors import MidstreamError, UserMistake
from midstream.runtime.ports import Machine
from midstream.views.side_effects import TREE, ChangedFile
from midstream.views.turns import Turn

if TYPE_CHECKING:
    from midstream.runtime.engine.run_repository import Travelled


class History:
    """What became of the active run so far, and going back in it.

    What cannot be done raises `UserMistake`, unchanged.

    Args:
        switching: what lines go to.
        background: the runs of the workspace, wherever they live.
        workspace: the folder names of files are told without.
    """

    def __init__(self, switching: Switching, background: Background, workspace: str) -> None:
        self._switching = switching
        self._runs = switching.runs
        self._ui = switching.ui
        self._background = background
        self._workspace = workspace
        self._written: dict[str, dict[str, None]] = {}
        self._looked_up: set[str] = set()
        self._looking: set[asyncio.Task[None]] = set()

    # --- going back, and forward again -------------------------------------------------------

    async def fork(self, at: int | None) -> None:
        """Go on in a copy of the active run as it was after fact `at`; the run itself stays."""
        async with self._switching.travelling:
            machine = self._here()
            await self._travelled(await self._runs.repository.fork(machine.run.id, at))

    async def undo(self, *, keeps_files: bool = False) -> None:
        """Take back the last turn of the active run, and its file changes unless `keeps_files`."""
        async with self._switching.travelling:
            machine = self._here()
            kept_by = self._runs.repository
            await self._travelled(await kept_by.undo(machine, keeps_files=keeps_files))

    async def turns(self) -> tuple[Turn, ...]:
        """Return the turns of the active run that words began, the newest first."""
        machine = self._here()
        return (await self._runs.repository.turns(machine.run.id))[::-1]

    async def back(self, turn: Turn) -> None:
        """Go back to before a turn of the active run, files too, and hand its words back."""
        async with self._switching.travelling:
            machine = self._here()
            if machine.run.id != turn.run:
                raise UserMistake(
                    "Another run is the active one now.", hint="/back lists its turns."
                )
            await self._travelled(await self._runs.repository.undo(machine, at=turn.at))
            self._ui.hand(turn.words)

    async def redo(self) -> None:
        """Go forward again from an undo, if nothing was said or changed since."""
        async with self._switching.travelling:
            machine = self._here()
            await self._travelled(await self._runs.repository.redo(machine))

    async def put_back(self) -> None:
        """Put files back that the run wrote after the point last gone back to."""
        async with self._switching.travelling:
            self._ui.say("\n".join(await self._runs.repository.put_back()))

    def _here(self) -> Machine:
        machine = self._switching.active()
        if machine is None:
            raise UserMistake("Nothing has run here yet.", hint="Say something first.")
        if self._runs.is_watched(machine):
            raise UserMistake("That run is in another process.", hint="Do it there.")
        return machine

    async def _travelled(self, result: "Travelled") -> None:
        for line in result.told:
            self._ui.say(line, kind="note")
        await self._runs.listed()
        if not result.id:
            return
        self._switching.has_seen(result.id)
        await self._background.come_to(result.id, "", is_told=True)

    # --- looking back ---------------------------------------------------------------------------

    async def facts(self) -> Sequence[Envelope]:
        """Return the facts of the active run so far, in order; none where nothing was said yet."""
        machine = self._switching.active()
        return () if machine is None else await self._runs.parts.store.read(machine.run.id)

    async def changes(self) -> tuple[ChangedFile, ...]:
        """Return what the active run has made of files, in the order it first wrote them."""
        machine = self._switching.active()
        if machine is None:
            return ()
        return await self._runs.repository.changes(machine.run.id, machine.run)

    async def export(self, file: str) -> str:
        """Write the active run as one file, "" for a name made of its id; return where it is."""
        machine = self._switching.active()
        if machine is None:
            raise UserMistake("Nothing has run here yet.", hint="Say something first.")
        return await self._runs.repository.export(machine.run.id, file)

    def written(self) -> list[str]:
        """Return the names of the files the active run has written, as known now, the last first.

        Of a run of an earlier process they are known a moment after the first look.
        """
        machine = self._switching.active()
        if machine is None:
            return []
        id = machine.run.id
        if id not in self._looked_up:
            # It began where nobody here listened. What it wrote until now is read once.
            self._looked_up.add(id)
            task = asyncio.create_task(self._look_up(id))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)
        return list(reversed(self._written.get(id, {})))

    def on_event(self, envelope: Envelope) -> None:
        """Remember which files a run writes."""
        match envelope.event:
            case RunStarted():
                self._looked_up.add(envelope.run)
            case FileWritten(call_id=call_id, path=path) if call_id != TREE:
                self._note(envelope.run, path)
            case _:
                pass

    async def close(self) -> None:
        """Leave nothing behind."""
        for task in tuple(self._looking):
            task.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)

    async def _look_up(self, id: str) -> None:
        try:
            facts = await self._runs.parts.store.read(id)
        except MidstreamError:
            return  # what cannot be read is no completion; `/diff` itself says why
        since = list(self._written.pop(id, {}))
        written = (fact.event for fact in facts if isinstance(fact.event, FileWritten))
        before = [each.path for each in written if each.call_id != TREE]
        for path in (*before, *since):
            self._note(id, path)

    def _note(self, run: str, path: str) -> None:
        # Not needed before the prompt is on the screen.
        from midstream.views.side_effects import short_path

        names = self._written.setdefault(run, {})
        name = short_path(path, self._workspace)
        names.pop(name, None)
        names[name] = None  # the one written last comes last

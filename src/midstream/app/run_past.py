"""The past of the active run: going back in it and forward again, and what it did to files."""

import asyncio
from collections.abc import Sequence

from midstream.app.background_runs import Background
from midstream.app.run_access import Prompt, Travelled
from midstream.core.events import FileWritten, RunStarted
from midstream.core.notices import Envelope
from midstream.language.errors import MidstreamError, UserMistake
from midstream.runtime.ports import ChangedFile, Face, Machine
from midstream.views.turns import Turn


class Past:
    """See the port `PastOperator`.

    Args:
        prompt: the console's prompt.
        face: where it is told.
        background: the runs of the workspace, wherever they live.
        workspace: the folder names of files are told without.
    """

    def __init__(self, prompt: Prompt, face: Face, background: Background, workspace: str) -> None:
        self._prompt = prompt
        self._face = face
        self._background = background
        self._workspace = workspace
        # One goes back or forward at a time, and what is typed meanwhile is for where that leads.
        self._travelling = asyncio.Lock()
        self._written: dict[str, dict[str, None]] = {}
        self._looked_up: set[str] = set()
        self._looking: set[asyncio.Task[None]] = set()

    # --- going back, and forward again -------------------------------------------------------

    async def fork(self, at: int | None) -> None:
        """Go on in a copy of the active run; see the port."""
        async with self._travelling:
            machine = self._here()
            await self._travelled(await self._background.kept_by().fork(machine.run.id, at))

    async def undo(self, *, keeps_files: bool = False) -> None:
        """Take back the last turn of the active run; see the port."""
        async with self._travelling:
            machine = self._here()
            kept_by = self._background.kept_by()
            await self._travelled(await kept_by.undo(machine, keeps_files=keeps_files))

    async def turns(self) -> tuple[Turn, ...]:
        """Return the turns of the active run; see the port."""
        machine = self._here()
        return (await self._background.kept_by().turns(machine.run.id))[::-1]

    async def back(self, turn: Turn) -> None:
        """Go back to before a turn; see the port."""
        async with self._travelling:
            machine = self._here()
            if machine.run.id != turn.run:
                raise UserMistake(
                    "Another run is the active one now.", hint="/back lists its turns."
                )
            await self._travelled(await self._background.kept_by().undo(machine, at=turn.at))
            self._face.hand(turn.words)

    async def redo(self) -> None:
        """Go forward again; see the port."""
        async with self._travelling:
            machine = self._here()
            await self._travelled(await self._background.kept_by().redo(machine))

    async def put_back(self) -> None:
        """Put files back; see the port."""
        async with self._travelling:
            self._face.say("\n".join(await self._background.kept_by().put_back()))

    @property
    def is_travelling(self) -> bool:
        """Return whether somebody is on the way back or forward."""
        return self._travelling.locked()

    async def arrived(self) -> None:
        """Return once nobody is on the way back or forward any more."""
        async with self._travelling:
            pass

    def _here(self) -> Machine:
        machine = self._prompt.active()
        if machine is None:
            raise UserMistake("Nothing has run here yet.", hint="Say something first.")
        if machine in self._background.watched():
            raise UserMistake("That run is in another process.", hint="Do it there.")
        return machine

    async def _travelled(self, result: Travelled) -> None:
        for line in result.told:
            self._face.say(line, kind="note")
        await self._background.listed()
        if not result.id:
            return
        self._prompt.has_seen(result.id)
        await self._background.come_to(result.id, "", is_told=True)

    # --- looking back ---------------------------------------------------------------------------

    async def facts(self) -> Sequence[Envelope]:
        """Return the facts of the active run; see the port."""
        machine = self._prompt.active()
        return () if machine is None else await self._background.facts_of(machine.run.id)

    async def changes(self) -> tuple[ChangedFile, ...]:
        """Return what the active run has made of files; see the port."""
        machine = self._prompt.active()
        if machine is None:
            return ()
        return await self._background.kept_by().changes(machine.run.id)

    async def export(self, file: str) -> str:
        """Write the active run as one file; see the port."""
        machine = self._prompt.active()
        if machine is None:
            raise UserMistake("Nothing has run here yet.", hint="Say something first.")
        return await self._background.kept_by().export(machine.run.id, file)

    def written(self) -> list[str]:
        """Return the names of the files the active run has written; see the port."""
        machine = self._prompt.active()
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

    def hear(self, envelope: Envelope) -> None:
        """Remember which files a run writes."""
        match envelope.event:
            case RunStarted():
                self._looked_up.add(envelope.run)
            case FileWritten(path=path):
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
            facts = await self._background.facts_of(id)
        except MidstreamError:
            return  # what cannot be read is no completion; `/diff` itself says why
        since = list(self._written.pop(id, {}))
        before = [fact.event.path for fact in facts if isinstance(fact.event, FileWritten)]
        for path in (*before, *since):
            self._note(id, path)

    def _note(self, run: str, path: str) -> None:
        # Not needed before the prompt is on the screen.
        from midstream.views.side_effects import short_path

        names = self._written.setdefault(run, {})
        name = short_path(path, self._workspace)
        names.pop(name, None)
        names[name] = None  # the one written last comes last

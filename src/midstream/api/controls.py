"""What a person changes while an engine is open, as the console's /permissions, /model, /compact, /undo
and /cost do: for programs that stand between a person and their runs, such as an editor.
"""

import time
from functools import partial
from typing import TYPE_CHECKING

from midstream.language.errors import UserMistake
from midstream.language.names import Mode
from midstream.runtime.storage import walk
from midstream.safety.capability import PermissionMode
from midstream.system.offloop import in_thread
from midstream.views.spending import Spent

if TYPE_CHECKING:
    from midstream.app.assembly import Parts


class Controls:
    """The permission mode, the models and a person's own commands of one engine. See `Engine.controls`."""

    def __init__(self, parts: "Parts") -> None:
        self._parts = parts

    @property
    def start_mode(self) -> Mode:
        """Return what a console would begin with here: a role to chat with, or a workflow."""
        return self._parts.config.mode

    @property
    def is_untrusted(self) -> bool:
        """Return whether the workspace has files of its own that act and nobody trusts: only files are
        read then, whatever is said.
        """
        return self._parts.permissions.is_untrusted

    # --- permissions ------------------------------------------------------------------------

    @property
    def permission_mode(self) -> PermissionMode:
        """Return how much happens unasked now."""
        return self._parts.permissions.mode

    def use_permission_mode(self, mode: str) -> None:
        """Let more, or less, happen unasked from the next tool call on. Only a person's act may lead here.

        Raises:
            UserMistake: it is none of `plan`, `ask` and `auto`, or the workspace is not trusted.
        """
        self._parts.permissions.switch(mode)

    # --- models -----------------------------------------------------------------------------

    @property
    def model(self) -> str:
        """Return the model of the base level, or the one that stands for all."""
        return self._parts.models.describe()

    def models(self) -> tuple[str, ...]:
        """Return the models there are to choose from, as far as is known: those of the settings first."""
        known = (name for _, name in self._parts.models.known())
        return tuple(dict.fromkeys((self.model, *known, *self._parts.models.names())))

    async def look_for_models(self) -> None:
        """Find out, for `models`, which models this machine has and which the keys that are set lead to."""
        await self._parts.models.look_here()

    async def use_model(self, name: str | None) -> str:
        """Have a model answer from the next request on, None: those the settings name; return what speaks
        against it, "" for nothing.

        Raises:
            UserMistake: no model can be meant by that name, or its provider is not set up.
        """
        doubts = "" if name is None else await self._parts.models.doubts(name)
        self._parts.models.use(name)
        return doubts

    async def window(self) -> int | None:
        """Return how many tokens the model of the base level takes, None where that is not known."""
        return (await self._parts.models.window("base"))[1]

    # --- commands a person wrote ------------------------------------------------------------

    async def commands(self) -> dict[str, tuple[str, str]]:
        """Return the commands a person wrote: what each is for and what may stand behind it, by name."""
        from midstream.app.commands.table import words_of_commands
        from midstream.config.commands import written_commands

        found = await in_thread(partial(written_commands, self._parts.config, words_of_commands()))
        return {name: (each.description, each.arguments) for name, each in found.items()}

    async def text_of(self, line: str) -> str | None:
        """Return the text a line such as `/review src` stands for, None where no such command was written.

        What the command runs for it is run as the rules allow: nobody is asked.

        Raises:
            WorldTrouble: what it runs may not be run here.
        """
        from midstream.app.headless import Given, written

        found = await written(self._parts, line, Given())
        return None if found is None else found[0]

    # --- a run ------------------------------------------------------------------------------

    async def undo(self, id: str) -> tuple[str, tuple[str, ...]]:
        """Take back the last turn of a run of this engine, its changes of files, too.

        The run ends; a copy of it from before that turn is made. Returns the copy's id and what a person
        should hear of it, in lines. `Engine.resume` goes on with it.

        Raises:
            UserMistake: it does not live here, or has no turn to take back.
        """
        from midstream.runtime.engine.run_repository import WorkspaceRuns

        machine = self._parts.engine.machine(id)
        if machine is None:
            raise UserMistake("That run is in another process.", hint="Do it there.")
        gone = await WorkspaceRuns(self._parts.engine).undo(machine)
        return gone.id, gone.told

    async def left_by_undo(self, id: str) -> str:
        """Return the id of the run that is there after all that was taken back in a run: mostly its own."""
        store, here = self._parts.store, str(self._parts.engine.world.workspace)
        while (kept := await store.run(id)) is not None and kept.summary.status == "stopped":
            made = [each.id async for each in walk(store, workspace=here) if each.parent == id]
            if not made:
                break
            id = made[0]
        return id

    async def spent(self, *ids: str, since: float | None = None) -> list[Spent]:
        """Return what these runs used, and all of this workspace since a time (None: today, in UTC)."""
        from midstream.runtime.engine.run_costs import spent_here

        begins = time.time() // 86_400 * 86_400 if since is None else since
        engine = self._parts.engine
        here = engine.world.workspace
        return await spent_here(engine.store, here, since=begins, whole=set(ids))

    async def contents(self, key: str) -> bytes:
        """Return what a file held, by the key in a `file_written`.

        Raises:
            WorldTrouble: it is kept no more.
        """
        return await self._parts.store.get(key)

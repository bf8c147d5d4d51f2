"""Where lines go: the mode, the chats with roles, and the active workflow."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from midstream.app.commands.run_summary import run_line
from midstream.app.run_access import Keeping
from midstream.app.run_sentences import found_as, is_chat, is_done, name_of
from midstream.config.manager import ConfigManager
from midstream.config.newcomer import remember_coder
from midstream.core.run import Run
from midstream.language.errors import UserMistake
from midstream.language.mode import Mode
from midstream.language.names import Json
from midstream.language.nearest import did_you_mean
from midstream.language.spec import ToolSpec, chat_definition
from midstream.runtime.ports import Engine, Face, Library, Machine, McpOperator, Models, Permits
from midstream.system.offloop import in_thread
from midstream.views.run_status import where

HOME = "role:dude"


class Equipment(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the console works with once the slow parts are loaded.

    `keeping` None: there are no runs but those of this console.
    """

    engine: Engine
    library: Library
    models: Models
    tools: dict[str, ToolSpec]
    permits: Permits
    mcp: McpOperator | None = None
    keeping: Keeping | None = None


class Addressing:
    """Which run a line is for. What changes that holds `in_order` meanwhile.

    Args:
        config: the settings; a mode a person chooses is saved there.
        face: where it is told.
        allowed: tools that need no approval in runs this starts.
        has_read: called after files were read, which may have brought notices.
    """

    def __init__(
        self,
        config: ConfigManager,
        face: Face,
        *,
        allowed: Sequence[str],
        has_read: Callable[[], None],
    ) -> None:
        self.equipment: Equipment | None = None
        # Lines act in the order they were sent: the second must find the chat the first one began.
        self.in_order = asyncio.Lock()
        self.home = Mode.parse(HOME)
        self.mode = config.mode
        self.workflow: Machine | None = None
        self.ended: Machine | None = None
        """The active workflow that has ended, until something else is spoken to."""
        self.chats: dict[str, Machine] = {}
        self._config = config
        self._face = face
        self._allowed = tuple(allowed)
        self._has_read = has_read
        self._started_as: dict[str, str] = {}
        self._is_starting = False
        self.is_ending = False
        """Whether the person has the active workflow end just now."""
        self.is_beginning = True
        """Whether what the mode becomes follows from how the console was started: no choice of now."""
        self._saved = config.saved_mode
        self._saved_role = self._saved if self._saved and self._saved.kind == "role" else None
        self._saving: asyncio.Task[None] | None = None
        self._is_unsaved = False

    def equipped(self) -> Equipment:
        """Return the loaded parts.

        Raises:
            UserMistake: they are still being loaded.
        """
        if self.equipment is None:
            raise UserMistake("Still loading.", hint="Try again in a moment.")
        return self.equipment

    def active(self) -> Machine | None:
        """Return the run that lines go to now."""
        if self.mode.kind == "workflow":
            return self.workflow
        return self.chats.get(self.mode.name)

    def kept_up_with(self, machine: Machine) -> Callable[[], Run]:
        """Return what tells how a run stands, also once another machine goes on with it here."""
        newest = machine

        def stands() -> Run:
            nonlocal newest
            active = self.active()
            if active is not None and active.run.id == newest.run.id:
                newest = active
            return newest.run

        return stands

    def is_coming(self, machine: Machine) -> bool:
        """Return whether a workflow is just beginning, for lines to go to."""
        return self._is_starting and not is_chat(machine) and machine.run.id not in self._started_as

    def own_machines(self) -> tuple[Machine, ...]:
        """Return the runs that live in this console, the oldest first."""
        return () if self.equipment is None else self.equipment.engine.machines()

    async def addressee(self) -> Machine:
        """Return the run that words are for, a new chat where there is none yet."""
        machine = self.active()
        if machine is not None and not is_done(machine):
            self.ended = None
            return machine
        self.go_home()
        self.ended = None
        name = self.mode.name
        machine = self.chats.get(name)
        if machine is not None and not is_done(machine):
            return machine
        equipment = self.equipped()
        roles = equipment.library.roles()
        self._check_role(name)
        guidance = equipment.library.guidance()
        definition = chat_definition(name, roles[name], equipment.tools, guidance)
        machine = await equipment.engine.start(definition, allowed=self._allowed)
        self.chats[name] = machine
        return machine

    async def open(self, wanted: Mode, input: Json) -> bool:
        """Make ready what a mode speaks to; return whether it is there to be spoken to.

        A workflow that has ended at once is not.
        """
        if wanted.kind == "role":
            self._check_role(wanted.name)
            self.home, self.ended = wanted, None
            return True
        if input is not None or not self._returns_to(wanted.name):
            machine = await self._started(wanted.name, input)
            self.workflow, self.ended = (None, machine) if machine.run.is_over else (machine, None)
        return self.workflow is not None

    def place(self, machine: Machine) -> None:
        """Make a run the one its mode speaks to, and that the mode."""
        self.know(machine)
        self.ended = None
        if is_chat(machine):
            self.home = Mode("role", name_of(machine).removeprefix("role:"))
            self.choose_mode(self.home)
        else:
            self.workflow = machine
            self.choose_mode(Mode("workflow", self._started_as[machine.run.id]))

    def know(self, machine: Machine) -> None:
        """Let a run be found by what it was started as: a chat by its role from now on."""
        if is_chat(machine):
            self.chats[name_of(machine).removeprefix("role:")] = machine
        else:
            self._started_as.setdefault(machine.run.id, found_as(machine))

    def started_as(self, machine: Machine) -> str:
        """Return the name a workflow is gone back to by: its file's, which its own may differ from."""
        return self._started_as.get(machine.run.id, name_of(machine))

    def go_home(self) -> None:
        """Let lines go to the role again, if they go to a workflow."""
        if self.mode.kind == "workflow":
            if self.workflow is not None and self.workflow.run.is_over:
                self.ended = self.workflow
            self.workflow = None
            ended = self.mode
            self._set_mode(self.home)
            # Nobody chose a role now: the file says again what it did before the workflow was chosen.
            if self._saved == ended:
                self._save(self._saved_role)

    def choose_mode(self, mode: Mode) -> None:
        """Change the mode as a person wants it, and write it down soon."""
        self._set_mode(mode)
        if not self.is_beginning:
            if mode.kind == "role":
                self._saved_role = mode
            self._save(mode)

    async def saved(self) -> None:
        """Return when the mode is written down."""
        if self._saving is not None:
            await self._saving

    # --- inside -----------------------------------------------------------------------------

    def _check_role(self, name: str) -> None:
        roles = self.equipped().library.roles()
        if name not in roles:
            raise UserMistake(f"There is no role {name!r}.", hint=did_you_mean(name, roles))

    def _returns_to(self, name: str) -> bool:
        """Turn to a running workflow of that name, of several to the next; False if none is running."""
        running = [
            machine
            for machine in reversed(self.own_machines())
            if not (is_done(machine) or is_chat(machine))
            and self._started_as.get(machine.run.id) == name
        ]
        if not running:
            return False
        shown = [number for number, machine in enumerate(running) if machine is self.active()]
        self.workflow = running[(shown[0] + 1) % len(running) if shown else 0]
        self._face.say(f"Back to {run_line(self.workflow.run)}", kind="note")
        self._face.turned_to(self.workflow.run.id, where(self.workflow.run).questions)
        return True

    async def _started(self, name: str, input: Json) -> Machine:
        equipment = self.equipped()
        definition, handlers = await equipment.library.load(name)
        self._has_read()
        self._is_starting = True
        try:
            machine = await equipment.engine.start(
                definition, handlers=handlers, input=input, allowed=self._allowed
            )
            self._started_as[machine.run.id] = name
        finally:
            self._is_starting = False
        return machine

    def _set_mode(self, mode: Mode) -> None:
        self.mode = mode
        self._config.set_mode(mode, save=False)
        if (machine := self.active()) is not None:
            self._face.turned_to(machine.run.id, ())
        self._face.refresh()

    def _save(self, mode: Mode | None) -> None:
        self._saved = mode
        self._is_unsaved = True
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._save_mode())

    async def _save_mode(self) -> None:
        """Write the mode down off the loop; one that changed meanwhile is written after it."""
        while self._is_unsaved:
            self._is_unsaved = False
            notice = await in_thread(partial(self._config.save_mode, self._saved))
            await in_thread(partial(remember_coder, self._config))
            if notice:
                self._face.say(notice, kind="warning")

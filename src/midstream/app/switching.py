"""Which run lines go to: the mode, the chats with roles, the active workflow, and going to another."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from midstream.app.run_sentences import found_as, here_line, is_done, run_line
from midstream.app.runs import Runs
from midstream.app.ui import UI
from midstream.config.manager import ConfigManager
from midstream.config.newcomer import remember_coder
from midstream.core.guidance import AGENTS_FILE, is_outdated
from midstream.core.run import Run
from midstream.language.errors import UserMistake, did_you_mean
from midstream.language.names import Json, Mode, python_file
from midstream.language.spec import Definition
from midstream.runtime.ports import Machine
from midstream.system.offloop import in_thread
from midstream.views.run_status import asked

HOME = "role:dude"


class Switching:
    """The run lines go to, and whose history a person has on the screen. Changes hold `in_order`.

    Args:
        config: the settings; a mode a person chooses is saved there.
        ui: where it is shown.
        runs: the runs there are.
        allowed: tools that need no approval in runs this starts.
    """

    def __init__(
        self, config: ConfigManager, ui: UI, runs: Runs, *, allowed: Sequence[str] = ()
    ) -> None:
        # Lines act in the order they were sent: the second must find the chat the first one began.
        self.in_order = asyncio.Lock()
        # One goes back or forward at a time, and what is typed meanwhile is for where that leads.
        self.travelling = asyncio.Lock()
        self.home = Mode.parse(HOME)
        self.mode = config.mode
        self.workflow: Machine | None = None
        self.chats: dict[str, Machine] = {}
        self.offered_chats = 0
        """From how many chats the next line chooses one to go on with; 0: it is words like any others."""
        self.is_beginning = True
        """Whether what the mode becomes follows from how the console was started: no choice of now."""
        self.preparing: Machine | None = None
        """The commands of a written command, which are run before its text is sent."""
        self.runs = runs
        self.ui = ui
        self._config = config
        self._allowed = tuple(allowed)
        self._ended: Machine | None = None
        self._started_as: dict[str, str] = {}
        self._is_starting = False
        self._is_stopping = False
        self._saved = config.saved_mode
        self._saved_role = self._saved if self._saved and self._saved.kind == "role" else None
        self._saving: asyncio.Task[None] | None = None
        self._is_unsaved = False
        self._notified: set[str] = set()
        self._known: set[str] = set()
        self._on_screen: set[str] = set()
        self._cut: set[str] = set()

    # --- what lines go to -------------------------------------------------------------------

    def active(self) -> Machine | None:
        """Return the run that lines go to now, None in a chat nothing was said in yet.

        While commands are run before a text is sent, that is their run: its cards and Esc are meant.
        """
        if self.preparing is not None and not is_done(self.preparing):
            return self.preparing
        return self.spoken_to()

    def spoken_to(self) -> Machine | None:
        """Return the run that the mode speaks to, whatever is run before a text is sent."""
        if self.mode.kind == "workflow":
            return self.workflow
        return self.chats.get(self.mode.name)

    def ended(self) -> Machine | None:
        """Return the active workflow that has ended, until something else is spoken to."""
        return self._ended if self.mode.kind == "role" else None

    @property
    def is_ending(self) -> bool:
        """Return whether the person has the active run end just now, to be done with it or go back."""
        return self._is_stopping or self.travelling.locked()

    def is_coming(self, machine: Machine) -> bool:
        """Return whether a workflow is just beginning, for lines to go to."""
        return (
            self._is_starting and not machine.run.is_chat and machine.run.id not in self._started_as
        )

    def follow(self, machine: Machine) -> Callable[[], Run]:
        """Return what tells how a run stands, also once another machine goes on with it here."""
        newest = machine

        def stands() -> Run:
            nonlocal newest
            active = self.active()
            if active is not None and active.run.id == newest.run.id:
                newest = active
            return newest.run

        return stands

    async def addressee(self) -> Machine:
        """Return the run that words are for, a new chat where there is none yet."""
        await self.stop_preparing()
        machine = self.active()
        if machine is not None and not is_done(machine):
            self._ended = None
            return machine
        self.go_home()
        self._ended = None
        name = self.mode.name
        machine = self.chats.get(name)
        if machine is not None and not is_done(machine):
            return machine
        parts = self.runs.parts
        definition = parts.library.chat(name, parts.tools)
        machine = await parts.engine.start(definition, allowed=self._allowed)
        self.chats[name] = machine
        return machine

    async def prepare(
        self, definition: Definition, input: Json, *, approvals: Literal["ask", "deny"] = "ask"
    ) -> Run:
        """Return a run of commands once it has ended: by itself, by Esc, or by words or a turn elsewhere.

        What ran before another text of this kind is stopped. Where no person can be asked, what asks is
        refused: the lines behind it in a pipe are not kept waiting.
        """
        async with self.in_order:
            await self.stop_preparing()
            engine = self.runs.parts.engine
            machine = await engine.start(
                definition, input=input, allowed=self._allowed, approvals=approvals
            )
            self.preparing = machine
            self.ui.refresh()
        try:
            return await machine.wait()
        finally:
            if self.preparing is machine:
                self.preparing = None
            self.ui.refresh()

    async def stop_preparing(self) -> bool:
        """Stop what is run before a text is sent, which then is not; return whether there was any."""
        machine = self.preparing
        if machine is None or is_done(machine):
            return False
        await machine.stop()
        return True

    # --- going elsewhere --------------------------------------------------------------------

    async def enter(self, wanted: Mode, input: Json = None) -> None:
        """Go to a mode: to a role, or to a workflow, which starts with `input`.

        Raises:
            MidstreamError: it is not there to go to; nothing changed.
        """
        async with self.in_order:
            self.offered_chats = 0
            await self.stop_preparing()
            left = self.active()
            if await self.open(wanted, input):
                self._choose_mode(wanted)
            if left is not None and left is not self.active():
                self._leave_behind(left)

    async def open(self, wanted: Mode, input: Json) -> bool:
        """Make ready what a mode speaks to; return whether it is there to be spoken to.

        A workflow that has ended at once is not.
        """
        if wanted.kind == "role":
            self._check_role(wanted.name)
            self.home, self._ended = wanted, None
            return True
        if input is not None or not self._returns_to(wanted.name):
            machine = await self._start(wanted.name, input)
            self.workflow, self._ended = (None, machine) if machine.run.is_over else (machine, None)
        return self.workflow is not None

    async def turn_to(self, machine: Machine, *, is_told: bool = False) -> None:
        """Let lines go to a run, and show where it stands; of a chat not if `is_told` already."""
        async with self.in_order:
            self.offered_chats = 0
            await self.stop_preparing()
            left = self.active()
            self.recall(machine)
            self.place(machine)
            if left is not None and left is not machine:
                self._leave_behind(left)
                self._on_screen.discard(left.run.id)
            if machine.run.is_chat:
                self._show_history(machine)
            if not (is_told and machine.run.is_chat):
                was_cut = machine.run.id in self._cut
                self.ui.say(here_line(machine.run, was_cut=was_cut), kind="note")
            self._cut.discard(machine.run.id)
            self.ui.turned_to(machine.run.id, asked(machine.run))

    async def turn_home(self) -> None:
        """Let lines go to the role again; a run of another process is watched no more."""
        async with self.in_order:
            await self.stop_preparing()
            machine = self.active()
            if self.mode.kind == "workflow":
                self.go_home()
            else:
                self.chats.pop(self.mode.name, None)
            if machine is not None:
                await self.runs.forget(machine)
            self.ui.refresh()

    async def clear(self) -> None:
        """Leave the chat of the current role as it is, and begin a new one with the next line."""
        self.offered_chats = 0
        async with self.in_order:
            await self.stop_preparing()
            name = self.mode.name if self.mode.kind == "role" else self.home.name
            machine = self.chats.get(name)
            if machine is not None and not (is_done(machine) or self.runs.is_watched(machine)):
                # Before the chat is out of sight: what that cuts off is shown.
                await machine.halt()
            self.chats.pop(name, None)
            if machine is not None:
                self._on_screen.discard(machine.run.id)
                await self.runs.forget(machine)
            back = "" if machine is None else " /sessions goes back to the one before."
            self.ui.say(f"A new chat with {name} begins.{back}", kind="note")
            self.ui.refresh()

    async def stop_workflow(self) -> None:
        """End the active workflow and go back to the role it was started from."""
        async with self.in_order:
            machine = self.workflow
            if machine is None or machine.run.is_over:
                raise UserMistake("No workflow is active.", hint="/workflow NAME starts one.")
            self._is_stopping = True
            try:
                await machine.stop()
            finally:
                self._is_stopping = False
            self.go_home()

    def place(self, machine: Machine) -> None:
        """Make a run the one its mode speaks to, and that the mode."""
        self.know(machine)
        self._ended = None
        if machine.run.is_chat:
            self.home = Mode("role", machine.run.workflow_name.removeprefix("role:"))
            self._choose_mode(self.home)
        else:
            self.workflow = machine
            self._choose_mode(Mode("workflow", self._started_as[machine.run.id]))

    def know(self, machine: Machine) -> None:
        """Let a run be found by what it was started as: a chat by its role from now on."""
        if machine.run.is_chat:
            self.chats[machine.run.workflow_name.removeprefix("role:")] = machine
        else:
            self._started_as.setdefault(machine.run.id, found_as(machine))

    def go_home(self) -> None:
        """Let lines go to the role again, if they go to a workflow."""
        if self.mode.kind == "workflow":
            if self.workflow is not None and self.workflow.run.is_over:
                self._ended = self.workflow
            self.workflow = None
            ended = self.mode
            self._set_mode(self.home)
            # Nobody chose a role now: the file says again what it did before the workflow was chosen.
            if self._saved == ended:
                self._save(self._saved_role)

    # --- what is on the screen --------------------------------------------------------------

    def began(self, id: str) -> None:
        """Know that the UI hears of a run from its first event on."""
        self._known.add(id)
        self._on_screen.add(id)

    def recall(self, machine: Machine) -> None:
        """Let the UI know of a run that began where nobody listened."""
        if machine.run.id not in self._known:
            self._known.add(machine.run.id)
            self.ui.recall(machine.run)

    def comes_back(self, machine: Machine, *, was_cut: bool) -> None:
        """Show the history of a kept chat before anything else of it, and know how it ended there."""
        if was_cut:
            self._cut.add(machine.run.id)
        self._show_history(machine)

    def has_seen(self, id: str) -> None:
        """Know that a person has the history of a chat before them: it is not shown again."""
        self._on_screen.add(id)

    def notify(self, more: Sequence[str] = ()) -> None:
        """Say what is wrong with files read so far, each thing once: reading more brings more."""
        for notice in (*self._config.notices, *more):
            if notice not in self._notified:
                self._notified.add(notice)
                self.ui.say(notice, kind="warning")

    async def saved(self) -> None:
        """Return when the mode is written down."""
        if self._saving is not None:
            await self._saving

    # --- inside -----------------------------------------------------------------------------

    def _check_role(self, name: str) -> None:
        roles = self.runs.parts.library.roles()
        if name not in roles:
            raise UserMistake(f"There is no role {name!r}.", hint=did_you_mean(name, roles))

    def _returns_to(self, name: str) -> bool:
        """Turn to a running workflow of that name, of several to the next; False if none is running."""
        running = [
            machine
            for machine in reversed(self.runs.own())
            if not (is_done(machine) or machine.run.is_chat)
            and self._started_as.get(machine.run.id) == name
        ]
        if not running:
            return False
        shown = [number for number, machine in enumerate(running) if machine is self.active()]
        self.workflow = running[(shown[0] + 1) % len(running) if shown else 0]
        self.ui.say(f"Back to {run_line(self.workflow.run)}", kind="note")
        self.ui.turned_to(self.workflow.run.id, asked(self.workflow.run))
        return True

    async def _start(self, name: str, input: Json) -> Machine:
        parts = self.runs.parts
        definition, handlers = await parts.library.load(name)
        self.notify()  # reading the files may have brought notices
        self._is_starting = True
        try:
            machine = await parts.engine.start(
                definition, handlers=handlers, input=input, allowed=self._allowed
            )
            self._started_as[machine.run.id] = name
        finally:
            self._is_starting = False
        return machine

    def _leave_behind(self, machine: Machine) -> None:
        if is_done(machine) or machine.run.is_chat:
            return
        way = f"/workflow {self._started_as.get(machine.run.id, machine.run.workflow_name)}"
        if self.runs.is_watched(machine):
            way = f"/attach {self.runs.short(machine.run.id)}"
        does = "waits" if machine.run.is_parked else "goes on"
        words = f"{self.runs.named(machine)} {does} in the background: {way} returns to it."
        self.ui.say(words, kind="note")

    def _show_history(self, machine: Machine) -> None:
        if machine.run.id not in self._on_screen:
            self._on_screen.add(machine.run.id)
            self.ui.past(machine.run)
            self._warn_if_outdated(machine)

    def _warn_if_outdated(self, machine: Machine) -> None:
        """Say that a chat follows the AGENTS.md it began with, where that is another one now."""
        definition, library = machine.run.definition, self.runs.parts.library
        if definition is not None and is_outdated(definition, library.guidance()):
            words = f"{AGENTS_FILE} has changed: this chat still follows the version it began with."
            self.ui.say(f"{words} /clear begins a chat with the new version.", kind="note")

    def _choose_mode(self, mode: Mode) -> None:
        """Change the mode as a person wants it, and write it down soon."""
        self._set_mode(mode)
        # A file is started by whoever names it: no later start, perhaps in another folder, does.
        if not self.is_beginning and python_file(mode.name) is None:
            if mode.kind == "role":
                self._saved_role = mode
            self._save(mode)

    def _set_mode(self, mode: Mode) -> None:
        self.mode = mode
        self._config.set_mode(mode)
        if (machine := self.active()) is not None:
            self.ui.turned_to(machine.run.id, ())
        self.ui.refresh()

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
                self.ui.say(notice, kind="warning")

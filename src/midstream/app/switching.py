"""Turning from one run to another: what is left behind, and what is shown of the one turned to."""

from midstream.app.background_runs import Background
from midstream.app.chats import Sessions
from midstream.app.commands.run_summary import here_line
from midstream.app.destinations import Addressing
from midstream.app.run_sentences import is_chat, is_done
from midstream.core.guidance import AGENTS_FILE, is_outdated
from midstream.language.errors import UserMistake
from midstream.language.mode import Mode
from midstream.language.names import Json
from midstream.runtime.ports import Face, Machine
from midstream.views.run_status import where


class Turning:
    """Lets lines go to another run, and knows whose past a person has before them.

    Args:
        to: where lines go.
        face: where it is told.
        background: the runs that are not on the screen.
        sessions: the chats; turning anywhere chooses none of them.
    """

    def __init__(
        self, to: Addressing, face: Face, background: Background, sessions: Sessions
    ) -> None:
        self._to = to
        self._face = face
        self._background = background
        self._sessions = sessions
        self._known: set[str] = set()
        self._on_screen: set[str] = set()
        self._cut: set[str] = set()

    def began(self, id: str) -> None:
        """Know that the face hears of a run from its first event on."""
        self._known.add(id)
        self._on_screen.add(id)

    def recall(self, machine: Machine) -> None:
        """Let the face know of a run that began where nobody listened."""
        if machine.run.id not in self._known:
            self._known.add(machine.run.id)
            self._face.recall(machine.run)

    def comes_back(self, machine: Machine, *, was_cut: bool) -> None:
        """Show the past of a kept chat before anything else of it, and know how it ended there."""
        if was_cut:
            self._cut.add(machine.run.id)
        self._show_past(machine)

    def has_seen(self, id: str) -> None:
        """Know that a person has the past of a chat before them; see the port `Prompt`."""
        self._on_screen.add(id)

    async def enter(self, wanted: Mode, input: Json) -> None:
        """Go to a mode: to a role, or to a workflow, which starts with `input`.

        Raises:
            MidstreamError: it is not there to go to; nothing changed.
        """
        async with self._to.in_order:
            self._sessions.has_chosen()
            left = self._to.active()
            if await self._to.open(wanted, input):
                self._to.choose_mode(wanted)
            if left is not None and left is not self._to.active():
                self._leave_behind(left)

    async def stop_workflow(self) -> None:
        """End the active workflow and go back to the role it was started from."""
        async with self._to.in_order:
            machine = self._to.workflow
            if machine is None or machine.run.is_over:
                raise UserMistake("No workflow is active.", hint="/workflow NAME starts one.")
            self._to.is_ending = True
            try:
                await machine.stop()
            finally:
                self._to.is_ending = False
            self._to.go_home()

    async def turn_to(self, machine: Machine, *, is_told: bool) -> None:
        """Let lines go to a run, and show where it stands, unless a person was told (`is_told`)."""
        async with self._to.in_order:
            self._sessions.has_chosen()
            left = self._to.active()
            self.recall(machine)
            self._to.place(machine)
            if left is not None and left is not machine:
                self._leave_behind(left)
                self._on_screen.discard(left.run.id)
            if is_chat(machine):
                self._show_past(machine)
            if not (is_told and is_chat(machine)):
                was_cut = machine.run.id in self._cut
                self._face.say(here_line(machine.run, was_cut=was_cut), kind="note")
            self._cut.discard(machine.run.id)
            self._face.turned_to(machine.run.id, where(machine.run).questions)

    async def turn_home(self) -> None:
        """Let lines go to the role again; a run of another process is watched no more."""
        async with self._to.in_order:
            machine = self._to.active()
            if self._to.mode.kind == "workflow":
                self._to.go_home()
            else:
                self._to.chats.pop(self._to.mode.name, None)
            if machine is not None:
                await self._background.forget(machine)
            self._face.refresh()

    async def clear(self) -> None:
        """Leave the chat of the current role as it is, and begin a new one with the next line."""
        self._sessions.has_chosen()
        async with self._to.in_order:
            name = self._to.mode.name if self._to.mode.kind == "role" else self._to.home.name
            machine = self._to.chats.get(name)
            if (
                machine is not None
                and not is_done(machine)
                and machine not in self._background.watched()
            ):
                # Before the chat is out of sight: what that cuts off is shown.
                await machine.halt()
            self._to.chats.pop(name, None)
            if machine is not None:
                self._on_screen.discard(machine.run.id)
            if machine in self._background.watched():
                await self._background.forget(machine)
            back = "" if machine is None else " /sessions goes back to the one before."
            self._face.say(f"A new chat with {name} begins.{back}", kind="note")
            self._face.refresh()

    def _show_past(self, machine: Machine) -> None:
        if machine.run.id not in self._on_screen:
            self._on_screen.add(machine.run.id)
            self._face.past(machine.run)
            self._tell_outdated(machine)

    def _leave_behind(self, machine: Machine) -> None:
        if is_done(machine) or is_chat(machine):
            return
        way = f"/workflow {self._to.started_as(machine)}"
        if machine in self._background.watched():
            way = f"/attach {self._background.short(machine.run.id)}"
        name = self._background.named(machine)
        words = f"{name} goes on in the background: {way} returns to it."
        self._face.say(words, kind="note")

    def _tell_outdated(self, machine: Machine) -> None:
        """Say that a chat follows the AGENTS.md it began with, where that is another one now."""
        definition, library = machine.run.definition, self._to.equipped().library
        if definition is not None and is_outdated(definition, library.guidance()):
            words = f"{AGENTS_FILE} has changed: this chat still follows the version it began with."
            self._face.say(f"{words} /clear begins a chat with the new version.", kind="note")

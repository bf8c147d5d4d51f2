"""Turning from one run to another: what is left behind, and what is shown of the one turned to."""

from midstream.command.standing import here_line
from midstream.core.errors import UserMistake
from midstream.core.guidance import AGENTS_FILE, is_outdated
from midstream.core.mode import Mode
from midstream.core.names import Json
from midstream.core.views.status import where
from midstream.desk.addressing import Addressing
from midstream.desk.background import Background
from midstream.desk.sessions import Sessions
from midstream.desk.wording import is_chat, is_done, name_of
from midstream.ports import Face, Machine


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

    def began(self, id: str) -> None:
        """Know that the face hears of a run from its first event on."""
        self._known.add(id)
        self._on_screen.add(id)

    def recall(self, machine: Machine) -> None:
        """Let the face know of a run that began where nobody listened."""
        if machine.run.id not in self._known:
            self._known.add(machine.run.id)
            self._face.recall(machine.run)

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
                self._to.set_mode(wanted)
            if left is not None and left is not self._to.active():
                self._leave_behind(left)

    async def stop_workflow(self) -> None:
        """End the active workflow and go back to the role it was started from."""
        async with self._to.in_order:
            machine = self._to.workflow
            if machine is None or machine.run.is_over:
                raise UserMistake("No workflow is active.", hint="/workflow NAME starts one.")
            await machine.stop()
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
            if is_chat(machine) and machine.run.id not in self._on_screen:
                self._on_screen.add(machine.run.id)
                self._face.past(machine.run)
                self._tell_outdated(machine)
            if not (is_told and is_chat(machine)):
                self._face.say(here_line(machine.run), kind="note")
            self._face.turned_to(where(machine.run).questions)

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
            machine = self._to.chats.pop(name, None)
            if machine is not None:
                self._on_screen.discard(machine.run.id)
            if machine in self._background.watched():
                await self._background.forget(machine)
            elif machine is not None and not is_done(machine):
                await machine.halt()
            back = "" if machine is None else " /sessions goes back to the one before."
            self._face.say(f"The chat with {name} begins anew.{back}", kind="note")
            self._face.refresh()

    def _leave_behind(self, machine: Machine) -> None:
        if is_done(machine) or is_chat(machine):
            return
        way = f"/workflow {self._to.started_as(machine)}"
        if machine in self._background.watched():
            way = f"/attach {self._background.short(machine.run.id)}"
        words = f"{name_of(machine)} goes on in the background: {way} returns to it."
        self._face.say(words, kind="note")

    def _tell_outdated(self, machine: Machine) -> None:
        """Say that a chat follows the AGENTS.md it began with, where that is another one now."""
        definition, library = machine.run.definition, self._to.equipped().library
        if definition is not None and is_outdated(definition, library.guidance()):
            words = f"{AGENTS_FILE} has changed: this chat keeps to what it said when it began."
            self._face.say(f"{words} /clear begins one with what it says now.", kind="note")

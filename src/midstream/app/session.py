"""A session: what is under way in a console and what can be done with it. `/commands` act on it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from midstream.app.assembly import Parts
from midstream.app.background_runs import Background
from midstream.app.chats import Chats
from midstream.app.full_window import FullWindow
from midstream.app.history import History
from midstream.app.input import Input
from midstream.app.runs import Runs
from midstream.app.side_questions import SideQuestions
from midstream.app.status_line import StatusLine
from midstream.app.switching import Switching
from midstream.app.ui import UI
from midstream.config.manager import ConfigManager
from midstream.config.settings import AUTO_COMPACT
from midstream.core import events as e
from midstream.core.background import lost_commands, lost_words
from midstream.core.notices import Envelope, RunTaken
from midstream.runtime.ports import Machine
from midstream.views.listing import PIPE

if TYPE_CHECKING:
    from midstream.app.trust_request import TrustRequest


class Session:
    """The parts of a session, each with what it can do; they build on each other in this order.

    Args:
        config: the settings; the mode lives there.
        ui: where things are shown.
        allowed: tools that need no approval in runs this session starts.
        is_attended: a person types the lines; False: a pipe brings them.
        doctor: returns what `midstream doctor` says, in lines of a width.
        web: shows this console's runs in a browser, and returns where, in lines of a width.
    """

    def __init__(
        self,
        config: ConfigManager,
        ui: UI,
        *,
        allowed: Sequence[str] = (),
        is_attended: bool = True,
        doctor: Callable[[int], str] | None = None,
        web: Callable[[int], Awaitable[str]] | None = None,
    ) -> None:
        self.config = config
        self.ui = ui
        self.doctor = doctor
        self.web = web
        self.is_attended = is_attended
        self.runs = Runs(self.on_event)
        self.switching = Switching(config, ui, self.runs, allowed=allowed)
        self.background = Background(self.switching)
        self.chats = Chats(self.switching, self.background, is_attended=is_attended)
        self.full_window = FullWindow(self.switching, compacts=config.is_on(AUTO_COMPACT))
        self.side_questions = SideQuestions(self.switching)
        self.history = History(self.switching, self.background, str(config.workspace))
        source = "user" if is_attended else PIPE
        self.input = Input(self.switching, self.background, self.chats, source=source)
        self.status_line = StatusLine(self.switching, self.input, self.side_questions)
        self.trust_request: TrustRequest | None = None
        """What `/trust` has shown: a yes is about that."""
        self.is_verbose = False
        self.is_leaving = False
        """Whether the person asked to leave: once this command is done."""
        self._heard_upto: dict[str, int] = {}

    @property
    def parts(self) -> Parts:
        """Return the loaded parts.

        Raises:
            UserMistake: they are still being loaded.
        """
        return self.runs.parts

    def active(self) -> Machine | None:
        """Return the run that lines go to now, None in a chat nothing was said in yet."""
        return self.switching.active()

    def on_event(self, envelope: Envelope) -> None:
        """Show an event of a run, and what of it concerns a run that is not on the screen.

        When the active workflow has ended, or is another process's now, the mode goes back to the role.
        """
        if envelope.seq is not None:
            # A run that is watched and then goes on here is heard of twice for a moment.
            if envelope.seq <= self._heard_upto.get(envelope.run, 0):
                return
            self._heard_upto[envelope.run] = envelope.seq
        self.status_line.on_event(envelope)
        self.history.on_event(envelope)
        event = envelope.event
        machine = next((m for m in self.runs.all() if m.run.id == envelope.run), None)
        if isinstance(event, e.RunStarted):
            self.switching.began(envelope.run)
        elif machine is not None:
            self.switching.recall(machine)
            is_arriving = self.background.is_arriving(machine)
            if isinstance(event, e.RunRecovered) and machine.run.is_chat and is_arriving:
                self.switching.comes_back(machine, was_cut=event.cut_work)
        is_behind = machine is not None and not self._is_in_sight(machine)
        self.ui.show(envelope, is_behind=is_behind)
        if isinstance(event, e.RunRecovered) and machine is not None:
            lost = lost_commands(machine.run)
            if lost:
                self.ui.say(lost_words(lost), kind="warning")
        self.full_window.on_event(envelope, machine)
        if machine is None:
            return
        if is_behind:
            self.background.on_event(machine, event)
        elif machine is self.switching.spoken_to() and isinstance(
            event, e.RunFinished | e.RunFailed | e.RunStopped | RunTaken
        ):
            self.switching.go_home()

    def _is_in_sight(self, machine: Machine) -> bool:
        is_coming = self.switching.is_coming(machine) or self.background.is_arriving(machine)
        here = (self.switching.spoken_to(), self.switching.preparing)
        return machine in here or is_coming

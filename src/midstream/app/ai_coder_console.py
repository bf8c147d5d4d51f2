"""AICoderConsole: the mode, where each line goes, and the runs of this console.

A chat with a role is a run like every other (`language.spec.chat_definition`), so the steering of a chat
is the steering of a workflow. The console adds the mode (`type:name`): which run a line is for.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from midstream.app.background_runs import Background
from midstream.app.chats import GoesOn, Sessions, begun
from midstream.app.commands.handler import CommandHandler, is_command
from midstream.app.commands.run_summary import run_line
from midstream.app.destinations import Addressing, Equipment
from midstream.app.file_mentions import Mentioning
from midstream.app.inbox import Inbox
from midstream.app.open_questions import names, numbers, questions_on_screen, run_and_question
from midstream.app.run_past import Past
from midstream.app.run_sentences import is_chat, is_done
from midstream.app.status_line import StatusLine
from midstream.app.switching import Turning
from midstream.app.user_lines import Saying
from midstream.config.manager import ConfigManager
from midstream.config.private_files import make_private
from midstream.core import events as e
from midstream.core.notices import Envelope, RunTaken
from midstream.core.question import Decision, Question
from midstream.core.routing import is_goodbye
from midstream.language.errors import MidstreamError, UserMistake
from midstream.language.mode import Mode
from midstream.language.names import Json, Policy
from midstream.language.spec import ToolSpec
from midstream.runtime.ports import (
    ChangedFile,
    Face,
    Library,
    Machine,
    McpOperator,
    Models,
    OwnCommandEnded,
    Permits,
    Status,
    Submitted,
)
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import in_thread
from midstream.system.own_process import columns
from midstream.views.listing import PIPE
from midstream.views.turns import Turn
from midstream.views.undelivered import Waiting

if TYPE_CHECKING:
    from midstream.app.trust_request import Trusting


class AICoderConsole:
    """The console behind whatever face it has. It is the faces' `Desk` and the commands' `Operator`.

    Args:
        config: the settings; the mode lives there.
        face: where things are shown.
        allowed: tools that need no approval in runs this console starts.
        goes_on: with which chat it begins, None: with a new one.
        is_attended: a person types the lines; False: a pipe brings them.
        topics: what `/help` tells of besides commands, such as the keys.
    """

    def __init__(
        self,
        config: ConfigManager,
        face: Face,
        *,
        allowed: Sequence[str] = (),
        goes_on: GoesOn | None = None,
        is_attended: bool = True,
        doctor: Callable[[int], str] | None = None,
        topics: Mapping[str, Callable[[], str]] | None = None,
    ) -> None:
        self._goes_on = goes_on
        self._config = config
        self._face = face
        self._doctor = doctor
        self._commands = CommandHandler(self, topics=topics or {})
        self._ready = asyncio.Event()
        self._to = Addressing(config, face, allowed=allowed, has_read=self._tell_notices)
        self._background = Background(self, face)
        self._sessions = Sessions(self, face, self._background, is_attended=is_attended)
        self._past = Past(self, face, self._background, str(config.workspace))
        self._inbox = Inbox()
        self._mentioning = Mentioning(config.workspace)
        self._status = StatusLine(
            self._to, self._background, self._sessions, self._inbox, self._past
        )
        self._saying = Saying(
            self._to,
            face,
            self._background,
            self._past,
            self._sessions,
            self._inbox,
            source="user" if is_attended else PIPE,
        )
        self._turning = Turning(self._to, face, self._background, self._sessions)
        self._trusting: Trusting | None = None
        self._is_verbose = False
        self._told: set[str] = set()
        self._heard_upto: dict[str, int] = {}
        self._is_leaving = False

    # --- starting and ending ----------------------------------------------------------------

    async def equip(self, equipment: Equipment, *, notices: Sequence[str] = ()) -> None:
        """Take the loaded parts into use, tell of kept runs, and enter the mode the settings name."""
        # Not needed before the prompt is on the screen.
        from midstream.app.unfinished_runs import left_runs, turns_to_kept

        self._to.equipment = equipment
        equipment.engine.listen(self.hear)
        wanted, self._to.mode = self._to.mode, self._to.home
        self._tell_notices(notices)
        left = await left_runs(
            equipment.keeping,
            self._background,
            is_resumed=self._config.auto_resume,
            is_for_chat=self._goes_on is not None,
            going=self._know_going,
        )
        try:
            is_there = await begun(self._sessions, self._goes_on, self._face, self._config)
            is_for_chat = self._goes_on is not None and wanted.kind == "workflow"
            is_there = is_there or is_for_chat
            if not is_there and not self._config.is_mode_asked_for:
                is_there = turns_to_kept(wanted, left, self._to, self._background, self._face)
            if not is_there and await self._to.open(wanted, None):
                self._to.mode = wanted
        except MidstreamError as error:
            self._face.say(str(error), kind="error")
            self._face.say(f"The mode is {self.mode}.", kind="note")
        self._tell_notices()
        self._to.is_beginning = False
        self._ready.set()
        self._face.refresh()

    async def close(self) -> None:
        """Let go of every run, say which go on later, and save the mode."""
        if self._to.equipment is not None:
            left = [machine for machine in self.own_machines() if not is_done(machine)]
            await self._background.close()
            await self._mentioning.close()
            await self._sessions.close()
            await self._past.close()
            await self._to.equipment.engine.close()
            for line in self._background.left_words(left):
                self._face.say(line, kind="note")
        await self._to.saved()

    async def settled(self) -> None:
        """Return when no run is running any more: each has ended or waits for a person."""
        await self._ready.wait()
        for machine in self.own_machines():
            await machine.settled()

    def standing(self) -> tuple[str, ...]:
        """Return where each run stands, a line each."""
        return tuple(run_line(machine.run) for machine in self.own_machines())

    def failed(self) -> bool:
        """Return whether a workflow of this console has failed."""
        return any(machine.run.status == "failed" for machine in self.own_machines())

    @property
    def is_leaving(self) -> bool:
        """Return whether the person asked to leave."""
        return self._is_leaving

    # --- the desk: what faces use -----------------------------------------------------------

    def status(self) -> Status:
        """Return what the bottom line says now."""
        return self._status.now()

    def look_again(self) -> None:
        """Show how things stand: what commands run in, or what may happen unasked, has changed."""
        self._face.refresh()

    def open_questions(self) -> tuple[Question, ...]:
        """Return the active run's open questions a person sees as cards."""
        return questions_on_screen(self.active())

    async def submit(
        self,
        line: str,
        *,
        seen: Collection[str],
        question: str | None = None,
        as_new: bool = False,
        policy: Policy | None = None,
    ) -> Submitted:
        """Take a line; see the port `Desk`."""
        if not line.strip():
            return Submitted(kind="taken")
        await self._ready.wait()
        try:
            if is_command(line):
                await self._commands.handle(line)
                return Submitted(kind="exit" if self._is_leaving else "taken")
            if is_goodbye(line) and not (as_new or policy or question or self.open_questions()):
                self.leave()
                return Submitted(kind="exit")
            words = line[1:] if line.startswith("//") else line
            return await self._saying.take(
                words, seen=seen, question=question, as_new=as_new, policy=policy
            )
        except MidstreamError as error:
            to_mend = not is_command(line) or self._commands.can_be_mended(line)
            return Submitted(kind="returned", reason=str(error), to_mend=to_mend)
        finally:
            # Whatever a line came to, it may have had roles or workflows read.
            self._tell_notices()

    async def answered(self) -> None:
        """Return once the chat that lines go to waits for a person; see the port `Desk`."""
        machine = self.active()
        if machine is not None and is_chat(machine):
            await machine.settled()

    async def halt(self) -> None:
        """Stop the active run's current turn."""
        self._sessions.choose_none()
        machine = self.active()
        if machine is not None and not machine.run.is_over:
            await machine.halt()

    async def go_on(self) -> None:
        """Let the active run go on where it was stopped; see the port `Desk`."""
        machine = self.active()
        if machine is not None:
            await machine.unsuspend()

    async def approve(self, question: str, decision: Decision) -> None:
        """Decide on a tool call of the run whose card was shown."""
        run, own = run_and_question(question)
        for machine in self.machines():
            if machine.run.id == run:
                await machine.approve(own, decision)

    def next_permission_mode(self) -> str:
        """Let the next permission mode say what happens unasked; see the port `Desk`."""
        from midstream.app.commands.permission_commands import (
            next_mode,  # not needed before the prompt is there
        )

        return next_mode(self.permits)

    def completions(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return how the word at the end of `before` may go on."""
        if before.startswith("@"):
            return names(self.active(), before)
        if before.startswith("#"):
            return numbers(self.open_questions(), before)
        if not is_command(before) or self._to.equipment is None:
            return ()
        return self._commands.completions(before)

    def mentions(self, mention: str) -> AsyncGenerator[tuple[tuple[str, str], ...], None]:
        """Give the files a word that begins with `@` may mean; see the port `Desk`."""
        return self._learned(mention) if is_command(mention) else self._mentioning.found(mention)

    async def _learned(self, line: str) -> AsyncGenerator[tuple[tuple[str, str], ...], None]:
        if self._to.equipment is not None and await self._commands.learned(line):
            yield self._commands.completions(line)

    async def own_command(
        self, command: str, *, stop: asyncio.Event, hears: Callable[[tuple[str, ...], str], None]
    ) -> OwnCommandEnded:
        """Run a command the person typed behind `!`; see the port `Desk`."""
        # Imported here: the prompt is on the screen before anything that runs commands is loaded.
        from midstream.app.own_commands import run_own_command

        return await run_own_command(command, self._config.workspace, stop=stop, hears=hears)

    def waiting_inputs(self) -> tuple[Waiting, ...]:
        """Return the lines taken and not yet delivered, the oldest first."""
        return self._inbox.waiting(self.active())

    async def take_back(self) -> str | None:
        """Withdraw the newest line that waits; see the port `Desk`."""
        return await self._inbox.take_back(self.active())

    async def turns(self) -> tuple[Turn, ...]:
        """Return the turns of the active run; see the port `Desk`."""
        return await self._past.turns()

    async def go_back(self, turn: Turn) -> None:
        """Go back to before a turn; see the port `Desk`."""
        await self._past.back(turn)

    # --- the operator: what commands use ----------------------------------------------------

    @property
    def mode(self) -> Mode:
        """Return the mode."""
        return self._to.mode

    @property
    def library(self) -> Library:
        """Return where roles and workflows are found."""
        return self._to.equipped().library

    @property
    def models(self) -> Models:
        """Return which models are used."""
        return self._to.equipped().models

    @property
    def permits(self) -> Permits:
        """Return what may happen unasked."""
        return self._to.equipped().permits

    @property
    def mcp(self) -> McpOperator | None:
        """Return what can be done with MCP servers."""
        return self._to.equipped().mcp

    def tools(self) -> dict[str, ToolSpec]:
        """Return the tools agents may use."""
        return self._to.equipped().tools

    def active(self) -> Machine | None:
        """Return the run that lines go to now."""
        return self._to.active()

    @property
    def sessions(self) -> Sessions:
        """Return what can be done with the chats of the workspace."""
        return self._sessions

    @property
    def runs(self) -> Background:
        """Return what can be done with the runs of the workspace."""
        return self._background

    @property
    def past(self) -> Past:
        """Return what can be done with the past of the active run."""
        return self._past

    def machines(self) -> tuple[Machine, ...]:
        """Return every run lines can go to, the oldest of this console first."""
        return (*self.own_machines(), *self._background.watched())

    def own_machines(self) -> tuple[Machine, ...]:
        """Return the runs that live in this console, the oldest first."""
        return self._to.own_machines()

    def settings(self) -> tuple[tuple[str, str, str], ...]:
        """Return every setting, its value and its layer."""
        from midstream.config.user_settings import where as comes_from

        return tuple((s.key, s.value, comes_from(s)) for s in self._config.explain())

    async def enter(self, mode: str, input: Json = None) -> None:
        """Go to a mode; see the port `Operator`."""
        await self._turning.enter(Mode.parse(mode), input)

    async def stop_workflow(self) -> None:
        """End the active workflow and go back to the role it was started from."""
        await self._turning.stop_workflow()

    async def turn_to(self, machine: Machine, *, is_told: bool = False) -> None:
        """Let lines go to a run, and show where it stands; see the port `Prompt`."""
        await self._turning.turn_to(machine, is_told=is_told)

    def has_seen(self, id: str) -> None:
        """Know that a person has the past of a chat before them; see the port `Prompt`."""
        self._turning.has_seen(id)

    async def turn_home(self) -> None:
        """Let lines go to the role again; a run of another process is watched no more."""
        await self._turning.turn_home()

    async def clear(self) -> None:
        """Leave the chat of the current role as it is, and begin a new one with the next line."""
        await self._turning.clear()

    async def init(self, note: str) -> None:
        """Have an AGENTS.md written for the workspace; see the port `Operator`."""
        from midstream.app.agents_file_draft import (
            initiate,  # not needed before the prompt is on screen
        )

        await initiate(self, self._config.workspace, note)

    async def say(self, text: str, policy: Policy) -> None:
        """Give the active run words with this policy."""
        await self._saying.say(text, policy)

    async def welcome(self) -> None:
        """Tell what this is and what was found; see the port `Operator`."""
        from midstream.app.onboarding import (
            told_welcome,  # not needed before the prompt is on screen
        )

        model = "" if self._to.equipment is None else self.models.describe()
        self._face.say(await told_welcome(self._config, model, width=columns() - 2))

    async def trust(self, code: str) -> None:
        """Show the workspace's own files, or trust those that were shown; see the port `Operator`."""
        from midstream.app.trust_request import (
            Trusting,  # not needed before the prompt is on screen
        )

        self._trusting = self._trusting or Trusting(self._config, self._face)
        await (self._trusting.say_yes(code) if code else self._trusting.look())

    async def examine(self) -> None:
        """Tell what is there and what is missing; see the port `Operator`."""
        if self._doctor is None:
            raise UserMistake(
                "/doctor is not available here.", hint="Run midstream doctor in a shell."
            )
        self._face.say(await in_thread(partial(self._doctor, columns() - 2)))

    async def configured(self, key: str, value: str | None) -> str:
        """Set or take out a setting; see the port `Operator`."""
        from midstream.app.settings_changes import configured_here  # not needed at the start

        return await configured_here(self, self._config, key, value)

    def explained(self, key: str) -> str:
        """Return a setting and where it comes from; see the port `Operator`."""
        from midstream.config.user_settings import explained

        return explained(self._config, key)

    def tell(self, text: str) -> None:
        """Show words of the console."""
        self._face.say(text)

    def show_changes(self, changes: Sequence[ChangedFile]) -> None:
        """Show what became of files; see the port `Operator`."""
        self._face.show_changes(changes)

    def verbose(self, is_on: bool | None) -> bool:
        """Show tool results and reasoning in full, or not; see the port `Operator`."""
        self._is_verbose = not self._is_verbose if is_on is None else is_on
        self._face.show_in_full("on" if self._is_verbose else "off")
        return self._is_verbose

    def show_last(self) -> None:
        """Show the last tool result or reasoning in full; see the port `Operator`."""
        self._face.show_in_full("last")

    async def copy(self, text: str) -> str:
        """Put a text where a person can take it; see the port `Operator`."""
        if self._face.copy(text):
            return "in the clipboard"
        return f"in {await in_thread(partial(self._kept_copy, text))}"

    def _kept_copy(self, text: str) -> Path:
        from midstream.runtime.engine.run_file import write_new

        folder = self._config.state_dir / "exports"
        make_private(folder)
        number = 1
        while (path := folder / f"copy-{number}.md").exists():
            number += 1
        write_new(path, [sanitized(text).encode("utf-8", "replace")])
        return path

    def follow(self, machine: Machine | None) -> bool:
        """Keep the graph of a run above the prompt; see the port `Operator`."""
        return self._face.follow(None if machine is None else self._to.kept_up_with(machine))

    def ended(self) -> Machine | None:
        """Return the active workflow that has ended; see the port `Operator`."""
        return self._to.ended if self.mode.kind == "role" else None

    def leave(self) -> None:
        """Leave once this command is done."""
        self._is_leaving = True

    # --- inside -----------------------------------------------------------------------------

    def _know_going(self, machine: Machine) -> None:
        self._to.know(machine)
        self._turning.recall(machine)

    def _tell_notices(self, more: Sequence[str] = ()) -> None:
        """Say what is wrong with files read so far, each thing once: reading more brings more."""
        for notice in (*self._config.notices, *more):
            if notice not in self._told:
                self._told.add(notice)
                self._face.say(notice, kind="warning")

    def hear(self, envelope: Envelope) -> None:
        """Show an event of a run, and what of it concerns a run that is not on the screen.

        When the active workflow has ended, or is another process's now, the mode goes back to the role.
        """
        if envelope.seq is not None:
            # A run that is watched and then goes on here is heard of twice for a moment.
            if envelope.seq <= self._heard_upto.get(envelope.run, 0):
                return
            self._heard_upto[envelope.run] = envelope.seq
        self._status.hear(envelope)
        self._past.hear(envelope)
        machine = next((m for m in self.machines() if m.run.id == envelope.run), None)
        if isinstance(envelope.event, e.RunStarted):
            self._turning.began(envelope.run)
        elif machine is not None:
            self._turning.recall(machine)
            if (
                isinstance(envelope.event, e.RunRecovered)
                and is_chat(machine)
                and self._background.is_arriving(machine)
            ):
                self._turning.comes_back(machine, was_cut=envelope.event.cut_work)
        is_behind = machine is not None and not self._is_in_sight(machine)
        self._face.show(envelope, is_behind=is_behind)
        self._sessions.hear(envelope, machine, self.models)
        event = envelope.event
        if machine is None:
            return
        if is_behind:
            self._background.milestone(machine, event)
        if isinstance(event, e.QuestionAsked):
            if is_behind and event.kind != "input":
                self._background.asked(machine, event)
        elif machine is self.active() and isinstance(
            event, e.RunFinished | e.RunFailed | e.RunStopped | RunTaken
        ):
            self._to.go_home()

    def _is_in_sight(self, machine: Machine) -> bool:
        is_coming = self._to.is_coming(machine) or self._background.is_arriving(machine)
        return machine is self.active() or is_coming

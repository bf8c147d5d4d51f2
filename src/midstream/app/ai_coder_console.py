"""AICoderConsole: a session behind a UI. A line typed there is a command, a goodbye, or words for a run.

A chat with a role is a run like every other (`language.plan.chat_definition`), so the steering of a chat
is the steering of a workflow. The mode (`type:name`) says which run a line is for.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence

from midstream.app.assembly import Parts
from midstream.app.chats import GoesOn
from midstream.app.commands.handler import CommandHandler
from midstream.app.file_mentions import FileMentions
from midstream.app.input import NotSent, names, not_sent, numbers, questions_on_screen
from midstream.app.run_sentences import is_done, run_line
from midstream.app.session import Session
from midstream.app.ui import UI, OwnCommandEnded, Status, Submitted
from midstream.config.manager import ConfigManager
from midstream.config.settings import AUTO_RESUME
from midstream.core.question import Decision, Question
from midstream.core.routing import (
    Destination,
    Route,
    interrupts,
    is_command,
    is_goodbye,
    route,
    run_and_question,
)
from midstream.language.errors import MidstreamError
from midstream.language.names import Policy
from midstream.views.run_status import Waiting, is_at_work
from midstream.views.turns import Turn


class AICoderConsole:
    """The console behind whatever UI it has. See `ui.Console` for what the UI does with it.

    Args:
        config: the settings; the mode lives there.
        ui: where things are shown.
        allowed: tools that need no approval in runs this console starts.
        goes_on: with which chat it begins, None: with a new one.
        is_attended: a person types the lines; False: a pipe brings them.
        doctor: returns what `midstream doctor` says, in lines of a width.
        web: shows this console's runs in a browser, and returns where, in lines of a width.
        topics: what `/help` tells of besides commands, such as the keys.
    """

    def __init__(
        self,
        config: ConfigManager,
        ui: UI,
        *,
        allowed: Sequence[str] = (),
        goes_on: GoesOn | None = None,
        is_attended: bool = True,
        doctor: Callable[[int], str] | None = None,
        web: Callable[[int], Awaitable[str]] | None = None,
        topics: Mapping[str, Callable[[], str]] | None = None,
    ) -> None:
        self.session = Session(
            config, ui, allowed=allowed, is_attended=is_attended, doctor=doctor, web=web
        )
        self._goes_on = goes_on
        self._commands = CommandHandler(self.session, topics=topics or {})
        self._mentions = FileMentions(config.workspace)
        self._ready = asyncio.Event()

    # --- starting and ending ----------------------------------------------------------------

    async def equip(self, parts: Parts, *, notices: Sequence[str] = ()) -> None:
        """Take the loaded parts into use, tell of kept runs, and enter the mode the settings name."""
        session, goes_on = self.session, self._goes_on
        switching, config, ui = session.switching, session.config, session.ui
        session.runs.equip(parts)
        wanted, switching.mode = switching.mode, switching.home
        switching.notify(notices)
        chats = await session.background.begin(
            is_resumed=config.is_on(AUTO_RESUME), is_for_chat=goes_on is not None
        )
        try:
            role = config.mode.name if config.is_mode_asked_for else ""
            is_there = await session.chats.begin(
                goes_on, role if config.mode.kind == "role" else ""
            )
            if goes_on is not None and not goes_on.is_from_list:
                here = {machine.run.id for machine in session.runs.own()}
                session.background.announce([each for each in chats if each.id not in here])
            if wanted.kind == "workflow" and not is_there:
                is_there = goes_on is not None or (
                    not config.is_mode_asked_for
                    and await session.background.is_kept_from_starting(wanted.name)
                )
            if not is_there and await switching.open(wanted, None):
                switching.mode = wanted
        except MidstreamError as error:
            ui.say(str(error), kind="error")
            ui.say(f"The mode is {switching.mode}.", kind="note")
        switching.notify()
        switching.is_beginning = False
        self._ready.set()
        ui.refresh()

    async def close(self) -> None:
        """Let go of every run, say which go on later, and save the mode."""
        session = self.session
        if session.runs.is_loaded:
            await session.switching.stop_preparing()  # nobody would send what came of it
            left = [machine for machine in session.runs.own() if not is_done(machine)]
            await session.runs.close()
            await self._mentions.close()
            await session.full_window.close()
            await session.history.close()
            await session.parts.engine.close()
            session.ui.left()
            for line in session.background.left_words(left):
                session.ui.say(line, kind="note")
        await session.switching.saved()

    async def settled(self) -> None:
        """Return when no run is running any more: each has ended or waits for a person."""
        await self._ready.wait()
        for machine in self.session.runs.own():
            await machine.settled()

    def summary(self) -> tuple[str, ...]:
        """Return where each run stands, a line each; of a chat that has replied there is nothing to say."""
        runs = [machine.run for machine in self.session.runs.own()]
        return tuple(
            run_line(run) for run in runs if not (run.is_chat and run.visit.phase == "waiting")
        )

    def failed(self) -> bool:
        """Return whether a workflow of this console has failed."""
        return any(machine.run.status == "failed" for machine in self.session.runs.own())

    # --- lines ------------------------------------------------------------------------------

    def route(
        self,
        line: str,
        *,
        seen: Collection[str],
        focused: str = "",
        answers: str = "",
        is_new: bool = False,
    ) -> Route | None:
        """Return whom a line is for, None if for the console itself; see `ui.Console`."""
        if is_command(line):
            return None
        if is_goodbye(line) and not (answers or is_new or self.open_questions()):
            return None
        words = line[1:] if line.startswith("//") else line
        machine = self.session.active()
        run = None if machine is None or is_done(machine) else machine.run
        return route(words, run, seen=seen, focused=focused, answers=answers, is_new=is_new)

    def interrupts(self, to: Destination) -> bool:
        """Return whether words for there cut off what is at work now."""
        machine = self.session.active()
        return machine is not None and interrupts(to, machine.run)

    async def send(
        self, to: Destination, *, seen: Collection[str], policy: Policy | None = None
    ) -> Submitted:
        """Give words to whom they are for; see `ui.Console`."""
        await self._ready.wait()
        try:
            return await self.session.input.send(to, seen=seen, policy=policy)
        except MidstreamError as error:
            return Submitted(kind="returned", reason=str(error))
        finally:
            # Whatever words came to, they may have had roles or workflows read.
            self.session.switching.notify()

    async def submit(self, line: str, *, seen: Collection[str]) -> Submitted:
        """Take a line as it is; see `ui.Console`."""
        if not line.strip():
            return Submitted(kind="taken")
        await self._ready.wait()
        to = self.route(line, seen=seen)
        if isinstance(to, Destination):
            return await self.send(to, seen=seen)
        if to is not None:
            return not_sent(to)
        session = self.session
        try:
            if is_command(line):
                await self._commands.handle(line)
            else:
                session.is_leaving = True
        except MidstreamError as error:
            to_mend = isinstance(error, NotSent) or self._commands.can_be_mended(line)
            return Submitted(kind="returned", reason=str(error), to_mend=to_mend)
        finally:
            session.switching.notify()
        return Submitted(kind="exit" if session.is_leaving else "taken")

    def completions(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return how the word at the end of `before` may go on."""
        if before.startswith("@"):
            return names(self.session.active(), before)
        if before.startswith("#"):
            return numbers(self.open_questions(), before)
        if not is_command(before) or not self.session.runs.is_loaded:
            return ()
        return self._commands.completions(before)

    def mentions(self, mention: str) -> AsyncGenerator[tuple[tuple[str, str], ...], None]:
        """Give the files a word that begins with `@` may mean; see `ui.Console`."""
        return self._learned(mention) if is_command(mention) else self._mentions.found(mention)

    async def _learned(self, line: str) -> AsyncGenerator[tuple[tuple[str, str], ...], None]:
        if self.session.runs.is_loaded and await self._commands.learned(line):
            yield self._commands.completions(line)

    # --- what the UI shows and its keys do --------------------------------------------------

    def status(self) -> Status:
        """Return what the bottom line says now."""
        return self.session.status_line.now()

    def status_fields(self) -> dict[str, str]:
        """Return what a person's own status line may say; see `ui.Console`."""
        return self.session.status_line.fields()

    def open_questions(self) -> tuple[Question, ...]:
        """Return the active run's open questions a person sees as cards."""
        return questions_on_screen(self.session.active())

    def waiting_inputs(self) -> tuple[Waiting, ...]:
        """Return the lines taken and not yet delivered, the oldest first."""
        return self.session.input.waiting()

    async def take_back(self) -> str | None:
        """Withdraw the newest line that waits; see `ui.Console`."""
        return await self.session.input.take_back()

    async def turns(self) -> tuple[Turn, ...]:
        """Return the turns of the active run; see `ui.Console`."""
        return await self.session.history.turns()

    async def go_back(self, turn: Turn) -> None:
        """Go back to before a turn; see `ui.Console`."""
        await self.session.history.back(turn)

    async def answered(self) -> None:
        """Return once the chat that lines go to waits for a person; see `ui.Console`."""
        machine = self.session.active()
        if machine is not None and machine.run.is_chat:
            await machine.settled()

    async def halt(self) -> None:
        """Stop the active run's current turn, else a question beside it; see `ui.Console`."""
        self.session.chats.choose_none()
        if await self.session.switching.stop_preparing():
            return
        machine = self.session.active()
        is_working = machine is not None and is_at_work(machine.run)
        if not is_working and self.session.side_questions.stop():
            return
        if machine is not None and not machine.run.is_over:
            await machine.halt()

    async def go_on(self) -> None:
        """Let the active run go on where it was stopped; see `ui.Console`."""
        machine = self.session.active()
        if machine is not None:
            await machine.unsuspend()

    async def approve(self, question: str, decision: Decision) -> None:
        """Decide on a tool call of the run whose card was shown."""
        run, own = run_and_question(question)
        for machine in self.session.runs.all():
            if machine.run.id == run:
                await machine.approve(own, decision)

    def next_permission_mode(self) -> str:
        """Let the next permission mode say what happens unasked; see `ui.Console`."""
        # Not needed before the prompt is there.
        from midstream.app.commands.permission_commands import next_mode

        return next_mode(self.session.parts.permissions)

    async def picture(self, pasted: str) -> str:
        """Keep the picture whose path was pasted; see `ui.Console`."""
        from midstream.app.shown_pictures import picture_in

        await self._ready.wait()
        return await picture_in(pasted, self.session.parts.engine.store)

    async def clipboard(self) -> str:
        """Return what the clipboard holds as it goes into a line; see `ui.Console`."""
        from midstream.app.shown_pictures import clipboard

        await self._ready.wait()
        engine = self.session.parts.engine
        return await clipboard(self.session.config.workspace, engine.store)

    async def own_command(
        self, command: str, *, stop: asyncio.Event, hears: Callable[[tuple[str, ...], str], None]
    ) -> OwnCommandEnded:
        """Run a command the person typed behind `!`; see `ui.Console`."""
        # Imported here: the prompt is on the screen before anything that runs commands is loaded.
        from midstream.app.own_commands import run_own_command

        workspace = self.session.config.workspace
        return await run_own_command(command, workspace, stop=stop, hears=hears)

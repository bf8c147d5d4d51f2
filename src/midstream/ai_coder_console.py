"""AICoderConsole: the mode, where each line goes, and the runs of this console.

A chat with a role is a run like every other (`core.spec.chat_definition`), so the steering of a chat
is the steering of a workflow. The console adds the mode (`type:name`): which run a line is for.
"""

import asyncio
import time
from collections.abc import Collection, Sequence

import msgspec

from midstream.command.handler import CommandHandler, is_command
from midstream.command.runs import run_line
from midstream.config.manager import ConfigManager
from midstream.core.addressing import addressees, as_typed, gone, shared_names
from midstream.core.calls import with_command
from midstream.core.errors import MidstreamError, UserMistake
from midstream.core.events import QuestionAsked, RunFailed, RunFinished, RunStarted, RunStopped
from midstream.core.mode import Mode
from midstream.core.names import Json, Policy
from midstream.core.notices import Envelope, RunTaken
from midstream.core.question import Question
from midstream.core.routing import Answer as AnswerRoute
from midstream.core.routing import Returned, Unclear, route
from midstream.core.spec import ToolSpec
from midstream.core.views.clock import time_of_day
from midstream.core.views.costs import costs, in_words
from midstream.core.views.status import is_at_work, lanes, what_addressing_does, where
from midstream.desk.addressing import Addressing, Equipment
from midstream.desk.background import Background
from midstream.desk.keeping import Keeping
from midstream.desk.wording import is_chat, is_done, name_of
from midstream.ports import (
    Face,
    Library,
    Machine,
    McpOperator,
    Models,
    Permits,
    Receipt,
    Status,
    Submitted,
)
from midstream.storage import KeptRun


class AICoderConsole:
    """The console behind whatever face it has. It is the faces' `Desk` and the commands' `Operator`.

    Args:
        config: the settings; the mode lives there.
        face: where things are shown.
        allowed: tools that need no approval in runs this console starts.
    """

    def __init__(self, config: ConfigManager, face: Face, *, allowed: Sequence[str] = ()) -> None:
        self._config = config
        self._face = face
        self._commands = CommandHandler(self)
        self._ready = asyncio.Event()
        # Lines act in the order they were sent: the second must find the chat the first one began.
        self._in_order = asyncio.Lock()
        self._to = Addressing(config, face, allowed=allowed, has_read=self._tell_notices)
        self._background = Background(self, face)
        self._told: set[str] = set()
        self._known: set[str] = set()
        self._heard_upto: dict[str, int] = {}
        self._is_leaving = False

    # --- starting and ending ----------------------------------------------------------------

    async def equip(self, equipment: Equipment, *, notices: Sequence[str] = ()) -> None:
        """Take the loaded parts into use, tell of kept runs, and enter the mode the settings name."""
        self._to.equipment = equipment
        equipment.engine.listen(self.hear)
        wanted, self._to.mode = self._to.mode, self._to.home
        self._tell_notices(notices)
        left = await self._take_up_left(equipment.keeping)
        try:
            if not self._turns_to_kept(wanted, left) and await self._to.open(wanted, None):
                self._to.mode = wanted
        except MidstreamError as error:
            self._face.say(str(error), kind="error")
            self._face.say(f"The mode is {self.mode}.", kind="note")
        self._tell_notices()
        self._ready.set()
        self._face.refresh()

    async def close(self) -> None:
        """Let go of every run, say which go on later, and save the mode."""
        if self._to.equipment is not None:
            left = [machine for machine in self.own_machines() if not is_done(machine)]
            await self._background.close()
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
        mode = str(self.mode)
        if self._to.equipment is None:
            return Status(mode=mode, enter="is taken as soon as everything is loaded")
        machine = self.active()
        usages = [usage for each in self.machines() for usage in each.run.usages]
        cost = in_words(costs(usages).total) if usages else ""
        model = self.models.describe()
        if machine is None or machine.run.definition is None:
            notes = self._notes(machine)
            return Status(
                mode=mode,
                enter=self._first_line(),
                permission=self._permission(),
                model=model,
                cost=cost,
                notes=notes,
            )
        run, stands = machine.run, where(machine.run)
        is_chat = machine.run.definition.kind == "chat"
        at_work = lanes(run)
        doing = stands.doing
        if stands.until is not None:
            doing = f"{doing} until {time_of_day(stands.until, now=time.time())}"
        return Status(
            mode=mode,
            enter=self._first_line() if run.is_over else stands.enter or "is not taken now",
            permission=self._permission(),
            state="" if is_chat else stands.state,
            # What branches do has lines of its own.
            thinking="" if run.is_over or run.is_parked or at_work else doing,
            model=model,
            cost=cost,
            busy=is_at_work(run),
            notes=self._notes(machine),
            lanes=at_work,
            addressees=what_addressing_does(run),
            gone=gone(run),
            shared=shared_names(run),
        )

    def look_again(self) -> None:
        """Show how things stand: what commands run in, or what may happen unasked, has changed."""
        self._face.refresh()

    def _permission(self) -> str:
        permits = self.permits
        if permits.is_untrusted:
            return "not trusted: only reads"
        if permits.sandbox == "full":
            return "asks first" if permits.mode == "ask" else permits.mode
        box = "no" if permits.sandbox == "none" else "partial"
        return f"{'asks' if permits.mode == 'ask' else permits.mode}, {box} sandbox"

    def open_questions(self) -> tuple[Question, ...]:
        """Return the active run's open questions a person sees as cards."""
        machine = self.active()
        if machine is None:
            return ()
        # Questions are numbered anew in every run. On the screen their ids must tell them apart:
        # a key pressed on one run's card never decides on another's.
        return tuple(
            msgspec.structs.replace(question, id=_screen_id(machine.run.id, question.id))
            for question in where(machine.run).questions
        )

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
            words = line[1:] if line.startswith("//") else line
            return await self._said(words, seen, question, as_new, policy)
        except MidstreamError as error:
            return Submitted(kind="returned", reason=str(error))
        finally:
            # Whatever a line came to, it may have had roles or workflows read.
            self._tell_notices()

    async def halt(self) -> None:
        """Stop the active run's current turn."""
        machine = self.active()
        if machine is not None and not machine.run.is_over:
            await machine.halt()

    async def approve(
        self,
        question: str,
        *,
        granted: bool,
        for_run: bool = False,
        note: str = "",
        command: str | None = None,
    ) -> None:
        """Decide on a tool call of the run whose card was shown."""
        run, own = _run_and_question(question)
        for machine in self.machines():
            if machine.run.id == run:
                edited = None if command is None else with_command(machine.run, own, command)
                await machine.approve(
                    own, granted=granted, for_run=for_run, note=note, edited=edited
                )

    def completions(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return how the word at the end of `before` may go on."""
        if before.startswith("@"):
            return self._names(before)
        if not is_command(before) or self._to.equipment is None:
            return ()
        return self._commands.completions(before)

    def waiting_inputs(self) -> tuple[str, ...]:
        """Return the lines taken and not yet delivered, the oldest first."""
        machine = self.active()
        if machine is None:
            return ()
        records = machine.run.inbox.values()
        return tuple(as_typed(r.text, r.to) for r in records if r.disposition is None)

    async def take_back(self) -> str | None:
        """Withdraw the newest line that waits; see the port `Desk`."""
        machine = self.active()
        if machine is None:
            return None
        for record in reversed(machine.run.inbox.values()):
            if record.disposition is None:
                await machine.withdraw(record.id)
                is_back = machine.run.inbox[record.id].disposition == "withdrawn"
                return as_typed(record.text, record.to) if is_back else None
        return None

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
    def runs(self) -> Background:
        """Return what can be done with the runs of the workspace."""
        return self._background

    def machines(self) -> tuple[Machine, ...]:
        """Return every run lines can go to, the oldest of this console first."""
        return (*self.own_machines(), *self._background.watched())

    def own_machines(self) -> tuple[Machine, ...]:
        """Return the runs that live in this console, the oldest first."""
        return self._to.own_machines()

    def settings(self) -> tuple[tuple[str, str, str], ...]:
        """Return every setting, its value and its layer."""
        return tuple((s.key, s.value, f"{s.layer}: {s.source}") for s in self._config.explain())

    async def enter(self, mode: str, input: Json = None) -> None:
        """Go to a mode; see the port `Operator`."""
        wanted = Mode.parse(mode)
        async with self._in_order:
            left = self.active()
            if await self._to.open(wanted, input):
                self._to.set_mode(wanted)
            if left is not None and left is not self.active():
                self._leave_behind(left)

    async def stop_workflow(self) -> None:
        """End the active workflow and go back to the role it was started from."""
        async with self._in_order:
            machine = self._to.workflow
            if machine is None or machine.run.is_over:
                raise UserMistake("No workflow is active.", hint="/workflow NAME starts one.")
            await machine.stop()
            self._to.go_home()

    async def turn_to(self, machine: Machine) -> None:
        """Let lines go to a run, and show where it stands."""
        async with self._in_order:
            left = self.active()
            self._recall(machine)
            self._to.place(machine)
            if left is not None and left is not machine:
                self._leave_behind(left)
            self._face.say(f"Here is {run_line(machine.run)}", kind="note")
            self._face.turned_to(where(machine.run).questions)

    async def turn_home(self) -> None:
        """Let lines go to the role again; a run of another process is watched no more."""
        async with self._in_order:
            machine = self.active()
            if self._to.mode.kind == "workflow":
                self._to.go_home()
            else:
                self._to.chats.pop(self._to.mode.name, None)
            if machine is not None:
                await self._background.forget(machine)
            self._face.refresh()

    async def clear(self) -> None:
        """Forget the chat of the current role."""
        async with self._in_order:
            name = self._to.mode.name if self._to.mode.kind == "role" else self._to.home.name
            machine = self._to.chats.pop(name, None)
            if machine in self._background.watched():
                await self._background.forget(machine)
            elif machine is not None and not is_done(machine):
                await machine.stop("cleared")
            self._face.say(f"The chat with {name} begins anew.", kind="note")

    async def say(self, text: str, policy: Policy) -> None:
        """Give the active run words with this policy."""
        async with self._in_order:
            machine = await self._to.addressee()
            receipt = await machine.say(text, policy=policy)
        if not _is_taken(machine, receipt):
            raise UserMistake(receipt.reason)
        self._face.refresh()

    def tell(self, text: str) -> None:
        """Show words of the console."""
        self._face.say(text)

    def leave(self) -> None:
        """Leave once this command is done."""
        self._is_leaving = True

    # --- inside -----------------------------------------------------------------------------

    async def _said(
        self,
        words: str,
        seen: Collection[str],
        question: str | None,
        as_new: bool,
        policy: Policy | None,
    ) -> Submitted:
        async with self._in_order:
            machine = await self._to.addressee()
            own = [q.removeprefix(f"{machine.run.id}/") for q in seen]
            if question is not None:
                run, question = _run_and_question(question)
                if run != machine.run.id:
                    return Submitted(kind="returned", reason="That question is not open any more.")
            elif not as_new:
                found = route(
                    words,
                    open_questions=machine.run.open_questions,
                    seen=own,
                    addressees=addressees(machine.run),
                    gone=gone(machine.run),
                    shared=shared_names(machine.run),
                )
                match found:
                    case Unclear(question=unclear):
                        shown = _screen_id(machine.run.id, unclear)
                        return Submitted(kind="unclear", question=shown)
                    case Returned(reason=reason):
                        return Submitted(kind="returned", reason=reason)
                    case AnswerRoute(question=question, text=words):
                        pass
                    case _:
                        pass
            # A question that comes up in this very moment was not on the screen: it gets no answer.
            receipt = await machine.say(
                words, question=question, unasked=question is None, policy=policy
            )
        if not _is_taken(machine, receipt):
            return Submitted(kind="returned", reason=receipt.reason)
        self._background.tell_kept(machine, receipt)
        self._face.refresh()
        return Submitted(kind="taken")

    def _leave_behind(self, machine: Machine) -> None:
        if is_done(machine) or is_chat(machine):
            return
        way = f"/workflow {self._to.started_as(machine)}"
        if machine in self._background.watched():
            way = f"/attach {self._background.short(machine.run.id)}"
        words = f"{name_of(machine)} goes on in the background: {way} returns to it."
        self._face.say(words, kind="note")

    def _recall(self, machine: Machine) -> None:
        """Let the face know of a run that began where nobody listened."""
        if machine.run.id not in self._known:
            self._known.add(machine.run.id)
            self._face.recall(machine.run)

    async def _take_up_left(self, keeping: Keeping | None) -> tuple[KeptRun, ...]:
        """Tell of the runs that were left or cut, or let them go on; return those of them."""
        left = await self._background.open(keeping)
        if not self._config.auto_resume:
            self._background.announce(left)
            return left
        for machine in await self._background.auto_resume(left):
            self._to.know(machine)
        return left

    def _turns_to_kept(self, wanted: Mode, left: tuple[KeptRun, ...]) -> bool:
        """Keep a saved mode from starting its workflow again while a run of it is kept or elsewhere."""
        if wanted.kind == "role" or self._config.is_mode_asked_for:
            return False
        kept = [each for each in left if each.summary.found_as == wanted.name]
        elsewhere = self._background.elsewhere(wanted.name)
        if not kept and not elsewhere:
            return False
        going = {machine.run.id: machine for machine in self.own_machines()}
        for each in reversed(kept):
            if each.id in going:
                self._to.place(going[each.id])
                return True
        # How kept runs go on was told with each of them.
        ways = [f"{self._background.way_on(each)} (in another process)" for each in elsewhere]
        ways.append(f"/workflow {wanted.name} starts another")
        self._face.say(
            f"The mode is {self._to.mode}: {wanted.name} is not started again while a run of it "
            f"goes on or is kept. {'; '.join(ways)}.",
            kind="note",
        )
        return True

    def _tell_notices(self, more: Sequence[str] = ()) -> None:
        """Say what is wrong with files read so far, each thing once: reading more brings more."""
        for notice in (*self._config.notices, *more):
            if notice not in self._told:
                self._told.add(notice)
                self._face.say(notice, kind="warning")

    def _first_line(self) -> str:
        return f"sends to {self._to.home.name if self._to.mode.kind == 'workflow' else self._to.mode.name}"

    def _names(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return the branches a line that begins with `@` may be meant for."""
        machine = self.active()
        if machine is None or " " in before:
            return ()
        named = what_addressing_does(machine.run)
        return tuple((f"@{n}", does) for n, does in named.items() if f"@{n}".startswith(before))

    def _notes(self, active: Machine | None) -> tuple[str, ...]:
        """Return what else goes on: lines that wait, and the runs behind the active one."""
        waiting = len(self.waiting_inputs())
        others = [m.run for m in self.machines() if m is not active and not is_done(m)]
        busy = sum(not run.is_parked for run in others)
        asking = sum(bool(where(run).questions) for run in others)
        can_choose = active is not None and len(lanes(active.run)) > 1
        notes = (
            "@name words: to one" if can_choose else "",
            f"{waiting} waiting" if waiting else "",
            f"{asking} in the background wait{'s' if asking == 1 else ''} for you"
            if asking
            else "",
            f"{busy} in the background" if busy else "",
        )
        return tuple(note for note in notes if note)

    def hear(self, envelope: Envelope) -> None:
        """Show an event of a run, and what of it concerns a run that is not on the screen.

        When the active workflow has ended, or is another process's now, the mode goes back to the role.
        """
        if envelope.seq is not None:
            # A run that is watched and then goes on here is heard of twice for a moment.
            if envelope.seq <= self._heard_upto.get(envelope.run, 0):
                return
            self._heard_upto[envelope.run] = envelope.seq
        machine = next((m for m in self.machines() if m.run.id == envelope.run), None)
        if isinstance(envelope.event, RunStarted):
            self._known.add(envelope.run)
        elif machine is not None:
            self._recall(machine)
        self._face.show(envelope)
        event = envelope.event
        if machine is None:
            return
        if isinstance(event, QuestionAsked):
            is_in_sight = machine is self.active() or self._to.is_coming(machine)
            if not is_in_sight and event.kind != "input":
                self._background.asked(machine, event)
        elif isinstance(event, RunFinished | RunFailed | RunStopped | RunTaken):
            if machine is self.active():
                self._to.go_home()
            elif not is_chat(machine):
                name = f"{name_of(machine)} ({self._background.short(envelope.run)})"
                self._face.say(f"That was {name}, in the background.", kind="note")


def _screen_id(run: str, question: str) -> str:
    """Return the id of a question that tells it from those of all other runs."""
    return f"{run}/{question}"


def _run_and_question(screen_id: str) -> tuple[str, str]:
    run, _, question = screen_id.partition("/")
    return run, question


def _is_taken(machine: Machine, receipt: Receipt) -> bool:
    """Return whether words are on their way. What is said of them stands in the run's own events."""
    record = machine.run.inbox.get(receipt.input_id)
    if record is None:
        return receipt.handling != "reject"  # kept for the process that will go on with the run
    return record.disposition != "rejected"

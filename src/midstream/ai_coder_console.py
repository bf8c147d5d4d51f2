"""AICoderConsole: the mode, where each line goes, and the runs of this console.

A chat with a role is a run like every other (`core.spec.chat_definition`), so the steering of a chat
is the steering of a workflow. The console adds the mode (`type:name`): which run a line is for.
"""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial

import msgspec

from midstream.command.handler import CommandHandler, is_command
from midstream.command.runs import run_line
from midstream.config.manager import ConfigManager
from midstream.console.painting import question_heading, result_summary
from midstream.core.errors import MidstreamError, UserMistake
from midstream.core.events import QuestionAsked, RunFailed, RunFinished, RunStopped
from midstream.core.mode import Mode
from midstream.core.names import Json, Policy
from midstream.core.nearest import did_you_mean
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.core.routing import Answer as AnswerRoute
from midstream.core.routing import Returned, Unclear, route
from midstream.core.spec import ToolSpec, chat_definition
from midstream.core.views.costs import costs, in_words
from midstream.core.views.status import where
from midstream.offloop import in_thread
from midstream.ports import (
    Engine,
    Face,
    Library,
    Machine,
    Models,
    Receipt,
    Status,
    Submitted,
)

HOME = "role:dude"


class Equipment(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the console works with once the slow parts are loaded."""

    engine: Engine
    library: Library
    models: Models
    tools: dict[str, ToolSpec]


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
        self._allowed = tuple(allowed)
        self._commands = CommandHandler(self)
        self._equipment: Equipment | None = None
        self._ready = asyncio.Event()
        # Lines act in the order they were sent: the second must find the chat the first one began.
        self._in_order = asyncio.Lock()
        self._chats: dict[str, Machine] = {}
        self._started_as: dict[str, str] = {}
        self._told: set[str] = set()
        self._workflow: Machine | None = None
        self._behind: set[str] = set()
        self._home = Mode.parse(HOME)
        self._mode = config.mode
        self._is_leaving = False
        self._saving: asyncio.Task[None] | None = None
        self._is_unsaved = False

    # --- starting and ending ----------------------------------------------------------------

    async def equip(self, equipment: Equipment, *, notices: Sequence[str] = ()) -> None:
        """Take the loaded parts into use and enter the mode the settings name."""
        self._equipment = equipment
        equipment.engine.listen(self._hear)
        wanted, self._mode = self._mode, self._home
        self._tell_notices(notices)
        try:
            await self._open(wanted, None)
        except MidstreamError as error:
            self._face.say(str(error), kind="error")
            self._face.say(f"The mode is {self._mode}.", kind="note")
        else:
            is_open = wanted.kind == "role" or self._workflow is not None
            self._mode = wanted if is_open else self._home
        self._tell_notices()
        self._ready.set()
        self._face.refresh()

    async def close(self) -> None:
        """Stop every run and save the mode. Returns when all have ended."""
        if self._equipment is not None:
            await self._equipment.engine.close()
        if self._saving is not None:
            await self._saving

    async def settled(self) -> None:
        """Return when no run is running any more: each has ended or waits for a person."""
        await self._ready.wait()
        for machine in self.machines():
            await machine.settled()

    def standing(self) -> tuple[str, ...]:
        """Return where each run stands, a line each."""
        return tuple(run_line(machine.run) for machine in self.machines())

    def failed(self) -> bool:
        """Return whether a workflow of this console has failed."""
        return any(machine.run.status == "failed" for machine in self.machines())

    @property
    def is_leaving(self) -> bool:
        """Return whether the person asked to leave."""
        return self._is_leaving

    # --- the desk: what faces use -----------------------------------------------------------

    def status(self) -> Status:
        """Return what the bottom line says now."""
        mode = str(self._mode)
        if self._equipment is None:
            return Status(mode=mode, enter="is taken as soon as everything is loaded")
        machine = self.active()
        usages = [usage for each in self.machines() for usage in each.run.usages]
        cost = in_words(costs(usages).total) if usages else ""
        model = self.models.describe()
        if machine is None or machine.run.definition is None:
            notes = self._notes(machine)
            return Status(mode=mode, enter=self._first_line(), model=model, cost=cost, notes=notes)
        run, stands = machine.run, where(machine.run)
        is_chat = machine.run.definition.kind == "chat"
        return Status(
            mode=mode,
            enter=self._first_line() if run.is_over else stands.enter or "is not taken now",
            state="" if is_chat else stands.state,
            thinking="" if run.is_over or run.is_parked else stands.doing,
            model=model,
            cost=cost,
            busy=run.phase in ("pre", "turn", "post", "transition"),
            notes=self._notes(machine),
        )

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
        self, question: str, *, granted: bool, for_run: bool = False, note: str = ""
    ) -> None:
        """Decide on a tool call of the run whose card was shown."""
        run, own = _run_and_question(question)
        for machine in self.machines():
            if machine.run.id == run:
                await machine.approve(own, granted=granted, for_run=for_run, note=note)

    def completions(self, before: str) -> tuple[tuple[str, str], ...]:
        """Return how the word at the end of `before` may go on."""
        if not is_command(before) or self._equipment is None:
            return ()
        return self._commands.completions(before)

    def waiting_inputs(self) -> tuple[str, ...]:
        """Return the lines taken and not yet delivered, the oldest first."""
        machine = self.active()
        if machine is None:
            return ()
        return tuple(r.text for r in machine.run.inbox.values() if r.disposition is None)

    async def take_back(self) -> str | None:
        """Withdraw the newest line that waits; see the port `Desk`."""
        machine = self.active()
        if machine is None:
            return None
        for record in reversed(machine.run.inbox.values()):
            if record.disposition is None:
                await machine.withdraw(record.id)
                is_back = machine.run.inbox[record.id].disposition == "withdrawn"
                return record.text if is_back else None
        return None

    # --- the operator: what commands use ----------------------------------------------------

    @property
    def mode(self) -> Mode:
        """Return the mode."""
        return self._mode

    @property
    def library(self) -> Library:
        """Return where roles and workflows are found."""
        return self._equipped().library

    @property
    def models(self) -> Models:
        """Return which models are used."""
        return self._equipped().models

    def tools(self) -> dict[str, ToolSpec]:
        """Return the tools agents may use."""
        return self._equipped().tools

    def active(self) -> Machine | None:
        """Return the run that lines go to now."""
        if self._mode.kind == "workflow":
            return self._workflow
        return self._chats.get(self._mode.name)

    def machines(self) -> tuple[Machine, ...]:
        """Return every run of this console, the oldest first."""
        return () if self._equipment is None else self._equipment.engine.machines()

    def settings(self) -> tuple[tuple[str, str, str], ...]:
        """Return every setting, its value and its layer."""
        return tuple((s.key, s.value, f"{s.layer}: {s.source}") for s in self._config.explain())

    async def enter(self, mode: str, input: Json = None) -> None:
        """Go to a mode; see the port `Operator`."""
        wanted = Mode.parse(mode)
        async with self._in_order:
            left = self.active()
            await self._open(wanted, input)
            if wanted.kind == "role" or self._workflow is not None:
                self._set_mode(wanted)
            if left is not None and left is not self.active():
                self._leave_behind(left)

    async def stop_workflow(self) -> None:
        """End the active workflow and go back to the role it was started from."""
        async with self._in_order:
            machine = self._workflow
            if machine is None or machine.run.is_over:
                raise UserMistake("No workflow is active.", hint="/workflow NAME starts one.")
            await machine.stop()
            self._go_home()

    async def clear(self) -> None:
        """Forget the chat of the current role."""
        async with self._in_order:
            name = self._mode.name if self._mode.kind == "role" else self._home.name
            machine = self._chats.pop(name, None)
            if machine is not None and not machine.run.is_over:
                await machine.stop("cleared")
            self._face.say(f"The chat with {name} begins anew.", kind="note")

    async def say(self, text: str, policy: Policy) -> None:
        """Give the active run words with this policy."""
        async with self._in_order:
            machine = await self._addressee()
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

    def _equipped(self) -> Equipment:
        if self._equipment is None:
            raise UserMistake("Still loading.", hint="Try again in a moment.")
        return self._equipment

    async def _said(
        self,
        words: str,
        seen: Collection[str],
        question: str | None,
        as_new: bool,
        policy: Policy | None,
    ) -> Submitted:
        async with self._in_order:
            machine = await self._addressee()
            own = [q.removeprefix(f"{machine.run.id}/") for q in seen]
            if question is not None:
                run, question = _run_and_question(question)
                if run != machine.run.id:
                    return Submitted(kind="returned", reason="That question is not open any more.")
            elif not as_new:
                found = route(words, open_questions=machine.run.open_questions, seen=own)
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
        self._face.refresh()
        return Submitted(kind="taken")

    async def _addressee(self) -> Machine:
        """Return the run that words are for, a new chat where there is none yet."""
        machine = self.active()
        if machine is not None and not machine.run.is_over:
            return machine
        self._go_home()
        name = self._mode.name
        machine = self._chats.get(name)
        if machine is not None and not machine.run.is_over:
            return machine
        equipment = self._equipped()
        definition = chat_definition(name, equipment.library.roles()[name], equipment.tools)
        machine = await equipment.engine.start(definition, allowed=self._allowed)
        self._chats[name] = machine
        return machine

    async def _open(self, wanted: Mode, input: Json) -> None:
        """Make ready what a mode speaks to. A workflow that has ended at once is not active."""
        if wanted.kind == "role":
            roles = self.library.roles()
            if wanted.name not in roles:
                hint = did_you_mean(wanted.name, roles)
                raise UserMistake(f"There is no role {wanted.name!r}.", hint=hint)
            self._home = wanted
        elif input is not None or not self._attach(wanted.name):
            machine = await self._started(wanted.name, input)
            self._workflow = None if machine.run.is_over else machine

    def _attach(self, name: str) -> bool:
        """Turn to a running workflow of that name, of several to the next; False if none is running."""
        running = [
            machine
            for machine in reversed(self.machines())
            if not (machine.run.is_over or _is_chat(machine))
            and self._started_as.get(machine.run.id) == name
        ]
        if not running:
            return False
        shown = [number for number, machine in enumerate(running) if machine is self.active()]
        self._workflow = running[(shown[0] + 1) % len(running) if shown else 0]
        self._face.say(f"Back to {run_line(self._workflow.run)}", kind="note")
        return True

    def _leave_behind(self, machine: Machine) -> None:
        self._behind.add(machine.run.id)
        if not (machine.run.is_over or _is_chat(machine)):
            words = f"{_name(machine)} goes on in the background: {self._way_to(machine)} returns to it."
            self._face.say(words, kind="note")

    async def _started(self, name: str, input: Json) -> Machine:
        equipment = self._equipped()
        definition, handlers = await equipment.library.load(name)
        self._tell_notices()
        machine = await equipment.engine.start(
            definition, handlers=handlers, input=input, allowed=self._allowed
        )
        self._started_as[machine.run.id] = name
        return machine

    def _way_to(self, machine: Machine) -> str:
        """Return the command that makes a run the active one."""
        if _is_chat(machine):
            return f"/role {_name(machine).removeprefix('role:')}"
        # A workflow is found by its file's name, which its own may differ from.
        return f"/workflow {self._started_as.get(machine.run.id, _name(machine))}"

    def _tell_notices(self, more: Sequence[str] = ()) -> None:
        """Say what is wrong with files read so far, each thing once: reading more brings more."""
        for notice in (*self._config.notices, *more):
            if notice not in self._told:
                self._told.add(notice)
                self._face.say(notice, kind="warning")

    def _set_mode(self, mode: Mode) -> None:
        self._mode = mode
        self._config.set_mode(mode, save=False)
        self._is_unsaved = True
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._save_mode())
        self._face.refresh()

    async def _save_mode(self) -> None:
        """Write the mode down off the loop; one that changed meanwhile is written after it."""
        while self._is_unsaved:
            self._is_unsaved = False
            notice = await in_thread(partial(self._config.set_mode, self._mode))
            if notice:
                self._face.say(notice, kind="warning")

    def _go_home(self) -> None:
        if self._mode.kind == "workflow":
            self._workflow = None
            self._set_mode(self._home)

    def _first_line(self) -> str:
        return f"sends to {self._home.name if self._mode.kind == 'workflow' else self._mode.name}"

    def _notes(self, active: Machine | None) -> tuple[str, ...]:
        """Return what else goes on: lines that wait, and the runs behind the active one."""
        waiting = len(self.waiting_inputs())
        others = [m.run for m in self.machines() if m is not active and not m.run.is_over]
        busy = sum(not run.is_parked for run in others)
        asking = sum(bool(where(run).questions) for run in others)
        notes = (
            f"{waiting} waiting" if waiting else "",
            f"{asking} in the background wait{'s' if asking == 1 else ''} for you"
            if asking
            else "",
            f"{busy} in the background" if busy else "",
        )
        return tuple(note for note in notes if note)

    def _hear(self, envelope: Envelope) -> None:
        """Show an event, and what of it concerns a run that is not on the screen.

        When the active workflow has ended, the mode goes back to the role.
        """
        self._face.show(envelope)
        event = envelope.event
        if not isinstance(event, (QuestionAsked, RunFinished, RunFailed, RunStopped)):
            return
        machine = next((m for m in self.machines() if m.run.id == envelope.run), None)
        if machine is None:
            return
        is_behind = envelope.run in self._behind and machine is not self.active()
        if isinstance(event, QuestionAsked):
            if is_behind and event.kind != "input":
                what = f"{question_heading(event)}: {result_summary(event.text)}"
                way = self._way_to(machine)
                words = f"{_name(machine)}, in the background: {what}  ({way} to answer)"
                self._face.say(words, kind="warning")
        elif machine is self.active():
            self._go_home()
        elif is_behind and not _is_chat(machine):
            self._face.say(f"That was {_name(machine)}, in the background.", kind="note")


def _screen_id(run: str, question: str) -> str:
    """Return the id of a question that tells it from those of all other runs."""
    return f"{run}/{question}"


def _run_and_question(screen_id: str) -> tuple[str, str]:
    run, _, question = screen_id.partition("/")
    return run, question


def _name(machine: Machine) -> str:
    definition = machine.run.definition
    return "" if definition is None else definition.workflow.workflow_name


def _is_chat(machine: Machine) -> bool:
    definition = machine.run.definition
    return definition is not None and definition.kind == "chat"


def _is_taken(machine: Machine, receipt: Receipt) -> bool:
    """Return whether words are on their way. What is said of them stands in the run's own events."""
    record = machine.run.inbox.get(receipt.input_id)
    return record is not None and record.disposition != "rejected"

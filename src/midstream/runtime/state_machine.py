"""WorkflowStateMachine: the one loop around the pure core.

    keep exactly pending(run) in flight: begin what is new, cancel what is gone
    wait for one input: a model's reply, a tool's result, a handler's, the user's words
    facts = decide(run, input); journal them; fold them; tell the listeners

The loop awaits its next input and does nothing else: a waiting machine costs no CPU. Everything a
halt, a late reply or a question needs follows from the facts; there is no other machinery here.
"""

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Literal, get_args

import msgspec

from midstream.core import inputs, todo
from midstream.core.call_notes import with_arguments
from midstream.core.decide.decide import judged
from midstream.core.decide.transaction import Story
from midstream.core.events import AnyFact, QuestionAnswered, RunRecovered
from midstream.core.notices import (
    AnyNotice,
    Envelope,
    JournalStalled,
    JournalWorks,
    RunTaken,
    TextDelta,
)
from midstream.core.pending import due_at, open_calls, pending
from midstream.core.pictures import Picture
from midstream.core.pinning import misfit_of
from midstream.core.proposal import mode_of
from midstream.core.question import Decision
from midstream.core.routing import Destination, living, question_asked, spoken
from midstream.core.run import Run, new_run, owner_of
from midstream.core.summaries import why_not
from midstream.core.todo import parse_edit
from midstream.language.errors import (
    REPORT_BUG,
    JournalFull,
    JournalLost,
    JournalMoved,
    MidstreamError,
    OurBug,
    UserMistake,
    WorldTrouble,
)
from midstream.language.names import Json, Policy
from midstream.language.spec import Budget, Definition
from midstream.runtime import run_place, worktrees
from midstream.runtime.background import Background, Command
from midstream.runtime.effect_handle import StreamingEffect
from midstream.runtime.effects import is_cut_off
from midstream.runtime.emitter import RunEvents
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.hooks import WORDS, HookListener, before_start, before_words, is_halted_by
from midstream.runtime.in_flight import InFlight
from midstream.runtime.json_values import kept_object, plain
from midstream.runtime.pictures import with_pictures
from midstream.runtime.ports import Handlers, Listener, Receipt, World
from midstream.runtime.stopwatch import Stopwatch
from midstream.runtime.storage import KEPT, Inbox, Mail
from midstream.runtime.text_limits import capped
from midstream.runtime.user_words import (
    checked,
    fitting_input,
    readable,
)

FAIR_INPUTS = 64
"""Inputs taken in a row before the rest of the program has a turn: a handler may log very fast."""

CHECK_DISK = "Check the disk that holds the journal, then start again."

STALL_RETRY_S = 0.5
"""Seconds between two tries to journal what an effect came to while there is no room."""

_FROM_EFFECTS = (
    inputs.AgentStopped,
    inputs.FilesSeen,
    inputs.ModelReplied,
    inputs.ModelFailed,
    inputs.HandlerReturned,
    inputs.HandlerFailed,
    inputs.HandlerLogged,
    inputs.CallReviewed,
    inputs.ToolFinished,
    inputs.TimerStarted,
    inputs.TimerRang,
)

_IN_HAND = (
    inputs.ModelReplied,
    inputs.HandlerReturned,
    inputs.HandlerFailed,
    inputs.HandlerLogged,
    inputs.CallReviewed,
    inputs.ToolEnded,
    inputs.ToolFinished,
)
"""What an effect has come to that is kept while the machine stands still: the rest is found out again."""

_CUTTING = (inputs.UserSaid, inputs.Halt, inputs.Stop, inputs.TimerRang, inputs.AgentReturned)
"""What may cut a reply: it says what a reader has seen of those under way."""

_OF_WHAT_IS_SHOWN = frozenset({*_CUTTING, inputs.ReplyCheckpoint, inputs.ModelFailed})
"""The inputs that are made whole by what was shown of replies under way."""


class WorkflowStateMachine:
    """A run of a workflow: asynchronous, event-emitting, and open to words at any moment.

    Args:
        definition: what to run. It is pinned: later changes of its files do not reach the run.
        world: the adapters to act through.
        handlers: the functions of the workflow's script, none if it has no script.
        id: the run's id, unique in the journal; made up if not given.
        tap: a trusted, quick listener on the loop that hears every event (engines use it).
        inbox: keeps words until they are journaled; None where nobody would bring them again.
    """

    __slots__ = (
        "__weakref__",
        "_background",
        "_definition",
        "_events",
        "_fault",
        "_handlers",
        "_has_worktrees",
        "_hearing",
        "_hook_listener",
        "_in_doubt",
        "_in_flight",
        "_in_hand",
        "_inbox",
        "_inputs",
        "_is_abandoned",
        "_is_away",
        "_is_closing",
        "_is_finishing",
        "_is_held",
        "_is_leaving",
        "_is_taking",
        "_patience",
        "_returned",
        "_run",
        "_seen",
        "_settled",
        "_stalled",
        "_stopwatch",
        "_taken",
        "_taker",
        "_task",
        "_unkept",
        "_wake",
        "_was_held",
        "_words",
        "_world",
    )

    def __init__(
        self,
        definition: Definition,
        world: World,
        *,
        handlers: Handlers | None = None,
        id: str | None = None,
        tap: Callable[[Envelope], None] | None = None,
        inbox: Inbox | None = None,
    ) -> None:
        self._definition = definition
        self._world = world
        self._handlers = _NO_HANDLERS if handlers is None else handlers
        self._run = new_run(id or new_run_id())
        self._events = RunEvents(self._run.id, world.clock, world.redactor, tap)
        self._background, self._in_flight = self._nothing_in_flight()
        self._hook_listener = (
            None if world.hooks is None else HookListener(world.hooks, self._events.notify)
        )
        self._words: asyncio.Lock | None = None
        self._inbox = inbox
        self._hearing: tuple[str, ...] = ()
        self._inputs: list[tuple[inputs.AnyInput, asyncio.Future[None] | None]] = []
        self._stopwatch = Stopwatch(world.clock)
        self._has_worktrees = False
        self._is_taking = False
        self._is_closing = False
        self._is_abandoned = False
        self._is_away = False
        self._returned: asyncio.Future[None] | None = None
        self._in_doubt: tuple[tuple[inputs.UserSaid, asyncio.Future[None]], ...] = ()
        self._in_hand: tuple[inputs.AnyInput, ...] = ()
        self._taken: inputs.AnyInput | None = None
        self._seen: tuple[inputs.Shown, ...] = ()
        self._is_leaving = False
        self._is_finishing = False
        self._is_held = False
        self._was_held = False
        self._stalled: JournalFull | None = None
        self._patience: asyncio.Task[None] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._settled: list[asyncio.Future[None]] | None = None
        self._task: asyncio.Task[None] | None = None
        self._taker: asyncio.Task[None] | None = None
        self._fault: Exception | None = None
        self._unkept: Exception | None = None

    # --- what a person or a program does with a run -----------------------------------------

    @property
    def id(self) -> str:
        """Return the run's id."""
        return self._run.id

    @property
    def run(self) -> Run:
        """Return the run as it stands. It never changes; a later look returns a later run."""
        return self._run

    @property
    def is_closed(self) -> bool:
        """Return whether this machine does nothing more: its run has ended, or goes on elsewhere."""
        return self._is_closing

    @property
    def is_away(self) -> bool:
        """Return whether this machine does nothing until `resume` is called again; see `stand_still`."""
        return self._is_away

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is under way here: only a person or a time moves it on (`due_at`)."""
        is_hearing = bool(self._inputs or self._is_taking or self._hearing)
        has_commands = any(command.ended is None for command in self._background.commands())
        return not (is_hearing or has_commands) and due_at(self._run) != 0.0

    async def start(
        self,
        input: Json = None,
        *,
        variables: dict[str, Json] | None = None,
        allowed: Sequence[str] = (),
        approvals: Literal["ask", "deny"] = "ask",
        limits: Budget | None = None,
        source: str = "",
        is_held: bool = False,
    ) -> None:
        """Begin. Returns when the start is journaled; the run goes on in the background.

        A journal that fails is no exception here: the run has then ended as failed, and says why.

        Args:
            input: the workflow's input, text read as the JSON type the workflow names. None where it
                starts `on_user_input` waits for a line.
            variables: values that override the workflow's `variables`.
            allowed: tools, or capabilities such as `exec: make test`, that need no approval here.
            approvals: `deny` refuses tool calls that need approval, where nobody could give it.
            limits: what the run may use, whatever its workflow says. Used up, a person is asked.
            source: who starts it, for the record; "": this process's person or program.
            is_held: nothing of it begins here: it is to be let go of.
        """
        workflow, validate = self._definition.workflow, self._world.validate
        pictures: tuple[Picture, ...] = ()
        if isinstance(input, str):
            input, pictures = await with_pictures(input, self._world)
        given = plain("The input", input)
        changed = plain("variables", variables) if variables else self._run.variables
        fitting = await fitting_input(workflow, given, validate)
        if isinstance(fitting, str) and self._world.hooks and self._world.hooks.has(WORDS):
            fitting = await before_start(fitting, self._run, self._world, self._events.notify)
        self._require_new()
        begin = inputs.Start(
            definition=self._definition,
            input=fitting,
            variables=changed,
            allowed=tuple(allowed),
            approvals=approvals,
            limits=limits,
            workspace=readable(self._world.here),
            pictures=pictures,
            hooked=self._hooked(),
            source=readable(source),
        )
        self._is_held = is_held
        self._task = asyncio.create_task(self._main(), name=f"run {self.id}")
        await self._put(begin)

    async def resume(
        self,
        run: Run,
        *,
        was_cut: bool,
        definition: Definition | None = None,
        first: Callable[[], Awaitable[None]] | None = None,
        is_foreign: bool = False,
        limits: Budget | None = None,
        deaths: int = 0,
        missed: Sequence[Envelope] = (),
    ) -> None:
        """Go on with a run that another process held, or that stood still. Returns when that is journaled.

        Args:
            run: the run, folded from all of its facts. It has started and is not over; one that stood still
                may be by now.
            was_cut: the process died without letting go of the run.
            definition: what to follow from here on, instead of what the run is pinned to. The
                machine's handlers are those of this one.
            first: is awaited before any effect begins anew: what the run was told meanwhile.
            is_foreign: its past came with an import: from here on it may use no more than `limits`.
            limits: what runs may use here.
            deaths: so many processes in a row died with the run while it hardly went on.
            missed: facts of the run that listeners of this machine have not heard.

        Raises:
            UserMistake: the definition does not fit where the run stands; nothing changed.
            WorldTrouble: the journal took nothing; nothing changed, and the machine is closed.

        Cancelling the call takes nothing back; `leave` lets go of the run.
        """
        self._require_new()
        # Before anything begins: a crash may have left some standing.
        self._has_worktrees = await worktrees.has_any(run, self._world)
        if self._has_worktrees:
            await worktrees.put_away(run, self._world)
        if definition is not None and (misfit := misfit_of(run, definition)):
            raise UserMistake(
                f"Run {self.id} cannot go on with what the workflow is now: {misfit}.",
                hint="Go on with the copy it is pinned to.",
            )
        self._run = run
        self._is_held = self._was_held = first is not None
        self._task = asyncio.create_task(self._main(), name=f"run {self.id}")
        if self._is_away:
            self._be_back(missed)
            unkept = (*self._seen_unkept(), *self._unkept_ends(missed))
            self._inputs += [(each, None) for each in unkept]
        recovered = inputs.Recovered(
            was_cut=was_cut,
            definition=definition,
            is_foreign=is_foreign,
            limits=limits,
            deaths=deaths,
            hooked=self._hooked(),
        )
        await self._put(recovered)
        if self._unkept is not None:
            await asyncio.wait((self._task,))
            raise self._unkept
        await self._see_changes()
        if was_cut and self._world.place is not None:
            await self._put(inputs.FilesSeen(branch="", manifest=None, note=run_place.CUT))
        if first is not None:
            await first()
        # Before anything begins again, which may come to its end at once.
        while self._in_doubt:
            (said, done), *others = self._in_doubt
            self._in_doubt = tuple(others)
            if said.id in self._run.inbox.lines:
                _settle(done)
            else:
                self._inputs.append((said, done))
                self._rouse()
        if first is not None:
            self._is_held = False
            await self._put(_NOTHING)
        self._seen = ()

    async def _see_changes(self) -> None:
        """Journal what external agents had changed in the workspace before their process died."""
        for each in living(self._run) if self._world.agents is not None else ():
            if each.manifest:
                from midstream.runtime.external_agent import changes_seen

                watch = self._in_flight.watch(each, self._world)
                seen = await changes_seen(watch, each.branch.path, self._world)
                await self._put(seen)

    async def unsuspend(self) -> None:
        """Let a suspended run go on, or one that was halted, where it was cut; any other stays as it is."""
        await self._put(inputs.Resume())

    async def leave(self, *, after: Awaitable[object] | None = None) -> Run:
        """Let go of the run without ending it, and return it as it stands: a later process goes on.

        Nothing new begins. Running `once` calls are stopped softly and how they ended is journaled;
        whatever else is in flight is cut off, and made again by that process. With `after`, what is in
        flight may end by itself until that has happened: often there is nothing left to cut off then.
        """
        if self._task is not None and self._world.place is not None and not self._is_closing:
            # What went on in the background may have written since the last call ended.
            with contextlib.suppress(MidstreamError):
                await self._world.place.keep(self._put)
        self._is_leaving = True
        if self._task is None:
            return self._run
        if self._is_away:
            await self._close()
            return self._run
        if after is not None:
            await self._finished_by_itself(after)
        if self._stopwatch.look(self._run) and self._stalled is None:
            self._tell_time()
        if self._stalled is None:
            self._inputs += [(checkpoint, None) for checkpoint in self._in_flight.unkept()]
        self._in_flight.leave(self._once(), self._world)
        self._try_again()
        self._rouse()
        return await self.wait()

    async def abandon(self, *, is_taken: bool = True) -> None:
        """Let go of the run as a process that dies does, at once: nothing of it is done here any more, and
        nothing more of it is journaled. Returns when what was in flight has been cut off.

        `is_taken`: another process goes on with it, or may.
        """
        self._is_leaving = self._is_abandoned = True
        if self._task is None or self._is_closing:
            return
        if is_taken:
            self._events.notify(RunTaken())
        if not self._is_away:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if not self._is_closing:  # it stood still, or was cancelled before its first step
            await self._close()

    async def stand_still(self, error: JournalFull) -> None:
        """Do nothing more of the run, as a process that dies, until `resume` is called again.

        What was in flight is cut off, and nothing more is journaled; what it had come to by then is kept.
        What is said meanwhile is refused with the error; words that were being journaled wait until it is
        known whether they were.
        """
        if self._task is None or self._is_closing or self._is_leaving or self._is_away:
            return
        self._is_away, self._stalled = True, error
        self._returned = asyncio.get_running_loop().create_future()
        self._events.notify(JournalStalled(error=error.what, hint=error.hint))
        self._in_hand = tuple(each for each, _ in self._inputs if isinstance(each, _IN_HAND))
        self._refuse_waiting(error)
        self._inputs.clear()
        self._task.cancel()
        await asyncio.wait((self._task,))

    def _unkept_ends(self, missed: Sequence[Envelope]) -> tuple[inputs.AnyInput, ...]:
        """Return what effects came to before the machine stood still, as far as it is not journaled.

        Where another process went on with the run meanwhile, it has made them again.
        """
        taken, waiting = self._taken, self._in_hand
        self._taken, self._in_hand = None, ()
        if any(isinstance(each.event, RunRecovered) for each in missed):
            return ()
        # Facts that are missed are those that were being journaled then.
        return waiting if missed or taken is None else (taken, *waiting)

    def _seen_unkept(self) -> list[inputs.ReplyCheckpoint]:
        """Return what was seen of replies before the machine stood still, as far as it is not journaled."""
        owed = {effect.key for effect in pending(self._run)}
        found = []
        for seen in self._seen:
            turn = owner_of(self._run, seen.key).visit.turn if seen.key in owed else None
            if turn is not None and seen.text.startswith(turn.shown):
                rest = seen.text.removeprefix(turn.shown)
                found.append(inputs.ReplyCheckpoint(key=seen.key, text=rest, so_far=seen.usage))
        return found

    def _be_back(self, missed: Sequence[Envelope]) -> None:
        """Stand still no more."""
        assert self._returned is not None
        self._is_away, self._stalled = False, None
        _settle(self._returned)
        for envelope in missed:
            self._events.emit(envelope)
        self._events.notify(JournalWorks())

    async def _finished_by_itself(self, after: Awaitable[object]) -> None:
        """Return once nothing is in flight any more, or something has happened."""
        self._is_finishing = True
        self._in_flight.forget_timers()
        self._rouse()
        assert self._task is not None
        late = asyncio.ensure_future(after)
        try:
            await asyncio.wait((self._task, late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            late.cancel()
            self._is_finishing = False

    async def say(
        self,
        words: str | Destination,
        *,
        question: str | None = None,
        unasked: bool = False,
        policy: Policy | None = None,
        source: str = "user",
        id: str | None = None,
    ) -> Receipt:
        """Give the run a line of the user, and return what is being done with it.

        Args:
            words: what is said. A `Destination` says whom it is for, and `question` and `unasked` nothing.
            question: the id of the open question they answer. None: the only one there is, if an
                agent has asked one; else they are unasked words, which follow the state's `on_input`
                policy (or are what a run that waits for input gets).
            unasked: they answer nothing, whatever is being asked.
            policy: overrides the state's `on_input` for these words, which are then unasked.
            source: who says it, for the record.
            id: makes the call repeatable: the same id again changes nothing, same receipt.

        Cancelling the call takes nothing back: once it has begun, the words are on their way.

        Raises:
            UserMistake: several questions are open and nothing says which is meant, or a picture they
                mention cannot be shown; nothing was said.
            JournalFull: there is no room to keep the words; nothing was said.
        """
        text = words if isinstance(words, str) else words.text
        text, pictures = await with_pictures(text, self._world, self._run.pictures)
        text = await capped(text, self._world.blobs)
        if policy is not None and policy not in get_args(Policy):
            raise UserMistake(f"{policy!r} is not a policy.", hint=", ".join(get_args(Policy)))
        if self._run.visit.phase == "new":
            # Behind a start under way: what the words answer is known once that is journaled.
            await self._put(_NOTHING)
        if isinstance(words, Destination):
            to = msgspec.structs.replace(words, text=text)
        else:
            is_unasked = unasked or policy is not None
            question = None if question is None else readable(question)
            to = spoken(text, self._run, question=question, is_unasked=is_unasked)
        answer, problem = None, ""
        asked = question_asked(self._run, to)
        if asked is not None and asked.schema is not None:
            answer, problem = await checked(to.text, asked.schema, self._world.validate)
        said = inputs.UserSaid(
            id=readable(id) if id else os.urandom(6).hex(),
            to=to,
            at=self._world.clock.now(),
            source=readable(source),
            answer=answer,
            problem=problem,
            policy=policy,
            pictures=pictures,
        )
        is_kept = False
        if self._world.hooks is not None and self._world.hooks.has(WORDS):
            is_kept = await self._put_with_hooks(said)
        elif said.id not in self._run.inbox.lines:
            await self._put(said)
        record = self._run.inbox.lines.get(said.id)
        if record is None and is_kept:
            return Receipt(input_id=said.id, handling="queue", reason=KEPT)
        if record is None:
            return Receipt(input_id=said.id, handling="reject", reason=self._deaf())
        return Receipt(input_id=said.id, handling=record.handling, reason=record.reason)

    async def _put_with_hooks(self, said: inputs.UserSaid) -> bool:
        """Hand words over that hooks have had their say on, in the order in which they were said.

        What the words halt is halted before that: no hook makes a person wait for it. The words
        themselves are in the inbox until they are journaled: after a crash whoever owns the run then
        brings them again. Returns whether they are still kept there.
        """
        if said.id in self._run.inbox.lines:
            return False
        inbox = self._inbox
        # First: who looks into the inbox in between must not bring them, and wait for the hooks, too.
        self._hearing += (said.id,)
        try:
            if inbox is not None:
                await inbox.post(self._mail_of(said))
            try:
                await self._put_behind_hooks(said)
            except JournalFull:
                if inbox is None:
                    raise
        finally:
            at = self._hearing.index(said.id)
            self._hearing = self._hearing[:at] + self._hearing[at + 1 :]
        if inbox is None:
            return False
        if said.id not in self._run.inbox.lines and not self._run.is_over:
            return True
        with contextlib.suppress(MidstreamError):  # it is brought again, and known by its id
            await inbox.delivered(self.id, said.id)
        return False

    async def _put_behind_hooks(self, said: inputs.UserSaid) -> None:
        if is_halted_by(said, self._run):
            await self._put(inputs.Halt())
        if self._words is None:
            self._words = asyncio.Lock()
        async with self._words:
            if said.id not in self._run.inbox.lines and not self._run.is_over:
                await self._put(await before_words(said, self._run, self._world))

    def _mail_of(self, said: inputs.UserSaid) -> Mail:
        return Mail(
            id=said.id,
            run=self.id,
            at=said.at,
            text=said.to.line,
            source=said.source,
            question=said.to.question,
            unasked=said.to.question is None,
            policy=said.policy,
        )

    def is_hearing(self, input_id: str) -> bool:
        """Return whether hooks have their say on these words here, which are in the inbox meanwhile."""
        return input_id in self._hearing

    async def halt(self) -> None:
        """Stop the current turn, keep what was shown, and hold until the next words."""
        await self._put(inputs.Halt())

    async def approve(self, question: str, decision: Decision) -> None:
        """Decide on a tool call that waits for approval. A closed question is left as it is.

        Args:
            question: its id.
            decision: yes or no, and what goes with it.
        """
        edited = None
        if decision.edited is not None:
            edited = with_arguments(self._run, question, kept_object(decision.edited))
            if edited is None:
                return  # it is closed: what was written for it must be no yes to anything else
        await self._put(
            inputs.Approve(
                question=question,
                granted=decision.granted,
                for_run=decision.for_run,
                note=readable(decision.note),
                edited=edited,
                mode=decision.mode,
            )
        )

    async def revoke(self, permission: str) -> None:
        """Take back what was granted for the rest of the run; what is unknown changes nothing."""
        await self._put(inputs.Revoke(permission=permission))

    async def compact(self, note: str = "", *, room: int = 0) -> None:
        """Have the older turns summarised by the model; returns when that has begun.

        The conversation changes once the summary is there whole. `note` is what it keeps in mind. With
        `room` old results of tools give way instead, at once, where that frees so many tokens.

        Raises:
            UserMistake: nothing can be summarised now; nothing changed.
        """
        count, contexts = self._run.compactions, self._run.contexts
        why = why_not(self._run)
        await self._put(inputs.Compact(note=readable(note), room=room))
        is_trimmed = room > 0 and self._run.contexts is not contexts
        if self._run.compactions == count and not is_trimmed:
            raise UserMistake(f"Nothing was compacted: {why or 'the program is closing'}.")

    async def rename(self, name: str) -> None:
        """Give the run a name; "" takes it away."""
        await self._put(inputs.Rename(name=readable(name)))

    async def edit_todo(self, line: str) -> None:
        """Change the todo list: `add WORDS`, `done N` or `drop N`. The agent learns of it with its next
        request.

        Raises:
            UserMistake: the list cannot be changed so; nothing changed.
        """
        edit = parse_edit(readable(line))
        if self._run.is_over or (why := todo.why_not(self._run.todo.items, edit)):
            raise UserMistake(f"Nothing was changed: {self._deaf() if self._run.is_over else why}.")
        await self._put(inputs.EditTodo(edit=edit))

    def commands(self) -> Sequence[Command]:
        """Return the run's commands in the background: those that run, and the last that have ended."""
        return self._background.commands()

    def stop_command(self, handle: str) -> None:
        """Have a command in the background end softly, with all it started; returns at once.

        Raises:
            UserMistake: none of that name runs.
        """
        self._background.stop(handle)

    async def withdraw(self, input_id: str) -> None:
        """Take back words that have not been delivered yet."""
        await self._put(inputs.Withdraw(input_id=input_id))

    async def stop(self, reason: str = "stopped by the user") -> None:
        """End the run. Returns when its tools have stopped and the end is journaled."""
        await self._put(inputs.Stop(reason=readable(reason)))
        await self.wait()

    async def wait(self) -> Run:
        """Return the run once it has ended, its listeners having heard everything.

        Where the event loop shuts down first, the run is returned as it stands: not over, and in
        the journal for a later process to go on with.
        """
        while True:
            task = self._begun()
            if not task.done():  # else its loop may be closed by now
                await asyncio.wait((task,))
            if self._is_away and self._returned is not None:
                await asyncio.wait((self._returned,))
            if task is self._begun():  # no other, with which one that stood still was taken up
                break
        if not task.cancelled():
            task.result()
        return self._run

    async def settled(self) -> Run:
        """Return the run once it has ended or only a person can move it on. See `wait`."""
        self._begun()
        while not (self._run.is_over or self._is_closing or self._is_at_rest()):
            waiter = asyncio.get_running_loop().create_future()
            if self._settled is None:
                self._settled = []
            self._settled.append(waiter)
            await waiter
        return self._run

    def notify(self, notice: AnyNotice) -> None:
        """Show everyone who listens something that is not kept."""
        self._events.notify(notice)

    def on(self, name: str, listener: Listener) -> None:
        """Let a listener hear the events of that wire name, such as `state_transition`; `*` is all.

        An async listener is awaited in a task of its own, a plain one called in a thread of its own:
        one that raises or hangs never harms the run. Facts are never dropped.
        """
        self._events.on(name, listener)

    async def events(self, since: int = 0) -> AsyncGenerator[Envelope]:
        """Yield the run's facts after number `since`, then everything live, until it has ended.

        Facts come without a gap and once each, however late the reading begins or however slow it
        is; of notices those that fall behind are dropped. Of a reply under way all that was shown so far
        comes before the rest, in one piece. Any number of readers may read.
        """
        stream = self._events.subscribe()
        last, upto = since, self._run.seq
        begun = [
            TextDelta(branch=branch, agent=reply.agent, text=reply.words)
            for branch, reply in self.streaming()
            if reply.words
        ]
        try:
            # What comes after that is in the stream, where text stands before the fact that ends it.
            for envelope in await self._world.journal.read(self.id, since, upto):
                last = envelope.seq or last
                yield envelope
            for piece in begun:
                yield Envelope(run=self.id, at=self._world.clock.now(), event=piece)
            while (event := await stream.get()) is not None:
                if event.seq is None or event.seq > last:
                    last = event.seq or last
                    yield event
        finally:
            self._events.unsubscribe(stream)

    def streaming(self) -> list[tuple[str, StreamingEffect]]:
        """Return the replies under way that are shown, each with the branch it belongs to."""
        return self._in_flight.streaming(self._run)

    # --- the loop ---------------------------------------------------------------------------

    async def _main(self) -> None:
        self._in_flight.run_here()
        try:
            while not (self._run.is_over or self._has_left()) and self._fault is None:
                # A handler's own task may be taking (`_deliver`): one at a time, in the order they came.
                if self._taker is None:
                    await self._take_all()
                    self._wake_settled()
                # No await stands between looking and sleeping, so that nothing comes in unnoticed.
                if self._has_nothing_to_do():
                    self._wake = asyncio.get_running_loop().create_future()
                    await self._wake
            if self._fault is not None:
                raise self._fault
        except Exception as error:
            # A run that could not be taken up here has not failed: it is as it was, for others to take.
            if error is not self._unkept:
                await self._give_up(error)
        finally:
            # Also where the loop of the program shuts down and cancels us: no task is left behind.
            await (self._cut_off() if self._is_away else self._close())

    async def _deliver(self, key: inputs.EffectKey, input: inputs.AnyInput) -> None:
        """Take an effect's end at once, in the effect's own task, where nobody is taking.

        It is the same loop a step shorter: the next effect begins without waking the main task,
        which only sleeps here. Whatever else comes meanwhile waits behind it.
        """
        is_first = not (self._is_taking or self._inputs or self._is_closing or self._is_away)
        own = asyncio.current_task()
        # One that is being cancelled would be so in the middle of journaling.
        is_whole = own is not None and not own.cancelling()
        task = self._in_flight.landed(key) if is_first and is_whole else None
        if task is None:
            self._post(input)
            return
        self._inputs.append((input, None))
        self._taker = task
        try:
            await self._take_all()
        except Exception as error:
            # The handler's task is no place to end a run in: the main task is woken, and raises it.
            self._fault = error
        finally:
            self._taker = None
            is_end = self._run.is_over or self._is_leaving or self._fault is not None
            if self._inputs or self._settled or is_end:
                self._rouse()

    def _has_nothing_to_do(self) -> bool:
        is_taken_care_of = self._taker is not None or not self._inputs
        is_done = self._run.is_over or self._has_left()
        return is_taken_care_of and self._fault is None and not is_done

    def _has_left(self) -> bool:
        if not self._is_leaving or self._run.visit.phase == "new":
            return False
        return self._taker is None and not (self._in_flight or self._inputs)

    async def _take_all(self) -> None:
        """Take the inputs that wait, at most `FAIR_INPUTS`: then others have their turn first."""
        for _ in range(FAIR_INPUTS):
            if not self._inputs or self._run.is_over:
                return
            input, done = self._inputs.pop(0)
            # Journaling awaits. Whatever ends or is said meanwhile waits behind this input, because it is
            # judged against the run as this one leaves it.
            self._is_taking = True
            before = self._run
            try:
                await self._take(input)
            except Exception as error:
                if isinstance(input, inputs.Recovered):
                    self._unkept = error  # the run goes on elsewhere, or later: it has not failed
                is_refusable = done is not None and not isinstance(
                    input, inputs.Start | inputs.Recovered
                )
                if not is_refusable or not isinstance(error, JournalFull):
                    raise
                _refuse(done, error)
            finally:
                self._is_taking = False
                if self._is_away and isinstance(input, _IN_HAND) and self._run is before:
                    self._taken = input
                if self._is_away and isinstance(input, inputs.UserSaid) and done is not None:
                    self._in_doubt += ((input, done),)
                elif self._is_away and self._stalled is not None:
                    _refuse(done, self._stalled.again())
                elif done is not None:
                    _settle(done)
        await asyncio.sleep(0)

    async def _take(self, input: inputs.AnyInput) -> None:
        """Judge one input and make it true: decide, journal, fold, tell, and see what is owed."""
        # From here until it is known what the input makes true, replies stream on without being
        # shown: should it halt them, no reader has seen more of them than is kept.
        self._in_flight.hold()
        try:
            if type(input) in _OF_WHAT_IS_SHOWN:
                input = self._with_shown(input)
            before = self._run
            worked_s = self._stopwatch.look(before)
            permits = self._world.permits
            mode = None if permits is None else permits.mode
            story = judged(before, input, worked_s, mode)
            if self._world.place is not None and story.run.is_over and not before.is_over:
                await self._world.place.finish(story.run, self._record_seen)
                before = self._run
                story = judged(before, input, worked_s, mode)
            if story.facts:
                try:
                    await self._record(story)
                except JournalFull as error:
                    if not await self._recorded_later(story, input, error):
                        return
                if self._stalled is not None:
                    self._stalled = None
                    self._events.notify(JournalWorks())
                # Only a branch begins with one, and mostly there is none: each transition passes here.
                if self._has_worktrees or story.run.visit.branches:
                    self._put_worktrees_away(before, story.facts)
            if worked_s:
                self._stopwatch.told(worked_s)
            # What made nothing true changes nothing that is owed.
            if story.facts or self._was_held:
                self._reconcile()
        finally:
            self._in_flight.release()

    async def _record_seen(self, seen: inputs.FilesSeen) -> None:
        """Journal what is seen of the files before the run ends."""
        await self._record(judged(self._run, seen))

    def _put_worktrees_away(self, before: Run, facts: Sequence[AnyFact]) -> None:
        is_one_made = self._world.has_worktrees and worktrees.begin(facts)
        self._has_worktrees = self._has_worktrees or is_one_made
        names = worktrees.left(before, facts) if self._has_worktrees else []
        if names != []:
            putting_away = worktrees.put_away(self._run, self._world, names)
            self._in_flight.await_in_the_end(asyncio.create_task(putting_away))

    def _with_shown(self, input: inputs.AnyInput) -> inputs.AnyInput:
        """Return an input together with what a reader has seen of the replies it is about."""
        if isinstance(input, _CUTTING):
            return msgspec.structs.replace(input, shown=self._in_flight.shown())
        assert isinstance(input, inputs.ReplyCheckpoint | inputs.ModelFailed)
        reply = self._in_flight.reply(input.key)
        if reply is None:
            return input
        if isinstance(input, inputs.ModelFailed):
            return msgspec.structs.replace(input, shown=reply.shown().text, calling=reply.calls)
        text, calling = reply.next_checkpoint(), reply.next_calls()
        return msgspec.structs.replace(input, text=text, so_far=reply.used(), calling=calling)

    async def _record(self, story: Story) -> None:
        """Journal a story's facts; only then are they true, and told."""
        # Killed before the append returns, none of it happened: the effect is owed still, and made again.
        # Killed after it, all of it did. Nobody outside has seen anything of it before that.
        run, at = self._run, self._world.clock.now()
        envelopes = [
            Envelope(run=run.id, at=at, event=fact, seq=seq)
            for seq, fact in enumerate(story.facts, run.seq + 1)
        ]
        await self._world.journal.append(run.id, run.seq, envelopes)
        self._run = story.run
        if run.inbox.open_questions:
            self._leave_plan_mode(run, story)
        for envelope in envelopes:
            self._events.emit(envelope)
        if self._hook_listener is not None:
            for fact in story.facts:
                self._hook_listener.hear(fact, run)

    def _leave_plan_mode(self, before: Run, story: Story) -> None:
        """Switch to the mode in which a person wants a plan carried out that they have just approved.

        Here alone, before anything new begins: the owner of the run does it, whatever door the yes came by.
        """
        plans = {q.id for q in before.inbox.open_questions if q.about == "plan"}
        for fact in story.facts if plans else ():
            if isinstance(fact, QuestionAnswered) and fact.question_id in plans:
                mode, permits = mode_of(fact.answer), self._world.permits
                if mode is not None and permits is not None:
                    with contextlib.suppress(UserMistake):  # not trusted: only looking is possible
                        permits.switch(mode)

    async def _recorded_later(
        self, story: Story, input: inputs.AnyInput, error: JournalFull
    ) -> bool:
        """Journal what there was no room for once there is.

        That goes for what an effect came to, which nobody could tell us again. What was shown of a reply
        is told again later, or with the reply's end. False: it will not be journaled now.

        Raises:
            JournalFull: whoever did it is still there, and may do it again.
        """
        if isinstance(input, inputs.ReplyCheckpoint):
            if reply := self._in_flight.reply(input.key):
                reply.checkpoint_failed()
            return False
        if not isinstance(input, _FROM_EFFECTS):
            raise error
        while True:
            if self._stalled is None:
                is_lost = isinstance(error, JournalLost)
                self._events.notify(
                    JournalStalled(error=error.what, hint=error.hint, is_lost=is_lost)
                )
            self._stalled = error
            self._refuse_waiting(error)
            if self._is_leaving:
                # As if the process had died just before the effect ended: it is made again.
                if not isinstance(input, inputs.FilesSeen):
                    self._in_flight.forget(input.key)
                return False
            await self._pause()
            try:
                await self._record(story)
            except JournalFull as again:
                error = again
            else:
                return True

    async def _pause(self) -> None:
        """Wait a while for room in the journal, less if the run is being left."""
        self._patience = asyncio.create_task(self._world.clock.sleep(STALL_RETRY_S))
        try:
            await asyncio.wait((self._patience,))
        finally:
            self._patience.cancel()

    def _try_again(self) -> None:
        if self._patience is not None:
            self._patience.cancel()

    def _refuse_waiting(self, error: JournalFull) -> None:
        """Tell whoever did something meanwhile that there is no room for it."""
        for waiting in tuple(self._inputs):
            if waiting[1] is not None:
                self._inputs.remove(waiting)
                _refuse(waiting[1], error.again())

    def _reconcile(self) -> None:
        """Keep exactly pending(run) in flight: begin what is new, cancel what is gone."""
        if self._is_closing:
            return
        if self._is_held and self._run.visit.phase != "halting":
            return  # nothing is in flight: there is nothing to cancel
        self._was_held = False
        begins = not self._is_leaving
        # That such a call is made is journaled by now: not made, a person would be asked what became of it.
        besides = self._once() if self._is_finishing else ()
        self._in_flight.keep(
            self._run,
            self._world,
            self._handlers,
            begins=begins,
            besides=besides,
            at_once=not self._inputs,
        )

    def _once(self) -> set[inputs.EffectKey]:
        """Return the keys of the open calls that may be made once only."""
        return {key for key, call in open_calls(self._run).items() if call.effect == "once"}

    def _nothing_in_flight(self) -> tuple[Background, InFlight]:
        background = Background(self._events.notify, self._world.redactor)
        in_flight = InFlight(self._post, self._put, self._deliver, self._events, background)
        return background, in_flight

    async def _cut_off(self) -> None:
        """Leave no effect behind, and be ready for `resume`."""
        self._seen = self._in_flight.shown() or self._seen
        self._in_flight.cancel(self._taker)
        self._in_flight.close()
        self._inputs.clear()
        await self._background.close(0.0)
        await self._in_flight.cleaned_up()
        if self._world.agents is not None:
            await self._world.agents.end(self.id)
        self._background, self._in_flight = self._nothing_in_flight()
        self._stopwatch = Stopwatch(self._world.clock)
        self._taker = self._fault = None

    async def _close(self) -> None:
        """Leave nothing behind: no effect, no waiter, no listener's task."""
        # First, so that what the cancelled effects still post or deliver is dropped.
        self._is_closing, self._is_away = True, False
        self._in_flight.cancel(self._taker)
        self._in_flight.close()
        for _, done in (*self._inputs, *self._in_doubt):
            _settle(done)
        _settle(self._returned)
        self._inputs.clear()
        self._wake_settled()
        self._world.vault.forget(self.id)
        try:
            await self._background.close(*((0.0,) if self._is_abandoned else ()))
            await self._in_flight.cleaned_up()
            if self._world.agents is not None:
                await self._world.agents.end(self.id)
            if self._hook_listener is not None:
                await self._hook_listener.close()
        finally:
            await self._events.close()

    async def _give_up(self, error: Exception) -> None:
        """End the run over a fault of ours or of the journal; what was true before stays true."""
        if isinstance(error, JournalMoved):
            self._unkept = error
            self._events.notify(RunTaken())
            return
        story = Story(self._run)
        clean = self._world.redactor.redacted
        if isinstance(error, MidstreamError):
            story.fail(clean(readable(error.what)), clean(error.hint), fault=error.fault)
        elif isinstance(error, OSError):
            words = clean(readable(f"The journal failed: {error}"))
            story.fail(words, CHECK_DISK, fault=WorldTrouble.fault)
        else:
            words = clean(readable(f"{type(error).__name__}: {error}"))
            story.fail(words, REPORT_BUG, fault=OurBug.fault)
        with contextlib.suppress(Exception):
            if self._run.visit.phase != "new":  # the end of what never began is nothing to journal
                await self._record(story)
                return
        # The journal itself is what failed: the run ends here, unjournaled, but not unseen.
        self._run = story.run
        at = self._world.clock.now()
        for fact in story.facts:
            self._events.emit(Envelope(run=self.id, at=at, event=fact))

    # --- small parts ------------------------------------------------------------------------

    def _post(self, input: inputs.AnyInput) -> None:
        if self._is_closing or self._is_away or is_cut_off():
            return
        is_cut = self._is_leaving and not self._is_finishing
        if is_cut and isinstance(input, inputs.HandlerLogged):
            return
        self._inputs.append((input, None))
        self._rouse()

    def _tell_time(self) -> None:
        """Have the time at work told before the run is let go of, if there is room for it."""
        done = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda told: told.cancelled() or told.exception())
        self._inputs.append((_NOTHING, done))

    def _rouse(self) -> None:
        """Let the main task look at what there is to do."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _put(self, input: inputs.AnyInput) -> None:
        """Hand an input to the loop and return when it has been dealt with."""
        if self._run.is_over or self._is_closing or self._task is None:
            return
        if self._stalled is not None:
            raise self._stalled.again()
        done = asyncio.get_running_loop().create_future()
        self._inputs.append((input, done))
        self._rouse()
        await done

    def _hooked(self) -> tuple[str, ...]:
        return () if self._world.hooks is None else self._world.hooks.hooked

    def _require_new(self) -> None:
        if (self._task is not None and not self._is_away) or self._is_leaving:
            raise UserMistake(f"Run {self.id} has begun already.", hint="Make another machine.")

    def _begun(self) -> asyncio.Task[None]:
        if self._task is None:
            raise UserMistake(f"Run {self.id} has not begun.", hint="Call start first.")
        return self._task

    def _is_at_rest(self) -> bool:
        return self._run.is_parked and not self._inputs and not self._is_taking

    def _deaf(self) -> str:
        """Return why words could not be taken."""
        if self._run.status == "failed":
            return f"the run has failed: {self._run.error}"
        if self._run.is_over:
            return "the run has ended"
        if self._is_abandoned or isinstance(self._unkept, JournalMoved):
            return "another process goes on with the run"
        if self._task is None:
            return "the run has not begun"
        return "the run was let go of here: resume it in an engine that is open"

    def _wake_settled(self) -> None:
        if self._settled:
            waiters, self._settled = self._settled, None
            for waiter in waiters:
                _settle(waiter)


_NOTHING = inputs.Withdraw(input_id="")
"""An input that changes nothing: once it is taken, so is all that was put before."""

_NO_HANDLERS = ScriptHandlers({}, where="The workflow, which has no script,")


def new_run_id() -> str:
    """Return a fresh id: eight letters and digits, easy to type."""
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"
    return "".join(secrets.choice(alphabet) for _ in range(8))


def _settle(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _refuse(waiter: asyncio.Future[None] | None, error: JournalFull) -> None:
    """Say that nothing of an input is true: whoever did it may do it again."""
    if waiter is not None and not waiter.done():
        waiter.set_exception(error)

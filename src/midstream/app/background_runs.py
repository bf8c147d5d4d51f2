"""The runs that are not on the screen: those behind the active one, of other processes, and kept ones.

The session asks it what to say of them, `/commands` what can be done with them. What cannot be done raises
`UserMistake`, unchanged; `run` is the beginning of an id, in any case.
"""

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial

from midstream.app.run_sentences import (
    after_its_end,
    kept_line,
    left_words,
    listed_line,
    nothing_to_answer,
    receipt_words,
    way_on_here,
    why_not,
)
from midstream.app.switching import Switching
from midstream.app.ui import own_id
from midstream.core import events as e
from midstream.core.notices import AnyNotice
from midstream.core.routing import Destination, Returned, answering
from midstream.core.run import Run
from midstream.language.errors import DefinitionDiffers, MidstreamError, RunOwned, UserMistake
from midstream.runtime.ports import Machine, Receipt
from midstream.runtime.storage import PAGE, Choice, KeptRun
from midstream.views.calls_in_words import question_heading, question_summary
from midstream.views.listing import ACTIVE, ENDED
from midstream.views.run_status import silent_words
from midstream.views.spending import Spent

SHOWN_RUNS = 20
"""Runs of earlier days that are listed."""


class Background:
    """The runs of a workspace, wherever they live.

    Args:
        switching: what lines go to.
    """

    def __init__(self, switching: Switching) -> None:
        self._switching = switching
        self._runs = switching.runs
        self._ui = switching.ui
        self._arriving: set[str] = set()

    # --- for the console --------------------------------------------------------------------

    async def begin(self, *, is_resumed: bool, is_for_chat: bool) -> list[KeptRun]:
        """Tell of the runs an earlier process left, or let them go on (`is_resumed`).

        Who begins with an earlier chat (`is_for_chat`) is told of the other runs alone; the chats are
        returned.
        """
        try:
            for kept in reversed(await self._runs.listed()):
                if kept.damaged:
                    self._ui.say(kept_line(kept), kind="warning")
            left = tuple(await self._runs.left(None if is_resumed else PAGE))
        except MidstreamError as error:
            # The console always starts: what cannot be read is told, and new runs may still be kept.
            self._ui.say(str(error), kind="error")
            return []
        if is_resumed:
            await self._resume_all(left)
            return []
        chats = [kept for kept in left if is_for_chat and kept.summary.kind == "chat"]
        self.announce([kept for kept in left if kept not in chats])
        return chats

    async def is_kept_from_starting(self, workflow: str) -> bool:
        """Keep a saved mode from starting its workflow again while a run of it is kept or elsewhere.

        Return whether it is not to be started. One that goes on here is turned to.
        """
        active = self._runs.walk(kind="workflow", status=ACTIVE)
        found = [each async for each in active if each.summary.found_as == workflow]
        elsewhere = [each for each in found if each.owner]
        kept = [each for each in found if not (each.owner or each.is_foreign or each.damaged)]
        if not kept and not elsewhere:
            return False
        going = {machine.run.id: machine for machine in self._runs.own()}
        for each in kept:
            if each.id in going:
                self._switching.place(going[each.id])
                return True
        # How kept runs go on was told with each of them.
        ways = [f"{self.way_on(each)} (in another process)" for each in elsewhere]
        ways.append(f"/workflow {workflow} starts another")
        self._ui.say(
            f"The mode is {self._switching.mode}: {workflow} is not started again, because a run of it "
            f"is running or kept. {'; '.join(ways)}.",
            kind="note",
        )
        return True

    def announce(self, left: Sequence[KeptRun]) -> None:
        """Tell which runs were left or cut, and how they go on; of several chats only how many."""
        chats = [kept for kept in left if _is_quiet(kept)]
        if len(chats) > 1:
            left = [kept for kept in left if not _is_quiet(kept)]
            many = f"{len(chats)}{' or more' * (len(chats) == PAGE)}"
            self._ui.say(
                f"{many} chats were left or cut off in mid-turn: /sessions lists them.",
                kind="note",
            )
        for kept in left[-SHOWN_RUNS:]:
            self._ui.say(f"{kept_line(kept)}: {self.way_on(kept)}.", kind="note")
        if len(left) > SHOWN_RUNS:
            self._ui.say("There are older ones: midstream runs lists them.", kind="note")

    async def _resume_all(self, left: Sequence[KeptRun]) -> None:
        """Let every run go on that may by itself; tell of the others."""
        going: list[Machine] = []
        for kept in left:
            if kept.is_foreign or kept.damaged or kept.summary.status == "suspended":
                self.announce((kept,))
                continue
            try:
                going.append(await self._resumed(kept.id, ""))
            except MidstreamError as error:
                self._ui.say(f"{kept_line(kept)}: {error}", kind="warning")
        for machine in going:
            self._switching.know(machine)
            self._switching.recall(machine)

    def left_words(self, machines: Iterable[Machine]) -> list[str]:
        """Return what is said of runs the console leaves."""
        is_lasting = self._runs.parts.store.is_lasting
        words = (
            left_words(
                m.run, m.run.workflow_name, self._runs.short(m.run.id), is_lasting=is_lasting
            )
            for m in machines
        )
        return [line for line in words if line]

    def way_on(self, kept: KeptRun) -> str:
        """Return how a person goes on with a kept run."""
        if kept.owner:
            return f"/attach {self._runs.short(kept.id)} sends your lines to it"
        return f"/resume {self._runs.short(kept.id)} goes on"

    def is_arriving(self, machine: Machine) -> bool:
        """Return whether a run is about to come into sight."""
        return machine.run.id in self._arriving

    def on_event(self, machine: Machine, event: e.AnyFact | AnyNotice) -> None:
        """Tell on one line how far a run out of sight has come, or what it asks; the rest is kept."""
        named, shows = self._runs.named(machine), "/last shows what it did."
        short = self._runs.short(machine.run.id)
        attach = f"/attach {short} shows it."
        match event:
            case e.RunFinished():
                self._ui.say(f"{named} finished in the background. {shows}", kind="note")
            case e.RunFailed():
                words = f"{named} failed in the background: {event.error} {shows}"
                self._ui.say(words, kind="error")
            case e.RunStopped() if not machine.run.is_chat:
                self._ui.say(f"{named} stopped in the background. {shows}", kind="note")
            case e.Interrupted(branch="", text=None) if not machine.run.is_chat:
                self._ui.say(f"{named} was interrupted in the background: {attach}", kind="note")
            case e.AgentResponded(is_final=True, branch="") if machine.run.is_chat:
                self._ui.say(f"{named} has answered: {attach}", kind="note")
            case e.QuestionAsked(kind=kind) if kind != "input":
                way = (
                    f"/attach {short} to decide" if kind == "approval" else f"/answer {short} TEXT"
                )
                what = f"{question_heading(event)}: {question_summary(event)}"
                self._ui.say(f"{named}, in the background: {what}  ({way})", kind="warning")
            case _:
                pass

    def say_stored(self, machine: Machine, receipt: Receipt) -> None:
        """Tell of words for a run on the screen that nobody runs: they are heard when it goes on."""
        if machine.run.id in self._runs.watched and receipt.input_id not in machine.run.inbox.lines:
            short = self._runs.short(machine.run.id)
            self._ui.say(
                f"No process runs it now. Your words are kept: /resume {short} goes on with it here.",
                kind="note",
            )

    def _owned(self, id: str, owner: str) -> None:
        """Tell that the process of a run that is watched has let go of it, or died."""
        machine = self._runs.watched.get(id)
        if owner or machine is None or machine.run.is_over:
            return
        short = self._runs.short(id)
        self._ui.say(
            f"{machine.run.workflow_name} ({short}): its process has ended. "
            f"{way_on_here(machine.run, short)}",
            kind="warning",
        )

    # --- for the commands -------------------------------------------------------------------

    def names(self) -> list[tuple[str, str]]:
        """Return the (id, description) pairs of the runs known now, those of this console first."""
        own = [m.run for m in self._runs.own() if not m.is_closed]
        found = {run.id: listed_line(run).partition("  ")[2] for run in reversed(own)}
        for kept in self._runs.kept:
            if not kept.summary.is_over:
                found.setdefault(kept.id, kept_line(kept).partition("  ")[2])
        return list(found.items())

    async def lines(self) -> list[str]:
        """Return where every run stands, a line each, the active one marked.

        Chats of scripts that have their reply are no run that anybody looks for.
        """
        active = self._switching.active()
        own = self._runs.own()
        here = {machine.run.id for machine in own if machine.run.is_over or not machine.is_closed}
        await self._runs.listed()
        some = len(here) + SHOWN_RUNS + 1
        living: list[KeptRun] = []
        has_answered = False
        async for kept in self._runs.walk(status=ACTIVE):
            has_answered = has_answered or kept.is_answered
            living += [] if kept.is_answered else [kept]
            if len(living) == some:
                break
        over = await self._runs.listing(ENDED, some)
        elsewhere = [kept for kept in living if kept.id not in here]
        active_id = "" if active is None else active.run.id
        rows = [(kept.id, kept_line(kept)) for kept in reversed(elsewhere[:SHOWN_RUNS])]
        rows += [(m.run.id, listed_line(m.run)) for m in own if m.run.id in here]
        lines = [f"{'*' if id == active_id else ' '} {line}" for id, line in rows]
        if len(elsewhere) > SHOWN_RUNS:
            lines.insert(0, "  There are older ones: midstream runs lists them.")
        others = ["have ended"] * any(kept.id not in here for kept in over)
        others += ["are chats of scripts, answered"] * has_answered
        if others:
            lines.append(f"  Others {', or '.join(others)}: midstream runs lists them.")
        return lines

    async def ended(self) -> Run | None:
        """Return the workflow that ended last as it then stood, None: none has, as far as is kept."""
        over = self._runs.walk(kind="workflow", status=ENDED)
        last = await anext((kept async for kept in over if not kept.damaged), None)
        if last is None:
            return None
        async with self._reached(last.id) as machine:
            return machine.run

    async def resume(self, run: str, choice: Choice = "") -> None:
        """Go on with a run nobody runs, or that is suspended, and make it the active one.

        An empty `run` is the only one that can be meant.
        """
        id = await self._runs.find_id(run) if run else await self._only_one()
        machine = self._runs.find_own(id)
        if machine is None and choice == "stop":
            from midstream.runtime.engine.resume import stop_here

            engine = self._runs.parts.engine
            await stop_here(engine.store, engine.world.clock, id, reason="stopped by the user")
            self._ui.say(f"Run {id} is stopped.", kind="note")
        elif machine is None:
            await self.come_to(id, choice, unsuspends=True)
        elif machine.run.is_over:
            raise UserMistake(f"Run {id} has ended.", hint=after_its_end(id))
        elif choice == "stop":
            is_active = machine is self._switching.active() and not machine.run.is_chat
            await (self._switching.stop_workflow() if is_active else machine.stop())
        else:
            await machine.unsuspend()
            await self._switching.turn_to(machine)

    async def owner(self, kept: KeptRun) -> str:
        """Return who runs a run, "" for nobody. One that is silent is waited for, which is said."""
        from midstream.runtime.engine.owner import ask_owner

        return await ask_owner(self._runs.parts.store, kept, partial(self._say_silent, kept.id))

    def _say_silent(self, id: str) -> None:
        self._ui.say(silent_words(self._runs.short(id)), kind="note")

    async def attach(self, run: str) -> None:
        """Make a run the active one: one of this console, or of another process."""
        id = await self._runs.find_id(run)
        machine = self._runs.find(id)
        if machine is None:
            kept = await self._runs.parts.store.run(id)
            assert kept is not None, "a run that was found is kept"
            if not kept.owner:
                hint = (
                    after_its_end(id)
                    if kept.summary.is_over
                    else f"/resume {self._runs.short(id)} goes on with it."
                )
                how = "has ended" if kept.summary.is_over else "is kept and not running"
                raise UserMistake(f"Run {id} {how}.", hint=hint)
            machine = await self._runs.watch(id, partial(self._owned, id))
        if machine.run.is_over:
            raise UserMistake(f"Run {id} has ended.", hint=after_its_end(id))
        await self._switching.turn_to(machine)

    async def detach(self) -> None:
        """Let lines go to the role again; the active run goes on."""
        machine = self._switching.active()
        is_watched = machine is not None and machine.run.id in self._runs.watched
        if machine is None or (machine.run.is_chat and not is_watched):
            raise UserMistake(
                "Your lines go to the chat already.", hint="/attach RUN goes to a run."
            )
        await self._switching.turn_home()
        short = self._runs.short(machine.run.id)
        place = "its process" if is_watched else "the background"
        words = f"{machine.run.workflow_name} goes on in {place}: /attach {short} returns to it."
        self._ui.say(words, kind="note")

    async def send(self, run: str, text: str) -> None:
        """Give any run a line: the answer to its only question, else unasked words."""
        async with self._reached(await self._runs.find_id(run)) as machine:
            await self._said(machine, text)

    async def answer(self, run: str, text: str) -> None:
        """Answer what a run asks, the active one if `run` is empty; `#2 TEXT` names the question."""
        active = self._switching.active()
        if not run and (active is None or not _asks(active)):
            hint = "A line without a command goes where the bottom line says."
            raise UserMistake("No question is open.", hint=hint)
        id = await self._runs.find_id(run) if run else active.run.id  # type: ignore[union-attr]
        async with self._reached(id) as machine:
            await self._answered(machine, text)

    async def spent(self, *, since: float) -> list[Spent]:
        """Return what all runs of the workspace used since a time, and those of this console ever.

        Each request is in it once, however many forks began with it.
        """
        own = {machine.run.id for machine in self._runs.own()}
        from midstream.runtime.engine.run_costs import spent_here

        engine, whole = self._runs.parts.engine, own | self._runs.watched.keys()
        return await spent_here(engine.store, engine.world.workspace, since=since, whole=whole)

    # --- for the chats and the past ---------------------------------------------------------

    async def come_to(
        self, id: str, choice: Choice, *, unsuspends: bool = False, is_told: bool = False
    ) -> None:
        """Go on with a run and let lines go to it. What it asks meanwhile is then on the screen.

        `unsuspends`: one that was suspended goes on, too.
        """
        self._arriving.add(id)
        try:
            machine = await self._resumed(id, choice)
            if unsuspends and machine.run.suspended:
                await machine.unsuspend()
            await self._switching.turn_to(machine, is_told=is_told)
        finally:
            self._arriving.discard(id)

    # --- inside -----------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _reached(self, id: str) -> AsyncIterator[Machine]:
        """Give a run: the one that is here or watched, else another process's for as long as it takes."""
        machine = self._runs.find(id)
        if machine is not None:
            yield machine
            return
        elsewhere = await self._runs.attached(id)
        try:
            yield elsewhere
        finally:
            await elsewhere.aclose()

    async def _resumed(self, id: str, choice: Choice) -> Machine:
        from midstream.runtime.engine.resume import take_up

        assert choice != "stop", "that ends a run"
        parts = self._runs.parts
        silent = partial(self._say_silent, id)
        try:
            machine = await take_up(
                parts.engine, parts.library, id, choice=choice or "ask", silent=silent
            )
        except DefinitionDiffers as error:
            short = self._runs.short(id)
            raise UserMistake(
                f"The workflow or roles of run {id} have changed since it began: "
                f"{'; '.join(error.changes)}.",
                hint=f"/resume {short} old goes on with the old copy, /resume {short} new with what "
                f"it is now, /resume {short} stop ends it.",
            ) from None
        except RunOwned as error:
            raise UserMistake(
                error.what, hint=f"/attach {self._runs.short(id)} goes to it."
            ) from None
        if id in self._runs.watched:
            await self._runs.forget(self._runs.watched[id])
        return machine

    async def _answered(self, machine: Machine, text: str) -> None:
        found = answering(text, machine.run)
        match found:
            case Destination():
                await self._said(machine, found)
            case Returned(reason=reason):
                raise UserMistake(reason)
            case _:
                asked = machine.run.inbox.open_questions
                raise UserMistake(nothing_to_answer(asked, self._runs.short(machine.run.id)))

    async def _said(self, machine: Machine, words: str | Destination) -> None:
        receipt = await machine.say(words, id=own_id())
        if receipt.handling == "reject" or (receipt.reason and receipt.handling == "answer"):
            raise UserMistake(receipt.reason)
        record = machine.run.inbox.lines.get(receipt.input_id)
        if record is not None and record.disposition == "rejected":
            raise UserMistake(why_not(machine, receipt))
        if machine is not self._switching.active():
            self._ui.say(f"{self._runs.named(machine)}: {receipt_words(receipt)}", kind="note")

    async def _only_one(self) -> str:
        """Return the run `/resume` means without a name."""
        active = self._switching.active()
        if active is not None and active.run.suspended:
            return active.run.id
        kept = await self._runs.left(PAGE)
        left = [each for each in kept if self._runs.find_own(each.id) is None]
        if not left:
            raise UserMistake("No run is waiting to be resumed.", hint="/runs lists all there are.")
        if len(left) > 1:
            ids = ", ".join(self._runs.short(kept.id) for kept in left[-5:])
            raise UserMistake(f"Several runs can go on: {ids}.", hint="/resume RUN names one.")
        return left[0].id


def _is_quiet(kept: KeptRun) -> bool:
    """Return whether a run is a chat that asks nothing, and goes on when somebody goes to it."""
    summary = kept.summary
    is_told = kept.damaged or kept.is_foreign or summary.asking or summary.status == "suspended"
    return summary.kind == "chat" and not is_told


def _asks(machine: Machine) -> bool:
    """Return whether a run asks something; that it waits for words is no question."""
    return any(question.kind != "input" for question in machine.run.inbox.open_questions)

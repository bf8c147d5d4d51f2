"""What the bottom line says: the mode, what Enter does, what is at work, what waits."""

import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from midstream.app.chats import CHOOSES, ESC_CHOOSES
from midstream.app.input import Input
from midstream.app.run_sentences import is_done
from midstream.app.side_questions import ESC_WITHDRAWS, SideQuestions
from midstream.app.switching import Switching
from midstream.app.ui import Status
from midstream.core.costs import Cost, costs, in_words, is_unknown
from midstream.core.events import RunStarted
from midstream.core.notices import Envelope, JournalStalled, JournalWorks, RunTaken
from midstream.core.routing import policy_of
from midstream.runtime.ports import Machine
from midstream.views.amounts import duration, in_short
from midstream.views.lanes import Lane, at_work, behind, lanes, progress_words
from midstream.views.run_status import (
    NOBODY_RUNS_IT,
    STANDS_STILL,
    asked,
    is_at_work,
    summary_words,
    what_addressing_does,
    what_enter_does,
)
from midstream.views.todo_list import shown_items

if TYPE_CHECKING:
    from midstream.tools.permissions import Permissions


class StatusModel:
    """Remembers when runs began, and what was counted of them. Asked at every frame: it is quick.

    Args:
        now: the time in seconds since 1970.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._began: dict[str, float] = {}
        self._stalled: set[str] = set()
        self._counted: tuple[object, str] = ((), "")
        self._inherited: dict[str, Cost] = {}

    def on_event(self, envelope: Envelope) -> None:
        """Remember when a run began, and which stand still."""
        match envelope.event:
            case RunStarted():
                self._began[envelope.run] = envelope.at
            case JournalStalled():
                self._stalled.add(envelope.run)
            case JournalWorks() | RunTaken():
                self._stalled.discard(envelope.run)
            case _:
                pass

    def is_stalled(self, run: str) -> bool:
        """Return whether a run stands still until its journal can be written."""
        return run in self._stalled

    def lanes(
        self,
        active: Machine | None,
        others: Sequence[Machine],
        short: Callable[[str], str],
        orphaned: Collection[str] = (),
    ) -> tuple[Lane, ...]:
        """Return who is at work: in the active run one by one, of each other run in one line.

        `orphaned`: the runs that no process runs; nobody is at work there, whatever was under way.
        """
        found = () if active is None or active.run.definition is None else at_work(active.run)
        for machine in others:
            if machine is active or is_done(machine) or machine.run.definition is None:
                continue
            lane = behind(
                machine.run, named=f"{machine.run.workflow_name} ({short(machine.run.id)})"
            )
            found = found if lane is None else (*found, lane)
        return (
            tuple(self._told(lane, orphaned) for lane in found)
            if self._stalled or orphaned
            else found
        )

    def _told(self, lane: Lane, orphaned: Collection[str]) -> Lane:
        """Return a lane of a run that stands still as one that does nothing else."""
        if lane.run in self._stalled:
            return structs.replace(lane, doing=STANDS_STILL, until=None, is_stalled=True)
        # A worker lets go of a run that waits for a person, or for a time.
        if lane.run in orphaned and lane.until is None and not lane.is_parked:
            return structs.replace(lane, doing=NOBODY_RUNS_IT, is_stalled=True)
        return lane

    def progress(self, machine: Machine, cost: str) -> str:
        """Return how far a workflow at work is; "" for a chat and one that is over.

        How long it runs is told of one that began in this console: a pause of days is no work.
        """
        run = machine.run
        if machine.run.is_chat or run.is_over or not run.visit.state:
            return ""
        parts = [machine.run.workflow_name, progress_words(run)]
        if run.id in self._began:
            parts.append(duration(self._now() - self._began[run.id]))
        return " · ".join(part for part in (*parts, cost) if part)

    def cost(self, machines: Sequence[Machine]) -> str:
        """Return what all of the runs have cost, "" where no model was asked."""
        standing = tuple((m.run.id, len(m.run.usage.requests)) for m in machines)
        if standing != self._counted[0]:
            for machine in machines:
                if machine.run.id not in self._inherited:
                    self._inherited[machine.run.id] = _shared(machine, machines)
            total = Cost()
            for run in (machine.run for machine in machines):
                total = total.plus(costs(run.usage.requests).total).plus(
                    self._inherited[run.id], -1
                )
            # That there is no price stands in `/cost`, and where the first run ends.
            is_told = bool(total.requests) and not is_unknown(total)
            self._counted = (standing, in_words(total) if is_told else "")
        return self._counted[1]


def _shared(machine: Machine, machines: Sequence[Machine]) -> Cost:
    """Return what a run that has just come up began with had cost: a copy pays for none of it."""
    own = machine.run.usage.requests
    longest = 0
    for other in machines:
        theirs = other.run.usage.requests if other is not machine else ()
        same = next(
            (at for at, pair in enumerate(zip(own, theirs, strict=False)) if pair[0] != pair[1]), -1
        )
        longest = max(longest, min(len(own), len(theirs)) if same < 0 else same)
    return costs(own[:longest]).total


class StatusLine:
    """Put together at every frame: it is quick.

    Args:
        switching: what lines go to.
        input: knows the lines that wait.
        side_questions: knows what is asked beside.
    """

    def __init__(self, switching: Switching, input: Input, side_questions: SideQuestions) -> None:
        self._switching = switching
        self._runs = switching.runs
        self._input = input
        self._side_questions = side_questions
        self._model = StatusModel()

    def on_event(self, envelope: Envelope) -> None:
        """Remember of an event of a run what is told of it later: when it began."""
        self._model.on_event(envelope)

    def now(self) -> Status:
        """Return what the bottom line says now."""
        mode = self._switching.mode
        if not self._runs.is_loaded:
            return Status(mode=str(mode), enter=f"goes to {mode.name} once everything is loaded")
        parts, offered = self._runs.parts, self._switching.offered_chats
        machine = self._switching.active()
        is_asking = self._side_questions.is_asking and not (machine and is_at_work(machine.run))
        machines = self._runs.all()
        cost = self._model.cost(machines)
        model = parts.models.describe()
        orphaned = self._runs.orphaned()
        at_work = self._model.lanes(machine, machines, self._runs.short, orphaned)
        notes = self._notes(machine, machines)
        permission = permission_words(parts.permissions)
        if machine is None or machine.run.definition is None:
            return Status(
                mode=str(mode),
                enter=self._first_line(),
                busy=offered > 0 or is_asking,
                esc=ESC_CHOOSES if offered else ESC_WITHDRAWS if is_asking else "",
                numbered=offered,
                permission=permission,
                model=model,
                cost=cost,
                notes=notes,
                lanes=at_work,
            )
        run = machine.run
        is_chat = machine.run.definition.kind == "chat"
        doing = summary_words(run, now=time.time())
        is_stalled = self._model.is_stalled(run.id)
        is_still = is_stalled or any(lane.is_stalled for lane in at_work if lane.run == run.id)
        is_busy = is_at_work(run) and not is_still
        enter = "is not accepted now" if is_stalled else what_enter_does(run)
        if is_still and not (is_stalled or asked(run)):
            enter = "is kept until the run goes on"
        return Status(
            mode=str(mode),
            enter=self._first_line() if run.is_over else enter or "is not accepted now",
            permission=permission,
            state="" if is_chat else run.visit.state,
            # What is at work has lines of its own.
            thinking="" if run.is_over or run.is_parked or at_work else doing,
            model=model,
            cost=cost,
            busy=is_busy or is_asking,
            esc=ESC_WITHDRAWS if is_asking else "",
            notes=notes,
            lanes=at_work,
            addressees=what_addressing_does(run),
            run=run.id,
            progress=self._model.progress(machine, cost),
            is_watched=self._runs.is_watched(machine),
            is_ending=self._switching.is_ending,
            todo=() if run.is_over else shown_items(run),
            on_empty="resumes" if run.visit.phase == "held" or run.suspended else "",
            tab="queues" if is_busy and policy_of(run) != "queue" else "",
        )

    def fields(self) -> dict[str, str]:
        """Return what a person's own status line may name (`config.settings.STATUS_FIELDS`)."""
        status, machine = self.now(), self._switching.active()
        home, mode = self._switching.home, self._switching.mode
        last = () if machine is None else machine.run.usage.requests[-1:]
        used = sum(usage.input_tokens + usage.output_tokens for _, usage in last)
        return {
            "mode": status.mode,
            "role": mode.name if mode.kind == "role" else home.name,
            "model": status.model,
            "state": status.state,
            "cost": status.cost,
            "tokens": in_short(used) if used else "",
            "run": status.run,
            "permission": status.permission,
        }

    def _first_line(self) -> str:
        if self._switching.offered_chats:
            return CHOOSES
        mode, home = self._switching.mode, self._switching.home
        role = home if mode.kind == "workflow" else mode
        return f"sends to {role.name}"

    def _notes(self, active: Machine | None, machines: tuple[Machine, ...]) -> tuple[str, ...]:
        """Return what else goes on: lines that wait, and the runs behind the active one."""
        waiting = len(self._input.waiting())
        others = [m.run for m in machines if m is not active and not is_done(m)]
        busy = sum(not run.is_parked for run in others)
        asking = sum(bool(asked(run)) for run in others)
        can_choose = active is not None and len(lanes(active.run)) > 1
        notes = (
            "@name words: to one" if can_choose else "",
            f"{waiting} waiting" if waiting else "",
            # What counts stands first: the end is cut where there is no room.
            f"{asking} wait{'s' if asking == 1 else ''} for you in the background"
            if asking
            else "",
            f"{busy} in the background" if busy else "",
        )
        return tuple(note for note in notes if note)


def permission_words(permits: "Permissions") -> str:
    """Return how much happens unasked, and in what, in a word or two: of a sandbox only what is known."""
    if permits.is_untrusted:
        return "not trusted: only reads"
    if permits.sandbox is None:
        return "asks" if permits.mode == "ask" else permits.mode
    if permits.sandbox == "full":
        return "asks first" if permits.mode == "ask" else permits.mode
    box = "no" if permits.sandbox == "none" else "partial"
    return f"{'asks' if permits.mode == 'ask' else permits.mode}, {box} sandbox"

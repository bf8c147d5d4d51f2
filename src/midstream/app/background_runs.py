"""The runs that are not on the screen: those behind the active one, of other processes, and kept ones.

The console asks it what to say of them, and `/commands` what can be done with them (`RunsOperator`).
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

from midstream.app.commands.run_summary import listed_line
from midstream.app.run_access import Keeping, Prompt
from midstream.app.run_sentences import (
    FORK,
    is_chat,
    kept_line,
    left_words,
    name_of,
    nothing_to_answer,
    receipt_words,
    short_of,
    way_on_here,
    why_not,
)
from midstream.core import events as e
from midstream.core.notices import AnyNotice, Envelope
from midstream.core.routing import Answer, Returned, route
from midstream.core.run import Run
from midstream.language.errors import DefinitionDiffers, MidstreamError, RunOwned, UserMistake
from midstream.language.nearest import nearest
from midstream.runtime.ports import Choice, Face, Machine, Receipt
from midstream.runtime.ports.storage import KeptRun
from midstream.views.calls_in_words import question_heading, question_summary
from midstream.views.listing import named_like
from midstream.views.spending import Spent

SHOWN_RUNS = 20
"""Runs of earlier days that are listed; the rest is counted."""

OFFERED_RUNS = 100
"""Runs of earlier days whose ids are completed."""


class Background:
    """The runs of a workspace, wherever they live. See the port `RunsOperator`."""

    def __init__(self, prompt: Prompt, face: Face) -> None:
        self._prompt = prompt
        self._face = face
        self._keeping: Keeping | None = None
        self._watched: dict[str, Machine] = {}
        self._known: tuple[KeptRun, ...] = ()
        self._ids: list[str] = []
        self._arriving: set[str] = set()

    # --- for the console --------------------------------------------------------------------

    async def open(self, keeping: Keeping | None) -> tuple[KeptRun, ...]:
        """Take the store into use; return the kept runs nobody runs and a person should hear of."""
        self._keeping = keeping
        try:
            for kept in await self._listed():
                if kept.damaged:
                    self._face.say(kept_line(kept), kind="warning")
            return () if keeping is None else tuple(await keeping.left())
        except MidstreamError as error:
            # The console always starts: what cannot be read is told, and new runs may still be kept.
            self._face.say(str(error), kind="error")
            return ()

    def elsewhere(self, workflow: str) -> list[KeptRun]:
        """Return the runs of a workflow that another process runs, as known now."""
        return [
            kept
            for kept in self._known
            if kept.owner and not kept.summary.is_over and kept.summary.found_as == workflow
        ]

    def announce(self, left: Sequence[KeptRun]) -> None:
        """Tell which runs were left or cut, and how they go on; of several chats only how many."""
        chats = [kept for kept in left if _is_quiet(kept)]
        if len(chats) > 1:
            left = [kept for kept in left if not _is_quiet(kept)]
            self._face.say(
                f"{len(chats)} chats were left or cut off in mid-turn: /sessions lists them.",
                kind="note",
            )
        for kept in left[-SHOWN_RUNS:]:
            self._face.say(f"{kept_line(kept)}: {self.way_on(kept)}.", kind="note")
        if len(left) > SHOWN_RUNS:
            self._face.say(f"+{len(left) - SHOWN_RUNS} older ones: /runs lists them.", kind="note")

    async def auto_resume(self, left: Sequence[KeptRun]) -> list[Machine]:
        """Let every run go on that may by itself; tell of the others. Return those that go on."""
        going: list[Machine] = []
        for kept in left:
            if kept.is_foreign or kept.damaged or kept.summary.status == "suspended":
                self.announce((kept,))
                continue
            try:
                going.append(await self._resumed(kept.id, ""))
            except MidstreamError as error:
                self._face.say(f"{kept_line(kept)}: {error}", kind="warning")
        return going

    def watched(self) -> tuple[Machine, ...]:
        """Return the runs of other processes that lines may go to."""
        return tuple(self._watched.values())

    async def forget(self, machine: Machine) -> None:
        """Hear no more of a run of another process; one of this console is left alone."""
        if self._watched.get(machine.run.id) is machine:
            del self._watched[machine.run.id]
            await self.kept_by().unwatch(machine)

    async def close(self) -> None:
        """Hear no more of any run of another process."""
        for machine in self.watched():
            await self.forget(machine)

    def left_words(self, machines: Iterable[Machine]) -> list[str]:
        """Return what is said of runs the console leaves."""
        is_lasting = self._keeping is not None and self._keeping.is_lasting
        words = (
            left_words(m.run, name_of(m), self.short(m.run.id), is_lasting=is_lasting)
            for m in machines
        )
        return [line for line in words if line]

    def short(self, id: str) -> str:
        """Return the shortest beginning of an id that names no other run known now."""
        own = [machine.run.id for machine in self._prompt.own_machines()]
        # Of all that are known, sorted, only a neighbour can begin as it does for longest.
        place = bisect_left(self._ids, id)
        return short_of(id, [*own, *self._ids[max(place - 1, 0) : place + 2]])

    def way_on(self, kept: KeptRun) -> str:
        """Return how a person goes on with a kept run."""
        if kept.owner:
            return f"/attach {self.short(kept.id)} sends your lines to it"
        return f"/resume {self.short(kept.id)} goes on"

    def asked(self, machine: Machine, event: e.QuestionAsked) -> None:
        """Tell of a question that a run out of sight asks."""
        short = self.short(machine.run.id)
        how = f"/attach {short} to decide" if event.kind == "approval" else f"/answer {short} TEXT"
        what = f"{question_heading(event)}: {question_summary(event)}"
        words = f"{self.named(machine)}, in the background: {what}  ({how})"
        self._face.say(words, kind="warning")

    def is_arriving(self, machine: Machine) -> bool:
        """Return whether a run is about to come into sight."""
        return machine.run.id in self._arriving

    def named(self, machine: Machine) -> str:
        """Return what tells a run from every other, such as `review (ab12)`."""
        return f"{name_of(machine)} ({self.short(machine.run.id)})"

    def milestone(self, machine: Machine, event: e.AnyFact | AnyNotice) -> None:
        """Tell on one line how far a run out of sight has come; the rest is kept for who asks."""
        named, shows = self.named(machine), "/last shows what it did."
        attach = f"/attach {self.short(machine.run.id)} shows it."
        match event:
            case e.RunFinished():
                self._face.say(f"{named} finished in the background. {shows}", kind="note")
            case e.RunFailed():
                words = f"{named} failed in the background: {event.error} {shows}"
                self._face.say(words, kind="error")
            case e.RunStopped() if not is_chat(machine):
                self._face.say(f"{named} stopped in the background. {shows}", kind="note")
            case e.Interrupted(branch="", text=None) if not is_chat(machine):
                self._face.say(f"{named} was interrupted in the background: {attach}", kind="note")
            case e.AgentResponded(is_final=True) if is_chat(machine):
                self._face.say(f"{named} has answered: {attach}", kind="note")
            case _:
                pass

    def tell_kept(self, machine: Machine, receipt: Receipt) -> None:
        """Tell of words for a run on the screen that nobody runs: they are heard when it goes on."""
        if machine.run.id in self._watched and receipt.input_id not in machine.run.inbox.lines:
            short = self.short(machine.run.id)
            self._face.say(
                f"No process runs it now. Your words are kept: /resume {short} goes on with it here.",
                kind="note",
            )

    def owned(self, id: str, owner: str) -> None:
        """Tell that the process of a run that is watched has let go of it, or died."""
        machine = self._watched.get(id)
        if owner or machine is None or machine.run.is_over:
            return
        short = self.short(id)
        self._face.say(
            f"{name_of(machine)} ({short}): its process has ended. "
            f"{way_on_here(machine.run, short)}",
            kind="warning",
        )

    # --- for the commands -------------------------------------------------------------------

    def names(self) -> list[tuple[str, str]]:
        """Return the runs known now; see the port `RunsOperator`."""
        own = [m.run for m in self._prompt.own_machines() if not m.is_closed]
        found = {run.id: listed_line(run).partition("  ")[2] for run in reversed(own)}
        living = (kept for kept in reversed(self._known) if not kept.summary.is_over)
        for kept in islice(living, OFFERED_RUNS):
            found.setdefault(kept.id, kept_line(kept).partition("  ")[2])
        return list(found.items())

    async def lines(self) -> list[str]:
        """Return where every run stands; see the port `RunsOperator`."""
        active = self._prompt.active()
        own = self._prompt.own_machines()
        here = {machine.run.id for machine in own if machine.run.is_over or not machine.is_closed}
        listing = await self._listed()
        elsewhere = [kept for kept in listing if kept.id not in here and not kept.summary.is_over]
        ended = sum(kept.summary.is_over and kept.id not in here for kept in listing)
        active_id = "" if active is None else active.run.id
        rows = [(kept.id, kept_line(kept)) for kept in elsewhere[-SHOWN_RUNS:]]
        rows += [(m.run.id, listed_line(m.run)) for m in own if m.run.id in here]
        lines = [f"{'*' if id == active_id else ' '} {line}" for id, line in rows]
        more = max(0, len(elsewhere) - SHOWN_RUNS)
        if more:
            lines.insert(0, f"  +{more} older: midstream runs lists them.")
        if ended:
            lines.append(f"  {ended} earlier ended: midstream runs lists them.")
        return lines

    async def ended(self) -> Run | None:
        """Return the workflow that ended last; see the port `RunsOperator`."""
        kept = [
            kept
            for kept in (() if self._keeping is None else await self._listed())
            if kept.summary.kind == "workflow" and kept.summary.is_over and not kept.damaged
        ]
        if not kept:
            return None
        last = max(kept, key=lambda each: each.summary.updated_at)
        machine = await self.kept_by().watch(last.id, _nothing)
        try:
            return machine.run
        finally:
            await self.kept_by().unwatch(machine)

    async def resume(self, run: str, choice: Choice = "") -> None:
        """Go on with a run; see the port `RunsOperator`."""
        id = await self._found(run) if run else await self._only_one()
        machine = self._own(id)
        if machine is not None:
            if machine.run.is_over:
                raise UserMistake(f"Run {id} has ended.", hint=FORK)
            if choice == "stop":
                is_active = machine is self._prompt.active() and not is_chat(machine)
                await (self._prompt.stop_workflow() if is_active else machine.stop())
                return
            await machine.unsuspend()
        else:
            kept = next((kept for kept in self._known if kept.id == id), None)
            was_suspended = kept is not None and kept.summary.status == "suspended"
            if choice == "stop":
                await self.kept_by().resume(id, choice)
                self._face.say(f"Run {id} is stopped.", kind="note")
                return
            await self.come_to(id, choice, unsuspends=was_suspended)
            return
        await self._prompt.turn_to(machine)

    async def attach(self, run: str) -> None:
        """Make a run the active one; see the port `RunsOperator`."""
        id = await self._found(run)
        machine = self._own(id) or self._watched.get(id)
        if machine is None:
            kept = next(kept for kept in self._known if kept.id == id)
            if not kept.owner:
                hint = (
                    FORK if kept.summary.is_over else f"/resume {self.short(id)} goes on with it."
                )
                how = "has ended" if kept.summary.is_over else "is kept and not running"
                raise UserMistake(f"Run {id} {how}.", hint=hint)
            machine = await self.kept_by().watch(id, self._prompt.hear, partial(self.owned, id))
            self._watched[id] = machine
        if machine.run.is_over:
            raise UserMistake(f"Run {id} has ended.", hint=FORK)
        await self._prompt.turn_to(machine)

    async def detach(self) -> None:
        """Let lines go to the role again; see the port `RunsOperator`."""
        machine = self._prompt.active()
        is_watched = machine is not None and machine.run.id in self._watched
        if machine is None or (is_chat(machine) and not is_watched):
            raise UserMistake(
                "Your lines go to the chat already.", hint="/attach RUN goes to a run."
            )
        await self._prompt.turn_home()
        short = self.short(machine.run.id)
        place = "its process" if is_watched else "the background"
        words = f"{name_of(machine)} goes on in {place}: /attach {short} returns to it."
        self._face.say(words, kind="note")

    async def send(self, run: str, text: str) -> None:
        """Give any run a line; see the port `RunsOperator`."""
        id = await self._found(run)
        await self._said(id, text, None)

    async def answer(self, run: str, text: str) -> None:
        """Answer what a run asks; see the port `RunsOperator`."""
        active = self._prompt.active()
        if not run and (active is None or not _asks(active)):
            hint = "A line without a command goes where the bottom line says."
            raise UserMistake("No question is open.", hint=hint)
        id = await self._found(run) if run else active.run.id  # type: ignore[union-attr]
        machine = self._own(id) or self._watched.get(id)
        if machine is not None:
            await self._answered(machine, text)
            return
        machine = await self.kept_by().watch(id, _nothing)
        try:
            await self._answered(machine, text)
        finally:
            await self.kept_by().unwatch(machine)

    async def spent(self, *, since: float) -> list[Spent]:
        """Return what the runs of the workspace used; see the port `RunsOperator`."""
        own = {machine.run.id for machine in self._prompt.own_machines()}
        return await self.kept_by().spent(since=since, whole=own | self._watched.keys())

    # --- for the chats and the past ---------------------------------------------------------

    async def come_to(
        self, id: str, choice: Choice, *, unsuspends: bool = False, is_told: bool = False
    ) -> None:
        """Go on with a run and let lines go to it. What it asks meanwhile is then on the screen."""
        self._arriving.add(id)
        try:
            machine = await self._resumed(id, choice)
            if unsuspends:
                await machine.unsuspend()
            await self._prompt.turn_to(machine, is_told=is_told)
        finally:
            self._arriving.discard(id)

    async def facts_of(self, id: str) -> Sequence[Envelope]:
        """Return the facts of a run of the workspace."""
        return await self.kept_by().facts(id)

    async def listed(self) -> tuple[KeptRun, ...]:
        """Return every run of the workspace, the oldest first, and know them from now on."""
        return await self._listed()

    def kept_by(self) -> Keeping:
        """Return the store's runs.

        Raises:
            UserMistake: they are still being loaded.
        """
        if self._keeping is None:
            raise UserMistake("Still loading.", hint="Try again in a moment.")
        return self._keeping

    # --- inside -----------------------------------------------------------------------------

    async def _resumed(self, id: str, choice: Choice) -> Machine:
        try:
            machine = await self.kept_by().resume(id, choice)
        except DefinitionDiffers as error:
            short = self.short(id)
            raise UserMistake(
                f"The workflow or roles of run {id} have changed since it began: "
                f"{'; '.join(error.changes)}.",
                hint=f"/resume {short} old goes on with the old copy, /resume {short} new with what "
                f"it is now, /resume {short} stop ends it.",
            ) from None
        except RunOwned as error:
            raise UserMistake(error.what, hint=f"/attach {self.short(id)} goes to it.") from None
        assert machine is not None
        if id in self._watched:
            await self.forget(self._watched[id])
        return machine

    async def _answered(self, machine: Machine, text: str) -> None:
        asked = machine.run.inbox.open_questions
        found = route(text, open_questions=asked, seen=[question.id for question in asked])
        match found:
            case Answer(question=question, text=words):
                await self._said(machine.run.id, words, question, machine)
            case Returned(reason=reason):
                raise UserMistake(reason)
            case _:
                raise UserMistake(nothing_to_answer(asked, self.short(machine.run.id)))

    async def _said(
        self, id: str, text: str, question: str | None, machine: Machine | None = None
    ) -> None:
        machine = machine or self._own(id) or self._watched.get(id)
        is_passing = machine is None
        if machine is None:
            machine = await self.kept_by().watch(id, _nothing)
        try:
            receipt = await machine.say(text, question=question)
        finally:
            if is_passing:
                await self.kept_by().unwatch(machine)
        if receipt.handling == "reject" or (receipt.reason and receipt.handling == "answer"):
            raise UserMistake(receipt.reason)
        record = machine.run.inbox.lines.get(receipt.input_id)
        if record is not None and record.disposition == "rejected":
            raise UserMistake(why_not(machine, receipt))
        if machine is not self._prompt.active():
            self._face.say(
                f"{name_of(machine)} ({self.short(id)}): {receipt_words(receipt)}", kind="note"
            )

    def _own(self, id: str) -> Machine | None:
        for machine in self._prompt.own_machines():
            if machine.run.id == id and (machine.run.is_over or not machine.is_closed):
                return machine
        return None

    async def _listed(self) -> tuple[KeptRun, ...]:
        if self._keeping is not None:
            self._known = tuple(await self._keeping.listing())
            self._ids = sorted(kept.id for kept in self._known)
        return self._known

    async def _only_one(self) -> str:
        """Return the run `/resume` means without a name."""
        active = self._prompt.active()
        if active is not None and active.run.suspended:
            return active.run.id
        await self._listed()
        left = [k for k in await self.kept_by().left() if self._own(k.id) is None]
        if not left:
            raise UserMistake("No run is waiting to be resumed.", hint="/runs lists them.")
        if len(left) > 1:
            ids = ", ".join(self.short(kept.id) for kept in left[-5:])
            raise UserMistake(f"Several runs can go on: {ids}.", hint="/resume RUN names one.")
        return left[0].id

    async def _found(self, prefix: str) -> str:
        """Return the id that begins so.

        Raises:
            UserMistake: none does, or several do.
        """
        wanted = prefix.casefold()
        ids = [kept.id for kept in await self._listed()]
        ids += [m.run.id for m in self._prompt.own_machines() if m.run.id not in ids]
        matching = [id for id in ids if id.casefold().startswith(wanted)]
        if wanted in matching or len(matching) == 1:
            return wanted if wanted in matching else matching[0]
        named = named_like(prefix, [(kept.id, kept.summary.name) for kept in self._known])
        if len(named) == 1 and not matching:
            return named[0]
        if matching and wanted:
            some = ", ".join(matching[:5])
            raise UserMistake(f"Several runs begin with {prefix}: {some}.", hint="Type more of it.")
        best = nearest(prefix, ids)
        hint = "/runs lists them." if best is None else f"Did you mean {best!r}?"
        raise UserMistake(f"There is no run {prefix!r} in this workspace.", hint=hint)


def _is_quiet(kept: KeptRun) -> bool:
    """Return whether a run is a chat that asks nothing, and goes on when somebody goes to it."""
    summary = kept.summary
    is_told = kept.damaged or kept.is_foreign or summary.asking or summary.status == "suspended"
    return summary.kind == "chat" and not is_told


def _asks(machine: Machine) -> bool:
    """Return whether a run asks something; that it waits for words is no question."""
    return any(question.kind != "input" for question in machine.run.inbox.open_questions)


def _nothing(envelope: Envelope) -> None:
    """Hear nothing: the run is only passed by."""

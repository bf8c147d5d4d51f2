"""A rehearsal disturbed at every point there is: does everything hold that must?

First it is played undisturbed, to see where the points are. Then once for each of them: the same
until there, the disturbance, and on to the end, improvised where the script no longer fits.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from midstream.core.errors import JournalMoved, MidstreamError
from midstream.core.events import AnyFact, RunFailed
from midstream.core.spec import Definition
from midstream.ports import Handlers, ModelRequest, Validator
from midstream.rehearsal import format as form
from midstream.rehearsal.director import Director, answer
from midstream.rehearsal.improvise import Improviser
from midstream.rehearsal.invariants import broken_by
from midstream.rehearsal.points import Kind, Moment, Point
from midstream.rehearsal.puppet import Puppet
from midstream.rehearsal.replay import fits_all
from midstream.rehearsal.telling import clipped

WORDS = "Wait: one more thing."
"""The line of user input that interrupts."""

INJECTED = "injected"
"""The id of that line."""

ACTS = 400
"""Things that may happen after a disturbance before the run is stopped: it may well go round for ever."""


Refused: TypeAlias = Callable[[ModelRequest], Sequence[str]]


def refused_by_nobody(request: ModelRequest) -> Sequence[str]:
    """Return that nothing is wrong with a request."""
    return ()


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one point: what was broken, in words; nothing: it held. `end` is how it ended."""

    point: Point
    broken: tuple[str, ...]
    end: str


async def everywhere(
    rehearsal: form.Rehearsal,
    definition: Definition,
    handlers: Handlers,
    *,
    kinds: Iterable[Kind] = ("interrupt", "kill", "both"),
    validate: Validator = fits_all,
    only: Point | None = None,
    refused: Refused = refused_by_nobody,
) -> list[Tried]:
    """Return what came of every point of a rehearsal, or of one.

    Args:
        rehearsal: what happens.
        definition: the workflow.
        handlers: the functions of its script; they run for real, many times.
        kinds: which disturbances.
        validate: checks answers against the schemas of questions.
        only: the one point to try.
        refused: returns why a provider would not take a request, such as
            `midstream.testing.dialects.problems_in`.
    """
    wanted = tuple(kinds)
    base = _Play(rehearsal, Puppet(definition, handlers, validate), None)
    await base.play()
    failed = isinstance(base.facts()[-1], RunFailed)
    points = base.points(wanted) if only is None else [only]
    tried = []
    for point in points:
        play = _Play(rehearsal, Puppet(definition, handlers, validate), point)
        await play.play()
        broken = [*play.broken, *play.judged(base, may_fail=failed)]
        broken += [why for request in play.requests for why in refused(request)]
        run = play.director.puppet.notebook.folded()
        tried.append(Tried(point=point, broken=tuple(broken), end=clipped(run.error or run.status)))
    return tried


def table(tried: Sequence[Tried]) -> str:
    """Return the points tried, held and broken, by kind, and how to replay each that broke."""
    lines = [f"{'':<10}{'tried':>7}{'held':>7}{'broken':>7}"]
    for kind in ("interrupt", "kill", "both"):
        these = [each for each in tried if each.point.kind == kind]
        held = sum(not each.broken for each in these)
        if these:
            lines.append(f"{kind:<10}{len(these):>7}{held:>7}{len(these) - held:>7}")
    for each in tried:
        lines += [f"--point {each.point}: {words}" for words in each.broken]
    return "\n".join(lines)


class _Play:
    """One playing of a rehearsal, disturbed at a point or not at all."""

    def __init__(self, rehearsal: form.Rehearsal, puppet: Puppet, point: Point | None) -> None:
        self.director = Director(rehearsal, puppet)
        self.broken: list[str] = []
        self.kept: list[int] = []
        self._puppet = puppet
        self._point = point
        self._steps = rehearsal.steps
        self._done = 0
        self._handled = 0
        self._improviser: Improviser | None = None
        self._is_fired = False
        self._is_said = False
        self._kills_next = False
        self._flying: list[int] = []
        notebook = puppet.notebook
        notebook.keeping = self._before_keeping
        notebook.kept = self._after_keeping

    @property
    def requests(self) -> list[ModelRequest]:
        """Return everything models were sent."""
        return self._puppet.requests

    def facts(self) -> list[AnyFact]:
        """Return all facts of the run."""
        return [each.event for each in self._puppet.notebook.envelopes()]  # type: ignore[misc]

    def points(self, kinds: Sequence[Kind]) -> list[Point]:
        """Return where this playing could have been disturbed."""
        moments: dict[Kind, list[tuple[Moment, list[int]]]] = {
            "interrupt": [("kept", self.kept), ("flying", self._flying)],
            "kill": [("lost", self.kept), ("kept", self.kept), ("flying", self._flying)],
            "both": [("flying", self._flying)],
        }
        return [
            Point(kind=kind, seq=seq, moment=moment)
            for kind in kinds
            for moment, seqs in moments[kind]
            for seq in seqs
        ]

    async def play(self) -> None:
        """Play to the end, or until nothing is left to happen."""
        director = self.director
        try:
            await director.begin()
            for _ in range(len(self._steps) + ACTS):
                await self._puppet.life.quiet()
                if await self._went_on():
                    continue
                if self._puppet.run.is_over or not await self._act():
                    break
            else:
                await self._end("the rehearsal has seen enough")
        except MidstreamError as error:
            self.broken.append(f"{type(error).__name__}: {error}")
        finally:
            await director.close()

    # --- the disturbance ------------------------------------------------------------------------

    def _before_keeping(self, last: int) -> None:
        if self._is_due("lost", last) and not self._is_fired:
            self._fire()
            raise JournalMoved("The rehearsal kills the run here.")

    def _after_keeping(self, last: int) -> None:
        self.kept.append(last)
        if not self._is_due("kept", last) or self._is_fired:
            return
        assert self._point is not None
        self._fire()
        if self._point.kind == "kill":
            raise JournalMoved("The rehearsal kills the run here.")
        self.director.soon(self._interrupt())

    def _is_due(self, moment: Moment, seq: int) -> bool:
        point = self._point
        return point is not None and (point.moment, point.seq) == (moment, seq)

    def _fire(self) -> None:
        self._is_fired = True
        self._improviser = self._improviser or Improviser(self._steps, self._done)

    async def _interrupt(self) -> None:
        machine = self._puppet.life.machine
        receipt = await machine.say(WORDS, unasked=True, id=INJECTED)
        self._is_said = INJECTED in machine.run.inbox
        if not self._is_said and not machine.run.is_over:
            self.broken.append(f"the words were not taken: {receipt.reason}")

    async def _went_on(self) -> bool:
        """Disturb the run where it is due, and take it up where it was killed."""
        life = self._puppet.life
        if life.is_over and not life.machine.run.is_over:
            await self._revived()
            return True
        seq = life.machine.run.seq
        if self._kills_next:
            self._kills_next = False
            await self._revived()
            return True
        if not life.is_over and (not self._flying or self._flying[-1] != seq):
            self._flying.append(seq)
            if self._is_due("flying", seq) and not self._is_fired:
                await self._disturb()
                return True
        return False

    async def _disturb(self) -> None:
        assert self._point is not None
        self._fire()
        self._show_half()
        if self._point.kind == "kill":
            await self._revived()
            return
        await self._interrupt()
        self._kills_next = self._point.kind == "both"

    def _show_half(self) -> None:
        """Stream half of a reply, so that the disturbance comes in the middle of it."""
        model = self.director.standing("model")
        if model is not None and self._improviser is not None:
            model.show("Half of a rep")

    async def _revived(self) -> None:
        """Let another process go on, from the bytes alone; they must tell of the same run."""
        await self._puppet.life.kill()
        before = self._puppet.run
        after = self._puppet.notebook.folded()
        if after.seq == before.seq and after != before:
            self.broken.append(f"folding the facts gives another run than fact {after.seq} had")
        await self.director.revive(was_cut=True)

    # --- what happens next ------------------------------------------------------------------------

    async def _act(self) -> bool:
        """Let the next thing happen; False: nothing is left that could."""
        if self._improviser is None and self._done < len(self._steps):
            if await self._scripted(self._steps[self._done]):
                return True
            self._improviser = Improviser(self._steps, self._done)
        improviser = self._improviser or Improviser(self._steps, self._done)
        self._improviser = improviser
        return await self._improvised(improviser)

    async def _scripted(self, step: form.AnyStep) -> bool:
        """Let the next step of the script happen, or a handler before it; False: it does not fit."""
        handler = self.director.standing("handler")
        limit = step.after_handlers
        if handler is not None and (limit is None or self._handled < limit):
            self._handled += 1
            self._puppet.life.finish(handler, None)
            return True
        self._handled = 0
        if await self.director.do(step) is not None:
            return False
        self._done += 1
        return True

    async def _improvised(self, improviser: Improviser) -> bool:
        life, run = self._puppet.life, self._puppet.run
        handler, model = self.director.standing("handler"), self.director.standing("model")
        if (handler or model) and (
            said := improviser.unasked(run, in_handler=handler is not None)
        ) is not None:
            await self.director.do(said)
        elif handler is not None:
            life.finish(handler, None)
        elif model is not None:
            assert model.request is not None
            answer(self._puppet, model, improviser.reply(model.request))
        elif (tool := self.director.standing("tool")) is not None:
            life.finish(tool, improviser.outcome(tool))
        else:
            return await self._of_person(improviser)
        return True

    async def _of_person(self, improviser: Improviser) -> bool:
        machine, run = self._puppet.life.machine, self._puppet.run
        if not run.open_questions:
            await machine.say("Go on.", unasked=True, id=self.director.next_id())
            return True
        question = run.open_questions[0]
        if question.kind == "approval":
            await machine.approve(question.id, granted=improviser.decision(run, question))
            return True
        if question.kind == "input":
            line = improviser.line()
            if line is None:
                await self._end("nothing is left to say")
            else:
                await self.director.say(line)
            return True
        text = improviser.answer(question)
        if text is None:
            await self._end("no answer fits")
        else:
            await machine.say(text, question=question.id, id=self.director.next_id())
        return True

    async def _end(self, reason: str) -> None:
        """Stop the run; its running tools end as they would."""
        await self.director.stop(reason)
        await self._puppet.life.quiet()
        while (tool := self.director.standing("tool")) is not None:
            assert self._improviser is not None
            self._puppet.life.finish(tool, self._improviser.outcome(tool))
            await self._puppet.life.quiet()

    # --- the judgement ------------------------------------------------------------------------------

    def judged(self, base: "_Play", *, may_fail: bool) -> list[str]:
        """Return what is broken in the end.

        Args:
            base: the undisturbed playing.
            may_fail: the undisturbed one has failed too.
        """
        facts, run = self.facts(), self._puppet.notebook.folded()
        broken = list(broken_by(run, facts, self._puppet.requests, self._puppet.effects))
        assert self._point is not None
        if not self._is_fired:
            broken.append("the point was not reached")
        is_lost = self._point.moment == "lost"
        done = [seq for seq in base.kept if seq < self._point.seq + (not is_lost)]
        before = max(done, default=0)
        if facts[:before] != base.facts()[:before]:
            broken.append("the facts before the disturbance are not those of the undisturbed run")
        if self._puppet.run.seq == run.seq and self._puppet.run != run:
            broken.append("folding the facts gives another run than the machine has")
        if not run.is_over:
            broken.append(f"the run did not come to an end: {run.phase} in {run.state}")
        last = facts[-1]
        if isinstance(last, RunFailed) and not may_fail:
            broken.append(clipped(f"the run failed in {last.state}: {last.error}"))
        if self._is_said and INJECTED not in run.inbox:
            broken.append("the words were taken and are lost")
        return broken

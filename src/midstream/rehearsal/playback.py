"""One playing of a rehearsal: by its script until it is disturbed, improvised from there on.

Where it can be disturbed, and how, stands first: the names of the points.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from midstream.core.events import AnyFact, RunFailed
from midstream.core.question import Decision
from midstream.core.routing import as_typed, living
from midstream.core.run import RETRY, WAITED
from midstream.language.errors import JournalMoved, MidstreamError, UserMistake
from midstream.rehearsal import format as form
from midstream.rehearsal.auto_responder import Responder
from midstream.rehearsal.fake_world import FakeWorld, Standing
from midstream.rehearsal.invariants import broken_by
from midstream.rehearsal.scenario_driver import Driver, answer
from midstream.rehearsal.step_words import clipped
from midstream.runtime.ports import ModelRequest

Kind: TypeAlias = Literal["interrupt", "aside", "kill", "both"]
Moment: TypeAlias = Literal["lost", "kept", "flying"]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One disturbance of a rehearsal, or two.

    `seq` is a fact's number. `lost`: what it tells of has happened, and is not kept. `kept`: right
    after it was kept, before anything follows. `flying`: what follows it is under way. `aside`: words
    to one of the branches that are under way. `both`: an interruption while things are under way, and a
    kill as soon as the halt waits for something. `then`: and another, at the append (`lost`, `kept`) or
    wait (`flying`) after the first that its `seq` counts.
    """

    kind: Kind
    seq: int
    moment: Moment = "kept"
    then: "Point | None" = None

    def __str__(self) -> str:
        """Return the point's name, such as `kill:17` or `interrupt:4:flying+kill:2:lost`."""
        moment = "" if self.moment == "kept" else f":{self.moment}"
        then = "" if self.then is None else f"+{self.then}"
        return f"{self.kind}:{self.seq}{moment}{then}"


_KINDS, _MOMENTS = "|".join(get_args(Kind)), "|".join(get_args(Moment))
_NAME = re.compile(rf"(?P<kind>{_KINDS}):(?P<seq>\d{{1,9}})(:(?P<moment>{_MOMENTS})?)?", re.ASCII)


def point_named(name: str) -> Point:
    """Return the point of a name.

    Raises:
        UserMistake: it is none.
    """
    match [_point(part) for part in name.split("+", 1)]:
        case [Point() as point]:
            return point
        case [Point() as first, Point(kind="interrupt" | "aside" | "kill") as then] if (
            first.kind != "both" and then.seq
        ):
            return msgspec.structs.replace(first, then=then)
    raise UserMistake(
        f"{name!r} is not a point.",
        hint="Write one such as kill:17, interrupt:4:flying or, for two, kill:17:lost+interrupt:2.",
    )


def _point(name: str) -> Point | None:
    parts = _NAME.fullmatch(name)
    return parts and msgspec.convert(parts.groupdict("kept"), Point, strict=False)


# --- the playing ---------------------------------------------------------------------------------

WORDS = "Wait: one more thing."
"""The line of user input that interrupts."""

INJECTED = "injected"
"""The id of that line."""

MORE_WORDS = "And another."
"""The line of a second interruption."""

INJECTED_NEXT = "injected next"
"""The id of that one."""

ACTS = 400
"""Things that may happen after a disturbance before the run is stopped: it may well go round for ever."""


class Play:
    """One playing of a rehearsal, disturbed at a point or not at all.

    `kept` are the facts' numbers at each append, `broken` what went wrong on the way, in words, and
    `later` where a second disturbance could have followed the first.
    """

    def __init__(self, rehearsal: form.Rehearsal, fake: FakeWorld, point: Point | None) -> None:
        self.driver = Driver(rehearsal, fake)
        self.broken: list[str] = []
        self.kept: list[int] = []
        self.later: list[Point] = []
        self._fake = fake
        self._point = point
        self._steps = rehearsal.steps
        self._done = 0
        self._handled = 0
        self._responder: Responder | None = None
        self._fired = 0
        self._since: dict[Moment, int] = {"lost": 0, "kept": 0, "flying": 0}
        self._said: list[str] = []
        self._saying: asyncio.Task[None] | None = None
        self._kills_next = False
        self._flying: list[int] = []
        self._in_branches: list[int] = []
        notebook = fake.notebook
        notebook.keeping = self._before_keeping
        notebook.kept = self._after_keeping

    @property
    def requests(self) -> list[ModelRequest]:
        """Return everything models were sent."""
        return self._fake.requests

    def facts(self) -> list[AnyFact]:
        """Return all facts of the run."""
        return [each.event for each in self._fake.notebook.envelopes()]  # type: ignore[misc]

    def points(self, kinds: Sequence[Kind]) -> list[Point]:
        """Return where this playing could have been disturbed."""
        moments: dict[Kind, list[tuple[Moment, list[int]]]] = {
            "interrupt": [("kept", self.kept), ("flying", self._flying)],
            "aside": [("flying", self._in_branches)],
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
        driver = self.driver
        try:
            await driver.begin()
            for _ in range(len(self._steps) + ACTS):
                await self._fake.life.quiet()
                if self._saying is not None:
                    # However long it takes, nothing else happens before the words are there.
                    await self._saying
                    self._saying = None
                    continue
                if await self._went_on():
                    continue
                if self._fake.run.is_over or not await self._act():
                    break
            else:
                await self._end("the rehearsal has seen enough")
        except MidstreamError as error:
            self.broken.append(f"{type(error).__name__}: {error}")
        finally:
            await driver.close()

    # --- the disturbance ------------------------------------------------------------------------

    def _before_keeping(self, last: int) -> None:
        self._pass("lost", ("kill",))
        if self._due("lost", last) is not None:
            self._fire()
            raise JournalMoved("The rehearsal kills the run here.")

    def _after_keeping(self, last: int) -> None:
        self.kept.append(last)
        self._pass("kept", ("interrupt", "kill"))
        kind = self._due("kept", last)
        if kind is None:
            return
        self._fire()
        if kind == "kill":
            raise JournalMoved("The rehearsal kills the run here.")
        self._saying = self.driver.soon(self._interrupt(kind))

    def _pass(self, moment: Moment, kinds: Sequence[Kind]) -> None:
        """Count a moment after the first disturbance: a second one could come there."""
        if self._fired:
            self._since[moment] += 1
            nth = self._since[moment]
            self.later += [Point(kind=kind, seq=nth, moment=moment) for kind in kinds]

    def _due(self, moment: Moment, seq: int) -> Kind | None:
        """Return how the run is to be disturbed at this moment, None if not."""
        point = self._point
        if point is not None and not self._fired:
            return point.kind if (point.moment, point.seq) == (moment, seq) else None
        then = None if point is None or self._fired > 1 else point.then
        is_it = then is not None and (then.moment, then.seq) == (moment, self._since[moment])
        return then.kind if then is not None and is_it else None

    def _fire(self) -> None:
        self._fired += 1
        self._responder = self._responder or Responder(self._steps, self._done)

    async def _interrupt(self, kind: Kind) -> None:
        machine = self._fake.life.machine
        assert self._point is not None
        number = 0 if self._fired == 1 or self._point.then is None else self._point.then.seq
        text, id = (WORDS, INJECTED) if not number else (MORE_WORDS, INJECTED_NEXT)
        if kind == "aside":
            paths = [branch.branch.path for branch in living(machine.run)]
            text = as_typed(text, paths[(self._point.seq + number) % len(paths)])
        receipt = await machine.say(text, unasked=True, id=id)
        if id in machine.run.inbox.lines:
            self._said.append(id)
        elif not machine.run.is_over and not machine.is_closed:
            self.broken.append(f"the words were not accepted: {receipt.reason}")

    async def _went_on(self) -> bool:
        """Disturb the run where it is due, and take it up where it was killed."""
        life = self._fake.life
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
            in_branches = any(living(life.machine.run))
            if in_branches:
                self._in_branches.append(seq)
            asides: tuple[Kind, ...] = ("aside",) if in_branches else ()
            self._pass("flying", ("interrupt", *asides, "kill"))
            kind = self._due("flying", seq)
            if kind is not None:
                await self._disturb(kind)
                return True
        return False

    async def _disturb(self, kind: Kind) -> None:
        self._fire()
        self._show_half()
        if kind == "kill":
            await self._fake.life.checkpoint()
            await self._revived()
            return
        await self._interrupt(kind)
        self._kills_next = kind == "both"

    def _show_half(self) -> None:
        """Stream half of each reply, so that the disturbance comes in the middle of it."""
        for standing in tuple(self._fake.life.standing.values()):
            if standing.kind == "model":
                standing.show("Half of a rep")

    async def _revived(self) -> None:
        """Let another process go on, from the bytes alone; they must tell of the same run."""
        await self._fake.life.kill()
        before = self._fake.run
        after = self._fake.notebook.folded()
        if after.seq == before.seq and after != before:
            self.broken.append(f"folding the facts gives another run than fact {after.seq} had")
        try:
            await self.driver.revive(was_cut=True)
        except JournalMoved:
            await self.driver.revive(was_cut=True)  # it was killed as it was taken up

    # --- what happens next ------------------------------------------------------------------------

    async def _act(self) -> bool:
        """Let the next thing happen; False: nothing is left that could."""
        if self._responder is None and self._done < len(self._steps):
            if await self._scripted(self._steps[self._done]):
                return True
            self._responder = Responder(self._steps, self._done)
        responder = self._responder or Responder(self._steps, self._done)
        self._responder = responder
        return await self._improvised(responder)

    async def _scripted(self, step: form.AnyStep) -> bool:
        """Let the next step of the script happen, or a handler before it; False: it does not fit."""
        handler = self.driver.handler_near(step.branch)
        limit = step.after_handlers
        if handler is not None and (limit is None or self._handled < limit):
            self._handled += 1
            self._fake.life.finish(handler, None)
            return True
        self._handled = 0
        if await self.driver.do(step) is not None:
            return False
        self._done += 1
        return True

    async def _improvised(self, responder: Responder) -> bool:
        life, run = self._fake.life, self._fake.run
        handler, model = self.driver.standing("handler"), self.driver.standing("model")
        if (handler or model) and (
            said := responder.unasked(run, in_handler=handler is not None)
        ) is not None:
            await self.driver.do(said)
        elif handler is not None:
            life.finish(handler, None)
        elif model is not None:
            assert model.request is not None
            answer(self._fake, model, responder.reply(model.request, model.branch))
        elif (tool := self.driver.standing("tool")) is not None:
            life.finish(tool, responder.outcome(tool))
        elif (timer := self._next_timer(responder)) is not None:
            life.finish(timer, None)
        else:
            return await self._of_person(responder)
        return True

    def _next_timer(self, responder: Responder) -> Standing | None:
        """Return the timer that rings next: a person answers in time, unless they did not then."""
        timers = [s for s in self._fake.life.standing.values() if s.kind == "timer"]
        timers.sort(key=lambda standing: standing.until)
        for timer in timers:
            if timer.name in (WAITED, RETRY) or responder.was_late(timer):
                return timer
        is_stuck = not self._fake.run.inbox.open_questions and not self._fake.run.is_parked
        return timers[0] if timers and is_stuck else None

    async def _of_person(self, responder: Responder) -> bool:
        machine, run = self._fake.life.machine, self._fake.run
        if not run.inbox.open_questions:
            await machine.say("Go on.", unasked=True, id=self.driver.next_id())
            return True
        question = run.inbox.open_questions[0]
        if question.kind == "approval":
            granted = responder.decision(run, question)
            await machine.approve(question.id, Decision(granted=granted))
            return True
        if question.kind == "input":
            line = responder.line()
            if line is None:
                await self._end("nothing is left to say")
            else:
                await self.driver.say(line)
            return True
        text = responder.answer(question)
        if text is None:
            await self._end("no answer fits")
        else:
            await machine.say(text, question=question.id, id=self.driver.next_id())
        return True

    async def _end(self, reason: str) -> None:
        """Stop the run; its running tools end as they would."""
        await self.driver.stop(reason)
        await self._fake.life.quiet()
        while (tool := self.driver.standing("tool")) is not None:
            assert self._responder is not None
            self._fake.life.finish(tool, self._responder.outcome(tool))
            await self._fake.life.quiet()

    # --- the judgement ------------------------------------------------------------------------------

    def judged(self, base: "Play", *, may_fail: bool) -> list[str]:
        """Return what is broken in the end.

        Args:
            base: the undisturbed playing.
            may_fail: the undisturbed one has failed too.
        """
        facts, run = self.facts(), self._fake.notebook.folded()
        broken = list(broken_by(run, facts, self._fake.requests, self._fake.effects))
        assert self._point is not None
        if self._fired < 1 + (self._point.then is not None):
            broken.append("the point was not reached")
        is_lost = self._point.moment == "lost"
        done = [seq for seq in base.kept if seq < self._point.seq + (not is_lost)]
        before = max(done, default=0)
        if facts[:before] != base.facts()[:before]:
            broken.append("the facts before the disturbance are not those of the undisturbed run")
        if self._fake.run.seq == run.seq and self._fake.run != run:
            broken.append("folding the facts gives another run than the machine has")
        if not run.is_over:
            broken.append(f"the run did not come to an end: {run.visit.phase} in {run.visit.state}")
        last = facts[-1]
        if isinstance(last, RunFailed) and not may_fail:
            broken.append(clipped(f"the run failed in {last.state}: {last.error}"))
        if any(id not in run.inbox.lines for id in self._said):
            broken.append("the words were accepted, but lost")
        return broken

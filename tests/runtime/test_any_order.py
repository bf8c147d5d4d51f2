"""Whatever happens to runs, in any order: they are what the pure core says they are.

A state machine of Hypothesis drives two consoles over one store. Their models, tools and handlers are
fakes: every effect waits until a rule lets it end. Beside each run goes its shadow, the pure core fed
with the same inputs: what was typed, what ended, who died. The journal, the machine and what is in
flight have to be what the shadow says, exactly, after every step.
"""

import asyncio
import hashlib
import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec
from any_order_kit import (
    DEADLINE_S,
    DEFINITIONS,
    EFFECTS,
    AnyDisk,
    Console,
    Disk,
    Shadow,
    Waiting,
    failure,
    folded,
    memory_disks,
    named,
    noted_task,
    postgres_disks,
    sqlite_disks,
)
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from midstream.core.decide.steering import UNKNOWN
from midstream.core.events import (
    AnyFact,
    InputDisposed,
    InputReceived,
    QuestionAnswered,
    QuestionAsked,
    QuestionSuperseded,
    ReplyShown,
    ToolCalled,
    ToolReturned,
)
from midstream.core.inputs import (
    AnyInput,
    Approve,
    CallReviewed,
    Compact,
    EditTodo,
    FileChanging,
    Halt,
    HandlerFailed,
    HandlerLogged,
    HandlerReturned,
    ModelFailed,
    ModelReplied,
    Recovered,
    Rename,
    ReplyCheckpoint,
    RequestedCall,
    Resume,
    Revoke,
    Start,
    Stop,
    ToolFinished,
    UserSaid,
    Withdraw,
)
from midstream.core.pending import AnyEffect, AskModel, CallTool, pending
from midstream.core.question import Decision
from midstream.core.routing import question_asked, spoken
from midstream.core.run import Run
from midstream.core.todo import parse_edit
from midstream.language.errors import JournalFull, RunOwned, UserMistake
from midstream.language.names import REQUEST_USERS_INPUT, Json, Outcome, Policy
from midstream.runtime.effects import SOFT_STOP_S
from midstream.runtime.ports import HandlerResult, ModelReply, Review, ToolOutcome
from midstream.runtime.state_machine import STALL_RETRY_S
from midstream.runtime.storage import Mail
from midstream.runtime.user_words import value_of
from midstream.testing.fakes import fits_type

RUNS_AT_ONCE = 3
SETTLED_S = 60.0
"""What has not happened by then hangs: a disk's thread may wait long for a processor, but not so long."""
CALM = 6
"""Steps between two troubles."""
POLICIES: list[Policy] = ["interrupt", "steer", "queue", "reject"]
QUESTIONS: list[dict[str, Json]] = [
    {"question": "Free?"},
    {"question": "Which?", "choices": ["Red", "Blue"]},
    {"question": "How many?", "schema": {"type": "integer"}},
]
OUTCOMES: list[Outcome] = ["completed", "completed", "failed", "stopped"]
CHOSEN = st.sampled_from(["start", "judge", "stop", "$interrupted", None])
CALLS = st.sampled_from(
    [
        *(RequestedCall(name=name, arguments={}) for name in (*EFFECTS, "send", "nothing")),
        *(RequestedCall(name=REQUEST_USERS_INPUT, arguments=asked) for asked in QUESTIONS),
        RequestedCall(name="look", arguments={}, problem="bad arguments"),
    ]
)
REPLIES: st.SearchStrategy[tuple[str, list[RequestedCall]]] = st.one_of(
    st.tuples(st.sampled_from(["Done.", "Hm, "]), st.just([])),
    st.tuples(st.just(""), st.lists(CALLS, max_size=3)),
    st.tuples(st.just("See:"), st.lists(CALLS, min_size=1, max_size=3)),
)
WORDS = st.sampled_from(["no, rename", "and tests", "5", "red", "five"])


class AnyOrder(RuleBasedStateMachine):
    """Two consoles, a visitor who only leaves messages, and up to three runs at once."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.loop.set_task_factory(noted_task)
        self.disk = Disk()
        self.shadows: dict[str, Shadow] = {}
        self.taken: set[tuple[str, str]] = set()
        self.number = 0
        self.calm = 0
        self.open_store: Callable[[], AnyDisk] = self.stores()
        self.visitor = self.open_store()
        self.consoles = [self.opened(), self.opened()]

    def stores(self) -> Callable[[], AnyDisk]:
        """Return what opens stores on the same contents."""
        return memory_disks(self.disk)

    def opened(self) -> Console:
        return Console(self.open_store(), self.disk)

    def do(self, doing: Coroutine[Any, Any, Any]) -> Any:
        """Return what comes of it, in time."""

        async def in_time() -> Any:
            async with asyncio.timeout(DEADLINE_S):
                return await doing

        return self.loop.run_until_complete(in_time())

    def next(self) -> int:
        self.number += 1
        return self.number

    def is_calm(self) -> bool:
        """Return whether a while has passed since the last trouble, so that runs get somewhere."""
        return self.calm >= CALM

    @invariant()
    def time_passes(self) -> None:
        self.calm += 1

    # --- looking around ---------------------------------------------------------------------

    def alive(self) -> list[Shadow]:
        return [shadow for shadow in self.shadows.values() if not shadow.run.is_over]

    def at_work(self) -> list[Shadow]:
        return [shadow for shadow in self.alive() if shadow.owner is not None]

    def in_flight(self, *kinds: str) -> list[tuple[Shadow, Waiting]]:
        return [
            (shadow, waiting)
            for shadow in self.at_work()
            if shadow.owner is not None
            for waiting in shadow.owner.of(shadow.id)
            if waiting.kind in kinds or not kinds
        ]

    async def take_checkpoints(self, shadow: Shadow) -> None:
        """Tell the shadow what was kept of a reply that streams: when that is, the machine's clock says."""
        journal = [envelope.event for envelope in await self.visitor.read(shadow.id)]
        for fact in journal[len(shadow.facts) :]:
            if not isinstance(fact, ReplyShown):
                return
            (key,) = [e.key for e in pending(shadow.run) if isinstance(e, AskModel)]
            shadow.feed(ReplyCheckpoint(key=key, text=fact.text, calling=fact.calling))

    async def settle(self) -> None:
        """Let everything that can happen now happen."""
        ends_at = self.loop.time() + SETTLED_S
        for count in itertools.count():
            await asyncio.sleep(0 if count < 60 else 0.002)
            for shadow in self.shadows.values():
                if shadow.owner is not None and not self.is_settled(shadow):
                    await self.take_checkpoints(shadow)
            owned = [shadow for shadow in self.shadows.values() if shadow.owner is not None]
            is_settled = count > 3 and all(self.is_settled(shadow) for shadow in owned)
            if is_settled and await self.is_mail_delivered(owned):
                break
            if self.loop.time() > ends_at:
                break  # what differs is told by what follows
        for _ in range(6):
            await asyncio.sleep(0)

    async def is_mail_delivered(self, owned: list[Shadow]) -> bool:
        """Return whether the messages that can be delivered are; those of no effect show nowhere else."""
        for shadow in owned:
            waiting = await self.visitor.undelivered(shadow.id)
            if len(waiting) != len(shadow.mails) and not shadow.is_stopping_by_mail:
                return False
        return True

    def is_settled(self, shadow: Shadow) -> bool:
        assert shadow.owner is not None
        machine = shadow.owner.machine(shadow.id)
        if machine.run.seq != shadow.run.seq:
            return False
        # A journal far away may be at it still: what the machine takes then is true only afterwards.
        is_done = not machine._is_taking and self.owed(shadow) == self.begun(shadow)
        return bool(shadow.held) or is_done

    def owed(self, shadow: Shadow) -> Counter[tuple[Json, ...]]:
        return Counter(named(shadow.run, effect) for effect in pending(shadow.run))

    def begun(self, shadow: Shadow) -> Counter[tuple[Json, ...]]:
        assert shadow.owner is not None
        return Counter(waiting.what for waiting in shadow.owner.of(shadow.id))

    # --- what a rule does, and what the shadow says of it -------------------------------------

    async def ends(self, shadow: Shadow, waiting: Waiting, end: object, *inputs: AnyInput) -> None:
        """Let an effect end; where there is no room the machine waits with what it came to."""
        waiting.end.set_result(end)
        for input in inputs:
            self.came(shadow, input)
        self.hand_over(shadow)
        await self.settle()

    def came(self, shadow: Shadow, input: AnyInput) -> None:
        if shadow.held or (self.disk.is_full and shadow.would(input)):
            shadow.held.append(input)
        else:
            shadow.feed(input)

    async def person(self, shadow: Shadow, doing: Coroutine[Any, Any, Any], input: AnyInput) -> Any:
        """Do something to a run in its console. Refused visibly where there is no room."""
        assert shadow.owner is not None
        task = shadow.owner.begin(doing)
        if shadow.held or (self.disk.is_full and shadow.would(input)):
            await asyncio.wait((task,))
            assert isinstance(task.exception(), JournalFull), task
            return None
        shadow.feed(input)
        await self.settle()
        if isinstance(input, Stop) and not shadow.run.is_over:
            assert not task.done()
            return None
        return await task

    def hand_over(self, shadow: Shadow) -> None:
        """Deliver the messages that wait, as the dispatcher does."""
        while shadow.owner is not None and not shadow.held and shadow.mails:
            if shadow.is_stopping_by_mail and not shadow.run.is_over:
                return
            mail = shadow.mails.pop(0)
            shadow.feed(self.input_of(shadow, mail))
            shadow.is_stopping_by_mail |= mail.kind == "stop"

    def input_of(self, shadow: Shadow, mail: Mail) -> AnyInput:
        match mail.kind:
            case "say":
                return self.said(
                    shadow, mail.id, mail.text, mail.question, mail.policy, mail.source
                )
            case "approve":
                return Approve(
                    question=mail.question or "",
                    granted=mail.granted,
                    for_run=mail.for_run,
                    note=mail.text,
                    edited=mail.edited,
                )
            case "revoke":
                return Revoke(permission=mail.text)
            case "compact":
                return Compact(note=mail.text)
            case "rename":
                return Rename(name=mail.text)
            case "todo":
                return EditTodo(edit=parse_edit(mail.text))
            case "withdraw":
                return Withdraw(input_id=mail.text)
            case "halt":
                return Halt(shown=shadow.shown())
            case "unsuspend":
                return Resume()
            case "stop":
                return Stop(reason=mail.text, shown=shadow.shown())

    def said(
        self,
        shadow: Shadow,
        id: str,
        text: str,
        question: str | None,
        policy: Policy | None,
        source: str = "user",
    ) -> UserSaid:
        """Return a line as the machine hands it to the core."""
        answer, problem = None, ""
        to = spoken(text, shadow.run, question=question, is_unasked=True)
        asked = question_asked(shadow.run, to)
        if asked is not None and asked.schema is not None:
            answer = value_of(to.text, asked.schema)
            problem = fits_type(answer, asked.schema)
        return UserSaid(
            id=id,
            to=to,
            at=self.disk.clock.now(),
            source=source,
            answer=answer,
            problem=problem,
            policy=policy,
            shown=shadow.shown(),
        )

    async def say(
        self,
        shadow: Shadow,
        text: str,
        *,
        question: str | None = None,
        policy: Policy | None = None,
        unasked: bool = False,
        id: str | None = None,
    ) -> None:
        assert shadow.owner is not None
        machine = shadow.owner.machine(shadow.id)
        id = id or f"line{self.next()}"
        saying = machine.say(text, question=question, unasked=unasked, policy=policy, id=id)
        if question is None and policy is None and not unasked:
            try:
                question = spoken(text, shadow.run).question
            except UserMistake:
                task = shadow.owner.begin(saying)
                await asyncio.wait((task,))
                assert isinstance(task.exception(), UserMistake)
                return
        if id in shadow.run.inbox.lines:
            receipt = await shadow.owner.begin(saying)
        else:
            said = self.said(shadow, id, text, question, policy)
            receipt = await self.person(shadow, saying, said)
        if receipt is not None:
            record = shadow.run.inbox.lines[id]
            assert (receipt.input_id, receipt.handling) == (id, record.handling)
            self.taken.add((shadow.id, id))

    # --- rules: beginning ---------------------------------------------------------------------

    @initialize(which=st.integers(0, len(DEFINITIONS) - 1))
    def first(self, which: int) -> None:
        self.do(self.start(self.consoles[0], which))

    @precondition(lambda self: len(self.alive()) < RUNS_AT_ONCE)
    @rule(data=st.data(), which=st.integers(0, len(DEFINITIONS) - 1))
    def another_run(self, data: st.DataObject, which: int) -> None:
        self.do(self.start(data.draw(st.sampled_from(self.consoles)), which))

    async def start(self, console: Console, which: int) -> None:
        definition, job = DEFINITIONS[which], f"job {self.next()}"
        machine = await console.begin(
            console.engine.start(definition, handlers=console.world.handlers(), input=job)
        )
        if self.disk.is_full:
            assert machine.run.status == "failed"
            assert await self.visitor.read(machine.id) == []
            return
        shadow = self.shadows[machine.id] = Shadow(machine.id)
        shadow.owner = console
        workspace = str(console.engine.world.workspace)
        shadow.feed(Start(definition=definition, input=job, workspace=workspace))
        await self.settle()

    # --- rules: effects end -------------------------------------------------------------------

    @precondition(lambda self: self.in_flight())
    @rule(data=st.data(), count=st.integers(1, 6))
    def things_go_on(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            if not (in_flight := self.in_flight()):
                return
            shadow, waiting = data.draw(st.sampled_from(in_flight))
            if waiting.kind == "model":
                text, calls = data.draw(REPLIES)
                numbered = tuple(self.numbered(call) for call in calls)
                self.do(self.reply(shadow, waiting, text, numbered))
            elif waiting.kind == "tool":
                self.do(self.tool_ends(shadow, waiting, data.draw(st.sampled_from(OUTCOMES))))
            elif waiting.kind == "review":
                self.do(self.turn_comes(shadow, waiting))
            else:
                self.do(self.handler_returns(shadow, waiting, data.draw(CHOSEN)))

    def numbered(self, call: RequestedCall) -> RequestedCall:
        """Return a call that is no other: its argument tells it from the same one made twice."""
        arguments = {**call.arguments, "n": self.next()}
        return RequestedCall(name=call.name, arguments=arguments, problem=call.problem)

    async def reply(
        self, shadow: Shadow, waiting: Waiting, text: str, calls: tuple[RequestedCall, ...]
    ) -> None:
        key = shadow.effect(waiting.what).key
        replied = ModelReplied(key=key, text=text, calls=calls)
        await self.ends(shadow, waiting, ModelReply(text=text, calls=calls), replied)

    async def tool_ends(self, shadow: Shadow, waiting: Waiting, outcome: Outcome) -> None:
        ended = ToolOutcome(outcome=outcome, text=f"it is {outcome}")
        key = shadow.effect(waiting.what).key
        finished = ToolFinished(key=key, outcome=outcome, text=ended.text)
        await self.ends(shadow, waiting, ended, finished)

    async def turn_comes(self, shadow: Shadow, waiting: Waiting) -> None:
        reviewed = CallReviewed(key=shadow.effect(waiting.what).key, kind="allow")
        await self.ends(shadow, waiting, Review(), reviewed)

    async def handler_returns(self, shadow: Shadow, waiting: Waiting, chosen: str | None) -> None:
        key, changed = shadow.effect(waiting.what).key, {"a": self.next()}
        assert waiting.log is not None
        waiting.log("half-way")
        result = HandlerResult(changed=changed, chosen=chosen)
        logged = HandlerLogged(key=key, text="half-way")
        returned = HandlerReturned(key=key, changed=changed, chosen=chosen)
        await self.ends(shadow, waiting, result, logged, returned)

    @precondition(lambda self: self.in_flight("model"))
    @rule(data=st.data(), calling=st.booleans())
    def a_reply_streams(self, data: st.DataObject, calling: bool) -> None:
        _, waiting = data.draw(st.sampled_from(self.in_flight("model")))
        self.do(self.streamed(waiting, calling))

    async def streamed(self, waiting: Waiting, calling: bool) -> None:
        waiting.stream(f"piece {self.next()} ", calling=calling)

    @precondition(lambda self: self.once_in_flight())
    @rule(data=st.data())
    def a_call_does_not_listen(self, data: st.DataObject) -> None:
        shadow, _ = data.draw(st.sampled_from(self.once_in_flight()))
        assert shadow.owner is not None
        halting = shadow.owner.machine(shadow.id).halt()
        self.do(self.person(shadow, halting, Halt(shown=shadow.shown())))
        self.do(self.jump(SOFT_STOP_S))

    def once_in_flight(self) -> list[tuple[Shadow, Waiting]]:
        return [
            (shadow, waiting)
            for shadow, waiting in self.in_flight("tool")
            if EFFECTS[waiting.what[1]] == "once"
        ]

    @precondition(lambda self: self.in_flight("tool"))
    @rule(data=st.data())
    def a_tool_writes(self, data: st.DataObject) -> None:
        shadow, waiting = data.draw(st.sampled_from(self.in_flight("tool")))
        path, before, after = Path("/nowhere/a"), b"as it was", b"as it will be"
        assert waiting.changing is not None
        changing = FileChanging(
            key=(shadow.run.visit.step, "tool", waiting.call_id(shadow.run)),
            path=str(path),
            before=hashlib.sha256(before).hexdigest(),
            after=hashlib.sha256(after).hexdigest(),
        )
        self.do(self.person(shadow, waiting.changing(path, before, after), changing))

    @precondition(lambda self: self.is_calm() and self.in_flight("model", "handler"))
    @rule(data=st.data())
    def something_fails(self, data: st.DataObject) -> None:
        self.calm = 0
        shadow, waiting = data.draw(st.sampled_from(self.in_flight("model", "handler")))
        key, error = shadow.effect(waiting.what).key, failure()
        failed: AnyInput
        if waiting.kind == "model":
            failed = ModelFailed(
                key=key,
                error=error.what,
                hint=error.hint,
                shown=waiting.streamed,
                calling=waiting.calling,
                is_broken=bool(waiting.streamed),
            )
        else:
            failed = HandlerFailed(key=key, error=error.what, hint=error.hint, fault=error.fault)
        self.do(self.ends(shadow, waiting, error, failed))

    # --- rules: a person at the run's own console -----------------------------------------------

    @precondition(lambda self: self.at_work())
    @rule(data=st.data(), text=WORDS, policy=st.sampled_from([None, None, *POLICIES]))
    def words(self, data: st.DataObject, text: str, policy: Policy | None) -> None:
        shadow = data.draw(st.sampled_from(self.at_work()))
        self.do(self.say(shadow, text, policy=policy, unasked=data.draw(st.booleans())))

    @precondition(lambda self: any(shadow.run.inbox.lines for shadow in self.at_work()))
    @rule(data=st.data())
    def the_same_words_again(self, data: st.DataObject) -> None:
        shadow = data.draw(st.sampled_from([s for s in self.at_work() if s.run.inbox.lines]))
        id = data.draw(st.sampled_from(sorted(shadow.run.inbox.lines)))
        self.do(self.say(shadow, "other words", unasked=True, id=id))

    @precondition(lambda self: any(shadow.run.inbox.open_questions for shadow in self.at_work()))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        shadow = data.draw(
            st.sampled_from([s for s in self.at_work() if s.run.inbox.open_questions])
        )
        question = data.draw(st.sampled_from(shadow.run.inbox.open_questions))
        fitting = [*question.choices, "2"] if question.choices else ["5"]
        text = data.draw(st.sampled_from([*fitting, "green"]))
        self.do(self.say(shadow, text, question=question.id))

    @precondition(lambda self: any(shadow.run.inbox.questions for shadow in self.at_work()))
    @rule(data=st.data())
    def answer_to_what_may_be_closed(self, data: st.DataObject) -> None:
        shadow = data.draw(st.sampled_from([s for s in self.at_work() if s.run.inbox.questions]))
        ids = [question.id for question in shadow.run.inbox.questions]
        self.do(self.say(shadow, "5", question=data.draw(st.sampled_from([*ids, "q99"]))))

    @precondition(lambda self: self.approvals())
    @rule(data=st.data(), granted=st.booleans(), for_run=st.booleans())
    def approve(self, data: st.DataObject, granted: bool, for_run: bool) -> None:
        shadow, question = data.draw(st.sampled_from(self.approvals()))
        approving = shadow.owner.machine(shadow.id).approve(
            question, Decision(granted=granted, for_run=for_run, note="hm")
        )
        input = Approve(question=question, granted=granted, for_run=for_run, note="hm")
        self.do(self.person(shadow, approving, input))

    def approvals(self) -> list[Any]:
        return [
            (shadow, question.id)
            for shadow in self.at_work()
            for question in shadow.run.inbox.open_questions
            if question.kind == "approval"
        ]

    @precondition(lambda self: self.at_work())
    @rule(data=st.data())
    def halt(self, data: st.DataObject) -> None:
        shadow = data.draw(st.sampled_from(self.at_work()))
        assert shadow.owner is not None
        halting = shadow.owner.machine(shadow.id).halt()
        self.do(self.person(shadow, halting, Halt(shown=shadow.shown())))

    @precondition(lambda self: any(shadow.run.inbox.lines for shadow in self.at_work()))
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        shadow = data.draw(st.sampled_from([s for s in self.at_work() if s.run.inbox.lines]))
        waiting = [record.id for record in shadow.run.inbox.undelivered]
        id = data.draw(st.sampled_from(waiting or sorted(shadow.run.inbox.lines)))
        assert shadow.owner is not None
        withdrawing = shadow.owner.machine(shadow.id).withdraw(id)
        self.do(self.person(shadow, withdrawing, Withdraw(input_id=id)))

    @precondition(lambda self: any(shadow.run.suspended for shadow in self.at_work()))
    @rule(data=st.data())
    def unsuspend(self, data: st.DataObject) -> None:
        shadow = data.draw(st.sampled_from([s for s in self.at_work() if s.run.suspended]))
        assert shadow.owner is not None
        unsuspending = shadow.owner.machine(shadow.id).unsuspend()
        self.do(self.person(shadow, unsuspending, Resume()))

    @precondition(lambda self: self.is_calm() and self.at_work())
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        self.calm = 0
        shadow = data.draw(st.sampled_from(self.at_work()))
        assert shadow.owner is not None
        stopping = shadow.owner.machine(shadow.id).stop("enough")
        self.do(self.person(shadow, stopping, Stop(reason="enough", shown=shadow.shown())))

    # --- rules: messages -----------------------------------------------------------------------

    @precondition(lambda self: self.alive())
    @rule(
        data=st.data(),
        kind=st.sampled_from(
            ["say", "say", "answer", "answer", "approve", "halt", "withdraw", "unsuspend", "stop"]
        ),
    )
    def a_message(self, data: st.DataObject, kind: Any) -> None:
        shadow = data.draw(st.sampled_from(self.alive()))
        number = self.next()
        mail = Mail(id=f"message{number}", run=shadow.id, at=0.0, source="visitor")
        questions = [question.id for question in shadow.run.inbox.open_questions] or ["q1"]
        if kind == "stop" and not self.is_calm():
            kind = "halt"
        match kind:
            case "say":
                mail = msgspec.structs.replace(
                    mail,
                    text=data.draw(WORDS),
                    policy=data.draw(st.sampled_from([None, *POLICIES])),
                    unasked=True,
                )
            case "answer":
                mail = msgspec.structs.replace(
                    mail,
                    text=data.draw(st.sampled_from(["5", "red", "1", "green"])),
                    question=data.draw(st.sampled_from(questions)),
                )
            case _:
                text = data.draw(st.sampled_from([*shadow.run.inbox.lines, "enough"]))
                mail = msgspec.structs.replace(
                    mail,
                    kind=kind,
                    text=text,
                    question=data.draw(st.sampled_from(questions)),
                    granted=data.draw(st.booleans()),
                )
        self.do(self.posted(shadow, mail))

    async def posted(self, shadow: Shadow, mail: Mail) -> None:
        try:
            await self.visitor.post(mail)
        except JournalFull:
            assert self.disk.is_full
            return
        assert not self.disk.is_full
        if mail.kind == "say":
            self.taken.add((shadow.id, mail.id))
        shadow.mails.append(mail)
        self.hand_over(shadow)
        if shadow.owner is not None:
            shadow.owner.engine.look()
        await self.settle()
        assert await self.visitor.post(mail) == mail, "the same message again is no other"

    # --- rules: the world ---------------------------------------------------------------------

    @precondition(lambda self: self.calm % 3 == 2)
    @rule(seconds=st.sampled_from([STALL_RETRY_S, 3.0, SOFT_STOP_S]))
    def the_clock_jumps(self, seconds: float) -> None:
        self.do(self.jump(seconds))

    async def jump(self, seconds: float) -> None:
        clock = self.disk.clock
        stopping = [
            (shadow, waiting)
            for shadow, waiting in self.in_flight("tool")
            if waiting.stop is not None and waiting.stop.is_set()
        ]
        for _, waiting in stopping:
            waiting.stopped_at = waiting.stopped_at or clock.now()
        clock.jump(seconds)
        for shadow in self.at_work() if not self.disk.is_full else ():
            held, shadow.held = shadow.held, []
            for input in held:
                shadow.feed(input)
        for shadow, waiting in stopping:
            is_due = clock.now() - waiting.stopped_at >= SOFT_STOP_S
            if is_due and not waiting.is_cut_off:
                waiting.is_cut_off = True
                key = (shadow.run.visit.step, "tool", waiting.call_id(shadow.run))
                self.came(shadow, ToolFinished(key=key, outcome="unknown", text=UNKNOWN))
        await self.settle()
        for shadow in self.at_work():
            self.hand_over(shadow)
        for console in self.consoles:
            console.engine.look()
        await self.settle()

    @precondition(lambda self: self.is_calm() and not self.disk.is_full)
    @rule()
    def the_disk_fills_up(self) -> None:
        self.calm = 0
        self.disk.is_full = True

    @precondition(lambda self: self.disk.is_full)
    @rule()
    def there_is_room_again(self) -> None:
        self.disk.is_full = False

    # --- rules: processes come and go -----------------------------------------------------------

    @precondition(lambda self: self.calm % 3 == 1)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        console = data.draw(st.sampled_from(self.consoles))
        shadow = data.draw(st.sampled_from(list(self.shadows.values())))
        self.do(self.resumed(console, shadow))

    @precondition(lambda self: any(shadow.owner is None for shadow in self.alive()))
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        console = data.draw(st.sampled_from(self.consoles))
        self.do(self.restarted(console))

    @precondition(lambda self: len(self.alive()) > len(self.at_work()))
    @rule(data=st.data(), policy=st.sampled_from([None, *POLICIES]))
    def words_for_all_that_were_left(self, data: st.DataObject, policy: Policy | None) -> None:
        for shadow in self.alive():
            if shadow.owner is None:
                id = f"message{self.next()}"
                mail = Mail(id=id, run=shadow.id, at=0.0, text="go on", policy=policy, unasked=True)
                self.do(self.posted(shadow, mail))
        self.do(self.restarted(data.draw(st.sampled_from(self.consoles))))

    async def restarted(self, console: Console) -> None:
        """Take up all that nobody runs, one right after the other."""
        for shadow in self.alive():
            if shadow.owner is None:
                await self.resumed(console, shadow, is_settling=False)
        await self.settle()

    async def resumed(self, console: Console, shadow: Shadow, *, is_settling: bool = True) -> None:
        handlers = console.world.handlers()
        console.engine.look()
        task = console.begin(console.engine.resume(shadow.id, handlers=handlers))
        await asyncio.wait((task,))
        error = task.exception()
        if shadow.run.is_over:
            assert isinstance(error, UserMistake)
        elif shadow.owner is console:
            assert error is None
        elif shadow.owner is not None:
            assert isinstance(error, RunOwned)
        elif self.disk.is_full:
            assert isinstance(error, JournalFull)
        else:
            assert error is None, error
            shadow.owner = console
            await self.take_checkpoints(shadow)
            shadow.feed(self.recovered(shadow))
            self.hand_over(shadow)
        if is_settling:
            await self.settle()

    @precondition(lambda self: self.is_calm() and not self.disk.is_full and self.at_work())
    @rule(data=st.data())
    def the_journal_is_out_of_reach_for_a_while(self, data: st.DataObject) -> None:
        shadow = data.draw(st.sampled_from(self.at_work()))
        if not (shadow.held or shadow.is_stopping_by_mail):
            self.calm = 0
            self.do(self.out_of_reach(shadow))

    async def out_of_reach(self, shadow: Shadow) -> None:
        console = shadow.owner
        assert console is not None
        for waiting in console.of(shadow.id):
            if waiting.kind == "model":
                await self.streamed(waiting, calling=False)
        seen = {each.key: each.text for each in shadow.shown()}
        machine = console.machine(shadow.id)
        await console.begin(machine.stand_still(JournalFull("It is far.", hint="Wait.")))
        assert not console.of(shadow.id)
        await console.begin(console.engine._come_back(machine))
        assert console.machine(shadow.id) is machine
        await self.take_checkpoints(shadow)
        if (turn := shadow.run.visit.turn) is not None and seen:
            assert turn.shown in seen.values(), "what was seen is kept"
        shadow.feed(Recovered(was_cut=True, deaths=self.disk.deaths.get(shadow.id, 0)))
        self.hand_over(shadow)
        await self.settle()

    def recovered(self, shadow: Shadow) -> Recovered:
        deaths = self.disk.deaths.get(shadow.id, 0)
        return Recovered(was_cut=shadow.was_cut, deaths=deaths)

    @precondition(lambda self: self.is_calm())
    @rule(place=st.integers(0, 1), times=st.sampled_from([1, 1, 2, 6]))
    def kill(self, place: int, times: int) -> None:
        self.calm = 0
        for time in range(times):
            if time:
                self.do(self.restarted(self.consoles[place]))
            self.do(self.killed(place))

    async def killed(self, place: int) -> None:
        console = self.consoles[place]
        await console.killed()
        self.consoles[place] = self.opened()
        for shadow in self.shadows.values():
            if shadow.owner is console:
                await self.orphaned(shadow, was_cut=True)

    async def orphaned(self, shadow: Shadow, *, was_cut: bool) -> None:
        shadow.owner = None
        shadow.was_cut = was_cut
        shadow.held.clear()
        shadow.is_stopping_by_mail = False
        shadow.mails = await self.visitor.undelivered(shadow.id)

    @precondition(lambda self: self.is_calm() and self.at_work())
    @rule(data=st.data(), steps=st.integers(0, 14), what=st.integers(0, 5))
    def kill_in_the_middle(self, data: st.DataObject, steps: int, what: int) -> None:
        shadow = data.draw(st.sampled_from(self.at_work()))
        self.calm = 0
        self.do(self.killed_in_the_middle(shadow, steps, what))

    async def killed_in_the_middle(self, shadow: Shadow, steps: int, what: int) -> None:
        console = shadow.owner
        assert console is not None
        machine, id = console.machine(shadow.id), f"line{self.next()}"
        waiting = console.of(shadow.id)
        inputs: list[AnyInput] = []
        task: asyncio.Task[Any] | None = None
        if what in (2, 3):
            inputs += await self.a_message_on_its_way(shadow, id)
        elif what == 0 or not waiting:
            saying = machine.say("quick", unasked=True, id=id)
            task = console.begin(saying)
            inputs.append(self.said(shadow, id, "quick", None, None))
        elif what == 1:
            task = console.begin(machine.stop("enough"))
            inputs.append(Stop(reason="enough", shown=shadow.shown()))
        else:
            inputs += self.end_somehow(shadow, waiting[0])
        for _ in range(steps):
            await asyncio.sleep(0)
        is_acknowledged = task is not None and task.done() and task.exception() is None
        await self.killed(self.consoles.index(console))
        facts = [envelope.event for envelope in await self.visitor.read(shadow.id)]
        while len(shadow.facts) < len(facts) and inputs:
            shadow.feed(inputs.pop(0))
        assert shadow.facts == facts
        if is_acknowledged and what != 1:
            self.taken.add((shadow.id, id))

    async def a_message_on_its_way(self, shadow: Shadow, id: str) -> list[AnyInput]:
        """Post a message and wake the owner; return what comes of it."""
        if self.disk.is_full or shadow.mails or shadow.is_stopping_by_mail:
            return []
        assert shadow.owner is not None
        mail = Mail(id=id, run=shadow.id, at=0.0, text="quick", unasked=True)
        await self.visitor.post(mail)
        self.taken.add((shadow.id, id))
        shadow.owner.engine.look()
        return [self.input_of(shadow, mail)]

    @precondition(lambda self: self.is_calm() and len(self.alive()) > len(self.at_work()))
    @rule(data=st.data(), steps=st.integers(0, 20))
    def kill_while_a_run_is_taken_up(self, data: st.DataObject, steps: int) -> None:
        self.calm = 0
        shadow = data.draw(st.sampled_from([s for s in self.alive() if s.owner is None]))
        self.do(self.killed_while_taking_up(data.draw(st.integers(0, 1)), shadow, steps))

    async def killed_while_taking_up(self, place: int, shadow: Shadow, steps: int) -> None:
        console, mails = self.consoles[place], list(shadow.mails)
        handlers = console.world.handlers()
        console.begin(console.engine.resume(shadow.id, handlers=handlers))
        for _ in range(steps):
            await asyncio.sleep(0)
        await self.killed(place)
        facts = [envelope.event for envelope in await self.visitor.read(shadow.id)]
        if len(facts) > len(shadow.facts):
            shadow.feed(self.recovered(shadow))
        while len(facts) > len(shadow.facts) and mails:
            shadow.feed(self.input_of(shadow, mails.pop(0)))
        assert facts == shadow.facts, unlike(facts, shadow.facts)
        kept = {kept.id: kept for kept in await self.visitor.listing()}[shadow.id]
        assert kept.was_cut or not shadow.was_cut
        shadow.was_cut = kept.was_cut
        shadow.mails = await self.visitor.undelivered(shadow.id)

    def end_somehow(self, shadow: Shadow, waiting: Waiting) -> list[AnyInput]:
        """Let an effect end well; return what comes of it."""
        key = shadow.effect(waiting.what).key
        match waiting.kind:
            case "model":
                call = RequestedCall(name="send", arguments={"n": self.next()})
                waiting.end.set_result(ModelReply(text="", calls=(call,)))
                return [ModelReplied(key=key, text="", calls=(call,))]
            case "review":
                waiting.end.set_result(Review())
                return [CallReviewed(key=key, kind="allow")]
            case "tool":
                waiting.end.set_result(ToolOutcome(outcome="completed", text="ok"))
                return [ToolFinished(key=key, outcome="completed", text="ok")]
            case _:
                waiting.end.set_result(HandlerResult())
                return [HandlerReturned(key=key)]

    @precondition(lambda self: self.is_calm() and self.at_work())
    @rule(data=st.data())
    def let_go_and_take_up(self, data: st.DataObject) -> None:
        shadow = data.draw(st.sampled_from(self.at_work()))
        assert shadow.owner is not None
        console, self.calm = shadow.owner, 0
        self.do(self.left(console, [shadow], console.machine(shadow.id).leave()))
        shadow.owner, shadow.was_cut = None, False
        shadow.is_stopping_by_mail = False
        self.do(self.resumed(console, shadow))

    @precondition(lambda self: self.is_calm())
    @rule(place=st.integers(0, 1))
    def leave(self, place: int) -> None:
        self.calm = 0
        self.do(self.closed(place))

    async def closed(self, place: int) -> None:
        console = self.consoles[place]
        mine = [shadow for shadow in self.shadows.values() if shadow.owner is console]
        await self.left(console, mine, console.engine.close())
        self.consoles[place] = self.opened()
        for shadow in mine:
            await self.take_checkpoints(shadow)
            await self.orphaned(shadow, was_cut=False)
        left = [task for task in console.tasks if not task.done()]
        assert not left, left

    async def left(
        self, console: Console, shadows: list[Shadow], leaving: Coroutine[Any, Any, Any]
    ) -> None:
        """Let go of runs; running `once` calls end first, what else is in flight is cut off."""
        task = console.begin(leaving)
        once: set[tuple[Json, ...]] = set()
        for shadow in shadows:
            held, shadow.held = shadow.held, []
            ended = {input.key for input in held if isinstance(input, ToolFinished)}
            calls = once_calls(shadow.run)
            once |= {named(shadow.run, call) for call in calls if call.key not in ended}
            for input in () if self.disk.is_full else held:
                shadow.feed(input)
        for _ in range(60):
            await asyncio.sleep(0)
        running = {w.what for w in console.world.waiting if self.shadows[w.run] in shadows}
        assert once <= running, "they are waited for"
        for waiting in tuple(console.world.waiting):
            shadow = self.shadows[waiting.run]
            if shadow in shadows:
                assert EFFECTS[waiting.what[1]] == "once", "the rest is cut off"
                assert waiting.stop is not None
                assert waiting.stop.is_set()
                key = shadow.effect(waiting.what).key
                waiting.end.set_result(ToolOutcome(outcome="stopped", text="left"))
                if not self.disk.is_full:
                    shadow.feed(ToolFinished(key=key, outcome="stopped", text="left"))
        await asyncio.wait((task,))
        task.result()

    # --- what holds after every step ------------------------------------------------------------

    @invariant()
    def the_journal_is_what_the_core_says(self) -> None:
        self.do(self.check_journals())

    async def check_journals(self) -> None:
        assert not self.disk.wrong, self.disk.wrong
        for shadow in self.shadows.values():
            journal = await self.visitor.read(shadow.id)
            facts = [envelope.event for envelope in journal]
            assert facts == shadow.facts, unlike(facts, shadow.facts)
            assert [envelope.seq for envelope in journal] == list(range(1, len(facts) + 1))
            waiting = {mail.id for mail in await self.visitor.undelivered(shadow.id)}
            self.check_lines(shadow, shadow.facts, waiting)
            await self.check_owner(shadow)

    def check_lines(self, shadow: Shadow, facts: list[AnyFact], waiting: set[str]) -> None:
        received = Counter(fact.input_id for fact in facts if isinstance(fact, InputReceived))
        disposed = Counter(fact.input_id for fact in facts if isinstance(fact, InputDisposed))
        assert set(received.values()) <= {1}
        assert set(disposed.values()) <= {1}
        assert disposed.keys() <= received.keys()
        if shadow.run.is_over:
            assert disposed.keys() == received.keys()
        else:
            taken = {id for run, id in self.taken if run == shadow.id}
            assert taken <= received.keys() | waiting, "what was acknowledged is kept"
        asked = {fact.question_id for fact in facts if isinstance(fact, QuestionAsked)}
        closed = [
            fact.question_id
            for fact in facts
            if isinstance(fact, QuestionAnswered | QuestionSuperseded)
        ]
        assert len(set(closed)) == len(closed)
        assert {question.id for question in shadow.run.inbox.open_questions} == asked - set(closed)

    async def check_owner(self, shadow: Shadow) -> None:
        elsewhere = [console for console in self.consoles if console is not shadow.owner]
        assert not any(console.of(shadow.id) for console in elsewhere), "one console acts on a run"
        if shadow.owner is None or shadow.run.is_over:
            return
        assert await self.visitor.owner_of(shadow.id) == shadow.owner.store.me
        machine = shadow.owner.machine(shadow.id)
        assert machine.run == shadow.run
        if shadow.held:
            assert not self.begun(shadow) - self.owed(shadow)
        else:
            assert self.begun(shadow) == self.owed(shadow)

    # --- the end --------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            self.do(self.brought_to_an_end())
        finally:
            self.do(self.all_gone())
            self.loop.close()

    async def brought_to_an_end(self) -> None:
        self.disk.is_full = False
        for place in (0, 1):
            await self.closed(place)
        console = self.consoles[0]
        await self.restarted(console)
        for shadow in self.alive():
            stopping = console.machine(shadow.id).stop("the end")
            await self.person(shadow, stopping, Stop(reason="the end", shown=shadow.shown()))
            for waiting in console.of(shadow.id):
                inputs = self.end_somehow(shadow, waiting)
                shadow.feed(inputs[0])
        await self.settle()
        await self.check_journals()
        for shadow in self.shadows.values():
            assert shadow.run.is_over
            assert folded(shadow.id, shadow.facts) == shadow.run
            called = [f.call_id for f in shadow.facts if isinstance(f, ToolCalled)]
            returned = [f.call_id for f in shadow.facts if isinstance(f, ToolReturned)]
            assert len(set(called)) == len(called)
            assert len(set(returned)) == len(returned)
            assert set(called) <= set(returned), "every call that was made has an end"

    async def all_gone(self) -> None:
        for console in self.consoles:
            await console.killed()
        await self.visitor.aclose()


class AnyOrderOnDisk(AnyOrder):
    """The same over SQLite."""

    def stores(self) -> Callable[[], AnyDisk]:
        self.folder = tempfile.TemporaryDirectory()
        return sqlite_disks(self.disk, Path(self.folder.name) / "journal.db")

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.folder.cleanup()


class AnyOrderOnPostgres(AnyOrder):
    """The same over PostgreSQL."""

    new_database: Callable[[], str]

    def stores(self) -> Callable[[], AnyDisk]:
        return postgres_disks(self.disk, type(self).new_database())


def once_calls(run: Run) -> list[AnyEffect]:
    """Return the running calls that must not happen twice."""
    return [
        effect
        for effect in pending(run)
        if isinstance(effect, CallTool) and EFFECTS[effect.call.name] == "once"
    ]


def unlike(facts: Sequence[object], expected: Sequence[object]) -> str:
    """Return where two stories part."""
    same = next(
        (n for n, pair in enumerate(zip(facts, expected, strict=False)) if pair[0] != pair[1]), None
    )
    place = min(len(facts), len(expected)) if same is None else same
    return f"from {place + 1} on: {facts[place:]} instead of {expected[place:]}"


def bounded(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def test_in_any_order_the_runs_are_what_the_core_says() -> None:
    run_state_machine_as_test(AnyOrder, settings=bounded(200, 60))


def test_in_any_order_it_is_the_same_on_a_disk() -> None:
    run_state_machine_as_test(AnyOrderOnDisk, settings=bounded(25, 40))


def test_in_any_order_it_is_the_same_in_a_database(database: Callable[[], str]) -> None:
    class Here(AnyOrderOnPostgres):
        new_database = staticmethod(database)

    run_state_machine_as_test(Here, settings=bounded(8, 40))

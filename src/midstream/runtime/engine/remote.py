"""A run of another process, used like one of this: what it does is read, what it is told is written.

    say() --> a message in the journal, a call --> the owner takes it, journals it --> read here

The message is kept before anybody is woken, and its id makes it count once. So whoever dies in between,
and whether anybody runs the run at all, words that were taken here are delivered, and not twice.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from midstream.core import todo
from midstream.core.events import (
    AgentFailed,
    AgentResponded,
    Fact,
    Interrupted,
    ReplyCut,
    RunRecovered,
)
from midstream.core.fold.apply import apply
from midstream.core.notices import Envelope, TextDelta
from midstream.core.question import Decision
from midstream.core.routing import Destination, spoken
from midstream.core.run import InputRecord, Run, question_of
from midstream.core.summaries import why_not
from midstream.core.todo import parse_edit
from midstream.language.errors import MidstreamError, UserMistake
from midstream.language.names import Policy
from midstream.runtime.background import Command
from midstream.runtime.emitter import Stream
from midstream.runtime.engine.live import Line, far_lines, live_lines
from midstream.runtime.engine.open_run import opened
from midstream.runtime.ports import Clock, Receipt
from midstream.runtime.storage import Mail, MailKind, Store, is_served
from midstream.runtime.user_words import readable
from midstream.system.offloop import call_soon

LOOK_EVERY_S = 0.25
"""Seconds between two looks where nothing was heard of: at the run's new facts, and for its owner."""

NOBODY_S = 2.0
"""The same where nobody runs it. That somebody does is written, and so heard of at once."""

JOIN_S = 5.0
"""Seconds that who reads events waits at most to hear what streams; an owner may stand still."""

QUIET_S = 5.0
"""Seconds that an owner that streams may say nothing before its facts are read without it: it may stand
still. Until then they wait for their place among the pieces of text."""

_IN_A_PART = 1_000
"""Facts of a run's past that are held at once for who reads them."""

SERVED_S = 5.0
"""Seconds that who sends something waits at most for a worker to take the run up."""

NOBODY = "the run is not running now: your line is kept until it is resumed"
SERVED = "no worker has taken the run up yet: your line is kept until one does"
ENDED = "the run has ended"


class RemoteMachine:
    """A run that another process owns, or nobody. Made by `attached`; see the port `Machine`."""

    def __init__(
        self,
        store: Store,
        run: Run,
        sockets: Path | None,
        clock: Clock,
        tap: Callable[[Envelope], None] | None,
        owned: Callable[[str], None] | None,
        owner: str,
    ) -> None:
        self._store = store
        self._run = run
        self._sockets = sockets
        self._clock = clock
        self._tap = tap
        self._owned = owned
        self._waiters: set[asyncio.Future[None]] = set()
        self._streams: set[Stream] = set()
        self._fault: Exception | None = None
        self._is_closed = False
        self._read_lock = asyncio.Lock()
        self._is_live = False
        self._is_owned = owned is None or bool(owner)  # as far as is known
        self._has_joined = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._quiet_until = 0.0
        # Of each agent in its branch: how much of its reply was told, and the fact that ended the last one.
        self._heard: dict[tuple[str, str], tuple[int, int]] = {}
        self._task = asyncio.create_task(self._follow(owner), name=f"follow {run.id}")
        self._live = asyncio.create_task(self._hear_live(), name=f"hear {run.id}")

    @classmethod
    async def attached(
        cls,
        store: Store,
        id: str,
        *,
        sockets: Path | None,
        clock: Clock,
        tap: Callable[[Envelope], None] | None = None,
        owned: Callable[[str], None] | None = None,
    ) -> "RemoteMachine":
        """Return a run as it stands, followed from now on until it has ended or `aclose`.

        Args:
            store: where it is read, and messages are left. It stays the caller's.
            id: its whole id.
            sockets: the folder of the sockets at which its owner is heard; None: only facts are.
            clock: the time, for messages.
            tap: hears every fact after those the run has now, on the loop, in order. It is trusted.
            owned: hears who runs it whenever that has changed, "" for nobody. It is trusted, too.

        Raises:
            UserMistake: there is no such run.
            JournalDamaged: a fact is not what was written.
        """
        owner = await store.owner_of(id) if owned is not None else ""
        return cls(store, await opened(store, id), sockets, clock, tap, owned, owner)

    @property
    def id(self) -> str:
        """Return the run's id."""
        return self._run.id

    @property
    def run(self) -> Run:
        """Return the run as it stood when the journal was last read: a moment ago."""
        return self._run

    @property
    def is_closed(self) -> bool:
        """Return whether the run has ended, or is not followed any more."""
        return self._is_closed or self._run.is_over

    @property
    def is_owned(self) -> bool:
        """Return whether a process runs it, as far as that was seen; see `owned` of `attached`."""
        return self._is_owned

    async def owner(self) -> str:
        """Return the process that runs it, "" if none lives."""
        return await self._store.owner_of(self.id)

    async def aclose(self) -> None:
        """Follow the run no more; it goes on. May be called twice."""
        self._cancel()
        await asyncio.gather(self._task, self._live, return_exceptions=True)
        self._end_streams()
        self._wake()

    def let_go(self) -> None:
        """Have the run followed no more, from whatever thread, and do not wait for that."""
        call_soon(self._loop, self._cancel)

    def _cancel(self) -> None:
        self._is_closed = True
        for task in (self._task, self._live):
            task.cancel()

    # --- what a person does with it -------------------------------------------------------------

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
        """Give the run a line of the user; returns once its owner has taken it.

        Where nobody runs it, the line is kept until somebody does, and the receipt says so (`queue`).
        The arguments are those of `WorkflowStateMachine.say`.

        Raises:
            UserMistake: several questions are open and nothing says which is meant; nothing was said.
            JournalFull: there is no room for it; nothing was said.
        """
        id = id or secrets.token_hex(6)
        if (record := self._run.inbox.lines.get(id)) is not None:
            return _receipt(record)
        if self._run.is_over:
            return self._ended(id, question if isinstance(words, str) else words.question)
        if isinstance(words, Destination):
            to = words  # judged by what was on a screen
        else:
            # What is asked now is what it answers: not what may be asked by the time it is heard.
            await self._read()
            is_unasked = unasked or policy is not None
            to = spoken(words, self._run, question=question, is_unasked=is_unasked)
        mail = Mail(
            id=id,
            run=self.id,
            at=self._clock.now(),
            text=readable(to.line),
            source=source,
            question=to.question,
            unasked=to.question is None,
            policy=policy,
        )
        is_taken = await self._send(mail, lambda: id in self._run.inbox.lines)
        record = self._run.inbox.lines.get(id)
        if record is not None:
            return _receipt(record)
        if self._run.is_over:
            await self._store.delivered(self.id, id)  # there will be nobody to take it
            return self._ended(id, to.question)
        if is_taken:
            reason = "the run could not take it: its questions have changed meanwhile"
            return Receipt(input_id=id, handling="reject", reason=reason)
        reason = SERVED if await is_served(self._store, self.id) else NOBODY
        return Receipt(input_id=id, handling="queue", reason=reason)

    async def disposed(self, input_id: str) -> InputRecord | None:
        """Return a line once it is known what became of it.

        One that nobody is going to take for now is returned as it stands, None if the run has not
        heard it yet. One that the run ended before hearing was rejected.
        """

        def is_disposed() -> bool:
            record = self._run.inbox.lines.get(input_id)
            return self._run.is_over or (record is not None and record.disposition is not None)

        while not is_disposed():
            if not await self.owner() and not await is_served(self._store, self.id):
                await self._read()
                break
            await self._news()
        record = self._run.inbox.lines.get(input_id)
        if record is None and self._run.is_over:
            await self._store.delivered(self.id, input_id)  # there will be nobody to take it
            return InputRecord(
                id=input_id, text="", handling="reject", reason=ENDED, disposition="rejected"
            )
        return record

    async def withdraw(self, input_id: str) -> None:
        """Take back words that have not been delivered yet."""
        if not await self.owner():
            mails = await self._store.undelivered(self.id)
            if any(mail.id == input_id for mail in mails):
                # Nobody has heard of them, and now nobody will. That they were taken back is kept.
                taken_back = self._mail("withdraw", text=input_id)
                await self._store.post(taken_back)
                await self._store.delivered(self.id, input_id)
                await self._store.delivered(self.id, taken_back.id)
                return
        await self._send(self._mail("withdraw", text=input_id))

    async def halt(self) -> None:
        """Stop the current turn and hold. Where nobody runs the run there is nothing to stop."""
        if await self.owner():
            await self._send(self._mail("halt"))

    async def approve(self, question: str, decision: Decision) -> None:
        """Decide on a tool call that waits for approval. A closed question is left as it is."""
        mail = self._mail("approve", text=decision.note)
        await self._send(
            replace(
                mail,
                question=question,
                granted=decision.granted,
                for_run=decision.for_run,
                edited=decision.edited,
                mode=decision.mode,
            ),
        )

    async def revoke(self, permission: str) -> None:
        """Take back what was granted for the rest of the run."""
        await self._send(self._mail("revoke", text=permission))

    async def compact(self, note: str = "", *, room: int = 0) -> None:
        """Have the older turns summarised by the process that runs it.

        Raises:
            UserMistake: nothing can be summarised now, or nobody runs it; nothing changed.
        """
        if why := why_not(self._run):
            raise UserMistake(f"Nothing was compacted: {why}.")
        if not await self.owner() and not await is_served(self._store, self.id):
            raise UserMistake(
                f"No process runs {self.id} now.",
                hint=f"/resume {self.id[:4]} goes on with it here.",
            )
        await self._send(self._mail("compact", text=note, room=room))

    async def rename(self, name: str) -> None:
        """Give the run a name, or take it away with "". Unowned, it has it when it goes on."""
        await self._send(self._mail("rename", text=name))

    def commands(self) -> Sequence[Command]:
        """Return none: the process that runs the run has them."""
        return ()

    def stop_command(self, handle: str) -> None:
        """Refuse.

        Raises:
            UserMistake: always.
        """
        raise UserMistake(
            f"{handle} runs in another process.", hint="Stop it there, or stop the run."
        )

    async def edit_todo(self, line: str) -> None:
        """Change the todo list; unowned, it is changed when the run goes on.

        Raises:
            UserMistake: the list cannot be changed so; nothing changed.
        """
        if self._run.is_over or (why := todo.why_not(self._run.todo.items, parse_edit(line))):
            raise UserMistake(f"Nothing was changed: {ENDED if self._run.is_over else why}.")
        await self._send(self._mail("todo", text=line))

    async def stop(self, reason: str = "stopped by the user") -> None:
        """End the run; returns when it has ended.

        Raises:
            UserMistake: nobody runs it. Where its process died meanwhile, the next one ends it.
        """
        if self._run.is_over:
            return
        if await self.owner() and await self._send(self._mail("stop", text=reason)):
            return
        await self._read()
        if not self._run.is_over:
            raise UserMistake(
                f"No process runs {self.id} now.", hint=f"End it with: midstream stop {self.id}"
            )

    async def unsuspend(self) -> None:
        """Let a suspended or halted run go on."""
        await self._send(self._mail("unsuspend"))

    async def wait(self) -> Run:
        """Return the run once it has ended, or is not followed any more."""
        while not self.is_closed:
            await self._news()
        return self._run

    async def settled(self) -> Run:
        """Return the run once it has ended or only a person can move it on. See `wait`."""
        while not (self.is_closed or self._run.is_parked):
            await self._news()
        return self._run

    async def events(self, since: int = 0) -> AsyncGenerator[Envelope]:
        """Yield the run's facts after number `since`, then those to come; see the machine's `events`.

        It ends when the run has ended, or is not followed any more.

        Raises:
            MidstreamError: the journal cannot be read any more.
        """
        stream = Stream()
        self._streams.add(stream)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(JOIN_S):
                await self._has_joined.wait()  # what streams right after this is heard
        if self._task.done():
            stream.put(None)
        last, was_followed = since, not self._is_closed
        try:
            # Not ahead of `run`: who hears of a question finds it open. A long one is read in parts.
            upto = self._run.seq
            while facts := await self._past(last, min(last + _IN_A_PART, upto), was_followed):
                for envelope in facts:
                    last = envelope.seq or last
                    yield envelope
            while (event := await stream.get()) is not None:
                if event.seq is None or event.seq > last:
                    last = event.seq or last
                    yield event
            if self._fault is not None:
                raise self._fault
        finally:
            self._streams.discard(stream)

    # --- writing ----------------------------------------------------------------------------------

    def _ended(self, id: str, question: str | None) -> Receipt:
        """Return the receipt of words that came after the end: an answer may only have been second."""
        asked = None if question is None else question_of(self._run.inbox, question)
        is_answered = asked is not None and asked.status == "answered"
        reason = "already answered" if is_answered else ENDED
        return Receipt(input_id=id, handling="reject", reason=reason)

    def _mail(self, kind: MailKind, *, text: str = "", room: int = 0) -> Mail:
        id, at = secrets.token_hex(6), self._clock.now()
        return Mail(id=id, run=self.id, at=at, kind=kind, text=text, room=room)

    async def _send(self, mail: Mail, is_done: Callable[[], bool] = lambda: False) -> bool:
        """Leave a message; return whether the run's owner took it. False: nobody runs the run.

        Returns once `is_done` says that its effect was read here, or the message is no longer among the
        undelivered and everything journaled before that has been read.
        """
        await self._store.post(mail)
        # Right after it nobody can have taken it, and whoever is about to needs the machine.
        await self._news()
        owner, until = "", self._loop.time() + SERVED_S
        while not (is_done() or self._run.is_over):
            # Who runs it first: whoever takes the message and lets go at once has taken it by then.
            now = await self.owner()
            is_waiting = any(each.id == mail.id for each in await self._store.undelivered(self.id))
            if not is_waiting:
                await self._read()
                return True
            is_late = self._loop.time() >= until
            if not now and (is_late or not await is_served(self._store, self.id)):
                await self._read()
                return is_done() or self._run.is_over
            if owner and now and now != owner:
                await self._store.ring(now)
            owner = now or owner
            await self._news()
        return True

    # --- reading ----------------------------------------------------------------------------------

    async def _past(self, since: int, upto: int, was_followed: bool) -> list[Envelope]:
        """Return facts of the journal; none once the run is followed no more: it may be closed by then."""
        try:
            return await self._store.read(self.id, since, upto)
        except MidstreamError:
            if was_followed and self._is_closed:
                return []
            raise

    async def _follow(self, owner: str) -> None:
        try:
            while not self._run.is_over:
                look_s = LOOK_EVERY_S if self._is_owned else NOBODY_S
                await self._store.changed(look_s, (self.id,))
                # Its owner says when facts are read: in their place among the pieces of text. What else
                # has changed, such as a message that was taken, those who wait for it see at once.
                if not self._is_live or self._loop.time() >= self._quiet_until:
                    self._quiet_until = self._loop.time() + QUIET_S
                    await self._read()
                    if self._owned is not None and owner != (now := await self.owner()):
                        owner = now
                        self._is_owned = bool(now)
                        await self._read()  # it may have ended with its last facts
                        self._owned(owner)
                self._wake()
        except Exception as error:
            self._fault = error
        finally:
            self._end_streams()
            self._wake()

    async def _read(self, upto: int | None = None) -> None:
        """Fold and tell what was journaled since the last time, up to fact `upto`."""
        async with self._read_lock:
            if upto is not None and upto <= self._run.seq:
                return
            for envelope in await self._store.read(self.id, self._run.seq, upto):
                assert isinstance(envelope.event, Fact)
                self._run = apply(self._run, envelope.event)
                self._note_end(envelope.event)
                self._tell(envelope)

    def _note_end(self, event: Fact) -> None:
        """Let the words of an agent begin anew where a fact ends its reply."""
        if isinstance(event, AgentFailed | AgentResponded | ReplyCut):
            ended = [(event.branch, event.agent)]
        elif isinstance(event, Interrupted | RunRecovered):
            inner = f"{event.branch}/" if event.branch else ""
            ended = [
                key for key in self._heard if key[0] == event.branch or key[0].startswith(inner)
            ]
        else:
            return
        for key in ended:
            self._heard[key] = (0, self._run.seq)

    def _tell(self, envelope: Envelope) -> None:
        if self._tap is not None:
            self._tap(envelope)
        for stream in self._streams:
            stream.put(envelope)

    async def _hear_live(self) -> None:
        """Tell what streams, as long as the run is followed, whoever runs it."""
        if self._sockets is None:
            self._has_joined.set()
            return
        while not (self._run.is_over or self._task.done()):
            is_whole = True
            with contextlib.suppress(MidstreamError):
                owner = await self.owner()
                self._is_owned = bool(owner)
                async with contextlib.aclosing(self._lines(owner)) as lines:
                    async for line in lines:
                        self._is_live = True
                        self._quiet_until = self._loop.time() + QUIET_S
                        self._has_joined.set()
                        if line.seq > self._run.seq:
                            await self._read(line.seq)
                            self._wake()
                        if line.event is not None:
                            is_whole = self._hear(line)
                        if not is_whole:
                            break  # joining anew gives what is missing
            self._is_live = False
            self._has_joined.set()
            with contextlib.suppress(MidstreamError):  # who follows the journal meets it, too
                await self._read()
            self._wake()
            if is_whole and self._is_owned:
                await asyncio.sleep(LOOK_EVERY_S)  # it ended: there may be another
            elif is_whole:
                with contextlib.suppress(MidstreamError):
                    await self._news()

    async def _lines(self, owner: str) -> AsyncGenerator[Line]:
        """Yield what the owner tells: on this machine at its socket, else through the store."""
        is_here = False
        async with contextlib.aclosing(live_lines(self._sockets, owner, self.id)) as lines:
            async for line in lines:
                is_here = True
                yield line
        if not is_here:
            async with contextlib.aclosing(far_lines(self._store, owner, self.id)) as lines:
                async for line in lines:
                    yield line

    def _hear(self, line: Line) -> bool:
        """Tell a transient event, of a piece of text what was not told before; False: one is missing."""
        event = line.event
        assert event is not None
        if isinstance(event, TextDelta):
            key = (event.branch, event.agent)
            told, ended_at = self._heard.get(key, (0, 0))
            upto = line.offset + len(event.text)
            if line.seq < ended_at or upto <= told:
                return True  # it is in the fact that ended its reply, or was told
            if line.offset > told:
                return False
            self._heard[key] = (upto, ended_at)
            event = replace(event, text=event.text[told - line.offset :])
        elif line.seq < self._run.seq:
            return True  # of what is past no one has to hear any more
        self._tell(Envelope(run=self.id, at=line.at or self._clock.now(), event=event))
        return True

    async def _news(self) -> None:
        """Return after the next look at the journal.

        Raises:
            MidstreamError: it cannot be read any more.
        """
        if self._fault is not None:
            raise self._fault
        if self._task.done():
            # It is followed no more, but somebody still waits for what became of a message.
            await asyncio.sleep(LOOK_EVERY_S)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def _end_streams(self) -> None:
        self._has_joined.set()
        for stream in self._streams:
            stream.put(None)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()


def _receipt(record: InputRecord) -> Receipt:
    return Receipt(input_id=record.id, handling=record.handling, reason=record.reason)

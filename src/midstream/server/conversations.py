"""Which run a conversation of an HTTP client is, and what one request of it comes to.

A conversation is a run. Clients differ in how they say which conversation is theirs, so this is asked of a
request in turn, and nothing is guessed:

1. It names a run. That run hears the words.
2. It names a conversation (`key`). The run that was begun with that key hears them: the id of a run follows
   from its key, so a server that was killed finds it again.
3. It names nothing, but sends the messages so far. A run hears the words only if those are, word for word
   and to the last, what was said here in that run by the same person to the same model, the run's own reply
   at their end, and only if no other run has had the same conversation.

Else another run begins. A chat is told what was said before, so that nothing is lost. So words never come
to a run that another conversation is, and one that was edited or asked again in the client begins
a run of its own rather than twist the one there is.

What was said is known from the ids of the words: each holds a digest (`Asked.marks`) of all that the client
had in its conversation by then. The journal keeps them, and nothing else has to.
"""

import asyncio
import contextlib
import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from midstream.api.engine import Engine
from midstream.api.run_handle import RunHandle
from midstream.api.turn import REPLY_ENDS, Turn
from midstream.core import events as e
from midstream.core.append_only import latest
from midstream.core.notices import Envelope
from midstream.core.question import Question, is_for_people
from midstream.core.routing import living
from midstream.core.run import Run
from midstream.language.errors import JournalFull, MidstreamError, UserMistake, WorldTrouble
from midstream.language.names import Json
from midstream.runtime.engine.open_run import opened
from midstream.runtime.ports import Receipt
from midstream.server.words import DECIDED_ELSEWHERE, Words

_LOOKED_AT: Final = 20
"""The runs of one beginning that are compared with what a client sends, the newest first."""

_CUT_SHARES: Final = 24
"""The characters of a reply that was cut which a client must have, to be known by them."""

_CHORE: Final = "### Task:"
"""How Open WebUI begins what it asks about a chat by itself: a title, tags, a next question."""

_INSTRUCTIONS: Final = "Instructions of the program I write with:"

_AGAIN_S = 1.0
"""Seconds until a turn that could not be stopped is stopped once more."""

_REMEMBERED: Final = 10_000
"""The runs of which it is remembered which request began them."""

_NUMBER: Final = re.compile(r"\s*#(\d{1,9})\s+")


async def talkable(engine: Engine) -> dict[str, str]:
    """Return what a conversation may be with: `role:NAME`, `workflow:NAME` with its description."""
    roles = {f"role:{name}": "" for name in await engine.roles()}
    return roles | {f"workflow:{name}": words for name, words in (await engine.workflows()).items()}


class Message(msgspec.Struct, frozen=True):
    """A message as a client sends it: `role` is `user`, `assistant`, `system` or `tool`."""

    role: str
    text: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for.

    `model` is `role:NAME` or `workflow:NAME`; `run` a run by its id, `key` a conversation, "" for none.
    `person` is whose conversation it is, where the client says so. `is_whole`: the client always sends the
    whole conversation. `once` makes the request repeatable. `left_out` is what of it is left aside.
    `is_answer`: it says no new words, its last message was said before.
    """

    model: str
    messages: tuple[Message, ...]
    run: str = ""
    key: str = ""
    person: str = ""
    is_whole: bool = False
    once: str = ""
    left_out: tuple[str, ...] = ()
    is_answer: bool = False
    said: tuple[Message, ...] = ()
    """The messages without those of the system. Not given."""
    marks: tuple[str, ...] = ()
    """The digest of each beginning of what was said, the longest last. Not given."""

    def __post_init__(self) -> None:
        said = tuple(each for each in self.messages if each.role != "system")
        msgspec.structs.force_setattr(self, "said", said)
        whole = hashlib.sha256()
        found: list[str] = []
        for each in self.said:
            whole.update(f"{each.role}\0{each.text}\0".encode("utf-8", "backslashreplace"))
            found.append(whole.hexdigest()[:24])
        msgspec.structs.force_setattr(self, "marks", tuple(found))

    @property
    def system(self) -> str:
        """Return what the client has the agent keep to."""
        return "\n\n".join(each.text for each in self.messages if each.role == "system")


class Spoken:
    """What a request said to a run, and what comes of it.

    `is_overtaken`: other words of the same conversation came, and their request has the rest. `others`
    are the branches that were replying before the words.
    """

    def __init__(
        self,
        run: RunHandle,
        turn: Turn,
        receipt: Receipt | None,
        source: str,
        ids: Sequence[str],
        others: set[str],
    ) -> None:
        self.run = run
        self.receipt = receipt
        self._ids = frozenset(ids)
        self._others = others
        self.is_overtaken = False
        self._turn = turn
        self._source = source
        self._has_ended = False

    @property
    def id(self) -> str:
        """Return the id of the words; of a run that they began, its own."""
        return self.run.id if self.receipt is None else self.receipt.input_id

    async def events(self) -> AsyncGenerator[Envelope]:
        """Yield what happens from the words on; a reply that was under way and goes on is not theirs.

        Raises:
            WorldTrouble: nobody runs the run any more, though its turn is not over.
        """
        is_ours = self.receipt is None
        others = self._others
        async for envelope in self._turn:
            event = envelope.event
            if isinstance(event, e.InputReceived) and event.source == self._source:
                if event.input_id in self._ids:
                    is_ours = True
                elif is_ours and event.handling in ("answer", "interrupt", "steer"):
                    self.is_overtaken = self._has_ended = True
                    return
            if not is_ours:
                if envelope.type == "text_delta":
                    others.add(event.branch)
                elif isinstance(event, REPLY_ENDS):
                    others.discard(event.branch)
            elif isinstance(event, REPLY_ENDS) and event.branch in others:
                others.discard(event.branch)
            elif envelope.type != "text_delta" or event.branch not in others:
                yield envelope
        self._has_ended = True
        run = self.run.run
        if not (run.is_over or run.is_parked or run.inbox.open_questions):
            raise WorldTrouble(
                f"Run {run.id} was let go of before its turn was over.",
                hint="Say something in this conversation, and it goes on where it was.",
            )

    async def halt(self) -> None:
        """Stop the turn, and keep what was shown, unless it is over or somebody has spoken since.

        Whoever wants that is gone and hears of no trouble: where the journal is away it is done after that.
        """
        # A question that was asked stays open for whoever leaves after it.
        while not self._has_ended:
            newest = _newest_id(self.run)
            if self.run.run.is_over or (newest and newest not in self._ids):
                return
            try:
                await self.run.halt()
            except JournalFull:
                await asyncio.sleep(_AGAIN_S)
            except MidstreamError:
                return  # it is another process's by now, say
            else:
                return


class Conversations:
    """The conversations of one door.

    Args:
        engine: where their runs live.
        source: whose words these are, for the record; the beginning of their ids.
    """

    def __init__(self, engine: Engine, source: str) -> None:
        self._engine = engine
        self._source = source
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # The runs that requests began here with their words, by the request; "" for one that had no key.
        self._begun: dict[str, str] = {}

    @contextlib.asynccontextmanager
    async def speak(
        self,
        asked: Asked,
        *,
        answers: Sequence[tuple[str, Json]] = (),
        through_approvals: bool = False,
    ) -> AsyncIterator[Spoken]:
        """Say what a request says to its run, which begins if there is none, and give what comes of it.

        Args:
            asked: the request.
            answers: answers to questions by their ids, which take the place of words.
            through_approvals: as of `RunHandle.turn`.

        Raises:
            UserMistake: there is no such run, it has ended, or several questions are open.
            MidstreamError: whatever keeps a run from beginning.
        """
        base = asked.run or _base(asked, self._source)
        async with contextlib.AsyncExitStack() as stack:
            async with self._locks.setdefault(base, asyncio.Lock()):
                run, words, is_begun = await self._run_of(asked, base, has_words=not answers)
                stack.push_async_callback(run.close)
                id = self._input_id(asked)
                since, before = (0, None) if is_begun else await self._before(run, id)
                turn = run.turn(since, through_approvals=through_approvals)
                await stack.enter_async_context(turn)
                receipt = None if is_begun else await self._say(run, words, id, answers)
            ids = [id, *(f"{id}-{number}" for number in range(1, len(answers)))]
            others = set[str]() if before is None else _replying(before)
            yield Spoken(run, turn, receipt, self._source, ids, others)

    # --- which run ------------------------------------------------------------------------------

    async def _run_of(
        self, asked: Asked, base: str, *, has_words: bool
    ) -> tuple[RunHandle, str, bool]:
        """Return the run, the words for it, and whether it began with them as its input."""
        if asked.run:
            # Not what begins so, nor what is called so: that would be a guess.
            info = await self._engine.info(asked.run)
            here = str(self._engine.local.world.workspace)
            if info is None or info.workspace not in ("", here):
                raise UserMistake(
                    f"There is no run {asked.run!r} here.",
                    hint="Leave it out, and another one begins.",
                )
            run = await self._engine.take(asked.run)
            if run.run.is_over and self._input_id(asked) not in run.run.inbox.lines:
                raise UserMistake(
                    f"Run {run.id} has ended ({run.status}).",
                    hint="Leave the run out, and another one begins.",
                )
            return run, self._words(asked, run), False
        request = _digest(f"{base}\0{asked.once}")
        if asked.once and request in self._begun.values():
            same = next(id for id, each in self._begun.items() if each == request)
            return await self._engine.get(same), "", True
        number, found = await self._found(asked, base)
        if found is not None:
            run = await self._engine.take(found)
            words = self._words(asked, run)
            return run, words, self._has_begun(asked, run, words)
        if not has_words:
            raise UserMistake(
                "Nothing is asked in this conversation that could be answered.",
                hint="Say something first.",
            )
        key = f"{base}\0{number}"
        if asked.model.startswith("role:"):
            run = await self._engine.start(asked.model, None, key=key, source=self._source)
            await run.settled()
            return run, _with_history(asked), False
        if asked.is_whole and number and asked.said[-1].text.startswith(_CHORE):
            raise UserMistake(
                "This is not the next message of the chat, but a chore about it (such as its title).",
                hint="A workflow does none: choose another task model in the client, or turn that off.",
            )
        words = _newest(asked, ())
        run = await self._engine.start(asked.model, words, key=key, source=self._source)
        self._begun[run.id] = request if asked.once else ""
        if len(self._begun) > _REMEMBERED:
            del self._begun[next(iter(self._begun))]
        return run, words, True

    def _has_begun(self, asked: Asked, run: RunHandle, words: str) -> bool:
        """Return whether the request is taken for the one that began a run of an earlier server.

        Nobody knows that any more: it is repeatable, has the same words, and nothing was said since.
        """
        is_earlier = bool(asked.once) and run.id not in self._begun
        return is_earlier and not run.run.inbox.lines and run.run.input == words

    async def _found(self, asked: Asked, base: str) -> tuple[int, str | None]:
        """Return how many runs began so, and the one whose next words these are, None for no run."""
        ids: list[str] = []
        while await self._engine.info(id := self._engine.run_id(f"{base}\0{len(ids)}")) is not None:
            ids.append(id)
        if asked.key and not ids and len(asked.said) > 1:
            # Some clients know how they call a conversation only after its first reply.
            unnamed = msgspec.structs.replace(asked, key="")
            return 0, (await self._found(unnamed, _base(unnamed, self._source)))[1]
        fitting: list[str] = []
        for id in reversed(ids[-_LOOKED_AT:]):
            run = await self._engine.get(id)
            try:
                if self._input_id(asked) in run.run.inbox.lines:
                    return len(ids), id  # it was said before
                if run.run.is_over:
                    continue
                if asked.key and (self._fits(asked, run) or self._is_next_line(asked)):
                    return len(ids), id
                if not asked.key and self._fits(asked, run) and await self._has_said(asked, run):
                    fitting.append(id)
            finally:
                await run.close()
        return len(ids), fitting[0] if len(fitting) == 1 else None

    def _is_next_line(self, asked: Asked) -> bool:
        """Return whether a client sends nothing but its new words: what it named says which run."""
        return len(asked.said) == 1 and not asked.is_whole

    def _fits(self, asked: Asked, run: RunHandle) -> bool:
        """Return whether what a client says came before is what was said here in the run, to the last."""
        marks = self._marks(run)
        is_begun_by_words = not marks and run.run.input == _first(asked)
        return _length(asked, marks[-1:] if marks else ()) > 0 or is_begun_by_words

    async def _has_said(self, asked: Asked, run: RunHandle) -> bool:
        """Return whether what a client has of a run's last reply is what the run said."""
        marks = self._marks(run)
        at = _length(asked, marks[-1:])
        if not marks:
            at = 1 + next(i for i, each in enumerate(asked.said) if each.role == "user")
        theirs: list[str] = []
        for message in asked.said[at:]:
            if message.role == "user":
                break
            theirs.append(message.text)
        given = "\n\n".join(theirs).strip()
        newest = _newest_id(run)
        told, is_since, is_cut = Words(run), not marks, run.status == "running"
        parts: list[str] = []
        for envelope in await self._engine.facts(run.id):
            event = envelope.event
            if isinstance(event, e.InputReceived) and event.input_id == newest:
                is_since = True
            elif is_since:
                is_cut |= isinstance(event, e.Interrupted)
                parts += [piece.text for piece in told.of_fact(event) if piece.kind == "content"]
        ours = "".join(parts).strip()
        if not given or not ours:
            return False
        shared = min(len(given), len(ours))
        is_part = is_cut and shared >= _CUT_SHARES and given[:shared] == ours[:shared]
        return given == ours or is_part

    # --- what is said ---------------------------------------------------------------------------

    def _words(self, asked: Asked, run: RunHandle) -> str:
        """Return the words for a run there is, behind instructions that have changed since its last."""
        words = _newest(asked, self._marks(run))
        said = (line.id for line in latest(run.run.inbox.lines) if self._is_ours(line.id))
        told = next((id.split("-")[2] for id in said), "")
        if not asked.system or told == _digest(asked.system)[:8]:
            return words
        return f"{_INSTRUCTIONS}\n{asked.system}\n\nNow:\n{words}"

    def _is_ours(self, id: str) -> bool:
        return id.startswith(f"{self._source}-") and id.count("-") >= 3

    def _marks(self, run: RunHandle) -> list[str]:
        """Return the digests of the conversation by each of the words that were said here."""
        return [each.split("-")[1] for each in run.run.inbox.lines if self._is_ours(each)]

    def _input_id(self, asked: Asked) -> str:
        digest = _digest(asked.once)[:12] if asked.once else secrets.token_hex(6)
        kept_to = _digest(asked.system)[:8] if asked.system else "none"
        return f"{self._source}-{asked.marks[-1]}-{kept_to}-{digest}"

    async def _before(self, run: RunHandle, id: str) -> tuple[int | None, Run]:
        """Return the fact before words, None where they were not said yet, and the run as it was then."""
        if id not in run.run.inbox.lines:
            return None, run.run
        for envelope in await self._engine.facts(run.id):
            match envelope.event:
                case e.InputReceived(input_id=received) if received == id:
                    since = (envelope.seq or 1) - 1
                    return since, await opened(self._engine.local.store, run.id, upto=since)
        return None, run.run

    async def _say(
        self, run: RunHandle, words: str, id: str, answers: Sequence[tuple[str, Json]]
    ) -> Receipt:
        asking = {each.number: each for each in run.questions if not is_for_people(each)}
        if any(each.id in dict(answers) and is_for_people(each) for each in run.questions):
            raise UserMistake(
                "This is a person's to decide, not a program's.",
                hint=DECIDED_ELSEWHERE.format(run=run.id),
            )
        if answers:
            receipts = [
                await run.answer(
                    question, answer, id=f"{id}-{number}" if number else id, source=self._source
                )
                for number, (question, answer) in enumerate(answers)
            ]
            return next((each for each in receipts if each.handling == "reject"), receipts[0])
        picked = _NUMBER.match(words)
        if picked is not None and int(picked[1]) in asking:
            answer = words[picked.end() :]
            return await run.answer(asking[int(picked[1])], answer, id=id, source=self._source)
        if len(asking) > 1 and id not in run.run.inbox.lines:
            raise UserMistake(
                f"Run {run.id} asks several questions: {_listed(tuple(asking.values()))}",
                hint="Begin with the number of the one that is answered, such as #2.",
            )
        # Words answer what an agent asks, and never what a person is to decide.
        is_decided = any(each.kind == "question" and is_for_people(each) for each in run.questions)
        if is_decided and asking:
            return await run.answer(next(iter(asking.values())), words, id=id, source=self._source)
        return await run.say(words, id=id, source=self._source, unasked=is_decided)


def _replying(run: Run) -> set[str]:
    """Return the branches in which a model is at a reply."""
    every = (run, *living(run))
    return {each.branch.path for each in every if each.visit.replying is not None}


def _newest_id(run: RunHandle) -> str:
    """Return the id of the last words that were said to a run, "" where none were."""
    return next((line.id for line in latest(run.run.inbox.lines)), "")


def _listed(questions: Sequence[Question]) -> str:
    return "; ".join(f"#{each.number} {each.text}" for each in questions)


# --- conversations and their digests ---------------------------------------------------------------


def _base(asked: Asked, source: str) -> str:
    """Return what all runs of a conversation are begun with, but for their number."""
    parts = [source, asked.model, asked.person]
    parts += ["key", asked.key] if asked.key else ["first", asked.system, _first(asked)]
    return _digest("\0".join(parts))


def _first(asked: Asked) -> str:
    return next((each.text for each in asked.said if each.role == "user"), "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _length(asked: Asked, marks: Sequence[str]) -> int:
    """Return how many of a client's messages are the longest conversation of those digests, 0: none is.

    The last message is new, unless the request only answers.
    """
    known = frozenset(marks)
    for count in range(len(asked.said) - (not asked.is_answer), 0, -1):
        if asked.said[count - 1].role == "user" and asked.marks[count - 1] in known:
            return count
    return 0


def _newest(asked: Asked, marks: Sequence[str]) -> str:
    """Return the words of a request that the run has not heard: those since the last that it has."""
    said = asked.said
    since = _length(asked, marks)
    new: list[str] = []
    for message in reversed(said[since:]):
        if message.role != "user":
            break
        new.append(message.text)
    # Without what came before it is the last message that is new, whatever else stands before it.
    return "\n\n".join(reversed(new)) if since else new[0]


def _with_history(asked: Asked) -> str:
    """Return the first words of a chat: what to keep to and what was said before, then the new ones."""
    parts: list[str] = []
    if asked.system:
        parts.append(f"{_INSTRUCTIONS}\n{asked.system}")
    if before := asked.said[:-1]:
        told = "\n\n".join(f"{each.role}: {each.text}" for each in before)
        parts.append(f"What was said before, as that program tells it:\n{told}")
    words = asked.said[-1].text
    return "\n\n".join((*parts, f"Now:\n{words}")) if parts else words

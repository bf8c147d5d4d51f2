"""One session of an editor: a run, what is said to it, and what the editor is shown and asked of it.

Each session has an engine of its own: the permission mode, the models and the files an editor holds are
those of this conversation alone. Its run begins with the first prompt, under an id that is known before.

A prompt is over when only a person can move the run on and nothing they are asked stands open in the
editor. A prompt in mid-turn steers the same turn, and is over with it; one that was cancelled is over as
soon as the run is halted. Everything the run told until then has been sent before the answer.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from midstream.acp import asking, options, own_commands
from midstream.acp.open_files import EditorFiles
from midstream.acp.prompt_words import words_of
from midstream.acp.updates import Updates, asked_in_words, plan_of
from midstream.agents import acp_messages as m
from midstream.agents.json_rpc import Disconnected, RpcError, params_of
from midstream.api.engine import Engine
from midstream.api.run_handle import RunHandle
from midstream.core import events as e
from midstream.core.costs import costs
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.core.routing import Destination, Returned, route, screen_id
from midstream.core.todo import TodoItem
from midstream.language.errors import MidstreamError, UserMistake, did_you_mean
from midstream.language.names import Json, Policy
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import still_working
from midstream.views.answer_forms import answer_in
from midstream.views.calls_in_words import question_heading

Doing: TypeAlias = Literal["running", "requires_action", "idle"]

SOURCE: Final = "acp"
"""The source of words that were said in an editor, for the record."""

CANCEL_AFTER_S: Final = 0.5
"""How long a cancellation waits for words that are on their way: it may have been typed after them."""

SAYS_WITHIN_S: Final = 2.0
"""How long words that are on their way may take when the editor is gone."""


class Prompt:
    """A prompt that waits for its stop reason."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(6)
        """The id of its words."""
        self.over: asyncio.Future[m.StopReason] = asyncio.get_running_loop().create_future()
        self.is_cancelled = False
        self.is_said = False

    def end(self) -> None:
        """Let it be over."""
        if not self.over.done():
            self.over.set_result("cancelled" if self.is_cancelled else "end_turn")


class Editor(Protocol):
    """The editor, as a `Peer` or one that translates."""

    @property
    def is_over(self) -> bool:
        """Return whether it is gone."""

    async def notify(self, method: str, params: object) -> None:
        """Tell it something."""

    async def request(self, method: str, params: object = None) -> Json:
        """Return what it answers."""


class Activity:
    """Hears what version 2 of the protocol tells apart from the answers to prompts; version 1 does not."""

    session = ""
    """The session it is of."""

    async def now(self, state: Doing, stop: m.StopReason | None = None) -> None:
        """Hear how the session stands; the same again may come."""

    async def words(self, id: str, words: str) -> None:
        """Hear the words of a prompt, before they are said."""


class Session:
    """A session. Made by the door; `close` lets go of its run, which goes on when it is loaded again.

    Args:
        id: its id, which is its run's.
        engine: where the run lives; the session closes it.
        key: what its run is begun with, "" for one that has begun.
        cwd: the folder, as the editor named it.
        peer: the editor.
        client: what the editor can do.
        files: the files it has open.
        activity: hears whether the run is at work.
        warn: hears what went wrong in it.
        allowed: tools and capabilities that need no approval in it.
    """

    def __init__(
        self,
        id: str,
        engine: Engine,
        *,
        key: str,
        cwd: Path,
        peer: Editor,
        client: m.ClientCapabilities,
        files: EditorFiles,
        activity: Activity,
        warn: Callable[[str], None],
        allowed: tuple[str, ...] = (),
    ) -> None:
        self._files = files
        self._activity = activity
        self.is_now(id)
        self.engine = engine
        self.cwd = cwd
        self.controls = engine.controls
        self.talks_to = str(self.controls.start_mode)
        self.policy: Policy | None = None
        self.run: RunHandle | None = None
        self._key = key
        self._peer = peer
        self._client = client
        self._warn = warn
        self._allowed = allowed
        self._prompts: list[Prompt] = []
        self._in_order = asyncio.Lock()
        self._ours: set[str] = set()
        self._updates = self._new_updates()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._unshown: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._following: asyncio.Task[None] | None = None
        self._turn: asyncio.Task[None] | None = None
        self._told_upto = 0
        self._told = asyncio.Event()
        self._is_halting = False
        self._is_cancelled = False
        self._told_mode = self.controls.permission_mode
        self._told_todo: tuple[TodoItem, ...] = ()
        self._window: int | None = None

    def _new_updates(self) -> Updates:
        return Updates(
            self.cwd,
            self.controls.contents,
            is_ours=lambda id: id in self._ours if id else bool(self._key),
        )

    def is_now(self, id: str) -> None:
        """Be known by an id."""
        self.id = self._files.session = self._activity.session = id

    # --- its beginning and end --------------------------------------------------------------

    async def begin(self, *, told: Sequence[str] = ()) -> None:
        """Tell the editor what it can choose and say here, once it knows of the session."""
        for words in told:
            await self.say(words)
        await self._update(await own_commands.offered(self.controls))
        await self.controls.look_for_models()
        await self._tell_options()
        self._window = await self.controls.window()

    async def take(self, run: RunHandle, *, tells_all: bool) -> None:
        """Go on with a run that has begun; with `tells_all` the editor is told all of it first."""
        now = run.run.seq
        self._follow(run, 0 if tells_all else now)
        await self._told_until(now)
        self._ask(run)
        if run.name:
            await self._update(m.SessionInfoUpdate(title=run.name))
        if not run.run.is_parked or self._asking:
            self._watch()

    async def close(self) -> None:
        """Let go of the run: what is under way ends here, and goes on where the run is taken up again.

        Words that are on their way are still said.
        """
        await still_working(self._tasks, SAYS_WITHIN_S)
        for task in (*self._tasks, *self._asking.values(), self._following, self._turn):
            if task is not None:
                task.cancel()
        await self.engine.close()
        for prompt in self._prompts:
            prompt.is_cancelled = True
            prompt.end()

    @property
    def is_busy(self) -> bool:
        """Return whether a turn is under way."""
        run = None if self.run is None else self.run.run
        return bool(self._prompts) or (run is not None and not (run.is_over or run.is_parked))

    # --- what is said -----------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[m.ContentBlock]) -> m.StopReason:
        """Say something; return how the turn it belongs to ended."""
        prompt = Prompt()
        try:
            await self.insert(prompt, blocks)
            return await prompt.over
        except asyncio.CancelledError:
            # Taken back: the editor wants the turn to end. One that is gone wants nothing.
            if not self._peer.is_over:
                prompt.is_cancelled = True
                self.cancel()
            raise
        finally:
            self._prompts.remove(prompt)

    async def begin_prompt(self, blocks: Sequence[m.ContentBlock]) -> str:
        """Say something; return the id of the words once they have been said."""
        prompt = Prompt()
        prompt.over.add_done_callback(lambda _: self._prompts.remove(prompt))
        try:
            await self.insert(prompt, blocks)
        except BaseException:
            prompt.end()
            raise
        return prompt.id

    async def insert(self, prompt: Prompt, blocks: Sequence[m.ContentBlock]) -> None:
        """Say something; return once it was. What was typed is said, even if this is cancelled."""
        self._prompts.append(prompt)
        await asyncio.shield(self._do(self._prompted(prompt, blocks)))

    async def _prompted(self, prompt: Prompt, blocks: Sequence[m.ContentBlock]) -> None:
        async with self._in_order:
            line = await self._line_of(blocks)
            await self._activity.words(prompt.id, line)
            self._is_cancelled = prompt.is_cancelled
            follows = await self._take_line(line, prompt.id)
            prompt.is_said = True
            if follows:
                self._watch()
            else:
                await self._activity.now("running")
                prompt.end()
                await self._activity.now("idle", await prompt.over)
            if prompt.is_cancelled:
                await self._halted()  # it was cancelled before it was said

    async def steer(self, blocks: Sequence[m.ContentBlock], *, begins: bool) -> m.SteeringResponse:
        """Say something into the turn that is under way; without one begin one, if it `begins` one."""
        was_busy = self.is_busy
        if not (was_busy or begins):
            return m.SteeringResponse(outcome="promptRequired", reason="noRunningTurn")
        async with self._in_order:
            is_said = await self._take_line(await self._line_of(blocks), Prompt().id)
        if not is_said:
            return m.SteeringResponse(outcome="failed", reason="The words had no effect.")
        self._watch()
        return m.SteeringResponse(outcome="injected" if was_busy else "startedNewTurn")

    def cancel(self) -> None:
        """Halt the turn; what was shown is kept, and the prompts that wait are over with `cancelled`."""
        self._is_cancelled = True
        for prompt in self._prompts:
            prompt.is_cancelled = True
        self._do(self.halt())

    async def halt(self) -> None:
        """Halt the turn, if there is one; return when that is journaled and told."""
        is_held = False
        try:
            # Words that are on their way were typed before, and those that come now after.
            async with asyncio.timeout(CANCEL_AFTER_S):
                is_held = await self._in_order.acquire()
        except TimeoutError:
            pass
        try:
            await self._halted()
        finally:
            if is_held:
                self._in_order.release()

    async def _halted(self) -> None:
        run = self.run
        self._is_halting = True
        try:
            if run is not None and not run.run.is_over:
                is_asked = any(each.kind != "input" for each in run.questions)
                if is_asked or not run.run.is_parked:
                    await run.halt()
                await self._told_until(run.run.seq)
        finally:
            self._is_halting = False
        self._end_cancelled()

    def _end_cancelled(self) -> None:
        """End the prompts that were cancelled, once the run has halted."""
        if self._is_halting or (self.run is not None and self.run.run.visit.phase == "halting"):
            return
        for prompt in [each for each in self._prompts if each.is_cancelled]:
            prompt.end()

    async def _line_of(self, blocks: Sequence[m.ContentBlock]) -> str:
        """Return what a prompt says; the pictures in it are kept."""
        try:
            return await words_of(blocks, str(self.cwd), keep=self.engine.keep_picture)
        except MidstreamError as error:
            await self.say(f"*{error}*")
            return await words_of(blocks, str(self.cwd), keep=None)

    async def _take_line(self, line: str, id: str) -> bool:
        """Do what a line says; return whether a turn follows."""
        try:
            if line.startswith("/") and not line.startswith("//"):
                words = await own_commands.done(
                    line, self.controls, self.run, say=self.say, undo=self.undo
                )
                if words is None:
                    return self.is_busy
                line = words
            return await self._say(line.removeprefix("/") if line.startswith("//") else line, id)
        except MidstreamError as error:
            await self.say(f"*{error}*")
            return self.is_busy

    async def _say(self, line: str, id: str) -> bool:
        run = await self._begun(line)
        if run is None:
            return True
        if run.run.is_over:
            raise UserMistake(
                f"This run is over: it {'has ' if run.status == 'finished' else 'was '}{run.status}.",
                hint="Begin a new session.",
            )
        in_sight = [screen_id(run.id, each.id) for each in run.questions]
        to = route(line, run.run, seen=in_sight)
        if isinstance(to, Returned):
            raise UserMistake(to.reason)
        assert isinstance(to, Destination), "a question in sight is never unclear"
        self._ours.add(id)
        if to.question is not None:
            receipt = await run.answer(to.question, to.text, id=id, source=SOURCE)
        else:
            is_awaited = any(each.kind == "input" for each in run.questions)
            policy = None if is_awaited else self.policy
            receipt = await run.say(to.line, policy=policy, id=id, source=SOURCE)
        if receipt.handling == "reject":
            why = (receipt.reason or "it was rejected").removesuffix(".")
            raise UserMistake(f"That had no effect: {why}.", hint=self._way_on(run, to))
        return True

    def _way_on(self, run: RunHandle, to: Destination) -> str:
        """Return what can be done where words had no effect, as a sentence."""
        if to.question not in {each.id for each in run.questions}:
            return "Say it otherwise, or later."
        if to.question in self._asking:
            return "Fill in the form, or stop: your next words then go on without an answer."
        # No turn is under way that the editor could stop.
        return "Answer it so; /undo takes back the turn that asked."

    async def _begun(self, line: str) -> RunHandle | None:
        """Return the run, None for one whose input the line was; it begins with the first words."""
        if self.run is not None and self._has_lost and not self.run.run.is_over:
            # Somebody else has gone on with it meanwhile.
            self._follow(await self.engine.take(self.run.id, here=True), self.run.run.seq)
        if self.run is not None:
            return self.run
        is_chat = self.talks_to.startswith("role:")
        name = self.talks_to if is_chat else self.talks_to.partition(":")[2]
        input = None if is_chat else line
        run = await self.engine.start(
            name, input, key=self._key, source=SOURCE, allowed=self._allowed
        )
        self._follow(run, 0)
        await self._tell_options()
        if not is_chat:
            return None
        await run.settled()
        return run

    # --- what is chosen ---------------------------------------------------------------------

    async def options(self) -> tuple[m.ConfigSelect, ...]:
        """Return the options as they are now."""
        others: tuple[str, ...] = ()
        if self.run is None:
            roles = [f"role:{name}" for name in await self.engine.roles()]
            flows = [f"workflow:{name}" for name in await self.engine.workflows()]
            others = (*roles, *flows)
        return options.options_of(
            self.controls, policy=self.policy, talks_to=self.talks_to, may_talk_to=others
        )

    async def choose(self, id: str, value: str) -> None:
        """Set one option.

        Raises:
            UserMistake: there is no such option or value; nothing changed.
        """
        known = {each.id: each for each in await self.options()}
        if id not in known:
            raise UserMistake(f"There is no option {id!r}.", hint=did_you_mean(id, known))
        if id == options.MODE:
            self.controls.use_permission_mode(value)
        elif id == options.MODEL:
            if doubts := await self.controls.use_model(value):
                await self.say(f"*{doubts}*")
        else:
            values = [each.value for each in known[id].options]
            if value not in values:
                raise UserMistake(f"{value!r} is none of them.", hint=did_you_mean(value, values))
            if id == options.TALKS_TO:
                self.talks_to = value
            else:
                self.policy = None if value == options.BY_STATE else value  # type: ignore[assignment]
        await self._tell_mode()

    async def _tell_mode(self) -> None:
        now = self.controls.permission_mode
        if now != self._told_mode:
            self._told_mode = now
            await self._update(m.CurrentModeUpdate(current_mode_id=now))
            await self._tell_options()

    async def _tell_options(self) -> None:
        await self._update(m.ConfigOptionUpdate(config_options=await self.options()))

    # --- what is told -----------------------------------------------------------------------

    async def say(self, words: str) -> None:
        """Say something in the session that is midstream's own."""
        await self._update(self._updates.told(words))

    async def undo(self) -> None:
        """Take back the last turn, and go on in the run that is left.

        Raises:
            UserMistake: there is none to take back, or the run is another process's.
        """
        assert self.run is not None
        made, told = await self.controls.undo(self.run.id)
        run = await self.engine.resume(made, choice="old")
        self._follow(run, run.run.seq)
        await self.say("\n".join(f"*{sanitized(line)}*" for line in told))

    async def _update(self, update: m.SessionUpdate) -> None:
        note = m.SessionNotification(session_id=self.id, update=update)
        await self._peer.notify("session/update", note)

    def _follow(self, run: RunHandle, since: int) -> None:
        if self._following is not None:
            self._following.cancel()
        self.run = run
        self._told_upto = since
        self._updates = self._new_updates()
        definition = run.run.definition
        if definition is not None:
            self._updates.names_agents = len(definition.workflow.agents) > 1
        self._following = asyncio.create_task(self._tell(run, since), name="acp-following")

    async def _tell(self, run: RunHandle, since: int) -> None:
        """Send what happens in the run, in order, until it has ended or is another process's."""
        past = run.run.seq
        try:
            async with aclosing(run.numbered(since)) as events:
                async for envelope in events:
                    # The last one of the past leaves the run as it stands: what is open is asked then.
                    await self._tell_one(run, envelope, is_past=0 < (envelope.seq or 0) < past)
        # An edge: a bug here must not leave prompts without their answer.
        except Exception as error:
            self._warn(
                f"The session {self.id} can be shown no more: {type(error).__name__}: {error}"
            )
        self._told_upto = max(self._told_upto, run.run.seq)
        self._told.set()
        self._ask(run)
        for prompt in self._prompts:
            prompt.end()

    async def _tell_one(self, run: RunHandle, envelope: Envelope, *, is_past: bool) -> None:
        event = envelope.event
        for update in await self._updates.of(envelope):
            await self._update(update)
        if envelope.seq is None:
            return
        is_form = self._asks_in_forms and not is_past
        if isinstance(event, e.QuestionAsked) and event.kind == "question" and not is_form:
            await self.say(asked_in_words(event))
        if not is_past:
            await self._tell_state(run, event)
            self._ask(run)
            if not (run.run.is_over or run.run.is_parked):
                self._watch()
        self._told_upto = envelope.seq
        self._told.set()
        self._end_cancelled()

    async def _tell_state(self, run: RunHandle, event: object) -> None:
        items = run.run.todo.items
        if items != self._told_todo:
            self._told_todo = items
            await self._update(plan_of(items))
        await self._tell_mode()
        if not isinstance(event, e.AgentResponded) or event.branch:
            return
        if event.usage is not None and self._window:
            cost = costs(run.run.usage.requests).total
            paid = None
            if cost.unpriced < cost.requests:
                paid = m.Cost(amount=float(cost.usd), currency="USD")
            used = event.usage.input_tokens + event.usage.output_tokens
            await self._update(m.UsageUpdate(used=used, size=self._window, cost=paid))

    async def _told_until(self, seq: int) -> None:
        """Return once the editor was sent all up to a fact, or hears of this run no more."""
        while self._told_upto < seq and self._following is not None and not self._following.done():
            self._told.clear()
            await self._told.wait()

    # --- the turn ---------------------------------------------------------------------------

    def _watch(self) -> None:
        if self._turn is None or self._turn.done():
            self._turn = asyncio.create_task(self._watched(), name="acp-turn")

    async def _watched(self) -> None:
        """End the prompts that were said once only a person can move the run on, and is not being asked."""
        while True:
            await self._activity.now("running")
            await self._rested()
            for prompt in self._prompts:
                if prompt.is_said:
                    prompt.end()
            await self._activity.now("idle", "cancelled" if self._is_cancelled else "end_turn")
            # One that was said meanwhile has found this task at work.
            if all(prompt.over.done() or not prompt.is_said for prompt in self._prompts):
                return

    async def _rested(self) -> None:
        while (run := self.run) is not None:
            await run.settled()
            await self._told_until(run.run.seq)
            if self._in_order.locked():
                async with self._in_order:
                    continue
            if run is not self.run or not (run.run.is_over or run.run.is_parked or self._has_lost):
                await asyncio.sleep(0)
                continue
            if not self._asking:
                return
            await self._activity.now("requires_action")
            await asyncio.wait(self._asking.values(), return_when=asyncio.FIRST_COMPLETED)
            await self._activity.now("running")

    @property
    def _has_lost(self) -> bool:
        return self._following is None or self._following.done()

    def _do(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name="acp-session")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._warn(f"{self.id}: {type(error).__name__}: {error}")

    # --- what a person is asked -------------------------------------------------------------

    @property
    def _asks_in_forms(self) -> bool:
        can = self._client.elicitation
        return can is not None and can.form is not None

    def _ask(self, run: RunHandle) -> None:
        """Ask in the editor what is open, and ask no more what is not."""
        open_now = {} if self._has_lost else {each.id: each for each in run.questions}
        for id, task in list(self._asking.items()):
            if id not in open_now and not task.done():
                task.cancel()
        for question in open_now.values():
            if question.kind == "input" or {question.id} & (self._asking.keys() | self._unshown):
                continue
            if question.kind == "approval":
                work = self._approval(run, question)
            elif self._asks_in_forms:
                work = self._form(run, question)
            else:
                continue
            task = asyncio.create_task(work, name="acp-asking")
            self._asking[question.id] = task
            task.add_done_callback(partial(self._asked, question.id))

    def _asked(self, id: str, task: "asyncio.Task[None]") -> None:
        self._asking.pop(id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._unshown.add(id)
            self._warn(f"{self.id} could not ask: {type(error).__name__}: {error}")

    async def _approval(self, run: RunHandle, question: Question) -> None:
        request, choices = asking.permission_of(self.id, question)
        try:
            answer = await self._peer.request("session/request_permission", request)
            outcome = params_of(m.RequestPermissionResponse, _object(answer)).outcome
        except (RpcError, Disconnected):
            await self._leave_open(question, "This editor cannot ask for it")
            return
        chosen = choices.get(outcome.option_id or "") if outcome.outcome == "selected" else None
        now = next((each for each in run.questions if each.id == question.id), None)
        if chosen is None:
            await self._leave_open(question, "Nothing was decided")
        elif now is not None and now.text == question.text:
            await run.approve(question, **chosen[1])

    async def _form(self, run: RunHandle, question: Question) -> None:
        request = asking.form_of(self.id, question)
        while request is not None:
            try:
                answer = await self._peer.request("elicitation/create", request)
                given = params_of(m.CreateElicitationResponse, _object(answer))
            except (RpcError, Disconnected):
                break
            if given.action != "accept":
                break
            id = secrets.token_hex(6)
            self._ours.add(id)
            value = answer_in(question, given.content, is_wide=True)
            receipt = await run.answer(question, value, id=id, source=SOURCE)
            if receipt.handling != "reject" or question.id not in {q.id for q in run.questions}:
                return
            await self.say(f"*{receipt.reason or 'The answer does not fit.'}*")
        self._unshown.add(question.id)
        choices = [f"{number}. {each}" for number, each in enumerate(question.choices, 1)]
        head = f"**{question_heading(question)}:** {question.text}"
        await self.say("\n".join((head, *choices)))

    async def _leave_open(self, question: Question, why: str) -> None:
        self._unshown.add(question.id)
        if not self._peer.is_over and not any(each.is_cancelled for each in self._prompts):
            await self.say(
                f"*{why}: {question_heading(question)}. It waits: `midstream` here, then /resume "
                f"{self.id}, asks again; your next words go on without it.*"
            )


def _object(answer: Json) -> dict[str, Json]:
    return answer if isinstance(answer, dict) else {}

"""One prompt of an external agent: what it says and does, on its way into the run.

It is the model request of that agent's turn, and ends as one: with a reply, an error, or cancelled.
Meanwhile the agent does things itself, each of which becomes an input in the order in which it happens.
Before and after, the files of the workspace are looked at: what it changes without telling is known, too.
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from midstream.core import inputs
from midstream.core.conversation import Message, ToolCall
from midstream.core.events import HookRan, Usage
from midstream.core.pending import AskModel, ReviewCall, call_key, review_key
from midstream.core.run import OpenCall, Run
from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.language.names import (
    EXTERNAL_CALL,
    EXTERNAL_KINDS,
    EXTERNAL_LOOKS,
    Effect,
    Json,
    Outcome,
)
from midstream.language.plan import parsing_tools
from midstream.runtime.agent import WorkflowAgent
from midstream.runtime.effect_handle import StreamingEffect
from midstream.runtime.effects import EDGE, Post, Put, hint_of, is_for_us, place_of, record_change
from midstream.runtime.external_prompt import structured, told_to
from midstream.runtime.file_watch import FileWatch
from midstream.runtime.hooks import before_call, refusal_of
from midstream.runtime.json_values import kept_call, kept_usage
from midstream.runtime.pictures import with_contents
from midstream.runtime.ports import (
    ExternalAgents,
    ExternalCall,
    ExternalPrompt,
    ModelReply,
    Permission,
    ProposedText,
    Review,
    ToolContext,
    World,
)
from midstream.runtime.redact_results import cleaned_call, cleaned_grants
from midstream.runtime.text_limits import kept, named, short, start_of
from midstream.runtime.user_words import readable
from midstream.safety.redaction import Redactor
from midstream.system.offloop import in_thread, unless_stopped
from midstream.system.workspace_paths import locate, read_bytes

MAX_TITLE = 300

_STOPPED = Permission(is_granted=False, reason="The agent was stopped.")


class ExternalTurn:
    """Hears one prompt of an external agent; see the port `ExternalListener`.

    Args:
        effect: the request it is.
        run: the run or branch whose agent it is, as it stood when the request began.
        allowed: what a person has granted to the run by then.
        watch: sees what changes in the workspace; None where nothing there is to be put back.
    """

    def __init__(
        self,
        effect: AskModel,
        run: Run,
        allowed: tuple[str, ...],
        world: World,
        flight: StreamingEffect,
        post: Post,
        put: Put,
        watch: FileWatch | None,
    ) -> None:
        self._effect = effect
        self._run = run
        self._allowed = allowed
        self._world = world
        self._flight = flight
        self._post = post
        self._put = put
        self._watch = watch
        self._agent = WorkflowAgent(run, effect.agent)
        self._prefix = secrets.token_hex(4)
        self._ids: dict[str, str] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self._calls: dict[str, OpenCall] = {}
        # The texts that the last yes to a call was to, by their paths.
        self._granted: dict[str, dict[str, ProposedText]] = {}
        # A yes is to one thing: what is asked about a call waits for what was asked before.
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._moved = asyncio.Event()
        self._told = 0
        self._workspace = world.workspace
        self._own: tuple[str, ...] = ()

    # --- the whole of it ------------------------------------------------------------------------

    async def reply(self, agents: ExternalAgents) -> ModelReply:
        """Return the reply to the prompt that the agent's turn is owed.

        Raises:
            MidstreamError: as the port says, or what the agent did could not be judged or kept.
        """
        permits = self._world.permits
        if permits is not None and permits.mode == "plan":
            raise UserMistake(
                f"{self._effect.agent} is another program, and nothing could keep it to reading only: "
                "it is not asked in the permission mode plan.",
                hint="/permissions ask",
            )
        agent, run, world = self._agent, self._run, self._world
        self._workspace, self._own = await place_of(run, "", world)
        told = await in_thread(partial(told_to, run, agent))
        self._told = told.told
        request = await with_contents(await in_thread(agent.request), world.blobs)
        prompt = ExternalPrompt(
            agent=agent.name,
            acp=agent.spec.program,
            owner="/".join(filter(None, (run.id, run.branch.path))),
            workspace=self._workspace,
            session=told.session,
            text=told.text,
            whole=told.whole,
            pictures=_pictures(told.news, request.pictures or {}),
        )
        if self._watch is not None:
            await self._look(self._watch)
        try:
            reply = await agents.prompt(prompt, self)
        finally:
            if self._watch is not None and self._watch.manifest:
                self._post(await changes_seen(self._watch, run.branch.path, world))
        if world.place is not None:
            await world.place.keep(self._put)
        self._flight.ended()
        state = run.plan.states.get(run.visit.state)
        tools = parsing_tools(agent.role, state)
        calls = await in_thread(partial(structured, reply.text, tools, world.validate))
        return replace(reply, calls=calls)

    async def _look(self, watch: FileWatch) -> None:
        branch, world = self._run.branch.path, self._world
        if watch.manifest:
            # It was looked at, and then the process died, or the prompt was cut: it may have changed.
            await self._put(await changes_seen(watch, branch, world))
        try:
            manifest = await watch.look()
        except MidstreamError as error:
            note = short(error.what, world.redactor)
            await self._put(inputs.FilesSeen(branch=branch, note=note))
        else:
            await self._put(inputs.FilesSeen(branch=branch, manifest=manifest))

    # --- what it says: the ReplyListener --------------------------------------------------------

    def text(self, delta: str) -> None:
        """Hear the next piece of the reply's words."""
        self._flight.text(delta)

    def thinking(self, delta: str) -> None:
        """Hear the next piece of its reasoning."""
        self._flight.thinking(delta)

    def calling(self, name: str) -> None:
        """Hear that it begins to make a call, of which it says more by itself."""

    def status(self, text: str) -> None:
        """Hear what the program is doing, such as starting."""
        self._flight.status(text)

    def metered(self, used: Callable[[], Usage | None]) -> None:
        """Hear how to find out what the prompt has used so far."""
        self._flight.metered(used)

    # --- what it does ---------------------------------------------------------------------------

    def judged(self, calls: tuple[OpenCall, ...]) -> None:
        """Hear how its calls stand in the run."""
        self._calls = {call.call.id: call for call in calls}
        self._moved.set()

    async def opened(self, session: str, *, is_new: bool) -> None:
        """Have the session journaled before the prompt is sent."""
        told = len(self._run.contexts[self._agent.spec.context]) if is_new else self._told
        opened = inputs.AgentOpened(
            key=self._effect.key,
            session=short(session, self._world.redactor),
            run=self._run.id,
            told=told,
            is_new=is_new,
        )
        await self._put(opened)
        self._require_wanted()

    async def called(self, call: ExternalCall) -> None:
        """Have a call journaled that the agent makes."""
        await self._called(call)

    async def _called(self, call: ExternalCall) -> str:
        known = self._ids.get(call.id)
        if known is not None:
            return known
        id = self._ids[call.id] = f"x{self._prefix}_{len(self._ids) + 1}"
        self._paths[id] = call.paths
        kind = call.kind if call.kind in EXTERNAL_KINDS else "other"
        asked = inputs.RequestedCall(name=kind, arguments=_arguments(call, self._world.redactor))
        clean = await cleaned_call(kept_call(asked), self._run, self._world)
        made = ToolCall(id=id, name=kind, arguments=clean.arguments)
        effect: Effect = "read" if kind in EXTERNAL_LOOKS else "once"
        await self._put(inputs.AgentCalled(key=self._effect.key, call=made, effect=effect))
        return id

    async def returned(self, id: str, outcome: Outcome, text: str) -> None:
        """Have it journaled how a call ended."""
        if (known := self._ids.get(id)) is None:
            return
        words = await kept(text, self._world)
        await self._put(
            inputs.AgentReturned(key=self._effect.key, call_id=known, outcome=outcome, text=words)
        )

    async def permit(self, call: ExternalCall) -> Permission:
        """Return whether it may make a call, by the policy and the person."""
        id = await self._called(call)
        async with self._asking[id]:
            return await self._permitted(id, call)

    async def _permitted(self, id: str, call: ExternalCall) -> Permission:
        self._granted.pop(id, None)
        if self._flight.is_closed:
            return _STOPPED
        kind = call.kind if call.kind in EXTERNAL_KINDS else "other"
        arguments: dict[str, Json] = {
            "kind": kind,
            "title": start_of(call.title, MAX_TITLE, self._world.redactor),
            "paths": [*call.paths],
            "command": call.command,
            "url": call.url,
            "texts": [msgspec.structs.asdict(text) for text in call.texts],
        }
        key = review_key(self._run, id)
        about = ReviewCall(key=key, agent=self._effect.agent, name=kind, arguments=arguments)
        world, run = self._world, self._run
        ran: tuple[HookRan, ...] = ()
        if world.hooks is not None:
            ran = await before_call(about, run, world, self._workspace)
        refusal = refusal_of(ran)
        if any(each.arguments is not None for each in ran):
            refusal = (
                refusal or "a hook would have it made otherwise, which the agent cannot be told"
            )
        if refusal:
            return await self._judge(
                id, await self._reviewed(id, Review(kind="deny", reason=refusal), ran)
            )
        review = await world.tools.review(EXTERNAL_CALL, arguments, self._context(id))
        permission = await self._judge(id, await self._reviewed(id, review, ran))
        if permission.is_granted and review.kind == "ask":
            self._granted[id] = {text.path: text for text in call.texts}
        return permission

    async def _reviewed(
        self, id: str, review: Review, hooks: tuple[HookRan, ...] = ()
    ) -> inputs.CallReviewed:
        run, world = self._run, self._world
        return inputs.CallReviewed(
            key=self._key(review_key(run, id)),
            kind=review.kind,
            asks=cleaned_grants(EXTERNAL_CALL, tuple(map(readable, review.asks)), run, world),
            shows=await kept(review.shows, world),
            reason=short(review.reason, world.redactor),
            hint=short(review.hint, world.redactor),
            hooks=hooks,
        )

    def _key(self, key: inputs.EffectKey) -> inputs.EffectKey:
        """Return a key of an effect of the run or branch as it is known in the whole of the run."""
        return (*self._effect.key[: -len(key)], *key)

    async def _judge(self, id: str, reviewed: inputs.CallReviewed) -> Permission:
        """Return what is said to a call once somebody has said it."""
        await self._put(reviewed)
        while not self._flight.is_closed:
            call = self._calls.get(id)
            if call is None:
                break
            if call.status == "running":
                return Permission(is_granted=True)
            if call.status == "done":
                return Permission(is_granted=False, reason=call.result)
            self._moved.clear()
            await self._moved.wait()
        return _STOPPED

    def _context(self, id: str) -> ToolContext:
        return ToolContext(
            workspace=self._workspace,
            run=self._run.id,
            agent=self._effect.agent,
            stop=asyncio.Event(),
            progress=lambda _text: None,
            call=id,
            epoch=self._world.epochs.get(self._run.id, 0),
            granted=(*self._allowed, *self._own),
            worktrees=self._run.branch.worktrees,
        )

    def _require_wanted(self) -> None:
        if self._flight.is_closed:
            raise WorldTrouble("The agent was stopped.", hint="Nobody waits for it any more.")

    # --- files that it has us read and write ----------------------------------------------------

    async def read_text(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """Return the text of a file of the workspace that may be read."""
        arguments: dict[str, Json] = {"paths": [path]}
        review = await self._world.tools.review("read_files", arguments, self._context(""))
        if review.kind != "allow":
            raise UserMistake(f"{path} may not be read: {review.reason}", hint=review.hint)
        data = await in_thread(lambda: read_bytes(locate(self._workspace, path)))
        text = data.decode("utf-8", "replace")
        if line is None and limit is None:
            return text
        first = max((line or 1) - 1, 0)
        return "".join(text.splitlines(keepends=True)[first:][:limit])

    async def write_text(self, path: str, text: str) -> None:
        """Write a file as the file tools do: judged, and recorded before it is written."""
        theirs, id = await self._call_about(path)
        async with self._asking[id]:
            await self._written(theirs, id, path, text)

    async def _written(self, theirs: str, id: str, path: str, text: str) -> None:
        arguments: dict[str, Json] = {"path": path, "content": text}
        context = self._context(id)
        review = await self._world.tools.review("write_file", arguments, context)
        granted: tuple[str, ...] = ()
        if review.kind != "allow":
            granted = review.asks
            if review.kind == "deny" or not await self._was_shown(id, path, text):
                permission = await self._judge(id, await self._reviewed(id, review))
                if not permission.is_granted:
                    raise UserMistake(
                        f"{path} was not written: {permission.reason}", hint="Leave it as it is."
                    )
        self._require_wanted()
        changing = partial(
            record_change, self._key(call_key(self._run, id)), self._flight, self._world, self._put
        )
        context = replace(
            context,
            stop=self._flight.stop or asyncio.Event(),
            granted=(*context.granted, *granted),
            changed=lambda diff: self._flight.changed(id, diff),
        )
        if not self._own:
            context = replace(context, changing=changing)
        ended = await self._world.tools.call("write_file", arguments, context)
        if theirs.startswith(_OURS):
            await self.returned(theirs, ended.outcome, ended.text)
        if ended.outcome != "completed":
            raise WorldTrouble(
                f"{path} was not written: {ended.text}", hint="Look at the file as it is now."
            )
        if self._watch is not None:
            await in_thread(partial(self._watch.recorded, self._workspace / path, text))

    async def _was_shown(self, id: str, path: str, text: str) -> bool:
        """Return whether a yes was to this very text, shown as the change that it is to the file."""
        shown = self._granted.get(id, {}).get(path)
        if shown is None or shown.new != text:
            return False
        try:
            data = await in_thread(lambda: read_bytes(locate(self._workspace, path)))
        except MidstreamError as error:
            return shown.old is None and isinstance(error.__cause__, FileNotFoundError)
        return bytes(data) == (shown.old or "").encode("utf-8", "surrogatepass")

    async def _call_about(self, path: str) -> tuple[str, str]:
        """Return the call that a write belongs to: one of the agent's that names the file, or a new one."""
        for theirs, id in reversed(self._ids.items()):
            call = self._calls.get(id)
            is_open = call is not None and call.status == "running"
            if is_open and any(_is_same_path(path, each) for each in self._paths[id]):
                return theirs, id
        theirs = f"{_OURS}{len(self._ids)}"
        new = ExternalCall(id=theirs, title=f"Write {path}", kind="edit", paths=(path,))
        return theirs, await self._called(new)


_OURS = "midstream: "
"""What the ids of calls begin with that stand for a write the agent asked us for."""


def _is_same_path(one: str, other: str) -> bool:
    """Return whether two names mean one file: one may be absolute, and the other not."""
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _arguments(call: ExternalCall, redactor: Redactor) -> dict[str, Json]:
    """Return what is kept of a call: the texts it would write are in the files it wrote."""
    found: dict[str, Json] = {"title": start_of(call.title, MAX_TITLE, redactor)}
    if call.paths:
        found["paths"] = [*call.paths]
    if call.command:
        found["command"] = call.command
    if call.url:
        found["url"] = call.url
    return found


def _pictures(
    news: Sequence[Message], contents: Mapping[str, bytes]
) -> tuple[tuple[str, bytes], ...]:
    found = {
        each.key: (each.media, contents[each.key])
        for message in news
        for each in message.all_pictures
        if each.key in contents
    }
    return tuple(found.values())


async def changes_seen(watch: FileWatch, branch: str, world: World) -> inputs.FilesSeen:
    """Return what has changed in the workspace since it was looked at last."""
    try:
        files, note = await watch.changes()
    except MidstreamError as error:
        files, note = (), short(error.what, world.redactor)
    return inputs.FilesSeen(branch=branch, files=files, note=note)


async def ask_external(
    effect: AskModel,
    run: Run,
    allowed: tuple[str, ...],
    world: World,
    flight: StreamingEffect,
    post: Post,
    put: Put,
    watch: FileWatch | None,
    before: "asyncio.Task[None] | None",
) -> None:
    """Send an external agent one prompt and post its reply or failure, or that it was stopped.

    `before` is the last prompt of the same agent: it may not have stopped yet.
    """
    answer: inputs.AnyInput = inputs.AgentStopped(key=effect.key)
    assert flight.stop is not None
    assert world.agents is not None
    if before is not None:
        await asyncio.wait((before,))
    try:
        turn = ExternalTurn(effect, run, allowed, world, flight, post, put, watch)
        flight.on_calls = turn.judged
        turn.judged(effect.external)
        reply = await unless_stopped(turn.reply(world.agents), flight.stop)
        if reply is None and not flight.stop.is_set():
            raise asyncio.CancelledError  # by itself: nobody has stopped it
        if reply is not None and not flight.stop.is_set():
            answer = inputs.ModelReplied(
                key=effect.key,
                text=await kept(reply.text, world),
                calls=tuple([await cleaned_call(kept_call(c), run, world) for c in reply.calls]),
                usage=kept_usage(reply.usage),
            )
    except MidstreamError as error:
        if not flight.stop.is_set():  # else nobody is owed what came of it
            what, hint = short(error.what, world.redactor), short(error.hint, world.redactor)
            is_broken = isinstance(error, WorldTrouble) and flight.has_begun
            answer = inputs.ModelFailed(
                key=effect.key, error=what, hint=hint, is_broken=is_broken, usage=flight.used()
            )
    except EDGE as error:
        if not is_for_us(error):
            raise
        if not flight.stop.is_set():
            words = f"The external agent failed: {named(error, world.redactor)}"
            answer = inputs.ModelFailed(key=effect.key, error=words, hint=hint_of(error))
    post(answer)

"""One external agent: its program, its session, and one prompt after another.

What comes in during a prompt is put in a line and told to the listener one by one (`turn`): the listener
journals, and a permission is asked for only after all that was said before it. Once a prompt is over, or is
to be stopped, nothing of it is told any more but how calls ended.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping
from decimal import Decimal
from typing import Final

import msgspec

from midstream._version import __version__
from midstream.agents import acp_messages as acp
from midstream.agents.agent_process import AgentProcess
from midstream.agents.json_rpc import (
    BAD_PARAMS,
    NOT_FOUND,
    Disconnected,
    Params,
    Peer,
    RpcError,
    no_method,
    params_of,
)
from midstream.agents.presets import Launch, Patience
from midstream.agents.turn import MAX_CALLS, Known, TooMuch, Turn, read_update
from midstream.core.events import Usage
from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble, clip
from midstream.language.names import Json
from midstream.runtime.ports import ExternalListener, ExternalPrompt, ModelReply
from midstream.system.offloop import still_working, unless_stopped

MAX_ASKING: Final = 64
"""Requests of the agent that may be open at once."""
AUTH_REQUIRED: Final = -32000
_MOST_TOKENS = 1_000_000_000
_SHOWN_WORDS = 500
_LAST_WORDS_S = 0.5
_ANEW = "The next prompt starts it anew."
_UPDATE = "Update it, or give the agent another acp."


class Conversation:
    """A program that speaks the protocol, and the session that is open in it.

    Args:
        launch: how it is started.
        redacted: takes secrets out of what it wrote to stderr.
    """

    def __init__(
        self, launch: Launch, *, redacted: Callable[[str], str], patience: Patience
    ) -> None:
        self.launch = launch
        self.session = ""
        self._redacted = redacted
        self._patience = patience
        self._process: AgentProcess | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._turn: Turn | None = None
        self._heard_at = 0.0
        self._has_cost = False
        self._cost: Decimal | None = None
        self._cost_before: Decimal | None = None
        self._able = acp.AgentCapabilities()

    @property
    def is_over(self) -> bool:
        """Return whether it has to be started anew."""
        return self._process is None or self._peer.is_over

    # --- its program ------------------------------------------------------------------------------

    async def start(self, prompt: ExternalPrompt) -> None:
        """Start the program and agree on the protocol.

        Raises:
            UserMistake: it speaks another version.
            WorldTrouble: it could not be started, or does not speak the protocol.
        """
        name = self.launch.name
        try:
            self._process = await AgentProcess.start(
                self.launch.argv, folder=prompt.workspace, environment=self.launch.environment
            )
        except (OSError, ValueError) as error:
            raise WorldTrouble(
                f"{name} could not be started: {error}.", hint="Try to start it by hand."
            ) from None
        self._peer = Peer(
            self._process,
            self._process,
            on_request=self._asked,
            on_notification=self._told,
            name=name,
        )
        self._tasks = [
            asyncio.create_task(self._peer.run(), name=f"acp-{name}"),
            asyncio.create_task(self._process.keep_last_words(), name=f"acp-words-{name}"),
        ]
        request = acp.InitializeRequest(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=acp.ClientCapabilities(
                fs=acp.FileSystemCapabilities(
                    read_text_file=self.launch.reads, write_text_file=True
                )
            ),
            client_info=acp.Implementation(name="midstream", version=__version__),
        )
        answer = await self._request("initialize", request)
        version = answer.get("protocolVersion")
        if version != acp.PROTOCOL_VERSION:
            raise UserMistake(
                f"{name} speaks version {clip(self._redacted(str(version)))} of the Agent Client Protocol, "
                f"midstream version {acp.PROTOCOL_VERSION}.",
                hint="Update the older of the two.",
            )
        try:
            self._able = params_of(acp.AgentCapabilities, _object(answer.get("agentCapabilities")))
        except RpcError as error:
            raise WorldTrouble(
                f"{name} broke the protocol: {error.message}", hint=_UPDATE
            ) from None

    async def end(self, *, at_once: bool = True) -> None:
        """End the program and all it started."""
        process, self._process = self._process, None
        if process is None:
            return
        self._peer.end()
        try:
            await process.end(at_once=at_once)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    async def _request(self, method: str, params: object) -> Params:
        """Return the answer to a request that is to be answered soon.

        Raises:
            UserMistake, WorldTrouble: it is not answered, or with an error.
        """
        try:
            async with asyncio.timeout(self._patience.start_s):
                return _object(await self._peer.request(method, params))
        except TimeoutError:
            raise WorldTrouble(
                f"{self.launch.name} did not answer {method} within {self._patience.start_s:g} s."
                f"{self._words()}",
                hint="Try to start it by hand.",
            ) from None
        except RpcError as error:
            raise self._trouble(error) from None
        except Disconnected:
            raise await self.gone() from None

    # --- its errors -------------------------------------------------------------------------------

    def _words(self) -> str:
        words = self._process.last_words(self._redacted) if self._process is not None else ""
        words = " ".join(words.split())
        return f" It wrote: {clip(words[-_SHOWN_WORDS:], _SHOWN_WORDS)}" if words else ""

    async def gone(self) -> WorldTrouble:
        """Return why the program is gone; it and all it started are ended first."""
        # What it wrote last says why.
        await still_working(self._tasks[1:], _LAST_WORDS_S)
        process, words = self._process, self._words()
        await self.end()
        name = self.launch.name
        if process is None:
            return WorldTrouble(f"{name} was ended.", hint=_ANEW)
        if process.broke:
            return WorldTrouble(f"{name} was ended: {process.broke}.{words}", hint=_ANEW)
        code = process.exit_code
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return WorldTrouble(f"{name} {how}.{words}", hint=_ANEW)

    def _trouble(self, error: RpcError) -> MidstreamError:
        """Return what an agent's error is to us."""
        name = self.launch.name
        if error.code == AUTH_REQUIRED:
            login = self.launch.login
            hint = f"Log in with it: {login}" if login else "Log in with it by hand."
            return UserMistake(f"{name} wants a login.", hint=hint)
        details = error.data.get("details") if isinstance(error.data, dict) else None
        words = f"{error.message}: {details}" if isinstance(details, str) else error.message
        return WorldTrouble(
            f"{name} failed: {clip(self._redacted(words), 600)}",
            hint=f"Try it by hand: {self.launch.argv[0]}",
        )

    # --- its session ------------------------------------------------------------------------------

    async def enter(self, prompt: ExternalPrompt) -> bool:
        """Take up the prompt's session; return whether a new one was begun instead.

        Raises:
            UserMistake, WorldTrouble: neither can be.
        """
        if self.session and self.session == prompt.session:
            return False
        place: Params = {"cwd": str(prompt.workspace), "mcpServers": []}
        can_resume = self._able.session_capabilities.resume is not None
        if prompt.session and (can_resume or self._able.load_session):
            method = "session/resume" if can_resume else "session/load"
            try:
                answer = await self._request(method, {"sessionId": prompt.session, **place})
            except (UserMistake, WorldTrouble):
                # It has forgotten it: it is told all anew.
                if self.is_over:
                    raise
            else:
                self.session, self._cost = prompt.session, None
                await self._be_asking(answer)
                return False
        answer = await self._request("session/new", place)
        session = answer.get("sessionId")
        if not isinstance(session, str) or not 0 < len(session) <= 1_000:
            raise WorldTrouble(
                f"{self.launch.name} broke the protocol: a session has no id.", hint=_UPDATE
            )
        self.session, self._cost = session, Decimal(0)
        await self._be_asking(answer)
        return True

    async def _be_asking(self, answer: Params) -> None:
        """Put the session into the mode in which it asks before it acts."""
        modes = _object(answer.get("modes"))
        if not self.launch.mode or modes.get("currentModeId") == self.launch.mode:
            return
        request = acp.SetSessionModeRequest(session_id=self.session, mode_id=self.launch.mode)
        try:
            await self._request("session/set_mode", request)
        except WorldTrouble as error:
            self.session = ""
            raise UserMistake(
                f"{self.launch.name} cannot be told to ask before it acts: {error.what}",
                hint=_UPDATE,
            ) from None

    # --- one prompt -------------------------------------------------------------------------------

    async def prompt(
        self, words: str, pictures: tuple[tuple[str, bytes], ...], listener: ExternalListener
    ) -> ModelReply:
        """Return the reply to one prompt.

        Raises:
            UserMistake, WorldTrouble: see `ExternalAgents.prompt`.
        """
        assert self._process is not None
        self._process.begin_turn()
        turn = self._turn = Turn(listener)
        self._heard()
        self._cost_before = self._cost
        listener.metered(lambda: msgspec.structs.replace(self._usage(turn, {}), is_estimate=True))
        blocks: list[acp.ContentBlock] = [acp.TextContent(text=words)]
        if self._able.prompt_capabilities.image:
            blocks += [
                acp.ImageContent(data=base64.b64encode(data).decode(), mime_type=kind)
                for kind, data in pictures
            ]
        request = acp.PromptRequest(session_id=self.session, prompt=tuple(blocks))
        answer = asyncio.create_task(self._peer.request("session/prompt", request))
        telling = asyncio.create_task(turn.tell())
        try:
            told = await self._answered(turn, answer, telling)
            await self._all_told(turn, telling)
            return self._reply(turn, told)
        except Disconnected:
            # What it said before it went is told.
            await self._all_told(turn, telling)
            raise await self.gone() from None
        except (asyncio.CancelledError, MidstreamError):
            await _whatever_happens(self._stopped(turn, answer))
            raise
        finally:
            turn.stopped.set()
            self._turn = None
            for task in (answer, telling):
                task.cancel()
            await asyncio.wait((answer, telling))
            for task in (answer, telling):
                if not task.cancelled():
                    task.exception()

    async def _all_told(self, turn: Turn, telling: "asyncio.Task[None]") -> None:
        caught_up = asyncio.create_task(turn.caught_up())
        await asyncio.wait((caught_up, telling), return_when=asyncio.FIRST_COMPLETED)
        if not caught_up.done():
            caught_up.cancel()
            self._raise_of(telling)

    def _raise_of(self, telling: "asyncio.Task[None]") -> None:
        """Raise what ended the telling."""
        error = telling.exception()
        if isinstance(error, TooMuch):
            raise WorldTrouble(f"{self.launch.name} was stopped: {error}", hint=_ANEW) from None
        if error is not None:
            raise error

    async def _answered(
        self, turn: Turn, answer: "asyncio.Task[Json]", telling: "asyncio.Task[None]"
    ) -> Params:
        """Return the answer to a prompt, waiting for as long as there is life in the agent."""
        loop = asyncio.get_running_loop()
        patience = self._patience
        while not answer.done():
            limit = patience.working_s if turn.is_working else patience.idle_s
            left = self._heard_at + limit - loop.time()
            if turn.asking:
                self._heard()
                left = limit
            if left <= 0:
                words = self._words()
                await self.end()
                raise WorldTrouble(
                    f"{self.launch.name} fell silent for {limit:g} s and was ended.{words}",
                    hint=_ANEW,
                )
            part_s, asked_at = min(left, limit / 20), loop.time()
            await asyncio.wait(
                (answer, telling), timeout=part_s, return_when=asyncio.FIRST_COMPLETED
            )
            # A machine that stands still has the agent do so, too: that is no silence of its own.
            self._heard_at += max(0.0, loop.time() - asked_at - part_s)
            if telling.done():
                self._raise_of(telling)
        try:
            return _object(answer.result())
        except RpcError as error:
            raise self._trouble(error) from None

    async def _stopped(self, turn: Turn, answer: "asyncio.Task[Json]") -> None:
        """Have a turn end that is to be stopped; one that does not is killed."""
        turn.stopped.set()
        if not self.is_over and not answer.done():
            self._peer.send("session/cancel", acp.SessionRequest(session_id=self.session))
        # What it has had us begin, such as writing a file, is done or undone before we are.
        ends = {answer, *turn.asking}
        await still_working(ends, self._patience.cancel_s)
        if not answer.done():
            await self.end()
        if left := [each for each in turn.asking if not each.done()]:
            for each in left:
                each.cancel()
            await asyncio.wait(left)

    def _reply(self, turn: Turn, told: Params) -> ModelReply:
        name, reason = self.launch.name, told.get("stopReason")
        text = turn.text
        if reason in ("max_tokens", "max_turn_requests"):
            limit = "tokens" if reason == "max_tokens" else "requests"
            raise WorldTrouble(
                f"{name} stopped before it was done: it reached its limit of {limit}.",
                hint="Ask it to go on, or for less at once.",
            )
        if reason == "refusal" and not text:
            raise WorldTrouble(f"{name} refused to answer.", hint="Say it in another way.")
        if reason == "cancelled":
            raise WorldTrouble(f"{name} stopped by itself in mid-turn.", hint="Ask it again.")
        return ModelReply(text=text, usage=self._usage(turn, told))

    def _usage(self, turn: Turn, told: Params) -> Usage:
        usage = _usage(told.get("usage")) or _quota(told)
        counts = [usage] if usage is not None else turn.usage
        cost = None
        if self._cost is not None and self._cost_before is not None and self._has_cost:
            cost = str(max(self._cost - self._cost_before, Decimal(0)))
        return Usage(
            model=f"acp:{self.launch.key}",
            input_tokens=_sum(each.input_tokens for each in counts),
            output_tokens=_sum(each.output_tokens for each in counts),
            cached_tokens=_sum(each.cached_read_tokens or 0 for each in counts),
            cost_usd=cost,
        )

    # --- what it says -----------------------------------------------------------------------------

    def _heard(self) -> None:
        self._heard_at = asyncio.get_running_loop().time()

    def _told(self, method: str, params: Params) -> None:
        """Take a notification."""
        self._heard()
        turn = self._turn
        if method != "session/update" or turn is None or params.get("sessionId") != self.session:
            return
        update = _object(params.get("update"))
        match update.get("sessionUpdate"):
            case "agent_message_chunk" | "agent_thought_chunk" as kind:
                self._chunk(turn, update, is_thought=kind == "agent_thought_chunk")
            case "tool_call" | "tool_call_update":
                turn.put(lambda: turn.update(update))
            case "usage_update":
                self._costs(update)

    def _chunk(self, turn: Turn, update: Params, *, is_thought: bool) -> None:
        content, message = _object(update.get("content")), update.get("messageId")
        text = content.get("text")
        if content.get("type") == "text" and isinstance(text, str) and text:
            id = message if isinstance(message, str) else None
            turn.put(lambda: turn.say(text, id, is_thought=is_thought))
        # Qwen Code counts each request of its own behind the words of it.
        usage = _usage(_object(update.get("_meta")).get("usage"))
        if usage is not None and len(turn.usage) < MAX_CALLS:
            turn.usage.append(usage)

    def _costs(self, update: Params) -> None:
        """Hear what the session has cost until now."""
        cost = _object(update.get("cost"))
        amount = cost.get("amount")
        if cost.get("currency") == "USD" and isinstance(amount, int | float) and amount >= 0:
            self._cost, self._has_cost = Decimal(str(amount)), True

    # --- what it asks -----------------------------------------------------------------------------

    async def _asked(self, method: str, params: Params) -> object:
        """Answer a request of the agent.

        Raises:
            RpcError, MidstreamError: which become the answer.
        """
        self._heard()
        answers: Mapping[str, Callable[[Turn, Params], Awaitable[object]]] = {
            "session/request_permission": self._permission,
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
        }
        if method not in answers:
            return await no_method(method, params)
        turn = self._turn
        if params.get("sessionId") != self.session or not self.session:
            raise RpcError(BAD_PARAMS, "There is no such session.")
        if turn is None or turn.stopped.is_set():
            if method == "session/request_permission":
                return _CANCELLED
            raise RpcError(BAD_PARAMS, "No turn is under way.")
        if len(turn.asking) >= MAX_ASKING:
            raise RpcError(BAD_PARAMS, f"Over {MAX_ASKING} requests are open.")
        task = asyncio.current_task()
        assert task is not None
        turn.asking.add(task)
        try:
            return await answers[method](turn, params)
        finally:
            turn.asking.discard(task)
            self._heard()

    async def _permission(self, turn: Turn, params: Params) -> object:
        told = _object(params.get("toolCall"))
        if not told:
            raise RpcError(BAD_PARAMS, "The request is about no tool call.")
        try:
            about = read_update(told)
        except msgspec.ValidationError as error:
            raise RpcError(BAD_PARAMS, f"The tool call does not fit: {error}.") from None
        plain = {**params, "toolCall": {"toolCallId": about.tool_call_id}}
        request = params_of(acp.RequestPermissionRequest, plain)
        found: list[Known] = []

        async def take() -> None:
            found.append(await turn.asked(told))

        try:
            await turn.caught_up(take)
        except RpcError:
            return _CANCELLED
        verdict = await unless_stopped(turn.listener.permit(found[0].call), turn.stopped)
        if verdict is None or turn.stopped.is_set():
            return _CANCELLED
        kinds = ("allow_once",) if verdict.is_granted else ("reject_once", "reject_always")
        for kind in kinds:
            for option in request.options:
                if option.kind == kind:
                    outcome = acp.PermissionOutcome(outcome="selected", option_id=option.option_id)
                    return acp.RequestPermissionResponse(outcome=outcome)
        # What it would take for a yes is more than was granted.
        return _CANCELLED

    async def _read(self, turn: Turn, params: Params) -> object:
        request = params_of(acp.ReadTextFileRequest, params)
        await turn.caught_up()
        try:
            text = await turn.listener.read_text(request.path, request.line, request.limit)
        except MidstreamError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                # In these words, since agents look for them: they are about to make the file.
                raise RpcError(
                    NOT_FOUND, f"Resource not found: {request.path} (No such file)"
                ) from None
            raise
        return {"content": text}

    async def _write(self, turn: Turn, params: Params) -> object:
        request = params_of(acp.WriteTextFileRequest, params)
        await turn.caught_up()
        await turn.listener.write_text(request.path, request.content)
        return {}


_CANCELLED: Final = acp.RequestPermissionResponse(
    outcome=acp.PermissionOutcome(outcome="cancelled")
)


async def _whatever_happens(work: Awaitable[None]) -> None:
    """Return when work has been done, also where we are cancelled meanwhile: once or more."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            continue
    task.result()


def _object(value: Json) -> Params:
    return value if isinstance(value, dict) else {}


def _sum(counts: Iterable[int]) -> int:
    """Return what an agent says it used: nobody gives a budget back, or is believed without end."""
    return sum(min(max(count, 0), _MOST_TOKENS) for count in counts)


def _usage(value: Json) -> acp.Usage | None:
    try:
        return msgspec.convert(value, acp.Usage) if isinstance(value, dict) else None
    except msgspec.ValidationError:
        return None


def _quota(told: Params) -> acp.Usage | None:
    """Return what Gemini CLI says in its own way."""
    count = _object(_object(_object(told.get("_meta")).get("quota")).get("token_count"))
    sent, made = count.get("input_tokens"), count.get("output_tokens")
    if isinstance(sent, int) and isinstance(made, int) and sent >= 0 and made >= 0:
        return acp.Usage(total_tokens=sent + made, input_tokens=sent, output_tokens=made)
    return None

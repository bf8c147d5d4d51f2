"""AIAPIClient: models of all providers behind the `Model` port.

One request is one stream. It is tried again only while nothing of the reply has been heard, and it
is watched by three deadlines: the first byte, the silence between bytes, and the whole. A stream
that ends without saying that it is complete is an error, however politely it was closed. Cancelling
closes the connection before the cancellation goes on.

Nothing heavy is imported before the first request or `warm_up`, and nothing heavy ever on the loop.
"""

import asyncio
import contextlib
import os
import random
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from midstream.core.conversation import tokens_in
from midstream.core.events import Usage
from midstream.core.inputs import RequestedCall
from midstream.core.pictures import LENGTH
from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.language.names import Effort
from midstream.language.spec import ToolSpec
from midstream.models.anthropic_messages import AnthropicModel
from midstream.models.endpoints import (
    ENDPOINTS,
    address_and_key,
    is_offline,
    model_of_level,
    name_and_effort,
    provider_of,
    require_name,
)
from midstream.models.http_stream import http_client
from midstream.models.openai_chat import OpenAIModel
from midstream.models.own_model import checked_call
from midstream.models.prices import meant_by, usage_now, usage_of
from midstream.models.provider_errors import (
    Backoff,
    Failed,
    Trouble,
    is_about_pictures,
    secrets_in,
    shown,
    trouble_about,
    trouble_of,
)
from midstream.models.reply_stream import Answer, Heard, SentCall, Speaker, Tokens
from midstream.runtime.ports import Clock, Model, ModelReply, ModelRequest, ReplyListener, Validator
from midstream.safety.decoding import BadValue, clean, decode_arguments
from midstream.system.offloop import in_thread

if TYPE_CHECKING:
    import httpx2

CUT_AT_LIMIT: Final = "\n\n[cut off: the model's limit for one reply was reached]"
CUT_BY_FILTER: Final = "\n\n[cut off by the provider's content filter]"
BLIND: Final = (
    "\n\n[{name} takes no pictures and was told only which there are: /model chooses another]"
)
_REARM: Final = 0.1
"""The share of the silence deadline that may pass before it is moved: a timer for each byte costs."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for a provider and how much to take from it.

    `first_byte_s` bounds each attempt until its first byte (models that reason long say nothing
    before), `idle_s` the silence between two bytes, `total_s` the request with all its attempts.
    `max_line_bytes` bounds what comes without a line break: the libraries keep a line whole.
    """

    first_byte_s: float = 180.0
    idle_s: float = 120.0
    total_s: float = 1800.0
    max_reply_bytes: int = 16_000_000
    max_line_bytes: int = 4_000_000
    max_lines: int = 500_000


class AIAPIClient:
    """The `Model` port over providers' streams.

    Belongs to one event loop. Close it with `aclose`.

    Args:
        levels: the model of each level, such as `{"base": "openai:gpt-5", ...}`.
        clock: what retries wait by (deadlines go by the loop's own time).
        validator: checks tool arguments against their schemas; called off the loop.
        offline: answers for the model names `offline` and `offline:...`.
        limits: deadlines and caps.
        backoff: how often and when a failed request is tried again.
        jitter: returns a number from 0 to 1 for each wait.
        turn: awaited with the model's name, the run and who hears why it waits, before an attempt goes out.
        environ: where keys and endpoints stand; by default the process's environment.
        transport: what carries requests instead of the network, for tests.
    """

    def __init__(
        self,
        levels: Mapping[str, str],
        *,
        clock: Clock,
        validator: Validator,
        offline: Model | None = None,
        limits: Limits | None = None,
        backoff: Backoff | None = None,
        jitter: Callable[[], float] = random.random,
        turn: Callable[[str, str, Callable[[str], None]], Awaitable[None]] | None = None,
        environ: Mapping[str, str] | None = None,
        transport: "httpx2.AsyncBaseTransport | None" = None,
    ) -> None:
        self._levels = dict(levels)
        self._model: str | None = None
        self._chosen: dict[str, str] = {}
        self._clock = clock
        self._validator = validator
        self._offline = offline
        self._limits = Limits() if limits is None else limits
        self._backoff = Backoff() if backoff is None else backoff
        self._jitter = jitter
        self._turn = turn
        self._environ = os.environ if environ is None else environ
        self._transport = transport
        self._http: httpx2.AsyncClient | None = None
        self._speakers: dict[str, Speaker] = {}
        self._blind: set[str] = set()
        self._closing: list[Callable[[], Awaitable[None]]] = []
        self._making = threading.Lock()

    # --- which model ------------------------------------------------------------------------------

    def use(self, model: str | None, level: str | None = None) -> None:
        """Answer every level, or one, with this model from now on; None goes back to the levels' own.

        What is used for every level ends what was used for one.

        Raises:
            UserMistake: the name has not the form `provider:model`, or there is no such level;
                nothing changed.
        """
        if level is None:
            self._model, self._chosen = (None if model is None else require_name(model)), {}
        else:
            own = model_of_level(level, self._levels)
            self._chosen[level] = own if model is None else require_name(model)

    def model_for(self, level: str = "base") -> str:
        """Return the name of the model that answers a level: the one in use, else the level's own.

        Raises:
            UserMistake: there is no such level, or the name is none of a model.
        """
        return self._answering(level, None, None)[0]

    def _answering(
        self, level: str, model: str | None, effort: Effort | None
    ) -> tuple[str, Effort | None]:
        """Return which model answers and how hard it thinks: `effort` is what the role says of that.

        What a person has chosen since the start comes before the role, and the role before the settings.
        """
        chosen = model or self._chosen.get(level) or self._model
        text = require_name(chosen or model_of_level(level, self._levels))
        name, said = name_and_effort(text)
        return name, (said or effort) if chosen else (effort or said)

    def describe(self) -> dict[str, str]:
        """Return the model that answers now for each level, and its effort: `openai:gpt-5 high`."""
        return {
            level: self._chosen.get(level) or self._model or name
            for level, name in self._levels.items()
        }

    # --- a request --------------------------------------------------------------------------------

    async def warm_up(self) -> None:
        """Load what the first request needs, off the loop. Again costs nothing."""
        for name in {*self.describe().values()}:
            if not is_offline(name):
                with contextlib.suppress(MidstreamError):
                    await self._made(name_and_effort(name)[0])

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return the reply to one request; see the `Model` port."""
        name, effort = self._answering(request.level, request.model, request.effort)
        if is_offline(name):
            if self._offline is None:
                raise UserMistake(
                    "There is no offline model here.", hint="Set a model, such as openai:gpt-5."
                )
            return await self._offline.request(request, listener)
        if name in self._blind:
            request = msgspec.structs.replace(request, pictures=None)
        request = msgspec.structs.replace(request, effort=effort)
        model = await self._made(name)
        time = asyncio.get_running_loop().time
        ends_at = time() + self._limits.total_s
        attempt = 1
        while True:
            if self._turn is not None:
                began = time()
                await self._turn(name, request.run, listener.status)
                ends_at += time() - began  # it is no silence of the provider's
            heard = Heard(listener)
            listener.metered(partial(_used, name, request, heard))
            outcome = await self._attempt(name, model, request, heard, ends_at)
            if not isinstance(outcome, Trouble):
                return await self._reply(name, outcome, request, heard)
            if heard.is_nothing:
                heard.sent_chars = 0  # it came to nothing, and costs as much
            if request.pictures and heard.is_nothing and is_about_pictures(outcome):
                # Else the conversation could not go on with this model, whatever is said to it.
                self._blind.add(name)
                request = msgspec.structs.replace(request, pictures=None)
                listener.status(f"{name} takes no pictures: it is told which there are")
                continue
            await self._wait_or_raise(name, outcome, attempt, listener)
            attempt += 1

    async def aclose(self) -> None:
        """Close every connection; what was asked before is made anew if it is asked again."""
        closing, self._closing = self._closing, []
        self._http, self._speakers = None, {}
        for close in reversed(closing):
            await close()

    async def _made(self, name: str) -> Speaker:
        if name in self._speakers:
            return self._speakers[name]
        try:
            return await in_thread(lambda: self._make(name), name="midstream-model")
        except MidstreamError:
            raise
        except Exception as error:
            raise (await self._trouble(error, name)).error from None

    def _make(self, name: str) -> Speaker:
        """Return the model of that name: of a dialect spoken here, else of the library.

        Blocks (imports, certificates).
        """
        known = ENDPOINTS.get(provider_of(name))
        # Connections are kept from request to request: two threads must not make two clients.
        with self._making:
            if name in self._speakers:
                return self._speakers[name]
            if self._http is None:
                self._http = http_client(self._transport)
                self._closing.append(self._http.aclose)
            if known is None or known.dialect == "library":
                from midstream.models.pydantic_ai import library_model

                theirs = library_model(name, self._environ, self._http)
                self._closing.append(theirs.aclose)
                self._speakers[name] = theirs
            else:
                address, key = address_and_key(provider_of(name), self._environ)
                kind = AnthropicModel if known.dialect == "anthropic" else OpenAIModel
                self._speakers[name] = kind(self._http, address.rstrip("/"), key, name)
            return self._speakers[name]

    async def _attempt(
        self,
        name: str,
        model: Speaker,
        request: ModelRequest,
        heard: Heard,
        ends_at: float,
    ) -> Answer | Trouble:
        loop = asyncio.get_running_loop()
        watch = _Watch(self._limits, ends_at)
        try:
            async with asyncio.timeout_at(
                min(ends_at, loop.time() + self._limits.first_byte_s)
            ) as deadline:
                watch.deadline = deadline
                return await model.ask(request, heard, watch)
        # An edge: what a provider sends can break its library in ways no list foresees.
        except Exception as error:
            if deadline.expired():
                return self._late(name, watch)
            trouble = await self._trouble(error, name)
            # Once words were heard, no second attempt may say them again.
            is_cut = trouble.is_passing and not heard.is_nothing
            return trouble_about("cut", name, trouble.brief) if is_cut else trouble

    def _late(self, name: str, watch: "_Watch") -> Trouble:
        limits = self._limits
        # What was set counts, not the time it is now: timers fire a little early.
        if (watch.deadline.when() or 0.0) >= watch.ends_at:
            what = "went on past" if watch.count else "did not begin to answer within"
            return trouble_about("late", name, f"{what} its total time of {limits.total_s:g} s")
        if watch.count == 0:
            return trouble_about(
                "late", name, f"did not begin to answer within {limits.first_byte_s:g} s"
            )
        return trouble_about("late", name, f"fell silent for {limits.idle_s:g} s in mid-reply")

    async def _wait_or_raise(
        self, name: str, trouble: Trouble, attempt: int, listener: ReplyListener
    ) -> None:
        """Wait until the next attempt is due, or raise the trouble if there is to be none."""
        wait_s = None
        if trouble.is_passing:
            wait_s = self._backoff.wait_s(
                attempt, retry_after_s=trouble.retry_after_s, chance=self._jitter()
            )
        if wait_s is None:
            raise _last_of(trouble, attempt, self._backoff) from None
        listener.status(
            f"{name}: {trouble.brief}; trying again in {wait_s:.1f} s "
            f"(attempt {attempt + 1} of {self._backoff.attempts})"
        )
        await self._clock.sleep(wait_s)

    async def _trouble(self, error: Exception, name: str) -> Trouble:
        secrets = secrets_in(self._environ)
        trouble = trouble_of(error, name=name, secrets=secrets)
        if trouble.brief != "not found":
            return trouble
        meant = await in_thread(lambda: meant_by(name))
        return trouble_of(error, name=name, secrets=secrets, meant=meant)

    # --- the reply --------------------------------------------------------------------------------

    async def _reply(
        self, name: str, answer: Answer, request: ModelRequest, heard: Heard
    ) -> ModelReply:
        sent = answer.calls
        if answer.ended == "error":
            raise WorldTrouble(
                f"{name} ended its reply with an error.", hint="Try again, or use another model."
            )
        if answer.ended == "content_filter":
            self._say_why_filtered(name, answer, heard)
            sent = ()
        elif answer.ended == "length":
            if heard.is_nothing:
                raise WorldTrouble(
                    f"{name} reached its limit for one reply before it said anything.",
                    hint="Shorten the conversation (/compact), or use a model with a larger limit.",
                )
            heard.say(CUT_AT_LIMIT)
        if request.pictures is None and _shows_now(request):
            heard.say(BLIND.format(name=name))
        tools = {tool.name: tool for tool in request.tools}
        calls = [await self._call(call, tools, is_cut=answer.ended == "length") for call in sent]
        usage = await in_thread(
            lambda: usage_of(answer.tokens, model=name, answered_as=answer.model)
        )
        return ModelReply(text=heard.text, calls=tuple(calls), usage=usage)

    def _say_why_filtered(self, name: str, answer: Answer, heard: Heard) -> None:
        if answer.refusal:
            heard.say(answer.refusal)
        elif not heard.text:
            raise WorldTrouble(
                f"{name}: the provider's content filter stopped the reply.",
                hint="Rephrase it, or use another model.",
            )
        elif not answer.is_refusal:
            heard.say(CUT_BY_FILTER)

    async def _call(
        self, call: SentCall, tools: Mapping[str, ToolSpec], *, is_cut: bool
    ) -> RequestedCall:
        name = shown(clean(call.name), ())
        try:
            arguments = await in_thread(lambda: decode_arguments(call.arguments))
        except BadValue as error:
            why = f"The arguments of {name} cannot be used: {error}."
            if is_cut:
                why += " Your reply was cut off at its limit: send less at a time."
            return RequestedCall(name=name, arguments={}, problem=why)
        call_made = RequestedCall(name=name, arguments=arguments)
        return await checked_call(call_made, tools.get(name), self._validator)


def _used(name: str, request: ModelRequest, heard: Heard) -> Usage | None:
    """Return what a request has used until now, None where it is not out: guessed if nobody has counted."""
    if not heard.sent_chars:
        return None
    shown = (request.pictures or {}).values()
    # Pictures were sent as base64, and count as something else.
    sent = heard.sent_chars - sum(-(-len(data) // 3) * 4 - LENGTH for data in shown)
    told = heard.tokens or Tokens(sent=tokens_in(max(0, sent)), made=0)
    tokens = msgspec.structs.replace(told, made=told.made or tokens_in(heard.chars))
    return msgspec.structs.replace(usage_now(tokens, model=name), is_estimate=not told.made)


def _shows_now(request: ModelRequest) -> bool:
    """Return whether there are pictures in what a request answers."""
    for message in reversed(request.messages):
        if message.all_pictures:
            return True
        if message.role == "assistant":
            return False
    return False


class _Watch:
    """Counts an answer's bytes and moves the deadline on as they come."""

    __slots__ = ("_limits", "_line", "_lines", "_loop", "count", "deadline", "ends_at")

    deadline: asyncio.Timeout

    def __init__(self, limits: Limits, ends_at: float) -> None:
        self.count = 0
        self._line = 0
        self._lines = 0
        self._limits = limits
        self.ends_at = ends_at
        self._loop = asyncio.get_running_loop()

    def __call__(self, content: bytes) -> None:
        is_first = self.count == 0
        self.count += len(content)
        if self.count > self._limits.max_reply_bytes:
            raise Failed("large", f"more than {self._limits.max_reply_bytes:,} bytes")
        self._line = _after_last_break(content, self._line)
        if self._line > self._limits.max_line_bytes:
            raise Failed("large", f"a line of more than {self._limits.max_line_bytes:,} bytes")
        self._lines += content.count(b"\n")
        if self._lines > self._limits.max_lines:
            raise Failed("large", f"more than {self._limits.max_lines:,} lines")
        if self.deadline.expired():
            return
        due = min(self.ends_at, self._loop.time() + self._limits.idle_s)
        set_to = self.deadline.when() or 0.0
        if is_first or due - set_to > self._limits.idle_s * _REARM:
            self.deadline.reschedule(due)


def _after_last_break(content: bytes, before: int) -> int:
    """Return how many bytes stand after the last line break, `before` of them before `content`."""
    at = content.rfind(b"\n")
    return before + len(content) if at < 0 else len(content) - at - 1


def _last_of(trouble: Trouble, attempt: int, backoff: Backoff) -> MidstreamError:
    error = trouble.error
    asked_s = trouble.retry_after_s
    if asked_s is not None and asked_s > backoff.longest_s:
        hint = f"The provider asks to wait {asked_s:.0f} s. {error.hint}"
        return type(error)(error.what, hint=hint)
    if attempt > 1:
        return type(error)(f"{error.what} (after {attempt} attempts)", hint=error.hint)
    return error

"""A world on strings: whatever a run is owed stands still until the director lets it end.

The machine is the real one, and so are the handlers of the script. Its model, its tools, its journal
and its clock are the puppet's. So nothing happens by itself: the run is *quiet* when everything it is
owed stands here, and what happens next is the director's to say. No time passes that is not said to.

A run can be killed: from then on its journal takes nothing, and another machine goes on with what was
kept, read back from the very bytes.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from midstream.core.apply import apply
from midstream.core.codec import decode_fact, encode_fact
from midstream.core.errors import JournalMoved, OurBug, WorldTrouble
from midstream.core.events import Fact
from midstream.core.inputs import EffectKey
from midstream.core.names import Json
from midstream.core.notices import Envelope
from midstream.core.pending import AskModel, CallTool, RunHandler, pending
from midstream.core.run import Run
from midstream.core.spec import Definition, ToolSpec
from midstream.ports import (
    HandlerResult,
    Handlers,
    ModelReply,
    ModelRequest,
    ReplyListener,
    ToolContext,
    ToolOutcome,
    Validator,
    World,
)
from midstream.workflow.state_machine import WorkflowStateMachine

RUN_ID = "rehearsal"
BEGAN_AT = 1_700_000_000.0
MAX_ROUNDS = 100_000
"""Rounds of the loop a run may take to become quiet. A few are usual; so many are a bug of ours."""


class Standing(msgspec.Struct, eq=False, kw_only=True):
    """An effect that stands still. `name` is the agent, the tool or the handler."""

    kind: Literal["model", "tool", "handler"]
    key: EffectKey
    name: str
    done: "asyncio.Future[Json]"
    arguments: dict[str, Json] = {}
    call_id: str = ""
    request: ModelRequest | None = None
    listener: ReplyListener | None = None

    def show(self, text: str, *, calling: bool = False) -> None:
        """Stream words of a model's reply, and perhaps that it begins to ask for a tool."""
        if self.listener is not None and text:
            self.listener.text(text)
        if self.listener is not None and calling:
            self.listener.calling()


class Notebook:
    """A journal of one run, as bytes. `kept` is called after each append, `keeping` before it.

    Where either raises, so does the append: before, nothing was kept; after, everything was.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[float, bytes]] = []
        self.is_dead = False
        self.keeping: Callable[[int], None] = lambda seq: None
        self.kept: Callable[[int], None] = lambda seq: None

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Keep the facts after position `expected`. See `midstream.ports.Journal`."""
        if self.is_dead or len(self.rows) != expected:
            raise JournalMoved("The rehearsal has killed this run.")
        rows = [
            (each.at, encode_fact(each.event)) for each in facts if isinstance(each.event, Fact)
        ]
        last = expected + len(rows)
        self.keeping(last)
        self.rows += rows
        self.kept(last)

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        """Return the facts after position `after`, decoded."""
        return self.envelopes()[after:upto]

    async def runs(self) -> list[str]:
        """Return the one run there is."""
        return [RUN_ID] if self.rows else []

    def envelopes(self) -> list[Envelope]:
        """Return all facts, decoded."""
        return [
            Envelope(run=RUN_ID, at=at, event=decode_fact(data), seq=seq)
            for seq, (at, data) in enumerate(self.rows, 1)
        ]

    def folded(self) -> Run:
        """Return the run that the bytes tell of."""
        run = Run(id=RUN_ID)
        for _, data in self.rows:
            run = apply(run, decode_fact(data))
        return run


class _Clock:
    """A clock the director moves. Sleepers sleep until they are cancelled."""

    def __init__(self) -> None:
        self.time = BEGAN_AT

    def now(self) -> float:
        """Return the time in seconds since 1970 (UTC)."""
        return self.time

    async def sleep(self, seconds: float) -> None:
        """Never return: what would have happened in time, the director says."""
        await asyncio.get_running_loop().create_future()


class _Shelf:
    """A shelf in memory."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        """Return the key of the data."""
        key = f"{len(self._kept)}"
        self._kept[key] = data
        return key

    async def get(self, key: str) -> bytes:
        """Return the data of a key."""
        if key not in self._kept:
            raise WorldTrouble(f"There is nothing under {key}.")
        return self._kept[key]

    def where(self, key: str) -> str:
        """Return where the data is."""
        return f"shelf:{key}"


class Puppet:
    """A run in a world on strings.

    Args:
        definition: what to run.
        handlers: the functions of its script; they really run.
        validate: checks answers against the schemas of questions.

    `standing` are the effects that stand still, `requests` everything a model was asked, `effects`
    how often each `once` call was begun, by its id: these outlive the machine.
    """

    def __init__(self, definition: Definition, handlers: Handlers, validate: Validator) -> None:
        self.definition = definition
        self.notebook = Notebook()
        self.clock = _Clock()
        self.requests: list[ModelRequest] = []
        self.effects: dict[str, int] = {}
        self.handled = 0
        self._handlers = handlers
        self._validate = validate
        self._life: _Life | None = None

    @property
    def life(self) -> "_Life":
        """Return the machine that goes on with the run now, and what stands still in it."""
        assert self._life is not None, "the run has not begun"
        return self._life

    @property
    def run(self) -> Run:
        """Return the run as it stands."""
        return self.life.machine.run

    def born(self) -> "_Life":
        """Return a new machine for the run; the one before is dead or was never."""
        self._life = _Life(self, self._handlers, self._validate)
        return self._life

    def states(self) -> list[str]:
        """Return the states the run has entered."""
        return [
            fact["target"]
            for _, data in self.notebook.rows
            if (fact := msgspec.json.decode(data))["type"] == "state_transition"
        ]


class _Life:
    """One machine, from its birth to its end or to its being killed."""

    def __init__(self, puppet: Puppet, handlers: Handlers, validate: Validator) -> None:
        self.puppet = puppet
        self.standing: dict[EffectKey, Standing] = {}
        self._handlers = handlers
        self._is_killed = False
        self._at_work = 0
        self._rested = asyncio.Event()
        self._notebook = puppet.notebook
        self._notebook.is_dead = False
        world = World(
            model=self,
            tools=self,
            journal=self._notebook,
            shelf=_Shelf(),
            clock=puppet.clock,
            validate=validate,
            workspace=Path("/nowhere"),
        )
        self.machine = WorkflowStateMachine(
            puppet.definition, world, handlers=_Held(self), id=RUN_ID
        )

    @property
    def is_over(self) -> bool:
        """Return whether this machine does nothing more: the run has ended, or was killed."""
        return self._is_killed or self.machine.is_closed or self.machine.run.is_over

    # --- what the director does -------------------------------------------------------------

    async def quiet(self) -> None:
        """Return once nothing happens by itself any more: all that is owed stands, or it is over."""
        for _ in range(MAX_ROUNDS):
            if self._at_work:
                self._rested.clear()
                await self._rested.wait()
                continue
            run = self.machine.run
            is_under_way = run.phase != "new" and not run.is_over
            owed = {effect.key for effect in pending(run)}
            if self.machine.is_closed or (is_under_way and owed == self.standing.keys()):
                return
            await asyncio.sleep(0)
        raise OurBug(f"The run does not come to rest: {self.machine.run.phase}.")

    def finish(self, standing: Standing, result: Json) -> None:
        """Let an effect end; an exception as the result is raised in it."""
        del self.standing[standing.key]
        if standing.done.done():
            return
        if isinstance(result, Exception):
            standing.done.set_exception(result)
        else:
            standing.done.set_result(result)

    async def kill(self) -> None:
        """Be gone as a killed process is: nothing more is journaled, nobody is told."""
        self._is_killed = True
        self._notebook.is_dead = True
        for standing in tuple(self.standing.values()):
            standing.done.cancel()
        self.standing.clear()
        if not self.machine.is_closed:
            await self.machine.leave()

    # --- the model, the tools and the handlers -------------------------------------------------

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return the reply the director gives. See `midstream.ports.Model`."""
        self.puppet.requests.append(request)
        key = next(e.key for e in pending(self.machine.run) if isinstance(e, AskModel))
        reply: ModelReply = await self._stand(
            kind="model", key=key, name=request.agent, request=request, listener=listener
        )
        return reply

    def specs(self) -> dict[str, ToolSpec]:
        """Return what each tool is, by name."""
        return self.puppet.definition.tools

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        """Return the outcome the director gives. See `midstream.ports.Tools`."""
        effect = next(
            effect
            for effect in pending(self.machine.run)
            if isinstance(effect, CallTool)
            and effect.key not in self.standing
            and (effect.call.name, effect.call.arguments) == (name, arguments)
        )
        spec = self.puppet.definition.tools.get(name)
        if spec is None or spec.effect == "once":
            self.puppet.effects[effect.call.id] = self.puppet.effects.get(effect.call.id, 0) + 1
        outcome: ToolOutcome = await self._stand(
            kind="tool",
            key=effect.key,
            name=name,
            arguments=arguments,
            call_id=effect.call.id,
        )
        return outcome

    async def handle(self, name: str, run: Run, log: Callable[[str], None]) -> HandlerResult:
        """Return what the script's handler did, once the director has let it run."""
        key = next(e.key for e in pending(self.machine.run) if isinstance(e, RunHandler))
        await self._stand(kind="handler", key=key, name=name)
        self._at_work += 1
        try:
            return await self._handlers.call(name, run, log)
        finally:
            self._at_work -= 1
            self.puppet.handled += 1
            self._rested.set()

    async def _stand(
        self,
        *,
        kind: Literal["model", "tool", "handler"],
        key: EffectKey,
        name: str,
        arguments: dict[str, Json] | None = None,
        call_id: str = "",
        request: ModelRequest | None = None,
        listener: ReplyListener | None = None,
    ) -> Json:
        standing = Standing(
            kind=kind,
            key=key,
            name=name,
            done=asyncio.get_running_loop().create_future(),
            arguments=arguments or {},
            call_id=call_id,
            request=request,
            listener=listener,
        )
        self.standing[key] = standing
        try:
            return await standing.done
        finally:
            if self.standing.get(key) is standing:
                del self.standing[key]


class _Held:
    """The handlers as the machine sees them: each waits for the director first."""

    def __init__(self, life: _Life) -> None:
        self._life = life

    async def call(self, name: str, run: Run, log: Callable[[str], None]) -> HandlerResult:
        """Return what the handler of that name did. See `midstream.ports.Handlers`."""
        return await self._life.handle(name, run, log)

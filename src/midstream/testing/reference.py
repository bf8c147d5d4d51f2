"""Reference workflows: small runs that meet everything a run can meet, to be broken on purpose.

Each can be played in one process, or be killed anywhere and taken up by the next: its model is a
function of the request alone, its person knows from the run itself what is still to be said, and
what its `once` tools do goes to a ledger outside of the store.

    stage = Stage()
    world = fake_world(StagedModel(reference, stage), tools=StagedTools(reference, stage, ledger.append))
    machine = WorkflowStateMachine(reference.definition, world, handlers=reference.handlers)
    await machine.start(reference.input, allowed=reference.allowed)
    run = await perform(machine, reference, stage)

A model asks for a `once` call with a key that is in no message it sees. So a key stands in the ledger
twice only if midstream repeated a call by itself.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.core.errors import WorldTrouble
from midstream.core.inputs import RequestedCall
from midstream.core.names import REQUEST_USERS_INPUT, Effect, Json, Policy
from midstream.core.question import Question
from midstream.core.run import Run
from midstream.core.spec import Definition, ToolSpec
from midstream.core.steering import NOT_KNOWN, OUTCOMES
from midstream.ports import (
    Handlers,
    Machine,
    ModelReply,
    ModelRequest,
    ReplyListener,
    ToolContext,
    ToolOutcome,
)
from midstream.testing.fakes import FakeTool, FakeTools, call, define
from midstream.workflow.handler_run import HandlerRun
from midstream.workflow.handlers import ScriptHandlers

Ledger: TypeAlias = Callable[[str], None]
"""Hears the key of a `once` call when it takes effect, such as a function that appends to a file."""

INPUT: Final = "(input)"
"""As the cue of a move: a state waits for the person's words."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a reference's model says to a request.

    `pieces` stream one by one. With a `cue` it stands still after the first piece until it is cut
    off, or let go because the person has nothing (more) to say there. `is_stubborn` replies although
    it was cut off. `error` is why the request fails.
    """

    pieces: tuple[str, ...] = ()
    calls: tuple[RequestedCall, ...] = ()
    cue: str = ""
    is_stubborn: bool = False
    error: str = ""


class StageTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a reference; it returns its `key`. With a `cue` it stands still in the middle."""

    name: str
    effect: Effect = "read"
    needs_approval: bool = False
    cue: str = ""


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """What the person does at a cue: one a model or a tool stands at, a question's text, or `INPUT`.

    Moves that follow each other with the same cue are made in a row. What a person is asked without
    a move for it, `perform` answers by itself: the first choice, a plain word, a yes.
    """

    cue: str
    text: str = ""
    kind: Literal["say", "refuse"] = "say"
    policy: Policy | None = None


class Reference(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A workflow with everyone who takes part in it.

    `path` are the states of a run nobody disturbs, `ledger` the keys its `once` calls leave (sorted).
    `forks_in`: a state; a driver with a store forks the run where it stands after entering it.
    """

    name: str
    definition: Definition
    handlers: Handlers
    model: Callable[[ModelRequest], Reply]
    tools: tuple[StageTool, ...] = ()
    moves: tuple[Move, ...] = ()
    input: Json = None
    allowed: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    ledger: tuple[str, ...] = ()
    forks_in: str = ""


# --- the stage ----------------------------------------------------------------------------------


class Stage:
    """Where a reference is played in this process: who stands still, and at which cue."""

    def __init__(self) -> None:
        self._standing: list[tuple[str, asyncio.Event]] = []
        self.changed = asyncio.Event()

    @property
    def cue(self) -> str:
        """Return the cue somebody has stood at the longest, "" if nobody stands."""
        return self._standing[0][0] if self._standing else ""

    def go_on(self, cue: str) -> None:
        """Let go who stands at a cue."""
        for name, event in self._standing:
            if name == cue:
                event.set()

    @contextlib.asynccontextmanager
    async def stand(self, cue: str) -> AsyncIterator[asyncio.Event]:
        """Stand at a cue while the block runs; its event is set when the person says go on."""
        standing = (cue, asyncio.Event())
        self._standing.append(standing)
        self.changed.set()
        try:
            yield standing[1]
        finally:
            self._standing.remove(standing)
            self.changed.set()


class StagedModel:
    """The model of a reference. See the port `Model`. `requests` are those it got, the oldest first."""

    def __init__(self, reference: Reference, stage: Stage) -> None:
        self._reference = reference
        self._stage = stage
        self.requests: list[ModelRequest] = []

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return the reply to one request, its words told to `listener` as they come."""
        self.requests.append(request)
        reply = self._reference.model(request)
        for number, piece in enumerate(reply.pieces):
            listener.text(piece)
            await asyncio.sleep(0)
            if number == 0 and reply.cue:
                await self._stand(reply)
        if reply.error:
            raise WorldTrouble(reply.error)
        if reply.calls:
            listener.calling()
        return ModelReply(text="".join(reply.pieces), calls=reply.calls)

    async def _stand(self, reply: Reply) -> None:
        try:
            async with self._stage.stand(reply.cue) as gate:
                await gate.wait()
        except asyncio.CancelledError:
            if not reply.is_stubborn:
                raise


class StagedTools:
    """The tools of a reference. See the port `Tools`."""

    def __init__(self, reference: Reference, stage: Stage, ledger: Ledger) -> None:
        self._reference = reference
        self._tools = {tool.name: tool for tool in reference.tools}
        self._stage = stage
        self._ledger = ledger

    def specs(self) -> dict[str, ToolSpec]:
        """Return what each tool is, by name."""
        return self._reference.definition.tools

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        """Return how the call ended. A `once` call takes effect at once, and ends later."""
        tool = self._tools[name]
        if tool.effect == "once":
            self._ledger(str(arguments["key"]))
        await asyncio.sleep(0)
        if tool.cue:
            async with self._stage.stand(tool.cue) as gate:
                waits = [asyncio.ensure_future(w) for w in (gate.wait(), context.stop.wait())]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for waiting in waits:
                        waiting.cancel()
                    await asyncio.gather(*waits, return_exceptions=True)
            if context.stop.is_set():
                return ToolOutcome(outcome="stopped", text=f"stopped after {arguments['key']}")
        return ToolOutcome(outcome="completed", text=f"done: {arguments['key']}")


# --- the person ---------------------------------------------------------------------------------


async def perform(machine: Machine, reference: Reference, stage: Stage) -> Run:
    """Be the person until the run has ended, or the machine is closed; return the run.

    What was said already is read off the run: a person who comes back after a crash goes on there.
    """
    while not (machine.run.is_over or machine.is_closed):
        stage.changed.clear()
        if not await _acted(machine, reference, stage):
            await _something_new(machine, stage)
    return machine.run


async def _something_new(machine: Machine, stage: Stage) -> None:
    waits = [asyncio.ensure_future(stage.changed.wait()), asyncio.ensure_future(machine.settled())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiting in waits:
            waiting.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _acted(machine: Machine, reference: Reference, stage: Stage) -> bool:
    """Make the next move; False if there is nothing to do now."""
    run = machine.run
    for id, move in _unsaid(run, reference):
        is_burst = _is_burst(run, reference, id)
        if move.cue == stage.cue or is_burst:
            await machine.say(move.text, unasked=True, policy=move.policy, id=id)
            return True
    if stage.cue:
        stage.go_on(stage.cue)
        await asyncio.sleep(0)
        return True
    if run.open_questions:
        await _answer(machine, reference, run.open_questions[0])
        return True
    if run.is_parked:
        await machine.say("Go on.")
        return True
    return False


def _unsaid(run: Run, reference: Reference) -> Iterator[tuple[str, Move]]:
    """Yield the moves at cues of models and tools that have not been made, with the words' ids."""
    for number, move in enumerate(reference.moves):
        id = f"{reference.name}-{number}"
        if id not in run.inbox:
            yield id, move


def _is_burst(run: Run, reference: Reference, id: str) -> bool:
    """Return whether the move before, at the same cue, has been made: then this one follows."""
    number = int(id.rpartition("-")[2])
    if number == 0 or reference.moves[number - 1].cue != reference.moves[number].cue:
        return False
    return f"{reference.name}-{number - 1}" in run.inbox


async def _answer(machine: Machine, reference: Reference, question: Question) -> None:
    move = next((move for move in reference.moves if move.cue == _cue_of(question)), None)
    if question.kind == "approval":
        granted = move is None or move.kind != "refuse"
        await machine.approve(question.id, granted=granted)
        return
    if question.choices == tuple(OUTCOMES):
        text = NOT_KNOWN
    elif question.kind == "input":
        lines = [move.text for move in reference.moves if move.cue == INPUT]
        asked = sum(q.kind == "input" for q in machine.run.questions)
        if asked > len(lines):
            await machine.stop("nothing is left to say")
            return
        text = lines[asked - 1]
    elif move is not None:
        text = move.text
    else:
        text = question.choices[0] if question.choices else "As you like."
    await machine.say(text, question=question.id, id=f"{reference.name}-{question.id}")


def _cue_of(question: Question) -> str:
    if question.kind == "approval":
        return question.text.partition(" ")[0]
    return question.text


# --- the references -----------------------------------------------------------------------------


def references() -> tuple[Reference, ...]:
    """Return every reference, made anew."""
    return (
        _line(),
        _loop(),
        _parallel(),
        _question(),
        _approval(),
        _refusal(),
        _into_resume(),
        _into_start(),
        _late_reply(),
        _retry(),
        _fork(),
        _two_questions(),
        _burst(),
        _steer(),
        _soft_stop(),
        _chat(),
    )


def reference(name: str) -> Reference:
    """Return the reference of a name.

    Raises:
        KeyError: there is none.
    """
    return {known.name: known for known in references()}[name]


RECORD: Final = StageTool(name="record", effect="once")
LOOK: Final = StageTool(name="look", effect="read")
TOUCH: Final = StageTool(name="touch", effect="idempotent")

State: TypeAlias = dict[str, Json]


def _define(states: list[State], tools: tuple[StageTool, ...], **more: Json) -> Definition:
    fakes = FakeTools(
        *(
            FakeTool(name=tool.name, effect=tool.effect, needs_approval=tool.needs_approval)
            for tool in tools
        )
    )
    workflow = {
        "contexts": [{"name": "desk"}],
        "agents": [{"agent_role": "worker", "context": "desk"}],
        "states": [*states, {"name": "stop"}],
        **more,
    }
    return define(workflow, tools=fakes)


def _handlers(**functions: Callable[[HandlerRun], object]) -> ScriptHandlers:
    return ScriptHandlers(functions, where="the reference's script")


def _says(*pieces: str, cue: str = "", is_stubborn: bool = False) -> Reply:
    return Reply(pieces=pieces, cue=cue, is_stubborn=is_stubborn)


def _new(request: ModelRequest, *wanted: RequestedCall) -> tuple[RequestedCall, ...]:
    """Return those calls whose key is in no message the model sees."""
    known = {c.arguments.get("key") for m in request.messages for c in m.calls}
    return tuple(one for one in wanted if one.arguments.get("key") not in known)


def _works(request: ModelRequest, *wanted: RequestedCall, then: str) -> Reply:
    """Return the calls not made so far, or the words that end the turn."""
    calls = _new(request, *wanted)
    return Reply(pieces=("Working. ",), calls=calls) if calls else _says(then)


def _ask(question: str, *choices: str) -> RequestedCall:
    more: dict[str, Json] = {"choices": list(choices)} if choices else {}
    return call(REQUEST_USERS_INPUT, key=question, question=question, **more)


def _line() -> Reference:
    """Three states in a row: an agent with a tool, a handler, an agent."""

    def note(run: HandlerRun) -> None:
        run.common_data["noted"] = run.last_response.text
        run.log("noted")

    def model(request: ModelRequest) -> Reply:
        if request.state == "start":
            return _works(request, call("record", key="line-1"), then="First done.")
        return _says("All ", "done.")

    states: list[State] = [
        {"name": "start", "agent": "worker", "next": "note"},
        {"name": "note", "pre_handler": "note", "next": "end"},
        {"name": "end", "agent": "worker"},
    ]
    return Reference(
        name="line",
        definition=_define(states, (RECORD,)),
        handlers=_handlers(note=note),
        model=model,
        tools=(RECORD,),
        input="write a line",
        path=("start", "note", "end", "stop"),
        ledger=("line-1",),
    )


def _loop() -> Reference:
    """One state three times over, with all its handlers."""

    def count(run: HandlerRun) -> None:
        run.common_data["rounds"] = run.common_data.get("rounds", 0) + 1

    def keep(run: HandlerRun) -> None:
        run.contexts["desk"].add_message("user", f"Round {run.common_data['rounds']}.")

    def again(run: HandlerRun) -> str:
        return "stop" if run.common_data["rounds"] >= 3 else "start"

    def model(request: ModelRequest) -> Reply:
        done = f"Round of visit {request.visit} done."
        return _works(request, call("record", key=f"loop-{request.visit}"), then=done)

    states: list[State] = [
        {
            "name": "start",
            "agent": "worker",
            "pre_handler": "count",
            "post_handler": "keep",
            "transition_handler": "again",
        }
    ]
    return Reference(
        name="loop",
        definition=_define(states, (RECORD,)),
        handlers=_handlers(count=count, keep=keep, again=again),
        model=model,
        tools=(RECORD,),
        path=("start", "start", "start", "stop"),
        ledger=("loop-1", "loop-2", "loop-3"),
    )


def _parallel() -> Reference:
    """One reply with a call of each effect, all at once."""
    tools = (LOOK, TOUCH, RECORD)

    def model(request: ModelRequest) -> Reply:
        wanted = [call(tool.name, key=f"parallel-{tool.name}") for tool in tools]
        return _works(request, *wanted, call("record", key="parallel-2"), then="All four done.")

    return Reference(
        name="parallel tool calls",
        definition=_define([{"name": "start", "agent": "worker"}], tools),
        handlers=_handlers(),
        model=model,
        tools=tools,
        path=("start", "stop"),
        ledger=("parallel-2", "parallel-record"),
    )


def _question() -> Reference:
    """An agent asks the person."""

    def model(request: ModelRequest) -> Reply:
        return _works(request, _ask("Which colour?", "red", "blue"), then="Painted.")

    return Reference(
        name="question",
        definition=_define([{"name": "start", "agent": "worker"}], ()),
        handlers=_handlers(),
        model=model,
        moves=(Move(cue="Which colour?", text="blue"),),
        path=("start", "stop"),
    )


DEPLOY: Final = StageTool(name="deploy", effect="once", needs_approval=True)


def _deploys(request: ModelRequest) -> Reply:
    return _works(request, call("deploy", key="deploy-1"), then="Told.")


def _approval() -> Reference:
    """A call that needs a yes, and gets it."""
    return Reference(
        name="approval",
        definition=_define([{"name": "start", "agent": "worker"}], (DEPLOY,)),
        handlers=_handlers(),
        model=_deploys,
        tools=(DEPLOY,),
        path=("start", "stop"),
        ledger=("deploy-1",),
    )


def _refusal() -> Reference:
    """A call that needs a yes, and gets a no."""
    return Reference(
        name="refusal",
        definition=_define([{"name": "start", "agent": "worker"}], (DEPLOY,)),
        handlers=_handlers(),
        model=_deploys,
        tools=(DEPLOY,),
        moves=(Move(cue="deploy", kind="refuse"),),
        path=("start", "stop"),
    )


def _into_resume() -> Reference:
    """Unasked words in the middle of a reply lead to `resume`, and from there back."""

    def fold(run: HandlerRun) -> None:
        run.common_data["heard"] = run.resume_input
        run.contexts["desk"].add_message("user", f"They say: {run.resume_input}")

    def model(request: ModelRequest) -> Reply:
        if request.state == "resume":
            return _says("I take that ", "up.")
        if _new(request, call("record", key="resume-1")):
            return Reply(pieces=("Begun. ",), calls=(call("record", key="resume-1"),))
        if "heard" in request.common_data:
            return _says("A short essay.")
        return _says("A long ", "essay.", cue="writing")

    states: list[State] = [
        {"name": "start", "agent": "worker"},
        {"name": "resume", "agent": "worker", "pre_handler": "fold", "next": "$interrupted"},
    ]
    return Reference(
        name="steering into resume",
        definition=_define(states, (RECORD,)),
        handlers=_handlers(fold=fold),
        model=model,
        tools=(RECORD,),
        moves=(Move(cue="writing", text="no, a short one"),),
        path=("start", "resume", "start", "stop"),
        ledger=("resume-1",),
    )


def _into_start() -> Reference:
    """Unasked words in the middle of a reply, and no `resume`: back to `start`, contexts kept."""

    def model(request: ModelRequest) -> Reply:
        if request.state == "start":
            return _says("Begun.")
        if request.visit == 1:
            return _says("A long ", "essay.", cue="writing")
        return _says("A short essay.")

    states: list[State] = [
        {"name": "start", "agent": "worker", "next": "write"},
        {"name": "write", "agent": "worker"},
    ]
    return Reference(
        name="steering into start",
        definition=_define(states, ()),
        handlers=_handlers(),
        model=model,
        moves=(Move(cue="writing", text="no, a short one"),),
        path=("start", "write", "start", "write", "stop"),
    )


def _late_reply() -> Reference:
    """A model that replies although it was cut off: nobody hears it."""

    def model(request: ModelRequest) -> Reply:
        if request.visit == 1:
            return _says("Early ", "and late.", cue="writing", is_stubborn=True)
        return _says("In time.")

    return Reference(
        name="late reply",
        definition=_define([{"name": "start", "agent": "worker"}], ()),
        handlers=_handlers(),
        model=model,
        moves=(Move(cue="writing", text="stop that"),),
        path=("start", "start", "stop"),
    )


def _retry() -> Reference:
    """The agent fails, and the workflow has a way out: try again, at most twice."""

    def count(run: HandlerRun) -> str:
        run.common_data["tries"] = run.common_data.get("tries", 0) + 1
        return "start" if run.common_data["tries"] < 3 else "stop"

    def model(request: ModelRequest) -> Reply:
        if request.common_data.get("tries", 0) < 2:
            return Reply(pieces=("I am ",), error="The line went dead.")
        return _says("It worked.")

    states: list[State] = [
        {"name": "start", "agent": "worker", "on_failure": "again"},
        {"name": "again", "transition_handler": "count"},
    ]
    return Reference(
        name="retry",
        definition=_define(states, ()),
        handlers=_handlers(count=count),
        model=model,
        path=("start", "again", "start", "again", "start", "stop"),
    )


def _fork() -> Reference:
    """Two turns with a `once` call each; the run is forked between them."""

    def model(request: ModelRequest) -> Reply:
        key = "fork-1" if request.state == "start" else "fork-2"
        return _works(request, call("record", key=key), then=f"{key} done.")

    states: list[State] = [
        {"name": "start", "agent": "worker", "next": "second"},
        {"name": "second", "agent": "worker"},
    ]
    return Reference(
        name="fork",
        definition=_define(states, (RECORD,)),
        handlers=_handlers(),
        model=model,
        tools=(RECORD,),
        path=("start", "second", "stop"),
        ledger=("fork-1", "fork-2"),
        forks_in="second",
    )


def _two_questions() -> Reference:
    """Two questions open at once, beside a call that runs."""

    def model(request: ModelRequest) -> Reply:
        wanted = (_ask("First?"), call("record", key="two-1"), _ask("Second?", "a", "b"))
        return _works(request, *wanted, then="Both heard.")

    return Reference(
        name="two questions",
        definition=_define([{"name": "start", "agent": "worker"}], (RECORD,)),
        handlers=_handlers(),
        model=model,
        tools=(RECORD,),
        moves=(Move(cue="First?", text="one"), Move(cue="Second?", text="b")),
        path=("start", "stop"),
        ledger=("two-1",),
    )


def _burst() -> Reference:
    """Five lines in a row, of every policy."""

    def fold(run: HandlerRun) -> None:
        heard = run.common_data.get("heard", [])
        run.common_data["heard"] = [*heard, run.resume_input]

    def model(request: ModelRequest) -> Reply:
        if request.state == "start" and "heard" not in request.common_data:
            return _says("Once ", "upon a time.", cue="telling")
        return _says(f"Heard in {request.state}.")

    states: list[State] = [
        {"name": "start", "agent": "worker", "next": "close"},
        {"name": "close", "agent": "worker"},
        {"name": "resume", "agent": "worker", "pre_handler": "fold", "next": "start"},
    ]
    return Reference(
        name="input burst",
        definition=_define(states, ()),
        handlers=_handlers(fold=fold),
        model=model,
        moves=(
            Move(cue="telling", text="one"),
            Move(cue="telling", text="two"),
            Move(cue="telling", text="three", policy="queue"),
            Move(cue="telling", text="four", policy="steer"),
            Move(cue="telling", text="five", policy="reject"),
        ),
        path=("start", "resume", "resume", "resume", "start", "close", "stop"),
    )


def _steer() -> Reference:
    """Words that join the running turn: they cut a reply in words, and no state."""

    def model(request: ModelRequest) -> Reply:
        if request.request == 1:
            return _says("In metres: ", "four.", cue="measuring")
        return _says("In feet: thirteen.")

    return Reference(
        name="steer",
        definition=_define([{"name": "start", "agent": "worker"}], (), on_input="steer"),
        handlers=_handlers(),
        model=model,
        moves=(Move(cue="measuring", text="in feet"),),
        path=("start", "stop"),
    )


def _soft_stop() -> Reference:
    """Words while a `once` tool runs: it is stopped softly, and says how it ended."""
    dig = StageTool(name="dig", effect="once", cue="digging")

    def model(request: ModelRequest) -> Reply:
        return _works(request, call("dig", key="dig-1"), then="As far as it got.")

    return Reference(
        name="soft stop",
        definition=_define([{"name": "start", "agent": "worker"}], (dig,)),
        handlers=_handlers(),
        model=model,
        tools=(dig,),
        moves=(Move(cue="digging", text="mind the cable"),),
        path=("start", "start", "stop"),
        ledger=("dig-1",),
    )


def _chat() -> Reference:
    """A state that waits for the person's words, twice; then they leave."""

    def model(request: ModelRequest) -> Reply:
        return _works(request, call("record", key=f"chat-{request.visit}"), then="I see.")

    states: list[State] = [
        {"name": "start", "agent": "worker", "awaits_input": True, "next": "start"}
    ]
    return Reference(
        name="chat",
        definition=_define(states, (RECORD,)),
        handlers=_handlers(),
        model=model,
        tools=(RECORD,),
        moves=(Move(cue=INPUT, text="hello"), Move(cue=INPUT, text="goodbye")),
        path=("start", "start", "start"),
        ledger=("chat-1", "chat-2"),
    )

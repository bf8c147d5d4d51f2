"""What a client can do: each tool with what it takes, what it returns and the words a model reads of it."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from midstream.api.engine import Engine, RunInfo
from midstream.api.run_handle import RunHandle
from midstream.core.question import Question, is_for_programs
from midstream.language.errors import UserMistake, did_you_mean
from midstream.language.names import Json
from midstream.mcp_server.told import (
    Events,
    EventTold,
    Offered,
    Rows,
    RunTold,
    event_told,
    open_to_callers,
    row_of,
)
from midstream.runtime.ports import Receipt

MAX_WAIT_S: Final = 600
MAX_WORDS: Final = 100_000
MOST_IN_A_PAGE: Final = 200_000
"""Bytes after which a page of events ends."""

Run: TypeAlias = Annotated[
    str,
    Meta(description="A run's id, the beginning of it, or its name.", min_length=1, max_length=200),
]
Seconds: TypeAlias = Annotated[
    float,
    Meta(
        ge=0,
        le=MAX_WAIT_S,
        description="Wait so many seconds for the run to end or to need somebody. Cancelling the call "
        "ends the wait, never the run.",
    ),
]
Key: TypeAlias = Annotated[
    str,
    Meta(
        max_length=200,
        description="Makes the call repeatable: the same key again changes nothing and gives the same.",
    ),
]
Words: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_WORDS)]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tool takes."""


class ListWorkflows(Arguments, frozen=True, kw_only=True):
    """Nothing."""


class ListRuns(Arguments, frozen=True, kw_only=True):
    """Which runs."""

    status: Annotated[
        Literal["running", "waiting", "suspended", "finished", "failed", "stopped"] | UnsetType,
        Meta(description="Only those; waiting: for an answer, words or a person."),
    ] = UNSET
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    after: Annotated[str, Meta(max_length=200, description="`next` of the page before.")] = ""


class BudgetGiven(Arguments, frozen=True, kw_only=True):
    """What the run may use at most; it narrows what the person's settings allow."""

    usd: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    tokens: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    tool_calls: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    transitions: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    minutes: Annotated[float, Meta(ge=0)] | UnsetType = UNSET


class StartRun(Arguments, frozen=True, kw_only=True):
    """What to start."""

    workflow: Annotated[
        str,
        Meta(max_length=200, description="A name of list_workflows, or role:NAME to chat with."),
    ]
    input: Annotated[
        Json, Meta(description="The workflow's input, or the first line of a chat.")
    ] = None
    budget: BudgetGiven | UnsetType = UNSET
    key: Key = ""
    wait_s: Seconds = 0


class RunStatus(Arguments, frozen=True, kw_only=True):
    """Which run."""

    run: Run
    wait_s: Seconds = 0


class RunEvents(Arguments, frozen=True, kw_only=True):
    """Which events."""

    run: Run
    since: Annotated[int, Meta(ge=0, le=2**53, description="The number of the last you know.")] = 0
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    typed: Annotated[bool, Meta(description="Give each with all its fields, too.")] = False


class SayToRun(Arguments, frozen=True, kw_only=True):
    """What to say."""

    run: Run
    text: Words
    policy: Annotated[
        Literal["interrupt", "steer", "queue"] | UnsetType,
        Meta(
            description="interrupt: halt what is being done, at once; steer: join the agent's next "
            "request; queue: after this state. By default as the workflow has it, mostly interrupt."
        ),
    ] = UNSET
    key: Key = ""
    wait_s: Seconds = 0


class AnswerQuestion(Arguments, frozen=True, kw_only=True):
    """The answer."""

    run: Run
    answer: Annotated[
        Json, Meta(description="Text, one of its choices, or a value that fits its schema.")
    ]
    question: Annotated[
        str, Meta(max_length=200, description="Its id; may be left out where one is open.")
    ] = ""
    key: Key = ""
    wait_s: Seconds = 0


class StopRun(Arguments, frozen=True, kw_only=True):
    """How to stop it."""

    run: Run
    how: Annotated[
        Literal["halt", "end"],
        Meta(
            description="halt: stop the turn, keep what was said, and hold until the next words; end: "
            "end the run for good."
        ),
    ]


class Acted(msgspec.Struct, frozen=True, kw_only=True):
    """What a call about a run has done, before it waits. `only_looks`: nothing."""

    run: RunHandle
    receipt: Receipt | None = None
    only_looks: bool = False
    notices: tuple[str, ...] = ()


class Client:
    """A client as the engine knows it: what it may do here, under its own name.

    Args:
        engine: where the runs are.
        source: whose words its words are, such as `mcp:claude-code`.
        approvals: what becomes of calls that need a person's yes in runs it starts.
    """

    def __init__(self, engine: Engine, source: str, approvals: Literal["ask", "deny"]) -> None:
        self.engine = engine
        self.source = source
        self._approvals: Literal["ask", "deny"] = approvals
        self._held: list[RunHandle] = []

    async def close(self) -> None:
        """Follow no run of another process any more."""
        for run in self._held:
            await run.close()

    # --- what there is ----------------------------------------------------------------------

    async def workflows(self, _: ListWorkflows) -> Offered:
        """Return what can be started."""
        workflows, roles = await self.engine.workflows(), await self.engine.roles()
        return Offered(workflows=workflows, roles=roles, notices=self.engine.notices)

    async def runs(self, wanted: ListRuns) -> Rows:
        """Return a page of the runs of this folder."""
        after = (await self._found(wanted.after)).id if wanted.after else None
        found = await self.engine.runs(
            status=wanted.status or None, limit=wanted.limit + 1, after=after
        )
        page = found[: wanted.limit]
        more = page[-1].id if len(found) > len(page) else ""
        return Rows(runs=tuple(map(row_of, page)), next=more)

    async def events(self, wanted: RunEvents) -> Events:
        """Return a page of a run's facts."""
        id = (await self._found(wanted.run)).id
        facts = await self.engine.facts(id, wanted.since, wanted.limit + 1)
        page, size = list[EventTold](), 0
        for fact in facts[: wanted.limit]:
            if size > MOST_IN_A_PAGE:
                break
            page.append(event_told(fact, is_typed=wanted.typed))
            size += len(msgspec.json.encode(page[-1]))
        return Events(
            run=id,
            events=tuple(page),
            next=page[-1].seq if page else wanted.since,
            is_end=len(facts) == len(page),
        )

    # --- what is done with a run ------------------------------------------------------------

    async def start(self, wanted: StartRun) -> Acted:
        """Start a run by a name a person has set up: a path, or a file in Python, is none."""
        names = [*await self.engine.workflows(), *(f"role:{r}" for r in await self.engine.roles())]
        if wanted.workflow not in names:
            hint = did_you_mean(wanted.workflow, names)
            raise UserMistake(f"There is no workflow {wanted.workflow[:100]!r}.", hint=hint)
        budget = None if wanted.budget is UNSET else msgspec.to_builtins(wanted.budget)
        run = await self.engine.start(
            wanted.workflow,
            wanted.input,
            approvals=self._approvals,
            budget=budget,
            key=self._key(wanted.key),
            source=self.source,
        )
        self._held.append(run)
        return Acted(run=run, notices=self.engine.notices)

    async def status(self, wanted: RunStatus) -> Acted:
        """Return a run; one that no process runs goes on here where it is waited for."""
        run = await self.run(wanted.run, goes_on=wanted.wait_s > 0)
        return Acted(run=run, only_looks=True)

    async def say(self, wanted: SayToRun) -> Acted:
        """Say something to a run. Words answer no question by chance."""
        run = await self.run(wanted.run, goes_on=True)
        key = self._key(wanted.key)
        open_now = open_to_callers(run)
        if open_now and wanted.policy is UNSET and key not in run.run.inbox.lines:
            raise UserMistake(
                f"Run {run.id} asks {_named(open_now)}.",
                hint="Answer with answer_question; or give a policy, and your words answer nothing.",
            )
        receipt = await run.say(
            wanted.text, policy=wanted.policy or None, id=key, source=self.source, unasked=True
        )
        return Acted(run=run, receipt=receipt)

    async def answer(self, wanted: AnswerQuestion) -> Acted:
        """Answer a question that a program may answer."""
        run = await self.run(wanted.run, goes_on=True)
        key = self._key(wanted.key)
        known = None if key is None else run.run.inbox.lines.get(key)
        if known is not None:
            receipt = Receipt(input_id=known.id, handling=known.handling, reason=known.reason)
            return Acted(run=run, receipt=receipt)
        question = _meant(run, wanted.question)
        receipt = await run.answer(question, wanted.answer, id=key, source=self.source)
        return Acted(run=run, receipt=receipt)

    async def stop(self, wanted: StopRun) -> Acted:
        """Halt a run, or end it."""
        run = await self.run(wanted.run, goes_on=False)
        if wanted.how == "end":
            await run.stop(f"stopped by {self.source}")
        else:
            await run.halt()
        return Acted(run=run)

    # --- inside -----------------------------------------------------------------------------

    async def run(self, id: str, *, goes_on: bool) -> RunHandle:
        """Return a run of this folder. `goes_on`: here, where no process runs it.

        Raises:
            UserMistake: there is no such run in this folder.
            DefinitionDiffers: it cannot go on: its workflow has changed, and a person has to choose.
        """
        found = (await self._found(id)).id
        self._held.append(await (self.engine.take(found) if goes_on else self.engine.get(found)))
        return self._held[-1]

    async def _found(self, id: str) -> RunInfo:
        info = await self.engine.info(id)
        if info is None:  # the beginning of an id, or a name
            meant = await self.engine.get(id)
            self._held.append(meant)
            info = await self.engine.info(meant.id)
        assert info is not None, "a run that was found is kept"
        here = str(self.engine.local.world.workspace)
        if info.workspace not in ("", here):
            raise UserMistake(
                f"Run {info.id} belongs to another folder.",
                hint="Start midstream mcp serve in that folder.",
            )
        return info

    def _key(self, key: str) -> str | None:
        """Return a key as ours: two clients that choose the same one mean two things."""
        return f"{self.source} {key}" if key else None


def _meant(run: RunHandle, id: str) -> Question:
    """Return the question that is to be answered.

    Raises:
        UserMistake: there is none such, or only a person may answer it.
    """
    open_now = open_to_callers(run)
    if not id:
        if len(open_now) == 1:
            return open_now[0]
        what = f"asks {_named(open_now)}" if open_now else "asks nothing that you can answer now"
        hint = "Say which: question=ID." if open_now else "run_status says what it waits for."
        raise UserMistake(f"Run {run.id} {what}.", hint=hint)
    for question in run.run.inbox.questions:
        if question.id == id:
            if is_for_programs(question):
                return question
            raise UserMistake(
                f"Only a person can decide on {id} of run {run.id}: no tool does.",
                hint=f"In a terminal: midstream, then /attach {run.id}.",
            )
    raise UserMistake(
        f"Run {run.id} has no question {id[:100]!r}.", hint="run_status lists the open ones."
    )


def _named(questions: tuple[Question, ...]) -> str:
    return "; ".join(f"{each.id}: {each.text[:200]}" for each in questions)


# --- the table ----------------------------------------------------------------------------------


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool: `call` is the method of a `Client`. `reads`: it changes nothing, `ends` that it may."""

    name: str
    words: str
    takes: type[Arguments]
    gives: type[msgspec.Struct]
    call: Callable[[Client, Any], Awaitable[Any]]
    reads: bool = False
    ends: bool = False


TOOLS: Final = {
    tool.name: tool
    for tool in (
        Tool(
            name="list_workflows",
            words="List the multi-agent workflows and the roles that can be started here.",
            takes=ListWorkflows,
            gives=Offered,
            call=Client.workflows,
            reads=True,
        ),
        Tool(
            name="start_run",
            words="Start a workflow, or a chat with a role, in the background. It goes on by itself: give "
            "wait_s to wait for it, or look later with run_status. It is kept in a journal and survives "
            "crashes. What it may do without a person's approval is up to the person's settings.",
            takes=StartRun,
            gives=RunTold,
            call=Client.start,
        ),
        Tool(
            name="run_status",
            words="Say where a run is, what it waits for, its output and its cost. With wait_s wait for it "
            "first; a run that no process runs then goes on here.",
            takes=RunStatus,
            gives=RunTold,
            call=Client.status,
        ),
        Tool(
            name="say_to_run",
            words="Say something to a run at any moment, in the middle of a turn, too: by default it halts "
            "what is being done, keeps what was said so far, and acts on your words. It answers no "
            "question: answer_question does.",
            takes=SayToRun,
            gives=RunTold,
            call=Client.say,
        ),
        Tool(
            name="answer_question",
            words="Answer a question that a run asks (run_status lists them). Approvals and budgets are "
            "for a person and cannot be given here.",
            takes=AnswerQuestion,
            gives=RunTold,
            call=Client.answer,
        ),
        Tool(
            name="run_events",
            words="Read what happened in a run, a page at a time, in plain words.",
            takes=RunEvents,
            gives=Events,
            call=Client.events,
            reads=True,
        ),
        Tool(
            name="list_runs",
            words="List the runs of this folder, the newest first, whoever started them.",
            takes=ListRuns,
            gives=Rows,
            call=Client.runs,
            reads=True,
        ),
        Tool(
            name="stop_run",
            words="Halt a run's turn until the next words, or end the run.",
            takes=StopRun,
            gives=RunTold,
            call=Client.stop,
            ends=True,
        ),
    )
}
"""Every tool by its name."""

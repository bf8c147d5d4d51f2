"""What a client is told of a run: values with a JSON Schema of their own, made of how the run stands."""

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from midstream.api.engine import RunInfo
from midstream.api.run_handle import RunHandle
from midstream.core.costs import costs
from midstream.core.notices import Envelope
from midstream.core.question import Question, is_for_people, is_for_programs
from midstream.core.run_data import as_text
from midstream.language.names import Json
from midstream.runtime.ports import Receipt
from midstream.safety.sanitize import sanitized
from midstream.views import answer_forms
from midstream.views.calls_in_words import question_heading, question_summary
from midstream.views.event_words import event_words
from midstream.views.run_status import doing_of

MOST_CHARS: Final = 100_000
"""Characters of a run's output, or of a reply, that one result holds."""
EVENT_CHARS: Final = 2_000
ASKED_CHARS: Final = 4_000

Status: TypeAlias = Literal[
    "running",
    "input_required",
    "needs_a_person",
    "suspended",
    "left",
    "finished",
    "failed",
    "stopped",
]
Process: TypeAlias = Literal["here", "elsewhere", "none"]


Notices: TypeAlias = Annotated[
    tuple[str, ...],
    Meta(description="What your user should hear of the settings, such as that there is no model."),
]


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An open question that answer_question answers."""

    question: str
    text: str
    agent: str
    branch: str
    choices: tuple[str, ...] = ()
    schema: Annotated[
        dict[str, Json] | None, Meta(description="The JSON Schema the answer has to fit.")
    ] = None


class Cost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the run has used so far; `unpriced` requests have no known price, and `estimated` ones, which
    were cut off, are guessed.
    """

    usd: str
    requests: int
    input_tokens: int
    output_tokens: int
    unpriced: int
    estimated: int = 0


class Heard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of the words of this call."""

    input_id: str
    handling: Annotated[str, Meta(description="answer, interrupt, steer, queue or reject.")]
    reason: str = ""


class RunTold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run stands."""

    run: str
    workflow: str
    status: Annotated[
        Status,
        Meta(
            description="input_required: it waits for an answer or for words, which you can give; "
            "needs_a_person: only a person can move it on; left: no process runs it; suspended: "
            "it died too often; the last three: it has ended."
        ),
    ]
    state: str
    doing: str
    process: Annotated[Process, Meta(description="Which process runs it now.")]
    next: Annotated[str, Meta(description="What moves it on.")] = ""
    questions: tuple[Asked, ...] = ()
    for_a_person: Annotated[
        tuple[str, ...], Meta(description="What only a person can decide, such as an approval.")
    ] = ()
    notices: Notices = ()
    heard: Heard | None = None
    reply: Annotated[str, Meta(description="What an agent said last.")] = ""
    output: Json = None
    error: str = ""
    left_out: Annotated[
        str, Meta(description="What of output or reply is left out, and where all of it is.")
    ] = ""
    cost: Cost
    last_event: Annotated[int, Meta(description="The number of its last event.")]


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run in a list. Times are in seconds since 1970."""

    run: str
    name: str
    workflow: str
    status: Literal["running", "waiting", "suspended", "finished", "failed", "stopped"]
    state: str
    process: Process
    started_at: float
    updated_at: float
    usd: str


class Rows(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Runs of this folder, the one written last first."""

    runs: tuple[Row, ...]
    next: Annotated[str, Meta(description="`after` of the next page, empty: there is none.")]


class EventTold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened in a run."""

    seq: int
    at: float
    type: str
    words: str
    event: Annotated[
        dict[str, Any] | None, Meta(description="All its fields, where they were asked for.")
    ] = None


class Events(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of what happened in a run, in order."""

    run: str
    events: tuple[EventTold, ...]
    next: Annotated[int, Meta(description="`since` of the next page.")]
    is_end: Annotated[bool, Meta(description="Whether there are no later events yet.")]


class Offered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What can be started: workflows with what each does, and roles to chat with."""

    workflows: dict[str, str]
    roles: tuple[str, ...]
    notices: Notices = ()


def open_to_callers(run: RunHandle) -> tuple[Question, ...]:
    """Return the open questions that a program may answer, the oldest first."""
    return tuple(filter(is_for_programs, run.questions))


def open_to_people(run: RunHandle) -> tuple[Question, ...]:
    """Return what waits for a person's decision, the oldest first."""
    return tuple(filter(is_for_people, run.questions))


def run_told(run: RunHandle, process: Process, receipt: Receipt | None = None) -> RunTold:
    """Return how a run stands.

    Args:
        run: the run.
        process: which process runs it.
        receipt: what became of the words of the call that asks.
    """
    if run.run.is_over:
        process = "none"  # it may be a moment until that is written down
    questions, others = open_to_callers(run), open_to_people(run)
    status = _status(run, process, bool(questions), bool(others))
    output, missing = _capped(run.output)
    reply, more = _capped(run.reply if run.output is None else "")
    missing += more
    total = costs(run.run.usage.requests).total
    return RunTold(
        run=run.id,
        workflow=run.run.workflow_name,
        status=status,
        state=run.state,
        doing=doing_of(run.run),
        process=process,
        next=_next(run.id, status, process, questions),
        questions=tuple(
            Asked(
                question=each.id,
                text=each.text,
                agent=each.agent,
                branch=each.branch,
                choices=each.choices,
                schema=each.schema,
            )
            for each in questions
        ),
        for_a_person=tuple(map(_for_a_person, others)),
        heard=None
        if receipt is None
        else Heard(input_id=receipt.input_id, handling=receipt.handling, reason=receipt.reason),
        reply=reply,
        output=output,
        error=run.error,
        left_out=f"+{missing:,} characters: midstream show {run.id} --json" if missing else "",
        cost=Cost(
            usd=str(total.usd),
            requests=total.requests,
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            unpriced=total.unpriced,
            estimated=total.estimated,
        ),
        last_event=run.run.seq,
    )


def row_of(info: RunInfo) -> Row:
    """Return a run as a list shows it."""
    return Row(
        run=info.id,
        name=info.name,
        workflow=info.workflow,
        status=info.status,
        state=info.state,
        process=process_of(info),
        started_at=info.started_at,
        updated_at=info.updated_at,
        usd=info.usd,
    )


def process_of(info: RunInfo | None) -> Process:
    """Return which process runs a run."""
    if info is None:
        return "none"
    return "here" if info.is_here else "elsewhere" if info.is_running else "none"


def event_told(envelope: Envelope, *, is_typed: bool) -> EventTold:
    """Return a fact in plain words, and with all its fields where that is wanted."""
    words = event_words(envelope)
    event = envelope.to_dict() if is_typed else None
    if event is not None and (size := len(msgspec.json.encode(event))) > MOST_CHARS:
        event = {"type": envelope.type, "left_out": f"{size:,} bytes: midstream events --json"}
    return EventTold(
        seq=envelope.seq or 0,
        at=envelope.at,
        type=envelope.type,
        words=capped(words, EVENT_CHARS),
        event=event,
    )


def capped(words: str, most: int) -> str:
    """Return words of at most so many characters, and how many more there are."""
    more = len(words) - most
    return words if more <= 0 else f"{words[:most]} [+{more:,} characters]"


def message_of(question: Question) -> str:
    """Return who asks what, made harmless for a terminal."""
    return capped(sanitized(f"{question_heading(question)}: {question.text}"), ASKED_CHARS)


def form_of(question: Question) -> dict[str, Json]:
    """Return the JSON Schema of a question's form; what no form holds is asked for as JSON text."""
    told = msgspec.json.encode(question.schema).decode()[:ASKED_CHARS]
    as_text = {"type": "string", "description": sanitized(f"JSON that fits {told}")}
    return answer_forms.form_of(question) or answer_forms.single(as_text)


def _status(run: RunHandle, process: Process, is_asked: bool, needs_a_person: bool) -> Status:
    status = run.status
    if status == "waiting":
        return "needs_a_person" if needs_a_person and not is_asked else "input_required"
    if status == "running":
        if process == "none":
            return "left"
        return "input_required" if is_asked else "running"
    return status


def _next(run: str, status: Status, process: Process, questions: tuple[Question, ...]) -> str:
    match status:
        case "input_required" if questions:
            return "answer_question answers it."
        case "input_required":
            return "It waits for words: say_to_run."
        case "needs_a_person":
            way = "/resume" if process == "none" else "/attach"
            return (
                f"Only a person can decide, and no tool does: in a terminal in this folder, midstream "
                f"and there {way} {run}, or midstream web. Tell your user; run_status with wait_s then "
                "waits for them. "
                "say_to_run changes course instead."
            )
        case "left":
            return "run_status with wait_s, or say_to_run, goes on with it."
        case "suspended":
            return "say_to_run goes on with it."
        case "running":
            return "run_status with wait_s waits for it; say_to_run steers it meanwhile."
        case _:
            return ""


def _for_a_person(question: Question) -> str:
    what = {"budget": "A budget", "plan": "A plan"}.get(question.about, "")
    if not what:
        what = "An approval" if question.kind == "approval" else "A call that a crash cut"
    return f"{what}: {question_summary(question)}"


def _capped(value: Json) -> tuple[Json, int]:
    """Return a value, or of one that is too long the beginning of its text; and how much is missing."""
    text = as_text(value)
    if len(text) <= MOST_CHARS:
        return value, 0
    return text[:MOST_CHARS], len(text) - MOST_CHARS

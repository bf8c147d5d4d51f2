"""A run on one line, kept up to date fact by fact: what a listing shows without folding runs."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.core import events as e
from midstream.core.costs import Cost, counted, in_words
from midstream.core.notices import Envelope
from midstream.language.names import Disposition, Json
from midstream.language.spec import Definition
from midstream.views.amounts import ago, time_of_day
from midstream.views.cells import clipped, one_line, padded, shortened

ListedStatus: TypeAlias = Literal["running", "suspended", "finished", "failed", "stopped"]

Standing: TypeAlias = Literal[
    "running", "asking", "waiting", "suspended", "finished", "failed", "stopped"
]
"""How a run stands. `asking`: it asks a person something; `waiting`: it waits for words without asking."""

ACTIVE: Final[tuple[Standing, ...]] = ("running", "asking", "waiting", "suspended")
ENDED: Final[tuple[Standing, ...]] = ("finished", "failed", "stopped")

PIPE: Final = "pipe"
HEADLESS: Final = "headless"
UNATTENDED: Final = (PIPE, HEADLESS)
"""Sources of words that nobody has typed: lines of a pipe, and what `midstream chat` was given."""

MCP: Final = "mcp:"
"""The source of what another agent says begins so, before its name."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is listed of a run. Times are in seconds since 1970.

    `asking` are the ids of the open questions a person is asked; `awaits_input`: the run waits for
    words without asking. `found_as` is the name the workflow is loaded by. `name` is what a person
    calls the run, `first` the words it began with, shortened: its input, else the first they said to it.
    `turns` is how many turns their words began, `usd` what it cost, as decimal text; the price of
    `unpriced` replies is not known, and that of `estimated` ones is guessed: they were cut off.
    `answer` is the input that last answered a question, `heard_at` the fact at which words last took
    effect: what comes right after it took effect with them. `is_unattended`: nobody has typed in it, its
    words came from a script.
    """

    workflow: str = ""
    found_as: str = ""
    kind: Literal["workflow", "chat"] = "workflow"
    workspace: str = ""
    state: str = ""
    status: ListedStatus = "running"
    started_at: float = 0.0
    updated_at: float = 0.0
    asking: tuple[str, ...] = ()
    awaits_input: bool = False
    name: str = ""
    first: str = ""
    turns: int = 0
    usd: str = "0"
    unpriced: int = 0
    estimated: int = 0
    answer: str = ""
    heard_at: int = 0
    is_unattended: bool = False

    @property
    def is_over(self) -> bool:
        """Return whether the run has ended, in whatever way."""
        return self.status in ("finished", "failed", "stopped")

    @property
    def standing(self) -> Standing:
        """Return how the run stands; stores with an index say the same in their own language."""
        if self.status != "running":
            return self.status
        return "asking" if self.asking else "waiting" if self.awaits_input else "running"

    def is_heard_before(self, seq: int) -> bool:
        """Return whether words took effect right before a fact."""
        return self.heard_at == seq - 1 > 0


def is_of_program(source: str) -> bool:
    """Return whether nobody has typed words of this source: chats of them are no person's to go on with."""
    return source in UNATTENDED or source.startswith(MCP)


def is_heard(disposition: Disposition) -> bool:
    """Return whether words took effect at all."""
    return disposition not in ("rejected", "withdrawn")


def begins_turn(disposition: Disposition, *, answers: bool) -> bool:
    """Return whether words of a person began a turn.

    An answer to a question (`answers`) and words that joined a turn under way (steered) belong to
    the turn that was there. Of words that took effect together only the first begin one.
    """
    return is_heard(disposition) and disposition != "steered" and not answers


def summarised(summary: Summary, envelope: Envelope) -> Summary:
    """Return the summary after one more fact."""
    changes = _changes(summary, envelope) | _priced(summary, e.usage_in(envelope.event))
    return msgspec.structs.replace(summary, updated_at=envelope.at, **changes)


def _changes(summary: Summary, envelope: Envelope) -> dict[str, object]:
    match envelope.event:
        case e.StateTransition(target=target):
            return {} if envelope.event.branch else {"state": target}
        case e.InputReceived(text=text, source=source):
            first = {} if summary.first else {"first": _beginning(text)}
            is_one = is_of_program(source) and (summary.is_unattended or not summary.first)
            return {**first, "is_unattended": is_one}
        case e.InputDisposed(input_id=id, disposition=disposition):
            return _heard(summary, id, disposition, envelope.seq or 0)
        case e.WordsJoined():
            seq = envelope.seq or 0
            return {"heard_at": seq} if summary.is_heard_before(seq) else {}
        case e.RunRenamed(name=name):
            return {"name": name}
        case e.QuestionAsked(kind="input"):
            return {"awaits_input": True}
        case e.QuestionAsked(question_id=id):
            return {"asking": (*summary.asking, id)}
        case (
            e.QuestionAnswered(question_id=id)
            | e.QuestionSuperseded(question_id=id)
            | e.QuestionExpired(question_id=id, stays=False)
        ):
            if id not in summary.asking:
                return {"awaits_input": False}
            still = tuple(asked for asked in summary.asking if asked != id)
            closed = envelope.event
            answer = closed.input_id if isinstance(closed, e.QuestionAnswered) else summary.answer
            return {"asking": still, "answer": answer}
        case e.RunSuspended():
            return {"status": "suspended"}
        case e.RunResumed():
            return {"status": "running"}
        case e.RunFinished():
            return {"status": "finished", "asking": (), "awaits_input": False}
        case e.RunFailed():
            return {"status": "failed", "asking": (), "awaits_input": False}
        case e.RunStopped():
            return {"status": "stopped", "asking": (), "awaits_input": False}
        case e.DefinitionChanged(definition=definition):
            return _pinned_to(definition)
        case e.RunStarted() as started:
            return _pinned_to(started.definition) | {
                "workspace": started.workspace,
                "started_at": envelope.at,
                "first": _beginning(text_of(started.input)),
            }
        case _:
            return {}


def _heard(summary: Summary, id: str, disposition: Disposition, seq: int) -> dict[str, object]:
    is_joined = summary.is_heard_before(seq)
    if not is_heard(disposition):
        return {"heard_at": seq} if is_joined else {}
    begins = begins_turn(disposition, answers=bool(id) and id == summary.answer)
    return {"heard_at": seq, "turns": summary.turns + (begins and not is_joined)}


_FIRST: Final = 80
"""Characters of the first words that are listed."""

_LOOKED_AT: Final = 1_000


def _beginning(text: str) -> str:
    return shortened(" ".join(text[:_LOOKED_AT].split()), _FIRST)


def text_of(input: Json) -> str:
    """Return a run's input as text, "" where there is none."""
    if isinstance(input, str):
        return input
    return "" if input is None else msgspec.json.encode(input).decode()


def _priced(summary: Summary, usage: e.Usage | None) -> dict[str, object]:
    if usage is None:
        return {}
    told: dict[str, object] = {"estimated": summary.estimated + usage.is_estimate}
    if usage.cost_usd is None:
        return {**told, "unpriced": summary.unpriced + 1}
    try:
        return {**told, "usd": str(Decimal(summary.usd) + Decimal(usage.cost_usd))}
    except InvalidOperation:
        return {**told, "unpriced": summary.unpriced + 1}


def _pinned_to(definition: Definition) -> dict[str, object]:
    return {
        "workflow": definition.workflow.workflow_name,
        "found_as": definition.found_as,
        "kind": definition.kind,
    }


# --- chats, as a person finds one again: by name, words, cost, day -------------------------------------

_NARROW = 72
_LEAST_TITLE = 24

MAX_NAME = 60
NO_NAME = "-"
"""What is typed in the place of a name to take it away."""


def title_of(summary: Summary) -> str:
    """Return what a chat is called: its name, else the first words said in it."""
    return one_line(summary.name or summary.first) or "(no words kept of its beginning)"


def chat_rows(
    number: int,
    id: str,
    summary: Summary,
    *,
    is_active: bool,
    where: str,
    now: float,
    width: int,
) -> list[str]:
    """Return a chat in one row, or more where there is little room. `where` is "" for a plain one."""
    mark = "›" if is_active else " "
    head = f"{mark}{number:>2} "
    role = summary.workflow.removeprefix("role:")
    turns = counted(summary.turns, "turn")
    cost = price_of(summary)
    when = ago(now - summary.updated_at) or time_of_day(summary.updated_at, now=now)
    parts = [part for part in (role, turns, cost, when, id, where) if part]
    about = " · ".join(parts)
    room = width - len(head) - len(about) - 2
    if width < _NARROW or room < _LEAST_TITLE:
        return [
            f"{head}{clipped(title_of(summary), max(width - len(head), 8))}",
            *_below(parts, width),
        ]
    return [f"{head}{padded(clipped(title_of(summary), room), room)}  {about}"]


def _below(parts: list[str], width: int) -> list[str]:
    """Return what is told of a chat under its title, each part whole, in as many rows as it takes."""
    found = [f"    {parts[0]}"]
    for part in parts[1:]:
        if len(found[-1]) + 3 + len(part) <= width:
            found[-1] += f" · {part}"
        else:
            found.append(f"    {part}")
    return found


def price_of(summary: Summary) -> str:
    """Return what a chat cost, "" where nothing is known to have cost anything."""
    cost = Cost(
        requests=max(summary.turns, summary.unpriced),
        usd=Decimal(summary.usd),
        unpriced=summary.unpriced,
        estimated=summary.estimated,
    )
    return in_words(cost) if cost.usd or cost.unpriced else ""


def named_like(wanted: str, names: Sequence[tuple[str, str]]) -> list[str]:
    """Return the ids whose name is meant: those of just that name, else those that begin with it."""
    key = " ".join(wanted.split()).casefold()
    if not key:
        return []
    exact = [id for id, name in names if name.casefold() == key]
    return exact or [id for id, name in names if name and name.casefold().startswith(key)]

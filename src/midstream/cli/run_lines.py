"""Runs in lines and JSON objects, for the commands about them. Pure: words in a terminal are made
harmless by whoever prints them.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from midstream.app.run_sentences import begun_with
from midstream.cli.output import FAILED, FINISHED, PARKED
from midstream.core.costs import costs, in_words, mark_of
from midstream.core.events import FileWritten, RunFailed
from midstream.core.notices import Envelope
from midstream.core.question import Question
from midstream.core.routing import as_typed
from midstream.core.run import InputRecord, Run
from midstream.language.names import Json
from midstream.runtime.engine.remote import NOBODY
from midstream.runtime.ports import Receipt
from midstream.runtime.storage import KeptRun, Mail
from midstream.views.amounts import time_of_day
from midstream.views.cells import row_of, width_of
from midstream.views.lanes import Lane, lanes
from midstream.views.run_status import DELIVERED, asked, doing_of, summary_words
from midstream.views.side_effects import PUT_BACK, TREE

KeptStatus: TypeAlias = Literal[
    "running",
    "waiting",
    "suspended",
    "cut_off",
    "left",
    "imported",
    "damaged",
    "finished",
    "failed",
    "stopped",
]

_WORDS: dict[KeptStatus, str] = {
    "running": "running in another process",
    "waiting": "waits for you",
    "cut_off": "cut off",
    "left": "left, not running",
}

_SHOWN_EVENTS = 10
_LONGEST = 72


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `show` tells of one run. `journal` is the file or database that keeps it.

    `mails` may still be heard; `refused` came to a run that had ended.
    """

    kept: KeptRun
    run: Run
    facts: Sequence[Envelope]
    mails: Sequence[Mail]
    refused: Sequence[Mail] = ()
    journal: str


# --- a list of runs -----------------------------------------------------------------------------


def status_of(kept: KeptRun) -> KeptStatus:
    """Return where a run stands. A question is `waiting`, whoever runs it or does not."""
    summary = kept.summary
    if kept.damaged:
        return "damaged"
    if summary.status in ("finished", "failed", "stopped"):
        return summary.status
    if kept.is_foreign:
        return "imported"
    if summary.status == "suspended":
        return "suspended"
    if summary.asking or summary.awaits_input:
        return "waiting"
    if kept.owner:
        return "running"
    return "cut_off" if kept.was_cut else "left"


def status_words(kept: KeptRun) -> str:
    """Return where a run stands, in words for a person."""
    status = status_of(kept)
    words = _WORDS.get(status, status)
    if kept.is_answered:
        return "answered"
    if status == "waiting" and not kept.summary.asking:
        words = "waits for its next line"
    if status in ("waiting", "suspended") and not kept.owner:
        return f"{words} ({'cut off' if kept.cut_work else 'no process runs it'})"
    return words


def listed(runs: Sequence[KeptRun], *, now: float, with_folders: bool = False) -> list[str]:
    """Return a line for each run, in their order."""
    rows = [
        (
            kept.id,
            kept.summary.workflow
            + (f" “{kept.summary.name}”" if kept.summary.name else begun_with(kept.summary.first)),
            kept.summary.state or "-",
            status_words(kept),
            age(now - kept.summary.updated_at),
            *([kept.summary.workspace] if with_folders else []),
        )
        for kept in runs
    ]
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    return [row_of(row, widths) for row in rows]


def age(seconds: float) -> str:
    """Return how long ago something was, such as `3 min ago`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "now" if seconds < 1 else f"{int(seconds)} s ago"


def run_object(kept: KeptRun) -> dict[str, Any]:
    """Return a run as `runs --json` writes it. Times are in seconds since 1970."""
    return {
        "type": "run",
        "run": kept.id,
        "status": status_of(kept),
        **_picked(kept.summary, *_OF_A_SUMMARY),
        **_picked(kept, *_OF_A_RUN),
    }


# --- one run ------------------------------------------------------------------------------------


def shown_lines(shown: Shown, *, now: float) -> list[str]:
    """Return everything about a run, for a person."""
    kept, run = shown.kept, shown.run
    total = costs(run.usage.requests).total
    rows: list[tuple[str, str]] = [
        ("status", status_words(kept)),
        ("state", f"{run.visit.state or '-'}: {summary_words(run, now=now)}"),
    ]
    rows += [("branch", _lane_line(lane, now)) for lane in lanes(run)]
    rows += [("asks", question_line(question)) for question in asked(run)]
    rows += [
        ("waiting", f"{record.handling}: {as_typed(record.text, record.to)}")
        for record in run.inbox.undelivered
    ]
    rows += [("not heard", mail.text or mail.kind) for mail in shown.mails]
    rows += [("refused", f"{mail.text}: the run has ended") for mail in shown.refused]
    cached = f" (of which {total.cached_tokens} from cache)" if total.cached_tokens else ""
    mark = mark_of(total)
    tokens = f"{mark}{total.input_tokens} tokens in{cached}, {mark}{total.output_tokens} out"
    rows.append(("cost", f"{in_words(total)}, {total.requests} requests, {tokens}"))
    failed = (fact.event.hint for fact in shown.facts if isinstance(fact.event, RunFailed))
    rows += [("to do", hint) for hint in failed if hint]
    if run.output is not None:
        rows.append(("output", _short(run.output)))
    if kept.parent:
        rows.append(("fork of", f"{kept.parent} at {kept.parent_seq}"))
    rows.append(("folder", run.workspace))
    rows += [("wrote", path) for path in _written(shown.facts)]
    rows.append(("journal", shown.journal))
    began = age(now - kept.summary.started_at)
    return [
        f"Run {kept.id}: {kept.summary.workflow}, begun {began}",
        *(f"  {name.ljust(9)}  {text}" for name, text in rows),
        "",
        *map(event_line, shown.facts[-_SHOWN_EVENTS:]),
    ]


def shown_object(shown: Shown) -> dict[str, Any]:
    """Return everything about a run as `show --json` writes it."""
    run, total = shown.run, costs(shown.run.usage.requests).total
    return run_object(shown.kept) | {
        "doing": doing_of(run),
        "branches": [{"branch": each.path} | _picked(each, *_OF_A_LANE) for each in lanes(run)],
        "questions": [_picked(each, *_OF_A_QUESTION) for each in asked(run)],
        "cost": _picked(total, *_OF_COSTS),
        "waiting_inputs": [
            {"input_id": each.id} | _picked(each, "text", "handling", "to")
            for each in run.inbox.undelivered
        ],
        "letters": [{"input_id": each.id, "text": each.text} for each in shown.mails],
        "refused": [{"input_id": each.id, "text": each.text} for each in shown.refused],
        "output": run.output,
        "error": run.error,
        "files_written": _written(shown.facts),
        "journal": shown.journal,
        "last_events": [_event_object(fact) for fact in shown.facts[-_SHOWN_EVENTS:]],
    }


def question_line(question: Question) -> str:
    """Return a question with what it is answered by."""
    choices = [f"{number} {choice}" for number, choice in enumerate(question.choices, 1)]
    listed = f" ({', '.join(choices)})" if choices else ""
    return f"#{question.number} {question.id}: {question.text}{listed}"


def _picked(value: object, *names: str) -> dict[str, Any]:
    """Return what a program is told of a value: some of its fields, under their own names."""
    return {name: getattr(value, name) for name in names}


_OF_A_SUMMARY: Final = (
    *("workflow", "kind", "name", "first", "turns", "state", "asking"),
    *("workspace", "started_at", "updated_at"),
)
_OF_A_RUN: Final = (*("owner", "was_cut", "is_foreign", "seq", "parent", "parent_seq", "damaged"),)
_OF_A_QUESTION: Final = ("id", "number", "kind", "text", "agent", "branch", "choices", "schema")
_OF_A_LANE: Final = ("state", "doing", "about", "until", "is_parked")
_OF_COSTS: Final = (
    *("requests", "input_tokens", "cached_tokens", "output_tokens", "usd", "unpriced", "estimated"),
)


def _lane_line(lane: Lane, now: float) -> str:
    about = f" {lane.about}" if lane.about else ""
    state = f" [{lane.state}]" if lane.state else ""
    return f"{lane.path}{about}{state}: {_until(lane.doing, lane.until, now)}"


def _until(doing: str, until: float | None, now: float) -> str:
    return doing if until is None else f"{doing} until {time_of_day(until, now=now)}"


def _written(facts: Iterable[Envelope]) -> list[str]:
    """Return the files a run has written, in the order of their first change."""
    written = (fact.event for fact in facts if isinstance(fact.event, FileWritten))
    return list({each.path: None for each in written if each.call_id not in (PUT_BACK, TREE)})


# --- its events ---------------------------------------------------------------------------------


def event_line(envelope: Envelope) -> str:
    """Return an event on one line: a fact's place, the time of day, what it is, what it holds."""
    at = time.strftime("%H:%M:%S", time.localtime(envelope.at))
    held = _event_object(envelope)
    said = [f"{key}={_short(value)}" for key, value in held.items() if key not in _HEAD]
    return f"{envelope.seq or '':>6}  {at}  {envelope.type}  {' '.join(said)}".rstrip()


_HEAD = ("type", "run", "at", "seq", "definition")


def _event_object(envelope: Envelope) -> dict[str, Json]:
    """Return a fact without the definition a run is pinned to, which is long."""
    held = envelope.to_dict()
    return {key: value for key, value in held.items() if key != "definition"}


def _short(value: Json) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


# --- what became of words -----------------------------------------------------------------------


def receipt_line(run: str, receipt: Receipt, record: InputRecord | None) -> str:
    """Return what is done with a line that was sent."""
    if is_refused(receipt, record):
        return f"Run {run} did not take it: {_reason(receipt, record)}."
    whose = f"run {run}"
    if record is not None and record.to:
        whose = f"the branch {record.to} of {whose}"
    how = receipt.reason or f"your line {DELIVERED[receipt.handling]}"
    if receipt.reason == NOBODY:
        how += f" with `midstream resume {run}`"
    return f"Sent to {whose}: {how}."


def receipt_object(run: str, receipt: Receipt, record: InputRecord | None) -> dict[str, Json]:
    """Return a receipt as `send --json` writes it."""
    return {
        "type": "receipt",
        "run": run,
        "input_id": receipt.input_id,
        "handling": receipt.handling,
        "is_taken": not is_refused(receipt, record),
        "reason": _reason(receipt, record),
    }


def disposition_object(run: str, input_id: str, record: InputRecord | None) -> dict[str, Json]:
    """Return what became of a line as `send --wait --json` writes it; null: nothing yet."""
    return {
        "type": "disposition",
        "run": run,
        "input_id": input_id,
        "disposition": None if record is None else record.disposition,
        "reason": "" if record is None else record.reason,
    }


def disposition_line(record: InputRecord | None) -> str:
    """Return what became of a line, for a person."""
    if record is None or record.disposition is None:
        return "It waits; it was not delivered yet."
    reason = f": {record.reason}" if record.reason else ""
    return f"It was {record.disposition}{reason}."


def code_of(receipt: Receipt, record: InputRecord | None, *, waited: bool) -> int:
    """Return the exit code of a line that was sent: 1 refused, 4 waited for and not delivered yet."""
    if is_refused(receipt, record):
        return FAILED
    if waited and (record is None or record.disposition is None):
        return PARKED
    return FINISHED


def is_refused(receipt: Receipt, record: InputRecord | None) -> bool:
    """Return whether a line had no effect and never will."""
    is_rejected = record is not None and record.disposition == "rejected"
    return is_rejected or receipt.handling == "reject"


def _reason(receipt: Receipt, record: InputRecord | None) -> str:
    return receipt.reason or ("" if record is None else record.reason)

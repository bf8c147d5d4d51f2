"""A run as a page has it: what stands beside its story. JSON, its words sanitized."""

import hashlib
from typing import Any, Final

import msgspec

from midstream.api.engine import RunInfo
from midstream.core.costs import costs, in_words, mark_of
from midstream.core.question import Question
from midstream.core.run import Run, definition_of
from midstream.safety.capability import SHOWN
from midstream.safety.rules import in_words as capability_words
from midstream.safety.sanitize import sanitized
from midstream.views.calls_in_words import question_heading
from midstream.views.graph import graph_of
from midstream.views.graph_layout import picture_of
from midstream.views.graph_marks import marks_of
from midstream.views.run_status import (
    NOBODY_RUNS_IT,
    STANDS_STILL,
    asked,
    doing_of,
    is_at_work,
    until_of,
    waiting,
    what_enter_does,
)
from midstream.views.spending import price
from midstream.views.todo_list import shown_items
from midstream.views.workflow_in_words import explained, explanation_text

MAX_DATA: Final = 200_000
"""Bytes of a run's data that a page is given; more stays where it is."""


def clean(value: Any) -> Any:
    """Return JSON whose every text is sanitized.

    What a file, a model or a page says never reorders, hides or obeys: one sanitizer for all.
    """
    match value:
        case str():
            return sanitized(value)
        case dict():
            return {sanitized(str(key)): clean(each) for key, each in value.items()}
        case list() | tuple():
            return [clean(each) for each in value]
        case _:
            return value


def info_shown(info: RunInfo, *, status: str = "") -> dict[str, Any]:
    """Return a run as a list shows it; `status` where it is known better than the list knows it."""
    is_asking = info.status == "waiting" and bool(info.asking)
    shown: dict[str, Any] = clean(
        {
            "id": info.id,
            "title": info.title,
            "name": info.name,
            "workflow": info.workflow,
            "kind": info.kind,
            "status": status or ("asking" if is_asking else info.status),
            "state": info.state,
            "started_at": info.started_at,
            "updated_at": info.updated_at,
            "usd": info.usd,
            "is_running": info.is_running,
        }
    )
    return shown


def standing_of(run: Run) -> str:
    """Return how a run stands, in the words of a list."""
    if run.status != "running":
        return run.status
    if run.suspended:
        return "suspended"
    if any(question.kind != "input" for question in run.inbox.open_questions):
        return "asking"
    return "waiting" if run.is_parked else "running"


def run_shown(
    run: Run,
    info: RunInfo,
    *,
    mode: str = "",
    model: str = "",
    is_past: bool = False,
    is_stalled: bool = False,
) -> dict[str, Any]:
    """Return a run as it stands, without its data.

    `is_past`: as it once was; nothing can be said to it. `is_stalled`: its journal is out of reach.
    """
    is_left = not (is_past or run.is_over or run.is_parked or info.is_running or until_of(run))
    is_still = is_past or is_stalled or is_left
    spent = costs(run.usage.requests)
    rows = [
        [
            *labels,
            *(f"{mark_of(cost)}{n}" for n in (cost.input_tokens, cost.output_tokens)),
            price(cost),
        ]
        for labels, cost in spent.rows.items()
    ]
    shown: dict[str, Any] = clean(
        {
            "seq": run.seq,
            "doing": STANDS_STILL if is_stalled else NOBODY_RUNS_IT if is_left else doing_of(run),
            "until": until_of(run),
            "enter": "" if is_past or is_stalled else what_enter_does(run),
            "is_busy": not is_still and not run.is_over and is_at_work(run),
            "mode": mode,
            "model": model,
            "questions": [] if is_past else [question_shown(run.id, q) for q in asked(run)],
            "undelivered": [
                {"id": each.id, "text": each.text, "handling": each.brief, "fate": each.fate}
                for each in (() if is_past or run.is_over else waiting(run))
            ],
            "todo": [{"text": item.text, "status": item.status} for item in shown_items(run)],
            "costs": {"words": in_words(spent.total) if spent.total.requests else "", "rows": rows},
            "error": run.error,
        }
    )
    info = msgspec.structs.replace(
        info, name=run.name, state=run.visit.state, is_running=info.is_running and not run.is_over
    )
    return info_shown(info, status=standing_of(run)) | shown


def data_shown(run: Run) -> dict[str, Any]:
    """Return a run's data and output, or how much it is where that is more than a page can use."""
    size = len(msgspec.json.encode(run.common_data)) + len(msgspec.json.encode(run.output))
    if size > MAX_DATA:
        left = f"{size:,} bytes: midstream show {run.id} has them."
        return {"data": {"(left out)": left}, "output": None}
    return {"data": clean(run.common_data), "output": clean(run.output)}


# --- questions ----------------------------------------------------------------------------------------


def question_shown(run: str, question: Question) -> dict[str, Any]:
    """Return a question as a card shows it: every byte of an approval, and the digest of all of it."""
    grants = tuple(capability_words(ask) for ask in question.asks if not ask.startswith(SHOWN))
    tool = question.text.partition("\n")[0]
    return {
        "id": question.id,
        "number": question.number,
        "kind": question.kind,
        "heading": question_heading(question),
        # "\r\n" would pass as the end of a line: a change of line ends would look like none.
        "text": question.text.replace("\r\n", "\u240d\n"),
        "agent": question.agent,
        "branch": question.branch,
        "choices": list(question.choices),
        "schema": question.schema,
        "about": question.about,
        "command": question.command,
        "why": question.why,
        "for_run": list(grants or (f"the tool {tool}",)) if question.kind == "approval" else [],
        "digest": digest_of(run, question),
    }


def digest_of(run: str, question: Question) -> str:
    """Return what a yes is bound to: all that a question shows, and whose it is."""
    whole = msgspec.json.encode([run, msgspec.structs.replace(question, status="open")])
    return hashlib.sha256(whole).hexdigest()


# --- the machine ----------------------------------------------------------------------------------------


def graph_shown(run: Run, *, width: int) -> dict[str, Any]:
    """Return the machine of a run laid out in cells (`views.graph_layout.Picture`), and in words."""
    definition = definition_of(run)
    graph = graph_of(definition)
    picture = picture_of(graph, width=width, marks=marks_of(run, graph))
    here = "" if run.is_over or not run.visit.state else f"It is in {run.visit.state}.\n\n"
    words = here + explanation_text(explained(definition))
    shown: dict[str, Any] = clean(msgspec.to_builtins(picture) | {"text": words})
    return shown

"""Painting: what happened, as styled lines. Pure; the terminal and the plain face show the same.

Marks in the first column say who speaks, and only we can draw there:

    ›  what the person typed          ▌  an agent's words, in its colour
    →  the run moved on               ✓ ✗ ■  how something ended
    ·  the console's own words        !  a warning
    ?  a question                     ⏹  an interruption
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.console.lines import (
    BOLD,
    CYAN,
    DIM,
    GREEN,
    RED,
    YELLOW,
    Line,
    agent_style,
    lines_of,
)
from midstream.core.events import (
    DefinitionChanged,
    QuestionAsked,
    RunFailed,
    RunFinished,
    RunRecovered,
    RunResumed,
    RunStopped,
    RunSuspended,
    StateTransition,
    ToolCalled,
    ToolReturned,
)
from midstream.core.names import Json, Outcome
from midstream.core.question import Question

Kind: TypeAlias = Literal["info", "note", "warning", "error"]

GUTTER: Final = "▌ "
INTERRUPTED_MARK: Final = "[interrupted]"
_SUMMARY_CHARS: Final = 160
_ARGUMENT_CHARS: Final = 80

_OUTCOMES: Final[dict[Outcome, tuple[str, str]]] = {
    "completed": ("✓ ", GREEN),
    "failed": ("✗ ", RED),
    "denied": ("✗ ", RED),
    "not_run": ("■ ", YELLOW),
    "stopped": ("■ ", YELLOW),
    "unknown": ("? ", YELLOW),
}


class Words(msgspec.Struct, frozen=True):
    """Text to be shown as markdown behind a gutter, where the face can; else as plain lines."""

    text: str
    mark: str
    style: str


Block: TypeAlias = Line | Words


def plain_words(words: Words) -> list[Line]:
    """Return words as they were written, behind their gutter."""
    return lines_of(words.text, mark=words.mark, mark_style=words.style, rest=words.mark)


def own_words(text: str, kind: Kind) -> list[Line]:
    """Return the console's own words."""
    mark, style, text_style = {
        "info": ("", "", ""),
        "note": ("· ", DIM, DIM),
        "warning": ("! ", YELLOW, ""),
        "error": ("✗ ", RED, ""),
    }[kind]
    if kind != "info":
        return lines_of(text, style=text_style, mark=mark, mark_style=style)
    # Two blanks, so that foreign text among our own words never stands in the first column.
    return lines_of(text, mark="  ")


def typed(text: str) -> list[Line]:
    """Return the echo of a line the person sent."""
    return lines_of(text, style=BOLD, mark="› ", mark_style=CYAN)


def speech(agent: str, text: str, *, is_interrupted: bool = False) -> list[Block]:
    """Return an agent's words under its name. Interrupted words are marked and kept as they are."""
    style = agent_style(agent)
    blocks: list[Block] = [Line(((f"1;{style}", agent),), GUTTER, style, GUTTER)]
    if is_interrupted:
        blocks += lines_of(text.rstrip(), mark=GUTTER, mark_style=style, rest=GUTTER)
        blocks.append(Line(((YELLOW, INTERRUPTED_MARK),), GUTTER, style, GUTTER))
    elif text.strip():
        blocks.append(Words(text.strip("\n"), GUTTER, style))
    return blocks


def transition(fact: StateTransition) -> Line:
    """Return where the run went, and why."""
    way = fact.target if not fact.source else f"{fact.source} → {fact.target}"
    return Line(((BOLD, way), (DIM, f"  {fact.reason}")), "→ ", CYAN)


def call_text(call: ToolCalled) -> str:
    """Return a tool call on one line, long arguments shortened."""
    parts = [f"{name}={_short(value)}" for name, value in call.arguments.items()]
    return f"{call.name}({', '.join(parts)})"


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _cut(text.replace("\n", "⏎"), _ARGUMENT_CHARS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def call_line(fact: ToolReturned, call: ToolCalled | None) -> Line:
    """Return a finished tool call with the beginning of its result, on one line."""
    mark, style = _OUTCOMES[fact.outcome]
    what = fact.name if call is None else call_text(call)
    how = "" if fact.outcome == "completed" else f"{said(fact.outcome)}: "
    return Line((("", what), (DIM, f"  {how}{result_summary(fact.result)}")), mark, style)


def result_summary(result: str) -> str:
    """Return a result's first line and how much more there is."""
    lines = result.strip().splitlines()
    if not lines:
        return "(nothing)"
    more = f" (+{len(lines) - 1} more lines)" if len(lines) > 1 else ""
    first = lines[0]
    cut = len(first) - _SUMMARY_CHARS
    if cut > 0:
        first = f"{first[:_SUMMARY_CHARS]}… (+{cut} more characters)"
    return first + more


def said(outcome: Outcome) -> str:
    """Return an outcome in words."""
    return {"not_run": "not run", "unknown": "outcome unknown"}.get(outcome, outcome)


def question_heading(question: Question | QuestionAsked) -> str:
    """Return who asks what kind of question, such as `#2 ada asks`."""
    number = f"#{question.number} " if question.number else ""
    who = question.agent or "the workflow"
    if question.kind == "approval":
        return f"{number}{who} wants to run"
    return f"{number}{who} asks"


def question_lines(question: Question | QuestionAsked) -> list[Line]:
    """Return a question whole: every byte of an approval, every choice by its number."""
    style = YELLOW if question.kind == "approval" else CYAN
    found = [Line(((BOLD, question_heading(question)),), "? ", style, "│ ")]
    found += lines_of(question.text, mark="│ ", mark_style=style, rest="│ ")
    for number, choice in enumerate(question.choices, 1):
        found += lines_of(
            choice, mark=f"│ {number} ", mark_style=style, rest="│ " + " " * (len(str(number)) + 1)
        )
    return found


def answer_line(question: QuestionAsked | None, question_id: str, answer: Json) -> Line:
    """Return a closed question with its answer, on one line."""
    if question is None:
        what = question_id
    else:
        number = f"#{question.number} " if question.number else ""
        what = number + result_summary(question.text)
    text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
    return Line((("", what), (BOLD, f"  {_cut(text, _SUMMARY_CHARS)}")), "✓ ", CYAN)


def interruption(agent: str, reason: str, ended: Iterable[tuple[str, Outcome]]) -> Line:
    """Return a halt on one line: who was cut off, and what of the tool calls became of each."""
    parts = [f"{agent} cut off"] if agent else []
    by_outcome: dict[Outcome, list[str]] = {}
    for name, outcome in ended:
        by_outcome.setdefault(outcome, []).append(name)
    parts += [f"{_ended(outcome)}: {_listed(names)}" for outcome, names in by_outcome.items()]
    if reason:
        parts.append(reason)
    return Line(
        ((BOLD, "interrupted"), ("", "".join(f" · {part}" for part in parts))), "⏹ ", YELLOW
    )


def _ended(outcome: Outcome) -> str:
    return "finished" if outcome == "completed" else said(outcome)


def _listed(names: Sequence[str]) -> str:
    counts = {name: names.count(name) for name in names}
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items())


def ending(fact: RunFinished | RunFailed | RunStopped, *, is_known: bool = False) -> list[Line]:
    """Return how a run ended and, if it failed, what to do. `is_known`: why has just been told."""
    match fact:
        case RunFinished():
            return [Line(((BOLD, "finished"),), "✓ ", GREEN)]
        case RunStopped():
            return [Line(((BOLD, "stopped"), ("", f": {fact.reason}")), "■ ", YELLOW)]
        case RunFailed():
            where = f" in {fact.state}" if fact.state else ""
            if is_known:
                return [Line(((BOLD, f"failed{where}"),), "✗ ", RED)]
            found = lines_of(f"failed{where}: {fact.error}", mark="✗ ", mark_style=RED)
            return found + (lines_of(fact.hint, mark="  ") if fact.hint else [])


def taken_up(
    run: str, fact: RunRecovered | RunSuspended | RunResumed | DefinitionChanged
) -> list[Line]:
    """Return what is said of a run that one process leaves and another goes on with."""
    match fact:
        case RunRecovered():
            was = " It was cut off where it stood." if fact.was_cut else ""
            return own_words(f"Run {run} goes on in this process.{was}", "note")
        case RunSuspended():
            why = _REASONS.get(fact.reason, fact.reason)
            text = f"Run {run} is suspended: {why}. Your words or /resume {run[:4]} let it go on."
            return own_words(text, "warning")
        case RunResumed():
            return own_words(f"Run {run} goes on.", "note")
        case DefinitionChanged():
            return own_words(f"Run {run} follows the workflow as it is now.", "note")


_REASONS: Final = {"crash_loop": "its process died again and again before it came any further"}

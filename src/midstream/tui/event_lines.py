"""Painting: what happened, as styled lines. Pure; the terminal and the plain UI show the same.

Each of our lines begins with a mark. Lines without one belong to the marked line above them, and
nothing anybody else wrote begins like one (`styled_lines.may_begin`):

    ›  what the person typed          ▌  who speaks, in its colour
    →  the run moved on               ✓ ✗ ■  how something ended
    ·  the console's own words        !  a warning
    ?  a question                     ⏹  an interruption
    ┆  output of the person's own command, of which no agent knows

What happens in a branch has its name behind the mark, and a second bar:

    ▌ tests ▌ dude                    ✓ tests ▌ finished

So a reply is its speaker's line and then the words, from the first column on, to be copied as they are.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.core import events as e
from midstream.core.call_notes import without_change
from midstream.core.conversation import ToolCall
from midstream.core.question import Question
from midstream.core.run_data import as_text
from midstream.language.errors import with_hint
from midstream.language.forms import example, fields
from midstream.language.names import JOIN_WORKTREE, Json, Outcome
from midstream.tui.styled_lines import Fragment, Line, agent_style, clipped, lines_of, width_of
from midstream.tui.themes import ACCENT, ATTENTION, BOLD, FAILED, MUTED, OK
from midstream.views.amounts import duration, span_words, time_of_day
from midstream.views.calls_in_words import (
    beginning,
    call_words,
    fields_words,
    head_of_diff,
    outcome_words,
    question_heading,
    question_summary,
    result_words,
)
from midstream.views.cells import shortened

Kind: TypeAlias = Literal["info", "note", "warning", "error"]

SPEAKER: Final = "▌ "
RESULT_MARK: Final = "  ┊ "
INTERRUPTED_MARK: Final = "[interrupted]"
_LABEL_CELLS: Final = 28
_SHOWN: Final = 8
_FIELDS: Final = 12
_NAMED: Final = 4
"""Branches that are named, not counted."""

_OUTCOMES: Final[dict[Outcome, tuple[str, str]]] = {
    "completed": ("✓ ", OK),
    "failed": ("✗ ", FAILED),
    "denied": ("✗ ", FAILED),
    "not_run": ("■ ", ATTENTION),
    "stopped": ("■ ", ATTENTION),
    "unknown": ("? ", ATTENTION),
}


class Words(msgspec.Struct, frozen=True):
    """Text to be shown as markdown, where the UI can; else as plain lines.

    `is_verbatim`: it is no markdown, but what a tool returned or a model thought, dim as a whole and
    behind a bar.
    """

    text: str
    is_verbatim: bool = False


Block: TypeAlias = Line | Words


def plain_words(words: Words) -> list[Line]:
    """Return words as they were written."""
    if words.is_verbatim:
        return lines_of(
            words.text, style=MUTED, mark=RESULT_MARK, mark_style=MUTED, rest=RESULT_MARK
        )
    return lines_of(words.text)


def branch_label(branch: str) -> tuple[Fragment, ...]:
    """Return what stands before all that happens in a branch; nothing for the run itself."""
    if not branch:
        return ()
    style = speech_style("", branch)
    return ((BOLD, clipped(branch, _LABEL_CELLS)), (style, " ▌ "))


def labelled(branch: str, lines: list[Line]) -> list[Line]:
    """Return lines with the branch they are about before the first."""
    if not branch or not lines:
        return lines
    first = msgspec.structs.replace(
        lines[0], fragments=(*branch_label(branch), *lines[0].fragments)
    )
    return [first, *lines[1:]]


def hook_words(fact: e.HookRan) -> list[Line]:
    """Return what a hook did; that it refused is told with what it refused."""
    if fact.problem and not fact.refused:
        return own_words(
            f"The hook {fact.hook} failed and was passed over: {fact.problem}", "warning"
        )
    did: list[str] = []
    if fact.arguments is not None:
        changed = msgspec.json.encode(fact.arguments).decode()
        did.append(f"changed what the call does to {beginning(changed)}")
    if fact.added:
        did.append(f"added: {beginning(fact.added)}")
    return own_words(f"The hook {fact.hook} {' and '.join(did)}", "note") if did else []


def own_words(text: str, kind: Kind) -> list[Line]:
    """Return the console's own words."""
    mark, style, text_style = {
        "info": ("· ", ACCENT, ""),
        "note": ("· ", MUTED, MUTED),
        "warning": ("! ", ATTENTION, ""),
        "error": ("✗ ", FAILED, ""),
    }[kind]
    return lines_of(text, style=text_style, mark=mark, mark_style=style)


def heard(text: str) -> Line:
    """Return that words which waited are taken up now, on a row."""
    words = beginning(text)
    return Line(((MUTED, "sent now: "), (MUTED, words)), "· ", MUTED, shrinks=words)


def typed(text: str) -> list[Line]:
    """Return the echo of a line the person sent."""
    return lines_of(text, style=BOLD, mark="› ", mark_style=ACCENT)


def speech_style(agent: str, branch: str) -> str:
    """Return the colour of an agent's words: a branch has its own, whoever speaks there.

    What stands behind a branch's name, such as its item, does not change it.
    """
    return agent_style(branch.partition(" ")[0] or agent)


def speech(agent: str, text: str, *, branch: str = "", is_interrupted: bool = False) -> list[Block]:
    """Return an agent's words under its name; where they were cut off a line of ours says so."""
    style = speech_style(agent, branch)
    blocks: list[Block] = [speaker(agent, branch)]
    if text.strip():
        blocks.append(Words(text.rstrip().strip("\n")))
    if is_interrupted:
        blocks.append(Line(((ATTENTION, INTERRUPTED_MARK),), SPEAKER, style))
    return blocks


_NUMBERED = re.compile(r"-\d+$")
"""What tells the second branch of one name from the first."""


def speaker(agent: str, branch: str = "") -> Line:
    """Return the line that says who speaks. A branch that is called what its agent is says it once."""
    style = speech_style(agent, branch)
    if _NUMBERED.sub("", branch.rpartition("/")[2]) == agent:
        return Line(((BOLD, clipped(branch, _LABEL_CELLS)),), SPEAKER, style)
    return Line((*branch_label(branch), (BOLD, agent)), SPEAKER, style)


def structured(agent: str, values: Mapping[str, Json], *, branch: str = "") -> Line:
    """Return a reply that is values, not words, on one line."""
    named = (*branch_label(branch), (BOLD, agent))
    return Line((*named, ("", f"  {fields_words(values)}")), SPEAKER, speech_style(agent, branch))


def transition(fact: e.StateTransition) -> Line:
    """Return where the run went, and why."""
    way = fact.target if not fact.source else f"{fact.source} → {fact.target}"
    return Line(((BOLD, way), (MUTED, f"  {fact.reason}")), "→ ", ACCENT)


def call_text(call: e.ToolCalled | ToolCall) -> str:
    """Return a tool call on one line, long arguments shortened."""
    return call_words(call.name, call.arguments)


def call_line(
    fact: e.ToolReturned, call: e.ToolCalled | ToolCall | None, *, took_s: float = 0.0
) -> Line:
    """Return a finished tool call with what came of it in a few words, on one line."""
    mark, style = _OUTCOMES[fact.outcome]
    what = fact.name if call is None else call_text(call)
    words = result_words(fact.name, fact.outcome, without_change(fact.result))
    took = f" · {span_words(took_s)}" if took_s >= 1 else ""
    # The command in full comes with its result in full; how it ended stays in sight.
    return Line((("", what), (MUTED, f" · {words}{took}")), mark, style, shrinks=what)


def result_in_full(text: str) -> Words:
    """Return a tool's result, or a model's reasoning, as it is, behind a bar of its own."""
    return Words(text.rstrip("\n"), is_verbatim=True)


def question_lines(question: Question | e.QuestionAsked) -> list[Line]:
    """Return a question whole: every byte of an approval, every choice by its number."""
    style = ATTENTION if question.kind == "approval" else ACCENT
    if question.about == "plan":
        return _plan_lines(question, style)
    found = [Line(((BOLD, question_heading(question)),), "? ", style, "│ ")]
    # "\r\n" would pass as the end of a line: a change of line ends would look like none.
    text = question.text.replace("\r\n", "\u240d\n")
    head = head_of_diff(text) if question.kind == "approval" else None
    if head is not None:
        # Which tool it is, and the name of the file, stand in the line above.
        lines = text.split("\n")
        text = "\n".join((*lines[1:head], *lines[head + 2 :]))
    elif question.kind == "approval" and text.startswith(f"{JOIN_WORKTREE}\n"):
        # What is merged stands in the line above.
        text = "\n".join(text.split("\n")[2:])
    found += lines_of(text, mark="│ ", mark_style=style, rest="│ ")
    if question.why:
        found += lines_of(question.why, style=MUTED, mark="│ ", mark_style=style, rest="│ ")
    for number, choice in enumerate(question.choices, 1):
        found += lines_of(
            choice, mark=f"│ {number} ", mark_style=style, rest="│ " + " " * (len(str(number)) + 1)
        )
    return found + [line for text in _form(question) for line in _behind_bar(text, style)]


def _plan_lines(question: Question | e.QuestionAsked, style: str) -> list[Line]:
    """Return a plan: its title in the heading, a step a line.

    What of a line goes on below stands further in: nothing of a plan begins where the keys do.
    """
    title, *steps = question.text.split("\n")[1:] or [""]
    heading = ((BOLD, f"{question_heading(question)}: "), ("", title))
    return [
        Line(heading, "? ", style, "│    "),
        *(Line((("", step),), "│ ", style, "│    ") for step in steps),
    ]


def _form(question: Question | e.QuestionAsked) -> list[str]:
    """Return what a question with a schema wants to be told, and how that is written."""
    asked = fields(question.schema)
    if not asked:
        kind = (question.schema or {}).get("type", "string")
        return [] if kind == "string" else [f"as JSON: {kind}"]
    names = [clipped(field.name, _LABEL_CELLS) for field in asked[:_FIELDS]]
    wide = max(map(width_of, names))
    rows = [
        f"{name}{' ' * (wide - width_of(name))}  {shortened(field.wants)}"
        + ("" if field.is_required else "  (may be left out)")
        for name, field in zip(names, asked, strict=False)
    ]
    if len(asked) > _FIELDS:
        rows.append(f"+{len(asked) - _FIELDS} more")
    return [*rows, f"Write {example(asked)}, or JSON."]


def _behind_bar(text: str, style: str) -> list[Line]:
    return lines_of(text, style=MUTED, mark="│ ", mark_style=style, rest="│ ")


def answer_line(
    question: Question | e.QuestionAsked | None, question_id: str, answer: Json
) -> Line:
    """Return a closed question with its answer, on one line."""
    if question is None:
        what = question_id
    else:
        number = f"#{question.number} " if question.number else ""
        what = number + question_summary(question)
    text = as_text(answer)
    is_refused = question is not None and question.kind == "approval" and text == "no"
    mark, style = ("✗ ", FAILED) if is_refused else ("✓ ", ACCENT)
    return Line((("", what), (BOLD, f"  {shortened(text)}")), mark, style)


def granted(fact: e.PermissionGranted) -> str:
    """Return what is not asked about again, in words that say no more than was granted."""
    from midstream.safety.rules import in_words  # no rule matters before the first prompt

    what = ", ".join(map(in_words, fact.capabilities)) or f"the tool {fact.tool}"
    return f"Allowed for this run: {what}. /permissions lists it."


class Cut(msgspec.Struct, frozen=True):
    """What a halt ended in one place: the agent whose words were cut off, and tool calls."""

    agent: str = ""
    ended: tuple[tuple[str, Outcome], ...] = ()


def interruption(
    cuts: Mapping[str, Cut],
    reason: str,
    *,
    branch: str = "",
    label: str = "",
    heading: str = "interrupted",
) -> Line:
    """Return a halt on one line: who was cut off, and what became of each tool call, by branch.

    `branch` is where it was halted, shown as `label`; what was cut within it is named, places with
    the same together.
    """
    parts = cut_words(cuts.get(branch, Cut()))
    within: dict[str, list[str]] = {}
    for path, cut in cuts.items():
        if path != branch and (words := ", ".join(cut_words(cut))):
            within.setdefault(words, []).append(path)
    for words, paths in within.items():
        parts.append(f"{named(paths)}: {words.replace(': ', ' ')}")
    if reason:
        parts.append(reason)
    told = " · ".join(parts if not heading else ["", *parts])
    return Line((*branch_label(label), (BOLD, heading), ("", told)), "⏹ ", ATTENTION)


def named(branches: Sequence[str]) -> str:
    """Return the names of branches, or how many they are."""
    return ", ".join(branches) if len(branches) <= _NAMED else f"{len(branches)} branches"


def cut_words(cut: Cut) -> list[str]:
    """Return what a halt ended in one place, in words."""
    parts = [f"{cut.agent} cut off"] if cut.agent else []
    by_outcome: dict[Outcome, list[str]] = {}
    for name, outcome in cut.ended:
        by_outcome.setdefault(outcome, []).append(name)
    return parts + [f"{_ended(outcome)}: {_listed(names)}" for outcome, names in by_outcome.items()]


def _ended(outcome: Outcome) -> str:
    return "finished" if outcome == "completed" else outcome_words(outcome)


def _listed(names: Sequence[str]) -> str:
    counts = {name: names.count(name) for name in names}
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items())


def ending(
    fact: e.RunFinished | e.RunFailed | e.RunStopped, *, is_known: bool = False, spent: str = ""
) -> list[Line]:
    """Return how a run ended and, if it failed, what to do. `is_known`: why has just been told.

    `spent` says what the run took and cost.
    """
    used = (MUTED, f"  {spent}" if spent else "")
    match fact:
        case e.RunFinished():
            return [Line(((BOLD, "finished"), used), "✓ ", OK)]
        case e.RunStopped():
            return [Line(((BOLD, "stopped"), ("", f": {fact.reason}"), used), "■ ", ATTENTION)]
        case e.RunFailed():
            where = f" in {fact.state}" if fact.state else ""
            if is_known:
                return [Line(((BOLD, f"failed{where}"), used), "✗ ", FAILED)]
            found = lines_of(f"failed{where}: {fact.error}", mark="✗ ", mark_style=FAILED)
            return found + (lines_of(fact.hint, mark="  ") if fact.hint else [])


# --- branches ---------------------------------------------------------------------------------


_ONE: Final = {"begin": "begins", "go on": "goes on"}


def begun(names: Sequence[str], verb: str, *, within: str) -> Line:
    """Return which branches began, or went on, together; `verb` may be the task they began with."""
    shown = ", ".join(names[:_SHOWN]) + (
        f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    )
    said = f"  {_ONE.get(verb, verb) if len(names) == 1 else verb}"
    return Line((*branch_label(within), (BOLD, shown), (MUTED, said)), "▶ ", ACCENT)


def joined(state: str, done: int, of: int, *, within: str) -> Line:
    """Return what a state's branches came to."""
    count = f"{of} branches joined" if done == of else f"{done} of {of} branches joined"
    return Line((*branch_label(within), (BOLD, state), ("", f"  {count}")), "✓ ", OK)


def branch_ending(
    fact: e.BranchFinished | e.BranchFailed | e.BranchStopped,
    *,
    took_s: float,
    is_known: bool = False,
    details: str = "",
) -> list[Line]:
    """Return how a branch ended. `is_known`: why it failed has just been told."""
    match fact:
        case e.BranchFinished():
            after = f"  after {duration(took_s)}" if took_s >= 1 else ""
            return [Line(((BOLD, "finished"), (MUTED, after)), "✓ ", OK)]
        case e.BranchStopped():
            why = f": {fact.reason}{f' · {details}' if details else ''}"
            return [Line(((BOLD, "stopped"), ("", why)), "■ ", ATTENTION)]
        case e.BranchFailed():
            where = f"failed in {fact.state}" if fact.state else "failed"
            if is_known:
                return [Line(((BOLD, where),), "✗ ", FAILED)]
            text = with_hint(f"{where}: {fact.error}", fact.hint)
            return lines_of(text, mark="✗ ", mark_style=FAILED)


def trouble(fact: e.StateFailed, *, is_known: bool) -> list[Line]:
    """Return an error that is not the end, and what comes of it, on one line.

    `is_known`: the error itself has just been told; then one that is caught needs no line.
    """
    tries = f" ({fact.attempt + 1} of {fact.of})" if fact.of else ""
    again = f"again {in_time(fact.wait_s)}{tries}"
    if is_known:
        return own_words(f"{fact.state}: {again}", "note") if fact.then == "retry" else []
    what = f"{fact.state}: {beginning(fact.error)}"
    return own_words(f"{what}  {again}" if fact.then == "retry" else what, "warning")


def in_time(seconds: float) -> str:
    """Return when something comes: `at once`, `in 10 s`."""
    return "at once" if seconds < 1 else f"in {duration(round(seconds))}"


def waiting(state: str, until: float, *, now: float) -> str:
    """Return that a state waits, and until when."""
    left = f" ({duration(until - now)})" if until - now >= 1 else ""
    return f"{state} waits until {time_of_day(until, now=now)}{left}"


# --- runs -------------------------------------------------------------------------------------


def taken_up(
    run: str,
    fact: e.RunRecovered | e.RunSuspended | e.RunResumed | e.DefinitionChanged,
    *,
    is_chat: bool = False,
) -> list[Line]:
    """Return what is said of a run that one process leaves and another goes on with.

    That a chat goes on here is what whoever opened it wants: only that it was cut off is news.
    """
    match fact:
        case e.RunRecovered() if is_chat:
            return own_words("It had been cut off.", "note") if fact.cut_work else []
        case e.RunRecovered():
            was = " It had been cut off." if fact.cut_work else ""
            return own_words(f"Run {run} goes on in this process.{was}", "note")
        case e.RunSuspended():
            why = _REASONS.get(fact.reason, fact.reason)
            text = f"Run {run} is suspended: {why}. Type a line or /resume {run[:4]} to go on."
            return own_words(text, "warning")
        case e.RunResumed():
            return own_words(f"Run {run} goes on.", "note")
        case e.DefinitionChanged():
            return own_words(f"Run {run} follows the workflow as it is now.", "note")


_REASONS: Final = {"crash_loop": "its process died several times without progress"}

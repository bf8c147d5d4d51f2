"""What is told of agents: their words, their reasoning, and the tools they call. No IO, no clock.

A call is told with its result, how long it took and what it changed; a reply that was cut, with what
was on the screen of it.
"""

from typing import Final

from msgspec import json

from midstream.core import events as e
from midstream.core.call_notes import MADE_ANEW, without_change
from midstream.core.conversation import ToolCall
from midstream.core.question import Question
from midstream.language.errors import with_hint
from midstream.language.names import (
    JOIN_WORKTREE,
    NEVER_RUN,
    OPEN_WORKTREE,
    PROPOSE_PLAN,
    REQUEST_USERS_INPUT,
    Outcome,
)
from midstream.tui.changed_lines import differences, in_figures, with_changes
from midstream.tui.event_lines import (
    SPEAKER,
    Block,
    Kind,
    branch_label,
    own_words,
    result_in_full,
    speech,
    speech_style,
)
from midstream.tui.output_tail import last_words
from midstream.tui.run_memory import MAX_CHARS, Call, RunMemory
from midstream.tui.styled_lines import Line
from midstream.tui.themes import ATTENTION, BOLD, FAILED, MUTED, OK
from midstream.views.amounts import span_words
from midstream.views.calls_in_words import beginning, call_words, fields_words, result_words

# --- words ----------------------------------------------------------------------------------------


def responded(of: RunMemory, fact: e.AgentResponded) -> list[Block]:
    """Tell a reply."""
    of.place(fact.branch).cut = ""
    found = _thought_out(of, fact.branch, fact.agent)
    label = of.label(fact.branch)
    if fact.text.strip():
        found += speech(fact.agent, fact.text, branch=label)
    for call in fact.calls:
        if not fact.is_final:
            of.call(call.id).wished = call
            continue
        # Nothing runs: the call is the reply, and what it says is its arguments.
        told = ((BOLD, fact.agent), ("", f"  {fields_words(call.arguments)}"))
        style = speech_style(fact.agent, label)
        found.append(Line((*branch_label(label), *told), SPEAKER, style))
        text = json.format(json.encode(call.arguments)).decode()
        of.manner.recent.add(f"{fact.agent}: {call.name}", text)
    if fact.problem:
        words = own_words(f"{fact.agent} is asked again: {fact.problem}", "note")
        found += of.labelled(fact.branch, words)
    return found


def failed(of: RunMemory, fact: e.AgentFailed) -> list[Block]:
    """Tell that an agent failed, and what it had said by then."""
    place = of.place(fact.branch)
    place.failure, place.cut = fact.error, ""
    text = with_hint(f"{fact.agent} failed: {fact.error}", fact.hint)
    said = cut(of, fact.branch, fact.agent, fact.partial, fact.calling)
    return [*said, *of.labelled(fact.branch, own_words(text, "error"))]


def reply_cut(of: RunMemory, fact: e.ReplyCut) -> list[Block]:
    """Tell a reply that was cut, and why it is asked on where its stream broke off."""
    said = cut(of, fact.branch, fact.agent, fact.partial, fact.calling)
    if not fact.reason:
        return said
    notice = own_words(f"{fact.reason} {fact.agent} is asked to go on.", "warning")
    return [*said, *of.labelled(fact.branch, notice)]


def cut(
    of: RunMemory, branch: str, agent: str, partial: str = "", calling: str = ""
) -> list[Block]:
    """Tell what an agent had said when it was interrupted: `partial` is what the run knows of it,
    `calling` the tools it was asking for.
    """
    _thought_out(of, branch, agent)
    shown = "".join(of.stream(branch, agent).words)
    # What was on the screen stays in view, even if the run knew of less of it.
    kept = shown if len(shown) > len(partial) else partial
    if not (kept.strip() or calling):
        return []
    label = of.label(branch)
    return speech(agent, kept, branch=label, is_interrupted=True, calling=calling)


def _thought_out(of: RunMemory, branch: str, agent: str) -> list[Block]:
    """Keep the reasoning before a reply, and return it where all is told."""
    said = of.stream(branch, agent)
    text, said.thought = said.thought, ""
    if not text.strip():
        return []
    label = of.label(branch)
    title = f"{label} ▌ {agent}: reasoning" if label else f"{agent}: reasoning"
    of.manner.recent.add(title, text)
    if not of.manner.is_verbose:
        return []
    return [Line(((MUTED, title),), "┊ ", MUTED), result_in_full(text[:MAX_CHARS])]


# --- tools ----------------------------------------------------------------------------------------


def called(of: RunMemory, fact: e.ToolCalled) -> list[Block]:
    """Remember a call that begins, as the newest."""
    call = of.calls.pop(fact.call_id, Call())
    call.made, call.began = fact, of.at
    of.calls[fact.call_id] = call
    return []


def asked_about(of: RunMemory, asked: e.QuestionAsked | Question, *, stays: bool) -> None:
    """Remember a call that was asked about; where the question `stays`, so does what it changes."""
    call = of.call(asked.call_id)
    call.was_seen = asked.kind == "approval" and stays
    call.wished = (
        None  # What was asked about is shown with its question, and need not be named again.
    )


def returned(of: RunMemory, fact: e.ToolReturned) -> list[Block]:
    """Tell a call with its result; one that was halted is told with what halted it."""
    call = of.calls.pop(fact.call_id, Call())
    took_s = 0.0 if call.began is None else of.at - call.began
    line = _line(*in_figures(fact, call.made or call.wished, call.changes), took_s=took_s)
    halt = of.halt_around(fact.branch)
    said = of.manner.live.outputs.lines(of.run, fact.call_id) if halt is not None else []
    if fact.name != REQUEST_USERS_INPUT:
        title = "".join(text for _, text in line.fragments)
        # The result of a call that was given up does not have what was on the screen.
        is_lost = bool(said) and said[-1].strip() not in fact.result
        result = "\n".join((fact.result, *said)) if is_lost else fact.result
        of.manner.recent.add(title, with_changes(result, call.changes))
    if halt is not None:
        if fact.name not in NEVER_RUN:
            halt.cut(fact.branch).ended.append((fact.name, fact.outcome))
            if said:
                halt.outputs.append((fact.branch, [line.rstrip() for line in said]))
        return []
    if fact.name in (REQUEST_USERS_INPUT, PROPOSE_PLAN) and fact.outcome == "completed":
        return []
    if call.is_branch:
        return []  # Its branch has said how it ended.
    if call.made is not None and not call.made.agent and fact.outcome != "completed":
        # A state's own call: what comes of it is told next, and need not say this again.
        of.place(fact.branch).failure = fact.result
    if fact.name in (OPEN_WORKTREE, JOIN_WORKTREE):
        return _worktree(of, fact)
    found = of.labelled(fact.branch, [line])
    if call.changes and not call.was_seen:
        found += differences(call.changes, is_whole=of.manner.is_verbose)
    elif of.manner.is_verbose and fact.result.strip():
        found.append(result_in_full(fact.result[:MAX_CHARS]))
    else:
        found += last_words(fact)
    noted = own_words(fact.note, "note") if fact.note else []
    return found + of.labelled(fact.branch, noted)


def _worktree(of: RunMemory, fact: e.ToolReturned) -> list[Block]:
    """Tell in one line what a branch did by itself; its changes were shown as they were made."""
    if fact.result in MADE_ANEW:
        return []
    kind: Kind = "note" if fact.outcome == "completed" else "warning"
    return of.labelled(fact.branch, own_words(beginning(fact.result), kind))


_OUTCOMES: Final[dict[Outcome, tuple[str, str]]] = {
    "completed": ("✓ ", OK),
    "failed": ("✗ ", FAILED),
    "denied": ("✗ ", FAILED),
    "not_run": ("■ ", ATTENTION),
    "stopped": ("■ ", ATTENTION),
    "unknown": ("? ", ATTENTION),
}


def _line(fact: e.ToolReturned, call: e.ToolCalled | ToolCall | None, *, took_s: float) -> Line:
    """Return a finished tool call with what came of it in a few words, on one line."""
    mark, style = _OUTCOMES[fact.outcome]
    what = fact.name if call is None else call_words(call.name, call.arguments)
    words = result_words(fact.name, fact.outcome, without_change(fact.result))
    took = f" · {span_words(took_s)}" if took_s >= 1 else ""
    # The command in full comes with its result in full; how it ended stays in sight.
    return Line((("", what), (MUTED, f" · {words}{took}")), mark, style, shrinks=what)


def hook_ran(of: RunMemory, fact: e.HookRan) -> list[Block]:
    """Tell what a hook did; that it refused is told with what it refused."""
    if fact.problem and not fact.refused:
        text = f"The hook {fact.hook} failed and was passed over: {fact.problem}"
        return of.labelled(fact.branch, own_words(text, "warning"))
    did: list[str] = []
    if fact.arguments is not None:
        changed = json.encode(fact.arguments).decode()
        did.append(f"changed what the call does to {beginning(changed)}")
    if fact.added:
        did.append(f"added: {beginning(fact.added)}")
    if not did:
        return []
    return of.labelled(fact.branch, own_words(f"The hook {fact.hook} {' and '.join(did)}", "note"))

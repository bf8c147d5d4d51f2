"""What a state says by itself: one kind of work, keys that go together, numbers that make sense."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from midstream.language.json_text import Node
from midstream.language.lint_names import (
    HANDLERS,
    Names,
    Scope,
    is_given,
    items_of,
    number_of,
    object_of,
    text_of,
    texts_of,
    unknown,
    work_of,
)
from midstream.language.shape import Report, clip, shown
from midstream.language.times import time_of

_NEEDS: Final = {
    "prompt": ("agent",),
    "output_schema": ("agent",),
    "arguments": ("tool",),
    "join": ("parallel", "for_each"),
}
"""Keys that say more about a kind of work."""

_SPENDING: Final = ("agent", "tool", "parallel", "for_each", "workflow")
"""The kinds of work that use models or tools."""

_ABOVE_ZERO: Final = (
    ("", "timeout_s"),
    ("", "max_visits"),
    ("ask", "deadline_s"),
    ("retry", "max_attempts"),
    ("for_each", "max_concurrency"),
)
_FROM_ZERO: Final = (("", "wait"), ("wait", "seconds"), ("retry", "backoff_s"))

_TIME: Final = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?"
    r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)"
)


def check_state_alone(state: Node, scope: Scope, names: Names, report: Report) -> None:
    """Report what is wrong with a state whatever leads to it."""
    _check_kind(state, report)
    _check_numbers(state, report)
    _check_speaker(state, scope, names, report)
    _check_wait(state, report)
    _check_troubles(state, report)


# --- keys that go together ----------------------------------------------------------------------


def _check_kind(state: Node, report: Report) -> None:
    work = work_of(state)
    for key in work[1:]:
        message = f'a state does one kind of work, and this one has "{work[0]}" already.'
        report.error(state.members[key], message, "Make two states of it.")
    for key, owners in _NEEDS.items():
        member = state.members.get(key)
        if is_given(member) and not any(owner in work for owner in owners):
            needed = " or ".join(f'"{owner}"' for owner in owners)
            report.error(member, f'"{key}" needs {needed} in the same state.')
    saving = state.members.get("save_as")
    if is_given(saving) and (not work or work == ("wait",)):
        message = "there is nothing to save: this state does no work that leaves a result."
        report.error(saving, message)
    has_handler = any(is_given(state.members.get(key)) for key in HANDLERS)
    for key in ("retry", "timeout_s"):
        member = state.members.get(key)
        if is_given(member) and not work and not has_handler:
            report.warning(member.node, f'"{key}" does nothing in a state that does nothing.')
    _check_budget(state, work, report)


def _check_budget(state: Node, work: tuple[str, ...], report: Report) -> None:
    budget = object_of(state, "budget")
    if budget is None:
        return
    check_budget(budget, report)
    if not any(key in _SPENDING for key in work):
        report.warning(budget, "nothing in this state uses what a budget bounds.")


_BUDGETS = ("usd", "tokens", "tool_calls", "transitions", "minutes")


def check_budget(budget: Node, report: Report) -> None:
    """Report a budget that bounds nothing, or leaves nothing."""
    limits = {key: number_of(budget, key) for key in _BUDGETS}
    if not any(limits.values()) and not any(is_given(m) for m in budget.members.values()):
        hint = 'It may have "usd", "tokens", "tool_calls", "transitions" and "minutes".'
        report.warning(budget, "this budget bounds nothing.", hint)
    for key, limit in limits.items():
        least = 0 if key == "tool_calls" else 1e-12
        if limit is not None and limit.value < least:
            expected = "a number from 0" if key == "tool_calls" else "a number above 0"
            report.error(limit, f"expected {expected}, found {shown(limit)}.")


def _check_numbers(state: Node, report: Report) -> None:
    for limit in _numbers(state, _ABOVE_ZERO):
        if limit.value <= 0:
            report.error(limit, f"expected a number above 0, found {shown(limit)}.")
    for limit in _numbers(state, _FROM_ZERO):
        if limit.value < 0:
            report.error(limit, f"expected a number from 0, found {shown(limit)}.")


def _numbers(state: Node, where: tuple[tuple[str, str], ...]) -> Iterator[Node]:
    for holder_key, key in where:
        holder = object_of(state, holder_key) if holder_key else state
        found = None if holder is None else number_of(holder, key)
        if found is not None:
            yield found


def _check_speaker(state: Node, scope: Scope, names: Names, report: Report) -> None:
    agent = text_of(state, "agent")
    if agent is None:
        return
    if agent.value not in names.agents:
        unknown(agent, "agent", names.agents, report)
        return
    context = text_of(names.agents[agent.value], "context")
    if context is None or context.value in scope.contexts:
        return
    if context.value in names.branch_contexts and not names.has_open_contexts:
        message = f'the agent "{clip(agent.value)}" speaks in "{clip(context.value)}"'
        report.error(agent, f"{message}, a context this state does not have.")


def _check_wait(state: Node, report: Report) -> None:
    pause = object_of(state, "wait")
    if pause is None:
        return
    until = text_of(pause, "until")
    if len([key for key in ("seconds", "until") if is_given(pause.members.get(key))]) != 1:
        report.error(pause, 'a wait has either "seconds" or "until".')
    elif until is not None and "${" not in until.value and not _is_time(until.value):
        found = clip(until.value)
        report.error(until, f'expected a time such as "2030-01-31T09:00:00Z", found "{found}".')


def _is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None and time_of(text) is not None


# --- when something goes wrong ------------------------------------------------------------------


class _Cause(NamedTuple):
    kind: str
    is_there: bool
    needed: str


def _check_troubles(state: Node, report: Report) -> None:
    taken: dict[str, int] = {}
    has_limit = is_given(state.members.get("max_visits"))
    for catch in items_of(state, "catch"):
        listed = catch.get("on")
        kinds = [text.value for text in texts_of(catch, "on")] if listed is not None else ["any"]
        if listed is not None and listed.kind == "array" and not listed.items:
            report.warning(listed, "an empty list catches nothing.", 'Leave it out for "any".')
            continue
        if not kinds:
            continue  # of the wrong shape: reported
        over = {kind: taken.get(kind, taken.get("any", 0)) for kind in kinds}
        if all(over.values()):
            line = max(over.values())
            report.warning(catch, f"this is never reached: line {line} catches the same before.")
        for kind in kinds:
            taken.setdefault(kind, catch.line)
        _check_causes(state, catch, report)
        to, own = text_of(catch, "to"), text_of(state, "name")
        is_back = to is not None and own is not None and to.value == own.value
        if to is not None and is_back and {"max_visits", "any"} & set(kinds) and has_limit:
            message = "over max_visits this leads to the state that cannot be visited any more."
            report.warning(to, message)
    failure = state.get("on_failure")
    if failure is not None and failure.kind == "string" and "any" in taken:
        line = taken["any"]
        report.warning(failure, f"this is never reached: line {line} catches every error before.")
    _check_retry(state, report)


def _check_causes(state: Node, catch: Node, report: Report) -> None:
    """Report kinds of errors that nothing in the state can cause."""
    work = work_of(state)
    asked = object_of(state, "ask")
    causes = (
        _Cause("deadline", asked is not None and "deadline_s" in asked.members, "a deadline_s"),
        _Cause("max_visits", is_given(state.members.get("max_visits")), "max_visits"),
        _Cause("branch", "parallel" in work or "for_each" in work, "branches"),
        _Cause("workflow", "workflow" in work, "a workflow"),
        _Cause("handler", any(is_given(state.members.get(key)) for key in HANDLERS), "a handler"),
        _Cause("model", any(key in work for key in _SPENDING if key != "tool"), "an agent"),
    )
    for kind in texts_of(catch, "on"):
        for cause in causes:
            if kind.value == cause.kind and not cause.is_there:
                message = f'nothing here fails with "{cause.kind}": that takes {cause.needed}.'
                report.warning(kind, message)


def _check_retry(state: Node, report: Report) -> None:
    retry = object_of(state, "retry")
    if retry is None:
        return
    kinds, attempts = retry.get("on"), number_of(retry, "max_attempts")
    if kinds is not None and kinds.kind == "array" and not kinds.items:
        report.warning(
            kinds, "an empty list tries nothing again.", "Leave it out for the usual ones."
        )
    if attempts is not None and attempts.value == 1:
        report.warning(attempts, "one attempt is the first one: nothing is tried again.")

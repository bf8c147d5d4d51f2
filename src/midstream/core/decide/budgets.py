"""Budgets: what a state, and the whole workflow, may use."""

from collections.abc import Iterable
from decimal import Decimal
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from midstream.core.costs import costs, counted
from midstream.core.decide import steering
from midstream.core.decide.transaction import Story
from midstream.core.decide.transitions import catch_of
from midstream.core.events import BudgetReached, QuestionAsked, Usage
from midstream.core.question import ANSWERS
from midstream.core.run import Run, definition_of
from midstream.language.names import ErrorKind
from midstream.language.plan import plan_of
from midstream.language.spec import Budget, Definition


def exceeded(story: Story, *, is_call: bool = False, is_free: bool = False) -> str:
    """Return which budget is used up, in words, "" while there is something left of each.

    Those of the state and of the states around it count, those of the workflows, and what a person
    limits the run to. `is_call`: it is a tool call that would be made; no budget of none at all allows
    one. `is_free`: it is what asks no model and calls no tool; only states entered and minutes bound it.
    """
    times = story.whole.run.usage.budget_times
    around: Story | None = story if times else None
    while around is not None:
        run, plan = around.run, around.run.plan
        # Asked before every state, and of most there is nothing to bound.
        if plan.has_budgets or run.usage.limits is not None:
            own = plan.states[run.visit.state].budget
            if own is not None and (
                what := _over(own, times, _used_in_state(run), is_call=is_call, is_free=is_free)
            ):
                return f"The state {run.visit.state!r} has used up its budget of {what}."
            workflow = definition_of(run).workflow
            inner = f" {workflow.workflow_name}" if around.path else ""
            for budget, whose in (
                (workflow.budget, f"The workflow{inner}"),
                (run.usage.limits, "The run"),
            ):
                if budget is None:
                    continue
                if what := _over(budget, times, _used(run), is_call=is_call, is_free=is_free):
                    return f"{whose} has used up its budget of {what}."
        around = around.around
    return ""


def allows_none(story: Story) -> bool:
    """Return whether a budget here is one of nothing: a rule, of which as much again is nothing, too."""
    for around in (story, *story.around_it()):
        run, workflow = around.run, definition_of(around.run).workflow
        for budget in (
            run.plan.states[run.visit.state].budget,
            workflow.budget,
            run.usage.limits,
        ):
            if budget is not None and 0 in (
                budget.tool_calls,
                budget.tokens,
                budget.usd,
                budget.minutes,
            ):
                return True
    return False


class _Used(NamedTuple):
    """What was used of all that a budget bounds."""

    tokens: int
    usd: Decimal
    calls: int
    seconds: float
    entered: int = 0


def _used(run: Run) -> _Used:
    """Return what the run used from its beginning on."""
    total = costs(run.usage.requests).total
    tokens = total.input_tokens + total.output_tokens
    return _Used(
        tokens, total.usd, run.usage.tool_calls, run.usage.active_s, sum(run.visits.values())
    )


def _used_in_state(run: Run) -> _Used:
    """Return what this visit to the state used: before it was cut and since."""
    first, calls, seconds = run.visit.budget_baseline
    spans = (run.usage.requests[span.start : span.end] for span in run.visit.usage)
    return _Used(
        *_sums(chain(*spans, run.usage.requests[first:])),
        run.usage.tool_calls - calls + sum(span.tool_calls for span in run.visit.usage),
        run.usage.active_s - seconds + sum(span.active_s for span in run.visit.usage),
    )


def _over(budget: Budget, times: int, used: _Used, *, is_call: bool, is_free: bool) -> str:
    if budget.transitions is not None and used.entered > budget.transitions * times:
        return counted(budget.transitions * times, "transition")
    if budget.minutes is not None and used.seconds >= budget.minutes * 60 * times:
        return counted(budget.minutes * times, "minute")
    if is_free:
        return ""
    if budget.tokens is not None and used.tokens >= budget.tokens * times:
        return counted(budget.tokens * times, "token")
    most = None if budget.tool_calls is None else budget.tool_calls * times
    if most is not None and used.calls >= most and (most > 0 or is_call):
        return counted(most, "tool call")
    if budget.usd is not None and used.usd >= Decimal(str(budget.usd)) * times:
        return f"${budget.usd * times:g}"
    return ""


def _sums(usages: Iterable[tuple[str, Usage]]) -> tuple[int, Decimal]:
    """Return how many tokens requests used, and dollars; those of unknown price cost nothing here."""
    tokens, usd = 0, Decimal(0)
    for _, usage in usages:
        tokens += max(usage.input_tokens, 0) + max(usage.output_tokens, 0)
        usd += usage.price or 0
    return tokens, usd


def narrower(one: Budget | None, other: Budget | None) -> Budget | None:
    """Return the smaller of each part of two budgets."""
    if one is None or other is None:
        return one or other
    parts = ((part, getattr(one, part), getattr(other, part)) for part in Budget.__struct_fields__)
    return replace(one, **{part: _smaller(mine, theirs) for part, mine, theirs in parts})


def _smaller(mine: float | None, theirs: float | None) -> float | None:
    return min((each for each in (mine, theirs) if each is not None), default=None)


# --- a budget is used up ---------------------------------------------------------------------


def over_budget(story: Story, what: str) -> bool:
    """End the state's work over a used up budget, or where nothing catches that, ask a person.

    Only what begins anew waits for the answer: what is under way is let end. False: it waits already.
    """
    if not is_asked(story):
        steering.give_up(story, "budget", what)
        return True
    return ask_for_more(story, what)


def is_asked(story: Story) -> bool:
    """Return whether a person is asked to raise a budget, instead of the state failing over it."""
    return story.whole.run.approvals != "deny" and not (_is_caught(story) or allows_none(story))


def ask_for_more(story: Story, what: str) -> bool:
    """Let the story wait for a budget to be raised; several that wait are asked about once."""
    run, whole = story.run, story.whole
    if run.usage.is_over_budget:
        return False
    story.tell(BudgetReached(state=run.visit.state, what=what))
    if not any(question.about == "budget" for question in whole.run.inbox.open_questions):
        whole.tell(
            QuestionAsked(
                question_id=whole.next_question_id(),
                number=whole.next_number(),
                kind="question",
                text=f"{what} Go on?",
                choices=ANSWERS,
                about="budget",
            )
        )
    return True


def _is_caught(story: Story) -> bool:
    """Return whether the state, or one around it, says what to do when a budget is used up."""
    state = story.run.plan.states[story.run.visit.state]
    if state.retry is not None and bool({"budget", "any"} & set(state.retry.on)):
        return True
    around = [each.run.plan.states[each.run.visit.state] for each in story.around_it()]
    kinds: tuple[ErrorKind, ...] = ("budget", "branch", "workflow")
    return catch_of(state, "budget") is not None or any(
        catch_of(each, kind) is not None for each in around for kind in kinds
    )


def counts_minutes(run: Run) -> bool:
    """Return whether a budget of the run counts minutes; of a run that has started."""
    own = run.usage.limits is not None and run.usage.limits.minutes is not None
    if own or run.plan.counts_minutes or any(map(_counts, definition_of(run).workflows.values())):
        return True
    called = [branch for branch in run.visit.branches.values() if branch.branch.call_id]
    return any(map(counts_minutes, called))


def _counts(definition: Definition) -> bool:
    plan = plan_of(definition.workflow)
    return plan.counts_minutes or any(map(_counts, definition.workflows.values()))

"""Budgets: what a state, and the whole workflow, may use."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from midstream.core.events import Usage
from midstream.core.run import Run, definition_of, plan_for
from midstream.core.spec import Budget
from midstream.core.story import Story


def exceeded(story: Story, *, is_call: bool = False) -> str:
    """Return which budget is used up, in words, "" while there is something left of each.

    Those of the state and of the states around it count, and those of the workflows. `is_call`: it is
    a tool call that would be made; no budget of none at all allows one.
    """
    for around in (story, *story.around_it()):
        run = around.run
        own = plan_for(run).states[run.state].budget
        if own is not None and (what := _over(own, *_used_in_state(run), is_call=is_call)):
            return f"The state {run.state!r} has used up its budget of {what}."
        workflow = definition_of(run).workflow
        if workflow.budget is None:
            continue
        used = [usage for _, usage in run.usages]
        if what := _over(workflow.budget, used, run.tool_calls, is_call=is_call):
            inner = f" {workflow.workflow_name}" if around.path else ""
            return f"The workflow{inner} has used up its budget of {what}."
    return ""


def _used_in_state(run: Run) -> tuple[list[Usage], int]:
    """Return what this visit to the state used: before it was cut and since."""
    first, calls = run.marks
    used = [usage for span in run.spent for _, usage in run.usages[span.start : span.end]]
    used += [usage for _, usage in run.usages[first:]]
    return used, run.tool_calls - calls + sum(span.tool_calls for span in run.spent)


def _over(budget: Budget, used: Sequence[Usage], calls: int, *, is_call: bool) -> str:
    tokens = sum(usage.input_tokens + usage.output_tokens for usage in used)
    if budget.tokens is not None and tokens >= budget.tokens:
        return f"{budget.tokens:,} tokens"
    most = budget.tool_calls
    if most is not None and calls >= most and (most > 0 or is_call):
        return f"{most} tool calls"
    if budget.usd is not None and dollars(used) >= Decimal(str(budget.usd)):
        return f"${budget.usd:g}"
    return ""


def dollars(used: Sequence[Usage]) -> Decimal:
    """Return what model requests cost; those of unknown price cost nothing here."""
    total = Decimal(0)
    for usage in used:
        try:
            total += Decimal(usage.cost_usd or "0")
        except InvalidOperation:
            continue
    return total

"""What a state says by itself: one kind of work, keys that go together, numbers that make sense, and what
belongs to each kind of work: tools, questions, branches, sub-workflows.
"""

import re
from typing import Final, NamedTuple

from msgspec.structs import replace

from midstream.language.errors import clip
from midstream.language.json_text import Node
from midstream.language.lint_schema import check_schema, check_value
from midstream.language.lint_scopes import (
    Known,
    Names,
    Scope,
    branch_name,
    branches_of,
    has_handler,
    sub_workflow_name,
    unknown,
    work_of,
)
from midstream.language.names import (
    DELEGATE,
    PROPOSE_PLAN,
    REQUEST_USERS_INPUT,
    RUN_WORKFLOW,
    STOP,
)
from midstream.language.plan import time_of
from midstream.language.problem import Report
from midstream.language.shape import shown
from midstream.language.templates import ROOTS

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
    ("timeout_s",),
    ("max_visits",),
    ("ask", "deadline_s"),
    ("retry", "max_attempts"),
    ("for_each", "max_concurrency"),
)
_FROM_ZERO: Final = (("wait",), ("wait", "seconds"), ("retry", "backoff_s"))

_NOT_IN_BRANCHES: Final = frozenset(" \t\n\r/")
_SUB_ROOTS: Final = ("output", *ROOTS)
"""What the values of a sub-workflow's `output` may begin with."""

_TIME: Final = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?"
    r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)"
)


def check_state_alone(
    state: Node, scope: Scope, names: Names, known: Known, report: Report
) -> None:
    """Report what is wrong with a state whatever leads to it."""
    _check_kind(state, report)
    _check_numbers(state, report)
    _check_speaker(state, scope, names, report)
    _check_wait(state, report)
    _check_catches(state, report)
    _check_retry(state, report)
    schema = state.object("output_schema")
    if schema is not None:
        check_schema(schema, report)
    _check_tool(state, known, report)
    _check_ask(state, report)
    _check_parallel(state, report)
    _check_for_each(state, names, report)
    for branch in branches_of(state):
        _check_branch(branch, scope, report)
    _check_workflow(state, known, report)


# --- keys that go together ----------------------------------------------------------------------


def _check_kind(state: Node, report: Report) -> None:
    work = work_of(state)
    for key in work[1:]:
        message = f'a state does one kind of work, and this one has "{work[0]}" already.'
        report.error(state.members[key], message, "Make two states of it.")
    for key, owners in _NEEDS.items():
        member = state.given(key)
        if member and not any(owner in work for owner in owners):
            needed = " or ".join(f'"{owner}"' for owner in owners)
            report.error(member, f'"{key}" needs {needed} in the same state.')
    saving = state.given("save_as")
    if saving and (not work or work == ("wait",)):
        message = "there is nothing to save: this state does no work that leaves a result."
        report.error(saving, message)
    for key in ("retry", "timeout_s"):
        member = state.given(key)
        if member and not work and not has_handler(state):
            report.warning(member.node, f'"{key}" does nothing in a state that does nothing.')
    budget = state.object("budget")
    if budget is not None:
        check_budget(budget, report)
        if not any(key in _SPENDING for key in work):
            report.warning(budget, "nothing in this state uses what a budget bounds.")


_BUDGETS = ("usd", "tokens", "tool_calls", "transitions", "minutes")


def check_budget(budget: Node, report: Report) -> None:
    """Report a budget that bounds nothing, or leaves nothing."""
    limits = {key: budget.number(key) for key in _BUDGETS}
    if not any(limits.values()) and not any(map(budget.given, budget.members)):
        hint = 'It may have "usd", "tokens", "tool_calls", "transitions" and "minutes".'
        report.warning(budget, "this budget bounds nothing.", hint)
    for key, limit in limits.items():
        least = 0 if key == "tool_calls" else 1e-12
        if limit is not None and limit.value < least:
            expected = "a number from 0" if key == "tool_calls" else "a number above 0"
            report.error(limit, f"expected {expected}, found {shown(limit)}.")


def _check_numbers(state: Node, report: Report) -> None:
    for keys in (*_ABOVE_ZERO, *_FROM_ZERO):
        limit = state.number(*keys)
        wanted = "above 0" if keys in _ABOVE_ZERO else "from 0"
        if limit is not None and (limit.value < 0 or (limit.value == 0 and wanted == "above 0")):
            report.error(limit, f"expected a number {wanted}, found {shown(limit)}.")


def _check_speaker(state: Node, scope: Scope, names: Names, report: Report) -> None:
    agent = state.text("agent")
    if agent is None:
        return
    if agent.value not in names.agents:
        unknown(agent, "agent", names.agents, report)
        return
    context = names.agents[agent.value].text("context")
    if context is None or context.value in scope.contexts:
        return
    if context.value in names.branch_contexts and not names.has_open_contexts:
        message = f'the agent "{clip(agent.value)}" speaks in "{clip(context.value)}"'
        report.error(agent, f"{message}, a context this state does not have.")


def _check_wait(state: Node, report: Report) -> None:
    pause = state.object("wait")
    if pause is None:
        return
    until = pause.text("until")
    if bool(pause.given("seconds")) is bool(pause.given("until")):
        report.error(pause, 'a wait has either "seconds" or "until".')
    elif (
        until is not None
        and "${" not in until.value
        and not (_TIME.fullmatch(until.value) and time_of(until.value) is not None)
    ):
        found = clip(until.value)
        report.error(until, f'expected a time such as "2030-01-31T09:00:00Z", found "{found}".')


# --- when something goes wrong ------------------------------------------------------------------


class _Cause(NamedTuple):
    kind: str
    is_there: bool
    needed: str


def _check_catches(state: Node, report: Report) -> None:
    taken: dict[str, int] = {}
    has_limit = bool(state.given("max_visits"))
    for catch in state.objects("catch"):
        listed = catch.get("on")
        kinds = [text.value for text in catch.texts("on")] if listed is not None else ["any"]
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
        to, own = catch.text("to"), state.text("name")
        is_back = to is not None and own is not None and to.value == own.value
        if to is not None and is_back and {"max_visits", "any"} & set(kinds) and has_limit:
            message = "over max_visits this leads to the state that cannot be visited any more."
            report.warning(to, message)
    failure = state.get("on_failure")
    if failure is not None and failure.kind == "string" and "any" in taken:
        line = taken["any"]
        report.warning(failure, f"this is never reached: line {line} catches every error before.")


def _check_causes(state: Node, catch: Node, report: Report) -> None:
    """Report kinds of errors that nothing in the state can cause."""
    work = work_of(state)
    causes = (
        _Cause("deadline", state.get("ask", "deadline_s") is not None, "a deadline_s"),
        _Cause("max_visits", bool(state.given("max_visits")), "max_visits"),
        _Cause("branch", "parallel" in work or "for_each" in work, "branches"),
        _Cause("workflow", "workflow" in work, "a workflow"),
        _Cause("handler", has_handler(state), "a handler"),
        _Cause("model", any(key in work for key in _SPENDING if key != "tool"), "an agent"),
    )
    for kind in catch.texts("on"):
        for cause in causes:
            if kind.value == cause.kind and not cause.is_there:
                message = f'nothing here fails with "{cause.kind}": that takes {cause.needed}.'
                report.warning(kind, message)


def _check_retry(state: Node, report: Report) -> None:
    retry = state.object("retry")
    if retry is None:
        return
    kinds, attempts = retry.get("on"), retry.number("max_attempts")
    if kinds is not None and kinds.kind == "array" and not kinds.items:
        report.warning(
            kinds, "an empty list tries nothing again.", "Leave it out for the usual ones."
        )
    if attempts is not None and attempts.value == 1:
        report.warning(attempts, "one attempt is the first one: nothing is tried again.")


# --- tools and questions ------------------------------------------------------------------------


_FOR_AGENTS: Final = {
    REQUEST_USERS_INPUT: 'a state asks with "ask"',
    PROPOSE_PLAN: "they propose a plan",
    DELEGATE: 'a state has an "agent" of its own',
    RUN_WORKFLOW: 'a state has a "workflow"',
}


def _check_tool(state: Node, known: Known, report: Report) -> None:
    tool = state.text("tool")
    if tool is None:
        return
    if tool.value in _FOR_AGENTS:
        report.error(tool, f'"{tool.value}" is for agents: {_FOR_AGENTS[tool.value]}.')
        return
    if known.tools is None:
        return
    if tool.value not in known.tools:
        unknown(tool, "tool", known.tools, report)
        return
    arguments = state.get("arguments")
    if arguments is not None and arguments.kind != "object":
        return
    if arguments is None:
        arguments = replace(tool, kind="object", value={})
    what = f'the tool "{clip(tool.value)}"'
    parameters = known.tools[tool.value].parameters
    check_value(arguments, parameters, report, what=what, has_templates=True)


def _check_ask(state: Node, report: Report) -> None:
    ask = state.object("ask")
    if ask is None:
        return
    schema, default = ask.object("schema"), ask.get("default")
    choices = ask.texts("choices")
    if schema is not None:
        check_schema(schema, report)
    if schema is not None and choices:
        message = 'an answer is one of "choices" or fits a "schema": expected one of the two.'
        report.error(ask.members["schema"], message)
    _check_repeated(choices, report)
    if default is not None and default.kind != "null":
        is_open = any("${" in choice.value for choice in choices)
        known = [choice.value for choice in choices]
        if choices and not is_open and default.value not in known:
            hint = report.near(default.value, known) if default.kind == "string" else ""
            report.error(default, f"the default {shown(default)} is none of the choices.", hint)
        elif schema is not None:
            check_value(default, schema.value, report, what="the schema", has_templates=False)
    _check_timeout(ask, default is not None and default.kind != "null", report)


def _check_repeated(choices: tuple[Node, ...], report: Report) -> None:
    lines: dict[str, int] = {}
    for choice in choices:
        if choice.value in lines:
            message = (
                f'the choice "{clip(choice.value)}" stands on line {lines[choice.value]} already.'
            )
            report.warning(choice, message)
        lines.setdefault(choice.value, choice.line)


def _check_timeout(ask: Node, has_default: bool, report: Report) -> None:
    then, to = ask.text("on_timeout"), ask.given("to")
    chosen = "wait" if then is None else then.value
    where = ask if then is None else then
    if chosen == "default" and not has_default:
        report.error(where, '"on_timeout": "default" needs a "default".')
    if chosen == "goto" and not to:
        report.error(where, '"on_timeout": "goto" needs "to", the state to go to.')
    if chosen != "goto" and to:
        report.error(to, '"to" needs "on_timeout": "goto".')
    if then is not None and not ask.given("deadline_s"):
        report.warning(then, 'without a "deadline_s" the question stays open: there is no timeout.')


# --- branches -----------------------------------------------------------------------------------


def _check_parallel(state: Node, report: Report) -> None:
    listed = state.get("parallel")
    if listed is None or listed.kind != "array":
        return
    if not listed.items:
        report.error(listed, "expected at least one branch, found an empty list.")
    lines: dict[str, int] = {}
    for number, branch in enumerate(listed.items, 1):
        if branch.kind not in ("string", "object"):
            continue
        name = branch_name(branch, number)
        where = branch.text("name") or branch.text("state") or branch
        hint = 'Tell them apart with a "name".'
        if _NOT_IN_BRANCHES & set(name):
            message = (
                f'"{clip(name)}" cannot name a branch: expected a name without blanks and slashes.'
            )
            report.error(where, message, 'Give it another "name".')
        elif name in lines:
            first = lines[name]
            message = f'a second branch named "{clip(name)}", the first is on line {first}.'
            report.error(where, message, hint)
        lines.setdefault(name, branch.line)
    _check_join(state, len(listed.items), report)


def _check_join(state: Node, count: int | None, report: Report) -> None:
    join = state.number("join")
    if join is None or not isinstance(join.value, int):
        return
    if join.value <= 0:
        report.error(join, f"expected a number above 0, found {join.value}.")
    elif count is not None and join.value > max(count, 1):
        there = "there is one branch" if count == 1 else f"there are {count} branches"
        report.error(join, f"{there}: {join.value} of them can never be done.")


def _check_for_each(state: Node, names: Names, report: Report) -> None:
    each = state.object("for_each")
    if each is None:
        return
    _check_join(state, None, report)
    items = each.text("items")
    first, *rest = ("",) if items is None else items.value.split(".")
    if items is None or first != "variables" or len(rest) != 1 or rest[0] not in names.variables:
        return
    value = names.variables[rest[0]].node
    if value.kind != "array":
        message = (
            f"expected the path of a list: the variable holds {shown(value)} on line {value.line}."
        )
        report.error(items, message)


def _check_branch(holder: Node, scope: Scope, report: Report) -> None:
    state, listed = holder.given("state"), holder.given("states")
    if state and listed:
        message = 'a branch begins at a "state" or has "states" of its own, not both.'
        report.error(listed, message)
    elif not state and not listed:
        report.error(holder, 'a branch needs a "state" to begin at, or "states" of its own.')
    own = {name.value for node in holder.objects("contexts") if (name := node.text("name"))}
    for shared in holder.texts("shared"):
        if shared.value in own:
            message = f'the context "{clip(shared.value)}" is the branch\'s own: it is not shared.'
            report.error(shared, message)
        elif shared.value not in scope.contexts:
            unknown(shared, "context", scope.contexts, report)
    for number, node in enumerate(holder.objects("states")):
        name, output = node.text("name"), node.given("input")
        if name is not None and name.value == STOP and number == 0:
            report.error(name, f'a branch that begins at "{STOP}" does nothing.')
        elif name is not None and name.value == STOP and output:
            message = 'the result of a branch is its "output", not the "input" of its state "stop".'
            report.error(output, message)


# --- sub-workflows ------------------------------------------------------------------------------


def _check_workflow(state: Node, known: Known, report: Report) -> None:
    name = sub_workflow_name(state)
    if name is not None and name.value == known.own_name:
        message = f'the workflow "{clip(name.value)}" would run itself inside itself, without end.'
        report.error(name, message)
    elif name is not None and known.workflows is not None and name.value not in known.workflows:
        unknown(name, "workflow", known.workflows, report)
    elif name is not None and (circle := _circle(name.value, known)):
        shown_circle = " -> ".join(map(clip, circle))
        report.error(name, f"these workflows would run each other without end: {shown_circle}.")
    output = state.object("workflow", "output")
    for member in () if output is None else output.members.values():
        path = member.node
        if path.kind != "string":
            continue
        first, *rest = path.value.split(".")
        if first not in _SUB_ROOTS:
            expected = 'expected "output" or a path such as "common_data.report"'
            message = f'{expected}, found "{clip(path.value)}".'
            report.error(path, message, report.near(first, _SUB_ROOTS))
        elif not all(rest):
            report.error(path, f'a part of the path "{clip(path.value)}" is empty.')


def _circle(first: str, known: Known) -> list[str]:
    """Return a circle of workflows that running `first` here leads into, an empty list for none."""
    path, done = [known.own_name, first], set[str]()
    todo = [iter(known.runs(first))]
    while todo:
        name = next(todo[-1], None)
        if name is None:
            todo.pop()
            done.add(path.pop())
        elif name in path:
            return [*path[path.index(name) :], name]
        elif name not in done:
            path.append(name)
            todo.append(iter(known.runs(name)))
    return []

"""The kinds of work besides an agent's turn: tools, questions, branches and sub-workflows."""

from typing import Final

from msgspec.structs import replace

from midstream.language.json_text import Node
from midstream.language.lint_names import (
    Known,
    Names,
    Scope,
    branches_of,
    is_given,
    items_of,
    number_of,
    object_of,
    text_of,
    texts_of,
    unknown,
)
from midstream.language.lint_schema import check_schema, check_value
from midstream.language.lint_text import ROOTS
from midstream.language.lint_writing import branch_name
from midstream.language.names import REQUEST_USERS_INPUT, STOP
from midstream.language.shape import Report, clip, shown

_NOT_IN_BRANCHES: Final = frozenset(" \t\n\r/")
_SUB_ROOTS: Final = ("output", *ROOTS)
"""What the values of a sub-workflow's `output` may begin with."""


def check_work(state: Node, scope: Scope, names: Names, known: Known, report: Report) -> None:
    """Report what is wrong with what a state does."""
    schema = object_of(state, "output_schema")
    if schema is not None:
        check_schema(schema, report)
    _check_tool(state, known, report)
    _check_ask(state, report)
    _check_parallel(state, report)
    _check_for_each(state, names, report)
    for holder in branches_of(state):
        _check_branch(holder, scope, report)
    _check_workflow(state, known, report)


# --- tools and questions ------------------------------------------------------------------------


def _check_tool(state: Node, known: Known, report: Report) -> None:
    tool = text_of(state, "tool")
    if tool is None:
        return
    if tool.value == REQUEST_USERS_INPUT:
        message = f'"{REQUEST_USERS_INPUT}" is for agents: a state asks with "ask".'
        report.error(tool, message)
        return
    if known.tools is not None and tool.value not in known.tools:
        unknown(tool, "tool", known.tools, report)
        return
    spec = known.specs.get(tool.value)
    arguments = state.get("arguments")
    if spec is None or (arguments is not None and arguments.kind != "object"):
        return
    if arguments is None:
        arguments = replace(tool, kind="object", value={})
    what = f'the tool "{clip(tool.value)}"'
    check_value(arguments, spec.parameters, report, what=what, has_templates=True)


def _check_ask(state: Node, report: Report) -> None:
    ask = object_of(state, "ask")
    if ask is None:
        return
    schema, default = object_of(ask, "schema"), ask.get("default")
    choices = texts_of(ask, "choices")
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
    then, to = text_of(ask, "on_timeout"), ask.members.get("to")
    chosen = "wait" if then is None else then.value
    where = ask if then is None else then
    if chosen == "default" and not has_default:
        report.error(where, '"on_timeout": "default" needs a "default".')
    if chosen == "goto" and not is_given(to):
        report.error(where, '"on_timeout": "goto" needs "to", the state to go to.')
    if chosen != "goto" and is_given(to):
        report.error(to, '"to" needs "on_timeout": "goto".')
    if then is not None and not is_given(ask.members.get("deadline_s")):
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
        where = text_of(branch, "name") or text_of(branch, "state") or branch
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
    join = number_of(state, "join")
    if join is None or not isinstance(join.value, int):
        return
    if join.value <= 0:
        report.error(join, f"expected a number above 0, found {join.value}.")
    elif count is not None and join.value > max(count, 1):
        there = "there is one branch" if count == 1 else f"there are {count} branches"
        report.error(join, f"{there}: {join.value} of them can never be done.")


def _check_for_each(state: Node, names: Names, report: Report) -> None:
    each = object_of(state, "for_each")
    if each is None:
        return
    _check_join(state, None, report)
    items = text_of(each, "items")
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
    state, listed = holder.members.get("state"), holder.members.get("states")
    if is_given(state) and is_given(listed):
        message = 'a branch begins at a "state" or has "states" of its own, not both.'
        report.error(listed, message)
    elif not is_given(state) and not is_given(listed):
        report.error(holder, 'a branch needs a "state" to begin at, or "states" of its own.')
    own = {name.value for node in items_of(holder, "contexts") if (name := text_of(node, "name"))}
    for shared in texts_of(holder, "shared"):
        if shared.value in own:
            message = f'the context "{clip(shared.value)}" is the branch\'s own: it is not shared.'
            report.error(shared, message)
        elif shared.value not in scope.contexts:
            unknown(shared, "context", scope.contexts, report)
    for number, node in enumerate(items_of(holder, "states")):
        name, output = text_of(node, "name"), node.members.get("input")
        if name is not None and name.value == STOP and number == 0:
            report.error(name, f'a branch that begins at "{STOP}" does nothing.')
        elif name is not None and name.value == STOP and is_given(output):
            message = 'the result of a branch is its "output", not the "input" of its state "stop".'
            report.error(output, message)


# --- sub-workflows ------------------------------------------------------------------------------


def workflows_run(holder: Node) -> list[str]:
    """Return the names of the workflows that the states of a workflow or branch run."""
    found = []
    for state in items_of(holder, "states"):
        name = _sub_name(state)
        found += [] if name is None else [str(name.value)]
        for branch in branches_of(state):
            found += workflows_run(branch)
    return found


def _sub_name(state: Node) -> Node | None:
    sub = object_of(state, "workflow")
    return text_of(state, "workflow") if sub is None else text_of(sub, "name")


def _check_workflow(state: Node, known: Known, report: Report) -> None:
    sub, name = object_of(state, "workflow"), _sub_name(state)
    if name is not None and name.value == known.own_name:
        message = f'the workflow "{clip(name.value)}" would run itself inside itself, without end.'
        report.error(name, message)
    elif name is not None and known.workflows is not None and name.value not in known.workflows:
        unknown(name, "workflow", known.workflows, report)
    elif name is not None and (circle := _circle(name.value, known)):
        shown_circle = " -> ".join(map(clip, circle))
        report.error(name, f"these workflows would run each other without end: {shown_circle}.")
    output = None if sub is None else object_of(sub, "output")
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

"""What is wrong with a workflow file: every problem at once, each where it stands.

A file passes three sieves, and none waits for the one before: is it JSON (`jsontext`), has it the
shape of the types in `spec` (`shape`), does it make sense. The last one is many: its names here, its
states each alone in `lint_states` and `lint_work`, what they read in `lint_text`, where they lead in
`lint_graph`, what flows between them in `lint_data`. A value of the wrong shape is reported once; what
depends on it is left alone.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from midstream.language.json_text import Node
from midstream.language.lint_data import check_readings
from midstream.language.lint_graph import check_transitions
from midstream.language.lint_names import (
    HANDLERS,
    WORK,
    Known,
    Names,
    Runs,
    Scope,
    branches_of,
    check_name,
    is_given,
    items_of,
    object_of,
    text_of,
    unknown,
)
from midstream.language.lint_states import check_budget, check_state_alone
from midstream.language.lint_text import check_path, check_texts
from midstream.language.lint_work import check_work
from midstream.language.lint_writing import check_writings
from midstream.language.names import STOP
from midstream.language.problem import Problem, has_errors
from midstream.language.shape import Report, clip, fit, read_file, shown
from midstream.language.spec import Role, ToolSpec, Workflow

JSON_TYPES = ("string", "number", "integer", "boolean", "object", "array")
"""What the `type` of a workflow's input and output may be."""

_ON_STOP = ("name", "description", "input")


def lint_workflow(
    text: str,
    *,
    file: str,
    roles: Mapping[str, Role],
    handlers: Mapping[str, int] | None,
    tools: Collection[str] | None,
    script_file: str,
    specs: Mapping[str, ToolSpec] | None = None,
    workflows: Collection[str] | None = None,
    own_name: str = "",
    runs: Runs = lambda name: (),
) -> tuple[Workflow | None, tuple[Problem, ...]]:
    """Return the workflow of a file's text and its problems in order; None if one is an error.

    Args:
        text: the file's whole text.
        file: what the problems call the file.
        roles: every role an agent may have, by name.
        handlers: the script's functions with their lines; None when there is no script.
        tools: the names of all tools; None leaves names of tools unchecked.
        script_file: what the problems call the script.
        specs: the tools whose arguments can be checked, by name.
        workflows: the names of all workflows; None leaves names of sub-workflows unchecked.
        own_name: the name other workflows know this one by.
        runs: returns the names of the workflows that one of the others runs.
    """
    root, report = read_file(text, file)
    if root is None:
        return None, report.problems
    fit(root, Workflow, report)
    names = Names(root, report)
    known = Known(
        roles=roles,
        handlers=handlers,
        script_file=script_file,
        tools=tools,
        specs=specs or {},
        workflows=workflows,
        own_name=own_name,
        runs=runs,
    )
    _check_top(root, report)
    _check_contexts(names, report)
    _check_agents(names, known, report)
    for scope in names.scopes:
        for state in scope.nodes:
            _check_state(state, scope, names, known, report)
    check_writings(names, report)
    check_readings(names, report)
    listed = root.get("states")
    if listed is not None and listed.kind == "array":
        check_transitions(names, listed, report)
    problems = report.problems
    if has_errors(problems):
        return None, problems
    return msgspec.convert(root.value, Workflow), problems


# --- the parts ----------------------------------------------------------------------------------


def _check_top(root: Node, report: Report) -> None:
    name = text_of(root, "workflow_name")
    if name is not None:
        check_name(name, "workflow", report)
    for key in ("input", "output"):
        holder = root.get(key)
        type_ = None if holder is None else text_of(holder, "type")
        if type_ is not None and type_.value and type_.value not in JSON_TYPES:
            expected = f"expected one of {', '.join(JSON_TYPES)}, found {shown(type_)}."
            best = report.nearest(type_.value, JSON_TYPES)
            report.error(type_, expected, f'Did you mean "{best}"?' if best else "")
    variables = root.get("variables")
    for member in () if variables is None else variables.members.values():
        if not member.key or "." in member.key:
            message = f'"{clip(member.key)}" cannot name a variable: expected a name without dots.'
            report.error(member, message)
    budget = object_of(root, "budget")
    if budget is not None:
        check_budget(budget, report)


def _check_contexts(names: Names, report: Report) -> None:
    for name, node in _unused(names.contexts, names.agent_nodes, "context"):
        report.warning(node, f'no agent uses the context "{clip(name)}".')
    own = [
        context
        for state in names.every_state
        for holder in branches_of(state)
        for context in items_of(holder, "contexts")
    ]
    for node in (*names.context_nodes, *own):
        longest = node.get("max_length")
        if longest is not None and isinstance(longest.value, int) and longest.value <= 0:
            message = f"expected a number of characters above 0, found {longest.value}."
            report.error(longest, message, "Leave it out for no limit.")
        _check_starting_messages(node, report)


def _unused(named: Mapping[str, Node], users: Iterable[Node], key: str) -> list[tuple[str, Node]]:
    """Return what no user names; nothing where one names what is not there, and may have meant it."""
    used = {text.value for node in users if (text := text_of(node, key))}
    return [item for item in named.items() if item[0] not in used] if used <= named.keys() else []


def _check_starting_messages(context: Node, report: Report) -> None:
    lines: dict[tuple[str, str], int] = {}
    for message in items_of(context, "starting_messages"):
        role, content = text_of(message, "role"), text_of(message, "content")
        if role is None or content is None:
            continue
        first = lines.setdefault((role.value, content.value), message.line)
        if first != message.line:
            report.warning(message, f"the same message stands on line {first} already.")


def _check_agents(names: Names, known: Known, report: Report) -> None:
    for name, node in _unused(names.agents, names.every_state, "agent"):
        report.warning(node, f'no state uses the agent "{clip(name)}".')
    contexts = names.contexts.keys() | names.branch_contexts.keys()
    for node in names.agent_nodes:
        context = text_of(node, "context")
        if context is not None and context.value not in contexts:
            unknown(context, "context", contexts, report)
        role = text_of(node, "agent_role")
        if role is None:
            continue
        if role.value not in known.roles:
            unknown(role, "role", known.roles, report)
        elif known.tools is not None:
            _check_tool_lists(role, known.roles[role.value], known.tools, report)


def _check_tool_lists(where: Node, role: Role, tools: Collection[str], report: Report) -> None:
    lists = (("includedTools", role.includedTools), ("excludedTools", role.excludedTools))
    for key, listed in lists:
        for tool in listed or ():
            if tool not in tools:
                message = f'the role "{clip(where.value)}" names an unknown tool "{clip(tool)}"'
                report.warning(where, f"{message} in {key}.", report.near(tool, tools))


# --- states -------------------------------------------------------------------------------------


def _check_state(state: Node, scope: Scope, names: Names, known: Known, report: Report) -> None:
    name = text_of(state, "name")
    _check_handlers(state, known, report)
    if name is not None and name.value == STOP:
        _check_stop(state, scope, names, report)
        return
    check_state_alone(state, scope, names, report)
    check_work(state, scope, names, known, report)
    check_texts(state, scope, names, known, report)
    if name is None:
        return
    if is_given(input_ := state.members.get("input")):
        message = f'only the state "{STOP}" has an input: the path of the output.'
        report.error(input_, message, "Handlers read run.input and run.common_data.")
    if text_of(state, "agent") is None:
        if is_given(failure := state.members.get("on_failure")):
            report.warning(failure.node, "this state has no agent whose turn could fail.")
        if (awaits := state.get("awaits_input")) is not None and awaits.value is True:
            report.warning(awaits, "this state has no agent that would hear the words.")


def _check_stop(state: Node, scope: Scope, names: Names, report: Report) -> None:
    for key, member in state.members.items():
        if key in _STATE_KEYS and key not in _ON_STOP and is_given(member):
            message = f'the state "{STOP}" ends the run: it cannot have "{key}".'
            report.error(member, message, "Move it to a state that leads to stop.")
    path = text_of(state, "input")
    if path is not None:
        check_path(path, path.value, scope, names, report)


_STATE_KEYS = (
    *WORK,
    *HANDLERS,
    *("prompt", "output_schema", "arguments", "join", "save_as", "transitions", "next", "on_input"),
    *(
        "resume",
        "awaits_input",
        "on_failure",
        "timeout_s",
        "retry",
        "catch",
        "max_visits",
        "budget",
    ),
)


def _check_handlers(state: Node, known: Known, report: Report) -> None:
    handlers, script = known.handlers, known.script_file
    for key in HANDLERS:
        handler = text_of(state, key)
        if handler is None or (handlers is not None and handler.value in handlers):
            continue
        name = clip(handler.value)
        if handlers is None:
            message = f'the handler "{name}" needs a script, and there is none.'
            hint = f"Write `def {name}(run):` in {script}."
        else:
            message = f'{script} has no function "{name}".'
            hint = report.near(handler.value, handlers)
            if (best := report.nearest(handler.value, handlers)) is not None:
                hint = f'Did you mean "{best}" (line {handlers[best]})?'
        report.error(handler, message, hint)

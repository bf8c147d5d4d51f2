"""What is wrong with a workflow file: every problem at once, each where it stands.

A file passes three sieves, and none waits for the one before: is it JSON (`json_text`), has it the
shape of the types in `spec` (`shape`), does it make sense. The last one is many: its names (`lint_scopes`),
its states each alone (`lint_states`), what they read (`lint_text`), where they lead (`lint_graph`), what
flows between them (`lint_data`). A value of the wrong shape is reported once; what depends on it is left
alone.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from midstream.language.errors import clip
from midstream.language.json_text import Node
from midstream.language.lint_data import check_data
from midstream.language.lint_graph import check_transitions
from midstream.language.lint_scopes import (
    HANDLERS,
    Known,
    Names,
    Scope,
    check_name,
    unknown,
)
from midstream.language.lint_states import check_budget, check_state_alone
from midstream.language.lint_text import check_path, check_texts
from midstream.language.names import AGENT_PRESETS, STOP
from midstream.language.problem import Problem, Report, has_errors
from midstream.language.shape import fit, read_file, shown
from midstream.language.spec import Role, State, Workflow

JSON_TYPES = ("string", "number", "integer", "boolean", "object", "array")
"""What the `type` of a workflow's input and output may be."""

_NOT_ON_STOP = {field.name for field in msgspec.structs.fields(State)} - {
    *("name", "description", "input")
}


def lint_workflow(
    text: str, known: Known, *, file: str
) -> tuple[Workflow | None, tuple[Problem, ...]]:
    """Return the workflow of a file's text and its problems in order; None if one is an error.

    `known` is what there is beside the file, which the problems call `file`.
    """
    root, report = read_file(text, file)
    if root is None:
        return None, report.problems
    fit(root, Workflow, report)
    names = Names(root, report)
    _check_top(names, report)
    _check_contexts(names, report)
    _check_agents(names, known, report)
    for scope in names.scopes:
        for state in scope.nodes:
            _check_state(state, scope, names, known, report)
    check_data(names, report)
    listed = root.get("states")
    if listed is not None and listed.kind == "array":
        check_transitions(names, listed, report)
    problems = report.problems
    if has_errors(problems):
        return None, problems
    return msgspec.convert(root.value, Workflow), problems


# --- the parts ----------------------------------------------------------------------------------


def _check_top(names: Names, report: Report) -> None:
    root = names.root
    name = root.text("workflow_name")
    if name is not None:
        check_name(name, "workflow", report)
    for key in ("input", "output"):
        type_ = root.text(key, "type")
        if type_ is not None and type_.value and type_.value not in JSON_TYPES:
            expected = f"expected one of {', '.join(JSON_TYPES)}, found {shown(type_)}."
            best = report.nearest(type_.value, JSON_TYPES)
            report.error(type_, expected, f'Did you mean "{best}"?' if best else "")
    for member in names.variables.values():
        if not member.key or "." in member.key:
            message = f'"{clip(member.key)}" cannot name a variable: expected a name without dots.'
            report.error(member, message)
    budget = root.object("budget")
    if budget is not None:
        check_budget(budget, report)


def _check_contexts(names: Names, report: Report) -> None:
    for name, node in _unused(names.contexts, names.agent_nodes, "context"):
        report.warning(node, f'no agent uses the context "{clip(name)}".')
    for node in names.context_nodes:
        longest = node.number("max_length")
        if longest is not None and isinstance(longest.value, int) and longest.value <= 0:
            message = f"expected a number of characters above 0, found {longest.value}."
            report.error(longest, message, "Leave it out for no limit.")
        _check_starting_messages(node, report)


def _unused(named: Mapping[str, Node], users: Iterable[Node], key: str) -> list[tuple[str, Node]]:
    """Return what no user names; nothing where one names what is not there, and may have meant it."""
    used = {text.value for node in users if (text := node.text(key))}
    return [item for item in named.items() if item[0] not in used] if used <= named.keys() else []


def _check_starting_messages(context: Node, report: Report) -> None:
    lines: dict[tuple[str, str], int] = {}
    for message in context.objects("starting_messages"):
        role, content = message.text("role"), message.text("content")
        if role is None or content is None:
            continue
        first = lines.setdefault((role.value, content.value), message.line)
        if first != message.line:
            report.warning(message, f"the same message stands on line {first} already.")


def _check_agents(names: Names, known: Known, report: Report) -> None:
    for name, node in _unused(names.agents, names.every_state, "agent"):
        report.warning(node, f'no state uses the agent "{clip(name)}".')
    contexts = names.contexts.keys() | names.branch_contexts
    for node in names.agent_nodes:
        context = node.text("context")
        if context is not None and context.value not in contexts:
            unknown(context, "context", contexts, report)
        _check_external(node, known, report)
        role = node.text("agent_role")
        if role is None:
            continue
        if role.value not in known.roles:
            unknown(role, "role", known.roles, report)
        elif known.tools is not None:
            _check_tool_lists(role, known.roles[role.value], known.tools, report)


def _check_external(node: Node, known: Known, report: Report) -> None:
    """Report what an agent without a role needs, and what one that is another program cannot do."""
    acp, role = node.get("acp"), node.text("agent_role")
    if acp is None:
        if role is None or not role.value:
            report.error(node, 'the agent has no "agent_role": expected the name of a role.')
        return
    if node.text("name") is None and role is None:
        report.error(node, 'the agent has no name: expected "name", by which states call it.')
    if acp.kind == "string" and acp.value not in AGENT_PRESETS:
        hint = report.near(acp.value, AGENT_PRESETS)
        known_ones = ", ".join(AGENT_PRESETS)
        report.error(
            acp,
            f'"{clip(acp.value)}" is no external agent that is known: expected {known_ones}, or the '
            'argv of a program, such as ["my-agent", "--acp"].',
            hint,
        )
    elif acp.kind == "array" and not (acp.items and acp.items[0].value):
        report.error(
            acp, 'the command is empty: expected the argv of a program, such as ["my-agent"].'
        )
    of_role = None if role is None else known.roles.get(role.value)
    if of_role is not None and of_role.parsingTools:
        report.error(
            acp,
            f'the role "{clip(role.value if role else "")}" has parsing tools, which another program '
            "cannot call.",
            'Give the state an "output_schema" instead.',
        )


def _check_tool_lists(where: Node, role: Role, tools: Collection[str], report: Report) -> None:
    lists = (("includedTools", role.includedTools), ("excludedTools", role.excludedTools))
    for key, listed in lists:
        for tool in listed or ():
            if tool not in tools:
                message = f'the role "{clip(where.value)}" names an unknown tool "{clip(tool)}"'
                report.warning(where, f"{message} in {key}.", report.near(tool, tools))


# --- states -------------------------------------------------------------------------------------


def _check_state(state: Node, scope: Scope, names: Names, known: Known, report: Report) -> None:
    name = state.text("name")
    _check_handlers(state, known, report)
    if name is not None and name.value == STOP:
        _check_stop(state, scope, names, report)
        return
    check_state_alone(state, scope, names, known, report)
    check_texts(state, scope, names, known, report)
    if name is None:
        return
    if input_ := state.given("input"):
        message = f'only the state "{STOP}" has an input: the path of the output.'
        report.error(input_, message, "Handlers read run.input and run.common_data.")
    if state.text("agent") is None:
        if failure := state.given("on_failure"):
            report.warning(failure.node, "this state has no agent whose turn could fail.")
        if (awaits := state.given("awaits_input")) and awaits.node.value is True:
            report.warning(awaits.node, "this state has no agent that would hear the words.")


def _check_stop(state: Node, scope: Scope, names: Names, report: Report) -> None:
    for key in state.members:
        if key in _NOT_ON_STOP and (member := state.given(key)):
            message = f'the state "{STOP}" ends the run: it cannot have "{key}".'
            report.error(member, message, "Move it to a state that leads to stop.")
    path = state.text("input")
    if path is not None:
        check_path(path, path.value, scope, names, report)


def _check_handlers(state: Node, known: Known, report: Report) -> None:
    handlers, script = known.handlers, known.script_file
    for key in HANDLERS:
        handler = state.text(key)
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

"""What is wrong with a workflow or role file: every problem at once, each where it stands.

A file passes three sieves, and none waits for the one before: is it JSON (`jsontext`), has it the
shape of the types in `spec` (`shape`), do its names and transitions lead anywhere (here and in
`lint_graph`). A value of the wrong shape is reported once; what depends on it is left alone.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeGuard

import msgspec
from msgspec.structs import replace

from midstream.core.jsontext import Member, Node, parse
from midstream.core.lint_graph import check_transitions
from midstream.core.names import STOP, TOOL_NAME, TOOL_NAME_RULE, Json
from midstream.core.problem import Problem, has_errors
from midstream.core.shape import Report, clip, fit, shown, without_schema
from midstream.core.spec import Role, Workflow

FREE_FORM: dict[str, Json] = {"type": "object", "additionalProperties": True}
"""The parameters of a parsing tool that says nothing about them: any object."""

JSON_TYPES = ("string", "number", "integer", "boolean", "object", "array")
"""What the `type` of a workflow's input and output may be."""

OUTPUT_ROOTS = ("common_data", "variables", "input", "resume_input", "last_response")
"""What the path in `stop`'s `input` may begin with. See `midstream.core.paths`."""

_HANDLERS = ("pre_handler", "post_handler", "transition_handler")
_NOT_ON_STOP = ("agent", *_HANDLERS, "next", "on_failure", "awaits_input", "on_input")
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f]")


def lint_workflow(
    text: str,
    *,
    file: str,
    roles: Mapping[str, Role],
    handlers: Mapping[str, int] | None,
    tools: Collection[str] | None,
    script_file: str,
) -> tuple[Workflow | None, tuple[Problem, ...]]:
    """Return the workflow of a file's text and its problems in order; None if one is an error.

    Args:
        text: the file's whole text.
        file: what the problems call the file.
        roles: every role an agent may have, by name.
        handlers: the script's functions with their lines; None when there is no script.
        tools: the names of all tools; None leaves the roles' tool lists unchecked.
        script_file: what the problems call the script.
    """
    parsed = parse(text)
    report = Report(file, parsed.flaws)
    if parsed.root is None:
        return None, report.problems
    root = without_schema(parsed.root)
    fit(root, Workflow, report)
    names = _Names(root, report)
    _check_top(root, report)
    _check_contexts(names, report)
    _check_agents(names, roles, tools, report)
    for node in names.state_nodes:
        _check_state(node, names, report)
        _check_handlers(node, handlers, script_file, report)
    listed = root.get("states")
    if listed is not None and listed.kind == "array":
        check_transitions(listed, names.states, report)
    problems = report.problems
    if has_errors(problems):
        return None, problems
    return msgspec.convert(root.value, Workflow), problems


# --- the names of a workflow ------------------------------------------------------------------


def _text(node: Node, key: str) -> Node | None:
    """Return the value under a key if it is text."""
    value = node.get(key)
    return value if value is not None and value.kind == "string" else None


def _items(root: Node, key: str) -> tuple[Node, ...]:
    """Return the objects of the list under a key; misfits are left out."""
    found = root.get(key)
    return () if found is None else tuple(item for item in found.items if item.kind == "object")


def _agent_key(node: Node) -> Node | None:
    own = _text(node, "name")
    return own if own is not None and own.value else _text(node, "agent_role")


class _Names:
    """What a workflow's parts are called, duplicates reported. The first of two counts here."""

    def __init__(self, root: Node, report: Report) -> None:
        self.root = root
        self.context_nodes = _items(root, "contexts")
        self.agent_nodes = _items(root, "agents")
        self.state_nodes = _items(root, "states")
        self.contexts = _by_name(self.context_nodes, _own_name, "context", report)
        self.agents = _by_name(self.agent_nodes, _agent_key, "agent", report)
        self.states = _by_name(self.state_nodes, _own_name, "state", report)
        variables = root.get("variables")
        self.variables = {} if variables is None else variables.members


def _own_name(node: Node) -> Node | None:
    return _text(node, "name")


def _by_name(
    nodes: Iterable[Node], name_of: Callable[[Node], Node | None], what: str, report: Report
) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for node in nodes:
        name = name_of(node)
        if name is None:
            continue
        _check_name(name, what, report)
        if name.value in found:
            first = found[name.value].line
            message = f'a second {what} named "{clip(name.value)}", the first is on line {first}.'
            report.error(name, message, _ANOTHER_NAME.get(what, "Give it another name."))
        else:
            found[name.value] = node
    return found


_ANOTHER_NAME = {"agent": 'Tell them apart with a "name".'}


def _check_name(name: Node, what: str, report: Report) -> None:
    text: str = name.value
    if not text.strip():
        report.error(name, f"the name of this {what} is empty: expected text.")
    elif text != text.strip() or _NOT_IN_NAMES.search(text):
        report.error(name, f"the name of this {what} has blanks around it or control characters.")
    elif what == "state" and text.startswith("$"):
        report.error(name, 'names that begin with "$" are reserved: expected another name.')


def _unused(named: Mapping[str, Node], users: Iterable[Node], key: str) -> list[tuple[str, Node]]:
    """Return what no user names; nothing where one names what is not there, and may have meant it."""
    used = {text.value for node in users if (text := _text(node, key))}
    return [item for item in named.items() if item[0] not in used] if used <= named.keys() else []


def _unknown(value: Node, what: str, known: Collection[str], report: Report) -> None:
    none = "" if known else f" There is no {what} at all."
    hint = report.near(value.value, known)
    report.error(value, f'there is no {what} "{clip(value.value)}".{none}', hint)


# --- the parts ----------------------------------------------------------------------------------


def _check_top(root: Node, report: Report) -> None:
    name = _text(root, "workflow_name")
    if name is not None:
        _check_name(name, "workflow", report)
    for key in ("input", "output"):
        holder = root.get(key)
        type_ = None if holder is None else _text(holder, "type")
        if type_ is not None and type_.value and type_.value not in JSON_TYPES:
            expected = f"expected one of {', '.join(JSON_TYPES)}, found {shown(type_)}."
            best = report.nearest(type_.value, JSON_TYPES)
            report.error(type_, expected, f'Did you mean "{best}"?' if best else "")
    variables = root.get("variables")
    for member in () if variables is None else variables.members.values():
        if not member.key or "." in member.key:
            message = f'"{clip(member.key)}" cannot name a variable: expected a name without dots.'
            report.error_at_key(member, message)


def _check_contexts(names: _Names, report: Report) -> None:
    for name, node in _unused(names.contexts, names.agent_nodes, "context"):
        report.warning(node, f'no agent uses the context "{clip(name)}".')
    for node in names.context_nodes:
        longest = node.get("max_length")
        if longest is not None and isinstance(longest.value, int) and longest.value <= 0:
            message = f"expected a number of characters above 0, found {longest.value}."
            report.error(longest, message, "Leave it out for no limit.")
        _check_starting_messages(node, report)


def _check_starting_messages(context: Node, report: Report) -> None:
    lines: dict[tuple[str, str], int] = {}
    for message in _items(context, "starting_messages"):
        role, content = _text(message, "role"), _text(message, "content")
        if role is None or content is None:
            continue
        first = lines.setdefault((role.value, content.value), message.line)
        if first != message.line:
            report.warning(message, f"the same message stands on line {first} already.")


def _check_agents(
    names: _Names, roles: Mapping[str, Role], tools: Collection[str] | None, report: Report
) -> None:
    for name, node in _unused(names.agents, names.state_nodes, "agent"):
        report.warning(node, f'no state uses the agent "{clip(name)}".')
    for node in names.agent_nodes:
        context = _text(node, "context")
        if context is not None and context.value not in names.contexts:
            _unknown(context, "context", names.contexts, report)
        role = _text(node, "agent_role")
        if role is None:
            continue
        if role.value not in roles:
            _unknown(role, "role", roles, report)
        elif tools is not None:
            _check_tool_lists(role, roles[role.value], tools, report)


def _check_tool_lists(where: Node, role: Role, tools: Collection[str], report: Report) -> None:
    lists = (("includedTools", role.includedTools), ("excludedTools", role.excludedTools))
    for key, listed in lists:
        for tool in listed or ():
            if tool not in tools:
                message = f'the role "{clip(where.value)}" names an unknown tool "{clip(tool)}"'
                report.warning(where, f"{message} in {key}.", report.near(tool, tools))


def _check_state(node: Node, names: _Names, report: Report) -> None:
    agent = _text(node, "agent")
    if agent is not None and agent.value not in names.agents:
        _unknown(agent, "agent", names.agents, report)
    name = _text(node, "name")
    if name is None:
        return
    if name.value == STOP:
        _check_stop(node, names, report)
        return
    if _is_given(input_ := node.members.get("input")):
        message = f'only the state "{STOP}" has an input: the path of the output.'
        report.error_at_key(input_, message, "Handlers read run.input and run.common_data.")
    if agent is None:
        if _is_given(failure := node.members.get("on_failure")):
            report.warning(failure.node, "this state has no agent whose turn could fail.")
        if (awaits := node.get("awaits_input")) is not None and awaits.value is True:
            report.warning(awaits, "this state has no agent that would hear the words.")


def _is_given(member: Member | None) -> TypeGuard[Member]:
    """Return whether a key says something: it is there and not null or false."""
    return member is not None and member.node.value not in (None, False)


def _check_stop(node: Node, names: _Names, report: Report) -> None:
    for key in _NOT_ON_STOP:
        if _is_given(member := node.members.get(key)):
            message = f'the state "{STOP}" ends the run: it cannot have "{key}".'
            report.error_at_key(member, message, "Move it to a state that leads to stop.")
    path = _text(node, "input")
    if path is None:
        return
    first, *rest = path.value.split(".")
    if first not in OUTPUT_ROOTS:
        message = f'expected a path such as "common_data.summary", found "{clip(path.value)}".'
        report.error(path, message, report.near(first, OUTPUT_ROOTS))
    elif not all(rest):
        report.error(path, f'a part of the path "{clip(path.value)}" is empty.')
    elif first == "variables" and rest and rest[0] not in names.variables:
        _unknown_variable(path, rest[0], names.variables, report)


def _unknown_variable(path: Node, name: str, known: Collection[str], report: Report) -> None:
    report.error(path, f'there is no variable "{clip(name)}".', report.near(name, known))


def _check_handlers(
    node: Node, handlers: Mapping[str, int] | None, script_file: str, report: Report
) -> None:
    for key in _HANDLERS:
        handler = _text(node, key)
        if handler is None or (handlers is not None and handler.value in handlers):
            continue
        name = clip(handler.value)
        if handlers is None:
            message = f'the handler "{name}" needs a script, and there is none.'
            hint = f"Write `def {name}(run):` in {script_file}."
        else:
            message = f'{script_file} has no function "{name}".'
            hint = report.near(handler.value, handlers)
            if (best := report.nearest(handler.value, handlers)) is not None:
                hint = f'Did you mean "{best}" (line {handlers[best]})?'
        report.error(handler, message, hint)


# --- roles --------------------------------------------------------------------------------------


def lint_roles(
    text: str, *, file: str, tools: Collection[str] | None = None
) -> tuple[dict[str, Role], tuple[Problem, ...]]:
    """Return the right roles of a role file by name, and every problem of the file in order.

    A role with an error is left out, the others stay; a file that is not JSON has none. `tools` are
    the names of all tools; None leaves the tool lists unchecked.
    """
    parsed = parse(text)
    report = Report(file, parsed.flaws)
    roles: dict[str, Role] = {}
    if parsed.root is None or parsed.flaws:
        return roles, report.problems
    root = without_schema(parsed.root)
    if root.kind != "object":
        report.error(root, 'expected an object {"NAME": {...}} of roles.')
    for name, member in root.members.items():
        before = report.error_count
        role = _expanded(member.node)
        _check_role_name(member, report)
        fit(role, Role, report)
        _check_parsing_tools(role, report)
        _check_listed_tools(role, tools, report)
        if report.error_count == before:
            roles[name] = msgspec.convert(role.value, Role)
    return roles, report.problems


def _check_role_name(member: Member, report: Report) -> None:
    name = member.key
    if not name.strip() or name != name.strip() or _NOT_IN_NAMES.search(name):
        report.error_at_key(member, f'"{clip(name)}" cannot name a role: expected a plain name.')


def _expanded(role: Node) -> Node:
    """Return the role with parsing tools that are a bare name, or say no parameters, spelled out."""
    tools = role.get("parsingTools")
    if tools is None or tools.kind != "array":
        return role
    items = tuple(map(_spelled_out, tools.items))
    whole = replace(tools, items=items, value=[item.value for item in items])
    member = replace(role.members["parsingTools"], node=whole)
    return replace(
        role,
        members={**role.members, "parsingTools": member},
        value={**role.value, "parsingTools": whole.value},
    )


def _spelled_out(tool: Node) -> Node:
    if tool.kind == "string":
        name = Member(key="name", line=tool.line, column=tool.column, start=tool.start, node=tool)
        value = {"name": tool.value, "parameters": FREE_FORM}
        return replace(tool, kind="object", members={"name": name}, value=value)
    if tool.kind == "object" and "parameters" not in tool.members:
        return replace(tool, value={**tool.value, "parameters": FREE_FORM})
    return tool


def _check_parsing_tools(role: Node, report: Report) -> None:
    lines: dict[str, int] = {}
    for tool in _items(role, "parsingTools"):
        name = _text(tool, "name")
        if name is not None and not TOOL_NAME.fullmatch(name.value):
            message = f'"{clip(name.value)}" cannot name a tool: expected {TOOL_NAME_RULE}.'
            report.error(name, message)
        elif name is not None and name.value in lines:
            first = lines[name.value]
            report.error(
                name, f'a second parsing tool "{name.value}", the first is on line {first}.'
            )
        elif name is not None:
            lines[name.value] = name.line
        parameters = tool.get("parameters")
        if parameters is not None and parameters.kind == "object":
            _check_parameters(parameters, report)


def _check_parameters(schema: Node, report: Report) -> None:
    """A tool's arguments are an object: its schema must say so, or say nothing of it."""
    type_ = schema.get("type")
    if type_ is not None and type_.value != "object":
        report.error(type_, 'the parameters of a tool are an object: expected "type": "object".')
    properties = schema.get("properties")
    if properties is not None:
        fit(properties, dict[str, dict[str, Json]], report)
    required = schema.get("required")
    if required is not None:
        fit(required, tuple[str, ...], report)


def _check_listed_tools(role: Node, tools: Collection[str] | None, report: Report) -> None:
    for key in ("includedTools", "excludedTools"):
        listed = role.get(key)
        for tool in () if listed is None else listed.items:
            if tools is not None and tool.kind == "string" and tool.value not in tools:
                hint = report.near(tool.value, tools)
                report.warning(tool, f'there is no tool "{clip(tool.value)}".', hint)

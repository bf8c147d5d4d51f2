"""What is wrong with a role file: every problem at once, each where it stands."""

from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from midstream.language.errors import clip
from midstream.language.json_text import Member, Node
from midstream.language.lint_schema import check_schema
from midstream.language.names import TOOL_NAME, TOOL_NAME_RULE, UNTYPABLE, Json
from midstream.language.problem import Problem, Report
from midstream.language.role_text import as_json, is_role
from midstream.language.shape import fit, read_file
from midstream.language.spec import Role

FREE_FORM: dict[str, Json] = {"type": "object", "additionalProperties": True}
"""The parameters of a parsing tool that says nothing about them: any object."""


def lint_roles(
    text: str, *, file: str, tools: Collection[str] | None = None
) -> tuple[dict[str, Role], tuple[Problem, ...]]:
    """Return the right roles of a role file by name, and every problem of the file in order.

    A role with an error is left out, the others stay; a file that is not JSON, or by its
    name Markdown with a head, has none. `tools` are
    the names of all tools; None leaves the tool lists unchecked.
    """
    if not is_role(file, text):
        return {}, ()
    root, report = read_file(as_json(file, text), file)
    roles: dict[str, Role] = {}
    if root is None or report.problems:
        return roles, report.problems
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
    if not name.strip() or name != name.strip() or UNTYPABLE.search(name):
        report.error(member, f'"{clip(name)}" cannot name a role: expected a plain name.')


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
    function = tool.get("function") if tool.kind == "object" else None
    if function is not None and function.kind == "object":
        # As providers take it, and as the older program wrote it: what it says stands one deeper.
        ours = {key: m for key, m in function.members.items() if key != "strict"}
        value = {key: each for key, each in function.value.items() if key != "strict"}
        return _spelled_out(replace(function, members=ours, value=value))
    if tool.kind == "object" and "parameters" not in tool.members:
        return replace(tool, value={**tool.value, "parameters": FREE_FORM})
    return tool


def _check_parsing_tools(role: Node, report: Report) -> None:
    lines: dict[str, int] = {}
    for tool in role.objects("parsingTools"):
        name = tool.text("name")
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
    properties, required = schema.get("properties"), schema.get("required")
    fits = properties is None or fit(properties, dict[str, dict[str, Json]], report)
    fits &= required is None or fit(required, tuple[str, ...], report)
    if fits and (type_ is None or type_.value == "object"):
        check_schema(schema, report)


def _check_listed_tools(role: Node, tools: Collection[str] | None, report: Report) -> None:
    for key in ("includedTools", "excludedTools"):
        listed = role.get(key)
        for tool in () if listed is None else listed.items:
            if tools is not None and tool.kind == "string" and tool.value not in tools:
                hint = report.near(tool.value, tools)
                report.warning(tool, f'there is no tool "{clip(tool.value)}".', hint)

"""Templates, expressions and paths in a workflow file: do they parse, is there what they read?"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from midstream.language.errors import clip
from midstream.language.expressions import BadExpression
from midstream.language.expressions import compiled as expression_of
from midstream.language.json_text import Node
from midstream.language.lint_scopes import Known, Names, Scope, branches_of
from midstream.language.names import STOP
from midstream.language.problem import Report
from midstream.language.spec import Role
from midstream.language.templates import ROOTS, BadTemplate
from midstream.language.templates import compiled as template_of

_OF_LAST = ("text", "value", "arguments")
_MEANT = re.compile(
    rf"(?<!\$)\{{\{{?\s*(?P<braced>(?:{'|'.join(ROOTS)})(?:\.[\w.-]+)?)\s*\}}\}}?"
    rf"|\$(?P<bare>(?:{'|'.join(ROOTS)})\b(?:\.\w+)*)"
)
"""What looks like a template of another language: `{input}`, `{{ input }}`, `$input`."""

_PLAIN = {"string": "text", "number": "a number", "integer": "a number", "boolean": "true or false"}


class Reading(NamedTuple):
    """A path that a state reads, and what comes of it when it leads nowhere.

    The state `fails`, or a default stands for it (`has_default`), or it is simply null.
    """

    where: Node
    path: str
    fails: bool = False
    has_default: bool = False
    is_condition: bool = False


def at_column(text: Node, column: int) -> Node:
    """Return the place of a character within a text, its own place where escapes blur it."""
    is_literal = text.end - text.start == len(text.value) + 2
    return replace(text, column=text.column + column) if is_literal else text


# --- what is read -------------------------------------------------------------------------------


def readings(state: Node) -> Iterator[Reading]:
    """Yield every path a state reads, in templates, expressions and by itself.

    Texts that are no templates or expressions yield nothing: they are reported once.
    """
    for text in templates(state):
        try:
            places = template_of(text.value).places
        except BadTemplate:
            continue
        for place in places:
            where, has_default = at_column(text, place.column), place.default is not None
            yield Reading(where, place.path, fails=not has_default, has_default=has_default)
    for path in _given(state.text("for_each", "items")):
        yield Reading(path, path.value, fails=True)
    own = state.text("name")
    for path in _given(state.text("input") if own and own.value == STOP else None):
        yield Reading(path, path.value)
    for when in _conditions(state):
        try:
            names = expression_of(when.value).names
        except BadExpression:
            continue
        for name in sorted(names):
            yield Reading(when, name, is_condition=True)


def templates(state: Node) -> Iterator[Node]:
    """Yield the texts of a state that are templates."""
    yield from _given(state.text("prompt"))
    yield from _deep(state.object("arguments"))
    yield from _given(state.text("ask") or state.text("ask", "question"))
    yield from state.texts("ask", "choices")
    yield from _given(state.text("wait", "until"))
    yield from _deep(state.get("workflow", "input"))
    yield from _deep(state.object("workflow", "variables"))


def _given(node: Node | None) -> Iterator[Node]:
    if node is not None:
        yield node


def _deep(node: Node | None) -> Iterator[Node]:
    """Yield the texts in a value, keys left out."""
    if node is None:
        return
    if node.kind == "string":
        yield node
    for item in node.items:
        yield from _deep(item)
    for member in node.members.values():
        yield from _deep(member.node)


def _conditions(state: Node) -> Iterator[Node]:
    for transition in state.objects("transitions"):
        yield from _given(transition.text("when"))


# --- what is wrong with it ----------------------------------------------------------------------


def check_texts(state: Node, scope: Scope, names: Names, known: Known, report: Report) -> None:
    """Report the templates, expressions and paths of a state that cannot be read."""
    for text in templates(state):
        try:
            template_of(text.value)
        except BadTemplate as wrong:
            report.error(at_column(text, wrong.column), wrong.what, wrong.hint)
        for found in _MEANT.finditer(text.value):
            path = found["braced"] or found["bare"]
            message = f'"{clip(found.group())}" is no template: it is said as it stands.'
            report.warning(
                at_column(text, found.start() + 1), message, f'Write "${{{clip(path)}}}".'
            )
    for when in _conditions(state):
        try:
            expression_of(when.value)
        except BadExpression as wrong:
            report.error(at_column(when, wrong.column), wrong.what, wrong.hint)
    for reading in readings(state):
        check_path(reading.where, reading.path, scope, names, report)
    for holder in branches_of(state):
        output = holder.text("output")
        if output is not None:
            inner = scope.of_branch(holder) or scope
            check_path(output, output.value, inner, names, report)
    _check_last(state, names, known, report)


def check_path(where: Node, path: str, scope: Scope, names: Names, report: Report) -> None:
    """Report a path that cannot lead anywhere."""
    first, *rest = path.split(".")
    if first not in ROOTS:
        message = f'expected a path such as "common_data.summary", found "{clip(path)}".'
        if path.startswith("${") and path.endswith("}"):
            best = clip(path[2:-1])
        else:
            best = report.nearest(first, ROOTS) or f"common_data.{clip(path)}"
        report.error(where, message, f'Did you mean "{best}"?')
    elif not all(rest):
        report.error(where, f'a part of the path "{clip(path)}" is empty.')
    elif first == "variables" and rest:
        is_index = rest[0] == "index" and (scope.is_item or names.has_item_states)
        if rest[0] not in names.variables and not is_index:
            hint = report.near(rest[0], names.variables)
            report.error(where, f'there is no variable "{clip(rest[0])}".', hint)
    elif path == "visits":
        hint = 'Name a state: "visits.start" is how often start was entered.'
        report.error(where, '"visits" alone is no number.', hint)
    elif first == "visits" and rest:
        if rest[0] not in scope.states:
            hint = report.near(rest[0], scope.states)
            report.error(where, f'there is no state "{clip(rest[0])}".', hint)
        elif len(rest) > 1:
            _nothing_inside(where, f"{first}.{rest[0]}", "a number", report)
    elif first == "last" and rest and rest[0] not in _OF_LAST:
        message = f'a last reply has no "{clip(rest[0])}".'
        report.error(where, message, report.near(rest[0], _OF_LAST))
    elif first == "last" and len(rest) > 1 and rest[0] == "text":
        _nothing_inside(where, "last.text", "text", report)
    elif first == "last_response" and rest:
        _nothing_inside(where, first, "text", report)
    elif first == "input" and rest and not (scope.is_item or names.has_item_states):
        kind = names.root.text("input", "type")
        held = _PLAIN.get("string" if kind is None else kind.value)
        is_told = names.root.object("input") is not None and scope.outer is None
        if held is not None and is_told:
            _nothing_inside(where, first, held, report)


def _nothing_inside(where: Node, what: str, held: str, report: Report) -> None:
    report.error(where, f'"{clip(what)}" is {held}: there is nothing inside it.')


def _check_last(state: Node, names: Names, known: Known, report: Report) -> None:
    """Report conditions on arguments that the agent, who just spoke, has no tool to give."""
    agent = state.text("agent")
    node = None if agent is None else names.agents.get(agent.value)
    named = None if node is None else node.text("agent_role")
    role = None if named is None else known.roles.get(named.value)
    if role is None or named is None or state.object("output_schema") is not None:
        return
    for reading in readings(state):
        first, *rest = reading.path.split(".")
        if first == "last" and rest[:1] == ["arguments"] and reading.is_condition:
            _check_argument(reading.where, rest[1:], named.value, role, report)


def _check_argument(where: Node, rest: list[str], name: str, role: Role, report: Report) -> None:
    if not role.parsingTools:
        message = f'the role "{clip(name)}" has no parsing tool: "last.arguments" stays empty.'
        report.warning(
            where, message, 'Give the state an "output_schema", or the role such a tool.'
        )
        return
    properties = [tool.parameters.get("properties") for tool in role.parsingTools]
    known = [key for each in properties if isinstance(each, dict) for key in each]
    is_closed = all(isinstance(each, dict) for each in properties)
    if rest and is_closed and rest[0] not in known:
        message = f'no parsing tool of the role "{clip(name)}" has "{clip(rest[0])}".'
        report.warning(where, message, report.near(rest[0], known))

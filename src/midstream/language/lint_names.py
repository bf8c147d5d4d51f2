"""The parts of a workflow file by name, and the scopes its states lead to each other in.

The states of the workflow are one scope; a branch that has states of its own is another one, inside
the scope of the state it branches from. Nothing leads from one scope to another but a branch.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeAlias, TypeGuard

import msgspec

from midstream.language.json_text import Member, Node
from midstream.language.shape import Report, clip
from midstream.language.spec import Role, ToolSpec

NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f]")
WORK = ("agent", "tool", "ask", "wait", "parallel", "for_each", "workflow")
"""The keys of a state that are work: a state has one of them or none."""

HANDLERS = ("pre_handler", "post_handler", "transition_handler")

_ANOTHER_NAME = {"agent": 'Tell them apart with a "name".'}

Runs: TypeAlias = Callable[[str], Collection[str]]


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What there is beside the file. None: nobody knows, and what names it goes unchecked.

    `handlers` are the script's functions with their lines, None without a script. `specs` are the
    tools whose parameters are known. `own_name` is what other workflows call this one, and `runs`
    returns the names of the workflows that another one runs.
    """

    roles: Mapping[str, Role]
    handlers: Mapping[str, int] | None
    script_file: str
    tools: Collection[str] | None = None
    specs: Mapping[str, ToolSpec] = {}
    workflows: Collection[str] | None = None
    own_name: str = ""
    runs: Runs = lambda name: ()


def text_of(node: Node, key: str) -> Node | None:
    """Return the value under a key if it is text."""
    value = node.get(key)
    return value if value is not None and value.kind == "string" else None


def object_of(node: Node, key: str) -> Node | None:
    """Return the value under a key if it is an object."""
    value = node.get(key)
    return value if value is not None and value.kind == "object" else None


def number_of(node: Node, key: str) -> Node | None:
    """Return the value under a key if it is a number."""
    value = node.get(key)
    return value if value is not None and value.kind == "number" else None


def items_of(node: Node, key: str) -> tuple[Node, ...]:
    """Return the objects of the list under a key; misfits are left out."""
    found = node.get(key)
    return () if found is None else tuple(item for item in found.items if item.kind == "object")


def texts_of(node: Node, key: str) -> tuple[Node, ...]:
    """Return the texts of the list under a key; misfits are left out."""
    found = node.get(key)
    return () if found is None else tuple(item for item in found.items if item.kind == "string")


def is_given(member: Member | None) -> TypeGuard[Member]:
    """Return whether a key says something: it is there and not null, false or empty."""
    if member is None:
        return False
    value = member.node.value
    return value is not None and value is not False and value not in ([], {})


def is_idle(node: Node) -> bool:
    """Return whether a state does nothing at all."""
    return not any(is_given(node.members.get(key)) for key in (*WORK, *HANDLERS, "awaits_input"))


def work_of(state: Node) -> tuple[str, ...]:
    """Return the kinds of work a state has, in the file's order: one, when it is right."""
    return tuple(key for key in state.members if key in WORK and is_given(state.members[key]))


def unknown(value: Node, what: str, known: Collection[str], report: Report) -> None:
    """Report a name nothing has, with the nearest one that something has."""
    none = "" if known else f" There is no {what} at all."
    hint = report.near(value.value, known)
    report.error(value, f'there is no {what} "{clip(value.value)}".{none}', hint)


def check_name(name: Node, what: str, report: Report) -> None:
    """Report a name that cannot be typed or told apart."""
    text: str = name.value
    if not text.strip():
        report.error(name, f"the name of this {what} is empty: expected text.")
    elif text != text.strip() or NOT_IN_NAMES.search(text):
        report.error(name, f"the name of this {what} has blanks around it or control characters.")
    elif what == "state" and text.startswith("$"):
        report.error(name, 'names that begin with "$" are reserved: expected another name.')


def by_name(
    nodes: Iterable[Node], name_of: Callable[[Node], Node | None], what: str, report: Report
) -> dict[str, Node]:
    """Return the parts by name, wrong names reported. Of two with one name the first counts."""
    found: dict[str, Node] = {}
    for node in nodes:
        name = name_of(node)
        if name is None:
            continue
        check_name(name, what, report)
        if name.value in found:
            first = found[name.value].line
            message = f'a second {what} named "{clip(name.value)}", the first is on line {first}.'
            report.error(name, message, _ANOTHER_NAME.get(what, "Give it another name."))
        else:
            found[name.value] = node
    return found


def _own_name(node: Node) -> Node | None:
    return text_of(node, "name")


def _agent_key(node: Node) -> Node | None:
    own = text_of(node, "name")
    return own if own is not None and own.value else text_of(node, "agent_role")


class Scope:
    """States that lead to each other.

    `holder` is the branch that has these states, `state` the one it branches from; both are None for
    the states of the workflow. `contexts` are those an agent may speak in here.
    """

    def __init__(
        self,
        nodes: tuple[Node, ...],
        states: dict[str, Node],
        contexts: Mapping[str, Node],
        *,
        outer: "Scope | None" = None,
        state: Node | None = None,
        holder: Node | None = None,
    ) -> None:
        self.nodes = nodes
        self.states = states
        self.contexts = contexts
        self.outer = outer
        self.state = state
        self.holder = holder
        self.inner: list[Scope] = []
        self._by_holder: dict[int, Scope] = {}
        self._by_state: dict[int, list[Scope]] = {}

    @property
    def is_item(self) -> bool:
        """Return whether `input` is an item here, and `variables.index` the number of it."""
        outer = self.outer is not None and self.outer.is_item
        return outer or (self.holder is not None and "items" in self.holder.members)

    def walk(self) -> "Iterator[Scope]":
        """Yield the scope and all scopes inside it, outer ones first."""
        yield self
        for inner in self.inner:
            yield from inner.walk()

    def add(self, inner: "Scope") -> None:
        """Put a scope into this one."""
        self.inner.append(inner)
        self._by_holder[id(inner.holder)] = inner
        self._by_state.setdefault(id(inner.state), []).append(inner)

    def of_branch(self, holder: Node) -> "Scope | None":
        """Return the scope of a branch, None where it has no states and contexts of its own."""
        return self._by_holder.get(id(holder))

    def of_state(self, state: Node) -> "list[Scope]":
        """Return the scopes of a state's branches."""
        return self._by_state.get(id(state), [])


def branches_of(state: Node) -> tuple[Node, ...]:
    """Return the branches of a state that are written as an object."""
    each = object_of(state, "for_each")
    return (*items_of(state, "parallel"), *(() if each is None else (each,)))


class Names:
    """What a workflow's parts are called, duplicates reported. The first of two counts here.

    `has_item_states` tells that states of the workflow may run as the branch of an item,
    `has_open_contexts` that they may run in a branch with contexts of its own.
    """

    def __init__(self, root: Node, report: Report) -> None:
        self.root = root
        self.agent_nodes = items_of(root, "agents")
        self.context_nodes = items_of(root, "contexts")
        self.contexts = by_name(self.context_nodes, _own_name, "context", report)
        self.agents = by_name(self.agent_nodes, _agent_key, "agent", report)
        nodes = items_of(root, "states")
        states = by_name(nodes, _own_name, "state", report)
        self.scope = Scope(nodes, states, self.contexts)
        _fill(self.scope, report)
        self.scopes = tuple(self.scope.walk())
        self.every_state = tuple(node for scope in self.scopes for node in scope.nodes)
        each = [object_of(node, "for_each") for node in self.every_state]
        self.has_item_states = any(one is not None and "state" in one.members for one in each)
        holders = [holder for node in self.every_state for holder in branches_of(node)]
        own = [context for holder in holders for context in items_of(holder, "contexts")]
        named = [_own_name(context) for context in own]
        self.branch_contexts = {
            name.value: node for name, node in zip(named, own, strict=True) if name
        }
        self.has_open_contexts = any(
            items_of(holder, "contexts") and not items_of(holder, "states") for holder in holders
        )
        variables = root.get("variables")
        self.variables = {} if variables is None else variables.members


def _fill(scope: Scope, report: Report) -> None:
    """Add the scopes of the branches with states of their own."""
    for state in scope.nodes:
        for holder in branches_of(state):
            own = by_name(items_of(holder, "contexts"), _own_name, "context", report)
            nodes = items_of(holder, "states")
            if nodes or own:
                states = by_name(nodes, _own_name, "state", report)
                contexts = {**scope.contexts, **own}
                inner = Scope(nodes, states, contexts, outer=scope, state=state, holder=holder)
                scope.add(inner)
                _fill(inner, report)

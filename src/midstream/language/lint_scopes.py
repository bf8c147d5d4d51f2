"""What the checks of a workflow file look at: its parts by name, its scopes, the ways between its states.

The states of the workflow are one scope; a branch that has states of its own is another one, inside
the scope of the state it branches from. Nothing leads from one scope to another but a branch.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import msgspec

from midstream.language.errors import clip
from midstream.language.expressions import BadExpression, ExpressionFailed, compiled
from midstream.language.json_text import Node
from midstream.language.names import STOP, UNTYPABLE
from midstream.language.problem import Report
from midstream.language.spec import Role, ToolSpec
from midstream.language.walks import reached

WORK = ("agent", "tool", "ask", "wait", "parallel", "for_each", "workflow")
"""The keys of a state that are work: a state has one of them or none."""

HANDLERS = ("pre_handler", "post_handler", "transition_handler")

Runs: TypeAlias = Callable[[str], Collection[str]]


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What there is beside the file. None: nobody knows, and what names it goes unchecked.

    `handlers` are the functions of the script, which problems call `script_file`, with their lines; None
    without a script. `own_name` is what other workflows call this one, and `runs` returns the names of
    the workflows that another one runs.
    """

    roles: Mapping[str, Role]
    handlers: Mapping[str, int] | None
    script_file: str
    tools: Mapping[str, ToolSpec] | None = None
    workflows: Collection[str] | None = None
    own_name: str = ""
    runs: Runs = lambda name: ()


# --- a state ------------------------------------------------------------------------------------


def work_of(state: Node) -> tuple[str, ...]:
    """Return the kinds of work a state has, in the file's order: one, when it is right."""
    return tuple(key for key in state.members if key in WORK and state.given(key))


def has_handler(state: Node) -> bool:
    """Return whether a state runs a function of the script."""
    return any(state.given(key) for key in HANDLERS)


def is_idle(state: Node) -> bool:
    """Return whether a state does nothing at all."""
    return not (work_of(state) or has_handler(state) or state.given("awaits_input"))


def branches_of(state: Node) -> tuple[Node, ...]:
    """Return the branches of a state that are written as an object."""
    each = state.object("for_each")
    return (*state.objects("parallel"), *(() if each is None else (each,)))


def branch_name(branch: Node, number: int) -> str:
    """Return what a branch of a `parallel` state is called: see `midstream.language.plan`."""
    if branch.kind == "string":
        return str(branch.value)
    for key in ("name", "state"):
        name = branch.text(key)
        if name is not None and name.value:
            return str(name.value)
    return f"branch{number}"


def sub_workflow_name(state: Node) -> Node | None:
    """Return the name of the workflow a state runs."""
    return state.text("workflow") or state.text("workflow", "name")


def workflows_run(holder: Node) -> list[str]:
    """Return the names of the workflows that the states of a workflow or branch run."""
    found = []
    for state in holder.objects("states"):
        name = sub_workflow_name(state)
        found += [] if name is None else [str(name.value)]
        for branch in branches_of(state):
            found += workflows_run(branch)
    return found


# --- names --------------------------------------------------------------------------------------


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
    elif text != text.strip() or UNTYPABLE.search(text):
        report.error(name, f"the name of this {what} has blanks around it or control characters.")
    elif what == "state" and text.startswith("$"):
        report.error(name, 'names that begin with "$" are reserved: expected another name.')


def _by_name(nodes: Iterable[Node], what: str, report: Report) -> dict[str, Node]:
    """Return the parts by name, wrong names reported. Of two with one name the first counts."""
    found: dict[str, Node] = {}
    is_agent = what == "agent"
    for node in nodes:
        name = node.text("name")
        if is_agent and (name is None or not name.value):
            name = node.text("agent_role")
        if name is None:
            continue
        check_name(name, what, report)
        if name.value in found:
            first = found[name.value].line
            message = f'a second {what} named "{clip(name.value)}", the first is on line {first}.'
            hint = 'Tell them apart with a "name".' if is_agent else "Give it another name."
            report.error(name, message, hint)
        else:
            found[name.value] = node
    return found


class Scope:
    """States that lead to each other, and the ways between them.

    `holder` is the branch that has these states, None for the states of the workflow. `contexts` are
    those an agent may speak in here, `inner` the scopes of branches of its states.
    """

    def __init__(
        self, holder: Node, contexts: Mapping[str, Node], report: Report, outer: "Scope | None"
    ) -> None:
        self.nodes = holder.objects("states")
        self.states = _by_name(self.nodes, "state", report)
        self.contexts = contexts
        self.outer = outer
        self.holder = None if outer is None else holder
        self.ways = Ways(self.states)
        # By identity: two branches may well say the same.
        self._inner: dict[int, Scope] = {}
        for branch in (branch for state in self.nodes for branch in branches_of(state)):
            own = _by_name(branch.objects("contexts"), "context", report)
            if own or branch.objects("states"):
                self._inner[id(branch)] = Scope(branch, {**contexts, **own}, report, self)

    @property
    def is_item(self) -> bool:
        """Return whether `input` is an item here, and `variables.index` the number of it."""
        outer = self.outer is not None and self.outer.is_item
        return outer or (self.holder is not None and "items" in self.holder.members)

    def walk(self) -> "Iterator[Scope]":
        """Yield the scope and all scopes inside it, outer ones first."""
        yield self
        for inner in self._inner.values():
            yield from inner.walk()

    def of_branch(self, branch: Node) -> "Scope | None":
        """Return the scope of a branch, None where it has no states and contexts of its own."""
        return self._inner.get(id(branch))

    def of_state(self, state: Node) -> "list[Scope]":
        """Return the scopes of a state's branches."""
        return [inner for each in branches_of(state) if (inner := self.of_branch(each)) is not None]


class Names:
    """What a workflow's parts are called, duplicates reported. The first of two counts here.

    `has_item_states` tells that states of the workflow may run as the branch of an item,
    `has_open_contexts` that they may run in a branch with contexts of its own.
    """

    def __init__(self, root: Node, report: Report) -> None:
        self.root = root
        self.agent_nodes = root.objects("agents")
        self.contexts = _by_name(root.objects("contexts"), "context", report)
        self.agents = _by_name(self.agent_nodes, "agent", report)
        self.scope = Scope(root, self.contexts, report, None)
        self.scopes = tuple(self.scope.walk())
        self.every_state = tuple(node for scope in self.scopes for node in scope.nodes)
        self.has_item_states = any(node.get("for_each", "state") for node in self.every_state)
        holders = [branch for node in self.every_state for branch in branches_of(node)]
        own = [context for branch in holders for context in branch.objects("contexts")]
        self.context_nodes = (*root.objects("contexts"), *own)
        self.branch_contexts = {name.value for each in own if (name := each.text("name"))}
        self.has_open_contexts = any(
            branch.objects("contexts") and not branch.objects("states") for branch in holders
        )
        variables = root.get("variables")
        self.variables = {} if variables is None else variables.members


# --- ways ---------------------------------------------------------------------------------------


class Way(NamedTuple):
    """A way to the state that the text `node` names. `key` is the key of the state it belongs to."""

    key: str
    node: Node

    @property
    def target(self) -> str:
        """Return the name of the state it leads to."""
        name: str = self.node.value
        return name


@lru_cache(maxsize=1024)
def constant(when: str) -> bool | None:
    """Return what an expression always is; None when that depends, or it is no expression."""
    try:
        expression = compiled(when)
        return None if expression.names else bool(expression.evaluate({}))
    except (BadExpression, ExpressionFailed):
        return None


def condition(transition: Node) -> bool | None:
    """Return whether a transition is always (True) or never (False) taken; None when it depends."""
    when = transition.get("when")
    if when is None or when.kind == "null":
        return True
    return constant(when.value) if when.kind == "string" else None


def always_taken(state: Node) -> Node | None:
    """Return the first transition that is always taken: what follows it has no say."""
    transitions = state.objects("transitions")
    return next((each for each in transitions if condition(each) is True), None)


def stops(state: Node) -> bool:
    """Return whether the run ends behind a state that says nothing of where to go."""
    return state.text("next") is None and always_taken(state) is None


def written_ways(state: Node) -> Iterator[Way]:
    """Yield every way a state has written down, taken or not; those into branches left out."""
    written = (
        *(("transitions", each.text("to")) for each in state.objects("transitions")),
        ("next", state.text("next")),
        ("on_failure", state.text("on_failure")),
        *(("catch", each.text("to")) for each in state.objects("catch")),
        ("ask", state.text("ask", "to")),
        ("resume", state.text("resume")),
    )
    return (Way(key, target) for key, target in written if target is not None)


def _taken_ways(state: Node) -> Iterator[Way]:
    certain = always_taken(state)
    dead = {
        id(each.get("to"))
        for each in state.objects("transitions")
        if condition(each) is False or (certain is not None and each.start > certain.start)
    }
    for way in written_ways(state):
        is_passed = way.key == "next" and certain is not None
        is_idle = way.key == "on_failure" and state.text("agent") is None
        if id(way.node) not in dead and not is_passed and not is_idle:
            yield way


def branch_ways(state: Node) -> Iterator[Way]:
    """Yield the ways into branches that begin at a state of the same scope."""
    yield from (Way("branch", name) for name in state.texts("parallel"))
    for branch in branches_of(state):
        target = branch.text("state")
        if target is not None:
            yield Way("branch", target)


class Ways:
    """The ways between the states of one scope: `out` of each, those that can be taken, and those into
    its branches."""

    def __init__(self, states: Mapping[str, Node]) -> None:
        self.states = states
        self.out = {
            name: () if name == STOP else tuple(_taken_ways(state))
            for name, state in states.items()
        }
        self.into_branches = {name: tuple(branch_ways(state)) for name, state in states.items()}

    def targets(self, name: str, *, has_branches: bool = True, has_words: bool = True) -> list[str]:
        """Return the names of what may come after a state, `stop` included.

        Without `has_words` it is left out where words of the user lead.
        """
        if name == STOP:
            return []
        found = [way.target for way in self.out[name] if has_words or way.key != "resume"]
        if has_branches:
            found += [way.target for way in self.into_branches[name]]
        return [*found, STOP] if stops(self.states[name]) else found

    def reached(
        self, roots: Iterable[str], *, has_branches: bool = True, has_words: bool = True
    ) -> dict[str, None]:
        """Return the names of the states that can be reached from some, these included."""

        def ahead(name: str) -> list[str]:
            found = self.targets(name, has_branches=has_branches, has_words=has_words)
            return [target for target in found if target in self.states]

        return reached((name for name in roots if name in self.states), ahead)

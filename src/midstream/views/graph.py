"""The machine of a workflow as data: its states, and where each leads and why.

What is drawn, explained and counted is read off this, so that the pictures agree. Where a handler
leads is read off its script (`targets_of`); what cannot be read is an edge to nowhere: target "".
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec

from midstream.language.names import INTERRUPTED, RESUME, START, STOP, Policy
from midstream.language.plan import branches_of, sub_workflow, wait_of
from midstream.language.spec import Ask, Branch, Definition, ForEach, State, Workflow
from midstream.views.amounts import seconds_words
from midstream.views.cells import one_line

NodeKind: TypeAlias = Literal[
    "agent", "tool", "ask", "wait", "parallel", "for_each", "workflow", "code", "pass", "stop"
]
"""What a state does: its work; `code` has handlers alone, `pass` nothing at all."""

EdgeKind: TypeAlias = Literal[
    "next", "transition", "handler", "failure", "catch", "timeout", "resume", "branch"
]
"""Why a state leads to another. `branch`: it is begun there, and comes back."""

MAX_DEPTH = 4
"""How many branches and sub-workflows within each other are looked into."""


class Edge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """From a state to another. `label` says when, "" always.

    `target` "" is not known before it runs; `$interrupted` is wherever the user's words cut it.
    """

    source: str
    target: str
    kind: EdgeKind
    label: str = ""


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A state. `work` says in a few words what it does, `groups` are the machines within it."""

    name: str
    kind: NodeKind
    work: str = ""
    description: str = ""
    handlers: tuple[str, ...] = ()
    groups: "tuple[Group, ...]" = ()
    output: str = ""


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A machine within a state: a branch, what is done for each item, a sub-workflow."""

    name: str
    kind: Literal["branch", "item", "workflow"]
    graph: "Graph"


class Graph(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A machine. `entry` is where it begins, `resume` where unasked words lead by default, "" nowhere."""

    name: str
    entry: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    description: str = ""
    resume: str = ""

    def node(self, name: str) -> Node | None:
        """Return the state of that name."""
        return next((node for node in self.nodes if node.name == name), None)

    def exits(self, name: str) -> tuple[Edge, ...]:
        """Return where a state leads, in the order in which it is decided."""
        return tuple(edge for edge in self.edges if edge.source == name)


def graph_of(definition: Definition) -> Graph:
    """Return the machine of a workflow, with the branches and sub-workflows within it."""
    return _of_definition(definition, (definition.workflow.workflow_name,))


def _of_definition(definition: Definition, above: tuple[str, ...]) -> Graph:
    workflow = definition.workflow
    return _Reader(definition, above).graph(
        workflow.workflow_name,
        workflow.states,
        entry=START,
        resume=default_resume(workflow),
        description=workflow.description,
    )


def default_resume(workflow: Workflow) -> str:
    """Return where unasked words lead from states that do not say so, "" where nothing halts."""
    policies: Iterable[Policy] = (
        state.on_input or workflow.on_input for state in workflow.states if state.name != STOP
    )
    if not any(policy in ("interrupt", "queue") for policy in policies):
        return ""
    return RESUME if any(state.name == RESUME for state in workflow.states) else START


class _Reader:
    """Reads machines off one definition. `above` names what they stand in, against endless nesting."""

    def __init__(self, definition: Definition, above: tuple[str, ...]) -> None:
        self._definition = definition
        self._above = above

    def graph(
        self,
        name: str,
        states: tuple[State, ...],
        *,
        entry: str,
        resume: str = "",
        description: str = "",
    ) -> Graph:
        if not any(state.name == STOP for state in states):
            states = (*states, State(name=STOP))
        return Graph(
            name=name,
            entry=entry,
            nodes=tuple(self._node(state) for state in states),
            edges=tuple(edge for state in states for edge in self._edges(state)),
            description=description,
            resume=resume,
        )

    def _node(self, state: State) -> Node:
        return Node(
            name=state.name,
            kind=kind_of(state),
            work=work_words(state),
            description=one_line(state.description),
            handlers=handlers_of(state),
            groups=self._groups(state) if len(self._above) < MAX_DEPTH else (),
            output=(state.input or "") if state.name == STOP else "",
        )

    def _groups(self, state: State) -> tuple[Group, ...]:
        found: list[Group] = []
        for branch in branches_of(state):
            if branch.states:
                inner = self._inner(branch.name, branch)
                found.append(Group(name=branch.name, kind="branch", graph=inner))
        if state.for_each is not None and state.for_each.states:
            inner = self._inner(state.for_each.items, state.for_each)
            found.append(Group(name=state.for_each.items, kind="item", graph=inner))
        sub = sub_workflow(state)
        known = self._definition.workflows
        if sub is not None and sub.name in known and sub.name not in self._above:
            inner = _of_definition(known[sub.name], (*self._above, sub.name))
            found.append(Group(name=sub.name, kind="workflow", graph=inner))
        return tuple(found)

    def _inner(self, name: str, branch: Branch | ForEach) -> Graph:
        reader = _Reader(self._definition, (*self._above, ""))
        names = {state.name for state in branch.states}
        return reader.graph(
            name,
            branch.states,
            entry=branch.states[0].name,
            resume=RESUME if RESUME in names else "",
        )

    def _edges(self, state: State) -> tuple[Edge, ...]:
        if state.name == STOP:
            return ()
        found = [*_begun(state), *self._onward(state), *_otherwise(state)]
        return tuple(dict.fromkeys(found))

    def _onward(self, state: State) -> list[Edge]:
        handler = state.transition_handler
        if handler is None:
            return _chosen(state, is_otherwise=False)
        targets = targets_of(self._definition.script, handler)
        found = [_edge(state, name, "handler", f"by {handler}") for name in targets.names]
        declines = targets.may_decline
        if not targets.is_certain:
            found.append(_edge(state, "", "handler", f"{handler} chooses"))
            # Without the script's text nobody knows whether `next` counts: only one given is shown.
            declines = bool(state.transitions) or state.next is not None
        return [*found, *_chosen(state, is_otherwise=bool(found))] if declines else found


def _edge(state: State, target: str, kind: EdgeKind, label: str = "") -> Edge:
    return Edge(source=state.name, target=target, kind=kind, label=label)


def _begun(state: State) -> list[Edge]:
    """Return the edges to states of the same machine that branches begin at."""
    found: list[Edge] = []
    for branch in branches_of(state):
        if branch.state is not None:
            label = "a branch" if branch.name == branch.state else f"the branch {branch.name}"
            found.append(_edge(state, branch.state, "branch", label))
    if state.for_each is not None and state.for_each.state is not None:
        found.append(_edge(state, state.for_each.state, "branch", "each item"))
    return found


def _chosen(state: State, *, is_otherwise: bool) -> list[Edge]:
    found: list[Edge] = []
    for transition in state.transitions:
        otherwise = "otherwise" if found or is_otherwise else ""
        label = one_line(transition.when) if transition.when is not None else ""
        found.append(_edge(state, transition.to, "transition", label or otherwise))
        if transition.when is None:
            return found
    otherwise = "otherwise" if found or is_otherwise else ""
    return [*found, _edge(state, state.next or STOP, "next", otherwise)]


def _otherwise(state: State) -> list[Edge]:
    """Return where a state leads when something goes wrong, or words come."""
    found: list[Edge] = []
    ask = state.ask
    if isinstance(ask, Ask) and ask.on_timeout == "goto" and ask.to is not None:
        late = f"no answer in {seconds_words(ask.deadline_s or 0)}"
        found.append(_edge(state, ask.to, "timeout", late))
    for catch in state.catch:
        kinds = "any error" if "any" in catch.on else f"error: {', '.join(catch.on)}"
        found.append(_edge(state, catch.to, "catch", kinds))
    if state.on_failure is not None:
        found.append(_edge(state, state.on_failure, "failure", "the turn fails"))
    if state.resume is not None:
        found.append(_edge(state, state.resume, "resume", "on your words"))
    return found


# --- a state in a few words -----------------------------------------------------------------------


def kind_of(state: State) -> NodeKind:
    """Return what a state does."""
    has: Mapping[NodeKind, bool] = {
        "stop": state.name == STOP,
        "agent": state.agent is not None,
        "tool": state.tool is not None,
        "ask": state.ask is not None,
        "parallel": bool(state.parallel),
        "for_each": state.for_each is not None,
        "workflow": state.workflow is not None,
        "wait": state.wait is not None,
        "code": bool(handlers_of(state)),
    }
    return next((kind for kind, is_so in has.items() if is_so), "pass")


def handlers_of(state: State) -> tuple[str, ...]:
    """Return the functions of the script a state runs, in order."""
    named = (state.pre_handler, state.post_handler, state.transition_handler)
    return tuple(name for name in named if name is not None)


def work_words(state: State) -> str:
    """Return a state's work in a few words, "" where it has none."""
    match kind_of(state):
        case "agent":
            begun = "your line, then " if state.awaits_input else ""
            return f"{begun}agent {state.agent}"
        case "tool":
            return f"tool {state.tool}"
        case "ask":
            question = state.ask.question if isinstance(state.ask, Ask) else state.ask or ""
            return f"asks: {one_line(question)}"
        case "wait":
            return _wait_words(state)
        case "parallel":
            apart = any(branch.worktree for branch in branches_of(state))
            where = " (git worktrees)" if apart else ""
            return f"{len(state.parallel)} branches at once{where}, {join_words(state.join)}"
        case "for_each":
            assert state.for_each is not None
            most = state.for_each.max_concurrency
            where = " (git worktrees)" if state.for_each.worktree else ""
            return f"for each of {state.for_each.items}, {most} at once{where}, {join_words(state.join)}"
        case "workflow":
            sub = sub_workflow(state)
            return f"workflow {sub.name}" if sub is not None else ""
        case _:
            return ""


def _wait_words(state: State) -> str:
    wait = wait_of(state)
    if wait.until is not None:
        return f"waits until {one_line(wait.until)}"
    return f"waits {seconds_words(wait.seconds or 0)}"


def join_words(join: Literal["all", "any"] | int) -> str:
    """Return how many branches a state needs, in words."""
    if join == "all":
        return "all must end"
    if join in ("any", 1):
        return "one must end"
    return f"{join} must end"


def target_words(target: str) -> str:
    """Return where an edge leads, in words."""
    if target == INTERRUPTED:
        return "back where it was cut"
    return target or "?"


# --- where a handler leads, read off its syntax tree: nothing of a script is run ---------------------


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler returns. `is_certain`: these names are all it can return.

    `may_decline`: it can end without a name, so that `transitions` or `next` decide.
    """

    names: tuple[str, ...] = ()
    is_certain: bool = False
    may_decline: bool = True


_UNKNOWN = Targets()

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(maxsize=64)
def targets_of(script: str | None, handler: str) -> Targets:
    """Return where the function `handler` of a script's text may lead.

    In a file with a workflow in Python it is the function of a state, which returns others by their names.
    """
    tree = _parsed(script or "")
    states = _states_in(tree)
    function = states.get(handler) or _function(tree, handler)
    if function is None:
        return _UNKNOWN
    names: dict[str, None] = {}
    is_certain, may_decline = True, not _always_leaves(function.body)
    for statement in returns_of(function.body):
        for value in _values(statement.value, function.body):
            target = _target(value, states)
            if target is not None:
                names[target] = None
            elif value is None or (isinstance(value, ast.Constant) and value.value is None):
                may_decline = True
            else:
                is_certain, may_decline = False, True
    return Targets(names=tuple(names), is_certain=is_certain, may_decline=may_decline)


def _target(value: ast.expr | None, states: Mapping[str, Function]) -> str | None:
    """Return the name of the state a returned expression stands for, None where none is known."""
    match value:
        case ast.Constant(value=str(name)):
            return name
        case ast.Name(id=name) if name in states:
            return name
        case ast.Call(func=ast.Name(id="stop") | ast.Attribute(attr="stop")) if states:
            return STOP
        case ast.Attribute(attr="interrupted") if states:
            return INTERRUPTED
    return None


@lru_cache(maxsize=8)
def _parsed(script: str) -> ast.Module:
    try:
        return ast.parse(script)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def _states_in(tree: ast.Module) -> dict[str, Function]:
    """Return the functions that are made states of a workflow in Python: `@flow.state(...)`."""
    return {
        node.name: node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(map(_makes_state, node.decorator_list))
    }


def _makes_state(decorator: ast.expr) -> bool:
    made = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(made, ast.Attribute) and made.attr in ("start", "state", "resume")


def _function(tree: ast.Module, name: str) -> Function | None:
    found: Function | None = None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            found = node
    return None if found is None or found.decorator_list else found


def returns_of(body: list[ast.stmt]) -> Iterator[ast.Return]:
    """Yield a function's own returns in order, those of functions within it left out."""
    todo: list[ast.AST] = [*body]
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            todo = [*ast.iter_child_nodes(node), *todo]


def _values(value: ast.expr | None, body: list[ast.stmt]) -> Iterator[ast.expr | None]:
    """Yield what an expression may come to: both sides of `a if b else c`, what a variable is set to."""
    if isinstance(value, ast.IfExp):
        yield from _values(value.body, body)
        yield from _values(value.orelse, body)
    elif isinstance(value, ast.Name):
        yield from _set_to(value, body)
    else:
        yield value


def _set_to(name: ast.Name, body: list[ast.stmt]) -> list[ast.expr]:
    """Return the plain values a function sets a variable to; the variable itself if others are."""
    found: list[ast.expr] = []
    plain = 0
    for node in ast.walk(ast.Module(body=body, type_ignores=[])):
        if isinstance(node, ast.Name) and node.id == name.id and isinstance(node.ctx, ast.Store):
            plain -= 1
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and any(isinstance(to, ast.Name) and to.id == name.id for to in node.targets)
        ):
            found.append(node.value)
            plain += 1
    return found if found and plain == 0 else [name]


def _always_leaves(body: list[ast.stmt]) -> bool:
    """Return whether no way through the statements goes past their end, as far as can be seen."""
    last = body[-1] if body else None
    if isinstance(last, ast.Return | ast.Raise):
        return True
    if isinstance(last, ast.If):
        return bool(last.orelse) and _always_leaves(last.body) and _always_leaves(last.orelse)
    if isinstance(last, ast.With | ast.AsyncWith):
        return _always_leaves(last.body)
    return False

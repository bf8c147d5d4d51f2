"""A workflow in words: what starts it, what each state does, what can stop it, and what words typed
meanwhile do. Read off the same machine that is drawn (`graph`).
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest

import msgspec

from midstream.core.costs import counted
from midstream.core.decide.transitions import catch_of
from midstream.language.expressions import compiled
from midstream.language.names import INTERRUPTED, STOP, ErrorKind, Json, Policy
from midstream.language.plan import branches_of
from midstream.language.spec import Ask, Budget, Definition, State, Workflow
from midstream.language.walks import circles, reached
from midstream.safety.capability import quoted
from midstream.views.amounts import seconds_words
from midstream.views.cells import clipped, one_line, row_of, wrapped
from midstream.views.graph import (
    Edge,
    Graph,
    NodeKind,
    default_resume,
    graph_of,
    handlers_of,
    kind_of,
    target_words,
    work_words,
)

_NARROW = 72
_COLUMNS = ("state", "what it does", "then", "your words")


class StateWords(msgspec.Struct, frozen=True, kw_only=True):
    """One state in words. `name` has the state and branch it stands in before it: `all/tests/look`."""

    name: str
    does: str
    then: tuple[str, ...]
    on_words: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow in words."""

    name: str
    description: str
    starts: tuple[str, ...]
    agents: tuple[str, ...]
    states: tuple[StateWords, ...]
    leaves: str
    stops: tuple[str, ...]


def explained(definition: Definition) -> Explanation:
    """Return a workflow in words. Its sub-workflows are named, not explained."""
    workflow = definition.workflow
    name = definition.found_as or workflow.workflow_name
    graph = graph_of(definition)
    resume = default_resume(workflow)
    return Explanation(
        name=one_line(name),
        description=one_line(workflow.description),
        starts=tuple(_starts(workflow, one_line(name))),
        agents=tuple(_agents(workflow)),
        states=tuple(_states(workflow.states, graph, workflow.on_input, resume, "")),
        leaves=_leaves(workflow),
        stops=tuple(_stops(workflow, graph)),
    )


# --- the parts ------------------------------------------------------------------------------------------


def _starts(workflow: Workflow, name: str) -> Iterator[str]:
    wanted = workflow.input
    word = one_line(wanted.name).upper() if wanted is not None else "INPUT"
    yield f"`midstream run {name} [{word}]`, or `/workflow {name} [{word}]` in the console."
    if wanted is not None:
        about = f": {one_line(wanted.description)}" if wanted.description else "."
        yield f"Its input is {one_line(wanted.name)} ({one_line(wanted.type)}){about}"
    if workflow.start_condition == "on_user_input":
        yield "Without an input it waits for one: your first line."
    else:
        yield "It begins at once, with or without an input."
    if workflow.variables:
        values = ", ".join(f"{key} = {_shown(value)}" for key, value in workflow.variables.items())
        yield f"`--set NAME=VALUE` changes its variables: {one_line(values)}."


def _shown(value: Json) -> str:
    return clipped(json.dumps(value, ensure_ascii=False), 40)


def _agents(workflow: Workflow) -> Iterator[str]:
    for agent in workflow.agents:
        role = f"the role {agent.agent_role}" if agent.key != agent.agent_role else "a role"
        if agent.is_external:
            program = agent.program if isinstance(agent.program, str) else quoted(agent.program)
            told = f", told the role {agent.agent_role}" if agent.agent_role else ""
            role = f"another program ({program}){told}"
        side = ", as its user" if agent.role == "user" else ""
        where = f"{role} in the conversation {agent.context}{side}"
        yield f"{one_line(agent.key)}: {one_line(where)}."


def _leaves(workflow: Workflow) -> str:
    path = next((state.input for state in workflow.states if state.name == STOP), None)
    if path is None:
        return "Nothing but what it did."
    about = workflow.output.description if workflow.output is not None else ""
    return f"{one_line(path)}: {one_line(about)}" if about else f"{one_line(path)}."


def _states(
    states: Sequence[State], graph: Graph, on_input: Policy, resume: str, prefix: str
) -> Iterator[StateWords]:
    for state in states:
        if state.name == STOP:
            continue
        yield StateWords(
            name=f"{prefix}{one_line(state.name)}",
            does=does(state),
            then=tuple(map(_then, (e for e in graph.exits(state.name) if e.kind != "resume"))),
            on_words=on_words(state, on_input, resume),
        )
        node = graph.node(state.name)
        for group in node.groups if node is not None else ():
            if group.kind != "workflow":
                inner = _inner_states(state, group.name)
                below = f"{prefix}{one_line(state.name)}/"
                below += f"{one_line(group.name)}/" if group.kind == "branch" else ""
                yield from _states(inner, group.graph, on_input, group.graph.resume, below)


def _inner_states(state: State, name: str) -> tuple[State, ...]:
    if state.for_each is not None:
        return state.for_each.states
    return next((b.states for b in branches_of(state) if b.name == name), ())


def does(state: State) -> str:
    """Return what a state does, in sentences."""
    return " ".join(_doing(state)) or "Nothing; it only goes to the next state."


def _doing(state: State) -> Iterator[str]:
    if state.description:
        yield _sentence(one_line(state.description))
    if state.awaits_input:
        yield "Waits for a line of yours."
    if state.pre_handler is not None:
        yield f"Runs {state.pre_handler}."
    yield from _work(state)
    if state.save_as is not None:
        yield f"Saves the result in {one_line(state.save_as)}."
    handlers = [name for name in (state.post_handler, state.transition_handler) if name is not None]
    if handlers:
        yield f"{'Then runs' if kind_of(state) != 'code' else 'Runs'} {' and '.join(handlers)}."
    yield from _bounds(state)


def _work(state: State) -> Iterator[str]:
    match kind_of(state):
        case "agent":
            told = ", told by the prompt" if state.prompt is not None else ""
            form = ", and answers in a given form" if state.output_schema is not None else ""
            yield f"The agent {state.agent} has its turn{told}{form}."
        case "tool":
            given = f" with {', '.join(map(one_line, state.arguments))}" if state.arguments else ""
            yield f"Calls the tool {state.tool}{given}; no model is asked."
        case "ask":
            yield from _question(state)
        case "workflow":
            yield f"Runs the {work_words(state)}."
        case "code" | "pass" | "stop":
            pass
        case _:
            yield _sentence(work_words(state))


def _question(state: State) -> Iterator[str]:
    ask = state.ask if isinstance(state.ask, Ask) else Ask(question=state.ask or "")
    choices = f" ({' / '.join(map(one_line, ask.choices))})" if ask.choices else ""
    form = " The answer must fit a schema." if ask.schema is not None else ""
    yield f'Asks you: "{one_line(ask.question)}"{choices}{form}'
    if ask.deadline_s is None:
        yield "It waits for the answer as long as it takes."
        return
    late = {
        "default": f"{_shown(ask.default)} is used instead",
        "goto": f"it goes to {ask.to}",
        "fail": "the state fails",
        "wait": "the question stays open, and you are notified",
    }[ask.on_timeout]
    yield f"Without one in {seconds_words(ask.deadline_s)}, {late}."


def _bounds(state: State) -> Iterator[str]:
    if state.retry is not None and state.retry.max_attempts > 1:
        yield f"Tried up to {state.retry.max_attempts} times."
    if state.timeout_s is not None:
        yield f"At most {seconds_words(state.timeout_s)}."
    if state.max_visits is not None:
        yield f"Entered at most {_times(state.max_visits)}."
    if state.budget is not None:
        yield f"Budget: {budget_words(state.budget)}."


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!", "。")) else f"{text}."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def budget_words(budget: Budget) -> str:
    """Return a budget in words, such as `$2, 100000 tokens`."""
    parts = [
        f"${budget.usd:g}" if budget.usd is not None else "",
        f"{budget.tokens} tokens" if budget.tokens is not None else "",
        counted(budget.tool_calls, "tool call") if budget.tool_calls is not None else "",
        counted(budget.transitions, "transition") if budget.transitions is not None else "",
        counted(budget.minutes, "minute") if budget.minutes is not None else "",
    ]
    return ", ".join(filter(None, parts)) or "none"


def _then(edge: Edge) -> str:
    target = "itself" if edge.target == edge.source else one_line(target_words(edge.target))
    if not edge.target:
        return one_line(edge.label)
    match edge.kind:
        case "branch":
            return f"begins {one_line(edge.label)} at {target}"
        case "transition" if edge.label and edge.label != "otherwise":
            return f"{target} when {one_line(edge.label)}"
        case "failure" | "catch":
            return f"{target} if {one_line(edge.label)}"
        case _:
            return f"{target} ({one_line(edge.label)})" if edge.label else target


def on_words(state: State, policy: Policy, resume: str) -> str:
    """Return what words typed unasked do in a state.

    Args:
        state: the state.
        policy: the workflow's `on_input`, which counts where the state has none.
        resume: where the workflow's words lead, "" where they stay within a branch.
    """
    chosen = state.on_input or policy
    target = state.resume or resume
    leads = f"it goes {_way(target)}" if target else "it begins again"
    words = {
        "interrupt": f"interrupt it; {leads}",
        "steer": "join the next request",
        "queue": f"wait until it is done; then {leads}",
        "reject": "are refused",
    }[chosen]
    if kind_of(state) == "ask":
        words = f"answer it; others {words}" if chosen == "reject" else "answer it"
    elif state.awaits_input:
        words = f"are what it waits for; then {words}"
    elif state.parallel or state.for_each is not None:
        words += "; @NAME TEXT is for one branch alone"
    return words


_TROUBLE: dict[NodeKind, ErrorKind] = {
    "tool": "tool",
    "parallel": "branch",
    "for_each": "branch",
    "workflow": "workflow",
}
"""The kind of error that the work of a state comes to."""


def _outside_branches(graph: Graph) -> Collection[str]:
    """Return the states the run itself enters: those of branches alone end a branch, not the run."""
    resumes = (edge.target for edge in graph.edges if edge.kind == "resume")
    onward = _onward(edge for edge in graph.edges if edge.kind != "branch")
    starts = [graph.entry, *filter(None, [graph.resume, *resumes])]
    return reached(starts, lambda name: onward.get(name, ()))


def _onward(edges: Iterable[Edge]) -> dict[str, list[str]]:
    """Return what edges lead to, by where they begin."""
    found: dict[str, list[str]] = {}
    for edge in edges:
        found.setdefault(edge.source, []).append(edge.target)
    return found


def _way(target: str) -> str:
    return target_words(target) if target == INTERRUPTED else f"to {target}"


def _stops(workflow: Workflow, graph: Graph) -> Iterator[str]:
    own = _outside_branches(graph)
    enders = [
        one_line(edge.source) for edge in graph.edges if edge.target == STOP and edge.source in own
    ]
    if enders:
        yield f"It ends by itself after {_listed(list(dict.fromkeys(enders)))}."
    elif any(not edge.target for edge in graph.edges):
        yield "It ends where a handler says so."
    else:
        yield "It never ends by itself."
    if workflow.budget is not None:
        yield f"Its budget is {budget_words(workflow.budget)}; used up, you are asked whether to go on."
    for state in workflow.states:
        bounds = " ".join(_bounds(state))
        if bounds:
            yield f"{one_line(state.name)}: {bounds}"
    by_turn = _uncaught(workflow, {"agent": "model"})
    if by_turn:
        yield f"The run fails if the turn of {by_turn} does, such as without a network."
    by_work = _uncaught(workflow, _TROUBLE)
    if by_work:
        yield f"The run fails if the work of {by_work} does."
    if any(map(handlers_of, workflow.states)):
        yield "The run fails if a function of its script raises, unless the state catches it."
    yield from _unbounded(workflow, graph)
    yield "You: Esc (or /stop) halts it until your next words, `midstream stop RUN` ends it."


def _uncaught(workflow: Workflow, trouble: Mapping[NodeKind, ErrorKind]) -> str:
    """Return the states whose work may fail without a way on, "" for none."""
    found = [
        one_line(state.name)
        for state in workflow.states
        if (kind := trouble.get(kind_of(state))) and catch_of(state, kind) is None
    ]
    return _listed(found) if found else ""


def _unbounded(workflow: Workflow, graph: Graph) -> Iterator[str]:
    """Yield what is said of states that can come again without a bound."""
    if workflow.budget is not None:
        return
    bounded = {
        state.name
        for state in workflow.states
        if state.max_visits is not None
        or any(each.when and compiled(each.when).counts_visits for each in state.transitions)
    }
    free = _onward(
        edge
        for edge in graph.edges
        if edge.kind != "resume" and edge.source not in bounded and edge.target not in bounded
    )
    inside = set(chain.from_iterable(circles(free)))
    circling = [name for name in free if name in inside]
    if circling:
        yield (
            f"Nothing in the file bounds how often it goes round through "
            f"{_listed([one_line(name) for name in circling])}: no max_visits, no budget."
        )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


# --- on paper -------------------------------------------------------------------------------------------


def explanation_text(explanation: Explanation, *, width: int = 80) -> str:
    """Return the explanation for a person, in lines of at most `width` columns."""
    about = f": {explanation.description}" if explanation.description else ""
    lines = wrapped(f"{explanation.name}{about}", width, most=20)
    lines += _part("What starts it", explanation.starts, width)
    lines += _part("Who takes part", explanation.agents, width)
    lines += ["", "What each state does", ""]
    lines += _table(explanation.states, width)
    lines += _part("What it produces", (explanation.leaves,), width)
    lines += _part("What can stop it", explanation.stops, width)
    return "\n".join(lines)


def _part(title: str, said: Sequence[str], width: int) -> list[str]:
    lines = ["", title, ""] if said else []
    return lines + [line for sentence in said for line in _hanging("- ", sentence, width, most=20)]


def _hanging(mark: str, text: str, width: int, *, most: int) -> list[str]:
    first, *rest = wrapped(text, width - 2, most=most)
    return [f"{mark}{first}", *(f"  {line}" for line in rest)]


def _table(states: Sequence[StateWords], width: int) -> list[str]:
    if width < _NARROW:
        return _blocks(states, width)
    room = width - 3 * 2
    name = min(max(len(_COLUMNS[0]), *(len(each.name) for each in states)), room // 4)
    does_width = (room - name) * 2 // 5
    then = (room - name - does_width) // 2
    widths = (name, does_width, then, room - name - does_width - then)
    lines = [row_of(_COLUMNS, widths), row_of(("─" * each for each in widths), widths)]
    for each in states:
        columns = (
            wrapped(each.name, name, most=40),
            wrapped(each.does, does_width, most=40),
            [line for way in each.then for line in _hanging("→ ", way, then, most=40)],
            wrapped(each.on_words, widths[-1], most=40),
        )
        lines += [row_of(cells, widths) for cells in zip_longest(*columns, fillvalue="")]
        lines.append("")
    return lines[:-1] if states else lines


def _blocks(states: Sequence[StateWords], width: int) -> list[str]:
    lines: list[str] = []
    for each in states:
        lines.append(clipped(each.name, width))
        said = [each.does, f"Then: {'; '.join(each.then)}", f"Your words {each.on_words}"]
        for sentence in said:
            lines += [f"  {line}" for line in wrapped(sentence, width - 2, most=40)]
        lines.append("")
    return lines[:-1]

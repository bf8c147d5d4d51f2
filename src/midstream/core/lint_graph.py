"""Where a workflow's states lead: transitions to nowhere, states never reached, empty circles.

A state goes on to what its transition_handler returns, else to `next`, else to `stop`. Only a script
knows what a handler returns, so as soon as one can be reached, every state may be.
"""

from collections.abc import Mapping

from midstream.core.jsontext import Node
from midstream.core.names import INTERRUPTED, RESUME, START, STOP
from midstream.core.nearest import nearest
from midstream.core.shape import Report, clip

_ENDS = {START: "where the workflow begins", STOP: "where it ends"}
_WORK = ("agent", "pre_handler", "post_handler", "transition_handler", "awaits_input")


def check_transitions(listed: Node, states: Mapping[str, Node], report: Report) -> None:
    """Report what is wrong with where states lead.

    `listed` is the file's list of states; `states` are those with a name, by name.
    """
    all_known = True
    for node in listed.items:
        for key in ("next", "on_failure"):
            all_known &= _check_target(node, key, states, report)
    has_ends = _check_ends(listed, states, report)
    _check_idle_circles(states, report)
    if all_known and has_ends:
        _check_reachable(states, report)


def _check_target(node: Node, key: str, states: Mapping[str, Node], report: Report) -> bool:
    target = node.get(key)
    if target is None or target.kind != "string":
        return target is None or target.kind == "null"
    if target.value in states or (key == "next" and target.value == INTERRUPTED):
        return True
    hint = report.near(target.value, states)
    report.error(target, f'there is no state "{clip(target.value)}".', hint)
    return False


def _check_ends(listed: Node, states: Mapping[str, Node], report: Report) -> bool:
    missing = [name for name in _ENDS if name not in states]
    for name in missing:
        best = nearest(name, (other for other in states if other not in (*_ENDS, RESUME)))
        hint = f'Add {{"name": "{name}"}}.'
        if best is not None:
            hint = f'Is "{clip(best)}" on line {states[best].line} meant to be "{name}"?'
        report.error(listed, f'the state "{name}" is missing: expected it {_ENDS[name]}.', hint)
    return not missing


def _check_idle_circles(states: Mapping[str, Node], report: Report) -> None:
    """Report each circle of `next` in which no state has anything to do: it would turn for ever."""
    seen: set[str] = set()
    for start in states:
        walk: list[str] = []
        name = start
        while name in states and name not in seen and _is_idle(name, states[name]):
            seen.add(name)
            walk.append(name)
            name = _next_of(states[name])
        if name in walk:
            circle = [*walk[walk.index(name) :], name]
            where = states[name].members["next"].node
            shown = " -> ".join(clip(state) for state in circle)
            report.error(
                where,
                f"a circle in which no state has anything to do: {shown}.",
                "Give one of them an agent or a handler, or let one lead to stop.",
            )


def _is_idle(name: str, node: Node) -> bool:
    given = (node.get(key) for key in _WORK)
    return name != STOP and all(work is None or work.value in (None, False) for work in given)


def _next_of(node: Node) -> str:
    target = node.get("next")
    return target.value if target is not None and target.kind == "string" else STOP


def _check_reachable(states: Mapping[str, Node], report: Report) -> None:
    for name in _reached(states, (START,))[0]:
        target = states[name].get("next")
        if target is not None and target.value == INTERRUPTED:
            message = f'"{INTERRUPTED}" leads nowhere before anything was interrupted.'
            report.warning(target, message, f'It belongs behind the state "{RESUME}".')
    reached, is_certain = _reached(states, (START, RESUME))
    for name, node in states.items() if is_certain else ():
        if name == STOP and name not in reached:
            report.warning(node, 'nothing leads to "stop": the workflow never ends by itself.')
        elif name not in reached:
            report.warning(node, f'nothing leads to the state "{clip(name)}".')


def _reached(states: Mapping[str, Node], roots: tuple[str, ...]) -> tuple[dict[str, None], bool]:
    """Return the states that can be reached, and whether a script cannot make it more."""
    todo = [name for name in roots if name in states]
    reached = dict.fromkeys(todo)
    is_certain = True
    while todo:
        name = todo.pop()
        if name == STOP:
            continue
        node = states[name]
        is_certain &= not _given(node, "transition_handler")
        targets = [_next_of(node)]
        failure = node.get("on_failure")
        if failure is not None and failure.kind == "string" and _given(node, "agent"):
            targets.append(failure.value)
        fresh = [target for target in targets if target in states and target not in reached]
        todo += fresh
        reached |= dict.fromkeys(fresh)
    return reached, is_certain


def _given(node: Node, key: str) -> bool:
    value = node.get(key)
    return value is not None and value.kind == "string"

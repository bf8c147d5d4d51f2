"""Where states lead: ways to nowhere, ways never taken, states never reached, circles without end.

A state goes on to what its transition_handler returns, else to the first of its `transitions` that
is true, else to `next`, else to `stop`. Only a script knows what a handler returns, so as soon as one
can be reached, every state may be.
"""

from collections.abc import Mapping

from midstream.language.errors import clip, nearest
from midstream.language.expressions import BadExpression, compiled
from midstream.language.json_text import Node
from midstream.language.lint_scopes import (
    Names,
    Scope,
    Ways,
    always_taken,
    branch_ways,
    condition,
    is_idle,
    stops,
    written_ways,
)
from midstream.language.names import INTERRUPTED, RESUME, START, STOP
from midstream.language.problem import Report
from midstream.language.walks import circles, reached

_ENDS = {START: "where the workflow begins", STOP: "where it ends"}
_BOUNDS = ("max_visits", "budget", "ask", "awaits_input")
_SPENDING = ("agent", "parallel", "for_each", "workflow")


def check_transitions(names: Names, listed: Node, report: Report) -> None:
    """Report what is wrong with where states lead. `listed` is the file's list of states."""
    all_known = True
    for scope in names.scopes:
        for state in scope.nodes:
            all_known &= _check_targets(state, scope, report)
            _check_order(state, report)
            _check_branch_starts(state, scope.ways, report)
        _check_idle_circles(scope.states, report)
    has_ends = _check_ends(listed, names.scope.states, report)
    if all_known and has_ends:
        has_budget = names.root.object("budget") is not None
        for scope in names.scopes:
            _check_reachable(scope, has_budget, report)


# --- what is written ----------------------------------------------------------------------------


def _check_targets(state: Node, scope: Scope, report: Report) -> bool:
    all_known = True
    for way in written_ways(state):
        may_go_back = way.target.startswith("$") and way.key not in ("on_failure", "ask")
        is_cut = may_go_back and way.target == INTERRUPTED
        is_end = way.target == STOP and scope.outer is not None
        if way.target in scope.states or is_cut or is_end:
            continue
        all_known = False
        shown = clip(way.target)
        if _is_outside(way.target, scope):
            message = f'the state "{shown}" is not one of this branch.'
            report.error(way.node, message, 'A branch ends with "stop"; then its state goes on.')
            continue
        known = [*scope.states, *([INTERRUPTED] if may_go_back else [])]
        report.error(way.node, f'there is no state "{shown}".', report.near(way.target, known))
    all_known &= all(each.text("to") is not None for each in state.objects("transitions"))
    misfits = (state.get("next"), state.get("on_failure"))
    return all_known and all(node is None or node.kind in ("string", "null") for node in misfits)


def _is_outside(name: str, scope: Scope) -> bool:
    outer = scope.outer
    return outer is not None and (name in outer.states or _is_outside(name, outer))


def _check_order(state: Node, report: Report) -> None:
    """Report transitions that are never taken, and cases that none is for."""
    transitions = state.objects("transitions")
    certain = always_taken(state)
    lines: dict[str, int] = {}
    for each in transitions:
        when = each.text("when")
        text = "" if when is None else " ".join(when.value.split())
        if certain is not None and each.start > certain.start:
            message = f"this is never taken: the transition on line {certain.line} always is."
            report.warning(each, message)
        elif condition(each) is False:
            report.warning(when or each, "this is never taken: it is always false.")
        elif text and text in lines:
            message = f"this is never taken: line {lines[text]} asks the same before."
            report.warning(when or each, message)
        elif certain is each and when is not None:
            report.warning(when, "this is always taken: it is always true.", 'Leave out "when".')
        lines.setdefault(text, each.line)
    following = state.text("next")
    if certain is not None and following is not None:
        message = f"this is never taken: the transition on line {certain.line} always is."
        report.warning(following, message)
    elif transitions and stops(state) and not state.given("transition_handler"):
        report.warning(
            transitions[-1],
            "where none of these is true the run ends in stop.",
            'Say so with a last {"to": "stop"}, or where else to go.',
        )


def _check_ends(listed: Node, states: Mapping[str, Node], report: Report) -> bool:
    missing = [name for name in _ENDS if name not in states]
    for name in missing:
        best = nearest(name, (other for other in states if other not in (*_ENDS, RESUME)))
        hint = f'Add {{"name": "{name}"}}.'
        if best is not None:
            hint = f'Is "{clip(best)}" on line {states[best].line} meant to be "{name}"?'
        report.error(listed, f'the state "{name}" is missing: expected it {_ENDS[name]}.', hint)
    return not missing


def _check_branch_starts(state: Node, ways: Ways, report: Report) -> None:
    own = state.text("name")
    for way in branch_ways(state):
        if way.target == STOP:
            report.error(way.node, 'a branch that begins at "stop" does nothing.')
        elif way.target not in ways.states:
            hint = report.near(way.target, ways.states)
            report.error(way.node, f'there is no state "{clip(way.target)}".', hint)
        elif own is not None and own.value in ways.reached((way.target,)):
            message = (
                f'this branch comes back to "{clip(own.value)}", which would branch again in it.'
            )
            report.warning(way.node, message)


def _check_idle_circles(states: Mapping[str, Node], report: Report) -> None:
    """Report each circle in which no state has anything to do or to decide: it would turn for ever."""
    ways = {name: way for name, node in states.items() if (way := _only_way(name, node))}
    for circle in circles({name: [way.value] for name, way in ways.items()}):
        first = circle[-1]
        shown = " -> ".join(map(clip, [first, *circle]))
        report.error(
            ways[first],
            f"a circle in which no state has anything to do: {shown}.",
            "Give one of them an agent or a handler, or let one lead to stop.",
        )


def _only_way(name: str, node: Node) -> Node | None:
    """Return where a state without work leads whatever there is; None: that depends, or to no state."""
    if name == STOP or not is_idle(node) or node.given("max_visits"):
        return None
    for each in node.objects("transitions"):
        is_taken = condition(each)
        if is_taken is not False:
            return each.text("to") if is_taken else None
    return node.text("next")


# --- what can be reached ------------------------------------------------------------------------


def _check_reachable(scope: Scope, has_budget: bool, report: Report) -> None:
    states, ways, is_branch = scope.states, scope.ways, scope.outer is not None
    if not states:
        return
    first = next(iter(states)) if is_branch else START
    if not is_branch:
        _check_way_back(ways, report)
    found = ways.reached((first, RESUME))
    is_certain = not any(states[name].text("transition_handler") for name in found if name != STOP)
    if is_certain:
        for name, node in states.items():
            if name not in found and name != STOP:
                report.warning(node, f'nothing leads to the state "{clip(name)}".')
        _check_ending(ways, (first, RESUME), is_branch, report)
    if not has_budget:
        _check_spending(ways, list(found), report)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(map(clip, names[:8])) + more


def _check_way_back(ways: Ways, report: Report) -> None:
    for name in ways.reached((START,), has_words=False):
        for way in ways.out[name]:
            if way.target == INTERRUPTED and way.key != "resume":
                message = (
                    f'"{INTERRUPTED}" has no state to go back to before anything was interrupted.'
                )
                hint = f'It belongs behind the state "{RESUME}".'
                report.warning(way.node, message, hint)


def _check_ending(ways: Ways, roots: tuple[str, ...], is_branch: bool, report: Report) -> None:
    """Report the states from which the run never comes to `stop`, together."""
    states = ways.states
    found = ways.reached(roots)
    following = {name: ways.targets(name, has_branches=False) for name in found}
    ends = {name for name in found if name == STOP or {STOP, INTERRUPTED} & set(following[name])}
    alone = ways.reached(roots, has_branches=False)
    if not is_branch and not any(name in ends for name in alone):
        message = 'nothing leads to "stop": the workflow never ends by itself.'
        report.warning(states[STOP], message)
        return
    before: dict[str, list[str]] = {}
    for name in found:
        for target in following[name]:
            before.setdefault(target, []).append(name)
    # Backwards from the ends, so that each state is looked at once and not once a way to it.
    ending = reached(ends, lambda name: before.get(name, ()))
    lost = [name for name in states if name in found and name not in ending]
    if lost:
        message = f'no way leads from here to "stop": {_listed(lost)}.'
        report.warning(states[lost[0]], message)


def _check_spending(ways: Ways, found: list[str], report: Report) -> None:
    """Report circles whose states use a model, with nothing that bounds how often."""
    states = ways.states
    ahead = {name: [way.target for way in ways.out[name] if way.key != "resume"] for name in found}
    for circle in circles(ahead):
        nodes = [states[name] for name in circle]
        spends = any(node.given(key) for node in nodes for key in _SPENDING)
        inside = set(circle)
        leaves = any(stops(states[name]) or not inside.issuperset(ahead[name]) for name in circle)
        if not spends or not leaves or any(map(_is_bounded, nodes)):
            continue
        named = [name for name in states if name in inside]
        shown = _listed(named)
        report.warning(
            states[named[0]],
            f"nothing bounds how often the model is asked in this circle: {shown}.",
            'Give a state of it "max_visits" or a "budget", or the workflow a "budget".',
        )


def _is_bounded(state: Node) -> bool:
    """Return whether a state bounds its circle: by itself, by a person, or by what a script knows."""
    has_bound = any(state.given(key) for key in _BOUNDS)
    if has_bound or state.text("transition_handler") is not None:
        return True
    return any(_counts_visits(each) for each in state.objects("transitions"))


def _counts_visits(transition: Node) -> bool:
    when = transition.text("when")
    try:
        return when is not None and compiled(when.value).counts_visits
    except BadExpression:
        return True  # reported already

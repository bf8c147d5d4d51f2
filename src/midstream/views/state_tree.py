"""Where a run stands, as a tree: its states, who is at work in them, what they know and wait for."""

import json
from collections.abc import Iterable, Sequence

import msgspec

from midstream.core.conversation import length, tokens_in
from midstream.core.costs import Cost, costs, counted, in_words, mark_of
from midstream.core.question import Question
from midstream.core.routing import as_typed
from midstream.core.run import Run
from midstream.language.names import Json
from midstream.language.plan import branches_of
from midstream.language.spec import State
from midstream.views.amounts import in_short, token_words
from midstream.views.cells import clipped, one_line
from midstream.views.lanes import about, progress_words, state_of
from midstream.views.run_status import summary_words

_MOST = 20
"""Branches, states, contexts or keys shown of one kind; more are counted."""


class Tree(msgspec.Struct, frozen=True):
    """A line and what stands under it."""

    label: str
    children: "tuple[Tree, ...]" = ()


def tree_lines(tree: Tree, *, width: int) -> list[str]:
    """Return a tree as lines of at most so many cells."""
    return [clipped(line, max(8, width)) for line in _drawn(tree, "", "")]


def _drawn(tree: Tree, head: str, rest: str) -> list[str]:
    found = [f"{head}{tree.label}"]
    for number, child in enumerate(tree.children, 1):
        is_last = number == len(tree.children)
        found += _drawn(
            child, f"{rest}{'└ ' if is_last else '├ '}", f"{rest}{'  ' if is_last else '│ '}"
        )
    return found


def state_tree(run: Run, *, title: str, now: float) -> Tree:
    """Return where a run stands. `title` is its own line; `now` is in seconds since 1970."""
    parts = [
        _states(run, now),
        _questions(run.inbox.open_questions),
        _list("waiting", (one_line(as_typed(r.text, r.to)) for r in run.inbox.undelivered)),
        _agents(run),
        _contexts(run),
        _data(run.common_data),
    ]
    return Tree(title, tuple(part for part in parts if part is not None))


def _states(run: Run, now: float) -> Tree | None:
    if run.definition is None or run.definition.kind == "chat":
        tasks = _branches(run, now)
        return Tree("tasks", tuple(tasks)) if tasks else None
    states = run.plan.states
    visited = [name for name in states if name in run.visits or name == run.visit.state]
    rows = [_state(run, name, now) for name in visited[-_MOST:]]
    progress = progress_words(run)
    # What branches of these began at was visited in them, which the run itself does not count.
    in_branches = {entry for name in visited for entry in _entries(states[name])}
    in_branches |= {name for branch in run.visit.branches.values() for name in branch.visits}
    ahead = len({*states} - {*visited} - in_branches)
    told = [progress, f"{ahead} not visited" if ahead else ""]
    words = " · ".join(part for part in told if part)
    return Tree(f"states{f'  {words}' if words else ''}", tuple(rows))


def _entries(state: State) -> list[str]:
    """Return the states of the workflow at which the branches of a state begin."""
    entries = [branch.state for branch in branches_of(state)]
    if state.for_each is not None:
        entries.append(state.for_each.state)
    return [entry for entry in entries if entry is not None]


def _state(run: Run, name: str, now: float) -> Tree:
    visits = run.visits.get(name, 0)
    times = f"  {counted(visits, 'visit')}" if visits > 1 else ""
    if name != run.visit.state or run.is_over:
        return Tree(f"✓ {name}{times}")
    return Tree(f"▸ {name}{times}  {summary_words(run, now=now)}", tuple(_branches(run, now)))


def _branches(run: Run, now: float) -> list[Tree]:
    """Return the branches of a place: those at work, then how many ended how."""
    living = [branch for branch in run.visit.branches.values() if not branch.is_over]
    rows = [_branch(branch, now) for branch in living[:_MOST]]
    if len(living) > _MOST:
        rows.append(Tree(f"+{len(living) - _MOST} more at work"))
    ended = [branch.status for branch in run.visit.branches.values() if branch.is_over]
    if ended:
        counts = {status: ended.count(status) for status in dict.fromkeys(ended)}
        rows.append(Tree(", ".join(f"{count} {status}" for status, count in counts.items())))
    return rows


def _branch(branch: Run, now: float) -> Tree:
    name = branch.branch.path.rpartition("/")[2]
    item = about(branch.input, branch.variables)
    label = " ".join(part for part in (name, item) if part)
    state = f" [{state_of(branch)}]" if state_of(branch) not in ("", name) else ""
    inner = _branches(branch, now)
    return Tree(f"▌ {label}{state}  {summary_words(branch, now=now)}", tuple(inner))


def _questions(questions: Sequence[Question]) -> Tree | None:
    shown = [q for q in questions if q.kind != "input"]
    return _list(
        "questions",
        (
            " ".join(
                part
                for part in (f"#{q.number}", f"{q.branch} ▌" if q.branch else "", q.agent)
                if part
            )
            + f"  {one_line(q.text)}"
            for q in shown
        ),
    )


def _agents(run: Run) -> Tree | None:
    if run.definition is None:
        return None
    by_agent = {name: Cost() for name in run.plan.agents}
    for (agent, _), cost in costs(run.usage.requests).rows.items():
        by_agent[agent] = by_agent.get(agent, Cost()).plus(cost)
    rows = []
    for name, used in by_agent.items():
        spec = run.plan.agents.get(name)
        who = name if spec is None or spec.agent_role == name else f"{name} ({spec.agent_role})"
        context = "" if spec is None else f" in {spec.context}"
        sent, made = (mark_of(used) + in_short(n) for n in (used.input_tokens, used.output_tokens))
        spent = f"  {counted(used.requests, 'request')} · {sent} in, {made} out · {in_words(used)}"
        rows.append(f"{who}{context}{spent if used.requests else '  not asked yet'}")
    return _list("agents", rows)


def _contexts(run: Run) -> Tree | None:
    rows = []
    for name, messages in run.contexts.items():
        size = sum(map(length, messages))
        words = f"{counted(len(messages), 'message')} · about {token_words(tokens_in(size))}"
        most = run.plan.contexts[name].max_length if name in run.plan.contexts else None
        rows.append(f"{name}  {words}" + (f" · kept to {most:,} characters" if most else ""))
    return _list("contexts", rows)


def _data(data: dict[str, Json]) -> Tree | None:
    return _list("common_data", (f"{key}  {kind_words(value)}" for key, value in data.items()))


def kind_words(value: Json) -> str:
    """Return what a JSON value is, in a few words: a short one itself, else its kind and size."""
    match value:
        case str() if len(value) > 40 or "\n" in value:
            return f"text of {counted(len(value), 'character')}: {one_line(value[:60])}"
        case list():
            return f"list of {len(value)}" if value else "[]"
        case dict():
            keys = ", ".join(list(value)[:5])
            return f"object: {one_line(keys)}{', …' if len(value) > 5 else ''}" if value else "{}"
        case _:
            return one_line(json.dumps(value, ensure_ascii=False))


def _list(title: str, rows: Iterable[str]) -> Tree | None:
    found = [Tree(row) for row in rows]
    if not found:
        return None
    more = len(found) - _MOST
    if more > 0:
        found = [*found[:_MOST], Tree(f"+{more} more")]
    return Tree(title, tuple(found))

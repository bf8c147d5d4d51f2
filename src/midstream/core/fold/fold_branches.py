"""Runs within a run: how they begin, and what they have in common with the run around them."""

from collections.abc import Iterator, Sequence

from msgspec.json import encode
from msgspec.structs import replace

from midstream.core.append_only import logged, relogged
from midstream.core.conversation import USER, Message
from midstream.core.costs import counted
from midstream.core.events import BranchFailed, BranchFinished, BranchStarted, BranchStopped
from midstream.core.fold.fold_contexts import starting_messages
from midstream.core.fold.fold_halts import may_have_happened
from midstream.core.run import (
    CALLED,
    BranchOf,
    Change,
    Inbox,
    Run,
    Trouble,
    Visit,
    definition_of,
    question_of,
    with_inbox,
)
from midstream.core.todo import Todo
from midstream.language.names import IN_WORKTREE, START, Json
from midstream.language.plan import (
    branch_definition,
    branch_of,
    delegated_definition,
    entry_of,
    named_input,
    plan_of,
    resumes_inside,
    with_tools,
)
from midstream.language.spec import Definition, State, SubWorkflow


def with_questions_of(run: Run, after: Inbox, before: Inbox) -> Run:
    """Return the run with what became of the questions of a branch, and with its new ones."""
    changed = {q.id: question_of(after, q.id) or q for q in before.open_questions}
    questions = run.inbox.questions
    for id, question in changed.items():
        # Those that were open are near the end: looking from there keeps long runs cheap.
        place = next(n for n in reversed(range(len(questions))) if questions[n].id == id)
        questions = relogged(questions, place, question)
    new = after.questions[len(before.questions) :]
    for question in new:
        questions = logged(questions, question)
    known = (changed.get(asked.id, asked) for asked in run.inbox.open_questions)
    still_open = tuple(asked for asked in (*known, *new) if asked.is_open)
    return with_inbox(
        run,
        questions=questions,
        open_questions=still_open,
        last_number=max(run.inbox.last_number, after.last_number),
    )


def with_context(run: Run, context: str, messages: Sequence[Message]) -> Run:
    """Return the run with the messages of a context, which its branches may share."""
    branches = {
        name: _heard_too(with_context(branch, context, messages), branch, context)
        if context in branch.branch.shared
        else branch
        for name, branch in run.visit.branches.items()
    }
    contexts = {**run.contexts, context: messages}
    return replace(run, contexts=contexts, visit=replace(run.visit, branches=branches))


def _heard_too(after: Run, before: Run, context: str) -> Run:
    """Return a branch whose external agents have yet to hear what was said in a context it shares."""
    old, new = before.contexts.get(context, ()), after.contexts[context]
    if not after.sessions or old is new:
        return after
    more = max(len(new) - len(old), 1)
    sessions = {
        agent: replace(session, unheard=min(session.unheard + more, len(new)))
        if (spec := after.plan.agents.get(agent)) is not None and spec.context == context
        else session
        for agent, session in after.sessions.items()
    }
    return replace(after, sessions=sessions)


def ended_branch(run: Run, fact: BranchFinished | BranchFailed | BranchStopped) -> Run:
    """Return a branch at its end, with what the run around it needs of it and no more.

    A thousand branches would else keep a thousand copies of what they began with.
    """
    changes: tuple[Change, ...] = ()
    data = run.common_data
    is_unsure = isinstance(fact, BranchFailed) and may_have_happened(run)
    if run.branch.base is not None:
        changes, data = changes_since(run.branch.base, run.common_data), {}
    left = _left_by(run) if run.branch.call_id else None
    run = replace(
        run,
        visit=replace(
            run.visit,
            phase="ended",
            turn=None,
            branches={},
            timers={},
            trouble=Trouble(kind="branch", error="", is_unsure=True) if is_unsure else None,
        ),
        halt=replace(run.halt, cuts=()),
        contexts={},
        sessions={},
        manifest="",
        common_data=data,
        todo=Todo(),
        background=(),
        branch=replace(run.branch, shared=(), base=None, changes=changes),
    )
    match fact:
        case BranchFinished():
            return replace(run, status="finished", output=fact.output)
        case BranchFailed():
            return replace(run, status="failed", error=fact.error, output=left)
        case BranchStopped():
            return replace(run, status="stopped", output=left)


def _left_by(run: Run) -> str:
    """Return what is to be known of a task that was not done to its end: what it did and said last."""
    said = [message for messages in run.contexts.values() for message in messages if message.author]
    own = [message for message in said if message.author != USER]
    parts = []
    if run.usage.tool_calls:
        parts.append(f"It had made {counted(run.usage.tool_calls, 'tool call')}.")
    if any(result.outcome == "unknown" for message in own for result in message.results):
        parts.append("The outcome of one is unknown: verify before repeating.")
    last = next((message for message in reversed(own) if message.text), None)
    if last is not None:
        cut = ", interrupted" if last.interrupted else ""
        parts.append(f"Its last words{cut}: {last.text}")
    return " ".join(parts)


def started_branch(run: Run, fact: BranchStarted) -> Run:
    """Return a branch of the run's state, or of an agent's call there, as it begins."""
    definition, branch = _task(run, fact) if fact.call_id else _of_state(run, fact)
    around, workflow = run.branch, definition.workflow
    is_own = branch.base is None
    known = {} if is_own else run.contexts
    contexts = {c.name: known.get(c.name, starting_messages(c)) for c in workflow.contexts}
    waits = is_own and workflow.start_condition == "on_user_input" and fact.input is None
    return Run(
        id=run.id,
        definition=definition,
        plan=plan_of(workflow),
        visit=Visit(phase="waiting" if waits else "leaving", chosen=branch.entry),
        branch=replace(
            branch,
            path=f"{around.path}/{fact.name}".lstrip("/"),
            worktrees=(*around.worktrees, *filter(None, (fact.worktree,))),
        ),
        contexts=contexts,
        common_data=named_input(workflow, fact.input) if is_own else run.common_data,
        variables={**(workflow.variables if is_own else run.variables), **fact.variables},
        input=fact.input,
        allowed=run.allowed,
        approvals=run.approvals,
        workspace=run.workspace,
        inbox=Inbox(last_number=run.inbox.last_number),
    )


def _of_state(run: Run, fact: BranchStarted) -> tuple[Definition, BranchOf]:
    state = run.plan.states[run.visit.state]
    branch = branch_of(state, fact.name)
    definition = branch_definition(definition_of(run), state, fact.name)
    entry, has_resume, flows = entry_of(branch), resumes_inside(branch), run.branch.flows
    if isinstance(branch, SubWorkflow):
        flows = f"{flows}/{branch.name}".lstrip("/")
        return definition, BranchOf(entry=entry, has_resume=has_resume, flows=flows)
    shared, base = branch.shared, run.common_data
    return definition, BranchOf(
        entry=entry, has_resume=has_resume, flows=flows, shared=shared, base=base
    )


def _task(run: Run, fact: BranchStarted) -> tuple[Definition, BranchOf]:
    around, has_worktree = definition_of(run), bool(fact.worktree)
    if fact.definition is None:
        definition = delegated_definition(around, fact.role, fact.agent, worktree=has_worktree)
    else:
        # What an agent may do is never said by what it calls.
        definition = with_tools(fact.definition, around.tools)
    return definition, BranchOf(
        entry=IN_WORKTREE if has_worktree else START,
        flows=run.branch.flows if fact.definition is None else CALLED,
        has_resume=True,
        call_id=fact.call_id,
        role=fact.role,
        caller=fact.agent,
    )


def inner_definition(definition: Definition, state: State, branch: Run) -> Definition:
    """Return what a branch of a state runs under a definition of the run around it."""
    own = branch.branch
    if own.call_id and not own.role:
        assert branch.definition is not None, "it is kept with the branch"
        return with_tools(branch.definition, definition.tools)
    if own.call_id:
        return delegated_definition(definition, own.role, own.caller, worktree=own.has_worktree)
    return branch_definition(definition, state, own.path.rpartition("/")[2])


# --- what branches changed of `common_data` --------------------------------------------------
#
# Objects are merged key by key, at any depth: two branches that write `report.left` and `report.right`
# both count. Of two that write the same value, the one that is listed later does.


_HALTS_OWN = ("resume_input", "interrupted_state", "interrupted_text")
"""Keys a halt sets: they are a branch's own."""


def changes_since(base: dict[str, Json], data: dict[str, Json]) -> tuple[Change, ...]:
    """Return what is different in `data`."""
    return tuple(change for change in _changes(base, data) if change.path[0] not in _HALTS_OWN)


def _changes(
    base: dict[str, Json], data: dict[str, Json], above: tuple[str, ...] = ()
) -> Iterator[Change]:
    for key, value in data.items():
        path = (*above, key)
        if key not in base:
            yield Change(path=path, value=value)
        elif base[key] is value:
            continue
        elif isinstance(value, dict) and isinstance(base[key], dict):
            yield from _changes(base[key], value, path)
        elif not _is_same(base[key], value):
            yield Change(path=path, value=value)
    for key in base:
        if key not in data:
            yield Change(path=(*above, key), is_gone=True)


def _is_same(one: Json, other: Json) -> bool:
    """Return whether two values are the same JSON: 1, 1.0 and true are three."""
    return bool(one == other) and encode(one) == encode(other)


def merged(data: dict[str, Json], change: Change) -> dict[str, Json]:
    """Return the data with a change made in it."""
    return _made(data, change.path, change)


def _made(data: dict[str, Json], path: tuple[str, ...], change: Change) -> dict[str, Json]:
    key, *rest = path
    held = data.get(key)
    if rest:
        if change.is_gone and not isinstance(held, dict):
            return data
        inner = held if isinstance(held, dict) else {}
        return {**data, key: _made(inner, tuple(rest), change)}
    if change.is_gone:
        return {name: value for name, value in data.items() if name != key}
    return {**data, key: _joined(held, change.value)}


def _joined(held: Json, value: Json) -> Json:
    if not isinstance(held, dict) or not isinstance(value, dict):
        return value
    return {**held, **{key: _joined(held.get(key), inner) for key, inner in value.items()}}

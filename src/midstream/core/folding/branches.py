"""Runs within a run: how they begin, and what they have in common with the run around them."""

from msgspec.structs import replace

from midstream.core.branch_spec import branch_definition, branch_of, entry_of, resumes_inside
from midstream.core.conversation import Message
from midstream.core.events import BranchFailed, BranchFinished, BranchStarted, BranchStopped
from midstream.core.folding.conversations import starting_messages
from midstream.core.folding.halts import may_have_happened
from midstream.core.merging import changes_since
from midstream.core.run import Change, Run, Trouble, definition_of, plan_for
from midstream.core.spec import SubWorkflow, plan_of


def with_questions_of(run: Run, branch: Run) -> Run:
    """Return the run with the questions of a branch among its own."""
    theirs = {question.id: question for question in branch.questions}
    known = [theirs.pop(question.id, question) for question in run.questions]
    questions = (*known, *theirs.values())
    return replace(
        run, questions=questions, open_questions=tuple(q for q in questions if q.is_open)
    )


def with_context(run: Run, context: str, messages: tuple[Message, ...]) -> Run:
    """Return the run with the messages of a context, which its branches may share."""
    branches = {
        name: with_context(branch, context, messages) if context in branch.shared else branch
        for name, branch in run.branches.items()
    }
    contexts = {**run.contexts, context: messages}
    return replace(run, contexts=contexts, branches=branches)


def ended_branch(run: Run, fact: BranchFinished | BranchFailed | BranchStopped) -> Run:
    """Return a branch at its end, with what the run around it needs of it and no more.

    A thousand branches would else keep a thousand copies of what they began with.
    """
    changes: tuple[Change, ...] = ()
    data = run.common_data
    is_unsure = isinstance(fact, BranchFailed) and may_have_happened(run)
    if run.base is not None:
        changes, data = changes_since(run.base, run.common_data), {}
    run = replace(
        run,
        phase="ended",
        turn=None,
        cuts=(),
        branches={},
        timers={},
        contexts={},
        shared=(),
        common_data=data,
        base=None,
        changes=changes,
        trouble=Trouble(kind="branch", error="", is_unsure=True) if is_unsure else None,
    )
    match fact:
        case BranchFinished():
            return replace(run, status="finished", output=fact.output)
        case BranchFailed():
            return replace(run, status="failed", error=fact.error)
        case BranchStopped():
            return replace(run, status="stopped")


def started_branch(run: Run, fact: BranchStarted) -> Run:
    """Return a branch of the run's state as it begins."""
    state = plan_for(run).states[run.state]
    branch = branch_of(state, fact.name)
    definition = branch_definition(definition_of(run), state, fact.name)
    workflow = definition.workflow
    is_own, deeper = False, run.flows
    shared: tuple[str, ...] = ()
    if isinstance(branch, SubWorkflow):
        is_own, deeper = True, f"{run.flows}/{branch.name}".lstrip("/")
    else:
        shared = branch.shared
    fresh = {context.name: starting_messages(context) for context in workflow.contexts}
    waits = is_own and workflow.start_condition == "on_user_input" and fact.input is None
    kept = {} if is_own else {n: run.contexts[n] for n in fresh if n in run.contexts}
    return Run(
        id=run.id,
        definition=definition,
        plan=plan_of(workflow),
        phase="waiting" if waits else "leaving",
        chosen=entry_of(branch),
        entry=entry_of(branch),
        path=f"{run.path}/{fact.name}".lstrip("/"),
        flows=deeper,
        has_resume=resumes_inside(branch),
        shared=shared,
        contexts={**fresh, **kept},
        common_data={} if is_own else run.common_data,
        base=None if is_own else run.common_data,
        variables={**(workflow.variables if is_own else run.variables), **fact.variables},
        input=fact.input,
        allowed=run.allowed,
        approvals=run.approvals,
        workspace=run.workspace,
        last_number=run.last_number,
    )

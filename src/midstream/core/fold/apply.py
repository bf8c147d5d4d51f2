"""apply(run, fact): how things stand after one more fact. Live and on replay, the only way a run changes.

Nothing is judged here: a fact is true. What follows from it (the next fact) is `decide`'s to say;
what is owed because of it is `pending`'s.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from midstream.core import events as e
from midstream.core.append_only import logged
from midstream.core.background import lost_words, with_all_lost
from midstream.core.conversation import NOTE, USER, Message
from midstream.core.fold.fold_branches import (
    ended_branch,
    started_branch,
    with_context,
    with_questions_of,
)
from midstream.core.fold.fold_contexts import (
    added,
    summary_began,
    summary_ended,
    with_shown,
    with_used,
)
from midstream.core.fold.fold_external import called_itself, session_began, stopped, with_unheard
from midstream.core.fold.fold_halts import disposed, held_if_due, interrupted, received
from midstream.core.fold.fold_questions import answered, asked, below_budget, closed, expired
from midstream.core.fold.fold_states import entered, handler_ran, redefined, started
from midstream.core.fold.fold_turns import (
    hooked,
    prompted,
    reply_cut,
    reply_shown,
    responded,
    returned,
    with_call,
)
from midstream.core.fold.fold_work import planned, state_failed, tried_again, work_done, worked
from midstream.core.pictures import pictures_in
from midstream.core.run import Run, RunUsage, with_usage, with_visit
from midstream.core.trimming import trimmed

_PROGRESS = frozenset(
    (e.AgentResponded, e.ToolReturned, e.InputReceived, e.HandlerRan, e.StateTransition)
)
"""Facts of a run that got further since its process was last gone."""


_COUNTED = frozenset((e.HandlerRan, e.StateTransition))
"""The two facts of every transition count themselves in: a copy less on the path all runs take."""


def apply(run: Run, fact: e.AnyFact) -> Run:
    """Return the run after the fact. Total: every fact of the union has a row in `FOLDS`."""
    kind = type(fact)
    if fact.branch:
        after = in_branch(run, fact)
    elif kind in _COUNTED:
        after = FOLDS[kind](run, fact)
    else:
        before = replace(run, crashes=0) if run.crashes and kind in _PROGRESS else run
        after = replace(FOLDS[kind](before, fact), seq=run.seq + 1)
    return with_unheard(run, after, fact) if run.sessions else after


def _counted_call(run: Run, fact: e.ToolCalled) -> Run:
    if fact.external is not None:
        return called_itself(run, fact)
    run = with_usage(run, tool_calls=run.usage.tool_calls + 1)
    return with_call(run, fact.call_id, status="running", granted=fact.granted)


def _limited(run: Run, fact: e.LimitsSet) -> Run:
    return with_usage(below_budget(run), limits=fact.limits, budget_times=1)


def _joined(run: Run, fact: e.WordsJoined) -> Run:
    shown = pictures_in(fact.text, run.pictures)
    words = Message(role="user", text=fact.text, author=USER, pictures=shown)
    contexts = added(run, fact.context, words)
    halt = run.halt if run.halt.is_heard else replace(run.halt, is_heard=True)
    return replace(run, contexts=contexts, halt=halt)


def _recovered(run: Run, fact: e.RunRecovered) -> Run:
    """Return the run as another process goes on with it, and its branches, which it holds, too."""
    run = replace(run, crashes=run.crashes + 1 if fact.was_cut else 0, hooked=fact.hooked)
    return _without_commands(run)


def _without_commands(run: Run) -> Run:
    """Return a run whose agents know that their commands have ended unseen."""
    for name, branch in run.visit.branches.items():
        if not branch.is_over and (told := _without_commands(branch)) is not branch:
            run = with_visit(run, branches={**run.visit.branches, name: told})
            for context in told.branch.shared:
                if told.contexts[context] is not branch.contexts[context]:
                    run = with_context(run, context, told.contexts[context])
    if not run.background:
        return run
    lost = with_all_lost(run.background)
    run = replace(run, background=lost)
    agents = run.plan.agents
    contexts = {agents[each.agent].context for each in lost if each.agent in agents}
    for context in sorted(contexts):
        run = _with_note(run, context, f"[{lost_words(lost)}]")
    return run


def _with_note(run: Run, context: str, text: str) -> Run:
    """Return the run whose agents are told something that nobody typed."""
    words = Message(role="user", text=text, author=NOTE)
    # Branches at work may share the conversation.
    return with_context(run, context, added(run, context, words)[context])


def _todo_edited(run: Run, fact: e.TodoEdited) -> Run:
    run = replace(run, todo=replace(run.todo, items=fact.items))
    return _with_note(run, fact.context, fact.text) if fact.context else run


def _results_trimmed(run: Run, fact: e.ResultsTrimmed) -> Run:
    # What folders say may have stood in one of the results: it may join again.
    below = {context: told for context, told in run.below.items() if context != fact.context}
    contexts = {**run.contexts, fact.context: trimmed(run, fact)}
    return replace(run, contexts=contexts, below=below)


def _mode_told(run: Run, fact: e.ModeTold) -> Run:
    run = replace(run, modes={**run.modes, fact.context: fact.mode})
    return _with_note(run, fact.context, fact.text)


def _with_timer(run: Run, fact: e.TimerSet) -> Run:
    return with_visit(run, timers={**run.visit.timers, fact.timer: fact.until})


def _with_branch(run: Run, fact: e.BranchStarted) -> Run:
    branches = {**run.visit.branches, fact.name: started_branch(run, fact)}
    return with_visit(run, branches=branches)


def _agent_failed(run: Run, fact: e.AgentFailed) -> Run:
    run = with_used(with_shown(run, fact.agent, fact.partial, fact.calling), fact.agent, fact.usage)
    return replace(with_visit(run, turn=None), error=fact.error)


def _granted(run: Run, fact: e.PermissionGranted) -> Run:
    new = fact.capabilities or (fact.tool,)
    return replace(run, allowed=tuple(dict.fromkeys((*run.allowed, *new))))


def _revoked(run: Run, fact: e.PermissionRevoked) -> Run:
    left = tuple(each for each in run.allowed if each != fact.permission)
    return replace(run, allowed=left)


def _ended(run: Run) -> Run:
    return replace(with_visit(run, phase="ended", turn=None), compacting=None)


FOLDS: dict[type[e.AnyFact], Callable[[Run, Any], Run]] = {
    e.HandlerRan: handler_ran,
    e.StateTransition: entered,
    e.AgentResponded: responded,
    e.ToolCalled: _counted_call,
    e.BudgetReached: lambda run, _: with_usage(run, is_over_budget=True),
    e.LimitsSet: _limited,
    e.TimeSpent: lambda run, fact: worked(run, fact.seconds),
    e.CallEdited: lambda run, fact: with_call(
        run, fact.call_id, status="new", edited=fact.arguments, hooked=None, added=()
    ),
    e.ToolEnded: lambda run, fact: with_call(run, fact.call_id, ended=fact),
    e.HookRan: hooked,
    e.ToolReturned: returned,
    e.InputReceived: received,
    e.Interrupted: interrupted,
    e.InputDisposed: disposed,
    e.QuestionAsked: asked,
    e.QuestionAnswered: answered,
    e.QuestionSuperseded: lambda run, fact: closed(run, fact.question_id, "superseded"),
    e.WordsJoined: _joined,
    e.ReplyCut: reply_cut,
    e.ReplyShown: reply_shown,
    e.AgentPrompted: session_began,
    e.AgentStopped: stopped,
    e.WorkspaceSeen: lambda run, fact: replace(run, manifest=fact.manifest),
    e.CompactionBegan: summary_began,
    e.ConversationCompacted: summary_ended,
    e.CompactionEnded: summary_ended,
    e.ResultsTrimmed: _results_trimmed,
    e.RunRenamed: lambda run, fact: replace(run, name=fact.name),
    e.TodoEdited: _todo_edited,
    e.ModeTold: _mode_told,
    e.Prompted: prompted,
    e.CallPlanned: planned,
    e.WorkDone: work_done,
    e.StateFailed: state_failed,
    e.StateRetried: lambda run, _: tried_again(run),
    e.TimerSet: _with_timer,
    e.BranchStarted: _with_branch,
    e.QuestionExpired: expired,
    e.BranchFinished: ended_branch,
    e.BranchFailed: ended_branch,
    e.BranchStopped: ended_branch,
    e.AgentFailed: _agent_failed,
    e.PermissionGranted: _granted,
    e.PermissionRevoked: _revoked,
    e.AnswerRefused: lambda run, _: run,
    e.WorkflowOutput: lambda run, _: run,
    e.FileWritten: lambda run, _: run,
    e.RunRecovered: _recovered,
    e.RunSuspended: lambda run, fact: replace(run, suspended=fact.reason),
    e.RunResumed: lambda run, _: replace(run, suspended="", crashes=0),
    e.DefinitionChanged: redefined,
    e.RunStarted: started,
    e.RunFinished: lambda run, fact: replace(_ended(run), status="finished", output=fact.output),
    e.RunFailed: lambda run, fact: replace(_ended(run), status="failed", error=fact.error),
    e.RunStopped: lambda run, _: replace(_ended(run), status="stopped"),
}
"""Who folds which fact. A table, not a chain of cases: a run folds facts by the thousand when it is
taken up, and looks none of them up longer than another. A test asks that every fact has its row.
"""


def in_branch(run: Run, fact: e.AnyFact) -> Run:
    """Return the run after a fact of one of its branches."""
    name, _, rest = fact.branch.partition("/")
    before = run.visit.branches[name]
    if run.pictures and before.pictures is not run.pictures:
        before = replace(before, pictures=run.pictures)
    after = apply(before, replace(fact, branch=rest))
    # What a branch used, asked and said counts in the run around it, too. Most facts touch none of that:
    # then it is the same object as before.
    run = replace(
        run,
        seq=run.seq + 1,
        visit=replace(run.visit, branches={**run.visit.branches, name: after}),
        crashes=0 if type(fact) in _PROGRESS else run.crashes,
    )
    if after.usage is not before.usage:
        run = _with_usage_of(run, after.usage, before.usage)
    if after.inbox is not before.inbox:
        run = with_questions_of(run, after.inbox, before.inbox)
    for context in before.branch.shared if after.branch.shared else ():
        if after.contexts[context] is not before.contexts[context]:
            run = with_context(run, context, after.contexts[context])
    return held_if_due(run) if run.visit.phase == "halting" else run


def _with_usage_of(run: Run, after: RunUsage, before: RunUsage) -> Run:
    """Return the run with what one of its branches has used since."""
    requests = run.usage.requests
    for request in after.requests[len(before.requests) :]:
        requests = logged(requests, request)
    return with_usage(
        run,
        requests=requests,
        calls_made=run.usage.calls_made + after.calls_made - before.calls_made,
        tool_calls=run.usage.tool_calls + after.tool_calls - before.tool_calls,
    )

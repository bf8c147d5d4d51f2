"""apply(run, fact): how things stand after one more fact. Live and on replay, the only way a run changes.

Nothing is judged here: a fact is true. What follows from it (the next fact) is `decide`'s to say;
what is owed because of it is `pending`'s.
"""

from typing import assert_never

from msgspec.structs import replace

from midstream.core import events as e
from midstream.core.append_only import logged
from midstream.core.conversation import USER, Message
from midstream.core.fold.fold_branches import (
    ended_branch,
    started_branch,
    with_context,
    with_questions_of,
)
from midstream.core.fold.fold_contexts import added, summary_began, summary_ended, with_shown
from midstream.core.fold.fold_halts import disposed, held_if_due, interrupted, received
from midstream.core.fold.fold_questions import answered, asked, below_budget, closed, expired
from midstream.core.fold.fold_states import entered, handler_ran, redefined, started
from midstream.core.fold.fold_turns import (
    prompted,
    reply_cut,
    reply_shown,
    responded,
    returned,
    with_call,
)
from midstream.core.fold.fold_work import planned, state_failed, tried_again, work_done, worked
from midstream.core.run import Run, RunUsage, with_usage, with_visit

_PROGRESS = (e.AgentResponded, e.ToolReturned, e.InputReceived, e.HandlerRan, e.StateTransition)
"""Facts of a run that got further since its process was last gone."""


def apply(run: Run, fact: e.AnyFact) -> Run:
    """Return the run after the fact. Total: every fact of the union has a case."""
    if fact.branch:
        return in_branch(run, fact)
    # The two facts of every transition count themselves in: a copy less on the path all runs take.
    if type(fact) is e.HandlerRan:
        return handler_ran(run, fact)
    if type(fact) is e.StateTransition:
        return entered(run, fact)
    if run.crashes and isinstance(fact, _PROGRESS):
        run = replace(run, crashes=0)
    return replace(_folded(run, fact), seq=run.seq + 1)


def _folded(run: Run, fact: e.AnyFact) -> Run:
    match fact:
        case e.HandlerRan() | e.StateTransition():
            return apply(run, fact)
        case e.AgentResponded():
            return responded(run, fact)
        case e.ToolCalled():
            run = with_usage(run, tool_calls=run.usage.tool_calls + 1)
            return with_call(run, fact.call_id, status="running", granted=fact.granted)
        case e.BudgetReached():
            return with_usage(run, is_over_budget=True)
        case e.LimitsSet():
            return with_usage(below_budget(run), limits=fact.limits, budget_times=1)
        case e.TimeSpent():
            return worked(run, fact.seconds)
        case e.CallEdited():
            return with_call(run, fact.call_id, status="new", edited=fact.arguments)
        case e.ToolReturned():
            return returned(run, fact)
        case e.InputReceived():
            return received(run, fact)
        case e.Interrupted():
            return interrupted(run, fact)
        case e.InputDisposed():
            return disposed(run, fact)
        case e.QuestionAsked():
            return asked(run, fact)
        case e.QuestionAnswered():
            return answered(run, fact)
        case e.QuestionSuperseded():
            return closed(run, fact.question_id, "superseded")
        case e.WordsJoined():
            words = Message(role="user", text=fact.text, author=USER)
            return replace(
                run,
                contexts=added(run, fact.context, words),
                halt=replace(run.halt, is_heard=True),
            )
        case e.ReplyCut():
            return reply_cut(run, fact)
        case e.ReplyShown():
            return reply_shown(run, fact)
        case e.CompactionBegan():
            return summary_began(run, fact)
        case e.ConversationCompacted() | e.CompactionEnded():
            return summary_ended(run, fact)
        case e.RunRenamed():
            return replace(run, name=fact.name)
        case e.Prompted():
            return prompted(run, fact)
        case e.CallPlanned():
            return planned(run, fact)
        case e.WorkDone():
            return work_done(run, fact)
        case e.StateFailed():
            return state_failed(run, fact)
        case e.StateRetried():
            return tried_again(run)
        case e.TimerSet():
            return with_visit(run, timers={**run.visit.timers, fact.timer: fact.until})
        case e.BranchStarted():
            return with_visit(
                run, branches={**run.visit.branches, fact.name: started_branch(run, fact)}
            )
        case e.QuestionExpired():
            return expired(run, fact)
        case e.BranchFinished() | e.BranchFailed() | e.BranchStopped():
            return ended_branch(run, fact)
        case e.AgentFailed():
            run = with_shown(run, fact.agent, fact.partial)
            return replace(with_visit(run, turn=None), error=fact.error)
        case e.PermissionGranted():
            new = fact.capabilities or (fact.tool,)
            return replace(run, allowed=tuple(dict.fromkeys((*run.allowed, *new))))
        case e.PermissionRevoked():
            left = tuple(each for each in run.allowed if each != fact.permission)
            return replace(run, allowed=left)
        case e.AnswerRefused() | e.WorkflowOutput() | e.FileWritten():
            return run
        case e.RunRecovered():
            return replace(run, crashes=run.crashes + 1 if fact.was_cut else 0)
        case e.RunSuspended():
            return replace(run, suspended=fact.reason)
        case e.RunResumed():
            return replace(run, suspended="", crashes=0)
        case e.DefinitionChanged():
            return redefined(run, fact)
        case e.RunStarted():
            return started(run, fact)
        case e.RunFinished():
            return replace(_ended(run), status="finished", output=fact.output)
        case e.RunFailed():
            return replace(_ended(run), status="failed", error=fact.error)
        case e.RunStopped():
            return replace(_ended(run), status="stopped")
        case _:
            assert_never(fact)


def _ended(run: Run) -> Run:
    return replace(with_visit(run, phase="ended", turn=None), compacting=None)


def in_branch(run: Run, fact: e.AnyFact) -> Run:
    """Return the run after a fact of one of its branches."""
    name, _, rest = fact.branch.partition("/")
    before = run.visit.branches[name]
    after = apply(before, replace(fact, branch=rest))
    # What a branch used, asked and said counts in the run around it, too. Most facts touch none of that:
    # then it is the same object as before.
    run = replace(
        run,
        seq=run.seq + 1,
        visit=replace(run.visit, branches={**run.visit.branches, name: after}),
        crashes=0 if isinstance(fact, _PROGRESS) else run.crashes,
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

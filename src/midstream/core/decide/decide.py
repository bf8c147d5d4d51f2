"""decide(run, input): what does this make true? Judged once, live; replay folds the facts instead.

A `Story` collects facts and keeps the run folded up to date, so that each fact can be judged in the
light of the one before. What unasked words do is in `midstream.core.decide.steering`.

An input whose effect is no longer owed (its key is gone: the run was halted or moved on) makes
nothing true. So a late reply changes nothing, however late it comes.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.call_notes import CUT_WHILE_JOINING, with_change
from midstream.core.conversation import ToolCall
from midstream.core.decide import compacting, external, proposing, steering
from midstream.core.decide.budgets import narrower
from midstream.core.decide.calls import (
    are_granted,
    begin_call,
    call_of,
    reviewed,
    reviewed_within,
    unusable,
)
from midstream.core.decide.delegating import run_workflow
from midstream.core.decide.states import run_to_completion
from midstream.core.decide.timers import timer_rang, timer_started
from midstream.core.decide.transaction import Story
from midstream.core.decide.transitions import enter, failed
from midstream.core.guidance import not_read
from midstream.core.pending import call_key, handler_key, handler_of, request_key, review_key
from midstream.core.pinning import misfit_of
from midstream.core.question import Question
from midstream.core.routing import branch_at, living
from midstream.core.run import AROUND, WITHIN, Run, Turn, branch_for, definition_of
from midstream.core.summaries import is_summary_key
from midstream.core.todo import told_of, why_not, with_edit
from midstream.language.errors import did_you_mean
from midstream.language.names import INTERRUPTED, JOIN_WORKTREE, RUN_WORKFLOW, ErrorKind
from midstream.language.plan import parsing_tools, tools_for
from midstream.language.spec import ToolSpec
from midstream.safety.capability import SHOWN, PermissionMode

_EMPTY = "Your reply was empty. Answer, or call a tool."

MAX_MISSES = 3
"""Unusable replies (empty, no required call, unreadable arguments) in one turn before it fails."""

MAX_BREAKS = 2
"""Replies in a row that break off in the middle and are asked on before the turn fails."""

MAX_REQUESTS = 100
"""Model requests in one turn before it fails: a model that calls tools for ever is stopped."""


def decide(run: Run, input: inputs.AnyInput) -> tuple[e.AnyFact, ...]:
    """Return the facts an input makes true, in order; none when it is too late to count."""
    return tuple(judged(run, input).facts)


def judged(
    run: Run,
    input: inputs.AnyInput,
    worked_s: float = 0.0,
    mode: PermissionMode | None = None,
) -> Story:
    """Return the facts an input makes true together with the run folded over them.

    For the loop, which needs both: it saves folding the facts of `decide` a second time. `worked_s` are
    the seconds the run was at work since that was last told, `mode` is how much happens unasked now.
    """
    story, phase = Story(run), run.visit.phase
    # A run that has not started has no rules yet; one that has ended hears nothing any more.
    if phase == "ended" or (phase == "new" and not isinstance(input, inputs.Start)):
        return story
    if worked_s:
        story.tell(e.TimeSpent(seconds=worked_s))
    about: Story | None = story
    if len(getattr(input, "key", ())) > len(_OF_THE_RUN):
        about, input = _addressee(story, input)
        if about is None:
            return story
    assert about is not None
    # A request that is owed anew has not begun: budgets are looked at before it, and words that wait for
    # it join it. One that is under way is let end.
    before = _request_owed(about.run)
    JUDGES[type(input)](about, input)
    # Nothing of an import has ever begun here: all it is owed is measured by the limits of this place.
    is_anew = isinstance(input, inputs.Recovered) and input.is_foreign
    if story.run.visit.branches and not isinstance(input, _OF_EFFECTS):
        _run_branches_to_completion(story, run, is_anew=is_anew)
    run_to_completion(about, is_new_request=is_anew or _request_owed(about.run) != before)
    # What a branch came to may be what the run around it waited for, and so on outwards.
    while (about := about.around) is not None:
        run_to_completion(about, is_new_request=False)
    owed = None if mode is None else _request_owed(story.run)
    if mode is not None and owed is not None:
        # One that was under way in another process begins anew in this one.
        is_new = isinstance(input, inputs.Recovered) or owed != _request_owed(run)
        if is_new:
            proposing.tell_mode(story, proposing.approved_mode(story, input) or mode)
    return story


_OF_THE_RUN = ("step", "kind", "number")
"""What the key of an effect of the run itself holds; that of a branch begins with the way to it."""


def _run_branches_to_completion(story: Story, before: Run, *, is_anew: bool) -> None:
    """Settle the branches of which a person's input made something true, the deepest first.

    Those that waited for a budget to be raised are among them, if it was; `is_anew`: all are.
    """
    paths = {fact.branch for fact in story.facts if fact.branch}
    if is_anew:
        paths |= {branch.branch.path for branch in living(story.run)}
    if any(isinstance(fact, e.QuestionAnswered) for fact in story.facts):
        paths |= set(_over_budget(before))
    paths |= {path[:at] for path in paths for at, c in enumerate(path) if c == "/"}
    for path in sorted(paths, key=lambda path: path.count("/"), reverse=True):
        inner, around = branch_at(story.run, path), branch_at(story.run, path.rpartition("/")[0])
        if inner is None or around is None or inner.is_over:
            continue
        if around.visit.phase not in AROUND:
            steering.finish_halt(steering.story_at(story, path))
        else:
            was = branch_at(before, path)
            is_new = is_anew or was is None or _request_owed(inner) != _request_owed(was)
            run_to_completion(steering.story_at(story, path), is_new_request=is_new)


def _over_budget(run: Run) -> Iterator[str]:
    for branch in run.visit.branches.values():
        if branch.usage.is_over_budget:
            yield branch.branch.path
        yield from _over_budget(branch)


def _addressee(story: Story, input: inputs.AnyInput) -> tuple[Story | None, inputs.AnyInput]:
    """Return the branch an effect's end is for, with the input as it sees it; None: it is gone."""
    about = story
    key: inputs.EffectKey = getattr(input, "key", ())
    while len(key) > 3 and key[1] == WITHIN:
        # The step tells this visit's branches from those of an earlier one, which have the same names.
        step, _, name, *rest = key
        inner = about.run.visit.branches.get(str(name))
        if step != about.run.visit.step or inner is None or inner.is_over:
            return None, input
        about, key = about.within(str(name)), tuple(rest)
        input = msgspec.structs.replace(input, key=key)
    return about, input


_OF_EFFECTS = (
    inputs.AgentCalled,
    inputs.AgentOpened,
    inputs.AgentReturned,
    inputs.AgentStopped,
    inputs.FilesSeen,
    inputs.CallReviewed,
    inputs.FileChanging,
    inputs.HandlerFailed,
    inputs.HandlerLogged,
    inputs.HandlerReturned,
    inputs.ModelFailed,
    inputs.ModelReplied,
    inputs.ReplyCheckpoint,
    inputs.TimerRang,
    inputs.TimerStarted,
    inputs.ToolEnded,
    inputs.ToolFinished,
    inputs.WorkflowFound,
)


def _request_owed(run: Run) -> inputs.EffectKey | None:
    """Return the key of the model request a run is owed, None if it is owed none."""
    visit = run.visit
    if visit.phase != "turn" or visit.turn is None or visit.turn.calls:
        return None
    return None if run.usage.is_over_budget else request_key(run)


def _start(story: Story, input: inputs.Start) -> None:
    if story.run.visit.phase != "new":
        return
    story.tell(
        e.RunStarted(
            workflow=input.definition.workflow.workflow_name,
            definition=input.definition,
            input=input.input,
            variables=input.variables,
            allowed=input.allowed,
            approvals=input.approvals,
            limits=input.limits,
            workspace=input.workspace,
            pictures=input.pictures,
            hooked=input.hooked,
            source=input.source,
        )
    )


# --- handlers ---------------------------------------------------------------------------------


def _handler_returned(story: Story, input: inputs.HandlerReturned) -> None:
    run = story.run
    if input.key != handler_key(run):
        return
    handler, slot = handler_of(run)
    contexts = run.plan.contexts
    for change in input.contexts:
        if change.context not in contexts:
            story.fail(
                f"{handler}, the {slot} of state {run.visit.state!r}, changed the context "
                f"{change.context!r}, which the workflow does not have.",
                did_you_mean(change.context, contexts),
                fault="author",
            )
            return
    chosen = input.chosen if slot == "transition_handler" else None
    if chosen is not None and not isinstance(chosen, str):
        story.fail(
            f"{handler}, the transition_handler of state {run.visit.state!r}, returned {chosen!a:.80}.",
            "Return the name of the next state, as a string.",
            fault="author",
        )
        return
    story.tell(
        e.HandlerRan(
            state=run.visit.state,
            handler=handler,
            slot=slot,
            changed=input.changed,
            removed=input.removed,
            edits=input.edits,
            variables=input.variables,
            contexts=input.contexts,
            chosen=chosen,
        )
    )


def _handler_logged(story: Story, input: inputs.HandlerLogged) -> None:
    if input.key == handler_key(story.run):
        story.tell(e.WorkflowOutput(text=input.text))


def _handler_failed(story: Story, input: inputs.HandlerFailed) -> None:
    if input.key == handler_key(story.run):
        failed(story, "handler", input.error, input.hint, fault=input.fault)


# --- the agent's turn -------------------------------------------------------------------------


def _model_replied(story: Story, input: inputs.ModelReplied) -> None:
    if is_summary_key(input.key):
        compacting.ended(story, input)
        return
    run = story.run
    if external.is_too_late(story, input.key):
        return
    if run.visit.turn is None or input.key != _request_owed(run):
        return
    external.close_calls(story, is_told=True)
    agent, has_acted = run.visit.turn.agent, bool(run.visit.turn.external)
    role = definition_of(run).roles[run.plan.agents[agent].agent_role]
    state = run.plan.states[run.visit.state]
    parsing = {tool.name for tool in parsing_tools(role, state)}
    parsed = [call for call in input.calls if call.name in parsing]
    is_parsed = any(not call.problem for call in parsed)
    # Beside a usable call of a parsing tool, an unusable one is dropped: no handler may read it.
    sent = [call for call in input.calls if not (is_parsed and call in parsed and call.problem)]
    made = story.whole.run.usage.calls_made
    calls = tuple(
        ToolCall(id=f"call_{made + n}", name=call.name, arguments=call.arguments)
        for n, call in enumerate(sent, 1)
    )
    problem = ""
    if not calls and not input.text.strip() and not has_acted:
        is_theirs = external.is_external(run, agent)
        problem = "Your reply was empty. Answer." if is_theirs else _EMPTY
    elif parsing and not calls:
        problem = f"Answer by calling one of these tools: {', '.join(sorted(parsing))}."
    elif parsed and not is_parsed:
        problem = parsed[0].problem
    if problem and external.is_external(run, agent):
        # What stands in its words is all there is of a call: it is asked for again in words.
        calls = ()
    story.tell(
        e.AgentResponded(
            agent=agent,
            text=input.text,
            calls=calls,
            is_final=not problem and (is_parsed or not calls),
            problem=problem,
            usage=input.usage,
        )
    )
    turn = story.run.visit.turn
    if turn is None or story.run.visit.phase != "turn":
        return
    if turn.misses >= MAX_MISSES:
        error = f"{agent} gave {turn.misses} unusable replies. The last: {problem}"
        of_agent: ErrorKind = "agent" if external.is_external(run, agent) else "model"
        _give_up(story, turn, error, "output" if parsing else of_agent)
        return
    if turn.request >= MAX_REQUESTS:
        _give_up(story, turn, f"{agent} made {turn.request} model requests in one turn.")
        return
    if not calls:
        return
    offered = _offered(story.run)
    for call, requested in zip(calls, sent, strict=True):
        # What can only fail waits for nothing.
        if problem := unusable(requested, offered):
            story.close_call(call.id, "failed", problem)
    _begin_calls(story, offered)


def _begin_calls(story: Story, offered: dict[str, ToolSpec]) -> None:
    """Begin the calls of a reply whose turn has come, up to one that is to be looked at first.

    Those that come after it are owed a look of their own (`ReviewCall`) when their turn comes.
    """
    while (turn := story.run.visit.turn) is not None and (new := turn.next_new) is not None:
        begin_call(story, turn.agent, new.call, offered)
        if story.run.visit.turn is not None and story.run.visit.turn.next_new == new:
            return


def _offered(run: Run) -> dict[str, ToolSpec]:
    """Return the tools that may be called now: an agent's, or all where the state itself calls one."""
    definition = definition_of(run)
    if run.visit.turn is None or not run.visit.turn.agent:
        return definition.tools
    agent, state = run.plan.agents[run.visit.turn.agent], run.plan.states[run.visit.state]
    return {tool.name: tool for tool in tools_for(definition, agent, state)}


def _reply_shown(story: Story, input: inputs.ReplyCheckpoint) -> None:
    turn = story.run.visit.turn
    is_new = bool(input.text or input.calling)
    if turn is not None and is_new and input.key == _request_owed(story.run):
        calling, so_far = input.calling, input.so_far
        story.tell(e.ReplyShown(agent=turn.agent, text=input.text, so_far=so_far, calling=calling))


def _model_failed(story: Story, input: inputs.ModelFailed) -> None:
    """Ask a model on whose reply broke off in the middle; else the turn has failed.

    In a chat the person sees what happened and says how it goes on.
    """
    if is_summary_key(input.key):
        compacting.ended(story, input)
        return
    if external.is_too_late(story, input.key) or input.key != _request_owed(story.run):
        return
    turn = story.run.visit.turn
    assert turn is not None
    external.close_calls(story)
    is_asked_on = input.is_broken and definition_of(story.run).kind != "chat"
    if is_asked_on and turn.breaks < MAX_BREAKS:
        story.tell(
            e.ReplyCut(
                agent=turn.agent,
                partial=input.shown,
                reason=input.error,
                usage=input.usage,
                calling=input.calling,
            )
        )
    else:
        kind: ErrorKind = "agent" if external.is_external(story.run, turn.agent) else "model"
        _turn_failed(
            story,
            input.error,
            input.hint,
            partial=input.shown,
            kind=kind,
            usage=input.usage,
            calling=input.calling,
        )


def _give_up(story: Story, turn: Turn, error: str, kind: ErrorKind = "model") -> None:
    for open_call in turn.calls:
        if open_call.status != "done":
            story.close_call(open_call.call.id, "not_run", "Not run: the turn was given up.")
    hint = "Try a larger model, or make the role's instructions plainer."
    _turn_failed(story, error, hint, kind=kind)


def _turn_failed(
    story: Story,
    error: str,
    hint: str,
    *,
    partial: str = "",
    kind: ErrorKind = "model",
    usage: e.Usage | None = None,
    calling: str = "",
) -> None:
    turn = story.run.visit.turn
    assert turn is not None
    story.tell(
        e.AgentFailed(
            agent=turn.agent,
            error=error,
            hint=hint,
            partial=partial,
            usage=usage,
            calling=calling,
        )
    )
    failed(story, kind, error, hint)


# --- external agents --------------------------------------------------------------------------


def _agent_returned(story: Story, input: inputs.AgentReturned) -> None:
    external.returned(story, input)
    steering.cut_for_steers(story, input.shown)


def _files_seen(story: Story, input: inputs.FilesSeen) -> None:
    branch = branch_at(story.run, input.branch)
    is_there = branch is not None and not branch.is_over
    external.seen(steering.story_at(story, input.branch) if is_there else story, input)


# --- tool calls -------------------------------------------------------------------------------


def _tool_finished(story: Story, input: inputs.ToolFinished) -> None:
    run = story.run
    if run.visit.turn is None:
        return
    for open_call in run.visit.turn.calls:
        if open_call.status not in ("running", "stopping"):
            continue
        if call_key(run, open_call.call.id) == input.key:
            for ran in input.hooks:
                story.tell(ran)
            text = with_change(call_of(story.run, open_call.call.id), input.text)
            below = _new_below(story, input.below)
            said = {path: words for path, words in below.items() if words}
            for path in below.keys() - said.keys():
                story.tell(e.WorkflowOutput(text=not_read(path)))
            text = "\n\n".join((text, *said.values()))
            told = {path: len(words) for path, words in below.items()}
            call_id = open_call.call.id
            story.close_call(call_id, input.outcome, text, input.pictures, input.note, told)
            return


def _new_below(story: Story, below: dict[str, str]) -> dict[str, str]:
    """Return what was found in folders that this conversation has not been told, for a role that asks."""
    run, turn = story.run, story.run.visit.turn
    if not below or turn is None or not turn.agent:
        return {}
    agent = run.plan.agents[turn.agent]
    if not definition_of(run).roles[agent.agent_role].agentsFile:
        return {}
    told = run.below.get(agent.context, {})
    # One that was left out joins once it may be read.
    return {
        path: text for path, text in below.items() if path not in told or (text and not told[path])
    }


def _tool_ended(story: Story, input: inputs.ToolEnded) -> None:
    run, turn = story.run, story.run.visit.turn
    for open_call in () if turn is None else turn.calls:
        is_running = open_call.status in ("running", "stopping") and open_call.ended is None
        if is_running and call_key(run, open_call.call.id) == input.key:
            story.tell(input.ended)


def _workflow_found(story: Story, input: inputs.WorkflowFound) -> None:
    run, turn = story.run, story.run.visit.turn
    for open_call in () if turn is None else turn.calls:
        is_owed = open_call.status == "running" and open_call.call.name == RUN_WORKFLOW
        if (
            is_owed
            and branch_for(run, open_call) is None
            and turn is not None
            and call_key(run, open_call.call.id) == input.key
        ):
            run_workflow(story, turn.agent, open_call, input.definition)
            return


def _call_reviewed(story: Story, input: inputs.CallReviewed) -> None:
    run = story.run
    if reviewed_within(story, input):
        return
    if run.visit.turn is None or run.visit.phase not in ("turn", "call"):
        return
    for open_call in run.visit.turn.calls:
        if open_call.status == "new" and review_key(run, open_call.call.id) == input.key:
            reviewed(story, run.visit.turn.agent, open_call, input, _offered(run))
            return


def _approved(story: Story, input: inputs.Approve) -> None:
    question = _open_question(story.run, input.question)
    if question is None or question.kind != "approval":
        return
    if story.run.suspended:
        story.tell(e.RunResumed())
    about = steering.story_at(story, question.branch)
    if question.about == "plan":
        proposing.decided(about, question, input, _offered(about.run))
        return
    call = _call_of(about.run, question)
    if input.edited is not None and _is_external(about.run, call.id):
        # It makes its calls itself: what it would do can be allowed or not, and no more.
        input = msgspec.structs.replace(input, granted=False, edited=None, note=_OTHERWISE)
    if not input.granted:
        about.tell(e.QuestionAnswered(question_id=question.id, answer="no"))
        said = f" They said: {input.note}" if input.note else ""
        about.close_call(call.id, "denied", f"The user refused this call.{said}")
    elif input.edited is not None:
        about.tell(e.QuestionAnswered(question_id=question.id, answer="yes, changed"))
        about.tell(e.CallEdited(call_id=call.id, arguments=input.edited))
    else:
        _approve(about, question, "yes, for this run" if input.for_run else "yes")
        if input.for_run:
            _allow_for_run(story, question, call)


_OTHERWISE = "Not like this: the arguments should be others."


def _is_external(run: Run, call_id: str) -> bool:
    turn = run.visit.turn
    return turn is not None and any(call.call.id == call_id for call in turn.external)


def _allow_for_run(story: Story, question: Question, call: ToolCall) -> None:
    """Grant what one call asked for to the rest of the run, and make the others it covers."""
    asks = tuple(ask for ask in question.asks if not ask.startswith(SHOWN))
    if question.asks and not asks:
        return  # without a capability it would be the whole tool
    story.tell(e.PermissionGranted(tool=call.name, capabilities=asks))
    for other in story.run.inbox.open_questions:
        if other.kind != "approval":
            continue
        where = steering.story_at(story, other.branch)
        if other.asks:
            is_covered = are_granted(other.asks, story.run.allowed)
        else:
            is_covered = _call_of(where.run, other).name in story.run.allowed
        if is_covered:
            _approve(where, other, "yes, for this run")


def _approve(story: Story, question: Question, answer: str) -> None:
    call = _call_of(story.run, question)
    story.tell(e.QuestionAnswered(question_id=question.id, answer=answer))
    if _is_external(story.run, call.id):
        return  # it was heard of when the agent asked
    story.tell(
        e.ToolCalled(
            call_id=call.id,
            name=call.name,
            arguments=call_of(story.run, call.id).arguments,
            agent=question.agent,
            granted=question.asks,
        )
    )


def _call_of(run: Run, question: Question) -> ToolCall:
    assert run.visit.turn is not None, "only a turn parks calls"
    calls = (*run.visit.turn.calls, *run.visit.turn.external)
    return next(c.call for c in calls if c.call.id == question.call_id)


def _open_question(run: Run, question_id: str) -> Question | None:
    return next((q for q in run.inbox.open_questions if q.id == question_id), None)


def _revoked(story: Story, input: inputs.Revoke) -> None:
    if input.permission in story.run.allowed:
        story.tell(e.PermissionRevoked(permission=input.permission))


def _file_changing(story: Story, input: inputs.FileChanging) -> None:
    """Record a write before it happens; of a call that nobody is owed any more, nothing is written."""
    call_id = input.key[2]
    turn = story.run.visit.turn
    calls = () if turn is None else turn.calls
    if turn is not None and story.run.visit.phase == "turn":
        calls = (*calls, *turn.external)
    for open_call in calls:
        is_running = open_call.status in ("running", "stopping")
        if is_running and open_call.call.id == call_id and _is_owed(story.run, input.key):
            story.tell(
                e.FileWritten(
                    call_id=open_call.call.id,
                    path=input.path,
                    before=input.before,
                    after=input.after,
                    folders=input.folders,
                )
            )


def _is_owed(run: Run, key: inputs.EffectKey) -> bool:
    return key == call_key(run, str(key[2]))


# --- the run as a whole -----------------------------------------------------------------------


def _halted(story: Story, input: inputs.Halt) -> None:
    compacting.stop(story, input.shown)
    steering.halted(story, input)


def _renamed(story: Story, input: inputs.Rename) -> None:
    if input.name != story.run.name:
        story.tell(e.RunRenamed(name=input.name))


def _todo_edited(story: Story, input: inputs.EditTodo) -> None:
    """Change the list, and have the agent that keeps it know with its next request."""
    run, before = story.run, story.run.todo.items
    if why_not(before, input.edit):
        return
    after = with_edit(before, input.edit)
    agents = run.plan.agents
    speaks = next((name for name in (run.todo.agent, *agents) if name in agents), "")
    story.tell(
        e.TodoEdited(
            edit=str(input.edit),
            items=after,
            context=agents[speaks].context if speaks else "",
            text=told_of(before, input.edit, after) if speaks else "",
        )
    )


def _resumed(story: Story, input: inputs.Resume) -> None:
    if story.run.suspended:
        story.tell(e.RunResumed())
    elif story.run.visit.phase == "held" and story.run.halt.cuts:
        enter(story, INTERRUPTED, "going on")


CRASHES = 5
"""Times in a row a run may take its process down without progress before it is suspended."""

CRASH_LOOP = "crash_loop"


def _recovered(story: Story, input: inputs.Recovered) -> None:
    """Take up a run that another process held. Nothing that may have happened is repeated.

    What was shown of replies that streamed is kept, as if a person had interrupted them just then.

    A `once` call that was in flight may have happened. Where it was being stopped the model is told
    so and hears the user's words next; else a person is asked first what became of it.
    """
    is_prompted = any(each.visit.turn and each.visit.turn.prompted for each in living(story.run))
    was_idle = input.was_cut and story.run.is_parked and not is_prompted
    definition = input.definition
    if definition is not None and not misfit_of(story.run, definition):
        story.tell(e.DefinitionChanged(definition=definition))
    if input.is_foreign:
        story.tell(e.LimitsSet(limits=narrower(story.run.usage.limits, input.limits)))
        for question in story.run.inbox.open_questions:
            if question.about == "budget":  # in words of the import: asked anew if it is true
                reason = "the past is that of an import"
                story.tell(e.QuestionSuperseded(question_id=question.id, reason=reason))
    _ask_of_calls(story)
    steering.keep_shown(story)
    story.tell(e.RunRecovered(was_cut=input.was_cut, was_idle=was_idle, hooked=input.hooked))
    if max(story.run.crashes, input.deaths) >= CRASHES and not story.run.suspended:
        story.tell(e.RunSuspended(reason=CRASH_LOOP))


def _ask_of_calls(story: Story) -> None:
    for inner in story.living():
        _ask_of_calls(inner)
    external.close_calls(story)
    run, turn = story.run, story.run.visit.turn
    if turn is not None and turn.prompted and run.visit.phase == "halting":
        story.tell(e.AgentStopped(agent=turn.agent))
        run, turn = story.run, story.run.visit.turn
    for open_call in () if turn is None else turn.calls:
        is_in_flight = open_call.status in ("running", "stopping")
        if not is_in_flight or turn is None:
            continue
        if open_call.call.name == JOIN_WORKTREE and open_call.ended is None:
            # What is merged already is not seen as a change any more: a yes was to all of it.
            story.close_call(open_call.call.id, "not_run", CUT_WHILE_JOINING)
        elif open_call.effect != "once" or open_call.ended is not None:
            continue  # of one that has ended only hooks were yet to have their say
        elif run.visit.phase == "halting":
            story.close_call(open_call.call.id, "unknown", steering.UNKNOWN)
        else:
            steering.ask_outcome(story, turn.agent, open_call.call)


# --- who judges which input -------------------------------------------------------------------

JUDGES: dict[type[inputs.AnyInput], Callable[[Story, Any], None]] = {
    inputs.Start: _start,
    inputs.HandlerReturned: _handler_returned,
    inputs.HandlerFailed: _handler_failed,
    inputs.HandlerLogged: _handler_logged,
    inputs.ModelReplied: _model_replied,
    inputs.ModelFailed: _model_failed,
    inputs.ReplyCheckpoint: _reply_shown,
    inputs.AgentOpened: external.opened,
    inputs.AgentCalled: external.called,
    inputs.AgentReturned: _agent_returned,
    inputs.AgentStopped: external.ended,
    inputs.FilesSeen: _files_seen,
    inputs.CallReviewed: _call_reviewed,
    inputs.FileChanging: _file_changing,
    inputs.ToolEnded: _tool_ended,
    inputs.ToolFinished: _tool_finished,
    inputs.WorkflowFound: _workflow_found,
    inputs.TimerStarted: timer_started,
    inputs.TimerRang: timer_rang,
    inputs.UserSaid: steering.said,
    inputs.Withdraw: steering.withdrawn,
    inputs.Approve: _approved,
    inputs.Revoke: _revoked,
    inputs.Halt: _halted,
    inputs.Stop: steering.stopped,
    inputs.Resume: _resumed,
    inputs.Compact: compacting.begin,
    inputs.Rename: _renamed,
    inputs.EditTodo: _todo_edited,
    inputs.Recovered: _recovered,
}
"""Each tells its story what its input makes true. A test asks that every input has its row."""

"""States: how a run starts, enters a state, goes back into one, and moves through its phases."""

from msgspec.structs import replace

from midstream.core.events import DefinitionChanged, HandlerRan, RunStarted, StateTransition
from midstream.core.fold.fold_branches import with_context
from midstream.core.fold.fold_contexts import starting_messages, with_changes
from midstream.core.run import Cut, Run, Turn, plan_for
from midstream.core.timer_names import WAITED
from midstream.language.branch_spec import branch_definition
from midstream.language.data_paths import stored
from midstream.language.names import INTERRUPTED, RESUME, START, STOP, Json, Phase
from midstream.language.spec import Definition, Plan, State, named_input, plan_of

_NONE: dict[str, Run] = {}

_NO_TIMERS: dict[str, float] = {}


def started(run: Run, fact: RunStarted) -> Run:
    """Return the run as it begins."""
    workflow = fact.definition.workflow
    waits = workflow.start_condition == "on_user_input" and fact.input is None
    return replace(
        run,
        definition=fact.definition,
        plan=plan_of(workflow),
        phase="waiting" if waits else "leaving",
        chosen=START,
        contexts={context.name: starting_messages(context) for context in workflow.contexts},
        variables={**workflow.variables, **fact.variables},
        input=fact.input,
        allowed=fact.allowed,
        approvals=fact.approvals,
        usage=replace(run.usage, limits=fact.limits),
        workspace=fact.workspace,
        common_data=named_input(workflow, fact.input),
    )


def redefined(run: Run, fact: DefinitionChanged) -> Run:
    """Return the run under another definition; contexts it had keep their messages."""
    workflow = fact.definition.workflow
    fresh = {context.name: starting_messages(context) for context in workflow.contexts}
    run = replace(
        run,
        compacting=None,
        contexts={name: run.contexts.get(name, messages) for name, messages in fresh.items()},
        variables={**workflow.variables, **run.variables},
    )
    return with_definition(run, fact.definition)


def with_definition(run: Run, definition: Definition) -> Run:
    """Return a run under a definition, with what follows from it: its plan, its branches' own."""
    plan = plan_of(definition.workflow)
    cuts = tuple(
        replace(cut, branches=_redefined_all(cut.branches, definition, plan, cut.state))
        for cut in run.cuts
    )
    branches = _redefined_all(run.branches, definition, plan, run.state)
    for context in () if run.is_over else definition.workflow.contexts:
        if context.name not in run.contexts:
            new = starting_messages(context)
            run = replace(run, contexts={**run.contexts, context.name: new})
    return replace(run, definition=definition, plan=plan, branches=branches, cuts=cuts)


def _redefined_all(
    branches: dict[str, Run], definition: Definition, plan: Plan, state: str
) -> dict[str, Run]:
    if not branches:
        return branches
    spec = plan.states[state]
    return {
        name: with_definition(branch, branch_definition(definition, spec, name))
        for name, branch in branches.items()
    }


def entered(run: Run, fact: StateTransition) -> Run:
    """Return the run in the state it went to, or back in one it was cut in."""
    if run.branches:
        run = _with_branches_kept(run)
    target, plan = fact.target, plan_for(run)
    is_back = fact.resumes and bool(run.cuts)
    if is_back and run.cuts[-1].phase is not None:
        return _back_in(_at(run, target), run.cuts[-1], run.cuts[-1].phase)
    phase = "leaving" if target == STOP else plan.flow[target][""]
    state = plan.states[target]
    leaves_for = state.next if phase == "leaving" and target != STOP else None
    return replace(
        run,
        seq=run.seq + 1,
        step=run.step + 1,
        state=target,
        phase=phase,
        turn=_turn_in(run, state, phase),
        chosen=leaves_for,
        chosen_by="next" if leaves_for else "",
        halting_for="",
        visits={**run.visits, target: run.visits.get(target, 0) + 1},
        cuts=run.cuts[:-1] if is_back else run.cuts,
        crashes=0,
        branches=_NONE,
        timers=_NO_TIMERS,
        attempts=0,
        trouble=None,
        marks=(len(run.usage.requests), run.usage.tool_calls, run.usage.active_s),
        spent=(),
    )


def _at(run: Run, state: str) -> Run:
    """Return the run back in a state it was cut in, which is no new visit."""
    cut = run.cuts[-1]
    return replace(
        run,
        seq=run.seq + 1,
        step=run.step + 1,
        state=state,
        turn=None,
        chosen=None,
        chosen_by="",
        halting_for="",
        cuts=run.cuts[:-1],
        branches=_NONE,
        timers=_NO_TIMERS if cut.wait_until is None else {WAITED: cut.wait_until},
        attempts=cut.attempts,
        trouble=None,
        marks=(len(run.usage.requests), run.usage.tool_calls, run.usage.active_s),
        spent=cut.spent,
    )


def _with_branches_kept(run: Run) -> Run:
    """Return the run with the branches of a state that was cut kept for when it goes back there."""
    is_cut = run.phase in ("halting", "held") and run.halting_for in ("words", "hold")
    if not is_cut or not run.cuts or run.cuts[-1].state != run.state:
        return run
    if run.cuts[-1].phase != "branches":
        return run
    cut = replace(run.cuts[-1], branches=run.branches)
    return replace(run, cuts=(*run.cuts[:-1], cut))


def _back_in(run: Run, cut: Cut, phase: Phase) -> Run:
    """Return the run where it was cut. It is the same visit to the state, and the same turn."""
    run = in_phase(replace(run, last_response=cut.last_response), phase)
    if phase == "branches":
        # One that was stopped begins anew, should it be needed.
        kept = {n: branch for n, branch in cut.branches.items() if branch.status != "stopped"}
        run = replace(run, branches=kept)
        for context in {name for branch in run.branches.values() for name in branch.branch.shared}:
            run = with_context(run, context, run.contexts[context])
        return run
    if phase == "call":
        return run if cut.call is None else replace(run, turn=Turn(agent="", calls=(cut.call,)))
    if run.turn is None:
        return run
    turn = replace(run.turn, request=cut.request, is_prompted=cut.is_prompted)
    return replace(run, turn=turn)


def _turn_in(run: Run, state: State, phase: Phase) -> Turn | None:
    """Return the turn a phase begins with.

    A call of the state that was cut and may have had its effect is taken up instead of a new one,
    however the run came back to the state: a person is asked about it first.
    """
    if phase == "turn" and state.agent is not None:
        return Turn(agent=state.agent)
    if phase != "call" or not run.cuts:
        return None
    in_doubt = (cut.call for cut in run.cuts if cut.state == state.name and cut.call is not None)
    call = next(in_doubt, None)
    return None if call is None else Turn(agent="", calls=(call,))


def in_phase(run: Run, phase: Phase) -> Run:
    """Return the run at the beginning of a phase of its state."""
    state = plan_for(run).states[run.state]
    if phase in ("turn", "call"):
        return replace(run, phase=phase, turn=_turn_in(run, state, phase))
    if phase == "leaving" and run.chosen is None:
        return replace(run, phase=phase, chosen=state.next, chosen_by="next" if state.next else "")
    return replace(run, phase=phase)


def after_phase(run: Run, phase: Phase) -> Run:
    """Return the run in the phase that follows `phase` in its state."""
    return in_phase(run, plan_for(run).flow[run.state][phase])


def handler_ran(run: Run, fact: HandlerRan) -> Run:
    """Return the run after a handler, with what that changed."""
    common_data = run.common_data
    if fact.changed or fact.removed:
        common_data = {**common_data, **fact.changed}
        for key in fact.removed:
            common_data.pop(key, None)
    plan = plan_for(run)
    phase, state = plan.flow[run.state][run.phase], plan.states[run.state]
    chosen, chosen_by = fact.chosen, "" if fact.chosen is None else fact.handler
    if phase == "leaving" and chosen is None and state.next is not None:
        chosen, chosen_by = state.next, "next"
    return replace(
        run,
        seq=run.seq + 1,
        phase=phase,
        turn=_turn_in(run, state, phase),
        common_data=common_data,
        variables={**run.variables, **fact.variables} if fact.variables else run.variables,
        contexts=with_changes(run, fact.contexts) if fact.contexts else run.contexts,
        is_heard=True,
        chosen=chosen,
        chosen_by=chosen_by,
        crashes=0,
    )


def saved(run: Run, value: Json) -> Run:
    """Return the run with what its state's work came to where the state says it goes."""
    path = plan_for(run).states[run.state].save_as
    return run if path is None else replace(run, common_data=stored(run.common_data, path, value))


def resume_target(run: Run) -> str:
    """Return the state a halt leads to: the state's own `resume`, the workflow's, else its start.

    `$interrupted` leads back to the state, where it is this one that was cut.
    """
    states = plan_for(run).states
    own = states[run.state].resume if run.state in states else None
    is_cut = bool(run.cuts) and run.cuts[-1].state == run.state
    if own and (own != INTERRUPTED or is_cut):
        return own
    is_inside = bool(run.branch.path) and not run.branch.has_resume
    return RESUME if RESUME in states and not is_inside else run.branch.entry

"""States: how a run starts, enters a state, goes back into one, and moves through its phases."""

from typing import Final

from msgspec.structs import replace

from midstream.core.data_edits import edited
from midstream.core.events import DefinitionChanged, HandlerRan, RunStarted, StateTransition
from midstream.core.fold.fold_branches import inner_definition, with_context
from midstream.core.fold.fold_contexts import starting_messages, with_changes
from midstream.core.pictures import by_id
from midstream.core.run import Run, Turn, Visit, with_halt, with_visit
from midstream.language.data_paths import stored
from midstream.language.names import INTERRUPTED, JOIN_WORKTREE, RESUME, START, STOP, Json, Phase
from midstream.language.plan import Plan, named_input, plan_of
from midstream.language.spec import Definition, State

_NONE: dict[str, Run] = {}
_NEW: Final = Visit()

_WITH_TURN: tuple[Phase, ...] = ("turn", "call")
"""The phases that begin with a turn: an agent's, or that of the state's own call."""


def started(run: Run, fact: RunStarted) -> Run:
    """Return the run as it begins."""
    workflow = fact.definition.workflow
    own, given = workflow.variables, fact.variables
    waits = workflow.start_condition == "on_user_input" and fact.input is None
    return replace(
        run,
        definition=fact.definition,
        plan=plan_of(workflow),
        visit=Visit(phase="waiting" if waits else "leaving", chosen=START),
        contexts={context.name: starting_messages(context) for context in workflow.contexts},
        variables={**own, **given} if own and given else own or given or run.variables,
        input=fact.input,
        allowed=fact.allowed,
        hooked=fact.hooked,
        approvals=fact.approvals,
        usage=run.usage if fact.limits is None else replace(run.usage, limits=fact.limits),
        workspace=fact.workspace,
        common_data=named_input(workflow, fact.input) or run.common_data,
        pictures=by_id(fact.pictures) if fact.pictures else run.pictures,
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
        for cut in run.halt.cuts
    )
    branches = _redefined_all(run.visit.branches, definition, plan, run.visit.state)
    for context in () if run.is_over else definition.workflow.contexts:
        if context.name not in run.contexts:
            new = starting_messages(context)
            run = replace(run, contexts={**run.contexts, context.name: new})
    visit, halt = replace(run.visit, branches=branches), replace(run.halt, cuts=cuts)
    return replace(run, definition=definition, plan=plan, visit=visit, halt=halt)


def _redefined_all(
    branches: dict[str, Run], definition: Definition, plan: Plan, state: str
) -> dict[str, Run]:
    if not branches:
        return branches
    spec = plan.states[state]
    return {
        name: with_definition(branch, inner_definition(definition, spec, branch))
        for name, branch in branches.items()
    }


def entered(run: Run, fact: StateTransition) -> Run:
    """Return the run in the state it went to, or back in one it was cut in."""
    # Before the visit is replaced: its branches are gone with it.
    if run.visit.branches:
        run = _with_branches_kept(run)
    is_back = fact.resumes and bool(run.halt.cuts)
    if is_back and run.halt.cuts[-1].phase != "new":
        return _back_in(run, run.halt.cuts[-1])
    halt = run.halt
    if is_back or halt.leads_to:
        halt = replace(halt, leads_to="", cuts=halt.cuts[:-1] if is_back else halt.cuts)
    target, plan = fact.target, run.plan
    state = plan.states[target]
    is_end = target == STOP and state.tool != JOIN_WORKTREE
    phase = "leaving" if is_end else plan.flow[target][""]
    leaves_for = state.next if phase == "leaving" and target != STOP else None
    visits = run.visits.copy()
    visits[target] = visits.get(target, 0) + 1
    # All else of a visit begins anew; what was said last is what the next state's handlers read.
    visit = replace(
        _NEW,
        state=target,
        step=run.visit.step + 1,
        phase=phase,
        chosen=leaves_for,
        chosen_by="next" if leaves_for else "",
        turn=_turn_in(run, state, phase) if phase in _WITH_TURN else None,
        budget_baseline=_baseline(run),
        last_response=run.visit.last_response,
    )
    return replace(
        run,
        seq=run.seq + 1,
        visit=visit,
        visits=visits,
        halt=halt,
        crashes=0,
    )


def _baseline(run: Run) -> tuple[int, int, float]:
    """Return what the run has used when a visit begins, or goes on."""
    before = run.visit.budget_baseline
    used = len(run.usage.requests), run.usage.tool_calls, run.usage.active_s
    return before if used == before else used


def _with_branches_kept(run: Run) -> Run:
    """Return the run with the branches of a state that was cut kept for when it goes back there.

    They went on until they were halted, too: only now do they stand as they are to be found again.
    """
    is_cut = run.visit.phase in ("halting", "held") and run.halt.leads_to in ("words", "hold")
    if not is_cut or not run.halt.cuts:
        return run
    *below, cut = run.halt.cuts
    if (cut.state, cut.phase) != (run.visit.state, "branches"):
        return run
    return with_halt(run, cuts=(*below, replace(cut, branches=run.visit.branches)))


def _back_in(run: Run, cut: Visit) -> Run:
    """Return the run where it was cut. It is the same visit to the state, and the same turn."""
    visit = replace(
        cut,
        # A new step: what was under way before the cut has ended, and its keys are owed to nobody.
        step=run.visit.step + 1,
        turn=None,
        branches=_NONE,
        budget_baseline=_baseline(run),
    )
    halt = replace(run.halt, leads_to="", cuts=run.halt.cuts[:-1])
    run = in_phase(replace(run, seq=run.seq + 1, visit=visit, halt=halt), cut.phase)
    if cut.phase == "branches":
        # One that was stopped begins anew, should it be needed.
        kept = {n: branch for n, branch in cut.branches.items() if branch.status != "stopped"}
        run = with_visit(run, branches=kept)
        # What they share with the run around them may have gone on without them.
        for context in {name for branch in kept.values() for name in branch.branch.shared}:
            run = with_context(run, context, run.contexts[context])
    elif cut.phase == "call" and cut.call_in_doubt is not None:
        run = with_visit(run, turn=cut.turn)
    elif cut.phase == "turn" and run.visit.turn is not None and cut.turn is not None:
        # Its agent is that of the definition the run has now, which may be another one.
        turn = replace(run.visit.turn, request=cut.turn.request, is_prompted=cut.turn.is_prompted)
        run = with_visit(run, turn=turn)
    return run


def _turn_in(run: Run, state: State, phase: Phase) -> Turn | None:
    """Return the turn a phase begins with.

    A call of the state that was cut and may have had its effect is taken up instead of a new one,
    however the run came back to the state: a person is asked about it first.
    """
    if phase == "turn" and state.agent is not None:
        return Turn(agent=state.agent)
    if phase != "call" or not run.halt.cuts:
        return None
    return next(
        (
            cut.turn
            for cut in run.halt.cuts
            if cut.state == state.name and cut.call_in_doubt is not None
        ),
        None,
    )


def in_phase(run: Run, phase: Phase) -> Run:
    """Return the run at the beginning of a phase of its state."""
    state = run.plan.states[run.visit.state]
    if phase in _WITH_TURN:
        return with_visit(run, phase=phase, turn=_turn_in(run, state, phase))
    if phase == "leaving" and run.visit.chosen is None:
        by = "next" if state.next else ""
        return with_visit(run, phase=phase, chosen=state.next, chosen_by=by)
    return with_visit(run, phase=phase)


def after_phase(run: Run, phase: Phase) -> Run:
    """Return the run in the phase that follows `phase` in its state."""
    return in_phase(run, run.plan.flow[run.visit.state][phase])


def handler_ran(run: Run, fact: HandlerRan) -> Run:
    """Return the run after a handler, with what that changed."""
    common_data = run.common_data
    if fact.changed or fact.removed:
        common_data = {**common_data, **fact.changed}
        for key in fact.removed:
            common_data.pop(key, None)
    if fact.edits:
        common_data = edited(common_data, fact.edits)
    plan = run.plan
    phase, state = plan.flow[run.visit.state][run.visit.phase], plan.states[run.visit.state]
    chosen, chosen_by = fact.chosen, "" if fact.chosen is None else fact.handler
    if phase == "leaving" and chosen is None and state.next is not None:
        chosen, chosen_by = state.next, "next"
    return replace(
        run,
        seq=run.seq + 1,
        visit=replace(
            run.visit,
            phase=phase,
            turn=_turn_in(run, state, phase) if phase in _WITH_TURN else None,
            chosen=chosen,
            chosen_by=chosen_by,
        ),
        halt=run.halt if run.halt.is_heard else replace(run.halt, is_heard=True),
        common_data=common_data,
        variables={**run.variables, **fact.variables} if fact.variables else run.variables,
        contexts=with_changes(run, fact.contexts) if fact.contexts else run.contexts,
        crashes=0,
    )


def saved(run: Run, value: Json) -> Run:
    """Return the run with what its state's work came to where the state says it goes."""
    path = run.plan.states[run.visit.state].save_as
    return run if path is None else replace(run, common_data=stored(run.common_data, path, value))


def resume_target(run: Run) -> str:
    """Return the state a halt leads to: the state's own `resume`, the workflow's, else its start.

    `$interrupted` leads back to the state, where it is this one that was cut.
    """
    states = run.plan.states
    own = states[run.visit.state].resume if run.visit.state in states else None
    is_cut = bool(run.halt.cuts) and run.halt.cuts[-1].state == run.visit.state
    if own and (own != INTERRUPTED or is_cut):
        return own
    is_inside = bool(run.branch.path) and not run.branch.has_resume
    return RESUME if RESUME in states and not is_inside else run.branch.entry

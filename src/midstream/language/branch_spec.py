"""The branches of a state, as definitions of their own: what a `parallel` state, a `for_each` or a
sub-workflow runs. Derived from the definition of the run, never stored.
"""

from collections import deque

from msgspec.structs import replace

from midstream.language import spec
from midstream.language.names import START, STOP


def branches_of(state: spec.State) -> tuple[spec.Branch, ...]:
    """Return the branches of a `parallel` state, each with its name."""
    return tuple(
        spec.Branch(name=branch, state=branch)
        if isinstance(branch, str)
        else replace(branch, name=branch.name or branch.state or f"branch{number}")
        for number, branch in enumerate(state.parallel, 1)
    )


def sub_workflow(state: spec.State) -> spec.SubWorkflow | None:
    """Return the sub-workflow a state runs, with its mappings."""
    return (
        spec.SubWorkflow(name=state.workflow) if isinstance(state.workflow, str) else state.workflow
    )


def wait_of(state: spec.State) -> spec.Wait:
    """Return the pause of a state."""
    if isinstance(state.wait, spec.Wait):
        return state.wait
    return spec.Wait(seconds=state.wait)


def branch_of(state: spec.State, name: str) -> spec.Branch | spec.ForEach | spec.SubWorkflow:
    """Return what the branch of that name of a state is."""
    if state.for_each is not None:
        return state.for_each
    sub = sub_workflow(state)
    return sub if sub is not None else next(b for b in branches_of(state) if b.name == name)


def entry_of(branch: spec.Branch | spec.ForEach | spec.SubWorkflow) -> str:
    """Return the state a branch begins at."""
    if isinstance(branch, spec.SubWorkflow):
        return START
    return branch.state if branch.state is not None else branch.states[0].name


def branch_definition(definition: spec.Definition, state: spec.State, name: str) -> spec.Definition:
    """Return what a branch of a state runs. Remembered: branches of one state share it."""
    branch = branch_of(state, name)
    if isinstance(branch, spec.SubWorkflow):
        return definition.workflows[branch.name]
    name = "" if isinstance(branch, spec.ForEach) else name
    for known, of, called, made in _MADE:
        if known is definition and of is state and called == name:
            return made
    made = _made(definition, branch)
    _MADE.appendleft((definition, state, name, made))
    return made


_MADE: deque[tuple[spec.Definition, spec.State, str, spec.Definition]] = deque(maxlen=64)


def _made(definition: spec.Definition, branch: spec.Branch | spec.ForEach) -> spec.Definition:
    workflow = definition.workflow
    own = branch.states or workflow.states
    if not any(state.name == STOP for state in own):
        own = (*own, spec.State(name=STOP))
    states = tuple(
        replace(state, input=branch.output) if state.name == STOP else state for state in own
    )
    contexts = {context.name: context for context in (*workflow.contexts, *branch.contexts)}
    inner = replace(
        workflow,
        states=states,
        contexts=tuple(contexts.values()),
        start_condition="immediate",
        budget=None,
    )
    return replace(definition, workflow=inner)


def resumes_inside(branch: spec.Branch | spec.ForEach | spec.SubWorkflow) -> bool:
    """Return whether words to the branch alone may lead to a state `resume`: only to one of its own."""
    return isinstance(branch, spec.SubWorkflow) or bool(branch.states)

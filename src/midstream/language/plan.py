"""What follows from a definition: its parts by name, the phases of a state, what its branches run, the
tools of an agent. Derived, never stored.
"""

import re
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from midstream.language.names import (
    DELEGATE,
    IN_WORKTREE,
    JOIN_WORKTREE,
    OPEN_WORKTREE,
    RESUME,
    RUN_WORKFLOW,
    START,
    STOP,
    Json,
    Phase,
    Slot,
    is_number,
)
from midstream.language.spec import (
    Agent,
    Branch,
    Budget,
    Context,
    Definition,
    ForEach,
    Guidance,
    Input,
    ParsingTool,
    Role,
    State,
    SubWorkflow,
    ToolSpec,
    Wait,
    Workflow,
)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A definition with its names looked up: by state, agent and context. Derived, never stored.

    `flow` says for each state which phase follows which; the first one follows "". `handlers` says which
    handler a state has in which phase. `has_budgets`: the workflow or a state of it has one;
    `counts_minutes`: one of them, or of a branch's states, counts minutes.
    """

    states: Mapping[str, State] = {}
    agents: Mapping[str, Agent] = {}
    contexts: Mapping[str, Context] = {}
    flow: Mapping[str, Mapping[str, Phase]] = {}
    handlers: Mapping[str, Mapping[Phase, tuple[str, Slot]]] = {}
    has_budgets: bool = False
    counts_minutes: bool = False


NO_PLAN = Plan()
"""That of a run that has no definition yet."""


def plan_of(workflow: Workflow) -> Plan:
    """Return the workflow's parts by name; of two with one name the last counts (lint refuses).

    Runs of one workflow share one plan: it is remembered for the workflows begun last.
    """
    # Looked for by identity: to hash or compare a definition takes longer than to plan it.
    for known, plan in _PLANS:
        if known is workflow:
            return plan
    plan = _planned(workflow)
    _PLANS.appendleft((workflow, plan))
    return plan


_PLANS: deque[tuple[Workflow, Plan]] = deque(maxlen=16)


def _planned(workflow: Workflow) -> Plan:
    return Plan(
        states={state.name: state for state in workflow.states},
        agents={agent.key: agent for agent in workflow.agents},
        contexts={context.name: context for context in workflow.contexts},
        flow={state.name: flow_of(state) for state in workflow.states},
        handlers={state.name: handlers_of(state) for state in workflow.states},
        has_budgets=workflow.budget is not None
        or any(state.budget is not None for state in workflow.states),
        counts_minutes=_has_minutes(workflow.budget) or any(map(_counts_minutes, workflow.states)),
    )


def _has_minutes(budget: Budget | None) -> bool:
    return budget is not None and budget.minutes is not None


def _counts_minutes(state: State) -> bool:
    within = (*state.parallel, *(() if state.for_each is None else (state.for_each,)))
    return _has_minutes(state.budget) or any(
        _counts_minutes(inner)
        for branch in within
        if isinstance(branch, Branch | ForEach)
        for inner in branch.states
    )


def handlers_of(state: State) -> dict[Phase, tuple[str, Slot]]:
    """Return which handler a state has in which phase, and which of its three that is."""
    all_three: tuple[tuple[Phase, str | None, Slot], ...] = (
        ("pre", state.pre_handler, "pre_handler"),
        ("post", state.post_handler, "post_handler"),
        ("transition", state.transition_handler, "transition_handler"),
    )
    return {phase: (name, slot) for phase, name, slot in all_three if name is not None}


def flow_of(state: State) -> dict[str, Phase]:
    """Return which phase of a state follows which; the first one follows ""."""
    work = work_of(state)
    has: dict[Phase, bool] = {
        "waiting": state.awaits_input,
        "pre": state.pre_handler is not None,
        "turn": work == "turn",
        "call": work == "call",
        "asking": work == "asking",
        "resting": work == "resting",
        "branches": work == "branches",
        "post": state.post_handler is not None,
        "transition": state.transition_handler is not None,
        "leaving": True,
    }
    order = list(has)
    return {
        after: next(phase for phase in order[position:] if has[phase])
        for position, after in enumerate(["", *order[:-1]])
    }


def work_of(state: State) -> Phase | None:
    """Return the phase in which a state does its work, None where it has none."""
    if state.agent is not None:
        return "turn"
    if state.tool is not None:
        return "call"
    if state.ask is not None:
        return "asking"
    if state.wait is not None:
        return "resting"
    if state.parallel or state.for_each is not None or state.workflow is not None:
        return "branches"
    return None


def named_input(workflow: "Workflow", input: Json) -> dict[str, Json]:
    """Return the input under the name the workflow gives it, as `common_data` begins with it."""
    wanted = workflow.input
    return {} if wanted is None or input is None else {wanted.name: input}


def input_schema(wanted: Input | None) -> dict[str, Json] | None:
    """Return the JSON Schema of an input that is not simply text, else None."""
    kinds = ("integer", "number", "boolean", "array", "object")
    return {"type": wanted.type} if wanted is not None and wanted.type in kinds else None


# --- branches and waits -------------------------------------------------------------------------


def branches_of(state: State) -> tuple[Branch, ...]:
    """Return the branches of a `parallel` state, each with its name."""
    return tuple(
        Branch(name=branch, state=branch)
        if isinstance(branch, str)
        else replace(branch, name=branch.name or branch.state or f"branch{number}")
        for number, branch in enumerate(state.parallel, 1)
    )


def sub_workflow(state: State) -> SubWorkflow | None:
    """Return the sub-workflow a state runs, with its mappings."""
    return SubWorkflow(name=state.workflow) if isinstance(state.workflow, str) else state.workflow


def wait_of(state: State) -> Wait:
    """Return the pause of a state."""
    if isinstance(state.wait, Wait):
        return state.wait
    return Wait(seconds=state.wait)


def branch_of(state: State, name: str) -> Branch | ForEach | SubWorkflow:
    """Return what the branch of that name of a state is."""
    if state.for_each is not None:
        return state.for_each
    sub = sub_workflow(state)
    return sub if sub is not None else next(b for b in branches_of(state) if b.name == name)


def entry_of(branch: Branch | ForEach | SubWorkflow) -> str:
    """Return the state a branch begins at."""
    return IN_WORKTREE if has_worktree(branch) else _first_of(branch)


def has_worktree(branch: Branch | ForEach | SubWorkflow) -> bool:
    """Return whether a branch works in a git worktree of its own."""
    return not isinstance(branch, SubWorkflow) and branch.worktree


def _first_of(branch: Branch | ForEach | SubWorkflow) -> str:
    if isinstance(branch, SubWorkflow):
        return START
    return branch.state if branch.state is not None else branch.states[0].name


def branch_definition(definition: Definition, state: State, name: str) -> Definition:
    """Return what a branch of a state runs. Remembered: branches of one state share it."""
    branch = branch_of(state, name)
    if isinstance(branch, SubWorkflow):
        return definition.workflows[branch.name]
    name = "" if isinstance(branch, ForEach) else name
    for known, of, called, made in _BRANCHES:
        if known is definition and of is state and called == name:
            return made
    made = _branch_definition(definition, branch)
    _BRANCHES.appendleft((definition, state, name, made))
    return made


_BRANCHES: deque[tuple[Definition, State, str, Definition]] = deque(maxlen=64)


def _branch_definition(definition: Definition, branch: Branch | ForEach) -> Definition:
    workflow = definition.workflow
    own = branch.states or workflow.states
    if not any(state.name == STOP for state in own):
        own = (*own, State(name=STOP))
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
    inner_definition = replace(definition, workflow=inner)
    return in_worktree(inner_definition, _first_of(branch)) if branch.worktree else inner_definition


_WORKTREE_TOOLS: dict[str, ToolSpec] = {
    name: ToolSpec(
        name=name,
        description="Only a branch calls it.",
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
        effect="idempotent",
        timeout_s=600.0,
        reviewed=name == JOIN_WORKTREE,
    )
    for name in (OPEN_WORKTREE, JOIN_WORKTREE)
}


def in_worktree(definition: Definition, first: str) -> Definition:
    """Return what a branch runs that has a git worktree: it is made before its state `first`, and what
    was changed in it is merged in its state `stop`. Both are calls like a state's own.
    """
    workflow = definition.workflow
    begins = State(name=IN_WORKTREE, tool=OPEN_WORKTREE, next=first)
    states = (
        replace(state, tool=JOIN_WORKTREE) if state.name == STOP else state
        for state in workflow.states
    )
    return replace(
        definition,
        workflow=replace(workflow, states=(begins, *states)),
        tools={**definition.tools, **_WORKTREE_TOOLS},
    )


def resumes_inside(branch: Branch | ForEach | SubWorkflow) -> bool:
    """Return whether words to the branch alone may lead to a state `resume`: only to one of its own."""
    return isinstance(branch, SubWorkflow) or bool(branch.states)


# --- tasks in another role ----------------------------------------------------------------------


def with_delegates(definition: Definition, roles: Mapping[str, Role]) -> Definition:
    """Return a definition whose agents may have tasks done in these roles, if any may at all."""
    may = any(role.may_use(DELEGATE) for role in definition.roles.values())
    if DELEGATE not in definition.tools or not may:
        return definition
    return replace(definition, delegates=dict(roles))


def delegated_definition(
    definition: Definition, role_name: str, caller: str, *, worktree: bool = False
) -> Definition:
    """Return what a branch runs that does a task in a role, for an agent of the definition, in a git
    `worktree` of its own or not.

    What is taken from the caller by name (`excludedTools`) is taken from it, too.
    """
    role = definition.delegates.get(role_name, Role())
    by = next((agent for agent in definition.workflow.agents if agent.key == caller), None)
    if by is not None:
        role = role.within(Role(excludedTools=definition.roles[by.agent_role].excludedTools))
    task = replace(
        definition,
        workflow=_task_in(role_name),
        roles={role_name: role},
        digest="",
        script=None,
        found_as="",
        kind="workflow",
        workflows={},
    )
    return in_worktree(task, START) if worktree else task


@lru_cache(maxsize=64)
def _task_in(role_name: str) -> Workflow:
    """Return the workflow of a task: one agent, with a conversation of its own."""
    return Workflow(
        workflow_name=f"role:{role_name}",
        contexts=(Context(name="task"),),
        agents=(Agent(agent_role=role_name, context="task"),),
        states=(
            State(name=START, agent=role_name, next=STOP),
            State(name=RESUME, agent=role_name, next=STOP),
            State(name=STOP),
        ),
    )


def without_tools(definition: Definition) -> Definition:
    """Return a workflow that is run within another, without the tools, which are those of the run."""
    return with_tools(definition, {})


def with_tools(definition: Definition, tools: dict[str, ToolSpec]) -> Definition:
    """Return a definition, and those it runs, with these tools."""
    inner = {name: with_tools(each, tools) for name, each in definition.workflows.items()}
    return replace(definition, tools=tools, workflows=inner)


_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d.*", re.ASCII)


def time_of(value: Json) -> float | None:
    """Return a time (RFC 3339, or seconds since 1970) in seconds since 1970; without a zone: UTC.

    None: it is no time, such as the 30th of February.
    """
    try:
        if is_number(value):
            return float(value)
        if not isinstance(value, str) or not _TIME.fullmatch(value):
            return None
        at = datetime.fromisoformat(value.upper())
    except (ValueError, OverflowError):
        return None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


# --- the tools of an agent ----------------------------------------------------------------------

SUBMIT = "submit"
"""The parsing tool a state with an `output_schema` has its agent answer by."""


def submission(state: State) -> ParsingTool | None:
    """Return the tool by which a state's agent hands in a structured reply."""
    schema = state.output_schema
    if schema is None:
        return None
    is_object = schema.get("type") == "object"
    parameters = schema if is_object else _wrapped(schema)
    return ParsingTool(name=SUBMIT, description="Hand in your answer.", parameters=parameters)


def _wrapped(schema: dict[str, Json]) -> dict[str, Json]:
    """Return the schema of an object that holds a value of any other type: tools take objects."""
    return {
        "type": "object",
        "properties": {"value": schema},
        "required": ["value"],
        "additionalProperties": False,
    }


def parsing_tools(role: Role, state: State | None) -> tuple[ParsingTool, ...]:
    """Return the structured outputs an agent of this role has in a state."""
    own = None if state is None else submission(state)
    return role.parsingTools if own is None else (own,)


def tools_for(
    definition: Definition, agent: Agent, state: State | None = None
) -> tuple[ToolSpec, ...]:
    """Return the tools an agent is offered in a state, parsing tools last, in a stable order."""
    role = definition.roles[agent.agent_role]
    named = {
        DELEGATE: {name: role.description for name, role in definition.delegates.items()},
        RUN_WORKFLOW: definition.runnable,
    }
    usable = (
        []
        if agent.is_external
        else [
            _naming(spec, named[name]) if name in named else spec
            for name, spec in sorted(definition.tools.items())
            if name not in _WORKTREE_TOOLS and role.may_use(name) and named.get(name, True)
        ]
    )
    parsing = [
        ToolSpec(
            name=tool.name, description=tool.description, parameters=tool.parameters, effect="read"
        )
        for tool in parsing_tools(role, state)
    ]
    return (*usable, *parsing)


def _naming(spec: ToolSpec, known: Mapping[str, str]) -> ToolSpec:
    """Return a tool with what it takes in its description: names, and what each is for."""
    lines = (f"{name}: {what}".rstrip(": ") for name, what in known.items())
    return replace(spec, description="\n".join((spec.description, "There are:", *lines)))


NO_ROLES: Mapping[str, Role] = {}
NO_WORKFLOWS: Mapping[str, str] = {}

# --- a chat -------------------------------------------------------------------------------------


def chat_definition(
    role_name: str,
    role: Role,
    tools: Mapping[str, ToolSpec],
    guidance: tuple[Guidance, ...] = (),
    roles: Mapping[str, Role] = NO_ROLES,
    workflows: Mapping[str, str] = NO_WORKFLOWS,
) -> Definition:
    """Return a chat with one role as a workflow: wait for words, answer, wait again.

    `roles` are those in which it may have tasks done, and `workflows` those it may run (with what each is
    for), where its tools let it.

    Unasked words halt the turn and enter `resume`, whose turn answers them: the steering of a chat
    is the steering of every workflow.
    """
    workflow = Workflow(
        workflow_name=f"role:{role_name}",
        contexts=(Context(name="chat"),),
        agents=(Agent(agent_role=role_name, context="chat"),),
        states=(
            State(
                name="start", agent=role_name, awaits_input=True, next="start", on_failure="start"
            ),
            State(name="resume", agent=role_name, next="start", on_failure="start"),
            State(name="stop"),
        ),
    )
    chat = Definition(workflow=workflow, roles={role_name: role}, tools=dict(tools), kind="chat")
    chat = with_delegates(chat, roles)
    if RUN_WORKFLOW in tools and role.may_use(RUN_WORKFLOW):
        chat = replace(chat, runnable=dict(workflows))
    is_guided = any(each.agentsFile for each in (role, *chat.delegates.values()))
    return replace(chat, guidance=guidance) if is_guided else chat


def answering(chat: Definition, schema: dict[str, Json]) -> Definition:
    """Return a chat whose replies are values that fit a JSON Schema, asked for as a state's are."""
    states = (
        state if state.agent is None else replace(state, output_schema=schema)
        for state in chat.workflow.states
    )
    return replace(chat, workflow=replace(chat.workflow, states=tuple(states)))

"""What a workflow, a role and a tool are: the types behind the files a person writes.

The field names are the file format's own (`workflow_name`, `agent_role`, `systemMessage`, ...), so
that a file decodes straight into these types. `midstream.language.lint` reports what is wrong with a
file in full; these types hold what is right.
"""

from collections import deque
from collections.abc import Mapping
from typing import Literal

import msgspec

from midstream.language.names import Effect, ErrorKind, Json, Phase, Policy, Slot


class StartingMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message a context begins with."""

    role: Literal["system", "user", "assistant"]
    content: str


class Context(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One shared conversation. `max_length` is in characters; the oldest messages go first."""

    name: str
    starting_messages: tuple[StartingMessage, ...] = ()
    max_length: int | None = None


class Agent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A role at work in a context. States name it by `name`, by default the role's own name."""

    agent_role: str
    context: str
    role: Literal["assistant", "user"] = "assistant"
    name: str = ""

    @property
    def key(self) -> str:
        """Return the name states use for this agent."""
        return self.name or self.agent_role


class Transition(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Where to go `when` an expression is true. Without `when` it always is. See `expressions`."""

    to: str
    when: str | None = None


class Ask(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A question a state asks by itself. Strings in `question` and `choices` are templates.

    `schema` is a JSON Schema the answer must fit. `deadline_s` is in seconds from when it was asked;
    then `on_timeout` says what comes: the `default` stands for an answer, the run goes `to` a state,
    the state fails (error kind `deadline`), or the question stays open and the user is told.
    """

    question: str
    choices: tuple[str, ...] = ()
    schema: dict[str, Json] | None = None
    default: Json = None
    deadline_s: float | None = None
    on_timeout: Literal["default", "goto", "fail", "wait"] = "wait"
    to: str | None = None


class Wait(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A pause: so many `seconds`, or `until` a time (RFC 3339; a template)."""

    seconds: float | None = None
    until: str | None = None


class Branch(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One of the branches of a `parallel` state: either it begins at a `state` of the workflow and
    ends at `stop`, or it has `states` of its own and begins at the first of them.

    It reads and writes a copy of `common_data`; what it changed is merged when the branches join, in
    the order they are listed. Each context is a copy of its own, as it was when the branch began, but
    for those named in `shared`. `contexts` are its own besides. `output` is the path of its result,
    such as `common_data.findings`; without it the last reply or result.
    """

    name: str = ""
    state: str | None = None
    states: "tuple[State, ...]" = ()
    contexts: tuple[Context, ...] = ()
    shared: tuple[str, ...] = ()
    output: str | None = None


class ForEach(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A branch for each item of the list at the path `items`, at most `max_concurrency` at once.

    The rest is as in `Branch`. A branch's `${input}` is its item, its `${variables.index}` the number
    of it, from 0; its result has that place in the list of results.
    """

    items: str
    state: str | None = None
    states: "tuple[State, ...]" = ()
    contexts: tuple[Context, ...] = ()
    shared: tuple[str, ...] = ()
    output: str | None = None
    max_concurrency: int = 4


class SubWorkflow(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Another workflow run as a state. Strings in `input` and `variables` are templates.

    `output` says where parts of what it leaves go: keys are paths into `common_data`, values paths
    that begin with `output` or with what the sub-workflow has, such as `common_data.report`.
    """

    name: str
    input: Json = None
    variables: dict[str, Json] = {}
    output: dict[str, str] = {}


class Retry(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """How often a state is tried, first try included, and the seconds between (doubled each time)."""

    max_attempts: int = 3
    backoff_s: float = 1.0
    on: tuple[ErrorKind, ...] = ("model", "tool", "handler", "timeout")


class Catch(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Where to go over an error of these kinds; `save_as` takes `{kind, error, state}`."""

    to: str
    on: tuple[ErrorKind, ...] = ("any",)
    save_as: str | None = None


class Budget(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What may be used: dollars, tokens (in and out), tool calls, states entered, minutes at work; None:
    no limit.
    """

    usd: float | None = None
    tokens: int | None = None
    tool_calls: int | None = None
    transitions: int | None = None
    minutes: float | None = None


class State(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One state. What is given runs in this order: wait for words, pre_handler, the state's work,
    post_handler, transition_handler; then the run leaves it.

    The work is one of: an agent's turn (`agent`), a call of a `tool` without a model, a question
    (`ask`), `parallel` branches, a branch `for_each` item, another `workflow`, or a `wait`.

    `input` belongs to `stop`: the path of the workflow's output, such as `common_data.summary`.
    `awaits_input`: first wait for a line of the user, which joins the agent's context.
    `on_failure`: where to go when the agent's turn fails; without it, and without `catch`, the run
    fails. `prompt`: a template, sent to the agent at the beginning of its turn. `save_as`: the path
    in `common_data` of what the work came to: a reply's text, the arguments of a parsing tool, what a
    tool returned, an answer, the results of branches by name. `output_schema`: a JSON Schema the
    reply must fit. `transitions`: the first whose `when` is true is taken, after the handlers, where
    none of them chose. `join`: how many branches it takes. `resume`: where unasked words lead, instead
    of the workflow's `resume`.
    """

    name: str
    agent: str | None = None
    prompt: str | None = None
    output_schema: dict[str, Json] | None = None
    tool: str | None = None
    arguments: dict[str, Json] = {}
    ask: Ask | str | None = None
    wait: Wait | float | None = None
    parallel: tuple[Branch | str, ...] = ()
    for_each: ForEach | None = None
    workflow: SubWorkflow | str | None = None
    join: Literal["all", "any"] | int = "all"
    save_as: str | None = None
    pre_handler: str | None = None
    post_handler: str | None = None
    transition_handler: str | None = None
    transitions: tuple[Transition, ...] = ()
    input: str | None = None
    next: str | None = None
    on_input: Policy | None = None
    resume: str | None = None
    awaits_input: bool = False
    on_failure: str | None = None
    timeout_s: float | None = None
    retry: Retry | None = None
    catch: tuple[Catch, ...] = ()
    max_visits: int | None = None
    budget: Budget | None = None
    description: str = ""


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a workflow is started with."""

    name: str = "input"
    type: str = "string"
    description: str = ""


def named_input(workflow: "Workflow", input: Json) -> dict[str, Json]:
    """Return the input under the name the workflow gives it, as `common_data` begins with it."""
    wanted = workflow.input
    return {} if wanted is None or input is None else {wanted.name: input}


def input_schema(wanted: Input | None) -> dict[str, Json] | None:
    """Return the JSON Schema of an input that is not simply text, else None."""
    kinds = ("integer", "number", "boolean", "array", "object")
    return {"type": wanted.type} if wanted is not None and wanted.type in kinds else None


class Output(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a workflow leaves."""

    name: str = "output"
    type: str = "string"
    description: str = ""


class Workflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workflow file, decoded."""

    workflow_name: str
    states: tuple[State, ...]
    description: str = ""
    start_condition: Literal["immediate", "on_user_input"] = "immediate"
    input: Input | None = None
    output: Output | None = None
    variables: dict[str, Json] = {}
    contexts: tuple[Context, ...] = ()
    agents: tuple[Agent, ...] = ()
    on_input: Policy = "interrupt"
    budget: Budget | None = None


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool as a model sees it, and what midstream must know to run it safely.

    `parameters` is a JSON Schema of type object. `timeout_s` bounds one call, in seconds. The calls of
    a `reviewed` tool are judged one by one, by what each would do (`Tools.review`).
    """

    name: str
    description: str
    parameters: dict[str, Json]
    effect: Effect = "once"
    timeout_s: float = 60.0
    needs_approval: bool = False
    reviewed: bool = False


class ParsingTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A structured output: the model must call it, nothing runs, a handler reads the arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Json] = {}


class Guidance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words of an AGENTS.md: the user's own, or those of the people who keep the workspace."""

    source: Literal["user", "workspace"]
    text: str


class Role(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who a model is asked to be. Without either tool list, a role may use every tool.

    `agentsFile`: it writes or judges code, so the words of the AGENTS.md files join its system message.
    """

    level: Literal["base", "smart", "fast"] = "base"
    systemMessage: str = ""
    includedTools: tuple[str, ...] | None = None
    excludedTools: tuple[str, ...] | None = None
    parsingTools: tuple[ParsingTool, ...] = ()
    reminder: str = ""
    description: str = ""
    agentsFile: bool = False

    def may_use(self, tool: str) -> bool:
        """Return whether the role's lists let it use the tool of that name."""
        if self.includedTools is not None and tool not in self.includedTools:
            return False
        return self.excludedTools is None or tool not in self.excludedTools

    def within(self, other: "Role") -> "Role":
        """Return the role without the tools that another one may not use."""
        included = self.includedTools
        if other.includedTools is not None:
            included = tuple(tool for tool in other.includedTools if self.may_use(tool))
        excluded = self.excludedTools
        if other.excludedTools is not None:
            excluded = tuple(dict.fromkeys((*(excluded or ()), *other.excludedTools)))
        return msgspec.structs.replace(self, includedTools=included, excludedTools=excluded)


class Definition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a run is pinned to: the workflow, its roles by name, the tools by name.

    `digest` is the SHA-256 of the workflow's and the script's text, "" for one built in code.
    `script` is the script's text, None without one: what the run goes on with in a later process.
    `found_as` is the name the workflow is loaded by, "" for one built in code. `kind` tells a chat
    (one agent, an endless conversation) from a workflow. `workflows` are the sub-workflows it uses,
    by the name its states give. `guidance` are the words of the AGENTS.md files as they were.
    """

    workflow: Workflow
    roles: dict[str, Role]
    tools: dict[str, ToolSpec] = {}
    digest: str = ""
    script: str | None = None
    found_as: str = ""
    kind: Literal["workflow", "chat"] = "workflow"
    workflows: "dict[str, Definition]" = {}
    guidance: tuple[Guidance, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A definition with its names looked up: by state, agent and context. Derived, never stored.

    `flow` says for each state which phase follows which; the first one follows "". `handlers` says which
    handler a state has in which phase. `has_budgets`: the workflow or a state of it has one.
    """

    states: Mapping[str, State] = {}
    agents: Mapping[str, Agent] = {}
    contexts: Mapping[str, Context] = {}
    flow: Mapping[str, Mapping[str, Phase]] = {}
    handlers: Mapping[str, Mapping[Phase, tuple[str, Slot]]] = {}
    has_budgets: bool = False


NO_PLAN = Plan()
"""That of a run that has no definition yet."""


def plan_of(workflow: Workflow) -> Plan:
    """Return the workflow's parts by name; of two with one name the last counts (lint refuses).

    Runs of one workflow share one plan: it is remembered for the workflows begun last.
    """
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
    usable = [spec for name, spec in sorted(definition.tools.items()) if role.may_use(name)]
    parsing = [
        ToolSpec(
            name=tool.name, description=tool.description, parameters=tool.parameters, effect="read"
        )
        for tool in parsing_tools(role, state)
    ]
    return (*usable, *parsing)


def chat_definition(
    role_name: str,
    role: Role,
    tools: Mapping[str, ToolSpec],
    guidance: tuple[Guidance, ...] = (),
) -> Definition:
    """Return a chat with one role as a workflow: wait for words, answer, wait again.

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
    return Definition(
        workflow=workflow,
        roles={role_name: role},
        tools=dict(tools),
        kind="chat",
        guidance=guidance if role.agentsFile else (),
    )

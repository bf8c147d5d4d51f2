"""What a workflow, a role and a tool are: the types behind the files a person writes.

The field names are the file format's own (`workflow_name`, `agent_role`, `systemMessage`, ...), so
that a file decodes straight into these types. `midstream.core.lint` reports what is wrong with a
file in full; these types hold what is right.
"""

from collections import deque
from collections.abc import Mapping
from typing import Literal

import msgspec

from midstream.core.names import Effect, Json, Phase, Policy


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


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One state. What is given runs in this order: wait, pre, agent's turn, post, transition.

    `input` belongs to `stop`: the path of the workflow's output, such as `common_data.summary`.
    `awaits_input`: first wait for a line of the user, which joins the agent's context.
    `on_failure`: where to go when the agent's turn fails; without it the run fails.
    """

    name: str
    agent: str | None = None
    pre_handler: str | None = None
    post_handler: str | None = None
    transition_handler: str | None = None
    input: str | None = None
    next: str | None = None
    on_input: Policy | None = None
    awaits_input: bool = False
    on_failure: str | None = None
    description: str = ""


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a workflow is started with."""

    name: str = "input"
    type: str = "string"
    description: str = ""


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


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool as a model sees it, and what midstream must know to run it safely.

    `parameters` is a JSON Schema of type object. `timeout_s` bounds one call, in seconds.
    """

    name: str
    description: str
    parameters: dict[str, Json]
    effect: Effect = "once"
    timeout_s: float = 60.0
    needs_approval: bool = False


class ParsingTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A structured output: the model must call it, nothing runs, a handler reads the arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Json] = {}


class Role(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who a model is asked to be. Without either tool list, a role may use every tool."""

    level: Literal["base", "smart", "fast"] = "base"
    systemMessage: str = ""
    includedTools: tuple[str, ...] | None = None
    excludedTools: tuple[str, ...] | None = None
    parsingTools: tuple[ParsingTool, ...] = ()
    reminder: str = ""
    description: str = ""

    def may_use(self, tool: str) -> bool:
        """Return whether the role's lists let it use the tool of that name."""
        if self.includedTools is not None and tool not in self.includedTools:
            return False
        return self.excludedTools is None or tool not in self.excludedTools


class Definition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a run is pinned to: the workflow, its roles by name, the tools by name.

    `digest` is the SHA-256 of the workflow's and the script's text, "" for one built in code.
    `script` is the script's text, None without one: what the run goes on with in a later process.
    `found_as` is the name the workflow is loaded by, "" for one built in code. `kind` tells a chat
    (one agent, an endless conversation) from a workflow.
    """

    workflow: Workflow
    roles: dict[str, Role]
    tools: dict[str, ToolSpec] = {}
    digest: str = ""
    script: str | None = None
    found_as: str = ""
    kind: Literal["workflow", "chat"] = "workflow"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A definition with its names looked up: by state, agent and context. Derived, never stored.

    `flow` says for each state which phase follows which; the first one follows "".
    """

    states: Mapping[str, State]
    agents: Mapping[str, Agent]
    contexts: Mapping[str, Context]
    flow: Mapping[str, Mapping[str, Phase]]


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
    )


def flow_of(state: State) -> dict[str, Phase]:
    """Return which phase of a state follows which; the first one follows ""."""
    has: dict[Phase, bool] = {
        "waiting": state.awaits_input,
        "pre": state.pre_handler is not None,
        "turn": state.agent is not None,
        "post": state.post_handler is not None,
        "transition": state.transition_handler is not None,
        "leaving": True,
    }
    order = list(has)
    return {
        after: next(phase for phase in order[position:] if has[phase])
        for position, after in enumerate(["", *order[:-1]])
    }


def tools_for(definition: Definition, agent: Agent) -> tuple[ToolSpec, ...]:
    """Return the tools an agent is offered, parsing tools last, in a stable order."""
    role = definition.roles[agent.agent_role]
    usable = [spec for name, spec in sorted(definition.tools.items()) if role.may_use(name)]
    parsing = [
        ToolSpec(
            name=tool.name, description=tool.description, parameters=tool.parameters, effect="read"
        )
        for tool in role.parsingTools
    ]
    return (*usable, *parsing)


def chat_definition(role_name: str, role: Role, tools: Mapping[str, ToolSpec]) -> Definition:
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
    return Definition(workflow=workflow, roles={role_name: role}, tools=dict(tools), kind="chat")

"""What a workflow, a role and a tool are: the types behind the files a person writes.

The field names are the file format's own (`workflow_name`, `agent_role`, `systemMessage`, ...), so
that a file decodes straight into these types. `midstream.language.lint` reports what is wrong with a
file in full; these types hold what is right.
"""

from typing import Literal

import msgspec

from midstream.language.names import Effect, Effort, ErrorKind, Json, Policy


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
    """A role at work in a context. States name it by `name`, by default the role's own name.

    `acp` makes it an external agent: the name of a preset, or the argv of a program that speaks the Agent
    Client Protocol. It needs no role; one it has is told to it at the beginning.
    """

    agent_role: str = ""
    context: str
    role: Literal["assistant", "user"] = "assistant"
    name: str = ""
    acp: str | tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def program(self) -> str | tuple[str, ...]:
        """Return the preset or the argv of the program that speaks for it, "" where a model does."""
        return "" if self.acp is msgspec.UNSET else self.acp

    @property
    def is_external(self) -> bool:
        """Return whether another program speaks for it."""
        return bool(self.program)

    @property
    def key(self) -> str:
        """Return the name states use for this agent."""
        return self.name or self.agent_role


class _Part(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A part of a state, stored without what stands at its default."""


class Transition(_Part, frozen=True, kw_only=True):
    """Where to go `when` an expression is true. Without `when` it always is. See `expressions`."""

    to: str
    when: str | None = None


class Ask(_Part, frozen=True, kw_only=True):
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


class Wait(_Part, frozen=True, kw_only=True):
    """A pause: so many `seconds`, or `until` a time (RFC 3339; a template)."""

    seconds: float | None = None
    until: str | None = None


class Branch(_Part, frozen=True, kw_only=True):
    """One of the branches of a `parallel` state: either it begins at a `state` of the workflow and
    ends at `stop`, or it has `states` of its own and begins at the first of them.

    It reads and writes a copy of `common_data`; what it changed is merged when the branches join, in
    the order they are listed. Each context is a copy of its own, as it was when the branch began, but
    for those named in `shared`. `contexts` are its own besides. `output` is the path of its result,
    such as `common_data.findings`; without it the last reply or result. With `worktree` its tools work
    in a git worktree of its own, and what they changed there is merged when it has ended.
    """

    name: str = ""
    state: str | None = None
    states: "tuple[State, ...]" = ()
    contexts: tuple[Context, ...] = ()
    shared: tuple[str, ...] = ()
    output: str | None = None
    worktree: bool = False


class ForEach(_Part, frozen=True, kw_only=True):
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
    worktree: bool = False


class SubWorkflow(_Part, frozen=True, kw_only=True):
    """Another workflow run as a state. Strings in `input` and `variables` are templates.

    `output` says where parts of what it leaves go: keys are paths into `common_data`, values paths
    that begin with `output` or with what the sub-workflow has, such as `common_data.report`.
    """

    name: str
    input: Json = None
    variables: dict[str, Json] = {}
    output: dict[str, str] = {}


class Retry(_Part, frozen=True, kw_only=True):
    """How often a state is tried, first try included, and the seconds between (doubled each time)."""

    max_attempts: int = 3
    backoff_s: float = 1.0
    on: tuple[ErrorKind, ...] = ("model", "agent", "tool", "handler", "timeout")


class Catch(_Part, frozen=True, kw_only=True):
    """Where to go over an error of these kinds; `save_as` takes `{kind, error, state}`."""

    to: str
    on: tuple[ErrorKind, ...] = ("any",)
    save_as: str | None = None


class Budget(_Part, frozen=True, kw_only=True):
    """What may be used: dollars, tokens (in and out), tool calls, states entered, minutes at work; None:
    no limit.
    """

    usd: float | None = None
    tokens: int | None = None
    tool_calls: int | None = None
    transitions: int | None = None
    minutes: float | None = None


class State(_Part, frozen=True, kw_only=True):
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
    """What joins the system messages of roles that work in a folder.

    The words of an AGENTS.md (`user`: the user's own; `workspace`: of the people who keep it), what the
    user had remembered for the folder (`memory`), which skills there are (`skills`), and where the work
    goes on (`environment`).
    """

    source: Literal["user", "workspace", "memory", "skills", "environment"]
    text: str


class Role(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who a model is asked to be. Without either tool list, a role may use every tool.

    `agentsFile`: it writes or judges code, so the words of the AGENTS.md files join its system message.
    `effort`: how hard its model thinks; None: as the settings say for the level, else as the provider does.
    """

    level: Literal["base", "smart", "fast"] = "base"
    systemMessage: str = ""
    includedTools: tuple[str, ...] | None = None
    excludedTools: tuple[str, ...] | None = None
    parsingTools: tuple[ParsingTool, ...] = ()
    reminder: str = ""
    description: str = ""
    agentsFile: bool = False
    effort: Effort | None = None

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
    `delegates` are the roles, by name, in which its agents may have tasks done (`delegate`), `runnable`
    the workflows they may run (`run_workflow`), by name with what each is for.
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
    delegates: dict[str, Role] = {}
    runnable: dict[str, str] = {}

"""The JSON Schema of the files people write, made from the types they are read into.

An editor that is given it completes keys, shows what they mean and marks what does not fit. What it
cannot know (whether a name leads anywhere) `midstream validate` says.
"""

from typing import Any, Final

import msgspec

from midstream.language.names import START, STOP, Json
from midstream.language.spec import Role, Workflow
from midstream.views.key_table import actions

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_RULES: dict[str, Json] = {
    "type": "array",
    "items": {
        "type": "string",
        "pattern": "^(read|write|write_protected|exec|shell|outside|net|tool|ask_user): ?.",
        "examples": ["exec: git push *", "write: docs/**", "net: docs.python.org"],
    },
}

_TOP: dict[str, Json] = {
    "type": "string",
    "description": "Where this schema is, for editors; midstream passes over it.",
}


def workflow_schema() -> dict[str, Json]:
    """Return the JSON Schema (2020-12) of a workflow file."""
    schema = _schema_of(Workflow, "A midstream workflow")
    top = schema["$defs"]["Workflow"]
    top["properties"]["$schema"] = _TOP
    top["properties"]["states"]["allOf"] = [
        {"contains": {"properties": {"name": {"const": name}}, "required": ["name"]}}
        for name in (START, STOP)
    ]
    return schema


def roles_schema() -> dict[str, Json]:
    """Return the JSON Schema (2020-12) of a role file: an object of roles by name."""
    schema = _schema_of(Role, "midstream roles")
    tools = schema["$defs"]["Role"]["properties"]["parsingTools"]
    tools["items"] = {"anyOf": [{"type": "string"}, tools["items"]]}
    del schema["$ref"]
    return schema | {
        "type": "object",
        "properties": {"$schema": _TOP},
        "additionalProperties": {"$ref": "#/$defs/Role"},
    }


def plugin_schema() -> dict[str, Json]:
    """Return the JSON Schema (2020-12) of a plugin's manifest; keys of other programs are left alone."""
    return {
        "$schema": DRAFT,
        "title": "midstream plugin",
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {
                "description": "What it is called, and what stands before a name that is taken.",
                "type": "string",
                "pattern": "^[a-z][a-z0-9]*(-[a-z0-9]+)*$",
                "maxLength": 59,
            },
            "version": {"type": "string", "examples": ["1.0.0"]},
            "description": {"description": "What it is for, in a line.", "type": "string"},
        },
    }


def _object(properties: dict[str, Json]) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _said(words: str, **schema: Json) -> dict[str, Json]:
    return {"description": words, **schema}


def _own(words: str, **schema: Json) -> dict[str, Json]:
    """Return what is a person's own to say."""
    return _said(f"{words} A workspace's file may not say so.", **schema)


_TEXT: Final[dict[str, Json]] = {"type": "string"}
_TEXTS: Final[dict[str, Json]] = {"type": "object", "additionalProperties": _TEXT}
_WORDS: Final[dict[str, Json]] = {"type": "array", "items": _TEXT}
_FLAG: Final[dict[str, Json]] = {"type": "boolean"}
_MOST_AN_HOUR: Final[dict[str, Json]] = {"type": "number", "minimum": 0.01, "maximum": 3_600}
_MCP_SERVER: Final[dict[str, Json]] = {
    **_object(
        {
            "type": {"enum": ["stdio", "http", "streamable-http"]},
            "command": _said("The program to start.", **_TEXT),
            "args": _WORDS,
            "env": _said("Variables it gets besides a few harmless ones.", **_TEXTS),
            "passEnv": _said("Names of your own variables it gets.", **_WORDS),
            "cwd": _said("Where it runs, from the workspace.", **_TEXT),
            "url": _said("Where it is, instead of a command.", **_TEXT),
            "headers": _said("Values may name variables: ${NAME}.", **_TEXTS),
            "timeoutSeconds": _MOST_AN_HOUR,
            "startTimeoutSeconds": _MOST_AN_HOUR,
            "trustAnnotations": _said(
                "Believe what its tools say of themselves. Not in a workspace's file.", **_FLAG
            ),
            "disabled": _FLAG,
        }
    ),
    "oneOf": [{"required": ["command"]}, {"required": ["url"]}],
}

HOOK_EVENTS: Final = (
    *("PreToolUse", "UserPromptSubmit", "PostToolUse"),
    *("Notification", "Halt", "Stop", "SessionEnd"),
)
_HOOK: Final[dict[str, Json]] = {
    **_object(
        {
            "type": {"enum": ["command"]},
            "command": _said("What /bin/sh runs.", **_TEXT),
            "name": _TEXT,
            "timeout": {"type": "number", "minimum": 0.1, "maximum": 600},
            "on_error": {"enum": ["refuse", "go_on"]},
            "sandbox": _said("False: with your rights. Not in a workspace's file.", **_FLAG),
        }
    ),
    "required": ["command"],
}
_HOOKS: Final[dict[str, Json]] = {
    **_object(
        {
            "matcher": _said("A pattern of whole names of tools; none: all.", **_TEXT),
            "hooks": {"type": "array", "items": _HOOK},
        }
    ),
    "required": ["hooks"],
}


def settings_schema() -> dict[str, Json]:
    """Return the JSON Schema (2020-12) of application.json."""
    seconds = {"type": "number", "minimum": 0.01, "maximum": 86_400}
    level = {
        "type": "string",
        "pattern": r"\S",
        "examples": ["openai:gpt-5", "openai:gpt-5 high", "offline"],
    }
    key: dict[str, Json] = {"type": "string", "minLength": 1, "examples": ["Ctrl-T", "Alt-X", "F5"]}
    keys: dict[str, Json] = {"anyOf": [key, {"type": "array", "items": key}]}
    levels = ("base", "smart", "fast")
    patience = ("firstByteSeconds", "silenceSeconds", "totalSeconds")
    properties: dict[str, Json] = {
        "$schema": _TOP,
        "currentMode": _said(
            "The mode the console begins in.",
            type="string",
            pattern="^(role|workflow):.+",
            examples=["role:dude", "workflow:coder_reviewer"],
        ),
        "defaultRole": _said(
            "The older name of `currentMode`: a role.", type="string", deprecated=True
        ),
        "autoResume": _said(
            "Whether runs that were cut off go on when the console starts.", **_FLAG
        ),
        "autoCompact": _own(
            "Whether a chat at 90 % of its model's window has old results of tools trimmed, "
            "or its older turns summarised.",
            **_FLAG,
        ),
        "diagnostics": _said(
            "Whether the project's own checkers (ruff, mypy, eslint, tsc, ...) look at what "
            "was changed; or the commands that do, by the files they are for. {files} stands "
            "for those.",
            oneOf=[
                _FLAG,
                {
                    "type": "object",
                    "additionalProperties": {
                        "oneOf": [
                            _TEXT,
                            {**_WORDS, "maxItems": 8},
                        ]
                    },
                    "examples": [{"*.py": ["ruff check {files}", "mypy {files}"]}],
                },
            ],
        ),
        "editing": _own("Whose keys the line is edited with.", enum=["emacs", "vi"]),
        "notifications": _own(
            "How you are called when a question waits or a run is done, and you have not "
            "typed for ten seconds.",
            enum=["off", "bell", "desktop"],
        ),
        "theme": _own(
            "In which colours the console is drawn: those of your terminal, for a light or a "
            "dark background, the same for the colour-blind, or none.",
            enum=["auto", "light", "dark", "colour-blind-light", "colour-blind-dark", "plain"],
        ),
        "screenReader": _own(
            "Whether the console is plain lines, each said once, for a screen reader.",
            **_FLAG,
        ),
        "updateNotice": _own(
            "Whether the console asks the package index (pypi.org) at most once a day for the "
            "newest version of midstream, and says at its next start if there is a newer one.",
            **_FLAG,
        ),
        "traces": _own(
            "Whether traces of your runs are sent to an OpenTelemetry collector: true to the "
            "one the environment names, or where `endpoint` says, with words if `content`.",
            anyOf=[
                _FLAG,
                _object({"endpoint": _TEXT, "content": _FLAG}),
            ],
            examples=[{"endpoint": "http://localhost:4318"}],
        ),
        "statusLine": _own(
            "What stands below the bottom line: a template with fields such as {model}, or a "
            "command that prints one line.",
            anyOf=[
                _TEXT,
                _object(
                    {
                        **dict.fromkeys(("type", "template", "command"), _TEXT),
                        "padding": {"type": "number"},
                        "sandbox": _FLAG,
                    }
                ),
            ],
            examples=[
                "{model} · {branch} · {tokens} tokens",
                {"command": "~/.config/midstream/hooks/status.sh"},
            ],
        ),
        "keys": _own(
            "Other keys for actions of the console, by the names docs/keys.md lists; an empty "
            "list takes an action's key away.",
            **_object(dict.fromkeys(actions(), keys)),
            examples=[{"show_last": "F5", "send": "Ctrl-Enter", "steer": []}],
        ),
        "models": _own(
            "The model of each level of role, and how hard it thinks: low, medium or high.",
            **_object(dict.fromkeys(levels, level)),
        ),
        "modelPatience": _said(
            "How long a model may take, in seconds, and how often it is asked again.",
            type="object",
            properties={
                **dict.fromkeys(patience, seconds),
                "attempts": {"type": "integer", "minimum": 1, "maximum": 100},
            },
            additionalProperties=False,
        ),
        "mcpServers": _said(
            "MCP servers: programs to start, or addresses. A person approves each. A "
            "workspace's file only proposes.",
            type="object",
            propertyNames={"pattern": "^[a-zA-Z0-9][a-zA-Z0-9-]{0,23}$"},
            additionalProperties=_MCP_SERVER,
        ),
        "hooks": _said(
            "Commands that run at events of a run, and may refuse, change and add; never "
            "allow. A workspace's count once it is trusted.",
            type="object",
            properties={event: {"type": "array", "items": _HOOKS} for event in HOOK_EVENTS},
            additionalProperties=False,
        ),
        "permissionMode": _own("How much happens unasked.", enum=["plan", "ask", "auto"]),
        "permissions": _said(
            "Rules such as `exec: git status`, `write: docs/**`, `net: *.python.org`. A "
            "workspace's file may only ask and deny.",
            **_object(dict.fromkeys(("allow", "ask", "deny"), _RULES)),
        ),
    }
    return {
        "$schema": DRAFT,
        "title": "midstream settings",
        "type": "object",
        "properties": properties,
    }


def _schema_of(type_: Any, title: str) -> dict[str, Json]:
    (root,), found = msgspec.json.schema_components((type_,), ref_template="#/$defs/{name}")
    parts: dict[str, dict[str, Json]] = found
    for name, part in parts.items():
        part["description"] = " ".join(part.get("description", "").split())
        for key, value in part.get("properties", {}).items():
            part["properties"][key] = _described(f"{name}.{key}", value)
    whole = {"$schema": DRAFT, "title": title, **root, "$defs": parts}
    # Defaults are tuples so far, which JSON does not know.
    plain: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(whole))
    return plain


def _described(key: str, value: dict[str, Json]) -> dict[str, Json]:
    """Return a property's schema with words; in 2020-12 they may stand beside a reference."""
    said: dict[str, Json] = {"description": WORDS[key]} if key in WORDS else {}
    if key in EXAMPLES:
        said["examples"] = EXAMPLES[key]
    return {**said, **value}


# --- what each key is for, in words an editor shows while somebody writes one -----------------------

WORDS: Final[dict[str, str]] = {
    "StartingMessage.role": "Who says it.",
    "StartingMessage.content": "What is said.",
    "Context.name": "The name agents use for this conversation.",
    "Context.starting_messages": "What the conversation opens with.",
    "Context.max_length": "In characters; beyond it the oldest messages go. Null: no limit.",
    "Agent.agent_role": "The role at work: one of `midstream roles`.",
    "Agent.context": "The conversation it hears and speaks in.",
    "Agent.role": "`user` puts it on the other side: the others' words are its user's for it.",
    "Agent.name": "The name states use for it; by default the role's.",
    "Agent.acp": "Another program speaks for it: a preset such as `claude`, or the argv of one that "
    "speaks the Agent Client Protocol.",
    "Transition.to": "The state to go to, or `$interrupted`.",
    "Transition.when": "An expression such as `last.value.failed == 0`; without it: always.",
    "Ask.question": "The question; `${common_data.x}` is filled in.",
    "Ask.choices": "Answers to choose from.",
    "Ask.schema": "A JSON Schema the answer must fit.",
    "Ask.default": "Stands for an answer that did not come in time.",
    "Ask.deadline_s": "Seconds to answer in, counted from when it was asked.",
    "Ask.on_timeout": "What comes after the deadline: the default, the state `to`, a failure, or nothing.",
    "Ask.to": "With `on_timeout: goto`: the state to go to.",
    "Wait.seconds": "How long to wait.",
    "Wait.until": "When to go on, such as `2030-01-31T09:00:00Z`; `${...}` is filled in.",
    "Branch.name": "What the branch is called in results, and by `@NAME words`.",
    "Branch.state": "The state of the workflow it begins at; it ends at `stop`.",
    "Branch.states": "States of its own; it begins at the first.",
    "Branch.contexts": "Conversations of its own.",
    "Branch.shared": "Conversations it shares with the others; of the rest it has copies.",
    "Branch.output": "The path of its result, such as `common_data.findings`; by default the last reply.",
    "Branch.worktree": "Work in a git worktree of its own, which is merged when the branch ends.",
    "ForEach.worktree": "Give each item a git worktree of its own, which is merged when it ends.",
    "ForEach.items": "The path of the list, such as `common_data.modules`.",
    "ForEach.state": "The state of the workflow each item begins at; it ends at `stop`.",
    "ForEach.states": "States of its own for each item; it begins at the first.",
    "ForEach.contexts": "Conversations of its own.",
    "ForEach.shared": "Conversations the items share; of the rest each has copies.",
    "ForEach.output": "The path of an item's result; by default the last reply.",
    "ForEach.max_concurrency": "How many items are worked on at once.",
    "SubWorkflow.name": "A workflow: one of `midstream workflows`.",
    "SubWorkflow.input": "What it is started with; `${...}` is filled in.",
    "SubWorkflow.variables": "Values for its variables; `${...}` is filled in.",
    "SubWorkflow.output": "Where parts of what it leaves go: path in common_data to path there.",
    "Retry.max_attempts": "How often the state is tried, the first time included.",
    "Retry.backoff_s": "Seconds before the second try, doubled before each further one.",
    "Retry.on": "The kinds of error it is tried again after.",
    "Catch.to": "The state to go to.",
    "Catch.on": "The kinds of error it is for; `any` is each of them.",
    "Catch.save_as": "Where in common_data `{kind, error, state}` goes.",
    "Budget.usd": "US dollars.",
    "Budget.tokens": "Tokens, in and out.",
    "Budget.tool_calls": "Calls of tools.",
    "Budget.transitions": "States entered.",
    "Budget.minutes": "Minutes at work; not while it waits for you, or for a time.",
    "State.name": "The name others lead to. A run begins in `start` and ends in `stop`.",
    "State.agent": "The agent that has its turn here.",
    "State.prompt": "What the agent is told; `${common_data.x}` and `${x?or else}` are filled in.",
    "State.output_schema": "A JSON Schema the agent's answer must fit; it is asked again until it does.",
    "State.tool": "The tool that is called here, without a model.",
    "State.arguments": "Arguments of the tool; a string that is one `${path}` becomes the value itself.",
    "State.ask": "A question to the user: its text, or an object.",
    "State.wait": "A pause: seconds, or an object.",
    "State.parallel": "Branches that run at once: names of states, or objects.",
    "State.for_each": "A branch for each item of a list.",
    "State.workflow": "Another workflow that runs here: its name, or an object.",
    "State.join": "How many branches it takes: `all`, `any`, or a number.",
    "State.save_as": "Where in common_data the result goes, such as `common_data.review`.",
    "State.pre_handler": "A function of the script that runs before the work.",
    "State.post_handler": "A function of the script that runs after the work.",
    "State.transition_handler": "A function of the script that returns the next state.",
    "State.transitions": "Where to go: the first whose `when` is true.",
    "State.input": "On `stop` alone: the path of the workflow's output, such as `common_data.report`.",
    "State.next": "The state to go to where nothing else says so; by default `stop`.",
    "State.on_input": "What words typed meanwhile do; by default what the workflow says.",
    "State.resume": "Where these words lead; by default the state `resume`, else `start`.",
    "State.awaits_input": "First wait for a line of the user, which the agent hears.",
    "State.on_failure": "The state to go to when the agent's turn fails.",
    "State.timeout_s": "Seconds the state may take.",
    "State.retry": "How often it is tried again when something goes wrong.",
    "State.catch": "Where to go when something goes wrong: the first with its kind.",
    "State.max_visits": "How often the state may be entered; then it is an error of kind `max_visits`.",
    "State.budget": "What the state may use, each time it is entered.",
    "State.description": "Words for people.",
    "Input.name": "What it is called.",
    "Input.type": "A JSON Schema type: string, number, integer, boolean, object or array.",
    "Input.description": "What the user is asked for.",
    "Output.name": "What it is called.",
    "Output.type": "A JSON Schema type, for people.",
    "Output.description": "Words for people.",
    "Workflow.workflow_name": "What it is called.",
    "Workflow.states": "Its states; `start` and `stop` must be among them.",
    "Workflow.description": "A line for lists.",
    "Workflow.start_condition": "`on_user_input`: without an input the user's first line is taken as one.",
    "Workflow.input": "What it is started with.",
    "Workflow.output": "What it produces.",
    "Workflow.variables": "Values a run can change with `--set NAME=VALUE`.",
    "Workflow.contexts": "Conversations that agents share.",
    "Workflow.agents": "Roles at work in a conversation.",
    "Workflow.on_input": "What words typed while it runs do, in states that do not say so themselves.",
    "Workflow.budget": "What the whole run may use.",
    "ParsingTool.name": "What the model calls it.",
    "ParsingTool.description": "What the model is told it is for.",
    "ParsingTool.parameters": "A JSON Schema of type object: the answer's form.",
    "Role.level": "Which of the models of the settings it uses.",
    "Role.effort": "How hard its model thinks. Null: as the settings or the provider have it.",
    "Role.systemMessage": "Who the model is asked to be.",
    "Role.includedTools": "The only tools it may use. Null: all.",
    "Role.excludedTools": "Tools it may not use.",
    "Role.parsingTools": "Structured outputs it can answer by.",
    "Role.agentsFile": "It writes or judges code: the words of AGENTS.md join its system message.",
    "Role.reminder": "Said to it again before each of its replies.",
    "Role.description": "A line for lists.",
}
"""Keys are `Type.field` of the types in `midstream.language.spec`. A test sees that none is missing."""

EXAMPLES: Final[dict[str, list[object]]] = {
    "State.prompt": ["Write a haiku about ${input}."],
    "State.transitions": [[{"when": "last.value.approved", "to": "stop"}, {"to": "revise"}]],
    "State.ask": ["Which of them?", {"question": "Go on?", "choices": ["yes", "no"]}],
    "State.wait": [60, {"until": "2030-01-31T09:00:00Z"}],
    "State.parallel": [[{"name": "tests", "states": [{"name": "look", "agent": "reviewer"}]}]],
    "State.save_as": ["common_data.review"],
    "State.input": ["common_data.report"],
    "Transition.when": ["last.value.failed == 0 and visits.fix < 5"],
    "ForEach.items": ["common_data.modules"],
    "Workflow.states": [
        [{"name": "start", "agent": "dude"}, {"name": "stop", "input": "last_response"}]
    ],
}

"""The messages of the Agent Client Protocol, version 1, as far as we send or take them.

Names are the schema's (https://agentclientprotocol.com), fields in snake case, `_meta` is `meta`. Keys
we do not know are passed over; what has a default is left out where it has that value. A test compares
every type with the schema.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from midstream.language.names import Json

PROTOCOL_VERSION: Final = 1

STEERING: Final = "_session/steering"
"""The extension by which words join a turn that is under way. An agent that has it says so with `STEERS`
in the `_meta` of what it answers to `initialize`; see `SteeringRequest`.
"""
STEERS: Final[dict[str, Json]] = {"steering": {"supported": True}}


class Message(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=False,
):
    """What every message may have: `_meta`, notes of implementations for each other."""

    meta: dict[str, Json] | None = msgspec.field(name="_meta", default=None)


# --- content ------------------------------------------------------------------------------------


class TextContent(Message, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Words, as Markdown."""

    text: str


class ImageContent(Message, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """A picture, base64."""

    data: str
    mime_type: str
    uri: str | None = None


class AudioContent(Message, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """A sound, base64."""

    data: str
    mime_type: str


class ResourceLink(Message, frozen=True, kw_only=True, tag_field="type", tag="resource_link"):
    """A file or page by its address."""

    name: str
    uri: str


class ResourceContents(Message, frozen=True, kw_only=True):
    """The contents of a file or page: `text`, None where it is none."""

    uri: str
    text: str | None = None


class EmbeddedResource(Message, frozen=True, kw_only=True, tag_field="type", tag="resource"):
    """A file or page with its contents."""

    resource: ResourceContents


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
)


# --- tool calls ---------------------------------------------------------------------------------

ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
ToolCallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]


class Content(Message, frozen=True, kw_only=True, tag_field="type", tag="content"):
    """Content of a tool call."""

    content: ContentBlock


class Diff(Message, frozen=True, kw_only=True, tag_field="type", tag="diff"):
    """A change of a file: its whole text before (None: there was no such file) and after."""

    path: str
    new_text: str
    old_text: str | None = None


ToolCallContent: TypeAlias = Content | Diff


class ToolCallLocation(Message, frozen=True, kw_only=True):
    """Where a tool works: an absolute path."""

    path: str
    line: int | None = None


class ToolCallUpdate(Message, frozen=True, kw_only=True):
    """What is new of a tool call. What is None stays as it was; lists take the place of those before."""

    tool_call_id: str
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    title: str | None = None
    name: str | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: Json = None
    raw_output: Json = None


# --- session/update -----------------------------------------------------------------------------


class Update(Message, frozen=True, kw_only=True, tag_field="sessionUpdate"):
    """Something that is new in a session."""


class Chunk(Update, frozen=True, kw_only=True):
    """A piece of what is said."""

    content: ContentBlock
    message_id: str | None = None


class UserMessageChunk(Chunk, frozen=True, kw_only=True, tag="user_message_chunk"):
    """A piece of what a person said."""


class AgentMessageChunk(Chunk, frozen=True, kw_only=True, tag="agent_message_chunk"):
    """A piece of an agent's reply."""


class AgentThoughtChunk(Chunk, frozen=True, kw_only=True, tag="agent_thought_chunk"):
    """A piece of an agent's reasoning."""


class ToolCall(Update, frozen=True, kw_only=True, tag="tool_call"):
    """A tool call that is new."""

    tool_call_id: str
    title: str
    name: str | None = None
    kind: ToolKind = "other"
    status: ToolCallStatus = "pending"
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Json = None
    raw_output: Json = None


class ToolCallUpdated(
    ToolCallUpdate, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"
):
    """What is new of a tool call, as an update of the session."""


class PlanEntry(Message, frozen=True, kw_only=True):
    """One point of a plan."""

    content: str
    status: Literal["pending", "in_progress", "completed"]
    priority: Literal["high", "medium", "low"]


class Plan(Update, frozen=True, kw_only=True, tag="plan"):
    """The plan as it is now, whole."""

    entries: tuple[PlanEntry, ...]


class AvailableCommandInput(Message, frozen=True, kw_only=True):
    """What may be written behind a command."""

    hint: str


class AvailableCommand(Message, frozen=True, kw_only=True):
    """A command: written as `/name` at the beginning of a prompt."""

    name: str
    description: str
    input: AvailableCommandInput | None = None


class AvailableCommandsUpdate(Update, frozen=True, kw_only=True, tag="available_commands_update"):
    """The commands as they are now."""

    available_commands: tuple[AvailableCommand, ...]


class CurrentModeUpdate(Update, frozen=True, kw_only=True, tag="current_mode_update"):
    """The mode that holds now."""

    current_mode_id: str


class SessionInfoUpdate(Update, frozen=True, kw_only=True, tag="session_info_update"):
    """The session's title. None: it stays as it was."""

    title: str | None = None


class Cost(Message, frozen=True, kw_only=True):
    """An amount of money, with the currency's code."""

    amount: float
    currency: str


class UsageUpdate(Update, frozen=True, kw_only=True, tag="usage_update"):
    """How many tokens of the context window are used, and what the session cost."""

    used: int
    size: int
    cost: Cost | None = None


class SelectOption(Message, frozen=True, kw_only=True):
    """One value of an option (`SessionConfigSelectOption`)."""

    value: str
    name: str
    description: str | None = None


class ConfigSelect(Message, frozen=True, kw_only=True, tag_field="type", tag="select"):
    """An option of a session with a list of values (`SessionConfigOption`).

    `category` is `mode`, `model`, `model_config`, `thought_level` or another word.
    """

    id: str
    name: str
    current_value: str
    options: tuple[SelectOption, ...]
    category: str | None = None


class ConfigOptionUpdate(Update, frozen=True, kw_only=True, tag="config_option_update"):
    """The session's options as they are now, all of them."""

    config_options: tuple[ConfigSelect, ...]


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdated
    | Plan
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | ConfigOptionUpdate
)


class SessionNotification(Message, frozen=True, kw_only=True):
    """`session/update`, of the agent."""

    session_id: str
    update: SessionUpdate


# --- initialize ---------------------------------------------------------------------------------


class Implementation(Message, frozen=True, kw_only=True):
    """Which program it is."""

    name: str
    version: str
    title: str | None = None


class Offered(Message, frozen=True, kw_only=True):
    """That something is offered: `{}`."""


class FileSystemCapabilities(Message, frozen=True, kw_only=True):
    """Which requests about files a client answers."""

    read_text_file: bool = False
    write_text_file: bool = False


class ElicitationCapabilities(Message, frozen=True, kw_only=True):
    """How a client can ask its user something."""

    form: Offered | None = None


class ClientCapabilities(Message, frozen=True, kw_only=True):
    """What a client can do."""

    fs: FileSystemCapabilities = FileSystemCapabilities()
    terminal: bool = False
    elicitation: ElicitationCapabilities | None = None


class InitializeRequest(Message, frozen=True, kw_only=True):
    """`initialize`, of the client; the first message."""

    protocol_version: int
    client_capabilities: ClientCapabilities = ClientCapabilities()
    client_info: Implementation | None = None


class PromptCapabilities(Message, frozen=True, kw_only=True):
    """What a prompt may hold beside words and links."""

    image: bool = False
    embedded_context: bool = False


class SessionCapabilities(Message, frozen=True, kw_only=True):
    """Which requests about sessions an agent answers."""

    list: Offered | None = None
    delete: Offered | None = None
    fork: Offered | None = None
    resume: Offered | None = None
    close: Offered | None = None


class AgentCapabilities(Message, frozen=True, kw_only=True):
    """What an agent can do."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    session_capabilities: SessionCapabilities = SessionCapabilities()


class InitializeResponse(Message, frozen=True, kw_only=True):
    """What an agent answers to `initialize`."""

    protocol_version: int
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    agent_info: Implementation | None = None


class AuthenticateRequest(Message, frozen=True, kw_only=True):
    """`authenticate`, of the client."""

    method_id: str


# --- sessions -----------------------------------------------------------------------------------


class McpServer(Message, frozen=True, kw_only=True):
    """An MCP server, by its name: how it is reached is for those that start it."""

    name: str


class SessionRequest(Message, frozen=True, kw_only=True):
    """`session/close` and the notification `session/cancel`, of the client."""

    session_id: str


class NewSessionRequest(Message, frozen=True, kw_only=True):
    """`session/new`, of the client. `cwd` is absolute."""

    cwd: str
    mcp_servers: tuple[McpServer, ...]


class SessionMode(Message, frozen=True, kw_only=True):
    """A mode a session can be in."""

    id: str
    name: str
    description: str | None = None


class SessionModeState(Message, frozen=True, kw_only=True):
    """The modes of a session, and which holds."""

    current_mode_id: str
    available_modes: tuple[SessionMode, ...]


class NewSessionResponse(Message, frozen=True, kw_only=True):
    """What an agent answers to `session/new` and `session/fork`."""

    session_id: str
    modes: SessionModeState | None = None
    config_options: tuple[ConfigSelect, ...] | None = None


class LoadSessionRequest(SessionRequest, frozen=True, kw_only=True):
    """`session/load`, of the client: all of the session comes as updates before the answer."""

    cwd: str
    mcp_servers: tuple[McpServer, ...]


class LoadSessionResponse(Message, frozen=True, kw_only=True):
    """What an agent answers to `session/load` and `session/resume`."""

    modes: SessionModeState | None = None
    config_options: tuple[ConfigSelect, ...] | None = None


class ResumeSessionRequest(SessionRequest, frozen=True, kw_only=True):
    """`session/resume` (goes on, telling nothing again) and `session/fork`, of the client."""

    cwd: str
    mcp_servers: tuple[McpServer, ...] = ()


class ListSessionsRequest(Message, frozen=True, kw_only=True):
    """`session/list`, of the client."""

    cwd: str | None = None
    cursor: str | None = None


class SessionInfo(Message, frozen=True, kw_only=True):
    """A session as a list shows it; the time is ISO 8601."""

    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None


class ListSessionsResponse(Message, frozen=True, kw_only=True):
    """What an agent answers to `session/list`: one page."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None = None


class SetSessionModeRequest(SessionRequest, frozen=True, kw_only=True):
    """`session/set_mode`, of the client."""

    mode_id: str


class SetSessionConfigOptionRequest(SessionRequest, frozen=True, kw_only=True):
    """`session/set_config_option`, of the client."""

    config_id: str
    value: str | bool


class SetSessionConfigOptionResponse(Message, frozen=True, kw_only=True):
    """What an agent answers: all options as they are now."""

    config_options: tuple[ConfigSelect, ...]


class PromptRequest(SessionRequest, frozen=True, kw_only=True):
    """`session/prompt`, of the client."""

    prompt: tuple[ContentBlock, ...]


class SteeringRequest(PromptRequest, frozen=True, kw_only=True):
    """`_session/steering`, of the client. Where no turn is under way it begins one, unless its `_meta` says
    `{"steering": {"idleBehavior": "promptRequired"}}`.
    """


class SteeringResponse(Message, frozen=True, kw_only=True):
    """What became of the words. With `promptRequired`, nothing: they are to be sent as a prompt."""

    outcome: Literal["injected", "startedNewTurn", "failed", "promptRequired"]
    reason: str | None = None


StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]


class Usage(Message, frozen=True, kw_only=True):
    """The tokens of a turn."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    cached_read_tokens: int | None = None


class PromptResponse(Message, frozen=True, kw_only=True):
    """What an agent answers to a prompt, when its turn is over."""

    stop_reason: StopReason


# --- what the agent asks the client -------------------------------------------------------------


class PermissionOption(Message, frozen=True, kw_only=True):
    """One answer to a request for permission."""

    option_id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class RequestPermissionRequest(Message, frozen=True, kw_only=True):
    """`session/request_permission`, of the agent."""

    session_id: str
    tool_call: ToolCallUpdate
    options: tuple[PermissionOption, ...]


class PermissionOutcome(Message, frozen=True, kw_only=True):
    """What was chosen (`RequestPermissionOutcome`): `selected` has an `option_id`."""

    outcome: Literal["cancelled", "selected"]
    option_id: str | None = None


class RequestPermissionResponse(Message, frozen=True, kw_only=True):
    """What a client answers to a request for permission."""

    outcome: PermissionOutcome


class CreateElicitationRequest(Message, frozen=True, kw_only=True):
    """`elicitation/create`, of the agent, with a form: a flat object of simple values."""

    message: str
    session_id: str
    requested_schema: dict[str, Json]
    mode: Literal["form"]
    tool_call_id: str | None = None


class CreateElicitationResponse(Message, frozen=True, kw_only=True):
    """What a client answers: `accept` (with `content`), `decline`, `cancel`."""

    action: str
    content: dict[str, Json] | None = None


class ReadTextFileRequest(Message, frozen=True, kw_only=True):
    """`fs/read_text_file`, of the agent. `path` is absolute, lines count from 1."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class ReadTextFileResponse(Message, frozen=True, kw_only=True):
    """What a client answers: the file as its editor has it."""

    content: str


class WriteTextFileRequest(Message, frozen=True, kw_only=True):
    """`fs/write_text_file`, of the agent. `path` is absolute."""

    session_id: str
    path: str
    content: str

"""The draft of version 2 of the protocol, as far as the sessions of version 1 carry it.

A prompt is answered once it has been said, and the session tells apart from that when it is at work, waits
for a person, or is idle. Tool calls are created by their first update, a plan has an id, options and
commands have other keys, a difference is a git patch. What is not in the draft (modes, `session/load`,
files of the editor) is not there. The draft may change: only an editor that asks for version 2 gets it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from midstream._version import __version__
from midstream.acp.session import Activity, Doing
from midstream.agents import acp_messages as m
from midstream.agents.json_rpc import Params, Peer
from midstream.language.names import Json
from midstream.system.diff import file_diff

PLAN: Final = "todo"


class Peer2:
    """The editor as a session of version 1 speaks to it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    @property
    def is_over(self) -> bool:
        """Return whether the editor is gone."""
        return self._peer.is_over

    async def notify(self, method: str, params: object) -> None:
        """Tell the editor an update in the words of version 2, if it has any for it."""
        assert isinstance(params, m.SessionNotification)
        update = _update(params.update)
        if update is not None:
            await self._peer.notify(method, {"sessionId": params.session_id, "update": update})

    async def request(self, method: str, params: object = None) -> Json:
        """Return the editor's answer to a request of version 1."""
        if isinstance(params, m.RequestPermissionRequest):
            return await self._peer.request(method, _permission(params))
        return await self._peer.request(method, params)


class Activity2(Activity):
    """Tells how one session stands, and what was said to it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._told: Doing = "idle"

    async def now(self, state: Doing, stop: m.StopReason | None = None) -> None:
        """Tell that it stands so, unless it was told."""
        if state == self._told:
            return
        self._told = state
        update: Params = {"sessionUpdate": "state_update", "state": state}
        if stop is not None:
            update["stopReason"] = stop
        await self._tell(update)

    async def words(self, id: str, words: str) -> None:
        """Tell what was said: version 2 shows prompts as the agent took them."""
        content: list[Json] = [{"type": "text", "text": words}]
        await self._tell({"sessionUpdate": "user_message", "messageId": id, "content": content})

    async def _tell(self, update: Params) -> None:
        await self._peer.notify("session/update", {"sessionId": self.session, "update": update})


# --- what comes in ------------------------------------------------------------------------------


def client_of(params: Params) -> m.ClientCapabilities:
    """Return what an editor says it can, of what version 1 knows."""
    told = params.get("capabilities")
    known = (
        {key: told[key] for key in ("elicitation",) if key in told}
        if isinstance(told, dict)
        else {}
    )
    return msgspec.convert(known, m.ClientCapabilities)


def initialized() -> Params:
    """Return the answer to `initialize`."""
    return {
        "protocolVersion": 2,
        "info": {"name": "midstream", "title": "midstream", "version": __version__},
        "capabilities": {"session": {"prompt": {"image": {}, "embeddedContext": {}}, "delete": {}}},
        "_meta": m.STEERS,
    }


def asked(method: str, params: Params) -> tuple[str, Params]:
    """Return a request as version 1 has it; the same method again is one that it does not have."""
    servers = {"mcpServers": params.get("mcpServers") or []}
    if method == "session/resume" and isinstance(params.get("replayFrom"), dict):
        return "session/load", params | servers
    if method in ("session/new", "session/resume"):
        return method, params | servers
    return method, params


METHODS: Final = frozenset(
    {
        *("session/new", "session/resume", "session/list", "session/close", "session/prompt"),
        *("session/delete", "session/set_config_option", m.STEERING),
    }
)
"""The requests of version 2 that are answered."""


# --- what goes out ------------------------------------------------------------------------------


def answered(answer: object) -> object:
    """Return an answer of version 1 in the words of version 2."""
    if not isinstance(
        answer, m.NewSessionResponse | m.LoadSessionResponse | m.SetSessionConfigOptionResponse
    ):
        return answer
    told = _builtins(answer)
    told.pop("modes", None)
    told["configOptions"] = _options(told.get("configOptions"))
    return told


def _update(update: m.SessionUpdate) -> Params | None:
    if isinstance(update, m.CurrentModeUpdate):
        return None
    told = _builtins(update)
    match update:
        case m.ToolCall() | m.ToolCallUpdated():
            told["sessionUpdate"] = "tool_call_update"
            told |= _call(told)
        case m.Plan():
            entries = told.pop("entries")
            told["sessionUpdate"] = "plan_update"
            told["plan"] = {"type": "items", "planId": PLAN, "entries": entries}
        case m.ConfigOptionUpdate():
            told["configOptions"] = _options(told["configOptions"])
        case m.AvailableCommandsUpdate():
            told["availableCommands"] = [_command(each) for each in update.available_commands]
    return told


def _builtins(message: m.Message) -> Params:
    """Return a message as it is read from the wire: lists, not tuples."""
    told: Params = msgspec.json.decode(msgspec.json.encode(message))
    return told


def _permission(request: m.RequestPermissionRequest) -> Params:
    told = _builtins(request)
    call = told.pop("toolCall")
    assert isinstance(call, dict)
    told["title"] = call.get("title") or "A tool call"
    told["subject"] = {"type": "tool_call", "toolCall": call | _call(call)}
    return told


def _call(call: Mapping[str, Json]) -> Params:
    content = call.get("content")
    if not isinstance(content, list):
        return {}
    return {"content": [_content(each) for each in content if isinstance(each, dict)]}


def _content(content: Params) -> Params:
    if content.get("type") != "diff":
        return content
    path, new, old = str(content["path"]), str(content["newText"]), content.get("oldText")
    before = None if old is None else str(old).encode()
    changed: Params = {
        "type": "diff",
        "changes": [{"operation": "add" if before is None else "modify", "path": path}],
    }
    diff = file_diff(path, before, new.encode()).diff
    if any(line.startswith("[") for line in diff.splitlines()):
        return changed  # not all of it is told: that is no patch
    beside = path.lstrip("/")
    head = [
        f"diff --git a/{beside} b/{beside}",
        *(("new file mode 100644",) if before is None else ()),
        "--- /dev/null" if before is None else f"--- a/{beside}",
        f"+++ b/{beside}",
    ]
    patch: Params = {"format": "git_patch", "text": "\n".join((*head, diff, ""))}
    return changed | {"patch": patch}


def _options(options: Json) -> list[Json]:
    found = options if isinstance(options, list) else []
    return [
        {"configId" if key == "id" else key: value for key, value in each.items()}
        for each in found
        if isinstance(each, dict)
    ]


def _command(command: m.AvailableCommand) -> Json:
    told: Params = {
        "type": "command",
        "name": command.name,
        "description": command.description,
    }
    if command.input is not None:
        told["input"] = {"type": "text", "hint": command.input.hint}
    return told

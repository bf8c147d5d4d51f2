"""The tool calls of an external agent: what it has said of each so far, and what that is to us.

An agent tells of a call in pieces: first often a title alone, then what it is about, then how it ended. A
call is told on once more than its title is known, or once it matters. What cannot be read of it is left
out, never the call itself.
"""

from collections.abc import Iterator
from typing import Final, get_args

import msgspec
from msgspec.structs import replace

from midstream.agents.acp_messages import (
    Content,
    Diff,
    TextContent,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
)
from midstream.agents.json_rpc import Params
from midstream.language.names import Json, Outcome
from midstream.runtime.ports import ExternalCall, ProposedText

MAX_RESULT_CHARS: Final = 100_000
_MAX_ID = 200
_MAX_TITLE = 2_000
_MAX_PATHS = 100
_CHANGES: Final = frozenset(("edit", "delete", "move"))


class Known(msgspec.Struct):
    """What is known of a call. `is_told`: the listener has heard of it; `outcome` is how it ended."""

    call: ExternalCall
    is_told: bool = False
    outcome: Outcome | None = None
    is_over: bool = False
    text: str = ""


class Calls:
    """The calls of one turn, by the agent's ids."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def take(self, told: Params) -> Known:
        """Return what is known of a call with what an update says of it.

        Raises:
            msgspec.ValidationError: it has no id.
        """
        update = read_update(told)
        id = update.tool_call_id[:_MAX_ID]
        known = self._known.get(id)
        if known is None:
            known = self._known[id] = Known(ExternalCall(id=id, title=""))
        known.call = _with(known.call, update)
        if (text := _result(update)) and not known.is_over:
            known.text = text
        if update.status == "completed" or update.status == "failed":
            known.outcome = update.status
        return known

    def open(self) -> Iterator[Known]:
        """Yield those that have not ended."""
        return (known for known in self._known.values() if not known.is_over)


def is_plain(call: ExternalCall) -> bool:
    """Return whether no more than a title is known of a call."""
    is_titled = call.command in ("", call.title)
    return is_titled and not (call.paths or call.url or call.texts or call.arguments)


def read_update(told: Params) -> ToolCallUpdate:
    """Return what an update of a call says; what does not fit is left out.

    Raises:
        msgspec.ValidationError: it has no id.
    """
    try:
        return msgspec.convert(told, ToolCallUpdate)
    except msgspec.ValidationError:
        pass
    less: Params = {"toolCallId": told.get("toolCallId")}
    if isinstance(title := told.get("title"), str):
        less["title"] = title
    if isinstance(kind := told.get("kind"), str):
        less["kind"] = kind if kind in get_args(ToolKind) else "other"
    if told.get("status") in get_args(ToolCallStatus):
        less["status"] = told["status"]
    for key in ("content", "locations"):
        if isinstance(entries := told.get(key), list):
            less[key] = [each for each in entries if _fits(key, each)]
    less["rawInput"], less["rawOutput"] = told.get("rawInput"), told.get("rawOutput")
    return msgspec.convert(less, ToolCallUpdate)


def _fits(key: str, entry: Json) -> bool:
    if not isinstance(entry, dict):
        return False
    try:
        msgspec.convert({"toolCallId": "", key: [entry]}, ToolCallUpdate)
    except msgspec.ValidationError:
        return False
    return True


def _with(call: ExternalCall, update: ToolCallUpdate) -> ExternalCall:
    """Return a call with what is new of it."""
    given = update.raw_input if isinstance(update.raw_input, dict) else {}
    if given:
        call = replace(call, arguments=given)
    if update.title:
        call = replace(call, title=update.title[:_MAX_TITLE])
    if update.kind is not None:
        call = replace(call, kind=update.kind)
    diffs = [each for each in update.content or () if isinstance(each, Diff)]
    if diffs:
        texts = (ProposedText(path=d.path, new=d.new_text, old=d.old_text) for d in diffs)
        call = replace(call, texts=tuple(texts))
    paths = dict.fromkeys(
        [
            *call.paths,
            *(each.path for each in update.locations or ()),
            *(each.path for each in diffs),
        ]
    )
    call = replace(call, paths=tuple(paths)[:_MAX_PATHS], url=_text(given, "url") or call.url)
    # A file is changed by commands of another sort ("create"). Where files are looked at, or nobody knows
    # what is done, a command line is one, whatever the call is said to be.
    command = "" if call.kind in _CHANGES else _text(given, "command", "cmd")
    if call.kind == "execute":
        # Some say the command line in the title alone. What was said last counts: that is asked about.
        command = command or (update.title and call.title) or ""
    return replace(call, command=command or call.command)


def _text(given: dict[str, Json], *keys: str) -> str:
    for key in keys:
        value = given.get(key)
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = " ".join(map(str, value))
        if isinstance(value, str) and value:
            return value
    return ""


def _result(update: ToolCallUpdate) -> str:
    """Return the words of a result."""
    words = [
        each.content.text
        for each in update.content or ()
        if isinstance(each, Content) and isinstance(each.content, TextContent)
    ]
    if not words:
        raw = update.raw_output
        if isinstance(raw, dict):
            raw = next((raw[key] for key in ("output", "text", "error") if raw.get(key)), None)
        words = [raw] if isinstance(raw, str) else []
    text = "\n".join(words)
    return text if len(text) <= MAX_RESULT_CHARS else f"{text[:MAX_RESULT_CHARS]}\n[cut]"

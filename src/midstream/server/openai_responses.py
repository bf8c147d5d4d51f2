"""OpenAI's responses: the same turn as a list of items, each with an id that names its run.

    response    resp_RUN_ID; `previous_response_id` says its words to that run, as it stands now
    item        msg_RUN_ID_N (words) and rs_RUN_ID_N (what was thought and done); one that comes back, whole
                or by its id alone, leads to that run, too

Items come one after the other, in the order in which things were said. Nothing is kept beside the journal:
a response is fetched or deleted by nobody.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec
from starlette.requests import Request

from midstream.api.engine import Engine
from midstream.language.errors import MidstreamError
from midstream.server.conversations import Asked
from midstream.server.openai_asked import BadRequest, asked_of
from midstream.server.openai_turn import Told
from midstream.server.words import Piece

_OURS: Final = re.compile(r"(?:resp|msg|rs)_([a-z0-9]+)_")


async def asked_by_items(engine: Engine, request: Request, body: Mapping[str, Any]) -> Asked:
    """Return what a request for a response asks for.

    Raises:
        BadRequest: it cannot be done as it is.
    """
    previous = body.get("previous_response_id")
    run = _run_of(previous)
    if previous and not run:
        raise BadRequest(
            f"There is no response {previous!r} here.",
            hint="Leave it out, and another conversation begins.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    messages = _messages(body.get("input"))
    if body.get("instructions") and messages:
        messages.insert(0, {"role": "system", "content": body["instructions"]})
    return await asked_of(engine, request, body, messages, field="input", run=run)


def _messages(given: Any) -> list[Any]:
    """Return the items of an input as messages of chat completions, without those that have no words.

    What an agent said is one message, however many items it was.
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    found: list[Any] = []
    for item in given if isinstance(given, list) else []:
        item = item if isinstance(item, dict) else {"role": ""}
        run = _run_of(item.get("id"))
        if item.get("role") == "assistant" or run:
            before = found.pop()["content"] if found and found[-1]["role"] == "assistant" else ""
            text = before + _text(item.get("content"))
            found.append({"role": "assistant", "content": text, "midstream": {"run": run}})
        elif "role" in item:
            found.append(item)
        elif isinstance(item.get("output"), str):
            found.append({"role": "tool", "content": item["output"]})
    return found


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def _run_of(id: Any) -> str:
    """Return the run an id of ours names, "" where it is none."""
    found = _OURS.match(id) if isinstance(id, str) else None
    return found[1] if found else ""


class _Item:
    """An item that is being told."""

    def __init__(self, kind: Literal["content", "reasoning"], id: str, index: int) -> None:
        self.kind = kind
        self._texts: list[str] = []
        self._id = f"{'msg' if kind == 'content' else 'rs'}_{id}_{index}"
        part = {"content_index" if kind == "content" else "summary_index": 0}
        self._place: dict[str, Any] = {"item_id": self._id, "output_index": index, **part}

    def begin(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "output_item.added", self._about(self._item([], "in_progress"))
        yield f"{self._part_name}.added", {**self._place, "part": self._part("")}

    def add(self, text: str) -> tuple[str, dict[str, Any]]:
        self._texts.append(text)
        return f"{self._text_name}.delta", {**self._place, "delta": text, **self._odds}

    def end(self) -> Iterator[tuple[str, dict[str, Any]]]:
        text = "".join(self._texts)
        yield f"{self._text_name}.done", {**self._place, "text": text, **self._odds}
        yield f"{self._part_name}.done", {**self._place, "part": self._part(text)}
        yield "output_item.done", self._about(self.whole())

    def whole(self) -> dict[str, Any]:
        return self._item([self._part("".join(self._texts))], "completed")

    def _about(self, item: dict[str, Any]) -> dict[str, Any]:
        return {"output_index": self._place["output_index"], "item": item}

    def _item(self, parts: list[Any], status: str) -> dict[str, Any]:
        head = {"id": self._id, "status": status}
        if self.kind == "reasoning":
            return {**head, "type": "reasoning", "summary": parts}
        return {**head, "type": "message", "role": "assistant", "content": parts}

    def _part(self, text: str) -> dict[str, Any]:
        if self.kind == "reasoning":
            return {"type": "summary_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], **self._odds}

    @property
    def _odds(self) -> dict[str, Any]:
        return {} if self.kind == "reasoning" else {"logprobs": []}

    @property
    def _text_name(self) -> str:
        return "reasoning_summary_text" if self.kind == "reasoning" else "output_text"

    @property
    def _part_name(self) -> str:
        return "reasoning_summary_part" if self.kind == "reasoning" else "content_part"


class ResponseForm:
    """A turn as a response; see `openai_turn.Form`."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._id = f"{told.spoken.run.id}_{told.spoken.id}"
        self._items: list[_Item] = []
        self._sent = 0

    def begin(self) -> Iterator[bytes]:
        """Yield what a stream begins with."""
        for name in ("created", "in_progress"):
            yield self._event(name, {"response": self._response("in_progress")})

    def piece(self, piece: Piece) -> Iterator[bytes]:
        """Yield the events of some words."""
        if not self._items or self._items[-1].kind != piece.kind:
            yield from self._closed()
            self._items.append(_Item(piece.kind, self._id, len(self._items)))
            for event in self._items[-1].begin():
                yield self._event(*event)
        yield self._event(*self._items[-1].add(piece.text))

    def end(self) -> Iterator[bytes]:
        """Yield what a stream ends with."""
        yield from self._closed()
        yield self._event("completed", {"response": self.whole()})

    def fail(self, error: MidstreamError) -> Iterator[bytes]:
        """Yield what a stream ends with that went wrong."""
        yield from self._closed()
        reason = {"code": "server_error", "message": str(error)}
        yield self._event("failed", {"response": {**self._response("failed"), "error": reason}})

    def whole(self) -> dict[str, Any]:
        """Return the whole answer."""
        given, made, cached = self._told.usage
        usage = {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": made,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": given + made,
        }
        return {**self._response("completed"), "usage": usage}

    def _closed(self) -> Iterator[bytes]:
        for event in self._items[-1].end() if self._items else ():
            yield self._event(*event)

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": f"resp_{self._id}",
            "object": "response",
            "created_at": self._told.created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self._told.asked.model,
            "output": [item.whole() for item in self._items],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
            "midstream": self._told.stands(),
        }

    def _event(self, name: str, more: dict[str, Any]) -> bytes:
        type = f"response.{name}"
        body = {"type": type, "sequence_number": self._sent, **more}
        self._sent += 1
        return f"event: {type}\n".encode() + b"data: " + msgspec.json.encode(body) + b"\n\n"

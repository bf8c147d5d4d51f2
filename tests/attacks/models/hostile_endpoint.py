"""An HTTP endpoint that answers every request with exactly the bytes it is given.

`Bytes` go out as they are: what no strict test server would ever send. Events for the three dialects
are made here by hand, for the same reason.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
"""No length and no chunks: the stream goes on until the connection is closed."""

FOR_EVER = 10_000_000
"""As often as it takes: no client of ours is to be there at the end."""


class Endpoint:
    """`sent` counts bytes the client has taken; `requests` how often it asked; `said`: all was
    sent; `left`: the client hung up."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.sent = 0
        self.requests = 0
        self.said = asyncio.Event()
        self.left = asyncio.Event()


@contextlib.asynccontextmanager
async def endpoint(head: bytes, pieces: Iterable[bytes], *, holds: bool) -> AsyncIterator[Endpoint]:
    """Give an endpoint that answers with `head`, then `pieces`; it `holds` the line or hangs up."""
    answering: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        answering[task] = writer
        try:
            asked = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1])
                for line in asked.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            await reader.readexactly(length)
            here.requests += 1
            writer.write(head)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                here.sent += len(piece)
            here.said.set()
            if holds:
                await reader.read()
                here.left.set()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            answering.pop(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    here = Endpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield here
    finally:
        server.close()
        tasks = dict(answering)
        for writer in tasks.values():
            writer.transport.abort()
        await asyncio.gather(*tasks)


# --- events by hand -----------------------------------------------------------------------------------


def event(data: str, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data}\n\n".encode("utf-8", "surrogatepass")


def chunk(delta: str, finish: str = "null") -> bytes:
    """OpenAI's: `delta` and `finish` are JSON."""
    return event(
        '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        f'[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}'
    )


def say(text: str) -> bytes:
    return chunk(json.dumps({"role": "assistant", "content": text}))


def ask(arguments: str, *, name: str = "add", index: str = "0", id: str = "call_1") -> bytes:
    """OpenAI's call of a tool; `arguments` is the text a model sent, `index` JSON."""
    function = f'{{"name":{json.dumps(name)},"arguments":{json.dumps(arguments)}}}'
    return chunk(
        f'{{"tool_calls":[{{"index":{index},"id":{json.dumps(id)},"type":"function",'
        f'"function":{function}}}]}}'
    )


def more(arguments: str, *, index: str) -> bytes:
    """OpenAI's next piece of a call's arguments."""
    function = f'{{"arguments":{json.dumps(arguments)}}}'
    return chunk(f'{{"tool_calls":[{{"index":{index},"function":{function}}}]}}')


DONE = b"data: [DONE]\n\n"
STOP = chunk("{}", '"stop"') + DONE
CALLS = chunk("{}", '"tool_calls"') + DONE


def claude(kind: str, **fields: object) -> bytes:
    return event(json.dumps({"type": kind, **fields}), kind)


CLAUDE_BEGINS = claude(
    "message_start",
    message={
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "claude",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
)


def claude_ends(reason: str = "end_turn") -> bytes:
    return claude(
        "message_delta",
        delta={"stop_reason": reason, "stop_sequence": None},
        usage={"output_tokens": 2},
    ) + claude("message_stop")


def claude_asks(arguments: str, *, name: str = "add", index: int = 0) -> bytes:
    block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": arguments}
    return (
        claude("content_block_start", index=index, content_block=block)
        + claude("content_block_delta", index=index, delta=delta)
        + claude("content_block_stop", index=index)
    )


def gemini(parts: str, finish: str = "") -> bytes:
    """Google's: `parts` is JSON."""
    ends = f',"finishReason":{json.dumps(finish)}' if finish else ""
    return event(
        f'{{"candidates":[{{"content":{{"role":"model","parts":{parts}}},"index":0{ends}}}]}}'
    )


def gemini_asks(arguments: str, name: str = "add") -> bytes:
    return gemini(f'[{{"functionCall":{{"name":{json.dumps(name)},"args":{arguments}}}}}]', "STOP")

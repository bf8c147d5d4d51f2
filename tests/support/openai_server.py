"""The test server that speaks the OpenAI chat-completions protocol; see `model_server`.

    with OpenAIServer([Reply(text="hi"), Fault(status=429)]) as server:
        environ["OPENAI_BASE_URL"] = server.base_url

As a program, `python -m support.openai_server --script FILE.json --port 0` prints its base
URL and serves until it is told to end. The file holds a list of steps, such as
`[{"type": "reply", "text": "hi"}, {"type": "fault", "status": 429}]`.
"""

import argparse
import signal
import socket
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from midstream.language.names import Json
from support.model_server import Asked, Event, ModelServer, Refused, arguments_text, cut
from support.model_server import Body as Body
from support.model_server import Call as Call
from support.model_server import Exchange as Exchange
from support.model_server import Fault as Fault
from support.model_server import Gate as Gate
from support.model_server import Moment as Moment
from support.model_server import Place as Place
from support.model_server import Reply as Reply
from support.model_server import Scripted as Scripted
from support.model_server import Step as Step
from support.openai_rules import Refusal, refusal


class OpenAISpeech:
    """OpenAI's chat completions; see the protocol `Speech`."""

    path = "/v1"
    broken = b'data: {"id": "chatcmpl-1", "choices": [{\n\n'

    def asked(self, target: str, headers: dict[str, str], body: Body) -> Asked | None:
        """Return what a request asks for; None when the API has no such URL."""
        if target != "POST /v1/chat/completions":
            return None
        return Asked(
            model=str(body.get("model", "")),
            body=body,
            key=headers.get("authorization", "").removeprefix("Bearer "),
            is_streamed=bool(body.get("stream")),
        )

    def refused(self, asked: Asked) -> Refused | None:
        """Return the API's refusal of a request, None when it would take it."""
        found = refusal(asked.body)
        return None if found is None else Refused(status=found.status, body=found.body())

    def error(self, status: int, message: str, *, code: str | None = None, kind: str = "") -> Json:
        """Return the body of an error answer."""
        return Refusal(message=message, code=code, type=kind or "invalid_request_error").body()

    def error_event(self, message: str, *, code: str | None = None, kind: str = "") -> bytes:
        """Return an error that comes in the middle of a stream."""
        return _data(self.error(500, message, code=code, kind=kind))

    def wrong_key(self, key: str) -> str:
        """Return the words for a key that is not taken."""
        return (
            f"Incorrect API key provided: {key}. You can find your API key at "
            "https://platform.openai.com/account/api-keys."
        )

    def unknown_model(self, model: str) -> str:
        """Return the words for a model there is not."""
        return f"The model `{model}` does not exist or you do not have access to it."

    def stream(self, reply: Reply, asked: Asked) -> Iterator[Event]:
        """Return the events of a streamed reply, in order."""
        yield _delta(asked, {"role": "assistant", "content": ""})
        for piece in cut(reply.thinking):
            yield _delta(asked, {"reasoning_content": piece})
        for piece in cut(reply.refusal):
            yield _delta(asked, {"refusal": piece})
        for piece in reply.pieces:
            yield _delta(asked, {"content": piece}, place="text")
        yield from _after(reply, asked)

    def whole(self, reply: Reply, asked: Asked) -> Json:
        """Return a reply that is not streamed."""
        message: dict[str, Json] = {"role": "assistant", "content": "".join(reply.pieces) or None}
        if reply.calls:
            message["tool_calls"] = _with_ids(reply.calls)
        choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
        whole = _head("chat.completion", asked) | {"choices": [choice]}
        return (
            whole if reply.usage is None else whole | {"usage": _usage(reply.usage, reply.cached)}
        )


class OpenAIServer(ModelServer):
    """The server, speaking OpenAI's chat completions."""

    speech = OpenAISpeech()


def _after(reply: Reply, asked: Asked) -> Iterator[Event]:
    for index, call in enumerate(_with_ids(reply.calls)):
        function = {"name": call["function"]["name"], "arguments": ""}
        head = {"index": index, "id": call["id"], "type": "function", "function": function}
        yield _delta(asked, {"tool_calls": [head]}, place="after")
        for number, piece in enumerate(cut(call["function"]["arguments"])):
            part = {"index": index, "function": {"arguments": piece}}
            place: Place = "arguments" if number else "after"
            yield _delta(asked, {"tool_calls": [part]}, place=place)
    end = [{"index": 0, "delta": {}, "finish_reason": _finish_reason(reply)}]
    yield Event(content=_chunk(asked, end), place="after")
    if _has_usage(asked) and reply.usage is not None:
        used = _chunk(asked, [], usage=_usage(reply.usage, reply.cached))
        yield Event(content=used, place="after")
    yield Event(content=b"data: [DONE]\n\n", place="after")


def _delta(asked: Asked, delta: dict[str, Json], place: Place = "before") -> Event:
    content = _chunk(asked, [{"index": 0, "delta": delta, "finish_reason": None}])
    return Event(content=content, place=place)


def _chunk(asked: Asked, choices: list[Json], usage: Json = None) -> bytes:
    chunk = _head("chat.completion.chunk", asked) | {"choices": choices}
    return _data(chunk | {"usage": usage} if _has_usage(asked) else chunk)


def _has_usage(asked: Asked) -> bool:
    return bool((asked.body.get("stream_options") or {}).get("include_usage"))


def _data(content: Json) -> bytes:
    return b"data: " + msgspec.json.encode(content) + b"\n\n"


def _with_ids(calls: tuple[Call, ...]) -> list[dict[str, Json]]:
    return [
        {
            "id": call.id or f"call_scripted_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call)},
        }
        for number, call in enumerate(calls, 1)
    ]


def _finish_reason(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.calls else "stop")


def _usage(usage: tuple[int, int], cached: int) -> dict[str, Json]:
    sent, made = usage
    told = {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}
    return {**told, "prompt_tokens_details": {"cached_tokens": cached}}


def _head(kind: str, asked: Asked) -> dict[str, Json]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1767225600, "model": asked.model}


@cache
def refused_url() -> str:
    """Return a base URL on which nothing listens: connections to it are refused.

    Its port is held for as long as the process lives, so that nobody else comes to listen there.
    """
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
    held.detach()
    return f"http://127.0.0.1:{port}/v1"


def read_script(text: bytes) -> list[Step]:
    """Return the steps of a script in JSON.

    Raises:
        msgspec.ValidationError: a step is not one.
    """
    return msgspec.json.decode(text, type=list[Reply | Fault])


def main(arguments: list[str] | None = None) -> None:
    """Serve a script until SIGINT or SIGTERM, after printing the base URL."""
    parser = argparse.ArgumentParser(prog="python -m support.openai_server")
    parser.add_argument("--script", type=Path, help="a JSON list of steps")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--default", default="OK", help="what to answer when the script runs out")
    given = parser.parse_args(arguments)
    ending = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    script = read_script(given.script.read_bytes()) if given.script else []
    with OpenAIServer(script, default=Reply(text=given.default), port=given.port) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        signal.sigwait(ending)


if __name__ == "__main__":
    main()

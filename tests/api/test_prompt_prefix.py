"""What is sent begins with what was sent before, whatever happens in between: providers cache by that."""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from api_kit import Place, here, until, write
from support.dialect_server import AnthropicServer, GoogleServer
from support.model_server import Call, Gate, ModelServer, Reply
from support.openai_server import OpenAIServer

import midstream

__all__ = ["here"]

Json = dict[str, Any]

READ = Call(name="read_files", arguments={"paths": ["a.txt"]})
SLOW = Call(name="slowly")


def bytes_of(*parts: Any) -> list[bytes]:
    return [msgspec.json.encode(part) for part in parts]


def openai_parts(body: Json) -> list[bytes]:
    fixed = {key: value for key, value in body.items() if key != "messages"}
    return bytes_of(fixed, *body["messages"])


def anthropic_parts(body: Json) -> list[bytes]:
    """Return the blocks in order; where the marks for the cache stand is not what is cached."""
    fixed = {key: value for key, value in body.items() if key not in ("messages", "system")}
    blocks = [{"system": block} for block in body["system"]]
    blocks += [{turn["role"]: block} for turn in body["messages"] for block in turn["content"]]
    return bytes_of(fixed, *map(unmarked, blocks))


def unmarked(block: Json) -> Json:
    ((role, inner),) = block.items()
    return {role: {key: value for key, value in inner.items() if key != "cache_control"}}


def google_parts(body: Json) -> list[bytes]:
    fixed = {key: value for key, value in body.items() if key != "contents"}
    return bytes_of(
        fixed, *({turn["role"]: part} for turn in body["contents"] for part in turn["parts"])
    )


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    server: type[ModelServer]
    model: str
    key: str
    address: str
    parts: Callable[[Json], list[bytes]]


DIALECTS: Mapping[str, Dialect] = {
    "openai": Dialect(
        server=OpenAIServer,
        model="openai:gpt-5",
        key="OPENAI_API_KEY",
        address="OPENAI_BASE_URL",
        parts=openai_parts,
    ),
    "anthropic": Dialect(
        server=AnthropicServer,
        model="anthropic:claude-opus-5",
        key="ANTHROPIC_API_KEY",
        address="ANTHROPIC_BASE_URL",
        parts=anthropic_parts,
    ),
    "google": Dialect(
        server=GoogleServer,
        model="google:gemini-2.5-pro",
        key="GOOGLE_API_KEY",
        address="GOOGLE_GEMINI_BASE_URL",
        parts=google_parts,
    ),
}


def marks_in(body: Json) -> list[tuple[int, int]]:
    """Return (turn, block) of the messages' blocks that are marked for the cache."""
    return [
        (at, number)
        for at, turn in enumerate(body["messages"])
        for number, block in enumerate(turn["content"])
        if "cache_control" in block
    ]


async def talked(here: Place, monkeypatch: pytest.MonkeyPatch, dialect: Dialect) -> list[Json]:
    """Return the requests of a chat with calls, a halt in mid-reply, a steer, a cut reply and a resume."""
    write(here.workspace, "a.txt", "one\n")
    held, called, steered = Gate(), asyncio.Event(), asyncio.Event()

    @midstream.tool(effect="read")
    async def slowly() -> str:
        """Take a while."""
        called.set()
        await steered.wait()
        return "at last"

    script = [
        Reply(text="I look.", calls=(READ, READ)),
        Reply(text="It says one."),
        Reply(chunks=("Once upon ", "a time"), gate=held),
        Reply(text="Looking again.", calls=(READ, SLOW)),
        Reply(text="Still one."),
        Reply(chunks=("I am ", "here."), gate=held),
        Reply(text="I am back."),
    ]
    with dialect.server(script) as server:
        monkeypatch.setenv(dialect.key, "sk-none")
        monkeypatch.setenv(dialect.address, server.base_url)

        async def opened() -> midstream.Engine:
            return await midstream.open(
                here.workspace,
                model=dialect.model,
                journal=here.journal,
                trust=True,
                tools=[slowly],
            )

        engine = await opened()
        chat = await engine.start("role:dude", "What does a.txt say?")
        await chat.settled()
        await chat.say("Tell me a story.")
        await until(chat, lambda event: getattr(event, "text", "") == "Once upon ")
        await chat.halt()
        await chat.settled()
        await chat.say("No story. Look again.")
        await called.wait()
        await chat.say("Be brief.", policy="steer")
        steered.set()
        await chat.settled()
        await chat.say("Are you there?")
        await until(chat, lambda event: getattr(event, "text", "") == "I am ")
        await engine.close()

        engine = await opened()
        chat = await engine.resume(chat.id)
        await chat.say("Go on.")
        await chat.settled()
        words = [message.text for message in chat.run.contexts["chat"]]
        await engine.close()
        held.open()
    assert words[-1] == "I am back."
    assert {"Once upon ", "Be brief.", "Still one.", "I am "} <= {*words}
    assert len(server.requests) == len(script)
    return server.requests


@pytest.mark.parametrize("name", DIALECTS)
async def test_each_request_begins_with_the_one_before(
    here: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    dialect = DIALECTS[name]
    bodies = await talked(here, monkeypatch, dialect)

    sent = [dialect.parts(body) for body in bodies]
    for before, after in itertools.pairwise(sent):
        assert after[: len(before)] == before
    assert [len(each) for each in sent] == sorted(len(each) for each in sent)


async def test_anthropic_is_told_where_to_keep_it(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = await talked(here, monkeypatch, DIALECTS["anthropic"])

    marks = [marks_in(body) for body in bodies]
    for before, after in itertools.pairwise(marks):
        # What the last request had kept is looked for at the very place where it was kept.
        assert before[-1] in after
    assert all("cache_control" in body["system"][-1] for body in bodies)

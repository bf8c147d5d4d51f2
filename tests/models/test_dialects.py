"""Whatever became of a conversation, every provider takes it: OpenAI, Anthropic and Google."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from ai_kit import ADD, KEY, Ears, ask, called, client_of, said
from deadline import DEADLINE_S
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.dialect_server import AnthropicServer, GoogleServer
from support.dialects import DIALECTS, MODELS, body_of, problems_in
from support.model_server import Call, Fault, Gate, ModelServer, Reply
from support.openai_server import OpenAIServer

from midstream.core.conversation import USER, Message, Side, ToolCall, ToolResult, trimmed
from midstream.core.inputs import RequestedCall
from midstream.core.run import Correction, Run, Turn, Visit
from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.language.names import Outcome
from midstream.language.plan import plan_of
from midstream.language.spec import ParsingTool, Role, ToolSpec
from midstream.models import prices
from midstream.models.provider_errors import Backoff
from midstream.runtime.agent import WorkflowAgent
from midstream.runtime.ports import ModelRequest
from midstream.testing.fakes import define

SERVERS: Mapping[str, type[ModelServer]] = {
    "openai": OpenAIServer,
    "anthropic": AnthropicServer,
    "google": GoogleServer,
}
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "google": "GOOGLE_API_KEY", "openai": "OPENAI_API_KEY"}
ADDRESSES = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GOOGLE_GEMINI_BASE_URL",
    "openai": "OPENAI_BASE_URL",
}
NEW = ("anthropic", "google")
every_model = pytest.mark.parametrize(
    ("dialect", "model"), [(name, model) for name in DIALECTS for model in MODELS[name]]
)


def environ_of(dialect: str, address: str, key: str = KEY) -> dict[str, str]:
    return {KEYS[dialect]: key, ADDRESSES[dialect]: address}


async def answered(
    dialect: str, script: list[Any], *requests: ModelRequest, **options: Any
) -> tuple[ModelServer, list[Any]]:
    """Return the dialect's server and what came of each request to it: a reply or a trouble."""
    came: list[Any] = []
    with SERVERS[dialect](script, **options) as server:
        client = client_of("", environ_of(dialect, server.base_url))
        for request in requests:
            try:
                came.append(await client.request(request, Ears()))
            except MidstreamError as trouble:
                came.append(trouble)
        await client.aclose()
    return server, came


# --- difficult conversations ------------------------------------------------------------------


def user(text: str, author: str = USER) -> Message:
    return Message(role="user", text=text, author=author)


def reply(text: str, **fields: Any) -> Message:
    return Message(role="assistant", text=text, author="dude", **fields)


def system(text: str) -> Message:
    return Message(role="system", text=text)


def calls(*outcomes: tuple[Outcome, str], text: str = "", at: int = 0, **fields: Any) -> Message:
    """A reply that calls as often as there are outcomes; `at` keeps the ids apart."""
    ids = [f"call_{at + number}" for number, _ in enumerate(outcomes)]
    return reply(
        text,
        calls=tuple(ToolCall(id=call, name="add", arguments={"a": 1, "b": 2}) for call in ids),
        results=tuple(
            ToolResult(call_id=call, outcome=outcome, text=words)
            for call, (outcome, words) in zip(ids, outcomes, strict=True)
        ),
        **fields,
    )


def strange_call(name: str, at: int = 9) -> Message:
    return reply(
        "",
        calls=(ToolCall(id=f"call_{at}", name=name, arguments={}),),
        results=(
            ToolResult(call_id=f"call_{at}", outcome="failed", text="There is no such tool."),
        ),
    )


DONE = calls(("completed", "3"), text="Adding.")
CUT = calls(
    ("completed", "3"),
    ("stopped", "stopped, outcome unknown: verify before repeating"),
    ("unknown", "stopped, outcome unknown: verify before repeating"),
    ("not_run", "not run"),
    ("denied", "denied"),
    at=10,
)
LONG = (
    system("Be kind."),
    user("add " * 50),
    reply("Which numbers? " * 5),
    user("One and two."),
    DONE,
    reply("Three."),
    user("And again."),
    CUT,
)

DIFFICULT: dict[str, tuple[Message, ...]] = {
    "nothing was said": (),
    "only a system message": (system("Be kind."),),
    "only empty words": (user(""), reply(""), user(" \n")),
    "a blank reply between words": (user("hi"), reply("  "), user("still there?")),
    "a blank reply that was cut": (user("hi"), reply(" \n", interrupted=True), user("hello?")),
    "a cut reply and the words that cut it": (
        user("tell"),
        reply("Once upon a ti", interrupted=True),
        user("no"),
    ),
    "a cut reply that ends in a space": (user("tell"), reply("Once upon ", interrupted=True)),
    "a cut reply with calls": (
        user("add"),
        calls(("not_run", "not run"), text="I shall ", interrupted=True),
        user("no, subtract"),
    ),
    "calls stopped in every way": (user("add"), CUT, user("go on")),
    "calls and nothing after them": (user("add"), DONE),
    "calls, then calls again": (user("add"), DONE, CUT, calls(("failed", "no"), at=30)),
    "calls first of all": (DONE, user("and?")),
    "results that say nothing": (user("add"), calls(("completed", ""), ("completed", " \n"))),
    "a result nobody recorded": (
        user("add"),
        reply("", calls=(ToolCall(id="call_1", name="add", arguments={}),)),
    ),
    "a reply, then calls": (user("add"), reply("Well."), DONE, user("thanks")),
    "a reply, a system message, then calls": (
        user("add"),
        reply("Well."),
        system("Use the tool."),
        DONE,
    ),
    "calls, a system message, then calls": (user("add"), DONE, system("Again."), CUT),
    "the agent opens": (reply("Shall we?"), user("Yes.")),
    "the agent speaks twice": (user("hi"), reply("Hello."), reply("Are you there? ")),
    "the user speaks twice": (user("hi"), user("hello?"), reply("Yes."), user("so"), user("tell")),
    "system messages everywhere": (
        system("a"),
        user("hi"),
        system("b"),
        reply("Yes."),
        system("c"),
        user("so"),
        system("d"),
    ),
    "words of the assistant at the end": (user("hi"), reply("Hello. ")),
    "a system message after them": (user("hi"), reply("Hello."), system("Now add.")),
    "names no tool has": (
        user("add"),
        strange_call("functions.add now"),
        strange_call("9" * 100, at=8),
        strange_call("", at=7),
    ),
    "half a character": (user("broken \ud800 paste\x00"), reply("\udc00"), user("\ud800")),
    **{
        f"trimmed to {size} characters": tuple(trimmed(LONG, size))
        for size in (1, 60, 100, 150, 220, 300, 420)
    },
}


@every_model
async def test_every_difficult_conversation_is_taken(dialect: str, model: str) -> None:
    requests = [
        said(messages=messages, tools=(ADD,), model=model, must_call=bool(number % 2))
        for number, messages in enumerate(DIFFICULT.values())
    ]
    server, came = await answered(dialect, [], *requests, default=Reply(text="fine"))

    refused = {
        name: str(what) for name, what in zip(DIFFICULT, came, strict=True) if what != came[0]
    }
    assert refused == {}
    assert came[0].text == "fine"
    assert [exchange.status for exchange in server.exchanges] == [200] * len(DIFFICULT)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", DIFFICULT)
def test_no_problem_is_found_without_tools_or_instructions(name: str, dialect: str) -> None:
    assert problems_in(said(messages=DIFFICULT[name], system=" "), dialect) == []


# --- any conversation at all ------------------------------------------------------------------

TOOLS = {"add": ADD}
texts = st.sampled_from(["", " ", "\n", "Yes.", "So then ", "\ud83d", "a\x00b", "word " * 40])
outcomes: st.SearchStrategy[Outcome] = st.sampled_from(
    ["completed", "failed", "denied", "not_run", "stopped", "unknown"]
)
authors = st.sampled_from(["writer", "critic", USER, ""])
sides: st.SearchStrategy[Side] = st.sampled_from(["system", "user", "assistant"])
results = st.lists(st.tuples(outcomes, texts), max_size=3)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Contexts as runs keep them: agents on both sides, their calls with one result for each."""
    messages: list[Message] = []
    number = 0
    for author in draw(st.lists(authors, max_size=8)):
        if author not in ("writer", "critic"):
            role = "user" if author == USER else draw(sides)
            messages.append(Message(role=role, text=draw(texts), author=author))
            continue
        told = draw(results)
        ids = [f"call_{number + at}" for at in range(len(told))]
        number += len(told)
        name = draw(st.sampled_from(["add", "functions.add", "4ever", ""]))
        messages.append(
            Message(
                role="assistant" if author == "writer" else "user",
                text=draw(texts),
                author=author,
                calls=tuple(ToolCall(id=call, name=name, arguments={}) for call in ids),
                results=tuple(
                    ToolResult(call_id=call, outcome=outcome, text=text)
                    for call, (outcome, text) in zip(ids, told, strict=True)
                ),
                interrupted=draw(st.booleans()),
            )
        )
    return tuple(trimmed(messages, draw(st.none() | st.integers(1, 200))))


def request_of(
    agent: str, messages: tuple[Message, ...], role: Role, corrections: tuple[Correction, ...]
) -> ModelRequest:
    definition = define(
        {
            "contexts": [{"name": "talk"}],
            "agents": [
                {"agent_role": "writer", "context": "talk"},
                {"agent_role": "critic", "context": "talk", "role": "user"},
            ],
            "states": [{"name": "start", "agent": agent}],
        },
        roles={"writer": role, "critic": role},
    )
    run = Run(
        id="r",
        definition=definition,
        plan=plan_of(definition.workflow),
        visit=Visit(phase="turn", state="start", turn=Turn(agent=agent, corrections=corrections)),
        contexts={"talk": messages},
    )
    return WorkflowAgent(run, agent).request()


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))
@given(
    messages=conversations(),
    agent=st.sampled_from(["writer", "critic"]),
    instructions=texts,
    reminder=st.sampled_from(["", "Be brief."]),
    is_parsing=st.booleans(),
    correction=st.none() | texts,
)
def test_every_request_an_agent_makes_is_taken(
    dialect: str,
    messages: tuple[Message, ...],
    agent: str,
    instructions: str,
    reminder: str,
    is_parsing: bool,
    correction: str | None,
) -> None:
    parsing = (ParsingTool(name="report", description="Report."),) if is_parsing else ()
    role = Role(systemMessage=instructions, reminder=reminder, parsingTools=parsing)
    corrections = (
        ()
        if correction is None
        else (
            Correction(
                text=correction, problem="Call a tool.", after=messages[-1] if messages else None
            ),
        )
    )

    assert problems_in(request_of(agent, messages, role, corrections), dialect) == []


# --- what is sent -----------------------------------------------------------------------------


def test_the_words_that_were_said_for_the_user_stand_where_nobody_said_any() -> None:
    body = body_of(said(messages=DIFFICULT["a reply, then calls"]), "openai:gpt-5")

    told = [(message["role"], message.get("content")) for message in body["messages"]]
    assert told == [
        ("system", "Be brief."),
        ("user", "add"),
        ("assistant", "Well."),
        ("user", "Go on."),
        ("assistant", "Adding."),
        ("tool", "3"),
        ("user", "thanks"),
    ]


def test_a_result_that_says_nothing_is_told_as_such() -> None:
    body = body_of(said(messages=DIFFICULT["results that say nothing"]), "openai:gpt-5")

    assert [m["content"] for m in body["messages"] if m["role"] == "tool"] == ["(no output)"] * 2


def test_a_problem_is_found_where_there_is_one() -> None:
    twice = said("add", called("2"), called("4"), tools=(ADD,))
    nameless = said(tools=(ToolSpec(name="4 you", description="", parameters={}),))

    assert "`tool_use` ids must be unique" in problems_in(twice, "anthropic")[0]
    assert all("4 you" not in found for found in problems_in(said(), "google"))
    assert "Invalid function name" in problems_in(nameless, "google")[0]
    assert "does not match pattern" in problems_in(nameless, "openai")[0]


async def test_problems_can_be_asked_for_in_a_running_loop() -> None:
    assert [problems_in(said(tools=(ADD,)), dialect) for dialect in DIALECTS] == [[], [], []]


def test_a_request_no_client_would_send_is_an_error_not_a_good_one() -> None:
    with pytest.raises(UserMistake, match="No provider of models is called 'opnai'"):
        body_of(said(), "opnai:gpt-5")


# --- the client and the server of each dialect -------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_reply_streams_with_thoughts_words_calls_and_usage(dialect: str) -> None:
    ears = Ears()
    step = Reply(
        thinking="hmm",
        chunks=("Let me ", "see."),
        calls=(Call(name="add", arguments={"a": 1, "b": 2}), Call(name="add", arguments={"a": 3})),
        usage=(1000, 100),
    )
    with SERVERS[dialect]([step]) as server:
        client = client_of("", environ_of(dialect, server.base_url))
        came = await ask(client, said(tools=(ADD,), model=MODELS[dialect][0]), ears)

    assert ears.events[:3] == [("thinking", "hmm"), ("text", "Let me "), ("text", "see.")]
    assert ears.heard("calling") == ["add", "add"]
    assert came.text == "Let me see."
    assert came.calls[0] == RequestedCall(name="add", arguments={"a": 1, "b": 2})
    assert "'b' is required" in came.calls[1].problem
    assert came.usage is not None
    assert (came.usage.input_tokens, came.usage.output_tokens) == (1000, 100)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_came_from_the_providers_cache_is_told_and_costs_less(dialect: str) -> None:
    steps = [Reply(text="hi", usage=(1000, 100), cached=cached) for cached in (800, 0)]
    requests = [said(model=MODELS[dialect][0])] * 2
    _, (read, fresh) = await answered(dialect, steps, *requests)

    assert (read.usage.input_tokens, read.usage.cached_tokens) == (1000, 800)
    assert (fresh.usage.input_tokens, fresh.usage.cached_tokens) == (1000, 0)
    assert 0 < read.usage.price < fresh.usage.price


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_gate_holds_the_stream_in_the_middle(dialect: str) -> None:
    gate, ears = Gate(), Ears()
    with SERVERS[dialect]([Reply(chunks=("one ", "two"), gate=gate)]) as server:
        client = client_of("", environ_of(dialect, server.base_url))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(client.request(said(model=MODELS[dialect][0]), ears))
            await gate.reached
            await ears.first_words.wait()
            heard = ears.words
            gate.open()
        await client.aclose()

    assert (heard, task.result().text) == ("one ", "one two")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_cancelling_in_mid_reply_hangs_up_and_what_was_heard_stays(dialect: str) -> None:
    ears = Ears()
    with SERVERS[dialect]([Reply(chunks=("one ", "two"), gate=Gate())]) as server:
        client = client_of("", environ_of(dialect, server.base_url))
        asking = asyncio.ensure_future(client.request(said(model=MODELS[dialect][0]), ears))
        await ears.first_words.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.exchanges[0].ended
        await client.aclose()

    assert server.exchanges[0].client_left
    assert ears.words == "one "
    used = ears.used()
    assert used is not None
    assert (used.is_estimate, used.output_tokens) == (True, 1)
    assert 0 < used.input_tokens < 200


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_request_that_is_cut_before_its_answer_begins_has_a_price(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ears, is_loaded = Ears(), threading.Event()
    load = prices.load

    def load_and_tell() -> None:
        load()
        is_loaded.set()

    monkeypatch.setattr(prices, "load", load_and_tell)
    monkeypatch.setattr(prices, "_load_once", threading.Lock())
    with SERVERS[dialect]([Fault(how="hang")]) as server:
        client = client_of("", environ_of(dialect, server.base_url))
        asking = asyncio.ensure_future(client.request(said(model=MODELS[dialect][0]), ears))
        assert await asyncio.to_thread(is_loaded.wait, DEADLINE_S)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await client.aclose()

    used = ears.used()
    assert used is not None
    assert (used.is_estimate, used.output_tokens) == (True, 0)
    assert used.price


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_only_a_request_that_came_to_something_has_used_something(dialect: str) -> None:
    broken, refused, unsent = Ears(), Ears(), Ears()
    steps = [Fault(how="cut_mid", text="Once upon a time"), Fault(status=400, message="no")]
    request = said(model=MODELS[dialect][0])
    with SERVERS[dialect](steps) as server:
        client = client_of("", environ_of(dialect, server.base_url))
        for ears in (broken, refused):
            with pytest.raises(MidstreamError):
                await client.request(request, ears)
        await client.aclose()
    client = client_of("", environ_of(dialect, server.base_url), backoff=Backoff(attempts=1))
    with pytest.raises(WorldTrouble):
        await ask(client, request, unsent)

    used = broken.used()
    assert used is not None
    assert (used.is_estimate, used.output_tokens) == (True, 4)
    assert refused.used() is None
    assert unsent.used() is None


async def test_a_cut_reply_has_used_what_its_provider_counted_in_the_pieces_before() -> None:
    counted = (
        b'data: {"choices":[{"delta":{"content":"Once "}}],"usage":'
        b'{"prompt_tokens":1000,"completion_tokens":3}}\n\n'
    )

    async def answer(request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        return httpx2.Response(200, content=counted)

    ears = Ears()
    client = client_of("http://nowhere/v1", transport=httpx2.MockTransport(answer))
    with pytest.raises(WorldTrouble, match="cut off"):
        await ask(client, said(model="openai:gpt-5"), ears)

    used = ears.used()
    assert used is not None
    assert (used.input_tokens, used.output_tokens, used.is_estimate) == (1000, 3, False)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (Fault(how="close_mid", text="Once"), WorldTrouble, "cut off"),
        (Fault(how="cut_mid", text="Once"), WorldTrouble, "cut off"),
        (Fault(how="error_mid", text="Once", message="overloaded"), WorldTrouble, "cut off: "),
        (Fault(how="bad_json", text="Once"), WorldTrouble, "cannot be read"),
        (Fault(status=400, message="no such thing"), UserMistake, "no such thing"),
        (Fault(status=429, message="slow down", times=9), WorldTrouble, "accepts no more requests"),
        (Fault(status=500, message="oh", times=9), WorldTrouble, "the provider has trouble"),
    ],
)
async def test_a_fault_is_a_trouble_never_a_reply(
    dialect: str, fault: Fault, kind: type[MidstreamError], words: str
) -> None:
    _, (came,) = await answered(dialect, [fault], said(model=MODELS[dialect][0]))

    assert isinstance(came, kind), came
    assert words in came.what
    assert came.hint


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("length", ": the model's limit for one reply was reached"),
        ("content_filter", " by the provider's content filter"),
    ],
)
async def test_a_reply_that_was_cut_says_so(dialect: str, reason: str, words: str) -> None:
    ears = Ears()
    with SERVERS[dialect]([Reply(text="Once upon", finish_reason=reason)]) as server:
        client = client_of("", environ_of(dialect, server.base_url))
        came = await ask(client, said(model=MODELS[dialect][0]), ears)

    assert came.text == ears.words == f"Once upon\n\n[cut off{words}]"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_reply_that_ended_for_a_reason_nobody_knows_is_whole(dialect: str) -> None:
    step = Reply(text="Once upon", finish_reason="OTHER")
    _, (came,) = await answered(dialect, [step], said(model=MODELS[dialect][0]))

    assert came.text == "Once upon"


@pytest.mark.parametrize("dialect", NEW)
async def test_keys_and_models_the_server_does_not_know_are_refused(dialect: str) -> None:
    right, wrong = (model.partition(":")[2] for model in MODELS[dialect])
    requests = [said(model=f"{dialect}:{name}") for name in (right, wrong)]
    _, came = await answered(dialect, [], *requests, default=Reply(text="hi"), models=[right])
    _, (keyless,) = await answered(dialect, [], said(model=f"{dialect}:{right}"), api_key="other")

    assert came[0].text == "hi"
    assert "was not found" in came[1].what
    assert KEYS[dialect] in keyless.hint or "key" in keyless.what


@pytest.mark.parametrize("dialect", NEW)
async def test_a_broken_request_is_answered_400_in_the_apis_words(dialect: str) -> None:
    nameless = ToolSpec(name="4 you", description="", parameters={})
    model = MODELS[dialect][0]
    request = said(tools=(nameless,), model=model)
    server, (came,) = await answered(dialect, [], request, default=Reply(text="taken"))

    assert isinstance(came, UserMistake)
    assert ("String should match pattern" in came.what) or ("Invalid function name" in came.what)
    assert server.exchanges[0].status == 400


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
async def test_the_providers_own_library_reads_the_servers_answers_too(dialect: str) -> None:
    from pydantic_ai.direct import model_request, model_request_stream
    from pydantic_ai.messages import ModelRequest as Theirs
    from pydantic_ai.models import infer_model

    right = Reply(text="Adding.", calls=(Call(name="add", arguments={"a": 1}),))
    with SERVERS[dialect]([right, right]) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in environ_of(dialect, server.base_url).items():
            patch.setenv(name, value)
        model = infer_model(MODELS[dialect][0].replace("openai:", "openai-chat:"))
        asked = [Theirs.user_text_prompt("Hello")]
        async with model:
            async with model_request_stream(model, asked) as stream:
                async for _ in stream:
                    pass
            answers = stream.get(), await model_request(model, asked)

    for answer in answers:
        assert answer.text == "Adding."
        calls = [(call.tool_name, call.args_as_dict()) for call in answer.tool_calls]
        assert calls == [("add", {"a": 1})]


# --- endpoints and keys ------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_endpoint_of_ones_own_needs_no_key(dialect: str) -> None:
    with SERVERS[dialect]([Reply(text="hi")]) as server:
        client = client_of("", environ_of(dialect, server.base_url, key=""))
        came = await ask(client, said(model=MODELS[dialect][0]))

    assert came.text == "hi"
    assert any("not-set" in value for value in server.exchanges[0].headers.values())


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("address", "key", "words"),
    [
        ("", "", "No key for"),
        ("localhost:11434", KEY, "which is not an endpoint's address"),
        ("http://localhost:9/v1", "sk two words", "characters that a key cannot have"),
    ],
)
async def test_a_key_or_address_that_cannot_be_used_is_named(
    dialect: str, address: str, key: str, words: str
) -> None:
    client = client_of("", {**environ_of(dialect, address, key)})

    with pytest.raises(UserMistake, match=words) as caught:
        await ask(client, said(model=MODELS[dialect][0]))

    told = f"{caught.value.what} {caught.value.hint}"
    assert KEYS[dialect] in told or ADDRESSES[dialect] in told


async def test_googles_older_name_for_its_key_is_read_too() -> None:
    with GoogleServer([Reply(text="hi")], api_key="older-key") as server:
        environ = {"GEMINI_API_KEY": "older-key", "GOOGLE_GEMINI_BASE_URL": server.base_url}
        came = await ask(client_of("", environ), said(model="google:gemini-2.5-pro"))

    assert came.text == "hi"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_that_was_cut_is_told_as_not_made(dialect: str) -> None:
    cut = Message(
        role="assistant", text="", author="dude", interrupted=True, calling="write_file, look"
    )
    request = said("make it", cut, Message(role="user", text="no, rename it"))

    body = str(body_of(request, MODELS[dialect][0]))
    assert "[interrupted while calling write_file, look: not made]" in body
    assert problems_in(request, dialect) == []

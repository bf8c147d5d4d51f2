"""The table of providers: where each is asked, with which key, and what is special about it."""

from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import msgspec
import pytest
from ai_kit import ADD, Ears, JumpingTime, ask, called, client_of, said
from deadline import DEADLINE_S
from support.dialect_server import AnthropicServer
from support.model_server import Fault
from support.openai_server import OpenAIServer, Reply

from midstream.language.errors import UserMistake
from midstream.language.names import Json
from midstream.models import http_stream
from midstream.models.endpoints import ENDPOINTS
from midstream.models.provider_errors import Backoff

SPOKEN = [name for name, known in ENDPOINTS.items() if known.dialect != "library" and known.base]


async def asked(model: str, *refusals: httpx2.Response, **environ: str) -> list[httpx2.Request]:
    """The requests a model's client makes; after `refusals` each is refused for good."""
    answers, made = list(refusals), list[httpx2.Request]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        made.append(request)
        return answers.pop(0) if answers else httpx2.Response(400, json={"error": "enough"})

    keys = {name: "k" * 20 for known in ENDPOINTS.values() for name in known.keys}
    client = client_of("", {**keys, **environ}, transport=httpx2.MockTransport(answer))
    with pytest.raises(UserMistake):
        await ask(client, said("add", called("2"), tools=(ADD,), must_call=True, model=model))
    return made


def body(request: httpx2.Request) -> dict[str, Json]:
    found: dict[str, Json] = msgspec.json.decode(request.content)
    return found


@pytest.mark.parametrize("provider", SPOKEN)
async def test_each_provider_is_asked_where_it_is_with_its_key(provider: str) -> None:
    known = ENDPOINTS[provider]
    [request] = await asked(f"{provider}:some/model:free")

    assert str(request.url) == known.base + known.path
    assert request.headers["authorization"] == "Bearer " + "k" * 20
    assert body(request)["model"] == "some/model:free"


async def test_another_address_is_named_by_the_environment() -> None:
    [request] = await asked("groq:llama", GROQ_BASE_URL="http://127.0.0.1:9/")

    assert str(request.url) == "http://127.0.0.1:9/openai/v1/chat/completions"


async def test_where_vllm_is_has_to_be_said() -> None:
    with pytest.raises(UserMistake, match="Where vLLM runs is not set") as caught:
        await ask(client_of("", {"VLLM_API_KEY": "k"}), said(model="vllm:qwen"))

    assert caught.value.hint == "Set VLLM_BASE_URL."


async def test_mistral_is_asked_in_its_own_words() -> None:
    sent = body((await asked("mistral:large"))[0])

    assert "stream_options" not in sent
    assert sent["tool_choice"] == "any"
    id = sent["messages"][2]["tool_calls"][0]["id"]
    assert sent["messages"][3]["tool_call_id"] == id
    assert len(id) == 9
    assert id.isalnum()


async def test_deepseek_gets_its_thoughts_back_where_it_thinks() -> None:
    [thinking], [plain] = (
        await asked("deepseek:deepseek-reasoner"),
        await asked("deepseek:deepseek-chat"),
    )

    assert body(thinking)["messages"][2]["reasoning_content"] == ""
    assert body(thinking)["tool_choice"] == "auto"
    assert "reasoning_content" not in body(plain)["messages"][2]
    assert body(plain)["tool_choice"] == "required"


async def test_an_endpoint_that_refuses_to_be_asked_for_usage_is_asked_without() -> None:
    refusal = httpx2.Response(422, json={"detail": "extra inputs: stream_options"})
    first, second = await asked("openai:own", refusal)

    assert body(first) == {**body(second), "stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("model", "most", "choice"),
    [
        ("claude-3-5-haiku-latest", 4_096, "any"),
        ("claude-sonnet-4-20250514", 4_096, "any"),
        ("claude-haiku-4-5-20251001", 64_000, "any"),
        ("claude-opus-4-7", 128_000, "any"),
        ("claude-opus-5-5", 128_000, "auto"),
        ("something-else", 16_384, "any"),
    ],
)
async def test_anthropic_is_told_the_most_a_model_may_say(
    model: str, most: int, choice: str
) -> None:
    [request] = await asked(f"anthropic:{model}")

    assert body(request)["max_tokens"] == most
    assert body(request)["tool_choice"] == {"type": choice}
    assert "anthropic-version" in request.headers


# --- what is told besides the words -----------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [
        lambda cached: {"prompt_tokens_details": {"cached_tokens": cached}},
        lambda cached: {"prompt_cache_hit_tokens": cached},
        lambda cached: {"cached_tokens": cached, "prompt_tokens_details": None},
    ],
    ids=["openai", "deepseek", "moonshot"],
)
async def test_tokens_that_came_from_a_cache_cost_less(place: Callable[[int], Json]) -> None:
    def stream(cached: int) -> httpx2.Response:
        usage = {"prompt_tokens": 1_000, "completion_tokens": 100} | place(cached)
        choice = {"delta": {"content": "hi"}, "finish_reason": "stop"}
        events = ({"choices": [choice]}, {"choices": [], "usage": usage})
        return httpx2.Response(200, content=told(events))

    async def told(events: Iterable[Json]) -> AsyncIterator[bytes]:
        for event in events:
            yield b"data: " + msgspec.json.encode(event) + b"\n\n"

    costs = []
    for cached in (0, 1_000):
        transport = httpx2.MockTransport(lambda _, cached=cached: stream(cached))
        reply = await ask(client_of("http://127.0.0.1:9/v1", transport=transport), said())
        assert reply.usage is not None
        assert (reply.usage.input_tokens, reply.usage.cached_tokens) == (1_000, cached)
        costs.append(reply.usage.cost_usd)

    assert costs == ["0.00225", "0.001125"]


async def test_the_wait_a_provider_asks_for_may_be_a_date() -> None:
    time = JumpingTime()
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    with OpenAIServer([Fault(status=429, retry_after=date), Reply(text="hi")]) as server:
        await ask(client_of(server, clock=time, backoff=Backoff(longest_s=7200.0)), said())

    assert 0 < time.slept[0] <= 3600


async def test_a_connection_serves_the_next_request_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is not read to its end in time is hung up on: the server may take the time it takes.
    monkeypatch.setattr(http_stream, "_DRAIN_S", DEADLINE_S)
    for server in (
        OpenAIServer(default=Reply(text="hi")),
        AnthropicServer(default=Reply(text="hi")),
    ):
        with server:
            is_openai = isinstance(server, OpenAIServer)
            model = "openai:gpt-5" if is_openai else "anthropic:claude-haiku-4-5"
            environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.base_url}
            client = client_of(server.base_url, environ)
            for _ in range(3):
                await client.request(said(model=model), Ears())
            await client.aclose()

        assert server.connections == 1

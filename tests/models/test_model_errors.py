"""AIAPIClient when the provider fails: tried again, given up, and said in words one can act on."""

import asyncio
import sys
from typing import Any

import pytest
from ai_kit import KEY, LEVELS, Ears, JumpingEars, JumpingTime, ask, client_of, needs_integers, said
from deadline import jump
from support.openai_server import Fault, Gate, OpenAIServer, Reply, refused_url

from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.models.api_client import AIAPIClient, Limits
from midstream.models.provider_errors import Backoff


async def fails(client: AIAPIClient, ears: Ears | None = None, **fields: Any) -> MidstreamError:
    with pytest.raises(MidstreamError) as caught:
        await ask(client, said(**fields), ears)
    assert caught.value.hint, "every error says what to do next"
    return caught.value


async def test_ten_times_too_many_requests_ends_after_the_attempts_there_are() -> None:
    time, ears = JumpingTime(), Ears()
    with OpenAIServer([Fault(status=429, message="Rate limit reached.", times=10)]) as server:
        error = await fails(client_of(server, clock=time), ears)

    assert isinstance(error, WorldTrouble)
    assert "Rate limit reached. (429) (after 5 attempts)" in error.what
    assert len(server.requests) == 5
    assert time.slept == [0.25, 0.5, 1.0, 2.0]
    assert ears.heard("status") == [
        "openai:gpt-5: rate limited; trying again in 0.2 s (attempt 2 of 5)",
        "openai:gpt-5: rate limited; trying again in 0.5 s (attempt 3 of 5)",
        "openai:gpt-5: rate limited; trying again in 1.0 s (attempt 4 of 5)",
        "openai:gpt-5: rate limited; trying again in 2.0 s (attempt 5 of 5)",
    ]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=429),
        Fault(status=500),
        Fault(status=503),
        Fault(how="close"),
        Fault(how="close_mid"),
    ],
    ids=["too many requests", "server error", "overloaded", "hung up", "an empty answer"],
)
async def test_what_passes_by_itself_is_tried_again(fault: Fault) -> None:
    with OpenAIServer([fault, fault, Reply(text="here I am")]) as server:
        reply = await ask(client_of(server), said())

    assert reply.text == "here I am"
    assert len(server.requests) == 3


async def test_the_wait_a_provider_asks_for_is_kept() -> None:
    time = JumpingTime()
    with OpenAIServer([Fault(status=429, retry_after="7"), Reply(text="hi")]) as server:
        await ask(client_of(server, clock=time), said())

    assert time.slept == [7.0]


async def test_a_provider_that_asks_for_an_hour_is_not_waited_for() -> None:
    time = JumpingTime()
    with OpenAIServer([Fault(status=429, retry_after="3600")]) as server:
        error = await fails(client_of(server, clock=time))

    assert time.slept == []
    assert "asks to wait 3600 s" in error.hint


async def test_an_empty_purse_is_not_tried_again() -> None:
    with OpenAIServer([Fault(status=429, code="insufficient_quota")]) as server:
        error = await fails(client_of(server))

    assert "quota or credit is used up" in error.what
    assert len(server.requests) == 1


async def test_nothing_is_tried_again_once_words_were_heard() -> None:
    ears = Ears()
    with OpenAIServer([Fault(how="cut_mid", text="Half a"), Reply(text="again")]) as server:
        error = await fails(client_of(server), ears)

    assert isinstance(error, WorldTrouble)
    assert "cut off: no connection" in error.what
    assert ears.words == "Half a"
    assert len(server.requests) == 1


async def test_an_error_in_the_stream_is_told_in_the_providers_words() -> None:
    with OpenAIServer(
        [Fault(how="error_mid", text="Half", error_type="odd", message="Oops.")]
    ) as server:
        error = await fails(client_of(server))

    assert "reported an error" in error.what
    assert "Oops." in error.what


async def test_a_page_in_place_of_an_answer_is_an_error() -> None:
    with OpenAIServer([Fault(how="html")]) as server:
        error = await fails(client_of(server))

    assert "check that the endpoint is a model API" in error.hint


async def test_a_provider_that_does_not_begin_is_given_up_and_hung_up_on() -> None:
    with OpenAIServer([Fault(how="hang")]) as server:
        limits = Limits(first_byte_s=200.0)
        asking = asyncio.create_task(fails(client_of(server, limits=limits), JumpingEars(0.0)))
        await server.arrival(1)
        jump(200.0)
        error = await asking
        await server.exchanges[0].ended

    assert "did not begin to answer within 200 s" in error.what
    assert server.exchanges[0].client_left


async def test_a_provider_that_falls_silent_is_given_up() -> None:
    ears = JumpingEars(200.0)
    with OpenAIServer([Fault(how="hang_mid", text="Well")]) as server:
        error = await fails(client_of(server, limits=Limits(idle_s=200.0)), ears)

    assert "fell silent for 200 s" in error.what
    assert ears.words == "Well"


async def test_a_reply_that_never_ends_is_given_up_in_time() -> None:
    drip = Reply(chunks=("drip ",) * 1000, gate=Gate())
    limits = Limits(idle_s=1000.0, total_s=200.0)
    with OpenAIServer([drip]) as server:
        error = await fails(client_of(server, limits=limits), JumpingEars(200.0))

    assert "went on past its total time of 200 s" in error.what


async def test_the_time_for_the_whole_request_ends_the_wait_for_its_beginning_too() -> None:
    with OpenAIServer([Fault(how="hang")]) as server:
        error = await fails(client_of(server, limits=Limits(total_s=0.2)))

    assert "did not begin to answer within its total time of 0.2 s" in error.what


async def test_a_slow_reply_is_not_cut_by_the_deadline_for_silence() -> None:
    # Two pieces and no third: what is read together with a piece does not set the deadline anew.
    slow = Reply(chunks=("a", "b"), gate=(gate := Gate()))
    with OpenAIServer([slow]) as server:
        reply = await ask(
            client_of(server, limits=Limits(idle_s=1000.0, total_s=10_000.0)),
            said(),
            JumpingEars(900.0, gate),
        )

    assert reply.text == "ab"


async def test_a_line_without_end_is_cut_at_the_cap() -> None:
    with OpenAIServer([Fault(how="endless")]) as server:
        error = await fails(client_of(server))

    assert "more than 200,000 bytes" in error.what


async def test_a_redirect_is_not_followed() -> None:
    with OpenAIServer(
        [Fault(status=307, headers={"location": "http://elsewhere.test/"})]
    ) as server:
        error = await fails(client_of(server))

    assert "redirect to http://elsewhere.test/" in error.what
    assert len(server.requests) == 1


async def test_where_nothing_listens_the_address_is_to_be_checked() -> None:
    error = await fails(client_of(refused_url(), backoff=Backoff(attempts=2)))

    assert isinstance(error, WorldTrouble)
    assert "the connection failed" in error.what
    assert "OPENAI_BASE_URL" in error.hint


@pytest.mark.parametrize("key", [KEY, "no-look-of-a-key"])
async def test_a_refused_key_is_the_users_to_mend_and_never_shown(key: str) -> None:
    with OpenAIServer(api_key="another") as server:
        error = await fails(client_of(server, {"OPENAI_API_KEY": key}))

    assert isinstance(error, UserMistake)
    assert "refused the key" in error.what
    assert "OPENAI_API_KEY" in error.hint
    assert key not in str(error)
    assert "[redacted]" in error.what


async def test_a_model_the_provider_does_not_have_is_the_users_to_mend() -> None:
    with OpenAIServer(models=["gpt-5"]) as server:
        error = await fails(client_of(server), model="openai:gpt-6000")

    assert isinstance(error, UserMistake)
    assert "`gpt-6000` does not exist" in error.what


async def test_a_forbidden_request_is_the_users_to_mend() -> None:
    with OpenAIServer([Fault(status=403, message="Country not supported.")]) as server:
        error = await fails(client_of(server))

    assert isinstance(error, UserMistake)
    assert "Country not supported. (403)" in error.what


async def test_a_refused_request_is_told_in_the_providers_words() -> None:
    with OpenAIServer([Fault(status=400, message="Unsupported value.")]) as server:
        error = await fails(client_of(server))

    assert isinstance(error, UserMistake)
    assert "Unsupported value. (400)" in error.what
    assert len(server.requests) == 1


async def test_a_conversation_too_long_for_the_model_says_how_to_shorten_it() -> None:
    too_long = Fault(status=400, code="context_length_exceeded", message="Too many tokens.")
    with OpenAIServer([too_long]) as server:
        error = await fails(client_of(server))

    assert isinstance(error, UserMistake)
    assert "/clear" in error.hint


async def test_a_reply_stopped_by_the_filter_before_any_word_is_an_error() -> None:
    with OpenAIServer([Reply(finish_reason="content_filter")]) as server:
        error = await fails(client_of(server))

    assert "content filter" in error.what


async def test_a_reply_at_its_limit_before_any_word_is_an_error() -> None:
    with OpenAIServer([Reply(finish_reason="length")]) as server:
        error = await fails(client_of(server))

    assert "before it said anything" in error.what


async def test_cancelling_while_waiting_to_try_again_makes_no_further_request() -> None:
    class Standstill(JumpingTime):
        async def sleep(self, seconds: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

    waiting = asyncio.Event()
    with OpenAIServer([Fault(status=429), Reply(text="late")]) as server:
        client = client_of(server, clock=Standstill())
        answering = asyncio.ensure_future(client.request(said(), Ears()))
        await waiting.wait()
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering
        await client.aclose()

    assert len(server.requests) == 1


async def test_cancelling_before_the_first_byte_hangs_up() -> None:
    with OpenAIServer([Fault(how="hang", gate=(gate := Gate()))]) as server:
        client = client_of(server, limits=Limits())
        answering = asyncio.ensure_future(client.request(said(), Ears()))
        await gate.reached
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering
        await server.exchanges[0].ended
        await client.aclose()

    assert server.exchanges[0].client_left


# --- what is wrong before anything is sent ------------------------------------------------------


async def test_without_key_and_endpoint_the_error_says_what_to_set() -> None:
    client = AIAPIClient(LEVELS, clock=JumpingTime(), validator=needs_integers, environ={})

    error = await fails(client)

    assert isinstance(error, UserMistake)
    assert "Set OPENAI_API_KEY" in error.hint


@pytest.mark.parametrize("address", ["localhost:11434", "ftp://host/v1", "http://", "http://[::1"])
async def test_an_endpoint_that_is_no_address_is_refused(address: str) -> None:
    error = await fails(client_of(address))

    assert isinstance(error, UserMistake)
    assert "OPENAI_BASE_URL" in error.what


@pytest.mark.parametrize("key", ["“sk-curly-quoted”", "sk-with a-space", "sk-\x07bell"])
async def test_a_key_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    error = await fails(client_of(refused_url(), {"OPENAI_API_KEY": key}))

    assert isinstance(error, UserMistake)
    assert key not in str(error)


def without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [name for name in sys.modules if name.startswith("pydantic_ai")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)


@pytest.mark.parametrize(
    ("model", "extra"),
    [
        ("google:gemini-2.5-pro", "google"),
        ("openai-responses:gpt-5", "providers"),
        ("bedrock:anthropic.claude", "providers"),
    ],
)
async def test_a_provider_whose_library_is_missing_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, model: str, extra: str
) -> None:
    without_the_library(monkeypatch)

    error = await fails(client_of(refused_url()), model=model)

    assert isinstance(error, UserMistake)
    assert error.hint == f"Run: pip install 'midstream[{extra}]'"


async def test_a_library_that_the_extra_does_not_bring_is_named_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)

    error = await fails(client_of(refused_url()), model="bedrock:anthropic.claude")

    assert "not installed (boto3)" in str(error)
    assert isinstance(error, UserMistake)
    assert error.hint == "Run: pip install 'pydantic-ai-slim[bedrock]'"


@pytest.mark.parametrize("is_installed", [True, False])
async def test_a_provider_nobody_knows_is_the_users_to_mend(
    monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    if not is_installed:
        without_the_library(monkeypatch)

    error = await fails(client_of(refused_url()), model="opennai:gpt-5")

    assert isinstance(error, UserMistake)
    assert "No provider of models is called 'opennai'." in error.what
    assert error.hint == "Did you mean 'openai'?"

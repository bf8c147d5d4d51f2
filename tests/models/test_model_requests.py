"""AIAPIClient against a real local server: what is sent, what is heard, what comes back."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ai_kit import ADD, KEY, Ears, ask, called, client_of, said
from deadline import DEADLINE_S
from support.openai_server import Call, Gate, OpenAIServer, Reply

from midstream.core.conversation import Message, ToolCall, ToolResult
from midstream.core.inputs import RequestedCall


async def test_a_reply_says_what_it_used_and_what_that_cost() -> None:
    with OpenAIServer([Reply(text="hi", usage=(1000, 100))]) as server:
        reply = await ask(client_of(server), said())

    assert reply.usage is not None
    assert reply.usage.model == "openai:gpt-5"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (1000, 100)
    assert reply.usage.cost_usd == "0.00225"


async def test_the_price_of_a_model_nobody_knows_is_unknown() -> None:
    with OpenAIServer([Reply(text="hi")]) as server:
        reply = await ask(client_of(server), said(model="openai:my-own-finetune"))

    assert reply.usage is not None
    assert reply.usage.cost_usd is None
    assert reply.usage.input_tokens == 11


async def test_usage_that_was_not_told_costs_an_unknown_sum() -> None:
    with OpenAIServer([Reply(text="hi", usage=None)]) as server:
        reply = await ask(client_of(server), said())

    assert reply.usage is not None
    assert (reply.usage.output_tokens, reply.usage.cost_usd) == (0, None)


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        ('{"a": 1, "b":', "not JSON"),
        ("[1, 2]", "array, not an object"),
        ('{"a": 1}', "'b' is required"),
        ('{"a": 1, "b": "two"}', "not of type 'integer'"),
        ('{"a": NaN, "b": 1}', "NaN is not a JSON number"),
    ],
)
async def test_arguments_that_cannot_be_used_are_a_problem_of_the_call(
    sent: str, complaint: str
) -> None:
    with OpenAIServer([Reply(calls=(Call(name="add", arguments=sent),))]) as server:
        reply = await ask(client_of(server), said(tools=(ADD,)))

    assert reply.calls[0].name == "add"
    assert complaint in reply.calls[0].problem


async def test_a_call_without_arguments_has_none() -> None:
    with OpenAIServer([Reply(calls=(Call(name="ping", arguments=""),))]) as server:
        reply = await ask(client_of(server), said())

    assert reply.calls == (RequestedCall(name="ping", arguments={}),)


async def test_an_unknown_tool_is_left_to_the_run() -> None:
    with OpenAIServer([Reply(calls=(Call(name="fly", arguments={"to": "Rome"}),))]) as server:
        reply = await ask(client_of(server), said(tools=(ADD,)))

    assert reply.calls == (RequestedCall(name="fly", arguments={"to": "Rome"}),)


async def test_the_name_of_a_called_tool_is_cleaned_and_cut() -> None:
    with OpenAIServer([Reply(calls=(Call(name="fly\x00" + "y" * 1000),))]) as server:
        reply = await ask(client_of(server), said(tools=(ADD,)))

    assert reply.calls[0].name.startswith("fly\ufffdyyy")
    assert len(reply.calls[0].name) < 310


async def test_an_empty_answer_is_an_empty_reply() -> None:
    with OpenAIServer([Reply()]) as server:
        reply = await ask(client_of(server), said())

    assert (reply.text, reply.calls) == ("", ())


async def test_a_reply_that_must_call_is_asked_for_as_such() -> None:
    with OpenAIServer([Reply(text="a"), Reply(text="b")]) as server:
        client = client_of(server)
        await client.request(said(tools=(ADD,), must_call=True), Ears())
        await client.request(said(tools=(ADD,)), Ears())
        await client.aclose()

    assert server.requests[0]["tool_choice"] == "required"
    assert server.requests[1]["tool_choice"] == "auto"
    assert server.requests[0]["tools"][0]["function"]["name"] == "add"


async def test_a_history_of_parallel_calls_and_a_cut_reply_is_taken_by_the_provider() -> None:
    history = (
        called("2", "4", text="Adding."),
        called("6"),
        Message(role="assistant", text="So the sum", author="dude", interrupted=True),
        Message(role="user", text="no, the product"),
    )
    with OpenAIServer([Reply(text="8")]) as server:
        await ask(client_of(server), said("add", *history, tools=(ADD,)))

    sent = server.requests[0]["messages"]
    assert [message["role"] for message in sent] == (
        ["system", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "user"]
    )
    assert sent[0]["content"] == "Be brief."
    assert [message["content"] for message in sent[3:5]] == ["2", "4"]
    assert sent[7]["content"] == "So the sum [interrupted]"


async def test_a_tool_name_the_provider_would_refuse_is_sent_back_as_one_it_takes() -> None:
    strange = Message(
        role="assistant",
        text="",
        author="dude",
        calls=(ToolCall(id="call_1", name="functions.add now", arguments={}),),
        results=(ToolResult(call_id="call_1", outcome="failed", text="There is no such tool."),),
    )
    with OpenAIServer([Reply(text="Sorry.")]) as server:
        reply = await ask(client_of(server), said("add", strange))

    call = server.requests[0]["messages"][2]["tool_calls"][0]
    assert call["function"]["name"] == "functions_add_now"
    assert reply.text == "Sorry."


async def test_a_conversation_the_agent_opens_itself_is_taken_by_the_provider() -> None:
    opening = Message(role="assistant", text="Shall we?", author="dude")
    request = said(messages=(opening, Message(role="user", text="Yes.")), system="")
    with OpenAIServer([Reply(text="Good.")]) as server:
        await ask(client_of(server), request)

    sent = server.requests[0]["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[0]["content"] == "Go on."


async def test_half_a_surrogate_pair_is_replaced_in_both_directions() -> None:
    with OpenAIServer([lambda _: Reply(text="plain")]) as server:
        await ask(client_of(server), said("broken \ud800 paste"))

    assert server.requests[0]["messages"][1]["content"] == "broken \ufffd paste"


async def test_a_nul_in_a_reply_is_replaced_where_it_is_shown_and_where_it_is_kept() -> None:
    ears = Ears()
    with OpenAIServer([Reply(chunks=("a\x00b",))]) as server:
        reply = await ask(client_of(server), said(), ears)

    assert (ears.words, reply.text) == ("a\ufffdb", "a\ufffdb")


async def test_a_refusal_is_the_reply() -> None:
    with OpenAIServer([Reply(refusal="I cannot help with that.")]) as server:
        reply = await ask(client_of(server), said())

    assert reply.text == "I cannot help with that."


async def test_arguments_cut_at_the_models_limit_ask_for_smaller_pieces() -> None:
    cut = Call(name="add", arguments='{"a": 1, "b')
    with OpenAIServer([Reply(calls=(cut,), finish_reason="length")]) as server:
        reply = await ask(client_of(server), said(tools=(ADD,)))

    assert "send less at a time" in reply.calls[0].problem


async def test_a_call_in_a_filtered_reply_is_not_run() -> None:
    whole = Call(name="add", arguments={"a": 1, "b": 2})
    filtered = Reply(text="Well", calls=(whole,), finish_reason="content_filter")
    with OpenAIServer([filtered]) as server:
        reply = await ask(client_of(server), said(tools=(ADD,)))

    assert reply.calls == ()
    assert reply.text.endswith("[cut off by the provider's content filter]")


async def test_requests_at_the_same_time_do_not_wait_for_each_other() -> None:
    gate = Gate()
    with OpenAIServer(
        [Reply(text="slow one", gate=gate, gate_after=0), Reply(text="quick")]
    ) as server:
        client = client_of(server)
        async with asyncio.TaskGroup() as group:
            slow = group.create_task(client.request(said(), Ears()))
            await gate.reached
            quick = await client.request(said(), Ears())
            gate.open()
        await client.aclose()

    assert (quick.text, slow.result().text) == ("quick", "slow one")


async def test_the_key_goes_to_the_endpoint_and_a_stand_in_where_there_is_none() -> None:
    with OpenAIServer(default=Reply(text="hi")) as server:
        await ask(client_of(server), said())
        await ask(client_of(server, {"OPENAI_API_KEY": ""}), said())

    keys = [exchange.headers["authorization"] for exchange in server.exchanges]
    assert keys == [f"Bearer {KEY}", "Bearer not-set"]


def test_importing_the_client_imports_nothing_heavy() -> None:
    looks = (
        "import sys, midstream.models.api_client; "
        "print(sorted({'pydantic_ai', 'openai', 'httpx2', 'genai_prices'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", looks],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )

    assert ran.stdout.strip() == "[]"


FIRST_REQUEST = """
import asyncio, sys, threading
from ai_kit import Ears, client_of, said
from support.openai_server import OpenAIServer, Reply

imported, is_asking = [], False

def heard(event, arguments):
    if event == "import" and is_asking and threading.current_thread() is threading.main_thread():
        imported.append(arguments[0])

async def main(url):
    global is_asking
    client = client_of(url)
    await client.warm_up()
    is_asking = True
    await client.request(said(), Ears())
    is_asking = False
    await client.aclose()

sys.addaudithook(heard)
with OpenAIServer([Reply(text="hi")]) as server:
    asyncio.run(main(server.base_url))
print(imported)
"""


def test_the_first_request_imports_nothing_on_the_loop() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FIRST_REQUEST],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[:2]))},
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )

    assert ran.stdout.strip() == "[]"

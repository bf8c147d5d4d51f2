"""OpenAI's own client talks to runs: as it would to a model, and in the middle of a reply."""

import asyncio
import base64
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai import AsyncOpenAI
from server_kit import client_of, engine_of, served
from support.pictures import png

import midstream
from midstream.core import events as e
from midstream.server import answering
from midstream.server.conversations import Asked, Conversations, Message
from midstream.server.openai_chat import openai_routes
from midstream.testing import Gate, Scripted, asks, call, calls, says


@contextlib.asynccontextmanager
async def door(folder: Path, *script: Any) -> AsyncIterator[tuple[AsyncOpenAI, midstream.Engine]]:
    async with (
        engine_of(folder, *script) as engine,
        served(openai_routes(engine)) as address,
        client_of(address) as client,
    ):
        yield client, engine


def user(text: Any) -> Any:
    return {"role": "user", "content": text}


def assistant(text: str) -> Any:
    return {"role": "assistant", "content": text}


async def test_models_are_roles_and_workflows(tmp_path: Path) -> None:
    async with door(tmp_path) as (client, _):
        names = [model.id async for model in client.models.list()]
        assert {"role:dude", "workflow:haiku"} <= set(names)
        assert (await client.models.retrieve("workflow:haiku")).owned_by == "midstream"
        with pytest.raises(openai.NotFoundError, match="Did you mean 'role:dude'"):
            await client.models.retrieve("role:dud")


async def test_the_messages_so_far_find_the_run_again_and_streamed_is_what_whole_is(
    tmp_path: Path,
) -> None:
    usage = e.Usage(model="m", input_tokens=7, output_tokens=2, cached_tokens=5)
    reply = Scripted(pieces=("Hello ", "there."), usage=usage)
    async with door(tmp_path, reply, "Fine.") as (client, engine):
        messages = [user("Hi")]
        stream = await client.chat.completions.create(
            model="role:dude",
            messages=messages,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert text == "Hello there."
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.total_tokens == 9
        assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"

        second = await client.chat.completions.create(
            model="role:dude", messages=[*messages, assistant(text), user("How are you?")]
        )
        assert second.choices[0].message.content == "Fine."
        (run,) = await engine.runs()
        began = (await engine.facts(run.id))[0].event
        assert isinstance(began, e.RunStarted)
        assert began.source == "openai"


async def test_equal_conversations_are_never_mixed_up(tmp_path: Path) -> None:
    async with door(tmp_path, "Hello.", "Hello.", "?", "!") as (client, engine):
        for _ in range(2):
            await client.chat.completions.create(model="role:dude", messages=[user("Hi")])
        # Whose run this is nobody can say: it is another one, which is told what was said.
        reply = await client.chat.completions.create(
            model="role:dude", messages=[user("Hi"), assistant("Hello."), user("my secret")]
        )
        assert reply.choices[0].message.content == "?"
        runs = await engine.runs()
        assert len(runs) == 3
        heard = [(await engine.get(run.id)).run.inbox.lines for run in runs]
        assert sum("my secret" in line.text for lines in heard for line in lines.values()) == 1
        said = next(iter(heard[0].values())).text
        assert "user: Hi" in said
        assert "assistant: Hello." in said
        # What another backend has said does not lead here either.
        await client.chat.completions.create(
            model="role:dude", messages=[user("Hi"), assistant("Good day."), user("and?")]
        )
        assert len(await engine.runs()) == 4


async def test_persons_with_the_same_conversation_have_runs_of_their_own(tmp_path: Path) -> None:
    async with door(tmp_path, "Hello.", "Hello.", "for ada", "for bob") as (client, engine):
        for person in ("ada", "bob"):
            await client.chat.completions.create(
                model="role:dude", messages=[user("Hi")], user=person
            )
        for person in ("ada", "bob"):
            reply = await client.chat.completions.create(
                model="role:dude",
                messages=[user("Hi"), assistant("Hello."), user("Who?")],
                user=person,
            )
            assert reply.choices[0].message.content == f"for {person}"
        assert len(await engine.runs()) == 2


async def test_a_message_that_comes_back_as_it_was_names_its_run(tmp_path: Path) -> None:
    async with door(tmp_path, "Hello.", "Hello.", "Fine.") as (client, engine):
        await client.chat.completions.create(model="role:dude", messages=[user("Hi")])
        first = await client.chat.completions.create(model="role:dude", messages=[user("Hi")])
        messages: list[Any] = [user("Hi"), first.choices[0].message, user("How are you?")]
        await client.chat.completions.create(model="role:dude", messages=messages)
        assert len(await engine.runs()) == 2


async def test_a_second_request_steers_and_the_first_ends_with_what_it_showed(
    tmp_path: Path,
) -> None:
    gate = Gate()
    script = says("An old ", "silent pond", gate=gate, after=1), "Snow."
    async with door(tmp_path, *script) as (client, engine):
        names = {"X-Conversation-Id": "c1"}
        first = await client.chat.completions.create(
            model="role:dude", messages=[user("a haiku")], stream=True, extra_headers=names
        )
        await gate.reached()
        second = await client.chat.completions.create(
            model="role:dude", messages=[user("about snow")], extra_headers=names
        )
        assert second.choices[0].message.content == "Snow."
        text = "".join([c.choices[0].delta.content or "" async for c in first])
        assert text == "An old "
        (run,) = await engine.runs()
        cuts = [x.event for x in await engine.facts(run.id) if isinstance(x.event, e.Interrupted)]
        assert [cut.partial for cut in cuts] == ["An old "]


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_goes_away_halts_the_turn_and_can_go_on(
    tmp_path: Path, is_stream: bool
) -> None:
    gate = Gate()
    script = says("An old silent pond, a frog ", "jumps", gate=gate, after=1), "Snow."
    async with door(tmp_path, *script) as (client, engine):
        asking = asyncio.ensure_future(
            client.chat.completions.create(
                model="role:dude", messages=[user("a haiku")], stream=is_stream
            )
        )
        await gate.reached()
        (info,) = await engine.runs()
        run = await engine.get(info.id)
        if is_stream:
            stream: Any = await asking
            await stream.close()
        else:
            asking.cancel()
        await run.settled()
        cuts = [x.event for x in await engine.facts(run.id) if isinstance(x.event, e.Interrupted)]
        assert [cut.partial for cut in cuts] == ["An old silent pond, a frog "]
        reply = await client.chat.completions.create(
            model="role:dude",
            messages=[user("a haiku"), assistant("An old silent pond, a fro"), user("about snow")],
        )
        assert reply.choices[0].message.content == "Snow."
        assert len(await engine.runs()) == 1


async def test_a_question_is_the_reply_and_the_next_message_answers_it(tmp_path: Path) -> None:
    script = asks("Which pond?", choices=["old", "new"]), "Splash."
    async with door(tmp_path, *script) as (client, engine):
        messages = [user("a haiku")]
        first = await client.chat.completions.create(model="workflow:haiku", messages=messages)
        question = first.choices[0].message.content or ""
        assert "Which pond?\n* old\n* new" in question
        messages += [assistant(question), user("old")]
        second = await client.chat.completions.create(model="workflow:haiku", messages=messages)
        assert second.choices[0].message.content == "Splash."
        (run,) = await engine.runs()
        assert run.status == "finished"
        assert second.choices[0].message.model_extra["midstream"]["output"] == "Splash."  # type: ignore[index]


async def test_a_client_that_leaves_after_a_question_leaves_it_open(tmp_path: Path) -> None:
    async with engine_of(tmp_path, asks("Which pond?"), "Splash.") as engine:
        asked = Asked(model="workflow:haiku", messages=(Message("user", "a haiku"),), key="c1")
        async with Conversations(engine, "openai").speak(asked) as spoken:
            async for _ in spoken.events():
                pass
            await spoken.halt()
            assert [question.text for question in spoken.run.questions] == ["Which pond?"]


async def test_an_approval_is_nothing_that_words_give(tmp_path: Path) -> None:
    script = calls(call("write_file", path="a.txt", content="a")), "As you like."
    async with door(tmp_path, *script) as (client, engine):
        names = {"X-Conversation-Id": "c1"}
        first = await client.chat.completions.create(
            model="role:dude", messages=[user("write")], extra_headers=names
        )
        text = first.choices[0].message.content or ""
        assert "Waits for a yes: write_file a.txt" in text
        assert "/resume" in text
        await client.chat.completions.create(
            model="role:dude", messages=[user("yes")], extra_headers=names
        )
        assert not (tmp_path / "work" / "a.txt").exists()
        (info,) = await engine.runs()
        assert (await engine.get(info.id)).status == "waiting"


async def test_a_budget_is_nothing_that_words_raise(tmp_path: Path) -> None:
    usage = e.Usage(model="m", input_tokens=7, output_tokens=2)
    async with door(tmp_path, Scripted(pieces=("One.",), usage=usage), "Two.") as (client, engine):
        names = {"X-Conversation-Id": "c1"}
        first = await client.chat.completions.create(
            model="workflow:poor", messages=[user("count")], extra_headers=names
        )
        assert "A person decides: in the console" in (first.choices[0].message.content or "")
        await client.chat.completions.create(
            model="workflow:poor", messages=[user("as much again")], extra_headers=names
        )
        (info,) = await engine.runs()
        run = await engine.get(info.id)
        assert [question.about for question in run.questions] == ["budget"]
        assert run.run.usage.budget_times == 1


async def test_who_streams_waits_while_somebody_else_decides(tmp_path: Path) -> None:
    script = calls(call("write_file", path="a.txt", content="a")), "Written."
    async with door(tmp_path, *script) as (client, engine):
        stream = await client.chat.completions.create(
            model="role:dude", messages=[user("write")], stream=True
        )
        text = ""
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""
            if "Waits for a yes" in text and not text.endswith("Written."):
                (info,) = await engine.runs()
                run = await engine.get(info.id)
                for question in run.questions:
                    await run.approve(question)
        assert text.endswith("Written.")
        assert (tmp_path / "work" / "a.txt").read_text() == "a"


async def test_a_retry_has_the_same_reply_and_says_nothing_twice(tmp_path: Path) -> None:
    async with door(tmp_path, "One.", "Two.") as (client, engine):
        once = {"Idempotency-Key": "k1"}
        for model in ("role:dude", "workflow:haiku"):
            replies = [
                await client.chat.completions.create(
                    model=model, messages=[user("count")], extra_headers=once
                )
                for _ in range(2)
            ]
            texts = [reply.choices[0].message.content for reply in replies]
            assert texts[0] == texts[1]
        assert len(await engine.runs()) == 2


async def test_many_conversations_at_once_stay_apart(tmp_path: Path) -> None:
    def echo(request: Any) -> str:
        return f"<{request.messages[-1].text}>"

    async with door(tmp_path, echo) as (client, engine):

        async def talk(number: int) -> list[str]:
            messages: list[Any] = []
            for turn in range(3):
                messages.append(user(f"{number}.{turn}"))
                stream = await client.chat.completions.create(
                    model="role:dude", messages=messages, stream=True
                )
                said = "".join([c.choices[0].delta.content or "" async for c in stream])
                messages.append(assistant(said))
            return [each["content"] for each in messages if each["role"] == "assistant"]

        spoken = await asyncio.gather(*(talk(number) for number in range(10)))
        assert spoken == [[f"<{n}.{turn}>" for turn in range(3)] for n in range(10)]
        assert len(await engine.runs()) == 10


async def test_pictures_and_instructions_of_the_client_are_heard(tmp_path: Path) -> None:
    def seen(request: Any) -> str:
        message = request.messages[-1]
        return f"{len(message.pictures)} {message.text}"

    url = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    async with door(tmp_path, seen) as (client, _):
        reply = await client.chat.completions.create(
            model="role:dude",
            messages=[{"role": "system", "content": "Speak like a pirate."}, user(content)],
        )
        text = reply.choices[0].message.content or ""
        assert text.startswith("1 ")
        assert "Speak like a pirate." in text


@pytest.mark.parametrize("is_stream", [True, False])
async def test_tools_that_come_with_every_request_are_left_aside_and_that_is_said(
    tmp_path: Path, is_stream: bool
) -> None:
    # As Open WebUI and opencode send them, and what another model called before.
    tool: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[Any] = [
        user("What day is it?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "Monday", "tool_call_id": "1"},
        assistant("It is Monday."),
        user("Hi"),
    ]
    async with door(tmp_path, lambda request: request.messages[-1].text) as (client, _):
        reply: Any = await client.chat.completions.create(
            model="role:dude", messages=messages, tools=[tool], stream=is_stream
        )
        if is_stream:
            chunks = [chunk async for chunk in reply]
            text = "".join(c.choices[0].delta.content or "" for c in chunks)
            stands = chunks[-1].model_extra["midstream"]
        else:
            message = reply.choices[0].message
            text, stands = message.content, message.model_extra["midstream"]
        assert "tool: Monday" in text
        assert stands["left_out"] == ["tools"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"model": "role:nobody"}, "There is no model 'role:nobody'"),
        (
            {
                "tools": [{"type": "function", "function": {"name": "f"}}],
                "tool_choice": {"type": "function", "function": {"name": "f"}},
            },
            "their own tools",
        ),
        ({"n": 2}, "a run has one reply"),
        ({"response_format": {"type": "json_object"}}, "`output`"),
        ({"messages": []}, "`messages` is missing"),
        ({"messages": [assistant("Hi")]}, "has to be the user's"),
        ({"messages": [{"role": "tool", "content": "1", "tool_call_id": "1"}]}, "the user's"),
        ({"messages": [{"role": "critic", "content": "1"}]}, "no role"),
        (
            {"messages": [user([{"type": "image_url", "image_url": {"url": "http://x/y.png"}}])]},
            "is not fetched",
        ),
        (
            {
                "model": "workflow:haiku",
                "messages": [{"role": "system", "content": "x"}, user("Hi")],
            },
            "takes no system message",
        ),
    ],
)
async def test_what_is_not_done_is_refused_in_openais_form(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    async with door(tmp_path) as (client, engine):
        asked: dict[str, Any] = {"model": "role:dude", "messages": [user("Hi")], **more}
        with pytest.raises(openai.APIStatusError, match=words) as caught:
            await client.chat.completions.create(**asked)
        assert caught.value.status_code in (400, 404)
        assert caught.value.type == "invalid_request_error"
        assert await engine.runs() == []


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_turn_that_fails_is_an_error_with_its_reason(
    tmp_path: Path, is_stream: bool
) -> None:
    async with door(tmp_path) as (client, _):  # a model without a script fails

        async def ask() -> None:
            reply: Any = await client.chat.completions.create(
                model="role:dude", messages=[user("Hi")], stream=is_stream
            )
            if is_stream:
                async for _ in reply:
                    pass

        with pytest.raises(openai.APIError, match="script"):
            await ask()


async def test_a_chore_of_the_client_does_not_come_to_the_run_of_its_chat(tmp_path: Path) -> None:
    async with door(tmp_path, "Hello.", "A title", "Fine.") as (client, engine):
        chat = {"X-OpenWebUI-Chat-Id": "c1"}
        say = client.chat.completions.create
        await say(model="role:dude", messages=[user("Hi")], extra_headers=chat)
        title = await say(
            model="role:dude",
            messages=[user("### Task:\nWrite a title: Hi, Hello.")],
            extra_headers=chat,
        )
        assert title.choices[0].message.content == "A title"
        await say(
            model="role:dude",
            messages=[user("Hi"), assistant("Hello."), user("How are you?")],
            extra_headers=chat,
        )
        runs = await engine.runs()
        lines = [len((await engine.get(run.id)).run.inbox.lines) for run in runs]
        assert sorted(lines) == [1, 2]


async def test_a_run_is_named_in_full_or_not_at_all(tmp_path: Path) -> None:
    async with door(tmp_path, "Hello.", "Fine.") as (client, engine):
        say = client.chat.completions.with_raw_response.create
        first = await say(model="role:dude", messages=[user("Hi")])
        run = first.headers["x-midstream-run"]
        with pytest.raises(openai.BadRequestError, match="There is no run"):
            await say(
                model="role:dude",
                messages=[user("You?")],
                extra_headers={"X-Midstream-Run": run[:6]},
            )
        await say(
            model="role:dude", messages=[user("You?")], extra_headers={"X-Midstream-Run": run}
        )
        assert [each.id for each in await engine.runs()] == [run]


async def test_a_conversation_that_has_a_name_only_after_its_first_reply_is_the_same(
    tmp_path: Path,
) -> None:
    async with door(tmp_path, "Hello.", "Fine.", "Bye.") as (client, engine):
        messages = [user("Hi")]
        for named in ({}, {"X-Conversation-Id": "c7"}, {"X-Conversation-Id": "c7"}):
            reply = await client.chat.completions.create(
                model="role:dude", messages=messages, extra_headers=named
            )
            messages += [assistant(reply.choices[0].message.content or ""), user("And?")]
        assert len(await engine.runs()) == 1


async def test_instructions_that_change_are_told_once(tmp_path: Path) -> None:
    async with door(tmp_path, lambda request: request.messages[-1].text) as (client, _):
        named = {"X-Conversation-Id": "c1"}
        heard = []
        for system in ("Be brief.", "Be brief.", "Be long.", "Be long."):
            reply = await client.chat.completions.create(
                model="role:dude",
                messages=[{"role": "system", "content": system}, user("Hi")],
                extra_headers=named,
            )
            heard.append(reply.choices[0].message.content or "")
        assert ["Be" in each for each in heard] == [True, False, True, False]


async def test_a_silent_stream_says_that_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "PING_S", 0.01)
    gate = Gate()
    async with (
        engine_of(tmp_path, says("An old ", "pond", gate=gate, after=1)) as engine,
        served(openai_routes(engine)) as address,
        httpx2.AsyncClient(timeout=None) as http,
    ):
        body = {"model": "role:dude", "messages": [user("a haiku")], "stream": True}
        url = f"{address}/v1/chat/completions"
        async with http.stream("POST", url, json=body) as response:
            lines = response.aiter_lines()
            while await anext(lines) != ": still there":
                pass
            gate.open()
            assert [line async for line in lines if line][-1] == "data: [DONE]"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_whatever_clients_do_no_word_is_lost_or_said_twice(tmp_path: Path, seed: int) -> None:
    """Conversations at random: told whole or streamed, steered, left in mid-word, asked again."""
    chance = random.Random(seed)

    def reply(request: Any) -> Any:
        return says(*(f"w{number} " for number in range(chance.randrange(1, 12))))

    async with door(tmp_path, reply) as (client, engine):

        async def talk(name: str) -> list[str]:
            said: list[str] = []
            streams: list[asyncio.Task[str]] = []
            for number in range(chance.randrange(2, 8)):
                words, once = f"{name}.{number}", f"{name}-{number}"
                how = chance.choice(["whole", "stream", "leave", "behind", "twice"])
                said.append(words)

                async def ask(words: str = words, once: str = once, how: str = how) -> str:
                    stream = await client.chat.completions.create(
                        model="role:dude",
                        messages=[user(words)],
                        stream=True,
                        extra_headers={"X-Conversation-Id": name, "Idempotency-Key": once},
                    )
                    text = ""
                    async for chunk in stream:
                        text += chunk.choices[0].delta.content or ""
                        if how == "leave" and text:
                            await stream.close()
                            break
                    return text

                if how == "behind":
                    streams.append(asyncio.create_task(ask()))
                elif how == "twice":
                    assert await ask() == await ask()
                else:
                    await ask()
            await asyncio.gather(*streams)
            return said

        spoken = await asyncio.gather(*(talk(f"c{number}") for number in range(12)))
        heard: list[str] = []
        for info in await engine.runs(limit=None):
            run = await engine.get(info.id)
            await run.settled()
            heard += [line.text for line in run.run.inbox.lines.values()]
        assert sorted(heard) == sorted(word for words in spoken for word in words)
        assert len(await engine.runs(limit=None)) == 12


def test_messages_are_sorted_out_once_however_many_they_are() -> None:
    asked = Asked(model="role:dude", messages=(Message("system", "Be."), Message("user", "Hi")))
    assert asked.said is asked.said
    assert [each.text for each in asked.said] == ["Hi"]

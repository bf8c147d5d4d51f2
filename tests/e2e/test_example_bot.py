"""The example `answer_in_channels.py`: any message steers its channel, and a killed bot goes on."""

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from deadline import DEADLINE_S
from examples_kit import EXAMPLES, loaded, started, surround
from support.openai_server import Call, Gate, OpenAIServer, Reply

import midstream

example = loaded("answer_in_channels")
ASKING = Call(name="request_users_input", arguments={"question": "Which season?"})


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        surround(monkeypatch, tmp_path, server)
        yield server


class Channels:
    """What a bot in this process posts; `is_down`: it can post nothing."""

    def __init__(self) -> None:
        self.posts: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.is_down = False

    async def send(self, channel: str, text: str) -> None:
        """Take a post."""
        if self.is_down:
            raise ConnectionError(text)
        await self.posts.put((channel, text))


@pytest.fixture
def channels() -> Channels:
    return Channels()


@contextlib.asynccontextmanager
async def bot_in(folder: Path, channels: Channels) -> AsyncIterator[Any]:
    """Give a bot as the program makes one."""
    async with (
        asyncio.timeout(DEADLINE_S),
        asyncio.TaskGroup() as tasks,
        midstream.open(folder, journal=folder / "bot.db", permissions="plan") as engine,
    ):
        bot = example.Bot(engine, channels.send, tasks, folder / "bot.json")
        await bot.on_ready()
        yield bot


def said(id: str, channel: str, text: str) -> Any:
    return example.Message(id, channel, text)


async def test_a_message_answers_the_open_question_of_its_channel(
    tmp_path: Path, models: OpenAIServer, channels: Channels
) -> None:
    models.add(Reply(calls=(ASKING,)), Reply(text="Hello."), Reply(text="Snow on my hat"))
    async with bot_in(tmp_path, channels) as bot:
        await bot.on_message(said("1", "#haiku", "A haiku, please!"))
        assert await channels.posts.get() == ("#haiku", "Which season?")
        await bot.on_message(said("2", "#other", "Hello!"))
        assert await channels.posts.get() == ("#other", "Hello.")

        await bot.on_message(said("3", "#haiku", "winter"))

        assert await channels.posts.get() == ("#haiku", "Snow on my hat")
        assert "winter" not in str(models.requests[1])
        names = {run.name for run in await bot.engine.runs()}
        assert names == {"#haiku", "#other"}


async def test_any_other_message_interrupts_what_its_channel_hears(
    tmp_path: Path, models: OpenAIServer, channels: Channels
) -> None:
    gate = Gate()
    models.add(Reply(chunks=("An old", " silent pond"), gate=gate), Reply(text="Snow on my hat"))
    async with bot_in(tmp_path, channels) as bot:
        await bot.on_message(said("1", "#haiku", "rain"))
        async for event in bot.chats["#haiku"].events():
            if isinstance(event, midstream.TextDelta):
                break
        await bot.on_message(said("2", "#haiku", "about snow, please"))

        assert await channels.posts.get() == ("#haiku", "An old ...")
        assert await channels.posts.get() == ("#haiku", "Snow on my hat")


async def test_a_message_that_is_delivered_twice_is_heard_once(
    tmp_path: Path, models: OpenAIServer, channels: Channels
) -> None:
    models.add(Reply(text="One."), Reply(text="Two."))
    for _ in range(2):
        async with bot_in(tmp_path, channels) as bot:
            await bot.on_message(said("1", "#count", "Count!"))
            await bot.chats["#count"].settled()
    assert len(models.requests) == 1
    assert channels.posts.get_nowait() == ("#count", "One.")


async def test_a_reply_that_could_not_be_posted_is_posted_by_the_next_bot(
    tmp_path: Path, models: OpenAIServer, channels: Channels
) -> None:
    models.add(Reply(text="One."), Reply(text="Two."))
    async with bot_in(tmp_path, channels) as bot:
        await bot.on_message(said("1", "#count", "Count!"))
        assert await channels.posts.get() == ("#count", "One.")

    async def without_a_network() -> None:
        channels.is_down = True
        async with bot_in(tmp_path, channels) as bot:
            await bot.on_message(said("2", "#count", "Go on!"))
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as raised:
        await without_a_network()
    assert raised.group_contains(ConnectionError, match="Two")

    channels.is_down = False
    async with bot_in(tmp_path, channels):
        assert await channels.posts.get() == ("#count", "Two.")
    assert channels.posts.empty()


async def test_a_chat_that_somebody_ended_is_followed_by_another(
    tmp_path: Path, models: OpenAIServer, channels: Channels
) -> None:
    models.add(Reply(text="One."), Reply(text="Two."), Reply(text="Three."))
    async with bot_in(tmp_path, channels) as bot:
        for number, reply in enumerate(("One.", "Two.")):
            await bot.on_message(said(str(number), "#count", "Count!"))
            assert await channels.posts.get() == ("#count", reply)
            await bot.chats["#count"].stop()
    async with bot_in(tmp_path, channels) as bot:
        await bot.on_message(said("3", "#count", "Count!"))
        assert await channels.posts.get() == ("#count", "Three.")


@pytest.fixture
def start(tmp_path: Path, models: OpenAIServer) -> Iterator[Any]:
    with contextlib.ExitStack() as closing:

        def program() -> "subprocess.Popen[str]":
            file = str(EXAMPLES / "answer_in_channels.py")
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            process = started(tmp_path, "-W", "error", file, models=models, **pipes)
            closing.enter_context(process)
            closing.callback(process.kill)
            return process

        yield program


def test_a_killed_bot_goes_on_in_mid_sentence_and_repeats_nothing(
    models: OpenAIServer, start: Any
) -> None:
    gate = Gate()
    models.add(Reply(text="Hello."), Reply(text="An old silent pond", gate=gate))
    models.add(Reply(text="A frog leaps in"), Reply(text="Snow on my hat"))
    first = start()
    print("#haiku Hello!", file=first.stdin, flush=True)
    assert first.stdout.readline() == "#haiku Hello.\n"
    print("#haiku A haiku, please!", file=first.stdin, flush=True)
    gate.reached.wait()
    first.send_signal(signal.SIGKILL)
    first.wait()

    second = start()
    assert second.stdout.readline() == "#haiku A frog leaps in\n"
    print("#haiku and in winter?", file=second.stdin, flush=True)
    assert second.stdout.readline() == "#haiku Snow on my hat\n"
    rest, _ = second.communicate()

    assert (rest, second.returncode) == ("", 0)
    assert [m["content"] for m in models.requests[-1]["messages"][-2:]] == [
        "A frog leaps in",
        "and in winter?",
    ]

"""A bot in channels: any message steers its channel's chat, or answers the question that is open there.

    $ python examples/answer_in_channels.py
    #garden a haiku about rain, please

`Terminal` stands for the network. With discord.py, a `Client` calls `on_ready` and `on_message`, and
`send` is that of a channel. A bot that was killed goes on with its chats when it starts again. What was
said meanwhile is posted then; the last post comes twice if it was killed right after it. A message
that is delivered twice, as networks do, is heard once.
"""

import asyncio
import contextlib
import json
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import midstream

Send = Callable[[str, str], Awaitable[None]]
"""Posts the bot's words: (channel, text)."""


class Message(NamedTuple):
    """What somebody wrote. Its id is the network's."""

    id: str
    channel: str
    text: str


class Place(NamedTuple):
    """The run that talks in a channel, and the number of its last event that was posted there."""

    run: str
    posted: int = 0


class Bot:
    """One chat a channel. `file` keeps which, and how much of it is posted."""

    def __init__(
        self, engine: midstream.Engine, send: Send, tasks: asyncio.TaskGroup, file: Path
    ) -> None:
        self.engine, self.send, self.tasks, self.file = engine, send, tasks, file
        kept = json.loads(file.read_text()) if file.exists() else {}
        self.places = {channel: Place(*place) for channel, place in kept.items()}
        self.chats: dict[str, midstream.RunHandle] = {}
        self.one_at_a_time = asyncio.Lock()

    async def on_ready(self) -> None:
        """Go on where the last bot ended."""
        for channel, place in self.places.items():
            with contextlib.suppress(midstream.UserMistake):  # it has ended: the next one begins
                self.listen(channel, await self.engine.resume(place.run))

    async def on_message(self, message: Message) -> None:
        """Say it to the channel's chat, which begins with the first message."""
        async with self.one_at_a_time:
            chat = self.chats.get(message.channel)
            if chat is None or chat.run.is_over:
                chat = await self.engine.start("role:dude")
                await chat.rename(message.channel)  # so `midstream runs` shows whose it is
                self.keep(message.channel, Place(chat.id))
                self.listen(message.channel, chat)
            await chat.say(message.text, id=message.id)

    def listen(self, channel: str, chat: midstream.RunHandle) -> None:
        """Let what the chat says be heard in the channel."""
        self.chats[channel] = chat
        self.tasks.create_task(self.post(channel, chat))

    async def post(self, channel: str, chat: midstream.RunHandle) -> None:
        """Post replies, questions, what was cut, and what went wrong."""
        async for each in chat.numbered(self.places[channel].posted, transient=False):
            match each.event:
                case (
                    midstream.AgentResponded(text=words)
                    | midstream.QuestionAsked(text=words)
                    | midstream.AgentFailed(error=words)
                ) if words:
                    await self.send(channel, words)
                case midstream.Interrupted(partial=words) if words:
                    await self.send(channel, f"{words} ...")
                case _:
                    continue
            if self.chats[channel] is chat:
                self.keep(channel, Place(chat.id, each.seq or 0))

    def keep(self, channel: str, place: Place) -> None:
        """Write down how far the channel is."""
        self.places[channel] = place
        written = self.file.with_suffix(".new")
        written.write_text(json.dumps(self.places))
        written.replace(self.file)


class Terminal:
    """A chat network of one person: lines such as `#garden hello`, in and out."""

    async def messages(self) -> AsyncIterator[Message]:
        """Yield what is typed, until its end."""
        while line := await asyncio.to_thread(sys.stdin.readline):
            channel, _, text = line.strip().partition(" ")
            yield Message(uuid.uuid4().hex, channel, text)

    async def send(self, channel: str, text: str) -> None:
        """Print it."""
        print(channel, text, flush=True)


async def main() -> None:
    """Be the bot until the input ends (Ctrl-D)."""
    terminal = Terminal()
    async with (
        asyncio.TaskGroup() as tasks,
        midstream.open(journal="bot.db", trust=False, permissions="plan") as engine,
    ):  # the engine closes first, which ends the tasks
        bot = Bot(engine, terminal.send, tasks, Path("bot.json"))
        await bot.on_ready()
        async for message in terminal.messages():
            await bot.on_message(message)


if __name__ == "__main__":
    asyncio.run(main())

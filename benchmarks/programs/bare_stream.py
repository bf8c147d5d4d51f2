"""A reply streamed to a terminal with nothing around it: the floor of ours.

Enter cancels the reply and asks for the next one. No prompt, no editor, no history: the words of the
stream are written as they come. The server is that of OPENAI_BASE_URL.
"""

import asyncio
import os
import sys
import termios
import tty

from openai import AsyncOpenAI


async def answer(client: AsyncOpenAI) -> None:
    """Ask, and write the reply as it streams."""
    stream = await client.chat.completions.create(
        model="bench", messages=[{"role": "user", "content": "go on"}], stream=True
    )
    async with stream:
        async for chunk in stream:
            if chunk.choices:
                sys.stdout.write(chunk.choices[0].delta.content or "")
                sys.stdout.flush()


async def main() -> None:
    """Answer anew at each Enter, until the terminal is gone."""
    keys: asyncio.Queue[bytes] = asyncio.Queue()
    asyncio.get_running_loop().add_reader(0, lambda: keys.put_nowait(os.read(0, 100)))
    reply: asyncio.Task[None] | None = None
    async with AsyncOpenAI() as client:
        sys.stdout.write("›")
        sys.stdout.flush()
        while pressed := await keys.get():
            if b"\r" not in pressed:
                continue
            if reply is not None:
                reply.cancel()
                await asyncio.wait((reply,))
            reply = asyncio.create_task(answer(client))


if __name__ == "__main__":
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        asyncio.run(main())
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)

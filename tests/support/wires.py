"""Bytes from one end of a connection to the other, without a descriptor."""

import asyncio


class Wire(asyncio.StreamReader):
    """What is written comes out at the other end. There is always room."""

    def write(self, data: bytes) -> None:
        """Take bytes."""
        if data and not self.at_eof():
            self.feed_data(data)

    async def drain(self) -> None:
        """Let the other end run."""
        await asyncio.sleep(0)

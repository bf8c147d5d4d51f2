"""Of all pictures of a long chat a request has as many as providers take, the newest."""

import hashlib

from support.pictures import png

from midstream.core.conversation import Message
from midstream.core.pictures import MAX_BYTES, MOST, Picture, picture_of
from midstream.runtime.pictures import MAX_SHOWN_BYTES, with_contents
from midstream.runtime.ports import ModelRequest
from midstream.testing.fakes import FakeBlobStore


class CountingBlobs(FakeBlobStore):
    """A blob store that knows what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    async def get(self, key: str) -> bytes:
        self.read.append(key)
        return await super().get(key)


async def kept(blobs: FakeBlobStore, width: int, size: int) -> Picture:
    data = png(width, 6)
    data = data[:-12] + b"\0" * max(0, size - len(data)) + data[-12:]
    assert await blobs.put(data) == hashlib.sha256(data).hexdigest()
    return picture_of(data, hashlib.sha256(data).hexdigest(), "")


async def shown_of(blobs: FakeBlobStore, pictures: list[Picture]) -> list[Picture]:
    messages = tuple(Message(role="user", text="look", pictures=(each,)) for each in pictures)
    request = await with_contents(
        ModelRequest(agent="dude", system="", messages=messages, tools=()), blobs
    )
    assert request.pictures is not None
    return [each for each in dict.fromkeys(pictures) if each.key in request.pictures]


async def test_the_newest_are_shown_and_no_others_are_read() -> None:
    blobs = CountingBlobs()
    pictures = [await kept(blobs, 1 + n, 0) for n in range(MOST + 5)]

    assert await shown_of(blobs, pictures) == pictures[-MOST:]
    assert len(blobs.read) == MOST
    assert await shown_of(blobs, [*pictures, pictures[0]]) == [pictures[0], *pictures[1 - MOST :]]


async def test_large_ones_are_shown_as_far_as_a_request_holds_them() -> None:
    blobs = FakeBlobStore()
    pictures = [await kept(blobs, 1 + n, MAX_BYTES) for n in range(8)]

    assert await shown_of(blobs, pictures) == pictures[-(MAX_SHOWN_BYTES // MAX_BYTES) :]

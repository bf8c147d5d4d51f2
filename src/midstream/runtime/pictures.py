"""Pictures on their way: from a person's words and a tool's result into the blob store, and to a model.

What a line mentions is kept before the line is said, and what a tool looked at before its call ends. So
a journal that names a picture was written after the picture was safe.
"""

import hashlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice

import msgspec

from midstream.core.mentions import mentioned
from midstream.core.pictures import (
    BEGINNING,
    MAX_BYTES,
    MOST,
    Picture,
    is_picture,
    mark_of,
    marked,
    picture_of,
)
from midstream.language.errors import MidstreamError, UserMistake
from midstream.runtime.ports import BlobStore, ModelRequest, World
from midstream.safety.capability import forbids_secrets
from midstream.system.offloop import in_thread
from midstream.system.workspace_paths import first_bytes, locate, read_in_slices, require_allowed


async def with_pictures(
    text: str, world: World, known: Collection[str] = ()
) -> tuple[str, tuple[Picture, ...]]:
    """Return words with marks for the pictures of the workspace they mention, and the pictures they show.

    Those are the ones that were mentioned, and those that marks in the words mean: of what was pasted into
    them, say, but for the `known`, by their ids. A mention of anything else stays the words it is.

    Raises:
        UserMistake: a picture that is mentioned cannot be shown, or they are too many.
        JournalFull: there is no room for one.
    """
    found = [*islice(mentioned(text), 10 * MOST)] if "@" in text else []
    marks = marked(text)
    if not found and not marks:
        return text, ()
    shown = await _kept_of(marks, world.blobs, known)
    parts: list[str] = []
    end = 0
    for start, stop, path in found:
        data = await in_thread(partial(_picture_at, path, world))
        if data is None:
            continue
        picture = await kept_picture(data, path, world.blobs)
        shown[picture.id] = picture
        parts += [text[end:start], mark_of(picture)]
        end = stop
    if len(shown) > MOST:
        raise UserMistake(
            f"The line shows {len(shown)} pictures; it may show {MOST}.", hint="Show fewer at once."
        )
    return "".join((*parts, text[end:])), tuple(shown.values())


def _picture_at(path: str, world: World) -> bytes | None:
    """Return what a file of the workspace holds that is a picture by its first bytes, else None.

    Raises:
        UserMistake: it is too large to be shown.
        WorldTrouble: it cannot be read.
    """
    try:
        place = locate(world.workspace, path)
        require_allowed(place, "read", forbids_secrets)
        # What is no picture, or no file for agents, stays words: they hear so if they open it.
        if not is_picture(first_bytes(place, BEGINNING)):
            return None
    except (MidstreamError, OSError, ValueError):
        return None
    return bytes(read_in_slices(place, max_bytes=MAX_BYTES))


async def _kept_of(
    marks: Mapping[str, str], blobs: BlobStore, known: Collection[str]
) -> dict[str, Picture]:
    """Return the pictures that marks mean, by their ids, as far as they are kept."""
    shown: dict[str, Picture] = {}
    for id, name in [*marks.items()][: MOST + 1]:
        if id not in known:
            with suppress(MidstreamError):
                data = await blobs.get(id)
                shown[id] = picture_of(data, hashlib.sha256(data).hexdigest(), name)
    return shown


async def kept_picture(data: bytes, name: str, blobs: BlobStore) -> Picture:
    """Return what is written down of a picture, which is kept by then.

    Raises:
        UserMistake: it cannot be shown to a model.
        JournalFull: there is no room for it.
    """
    picture_of(data, "", name)  # Nothing is kept that cannot be shown.
    return picture_of(data, await blobs.put(data), name)


async def kept_pictures(pictures: Mapping[str, bytes], blobs: BlobStore) -> tuple[Picture, ...]:
    """Return what is written down of the pictures of a tool's result, by their names.

    Raises:
        UserMistake: one cannot be shown to a model.
        JournalFull: there is no room for one.
    """
    return tuple([await kept_picture(data, name, blobs) for name, data in pictures.items()])


MAX_SHOWN_BYTES = 20_000_000
"""What the pictures of one request may have: as text some 27 MB, where providers take 32."""


async def with_contents(request: ModelRequest, blobs: BlobStore) -> ModelRequest:
    """Return a request with the bytes of the pictures in it, as far as they are kept.

    The newest `MOST` of them, and of `MAX_SHOWN_BYTES`: providers refuse a request with more, and would
    refuse it again whatever is said next.
    """
    pictures: dict[str, Picture] = {}
    # No call for each message: a long chat has thousands, and this is done with every request.
    for message in request.messages:
        for picture in message.pictures:
            pictures.pop(picture.key, None)
            pictures[picture.key] = picture
        for result in message.results:
            for picture in result.pictures:
                pictures.pop(picture.key, None)
                pictures[picture.key] = picture
    if not pictures:
        return request
    contents: dict[str, bytes] = {}
    left = MAX_SHOWN_BYTES
    for key in [*reversed(pictures)][:MOST]:
        left -= pictures[key].size
        if left < 0:
            break
        try:
            data = await blobs.get(key)
        except MidstreamError:
            continue
        # A journal from elsewhere may name the key of anything.
        if len(data) <= MAX_BYTES and is_picture(data):
            contents[key] = data
    return msgspec.structs.replace(request, pictures=contents)

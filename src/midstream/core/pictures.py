"""Pictures: told by their bytes, kept under a key, and named in words by a mark.

What a person shows, and what a tool looks at, is kept beside the journal; facts hold its key, kind and
size (`Picture`). In words it stands as a mark, `[image 3fa9c1d2: shot.png 640x480]`, which begins with
the beginning of its key: so it goes where words go, through a handler, a template or a question, and
says the same in a history, after an undo and in another process. Only a picture the run was shown can
be meant by a mark: what merely looks like one is words.

Nobody decodes a picture here. Its kind and size are read off its first bytes, and whether it is whole
off its last: providers answer a broken one with an error, again with every request.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from midstream.language.errors import UserMistake

MAX_BYTES: Final = 3_750_000
"""What one picture may have: as text in a request that is 5 MB, the least of what providers take."""

MAX_SIDE: Final = 8_000
"""The pixels a side may have: what is larger, providers refuse."""

MOST: Final = 20
"""The pictures of one line."""

LENGTH: Final = 6_400
"""The characters a picture counts as where the size of a conversation is guessed: some 1,600 tokens."""

ID_DIGITS: Final = 8
_MARK: Final = re.compile(rf"\[image ([0-9a-f]{{{ID_DIGITS}}}): ([^\[\]\n]*)\]")
_NOT_IN_NAMES: Final = re.compile(r"[^\w.,;()+=@%~ -]+")
_MAX_NAME: Final = 60
_MARK_AT_END: Final = re.compile(rf"{_MARK.pattern}\Z")


class Picture(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """A picture that is kept: `key` is the SHA-256 of its bytes, in hex, `media` such as `image/png`.

    `size` is in bytes, `width` and `height` in pixels.
    """

    key: str
    media: str
    size: int
    width: int
    height: int
    name: str = ""

    @property
    def id(self) -> str:
        """Return what it is called in a mark: the beginning of its key."""
        return self.key[:ID_DIGITS]


def picture_of(data: bytes, key: str, name: str) -> Picture:
    """Return what is written down of a picture with these bytes.

    Raises:
        UserMistake: it is none that can be shown to a model.
    """
    media, width, height = kind_of(data, name)
    return Picture(
        key=key,
        media=media,
        size=len(data),
        width=width,
        height=height,
        name=plain_name(name),
    )


def plain_name(path: str) -> str:
    """Return the last part of a path as it may stand in a mark: nothing that hides or reorders."""
    name = _NOT_IN_NAMES.sub("_", path.rpartition("/")[2]).strip()
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 8]}~{name[-7:]}"


def mark_of(picture: Picture) -> str:
    """Return how a picture stands in words."""
    name = f"{picture.name} " if picture.name else ""
    return f"[image {picture.id}: {name}{picture.width}x{picture.height}]"


def about(picture: Picture) -> str:
    """Return a picture's mark, kind and size, for a person."""
    kind = picture.media.rpartition("/")[2].upper()
    return f"{mark_of(picture)} {kind}, {picture.size:,} bytes"


def marked(text: str) -> dict[str, str]:
    """Return the ids of the pictures that marks in a text may mean, in order, each with its name there."""
    if "[image " not in text:
        return {}
    return {found[1]: found[2].rpartition(" ")[0] for found in _MARK.finditer(text)}


def mark_before(text: str) -> str:
    """Return the mark a text ends with, "" if none."""
    found = _MARK_AT_END.search(text)
    return found[0] if found else ""


def pictures_in(text: str, known: Mapping[str, Picture]) -> tuple[Picture, ...]:
    """Return the known pictures that a text means, in its order."""
    return tuple(known[id] for id in marked(text) if id in known) if known else ()


def by_id(pictures: Iterable[Picture]) -> dict[str, Picture]:
    """Return pictures by what marks call them."""
    return {picture.id: picture for picture in pictures}


# --- what bytes are ------------------------------------------------------------------------------

BEGINNINGS: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"RIFF")
"""How the files of the four kinds begin. A RIFF may hold something else."""

BEGINNING: Final = 12
"""How many bytes of a file tell whether it is one."""

_HINT: Final = "PNG, JPEG, GIF and WebP can be shown."


def is_picture(data: bytes) -> bool:
    """Return whether bytes begin as a picture does that can be shown."""
    if data[:4] == b"RIFF":
        return data[8:12] == b"WEBP"
    return data.startswith(BEGINNINGS)


def no_picture(name: str) -> UserMistake:
    """Return the error for a file that is none, whatever it is called."""
    return UserMistake(f"{plain_name(name)} is no picture, by its contents.", hint=_HINT)


def kind_of(data: bytes, name: str) -> tuple[str, int, int]:
    """Return the media type, width and height of a picture, whatever it is called.

    Raises:
        UserMistake: it is none, cut off, or too large to be shown.
    """
    name = plain_name(name) or "It"
    if len(data) > MAX_BYTES:
        raise UserMistake(
            f"{name} has {len(data):,} bytes; a picture may have {MAX_BYTES:,}.",
            hint="Make it smaller, or save it as JPEG.",
        )
    if not is_picture(data):
        raise no_picture(name)
    try:
        media, width, height, is_whole = _measured(data)
    except IndexError:
        is_whole, width, height, media = False, 1, 1, ""
    if not is_whole or min(width, height) < 1:
        raise UserMistake(f"{name} is damaged, or not all of it is there.", hint=_HINT)
    if max(width, height) > MAX_SIDE:
        raise UserMistake(
            f"{name} says it has {width:,} x {height:,} pixels; a side may have {MAX_SIDE:,}.",
            hint="Make it smaller.",
        )
    return media, width, height


def _measured(data: bytes) -> tuple[str, int, int, bool]:
    """Return the media type, width, height, and whether all of it is there."""
    if data[:4] == b"\x89PNG":
        is_whole = data[12:16] == b"IHDR" and data[-8:-4] == b"IEND"
        return "image/png", _number(data, 16, 4), _number(data, 20, 4), is_whole
    if data[:3] == b"GIF":
        size = _number(data, 6, 2, is_little=True), _number(data, 8, 2, is_little=True)
        return "image/gif", *size, data[-1:] == b";"
    if data[:4] == b"RIFF":
        is_whole = _number(data, 4, 4, is_little=True) + 8 <= len(data)
        return "image/webp", *_webp_size(data), is_whole
    return "image/jpeg", *_jpeg_size(data), b"\xff\xd9" in data[-1024:]


def _number(data: bytes, at: int, count: int, *, is_little: bool = False) -> int:
    part = data[at : at + count]
    if len(part) < count:
        raise IndexError
    return int.from_bytes(part, "little" if is_little else "big")


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        return _number(data, 24, 3, is_little=True) + 1, _number(data, 27, 3, is_little=True) + 1
    if kind == b"VP8L":
        bits = _number(data, 21, 4, is_little=True)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = (_number(data, at, 2, is_little=True) for at in (26, 28))
        return width & 0x3FFF, height & 0x3FFF
    raise IndexError


_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Return width and height, from the first frame that says so."""
    at = 2
    while True:
        if data[at] != 0xFF:
            raise IndexError
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _FRAMES:
            return _number(data, at + 7, 2), _number(data, at + 5, 2)
        else:
            at += 2 + max(_number(data, at + 2, 2), 2)

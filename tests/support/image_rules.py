"""What every provider asks of a picture in a request: its bytes are what they are said to be."""

import base64
import binascii

_BEGINS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


def image_problem(media: str, data: str, *, max_bytes: int) -> str:
    """Return what is wrong with a picture's data, \"\" where a provider takes it."""
    if media not in _BEGINS:
        return f"{media!r} is not supported"
    try:
        content = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        return f"invalid base64: {error}"
    if len(content) > max_bytes:
        return f"image exceeds {max_bytes} bytes"
    return "" if content.startswith(_BEGINS[media]) else f"the image is no {media}"

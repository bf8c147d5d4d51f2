"""A prompt of an editor as the words it is: files are named by `@path`, what comes along stands behind."""

import base64
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from midstream.agents import acp_messages as m
from midstream.core.mentions import mention_of
from midstream.language.errors import UserMistake
from midstream.system.offloop import in_thread
from midstream.views.transcript import fenced

Keep: TypeAlias = Callable[[bytes, str], Awaitable[str]]
"""Keeps a picture, and returns the mark that stands for it in words."""


async def words_of(blocks: Sequence[m.ContentBlock], cwd: str, *, keep: Keep | None) -> str:
    """Return what a prompt says. Files of the folder are mentions; embedded texts follow the words.

    Args:
        blocks: the prompt.
        cwd: the folder of the session.
        keep: keeps pictures; None leaves them out, and says so in their place.

    Raises:
        UserMistake: one cannot be shown to a model.
    """
    words: list[str] = []
    behind: list[str] = []
    for block in blocks:
        match block:
            case m.TextContent():
                words.append(block.text)
            case m.ResourceLink():
                words.append(_named(block.uri, cwd))
            case m.EmbeddedResource(resource=held) if held.text is not None:
                name = _named(held.uri, cwd)
                words.append(name)
                behind.append(f"{name}:\n{fenced(held.text)}")
            case m.EmbeddedResource(resource=held):
                words.append(_named(held.uri, cwd))
            case m.ImageContent() if keep is not None:
                name = PurePosixPath(urlsplit(block.uri or "").path).name
                words.append(await keep(await in_thread(partial(_decoded, block.data)), name))
            case m.ImageContent() | m.AudioContent():
                words.append("[a picture or sound that was left out]")
    return "\n\n".join(("".join(words), *behind))


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        raise UserMistake(
            "The picture is no base64.", hint="Send it again, or as a file."
        ) from None


def _named(uri: str, cwd: str) -> str:
    """Return a file as a mention, from the folder where it is in it; any other address as it is."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return uri
    path = PurePosixPath(unquote(parts.path))
    if path.is_relative_to(cwd):
        path = path.relative_to(cwd)
    return mention_of(str(path))

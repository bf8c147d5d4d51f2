"""A prompt of an editor as the words it is: files are named by `@path`, what comes along stands behind."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from midstream.agents import acp_messages as m
from midstream.core.mentions import mention_of
from midstream.views.transcript import fenced


def words_of(blocks: Sequence[m.ContentBlock], cwd: str) -> str:
    """Return what a prompt says. Files of the folder are mentions; embedded texts follow the words."""
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
            case m.ImageContent() | m.AudioContent():
                words.append("[left out: neither a picture nor a sound comes through an editor]")
    return "\n\n".join(("".join(words), *behind))


def _named(uri: str, cwd: str) -> str:
    """Return a file as a mention, from the folder where it is in it; any other address as it is."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return uri
    path = PurePosixPath(unquote(parts.path))
    if path.is_relative_to(cwd):
        path = path.relative_to(cwd)
    return mention_of(str(path))

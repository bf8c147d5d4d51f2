"""Commands people write: `commands/NAME.md` of the user, and of a workspace as it was trusted."""

import re
from collections.abc import Collection
from typing import Final

import msgspec

from midstream.config.manager import ConfigManager, Layer
from midstream.config.private_files import shown_path
from midstream.language.role_text import head_of
from midstream.safety.sanitize import sanitized

MAX_TEXT: Final = 32_000
"""Characters a command may send."""

_NAME: Final = re.compile(r"\w[\w-]{0,59}")
_MAX_LINE: Final = 200


class WrittenCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that sends a text. `arguments` and `description` are for `/help`, `role` who hears it.

    `role` is "" where it is whoever lines go to. `allowed_tools` only narrows which of the commands in
    its text may be run at all; None: all that the policy lets.
    """

    name: str
    text: str
    description: str = ""
    arguments: str = ""
    role: str = ""
    allowed_tools: str | None = None
    layer: Layer
    plugin: str = ""


def written_commands(
    config: ConfigManager, taken: Collection[str] = ()
) -> dict[str, WrittenCommand]:
    """Return every written command by name; a later layer's replaces an earlier one's of its name.

    One of a plugin replaces none, nor one of those `taken`: it is `plugin:name` then. What is wrong with a
    file is a notice, and the file is ignored. Waits for the disk.
    """
    found: dict[str, WrittenCommand] = {}
    for layer, path in config.files("commands", ".md"):
        name = path.stem.casefold()
        if not _NAME.fullmatch(name):
            config.notice(
                f"{shown_path(path)} is ignored: a command's name is letters, digits, - and _."
            )
            continue
        parsed = config.parsed(path, _parts)
        if parsed is None:
            continue
        head, text = parsed
        name = config.free_name(name, path, {*found, *taken})
        if not text or len(text) > MAX_TEXT:
            why = "has no text" if not text else f"has more than {MAX_TEXT:,} characters"
            config.notice(f"{shown_path(path)} {why}; it is ignored.")
            continue
        found[name] = WrittenCommand(
            name=name,
            text=text,
            description=head.get("description", ""),
            arguments=head.get("argument-hint", ""),
            role=head.get("role", ""),
            allowed_tools=head.get("allowed-tools"),
            layer=layer,
            plugin=config.plugin_of(path) if layer == "plugin" else "",
        )
    return found


def _parts(text: str, _file: str) -> tuple[dict[str, str], str]:
    """Return a file's head and its text, both harmless to show."""
    head, below = head_of(text)
    plain = {key: " ".join(sanitized(value).split())[:_MAX_LINE] for key, value in head.items()}
    return plain, sanitized(below).strip()

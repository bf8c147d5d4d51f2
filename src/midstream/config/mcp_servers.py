"""mcpServers: the MCP servers that application.json names, as other programs write them too.

A user's own file says what may be started; a workspace's only proposes it. Reading starts nothing.
"""

import os
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from midstream.config.manager import ConfigManager
from midstream.config.private_files import shown_path
from midstream.language.errors import clip
from midstream.language.json_text import Node
from midstream.language.problem import Problem, Report
from midstream.language.shape import fit, read_file
from midstream.safety.redaction import secret_values

SERVERS: Final = "mcpServers"
MAX_SERVERS: Final = 32
NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-]{0,23}")
"""What a server may be called: its name is part of the names of its tools, which models repeat."""

Source: TypeAlias = Literal["user", "workspace"]

_WORDS: Final = 4_000
_LONGEST_S: Final = 3_600.0
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,100}")
_OWN: Final = ("passEnv", "trustAnnotations")
"""What a workspace may not say: it would name secrets of the person's, or trust itself."""


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server as it is to be reached: by its `command` (an argv), or at its `url`.

    `env` is what its environment has besides a few harmless names, `passed` are the names of
    variables of the person's own environment it gets too; with a `url`, values of `headers` may name
    such variables as `${NAME}` (never those of a workspace). `cwd` is where it runs; "" for a folder
    that belongs to nobody else.
    """

    name: str
    source: Source = "user"
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    passed: tuple[str, ...] = ()
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    timeout_s: float = 60.0
    start_timeout_s: float = 60.0
    trusts_annotations: bool = False


def mcp_servers(config: ConfigManager) -> tuple[dict[str, McpServer], tuple[Problem, ...]]:
    """Return the servers of the user's file and of a trusted workspace's, and what is wrong there.

    Of two with one name the user's counts.
    """
    found: dict[str, McpServer] = {}
    problems: list[Problem] = []
    for source, path, text in config.settings_files():
        servers, wrong = read_servers(text, file=shown_path(path), source=source)
        problems += wrong
        for name, server in servers.items():
            found.setdefault(name, server)
    return found, tuple(problems)


def read_servers(
    text: str, *, file: str, source: Source
) -> tuple[dict[str, McpServer], tuple[Problem, ...]]:
    """Return the servers of a file's text by name, and its problems. One with a problem is left out.

    Problems of the file outside `mcpServers` are not told here.
    """
    root, report = read_file(text, file)
    node = None if root is None else root.get(SERVERS)
    if node is None or report.problems:
        return {}, ()
    if node.kind != "object":
        report.error(node, 'expected an object {"NAME": {"command": ...}}.')
        return {}, report.problems
    found: dict[str, McpServer] = {}
    for name, member in node.members.items():
        if not NAME.fullmatch(name):
            words = "up to 24 letters, digits and dashes"
            report.error(member, f'"{clip(name)}" cannot be a server: {words}; ignored.')
        elif len(found) >= MAX_SERVERS:
            report.error(member, f"more than {MAX_SERVERS} servers; ignored.")
        else:
            server = _server(name, member.node, source, report)
            if server is not None:
                found[name] = server
    return found, report.problems


def _server(name: str, node: Node, source: Source, report: Report) -> McpServer | None:
    if node.kind != "object":
        report.error(node, 'expected an object {"command": ...} or {"url": ...}.')
        return None
    parts: dict[str, Any] = {}
    is_whole = True
    for key, member in node.members.items():
        if key not in _WANTED:
            hint = report.near(key, tuple(_WANTED))
            report.error(member, f'there is no "{clip(key)}" here; ignored.', hint)
        elif source == "workspace" and key in _OWN:
            report.error(member, f'a workspace may not set "{key}"; ignored.', _OWN_HINT)
        elif _fits(key, member.node, source, report):
            parts[key] = member.node.value
        else:
            is_whole = False
    if not is_whole or parts.get("disabled"):
        return None
    if ("command" in parts) == ("url" in parts):
        report.error(node, 'expected either a "command" or a "url".')
        return None
    for key in ("type", "disabled"):
        parts.pop(key, None)
    args = parts.pop("args", ())
    command = (parts.pop("command"), *args) if "command" in parts else ()
    given: dict[str, Any] = {
        _FIELDS.get(key, key): tuple(value) if isinstance(value, list) else value
        for key, value in parts.items()
    }
    return McpServer(name=name, source=source, command=command, **given)


_OWN_HINT = "Set it in your own application.json."
_FIELDS = {
    "passEnv": "passed",
    "timeoutSeconds": "timeout_s",
    "startTimeoutSeconds": "start_timeout_s",
    "trustAnnotations": "trusts_annotations",
}
"""What a server calls those of its parts that have other names in a file."""

_WANTED: dict[str, Any] = {
    "type": Literal["stdio", "http", "streamable-http"],
    "command": str,
    "args": tuple[str, ...],
    "env": dict[str, str],
    "passEnv": tuple[str, ...],
    "cwd": str,
    "url": str,
    "headers": dict[str, str],
    "timeoutSeconds": float,
    "startTimeoutSeconds": float,
    "trustAnnotations": bool,
    "disabled": bool,
}


def _fits(key: str, node: Node, source: Source, report: Report) -> bool:
    if not fit(node, _WANTED[key], report):
        return False
    wrong = _wrong(key, node.value, source)
    if wrong:
        report.error(node, wrong)
    return not wrong


def _wrong(key: str, value: Any, source: Source) -> str:
    """Return what is wrong with the value of a key whose type is right, "" if nothing is."""
    match key:
        case "command" | "cwd":
            is_right = value.strip() and _is_word(value)
            return "" if is_right else "expected text without control characters."
        case "args":
            return "" if all(map(_is_word, value)) else "expected text without control characters."
        case "env":
            is_right = all(map(_VARIABLE.fullmatch, value)) and all(map(_is_word, value.values()))
            return "" if is_right else 'expected variables such as {"NAME": "value"}.'
        case "passEnv":
            return "" if all(map(_VARIABLE.fullmatch, value)) else "expected names of variables."
        case "headers":
            return _wrong_headers(value, source)
        case "url":
            return _wrong_url(value)
        case "timeoutSeconds" | "startTimeoutSeconds":
            return "" if 0.01 <= value <= _LONGEST_S else "expected a number from 0.01 to 3600."
        case _:
            return ""


def _wrong_headers(headers: Mapping[str, str], source: Source) -> str:
    if not all(map(_HEADER.fullmatch, headers)) or not all(map(_is_word, headers.values())):
        return 'expected headers such as {"Authorization": "Bearer ${TOKEN}"}.'
    if source == "workspace" and any("${" in value for value in headers.values()):
        return "a workspace may not name variables of your environment."
    return ""


def _wrong_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or not _is_word(url) or not url.isascii() or " " in url:
        return "expected an address such as https://host/mcp."
    if "@" in parts.netloc:
        return "an address may hold no name and password: use headers."
    return ""


def _is_word(text: str) -> bool:
    return len(text) <= _WORDS and text.isprintable()


def secrets_of(server: McpServer) -> dict[str, str]:
    """Return the secret values that the settings give to a server, in the ways they are written.

    Those of the person's environment are not among them: they are known as secrets anyway.
    """
    named = {
        f"{name}_TOKEN": value.removeprefix("Bearer ")
        for name, value in server.headers.items()
        if "${" not in value
    }
    return secret_values({**server.env, **named})


def filled(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Return a header's value with `${NAME}` as the environment has it, "" where it has none."""
    env = os.environ if environ is None else environ
    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", lambda found: env.get(found[1], ""), text)

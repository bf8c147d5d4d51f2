"""What a person should know of a workspace's files before they say yes to them.

Nothing here is acted on: files are read as bytes, JSON is decoded to name what it would switch on, and
everything comes out as plain text that still has to be sanitized where it is shown.
"""

import difflib
import re
from collections.abc import Iterator
from importlib.machinery import all_suffixes
from typing import Final

from midstream.config.directories import OTHERS_FOLDER, SETTINGS
from midstream.config.trust import AGENTS, TrustStatus, TrustStore, is_below, session_grant
from midstream.language.command_text import runs_commands
from midstream.language.errors import MidstreamError
from midstream.language.json_text import Node, parse
from midstream.language.names import REQUEST_USERS_INPUT
from midstream.language.role_text import SUFFIXES, as_json, is_role

MAX_LINES: Final = 400
"""Lines of one difference that are shown; the rest is counted."""

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000e0000-\U000e0fff]"
)
_CODE: Final = "Python code, which runs with your rights"
_CODE_MAY: Final = (
    "! No sandbox, permission mode or rule holds Python code: it has your files, network and keys."
)
_LISTED: Final = 12


def enables(name: str, data: bytes) -> tuple[str, ...]:
    """Return what a file of `.midstream/` would switch on, in words, one line each.

    `name` is relative to `.midstream`, with slashes.
    """
    text = data.decode("utf-8", "replace")
    found: list[str] = []
    folder = _inside(name).partition("/")[0]
    if name == AGENTS:
        found.append("words that every role for code is told to follow")
    elif is_below(name):
        found.append("words that roles for code are told to follow where they work in its folder")
    elif folder == "commands":
        command = name.rpartition("/")[2].removesuffix(".md")
        does = "its words are sent as yours when you type it"
        if runs_commands(text):
            does += ", and commands in them are run, as an agent's are"
        found.append(f"the command /{command}: {does}")
    elif folder == "hooks":
        found.append("a file that hooks use, in the sandbox")
        hooks = parse(text).root if name == "hooks/hooks.json" else None
        if hooks is not None and hooks.get("hooks") is not None:
            found += (f"of a plugin: {each}" for each in _of_hooks(hooks.members["hooks"].node))
    elif folder == "skills":
        is_skill = name.endswith("/SKILL.md")
        found.append("a skill, of which agents are told" if is_skill else "agents may read it")
    elif name.endswith(".py"):
        when = "at every start" if folder == "tools" else "when its workflow is used"
        found.append(f"{_CODE} {when}")
    elif not name.endswith(SUFFIXES if folder == "roles" else ".json"):
        if folder in ("tools", "workflows") and b"\0" in data[:8000]:
            found.append(f"binary; Python may load it as code ({len(data):,} bytes)")
    else:
        found += _of_json(name, folder, text)
    unseen = sorted({f"U+{ord(char):04X}" for char in _UNSEEN.findall(text)})
    if unseen:
        number = len(_UNSEEN.findall(text))
        what = "character" if number == 1 else "characters"
        found.append(f"! {number} {what} that cannot be seen ({_some(unseen)})")
    # Words of the file's own may not look like further lines of ours.
    return tuple(words.replace("\n", "\u240a") for words in found)


def _of_json(name: str, folder: str, text: str) -> Iterator[str]:
    if folder == "roles":
        if not is_role(name, text):
            yield "a page for people"
            return
        text = as_json(name, text)
    root = parse(text).root
    if root is None or root.kind != "object":
        yield "no readable JSON"
        return
    if name == SETTINGS:
        yield from _of_settings(root)
        return
    if "rehearsal" in root.members:
        yield "a rehearsal, which is played against the workflow's own code"
    elif folder == "roles":
        yield from _of_roles(root)
    elif folder == "workflows":
        yield from _of_workflow(root)


def _of_roles(root: Node) -> Iterator[str]:
    """Yield what each role of a file may call. What is not clear is said as the most it could be."""
    for name, member in root.members.items():
        lists = member.node.members
        included, excluded = lists.get("includedTools"), lists.get("excludedTools")
        if included is not None and included.node.kind == "array":
            tools = sorted(set(_texts(included.node)) - {REQUEST_USERS_INPUT})
            yield f"the role {name}, which may call {_some(tools) if tools else 'no tools'}"
        elif excluded is not None and _texts(excluded.node):
            but = _some(sorted(_texts(excluded.node)))
            yield f"the role {name}, which may call every tool but {but}"
        else:
            yield f"the role {name}, which may call every tool"
    if not root.members:
        yield "no role"


def _of_workflow(root: Node) -> Iterator[str]:
    tools = sorted(set(_named(root, "tool")) - {REQUEST_USERS_INPUT})
    roles = sorted(set(_named(root, "agent_role")))
    who = [f"its agents call what their roles may ({_some(roles)})"] if roles else []
    calls = [f"its states call {_some(tools)}"] if tools else []
    programs = sorted({_words(node) for node in _under(root, "acp")})
    runs = [f"it starts other people's agents, outside the sandbox: {', '.join(programs)}"]
    said = "; ".join(calls + who + (runs if programs else []))
    yield f"a workflow: {said}" if said else "a workflow that calls no tools"


def _of_settings(root: Node) -> Iterator[str]:
    for key, member in root.members.items():
        if key == "mcpServers" and member.node.kind == "object":
            for server, spec in member.node.members.items():
                parts = [spec.node.members.get(part) for part in ("command", "args", "url")]
                words = " ".join(_words(part.node) for part in parts if part is not None)
                yield f"proposes the MCP server {server}: {words} (asked about by itself)"
        elif key == "hooks":
            yield from _of_hooks(member.node)
        elif key == "permissions":
            yield "rules that ask or deny; it cannot allow anything"
        else:
            yield f"the setting {key}"


def _of_hooks(node: Node) -> Iterator[str]:
    for event, groups in node.members.items():
        for group in groups.node.items:
            matcher, hooks = group.get("matcher"), group.get("hooks")
            of = f" of {_words(matcher)}" if matcher is not None and matcher.value else ""
            for hook in () if hooks is None else hooks.items:
                command = hook.get("command")
                words = "no command" if command is None else _words(command)
                yield f"the hook at {event}{of}, in the sandbox: {words}"


def _words(node: Node) -> str:
    if node.kind == "array":
        return " ".join(map(_words, node.items))
    return str(node.value)


def _named(node: Node, wanted: str) -> Iterator[str]:
    """Yield the texts that stand under a key, however deep."""
    yield from (each.value for each in _under(node, wanted) if each.kind == "string")


def _under(node: Node, wanted: str) -> Iterator[Node]:
    """Yield what stands under a key, however deep."""
    for key, member in node.members.items():
        if key == wanted:
            yield member.node
        yield from _under(member.node, wanted)
    for item in node.items:
        yield from _under(item, wanted)


def _texts(node: Node) -> list[str]:
    return [item.value for item in node.items if item.kind == "string"]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def difference(name: str, before: bytes | None, after: bytes | None) -> tuple[str, ...]:
    """Return what has changed of a file, as the lines of a unified difference.

    None: there was, or is, no such file, or nobody kept what it held.
    """
    if before is not None and after is not None and b"\0" in before[:8000] + after[:8000]:
        return (f"{name}: binary, {len(before):,} bytes before, {len(after):,} now",)
    lines = list(
        difflib.unified_diff(
            _lines(before),
            _lines(after),
            f"{name} (as you trusted it)" if before is not None else "/dev/null",
            f"{name} (now)" if after is not None else "/dev/null",
            lineterm="",
        )
    )
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"+{len(lines) - MAX_LINES} more lines"]
    return tuple(lines)


def _lines(data: bytes | None) -> list[str]:
    return [] if data is None else data.decode("utf-8", "replace").split("\n")


def told_files(status: TrustStatus, store: TrustStore) -> Iterator[tuple[str, str]]:
    """Yield what a workspace's own files are and would do, and their differences: a mark, and a line."""
    given = session_grant(status)
    changed = {change.name: change.how for change in status.changes}
    for file in status.files:
        mark = f"  ({changed[file.name]} since you trusted it)" if file.name in changed else ""
        yield "  ", f"{shown_name(file.name)}  {file.size:,} bytes{mark}"
        try:
            found = enables(file.name, given.read(file.name))
        except MidstreamError as error:
            found = (error.what,)
        for words in found:
            yield "      ", words
    if any(_is_code(file.name) for file in status.files):
        yield "  ", _CODE_MAY
    for entry in status.left_out:
        yield "  ", f"left out: {entry}"
    for change in status.changes:
        before = store.before(status.workspace, change.name)
        after = None
        if change.how != "removed":
            try:
                after = given.read(change.name)
            except MidstreamError as error:
                yield "  ", error.what
        if change.how == "changed" and before is None:
            yield "  ", f"{change.name}: what it held when you trusted it was not kept."
        else:
            for line in difference(shown_name(change.name), before, after):
                yield "  │ ", line


def shown_name(name: str) -> str:
    """Return a file's name as a person knows it: AGENTS.md stands beside `.midstream`, not in it."""
    return name.removeprefix("../")


def _inside(name: str) -> str:
    """Return a file's name within `.midstream`, or within the other program's folder beside it."""
    return name.removeprefix(f"../{OTHERS_FOLDER}/")


def _is_code(name: str) -> bool:
    is_of_skill = _inside(name).startswith(("hooks/", "skills/"))
    return name.endswith(tuple(all_suffixes())) and not is_of_skill

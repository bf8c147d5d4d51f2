"""hooks: the commands that application.json has run at events of a run, in the form other programs have.

    "hooks": {"PreToolUse": [{"matcher": "write_file|edit_file", "hooks": [{"command": "..."}]}]}

A hook that cannot be read is not simply gone: what was to guard refuses until it can. Reading starts
nothing.
"""

import os.path
import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final, Literal, TypeAlias

import msgspec

from midstream.config.directories import WORKSPACE_FOLDER
from midstream.config.manager import ConfigManager
from midstream.config.private_files import shown_path
from midstream.language.errors import MidstreamError, clip
from midstream.language.json_text import Member, Node
from midstream.language.patterns import BadPattern, fits_whole
from midstream.language.problem import Problem, Report
from midstream.language.shape import fit, read_file

HOOKS: Final = "hooks"
"""The key in application.json, and the folder beside it for the scripts."""

MAX_HOOKS: Final = 32
DEFAULT_TIMEOUT_S: Final = 10.0
MAX_TIMEOUT_S: Final = 600.0

Source: TypeAlias = Literal["user", "workspace", "plugin"]
PLUGIN_FILE: Final = f"{HOOKS}/{HOOKS}.json"
"""Where a plugin has its hooks, under the same key."""

OnError: TypeAlias = Literal["refuse", "go_on"]

GUARDS: Final = ("PreToolUse", "UserPromptSubmit")
"""The events at which a hook may refuse. One of these that fails refuses, unless its setting says not to:
nobody knows what it would have said, and who guards something wants it guarded then above all.
"""

EVENTS: Final = (*GUARDS, "PostToolUse", "Notification", "Halt", "Stop", "SessionEnd")
_OF_TOOLS: Final = ("PreToolUse", "PostToolUse")
_WANTED: Final[dict[str, Any]] = {
    "type": Literal["command"],
    "command": str,
    "name": str,
    "timeout": float,
    "on_error": OnError,
    "sandbox": bool,
}
_BESIDE: Final = re.compile(rf"{re.escape(WORKSPACE_FOLDER)}/([^\s'\"$;|&<>()`]+)")

_OPERATOR: Final = re.compile(r"[;|&<>]")


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """A command that runs at an event, of the tools whose whole names `matcher` fits ("": of all).

    `file` says where it is set, `root` is the folder of a plugin's files, "" for others'. `problem` is why
    it cannot be run, "" where it can.
    """

    event: str
    name: str
    command: str = ""
    matcher: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S
    on_error: OnError = "go_on"
    is_boxed: bool = True
    source: Source = "user"
    file: str = ""
    root: str = ""
    problem: str = ""


class HookFile(msgspec.Struct, frozen=True, kw_only=True):
    """A text that may have hooks, whose it is, and which files of `.midstream` are trusted with it.

    `root` is the folder of a plugin's files.
    """

    source: Source
    file: str
    text: str
    trusted: frozenset[str] = frozenset()
    root: str = ""


def hook_files(config: ConfigManager) -> Iterator[HookFile]:
    """Yield where hooks come from, the user's first: these run before those of others."""
    trusted = frozenset(() if config.grant is None else config.grant.files)
    for source, path, text in config.settings_files():
        yield HookFile(source=source, file=shown_path(path), text=text, trusted=trusted)
    for grant in config.plugins().values():
        if PLUGIN_FILE in grant.files:
            path = grant.folder / PLUGIN_FILE
            try:
                text = grant.read(PLUGIN_FILE).decode("utf-8-sig")
            except (MidstreamError, UnicodeDecodeError) as error:
                config.notice_unread(path, error)
                continue
            root = str(grant.folder)
            yield HookFile(source="plugin", file=shown_path(path), text=text, root=root)


def hooks_of(config: ConfigManager) -> tuple[tuple[Hook, ...], tuple[Problem, ...]]:
    """Return the hooks that count, in the order they run, and what is wrong with them."""
    found: list[Hook] = []
    problems: list[Problem] = []
    for each in hook_files(config):
        if HOOKS in each.text:
            hooks, wrong = read_hooks(each)
            found += hooks
            problems += wrong
    return tuple(found), tuple(problems)


def read_hooks(given: HookFile) -> tuple[tuple[Hook, ...], tuple[Problem, ...]]:
    """Return the hooks of a text, in its order, and what is wrong with them.

    Problems of the text outside of `hooks` are not told here.
    """
    root, report = read_file(given.text, given.file)
    if root is None or report.problems:
        lost = (
            f"{given.file} cannot be read, and may have hooks" if f'"{HOOKS}"' in given.text else ""
        )
        return ((_broken("PreToolUse", lost, given),) if lost else ()), ()
    node = root.get(HOOKS)
    if node is None:
        return (), ()
    reader = _Reader(given, report)
    reader.read(node)
    return tuple(reader.found), report.problems


def _broken(event: str, problem: str, given: HookFile, matcher: str = "", name: str = "") -> Hook:
    return Hook(
        event=event,
        name=name or "?",
        matcher=matcher,
        on_error="refuse" if event in GUARDS else "go_on",
        source=given.source,
        file=given.file,
        problem=problem,
    )


class _Reader:
    def __init__(self, given: HookFile, report: Report) -> None:
        self.found: list[Hook] = []
        self._given = given
        self._report = report

    def read(self, node: Node) -> None:
        """Read the object of all events."""
        if node.kind != "object":
            form = '{"PreToolUse": [{"matcher": "...", "hooks": [{"command": "..."}]}]}'
            self._wrong("PreToolUse", node, f"expected an object {form}.")
            return
        for event, member in node.members.items():
            if event not in EVENTS:
                hint = self._report.near(event, EVENTS) or f"There are: {', '.join(EVENTS)}."
                self._report.warning(member, f'nothing runs at "{clip(event)}"; ignored.', hint)
            elif member.node.kind != "array":
                self._wrong(event, member.node, 'expected a list [{"hooks": [...]}].')
            else:
                for group in member.node.items:
                    self._group(event, group)

    def _wrong(self, event: str, where: Node | Member, message: str, matcher: str = "") -> None:
        self._report.error(where, message)
        self.found.append(_broken(event, f"{self._given.file}: {message}", self._given, matcher))

    def _group(self, event: str, group: Node) -> None:
        hooks, matcher = group.get(HOOKS), group.get("matcher")
        if hooks is None or hooks.kind != "array":
            self._wrong(event, group, 'expected an object {"matcher": "...", "hooks": [...]}.')
            return
        for key, member in group.members.items():
            if key not in (HOOKS, "matcher"):
                self._report.warning(member, f'there is no "{clip(key)}" here; ignored.')
        wanted = ""
        if matcher is not None and event in _OF_TOOLS:
            try:
                wanted = str(matcher.value)
                fits_whole(wanted, "")
            except BadPattern as error:
                self._wrong(event, matcher, f"it fits no tool: {error.what}")
                return
        for hook in hooks.items:
            if len(self.found) >= MAX_HOOKS:
                self._wrong(event, hook, f"more than {MAX_HOOKS} hooks.", wanted)
                return
            self._hook(event, wanted, hook)

    def _hook(self, event: str, matcher: str, node: Node) -> None:
        if node.kind != "object":
            self._wrong(event, node, 'expected an object {"command": "..."}.', matcher)
            return
        said: dict[str, Any] = {}
        for key, member in node.members.items():
            if key not in _WANTED:
                self._report.warning(member, f'there is no "{clip(key)}" here; ignored.')
            elif not fit(member.node, _WANTED[key], self._report):
                self._wrong(event, member, f'"{key}" is not what it must be.', matcher)
                return
            else:
                said[key] = member.node.value
        command, timeout_s = said.get("command", "").strip(), said.get("timeout", DEFAULT_TIMEOUT_S)
        if not command or "\0" in command:
            self._wrong(event, node, 'expected a "command".', matcher)
            return
        if not 0.1 <= timeout_s <= MAX_TIMEOUT_S:
            message = f'expected a "timeout" of 0.1 to {MAX_TIMEOUT_S:g} seconds.'
            self._wrong(event, node.members["timeout"], message, matcher)
            return
        is_boxed = said.get("sandbox", True)
        if not is_boxed and self._given.source != "user":
            message = (
                f"a {self._given.source} may not take a hook out of the sandbox; it runs there."
            )
            self._report.error(node.members["sandbox"], message)
            is_boxed = True
        name = said.get("name", "").strip() or _name_of(command)
        if (foreign := self._untrusted(command)) and self._given.source == "workspace":
            message = f"{foreign} is not trusted with the workspace"
            hint = f"Put it into {WORKSPACE_FOLDER}/{HOOKS}, and trust the workspace again."
            self._report.error(node, f"{message}.", hint)
            self.found.append(_broken(event, f"{message}. {hint}", self._given, matcher, name))
            return
        self.found.append(
            Hook(
                event=event,
                name=clip(name),
                command=command,
                matcher=matcher,
                timeout_s=timeout_s,
                on_error=said.get("on_error", "refuse" if event in GUARDS else "go_on"),
                is_boxed=is_boxed,
                source=self._given.source,
                file=self._given.file,
                root=self._given.root,
            )
        )

    def _untrusted(self, command: str) -> str:
        """Return a file of `.midstream` that a command names and that nobody trusted, "" if none."""
        for name in _BESIDE.findall(command):
            if os.path.normpath(name) not in self._given.trusted:
                return f"{WORKSPACE_FOLDER}/{name}"
        return ""


def _name_of(command: str) -> str:
    """Return what a hook without a name is called: its script, else its program."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    own = list(takewhile(lambda word: not _OPERATOR.search(word), words))
    paths = [word for word in own if "/" in word and not word.startswith("-")]
    name = (paths[-1] if paths else words[0] if words else command).rpartition("/")[2]
    return name if name.isprintable() and name else "hook"


def listed(hooks: tuple[Hook, ...]) -> list[tuple[str, str]]:
    """Return each hook's event, and what it is for a person."""
    return [
        (hook.event, f"{hook.problem or hook.command}  ({_where(hook)}, {hook.file})")
        for hook in hooks
    ]


def _where(hook: Hook) -> str:
    of = f"of {hook.matcher}" if hook.matcher not in ("", "*") else "of every tool"
    place = "in the sandbox" if hook.is_boxed else "without a sandbox"
    return f"{of}, {place}" if hook.event in _OF_TOOLS else place

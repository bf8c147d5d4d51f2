"""Hooks are run here: one command after the other, in the sandbox, heard with limits, understood strictly.

A hook gets one JSON object on its standard input, from a file nobody else has, so that no hook can keep
us by not reading. It answers by how it ends and by what it prints: exit code 0 with a JSON object or
nothing, exit code 2 to refuse, with the reason on its standard error. All else is a failure, and is told as
one. Nothing it says allows anything.

A person's own command for their status line is told and run in the same way.
"""

import asyncio
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import msgspec

from midstream.config.directories import WORKSPACE_FOLDER
from midstream.config.hooks import GUARDS, HOOKS, Hook
from midstream.core.events import HookRan
from midstream.language.errors import MidstreamError, WorldTrouble
from midstream.language.names import Json
from midstream.language.patterns import fits_whole
from midstream.safety.decoding import BadValue, clean, decode_object
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import Timeout, in_thread
from midstream.system.programs import command_environment
from midstream.system.supervisor import Ended, Kept, run_command
from midstream.tools.shell import as_told
from midstream.tools.tool_text import capped

if TYPE_CHECKING:
    from midstream.tools.sandbox.sandbox import Sandbox

MAX_OUTPUT_BYTES: Final = 1_000_000
MAX_WORDS: Final = 10_000
"""Characters of a reason, or of what is added."""

_REST_S: Final = 1.0
"""How long what a hook has said is read once it has ended: what outlives it may hold the pipe."""

_REFUSES: Final = 2
_FOLDER_VARIABLES: Final = ("MIDSTREAM_PROJECT_DIR", "CLAUDE_PROJECT_DIR")
_ROOT_VARIABLES: Final = ("MIDSTREAM_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT")
"""What has the path of the workspace, and of a plugin's files; the second each for scripts that were
written for another program."""


class CommandHooks:
    """The hooks of a person and of a workspace they trust; see `midstream.runtime.ports.Hooks`.

    Args:
        hooks: in the order they run.
        workspace: where they run.
        sandbox: what they run in.
        readable: folders they may read there besides the workspace.
        require_trusted: raises where the files of a workspace's or plugin's hook are not those that were
            trusted.
    """

    def __init__(
        self,
        hooks: Sequence[Hook],
        *,
        workspace: Path,
        sandbox: "Sandbox",
        readable: Sequence[Path] = (),
        require_trusted: Callable[[Hook], None] = lambda hook: None,
    ) -> None:
        self._hooks = tuple(hooks)
        self._workspace = workspace
        self._sandbox = sandbox
        self._readable = tuple(readable)
        self._require_trusted = require_trusted

    @property
    def hooked(self) -> tuple[str, ...]:
        """Return patterns of the names of tools whose calls hooks have a say in before they are made."""
        before = (hook.matcher for hook in self._hooks if hook.event == "PreToolUse")
        return tuple(dict.fromkeys(before))

    def has(self, event: str, name: str = "") -> bool:
        """Return whether a hook runs at an event, of the tool of that name where it is about one."""
        return any(_is_for(hook, event, name) for hook in self._hooks)

    async def run(
        self,
        event: str,
        about: dict[str, Json],
        *,
        name: str = "",
        stop: asyncio.Event | None = None,
    ) -> tuple[HookRan, ...]:
        """Return what the hooks of an event had to say; see `midstream.runtime.ports.Hooks`."""
        found: list[HookRan] = []
        told = {"hook_event_name": event, "cwd": str(self._workspace), **about}
        for hook in self._hooks:
            if not _is_for(hook, event, name):
                continue
            ran = await self._answer(hook, told, stop or asyncio.Event())
            if ran is None:
                continue
            found.append(msgspec.structs.replace(ran, call_id=str(about.get("tool_use_id", ""))))
            if ran.refused:
                break
            if ran.arguments is not None:
                told["tool_input"] = ran.arguments
        return tuple(found)

    async def _answer(
        self, hook: Hook, told: Mapping[str, Json], stop: asyncio.Event
    ) -> HookRan | None:
        try:
            if hook.problem:
                return _failed(hook, hook.problem)
            if hook.source != "user":
                await in_thread(partial(self._require_trusted, hook))
            heard = await self._heard(hook, told, stop)
        except MidstreamError as error:
            return _failed(hook, f"it was not run: {error}")
        except (OSError, ValueError) as error:
            return _failed(hook, f"it could not be started: {error}")
        return answer_of(hook, *heard)

    async def _heard(
        self, hook: Hook, told: Mapping[str, Json], stop: asyncio.Event
    ) -> tuple[Ended, bytes, bytes]:
        """Run a hook to its end; return how it ended, and what it printed on both its streams.

        Raises:
            OSError: it, or the sandbox, cannot be started.
        """
        folder = Path(str(told["cwd"]))
        environment = [f"{name}={self._workspace}" for name in _FOLDER_VARIABLES]
        readable = self._readable
        if hook.root:
            environment += [f"{name}={hook.root}" for name in _ROOT_VARIABLES]
            readable = (*readable, Path(hook.root) / HOOKS)
        if (
            folder != self._workspace
        ):  # a worktree, where the workspace's own scripts are not to be seen
            readable = (*readable, self._workspace / WORKSPACE_FOLDER / HOOKS)
        argv = ["/usr/bin/env", *environment, "/bin/sh", "-c", hook.command]
        given = await in_thread(partial(_as_file, told))
        beside = _Beside()
        output = Kept(MAX_OUTPUT_BYTES)
        from midstream.tools.sandbox.launch import Inside  # not before a hook runs

        inside = Inside(workspace=folder, stdin=given.fileno(), readable=readable)
        try:
            ended = await run_command(
                argv,
                folder=folder,
                environment=command_environment(os.environ),
                timeout_s=hook.timeout_s,
                stop=stop,
                sink=output,
                box=partial(self._sandbox.wrapped, inside) if hook.is_boxed else None,
                stdin=given.fileno(),
                stderr=beside.theirs,
            )
        finally:
            given.close()
            beside.close()
        said = await in_thread(beside.heard)
        return (as_told(ended) if hook.is_boxed else ended), bytes(output.data), said


def _is_for(hook: Hook, event: str, name: str) -> bool:
    return hook.event == event and (not name or fits_whole(hook.matcher, name))


def _as_file(told: Mapping[str, Json]) -> "IO[bytes]":
    """Return a file that has what a command is told, to be read from its beginning, and no name."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the command has ended
    file.write(msgspec.json.encode(told) + b"\n")
    file.flush()
    file.seek(0)
    return file


class _Beside:
    """A stream beside the output, heard in a thread of its own; beyond so many bytes it is dropped."""

    def __init__(self) -> None:
        self._ours, self.theirs = os.pipe()
        self._data = bytearray()
        self._thread = threading.Thread(target=self._hear, name="midstream-hook", daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        while data := os.read(self._ours, 65_536):
            self._data += data[: max(0, MAX_OUTPUT_BYTES - len(self._data))]
        os.close(self._ours)

    def close(self) -> None:
        """Let go of the end that was handed on: nobody writes any more but what could not be ended."""
        os.close(self.theirs)

    def heard(self) -> bytes:
        """Return what was said, once that is all. Blocks."""
        timeout = Timeout(_REST_S)
        while self._thread.is_alive() and (wait_s := timeout.wait_s()):
            self._thread.join(wait_s)
        return bytes(self._data)


# --- what an answer means ---------------------------------------------------------------------------


def answer_of(hook: Hook, ended: Ended, output: bytes, beside: bytes) -> HookRan | None:
    """Return what a hook had to say, None where that is nothing."""
    match ended.cause:
        case "timed_out":
            return _failed(hook, f"it did not answer within {hook.timeout_s:g} s")
        case "stopped":
            return _failed(hook, "it was stopped before it answered")
        case "enough":
            return _failed(hook, f"it printed more than {MAX_OUTPUT_BYTES:,} bytes")
        case _:
            pass
    if ended.exit_code == _REFUSES:
        reason = _words(beside) or _words(output) or "(no reason given)"
        return _refusal(hook, reason)
    if ended.exit_code != 0:
        first = _words(beside or output).partition("\n")[0]
        return _failed(
            hook, f"it ended with exit code {ended.exit_code}{f': {first}' if first else ''}"
        )
    try:
        text = output.decode("utf-8").strip()
    except UnicodeDecodeError:
        return _failed(hook, "what it printed is not UTF-8")
    if not text:
        return None
    if hook.event == "UserPromptSubmit" and not text.startswith("{"):
        return HookRan(event=hook.event, hook=hook.name, added=_words(output))
    try:
        return _meant(hook, decode_object(text))
    except BadValue as error:
        return _failed(hook, f"what it printed is no answer: {error}")


def _meant(hook: Hook, said: dict[str, Json]) -> HookRan | None:
    """Return what a JSON answer means; keys that mean nothing here are passed over.

    Raises:
        BadValue: a key that means something has a value that does not.
    """
    inner = said.get("hookSpecificOutput", {})
    if not isinstance(inner, dict):
        raise BadValue("hookSpecificOutput is no object")
    decision = _text(inner, "permissionDecision") or _text(said, "decision")
    reason = _text(inner, "permissionDecisionReason") or _text(said, "reason")
    if said.get("continue") is False:
        decision, reason = "deny", reason or _text(said, "stopReason")
    if decision in ("deny", "block"):
        return _refusal(hook, reason or "(no reason given)")
    if decision not in ("", "allow", "approve", "ask"):
        raise BadValue(f"the decision {decision[:40]!r} is none")
    arguments = inner.get("updatedInput")
    if arguments is not None and not isinstance(arguments, dict):
        raise BadValue("updatedInput is no object")
    ran = HookRan(
        event=hook.event,
        hook=hook.name,
        arguments=arguments if hook.event == "PreToolUse" else None,
        added=_clean(_text(inner, "additionalContext")),
    )
    return ran if ran.added or ran.arguments is not None else None


def _text(where: dict[str, Json], key: str) -> str:
    text = where.get(key, "")
    if text is not None and not isinstance(text, str):
        raise BadValue(f"{key} is no text")
    return text or ""


def _refusal(hook: Hook, reason: str) -> HookRan:
    if hook.event in GUARDS:
        return HookRan(event=hook.event, hook=hook.name, refused=_clean(reason))
    # What has happened cannot be refused any more: the model hears of it.
    return HookRan(event=hook.event, hook=hook.name, added=_clean(reason))


def _failed(hook: Hook, problem: str) -> HookRan:
    """Return that a hook failed, and, where it is to guard, that it refuses so."""
    problem = _clean(problem)
    refused = f"{problem} (a hook that fails refuses, unless its on_error is go_on)"
    is_guard = hook.event in GUARDS and hook.on_error == "refuse"
    return HookRan(
        event=hook.event, hook=hook.name, refused=refused if is_guard else "", problem=problem
    )


def _words(data: bytes) -> str:
    return _clean(data.decode("utf-8", "replace").strip())


def _clean(text: str) -> str:
    return capped(sanitized(clean(text)), MAX_WORDS)


# --- a person's own status line -----------------------------------------------------------------------

_STATUS_TIMEOUT_S: Final = 2.0
_MAX_STATUS_BYTES: Final = 10_000
_STATUS_HINT: Final = "/config statusLine.command changes it."


class StatusCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command. `sandbox` None: it runs outside of it, as its person's own settings say.

    `readable` are folders it may read there besides the workspace.
    """

    command: str
    workspace: Path
    sandbox: "Sandbox | None"
    timeout_s: float = _STATUS_TIMEOUT_S
    readable: tuple[Path, ...] = ()

    async def run(self, told: Mapping[str, Json]) -> str:
        """Return the first line it prints, sanitized. It reads `told`; one that is slow is killed.

        Raises:
            WorldTrouble: it could not be started, took too long, or failed.
        """
        given = await in_thread(partial(_as_file, told))
        output = Kept(_MAX_STATUS_BYTES)
        from midstream.tools.sandbox.launch import Inside  # not before the first prompt

        inside = Inside(workspace=self.workspace, stdin=given.fileno(), readable=self.readable)
        try:
            ended = await run_command(
                ["/bin/sh", "-c", self.command],
                folder=self.workspace,
                environment=command_environment(os.environ),
                timeout_s=self.timeout_s,
                stop=asyncio.Event(),
                sink=output,
                box=None if self.sandbox is None else partial(self.sandbox.wrapped, inside),
                stdin=given.fileno(),
            )
        except OSError as error:
            raise WorldTrouble(f"it could not be started: {error}.", hint=_STATUS_HINT) from None
        finally:
            given.close()
        if ended.cause == "timed_out":
            raise WorldTrouble(f"it said nothing within {self.timeout_s:g} s.", hint=_STATUS_HINT)
        text = clean(bytes(output.data).decode("utf-8", "replace")).strip()
        if ended.exit_code != 0:
            raise WorldTrouble(f"it ended with exit code {ended.exit_code}.", hint=_STATUS_HINT)
        return sanitized(text.partition("\n")[0])

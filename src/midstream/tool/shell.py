"""execute_terminal: one command, its output, its end.

How a command is run follows from its words, and is shown before it is run: one that only looks, started
so that it can do no more; one in the sandbox, where there is one; or one as it is, with the person's
rights. The plan and the call decide that alike.
"""

import codecs
import os
import re
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from midstream.core.errors import WorldTrouble
from midstream.core.names import Json, Outcome
from midstream.core.safety.capability import Capability, quoted
from midstream.core.safety.commands import read_command
from midstream.core.safety.harmless import is_harmless
from midstream.core.safety.sanitize import sanitized
from midstream.core.spec import ToolSpec
from midstream.offloop import in_thread
from midstream.ports import ToolContext, ToolOutcome
from midstream.tool.base import Planned, Tool, parameters_of, typed
from midstream.tool.looking import looking
from midstream.tool.process import KILL_S, Box, Ended, Starting, run_command
from midstream.tool.text import MARGIN, beginning, capped, ending, joined

if TYPE_CHECKING:
    from midstream.tool.sandbox.sandbox import Sandbox

MAX_OUTPUT_CHARS: Final = 40_000
DEFAULT_TIMEOUT_S: Final = 120.0
MAX_TIMEOUT_S: Final = 1_800.0

_PROGRESS_EVERY_S: Final = 0.05
_PROGRESS_CHARS: Final = 4_000

_PASSED_ON: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOPATH", "CARGO_HOME", "RUSTUP_HOME"),
        *("NVM_DIR", "PYENV_ROOT", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_RUNTIME_DIR", "CI"),
    }
)
_SET: Final = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    # Else what a Python program prints would come all at once, when it has ended.
    "PYTHONUNBUFFERED": "1",
}
_SHELLS: Final = (
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/run/current-system/sw/bin/bash",
)
_FATAL: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGKILL})
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)


class ExecuteTerminal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `execute_terminal`."""

    command: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=50_000,
            description="A bash command line, run in the workspace's root.",
        ),
    ]
    timeout_s: Annotated[
        float,
        msgspec.Meta(ge=1, le=MAX_TIMEOUT_S, description="Seconds it may take."),
    ] = DEFAULT_TIMEOUT_S
    network: Annotated[
        bool,
        msgspec.Meta(
            description="Whether it needs the network, such as to install something. A person is "
            "asked for that."
        ),
    ] = False
    sandbox: Annotated[
        bool,
        msgspec.Meta(
            description="false to run it outside the sandbox, such as git commit. A person is "
            "asked for that."
        ),
    ] = True


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """How a command is started, and what that needs. `words` say it to a person."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    requests: tuple[Capability, ...]
    words: str
    is_boxed: bool = False


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment a command gets: a list of harmless names, nothing secret."""
    passed = {
        name: value
        for name, value in environment.items()
        if (name in _PASSED_ON or name.startswith("LC_")) and not _SECRET.search(name)
    }
    return {**passed, **_SET}


def terminal_tool(sandbox: "Sandbox | None" = None) -> Tool:
    """Return the tool that runs commands: in this sandbox, or without one with the person's rights."""
    terminal = _Terminal(sandbox)
    return Tool(spec=_SPEC, function=terminal.run, plan=terminal.plan)


class _Terminal:
    def __init__(self, sandbox: "Sandbox | None") -> None:
        self._sandbox = sandbox

    def plan(self, arguments: dict[str, Json], context: ToolContext) -> Planned:
        """Say what the call would do."""
        wanted = typed(arguments, ExecuteTerminal)
        start = self._start(wanted, context.workspace)
        return Planned(requests=start.requests, shows=shown(wanted, context.workspace, start.words))

    async def run(self, arguments: dict[str, Json], context: ToolContext) -> ToolOutcome:
        """Run a command and return its exit code and output.

        Told to stop or out of time, it gets SIGINT, SIGTERM, SIGKILL within two seconds. Cancelling
        kills it. Either way nothing that it started outlives the call.

        Raises:
            WorldTrouble: there is no shell, or it or the sandbox cannot be started.
        """
        wanted = typed(arguments, ExecuteTerminal)
        output = Output(context.progress)
        start = await in_thread(partial(self._start, wanted, context.workspace))
        before = await in_thread(partial(_guarded, start, context.workspace))
        try:
            ended = await run_command(
                start.argv,
                folder=context.workspace,
                environment=start.environment,
                timeout_s=wanted.timeout_s,
                stop=context.stop,
                sink=output,
                box=self._box(context.workspace, wanted) if start.is_boxed else None,
            )
        except (OSError, ValueError) as error:
            raise WorldTrouble(
                f"The command could not be started: {error}.",
                hint="midstream doctor looks for the programs it takes.",
            ) from error
        text = output.text()
        if start.is_boxed:
            ended = as_told(ended)
            if ended.exit_code == 1 and text.startswith("bwrap: "):
                raise WorldTrouble(
                    f"The sandbox could not be started: {text.strip()}",
                    hint="midstream doctor --sandbox says what it can do here.",
                )
        outcome, words = verdict(ended, wanted.timeout_s)
        if start.is_boxed and outcome == "failed":
            words += (
                f"\n[it ran with {start.words}; only the workspace and /tmp can be written. "
                "With sandbox: false a person is asked to let it run outside]"
            )
        made = await in_thread(partial(_guarded, start, context.workspace)) - before
        if made:
            names = ", ".join(sanitized(name) for name in sorted(made))
            words += f"\n[it made {names}: what decides what runs later should be looked at]"
        return ToolOutcome(outcome=outcome, text=f"{words}\n\n{text or '(no output)'}")

    def _start(self, wanted: ExecuteTerminal, workspace: Path) -> Start:
        """Return how to run a command. Blocks: it looks at files, and may ask git."""
        command = read_command(wanted.command)
        plain = None
        if command.kind == "exec" and is_harmless(command.argv):
            # With a network it is not started as `looking` says, so it is not the harmless one.
            plain = None if wanted.network else looking(command.argv, workspace)
            if plain is None:
                # By its words it only looks; here it would do more. So it is a line like every other.
                command = Capability(kind="shell", target=wanted.command)
        if plain is not None:
            return Start(
                argv=plain.argv,
                environment=plain.environment,
                requests=(command, *plain.reads),
                words=f"no sandbox, as it only looks: it is run as {quoted(plain.argv)}",
            )
        trouble = "" if self._sandbox is None else self._sandbox.unfit(workspace)
        is_boxed = self._sandbox is not None and not trouble and wanted.sandbox
        level = "none" if self._sandbox is None or trouble else self._sandbox.level
        is_safe = level == "full" and is_boxed and not wanted.network
        asked = (Capability(kind="net", target="*"),) if wanted.network else ()
        words = "no sandbox: it can do whatever you can"
        if is_boxed:
            network = "the network, shared" if wanted.network else "no network"
            words = f"the sandbox ({level}) and {network}"
        return Start(
            argv=_shell_argv(command, wanted.command),
            environment=command_environment(os.environ),
            requests=(msgspec.structs.replace(command, sandboxed=is_safe), *asked),
            words=f"{words} ({trouble})" if trouble else words,
            is_boxed=is_boxed,
        )

    def _box(self, workspace: Path, wanted: ExecuteTerminal) -> Box:
        assert self._sandbox is not None
        sandbox = self._sandbox

        def box(
            argv: Sequence[str], environment: Mapping[str, str], tag: Mapping[str, str]
        ) -> Starting:
            return sandbox.wrapped(
                argv,
                workspace=workspace,
                environment=environment,
                tag=tag,
                network=wanted.network,
            )

        return box


def _guarded(start: Start, workspace: Path) -> frozenset[str]:
    if not start.is_boxed:
        return frozenset()
    from midstream.tool.sandbox.view import guarded_names

    return guarded_names(workspace)


def shown(wanted: ExecuteTerminal, workspace: Path, words: str) -> str:
    """Return exactly what would be run, with where and how, as a person reads it before the yes."""
    command = read_command(wanted.command)
    first, *more = sanitized(wanted.command.replace("\r", "\u240d")).split("\n")
    lines = [f"$ {first}", *(f"> {line}" for line in more)]
    if command.kind == "exec":
        lines = [f"$ {quoted(command.argv)}"]
    lines += [f"in {sanitized(str(workspace)).replace(chr(10), chr(0x240A))}", f"with {words}"]
    return "\n".join(lines)


def _shell_argv(command: Capability, line: str) -> tuple[str, ...]:
    """Return the argv for a command. bash only looks the program up where there is an argv: it says
    what is wrong with it as people and models know it.
    """
    shell = next((place for place in _SHELLS if os.access(place, os.X_OK)), "/bin/sh")
    if command.kind == "exec":
        return (shell, "-c", 'exec -- "$@"', shell, *command.argv)
    return (shell, "-c", line)


def as_told(ended: Ended) -> Ended:
    """Return how a command ended that we ended in the sandbox, which tells of a signal by a number.

    One that ended by itself said a number above 128, as shells do: nobody can tell then.
    """
    number = ended.exit_code - 128
    if ended.cause and number in _FATAL:
        return msgspec.structs.replace(ended, exit_code=-number)
    return ended


def verdict(ended: Ended, timeout_s: float) -> tuple[Outcome, str]:
    """Return how the call ended and the words for it.

    A command that was cut by a signal has done some of its work, nobody knows how much: `unknown`.
    One that was told to stop and ended by itself with an error is `stopped`.
    """
    code = ended.exit_code
    how = f"Exit code: {code}" if code >= 0 else f"Ended by {signal.Signals(-code).name}"
    outcome: Outcome = "completed" if code == 0 else "failed"
    if ended.cause == "timed_out":
        outcome = "unknown"
        how += f". Timed out after {timeout_s:g} s: it may have done part of its work, verify it."
    elif ended.cause == "stopped" and code == 0:
        how += " (after it was told to stop)"
    elif ended.cause == "stopped" and code > 0:
        outcome = "stopped"
        how += ". It was told to stop and ended; what it had done until then stays."
    elif ended.cause == "stopped":
        outcome = "unknown"
        how += ". It was stopped: it may have done part of its work, verify before repeating it."
    if ended.left_behind:
        them = "process" if ended.left_behind == 1 else "processes"
        was = "was" if ended.left_behind == 1 else "were"
        how += f"\n[{ended.left_behind} background {them} outlived it and {was} ended]"
    if ended.survivors:
        outcome = "unknown"
        how += f"\n[could not be ended, still running: {', '.join(map(str, ended.survivors))}]"
    return outcome, how


class Output:
    """A command's output, head and tail kept, and told on as it comes, a few times a second."""

    def __init__(self, progress: Callable[[str], None], max_chars: int = MAX_OUTPUT_CHARS) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._progress = progress
        self._half = max_chars // 2
        self._head: list[str] = []
        self._head_chars = 0
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self._left_out = 0
        self._untold: deque[str] = deque()
        self._untold_chars = 0
        self._told_at = 0.0

    def feed(self, data: bytes) -> bool:
        """Take the next piece. More is always wanted: a full pipe would block the command."""
        piece = self._decoder.decode(data)
        self._keep(piece)
        self._untold.append(piece)
        self._untold_chars += len(piece)
        while self._untold_chars - len(self._untold[0]) > _PROGRESS_CHARS + MARGIN:
            self._untold_chars -= len(self._untold.popleft())
        return True

    def tick(self) -> float | None:
        """Tell on what has come in, unless something was told a moment ago."""
        if not self._untold:
            return None
        wait = self._told_at + _PROGRESS_EVERY_S - time.monotonic()
        if wait > 0:
            return wait
        self._tell()
        return None

    def _tell(self) -> None:
        text = "".join(self._untold)
        if len(text) > _PROGRESS_CHARS:
            text = ending(text, _PROGRESS_CHARS)
        self._untold.clear()
        self._untold_chars = 0
        self._told_at = time.monotonic()
        if text:
            self._progress(text)

    def _keep(self, piece: str) -> None:
        room = self._half + MARGIN - self._head_chars
        if room > 0:
            self._head.append(piece[:room])
            self._head_chars += len(piece[:room])
            piece = piece[room:]
        if not piece:
            return
        self._tail.append(piece)
        self._tail_chars += len(piece)
        while self._tail_chars - len(self._tail[0]) >= self._half + MARGIN:
            gone = len(self._tail.popleft())
            self._tail_chars -= gone
            self._left_out += gone

    def text(self) -> str:
        """Return what was kept, the rest counted; called when the command has ended."""
        self._keep(self._decoder.decode(b"", final=True))
        head, tail = "".join(self._head), "".join(self._tail)
        if self._untold:
            self._tell()
        if not self._left_out:
            return capped(head + tail, 2 * self._half)
        left_out = len(head) + self._left_out + len(tail) - 2 * self._half
        return joined(beginning(head, self._half), left_out, ending(tail, self._half))


_SPEC: Final = ToolSpec(
    name="execute_terminal",
    description="Run a bash command in the workspace and get its exit code and output "
    "(both streams). No input, no terminal. Background processes end with the command. "
    "There may be a sandbox: then nothing outside the workspace and /tmp can be written, home is "
    "empty, .git is read-only, and there is no network unless it is asked for.",
    parameters=parameters_of(ExecuteTerminal),
    effect="once",
    timeout_s=MAX_TIMEOUT_S + 2 * KILL_S,
    reviewed=True,
)

TOOLS: tuple[Tool, ...] = (terminal_tool(),)
"""Without a sandbox: it is measured, in a thread, by whoever builds the tools."""

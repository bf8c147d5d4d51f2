"""execute_terminal: one shell command, its output, its end."""

import codecs
import os
import re
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import msgspec

from midstream.core.errors import WorldTrouble
from midstream.core.names import Json, Outcome
from midstream.core.spec import ToolSpec
from midstream.ports import ToolContext, ToolOutcome
from midstream.tool.base import Tool, parameters_of, typed
from midstream.tool.process import KILL_S, Ended, run_command
from midstream.tool.text import joined

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
}
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


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment a command gets: a list of harmless names, nothing secret."""
    passed = {
        name: value
        for name, value in environment.items()
        if (name in _PASSED_ON or name.startswith("LC_")) and not _SECRET.search(name)
    }
    return {**passed, **_SET}


async def execute_terminal(arguments: dict[str, Json], context: ToolContext) -> ToolOutcome:
    """Run a command and return its exit code and output.

    Told to stop or out of time, it gets SIGINT, SIGTERM, SIGKILL within two seconds. Cancelling
    kills it. Either way nothing that it started outlives the call.

    Raises:
        WorldTrouble: there is no shell, or it cannot be started.
    """
    import shutil

    wanted = typed(arguments, ExecuteTerminal)
    shell = shutil.which("bash") or "/bin/sh"
    output = Output(context.progress)
    try:
        ended = await run_command(
            [shell, "-c", wanted.command],
            folder=context.workspace,
            environment=command_environment(os.environ),
            timeout_s=wanted.timeout_s,
            stop=context.stop,
            sink=output,
        )
    except (OSError, ValueError) as error:
        raise WorldTrouble(f"The command could not be started: {error}.") from error
    outcome, words = verdict(ended, wanted.timeout_s)
    return ToolOutcome(outcome=outcome, text=f"{words}\n\n{output.text() or '(no output)'}")


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
        how += f"\n[{ended.left_behind} background processes outlived it and were ended]"
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
        while self._untold_chars - len(self._untold[0]) > _PROGRESS_CHARS:
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
        text = "".join(self._untold)[-_PROGRESS_CHARS:]
        self._untold.clear()
        self._untold_chars = 0
        self._told_at = time.monotonic()
        if text:
            self._progress(text)

    def _keep(self, piece: str) -> None:
        room = self._half - self._head_chars
        if room > 0:
            self._head.append(piece[:room])
            self._head_chars += len(piece[:room])
            piece = piece[room:]
        if not piece:
            return
        self._tail.append(piece)
        self._tail_chars += len(piece)
        while self._tail_chars - len(self._tail[0]) >= self._half:
            gone = len(self._tail.popleft())
            self._tail_chars -= gone
            self._left_out += gone

    def text(self) -> str:
        """Return what was kept, the rest counted; called when the command has ended."""
        self._keep(self._decoder.decode(b"", final=True))
        tail = "".join(self._tail)
        kept = tail[-self._half :]
        left_out = self._left_out + len(tail) - len(kept)
        if self._untold:
            self._tell()
        return joined("".join(self._head), left_out, kept)


TOOLS: tuple[Tool, ...] = (
    Tool(
        spec=ToolSpec(
            name="execute_terminal",
            description="Run a bash command in the workspace and get its exit code and output "
            "(both streams). No input, no terminal. Background processes end with the command.",
            parameters=parameters_of(ExecuteTerminal),
            effect="once",
            timeout_s=MAX_TIMEOUT_S + 2 * KILL_S,
            needs_approval=True,
        ),
        function=execute_terminal,
    ),
)

"""execute_terminal: one command, its output, its end.

How a command is run follows from its words, and is shown before it is run: one that only looks, started
so that it can do no more; one in the sandbox, where there is one; or one as it is, with the person's
rights. The plan and the call decide that alike.
"""

import asyncio
import codecs
import os
import re
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from midstream.config.portable import SIGKILL
from midstream.core.background import ENDED, RUNS, handle_of
from midstream.language.errors import UserMistake, WorldTrouble, clip
from midstream.language.names import Json, Outcome
from midstream.language.spec import ToolSpec
from midstream.runtime.background import Command
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.safety.capability import Capability, quoted
from midstream.safety.command_line import outside, read_command
from midstream.safety.read_only_commands import is_harmless
from midstream.safety.redaction import MARGIN
from midstream.safety.rules import ANY_HOST, host_of
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import call_soon, in_thread
from midstream.system.own_process import beginning, ending
from midstream.system.programs import command_environment
from midstream.system.supervisor import KILL_S, Box, Ended, Sink, run_command
from midstream.tools import read_only_launch
from midstream.tools.base import Planned, Tool, parameters_of, typed
from midstream.tools.tool_text import joined

if TYPE_CHECKING:
    from midstream.tools.sandbox.guarded_files import Guarded
    from midstream.tools.sandbox.masks import Masks
    from midstream.tools.sandbox.proxy import Proxy
    from midstream.tools.sandbox.sandbox import Sandbox

MAX_OUTPUT_CHARS: Final = 40_000
DEFAULT_TIMEOUT_S: Final = 120.0
MAX_TIMEOUT_S: Final = 1_800.0

_A_WEEK_S: Final = 7 * 86_400.0
_FIRST_S: Final = 0.5
"""Seconds in which a command in the background may end and be told of at once."""

RECENT_CHARS: Final = 100_000
"""Characters that are kept of what a command in the background prints, the last ones."""

_NO_OUTPUT: Final = "(no output)"
_PROGRESS_EVERY_S: Final = 0.05
_PROGRESS_CHARS: Final = 4_000

_SHELLS: Final = (
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/run/current-system/sw/bin/bash",
)
_FATAL: Final = frozenset({signal.SIGINT, signal.SIGTERM, SIGKILL})


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
        Annotated[list[Annotated[str, msgspec.Meta(max_length=260)]], msgspec.Meta(max_length=32)]
        | bool,
        msgspec.Meta(
            description="The hosts it has to reach, each by its name, such as pypi.org and "
            'files.pythonhosted.org. A person is asked for each. ["*"] is any host: only where '
            "names will not do.",
        ),
    ] = []
    sandbox: Annotated[
        bool,
        msgspec.Meta(
            description="false to run it outside the sandbox, such as git commit. A person is "
            "asked for that."
        ),
    ] = True
    background: Annotated[
        bool,
        msgspec.Meta(
            description="true for what goes on, such as a server or a watcher: the call returns a "
            "handle at once, and `tasks` tells of it. It ends with this session; timeout_s is not for it."
        ),
    ] = False


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """How a command is started, and what that needs. `words` say it to a person.

    `shortfall` says why not all of the workspace could be looked at, so that not all is locked. `hosts`
    are those it named; one that is boxed reaches no other, unless that is any. `installed` are folders of
    installed packages that it may change. `masks` is what it cannot read of the workspace.
    `plain` is how one is started that only looks.
    """

    argv: tuple[str, ...]
    environment: dict[str, str]
    requests: tuple[Capability, ...]
    words: str
    is_boxed: bool = False
    shortfall: str = ""
    hosts: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    masks: "Masks | None" = None
    plain: read_only_launch.Start | None = None

    @property
    def binds(self) -> str:
        """Return what holds the call to what it was judged by."""
        return "\n".join(f"{each} {each.left_out}" for each in self.requests)


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
        start = self._start(wanted, context)
        return Planned(
            requests=start.requests,
            shows=shown(wanted, context.workspace, start.words),
            binds=start.binds,
        )

    async def run(self, arguments: dict[str, Json], context: ToolContext) -> ToolOutcome:
        """Run a command and return its exit code and output.

        Told to stop or out of time, it gets SIGINT, SIGTERM, SIGKILL within two seconds. Cancelling
        kills it. Either way nothing that it started outlives the call.

        Raises:
            WorldTrouble: there is no shell, or it or the sandbox cannot be started.
        """
        wanted = typed(arguments, ExecuteTerminal)
        start = await in_thread(partial(self._start, wanted, context))
        if context.binds not in ("", start.binds):
            # What only looked when it was judged would do more by now, or the other way round.
            text = "Not run: the files it names are not what they were a moment ago. Call it again."
            return ToolOutcome(outcome="not_run", text=text)
        before = await in_thread(partial(self._guarded, start, context.workspace))
        if before is not None and before.shortfall and not start.shortfall:
            # It was judged as one with all of that locked.
            text = f"Not run: {_seen_in_part(before.shortfall)}. Call it again: a person is asked."
            return ToolOutcome(outcome="not_run", text=text)
        if wanted.background:
            return await self._begun(wanted, start, before, context)
        output = Output(context.progress)
        outcome, words = await self._ran(
            start, before, context.workspace, output, context.stop, wanted.timeout_s
        )
        return ToolOutcome(outcome=outcome, text=f"{words}\n\n{output.text() or _NO_OUTPUT}")

    async def _begun(
        self,
        wanted: ExecuteTerminal,
        start: Start,
        before: "Guarded | None",
        context: ToolContext,
    ) -> ToolOutcome:
        """Begin a command that goes on; what is over in a moment is told at once."""
        # A git worktree is put away once it is merged: what went on there would write into nothing.
        if context.background is None or context.worktrees:
            raise UserMistake(
                "Nothing can go on in the background here.", hint="Run it without background."
            )
        output = Output(first=0, last=RECENT_CHARS)

        async def work(command: Command) -> tuple[Outcome, str]:
            loop = asyncio.get_running_loop()
            output.tell = lambda _: call_soon(loop, command.changed.set)
            workspace = context.workspace
            return await self._ran(start, before, workspace, output, command.stop, _A_WEEK_S)

        handle = handle_of(context.call)
        command = context.background.begin(handle, wanted.command, work, output)
        try:
            async with asyncio.timeout(_FIRST_S):
                while command.ended is None:
                    command.changed.clear()
                    await command.changed.wait()
        except TimeoutError:
            text = f"{handle} {RUNS}. `tasks` tells what becomes of it."
            return ToolOutcome(outcome="completed", text=f"{text}\n\n{output.text() or _NO_OUTPUT}")
        except asyncio.CancelledError:
            command.stop.set()  # nobody has its handle
            raise
        outcome, words = command.ended
        return ToolOutcome(
            outcome=outcome,
            text=f"{handle} {ENDED} at once. {words}\n\n{output.text() or _NO_OUTPUT}",
        )

    async def _ran(
        self,
        start: Start,
        before: "Guarded | None",
        workspace: Path,
        output: "Output",
        stop: asyncio.Event,
        timeout_s: float,
    ) -> tuple[Outcome, str]:
        """Run a command to its end; return how it ended, and the words for that.

        Raises:
            WorldTrouble: it or the sandbox cannot be started.
        """
        opening = await in_thread(partial(_way_out, start))
        try:
            async with opening as proxy:
                box = self._box(workspace, start, before, proxy) if before else None
                if start.plain is not None:
                    box = self._looking_box(start.plain, workspace)
                ended = await run_command(
                    start.argv,
                    folder=workspace,
                    environment=start.environment,
                    timeout_s=timeout_s,
                    stop=stop,
                    sink=output,
                    box=box,
                )
        except (OSError, ValueError) as error:
            raise WorldTrouble(
                f"The command could not be started: {error}.",
                hint="midstream doctor looks for the programs it takes.",
            ) from error
        output.tell_rest()
        text = output.text()
        if start.is_boxed or (start.plain is not None and start.plain.is_boxed):
            ended = as_told(ended)
            if ended.exit_code == 1 and text.startswith("bwrap: "):
                raise WorldTrouble(
                    f"The sandbox could not be started: {text.strip()}",
                    hint="midstream doctor --sandbox says what it can do here.",
                )
        outcome, words = verdict(ended, timeout_s)
        if start.is_boxed and outcome == "failed":
            words += (
                f"\n[it ran with {start.words}; only the workspace and /tmp can be written. "
                "With sandbox: false a person is asked to let it run outside]"
            )
        words += _told_unseen(start)
        if proxy is not None and proxy.refused:
            hosts = "; ".join(f"{host}: {why}" for host, why in proxy.refused.items())
            words += f"\n[not reached: {hosts}. It reaches what it names in `network`]"
        after = await in_thread(partial(self._guarded, start, workspace))
        if before is not None and after is not None:
            words += _told(before, after)
        return outcome, words

    def _start(self, wanted: ExecuteTerminal, context: ToolContext) -> Start:
        """Return how to run a command. Blocks: it looks at files, and may ask git."""
        workspace = context.workspace
        command, hosts = read_command(wanted.command), hosts_of(wanted.network)
        plain = None
        if command.kind == "exec" and is_harmless(command.argv):
            # With a network it is not started as `looking` says, so it is not the harmless one.
            plain = None if hosts else self._look(command, wanted, context)
            if plain is None:
                # By its words it only looks; here it would do more. So it is a line like every other.
                command = Capability(kind="shell", target=wanted.command)
        if plain is not None:
            where = "no sandbox, on files that are opened first"
            if plain.is_boxed:
                where = "the sandbox, read-only and without network"
            return Start(
                argv=plain.argv,
                environment=plain.environment,
                requests=(_leaving_out(command, plain.left_out), *plain.reads),
                words=f"{where}, as it only looks: it is run as {quoted(plain.argv)}",
                plain=plain,
            )
        trouble = "" if self._sandbox is None else self._sandbox.unfit(workspace)
        is_boxed = self._sandbox is not None and not trouble and wanted.sandbox
        level = "none" if self._sandbox is None or trouble else self._sandbox.level
        shortfall, installed = "", tuple[str, ...]()
        if is_boxed and self._sandbox is not None:
            seen = self._sandbox.seen(workspace)
            # What reaches hosts is for installing, mostly, and into there.
            shortfall, installed = seen.shortfall, seen.installed if hosts else ()
        if shortfall:
            level, trouble = "partial", _seen_in_part(shortfall)
        masks = self._masks(command, context) if is_boxed and level == "full" else None
        requests = [command]
        if masks is not None and not masks.shortfall:
            kept = context.kept_from(command)
            requests = [_leaving_out(command, tuple(rule.text for rule in kept))]
        if not (is_boxed and level == "full"):
            requests.append(outside(command))
        requests += [Capability(kind="net", target=host) for host in hosts]
        words = "no sandbox: it can do whatever you can" + (", and reach any host" if hosts else "")
        if is_boxed:
            words = f"the sandbox ({level}) and {_network_words(hosts)}{_unseen_words(masks)}"
            changed = map(os.path.normpath, installed)
            requests += [Capability(kind="write_protected", target=each) for each in changed]
        return Start(
            argv=_shell_argv(command, wanted.command),
            environment=command_environment(os.environ),
            requests=tuple(requests),
            words=f"{words} ({trouble})" if trouble else words,
            is_boxed=is_boxed,
            shortfall=shortfall,
            hosts=hosts,
            installed=installed,
            masks=masks,
        )

    def _masks(self, command: Capability, context: ToolContext) -> "Masks | None":
        """Return what a command in the sandbox is kept from reading, None where no rule is about that."""
        kept = context.kept_from(command)
        if not kept or self._sandbox is None:
            return None
        from midstream.tools.sandbox.masks import Masks, found_masks

        if _HISTORY.search(command.target):
            return Masks(shortfall="it asks the repository, which may hold that, too")
        if not self._sandbox.can_mask():
            return Masks(shortfall="the sandbox here cannot put that out of sight")
        return found_masks(context.workspace, kept)

    def _look(
        self, command: Capability, wanted: ExecuteTerminal, context: ToolContext
    ) -> "read_only_launch.Start | None":
        workspace, kept = context.workspace, context.kept_from(command)
        is_boxed = self._sandbox is not None and self._sandbox.can_look(workspace)
        try:
            return read_only_launch.looking(command.argv, workspace, is_boxed=is_boxed, kept=kept)
        except UserMistake:
            if wanted.sandbox:
                raise
            # A person is asked about it, as about every line that is to run outside.
            return None

    def _looking_box(self, plain: "read_only_launch.Start", workspace: Path) -> Box:
        if self._sandbox is None or not plain.is_boxed:
            return partial(read_only_launch.Opened, plain, workspace)
        from midstream.tools.sandbox.launch import Inside

        return partial(self._sandbox.wrapped, Inside(workspace=workspace, looks_at=plain.places))

    def _guarded(self, start: Start, workspace: Path) -> "Guarded | None":
        return self._sandbox.guarded(workspace) if start.is_boxed and self._sandbox else None

    def _box(self, workspace: Path, start: Start, guarded: "Guarded", proxy: "Proxy | None") -> Box:
        from midstream.tools.sandbox.launch import Inside

        assert self._sandbox is not None
        inside = Inside(
            workspace=workspace,
            network=start.hosts == (ANY_HOST,),
            guarded=guarded.without(start.installed),
            masks=_in_force(start.masks),
            proxy=proxy,
        )
        return partial(self._sandbox.wrapped, inside)


def _seen_in_part(shortfall: str) -> str:
    return (
        "not all of the workspace could be looked through for files that decide what runs later: "
        f"{shortfall}; the rest of them can be changed"
    )


def hosts_of(network: list[str] | bool) -> tuple[str, ...]:
    """Return the hosts a command names, each in its one spelling; `("*",)` is any host, as is True.

    Raises:
        UserMistake: one is no host.
    """
    if isinstance(network, bool) or ANY_HOST in network:
        return (ANY_HOST,) if network else ()
    found = []
    for each in network:
        host = host_of(each)
        if host is None:
            raise UserMistake(
                f'"{clip(each)}" is no host.',
                hint="Name each host by itself, such as pypi.org or 127.0.0.1:8080, without a path.",
            )
        found.append(":".join(filter(None, host)))
    return tuple(dict.fromkeys(found))


def _network_words(hosts: tuple[str, ...]) -> str:
    if hosts == (ANY_HOST,):
        return "the network, shared: any host"
    return f"of the network only {', '.join(hosts)}" if hosts else "no network"


_HISTORY: Final = re.compile(r"(?<![\w.-])(?:git|hg|svn|jj|sl|bzr|pijul|darcs|gh)(?![\w-])")
"""What asks a repository for more than the files there are: with that out of sight it would only fail."""


def _leaving_out(command: Capability, left_out: tuple[str, ...]) -> Capability:
    return msgspec.structs.replace(command, left_out=left_out)


def _in_force(masks: "Masks | None") -> "Masks":
    from midstream.tools.sandbox.masks import NO_MASKS

    # What cannot be kept from it whole is not kept from it: a person was asked about that.
    return NO_MASKS if masks is None or masks.shortfall else masks


def _unseen_words(masks: "Masks | None") -> str:
    if masks is None:
        return ""
    if masks.shortfall:
        return f"; it can read what a rule of yours is about ({sanitized(masks.shortfall)})"
    return f"; it cannot read {_some(masks.names)}" if masks.names else ""


def _told_unseen(start: Start) -> str:
    """Return the line on what the rules on reading kept from a command."""
    names = _in_force(start.masks).names
    if names:
        return (
            f"\n[it could not read {_some(names)}: a rule on reading is about that, or its history. "
            "With sandbox: false a person is asked]"
        )
    rules = start.plain.left_out if start.plain is not None else ()
    return f"\n[left out, by the rules: {_some(rules)}]" if rules else ""


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_TOLD
    said = ", ".join(sanitized(name) for name in names[:_MOST_TOLD])
    return f"{said} and {more:,} more" if more > 0 else said


def _way_out(start: Start) -> AbstractAsyncContextManager["Proxy | None"]:
    if not start.is_boxed or start.hosts in ((), (ANY_HOST,)):
        return nullcontext()
    from midstream.tools.sandbox.proxy import proxy_to

    return proxy_to(start.hosts)


_MOST_TOLD: Final = 20


def _told(before: "Guarded", after: "Guarded") -> str:
    """Return the lines on what became of the files that decide what runs later, and of sockets."""
    from midstream.tools.sandbox.guarded_files import told_changes

    text = ""
    for verb, paths in told_changes(before, after):
        names = _some(paths)
        why = "a program outside opened that while it ran"
        if verb != "could reach":
            why = "what decides what runs later should be looked at"
        text += f"\n[it {verb} {names}: {why}]"
    if after.shortfall:
        text += f"\n[{_seen_in_part(after.shortfall)}]"
    return text


def shown(wanted: ExecuteTerminal, workspace: Path, words: str) -> str:
    """Return exactly what would be run, with where and how, as a person reads it before the yes."""
    command = read_command(wanted.command)
    first, *more = sanitized(wanted.command.replace("\r", "\u240d")).split("\n")
    lines = [f"$ {first}", *(f"> {line}" for line in more)]
    if command.kind == "exec":
        lines = [f"$ {quoted(command.argv)}"]
    if wanted.background:
        lines.append("in the background: it goes on when the call has ended")
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

    One that we ended and saw end is `stopped`: what it had done until then stays. One that could not be
    ended is `unknown`: nobody has seen what becomes of it.
    """
    code = ended.exit_code
    how = f"Exit code: {code}" if code >= 0 else f"Ended by {signal.Signals(-code).name}"
    outcome: Outcome = "completed" if code == 0 else "failed"
    if ended.cause == "stopped" and code == 0:
        how += " (after it was told to stop)"
    elif ended.cause in ("stopped", "timed_out"):
        outcome = "stopped"
        was_late = (
            f", when its time of {timeout_s:g} s was over" if ended.cause == "timed_out" else ""
        )
        how = f"Stopped after {_span(ended.ran_s)}{was_late}. {how}. What it had done until then stays."
    if ended.left_behind:
        them = "process" if ended.left_behind == 1 else "processes"
        was = "was" if ended.left_behind == 1 else "were"
        how += f"\n[{ended.left_behind} background {them} outlived it and {was} ended]"
    if ended.survivors:
        outcome = "unknown"
        how += f"\n[could not be ended, still running: {', '.join(map(str, ended.survivors))}]"
    return outcome, how


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"


class _Last:
    """The last characters of a text that comes in pieces, with a margin, and how many came before them."""

    def __init__(self, chars: int) -> None:
        self.left_out = 0
        self._most = chars + MARGIN
        self._pieces: deque[str] = deque()
        self._chars = 0

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._chars += len(piece)
        while self._chars - len(self._pieces[0]) >= self._most:
            gone = len(self._pieces.popleft())
            self._chars -= gone
            self.left_out += gone

    def text(self) -> str:
        return "".join(self._pieces)


class Output(Sink):
    """A command's output: its first and its last characters are kept, and `tell` hears what is new, a few
    times a second, in the command's thread.
    """

    def __init__(
        self,
        tell: Callable[[str], object] = lambda _: None,
        *,
        first: int = MAX_OUTPUT_CHARS // 2,
        last: int = MAX_OUTPUT_CHARS // 2,
    ) -> None:
        self.tell = tell
        self._first, self._last = first, last
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self._head = ""
        self._tail = _Last(last)
        self._untold: _Last | None = None
        self._told_at = 0.0

    def feed(self, data: bytes) -> bool:
        """Take the next piece. More is always wanted: a full pipe would block the command."""
        with self._lock:
            piece = self._decoder.decode(data)
            room = self._first - len(self._head)
            self._head += piece[:room]
            self._tail.add(piece[room:])
        self._untold = self._untold or _Last(_PROGRESS_CHARS)
        self._untold.add(piece)
        return True

    def tick(self) -> float | None:
        """Tell on what has come in, unless something was told a moment ago."""
        if self._untold is None:
            return None
        wait = self._told_at + _PROGRESS_EVERY_S - time.monotonic()
        if wait > 0:
            return wait
        self.tell_rest()
        return None

    def tell_rest(self) -> None:
        """Tell on what has not been told yet."""
        text = "" if self._untold is None else self._untold.text()
        self._untold, self._told_at = None, time.monotonic()
        if text:
            self.tell(ending(text, _PROGRESS_CHARS) if len(text) > _PROGRESS_CHARS else text)

    def text(self) -> str:
        """Return what is kept, the rest counted; from any thread, while the command runs, too."""
        with self._lock:
            head, gone = self._head, self._tail.left_out
            half_a_character = self._decoder.getstate()[0].decode("utf-8", "replace")
            tail = self._tail.text() + half_a_character
        left_out = len(head) + gone + len(tail) - self._first - self._last
        both = head + tail
        if left_out <= 0:
            return both
        return joined(beginning(both, self._first), left_out, ending(both, self._last))


_SPEC: Final = ToolSpec(
    name="execute_terminal",
    description="Run a bash command in the workspace and get its exit code and output "
    "(both streams). No input, no terminal. Background processes end with the command: a server "
    "or watcher is a call with background: true. "
    "There may be a sandbox: then nothing outside the workspace and /tmp can be written, home is "
    "empty, .git is read-only, and no host is reached but those named in `network`.",
    parameters=parameters_of(ExecuteTerminal),
    effect="once",
    timeout_s=MAX_TIMEOUT_S + 2 * KILL_S,
    reviewed=True,
)

"""What the workspace's own checkers say of a change: the problems that were not there before it.

A checker is a command found by the project's files, or one of the settings. It runs before the first
change of a reply and after the last, as a command of the agent would: judged by the policy, in the
sandbox; where a person would have to be asked it does not run. What both say is compared by file and
message, since an edit moves lines. The change is journaled as done before it is checked: whatever ends
the check, be it words or a crash, the edit stands with its own result.
"""

import asyncio
import os
import re
import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from midstream.config.project_files import tables_of
from midstream.core.costs import counted
from midstream.language.errors import MidstreamError
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.safety.capability import SHOWN
from midstream.safety.sanitize import sanitized
from midstream.system.offloop import in_thread, unless_stopped
from midstream.system.own_process import beginning
from midstream.system.programs import found_program
from midstream.tools.base import check_stop
from midstream.tools.tool_text import in_one_line, shortened

BEFORE_S: Final = 10.0
AFTER_S: Final = 20.0
"""Seconds the checkers get before a change and after it. What has not come by then does not come."""

MAX_SHOWN: Final = 10
MAX_PROBLEM_CHARS: Final = 300
_MAX_LINE: Final = 2_000
_MAX_FILES: Final = 50

FILES: Final = "{files}"
"""What in a command stands for the files that were changed."""

_PLACES: Final = (".venv/bin", "venv/bin", "node_modules/.bin")
"""Where a project has programs of its own, which come before those of the machine."""

_CUT: Final = "characters left out ...]"
_LINE: Final = re.compile(
    r"\s*(?:vet: )?(\S.*?)(?:\((\d+)(?:,\d+)?\)|:(\d+)(?::\d+)?)(?::| -) +(\S.*)"
)
"""`file:line:col: message`, with a column or without; `file:line - message`; `file(line,col): message`."""

_UNDER_FILE: Final = re.compile(r" +(\d+):\d+ +(?:error|warning) +(\S.*)")
"""eslint's lines, which stand below the file's path."""

_MOVING: Final = re.compile(r"\bline \d+")
"""Lines that a message names: they move as its own does."""


class Checker(msgspec.Struct, frozen=True, kw_only=True):
    """A command that names problems of files, and which files it is for (patterns of names).

    One without `{files}` looks at all of the project.
    """

    name: str
    command: str
    patterns: tuple[str, ...]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What a checker said of a file; `line` counts from 1."""

    file: str
    line: int
    message: str

    @property
    def key(self) -> tuple[str, str]:
        """Return what makes it the same problem wherever it has moved to."""
        return self.file, _MOVING.sub("line", self.message)


Runner: TypeAlias = Callable[[str, float, ToolContext], Awaitable[ToolOutcome]]
"""Runs a command line for at most so many seconds; `denied` says why it is not run: see `ToolManager`."""

# --- which there are ----------------------------------------------------------------------------

_PYTHON: Final = ("*.py", "*.pyi")
_SCRIPT: Final = ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.ts", "*.tsx", "*.mts", "*.cts")


class _Known(msgspec.Struct, frozen=True):
    """A checker midstream knows: the files at a project's top, or the table of its pyproject.toml, that
    say it is used; none: it is used wherever it is installed.
    """

    command: str
    patterns: tuple[str, ...]
    files: tuple[str, ...] = ()
    table: str = ""


_KNOWN: Final = (
    _Known(
        "ruff check --quiet --no-cache --output-format=concise {files}",
        _PYTHON,
        ("ruff.toml", ".ruff.toml"),
        "ruff",
    ),
    _Known("mypy --no-pretty --no-error-summary", _PYTHON, ("mypy.ini", ".mypy.ini"), "mypy"),
    _Known("pyright", _PYTHON, ("pyrightconfig.json",), "pyright"),
    _Known(
        "eslint {files}",
        _SCRIPT,
        tuple(f"eslint.config.{end}" for end in ("js", "mjs", "cjs", "ts"))
        + tuple(f".eslintrc.{end}" for end in ("js", "cjs", "json", "yml", "yaml")),
    ),
    _Known("tsc --noEmit --pretty false", _SCRIPT[4:], ("tsconfig.json",)),
    _Known("cargo check --quiet --offline --message-format short", ("*.rs",), ("Cargo.toml",)),
    _Known("go vet ./...", ("*.go",), ("go.mod",)),
    _Known("shellcheck --format gcc {files}", ("*.sh", "*.bash")),
)
"""The checkers that are found by themselves."""


def found_checkers(workspace: Path) -> tuple[Checker, ...]:
    """Return the checkers a project uses and that are installed. Waits for the disk."""
    tables = tables_of(workspace)
    found: list[Checker] = []
    for known in _KNOWN:
        name, _, rest = known.command.partition(" ")
        is_used = any((workspace / file).is_file() for file in known.files)
        if known.files and not (is_used or (known.table and known.table in tables)):
            continue
        program = _program(name, workspace)
        if not program:
            continue
        if name == "mypy" and not {"files", "packages", "modules"} & tables.get(name, set()):
            rest += f" {FILES}"
        found.append(
            Checker(name=name, command=f"{program} {rest}".strip(), patterns=known.patterns)
        )
    return tuple(found)


def _program(name: str, workspace: Path) -> str:
    """Return how a program is called in a workspace, "" where it is not installed."""
    own = (f"{place}/{name}" for place in _PLACES if (workspace / place / name).is_file())
    return next(own, "") or (name if found_program(name, workspace) else "")


def set_checkers(said: Mapping[str, Sequence[str]]) -> tuple[Checker, ...]:
    """Return the checkers of the settings: commands, by the patterns of the files they are for."""
    return tuple(
        Checker(name=_name_of(command), command=command, patterns=tuple(patterns.split()))
        for patterns, commands in said.items()
        for command in commands
    )


def _name_of(command: str) -> str:
    return in_one_line(command.split()[0].rpartition("/")[2])[:40]


# --- what they say ------------------------------------------------------------------------------


def problems_in(text: str, workspace: Path) -> list[Problem]:
    """Return the problems of files of the workspace that a checker's output names, in order."""
    workspace = Path(os.path.realpath(workspace))
    found: list[Problem] = []
    above = ""
    for each in text.splitlines():
        text = beginning(each, _MAX_LINE)
        if text.startswith(f"{workspace}/") and not _LINE.fullmatch(text):
            above = _own_file(text, workspace)
        elif above and (match := _UNDER_FILE.fullmatch(text)):
            found.append(_problem(above, match[1], match[2]))
        elif match := _LINE.fullmatch(text):
            file = _own_file(match[1], workspace)
            if file and not match[4].startswith("note:"):
                found.append(_problem(file, match[2] or match[3], match[4]))
    return found


def _problem(file: str, line: str, message: str) -> Problem:
    clean = in_one_line(sanitized(" ".join(message.replace("[*] ", "").split())))
    return Problem(file=file, line=int(line[:9]), message=shortened(clean, MAX_PROBLEM_CHARS))


def _own_file(name: str, workspace: Path) -> str:
    """Return the path of a file from the workspace's root, "" for one outside of it."""
    own = name.removeprefix(f"{workspace}/").removeprefix("./")
    is_outside = own.startswith(("/", "~")) or ".." in own.split("/")
    return "" if is_outside else shortened(in_one_line(sanitized(own)), MAX_PROBLEM_CHARS)


def new_problems(before: Sequence[Problem], after: Sequence[Problem]) -> list[Problem]:
    """Return the problems that are there more often than before, by file and message."""
    known = Counter(problem.key for problem in before)
    found: list[Problem] = []
    for problem in after:
        if known[problem.key]:
            known[problem.key] -= 1
        else:
            found.append(problem)
    return found


# --- before and after a change ------------------------------------------------------------------


class _Batch:
    """The changes of one reply of an agent that have not been checked yet."""

    def __init__(self) -> None:
        self.before: dict[Checker, list[Problem] | None] = {}
        """What was said before; None where that cannot be known, so that nothing is compared."""
        self.files: dict[Checker, list[str]] = {}


class Diagnostics:
    """Looks at what calls change.

    Args:
        said: the commands of the settings, by patterns; None: those found by the project's files.
    """

    def __init__(self, said: Mapping[str, Sequence[str]] | None = None) -> None:
        self._said = said
        self._open: dict[tuple[str, str, Path], _Batch] = {}
        self._told: set[str] = set()
        """The commands of which a person was told that they do not look."""

    def checkers(self, workspace: Path) -> tuple[Checker, ...]:
        """Return the checkers there are now. Waits for the disk: an agent may have set the project up."""
        said = self._said
        return found_checkers(workspace) if said is None else set_checkers(said)

    def batch(self, context: ToolContext) -> _Batch:
        """Return the changes of an agent that are not checked yet."""
        return self._open.setdefault((context.run, context.agent, context.workspace), _Batch())

    def take_batch(self, context: ToolContext) -> _Batch | None:
        """Return them, and have none open."""
        return self._open.pop((context.run, context.agent, context.workspace), None)

    def is_first(self, checker: Checker) -> bool:
        """Return whether a person has not been told yet that a checker does not look."""
        is_first = checker.command not in self._told
        self._told.add(checker.command)
        return is_first


def diagnostics_of(said: Mapping[str, Sequence[str]] | bool) -> Diagnostics | None:
    """Return what looks at changes by the setting, None where nothing is to."""
    return None if said is False else Diagnostics(None if said is True else said)


class Watch:
    """One call, and what is said of its changes. `context` is what the call is to be made with."""

    def __init__(self, diagnostics: Diagnostics, context: ToolContext, runner: Runner) -> None:
        self._all = diagnostics
        self._around = context
        self._runner = runner
        self._notes: dict[str, list[str]] = {}
        self.context = msgspec.structs.replace(context, changing=self._changing)

    async def _changing(
        self,
        path: Path,
        before: bytes | None,
        after: bytes | None,
        folders: Sequence[Path] = (),
        /,
    ) -> None:
        """Have the checkers look at a file before it changes, and let it be changed."""
        await unless_stopped(self._look_before(path), self._around.stop)
        # Nothing is recorded of a change that a halt came before.
        check_stop(self._around)
        await self._around.changing(path, before, after, folders)

    async def _look_before(self, path: Path) -> None:
        try:
            root = await in_thread(partial(os.path.realpath, self._around.workspace))
            checkers = await in_thread(partial(self._all.checkers, Path(root)))
            name = str(path.relative_to(root))
            is_there = await in_thread(path.is_file)
        except (OSError, ValueError):
            return  # nothing can be looked at, which is for the call itself to find
        batch = self._all.batch(self._around)
        due: list[tuple[Checker, list[str]]] = []
        for checker in checkers:
            files = batch.files.get(checker, [])
            if not any(fnmatch(path.name, pattern) for pattern in checker.patterns):
                continue
            if name in files or len(files) >= _MAX_FILES:
                continue
            batch.files.setdefault(checker, []).append(name)
            if FILES in checker.command:
                # A file that is not there yet has no problems.
                batch.before.setdefault(checker, [])
                if is_there and batch.before[checker] is not None:
                    due.append((checker, [name]))
            elif checker not in batch.before:
                due.append((checker, []))
        known = {checker: batch.before.get(checker) or [] for checker, _ in due}
        # Until they have said something nothing is known: a look that is cut off leaves it at that.
        batch.before |= dict.fromkeys(known)
        for checker, said in await self._run_all(due, BEFORE_S):
            if said is not None:
                batch.before[checker] = [*known[checker], *said]

    async def checked(self, ended: ToolOutcome) -> ToolOutcome:
        """Return how the call ended, with what is new since before the changes, once none is to come."""
        context = self._around
        if not context.is_last_change or context.stop.is_set():
            return self._with(ended, "")
        batch = self._all.take_batch(context)
        due = [
            (checker, files)
            for checker, files in (batch.files.items() if batch is not None else ())
            if batch is not None and batch.before[checker] is not None
        ]
        if batch is None or not due:
            return self._with(ended, "")
        try:
            await context.done(ended)
        except MidstreamError:
            return ended  # the journal takes nothing: the call's own end will wait for it
        found = await unless_stopped(self._run_all(due, AFTER_S), context.stop)
        compared = {
            checker.name: new_problems(batch.before[checker] or [], said)
            for checker, said in found or ()
            if said is not None
        }
        return self._with(ended, words_for_model(compared) if compared else "")

    def _with(self, ended: ToolOutcome, words: str) -> ToolOutcome:
        first, is_more, _ = words.partition("\n")
        unchecked = (f"not checked with {', '.join(by)}: {why}" for why, by in self._notes.items())
        notes = [*([first.strip("[]")] if is_more else []), *unchecked]
        text = f"{ended.text}\n\n{words}" if words else ended.text
        return msgspec.structs.replace(ended, text=text, note="; ".join(notes))

    async def _run_all(
        self, due: Sequence[tuple[Checker, list[str]]], timeout_s: float
    ) -> list[tuple[Checker, list[Problem] | None]]:
        """Return what the checkers say, side by side; None for one that said nothing to be compared."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                (checker, group.create_task(self._run(checker, files, timeout_s)))
                for checker, files in due
            ]
        return [(checker, task.result()) for checker, task in tasks]

    async def _run(
        self, checker: Checker, files: list[str], timeout_s: float
    ) -> list[Problem] | None:
        names = " ".join(shlex.quote(f"./{file}") for file in files)
        granted = tuple(each for each in self._around.granted if not each.startswith(SHOWN))
        # What it does is neither shown as the call's nor recorded as its change.
        context = ToolContext(
            workspace=self._around.workspace,
            run=self._around.run,
            agent=self._around.agent,
            stop=self._around.stop,
            progress=_unheard,
            granted=granted,
            worktrees=self._around.worktrees,
        )
        try:
            ran = await self._runner(checker.command.replace(FILES, names), timeout_s, context)
            _, _, output = ran.text.partition("\n\n")
            problems = await in_thread(partial(problems_in, output, self._around.workspace))
        except Exception as error:  # whatever goes wrong with a look, the change is not its affair
            self._note(checker, f"{type(error).__name__}: {error}")
            return None
        if ran.outcome == "denied":
            self._note(checker, ran.text)
            return None
        if ran.outcome == "completed" or (ran.outcome == "failed" and problems):
            if _CUT in output:
                self._note(checker, "it names too many problems to compare")
                return None
            return problems
        last = "it took too long"
        if ran.outcome != "stopped":
            last = f"it failed: {(output.strip().splitlines() or ['?'])[-1]}"
        self._note(checker, last)
        return None

    def _note(self, checker: Checker, why: str) -> None:
        """Have a person told that a checker does not look, and why: the first time in a session."""
        if self._all.is_first(checker):
            clean = shortened(in_one_line(sanitized(why)), MAX_PROBLEM_CHARS)
            self._notes.setdefault(clean, []).append(checker.name)


def words_for_model(found: Mapping[str, Sequence[Problem]]) -> str:
    """Return what a model is told of the problems that are new, by the checkers that looked."""
    names = ", ".join(found)
    if not any(found.values()):
        return f"[no new problems: {names}]"
    blamed = ", ".join(name for name, problems in found.items() if problems)
    every = [problem for problems in found.values() for problem in problems]
    lines = [f"{each.file}:{each.line}: {each.message}" for each in every[:MAX_SHOWN]]
    more = [f"+{len(every) - MAX_SHOWN} more"] if len(every) > MAX_SHOWN else []
    return "\n".join((f"[{counted(len(every), 'new problem')}: {blamed}]", *lines, *more))


def _unheard(_text: str) -> None:
    """Tell nobody: what a checker prints is compared, not shown."""

"""Looking around: list_directory, find_files and exact_search.

exact_search looks for a literal text, or an expression that cannot run away (`line_patterns`). With
ripgrep on the PATH it is quick, without it the same answer takes longer: it only says which files to look
into.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from midstream.core.costs import counted
from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.runtime.ports import ToolContext
from midstream.safety.protected import classify
from midstream.safety.redaction import MARGIN
from midstream.system.hard_links import is_another_name
from midstream.system.offloop import in_thread
from midstream.system.own_process import own_redactor
from midstream.system.programs import found_program
from midstream.system.supervisor import Sink, run_command
from midstream.system.walk import Ignores, ignore_spec, is_tame, walk
from midstream.system.workspace_paths import (
    LOOK,
    Place,
    locate,
    read_bytes,
    requests_for,
    require_allowed,
)
from midstream.tools.base import Planned, Tool, check_stop, tool, tool_from
from midstream.tools.line_patterns import LinePattern, literal_text, regular_expression
from midstream.tools.tool_text import capped, in_one_line

MAX_ENTRIES: Final = 1_000
MAX_LISTED_DEPTH: Final = 8
MAX_SEARCHED_BYTES: Final = 5_000_000
MAX_SEARCHED_FILES: Final = 20_000
"""Files with a match that are looked into; no answer shows as many."""
SHOWN_LINE_CHARS: Final = 300
_SNIFFED_BYTES: Final = 65_536

_IncludeIgnored = Annotated[
    bool, msgspec.Meta(description="Also what .gitignore leaves out and hidden folders hold.")
]

# --- list_directory -----------------------------------------------------------------------------


@tool(effect="read", timeout_s=30)
def list_directory(
    context: ToolContext,
    path: Annotated[str, msgspec.Meta(description="Folder, from the workspace's root.")] = ".",
    depth: Annotated[
        int, msgspec.Meta(ge=1, le=MAX_LISTED_DEPTH, description="How many levels deep.")
    ] = 2,
    include_ignored: _IncludeIgnored = False,
) -> str:
    """List files and folders of the workspace."""
    # One path a line; folders end in a slash, files have their size.
    place = locate(context.workspace, path)
    require_allowed(place, "read", context.forbids)
    lines: list[str] = []
    entries = walk(
        place,
        depth=depth,
        include_ignored=include_ignored or _is_left_out(place),
        check=partial(check_stop, context),
    )
    for entry in entries:
        if len(lines) == MAX_ENTRIES:
            lines.append(f"[... more than {MAX_ENTRIES:,}: list a folder of it, or less depth ...]")
            break
        if _is_kept_from(entry.path, context):
            continue
        name = in_one_line(entry.path)
        if entry.is_folder:
            lines.append(f"{name}/")
        elif entry.link is not None:
            lines.append(f"{name} -> {in_one_line(entry.link)}")
        else:
            lines.append(f"{name} ({_size(entry.size)})")
    return "\n".join(lines) or f"{place.name} holds nothing (that is not left out)."


def _is_kept_from(path: str, context: ToolContext) -> bool:
    """Return whether a rule keeps even a file's name back. That there is a secret may be known."""
    place = Place(root=context.workspace, parts=tuple(path.split("/")))
    if classify(place.parts).standing == "secret":
        return False
    return any(map(context.forbids, requests_for(place, "read")))


def _plan_of_looking(path: str, context: ToolContext, **_: object) -> Planned:
    return Planned(requests=requests_for(locate(context.workspace, path), "read"))


def _size(count: int) -> str:
    if count < 1_000:
        return f"{count} B"
    if count < 1_000_000:
        return f"{count / 1_000:.1f} kB"
    return f"{count / 1_000_000:.1f} MB"


def _is_left_out(place: Place) -> bool:
    """Return whether somebody named on purpose what would be left out: then all of it is meant."""
    if not place.parts:
        return False
    is_hidden = any(part.startswith(".") for part in place.parts)
    return is_hidden or Ignores(place.root).leaves_out(place.name, is_folder=True)


# --- find_files ---------------------------------------------------------------------------------


@tool(effect="read", timeout_s=60)
def find_files(
    glob: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=300,
            description="What their paths are like, as in a .gitignore: *.py at any depth, "
            "src/**/test_*.py from the root.",
        ),
    ],
    context: ToolContext,
    path: Annotated[str, msgspec.Meta(description="Folder to look in.")] = ".",
    sort: Annotated[
        Literal["path", "newest"],
        msgspec.Meta(description="By path, or what changed last first."),
    ] = "path",
    include_ignored: _IncludeIgnored = False,
    max_results: Annotated[int, msgspec.Meta(ge=1, le=MAX_ENTRIES)] = 200,
) -> str:
    """Find files of the workspace by a pattern of their paths."""
    # One path a line, as list_directory has them, with its size.
    matcher = _required_glob(glob)
    place = locate(context.workspace, path)
    require_allowed(place, "read", context.forbids)
    entries = walk(
        place,
        include_ignored=include_ignored or _is_left_out(place),
        check=partial(check_stop, context),
    )
    found = [
        entry
        for entry in entries
        if not entry.is_folder and matcher(entry.path) and not _is_kept_from(entry.path, context)
    ]
    if not found:
        return "No files."
    if sort == "newest":
        found.sort(key=lambda entry: -entry.changed_ns)
    lines = [f"{in_one_line(entry.path)} ({_size(entry.size)})" for entry in found[:max_results]]
    if len(found) > max_results:
        lines.append(f"[{max_results} of {len(found):,} files: narrow the pattern]")
    else:
        lines.append(f"[{len(found):,} file{'s'[: len(found) != 1]}]")
    return "\n".join(lines)


def _required_glob(glob: str) -> Callable[[str], bool]:
    """Return what tells whether a path fits a glob; refuse one that would leave out, or cost much."""
    if glob.startswith("!") or not is_tame(glob):
        raise UserMistake(f"The glob {glob!r} cannot be used.", hint="Use one like *.py.")
    return ignore_spec([glob]).match_file


# --- exact_search -------------------------------------------------------------------------------


@tool(effect="read", timeout_s=90)
async def exact_search(
    text: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=1_000,
            description="What to look for in one line, letter by letter unless `regex` is set.",
        ),
    ],
    context: ToolContext,
    regex: Annotated[
        bool,
        msgspec.Meta(description="The text is a regular expression in RE2's syntax (as in Go)."),
    ] = False,
    path: Annotated[str, msgspec.Meta(description="Folder or file to search.")] = ".",
    glob: Annotated[
        str, msgspec.Meta(max_length=300, description="Only files like this, such as *.py.")
    ] = "",
    ignore_case: bool = False,
    include_ignored: Annotated[
        bool, msgspec.Meta(description="Also hidden files and what .gitignore leaves out.")
    ] = False,
    max_results: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 200,
) -> str:
    """Find the lines of the workspace's files that hold a literal text, or fit a regular expression."""
    # As `path:line: text`, by path.
    if "\n" in text or "\r" in text or "\0" in text:
        raise UserMistake("The text spans lines.", hint="Search for one line of it.")
    read = regular_expression if regex else literal_text
    pattern = await in_thread(partial(read, text, ignore_case=ignore_case))
    search = await in_thread(
        partial(Search, pattern, path, context, glob, max_results, include_ignored=include_ignored)
    )
    program = found_program("rg", search.place.root)
    if program is None or not pattern.literal:
        return await in_thread(lambda: search.found(search.walked()))
    names = await _named_by_ripgrep(program, search, ignore_case=ignore_case)
    return await in_thread(partial(search.found, names))


class Search:
    """One search: which files may show up in its result, and what is found in them."""

    def __init__(
        self,
        pattern: LinePattern,
        path: str,
        context: ToolContext,
        glob: str,
        max_results: int,
        *,
        include_ignored: bool,
    ) -> None:
        self.pattern, self.context, self._max_results = pattern, context, max_results
        self.place = place = locate(context.workspace, path)
        require_allowed(place, "read", context.forbids)
        # A pipe, named by itself, would keep ripgrep waiting.
        if not place.path.is_dir() and not place.path.is_file():
            raise UserMistake(f"There is no file or folder {place.name!r} to search.", hint=LOOK)
        self.includes_ignored = include_ignored or _is_left_out(place)
        self._glob = _required_glob(glob) if glob else None
        self._ignores = None if self.includes_ignored else Ignores(place.root)

    def walked(self) -> list[str]:
        """Return the files to look into, by their paths from the workspace's root."""
        if not self.place.path.is_dir():
            return [self.place.name]
        check = partial(check_stop, self.context)
        return [
            entry.path
            for entry in walk(self.place, include_ignored=self.includes_ignored, check=check)
            if not entry.is_folder
            and entry.link is None
            and (self.includes_ignored or not Path(entry.path).name.startswith("."))
        ]

    def found(self, paths: Iterable[str]) -> str:
        """Return the lines of files that fit, the last line a summary."""
        lines: list[str] = []
        hits = 0
        for path in paths:
            check_stop(self.context)
            before = len(lines)
            for number, line in self._matching(path):
                if len(lines) == self._max_results:
                    end = f"the first {len(lines)} matches; there are more: narrow the search"
                    return _with_end(lines, end)
                lines.append(f"{in_one_line(path)}:{number}: {line}")
            hits += len(lines) > before
        if not lines:
            return "No matches."
        return _with_end(
            lines, f"{counted(len(lines), 'matching line')} in {counted(hits, 'file')}"
        )

    def _matching(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield the lines of a file that fit, with their numbers: none of what may not be shown."""
        place = Place(root=self.place.root, parts=tuple(path.split("/")))
        if not self._may_show(place):
            return
        try:
            data = read_bytes(place, max_bytes=MAX_SEARCHED_BYTES)
        except (MidstreamError, OSError):
            return
        if b"\0" in data[:_SNIFFED_BYTES]:
            return
        text = data.decode(errors="replace").replace("\r\n", "\n")
        if self.pattern.may_be_in(text):
            for number, line in enumerate(text.split("\n"), 1):
                if (at := self.pattern.find(line)) >= 0:
                    yield number, excerpt(line, at)

    def _may_show(self, place: Place) -> bool:
        if any(map(self.context.forbids, requests_for(place, "read"))):
            return False
        if is_another_name(place.root, place.parts):
            return False
        if self._glob is not None and not self._glob(place.name):
            return False
        return self._ignores is None or not self._ignores.leaves_out(place.name, is_folder=False)


def _with_end(lines: list[str], end: str) -> str:
    return f"{capped(chr(10).join(lines), 45_000)}\n[{end}]"


def excerpt(line: str, at: int) -> str:
    """Return a line; of a long one the part around a place."""
    line = line.rstrip("\r\n")
    if len(line) <= SHOWN_LINE_CHARS:
        return line
    start = max(0, at - SHOWN_LINE_CHARS // 3)
    part = line[start : start + SHOWN_LINE_CHARS]
    around = max(0, start - MARGIN)
    wide = line[around : start + SHOWN_LINE_CHARS + MARGIN]
    clean = own_redactor().redacted(wide)
    if clean != wide:
        # Cut where no half of a secret can be left.
        end = len(clean) - (MARGIN if around + len(wide) < len(line) else 0)
        part = clean[MARGIN if around else 0 : end][:SHOWN_LINE_CHARS]
    return f"{'...' if start else ''}{part}{'...' if start + len(part) < len(line) else ''}"


async def _named_by_ripgrep(program: str, search: Search, *, ignore_case: bool) -> list[str]:
    """Return the files to look into.

    ripgrep opens files by their paths, which somebody may lead elsewhere meanwhile: what is shown is what
    `read_bytes` gives.

    Raises:
        WorldTrouble: ripgrep failed.
    """
    # Ignore files are those of the workspace alone, in a git repository or not, so that the answer
    # is the same on every machine. UTF-16 counts as binary, as it does without ripgrep.
    flags = ["--no-config", "--no-messages", "--fixed-strings", "--files-with-matches", "--null"]
    flags += ["--color=never", "--no-require-git", "--encoding=none"]
    flags += ["--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot", "--no-ignore-parent"]
    flags += [f"--max-filesize={MAX_SEARCHED_BYTES}", "--sort=path", "--no-follow"]
    if ignore_case:
        flags.append("--ignore-case")
    if search.includes_ignored:
        flags += ["--no-ignore", "--hidden", "--glob=!.git"]
    names = _Names()
    ended = await run_command(
        [program, *flags, f"--regexp={search.pattern.literal}", "--", f"./{search.place.name}"],
        folder=search.place.root,
        environment={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        timeout_s=60,
        stop=search.context.stop,
        sink=names,
    )
    if ended.cause == "timed_out":
        raise WorldTrouble("The search took too long.", hint="Narrow it to a folder.")
    if not ended.cause and ended.exit_code not in (0, 1) and not names.found:
        raise WorldTrouble(
            f"ripgrep failed with exit code {ended.exit_code}.", hint="Search in a folder of it."
        )
    return names.found


class _Names(Sink):
    """ripgrep's output, a path and a NUL each."""

    def __init__(self) -> None:
        self._rest = b""
        self.found: list[str] = []

    def feed(self, data: bytes) -> bool:
        *whole, self._rest = (self._rest + data).split(b"\0")
        self.found += [os.path.normpath(os.fsdecode(name)) for name in whole]
        return len(self.found) <= MAX_SEARCHED_FILES


TOOLS: tuple[Tool, ...] = (
    tool_from(list_directory, plan=_plan_of_looking),
    tool_from(find_files, plan=_plan_of_looking),
    tool_from(exact_search, plan=_plan_of_looking),
)

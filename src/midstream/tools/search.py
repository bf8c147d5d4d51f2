"""Looking around: list_directory, find_files and exact_search.

exact_search looks for a literal text, or an expression that cannot run away (`line_patterns`). With
ripgrep on the PATH it is quick, without it the same answer takes longer; both feed the same `Matches`.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from midstream.language.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.runtime.ports import ToolContext
from midstream.safety.capability import Capability
from midstream.safety.protected import classify
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
from midstream.tools.tool_text import MARGIN, capped, in_one_line

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
    wanted = Wanted(
        pattern=await in_thread(partial(read, text, ignore_case=ignore_case)),
        glob=glob,
        ignore_case=ignore_case,
        include_ignored=include_ignored,
        max_results=max_results,
    )
    place = await in_thread(partial(_existing, context, path))
    matches = await in_thread(partial(Matches, wanted, place, context.forbids))
    program = found_program("rg", place.root)
    if program is None or not wanted.pattern.literal:
        await in_thread(partial(search_in_python, wanted, place, matches, context))
    else:
        await search_with_ripgrep(program, wanted, place, matches, context)
    return matches.text()


def _existing(context: ToolContext, path: str) -> Place:
    place = locate(context.workspace, path)
    require_allowed(place, "read", context.forbids)
    # A pipe, named by itself, would keep ripgrep waiting.
    if not place.path.is_dir() and not place.path.is_file():
        raise UserMistake(f"There is no file or folder {place.name!r} to search.", hint=LOOK)
    return place


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched for; see `exact_search`."""

    pattern: LinePattern
    glob: str = ""
    ignore_case: bool = False
    include_ignored: bool = False
    max_results: int = 200


class Matches:
    """Takes matching lines and turns away what may not be shown: one judgement for both searches."""

    def __init__(self, wanted: Wanted, place: Place, forbids: Callable[[Capability], str]) -> None:
        self.includes_ignored = wanted.include_ignored or _is_left_out(place)
        self._wanted = wanted
        self._root = place.root
        self._forbids = forbids
        self._glob = _required_glob(wanted.glob) if wanted.glob else None
        self._ignores = None if self.includes_ignored else Ignores(place.root)
        self._lines: list[str] = []
        self._files: dict[str, bool] = {}
        self._hits: set[str] = set()
        self._is_full = False

    def takes(self, path: str) -> bool:
        """Return whether a file, named from the workspace's root, may show up in the result."""
        if path not in self._files:
            self._files[path] = self._may_show(path)
        return self._files[path]

    def _may_show(self, path: str) -> bool:
        place = Place(root=self._root, parts=tuple(path.split("/")))
        if any(map(self._forbids, requests_for(place, "read"))) or is_another_name(
            place.root, place.parts
        ):
            return False
        if self._glob is not None and not self._glob(path):
            return False
        return self._ignores is None or not self._ignores.leaves_out(path, is_folder=False)

    def add(self, path: str, number: int, line: str) -> bool:
        """Take a line; return whether more are wanted."""
        if self.takes(path):
            if len(self._lines) == self._wanted.max_results:
                self._is_full = True
                return False
            shown = excerpt(line, self._wanted.pattern.find(line))
            self._lines.append(f"{in_one_line(path)}:{number}: {shown}")
            self._hits.add(path)
        return True

    def text(self) -> str:
        """Return the result, its last line a summary."""
        if not self._lines:
            return "No matches."
        count = len(self._lines)
        if self._is_full:
            end = f"[the first {count} matches; there are more: narrow the search]"
        else:
            end = f"[{count} matching line{'s'[: count != 1]} in {len(self._hits)} file"
            end += "s]" if len(self._hits) != 1 else "]"
        return f"{capped(chr(10).join(self._lines), 45_000)}\n{end}"


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


async def search_with_ripgrep(
    program: str, wanted: Wanted, place: Place, matches: Matches, context: ToolContext
) -> None:
    """Find the lines with the help of ripgrep.

    It only says which files to look into: it opens them by their paths, which somebody may lead
    elsewhere meanwhile, and what is shown is what `read_bytes` gives.

    Raises:
        WorldTrouble: ripgrep failed.
    """
    # Ignore files are those of the workspace alone, in a git repository or not, so that the answer
    # is the same on every machine. UTF-16 counts as binary, as it does without ripgrep.
    flags = ["--no-config", "--no-messages", "--fixed-strings", "--files-with-matches", "--null"]
    flags += ["--color=never", "--no-require-git", "--encoding=none"]
    flags += ["--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot", "--no-ignore-parent"]
    flags += [f"--max-filesize={MAX_SEARCHED_BYTES}", "--sort=path", "--no-follow"]
    if wanted.ignore_case:
        flags.append("--ignore-case")
    if matches.includes_ignored:
        flags += ["--no-ignore", "--hidden", "--glob=!.git"]
    names = _Names()
    ended = await run_command(
        [program, *flags, f"--regexp={wanted.pattern.literal}", "--", f"./{place.name}"],
        folder=place.root,
        environment={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        timeout_s=60,
        stop=context.stop,
        sink=names,
    )
    if ended.cause == "timed_out":
        raise WorldTrouble("The search took too long.", hint="Narrow it to a folder.")
    if not ended.cause and ended.exit_code not in (0, 1) and not names.found:
        raise WorldTrouble(
            f"ripgrep failed with exit code {ended.exit_code}.", hint="Search in a folder of it."
        )
    files = [Place(root=place.root, parts=tuple(name.split("/"))) for name in names.found]
    await in_thread(partial(_look_into, files, wanted, matches, partial(check_stop, context)))


class _Names(Sink):
    """ripgrep's output, a path and a NUL each."""

    def __init__(self) -> None:
        self._rest = b""
        self.found: list[str] = []

    def feed(self, data: bytes) -> bool:
        *whole, self._rest = (self._rest + data).split(b"\0")
        self.found += [os.path.normpath(os.fsdecode(name)) for name in whole]
        return len(self.found) <= MAX_SEARCHED_FILES


def search_in_python(wanted: Wanted, place: Place, matches: Matches, context: ToolContext) -> None:
    """Find the lines without ripgrep."""
    check = partial(check_stop, context)
    _look_into(_files(place, matches, check), wanted, matches, check)


def _look_into(
    files: list[Place], wanted: Wanted, matches: Matches, check: Callable[[], None]
) -> None:
    for file in files:
        check()
        if not matches.takes(file.name):
            continue
        try:
            data = read_bytes(file, max_bytes=MAX_SEARCHED_BYTES)
        except (MidstreamError, OSError):
            continue
        if b"\0" in data[:_SNIFFED_BYTES]:
            continue
        for number, line in _matching(data, wanted):
            if not matches.add(file.name, number, line):
                return


def _files(place: Place, matches: Matches, check: Callable[[], None]) -> list[Place]:
    if place.path.is_dir():
        found = walk(place, include_ignored=matches.includes_ignored, check=check)
        return [
            Place(root=place.root, parts=tuple(entry.path.split("/")))
            for entry in found
            if not entry.is_folder
            and entry.link is None
            and (matches.includes_ignored or not Path(entry.path).name.startswith("."))
        ]
    return [place]


def _matching(data: bytes, wanted: Wanted) -> Iterator[tuple[int, str]]:
    text = data.decode(errors="replace").replace("\r\n", "\n")
    if wanted.pattern.may_be_in(text):
        for number, line in enumerate(text.split("\n"), 1):
            if wanted.pattern.find(line) >= 0:
                yield number, line


TOOLS: tuple[Tool, ...] = (
    tool_from(list_directory, plan=_plan_of_looking),
    tool_from(find_files, plan=_plan_of_looking),
    tool_from(exact_search, plan=_plan_of_looking),
)

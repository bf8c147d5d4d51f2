"""Looking around: list_directory and exact_search.

exact_search looks for literal text, so that no expression of a model can run away. With ripgrep on
the PATH it is quick, without it the same answer takes longer; both feed the same `Matches`.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import msgspec

from midstream.core.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.core.names import Json
from midstream.core.spec import ToolSpec
from midstream.offloop import in_thread
from midstream.ports import ToolContext
from midstream.tool.base import Tool, check_stop, parameters_of, typed
from midstream.tool.paths import Place, locate, read_bytes, refusal
from midstream.tool.process import run_command
from midstream.tool.text import capped
from midstream.tool.walk import Ignores, ignore_spec, is_tame, walk

MAX_ENTRIES: Final = 1_000
MAX_LISTED_DEPTH: Final = 8
MAX_SEARCHED_BYTES: Final = 5_000_000
SHOWN_LINE_CHARS: Final = 300
_SNIFFED_BYTES: Final = 65_536

# --- list_directory -----------------------------------------------------------------------------


class ListDirectory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `list_directory`."""

    path: Annotated[str, msgspec.Meta(description="Folder, from the workspace's root.")] = "."
    depth: Annotated[
        int, msgspec.Meta(ge=1, le=MAX_LISTED_DEPTH, description="How many levels deep.")
    ] = 2
    include_ignored: Annotated[
        bool, msgspec.Meta(description="Also what .gitignore leaves out and hidden folders hold.")
    ] = False


def list_directory(arguments: dict[str, Json], context: ToolContext) -> str:
    """Return what a folder holds, one path a line; folders end in a slash, files have their size."""
    wanted = typed(arguments, ListDirectory)
    place = locate(context.workspace, wanted.path)
    lines: list[str] = []
    entries = walk(
        place,
        depth=wanted.depth,
        include_ignored=wanted.include_ignored or _is_left_out(place),
        check=partial(check_stop, context),
    )
    for entry in entries:
        if len(lines) == MAX_ENTRIES:
            lines.append(f"[... more than {MAX_ENTRIES:,}: list a folder of it, or less depth ...]")
            break
        if entry.is_folder:
            lines.append(f"{entry.path}/")
        elif entry.link is not None:
            lines.append(f"{entry.path} -> {entry.link}")
        else:
            lines.append(f"{entry.path} ({_size(entry.size)})")
    return "\n".join(lines) or f"{place.name} holds nothing (that is not left out)."


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


# --- exact_search -------------------------------------------------------------------------------


class ExactSearch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `exact_search`."""

    text: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=1_000,
            description="What to look for, letter by letter (no regular expression), in one line.",
        ),
    ]
    path: Annotated[str, msgspec.Meta(description="Folder or file to search.")] = "."
    glob: Annotated[
        str, msgspec.Meta(max_length=300, description="Only files like this, such as *.py.")
    ] = ""
    ignore_case: bool = False
    include_ignored: Annotated[
        bool, msgspec.Meta(description="Also hidden files and what .gitignore leaves out.")
    ] = False
    max_results: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 200


async def exact_search(arguments: dict[str, Json], context: ToolContext) -> str:
    """Return the lines that hold a text, as `path:line: text`, by path.

    Raises:
        UserMistake: the text spans lines, or the path or glob cannot be used.
    """
    import shutil

    wanted = typed(arguments, ExactSearch)
    if "\n" in wanted.text or "\r" in wanted.text or "\0" in wanted.text:
        raise UserMistake("The text spans lines.", hint="Search for one line of it.")
    place = await in_thread(partial(_existing, context.workspace, wanted.path))
    matches = await in_thread(partial(Matches, wanted, place))
    program = shutil.which("rg")
    if program is None:
        await in_thread(partial(search_in_python, wanted, place, matches, context))
    else:
        await search_with_ripgrep(program, wanted, place, matches, context)
    return matches.text()


def _existing(workspace: Path, path: str) -> Place:
    place = locate(workspace, path)
    found = place.root / place.name
    # A pipe, named by itself, would keep ripgrep waiting.
    if not found.is_dir() and not found.is_file():
        raise UserMistake(f"There is no file or folder {place.name!r} to search.")
    return place


class Matches:
    """Takes matching lines and turns away what may not be shown: one judgement for both searches."""

    def __init__(self, wanted: ExactSearch, place: Place) -> None:
        if wanted.glob and (wanted.glob.startswith("!") or not is_tame(wanted.glob)):
            raise UserMistake(
                f"The glob {wanted.glob!r} cannot be used.", hint="Use one like *.py."
            )
        self.includes_ignored = wanted.include_ignored or _is_left_out(place)
        self._wanted = wanted
        self._glob = ignore_spec([wanted.glob]) if wanted.glob else None
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
        if refusal(tuple(path.split("/"))):
            return False
        if self._glob is not None and not self._glob.match_file(path):
            return False
        return self._ignores is None or not self._ignores.leaves_out(path, is_folder=False)

    def add(self, path: str, number: int, line: str) -> bool:
        """Take a line; return whether more are wanted."""
        if self.takes(path):
            if len(self._lines) == self._wanted.max_results:
                self._is_full = True
                return False
            shown = excerpt(line, self._wanted.text, ignore_case=self._wanted.ignore_case)
            self._lines.append(f"{path}:{number}: {shown}")
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


def excerpt(line: str, text: str, *, ignore_case: bool) -> str:
    """Return a line; of a long one the part around the text."""
    line = line.rstrip("\r\n")
    if len(line) <= SHOWN_LINE_CHARS:
        return line
    at = line.casefold().find(text.casefold()) if ignore_case else line.find(text)
    start = max(0, at - SHOWN_LINE_CHARS // 3)
    part = line[start : start + SHOWN_LINE_CHARS]
    return f"{'...' if start else ''}{part}{'...' if start + len(part) < len(line) else ''}"


async def search_with_ripgrep(
    program: str, wanted: ExactSearch, place: Place, matches: Matches, context: ToolContext
) -> None:
    """Find the lines with ripgrep.

    Raises:
        WorldTrouble: ripgrep failed.
    """
    # Ignore files are those of the workspace alone, in a git repository or not, so that the answer
    # is the same on every machine. UTF-16 counts as binary, as it does without ripgrep.
    flags = ["--no-config", "--no-messages", "--fixed-strings", "--line-number", "--with-filename"]
    flags += ["--no-heading", "--color=never", "--null", "--no-require-git", "--encoding=none"]
    flags += ["--no-ignore-global", "--no-ignore-exclude", "--no-ignore-dot", "--no-ignore-parent"]
    flags += [f"--max-filesize={MAX_SEARCHED_BYTES}", "--sort=path", "--no-follow"]
    if wanted.ignore_case:
        flags.append("--ignore-case")
    if matches.includes_ignored:
        flags += ["--no-ignore", "--hidden", "--glob=!.git"]
    lines = _Lines(matches)
    ended = await run_command(
        [program, *flags, f"--regexp={wanted.text}", "--", f"./{place.name}"],
        folder=place.root,
        environment={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        timeout_s=60,
        stop=context.stop,
        sink=lines,
    )
    if ended.cause == "timed_out":
        raise WorldTrouble("The search took too long.", hint="Narrow it to a folder.")
    if not ended.cause and ended.exit_code not in (0, 1) and not lines.count:
        raise WorldTrouble(f"ripgrep failed with exit code {ended.exit_code}.")


class _Lines:
    """ripgrep's output, `path NUL number:text` a line, told to `Matches`."""

    def __init__(self, matches: Matches) -> None:
        self._matches = matches
        self._rest = b""
        self.count = 0

    def tick(self) -> float | None:
        return None

    def feed(self, data: bytes) -> bool:
        *whole, self._rest = (self._rest + data).split(b"\n")
        return all(self._add(line) for line in whole)

    def _add(self, line: bytes) -> bool:
        path, mark, rest = line.partition(b"\0")
        number, colon, text = rest.partition(b":")
        if not mark or not colon or not number.isdigit():
            return True
        self.count += 1
        name = os.path.normpath(os.fsdecode(path))
        return self._matches.add(name, int(number), text.decode(errors="replace"))


def search_in_python(
    wanted: ExactSearch, place: Place, matches: Matches, context: ToolContext
) -> None:
    """Find the lines without ripgrep."""
    check = partial(check_stop, context)
    for file in _files(place, matches, check):
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
    if (place.root / place.name).is_dir():
        found = walk(place, include_ignored=matches.includes_ignored, check=check)
        return [
            Place(root=place.root, parts=tuple(entry.path.split("/")))
            for entry in found
            if not entry.is_folder
            and entry.link is None
            and (matches.includes_ignored or not Path(entry.path).name.startswith("."))
        ]
    return [place]


def _matching(data: bytes, wanted: ExactSearch) -> list[tuple[int, str]]:
    text = data.decode(errors="replace")
    needle = wanted.text.casefold() if wanted.ignore_case else wanted.text
    haystack = text.casefold() if wanted.ignore_case else text
    if needle not in haystack:
        return []
    found: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if needle in (line.casefold() if wanted.ignore_case else line):
            found.append((number, line))
    return found


TOOLS: tuple[Tool, ...] = (
    Tool(
        spec=ToolSpec(
            name="list_directory",
            description="List files and folders of the workspace.",
            parameters=parameters_of(ListDirectory),
            effect="read",
            timeout_s=30,
        ),
        function=list_directory,
    ),
    Tool(
        spec=ToolSpec(
            name="exact_search",
            description="Find the lines of the workspace's files that hold a literal text.",
            parameters=parameters_of(ExactSearch),
            effect="read",
            timeout_s=90,
        ),
        function=exact_search,
    ),
)

"""Reading, writing and editing files of the workspace."""

import os
from contextlib import suppress
from functools import partial
from typing import Annotated, Final

import msgspec

from midstream.core.errors import MidstreamError, UserMistake
from midstream.core.names import Json
from midstream.core.safety.capability import Capability
from midstream.core.spec import ToolSpec
from midstream.offloop import in_thread
from midstream.ports import ToolContext
from midstream.tool.base import Planned, Tool, check_stop, parameters_of, typed
from midstream.tool.edits import Edit, edited
from midstream.tool.paths import Place, locate, read_bytes, requests_for, require_allowed
from midstream.tool.text import MAX_CHARS, shortened
from midstream.tool.writing import Change, contents_of, make, planned, writable

MAX_LINES: Final = 2_000
MAX_LINE_CHARS: Final = 1_000
MAX_WRITE_CHARS: Final = 5_000_000
_SNIFFED_BYTES: Final = 8_192

# --- read_files ---------------------------------------------------------------------------------


class ReadFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `read_files`."""

    paths: Annotated[
        list[str],
        msgspec.Meta(
            min_length=1,
            max_length=50,
            description="Paths from the workspace's root. Add :FIRST-LAST for some lines only, "
            "such as src/app.py:10-40.",
        ),
    ]


def read_files(arguments: dict[str, Json], context: ToolContext) -> str:
    """Return the files with line numbers, one after the other.

    A file that cannot be read says so in its place; the call fails only when none can.
    """
    wanted = typed(arguments, ReadFiles)
    left = MAX_CHARS - 2_000
    shown: list[str] = []
    failed = 0
    for path in wanted.paths:
        check_stop(context)
        try:
            part = _numbered(path, context, max(left, 0))
        except (MidstreamError, OSError) as error:
            failed += 1
            part = f"== {path}: not read ==\n{error}"
        shown.append(part)
        left -= len(part)
    if failed == len(wanted.paths):
        raise UserMistake("\n\n".join(shown))
    return "\n\n".join(shown)


def _plan_of_reading(arguments: dict[str, Json], context: ToolContext) -> Planned:
    requests: list[Capability] = []
    paths = typed(arguments, ReadFiles).paths
    for path in paths:
        # One that leads nowhere says so in its place.
        with suppress(UserMistake):
            requests += requests_for(_with_range(path, context)[0], "read")
    return Planned(requests=tuple(dict.fromkeys(requests)), shows="\n".join(paths))


def _numbered(path: str, context: ToolContext, room: int) -> str:
    place, first, last = _with_range(path, context)
    require_allowed(place, "read", context.forbids)
    data = read_bytes(place)
    if b"\0" in data[:_SNIFFED_BYTES]:
        return f"== {place.name}: binary file, {len(data):,} bytes, not shown =="
    if not data:
        return f"== {place.name}: empty file =="
    # Not splitlines: a form feed or U+2028 starts no line for editors, grep and exact_search.
    lines = data.decode(errors="replace").removesuffix("\n").split("\n")
    last = min(last or len(lines), len(lines))
    if first > len(lines):
        raise UserMistake(f"{place.name} has only {len(lines)} lines.")
    out: list[str] = []
    for number in range(first, min(last, first + MAX_LINES - 1) + 1):
        line = f"{number:>6}\t{_shown(lines[number - 1])}"
        room -= len(line) + 1
        if room < 0:
            break
        out.append(line)
    head = f"== {place.name} ({len(lines)} lines) =="
    reached = first + len(out) - 1
    if reached < last:
        out.append(
            f"[... lines {reached + 1}-{last} left out; "
            f"read them with {place.name}:{reached + 1}-{last} ...]"
        )
    return "\n".join((head, *out))


def _shown(line: str) -> str:
    return shortened(line.removesuffix("\r"), MAX_LINE_CHARS)


def _with_range(path: str, context: ToolContext) -> tuple[Place, int, int | None]:
    """Return the place, first and last line. A file whose name ends like a range is itself."""
    base, colon, span = path.rpartition(":")
    low, _, high = span.partition("-")
    is_range = bool(colon and base) and _is_number(low) and (not high or _is_number(high))
    if not is_range:
        return locate(context.workspace, path), 1, None
    itself = locate(context.workspace, path)
    if os.path.lexists(itself.root.joinpath(*itself.parts)):
        return itself, 1, None
    first, last = int(low), int(high or low)
    if first < 1 or last < first:
        raise UserMistake(f"{span} is no range of lines.", hint="Lines count from 1: FIRST-LAST.")
    return locate(context.workspace, base), first, last


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


# --- write_file ---------------------------------------------------------------------------------


class WriteFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `write_file`."""

    path: Annotated[str, msgspec.Meta(description="Path from the workspace's root.")]
    content: Annotated[
        str,
        msgspec.Meta(
            max_length=MAX_WRITE_CHARS, description="The whole file. What was there is replaced."
        ),
    ]


async def write_file(arguments: dict[str, Json], context: ToolContext) -> str:
    """Write a whole file, folders included: afterwards it is all there, or as it was before."""
    change = await in_thread(partial(_replacing, arguments, context))
    await make(change, context)
    lines = len(change.after.splitlines())
    done = "Created" if change.before is None else "Replaced"
    return f"{done} {change.place.name} ({lines} line{'' if lines == 1 else 's'})."


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise UserMistake(
            f"The text holds half a surrogate pair at character {error.start}.",
            hint="Write the character itself.",
        ) from error


def _replacing(arguments: dict[str, Json], context: ToolContext) -> Change:
    wanted = typed(arguments, WriteFile)
    place = writable(context, wanted.path)
    return Change(place=place, before=contents_of(place), after=_encoded(wanted.content))


def _plan_of_writing(arguments: dict[str, Json], context: ToolContext) -> Planned:
    return planned(_replacing(arguments, context))


# --- edit_file ----------------------------------------------------------------------------------


class EditFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `edit_file`."""

    path: Annotated[str, msgspec.Meta(description="Path from the workspace's root.")]
    edits: Annotated[
        list[Edit],
        msgspec.Meta(
            min_length=1,
            max_length=100,
            description="Made one after the other; when one fails, none is made.",
        ),
    ]


async def edit_file(arguments: dict[str, Json], context: ToolContext) -> str:
    """Replace pieces of a text file: all of the edits, or none."""
    change, report = await in_thread(partial(_edited, arguments, context))
    await make(change, context)
    return f"Edited {change.place.name}: {report}."


def _plan_of_editing(arguments: dict[str, Json], context: ToolContext) -> Planned:
    change = _edited(arguments, context)[0]
    return planned(change, requests_for(change.place, "read"))


def _edited(arguments: dict[str, Json], context: ToolContext) -> tuple[Change, str]:
    wanted = typed(arguments, EditFile)
    place = writable(context, wanted.path)
    # What does not fit is answered with lines of the file.
    require_allowed(place, "read", context.forbids)
    data = read_bytes(place)
    try:
        before = data.decode()
    except UnicodeDecodeError as error:
        raise UserMistake(f"{place.name} is not UTF-8 text (byte {error.start}).") from error
    after, report = edited(before, wanted.edits)
    return Change(place=place, before=data, after=_encoded(after)), report


TOOLS: tuple[Tool, ...] = (
    Tool(
        spec=ToolSpec(
            name="read_files",
            description="Read text files of the workspace, with line numbers.",
            parameters=parameters_of(ReadFiles),
            effect="read",
            timeout_s=30,
        ),
        function=read_files,
        plan=_plan_of_reading,
    ),
    Tool(
        spec=ToolSpec(
            name="write_file",
            description="Create a file or replace all of it. To change a part, use edit_file.",
            parameters=parameters_of(WriteFile),
            effect="idempotent",
            timeout_s=30,
            reviewed=True,
        ),
        function=write_file,
        plan=_plan_of_writing,
    ),
    Tool(
        spec=ToolSpec(
            name="edit_file",
            description="Replace exact pieces of a text file. Read the file first: each old_text "
            "has to be there character for character, exactly once unless replace_all is set.",
            parameters=parameters_of(EditFile),
            effect="once",
            timeout_s=30,
            reviewed=True,
        ),
        function=edit_file,
        plan=_plan_of_editing,
    ),
)

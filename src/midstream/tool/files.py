"""Reading, writing and editing files of the workspace."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Final

import msgspec

from midstream.core.errors import MidstreamError, UserMistake, WorldTrouble
from midstream.core.names import Json
from midstream.core.spec import ToolSpec
from midstream.offloop import in_thread
from midstream.ports import ToolContext
from midstream.tool.base import Tool, check_stop, parameters_of, typed
from midstream.tool.edits import Edit, edited
from midstream.tool.paths import (
    Place,
    locate,
    mode_in,
    opened_folder,
    parent_of,
    read_bytes,
)
from midstream.tool.text import MAX_CHARS, shortened

MAX_LINES: Final = 2_000
MAX_LINE_CHARS: Final = 1_000
MAX_WRITE_CHARS: Final = 5_000_000
MAX_KEPT_BYTES: Final = 100_000_000
"""The largest file that is replaced: what it held is kept, so that the change can be taken back."""
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


def _numbered(path: str, context: ToolContext, room: int) -> str:
    place, first, last = _with_range(path, context)
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
    if not is_range or os.path.lexists(context.workspace / path):
        return locate(context.workspace, path), 1, None
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
    wanted = typed(arguments, WriteFile)

    def prepared() -> _Change:
        place = _writable(context, wanted.path)
        return _Change(place=place, before=contents_of(place), after=_encoded(wanted.content))

    change = await in_thread(prepared)
    await _change_file(change, context)
    lines = len(wanted.content.splitlines())
    done = "Created" if change.before is None else "Replaced"
    return f"{done} {change.place.name} ({lines} lines)."


def _writable(context: ToolContext, path: str) -> Place:
    place = locate(context.workspace, path, purpose="write")
    if not place.parts or path.endswith("/"):
        raise UserMistake(f"{path!r} is a folder, not a file.")
    return place


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise UserMistake(
            f"The text holds half a surrogate pair at character {error.start}.",
            hint="Write the character itself.",
        ) from error


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    """A file, what it holds (None: there is none), and what it is to hold."""

    place: Place
    before: bytes | None
    after: bytes


async def _change_file(change: _Change, context: ToolContext) -> None:
    """Record a change and make it.

    Raises:
        Stopped: nobody waits any more; nothing was changed.
        UserMistake: somebody has changed the file meanwhile; it is as they left it.
        WorldTrouble: the disk refused, or nothing can be recorded; the file is as it was.
    """
    place = change.place
    check_stop(context)
    await context.changing(place.root.joinpath(*place.parts), change.before, change.after)
    last_look = partial(check_stop, context)
    await in_thread(
        partial(put_in_place, place, change.after, expected=change.before, last_look=last_look),
        name="midstream-tool-writing",
    )


def contents_of(place: Place) -> bytes | None:
    """Return what a file holds, None where there is none.

    Raises:
        UserMistake: it is no regular file, or too large to be kept.
        WorldTrouble: it cannot be read.
    """
    try:
        os.lstat(place.root.joinpath(*place.parts))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return read_bytes(place, max_bytes=MAX_KEPT_BYTES)


def put_in_place(
    place: Place,
    data: bytes,
    *,
    expected: bytes | None,
    last_look: Callable[[], None] | None = None,
) -> None:
    """Put `data` in a file's place at once, its permissions kept, if it still holds `expected`.

    `last_look` is called right before the file changes; what it raises leaves the file as it is.

    Raises:
        UserMistake: the file holds something else by now (None: it is there by now, or gone).
        WorldTrouble: the disk refused; the file is as it was.
    """
    try:
        with opened_folder(parent_of(place), create=True) as folder:
            mode = mode_in(folder, place)
            # The name must not grow past the limit of 255 bytes.
            beside = f".{os.urandom(6).hex()}.midstream-tmp"
            try:
                _write_new(folder, beside, data, mode)
                # Somebody may have saved the file meanwhile: their work is not undone.
                _require_unchanged(place, expected)
                if last_look is not None:
                    last_look()
                os.rename(beside, place.parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(beside, dir_fd=folder)
                raise
            os.fsync(folder)
    except OSError as error:
        raise _refused(place, error) from error


def take_away(place: Place, *, expected: bytes) -> None:
    """Remove a file if it still holds `expected`; raises as `put_in_place` does."""
    try:
        with opened_folder(parent_of(place)) as folder:
            _require_unchanged(place, expected)
            os.unlink(place.parts[-1], dir_fd=folder)
            os.fsync(folder)
    except OSError as error:
        raise _refused(place, error) from error


def _require_unchanged(place: Place, expected: bytes | None) -> None:
    if contents_of(place) != expected:
        raise UserMistake(f"{place.name} has just been changed by somebody else.", hint="Read it.")


def _refused(place: Place, error: OSError) -> WorldTrouble:
    return WorldTrouble(
        f"{place.name} cannot be written: {error.strerror}.", hint="The file is as it was."
    )


def _write_new(folder: int, name: str, data: bytes, mode: int | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o666, dir_fd=folder), "wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


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
    wanted = typed(arguments, EditFile)
    change, report = await in_thread(partial(_edited, wanted, context))
    await _change_file(change, context)
    return f"Edited {change.place.name}: {report}."


def _edited(wanted: EditFile, context: ToolContext) -> tuple[_Change, str]:
    place = _writable(context, wanted.path)
    data = read_bytes(place)
    try:
        before = data.decode()
    except UnicodeDecodeError as error:
        raise UserMistake(f"{place.name} is not UTF-8 text (byte {error.start}).") from error
    after, report = edited(before, wanted.edits)
    return _Change(place=place, before=data, after=_encoded(after)), report


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
    ),
    Tool(
        spec=ToolSpec(
            name="write_file",
            description="Create a file or replace all of it. To change a part, use edit_file.",
            parameters=parameters_of(WriteFile),
            effect="idempotent",
            timeout_s=30,
            needs_approval=True,
        ),
        function=write_file,
    ),
    Tool(
        spec=ToolSpec(
            name="edit_file",
            description="Replace exact pieces of a text file. Read the file first: each old_text "
            "has to be there character for character, exactly once unless replace_all is set.",
            parameters=parameters_of(EditFile),
            effect="once",
            timeout_s=30,
            needs_approval=True,
        ),
        function=edit_file,
    ),
)

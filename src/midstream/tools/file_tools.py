"""Reading, writing and editing files of the workspace."""

import codecs
import os
from contextlib import suppress
from functools import partial
from typing import Annotated, Final

import msgspec

from midstream.core.pictures import BEGINNING, MAX_BYTES, is_picture, kind_of, no_picture
from midstream.language.errors import MidstreamError, UserMistake
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.safety.capability import Capability
from midstream.system.offloop import in_thread
from midstream.system.put_in_place import contents_of
from midstream.system.workspace_paths import (
    Place,
    first_bytes,
    locate,
    read_bytes,
    read_in_slices,
    requests_for,
    require_allowed,
)
from midstream.tools.base import Planned, Tool, check_stop, tool, tool_from
from midstream.tools.edits import Edit, edited
from midstream.tools.file_changes import Change, as_it_stands, changed, make, planned, writable
from midstream.tools.pdf_text import is_pdf, text_of
from midstream.tools.tool_text import MAX_CHARS, shown_lines

MAX_READ_BYTES: Final = 100_000_000
MAX_WRITE_CHARS: Final = 5_000_000
_LOOKED_AT: Final = 100_000
_MEAN_LINE: Final = 40

# --- read_files ---------------------------------------------------------------------------------


@tool(effect="read", timeout_s=30)
def read_files(
    paths: Annotated[
        list[str],
        msgspec.Meta(
            min_length=1,
            max_length=50,
            description="Paths from the workspace's root. Add :FIRST-LAST for some lines only, "
            "such as src/app.py:10-40, or :FIRST- for all from there on.",
        ),
    ],
    context: ToolContext,
) -> str:
    """Read text files of the workspace, with line numbers; of a PDF the text of its pages."""
    # In the order they are named in. Where there is no room for all, the large ones are cut, not the last
    # ones. A file that cannot be read says so in its place; the call fails only when none can.
    left = MAX_CHARS - 2_000
    shown: dict[int, str] = {}
    failed = 0
    # What a small one does not need is for those that come after it.
    for number in sorted(range(len(paths)), key=lambda number: _size(paths[number], context)):
        check_stop(context)
        try:
            part = _numbered(paths[number], context, max(left // (len(paths) - len(shown)), 0))
        except (MidstreamError, OSError) as error:
            failed += 1
            part = f"== {paths[number]}: not read ==\n{error}"
        shown[number] = part
        left -= len(part) + 2
    whole = "\n\n".join(shown[number] for number in range(len(paths)))
    if failed == len(paths):
        raise UserMistake(whole)
    return whole


def _size(path: str, context: ToolContext) -> int:
    """Return about how many bytes of a file are asked for; 0 where that cannot be said."""
    with suppress(MidstreamError, OSError):
        place, first, last = _with_range(path, context)
        if last is not None:
            return (last - first + 1) * _MEAN_LINE
        return max(place.path.lstat().st_size - (first - 1) * _MEAN_LINE, 0)
    return 0


def _plan_of_reading(paths: list[str], context: ToolContext) -> Planned:
    requests: list[Capability] = []
    for path in paths:
        # One that leads nowhere says so in its place.
        with suppress(UserMistake):
            requests += requests_for(_with_range(path, context)[0], "read")
    return Planned(requests=tuple(dict.fromkeys(requests)), shows="\n".join(paths))


def _numbered(path: str, context: ToolContext, room: int) -> str:
    place, first, last = _with_range(path, context)
    require_allowed(place, "read", context.forbids)
    _require_range(path, place, context)
    check = partial(check_stop, context)
    data = read_in_slices(place, max_bytes=MAX_READ_BYTES, check=check)
    if is_pdf(data):
        data = bytearray(text_of(data, place.name))
    elif context.open_files is not None:
        unsaved = context.open_files.unsaved(place.path, bytes(data))
        data = data if unsaved is None else bytearray(unsaved)
    return shown_lines(place.name, data, first, last, room=room, check=check)


def _with_range(path: str, context: ToolContext) -> tuple[Place, int, int | None]:
    """Return the place, first and last line. A file whose name ends like a range is itself."""
    base, colon, span = path.rpartition(":")
    low, dash, high = span.partition("-")
    is_range = bool(colon and base) and _is_number(low) and (not high or _is_number(high))
    if not is_range:
        return locate(context.workspace, path), 1, None
    itself = locate(context.workspace, path)
    if os.path.lexists(itself.path):
        return itself, 1, None
    first = int(low)
    last = None if dash and not high else int(high or low)
    if first < 1 or (last is not None and last < first):
        raise UserMistake(f"{span} is no range of lines.", hint="Lines count from 1: FIRST-LAST.")
    return locate(context.workspace, base), first, last


def _require_range(path: str, place: Place, context: ToolContext) -> None:
    """Raise UserMistake for a range that is written in another way behind a file's name."""
    if os.path.lexists(place.path):
        return
    for sign in (":", "#"):
        base, _, span = path.partition(sign)
        if base != path and _is_read(base, context):
            raise UserMistake(
                f"{span!r} is no range of lines of {base}.",
                hint=f"Write {base}:FIRST-LAST, such as {base}:10-40, or {base}:10- for all from there.",
            )


def _is_read(path: str, context: ToolContext) -> bool:
    """Return whether there is a file that may be read."""
    try:
        place = locate(context.workspace, path)
        require_allowed(place, "read", context.forbids)
        return place.path.is_file()
    except (MidstreamError, OSError):
        return False


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


# --- read_image ---------------------------------------------------------------------------------


@tool(effect="read", timeout_s=30)
def read_image(
    path: Annotated[str, msgspec.Meta(description="Path from the workspace's root.")],
    context: ToolContext,
) -> ToolOutcome:
    """Look at a picture of the workspace: PNG, JPEG, GIF or WebP."""
    place = locate(context.workspace, path)
    require_allowed(place, "read", context.forbids)
    if not is_picture(first_bytes(place, BEGINNING)):
        raise no_picture(path)
    data = bytes(read_in_slices(place, max_bytes=MAX_BYTES, check=partial(check_stop, context)))
    media, width, height = kind_of(data, path)
    return ToolOutcome(
        outcome="completed",
        text=f"{place.name}: {media}, {width} x {height} pixels, {len(data):,} bytes.",
        pictures={place.name: data},
    )


def _plan_of_looking(path: str, context: ToolContext) -> Planned:
    return Planned(
        requests=requests_for(locate(context.workspace, path), "read"),
        shows=path,
    )


# --- write_file ---------------------------------------------------------------------------------


@tool(effect="idempotent", timeout_s=30)
async def write_file(
    path: Annotated[str, msgspec.Meta(description="Path from the workspace's root.")],
    content: Annotated[
        str,
        msgspec.Meta(
            max_length=MAX_WRITE_CHARS, description="The whole file. What was there is replaced."
        ),
    ],
    context: ToolContext,
) -> str:
    """Create a file or replace all of it. To change a part, use edit_file."""
    # Folders included: afterwards it is all there, or as it was before.
    change = await in_thread(partial(_replacing, path, content, context))
    await make(change, context)
    if change.before == change.after:
        return f"No change: {change.place.name} holds exactly this already."
    lines = len(content.splitlines())
    done = "Created" if change.before is None else "Replaced"
    lost = _lost(change.before or b"", change.after or b"")
    return f"{done} {change.place.name} ({lines} line{'' if lines == 1 else 's'}).{lost}"


def _lost(before: bytes, after: bytes) -> str:
    """Return what a file was written with and is no longer, though nobody may have meant that."""
    before, after = before[:_LOOKED_AT], after[:_LOOKED_AT]
    lost = ""
    if before.startswith(codecs.BOM_UTF8) and not after.startswith(codecs.BOM_UTF8):
        lost += " It has no byte order mark any more."
    if b"\r\n" in before and b"\n" in after and b"\r\n" not in after:
        lost += " Its line ends were \\r\\n and are \\n now; edit_file keeps them."
    return lost


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise UserMistake(
            f"The text holds half a surrogate pair at character {error.start}.",
            hint="Write the character itself.",
        ) from error


def _replacing(path: str, content: str, context: ToolContext) -> Change:
    place = writable(context, path)
    saved, after = contents_of(place), _encoded(content)
    unsaved = None if saved is None else as_it_stands(place, saved, context)
    return changed(place, saved, unsaved, after)


def _plan_of_writing(path: str, content: str, context: ToolContext) -> Planned:
    return planned(_replacing(path, content, context))


# --- edit_file ----------------------------------------------------------------------------------


@tool(effect="once", timeout_s=30)
async def edit_file(
    path: Annotated[str, msgspec.Meta(description="Path from the workspace's root.")],
    edits: Annotated[
        list[Edit],
        msgspec.Meta(
            min_length=1,
            max_length=100,
            description="Made one after the other; when one fails, none is made.",
        ),
    ],
    context: ToolContext,
) -> str:
    """Replace exact pieces of a text file: all of the edits, or none."""
    change, report = await in_thread(partial(_edited, path, edits, context))
    await make(change, context)
    return f"Edited {change.place.name}: {report}."


def _plan_of_editing(path: str, edits: list[Edit], context: ToolContext) -> Planned:
    change = _edited(path, edits, context)[0]
    return planned(change, requests_for(change.place, "read"))


def _edited(path: str, edits: list[Edit], context: ToolContext) -> tuple[Change, str]:
    place = writable(context, path)
    # What does not fit is answered with lines of the file.
    require_allowed(place, "read", context.forbids)
    saved = read_bytes(place)
    unsaved = as_it_stands(place, saved, context)
    data = saved if unsaved is None else unsaved
    try:
        before = data.decode()
    except UnicodeDecodeError as error:
        raise UserMistake(
            f"{place.name} is not UTF-8 text (byte {error.start}).", hint="Only text can be edited."
        ) from error
    after, report = edited(before, edits)
    return changed(place, saved, unsaved, _encoded(after)), report


TOOLS: tuple[Tool, ...] = (
    tool_from(read_files, plan=_plan_of_reading),
    tool_from(read_image, plan=_plan_of_looking),
    tool_from(write_file, plan=_plan_of_writing),
    tool_from(
        edit_file,
        plan=_plan_of_editing,
        description="Replace exact pieces of a text file. Read the file first: each old_text "
        "has to be there character for character, exactly once unless replace_all is set.",
    ),
)

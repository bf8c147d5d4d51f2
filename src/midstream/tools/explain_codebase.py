"""explain_codebase: a map of the workspace's code within a budget of tokens, drawn in a child process."""

import atexit
import hashlib
import os
import shutil
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Final

import msgspec

from midstream.language.errors import UserMistake
from midstream.language.names import Json
from midstream.language.spec import ToolSpec
from midstream.runtime.ports import ToolContext
from midstream.system.offloop import in_thread
from midstream.system.workspace_paths import LOOK, Place, locate, requests_for, require_allowed
from midstream.tools.base import Planned, Tool, parameters_of, typed
from midstream.tools.measure_code import TIMEOUT_S, ask_child, forbidden_files

DEFAULT_TOKENS: Final = 2_000
MIN_TOKENS: Final = 200
MAX_TOKENS: Final = 16_000
"""What `midstream.tools.tool_text.MAX_CHARS` has room for."""


class ExplainCodebase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `explain_codebase`."""

    tokens: Annotated[
        int,
        msgspec.Meta(ge=MIN_TOKENS, le=MAX_TOKENS, description="About how long the map may be."),
    ] = DEFAULT_TOKENS
    path: Annotated[
        str, msgspec.Meta(description="A folder or file, from the workspace's root; default: all.")
    ] = "."
    focus: Annotated[
        str,
        msgspec.Meta(
            max_length=300,
            description="Words for what you look for: files and definitions named like it come first.",
        ),
    ] = ""


async def explain_codebase(arguments: dict[str, Json], context: ToolContext) -> str:
    """Return a map: files with their sizes, what they define, the ones the rest leans on first.

    Raises:
        UserMistake: there is no such file or folder, or a library it needs is not installed.
        WorldTrouble: the drawing process could not be started, was ended or failed.
    """
    wanted = typed(arguments, ExplainCodebase)
    place, asked = await in_thread(partial(_asked, wanted, context))
    return await ask_child(
        "map",
        place.root,
        asked,
        stop=context.stop,
        without=await in_thread(partial(forbidden_files, context)),
    )


def _asked(wanted: ExplainCodebase, context: ToolContext) -> tuple[Place, tuple[str, str]]:
    """Return what is to be mapped, and the arguments that say so."""
    from midstream.codemap.map_builder import CHARS_PER_TOKEN, Wanted

    place = _existing(context, wanted.path)
    asked = Wanted(
        max_chars=wanted.tokens * CHARS_PER_TOKEN,
        path="/".join(place.parts),
        focus=wanted.focus,
    )
    return place, (msgspec.json.encode(asked).decode(), str(_kept_for(place.root)))


@cache
def _own_folder() -> Path:
    """Return a folder of this process alone, which goes with it."""
    folder = tempfile.mkdtemp(prefix="midstream-maps-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _kept_for(root: Path) -> Path:
    """Return the file in which what was seen of a folder is kept for its next map."""
    name = hashlib.sha256(os.fsencode(root)).hexdigest()
    return _own_folder() / name


def _existing(context: ToolContext, path: str) -> Place:
    place = locate(context.workspace, path)
    require_allowed(place, "read", context.forbids)
    if not Path(place.root, *place.parts).exists():
        raise UserMistake(f"There is no file or folder {place.name!r}.", hint=LOOK)
    return place


def _plan(arguments: dict[str, Json], context: ToolContext) -> Planned:
    path = typed(arguments, ExplainCodebase).path
    # What the rest of the workspace leans on is in the map of any part of it.
    whole, part = locate(context.workspace, "."), locate(context.workspace, path)
    requests = (*requests_for(whole, "read"), *requests_for(part, "read"))
    return Planned(requests=tuple(dict.fromkeys(requests)))


TOOLS: tuple[Tool, ...] = (
    Tool(
        spec=ToolSpec(
            name="explain_codebase",
            description=(
                "Get a map of the workspace's code: folders, files with their sizes, and what the "
                "files define, those the rest leans on first. Look here first in code you do not "
                "know; path and focus show a part in more detail. Reads only."
            ),
            parameters=parameters_of(ExplainCodebase),
            effect="read",
            timeout_s=TIMEOUT_S,
        ),
        function=explain_codebase,
        plan=_plan,
    ),
)

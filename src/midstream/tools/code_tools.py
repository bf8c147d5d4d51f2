"""The tools for a whole folder of code: its figures, and a map of it within a budget of tokens.

Both are made in a child process, see `midstream.codemap`.
"""

import asyncio
import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from midstream.codemap.source_files import list_files
from midstream.language.errors import UserMistake, WorldTrouble
from midstream.runtime.ports import ToolContext
from midstream.system.offloop import in_thread
from midstream.system.own_process import beginning
from midstream.system.supervisor import Kept, run_command
from midstream.system.workspace_paths import LOOK, Place, locate, requests_for, require_allowed
from midstream.tools.base import Planned, Tool, check_stop, tool, tool_from

TIMEOUT_S = 120.0
MAX_ERROR = 300
MAX_OUTPUT_BYTES = 1_000_000
"""More than any answer has by itself."""


# --- measure_code -------------------------------------------------------------------------------


_INHERITED = (
    *("PATH", "HOME", "USER", "LANG", "TMPDIR", "XDG_CONFIG_HOME"),
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH"),
)
"""What the measuring gets of our environment: no keys, since git is started from there."""


LIBRARIES = (
    "lizard",
    *("tree_sitter", "tree_sitter_go", "tree_sitter_java", "tree_sitter_javascript"),
    *("tree_sitter_rust", "tree_sitter_typescript"),
)
"""What the measures and the map import, and the extra `code` installs."""

INSTALL = "pip install 'midstream[code]'"


def missing_library() -> str:
    """Return the first library that is not installed, "" where all are; nothing is imported."""
    return next((name for name in LIBRARIES if find_spec(name) is None), "")


async def ask_child(
    what: Literal["map", "figures"],
    root: Path,
    arguments: Sequence[str],
    *,
    stop: asyncio.Event | None = None,
    without: Collection[str] = (),
) -> str:
    """Return the map or the figures of a folder, made in a process of their own.

    It gets the arguments that `midstream.codemap.__main__` names; `without` goes to it in a file.

    Raises:
        UserMistake: a library it needs is not installed.
        WorldTrouble: the process could not be started, was ended or failed.
    """
    if missing := await in_thread(missing_library):
        raise UserMistake(
            f"The map and the measures of code need a library that is not installed ({missing}).",
            hint=f"Run: {INSTALL}",
        )
    out = Kept(MAX_OUTPUT_BYTES)
    left_out = await in_thread(partial(_kept, without)) if without else None
    # -P: a module of the folder midstream was started in is never what runs.
    command = [sys.executable, "-P", "-W", "ignore", "-m", "midstream.codemap", what]
    try:
        ended = await run_command(
            [*command, str(root), *arguments, *([left_out] if left_out else [])],
            folder=root,
            environment={name: os.environ[name] for name in _INHERITED if name in os.environ},
            timeout_s=TIMEOUT_S,
            stop=stop or asyncio.Event(),
            sink=out,
        )
    except OSError as error:
        raise WorldTrouble(
            f"Measuring could not be started: {error}.", hint="Try again; nothing was changed."
        ) from error
    finally:
        if left_out:
            with suppress(OSError):
                os.unlink(left_out)
    text = out.data.decode(errors="replace")
    if ended.exit_code != 0 or ended.cause:
        last = beginning(text.strip().rpartition("\n")[2], MAX_ERROR)
        raise WorldTrouble(
            f"Measuring ended with code {ended.exit_code}: {last}",
            hint="Measure a folder of it by itself.",
        )
    return text


def _kept(names: Collection[str]) -> str:
    """Return a new file that holds these names, each before a NUL."""
    handle, path = tempfile.mkstemp(prefix="midstream-")
    with open(handle, "wb") as file:
        file.write(b"".join(os.fsencode(name) + b"\0" for name in names))
    return path


@tool(effect="read", timeout_s=TIMEOUT_S)
async def measure_code(
    context: ToolContext,
    commits: Annotated[
        int, msgspec.Meta(ge=1, le=2_000, description="How many commits of history to look at.")
    ] = 200,
    top: Annotated[
        int, msgspec.Meta(ge=1, le=50, description="How many entries each list holds.")
    ] = 10,
) -> str:
    """Measure the code of the workspace."""
    return await ask_child(
        "figures",
        context.workspace,
        (str(commits), str(top)),
        stop=context.stop,
        without=await in_thread(partial(forbidden_files, context)),
    )


def forbidden_files(context: ToolContext) -> list[str]:
    """Return the files policy keeps a call from reading. Secrets are never read anyway."""
    root = Path(os.path.realpath(context.workspace))
    found: list[str] = []
    for path in list_files(root):
        check_stop(context)
        place = Place(root=root, parts=tuple(path.split("/")))
        if any(map(context.forbids, requests_for(place, "read"))):
            found.append(path)
    return found


def _plan_of_measuring(context: ToolContext, **_: int) -> Planned:
    return Planned(requests=requests_for(locate(context.workspace, "."), "read"))


# --- explain_codebase ---------------------------------------------------------------------------

DEFAULT_TOKENS: Final = 2_000
MIN_TOKENS: Final = 200
MAX_TOKENS: Final = 16_000
"""What `midstream.tools.tool_text.MAX_CHARS` has room for."""


@tool(effect="read", timeout_s=TIMEOUT_S)
async def explain_codebase(
    context: ToolContext,
    tokens: Annotated[
        int,
        msgspec.Meta(ge=MIN_TOKENS, le=MAX_TOKENS, description="About how long the map may be."),
    ] = DEFAULT_TOKENS,
    path: Annotated[
        str, msgspec.Meta(description="A folder or file, from the workspace's root; default: all.")
    ] = ".",
    focus: Annotated[
        str,
        msgspec.Meta(
            max_length=300,
            description="Words for what you look for: files and definitions named like it come first.",
        ),
    ] = "",
) -> str:
    """Get a map of the workspace's code."""
    root, wanted = await in_thread(partial(_wanted_map, path, tokens, focus, context))
    return await ask_child(
        "map",
        root,
        wanted,
        stop=context.stop,
        without=await in_thread(partial(forbidden_files, context)),
    )


def _wanted_map(
    path: str, tokens: int, focus: str, context: ToolContext
) -> tuple[Path, tuple[str, str]]:
    """Return what is to be mapped, and the arguments that say so."""
    from midstream.codemap.map_builder import CHARS_PER_TOKEN, Wanted

    place = _existing(context, path)
    max_chars = tokens * CHARS_PER_TOKEN
    wanted = Wanted(max_chars=max_chars, path="/".join(place.parts), focus=focus)
    return place.root, (msgspec.json.encode(wanted).decode(), str(_kept_for(place.root)))


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
    if not place.path.exists():
        raise UserMistake(f"There is no file or folder {place.name!r}.", hint=LOOK)
    return place


def _plan_of_mapping(path: str, context: ToolContext, **_: object) -> Planned:
    # What the rest of the workspace leans on is in the map of any part of it.
    whole, part = locate(context.workspace, "."), locate(context.workspace, path)
    requests = (*requests_for(whole, "read"), *requests_for(part, "read"))
    return Planned(requests=tuple(dict.fromkeys(requests)))


TOOLS: tuple[Tool, ...] = (
    tool_from(
        measure_code,
        plan=_plan_of_measuring,
        description="Measure the code of the workspace. Returns JSON: totals, languages, largest files, "
        "most complex functions, imports and their cycles (Python, JavaScript, TypeScript, Go, "
        "Rust, Java), and from git history the most "
        "changed files and the ranking of changes times complexity. Reads only.",
    ),
    tool_from(
        explain_codebase,
        plan=_plan_of_mapping,
        description="Get a map of the workspace's code: folders, files with their sizes, and what the "
        "files define, those the rest leans on first. Look here first in code you do not "
        "know; path and focus show a part in more detail. Reads only.",
    ),
)

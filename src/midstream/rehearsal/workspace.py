"""Where rehearsals are found, and what they are played against: the workflows of a workspace.

The rehearsals of the workflow `NAME` stand beside its script, in `NAME/rehearsals/*.json`.
"""

from collections.abc import Iterator
from pathlib import Path

from midstream.config.directories import WORKSPACE_FOLDER
from midstream.config.manager import ConfigManager
from midstream.config.private_files import read_capped
from midstream.language.errors import UserMistake
from midstream.language.names import python_file
from midstream.language.spec import Definition
from midstream.rehearsal import format as form
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.workflow_library import WorkflowLibrary
from midstream.tools.manager import ToolManager
from midstream.tools.user_tools import WorkflowTools, load_user_tools

FOLDER = "rehearsals"

MAX_BYTES = 64_000_000
"""A rehearsal holds whole tool results: more than a file a person writes."""

_LOOKED_AT_BYTES = 4096


def library_of(config: ConfigManager) -> WorkflowLibrary:
    """Return the workflows of the settings' layers, with the tools they may name.

    Reads files; call it off the loop. The tools are looked at, and never called.
    """
    own, problems = load_user_tools(config.tool_files(), read=config.read)
    for problem in problems:
        config.notice(str(problem))
    manager = ToolManager(own)
    specs = manager.specs()
    return WorkflowLibrary(config, specs, WorkflowTools(manager, specs).take_in)


def rehearsals_of(config: ConfigManager, *, everywhere: bool = False) -> Iterator[Path]:
    """Yield the files of a workspace's rehearsals, sorted; `everywhere`: of every layer.

    Of an untrusted workspace there are none.
    """
    for _, found in sorted(config.workflows().items()):
        if everywhere or found.layer == "workspace":
            yield from _below(config, found.path.with_suffix("") / FOLDER)


def _below(config: ConfigManager, folder: Path) -> Iterator[Path]:
    if config.grant is not None and folder.is_relative_to(config.grant.folder):
        names = config.grant.names(folder.relative_to(config.grant.folder).as_posix())
        paths = [config.grant.folder / name for name in names]
    else:
        paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    yield from (p for p in paths if p.suffix == ".json" and p.parent == folder)


def is_rehearsal(path: Path) -> bool:
    """Return whether a file's beginning is that of a rehearsal; others have `rehearsals` too."""
    try:
        with path.open("rb") as stream:
            return b'"rehearsal"' in stream.read(_LOOKED_AT_BYTES)
    except OSError:
        return False


def rehearsal_in(path: Path) -> form.Rehearsal:
    """Return the rehearsal of a file. It is data: reading it needs no trust, playing it does.

    Raises:
        AuthorMistake: it is none.
        FileMissing, WorldTrouble: it cannot be read.
    """
    return form.decoded(read_capped(path, max_bytes=MAX_BYTES), file=str(path))


async def rehearsed(
    rehearsal: form.Rehearsal, library: WorkflowLibrary
) -> tuple[Definition, ScriptHandlers]:
    """Return the workflow a rehearsal is played against, as it is now, and its functions.

    Raises:
        UserMistake: it is a Python file outside the workspace: a rehearsal, whoever wrote it, names none.
        MidstreamError: it cannot be loaded.
    """
    file = python_file(rehearsal.workflow)
    if file is not None and (Path(file[0]).is_absolute() or ".." in Path(file[0]).parts):
        raise UserMistake(
            f"The rehearsal is of {rehearsal.workflow}, which is not in this workspace.",
            hint="Play it with --workspace FOLDER, the folder of that file, and name the file from there.",
        )
    return await library.load(rehearsal.workflow)


def workspace_of(path: Path, otherwise: Path) -> Path:
    """Return the folder whose `.midstream` a file stands in, else `otherwise`."""
    for parent in path.parents:
        if parent.name == WORKSPACE_FOLDER:
            return parent.parent
    return otherwise

"""The pytest plugin: every rehearsal file is a test, in a project that asks for it.

    pytest_plugins = ["midstream.testing.plugin"]     # in the conftest.py at its root

or `pytest -p midstream.testing.plugin`, there or in `addopts`.

Collected is `rehearsals/*.json`, wherever pytest looks, and in `.midstream` without being told to:
`pytest` in a workspace plays its rehearsals. Elsewhere only files that look like one are taken: other
projects have folders of that name. What it plays runs the scripts of these workflows, as
pytest runs the `conftest.py` beside them.
"""

import asyncio
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from midstream.config.directories import WORKSPACE_FOLDER
from midstream.config.open_settings import open_settings
from midstream.language.errors import MidstreamError
from midstream.rehearsal.comparison import Difference, replay
from midstream.rehearsal.workspace import (
    FOLDER,
    is_rehearsal,
    library_of,
    rehearsal_in,
    rehearsed,
    workspace_of,
)
from midstream.runtime.workflow_library import WorkflowLibrary
from midstream.tools.validation import validate

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Look into `.midstream`, which pytest would pass by for the dot before its name."""
    is_ours = collection_path.name == WORKSPACE_FOLDER and collection_path.is_dir()
    return False if is_ours else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "RehearsalFile | None":
    """Return a file as a test, if it is a rehearsal."""
    if file_path.suffix != ".json" or file_path.parent.name != FOLDER:
        return None
    if WORKSPACE_FOLDER not in file_path.parts and not is_rehearsal(file_path):
        return None
    file: RehearsalFile = RehearsalFile.from_parent(parent, path=file_path)
    return file


class RehearsalFile(pytest.File):
    """A file with one rehearsal."""

    def collect(self) -> Iterable["RehearsalItem"]:
        """Yield the rehearsal as a test."""
        yield RehearsalItem.from_parent(self, name=self.path.stem)


class Differs(AssertionError):
    """The workflow of today does something else than the rehearsal says."""


class RehearsalItem(pytest.Item):
    """One rehearsal, played against the workflow of today."""

    def runtest(self) -> None:
        """Play it.

        Raises:
            Differs: something is not as it was.
            MidstreamError: the file is no rehearsal, or its workflow cannot be loaded.
        """
        difference = _played(self.path, self.config.rootpath)
        if difference is not None:
            raise Differs(str(difference))

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> "str | TerminalRepr":
        """Return what differs, without the traceback of the plugin."""
        if isinstance(excinfo.value, Differs | MidstreamError):
            return f"{self.path}\n{excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where it stands, for the report."""
        return self.path, 0, f"rehearsal: {self.name}"


def _played(path: Path, root: Path) -> Difference | None:
    library = _library_of(workspace_of(path, root))

    async def play() -> Difference | None:
        rehearsal = rehearsal_in(path)
        definition, handlers = await rehearsed(rehearsal, library)
        played = await replay(rehearsal, definition, handlers, validate=validate)
        return played.difference

    return asyncio.run(play())


@cache
def _library_of(workspace: Path) -> WorkflowLibrary:
    """Return a workspace's workflows: reading them takes longer than playing a rehearsal."""
    return library_of(open_settings(workspace, trusts_workspace=True))

"""A person's own status line, below the bottom line: a template of fields, or what a command prints.

It has a row of its own, with a mark that is ours, where the terminal has rows enough. The bottom line is
as it is without it: what Enter does, and what happens unasked, give way to nothing.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from midstream.config.private_files import read_capped
from midstream.language.errors import MidstreamError
from midstream.language.names import Json
from midstream.safety.sanitize import on_one_line
from midstream.system.offloop import in_thread
from midstream.tui.background_tasks import BackgroundTasks
from midstream.tui.styled_lines import Row, one_row
from midstream.tui.themes import MUTED

MARK: Final = "┆ "
LEAST_ROWS: Final = 12
"""Rows of a terminal that has room for one more."""

EVERY_S: Final = 1.0
_BRANCH_EVERY_S: Final = 2.0
_MAX_HEAD: Final = 1_000

Runner = Callable[[Mapping[str, Json]], Awaitable[str]]


class OwnStatus:
    """The row, and when what it says is looked up again: as something changed, at most once a second."""

    def __init__(self, background: BackgroundTasks, redraw: Callable[[], None], folder: Path):
        """Begin with none. `folder` is where its git branch is looked up."""
        self._background = background
        self._redraw = redraw
        self._folder = folder
        self._template = ""
        self._run: Runner | None = None
        self._text = ""
        self._asked: Mapping[str, str] | None = None
        self._is_running = False
        self._asked_at = self._branch_at = float("-inf")
        self._branch = ""
        self._later: asyncio.TimerHandle | None = None

    def use(self, template: str, run: Runner | None) -> None:
        """Say this from now on: a template with fields, or what a command says."""
        self._template, self._run = template, run
        self._text, self._asked = "", None

    @property
    def is_there(self) -> bool:
        """Return whether there is anything to say."""
        return bool(self._template) or self._run is not None

    def row(self, fields: Mapping[str, str], *, width: int, height: int, now: float) -> Row:
        """Return the row of a frame, nothing where there is none or no room. Quick: what waits is begun."""
        if not self.is_there or height < LEAST_ROWS:
            return []
        self._look_for_branch(now)
        known = {**fields, "branch": self._branch, "cwd": str(self._folder)}
        if self._run is not None:
            self._ask(known, now)
            text = self._text
        else:
            text = filled(self._template, known)
        return one_row([(MUTED, on_one_line(text))], width, MARK, MUTED)

    def stop(self) -> None:
        """Ask nothing any more."""
        if self._later is not None:
            self._later.cancel()

    def _ask(self, fields: Mapping[str, str], now: float) -> None:
        if self._is_running or fields == self._asked or self._run is None:
            return
        if (left := self._asked_at + EVERY_S - now) > 0:
            if self._later is None:
                self._later = asyncio.get_running_loop().call_later(left, self._again)
            return
        self._is_running, self._asked, self._asked_at = True, fields, now
        self._background.begin(self._answered(self._run, fields))

    def _again(self) -> None:
        self._later = None
        self._redraw()

    async def _answered(self, run: Runner, fields: Mapping[str, str]) -> None:
        try:
            self._text = await run(told(fields))
        except MidstreamError as trouble:
            self._text = f"statusLine: {trouble}"
        finally:
            self._is_running = False
        self._redraw()

    def _look_for_branch(self, now: float) -> None:
        if now - self._branch_at >= _BRANCH_EVERY_S:
            self._branch_at = now
            self._background.begin(self._found_branch())

    async def _found_branch(self) -> None:
        found = await in_thread(lambda: branch_of(self._folder))
        if found != self._branch:
            self._branch = found
            self._redraw()


def filled(template: str, fields: Mapping[str, str]) -> str:
    """Return a template with its fields filled in; a piece between ` · ` all of whose are empty goes."""
    pieces = []
    for piece in template.split(" · "):
        names = re.findall(r"\{(\w+)\}", piece)
        if not names or any(fields.get(name) for name in names):
            pieces.append(re.sub(r"\{(\w+)\}", lambda found: fields.get(found[1], ""), piece))
    return " · ".join(pieces)


def told(fields: Mapping[str, str]) -> dict[str, Json]:
    """Return what a command reads: the fields, and some under the names other consoles have for them."""
    return {
        **fields,
        "session_id": fields.get("run", ""),
        "model": {"id": fields.get("model", ""), "display_name": fields.get("model", "")},
        "workspace": {
            "current_dir": fields.get("cwd", ""),
            "project_dir": fields.get("cwd", ""),
        },
    }


def branch_of(folder: Path) -> str:
    """Return the git branch a folder is on, the beginning of its commit, or "". Reads one small file."""
    for place in (folder, *folder.parents):
        git = place / ".git"
        if git.is_file():
            said = _head(git)
            git = place / said.removeprefix("gitdir:").strip() if said else git
        if head := _head(git / "HEAD"):
            name = head.removeprefix("ref: refs/heads/")
            return name if name != head else head[:8]
    return ""


def _head(path: Path) -> str:
    """Return the first line of a small plain file, "" where there is none."""
    try:
        data = read_capped(path, max_bytes=_MAX_HEAD)
    except MidstreamError:
        return ""
    return data.decode("utf-8", "replace").partition("\n")[0].strip()

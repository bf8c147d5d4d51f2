"""What the attacks on paths share: a person's home, a workspace in it, and secrets all around."""

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
from deadline import DEADLINE_S as DEADLINE_S

from midstream.language.names import Json
from midstream.runtime.ports import Review, ToolContext, ToolOutcome
from midstream.safety.capability import PermissionMode
from midstream.safety.policy import Policy
from midstream.tools.manager import ToolManager

CANARY = "c4nary-that-must-never-be-seen"


class Field:
    """A home with secrets, and in it the workspace `work` an attacker has filled."""

    def __init__(self, base: Path, *, mode: PermissionMode = "full") -> None:
        self.base = base = base.resolve()
        self.home = base / "home"
        self.work = self.home / "work"
        self.outside = base / "outside"
        for folder in (".ssh", ".aws", ".config/midstream", ".local/state/midstream"):
            (self.home / folder).mkdir(parents=True)
        for name in (
            *(".ssh/id_ed25519", ".aws/credentials", ".netrc", ".bashrc"),
            *(".config/midstream/application.json", ".local/state/midstream/trust.json"),
            ".local/state/midstream/writing.lock",
        ):
            (self.home / name).write_text(CANARY)
        (self.outside / "deep").mkdir(parents=True)
        for name in ("note.txt", "deep/note.txt", "app.py"):
            (self.outside / name).write_text(CANARY)
        (self.work / "src").mkdir(parents=True)
        (self.work / "src" / "app.py").write_text("print('app')\n")
        (self.work / "README.md").write_text("Read me.\n")
        for name in (".git/hooks/post-checkout", ".git/config", ".env"):
            (self.work / name).parent.mkdir(parents=True, exist_ok=True)
            (self.work / name).write_text(CANARY)
        (self.work / ".midstream").mkdir()
        (self.work / ".midstream" / "application.json").write_text("{}")
        policy = Policy(mode=mode)
        self.manager = ToolManager(policy=lambda: policy)
        self.context = ToolContext(
            workspace=self.work, run="r1", agent="coder", stop=asyncio.Event(), progress=_unheard
        )

    def move_to(self, workspace: Path) -> None:
        """Have the tools work in another folder from now on."""
        self.context = msgspec.structs.replace(self.context, workspace=workspace)

    def link(self, name: str, target: str | Path) -> None:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    async def call(
        self, tool: str, *, granted: tuple[str, ...] = (), **arguments: Json
    ) -> ToolOutcome:
        context = msgspec.structs.replace(self.context, granted=granted)
        return await self.manager.call(tool, arguments, context)

    async def review(self, tool: str, **arguments: Json) -> Review:
        return await self.manager.review(tool, arguments, self.context)

    def everything(self) -> dict[str, tuple[int, str]]:
        """Return every file, folder and link of the field with its mode and what it holds."""
        found: dict[str, tuple[int, str]] = {}
        for folder, folders, files in os.walk(self.base):
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                mode = os.lstat(path).st_mode
                held = ""
                if stat.S_ISLNK(mode):
                    held = os.readlink(path)
                elif stat.S_ISREG(mode):
                    held = Path(path).read_bytes().decode("latin-1")
                found[os.path.relpath(path, self.base)] = (mode, held)
        return found


def _unheard(_text: str) -> None:
    """Hear nothing."""


Setup = Callable[[Field], object]


def nothing(_field: Field) -> None:
    """Leave the field as it is."""

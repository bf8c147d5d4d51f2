"""A sandbox for each user there can be, with something to steal and to break around it."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

WORKER = Path(__file__).with_name("box_worker.py")
NOBODY = 65534
SECRET = "canary-5f0c1d"
OBEYED = "as a person left it\n"
DEEP = (
    *("pkg/.vscode/tasks.json", "pkg/AGENTS.md", "pkg/.github/workflows/ci.yml"),
    *("pkg/sub/.husky/pre-commit", "pkg/sub/.pre-commit-config.yaml", "pkg/sub/.npmrc"),
    *("far/b/c/d/e/.git/config", "far/b/c/d/e/.git/HEAD", "far/b/c/CLAUDE.md", "far/b/.mcp.json"),
    *("plain/HEAD", "plain/config", "plain/objects/x", "plain/refs/x", "plain/hooks/update"),
    *("shared/HEAD", "shared/commondir"),
)
"""Files below the root that decide what runs later, and what makes git repositories of folders."""


class Ran(msgspec.Struct, frozen=True):
    """How a command inside ended."""

    text: str
    exit_code: int
    cause: str = ""
    survivors: int = 0
    refused: dict[str, str] = {}


class Box:
    """A worker that runs commands in the sandbox as a user, and the folder it does that in."""

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self.inside: list[socket.socket] = []
        self.pipe = -1
        # Not below pytest's own folder, which no other user may enter.
        self.folder = Path(tempfile.mkdtemp(prefix="midstream-box-"))
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.abstract = f"midstream-{os.urandom(6).hex()}"
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind("\0" + self.abstract)
        self.unix.listen()
        for name in ("home/.ssh", "state/journal", "workspace", "outside", "bare"):
            (self.folder / name).mkdir(parents=True)
        self.socket = self.folder / "outside" / "service.sock"
        self.service = socket.socket(socket.AF_UNIX)
        self.service.bind(str(self.socket))
        self.service.listen()
        (self.folder / "home/.ssh/id_ed25519").write_text(SECRET)
        (self.folder / "state/journal/run.db").write_text(SECRET)
        (self.folder / "outside/canary").write_text(SECRET)
        self.refresh()
        self.worker = subprocess.Popen(
            [sys.executable, str(WORKER), str(uid), str(self.folder)],
            env={**os.environ, "MIDSTREAM_API_KEY": SECRET, "LEAK": SECRET},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first: dict[str, Any] = self._answer()

    def refresh(self) -> None:
        """Make the workspace anew: a repository with settings of ours, another below it, secrets."""
        for name in ("workspace", "bare"):
            shutil.rmtree(self.folder / name)
            (self.folder / name).mkdir()
        workspace = self.folder / "workspace"
        for repository in (workspace, workspace / "vendor/lib"):
            (repository / ".git/hooks").mkdir(parents=True)
            (repository / ".git/config").write_text("[core]\n")
            (repository / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (workspace / ".midstream/workflows").mkdir(parents=True)
        (workspace / ".vscode").mkdir()
        (workspace / ".vscode/tasks.json").write_text("{}")
        (workspace / ".env").write_text(SECRET)
        (workspace / "notes.txt").write_text("notes\n")
        for name in DEEP:
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace / name).write_text(OBEYED)
        self._open_doors(workspace / "services/far")
        if os.getuid() == 0:
            for each in (self.folder, *self.folder.rglob("*")):
                os.chown(each, self.uid, self.uid, follow_symlinks=False)

    def _open_doors(self, folder: Path) -> None:
        """Let services of the host listen in the workspace: at sockets of each kind, and a pipe."""
        folder.mkdir(parents=True)
        for each in self.inside:
            each.close()
        self.inside = [
            socket.socket(socket.AF_UNIX, kind)
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET)
        ]
        for each, name in zip(self.inside, ("stream", "dgram", "packet"), strict=True):
            each.bind(str(folder / name))
            each.setblocking(False)
            if name != "dgram":
                each.listen()
        os.mkfifo(folder / "pipe")
        if self.pipe >= 0:
            os.close(self.pipe)
        self.pipe = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    def reached(self) -> list[str]:
        """Return which of the host's services somebody has spoken to."""
        found = []
        for each, name in zip(self.inside, ("stream", "dgram", "packet"), strict=True):
            with suppress(BlockingIOError):
                each.recv(1) if name == "dgram" else each.accept()[0].close()
                found.append(name)
        with suppress(BlockingIOError):
            found += ["pipe"] if os.read(self.pipe, 1) else []
        return found

    def run(self, *argv: str, **how: Any) -> Ran:
        """Run a command inside; return how it ended."""
        self.ask(*argv, **how)
        answer = self._answer()
        assert "error" not in answer, answer
        return msgspec.convert(answer, Ran)

    def ask(self, *argv: str, **how: Any) -> None:
        """Have a command run inside."""
        assert self.worker.stdin is not None
        self.worker.stdin.write(json.dumps({"argv": argv, **how}) + "\n")
        self.worker.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self.worker.stdout is not None
        line = self.worker.stdout.readline()
        assert line, "the worker has died"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        for each in (self.tcp, self.unix, self.service, *self.inside):
            each.close()
        os.close(self.pipe)
        with self.worker:
            assert self.worker.stdin is not None
            self.worker.stdin.close()
        shutil.rmtree(self.folder)


def users() -> list[int]:
    """Return the users tests can be: an ordinary one, and root where we are root."""
    return [0, NOBODY] if os.getuid() == 0 else [os.getuid()]

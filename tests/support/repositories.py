"""Repositories elsewhere, as `file://` of a folder of the test; and what a folder holds, to compare it."""

import hashlib
import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

FILES: Mapping[str, str | bytes] = {
    "README.md": "# A project\n",
    "src/parse.py": "def parse():\n    return 1\n",
    "windows.txt": b"one\r\ntwo\r\n",
    ".gitignore": "build/\n*.pyc\n",
    # Whoever follows these changes what stands in files, or starts a program.
    ".gitattributes": "* text=auto eol=crlf ident\n*.py filter=evil diff=evil\n",
}


def git(folder: Path, *arguments: str) -> str:
    """Return what git printed in a folder, started as a person with no settings of their own does."""
    ended = subprocess.run(
        ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com", *arguments],
        cwd=folder,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    return ended.stdout.strip()


def checkout(folder: Path, files: Mapping[str, str | bytes] = FILES) -> Path:
    """Return a work tree with one commit, whose remote `origin` has it: see `url_of`."""
    remote, work = folder / "elsewhere" / "project.git", folder / "work"
    remote.parent.mkdir(parents=True)
    git(remote.parent, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git(remote.parent, "init", "--quiet", "--initial-branch=main", str(work))
    for name, holds in files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(holds.encode() if isinstance(holds, str) else holds)
    # As it stands: what the attributes say is not for us.
    (work / ".git" / "info" / "attributes").write_text("* -text -ident -filter\n")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message", "The first")
    git(work, "remote", "add", "origin", f"file://{remote}")
    git(work, "push", "--quiet", "origin", "main")
    return work


def url_of(work: Path) -> str:
    """Return where the remote of a work tree is."""
    return git(work, "remote", "get-url", "origin")


def head_of(work: Path) -> str:
    """Return the commit a work tree is at."""
    return git(work, "rev-parse", "HEAD")


def contents(folder: Path, *, but: tuple[str, ...] = (".git", "build")) -> dict[str, str]:
    """Return what each file of a folder is: its kind, whether it may be executed, and its digest."""
    found: dict[str, str] = {}
    for above, folders, names in os.walk(folder):
        links = [name for name in folders if Path(above, name).is_symlink()]
        folders[:] = [name for name in folders if name not in but and name not in links]
        for name in (*names, *links):
            path = Path(above, name)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                found[path.relative_to(folder).as_posix()] = f"link {os.readlink(path)}"
            else:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                kind = "program" if mode & 0o100 else "file"
                found[path.relative_to(folder).as_posix()] = f"{kind} {digest}"
    return found

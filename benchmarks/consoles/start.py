"""Consoles installed into a folder, and started in a home of their own with nothing of the person's."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.consoles.screen import Screen
from benchmarks.consoles.table import Console

INSTALLING_S: Final = 600
PROJECT: Final = Path(__file__).parents[2]
TEMPORARY: Final = Path("/var/tmp")
"""Not /tmp: that may be memory, and Codex makes its helpers nowhere below it."""

NODE: Final = "node@24"
"""What the consoles of npm run on, from npm as well: a system's own may be too old for their newest."""


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """A console that can be started, or why it cannot be; `bin` is where its programs are."""

    console: Console
    bin: str
    path: str
    version: str = ""
    help: str = ""
    trouble: str = ""


def install(console: Console, into: Path) -> Installed:
    """Return a console, installed below a folder unless it is there."""
    folder = into / console.package.strip("@").replace("/", "-")
    node = into / "node" / "node_modules" / ".bin"
    path = f"{node}:{os.environ['PATH']}"
    found = Installed(console=console, bin=str(Path(sys.executable).parent), path=path)
    try:
        if console.by == "npm":
            if not node.exists():
                _npm(NODE, into / "node", os.environ["PATH"])
            found = msgspec.structs.replace(found, bin=str(folder / "node_modules/.bin"))
            if not Path(found.bin).exists():
                _npm(console.package, folder, path)
        elif console.by == "pip":
            found = msgspec.structs.replace(found, bin=str(folder / "bin"))
            if not Path(found.bin).exists():
                _run([sys.executable, "-m", "venv", str(folder)], path)
                pip = [
                    str(folder / "bin" / "pip"),
                    "--disable-pip-version-check",
                    "--quiet",
                    "install",
                ]
                _run([*pip, console.package], path)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        output = getattr(error, "stderr", "") or str(error)
        return msgspec.structs.replace(found, trouble=f"not installed: {_first_error(output)}")
    return _told(found)


def _told(found: Installed) -> Installed:
    """Return it with its version and its help."""
    if found.console.is_floor:
        return found
    with made_home() as home:
        try:
            version = _words_of(found, home, ("--version",))
            help_ = _words_of(found, home, found.console.help)
        except (OSError, subprocess.SubprocessError) as error:
            return msgspec.structs.replace(found, trouble=f"does not start: {error}")
    numbers = [word.strip("(),v") for word in version.split() if word.strip("(),v")[:1].isdigit()]
    return msgspec.structs.replace(found, version=(numbers or [version])[0].rstrip("."), help=help_)


def _words_of(found: Installed, home: "Home", words: tuple[str, ...]) -> str:
    argv = [home.filled(found.console.program[0], found, ""), *words]
    ended = subprocess.run(
        argv,
        env=home.env(found, ""),
        cwd=home.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ended.stdout or ended.stderr


def _npm(package: str, folder: Path, path: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), package], path)


def _run(command: list[str], path: str) -> None:
    subprocess.run(
        command,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=INSTALLING_S,
        check=True,
    )


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if "error" in line.lower()] or [
        text.strip()
    ]
    return lines[0][:160]


# --- a home ---------------------------------------------------------------------------------------


class Home:
    """A home folder with a little repository in it, `work`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"

    def env(self, found: Installed, url: str) -> dict[str, str]:
        """Return the environment of a console, and no more than that."""
        return {
            "PATH": found.path,
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "SHELL": "/bin/bash",
            "USER": "bench",
        } | {name: self.filled(value, found, url) for name, value in found.console.env.items()}

    def filled(self, text: str, found: Installed, url: str) -> str:
        """Return a text of the table with the places in it."""
        places: Mapping[str, str | Path] = {
            "$URL": url,
            "$HOME": self.folder,
            "$WORK": self.work,
            "$BIN": found.bin,
            "$PYTHON": sys.executable,
            "$VENV": Path(sys.executable).parent,
            "$BENCHMARKS": PROJECT / "benchmarks",
        }
        for place, value in places.items():
            text = text.replace(place, str(value))
        return text

    def start(self, found: Installed, url: str, *, is_resumed: bool = False) -> Screen:
        """Return the console, started here."""
        for name, text in found.console.files.items():
            path = self.folder / name
            if path.exists() and "$URL" not in text:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("<"):
                shutil.copy(next(Path(found.bin).glob(text[1:])), path)
            else:
                path.write_text(self.filled(text, found, url), encoding="utf-8")
        words = (*found.console.program, *(found.console.resume if is_resumed else ()))
        argv = [self.filled(word, found, url) for word in words]
        return Screen(argv, self.work, self.env(found, url))


@contextlib.contextmanager
def made_home() -> Iterator[Home]:
    """Give a home, gone afterwards."""
    with tempfile.TemporaryDirectory(
        prefix="midstream-home-", dir=TEMPORARY, ignore_cleanup_errors=True
    ) as name:
        home = Home(Path(name))
        home.work.mkdir()
        (home.work / "stone.txt").write_text("A grey stone.\n", encoding="utf-8")
        settings = "[user]\nname = bench\nemail = bench@localhost\n"
        (home.folder / ".gitconfig").write_text(settings, encoding="utf-8")
        env = {"HOME": name, "PATH": os.environ["PATH"]}
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "A stone"]):
            subprocess.run(["git", *words], cwd=home.work, env=env, check=True, capture_output=True)
        yield home

"""Runs command lines, each in a process forked from this one, and tells what each of them touched.

Told as JSON on stdout: the exit code, what it wrote, and of Python's audit events those about files,
code and programs of the folder it ran in. Reads `{"folder": ..., "lines": [[...], ...]}` from stdin.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from midstream.cli.main import exit_code


def run(folder: str, words: list[str]) -> dict[str, Any]:
    """Return what a command line did, run in the folder."""
    with tempfile.TemporaryDirectory() as place:
        out, err, log = (Path(place) / name for name in ("out", "err", "log"))
        pid = os.fork()
        if not pid:
            _be(folder, words, out, err, log)
        _, status = os.waitpid(pid, 0)
        touched = [json.loads(line) for line in log.read_text().splitlines()]
        return {
            "code": os.waitstatus_to_exitcode(status),
            "out": out.read_text(errors="replace"),
            "err": err.read_text(errors="replace"),
            "touched": touched,
        }


def _be(folder: str, words: list[str], out: Path, err: Path, log: Path) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), 1)
    os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT), 2)
    told = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.chdir(folder)

    def watch(event: str, args: tuple[Any, ...]) -> None:
        what: object = None
        if event == "open" and isinstance(args[0], str | bytes):
            path = os.path.join(folder, os.fsdecode(args[0]))
            what = os.path.relpath(path, folder) if path.startswith(folder) else None
        elif event == "exec" and args[0].co_filename.startswith(folder):
            what = args[0].co_filename
        elif event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
            what = str(args[:2])
        if what is not None:
            os.write(told, f"{json.dumps([event, what])}\n".encode())

    sys.addaudithook(watch)
    code = 99
    try:
        code = exit_code(words)
    finally:
        os._exit(code)


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    print(json.dumps([run(asked["folder"], words) for words in asked["lines"]]))

"""The real program on pipes: run to its end, watched while it works, or talked to line by line."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from console_kit import DEADLINE_S, MIDSTREAM, environment
from support.openai_server import Body, OpenAIServer, Reply, Scripted, Step

MODEL = ("--model", "openai:gpt-4o-mini")
OFFLINE = ("--model", "offline")


def workspace_of(home: Path) -> Path:
    """Return the folder the program works in; it has one small Python file."""
    folder = home / "workspace"
    if not folder.exists():
        folder.mkdir()
        (folder / "app.py").write_text("def f(x):\n    return x if x else 0\n", encoding="utf-8")
    return folder


def settings(home: Path, **values: Any) -> None:
    """Write the user's application.json."""
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / "application.json").write_text(json.dumps(values), encoding="utf-8")


def started(
    home: Path,
    *arguments: str | bytes,
    server: OpenAIServer | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[Any] = subprocess.DEVNULL,
    stdout: int | IO[Any] = subprocess.PIPE,
    stderr: int | IO[Any] = subprocess.PIPE,
    before: Callable[[], None] | None = None,
    program: Sequence[str] = MIDSTREAM,
) -> "subprocess.Popen[bytes]":
    """Start the program; it is killed if it is still there after the deadline."""
    process = subprocess.Popen(
        [*program, "--workspace", str(workspace_of(home)), *arguments],
        env=environment(home, server) | dict(env or {}),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        preexec_fn=before,
    )
    threading.Thread(target=_kill_late, args=(process,), daemon=True).start()
    return process


def _kill_late(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(DEADLINE_S)
        return
    process.kill()


class Ended:
    """What became of a program: its exit code and what it wrote."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out.decode()
        self.err = err.decode()
        assert "Traceback" not in self.err, self.err

    @property
    def told(self) -> str:
        """Return stderr on one line, its words separated by single spaces."""
        return " ".join(self.err.split())


def finished(process: "subprocess.Popen[bytes]", lines: str = "") -> Ended:
    """Return what became of a program that is given these lines."""
    out, err = process.communicate(lines.encode() if process.stdin else None)
    return Ended(process.returncode, out or b"", err or b"")


def run(
    home: Path,
    *arguments: str | bytes,
    lines: str | None = None,
    server: OpenAIServer | None = None,
    env: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> Ended:
    """Run the program to its end, `lines` on its stdin."""
    stdin = subprocess.DEVNULL if lines is None else subprocess.PIPE
    process = started(home, *arguments, server=server, env=env, stdin=stdin, before=before)
    return finished(process, lines or "")


def events(text: str) -> list[dict[str, Any]]:
    """Return the events of `--json` output; every line is one ASCII object with a type."""
    assert text.isascii()
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(event["type"], str) for event in found)
    return found


def of_type(found: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return the events of one type."""
    return [event for event in found if event["type"] == name]


class Brain:
    """What a server's model says: steps one after the other, then always the same."""

    def __init__(self) -> None:
        self.steps: list[Scripted] = []
        self.otherwise: Step = Reply(text="Well.")

    def __call__(self, body: Body) -> Step:
        """Return the next step."""
        step = self.steps.pop(0) if self.steps else self.otherwise
        return step(body) if callable(step) else step


class Session:
    """A chat with the `--json` console that many tests share: one line, one turn."""

    def __init__(
        self, home: Path, server: OpenAIServer, brain: Brain, program: Sequence[str] = MIDSTREAM
    ) -> None:
        self.brain = brain
        self._process = started(
            home, *MODEL, "--json", server=server, stdin=subprocess.PIPE, program=program
        )

    def say(self, line: str, *steps: Scripted) -> list[dict[str, Any]]:
        """Return the events from a line to the next moment the chat waits for one."""
        return list(self.saying(line, *steps))

    def saying(self, line: str, *steps: Scripted) -> Iterator[dict[str, Any]]:
        """Yield the same events as they come."""
        self.brain.steps = [*steps]
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        yield from self._turn()

    def _turn(self) -> Iterator[dict[str, Any]]:
        is_heard = False
        assert self._process.stdout is not None
        for data in self._process.stdout:
            event = json.loads(data)
            yield event
            is_heard = is_heard or event["type"] == "input_received"
            if is_heard and event["type"] == "question_asked" and event["kind"] == "input":
                return
        raise AssertionError("the program ended within a turn")

    def close(self) -> Ended:
        """End the input; return what became of the program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.stdin = None
        return finished(self._process)


def is_gone(pid: int) -> bool:
    """Return whether a process has ended (a zombie nobody waits for counts)."""
    try:
        os.kill(pid, 0)
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (ProcessLookupError, FileNotFoundError):
        return True


def interrupt(process: "subprocess.Popen[bytes]", number: int = signal.SIGINT) -> Ended:
    """Send a signal and return what became of the program."""
    process.send_signal(number)
    return finished(process)


def checkpointed(home: Path, text: str) -> None:
    """Return once the journal holds that a text was shown, or that a tool of that name was asked for."""
    ends_at = time.monotonic() + DEADLINE_S
    while time.monotonic() < ends_at:
        for kept in events(run(home, "runs", "--json").out)[:1]:
            told = of_type(events(run(home, "events", kept["run"], "--json").out), "reply_shown")
            if text in "".join(fact["text"] + fact.get("calling", "") for fact in told):
                return
    raise AssertionError(f"{text!r} was never checkpointed")

"""A newer version in the real program: asked for behind the first prompt, told at the next start."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from console_kit import MIDSTREAM, changed, console
from deadline import DEADLINE_S

from midstream.tools.newer_version import FILE

WORDS = "midstream 98.7 is on the package index"


def settings(home: Path, **said: object) -> None:
    (home / "config").mkdir(mode=0o700)
    whole = {"currentMode": "role:dude", **said}
    (home / "config/application.json").write_text(json.dumps(whole))


def start(home: Path, ci: str = "", program: tuple[str, ...] = tuple(MIDSTREAM)) -> str:
    """Start the console, say something, leave; return all that was on the screen."""
    with console(home, "--model", "offline", environ={"CI": ci}, program=program) as screen:
        screen.wait_for("chat with dude")
        screen.type("hello\r")
        screen.wait_for("I am the offline model")
        screen.settle()
        if len(program) > len(MIDSTREAM):
            until = time.monotonic() + DEADLINE_S
            while b"98.7" not in kept(home) and time.monotonic() < until:
                screen.settle()
        said = "\n".join(screen.scrollback())
        screen.type("\x04")
        assert screen.wait_exit() == 0
    return said


def kept(home: Path) -> bytes:
    path = home / "state" / FILE
    return path.read_bytes() if path.exists() else b""


@pytest.mark.parametrize(
    ("said", "ci", "is_told"),
    [({"updateNotice": True}, "", True), ({"updateNotice": True}, "true", False), ({}, "", False)],
)
def test_what_is_known_is_told_where_the_setting_says_so_and_it_is_no_ci(
    tmp_path: Path, said: dict[str, bool], ci: str, is_told: bool
) -> None:
    settings(tmp_path, **said)
    (tmp_path / "state").mkdir(mode=0o700)
    # Asked just now: nothing is asked of the real index.
    known = json.dumps({"asked_at": time.time(), "version": "98.7"})
    (tmp_path / "state" / FILE).write_text(known)

    assert start(tmp_path, ci).count(WORDS) == is_told


@contextmanager
def index() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["user-agent"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"info": {"version": "98.7"}}')

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/json", asked
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_it_is_looked_up_at_one_start_and_told_at_the_next(tmp_path: Path) -> None:
    settings(tmp_path, updateNotice=True)
    with index() as (url, asked):
        program = changed(
            "from midstream.tools.newer_version import look_up",
            f"look_up.__kwdefaults__['url'] = {url!r}",
        )
        assert WORDS not in start(tmp_path, program=program)
        assert WORDS in start(tmp_path, program=program)
        assert len(asked) == 1

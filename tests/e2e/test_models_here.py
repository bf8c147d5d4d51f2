"""`/model` completes the models that Ollama has on this machine."""

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from console_kit import DEADLINE_S, environment
from screen import TAB, Screen

MODELS = b'{"object": "list", "data": [{"id": "qwen3-coder:30b"}, {"id": "nomic-embed-text"}]}'

PATIENT = (
    sys.executable,
    "-c",
    "from midstream.__main__ import main; from midstream.models import localhost;"
    f"localhost.servers_here.__kwdefaults__['patience_s'] = {DEADLINE_S}; main()",
)
"""The program, which waits for an answer from this machine as long as a busy one may take."""


class FakeOllama(ThreadingHTTPServer):
    """Says which models it has; `asked` are the paths it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Answer)

    @property
    def address(self) -> str:
        """Return where it is, as `OLLAMA_BASE_URL` says it."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Answer(BaseHTTPRequestHandler):
    server: FakeOllama

    def do_GET(self) -> None:
        """Say which models there are."""
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(MODELS)))
        self.end_headers()
        self.wfile.write(MODELS)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of it."""


@pytest.fixture
def ollama() -> Iterator[FakeOllama]:
    with FakeOllama() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_tab_completes_the_models_of_ollama_and_it_is_asked_once(
    tmp_path: Path, ollama: FakeOllama
) -> None:
    with Screen.spawn(
        [*PATIENT, "--workspace", str(tmp_path)],
        environment(tmp_path) | {"OLLAMA_BASE_URL": ollama.address},
        cols=100,
    ) as screen:
        screen.wait_for("chat with dude")
        screen.type("/mode")
        screen.settle()
        assert ollama.asked == []

        screen.type("l ollama:")
        screen.wait_for("ollama:qwen3-coder:30b")
        screen.type(TAB)
        screen.wait_for("› /model ollama:qwen3-coder:30b")
        screen.type("\x15/model smart oll")
        screen.wait_for("ollama:qwen3-coder:30b")
        screen.type(TAB)
        screen.wait_for("› /model smart ollama:qwen3-coder:30b")

    assert ollama.asked == ["/v1/models"]

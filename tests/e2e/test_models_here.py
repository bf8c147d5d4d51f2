"""`/model` completes the models that Ollama has on this machine."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from console_kit import console
from screen import TAB

MODELS = b'{"object": "list", "data": [{"id": "qwen3-coder:30b"}, {"id": "nomic-embed-text"}]}'


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
    with console(tmp_path, environ={"OLLAMA_BASE_URL": ollama.address}) as screen:
        screen.wait_for("sends to dude")
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

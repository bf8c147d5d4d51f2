"""The least of a coding console, for the driver of `benchmarks.consoles` to be tried on.

It asks a model, shows what streams in, stops at Esc and keeps what was shown, marked. Enter while text
streams stops it, too, and sends the line. What was said is kept in its home, where `--continue` finds it.
"""

import contextlib
import http.client
import json
import os
import select
import sys
import threading
import tty
from pathlib import Path
from socket import SHUT_RDWR
from urllib.parse import urlsplit

SAID = Path(os.environ["HOME"]) / "said.json"
TOOL = {"type": "function", "function": {"name": "web_fetch", "parameters": {"type": "object"}}}


def write(text: str) -> None:
    sys.stdout.write(text.replace("\n", "\r\n"))
    sys.stdout.flush()


class Console:
    def __init__(self) -> None:
        self.said: list[dict[str, str]] = [{"role": "system", "content": "You are tiny."}]
        self.line = ""
        self.asking: threading.Thread | None = None

    def main(self) -> None:
        if "--continue" in sys.argv and SAID.exists():
            self.said = json.loads(SAID.read_text(encoding="utf-8"))
            write("\n".join(message["content"] for message in self.said[1:]))
        write("\n> ")
        while select.select([0], [], [])[0] and (keys := os.read(0, 1000).decode()):
            for key in keys:
                self.press(key)

    def press(self, key: str) -> None:
        if key == "\x1b":
            self.stop()
        elif key == "\r":
            self.stop()
            self.said.append({"role": "user", "content": self.line})
            self.line = ""
            SAID.write_text(json.dumps(self.said), encoding="utf-8")
            write("\n")
            self.asking = threading.Thread(target=self.ask, daemon=True)
            self.asking.start()
        elif key == "\x7f":
            self.line = self.line[:-1]
            write("\b \b")
        else:
            self.line += key
            write(key)

    def stop(self) -> None:
        if self.asking is not None and self.asking.is_alive():
            self.connection.sock.shutdown(SHUT_RDWR)
            self.asking.join()
            self.said[-1]["content"] += " [interrupted]"

    def ask(self) -> None:
        url = urlsplit(os.environ["OPENAI_BASE_URL"])
        self.connection = http.client.HTTPConnection(url.netloc)
        body = {"model": "tiny", "stream": True, "messages": self.said, "tools": [TOOL]}
        self.connection.request("POST", f"{url.path}/chat/completions", json.dumps(body))
        answer = {"role": "assistant", "content": ""}
        self.said = [*self.said, answer]
        with contextlib.suppress(OSError, http.client.HTTPException):
            for line in self.connection.getresponse():
                if line.startswith(b"data: {"):
                    choices = json.loads(line[6:])["choices"]
                    piece = choices[0]["delta"].get("content") if choices else ""
                    answer["content"] += piece or ""
                    write(piece or "")
        write("\n> ")


if __name__ == "__main__":
    tty.setraw(0)
    Console().main()

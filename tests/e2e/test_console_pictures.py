"""The real console in a real pty: pictures that a person shows to a model."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import msgspec
from console_kit import console, json_lines, run
from screen import CTRL_D
from support.openai_server import OpenAIServer, Reply
from support.pictures import png

from midstream.core.pictures import mark_of, picture_of

MODEL = ("--model", "openai:gpt-4o-mini")


def shown_in(body: Any) -> list[bytes]:
    """Return the pictures of a request in OpenAI's form, in order."""
    parts = [
        part
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
    ]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [base64.b64decode(url.removeprefix("data:image/png;base64,")) for url in urls]


def test_a_picture_that_a_line_mentions_is_seen_by_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    data = png(64, 48)
    (folder / "shot.png").write_bytes(data)
    with (
        OpenAIServer([Reply(text="A grey square."), Reply(text="Grey.")]) as server,
        console(tmp_path, *MODEL, server=server) as screen,
    ):
        screen.wait_for("chat with dude")
        screen.type("@shot.png what is this")
        screen.press("\r")
        screen.wait_for("A grey square.")
        screen.wait_for(f"shot.png 64x48] PNG, {len(data)} bytes")
        screen.type("and its colour?\r")
        screen.wait_for("Grey.")
        screen.press(CTRL_D)
        assert screen.wait_exit() == 0
        first, second = (exchange.body for exchange in server.exchanges)
    assert shown_in(first) == shown_in(second) == [data]
    said = first["messages"][-1]["content"]
    picture = picture_of(data, hashlib.sha256(data).hexdigest(), "shot.png")
    (kept,) = json_lines(run(tmp_path, "runs", "--json").stdout)
    told = run(tmp_path, "events", "--json", kept["run"]).stdout
    received = next(e for e in json_lines(told) if e["type"] == "input_received")
    assert received["text"] == said[-1]["text"] == f"{mark_of(picture)} what is this"
    assert received["pictures"] == [msgspec.to_builtins(picture)]
    assert base64.b64encode(data).decode()[40:80] not in told
    # What a request begins with is what the one before it was: a provider's cache knows it.
    assert second["messages"][: len(first["messages"])] == first["messages"]

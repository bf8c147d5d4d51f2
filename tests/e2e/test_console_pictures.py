"""The real console in a real pty: pictures that a person shows to a model."""

import base64
import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
from console_kit import chatting, console, json_lines, run
from deadline import wait_until
from screen import CTRL_D
from support.openai_server import OpenAIServer, Reply
from support.pictures import png

from midstream.core.pictures import mark_of, picture_of

CTRL_V = "\x16"
BACKSPACE = "\x7f"
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
    with chatting([Reply(text="A grey square."), Reply(text="Grey.")], tmp_path, *MODEL) as (
        screen,
        server,
    ):
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


def in_path(folder: Path, name: str, script: str) -> str:
    """Return a PATH with a program of that name in front, a shell script."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def heard(server: OpenAIServer) -> tuple[list[bytes], str]:
    """Return the pictures and the words of the last request."""
    body = server.exchanges[-1].body
    content = body["messages"][-1]["content"]
    words = content if isinstance(content, str) else content[-1]["text"]
    return shown_in(body), words


def test_a_file_that_is_dropped_is_a_picture_in_the_line(tmp_path: Path) -> None:
    away = tmp_path / "my desk"
    away.mkdir()
    shot = away / "Shot of today.png"
    shot.write_bytes(png(64, 48))
    with chatting([Reply(text="I see.")], tmp_path, *MODEL) as (screen, server):
        screen.type("look: ")
        screen.paste(str(shot).replace(" ", "\\ "))
        screen.wait_for("Shot of today.png 64x48]")
        shot.unlink()  # as a screenshot's draft is, a while later
        screen.type("nice?\r")
        screen.wait_for("I see.")
        pictures, words = heard(server)
        screen.press(CTRL_D)
        assert screen.wait_exit() == 0
    assert pictures == [png(64, 48)]
    assert words.startswith("look: [image ")
    assert words.endswith(": Shot of today.png 64x48] nice?")


def test_the_mark_of_a_picture_outlives_the_console(tmp_path: Path) -> None:
    shot = tmp_path / "shot.png"
    shot.write_bytes(png(64, 48))
    with OpenAIServer([Reply(text="I see.")]) as server:
        with console(tmp_path, *MODEL, server=server) as screen:
            screen.wait_for("chat with dude")
            screen.paste(f"'{shot}'")
            screen.wait_for("shot.png 64x48]")
            drafts = tmp_path / "state" / "drafts"
            wait_until(
                lambda: any("64x48]" in p.read_text() for p in drafts.glob("*") if not p.suffix)
            )
            screen.kill(signal.SIGKILL)
            screen.wait_exit()
        shot.unlink()
        with console(tmp_path, *MODEL, server=server) as screen:
            screen.wait_for("The line you had not sent is back.")
            screen.wait_for("shot.png 64x48]")
            screen.press("\r")
            screen.wait_for("I see.")
            pictures, _ = heard(server)
            screen.press(CTRL_D)
            assert screen.wait_exit() == 0
    assert pictures == [png(64, 48)]


def test_ctrl_v_takes_the_picture_in_the_clipboard(tmp_path: Path) -> None:
    (tmp_path / "clip").write_bytes(png(32, 16))
    paths = in_path(tmp_path / "bin", "xclip", f'case "$*" in *png*) cat "{tmp_path}/clip";; esac')
    environ = {"PATH": paths, "DISPLAY": ":7"}
    with chatting([Reply(text="I see.")], tmp_path, *MODEL, environ=environ) as (screen, server):
        screen.type(CTRL_V)
        screen.wait_for("pasted 32x16]")
        screen.type("x")
        screen.wait_for("pasted 32x16] x")
        screen.type(BACKSPACE * 2)
        screen.wait_gone("] x")
        screen.type(BACKSPACE)
        screen.wait_gone("pasted 32x16]")
        screen.type(CTRL_V)
        screen.wait_for("pasted 32x16]")
        screen.press("what?\r")
        screen.wait_for("I see.")
        pictures, words = heard(server)
        screen.press(CTRL_D)
        assert screen.wait_exit() == 0
    assert pictures == [png(32, 16)]
    assert words.endswith(": pasted 32x16] what?")


def test_ctrl_v_without_a_picture_is_a_paste_and_without_a_program_says_what_to_install(
    tmp_path: Path,
) -> None:
    paths = in_path(tmp_path / "bin", "xclip", 'case "$*" in *png*) exit 1;; *) echo words;; esac')
    with console(tmp_path, environ={"PATH": paths, "DISPLAY": ":7"}) as screen:
        screen.wait_for("chat with dude")
        screen.type(CTRL_V)
        screen.wait_for("› words")
    with console(tmp_path, environ={"DISPLAY": "", "WAYLAND_DISPLAY": ""}) as screen:
        screen.wait_for("chat with dude")
        screen.type(CTRL_V)
        screen.wait_for("No program here reads the clipboard. Install")


def test_the_command_line_shows_pictures_too(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "shot.png").write_bytes(png(64, 48))
    with OpenAIServer([Reply(text="I see."), Reply(text="I see it here.")]) as server:
        asked = run(tmp_path, "chat", "what is @shot.png?", *MODEL, server=server)
        assert (asked.returncode, asked.stdout.strip()) == (0, "I see."), asked.stderr
        pictures, words = heard(server)
        assert pictures == [png(64, 48)]
        assert words.endswith(": shot.png 64x48]?")
        (folder / "shot.png").write_bytes(png(64, 48) + b"\0" * 4_000_000)
        refused = run(tmp_path, "chat", "what is @shot.png?", *MODEL, server=server)
    assert refused.returncode != 0
    assert "the limit is 3,750,000" in refused.stderr
    assert len(server.requests) == 1


def test_beside_a_conversation_its_pictures_are_seen(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "shot.png").write_bytes(png(64, 48))
    with chatting([Reply(text="A square."), Reply(text="Grey, I think.")], tmp_path, *MODEL) as (
        screen,
        server,
    ):
        screen.type("@shot.png what is this")
        screen.press("\r")
        screen.wait_for("A square.")
        screen.type("/btw which colour?\r")
        screen.wait_for("Grey, I think.")
        screen.press(CTRL_D)
        assert screen.wait_exit() == 0
    assert [shown_in(exchange.body) for exchange in server.exchanges] == [[png(64, 48)]] * 2

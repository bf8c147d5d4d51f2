"""The plain and the JSON UI: lines as they come in, lines that can be parsed going out."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from deadline import DEADLINE_S
from fake_session import FakeSession, asked

from midstream.app.ui import UI, Submitted
from midstream.core.events import (
    AgentResponded,
    AnyFact,
    HandlerRan,
    Interrupted,
    ToolCalled,
    ToolReturned,
)
from midstream.core.notices import AnyNotice, Envelope, TextDelta, ThinkingDelta
from midstream.tui.jsonlines import JsonUI, json_line
from midstream.tui.pipes import QueueWriter, lines_from
from midstream.tui.plain_lines import PlainUI


class Pipes:
    """Stdin and stdout of a UI, with the other ends here."""

    def __init__(self) -> None:
        self.stdin, self.keys = os.pipe()
        self.screen, self.stdout = os.pipe()
        os.set_blocking(self.screen, False)
        self.session = FakeSession()
        self.read = b""

    def plain(self) -> PlainUI:
        ui = PlainUI(stdin=self.stdin, stdout=self.stdout)
        self.session.ui = ui
        return ui

    def json(self) -> JsonUI:
        ui = JsonUI(stdin=self.stdin, stdout=self.stdout)
        self.session.ui = ui
        return ui

    def type(self, text: str) -> None:
        os.write(self.keys, text.encode())

    def end_input(self) -> None:
        os.close(self.keys)
        self.keys = -1

    def out(self) -> str:
        try:
            while data := os.read(self.screen, 65536):
                self.read += data
        except BlockingIOError:
            pass
        return self.read.decode()

    def close(self) -> None:
        for fd in (self.stdin, self.keys, self.screen, self.stdout):
            if fd >= 0:
                os.close(fd)


@pytest.fixture
async def pipes() -> AsyncIterator[Pipes]:
    made = Pipes()
    yield made
    made.close()


async def test_what_a_model_thought_can_be_had_in_full(pipes: Pipes) -> None:
    ui = pipes.plain()
    events: tuple[AnyFact | AnyNotice, ...] = (
        ThinkingDelta(agent="ada", text="Hm."),
        AgentResponded(agent="ada", text="Yes."),
        ThinkingDelta(agent="ada", text="Well."),
        AgentResponded(agent="ada", text="No."),
    )
    for event in events:
        ui.show(Envelope(run="r", at=0.0, event=event))

    ui.show_in_full("last")
    ui.show_in_full("last")
    await ui.close()

    assert pipes.out().endswith(
        "┊ ada: reasoning\n  ┊ Well.\n┊ ada: reasoning  (the one before)\n  ┊ Hm.\n"
    )


async def played(pipes: Pipes, ui: UI, text: str) -> str:
    """Return what a UI wrote for an input that ends."""
    pipes.type(text)
    pipes.end_input()
    async with asyncio.timeout(DEADLINE_S):
        await ui.run(pipes.session)
        await ui.close()
    return pipes.out()


async def test_lines_reach_the_session_in_order_and_the_end_of_input_returns(pipes: Pipes) -> None:
    out = await played(pipes, pipes.plain(), "one\n\ntwo\r\nlast without newline")

    assert [call.split(" question")[0] for call in pipes.session.calls] == [
        "got 'one'",
        "got 'two'",
        "got 'last without newline'",
    ]
    assert "› one\n" in out


async def test_a_piped_line_answers_the_question_that_was_printed_before_it(pipes: Pipes) -> None:
    ui = pipes.plain()
    pipes.session.ask(asked(1, "Which colour?", choices=("red", "blue")))

    out = await played(pipes, ui, "red\n")

    assert out.startswith("? #1 ada asks\n│ Which colour?\n│ 1 red\n│ 2 blue\n› red\n")
    assert "seen=['q1']" in pipes.session.calls[0]


async def test_an_unclear_line_is_named_and_not_guessed_about(pipes: Pipes) -> None:
    ui = pipes.plain()

    async def unclear(line: str, **_: Any) -> Submitted:
        return Submitted(kind="unclear", question="q1")

    pipes.session.submit = unclear  # type: ignore[method-assign]
    out = await played(pipes, ui, "red\n")

    assert "! Not delivered: red\n" in out


async def test_the_session_may_end_it_and_later_lines_are_left(pipes: Pipes) -> None:
    await played(pipes, pipes.plain(), "/exit\nnever\n")

    assert pipes.session.calls == []


async def test_an_error_of_the_session_costs_one_line(pipes: Pipes) -> None:
    out = await played(pipes, pipes.plain(), "/boom\nnext\n")

    assert "ValueError: boom in the session" in out
    assert "got 'next'" in out


async def test_a_plain_ui_sanitizes_and_prints_no_colour(pipes: Pipes) -> None:
    out = await played(pipes, pipes.plain(), "/hostile\n/md\n/tool\n")

    assert "\x1b" not in out
    assert "\n  › /exit\n" in out
    assert "\n# Findings\n" in out
    assert "✓ read_files(a.py) · 3 lines\n" in out


async def test_streaming_words_are_not_printed_twice(pipes: Pipes) -> None:
    ui = pipes.plain()
    for event in (TextDelta(agent="ada", text="He"), AgentResponded(agent="ada", text="Hello")):
        ui.show(Envelope(run="r1", at=0.0, event=event))

    assert await played(pipes, ui, "") == "▌ ada\nHello\n"


async def test_an_interruption_is_summed_up_in_a_pipe_as_well(pipes: Pipes) -> None:
    ui = pipes.plain()
    for event in (
        ToolCalled(call_id="c1", name="search", arguments={}, agent="ada"),
        Interrupted(epoch=1, text="no", agent="ada"),
        ToolReturned(call_id="c1", name="search", outcome="stopped", result=""),
    ):
        ui.show(Envelope(run="r1", at=0.0, event=event, seq=1))

    assert await played(pipes, ui, "") == "⏹ interrupted · stopped: search\n"


async def test_json_lines_are_ascii_objects_with_the_events_own_fields(pipes: Pipes) -> None:
    out = await played(pipes, pipes.json(), "/hostile\nhi – ü\n")

    objects = [json.loads(line) for line in out.splitlines()]
    assert out.isascii()
    assert "\x1b" not in out
    assert [item["type"] for item in objects] == ["agent_responded", "console"]
    assert objects[0]["seq"] == 1
    assert objects[0]["run"] == "r1"
    assert objects[0]["text"].startswith("before\x1b[2J")
    assert objects[1] == {
        "type": "console",
        "kind": "note",
        "text": "got 'hi – ü' question=None new=False seen=[]",
    }


async def test_json_has_no_nan_and_the_stream_stays_readable(pipes: Pipes) -> None:
    ui = pipes.json()
    event = HandlerRan(state="s", handler="h", slot="pre_handler", changed={"x": float("nan")})
    ui.show(Envelope(run="r1", at=0.0, event=event, seq=1))

    out = await played(pipes, ui, "")

    assert json.loads(out)["kind"] == "error"


def test_lone_surrogates_become_replacement_characters_in_json() -> None:
    assert json.loads(json_line({"a": "x\ud800y", "b": "👍"})) == {"a": "x\ufffdy", "b": "👍"}


async def test_a_broken_pipe_ends_quietly(pipes: Pipes) -> None:
    ui = pipes.plain()
    os.close(pipes.screen)
    pipes.screen = -1
    pipes.type("one\n")

    async with asyncio.timeout(DEADLINE_S):
        await ui.run(pipes.session)
        await ui.close()


async def test_a_reader_that_does_not_read_holds_up_nobody(pipes: Pipes) -> None:
    broken: list[bool] = []
    writer = QueueWriter(pipes.stdout, on_broken=lambda: broken.append(True))
    for number in range(20_000):
        writer.write(f"line {number} of many, more than a pipe holds\n")

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        closing = group.create_task(writer.aclose())
        while not closing.done():
            pipes.out()
            await asyncio.sleep(0.001)  # a loop that never rests starves the writing thread
    assert pipes.out().count("\n") == 20_000
    assert broken == []


async def test_files_and_dev_null_are_read_like_pipes(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\nt\xc3\xbcwo\nbad \xff byte")
    found = []
    for name in (str(path), "/dev/null"):
        fd = os.open(name, os.O_RDONLY)
        async with asyncio.timeout(DEADLINE_S):
            found.append([line async for line in lines_from(fd)])
        os.close(fd)

    assert found == [["one", "tüwo", "bad � byte"], []]


async def test_a_line_comes_as_soon_as_it_is_there(pipes: Pipes) -> None:
    async with asyncio.timeout(DEADLINE_S):
        reading = lines_from(pipes.stdin)
        pipes.type("first\nsec")
        assert await anext(reading) == "first"
        pipes.type("ond\n")
        assert await anext(reading) == "second"
        pipes.end_input()
        assert [line async for line in reading] == []

"""What is typed while the console starts: sent as it was typed, and no answer to what it was not for."""

from pathlib import Path

import pytest
from console_kit import MIDSTREAM, console
from prompt_toolkit.key_binding import KeyPress
from screen import CTRL_D
from support.openai_server import Call, OpenAIServer, Reply

from midstream.tui.terminal_replies import KeyParser

MODEL = ("--model", "openai:gpt-4o-mini")
HELD = ("/bin/sh", "-c", 'until [ -e "$0" ]; do sleep 0.01; done; exec "$@"')
"""Starts a program once a file is there: what is typed before is typed ahead, however slow the typing."""


def held(folder: Path) -> tuple[str, ...]:
    return (*HELD, str(folder / "held"), *MIDSTREAM)


@pytest.mark.parametrize("keys", ["hello\r", "\r\r  \rhello\r\r", "hello\rwo"])
def test_a_line_is_sent_as_soon_as_the_console_is_up(tmp_path: Path, keys: str) -> None:
    with (
        OpenAIServer([Reply(text="Hello there.")]) as server,
        console(tmp_path, *MODEL, server=server, program=held(tmp_path)) as screen,
    ):
        screen.type(keys)
        (tmp_path / "held").touch()
        screen.wait_for("Hello there.")
        screen.wait_for("› wo" if keys.endswith("wo") else "›")
        assert [each["content"] for each in server.requests[0]["messages"][1:]] == ["hello"]


def test_what_was_not_sent_stays_to_be_sent(tmp_path: Path) -> None:
    with (
        OpenAIServer([Reply(text="Hello there.")]) as server,
        console(tmp_path, *MODEL, server=server, program=held(tmp_path)) as screen,
    ):
        screen.type("hel")
        (tmp_path / "held").touch()
        screen.wait_for("⏎ sends to dude")
        screen.type("lo\r")
        screen.wait_for("Hello there.")
        assert [each["content"] for each in server.requests[0]["messages"][1:]] == ["hello"]


def test_several_lines_pasted_ahead_are_one_text_that_waits(tmp_path: Path) -> None:
    with (
        OpenAIServer([Reply(text="Hello there.")]) as server,
        console(tmp_path, *MODEL, server=server, program=held(tmp_path)) as screen,
    ):
        screen.type("one\rtwo\rthree\r")
        (tmp_path / "held").touch()
        screen.wait_for("three")
        screen.wait_for("⏎ sends to dude")
        assert server.requests == []
        screen.type("\r")
        screen.wait_for("Hello there.")
        assert [each["content"] for each in server.requests[0]["messages"][1:]] == [
            "one\ntwo\nthree"
        ]


def test_a_line_is_no_answer_to_a_question_that_it_did_not_see(tmp_path: Path) -> None:
    ask = Call(name="request_users_input", arguments={"question": "Which way?"})
    with OpenAIServer([Reply(calls=(ask,))]) as server:
        with console(tmp_path, *MODEL, server=server) as screen:
            screen.wait_for("chat with dude")
            screen.type("go\r")
            screen.wait_for("Which way?")
            screen.type(CTRL_D)
            assert screen.wait_exit() == 0
        options = (*MODEL, "--continue")
        with console(tmp_path, *options, server=server, program=held(tmp_path)) as screen:
            screen.type("left\r")
            (tmp_path / "held").touch()
            screen.wait_for("#1 dude asks")
            screen.wait_for("› left")
            screen.settle()
            assert "✓ #1" not in screen.text()
            assert len(server.requests) == 1


def keys_of(data: str, *, may_send: bool, ahead: int) -> str:
    heard: list[KeyPress] = []
    parser = KeyParser(heard.append)
    parser.expect(ahead, lambda: may_send)
    parser.feed(data)
    assert not parser.is_alone
    return "".join(each.data for each in heard)


@pytest.mark.parametrize(
    ("data", "sent", "kept"),
    [
        ("\n", "", ""),
        ("a\n", "a\r", "a"),
        ("\n\na\nb", "a\rb", "\n\na\nb"),
        ("a\n\nb\nc", "a\n\nb\nc", "a\n\nb\nc"),
        ("a\nb\n\n", "a\nb", "a\nb"),
        ("é\n", "é\r", "é"),
    ],
)
def test_enter_typed_ahead_sends_what_stands_before_it_alone(
    data: str, sent: str, kept: str
) -> None:
    size = len(data.encode())
    assert keys_of(data, may_send=True, ahead=size) == sent
    assert keys_of(data, may_send=False, ahead=size) == kept


def test_a_paste_that_was_read_in_pieces_is_one_text() -> None:
    heard: list[KeyPress] = []
    parser = KeyParser(heard.append)
    parser.expect(8, lambda: True)
    for piece in ("a\nb\n", "c\n", "d\n", "e\n"):
        parser.feed(piece)
    assert "".join(each.data for each in heard) == "a\nb\nc\nde\n"


def test_a_new_line_typed_later_is_one() -> None:
    heard: list[KeyPress] = []
    parser = KeyParser(heard.append)
    parser.expect(2, lambda: True)
    parser.feed("a\n")
    parser.feed("b\n")
    assert "".join(each.data for each in heard) == "a\rb\n"

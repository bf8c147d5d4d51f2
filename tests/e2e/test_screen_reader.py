"""Screen reader mode: plain lines in a real terminal, each said once."""

import json
from pathlib import Path

import pytest
from console_kit import changed, console
from screen import CTRL_C, CTRL_D, Screen
from support.openai_server import Call, Gate, OpenAIServer, Reply

from midstream.tui.on_screen import FRESH_S

MODEL = ("--model", "openai:test-model")
READ = (*MODEL, "--screen-reader")
WRITE = Call(name="write_file", arguments={"path": "new.txt", "content": "fresh\n"})


def said(screen: Screen) -> list[str]:
    return [line for line in screen.scrollback() if line]


def test_a_streamed_answer_comes_by_sentences_each_once(tmp_path: Path) -> None:
    gate = Gate()
    reply = Reply(chunks=("It beg", "ins here. And go", "es on."), gate=gate, gate_after=2)
    with OpenAIServer([reply]) as server, console(tmp_path, *READ, server=server) as screen:
        screen.wait_for("Enter sends to dude.")
        screen.type("hello\r")
        screen.wait_for("It begins here.")
        assert "And go" not in screen.text()
        screen.wait_for("Enter interrupts dude")
        gate.open()
        screen.wait_for("And goes on.")
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0
        lines = said(screen)
        assert [lines.count(each) for each in ("It begins here.", "And goes on.")] == [1, 1]
        assert b"\x1b" not in bytes(screen.raw), "nothing is drawn twice, no cursor is moved"


def test_words_in_mid_word_halt_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    cut = Reply(chunks=("One is whole. Two is cu", "t."), gate=Gate(), gate_after=1)
    replies = [cut, Reply(text="In German, then.")]
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "application.json").write_text(json.dumps({"screenReader": True}))
    with OpenAIServer(replies) as server, console(tmp_path, *MODEL, server=server) as screen:
        screen.wait_for("Enter sends to dude.")
        screen.type("go\r")
        screen.wait_for("One is whole.")
        screen.type("in German\r")
        screen.wait_for("In German, then.")
        lines = said(screen)

    told = [line for line in lines if not line.startswith("· ")]
    assert told[told.index("go") :] == [
        *("go", "▌ dude", "One is whole.", "in German"),
        *("▌ dude", "Two is cu", "▌ [interrupted]"),
        *("⏹ interrupted · dude cut off", "▌ dude", "In German, then."),
    ]


def test_what_was_not_told_yet_of_a_reply_is_told_when_the_console_is_left(tmp_path: Path) -> None:
    cut = Reply(chunks=("One is whole. Two is cu", "t."), gate=Gate(), gate_after=1)
    with OpenAIServer([cut]) as server, console(tmp_path, *READ, server=server) as screen:
        screen.wait_for("Enter sends to dude.")
        screen.type("go\r")
        screen.wait_for("One is whole.")
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0
        lines = said(screen)

    assert lines[lines.index("One is whole.") :].count("Two is cu") == 1
    assert lines[lines.index("Two is cu") + 1] == "▌ [interrupted]"


def test_ctrl_c_halts_and_leaves_only_where_nothing_is_at_work(tmp_path: Path) -> None:
    cut = Reply(chunks=("One. Tw", "o."), gate=Gate(), gate_after=1)
    with OpenAIServer([cut]) as server, console(tmp_path, *READ, server=server) as screen:
        screen.wait_for("Enter sends to dude.")
        screen.type("go\r")
        screen.wait_for("One.")
        screen.type(CTRL_C)
        screen.wait_for("interrupted · dude cut off")
        screen.type(CTRL_C)
        screen.wait_for("Ctrl-C again leaves.")
        screen.type(CTRL_C)
        assert screen.wait_exit() == 0


SOON = "import midstream.tui.screen_reader as reader; reader.WRITES_S = 0.0"
LATE = "import midstream.tui.screen_reader as reader; reader.WRITES_S = 600.0"


def test_a_call_that_takes_a_while_to_write_is_told(tmp_path: Path) -> None:
    gate = Gate()
    step = Reply(text="I make it.", calls=(WRITE,), gate=gate, holds_call=True)
    steps = [step, Reply(text="Done so.")]
    with (
        OpenAIServer(steps) as server,
        console(tmp_path, *READ, server=server, program=changed(SOON)) as screen,
    ):
        screen.wait_for("Enter sends to dude.")
        screen.type("make it\r")
        screen.wait_for("dude is writing a call of write_file.")
        gate.open()
        screen.wait_for("press Enter on an empty line")
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0
        assert sum("is writing a call" in line for line in said(screen)) == 1


def test_a_call_that_is_written_at_once_is_told_by_itself_alone(tmp_path: Path) -> None:
    with (
        OpenAIServer([Reply(calls=(WRITE,))]) as server,
        console(tmp_path, *READ, server=server, program=changed(LATE)) as screen,
    ):
        screen.wait_for("Enter sends to dude.")
        screen.type("make it\r")
        screen.wait_for("press Enter on an empty line")
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0
        assert not any("is writing a call" in line for line in said(screen))


@pytest.mark.parametrize("key", ["y", "n"])
def test_an_approval_is_decided_by_a_fresh_key_alone_and_never_by_a_line(
    tmp_path: Path, key: str
) -> None:
    folder = tmp_path / "workspace"
    with (
        OpenAIServer([Reply(calls=(WRITE,)), Reply(text="Done so.")]) as server,
        console(tmp_path, *READ, server=server) as screen,
    ):
        screen.wait_for("Enter sends to dude.")
        screen.type("write it\r")
        screen.wait_for("press Enter on an empty line")
        screen.type("y\r")
        screen.wait_for("Nothing is decided by y.")
        screen.type("\ry\r")  # a paste
        screen.wait_for("that was more than a key, or came too soon")
        screen.wait_until(lambda s: s.text().count("Nothing is decided by y.") == 2)
        assert not (folder / "new.txt").exists()
        asked = screen.text().count("One key: y allows it once")
        screen.type("\r")
        screen.wait_until(lambda s: s.text().count("One key: y allows it once") > asked)
        screen.rest(FRESH_S * 2)
        screen.type(key)
        screen.wait_for("Done so.")
        assert (folder / "new.txt").exists() == (key == "y")
        assert b"\x1b" not in bytes(screen.raw)


def test_a_question_is_answered_only_by_a_line_begun_after_it(tmp_path: Path) -> None:
    with console(tmp_path, "--model", "offline", "--screen-reader") as screen:
        screen.wait_for("Enter sends to dude.")
        screen.type("/workflow code_architecture_review\r")
        screen.wait_for("4 size")
        screen.type("size\r")
        screen.wait_for("Not delivered: size")
        screen.type("size\r")
        screen.wait_for("✓ finished")
        answers = [line for line in said(screen) if line.startswith("✓ ") and "#1" in line]
        assert len(answers) == 1
        assert answers[0].endswith("size")

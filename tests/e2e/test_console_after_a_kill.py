"""The real program killed, or its stream broken, without warning: nothing typed or shown is lost."""

import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from console_kit import changed, console, lines_left, write_workflow
from deadline import wait_until
from pipes_kit import OFFLINE, checkpointed, run
from screen import CTRL_D, Screen
from support.openai_server import Call, Fault, Gate, OpenAIServer, Reply

from midstream.tui.on_screen import FRESH_S

MODEL = ("--model", "openai:gpt-4o-mini")

PATIENT = {
    "workflow_name": "patient",
    "on_input": "queue",
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}, {"name": "stop"}],
}
ASKING = Call(
    name="request_users_input", arguments={"question": "Which one?", "choices": ["red", "blue"]}
)


DELIVERS_NOTHING = """
import asyncio
from midstream.app.input import Input
async def never(*_, **__):
    await asyncio.Event().wait()
Input.send = never
"""


def killed(screen: Screen) -> None:
    """Kill the console without any warning."""
    screen.kill(signal.SIGKILL)
    screen.wait_exit()
    screen.close()


def run_of(screen: Screen) -> str:
    """Return the id of the run the screen says has started."""
    line = next(line for line in screen.scrollback() if "started, run " in line)
    return line.split("started, run ")[1].split()[0]


def said_by_user(request: dict[str, object]) -> list[object]:
    messages = request["messages"]
    assert isinstance(messages, list)
    return [m["content"] for m in messages if m["role"] == "user"]


@contextmanager
def killed_in_mid_stream(home: Path) -> Iterator[OpenAIServer]:
    """Kill a chat while a story is told, once what was shown of it is kept; give its server."""
    gate = Gate()
    story = Reply(chunks=("Once upon ", "a time ", "there was"), gate=gate, gate_after=2)
    with OpenAIServer([story, Reply(text="The end.")]) as server:
        screen = console(home, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("tell me a story\r")
        screen.wait_for("Once upon a time")
        checkpointed(home, "Once upon a time")
        killed(screen)
        gate.open()
        yield server


@pytest.mark.both_journals
def test_a_chat_killed_in_mid_stream_keeps_what_was_shown_and_pays_nobody_again(
    tmp_path: Path,
) -> None:
    with killed_in_mid_stream(tmp_path) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("was cut off")
        screen.wait_for("chat with dude")
        screen.type("/resume\r")
        screen.wait_for("Once upon a time")
        screen.wait_for("[interrupted]")
        screen.wait_for("Enter resumes")
        assert len(server.requests) == 1, "the model is not paid again by itself"
        screen.type("go on\r")
        screen.wait_for("The end.")
        heard = [message["content"] for message in server.requests[1]["messages"][1:]]
        assert heard == ["tell me a story", "Once upon a time [interrupted]", "go on"]
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


@pytest.mark.parametrize("way", [CTRL_D, signal.SIGTERM], ids=["Ctrl-D", "SIGTERM"])
def test_what_was_shown_of_a_reply_stays_on_the_screen_when_the_console_is_left(
    tmp_path: Path, way: str | signal.Signals
) -> None:
    story = Reply(chunks=("Once upon ", "a time ", "there was"), gate=Gate(), gate_after=2)
    with (
        OpenAIServer([story]) as server,
        console(tmp_path, *MODEL, server=server) as screen,
    ):
        screen.wait_for("chat with dude")
        screen.type("tell me a story\r")
        screen.wait_for("Once upon a time")
        lines = lines_left(screen, way)
        at = lines.index("› tell me a story")
        told = ["▌ dude", "Once upon a time", "▌ [interrupted]"]
        assert lines[at + 1 : at + 4] == told
        assert "is kept where it stopped" in lines[at + 4]


def test_a_chat_killed_in_mid_stream_stands_on_the_screen_once_when_it_goes_on(
    tmp_path: Path,
) -> None:
    with killed_in_mid_stream(tmp_path) as server:
        screen = console(tmp_path, *MODEL, "--continue", server=server)
        screen.wait_for("was cut off by a crash")
        screen.wait_for("resumes · chat with dude")
        assert [line for line in screen.scrollback() if line][:6] == [
            "· Where you were: 1 turn.",
            "› tell me a story",
            "▌ dude",
            "Once upon a time",
            "▌ [interrupted]",
            "· dude was cut off by a crash and waits for your words. Enter resumes.",
        ]
        screen.type("\r")
        screen.wait_for("The end.")
        assert len([line for line in screen.scrollback() if "Once upon" in line]) == 1
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


@pytest.mark.parametrize(
    ("reply", "stands"),
    [
        (Reply(text="Hello."), "waiting for your words"),
        (Reply(calls=(ASKING,)), "dude is waiting for your answer to #1"),
    ],
)
def test_of_a_chat_that_only_waited_at_the_kill_nothing_was_cut_off(
    tmp_path: Path, reply: Reply, stands: str
) -> None:
    with OpenAIServer([reply]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("hello\r")
        screen.wait_for("answers #1" if reply.calls else "Hello.")
        screen.wait_for("chat with dude")
        killed(screen)

        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("/sessions\r")
        screen.wait_for("1 turn")
        screen.type("/sessions 1\r")
        screen.wait_for(f"· Chat with dude: {stands}")
        assert "cut off" not in "\n".join(screen.scrollback())
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


@pytest.mark.both_journals
def test_a_workflow_killed_in_mid_stream_goes_on_from_what_was_shown(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "patient", PATIENT)
    gate = Gate()
    story = Reply(chunks=("Once upon ", "a time ", "there was"), gate=gate, gate_after=2)
    with OpenAIServer([story, Reply(text="The end.")]) as server:
        screen = console(tmp_path, "--mode", "workflow:patient", *MODEL, server=server)
        screen.wait_for("Once upon a time")
        id = run_of(screen)
        checkpointed(tmp_path, "Once upon a time")
        killed(screen)
        gate.open()

        ended = run(tmp_path, "resume", id, *MODEL, server=server)
        assert (ended.code, ended.out.strip()) == (0, "The end."), ended.err
        heard = [message["content"] for message in server.requests[1]["messages"]]
        assert heard[-2:] == ["Once upon a time [interrupted]", "Go on."]


@pytest.mark.both_journals
def test_a_question_open_at_the_kill_is_open_again_and_is_answered(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "patient", PATIENT)
    with OpenAIServer([Reply(calls=(ASKING,)), Reply(text="Blue it is.")]) as server:
        screen = console(tmp_path, "--mode", "workflow:patient", *MODEL, server=server)
        screen.wait_for("answers #1")
        id = run_of(screen)
        killed(screen)

        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for(f"/resume {id[:4]} goes on")
        screen.wait_for("chat with dude")
        screen.type(f"/resume {id[:4]}\r")
        screen.wait_for("Which one?")
        screen.wait_for("answers #1")
        screen.rest(FRESH_S * 2)  # a number sooner after the card was drawn is asked about
        screen.type("2\r")
        screen.wait_for("Blue it is.")
        screen.wait_for("✓ finished")
        assert len(server.requests) == 2
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


@pytest.mark.both_journals
def test_words_that_were_queued_at_the_kill_are_delivered_once(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "patient", PATIENT)
    gate = Gate()
    busy = Reply(chunks=("Busy ", "here"), gate=gate, gate_after=1)
    with OpenAIServer([busy, Reply(text="Done."), Reply(text="Tests too.")]) as server:
        screen = console(tmp_path, "--mode", "workflow:patient", *MODEL, server=server)
        screen.wait_for("Busy")
        screen.type("and the tests?\r")
        screen.wait_for("waits for the end of this state")
        killed(screen)
        gate.open()

        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("was cut off")
        screen.wait_for("chat with dude")
        screen.type("/resume\r")
        screen.wait_for("Tests too.")
        screen.wait_for("✓ finished")
        heard = said_by_user(server.requests[-1])
        assert heard.count("and the tests?") == 1
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_a_run_that_was_left_is_come_back_to_by_its_saved_mode_and_auto_resume(
    tmp_path: Path,
) -> None:
    write_workflow(tmp_path / "config", "patient", PATIENT)
    (tmp_path / "config" / "application.json").write_text('{"autoResume": true}')
    with OpenAIServer([Reply(calls=(ASKING,)), Reply(text="Red it is.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("/workflow patient\r")
        screen.wait_for("answers #1")
        id = run_of(screen)
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0
        assert f"midstream resume {id[:4]}" in "".join(screen.text().split("\n")).replace("  ", " ")

        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("answers #1")
        assert "workflow:patient" in screen.text()
        screen.type("red\r")
        screen.wait_for("Red it is.")
        screen.wait_for("✓ finished")
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


@pytest.mark.journal_file
def test_a_line_the_disk_has_no_room_for_comes_back_and_is_taken_once_it_has(
    tmp_path: Path,
) -> None:
    with OpenAIServer([Reply(text="Hello."), Reply(text="Here I am.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("hello\r")
        screen.wait_for("Hello.")
        screen.wait_for("chat with dude")
        pid = screen.process.pid
        room = max(path.stat().st_size for path in (tmp_path / "state").glob("journal.db*"))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        screen.type("are you there?\r")
        screen.wait_until(lambda s: "nothing was lost" in " ".join(s.text().split()))
        screen.wait_until(lambda s: s.lines()[s.cursor()[1]].startswith("› are you there?"))
        assert len(server.requests) == 1
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        screen.type("\r")
        screen.wait_for("Here I am.")
        assert said_by_user(server.requests[1]) == ["hello", "are you there?"]
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


@pytest.mark.both_journals
def test_a_question_of_one_console_is_answered_from_another(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "patient", PATIENT)
    with OpenAIServer([Reply(calls=(ASKING,)), Reply(text="Blue it is.")]) as server:
        owner = console(tmp_path, "--mode", "workflow:patient", *MODEL, server=server)
        owner.wait_for("answers #1")
        id = run_of(owner)
        other = console(tmp_path, "--mode", "role:dude", *MODEL, server=server)
        other.wait_for("chat with dude")
        other.type("/runs\r")
        other.wait_for("runs in another process")
        other.type(f"/attach {id[:4].upper()}\r")
        other.wait_for("answers #1")
        other.rest(FRESH_S * 2)
        other.type("2\r")
        other.wait_for("Blue it is.")
        owner.wait_for("Blue it is.")
        other.wait_for("chat with dude")
        for screen in (owner, other):
            screen.type(CTRL_D)
            assert screen.wait_exit() == 0
            screen.close()


@pytest.mark.journal_file
def test_a_journal_that_is_no_journal_is_told_and_the_console_goes_on(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "journal.db").write_bytes(b"no database at all " * 400)
    ended = run(tmp_path, *OFFLINE, lines="hello\n/workflow code_architecture_review\n")
    assert ended.code == 0
    assert "Runs are kept only in memory until midstream ends." in ended.out
    assert "I am the offline model" in ended.out
    assert ended.out.splitlines()[-1].endswith("ends here: it is not kept after this process.")


def test_a_headless_run_at_a_question_says_how_it_goes_on_and_does(tmp_path: Path) -> None:
    ended = run(tmp_path, "run", "code_architecture_review", *OFFLINE)
    assert ended.code == 4
    id = ended.told.split("midstream resume ")[1].split("`")[0]
    assert f"`midstream send {id} TEXT` answers it" in ended.told
    again = run(tmp_path, "resume", id, "--answer", "2", *OFFLINE)
    assert again.code == 0, again.err
    assert "What matters most: **change**" in again.out


def test_json_lines_tell_what_becomes_of_runs(tmp_path: Path) -> None:
    mode = ("--mode", "workflow:code_architecture_review")
    run(tmp_path, *mode, *OFFLINE, lines="")
    ended = run(tmp_path, *OFFLINE, "--json", lines="/resume\n")
    found = [json.loads(line) for line in ended.out.splitlines()]
    kinds = [event["type"] for event in found]
    assert "run_recovered" in kinds
    asked = [event["question"] for event in found if "question" in event]
    assert [question["number"] for question in asked] == [1]
    assert os.listdir(tmp_path / "state")


def test_a_garbage_line_in_a_stream_ends_no_workflow(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "patient", PATIENT)
    broken = Fault(how="bad_json", text="Half a story")
    with OpenAIServer([broken, Reply(text="The rest of it.")]) as server:
        ended = run(tmp_path, "run", "patient", *MODEL, server=server)
        assert (ended.code, ended.out.strip()) == (0, "The rest of it."), ended.err
        assert "is asked to go on" in ended.err
        heard = [message["content"] for message in server.requests[1]["messages"]]
        assert heard[-2:] == ["Half a story [interrupted]", "Go on."]


def test_lines_after_a_watched_run_has_failed_go_to_nobody_else_by_one_enter(
    tmp_path: Path,
) -> None:
    write_workflow(tmp_path / "config", "patient", PATIENT)
    gate = Gate()
    busy = Reply(chunks=("Busy ", "here"), gate=gate, gate_after=1)
    gone = Fault(status=401, message="no such key")
    with OpenAIServer([busy, gone, Reply(text="Hello from the chat.")]) as server:
        owner = console(tmp_path, "--mode", "workflow:patient", *MODEL, server=server)
        owner.wait_for("Busy")
        id = run_of(owner)
        other = console(tmp_path, "--mode", "role:dude", *MODEL, server=server)
        other.wait_for("chat with dude")
        other.type(f"/attach {id}\r")
        other.wait_for("a line waits until start is done")
        other.type("and the tests?\r")
        owner.wait_for("and the tests?")
        gate.open()
        other.wait_for("no such key")
        other.wait_for("chat with dude")
        other.type("not for the chat\r")
        other.wait_for("patient has ended. Enter now sends to dude.")
        assert len(server.requests) == 2
        other.type("\r")
        other.wait_for("Hello from the chat.")
        for screen in (owner, other):
            screen.type(CTRL_D)
            assert screen.wait_exit() == 0
            screen.close()


def test_a_line_not_sent_at_the_kill_is_back_in_the_next_console(tmp_path: Path) -> None:
    with OpenAIServer([Reply(text="Hello.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("half a thou")
        paste = "\n".join(f"line {number} of the paste" for number in range(30))
        screen.type(f"\x1b[200~{paste}\x1b[201~")
        screen.wait_for("pasted 30 lines")
        kept = f"half a thou{paste}"
        drafts = tmp_path / "state" / "drafts"
        wait_until(
            lambda: kept in [path.read_text() for path in drafts.glob("*") if path.suffix == ""]
        )
        (draft,) = [path for path in drafts.glob("*") if path.suffix == ""]
        assert draft.stat().st_mode & 0o777 == 0o600
        beside = console(tmp_path, *MODEL, server=server)
        beside.wait_for("chat with dude")
        assert "half a thou" not in beside.text(), "its owner lives"
        killed(screen)

        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("The line you had not sent is back.")
        screen.wait_for("sends to dude")
        screen.type("\r")
        screen.wait_for("Hello.")
        assert said_by_user(server.requests[0]) == [kept]
        for each in (screen, beside):
            each.type(CTRL_D)
            assert each.wait_exit() == 0
            each.close()
        assert not [path for path in drafts.glob("*") if path.suffix == ""]


def test_a_line_on_its_way_at_the_kill_is_back_in_the_next_console(tmp_path: Path) -> None:
    paste = "\n".join(f"line {number} of the paste" for number in range(1000))
    drafts = tmp_path / "state" / "drafts"

    def kept() -> list[str]:
        return [path.read_text() for path in drafts.glob("*") if path.suffix == ""]

    with OpenAIServer([Reply(text="Hello.")]) as server:
        screen = console(tmp_path, *MODEL, server=server, program=changed(DELIVERS_NOTHING))
        screen.wait_for("chat with dude")
        screen.type(f"\x1b[200~{paste}\x1b[201~")
        screen.wait_for("pasted 1000 lines")
        wait_until(lambda: kept() == [paste])
        screen.type("\r")
        screen.wait_until(lambda s: "› [pasted 1000 lines #1]\n" in s.text())
        screen.wait_for("⏳ [pasted 1000 lines #1] · is on its way")
        screen.type("and more")
        wait_until(lambda: kept() == [f"{paste}\0and more"])
        killed(screen)

        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("The line you had entered is back: see first whether a run has it.")
        screen.wait_for("sends to dude")
        screen.type("\r")
        screen.wait_for("Hello.")
        assert said_by_user(server.requests[0]) == [f"{paste}\nand more"]
        wait_until(lambda: kept() == [])
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0
        screen.close()

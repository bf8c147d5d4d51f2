"""The real console killed without warning, and started again: nothing typed or shown is lost."""

import json
import os
import resource
import signal
from pathlib import Path

from console_kit import console, write_workflow
from pipes_kit import OFFLINE, run
from screen import CTRL_D, Screen

from midstream.console.interface import FRESH_S
from midstream.testing.openai_server import Call, Gate, OpenAIServer, Reply

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


def test_a_chat_killed_in_mid_stream_is_told_of_and_asks_again_when_resumed(
    tmp_path: Path,
) -> None:
    gate = Gate()
    story = Reply(chunks=("Once upon ", "a time ", "there was"), gate=gate, gate_after=2)
    with OpenAIServer([story, Reply(text="The end."), Reply(text="Gladly.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("sends to dude")
        screen.type("tell me a story\r")
        screen.wait_for("Once upon a time")
        killed(screen)
        gate.open()

        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("was cut off")
        screen.wait_for("sends to dude")
        screen.type("/resume\r")
        screen.wait_for("The end.")
        screen.wait_for("sends to dude")
        assert said_by_user(server.requests[1]) == ["tell me a story"]
        screen.type("another\r")
        screen.wait_for("Gladly.")
        assert said_by_user(server.requests[2]) == ["tell me a story", "another"]
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_a_question_open_at_the_kill_is_open_again_and_is_answered(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "patient", PATIENT)
    with OpenAIServer([Reply(calls=(ASKING,)), Reply(text="Blue it is.")]) as server:
        screen = console(tmp_path, "--mode", "workflow:patient", *MODEL, server=server)
        screen.wait_for("answers #1")
        id = run_of(screen)
        killed(screen)

        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for(f"/resume {id[:4]} goes on")
        screen.wait_for("sends to dude")
        screen.type(f"/resume {id[:4]}\r")
        screen.wait_for("Which one?")
        screen.wait_for("answers #1")
        screen.settle(FRESH_S * 2)  # a number sooner after the card was drawn is asked about
        screen.type("2\r")
        screen.wait_for("Blue it is.")
        screen.wait_for("✓ finished")
        assert len(server.requests) == 2
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


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
        screen.wait_for("sends to dude")
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
        screen.wait_for("sends to dude")
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


def test_a_line_the_disk_has_no_room_for_comes_back_and_is_taken_once_it_has(
    tmp_path: Path,
) -> None:
    with OpenAIServer([Reply(text="Hello."), Reply(text="Here I am.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("sends to dude")
        screen.type("hello\r")
        screen.wait_for("Hello.")
        screen.wait_for("sends to dude")
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


def test_a_question_of_one_console_is_answered_from_another(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "patient", PATIENT)
    with OpenAIServer([Reply(calls=(ASKING,)), Reply(text="Blue it is.")]) as server:
        owner = console(tmp_path, "--mode", "workflow:patient", *MODEL, server=server)
        owner.wait_for("answers #1")
        id = run_of(owner)
        other = console(tmp_path, "--mode", "role:dude", *MODEL, server=server)
        other.wait_for("sends to dude")
        other.type("/runs\r")
        other.wait_for("runs in another process")
        other.type(f"/attach {id[:4].upper()}\r")
        other.wait_for("answers #1")
        other.settle(FRESH_S * 2)
        other.type("2\r")
        other.wait_for("Blue it is.")
        owner.wait_for("Blue it is.")
        other.wait_for("sends to dude")
        for screen in (owner, other):
            screen.type(CTRL_D)
            assert screen.wait_exit() == 0
            screen.close()


def test_a_journal_that_is_no_journal_is_told_and_the_console_goes_on(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "journal.db").write_bytes(b"no database at all " * 400)
    ended = run(tmp_path, *OFFLINE, lines="hello\n/workflow code_architecture_review\n")
    assert ended.code == 0
    assert "Runs are kept in memory alone until midstream ends." in ended.out
    assert "I am the offline model" in ended.out
    assert ended.out.splitlines()[-1].endswith("ends here: nothing keeps it beyond this process.")


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

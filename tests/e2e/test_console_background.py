"""Commands in the background in the real program: words leave them alone, its end does not."""

import os
import signal
from pathlib import Path

from console_kit import chatting, console, run
from deadline import wait_until
from screen import CTRL_D, is_running
from support.openai_server import Call, OpenAIServer, Reply
from test_console_after_a_kill import killed, said_by_user

MODEL = ("--model", "openai:gpt-4o-mini")
ALLOWED = ("--allow", "execute_terminal", "--allow", "outside: *", "--allow", "shell: *")
SERVES = Call(
    name="execute_terminal",
    arguments={
        "command": "echo $$ > pid; echo ready; sleep 600; true",
        "background": True,
        "sandbox": False,
    },
)


def pid_of(folder: Path) -> int:
    """Return the command's process once it runs."""
    place = folder / "workspace" / "pid"
    wait_until(lambda: place.is_file() and place.read_text().strip())
    return int(place.read_text())


def test_words_leave_a_command_alone_and_the_person_stops_it(tmp_path: Path) -> None:
    replies = [Reply(calls=(SERVES,)), Reply(text="It serves."), Reply(text="I hear you.")]
    with chatting(replies, tmp_path, *MODEL, *ALLOWED) as (screen, _):
        screen.type("serve it\r")
        screen.wait_for("It serves.")
        screen.wait_for("chat with dude")
        pid = pid_of(tmp_path)
        screen.type("no, wait\r")
        screen.wait_for("I hear you.")
        assert is_running(pid)
        screen.type("/tasks\r")
        screen.wait_for("task-1  runs")
        screen.type("/tasks stop 1\r")
        screen.wait_for("Stopped after")
        wait_until(lambda: not is_running(pid))


def test_leaving_the_console_ends_it(tmp_path: Path) -> None:
    with OpenAIServer([Reply(calls=(SERVES,)), Reply(text="It serves.")]) as server:
        screen = console(tmp_path, *MODEL, *ALLOWED, server=server)
        screen.wait_for("chat with dude")
        screen.type("serve it\r")
        screen.wait_for("It serves.")
        screen.wait_for("chat with dude")
        pid = pid_of(tmp_path)
        screen.type(CTRL_D)
        screen.wait_exit()
        screen.close()

        assert not is_running(pid)


def test_after_a_kill_it_is_told_and_not_started_again(tmp_path: Path) -> None:
    replies = [Reply(calls=(SERVES,)), Reply(text="It serves."), Reply(text="I see.")]
    with OpenAIServer(replies) as server:
        screen = console(tmp_path, *MODEL, *ALLOWED, server=server)
        screen.wait_for("chat with dude")
        screen.type("serve it\r")
        screen.wait_for("It serves.")
        screen.wait_for("chat with dude")
        pid = pid_of(tmp_path)
        killed(screen)
        (tmp_path / "workspace" / "pid").unlink()

        with console(tmp_path, "--continue", *MODEL, *ALLOWED, server=server) as screen:
            screen.wait_for("None was started again.")
            screen.wait_for("chat with dude")
            screen.type("/tasks\r")
            screen.wait_for("task-1  how it ended is not known")
            screen.type("go on\r")
            screen.wait_for("I see.")
            assert not (tmp_path / "workspace" / "pid").exists()
            heard = said_by_user(server.requests[-1])
            assert "how it ended is not known: task-1 (echo $$" in str(heard[-2])
        # Outside the sandbox it may outlive a kill, as is said: the test ends what it has begun.
        if is_running(pid):
            os.killpg(pid, signal.SIGKILL)


def test_a_run_without_a_person_waits_for_none_and_says_so(tmp_path: Path) -> None:
    with OpenAIServer([Reply(calls=(SERVES,)), Reply(text="It serves.")]) as server:
        done = run(tmp_path, "chat", "serve it", *MODEL, *ALLOWED, server=server)
        pid = pid_of(tmp_path)

        assert done.returncode == 0, done.stderr
        assert "task-1 (echo $$ > pid" in done.stderr + done.stdout
        assert "Stopped after" in done.stderr + done.stdout
        assert not is_running(pid)

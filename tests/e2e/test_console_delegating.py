"""A chat that hands tasks on in the real program: two at once, words to one, a halt, a kill."""

import signal
from pathlib import Path
from typing import Any

from console_kit import console, run, write_workflow
from screen import CTRL_D, Screen
from support.openai_server import Body, Call, Gate, OpenAIServer, Reply

from midstream.tui.on_screen import FRESH_S

MODEL = ("--model", "openai:gpt-4o-mini")


def task(role: str) -> Call:
    return Call(name="delegate", arguments={"role": role, "task": f"Be the {role}."})


class Brain:
    """A model that hands two tasks on; the coder's words wait for a gate."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.results: list[list[str]] = []

    def __call__(self, body: Body) -> Reply:
        """Return what is said next."""
        messages: list[dict[str, Any]] = body["messages"]
        texts = " ".join(str(message["content"]) for message in messages[1:])
        if texts.startswith("Be the coder."):
            words = "Only src." if "only src" in texts else "Coded it."
            return Reply(chunks=("Coding. ", words), gate=self.gate, gate_after=1)
        if texts.startswith("Be the finder."):
            return Reply(text="Found it.")
        results = [str(m["content"]) for m in messages if m["role"] == "tool"]
        if not results:
            return Reply(text="I have it done.", calls=(task("coder"), task("finder")))
        self.results.append(results)
        return Reply(text="I hear you." if messages[-1]["role"] == "user" else "All is done.")


def at_work(screen: Screen) -> None:
    """Give the chat its task, and wait until one of those it handed on is done."""
    screen.wait_for("chat with dude")
    screen.type("mend it\r")
    screen.wait_for("▶ coder  Be the coder.")
    screen.wait_for("▶ finder  Be the finder.")
    screen.wait_for("✓ finder ▌ finished")
    screen.wait_for("Coding.")


def kill(screen: Screen) -> None:
    """Kill the console without any warning."""
    screen.kill(signal.SIGKILL)
    screen.wait_exit()
    screen.close()


def leave(screen: Screen) -> None:
    screen.type(CTRL_D)
    assert screen.wait_exit() == 0


def test_tasks_are_done_at_once_and_words_are_for_one_of_them(tmp_path: Path) -> None:
    brain = Brain()
    with OpenAIServer([brain] * 9) as server, console(tmp_path, *MODEL, server=server) as screen:
        at_work(screen)
        screen.type("@cod\t only src")
        screen.wait_for("interrupts coder")
        screen.type("\r")
        screen.wait_for("⏹ coder ▌ interrupted")
        brain.gate.open()
        screen.wait_for("✓ coder ▌ finished")
        screen.wait_for("All is done.")
        assert brain.results == [["Coding. Only src.", "Found it."]]
        told = screen.scrollback()
        assert told[told.index("▌ finder") + 1] == "Found it."
        leave(screen)


def test_words_to_the_chat_halt_its_tasks_and_it_is_told_what_they_had_come_to(
    tmp_path: Path,
) -> None:
    brain = Brain()
    with OpenAIServer([brain] * 9) as server, console(tmp_path, *MODEL, server=server) as screen:
        at_work(screen)
        screen.type("no, leave it\r")
        screen.wait_for("⏹ interrupted")
        screen.wait_for("I hear you.")
        ((coded, found),) = brain.results
        assert coded.startswith("Stopped: the user interrupted.")
        assert "Its last words, interrupted: Coding." in coded
        assert found == "Found it."
        leave(screen)


def test_a_task_under_way_at_a_kill_goes_on_and_the_one_that_was_done_is_not_done_again(
    tmp_path: Path,
) -> None:
    brain = Brain()
    with OpenAIServer([brain] * 9) as server:
        screen = console(tmp_path, *MODEL, server=server)
        at_work(screen)
        kill(screen)
        brain.gate.open()
        with console(tmp_path, *MODEL, "--continue", server=server) as screen:
            screen.wait_for("All is done.")
            ((coded, found),) = brain.results
            assert (coded.endswith("Coded it."), found) == (True, "Found it.")
            asked = [str(request["messages"][1]["content"]) for request in server.requests]
            assert asked.count("Be the finder.") == 1
            leave(screen)


def test_on_a_pipe_only_the_reply_of_the_chat_is_the_output(tmp_path: Path) -> None:
    brain = Brain()
    brain.gate.open()
    with OpenAIServer([brain] * 9) as server:
        ended = run(tmp_path, "chat", "mend it", *MODEL, server=server)
    assert (ended.returncode, ended.stdout) == (0, "All is done.\n"), ended.stderr
    assert "▶ coder  Be the coder." in ended.stderr


# --- a workflow ---------------------------------------------------------------------------------

TIDY: dict[str, Any] = {
    "workflow_name": "tidy",
    "description": "Tidies a folder.",
    "input": {"name": "what"},
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "reviewer", "context": "talk"}],
    "states": [
        {"name": "start", "agent": "reviewer", "prompt": "Tidy ${input}.", "next": "sign"},
        {"name": "sign", "pre_handler": "sign", "next": "stop"},
        {"name": "stop", "input": "common_data.signed"},
    ],
}
SIGN = "def sign(run):\n    run.common_data['signed'] = run.last_response.text + ' Signed.'\n"


class Tidying:
    """A model that runs the workflow, whose agent waits for a gate."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.gate = Gate()
        self.offered = ""
        self.results: list[str] = []

    def __call__(self, body: Body) -> Reply:
        """Return what is said next."""
        texts = " ".join(str(message["content"]) for message in body["messages"][1:])
        if "Tidy src." in texts:
            return Reply(chunks=("Sweeping. ", "Tidy."), gate=self.gate, gate_after=1)
        self.offered = str([tool["function"] for tool in body["tools"]])
        self.results = [str(m["content"]) for m in body["messages"] if m["role"] == "tool"]
        if not self.names:
            return Reply(text="That is it.")
        arguments = {"name": self.names.pop(0), "input": "src"}
        return Reply(calls=(Call(name="run_workflow", arguments=arguments),))


def test_a_workflow_is_run_after_a_yes_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "tidy", TIDY, SIGN)
    brain = Tidying("tidy")
    with OpenAIServer([brain] * 9) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("tidy up\r")
        screen.wait_for("run_workflow")
        screen.wait_for("y yes")
        screen.rest(FRESH_S * 2)
        screen.type("y")
        screen.wait_for("Sweeping.")
        screen.wait_for("⋯ tidy ▌ start · reviewer is writing")
        assert "tidy: Tidies a folder." in brain.offered
        kill(screen)
        brain.gate.open()
        with console(tmp_path, *MODEL, "--continue", server=server) as screen:
            screen.wait_for("That is it.")
            (result,) = brain.results
            assert result.endswith("Tidy. Signed."), "its script ran in the new process"
            leave(screen)


def test_a_workflow_that_is_not_there_is_a_failed_call_and_no_file_is_one(tmp_path: Path) -> None:
    write_workflow(tmp_path / "config", "tidy", TIDY, SIGN)
    (tmp_path / "flow.py").write_text("raise SystemExit('it was imported')\n")
    brain = Tidying("tidi", "flow.py:flow")
    with OpenAIServer([brain] * 9) as server:
        ended = run(tmp_path, "chat", "tidy up", "--allow", "run_workflow", *MODEL, server=server)
    assert (ended.returncode, ended.stdout.strip()) == (0, "That is it."), ended.stderr
    assert "Did you mean 'tidy'?" in brain.results[0]
    assert "There is no workflow 'flow.py:flow'." in brain.results[1]

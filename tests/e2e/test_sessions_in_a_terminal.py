"""Chats that persist, on a real terminal of 40, 80 and 200 columns."""

from pathlib import Path

import pytest
from console_kit import console, run
from screen import CTRL_D, DOWN, ESC, UP, Screen, editor_line
from support.openai_server import Call, Gate, OpenAIServer, Reply

MODEL = ("--model", "openai:gpt-4o-mini")
LONG = "word " * 150
WIDTHS = pytest.mark.parametrize("cols", [40, 80, 200])


def left(screen: Screen) -> None:
    """Leave the console as a person does."""
    screen.type(CTRL_D)
    screen.wait_exit()
    screen.close()


def flat(screen: Screen) -> str:
    """Return all that is on the screen, however it was wrapped."""
    return " ".join(" ".join(screen.scrollback()).split())


@WIDTHS
def test_continue_shows_the_last_turns_and_goes_on(tmp_path: Path, cols: int) -> None:
    replies = [Reply(text="They **swim**."), Reply(text="Deep.")]
    with OpenAIServer(replies) as server:
        screen = console(tmp_path, *MODEL, server=server, cols=cols)
        screen.wait_for("chat with dude")
        screen.type("what do fish do\r")
        screen.wait_for("They swim.")
        left(screen)

        screen = console(tmp_path, *MODEL, "--continue", server=server, cols=cols)
        screen.wait_for("They swim.")
        screen.wait_for("chat with dude")
        shown = flat(screen)
        assert "Where you were: 1 turn." in shown
        assert shown.index("› what do fish do") < shown.index("They swim.")
        screen.type("how deep\r")
        screen.wait_for("Deep.")
        said = [m["content"] for m in server.requests[-1]["messages"] if m["role"] != "system"]
        assert said == ["what do fish do", "They **swim**.", "how deep"]
        left(screen)


@WIDTHS
def test_a_chat_is_chosen_from_the_list_by_its_number(tmp_path: Path, cols: int) -> None:
    with OpenAIServer([Reply(text="They swim."), Reply(text="They fly.")]) as server:
        screen = console(tmp_path, *MODEL, server=server, cols=cols)
        screen.wait_for("chat with dude")
        screen.type("what do fish do\r")
        screen.wait_for("They swim.")
        screen.type("/rename zoo\r")
        screen.wait_for("It is called 'zoo' now")
        screen.type("/clear\r")
        screen.wait_for("A new chat with")
        screen.type("what do birds do\r")
        screen.wait_for("They fly.")
        left(screen)

        screen = console(tmp_path, *MODEL, "--resume", server=server, cols=cols)
        screen.wait_for("chooses a chat")
        screen.wait_for("what do birds do")
        screen.wait_for("zoo")
        shown = flat(screen)
        assert shown.index("what do birds do") < shown.index("zoo")
        assert "dude · 1 turn" in shown
        screen.type(DOWN)
        screen.wait_until(lambda s: editor_line(s) == "› 1")
        screen.type(DOWN)
        screen.wait_until(lambda s: editor_line(s) == "› 2")
        screen.type("\r")
        screen.wait_for("They swim.")
        screen.wait_for("chat with dude")
        left(screen)


def test_esc_in_the_list_of_chats_takes_the_number_out_of_the_line_too(tmp_path: Path) -> None:
    with OpenAIServer([Reply(text="They swim."), Reply(text="Hello.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("what do fish do\r")
        screen.wait_for("They swim.")
        left(screen)

        screen = console(tmp_path, *MODEL, "--resume", server=server)
        screen.wait_for("chooses a chat")
        screen.type(UP)
        screen.wait_until(lambda s: editor_line(s) == "› 1")
        screen.press(ESC)
        screen.wait_for("begins a new chat")
        screen.wait_until(lambda s: editor_line(s) == "›")
        screen.type("hello\r")
        screen.wait_for("Hello.")
        assert [m["content"] for m in server.requests[-1]["messages"][1:]] == ["hello"]
        left(screen)


@WIDTHS
def test_a_long_chat_is_compacted_and_says_from_how_much_to_how_much(
    tmp_path: Path, cols: int
) -> None:
    gate = Gate()
    summary = Reply(chunks=("They talked ", "of numbers."), gate=gate, gate_after=1)
    replies = [*(Reply(text=f"{n} {LONG}") for n in "1234"), summary, Reply(text="Five.")]
    with OpenAIServer(replies) as server:
        screen = console(tmp_path, *MODEL, server=server, cols=cols, rows=40)
        screen.wait_for("chat with dude")
        for number in "1234":
            screen.type(f"say {number}\r")
            screen.wait_for(f"{number} word")
            screen.wait_for("chat with dude")
        screen.type("/compact\r")
        screen.wait_for("ends the summary")
        assert "They talked" not in screen.text()
        gate.open()
        screen.wait_for("compacted")
        assert "replaced by a summary: about" in flat(screen)
        screen.type("say 5\r")
        screen.wait_for("Five.")
        said = [m["content"] for m in server.requests[-1]["messages"] if m["role"] != "system"]
        assert "They talked of numbers." in said[0]
        assert said[-1] == "say 5"
        assert "tools" not in server.requests[-2]
        left(screen)


def test_escape_ends_a_summary_and_leaves_the_chat_as_it_was(tmp_path: Path) -> None:
    summary = Reply(chunks=("They ", "talked"), gate=Gate(), gate_after=1)
    replies = [*(Reply(text=f"{n} {LONG}") for n in "1234"), summary, Reply(text="Five.")]
    with OpenAIServer(replies) as server:
        screen = console(tmp_path, *MODEL, server=server, rows=40)
        screen.wait_for("chat with dude")
        for number in "1234":
            screen.type(f"say {number}\r")
            screen.wait_for(f"{number} word")
            screen.wait_for("chat with dude")
        screen.type("/compact\r")
        screen.wait_for("ends the summary")
        screen.type("\x1b")
        screen.wait_for("the summary was interrupted")
        screen.type("say 5\r")
        screen.wait_for("Five.")
        said = [m["content"] for m in server.requests[-1]["messages"] if m["role"] != "system"]
        assert len(said) == 9
        left(screen)


def test_escape_at_the_list_begins_a_new_chat(tmp_path: Path) -> None:
    with OpenAIServer([Reply(text="They swim."), Reply(text="Two.")]) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("what do fish do\r")
        screen.wait_for("They swim.")
        left(screen)
        screen = console(tmp_path, *MODEL, "--resume", server=server)
        screen.wait_for("chooses a chat")
        screen.type("\x1b")
        screen.wait_for("begins a new chat")
        screen.type("1\r")
        screen.wait_for("Two.")
        said = [m["content"] for m in server.requests[-1]["messages"] if m["role"] != "system"]
        assert said == ["1"]
        left(screen)


def test_an_agents_file_joins_the_chat_once_a_person_has_trusted_it(tmp_path: Path) -> None:
    workspace = tmp_path / "repo"
    workspace.mkdir()
    (workspace / "AGENTS.md").write_text("Use tabs.\n")
    with OpenAIServer([Reply(text="No."), Reply(text="Yes.")]) as server:
        screen = console(tmp_path, *MODEL, server=server, workspace=workspace)
        screen.wait_for("its own words for agents")
        screen.wait_for("[n] ›")
        screen.press("n\r")
        screen.wait_for("chat with dude")
        screen.type("tabs?\r")
        screen.wait_for("No.")
        left(screen)
        assert "Use tabs." not in str(server.requests[0])

        screen = console(tmp_path, *MODEL, server=server, workspace=workspace)
        screen.wait_for("words that every role for code is told to follow")
        screen.wait_for("[n] ›")
        screen.press("t\r")
        screen.wait_for("chat with dude")
        screen.type("tabs?\r")
        screen.wait_for("Yes.")
        left(screen)
        system = server.requests[1]["messages"][0]["content"]
        assert "Use tabs." in system
        assert "AGENTS.md, of the workspace" in system


def test_on_pipes_a_chat_is_gone_on_with_too(tmp_path: Path) -> None:
    first = run(tmp_path, "--model", "offline", lines="what do fish do\n")
    assert first.returncode == 0, first.stderr
    second = run(tmp_path, "--model", "offline", "--continue", lines="and birds\n")
    assert second.returncode == 0, second.stderr
    assert second.stdout.count("› what do fish do") == 1
    listed = run(tmp_path, "--model", "offline", "--resume", lines="1\n")
    assert "what do fish do" in listed.stdout
    assert "Where you were: 2 turns." in listed.stdout


def test_a_person_does_not_find_the_chats_of_scripts_among_theirs(tmp_path: Path) -> None:
    run(tmp_path, "--model", "offline", lines="from a pipe\n")
    run(tmp_path, "chat", "from a script", "--model", "offline")
    with console(tmp_path, "--model", "offline", "--continue") as screen:
        screen.wait_for("There is no earlier chat in this folder: a new one begins.")
        screen.type("mine\r")
        screen.wait_for("> mine")
        screen.type("/sessions\r")
        screen.wait_for("› 1 mine")
        assert "from a" not in screen.text()


def test_a_command_has_no_chat_to_go_on_with(tmp_path: Path) -> None:
    done = run(tmp_path, "--continue", "roles")
    assert done.returncode == 2
    assert "midstream resume RUN" in done.stderr


def test_clear_with_an_approval_open_sums_up_what_it_ended_before_the_chat_begins_anew(
    tmp_path: Path,
) -> None:
    asks = Reply(calls=(Call(name="write_file", arguments={"path": "a.txt", "content": "a"}),))
    with OpenAIServer([asks]) as server:
        screen = console(tmp_path, *MODEL, server=server, cols=80)
        screen.wait_for("chat with dude")
        screen.type("write it\r")
        screen.wait_for("y once")
        screen.settle(0.6)
        screen.type("/clear\r")
        screen.wait_for("A new chat with")
        screen.wait_for("chat with dude")
        screen.settle()
        shown = flat(screen)
        assert shown.index("⏹ interrupted") < shown.index("A new chat with")
        left(screen)

"""The todo list in the real console: shown, changed by hand, and as it was after a kill and an undo."""

from pathlib import Path

from console_kit import console
from screen import Screen
from support.openai_server import Call, OpenAIServer, Reply
from test_console_after_a_kill import killed, said_by_user

MODEL = ("--model", "openai:gpt-4o-mini")


def keeps(*items: tuple[str, str]) -> Reply:
    """The agent keeps a list."""
    arguments = {"items": [{"text": text, "status": status} for text, status in items]}
    return Reply(calls=(Call(name="todo", arguments=arguments),))


def above_the_prompt(screen: Screen) -> list[str]:
    """Return the rows of the list that are drawn now."""
    return [line.strip() for line in screen.lines() if line.startswith(("☐ ", "  then: "))]


def test_the_list_stands_above_the_prompt_and_a_person_changes_it(tmp_path: Path) -> None:
    replies = [
        keeps(("Read", "done"), ("Parse", "doing"), ("Print", "pending")),
        Reply(text="I have begun."),
        Reply(text="I see."),
    ]
    with OpenAIServer(replies) as server, console(tmp_path, *MODEL, server=server) as screen:
        screen.wait_for("chat with dude")
        screen.type("do it\r")
        screen.wait_for("I have begun.")
        assert above_the_prompt(screen) == ["☐ 1/3 · Parse", "then: Print"]

        screen.type("/todo done 2\r")
        screen.wait_for("☐ 2/3 · Print")
        screen.type("/todo add Say it in the docs\r")
        screen.wait_for("then: Say it in the docs")
        screen.type("/todo\r")
        screen.wait_for("4  · Say it in the docs")
        screen.type("/todo drop 9\r")
        screen.wait_for("the list has items 1 to 4")
        screen.type("\x15go on\r")
        screen.wait_for("I see.")

        told = said_by_user(server.requests[-1])
        assert told[-2:] == [
            "[I changed the todo list: added 'Say it in the docs'. It is now:\n"
            "- done: Read\n- done: Parse\n- pending: Print\n- pending: Say it in the docs]",
            "go on",
        ]


def test_the_list_is_there_after_a_kill_and_as_it_was_after_an_undo(tmp_path: Path) -> None:
    replies = [
        keeps(("Parse", "doing")),
        Reply(text="I have begun."),
        keeps(("Parse", "done")),
        Reply(text="It is done."),
    ]
    with OpenAIServer(replies) as server:
        screen = console(tmp_path, *MODEL, server=server)
        screen.wait_for("chat with dude")
        screen.type("do it\r")
        screen.wait_for("I have begun.")
        screen.type("/todo add Print\r")
        screen.wait_for("then: Print")
        killed(screen)

        with console(tmp_path, "--continue", *MODEL, server=server) as screen:
            screen.wait_for("then: Print")
            screen.type("go on\r")
            screen.wait_for("It is done.")
            screen.wait_for("chat with dude")
            assert above_the_prompt(screen) == []
            screen.type("/undo\r")
            screen.wait_for("then: Print")
            assert above_the_prompt(screen) == ["☐ 0/2 · Parse", "then: Print"]

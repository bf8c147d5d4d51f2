"""A console whose database is away for a while: it says so, and goes on with what was typed meanwhile."""

from pathlib import Path

from console_kit import console
from pipes_kit import MODEL, OFFLINE, run
from screen import CTRL_D
from support.openai_server import OpenAIServer, Reply
from support.postgres import PostgresServer
from support.proxy import Proxy

from midstream.config.directories import JOURNAL_VARIABLE


def test_words_typed_meanwhile_are_answered_in_the_same_chat_once_it_is_back(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    script = [Reply(text="Hello."), Reply(text="Here I am.")]
    with OpenAIServer(script) as server, Proxy(postgres.port) as way:
        address = postgres.database().replace(f":{postgres.port}/", f":{way.port}/")
        screen = console(tmp_path, *MODEL, server=server, environ={JOURNAL_VARIABLE: address})
        screen.wait_for("chat with dude")
        screen.type("hello\r")
        screen.wait_for("Hello.")
        screen.wait_for("chat with dude")
        way.cut()
        screen.type("are you there?\r")
        screen.wait_for("The journal was not reached in time.")
        assert len(server.requests) == 1
        way.mend()
        screen.wait_for("The journal works again")
        screen.wait_for("Here I am.")
        heard = [message["content"] for message in server.requests[1]["messages"][1:]]
        assert heard == ["hello", "Hello.", "are you there?"]
        screen.type(CTRL_D)
        assert screen.wait_exit() == 0


def test_where_it_is_away_at_the_start_runs_are_kept_in_memory_and_that_is_said(
    tmp_path: Path,
) -> None:
    nobody = {JOURNAL_VARIABLE: "postgresql://ann:secret@127.0.0.1:9/midstream"}

    ended = run(tmp_path, *OFFLINE, lines="hello\n", env=nobody)

    told = " ".join(ended.out.split())
    assert ended.code == 0
    assert "Runs are kept only in memory until midstream ends." in told
    assert "cannot be reached: connection to server at" in told
    assert "secret" not in told
    assert "I am the offline model" in told

"""A plan in the real console: its card, what keys make of it, and what is left of it after a kill."""

import json
from pathlib import Path

import pytest
from console_kit import console, run
from screen import Screen
from support.openai_server import Call, Gate, OpenAIServer, Reply
from test_console_after_a_kill import killed, said_by_user

from midstream.tui.on_screen import FRESH_S

MODEL = ("--model", "openai:gpt-4o-mini")
IN_PLAN = (*MODEL, "--permission-mode", "plan")
STEPS = ["Read calc.py", "Mend the sum"]


def proposes(title: str = "Mend it", steps: list[str] | None = None) -> Reply:
    """The agent proposes a plan."""
    plan = {"title": title, "steps": steps or STEPS}
    return Reply(calls=(Call(name="propose_plan", arguments=plan),))


WRITES = Reply(
    calls=(Call(name="write_file", arguments={"path": "calc.py", "content": "a + b\n"}),)
)
KEYS = "y yes, in ask · a yes, in auto"


def asked(screen: Screen) -> None:
    """Ask for something, and wait for the card to be one that keys decide on."""
    screen.wait_for("chat with dude")
    screen.type("mend it\r")
    screen.wait_for(KEYS)
    screen.rest(FRESH_S)


def card(screen: Screen) -> list[str]:
    """Return the rows of the card, without its keys."""
    rows = [line.rstrip() for line in screen.lines()]
    first = max(n for n, row in enumerate(rows) if "proposes a plan:" in row)
    return rows[first : next(n for n, row in enumerate(rows) if n > first and KEYS in row)]


def bottom(screen: Screen) -> str:
    return [line for line in screen.lines() if line.strip()][-1]


def test_a_plan_ends_plan_mode_by_a_key_and_its_steps_are_the_list(tmp_path: Path) -> None:
    replies = [WRITES, proposes(), WRITES, Reply(text="Done.")]
    with OpenAIServer(replies) as server, console(tmp_path, *IN_PLAN, server=server) as screen:
        asked(screen)
        assert "only looks" in screen.text()
        assert card(screen) == [
            "▸ #1 dude proposes a plan: Mend it",
            "│ 1. Read calc.py",
            "│ 2. Mend the sum",
        ]
        assert "plan" in bottom(screen)
        screen.press("a")
        screen.wait_for("Done.")
        screen.wait_for("☐ 0/2 · Read calc.py")
        screen.wait_for("chat with dude · auto")
        assert "│ 2. Mend the sum" in screen.text(), "what was approved can be read later"
        assert (tmp_path / "workspace" / "calc.py").read_text() == "a + b\n"

        assert said_by_user(server.requests[0])[0] == "mend it"
        assert "propose_plan" in str(said_by_user(server.requests[0])[1])
        first, last = (server.requests[n]["messages"] for n in (0, -1))
        assert isinstance(first, list)
        assert isinstance(last, list)
        assert last[: len(first)] == first, "what stood before is sent as it was"
        assert len(said_by_user(server.requests[-1])) == 2


def test_y_asks_before_each_change(tmp_path: Path) -> None:
    replies = [proposes(), WRITES, Reply(text="Done.")]
    with OpenAIServer(replies) as server, console(tmp_path, *IN_PLAN, server=server) as screen:
        asked(screen)
        screen.press("y")
        screen.wait_for("dude wants to create calc.py")


def test_a_rejected_plan_is_planned_anew_and_a_changed_one_is_what_is_approved(
    tmp_path: Path,
) -> None:
    replies = [proposes(), proposes(), Reply(text="I go on.")]
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf -- "- Say so\\n" >> "$1"\n')
    editor.chmod(0o700)
    environ = {"VISUAL": str(editor)}
    with (
        OpenAIServer(replies) as server,
        console(tmp_path, *IN_PLAN, server=server, environ=environ) as screen,
    ):
        asked(screen)
        screen.press("w")
        screen.type("test first\r")
        screen.wait_for("#2 dude proposes a plan")
        assert "They said: test first" in json.dumps(server.requests[1])
        screen.rest(FRESH_S)
        screen.press("e")
        screen.wait_for("the plan › Mend it")
        screen.type("\x07")
        screen.wait_for("- Say so")
        screen.press("\r")
        screen.wait_for("#3 dude proposes a plan")
        screen.rest(FRESH_S)
        assert card(screen)[1:] == ["│ 1. Read calc.py", "│ 2. Mend the sum", "│ 3. Say so"]
        assert "· plan ·" in bottom(screen)
        screen.press("y")
        screen.wait_for("I go on.")
        screen.wait_for("☐ 0/3 · Read calc.py")
        assert "3. Say so" in json.dumps(server.requests[-1])


def test_words_and_pasted_keys_approve_nothing(tmp_path: Path) -> None:
    replies = [proposes(), Reply(text="I hear.")]
    with OpenAIServer(replies) as server, console(tmp_path, *IN_PLAN, server=server) as screen:
        asked(screen)
        screen.paste("y")
        screen.wait_for("empty the line to decide: y · a · n · w")
        screen.type("es, go on\r")
        screen.wait_for("I hear.")
        screen.wait_for("chat with dude · plan")
        assert not any(line.startswith("☐") for line in screen.lines())


def test_a_card_is_there_again_after_a_kill(tmp_path: Path) -> None:
    with OpenAIServer([proposes(), Reply(text="I go on.")]) as server:
        screen = console(tmp_path, *IN_PLAN, server=server)
        asked(screen)
        before = card(screen)
        killed(screen)
        with console(tmp_path, "--continue", *IN_PLAN, server=server) as screen:
            screen.wait_for(KEYS)
            screen.rest(FRESH_S)
            assert card(screen) == before
            screen.press("a")
            screen.wait_for("I go on.")
            screen.wait_for("chat with dude · auto")
        assert len(server.requests) == 2


def test_nothing_of_a_plan_looks_like_the_card(tmp_path: Path) -> None:
    fake = "Look\n│ y yes, in full\n2. \x1b[8mhidden\x1b[0m \u202egnp.exe \x9b1m"
    long = "z " * 60 + KEYS
    with (
        OpenAIServer([proposes("Tidy\n▸ #9 you approve", [fake, long])]) as server,
        console(tmp_path, *IN_PLAN, server=server) as screen,
    ):
        asked(screen)
        rows = [line.rstrip() for line in screen.lines()]
        assert sum(row.startswith("▸ ") for row in rows) == 1
        assert sum(row.startswith("│ y yes") for row in rows) == 1
        assert any(row.startswith("│ 1. Look │ y yes, in full 2. ␛[8mhidden␛[0m") for row in rows)
        assert not any(row.startswith("│ 2. \u241b") for row in rows)


@pytest.mark.parametrize("allowed", [(), ("--allow", "propose_plan")])
def test_without_a_person_the_plan_is_the_output(tmp_path: Path, allowed: tuple[str, ...]) -> None:
    with OpenAIServer([proposes()]) as server:
        ended = run(tmp_path, "chat", "mend it", *IN_PLAN, *allowed, server=server)

        assert ended.returncode == 4
        assert ended.stdout == "Mend it\n1. Read calc.py\n2. Mend the sum\n"
        assert "approve, change or reject it in the console" in ended.stderr
        assert len(server.requests) == 1


def test_a_yes_is_kept_over_a_kill_and_taken_back_by_an_undo(tmp_path: Path) -> None:
    gate = Gate()
    told = Reply(chunks=("I begin ", "with", " it."), gate=gate, gate_after=2)
    with OpenAIServer([proposes(), told, Reply(text="I go on.")]) as server:
        screen = console(tmp_path, *IN_PLAN, server=server)
        asked(screen)
        screen.press("y")
        screen.wait_for("I begin with")
        killed(screen)
        gate.open()
        with console(tmp_path, "--continue", *IN_PLAN, server=server) as screen:
            screen.wait_for("☐ 0/2 · Read calc.py")
            assert KEYS not in screen.text(), "nobody is asked again"
            screen.wait_for("I go on.")
            screen.wait_for("chat with dude · plan")
            # This process only looks: its person has chosen so when they started it.
            notes = [words for words in said_by_user(server.requests[-1]) if "plan:" in str(words)]
            assert len(notes) == 2
            screen.type("/undo\r")
            screen.wait_for("Taken back: “mend it”")
            screen.wait_gone("☐ 0/2")

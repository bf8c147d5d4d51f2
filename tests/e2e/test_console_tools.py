"""Tools at work, as a person sees them: differences before and after, and output while it comes."""

import re
from pathlib import Path

import pytest
from console_kit import chatting, console
from screen import CTRL_C, ESC, Screen
from support.openai_server import Call, OpenAIServer, Reply

from midstream.tui.on_screen import FRESH_S

MODEL = ("--model", "openai:gpt-4o-mini")
EDIT = Call(
    name="edit_file",
    arguments={
        "path": "shop.py",
        "edits": [{"old_text": "price = 1", "new_text": "price = 2"}],
    },
)
CTRL_O = "\x0f"
COMMAND = (
    "echo one; echo two >&2; printf '\\033[31mthree\\033[0m\\n10%%\\r20%%\\r30%%'; "
    "until [ -e go ]; do sleep 0.05; done; echo; echo the end"
)


def workspace(home: Path) -> Path:
    folder = home / "workspace"
    folder.mkdir()
    (folder / "shop.py").write_text("# the shop\nprice = 1\nname = 'x'\n")
    return folder


def as_printed(screen: Screen) -> list[str]:
    """Return the rows, without how long a call took: it stands there from a second on."""
    return [re.sub(r" · [\d.]+ s$", "", line.rstrip()) for line in screen.scrollback()]


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_a_change_made_unasked_is_shown_as_a_difference_above_the_prompt(
    tmp_path: Path, cols: int
) -> None:
    folder = workspace(tmp_path)
    options = (*MODEL, "--permission-mode", "auto")
    with chatting(
        [Reply(calls=(EDIT,)), Reply(text="Done so.")],
        tmp_path,
        *options,
        workspace=folder,
        cols=cols,
    ) as (screen, _):
        screen.type("raise it\r")
        screen.wait_for("Done so.")
        lines = as_printed(screen)

        assert "✓ edit_file(shop.py) · +1 -1" in lines
        assert [line for line in lines if line.startswith("  ┊ ")] == [
            "  ┊ @@ -1,3 +1,3 @@",
            "  ┊  # the shop",
            "  ┊ -price = 1",
            "  ┊ +price = 2",
            "  ┊  name = 'x'",
        ]
        assert (folder / "shop.py").read_text() == "# the shop\nprice = 2\nname = 'x'\n"


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_a_change_that_was_allowed_on_its_card_stays_as_a_difference(
    tmp_path: Path, cols: int
) -> None:
    folder = workspace(tmp_path)
    with chatting(
        [Reply(calls=(EDIT,)), Reply(text="Done so.")],
        tmp_path,
        *MODEL,
        workspace=folder,
        cols=cols,
        rows=40,
    ) as (screen, _):
        screen.type("raise it\r")
        screen.wait_for("+price = 2")
        screen.rest(FRESH_S * 2)
        screen.type("y")
        screen.wait_for("Done so.")
        lines = as_printed(screen)

        assert "✓ edit_file(shop.py) · +1 -1" in lines
        assert lines[lines.index("✓ edit_file(shop.py) · +1 -1") + 1 :][:5] == [
            "  ┊ @@ -1,3 +1,3 @@",
            "  ┊  # the shop",
            "  ┊ -price = 1",
            "  ┊ +price = 2",
            "  ┊  name = 'x'",
        ]


def test_a_secret_that_a_command_says_in_pieces_is_never_on_the_screen(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    (folder / "a").write_text("begun\nkey sk-ant-api03-Zq7Xw2Kd9Lm4")
    (folder / "b").write_text("Pn8R" * 18 + "\nmore\n")
    line = "cat a; sleep 0.3; cat b; until [ -e go ]; do sleep 0.05; done"
    call = Call(name="execute_terminal", arguments={"command": line})
    options = (*MODEL, "--allow", "execute_terminal", "--allow", "outside: *")
    with chatting(
        [Reply(calls=(call,)), Reply(text="It ran.")], tmp_path, *options, workspace=folder
    ) as (screen, _):
        screen.type("run it\r")
        screen.wait_for("┊ more")
        (folder / "go").touch()
        screen.wait_for("It ran.")

        assert b"Zq7X" not in bytes(screen.raw)
        assert b"Pn8R" not in bytes(screen.raw)
        assert b"[redacted: " in bytes(screen.raw)


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_what_a_command_says_is_on_the_screen_while_it_runs(tmp_path: Path, cols: int) -> None:
    folder = workspace(tmp_path)
    call = Call(name="execute_terminal", arguments={"command": COMMAND})
    options = (*MODEL, "--allow", "execute_terminal", "--allow", "outside: *")
    with chatting(
        [Reply(calls=(call,)), Reply(text="It ran.")],
        tmp_path,
        *options,
        workspace=folder,
        cols=cols,
    ) as (screen, server):
        screen.type("run it\r")
        screen.wait_for("┊ 30%")
        shown = [line.rstrip() for line in screen.lines() if line.startswith("┊ ")]
        screen.type("half a thou")
        screen.wait_for("› half a thou")
        (folder / "go").touch()
        screen.wait_for("It ran.")

        assert shown == ["┊ one", "┊ two", "┊ three", "┊ 30%"]
        assert not any(line.startswith("┊ ") for line in screen.lines())
        told = server.requests[1]["messages"][-1]["content"]
        assert told.startswith("Exit code: 0")
        assert "one\ntwo\n" in told
        assert "10%\r20%\r30%\nthe end" in told


@pytest.mark.parametrize("cols", [40, 80, 200])
@pytest.mark.parametrize("key", [ESC, CTRL_C], ids=["esc", "ctrl-c"])
def test_what_a_halted_command_had_said_stays_on_the_screen(
    tmp_path: Path, cols: int, key: str
) -> None:
    line = "for n in 1 2 3 4 5 6 7 8 9; do echo line $n; done; sleep 60"
    call = Call(name="execute_terminal", arguments={"command": line})
    options = (*MODEL, "--allow", "execute_terminal", "--allow", "outside: *")
    with (
        OpenAIServer([Reply(calls=(call,))]) as server,
        console(tmp_path, *options, server=server, workspace=workspace(tmp_path), cols=cols) as s,
    ):
        s.wait_for("chat with dude")
        s.type("run it\r")
        s.wait_for("┊ line 9")
        s.settle()
        s.type(key)
        s.wait_for("⏹ interrupted")
        s.wait_for("Ctrl-O shows its output")
        lines = as_printed(s)

        at = lines.index("· Ctrl-O shows its output")
        assert lines[at - 6 : at] == [f"  ┊ line {n}" for n in range(4, 10)]
        assert not any(line.startswith("┊ ") for line in s.lines())
        s.type(CTRL_O)
        s.wait_for("  ┊ line 1")


def test_queued_words_are_shown_where_they_are_heard(tmp_path: Path) -> None:
    call = Call(
        name="execute_terminal", arguments={"command": "until [ -e go ]; do sleep 0.05; done"}
    )
    folder = workspace(tmp_path)
    replies = [Reply(calls=(call,)), Reply(text="It ran."), Reply(text="They pass.")]
    with chatting(
        replies,
        *(tmp_path, *MODEL, "--allow", "execute_terminal", "--allow", "outside: *"),
        workspace=folder,
    ) as (screen, _):
        screen.type("run it\r")
        screen.wait_for("⋯ ")
        screen.type("/queue and the tests?\r")
        screen.wait_for("⏳ and the tests?")
        assert "heard now" not in screen.text()
        (folder / "go").touch()
        screen.wait_for("They pass.")
        lines = as_printed(screen)

        heard = lines.index("· sent now: and the tests?")
        assert lines.index("It ran.") < heard < lines.index("They pass.")


def edit(old: str, new: str) -> Call:
    edits = [{"old_text": old, "new_text": new}]
    return Call(name="edit_file", arguments={"path": "shop.py", "edits": edits})


def test_two_edits_of_one_file_in_one_reply_are_asked_about_in_order_and_both_made(
    tmp_path: Path,
) -> None:
    folder = workspace(tmp_path)
    both = (edit("price = 1", "price = 2"), edit("price = 2\n", "price = 2\nrate = 3\n"))
    with chatting(
        [Reply(calls=both), Reply(text="Done so.")],
        tmp_path,
        *MODEL,
        workspace=folder,
        cols=100,
        rows=40,
    ) as (screen, _):
        screen.type("raise it\r")
        screen.wait_for("+price = 2")
        assert "+rate = 3" not in screen.text(), "the second is looked at when the first is made"
        screen.rest(FRESH_S * 2)
        screen.type("y")
        screen.wait_for("+rate = 3")
        assert (folder / "shop.py").read_text() == "# the shop\nprice = 2\nname = 'x'\n"
        screen.rest(FRESH_S * 2)
        screen.type("y")
        screen.wait_for("Done so.")

        assert (folder / "shop.py").read_text() == "# the shop\nprice = 2\nrate = 3\nname = 'x'\n"


def test_what_a_reply_writes_the_calls_after_it_read(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    batch = (
        Call(name="write_file", arguments={"path": "new.txt", "content": "fresh\n"}),
        Call(name="execute_terminal", arguments={"command": "cat new.txt >> shop.py"}),
        Call(name="read_files", arguments={"paths": ["shop.py", "new.txt"]}),
    )
    with chatting(
        [Reply(calls=batch), Reply(text="Done so.")],
        tmp_path,
        *MODEL,
        workspace=folder,
        cols=100,
        rows=40,
    ) as (screen, server):
        screen.type("write it\r")
        for card in ("+fresh", "cat new.txt"):
            screen.wait_for(card)
            screen.rest(FRESH_S * 2)
            screen.type("y")
        screen.wait_for("Done so.")

        told = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]
        assert told[2].count("fresh") == 2, told
        ends = [line for line in as_printed(screen) if line.startswith("✓ ") and "#" not in line]
        assert [line.split("(")[0] for line in ends] == [
            "✓ write_file",
            "✓ execute_terminal",
            "✓ read_files",
        ]

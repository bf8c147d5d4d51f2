"""Keys of one's own in the real program: what they do, what the screen says, what is wrong with them."""

import json
from pathlib import Path

from console_kit import console
from screen import Screen


def wait_for_prompt(screen: Screen) -> None:
    screen.wait_for("chat with dude")


OFFLINE = ("--model", "offline")


def settings(home: Path, keys: object) -> None:
    folder = home / "config"
    folder.mkdir(mode=0o700, parents=True)
    (folder / "application.json").write_text(json.dumps({"keys": keys}, indent=2))


def test_other_keys_do_it_and_the_screen_names_them(tmp_path: Path) -> None:
    settings(tmp_path, {"show_keys": "F1", "send": "F5", "new_line": ["Enter", "Ctrl-J"]})
    with console(tmp_path, *OFFLINE) as screen:
        wait_for_prompt(screen)
        screen.type("one")
        screen.wait_for("F5 sends to")
        screen.type("\rtwo")
        screen.wait_for("  two")
        screen.type("\x1b[15~")
        screen.wait_for("I am the offline model")
        screen.wait_for("› one")
        screen.type("\x1bOP")
        screen.wait_for("on an empty line: show the keys")
        said = " ".join("\n".join(screen.scrollback()).split())
        assert "F5 send; the bottom line says what that does now" in said
        assert "F1 on an empty line: show the keys" in said


def test_what_is_wrong_is_said_with_its_place_and_the_rest_works(tmp_path: Path) -> None:
    settings(tmp_path, {"show_keys": "F1", "leave": [], "redraw": "Ctrl-O", "sned": "F5"})
    with console(tmp_path, *OFFLINE) as screen:
        wait_for_prompt(screen)
        screen.wait_for("no action")
        screen.settle()
        # Long words break anywhere: the folder's path is a long one.
        said = "".join("".join(screen.scrollback()).split())
        assert 'application.json:4:14$.keys.leave:"leave"cannotbeleftwithoutakey' in said
        assert 'application.json:5:15$.keys.redraw:Ctrl-Oisthekeyof"show_last"already' in said
        assert "Didyoumean'send'?" in said
        screen.type("\x1bOP")
        screen.wait_for("on an empty line: show the keys")
        screen.type("\x04")
        assert screen.wait_exit() == 0


def test_a_key_that_is_set_in_the_console_counts_at_once(tmp_path: Path) -> None:
    with console(tmp_path, *OFFLINE) as screen:
        wait_for_prompt(screen)
        screen.type("/config keys.show_keys Ctrl-O\r")
        screen.wait_for('Ctrl-O is the key of "show_last" already')
        screen.type("/config keys.show_keys F1\r")
        screen.wait_for("It is in effect now.")
        screen.settle()
        screen.type("\x1bOP")
        screen.wait_for("on an empty line: show the keys")
        screen.type("?")
        screen.wait_for("› ?")


def test_a_status_line_stands_below_the_bottom_line_and_takes_nothing_from_it(
    tmp_path: Path,
) -> None:
    with console(tmp_path, *OFFLINE) as screen:
        wait_for_prompt(screen)
        screen.type("/config statusLine.template {model} · {role} y yes, n no\r")
        screen.wait_for("┆ offline · dude y yes, n no")
        screen.type("hello")
        screen.wait_for("⏎ sends to dude")
        rows = [line for line in screen.lines() if line]
        assert rows[-2].startswith("⏎ sends to dude · chat · asks")
        assert rows[-1] == "┆ offline · dude y yes, n no"
        screen.resize(100, 11)
        screen.wait_gone("┆ offline")
        screen.wait_for("⏎ sends to dude")

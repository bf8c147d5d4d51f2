"""The table of keys: bindings, help and the page are made of it."""

import asyncio
import re
from itertools import chain
from pathlib import Path

import pytest
from deadline import DEADLINE_S
from fake_session import FakeSession, no_settings
from prompt_toolkit.key_binding.defaults import load_key_bindings
from prompt_toolkit.key_binding.key_bindings import _parse_key
from prompt_toolkit.keys import Keys

from midstream.app.commands.handler import CommandHandler
from midstream.app.commands.table import FIRST, GROUPS
from midstream.tui import keys
from midstream.tui.interface import ConsoleInterface
from midstream.tui.keymap import called, keys_page, keys_text, use
from midstream.tui.prompt import Prompt
from midstream.tui.themes import Look
from midstream.views.key_table import BEGINNINGS, KEYMAP, WHEN, Key, actions, rebound

ROOT = Path(__file__).parents[2]


class Nobody:
    """A session that only hears what is said."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.ui = self
        self.config = no_settings()

    def say(self, text: str) -> None:
        """Keep it."""
        self.told.append(text)


def prompt() -> Prompt:
    return ConsoleInterface(look=Look(colour=False))._at(FakeSession())


def test_the_page_of_keys_is_what_the_table_says() -> None:
    page = (ROOT / "docs" / "keys.md").read_text(encoding="utf-8")

    assert page == keys_page(), "make docs"


def test_the_page_of_the_console_names_every_command() -> None:
    page = (ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    listed = page.split("every command does, by group: `")[1].split("`")[0].split()

    shown = [*FIRST, *(name for names in GROUPS.values() for name in names)]
    commands = CommandHandler(Nobody()).commands  # type: ignore[arg-type]
    assert sorted(shown) == sorted(commands)
    assert listed == [f"/{name}" for name in shown]


def test_a_slash_alone_offers_the_commands_that_matter_first_and_says_how_many_more() -> None:
    handler = CommandHandler(Nobody())  # type: ignore[arg-type]

    words = handler.completions("/")

    assert [word for word, _ in words] == [f"/{name}" for name in FIRST]
    more = len(handler.commands) - len(FIRST)
    assert words[-1] == ("/help", f"{more} more commands, and the keys")
    assert len(handler.completions("/s")) > 4


@pytest.mark.parametrize("columns", ["40", "80", "200"])
async def test_help_tells_every_command_and_the_keys_within_the_width(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midstream.app.commands.command.columns", lambda: int(columns))
    nobody = Nobody()
    commands = CommandHandler(nobody, topics={"keys": keys_text})  # type: ignore[arg-type]
    async with asyncio.timeout(DEADLINE_S):
        await commands.handle("/help")
        await commands.handle("/help all")
        await commands.handle("/help keys")

    told, everything, keys = nobody.told
    for page in (told, everything):
        assert max(map(len, page.splitlines())) <= int(columns) - 2
    words = " ".join(everything.split())
    for command in commands.commands.values():
        assert f"/{command.name}" in told.replace(":", " ").split()
        assert f"/{command.name}" in words
        assert " ".join(command.summary.split()) in words
    for name in FIRST:
        assert " ".join(commands.commands[name].summary.split()) in " ".join(told.split())
    assert keys == keys_text()


def test_every_key_of_the_table_is_bound_to_what_it_says() -> None:
    found = prompt()
    bound = {binding.keys for binding in keys.bindings(found).bindings}
    wanted = {tuple(map(_parse_key, each)) for row in KEYMAP if row.action for each in row.keys}

    # Any key begins a line of its own where another has just come back: no key of the table does.
    assert bound - {(Keys.Any,)} == wanted
    assert {row.action for row in KEYMAP if row.action} == set(keys.handlers(found))
    assert all(row.keys for row in KEYMAP)


OWN = {
    "Down": Keys.Down,
    "Ctrl-N": Keys.ControlN,
    "Ctrl-R": Keys.ControlR,
    "Ctrl-L": Keys.ControlL,
}


@pytest.mark.parametrize(
    "name", [*chain(*(row.name.split(", ") for row in KEYMAP if not row.action))]
)
def test_a_key_left_to_the_editor_is_bound_there(name: str) -> None:
    assert any(binding.keys == (OWN[name],) for binding in load_key_bindings().bindings)


def test_a_key_means_one_thing_at_a_time() -> None:
    meanings: dict[tuple[str, ...], list[Key]] = {}
    for row in KEYMAP:
        for each in row.keys:
            meanings.setdefault(each, []).append(row)
    # The last of several rows may apply always; those before it must say when.
    unreached = [k for k, found in meanings.items() if any(not r.when for r in found[:-1])]

    assert unreached == []


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_keys_as_text_name_all_of_them_within_the_width(width: int) -> None:
    text = keys_text(width)

    assert max(map(len, text.splitlines())) <= max(20, width)
    words = " ".join(text.split())
    for row in KEYMAP:
        assert row.name in text
        assert " ".join(row.does.replace("`", "").split()) in words or width < 80
    for beginning in BEGINNINGS:
        assert beginning.line in words


# --- keys of one's own ----------------------------------------------------------------------------


def misfits(wanted: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(each.action, each.what) for each in rebound(wanted)[1]]


def names(wanted: dict[str, list[str]]) -> dict[str, str]:
    """Return what is called otherwise than in the table, by action."""
    pairs = zip(KEYMAP, rebound(wanted)[0], strict=True)
    return {was.action: now.name for was, now in pairs if was != now}


def test_an_action_has_the_keys_it_is_given_and_no_others() -> None:
    rows, problems = rebound({"show_last": ["F5", "alt-o"]})

    assert problems == ()
    (row,) = [row for row in rows if row.action == "show_last"]
    assert row.keys == (("f5",), ("escape", "o"))
    assert row.name == "F5, alt-o"


def test_what_stops_keeps_its_own_key_besides() -> None:
    assert names({"escape": ["Ctrl-X"]}) == {"escape": "Esc, Ctrl-X"}
    assert names({"interrupt": ["F12"]}) == {"interrupt": "Ctrl-C, F12"}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"shwo_last": ["F5"]}, [("shwo_last", 'no action "shwo_last".')]),
        ({"paste": ["F5"]}, [("paste", 'the keys of "paste" are fixed.')]),
        ({"show_last": ["Ctrl-Entre"]}, [("show_last", 'no key "Ctrl-Entre".')]),
        ({"show_last": ["F13"]}, [("show_last", 'no key "F13".')]),
        ({"show_last": ["Ctrl-X Ctrl-E"]}, [("show_last", 'no key "Ctrl-X Ctrl-E".')]),
        (
            {"show_last": ["x"]},
            [("show_last", '"x" is a character that is typed; "show_last" cannot have it.')],
        ),
        ({"allow": ["F2"]}, [("allow", '"F2" cannot decide on a call.')]),
        ({"allow": ["Alt-Y"]}, [("allow", '"Alt-Y" cannot decide on a call.')]),
        ({"allow": ["Ctrl-M"]}, [("allow", '"Ctrl-M" cannot decide on a call.')]),
        (
            {"deny": ["Space"]},
            [("deny", '"Space" is a character that is typed; "deny" cannot have it.')],
        ),
        ({"allow": ["n"]}, [("allow", 'n is the key of "deny" already (no).')]),
        (
            {"leave": []},
            [("leave", '"leave" cannot be left without a key: it is needed to leave.')],
        ),
        (
            {"allow": []},
            [("allow", '"allow" cannot be left without a key: it is needed to decide on calls.')],
        ),
        (
            {"redraw": ["F5"], "leave": ["F5"]},
            [("leave", 'F5 is the key of "redraw" already (redraw the screen).')],
        ),
        (
            {"show_last": ["Ctrl-N"]},
            [
                (
                    "show_last",
                    "Ctrl-N is the key of the editor already "
                    "(the line below, else a later line of the history).",
                )
            ],
        ),
    ],
)
def test_what_cannot_be_is_said_and_the_action_keeps_its_own(
    wanted: dict[str, list[str]], said: list[tuple[str, str]]
) -> None:
    assert misfits(wanted) == said
    assert not set(names(wanted)) & {action for action, _ in said}


def test_two_actions_may_change_places() -> None:
    assert names({"allow": ["n"], "deny": ["y"]}) == {"allow": "n", "deny": "y"}
    wanted = {"send": ["Ctrl-Enter"], "steer": [], "new_line": ["Enter"]}
    assert misfits(wanted) == []
    # Without its place there is none to change.
    assert [action for action, _ in misfits({"send": ["Ctrl-Enter"], "new_line": ["Enter"]})] == [
        "send",
        "new_line",
    ]


def test_an_action_may_say_the_keys_it_has_anyway() -> None:
    wanted = {
        action: [row.name.partition(", ")[0].removesuffix(" Esc")]
        for action, row in actions().items()
    }

    assert misfits(wanted) == []


def test_what_the_screen_says_is_what_the_keys_are() -> None:
    try:
        use({"show_last": ["F5"], "send": ["Alt-Enter"], "new_line": ["Enter"], "queue": []})
        assert (called("send"), called("show_last"), called("queue")) == ("Alt-Enter", "F5", "")
        text = keys_text()
        assert "F5" in text
        assert "Ctrl-O" not in text
        assert "queue the line" not in text
    finally:
        use({})
    assert called("send") == "⏎"


def test_keys_some_terminals_cannot_tell_have_a_plain_way() -> None:
    for row in KEYMAP:
        if re.search(r"Alt-|Ctrl-Enter|Shift-|^Tab, with", row.name):
            assert row.plain, row


def test_every_time_of_the_table_is_known() -> None:
    assert {when for row in KEYMAP for when in row.when} <= set(WHEN)
    assert set(keys._times(prompt())) == set(WHEN)

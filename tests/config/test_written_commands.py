"""Commands people write: whose count, from which folders, and what trust has to do with it."""

import os
from pathlib import Path

import pytest
from tables import table

from midstream.config.commands import MAX_TEXT, written_commands
from midstream.config.manager import ConfigManager
from midstream.config.open_settings import UNREAD_BESIDE, open_settings, require_trust
from midstream.config.trust import TrustStore
from midstream.config.trust_preview import enables, shown_name


@pytest.fixture
def workspace(own_folder: Path) -> Path:
    folder = own_folder / "repo"
    folder.mkdir()
    return folder


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def trusted(workspace: Path) -> ConfigManager:
    return open_settings(workspace, asks=lambda status, store: True)


def texts(config: ConfigManager) -> dict[str, str]:
    return {name: each.text for name, each in written_commands(config).items()}


def test_the_nearer_one_counts(workspace: Path) -> None:
    put(workspace.parent / "config", "commands/a.md", "mine")
    put(workspace.parent / "config", "commands/b.md", "mine")
    put(workspace, ".claude/commands/b.md", "theirs")
    put(workspace, ".claude/commands/c.md", "theirs")
    put(workspace, ".midstream/commands/c.md", "ours")

    assert texts(trusted(workspace)) == {"a": "mine", "b": "theirs", "c": "ours"}


def test_a_head_says_what_help_tells(workspace: Path) -> None:
    text = "---\ndescription: Reviews\nargument-hint: FILE\nrole: coder\nmodel: x\n---\nReview $1\n"
    put(workspace.parent / "config", "commands/Review.md", text)
    found = written_commands(open_settings(workspace))["review"]

    assert (found.description, found.arguments, found.role) == ("Reviews", "FILE", "coder")
    assert (found.text, found.layer) == ("Review $1", "user")


@pytest.mark.parametrize("place", [".midstream", ".claude"])
def test_untrusted_or_changed_nothing_of_the_workspace_is_read(workspace: Path, place: str) -> None:
    file = put(workspace, f"{place}/commands/a.md", "as it was")
    assert texts(open_settings(workspace)) == {}
    config = trusted(workspace)
    assert texts(config) == {"a": "as it was"}
    file.write_text("another")
    os.utime(file, ns=(0, 0))

    assert texts(config) == {}
    assert any("has changed since" in notice for notice in config.notices)
    assert texts(open_settings(workspace)) == {}


def test_words_of_another_program_make_no_workspace_untrusted(workspace: Path) -> None:
    put(workspace, ".claude/commands/a.md", "words")
    config = open_settings(workspace)

    require_trust(config)
    assert not config.is_untrusted
    assert config.notices == (UNREAD_BESIDE,)


def test_a_changed_one_takes_no_trust_from_what_stands_beside_it(workspace: Path) -> None:
    put(workspace, ".claude/commands/a.md", "words")
    put(workspace, "AGENTS.md", "Use tabs.")
    put(workspace, ".midstream/commands/b.md", "more words")
    trusted(workspace)
    put(workspace, ".claude/commands/a.md", "other words")
    config = open_settings(workspace)

    assert config.grant is not None
    assert config.grant.names() == ("../AGENTS.md", "commands/b.md")
    assert UNREAD_BESIDE in config.notices


def test_trust_lists_them_and_says_what_they_do(workspace: Path) -> None:
    put(workspace, ".claude/commands/a.md", "words")
    put(workspace, ".claude/commands/deep/b.md", "words")
    put(workspace, ".claude/commands/notes.txt", "words")
    put(workspace, ".claude/settings.json", "{}")
    (file,) = TrustStore(workspace.parent / "state").status(workspace).files

    assert shown_name(file.name) == ".claude/commands/a.md"
    assert enables(file.name, b"words") == (
        "the command /a: its words are sent as yours when you type it",
    )


def test_trust_says_of_a_command_that_it_runs_commands() -> None:
    (words,) = enables("commands/a.md", b"See !`git log $((1 + $1))`")

    assert words.endswith("and commands in them are run, as an agent's are")


UNFIT = {
    "no text": ("a.md", "---\ndescription: x\n---\n", "has no text"),
    "too long": ("a.md", "x" * (MAX_TEXT + 1), "has more than"),
    "a gap in its name": ("a b.md", "x", "letters, digits"),
}


@table(("name", "text", "why"), UNFIT.values(), ids=UNFIT)
def test_what_is_no_command_is_told(tmp_path: Path, name: str, text: str, why: str) -> None:
    environ = {key: str(tmp_path) for key in ("MIDSTREAM_CONFIG_HOME", "MIDSTREAM_STATE_HOME")}
    put(tmp_path, f"commands/{name}", text)
    config = ConfigManager(tmp_path / "repo", environ=environ)

    assert texts(config) == {}
    assert why in config.notices[0]

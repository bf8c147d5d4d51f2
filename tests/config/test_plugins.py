"""Plugins: one yes to all of their files, read as everything else is, and never in the way of it."""

import json
import os
from pathlib import Path

import pytest

from midstream.config.commands import written_commands
from midstream.config.hooks import hooks_of
from midstream.config.manager import ConfigManager
from midstream.config.plugins import contents, files_in, install, plugins, remove
from midstream.config.skills import skill_text, skills, skills_told
from midstream.config.trust import TrustStore
from midstream.config.trust_preview import enables
from midstream.language.errors import MidstreamError, NotTrusted, UserMistake

FILES = {
    ".claude-plugin/plugin.json": json.dumps(
        {"name": "zoo", "version": "1.2.0", "description": "Counts", "author": {"name": "a"}}
    ),
    "commands/count.md": "---\ndescription: Counts\n---\nCount $1.",
    "commands/help.md": "Not this.",
    "skills/feed/SKILL.md": "---\ndescription: Feeds\n---\nFeed them.",
    "skills/feed/food.md": "Hay.",
    "roles/keeper.md": "---\ndescription: Keeps\n---\nKeep.",
    "roles/coder.md": "---\nexcludedTools: []\n---\nBe bad.",
    "workflows/tour.json": json.dumps({"workflow_name": "tour", "description": "Shows"}),
    "tools/evil.py": "print(1)",
    "application.json": json.dumps({"permissionMode": "full"}),
    "README.md": "words",
}


class Person:
    """A person with a config folder, and a plugin somebody gave them."""

    def __init__(self, base: Path) -> None:
        self.home, self.state, self.given = base / "config", base / "state", base / "given"
        self.store = TrustStore(self.state)
        self.put(FILES)

    def put(self, files: dict[str, str], *, into: Path | None = None) -> None:
        for name, text in files.items():
            path = (into or self.given) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def add(self, *, is_trusted: bool = True) -> Path:
        folder = install(files_in(self.given), "somewhere", self.home)
        if is_trusted:
            self.store.grant(self.store.status(folder))
        return folder

    def config(self) -> ConfigManager:
        environ = {
            "MIDSTREAM_CONFIG_HOME": str(self.home),
            "MIDSTREAM_STATE_HOME": str(self.state),
        }
        return ConfigManager(self.home.parent / "repo", environ=environ)


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_a_trusted_one_brings_commands_skills_roles_and_workflows(person: Person) -> None:
    person.add()
    config = person.config()

    assert written_commands(config)["count"].plugin == "zoo"
    assert config.roles()["keeper"].description == "Keeps (plugin zoo)"
    assert config.workflows()["tour"].description == "Shows (plugin zoo)"
    assert config.read(config.workflows()["tour"].path)
    assert "- feed: Feeds" in str(skills_told(config))
    assert "Feed them." in skill_text(config, "feed")
    assert "of the plugin zoo; it allows nothing" in skill_text(config, "feed")
    assert "Hay." in skill_text(config, "feed", "food.md")
    assert config.notices == ()


def test_it_replaces_nothing_and_is_called_by_its_own_name_then(person: Person) -> None:
    person.add()
    person.put(
        {
            "commands/count.md": "Mine.",
            "skills/feed/SKILL.md": "---\ndescription: Mine\n---\nMine.",
            "roles/keeper.md": "---\ndescription: Mine\n---\nMine.",
        },
        into=person.home,
    )
    config = person.config()
    commands = written_commands(config, {"help"})

    assert (commands["count"].text, commands["zoo:count"].text) == ("Mine.", "Count $1.")
    assert ("help" in commands, commands["zoo:help"].text) == (False, "Not this.")
    assert config.roles()["keeper"].description == "Mine"
    assert config.roles()["zoo:keeper"].systemMessage == "Keep."
    assert config.role_files()["coder"].layer == "built-in"
    assert config.role_files()["zoo:coder"].layer == "plugin"
    assert skills(config)["feed"].description == "Mine"
    assert "Hay." in skill_text(config, "zoo:feed", "food.md")


def test_what_it_brings_besides_is_not_there(person: Person) -> None:
    folder = person.add()
    there = sorted(each.name for each in (folder / ".midstream").iterdir())
    config = person.config()

    assert there == ["commands", "plugin.json", "roles", "skills", "workflows"]
    assert config.tool_files() == ()
    assert config.value("permissionMode") == "ask"


@pytest.mark.parametrize("how", ["never trusted", "changed", "added to", "lacking"])
def test_an_untrusted_or_changed_one_brings_nothing(person: Person, how: str) -> None:
    folder = person.add(is_trusted=how != "never trusted") / ".midstream"
    if how == "changed":
        (folder / "skills/feed/food.md").write_text("Meat.")
    elif how == "added to":
        (folder / "commands/more.md").write_text("More.")
    elif how == "lacking":
        (folder / "roles/keeper.md").unlink()
    config = person.config()

    assert (written_commands(config), skills(config)) == ({}, {})
    assert "keeper" not in config.roles()
    assert "tour" not in config.workflows()
    assert "The plugin zoo is not trusted as it stands" in config.notices[0]
    with pytest.raises(NotTrusted):
        config.read(folder / "commands/count.md")


def test_a_file_that_changes_while_a_console_runs_is_read_no_more(person: Person) -> None:
    folder = person.add()
    config = person.config()
    assert "count" in written_commands(config)
    (folder / ".midstream/commands/count.md").write_text("Something longer than it was.")

    assert "count" not in written_commands(config)
    assert any("has changed since" in notice for notice in config.notices)


def test_the_question_says_what_its_roles_may_call() -> None:
    assert enables("roles/keeper.md", b"---\nlevel: smart\n---\nKeep.") == (
        "the role keeper, which may call every tool",
    )


HOOKS = {
    "hooks": {
        "PreToolUse": [
            {"hooks": [{"command": "$CLAUDE_PLUGIN_ROOT/hooks/guard.sh", "sandbox": False}]}
        ]
    }
}


def test_its_hooks_run_in_the_sandbox_with_its_own_folder(person: Person) -> None:
    person.put({"hooks/hooks.json": json.dumps(HOOKS), "hooks/guard.sh": "exit 2"})
    root = person.add() / ".midstream"
    (hook,), (problem,) = hooks_of(person.config())

    assert (hook.source, hook.root, hook.is_boxed) == ("plugin", str(root), True)
    assert hook.command == "$CLAUDE_PLUGIN_ROOT/hooks/guard.sh"
    assert "a plugin may not take a hook out of the sandbox" in str(problem)
    assert os.access(root / "hooks" / "guard.sh", os.X_OK)
    told = enables("hooks/hooks.json", json.dumps(HOOKS).encode())
    assert f"of a plugin: the hook at PreToolUse, in the sandbox: {hook.command}" in told


def test_hooks_of_one_that_is_not_trusted_are_none(person: Person) -> None:
    person.put({"hooks/hooks.json": json.dumps(HOOKS)})
    person.add(is_trusted=False)

    assert hooks_of(person.config()) == ((), ())


def test_adding_it_again_asks_again_only_where_it_differs(person: Person) -> None:
    person.add()
    assert person.store.status(person.add(is_trusted=False)).kind == "trusted"
    person.put({"commands/count.md": "Another."})
    status = person.store.status(person.add(is_trusted=False))

    assert [(each.name, each.how) for each in status.changes] == [("commands/count.md", "changed")]


def test_it_is_listed_and_removed_with_the_trust_in_it(person: Person) -> None:
    folder = person.add()
    (found,) = plugins(person.home, person.store)
    assert found.manifest is not None
    assert (found.name, found.status.kind) == ("zoo", "trusted")
    assert (found.manifest.version, found.manifest.source) == ("1.2.0", "somewhere")
    assert contents({file.name: "" for file in found.status.files}) == (
        "commands count, help; skills feed; roles coder, keeper; workflows tour"
    )
    remove("zoo", person.home, person.store)

    assert (plugins(person.home, person.store), folder.exists()) == ((), False)
    assert person.store.workspaces() == {}
    with pytest.raises(UserMistake, match="no plugin 'zoo'"):
        remove("zoo", person.home, person.store)


def test_one_that_cannot_be_installed_leaves_the_one_before_it(person: Person) -> None:
    folder = person.add()
    (person.given / "commands" / "count.md").unlink()
    (person.given / "commands" / "count.md").symlink_to("/etc/passwd")
    with pytest.raises(MidstreamError):
        person.add()

    assert (folder / ".midstream/commands/count.md").read_text() == FILES["commands/count.md"]
    assert person.store.status(folder).kind == "trusted"

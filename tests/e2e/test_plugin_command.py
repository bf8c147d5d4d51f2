"""`midstream plugin` at a terminal and without one, and what a plugin brings into the console."""

import json
from pathlib import Path

from console_kit import MIDSTREAM, environment
from deadline import DEADLINE_S
from pipes_kit import OFFLINE, run, workspace_of
from screen import Screen

CTRL_D = "\x04"


def plugin(home: Path, text: str = "Count $1.") -> str:
    folder = home / "given"
    (folder / "commands").mkdir(parents=True, exist_ok=True)
    said = {"name": "zoo", "version": "1.2.0", "description": "Counts"}
    (folder / "plugin.json").write_text(json.dumps(said))
    (folder / "commands" / "count.md").write_text(text)
    return str(folder)


def screen(home: Path, *arguments: str) -> Screen:
    workspace_of(home)
    return Screen.spawn(
        [*MIDSTREAM, *arguments], env=environment(home), cols=120, rows=30, deadline_s=DEADLINE_S
    )


def test_it_is_looked_at_and_trusted_at_a_terminal_and_then_used(tmp_path: Path) -> None:
    shown = screen(tmp_path, "plugin", "add", plugin(tmp_path))
    shown.wait_for("These are the files of the plugin zoo")
    shown.wait_for("the command /count: its words are sent as yours")
    shown.press("t\r")
    shown.wait_for("The plugin zoo is used from the next start on.")
    assert shown.wait_exit() == 0

    console = screen(tmp_path, "--workspace", str(workspace_of(tmp_path)), "--model", "offline")
    console.wait_for("chat with dude")
    console.type("/help count\r")
    console.wait_for("sends its text (plugin zoo)")
    console.type("/count bears\r")
    console.wait_for("│ Count bears.")
    console.settle()
    console.type(CTRL_D)
    assert console.wait_exit() == 0

    again = screen(tmp_path, "plugin", "add", plugin(tmp_path, "Eat $1."))
    again.wait_for("(changed since you trusted it)")
    again.wait_for("+Eat $1.")
    again.press("n\r")
    assert again.wait_exit() == 3
    assert run(tmp_path, "chat", "/count bears", *OFFLINE).code == 2


def test_without_a_terminal_it_is_copied_and_nothing_of_it_used(tmp_path: Path) -> None:
    added = run(tmp_path, "plugin", "add", plugin(tmp_path))
    said = run(tmp_path, "chat", "/count bears", *OFFLINE)
    listed = run(tmp_path, "plugin", "list")
    (row,) = json.loads(run(tmp_path, "plugin", "list", "--json").out)

    assert (added.code, said.code, listed.code) == (3, 2, 0)
    assert "The plugin zoo is not trusted as it stands" in said.told
    assert "zoo 1.2.0 not trusted" in " ".join(listed.out.split())
    assert (row["state"], row["brings"]) == ("untrusted", "commands count")
    assert run(tmp_path, "plugin", "remove", "zoo").out == "The plugin zoo is removed.\n"
    assert "There is no plugin." in run(tmp_path, "plugin").out


def test_what_is_no_plugin_is_told(tmp_path: Path) -> None:
    nowhere = run(tmp_path, "plugin", "add", "nowhere")
    empty = run(tmp_path, "plugin", "add", str(workspace_of(tmp_path)))
    gone = run(tmp_path, "plugin", "remove", "zoo")

    assert [each.code for each in (nowhere, empty, gone)] == [2, 2, 2]
    assert "A repository's address begins with https://" in nowhere.told
    assert "is no plugin: it has no .claude-plugin/plugin.json and no plugin.json" in empty.told

"""fork, undo, replay, export and import as a person types them, over a journal on disk."""

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from console_kit import DEADLINE_S, MIDSTREAM, chatting, environment
from pipes_kit import MODEL, Ended, run, workspace_of
from screen import CTRL_C, Screen
from support.openai_server import Call, OpenAIServer, Reply

from midstream.cli.main import exit_code
from midstream.config.directories import JOURNAL_VARIABLE
from midstream.core.events import FileWritten
from midstream.core.notices import Envelope
from midstream.language.errors import JournalFull
from midstream.store.sqlite import SqliteStore
from midstream.system.offloop import in_thread

BEFORE = "def f(x):\n    return x if x else 0\n"
SHIFT_TAB = "\x1b[Z"
AFTER = "def f(x):\n    return x or 0\n"


def calls(name: str, arguments: dict[str, Any]) -> Reply:
    return Reply(calls=(Call(name=name, arguments=arguments),))


EDIT = calls(
    "edit_file",
    {"path": "app.py", "edits": [{"old_text": "x if x else 0", "new_text": "x or 0"}]},
)
WRITE = calls("write_file", {"path": "docs/new.md", "content": "# New\n"})
SHELL = calls("execute_terminal", {"command": "echo built > built.txt"})


def runs(home: Path) -> list[str]:
    """Return the ids of the runs in the journal, the oldest first."""
    if address := os.environ.get(JOURNAL_VARIABLE):
        with psycopg.connect(address) as database:
            found = database.execute("select id from midstream.runs order by number").fetchall()
        return [str(row[0]) for row in found]
    connection = apsw.Connection(str(home / "state" / "journal.db"))
    try:
        return [str(row[0]) for row in connection.execute("select id from runs order by number")]
    finally:
        connection.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home `kept` of all tests whose journal is a file."""
    return worked_in(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def kept(request: pytest.FixtureRequest, journal_address: str, tmp_path: Path) -> Path:
    """A home in which a chat edited one file, made another and ran a command: not to be changed."""
    if journal_address:
        (tmp_path / "kept").mkdir()
        return worked_in(tmp_path / "kept")
    home: Path = request.getfixturevalue("shared")
    return home


@pytest.fixture
def home(kept: Path, tmp_path: Path) -> Iterator[Path]:
    """The same home for a test that changes it: put back afterwards where it was, as paths name it."""
    # As root the sandbox keeps devices in the state folder: a copy of /dev/full has no end.
    devices = shutil.ignore_patterns("dev")
    copy = shutil.copytree(kept, tmp_path / "copy", symlinks=True, ignore=devices)
    yield kept
    shutil.rmtree(kept)
    shutil.copytree(copy, kept, symlinks=True)


def worked_in(home: Path) -> Path:
    script = [EDIT, WRITE, SHELL, Reply(text="All done.")]
    allow = (
        "--allow",
        "edit_file",
        "--allow",
        "write_file",
        "--allow",
        "execute_terminal",
        "--allow",
        "outside: *",
    )
    with OpenAIServer(script) as server:
        ended = run(home, *MODEL, *allow, "chat", "mend it", server=server)
    assert ended.code == 0, ended.err
    assert (workspace_of(home) / "app.py").read_text(encoding="utf-8") == AFTER
    return home


def in_one_line(screen: Screen) -> str:
    """Return all that is on the screen, however it was wrapped."""
    return " ".join(" ".join(screen.scrollback()).split())


def travel(home: Path, *words: str) -> Ended:
    """Run a command that needs no model, with nothing to reach one by."""
    return run(home, *words)


def the_run(home: Path) -> str:
    (id,) = runs(home)
    return id


@pytest.mark.both_journals
def test_undo_takes_the_turn_back_and_the_files_with_it(home: Path) -> None:
    id = the_run(home)

    ended = travel(home, "undo", id)

    workspace = workspace_of(home)
    assert ended.code == 0, ended.err
    new = runs(home)[-1]
    assert ended.out.startswith(f"Run {new} goes on from event ")
    assert "\nTaken back: “mend it”\n" in ended.out
    assert "Not taken back:\n  execute_terminal: echo built > built.txt (completed)\n" in ended.out
    assert "app.py: changed" not in ended.out
    assert (
        "\nFiles as they were then:\n"
        "  app.py: put back\n  docs/new.md: removed\n  docs/: removed\n" in ended.out
    )
    assert (workspace / "app.py").read_text(encoding="utf-8") == BEFORE
    assert not (workspace / "docs").exists()
    assert (workspace / "built.txt").exists()
    old, new = runs(home)
    assert ended.out.endswith(
        f"\nRun {new} is kept where it stopped: `midstream resume {new}` goes on.\n"
    )
    assert json.loads(travel(home, "replay", old, "--json").out)["damaged"] is None


def test_undo_lists_a_file_changed_since_once_as_left(home: Path) -> None:
    (workspace_of(home) / "app.py").write_text("mine\n", encoding="utf-8")

    ended = travel(home, "undo", the_run(home))

    _, _, stays = ended.out.partition("Not taken back:\n")
    assert "  app.py: left, it has been changed since\n" in stays
    assert ended.out.count("app.py") == 1
    assert "  docs/new.md: removed\n" in ended.out


def test_a_fork_leaves_the_files_unless_it_is_told_to(home: Path) -> None:
    id = the_run(home)

    ended = travel(home, "fork", id[:3], "--at", "3")

    assert ended.code == 0, ended.err
    assert "The files were left as they are; --put-back puts them back." in ended.told
    assert (workspace_of(home) / "app.py").read_text(encoding="utf-8") == AFTER
    assert len(runs(home)) == 2


def test_a_file_the_person_went_on_with_is_not_put_back(home: Path) -> None:
    app = workspace_of(home) / "app.py"
    app.write_text("mine\n", encoding="utf-8")

    ended = travel(home, "fork", the_run(home), "--at", "3", "--put-back")

    assert "app.py: left, it has been changed since\n" in ended.out
    assert "  docs/new.md: removed\n" in ended.out
    assert "created" not in ended.out
    assert "changed\n" not in ended.out
    assert app.read_text(encoding="utf-8") == "mine\n"


def test_json_is_one_object(home: Path) -> None:
    ended = travel(home, "fork", the_run(home), "--at", "3", "--put-back", "--json")

    told = json.loads(ended.out)
    assert (told["type"], told["source"], told["run"]) == ("forked", *runs(home))
    assert [call["command"] for call in told["calls"]] == ["", "echo built > built.txt"]
    assert [file["path"].rpartition("/")[2] for file in told["files"]] == ["app.py", "new.md"]
    ends = [(one["path"].partition("/workspace/")[2], one["result"]) for one in told["returned"]]
    assert ends == [("app.py", "put_back"), ("docs/new.md", "removed"), ("docs/", "removed")]
    assert ended.err == ""


@pytest.mark.parametrize(("key", "held"), [("y", BEFORE), ("n", AFTER), ("", AFTER)])
def test_in_a_terminal_it_asks(home: Path, key: str, held: str) -> None:
    words = ("fork", the_run(home), "--at", "3")
    screen = Screen.spawn(
        [*MIDSTREAM, *words], env=environment(home), cols=100, rows=30, deadline_s=DEADLINE_S
    )
    with screen:
        screen.wait_for("Put these 2 files back as they were then? [y/N]")
        screen.press(f"{key}\r")
        screen.wait_for("goes on.")

    assert (workspace_of(home) / "app.py").read_text(encoding="utf-8") == held


@pytest.mark.both_journals
def test_redo_brings_the_turn_and_its_files_forward(home: Path) -> None:
    app = workspace_of(home) / "app.py"
    travel(home, "undo", the_run(home))
    old, undone = runs(home)

    ended = travel(home, "redo", undone)

    assert ended.code == 0, ended.err
    *_, new = runs(home)
    assert ended.out.startswith(f"Run {new} goes on from event ")
    assert f" of run {old}, as it was." in ended.out
    assert "  app.py: changed again\n" in ended.out
    assert "  docs/new.md: created again\n" in ended.out
    assert app.read_text(encoding="utf-8") == AFTER
    assert (workspace_of(home) / "docs/new.md").read_text(encoding="utf-8") == "# New\n"
    for id in (old, undone, new):
        assert json.loads(travel(home, "replay", id, "--json").out)["damaged"] is None
    again = travel(home, "redo", new)
    assert again.code == 2
    assert "There is nothing to redo" in again.told


def test_redo_is_refused_over_a_file_changed_since(home: Path) -> None:
    app = workspace_of(home) / "app.py"
    travel(home, "undo", the_run(home))
    app.write_text("mine\n", encoding="utf-8")
    *_, undone = runs(home)

    ended = travel(home, "redo", undone)

    assert ended.code != 0
    assert "app.py: it has been changed since" in ended.told
    assert app.read_text(encoding="utf-8") == "mine\n"
    assert not (workspace_of(home) / "docs/new.md").exists()
    assert len(runs(home)) == 2


def test_undo_can_keep_the_files(home: Path) -> None:
    ended = travel(home, "undo", the_run(home), "--keep-files")

    assert "The files were left as they are." in ended.told
    assert (workspace_of(home) / "app.py").read_text(encoding="utf-8") == AFTER


@pytest.mark.journal_file
def test_undo_of_files_that_cannot_be_recorded_names_the_fork_and_leaves_them(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    append = SqliteStore.append

    async def full(store: SqliteStore, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        if any(isinstance(each.event, FileWritten) for each in facts):
            raise JournalFull("There is no room.")
        await append(store, run, expected, facts)

    monkeypatch.setattr(SqliteStore, "append", full)
    for name, value in environment(home, None).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(workspace_of(home))

    assert exit_code(["undo", the_run(home)]) == 1

    told = capfd.readouterr()
    assert told.out.startswith(f"Run {runs(home)[-1]} goes on from event ")
    assert "The files stay: There is no room." in told.err
    assert (workspace_of(home) / "app.py").read_text(encoding="utf-8") == AFTER


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_in_the_console_undo_and_redo_take_files_along(tmp_path: Path, cols: int) -> None:
    script = [EDIT, WRITE, Reply(text="All done.")]
    allowed = ("--allow", "edit_file", "--allow", "write_file")
    folder = workspace_of(tmp_path)
    with chatting(script, tmp_path, *MODEL, *allowed, workspace=folder, cols=cols, rows=70) as (
        screen,
        _,
    ):
        screen.type("mend it\r")
        screen.wait_for("All done.")
        screen.type("/diff\r")
        screen.wait_for("docs/new.md  +1 -0  (new)")
        assert screen.text().count("+    return x or 0") == 2
        screen.type("/undo\r")
        screen.wait_for("Taken back: “mend it”")
        screen.wait_until(lambda s: "removed · /redo goes forward" in in_one_line(s))
        assert "“mend it” · app.py put back · docs/new.md removed" in in_one_line(screen)
        assert (folder / "app.py").read_text(encoding="utf-8") == BEFORE
        assert not (folder / "docs" / "new.md").exists()
        screen.type("/redo\r")
        screen.wait_for("Redone: “mend it”")
        again = "Redone: “mend it” · app.py changed again · docs/new.md created again"
        screen.wait_until(lambda s: again in in_one_line(s))
        for bookkeeping in ("goes on from event", "goes on in this process", "Here is"):
            assert bookkeeping not in in_one_line(screen)
        assert (folder / "app.py").read_text(encoding="utf-8") == AFTER
        screen.type("/redo\r")
        screen.wait_for("There is nothing to redo")
        screen.type(f"{CTRL_C}/cost\r")
        screen.wait_for("No budget is set")
        screen.type("/model smart offline\r")
        screen.wait_for("smart  offline (the")
        screen.settle(0.5)
        screen.type(SHIFT_TAB)
        screen.wait_for("auto: edits")
        assert max(map(len, screen.lines())) <= cols


def test_in_the_console_putback_puts_back_what_undo_left(tmp_path: Path) -> None:
    script = [EDIT, WRITE, Reply(text="All done.")]
    allowed = ("--allow", "edit_file", "--allow", "write_file")
    folder = workspace_of(tmp_path)
    with chatting(script, tmp_path, *MODEL, *allowed, workspace=folder) as (screen, _):
        screen.type("/putback\r")
        screen.wait_for("There is no file to put back.")
        screen.type(f"{CTRL_C}mend it\r")
        screen.wait_for("All done.")
        screen.type("/undo --keep-files\r")
        screen.wait_for("/putback puts the files back as they were then.")
        assert (folder / "app.py").read_text(encoding="utf-8") == AFTER
        screen.type("/putback\r")
        screen.wait_for("app.py: put back")
        screen.wait_for("docs/new.md: removed")
        assert (folder / "app.py").read_text(encoding="utf-8") == BEFORE
        assert not (folder / "docs" / "new.md").exists()
        screen.type("/putback\r")
        screen.wait_until(lambda s: s.text().count("There is no file to put back.") == 2)


@pytest.mark.journal_file
def test_a_run_goes_to_another_home_and_does_nothing_there(home: Path, tmp_path: Path) -> None:
    id = the_run(home)
    other = tmp_path / "other"
    other.mkdir()
    file = tmp_path / "run.jsonl"

    sent = travel(home, "export", id, str(file), "--with-files")
    again = travel(home, "export", id, str(file))
    came = travel(other, "import", str(file))
    twice = travel(other, "import", str(file))
    forked = travel(other, "fork", id, "--at", "3", "--put-back")

    assert (sent.code, sent.out) == (0, "")
    assert "check it before you share it" in sent.told
    assert file.stat().st_mode & 0o777 == 0o600
    assert (again.code, "is there already" in again.told) == (2, True)
    assert came.out.startswith(f"Imported run {id}: ")
    assert "It does not go on by itself." in came.out
    assert f"Run {id} is here already" in twice.out
    assert "It was imported: its files are not those here" in forked.told
    assert (workspace_of(home) / "app.py").read_text(encoding="utf-8") == AFTER


def test_an_export_to_stdout_is_json_lines(kept: Path) -> None:
    ended = travel(kept, "export", the_run(kept))

    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert lines[0]["facts"] == len(lines) - 1
    assert [line["seq"] for line in lines[1:]] == list(range(1, len(lines)))


def test_an_export_to_a_file_of_markdown_is_for_reading(kept: Path, tmp_path: Path) -> None:
    id, file = the_run(kept), tmp_path / "run.md"

    with_files = travel(kept, "export", id, str(file), "--with-files")
    ended = travel(kept, "export", id, str(file))

    assert (with_files.code, "--with-files goes with the facts" in with_files.told) == (2, True)
    assert (ended.code, ended.out) == (0, "")
    assert "to be read. Check it before you share it." in ended.told
    text = file.read_text(encoding="utf-8")
    assert "mend it" in text
    assert "app.py +1 -1" in text
    assert "checksum" not in text


def test_a_damaged_file_is_refused_with_its_line(kept: Path, tmp_path: Path) -> None:
    text = travel(kept, "export", the_run(kept)).out
    file = tmp_path / "run.jsonl"
    file.write_text(text.replace("mend it", "rend it"), encoding="utf-8")

    ended = travel(kept, "import", str(file))

    assert ended.code == 2
    assert "run.jsonl:" in ended.told
    assert "the checksum of fact" in ended.told
    assert len(runs(kept)) == 1


def test_replay_folds_again_and_compares(kept: Path) -> None:
    ended = travel(kept, "replay", the_run(kept))

    assert ended.code == 0, ended.err
    assert "it matches what its process kept." in ended.out


def damage(home: Path) -> None:
    """Change fact 4 on the disk."""
    connection = apsw.Connection(str(home / "state" / "journal.db"))
    connection.execute("update facts set body=replace(body, 'mend it', 'rend it') where seq=4")
    changed = connection.changes()
    connection.close()
    assert changed == 1


@pytest.mark.journal_file
def test_a_fork_of_a_damaged_run_says_that_it_cannot_tell_what_was_done(home: Path) -> None:
    id = the_run(home)
    damage(home)

    ended = travel(home, "fork", id)
    told = json.loads(travel(home, "fork", id, "--json").out)

    assert ended.code == 0, ended.err
    assert "What was done from event 4 on is not known: the journal is damaged there." in ended.out
    assert told["damaged"] == 4


@pytest.mark.journal_file
def test_replay_names_a_damaged_fact(home: Path) -> None:
    id = the_run(home)
    damage(home)

    ended = travel(home, "replay", id)
    told = json.loads(travel(home, "replay", id, "--json").out)

    assert ended.code == 1
    assert f"Run {id}: 3 facts replayed" in ended.out
    assert ended.out.count("is damaged") == 1
    assert f"Fact 4 of run {id} is damaged: it is not what was written." in ended.out
    assert (told["damaged"], told["facts"]) == (4, 3)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("fork nosuch", "There is no run 'nosuch'."),
        ("undo nosuch", "There is no run 'nosuch'."),
        ("replay nosuch", "There is no run 'nosuch'."),
        ("export nosuch", "There is no run 'nosuch'."),
        ("fork RUN --at 0", "there is no fact 0"),
        ("fork RUN --at 99999", "there is no fact 99999"),
        ("fork RUN --at x", "'x' is not a valid integer"),
        ("import nosuch.jsonl", "does not exist"),
        ("export RUN nosuch/x.jsonl", "cannot be written: No such file or directory"),
    ],
)
def test_what_cannot_be_done_says_why(kept: Path, words: str, told: str) -> None:
    argv = [the_run(kept) if word == "RUN" else word for word in shlex.split(words)]

    ended = travel(kept, *argv)

    assert ended.code in (1, 2)
    assert told in ended.told
    assert len(runs(kept)) == 1


@pytest.mark.journal_file
async def test_a_run_another_process_runs_is_not_undone(home: Path) -> None:
    async with asyncio.timeout(DEADLINE_S):
        store = await in_thread(lambda: SqliteStore.opened(home / "state" / "journal.db"))
        await store.claim(the_run(home))

        ended = await in_thread(lambda: travel(home, "undo", the_run(home)))

        await store.aclose()
    assert ended.code == 2
    assert "nother process" in ended.told
    assert len(runs(home)) == 1


def test_nothing_heavy_is_loaded(kept: Path) -> None:
    code = (
        "import sys; from midstream.cli.main import exit_code; exit_code(sys.argv[1:]);"
        "print([m for m in ('pydantic_ai', 'openai', 'prompt_toolkit', 'rich') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "replay", the_run(kept)],
        env=environment(kept),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "[]"
